// Reference convolution: forward, backward data and backward weights as plain loops, with the equations beside them.
//
// The same arguments, shapes and errors as convolution.hpp (overlapping tensors are not detected), also for double; no
// workspace, one thread. Sums are kept in accumulate_t of the first input (f32; f64 for double) in plain order, with one rounding at the
// end, and results are non-finite where those of the operators are. To check results against the bounds of
// accuracy.hpp, use `double`: a plain sum in f32 is less accurate than the operators, the more so the longer it is.
#pragma once

#include <cstdint>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref {

/// dst[n, g*OCg+oc, o] = bias[g*OCg+oc] + sum over ic, k of src[n, g*ICg+ic, p(o,k)] * weights(g*OCg+oc, ic, k).
template <class Src, class Weights, class Dst, class Bias = Weights>
[[nodiscard]] status convolution(tensor_view<const Src> src, std::type_identity_t<tensor_view<const Weights>> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, std::type_identity_t<tensor_view<Dst>> dst,
                                 const call_options& options = {}) noexcept {
    const auto p = shape::convolution_shapes(src.layout.shape, weights.layout.shape, attributes, dst.layout.shape, true,
                                             detail::widest_bytes<Src, Weights, Dst, Bias>, bias.layout.shape);
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
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t oc = 0; oc < p->groups * p->small_channels; ++oc) {
            const std::int64_t g = oc / p->small_channels;
            for_each_index(small_extent(*p), [&](const index3& o) {
                accumulate_t<Src> sum = 0;
                for (std::int64_t ic = 0; ic < p->large_channels; ++ic) {
                    for_each_tap(p->axes, o, [&](const index3& k, const index3& i) {
                        sum += x(n, g * p->large_channels + ic, i) * w(oc, ic, k);
                    });
                }
                store(y.at(n, oc, o), sum + bias_at<accumulate_t<Src>>(bias, oc), options.plan.output);
            });
        }
    }
    return {};
}

/// The same for tensors of one type T, and a bias of T or another type.
template <class T, class Bias = T>
[[nodiscard]] status convolution(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, std::type_identity_t<tensor_view<T>> dst,
                                 const call_options& options = {}) noexcept {
    return ref::convolution<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class Bias = typename Src::element_type>
[[nodiscard]] status convolution(const Src& src, tensor_view<const typename Src::element_type> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, tensor_view<typename Src::element_type> dst,
                                 const call_options& options = {}) noexcept {
    return ref::convolution<typename Src::element_type, Bias>(src, weights, bias, attributes, dst, options);
}

/// diff_src[n, g*ICg+ic, q] = sum over oc, (o, k) with p(o,k) = q of
/// diff_dst[n, g*OCg+oc, o] * weights(g*OCg+oc, ic, k).
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
[[nodiscard]] status convolution_backward_data(tensor_view<const DiffDst> diff_dst,
                                               std::type_identity_t<tensor_view<const Weights>> weights,
                                               const convolution_attributes& attributes,
                                               std::type_identity_t<tensor_view<DiffSrc>> diff_src,
                                               const call_options& options = {}) noexcept {
    const auto p = shape::convolution_backward_data_shapes(diff_dst.layout.shape, weights.layout.shape, attributes,
                                                           diff_src.layout.shape, true,
                                                           detail::widest_bytes<DiffDst, Weights, DiffSrc>);
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
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->groups * p->large_channels; ++c) {
            const std::int64_t g = c / p->large_channels;
            const std::int64_t ic = c % p->large_channels;
            for_each_index(large_extent(*p), [&](const index3& q) {
                accumulate_t<DiffDst> sum = 0;
                for (std::int64_t oc = g * p->small_channels; oc < (g + 1) * p->small_channels; ++oc) {
                    for_each_window(p->axes, q,
                                    [&](const index3& k, const index3& o) { sum += dy(n, oc, o) * w(oc, ic, k); });
                }
                store(dx.at(n, c, q), sum, options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status convolution_backward_data(const DiffDst& diff_dst,
                                               tensor_view<const typename DiffDst::element_type> weights,
                                               const convolution_attributes& attributes,
                                               tensor_view<typename DiffDst::element_type> diff_src,
                                               const call_options& options = {}) noexcept {
    return ref::convolution_backward_data<typename DiffDst::element_type>(diff_dst, weights, attributes, diff_src,
                                                                          options);
}

/// diff_weights(g*OCg+oc, ic, k) = sum over n, o of src[n, g*ICg+ic, p(o,k)] * diff_dst[n, g*OCg+oc, o].
template <class T, class G = T>
[[nodiscard]] status convolution_backward_weights(tensor_view<const T> src,
                                                  std::type_identity_t<tensor_view<const T>> diff_dst,
                                                  const convolution_attributes& attributes, tensor_view<G> diff_weights,
                                                  std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                  const call_options& options = {}) noexcept {
    const auto p = shape::convolution_backward_weights_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                              diff_weights.layout.shape, true,
                                                              detail::widest_bytes<T, G>, diff_bias.layout.shape);
    if (!p) return p.error();
    if (diff_weights.layout.empty()) diff_weights.layout.shape = p->weights_shape;
    const status s = check_arguments("convolution_backward_weights",
                                     {{"src", src.data, src.layout, sizeof(T)},
                                      {"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"diff_weights", diff_weights.data, diff_weights.layout, sizeof(G), true},
                                      {"diff_bias", diff_bias.data, diff_bias.layout, sizeof(G), true}},
                                     options.plan, detail::batch_use::summed, p->batch);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<G> dw{diff_weights.data,
                        shape::filter_strides(diff_weights.layout, attributes.weights_format, false)};
    const std::int64_t elements = shape::element_count(p->weights_shape);  // of one result
    for (std::int64_t oc = 0; oc < p->groups * p->small_channels; ++oc) {
        const std::int64_t g = oc / p->small_channels;
        for (std::int64_t ic = 0; ic < p->large_channels; ++ic) {
            for_each_index(kernel_extent(*p), [&](const index3& k) {
                for_each_result(p->batch, elements, options.plan, [&](auto first, auto last, auto offset) {
                    accumulate_t<T> sum = 0;
                    for (std::int64_t n = first; n < last; ++n) {
                        for_each_position(p->axes, k, [&](const index3& o, const index3& i) {
                            sum += x(n, g * p->large_channels + ic, i) * dy(n, oc, o);
                        });
                    }
                    store(dw.at(oc, ic, k) + offset, sum, options.plan.output);
                });
            });
        }
    }
    if (diff_bias.layout.empty()) return {};
    return ref::bias_backward(diff_dst, {.data_format = attributes.data_format}, diff_bias, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class G = typename Src::element_type>
[[nodiscard]] status convolution_backward_weights(const Src& src,
                                                  tensor_view<const typename Src::element_type> diff_dst,
                                                  const convolution_attributes& attributes, tensor_view<G> diff_weights,
                                                  std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                  const call_options& options = {}) noexcept {
    return ref::convolution_backward_weights<typename Src::element_type, G>(src, diff_dst, attributes, diff_weights,
                                                                            diff_bias, options);
}

}  // namespace ref
GRADKERN_ISA_NAMESPACE_END
