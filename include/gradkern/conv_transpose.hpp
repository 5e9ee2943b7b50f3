// Transposed convolution: forward, backward data and backward weights. (The bias gradient is in bias.hpp.)
//
// The engines and their roles are in the table at the top of convolution.hpp. Here the large side is dst and the small
// side src. p(o, k) = o * stride - pads_begin + k * dilation is the position of dst that tap k of position o of src
// reaches. Taps with p outside dst are skipped, never multiplied by zero. g counts groups; ic and oc count the ICg and OCg
// channels of a group. The filter has all IC channels and divides OC by groups, the opposite of convolution.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/operator.hpp>
#include <gradkern/detail/conv_weights/operator.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN

// ------------------------------------------------------------------------------------------------------------ forward

/// The shape of dst: `dst` where given, else attributes.dst_shape, else stride * (O - 1) + Ke - pads + output_padding
/// on every axis (same_*: rule T of shape/padding.hpp). Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_conv_transpose(const extents& src, const extents& weights,
                                                             const conv_transpose_attributes& attributes,
                                                             const extents& dst = {}) noexcept {
    const auto p = shape::conv_transpose_shapes(src, weights, attributes, dst, false, 4);
    if (!p) return p.error();
    return p->large_shape;
}

/// A planned forward transposed convolution. It is a value: copy it, and share it between threads.
template <class Src, class Weights = Src, class Dst = Src, class Bias = Weights>
class conv_transpose_plan : public detail::conv_operator<Src, Weights, Dst, Bias> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    conv_transpose_plan() noexcept : detail::conv_operator<Src, Weights, Dst, Bias>("conv_transpose") {}

    /// dst[n, g*OCg+oc, q] = bias[g*OCg+oc] + sum over ic, (o, k) with p(o,k) = q of
    /// src[n, g*ICg+ic, o] * weights(oc, g*ICg+ic, k).
    ///
    /// Positions that no tap reaches become the bias, or +0. Sums in accumulate_t<Src>, one rounding to Dst. `bias` is read
    /// if the plan has one, and ignored otherwise. The output must not overlap an input. Errors: null_pointer,
    /// invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const Src* src, const Weights* weights, const Bias* bias, Dst* dst,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(src, weights, bias, dst, workspace, executor);
    }

private:
    template <class S, class W, class D, class B>
    friend result<conv_transpose_plan<S, W, D, B>> plan_conv_transpose(const tensor_layout&, const tensor_layout&,
                                                                       const tensor_layout&,
                                                                       const conv_transpose_attributes&,
                                                                       const tensor_layout&,
                                                                       const plan_options&) noexcept;
};

/// Plans conv_transpose_plan::run. `bias` is (OC) or empty for none; `dst` takes precedence over attributes.dst_shape; if it
/// is empty, the result is dense in the inferred shape. Errors: those of the shape rules and of memory, in the order of
/// shape/check.hpp.
///
/// Types: Weights and Dst are Src each, or float where Src has 16 bits; float weights have a float result. Bias is Src, or float where
/// Src has 16 bits. Sums have the same order whatever the types are, so a float result rounded to Src has the bits of a result of
/// Src, and 16-bit inputs beside float weights give the bits of the same inputs converted to float.
template <class Src, class Weights, class Dst, class Bias = Weights>
[[nodiscard]] result<conv_transpose_plan<Src, Weights, Dst, Bias>> plan_conv_transpose(
    const tensor_layout& src, const tensor_layout& weights, const tensor_layout& bias,
    const conv_transpose_attributes& attributes, const tensor_layout& dst = {},
    const plan_options& options = {}) noexcept {
    const auto p = shape::conv_transpose_shapes(src.shape, weights.shape, attributes, dst.shape, true,
                                                detail::widest_bytes<Src, Weights, Dst, Bias>, bias.shape);
    if (!p) return p.error();
    conv_transpose_plan<Src, Weights, Dst, Bias> plan;
    const status s = plan.prepare({"src", "dst", src, weights, bias, dst}, *p, shape::side::large, true,
                                  attributes.data_format, attributes.weights_format, options);
    if (!s) return s.error();
    return plan;
}

/// The same for tensors of one type T, and a bias of T or, where T has 16 bits, of float.
template <class T, class Bias = T>
[[nodiscard]] result<conv_transpose_plan<T, T, T, Bias>> plan_conv_transpose(
    const tensor_layout& src, const tensor_layout& weights, const tensor_layout& bias,
    const conv_transpose_attributes& attributes, const tensor_layout& dst = {},
    const plan_options& options = {}) noexcept {
    return plan_conv_transpose<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// Forward transposed convolution in one call: plan_conv_transpose and run. `bias` is {} for none (its layout is
/// empty).
template <class Src, class Weights, class Dst, class Bias = Weights>
[[nodiscard]] status conv_transpose(tensor_view<const Src> src,
                                    std::type_identity_t<tensor_view<const Weights>> weights,
                                    std::type_identity_t<tensor_view<const Bias>> bias,
                                    const conv_transpose_attributes& attributes,
                                    std::type_identity_t<tensor_view<Dst>> dst,
                                    const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_conv_transpose<Src, Weights, Dst, Bias>(src.layout, weights.layout, bias.layout, attributes,
                                                                dst.layout, how);
        },
        src.data, weights.data, bias.data, dst.data);
}

/// The same for tensors of one type T, and a bias of T or, where T has 16 bits, of float.
template <class T, class Bias = T>
[[nodiscard]] status conv_transpose(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> weights,
                                    std::type_identity_t<tensor_view<const Bias>> bias,
                                    const conv_transpose_attributes& attributes,
                                    std::type_identity_t<tensor_view<T>> dst,
                                    const call_options& options = {}) noexcept {
    return conv_transpose<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class Bias = typename Src::element_type>
[[nodiscard]] status conv_transpose(const Src& src, tensor_view<const typename Src::element_type> weights,
                                    std::type_identity_t<tensor_view<const Bias>> bias,
                                    const conv_transpose_attributes& attributes,
                                    tensor_view<typename Src::element_type> dst,
                                    const call_options& options = {}) noexcept {
    return conv_transpose<typename Src::element_type, Bias>(src, weights, bias, attributes, dst, options);
}

// ------------------------------------------------------------------------------------------------------ backward data

/// The shape of diff_src: `diff_src` where given, else attributes.diff_src_shape, else
/// floor((I - output_padding + pads - Ke) / stride) + 1 on every axis (same_*: ceil((I - output_padding) / stride)).
/// Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_conv_transpose_backward_data(const extents& diff_dst,
                                                                           const extents& weights,
                                                                           const conv_transpose_attributes& attributes,
                                                                           const extents& diff_src = {}) noexcept {
    const auto p = shape::conv_transpose_backward_data_shapes(diff_dst, weights, attributes, diff_src, false, 4);
    if (!p) return p.error();
    return p->small_shape;
}

/// A planned data gradient of a transposed convolution. It is a value: copy it, and share it between threads.
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
class conv_transpose_backward_data_plan : public detail::conv_operator<DiffDst, Weights, DiffSrc, DiffDst> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    conv_transpose_backward_data_plan() noexcept
        : detail::conv_operator<DiffDst, Weights, DiffSrc, DiffDst>("conv_transpose_backward_data") {}

    /// diff_src[n, g*ICg+ic, o] = sum over oc, k of diff_dst[n, g*OCg+oc, p(o,k)] * weights(oc, g*ICg+ic, k).
    ///
    /// Sums in accumulate_t<DiffDst>, one rounding to DiffSrc. The output must not overlap an input. Errors: null_pointer,
    /// invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const DiffDst* diff_dst, const Weights* weights, DiffSrc* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(diff_dst, weights, nullptr, diff_src, workspace, executor);
    }

private:
    template <class D, class W, class S>
    friend result<conv_transpose_backward_data_plan<D, W, S>> plan_conv_transpose_backward_data(
        const tensor_layout&, const tensor_layout&, const conv_transpose_attributes&, const tensor_layout&,
        const plan_options&) noexcept;
};

/// Plans conv_transpose_backward_data_plan::run. `diff_src` takes precedence over attributes.diff_src_shape; if it is empty, the
/// result is dense in the inferred shape. Errors: those of the shape rules and of memory, in the order of
/// shape/check.hpp.
///
/// Types: Weights and DiffSrc are DiffDst each, or float where DiffDst has 16 bits; float weights have a float result.
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
[[nodiscard]] result<conv_transpose_backward_data_plan<DiffDst, Weights, DiffSrc>> plan_conv_transpose_backward_data(
    const tensor_layout& diff_dst, const tensor_layout& weights, const conv_transpose_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    const auto p = shape::conv_transpose_backward_data_shapes(diff_dst.shape, weights.shape, attributes, diff_src.shape,
                                                              true, detail::widest_bytes<DiffDst, Weights, DiffSrc>);
    if (!p) return p.error();
    conv_transpose_backward_data_plan<DiffDst, Weights, DiffSrc> plan;
    const status s = plan.prepare({"diff_dst", "diff_src", diff_dst, weights, {}, diff_src}, *p, shape::side::small,
                                  true, attributes.data_format, attributes.weights_format, options);
    if (!s) return s.error();
    return plan;
}

/// Data gradient of a transposed convolution in one call.
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
[[nodiscard]] status conv_transpose_backward_data(tensor_view<const DiffDst> diff_dst,
                                                  std::type_identity_t<tensor_view<const Weights>> weights,
                                                  const conv_transpose_attributes& attributes,
                                                  std::type_identity_t<tensor_view<DiffSrc>> diff_src,
                                                  const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_conv_transpose_backward_data<DiffDst, Weights, DiffSrc>(diff_dst.layout, weights.layout,
                                                                                attributes, diff_src.layout, how);
        },
        diff_dst.data, weights.data, diff_src.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status conv_transpose_backward_data(const DiffDst& diff_dst,
                                                  tensor_view<const typename DiffDst::element_type> weights,
                                                  const conv_transpose_attributes& attributes,
                                                  tensor_view<typename DiffDst::element_type> diff_src,
                                                  const call_options& options = {}) noexcept {
    return conv_transpose_backward_data<typename DiffDst::element_type>(diff_dst, weights, attributes, diff_src,
                                                                        options);
}

// --------------------------------------------------------------------------------------------------- backward weights

/// The shape of diff_weights: `diff_weights` where given, else attributes.diff_weights_shape; without both: missing_shape.
/// Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_conv_transpose_backward_weights(
    const extents& src, const extents& diff_dst, const conv_transpose_attributes& attributes,
    const extents& diff_weights = {}) noexcept {
    const auto p = shape::conv_transpose_backward_weights_shapes(src, diff_dst, attributes, diff_weights, false, 4);
    if (!p) return p.error();
    return p->weights_shape;
}

/// A planned gradient of a transposed convolution's weights, and of its bias if requested; G is T, or float for 16-bit T, which
/// sums over many calls need (output_mode::accumulate). It is a value: copy it, and share it between threads.
template <class T, class G = T>
class conv_transpose_backward_weights_plan : public detail::weight_gradient_operator<T, G> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    conv_transpose_backward_weights_plan() noexcept
        : detail::weight_gradient_operator<T, G>("conv_transpose_backward_weights") {}

    /// diff_weights(oc, g*ICg+ic, k) = sum over n, o of src[n, g*ICg+ic, o] * diff_dst[n, g*OCg+oc, p(o,k)].
    ///
    /// The whole output is written, with zeros if N = 0. Sums in accumulate_t<T> by chunks, one rounding to G. The
    /// output must not overlap an input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* src, const T* diff_dst, G* diff_weights, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(diff_dst, src, diff_weights, nullptr, workspace, executor);
    }

    /// The same, and then diff_bias[c] = sum over n and all positions of diff_dst[n, c, position], with the bits of
    /// bias_backward. It must not overlap diff_weights. `diff_bias` is ignored if the plan was made without its
    /// layout.
    [[nodiscard]] status run(const T* src, const T* diff_dst, G* diff_weights, G* diff_bias,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(diff_dst, src, diff_weights, diff_bias, workspace, executor);
    }

private:
    template <class U, class H>
    friend result<conv_transpose_backward_weights_plan<U, H>> plan_conv_transpose_backward_weights(
        const tensor_layout&, const tensor_layout&, const conv_transpose_attributes&, const tensor_layout&,
        const tensor_layout&, const plan_options&) noexcept;
};

/// Plans conv_transpose_backward_weights_plan::run. `diff_weights` takes precedence over attributes.diff_weights_shape; without both:
/// missing_shape. `diff_bias` is (OC) with any stride but 0, or empty for none. Errors: those of the shape
/// rules and of memory, in the order of shape/check.hpp.
template <class T, class G = T>
[[nodiscard]] result<conv_transpose_backward_weights_plan<T, G>> plan_conv_transpose_backward_weights(
    const tensor_layout& src, const tensor_layout& diff_dst, const conv_transpose_attributes& attributes,
    const tensor_layout& diff_weights = {}, const tensor_layout& diff_bias = {},
    const plan_options& options = {}) noexcept {
    const auto p = shape::conv_transpose_backward_weights_shapes(
        src.shape, diff_dst.shape, attributes, diff_weights.shape, true, detail::widest_bytes<T, G>, diff_bias.shape);
    if (!p) return p.error();
    conv_transpose_backward_weights_plan<T, G> plan;
    const status s = plan.prepare({"diff_dst", "src", diff_dst, src, diff_weights, diff_bias}, *p, true,
                                  attributes.data_format, attributes.weights_format, options);
    if (!s) return s.error();
    return plan;
}

/// Weight gradient of a transposed convolution in one call. If `diff_bias` is not an empty view, also that of the
/// bias.
template <class T, class G = T>
[[nodiscard]] status conv_transpose_backward_weights(tensor_view<const T> src,
                                                     std::type_identity_t<tensor_view<const T>> diff_dst,
                                                     const conv_transpose_attributes& attributes,
                                                     tensor_view<G> diff_weights,
                                                     std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                     const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_conv_transpose_backward_weights<T, G>(src.layout, diff_dst.layout, attributes,
                                                              diff_weights.layout, diff_bias.layout, how);
        },
        src.data, diff_dst.data, diff_weights.data, diff_bias.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class G = typename Src::element_type>
[[nodiscard]] status conv_transpose_backward_weights(const Src& src,
                                                     tensor_view<const typename Src::element_type> diff_dst,
                                                     const conv_transpose_attributes& attributes,
                                                     tensor_view<G> diff_weights,
                                                     std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                     const call_options& options = {}) noexcept {
    return conv_transpose_backward_weights<typename Src::element_type, G>(src, diff_dst, attributes, diff_weights,
                                                                          diff_bias, options);
}

GRADKERN_ISA_NAMESPACE_END
