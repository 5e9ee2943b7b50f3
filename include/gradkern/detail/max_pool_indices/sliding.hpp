// Path sums_sliding: the sums of some pixels of a plane are in scratch, and they slide along it.
//
//     look at all indices: are they in range, and how far back does one point, at most, of the furthest pixel so far?
//     for each image and panel of channels (a task)
//         for each window, and each channel of the panel in it
//             round and write the sums of pixels further back; move the others to the front
//             sums[index] += diff_dst
//
// In the lanes: as in sums_buffered.
// Taken when: the sums of a block are more than the cache holds, and all indices are looked at before the first write.
// Found out at run time: how far indices look back. Where that is too far, a run does as sums_buffered.
// Gains over sums_buffered: sums stay in L2. bf16 NXC, one worker, Sapphire Rapids, g++ -O2, forced by plan_options::algorithm:
//     max3s2p1_64 13.6 -> 7.4 ms, max3d_2_32 1.19 -> 0.96; but max3s2_256, whose sums take 370 KB, 1.08 -> 1.20.
// Zoo: max pools in f16 and bf16, or accumulated, in NXC: 15 of 20.
// Delete it when: L2 holds the sums of a panel of 128 channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/buffered.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/problem.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

[[nodiscard]] constexpr bool sums_sliding_fit(const max_pool_indices_problem& p) noexcept { return p.looks_first(); }

[[nodiscard]] constexpr bool sums_sliding_are_profitable(const max_pool_indices_problem& p) noexcept {
    const buffered_plan g = make_buffered_plan(p, algorithm::sums_sliding);
    return g.block * g.panel_width > sums_in_cache(g.sums);
}

/// The plan of a run none of whose indices looks back more than `look_back` pixels.
[[nodiscard]] constexpr buffered_plan slide_along(const buffered_plan& g, std::int64_t look_back) noexcept {
    if (look_back >= g.plane) return g;
    buffered_plan s = g;
    const std::int64_t least = look_back + look_back / 2 + 1;  // more than is needed, so that less of it is moved
    s.panel_width = g.width;
    while (s.panel_width > g.panel_width && least * s.panel_width > g.capacity) s.panel_width /= 2;
    s.panels = shape::ceil_div(s.channels, s.panel_width);
    s.buffered = std::max(least, sums_in_cache(g.sums) / 4 / s.panel_width);  // written early, they need little room
    if (s.buffered >= g.plane || s.buffered * s.panel_width > g.capacity) return g;
    s.block = s.plane;
    s.blocks = 1;
    s.look_back = look_back;
    return s;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
