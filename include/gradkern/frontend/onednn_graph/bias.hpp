// The gradient of a bias under the names of the oneDNN Graph documents (see ../onednn_graph.hpp).
#pragma once

#include <gradkern/bias.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/frontend/onednn_graph/requests.hpp>
#include <gradkern/frontend/onednn_graph/translation.hpp>
#include <gradkern/options.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

// ----------------------------------------------------------------------------------------------------- BiasAddBackward

/// The shape of diff_bias: (C).
[[nodiscard]] constexpr result<extents> infer_BiasAddBackward(const extents& diff_dst,
                                                              const BiasAddBackward_attributes& attributes) noexcept {
    return translation::result_of(translation::BiasAddBackward_request(diff_dst, attributes, 4));
}

/// Planned gradient of a bias: run(diff_dst, diff_bias, workspace, executor), as bias_backward_plan. G is T, or float
/// for 16-bit T.
template <class T, class G = T>
using BiasAddBackward_plan =
    translation::plan<bias_backward_plan<T, G>, translation::BiasAddBackward_names, const T*, G*>;

/// Plans BiasAddBackward_plan. `diff_bias` is of the inferred shape, or empty for a dense one.
template <class T, class G = T>
[[nodiscard]] result<BiasAddBackward_plan<T, G>> plan_BiasAddBackward(const tensor_layout& diff_dst,
                                                                      const BiasAddBackward_attributes& attributes,
                                                                      const tensor_layout& diff_bias = {},
                                                                      const plan_options& options = {}) noexcept {
    const auto q =
        translation::BiasAddBackward_request(diff_dst.shape, attributes, translation::widest<T, G>, diff_bias.shape);
    if (!q) return q.error();
    return BiasAddBackward_plan<T, G>::of(plan_bias_backward<T, G>(diff_dst, q->attributes, diff_bias, options));
}

/// BiasAddBackward in one call.
template <class T, class G = T>
[[nodiscard]] status BiasAddBackward(tensor_view<const T> diff_dst, const BiasAddBackward_attributes& attributes,
                                     tensor_view<G> diff_bias, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_BiasAddBackward<T, G>(diff_dst.layout, attributes, diff_bias.layout, how);
        },
        diff_dst.data, diff_bias.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst, class G = typename DiffDst::element_type>
[[nodiscard]] status BiasAddBackward(const DiffDst& diff_dst, const BiasAddBackward_attributes& attributes,
                                     tensor_view<G> diff_bias, const call_options& options = {}) noexcept {
    return BiasAddBackward<typename DiffDst::element_type, G>(diff_dst, attributes, diff_bias, options);
}

/// The other name of BiasAddBackward. Errors use the names of that one.
using BiasAddBackprop_attributes = BiasAddBackward_attributes;
/// BiasAddBackward_plan.
template <class T, class G = T>
using BiasAddBackprop_plan = BiasAddBackward_plan<T, G>;
/// infer_BiasAddBackward.
[[nodiscard]] constexpr result<extents> infer_BiasAddBackprop(const extents& diff_dst,
                                                              const BiasAddBackprop_attributes& attributes) noexcept {
    return infer_BiasAddBackward(diff_dst, attributes);
}
/// plan_BiasAddBackward.
template <class T, class G = T>
[[nodiscard]] result<BiasAddBackprop_plan<T, G>> plan_BiasAddBackprop(const tensor_layout& diff_dst,
                                                                      const BiasAddBackprop_attributes& attributes,
                                                                      const tensor_layout& diff_bias = {},
                                                                      const plan_options& options = {}) noexcept {
    return plan_BiasAddBackward<T, G>(diff_dst, attributes, diff_bias, options);
}
/// BiasAddBackward.
template <class T, class G = T>
[[nodiscard]] status BiasAddBackprop(tensor_view<const T> diff_dst, const BiasAddBackprop_attributes& attributes,
                                     tensor_view<G> diff_bias, const call_options& options = {}) noexcept {
    return BiasAddBackward<T, G>(diff_dst, attributes, diff_bias, options);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst, class G = typename DiffDst::element_type>
[[nodiscard]] status BiasAddBackprop(const DiffDst& diff_dst, const BiasAddBackprop_attributes& attributes,
                                     tensor_view<G> diff_bias, const call_options& options = {}) noexcept {
    return BiasAddBackprop<typename DiffDst::element_type, G>(diff_dst, attributes, diff_bias, options);
}

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
