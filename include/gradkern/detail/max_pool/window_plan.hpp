// What every path of the max engine plans: how windows are read, panels of channels, and the scratch of one worker.
//
// Channels lie in the lanes. A task computes one box of outputs of one image and one panel of channels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

// Floats of scratch that are aimed at.
inline constexpr std::int64_t max_results = 8 * 1024;   ///< results of the windows of a line that are computed at once
inline constexpr std::int64_t max_scratch = 64 * 1024;  ///< a packing buffer, or sums
inline constexpr std::int64_t max_slices = 32 * 1024;   ///< slices of a box that are buffered at a time
inline constexpr std::int64_t max_least = 2048;         ///< least scratch: a packing buffer, sums, slices
inline constexpr std::int64_t max_windows = 4096;       ///< windows of a box at most, forward
inline constexpr std::int64_t max_rows = 64;            ///< rows of a window whose maxima are kept

/// How the elements of windows come into the lanes.
enum class window_access : std::uint8_t {
    in_place,  ///< vectors of neighbouring channels of the tensor
    packed,    ///< vectors of a packing buffer
    strided    ///< element by element, with linear offsets of 60 bits: any stride, any plane
};

/// How a maximum is found: from all elements of its window, or from the maxima of its rows, which lines of windows share.
enum class window_maxima : std::uint8_t { whole, separable };

/// What a task reads to walk windows and find their maxima.
struct window_plan {
    algorithm path = algorithm::automatic;
    window_access access = window_access::in_place;
    window_maxima maxima = window_maxima::whole;
    nan_rule nan = nan_rule::wins;
    prefetch_windows prefetch = prefetch_windows::none;
    std::array<shape::axis, 3> axes{};
    std::int64_t channels = 0;
    shape::canonical_strides src{};
    std::int64_t panel_width = 0;  // lanes
    std::int64_t panels = 0;
    std::int64_t columns = 0;  // windows of a line that are computed at once
    box_grid boxes{};

    std::int64_t at_packed = 0;  // byte offsets in a slice of the workspace
    std::int64_t at_value = 0;
    std::int64_t at_offset = 0;
    std::int64_t at_offset_high = 0;
    std::int64_t at_rows = 0;
    std::int64_t slice_bytes = 0;

    constexpr window_plan() noexcept = default;
    constexpr window_plan(const max_problem& p, algorithm row, window_access how, std::int64_t width) noexcept
        : path(row),
          access(how),
          nan(p.nan),
          axes(p.axes),
          channels(p.channels),
          src(p.src),
          panel_width(width),
          panels(shape::ceil_div(p.channels, width)),
          columns(std::clamp<std::int64_t>((p.scratch == scratch_use::least ? max_least / 4 : max_results) / width, 1,
                                           p.axes[2].small)) {}

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return boxes.count() * panels; }
};

/// Whether a plane is small enough for linear offsets of 30 bits.
[[nodiscard]] constexpr bool has_short_offsets(const max_problem& p) noexcept { return p.plane() < offset_limit; }

/// Whether windows can be read in place.
[[nodiscard]] constexpr bool reads_in_place(const max_problem& p) noexcept {
    return p.src[1] == 1 && has_short_offsets(p);
}

/// Channels of a panel before scratch narrows it.
[[nodiscard]] constexpr std::int64_t widest_panel(const max_problem& p, window_access access) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    if (access == window_access::strided || p.scratch == scratch_use::least) return lanes;
    // Neighbouring channels in place are walked together: they lie in the same pages.
    const std::int64_t most = access == window_access::packed ? 4 * lanes : 128;
    return std::clamp(shape::ceil_div(p.channels, lanes) * lanes, lanes, most);
}

/// Whether the smallest box stays within the scratch that a worker may take. `pixels`: what it buffers, of one channel each.
[[nodiscard]] constexpr bool fits_scratch(const max_problem& p, std::int64_t pixels) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    return p.scratch == scratch_use::least ? pixels <= max_least / lanes : pixels * lanes <= 4 * max_scratch;
}

/// The width of a panel, and the floats that a box of it may buffer.
struct panel_budget {
    std::int64_t width;
    std::int64_t floats;

    /// Makes boxes a few times as large as what one output needs, whose `pixels` are buffered.
    constexpr void cover(const max_problem& p, std::int64_t pixels) noexcept {
        if (p.scratch == scratch_use::least) {
            floats = max_least;
            return;
        }
        if (4 * pixels * width > 4 * max_scratch) width = static_cast<std::int64_t>(simd::lanes);
        floats = std::max(floats, 4 * pixels * width);
    }
};

/// Whether maxima of rows save comparisons: lines of windows overlap, and every window has taps in each of its rows.
[[nodiscard]] constexpr bool saves_comparisons(const shape::axis& rows, const shape::axis& columns) noexcept {
    if (rows.dilation != 1 || columns.dilation != 1 || rows.stride >= rows.kernel || rows.small == 1) return false;
    if (columns.pad_begin >= columns.kernel || columns.position(columns.small - 1, 0) >= columns.large) return false;
    // Comparing rows reads their maxima and offsets again: of the 9 taps of 3x3 with stride 1 too few are saved.
    return (rows.kernel - rows.stride) * columns.kernel >= 3 * rows.kernel;
}

/// Ends a plan's scratch: keeps the maxima of rows where that saves comparisons and they fit.
constexpr void finish_scratch(window_plan& w, scratch_use scratch, slice_layout slice) noexcept {
    const std::int64_t kernel = w.axes[1].kernel;
    if (scratch == scratch_use::fast && w.access != window_access::strided && w.axes[0].kernel <= max_rows / kernel &&
        saves_comparisons(w.axes[1], w.axes[2]) && w.columns == w.axes[2].small) {
        const std::int64_t floats = 2 * w.axes[0].kernel * kernel * w.columns * w.panel_width;
        slice_layout with_rows = slice;
        w.at_rows = with_rows.reserve<float>(floats);
        // What runs without a workspace of the caller's goes on doing so.
        const bool same_call =
            workspace_for(slice.bytes(), 1) > stack_workspace || workspace_for(with_rows.bytes(), 1) <= stack_workspace;
        if (floats <= 2 * max_scratch && same_call) {
            w.maxima = window_maxima::separable;
            slice = with_rows;
        }
    }
    w.slice_bytes = slice.bytes();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
