// Transposed convolution and its gradients under the names of the oneDNN Graph documents (see ../onednn_graph.hpp).
#pragma once

#include <type_traits>

#include <gradkern/conv_transpose.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/requests.hpp>
#include <gradkern/frontend/onednn_graph/translation.hpp>
#include <gradkern/options.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

// ------------------------------------------------------------------------------------------------------- ConvTranspose

/// The shape of dst.
[[nodiscard]] constexpr result<extents> infer_ConvTranspose(const extents& src, const extents& weights,
                                                            const ConvTranspose_attributes& attributes) noexcept {
    return translation::result_of(translation::ConvTranspose_request(src, weights, {}, attributes, 4));
}

/// A planned transposed convolution: run(src, weights, bias, dst, workspace, executor), as conv_transpose_plan. Bias
/// is T, or float for 16-bit T.
template <class T, class Bias = T>
using ConvTranspose_plan = translation::plan<conv_transpose_plan<T, T, T, Bias>, translation::ConvTranspose_names,
                                             const T*, const T*, const Bias*, T*>;

/// Plans ConvTranspose_plan. `bias` is (OC), or empty for none; `dst` is of the inferred shape, or empty for a
/// dense one.
template <class T, class Bias = T>
[[nodiscard]] result<ConvTranspose_plan<T, Bias>> plan_ConvTranspose(const tensor_layout& src,
                                                                     const tensor_layout& weights,
                                                                     const tensor_layout& bias,
                                                                     const ConvTranspose_attributes& attributes,
                                                                     const tensor_layout& dst = {},
                                                                     const plan_options& options = {}) noexcept {
    const auto q = translation::ConvTranspose_request(src.shape, weights.shape, bias.shape, attributes,
                                                      translation::widest<T, Bias>, dst.shape);
    if (!q) return q.error();
    return ConvTranspose_plan<T, Bias>::of(
        plan_conv_transpose<T, Bias>(src, q->filter(weights), bias, q->attributes, dst, options), q->filter);
}

/// ConvTranspose in one call.
template <class T, class Bias = T>
[[nodiscard]] status ConvTranspose(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> weights,
                                   std::type_identity_t<tensor_view<const Bias>> bias,
                                   const ConvTranspose_attributes& attributes, std::type_identity_t<tensor_view<T>> dst,
                                   const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_ConvTranspose<T, Bias>(src.layout, weights.layout, bias.layout, attributes, dst.layout, how);
        },
        src.data, weights.data, bias.data, dst.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class Bias = typename Src::element_type>
[[nodiscard]] status ConvTranspose(const Src& src, tensor_view<const typename Src::element_type> weights,
                                   std::type_identity_t<tensor_view<const Bias>> bias,
                                   const ConvTranspose_attributes& attributes,
                                   tensor_view<typename Src::element_type> dst,
                                   const call_options& options = {}) noexcept {
    return ConvTranspose<typename Src::element_type, Bias>(src, weights, bias, attributes, dst, options);
}

// ------------------------------------------------------------------------------------------- ConvTransposeBackwardData

/// The shape of diff_src.
[[nodiscard]] constexpr result<extents> infer_ConvTransposeBackwardData(
    const extents& diff_dst, const extents& weights, const ConvTransposeBackwardData_attributes& attributes) noexcept {
    return translation::result_of(translation::ConvTransposeBackwardData_request(diff_dst, weights, attributes, 4));
}

/// Planned gradient of a transposed convolution's input: run(diff_dst, weights, diff_src, workspace, executor), as
/// conv_transpose_backward_data_plan.
template <class T>
using ConvTransposeBackwardData_plan =
    translation::plan<conv_transpose_backward_data_plan<T>, translation::ConvTransposeBackwardData_names, const T*,
                      const T*, T*>;

/// Plans ConvTransposeBackwardData_plan. `diff_src` is of the inferred shape, or empty for a dense one.
template <class T>
[[nodiscard]] result<ConvTransposeBackwardData_plan<T>> plan_ConvTransposeBackwardData(
    const tensor_layout& diff_dst, const tensor_layout& weights, const ConvTransposeBackwardData_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    const auto q = translation::ConvTransposeBackwardData_request(diff_dst.shape, weights.shape, attributes,
                                                                  translation::widest<T>, diff_src.shape);
    if (!q) return q.error();
    return ConvTransposeBackwardData_plan<T>::of(
        plan_conv_transpose_backward_data<T>(diff_dst, q->filter(weights), q->attributes, diff_src, options),
        q->filter);
}

/// ConvTransposeBackwardData in one call.
template <class T>
[[nodiscard]] status ConvTransposeBackwardData(tensor_view<const T> diff_dst,
                                               std::type_identity_t<tensor_view<const T>> weights,
                                               const ConvTransposeBackwardData_attributes& attributes,
                                               std::type_identity_t<tensor_view<T>> diff_src,
                                               const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_ConvTransposeBackwardData<T>(diff_dst.layout, weights.layout, attributes, diff_src.layout, how);
        },
        diff_dst.data, weights.data, diff_src.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status ConvTransposeBackwardData(const DiffDst& diff_dst,
                                               tensor_view<const typename DiffDst::element_type> weights,
                                               const ConvTransposeBackwardData_attributes& attributes,
                                               tensor_view<typename DiffDst::element_type> diff_src,
                                               const call_options& options = {}) noexcept {
    return ConvTransposeBackwardData<typename DiffDst::element_type>(diff_dst, weights, attributes, diff_src, options);
}

/// The other name of ConvTransposeBackwardData. Errors use the names of that one.
using ConvTransposeBackpropData_attributes = ConvTransposeBackwardData_attributes;
/// ConvTransposeBackwardData_plan.
template <class T>
using ConvTransposeBackpropData_plan = ConvTransposeBackwardData_plan<T>;
/// infer_ConvTransposeBackwardData.
[[nodiscard]] constexpr result<extents> infer_ConvTransposeBackpropData(
    const extents& diff_dst, const extents& weights, const ConvTransposeBackpropData_attributes& attributes) noexcept {
    return infer_ConvTransposeBackwardData(diff_dst, weights, attributes);
}
/// plan_ConvTransposeBackwardData.
template <class T>
[[nodiscard]] result<ConvTransposeBackpropData_plan<T>> plan_ConvTransposeBackpropData(
    const tensor_layout& diff_dst, const tensor_layout& weights, const ConvTransposeBackpropData_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    return plan_ConvTransposeBackwardData<T>(diff_dst, weights, attributes, diff_src, options);
}
/// ConvTransposeBackwardData.
template <class T>
[[nodiscard]] status ConvTransposeBackpropData(tensor_view<const T> diff_dst,
                                               std::type_identity_t<tensor_view<const T>> weights,
                                               const ConvTransposeBackpropData_attributes& attributes,
                                               std::type_identity_t<tensor_view<T>> diff_src,
                                               const call_options& options = {}) noexcept {
    return ConvTransposeBackwardData<T>(diff_dst, weights, attributes, diff_src, options);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status ConvTransposeBackpropData(const DiffDst& diff_dst,
                                               tensor_view<const typename DiffDst::element_type> weights,
                                               const ConvTransposeBackpropData_attributes& attributes,
                                               tensor_view<typename DiffDst::element_type> diff_src,
                                               const call_options& options = {}) noexcept {
    return ConvTransposeBackpropData<typename DiffDst::element_type>(diff_dst, weights, attributes, diff_src, options);
}

// ---------------------------------------------------------------------------------------- ConvTransposeBackpropFilters

/// The shape of filter_delta: the shape input, else the attribute; without both: missing_shape.
[[nodiscard]] constexpr result<extents> infer_ConvTransposeBackpropFilters(
    const extents& input_forward, const extents& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& attributes) noexcept {
    return translation::result_of(
        translation::ConvTransposeBackpropFilters_request(input_forward, output_delta, filter_shape, attributes, 4));
}

/// Planned gradient of a transposed convolution's filter: run(input_forward, output_delta, filter_delta, workspace,
/// executor), as conv_transpose_backward_weights_plan. G is T, or float for 16-bit T.
template <class T, class G = T>
using ConvTransposeBackpropFilters_plan =
    translation::plan<conv_transpose_backward_weights_plan<T, G>, translation::ConvTransposeBackpropFilters_names,
                      const T*, const T*, G*>;

/// Plans ConvTransposeBackpropFilters_plan. `filter_delta` is of the inferred shape, or empty for a dense one.
template <class T, class G = T>
[[nodiscard]] result<ConvTransposeBackpropFilters_plan<T, G>> plan_ConvTransposeBackpropFilters(
    const tensor_layout& input_forward, const tensor_layout& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& attributes, const tensor_layout& filter_delta = {},
    const plan_options& options = {}) noexcept {
    const auto q =
        translation::ConvTransposeBackpropFilters_request(input_forward.shape, output_delta.shape, filter_shape,
                                                          attributes, translation::widest<T, G>, filter_delta.shape);
    if (!q) return q.error();
    return ConvTransposeBackpropFilters_plan<T, G>::of(
        plan_conv_transpose_backward_weights<T, G>(
            input_forward, output_delta, q->attributes,
            q->filter(filter_delta.empty() ? tensor_layout(q->result) : filter_delta), {}, options),
        q->filter);
}

/// ConvTransposeBackpropFilters in one call.
template <class T, class G = T>
[[nodiscard]] status ConvTransposeBackpropFilters(tensor_view<const T> input_forward,
                                                  std::type_identity_t<tensor_view<const T>> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackpropFilters_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_ConvTransposeBackpropFilters<T, G>(input_forward.layout, output_delta.layout, filter_shape,
                                                           attributes, filter_delta.layout, how);
        },
        input_forward.data, output_delta.data, filter_delta.data);
}

/// The same for a `input_forward` that is a view of mutable elements.
template <mutable_view InputForward, class G = typename InputForward::element_type>
[[nodiscard]] status ConvTransposeBackpropFilters(const InputForward& input_forward,
                                                  tensor_view<const typename InputForward::element_type> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackpropFilters_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    return ConvTransposeBackpropFilters<typename InputForward::element_type, G>(
        input_forward, output_delta, filter_shape, attributes, filter_delta, options);
}

/// The other name of ConvTransposeBackpropFilters. Errors use the names of that one.
using ConvTransposeBackwardWeights_attributes = ConvTransposeBackpropFilters_attributes;
/// ConvTransposeBackpropFilters_plan.
template <class T, class G = T>
using ConvTransposeBackwardWeights_plan = ConvTransposeBackpropFilters_plan<T, G>;
/// infer_ConvTransposeBackpropFilters.
[[nodiscard]] constexpr result<extents> infer_ConvTransposeBackwardWeights(
    const extents& input_forward, const extents& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackwardWeights_attributes& attributes) noexcept {
    return infer_ConvTransposeBackpropFilters(input_forward, output_delta, filter_shape, attributes);
}
/// plan_ConvTransposeBackpropFilters.
template <class T, class G = T>
[[nodiscard]] result<ConvTransposeBackwardWeights_plan<T, G>> plan_ConvTransposeBackwardWeights(
    const tensor_layout& input_forward, const tensor_layout& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackwardWeights_attributes& attributes, const tensor_layout& filter_delta = {},
    const plan_options& options = {}) noexcept {
    return plan_ConvTransposeBackpropFilters<T, G>(input_forward, output_delta, filter_shape, attributes, filter_delta,
                                                   options);
}
/// ConvTransposeBackpropFilters.
template <class T, class G = T>
[[nodiscard]] status ConvTransposeBackwardWeights(tensor_view<const T> input_forward,
                                                  std::type_identity_t<tensor_view<const T>> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackwardWeights_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    return ConvTransposeBackpropFilters<T, G>(input_forward, output_delta, filter_shape, attributes, filter_delta,
                                              options);
}

/// The same for a `input_forward` that is a view of mutable elements.
template <mutable_view InputForward, class G = typename InputForward::element_type>
[[nodiscard]] status ConvTransposeBackwardWeights(const InputForward& input_forward,
                                                  tensor_view<const typename InputForward::element_type> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackwardWeights_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    return ConvTransposeBackwardWeights<typename InputForward::element_type, G>(
        input_forward, output_delta, filter_shape, attributes, filter_delta, options);
}

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
