// The common body of the two weight-gradient operators, which may give the gradient of the bias, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/detail/bias/select.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/select.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/elements.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What the operator knows whatever its types are. Types are numbers here, so that plans are compiled once.
class planned_weight_gradient {
public:
    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is
    /// accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        const std::size_t least =
            std::max(workspace_for(plan_.slice_bytes, 1), workspace_for(bias_plan_.slice_bytes, 1));
        if (workers <= 1) return least;
        const conv_weights::plan weights = plan_.split_for(workers);
        const bias_plan bias = bias_plan_.split_for(workers);
        return std::max(least, std::max(workspace_for(weights.shared_bytes(), weights.slice_bytes,
                                                      std::min<std::int64_t>(workers, weights.tasks())),
                                        workspace_for(bias.shared().bytes(), bias.slice_bytes,
                                                      std::min<std::int64_t>(workers, bias.tasks()))));
    }

    /// Whether the least scratch is known to fit the stack of calls, without a plan of it: it holds the sums of so many
    /// taps, whatever else there is.
    [[nodiscard]] bool is_small() const noexcept { return plan_.taps() <= 96; }

    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept {
        const source_kind from = plan_.moves_lanes() ? plan_.small_source : plan_.large_source;
        std::string_view source = from == source_kind::in_place ? "in place" : "packed";
        if (plan_.order == conv_weights::window_order::pixels && plan_.large[4] != 1) source = "transposed";
        text_writer out(text);
        out << op_ << ": " << name_of(plan_.path)
            << (plan_.sides != conv_weights::sides::as_given ? ", sides swapped" : "")
            << (plan_.path == algorithm::dense_bf16 ? ", dot_bf16" : "") << ", activations " << source
            << (plan_.sums_in_results() ? ", sums in diff_weights, " : ", ") << plan_.panels << " panels of "
            << plan_.panel_width << " lanes, " << plan_.tasks() << " tasks, " << plan_.chunks.count << " chunks, "
            << plan_.slice_bytes << " bytes a worker, " << (diff_bias_.empty() ? "" : "then the bias, ") << isa_name;
        return out.size();
    }

protected:
    /// A plan that nobody made.
    GRADKERN_NOINLINE explicit planned_weight_gradient(std::string_view op) noexcept : op_(op) {}

    /// Types of activations and results.
    struct element_types {
        std::int64_t bytes;
        std::int64_t result_bytes;
        real_type real;
        conv_weights::activations activations;
        bool pairs;  // there are dot products of pairs
    };
    /// Memory layouts: the tensors of the two sides and the results. `diff_bias` is empty for none.
    struct tensors {
        std::string_view large_name;
        std::string_view small_name;
        const tensor_layout& large;
        const tensor_layout& small;
        const tensor_layout& diff_weights;
        const tensor_layout& diff_bias;
    };

    /// Checks memory and plans a checked problem.
    [[nodiscard]] GRADKERN_NOINLINE status plan_memory(const element_types& types, const tensors& t,
                                                       const shape::convolution_problem& p, bool transposed,
                                                       gradkern::data_format format, gradkern::weights_format w_format,
                                                       const plan_options& options) noexcept {
        tensor_layout diff_weights = t.diff_weights;
        if (diff_weights.empty()) diff_weights.shape = p.weights_shape;
        shape::operator_checks checks(op_);
        check_options(checks, options, batch_use::summed);
        check_batch_layout(checks, "diff_weights", diff_weights, p.batch, types.result_bytes, options);
        check_batch_layout(checks, "diff_bias", t.diff_bias, p.batch, types.result_bytes, options);
        checks.addresses(t.large_name, t.large, types.bytes, false);
        checks.addresses(t.small_name, t.small, types.bytes, false);
        checks.addresses("diff_weights", diff_weights, types.result_bytes, true);
        checks.addresses("diff_bias", t.diff_bias, types.result_bytes, true);
        if (!checks.ok()) return checks.error();
        checks.require_that(scratch_is_countable(p), errc::overflow, "workspace", shape::uncountable_scratch);
        if (!checks.ok()) return checks.error();
        large_ = tensor_memory(t.large_name, t.large, types.bytes);
        small_ = tensor_memory(t.small_name, t.small, types.bytes);
        diff_weights_ = tensor_memory("diff_weights", batch_layout(diff_weights, p.batch, options), types.result_bytes);
        diff_bias_ = tensor_memory("diff_bias", batch_layout(t.diff_bias, p.batch, options), types.result_bytes);
        conv_weights::problem q{{.real = types.real,
                                 .axes = p.axes,
                                 .batch = p.batch,
                                 .groups = p.groups,
                                 .small_channels = p.small_channels,
                                 .large_channels = p.large_channels,
                                 .small = shape::activation_strides(t.small, format),
                                 .large = shape::activation_strides(t.large, format),
                                 .weights = shape::filter_strides(diff_weights, w_format, transposed),
                                 .summation = options.summation,
                                 .accumulate = options.output == output_mode::accumulate,
                                 .wide_results = types.result_bytes == types.real.bytes},
                                types.activations,
                                types.pairs && options.precision == precision::relaxed};
        for (shape::axis& a : q.axes) a.drop_unused_steps();
        const conv_weights::choice choice = conv_weights::choose(q, options);
        check_path(checks, conv_weights::paths, choice.row, options.algorithm);
        if (!checks.ok()) return checks.error();
        plan_ = choice.plan;
        if (t.diff_bias.empty()) return {};
        diff_dst_side_ = transposed ? shape::side::large : shape::side::small;
        const bias_problem bias{shape::bias_backward_of(p, diff_dst_side_),
                                shape::activation_strides(transposed ? t.large : t.small, format),
                                shape::strides_of(t.diff_bias)[0],
                                types.real,
                                types.activations == conv_weights::activations::wide,
                                options.output,
                                options.summation};
        const bias_path* const bias_row = select_path(bias_paths, bias, algorithm::automatic);
        bias_plan_ = bias_row->make(bias, bias_row->name);
        return {};
    }

    std::string_view op_{};
    tensor_memory large_{};
    tensor_memory small_{};
    tensor_memory diff_weights_{};
    tensor_memory diff_bias_{};
    conv_weights::plan plan_{};
    bias_plan bias_plan_{};
    shape::side diff_dst_side_ = shape::side::small;
};

/// One weight-gradient operator over activations of type T with results of type G (T or float).
template <class T, class G>
class weight_gradient_operator : public planned_weight_gradient {
public:
    /// A plan that nobody made.
    explicit weight_gradient_operator(std::string_view op) noexcept : planned_weight_gradient(op) {}

protected:
    /// Checks memory and plans a checked problem.
    [[nodiscard]] status prepare(const tensors& t, const shape::convolution_problem& p, bool transposed,
                                 gradkern::data_format format, gradkern::weights_format w_format,
                                 const plan_options& options) noexcept {
        require_elements<T, G>();
        if constexpr (takes_elements<T, G>) {
            return plan_memory({.bytes = sizeof(T),
                                .result_bytes = sizeof(G),
                                .real = sum_type_of<T>,
                                .activations = conv_weights::activations_of<T>,
                                .pairs = has_pairs<T>},
                               t, p, transposed, format, w_format, options);
        }
        return {};
    }

    [[nodiscard]] GRADKERN_NOINLINE status execute(const T* large, const T* small, G* diff_weights, G* diff_bias,
                                                   std::span<std::byte> workspace,
                                                   executor_ref executor) const noexcept {
        const status s = check_run(
            op_, {{&large_, large}, {&small_, small}, {&diff_weights_, diff_weights}, {&diff_bias_, diff_bias}},
            workspace, workspace_bytes(1), 2);
        if (!s) return s;
        if constexpr (takes_elements<T, G>) {
            conv_weights::run(plan_, large, small, diff_weights, workspace, executor);
            const T* const diff_dst = diff_dst_side_ == shape::side::large ? large : small;
            if (!diff_bias_.empty()) run_bias(bias_plan_, diff_dst, diff_bias, workspace, executor);
        }
        return {};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
