// The plan of short lines that are computed as one (avg_pool/joined_lines.hpp), and that of small planes (avg_pool/joined_planes.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/plan_axes.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether windows lie side by side, with no column between or before them.
[[nodiscard]] constexpr bool windows_repeat(const average_plan& g) noexcept {
    const shape::axis& w = g.axes[2];
    return g.backward && w.stride > 1 && w.kernel == w.stride && w.dilation == 1 && w.pad_begin == 0;
}

/// Whether lines are short and follow one another in both memories, windows move along them by as many positions as a line
/// has for each window, and most windows lie inside. `transposes`: else channels would be transposed, which is quick, too.
[[nodiscard]] constexpr bool lines_may_join(const average_plan& g, bool transposes) noexcept {
    const shape::axis& h = g.axes[1];
    const shape::axis& w = g.axes[2];
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t in_columns = g.in_extent(2);
    const std::int64_t lines = g.out_extent(1);
    const std::int64_t least = transposes ? 256 : 1;  // outputs of a plane
    constexpr std::int64_t longest = 128;             // columns: longer lines are quick one by one
    const bool repeats = windows_repeat(g);
    // Phases are separated or interleaved in registers.
    const bool can_stride = g.backward ? repeats || (w.stride == 2 && w.dilation == 1) : w.stride == 2 || w.stride == 4;
    if (g.accumulate || g.long_lines || !(w.stride == 1 || can_stride) || lines == 1 || columns > longest ||
        (g.backward && w.stride > columns) || in_columns * g.position_step() != g.advance() * columns ||
        columns * lines < least || (!repeats && (w.kernel > lines_at_once || w.reach() > in_columns / 2)) ||
        (g.backward && h.stride > lines))
        return false;
    return g.in[3] == in_columns && g.in[4] == 1 && g.out[3] == columns && g.out[4] == 1;
}

/// Outputs of a block of joined lines at most: whole planes, if possible, but scratch of small problems fits the stack.
[[nodiscard]] constexpr std::int64_t joined_block(const average_plan& g) noexcept {
    const std::int64_t depth = std::max<std::int64_t>(g.out_extent(0), 1);
    const bool is_small = g.batch * g.planes <= average_task / g.out_extent(2) / g.out_extent(1) / depth;
    return g.position_step() > 1 || !is_small ? 4096 : 1024;
}

/// Lays out the scratch of a plan whose blocks read `rows` rows at each of `depths` depths.
constexpr void reserve_joined(average_plan& g, std::int64_t rows, std::int64_t depths) noexcept {
    const shape::axis& w = g.axes[2];
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t in_columns = g.in_extent(2);
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    slice_layout slice;
    g.at_vertical = slice.reserve<float>(g.line_block * in_columns + 2 * g.margin);
    const std::int64_t row_step = g.backward ? g.axes[1].stride : 1;
    const std::int64_t phase_lines = shape::ceil_div(g.line_block, row_step);
    g.at_phases = slice.reserve<float>(g.backward      ? (w.stride * row_step > 1 ? phase_lines * columns : 0)
                                       : w.stride == 1 ? 0
                                                       : w.stride * (g.line_block * columns + 2 * g.margin));
    g.at_ring = slice.reserve<float>(g.backward ? depths * rows * in_columns : 0);
    g.at_divisors = slice.reserve<float>(g.uniform ? 0 : (g.backward ? rows : g.line_block) * w.small + lanes);
    g.at_counts = slice.reserve<std::int64_t>(g.uniform ? 0 : w.small);
    g.at_inside = slice.reserve<float>(g.repeats ? 0 : w.kernel * (columns / g.position_step() + 4 * lanes));
    g.at_lines = slice.reserve<axis_reads>(g.line_block);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
}

/// Plans lines as one where they may be and what a block reads is little; returns whether it did.
[[nodiscard]] constexpr bool join_lines(average_plan& g, bool transposes) noexcept {
    if (!lines_may_join(g, transposes)) return false;
    const shape::axis& h = g.axes[1];
    const shape::axis& w = g.axes[2];
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t lines = g.out_extent(1);
    const std::int64_t line_block = shape::even_part(lines, joined_block(g) / columns);
    // Rows that a block reads at one depth: quotients of those that it shares with others are formed for each.
    const std::int64_t tall = h.reach();
    if (tall > line_block && line_block < lines) return false;
    const std::int64_t all_rows = g.in_extent(1);
    const std::int64_t row_step = g.backward ? h.stride : 1;
    const std::int64_t rows =
        tall >= all_rows * row_step ? all_rows : std::min(all_rows, (line_block - 1 + tall) / row_step + 1);
    const std::int64_t depths = std::min(g.axes[0].small, g.axes[0].kernel);
    if (g.backward && rows > average_ring / g.in_extent(2) / depths) return false;

    const std::int64_t reach = w.reach();
    const std::int64_t first = read_span(w, g.outputs(), 0, 1).first;  // of column 0, not clipped
    g.joined_lines = true;
    g.repeats = windows_repeat(g);
    g.line_block = line_block;
    g.group = line_block == lines ? std::max<std::int64_t>(1, average_task / columns / lines) : 1;
    g.segment = columns;
    g.margin = shape::ceil_div(std::max({std::int64_t{0}, -first, first + reach}), 16) * 16;
    reserve_joined(g, rows, depths);
    return true;
}

/// Whether planes are small and follow one another in both memories, windows move along them by one position, and all have
/// taps inside.
[[nodiscard]] constexpr bool planes_may_join(const average_plan& g) noexcept {
    constexpr std::int64_t largest = 256;
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t lines = g.out_extent(1);
    const auto fits = [](const shape::axis& a) {
        const std::int64_t reach = a.reach();
        return a.stride == 1 && a.small == a.large && a.kernel <= lines_at_once && reach <= a.large / 2 &&
               a.pad_begin <= reach;
    };
    const auto follow = [&](const shape::canonical_strides& s) {
        const std::int64_t plane = lines * columns;
        return s[4] == 1 && s[3] == columns && (g.planes == 1 || s[1] == plane) &&
               (g.batch == 1 || s[0] == g.planes * plane);
    };
    return !g.accumulate && is_single(g.axes[0]) && columns <= largest && lines <= largest / columns &&
           fits(g.axes[1]) && fits(g.axes[2]) && g.batch * g.planes > 1 && follow(g.in) && follow(g.out);
}

/// Plans so many planes as one.
constexpr void reserve_planes(average_plan& g, std::int64_t planes) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t plane = g.out_extent(1) * columns;
    g.line_block = g.out_extent(1);
    g.segment = columns;
    g.group = planes;
    g.margin = shape::ceil_div(columns * g.axes[1].kernel * g.axes[1].dilation, 16) * 16;
    slice_layout slice;
    g.at_ring = slice.reserve<float>(planes * plane + 2 * g.margin);
    g.at_vertical = slice.reserve<float>(planes * plane + 2 * g.margin);
    g.at_divisors = slice.reserve<float>(g.uniform ? 0 : planes * plane + lanes);
    g.at_inside =
        slice.reserve<float>(g.axes[1].kernel * (plane + 4 * lanes) + g.axes[2].kernel * (columns + 4 * lanes));
    g.slice_bytes = slice.bytes();
}

/// Plans planes as one where they may be, as many as scratch on the stack holds; returns whether it did.
[[nodiscard]] constexpr bool join_planes(average_plan& g) noexcept {
    if (!planes_may_join(g)) return false;
    constexpr std::int64_t block = 768;  // outputs
    average_plan joined = g;
    joined.joined_planes = true;
    for (std::int64_t most = std::max<std::int64_t>(1, block / g.out_extent(1) / g.out_extent(2)); most > 0; --most) {
        reserve_planes(joined, shape::even_part(g.batch * g.planes, most));
        if (workspace_for(joined.slice_bytes, 1) > stack_workspace) continue;
        g = joined;
        return true;
    }
    return false;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
