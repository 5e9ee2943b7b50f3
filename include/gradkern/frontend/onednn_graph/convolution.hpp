// Convolution and its gradients under the names of the oneDNN Graph documents (see ../onednn_graph.hpp).
#pragma once

#include <type_traits>

#include <gradkern/convolution.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/requests.hpp>
#include <gradkern/frontend/onednn_graph/translation.hpp>
#include <gradkern/options.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

// --------------------------------------------------------------------------------------------------------- Convolution

/// The shape of dst.
[[nodiscard]] constexpr result<extents> infer_Convolution(const extents& src, const extents& weights,
                                                          const Convolution_attributes& attributes) noexcept {
    return translation::result_of(translation::Convolution_request(src, weights, {}, attributes, 4));
}

/// A planned convolution: run(src, weights, bias, dst, workspace, executor), as convolution_plan. Bias is T, or
/// float for 16-bit T.
template <class T, class Bias = T>
using Convolution_plan = translation::plan<convolution_plan<T, T, T, Bias>, translation::Convolution_names, const T*,
                                           const T*, const Bias*, T*>;

/// Plans Convolution_plan. `bias` is (OC), or empty for none; `dst` is of the inferred shape, or empty for a
/// dense one.
template <class T, class Bias = T>
[[nodiscard]] result<Convolution_plan<T, Bias>> plan_Convolution(const tensor_layout& src, const tensor_layout& weights,
                                                                 const tensor_layout& bias,
                                                                 const Convolution_attributes& attributes,
                                                                 const tensor_layout& dst = {},
                                                                 const plan_options& options = {}) noexcept {
    const auto q = translation::Convolution_request(src.shape, weights.shape, bias.shape, attributes,
                                                    translation::widest<T, Bias>, dst.shape);
    if (!q) return q.error();
    return Convolution_plan<T, Bias>::of(plan_convolution<T, Bias>(src, weights, bias, q->attributes, dst, options));
}

/// Convolution in one call.
template <class T, class Bias = T>
[[nodiscard]] status Convolution(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const Convolution_attributes& attributes, std::type_identity_t<tensor_view<T>> dst,
                                 const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_Convolution<T, Bias>(src.layout, weights.layout, bias.layout, attributes, dst.layout, how);
        },
        src.data, weights.data, bias.data, dst.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class Bias = typename Src::element_type>
[[nodiscard]] status Convolution(const Src& src, tensor_view<const typename Src::element_type> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const Convolution_attributes& attributes, tensor_view<typename Src::element_type> dst,
                                 const call_options& options = {}) noexcept {
    return Convolution<typename Src::element_type, Bias>(src, weights, bias, attributes, dst, options);
}

// --------------------------------------------------------------------------------------------- ConvolutionBackwardData

/// The shape of diff_src: the shape input, else the attribute; without both: missing_shape.
[[nodiscard]] constexpr result<extents> infer_ConvolutionBackwardData(
    const extents& diff_dst, const extents& weights, const shape_input& dst_shape,
    const ConvolutionBackwardData_attributes& attributes) noexcept {
    return translation::result_of(
        translation::ConvolutionBackwardData_request(diff_dst, weights, dst_shape, attributes, 4));
}

/// Planned gradient of a convolution's input: run(diff_dst, weights, diff_src, workspace, executor), as
/// convolution_backward_data_plan.
template <class T>
using ConvolutionBackwardData_plan =
    translation::plan<convolution_backward_data_plan<T>, translation::ConvolutionBackwardData_names, const T*, const T*,
                      T*>;

/// Plans ConvolutionBackwardData_plan. `diff_src` is of the inferred shape, or empty for a dense one.
template <class T>
[[nodiscard]] result<ConvolutionBackwardData_plan<T>> plan_ConvolutionBackwardData(
    const tensor_layout& diff_dst, const tensor_layout& weights, const shape_input& dst_shape,
    const ConvolutionBackwardData_attributes& attributes, const tensor_layout& diff_src = {},
    const plan_options& options = {}) noexcept {
    const auto q = translation::ConvolutionBackwardData_request(diff_dst.shape, weights.shape, dst_shape, attributes,
                                                                translation::widest<T>, diff_src.shape);
    if (!q) return q.error();
    return ConvolutionBackwardData_plan<T>::of(
        plan_convolution_backward_data<T>(diff_dst, weights, q->attributes, diff_src, options));
}

/// ConvolutionBackwardData in one call.
template <class T>
[[nodiscard]] status ConvolutionBackwardData(tensor_view<const T> diff_dst,
                                             std::type_identity_t<tensor_view<const T>> weights,
                                             const shape_input& dst_shape,
                                             const ConvolutionBackwardData_attributes& attributes,
                                             std::type_identity_t<tensor_view<T>> diff_src,
                                             const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_ConvolutionBackwardData<T>(diff_dst.layout, weights.layout, dst_shape, attributes,
                                                   diff_src.layout, how);
        },
        diff_dst.data, weights.data, diff_src.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status ConvolutionBackwardData(const DiffDst& diff_dst,
                                             tensor_view<const typename DiffDst::element_type> weights,
                                             const shape_input& dst_shape,
                                             const ConvolutionBackwardData_attributes& attributes,
                                             tensor_view<typename DiffDst::element_type> diff_src,
                                             const call_options& options = {}) noexcept {
    return ConvolutionBackwardData<typename DiffDst::element_type>(diff_dst, weights, dst_shape, attributes, diff_src,
                                                                   options);
}

/// The other name of ConvolutionBackwardData. Errors use the names of that one.
using ConvolutionBackpropData_attributes = ConvolutionBackwardData_attributes;
/// ConvolutionBackwardData_plan.
template <class T>
using ConvolutionBackpropData_plan = ConvolutionBackwardData_plan<T>;
/// infer_ConvolutionBackwardData.
[[nodiscard]] constexpr result<extents> infer_ConvolutionBackpropData(
    const extents& diff_dst, const extents& weights, const shape_input& dst_shape,
    const ConvolutionBackpropData_attributes& attributes) noexcept {
    return infer_ConvolutionBackwardData(diff_dst, weights, dst_shape, attributes);
}
/// plan_ConvolutionBackwardData.
template <class T>
[[nodiscard]] result<ConvolutionBackpropData_plan<T>> plan_ConvolutionBackpropData(
    const tensor_layout& diff_dst, const tensor_layout& weights, const shape_input& dst_shape,
    const ConvolutionBackpropData_attributes& attributes, const tensor_layout& diff_src = {},
    const plan_options& options = {}) noexcept {
    return plan_ConvolutionBackwardData<T>(diff_dst, weights, dst_shape, attributes, diff_src, options);
}
/// ConvolutionBackwardData.
template <class T>
[[nodiscard]] status ConvolutionBackpropData(tensor_view<const T> diff_dst,
                                             std::type_identity_t<tensor_view<const T>> weights,
                                             const shape_input& dst_shape,
                                             const ConvolutionBackpropData_attributes& attributes,
                                             std::type_identity_t<tensor_view<T>> diff_src,
                                             const call_options& options = {}) noexcept {
    return ConvolutionBackwardData<T>(diff_dst, weights, dst_shape, attributes, diff_src, options);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status ConvolutionBackpropData(const DiffDst& diff_dst,
                                             tensor_view<const typename DiffDst::element_type> weights,
                                             const shape_input& dst_shape,
                                             const ConvolutionBackpropData_attributes& attributes,
                                             tensor_view<typename DiffDst::element_type> diff_src,
                                             const call_options& options = {}) noexcept {
    return ConvolutionBackpropData<typename DiffDst::element_type>(diff_dst, weights, dst_shape, attributes, diff_src,
                                                                   options);
}

// ------------------------------------------------------------------------------------------ ConvolutionBackwardWeights

/// The shape of diff_weights: the shape input, else the attribute; without both: missing_shape.
[[nodiscard]] constexpr result<extents> infer_ConvolutionBackwardWeights(
    const extents& src, const extents& diff_dst, const shape_input& weights_shape,
    const ConvolutionBackwardWeights_attributes& attributes) noexcept {
    return translation::result_of(
        translation::ConvolutionBackwardWeights_request(src, diff_dst, weights_shape, attributes, 4));
}

/// Planned gradient of a convolution's weights: run(src, diff_dst, diff_weights, workspace, executor), as
/// convolution_backward_weights_plan. G is T, or float for 16-bit T.
template <class T, class G = T>
using ConvolutionBackwardWeights_plan =
    translation::plan<convolution_backward_weights_plan<T, G>, translation::ConvolutionBackwardWeights_names, const T*,
                      const T*, G*>;

/// Plans ConvolutionBackwardWeights_plan. `diff_weights` is of the inferred shape, or empty for a dense one.
template <class T, class G = T>
[[nodiscard]] result<ConvolutionBackwardWeights_plan<T, G>> plan_ConvolutionBackwardWeights(
    const tensor_layout& src, const tensor_layout& diff_dst, const shape_input& weights_shape,
    const ConvolutionBackwardWeights_attributes& attributes, const tensor_layout& diff_weights = {},
    const plan_options& options = {}) noexcept {
    const auto q = translation::ConvolutionBackwardWeights_request(src.shape, diff_dst.shape, weights_shape, attributes,
                                                                   translation::widest<T, G>, diff_weights.shape);
    if (!q) return q.error();
    return ConvolutionBackwardWeights_plan<T, G>::of(
        plan_convolution_backward_weights<T, G>(src, diff_dst, q->attributes, diff_weights, {}, options));
}

/// ConvolutionBackwardWeights in one call.
template <class T, class G = T>
[[nodiscard]] status ConvolutionBackwardWeights(tensor_view<const T> src,
                                                std::type_identity_t<tensor_view<const T>> diff_dst,
                                                const shape_input& weights_shape,
                                                const ConvolutionBackwardWeights_attributes& attributes,
                                                tensor_view<G> diff_weights,
                                                const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_ConvolutionBackwardWeights<T, G>(src.layout, diff_dst.layout, weights_shape, attributes,
                                                         diff_weights.layout, how);
        },
        src.data, diff_dst.data, diff_weights.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class G = typename Src::element_type>
[[nodiscard]] status ConvolutionBackwardWeights(const Src& src, tensor_view<const typename Src::element_type> diff_dst,
                                                const shape_input& weights_shape,
                                                const ConvolutionBackwardWeights_attributes& attributes,
                                                tensor_view<G> diff_weights,
                                                const call_options& options = {}) noexcept {
    return ConvolutionBackwardWeights<typename Src::element_type, G>(src, diff_dst, weights_shape, attributes,
                                                                     diff_weights, options);
}

/// The other name of ConvolutionBackwardWeights. Errors use the names of that one.
using ConvolutionBackpropFilters_attributes = ConvolutionBackwardWeights_attributes;
/// ConvolutionBackwardWeights_plan.
template <class T, class G = T>
using ConvolutionBackpropFilters_plan = ConvolutionBackwardWeights_plan<T, G>;
/// infer_ConvolutionBackwardWeights.
[[nodiscard]] constexpr result<extents> infer_ConvolutionBackpropFilters(
    const extents& src, const extents& diff_dst, const shape_input& weights_shape,
    const ConvolutionBackpropFilters_attributes& attributes) noexcept {
    return infer_ConvolutionBackwardWeights(src, diff_dst, weights_shape, attributes);
}
/// plan_ConvolutionBackwardWeights.
template <class T, class G = T>
[[nodiscard]] result<ConvolutionBackpropFilters_plan<T, G>> plan_ConvolutionBackpropFilters(
    const tensor_layout& src, const tensor_layout& diff_dst, const shape_input& weights_shape,
    const ConvolutionBackpropFilters_attributes& attributes, const tensor_layout& diff_weights = {},
    const plan_options& options = {}) noexcept {
    return plan_ConvolutionBackwardWeights<T, G>(src, diff_dst, weights_shape, attributes, diff_weights, options);
}
/// ConvolutionBackwardWeights.
template <class T, class G = T>
[[nodiscard]] status ConvolutionBackpropFilters(tensor_view<const T> src,
                                                std::type_identity_t<tensor_view<const T>> diff_dst,
                                                const shape_input& weights_shape,
                                                const ConvolutionBackpropFilters_attributes& attributes,
                                                tensor_view<G> diff_weights,
                                                const call_options& options = {}) noexcept {
    return ConvolutionBackwardWeights<T, G>(src, diff_dst, weights_shape, attributes, diff_weights, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class G = typename Src::element_type>
[[nodiscard]] status ConvolutionBackpropFilters(const Src& src, tensor_view<const typename Src::element_type> diff_dst,
                                                const shape_input& weights_shape,
                                                const ConvolutionBackpropFilters_attributes& attributes,
                                                tensor_view<G> diff_weights,
                                                const call_options& options = {}) noexcept {
    return ConvolutionBackpropFilters<typename Src::element_type, G>(src, diff_dst, weights_shape, attributes,
                                                                     diff_weights, options);
}

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
