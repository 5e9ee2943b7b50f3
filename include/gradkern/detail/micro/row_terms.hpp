// The terms of register tiles whose rows are broadcast, or have a number for each lane. For rows i, lanes j, and terms at ka of a
// row and kb of b:
//
//     c[i][j]  (set | add | resume)  sum of a[i][ka]     * b[kb + j]     operand::scalar
//                                           a[i][ka]     . b[kb + j]     operand::pair: of two products
//                                           a[i][ka + j] * b[kb + j]     operand::vector
//                                                                        operand::f16, bf16: so, but a and c have 16 bits, and a
//                                                                        bias is added behind the sum; no resume
#pragma once

#include <cstddef>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/micro/tile_sums.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether rows lie side by side in memory.
template <class Real>
[[nodiscard]] inline bool rows_are_contiguous(const Real* const* a, std::ptrdiff_t rows) noexcept {
    for (std::ptrdiff_t i = 1; i < rows; ++i)
        if (a[i] != a[0] + i) return false;
    return true;
}

/// Whether a tile adds several terms an iteration: of two vectors, whose few sums wait for each other (else jasper_k17 takes 1.04 times as long), and
/// the largest.
template <operand A, int Rows, int Vectors>
inline constexpr bool unrolls_terms = A == operand::scalar&& target.tile.unrolled_terms > 1 &&
                                      (Vectors == 2 ? Rows >= Vectors : Vectors == tile_vectors && Rows == tile_rows);

/// One term of fewer rows than vectors. The few numbers wait in registers, not the many vectors: 16 registers do not hold those,
/// and g++ would read them once for each row.
template <operand A, int Rows, int Vectors, class Real>
GRADKERN_ALWAYS_INLINE void add_wide_term(tile_sums<Rows, Vectors, Real>& sums, const Real* const* a, std::ptrdiff_t at,
                                          const Real* b) noexcept {
    simd::vec_of<Real> x[bound(Rows)];
    GRADKERN_UNROLL
    for (int i = 0; i < Rows; ++i) x[i] = broadcast_number<A>(a[i] + at);
    GRADKERN_UNROLL
    for (int v = 0; v < Vectors; ++v) {
        const simd::vec_of<Real> bv = simd::keep(simd::load(b + v * simd::lanes_of<Real>));
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) sums.at[i][v] = add_product<A>(x[i], bv, sums.at[i][v]);
    }
}

/// One term, or one of several of an iteration. Vectors of b are kept there: of few rows g++ would read them again for each.
template <operand A, bool Unrolled, int Rows, int Vectors, class Real>
GRADKERN_ALWAYS_INLINE void add_term(tile_sums<Rows, Vectors, Real>& sums, const row_number<A, Real>* const* a,
                                     std::ptrdiff_t at, const Real* b) noexcept {
    constexpr int loaded_twice = Unrolled && Vectors == 2 && target.quirk.reload_broadcasts ? Rows / 2 : 0;  // rows
    simd::vec_of<Real> bv[bound(Vectors)];
    GRADKERN_UNROLL
    for (int v = 0; v < Vectors; ++v) {
        bv[v] = simd::load(b + v * simd::lanes_of<Real>);
        if constexpr (Unrolled) bv[v] = simd::keep(bv[v]);
    }
    if constexpr (loaded_twice > 0) {
        GRADKERN_UNROLL
        for (int i = 0; i < loaded_twice; ++i) {
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) sums.at[i][v] = simd::fma_broadcast(a[i] + at, bv[v], sums.at[i][v]);
        }
    }
    GRADKERN_UNROLL
    for (int i = loaded_twice; i < Rows; ++i) {
        simd::vec_of<Real> x = simd::zero<Real>();
        if constexpr (is_broadcast<A>) x = broadcast_number<A>(a[i] + at);
        GRADKERN_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            if constexpr (!is_broadcast<A>) x = load_lanes<A, Real>(a[i] + at + v * simd::lanes_of<Real>);
            sums.at[i][v] = add_product<A>(x, bv[v], sums.at[i][v]);
        }
    }
}

/// Terms k in [0, left) of a segment. `contiguous`: rows lie side by side.
template <operand A, int Rows, int Vectors, class Real>
GRADKERN_ALWAYS_INLINE void add_row_terms(tile_sums<Rows, Vectors, Real>& sums, const row_map& row, bool contiguous,
                                          const row_number<A, Real>** a, std::ptrdiff_t a_step, const Real* b,
                                          std::ptrdiff_t b_step, std::ptrdiff_t left) noexcept {
    if constexpr (unrolls_terms<A, Rows, Vectors>) {
        constexpr int terms = target.tile.unrolled_terms;
        for (; a_step == 1 && left >= terms; left -= terms) {
            GRADKERN_UNROLL
            for (int k = 0; k < terms; ++k, b += b_step) add_term<A, true>(sums, a, k, b);
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) a[i] += terms;
        }
        if (contiguous) {
            GRADKERN_NO_UNROLL
            for (; left != 0; --left, a[0] += a_step, b += b_step) {
                GRADKERN_UNROLL
                for (int i = 1; i < Rows; ++i) a[i] = a[0] + row[i];
                add_term<A, true>(sums, a, 0, b);
            }
        }
    }
    // clang would unroll this loop eight times, which spills (60 GF/s).
    std::ptrdiff_t at = 0;
    GRADKERN_NO_UNROLL
    for (; left != 0; --left, at += a_step, b += b_step) {
        if constexpr (is_broadcast<A> && Rows < Vectors) {
            add_wide_term<A>(sums, a, at, b);
        } else {
            add_term<A, false>(sums, a, at, b);
        }
    }
}

/// The same terms, in one vector, of rows equally far apart, but for the last one: few pointers go from term to term.
template <operand A, int Rows, class Real>
GRADKERN_ALWAYS_INLINE void add_spaced_terms(tile_sums<Rows, 1, Real>& sums, const Real* const* a,
                                             std::ptrdiff_t a_step, const Real* b, std::ptrdiff_t b_step,
                                             std::ptrdiff_t left) noexcept {
    constexpr int rows_of_pointer = 3;  // once, and twice the distance: as addresses of x86 have them
    constexpr int pointers = (Rows + rows_of_pointer - 2) / rows_of_pointer;
    const std::ptrdiff_t row = a[1] - a[0];
    const Real* from[bound(pointers)];
    const Real* last = a[Rows - 1];
    GRADKERN_UNROLL
    for (int i = 0; i < pointers; ++i) from[i] = a[rows_of_pointer * i];
    GRADKERN_NO_UNROLL
    for (; left != 0; --left, b += b_step) {
        const simd::vec_of<Real> bv = simd::load(b);
        GRADKERN_UNROLL
        for (int i = 0; i < Rows - 1; ++i)
            sums.at[i][0] =
                simd::fma(simd::broadcast(from[i / rows_of_pointer][i % rows_of_pointer * row]), bv, sums.at[i][0]);
        sums.at[Rows - 1][0] = simd::fma(simd::broadcast(*last), bv, sums.at[Rows - 1][0]);
        GRADKERN_UNROLL
        for (int i = 0; i < pointers; ++i) from[i] += a_step;
        last += a_step;
    }
}

/// The same terms. Meanwhile what is read later is prefetched.
template <operand A, int Rows, int Vectors, class Real>
GRADKERN_ALWAYS_INLINE void add_prefetching_terms(tile_sums<Rows, Vectors, Real>& sums, later_lines& later,
                                                  const Real* const* a, std::ptrdiff_t a_step, const Real* b,
                                                  std::ptrdiff_t b_step, std::ptrdiff_t terms) noexcept {
    std::ptrdiff_t at = 0;
    later.prefetch_with(terms, [&]() GRADKERN_INLINE_LAMBDA {
        add_term<A, unrolls_terms<A, Rows, Vectors>>(sums, a, at, b);
        at += a_step;
        b += b_step;
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
