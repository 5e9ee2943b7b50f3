// Exact convolution: forward, backward data and backward weights. Each output is the correctly rounded value of its equation.
//
// The same arguments, shapes and errors as ref/convolution.hpp, and every operand may have a type of its own: f32, f16, bf16 or f64. The
// result may also be an `accumulator`: the exact sum, to be added to others. Memory for packed copies of both inputs comes from the heap;
// std::bad_alloc passes through.
#pragma once

#include <cstdint>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/bias.hpp>
#include <gradkern/ref/exact/detail/contractions.hpp>
#include <gradkern/ref/exact/detail/store.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact {

/// dst[n, g*OCg+oc, o] = bias[g*OCg+oc] + sum over ic, k of src[n, g*ICg+ic, p(o,k)] * weights(g*OCg+oc, ic, k), rounded once.
template <class Src, class Weights, class Dst, class Bias = Weights>
[[nodiscard]] status convolution(tensor_view<const Src> src, std::type_identity_t<tensor_view<const Weights>> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, std::type_identity_t<tensor_view<Dst>> dst,
                                 const call_options& options = {}) {
    const auto p =
        shape::convolution_shapes(src.layout.shape, weights.layout.shape, attributes, dst.layout.shape, true,
                                  gradkern::detail::widest_bytes<Src, Weights, Dst, Bias>, bias.layout.shape);
    if (!p) return p.error();
    if (dst.layout.empty()) dst.layout.shape = p->small_shape;
    const status s = check_arguments("convolution",
                                     {{"src", src.data, src.layout, sizeof(Src)},
                                      {"weights", weights.data, weights.layout, sizeof(Weights)},
                                      {"bias", bias.data, bias.layout, sizeof(Bias)},
                                      {"dst", dst.data, dst.layout, sizeof(Dst), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const Src> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<const Weights> w{weights.data,
                                   shape::filter_strides(weights.layout, attributes.weights_format, false)};
    const tensor5<Dst> y{dst.data, shape::activation_strides(dst.layout, attributes.data_format)};
    detail::contract<shape::side::small>(*p, x, w,
                                         [&](std::int64_t n, std::int64_t oc, const index3& o, accumulator& sum) {
                                             if (!bias.layout.empty())
                                                 sum.add(bias.data[oc * shape::strides_of(bias.layout)[0]]);
                                             detail::store_sum(y.at(n, oc, o), sum, options.plan.output);
                                         });
    return {};
}

/// The same for tensors of one type T, and a bias of T or another type.
template <class T, class Bias = T>
[[nodiscard]] status convolution(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, std::type_identity_t<tensor_view<T>> dst,
                                 const call_options& options = {}) {
    return exact::convolution<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class Bias = typename Src::element_type>
[[nodiscard]] status convolution(const Src& src, tensor_view<const typename Src::element_type> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, tensor_view<typename Src::element_type> dst,
                                 const call_options& options = {}) {
    return exact::convolution<typename Src::element_type, Bias>(src, weights, bias, attributes, dst, options);
}

/// diff_src[n, g*ICg+ic, q] = sum over oc, (o, k) with p(o,k) = q of
/// diff_dst[n, g*OCg+oc, o] * weights(g*OCg+oc, ic, k), rounded once.
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
[[nodiscard]] status convolution_backward_data(tensor_view<const DiffDst> diff_dst,
                                               std::type_identity_t<tensor_view<const Weights>> weights,
                                               const convolution_attributes& attributes,
                                               std::type_identity_t<tensor_view<DiffSrc>> diff_src,
                                               const call_options& options = {}) {
    const auto p = shape::convolution_backward_data_shapes(diff_dst.layout.shape, weights.layout.shape, attributes,
                                                           diff_src.layout.shape, true,
                                                           gradkern::detail::widest_bytes<DiffDst, Weights, DiffSrc>);
    if (!p) return p.error();
    if (diff_src.layout.empty()) diff_src.layout.shape = p->large_shape;
    const status s = check_arguments("convolution_backward_data",
                                     {{"diff_dst", diff_dst.data, diff_dst.layout, sizeof(DiffDst)},
                                      {"weights", weights.data, weights.layout, sizeof(Weights)},
                                      {"diff_src", diff_src.data, diff_src.layout, sizeof(DiffSrc), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const DiffDst> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<const Weights> w{weights.data,
                                   shape::filter_strides(weights.layout, attributes.weights_format, false)};
    const tensor5<DiffSrc> dx{diff_src.data, shape::activation_strides(diff_src.layout, attributes.data_format)};
    detail::contract<shape::side::large>(*p, dy, w,
                                         [&](std::int64_t n, std::int64_t c, const index3& q, const accumulator& sum) {
                                             detail::store_sum(dx.at(n, c, q), sum, options.plan.output);
                                         });
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst, class Weights = typename DiffDst::element_type,
          class Dst = typename DiffDst::element_type>
[[nodiscard]] status convolution_backward_data(const DiffDst& diff_dst,
                                               std::type_identity_t<tensor_view<const Weights>> weights,
                                               const convolution_attributes& attributes,
                                               std::type_identity_t<tensor_view<Dst>> diff_src,
                                               const call_options& options = {}) {
    return exact::convolution_backward_data<typename DiffDst::element_type, Weights, Dst>(diff_dst, weights, attributes,
                                                                                          diff_src, options);
}

/// diff_weights(g*OCg+oc, ic, k) = sum over n, o of src[n, g*ICg+ic, p(o,k)] * diff_dst[n, g*OCg+oc, o], rounded once to G, which may be
/// `accumulator`; and diff_bias, if given, as bias_backward.
template <class T, class G = T, class DiffDst = T>
[[nodiscard]] status convolution_backward_weights(tensor_view<const T> src,
                                                  std::type_identity_t<tensor_view<const DiffDst>> diff_dst,
                                                  const convolution_attributes& attributes, tensor_view<G> diff_weights,
                                                  std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                  const call_options& options = {}) {
    const auto p = shape::convolution_backward_weights_shapes(
        src.layout.shape, diff_dst.layout.shape, attributes, diff_weights.layout.shape, true,
        gradkern::detail::widest_bytes<T, G, DiffDst>, diff_bias.layout.shape);
    if (!p) return p.error();
    if (diff_weights.layout.empty()) diff_weights.layout.shape = p->weights_shape;
    const status s = check_arguments("convolution_backward_weights",
                                     {{"src", src.data, src.layout, sizeof(T)},
                                      {"diff_dst", diff_dst.data, diff_dst.layout, sizeof(DiffDst)},
                                      {"diff_weights", diff_weights.data, diff_weights.layout, sizeof(G), true},
                                      {"diff_bias", diff_bias.data, diff_bias.layout, sizeof(G), true}},
                                     options.plan, gradkern::detail::batch_use::summed, p->batch);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<const DiffDst> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<G> dw{diff_weights.data,
                        shape::filter_strides(diff_weights.layout, attributes.weights_format, false)};
    detail::contract_results(
        *p, options.plan, x, dy,
        [&](std::int64_t oc, std::int64_t ic, const index3& k, std::int64_t offset, const accumulator& sum) {
            detail::store_sum(dw.at(oc, ic, k) + offset, sum, options.plan.output);
        });
    if (diff_bias.layout.empty()) return {};
    return exact::bias_backward<DiffDst, G>(diff_dst, {.data_format = attributes.data_format}, diff_bias, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class G = typename Src::element_type, class DiffDst = typename Src::element_type>
[[nodiscard]] status convolution_backward_weights(const Src& src,
                                                  std::type_identity_t<tensor_view<const DiffDst>> diff_dst,
                                                  const convolution_attributes& attributes, tensor_view<G> diff_weights,
                                                  std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                  const call_options& options = {}) {
    return exact::convolution_backward_weights<typename Src::element_type, G, DiffDst>(
        src, diff_dst, attributes, diff_weights, diff_bias, options);
}

}  // namespace ref::exact
GRADKERN_ISA_NAMESPACE_END
