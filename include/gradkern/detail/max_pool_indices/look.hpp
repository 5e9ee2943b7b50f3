// What a run must know about indices: is each in range, does each point into the plane of its own element, and how far do they
// look back in memory? Nothing is written here.
//
// Loops: task = panel of channels of one image > run of elements (runs.hpp) > part of at most 256, of whole windows, which is
// looked at without a branch; one by one only where something is wrong with it.
//
// How far indices look back is measured part by part, from the furthest pixel of this part and those before it. So sums that
// slide by it (sums.hpp) must add gradients in the same parts, or in finer ones: channels are interleaved there only if a panel
// of sums has all of them, which makes the parts equal; else a part is one window.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What was found out about indices.
struct index_findings {
    bool in_range = true;
    bool local = true;       ///< every index points into the plane of its own element, or is -1
    bool all_within = true;  ///< none is -1 either
    std::int64_t look_back =
        0;  ///< pixels at most from the furthest one of the elements so far back to that of an index

    /// Takes note of the indices of a run that point to no pixel of the planes of their elements.
    void note_strays(const scatter_plan& g, const element_run& run, const std::int64_t* indices) noexcept {
        std::int64_t channel = 0;
        for (std::int64_t e = 0; e < run.count; ++e, channel = channel + 1 < run.interleaved ? channel + 1 : 0) {
            scatter_plan::own_plane own = run.own;
            own.origin += static_cast<std::uint64_t>(e) * run.origin_step +
                          static_cast<std::uint64_t>(channel) * run.interleave_step;
            const std::int64_t i = indices[run.at + e * run.at_step];
            if (own.pixel(i) < static_cast<std::uint64_t>(g.plane)) continue;
            all_within = false;
            local = local && i == -1;
            in_range = in_range && i >= -1 && i < g.index.end;
        }
    }
};

/// What the tasks of a run found out together.
class shared_findings {
public:
    void add(const index_findings& f) noexcept {
        if (!f.in_range) in_range_.store(false, std::memory_order_relaxed);
        if (!f.local) local_.store(false, std::memory_order_relaxed);
        if (!f.all_within) all_within_.store(false, std::memory_order_relaxed);
        std::int64_t most = look_back_.load(std::memory_order_relaxed);
        while (most < f.look_back && !look_back_.compare_exchange_weak(most, f.look_back, std::memory_order_relaxed)) {
        }
    }
    [[nodiscard]] index_findings get() const noexcept {
        return {in_range_.load(), local_.load(), all_within_.load(), look_back_.load()};
    }

private:
    std::atomic<bool> in_range_{true};
    std::atomic<bool> local_{true};
    std::atomic<bool> all_within_{true};
    std::atomic<std::int64_t> look_back_{0};
};

/// Looks at all indices. `measures`: whether it finds out how far they look back, too.
template <bool measures>
[[nodiscard]] index_findings look_at_indices(const scatter_plan& g, const std::int64_t* indices,
                                             executor_ref executor) noexcept {
    shared_findings all;
    const std::int64_t panels = shape::ceil_div(g.channels, g.width);
    run_tasks(executor, g.batch * panels, slices({}, 0), [&](std::byte*, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t n = task / panels;
            const std::int64_t first = task % panels * g.width;
            const std::int64_t last = std::min(g.channels, first + g.width);
            index_findings found;
            std::int64_t furthest = 0;
            element_run::part_origins origins;
            const element_run::part_origins* interleaved = nullptr;
            run_walk(g, n, first, last, order_of_panel(g, true))
                .for_each([&](const element_run& run) GRADKERN_INLINE_LAMBDA {
                    if (run.interleaved > 1 && interleaved == nullptr) {
                        run.find_origins(origins);
                        interleaved = &origins;
                    }
                    const std::int64_t most = run.part_size();
                    for (std::int64_t e = 0; e < run.count; e += most) {
                        const element_run part = run.part(e, std::min(most, run.count - e));
                        if (part.at_step == 1) simd::prefetch_stream(indices + part.at, part.count);
                        const element_run::reach reach =
                            part.template reach_of<measures>(indices, 0, g.plane, interleaved);
                        if (!reach.within) found.note_strays(g, part, indices);
                        if constexpr (measures) {
                            furthest = std::max(furthest, reach.last);
                            found.look_back =
                                std::max(found.look_back, reach.within ? furthest - reach.least : g.plane);
                        }
                    }
                });
            all.add(found);
        }
    });
    return all.get();
}

/// The first index out of range in row-major order of (n, c, o); there is one.
[[nodiscard]] inline std::int64_t first_bad_index(const scatter_plan& g, const std::int64_t* indices) noexcept {
    std::int64_t bad = -1;
    for (std::int64_t n = 0; n < g.batch; ++n)
        for (std::int64_t c = 0; c < g.channels; ++c) {
            run_walk(g, n, c, c + 1, run_order::windows).for_each([&](const element_run& run) {
                for (std::int64_t e = 0; e < run.count && bad == -1; ++e) {
                    const std::int64_t i = indices[run.at + e * run.at_step];
                    if (i < -1 || i >= g.index.end) bad = i;
                }
            });
            if (bad != -1) return bad;
        }
    return bad;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
