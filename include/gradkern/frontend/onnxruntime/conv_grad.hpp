// ConvGrad and ConvTransposeGrad, the gradients of ONNX's Conv and ConvTranspose (see ../onnxruntime.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onnxruntime/attributes.hpp>
#include <gradkern/frontend/onnxruntime/conv_gradients.hpp>
#include <gradkern/options.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onnxruntime {

// ----------------------------------------------------------------------------------------------------------- ConvGrad

/// The shapes of dX, dW and dB: those of X, of W, and (OC).
[[nodiscard]] constexpr result<conv_gradient_shapes> infer_ConvGrad(const extents& dY, const extents& X,
                                                                    const extents& W,
                                                                    const ConvGrad_attributes& attributes) noexcept {
    const auto core =
        translation::check_conv_grad<translation::conv_family<float, float, float>>(dY, X, W, attributes, {}, 4);
    if (!core) return core.error();
    return conv_gradient_shapes{X, W, {dY[1]}};
}

/// A planned ConvGrad; G and B, the types of dW and dB, are T, or float for 16-bit T. It is a value: copy it, and share it
/// between threads.
template <class T, class G = T, class B = G>
class ConvGrad_plan : public translation::conv_gradients<translation::conv_family<T, G, B>> {
public:
    ConvGrad_plan() noexcept = default;
    /// From the plans of the core.
    explicit ConvGrad_plan(const translation::conv_gradients<translation::conv_family<T, G, B>>& plans) noexcept
        : translation::conv_gradients<translation::conv_family<T, G, B>>(plans) {}

    /// dX as convolution_backward_data_plan::run, dW as convolution_backward_weights_plan::run and dB as
    /// bias_backward_plan::run. A result whose pointer is null is not computed; W is read only for dX
    /// and X only for dW; otherwise they may be null. No result may overlap an input or another result. Errors: missing_shape (memory
    /// for a result that was not planned), null_pointer, invalid_argument (overlap, or no result),
    /// workspace_too_small (bytes).
    [[nodiscard]] status run(const T* dY, const T* X, const T* W, T* dX, G* dW, B* dB,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(dY, X, W, dX, dW, dB, workspace, executor);
    }
};

/// Plans ConvGrad_plan::run. A result whose layout is empty is not planned; dense ones are `X.shape`, `W.shape` and
/// {OC}. No result at all is invalid_argument.
template <class T, class G = T, class B = G>
[[nodiscard]] result<ConvGrad_plan<T, G, B>> plan_ConvGrad(const tensor_layout& dY, const tensor_layout& X,
                                                           const tensor_layout& W,
                                                           const ConvGrad_attributes& attributes,
                                                           const tensor_layout& dX, const tensor_layout& dW = {},
                                                           const tensor_layout& dB = {},
                                                           const plan_options& options = {}) noexcept {
    const auto plan =
        translation::conv_gradients<translation::conv_family<T, G, B>>::make(dY, X, W, attributes, dX, dW, dB, options);
    if (!plan) return plan.error();
    return ConvGrad_plan<T, G, B>(*plan);
}

/// ConvGrad in one call. A result without memory is not computed; one with memory and an empty layout is dense. If none
/// has memory, the error is invalid_argument.
template <class T, class G = T, class B = G>
[[nodiscard]] status ConvGrad(tensor_view<const T> dY, std::type_identity_t<tensor_view<const T>> X,
                              std::type_identity_t<tensor_view<const T>> W, const ConvGrad_attributes& attributes,
                              std::type_identity_t<tensor_view<T>> dX, std::type_identity_t<tensor_view<G>> dW = {},
                              std::type_identity_t<tensor_view<B>> dB = {}, const call_options& options = {}) noexcept {
    return translation::run_conv_grad<ConvGrad_plan<T, G, B>, translation::conv_family<T, G, B>>(dY, X, W, attributes,
                                                                                                 dX, dW, dB, options);
}

/// The same for a `dY` that is a view of mutable elements.
template <mutable_view DY, class G = typename DY::element_type, class B = G>
[[nodiscard]] status ConvGrad(const DY& dY, tensor_view<const typename DY::element_type> X,
                              tensor_view<const typename DY::element_type> W, const ConvGrad_attributes& attributes,
                              tensor_view<typename DY::element_type> dX, std::type_identity_t<tensor_view<G>> dW = {},
                              std::type_identity_t<tensor_view<B>> dB = {}, const call_options& options = {}) noexcept {
    return ConvGrad<typename DY::element_type, G, B>(dY, X, W, attributes, dX, dW, dB, options);
}

// -------------------------------------------------------------------------------------------------- ConvTransposeGrad

/// The shapes of dX, dW and dB: those of X, of W, and (OC).
[[nodiscard]] constexpr result<conv_gradient_shapes> infer_ConvTransposeGrad(
    const extents& dY, const extents& X, const extents& W, const ConvTransposeGrad_attributes& attributes) noexcept {
    const auto core = translation::check_conv_grad<translation::conv_transpose_family<float, float, float>>(
        dY, X, W, attributes, {}, 4);
    if (!core) return core.error();
    return conv_gradient_shapes{X, W, {dY[1]}};
}

/// A planned ConvTransposeGrad; G and B, the types of dW and dB, are T, or float for 16-bit T. It is a value: copy it, and share
/// it between threads.
template <class T, class G = T, class B = G>
class ConvTransposeGrad_plan : public translation::conv_gradients<translation::conv_transpose_family<T, G, B>> {
public:
    ConvTransposeGrad_plan() noexcept = default;
    /// From the plans of the core.
    explicit ConvTransposeGrad_plan(
        const translation::conv_gradients<translation::conv_transpose_family<T, G, B>>& plans) noexcept
        : translation::conv_gradients<translation::conv_transpose_family<T, G, B>>(plans) {}

    /// dX as conv_transpose_backward_data_plan::run, dW as conv_transpose_backward_weights_plan::run and dB as
    /// bias_backward_plan::run; W and dW are (IC, OC/g, K...). Everything else is as in ConvGrad_plan::run.
    [[nodiscard]] status run(const T* dY, const T* X, const T* W, T* dX, G* dW, B* dB,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(dY, X, W, dX, dW, dB, workspace, executor);
    }
};

/// Plans ConvTransposeGrad_plan::run. A result whose layout is empty is not planned; dense ones are `X.shape`,
/// `W.shape` and {OC}. No result at all is invalid_argument.
template <class T, class G = T, class B = G>
[[nodiscard]] result<ConvTransposeGrad_plan<T, G, B>> plan_ConvTransposeGrad(
    const tensor_layout& dY, const tensor_layout& X, const tensor_layout& W,
    const ConvTransposeGrad_attributes& attributes, const tensor_layout& dX, const tensor_layout& dW = {},
    const tensor_layout& dB = {}, const plan_options& options = {}) noexcept {
    const auto plan = translation::conv_gradients<translation::conv_transpose_family<T, G, B>>::make(
        dY, X, W, attributes, dX, dW, dB, options);
    if (!plan) return plan.error();
    return ConvTransposeGrad_plan<T, G, B>(*plan);
}

/// ConvTransposeGrad in one call. A result without memory is not computed; one with memory and an empty layout is
/// dense. If none has memory, the error is invalid_argument.
template <class T, class G = T, class B = G>
[[nodiscard]] status ConvTransposeGrad(tensor_view<const T> dY, std::type_identity_t<tensor_view<const T>> X,
                                       std::type_identity_t<tensor_view<const T>> W,
                                       const ConvTransposeGrad_attributes& attributes,
                                       std::type_identity_t<tensor_view<T>> dX,
                                       std::type_identity_t<tensor_view<G>> dW = {},
                                       std::type_identity_t<tensor_view<B>> dB = {},
                                       const call_options& options = {}) noexcept {
    return translation::run_conv_grad<ConvTransposeGrad_plan<T, G, B>, translation::conv_transpose_family<T, G, B>>(
        dY, X, W, attributes, dX, dW, dB, options);
}

/// The same for a `dY` that is a view of mutable elements.
template <mutable_view DY, class G = typename DY::element_type, class B = G>
[[nodiscard]] status ConvTransposeGrad(const DY& dY, tensor_view<const typename DY::element_type> X,
                                       tensor_view<const typename DY::element_type> W,
                                       const ConvTransposeGrad_attributes& attributes,
                                       tensor_view<typename DY::element_type> dX,
                                       std::type_identity_t<tensor_view<G>> dW = {},
                                       std::type_identity_t<tensor_view<B>> dB = {},
                                       const call_options& options = {}) noexcept {
    return ConvTransposeGrad<typename DY::element_type, G, B>(dY, X, W, attributes, dX, dW, dB, options);
}

}  // namespace onnxruntime
GRADKERN_ISA_NAMESPACE_END
