// The problem of forward passes and data gradients: one equation for the four operators of the convolution family,
//
//     out[n, g * OC + j, q]  =  sum over inside taps t of q, channels k of
//                               in[n, g * IC + k, read(q, t)] * w[g, k, j, t]        (+ bias[g * OC + j])
//
// Outputs of a forward pass lie on the small side, those of a data gradient on the large side (shape/axis.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Floats of a vector, as extents are counted. Plans ask conv_equation::real, whose lanes may be doubles.
inline constexpr auto vector_lanes = static_cast<std::int64_t>(simd::lanes);

/// Strides of a filter by what its axes do here, in elements.
struct filter_strides {
    std::int64_t first = 0;  // offset of the first tap that any output reads
    std::int64_t group = 0;  // from a run of output channels to the next: those of a group, or of a column tap
    std::int64_t in = 0;     // between channels that are summed over
    std::int64_t out = 0;    // between output channels of a run
    std::int64_t run = 0;    // output channels
    std::array<std::int64_t, 3> tap{};
};

/// Extents and strides of the equation: what every run reads. Channels are those of a group, strides are in elements.
struct conv_equation {
    real_type real{};
    shape::side outputs = shape::side::small;
    output_mode output = output_mode::overwrite;
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t groups = 1;
    std::int64_t in_channels = 0;
    std::int64_t out_channels = 0;
    shape::canonical_strides in{};
    shape::canonical_strides out{};
    filter_strides weights{};
    data_type bias_type = data_type::f32;
    std::int64_t bias_stride = 1;
    std::int64_t bias_channels = 0;  // output channels that have a bias each, over and over

    [[nodiscard]] constexpr bool is_forward() const noexcept { return outputs == shape::side::small; }
    [[nodiscard]] constexpr bool accumulates() const noexcept { return output == output_mode::accumulate; }
    [[nodiscard]] constexpr std::int64_t taps() const noexcept {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    /// Taps are packed in the order in which they are read: where a tap of the filter lies.
    [[nodiscard]] constexpr std::int64_t packed_tap(std::int64_t tap) const noexcept {
        return is_forward() ? tap : taps() - 1 - tap;
    }
    [[nodiscard]] constexpr std::int64_t extent(std::size_t i) const noexcept {
        return is_forward() ? axes[i].small : axes[i].large;
    }
    [[nodiscard]] constexpr std::array<std::int64_t, 3> extents() const noexcept {
        return {extent(0), extent(1), extent(2)};
    }
    /// Pixels of all images.
    [[nodiscard]] constexpr std::int64_t pixels() const noexcept { return batch * extent(0) * extent(1) * extent(2); }
    [[nodiscard]] constexpr std::int64_t total_out_channels() const noexcept { return groups * out_channels; }
    [[nodiscard]] constexpr bool is_depthwise() const noexcept { return in_channels == 1 && out_channels == 1; }
    /// Whether each output reads one pixel, where it lies itself.
    [[nodiscard]] constexpr bool is_pointwise() const noexcept {
        return axes[0].is_unit() && axes[1].is_unit() && axes[2].is_unit();
    }
};

/// What problems know of element types.
struct conv_types {
    std::int64_t bytes = 0;  // of those that are read,
    std::int64_t weights_bytes = 0;
    std::int64_t bias_bytes = 0;
    std::int64_t out_bytes = 0;
    data_type bias = data_type::f32;
    real_type sum{};
    bool is_wide = false;       // all elements are what sums are kept in: tiles can read and write them as they are
    bool native_16bit = false;  // tiles can read and write the elements as they are
    bool bf16_pairs = false;    // tiles may take channels by pairs (pack/pairs.hpp)
};

/// A checked problem: the equation, and what plans know of elements and options.
struct conv_problem : conv_equation, conv_types {
    scratch_use scratch = scratch_use::fast;

    /// Bits of relaxed results depend on the path: those have the scratch of a fast one.
    [[nodiscard]] constexpr bool takes_least_scratch() const noexcept {
        return scratch == scratch_use::least && !bf16_pairs;
    }
    /// Whether neighbouring pixels are neighbours in both tensors, as in NCX.
    [[nodiscard]] constexpr bool are_lines() const noexcept { return in[4] == 1 && out[4] == 1; }
    /// Whether a cache, the last one, is likely to hold the activations of both sides.
    [[nodiscard]] constexpr bool is_cached(std::int64_t cache_bytes = target.cache.last_level) const noexcept {
        shape::checked read(in_channels);
        shape::checked written(out_channels);
        for (std::size_t i = 0; i < 3; ++i) {
            read *= read_extent(axes[i], outputs);
            written *= extent(i);
        }
        const shape::checked all = (read * bytes + written * out_bytes) * batch * groups;
        return all.ok() && all.value() <= cache_bytes;
    }
};

/// Forward: where windows are single pixels, nobody reads those between them. The tensor without them has an axis of stride 1.
constexpr void drop_unread_pixels(conv_equation& e) noexcept {
    for (std::size_t i = 0; i < 3; ++i) {
        shape::axis& a = e.axes[i];
        if (a.kernel != 1 || a.pad_begin != 0 || a.small == 0 || (a.small - 1) * a.stride >= a.large) continue;
        if (a.small > 1) e.in[2 + i] *= a.stride;
        a = {.large = a.small, .small = a.small};
    }
}

/// Collapses axes that are contiguous in both memories, where windows are single pixels.
constexpr void collapse_unit_axes(conv_equation& e) noexcept {
    shape::axis& last = e.axes[2];
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
        shape::axis& a = e.axes[i];
        if (!a.is_unit() || !last.is_unit()) return;
        if (a.large == 1) continue;
        if (last.large == 1) {  // its strides are never used
            e.in[4] = e.in[2 + i];
            e.out[4] = e.out[2 + i];
        } else if (!continues(e.in[2 + i], last.large, e.in[4]) || !continues(e.out[2 + i], last.large, e.out[4])) {
            return;
        }
        const std::int64_t extent = last.large * a.large;
        last = {.large = extent, .small = extent};
        a = {};
    }
}

/// Data gradients whose windows lie side by side along the columns: each output meets one column tap. Where pixels continue the
/// channels in memory, the taps become output channels, so that more lanes are used. The order of sums stays.
constexpr void collapse_column_taps(conv_equation& e) noexcept {
    shape::axis& a = e.axes[2];
    if (e.groups != 1 || a.kernel == 1 || a.kernel != a.stride || a.dilation != 1 || a.pad_begin != 0 ||
        a.large != a.small * a.stride || !continues(e.out[4], e.out_channels, e.out[1]) ||
        e.out_channels * a.kernel < e.real.lanes)
        return;
    e.weights.group = e.weights.tap[2];
    const bool is_one_run = continues(e.weights.group, e.out_channels, e.weights.out);
    e.out_channels *= a.kernel;
    if (is_one_run) e.weights.run = e.out_channels;
    if (a.small > 1) e.out[4] *= a.kernel;
    a = {.large = a.small, .small = a.small};
}

/// The problem of a checked operator. The bias is none.
[[nodiscard]] GRADKERN_COLD constexpr conv_problem make_conv_problem(
    const shape::convolution_problem& p, shape::side outputs, const shape::canonical_strides& in,
    const shape::canonical_strides& out, const shape::canonical_strides& weights, const conv_types& elements,
    const plan_options& options) noexcept {
    const bool forward = outputs == shape::side::small;
    conv_problem c{{.real = elements.sum,
                    .outputs = outputs,
                    .output = options.output,
                    .axes = p.axes,
                    .batch = p.batch,
                    .groups = p.groups,
                    .in_channels = forward ? p.large_channels : p.small_channels,
                    .out_channels = forward ? p.small_channels : p.large_channels,
                    .in = in,
                    .out = out,
                    .weights = {.group = p.small_channels * weights[0],
                                .in = weights[forward ? 1 : 0],
                                .out = weights[forward ? 0 : 1],
                                .run = forward ? p.small_channels : p.large_channels,
                                .tap = {weights[2], weights[3], weights[4]}},
                    .bias_type = elements.bias,
                    .bias_channels = p.groups * (forward ? p.small_channels : p.large_channels)},
                   elements,
                   options.scratch};
    for (std::size_t i = 0; i < 3; ++i) c.weights.first += c.axes[i].drop_outside_taps() * c.weights.tap[i];
    if (options.precision != precision::relaxed) c.bf16_pairs = false;
    if (forward) {
        drop_unread_pixels(c);
    } else {
        collapse_column_taps(c);
    }
    if (in[1] != 1) collapse_unit_axes(c);  // else fused panels prefetch the next line
    return c;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
