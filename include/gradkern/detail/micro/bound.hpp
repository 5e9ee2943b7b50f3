// The size of an array as the language counts it, where sizes are signed numbers.
#pragma once

#include <cstddef>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// `vec acc[bound(Rows)]`: compilers warn of a signed size that depends on a template's arguments.
[[nodiscard]] consteval std::size_t bound(std::ptrdiff_t size) noexcept { return static_cast<std::size_t>(size); }

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
