// The dense path of the reduction engine (reduce_plan.hpp): tasks of some panels of small-side channels times a range of
// large-side channels. Per chunk, where large-side lines are read in place or staged once for all taps:
//
//     tap of the outermost axis > channels staged at a time > column tap > tap of the middle axis > panel > tile
//
// and where the positions of each tap are staged, or pairs of bf16 are packed for each column tap:
//
//     column tap > tap of the outermost axis > channels staged at a time > tap of the middle axis > panel > tile
//
// A column tap stands for several neighbouring ones where channels are few; rows of a tile are (column tap, channel).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/points.hpp>
#include <gradkern/detail/plan/reduce_plan.hpp>
#include <gradkern/detail/plan/summation.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What tiles read of the large side: the tensor, a part of it, or a window of its lines (stage_window). Offsets of a
/// position, as in the tensor, count from `origin`.
template <class T>
struct large_source {
    const T* data = nullptr;
    shape::canonical_strides stride{};
    std::int64_t origin = 0;
};

/// The inside positions of one tap in a chunk, in the columns [first, last) of each line: `a` on the large side, `b` in the
/// packed chunk or on the small side. Neighbouring stretches become one where terms of the large side are `a_step` apart;
/// 0: each stays in its line. Terms are positions, or pairs of those of a line.
template <class T>
[[nodiscard]] inline std::ptrdiff_t fill_positions(const reduce_plan& r, const large_source<T>& large,
                                                   const chunk_grid::chunk& c, const std::array<std::int64_t, 3>& tap,
                                                   std::int64_t first, std::int64_t last, std::int64_t a_step,
                                                   stretch* list) noexcept {
    std::ptrdiff_t count = 0;
    const std::int64_t terms = r.terms(last - first);
    // Where a line begins in the packed chunk, and the first of its positions: all are packed, or pairs of those inside.
    const std::int64_t line_terms = r.pairs ? terms : c.columns();
    const std::int64_t first_term = r.pairs ? 0 : first - c.first_column;
    line_position at(r.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(r.axes)) {
        const std::int64_t d = r.axes[0].position(at.d, tap[0]);
        const std::int64_t h = r.axes[1].position(at.h, tap[1]);
        if (d < 0 || d >= r.axes[0].large || h < 0 || h >= r.axes[1].large) continue;
        const std::int64_t a = at.n * large.stride[0] + d * large.stride[2] + h * large.stride[3] +
                               r.axes[2].position(first, tap[2]) * large.stride[4] - large.origin;
        const std::int64_t b = r.small_in_place ? at.offset(r.small, first)
                                                : ((line - c.first_line) * line_terms + first_term) * r.panel_width;
        if (a_step != 0 && count > 0) {
            stretch& e = list[count - 1];
            if (e.a + e.length * a_step == a && e.b + e.length * r.small_step() == b) {
                e.length += terms;
                continue;
            }
        }
        list[count++] = {a, b, terms};
    }
    return count;
}

/// Neighbouring lines of the large side, numbered over (batch, depth, height), and the columns wanted of each.
struct line_window {
    std::int64_t first_line = 0;
    std::int64_t lines = 0;
    std::int64_t first_column = 0;
    std::int64_t columns = 0;
    [[nodiscard]] std::int64_t positions() const noexcept { return lines * columns; }
};

/// All that a chunk meets with tap `tap` of the outermost axis and any of the others.
[[nodiscard]] inline line_window window_of(const reduce_plan& r, const chunk_grid::chunk& c,
                                           std::int64_t tap) noexcept {
    // The positions [low, high) that small ones from `first` to `last` meet.
    const auto reach = [](const shape::axis& a, std::int64_t first, std::int64_t last, const auto& f) {
        const std::int64_t low = std::max<std::int64_t>(a.position(first, 0), 0);
        const std::int64_t high = std::min(a.position(last, a.kernel - 1) + 1, a.large);
        if (low < high) f(low, high);
    };
    line_window w;
    line_position at(r.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(r.axes)) {
        const std::int64_t d = r.axes[0].position(at.d, tap);
        if (d < 0 || d >= r.axes[0].large) continue;
        const std::int64_t plane = (at.n * r.axes[0].large + d) * r.axes[1].large;
        reach(r.axes[1], at.h, at.h, [&](std::int64_t low, std::int64_t high) {
            if (w.lines == 0) w.first_line = plane + low;
            w.lines = plane + high - w.first_line;
        });
    }
    reach(r.axes[2], c.first_column, c.last_column - 1, [&](std::int64_t low, std::int64_t high) {
        w.first_column = low;
        w.columns = high - low;
    });
    return w;
}

/// How many channels of the windows of a chunk are staged at a time; 0 where that is more work than to stage the
/// positions of each tap, or more than the scratch holds.
[[nodiscard]] inline std::int64_t window_channels(const reduce_plan& r, const chunk_grid::chunk& c,
                                                  std::int64_t channels) noexcept {
    // Tiles read many channels with a stride between positions more slowly than the same moved together.
    const std::int64_t stride = r.axes[2].stride;
    if (!r.window_of_rows() && stride > 1 && channels > channel_block / stride) return 0;
    const std::int64_t uses = c.positions() * r.axes[1].kernel * r.axes[2].kernel;
    std::int64_t positions = 0;
    for (std::int64_t tap = 0; tap < r.axes[0].kernel; ++tap)
        positions = std::max(positions, window_of(r, c, tap).positions());
    if (positions > uses) return 0;
    for (std::int64_t blocks = shape::ceil_div(channels, channel_block);; ++blocks) {
        const std::int64_t block = shape::ceil_div(channels, blocks);
        if (r.window_floats(positions, block) <= r.staged_floats) return block;
        if (block <= tile_rows) return 0;
    }
}

/// Stages `channels` channels of a window as they lie in memory, where rows of columns stay rows, or turned into such rows.
template <class T>
[[nodiscard]] inline large_source<float> stage_window(const reduce_plan& r, const T* large, const line_window& w,
                                                      std::int64_t channels, float* staging) noexcept {
    const bool rows = r.window_of_rows();
    const std::int64_t pitch = row_pitch(w.positions());
    const std::int64_t column = rows ? 1 : channels;
    const std::int64_t line = w.columns * column;
    const std::int64_t plane = r.axes[1].large * line;
    const large_source<float> source{staging,
                                     {r.axes[0].large * plane, rows ? pitch : 1, plane, line, column},
                                     w.first_line * line + w.first_column * column};
    if (w.positions() == 0) return source;
    point_walk walk(r.batch, {r.axes[0].large, r.axes[1].large, w.columns}, r.large, w.first_line * w.columns);
    const T* const first = large + w.first_column * r.large[4];
    if (rows && !r.turned) {
        stage_points(first, walk, w.positions(), r.large[1], channels, false, staging, pitch);
        return source;
    }
    for (std::int64_t left = w.positions(); left > 0;) {
        const point_run run = walk.next(left);
        const T* const from = first + run.offset;
        if (rows) {
            pack_lanes(from, walk.step(), run.count, r.large[1], channels, staging, pitch);
        } else {
            pack_lanes(from, r.large[1], channels, walk.step(), run.count, staging, channels);
        }
        staging += run.count * column;
        left -= run.count;
    }
    return source;
}

/// Makes one stretch of those that continue the one before; returns how many are left.
[[nodiscard]] inline std::ptrdiff_t join_stretches(stretch* list, std::ptrdiff_t count, std::int64_t a_step,
                                                   std::int64_t b_step) noexcept {
    std::ptrdiff_t last = 0;
    for (std::ptrdiff_t e = 1; e < count; ++e) {
        stretch& s = list[last];
        if (s.a + s.length * a_step == list[e].a && s.b + s.length * b_step == list[e].b) {
            s.length += list[e].length;
        } else {
            list[++last] = list[e];
        }
    }
    return last + 1;
}

/// Where the rows (tap, channel) of tiles lie in a staging area: terms innermost or outermost.
struct staged_rows {
    std::int64_t term = 0;     // from term to term
    std::int64_t channel = 0;  // from channel to channel
    std::int64_t tap = 0;      // from tap to tap
    std::int64_t floats = 0;   // of all
    staged_rows(bool terms_innermost, std::int64_t terms, std::int64_t taps, std::int64_t channels) noexcept
        : term(terms_innermost ? 1 : taps * channels),
          channel(terms_innermost ? row_pitch(terms) : 1),
          tap(channels * channel),
          floats(terms_innermost ? taps * tap : terms * term) {}
};

/// Stages `count` positions of each of `lines` lines, `line_step` elements apart, for `taps` column taps.
template <class T>
inline void stage_lines(const reduce_plan& r, const T* from, std::int64_t lines, std::int64_t line_step,
                        std::int64_t count, std::int64_t taps, std::int64_t channels, const staged_rows& rows,
                        float* to) noexcept {
    const std::int64_t step = r.axes[2].stride_in(r.large[4]);
    const std::int64_t line_floats = r.terms(count) * rows.term;
    for (std::int64_t t = 0; t < taps; ++t, from += r.axes[2].dilation_in(r.large[4]), to += rows.tap) {
        if constexpr (has_pairs<T>) {
            if (r.pairs && rows.term == 1) {
                // Lines that follow one another are a stretch of memory, asked for some channels ahead.
                const std::int64_t ahead =
                    line_step < 4 * (count * step + simd::line_elements<T>) ? lines * line_step : 0;
                for (std::int64_t k = 0; k < channels; ++k) {
                    for (std::int64_t i = 0; i < ahead && k + 4 < channels; i += simd::line_elements<T>)
                        simd::prefetch(from, (k + 4) * r.large[1] + i);
                    pack_lane_pairs(from + k * r.large[1], step, count, line_step, lines, to + k * rows.channel,
                                    line_floats);
                }
                continue;
            }
        }
        for (std::int64_t line = 0; line < lines; ++line) {
            const T* const source = from + line * line_step;
            float* const target = to + line * line_floats;
            if constexpr (has_pairs<T>) {
                if (r.pairs) {
                    pack_row_pairs(source, r.large[1], channels, step, count, target, rows.term);
                    continue;
                }
            }
            if (r.large[4] == 1) {  // what the stride leaves out of a line is the tensor's, too
                pack_every(source, r.large[1], channels, step, count, target, rows.term);
            } else {
                pack_lanes(source, r.large[1], channels, step, count, target, rows.term);
            }
        }
    }
}

/// Stages the lines that some taps of a column meet in a chunk, each line once for all row taps. Only for pairs, which
/// begin with the first inside position.
template <class T>
[[nodiscard]] inline large_source<float> stage_window_pairs(const reduce_plan& r, const T* large, const line_window& w,
                                                            const tap_group& columns, std::int64_t channels,
                                                            const staged_rows& rows, float* staging) noexcept {
    const std::int64_t first = r.axes[2].position(columns.first, columns.first_tap);
    const std::int64_t line = r.terms(columns.last - columns.first) * rows.term;
    const std::int64_t plane = r.axes[1].large * line;
    std::array<shape::axis, 3> axes = r.axes;  // of the large side's lines
    for (shape::axis& a : axes) a.small = a.large;
    line_position at(axes, w.first_line);
    for (std::int64_t done = 0; done < w.lines; at.advance(axes)) {
        const std::int64_t lines = std::min(w.lines - done, r.axes[1].large - at.h);  // of a plane
        stage_lines(r, large + at.offset(r.large, first), lines, r.large[3], columns.last - columns.first, columns.taps,
                    channels, rows, staging + done * line);
        done += lines;
        at.h += lines - 1;
    }
    return {staging,
            {r.axes[0].large * plane, rows.channel, plane, line, rows.term},
            w.first_line * line + first * rows.term};
}

/// Stages the positions of some column taps and one tap of each other axis; returns how many stretches the list has.
template <class T>
[[nodiscard]] inline std::ptrdiff_t stage_tap(const reduce_plan& r, const T* large, const chunk_grid::chunk& c,
                                              const std::array<std::int64_t, 3>& tap, const tap_group& columns,
                                              std::int64_t channels, const staged_rows& rows, stretch* list,
                                              float* staging) noexcept {
    // Staged with a stride (pack_every), or by pairs with a last one of one position, each stretch stays in its line.
    const std::int64_t columns_used = columns.last - columns.first;
    const bool join = r.axes[2].stride == 1 && (!r.pairs || columns_used % 2 == 0);
    const std::int64_t term_positions = r.pairs ? 2 : 1;
    const std::ptrdiff_t count = fill_positions(r, large_source<T>{large, r.large}, c, tap, columns.first, columns.last,
                                                join ? term_positions * r.large[4] : 0, list);
    std::int64_t at = 0;
    for (std::ptrdiff_t e = 0; e < count; ++e) {
        const std::int64_t positions = join ? list[e].length * term_positions : columns_used;
        stage_lines(r, large + list[e].a, 1, 0, positions, columns.taps, channels, rows, staging + at);
        list[e].a = at;
        at += list[e].length * rows.term;
    }
    return count == 0 ? 0 : join_stretches(list, count, rows.term, r.small_step());
}

/// The tiles of a task, whatever the types of its tensors: compiled once.
struct dense_tiles {
    const reduce_plan& r;
    std::int64_t panels = 0;
    std::int64_t lanes = 0;  // of all of them
    const tile_function* (*tiles)(std::ptrdiff_t lanes_used) = nullptr;
    const float* small = nullptr;  // packed, or in place
    std::int64_t panel_step = 0;   // there, from panel to panel
    const stretch* list = nullptr;
    float* sum = nullptr;
    std::int64_t ahead = 0;

    /// What rows read: `source` belongs to the first channel and tap.
    struct row_source {
        const float* source;
        std::int64_t term;     // from term to term
        std::int64_t channel;  // from channel to channel
        std::int64_t tap;      // from column tap to column tap
    };

    /// Adds the positions in the list, `stretches` of them, to the sums of `taps` neighbouring column taps from number `tap` on,
    /// in `channels` channels from `first_channel` on.
    GRADKERN_NOINLINE void add(std::ptrdiff_t stretches, std::int64_t tap, std::int64_t taps,
                               std::int64_t first_channel, std::int64_t channels,
                               const row_source& from) const noexcept {
        const std::int64_t row_floats = r.taps() * r.panel_width;  // between the sums of neighbouring channels
        for (std::int64_t p = 0; p < panels; ++p) {
            const tile_function* const kernels = tiles(std::min(r.panel_width, lanes - p * r.panel_width));
            float* const panel_sum = sum + (p * r.task_channels + first_channel) * row_floats + tap * r.panel_width;
            std::int64_t t = 0;  // rows of the tile: (tap, channel)
            std::int64_t channel = 0;
            constexpr std::ptrdiff_t unit = row_unit<operand::scalar>;
            split_rows(taps * channels, rows_at_most(r.panel_width), unit, [&](std::ptrdiff_t count) {
                std::array<const float*, most_rows> a;
                std::array<float*, most_rows> to;
                for (std::ptrdiff_t row = 0; row < count; ++row) {
                    a[static_cast<std::size_t>(row)] = from.source + t * from.tap + channel * from.channel;
                    to[static_cast<std::size_t>(row)] = panel_sum + t * r.panel_width + channel * row_floats;
                    if (++channel < channels) continue;
                    channel = 0;
                    ++t;
                }
                kernels[count - 1]({.list = list,
                                    .count = stretches,
                                    .rows = count,
                                    .a = a.data(),
                                    .a_step = from.term,
                                    .b = small + p * panel_step,
                                    .b_step = r.small_step(),
                                    .c = to.data(),
                                    .mode = tile_mode::add,
                                    .a_ahead = ahead});
            });
        }
    }
};

/// One task of the dense path.
template <class T>
void reduce_dense(const reduce_plan& r, const T* large, const T* small, std::int64_t task, std::byte* slice) noexcept {
    auto* packed = reinterpret_cast<float*>(slice + r.at_small);
    auto* staging = reinterpret_cast<float*>(slice + r.at_large);
    auto* list = reinterpret_cast<stretch*>(slice + r.at_list);
    auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
    auto* total = reinterpret_cast<float*>(slice + r.at_total);
    const std::int64_t first_channel = task % r.channel_ranges() * r.task_channels;
    const std::int64_t first_panel = task / r.channel_ranges() % r.panel_groups() * r.task_panels;
    const std::int64_t group = task / (r.channel_ranges() * r.panel_groups());
    const std::int64_t channels = std::min(r.task_channels, r.large_channels - first_channel);
    const std::int64_t panels = std::min(r.task_panels, r.panels - first_panel);
    const bool none = r.chunks.count == 0;  // an empty batch has no memory: null takes no offset
    const T* large_base = none ? large : large + (group * r.large_channels + first_channel) * r.large[1];
    const T* small_base = none ? small : small + (group * r.small_channels + first_panel * r.panel_width) * r.small[1];
    dense_tiles tiles{.r = r,
                      .panels = panels,
                      .lanes = std::min(panels * r.panel_width, r.small_channels - first_panel * r.panel_width),
                      .tiles = tiles_for<operand::scalar>,
                      .small = packed,
                      .panel_step = r.positions * r.panel_width,
                      .list = list,
                      .sum = sum};
    if constexpr (has_pairs<T>) {
        if (r.pairs) tiles.tiles = tiles_for<operand::pair>;
    }
    if constexpr (std::is_same_v<T, float>) {
        if (r.small_in_place) {
            tiles.small = small_base;
            tiles.panel_step = r.panel_width;
        }
    }

    for (std::int64_t i = 0; i < r.chunks.count; ++i) {
        const chunk_grid::chunk c = r.chunks[i];
        if (!r.pairs && !r.small_in_place)
            pack_chunk(r.axes, small_base, r.small, c, tiles.lanes, r.panel_width, tiles.panel_step, packed);
        // 1x1: from what a tile reads in place to what one reads for the next chunk, more than a CPU fetches by itself. Other
        // kernels read each position several times.
        tiles.ahead = 0;
        if (r.taps() == 1 && !r.staged && r.large[1] == 1 && i + 1 < r.chunks.count) {
            const line_position here(r.axes, c.first_line);
            const line_position next(r.axes, r.chunks[i + 1].first_line);
            tiles.ahead = (next.n - here.n) * r.large[0] + (next.d - here.d) * r.axes[0].stride_in(r.large[2]) +
                          (next.h - here.h) * r.axes[1].stride_in(r.large[3]);
        }
        std::array<std::int64_t, 3> tap{};
        const auto tap_index = [&] { return (tap[0] * r.axes[1].kernel + tap[1]) * r.axes[2].kernel + tap[2]; };
        // Channels read in place all at once, staged windows of them by blocks. Where no window fits, f32 is read in place
        // that would have been turned, unless it lies far apart; else the positions of each tap are staged, below.
        const std::int64_t window_block = !r.staged || r.pairs ? 0 : window_channels(r, c, channels);
        const bool in_place = std::is_same_v<T, float> && (!r.staged || (r.turned && !r.far && window_block == 0));
        const std::int64_t block = in_place ? channels : window_block;
        for (tap[0] = 0; tap[0] < r.axes[0].kernel && block > 0; ++tap[0]) {
            const line_window window = in_place ? line_window{} : window_of(r, c, tap[0]);
            for (std::int64_t c0 = 0; c0 < channels; c0 += block) {
                const std::int64_t cl = std::min(block, channels - c0);
                large_source<float> source;
                if (!in_place) {
                    source = stage_window(r, large_base + c0 * r.large[1], window, cl, staging);
                } else if constexpr (std::is_same_v<T, float>) {
                    source = {large_base, r.large};
                }
                std::int64_t taps = 1;
                for (tap[2] = 0; tap[2] < r.axes[2].kernel; tap[2] += taps) {
                    const tap_group columns =
                        tap_group_at(r.axes[2], tap[2], c.first_column, c.last_column, r.task_taps);
                    taps = columns.taps;
                    if (columns.first == columns.last) continue;
                    for (tap[1] = 0; tap[1] < r.axes[1].kernel; ++tap[1]) {
                        const std::ptrdiff_t stretches = fill_positions(r, source, c, tap, columns.first, columns.last,
                                                                        r.axes[2].stride_in(source.stride[4]), list);
                        if (stretches == 0) continue;
                        tiles.add(stretches, tap_index(), taps, c0, cl,
                                  {source.data, r.axes[2].stride_in(source.stride[4]), source.stride[1],
                                   r.axes[2].dilation_in(source.stride[4])});
                    }
                }
            }
        }
        std::int64_t taps = 1;  // of a row, neighbours that meet the same positions: they go together
        for (tap[2] = 0; tap[2] < r.axes[2].kernel && block == 0; tap[2] += taps) {
            const tap_group columns = tap_group_at(r.axes[2], tap[2], c.first_column, c.last_column, r.task_taps);
            taps = columns.taps;
            if (columns.first == columns.last) continue;
            if constexpr (has_pairs<T>) {
                for (std::int64_t p = 0; r.pairs && p < panels; ++p) {
                    const std::int64_t used = std::min(r.panel_width, tiles.lanes - p * r.panel_width);
                    pack_chunk_pairs(r.axes, small_base + p * r.panel_width * r.small[1], r.small, c, columns.first,
                                     columns.last, used, r.panel_width, packed + p * tiles.panel_step);
                }
            }
            for (tap[0] = 0; tap[0] < r.axes[0].kernel; ++tap[0]) {
                const line_window window = r.pairs ? window_of(r, c, tap[0]) : line_window{};
                const std::int64_t lines = c.last_line - c.first_line;
                const std::int64_t terms = r.terms(columns.last - columns.first);
                for (std::int64_t c0 = 0; c0 < channels; c0 += channel_block) {
                    const std::int64_t cl = std::min(channel_block, channels - c0);
                    const T* const from = large_base + c0 * r.large[1];
                    if constexpr (has_pairs<T>) {
                        if (r.pairs_in_place()) {
                            large_source<float> source{reinterpret_cast<const float*>(from), r.large,
                                                       -columns.first / 2};
                            for (std::int64_t& step : source.stride) step /= 2;
                            source.stride[4] = 0;  // in the origin
                            const std::ptrdiff_t stretches =
                                fill_positions(r, source, c, tap, columns.first, columns.last, 1, list);
                            tiles.add(stretches, 0, 1, c0, cl, {source.data, 1, source.stride[1], 0});
                            continue;
                        }
                    }
                    const bool innermost = r.pairs && r.window_of_rows();
                    staged_rows rows(innermost, window.lines * terms, taps, cl);
                    const bool windowed =
                        r.pairs && window.lines <= lines * r.axes[1].kernel && rows.floats <= r.staged_floats;
                    if (!windowed) rows = staged_rows(innermost, lines * terms, taps, cl);
                    large_source<float> source;
                    if (windowed) source = stage_window_pairs(r, from, window, columns, cl, rows, staging);
                    for (tap[1] = 0; tap[1] < r.axes[1].kernel; ++tap[1]) {
                        const std::ptrdiff_t stretches =
                            windowed ? fill_positions(r, source, c, tap, columns.first, columns.last, rows.term, list)
                                     : stage_tap(r, from, c, tap, columns, cl, rows, list, staging);
                        if (stretches > 0)
                            tiles.add(stretches, tap_index(), taps, c0, cl,
                                      {staging, rows.term, rows.channel, rows.tap});
                    }
                }
            }
        }
        if (r.two_levels() && ((i + 1) % chunks_per_sum == 0 || i + 1 == r.chunks.count))
            fold(sum, total, r.sum_floats);
    }
}

/// Sends the sums [panel][l][tap][lane] of a dense task to the tensor.
template <class G>
void store_dense(const reduce_plan& r, const float* sum, std::int64_t task, G* diff_weights) noexcept {
    const std::int64_t first_channel = task % r.channel_ranges() * r.task_channels;
    const std::int64_t first_panel = task / r.channel_ranges() % r.panel_groups() * r.task_panels;
    const std::int64_t group = task / (r.channel_ranges() * r.panel_groups());
    const std::int64_t channels = std::min(r.task_channels, r.large_channels - first_channel);
    const std::int64_t panels = std::min(r.task_panels, r.panels - first_panel);
    const std::int64_t first_lane = first_panel * r.panel_width;
    const std::int64_t lanes = std::min(panels * r.panel_width, r.small_channels - first_lane);
    const std::int64_t kh = r.axes[1].kernel;
    const std::int64_t kw = r.axes[2].kernel;
    const std::int64_t row_floats = r.taps() * r.panel_width;
    G* const to = diff_weights + (group * r.small_channels + first_lane) * r.weights[0] + first_channel * r.weights[1];
    // Calls f(sums of a panel, its lanes, where the first of them goes).
    const auto for_each_panel = [&](const auto& f) {
        for (std::int64_t p = 0; p < panels; ++p)
            f(sum + p * r.task_channels * row_floats, std::min(r.panel_width, lanes - p * r.panel_width),
              to + p * r.panel_width * r.weights[0]);
    };
    const bool taps_contiguous =
        r.weights[4] == 1 && (kh == 1 || r.weights[3] == kw) && (r.axes[0].kernel == 1 || r.weights[2] == kw * kh);
    if (taps_contiguous && r.weights[0] != 1) {
        // OIX: one long row a lane; of a transposed convolution a row for each channel and lane
        const bool rows_join = r.weights[1] == r.taps();
        for_each_panel([&](const float* from, std::int64_t used, G* target) {
            for (std::int64_t l = 0; l < (rows_join ? 1 : channels); ++l)
                unpack_lanes(from + l * row_floats, r.panel_width, used, (rows_join ? channels : 1) * r.taps(),
                             target + l * r.weights[1], r.weights[0], 1, r.accumulate);
        });
        return;
    }
    // Where lanes are neighbours, the rows of a few channels are written over all panels at a time. No CPU fetches the
    // next ones by itself: they lie far behind.
    const std::int64_t some = r.weights[0] == 1 ? 4 : channels;
    std::int64_t tap = 0;
    for (std::int64_t d = 0; d < r.axes[0].kernel; ++d)
        for (std::int64_t h = 0; h < kh; ++h)
            for (std::int64_t x = 0; x < kw; ++x, ++tap)
                for (std::int64_t l = 0; l < channels; l += some)
                    for_each_panel([&](const float* from, std::int64_t used, G* target) {
                        G* const row =
                            target + d * r.weights[2] + h * r.weights[3] + x * r.weights[4] + l * r.weights[1];
                        for (std::int64_t next = some; next < std::min(2 * some, channels - l); ++next)
                            for (std::int64_t j = 0; j < used; j += simd::line_elements<G>)
                                simd::prefetch_to_write(row, next * r.weights[1] + j * r.weights[0]);
                        unpack_lanes(from + l * row_floats + tap * r.panel_width, row_floats, used,
                                     std::min(some, channels - l), row, r.weights[0], r.weights[1], r.accumulate);
                    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
