// What all register tiles share: the sums in registers, offsets of the tiles of a call, prefetches, and stores of results. The files of terms (row_terms.hpp, group_terms.hpp, outer_terms.hpp) add their products. Everything but what
// 16-bit rows seldom need is inlined into the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// f(integral_constant 0) ... f(integral_constant N - 1), where numbers must be constants.
template <int N, class F>
GRADKERN_ALWAYS_INLINE void unroll(F&& f) {
    [&]<int... I>(std::integer_sequence<int, I...>) GRADKERN_INLINE_LAMBDA {
        (f(std::integral_constant<int, I>{}), ...);
    }
    (std::make_integer_sequence<int, N>{});
}

/// The rows of memory that the rows of a kernel stand for: the last one again behind those there are.
struct row_map {
    const std::ptrdiff_t& rows;  ///< of a call
    int of_kernel;
    int sure;  ///< rows there always are

    [[nodiscard]] GRADKERN_ALWAYS_INLINE std::ptrdiff_t operator[](int i) const noexcept {
        return i < sure ? i : i == of_kernel - 1 ? rows - 1 : std::min<std::ptrdiff_t>(i, rows - 1);
    }
};
template <operand A, int Rows, class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE row_map rows_of(const tile_call_of<Real>& call) noexcept {
    return {call.rows, Rows, std::max(1, Rows - row_unit<A> + 1)};
}

/// Offsets of a tile of a call.
struct tile_offsets {
    std::ptrdiff_t a = 0;
    std::ptrdiff_t b = 0;
    std::ptrdiff_t c = 0;

    template <class Real>
    GRADKERN_ALWAYS_INLINE void next(const tile_call_of<Real>& call) noexcept {
        a += call.a_next;
        b += call.b_next;
        c += call.c_next;
    }
    /// From the first tile of a run to that of the next one.
    template <class Real>
    GRADKERN_ALWAYS_INLINE void next_run(const tile_call_of<Real>& call) noexcept {
        a += call.a_run;
        c += call.c_run;
    }
};

/// The sums of a tile. Loops over them are unrolled by pragma: without it they stay in memory at -O2, and by templates a file with
/// tiles takes twice as long to compile.
template <int Rows, int Vectors, class Real = float>
struct tile_sums {
    simd::vec_of<Real> at[bound(Rows)][bound(Vectors)];

    /// Sums of nothing, or what c holds.
    GRADKERN_ALWAYS_INLINE void start(const tile_call_of<Real>& call, bool resumes, const row_map& row,
                                      std::ptrdiff_t c_at, std::ptrdiff_t step) noexcept {
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) at[i][v] = simd::zero<Real>();
        }
        if (!resumes || call.mode != tile_mode::resume) return;
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            const Real* const c = call.c[row[i]] + c_at;
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) at[i][v] = simd::load(c + v * step);
        }
    }

    /// c = the sums, or what it holds, or what is said, plus the sums. The pointer of a row is read once: for all that compilers know,
    /// stores change it.
    GRADKERN_ALWAYS_INLINE void store(const tile_call_of<Real>& call, const row_map& row, std::ptrdiff_t c_at,
                                      std::ptrdiff_t step) noexcept {
        if (call.mode == tile_mode::add) {
            const Real* const* const added = call.added != nullptr ? call.added : call.c;
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) {
                const Real* const c = added[row[i]] + c_at;
                GRADKERN_UNROLL
                for (int v = 0; v < Vectors; ++v) at[i][v] = simd::add(simd::load(c + v * step), at[i][v]);
            }
        }
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            Real* const c = call.c[row[i]] + c_at;
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) simd::store(c + v * step, at[i][v]);
        }
    }

    /// c = the sums of pairs, rounded to bf16.
    GRADKERN_ALWAYS_INLINE void round(const tile_call_of<Real>& call, const row_map& row,
                                      std::ptrdiff_t c_at) noexcept {
        static_assert(std::is_same_v<Real, float>);
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            auto* const c = reinterpret_cast<std::uint16_t*>(call.c[row[i]]) + c_at;
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) simd::narrow_dots(at[i][v], c + v * simd::lanes);
        }
    }
};

/// Prefetches the next results of row i, and its next numbers where it has one for each lane.
template <operand A, class Real>
GRADKERN_ALWAYS_INLINE void prefetch_row_ahead(const tile_call_of<Real>& call, const tile_offsets& from,
                                               std::ptrdiff_t i, int vectors) noexcept {
    using result = std::conditional_t<is_paired<A>, std::uint16_t, Real>;  // of pairs at most
    const std::ptrdiff_t last = vectors * simd::lanes_of<Real> - 1;        // number of a row
    const std::ptrdiff_t steps =
        std::max<std::ptrdiff_t>(2, vectors * simd::lanes_of<Real> / simd::line_elements<result>) - 1;
    const auto* c = reinterpret_cast<const result*>(call.c[i]);
    simd::prefetch_to_write(c, from.c + call.c_ahead);
    GRADKERN_UNROLL
    for (std::ptrdiff_t j = 1; j <= steps; ++j) simd::prefetch_to_write(c, from.c + call.c_ahead + j * last / steps);
    if constexpr (A == operand::scalar && target.quirk.waits_for_last_level) {
        const Real* a = call.a[i] + from.a;
        GRADKERN_NO_UNROLL
        for (std::ptrdiff_t j = 0; j < call.a_lines; ++j)
            simd::prefetch_to_l2(a, call.a_ahead + j * simd::line_elements<Real>);
    }
    if constexpr (A == operand::vector || is_group<A>) {
        const Real* a = call.a[i] + from.a;
        GRADKERN_UNROLL
        for (std::ptrdiff_t j = 0; j < (A == operand::pair_group_8 ? 1 : vectors) * simd::lanes_of<Real>;
             j += simd::line_elements<Real>)
            simd::prefetch_to_l2(a, call.a_ahead + j);
    }
}

/// Prefetches for a tile of 16-bit rows: not in the tile, which has no registers left for addresses.
template <operand A>
GRADKERN_NOINLINE void prefetch_16bit_rows(const tile_call& call, std::ptrdiff_t a_at, std::ptrdiff_t c_at) noexcept {
    GRADKERN_DETAIL_KEEP_CALLS();
    for (std::ptrdiff_t i = 0; i < call.rows; ++i) {
        simd::prefetch_to_write(reinterpret_cast<const row_number<A>*>(call.c[i]), c_at + call.c_ahead);
        simd::prefetch_to_l2(reinterpret_cast<const row_number<A>*>(call.a[i]), a_at + call.a_ahead);
    }
}

/// Prefetches for a tile: lines of c are on their way while the sum is computed, since this is the first touch of an output.
template <operand A, class Real>
GRADKERN_ALWAYS_INLINE void prefetch_tile(const tile_call_of<Real>& call, const row_map& row, const tile_offsets& from,
                                          int vectors) noexcept {
    if constexpr (is_native_16bit<A>) {
        if (!call.no_prefetch) prefetch_16bit_rows<A>(call, from.a, from.c);
    } else if constexpr (A == operand::vector) {  // sums are short, and a loop would show
        if (call.no_prefetch) return;
        GRADKERN_UNROLL
        for (int i = 0; i < row.of_kernel; ++i) prefetch_row_ahead<A>(call, from, row[i], vectors);
    } else if constexpr (!is_outer<A>) {  // whose results were read a moment ago, where sums resume
        if (is_group<A> && call.no_prefetch) return;
        GRADKERN_NO_UNROLL
        for (std::ptrdiff_t i = 0; i < call.rows; ++i) prefetch_row_ahead<A>(call, from, i, vectors);
    }
}

/// Sends the sums [row][lane] of a tile of 16-bit rows to c by way of a bias or of what c holds: in a loop, since few do.
template <operand A>
GRADKERN_NOINLINE void finish_16bit_rows(const tile_call& call, const float* sums, std::ptrdiff_t lanes,
                                         std::ptrdiff_t b_at, std::ptrdiff_t c_at) noexcept {
    for (std::ptrdiff_t i = 0; i < call.rows; ++i) {
        row_number<A>* const c = reinterpret_cast<row_number<A>*>(call.c[i]) + c_at;
        for (std::ptrdiff_t j = 0; j < lanes; j += simd::lanes, sums += simd::lanes) {
            simd::vec sum = simd::load(sums);
            if (call.bias != nullptr) sum = simd::add(sum, simd::load(call.bias + b_at + j));
            if (call.mode == tile_mode::add) sum = simd::add(load_lanes<A>(c + j), sum);
            store_lanes<A>(c + j, sum);
        }
    }
}

/// Rounds the sums of a tile to rows of 16 bits.
template <operand A, int Rows, int Vectors>
GRADKERN_ALWAYS_INLINE void store_16bit_sums(tile_sums<Rows, Vectors>& sums, const tile_call& call, const row_map& row,
                                             const tile_offsets& at) noexcept {
    if (call.mode == tile_mode::set && call.bias == nullptr) {
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            auto* const c = reinterpret_cast<row_number<A>*>(call.c[row[i]]) + at.c;
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) store_lanes<A>(c + v * simd::lanes, sums.at[i][v]);
        }
        return;
    }
    alignas(64) float f32[bound(Rows * Vectors * simd::lanes)];
    GRADKERN_UNROLL
    for (int i = 0; i < Rows; ++i) {
        GRADKERN_UNROLL
        for (int v = 0; v < Vectors; ++v) simd::store(f32 + (i * Vectors + v) * simd::lanes, sums.at[i][v]);
    }
    finish_16bit_rows<A>(call, f32, Vectors * simd::lanes, at.b, at.c);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
