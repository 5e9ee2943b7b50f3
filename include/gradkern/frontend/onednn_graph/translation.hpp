// Between the words of the oneDNN Graph documents and the core's: attributes one way, errors the other way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

namespace translation {

/// One name on both sides.
struct rename {
    std::string_view core{};
    std::string_view document{};
};

/// The names of one operator. The core has one name for the result's shape and for its tensor, the documents have two.
struct names {
    std::string_view op{};
    std::string_view first{};  ///< the first data input
    std::string_view core_result{};
    std::string_view shape{};   ///< the result's shape, as input and as attribute
    std::string_view tensor{};  ///< the result
    std::array<rename, 3> others{};
};

inline constexpr names avg_pool_names{"AvgPoolBackprop", "output_delta", "diff_src",
                                      "input_shape",     "input_delta",  {rename{"diff_dst", "output_delta"}}};
inline constexpr names convolution_names{
    "ConvolutionBackwardData", "diff_dst", "diff_src", "dst_shape", "diff_src", {}};
inline constexpr names conv_transpose_names{
    "ConvTransposeBackpropFilters",
    "input_forward",
    "diff_weights",
    "filter_shape",
    "filter_delta",
    {rename{"src", "input_forward"}, rename{"diff_dst", "output_delta"}, rename{"weights_format", "filter_format"}}};

/// A core error in the words of a document; `result` is its word for the result.
[[nodiscard]] constexpr error translate(error e, const names& n, std::string_view result) noexcept {
    if (e.code == errc::ok) return e;
    e.op = n.op;
    if (e.argument == n.core_result) {
        e.argument = result;
        return e;
    }
    for (const rename& r : n.others) {
        if (!r.core.empty() && e.argument == r.core) {
            e.argument = r.document;
            break;
        }
    }
    return e;
}

/// Reads a word attribute, or records that it is unknown.
template <class E>
constexpr void read(shape::operator_checks& checks, std::string_view argument, const word<E>& from, E& value) noexcept {
    checks.require(from.read(value), errc::invalid_argument, argument, -1, 0, expectation::none, 0);
}

/// The shape of the result. `infer(output, is_tensor)` asks the core, which takes the shape from the attribute where
/// `output` is empty; `given` says whether that is there. An output tensor, where there is one, must agree.
template <class Infer>
[[nodiscard]] constexpr result<extents> result_shape(const names& n, std::size_t rank, bool given,
                                                     const extents& output, const Infer& infer) noexcept {
    if (!output.empty() && output.rank() != rank) {
        const result<extents> refused = infer(output, true);
        return translate(refused.error(), n, n.tensor);
    }
    // In the order of checks a missing shape comes after attributes and ranks, and before sizes: any shape will do to
    // run the earlier ones.
    const result<extents> inferred = infer(given ? extents{} : extents::filled(rank, 1), false);
    if (!given && !shape::precedes_types(inferred.error().code))
        return error{errc::missing_shape, n.op, n.shape, -1, 0, 0, expectation::none};
    if (!inferred) return translate(inferred.error(), n, n.shape);
    for (std::size_t i = 0; !output.empty() && i < rank; ++i) {
        if (output[i] != (*inferred)[i]) {
            return error{errc::invalid_shape, n.op,           n.tensor,          static_cast<int>(i),
                         output[i],           (*inferred)[i], expectation::equal};
        }
    }
    return inferred;
}

/// The core's attributes, with the shape asked for, from either source, in the place of the attribute.
[[nodiscard]] constexpr result<avg_pool_attributes> core_attributes(const extents& output_delta,
                                                                    const shape_input& input_shape,
                                                                    const AvgPoolBackprop_attributes& a) noexcept {
    shape::operator_checks checks(avg_pool_names.op);
    checks.spatial_rank(avg_pool_names.first, output_delta);
    checks.require(a.exclude_pad.has_value(), errc::invalid_argument, "exclude_pad", -1, 0, expectation::none, 0);
    avg_pool_attributes core{.kernel = a.kernel.values(),
                             .strides = a.strides.values(),
                             .pads_begin = a.pads_begin.values(),
                             .pads_end = a.pads_end.values(),
                             .exclude_pad = a.exclude_pad.value_or(false),
                             .divisor_override = a.divisor_override,
                             .diff_src_shape = (input_shape.empty() ? a.input_shape : input_shape).values()};
    read(checks, "auto_pad", a.auto_pad, core.auto_pad);
    read(checks, "rounding_type", a.rounding_type, core.rounding_type);
    read(checks, "data_format", a.data_format, core.data_format);
    if (!checks.ok()) return checks.error();
    return core;
}
[[nodiscard]] constexpr result<convolution_attributes> core_attributes(
    const extents& diff_dst, const shape_input& dst_shape, const ConvolutionBackwardData_attributes& a) noexcept {
    shape::operator_checks checks(convolution_names.op);
    checks.spatial_rank(convolution_names.first, diff_dst);
    convolution_attributes core{.strides = a.strides.values(),
                                .dilations = a.dilations.values(),
                                .pads_begin = a.pads_begin.values(),
                                .pads_end = a.pads_end.values(),
                                .output_padding = a.output_padding.values(),
                                .groups = a.groups,
                                .diff_src_shape = (dst_shape.empty() ? a.dst_shape : dst_shape).values()};
    read(checks, "auto_pad", a.auto_pad, core.auto_pad);
    read(checks, "data_format", a.data_format, core.data_format);
    read(checks, "weights_format", a.weights_format, core.weights_format);
    if (!checks.ok()) return checks.error();
    return core;
}
[[nodiscard]] constexpr result<conv_transpose_attributes> core_attributes(
    const extents& input_forward, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& a) noexcept {
    shape::operator_checks checks(conv_transpose_names.op);
    checks.spatial_rank(conv_transpose_names.first, input_forward);
    const ints& asked = filter_shape.empty() ? a.filter_shape : filter_shape;
    conv_transpose_attributes core{.strides = a.strides.values(),
                                   .dilations = a.dilations.values(),
                                   .pads_begin = a.pads_begin.values(),
                                   .pads_end = a.pads_end.values(),
                                   .output_padding = a.output_padding.values(),
                                   .groups = a.groups,
                                   .diff_weights_shape = asked.values()};
    read(checks, "auto_pad", a.auto_pad, core.auto_pad);
    read(checks, "data_format", a.data_format, core.data_format);
    read(checks, "filter_format", a.filter_format, core.weights_format);
    if (!checks.ok()) return checks.error();
    return core;
}

/// Shapes of the three operators, in the documents' words. The widest element of the call has `element_bytes`.
[[nodiscard]] constexpr result<extents> shapes(const extents& output_delta, const avg_pool_attributes& a,
                                               const extents& input_delta, std::int64_t element_bytes) noexcept {
    return result_shape(avg_pool_names, output_delta.rank(), !a.diff_src_shape.empty(), input_delta,
                        [&](const extents& output, bool is_tensor) -> result<extents> {
                            const auto p =
                                shape::avg_pool_backward_shapes(output_delta, a, output, is_tensor, element_bytes);
                            if (!p) return p.error();
                            return p->large_shape;
                        });
}
[[nodiscard]] constexpr result<extents> shapes(const extents& diff_dst, const extents& weights,
                                               const convolution_attributes& a, const extents& diff_src,
                                               std::int64_t element_bytes) noexcept {
    return result_shape(convolution_names, diff_dst.rank(), !a.diff_src_shape.empty(), diff_src,
                        [&](const extents& output, bool is_tensor) -> result<extents> {
                            const auto p = shape::convolution_backward_data_shapes(diff_dst, weights, a, output,
                                                                                   is_tensor, element_bytes);
                            if (!p) return p.error();
                            return p->large_shape;
                        });
}
[[nodiscard]] constexpr result<extents> shapes(const extents& input_forward, const extents& output_delta,
                                               const conv_transpose_attributes& a, const extents& filter_delta,
                                               std::int64_t element_bytes) noexcept {
    return result_shape(conv_transpose_names, input_forward.rank(), !a.diff_weights_shape.empty(), filter_delta,
                        [&](const extents& output, bool is_tensor) -> result<extents> {
                            const auto p = shape::conv_transpose_backward_weights_shapes(
                                input_forward, output_delta, a, output, is_tensor, element_bytes);
                            if (!p) return p.error();
                            return p->weights_shape;
                        });
}

/// A plan of the core whose errors are in the documents' words.
template <class Core, const names& Names>
class plan {
public:
    plan() noexcept = default;
    /// Takes over a plan of the core.
    explicit plan(const Core& core) noexcept : core_(core) {}

    /// Bytes of workspace that let `lanes` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t lanes = 1) const noexcept {
        return core_.workspace_bytes(lanes);
    }
    /// The core's line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept { return core_.describe(text); }

protected:
    template <class... Arguments>
    [[nodiscard]] status execute(const Arguments&... arguments) const noexcept {
        return translate(core_.run(arguments...).error(), Names, Names.tensor);
    }

private:
    Core core_{};
};

}  // namespace translation

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
