// Sums of whole windows, in registers, where the channels of a position are neighbours in memory. The sum of a window is that
// of its columns, the sum of a column that of its lines, both in ascending order: nothing goes by way of memory, but columns
// that several windows read are added up for each. Nothing outside the windows and results named is read or written.
//
// Loops: few channels, lines    four positions > vector of channels > column > line
//        few channels, a line   vector of channels > position > column
//        many channels          position > block of channels > column > line
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What a window reads: `columns` columns, the first at element `first`, of each of `line_count` lines. Of no columns no
/// element is read; else there is at least one line.
template <class In>
struct window_reads {
    const In* const* lines;
    std::ptrdiff_t line_count;
    std::ptrdiff_t first;
    std::ptrdiff_t columns;
    std::ptrdiff_t column_step;  ///< elements from column to column
};

/// The sums of V vectors, `apart` elements from one another: the first is that of `w` moved by `x` elements.
template <std::ptrdiff_t V, prefetch Reads, simd::float_element In, simd::float_element Out, class Finish>
GRADKERN_ALWAYS_INLINE void sum_window_vectors(const window_reads<In>& w, std::ptrdiff_t x, std::ptrdiff_t apart,
                                               prefetch writes, Out* out, std::ptrdiff_t out_apart,
                                               const Finish& finish) noexcept {
    simd::vec sums[bound(V)];
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v) sums[v] = simd::zero();
    if (writes == prefetch::ahead) simd::prefetch_stream_to_write(out, V * simd::lanes);
    std::ptrdiff_t at = w.first + x;
    for (std::ptrdiff_t k = 0; k < w.columns; ++k, at += w.column_step) {
        if constexpr (Reads == prefetch::ahead) {
            for (std::ptrdiff_t l = 0; l < w.line_count; ++l) {
                if (apart == simd::lanes) {
                    simd::prefetch_stream<target.prefetch.window_row>(w.lines[l] + at, V * simd::lanes);
                } else {
                    for (std::ptrdiff_t v = 0; v < V; ++v)
                        simd::prefetch_stream<target.prefetch.window_row>(w.lines[l] + at + v * apart, simd::lanes);
                }
            }
        }
        // Columns begin with their first line in place of +0. Where that makes a difference, to the sign of a zero, it
        // makes none to the sum of the columns, which begins with +0.
        simd::vec column[bound(V)];
        GRADKERN_UNROLL
        for (std::ptrdiff_t v = 0; v < V; ++v) column[v] = simd::load_wide(w.lines[0] + at + v * apart);
        for (std::ptrdiff_t l = 1; l < w.line_count; ++l) {
            const In* const line = w.lines[l] + at;
            GRADKERN_UNROLL
            for (std::ptrdiff_t v = 0; v < V; ++v) column[v] = simd::add(column[v], simd::load_wide(line + v * apart));
        }
        GRADKERN_UNROLL
        for (std::ptrdiff_t v = 0; v < V; ++v) sums[v] = simd::add(sums[v], column[v]);
    }
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v) simd::store_narrow(out + v * out_apart, finish(0, sums[v]));
}

/// sum_windows of few channels in one line. (`w` is a copy, which no store can change.)
template <simd::float_element In, simd::float_element Out, class Finish>
inline void sum_window_columns(window_reads<In> w, std::ptrdiff_t channels, std::ptrdiff_t positions,
                               std::ptrdiff_t advance, Out* out, std::ptrdiff_t out_step,
                               const Finish& finish) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    const In* const first = w.lines[0] + w.first;
    for (std::ptrdiff_t next = 0; next < channels; next += lanes) {
        const std::ptrdiff_t c = std::min(next, channels - lanes);  // the last vector ends with the position
        for (std::ptrdiff_t i = 0; i < positions; ++i) {
            const In* const column = first + i * advance + c;
            simd::vec sum = simd::zero();
            for (std::ptrdiff_t k = 0; k < w.columns; ++k)
                sum = simd::add(sum, simd::load_wide(column + k * w.column_step));
            simd::store_narrow(out + i * out_step + c, finish(0, sum));
        }
    }
}

/// out[i * out_step + c] = finish(sum) of window i in channel c, for i < positions and c < channels, which fill a vector.
/// Window 0 reads what `w` says, each next one `advance` elements further. (Results may be written twice. `finish` takes no
/// account of where a sum is.) `writes`: whether blocks of many channels prefetch what they write.
template <prefetch Reads, simd::float_element In, simd::float_element Out, class Finish>
inline void sum_windows(const window_reads<In>& w, std::ptrdiff_t channels, std::ptrdiff_t positions,
                        std::ptrdiff_t advance, prefetch writes, Out* out, std::ptrdiff_t out_step,
                        const Finish& finish) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    if (channels < 4 * lanes && w.line_count == 1)
        return sum_window_columns(w, channels, positions, advance, out, out_step, finish);
    if (channels < 4 * lanes && positions >= 4) {
        for (std::ptrdiff_t next = 0; next < positions; next += 4) {
            const std::ptrdiff_t i = std::min(next, positions - 4);  // the last four overlap their predecessors
            for (std::ptrdiff_t next_c = 0; next_c < channels; next_c += lanes) {
                const std::ptrdiff_t c = std::min(next_c, channels - lanes);  // the last vector ends with the position
                sum_window_vectors<4, Reads>(w, i * advance + c, advance, prefetch::none, out + i * out_step + c,
                                             out_step, finish);
            }
        }
        return;
    }
    for (std::ptrdiff_t i = 0; i < positions; ++i) {
        const auto sum_block = [&]<std::ptrdiff_t V>(std::integral_constant<std::ptrdiff_t, V>,
                                                     std::ptrdiff_t c) GRADKERN_INLINE_LAMBDA {
            sum_window_vectors<V, Reads>(w, i * advance + c, lanes, writes, out + i * out_step + c, lanes, finish);
        };
        std::ptrdiff_t c = 0;
        // Memory is read fastest in long blocks. What a single window leaves of them no neighbour comes back to.
        for (; positions == 1 && c + 16 * lanes <= channels; c += 16 * lanes)
            sum_block(std::integral_constant<std::ptrdiff_t, 16>{}, c);
        for (; c + 8 * lanes <= channels; c += 8 * lanes) sum_block(std::integral_constant<std::ptrdiff_t, 8>{}, c);
        for (; c + 4 * lanes <= channels; c += 4 * lanes) sum_block(std::integral_constant<std::ptrdiff_t, 4>{}, c);
        for (; c < channels; c += lanes)
            sum_block(std::integral_constant<std::ptrdiff_t, 1>{}, c = std::min(c, channels - lanes));
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
