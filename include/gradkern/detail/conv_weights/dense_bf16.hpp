// dense_bf16: the same as dense_packed by dot products of pairs of bf16 pixels (pack/pairs.hpp), with relaxed
// precision.
//
//   loops      task > chunk > column taps, for which both sides are packed by pairs > plane tap > channels l > row tap
//              > panel > tile > pair of pixels. A pair lies in one line: the last one of an odd line has a zero
//   lanes      channels s of one group; each row is one pair of the large side, broadcast to all lanes
//   taken      precision::relaxed where the target has these dot products; the large side of 1x1 kernels in NCX is read
//              in place where all lines are whole pairs
//   gains      over dense_packed, the stem 11 -> 7 ms, 3x3 128@28 in NCX 7.7 -> 5.7 (against packing each tap by
//              itself; bench/LIMITS.md of 7159cb5); 256->64 in place 1.4 -> 1.0
//   zoo        205 layers, where precision is relaxed
//   delete     when strict sums are as fast
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Whether pairs of the large side may be read in place: of 1x1 kernels, whole numbers of them in each line and from
/// one to the next along every axis.
[[nodiscard]] constexpr bool has_pairs_in_place(const problem& p) noexcept {
    const auto even = [](std::int64_t extent, std::int64_t step) { return extent <= 1 || step % 2 == 0; };
    return p.has_unit_axes() && p.large[4] == 1 && even(2, p.axes[2].small) && even(p.batch, p.large[0]) &&
           even(p.groups * p.large_channels, p.large[1]) && even(p.axes[0].small, p.large[2]) &&
           even(p.axes[1].small, p.large[3]);
}

[[nodiscard]] GRADKERN_COLD constexpr plan make_dense_bf16(const problem& lines, algorithm name) noexcept {
    const problem p = lines.with_collapsed_lines();
    plan q = plan_dense(p, name);
    if (p.large[4] == 1) q.order = window_order::pixels;
    if (has_pairs_in_place(p)) {
        q.large_source = source_kind::in_place;
    } else {
        q.packed_floats = window_buffer_floats(q);
    }
    q.lay_out();
    return q;
}

[[nodiscard]] constexpr bool fits_dense_bf16(const problem& p) noexcept {
    return p.dot_bf16 && p.with_collapsed_lines().axes[2].small > 1;
}

/// Where the rows (tap, channel) of tiles lie in the buffer, for `terms` pairs.
[[nodiscard]] inline row_steps packed_rows(window_order order, std::int64_t terms, std::int64_t taps,
                                           std::int64_t channels) noexcept {
    if (order == window_order::channels) return {taps * channels, 1, channels};
    return {1, row_pitch(terms), channels * row_pitch(terms)};
}

/// Packs pairs of `pixels` pixels of each of `lines` lines, `line_step` elements apart, for `taps` column taps.
template <class T>
void pack_line_pairs(const plan& p, const T* from, std::int64_t lines, std::int64_t line_step, std::int64_t pixels,
                     std::int64_t taps, std::int64_t channels, const row_steps& rows, float* to) noexcept {
    const std::int64_t step = p.axes[2].stride_in(p.large[4]);
    const std::int64_t tap_step = p.axes[2].dilation_in(p.large[4]);
    const std::int64_t line_floats = p.terms_of(pixels) * rows.term;
    // taps that are contiguous are one row of channels
    if (rows.channel == 1 && p.large[1] == 1 && tap_step == channels) {
        channels *= taps;
        taps = 1;
    }
    for (std::int64_t t = 0; t < taps; ++t, from += tap_step, to += rows.tap) {
        for (std::int64_t line = 0; line < lines && rows.term != 1; ++line)
            pack_row_pairs(from + line * line_step, p.large[1], channels, step, pixels, to + line * line_floats,
                           rows.term);
        if (rows.term != 1) continue;
        // Contiguous lines are a run of memory, prefetched some channels ahead.
        const std::int64_t ahead = line_step < 4 * (pixels * step + simd::line_elements<T>) ? lines * line_step : 0;
        for (std::int64_t k = 0; k < channels; ++k) {
            for (std::int64_t i = 0; i < ahead && k + target.prefetch.packed_pixels < channels;
                 i += simd::line_elements<T>)
                simd::prefetch(from, (k + target.prefetch.packed_pixels) * p.large[1] + i);
            pack_lane_pairs(from + k * p.large[1], step, pixels, line_step, lines, to + k * rows.channel, line_floats);
        }
    }
}

/// tap_buffer::pack
template <class T>
void pack_tap_pairs(const plan& p, const tensor_pointer<float>& large, std::int64_t offset, std::int64_t pixels,
                    std::int64_t taps, std::int64_t channels, const row_steps& rows, float* to) noexcept {
    pack_line_pairs(p, reinterpret_cast<const T*>(large.first) + offset, 1, 0, pixels, taps, channels, rows, to);
}

/// Packs the lines that some taps of a column meet in a chunk, each line once for all row taps. Pairs begin with the
/// first pixel inside.
template <class T>
[[nodiscard]] large_view<float> pack_window_pairs(const plan& p, const T* large, const line_window& w,
                                                  const tap_group& columns, std::int64_t channels,
                                                  const row_steps& rows, float* packed) noexcept {
    const std::int64_t first = p.axes[2].position(columns.first, columns.first_tap);
    const std::int64_t line = p.terms_of(columns.columns()) * rows.term;
    const std::int64_t plane = p.axes[1].large * line;
    pixel_walk walk(p.batch, {p.axes[0].large, p.axes[1].large, 1}, p.large, w.first_line);  // of lines
    for (std::int64_t done = 0; done < w.lines;) {
        const pixel_run run = walk.next(w.lines - done);
        pack_line_pairs(p, large + run.offset + first * p.large[4], run.count, walk.step(), columns.columns(),
                        columns.taps, channels, rows, packed + done * line);
        done += run.count;
    }
    return {packed,
            {p.axes[0].large * plane, rows.channel, plane, line, rows.term},
            w.first_line * line + first * rows.term};
}

/// Adds `channels` channels from `first` on for some column taps and tap `d` of the outermost axis.
template <class T>
void add_pairs(const dense_tiles<float>& tiles, const chunk_grid::chunk& c, const T* from, std::int64_t d,
               const tap_group& columns, std::int64_t first, std::int64_t channels, float* packed) noexcept {
    const plan& p = tiles.p;
    if (p.large_source == source_kind::in_place) {
        large_view<float> view{reinterpret_cast<const float*>(from), p.large, -columns.first / 2};
        for (std::int64_t& step : view.stride) step /= 2;
        view.stride[4] = 0;  // in the origin
        tiles.add_row_taps(c, d, columns, first, channels, view, {1, view.stride[1], 0});
        return;
    }
    const std::int64_t pairs = p.terms_of(columns.columns());
    const std::int64_t lines = c.last_line - c.first_line;
    const line_window window = window_of(p, c, d);
    const std::int64_t floats = columns.taps * window_floats(p.order, window.lines * pairs, channels);
    if (window.lines <= lines * p.axes[1].kernel && floats <= p.packed_floats) {
        const row_steps rows = packed_rows(p.order, window.lines * pairs, columns.taps, channels);
        tiles.add_row_taps(c, d, columns, first, channels,
                           pack_window_pairs(p, from, window, columns, channels, rows, packed), rows);
    } else {
        // a segment whose last pair has one pixel stays in its line
        const bool collapses = p.axes[2].stride == 1 && columns.columns() % 2 == 0;
        const tap_buffer<float> buffer{pack_tap_pairs<T>, tensor_pointer_of(from), packed, collapses};
        tiles.add_row_taps(c, d, columns, first, channels, {nullptr, p.large},
                           packed_rows(p.order, lines * pairs, columns.taps, channels), &buffer);
    }
}

template <class T>
void add_dense_bf16(const plan& p, const task& t, const chunk_grid::range& range, const void* large_side,
                    const void* small_side, std::byte* slice) noexcept {
    const T* const large = static_cast<const T*>(large_side) + t.large;
    const tensor_pointer<float> small{static_cast<const std::byte*>(small_side), &pack_functions_of<T>};
    const dense_tiles<float> tiles(p, t, slice);
    for (std::int64_t i = range.first; i < range.last; ++i) {
        const chunk_grid::chunk c = p.chunks[i];
        for_each_tap_group(p, c, false, [&](const tap_group& columns) {
            pack_chunk(p, small + t.small, {c.first_line, c.last_line, columns.first, columns.last}, t.lanes,
                       tiles.panel_step, array_at<float>(slice, p.at_small));
            for (std::int64_t d = 0; d < p.axes[0].kernel; ++d)
                for (std::int64_t first = 0; first < t.channels; first += channel_block)
                    add_pairs(tiles, c, large + first * p.large[1], d, columns, first,
                              std::min(channel_block, t.channels - first), array_at<float>(slice, p.at_large));
        });
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
