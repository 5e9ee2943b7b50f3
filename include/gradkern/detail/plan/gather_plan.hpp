// The plan of the gather engine (gather.hpp): path, panels of weights, blocks of outputs, and the order of a reduction.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/summation.hpp>
#include <gradkern/detail/plan/tile_rows.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/convolution.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// How tiles read rows of type T that have a number for each lane: 16 bits as they are, where that takes few instructions.
template <class T>
inline constexpr operand lane_operand = !simd::widens_quickly<T>                     ? operand::vector
                                        : element_traits<T>::type == data_type::f16  ? operand::f16
                                        : element_traits<T>::type == data_type::bf16 ? operand::bf16
                                                                                     : operand::vector;

/// Everything a run needs but pointers. Made by make_gather_plan from a checked problem.
struct gather_plan {
    shape::side outputs = shape::side::small;
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t groups = 1;
    std::int64_t in_channels = 0;   // per group
    std::int64_t terms = 0;         // of a tap: in_channels, or pairs of them
    std::int64_t out_channels = 0;  // per group
    shape::canonical_strides in{};
    shape::canonical_strides out{};
    std::int64_t w_first = 0;  // where the first tap that any output reads begins
    std::int64_t w_group = 0;  // elements between groups, reduction channels, output channels and taps of the filter
    std::int64_t w_reduce = 0;
    std::int64_t w_out = 0;
    std::array<std::int64_t, 3> w_tap{};
    data_type bias_type = data_type::f32;
    std::int64_t bias_step = 1;
    bool accumulate = false;

    bool channelwise = false;
    bool shared = false;  // channelwise, groups of as many input as output channels, whose lanes share them
    bool halves = false;  // channelwise: whole panels read and write 16-bit tensors as they are, in one part
    bool positionwise = false;
    bool planewise = false;         // depthwise, positions of one channel in the lanes: panels are channels
    bool points = false;            // positionwise and 1x1: positions of all axes and images are one line
    bool weights_in_place = false;  // points
    bool pairs = false;             // terms are pairs of bf16 numbers, each in place of a float
    bool staged = false;
    bool together = false;          // a task walks panels of several groups side by side
    bool out_staged = false;        // positions of a class lie apart in lines of the output: whole lines leave together
    std::int64_t panels = 0;        // in one group (dense) or in all (channelwise)
    std::int64_t task_panels = 1;   // of one task, over all groups
    std::int64_t lone_panels = 1;   // the same where one lane runs all tasks
    std::int64_t joint_panels = 0;  // those that share tasks: all, but for a last one that is staged on its own
    std::int64_t panel_width = 0;   // lanes
    std::int64_t panel_rows = 1;    // positionwise: output channels, each packed on its own
    bool turned = false;            // positionwise: rows lie in the lanes of classes of one column
    std::int64_t segment = 0;       // points: columns of a tile at most
    std::int64_t tap_pitch = 0;     // floats from tap to tap in a packed panel
    std::int64_t panel_floats = 0;
    box_grid blocks{};
    std::int64_t staged_channels = 0;  // floats per staged position
    std::int64_t at_panel = 0;         // byte offsets in a slice
    std::int64_t at_staging = 0;
    std::int64_t at_turned = 0;
    std::int64_t at_inside = 0;
    std::int64_t at_results = 0;
    std::int64_t at_list = 0;
    std::int64_t at_parts = 0;
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t taps() const noexcept {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    /// Where a packed panel holds a tap: in the order in which taps are read.
    [[nodiscard]] constexpr std::int64_t tap_place(std::int64_t tap) const noexcept {
        return outputs == shape::side::small ? tap : taps() - 1 - tap;
    }
    [[nodiscard]] constexpr std::int64_t channel_blocks() const noexcept {
        return shape::ceil_div(terms, channel_block);
    }
    [[nodiscard]] constexpr std::int64_t extent(std::size_t i) const noexcept {
        return outputs == shape::side::small ? axes[i].small : axes[i].large;
    }
    [[nodiscard]] constexpr std::array<std::int64_t, 3> extents() const noexcept {
        return {extent(0), extent(1), extent(2)};
    }
    /// Points: of all axes and images. Blocks count them in segments.
    [[nodiscard]] constexpr std::int64_t point_count() const noexcept {
        return batch * extent(0) * extent(1) * extent(2);
    }
    [[nodiscard]] constexpr std::int64_t all_panels() const noexcept { return panels * (channelwise ? 1 : groups); }
    /// Tasks of a block, where each has so many panels.
    [[nodiscard]] constexpr std::int64_t block_tasks(std::int64_t each) const noexcept {
        return shape::ceil_div(joint_panels, each) + all_panels() - joint_panels;
    }
    [[nodiscard]] constexpr std::int64_t block_tasks() const noexcept { return block_tasks(task_panels); }
    /// Whether tiles of a panel touch the lanes it uses alone. Those that share are packed for the whole width.
    [[nodiscard]] constexpr bool is_whole(std::int64_t lanes_used) const noexcept {
        return lanes_used == panel_width || (!shared && !halves && fills_tile(lanes_used));
    }
    /// The panels [first, last) of a task of a block.
    struct panel_range {
        std::int64_t first;
        std::int64_t last;
    };
    [[nodiscard]] constexpr panel_range panels_of(std::int64_t task, std::int64_t each) const noexcept {
        const std::int64_t first = task * each;
        if (first < joint_panels) return {first, std::min(first + each, joint_panels)};
        return {joint_panels, joint_panels + 1};
    }
    [[nodiscard]] constexpr panel_range panels_of(std::int64_t task) const noexcept {
        return panels_of(task, task_panels);
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return blocks.count() * block_tasks(); }
    [[nodiscard]] constexpr std::int64_t total_out_channels() const noexcept { return groups * out_channels; }
};

/// Positionwise: up to so many output channels share one wide tile.
inline constexpr std::int64_t position_rows = 4;

/// The widest tile for a few rows, in vectors: a dozen accumulators, or eight, as many as a CPU has multiply-adds under way.
[[nodiscard]] constexpr int position_vectors(int rows) noexcept { return rows <= 2 ? 8 / rows : 12 / rows; }

/// Forward: where windows are single positions, those between them are nobody's. The tensor without them has an axis
/// of stride 1.
constexpr void drop_unread_positions(gather_plan& g) noexcept {
    for (std::size_t i = 0; i < 3; ++i) {
        shape::axis& a = g.axes[i];
        if (a.kernel != 1 || a.pad_begin != 0 || a.small == 0 || (a.small - 1) * a.stride >= a.large) continue;
        if (a.small > 1) g.in[2 + i] *= a.stride;
        a = {.large = a.small, .small = a.small};
    }
}

/// Floats of a staging area: lines of less are too short for a CPU to fetch them ahead.
inline constexpr std::int64_t most_staged = 128 * 1024;

/// Floats of the packed weights of a panel that stay in L2 beside what they meet. Weights whose lanes lie apart in the
/// tensor share 1 MB of it with what they come from, too.
[[nodiscard]] constexpr std::int64_t most_packed(bool apart) noexcept {
    return (large_l2 ? 384 : apart ? 96 : 192) * 1024;
}

/// Whether a 1x1 kernel of one group had better have positions in the lanes: no activations are transposed then.
[[nodiscard]] constexpr bool points_pay_off(const gather_plan& g) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    if (g.in[1] == 1 || g.out[1] == 1) return false;  // nor else
    if (g.point_count() < lanes || g.in_channels > most_staged / g.segment) return false;
    if (g.weights_in_place) return true;
    // Packing weights for each block takes longer than transposing few activations, and than blocks of few positions.
    const bool few_weights = std::min(g.in_channels, g.out_channels) < lanes;
    return g.in_channels <= 512 && (few_weights || g.point_count() >= 64 * lanes);
}

/// Input lines that four lines of outputs read. Where they exceed the staging area, kernels are tall, and blocks of
/// outputs so small that lines are staged again and again.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::int64_t lines_of_four(const gather_plan& g) noexcept {
    return reads_at_most(g.axes[0], g.outputs, 1) * reads_at_most(g.axes[1], g.outputs, 4);
}

/// Whether a kernel of several taps had better have positions in the lanes, because output channels would fill few of theirs.
/// Compares the multiply-adds of vectors that a line of outputs takes for each term. What positions cost besides is measured:
/// activations are staged, those whose channels are neighbours by way of a transpose, and columns that meet taps of their
/// own are turned.
[[nodiscard]] constexpr bool lines_pay_off(const gather_plan& g) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    for (const shape::axis& a : g.axes)
        if (a.stride != 1) return false;
    if (g.taps() == 1 || g.taps() * g.out_channels < 36) return false;  // what is staged is used too seldom
    if (g.in_channels > most_staged / 1024 || g.out_channels > 1024 || g.axes[2].kernel > 16) return false;
    const std::int64_t line_floats = g.in_channels * row_pitch(reads_at_most(g.axes[2], g.outputs, g.extent(2)));
    if (lines_of_four(g) > most_staged / std::max<std::int64_t>(line_floats, 1)) return false;

    const std::int64_t width = panel_lanes(g.out_channels);
    const std::int64_t rest = g.out_channels % width;
    const bool waits = narrow_rows < 8 && rest > 0 && rest <= lanes;  // tiles of one vector have too few sums
    const std::int64_t in_panels = lanes * (2 * panel_vectors(g.out_channels, width) + (waits ? 1 : 0)) * g.extent(2);

    const std::int64_t lone_column = 2 * g.extent(1) >= lanes ? 3 : lanes;  // costs as much as so many others
    std::int64_t columns = 0;
    shape::tap_class_walk walk(g.axes[2], g.outputs, 0, g.extent(2));
    for (shape::tap_class c; walk.next(c);)
        columns += c.positions > 1 ? shape::ceil_div(c.positions, lanes) * lanes : lone_column;
    const std::int64_t rows = shape::ceil_div(g.out_channels, std::int64_t{2}) * 2;
    const std::int64_t percent = (g.in[4] == 1 && g.out[4] == 1 ? 115 : 140) + (g.groups > 1 ? 25 : 0);
    return 100 * in_panels >= percent * 2 * rows * columns;
}

/// Whether lanes across groups find the channels of their group in a register.
[[nodiscard]] GRADKERN_NOINLINE constexpr bool lanes_share(const gather_plan& g) noexcept {
    return g.in_channels == g.out_channels && can_share(g.in_channels) &&
           (g.in_channels == 4 || g.total_out_channels() > static_cast<std::int64_t>(simd::lanes));
}

/// Whether lanes had better run across groups, which have few channels. Unless lanes share those, every activation is then
/// staged for each output channel of its group.
[[nodiscard]] constexpr bool across_groups_pays_off(const gather_plan& g) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    if (g.groups == 1 || 2 * g.out_channels > lanes || g.in_channels > lanes) return false;
    const std::int64_t products = g.in_channels * g.out_channels;  // of channels of a group
    if (products == 1 || lanes_share(g)) return true;
    const bool one_by_one = g.in[1] == 1;  // is how neighbours are staged
    const bool strided = g.axes[1].stride > 1 || g.axes[2].stride > 1;
    if (strided && g.outputs == shape::side::large) return products < (one_by_one ? 64 : 128);
    if (products <= (!one_by_one ? 24 : strided ? 4 : 16)) return true;
    return !one_by_one && !strided && products < 128 && !lines_pay_off(g);
}

/// Makes one axis of those that follow one another in both memories, if their windows are single positions.
constexpr void join_unit_axes(gather_plan& g) noexcept {
    shape::axis& last = g.axes[2];
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
        shape::axis& a = g.axes[i];
        if (!a.is_unit() || !last.is_unit()) return;
        if (a.large == 1) continue;
        if (last.large == 1) {  // its strides are nobody's
            g.in[4] = g.in[2 + i];
            g.out[4] = g.out[2 + i];
        } else if (g.in[2 + i] != last.large * g.in[4] || g.out[2 + i] != last.large * g.out[4]) {
            return;
        }
        const std::int64_t extent = last.large * a.large;
        last = {.large = extent, .small = extent};
        a = {};
    }
}

/// Planewise: taps at most, and floats of staged lines that are aimed at.
inline constexpr std::int64_t plane_taps = 64;
inline constexpr std::int64_t plane_floats = 16 * 1024;

/// Whether positions of one channel can lie in the lanes: a depthwise layer of stride 1 whose columns are neighbours.
[[nodiscard]] constexpr bool has_planes(const gather_plan& g) noexcept {
    if (g.groups == 1 || g.in_channels != 1 || g.out_channels != 1 || g.in[4] != 1 || g.out[4] != 1) return false;
    for (const shape::axis& a : g.axes)
        if (a.stride != 1 || a.kernel > plane_taps) return false;
    const shape::axis& columns = g.axes[2];
    const std::int64_t reach = (columns.kernel - 1) * columns.dilation;
    // What the first and the last column read lies no farther from the input than the kernel reaches.
    const bool forward = g.outputs == shape::side::small;
    const bool ends = forward ? columns.position(columns.small - 1, 0) <= columns.large
                              : columns.large - 1 + columns.pad_begin - reach <= columns.small;
    return g.taps() <= plane_taps && columns.pad_begin <= reach && ends && reach <= plane_floats / 4;
}
/// Floats before the staged lines, and floats from tap to tap that say where it is inside.
[[nodiscard]] constexpr std::int64_t plane_margin(const gather_plan& g) noexcept {
    return row_pitch((g.axes[2].kernel - 1) * g.axes[2].dilation);
}
[[nodiscard]] constexpr std::int64_t plane_pitch(const gather_plan& g, std::int64_t columns) noexcept {
    return std::max(columns, reads_at_most(g.axes[2], g.outputs, columns));
}
[[nodiscard]] constexpr std::int64_t plane_inside_pitch(const gather_plan& g) noexcept {
    return plane_pitch(g, g.blocks.box(2)) + static_cast<std::int64_t>(simd::lanes);
}

/// Whether they had better: planes are large, read by few taps, and cut into blocks of several lines. Nothing is transposed
/// then, but each vector is read from an address of its own.
[[nodiscard]] constexpr bool planes_pay_off(const gather_plan& g) noexcept {
    return g.in[1] != 1 && g.out[1] != 1 && g.taps() <= 9 && g.extent(1) >= 8 && g.extent(1) * g.extent(2) >= 2048 &&
           lines_of_four(g) <= plane_floats / plane_pitch(g, g.extent(2));
}

/// The rest of a planewise plan.
constexpr void plan_planes(gather_plan& g) noexcept {
    g.planewise = true;
    g.staged = true;
    g.terms = 1;
    g.panels = 1;
    g.panel_width = 1;
    g.tap_pitch = 1;
    g.joint_panels = g.all_panels();
    const auto staged = [&](const std::array<std::int64_t, 3>& box) {
        return reads_at_most(g.axes[0], g.outputs, box[0]) * reads_at_most(g.axes[1], g.outputs, box[1]) *
               plane_pitch(g, box[2]);
    };
    g.blocks = box_grid(g.batch, g.extents(), [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        return images == 1 && staged(box) <= plane_floats;
    });
    if (g.blocks.count() == 0) return;
    // Channels of a task: a few thousand positions, as long as there are tasks for many threads.
    constexpr std::int64_t tasks = 16;
    const std::array<std::int64_t, 3> box{g.blocks.box(0), g.blocks.box(1), g.blocks.box(2)};
    g.task_panels = std::clamp<std::int64_t>(std::min(plane_floats / (box[0] * box[1] * box[2]),
                                                      g.blocks.count() * g.groups / tasks), 1, g.groups);
    constexpr auto slack = 4 * static_cast<std::int64_t>(simd::lanes);
    slice_layout slice;
    g.at_staging = slice.reserve<float>(plane_margin(g) + staged(box) + plane_margin(g) + slack);
    g.at_inside = slice.reserve<float>(g.axes[2].kernel * plane_inside_pitch(g));
    g.at_results = slice.reserve<float>(box[0] * box[1] * plane_pitch(g, box[2]));
    g.slice_bytes = slice.bytes();
}

/// Chooses path, panels, blocks and scratch. `f32` says whether activations are f32, `halves` whether tiles can read and
/// write them as 16 bits, `pairs` whether they may take them by pairs.
[[nodiscard]] constexpr gather_plan make_gather_plan(const shape::convolution_problem& p, shape::side outputs,
                                                     const shape::canonical_strides& in,
                                                     const shape::canonical_strides& out,
                                                     const shape::canonical_strides& weights, bool f32, bool halves,
                                                     bool pairs, const plan_options& options) noexcept {
    gather_plan g;
    const bool forward = outputs == shape::side::small;
    g.outputs = outputs;
    g.axes = p.axes;
    g.batch = p.batch;
    g.groups = p.groups;
    g.in_channels = forward ? p.large_channels : p.small_channels;
    g.out_channels = forward ? p.small_channels : p.large_channels;
    g.in = in;
    g.out = out;
    g.w_group = p.small_channels * weights[0];
    g.w_reduce = forward ? weights[1] : weights[0];
    g.w_out = forward ? weights[0] : weights[1];
    g.w_tap = {weights[2], weights[3], weights[4]};
    for (std::size_t i = 0; i < 3; ++i) g.w_first += g.axes[i].drop_outside_taps() * g.w_tap[i];
    g.accumulate = options.output == output_mode::accumulate;
    if (forward) drop_unread_positions(g);
    if (in[1] != 1) join_unit_axes(g);  // else panels that go together fetch the next line ahead
    if (has_planes(g) && (options.algorithm == algorithm::positionwise ||
                          (options.algorithm == algorithm::automatic && planes_pay_off(g)))) {
        plan_planes(g);
        return g;
    }

    constexpr std::int64_t task_floats = 64 * 1024;  // packed weights of a task stay in L2
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    g.channelwise = options.algorithm == algorithm::channelwise ||
                    (options.algorithm == algorithm::automatic && across_groups_pays_off(g));
    // Positions can lie in the lanes where neighbours read neighbours. That pays off where output channels would leave
    // many lanes empty, and for many 1x1 kernels.
    const bool narrow = 2 * g.out_channels <= lanes && g.out_channels <= position_rows &&
                        g.in_channels * g.taps() >= 32 && g.extent(2) >= 4 * lanes;
    const bool unit_axes = g.axes[0].is_unit() && g.axes[1].is_unit() && g.axes[2].is_unit();
    g.weights_in_place = unit_axes && f32 && g.w_reduce == 1;
    g.segment =
        g.out_channels <= position_rows ? position_vectors(static_cast<int>(g.out_channels)) * lanes : tile_lanes;
    const bool neighbours =
        (g.groups == 1 && (narrow || (unit_axes && points_pay_off(g)))) || (!g.channelwise && lines_pay_off(g));
    g.positionwise = (!forward || g.axes[2].stride == 1) && (options.algorithm == algorithm::positionwise ||
                                                             (options.algorithm == algorithm::automatic && neighbours));
    g.points = g.positionwise && unit_axes;
    g.weights_in_place = g.weights_in_place && g.points;
    g.pairs = pairs && !g.channelwise && g.in_channels > 1;
    g.terms = g.pairs ? shape::ceil_div(g.in_channels, std::int64_t{2}) : g.in_channels;
    const std::int64_t width = g.channelwise ? g.total_out_channels() : g.out_channels;
    g.out_staged = !forward && !g.positionwise && g.axes[2].stride > 1 && out[1] != 1;
    // Packed weights of a panel stay in L2, and so do results that wait for others of their lines.
    const bool narrow_panels = g.out_staged || g.terms * g.taps() > most_packed(g.w_out != 1) / tile_lanes;
    const bool depthwise = g.in_channels == 1 && g.out_channels == 1;
    g.halves = halves && g.channelwise && depthwise && in[1] == 1 && out[1] == 1 && g.taps() <= part_terms &&
               options.algorithm != algorithm::dense_staged;
    g.panel_width = g.positionwise   ? 1
                    : !g.channelwise ? panel_lanes(width, narrow_panels)
                    : g.halves       ? half_lanes
                    : width <= lanes ? lanes
                                     : narrow_lanes;
    if (g.positionwise) g.panel_rows = g.out_channels <= position_rows ? position_rows : tile_rows;
    g.panels = shape::ceil_div(width, g.panel_rows * g.panel_width);
    g.shared = g.channelwise && lanes_share(g);
    // Channels far apart are a page each: read in place only where they are read a few times.
    const bool reachable =
        in[1] == 1 || g.in_channels == 1 || g.taps() * g.panels <= 4 || options.algorithm == algorithm::dense;
    // Pairs of neighbours, as many as there are channels, and whole numbers of them from one position to the next.
    const bool paired = g.pairs && in[1] == 1 && g.in_channels % 2 == 0 && (in[0] | in[2] | in[3] | in[4]) % 2 == 0;
    const bool in_place =
        paired || g.halves || (f32 && (g.channelwise ? in[1] == 1 && (depthwise || g.shared) : reachable));
    g.staged = !in_place || g.positionwise || options.algorithm == algorithm::dense_staged;

    slice_layout slice;
    // A tap pitch of a multiple of 4 KB would send the stores of all taps to one cache set.
    // Not where there is one block of channels: taps that follow one another in both memories then join into long stretches.
    const std::int64_t pitch = std::min(g.terms, channel_block) * g.panel_width;
    g.tap_pitch = pitch % 1024 == 0 && g.channel_blocks() > 1 ? pitch + 32 : pitch;
    g.panel_floats = g.panel_width + g.channel_blocks() * g.taps() * g.tap_pitch;  // room for the bias first
    // Panels of several groups that read and write parts of the same lines go over the tensor together: in place, or, where
    // their lanes are the channels, staged together.
    const bool plain_lanes = g.channelwise && (depthwise || g.shared);
    g.together = g.groups > 1 && in[1] == 1 && out[1] == 1 && !g.positionwise &&
                 (!g.staged || (plain_lanes && options.algorithm == algorithm::automatic));
    g.joint_panels = g.all_panels();
    const bool whole = width % g.panel_width == 0 || g.is_whole(width % g.panel_width);  // the last panel, too
    // Where no two windows share a position, panels that go together, over positions they write side by side, read
    // activations from memory once.
    const auto apart = [](const shape::axis& a) { return a.kernel == 1 || (a.dilation == 1 && a.kernel <= a.stride); };
    const bool apart_windows = g.taps() == 1 || (apart(g.axes[0]) && apart(g.axes[1]) && apart(g.axes[2]));
    const bool same_lines =
        g.groups == 1 && apart_windows && !g.channelwise && !g.positionwise && in[1] == 1 && out[1] == 1;
    const bool several = g.together || same_lines || (g.positionwise && g.groups == 1);  // panels in a task
    if (several) {
        if (g.channelwise && !g.staged && !whole) --g.joint_panels;
        g.task_panels = std::clamp<std::int64_t>(task_floats / (g.panel_rows * g.panel_floats), 1,
                                                 std::max<std::int64_t>(g.joint_panels, 1));
    }
    g.staged_channels = g.together && g.staged ? g.task_panels * g.panel_width
                        : g.shared              ? g.panel_width
                        : g.channelwise        ? g.in_channels * g.panel_width
                                               : g.terms;
    const bool may_stage = g.staged || (g.channelwise && !whole);
    std::array<std::int64_t, 3> extents_of = g.extents();
    // What a block of outputs needs in its staging area.
    const auto staged_floats = [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        if (g.points) return row_pitch(box[2] * g.segment) * g.terms;
        std::int64_t floats = images * g.staged_channels;
        for (std::size_t i = 0; i < 3; ++i) {
            const std::int64_t reads = reads_at_most(g.axes[i], g.outputs, box[i]);
            floats *= g.positionwise && i == 2 ? row_pitch(reads) : reads;
        }
        return floats;
    };
    // Panels are packed again for each block. From 2 MB of weights on, half as many blocks gain more than an area in L2.
    const bool many_weights =
        g.in_channels * g.taps() >= shape::ceil_div(4 * most_staged, std::max<std::int64_t>(g.out_channels, 1));
    const std::int64_t staging = many_weights && !g.positionwise ? 2 * most_staged : most_staged;
    // packing the panels costs about 1 % of their use
    const std::int64_t block_positions = g.together ? 512 : same_lines ? 1024 : g.out_staged ? 2048 : 4096;
    // Points: one image, or none, of a line whose columns are segments.
    if (g.points) extents_of = {1, 1, shape::ceil_div(g.point_count(), g.segment)};
    g.blocks = box_grid(g.points ? std::min<std::int64_t>(g.batch, 1) : g.batch, extents_of,
                        [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
                            return images * box[0] * box[1] * box[2] * (g.points ? g.segment : 1) <= block_positions &&
                                   (!may_stage || staged_floats(images, box) <= staging);
                        });
    if (several) {  // as long as there are tasks for many threads
        constexpr std::int64_t tasks = 16;
        g.lone_panels = g.task_panels;
        g.task_panels = std::clamp<std::int64_t>(g.blocks.count() * g.joint_panels / tasks, 1, g.task_panels);
        if (g.together && g.staged) g.staged_channels = g.task_panels * g.panel_width;
    }
    const bool any = g.blocks.count() > 0;
    const std::array<std::int64_t, 3> box{g.blocks.box(0), g.blocks.box(1), g.blocks.box(2)};
    const std::int64_t slack = g.positionwise ? 8 * lanes : 0;  // read by lanes without a position
    g.at_staging = slice.reserve<float>(any && may_stage ? staged_floats(g.blocks.images(), box) + slack : 0);
    // Classes of one column would leave all lanes but one empty: rows fill them, where there are enough.
    g.turned = g.positionwise && !g.points && 2 * box[1] >= lanes && (!forward || g.axes[1].stride == 1);
    const std::int64_t turned_lines = g.blocks.images() * reads_at_most(g.axes[0], outputs, box[0]) *
                                      std::min(g.axes[2].kernel, reads_at_most(g.axes[2], outputs, 1)) * g.terms;
    const std::int64_t turned_pitch = row_pitch(reads_at_most(g.axes[1], outputs, box[1]));
    g.at_turned = slice.reserve<float>(any && g.turned ? turned_lines * turned_pitch + slack : 0);
    const std::int64_t results = g.out_staged ? g.blocks.images() * box[0] * box[1] * box[2] * g.panel_width : 0;
    g.at_results = slice.reserve<float>(any ? results : 0);
    std::int64_t stretches = g.channel_blocks();
    for (const shape::axis& a : g.axes) stretches *= std::min(a.kernel, forward ? a.large : a.small);
    g.at_list = slice.reserve<stretch>(stretches);
    g.at_parts = slice.reserve<std::ptrdiff_t>(stretches);
    // One lane: at least as many panels as fit beside the rest into the workspace that callers need not give.
    const std::int64_t room = slice.bytes() < stack_slice ? stack_slice - slice.bytes() : stack_slice / 2;
    const std::int64_t fit = room / (g.panel_floats * static_cast<std::int64_t>(sizeof(float)));
    g.lone_panels = g.staged ? g.task_panels : std::clamp(fit, g.task_panels, g.lone_panels);
    g.at_panel = slice.reserve<float>(g.weights_in_place ? 0 : g.lone_panels * g.panel_rows * g.panel_floats);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
    return g;
}

/// Element i of an f32, f16 or bf16 array as f32.
[[nodiscard]] inline float load_as_float(const void* p, data_type type, std::int64_t i) noexcept {
    switch (type) {
        case data_type::f16: return load_element(static_cast<const float16*>(p) + i);
        case data_type::bf16: return load_element(static_cast<const bfloat16*>(p) + i);
        default: return load_element(static_cast<const float*>(p) + i);
    }
}

/// The weights of one panel, or of neighbouring lanes of it with room for `width`, as [block of 64 k][tap][k][lane], taps
/// in the order in which they are read.
template <class T>
inline void pack_weight_panel(const gather_plan& g, const T* w, std::int64_t group, std::int64_t first_lane,
                              std::int64_t lanes_used, std::int64_t width, float* panel) noexcept {
    // Lanes far apart are a page each, often in few sets of the cache: not too many at a time.
    if (g.w_out != 1 && !g.channelwise && lanes_used > narrow_lanes) {
        pack_weight_panel(g, w, group, first_lane, narrow_lanes, narrow_lanes, panel);
        pack_weight_panel(g, w, group, first_lane + narrow_lanes, lanes_used - narrow_lanes, width - narrow_lanes,
                          panel + narrow_lanes);
        return;
    }
    const std::int64_t kd = g.axes[0].kernel;
    const std::int64_t kh = g.axes[1].kernel;
    const std::int64_t kw = g.axes[2].kernel;
    const std::int64_t taps = g.taps();
    w += g.w_first;
    // One run of lanes with a uniform step, or one run per group where lanes cross groups of several outputs.
    // `both`: pairs have a second number.
    const auto pack = [&](std::int64_t offset, std::int64_t source_step, std::int64_t count, float* out,
                          std::int64_t out_step, bool both = true) {
        if constexpr (has_pairs<T>) {
            if (g.pairs) {
                pack_pairs<T>({w + group * g.w_group + first_lane * g.w_out + offset, g.w_reduce, both}, g.w_out,
                              lanes_used, source_step, count, out, out_step);
                clear_lanes(lanes_used, width, count, out, out_step);
                return;
            }
        }
        if (!g.channelwise || g.out_channels == 1) {
            const std::int64_t step = g.channelwise ? g.w_group : g.w_out;
            pack_lanes(w + group * g.w_group + first_lane * step + offset, step, lanes_used, source_step, count, out,
                       out_step);
        } else {
            for (std::int64_t j = 0; j < lanes_used;) {
                const std::int64_t of = (first_lane + j) / g.out_channels;
                const std::int64_t c = (first_lane + j) % g.out_channels;
                const std::int64_t run = std::min(lanes_used - j, g.out_channels - c);
                pack_lanes(w + of * g.w_group + c * g.w_out + offset, g.w_out, run, source_step, count, out + j,
                           out_step);
                j += run;
            }
        }
        clear_lanes(lanes_used, width, count, out, out_step);
    };
    // Walk the filter along whichever axis is contiguous, so that pages and lines are read once.
    const bool taps_contiguous = g.w_tap[2] == 1 && (kh == 1 || g.w_tap[1] == kw) && (kd == 1 || g.w_tap[0] == kw * kh);
    const std::int64_t term_step = g.pairs ? 2 * g.w_reduce : g.w_reduce;
    const std::int64_t pairs = g.pairs ? g.in_channels / 2 : g.terms;  // terms without a last one of one number
    for (std::int64_t k0 = 0; k0 < g.terms; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, g.terms - k0);
        float* block = panel + k0 / channel_block * taps * g.tap_pitch;
        if (taps_contiguous && taps > 1) {
            const std::int64_t step = g.outputs == shape::side::small ? g.tap_pitch : -g.tap_pitch;
            for (std::int64_t k = 0; k < kl; ++k)
                pack((k0 + k) * term_step, 1, taps, block + g.tap_place(0) * g.tap_pitch + k * g.panel_width, step,
                     k0 + k < pairs);
            continue;
        }
        std::int64_t tap = 0;
        for (std::int64_t d = 0; d < kd; ++d)
            for (std::int64_t h = 0; h < kh; ++h)
                for (std::int64_t x = 0; x < kw; ++x, ++tap) {
                    const std::int64_t from = k0 * term_step + d * g.w_tap[0] + h * g.w_tap[1] + x * g.w_tap[2];
                    const std::int64_t whole = std::min(kl, pairs - k0);
                    float* const out = block + g.tap_place(tap) * g.tap_pitch;
                    pack(from, term_step, whole, out, g.panel_width);
                    if (whole < kl)
                        pack(from + whole * term_step, term_step, 1, out + whole * g.panel_width, g.panel_width, false);
                }
    }
}

/// The reduction of one class: stretches in the fixed order, and how many of them make up each part.
struct reduction_list {
    stretch* list = nullptr;
    std::ptrdiff_t* parts = nullptr;  // stretches in each part
    std::ptrdiff_t part_count = 0;
    std::ptrdiff_t a_step = 1;  // from term to term of a stretch
    std::ptrdiff_t b_step = 0;
};

/// Lists the terms of a class that reads a source with strides `in` and `channel_step`. Terms that continue the stretch
/// before them join it, which changes neither their order nor the parts.
inline void fill_reduction(const gather_plan& g, const std::array<shape::tap_class, 3>& c,
                           const shape::canonical_strides& in, std::int64_t channel_step, reduction_list& r) noexcept {
    r.a_step = channel_step;
    r.b_step = g.panel_width;
    if (g.terms == 1 || g.shared) {  // one step a tap: let the taps of a row make up a stretch
        r.a_step = c[2].read_per_tap * in[4];
        r.b_step = (c[2].tap_step < 0 ? -c[2].tap_step : c[2].tap_step) * g.tap_pitch;
    }
    stretch* end = r.list;
    r.part_count = 0;
    std::int64_t terms = part_terms;  // of the open part; full: the first stretch opens one
    for (std::int64_t k0 = 0; k0 < g.terms; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, g.terms - k0);
        const std::int64_t block = k0 / channel_block * g.taps() * g.tap_pitch;
        for (std::int64_t d = 0; d < c[0].taps; ++d) {
            for (std::int64_t h = 0; h < c[1].taps; ++h) {
                for (std::int64_t x = 0; x < c[2].taps; ++x) {
                    const std::int64_t tap =
                        ((c[0].first_tap + d * c[0].tap_step) * g.axes[1].kernel + c[1].first_tap + h * c[1].tap_step) *
                            g.axes[2].kernel +
                        c[2].first_tap + x * c[2].tap_step;
                    const std::int64_t steps = g.shared ? 1 : kl;
                    const stretch s{k0 * channel_step + d * c[0].read_per_tap * in[2] + h * c[1].read_per_tap * in[3] +
                                        x * c[2].read_per_tap * in[4],
                                    block + g.tap_place(tap) * g.tap_pitch, steps};
                    if (terms + kl > part_terms) {
                        terms = 0;
                        r.parts[r.part_count++] = 0;
                    }
                    terms += kl;
                    if (r.parts[r.part_count - 1] > 0) {
                        stretch& last = end[-1];
                        if (last.a + last.length * r.a_step == s.a && last.b + last.length * r.b_step == s.b) {
                            last.length += steps;
                            continue;
                        }
                    }
                    *end++ = s;
                    ++r.parts[r.part_count - 1];
                }
            }
        }
    }
    if (r.part_count == 0) r.parts[r.part_count++] = 0;  // no tap inside: one empty part, which writes zeros
}

/// Lets the list read the packed weights as `a` and the source as `b`.
inline void swap_operands(reduction_list& r) noexcept {
    std::swap(r.a_step, r.b_step);
    stretch* s = r.list;
    for (std::ptrdiff_t part = 0; part < r.part_count; ++part)
        for (const stretch* const end = s + r.parts[part]; s != end; ++s) std::swap(s->a, s->b);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
