// Average pooling: forward and backward.
//
// The large side is src, with positions p; the small side has one position o per window. A window covers the positions
//
//     p(o, k) = o * stride - pads_begin + k * dilation        on every spatial axis, taps k in [0, kernel)
//
// and only taps with p inside [0, I) exist: padding is never read. The divisor of a window is, in this order,
//
//     divisor_override                     where present (a negative one changes the sign)
//     the number of taps inside            where exclude_pad is true
//     the number of taps with p < I + pe   otherwise: taps before the input count, taps beyond the end padding do not
//
// converted to f32. A window without taps inside has the mean +0, and its gradient is dropped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/avg_pool/select.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/elements.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What both plans share, of all element types.
class average_operator {
public:
    /// A plan that was never made.
    explicit average_operator(std::string_view op) noexcept : op_(op) {}

    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        const avg_pool::plan_size size = avg_pool::size_of(plan_, workers);
        return workspace_for(size.slice_bytes, std::min<std::int64_t>(workers, size.tasks));
    }

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept {
        text_writer out(text);
        out << op_ << ": ";
        avg_pool::describe(plan_, out);
        return out.size();
    }

protected:
    /// Checks memory and plans a checked problem.
    template <class T>
    [[nodiscard]] status prepare(std::string_view in_name, std::string_view out_name, const tensor_layout& in,
                                 const tensor_layout& out, shape::side outputs, const shape::pooling_problem& p,
                                 const avg_pool_attributes& attributes, const plan_options& options) noexcept {
        require_elements<T>();
        const auto kind = simd::is_wide<T> ? avg_pool::element_kind::sums : avg_pool::element_kind::converted;
        return prepare(in_name, out_name, in, out, outputs, p, attributes, options, kind, sum_type_of<T>, sizeof(T));
    }

    template <class T, shape::side Outputs>
    [[nodiscard]] status execute(const T* in, T* out, std::span<std::byte> workspace,
                                 executor_ref executor) const noexcept {
        const status s = check_run(op_, {{&in_, in}, {&out_, out}}, workspace, workspace_bytes(1));
        if (!s) return s;
        if constexpr (takes_elements<T>) avg_pool::run_plan<T, Outputs>(plan_, in, out, workspace, executor);
        return {};
    }

private:
    [[nodiscard]] GRADKERN_NOINLINE status prepare(std::string_view in_name, std::string_view out_name,
                                                   const tensor_layout& in, tensor_layout out, shape::side outputs,
                                                   const shape::pooling_problem& p,
                                                   const avg_pool_attributes& attributes, const plan_options& options,
                                                   avg_pool::element_kind kind, const real_type& real,
                                                   std::int64_t element_bytes) noexcept {
        if (out.empty()) out.shape = outputs == shape::side::large ? p.large_shape : p.small_shape;
        shape::operator_checks checks(op_);
        check_options(checks, options);
        checks.addresses(in_name, in, element_bytes, false);
        checks.addresses(out_name, out, element_bytes, true);
        if (!checks.ok()) return checks.error();
        plan_ = plan_path(
            checks, avg_pool::paths,
            avg_pool::make_problem(p, outputs, attributes, shape::activation_strides(in, attributes.data_format),
                                   shape::activation_strides(out, attributes.data_format), kind, options, real),
            options);
        if (!checks.ok()) return checks.error();
        in_ = tensor_memory(in_name, in, element_bytes);
        out_ = tensor_memory(out_name, out, element_bytes);
        return {};
    }

    std::string_view op_{};
    tensor_memory in_{};
    tensor_memory out_{};
    avg_pool::plan plan_{};
};

}  // namespace detail

// ------------------------------------------------------------------------------------------------------------ forward

/// The shape of dst: the number of windows on every axis by rounding_type, or ceil(I / stride) for same_*.
/// Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_avg_pool(const extents& src,
                                                       const avg_pool_attributes& attributes) noexcept {
    const auto p = shape::avg_pool_shapes(src, attributes, {}, false, 4);
    if (!p) return p.error();
    return p->small_shape;
}

/// A planned average pool. It is a value: copy it, and share it between threads.
template <class T>
class avg_pool_plan : public detail::average_operator {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    avg_pool_plan() noexcept : detail::average_operator("avg_pool") {}

    /// dst[n, c, o] = (sum over inside taps k of src[n, c, p(o,k)]) / divisor(o); +0 for a window without inside taps.
    ///
    /// Sums in accumulate_t<T> in the order of detail/avg_pool/select.hpp; parts of 512 terms are added in f64; one
    /// rounding to T. The bits depend on shape and attributes alone. The output must not overlap the input. Errors:
    /// null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* src, T* dst, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return execute<T, shape::side::small>(src, dst, workspace, executor);
    }

private:
    template <class U>
    friend result<avg_pool_plan<U>> plan_avg_pool(const tensor_layout&, const avg_pool_attributes&,
                                                  const tensor_layout&, const plan_options&) noexcept;
};

/// Plans avg_pool_plan::run. `dst` may be empty: dense in the inferred shape. Errors: those of the shape rules and
/// of memory, in the order of shape/check.hpp.
template <class T>
[[nodiscard]] result<avg_pool_plan<T>> plan_avg_pool(const tensor_layout& src, const avg_pool_attributes& attributes,
                                                     const tensor_layout& dst = {},
                                                     const plan_options& options = {}) noexcept {
    const auto p = shape::avg_pool_shapes(src.shape, attributes, dst.shape, true, sizeof(T));
    if (!p) return p.error();
    avg_pool_plan<T> plan;
    const status s = plan.template prepare<T>("src", "dst", src, dst, shape::side::small, *p, attributes, options);
    if (!s) return s.error();
    return plan;
}

/// Average pool in one call: plan_avg_pool and run.
template <class T>
[[nodiscard]] status avg_pool(tensor_view<const T> src, const avg_pool_attributes& attributes,
                              std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options, [&](const plan_options& how) { return plan_avg_pool<T>(src.layout, attributes, dst.layout, how); },
        src.data, dst.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status avg_pool(const Src& src, const avg_pool_attributes& attributes,
                              tensor_view<typename Src::element_type> dst, const call_options& options = {}) noexcept {
    return avg_pool<typename Src::element_type>(src, attributes, dst, options);
}

// ----------------------------------------------------------------------------------------------------------- backward

/// The shape of diff_src: `diff_src` where given, else attributes.diff_src_shape; without both: missing_shape. It is never
/// inferred, since several sizes have the same number of windows. Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_avg_pool_backward(const extents& diff_dst,
                                                                const avg_pool_attributes& attributes,
                                                                const extents& diff_src = {}) noexcept {
    const auto p = shape::avg_pool_backward_shapes(diff_dst, attributes, diff_src, false, 4);
    if (!p) return p.error();
    return p->large_shape;
}

/// A planned gradient of an average pool. It is a value: copy it, and share it between threads.
template <class T>
class avg_pool_backward_plan : public detail::average_operator {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    avg_pool_backward_plan() noexcept : detail::average_operator("avg_pool_backward") {}

    /// diff_src[n, c, q] = sum over (o, k) with p(o,k) = q of diff_dst[n, c, o] / divisor(o).
    ///
    /// The whole output is written: positions that no window reaches become +0. Quotients and sums in accumulate_t<T> in
    /// the order of detail/avg_pool/select.hpp; parts of 512 terms are added in f64; one rounding to T. The bits depend
    /// on shape and attributes alone. The output must not overlap the input. Errors: null_pointer, invalid_argument
    /// (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* diff_dst, T* diff_src, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return execute<T, shape::side::large>(diff_dst, diff_src, workspace, executor);
    }

private:
    template <class U>
    friend result<avg_pool_backward_plan<U>> plan_avg_pool_backward(const tensor_layout&, const avg_pool_attributes&,
                                                                    const tensor_layout&, const plan_options&) noexcept;
};

/// Plans avg_pool_backward_plan::run. `diff_src` takes precedence over attributes.diff_src_shape; without both: missing_shape. Errors:
/// those of the shape rules and of memory, in the order of shape/check.hpp.
template <class T>
[[nodiscard]] result<avg_pool_backward_plan<T>> plan_avg_pool_backward(const tensor_layout& diff_dst,
                                                                       const avg_pool_attributes& attributes,
                                                                       const tensor_layout& diff_src = {},
                                                                       const plan_options& options = {}) noexcept {
    const auto p = shape::avg_pool_backward_shapes(diff_dst.shape, attributes, diff_src.shape, true, sizeof(T));
    if (!p) return p.error();
    avg_pool_backward_plan<T> plan;
    const status s = plan.template prepare<T>("diff_dst", "diff_src", diff_dst, diff_src, shape::side::large, *p,
                                              attributes, options);
    if (!s) return s.error();
    return plan;
}

/// Gradient of an average pool in one call.
template <class T>
[[nodiscard]] status avg_pool_backward(tensor_view<const T> diff_dst, const avg_pool_attributes& attributes,
                                       std::type_identity_t<tensor_view<T>> diff_src,
                                       const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_avg_pool_backward<T>(diff_dst.layout, attributes, diff_src.layout, how);
        },
        diff_dst.data, diff_src.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status avg_pool_backward(const DiffDst& diff_dst, const avg_pool_attributes& attributes,
                                       tensor_view<typename DiffDst::element_type> diff_src,
                                       const call_options& options = {}) noexcept {
    return avg_pool_backward<typename DiffDst::element_type>(diff_dst, attributes, diff_src, options);
}

GRADKERN_ISA_NAMESPACE_END
