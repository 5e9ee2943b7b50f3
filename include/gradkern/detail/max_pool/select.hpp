// The tables of paths of max pooling and of its gradient. Each path's file says on its card when it is taken.
#pragma once

#include <array>
#include <variant>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/gather_form.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/max_pool/scatter_form.hpp>
#include <gradkern/detail/max_pool/windows.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A plan is that of one of its operator's paths.
using max_pool_path_plan = std::variant<windows_plan>;
using max_pool_backward_path_plan = std::variant<gather_form_plan, scatter_form_plan>;

using max_pool_path = path<max_pool_problem, max_pool_path_plan>;
using max_pool_backward_path = path<max_pool_backward_problem, max_pool_backward_path_plan>;

/// A path's maker as the table calls it.
template <class Plan, auto make, class Problem>
[[nodiscard]] constexpr Plan plan_of(const Problem& p, algorithm row) noexcept {
    return make(p, row);
}

inline constexpr std::array<max_pool_path, 3> max_pool_paths{{
    {algorithm::windows, fits_windows, always, plan_of<max_pool_path_plan, make_windows>},
    {algorithm::windows_packed, fits_windows_packed, always, plan_of<max_pool_path_plan, make_windows>},
    {algorithm::windows_strided, always, always, plan_of<max_pool_path_plan, make_windows>},
}};

inline constexpr std::array<max_pool_backward_path, 5> max_pool_backward_paths{{
    {algorithm::gather_form, fits_gather_form, always, plan_of<max_pool_backward_path_plan, make_gather_form>},
    {algorithm::scatter_form, fits_scatter_form, always, plan_of<max_pool_backward_path_plan, make_scatter_form>},
    {algorithm::gather_form_packed, fits_gather_form_packed, always,
     plan_of<max_pool_backward_path_plan, make_gather_form>},
    {algorithm::scatter_form_packed, fits_scatter_form_packed, always,
     plan_of<max_pool_backward_path_plan, make_scatter_form>},
    {algorithm::scatter_form_strided, always, always, plan_of<max_pool_backward_path_plan, make_scatter_form_strided>},
}};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
