// Shapes of the convolution family: every operator of it becomes one `convolution_problem`.
//
// A convolution couples a large side (src of convolution, dst of conv_transpose) with a small side (the other one) by a
// filter element W(s, l, k): s counts the channels of the small side over all groups, l those of the large side inside
// the group of s. This holds for both families; only the names of the tensors change (see convolution.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// A checked problem of the convolution family in canonical form.
struct convolution_problem {
    std::size_t rank = 0;             ///< spatial rank
    std::int64_t batch = 0;           ///< N
    std::int64_t groups = 1;          ///< g
    std::int64_t large_channels = 0;  ///< channels of the large side in one group
    std::int64_t small_channels = 0;  ///< channels of the small side in one group
    std::array<axis, 3> axes{};       ///< D, H, W; unused ones of extent 1

    extents large_shape{};    ///< in data_format order
    extents small_shape{};    ///< in data_format order
    extents weights_shape{};  ///< in weights_format order
};

/// The tensor whose shape is the result.
enum class convolution_result : std::uint8_t { large, small, weights };

/// The arguments of one operator of the family before its problem is inferred. `large`, `small` and `weights` are shapes; the
/// one of the result holds the requested shape, or nothing.
struct convolution_request {
    std::string_view op{};
    bool transposed = false;  ///< conv_transpose family: rules T and TB, and the bound of output_padding
    convolution_result result = convolution_result::small;
    std::string_view large_name{};
    std::string_view small_name{};
    std::string_view weights_name{"weights"};
    extents large{};
    extents small{};
    extents weights{};
    std::string_view bias_name{"bias"};
    extents bias{};                 ///< (output channels), or nothing; of the bias or of its gradient
    bool result_is_tensor = false;  ///< the requested shape is an output tensor's (wrong rank: unsupported)
    bool uses_output_padding = false;
    bool has_weights_format = true;  ///< the caller chose the format, so an error may name the other one
    std::int64_t element_bytes = 4;  ///< of the widest element involved

    extents strides{};
    extents dilations{};
    extents pads_begin{};
    extents pads_end{};
    extents output_padding{};
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;
    std::int64_t groups = 1;
    gradkern::data_format data_format = gradkern::data_format::nxc;
    gradkern::weights_format weights_format = gradkern::weights_format::xio;

    /// Copies the attributes of either family.
    template <class Attributes>
    constexpr void take(const Attributes& a) noexcept {
        strides = a.strides;
        dilations = a.dilations;
        pads_begin = a.pads_begin;
        pads_end = a.pads_end;
        output_padding = a.output_padding;
        auto_pad = a.auto_pad;
        groups = a.groups;
        data_format = a.data_format;
        weights_format = a.weights_format;
    }
};

/// The reason for the size of the small side; same_* ignore output_padding.
[[nodiscard]] constexpr std::string_view small_rule(auto_pad mode, std::int64_t output_padding) noexcept {
    if (output_padding == 0 || !is_same(mode)) return window_rule(mode, rounding_type::floor);
    return mode == auto_pad::same_upper ? "auto_pad same_upper makes it ceil((size - output_padding) / stride)"
                                        : "auto_pad same_lower makes it ceil((size - output_padding) / stride)";
}
inline constexpr std::string_view transposed_rule = "stride * (size - 1) + effective kernel - pads + output_padding";
[[nodiscard]] constexpr std::string_view padding_bound(bool transposed) noexcept {
    return transposed ? "the larger of stride and dilation" : "the stride";
}
[[nodiscard]] constexpr std::string_view per_group_rule(std::int64_t groups) noexcept {
    return groups == 1 ? "" : "the channels of one group, times the number of groups";
}

/// One spatial axis of a convolution_request whose large or small side may still be unknown (0).
struct unknown_axis {
    int data_index = 0;   ///< in activations
    axis a{};             ///< its known sides
    std::int64_t ke = 1;  ///< effective kernel
    bool has_op = false;  ///< whether output_padding is given and used
    std::int64_t op = 0;  ///< output_padding

    constexpr void set(pads p) noexcept {
        a.pad_begin = p.begin;
        a.pad_end = p.end;
    }
    /// From the first position of the first window to the last one of the last window.
    [[nodiscard]] constexpr checked span() const noexcept { return (checked(a.small) - 1) * a.stride + ke; }
};

/// Infers the large side from the small one.
GRADKERN_COLD constexpr void infer_large(operator_checks& checks, const convolution_request& q,
                                         unknown_axis& u) noexcept {
    axis& a = u.a;
    checks.fits(q.large_name, u.data_index, u.span() + u.op, uncountable_windows);  // I + pb + pe
    const checked same_size =
        q.transposed ? u.span() - std::max<std::int64_t>(0, u.ke - a.stride) + u.op : checked(a.small) * a.stride;
    const checked size = is_same(q.auto_pad) ? same_size : u.span() - a.pad_begin - a.pad_end + u.op;
    checks.fits(q.large_name, u.data_index, size, "the size that follows from the strides exceeds 63 bits");
    checks.require_at_least(errc::invalid_shape, q.large_name, u.data_index, size.value(), 1,
                            {.other = q.small_name, .why = transposed_rule});
    if (!checks.ok()) return;
    a.large = size.value();
    if (is_same(q.auto_pad))
        u.set(q.transposed ? same_pads_transposed(u.ke, a.stride, q.auto_pad)
                           : same_pads_forward(a.large, u.ke, a.stride, q.auto_pad));
}

/// Infers the small side from the large one, or checks it: floor((I - op + pb + pe - Ke) / s) + 1, or ceil((I - op) / s).
GRADKERN_COLD constexpr void infer_small(operator_checks& checks, const convolution_request& q,
                                         unknown_axis& u) noexcept {
    axis& a = u.a;
    std::int64_t count = 0;
    if (is_same(q.auto_pad)) {
        count = ceil_div(a.large - u.op, a.stride);
        checks.require_at_least(errc::invalid_shape, q.large_name, u.data_index, a.large - u.op, 1,
                                {.why = "the size minus output_padding"});
        if (!q.transposed) u.set(same_pads_forward(a.large, u.ke, a.stride, q.auto_pad));
    } else {
        const checked padded = checked(a.large) + a.pad_begin + a.pad_end;
        const checked room = padded - u.ke - u.op;
        checks.fits(q.large_name, u.data_index, room, uncountable_padded);
        checks.require(room.value() >= 0, errc::invalid_shape, q.large_name, u.data_index, padded.value() - u.op,
                       expectation::at_least, u.ke, {.why = too_small_for_kernel});
        if (checks.ok()) count = room.value() / a.stride + 1;
    }
    if (!checks.ok()) return;
    if (a.small == 0) {
        a.small = count;
        checks.fits(q.small_name, u.data_index, u.span(), uncountable_windows);
    }
    checks.require_equal(errc::invalid_shape, q.small_name, u.data_index, a.small, count,
                         {.other = q.large_name, .why = small_rule(q.auto_pad, u.op)});
}

/// Checks that the sides of a transposed convolution are consistent.
GRADKERN_COLD constexpr void check_transposed_sides(operator_checks& checks, const convolution_request& q,
                                                    unknown_axis& u) noexcept {
    axis& a = u.a;
    checks.fits(q.small_name, u.data_index, u.span() + u.op, uncountable_windows);
    if (!checks.ok()) return;
    if (is_same(q.auto_pad)) {
        u.set(same_pads_transposed_sized(u.span().value(), u.op, a.large, q.auto_pad));
        checks.require_equal(errc::invalid_shape, q.small_name, u.data_index, a.small,
                             a.large - u.op < 1 ? 0 : ceil_div(a.large - u.op, a.stride),
                             {.other = q.large_name, .why = small_rule(q.auto_pad, u.op)});
        return;
    }
    const checked least = u.span() - a.pad_begin - a.pad_end;
    const checked rest = checked(a.large) - least;
    checks.fits(q.large_name, u.data_index, rest, uncountable_windows);
    if (u.has_op) {
        checks.require_equal(errc::invalid_shape, q.large_name, u.data_index, a.large, (least + u.op).value(),
                             {.other = q.small_name, .why = transposed_rule});
        return;
    }
    const std::int64_t bound = (std::max)(a.stride, a.dilation);
    checks.require_at_least(errc::invalid_shape, q.large_name, u.data_index, a.large, least.value(),
                            {.other = q.small_name, .why = transposed_rule});
    checks.require(rest.value() < bound, errc::invalid_shape, q.large_name, u.data_index, a.large, expectation::below,
                   (least + bound).value(),
                   {.other = q.small_name, .why = "output_padding must be below max(stride, dilation)"});
}

/// Spatial sizes and pads of one axis of a convolution_request. On entry the result's side is 0 if it is not known.
/// Records the first mistake in `checks`; `i` is the index of the axis in attribute vectors.
GRADKERN_COLD constexpr axis infer_convolution_axis(operator_checks& checks, const convolution_request& q,
                                                    std::size_t i, std::int64_t kernel, std::int64_t large,
                                                    std::int64_t small) noexcept {
    unknown_axis u;
    u.data_index = static_cast<int>(spatial_index(q.data_format) + i);
    u.a.large = large;
    u.a.small = small;
    u.a.kernel = kernel;
    u.a.stride = q.strides[i];
    u.a.dilation = q.dilations[i];
    const bool explicit_pads = q.auto_pad == auto_pad::none;
    if (explicit_pads && !q.pads_begin.empty()) u.a.pad_begin = q.pads_begin[i];
    if (explicit_pads && !q.pads_end.empty()) u.a.pad_end = q.pads_end[i];
    // output_padding has no effect on a data gradient of a convolution whose size is given
    u.has_op = q.uses_output_padding && !q.output_padding.empty() && (q.transposed || large == 0);
    if (u.has_op) u.op = q.output_padding[i];
    const checked effective = effective_kernel(kernel, u.a.dilation);
    checks.fits(q.weights_name, static_cast<int>(kernel_index(q.weights_format) + i), effective, uncountable_reach);
    u.ke = effective.value();
    if (!checks.ok()) return u.a;

    if (large == 0) {
        infer_large(checks, q, u);
        return u.a;
    }
    checks.fits(q.large_name, u.data_index, checked(large) + u.a.pad_begin + u.a.pad_end, uncountable_padded);
    if (checks.ok() && (!q.transposed || small == 0)) infer_small(checks, q, u);
    if (checks.ok() && q.transposed) check_transposed_sides(checks, q, u);
    return u.a;
}

/// The channels of a request's filter if it were in format `f`, and their axes.
struct filter_channels {
    int full_index;
    int per_group_index;
    std::int64_t full;       ///< complete: those of the small side
    std::int64_t per_group;  ///< divided by groups: those of the large side

    constexpr filter_channels(const convolution_request& q, weights_format f, std::size_t r) noexcept {
        const std::size_t o = output_channel_index(f, r);
        const std::size_t i = input_channel_index(f, r);
        full_index = static_cast<int>(q.transposed ? i : o);
        per_group_index = static_cast<int>(q.transposed ? o : i);
        full = q.weights[static_cast<std::size_t>(full_index)];
        per_group = q.weights[static_cast<std::size_t>(per_group_index)];
    }
    /// Whether the channels on the large side are these times the number of groups.
    [[nodiscard]] constexpr bool fit_large(const convolution_request& q, std::int64_t channels) const noexcept {
        return channels % q.groups == 0 && channels / q.groups == per_group;
    }
};

/// Reports weights whose channels fit neither side as they are, but both sides in the other format. Otherwise the error would
/// name the tensor that is checked first.
GRADKERN_COLD constexpr void check_other_format(operator_checks& checks, const convolution_request& q,
                                                std::size_t r) noexcept {
    if (!checks.ok() || !q.has_weights_format) return;
    const bool is_oix = q.weights_format == weights_format::oix;
    const filter_channels own(q, q.weights_format, r);
    const filter_channels other(q, is_oix ? weights_format::xio : weights_format::oix, r);
    const std::size_t at = channel_index(q.data_format, r);
    const std::int64_t small = q.small.empty() ? other.full : q.small[at];
    if (small != other.full || small % q.groups != 0) return;
    if (!q.large.empty() && !other.fit_large(q, q.large[at])) return;
    const std::string_view hint =
        is_oix ? "its channels would fit as weights_format xio" : "its channels would fit as weights_format oix";
    if (!q.large.empty() && !own.fit_large(q, q.large[at]))
        checks.require_equal(errc::invalid_shape, q.weights_name, own.per_group_index, own.per_group,
                             q.large[at] / q.groups, {.other = q.large_name, .why = hint});
    if (!q.small.empty())
        checks.require_equal(errc::invalid_shape, q.weights_name, own.full_index, own.full, small,
                             {.other = q.small_name, .why = hint});
}

/// Whether the first data input lies on the small side.
[[nodiscard]] constexpr bool reads_small_first(const convolution_request& q) noexcept {
    return q.transposed ? q.result != convolution_result::small : q.result == convolution_result::large;
}

/// Checks 1 and 2: attributes of `r` spatial axes.
GRADKERN_COLD constexpr void check_attributes(operator_checks& checks, const convolution_request& q,
                                              std::size_t r) noexcept {
    checks.length("strides", q.strides, r, true);
    checks.length("dilations", q.dilations, r, true);
    if (q.auto_pad == auto_pad::none) {
        checks.length("pads_begin", q.pads_begin, r, false);
        checks.length("pads_end", q.pads_end, r, false);
    }
    if (q.uses_output_padding) checks.length("output_padding", q.output_padding, r, false);
    checks.word("auto_pad", q.auto_pad, auto_pad::valid);
    checks.word("data_format", q.data_format, data_format::ncx);
    checks.word("weights_format", q.weights_format, weights_format::oix);
    checks.entries("strides", q.strides, 1);
    checks.entries("dilations", q.dilations, 1);
    checks.entries("pads_begin", q.pads_begin, 0);
    checks.entries("pads_end", q.pads_end, 0);
    if (q.uses_output_padding) {
        checks.entries("output_padding", q.output_padding, 0);
        for (std::size_t i = 0; checks.ok() && !q.output_padding.empty() && i < r; ++i) {
            const std::int64_t bound = q.transposed ? (std::max)(q.strides[i], q.dilations[i]) : q.strides[i];
            checks.require(q.output_padding[i] < bound, errc::invalid_argument, "output_padding", static_cast<int>(i),
                           q.output_padding[i], expectation::below, bound, {.why = padding_bound(q.transposed)});
            // same_* gives O * s if the size is not given, so no output_padding is possible
            if (!q.transposed && q.large.empty() && is_same(q.auto_pad))
                checks.require_equal(errc::invalid_argument, "output_padding", static_cast<int>(i), q.output_padding[i],
                                     0, {.why = "auto_pad same_upper and same_lower make the size stride * windows"});
        }
    }
    checks.require_at_least(errc::invalid_argument, "groups", -1, q.groups, 1);
}

/// Checks 3 to 5: ranks, missing shapes, sizes, and bytes of the tensors that are given.
GRADKERN_COLD constexpr void check_tensors(operator_checks& checks, const convolution_request& q,
                                           std::size_t r) noexcept {
    struct tensor {
        convolution_result role;
        std::string_view name;
        const extents* shape;
    };
    const std::array<tensor, 3> tensors{tensor{convolution_result::large, q.large_name, &q.large},
                                        tensor{convolution_result::small, q.small_name, &q.small},
                                        tensor{convolution_result::weights, q.weights_name, &q.weights}};
    for (const tensor& t : tensors)
        if (t.role != q.result || (q.result_is_tensor && !t.shape->empty())) checks.tensor_rank(t.name, *t.shape, r);
    if (!q.bias.empty()) checks.rank(errc::unsupported, q.bias_name, q.bias, 1);
    if (q.result == convolution_result::weights) checks.has_shape(q.weights_name, q.weights);
    for (const tensor& t : tensors)
        if (t.role != q.result || !t.shape->empty())
            checks.sizes(
                t.name, *t.shape, r,
                t.role == convolution_result::weights ? kernel_index(q.weights_format) : spatial_index(q.data_format));
    if (!q.bias.empty()) checks.require_at_least(errc::invalid_shape, q.bias_name, 0, q.bias[0], 0);
    // sizes still to be inferred are checked later
    for (const tensor& t : tensors)
        if (!t.shape->empty()) checks.volume(t.name, *t.shape, q.element_bytes);
    checks.volume(q.bias_name, q.bias, q.element_bytes);
}

/// Check 5: the reach of kernels and windows fits 63 bits.
GRADKERN_COLD constexpr void check_reach(operator_checks& checks, const convolution_request& q,
                                         std::size_t r) noexcept {
    const std::size_t kernel_at = kernel_index(q.weights_format);
    const std::size_t space_at = spatial_index(q.data_format);
    for (std::size_t i = 0; i < r; ++i) {
        const checked ke = effective_kernel(q.weights[kernel_at + i], q.dilations[i]);
        checks.fits(q.weights_name, static_cast<int>(kernel_at + i), ke, uncountable_reach);
        if (q.auto_pad == auto_pad::none && !q.large.empty()) {
            checks.fits(q.large_name, static_cast<int>(space_at + i),
                        checked(q.large[space_at + i]) + (q.pads_begin.empty() ? 0 : q.pads_begin[i]) +
                            (q.pads_end.empty() ? 0 : q.pads_end[i]),
                        uncountable_padded);
        }
        if (!q.small.empty()) {
            checks.fits(q.small_name, static_cast<int>(space_at + i),
                        (checked(q.small[space_at + i]) - 1) * q.strides[i] + ke.value(), uncountable_windows);
        }
    }
}

/// What would make the channels of activations match those of a filter, where it can be told: `full` on the small side, `large`
/// on the other.
[[nodiscard]] GRADKERN_COLD constexpr std::string_view channel_hint(const convolution_request& q, std::size_t at,
                                                                    std::size_t other, std::int64_t full,
                                                                    std::int64_t large) noexcept {
    const auto fit = [&](std::size_t i) {
        return (q.large.empty() || q.large[i] == large) && (q.small.empty() || q.small[i] == full);
    };
    if (!q.has_weights_format || fit(at)) return "";
    const std::int64_t groups = q.large.empty() || large == 0 ? 1 : q.large[at] / large;
    if (q.groups == 1 && groups > 1 && q.large[at] == groups * large && full % groups == 0)
        return "groups is 1: weights of more groups have the channels of one";
    if (!fit(other)) return "";
    return at == 1 ? "its channels would fit as data_format nxc" : "its channels would fit as data_format ncx";
}

/// Check 6: batch and channels. `large_channels`: of all groups.
GRADKERN_COLD constexpr void check_channels(operator_checks& checks, const convolution_request& q, std::size_t r,
                                            const filter_channels& filter, const checked& large_channels) noexcept {
    const std::size_t at = channel_index(q.data_format, r);
    checks.fits(q.weights_name, -1, large_channels, "its channels times the number of groups exceed 63 bits");
    if (!q.large.empty() && !q.small.empty()) {
        if (reads_small_first(q)) {
            checks.require_equal(errc::invalid_shape, q.large_name, 0, q.large[0], q.small[0], {.other = q.small_name});
        } else {
            checks.require_equal(errc::invalid_shape, q.small_name, 0, q.small[0], q.large[0], {.other = q.large_name});
        }
    }
    check_other_format(checks, q, r);
    checks.require(q.groups > 0 && filter.full % q.groups == 0, errc::invalid_shape, q.weights_name, filter.full_index,
                   filter.full, expectation::multiple_of, q.groups, {.why = "the number of groups must divide it"});
    const std::string_view hint = channel_hint(q, at, r + 2 - at, filter.full, large_channels.value());
    if (!q.small.empty())
        checks.require_equal(errc::invalid_shape, q.small_name, static_cast<int>(at), q.small[at], filter.full,
                             {.other = q.weights_name, .why = hint});
    if (!q.large.empty())
        checks.require_equal(errc::invalid_shape, q.large_name, static_cast<int>(at), q.large[at],
                             large_channels.value(),
                             {.other = q.weights_name, .why = hint.empty() ? per_group_rule(q.groups) : hint});
    if (!q.bias.empty())
        checks.require_equal(errc::invalid_shape, q.bias_name, 0, q.bias[0],
                             q.transposed ? large_channels.value() : filter.full,
                             {.other = q.weights_name, .why = q.transposed ? per_group_rule(q.groups) : ""});
}

/// Checks a request in the common order and returns its problem, or the first error.
[[nodiscard]] GRADKERN_COLD constexpr result<convolution_problem> infer_convolution_problem(
    const convolution_request& q) noexcept {
    operator_checks checks(q.op);
    const extents& first = reads_small_first(q) ? q.small : q.large;
    checks.spatial_rank(reads_small_first(q) ? q.small_name : q.large_name, first);
    if (!checks.ok()) return checks.error();
    const std::size_t r = first.rank() - 2;
    check_attributes(checks, q, r);
    check_tensors(checks, q, r);
    if (!checks.ok()) return checks.error();
    check_reach(checks, q, r);
    const filter_channels filter(q, q.weights_format, r);
    const checked large_channels = checked(filter.per_group) * q.groups;
    check_channels(checks, q, r, filter, large_channels);

    const std::size_t kernel_at = kernel_index(q.weights_format);
    const std::size_t space_at = spatial_index(q.data_format);
    const extents& given = q.large.empty() ? q.small : q.large;
    convolution_problem p;
    p.rank = r;
    p.batch = given[0];
    p.groups = q.groups;
    p.weights_shape = q.weights;
    p.large_shape = p.small_shape = given;
    for (std::size_t i = 0; checks.ok() && i < r; ++i) {
        axis& a = p.axes[3 - r + i];
        a = infer_convolution_axis(checks, q, i, q.weights[kernel_at + i], q.large.empty() ? 0 : q.large[space_at + i],
                                   q.small.empty() ? 0 : q.small[space_at + i]);
        p.large_shape[space_at + i] = a.large;
        p.small_shape[space_at + i] = a.small;
    }
    p.large_shape[channel_index(q.data_format, r)] = large_channels.value();
    p.small_shape[channel_index(q.data_format, r)] = filter.full;
    checks.volume(q.large_name, p.large_shape, q.element_bytes);
    checks.volume(q.small_name, p.small_shape, q.element_bytes);
    if (!checks.ok()) return checks.error();
    p.large_channels = filter.per_group;
    p.small_channels = filter.full / q.groups;
    return p;
}

/// Strides of a filter in the order (small-side channels, large-side channels, KD, KH, KW).
[[nodiscard]] constexpr canonical_strides filter_strides(const tensor_layout& t, weights_format f,
                                                         bool transposed) noexcept {
    const std::size_t r = t.shape.rank() - 2;
    const extents s = strides_of(t);
    const std::int64_t o = s[output_channel_index(f, r)];
    const std::int64_t i = s[input_channel_index(f, r)];
    canonical_strides c{transposed ? i : o, transposed ? o : i, 0, 0, 0};
    for (std::size_t k = 0; k < r; ++k) c[5 - r + k] = s[kernel_index(f) + k];
    return c;
}

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
