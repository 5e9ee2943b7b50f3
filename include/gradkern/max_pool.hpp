// Max pooling: forward with indices, and its gradient in two ways.
//
// Windows are those of average pooling (avg_pool.hpp): window o covers the positions
//
//     p(o, k) = o * stride - pads_begin + k * dilation        on every spatial axis, taps k in [0, kernel)
//
// and only taps with p inside [0, I) exist: padding never wins. The maximum of a window is its first largest element in
// row-major order; -0 and +0 are equal. A NaN beats every number, and a later NaN beats an earlier one. With ignore_nan any
// number beats a NaN, also -Inf, and a window of NaNs has the first one. A window without taps inside has the maximum -Inf and
// the index -1, and its gradient is dropped.
//
//     max_pool                        src                -> dst, indices
//     max_pool_backward               src, diff_dst      -> diff_src      recomputes every maximum
//     max_pool_backward_from_indices  diff_dst, indices  -> diff_src      uses the indices of max_pool
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/select.hpp>
#include <gradkern/detail/max_pool_indices/run.hpp>
#include <gradkern/detail/max_pool_indices/select.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/elements.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/detail/run/tensor_memory.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What the plans of max_pool and max_pool_backward share. `Paths`: the variant of their paths' plans.
template <class Paths>
class max_operator {
public:
    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        const max_pool::maxima_plan& w = windows();
        return workspace_for(w.slice_bytes, std::min(std::int64_t{workers}, w.boxes_of(workers).count() * w.panels));
    }

    /// Gives up scratch that only saves time: for calls whose workspace is on the stack.
    void drop_optional_scratch() noexcept {
        with_plan(paths_, [&](const auto& path) {
            auto smaller = path;
            smaller.drop_rows();
            paths_ = smaller;
        });
    }

protected:
    std::size_t describe_as(std::string_view op, std::span<char> text) const noexcept {
        const max_pool::maxima_plan& w = windows();
        text_writer out(text);
        out << op << ": " << name_of(w.path) << ", " << w.panels << " panels of " << w.panel_width << " lanes, "
            << w.boxes.count() << " boxes, " << w.tasks() << " tasks, " << w.slice_bytes << " bytes a worker, "
            << isa_name;
        return out.size();
    }

    Paths paths_{};

private:
    [[nodiscard]] const max_pool::maxima_plan& windows() const noexcept {
        const max_pool::maxima_plan* w = nullptr;
        with_plan(paths_, [&](const max_pool::maxima_plan& plan) { w = &plan; });
        return *w;
    }
};

}  // namespace detail

// ------------------------------------------------------------------------------------------------------------ forward

/// The shape of dst and of indices: the number of windows on every axis by rounding_type, or ceil(I / stride) for
/// same_*. Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_max_pool(const extents& src,
                                                       const max_pool_attributes& attributes) noexcept {
    const auto p = shape::max_pool_shapes(src, attributes, {}, {}, 4);
    if (!p) return p.error();
    return p->small_shape;
}

/// A planned max pool. It is a value: copy it, and share it between threads.
template <class T>
class max_pool_plan : public detail::max_operator<detail::max_pool::plan> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    max_pool_plan() noexcept = default;

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept { return this->describe_as("max_pool", text); }

    /// dst[n, c, o] = max over inside taps k of src[n, c, p(o,k)], and the index of that element, counted as
    /// index_base and storage_order say; -Inf and -1 for a window without taps inside.
    ///
    /// `indices` is ignored if the plan was made without their layout. Values are exact. No tensor may
    /// overlap an output. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* src, T* dst, std::int64_t* indices = nullptr, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        const status s = detail::check_run("max_pool", {{&src_, src}, {&dst_, dst}, {&indices_, indices}}, workspace,
                                           workspace_bytes(1), 2);
        if (!s) return s;
        if constexpr (detail::takes_elements<T>)
            detail::with_plan(this->paths_, [&](const auto& path) {
                detail::max_pool::run_path(path, src, dst, indices, workspace, executor);
            });
        return {};
    }

private:
    template <class U>
    friend result<max_pool_plan<U>> plan_max_pool(const tensor_layout&, const max_pool_attributes&,
                                                  const tensor_layout&, const tensor_layout&,
                                                  const plan_options&) noexcept;

    detail::tensor_memory src_{};
    detail::tensor_memory dst_{};
    detail::tensor_memory indices_{};
};

/// Plans max_pool_plan::run. `dst` may be empty: dense in the inferred shape. With empty `indices` none are written.
/// Errors: those of the shape rules and of memory, in the order of shape/check.hpp.
template <class T>
[[nodiscard]] result<max_pool_plan<T>> plan_max_pool(const tensor_layout& src, const max_pool_attributes& attributes,
                                                     const tensor_layout& dst = {}, const tensor_layout& indices = {},
                                                     const plan_options& options = {}) noexcept {
    const auto p = shape::max_pool_shapes(src.shape, attributes, dst.shape, indices.shape, sizeof(T));
    if (!p) return p.error();
    tensor_layout out = dst;
    if (out.empty()) out.shape = p->small_shape;
    shape::operator_checks checks("max_pool");
    detail::check_options(checks, options);
    checks.addresses("src", src, sizeof(T), false);
    checks.addresses("dst", out, sizeof(T), true);
    checks.addresses("indices", indices, sizeof(std::int64_t), true);
    if (!checks.ok()) return checks.error();
    detail::require_elements<T>();
    max_pool_plan<T> plan;
    plan.src_ = detail::tensor_memory("src", src, sizeof(T));
    plan.dst_ = detail::tensor_memory("dst", out, sizeof(T));
    plan.indices_ = detail::tensor_memory("indices", indices, sizeof(std::int64_t));
    plan.paths_ = detail::plan_path(checks, detail::max_pool::paths,
                                    {*p, attributes, src, out, {}, indices, options, detail::sum_type_of<T>}, options);
    if (!checks.ok()) return checks.error();
    return plan;
}

/// Max pool in one call: plan_max_pool and run. `indices` may be an empty view.
template <class T>
[[nodiscard]] status max_pool(tensor_view<const T> src, const max_pool_attributes& attributes,
                              std::type_identity_t<tensor_view<T>> dst, tensor_view<std::int64_t> indices = {},
                              const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_max_pool<T>(src.layout, attributes, dst.layout, indices.layout, how);
        },
        src.data, dst.data, indices.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status max_pool(const Src& src, const max_pool_attributes& attributes,
                              tensor_view<typename Src::element_type> dst, tensor_view<std::int64_t> indices = {},
                              const call_options& options = {}) noexcept {
    return max_pool<typename Src::element_type>(src, attributes, dst, indices, options);
}

// ----------------------------------------------------------------------------------------------------------- backward

/// The shape of diff_src: that of src. Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_max_pool_backward(const extents& src, const extents& diff_dst,
                                                                const max_pool_attributes& attributes) noexcept {
    const auto p = shape::max_pool_backward_shapes(src, diff_dst, attributes, {}, 4);
    if (!p) return p.error();
    return p->large_shape;
}

/// A planned gradient of a max pool. It is a value: copy it, and share it between threads.
template <class T>
class max_pool_backward_plan : public detail::max_operator<detail::max_pool::backward_plan> {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    max_pool_backward_plan() noexcept = default;

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept { return this->describe_as("max_pool_backward", text); }

    /// diff_src[n, c, q] = sum over windows o whose maximum is at q of diff_dst[n, c, o].
    ///
    /// The whole output is written, with +0 where no window has its maximum. Sums in accumulate_t<T> in ascending order
    /// of the windows, or in f64 if more than 512 reach a position; one rounding to T. The output must not overlap an
    /// input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* src, const T* diff_dst, T* diff_src, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        const status s =
            detail::check_run("max_pool_backward", {{&src_, src}, {&diff_dst_, diff_dst}, {&diff_src_, diff_src}},
                              workspace, workspace_bytes(1));
        if (!s) return s;
        if constexpr (detail::takes_elements<T>)
            detail::with_plan(this->paths_, [&](const auto& path) {
                detail::max_pool::run_path(path, src, diff_dst, diff_src, workspace, executor);
            });
        return {};
    }

private:
    template <class U>
    friend result<max_pool_backward_plan<U>> plan_max_pool_backward(const tensor_layout&, const tensor_layout&,
                                                                    const max_pool_attributes&, const tensor_layout&,
                                                                    const plan_options&) noexcept;

    detail::tensor_memory src_{};
    detail::tensor_memory diff_dst_{};
    detail::tensor_memory diff_src_{};
};

/// Plans max_pool_backward_plan::run. `diff_src` may be empty: dense in the shape of src. Errors: those of the shape
/// rules and of memory, in the order of shape/check.hpp.
template <class T>
[[nodiscard]] result<max_pool_backward_plan<T>> plan_max_pool_backward(const tensor_layout& src,
                                                                       const tensor_layout& diff_dst,
                                                                       const max_pool_attributes& attributes,
                                                                       const tensor_layout& diff_src = {},
                                                                       const plan_options& options = {}) noexcept {
    const auto p = shape::max_pool_backward_shapes(src.shape, diff_dst.shape, attributes, diff_src.shape, sizeof(T));
    if (!p) return p.error();
    tensor_layout out = diff_src;
    if (out.empty()) out.shape = p->large_shape;
    shape::operator_checks checks("max_pool_backward");
    detail::check_options(checks, options);
    checks.addresses("src", src, sizeof(T), false);
    checks.addresses("diff_dst", diff_dst, sizeof(T), false);
    checks.addresses("diff_src", out, sizeof(T), true);
    if (!checks.ok()) return checks.error();
    detail::require_elements<T>();
    max_pool_backward_plan<T> plan;
    plan.src_ = detail::tensor_memory("src", src, sizeof(T));
    plan.diff_dst_ = detail::tensor_memory("diff_dst", diff_dst, sizeof(T));
    plan.diff_src_ = detail::tensor_memory("diff_src", out, sizeof(T));
    plan.paths_ = detail::plan_path(checks, detail::max_pool::backward_paths,
                                    {*p, attributes, src, diff_dst, out, {}, options, detail::sum_type_of<T>}, options);
    if (!checks.ok()) return checks.error();
    return plan;
}

/// Gradient of a max pool in one call.
template <class T>
[[nodiscard]] status max_pool_backward(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> diff_dst,
                                       const max_pool_attributes& attributes,
                                       std::type_identity_t<tensor_view<T>> diff_src,
                                       const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_max_pool_backward<T>(src.layout, diff_dst.layout, attributes, diff_src.layout, how);
        },
        src.data, diff_dst.data, diff_src.data);
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status max_pool_backward(const Src& src, tensor_view<const typename Src::element_type> diff_dst,
                                       const max_pool_attributes& attributes,
                                       tensor_view<typename Src::element_type> diff_src,
                                       const call_options& options = {}) noexcept {
    return max_pool_backward<typename Src::element_type>(src, diff_dst, attributes, diff_src, options);
}

// ---------------------------------------------------------------------------------------------- backward from indices

/// The shape of diff_src: `diff_src` where given, else attributes.diff_src_shape; without both: missing_shape. Its spatial
/// sizes are free. Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_max_pool_backward_from_indices(
    const extents& diff_dst, const extents& indices, const max_pool_indices_attributes& attributes,
    const extents& diff_src = {}) noexcept {
    const auto p = shape::max_pool_backward_from_indices_shapes(diff_dst, indices, attributes, diff_src, 4);
    if (!p) return p.error();
    return p->large_shape;
}

/// A planned gradient of a max pool from indices. It is a value: copy it, and share it between threads.
template <class T>
class max_pool_backward_from_indices_plan {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    max_pool_backward_from_indices_plan() noexcept = default;

    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        return detail::workspace_for(plan_.slice_bytes, std::min<std::int64_t>(workers, plan_.tasks()));
    }

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept {
        const detail::max_pool_indices::plan& g = plan_;
        text_writer out(text);
        out << op << ": " << name_of(g.path) << ", " << g.panels << " panels of " << g.panel_width << " channels, "
            << g.blocks << " blocks of " << g.block << " pixels, " << g.tasks() << " tasks, " << g.slice_bytes
            << " bytes a worker, " << detail::isa_name;
        return out.size();
    }

    /// diff_src = 0, then diff_src[indices[n, c, o]] += diff_dst[n, c, o] for every element whose index is not -1.
    ///
    /// Indices count elements as index_base and storage_order say; they may repeat. All of them are checked before the
    /// first write: if one is below -1 or outside diff_src, the error is index_out_of_range and nothing is written (see
    /// index_check for the other choice). If an index lies outside the plane of its element, the tensor takes a slow path.
    /// Sums in accumulate_t<T> in ascending order of (n, c, o), or in f64 if a plane has more than 2^18 windows; one
    /// rounding to T. If indices lie outside their planes in a tensor of more than 2^18 windows, sums are also in f64;
    /// if f32 results are overwritten, only for runs of windows with few different offsets. The output must not overlap
    /// an input. Other errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* diff_dst, const std::int64_t* indices, T* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        const status s = detail::check_run(op, {{&diff_dst_, diff_dst}, {&indices_, indices}, {&diff_src_, diff_src}},
                                           workspace, workspace_bytes(1));
        if (!s) return s;
        if constexpr (detail::takes_elements<T>)
            return detail::max_pool_indices::run(op, plan_, diff_dst, indices, diff_src, workspace, executor);
        return {};
    }

private:
    static constexpr std::string_view op = "max_pool_backward_from_indices";
    template <class U>
    friend result<max_pool_backward_from_indices_plan<U>> plan_max_pool_backward_from_indices(
        const tensor_layout&, const tensor_layout&, const max_pool_indices_attributes&, const tensor_layout&,
        const plan_options&) noexcept;

    detail::tensor_memory diff_dst_{};
    detail::tensor_memory indices_{};
    detail::tensor_memory diff_src_{};
    detail::max_pool_indices::plan plan_{};
};

/// Plans max_pool_backward_from_indices_plan::run. `diff_src` takes precedence over attributes.diff_src_shape; without both:
/// missing_shape. Errors: those of the shape rules and of memory, in the order of shape/check.hpp.
template <class T>
[[nodiscard]] result<max_pool_backward_from_indices_plan<T>> plan_max_pool_backward_from_indices(
    const tensor_layout& diff_dst, const tensor_layout& indices, const max_pool_indices_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    const auto p = shape::max_pool_backward_from_indices_shapes(diff_dst.shape, indices.shape, attributes,
                                                                diff_src.shape, sizeof(T));
    if (!p) return p.error();
    tensor_layout out = diff_src;
    if (out.empty()) out.shape = p->large_shape;
    detail::require_elements<T>();
    max_pool_backward_from_indices_plan<T> plan;
    shape::operator_checks checks(plan.op);
    detail::check_options(checks, options);
    checks.addresses("diff_dst", diff_dst, sizeof(T), false);
    checks.addresses("indices", indices, sizeof(std::int64_t), false);
    checks.addresses("diff_src", out, sizeof(T), true);
    if (!checks.ok()) return checks.error();
    plan.plan_ = detail::plan_path(
        checks, detail::max_pool_indices::paths,
        {*p, attributes, diff_dst, indices, out, detail::simd::is_wide<T>, options, detail::sum_type_of<T>}, options);
    if (!checks.ok()) return checks.error();
    plan.diff_dst_ = detail::tensor_memory("diff_dst", diff_dst, sizeof(T));
    plan.indices_ = detail::tensor_memory("indices", indices, sizeof(std::int64_t));
    plan.diff_src_ = detail::tensor_memory("diff_src", out, sizeof(T));
    return plan;
}

/// Gradient of a max pool from indices in one call.
template <class T>
[[nodiscard]] status max_pool_backward_from_indices(tensor_view<const T> diff_dst,
                                                    tensor_view<const std::int64_t> indices,
                                                    const max_pool_indices_attributes& attributes,
                                                    std::type_identity_t<tensor_view<T>> diff_src,
                                                    const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) {
            return plan_max_pool_backward_from_indices<T>(diff_dst.layout, indices.layout, attributes, diff_src.layout,
                                                          how);
        },
        diff_dst.data, indices.data, diff_src.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status max_pool_backward_from_indices(const DiffDst& diff_dst, tensor_view<const std::int64_t> indices,
                                                    const max_pool_indices_attributes& attributes,
                                                    tensor_view<typename DiffDst::element_type> diff_src,
                                                    const call_options& options = {}) noexcept {
    return max_pool_backward_from_indices<typename DiffDst::element_type>(diff_dst, indices, attributes, diff_src,
                                                                          options);
}

GRADKERN_ISA_NAMESPACE_END
