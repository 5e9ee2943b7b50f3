// The problem of the average engine: checked facts about windows, memory and options. select.hpp decides what to do with them.
//
// Both tensors are seen as lines [batch][planes][depth][height][columns][inner]: inner = channels where those are neighbours
// in memory, else 1. Axes are collapsed so that lines are long. Nothing here changes an order of summation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/shape/pooling.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// What the sums of windows are divided by.
struct divisor_rule {
    std::array<shape::axis, 3> axes{};  // as given, of (depth, height, columns)
    std::optional<std::int64_t> given{};
    std::int64_t uniform = 0;  // the divisor of all windows; 0 where they have none in common
    bool exclude_pad = false;

    [[nodiscard]] constexpr bool is_uniform() const noexcept { return uniform != 0; }
    /// Taps of window o that count along one axis.
    [[nodiscard]] constexpr std::int64_t counted(std::size_t i, std::int64_t o) const noexcept {
        return exclude_pad ? axes[i].inside_taps(o).count : axes[i].padded_taps(o);
    }
    /// Those of windows in row h that count `depth_taps` along the depth; the divisor is this times counted_columns.
    [[nodiscard]] constexpr std::int64_t counted_rows(std::int64_t depth_taps, std::int64_t h) const noexcept {
        return given ? 1 : depth_taps * counted(1, h);
    }
    /// The same for the columns of windows: 0 where no tap is inside.
    [[nodiscard]] constexpr std::int64_t counted_columns(std::int64_t o) const noexcept {
        if (axes[2].inside_taps(o).count == 0) return 0;
        return given ? *given : counted(2, o);
    }
    /// The divisor of windows with this count. Windows without a counted tap reach nothing; they take 1, so that no quotient
    /// by 0 is formed on the way.
    [[nodiscard]] static constexpr std::int64_t of_count(std::int64_t count) noexcept { return count == 0 ? 1 : count; }
};

/// What elements are: of the type of sums, or others, which are converted to it and back.
enum class element_kind : std::uint8_t { sums, converted };

struct problem {
    shape::side outputs = shape::side::small;  // small: forward; large: backward
    output_mode output = output_mode::overwrite;
    scratch_use scratch = scratch_use::fast;
    element_kind elements = element_kind::sums;
    real_type real{};
    std::array<shape::axis, 3> axes{};  // as computed with
    divisor_rule divisors{};

    std::int64_t batch = 0;
    std::int64_t planes = 1;
    std::int64_t inner = 1;
    shape::canonical_strides in{};  // of (batch, plane, depth, height, columns)
    shape::canonical_strides out{};
    std::int64_t in_inner = 1;
    std::int64_t out_inner = 1;
    bool long_lines = false;    // sums over depth and height may be cut into parts (summation.hpp)
    bool long_columns = false;  // sums over columns may be

    [[nodiscard]] constexpr bool is_backward() const noexcept { return outputs == shape::side::large; }
    [[nodiscard]] constexpr bool accumulates() const noexcept { return output == output_mode::accumulate; }
    [[nodiscard]] constexpr std::int64_t in_extent(std::size_t i) const noexcept {
        return read_extent(axes[i], outputs);
    }
    [[nodiscard]] constexpr std::int64_t out_extent(std::size_t i) const noexcept {
        return is_backward() ? axes[i].large : axes[i].small;
    }
    /// From one read of a position to the next.
    [[nodiscard]] constexpr std::int64_t read_step(std::size_t i) const noexcept { return axes[i].read_step(outputs); }
    /// From one position of a run along an axis to the next, in outputs and in what they read.
    [[nodiscard]] constexpr std::int64_t position_step(std::size_t i) const noexcept {
        return is_backward() ? axes[i].stride : 1;
    }
    [[nodiscard]] constexpr std::int64_t advance(std::size_t i) const noexcept {
        return is_backward() ? 1 : axes[i].stride;
    }
};

/// What all plans hold: the facts, and how a worker walks the outputs. An item is a block of rows at one depth of a plane.
struct block_plan : problem {
    std::int64_t line_block = 1;  // rows of an item
    std::int64_t group = 1;       // items of one task
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t line_blocks() const noexcept {
        return shape::ceil_div(out_extent(1), line_block);
    }
    [[nodiscard]] constexpr std::int64_t items() const noexcept {
        return batch * planes * out_extent(0) * line_blocks();
    }
    [[nodiscard]] constexpr std::int64_t groups() const noexcept { return shape::ceil_div(items(), group); }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return groups(); }
    /// Outputs of a row of an item.
    [[nodiscard]] constexpr std::int64_t row_outputs() const noexcept { return out_extent(2) * inner; }
    /// Rows that an item is not cut below: what it reads beside its own is little.
    [[nodiscard]] constexpr std::int64_t least_rows(std::int64_t outputs_of_row) const noexcept {
        constexpr std::int64_t least_outputs = 2048;
        // forward: windows that read what the next one reads, too
        const std::int64_t halo = is_backward() ? span_at_most(axes[1], outputs, 1) : axes[1].reach() / axes[1].stride;
        return std::max(
            {shape::ceil_div(least_outputs, outputs_of_row), 2 * std::min(halo, out_extent(1)), std::int64_t{1}});
    }
};

/// The plan for so many workers: tasks of fewer items, then of fewer rows, where there are not many tasks.
template <class Plan>
[[nodiscard]] constexpr Plan plan_for(const Plan& planned, std::int64_t workers) noexcept {
    Plan g = planned;
    if (workers <= 1 || g.tasks() == 0) return g;
    const std::int64_t least = g.least_rows(g.row_outputs());
    while (!has_many_tasks(g.tasks(), counted_workers(workers))) {
        if (g.group > 1) {
            g.group = (g.group + 1) / 2;
        } else if (g.line_block / 2 >= least) {
            g.line_block = shape::even_part(g.out_extent(1), (g.line_block + 1) / 2);
        } else {
            break;
        }
    }
    return g;
}

/// A plan that holds these facts, and nothing else yet.
template <class Plan>
[[nodiscard]] constexpr Plan plan_of(const problem& p) noexcept {
    Plan g{};
    static_cast<problem&>(g) = p;
    return g;
}

/// Computes tasks of a path's plan; T is the element type of both tensors. Defined for the outputs that a path may have.
template <algorithm Path, class T, shape::side Outputs>
class worker;

/// Whether all windows of an axis count the same number of taps.
[[nodiscard]] constexpr bool counts_are_equal(const shape::axis& a, bool exclude_pad) noexcept {
    if (a.small == 1) return true;
    const std::int64_t end = a.position(a.small - 1, a.kernel - 1);  // last tap of the last window
    return exclude_pad ? a.pad_begin == 0 && end < a.large : end < a.large + a.pad_end;
}

/// Whether every window has an inside tap.
[[nodiscard]] constexpr bool windows_never_empty(const shape::axis& a) noexcept {
    // dilated windows can step over a short input; others miss it only by lying beside it
    if (a.dilation > 1) return a.pad_begin == 0 && a.position(a.small - 1, 0) < a.large;
    return a.position(0, a.kernel - 1) >= 0 && a.position(a.small - 1, 0) < a.large;
}

/// Gives all windows one divisor, if they have one. (An empty window of a forward pool has none: its mean is +0.)
constexpr void find_uniform_divisor(divisor_rule& d, bool is_backward) noexcept {
    bool never_empty = true;
    bool equal = true;
    std::int64_t count = 1;
    for (std::size_t i = 0; i < 3; ++i) {
        never_empty = never_empty && windows_never_empty(d.axes[i]);
        equal = equal && counts_are_equal(d.axes[i], d.exclude_pad);
        count *= d.counted(i, 0);
    }
    if ((equal || d.given) && (never_empty || is_backward))
        d.uniform = d.given ? *d.given : divisor_rule::of_count(count);
}

/// Puts the planes of all channels on the lines: their columns become blocks of channels.
constexpr void put_planes_on_lines(problem& p) noexcept {
    p.inner = std::exchange(p.planes, 1);
    p.in_inner = std::exchange(p.in[1], 0);
    p.out_inner = std::exchange(p.out[1], 0);
}

/// Whether channels are neighbours in memory: in both tensors, or in the output if columns are not neighbours in both.
[[nodiscard]] constexpr bool channels_are_neighbours(const problem& p) noexcept {
    return p.planes > 1 && p.out[1] == 1 && (p.in[1] == 1 || p.in[4] != 1 || p.out[4] != 1);
}

/// Whether an axis is one position, read by one window.
[[nodiscard]] constexpr bool is_single(const shape::axis& a) noexcept {
    return a.large == 1 && a.small == 1 && a.inside_taps(0).count == 1;
}

/// Lets columns and rows change roles where that changes no order of summation: lines of one column are short. (Parts of long
/// sums of rows are cut elsewhere than those of columns.)
constexpr void swap_rows_and_columns(problem& p) noexcept {
    if (p.long_lines || !is_single(p.axes[0]) || !is_single(p.axes[2]) || is_single(p.axes[1])) return;
    std::swap(p.axes[1], p.axes[2]);
    std::swap(p.divisors.axes[1], p.divisors.axes[2]);
    std::swap(p.in[3], p.in[4]);
    std::swap(p.out[3], p.out[4]);
}

/// Collapses the rows of a gradient of one window that covers everything, where they follow each other in memory.
constexpr void collapse_global_window(problem& p) noexcept {
    const auto is_global = [](const shape::axis& a) {
        return a.small == 1 && a.dilation == 1 && a.position(0, 0) <= 0 && a.position(0, a.kernel - 1) >= a.large - 1;
    };
    if (!p.is_backward() || !p.divisors.is_uniform()) return;
    for (std::size_t i = 2; i-- > 0;) {
        if (!is_global(p.axes[i]) || !is_global(p.axes[2])) break;
        if (p.axes[i].large > 1 && !continues(p.out[2 + i], p.axes[2].large, p.out[4])) break;
        const std::int64_t all = p.axes[i].large * p.axes[2].large;
        p.axes[2] = shape::axis{.large = all, .small = 1, .kernel = all, .stride = all};
        p.axes[i] = shape::axis{};
    }
}

/// Collapses lines that windows tile exactly, where they follow each other in memory.
constexpr void collapse_tiled_lines(problem& p) noexcept {
    const shape::axis& w = p.axes[2];
    const auto is_one_line = [&](shape::canonical_strides& s, std::int64_t extent) {
        if (extent == 1) s[4] = p.planes > 1 ? s[1] : s[0];  // a line of one column has no stride of its own
        return planes_are_one_line(s, p.batch, p.planes, extent * s[4]);
    };
    const std::int64_t outer = p.batch * p.planes;
    if (outer > 1 && p.divisors.is_uniform() && is_single(p.axes[0]) && is_single(p.axes[1]) && w.dilation == 1 &&
        w.pad_begin == 0 &&
        (w.small == 1 ? w.kernel == w.large : w.kernel == w.stride && w.large == w.small * w.stride) &&
        is_one_line(p.in, p.in_extent(2)) && is_one_line(p.out, p.out_extent(2))) {
        p.axes[2] =
            shape::axis{.large = w.large * outer, .small = w.small * outer, .kernel = w.kernel, .stride = w.kernel};
        p.batch = p.planes = 1;
    }
}

/// Collects the facts of a pool, or of its gradient.
[[nodiscard]] constexpr problem make_problem(const shape::pooling_problem& pool, shape::side outputs,
                                             const avg_pool_attributes& attributes, const shape::canonical_strides& in,
                                             const shape::canonical_strides& out, element_kind elements,
                                             const plan_options& options, const real_type& real = {}) noexcept {
    problem p{
        .outputs = outputs, .output = options.output, .scratch = options.scratch, .elements = elements, .real = real};
    if (pool.channels == 0) return p;  // nothing to write
    p.axes = pool.axes;
    p.divisors = {.axes = pool.axes, .given = attributes.divisor_override, .exclude_pad = attributes.exclude_pad};
    p.batch = pool.batch;
    p.planes = pool.channels;
    p.in = in;
    p.out = out;
    for (shape::axis& a : p.axes) {
        if (a.kernel == 1) a.dilation = 1;
        // a single window has no next one: its stride may be anything, also a number too large to add to others
        if (a.small == 1) a.stride = a.reach() + 1;
    }
    const auto reads = [&](std::size_t i) { return p.axes[i].most_reads(outputs); };
    p.long_lines = reads(0) > pool_part || reads(1) > pool_part || reads(0) * reads(1) > pool_part;
    p.long_columns = reads(2) > pool_part;
    find_uniform_divisor(p.divisors, p.is_backward());
    if (channels_are_neighbours(p)) put_planes_on_lines(p);
    swap_rows_and_columns(p);
    collapse_global_window(p);
    collapse_tiled_lines(p);
    return p;
}

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
