// The plan of paths that compute lines one by one (lines, windows, non_overlapping, taps): strips of channels, segments of
// columns, blocks of rows, tasks, and the scratch of a worker.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

inline constexpr std::int64_t average_ring = 131072;  ///< floats of buffered quotients at most
inline constexpr std::int64_t average_task = 32768;   ///< floats of output that make a task worth its overhead

struct segment_sizes {
    std::int64_t line;       // numbers of a scratch line that are aimed at
    std::int64_t most_line;  // and at most
    std::int64_t columns;    // of an output segment where each may be a run of its own
};
[[nodiscard]] constexpr segment_sizes sizes_for(const problem& p) noexcept {
    const segment_sizes s =
        p.scratch == scratch_use::least ? segment_sizes{512, 512, 64} : segment_sizes{8192, 16384, 1024};
    return {p.real.in_memory_of(s.line), p.real.in_memory_of(s.most_line), s.columns};
}

/// Whether channels that lie on the lines are neighbours in memory, or transposed on the way in and out.
enum class channel_order : std::uint8_t { in_place, transposed };

/// What columns behind the borders are to a segment: nothing, or zeros of the scratch line.
enum class border : std::uint8_t { clipped, zeros };

/// What these paths share. The scratch line of a worker holds vertical sums.
struct segment_plan : block_plan {
    channel_order channels = channel_order::in_place;
    border borders = border::clipped;
    std::int64_t inner_block = 1;
    std::int64_t segment = 1;  // output columns
    std::int64_t reads = 1;    // columns of the scratch line
    std::int64_t ring_depths = 0;
    std::int64_t ring_lines = 0;  // a power of two; 0: quotients are not buffered

    std::int64_t at_vertical = 0;  // byte offsets in a slice
    std::int64_t at_result = 0;
    std::int64_t at_packed = 0;
    std::int64_t at_divisors = 0;
    std::int64_t at_counts = 0;
    std::int64_t at_runs = 0;
    std::int64_t at_line_totals = 0;  // of long sums
    std::int64_t at_column_totals = 0;
    std::int64_t at_lines = 0;
    std::int64_t at_ring = 0;

    [[nodiscard]] constexpr std::int64_t strips() const noexcept { return shape::ceil_div(inner, inner_block); }
    [[nodiscard]] constexpr std::int64_t segments() const noexcept { return shape::ceil_div(out_extent(2), segment); }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return strips() * segments() * groups(); }
    [[nodiscard]] constexpr std::int64_t row_outputs() const noexcept { return segment * inner_block; }
};

/// Whether planes of channels far apart in memory, with lines of few columns, are faster transposed on the way in and out, so
/// that channels lie on the lines.
[[nodiscard]] constexpr bool is_profitable_to_transpose(const problem& p) noexcept {
    constexpr std::int64_t few_columns = 64;
    constexpr std::int64_t enough_channels = 32;
    const std::int64_t columns = p.out_extent(2);
    const std::int64_t in_columns = p.in_extent(2);
    return p.scratch == scratch_use::fast && p.planes >= enough_channels &&
           std::max(columns, in_columns) <= few_columns && (columns == 1 || p.out[4] == 1) &&
           (in_columns == 1 || p.in[4] == 1);
}

/// A plan whose channels are where they are fastest.
template <class Plan>
[[nodiscard]] constexpr Plan with_channels(const problem& p) noexcept {
    Plan g = plan_of<Plan>(p);
    if (is_profitable_to_transpose(p)) {
        g.channels = channel_order::transposed;
        put_planes_on_lines(g);
    }
    return g;
}

/// Whether neighbouring segments of so many columns read few columns twice.
[[nodiscard]] constexpr bool is_long_enough(const segment_plan& g, std::int64_t segment) noexcept {
    if (segment == g.out_extent(2) || segment == 0) return segment > 0;
    const std::int64_t newly_read = g.is_backward() ? segment / g.axes[2].stride : segment * g.axes[2].stride;
    const std::int64_t read = span_at_most(g.axes[2], g.outputs, segment);
    return read - newly_read <= read / 4;
}

/// Makes strips of channels that are nearly equal and, but for the last one, whole vectors.
constexpr void even_strips(segment_plan& g) noexcept {
    if (g.inner_block >= g.inner) return;
    const std::int64_t even = shape::even_part(g.inner, g.inner_block);
    g.inner_block = std::min(g.inner_block, shape::ceil_div(even, 16) * 16);
}

/// The most output columns, `times` of them for each column read at most, whose reads are so many floats of a scratch line.
[[nodiscard]] constexpr std::int64_t longest_segment(const segment_plan& g, std::int64_t floats,
                                                     std::int64_t times) noexcept {
    const std::int64_t columns = floats / g.inner_block;
    return longest_extent(g.axes[2], g.outputs, columns, std::min(g.out_extent(2), times * columns));
}

/// Chooses a block of channels and a segment of output columns, so that a scratch line is short and the columns that
/// neighbouring segments both read are few.
constexpr void choose_segment(segment_plan& g) noexcept {
    const segment_sizes sizes = sizes_for(g);
    g.inner_block = std::min<std::int64_t>(g.inner, g.channels == channel_order::transposed ? 64 : 1024);
    while (g.inner_block > 16 && !is_long_enough(g, longest_segment(g, sizes.line, 1)))
        g.inner_block = shape::ceil_div(g.inner_block / 2, 16) * 16;
    even_strips(g);
    g.segment = longest_segment(g, sizes.line, 1);
    if (!is_long_enough(g, g.segment)) g.segment = longest_segment(g, sizes.most_line, 1);
    if (g.segment > 0) g.segment = shape::even_part(g.out_extent(2), g.segment);
}

/// Chooses the rows of a block and the items of a task.
constexpr void choose_tasks(segment_plan& g) noexcept {
    const std::int64_t lines = g.out_extent(1);
    const std::int64_t floats = g.segment * g.inner_block;
    const std::int64_t most = sizes_for(g).columns;
    const std::int64_t halo = g.is_backward() ? span_at_most(g.axes[1], g.outputs, 1) : 1;
    g.line_block =
        shape::even_part(lines, std::min({lines, most, std::max(4 * average_task / floats, std::min(halo, most) * 8)}));
    g.group = g.line_block == lines ? std::max<std::int64_t>(1, average_task / floats / lines) : 1;
}

/// Buffers lines of quotients in a ring, if several output lines read them and they are few.
constexpr void choose_ring(segment_plan& g) noexcept {
    if (!g.is_backward() || g.scratch == scratch_use::least) return;
    const std::int64_t rows = reads_at_most(g.axes[1], g.outputs, 1);
    const std::int64_t depths = g.axes[0].most_reads(shape::side::large);
    if (rows > average_ring || depths > average_ring || depths * rows <= 1) return;
    const auto slots =
        static_cast<std::int64_t>(std::uint64_t{1} << own::bit_width(static_cast<std::uint64_t>(rows - 1)));
    if (slots * depths > g.real.in_memory_of(average_ring) / (g.reads * g.inner_block)) return;
    g.ring_depths = depths;
    g.ring_lines = slots;
}

/// Reserves what a scratch line and lines of `results` floats need, those of vertical sums and of the output included.
constexpr void reserve_lines(slice_layout& slice, segment_plan& g, std::int64_t results) noexcept {
    const std::int64_t row = g.reads * g.inner_block;
    g.at_vertical = slice.reserve(row, g.real.bytes);
    g.at_result = slice.reserve(results, g.real.bytes);
    g.at_packed = slice.reserve(row, g.real.bytes);
    g.at_line_totals = slice.reserve<double>(g.long_lines ? row : 0);
    g.at_ring = slice.reserve(g.ring_depths * g.ring_lines * row, g.real.bytes);
}
/// Reserves at most so many runs of columns, and the totals of long ones.
constexpr void reserve_runs(slice_layout& slice, segment_plan& g, std::int64_t runs) noexcept {
    g.at_runs = slice.reserve<column_run>(runs);
    g.at_column_totals = slice.reserve<double>(g.long_columns ? g.segment * g.inner_block : 0);
}
/// Reserves what every path needs, and closes the slice.
constexpr void reserve_rest(slice_layout& slice, segment_plan& g) noexcept {
    const std::int64_t divided = g.divisors.is_uniform() ? 0 : g.is_backward() ? g.reads : g.segment;
    // vectors of divisors are read whole
    g.at_divisors = slice.reserve(divided == 0 ? 0 : divided + g.real.lanes, g.real.bytes);
    g.at_counts = slice.reserve<std::int64_t>(divided);
    g.at_lines = slice.reserve<axis_reads>(g.line_block);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
}

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
