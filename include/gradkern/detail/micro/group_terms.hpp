// The terms of register tiles of groups of few channels: the lanes of a group of n share n numbers of a row, which are broadcast
// within the group. With q = j - j % n, for rows i, lanes j, and terms at ka of a row and kb of b:
//
//     c[i][j]  (set | add)  sum of, for l in [0, n),
//         a[i][ka + q + l] * b[kb + l * row + j]                   operand::group_4, group_8; row = all lanes of b. Those of
//                                                                  group_8 lie in the order that pair_group_8 writes
//     c[i][2 * q + 4 * v + j - q]  (set | add)  sum of, for two vectors v, n = 4 and l in [0, n),
//         a[i][ka + q + l] . b[kb + (2 * l + v) * lanes + j]       operand::pair_group_8, of pairs: groups of eight
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/micro/tile_sums.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One term of groups of four numbers, or of four pairs. A row's numbers wait in a register for all that shares them, one vector
/// after the other: g++ would read them again each time.
template <operand A, int Rows, int Vectors>
GRADKERN_ALWAYS_INLINE void add_group_4_term(tile_sums<Rows, Vectors>& sums, const float* const* a, std::ptrdiff_t at,
                                             const float* b) noexcept {
    constexpr int outputs = A == operand::pair_group_8 ? Vectors : 1;  // vectors that share these numbers
    GRADKERN_UNROLL
    for (int v = 0; v < Vectors; v += outputs) {
        simd::vec x[bound(Rows)];
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) x[i] = simd::keep(simd::load(a[i] + at + v * simd::lanes));
        unroll<4>([&](auto l) GRADKERN_INLINE_LAMBDA {
            simd::vec bv[bound(outputs)];
            GRADKERN_UNROLL
            for (int u = 0; u < outputs; ++u) bv[u] = simd::load(b + (l * Vectors + v + u) * simd::lanes);
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) {
                const simd::vec factor = simd::quad_lane<l>(x[i]);
                GRADKERN_UNROLL
                for (int u = 0; u < outputs; ++u) sums.at[i][v + u] = add_product<A>(factor, bv[u], sums.at[i][v + u]);
            }
        });
    }
}

/// One term of groups of eight. Quads of two vectors are put together, so that a broadcast does not leave its quad: CPUs have more
/// units for that. A vector of sums then has one half of the outputs of each group.
template <int Rows, int Vectors>
GRADKERN_ALWAYS_INLINE void add_group_8_term(tile_sums<Rows, Vectors>& sums, const float* const* a, std::ptrdiff_t at,
                                             const float* b) noexcept {
    GRADKERN_NO_UNROLL
    for (int half = 0; half < 2; ++half) {
        simd::vec x[bound(Rows)][bound(Vectors / 2)];
        const auto take = [&](auto quad) GRADKERN_INLINE_LAMBDA {
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) {
                GRADKERN_UNROLL
                for (int v = 0; v < Vectors; v += 2)
                    x[i][v / 2] = simd::every_second_quad<quad>(simd::load(a[i] + at + v * simd::lanes),
                                                                simd::load(a[i] + at + (v + 1) * simd::lanes));
            }
        };
        if (half == 0) {
            take(std::integral_constant<int, 0>{});
        } else {
            take(std::integral_constant<int, 1>{});
        }
        unroll<4>([&](auto l) GRADKERN_INLINE_LAMBDA {
            simd::vec bv[bound(Vectors)];
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) bv[v] = simd::load(b + v * simd::lanes);
            b += Vectors * simd::lanes;
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) {
                GRADKERN_UNROLL
                for (int v = 0; v < Vectors; ++v)
                    sums.at[i][v] = simd::fma(simd::quad_lane<l>(x[i][v / 2]), bv[v], sums.at[i][v]);
            }
        });
    }
}

/// Terms k in [0, left) of a segment.
template <operand A, int Rows, int Vectors>
GRADKERN_ALWAYS_INLINE void add_group_terms(tile_sums<Rows, Vectors>& sums, const float* const* a,
                                            std::ptrdiff_t a_step, const float* b, std::ptrdiff_t b_step,
                                            std::ptrdiff_t left) noexcept {
    std::ptrdiff_t at = 0;
    GRADKERN_NO_UNROLL
    for (; left != 0; --left, at += a_step, b += b_step) {
        if constexpr (A == operand::group_8) {
            add_group_8_term(sums, a, at, b);
        } else {
            add_group_4_term<A>(sums, a, at, b);
        }
    }
}

/// Puts the vectors of sums of groups of eight in the order of the lanes.
template <int Rows, int Vectors>
GRADKERN_ALWAYS_INLINE void order_groups_of_eight(tile_sums<Rows, Vectors>& sums) noexcept {
    GRADKERN_UNROLL
    for (int i = 0; i < Rows; ++i) {
        GRADKERN_UNROLL
        for (int v = 0; v + 1 < Vectors; v += 2) simd::interleave_quads(sums.at[i][v], sums.at[i][v + 1]);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
