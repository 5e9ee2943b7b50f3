// How the lines of the average engine are cut: strips of channels, segments of columns, blocks of lines, tasks; and the
// scratch that these need.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/windows.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The most output columns whose scratch line has at most `floats` columns.
[[nodiscard]] constexpr std::int64_t longest_segment(const average_plan& g, std::int64_t floats) noexcept {
    std::int64_t low = 0;
    std::int64_t high = std::min(g.out_extent(2), g.direct_tiles ? average_task / average_line * floats : floats);
    while (low < high) {
        const std::int64_t mid = low + (high - low + 1) / 2;
        if (reads_at_most(g.axes[2], g.outputs(), mid) <= floats) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    return low;
}
/// Whether neighbouring segments of so many columns read few columns twice.
[[nodiscard]] constexpr bool is_long_enough(const average_plan& g, std::int64_t segment) noexcept {
    if (segment == g.out_extent(2) || (g.tiles && segment > 0)) return true;
    const std::int64_t stride = g.axes[2].stride;
    const std::int64_t fresh = g.backward ? segment / stride : segment * stride;
    return segment > 0 &&
           span_at_most(g.axes[2], g.outputs(), segment) - fresh <= span_at_most(g.axes[2], g.outputs(), segment) / 4;
}

/// Chooses a segment of output columns and a block of channels, so that a scratch line is short and the columns that
/// neighbouring segments both read are few.
constexpr void choose_segment(average_plan& g) noexcept {
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t stride = g.axes[2].stride;
    g.inner_block = std::min<std::int64_t>(g.inner, g.transposes ? 64 : g.direct_tiles ? g.line_floats() : 1024);
    while (g.inner_block > 16 && !is_long_enough(g, longest_segment(g, g.line_floats() / g.inner_block)))
        g.inner_block = shape::ceil_div(g.inner_block / 2, 16) * 16;
    if (g.inner_block < g.inner) {  // strips of nearly one size
        const std::int64_t even = shape::even_part(g.inner, g.inner_block);
        g.inner_block = std::min(g.inner_block, shape::ceil_div(even, 16) * 16);
    }
    g.segment = longest_segment(g, g.line_floats() / g.inner_block);
    if (!is_long_enough(g, g.segment)) g.segment = longest_segment(g, g.most_line_floats() / g.inner_block);
    if (g.segment > 0) g.segment = shape::even_part(columns, g.segment);
    if (g.tiles && g.segment < columns && g.segment > stride) g.segment -= g.segment % stride;
}

/// Lets runs read zeros behind the borders, if that does not make the scratch line much longer: then all positions of one
/// stride phase are one run. Returns whether they do.
[[nodiscard]] constexpr bool extend_lines(average_plan& g) noexcept {
    const shape::axis& a = g.axes[2];
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t reach = a.reach();
    const std::int64_t taps = a.taps_met(g.outputs());
    const auto whole = static_cast<double>(taps) * static_cast<double>(columns);
    const auto inside =
        static_cast<double>(g.backward ? a.small : columns) * static_cast<double>(std::min(a.kernel, a.large));
    if (span_at_most(g.axes[2], g.outputs(), g.segment) > g.most_line_floats() / g.inner_block ||
        (taps > 16 && whole > 8 * inside))
        return false;
    const std::int64_t shift = g.backward ? reach / a.stride + 1 : a.pad_begin;
    const shape::checked shifted = shape::checked(shift) * a.stride + a.pad_begin + columns;
    if (g.backward && !shifted.ok()) return false;
    g.run_shift = shift;
    if (g.backward) {
        g.run_axis.pad_begin += shift * a.stride;
        g.run_axis.small = (columns - 1 + g.run_axis.pad_begin) / a.stride + 1;
    } else {
        g.run_axis.pad_begin = 0;
        g.run_axis.large = (a.small - 1) * a.stride + reach + 1;
    }
    return true;
}

/// Chooses how horizontal sums are formed, and the length of a scratch line.
constexpr void choose_sums(average_plan& g) noexcept {
    g.run_axis = g.axes[2];
    // Windows far apart, or with taps far apart, would have columns summed that few of them read.
    g.by_taps = g.segment == 0 ||
                reads_at_most(g.axes[2], g.outputs(), g.segment) / 8 / g.axes[2].taps_met(g.outputs()) > g.segment;
    if (g.by_taps) {
        g.tiles = g.direct_tiles = false;
        g.segment = std::min(g.out_extent(2), std::max<std::int64_t>(1, g.run_columns() / g.inner_block));
        g.reads = g.segment;
        return;
    }
    g.extended = !g.tiles && extend_lines(g);
    if (!g.tiles && !g.extended) g.segment = std::min(g.segment, g.run_columns());
    g.reads =
        g.extended ? span_at_most(g.axes[2], g.outputs(), g.segment) : reads_at_most(g.axes[2], g.outputs(), g.segment);
}
/// Runs of a segment at most.
[[nodiscard]] constexpr std::int64_t most_runs(const average_plan& g) noexcept {
    if (g.tiles) return 0;
    if (!g.extended) return g.segment;
    return g.backward ? std::min(g.axes[2].stride, g.segment) : 1;
}

/// Cuts strips and segments of whole windows, which need no scratch line, unless they are long. The last strip fills a
/// vector, too.
constexpr void choose_whole_windows(average_plan& g) noexcept {
    g.whole_windows = true;
    g.run_axis = g.axes[2];
    const std::int64_t most = g.long_columns ? std::min(average_totals, g.line_floats()) : g.line_floats();
    g.inner_block = std::min(g.inner, shape::ceil_div(shape::even_part(g.inner, most), 16) * 16);
    while (g.inner % g.inner_block != 0 && g.inner % g.inner_block < simd::lanes) g.inner_block += 16;
    g.segment = shape::even_part(g.out_extent(2), std::clamp<std::int64_t>(most / g.inner_block, 1, g.run_columns()));
    g.reads = reads_at_most(g.axes[2], g.outputs(), g.segment);
}

/// Chooses the lines of a block and the items of a task.
constexpr void choose_tasks(average_plan& g) noexcept {
    const std::int64_t lines = g.out_extent(1);
    const std::int64_t line_floats = g.segment * g.inner_block;
    const shape::axis& h = g.axes[1];
    const std::int64_t halo = g.backward ? span_at_most(h, g.outputs(), 1) : 1;
    g.line_block = std::min(
        {lines, g.run_columns(), std::max(4 * average_task / line_floats, std::min(halo, g.run_columns()) * 8)});
    g.line_block = shape::even_part(lines, g.line_block);
    g.group = g.line_block == lines ? std::max<std::int64_t>(1, average_task / line_floats / lines) : 1;
}

/// Keeps lines of quotients in a ring, if several output lines read them and they are few.
constexpr void choose_ring(average_plan& g) noexcept {
    if (!g.backward || g.least) return;
    const shape::axis& d = g.axes[0];
    const shape::axis& h = g.axes[1];
    const std::int64_t rows = reads_at_most(h, g.outputs(), 1);
    const std::int64_t depths = d.most_reads(shape::side::large);
    if (rows > average_ring || depths > average_ring || depths * rows <= 1) return;
    const auto slots =
        static_cast<std::int64_t>(std::uint64_t{1} << own::bit_width(static_cast<std::uint64_t>(rows - 1)));
    if (slots * depths > average_ring / (g.reads * g.inner_block)) return;
    g.ring_depths = depths;
    g.ring_lines = slots;
}

/// Lays out the scratch. `f32` says whether elements are floats.
constexpr void reserve_lines(average_plan& g, bool f32) noexcept {
    const shape::axis& a = g.axes[2];
    const std::int64_t row = g.whole_windows ? 0 : g.reads * g.inner_block;
    const std::int64_t line_floats = g.whole_windows && !g.long_columns ? 0 : g.segment * g.inner_block;
    const std::int64_t last_strip = g.inner - (g.strips() - 1) * g.inner_block;
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const bool narrow = last_strip < lanes && a.stride > 1 && !g.tiles;
    const std::int64_t narrow_block = g.inner_block < lanes ? g.inner_block : last_strip;
    const std::int64_t divided = g.uniform ? 0 : g.backward ? g.reads : g.segment;
    slice_layout slice;
    g.at_vertical = slice.reserve<float>(row);
    g.at_result = slice.reserve<float>(g.direct_tiles ? g.inner_block : line_floats);
    g.at_packed = slice.reserve<float>(row);
    g.at_wide = slice.reserve<float>(g.transposes && !f32 ? std::max(row, line_floats) : 0);
    if (narrow && g.backward) {
        const std::int64_t phases = std::min(a.stride, g.segment);
        g.at_phases = slice.reserve<float>(phases * shape::ceil_div(g.segment, a.stride) * narrow_block);
    } else if (narrow) {
        g.separates = !g.long_columns && narrow_block == 1 && a.stride <= 16 && a.kernel >= a.stride / 2;
        g.at_phases = slice.reserve<float>(g.separates ? shape::ceil_div(g.reads, a.stride) * a.stride : 0);
    }
    // vectors of divisors are read whole
    g.at_divisors = slice.reserve<float>(divided == 0 ? 0 : divided + lanes);
    g.at_counts = slice.reserve<std::int64_t>(divided);
    g.at_runs = slice.reserve<column_run>(most_runs(g));
    g.at_long_runs = slice.reserve<long_run>(g.long_columns ? most_runs(g) : 0);
    g.at_line_totals = slice.reserve<double>(g.long_lines ? row : 0);
    g.at_column_totals = slice.reserve<double>(g.long_columns && !g.tiles ? line_floats : 0);
    g.at_lines = slice.reserve<axis_reads>(g.line_block);
    g.at_ring = slice.reserve<float>(g.ring_depths * g.ring_lines * row);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
}

/// Cuts lines that are computed one by one.
constexpr void cut_lines(average_plan& g, bool f32) noexcept {
    const shape::axis& a = g.axes[2];
    g.tiles = g.backward && a.dilation == 1 && (a.small == 1 || a.kernel <= a.stride);
    g.direct_tiles = g.tiles && g.inner > 1 && g.out_inner == 1;
    if (sums_whole_windows(g, f32)) {
        choose_whole_windows(g);
    } else {
        choose_segment(g);
        choose_sums(g);
    }
    choose_tasks(g);
    choose_ring(g);
    reserve_lines(g, f32);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
