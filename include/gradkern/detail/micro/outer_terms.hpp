// The terms of register tiles of weight gradients of groups of few channels: each of n numbers of a row has a vector of sums of its own. With
// q = j - j % 4, or j - j % 8, for v in [0, n), lanes j of a vector, and terms at ka of a row and kb of b:
//
//     c[i][v * c_step + j]  (set | add | resume)  sum of a[i][ka + q + v] * b[kb + j]     operand::outer, n = 4 or 8; with 8 row i reads b
//                                                                                         from i * lanes on
//                                                                                         operand::outer_half: n = 4, groups of eight
#pragma once

#include <cstddef>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/micro/tile_sums.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Number L of each N at `a` in all lanes of its group.
template <operand A, int N, int L>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec group_number(const float* a) noexcept {
    static_assert(N == 4 || N == 8);
    if constexpr (A == operand::outer_half) {
        return simd::quad_lane<L>(simd::quad_of_two<0>(a));
    } else if constexpr (N == 4) {
        return simd::quad_lane<L>(simd::load(a));
    } else {
        return simd::quad_lane<L % 4>(simd::quad_of_two<L / 4>(a));
    }
}

/// Terms k in [0, left) of a segment.
template <operand A, int Rows, int Vectors>
GRADKERN_ALWAYS_INLINE void add_outer_terms(tile_sums<Rows, Vectors>& sums, const row_map& row, const float* const* a,
                                            std::ptrdiff_t a_step, const float* b, std::ptrdiff_t b_step,
                                            std::ptrdiff_t left) noexcept {
    std::ptrdiff_t at = 0;
    GRADKERN_NO_UNROLL
    for (; left != 0; --left, at += a_step, b += b_step) {
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            const simd::vec bv = simd::load(b + (outer_adjoins<Vectors> ? row[i] * simd::lanes : 0));
            const float* const x = a[i] + at;
            unroll<Vectors>([&](auto v) GRADKERN_INLINE_LAMBDA {
                sums.at[i][v] = simd::fma(group_number<A, Vectors, v>(x), bv, sums.at[i][v]);
            });
        }
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
