// What the paths of weight gradients that compete for few channels cost: cycles for each position of the small side, of one group. Rows of
// the table that compete for a problem compare these.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/problem.hpp>
#include <gradkern/detail/conv_weights/tap_lane_lines.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Tiles that a position is a term of, and their cycles for it.
struct term_tiles {
    double cycles = 0;
    double tiles = 0;
};

/// Tiles of so many rows for each panel of so many lanes.
[[nodiscard]] GRADKERN_COLD constexpr term_tiles tiles_of(const problem& p, std::int64_t rows,
                                                          std::int64_t lanes) noexcept {
    const std::int64_t width = panel_lanes(lanes, false, p.real.lanes);
    term_tiles sum;
    for_each_part(lanes, width, [&](std::int64_t used, std::int64_t panels) {
        const std::int64_t tiles = shape::ceil_div(rows, std::int64_t{rows_at_most(used, p.real.lanes)});
        const std::int64_t each = kernel_rows(static_cast<int>(shape::ceil_div(rows, tiles)), 2);
        const auto count = static_cast<double>(panels) * static_cast<double>(tiles);
        sum.tiles += count;
        sum.cycles += count * cycles_of_term(each, kernel_vectors(used, tile_vectors, p.real.lanes));
    });
    return sum;
}

/// Columns of a line in a chunk, and positions of a chunk.
struct chunk_extent {
    double columns = 1;
    double positions = 1;
};
[[nodiscard]] constexpr chunk_extent extent_of_chunks(const problem& p) noexcept {
    const std::int64_t columns = std::clamp<std::int64_t>(p.axes[2].small, 1, chunk_positions);
    const double lines =
        static_cast<double>(p.batch) * static_cast<double>(p.axes[0].small) * static_cast<double>(p.axes[1].small);
    const auto most = static_cast<double>(chunk_positions / columns);
    const double each = lines > most ? most : lines > 1 ? lines : 1;
    return {static_cast<double>(columns), static_cast<double>(columns) * each};
}

/// Of packing a number of a tensor with these strides.
[[nodiscard]] constexpr double cost_of_number(const shape::canonical_strides& stride) noexcept {
    return stride[1] == 1 ? target.cost.chunk_number : target.cost.transposed_chunk_number;
}
/// Of packing the channels of a pixel, of which at least half a vector is transposed where they lie apart.
[[nodiscard]] constexpr double cost_of_pixel(const problem& p, std::int64_t channels,
                                             const shape::canonical_strides& stride) noexcept {
    const std::int64_t moved = stride[1] == 1 ? channels : std::max(channels, p.real.lanes / 2);
    return cost_of_number(stride) * static_cast<double>(moved);
}
/// Pixels of the large side for each position.
[[nodiscard]] constexpr double large_pixels(const problem& p) noexcept {
    double pixels = 1;
    for (const shape::axis& a : p.axes)
        pixels *= static_cast<double>(a.large) / static_cast<double>(std::max<std::int64_t>(a.small, 1));
    return pixels;
}
/// Of packing the small side where its channels lie apart.
[[nodiscard]] constexpr double cost_of_apart_small(const problem& p) noexcept {
    return p.small[1] == 1 ? 0 : cost_of_pixel(p, p.small_channels, p.small);
}

/// Whether column taps of some chunk meet other positions than their neighbours do.
[[nodiscard]] constexpr bool has_padding(const problem& p) noexcept {
    const shape::axis& a = p.axes[2];
    return a.pad_begin > 0 || a.window_end(a.small - 1) > a.large;
}
/// The same of every chunk: they hold whole lines.
[[nodiscard]] constexpr bool has_borders(const problem& p) noexcept {
    return p.axes[2].small <= chunk_positions && has_padding(p);
}

/// Rows are channels, of all column taps that meet the same positions.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_dense(const problem& p, bool swaps_windows) noexcept {
    const std::int64_t taps = has_borders(p) || swaps_windows ? 1 : p.axes[2].kernel;
    const term_tiles t = swaps_windows ? tiles_of(p, p.small_channels, p.large_channels)
                                       : tiles_of(p, taps * p.large_channels, p.small_channels);
    const double groups = static_cast<double>(p.taps()) / static_cast<double>(taps);
    const double cycles = groups * (t.cycles + target.cost.tile * t.tiles / extent_of_chunks(p).positions);
    if (swaps_windows) return cycles + large_pixels(p) * cost_of_pixel(p, p.large_channels, p.large);
    const bool shares_lines = p.groups > 1 && p.large[1] == 1 && 2 * p.large_channels <= 3 * simd::line_elements<float>;
    return cycles * (shares_lines ? target.cost.shared_lines : 1) + cost_of_apart_small(p);
}

/// Rows are all taps and channels. Their sums are read and written for each line, in half of the time that a chunk takes to begin.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_few_channels(const problem& p) noexcept {
    const term_tiles t = tiles_of(p, p.taps() * p.large_channels, p.small_channels);
    return t.cycles + target.cost.tile / 2 * t.tiles / extent_of_chunks(p).columns + cost_of_apart_small(p);
}

/// Lanes are column taps and channels. Positions are packed with a gap behind each line, those of the large side by way of memory where their
/// channels lie apart.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_tap_lanes(const problem& p) noexcept {
    const term_tiles t = tiles_of(p, p.small_channels, p.axes[2].kernel * p.large_channels);
    const chunk_extent c = extent_of_chunks(p);
    const auto gap = static_cast<double>(
        gap_at_most(p, chunk_grid(1, 1, std::max<std::int64_t>(p.axes[2].small, 1), summation::joint)));
    const double each = t.cycles * (c.columns + gap) / c.columns +
                        t.tiles * (target.cost.tile / c.positions + target.cost.chunk_line / c.columns);
    return static_cast<double>(p.axes[0].kernel) * static_cast<double>(p.axes[1].kernel) * each +
           cost_of_pixel(p, p.small_channels, p.small) +
           (p.large[1] == 1 ? 1 : target.cost.by_memory) * large_pixels(p) *
               cost_of_pixel(p, p.large_channels, p.large);
}

/// Lanes are channels of all groups: a term of a tap and a large-side channel takes one vector. Numbers of the large side are packed `times`
/// times.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_own_lanes(const problem& p, double times) noexcept {
    const double vectors =
        static_cast<double>(shape::ceil_div(p.groups * p.small_channels, p.real.lanes)) / static_cast<double>(p.groups);
    const auto large_channels = static_cast<double>(p.large_channels);
    const double small = p.small[1] == 1 ? 0 : cost_of_number(p.small) * static_cast<double>(p.small_channels);
    return static_cast<double>(p.taps()) * large_channels * vectors * target.cost.own_term + small +
           times * large_pixels(p) * large_channels * cost_of_number(p.large);
}
/// Each number is packed for each small-side channel of its group, one by one where channels are neighbours.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_depthwise(const problem& p) noexcept {
    const double each = p.large[1] == 1 ? target.cost.spread_number : 1;
    return cost_of_own_lanes(p, each * static_cast<double>(p.small_channels));
}
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_grouped(const problem& p) noexcept {
    return cost_of_own_lanes(p, p.large[1] == 1 ? 0 : 1);
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
