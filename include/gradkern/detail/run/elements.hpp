// Which element types operators take.
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/widest_bytes.hpp>
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

/// Whether convolutions read elements of Src and weights of Weights and write elements of Dst: each type is the one before it, or float
/// after 16 bits.
template <class Src, class Weights, class Dst>
inline constexpr bool takes_convolution = false;
template <element Src, element Weights, element Dst>
inline constexpr bool takes_convolution<Src, Weights, Dst> = may_go_with<Src, Weights>&& may_go_with<Weights, Dst>;

/// The same as require_elements for those types and a bias. What would not compile after it asks `takes_convolution`.
template <class Src, class Weights, class Dst, class Bias>
constexpr void require_convolution() noexcept {
    if constexpr (takes_elements<Src, Weights, Dst>) {
        static_assert(
            takes_convolution<Src, Weights, Dst>,
            "gradkern: the weights and the result of a convolution have the element type of its input, or are "
            "float where that has 16 bits; float weights have a float result");
        require_elements<Src, Bias>();
    } else {
        require_elements<Src, Weights>();
        require_elements<Src, Dst>();
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
