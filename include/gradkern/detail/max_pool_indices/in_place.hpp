// Path sums_in_place: the elements of diff_src hold their own sums.
//
//     for each image and panel of channels (a task)
//         for each window, and each channel of the panel in it
//             diff_src[index] += diff_dst
//
// In the lanes: nothing; additions are scalar. (The look at indices is vectorised over elements.)
// Taken for: float results that are overwritten, with up to 2^18 windows in a plane.
// Gains over sums_buffered: no scratch, and no pass from there to diff_src. f32, one worker, Sapphire Rapids, g++ -O2, forced by
//     plan_options::algorithm: NXC max3s2p1_64 10.6 -> 8.5 ms, max3s1p1_480 1.97 -> 1.34, max2s2_512_14 0.58 -> 0.41;
//     NCX max3s2p1_64 9.1 -> 6.8, max3d_2_32 0.94 -> 0.78, max2s2_512_14 0.36 -> 0.36.
// Zoo: all 20 max pools in f32, both layouts.
// Delete it when: sums in scratch leave for diff_src as fast as they are added.
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/problem.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

[[nodiscard]] constexpr bool sums_in_place_fit(const max_pool_indices_problem& p) noexcept {
    return p.holds_floats && p.options.output == output_mode::overwrite && p.sums() == sum_type::f32;
}

[[nodiscard]] constexpr max_pool_indices_plan make_in_place_plan(const max_pool_indices_problem& p,
                                                                 algorithm path) noexcept {
    in_place_plan g;
    plan_planes(g, p, path, sums_in_cache(sum_type::f32) / 8);
    g.strays = scatter_plan::stray_mode::in_place;
    return g;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
