// Shared by ConvGrad and ConvTransposeGrad: their checks, and the core's plans of up to three results. Each operator is a
// family of types (`conv_family`, `conv_transpose_family`); its forms are in conv_grad.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <gradkern/attributes.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/frontend/onnxruntime/attributes.hpp>
#include <gradkern/frontend/onnxruntime/translation.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onnxruntime {

/// The shapes of the three results of ConvGrad and ConvTransposeGrad: those of X, of W and of the bias.
struct conv_gradient_shapes {
    extents dX{};  ///< of X
    extents dW{};  ///< of W, in ONNX's order
    extents dB{};  ///< (OC)
};

namespace translation {

/// W of ConvTranspose is (IC, OC/g, K...) in ONNX and (OC/g, IC, K...) in the core. Indices of its shape, in both directions.
[[nodiscard]] constexpr extents swap_first_two(extents e) noexcept {
    std::swap(e[0], e[1]);
    return e;
}
/// The same memory, seen in the core's order.
[[nodiscard]] constexpr tensor_layout swap_first_two(const tensor_layout& t) noexcept {
    return {swap_first_two(t.shape), swap_first_two(shape::strides_of(t))};
}

/// The gradients of Conv in the core.
template <class T, class G, class B>
struct conv_family {
    using element = T;
    using weights_gradient = G;
    using bias_gradient = B;
    using onnx_attributes = ConvGrad_attributes;
    using core_attributes = convolution_attributes;
    using data_plan = convolution_backward_data_plan<T>;
    using weights_plan = convolution_backward_weights_plan<T, G>;
    static constexpr std::string_view op = "ConvGrad";
    static constexpr bool transposed = false;

    [[nodiscard]] static result<data_plan> plan_data(const tensor_layout& dY, const tensor_layout& W,
                                                     const core_attributes& a, const tensor_layout& dX,
                                                     const plan_options& options) noexcept {
        return plan_convolution_backward_data<T>(dY, W, a, dX, options);
    }
    [[nodiscard]] static result<weights_plan> plan_weights(const tensor_layout& X, const tensor_layout& dY,
                                                           const core_attributes& a, const tensor_layout& dW,
                                                           const plan_options& options) noexcept {
        return plan_convolution_backward_weights<T, G>(X, dY, a, dW, {}, options);
    }
};

/// The gradients of ConvTranspose in the core.
template <class T, class G, class B>
struct conv_transpose_family {
    using element = T;
    using weights_gradient = G;
    using bias_gradient = B;
    using onnx_attributes = ConvTransposeGrad_attributes;
    using core_attributes = conv_transpose_attributes;
    using data_plan = conv_transpose_backward_data_plan<T>;
    using weights_plan = conv_transpose_backward_weights_plan<T, G>;
    static constexpr std::string_view op = "ConvTransposeGrad";
    static constexpr bool transposed = true;

    [[nodiscard]] static result<data_plan> plan_data(const tensor_layout& dY, const tensor_layout& W,
                                                     const core_attributes& a, const tensor_layout& dX,
                                                     const plan_options& options) noexcept {
        return plan_conv_transpose_backward_data<T>(dY, swap_first_two(W), a, dX, options);
    }
    [[nodiscard]] static result<weights_plan> plan_weights(const tensor_layout& X, const tensor_layout& dY,
                                                           const core_attributes& a, const tensor_layout& dW,
                                                           const plan_options& options) noexcept {
        return plan_conv_transpose_backward_weights<T, G>(X, dY, a, swap_first_two(dW), {}, options);
    }
};

/// Bytes of the widest element of a family.
template <class Family>
inline constexpr std::int64_t widest_element = std::max({sizeof(typename Family::element),
                                                         sizeof(typename Family::weights_gradient),
                                                         sizeof(typename Family::bias_gradient)});

/// Checks 1 and 2: attributes of `r` spatial axes. Returns the window that they describe.
template <class Family>
constexpr window check_attributes(shape::operator_checks& checks, const typename Family::onnx_attributes& a,
                                  std::size_t r) noexcept {
    const window w = read_window(checks, a, r, false);
    if constexpr (Family::transposed) length(checks, "output_padding", a.output_padding, r);
    window_values(checks, a);
    if constexpr (Family::transposed) {
        entries(checks, "output_padding", a.output_padding, 0);
        for (std::size_t i = 0; checks.ok() && !a.output_padding.empty() && i < r; ++i) {
            const std::int64_t bound = std::max(w.strides[i], w.dilations[i]);
            checks.require(a.output_padding.values()[i] < bound, errc::invalid_argument, "output_padding",
                           static_cast<int>(i), a.output_padding.values()[i], expectation::below, bound,
                           {.why = shape::padding_bound(true)});
        }
    }
    checks.require_at_least(errc::invalid_argument, "group", -1, a.group, 1);
    return w;
}

/// Checks 3 to 5: ranks, sizes, and bytes of the tensors that are given. The shape rules check what is computed from these.
template <class Family>
constexpr void check_tensors(shape::operator_checks& checks, const extents& dY, const extents& X, const extents& W,
                             const typename Family::onnx_attributes& a, const conv_gradient_shapes& out, std::size_t r,
                             std::int64_t element_bytes) noexcept {
    checks.tensor_rank("X", X, r);
    checks.tensor_rank("W", W, r);
    if (!out.dX.empty()) checks.tensor_rank("dX", out.dX, r);
    if (!out.dW.empty()) checks.tensor_rank("dW", out.dW, r);
    if (!out.dB.empty()) checks.rank(errc::unsupported, "dB", out.dB, 1);
    if (!checks.ok()) return;

    const std::size_t space_at = shape::spatial_index(data_format::ncx);
    const std::size_t kernel_at = shape::kernel_index(weights_format::oix);
    checks.sizes("dY", dY, r, space_at);
    checks.sizes("X", X, r, space_at);
    checks.sizes("W", W, r, kernel_at);
    if (!out.dX.empty()) checks.sizes("dX", out.dX, r, space_at);
    if (!out.dW.empty()) checks.sizes("dW", out.dW, r, kernel_at);
    if (!out.dB.empty()) checks.require_at_least(errc::invalid_shape, "dB", 0, out.dB[0], 0);
    if constexpr (Family::transposed) {
        if (!a.output_shape.empty()) {
            checks.require_equal(errc::invalid_shape, "output_shape", -1,
                                 static_cast<std::int64_t>(a.output_shape.size()), static_cast<std::int64_t>(r),
                                 {.what = quantity::entries});
            entries(checks, "output_shape", a.output_shape, 1, errc::invalid_shape);
        }
    }

    checks.volume("dY", dY, element_bytes);
    checks.volume("X", X, element_bytes);
    checks.volume("W", W, element_bytes);
    checks.volume("dX", out.dX, element_bytes);
    checks.volume("dW", out.dW, element_bytes);
    checks.volume("dB", out.dB, element_bytes);
}

/// All checks of shapes and attributes; the core's attributes if they pass. Outputs that are not requested are empty.
template <class Family>
[[nodiscard]] constexpr result<typename Family::core_attributes> check_conv_grad(
    const extents& dY, const extents& X, const extents& W, const typename Family::onnx_attributes& a,
    const conv_gradient_shapes& out, std::int64_t element_bytes) noexcept {
    shape::operator_checks checks(Family::op);
    checks.spatial_rank("dY", dY);
    if (!checks.ok()) return checks.error();
    const std::size_t r = dY.rank() - 2;
    const window w = check_attributes<Family>(checks, a, r);
    check_tensors<Family>(checks, dY, X, W, a, out, r, element_bytes);
    if (!checks.ok()) return checks.error();

    // 5, 6: batch, channels and the spatial axes of dY, X and W
    typename Family::core_attributes core{};
    core.strides = w.strides;
    core.dilations = w.dilations;
    core.pads_begin = w.pads_begin;
    core.pads_end = w.pads_end;
    core.auto_pad = w.auto_pad;
    core.groups = a.group;
    core.data_format = data_format::ncx;
    core.weights_format = weights_format::oix;
    if constexpr (Family::transposed) {
        if (!a.output_padding.empty()) core.output_padding = a.output_padding.part(0, r, 0);
    }
    shape::convolution_request q{
        .op = Family::op,
        .transposed = Family::transposed,
        .result = Family::transposed ? shape::convolution_result::small : shape::convolution_result::large,
        .large_name = Family::transposed ? "dY" : "X",
        .small_name = Family::transposed ? "X" : "dY",
        .weights_name = "W",
        .large = Family::transposed ? dY : X,
        .small = Family::transposed ? X : dY,
        .weights = Family::transposed ? swap_first_two(W) : W,
        .result_is_tensor = true,
        .uses_output_padding = Family::transposed,
        .has_weights_format = false,
        .element_bytes = element_bytes};
    q.take(core);
    const auto p = shape::infer_convolution_problem(q);
    if (!p) return translate(p.error(), Family::op, Family::transposed);

    // 6: attributes given twice
    const auto agrees = [&](std::string_view name, const extents& got, const extents& expected, std::string_view from) {
        for (std::size_t i = 0; !got.empty() && i < expected.rank(); ++i)
            checks.require_equal(errc::invalid_shape, name, static_cast<int>(i), got[i], expected[i], {.other = from});
    };
    const auto space_of = [&](const extents& e) { return ints(e).part(2, r, 0); };
    if (!a.kernel_shape.empty()) agrees("kernel_shape", w.kernel, space_of(W), "W");
    if constexpr (Family::transposed) {
        if (!a.output_shape.empty()) agrees("output_shape", a.output_shape.part(0, r, 0), space_of(dY), "dY");
    }
    agrees("dX", out.dX, X, "X");
    agrees("dW", out.dW, W, "W");
    agrees("dB", out.dB, {dY[1]}, "dY");
    if (!checks.ok()) return checks.error();
    return core;
}

/// The plans of up to three results.
template <class Family>
class conv_gradients {
public:
    conv_gradients() noexcept = default;

    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        std::size_t bytes = 0;
        if (dX_.planned) bytes = std::max(bytes, data_.workspace_bytes(workers));
        if (dW_.planned) bytes = std::max(bytes, weights_.workspace_bytes(workers));
        if (dB_.planned) bytes = std::max(bytes, bias_.workspace_bytes(workers));
        return bytes;
    }

    /// The core's lines about path, blocks and instruction set, one per planned result, cut to the span; returns the
    /// length of the whole text.
    std::size_t describe(std::span<char> text) const noexcept {
        std::size_t size = 0;
        const auto rest = [&] { return text.subspan(std::min(size, text.size())); };
        const auto add = [&](bool planned, const auto& plan) {
            if (!planned) return;
            if (size != 0) {
                text_writer line_break(rest());
                size += (line_break << "\n").size();
            }
            size += plan.describe(rest());
        };
        add(dX_.planned, data_);
        add(dW_.planned, weights_);
        add(dB_.planned, bias_);
        return size;
    }

    /// Checks everything and plans the results whose layouts are not empty.
    [[nodiscard]] static result<conv_gradients> make(const tensor_layout& dY, const tensor_layout& X,
                                                     const tensor_layout& W,
                                                     const typename Family::onnx_attributes& attributes,
                                                     const tensor_layout& dX, const tensor_layout& dW,
                                                     const tensor_layout& dB, const plan_options& options) noexcept {
        using T = typename Family::element;
        using G = typename Family::weights_gradient;
        using B = typename Family::bias_gradient;
        const auto core = check_conv_grad<Family>(dY.shape, X.shape, W.shape, attributes,
                                                  {dX.shape, dW.shape, dB.shape}, widest_element<Family>);
        if (!core) return core.error();
        shape::operator_checks checks(Family::op);
        checks.addresses("dY", dY, sizeof(T), false);
        checks.addresses("X", X, sizeof(T), false);
        checks.addresses("W", W, sizeof(T), false);
        checks.addresses("dX", dX, sizeof(T), true);
        checks.addresses("dW", dW, sizeof(G), true);
        checks.addresses("dB", dB, sizeof(B), true);
        if (!checks.ok()) return checks.error();
        if (dX.empty() && dW.empty() && dB.empty()) return nothing_wanted();

        conv_gradients plan;
        plan.dY_ = detail::tensor_memory("dY", dY, sizeof(T));
        plan.X_ = detail::tensor_memory("X", X, sizeof(T));
        plan.W_ = detail::tensor_memory("W", W, sizeof(T));
        plan.dX_ = {!dX.empty(), detail::tensor_memory("dX", dX, sizeof(T))};
        plan.dW_ = {!dW.empty(), detail::tensor_memory("dW", dW, sizeof(G))};
        plan.dB_ = {!dB.empty(), detail::tensor_memory("dB", dB, sizeof(B))};
        const auto take = [](const auto& from, auto& to) {
            if (from) to = *from;
            return translate(from.error(), Family::op, Family::transposed);
        };
        error e;
        if (plan.dX_.planned) e = take(Family::plan_data(dY, W, *core, dX, options), plan.data_);
        if (plan.dW_.planned && e.code == errc::ok)
            e = take(Family::plan_weights(X, dY, *core, dW, options), plan.weights_);
        plan_options of_bias = options;
        of_bias.algorithm = algorithm::automatic;  // it names a path of convolutions
        if (plan.dB_.planned && e.code == errc::ok)
            e = take(plan_bias_backward<T, B>(dY, {.data_format = data_format::ncx}, dB, of_bias), plan.bias_);
        if (e.code != errc::ok) return e;
        return plan;
    }

protected:
    [[nodiscard]] status execute(const typename Family::element* dY, const typename Family::element* X,
                                 const typename Family::element* W, typename Family::element* dX,
                                 typename Family::weights_gradient* dW, typename Family::bias_gradient* dB,
                                 std::span<std::byte> workspace, executor_ref executor) const noexcept {
        if (dY_.name.empty()) return detail::never_planned(Family::op);
        if (dX != nullptr && !dX_.planned) return not_planned("dX");
        if (dW != nullptr && !dW_.planned) return not_planned("dW");
        if (dB != nullptr && !dB_.planned) return not_planned("dB");
        // Null means a result that is not requested, or one without elements.
        const auto is_empty = [](const output& o) { return o.planned && o.memory.empty(); };
        if (dX == nullptr && dW == nullptr && dB == nullptr && !is_empty(dX_) && !is_empty(dW_) && !is_empty(dB_))
            return nothing_wanted();
        // All checks of all results come before the first write: pointers, outputs that overlap neither inputs nor
        // one another, workspace. A tensor that is not needed may be anywhere.
        const detail::tensor_memory unused;
        const auto place = [&](bool used, const detail::tensor_memory& memory, const void* data) {
            return detail::placed_tensor{used ? &memory : &unused, data};
        };
        const auto y = place(true, dY_, dY);
        const auto x = place(dW != nullptr, X_, X);
        const auto w = place(dX != nullptr, W_, W);
        const auto gx = place(dX != nullptr, dX_.memory, dX);
        const auto gw = place(dW != nullptr, dW_.memory, dW);
        const auto gb = place(dB != nullptr, dB_.memory, dB);
        status s = detail::check_run(Family::op, {y, x, w, gx, gw, gb}, workspace, workspace_bytes(1), 3);
        if (s && dX != nullptr) s = data_.run(dY, W, dX, workspace, executor);
        if (s && dW != nullptr) s = weights_.run(X, dY, dW, workspace, executor);
        if (s && dB != nullptr) s = bias_.run(dY, dB, workspace, executor);
        return translate(s.error(), Family::op, Family::transposed);
    }

private:
    struct output {
        bool planned = false;
        detail::tensor_memory memory{};
    };

    /// A call without any result is an error.
    [[nodiscard]] static error nothing_wanted() noexcept {
        return shape::error_because(errc::invalid_argument, Family::op, "dX, dW, dB",
                                    "at least one result must be requested");
    }
    [[nodiscard]] static error not_planned(std::string_view name) noexcept {
        return shape::error_because(errc::missing_shape, Family::op, name,
                                    "memory was given for a result that was not planned");
    }

    detail::tensor_memory dY_{};
    detail::tensor_memory X_{};
    detail::tensor_memory W_{};
    output dX_{};
    output dW_{};
    output dB_{};
    typename Family::data_plan data_{};
    typename Family::weights_plan weights_{};
    bias_backward_plan<typename Family::element, typename Family::bias_gradient> bias_{};
};

/// Layouts of results for the one-call form: none without memory, else the one given, else dense.
template <class T>
constexpr void settle(tensor_view<T>& out, const extents& inferred) noexcept {
    if (out.data == nullptr) {
        out.layout = {};
    } else if (out.layout.empty()) {
        out.layout = inferred;
    }
}

/// Plans and runs. Plan is Family's.
template <class Plan, class Family>
[[nodiscard]] status run_conv_grad(
    tensor_view<const typename Family::element> dY, tensor_view<const typename Family::element> X,
    tensor_view<const typename Family::element> W, const typename Family::onnx_attributes& attributes,
    tensor_view<typename Family::element> dX, tensor_view<typename Family::weights_gradient> dW,
    tensor_view<typename Family::bias_gradient> dB, const call_options& options) noexcept {
    settle(dX, X.layout.shape);
    settle(dW, W.layout.shape);
    settle(dB, {dY.layout.shape[1]});
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) -> result<Plan> {
            const auto plans = conv_gradients<Family>::make(dY.layout, X.layout, W.layout, attributes, dX.layout,
                                                            dW.layout, dB.layout, how);
            if (!plans) return plans.error();
            return Plan(*plans);
        },
        dY.data, X.data, W.data, dX.data, dW.data, dB.data);
}

}  // namespace translation

}  // namespace onnxruntime
GRADKERN_ISA_NAMESPACE_END
