// Lines of both sides as tap_lanes packs them: [group][line][column][channel], with zeros beside the columns.
//
// Zeros fill the gaps behind lines, so that all pixels of a chunk meet all column taps, and neighbouring lines are one
// segment. The product of a zero and a finite number changes no result: all it can do is turn -0 into +0 in the sum of a
// chunk, which is then added to +0 or a number that is no -0. A chunk where a zero meets another number takes add_exactly.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Zeros behind `columns` pixels of a line from `first` on, in pixels of the small side. The padding to the right of a
/// line is that to the left of the next one.
[[nodiscard]] constexpr std::int64_t gap_columns(const shape::axis& a, std::int64_t first,
                                                 std::int64_t columns) noexcept {
    const position_range span = read_span(a, shape::side::small, first, first + columns);
    const std::int64_t shared =
        std::min(std::max<std::int64_t>(-span.first, 0), std::max<std::int64_t>(span.last - a.large, 0));
    return std::max<std::int64_t>(shape::ceil_div(span.last - span.first - shared, a.stride) - columns, 0);
}
/// The most of any chunk.
[[nodiscard]] constexpr std::int64_t gap_at_most(const tensors& p, const chunk_grid& chunks) noexcept {
    const shape::axis& a = p.axes[2];
    if (chunks.pieces == 1) return gap_columns(a, 0, a.small);
    return shape::ceil_div(std::max<std::int64_t>(a.reach() + 1 - a.stride, 0), a.stride);
}

/// How the lines of a chunk are packed.
struct line_layout {
    std::int64_t columns;       // of the small side
    std::int64_t pixels;        // of it, with the gap
    std::int64_t large_pixels;  // of the large side
    line_layout(const plan& p, const chunk_grid::chunk& c) noexcept
        : columns(c.columns()),
          pixels(columns + gap_columns(p.axes[2], c.first_column, columns)),
          large_pixels(pixels * p.axes[2].stride) {}
};

/// Lines of a side as they are packed: [line][column][channel], with zeros beside the columns.
struct line_packer {
    std::int64_t channels;
    std::int64_t channel_step;
    std::int64_t step;  // from column to column
    std::int64_t line_step;
    std::int64_t left;    // zeros before the columns, in pixels
    std::int64_t count;   // columns
    std::int64_t pixels;  // of a line
    std::int64_t groups;  // those of a task
    std::int64_t group_floats;

    [[nodiscard]] std::int64_t line_floats() const noexcept { return pixels * channels; }
};

/// What knows the type of a side: packs the columns of `lines` lines, the first of which lies `offset` elements behind
/// `from`. Behind the last pixel a vector is written.
using pack_columns_function = void (*)(const line_packer&, const void* from, std::int64_t offset, std::int64_t lines,
                                       float* to) noexcept;

/// Packs `lines` lines of each group.
GRADKERN_NOINLINE inline void pack_lines(const line_packer& l, pack_columns_function pack, const void* from,
                                         std::int64_t offset, std::int64_t lines, float* to) noexcept {
    // Neighbouring channels are read about as they lie in memory: a line of all groups at a time.
    const std::int64_t some = l.channel_step == 1 ? 1 : lines;
    const std::int64_t end = l.left + l.count;
    for (; lines > 0; lines -= some, offset += some * l.line_step, to += some * l.line_floats())
        for (std::int64_t g = 0; g < l.groups; ++g) {
            float* line = to + g * l.group_floats;
            pack(l, from, offset + g * l.channels * l.channel_step, some, line + l.left * l.channels);
            for (std::int64_t i = 0; i < some; ++i, line += l.line_floats()) {
                own::fill(line, line + l.left * l.channels, 0.0F);
                own::fill(line + end * l.channels, line + l.line_floats(), 0.0F);
            }
        }
}

/// Neighbouring channels. What a vector writes behind the channels of a pixel, the next one overwrites.
template <class T>
void pack_pixels(const line_packer& l, const T* from, float* to) noexcept {
    const std::int64_t all = l.channels;
    const std::int64_t pixel_step = l.step;
    const std::int64_t distance = l.line_step;
    const std::int64_t whole = all / simd::lanes * simd::lanes;
    const std::int64_t rest = all - whole;
    if (whole == 0) {
        for (std::int64_t x = l.count; x > 0; --x, from += pixel_step, to += all) {
            simd::prefetch(from, distance);
            simd::store(to, simd::load_wide_partial(from, rest));
        }
        return;
    }
    for (std::int64_t x = l.count; x > 0; --x, from += pixel_step, to += all) {
        simd::prefetch(from, distance);
        for (std::int64_t j = 0; j < whole; j += simd::lanes) simd::store(to + j, simd::load_wide(from + j));
        if (rest > 0) simd::store(to + whole, simd::load_wide_partial(from + whole, rest));
    }
}
/// `all` pixels of lines that are one, by blocks of pixels and channels.
template <class T>
void pack_blocks(const line_packer& l, const T* from, std::int64_t all, float* to) noexcept {
    const std::int64_t channels = l.channels;
    const std::int64_t gap_floats = (l.pixels - l.count) * channels;
    constexpr std::int64_t block = simd::lanes;
    const std::int64_t rows = std::min(block, channels);
    for (std::int64_t next = 0; next < all; next += block) {
        const std::int64_t x = std::max<std::int64_t>(std::min(next, all - block), 0);  // the last block overlaps
        const std::int64_t n = std::min(block, all);
        for (std::int64_t j = 0; j < channels; j += block) {
            j = std::min(j, channels - rows);
            const T* const first = from + j * l.channel_step + x;
            const auto row = [&](std::int64_t i) { return first + std::min(i, rows - 1) * l.channel_step; };
            alignas(64) float transposed[block * block];
            transpose_block(row, n, transposed, block);
            float* out = to + (x * channels + x / l.count * gap_floats + j);
            std::int64_t until_end = l.count - x % l.count;
            for (std::int64_t i = 0; i < n; ++i, out += channels) {
                simd::store(out, simd::load(transposed + i * block));
                if (--until_end > 0) continue;
                until_end = l.count;
                out += gap_floats;
            }
        }
    }
}

template <class T>
void pack_columns_of(const line_packer& l, const void* side, std::int64_t offset, std::int64_t lines,
                     float* to) noexcept {
    const T* from = static_cast<const T*>(side) + offset;
    const bool one_line = l.step == 1 && l.line_step == l.count;
    const std::int64_t some = one_line && l.channel_step != 1 ? lines : 1;
    for (; lines > 0; lines -= some, from += l.line_step, to += l.line_floats()) {
        if (l.channel_step == 1) {
            pack_pixels(l, from, to);
        } else if (l.step == 1) {
            pack_blocks(l, from, some * l.count, to);
        } else {
            pack_lanes(from, l.channel_step, l.channels, l.step, l.count, to, l.channels);
        }
    }
}

/// The lines of a chunk in one plane, and what a plane tap reads for them.
struct plane_part {
    line_position at;
    std::int64_t first_line;  // in the chunk
    std::int64_t lines;
    std::int64_t plane;      // of the large side
    position_range rows;     // of it
    std::int64_t first_row;  // where they are packed
};
template <class F>
void for_each_plane(const plan& p, const chunk_grid::chunk& c, std::int64_t plane_tap, const F& f) noexcept {
    plane_part part{line_position(p.axes, c.first_line), 0, 0, 0, {}, 0};
    for (std::int64_t left = c.last_line - c.first_line; left > 0; left -= part.lines) {
        part.lines = std::min(left, p.axes[1].small - part.at.h);
        part.plane = p.axes[0].position(part.at.d, plane_tap);
        part.rows = read_span_inside(p.axes[1], shape::side::small, part.at.h, part.at.h + part.lines);
        if (part.plane >= 0 && part.plane < p.axes[0].large) {
            f(part);
            part.first_row += part.rows.last - part.rows.first;
        }
        part.first_line += part.lines;
        part.at.advance(p.axes, part.lines);
    }
}

/// Packs a chunk of the small side, [group][line][column][s].
inline void pack_small(const plan& p, const task& t, const chunk_grid::chunk& c, const line_layout& layout,
                       pack_columns_function pack, const void* small, float* to) noexcept {
    const line_packer lines{p.small_channels, p.small[1],    p.small[4], p.small[3],    0,
                            layout.columns,   layout.pixels, t.groups,   p.small_floats};
    line_position at(p.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line;) {
        const std::int64_t some = std::min(c.last_line - line, p.axes[1].small - at.h);
        pack_lines(lines, pack, small, t.small + at.offset(p.small, c.first_column), some, to);
        to += some * lines.line_floats();
        line += some;
        at.advance(p.axes, some);
    }
}

/// Packs what a chunk meets with a plane tap, [group][line][column][l]; returns the lines.
inline std::int64_t pack_large(const plan& p, const task& t, const chunk_grid::chunk& c, const line_layout& layout,
                               std::int64_t plane_tap, pack_columns_function pack, const void* large,
                               float* to) noexcept {
    const position_range span = read_span(p.axes[2], shape::side::small, c.first_column, c.last_column);
    const position_range inside = clipped(span, p.axes[2].large);
    const std::int64_t left = std::clamp<std::int64_t>(inside.first - span.first, 0, layout.large_pixels);
    const std::int64_t count = std::min(inside.last - inside.first, layout.large_pixels - left);
    const line_packer packer{p.large_channels,    p.large[1], p.large[4],     p.large[3], left, count,
                             layout.large_pixels, t.groups,   p.packed_floats};
    std::int64_t lines = 0;
    for_each_plane(p, c, plane_tap, [&](const plane_part& part) {
        const std::int64_t some = part.rows.last - part.rows.first;
        const std::int64_t offset =
            part.at.n * p.large[0] + part.plane * p.large[2] + part.rows.first * p.large[3] + inside.first * p.large[4];
        pack_lines(packer, pack, large, t.large + offset, some, to + lines * packer.line_floats());
        lines += some;
    });
    to += lines * packer.line_floats();
    for (std::int64_t g = 0; g < t.groups; ++g, to += p.packed_floats) own::fill(to, to + p.panel_width, 0.0F);
    return lines;
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
