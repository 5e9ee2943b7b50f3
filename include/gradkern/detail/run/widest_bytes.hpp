// Bytes of the widest of several types, which decide whether the sizes of a problem fit 64 bits.
#pragma once

#include <algorithm>
#include <cstddef>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

template <class... T>
inline constexpr std::size_t widest_bytes = (std::max)({sizeof(T)...});

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
