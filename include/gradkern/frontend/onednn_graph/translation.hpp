// Translates attributes and shapes of the oneDNN Graph documents for the core, and plans and errors of the core back. Each
// operator is a set of `names` and a function `X_request` (requests.hpp), which all forms of the operator use.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/frontend/onednn_graph/attributes.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

namespace translation {

// --------------------------------------------------------------------------------------------------------------- names

/// One name in both vocabularies.
struct rename {
    std::string_view core{};
    std::string_view document{};
};

/// The names of one operator. The core has one name for the result's shape and its tensor, the documents have two.
struct names {
    std::string_view op{};
    std::string_view first{};  ///< the first data input
    std::string_view core_result{};
    std::string_view shape{};   ///< the result's shape, as input and as attribute; if there is neither, as `tensor`
    std::string_view tensor{};  ///< the result
    std::array<rename, 3> others{};
};

inline constexpr names AvgPool_names{"AvgPool", "src", "dst", "dst", "dst", {}};
inline constexpr names AvgPoolBackprop_names{"AvgPoolBackprop", "output_delta", "diff_src",
                                             "input_shape",     "input_delta",  {rename{"diff_dst", "output_delta"}}};
inline constexpr names MaxPool_names{"MaxPool", "src", "dst", "dst", "dst", {}};
inline constexpr names MaxPoolBackward_names{"MaxPoolBackward", "src", "diff_src", "diff_src", "diff_src", {}};
inline constexpr names Convolution_names{"Convolution", "src", "dst", "dst", "dst", {}};
inline constexpr names ConvolutionBackwardData_names{
    "ConvolutionBackwardData", "diff_dst", "diff_src", "dst_shape", "diff_src", {}};
inline constexpr names ConvolutionBackwardWeights_names{
    "ConvolutionBackwardWeights", "src", "diff_weights", "weights_shape", "diff_weights", {}};
inline constexpr names ConvTranspose_names{"ConvTranspose", "src", "dst", "dst", "dst", {}};
inline constexpr names ConvTransposeBackwardData_names{
    "ConvTransposeBackwardData", "diff_dst", "diff_src", "diff_src", "diff_src", {}};
inline constexpr names ConvTransposeBackpropFilters_names{
    "ConvTransposeBackpropFilters",
    "input_forward",
    "diff_weights",
    "filter_shape",
    "filter_delta",
    {rename{"src", "input_forward"}, rename{"diff_dst", "output_delta"}, rename{"weights_format", "filter_format"}}};
inline constexpr names BiasAddBackward_names{"BiasAddBackward", "diff_dst", "diff_bias", "diff_bias", "diff_bias", {}};

// ------------------------------------------------------------------------------------------------------------- filters

/// Two neighbouring axes of a filter that are swapped, or none: how XOI and IOX differ from XIO and OIX.
struct swapped_axes {
    int first = -1;  ///< the other is the next one

    constexpr swapped_axes() noexcept = default;
    constexpr swapped_axes(transposed_format f, std::size_t rank) noexcept {
        if (f.swapped) first = f.format == weights_format::oix ? 0 : static_cast<int>(rank) - 2;
    }

    /// A shape or strides in the other order. The core refuses a wrong rank.
    [[nodiscard]] constexpr extents operator()(extents e) const noexcept {
        const auto at = static_cast<std::size_t>(first);
        if (first >= 0 && at + 1 < e.values().size()) std::swap(e[at], e[at + 1]);
        return e;
    }
    /// A layout of checked sizes in the other order.
    [[nodiscard]] constexpr tensor_layout operator()(const tensor_layout& t) const noexcept {
        if (first < 0) return t;
        return {(*this)(t.shape), (*this)(shape::strides_of(t))};
    }
    /// An axis in the other order.
    [[nodiscard]] constexpr int operator()(int axis) const noexcept {
        if (first < 0 || (axis != first && axis != first + 1)) return axis;
        return axis == first ? first + 1 : first;
    }
};

// -------------------------------------------------------------------------------------------------------------- errors

/// A core error with the names of a document; `result` is its name for the result.
[[nodiscard]] constexpr error translate(error e, const names& n, std::string_view result,
                                        swapped_axes filter = {}) noexcept {
    if (e.code == errc::ok) return e;
    const auto in_document = [&](std::string_view core) {
        if (core == n.core_result) return result;
        for (const rename& r : n.others)
            if (!r.core.empty() && core == r.core) return r.document;
        return core;
    };
    e.op = n.op;
    if (e.argument == "weights" || e.argument == "diff_weights") e.axis = filter(e.axis);
    e.argument = in_document(e.argument);
    e.other = in_document(e.other);
    return e;
}

// ---------------------------------------------------------------------------------------------------------- attributes

/// Reads a word attribute, or records that it is unknown.
template <class E>
constexpr void read(shape::operator_checks& checks, std::string_view argument, const word<E>& from, E& value) noexcept {
    checks.known_word(from.read(value), argument, words_of(E{}));
}

/// The requested shape: the shape input before the attribute, the newer name of that before the older.
[[nodiscard]] constexpr const extents& asked_for(const ints& input, const ints& newer, const ints& older) noexcept {
    if (!input.empty()) return input.values();
    return (newer.empty() ? older : newer).values();
}

// ------------------------------------------------------------------------------------------------------------ requests

/// A call in the core's terms, and the shape of its result in those of the document.
template <class Attributes>
struct request {
    Attributes attributes{};
    extents result{};
    swapped_axes filter{};  ///< from the filter of the document to the core's
};

/// The first step for pools: spatial rank and words. Core: the attributes of average or max pools, `a` the document's.
template <class Core, class Attributes>
[[nodiscard]] constexpr result<request<Core>> start_pool(const names& n, const extents& first,
                                                         const Attributes& a) noexcept {
    shape::operator_checks checks(n.op);
    checks.spatial_rank(n.first, first);
    Core core{.kernel = a.kernel.values(),
              .strides = a.strides.values(),
              .pads_begin = a.pads_begin.values(),
              .pads_end = a.pads_end.values()};
    if constexpr (requires { a.exclude_pad; }) {
        checks.require_that(a.exclude_pad.has_value(), errc::invalid_argument, "exclude_pad",
                            "it has no default: true or false must be given");
        core.exclude_pad = a.exclude_pad.value_or(false);
        core.divisor_override = a.divisor_override;
    } else {
        core.dilations = a.dilations.values();
        core.ignore_nan = a.ignore_nan;
    }
    read(checks, "auto_pad", a.auto_pad, core.auto_pad);
    read(checks, "rounding_type", a.rounding_type, core.rounding_type);
    read(checks, "data_format", a.data_format, core.data_format);
    if (!checks.ok()) return checks.error();
    return request<Core>{core};
}

/// The first step for convolutions: spatial rank and words. Core: the attributes of one of the two families.
template <class Core, class Attributes>
[[nodiscard]] constexpr result<request<Core>> start_convolution(const names& n, const extents& first,
                                                                const Attributes& a) noexcept {
    shape::operator_checks checks(n.op);
    checks.spatial_rank(n.first, first);
    Core core{.strides = a.strides.values(),
              .dilations = a.dilations.values(),
              .pads_begin = a.pads_begin.values(),
              .pads_end = a.pads_end.values(),
              .groups = a.groups};
    if constexpr (requires { a.output_padding; }) core.output_padding = a.output_padding.values();
    typename decltype(a.weights_format)::value_type format{};
    read(checks, "auto_pad", a.auto_pad, core.auto_pad);
    read(checks, "data_format", a.data_format, core.data_format);
    read(checks, "filter_format", a.filter_format, format);
    read(checks, "weights_format", a.weights_format, format);
    if (!checks.ok()) return checks.error();
    const transposed_format order = format;
    core.weights_format = order.format;
    return request<Core>{core, {}, {order, first.rank()}};
}

/// The position of the size checks in the common order (shape/check.hpp), after attributes and ranks.
enum class place : std::uint8_t { sizes, overflow, consistency, nowhere };
[[nodiscard]] constexpr place place_of(const error& e) noexcept {
    if (e.code == errc::ok) return place::nowhere;
    if (e.code == errc::overflow) return place::overflow;
    // a vector of the wrong length, or an entry below the smallest allowed one
    const bool is_size = e.axis < 0 || (e.relation == expectation::at_least && e.expected <= 1);
    return e.code == errc::invalid_shape && !is_size ? place::consistency : place::sizes;
}

/// The last step of every request: the shape of the result, of rank `rank`. `infer(request, output, is_tensor)` asks
/// the core for it; if `output` is empty, the core takes it from the attributes. `missing`: the document requires an input
/// or attribute, and neither is given. An output tensor, if there is one, must agree.
template <class Attributes, class Infer>
[[nodiscard]] constexpr result<request<Attributes>> finish(const names& n, result<request<Attributes>> q,
                                                           std::size_t rank, bool missing, const extents& output,
                                                           const Infer& infer) noexcept {
    if (!q) return q;
    if (!output.empty() && output.rank() != rank) {
        const result<extents> refused = infer(*q, output, true);
        return translate(refused.error(), n, n.tensor, q->filter);
    }
    // In the order of checks a missing shape comes after attributes and ranks, and before sizes. Any shape can run the
    // earlier checks.
    const result<extents> inferred = infer(*q, missing ? extents::filled(rank, 1) : extents{}, false);
    if (missing && !shape::precedes_types(inferred.error().code))
        return shape::error_because(errc::missing_shape, n.op, n.shape,
                                    "it was given neither as input nor as attribute");
    error refused;          // by the core, for the output tensor
    if (!output.empty()) {  // sizes and volume of the output tensor are part of the order, too
        refused = translate(infer(*q, output, true).error(), n, n.tensor, q->filter);
        if (refused.argument == n.tensor &&
            place_of(refused) < std::min(place_of(inferred.error()), place::consistency))
            return refused;
    }
    if (!inferred) return translate(inferred.error(), n, n.shape, q->filter);
    for (std::size_t i = 0; !output.empty() && i < rank; ++i) {
        shape::operator_checks checks(n.op);
        checks.require_equal(errc::invalid_shape, n.tensor, static_cast<int>(i), output[i], (*inferred)[i],
                             {.other = n.shape == n.tensor ? std::string_view{} : n.shape});
        // If the core finds this mistake first, its message says more.
        if (!checks.ok()) return checks.error() == refused ? refused : checks.error();
    }
    q.value().result = *inferred;
    return q;
}

/// One of the shapes of a problem of the core.
template <class Problem>
[[nodiscard]] constexpr result<extents> shape_in(const result<Problem>& p, extents Problem::*member) noexcept {
    if (!p) return p.error();
    return (*p).*member;
}

/// infer_X: the shape of the result of a request.
template <class Attributes>
[[nodiscard]] constexpr result<extents> result_of(const result<request<Attributes>>& q) noexcept {
    if (!q) return q.error();
    return q->result;
}

// --------------------------------------------------------------------------------------------------------------- plans

/// A plan of the core whose errors use the documents' names. `Pointers` are those to the tensors, in order.
template <class Core, const names& Names, class... Pointers>
class plan {
public:
    plan() noexcept = default;
    /// From a plan of the core, or its error.
    [[nodiscard]] static result<plan> of(const result<Core>& core, swapped_axes filter = {}) noexcept {
        if (!core) return translate(core.error(), Names, Names.tensor, filter);
        plan p;
        p.core_ = *core;
        return p;
    }

    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        return core_.workspace_bytes(workers);
    }
    /// The core's line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept { return core_.describe(text); }

    /// Runs the core's plan. The tensors are the operator's inputs and its output.
    [[nodiscard]] status run(Pointers... tensors, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return translate(core_.run(tensors..., workspace, executor).error(), Names, Names.tensor);
    }

private:
    Core core_{};
};

/// Bytes of the widest of two element types.
template <class T, class G = T>
inline constexpr std::int64_t widest = sizeof(T) > sizeof(G) ? sizeof(T) : sizeof(G);

}  // namespace translation

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
