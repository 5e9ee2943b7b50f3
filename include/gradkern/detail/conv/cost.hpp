// What the paths that compete for problems of few output channels, or of few channels in each group, cost: cycles of one image.
// Rows of the table that compete for a problem compare these.
#pragma once

#include <algorithm>
#include <cstddef>
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

/// Counts of one image.
struct conv_counts {
    double terms = 1;        // (tap, channel) of an output in the mean; the K segment of a tap counts as some more
    double pixels = 1;       // of outputs
    double lines = 1;        // of outputs
    double read_pixels = 1;  // of the side that is read
};
[[nodiscard]] GRADKERN_COLD constexpr conv_counts count_terms(const conv_problem& p) noexcept {
    conv_counts n{.terms = static_cast<double>(p.in_channels) + target.cost.segment};
    for (std::size_t i = 0; i < 3; ++i) {
        const shape::axis& a = p.axes[i];
        const auto extent = static_cast<double>(p.extent(i));
        n.terms *= static_cast<double>(a.small) * static_cast<double>(a.kernel) / (extent > 1 ? extent : 1);
        if (!p.is_forward() && a.stride > 1) n.terms *= target.cost.phases;
        n.read_pixels *= static_cast<double>(read_extent(a, p.outputs));
        n.pixels *= extent;
        if (i < 2) n.lines *= extent;
    }
    return n;
}

/// Of a tile that adds so many terms and writes its results, `result` cycles each.
[[nodiscard]] constexpr double cost_of_tile(const conv_problem& p, double terms, std::int64_t rows,
                                            std::int64_t vectors, double result) noexcept {
    return terms * cycles_of_term(rows, vectors) + target.cost.tile +
           result * static_cast<double>(rows * vectors * p.real.lanes);
}

/// Output channels of a group in the lanes. Activations are packed in NCX, where results are transposed, too.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_dense(const conv_problem& p) noexcept {
    const conv_counts n = count_terms(p);
    const double moved = p.are_lines() ? target.cost.moved_number : 0;
    const std::int64_t width = panel_lanes(p.out_channels, false, p.real.lanes);
    double panels = 0;
    for_each_part(p.out_channels, width, [&](std::int64_t lanes, std::int64_t count) {
        const std::int64_t rows = rows_at_most(lanes, p.real.lanes);
        const std::int64_t vectors = kernel_vectors(lanes, tile_vectors, p.real.lanes);
        panels +=
            static_cast<double>(count) * cost_of_tile(p, n.terms, rows, vectors, moved) / static_cast<double>(rows);
    });
    return static_cast<double>(p.groups) *
           (n.pixels * panels + n.read_pixels * static_cast<double>(p.in_channels) * moved);
}

/// Of all output channels of a group, for so many neighbouring columns, which lie in the lanes.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_line(const conv_problem& p, double terms, std::int64_t columns,
                                                          double result) noexcept {
    if (p.out_channels == 0) return 0;
    const bool few = p.out_channels <= wide_tile_rows;
    const std::int64_t rows = few ? p.out_channels : tile_rows;
    const std::int64_t vectors = few ? wide_tile_vectors(static_cast<int>(rows)) : tile_vectors;
    double cycles = 0;
    for_each_part(p.out_channels, rows, [&](std::int64_t channels, std::int64_t panels) {
        const std::int64_t kernel = few ? channels : kernel_rows(static_cast<int>(channels), 2);
        for_each_part(shape::ceil_div(columns, p.real.lanes), vectors, [&](std::int64_t wide, std::int64_t tiles) {
            cycles +=
                static_cast<double>(panels) * static_cast<double>(tiles) * cost_of_tile(p, terms, kernel, wide, result);
        });
    });
    return cycles;
}

/// Pixels of a line in the lanes. A column at a border that reads other taps than its neighbours has its rows in the lanes, where there are
/// enough: these are moved one by one.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_narrow_output(const conv_problem& p) noexcept {
    const conv_counts n = count_terms(p);
    const step_costs& cost = target.cost;
    const bool strided = !p.is_forward() && p.axes[2].stride > 1;
    const double moved = p.are_lines() && !strided ? 0 : cost.moved_number;
    double tiles = 0;
    std::int64_t single_columns = 0;
    shape::tap_class_walk walk(p.axes[2], p.outputs, 0, p.extent(2));
    for (shape::tap_class c; walk.next(c);) {
        if (c.positions > 1) {
            tiles += n.lines * cost_of_line(p, n.terms, c.positions, moved);
        } else {
            ++single_columns;
        }
    }
    const auto in_channels = static_cast<double>(p.in_channels);
    double column = 0;
    if (2 * p.extent(1) >= p.real.lanes) {
        const double result = p.are_lines() ? cost.column_number : cost.moved_number;
        const double read = in_channels * static_cast<double>(p.axes[2].most_reads(p.outputs));
        column = static_cast<double>(p.extent(0)) * cost_of_line(p, n.terms, p.extent(1), result) +
                 n.lines * read * cost.column_number;
    } else {
        column = n.lines * cost_of_line(p, n.terms, 1, p.are_lines() ? 0 : cost.moved_number);
    }
    // Of channels that are neighbours at least half a vector is transposed.
    const auto packed = static_cast<double>(p.are_lines() ? p.in_channels : std::max(p.in_channels, p.real.lanes / 2));
    return static_cast<double>(p.groups) *
           (tiles + static_cast<double>(single_columns) * column + n.read_pixels * packed * cost.moved_number);
}

/// Output channels of all groups in the lanes, beside activations of their own, of which `packed` of each pixel are packed.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_own_lanes(const conv_problem& p, double packed) noexcept {
    const conv_counts n = count_terms(p);
    const double moved = p.are_lines() ? target.cost.moved_number * static_cast<double>(p.real.lanes) : 0;
    return n.pixels * static_cast<double>(shape::ceil_div(p.total_out_channels(), p.real.lanes)) *
               (n.terms * target.cost.own_term + moved) +
           n.read_pixels * packed * target.cost.moved_number;
}

/// Each activation is packed for each output channel of its group.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_depthwise(const conv_problem& p) noexcept {
    return cost_of_own_lanes(p, static_cast<double>(p.in_channels) * static_cast<double>(p.total_out_channels()));
}

/// Each activation is packed once, in NCX.
[[nodiscard]] GRADKERN_COLD constexpr double cost_of_grouped(const conv_problem& p) noexcept {
    return cost_of_own_lanes(p, p.are_lines() ? static_cast<double>(p.total_out_channels()) : 0);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
