// What the tiles of the dense path of the reduction engine (conv_weights/dense.hpp) read of the large side, with the list of the
// stretches of positions that go with it: the tensor in place, windows of its lines staged once for all taps, or the positions
// of each tap staged by themselves.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/points.hpp>
#include <gradkern/detail/target.hpp>
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
    if constexpr (has_pairs<T>) {  // taps that follow one another in memory are one row of channels
        if (r.pairs && rows.channel == 1 && r.large[1] == 1 && r.axes[2].dilation_in(r.large[4]) == channels) {
            channels *= taps;
            taps = 1;
        }
    }
    for (std::int64_t t = 0; t < taps; ++t, from += r.axes[2].dilation_in(r.large[4]), to += rows.tap) {
        if constexpr (has_pairs<T>) {
            if (r.pairs && rows.term == 1) {
                // Lines that follow one another are a stretch of memory, asked for some channels ahead.
                const std::int64_t ahead =
                    line_step < 4 * (count * step + simd::line_elements<T>) ? lines * line_step : 0;
                for (std::int64_t k = 0; k < channels; ++k) {
                    for (std::int64_t i = 0; i < ahead && k + target.prefetch.packed_pixels < channels;
                         i += simd::line_elements<T>)
                        simd::prefetch(from, (k + target.prefetch.packed_pixels) * r.large[1] + i);
                    pack_lane_pairs(from + k * r.large[1], step, count, line_step, lines, to + k * rows.channel,
                                    line_floats);
                }
                continue;
            }
        }
        for (std::int64_t line = 0; line < lines; ++line) {
            const T* const source = from + line * line_step;
            float* const line_to = to + line * line_floats;
            if constexpr (has_pairs<T>) {
                if (r.pairs) {
                    pack_row_pairs(source, r.large[1], channels, step, count, line_to, rows.term);
                    continue;
                }
            }
            if (r.large[4] == 1) {  // what the stride leaves out of a line is the tensor's, too
                pack_every(source, r.large[1], channels, step, count, line_to, rows.term);
            } else {
                pack_lanes(source, r.large[1], channels, step, count, line_to, rows.term);
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

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
