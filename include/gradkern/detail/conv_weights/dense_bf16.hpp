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
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense_packed.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

struct dense_bf16_plan : dense_tasks {
    source large_source = source::packed;
    window_order order = window_order::channels;
    std::int64_t packed_floats = 0;

    using dense_tasks::dense_tasks;
};

[[nodiscard]] constexpr std::int64_t pairs_of(std::int64_t pixels) noexcept { return pixels / 2 + pixels % 2; }

/// Whether pairs of the large side may be read in place: of 1x1 kernels, whole numbers of them in each line and from
/// one to the next along every axis.
[[nodiscard]] constexpr bool has_pairs_in_place(const problem& p) noexcept {
    const auto even = [](std::int64_t extent, std::int64_t step) { return extent <= 1 || step % 2 == 0; };
    return p.has_unit_axes() && p.large[4] == 1 && even(2, p.axes[2].small) && even(p.batch, p.large[0]) &&
           even(p.groups * p.large_channels, p.large[1]) && even(p.axes[0].small, p.large[2]) &&
           even(p.axes[1].small, p.large[3]);
}

[[nodiscard]] constexpr dense_bf16_plan make_dense_bf16(const problem& lines) noexcept {
    const problem p = lines.with_collapsed_lines();
    dense_bf16_plan plan(p);
    if (p.large[4] == 1) plan.order = window_order::pixels;
    if (has_pairs_in_place(p)) {
        plan.large_source = source::in_place;
    } else {
        plan.packed_floats = window_buffer_floats(plan, plan.order);
    }
    plan.lay_out(plan.packed_floats);
    return plan;
}

[[nodiscard]] constexpr bool fits_dense_bf16(const problem& p) noexcept {
    return p.dot_bf16 && p.with_collapsed_lines().axes[2].small > 1;
}

/// Where the rows (tap, channel) of tiles lie in the buffer.
struct packed_rows : row_steps {
    std::int64_t floats = 0;  // of all
    packed_rows(window_order order, std::int64_t terms, std::int64_t taps, std::int64_t channels) noexcept {
        const bool innermost = order == window_order::pixels;
        term = innermost ? 1 : taps * channels;
        channel = innermost ? row_pitch(terms) : 1;
        tap = channels * channel;
        floats = innermost ? taps * tap : terms * term;
    }
};

/// Packs pairs of `pixels` pixels of each of `lines` lines, `line_step` elements apart, for `taps` column taps.
template <class T>
void pack_line_pairs(const dense_bf16_plan& p, const T* from, std::int64_t lines, std::int64_t line_step,
                     std::int64_t pixels, std::int64_t taps, std::int64_t channels, const packed_rows& rows,
                     float* to) noexcept {
    const std::int64_t step = p.axes[2].stride_in(p.large[4]);
    const std::int64_t tap_step = p.axes[2].dilation_in(p.large[4]);
    const std::int64_t line_floats = pairs_of(pixels) * rows.term;
    if (rows.channel == 1 && p.large[1] == 1 &&
        tap_step == channels) {  // taps that are contiguous are one row of channels
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

/// Packs the lines that some taps of a column meet in a chunk, each line once for all row taps. Pairs begin with the
/// first pixel inside.
template <class T>
[[nodiscard]] large_view pack_window_pairs(const dense_bf16_plan& p, const T* large, const line_window& w,
                                           const tap_group& columns, std::int64_t channels, const packed_rows& rows,
                                           float* packed) noexcept {
    const std::int64_t first = p.axes[2].position(columns.first, columns.first_tap);
    const std::int64_t line = pairs_of(columns.columns()) * rows.term;
    const std::int64_t plane = p.axes[1].large * line;
    std::array<shape::axis, 3> axes = p.axes;  // of the large side's lines
    for (shape::axis& a : axes) a.small = a.large;
    line_position at(axes, w.first_line);
    for (std::int64_t done = 0; done < w.lines;) {
        const std::int64_t lines = std::min(w.lines - done, p.axes[1].large - at.h);  // of a plane
        pack_line_pairs(p, large + at.offset(p.large, first), lines, p.large[3], columns.columns(), columns.taps,
                        channels, rows, packed + done * line);
        done += lines;
        at.advance(axes, lines);
    }
    return {packed,
            {p.axes[0].large * plane, rows.channel, plane, line, rows.term},
            w.first_line * line + first * rows.term};
}

/// Packs pairs of the small side, of each line the columns [first, last) that some taps meet.
template <class T>
void pack_small_pairs(const dense_bf16_plan& p, const dense_tiles& tiles, const T* small, const chunk_grid::chunk& c,
                      const tap_group& columns, float* packed) noexcept {
    const bool whole_pairs = columns.columns() % 2 == 0 && p.axes[1].small > 1;
    for (std::int64_t panel = 0; panel < tiles.task.panels; ++panel) {
        const T* const from = small + panel * p.panel_width * p.small[1];
        const std::int64_t lanes = std::min(p.panel_width, tiles.task.lanes - panel * p.panel_width);
        float* out = packed + panel * tiles.panel_step;
        for_each_line(p, c, columns.first, columns.last, whole_pairs, [&](std::int64_t offset, std::int64_t pixels) {
            pack_row_pairs(from + offset, p.small[1], lanes, p.small[4], pixels, out, p.panel_width);
            clear_lanes(lanes, p.panel_width, pairs_of(pixels), out, p.panel_width);
            out += pairs_of(pixels) * p.panel_width;
        });
    }
}

/// Adds `channels` channels from `first` on for some column taps and tap tap[0] of the outermost axis.
template <class T>
void add_pairs(const dense_bf16_plan& p, const dense_tiles& tiles, const chunk_grid::chunk& c, const T* from,
               const line_window& window, const tap_group& columns, std::array<std::int64_t, 3> tap, std::int64_t first,
               std::int64_t channels, float* packed) noexcept {
    const std::int64_t pairs = pairs_of(columns.columns());
    const line_terms terms{pairs, pairs * p.panel_width, 0};
    if (p.large_source == source::in_place) {
        large_view view{reinterpret_cast<const float*>(from), p.large, -columns.first / 2};
        for (std::int64_t& step : view.stride) step /= 2;
        view.stride[4] = 0;  // in the origin
        const std::ptrdiff_t segments = fill_list(p, view, c, tap, columns.first, terms, 1, tiles.list);
        tiles.add(segments, 0, 1, first, channels, view.data, {1, view.stride[1], 0});
        return;
    }
    const std::int64_t lines = c.last_line - c.first_line;
    packed_rows rows(p.order, window.lines * pairs, columns.taps, channels);
    const bool windowed = window.lines <= lines * p.axes[1].kernel && rows.floats <= p.packed_floats;
    if (!windowed) rows = packed_rows(p.order, lines * pairs, columns.taps, channels);
    large_view view;
    if (windowed) view = pack_window_pairs(p, from, window, columns, channels, rows, packed);
    // a segment whose last pair has one pixel stays in its line
    const bool collapse = p.axes[2].stride == 1 && columns.columns() % 2 == 0;
    const auto pack = [&](std::int64_t offset, std::int64_t pixels, std::int64_t at) {
        pack_line_pairs(p, from + offset, 1, 0, pixels, columns.taps, channels, rows, packed + at);
    };
    for (tap[1] = 0; tap[1] < p.axes[1].kernel; ++tap[1]) {
        const std::ptrdiff_t segments = windowed
                                            ? fill_list(p, view, c, tap, columns.first, terms, rows.term, tiles.list)
                                            : pack_tap(tiles, c, tap, columns, terms, 2, rows.term, collapse, pack);
        if (segments > 0) tiles.add(segments, tiles.tap_number(tap), columns.taps, first, channels, packed, rows);
    }
}

template <class T>
void add_task(const dense_bf16_plan& p, const T* large, const T* small, std::int64_t number,
              std::byte* slice) noexcept {
    if constexpr (has_pairs<T>) {
        auto* const packed = array_at<float>(slice, p.at_large);
        dense_tiles tiles(p, number, slice);
        tiles.kernels = tiles_for<operand::pair>;
        const std::int64_t channels = tiles.task.channels;
        const T* const from = tiles.task.large(p, large);
        for (std::int64_t i = 0; i < p.chunks.count; ++i) {
            const chunk_grid::chunk c = p.chunks[i];
            std::array<std::int64_t, 3> tap{};
            for (std::int64_t taps = 0; tap[2] < p.axes[2].kernel; tap[2] += taps) {
                const tap_group columns = tap_group_at(p.axes[2], tap[2], c, p.task_taps);
                taps = columns.taps;
                if (columns.columns() == 0) continue;
                pack_small_pairs(p, tiles, tiles.task.small(p, small), c, columns, array_at<float>(slice, p.at_small));
                for (tap[0] = 0; tap[0] < p.axes[0].kernel; ++tap[0]) {
                    const line_window window = window_of(p, c, tap[0]);
                    for (std::int64_t first = 0; first < channels; first += channel_block)
                        add_pairs(p, tiles, c, from + first * p.large[1], window, columns, tap, first,
                                  std::min(channel_block, channels - first), packed);
                }
            }
            p.close_chunk(i, slice);
        }
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
