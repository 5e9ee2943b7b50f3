// Which path computes a bias gradient.
#pragma once

#include <array>

#include <gradkern/detail/bias/sums.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

using bias_path = path<bias_problem, bias_plan>;

[[nodiscard]] constexpr bool has_neighbouring_channels(const bias_problem& p) noexcept { return p.in[1] == 1; }

inline constexpr std::array<bias_path, 2> bias_paths{{
    {algorithm::dense, has_neighbouring_channels, always, make_bias},
    {algorithm::dense_packed, always, always, make_bias},
}};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
