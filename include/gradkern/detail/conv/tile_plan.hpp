// The plan of paths whose tiles have output channels in the lanes and pixels as rows (conv/tile_loop.hpp): dense, dense_packed,
// grouped, depthwise and depthwise_sliding. They differ in what the lanes meet and in where activations are read.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Which panels of weights go over the activations in one task.
enum class panel_fusion : std::uint8_t {
    none,            ///< one panel a task
    groups,          ///< those of several groups, which read and write parts of the same lines
    non_overlapping  ///< those of one group whose windows share no pixel: activations are read from memory once
};

struct tile_plan : panel_plan {
    panel_fusion fusion = panel_fusion::none;
    /// Whether all columns are one class: tiles of neighbours read each number once for all column taps.
    bool slides = false;
    /// Whether results wait for those of the whole block: pixels of a class lie apart in lines of the output, and whole lines leave
    /// together.
    bool buffers_box = false;
    prefetch prefetching = prefetch::ahead;  // none: activations are likely to be in the last cache
    /// Lanes that the last panel shares with the one before, so that its vectors are whole: both compute the same.
    std::int64_t overlap = 0;

    [[nodiscard]] constexpr bool in_16bit() const noexcept { return panels.numbers == tile_numbers::native_16bit; }
    [[nodiscard]] constexpr std::int64_t lane_channels() const noexcept { return panels.lane_channels(*this); }
    [[nodiscard]] constexpr std::int64_t last_lanes() const noexcept {
        return lane_channels() - (group_panels - 1) * panels.width + overlap;
    }
    /// Whether tiles of a panel touch the lanes it uses alone. Panels whose lanes share numbers are packed for the whole width.
    [[nodiscard]] constexpr bool is_whole(std::int64_t used) const noexcept {
        const bool any_width = panels.inputs != lane_inputs::broadcast_in_group && !in_16bit();
        return used == panels.width || (any_width && fills_tile(used, real.lanes));
    }
    /// Whether activations of a panel are packed: whole vectors of a last one across groups would leave the tensor.
    [[nodiscard]] constexpr bool packs(std::int64_t used) const noexcept {
        return !in_place() || (panels.across_groups() && !is_whole(used));
    }
    /// Floats of a packed pixel.
    [[nodiscard]] constexpr std::int64_t packed_channels() const noexcept {
        if (fusion == panel_fusion::groups && !in_place()) return tasks.each * panels.width;
        switch (panels.inputs) {
            case lane_inputs::broadcast: return panels.terms;
            case lane_inputs::broadcast_in_group: return panels.width / panels.term_channels();
            default: return in_channels * panels.width;
        }
    }
};

/// What a path decides; the rest follows.
struct tile_choice {
    lane_inputs inputs = lane_inputs::broadcast;
    tile_numbers numbers = tile_numbers::f32;
    source_kind source = source_kind::packed;
    bool slides = false;
};

/// Whether windows that slide are so wide that they are packed even where channels are neighbours, one panel a task: in the tensor
/// their lines lie on more pages than a CPU has at hand.
[[nodiscard]] constexpr bool packs_windows(const conv_problem& p) noexcept {
    return p.taps() > p.axes[2].kernel && p.taps() >= target.cost.packed_window;
}

/// Floats of a buffer of packed activations where scratch is the least, but for single pixels that read more.
inline constexpr std::int64_t least_packed_floats = 1024;

/// Whether a last panel may share lanes with the one before: tiles read and write the tensors themselves, and add nothing to them.
[[nodiscard]] constexpr bool may_overlap(const conv_problem& p, const tile_choice& c) noexcept {
    return c.inputs == lane_inputs::own && c.source == source_kind::in_place && c.numbers != tile_numbers::bf16_pairs &&
           p.in[1] == 1 && p.out[1] == 1 && !p.accumulates();
}

[[nodiscard]] GRADKERN_COLD constexpr std::int64_t panel_width(const conv_problem& p, const tile_choice& c) noexcept {
    const bool pairs = c.numbers == tile_numbers::bf16_pairs;
    if (p.takes_least_scratch()) return p.real.lanes;
    if (c.inputs == lane_inputs::broadcast) {
        // The packed weights of a panel stay in L2, more of them where their lanes are neighbours in the tensor.
        const std::int64_t most = p.weights.out == 1 ? target.cache.packed_panel : target.cache.packed_panel_apart;
        const std::int64_t lane_floats = shape::ceil_div(p.in_channels, std::int64_t{pairs ? 2 : 1}) * p.taps();
        return panel_lanes(p.out_channels, lane_floats > most / (p.real.bytes * p.real.tile_lanes()), p.real.lanes);
    }
    if (c.numbers == tile_numbers::native_16bit) return native_16bit_lanes;
    if (pairs) return 2 * vector_lanes;  // of outputs, for each vector of pairs
    const std::int64_t channels = p.total_out_channels();
    const bool is_single = channels <= p.real.lanes || (channels < p.real.narrow_lanes() && may_overlap(p, c));
    return is_single ? p.real.lanes : p.real.narrow_lanes();
}

[[nodiscard]] GRADKERN_COLD constexpr panel_fusion choose_fusion(const conv_problem& p, const tile_choice& c) noexcept {
    if (p.takes_least_scratch() || p.in[1] != 1 || p.out[1] != 1) return panel_fusion::none;
    if (c.slides && c.source == source_kind::packed && packs_windows(p)) return panel_fusion::none;
    if (p.groups > 1) {
        // In place, or, where lanes are the channels, packed side by side.
        const bool lanes_are_channels =
            c.inputs == lane_inputs::broadcast_in_group || (c.inputs == lane_inputs::own && p.is_depthwise());
        const bool side_by_side =
            c.source == source_kind::in_place || (lanes_are_channels && c.numbers != tile_numbers::bf16_pairs);
        return side_by_side ? panel_fusion::groups : panel_fusion::none;
    }
    bool overlap = c.inputs != lane_inputs::broadcast;
    for (const shape::axis& a : p.axes) overlap |= a.kernel > 1 && (a.dilation > 1 || a.kernel > a.stride);
    return overlap ? panel_fusion::none : panel_fusion::non_overlapping;
}

/// Bytes of activations from which on their lines are prefetched: fewer where short depthwise windows wait for the last cache.
[[nodiscard]] constexpr std::int64_t prefetched_from(const conv_problem& p) noexcept {
    const bool waits = target.quirk.waits_for_last_level && p.is_depthwise() && p.taps() <= target.quirk.short_window;
    return waits ? target.cache.tensor_in_l2 : target.cache.last_level;
}

/// Limits of the blocks. Fused panels go over few pixels at a time, so that those are still in the cache for the next panel.
[[nodiscard]] GRADKERN_COLD constexpr block_budget tile_budget(const tile_plan& t, bool least) noexcept {
    // Panels that are not kept are packed again for each block. From 2 MB of weights on, half as many blocks gain more than a buffer in L2.
    const bool many_weights = t.in_channels * t.taps() >= shape::ceil_div(t.real.in_memory_of(4 * most_packed_floats),
                                                                          std::max<std::int64_t>(t.out_channels, 1));
    const std::int64_t most = t.real.in_memory_of(least          ? least_packed_floats
                                                  : many_weights ? 2 * most_packed_floats
                                                                 : most_packed_floats);
    const std::int64_t pixels = t.fusion == panel_fusion::groups            ? target.cache.fused_group_pixels
                                : t.fusion == panel_fusion::non_overlapping ? target.cache.fused_panel_pixels
                                                                            : block_pixels;
    return {.pixels = pixels, .floats = most, .pixel_floats = t.packs(t.last_lanes()) ? t.packed_channels() : 0};
}

/// The largest blocks within the limits of the plan. Where windows reach so far that blocks pack most activations again and again, the
/// buffer is larger than its limit.
[[nodiscard]] GRADKERN_COLD constexpr box_grid choose_tile_blocks(const tile_plan& t, bool least) noexcept {
    constexpr double most_packings = 2;
    constexpr std::int64_t most_floats = std::int64_t{1} << 23;
    double floats = static_cast<double>(t.batch * t.budget.pixel_floats);  // of all activations
    for (const shape::axis& a : t.axes) floats *= static_cast<double>(read_extent(a, t.outputs));
    for (block_budget b = t.budget;; b.floats *= 2) {
        const box_grid blocks = choose_blocks(t, b);
        const double packed = static_cast<double>(blocks.count()) * static_cast<double>(packed_floats(t, blocks));
        if (least || packed <= most_packings * floats || b.floats >= most_floats) return blocks;
    }
}

[[nodiscard]] GRADKERN_COLD constexpr tile_plan make_tile_plan(const conv_problem& p, const tile_choice& c) noexcept {
    const bool least = p.takes_least_scratch();
    tile_plan t{{p}};
    t.panels = make_weight_panels(p, c.inputs, c.numbers, panel_width(p, c));
    t.source = c.source;
    t.slides = c.slides;
    t.may_share = p.scratch == scratch_use::fast && !p.is_depthwise();
    t.fusion = choose_fusion(p, c);
    t.buffers_box = !least && !p.is_forward() && p.axes[2].stride > 1 && p.out[1] != 1;
    t.prefetching = p.is_cached(prefetched_from(p)) ? prefetch::none : prefetch::ahead;
    t.panel_channels = t.panels.width;
    t.group_panels = shape::ceil_div(t.lane_channels(), t.panels.width);
    if (t.group_panels > 1 && may_overlap(p, c)) {
        const std::int64_t whole = t.in_16bit() ? t.panels.width : t.real.lanes;
        t.overlap = shape::ceil_div(t.last_lanes(), whole) * whole - t.last_lanes();
    }
    // Blocks, and how many panels a task has then.
    t.tasks.joined = t.overlap > 0 ? 1 : 0;
    t.tasks.panels = t.tasks.fused = t.group_panels * (t.panels.across_groups() ? 1 : t.groups);
    if (t.fusion != panel_fusion::none) {
        if (t.in_place() && t.packs(t.last_lanes())) --t.tasks.fused;  // a last one is packed on its own
        t.tasks.fuse(t.panels.floats, t.real);
    }
    const std::int64_t most_panels = t.tasks.each;
    t.budget = tile_budget(t, least);
    t.tasks.blocks = choose_tile_blocks(t, least);
    t.tasks.share_out();
    t.budget = tile_budget(t, least);  // fewer panels of a task may pack fewer channels
    // The scratch of a worker.
    t.fixed = slice_layout(least);
    t.terms = t.slides ? reserve_pieces(t.fixed, t, most_sliding_rows) : reserve_terms(t.fixed, t, t.panels.blocks());
    t.result_floats = t.buffers_box ? t.panels.width : 0;
    const std::int64_t rest = lay_out(t, t.tasks).slice_bytes;
    // One worker: at least as many panels as fit beside the rest into the workspace that callers need not give.
    const std::int64_t room = rest < stack_slice ? stack_slice - rest : stack_slice / 2;
    const std::int64_t fit = room / (t.panels.floats * t.real.bytes);
    t.single_worker_panels = t.in_place() ? std::clamp(fit, t.tasks.each, most_panels) : t.tasks.each;
    // Least scratch is counted in vectors of 16 floats.
    const std::int64_t counted = t.real.in_memory_of(least_lanes);
    t.panel_floats = least ? make_weight_panels(t, t.panels.inputs, t.panels.numbers, counted).floats : t.panels.floats;
    return t;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
