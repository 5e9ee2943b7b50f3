// The paths of gradients from indices. They share plan and run, and differ in where sums are. Nothing is in the lanes while
// gradients are added: for each task (block of pixels of a panel of channels) > window > channel: sums[index] += diff_dst.
//
// sums_in_place  diff_src itself. Taken for float results that are overwritten, up to 2^18 windows in a plane: all 20 of the zoo.
//                Against sums_buffered, f32 NXC: max3s2p1_64 10.6 -> 8.5 ms, max2s2_512_14 0.58 -> 0.41.
// sums_sliding   scratch that slides along the plane as far as indices look back (too far: as sums_buffered). Taken when a block
//                exceeds the cache and all indices are looked at first. Zoo: 15 in f16, bf16 or accumulated in NXC. bf16 NXC:
//                max3s2p1_64 13.6 -> 7.4 ms; but max3s2_256 1.08 -> 1.20. Delete it when L2 holds sums of 128 channels.
// sums_buffered  scratch for a block of pixels. Taken for all others: f16, bf16 or accumulated, 20 in NCX, 5 in NXC.
//
// Not a row, since it is found out at run time: a tensor in which an index points into the plane of another element is
// computed by anywhere.hpp, whatever the path. (Times: one worker, Sapphire Rapids, g++ -O2, both rows forced.)
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
