// The plan of the average engine: that of one of its paths.
#pragma once

#include <variant>

#include <gradkern/detail/avg_pool/collapsed_lines.hpp>
#include <gradkern/detail/avg_pool/collapsed_planes.hpp>
#include <gradkern/detail/avg_pool/lines.hpp>
#include <gradkern/detail/avg_pool/non_overlapping.hpp>
#include <gradkern/detail/avg_pool/taps.hpp>
#include <gradkern/detail/avg_pool/windows.hpp>
#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// A default constructed one has no tasks.
using plan = std::variant<collapsed_planes_plan, collapsed_lines_plan, windows_plan, non_overlapping_plan, lines_plan,
                          taps_plan>;

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
