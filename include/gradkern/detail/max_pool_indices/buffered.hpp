// Path sums_buffered: the sums of a block of pixels are in scratch until all gradients have been added.
//
//     for each image, panel of channels and block of pixels (a task)
//         for each window, and each channel of the panel in it
//             sums[index] += diff_dst, if the index is in the block
//         diff_src = sums, rounded once
//
// In the lanes: elements that are widened, and sums that are rounded; additions are scalar.
// Taken for: every problem that the paths above leave.
// Gains: nothing, it is the last row.
// Zoo: max pools in f16 and bf16, or accumulated: all 20 in NCX; in NXC the 5 of planes of up to 24x24.
// Delete it when: never; it computes every problem.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/in_place.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/problem.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Pixels of fused planes, and sums that scratch has room for at least: few enough for a workspace on the stack.
inline constexpr std::int64_t small_planes = 3 * 1024;

/// The plan of sums in scratch, which sliding.hpp shares.
[[nodiscard]] constexpr buffered_plan make_buffered_plan(const max_pool_indices_problem& p, algorithm path) noexcept {
    buffered_plan g;
    plan_planes(g, p, path, small_planes);
    // Strays are summed as sums_in_place does, whatever the path: bits depend on the problem alone.
    g.strays = sums_in_place_fit(p) ? scatter_plan::stray_mode::in_place : scatter_plan::stray_mode::buffered;
    g.sums = p.sums();
    const bool least = p.options.scratch == scratch_use::least;
    const std::int64_t most = target.cache.sum_buffer / size_of(g.sums);
    g.block = std::min(g.plane, most);
    g.panel_width = std::clamp<std::int64_t>((least ? call_scratch / size_of(g.sums) : most) / g.block, 1, g.width);
    if (g.panel_width > simd::lanes) g.panel_width -= g.panel_width % simd::lanes;
    g.panels = shape::ceil_div(g.channels, g.panel_width);
    g.blocks = shape::ceil_div(g.plane, g.block);
    g.buffered = g.block;
    g.look_back = g.plane;
    if (g.tasks() > 0) {
        slice_layout slice(least);
        g.capacity = std::max(g.block * g.panel_width, std::min(small_planes, g.batch * g.channels * g.plane));
        slice.reserve<std::byte>(g.capacity * size_of(g.sums));
        g.slice_bytes = slice.bytes();
    }
    return g;
}

[[nodiscard]] constexpr max_pool_indices_plan make_buffered_path(const max_pool_indices_problem& p,
                                                                 algorithm path) noexcept {
    return make_buffered_plan(p, path);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
