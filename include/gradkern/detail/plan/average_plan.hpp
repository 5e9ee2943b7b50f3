// The plan of the average engine (average.hpp): what lies on its lines, how they are cut, and what scratch they need.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/pooling.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

inline constexpr std::int64_t average_line = 8192;    ///< floats of a scratch line that are aimed at
inline constexpr std::int64_t average_reach = 16384;  ///< floats of a scratch line at most
inline constexpr std::int64_t average_ring = 131072;  ///< floats of the ring of quotient lines at most
inline constexpr std::int64_t average_task = 32768;   ///< floats of output that make a task worth its overhead
inline constexpr std::int64_t average_runs = 1024;    ///< output columns of a segment where each may be its own run

/// The entries an output position of one axis reads on the other side: first, first + step, ...
struct axis_reads {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

/// Output columns begin, begin + position_step, ... (relative to the segment) that read `count` columns each: first the
/// column `first` (relative to the scratch line), then shifted by the same amount from one position to the next.
struct column_run {
    std::int32_t begin;
    std::int32_t positions;
    std::int32_t first;
    std::int32_t count;
};

/// Everything a run needs but pointers. Made by make_average_plan from a checked problem.
struct average_plan {
    bool backward = false;
    bool accumulate = false;
    bool exclude_pad = false;
    std::array<shape::axis, 3> axes{};          // as computed with; windows that share one column may have been folded
    std::array<shape::axis, 3> divisor_axes{};  // as given
    bool uniform = false;                       // one divisor for all windows
    float uniform_divisor = 1.0F;
    std::optional<std::int64_t> divisor_override{};

    std::int64_t batch = 0;
    std::int64_t planes = 1;  // outer = batch * planes
    std::int64_t inner = 1;
    shape::canonical_strides in{};  // of (batch, plane, D, H, W)
    shape::canonical_strides out{};
    std::int64_t in_inner = 1;
    std::int64_t out_inner = 1;

    bool joined = false;         // lines are computed many at a time
    bool repeats = false;        // joined, backward: windows lie side by side, with no column between or before them
    std::int64_t margin = 0;     // joined: floats before and behind vertical sums, and each phase of them
    bool transposes = false;     // channels lie on the lines, but not in memory
    bool tiles = false;          // backward: no position is reached by two columns of windows
    bool direct_tiles = false;   // they go to the output without a stop, column by column
    bool by_taps = false;        // the columns a segment reads are too many or too sparse for a scratch line
    bool extended = false;       // columns behind the borders are read as zeros
    shape::axis run_axis{};      // width axis whose reads define the runs: extended, nothing is clipped
    std::int64_t run_shift = 0;  // its reads are shifted by this
    bool separates = false;      // forward: columns of one phase of the stride are put side by side
    std::int64_t inner_block = 1;
    std::int64_t segment = 1;  // output columns
    std::int64_t reads = 1;    // columns of the scratch line
    std::int64_t line_block = 1;
    std::int64_t group = 1;  // items of one task
    std::int64_t ring_depths = 0;
    std::int64_t ring_lines = 0;  // a power of two; 0: no ring

    std::int64_t at_vertical = 0;  // byte offsets in a slice
    std::int64_t at_result = 0;
    std::int64_t at_packed = 0;
    std::int64_t at_wide = 0;
    std::int64_t at_phases = 0;
    std::int64_t at_divisors = 0;
    std::int64_t at_counts = 0;
    std::int64_t at_runs = 0;
    std::int64_t at_inside = 0;  // joined: the columns in which each tap is inside
    std::int64_t at_lines = 0;
    std::int64_t at_ring = 0;  // joined: quotients of the rows that a block reads
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr shape::side outputs() const noexcept {
        return backward ? shape::side::large : shape::side::small;
    }
    [[nodiscard]] constexpr std::int64_t out_extent(std::size_t i) const noexcept {
        return backward ? axes[i].large : axes[i].small;
    }
    [[nodiscard]] constexpr std::int64_t in_extent(std::size_t i) const noexcept {
        return backward ? axes[i].small : axes[i].large;
    }
    /// From one read of a position to the next.
    [[nodiscard]] constexpr std::int64_t read_step(std::size_t i) const noexcept {
        return backward ? axes[i].dilation / std::gcd(axes[i].stride, axes[i].dilation) : axes[i].dilation;
    }
    /// From one position of a run to the next, in output columns and in the columns read.
    [[nodiscard]] constexpr std::int64_t position_step() const noexcept { return backward ? axes[2].stride : 1; }
    [[nodiscard]] constexpr std::int64_t advance() const noexcept { return backward ? 1 : axes[2].stride; }

    [[nodiscard]] constexpr std::int64_t strips() const noexcept { return shape::ceil_div(inner, inner_block); }
    [[nodiscard]] constexpr std::int64_t segments() const noexcept { return shape::ceil_div(out_extent(2), segment); }
    [[nodiscard]] constexpr std::int64_t line_blocks() const noexcept {
        return shape::ceil_div(out_extent(1), line_block);
    }
    [[nodiscard]] constexpr std::int64_t items() const noexcept {
        return batch * planes * out_extent(0) * line_blocks();
    }
    [[nodiscard]] constexpr std::int64_t groups() const noexcept { return shape::ceil_div(items(), group); }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return strips() * segments() * groups(); }

    /// Taps of window o that count in its divisor along one axis.
    [[nodiscard]] constexpr std::int64_t counted(std::size_t i, std::int64_t o) const noexcept {
        return exclude_pad ? divisor_axes[i].inside_taps(o).count : divisor_axes[i].padded_taps(o);
    }
    /// The same for the columns of windows: 0 where no tap is inside, also under an override, else that or `counted`.
    [[nodiscard]] constexpr std::int64_t counted_columns(std::int64_t o) const noexcept {
        if (divisor_axes[2].inside_taps(o).count == 0) return 0;
        return divisor_override ? *divisor_override : counted(2, o);
    }
    /// The divisor of windows with these counts. Windows without a counted tap reach nothing; they take 1, so that no
    /// quotient by 0 is formed on the way.
    [[nodiscard]] static constexpr float divisor_of(std::int64_t count) noexcept {
        return count == 0 ? 1.0F : static_cast<float>(count);
    }
};

/// True where all windows of an axis count the same taps.
[[nodiscard]] constexpr bool counts_alike(const shape::axis& a, bool exclude_pad) noexcept {
    if (a.small == 1) return true;
    const std::int64_t end = a.position(a.small - 1, a.kernel - 1);  // last tap of the last window
    return exclude_pad ? a.pad_begin == 0 && end < a.large : end < a.large + a.pad_end;
}

/// True where every window has an inside tap.
[[nodiscard]] constexpr bool windows_never_empty(const shape::axis& a) noexcept {
    // dilated windows can step over a short input; others miss it only by lying beside it
    if (a.dilation > 1) return a.pad_begin == 0 && a.position(a.small - 1, 0) < a.large;
    return a.position(0, a.kernel - 1) >= 0 && a.position(a.small - 1, 0) < a.large;
}

/// The columns that output columns [begin, end) may read: [first, last), not clipped.
struct column_range {
    std::int64_t first;
    std::int64_t last;
};
[[nodiscard]] constexpr column_range columns_read(const shape::axis& a, bool backward, std::int64_t begin,
                                                  std::int64_t end) noexcept {
    const std::int64_t reach = (a.kernel - 1) * a.dilation;
    if (!backward) return {a.position(begin, 0), a.position(end - 1, 0) + reach + 1};
    return {shape::ceil_div(begin + a.pad_begin - reach, a.stride),
            shape::floor_div(end - 1 + a.pad_begin, a.stride) + 1};
}

/// Plans short lines that follow one another in both memories as one, if windows move along them by as many positions
/// as a line has for each window, and most windows lie inside (average_planes.hpp); returns whether they do. `transposes`:
/// else channels would be transposed, which is quick, too.
[[nodiscard]] constexpr bool join_lines(average_plan& g, bool f32, bool transposes) noexcept {
    const shape::axis& h = g.axes[1];
    const shape::axis& w = g.axes[2];
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t lines = g.out_extent(1);
    const std::int64_t least = transposes ? 256 : 1;  // outputs of a plane
    constexpr std::int64_t longest = 128;             // columns: longer lines are quick one by one
    const std::int64_t in_columns = g.in_extent(2);
    g.repeats = g.backward && w.stride > 1 && w.kernel == w.stride && w.dilation == 1 && w.pad_begin == 0;
    // Phases are separated or interleaved in registers.
    const bool can_stride =
        g.backward ? g.repeats || (w.stride == 2 && w.dilation == 1) : w.stride == 2 || w.stride == 4;
    if (g.accumulate || !(w.stride == 1 || can_stride) || lines == 1 || columns > longest ||
        (g.backward && w.stride > columns) || in_columns * g.position_step() != g.advance() * columns ||
        columns * lines < least ||
        (!g.repeats && (w.kernel > lines_at_once || (w.kernel - 1) * w.dilation > in_columns / 2)) ||
        (g.backward && h.stride > lines))
        return false;
    if (g.in[3] != in_columns || g.in[4] != 1 || g.out[3] != columns || g.out[4] != 1) return false;
    // Outputs of a block: whole planes, if possible, but scratch of small problems fits the stack.
    const std::int64_t depth = std::max<std::int64_t>(g.out_extent(0), 1);
    const bool is_small = g.batch * g.planes <= average_task / columns / lines / depth;
    const std::int64_t block = g.position_step() > 1 || !is_small ? 4096 : 1024;
    const std::int64_t line_block = shape::even_part(lines, block / columns);
    // Rows that a block reads at one depth: quotients of those that it shares with others are formed for each.
    const std::int64_t tall = (h.kernel - 1) * h.dilation;
    if (tall > line_block && line_block < lines) return false;
    const std::int64_t all_rows = g.in_extent(1);
    const std::int64_t row_step = g.backward ? h.stride : 1;
    const std::int64_t rows =
        tall >= all_rows * row_step ? all_rows : std::min(all_rows, (line_block - 1 + tall) / row_step + 1);
    const std::int64_t depths = std::min(g.axes[0].small, g.axes[0].kernel);
    if (g.backward && rows > average_ring / in_columns / depths) return false;

    const std::int64_t reach = (w.kernel - 1) * w.dilation;
    const std::int64_t first = columns_read(w, g.backward, 0, 1).first;  // of column 0, not clipped
    g.line_block = line_block;
    g.group = line_block == lines ? std::max<std::int64_t>(1, average_task / columns / lines) : 1;
    g.joined = true;
    g.segment = columns;
    g.margin = shape::ceil_div(std::max({std::int64_t{0}, -first, first + reach}), 16) * 16;
    const auto lanes = static_cast<std::int64_t>(simd::lanes);
    slice_layout slice;
    g.at_vertical = slice.reserve<float>(g.line_block * in_columns + 2 * g.margin);
    const std::int64_t phase_lines = shape::ceil_div(g.line_block, row_step);
    g.at_phases = slice.reserve<float>(g.backward      ? (w.stride * row_step > 1 ? phase_lines * columns : 0)
                                       : w.stride == 1 ? 0
                                                       : w.stride * (g.line_block * columns + 2 * g.margin));
    g.at_result = slice.reserve<float>(g.backward && !f32 ? columns : 0);
    g.at_ring = slice.reserve<float>(g.backward ? depths * rows * in_columns : 0);
    g.at_divisors = slice.reserve<float>(g.uniform ? 0 : (g.backward ? rows : g.line_block) * w.small + lanes);
    g.at_counts = slice.reserve<std::int64_t>(g.uniform ? 0 : w.small);
    g.at_inside = slice.reserve<float>(g.repeats ? 0 : w.kernel * (columns / g.position_step() + 4 * lanes));
    g.at_lines = slice.reserve<axis_reads>(g.line_block);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
    return true;
}

/// Chooses what lies on the lines, their blocks and scratch. `f32` says whether elements are floats.
[[nodiscard]] constexpr average_plan make_average_plan(const shape::pooling_problem& p, bool backward,
                                                       const avg_pool_attributes& attributes,
                                                       const shape::canonical_strides& in,
                                                       const shape::canonical_strides& out, bool f32,
                                                       bool accumulate) noexcept {
    average_plan g;
    g.backward = backward;
    g.accumulate = accumulate;
    g.exclude_pad = attributes.exclude_pad;
    g.divisor_override = attributes.divisor_override;
    g.divisor_axes = p.axes;
    g.axes = p.axes;
    g.batch = p.batch;
    g.in = in;
    g.out = out;
    for (shape::axis& a : g.axes) {
        if (a.kernel == 1) a.dilation = 1;
        // a single window has no next one: its stride may be anything, also a number too large to add to others
        if (a.small == 1) a.stride = (a.kernel - 1) * a.dilation + 1;
    }

    // One divisor for all windows? (An empty window of a forward pool has none: its mean is +0.)
    bool never_empty = true;
    bool alike = true;
    std::int64_t count = 1;
    for (std::size_t i = 0; i < 3; ++i) {
        never_empty = never_empty && windows_never_empty(p.axes[i]);
        alike = alike && counts_alike(p.axes[i], g.exclude_pad);
        count *= g.counted(i, 0);
    }
    g.uniform = (alike || g.divisor_override) && (never_empty || backward);
    g.uniform_divisor = g.divisor_override ? static_cast<float>(*g.divisor_override) : average_plan::divisor_of(count);

    // Channels lie on the lines where they are neighbours.
    const bool channels_inside =
        p.channels > 1 && (in[1] == 1 && out[1] == 1 ? true : !(in[4] == 1 && out[4] == 1) && out[1] == 1);
    g.planes = channels_inside ? 1 : p.channels;
    g.inner = channels_inside ? p.channels : 1;
    g.in_inner = channels_inside ? in[1] : 1;
    g.out_inner = channels_inside ? out[1] : 1;
    if (channels_inside) g.in[1] = g.out[1] = 0;

    // Rows of one element lie badly: columns and lines change roles where that changes no order of summation.
    const auto is_single = [](const shape::axis& a) {
        return a.large == 1 && a.small == 1 && a.inside_taps(0).count == 1;
    };
    if (is_single(g.axes[0]) && is_single(g.axes[2]) && !is_single(g.axes[1])) {
        std::swap(g.axes[1], g.axes[2]);
        std::swap(g.divisor_axes[1], g.divisor_axes[2]);
        std::swap(g.in[3], g.in[4]);
        std::swap(g.out[3], g.out[4]);
    }

    // A gradient of one window that covers everything: rows that follow each other in memory are one row.
    const auto is_global = [](const shape::axis& a) {
        return a.small == 1 && a.dilation == 1 && a.position(0, 0) <= 0 && a.position(0, a.kernel - 1) >= a.large - 1;
    };
    const auto global_axis = [](std::int64_t extent) {
        return shape::axis{.large = extent, .small = 1, .kernel = extent, .stride = extent};
    };
    if (backward && g.uniform) {
        for (std::size_t i = 2; i-- > 0;) {
            if (!is_global(g.axes[i]) || !is_global(g.axes[2])) break;
            if (g.axes[i].large > 1 && g.out[2 + i] != g.axes[2].large * g.out[4]) break;
            g.axes[2] = global_axis(g.axes[i].large * g.axes[2].large);
            g.axes[i] = shape::axis{};
        }
    }
    // Lines that windows tile exactly continue one another where they follow each other in memory.
    const shape::axis& w = g.axes[2];
    const auto set_line = [&](shape::canonical_strides& s, std::int64_t extent) {
        if (extent == 1) s[4] = g.planes > 1 ? s[1] : s[0];  // a line of one column has no stride of its own
        return extent * s[4];
    };
    const auto follows = [&](const shape::canonical_strides& s, std::int64_t line) {
        return (g.planes == 1 || s[1] == line) && (g.batch == 1 || s[0] == g.planes * line);
    };
    const std::int64_t outer = g.batch * g.planes;
    if (outer > 1 && g.uniform && is_single(g.axes[0]) && is_single(g.axes[1]) && w.dilation == 1 && w.pad_begin == 0 &&
        (w.small == 1 ? w.kernel == w.large : w.kernel == w.stride && w.large == w.small * w.stride) &&
        follows(g.in, set_line(g.in, g.in_extent(2))) && follows(g.out, set_line(g.out, g.out_extent(2)))) {
        g.axes[2] =
            shape::axis{.large = w.large * outer, .small = w.small * outer, .kernel = w.kernel, .stride = w.kernel};
        g.batch = g.planes = 1;
    }

    // Lines of few columns are slow one by one. Those whose windows move by few positions are computed as one; else
    // channels far apart in memory are transposed on the way in and out.
    constexpr std::int64_t few_columns = 64;
    constexpr std::int64_t enough_channels = 32;
    const std::int64_t columns = g.out_extent(2);
    const bool transposes = g.planes >= enough_channels && std::max(columns, g.in_extent(2)) <= few_columns &&
                            (columns == 1 || g.out[4] == 1) && (g.in_extent(2) == 1 || g.in[4] == 1);
    if (!channels_inside && join_lines(g, f32, transposes)) return g;
    g.transposes = transposes;
    if (g.transposes) {
        g.inner = std::exchange(g.planes, 1);
        g.in_inner = std::exchange(g.in[1], 0);
        g.out_inner = std::exchange(g.out[1], 0);
    }

    const shape::axis& a = g.axes[2];
    const std::int64_t reach = (a.kernel - 1) * a.dilation;
    g.tiles = backward && a.dilation == 1 && (a.small == 1 || a.kernel <= a.stride);
    g.direct_tiles = g.tiles && g.inner > 1 && g.out_inner == 1;

    // A segment of output columns and a block of channels, so that a scratch line is short and the columns that
    // neighbouring segments both read are few. Reads are counted as if they started at the most unlucky column.
    const auto reads_of = [&](std::int64_t extent) {
        if (!backward) return (extent - 1) * a.stride + reach + 1;
        const std::uint64_t span = static_cast<std::uint64_t>(extent - 1) + static_cast<std::uint64_t>(reach);
        const std::uint64_t steps = span / static_cast<std::uint64_t>(a.stride);
        return steps < INT64_MAX ? static_cast<std::int64_t>(steps) + 1 : INT64_MAX;
    };
    const auto clipped_reads = [&](std::int64_t extent) { return std::min(g.in_extent(2), reads_of(extent)); };
    const auto longest = [&](std::int64_t floats) {
        std::int64_t low = 0;
        std::int64_t high = std::min(columns, g.direct_tiles ? average_task / average_line * floats : floats);
        while (low < high) {
            const std::int64_t mid = low + (high - low + 1) / 2;
            if (clipped_reads(mid) <= floats) {
                low = mid;
            } else {
                high = mid - 1;
            }
        }
        return low;
    };
    const auto good = [&](std::int64_t extent) {
        if (extent == columns || (g.tiles && extent > 0)) return true;
        const std::int64_t fresh = backward ? extent / a.stride : extent * a.stride;
        return extent > 0 && reads_of(extent) - fresh <= reads_of(extent) / 4;
    };
    g.inner_block = std::min<std::int64_t>(g.inner, g.transposes ? 64 : g.direct_tiles ? average_line : 1024);
    while (g.inner_block > 16 && !good(longest(average_line / g.inner_block)))
        g.inner_block = shape::ceil_div(g.inner_block / 2, 16) * 16;
    if (g.inner_block < g.inner) {  // strips of nearly one size
        const std::int64_t even = shape::even_part(g.inner, g.inner_block);
        g.inner_block = std::min(g.inner_block, shape::ceil_div(even, 16) * 16);
    }
    g.segment = longest(average_line / g.inner_block);
    if (!good(g.segment)) g.segment = longest(average_reach / g.inner_block);
    if (g.segment > 0) g.segment = shape::even_part(columns, g.segment);
    if (g.tiles && g.segment < columns && g.segment > a.stride) g.segment -= g.segment % a.stride;

    // Windows far apart, or with taps far apart, would have columns summed that few of them read.
    const std::int64_t taps = backward ? (a.kernel - 1) / (a.stride / std::gcd(a.stride, a.dilation)) + 1 : a.kernel;
    g.by_taps = g.segment == 0 || clipped_reads(g.segment) / 8 / taps > g.segment;
    g.run_axis = a;
    if (g.by_taps) {
        g.tiles = g.direct_tiles = false;
        g.segment = std::min(columns, std::max<std::int64_t>(1, average_runs / g.inner_block));
        g.reads = g.segment;
    } else if (g.tiles) {
        g.reads = clipped_reads(g.segment);
    } else {
        // Short kernels read zeros behind the borders: then all positions of one stride phase are one run.
        const auto whole = static_cast<double>(taps) * static_cast<double>(columns);
        const auto inside =
            static_cast<double>(backward ? a.small : columns) * static_cast<double>(std::min(a.kernel, a.large));
        g.extended = reads_of(g.segment) <= average_reach / g.inner_block && (taps <= 16 || whole <= 8 * inside);
        const std::int64_t shift = backward ? reach / a.stride + 1 : a.pad_begin;
        const shape::checked shifted = shape::checked(shift) * a.stride + a.pad_begin + columns;
        g.extended = g.extended && (!backward || shifted.ok());
        if (g.extended) {
            g.reads = reads_of(g.segment);
            g.run_shift = shift;
            if (backward) {
                g.run_axis.pad_begin += g.run_shift * a.stride;
                g.run_axis.small = (columns - 1 + g.run_axis.pad_begin) / a.stride + 1;
            } else {
                g.run_axis.pad_begin = 0;
                g.run_axis.large = (a.small - 1) * a.stride + reach + 1;
            }
        } else {
            g.segment = std::min(g.segment, average_runs);
            g.reads = clipped_reads(g.segment);
        }
    }
    const std::int64_t most_runs = g.tiles      ? 0
                                   : g.extended ? (backward ? std::min(a.stride, g.segment) : 1)
                                                : g.segment;

    // Lines and items of a task.
    const std::int64_t lines = g.out_extent(1);
    const std::int64_t line_floats = g.segment * g.inner_block;
    const shape::axis& h = g.axes[1];
    const std::int64_t halo = backward ? (h.kernel - 1) * h.dilation / h.stride + 1 : 1;
    g.line_block =
        std::min({lines, average_runs, std::max(4 * average_task / line_floats, std::min(halo, average_runs) * 8)});
    g.line_block = shape::even_part(lines, g.line_block);
    g.group = g.line_block == lines ? std::max<std::int64_t>(1, average_task / line_floats / lines) : 1;

    const std::int64_t row = g.reads * g.inner_block;
    if (backward) {
        const shape::axis& d = g.axes[0];
        const std::int64_t rows = std::min(h.small, (h.kernel - 1) * h.dilation / h.stride + 1);
        const std::int64_t depths = std::min(d.small, (d.kernel - 1) / (d.stride / std::gcd(d.stride, d.dilation)) + 1);
        if (rows <= average_ring && depths <= average_ring && depths * rows > 1) {
            const auto slots = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
            if (slots * depths <= average_ring / row) {
                g.ring_depths = depths;
                g.ring_lines = slots;
            }
        }
    }

    const std::int64_t last_strip = g.inner - (g.strips() - 1) * g.inner_block;
    const auto lanes = static_cast<std::int64_t>(simd::lanes);
    const bool narrow = last_strip < lanes && a.stride > 1 && !g.tiles;
    const std::int64_t narrow_block = g.inner_block < lanes ? g.inner_block : last_strip;
    const std::int64_t divided = g.uniform ? 0 : backward ? g.reads : g.segment;
    slice_layout slice;
    g.at_vertical = slice.reserve<float>(row);
    g.at_result = slice.reserve<float>(g.direct_tiles ? g.inner_block : line_floats);
    g.at_packed = slice.reserve<float>(row);
    g.at_wide = slice.reserve<float>(g.transposes && !f32 ? std::max(row, line_floats) : 0);
    if (narrow && backward) {
        const std::int64_t phases = std::min(a.stride, g.segment);
        g.at_phases = slice.reserve<float>(phases * shape::ceil_div(g.segment, a.stride) * narrow_block);
    } else if (narrow) {
        g.separates = narrow_block == 1 && a.stride <= 16 && a.kernel >= a.stride / 2;
        g.at_phases = slice.reserve<float>(g.separates ? shape::ceil_div(g.reads, a.stride) * a.stride : 0);
    }
    // vectors of divisors are read whole
    g.at_divisors = slice.reserve<float>(divided == 0 ? 0 : divided + lanes);
    g.at_counts = slice.reserve<std::int64_t>(divided);
    g.at_runs = slice.reserve<column_run>(most_runs);
    g.at_lines = slice.reserve<axis_reads>(g.line_block);
    g.at_ring = slice.reserve<float>(g.ring_depths * g.ring_lines * row);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
    return g;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
