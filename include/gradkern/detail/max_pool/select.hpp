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

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool {

using plan = std::variant<windows_plan>;
using backward_plan = std::variant<gather_form_plan, scatter_form_plan>;

/// A path's maker as the table calls it.
template <class Plan, auto make>
[[nodiscard]] constexpr Plan make_as(const problem& p, algorithm row) noexcept {
    return make(p, row);
}

inline constexpr std::array<path<problem, plan>, 3> paths{{
    {algorithm::windows, reads_in_place, always, make_as<plan, make_windows>},
    {algorithm::windows_packed, fits_windows_packed, always, make_as<plan, make_windows>},
    {algorithm::windows_strided, always, always, make_as<plan, make_windows>},
}};

inline constexpr std::array<path<problem, backward_plan>, 4> backward_paths{{
    {algorithm::gather_form, fits_gather_form, gather_form_is_profitable, make_as<backward_plan, make_gather_form>},
    {algorithm::scatter_form, fits_scatter_form, always, make_as<backward_plan, make_scatter_form>},
    {algorithm::scatter_form_packed, fits_scatter_form_packed, always, make_as<backward_plan, make_scatter_form>},
    {algorithm::scatter_form_strided, always, always, make_as<backward_plan, make_scatter_form>},
}};

}  // namespace detail::max_pool
GRADKERN_ISA_NAMESPACE_END
