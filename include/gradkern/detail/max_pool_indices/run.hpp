// A run of the gradient of a max pool from indices.
//
//     1. look at all indices (look.hpp), unless each is looked at on the way (index_check::each)
//     2. run_blocks, where all of them point into the planes of their own elements; else run_anywhere (anywhere.hpp)
//
// Loops of run_blocks, outermost first:
//
//     task       a block of pixels of diff_src, of one panel of channels of one image
//     run        elements that are walked in one loop (runs.hpp)
//     element    its gradient is added to the sum at its index (sums.hpp)
//
// Each sum runs in ascending order of the elements (n, c, o), whatever the blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/anywhere.hpp>
#include <gradkern/detail/max_pool_indices/look.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/max_pool_indices/sliding.hpp>
#include <gradkern/detail/max_pool_indices/sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Computes a block of image n, whose panel begins with channel c. Returns what was found out about indices.
template <class T, class Plan, class Sum>
[[nodiscard]] index_findings scatter_block(const Plan& g, const T* diff_dst, const std::int64_t* indices,
                                           std::int64_t n, std::int64_t c,
                                           const typename block_sums<T, Plan, Sum>::place& place, bool all_within,
                                           Sum* scratch) noexcept {
    index_findings found;
    block_sums<T, Plan, Sum> sums(g, place, all_within, scratch);
    run_walk(g, n, c, c + place.channels, order_of_panel(g, sums.takes_interleaved()))
        .for_each([&](const element_run& run) GRADKERN_INLINE_LAMBDA {
            if (!sums.add(run, diff_dst, indices)) found.note_strays(g, run, indices);
        });
    sums.finish();
    return found;
}

/// Runs a plan whose indices all point into the planes of their own elements, or finds out that they do not: then the
/// output is not the result. `all_within`: the look has found out that they do, and that none is -1.
template <class T, class Plan>
[[nodiscard]] index_findings run_blocks(const Plan& g, const T* diff_dst, const std::int64_t* indices, T* diff_src,
                                        bool all_within, std::span<std::byte> workspace,
                                        executor_ref executor) noexcept {
    shared_findings all;
    const std::int64_t workers = executor.concurrency();
    const auto panel_of = [&](std::int64_t task) {
        return diff_src + task / (g.panels * g.blocks) * g.diff_src[0] +
               task / g.blocks % g.panels * g.panel_width * g.diff_src[1];
    };
    run_tasks(executor, g.tasks(), slices(workspace, g.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t n = task / (g.panels * g.blocks);
            const std::int64_t channel = task / g.blocks % g.panels * g.panel_width;
            const std::int64_t pixel = task % g.blocks * g.block;
            const auto scatter = [&]<class Sum>(Sum* scratch) {
                T* const next_panel = workers < g.tasks() - task ? panel_of(task + workers) : nullptr;
                all.add(scatter_block<T, Plan, Sum>(
                    g, diff_dst, indices, n, channel,
                    {panel_of(task), next_panel, std::min(g.channels - channel, g.panel_width), pixel,
                     std::min(g.plane, pixel + g.block)},
                    all_within, scratch));
            };
            if constexpr (std::is_same_v<Plan, in_place_plan>) {
                scatter(static_cast<T*>(nullptr));
            } else if (g.sums == sum_type::f64) {
                scatter(reinterpret_cast<double*>(slice));
            } else {
                scatter(reinterpret_cast<float*>(slice));
            }
        }
    });
    return all.get();
}

/// Runs a plan. All checks have passed but those of indices.
template <class T, class Plan>
[[nodiscard]] status run_from_indices(std::string_view op, const Plan& plan, const T* diff_dst,
                                      const std::int64_t* indices, T* diff_src, std::span<std::byte> workspace,
                                      executor_ref executor) noexcept {
    index_findings found;
    const auto run = [&](const Plan& g) {
        const bool all_within = g.check == index_check::first && found.all_within;
        if (found.local) found = run_blocks(g, diff_dst, indices, diff_src, all_within, workspace, executor);
    };
    if (plan.check == index_check::first && plan.path != algorithm::sums_sliding)
        found = look_at_indices<false>(plan, indices, executor);
    if constexpr (std::is_same_v<Plan, buffered_plan>) {
        if (plan.path == algorithm::sums_sliding) {
            found = look_at_indices<true>(plan, indices, executor);
            run(slide_along(plan, found.look_back));
        } else {
            run(plan);
        }
    } else {
        run(plan);
    }
    if (!found.in_range) return shape::bad_index(op, first_bad_index(plan, indices), plan.index.end);
    if (!found.local) run_anywhere(plan, diff_dst, indices, diff_src, workspace, executor);
    return {};
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
