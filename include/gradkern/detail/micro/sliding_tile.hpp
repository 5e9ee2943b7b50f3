// Micro-kernels of depthwise layers whose windows slide along the columns: rows of the tile are neighbouring columns of a
// line, so that each number is read once for several column taps and not once for each,
//
//     c[i][j]  =  sum over pieces e, k in [0, e.taps) of  a[first + e.a + (i + k) * a_step + j] * b[e.b + k * b_step + j]
//
// without the terms whose column is outside: borders are tiles like all others. A piece is some neighbouring column taps of one
// line of the window. So there is one kernel for windows of any length, and the parts of a sum may end anywhere in a line, in each row
// at another tap. Terms are added in the order of register_tile.hpp, so that the bits are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_sums.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Column taps of the longest pieces: their weights, the sums of a tile and a number stay in registers. Others have five, four, three
/// or one.
inline constexpr int long_piece = most_sliding_rows > 8 ? 7 : 5;
/// How many taps the next piece has of those that are left: few pieces, and short ones only where few taps are left.
[[nodiscard]] constexpr std::int64_t piece_taps(std::int64_t left) noexcept {
    const std::int64_t rest = left % long_piece;
    if (rest == 0) return long_piece;
    if (left < 4 || left == 6) return left < 3 ? 1 : 3;
    const bool five = long_piece == 7 && left >= 5 && (rest == 2 || left >= 5 * (3 * rest % 7));
    return five ? 5 : 4;
}
/// Whether windows of so many columns, and so many taps in all, are pieces of three of one part, which have a kernel of their own where
/// registers hold a long line.
[[nodiscard]] constexpr bool slides_by_threes(std::int64_t columns, std::int64_t taps) noexcept {
    return most_sliding_rows > 8 && columns == 3 && taps <= part_terms;
}
/// How many pieces so many taps make up at most.
[[nodiscard]] constexpr std::int64_t most_pieces(std::int64_t taps) noexcept { return taps / 4 + 2; }

/// Prefetches the lines of a tile of outputs, and those of inputs that are read soon.
template <class Number, class Real>
GRADKERN_NOINLINE void prefetch_sliding_rows(const tile_call_of<Real>& call, const Number* source, std::ptrdiff_t a_at,
                                             std::ptrdiff_t c_at) noexcept {
    GRADKERN_DETAIL_KEEP_CALLS();
    for (std::ptrdiff_t i = 0; i < call.rows; ++i, a_at += call.a_step) {
        for (std::ptrdiff_t lane = 0; lane < call.lanes; lane += simd::line_elements<Number>) {
            simd::prefetch_to_write(reinterpret_cast<const Number*>(call.c[i]), c_at + call.c_ahead + lane);
            simd::prefetch_to_l2(source, a_at + call.a_ahead + lane);
        }
    }
}

/// Which columns of a piece some row reads and are inside, a bit each. No vectors of numbers: g++ would take minima there.
template <class Real>
GRADKERN_ALWAYS_INLINE std::uint32_t columns_inside(const tile_call_of<Real>& call, const sliding_piece& e) noexcept {
    const std::ptrdiff_t begin = call.inside_begin - e.first;
    const std::ptrdiff_t columns = call.rows + e.taps - 1;
    std::uint32_t inside = (std::uint32_t{1} << columns) - 1;
    if (begin > 0) {
        if (begin >= columns) return 0;
        inside &= ~std::uint32_t{0} << begin;
    }
    const std::ptrdiff_t end = call.inside_end - e.first;
    if (end < columns) {
        if (end <= 0) return 0;
        inside &= (std::uint32_t{1} << end) - 1;
    }
    return inside;
}

/// Adds the terms of a piece.
template <operand A, int Taps, class Real>
GRADKERN_ALWAYS_INLINE void add_piece(simd::vec_of<Real> (&acc)[bound(most_sliding_rows)],
                                      const row_number<A, Real>* source, std::ptrdiff_t at, std::ptrdiff_t step,
                                      const Real* b, std::ptrdiff_t b_step, std::uint32_t inside) noexcept {
    simd::vec_of<Real> w[bound(Taps)];
    GRADKERN_UNROLL
    for (int k = 0; k < Taps; ++k, b += b_step) w[k] = simd::keep(simd::load(b));
    GRADKERN_UNROLL
    for (int column = 0; column < most_sliding_rows + Taps - 1; ++column, at += step) {
        if ((inside >> column & 1) != 0) [[likely]] {
            const simd::vec_of<Real> x =
                simd::keep(load_lanes<A, Real>(source + at));  // g++ would read it for each tap
            GRADKERN_UNROLL
            for (int k = Taps - 1; k >= 0; --k)
                if (column - k >= 0 && column - k < most_sliding_rows)
                    acc[column - k] = simd::fma(x, w[k], acc[column - k]);
        }
    }
}

/// Writes a vector of each row.
template <operand A, class Real>
GRADKERN_ALWAYS_INLINE void store_sliding(const tile_call_of<Real>& call,
                                          const simd::vec_of<Real> (&acc)[bound(most_sliding_rows)],
                                          std::ptrdiff_t b_at, std::ptrdiff_t c_at) noexcept {
    if constexpr (is_native_16bit<A>) {
        constexpr std::ptrdiff_t width = simd::lanes_of<Real>;
        alignas(64) Real sums[bound(most_sliding_rows * width)];
        GRADKERN_UNROLL
        for (int i = 0; i < most_sliding_rows; ++i) simd::store(sums + i * width, acc[i]);
        finish_16bit_rows<A>(call, sums, width, b_at, c_at);
    } else {
        Real* const* const c = call.c;  // g++ would load both members again behind each store
        const std::ptrdiff_t rows = call.rows;
        GRADKERN_UNROLL
        for (int i = 0; i < most_sliding_rows; ++i) {
            if (i == rows) return;
            simd::store(c[i] + c_at, acc[i]);
        }
    }
}

/// Ends the parts of some rows, whose sums become zero: c is set, or they are added to it where it has `added` parts.
template <class Real>
GRADKERN_NOINLINE void end_parts(const tile_call_of<Real>& call, Real* sums, std::uint32_t ends, std::uint32_t added,
                                 std::ptrdiff_t c_at) noexcept {
    for (std::ptrdiff_t i = 0; i < call.rows; ++i, sums += simd::lanes_of<Real>) {
        if ((ends >> i & 1) == 0) continue;
        Real* const c = call.c[i] + c_at;
        const simd::vec_of<Real> sum = simd::load(sums);
        simd::store(c, (added >> i & 1) != 0 ? simd::add(simd::load(c), sum) : sum);
        simd::store(sums, simd::zero<Real>());
    }
}

/// One panel after the other, of each one vector after the other. `Only`: taps of all pieces, of sums of one part; 0: any.
template <operand A, int Only = 0, class Real = float>
GRADKERN_NOINLINE void sliding_tile(const tile_call_of<Real>& call) noexcept {
    using vec = simd::vec_of<Real>;
    using number = row_number<A, Real>;
    constexpr int rows = most_sliding_rows;
    constexpr std::ptrdiff_t width = simd::lanes_of<Real>;
    const auto* const source = reinterpret_cast<const number*>(call.a[0]);
    const std::ptrdiff_t step = call.a_step;
    std::ptrdiff_t a_at = call.a_first;  // of a tile
    std::ptrdiff_t b_at = 0;
    std::ptrdiff_t c_at = 0;
    for (std::ptrdiff_t tile = call.tiles; tile != 0;
         --tile, a_at += call.a_next, b_at += call.b_next, c_at += call.c_next) {
        if (!call.no_prefetch) prefetch_sliding_rows(call, source, a_at, c_at);
        for (std::ptrdiff_t lane = 0; lane < call.lanes; lane += width) {
            vec acc[bound(rows)];
            GRADKERN_UNROLL
            for (int i = 0; i < rows; ++i) acc[i] = simd::zero<Real>();
            std::uint32_t added = 0;
            for (const sliding_piece* e = call.pieces; e != call.pieces + call.count; ++e) {
                const std::ptrdiff_t at = a_at + e->a + lane;
                const Real* const b = call.b + (b_at + e->b + lane);
                const std::uint32_t inside = columns_inside(call, *e);
                const auto add = [&](auto taps) GRADKERN_INLINE_LAMBDA {
                    add_piece<A, taps>(acc, source, at, step, b, call.b_step, inside);
                };
                if constexpr (Only > 0) {
                    add(std::integral_constant<int, Only>{});
                } else {
                    switch (e->taps) {
                        case long_piece: add(std::integral_constant<int, long_piece>{}); break;
                        case long_piece == 5 ? 0: 5 : add(std::integral_constant<int, 5>{}); break;
                        case 4: add(std::integral_constant<int, 4>{}); break;
                        case 3: add(std::integral_constant<int, 3>{}); break;
                        default: add(std::integral_constant<int, 1>{});
                    }
                    if constexpr (!is_native_16bit<A>) {
                        if (e->ends == 0) [[likely]]
                            continue;
                        alignas(64) Real sums[bound(rows * width)];
                        GRADKERN_UNROLL
                        for (int i = 0; i < rows; ++i) simd::store(sums + i * width, acc[i]);
                        end_parts(call, sums, e->ends, added, c_at + lane);
                        GRADKERN_UNROLL
                        for (int i = 0; i < rows; ++i) acc[i] = simd::load(sums + i * width);
                        added |= e->ends;
                    }
                }
            }
            if (added == 0) store_sliding<A>(call, acc, b_at + lane, c_at + lane);
        }
    }
}

/// The kernel for windows of so many columns, and so many taps in all. It serves any rows there are: columns that no row reads are
/// left out.
template <operand A, class Real = float>
[[nodiscard]] inline tile_function_of<Real> sliding_tile_for(std::int64_t columns, std::int64_t taps) noexcept {
    if constexpr (most_sliding_rows > 8 && !is_native_16bit<A>)
        if (slides_by_threes(columns, taps)) return &sliding_tile<A, 3, Real>;
    return &sliding_tile<A, 0, Real>;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
