// Makes the plan of the gather engine (gather.hpp) from a checked problem, step by step: what lies in the lanes, panels of
// weights, where tiles read, tasks, blocks of outputs, scratch. Which path pays off is told in conv/paths.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/paths.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/convolution.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

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
    g.task_panels = std::clamp<std::int64_t>(
        std::min(plane_floats / (box[0] * box[1] * box[2]), g.blocks.count() * g.groups / tasks), 1, g.groups);
    constexpr auto slack = 4 * static_cast<std::int64_t>(simd::lanes);
    slice_layout slice;
    g.at_staging = slice.reserve<float>(plane_margin(g) + staged(box) + plane_margin(g) + slack);
    g.at_inside = slice.reserve<float>(g.axes[2].kernel * plane_inside_pitch(g));
    g.at_results = slice.reserve<float>(box[0] * box[1] * plane_pitch(g, box[2]));
    g.slice_bytes = slice.bytes();
}

/// What make_gather_plan knows of the element types: whether activations are f32, whether tiles can read and write them as 16
/// bits, and whether they may take them by pairs.
struct gather_types {
    bool f32 = false;
    bool halves = false;
    bool pairs = false;
};

/// The problem as the engine sees it.
[[nodiscard]] constexpr gather_plan gather_problem(const shape::convolution_problem& p, shape::side outputs,
                                                   const shape::canonical_strides& in,
                                                   const shape::canonical_strides& out,
                                                   const shape::canonical_strides& weights, bool accumulate) noexcept {
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
    g.accumulate = accumulate;
    if (forward) drop_unread_positions(g);
    if (in[1] != 1) join_unit_axes(g);  // else panels that go together fetch the next line ahead
    return g;
}

/// Whether the last cache holds the activations of both sides.
[[nodiscard]] constexpr bool fits_cache(const shape::convolution_problem& p, bool f32) noexcept {
    double large = static_cast<double>(p.large_channels);
    double small = static_cast<double>(p.small_channels);
    for (const shape::axis& a : p.axes) {
        large *= static_cast<double>(a.large);
        small *= static_cast<double>(a.small);
    }
    const double each = static_cast<double>(p.batch) * static_cast<double>(p.groups);
    return (large + small) * each * (f32 ? 4 : 2) <= static_cast<double>(target.cache.last_level);
}

/// What lies in the lanes: output channels of a group (dense) or across groups (channelwise), or positions.
constexpr void choose_lanes(gather_plan& g, const gather_types& types, algorithm wanted) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const bool automatic = wanted == algorithm::automatic;
    g.channelwise = wanted == algorithm::channelwise || (automatic && across_groups_pays_off(g));
    // Positions can lie in the lanes where neighbours read neighbours. That pays off where output channels would leave
    // many lanes empty, and for many 1x1 kernels.
    const bool narrow = 2 * g.out_channels <= lanes && g.out_channels <= position_rows &&
                        g.in_channels * g.taps() >= 32 && g.extent(2) >= 4 * lanes;
    const bool unit_axes = g.axes[0].is_unit() && g.axes[1].is_unit() && g.axes[2].is_unit();
    g.weights_in_place = unit_axes && types.f32 && g.w_reduce == 1;
    g.segment =
        g.out_channels <= position_rows ? position_vectors(static_cast<int>(g.out_channels)) * lanes : tile_lanes;
    const bool neighbours =
        (g.groups == 1 && (narrow || (unit_axes && points_pay_off(g)))) || (!g.channelwise && lines_pay_off(g));
    const bool columns_adjoin = g.outputs == shape::side::large || g.axes[2].stride == 1;
    g.positionwise = columns_adjoin && (wanted == algorithm::positionwise || (automatic && neighbours));
    g.points = g.positionwise && unit_axes;
    g.weights_in_place = g.weights_in_place && g.points;
    g.shared = g.channelwise && lanes_share(g);
    g.sliding = windows_slide(g) && !g.positionwise;
    g.pairs = types.pairs && (g.channelwise ? fills_octets(g) : g.in_channels > 1);
    g.terms = g.pairs ? shape::ceil_div(g.in_channels, std::int64_t{2}) : g.in_channels;
}

/// Floats from tap to tap in packed panels of so many lanes. A multiple of 4 KB would send the stores of all taps to one cache
/// set. Not where there is one block of channels: taps that follow one another in both memories then join into long stretches.
[[nodiscard]] constexpr std::int64_t pitch_of_taps(const gather_plan& g, std::int64_t width) noexcept {
    const std::int64_t pitch = std::min(g.terms, channel_block) * width;
    return pitch % 1024 == 0 && g.channel_blocks() > 1 ? pitch + 32 : pitch;
}

/// Panels of weights: how wide they are, how many there are, and how one lies in memory.
constexpr void choose_panels(gather_plan& g, const gather_types& types, algorithm wanted) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const bool forward = g.outputs == shape::side::small;
    const std::int64_t width = g.lane_channels();
    g.out_staged = !g.least && !forward && !g.positionwise && g.axes[2].stride > 1 && g.out[1] != 1;
    // Packed weights of a panel stay in L2.
    const bool narrow_panels = g.terms * g.taps() > most_packed(g.w_out != 1) / tile_lanes;
    g.halves = types.halves && g.channelwise && g.is_depthwise() && g.in[1] == 1 && g.out[1] == 1 &&
               g.taps() <= part_terms && wanted != algorithm::dense_staged;
    g.panel_width = g.least          ? lanes
                    : g.positionwise ? 1
                    : !g.channelwise ? panel_lanes(width, narrow_panels)
                    : g.halves       ? half_lanes
                    : g.pairs        ? octet_lanes
                    : width <= lanes ? lanes
                                     : narrow_lanes;
    if (g.positionwise) g.panel_rows = g.out_channels <= position_rows ? position_rows : tile_rows;
    g.panels = shape::ceil_div(width, g.panel_rows * g.panel_width);
    g.tap_pitch = pitch_of_taps(g, g.panel_width);
    g.panel_floats = g.panel_width + g.channel_blocks() * g.taps() * g.tap_pitch;  // room for the bias first
}

/// Where tiles read activations: in place, or staged.
constexpr void choose_source(gather_plan& g, const gather_types& types, algorithm wanted) noexcept {
    // Channels far apart are a page each: read in place only where they are read a few times.
    const bool reachable = g.in[1] == 1 || g.in_channels == 1 || g.taps() * g.panels <= 4 || wanted == algorithm::dense;
    // Pairs of neighbours, as many as there are channels, and whole numbers of them from one position to the next.
    const bool paired =
        g.pairs && g.in[1] == 1 && g.in_channels % 2 == 0 && (g.in[0] | g.in[2] | g.in[3] | g.in[4]) % 2 == 0;
    const bool own_lanes = g.in[1] == 1 && (g.is_depthwise() || g.shared);  // each finds its channels in place
    const bool in_place = paired || g.halves || (types.f32 && (g.channelwise ? own_lanes : reachable));
    g.staged = !in_place || g.positionwise || wanted == algorithm::dense_staged;
    g.points_in_place = g.points && types.f32 && points_stay(g);
}

/// Which panels go over the activations together, in one task. `task_panels` is the most of them yet.
constexpr void choose_task_panels(gather_plan& g, algorithm wanted) noexcept {
    constexpr std::int64_t task_floats = 64 * 1024;  // packed weights of a task stay in L2
    // Panels of several groups that read and write parts of the same lines go over the tensor together: in place, or, where
    // their lanes are the channels, staged together.
    const bool plain_lanes = g.channelwise && (g.is_depthwise() || g.shared);
    g.together = !g.least && g.groups > 1 && g.in[1] == 1 && g.out[1] == 1 && !g.positionwise &&
                 (!g.staged || (plain_lanes && !g.pairs && wanted == algorithm::automatic));
    // Where no two windows share a position, panels that go together, over positions they write side by side, read
    // activations from memory once.
    const auto apart = [](const shape::axis& a) { return a.kernel == 1 || (a.dilation == 1 && a.kernel <= a.stride); };
    const bool apart_windows = g.taps() == 1 || (apart(g.axes[0]) && apart(g.axes[1]) && apart(g.axes[2]));
    g.same_lines = !g.least && g.groups == 1 && apart_windows && !g.channelwise && !g.positionwise && g.in[1] == 1 &&
                   g.out[1] == 1;
    g.joint_panels = g.all_panels();
    if (g.has_joint_panels()) {
        if (g.channelwise && !g.staged && !g.last_is_whole()) --g.joint_panels;
        g.task_panels = std::clamp<std::int64_t>(task_floats / (g.panel_rows * g.panel_floats), 1,
                                                 std::max<std::int64_t>(g.joint_panels, 1));
    }
    g.staged_channels = g.together && g.staged ? g.task_panels * g.panel_width
                        : g.shared             ? g.panel_width / (g.pairs ? 2 : 1)
                        : g.channelwise        ? g.in_channels * g.panel_width
                                               : g.terms;
}

/// Floats of the staging area of a block of outputs.
[[nodiscard]] constexpr std::int64_t staged_floats(const gather_plan& g, std::int64_t images,
                                                   const std::array<std::int64_t, 3>& box) noexcept {
    if (g.points) return row_pitch(box[2] * g.segment) * g.terms;
    std::int64_t floats = images * g.staged_channels;
    for (std::size_t i = 0; i < 3; ++i) {
        const std::int64_t reads = reads_at_most(g.axes[i], g.outputs, box[i]);
        floats *= g.positionwise && i == 2 ? row_pitch(reads) : reads;
    }
    return floats;
}

/// Blocks of outputs whose inputs fit the staging area, and how many panels a task has then.
constexpr void choose_blocks(gather_plan& g) noexcept {
    // Panels are packed again for each block. From 2 MB of weights on, half as many blocks gain more than an area in L2.
    const bool many_weights =
        g.in_channels * g.taps() >= shape::ceil_div(4 * most_staged, std::max<std::int64_t>(g.out_channels, 1));
    const std::int64_t staging = g.least                           ? least_staged
                                 : many_weights && !g.positionwise ? 2 * most_staged
                                                                   : most_staged;
    // packing the panels costs about 1 % of their use
    const std::int64_t block_positions = g.together ? 512 : g.same_lines ? 1024 : g.out_staged ? 2048 : 4096;
    std::array<std::int64_t, 3> extents = g.extents();
    // Points: lines whose columns are segments, one for each image, or one, or none, for all.
    if (g.points) extents = {1, 1, shape::ceil_div(g.line_points(), g.segment)};
    const bool one_line = g.points && !g.points_in_place;
    g.blocks = box_grid(one_line ? std::min<std::int64_t>(g.batch, 1) : g.batch, extents,
                        [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
                            return (images == 1 || !g.points) &&
                                   images * box[0] * box[1] * box[2] * (g.points ? g.segment : 1) <= block_positions &&
                                   (!g.may_stage() || staged_floats(g, images, box) <= staging);
                        });
    if (!g.has_joint_panels()) return;
    constexpr std::int64_t tasks = 16;  // for many threads
    g.lone_panels = g.task_panels;
    g.task_panels = std::clamp<std::int64_t>(g.blocks.count() * g.joint_panels / tasks, 1, g.task_panels);
    if (g.together && g.staged) g.staged_channels = g.task_panels * g.panel_width;
}

/// The scratch of a lane.
constexpr void plan_slice(gather_plan& g) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const bool forward = g.outputs == shape::side::small;
    const bool any = g.blocks.count() > 0;
    const std::array<std::int64_t, 3> box{g.blocks.box(0), g.blocks.box(1), g.blocks.box(2)};
    const std::int64_t slack = g.positionwise ? 8 * lanes : 0;  // read by lanes without a position
    slice_layout slice(g.least);
    const std::array<std::int64_t, 3> staged_box{box[0], box[1], g.points_in_place ? 1 : box[2]};
    g.at_staging =
        slice.reserve<float>(any && g.may_stage() ? staged_floats(g, g.blocks.images(), staged_box) + slack : 0);
    // Classes of one column would leave all lanes but one empty: rows fill them, where there are enough.
    g.turned = g.positionwise && !g.points && 2 * box[1] >= lanes && (!forward || g.axes[1].stride == 1);
    const std::int64_t turned_lines = g.blocks.images() * reads_at_most(g.axes[0], g.outputs, box[0]) *
                                      std::min(g.axes[2].kernel, reads_at_most(g.axes[2], g.outputs, 1)) * g.terms;
    const std::int64_t turned_pitch = row_pitch(reads_at_most(g.axes[1], g.outputs, box[1]));
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
    const std::int64_t panels = g.lone_panels * g.panel_rows * g.panel_floats;
    const std::int64_t least = least_lanes + g.channel_blocks() * g.taps() * pitch_of_taps(g, least_lanes);
    g.at_panel = slice.reserve<float>(g.least ? least : g.weights_in_place ? 0 : panels);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
}

/// Chooses path, panels, blocks and scratch.
[[nodiscard]] constexpr gather_plan make_gather_plan(const shape::convolution_problem& p, shape::side outputs,
                                                     const shape::canonical_strides& in,
                                                     const shape::canonical_strides& out,
                                                     const shape::canonical_strides& weights, const gather_types& types,
                                                     const plan_options& options) noexcept {
    gather_plan g = gather_problem(p, outputs, in, out, weights, options.output == output_mode::accumulate);
    g.fills = g.in_channels == 0;
    if (g.fills || g.out_channels == 0) return g;
    // Bits of relaxed results depend on the path: that stays.
    g.least = options.scratch == scratch_use::least && !types.pairs;
    const algorithm wanted = g.least ? algorithm::dense : options.algorithm;
    if (has_planes(g) && (wanted == algorithm::positionwise || (wanted == algorithm::automatic && planes_pay_off(g)))) {
        plan_planes(g);
        return g;
    }
    g.cached = fits_cache(p, types.f32);
    choose_lanes(g, types, wanted);
    choose_panels(g, types, wanted);
    choose_source(g, types, wanted);
    choose_task_panels(g, wanted);
    choose_blocks(g);
    plan_slice(g);
    return g;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
