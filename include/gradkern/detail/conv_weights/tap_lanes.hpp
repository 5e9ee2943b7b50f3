// tap_lanes: the lanes hold the column taps of all channels l of a group.
//
//   loops      task (some groups) > chunk of at most 256 pixels > plane tap > group > row tap > panel of lanes > tile of
//              rows s > pixel
//   lanes      (column tap, l): a packed line is [column][l], so that a vector that begins at a pixel has the numbers of
//              all its column taps side by side. Rows are channels s of the small side, each a number that is broadcast
//   taken      groups of more than four channels, where vectors are fuller than with channels s in the lanes, or tiles
//              larger: 5 to about 24 channels in NXC, to about 12 in NCX, where both sides are transposed; one group
//              where they are four times as full (slowfast_stem: 20.9 -> 13.2 ms in NXC, 20.7 -> 17.8 in NCX)
//   gains      over dense and grouped, f32, Sapphire Rapids, AVX-512, g++ 12 -O2, the layers of the zoo in NXC:
//              regnetx_192_w12 11.8 -> 6.3 ms, regnety_256_g16 5.5 -> 3.4, resnext50_g32_256 9.1 -> 6.2, 1.56 in the
//              mean of 10 layers (1.39 to 1.86)
//   zoo        11 layers: those of regnetx and regnety but one, resnext50_g32_256, resnext50_g32_512, slowfast_stem
//   delete     when dense tiles take several groups and all column taps
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense_tiles.hpp>
#include <gradkern/detail/conv_weights/grouped.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/one_and_a_half_tile.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

// Lines of both sides are packed with gaps of zeros behind them, so that all pixels of a chunk meet all column taps, and
// neighbouring lines are one segment. The product of a zero and a finite number changes no result: all it can do is turn
// -0 into +0 in the sum of a chunk, which is then added to +0 or a number that is no -0. A chunk where a zero meets
// another number takes add_exactly.

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

[[nodiscard]] GRADKERN_COLD constexpr plan make_tap_lanes(const problem& p, algorithm name) noexcept {
    const std::int64_t lanes = p.axes[2].kernel * p.large_channels;
    plan q(p, name, shape::ceil_div(lanes, simd::lanes) * simd::lanes, 0);
    q.panels = 1;
    q.task_channels = p.large_channels;
    const std::int64_t lines = q.chunk_lines();
    const std::int64_t columns = std::min(chunk_positions, p.axes[2].small);
    const std::int64_t pixels = columns + gap_at_most(p, q.chunks);
    const std::int64_t planes = shape::ceil_div(lines - 1, std::max<std::int64_t>(p.axes[1].small, 1)) + 1;
    const std::int64_t rows = std::min(planes * reads_at_most(p.axes[1], shape::side::small, p.axes[1].small),
                                       lines * p.axes[1].stride + planes * (p.axes[1].reach() + 1));
    // A vector more, which the last pixel writes, and which is read for the lanes behind the last tap.
    q.small_floats = lines * pixels * p.small_channels + simd::lanes;
    q.packed_floats = rows * pixels * p.axes[2].stride * p.large_channels + q.panel_width;
    const auto& block = target.weight_gradients;
    const std::int64_t fit =
        std::min(block.sums / q.panel_sums(), block.lanes / std::max(p.small_channels, p.large_channels));
    q.task_groups =
        p.has_neighbouring_channels() ? shape::even_part(p.groups, std::clamp<std::int64_t>(fit, 1, p.groups)) : 1;
    q.lay_out();
    return q;
}

[[nodiscard]] GRADKERN_COLD constexpr bool fits_tap_lanes(const problem& p) noexcept {
    constexpr std::int64_t most = 4096;  // so that sizes of buffers can be counted
    bool is_small = !p.real.is_f64() && p.small_channels <= most && p.large_channels <= most;
    for (const shape::axis& a : p.axes) is_small = is_small && a.stride <= most / 16 && a.reach() < most;
    const bool are_neighbours = p.axes[2].dilation == 1 || p.axes[2].kernel == 1;
    return is_small && are_neighbours && is_bounded(make_tap_lanes(p, algorithm::tap_lanes));
}

/// Products of vectors for each pixel of the small side, with what packing costs beside that of dense: where channels
/// lie apart, the large side is transposed by way of memory.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_tap_lanes(const problem& p) noexcept {
    const std::int64_t lanes = p.axes[2].kernel * p.large_channels;
    const std::int64_t columns = std::min(chunk_positions, p.axes[2].small);
    const std::int64_t gap = gap_at_most(p, chunk_grid(1, 1, p.axes[2].small, summation::joint));
    const auto rows = static_cast<double>(p.axes[0].kernel * p.axes[1].kernel * p.small_channels);
    return rows * static_cast<double>(panel_vectors(lanes, panel_lanes(lanes))) * static_cast<double>(columns + gap) /
               static_cast<double>(columns) +
           (p.large[1] == 1 ? 0 : 2 * target.cost.packed_chunk * static_cast<double>(p.large_channels));
}
/// The same of dense. A tile of one vector takes as long as eight rows of it.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_dense(const problem& p) noexcept {
    const std::int64_t lanes = p.small_channels;
    const auto rows = static_cast<double>(
        lanes > simd::lanes
            ? p.large_channels
            : std::max(p.large_channels, 8 * shape::ceil_div(p.large_channels, std::int64_t{single_vector_rows})));
    const double vectors =
        fits_one_and_a_half(lanes) ? 1.5 : static_cast<double>(panel_vectors(lanes, panel_lanes(lanes)));
    const bool shares_lines = p.large[1] == 1 && 2 * p.large_channels <= 3 * simd::line_elements<float>;
    return static_cast<double>(p.taps()) * rows * vectors * (vectors < 2 ? target.cost.narrow_tile : 1) *
           (shares_lines ? target.cost.shared_lines : 1);
}

/// Where vectors are fuller, or tiles larger, than with the channels of a group in the lanes. Groups of four and less
/// leave tiles too few rows. With a stride, grouped packs less of those of eight. One group is packed for few products.
[[nodiscard]] GRADKERN_COLD constexpr bool is_tap_lanes_profitable(const problem& p) noexcept {
    const bool strided = p.axes[1].stride > 1 || p.axes[2].stride > 1;
    if (p.dot_bf16 || p.small_channels <= 4 || (strided && fits_grouped(p))) return false;
    return cost_of_tap_lanes(p) < (p.groups == 1 ? 0.25 : 0.95) * cost_of_dense(p);
}

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

/// Whether `count` numbers at `from`, and at each of the `lines` steps from there, are all finite.
[[nodiscard]] GRADKERN_NOINLINE inline bool are_finite(const float* from, std::int64_t count, std::int64_t lines,
                                                       std::int64_t step) noexcept {
    simd::vec zeros = simd::zero();
    for (; lines > 0; --lines, from += step)
        for (std::int64_t i = 0; i < count; i += simd::lanes)
            zeros = simd::fma(simd::load_partial(from + i, count - i), simd::zero(), zeros);
    alignas(64) float sums[simd::lanes];
    simd::store(sums, zeros);
    float all = 0;
    for (const float x : sums) all += x;
    return all == 0;
}

/// Sums of one group and chunk: packed sides, and the list of segments of a row tap.
struct tap_lane_sums {
    const plan& p;
    const chunk_grid::chunk& c;
    const line_layout& layout;
    const float* small;
    const float* large;
    k_segment* list;

    /// Lists the segments of a row tap: `length` pixels of each line behind the first `skipped`.
    [[nodiscard]] GRADKERN_NOINLINE std::ptrdiff_t fill_list(std::int64_t plane_tap, std::int64_t row_tap,
                                                             std::int64_t skipped, std::int64_t length) const noexcept {
        std::ptrdiff_t count = 0;
        const std::int64_t b_step = p.axes[2].stride * p.large_channels;
        for_each_plane(p, c, plane_tap, [&](const plane_part& part) {
            for (std::int64_t i = 0; i < part.lines; ++i) {
                const std::int64_t h = p.axes[1].position(part.at.h + i, row_tap);
                if (h < 0 || h >= p.axes[1].large) continue;
                const std::int64_t line = part.first_row + h - part.rows.first;
                count = append(list, count,
                               {((part.first_line + i) * layout.pixels + skipped) * p.small_channels,
                                line * layout.large_pixels * p.large_channels + skipped * b_step, length},
                               p.small_channels, b_step);
            }
        });
        return count;
    }

    /// Whether all that meets zeros is finite: pixels at the ends of lines of the small side, which meet the padding,
    /// and those of the large side that meet the gaps.
    [[nodiscard]] bool is_padding_harmless(std::int64_t large_lines) const noexcept {
        const shape::axis& a = p.axes[2];
        const position_range span = read_span(a, shape::side::small, c.first_column, c.last_column);
        const auto outside = [&](std::int64_t positions) {
            return std::clamp<std::int64_t>(shape::ceil_div(positions, a.stride), 0, layout.columns);
        };
        const std::int64_t left = outside(-span.first);
        const std::int64_t right = outside(span.last - a.large);
        const std::int64_t gap = layout.pixels - layout.columns;
        const std::int64_t gap_reads = gap == 0 ? 0 : (gap - 1) * a.stride + a.reach() + 1;
        const std::int64_t lines = c.last_line - c.first_line;
        const std::int64_t small_step = layout.pixels * p.small_channels;
        return are_finite(small, left * p.small_channels, lines, small_step) &&
               are_finite(small + (layout.columns - right) * p.small_channels, right * p.small_channels, lines,
                          small_step) &&
               are_finite(large + layout.columns * a.stride * p.large_channels, gap_reads * p.large_channels,
                          large_lines, layout.large_pixels * p.large_channels);
    }

    /// Adds the products of a row tap to its sums.
    void add(std::int64_t plane_tap, std::int64_t row_tap, float* sum, std::int64_t sum_step) const noexcept {
        const std::ptrdiff_t segments = fill_list(plane_tap, row_tap, 0, layout.pixels);
        if (segments == 0) return;
        const std::int64_t lanes = p.axes[2].kernel * p.large_channels;
        const std::int64_t width = panel_lanes(lanes);
        for (std::int64_t j = 0; j < lanes; j += width) {
            const std::int64_t used = std::min(width, lanes - j);
            const tile_function* const tiles = tiles_for<operand::scalar>(used);
            const float* a_first = small;
            float* c_first = sum + j;
            split_rows(p.small_channels, rows_at_most(used), row_unit<operand::scalar>, [&](std::ptrdiff_t count) {
                std::array<const float*, most_rows> a;
                std::array<float*, most_rows> to;
                for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
                    a[row] = a_first++;
                    to[row] = c_first;
                    c_first += sum_step;
                }
                tiles[count - 1]({.list = list,
                                  .count = segments,
                                  .rows = count,
                                  .a = a.data(),
                                  .a_step = p.small_channels,
                                  .b = large + j,
                                  .b_step = p.axes[2].stride * p.large_channels,
                                  .c = to.data(),
                                  .mode = tile_mode::add});
            });
        }
    }

    /// The same tap by tap, for the pixels that lie inside.
    GRADKERN_NOINLINE void add_exactly(std::int64_t plane_tap, std::int64_t row_tap, float* sum,
                                       std::int64_t sum_step) const noexcept {
        for (std::int64_t tap = 0; tap < p.axes[2].kernel; ++tap) {
            const position_range inside = p.axes[2].inside_positions(tap);
            const std::int64_t first = std::max(inside.first, c.first_column);
            const std::int64_t last = std::min(inside.last, c.last_column);
            if (first >= last) continue;
            const std::ptrdiff_t segments = fill_list(plane_tap, row_tap, first - c.first_column, last - first);
            for (std::int64_t s = 0; s < p.small_channels; ++s) {
                for (std::int64_t l = 0; l < p.large_channels; l += simd::lanes) {
                    const std::int64_t at = tap * p.large_channels + l;
                    simd::vec products = simd::zero();
                    for (const k_segment* e = list; e != list + segments; ++e) {
                        const float* a = small + e->a + s;
                        const float* b = large + e->b + at;
                        for (std::ptrdiff_t x = 0; x < e->length; ++x) {
                            products = simd::fma(simd::broadcast(*a), simd::load(b), products);
                            a += p.small_channels;
                            b += p.axes[2].stride * p.large_channels;
                        }
                    }
                    float* const to = sum + s * sum_step + at;
                    const std::int64_t n = std::min<std::int64_t>(simd::lanes, p.large_channels - l);
                    if (segments > 0) simd::store_partial(to, simd::add(simd::load_partial(to, n), products), n);
                }
            }
        }
    }
};

/// Adds some chunks to the sums of a task. Whatever the types of the tensors: compiled once.
GRADKERN_NOINLINE inline void add_tap_lanes(const plan& p, const task& t, const chunk_grid::range& range,
                                            pack_columns_function pack, const void* large, const void* small,
                                            std::byte* slice) noexcept {
    auto* const packed_small = array_at<float>(slice, p.at_small);
    auto* const packed_large = array_at<float>(slice, p.at_large);
    const std::int64_t sum_step = p.axes[0].kernel * p.axes[1].kernel * p.panel_width;
    for (std::int64_t i = range.first; i < range.last; ++i) {
        const chunk_grid::chunk c = p.chunks[i];
        const line_layout layout(p, c);
        pack_small(p, t, c, layout, pack, small, packed_small);
        for (std::int64_t d = 0; d < p.axes[0].kernel; ++d) {
            const std::int64_t lines = pack_large(p, t, c, layout, d, pack, large, packed_large);
            float* sum = array_at<float>(slice, p.at_sum) + d * p.axes[1].kernel * p.panel_width;
            for (std::int64_t g = 0; g < t.groups; ++g, sum += p.panel_sums()) {
                const tap_lane_sums sums{p,
                                         c,
                                         layout,
                                         packed_small + g * p.small_floats,
                                         packed_large + g * p.packed_floats,
                                         array_at<k_segment>(slice, p.at_list)};
                const bool harmless = sums.is_padding_harmless(lines);
                for (std::int64_t h = 0; h < p.axes[1].kernel; ++h)
                    harmless ? sums.add(d, h, sum + h * p.panel_width, sum_step)
                             : sums.add_exactly(d, h, sum + h * p.panel_width, sum_step);
            }
        }
    }
}

/// move_task
template <class G>
void move_tap_lanes(const plan& p, const task& t, const transfer& move, float* sum, G* diff_weights) noexcept {
    const std::int64_t kw = p.axes[2].kernel;
    const std::int64_t rows = p.axes[0].kernel * p.axes[1].kernel;
    G* group = diff_weights + t.group * p.small_channels * p.weights[0];
    for (std::int64_t g = 0; g < t.groups; ++g, group += p.small_channels * p.weights[0], sum += p.panel_sums())
        for (std::int64_t row = 0; row < rows; ++row) {
            float* const from = sum + row * p.panel_width;
            G* const to = group + row / p.axes[1].kernel * p.weights[2] + row % p.axes[1].kernel * p.weights[3];
            if (kw == 1 || p.weights[4] == p.large_channels * p.weights[1]) {
                move(from, rows * p.panel_width, kw * p.large_channels, p.small_channels, to, p.weights[1],
                     p.weights[0]);
                continue;
            }
            for (std::int64_t s = 0; s < p.small_channels; ++s)
                move(from + s * rows * p.panel_width, p.large_channels, p.large_channels, kw, to + s * p.weights[0],
                     p.weights[1], p.weights[4]);
        }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
