// What the plans of all paths share: tasks are a block of outputs, and some panels of output channels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Byte offsets in a slice of the arrays that grow with a task.
struct task_scratch {
    std::int64_t at_packed = 0;   // activations
    std::int64_t at_results = 0;  // of a block
    std::int64_t at_weights = 0;
    std::int64_t slice_bytes = 0;
};

/// Blocks x panels, numbered by blocks.
struct panel_tasks {
    box_grid blocks{};
    task_scratch scratch{};
    std::int64_t panels = 0;  // over all groups
    std::int64_t fused = 0;   // those that share tasks: all, or all but the last one
    std::int64_t each = 1;    // panels of a task
    std::int64_t kept = 0;    // 1: a worker keeps the packed weights of all panels for the next blocks
    std::int64_t joined = 0;  // 1: the last panel goes with the one before it, whose lanes it shares

    [[nodiscard]] constexpr std::int64_t per_block() const noexcept {
        return shape::ceil_div(fused - joined, each) + panels - fused;
    }
    [[nodiscard]] constexpr std::int64_t count() const noexcept { return blocks.count() * per_block(); }
    /// The panels [first, last) of a task of a block.
    [[nodiscard]] constexpr std::array<std::int64_t, 2> panels_of(std::int64_t task_of_block) const noexcept {
        const std::int64_t first = task_of_block * each;
        if (first < fused) return {first, first + each + joined < fused ? first + each : fused};
        return {fused, fused + 1};
    }
    /// Gives tasks as many panels of so many floats as stay in L2.
    constexpr void fuse(std::int64_t panel_floats, const real_type& real) noexcept {
        each = std::clamp<std::int64_t>(real.in_memory_of(task_weight_floats) / panel_floats, 1,
                                        std::max<std::int64_t>(fused, 1));
    }
    /// Gives tasks fewer panels where there would be too few tasks for many workers.
    constexpr void share_out() noexcept {
        constexpr std::int64_t tasks = 16;
        each = std::clamp<std::int64_t>(blocks.count() * fused / tasks, 1, each);
    }
};

/// Limits of blocks of outputs, and floats of the arrays for them.
struct block_budget {
    std::int64_t pixels = 0;        // of the outputs, at most
    std::int64_t floats = 0;        // of a buffer for what a block reads, at most
    std::int64_t pixel_floats = 0;  // of it for each pixel; 0: nothing is packed
    bool pads_rows = false;         // whether a row of it is one of row_pitch()
};

/// What the plans of all paths have in common.
struct panel_plan : conv_equation {
    weight_panels panels{};
    source_kind source = source_kind::packed;  // of activations
    std::int64_t panel_channels = 0;           // output channels of a panel
    std::int64_t group_panels = 0;             // of one group, or of all where lanes run across them
    panel_tasks tasks{};
    std::int64_t single_worker_panels = 1;  // of a task, where one worker has all tasks
    block_budget budget{};
    std::int64_t spare_floats = 0;   // behind what a block packs
    std::int64_t result_floats = 0;  // of the buffer for results, for each output of a block
    std::int64_t panel_floats = 0;   // packed weights of a panel
    slice_layout fixed{};            // the arrays before those that grow with a task
    term_list_layout terms{};
    std::int64_t position_pixels = 1;  // pixels of a position of the blocks
    std::int64_t least_block = 64;     // positions that blocks are not cut below
    bool may_keep_weights = false;     // from block to block: not least scratch, nor the few of depthwise layers

    [[nodiscard]] constexpr bool in_place() const noexcept { return source == source_kind::in_place; }
    /// Whether tiles of pairs round their sums themselves: these are one part, and nothing is added.
    [[nodiscard]] constexpr bool rounds_pairs() const noexcept {
        return panels.has_pairs() && panels.terms * taps() <= part_terms && !accumulates();
    }
};

/// Floats of a buffer for what a block of outputs reads.
[[nodiscard]] constexpr std::int64_t buffer_floats(const conv_equation& e, const block_budget& b, std::int64_t images,
                                                   const std::array<std::int64_t, 3>& box) noexcept {
    const std::int64_t columns = reads_at_most(e.axes[2], e.outputs, box[2]);
    return images * b.pixel_floats * reads_at_most(e.axes[0], e.outputs, box[0]) *
           reads_at_most(e.axes[1], e.outputs, box[1]) * (b.pads_rows ? row_pitch(columns) : columns);
}

/// Outputs of the largest block.
[[nodiscard]] constexpr std::int64_t block_outputs(const panel_plan& g, const box_grid& b) noexcept {
    return positions_of(b) * g.position_pixels;
}

/// Floats of the buffer for what the largest block reads. A block of several pixels a position reads those that it writes.
[[nodiscard]] constexpr std::int64_t packed_floats(const panel_plan& g, const box_grid& b) noexcept {
    if (g.position_pixels > 1) return row_pitch(block_outputs(g, b)) * g.budget.pixel_floats;
    return buffer_floats(g, g.budget, b.images(), {b.box(0), b.box(1), b.box(2)});
}

/// The scratch of such tasks.
[[nodiscard]] GRADKERN_COLD constexpr task_scratch lay_out(const panel_plan& g, const panel_tasks& t) noexcept {
    task_scratch s;
    if (t.count() == 0) return s;
    slice_layout slice = g.fixed;
    s.at_packed = slice.reserve(g.spare_floats + packed_floats(g, t.blocks), g.real.bytes);
    s.at_results = slice.reserve(block_outputs(g, t.blocks) * g.result_floats, g.real.bytes);
    // the last array, which grows where weights are kept
    s.at_weights = slice.reserve((t.each + t.joined) * g.panel_floats, g.real.bytes);
    s.slice_bytes = slice.bytes();
    return s;
}

/// How long so many workers take, counted in pixels of a panel: as long as the one that has the most tasks.
[[nodiscard]] GRADKERN_COLD constexpr double makespan(const panel_plan& g, const panel_tasks& t,
                                                      std::int64_t workers) noexcept {
    const auto pixels = static_cast<double>(block_outputs(g, t.blocks));
    const auto panels = static_cast<double>(std::min(t.each, std::max<std::int64_t>(t.fused, 1)));
    const auto terms = static_cast<double>(std::max<std::int64_t>(g.panels.terms * g.taps(), 1));
    // Nothing is packed, or each channel of each pixel that is read.
    const auto channels = static_cast<double>(std::max<std::int64_t>(g.budget.pixel_floats, 1));
    const double packed = target.cost.packed_pixel / static_cast<double>(g.taps()) *
                          static_cast<double>(packed_floats(g, t.blocks)) / channels;
    const double task = panels * (pixels + target.cost.packed_weights) + packed + target.cost.task / terms;
    return static_cast<double>(shape::ceil_div(t.count(), workers)) * task;
}

/// Bytes that the slices of all workers keep to where they can.
inline constexpr std::int64_t most_scratch = std::int64_t{60} << 20;

/// Bytes of packed weights that a worker keeps, at most: reading them from the last-level cache is faster than packing them again.
inline constexpr std::int64_t most_kept_weights = std::int64_t{8} << 20;
/// Tasks of a block, at most, where weights are kept: a worker has a bit for each.
inline constexpr std::int64_t most_kept_tasks = 64;

/// Lays out the scratch of tasks. Workers keep packed weights from block to block if their slices do not exceed `most` bytes then, and
/// need no workspace where they needed none before.
GRADKERN_COLD constexpr void lay_out_kept(const panel_plan& g, panel_tasks& t, std::int64_t most) noexcept {
    t.scratch = lay_out(g, t);
    if (!g.may_keep_weights || t.blocks.count() < 2 || t.per_block() < 2 || t.per_block() > most_kept_tasks) return;
    const std::int64_t weights = t.panels * g.panel_floats * g.real.bytes;
    const std::int64_t bytes = t.scratch.at_weights + shape::ceil_div(weights, cache_line) * cache_line;
    const bool leaves_stack = t.scratch.slice_bytes <= stack_slice && bytes > stack_slice;
    if (weights > most_kept_weights || bytes > most || leaves_stack) return;
    t.kept = 1;
    t.scratch.slice_bytes = bytes;
}

/// The tasks of the plan, or smaller ones for several workers.
[[nodiscard]] GRADKERN_COLD constexpr panel_tasks smaller_tasks(const panel_plan& g, std::int64_t workers) noexcept {
    panel_tasks best = g.tasks;
    best.scratch = lay_out(g, best);
    // Smaller while all slices exceed their limit, and smaller tasks have much smaller ones: windows that reach far read as much for
    // a part of a block.
    while (best.scratch.slice_bytes > most_scratch / std::min<std::int64_t>(workers, best.count())) {
        panel_tasks smaller = best;
        if (best.each > 1) {
            smaller.each = (best.each + 1) / 2;
        } else if (positions_of(best.blocks) > g.least_block) {
            smaller.blocks = best.blocks.smaller(std::max(positions_of(best.blocks) / 2, g.least_block));
        }
        smaller.scratch = lay_out(g, smaller);
        if (smaller.scratch.slice_bytes > best.scratch.slice_bytes / 4 * 3) break;
        best = smaller;
    }
    if (has_many_tasks(best.count(), workers)) return best;
    double least = makespan(g, best, workers);
    const box_grid blocks = best.blocks;
    for (panel_tasks t = best;; t.each = (t.each + 1) / 2) {
        for_smaller_boxes(blocks, t.per_block(), workers, g.least_block, [&](const box_grid& smaller) {
            t.blocks = smaller;
            const double time = makespan(g, t, workers);
            if (time >= least) return;
            least = time;
            best = t;
        });
        if (t.each == 1) break;
    }
    return best;
}

/// The tasks of so many workers, each of which has `room` bytes. Results have the same bits.
[[nodiscard]] GRADKERN_NOINLINE constexpr panel_tasks tasks_for(const panel_plan& g, std::int64_t workers,
                                                                std::int64_t room = INT64_MAX) noexcept {
    workers = counted_workers(workers);
    panel_tasks t = g.tasks;
    if (t.count() == 0) return t;
    t.each = g.single_worker_panels;
    lay_out_kept(g, t, INT64_MAX);
    if (workers == 1) return t;
    const std::int64_t one = t.scratch.slice_bytes;  // any workspace holds it
    t = smaller_tasks(g, workers);
    lay_out_kept(g, t, std::min({one, most_scratch / workers, room}));
    return t;
}

/// The tasks of these workers where not all have memory.
[[nodiscard]] GRADKERN_COLD inline panel_tasks scarce_tasks(const panel_plan& g, std::int64_t workers,
                                                            std::span<std::byte> workspace) noexcept {
    const auto running = [&](const panel_tasks& t) {
        return std::min(slices(workspace, t.scratch.slice_bytes).count(), workers);
    };
    // Tasks for all workers have small slices, so that many of them run; tasks for so many may have larger ones. What is left is for
    // kept weights.
    const panel_tasks small = tasks_for(g, workers, 0);
    const std::int64_t most = std::max<std::int64_t>(running(small), 1);
    panel_tasks t = tasks_for(g, most, static_cast<std::int64_t>(workspace.size()) / most - cache_line);
    if (most > 1 && (running(t) == 0 || makespan(g, small, most) < makespan(g, t, running(t)))) t = small;
    return t;
}

/// The tasks of a run on these workers, or on as many as have memory.
[[nodiscard]] GRADKERN_NOINLINE inline panel_tasks tasks_within(const panel_plan& g, std::int64_t workers,
                                                                std::span<std::byte> workspace) noexcept {
    workers = counted_workers(workers);
    panel_tasks t = tasks_for(g, workers);
    if (slices(workspace, t.scratch.slice_bytes).count() < std::min(workers, t.count()))
        t = scarce_tasks(g, workers, workspace);
    return t;
}

/// What the buffers of a worker hold.
struct worker_buffers {
    std::int64_t weights = -1;  // first panel
    std::uint64_t kept = 0;     // weights of tasks of a block that are kept, a bit each
    std::int64_t source = -1;
};

/// One task.
struct panel_task {
    box_grid::item box;
    std::int64_t first_panel;
    std::int64_t panels;
    std::int64_t group;          // of the first panel, often the only one
    std::int64_t first_channel;  // of the first panel: in its group, or in all where lanes run across them
    std::int64_t channels;       // of all panels, where they are of one group or lanes run across groups
    task_scratch scratch;
    bool new_weights;  // whether they are not yet in the buffers of the worker
    bool new_source;

    GRADKERN_NOINLINE panel_task(const panel_plan& g, const panel_tasks& tasks, std::int64_t task,
                                 worker_buffers& buffers) noexcept {
        const std::int64_t per_block = tasks.per_block();
        const std::int64_t block = task / per_block;
        const std::int64_t of_block = task % per_block;
        const auto [first, last] = tasks.panels_of(of_block);
        box = tasks.blocks[block];
        first_panel = first;
        panels = last - first;
        group = first / g.group_panels;
        first_channel = first % g.group_panels * g.panel_channels;
        channels = std::min(panels * g.panel_channels, g.panels.lane_channels(g) - first_channel);
        scratch = tasks.scratch;
        new_weights = std::exchange(buffers.weights, first) != first;
        if (tasks.kept > 0) {
            scratch.at_weights += first * g.panel_floats * g.real.bytes;
            const std::uint64_t bit = std::uint64_t{1} << of_block;
            new_weights = (buffers.kept & bit) == 0;
            buffers.kept |= bit;
        }
        // Tasks that read the same channels of a group for the same outputs have the same source.
        const std::int64_t source = g.panels.across_groups() ? task : block * g.groups + group;
        new_source = std::exchange(buffers.source, source) != source;
    }
};

/// Outputs of a block at most: packing weights costs about 1 % of their use.
inline constexpr std::int64_t block_pixels = 4096;

/// The largest blocks within the limits.
[[nodiscard]] GRADKERN_COLD constexpr box_grid choose_blocks(const conv_equation& e, const block_budget& b) noexcept {
    return box_grid(e.batch, e.extents(), [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        return images * box[0] * box[1] * box[2] <= b.pixels && buffer_floats(e, b, images, box) <= b.floats;
    });
}

/// Whether tensors have one type of elements, as kernels expect that read and write elements of 16 bits as they are, or pairs of them.
template <class Src, class Weights, class Dst>
inline constexpr bool have_one_type = std::is_same_v<Src, Weights>&& std::is_same_v<Src, Dst>;

/// Tensors of a run, and its tasks.
template <class Src, class Weights, class Dst>
struct conv_call {
    const Src* src;
    const Weights* weights;
    const void* bias;  // null: none
    Dst* dst;
    panel_tasks tasks;
};

/// Calls f(task) for the tasks of a worker.
template <class Next, class F>
inline void for_each_task(const panel_plan& g, const panel_tasks& tasks, const Next& next, const F& f) noexcept {
    worker_buffers buffers;
    for (std::int64_t task = next(); task >= 0; task = next()) f(panel_task(g, tasks, task, buffers));
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
