// Pooling under the names of the oneDNN Graph documents (see ../onednn_graph.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include <gradkern/avg_pool.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/requests.hpp>
#include <gradkern/frontend/onednn_graph/translation.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/options.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

// ------------------------------------------------------------------------------------------------------------- AvgPool

/// The shape of dst.
[[nodiscard]] constexpr result<extents> infer_AvgPool(const extents& src,
                                                      const AvgPool_attributes& attributes) noexcept {
    return translation::result_of(translation::AvgPool_request(src, attributes, 4));
}

/// Planned means of windows: run(src, dst, workspace, executor), as avg_pool_plan.
template <class T>
using AvgPool_plan = translation::plan<avg_pool_plan<T>, translation::AvgPool_names, const T*, T*>;

/// Plans AvgPool_plan. `dst` is of the inferred shape, or empty for a dense one.
template <class T>
[[nodiscard]] result<AvgPool_plan<T>> plan_AvgPool(const tensor_layout& src, const AvgPool_attributes& attributes,
                                                   const tensor_layout& dst = {},
                                                   const plan_options& options = {}) noexcept {
    const auto q = translation::AvgPool_request(src.shape, attributes, translation::widest<T>, dst.shape);
    if (!q) return q.error();
    return AvgPool_plan<T>::of(plan_avg_pool<T>(src, q->attributes, dst, options));
}

/// AvgPool in one call.
template <class T>
[[nodiscard]] status AvgPool(tensor_view<const T> src, const AvgPool_attributes& attributes,
                             std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options, [&](const plan_options& how) { return plan_AvgPool<T>(src.layout, attributes, dst.layout, how); },
        src.data, dst.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status AvgPool(const Src& src, const AvgPool_attributes& attributes,
                             tensor_view<typename Src::element_type> dst, const call_options& options = {}) noexcept {
    return AvgPool<typename Src::element_type>(src, attributes, dst, options);
}

// ----------------------------------------------------------------------------------------------------- AvgPoolBackprop

/// The shape of input_delta: the shape input, else the attribute; without both: missing_shape.
[[nodiscard]] constexpr result<extents> infer_AvgPoolBackprop(const extents& output_delta,
                                                              const shape_input& input_shape,
                                                              const AvgPoolBackprop_attributes& attributes) noexcept {
    return translation::result_of(translation::AvgPoolBackprop_request(output_delta, input_shape, attributes, 4));
}

/// Planned gradient of AvgPool: run(output_delta, input_delta, workspace, executor), as avg_pool_backward_plan.
template <class T>
using AvgPoolBackprop_plan =
    translation::plan<avg_pool_backward_plan<T>, translation::AvgPoolBackprop_names, const T*, T*>;

/// Plans AvgPoolBackprop_plan. `input_delta` is of the inferred shape, or empty for a dense one.
template <class T>
[[nodiscard]] result<AvgPoolBackprop_plan<T>> plan_AvgPoolBackprop(const tensor_layout& output_delta,
                                                                   const shape_input& input_shape,
                                                                   const AvgPoolBackprop_attributes& attributes,
                                                                   const tensor_layout& input_delta = {},
                                                                   const plan_options& options = {}) noexcept {
    const auto q = translation::AvgPoolBackprop_request(output_delta.shape, input_shape, attributes,
                                                        translation::widest<T>, input_delta.shape);
    if (!q) return q.error();
    return AvgPoolBackprop_plan<T>::of(plan_avg_pool_backward<T>(output_delta, q->attributes, input_delta, options));
}

/// AvgPoolBackprop in one call.
template <class T>
[[nodiscard]] status AvgPoolBackprop(tensor_view<const T> output_delta, const shape_input& input_shape,
                                     const AvgPoolBackprop_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> input_delta,
                                     const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_AvgPoolBackprop<T>(output_delta.layout, input_shape, attributes, input_delta.layout, how);
        },
        output_delta.data, input_delta.data);
}

/// The same for a `output_delta` that is a view of mutable elements.
template <mutable_view OutputDelta>
[[nodiscard]] status AvgPoolBackprop(const OutputDelta& output_delta, const shape_input& input_shape,
                                     const AvgPoolBackprop_attributes& attributes,
                                     tensor_view<typename OutputDelta::element_type> input_delta,
                                     const call_options& options = {}) noexcept {
    return AvgPoolBackprop<typename OutputDelta::element_type>(output_delta, input_shape, attributes, input_delta,
                                                               options);
}

/// The other name of AvgPoolBackprop. Errors use the names of that one.
using AvgPoolBackward_attributes = AvgPoolBackprop_attributes;
/// AvgPoolBackprop_plan.
template <class T>
using AvgPoolBackward_plan = AvgPoolBackprop_plan<T>;
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

/// The same for a `output_delta` that is a view of mutable elements.
template <mutable_view OutputDelta>
[[nodiscard]] status AvgPoolBackward(const OutputDelta& output_delta, const shape_input& input_shape,
                                     const AvgPoolBackward_attributes& attributes,
                                     tensor_view<typename OutputDelta::element_type> input_delta,
                                     const call_options& options = {}) noexcept {
    return AvgPoolBackward<typename OutputDelta::element_type>(output_delta, input_shape, attributes, input_delta,
                                                               options);
}

// ------------------------------------------------------------------------------------------------------------- MaxPool

namespace translation {

/// max_pool_plan without indices, which the documents do not have.
template <class T>
class max_pool_values : public max_pool_plan<T> {
public:
    max_pool_values() noexcept = default;
    explicit max_pool_values(const max_pool_plan<T>& core) noexcept : max_pool_plan<T>(core) {}
    /// max_pool_plan::run without indices.
    [[nodiscard]] status run(const T* src, T* dst, std::span<std::byte> workspace,
                             executor_ref executor) const noexcept {
        return max_pool_plan<T>::run(src, dst, nullptr, workspace, executor);
    }
};

}  // namespace translation

/// The shape of dst.
[[nodiscard]] constexpr result<extents> infer_MaxPool(const extents& src,
                                                      const MaxPool_attributes& attributes) noexcept {
    return translation::result_of(translation::MaxPool_request(src, attributes, 4));
}

/// Planned maxima of windows: run(src, dst, workspace, executor), as max_pool_plan.
template <class T>
using MaxPool_plan = translation::plan<translation::max_pool_values<T>, translation::MaxPool_names, const T*, T*>;

/// Plans MaxPool_plan. `dst` is of the inferred shape, or empty for a dense one.
template <class T>
[[nodiscard]] result<MaxPool_plan<T>> plan_MaxPool(const tensor_layout& src, const MaxPool_attributes& attributes,
                                                   const tensor_layout& dst = {},
                                                   const plan_options& options = {}) noexcept {
    using values = translation::max_pool_values<T>;
    const auto q = translation::MaxPool_request(src.shape, attributes, translation::widest<T>, dst.shape);
    if (!q) return q.error();
    const auto core = plan_max_pool<T>(src, q->attributes, dst, {}, options);
    return MaxPool_plan<T>::of(core ? result<values>(values(*core)) : result<values>(core.error()));
}

/// MaxPool in one call.
template <class T>
[[nodiscard]] status MaxPool(tensor_view<const T> src, const MaxPool_attributes& attributes,
                             std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options, [&](const plan_options& how) { return plan_MaxPool<T>(src.layout, attributes, dst.layout, how); },
        src.data, dst.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status MaxPool(const Src& src, const MaxPool_attributes& attributes,
                             tensor_view<typename Src::element_type> dst, const call_options& options = {}) noexcept {
    return MaxPool<typename Src::element_type>(src, attributes, dst, options);
}

// ----------------------------------------------------------------------------------------------------- MaxPoolBackward

/// The shape of diff_src: that of src.
[[nodiscard]] constexpr result<extents> infer_MaxPoolBackward(const extents& src, const extents& diff_dst,
                                                              const MaxPoolBackward_attributes& attributes) noexcept {
    return translation::result_of(translation::MaxPoolBackward_request(src, diff_dst, attributes, 4));
}

/// Planned gradient of MaxPool: run(src, diff_dst, diff_src, workspace, executor), as max_pool_backward_plan.
template <class T>
using MaxPoolBackward_plan =
    translation::plan<max_pool_backward_plan<T>, translation::MaxPoolBackward_names, const T*, const T*, T*>;

/// Plans MaxPoolBackward_plan. `diff_src` is of the shape of src, or empty for a dense one.
template <class T>
[[nodiscard]] result<MaxPoolBackward_plan<T>> plan_MaxPoolBackward(const tensor_layout& src,
                                                                   const tensor_layout& diff_dst,
                                                                   const MaxPoolBackward_attributes& attributes,
                                                                   const tensor_layout& diff_src = {},
                                                                   const plan_options& options = {}) noexcept {
    const auto q = translation::MaxPoolBackward_request(src.shape, diff_dst.shape, attributes, translation::widest<T>,
                                                        diff_src.shape);
    if (!q) return q.error();
    return MaxPoolBackward_plan<T>::of(plan_max_pool_backward<T>(src, diff_dst, q->attributes, diff_src, options));
}

/// MaxPoolBackward in one call.
template <class T>
[[nodiscard]] status MaxPoolBackward(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> diff_dst,
                                     const MaxPoolBackward_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> diff_src,
                                     const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_MaxPoolBackward<T>(src.layout, diff_dst.layout, attributes, diff_src.layout, how);
        },
        src.data, diff_dst.data, diff_src.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status MaxPoolBackward(const Src& src, tensor_view<const typename Src::element_type> diff_dst,
                                     const MaxPoolBackward_attributes& attributes,
                                     tensor_view<typename Src::element_type> diff_src,
                                     const call_options& options = {}) noexcept {
    return MaxPoolBackward<typename Src::element_type>(src, diff_dst, attributes, diff_src, options);
}

/// The other name of MaxPoolBackward. Errors use the names of that one.
using MaxPoolBackprop_attributes = MaxPoolBackward_attributes;
/// MaxPoolBackward_plan.
template <class T>
using MaxPoolBackprop_plan = MaxPoolBackward_plan<T>;
/// infer_MaxPoolBackward.
[[nodiscard]] constexpr result<extents> infer_MaxPoolBackprop(const extents& src, const extents& diff_dst,
                                                              const MaxPoolBackprop_attributes& attributes) noexcept {
    return infer_MaxPoolBackward(src, diff_dst, attributes);
}
/// plan_MaxPoolBackward.
template <class T>
[[nodiscard]] result<MaxPoolBackprop_plan<T>> plan_MaxPoolBackprop(const tensor_layout& src,
                                                                   const tensor_layout& diff_dst,
                                                                   const MaxPoolBackprop_attributes& attributes,
                                                                   const tensor_layout& diff_src = {},
                                                                   const plan_options& options = {}) noexcept {
    return plan_MaxPoolBackward<T>(src, diff_dst, attributes, diff_src, options);
}
/// MaxPoolBackward.
template <class T>
[[nodiscard]] status MaxPoolBackprop(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> diff_dst,
                                     const MaxPoolBackprop_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> diff_src,
                                     const call_options& options = {}) noexcept {
    return MaxPoolBackward<T>(src, diff_dst, attributes, diff_src, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status MaxPoolBackprop(const Src& src, tensor_view<const typename Src::element_type> diff_dst,
                                     const MaxPoolBackprop_attributes& attributes,
                                     tensor_view<typename Src::element_type> diff_src,
                                     const call_options& options = {}) noexcept {
    return MaxPoolBackprop<typename Src::element_type>(src, diff_dst, attributes, diff_src, options);
}

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
