// Convolution: forward, backward data and backward weights. (The bias gradient is an output of the last one,
// and a separate operator in bias.hpp.)
//
// The whole convolution family is two engines. Each operator is one row; the large side is the bigger grid, the small
// side has one position per window (shape/convolution.hpp):
//
//     operator                          engine   reads                       writes      outputs lie on
//     convolution                       conv     src, weights, bias          dst         small side
//     convolution_backward_data         conv     diff_dst, weights           diff_src    large side
//     convolution_backward_weights      weights  src, diff_dst               weights     -
//     conv_transpose                    conv     src, weights, bias          dst         large side
//     conv_transpose_backward_data      conv     diff_dst, weights           diff_src    small side
//     conv_transpose_backward_weights   weights  diff_dst, src               weights     -
//     bias_backward                     sum      diff_dst                    diff_bias   -
//
// Each engine is a folder of detail/ with a table of its paths, whose files begin with their loops: conv/select.hpp for conv,
// conv_weights/select.hpp for weights; sum is bias/sums.hpp. What a plan may choose from is `algorithm` in options.hpp, what it
// has chosen says describe().
//
// Below, p(o, k) = o * stride - pads_begin + k * dilation on every spatial axis. Taps with p outside [0, I) are skipped, never
// multiplied by zero. g counts groups; ic and oc count the ICg and OCg channels of a group.
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

/// The shape of dst: floor((I + pads - Ke) / stride) + 1 on every axis, or ceil(I / stride) for same_*.
/// Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_convolution(const extents& src, const extents& weights,
                                                          const convolution_attributes& attributes) noexcept {
    const auto p = shape::convolution_shapes(src, weights, attributes, {}, false, 4);
    if (!p) return p.error();
    return p->small_shape;
}

/// A planned forward convolution. It is a value: copy it, and share it between threads.
template <class Src, class Weights = Src, class Dst = Src, class Bias = Weights>
class convolution_plan : public detail::conv_operator<Src, Weights, Dst, Bias> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    convolution_plan() noexcept : detail::conv_operator<Src, Weights, Dst, Bias>("convolution") {}

    /// dst[n, g*OCg+oc, o] = bias[g*OCg+oc] + sum over ic, k of src[n, g*ICg+ic, p(o,k)] * weights(g*OCg+oc, ic, k).
    ///
    /// Sums in accumulate_t<Src>, one rounding to Dst. `bias` is read if the plan has one, and ignored otherwise. The output
    /// must not overlap an input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const Src* src, const Weights* weights, const Bias* bias, Dst* dst,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(src, weights, bias, dst, workspace, executor);
    }

private:
    template <class S, class W, class D, class B>
    friend result<convolution_plan<S, W, D, B>> plan_convolution(const tensor_layout&, const tensor_layout&,
                                                                 const tensor_layout&, const convolution_attributes&,
                                                                 const tensor_layout&, const plan_options&) noexcept;
};

/// Plans convolution_plan::run. `bias` is (OC) or empty for none; `dst` may be empty: dense in the inferred shape.
/// Errors: those of the shape rules and of memory, in the order of shape/check.hpp.
///
/// Types: Weights and Dst are Src each, or float where Src has 16 bits; float weights have a float result. Bias is Src, or float where
/// Src has 16 bits. Sums have the same order whatever the types are, so a float result rounded to Src has the bits of a result of
/// Src, and 16-bit inputs beside float weights give the bits of the same inputs converted to float.
template <class Src, class Weights, class Dst, class Bias = Weights>
[[nodiscard]] result<convolution_plan<Src, Weights, Dst, Bias>> plan_convolution(
    const tensor_layout& src, const tensor_layout& weights, const tensor_layout& bias,
    const convolution_attributes& attributes, const tensor_layout& dst = {},
    const plan_options& options = {}) noexcept {
    const auto p = shape::convolution_shapes(src.shape, weights.shape, attributes, dst.shape, true,
                                             detail::widest_bytes<Src, Weights, Dst, Bias>, bias.shape);
    if (!p) return p.error();
    convolution_plan<Src, Weights, Dst, Bias> plan;
    const status s = plan.prepare({"src", "dst", src, weights, bias, dst}, *p, shape::side::small, false,
                                  attributes.data_format, attributes.weights_format, options);
    if (!s) return s.error();
    return plan;
}

/// The same for tensors of one type T, and a bias of T or, where T has 16 bits, of float.
template <class T, class Bias = T>
[[nodiscard]] result<convolution_plan<T, T, T, Bias>> plan_convolution(const tensor_layout& src,
                                                                       const tensor_layout& weights,
                                                                       const tensor_layout& bias,
                                                                       const convolution_attributes& attributes,
                                                                       const tensor_layout& dst = {},
                                                                       const plan_options& options = {}) noexcept {
    return plan_convolution<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// Forward convolution in one call: plan_convolution and run. `bias` is {} for none (its layout is empty).
template <class Src, class Weights, class Dst, class Bias = Weights>
[[nodiscard]] status convolution(tensor_view<const Src> src, std::type_identity_t<tensor_view<const Weights>> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, std::type_identity_t<tensor_view<Dst>> dst,
                                 const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_convolution<Src, Weights, Dst, Bias>(src.layout, weights.layout, bias.layout, attributes,
                                                             dst.layout, how);
        },
        src.data, weights.data, bias.data, dst.data);
}

/// The same for tensors of one type T, and a bias of T or, where T has 16 bits, of float.
template <class T, class Bias = T>
[[nodiscard]] status convolution(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, std::type_identity_t<tensor_view<T>> dst,
                                 const call_options& options = {}) noexcept {
    return convolution<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class Bias = typename Src::element_type>
[[nodiscard]] status convolution(const Src& src, tensor_view<const typename Src::element_type> weights,
                                 std::type_identity_t<tensor_view<const Bias>> bias,
                                 const convolution_attributes& attributes, tensor_view<typename Src::element_type> dst,
                                 const call_options& options = {}) noexcept {
    return convolution<typename Src::element_type, Bias>(src, weights, bias, attributes, dst, options);
}

// ------------------------------------------------------------------------------------------------------ backward data

/// The shape of diff_src: `diff_src` where given, else attributes.diff_src_shape, else the smallest size that fits plus
/// output_padding (same_*: O * stride). Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_convolution_backward_data(const extents& diff_dst, const extents& weights,
                                                                        const convolution_attributes& attributes,
                                                                        const extents& diff_src = {}) noexcept {
    const auto p = shape::convolution_backward_data_shapes(diff_dst, weights, attributes, diff_src, false, 4);
    if (!p) return p.error();
    return p->large_shape;
}

/// A planned data gradient of a convolution. It is a value: copy it, and share it between threads.
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
class convolution_backward_data_plan : public detail::conv_operator<DiffDst, Weights, DiffSrc, DiffDst> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    convolution_backward_data_plan() noexcept
        : detail::conv_operator<DiffDst, Weights, DiffSrc, DiffDst>("convolution_backward_data") {}

    /// diff_src[n, g*ICg+ic, q] = sum over oc, (o, k) with p(o,k) = q of
    /// diff_dst[n, g*OCg+oc, o] * weights(g*OCg+oc, ic, k).
    ///
    /// Positions that no window reaches become +0. Sums in accumulate_t<DiffDst>, one rounding to DiffSrc. The output must not
    /// overlap an input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const DiffDst* diff_dst, const Weights* weights, DiffSrc* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(diff_dst, weights, nullptr, diff_src, workspace, executor);
    }

private:
    template <class D, class W, class S>
    friend result<convolution_backward_data_plan<D, W, S>> plan_convolution_backward_data(const tensor_layout&,
                                                                                          const tensor_layout&,
                                                                                          const convolution_attributes&,
                                                                                          const tensor_layout&,
                                                                                          const plan_options&) noexcept;
};

/// Plans convolution_backward_data_plan::run. `diff_src` takes precedence over attributes.diff_src_shape; if it is empty, the
/// result is dense in the inferred shape, which may be another one than that of src: several sizes have as many windows.
/// Errors: those of the shape rules and of memory, in the order of shape/check.hpp.
///
/// Types: Weights and DiffSrc are DiffDst each, or float where DiffDst has 16 bits; float weights have a float result.
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
[[nodiscard]] result<convolution_backward_data_plan<DiffDst, Weights, DiffSrc>> plan_convolution_backward_data(
    const tensor_layout& diff_dst, const tensor_layout& weights, const convolution_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    const auto p = shape::convolution_backward_data_shapes(diff_dst.shape, weights.shape, attributes, diff_src.shape,
                                                           true, detail::widest_bytes<DiffDst, Weights, DiffSrc>);
    if (!p) return p.error();
    convolution_backward_data_plan<DiffDst, Weights, DiffSrc> plan;
    const status s = plan.prepare({"diff_dst", "diff_src", diff_dst, weights, {}, diff_src}, *p, shape::side::large,
                                  false, attributes.data_format, attributes.weights_format, options);
    if (!s) return s.error();
    return plan;
}

/// Data gradient of a convolution in one call.
template <class DiffDst, class Weights = DiffDst, class DiffSrc = DiffDst>
[[nodiscard]] status convolution_backward_data(tensor_view<const DiffDst> diff_dst,
                                               std::type_identity_t<tensor_view<const Weights>> weights,
                                               const convolution_attributes& attributes,
                                               std::type_identity_t<tensor_view<DiffSrc>> diff_src,
                                               const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_convolution_backward_data<DiffDst, Weights, DiffSrc>(diff_dst.layout, weights.layout,
                                                                             attributes, diff_src.layout, how);
        },
        diff_dst.data, weights.data, diff_src.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status convolution_backward_data(const DiffDst& diff_dst,
                                               tensor_view<const typename DiffDst::element_type> weights,
                                               const convolution_attributes& attributes,
                                               tensor_view<typename DiffDst::element_type> diff_src,
                                               const call_options& options = {}) noexcept {
    return convolution_backward_data<typename DiffDst::element_type>(diff_dst, weights, attributes, diff_src, options);
}

// --------------------------------------------------------------------------------------------------- backward weights

/// The shape of diff_weights: `diff_weights` where given, else attributes.diff_weights_shape; without both: missing_shape.
/// Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_convolution_backward_weights(const extents& src, const extents& diff_dst,
                                                                           const convolution_attributes& attributes,
                                                                           const extents& diff_weights = {}) noexcept {
    const auto p = shape::convolution_backward_weights_shapes(src, diff_dst, attributes, diff_weights, false, 4);
    if (!p) return p.error();
    return p->weights_shape;
}

/// A planned gradient of a convolution's weights, and of its bias if requested; G is T, or float for 16-bit T, which sums over
/// many calls need (output_mode::accumulate). It is a value: copy it, and share it between threads.
template <class T, class G = T>
class convolution_backward_weights_plan : public detail::weight_gradient_operator<T, G> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    convolution_backward_weights_plan() noexcept
        : detail::weight_gradient_operator<T, G>("convolution_backward_weights") {}

    /// diff_weights(g*OCg+oc, ic, k) = sum over n, o of src[n, g*ICg+ic, p(o,k)] * diff_dst[n, g*OCg+oc, o].
    ///
    /// The whole output is written, with zeros if N = 0. Sums in accumulate_t<T> by chunks, one rounding to G. The
    /// output must not overlap an input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* src, const T* diff_dst, G* diff_weights, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(src, diff_dst, diff_weights, nullptr, workspace, executor);
    }

    /// The same, and then diff_bias[c] = sum over n and all positions of diff_dst[n, c, position], with the bits of
    /// bias_backward. It must not overlap diff_weights. `diff_bias` is ignored if the plan was made without its
    /// layout.
    [[nodiscard]] status run(const T* src, const T* diff_dst, G* diff_weights, G* diff_bias,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(src, diff_dst, diff_weights, diff_bias, workspace, executor);
    }

private:
    template <class U, class H>
    friend result<convolution_backward_weights_plan<U, H>> plan_convolution_backward_weights(
        const tensor_layout&, const tensor_layout&, const convolution_attributes&, const tensor_layout&,
        const tensor_layout&, const plan_options&) noexcept;
};

/// Plans convolution_backward_weights_plan::run. `diff_weights` takes precedence over attributes.diff_weights_shape; without both:
/// missing_shape. `diff_bias` is (OC) with any stride but 0, or empty for none. Errors: those of the shape
/// rules and of memory, in the order of shape/check.hpp.
template <class T, class G = T>
[[nodiscard]] result<convolution_backward_weights_plan<T, G>> plan_convolution_backward_weights(
    const tensor_layout& src, const tensor_layout& diff_dst, const convolution_attributes& attributes,
    const tensor_layout& diff_weights = {}, const tensor_layout& diff_bias = {},
    const plan_options& options = {}) noexcept {
    const auto p = shape::convolution_backward_weights_shapes(src.shape, diff_dst.shape, attributes, diff_weights.shape,
                                                              true, detail::widest_bytes<T, G>, diff_bias.shape);
    if (!p) return p.error();
    convolution_backward_weights_plan<T, G> plan;
    const status s = plan.prepare({"src", "diff_dst", src, diff_dst, diff_weights, diff_bias}, *p, false,
                                  attributes.data_format, attributes.weights_format, options);
    if (!s) return s.error();
    return plan;
}

/// Weight gradient of a convolution in one call. If `diff_bias` is not an empty view, also that of the bias.
template <class T, class G = T>
[[nodiscard]] status convolution_backward_weights(tensor_view<const T> src,
                                                  std::type_identity_t<tensor_view<const T>> diff_dst,
                                                  const convolution_attributes& attributes, tensor_view<G> diff_weights,
                                                  std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                  const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_convolution_backward_weights<T, G>(src.layout, diff_dst.layout, attributes, diff_weights.layout,
                                                           diff_bias.layout, how);
        },
        src.data, diff_dst.data, diff_weights.data, diff_bias.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class G = typename Src::element_type>
[[nodiscard]] status convolution_backward_weights(const Src& src,
                                                  tensor_view<const typename Src::element_type> diff_dst,
                                                  const convolution_attributes& attributes, tensor_view<G> diff_weights,
                                                  std::type_identity_t<tensor_view<G>> diff_bias = {},
                                                  const call_options& options = {}) noexcept {
    return convolution_backward_weights<typename Src::element_type, G>(src, diff_dst, attributes, diff_weights,
                                                                       diff_bias, options);
}

GRADKERN_ISA_NAMESPACE_END
