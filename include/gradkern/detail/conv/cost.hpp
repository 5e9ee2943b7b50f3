// What paths of few output channels cost: multiply-adds and packed floats, counted as multiply-adds of a lane. Rows of the table that
// compete for a problem compare these.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Counts of one image. Tiles are so many vectors wide. A K segment has the channels of a tap, or the column taps of a line.
struct conv_counts {
    double terms = 1;        // (output, tap, channel), with what a K segment costs beside its terms
    double read_pixels = 1;  // of the side that is read
    double lines = 1;        // of outputs
    double pixels = 1;
};
[[nodiscard]] GRADKERN_COLD constexpr conv_counts count_terms(const conv_problem& p, int vectors = 1) noexcept {
    const bool single = p.in_channels == 1 && p.groups == 1 && p.are_lines();
    const double segment = target.cost.segment / static_cast<double>(single ? p.axes[2].kernel : 1);
    conv_counts n{.terms = static_cast<double>(p.in_channels) + segment / vectors};
    for (const shape::axis& a : p.axes) {
        if (!p.is_forward() && a.stride > 1) n.terms *= target.cost.phases;
        n.terms *= static_cast<double>(a.small) * static_cast<double>(a.kernel);
        n.read_pixels *= static_cast<double>(read_extent(a, p.outputs));
    }
    n.lines = static_cast<double>(p.extent(0)) * static_cast<double>(p.extent(1));
    n.pixels = n.lines * static_cast<double>(p.extent(2));
    return n;
}

/// Output channels of a group in the lanes. Packing is not counted: NXC needs none, and in NCX it costs as much as the lines of
/// narrow_output. NCX transposes outputs, too.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_dense(const conv_problem& p) noexcept {
    const std::int64_t width = panel_lanes(p.out_channels, false, p.real.lanes);
    const std::int64_t rest = p.out_channels % width;
    const double waits =
        narrow_rows < 8 && rest > 0 && rest <= p.real.lanes ? 0.5 : 0;  // tiles of one vector have too few sums
    const double vectors = static_cast<double>(panel_vectors(p.out_channels, width, p.real.lanes)) + waits;
    const conv_counts n = count_terms(p);
    const double transposed = p.are_lines() ? target.cost.transposed_result * n.pixels : 0;
    return static_cast<double>(p.groups) * (n.terms + transposed) * vectors * static_cast<double>(p.real.lanes);
}

/// Pixels of a line in the lanes.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_narrow_output(const conv_problem& p) noexcept {
    const conv_counts n = count_terms(p);
    const bool transposes = 2 * p.extent(1) >= p.real.lanes;
    std::int64_t columns = 0;
    shape::tap_class_walk walk(p.axes[2], p.outputs, 0, p.extent(2));
    for (shape::tap_class c; walk.next(c);)
        columns += c.positions > 1 || !transposes ? shape::ceil_div(c.positions, p.real.lanes) * p.real.lanes
                                                  : target.cost.single_column;
    const double filled = static_cast<double>(columns) / static_cast<double>(std::max<std::int64_t>(p.extent(2), 1));
    // Each vector that is read for one output channel meets one number.
    const std::int64_t rows = p.out_channels == 1 ? 4 : shape::ceil_div(p.out_channels, std::int64_t{2}) * 2;
    // Of channels that are neighbours at least half a vector is transposed.
    const std::int64_t packed = p.are_lines() ? p.in_channels * target.cost.packed_line
                                              : std::max(p.in_channels, p.real.lanes / 2) * target.cost.transposed;
    const double lines = p.are_lines() ? target.cost.line * n.lines : 0;
    return static_cast<double>(p.groups) *
           ((target.cost.line_loop * n.terms * filled + lines) * static_cast<double>(rows) +
            n.read_pixels * static_cast<double>(packed));
}

/// Output channels of all groups in the lanes: each activation is packed for each output channel of its group.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_depthwise(const conv_problem& p) noexcept {
    const conv_counts n = count_terms(p, narrow_vectors);
    const auto width = static_cast<double>(shape::ceil_div(p.total_out_channels(), p.real.lanes) * p.real.lanes);
    const auto floats = static_cast<double>(p.in_channels) * static_cast<double>(p.total_out_channels());
    const double packed = p.in[1] == 1 ? target.cost.spread_vectors * static_cast<double>(p.real.lanes)
                                       : static_cast<double>(target.cost.transposed);
    return n.terms * width + n.read_pixels * floats * packed;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
