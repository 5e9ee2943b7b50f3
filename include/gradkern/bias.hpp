// The gradient of a bias: the same for convolution and conv_transpose, and independent of pads, strides and groups.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/bias/select.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/elements.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN

/// The shape of diff_bias: (C). Sizes in bytes are checked as for f32.
[[nodiscard]] constexpr result<extents> infer_bias_backward(const extents& diff_dst,
                                                            const bias_attributes& attributes) noexcept {
    const auto p = shape::bias_backward_shapes(diff_dst, attributes, {}, false, 4);
    if (!p) return p.error();
    return p->diff_bias_shape;
}

namespace detail {

/// The part of the plan that does not depend on types, so that it is compiled once.
class planned_bias {
public:
    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        const detail::bias_plan b = plan_.split_for(workers);
        return detail::workspace_for(b.shared().bytes(), b.slice_bytes, std::min<std::int64_t>(workers, b.tasks()));
    }

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept {
        text_writer out(text);
        out << "bias_backward: " << name_of(path_) << ", " << plan_.panels << " panels of " << plan_.real.narrow_lanes()
            << " lanes, " << plan_.tasks() << " tasks, " << plan_.chunks.count << " chunks, " << plan_.slice_bytes
            << " bytes a worker, " << isa_name;
        return out.size();
    }

protected:
    GRADKERN_NOINLINE planned_bias() noexcept {}

    /// Checks shapes and memory, and plans. `wide`: whether elements of diff_dst are of the type of the sums.
    [[nodiscard]] status plan_memory(const tensor_layout& diff_dst, std::int64_t bytes, const real_type& real,
                                     bool wide, const bias_attributes& attributes, tensor_layout diff_bias,
                                     std::int64_t result_bytes, const plan_options& options) noexcept {
        const auto p = shape::bias_backward_shapes(diff_dst.shape, attributes, diff_bias.shape, true,
                                                   std::max(bytes, result_bytes));
        if (!p) return p.error();
        if (diff_bias.empty()) diff_bias.shape = p->diff_bias_shape;
        shape::operator_checks checks("bias_backward");
        check_options(checks, options, batch_use::summed);
        check_batch_layout(checks, "diff_bias", diff_bias, p->batch, result_bytes, options);
        checks.addresses("diff_dst", diff_dst, bytes, false);
        checks.addresses("diff_bias", diff_bias, result_bytes, true);
        if (!checks.ok()) return checks.error();
        diff_dst_ = tensor_memory("diff_dst", diff_dst, bytes);
        diff_bias_ = tensor_memory("diff_bias", batch_layout(diff_bias, p->batch, options), result_bytes);
        const bias_problem problem{*p,
                                   shape::activation_strides(diff_dst, attributes.data_format),
                                   shape::strides_of(diff_bias)[0],
                                   real,
                                   wide,
                                   options.output,
                                   options.summation};
        const algorithm wanted = wanted_row(bias_paths, options);
        const bias_path* const path = select_path(bias_paths, problem, wanted);
        check_path(checks, bias_paths, path, wanted);
        if (!checks.ok()) return checks.error();
        path_ = path->name;
        plan_ = path->make(problem, path_);
        return {};
    }

    tensor_memory diff_dst_{};
    tensor_memory diff_bias_{};
    algorithm path_ = algorithm::automatic;
    bias_plan plan_{};
};

}  // namespace detail

/// A planned bias gradient; G is T, or float for 16-bit T, which sums over many calls need (output_mode::accumulate). It is a value:
/// copy it, and share it between threads.
template <class T, class G = T>
class bias_backward_plan : public detail::planned_bias {
public:
    /// An empty plan, whose run() returns an error. plan_X returns plans.
    bias_backward_plan() noexcept = default;

    /// diff_bias[c] = sum over n and all positions of diff_dst[n, c, position].
    ///
    /// The whole output is written, with zeros if N = 0. Sums in accumulate_t<T> by chunks, one rounding to G. The
    /// output must not overlap the input. Errors: null_pointer, invalid_argument (overlap), workspace_too_small (bytes).
    [[nodiscard]] status run(const T* diff_dst, G* diff_bias, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        const status s = detail::check_run("bias_backward", {{&diff_dst_, diff_dst}, {&diff_bias_, diff_bias}},
                                           workspace, workspace_bytes(1));
        if (!s) return s;
        if constexpr (detail::takes_elements<T, G>) detail::run_bias(plan_, diff_dst, diff_bias, workspace, executor);
        return {};
    }

private:
    template <class U, class H>
    friend result<bias_backward_plan<U, H>> plan_bias_backward(const tensor_layout&, const bias_attributes&,
                                                               const tensor_layout&, const plan_options&) noexcept;
};

/// Plans bias_backward_plan::run. `diff_bias` is (C) with any stride but 0, or empty: dense. Errors: those of the shape
/// rules and of memory, in the order of shape/check.hpp.
template <class T, class G = T>
[[nodiscard]] result<bias_backward_plan<T, G>> plan_bias_backward(const tensor_layout& diff_dst,
                                                                  const bias_attributes& attributes,
                                                                  const tensor_layout& diff_bias = {},
                                                                  const plan_options& options = {}) noexcept {
    detail::require_elements<T, G>();
    bias_backward_plan<T, G> plan;
    const status s = plan.plan_memory(diff_dst, sizeof(T), detail::sum_type_of<T>, detail::simd::is_wide<T>, attributes,
                                      diff_bias, sizeof(G), options);
    if (!s) return s.error();
    return plan;
}

/// Bias gradient in one call: plan_bias_backward and run.
template <class T, class G = T>
[[nodiscard]] status bias_backward(tensor_view<const T> diff_dst, const bias_attributes& attributes,
                                   tensor_view<G> diff_bias, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) {
            return plan_bias_backward<T, G>(diff_dst.layout, attributes, diff_bias.layout, how);
        },
        diff_dst.data, diff_bias.data);
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst, class G = typename DiffDst::element_type>
[[nodiscard]] status bias_backward(const DiffDst& diff_dst, const bias_attributes& attributes, tensor_view<G> diff_bias,
                                   const call_options& options = {}) noexcept {
    return bias_backward<typename DiffDst::element_type, G>(diff_dst, attributes, diff_bias, options);
}

GRADKERN_ISA_NAMESPACE_END
