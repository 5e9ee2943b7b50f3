// What both tasks of the max engine do: walking windows, and finding the maximum of each.
//
// Loops: line of windows (d, h) > segment of it > run of windows with the same inside taps (window_max.hpp) > taps. Large
// windows that overlap take the maxima of rows first, which neighbouring lines share.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/plan.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What a task reads its windows from, and how it numbers places: tensor, or staging area, seen from one panel.
template <class T>
struct window_source {
    const T* data = nullptr;  // element of the panel's first channel at the positions' origin
    shape::canonical_strides strides{};
    std::int64_t lane_step = 1;
    std::array<std::int64_t, 3> place_steps{};
    std::int64_t place_origin = 0;  // subtracted from every place
};

/// What the inside taps of window o read along one axis: the first position, and how many.
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
void max_segment(const max_plan& m, const window_source<T>& s, inside_reads planes, inside_reads rows,
                 std::int64_t first, std::int64_t last, std::int64_t used, window_results_of<O> to) noexcept {
    window_run run;
    shape::tap_class_walk walk(m.axes[2], shape::side::small, first, last);
    for (shape::tap_class c; walk.next(c);) {
        run.windows = c.positions;
        run.taps = {planes.count, rows.count, c.taps};
        if (planes.count == 0 || rows.count == 0 || c.taps == 0) {
            window_max_of_none(run, used, to);
        } else {
            const std::array<std::int64_t, 3> at{planes.first, rows.first, c.first_read};
            const T* source = s.data;
            run.first_place = -s.place_origin;
            for (std::size_t i = 0; i < 3; ++i) {
                const std::int64_t step = i == 2 ? c.read_per_tap : run.taps[i] > 1 ? m.axes[i].dilation : 0;
                run.read_step[i] = step * s.strides[2 + i];
                run.place_step[i] = step * s.place_steps[i];
                source += at[i] * s.strides[2 + i];
                run.first_place += at[i] * s.place_steps[i];
            }
            // gradients ask for what their windows reach; of few taps conversions alone take as long as memory
            run.asks = !m.backward && planes.count * rows.count * c.taps >= 4;
            run.window_read = c.read_per_position * s.strides[4];
            run.window_place = c.read_per_position * s.place_steps[2];
            bool is_gathered = false;
            if constexpr (std::is_same_v<O, float>) {
                is_gathered = to.place_high != nullptr;
                if (is_gathered) window_max_gathered<T, ignore_nan>(run, source, s.lane_step, used, to);
            }
            if (!is_gathered) window_max<T, ignore_nan>(run, source, used, to);
        }
        to = to.at(c.positions, 0);
    }
}

/// The place in element i of the results; -1 for a window without inside taps.
[[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t place_at(const window_results& r, std::int64_t i) noexcept {
    const auto low = own::bit_cast<std::uint32_t>(r.place[i]);
    if (low == no_place) return -1;
    if (r.place_high == nullptr) return low;
    return low + place_limit * std::int64_t{own::bit_cast<std::uint32_t>(r.place_high[i])};
}

/// One task of one plan: a box of outputs of one image, one panel of channels.
class window_task {
protected:
    window_task(const max_plan& m, std::int64_t task, std::byte* slice) noexcept
        : m_(m),
          box_(m.boxes[task / m.panels]),
          first_channel_(task % m.panels * m.panel_width),
          used_(std::min(m.panel_width, m.channels - first_channel_)),
          staging_(array_at<float>(slice, m.at_staging)),
          rows_(array_at<float>(slice, m.at_rows)),
          results_{array_at<float>(slice, m.at_value), array_at<float>(slice, m.at_place),
                   m.gathered ? array_at<float>(slice, m.at_high) : nullptr, m.panel_width, m.panel_width} {}

    /// Calls f(d, h, first, last) for segments of lines of windows.
    template <class F>
    void for_each_segment(const std::array<position_range, 3>& windows, const F& f) const noexcept {
        const auto line = [&](std::int64_t d, std::int64_t h, std::int64_t begin, std::int64_t end) {
            for (std::int64_t w = begin; w < end; w += m_.columns) f(d, h, w, std::min(end, w + m_.columns));
        };
        for_each_range(m_.axes[0], windows[0], [&](std::int64_t first_d, std::int64_t last_d) {
            for (std::int64_t d = first_d; d < last_d; ++d)
                for_each_range(m_.axes[1], windows[1], [&](std::int64_t first_h, std::int64_t last_h) {
                    for (std::int64_t h = first_h; h < last_h; ++h)
                        for_each_range(m_.axes[2], windows[2],
                                       [&](std::int64_t begin, std::int64_t end) { line(d, h, begin, end); });
                });
        });
    }

    /// Computes the windows [first, last) of line (d, h).
    template <class S, class O>
    void max_windows(const window_source<S>& source, std::int64_t d, std::int64_t h, std::int64_t first,
                     std::int64_t last, const window_results_of<O>& to) noexcept {
        const inside_reads planes = reads_of_window(m_.axes[0], d);
        const inside_reads rows = reads_of_window(m_.axes[1], h);
        const auto compute = [&]<bool ignore_nan>(std::bool_constant<ignore_nan>) {
            if (m_.rows_first && planes.count > 0 && rows.count > 0) {
                if (d != rows_of_) rows_end_ = 0;
                rows_of_ = d;
                max_by_rows<ignore_nan>(source, planes, rows, first, last, to);
            } else {
                max_segment<S, ignore_nan>(m_, source, planes, rows, first, last, used_, to);
            }
        };
        m_.ignore_nan ? compute(std::true_type{}) : compute(std::false_type{});
    }

    const max_plan& m_;
    box_grid::item box_;
    std::int64_t first_channel_;
    std::int64_t used_;
    float* staging_;
    float* rows_;
    window_results results_;

private:
    /// Calls f(first, last) for the windows of `range`; backward for those with inside taps only, since windows of a
    /// dilated kernel may step over the input in great numbers. (Without dilation all that reach a box have some.)
    template <class F>
    void for_each_range(const shape::axis& axis, position_range range, const F& f) const noexcept {
        if (!m_.backward || m_.pulls) {
            f(range.first, range.last);
            return;
        }
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

    /// The same, from the maxima of rows: those of rows that lines before have read are kept.
    template <bool ignore_nan, class S, class O>
    void max_by_rows(const window_source<S>& source, inside_reads planes, inside_reads rows, std::int64_t first,
                     std::int64_t last, const window_results_of<O>& to) noexcept {
        const std::int64_t kernel = m_.axes[1].kernel;
        const std::int64_t line = m_.columns * m_.panel_width;
        const std::int64_t left = reads_of_window(m_.axes[2], first).first * source.place_steps[2];
        window_source<S> in_row = source;  // places count from the first one that the line's windows read
        in_row.place_steps = {0, 0, source.place_steps[2]};
        in_row.place_origin = left;
        std::array<row_results, max_rows> kept;
        std::size_t count = 0;
        for (std::int64_t p = 0; p < planes.count; ++p) {
            const std::int64_t d = planes.first + p * m_.axes[0].dilation;
            for (std::int64_t h = rows.first; h < rows.first + rows.count; ++h) {
                float* const row = rows_ + (p * kernel + h % kernel) * 2 * line;
                if (h >= rows_end_)
                    max_segment<S, ignore_nan, float>(m_, in_row, {d, 1}, {h, 1}, first, last, used_,
                                                      {row, row + line, nullptr, m_.panel_width, m_.panel_width});
                kept[count++] = {row, row + line,
                                 d * source.place_steps[0] + h * source.place_steps[1] + left - source.place_origin};
            }
        }
        rows_end_ = rows.first + rows.count;
        max_of_rows<ignore_nan>({kept.data(), count}, last - first, m_.panel_width, used_, to);
    }

    std::int64_t rows_of_ = -1;  // the windows' d
    std::int64_t rows_end_ = 0;  // maxima of rows from there on are missing
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
