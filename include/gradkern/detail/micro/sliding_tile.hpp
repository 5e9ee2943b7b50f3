// Micro-kernels of depthwise layers whose windows slide along the columns: rows of the tile are neighbouring columns of a
// line, so that each number is read once for all column taps and not once for each,
//
//     c[i][j]  =  sum over segments e, k in [0, taps) of  a[first + e.a + (i + k) * a_step + j] * b[e.b + k * b_step + j]
//
// without the terms whose column i + k is outside: borders are tiles like all others. A segment is the column taps of one line
// of the window, or of several that follow one another in memory. Terms are added in the order of register_tile.hpp, so that the
// bits are the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_sums.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Numbers of column taps for which there are kernels. Lines of three gain less than it takes to tell which columns are inside, but in
/// f32 where registers hold a long line.
inline constexpr bool has_sliding_threes = most_sliding_rows > 8;
[[nodiscard]] constexpr bool can_slide(std::int64_t taps, bool in_16bit) noexcept {
    return taps == 5 || taps == 7 || (has_sliding_threes && taps == 3 && !in_16bit);
}

/// Rows of a tile at most: with the weights of a line, and a number, they stay in registers. 14 divide the lines of most networks
/// evenly.
[[nodiscard]] constexpr int sliding_rows(std::int64_t taps) noexcept {
    return most_sliding_rows > 8 || taps < 7 ? most_sliding_rows : 6;
}

/// Prefetches the lines of a tile of outputs, and those of inputs that are read soon.
template <class Number>
GRADKERN_NOINLINE void prefetch_sliding_rows(const tile_call& call, const Number* source, std::ptrdiff_t a_at,
                                             std::ptrdiff_t c_at) noexcept {
    GRADKERN_DETAIL_KEEP_CALLS();
    for (std::ptrdiff_t i = 0; i < call.rows; ++i, a_at += call.a_step) {
        for (std::ptrdiff_t lane = 0; lane < call.lanes; lane += simd::line_elements<Number>) {
            simd::prefetch_to_write(reinterpret_cast<const Number*>(call.c[i]), c_at + call.c_ahead + lane);
            simd::prefetch_to_l2(source, a_at + call.a_ahead + lane);
        }
    }
}

/// Writes a vector of each row.
template <operand A, int Rows>
GRADKERN_ALWAYS_INLINE void store_sliding(const tile_call& call, const simd::vec (&acc)[bound(Rows)],
                                          std::ptrdiff_t b_at, std::ptrdiff_t c_at) noexcept {
    if constexpr (is_native_16bit<A>) {
        constexpr std::ptrdiff_t width = simd::lanes;
        alignas(64) float sums[bound(Rows * width)];
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) simd::store(sums + i * width, acc[i]);
        finish_16bit_rows<A>(call, sums, width, b_at, c_at);
    } else {
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            if (i == call.rows) return;
            simd::store(call.c[i] + c_at, acc[i]);
        }
    }
}

/// One panel after the other, of each one vector after the other.
template <operand A, int Taps, int Rows>
GRADKERN_NOINLINE void sliding_tile(const tile_call& call) noexcept {
    using simd::vec;
    using number = row_number<A>;
    constexpr std::ptrdiff_t width = simd::lanes;
    const auto* const source = reinterpret_cast<const number*>(call.a[0]);
    const std::ptrdiff_t step = call.a_step;
    std::ptrdiff_t a_at = call.a_first;  // of a tile
    std::ptrdiff_t b_at = 0;
    std::ptrdiff_t c_at = 0;
    for (std::ptrdiff_t tile = call.tiles; tile != 0;
         --tile, a_at += call.a_next, b_at += call.b_next, c_at += call.c_next) {
        if (!call.no_prefetch) prefetch_sliding_rows(call, source, a_at + Taps / 2 * step, c_at);
        for (std::ptrdiff_t lane = 0; lane < call.lanes; lane += width) {
            vec acc[bound(Rows)];
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) acc[i] = simd::zero();
            for (const k_segment* e = call.list; e != call.list + call.count; ++e) {
                std::ptrdiff_t at = a_at + e->a + lane;
                const float* b = call.b + (b_at + e->b + lane);
                GRADKERN_NO_UNROLL
                for (std::ptrdiff_t left = e->length; left > 0; left -= Taps) {
                    vec w[bound(Taps)];
                    GRADKERN_UNROLL
                    for (int k = 0; k < Taps; ++k, b += call.b_step) w[k] = simd::keep(simd::load(b));
                    std::uint32_t inside = call.inside;
                    GRADKERN_UNROLL
                    for (int column = 0; column < Rows + Taps - 1; ++column, at += step) {
                        if ((inside >> column & 1) == 0) continue;
                        const vec x = load_lanes<A>(source + at);
                        GRADKERN_UNROLL
                        for (int k = Taps - 1; k >= 0; --k)
                            if (column - k >= 0 && column - k < Rows)
                                acc[column - k] = simd::fma(x, w[k], acc[column - k]);
                    }
                    at -= (Rows - 1) * step;
                }
            }
            store_sliding<A, Rows>(call, acc, b_at + lane, c_at + lane);
        }
    }
}

/// Rows of the kernel for so many: few kernels, since each is compiled for three types. Of three and of seven taps one kernel serves
/// fewer rows about as fast, since columns that are outside are left out.
[[nodiscard]] constexpr int sliding_kernel_rows(int rows, int taps) noexcept {
    const int most = sliding_rows(taps);
    return taps == 5 && rows <= most / 2 ? most / 2 : most;
}

/// Kernels for 1 row to the most.
template <operand A, int Taps>
inline constexpr auto sliding_tiles_of = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<tile_function, sizeof...(I)>{&sliding_tile<A, Taps, sliding_kernel_rows(I + 1, Taps)>...};
}
(std::make_integer_sequence<int, sliding_rows(Taps)>{});

template <operand A>
[[nodiscard]] inline const tile_function* sliding_tiles_for(std::int64_t taps) noexcept {
    if constexpr (has_sliding_threes && !is_native_16bit<A>)
        if (taps == 3) return sliding_tiles_of<A, 3>.data();
    return taps == 5 ? sliding_tiles_of<A, 5>.data() : sliding_tiles_of<A, 7>.data();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
