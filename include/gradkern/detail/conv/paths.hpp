// Which path of the gather engine (gather.hpp) serves a problem: what each asks for, and where it pays off.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Floats of a staging area: lines of less are too short for a CPU to fetch them ahead.
inline constexpr std::int64_t most_staged = 128 * 1024;

/// The same where scratch is the least: lines are short, but for single positions that read more.
inline constexpr std::int64_t least_staged = 1024;

/// Floats of the packed weights of a panel that stay in L2, where their lanes lie `apart` in the tensor or not.
[[nodiscard]] constexpr std::int64_t most_packed(bool apart) noexcept {
    return (apart ? target.cache.packed_panel_apart : target.cache.packed_panel) /
           static_cast<std::int64_t>(sizeof(float));
}

/// Whether a 1x1 kernel of one group had better have positions in the lanes: no activations are transposed then.
[[nodiscard]] constexpr bool points_pay_off(const gather_plan& g) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    if (g.in[1] == 1 || g.out[1] == 1) return false;  // nor else
    if (g.point_count() < lanes || g.in_channels > most_staged / g.segment) return false;
    if (g.weights_in_place) return true;
    // Packing weights for each block takes longer than transposing few activations, and than blocks of few positions.
    const bool few_weights = std::min(g.in_channels, g.out_channels) < lanes;
    return g.in_channels <= 512 && (few_weights || g.point_count() >= 64 * lanes);
}

/// Whether points had better be read in place, each channel on a page of its own: many of them for few outputs, so that to
/// copy them takes a good part of the time, and where a CPU waits less for what lies so far apart. Images are one line of
/// whole tiles, but for a small rest.
[[nodiscard]] constexpr bool points_stay(const gather_plan& g) noexcept {
    return target.quirk.fast_far_reads && g.out_channels < g.in_channels && g.out_channels <= 128 && g.in[4] == 1 &&
           g.extent(0) == 1 && g.extent(1) == 1 && g.extent(2) >= 8 * g.segment;
}

/// Input lines that four lines of outputs read. Where they exceed the staging area, kernels are tall, and blocks of
/// outputs so small that lines are staged again and again.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::int64_t lines_of_four(const gather_plan& g) noexcept {
    return reads_at_most(g.axes[0], g.outputs, 1) * reads_at_most(g.axes[1], g.outputs, 4);
}

/// Whether a kernel of several taps had better have positions in the lanes, because output channels would fill few of theirs.
/// Compares the multiply-adds of vectors that a line of outputs takes for each term. What positions cost besides is measured:
/// activations are staged, those whose channels are neighbours by way of a transpose, and columns that meet taps of their
/// own are turned.
[[nodiscard]] constexpr bool lines_pay_off(const gather_plan& g) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    for (const shape::axis& a : g.axes)
        if (a.stride != 1) return false;
    if (g.taps() == 1 || g.taps() * g.out_channels < 36) return false;  // what is staged is used too seldom
    if (g.in_channels > most_staged / 1024 || g.out_channels > 1024 || g.axes[2].kernel > 16) return false;
    const std::int64_t line_floats = g.in_channels * row_pitch(reads_at_most(g.axes[2], g.outputs, g.extent(2)));
    if (lines_of_four(g) > most_staged / std::max<std::int64_t>(line_floats, 1)) return false;

    const std::int64_t width = panel_lanes(g.out_channels);
    const std::int64_t rest = g.out_channels % width;
    const bool waits = narrow_rows < 8 && rest > 0 && rest <= lanes;  // tiles of one vector have too few sums
    const std::int64_t in_panels = lanes * (2 * panel_vectors(g.out_channels, width) + (waits ? 1 : 0)) * g.extent(2);

    const std::int64_t lone_column = 2 * g.extent(1) >= lanes ? 3 : lanes;  // costs as much as so many others
    std::int64_t columns = 0;
    shape::tap_class_walk walk(g.axes[2], g.outputs, 0, g.extent(2));
    for (shape::tap_class c; walk.next(c);)
        columns += c.positions > 1 ? shape::ceil_div(c.positions, lanes) * lanes : lone_column;
    const std::int64_t rows = shape::ceil_div(g.out_channels, std::int64_t{2}) * 2;
    const std::int64_t percent = (g.in[4] == 1 && g.out[4] == 1 ? 115 : 140) + (g.groups > 1 ? 25 : 0);
    return 100 * in_panels >= percent * 2 * rows * columns;
}

/// Whether lanes across groups find the channels of their group in a register.
[[nodiscard]] GRADKERN_NOINLINE constexpr bool lanes_share(const gather_plan& g) noexcept {
    return g.in_channels == g.out_channels && can_share(g.in_channels) &&
           (g.in_channels == 4 || g.total_out_channels() > static_cast<std::int64_t>(simd::lanes));
}

/// Lanes of a panel of operand::octet: two vectors of outputs for each vector of pairs.
inline constexpr std::int64_t octet_lanes = 2 * static_cast<std::int64_t>(simd::lanes);
static_assert(octet_lanes == narrow_lanes || simd::lanes < 8);
/// Whether lanes that share find pairs of their channels: groups of eight that fill whole panels.
[[nodiscard]] constexpr bool fills_octets(const gather_plan& g) noexcept {
    return simd::has_dot_bf16 && g.octets() && g.total_out_channels() % octet_lanes == 0;
}

/// Whether lanes had better run across groups, which have few channels. Unless lanes share those, every activation is then
/// staged for each output channel of its group.
[[nodiscard]] constexpr bool across_groups_pays_off(const gather_plan& g) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    if (g.groups == 1) return false;
    const std::int64_t products = g.in_channels * g.out_channels;  // of channels of a group
    if (products == 1 || lanes_share(g)) return true;
    if (2 * g.out_channels > lanes || g.in_channels > lanes) return false;
    const bool one_by_one = g.in[1] == 1;  // is how neighbours are staged
    const bool strided = g.axes[1].stride > 1 || g.axes[2].stride > 1;
    if (strided && g.outputs == shape::side::large) return products < (one_by_one ? 64 : 128);
    if (products <= (!one_by_one ? 24 : strided ? 4 : 16)) return true;
    return !one_by_one && !strided && products < 128 && !lines_pay_off(g);
}

/// Whether windows of a depthwise layer slide along the columns: neighbouring outputs read neighbours. In one part, since
/// outputs of one class have the same parts; not where a step to a column outside might not be countable.
[[nodiscard]] constexpr bool windows_slide(const gather_plan& g) noexcept {
    const shape::axis& columns = g.axes[2];
    const std::int64_t farthest = std::int64_t{1} << 31;
    return g.channelwise && g.is_depthwise() && columns.stride == 1 && columns.dilation == 1 &&
           can_slide(columns.kernel) && g.taps() <= part_terms && columns.pad_begin < farthest && g.in[4] < farthest &&
           g.in[4] > -farthest;
}

/// Planewise: taps at most, and floats of staged lines that are aimed at.
inline constexpr std::int64_t plane_taps = 64;
inline constexpr std::int64_t plane_floats = 16 * 1024;

/// Whether positions of one channel can lie in the lanes: a depthwise layer of stride 1 whose columns are neighbours.
[[nodiscard]] constexpr bool has_planes(const gather_plan& g) noexcept {
    if (g.groups == 1 || g.in_channels != 1 || g.out_channels != 1 || g.in[4] != 1 || g.out[4] != 1) return false;
    for (const shape::axis& a : g.axes)
        if (a.stride != 1 || a.kernel > plane_taps) return false;
    const shape::axis& columns = g.axes[2];
    const std::int64_t reach = columns.reach();
    // What the first and the last column read lies no farther from the input than the kernel reaches.
    const bool forward = g.outputs == shape::side::small;
    const bool ends = forward ? columns.position(columns.small - 1, 0) <= columns.large
                              : columns.large - 1 + columns.pad_begin - reach <= columns.small;
    return g.taps() <= plane_taps && columns.pad_begin <= reach && ends && reach <= plane_floats / 4;
}
/// Floats before the staged lines, and floats from tap to tap that say where it is inside.
[[nodiscard]] constexpr std::int64_t plane_margin(const gather_plan& g) noexcept {
    return row_pitch(g.axes[2].reach());
}
[[nodiscard]] constexpr std::int64_t plane_pitch(const gather_plan& g, std::int64_t columns) noexcept {
    return std::max(columns, reads_at_most(g.axes[2], g.outputs, columns));
}
[[nodiscard]] constexpr std::int64_t plane_inside_pitch(const gather_plan& g) noexcept {
    return plane_pitch(g, g.blocks.box(2)) + static_cast<std::int64_t>(simd::lanes);
}

/// Whether they had better: planes are large, read by few taps, and cut into blocks of several lines. Nothing is transposed
/// then, but each vector is read from an address of its own.
[[nodiscard]] constexpr bool planes_pay_off(const gather_plan& g) noexcept {
    return g.in[1] != 1 && g.out[1] != 1 && g.taps() <= 9 && g.extent(1) >= 8 && g.extent(1) * g.extent(2) >= 2048 &&
           lines_of_four(g) <= plane_floats / plane_pitch(g, g.extent(2));
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
