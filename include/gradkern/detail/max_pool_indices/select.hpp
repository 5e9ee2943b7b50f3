// The paths of gradients from indices, fastest first.
//
// Not a row, since it is found out at run time: a tensor in which an index points into the plane of another element is
// computed by anywhere.hpp, whatever the path.
#pragma once

#include <array>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/buffered.hpp>
#include <gradkern/detail/max_pool_indices/in_place.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/problem.hpp>
#include <gradkern/detail/max_pool_indices/sliding.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

using max_pool_indices_path = path<max_pool_indices_problem, max_pool_indices_plan>;

// clang-format off
inline constexpr std::array<max_pool_indices_path, 3> max_pool_indices_paths{{
    // name                     fits                is_profitable                 make
    {algorithm::sums_in_place, sums_in_place_fit, always<max_pool_indices_problem>, make_in_place_plan},
    {algorithm::sums_sliding,  sums_sliding_fit,  sums_sliding_are_profitable,      make_buffered_path},
    {algorithm::sums_buffered, always<max_pool_indices_problem>, always<max_pool_indices_problem>, make_buffered_path},
}};
// clang-format on

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
