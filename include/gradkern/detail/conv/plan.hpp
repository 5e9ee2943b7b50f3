// The plan of a forward pass or a data gradient: that of the path which was chosen.
#pragma once

#include <variant>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/fill.hpp>
#include <gradkern/detail/conv/narrow_output.hpp>
#include <gradkern/detail/conv/pointwise.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

using conv_plan = std::variant<fill_plan, pointwise_plan, narrow_output_plan, tile_plan>;

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
