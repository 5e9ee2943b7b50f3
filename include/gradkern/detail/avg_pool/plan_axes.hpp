// What lies on the lines of the average engine: channels or single positions, and which axis is the columns. Axes are
// folded so that lines are long: nothing here changes an order of summation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// True where all windows of an axis count the same taps.
[[nodiscard]] constexpr bool counts_alike(const shape::axis& a, bool exclude_pad) noexcept {
    if (a.small == 1) return true;
    const std::int64_t end = a.position(a.small - 1, a.kernel - 1);  // last tap of the last window
    return exclude_pad ? a.pad_begin == 0 && end < a.large : end < a.large + a.pad_end;
}

/// True where every window has an inside tap.
[[nodiscard]] constexpr bool windows_never_empty(const shape::axis& a) noexcept {
    // dilated windows can step over a short input; others miss it only by lying beside it
    if (a.dilation > 1) return a.pad_begin == 0 && a.position(a.small - 1, 0) < a.large;
    return a.position(0, a.kernel - 1) >= 0 && a.position(a.small - 1, 0) < a.large;
}

/// Gives all windows one divisor, if they have one. (An empty window of a forward pool has none: its mean is +0.)
constexpr void choose_divisor(average_plan& g) noexcept {
    bool never_empty = true;
    bool alike = true;
    std::int64_t count = 1;
    for (std::size_t i = 0; i < 3; ++i) {
        never_empty = never_empty && windows_never_empty(g.divisor_axes[i]);
        alike = alike && counts_alike(g.divisor_axes[i], g.exclude_pad);
        count *= g.counted(i, 0);
    }
    g.uniform = (alike || g.divisor_override) && (never_empty || g.backward);
    g.uniform_divisor = g.divisor_override ? static_cast<float>(*g.divisor_override) : average_plan::divisor_of(count);
}

/// Puts the planes of neighbouring channels on the lines: their columns become blocks of channels.
constexpr void put_planes_on_lines(average_plan& g) noexcept {
    g.inner = std::exchange(g.planes, 1);
    g.in_inner = std::exchange(g.in[1], 0);
    g.out_inner = std::exchange(g.out[1], 0);
}

/// Lays `channels` on the lines where they are neighbours in memory; else each has planes of its own.
constexpr void lay_channels(average_plan& g, std::int64_t channels) noexcept {
    const bool inside =
        channels > 1 && (g.in[1] == 1 && g.out[1] == 1 ? true : !(g.in[4] == 1 && g.out[4] == 1) && g.out[1] == 1);
    g.planes = channels;
    if (inside) put_planes_on_lines(g);
}

/// Whether an axis is one position, read by one window.
[[nodiscard]] constexpr bool is_single(const shape::axis& a) noexcept {
    return a.large == 1 && a.small == 1 && a.inside_taps(0).count == 1;
}

/// Lets columns and lines change roles where that changes no order of summation: rows of one element lie badly. (Parts of
/// long sums of lines are cut elsewhere than those of columns.)
constexpr void turn_columns(average_plan& g) noexcept {
    if (g.long_lines || !is_single(g.axes[0]) || !is_single(g.axes[2]) || is_single(g.axes[1])) return;
    std::swap(g.axes[1], g.axes[2]);
    std::swap(g.divisor_axes[1], g.divisor_axes[2]);
    std::swap(g.in[3], g.in[4]);
    std::swap(g.out[3], g.out[4]);
}

/// Makes one row of the rows of a gradient of one window that covers everything, where they follow each other in memory.
constexpr void join_rows_of_global_window(average_plan& g) noexcept {
    const auto is_global = [](const shape::axis& a) {
        return a.small == 1 && a.dilation == 1 && a.position(0, 0) <= 0 && a.position(0, a.kernel - 1) >= a.large - 1;
    };
    const auto global_axis = [](std::int64_t extent) {
        return shape::axis{.large = extent, .small = 1, .kernel = extent, .stride = extent};
    };
    if (!g.backward || !g.uniform) return;
    for (std::size_t i = 2; i-- > 0;) {
        if (!is_global(g.axes[i]) || !is_global(g.axes[2])) break;
        if (g.axes[i].large > 1 && g.out[2 + i] != g.axes[2].large * g.out[4]) break;
        g.axes[2] = global_axis(g.axes[i].large * g.axes[2].large);
        g.axes[i] = shape::axis{};
    }
}

/// Makes one line of lines that windows tile exactly, where they follow each other in memory.
constexpr void join_tiled_lines(average_plan& g) noexcept {
    const shape::axis& w = g.axes[2];
    const auto set_line = [&](shape::canonical_strides& s, std::int64_t extent) {
        if (extent == 1) s[4] = g.planes > 1 ? s[1] : s[0];  // a line of one column has no stride of its own
        return extent * s[4];
    };
    const auto follows = [&](const shape::canonical_strides& s, std::int64_t line) {
        return (g.planes == 1 || s[1] == line) && (g.batch == 1 || s[0] == g.planes * line);
    };
    const std::int64_t outer = g.batch * g.planes;
    if (outer > 1 && g.uniform && is_single(g.axes[0]) && is_single(g.axes[1]) && w.dilation == 1 && w.pad_begin == 0 &&
        (w.small == 1 ? w.kernel == w.large : w.kernel == w.stride && w.large == w.small * w.stride) &&
        follows(g.in, set_line(g.in, g.in_extent(2))) && follows(g.out, set_line(g.out, g.out_extent(2)))) {
        g.axes[2] =
            shape::axis{.large = w.large * outer, .small = w.small * outer, .kernel = w.kernel, .stride = w.kernel};
        g.batch = g.planes = 1;
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
