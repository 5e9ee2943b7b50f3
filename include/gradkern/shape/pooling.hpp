// Shapes of the pooling family: every operator of it becomes one `pooling_problem`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// A checked pooling problem in canonical form.
struct pooling_problem {
    std::size_t rank = 0;        ///< spatial rank
    std::int64_t batch = 0;      ///< N
    std::int64_t channels = 0;   ///< C
    std::array<axis, 3> axes{};  ///< D, H, W; unused ones of extent 1
    extents large_shape{};       ///< src, in data_format order
    extents small_shape{};       ///< dst, in data_format order
};

/// The arguments of a pooling operator before its problem is inferred. The forward operator gives `large` (src) and may
/// request `small` (dst); the backward operator gives `small` (diff_dst) and must request `large` (diff_src).
struct pooling_request {
    std::string_view op{};
    bool backward = false;
    bool needs_small = false;  ///< `small` is an input, not a result: it must not be empty
    std::string_view large_name{};
    std::string_view small_name{};
    extents large{};
    extents small{};
    std::string_view large_twin_name{};  ///< a second tensor of the large shape (max and Lp pool: diff_src beside src)
    extents large_twin{};
    std::string_view
        small_twin_name{};  ///< a second tensor of the small shape (max pool: indices beside dst; Lp pool: diff_dst)
    extents small_twin{};
    bool needs_small_twin = false;   ///< it is an input, too
    bool result_is_tensor = false;   ///< the requested shape is an output tensor's (wrong rank: unsupported)
    std::int64_t element_bytes = 4;  ///< of the widest element involved

    extents kernel{};
    extents strides{};
    extents pads_begin{};
    extents pads_end{};
    extents dilations{};
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;
    gradkern::rounding_type rounding_type = gradkern::rounding_type::floor;
    gradkern::data_format data_format = gradkern::data_format::nxc;
    std::optional<std::int64_t> divisor_override{};
    gradkern::index_base index_base = gradkern::index_base::tensor;
    gradkern::storage_order storage_order = gradkern::storage_order::row_major;

    /// Copies the attributes that all pools have.
    template <class Attributes>
    constexpr void take(const Attributes& a) noexcept {
        kernel = a.kernel;
        strides = a.strides;
        pads_begin = a.pads_begin;
        pads_end = a.pads_end;
        dilations = a.dilations;
        auto_pad = a.auto_pad;
        rounding_type = a.rounding_type;
        data_format = a.data_format;
    }
};

/// Checks 1 and 2: attributes of `r` spatial axes.
constexpr void check_attributes(operator_checks& checks, const pooling_request& q, std::size_t r) noexcept {
    checks.length("kernel", q.kernel, r, true);
    checks.length("strides", q.strides, r, true);
    if (q.auto_pad == auto_pad::none) {
        checks.length("pads_begin", q.pads_begin, r, false);
        checks.length("pads_end", q.pads_end, r, false);
    }
    checks.length("dilations", q.dilations, r, false);
    checks.word("auto_pad", q.auto_pad, auto_pad::valid);
    checks.word("rounding_type", q.rounding_type, rounding_type::ceil_torch);
    checks.word("data_format", q.data_format, data_format::ncx);
    checks.word("index_base", q.index_base, index_base::image);
    checks.word("storage_order", q.storage_order, storage_order::column_major);
    checks.entries("kernel", q.kernel, 1);
    checks.entries("strides", q.strides, 1);
    checks.entries("dilations", q.dilations, 1);
    checks.entries("pads_begin", q.pads_begin, 0);
    checks.entries("pads_end", q.pads_end, 0);
    if (q.divisor_override)
        checks.require(*q.divisor_override != 0, errc::invalid_argument, "divisor_override", -1, 0,
                       expectation::not_equal, 0);
}

/// Checks 3 to 5: ranks, missing shapes, sizes, and bytes of the tensors that are given.
constexpr void check_tensors(operator_checks& checks, const pooling_request& q, std::size_t r) noexcept {
    struct tensor {
        std::string_view name;
        const extents* shape;
    };
    const std::array<tensor, 4> tensors{tensor{q.large_name, &q.large}, tensor{q.small_name, &q.small},
                                        tensor{q.large_twin_name, &q.large_twin},
                                        tensor{q.small_twin_name, &q.small_twin}};
    if (q.result_is_tensor) {
        const tensor& asked = tensors[q.backward ? 0 : 1];
        if (!asked.shape->empty() || q.needs_small) checks.tensor_rank(asked.name, *asked.shape, r);
    }
    for (const tensor& twin : {tensors[2], tensors[3]})
        if (!twin.shape->empty()) checks.tensor_rank(twin.name, *twin.shape, r);
    if (q.needs_small_twin) checks.tensor_rank(q.small_twin_name, q.small_twin, r);
    if (q.backward) checks.has_shape(q.large_name, q.large);
    for (const tensor& t : tensors)
        if (!t.shape->empty()) checks.sizes(t.name, *t.shape, r, spatial_index(q.data_format));
    for (const tensor& t : tensors) checks.volume(t.name, *t.shape, q.element_bytes);
}

/// Spatial axis `i` with explicit pads and as many windows as fit. Check 5: the reach of its windows fits 63 bits.
[[nodiscard]] constexpr axis pooling_axis(operator_checks& checks, const pooling_request& q, std::size_t i) noexcept {
    const bool explicit_pads = q.auto_pad == auto_pad::none;
    const std::size_t at = spatial_index(q.data_format) + i;
    const int data_index = static_cast<int>(at);
    axis a;
    a.large = q.large[at];
    a.kernel = q.kernel[i];
    a.stride = q.strides[i];
    if (!q.dilations.empty()) a.dilation = q.dilations[i];
    if (explicit_pads && !q.pads_begin.empty()) a.pad_begin = q.pads_begin[i];
    if (explicit_pads && !q.pads_end.empty()) a.pad_end = q.pads_end[i];
    const checked ke = effective_kernel(a.kernel, a.dilation);
    checks.fits("kernel", static_cast<int>(i), ke, uncountable_reach);
    checks.fits(q.large_name, data_index, checked(a.large) + a.pad_begin + a.pad_end, uncountable_padded);
    if (checks.ok()) {  // the reach of the last window, which may exceed the padded input
        const std::int64_t room = a.large + a.pad_begin + a.pad_end - ke.value();
        if (is_same(q.auto_pad)) {
            a.small = ceil_div(a.large, a.stride);
        } else if (room >= -window_overhang(a.stride, q.rounding_type)) {
            a.small = window_count(room, a.stride, a.large, a.pad_begin, q.rounding_type);
        }
        checks.fits(q.large_name, data_index, (checked(a.small) - 1) * a.stride + ke, uncountable_windows);
    }
    if (!q.small.empty())
        checks.fits(q.small_name, data_index, (checked(q.small[at]) - 1) * a.stride + ke, uncountable_windows);
    return a;
}

/// Check 6 of spatial axis `i`: pads of auto_pad, room for a window, the requested number of windows.
constexpr void check_windows(operator_checks& checks, const pooling_request& q, std::size_t i, axis& a) noexcept {
    const std::size_t at = spatial_index(q.data_format) + i;
    const int data_index = static_cast<int>(at);
    if (is_same(q.auto_pad)) {
        const pads s = same_pads_forward(a.large, a.reach() + 1, a.stride, q.auto_pad);
        a.pad_begin = s.begin;
        a.pad_end = s.end;
    } else {
        const bool one_may_overhang = q.rounding_type == rounding_type::ceil_torch;
        checks.require_at_least(errc::invalid_shape, q.large_name, data_index, a.large + a.pad_begin + a.pad_end,
                                a.reach() + 1 - window_overhang(a.stride, q.rounding_type),
                                {.why = one_may_overhang ? too_small_to_overhang : too_small_for_kernel});
    }
    if (!q.small.empty())
        checks.require_equal(errc::invalid_shape, q.small_name, data_index, q.small[at], a.small,
                             {.other = q.large_name, .why = window_rule(q.auto_pad, q.rounding_type)});
}

/// Checks a request in the common order and returns its problem, or the first error.
[[nodiscard]] constexpr result<pooling_problem> infer_pooling_problem(const pooling_request& q) noexcept {
    operator_checks checks(q.op);
    const extents& first = q.backward ? q.small : q.large;
    checks.spatial_rank(q.backward ? q.small_name : q.large_name, first);
    if (!checks.ok()) return checks.error();
    const std::size_t r = first.rank() - 2;
    check_attributes(checks, q, r);
    check_tensors(checks, q, r);
    if (!checks.ok()) return checks.error();

    const std::size_t space_at = spatial_index(q.data_format);
    const std::size_t channel_at = channel_index(q.data_format, r);
    pooling_problem p;
    p.rank = r;
    p.batch = q.large[0];
    p.channels = q.large[channel_at];
    p.large_shape = p.small_shape = q.large;
    checked volume(1);
    for (std::size_t i = 0; i < r; ++i) {
        // assigned whole: g++ 12 loses defaults of an element changed in place, in the second constant evaluation
        p.axes[3 - r + i] = pooling_axis(checks, q, i);
        volume *= p.axes[3 - r + i].kernel;
        checks.fits("kernel", -1, volume, "the number of its taps exceeds 63 bits");
    }
    if (!checks.ok()) return checks.error();

    // 6: batch, channels, then the spatial axes
    if (!q.small.empty()) {
        checks.require_equal(errc::invalid_shape, q.small_name, 0, q.small[0], p.batch, {.other = q.large_name});
        checks.require_equal(errc::invalid_shape, q.small_name, static_cast<int>(channel_at), q.small[channel_at],
                             p.channels, {.other = q.large_name});
    }
    for (std::size_t i = 0; checks.ok() && i < r; ++i) {
        axis& a = p.axes[3 - r + i];
        check_windows(checks, q, i, a);
        p.small_shape[space_at + i] = a.small;
    }
    checks.volume(q.small_name, p.small_shape, q.element_bytes);
    for (std::size_t i = 0; i < r + 2; ++i) {  // axis by axis, the large one first
        if (!q.large_twin.empty())
            checks.require_equal(errc::invalid_shape, q.large_twin_name, static_cast<int>(i), q.large_twin[i],
                                 p.large_shape[i], {.other = q.large_name});
        if (!q.small_twin.empty())
            checks.require_equal(errc::invalid_shape, q.small_twin_name, static_cast<int>(i), q.small_twin[i],
                                 p.small_shape[i], {.other = q.small_name});
    }
    if (!checks.ok()) return checks.error();
    return p;
}

/// Checks the tensors of a max pool's gradient from indices: diff_dst, indices -> diff_src. The spatial sizes of
/// diff_src are free, so its axes are those of a pool without windows.
[[nodiscard]] constexpr result<pooling_problem> max_pool_backward_from_indices_shapes(
    const extents& diff_dst, const extents& indices, const max_pool_indices_attributes& a, const extents& diff_src,
    std::int64_t element_bytes) noexcept {
    operator_checks checks("max_pool_backward_from_indices");
    checks.spatial_rank("diff_dst", diff_dst);
    if (!checks.ok()) return checks.error();
    const std::size_t r = diff_dst.rank() - 2;
    checks.word("data_format", a.data_format, data_format::ncx);
    checks.word("index_base", a.index_base, index_base::image);
    checks.word("storage_order", a.storage_order, storage_order::column_major);
    const extents& large = diff_src.empty() ? a.diff_src_shape : diff_src;
    checks.has_shape("diff_src", large);
    checks.sizes("diff_dst", diff_dst, r, spatial_index(a.data_format));
    checks.sizes("indices", indices, r, spatial_index(a.data_format));
    checks.sizes("diff_src", large, r, spatial_index(a.data_format));
    const std::int64_t widest = std::max<std::int64_t>(element_bytes, sizeof(std::int64_t));
    checks.volume("diff_dst", diff_dst, widest);
    checks.volume("indices", indices, widest);
    checks.volume("diff_src", large, widest);
    if (!checks.ok()) return checks.error();
    for (std::size_t i = 0; i < r + 2; ++i)
        checks.require_equal(errc::invalid_shape, "indices", static_cast<int>(i), indices[i], diff_dst[i],
                             {.other = "diff_dst"});
    const std::size_t channel_at = channel_index(a.data_format, r);
    checks.require_equal(errc::invalid_shape, "diff_src", 0, large[0], diff_dst[0], {.other = "diff_dst"});
    checks.require_equal(errc::invalid_shape, "diff_src", static_cast<int>(channel_at), large[channel_at],
                         diff_dst[channel_at], {.other = "diff_dst"});
    if (!checks.ok()) return checks.error();
    pooling_problem p;
    p.rank = r;
    p.batch = large[0];
    p.channels = large[channel_at];
    p.large_shape = large;
    p.small_shape = diff_dst;
    for (std::size_t i = 0; i < r; ++i) {
        axis x;
        x.large = large[spatial_index(a.data_format) + i];
        x.small = diff_dst[spatial_index(a.data_format) + i];
        p.axes[3 - r + i] = x;
    }
    return p;
}

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
