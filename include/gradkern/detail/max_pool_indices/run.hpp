// A run of the gradient of a max pool from indices: look at all of them, unless each is looked at on the way
// (index_check::each); then run_blocks, where all point into the planes of their own elements, else run_anywhere.
//
// Loops: task (a panel of channels of one image: all of it to look at, a block of its pixels to run) > run of elements
// (runs.hpp) > part of at most 256, of whole windows, which is looked at without a branch; one by one if something is wrong.
//
// How far indices look back is measured part by part, from the furthest pixel of this part and those before it. So sums that
// slide by it (sums.hpp) must add gradients in the same parts, or in finer ones: channels are interleaved there only if a panel
// of sums has all of them, which makes the parts equal; else a part is one window.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/anywhere.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/max_pool_indices/sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool_indices {

/// Where indices point, the best first.
enum class pointing : std::uint8_t { to_own_plane, to_own_plane_or_nowhere, anywhere, out_of_range };

/// What was found out about indices.
struct index_findings {
    pointing worst = pointing::to_own_plane;
    std::int64_t look_back = 0;  ///< pixels at most from the furthest one of the elements so far to that of an index

    [[nodiscard]] bool is_local() const noexcept { return worst <= pointing::to_own_plane_or_nowhere; }
    /// Takes note of the indices of a run that point to no pixel of the planes of their elements.
    void note_strays(const plan& g, const element_run& run, const std::int64_t* indices) noexcept {
        plan::own_plane own = run.own;
        for (std::int64_t e = 0; e < run.count; ++e) {
            own.origin = run.origin_of(e);
            const std::int64_t i = indices[run.at + e * run.at_step];
            if (own.pixel(i) < static_cast<std::uint64_t>(g.plane)) continue;
            worst = std::max(worst, i == -1                     ? pointing::to_own_plane_or_nowhere
                                    : i >= 0 && i < g.index.end ? pointing::anywhere
                                                                : pointing::out_of_range);
        }
    }
};

/// What the tasks of a run found out together.
struct shared_findings {
    std::atomic<pointing> worst{pointing::to_own_plane};
    std::atomic<std::int64_t> look_back{0};

    void add(const index_findings& f) noexcept {
        raise(worst, f.worst);
        raise(look_back, f.look_back);
    }
    template <class U>
    static void raise(std::atomic<U>& most, U to) noexcept {
        for (U at = most; at < to && !most.compare_exchange_weak(at, to);) continue;
    }
};

/// Looks at all indices. `measures`: whether it finds out how far they look back, too.
template <bool measures>
[[nodiscard]] index_findings look_at_indices(const plan& g, const std::int64_t* indices,
                                             executor_ref executor) noexcept {
    shared_findings all;
    const std::int64_t panels = shape::ceil_div(g.channels, g.width);
    for_each_task(executor, g.batch * panels, slices({}, 0), [&](std::byte*, std::int64_t task) {
        const std::int64_t first = task % panels * g.width;
        const std::int64_t last = std::min(g.channels, first + g.width);
        index_findings found;
        std::int64_t furthest = 0;
        element_run::part_origins origins;
        const element_run::part_origins* interleaved = nullptr;
        run_walk(g, task / panels, first, last, order_of_panel(g, true))
            .for_each([&](const element_run& run) GRADKERN_INLINE_LAMBDA {
                if (run.interleaved > 1 && interleaved == nullptr) {
                    run.find_origins(origins);
                    interleaved = &origins;
                }
                const std::int64_t most = run.part_size();
                for (std::int64_t e = 0; e < run.count; e += most) {
                    const element_run part = run.part(e, std::min(most, run.count - e));
                    if (part.at_step == 1) simd::prefetch_stream(indices + part.at, part.count);
                    const auto reach = part.template reach_of<measures>(indices, 0, g.plane, interleaved);
                    if (!reach.within) found.note_strays(g, part, indices);
                    if constexpr (measures) {
                        furthest = std::max(furthest, reach.last);
                        found.look_back = std::max(found.look_back, reach.within ? furthest - reach.least : g.plane);
                    }
                }
            });
        all.add(found);
    });
    return {all.worst, all.look_back};
}

/// Runs a plan whose indices all point into the planes of their own elements, or finds out that they do not: then the
/// output is not the result. `all_within`: the look has found out that they do, and that none is -1.
template <class T>
[[nodiscard]] index_findings run_blocks(const plan& g, const T* diff_dst, const std::int64_t* indices, T* diff_src,
                                        bool all_within, std::span<std::byte> workspace,
                                        executor_ref executor) noexcept {
    shared_findings all;
    const auto scatter = [&]<sum_place where, class Sum>(std::int64_t task, Sum* scratch) {
        index_findings found;
        block_sums<T, where, Sum> sums(g, diff_src, task, all_within, scratch);
        const std::int64_t c = g.channel_of(task);
        run_walk(g, g.image_of(task), c, std::min(g.channels, c + g.panel_width), sums.order())
            .for_each([&](const element_run& run) GRADKERN_INLINE_LAMBDA {
                if (!sums.add(run, diff_dst, indices)) found.note_strays(g, run, indices);
            });
        sums.finish();
        all.add(found);
    };
    const auto run_task = [&](std::byte* slice, std::int64_t task) {
        if (g.path == algorithm::sums_in_place) {
            if constexpr (simd::is_wide<T>)  // others have no such path
                scatter.template operator()<sum_place::in_place>(task, diff_src);
        } else {
            with_sums<T>(g.sums, slice,
                         [&](auto* sums) { scatter.template operator()<sum_place::buffered>(task, sums); });
        }
    };
    for_each_task(executor, g.tasks(), slices(workspace, g.slice_bytes), run_task, g.panels * g.blocks);
    return {all.worst, all.look_back};
}

/// Runs a plan. All checks have passed but those of indices.
template <class T>
[[nodiscard]] status run(std::string_view op, const plan& planned, const T* diff_dst, const std::int64_t* indices,
                         T* diff_src, std::span<std::byte> workspace, executor_ref executor) noexcept {
    index_findings found;
    plan g = planned;
    if (g.path == algorithm::sums_sliding) {
        found = look_at_indices<true>(planned, indices, executor);
        g = slide_along(planned, found.look_back);
    } else if (g.check == index_check::first) {
        found = look_at_indices<false>(planned, indices, executor);
    }
    if (found.is_local()) {
        const bool all_within = g.check == index_check::first && found.worst == pointing::to_own_plane;
        found = run_blocks(g, diff_dst, indices, diff_src, all_within, workspace, executor);
    }
    if (found.worst == pointing::out_of_range)
        return shape::bad_index(op, first_bad_index(planned, indices), planned.index.end);
    if (!found.is_local()) run_anywhere(planned, diff_dst, indices, diff_src, workspace, executor);
    return {};
}

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
