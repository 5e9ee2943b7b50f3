// Whether a loop prefetches: a template parameter of kernels, and a field of plans.
#pragma once

#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

enum class prefetch : std::uint8_t { none, ahead };

/// Calls f with this as a constant.
template <class F>
GRADKERN_ALWAYS_INLINE void with_prefetch(prefetch wanted, const F& f) noexcept {
    if (wanted == prefetch::ahead) {
        f(std::integral_constant<prefetch, prefetch::ahead>{});
    } else {
        f(std::integral_constant<prefetch, prefetch::none>{});
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
