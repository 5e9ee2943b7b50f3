// Which element types operators take.
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether operators take elements of all these types.
template <class... T>
inline constexpr bool takes_elements = (element<T> && ...);

/// Whether a bias, or the gradient of weights or of a bias, may have elements of type Other beside tensors of T.
template <class T, class Other>
inline constexpr bool may_go_with = element_traits<Other>::type == element_traits<T>::type ||
                                    (element_traits<Other>::type == data_type::f32 &&
                                     element_traits<T>::type != data_type::f64);

/// One sentence from the compiler where they do not. What would not compile after it asks `takes_elements`.
template <class T, class... Others>
constexpr void require_elements() noexcept {
    if constexpr (takes_elements<T, Others...>) {
        static_assert((may_go_with<T, Others> && ...),
                      "gradkern: the bias, and the gradients of weights and bias, have the element type of the other "
                      "tensors, or are float where those have 16 bits");
    }
    static_assert(takes_elements<T, Others...>,
                  "gradkern: operators take elements of type float, float16, bfloat16 or double, or of a type that "
                  "element_traits opens, all without const");
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
