// The scatter engine: the gradient of a max pool from the indices that its forward pass wrote.
//
//     1. look at all indices (max_pool_indices/check.hpp), unless each is looked at on the way (index_check::each)
//     2. run_scatter, where all of them point into the planes of their own elements; else run_scatter_anywhere
//
// Loops of run_scatter, outermost first:
//
//     task       a block of places of diff_src, of one panel of channels of one image
//     run        elements that are walked in one loop (max_pool_indices/runs.hpp)
//     element    its gradient is added to the sum at its index (max_pool_indices/sums.hpp): f32, or f64 for very many windows
//
// Each sum runs in ascending order of the elements (n, c, o), whatever the blocks. Where indices keep roughly to the order of
// memory, as those of any pool do, sums in scratch slide along a plane: few places are held at a time. f32 outputs that are
// overwritten hold their own sums, so that a block is a whole plane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/anywhere.hpp>
#include <gradkern/detail/max_pool_indices/check.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/max_pool_indices/sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Adds the gradients of image n, channels [first, last), to the sums of one block, and finishes it. Returns what was
/// found out about their indices.
template <class T, bool direct, class Sum>
[[nodiscard]] index_findings scatter_block(const scatter_plan& g, const T* gradient, const std::int64_t* indices,
                                           std::int64_t n, std::int64_t first, std::int64_t last,
                                           block_sums<T, direct, Sum> sums) noexcept {
    index_findings found;
    for_each_run(g, n, first, last, sums.takes_mixed_runs(), [&](const element_run& run) GRADKERN_INLINE_LAMBDA {
        if (!sums.add(run, gradient, indices)) found.note_strays(g, run, indices);
    });
    sums.finish();
    return found;
}

/// Runs a plan whose indices all point into the planes of their own elements, or finds out that they do not: then the
/// output is not the result. All other checks have passed.
template <class T>
[[nodiscard]] index_findings run_scatter(const scatter_plan& g, const T* gradient, const std::int64_t* indices, T* out,
                                         std::span<std::byte> workspace, executor_ref executor) noexcept {
    shared_findings all;
    const std::int64_t lanes = executor.concurrency();
    const auto panel_of = [&](std::int64_t task) {
        return out + task / (g.panels * g.blocks) * g.out[0] + task / g.blocks % g.panels * g.panel_width * g.out[1];
    };
    run_tasks(executor, g.tasks(), slices(workspace, g.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t n = task / (g.panels * g.blocks);
            const std::int64_t first_channel = task / g.blocks % g.panels * g.panel_width;
            const std::int64_t last_channel = std::min(g.channels, first_channel + g.panel_width);
            const std::int64_t first_place = task % g.blocks * g.block;
            const std::int64_t last_place = std::min(g.plane, first_place + g.block);
            const auto scatter = [&]<bool direct, class Sum>(std::bool_constant<direct>, Sum* scratch) {
                T* const next_panel = lanes < g.tasks() - task ? panel_of(task + lanes) : nullptr;
                all.add(scatter_block<T, direct, Sum>(
                    g, gradient, indices, n, first_channel, last_channel,
                    {g, panel_of(task), next_panel, last_channel - first_channel, first_place, last_place, scratch}));
            };
            if constexpr (std::is_same_v<T, float>) {
                if (g.direct) {
                    scatter(std::true_type{}, static_cast<float*>(nullptr));
                    continue;
                }
            }
            if (g.in_f64) {
                scatter(std::false_type{}, reinterpret_cast<double*>(slice));
            } else {
                scatter(std::false_type{}, reinterpret_cast<float*>(slice));
            }
        }
    });
    return all.get();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
