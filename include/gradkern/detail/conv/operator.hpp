// The common body of the four operators that the gather engine computes: their plans differ in names and roles only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/gather.hpp>
#include <gradkern/detail/conv/make_plan.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/elements.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What the operator knows whatever its types are. Types are numbers here, so that plans are compiled once.
class planned_gather {
public:
    /// Bytes of workspace that let `lanes` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t lanes = 1) const noexcept {
        return workspace_for(plan_.slice_bytes, std::min<std::int64_t>(lanes, plan_.tasks()));
    }

    /// Whether the least scratch is known to fit the stack of calls, without a plan of it: no more products per output than
    /// that surely holds.
    [[nodiscard]] bool is_small() const noexcept {
        constexpr std::int64_t products = 352;
        const std::int64_t blocks = plan_.taps() * plan_.channel_blocks();
        return blocks <= products && blocks * std::min(plan_.terms, channel_block) <= products;
    }

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept {
        text_writer out(text);
        const std::string_view path = plan_.fills          ? "fill"
                                      : plan_.planewise    ? "planewise"
                                      : plan_.positionwise ? "positionwise"
                                      : plan_.shared       ? "channelwise, shared"
                                      : plan_.sliding      ? "channelwise, sliding"
                                      : plan_.channelwise  ? "channelwise"
                                                           : "dense";
        const bool lanes_are_channels = !plan_.positionwise && !plan_.planewise;
        out << op_ << ": gather, " << path << (plan_.pairs ? ", dot_bf16" : "") << ", activations "
            << (plan_.staged && !plan_.points_in_place ? "staged" : "in place") << ", " << plan_.panels << " panels of "
            << plan_.panel_rows * plan_.panel_width << (lanes_are_channels ? " lanes, " : " channels, ")
            << plan_.blocks.count() << " blocks, " << plan_.tasks() << " tasks, " << plan_.slice_bytes
            << " bytes a lane, " << isa_name;
        return out.size();
    }

protected:
    /// A plan that nobody made.
    explicit planned_gather(std::string_view op) noexcept : op_(op) {}

    /// Types of tensors and bias.
    struct element_types {
        std::int64_t bytes;
        std::int64_t bias_bytes;
        data_type bias;
        bool f32;
        bool halves;  // tiles of depthwise layers read and write them
        bool pairs;   // there are dot products of pairs
    };
    /// Memory layouts of the tensors, in the order of the arguments of run().
    struct tensors {
        std::string_view in_name;
        std::string_view out_name;
        tensor_layout in;
        tensor_layout weights;
        tensor_layout bias;
        tensor_layout out;
    };

    /// Checks memory and plans a checked problem.
    [[nodiscard]] status plan_memory(const element_types& types, tensors t, const shape::convolution_problem& p,
                                     shape::side outputs, bool transposed, gradkern::data_format format,
                                     gradkern::weights_format w_format, const plan_options& options) noexcept {
        if (t.out.empty()) t.out.shape = outputs == shape::side::small ? p.small_shape : p.large_shape;
        shape::operator_checks checks(op_);
        check_options(checks, options);
        checks.addresses(t.in_name, t.in, types.bytes, false);
        checks.addresses("weights", t.weights, types.bytes, false);
        checks.addresses("bias", t.bias, types.bias_bytes, false);
        checks.addresses(t.out_name, t.out, types.bytes, true);
        shape::convolution_problem reached = p;
        for (shape::axis& a : reached.axes) static_cast<void>(a.drop_outside_taps());
        checks.require_that(scratch_is_countable(reached), errc::overflow, "workspace", shape::uncountable_scratch);
        if (!checks.ok()) return checks.error();
        in_ = tensor_memory(t.in_name, t.in, types.bytes);
        weights_ = tensor_memory("weights", t.weights, types.bytes);
        bias_ = tensor_memory("bias", t.bias, types.bias_bytes);
        out_ = tensor_memory(t.out_name, t.out, types.bytes);
        plan_ = make_gather_plan(
            p, outputs, shape::activation_strides(t.in, format), shape::activation_strides(t.out, format),
            shape::filter_strides(t.weights, w_format, transposed),
            {.f32 = types.f32, .halves = types.halves, .pairs = types.pairs && options.precision == precision::relaxed},
            options);
        plan_.bias_type = types.bias;
        plan_.bias_step = t.bias.empty() ? 0 : shape::strides_of(t.bias)[0];
        return {};
    }

    std::string_view op_{};
    tensor_memory in_{};
    tensor_memory weights_{};
    tensor_memory bias_{};
    tensor_memory out_{};
    gather_plan plan_{};
};

/// One gather operator over tensors of type T with a bias of type Bias.
template <class T, class Bias>
class gather_operator : public planned_gather {
public:
    /// A plan that nobody made.
    explicit gather_operator(std::string_view op) noexcept : planned_gather(op) {}

protected:
    /// Checks memory and plans a checked problem.
    [[nodiscard]] status prepare(const tensors& t, const shape::convolution_problem& p, shape::side outputs,
                                 bool transposed, gradkern::data_format format, gradkern::weights_format w_format,
                                 const plan_options& options) noexcept {
        require_elements<T, Bias>();
        if constexpr (takes_elements<T, Bias>) {
            return plan_memory({.bytes = sizeof(T),
                                .bias_bytes = sizeof(Bias),
                                .bias = element_traits<Bias>::type,
                                .f32 = std::is_same_v<T, float>,
                                .halves = is_half<lane_operand<T>>,
                                .pairs = has_pairs<T>},
                               t, p, outputs, transposed, format, w_format, options);
        }
        return {};
    }

    [[nodiscard]] status execute(const T* in, const T* weights, const Bias* bias, T* out,
                                 std::span<std::byte> workspace, executor_ref executor) const noexcept {
        const status s = check_run(op_, {{&in_, in}, {&weights_, weights}, {&bias_, bias}, {&out_, out}},
                                   workspace.size(), workspace_bytes(1));
        if (!s) return s;
        if constexpr (takes_elements<T, Bias>)
            run_gather(plan_, in, weights, bias_.empty() ? nullptr : bias, out, workspace, executor);
        return {};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
