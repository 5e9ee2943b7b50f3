// Lp pooling with p = 2: the Euclidean norms of windows, and their gradient.
//
// Windows are those of average pooling (avg_pool.hpp): window o covers the positions
//
//     p(o, k) = o * stride - pads_begin + k * dilation        on every spatial axis, taps k in [0, kernel)
//
// and only taps with p inside [0, I) exist: padding is never read. A window without taps inside has the norm +0.
//
//     lp_pool            src                 -> dst
//     lp_pool_backward   src, dst, diff_dst  -> diff_src      dst: what lp_pool computed
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/lp_pool/problem.hpp>
#include <gradkern/detail/lp_pool/select.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/elements.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/detail/run/tensor_memory.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What the plans of lp_pool and lp_pool_backward share.
class lp_operator {
public:
    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        return workspace_for(plan_.slice_bytes, std::min<std::int64_t>(workers, plan_.tasks()));
    }

protected:
    std::size_t describe_as(std::string_view op, std::span<char> text) const noexcept {
        text_writer out(text);
        out << op << ": " << name_of(plan_.name) << ", " << plan_.panels << " panels of "
            << lp_pool::panel_width(plan_.real.lanes) << " lanes, " << plan_.tasks() << " tasks, " << plan_.slice_bytes
            << " bytes a worker, " << isa_name;
        return out.size();
    }

    lp_pool::plan plan_{};
};

}  // namespace detail

// ------------------------------------------------------------------------------------------------------------ forward

/// The shape of dst: the number of windows on every axis by rounding_type, or ceil(I / stride) for same_*. Sizes in bytes
/// are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_lp_pool(const extents& src,
                                                      const lp_pool_attributes& attributes) noexcept {
    const auto p = shape::lp_pool_shapes(src, attributes, {}, 4);
    if (!p) return p.error();
    return p->small_shape;
}

/// A planned Lp pool. It is a value: copy it, and share it between threads.
template <class T>
class lp_pool_plan : public detail::lp_operator {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    lp_pool_plan() noexcept = default;

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept { return this->describe_as("lp_pool", text); }

    /// dst[n, c, o] = sqrt(sum over inside taps k of src[n, c, p(o,k)]^2); +0 for a window without inside taps.
    ///
    /// Squares, sums and the root in accumulate_t<T>, row-major over the taps inside; parts of 512 terms are added in f64;
    /// one rounding to T. A square is rounded before it is added, so that the bits depend on shape and attributes alone.
    /// Squares of numbers from 2^64 on (f64: 2^512) are infinite, those below 2^-75 (2^-537) are 0. The output must not
    /// overlap the input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* src, T* dst, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        const status s = detail::check_run("lp_pool", {{&src_, src}, {&dst_, dst}}, workspace, workspace_bytes(1));
        if (!s) return s;
        if constexpr (detail::takes_elements<T>)
            detail::lp_pool::run_plan<shape::side::small, T>(this->plan_, {src}, dst, workspace, executor);
        return {};
    }

private:
    template <class U>
    friend result<lp_pool_plan<U>> plan_lp_pool(const tensor_layout&, const lp_pool_attributes&, const tensor_layout&,
                                                const plan_options&) noexcept;

    detail::tensor_memory src_{};
    detail::tensor_memory dst_{};
};

/// Plans lp_pool_plan::run. `dst` may be empty: dense in the inferred shape. Errors: those of the shape rules and of
/// memory, in the order of shape/check.hpp.
template <class T>
[[nodiscard]] result<lp_pool_plan<T>> plan_lp_pool(const tensor_layout& src, const lp_pool_attributes& attributes,
                                                   const tensor_layout& dst = {},
                                                   const plan_options& options = {}) noexcept {
    const auto p = shape::lp_pool_shapes(src.shape, attributes, dst.shape, sizeof(T));
    if (!p) return p.error();
    tensor_layout out = dst;
    if (out.empty()) out.shape = p->small_shape;
    shape::operator_checks checks("lp_pool");
    detail::check_options(checks, options);
    checks.addresses("src", src, sizeof(T), false);
    checks.addresses("dst", out, sizeof(T), true);
    if (!checks.ok()) return checks.error();
    detail::require_elements<T>();
    lp_pool_plan<T> plan;
    plan.src_ = detail::tensor_memory("src", src, sizeof(T));
    plan.dst_ = detail::tensor_memory("dst", out, sizeof(T));
    plan.plan_ = detail::plan_path(
        checks, detail::lp_pool::paths,
        {*p, shape::side::small, {&src}, out, attributes.data_format, options, detail::sum_type_of<T>}, options);
    if (!checks.ok()) return checks.error();
    return plan;
}

/// Lp pool in one call: plan_lp_pool and run.
template <class T>
[[nodiscard]] status lp_pool(tensor_view<const T> src, const lp_pool_attributes& attributes,
                             std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options, [&](const plan_options& how) { return plan_lp_pool<T>(src.layout, attributes, dst.layout, how); },
        src.data, dst.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status lp_pool(const Src& src, const lp_pool_attributes& attributes,
                             tensor_view<typename Src::element_type> dst, const call_options& options = {}) noexcept {
    return lp_pool<typename Src::element_type>(src, attributes, dst, options);
}

// ----------------------------------------------------------------------------------------------------------- backward

/// The shape of diff_src: that of src. Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_lp_pool_backward(const extents& src, const extents& dst,
                                                               const extents& diff_dst,
                                                               const lp_pool_attributes& attributes) noexcept {
    const auto p = shape::lp_pool_backward_shapes(src, dst, diff_dst, attributes, {}, 4);
    if (!p) return p.error();
    return p->large_shape;
}

/// A planned gradient of an Lp pool. It is a value: copy it, and share it between threads.
template <class T>
class lp_pool_backward_plan : public detail::lp_operator {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    lp_pool_backward_plan() noexcept = default;

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept { return this->describe_as("lp_pool_backward", text); }

    /// diff_src[n, c, q] = sum over (o, k) with p(o,k) = q of diff_dst[n, c, o] * (src[n, c, q] / dst[n, c, o]), where the
    /// terms of windows with dst = 0 are 0.
    ///
    /// The whole output is written: positions that no window reaches become +0. Quotients, products and sums in
    /// accumulate_t<T>, row-major over the windows; parts of 512 terms are added in f64; one rounding to T. A product is
    /// rounded before it is added, so that the bits depend on shape and attributes alone. The output must not overlap an
    /// input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* src, const T* dst, const T* diff_dst, T* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        const status s = detail::check_run("lp_pool_backward",
                                           {{&src_, src}, {&dst_, dst}, {&diff_dst_, diff_dst}, {&diff_src_, diff_src}},
                                           workspace, workspace_bytes(1));
        if (!s) return s;
        if constexpr (detail::takes_elements<T>)
            detail::lp_pool::run_plan<shape::side::large, T>(this->plan_, {src, dst, diff_dst}, diff_src, workspace,
                                                             executor);
        return {};
    }

private:
    template <class U>
    friend result<lp_pool_backward_plan<U>> plan_lp_pool_backward(const tensor_layout&, const tensor_layout&,
                                                                  const tensor_layout&, const lp_pool_attributes&,
                                                                  const tensor_layout&, const plan_options&) noexcept;

    detail::tensor_memory src_{};
    detail::tensor_memory dst_{};
    detail::tensor_memory diff_dst_{};
    detail::tensor_memory diff_src_{};
};

/// Plans lp_pool_backward_plan::run. `diff_src` may be empty: dense in the shape of src. Errors: those of the shape rules
/// and of memory, in the order of shape/check.hpp.
template <class T>
[[nodiscard]] result<lp_pool_backward_plan<T>> plan_lp_pool_backward(const tensor_layout& src, const tensor_layout& dst,
                                                                     const tensor_layout& diff_dst,
                                                                     const lp_pool_attributes& attributes,
                                                                     const tensor_layout& diff_src = {},
                                                                     const plan_options& options = {}) noexcept {
    const auto p =
        shape::lp_pool_backward_shapes(src.shape, dst.shape, diff_dst.shape, attributes, diff_src.shape, sizeof(T));
    if (!p) return p.error();
    tensor_layout out = diff_src;
    if (out.empty()) out.shape = p->large_shape;
    shape::operator_checks checks("lp_pool_backward");
    detail::check_options(checks, options);
    checks.addresses("src", src, sizeof(T), false);
    checks.addresses("dst", dst, sizeof(T), false);
    checks.addresses("diff_dst", diff_dst, sizeof(T), false);
    checks.addresses("diff_src", out, sizeof(T), true);
    if (!checks.ok()) return checks.error();
    detail::require_elements<T>();
    lp_pool_backward_plan<T> plan;
    plan.src_ = detail::tensor_memory("src", src, sizeof(T));
    plan.dst_ = detail::tensor_memory("dst", dst, sizeof(T));
    plan.diff_dst_ = detail::tensor_memory("diff_dst", diff_dst, sizeof(T));
    plan.diff_src_ = detail::tensor_memory("diff_src", out, sizeof(T));
    plan.plan_ = detail::plan_path(
        checks, detail::lp_pool::paths,
        {*p, shape::side::large, {&src, &dst, &diff_dst}, out, attributes.data_format, options, detail::sum_type_of<T>},
        options);
    if (!checks.ok()) return checks.error();
    return plan;
}

/// Gradient of an Lp pool in one call.
template <class T>
[[nodiscard]] status lp_pool_backward(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> dst,
                                      std::type_identity_t<tensor_view<const T>> diff_dst,
                                      const lp_pool_attributes& attributes,
                                      std::type_identity_t<tensor_view<T>> diff_src,
                                      const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_lp_pool_backward<T>(src.layout, dst.layout, diff_dst.layout, attributes, diff_src.layout, how);
        },
        src.data, dst.data, diff_dst.data, diff_src.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status lp_pool_backward(const Src& src, tensor_view<const typename Src::element_type> dst,
                                      tensor_view<const typename Src::element_type> diff_dst,
                                      const lp_pool_attributes& attributes,
                                      tensor_view<typename Src::element_type> diff_src,
                                      const call_options& options = {}) noexcept {
    return lp_pool_backward<typename Src::element_type>(src, dst, diff_dst, attributes, diff_src, options);
}

GRADKERN_ISA_NAMESPACE_END
