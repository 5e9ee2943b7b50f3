// tap_lanes: the lanes hold the column taps of all channels l of a group.
//
//   loops      task (some groups) > chunk of at most 256 pixels > plane tap > group > row tap > panel of lanes > tile of
//              rows s > pixel
//   lanes      (column tap, l): a packed line is [column][l], so that a vector that begins at a pixel has the numbers of
//              all its column taps side by side. Rows are channels s of the small side, each a number that is broadcast
//   taken      where it costs less than the row that would be taken else (conv_weights/cost.hpp): groups of few channels, up to about 58
//              where panels of channels s leave lanes empty, and one group of few channels on one side, whose sums are few
//   gains      over dense and grouped, f32, Sapphire Rapids, AVX-512, g++ 12 -O2, the layers of the zoo in NXC:
//              regnetx_192_w12 11.8 -> 6.3 ms, regnety_256_g16 5.5 -> 3.4, resnext50_g32_256 9.1 -> 6.2, 1.56 in the
//              mean of 10 layers (1.39 to 1.86)
//              Layers of few channels drawn at random: 0.67 and 0.58 of the time of the rows that were taken before costs were cycles (66 of
//              260 in NCX, 62 of 260 in NXC, 0.14 to 1.3; Emerald Rapids, AVX-512), 0.82 and 0.73 with AVX2
//   zoo        19 layers: regnetx and regnety, resnext50_g32_256 and _512, stems and first layers of 3 to 24 channels, layers to 3, 4 and 21
//              channels, vnet_5x5x5_16
//   delete     when dense tiles take several groups and all column taps
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/cost.hpp>
#include <gradkern/detail/conv_weights/dense.hpp>
#include <gradkern/detail/conv_weights/dense_tiles.hpp>
#include <gradkern/detail/conv_weights/depthwise.hpp>
#include <gradkern/detail/conv_weights/few_channels.hpp>
#include <gradkern/detail/conv_weights/grouped.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/conv_weights/tap_lane_lines.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

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

/// What the row of the table costs that would be taken in place of tap_lanes.
[[nodiscard]] GRADKERN_COLD constexpr double cost_without_tap_lanes(const problem& p) noexcept {
    if (fits_grouped(p)) return cost_of_grouped(p);
    if (fits_depthwise(p) && is_depthwise_profitable(p)) return cost_of_depthwise(p);
    const bool swaps = is_swapping_windows_profitable(p);
    if (!swaps && fits_few_channels(p) && is_few_channels_profitable(p)) return cost_of_few_channels(p);
    return cost_of_dense(p, swaps);
}

/// Whether it costs less. The sums of one group are those of one task, so that workers would share chunks: not where they are many. Nor 1x1
/// kernels of one group, which use too seldom what is packed, nor groups of four, which grouped takes: they have too few rows.
[[nodiscard]] GRADKERN_COLD constexpr bool is_tap_lanes_profitable(const problem& p) noexcept {
    if (p.dot_bf16 || p.is_depthwise()) return false;
    if (p.groups > 1 && p.small_channels == 4 && fits_grouped(p)) return false;
    if (p.groups == 1 && p.taps() == 1) return false;
    return cost_of_tap_lanes(p) < cost_without_tap_lanes(p) &&
           (p.groups > 1 || make_tap_lanes(p, algorithm::tap_lanes).panel_sums() <= target.weight_gradients.sums);
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
inline void move_tap_lanes(const plan& p, const task& t, const transfer& how, float* sum,
                           const result_pointer<float>& diff_weights) noexcept {
    const std::int64_t kw = p.axes[2].kernel;
    const std::int64_t rows = p.axes[0].kernel * p.axes[1].kernel;
    for (std::int64_t g = 0; g < t.groups; ++g, sum += p.panel_sums())
        for (std::int64_t row = 0; row < rows; ++row) {
            float* const from = sum + row * p.panel_width;
            const result_pointer<float> to =
                diff_weights + ((t.group + g) * p.small_channels * p.weights[0] +
                                row / p.axes[1].kernel * p.weights[2] + row % p.axes[1].kernel * p.weights[3]);
            if (kw == 1 || p.weights[4] == p.large_channels * p.weights[1]) {
                to.move(how, from, rows * p.panel_width, kw * p.large_channels, p.small_channels, p.weights[1],
                        p.weights[0]);
                continue;
            }
            for (std::int64_t s = 0; s < p.small_channels; ++s)
                (to + s * p.weights[0])
                    .move(how, from + s * rows * p.panel_width, p.large_channels, p.large_channels, kw, p.weights[1],
                          p.weights[4]);
        }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
