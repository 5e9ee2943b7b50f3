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
#include <gradkern/detail/pack/tensor_pointer.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Byte offsets of the arrays that grow with a task: in its slice, or in what workers share.
struct task_scratch {
    std::int64_t at_packed = 0;   // activations
    std::int64_t at_results = 0;  // of a block
    std::int64_t at_weights = 0;
    std::int64_t slice_bytes = 0;
    std::int64_t shared_bytes = 0;
    std::int64_t packed_bytes = 0;  // of the activations of a block
};

/// Blocks x panels, numbered by blocks.
struct panel_tasks {
    box_grid blocks{};
    task_scratch scratch{};
    std::int64_t panels = 0;  // over all groups
    std::int64_t fused = 0;   // those that share tasks: all, or all but the last one
    std::int64_t each = 1;    // panels of a task
    std::int64_t joined = 0;  // 1: the last panel goes with the one before it, whose lanes it shares
    // What is packed once, in memory beside the slices; else tasks pack what their worker has not packed just before.
    bool shares_weights = false;
    bool shares_pixels = false;

    [[nodiscard]] constexpr std::int64_t per_block() const noexcept {
        return shape::ceil_div(fused - joined, each) + panels - fused;
    }
    [[nodiscard]] constexpr std::int64_t count() const noexcept { return blocks.count() * per_block(); }
    [[nodiscard]] constexpr bool shares() const noexcept { return shares_weights || shares_pixels; }
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
    bool may_share = false;  // what is packed, among tasks: not least scratch, nor the few weights of depthwise layers

    [[nodiscard]] constexpr bool in_place() const noexcept { return source == source_kind::in_place; }
    /// Whether panels of a block write to the same lines of the cache: in NXC.
    [[nodiscard]] constexpr bool shares_lines() const noexcept { return out[1] == 1; }
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
[[nodiscard]] GRADKERN_COLD constexpr std::int64_t packed_floats(const panel_plan& g, const box_grid& b) noexcept {
    if (g.position_pixels > 1) return row_pitch(block_outputs(g, b)) * g.budget.pixel_floats;
    return buffer_floats(g, g.budget, b.images(), {b.box(0), b.box(1), b.box(2)});
}

/// The scratch of such tasks.
[[nodiscard]] GRADKERN_COLD constexpr task_scratch lay_out(const panel_plan& g, const panel_tasks& t) noexcept {
    task_scratch s;
    if (t.count() == 0) return s;
    slice_layout slice = g.fixed;
    slice_layout shared;
    const std::int64_t pixels = g.spare_floats + packed_floats(g, t.blocks);
    if (t.shares_pixels) {
        s.at_packed = shared.reserve(pixels, g.real.bytes);
        s.packed_bytes = shared.bytes();
        shared.reserve(s.packed_bytes * (t.blocks.count() - 1), 1);
    } else {
        s.at_packed = slice.reserve(pixels, g.real.bytes);
    }
    s.at_results = slice.reserve(block_outputs(g, t.blocks) * g.result_floats, g.real.bytes);
    if (t.shares_weights) {
        s.at_weights = shared.reserve(t.panels * g.panel_floats, g.real.bytes);
    } else {
        s.at_weights = slice.reserve((t.each + t.joined) * g.panel_floats, g.real.bytes);
    }
    if (t.shares() && slice.bytes() == 0) slice.reserve(1, 1);  // offsets of what is shared count from a slice
    s.slice_bytes = slice.bytes();
    s.shared_bytes = shared.bytes();
    return s;
}

/// How long so many workers take, counted in pixels of a panel: as long as the one that has the most tasks.
[[nodiscard]] GRADKERN_COLD constexpr double makespan(const panel_plan& g, const panel_tasks& t,
                                                      std::int64_t workers) noexcept {
    const auto pixels = static_cast<double>(block_outputs(g, t.blocks));
    // Of a task: the largest one, or the mean where workers have whole blocks, whose last panel is narrower.
    auto panels = static_cast<double>(std::min(t.each, std::max<std::int64_t>(t.fused, 1)));
    const bool whole = t.blocks.count() >= workers;
    if (whole && g.group_panels > 0)
        panels = static_cast<double>(g.panels.lane_channels(g)) / static_cast<double>(g.panel_channels) *
                 static_cast<double>(t.panels) / static_cast<double>(g.group_panels) /
                 static_cast<double>(t.per_block());
    const auto terms = static_cast<double>(std::max<std::int64_t>(g.panels.terms * g.taps(), 1));
    const auto most_of = [&](std::int64_t tasks) { return static_cast<double>(shape::ceil_div(tasks, workers)); };
    double packed = target.cost.packed_number * static_cast<double>(packed_floats(g, t.blocks)) /
                    (terms * static_cast<double>(std::max<std::int64_t>(g.panel_channels, 1)));
    double weights = target.cost.packed_weights * panels;
    // Workers on panels of one block write to the same lines at a time, others one after the other.
    const bool contends = g.shares_lines() && t.per_block() > 1;
    const double lines = contends ? target.cost.contended_line / (whole ? 4 : 1) : 0;
    double shared = t.shares() ? target.cost.fork / terms : 0;
    if (t.shares_weights) {
        shared += most_of(t.per_block()) * weights;
        weights *= target.cost.read_shared;
    }
    if (t.shares_pixels) {
        shared += most_of(t.blocks.count()) * packed;
        packed *= target.cost.read_shared;
    }
    return shared +
           most_of(t.count()) * (panels * pixels + weights + packed + (target.cost.task + lines * pixels) / terms);
}

/// Bytes that the slices of all workers, and what they share, keep to where they can.
inline constexpr std::int64_t most_scratch = std::int64_t{60} << 20;
/// Bytes of packed weights that one worker keeps for the next blocks, at most: reading them from the last-level cache is faster than packing
/// them again.
inline constexpr std::int64_t most_kept_weights = std::int64_t{8} << 20;

/// Bytes of the slices of so many workers, and of what they share: INT64_MAX, if they are more.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::int64_t scratch_bytes(const panel_tasks& t,
                                                                     std::int64_t workers) noexcept {
    const shape::checked bytes =
        shape::checked(t.scratch.slice_bytes) * std::min(workers, t.count()) + t.scratch.shared_bytes;
    return bytes.ok() ? bytes.value() : INT64_MAX;
}

/// Whether weights are packed for several blocks, and so many bytes hold those of all panels.
[[nodiscard]] constexpr bool may_hold_weights(const panel_plan& g, const panel_tasks& t, std::int64_t bytes) noexcept {
    return t.blocks.count() > 1 && g.panel_floats > 0 && t.panels <= bytes / g.real.bytes / g.panel_floats;
}

/// Several workers share what is packed for several tasks, up to a third of the memory each. Not in groups, whose weights are few, and
/// nothing, unless `shares`.
GRADKERN_COLD constexpr void choose_shared(const panel_plan& g, panel_tasks& t, bool shares) noexcept {
    constexpr std::int64_t most = most_scratch / 3;
    shares = shares && g.groups == 1;
    t.shares_weights = shares && may_hold_weights(g, t, most);
    t.shares_pixels = shares && t.per_block() > 1 && g.budget.pixel_floats > 0 &&
                      packed_floats(g, t.blocks) <= most / g.real.bytes / t.blocks.count();
}

/// The tasks of the plan, or smaller ones for several workers.
[[nodiscard]] GRADKERN_COLD constexpr panel_tasks smaller_tasks(const panel_plan& g, std::int64_t workers,
                                                                bool shares) noexcept {
    panel_tasks best = g.tasks;
    if (g.shares_lines()) best.each = std::max(best.each, g.single_worker_panels);
    choose_shared(g, best, shares);
    best.scratch = lay_out(g, best);
    // Smaller while slices exceed their limit, and smaller tasks have much smaller ones: windows that reach far read as much for
    // a part of a block.
    while (scratch_bytes(best, workers) > most_scratch) {
        panel_tasks smaller = best;
        if (best.each > 1) {
            smaller.each = (best.each + 1) / 2;
        } else if (positions_of(best.blocks) > g.least_block) {
            smaller.blocks = best.blocks.smaller(std::max(positions_of(best.blocks) / 2, g.least_block));
        }
        choose_shared(g, smaller, shares);
        smaller.scratch = lay_out(g, smaller);
        if (smaller.scratch.slice_bytes > best.scratch.slice_bytes / 4 * 3) break;
        best = smaller;
    }
    if (has_many_tasks(g.shares_lines() ? best.blocks.count() : best.count(), workers)) return best;
    double least = makespan(g, best, workers);
    const std::int64_t most = std::max(scratch_bytes(best, workers), most_scratch);
    const box_grid blocks = best.blocks;
    for (panel_tasks t = best;; t.each = (t.each + 1) / 2) {
        for_smaller_boxes(blocks, t.per_block(), workers, g.least_block, [&](const box_grid& smaller) {
            t.blocks = smaller;
            choose_shared(g, t, shares);
            const double time = makespan(g, t, workers);
            if (time >= least) return;
            t.scratch = lay_out(g, t);
            if (scratch_bytes(t, workers) > most) return;
            least = time;
            best = t;
        });
        if (t.each == 1) break;
    }
    return best;
}

/// Makes these tasks those of one worker, which keeps packed weights for the next blocks if it needs no workspace then where it needed none
/// before.
GRADKERN_COLD constexpr void serve_one(const panel_plan& g, panel_tasks& t) noexcept {
    t.each = g.single_worker_panels;
    t.scratch = lay_out(g, t);
    if (!g.may_share || t.per_block() < 2 || !may_hold_weights(g, t, most_kept_weights)) return;
    const task_scratch own = t.scratch;
    t.shares_weights = true;
    t.scratch = lay_out(g, t);
    const bool leaves_stack = own.slice_bytes <= stack_slice && scratch_bytes(t, 1) > stack_slice;
    t.shares_weights = !leaves_stack;
    if (leaves_stack) t.scratch = own;
}

/// The tasks of so many workers, which share no more than so many bytes hold, slices included. Results have the same bits.
[[nodiscard]] GRADKERN_NOINLINE constexpr panel_tasks tasks_for(const panel_plan& g, std::int64_t workers,
                                                                std::int64_t bytes = INT64_MAX) noexcept {
    workers = counted_workers(workers);
    panel_tasks t = g.tasks;
    if (t.count() == 0) return t;
    if (workers == 1) {
        serve_one(g, t);
        return t;
    }
    t = smaller_tasks(g, workers, false);
    if (!g.may_share || bytes == 0) return t;
    const panel_tasks sharing = smaller_tasks(g, workers, true);
    const std::int64_t used = scratch_bytes(sharing, workers);
    const bool is_less = scratch_bytes(t, workers) > most_scratch && used < scratch_bytes(t, workers);
    const bool is_faster = used <= most_scratch && makespan(g, sharing, workers) < makespan(g, t, workers);
    if (used <= bytes && (is_less || is_faster)) t = sharing;
    return t;
}

/// Bytes of a workspace in which so many workers run such tasks.
[[nodiscard]] constexpr std::size_t workspace_of(const panel_tasks& t, std::int64_t workers) noexcept {
    return workspace_for(scratch_bytes(t, workers), 1);
}

/// Slices of a workspace, behind what workers share.
[[nodiscard]] GRADKERN_NOINLINE inline slices slices_of(const panel_tasks& t, std::span<std::byte> workspace) noexcept {
    const slices shared(workspace, t.scratch.shared_bytes);
    if (shared.count() == 0) return {{}, t.scratch.slice_bytes};
    if (t.scratch.shared_bytes > 0)
        workspace = workspace.subspan(static_cast<std::size_t>(shared[1] - workspace.data()));
    return {workspace, t.scratch.slice_bytes};
}

/// The tasks of these workers where not all have memory.
[[nodiscard]] GRADKERN_COLD inline panel_tasks scarce_tasks(const panel_plan& g, std::int64_t workers,
                                                            std::span<std::byte> workspace) noexcept {
    const auto running = [&](const panel_tasks& t) { return std::min(slices_of(t, workspace).count(), workers); };
    // Tasks for all workers have small slices, so that many of them run; tasks for so many may have larger ones, or share something.
    panel_tasks best = tasks_for(g, workers, 0);
    const std::int64_t most = std::max<std::int64_t>(running(best), 1);
    for (const std::int64_t bytes : {std::int64_t{0}, static_cast<std::int64_t>(workspace.size()) - cache_line}) {
        const panel_tasks t = tasks_for(g, most, bytes);
        const std::int64_t before = running(best);
        const bool is_faster =
            before == 0 || makespan(g, t, std::max<std::int64_t>(running(t), 1)) < makespan(g, best, before);
        if (running(t) > 0 && is_faster) best = t;
    }
    return best;
}

/// The tasks of a run on these workers, or on as many as have memory.
[[nodiscard]] GRADKERN_NOINLINE inline panel_tasks tasks_within(const panel_plan& g, std::int64_t workers,
                                                                std::span<std::byte> workspace) noexcept {
    workers = counted_workers(workers);
    panel_tasks t = tasks_for(g, workers);
    if (slices_of(t, workspace).count() < std::min(workers, t.count())) t = scarce_tasks(g, workers, workspace);
    return t;
}

/// Which part of the tasks workers run: all of each, or first what they share.
enum class task_pass : std::uint8_t { whole, pack, compute };

/// The tasks of a run.
struct panel_run {
    panel_tasks tasks{};
    std::byte* shared = nullptr;  // memory
    task_pass pass = task_pass::whole;
    std::int64_t first_pixels = INT64_MAX;  // from this number on, tasks pack the activations of a block

    /// Goes over to tasks that pack what workers share; returns how many there are: the weights of the tasks of a block, then the activations
    /// of each block.
    [[nodiscard]] GRADKERN_COLD std::int64_t begin_packing() noexcept {
        pass = task_pass::pack;
        const std::int64_t weights = tasks.shares_weights ? tasks.per_block() : 0;
        if (tasks.shares_pixels) first_pixels = weights;
        return weights + (tasks.shares_pixels ? tasks.blocks.count() : 0);
    }
    void begin_computing() noexcept {
        pass = task_pass::compute;
        first_pixels = INT64_MAX;
    }
};

/// What the buffers of a worker hold.
struct worker_buffers {
    std::int64_t weights = -1;  // first panel
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
    bool new_weights;  // whether they have to be packed
    bool new_source;
    bool packs_only;  // what workers share: nothing is computed

    GRADKERN_NOINLINE panel_task(const panel_plan& g, const panel_run& run, std::int64_t task, const std::byte* slice,
                                 worker_buffers& buffers) noexcept {
        const panel_tasks& tasks = run.tasks;
        const std::int64_t per_block = tasks.per_block();
        packs_only = run.pass == task_pass::pack;
        const bool packs_pixels = task >= run.first_pixels;
        task = packs_pixels ? (task - run.first_pixels) * per_block : task;
        const std::int64_t block = task / per_block;
        const auto [first, last] = tasks.panels_of(task % per_block);
        box = tasks.blocks[block];
        first_panel = first;
        panels = last - first;
        group = first / g.group_panels;
        first_channel = first % g.group_panels * g.panel_channels;
        channels = std::min(panels * g.panel_channels, g.panels.lane_channels(g) - first_channel);
        scratch = tasks.scratch;
        new_weights = std::exchange(buffers.weights, first) != first;
        // Tasks that read the same channels of a group for the same outputs have the same source.
        const std::int64_t source = g.panels.across_groups() ? task : block * g.groups + group;
        new_source = std::exchange(buffers.source, source) != source;
        if (tasks.shares()) find_shared(run, slice, block, first * g.panel_floats * g.real.bytes, packs_pixels);
    }

private:
    /// Where the arrays are that workers share, and whether this task packs them: `weights` bytes precede its own.
    GRADKERN_COLD void find_shared(const panel_run& run, const std::byte* slice, std::int64_t block,
                                   std::int64_t weights, bool packs_pixels) noexcept {
        const std::ptrdiff_t shared = run.shared - slice;
        const bool is_whole = run.pass == task_pass::whole;  // of one worker, which runs them in order
        if (run.tasks.shares_weights) {
            scratch.at_weights += shared + weights;
            new_weights = is_whole && block == 0;
        }
        if (run.tasks.shares_pixels) {
            scratch.at_packed += shared + block * scratch.packed_bytes;
            new_source &= is_whole;
        }
        if (packs_only) {
            new_weights = !packs_pixels;
            new_source = packs_pixels;
        }
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

/// What paths know of the types of their tensors (conv/operator.hpp).
template <class Real>
struct conv_kernels;

/// Tensors of a run, and its tasks.
template <class Real>
struct conv_call {
    tensor_pointer<Real> src;
    tensor_pointer<Real> weights;
    const void* bias;  // null: none
    std::byte* dst;
    const conv_kernels<Real>& element;
    panel_run run{};
};

/// Calls f(task) for the tasks of a worker.
template <class F>
void for_each_panel_task(const panel_plan& g, const panel_run& run, const std::byte* slice, const next_task& next,
                         const F& f) noexcept {
    worker_buffers buffers;
    for (std::int64_t task = next(); task >= 0; task = next()) f(panel_task(g, run, task, slice, buffers));
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
