// The paths of Lp pools and of their gradients.
#pragma once

#include <array>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/lp_pool/problem.hpp>
#include <gradkern/detail/lp_pool/sums.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::lp_pool {

/// Whether the channels of a pixel are neighbours in every tensor that is read.
[[nodiscard]] constexpr bool channels_are_neighbours(const problem& p) noexcept {
    return p.in[0][1] == 1 && (!p.is_backward() || (p.in[1][1] == 1 && p.in[2][1] == 1));
}

inline constexpr std::array<path<problem, plan>, 2> paths{{
    {algorithm::windows, channels_are_neighbours, always, make_plan},
    {algorithm::windows_packed, always, always, make_plan},
}};

}  // namespace detail::lp_pool
GRADKERN_ISA_NAMESPACE_END
