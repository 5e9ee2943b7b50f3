// What the tasks of all paths share: panels of lanes, chunks of pixels, the arrays in a slice of the workspace.
//
// The lanes of every tile are channels s of the small side, so that there are no horizontal sums. A task computes the
// sums of some panels of lanes, chunk by chunk: a chunk's sums begin at zero, and chunks are added up on two levels
// (order/summation.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/problem.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Whether tiles read a side where it is, or from a packing buffer.
enum class source : std::uint8_t { in_place, packed };

struct task_plan : tensors {
    chunk_grid chunks{};
    std::int64_t panel_width = 0;  // lanes
    std::int64_t panels = 0;       // of one group, or of all where lanes run across groups
    std::int64_t task_panels = 1;  // of one task
    std::int64_t sum_floats = 0;   // of one level of the sums of a task
    source small_source = source::packed;
    std::int64_t at_small = 0;  // byte offsets in a slice
    std::int64_t at_large = 0;
    std::int64_t at_list = 0;
    std::int64_t at_sum = 0;
    std::int64_t at_total = 0;
    std::int64_t slice_bytes = 0;

    constexpr task_plan() noexcept = default;
    /// `lanes`: channels that panels share out.
    constexpr task_plan(const tensors& t, std::int64_t lanes, std::int64_t width) noexcept
        : tensors(t),
          chunks(batch * axes[0].small * axes[1].small, axes[2].small),
          panel_width(width),
          panels(shape::ceil_div(lanes, width)) {}

    [[nodiscard]] constexpr std::int64_t panel_groups() const noexcept { return shape::ceil_div(panels, task_panels); }
    [[nodiscard]] constexpr bool has_two_levels() const noexcept { return chunks.count > chunks_per_sum; }
    /// Bytes of all levels of the sums.
    [[nodiscard]] constexpr std::int64_t sum_bytes() const noexcept {
        return (has_two_levels() ? 2 : 1) * sum_floats * static_cast<std::int64_t>(sizeof(float));
    }
    /// Lines of a chunk, and its pixels, at most.
    [[nodiscard]] constexpr std::int64_t chunk_lines() const noexcept {
        return std::min(chunks.lines_per_chunk, std::max<std::int64_t>(chunks.lines, 1));
    }
    [[nodiscard]] constexpr std::int64_t chunk_pixels() const noexcept {
        return std::min(chunk_positions, chunks.lines * axes[2].small);
    }
    /// Lays out the sums, `floats` of each level: the last arrays of a slice.
    constexpr void reserve_sums(slice_layout& slice, std::int64_t floats) noexcept {
        at_sum = slice.reserve<float>(floats);
        at_total = slice.reserve<float>(has_two_levels() ? floats : 0);
        slice_bytes = slice.bytes();
    }

    /// Sets the sums of a task to zero; returns where the results will be.
    [[nodiscard]] const float* clear_sums(std::byte* slice) const noexcept {
        float* const sum = array_at<float>(slice, at_sum);
        own::fill(sum, sum + sum_floats, 0.0F);
        if (!has_two_levels()) return sum;
        float* const total = array_at<float>(slice, at_total);
        own::fill(total, total + sum_floats, 0.0F);
        return total;
    }
    /// Adds the sums so far to the upper level after the last of its chunks.
    void close_chunk(std::int64_t chunk, std::byte* slice) const noexcept {
        if (has_two_levels() && ((chunk + 1) % chunks_per_sum == 0 || chunk + 1 == chunks.count))
            fold(array_at<float>(slice, at_sum), array_at<float>(slice, at_total), sum_floats);
    }
};

/// Neighbouring taps of one axis, here of the columns, that lie inside for the same pixels of [first, last).
struct tap_group {
    std::int64_t first_tap = 0;
    std::int64_t taps = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
    [[nodiscard]] constexpr std::int64_t columns() const noexcept { return last - first; }
};

/// The group of at most `most` taps that starts with tap `tap`.
[[nodiscard]] inline tap_group tap_group_at(const shape::axis& axis, std::int64_t tap, const chunk_grid::chunk& c,
                                            std::int64_t most = INT64_MAX) noexcept {
    const auto range_of = [&](std::int64_t k) {
        const shape::axis::position_range inside = axis.inside_positions(k);
        const std::int64_t low = std::max(inside.first, c.first_column);
        return shape::axis::position_range{low, std::max(low, std::min(inside.last, c.last_column))};
    };
    const shape::axis::position_range range = range_of(tap);
    tap_group g{tap, 1, range.first, range.last};
    for (; g.taps < most && tap + g.taps < axis.kernel; ++g.taps) {
        const shape::axis::position_range next = range_of(tap + g.taps);
        if (next.first != range.first || next.last != range.last) break;
    }
    return g;
}

/// The line (n, d, h) of the small side, walked in order.
struct line_position {
    std::int64_t n, d, h;
    line_position(const std::array<shape::axis, 3>& axes, std::int64_t line) noexcept
        : n(line / (axes[0].small * axes[1].small)), d(line / axes[1].small % axes[0].small), h(line % axes[1].small) {}
    /// Goes `lines` lines on, which end in this plane or with it.
    void advance(const std::array<shape::axis, 3>& axes, std::int64_t lines = 1) noexcept {
        h += lines;
        if (h == axes[1].small) {
            h = 0;
            if (++d == axes[0].small) {
                d = 0;
                ++n;
            }
        }
    }
    /// Offset of column `w` of this line in a tensor.
    [[nodiscard]] std::int64_t offset(const shape::canonical_strides& s, std::int64_t w) const noexcept {
        return n * s[0] + d * s[2] + h * s[3] + w * s[4];
    }
};

/// Calls f(offset of the first pixel, pixels) for the columns [first, last) of the lines of a chunk of the small side.
/// `collapse`: lines of a plane that are contiguous in memory are one.
template <class F>
void for_each_line(const tensors& t, const chunk_grid::chunk& c, std::int64_t first, std::int64_t last, bool collapse,
                   const F& f) noexcept {
    const bool one_line = collapse && continues(t.small[3], last - first, t.small[4]);
    line_position at(t.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line;) {
        const std::int64_t lines = one_line ? std::min(c.last_line - line, t.axes[1].small - at.h) : 1;
        f(at.offset(t.small, first), lines * (last - first));
        line += lines;
        at.advance(t.axes, lines);
    }
}

/// Packs the first `lanes` channels of a chunk of the small side as panels [pixel][panel_width], `panel_floats` apart.
template <class T>
inline void pack_chunk(const task_plan& p, const T* small, const chunk_grid::chunk& c, std::int64_t lanes,
                       std::int64_t panel_floats, float* out) noexcept {
    const std::int64_t width = p.panel_width;
    for_each_line(p, c, c.first_column, c.last_column, true, [&](std::int64_t offset, std::int64_t count) {
        // Neighbouring channels are read about as they lie in memory: some pixels of all panels at a time.
        const std::int64_t piece = p.small[1] == 1 && lanes > width ? 16 : count;
        for (std::int64_t x = 0; x < count; x += piece) {
            const std::int64_t n = std::min(piece, count - x);
            float* to = out + x * width;
            for (std::int64_t j = 0; j < lanes; j += width, to += panel_floats) {
                const std::int64_t used = std::min(width, lanes - j);
                pack_lanes(small + offset + j * p.small[1] + x * p.small[4], p.small[1], used, p.small[4], n, to,
                           width);
                clear_lanes(used, width, n, to, width);
            }
        }
        out += count * width;
    });
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
