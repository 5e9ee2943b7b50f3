// The plan of paths whose tiles have output channels in the lanes and pixels as rows (conv/tile_loop.hpp): dense, dense_packed,
// grouped, depthwise, depthwise_sliding and across_groups. They differ in what the lanes meet and in where activations are read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Which panels of weights go over the activations in one task.
enum class panel_fusion : std::uint8_t {
    none,            ///< one panel a task
    groups,          ///< those of several groups, which read and write parts of the same lines
    non_overlapping  ///< those of one group whose windows share no pixel: activations are read from memory once
};

/// How columns of outputs are walked.
enum class column_walk : std::uint8_t {
    classes,  ///< by classes of columns that have the same inside taps
    sliding   ///< as one class: tiles of neighbours read each number once for all column taps
};

/// Where the results of tiles wait that cannot go straight into the tensor.
enum class result_buffer : std::uint8_t {
    tiles,  ///< those of a few tiles
    box     ///< those of a block: pixels of a class lie apart in lines of the output, and whole lines leave together
};

struct tile_plan : conv_equation {
    weight_panels panels{};
    source_kind source = source_kind::packed;
    column_walk columns = column_walk::classes;
    panel_fusion fusion = panel_fusion::none;
    result_buffer results = result_buffer::tiles;
    prefetch prefetching = prefetch::ahead;  // none: activations are likely to be in the last cache
    std::int64_t group_panels = 0;           // of one group, or of all where lanes run across them
    panel_tasks tasks{};
    std::int64_t single_worker_panels = 1;  // of a task, where one worker has all tasks
    std::int64_t packed_channels = 0;       // floats of a packed pixel
    std::int64_t at_panels = 0;             // byte offsets in a slice
    std::int64_t at_packed = 0;
    std::int64_t at_results = 0;
    term_list_layout terms{};
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr plan_summary summary() const noexcept {
        return {.has_pairs = panels.has_pairs(),
                .in_place = in_place(),
                .panels = group_panels,
                .panel_channels = panels.width,
                .blocks = tasks.blocks.count(),
                .tasks = task_count(false),
                .slice_bytes = slice_bytes};
    }
    /// Panels of a task.
    [[nodiscard]] constexpr std::int64_t task_panels(bool single_worker) const noexcept {
        return single_worker ? single_worker_panels : tasks.each;
    }
    [[nodiscard]] constexpr std::int64_t task_count(bool single_worker) const noexcept {
        return tasks.blocks.count() * tasks.per_block(task_panels(single_worker));
    }
    [[nodiscard]] constexpr bool in_place() const noexcept { return source == source_kind::in_place; }
    [[nodiscard]] constexpr bool in_16bit() const noexcept { return panels.numbers == tile_numbers::native_16bit; }
    [[nodiscard]] constexpr std::int64_t lane_channels() const noexcept { return panels.lane_channels(*this); }
    [[nodiscard]] constexpr std::int64_t last_lanes() const noexcept {
        return lane_channels() - (group_panels - 1) * panels.width;
    }
    /// Whether tiles of pairs round their sums themselves: these are one part, and nothing is added.
    [[nodiscard]] constexpr bool rounds_pairs() const noexcept {
        return panels.has_pairs() && panels.terms * taps() <= part_terms && !accumulates();
    }
    /// Whether tiles of a panel touch the lanes it uses alone. Panels whose lanes share numbers are packed for the whole width.
    [[nodiscard]] constexpr bool is_whole(std::int64_t used) const noexcept {
        const bool any_width = panels.inputs != lane_inputs::broadcast_in_group && !in_16bit();
        return used == panels.width || (any_width && fills_tile(used));
    }
    /// Whether activations of a panel are packed: whole vectors of a last one across groups would leave the tensor.
    [[nodiscard]] constexpr bool packs(std::int64_t used) const noexcept {
        return !in_place() || (panels.across_groups() && !is_whole(used));
    }
    /// Sliding: the columns [first, last) as one class with all taps, some of which read outside.
    [[nodiscard]] constexpr shape::tap_class sliding_columns(std::int64_t first, std::int64_t last) const noexcept {
        const shape::axis& a = axes[2];
        return {.first_position = first,
                .positions = last - first,
                .first_tap = is_forward() ? 0 : a.kernel - 1,
                .tap_step = is_forward() ? 1 : -1,
                .taps = a.kernel,
                .first_read = first + (is_forward() ? -a.pad_begin : a.pad_begin - a.reach()),
                .read_per_position = 1,
                .read_per_tap = 1};
    }
};

/// What a path decides; the rest follows.
struct tile_choice {
    lane_inputs inputs = lane_inputs::broadcast;
    tile_numbers numbers = tile_numbers::f32;
    source_kind source = source_kind::packed;
    column_walk columns = column_walk::classes;
};

/// Floats of a buffer of packed activations where scratch is the least, but for single pixels that read more.
inline constexpr std::int64_t least_packed_floats = 1024;

/// Floats of the packed weights of a panel that stay in L2, where their lanes lie `apart` in the tensor or not.
[[nodiscard]] constexpr std::int64_t most_panel_floats(bool apart) noexcept {
    return (apart ? target.cache.packed_panel_apart : target.cache.packed_panel) /
           static_cast<std::int64_t>(sizeof(float));
}

/// Lanes of the panels of one group.
[[nodiscard]] constexpr std::int64_t dense_width(const conv_problem& p, tile_numbers numbers) noexcept {
    const std::int64_t terms =
        numbers == tile_numbers::bf16_pairs ? shape::ceil_div(p.in_channels, std::int64_t{2}) : p.in_channels;
    return panel_lanes(p.out_channels, terms * p.taps() > most_panel_floats(p.weights.out != 1) / tile_lanes);
}

[[nodiscard]] constexpr std::int64_t panel_width(const conv_problem& p, const tile_choice& c) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    if (p.takes_least_scratch()) return lanes;
    if (c.inputs == lane_inputs::broadcast) return dense_width(p, c.numbers);
    if (c.numbers == tile_numbers::native_16bit) return native_16bit_lanes;
    if (c.numbers == tile_numbers::bf16_pairs) return 2 * lanes;  // of outputs, for each vector of pairs
    return p.total_out_channels() <= lanes ? lanes : narrow_lanes;
}

[[nodiscard]] constexpr panel_fusion choose_fusion(const conv_problem& p, const tile_choice& c) noexcept {
    if (p.takes_least_scratch() || p.in[1] != 1 || p.out[1] != 1) return panel_fusion::none;
    if (p.groups > 1) {
        // In place, or, where lanes are the channels, packed side by side.
        const bool lanes_are_channels =
            c.inputs != lane_inputs::broadcast && (p.is_depthwise() || c.inputs == lane_inputs::broadcast_in_group);
        const bool side_by_side =
            c.source == source_kind::in_place || (lanes_are_channels && c.numbers != tile_numbers::bf16_pairs);
        return side_by_side ? panel_fusion::groups : panel_fusion::none;
    }
    if (c.inputs != lane_inputs::broadcast) return panel_fusion::none;
    const auto apart = [](const shape::axis& a) { return a.kernel == 1 || (a.dilation == 1 && a.kernel <= a.stride); };
    return apart(p.axes[0]) && apart(p.axes[1]) && apart(p.axes[2]) ? panel_fusion::non_overlapping
                                                                    : panel_fusion::none;
}

/// Floats of a packed pixel.
[[nodiscard]] constexpr std::int64_t packed_channels(const tile_plan& t) noexcept {
    if (t.fusion == panel_fusion::groups && !t.in_place()) return t.tasks.each * t.panels.width;
    switch (t.panels.inputs) {
        case lane_inputs::broadcast: return t.panels.terms;
        case lane_inputs::broadcast_in_group: return t.panels.width / (t.panels.has_pairs() ? 2 : 1);
        default: return t.in_channels * t.panels.width;
    }
}

/// Which panels a task has: the most of them, as yet.
constexpr void choose_tile_tasks(tile_plan& t) noexcept {
    t.tasks.panels = t.group_panels * (t.panels.across_groups() ? 1 : t.groups);
    t.tasks.fused = t.tasks.panels;
    if (t.fusion == panel_fusion::none) return;
    if (t.in_place() && t.packs(t.last_lanes())) --t.tasks.fused;  // a last one is packed on its own
    t.tasks.each =
        std::clamp<std::int64_t>(task_weight_floats / t.panels.floats, 1, std::max<std::int64_t>(t.tasks.fused, 1));
}

/// Limits of the blocks. Fused panels go over few pixels at a time, so that those are still in the cache for the next panel.
[[nodiscard]] constexpr block_budget tile_budget(const tile_plan& t, bool least) noexcept {
    // Panels are packed again for each block. From 2 MB of weights on, half as many blocks gain more than a buffer in L2.
    const bool many_weights =
        t.in_channels * t.taps() >= shape::ceil_div(4 * most_packed_floats, std::max<std::int64_t>(t.out_channels, 1));
    const std::int64_t most = least ? least_packed_floats : many_weights ? 2 * most_packed_floats : most_packed_floats;
    const std::int64_t pixels = t.fusion == panel_fusion::groups            ? target.cache.fused_group_pixels
                                : t.fusion == panel_fusion::non_overlapping ? target.cache.fused_panel_pixels
                                                                            : block_pixels;
    return {.pixels = pixels, .floats = most, .pixel_floats = t.packs(t.last_lanes()) ? t.packed_channels : 0};
}

/// Blocks, how many panels a task has then, and the scratch of a worker.
constexpr void plan_tile_slice(tile_plan& t, bool least) noexcept {
    block_budget budget = tile_budget(t, least);
    t.tasks.blocks = choose_blocks(t, budget);
    t.single_worker_panels = t.tasks.each;
    if (t.fusion != panel_fusion::none) {
        t.tasks.share_out();
        t.packed_channels = packed_channels(t);
        budget = tile_budget(t, least);
    }
    const box_grid& blocks = t.tasks.blocks;
    const std::int64_t outputs = blocks.images() * blocks.box(0) * blocks.box(1) * blocks.box(2);
    slice_layout slice(least);
    t.at_packed = slice.reserve<float>(buffer_floats(t, budget, blocks));
    t.at_results = slice.reserve<float>(t.results == result_buffer::box ? outputs * t.panels.width : 0);
    t.terms = reserve_terms(slice, t, t.panels.blocks());
    // One worker: at least as many panels as fit beside the rest into the workspace that callers need not give.
    const std::int64_t room = slice.bytes() < stack_slice ? stack_slice - slice.bytes() : stack_slice / 2;
    const std::int64_t fit = room / (t.panels.floats * static_cast<std::int64_t>(sizeof(float)));
    t.single_worker_panels = t.in_place() ? std::clamp(fit, t.tasks.each, t.single_worker_panels) : t.tasks.each;
    const std::int64_t floats = t.single_worker_panels * t.panels.floats;
    // Least scratch is counted in vectors of 16.
    t.at_panels = slice.reserve<float>(
        least ? make_weight_panels(t, t.panels.inputs, t.panels.numbers, least_lanes).floats : floats);
    t.slice_bytes = t.tasks.count() == 0 ? 0 : slice.bytes();
}

[[nodiscard]] constexpr tile_plan make_tile_plan(const conv_problem& p, const tile_choice& c) noexcept {
    const bool least = p.takes_least_scratch();
    tile_plan t{p};
    if (p.out_channels == 0) return t;
    t.panels = make_weight_panels(p, c.inputs, c.numbers, panel_width(p, c));
    t.source = c.source;
    t.columns = c.columns;
    t.fusion = choose_fusion(p, c);
    t.results =
        !least && !p.is_forward() && p.axes[2].stride > 1 && p.out[1] != 1 ? result_buffer::box : result_buffer::tiles;
    t.prefetching = p.is_cached() ? prefetch::none : prefetch::ahead;
    t.group_panels = shape::ceil_div(t.lane_channels(), t.panels.width);
    choose_tile_tasks(t);
    t.packed_channels = packed_channels(t);
    plan_tile_slice(t, least);
    return t;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
