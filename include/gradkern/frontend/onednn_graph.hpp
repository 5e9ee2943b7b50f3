// The three gradient operators of the oneDNN Graph documents in their own spelling. This header translates and computes
// nothing: each operator here is one of the core, under the names on the left.
//
//     document                                        core
//     ---------------------------------------------   --------------------------------------------------------------
//     AvgPoolBackprop, AvgPoolBackward                avg_pool_backward
//       input  output_delta                             diff_dst
//       input  input_shape (1-D), or the attribute      diff_src_shape
//       output input_delta                              diff_src
//     ConvolutionBackwardData,                        convolution_backward_data
//     ConvolutionBackpropData
//       input  diff_dst, weights                        diff_dst, weights
//       input  dst_shape (1-D), or the attribute        diff_src_shape: "dst" is the result of the operator, diff_src
//       output diff_src                                 diff_src
//     ConvTransposeBackpropFilters,                   conv_transpose_backward_weights
//     ConvTransposeBackwardWeights
//       input  input_forward                            src
//       input  output_delta                             diff_dst
//       input  filter_shape (1-D), or the attribute     diff_weights_shape
//       output filter_delta                             diff_weights
//       filter_format                                   weights_format
//     kernel, strides, dilations, pads_begin,         the same
//     pads_end, exclude_pad, auto_pad, groups,
//     output_padding, data_format, weights_format
//     rounding_type, divisor_override                 the same; extensions of AvgPoolBackprop
//
// The attribute called weights_format (filter_format) names the order of a filter's axes; O and I are output and input
// channels of the forward operator, and the ConvTranspose family divides O by groups (shape/layout.hpp).
//
// A shape tensor wins over the attribute of its name, which is then not looked at. Where neither is there, the answer
// is missing_shape: also for ConvolutionBackwardData, whose size the core would infer. Attributes whose value is one of
// a few words take the word in the documents' spelling (`same_upper`), in the upper-case one of oneDNN's code
// (`SAME_UPPER`), or the core's enumerator. Errors carry the names of the documents.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include <gradkern/avg_pool.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/translation.hpp>
#include <gradkern/options.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

// ---------------------------------------------------------------------------------------------------- AvgPoolBackprop

/// The shape of input_delta: the shape input, else the attribute; neither: missing_shape.
[[nodiscard]] constexpr result<extents> infer_AvgPoolBackprop(const extents& output_delta,
                                                              const shape_input& input_shape,
                                                              const AvgPoolBackprop_attributes& attributes) noexcept {
    const auto core = translation::core_attributes(output_delta, input_shape, attributes);
    if (!core) return core.error();
    return translation::shapes(output_delta, *core, {}, 4);
}

/// A planned AvgPoolBackprop. A value: copy it, share it between threads.
template <class T>
class AvgPoolBackprop_plan : public translation::plan<avg_pool_backward_plan<T>, translation::avg_pool_names> {
public:
    using translation::plan<avg_pool_backward_plan<T>, translation::avg_pool_names>::plan;

    /// Spreads each element of output_delta evenly over its window of input_delta, as avg_pool_backward_plan::run.
    [[nodiscard]] status run(const T* output_delta, T* input_delta, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(output_delta, input_delta, workspace, executor);
    }
};

/// Plans AvgPoolBackprop_plan::run. `input_delta` may be empty: dense in the inferred shape, which it must have
/// otherwise.
template <class T>
[[nodiscard]] result<AvgPoolBackprop_plan<T>> plan_AvgPoolBackprop(const tensor_layout& output_delta,
                                                                   const shape_input& input_shape,
                                                                   const AvgPoolBackprop_attributes& attributes,
                                                                   const tensor_layout& input_delta = {},
                                                                   const plan_options& options = {}) noexcept {
    const auto core = translation::core_attributes(output_delta.shape, input_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(output_delta.shape, *core, input_delta.shape, sizeof(T));
    if (!shape) return shape.error();
    const auto plan = plan_avg_pool_backward<T>(output_delta, *core, input_delta, options);
    if (!plan) return translation::translate(plan.error(), translation::avg_pool_names, "input_delta");
    return AvgPoolBackprop_plan<T>(*plan);
}

/// AvgPoolBackprop in one call.
template <class T>
[[nodiscard]] status AvgPoolBackprop(tensor_view<const T> output_delta, const shape_input& input_shape,
                                     const AvgPoolBackprop_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> input_delta,
                                     const call_options& options = {}) noexcept {
    const auto core = translation::core_attributes(output_delta.layout.shape, input_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(output_delta.layout.shape, *core, input_delta.layout.shape, sizeof(T));
    if (!shape) return shape.error();
    const status s = avg_pool_backward<T>(output_delta, *core, input_delta, options);
    return translation::translate(s.error(), translation::avg_pool_names, "input_delta");
}

// -------------------------------------------------------------------------------------------- ConvolutionBackwardData

/// The shape of diff_src: the shape input, else the attribute; neither: missing_shape.
[[nodiscard]] constexpr result<extents> infer_ConvolutionBackwardData(
    const extents& diff_dst, const extents& weights, const shape_input& dst_shape,
    const ConvolutionBackwardData_attributes& attributes) noexcept {
    const auto core = translation::core_attributes(diff_dst, dst_shape, attributes);
    if (!core) return core.error();
    return translation::shapes(diff_dst, weights, *core, {}, 4);
}

/// A planned ConvolutionBackwardData. A value: copy it, share it between threads.
template <class T>
class ConvolutionBackwardData_plan
    : public translation::plan<convolution_backward_data_plan<T>, translation::convolution_names> {
public:
    using translation::plan<convolution_backward_data_plan<T>, translation::convolution_names>::plan;

    /// The gradient of a convolution's input, as convolution_backward_data_plan::run.
    [[nodiscard]] status run(const T* diff_dst, const T* weights, T* diff_src, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(diff_dst, weights, diff_src, workspace, executor);
    }
};

/// Plans ConvolutionBackwardData_plan::run. `diff_src` may be empty: dense in the inferred shape, which it must have
/// otherwise.
template <class T>
[[nodiscard]] result<ConvolutionBackwardData_plan<T>> plan_ConvolutionBackwardData(
    const tensor_layout& diff_dst, const tensor_layout& weights, const shape_input& dst_shape,
    const ConvolutionBackwardData_attributes& attributes, const tensor_layout& diff_src = {},
    const plan_options& options = {}) noexcept {
    const auto core = translation::core_attributes(diff_dst.shape, dst_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(diff_dst.shape, weights.shape, *core, diff_src.shape, sizeof(T));
    if (!shape) return shape.error();
    const auto plan = plan_convolution_backward_data<T>(diff_dst, weights, *core, diff_src, options);
    if (!plan) return translation::translate(plan.error(), translation::convolution_names, "diff_src");
    return ConvolutionBackwardData_plan<T>(*plan);
}

/// ConvolutionBackwardData in one call.
template <class T>
[[nodiscard]] status ConvolutionBackwardData(tensor_view<const T> diff_dst,
                                             std::type_identity_t<tensor_view<const T>> weights,
                                             const shape_input& dst_shape,
                                             const ConvolutionBackwardData_attributes& attributes,
                                             std::type_identity_t<tensor_view<T>> diff_src,
                                             const call_options& options = {}) noexcept {
    const auto core = translation::core_attributes(diff_dst.layout.shape, dst_shape, attributes);
    if (!core) return core.error();
    const auto shape =
        translation::shapes(diff_dst.layout.shape, weights.layout.shape, *core, diff_src.layout.shape, sizeof(T));
    if (!shape) return shape.error();
    const status s = convolution_backward_data<T>(diff_dst, weights, *core, diff_src, options);
    return translation::translate(s.error(), translation::convolution_names, "diff_src");
}

// --------------------------------------------------------------------------------------- ConvTransposeBackpropFilters

/// The shape of filter_delta: the shape input, else the attribute; neither: missing_shape.
[[nodiscard]] constexpr result<extents> infer_ConvTransposeBackpropFilters(
    const extents& input_forward, const extents& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& attributes) noexcept {
    const auto core = translation::core_attributes(input_forward, filter_shape, attributes);
    if (!core) return core.error();
    return translation::shapes(input_forward, output_delta, *core, {}, 4);
}

/// A planned ConvTransposeBackpropFilters; G is T, or float for 16-bit T. A value: copy it, share it between threads.
template <class T, class G = T>
class ConvTransposeBackpropFilters_plan
    : public translation::plan<conv_transpose_backward_weights_plan<T, G>, translation::conv_transpose_names> {
public:
    using translation::plan<conv_transpose_backward_weights_plan<T, G>, translation::conv_transpose_names>::plan;

    /// The gradient of a transposed convolution's filter, as conv_transpose_backward_weights_plan::run.
    [[nodiscard]] status run(const T* input_forward, const T* output_delta, G* filter_delta,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(input_forward, output_delta, filter_delta, workspace, executor);
    }
};

/// Plans ConvTransposeBackpropFilters_plan::run. `filter_delta` may be empty: dense in the inferred shape, which it
/// must have otherwise.
template <class T, class G = T>
[[nodiscard]] result<ConvTransposeBackpropFilters_plan<T, G>> plan_ConvTransposeBackpropFilters(
    const tensor_layout& input_forward, const tensor_layout& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& attributes, const tensor_layout& filter_delta = {},
    const plan_options& options = {}) noexcept {
    constexpr std::int64_t widest = sizeof(T) > sizeof(G) ? sizeof(T) : sizeof(G);
    const auto core = translation::core_attributes(input_forward.shape, filter_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(input_forward.shape, output_delta.shape, *core, filter_delta.shape, widest);
    if (!shape) return shape.error();
    const auto plan =
        plan_conv_transpose_backward_weights<T, G>(input_forward, output_delta, *core, filter_delta, options);
    if (!plan) return translation::translate(plan.error(), translation::conv_transpose_names, "filter_delta");
    return ConvTransposeBackpropFilters_plan<T, G>(*plan);
}

/// ConvTransposeBackpropFilters in one call.
template <class T, class G>
[[nodiscard]] status ConvTransposeBackpropFilters(tensor_view<const T> input_forward,
                                                  std::type_identity_t<tensor_view<const T>> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackpropFilters_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    constexpr std::int64_t widest = sizeof(T) > sizeof(G) ? sizeof(T) : sizeof(G);
    const auto core = translation::core_attributes(input_forward.layout.shape, filter_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(input_forward.layout.shape, output_delta.layout.shape, *core,
                                           filter_delta.layout.shape, widest);
    if (!shape) return shape.error();
    const status s = conv_transpose_backward_weights<T, G>(input_forward, output_delta, *core, filter_delta, options);
    return translation::translate(s.error(), translation::conv_transpose_names, "filter_delta");
}

// -------------------------------------------------------------------------------------------------------- other names

/// The same operators under their other names; arguments, attributes and the names in errors are those above.
using AvgPoolBackward_attributes = AvgPoolBackprop_attributes;
/// As AvgPoolBackward_attributes.
using ConvolutionBackpropData_attributes = ConvolutionBackwardData_attributes;
/// As AvgPoolBackward_attributes.
using ConvTransposeBackwardWeights_attributes = ConvTransposeBackpropFilters_attributes;
/// A planned AvgPoolBackward.
template <class T>
using AvgPoolBackward_plan = AvgPoolBackprop_plan<T>;
/// A planned ConvolutionBackpropData.
template <class T>
using ConvolutionBackpropData_plan = ConvolutionBackwardData_plan<T>;
/// A planned ConvTransposeBackwardWeights.
template <class T, class G = T>
using ConvTransposeBackwardWeights_plan = ConvTransposeBackpropFilters_plan<T, G>;

/// infer_AvgPoolBackprop.
[[nodiscard]] constexpr result<extents> infer_AvgPoolBackward(const extents& output_delta,
                                                              const shape_input& input_shape,
                                                              const AvgPoolBackward_attributes& attributes) noexcept {
    return infer_AvgPoolBackprop(output_delta, input_shape, attributes);
}
/// plan_AvgPoolBackprop.
template <class T>
[[nodiscard]] result<AvgPoolBackward_plan<T>> plan_AvgPoolBackward(const tensor_layout& output_delta,
                                                                   const shape_input& input_shape,
                                                                   const AvgPoolBackward_attributes& attributes,
                                                                   const tensor_layout& input_delta = {},
                                                                   const plan_options& options = {}) noexcept {
    return plan_AvgPoolBackprop<T>(output_delta, input_shape, attributes, input_delta, options);
}
/// AvgPoolBackprop.
template <class T>
[[nodiscard]] status AvgPoolBackward(tensor_view<const T> output_delta, const shape_input& input_shape,
                                     const AvgPoolBackward_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> input_delta,
                                     const call_options& options = {}) noexcept {
    return AvgPoolBackprop<T>(output_delta, input_shape, attributes, input_delta, options);
}

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
template <class T, class G>
[[nodiscard]] status ConvTransposeBackwardWeights(tensor_view<const T> input_forward,
                                                  std::type_identity_t<tensor_view<const T>> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackwardWeights_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    return ConvTransposeBackpropFilters<T, G>(input_forward, output_delta, filter_shape, attributes, filter_delta,
                                              options);
}

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
