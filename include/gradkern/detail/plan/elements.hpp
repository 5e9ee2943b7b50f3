// Which element types operators take.
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether operators take elements of all these types.
template <class... T>
inline constexpr bool takes_elements = (simd::float_element<T> && ...);

/// One sentence from the compiler where they do not. What would not compile after it asks `takes_elements`.
template <class... T>
constexpr void require_elements() noexcept {
    static_assert(
        takes_elements<T...>,
        "gradkern: operators take elements of type float, float16 or bfloat16, or of a type that element_traits "
        "opens, all without const; the references, ref::X, take double, too");
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
