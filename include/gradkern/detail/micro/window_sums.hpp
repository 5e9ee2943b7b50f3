// Sums of whole windows, in registers, where the channels of a position are neighbours in memory. The sum of a window is that
// of its columns, the sum of a column that of its lines, both in ascending order: nothing goes by way of memory, but columns
// that several windows read are added up for each. Nothing outside the windows and results named is read or written.
//
// Loops: position > block of channels > column > line.
#pragma once

#include <algorithm>
#include <cstddef>

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

/// The sums of V vectors, the first of which is that of `w` moved by `x` elements.
template <std::ptrdiff_t V, prefetch Reads, element In, element Out, class Finish>
GRADKERN_ALWAYS_INLINE void sum_window_vectors(const window_reads<In>& w, std::ptrdiff_t x, prefetch writes, Out* out,
                                               const Finish& finish) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<In>;
    simd::wide_vec<In> sums[bound(V)];
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v) sums[v] = simd::zero<accumulate_t<In>>();
    if (writes == prefetch::ahead) simd::prefetch_stream_to_write(out, V * lanes);
    std::ptrdiff_t at = w.first + x;
    for (std::ptrdiff_t k = 0; k < w.columns; ++k, at += w.column_step) {
        if constexpr (Reads == prefetch::ahead) {
            for (std::ptrdiff_t l = 0; l < w.line_count; ++l)
                simd::prefetch_stream<target.prefetch.window_row>(w.lines[l] + at, V * lanes);
        }
        // Columns begin with their first line in place of +0. Where that makes a difference, to the sign of a zero, it
        // makes none to the sum of the columns, which begins with +0.
        simd::wide_vec<In> column[bound(V)];
        GRADKERN_UNROLL
        for (std::ptrdiff_t v = 0; v < V; ++v) column[v] = simd::load_wide(w.lines[0] + at + v * lanes);
        for (std::ptrdiff_t l = 1; l < w.line_count; ++l) {
            const In* const line = w.lines[l] + at;
            GRADKERN_UNROLL
            for (std::ptrdiff_t v = 0; v < V; ++v) column[v] = simd::add(column[v], simd::load_wide(line + v * lanes));
        }
        GRADKERN_UNROLL
        for (std::ptrdiff_t v = 0; v < V; ++v) sums[v] = simd::add(sums[v], column[v]);
    }
    GRADKERN_UNROLL
    for (std::ptrdiff_t v = 0; v < V; ++v) simd::store_narrow(out + v * lanes, finish(0, sums[v]));
}

/// out[i * out_step + c] = finish(sum) of window i in channel c, for i < positions and c < channels, which fill a vector.
/// Window 0 reads what `w` says, each next one `advance` elements further. (Results may be written twice. `finish` takes no
/// account of where a sum is.) `writes`: whether blocks of many channels prefetch what they write.
template <prefetch Reads, element In, element Out, class Finish>
inline void sum_windows(const window_reads<In>& w, std::ptrdiff_t channels, std::ptrdiff_t positions,
                        std::ptrdiff_t advance, prefetch writes, Out* out, std::ptrdiff_t out_step,
                        const Finish& finish) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<In>;
    for (std::ptrdiff_t i = 0; i < positions; ++i, out += out_step) {
        const std::ptrdiff_t from = i * advance;
        std::ptrdiff_t c = 0;
        // Memory is read fastest in long blocks. What a single window leaves of them no neighbour comes back to.
        for (; positions == 1 && c + 16 * lanes <= channels; c += 16 * lanes)
            sum_window_vectors<16, Reads>(w, from + c, writes, out + c, finish);
        for (; c + 8 * lanes <= channels; c += 8 * lanes)
            sum_window_vectors<8, Reads>(w, from + c, writes, out + c, finish);
        for (; c + 4 * lanes <= channels; c += 4 * lanes)
            sum_window_vectors<4, Reads>(w, from + c, writes, out + c, finish);
        for (; c < channels; c += lanes) {
            c = std::min(c, channels - lanes);  // the last vector ends with the position
            sum_window_vectors<1, Reads>(w, from + c, writes, out + c, finish);
        }
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
