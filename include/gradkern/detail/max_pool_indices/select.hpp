// The paths of gradients from indices, fastest first. They share plan and run, and differ in where sums are:
//
//     for each image, panel of channels and block of pixels (a task), for each window, and each channel of the panel in it
//         sums[index] += diff_dst, if the index is in the block
//
// In the lanes: nothing while gradients are added; elements when indices are looked at, widened or rounded.
//
// sums_in_place  diff_src itself. Taken for float results that are overwritten, with up to 2^18 windows in a plane: in the zoo,
//                all 20 in f32. f32 NXC, against sums_buffered: max3s2p1_64 10.6 -> 8.5 ms, max2s2_512_14 0.58 -> 0.41.
// sums_sliding   scratch that slides along the plane, as far as indices look back, and so stays in L2. Taken when the sums of a
//                block are more than the cache holds, and all indices are looked at first. Zoo: f16, bf16 or accumulated in NXC,
//                15 of 20. bf16 NXC: max3s2p1_64 13.6 -> 7.4 ms, max3d_2_32 1.19 -> 0.96; but max3s2_256 1.08 -> 1.20.
//                Where indices look back too far, a run does as sums_buffered. Delete when L2 holds sums of 128 channels.
// sums_buffered  scratch for a block of pixels. Taken for all others: f16, bf16 or accumulated, all 20 in NCX, 5 in NXC.
//
// Not a row, since it is found out at run time: a tensor in which an index points into the plane of another element is
// computed by anywhere.hpp, whatever the path. (Times: one worker, Sapphire Rapids, g++ -O2, forced by plan_options::algorithm.)
#pragma once

#include <array>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/problem.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool_indices {

[[nodiscard]] constexpr bool fits_sliding(const problem& p) noexcept { return p.looks_first(); }
[[nodiscard]] constexpr bool is_sliding_profitable(const problem& p) noexcept {
    const plan g = make_plan(p, algorithm::sums_sliding);
    return g.block * g.panel_width > sums_in_cache(g.sums);
}

inline constexpr std::array<path<problem, plan>, 3> paths{{
    {algorithm::sums_in_place, fits_in_place, always, make_plan},
    {algorithm::sums_sliding, fits_sliding, is_sliding_profitable, make_plan},
    {algorithm::sums_buffered, always, always, make_plan},
}};

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
