// Forward passes and data gradients: the common body of four operators, whose plans differ in names and roles only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/select.hpp>
#include <gradkern/detail/conv/tile_loop.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/elements.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What plans of all paths have.
[[nodiscard]] constexpr const panel_plan& panel_plan_of(const conv_plan& plan) noexcept {
    const panel_plan* common = nullptr;
    with_plan(plan, [&](const panel_plan& g) { common = &g; });
    return *common;
}

template <class Real>
struct conv_kernels {
    tile_element<Real> tile;
    pixel_element<Real> pixel;
    line_element<Real> line;
};
template <class Src, class Weights, class Dst>
inline constexpr conv_kernels<accumulate_t<Dst>> conv_kernels_of{
    make_tile_element<Src, Weights, Dst>(), make_pixel_element<Src, Weights, Dst>(), make_line_element<Dst>()};

/// The tasks of one worker.
template <class Real>
GRADKERN_NOINLINE void run_worker(const conv_plan& plan, const conv_call<Real>& call, std::byte* slice,
                                  const next_task& next) noexcept {
    with_plan(plan, [&](const auto& g) { run_path(g, call, slice, next); });
}

/// Runs a plan, whatever the types of the tensors: compiled once for each type of sums. All checks have passed.
template <class Real>
GRADKERN_NOINLINE void run_conv(const conv_plan& plan, conv_call<Real> call, std::span<std::byte> workspace,
                                executor_ref executor) noexcept {
    panel_run& run = call.run;
    const std::int64_t workers = executor.concurrency();
    run.tasks = tasks_within(panel_plan_of(plan), workers, workspace);
    run.shared = slices(workspace, run.tasks.scratch.shared_bytes)[0];
    const slices memory = slices_of(run.tasks, workspace);
    const bool is_alone = workers <= 1 || memory.count() <= 1;
    if (is_alone) executor = {};  // whatever it says next: one worker packs what it reads
    const auto worker = [&](std::byte* slice, const next_task& next) { run_worker(plan, call, slice, next); };
    if (run.tasks.shares() && !is_alone) {
        run_tasks(executor, run.begin_packing(), memory, worker, in_order);
        run.begin_computing();
    }
    run_tasks(executor, run.tasks.count(), memory, worker, run.tasks.per_block());
}

/// What the operator knows whatever its types are. Types are numbers here, so that plans are compiled once.
class planned_conv {
public:
    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] GRADKERN_NOINLINE std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        const panel_plan& g = panel_plan_of(plan_);
        const std::size_t least = workspace_of(tasks_for(g, 1), 1);
        return workers <= 1 ? least : std::max(least, workspace_of(tasks_for(g, workers), workers));
    }

    /// Whether the least scratch is known to fit the stack of calls, without a plan of it: no more products per output than
    /// that surely holds.
    [[nodiscard]] bool is_small() const noexcept { return is_small_; }

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept {
        const panel_plan& g = panel_plan_of(plan_);
        text_writer out(text);
        out << op_ << ": " << name_of(path_) << (g.panels.has_pairs() ? ", dot_bf16" : "") << ", activations "
            << (g.in_place() ? "in place" : "packed") << ", " << g.group_panels << " panels of " << g.panel_channels
            << " channels, " << g.tasks.blocks.count() << " blocks, " << g.tasks.count() << " tasks, "
            << scratch_bytes(tasks_for(g, 1), 1) << " bytes a worker, " << isa_name;
        return out.size();
    }

protected:
    /// A plan that nobody made.
    GRADKERN_NOINLINE explicit planned_conv(std::string_view op) noexcept : op_(op) {}

    /// Memory layouts of the tensors, in the order of the arguments of run().
    struct tensors {
        std::string_view in_name;
        std::string_view out_name;
        const tensor_layout& in;
        const tensor_layout& weights;
        const tensor_layout& bias;
        const tensor_layout& out;
    };

    /// Checks memory and plans a checked problem.
    [[nodiscard]] GRADKERN_NOINLINE status plan_memory(const conv_types& types, const tensors& t,
                                                       const shape::convolution_problem& p, shape::side outputs,
                                                       bool transposed, gradkern::data_format format,
                                                       gradkern::weights_format w_format,
                                                       const plan_options& options) noexcept {
        tensor_layout out = t.out;
        if (out.empty()) out.shape = outputs == shape::side::small ? p.small_shape : p.large_shape;
        shape::operator_checks checks(op_);
        check_options(checks, options);
        checks.addresses(t.in_name, t.in, types.bytes, false);
        checks.addresses("weights", t.weights, types.weights_bytes, false);
        checks.addresses("bias", t.bias, types.bias_bytes, false);
        checks.addresses(t.out_name, out, types.out_bytes, true);
        if (!checks.ok()) return checks.error();
        shape::convolution_problem reached = p;
        for (shape::axis& a : reached.axes) static_cast<void>(a.drop_outside_taps());
        checks.require_that(scratch_is_countable(reached), errc::overflow, "workspace", shape::uncountable_scratch);
        if (!checks.ok()) return checks.error();
        conv_problem problem = make_conv_problem(
            p, outputs, shape::activation_strides(t.in, format), shape::activation_strides(out, format),
            shape::filter_strides(t.weights, w_format, transposed), types, options);
        problem.bias_stride = t.bias.empty() ? 0 : shape::strides_of(t.bias)[0];
        const conv_path* const path = select_conv_path(problem, options.algorithm);
        check_path(checks, conv_paths, path, options.algorithm);
        if (!checks.ok()) return checks.error();
        in_ = tensor_memory(t.in_name, t.in, types.bytes);
        weights_ = tensor_memory("weights", t.weights, types.weights_bytes);
        bias_ = tensor_memory("bias", t.bias, types.bias_bytes);
        out_ = tensor_memory(t.out_name, out, types.out_bytes);
        if (problem.out_channels != 0) plan_ = path->make(problem, path->name);  // else no task
        path_ = path->name;
        constexpr std::int64_t small_products = 352;
        const std::int64_t segments = problem.taps() * shape::ceil_div(problem.in_channels, channel_block);
        is_small_ = segments * std::min(problem.in_channels, channel_block) <= small_products;
        return {};
    }

    std::string_view op_{};
    tensor_memory in_{};
    tensor_memory weights_{};
    tensor_memory bias_{};
    tensor_memory out_{};
    algorithm path_ = algorithm::automatic;
    bool is_small_ = false;
    conv_plan plan_{};
};

/// One operator that reads elements of Src, weights of Weights and a bias of Bias, and writes elements of Dst.
template <class Src, class Weights, class Dst, class Bias>
class conv_operator : public planned_conv {
public:
    using planned_conv::planned_conv;

protected:
    /// Checks memory and plans a checked problem.
    [[nodiscard]] status prepare(const tensors& t, const shape::convolution_problem& p, shape::side outputs,
                                 bool transposed, gradkern::data_format format, gradkern::weights_format w_format,
                                 const plan_options& options) noexcept {
        require_convolution<Src, Weights, Dst, Bias>();
        if constexpr (takes_convolution<Src, Weights, Dst> && takes_elements<Bias>) {
            constexpr bool one_type = have_one_type<Src, Weights, Dst>;
            return plan_memory({.bytes = sizeof(Src),
                                .weights_bytes = sizeof(Weights),
                                .bias_bytes = sizeof(Bias),
                                .out_bytes = sizeof(Dst),
                                .bias = element_traits<Bias>::type,
                                .sum = sum_type_of<Src>,
                                .is_wide = simd::is_wide<Src> && simd::is_wide<Weights> && simd::is_wide<Dst>,
                                .native_16bit = one_type && is_native_16bit<lane_operand<Src>>,
                                .bf16_pairs = one_type && has_pairs<Src>},
                               t, p, outputs, transposed, format, w_format, options);
        }
        return {};
    }

    [[nodiscard]] status execute(const Src* in, const Weights* weights, const Bias* bias, Dst* out,
                                 std::span<std::byte> workspace, executor_ref executor) const noexcept {
        const status s = check_run(op_, {{&in_, in}, {&weights_, weights}, {&bias_, bias}, {&out_, out}}, workspace,
                                   workspace_bytes(1));
        if (!s) return s;
        if constexpr (takes_convolution<Src, Weights, Dst> && takes_elements<Bias>)
            run_conv<accumulate_t<Src>>(plan_,
                                        {.src = tensor_pointer_of(in),
                                         .weights = tensor_pointer_of(weights),
                                         .bias = bias_.empty() ? nullptr : bias,
                                         .dst = reinterpret_cast<std::byte*>(out),
                                         .element = conv_kernels_of<Src, Weights, Dst>},
                                        workspace, executor);
        return {};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
