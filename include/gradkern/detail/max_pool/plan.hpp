// The plans of max pooling and of its gradient: one of their paths' own plans.
#pragma once

#include <string_view>
#include <variant>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/gather_form.hpp>
#include <gradkern/detail/max_pool/scatter_form.hpp>
#include <gradkern/detail/max_pool/windows.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

using max_pool_path_plan = std::variant<windows_plan>;
using max_pool_backward_path_plan = std::variant<gather_form_plan, scatter_form_plan>;

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
