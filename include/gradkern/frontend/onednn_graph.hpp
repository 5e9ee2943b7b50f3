// The three gradient operators of the oneDNN Graph documents in their own spelling. This header translates and computes
// nothing: each operator here is one of the core, under the names on the left.
//
//     document                                        core
//     ---------------------------------------------   --------------------------------------------------------------
//     AvgPoolBackprop, AvgPoolBackward                avg_pool_backward
//       input  output_delta                             diff_dst
//       input  input_shape (1-D), or the attribute      diff_src_shape
//       output input_delta                              diff_src
//     ConvolutionBackwardData,                        convolution_backward_data
//     ConvolutionBackpropData
//       input  diff_dst, weights                        diff_dst, weights
//       input  dst_shape (1-D), or the attribute        diff_src_shape: "dst" is the result of the operator, diff_src
//       output diff_src                                 diff_src
//     ConvTransposeBackpropFilters,                   conv_transpose_backward_weights
//     ConvTransposeBackwardWeights
//       input  input_forward                            src
//       input  output_delta                             diff_dst
//       input  filter_shape (1-D), or the attribute     diff_weights_shape
//       output filter_delta                             diff_weights
//       filter_format                                   weights_format
//     kernel, strides, dilations, pads_begin,         the same
//     pads_end, exclude_pad, auto_pad, groups,
//     output_padding, data_format, weights_format
//     rounding_type, divisor_override                 the same; extensions of AvgPoolBackprop
//
// The attribute called weights_format (filter_format) names the order of a filter's axes; O and I are output and input
// channels of the forward operator, and the ConvTranspose family divides O by groups (shape/layout.hpp).
//
// A shape tensor wins over the attribute of its name, which is then not looked at. Where neither is there, the answer
// is missing_shape: also for ConvolutionBackwardData, whose size the core would infer. Attributes whose value is one of
// a few words take the word in the documents' spelling (`same_upper`), in the upper-case one of oneDNN's code
// (`SAME_UPPER`), or the core's enumerator. Errors carry the names of the documents.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/avg_pool.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

// --------------------------------------------------------------------------------------------------------- vocabulary

/// An attribute whose value is one of a few words; absent unless given. Text is not copied: it must live until the call
/// that takes the attributes returns.
template <class E>
class word {
public:
    /// Absent: the attribute has its default.
    constexpr word() noexcept = default;
    // NOLINTNEXTLINE(google-explicit-constructor): `.auto_pad = auto_pad::valid` must work
    constexpr word(E value) noexcept : value_(value) {}
    /// A word, e.g. "same_upper"; a null pointer is absent.
    template <class S>
        requires(std::convertible_to<const S&, std::string_view> && !std::is_null_pointer_v<S>)
    // NOLINTNEXTLINE(google-explicit-constructor): `.auto_pad = "valid"` must work
    constexpr word(const S& text) noexcept {
        if constexpr (std::is_pointer_v<S>) {
            if (text == nullptr) return;
        }
        text_ = std::string_view(text);
        is_text_ = true;
    }

    /// Stores the value, or leaves `target` alone where absent. Returns false where the word is unknown.
    [[nodiscard]] constexpr bool read(E& target) const noexcept {
        if (is_text_) return parse(text_, target);
        if (value_) target = *value_;
        return true;
    }

private:
    std::optional<E> value_{};
    std::string_view text_{};
    bool is_text_ = false;
};

/// A list of integers: an attribute vector, or the data of a 1-D shape tensor of s32 or s64. Absent where it is empty.
class ints {
public:
    /// Absent.
    constexpr ints() noexcept = default;
    /// From a braced list: `.strides = {2, 2}`.
    constexpr ints(std::initializer_list<std::int64_t> values) noexcept : values_(values) {}
    // NOLINTNEXTLINE(google-explicit-constructor): the core's vectors are attributes, too
    constexpr ints(const extents& values) noexcept : values_(values) {}
    /// From contiguous s32 or s64 integers: std::span, std::vector, std::array and their like.
    template <std::ranges::contiguous_range R>
        requires(std::ranges::sized_range<R> && std::signed_integral<std::ranges::range_value_t<R>> &&
                 (sizeof(std::ranges::range_value_t<R>) == 4 || sizeof(std::ranges::range_value_t<R>) == 8))
    // NOLINTNEXTLINE(google-explicit-constructor): `.strides = vector` must work
    constexpr ints(const R& values) noexcept
        : values_(std::span<const std::ranges::range_value_t<R>>(values)) {}

    /// True where nothing was given.
    [[nodiscard]] constexpr bool empty() const noexcept { return values_.empty(); }
    /// The integers as the core takes them.
    [[nodiscard]] constexpr const extents& values() const noexcept { return values_; }

private:
    extents values_{};
};

/// The data of an optional shape tensor.
using shape_input = ints;

/// Attributes of AvgPoolBackprop.
struct AvgPoolBackprop_attributes {
    ints strides{};                                ///< required, > 0
    ints pads_begin{};                             ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                               ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints kernel{};                                 ///< required, > 0
    std::optional<bool> exclude_pad{};             ///< required; true: divide by the taps inside the input
    word<gradkern::auto_pad> auto_pad{};           ///< none, same_upper, same_lower or valid; default none
    word<gradkern::data_format> data_format{};     ///< NXC or NCX; default NXC
    ints input_shape{};                            ///< full shape of input_delta in data_format order
    word<gradkern::rounding_type> rounding_type{};  ///< extension: floor, ceil or ceil_torch; default floor
    std::optional<std::int64_t> divisor_override{};  ///< extension: any non-zero number replaces the divisor
};

/// Attributes of ConvolutionBackwardData.
struct ConvolutionBackwardData_attributes {
    ints strides{};                                   ///< required, > 0
    ints pads_begin{};                                ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                  ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                                 ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};              ///< none, same_upper, same_lower or valid; default none
    ints output_padding{};                            ///< 0 <= op < stride; checked, and without effect on the result
    std::int64_t groups = 1;                          ///< >= 1
    word<gradkern::data_format> data_format{};        ///< NXC or NCX; default NXC
    word<gradkern::weights_format> weights_format{};  ///< XIO or OIX; default XIO
    ints dst_shape{};                                 ///< full shape of diff_src in data_format order
};

/// Attributes of ConvTransposeBackpropFilters.
struct ConvTransposeBackpropFilters_attributes {
    ints strides{};                                  ///< required, > 0
    ints pads_begin{};                               ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                 ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                                ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};             ///< none, same_upper, same_lower or valid; default none
    ints output_padding{};                           ///< 0 <= op < max(stride, dilation); absent accepts every size
                                                     ///< of output_delta that fits
    std::int64_t groups = 1;                         ///< >= 1
    word<gradkern::data_format> data_format{};       ///< NXC or NCX; default NXC
    word<gradkern::weights_format> filter_format{};  ///< XIO = (K..., IC, OC/g) or OIX = (OC/g, IC, K...); default XIO
    ints filter_shape{};                             ///< full shape of filter_delta in filter_format order
};

// -------------------------------------------------------------------------------------------------------- translation

namespace translation {

/// One name on both sides.
struct rename {
    std::string_view core{};
    std::string_view document{};
};

/// The names of one operator. The core has one name for the result's shape and for its tensor, the documents have two.
struct names {
    std::string_view op{};
    std::string_view first{};        ///< the first data input
    std::string_view core_result{};
    std::string_view shape{};        ///< the result's shape, as input and as attribute
    std::string_view tensor{};       ///< the result
    std::array<rename, 3> others{};
};

inline constexpr names avg_pool_names{
    "AvgPoolBackprop", "output_delta", "diff_src", "input_shape", "input_delta", {rename{"diff_dst", "output_delta"}}};
inline constexpr names convolution_names{
    "ConvolutionBackwardData", "diff_dst", "diff_src", "dst_shape", "diff_src", {}};
inline constexpr names conv_transpose_names{
    "ConvTransposeBackpropFilters", "input_forward", "diff_weights", "filter_shape", "filter_delta",
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
    const result<extents> inferred = infer(extents{}, false);
    if (!given) {
        // In the order of checks a missing shape comes after attributes and ranks, and before sizes.
        const errc code = inferred.error().code;
        if (code != errc::invalid_argument && code != errc::unsupported)
            return error{errc::missing_shape, n.op, n.shape, -1, 0, 0, expectation::none};
    }
    if (!inferred) return translate(inferred.error(), n, n.shape);
    for (std::size_t i = 0; !output.empty() && i < rank; ++i) {
        if (output[i] != (*inferred)[i]) {
            return error{errc::invalid_shape, n.op, n.tensor, static_cast<int>(i), output[i], (*inferred)[i],
                         expectation::equal};
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
                            const auto p = shape::avg_pool_backward_shapes(output_delta, a, output, is_tensor,
                                                                           element_bytes);
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

// ---------------------------------------------------------------------------------------------------- AvgPoolBackprop

/// The shape of input_delta: the shape input, else the attribute; neither: missing_shape.
[[nodiscard]] constexpr result<extents> infer_AvgPoolBackprop(const extents& output_delta,
                                                              const shape_input& input_shape,
                                                              const AvgPoolBackprop_attributes& attributes) noexcept {
    const auto core = translation::core_attributes(output_delta, input_shape, attributes);
    if (!core) return core.error();
    return translation::shapes(output_delta, *core, {}, 4);
}

/// A planned AvgPoolBackprop. A value: copy it, share it between threads.
template <class T>
class AvgPoolBackprop_plan : public translation::plan<avg_pool_backward_plan<T>, translation::avg_pool_names> {
public:
    using translation::plan<avg_pool_backward_plan<T>, translation::avg_pool_names>::plan;

    /// Spreads each element of output_delta evenly over its window of input_delta, as avg_pool_backward_plan::run.
    [[nodiscard]] status run(const T* output_delta, T* input_delta, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(output_delta, input_delta, workspace, executor);
    }
};

/// Plans AvgPoolBackprop_plan::run. `input_delta` may be empty: dense in the inferred shape, which it must have
/// otherwise.
template <class T>
[[nodiscard]] result<AvgPoolBackprop_plan<T>> plan_AvgPoolBackprop(const tensor_layout& output_delta,
                                                                   const shape_input& input_shape,
                                                                   const AvgPoolBackprop_attributes& attributes,
                                                                   const tensor_layout& input_delta = {},
                                                                   const plan_options& options = {}) noexcept {
    const auto core = translation::core_attributes(output_delta.shape, input_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(output_delta.shape, *core, input_delta.shape, sizeof(T));
    if (!shape) return shape.error();
    const auto plan = plan_avg_pool_backward<T>(output_delta, *core, input_delta, options);
    if (!plan) return translation::translate(plan.error(), translation::avg_pool_names, "input_delta");
    return AvgPoolBackprop_plan<T>(*plan);
}

/// AvgPoolBackprop in one call.
template <class T>
[[nodiscard]] status AvgPoolBackprop(tensor_view<const T> output_delta, const shape_input& input_shape,
                                     const AvgPoolBackprop_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> input_delta,
                                     const call_options& options = {}) noexcept {
    const auto core = translation::core_attributes(output_delta.layout.shape, input_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(output_delta.layout.shape, *core, input_delta.layout.shape, sizeof(T));
    if (!shape) return shape.error();
    const status s = avg_pool_backward<T>(output_delta, *core, input_delta, options);
    return translation::translate(s.error(), translation::avg_pool_names, "input_delta");
}

// -------------------------------------------------------------------------------------------- ConvolutionBackwardData

/// The shape of diff_src: the shape input, else the attribute; neither: missing_shape.
[[nodiscard]] constexpr result<extents> infer_ConvolutionBackwardData(
    const extents& diff_dst, const extents& weights, const shape_input& dst_shape,
    const ConvolutionBackwardData_attributes& attributes) noexcept {
    const auto core = translation::core_attributes(diff_dst, dst_shape, attributes);
    if (!core) return core.error();
    return translation::shapes(diff_dst, weights, *core, {}, 4);
}

/// A planned ConvolutionBackwardData. A value: copy it, share it between threads.
template <class T>
class ConvolutionBackwardData_plan
    : public translation::plan<convolution_backward_data_plan<T>, translation::convolution_names> {
public:
    using translation::plan<convolution_backward_data_plan<T>, translation::convolution_names>::plan;

    /// The gradient of a convolution's input, as convolution_backward_data_plan::run.
    [[nodiscard]] status run(const T* diff_dst, const T* weights, T* diff_src, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(diff_dst, weights, diff_src, workspace, executor);
    }
};

/// Plans ConvolutionBackwardData_plan::run. `diff_src` may be empty: dense in the inferred shape, which it must have
/// otherwise.
template <class T>
[[nodiscard]] result<ConvolutionBackwardData_plan<T>> plan_ConvolutionBackwardData(
    const tensor_layout& diff_dst, const tensor_layout& weights, const shape_input& dst_shape,
    const ConvolutionBackwardData_attributes& attributes, const tensor_layout& diff_src = {},
    const plan_options& options = {}) noexcept {
    const auto core = translation::core_attributes(diff_dst.shape, dst_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(diff_dst.shape, weights.shape, *core, diff_src.shape, sizeof(T));
    if (!shape) return shape.error();
    const auto plan = plan_convolution_backward_data<T>(diff_dst, weights, *core, diff_src, options);
    if (!plan) return translation::translate(plan.error(), translation::convolution_names, "diff_src");
    return ConvolutionBackwardData_plan<T>(*plan);
}

/// ConvolutionBackwardData in one call.
template <class T>
[[nodiscard]] status ConvolutionBackwardData(tensor_view<const T> diff_dst,
                                             std::type_identity_t<tensor_view<const T>> weights,
                                             const shape_input& dst_shape,
                                             const ConvolutionBackwardData_attributes& attributes,
                                             std::type_identity_t<tensor_view<T>> diff_src,
                                             const call_options& options = {}) noexcept {
    const auto core = translation::core_attributes(diff_dst.layout.shape, dst_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(diff_dst.layout.shape, weights.layout.shape, *core, diff_src.layout.shape,
                                           sizeof(T));
    if (!shape) return shape.error();
    const status s = convolution_backward_data<T>(diff_dst, weights, *core, diff_src, options);
    return translation::translate(s.error(), translation::convolution_names, "diff_src");
}

// --------------------------------------------------------------------------------------- ConvTransposeBackpropFilters

/// The shape of filter_delta: the shape input, else the attribute; neither: missing_shape.
[[nodiscard]] constexpr result<extents> infer_ConvTransposeBackpropFilters(
    const extents& input_forward, const extents& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& attributes) noexcept {
    const auto core = translation::core_attributes(input_forward, filter_shape, attributes);
    if (!core) return core.error();
    return translation::shapes(input_forward, output_delta, *core, {}, 4);
}

/// A planned ConvTransposeBackpropFilters; G is T, or float for 16-bit T. A value: copy it, share it between threads.
template <class T, class G = T>
class ConvTransposeBackpropFilters_plan
    : public translation::plan<conv_transpose_backward_weights_plan<T, G>, translation::conv_transpose_names> {
public:
    using translation::plan<conv_transpose_backward_weights_plan<T, G>, translation::conv_transpose_names>::plan;

    /// The gradient of a transposed convolution's filter, as conv_transpose_backward_weights_plan::run.
    [[nodiscard]] status run(const T* input_forward, const T* output_delta, G* filter_delta,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return this->execute(input_forward, output_delta, filter_delta, workspace, executor);
    }
};

/// Plans ConvTransposeBackpropFilters_plan::run. `filter_delta` may be empty: dense in the inferred shape, which it
/// must have otherwise.
template <class T, class G = T>
[[nodiscard]] result<ConvTransposeBackpropFilters_plan<T, G>> plan_ConvTransposeBackpropFilters(
    const tensor_layout& input_forward, const tensor_layout& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackpropFilters_attributes& attributes, const tensor_layout& filter_delta = {},
    const plan_options& options = {}) noexcept {
    constexpr std::int64_t widest = sizeof(T) > sizeof(G) ? sizeof(T) : sizeof(G);
    const auto core = translation::core_attributes(input_forward.shape, filter_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(input_forward.shape, output_delta.shape, *core, filter_delta.shape, widest);
    if (!shape) return shape.error();
    const auto plan = plan_conv_transpose_backward_weights<T, G>(input_forward, output_delta, *core, filter_delta,
                                                                 options);
    if (!plan) return translation::translate(plan.error(), translation::conv_transpose_names, "filter_delta");
    return ConvTransposeBackpropFilters_plan<T, G>(*plan);
}

/// ConvTransposeBackpropFilters in one call.
template <class T, class G>
[[nodiscard]] status ConvTransposeBackpropFilters(tensor_view<const T> input_forward,
                                                  std::type_identity_t<tensor_view<const T>> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackpropFilters_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    constexpr std::int64_t widest = sizeof(T) > sizeof(G) ? sizeof(T) : sizeof(G);
    const auto core = translation::core_attributes(input_forward.layout.shape, filter_shape, attributes);
    if (!core) return core.error();
    const auto shape = translation::shapes(input_forward.layout.shape, output_delta.layout.shape, *core,
                                           filter_delta.layout.shape, widest);
    if (!shape) return shape.error();
    const status s = conv_transpose_backward_weights<T, G>(input_forward, output_delta, *core, filter_delta, options);
    return translation::translate(s.error(), translation::conv_transpose_names, "filter_delta");
}

// -------------------------------------------------------------------------------------------------------- other names

/// The same operators under their other names; arguments, attributes and the names in errors are those above.
using AvgPoolBackward_attributes = AvgPoolBackprop_attributes;
/// As AvgPoolBackward_attributes.
using ConvolutionBackpropData_attributes = ConvolutionBackwardData_attributes;
/// As AvgPoolBackward_attributes.
using ConvTransposeBackwardWeights_attributes = ConvTransposeBackpropFilters_attributes;
/// A planned AvgPoolBackward.
template <class T>
using AvgPoolBackward_plan = AvgPoolBackprop_plan<T>;
/// A planned ConvolutionBackpropData.
template <class T>
using ConvolutionBackpropData_plan = ConvolutionBackwardData_plan<T>;
/// A planned ConvTransposeBackwardWeights.
template <class T, class G = T>
using ConvTransposeBackwardWeights_plan = ConvTransposeBackpropFilters_plan<T, G>;

/// infer_AvgPoolBackprop.
[[nodiscard]] constexpr result<extents> infer_AvgPoolBackward(const extents& output_delta,
                                                              const shape_input& input_shape,
                                                              const AvgPoolBackward_attributes& attributes) noexcept {
    return infer_AvgPoolBackprop(output_delta, input_shape, attributes);
}
/// plan_AvgPoolBackprop.
template <class T>
[[nodiscard]] result<AvgPoolBackward_plan<T>> plan_AvgPoolBackward(const tensor_layout& output_delta,
                                                                   const shape_input& input_shape,
                                                                   const AvgPoolBackward_attributes& attributes,
                                                                   const tensor_layout& input_delta = {},
                                                                   const plan_options& options = {}) noexcept {
    return plan_AvgPoolBackprop<T>(output_delta, input_shape, attributes, input_delta, options);
}
/// AvgPoolBackprop.
template <class T>
[[nodiscard]] status AvgPoolBackward(tensor_view<const T> output_delta, const shape_input& input_shape,
                                     const AvgPoolBackward_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> input_delta,
                                     const call_options& options = {}) noexcept {
    return AvgPoolBackprop<T>(output_delta, input_shape, attributes, input_delta, options);
}

/// infer_ConvolutionBackwardData.
[[nodiscard]] constexpr result<extents> infer_ConvolutionBackpropData(
    const extents& diff_dst, const extents& weights, const shape_input& dst_shape,
    const ConvolutionBackpropData_attributes& attributes) noexcept {
    return infer_ConvolutionBackwardData(diff_dst, weights, dst_shape, attributes);
}
/// plan_ConvolutionBackwardData.
template <class T>
[[nodiscard]] result<ConvolutionBackpropData_plan<T>> plan_ConvolutionBackpropData(
    const tensor_layout& diff_dst, const tensor_layout& weights, const shape_input& dst_shape,
    const ConvolutionBackpropData_attributes& attributes, const tensor_layout& diff_src = {},
    const plan_options& options = {}) noexcept {
    return plan_ConvolutionBackwardData<T>(diff_dst, weights, dst_shape, attributes, diff_src, options);
}
/// ConvolutionBackwardData.
template <class T>
[[nodiscard]] status ConvolutionBackpropData(tensor_view<const T> diff_dst,
                                             std::type_identity_t<tensor_view<const T>> weights,
                                             const shape_input& dst_shape,
                                             const ConvolutionBackpropData_attributes& attributes,
                                             std::type_identity_t<tensor_view<T>> diff_src,
                                             const call_options& options = {}) noexcept {
    return ConvolutionBackwardData<T>(diff_dst, weights, dst_shape, attributes, diff_src, options);
}

/// infer_ConvTransposeBackpropFilters.
[[nodiscard]] constexpr result<extents> infer_ConvTransposeBackwardWeights(
    const extents& input_forward, const extents& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackwardWeights_attributes& attributes) noexcept {
    return infer_ConvTransposeBackpropFilters(input_forward, output_delta, filter_shape, attributes);
}
/// plan_ConvTransposeBackpropFilters.
template <class T, class G = T>
[[nodiscard]] result<ConvTransposeBackwardWeights_plan<T, G>> plan_ConvTransposeBackwardWeights(
    const tensor_layout& input_forward, const tensor_layout& output_delta, const shape_input& filter_shape,
    const ConvTransposeBackwardWeights_attributes& attributes, const tensor_layout& filter_delta = {},
    const plan_options& options = {}) noexcept {
    return plan_ConvTransposeBackpropFilters<T, G>(input_forward, output_delta, filter_shape, attributes, filter_delta,
                                                   options);
}
/// ConvTransposeBackpropFilters.
template <class T, class G>
[[nodiscard]] status ConvTransposeBackwardWeights(tensor_view<const T> input_forward,
                                                  std::type_identity_t<tensor_view<const T>> output_delta,
                                                  const shape_input& filter_shape,
                                                  const ConvTransposeBackwardWeights_attributes& attributes,
                                                  tensor_view<G> filter_delta,
                                                  const call_options& options = {}) noexcept {
    return ConvTransposeBackpropFilters<T, G>(input_forward, output_delta, filter_shape, attributes, filter_delta,
                                              options);
}

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
