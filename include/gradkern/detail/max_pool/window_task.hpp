// What the tasks of all paths do: walk windows, and find the maximum of each.
//
// Loops: line of windows (d, h) > segment of it > run of windows with the same inside taps (micro/window_max.hpp) > taps. Large
// windows that overlap take the maxima of rows first, which neighbouring lines share (a separable maximum).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/max_pool/window_plan.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What a task reads its windows from, tensor or packing buffer, seen from one panel, and the linear offset of each pixel.
template <class T>
struct window_source {
    const T* data = nullptr;  // element of the panel's first channel at the pixels' origin
    shape::canonical_strides strides{};
    std::int64_t lane_step = 1;
    std::array<std::int64_t, 3> offset_steps{};
    std::int64_t offset_origin = 0;  // subtracted from every offset
};

/// What the inside taps of a window read along one axis: the first pixel, and how many.
struct inside_reads {
    std::int64_t first;
    std::int64_t count;
};
[[nodiscard]] inline inside_reads reads_of_window(const shape::axis& a, std::int64_t o) noexcept {
    const shape::tap_sequence taps = a.inside_taps(o);
    return {a.position(o, taps.first), taps.count};
}

/// Computes the windows [first, last) of a line that reads these planes and rows, `used` channels of each.
template <class T, bool ignore_nan, class O>
void max_segment(const window_plan& p, const window_source<T>& s, inside_reads planes, inside_reads rows,
                 std::int64_t first, std::int64_t last, std::int64_t used, window_results_of<O> to) noexcept {
    window_run run;
    shape::tap_class_walk walk(p.axes[2], shape::side::small, first, last);
    for (shape::tap_class c; walk.next(c);) {
        run.windows = c.positions;
        run.taps = {planes.count, rows.count, c.taps};
        if (planes.count == 0 || rows.count == 0 || c.taps == 0) {
            window_max_of_none(run, used, to);
        } else {
            const std::array<std::int64_t, 3> at{planes.first, rows.first, c.first_read};
            const T* source = s.data;
            run.first_offset = -s.offset_origin;
            for (std::size_t i = 0; i < 3; ++i) {
                const std::int64_t step = i == 2 ? c.read_per_tap : run.taps[i] > 1 ? p.axes[i].dilation : 0;
                run.read_step[i] = step * s.strides[2 + i];
                run.offset_step[i] = step * s.offset_steps[i];
                source += at[i] * s.strides[2 + i];
                run.first_offset += at[i] * s.offset_steps[i];
            }
            // of few taps conversions alone take as long as memory
            run.prefetch = planes.count * rows.count * c.taps >= 4 ? p.prefetch : prefetch_windows::none;
            run.window_read = c.read_per_position * s.strides[4];
            run.window_offset = c.read_per_position * s.offset_steps[2];
            bool is_strided = false;
            if constexpr (std::is_same_v<O, float>) {
                is_strided = p.access == window_access::strided;
                if (is_strided) window_max_strided<T, ignore_nan>(run, source, s.lane_step, used, to);
            }
            if (!is_strided) window_max<T, ignore_nan>(run, source, used, to);
        }
        to = to.at(c.positions, 0);
    }
}

/// Calls f(first, last) for a range of windows.
struct every_window {
    template <class F>
    void operator()(const shape::axis&, position_range range, const F& f) const noexcept {
        f(range.first, range.last);
    }
};
/// The same for those with inside taps alone: windows of a dilated kernel may step over the input in great numbers.
struct windows_with_taps {
    template <class F>
    void operator()(const shape::axis& axis, position_range range, const F& f) const noexcept {
        shape::tap_class_walk walk(axis, shape::side::small, range.first, range.last);
        std::int64_t first = 0;
        std::int64_t last = 0;  // of an open range
        for (shape::tap_class c; walk.next(c);) {
            if (c.taps > 0) {
                if (first == last) first = c.first_position;
                last = c.first_position + c.positions;
            } else if (first != last) {
                f(first, last);
                first = last;
            }
        }
        if (first != last) f(first, last);
    }
};

/// One task of one plan: a box of outputs of one image, one panel of channels.
class window_task {
protected:
    window_task(const window_plan& p, std::int64_t task, std::byte* slice) noexcept
        : box_(p.boxes[task / p.panels]),
          first_channel_(task % p.panels * p.panel_width),
          used_(std::min(p.panel_width, p.channels - first_channel_)),
          packed_(array_at<float>(slice, p.at_packed)),
          results_{array_at<float>(slice, p.at_value), array_at<float>(slice, p.at_offset),
                   p.access == window_access::strided ? array_at<float>(slice, p.at_offset_high) : nullptr,
                   p.panel_width, p.panel_width},
          window_plan_(p),
          rows_(array_at<float>(slice, p.at_rows)) {}

    /// Calls f(d, h, first, last) for segments of lines of windows. `ranges`: every_window or windows_with_taps.
    template <class Ranges, class F>
    void for_each_segment(const std::array<position_range, 3>& windows, const Ranges& ranges,
                          const F& f) const noexcept {
        const window_plan& p = window_plan_;
        const auto line = [&](std::int64_t d, std::int64_t h, std::int64_t begin, std::int64_t end) {
            for (std::int64_t w = begin; w < end; w += p.columns) f(d, h, w, std::min(end, w + p.columns));
        };
        ranges(p.axes[0], windows[0], [&](std::int64_t first_d, std::int64_t last_d) {
            for (std::int64_t d = first_d; d < last_d; ++d)
                ranges(p.axes[1], windows[1], [&](std::int64_t first_h, std::int64_t last_h) {
                    for (std::int64_t h = first_h; h < last_h; ++h)
                        ranges(p.axes[2], windows[2],
                               [&](std::int64_t begin, std::int64_t end) { line(d, h, begin, end); });
                });
        });
    }

    /// Computes the windows [first, last) of line (d, h).
    template <class S, class O>
    void max_windows(const window_source<S>& source, std::int64_t d, std::int64_t h, std::int64_t first,
                     std::int64_t last, const window_results_of<O>& to) noexcept {
        const inside_reads planes = reads_of_window(window_plan_.axes[0], d);
        const inside_reads rows = reads_of_window(window_plan_.axes[1], h);
        const auto compute = [&]<bool ignore_nan>(std::bool_constant<ignore_nan>) {
            if (window_plan_.maxima == window_maxima::separable && planes.count > 0 && rows.count > 0) {
                if (d != rows_of_) rows_end_ = 0;
                rows_of_ = d;
                max_by_rows<ignore_nan>(source, planes, rows, first, last, to);
            } else {
                max_segment<S, ignore_nan>(window_plan_, source, planes, rows, first, last, used_, to);
            }
        };
        window_plan_.nan == nan_rule::loses ? compute(std::true_type{}) : compute(std::false_type{});
    }

    box_grid::item box_;
    std::int64_t first_channel_;
    std::int64_t used_;
    float* packed_;
    window_results results_;

private:
    /// The same, from the maxima of rows: those of rows that lines before have read are kept.
    template <bool ignore_nan, class S, class O>
    void max_by_rows(const window_source<S>& source, inside_reads planes, inside_reads rows, std::int64_t first,
                     std::int64_t last, const window_results_of<O>& to) noexcept {
        const std::int64_t kernel = window_plan_.axes[1].kernel;
        const std::int64_t width = window_plan_.panel_width;
        const std::int64_t line = window_plan_.columns * width;
        const std::int64_t left = reads_of_window(window_plan_.axes[2], first).first * source.offset_steps[2];
        window_source<S> in_row = source;  // offsets count from the first pixel that the line's windows read
        in_row.offset_steps = {0, 0, source.offset_steps[2]};
        in_row.offset_origin = left;
        std::array<row_results, max_rows> kept;
        std::size_t count = 0;
        for (std::int64_t p = 0; p < planes.count; ++p) {
            const std::int64_t d = planes.first + p * window_plan_.axes[0].dilation;
            for (std::int64_t h = rows.first; h < rows.first + rows.count; ++h) {
                float* const row = rows_ + (p * kernel + h % kernel) * 2 * line;
                if (h >= rows_end_)
                    max_segment<S, ignore_nan, float>(window_plan_, in_row, {d, 1}, {h, 1}, first, last, used_,
                                                      {row, row + line, nullptr, width, width});
                kept[count++] = {row, row + line,
                                 d * source.offset_steps[0] + h * source.offset_steps[1] + left - source.offset_origin};
            }
        }
        rows_end_ = rows.first + rows.count;
        max_of_rows<ignore_nan>({kept.data(), count}, last - first, width, used_, to);
    }

    const window_plan& window_plan_;
    float* rows_;
    std::int64_t rows_of_ = -1;  // the windows' d
    std::int64_t rows_end_ = 0;  // maxima of rows from there on are missing
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
