// What all paths share: planned windows, the walk over them, and how the maximum of each is found.
//
// Lanes hold channels. A task computes one box of outputs of one image and one panel of channels.
//
// Loops: line of windows (d, h) > segment of it > run of windows with the same inside taps (micro/window_max.hpp) > taps. Large
// windows that overlap take the maxima of rows first, which neighbouring lines share (a separable maximum).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool {

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
[[nodiscard]] constexpr window_access access_of(algorithm row) noexcept {
    if (row == algorithm::windows || row == algorithm::gather_form || row == algorithm::scatter_form)
        return window_access::in_place;
    return row == algorithm::windows_strided || row == algorithm::scatter_form_strided ? window_access::strided
                                                                                       : window_access::packed;
}

/// What a task reads to walk windows and find their maxima.
struct maxima_plan : tensors {
    algorithm path = algorithm::automatic;
    window_access access = window_access::in_place;
    prefetch prefetching = prefetch::none;  // of what later windows read
    std::int64_t panel_width = 0;           // lanes
    std::int64_t panels = 0;
    std::int64_t columns = 0;  // windows of a line that are computed at once
    box_grid boxes{};
    std::int64_t least_box = 0;  // outputs that boxes for several workers have at least; 0: they are these

    std::int64_t at_packed = 0;  // byte offsets in a slice of the workspace
    std::int64_t at_value = 0;
    std::int64_t at_offset = 0;
    std::int64_t at_offset_high = 0;
    std::int64_t at_rows = 0;  // maxima of the rows of windows, which lines share; 0 where windows are compared whole
    std::int64_t slice_bytes = 0;

    constexpr maxima_plan() noexcept = default;
    constexpr maxima_plan(const problem& p, algorithm row, std::int64_t width) noexcept
        : tensors(p),
          path(row),
          access(access_of(row)),
          panel_width(width),
          panels(shape::ceil_div(p.channels, width)),
          columns(std::clamp<std::int64_t>(
              p.real.in_memory_of(p.scratch == scratch_use::least ? max_least / 4 : max_results) / width, 1,
              p.axes[2].small)) {}

    /// Gives up the maxima of rows, the last array of a slice. Windows are compared whole then.
    constexpr void drop_rows() noexcept {
        if (at_rows != 0) slice_bytes = at_rows;
        at_rows = 0;
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return boxes.count() * panels; }
    /// The boxes of so many workers. In NXC panels of one box share lines of the cache: a box is work for one.
    [[nodiscard]] constexpr box_grid boxes_of(std::int64_t workers) const noexcept {
        if (least_box == 0) return boxes;
        return boxes_for(boxes, dst[1] == 1 ? 1 : panels, counted_workers(workers), least_box);
    }
    /// Linear offsets from pixel to pixel, as the pixels of a plane of src are numbered.
    [[nodiscard]] constexpr std::array<std::int64_t, 3> plane_offsets() const noexcept {
        return {axes[1].large * axes[2].large, axes[2].large, 1};
    }
};

/// Whether a plane is small enough for linear offsets of 30 bits.
[[nodiscard]] constexpr bool has_short_offsets(const problem& p) noexcept { return p.plane() < offset_limit; }

/// Whether windows can be read in place.
[[nodiscard]] constexpr bool reads_in_place(const problem& p) noexcept { return p.src[1] == 1 && has_short_offsets(p); }

/// Channels of a panel before scratch narrows it. Neighbouring channels in place, `in_place` at most, are walked together: they lie in
/// the same pages.
[[nodiscard]] constexpr std::int64_t widest_panel(const problem& p, window_access access,
                                                  std::int64_t in_place) noexcept {
    if (access == window_access::strided || p.scratch == scratch_use::least) return p.real.lanes;
    const std::int64_t most = access == window_access::packed ? 4 * p.real.lanes : in_place;
    return std::clamp(shape::ceil_div(p.channels, p.real.lanes) * p.real.lanes, p.real.lanes, most);
}

/// Whether the smallest box stays within the scratch that a worker may take. `pixels`: what it buffers, of one channel each.
[[nodiscard]] constexpr bool fits_scratch(const problem& p, std::int64_t pixels) noexcept {
    return p.scratch == scratch_use::least ? pixels <= p.real.in_memory_of(max_least) / p.real.lanes
                                           : pixels * p.real.lanes <= p.real.in_memory_of(4 * max_scratch);
}

/// The width of a panel, and the floats that a box of it may buffer.
struct panel_budget {
    std::int64_t width;
    std::int64_t floats;

    [[nodiscard]] constexpr bool holds(std::int64_t pixels) const noexcept { return pixels * width <= floats; }
    /// Makes boxes a few times as large as what one output needs, whose `pixels` are buffered.
    constexpr void cover(const problem& p, std::int64_t pixels) noexcept {
        if (pixels * width > p.real.in_memory_of(max_scratch)) width = p.real.lanes;
        floats =
            p.scratch == scratch_use::least ? p.real.in_memory_of(max_least) : std::max(floats, 4 * pixels * width);
    }
};

/// Whether maxima of rows save comparisons: lines of windows overlap, and every window has taps in each of its rows.
[[nodiscard]] constexpr bool saves_comparisons(const shape::axis& rows, const shape::axis& columns) noexcept {
    if (rows.dilation != 1 || columns.dilation != 1 || rows.stride >= rows.kernel || rows.small == 1) return false;
    if (columns.pad_begin >= columns.kernel || columns.position(columns.small - 1, 0) >= columns.large) return false;
    // Comparing rows reads their maxima and offsets again: of the 9 taps of 3x3 with stride 1 too few are saved.
    return (rows.kernel - rows.stride) * columns.kernel >= 3 * rows.kernel;
}

/// Ends a plan's scratch by so many floats of what is packed and of the results of windows, and by the maxima of rows where that
/// saves comparisons and they fit. These come last: see drop_rows().
constexpr void finish_scratch(maxima_plan& w, scratch_use scratch, slice_layout slice, std::int64_t packed,
                              std::int64_t values, std::int64_t offsets) noexcept {
    w.at_packed = slice.reserve(packed, w.real.bytes);
    w.at_value = slice.reserve(values, w.real.bytes);
    w.at_offset = slice.reserve(offsets, w.real.bytes);
    w.at_offset_high = slice.reserve(w.access == window_access::strided ? offsets : 0, w.real.bytes);
    const std::int64_t kernel = w.axes[1].kernel;
    if (scratch == scratch_use::fast && w.access != window_access::strided && w.axes[0].kernel <= max_rows / kernel &&
        saves_comparisons(w.axes[1], w.axes[2]) && w.columns == w.axes[2].small) {
        const std::int64_t floats = 2 * w.axes[0].kernel * kernel * w.columns * w.panel_width;
        if (floats <= w.real.in_memory_of(2 * max_scratch)) w.at_rows = slice.reserve(floats, w.real.bytes);
    }
    w.slice_bytes = slice.bytes();
}

/// What a task reads its windows from, tensor or packing buffer, seen from one panel, and the linear offset of each pixel.
template <class T>
struct window_source {
    const T* data = nullptr;  // element of the panel's first channel at the pixels' origin
    shape::canonical_strides strides{};
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
void max_segment(const maxima_plan& p, const window_source<T>& s, inside_reads planes, inside_reads rows,
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
            run.prefetching = planes.count * rows.count * c.taps >= 4 ? p.prefetching : prefetch::none;
            run.window_read = c.read_per_position * s.strides[4];
            run.window_offset = c.read_per_position * s.offset_steps[2];
            bool is_strided = false;
            if constexpr (std::is_same_v<O, accumulate_t<T>>) {
                is_strided = p.access == window_access::strided;
                if (is_strided) window_max_strided<T, ignore_nan>(run, source, s.strides[1], used, to);
            }
            if (!is_strided) window_max<T, ignore_nan>(run, source, used, to);
        }
        to = to.at(c.positions, 0);
    }
}

/// Which windows are walked. Those of a dilated kernel may step over the input in great numbers.
enum class walked_windows : std::uint8_t { all, with_taps };

/// Calls f(o) for the windows of an axis in `range`, in ranges [first, last).
template <walked_windows walked, class F>
void for_each_range(const shape::axis& axis, position_range range, const F& f) noexcept {
    if constexpr (walked == walked_windows::all) {
        f(range.first, range.last);
    } else {
        shape::tap_class_walk walk(axis, shape::side::small, range.first, range.last);
        range.last = range.first;  // no window with taps so far
        for (shape::tap_class c; walk.next(c);) {
            if (c.taps == 0) {
                if (range.first < range.last) f(range.first, range.last);
                range.first = c.first_position + c.positions;
            }
            range.last = c.first_position + c.positions;
        }
        if (range.first < range.last) f(range.first, range.last);
    }
}

/// One task of one plan. `outputs`: what its box holds, windows or pixels.
template <class Real>
class maxima_task {
protected:
    maxima_task(const maxima_plan& p, shape::side outputs, std::int64_t task, std::byte* slice) noexcept
        : box_(p.boxes[task / p.panels]),
          image_(box_.first_image),
          first_channel_(task % p.panels * p.panel_width),
          used_(std::min(p.panel_width, p.channels - first_channel_)),
          packed_(array_at<Real>(slice, p.at_packed)),
          results_{array_at<Real>(slice, p.at_value), array_at<Real>(slice, p.at_offset),
                   p.access == window_access::strided ? array_at<Real>(slice, p.at_offset_high) : nullptr,
                   outputs == shape::side::small ? p.panel_width : 0, p.panel_width},
          shared_(p),
          rows_(array_at<Real>(slice, p.at_rows)) {
        box_.first_image = 0;
        box_.last_image = 1;
        windows_ = box_;
        for (std::size_t i = 0; i < 3 && outputs == shape::side::large; ++i) {
            const position_range windows = read_span_inside(p.axes[i], outputs, box_.first[i], box_.last[i]);
            windows_.first[i] = windows.first;
            windows_.last[i] = windows.last;
        }
    }

    /// Element of the panel's first channel at the image's origin.
    template <class U>
    [[nodiscard]] U* panel_of(U* tensor, const shape::canonical_strides& strides) const noexcept {
        return tensor + (image_ * strides[0] + first_channel_ * strides[1]);
    }
    /// Calls f(d, h, first, last) for segments of lines of windows.
    template <walked_windows walked, class F>
    void for_each_segment(const F& f) const noexcept {
        const maxima_plan& p = shared_;
        const auto along = [&](std::size_t i, const auto& g) {
            for_each_range<walked>(p.axes[i], {windows_.first[i], windows_.last[i]}, g);
        };
        along(0, [&](std::int64_t first_d, std::int64_t last_d) {
            for (std::int64_t d = first_d; d < last_d; ++d)
                along(1, [&](std::int64_t first_h, std::int64_t last_h) {
                    for (std::int64_t h = first_h; h < last_h; ++h)
                        along(2, [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t w = begin; w < end; w += p.columns)
                                f(d, h, w, std::min(end, w + p.columns));
                        });
                });
        });
    }

    /// Calls f(source) with what windows are read from: the tensor, or what is packed of it.
    template <class T, class F>
    void with_source(const T* src, const packed_box& packed, const std::array<std::int64_t, 3>& offset_steps,
                     std::int64_t offset_origin, const F& f) const noexcept {
        if (shared_.access == window_access::packed) {
            f(window_source<Real>{packed_ - packed.origin(), packed.strides(), offset_steps, offset_origin});
        } else {
            f(window_source<T>{src, shared_.src, offset_steps, offset_origin});
        }
    }

    /// Computes the windows [first, last) of line (d, h).
    template <class S, class O>
    void find_maxima(const window_source<S>& source, std::int64_t d, std::int64_t h, std::int64_t first,
                     std::int64_t last, const window_results_of<O>& to) noexcept {
        const inside_reads planes = reads_of_window(shared_.axes[0], d);
        const inside_reads rows = reads_of_window(shared_.axes[1], h);
        const auto compute = [&]<bool ignore_nan>(std::bool_constant<ignore_nan>) {
            if (shared_.at_rows > 0 && planes.count > 0 && rows.count > 0) {
                if (d != rows_of_) rows_end_ = 0;
                rows_of_ = d;
                max_by_rows<ignore_nan>(source, planes, rows, first, last, to);
            } else {
                max_segment<S, ignore_nan>(shared_, source, planes, rows, first, last, used_, to);
            }
        };
        shared_.nan == nan_rule::loses ? compute(std::true_type{}) : compute(std::false_type{});
    }

    box_grid::item box_;      // of image 0
    box_grid::item windows_;  // those of the box, or those that reach it
    std::int64_t image_;
    std::int64_t first_channel_;
    std::int64_t used_;
    Real* packed_;
    window_results_of<Real> results_;  // of the gradient, whose values nobody reads, all at one place

private:
    /// The same, from the maxima of rows: those of rows that lines before have read are kept.
    template <bool ignore_nan, class S, class O>
    void max_by_rows(const window_source<S>& source, inside_reads planes, inside_reads rows, std::int64_t first,
                     std::int64_t last, const window_results_of<O>& to) noexcept {
        const std::int64_t kernel = shared_.axes[1].kernel;
        const std::int64_t width = shared_.panel_width;
        const std::int64_t line = shared_.columns * width;
        const std::int64_t left = reads_of_window(shared_.axes[2], first).first * source.offset_steps[2];
        window_source<S> in_row = source;  // offsets count from the first pixel that the line's windows read
        in_row.offset_steps = {0, 0, source.offset_steps[2]};
        in_row.offset_origin = left;
        std::array<row_results<Real>, max_rows> kept;
        std::size_t count = 0;
        for (std::int64_t p = 0; p < planes.count; ++p) {
            const std::int64_t d = planes.first + p * shared_.axes[0].dilation;
            for (std::int64_t h = rows.first; h < rows.first + rows.count; ++h) {
                Real* const row = rows_ + (p * kernel + h % kernel) * 2 * line;
                if (h >= rows_end_)
                    max_segment<S, ignore_nan, Real>(shared_, in_row, {d, 1}, {h, 1}, first, last, used_,
                                                     {row, row + line, nullptr, width, width});
                kept[count++] = {row, row + line,
                                 d * source.offset_steps[0] + h * source.offset_steps[1] + left - source.offset_origin};
            }
        }
        rows_end_ = rows.first + rows.count;
        max_of_rows<ignore_nan, Real>({kept.data(), count}, last - first, width, used_, to);
    }

    const maxima_plan& shared_;
    Real* rows_;
    std::int64_t rows_of_ = -1;  // the windows' d
    std::int64_t rows_end_ = 0;  // maxima of rows from there on are missing
};

/// Runs the tasks of a plan, each of which has run(tensors...).
template <class Task, class Plan, class... Tensors>
void run_plan(const Plan& p, std::span<std::byte> workspace, executor_ref executor, Tensors... tensors) noexcept {
    const slices memory(workspace, p.slice_bytes);
    Plan q = p;
    q.boxes = p.boxes_of(std::min(static_cast<std::int64_t>(executor.concurrency()), memory.count()));
    for_each_task(
        executor, q.tasks(), memory, [&](std::byte* slice, std::int64_t task) { Task(q, task, slice).run(tensors...); },
        q.panels);
}

}  // namespace detail::max_pool
GRADKERN_ISA_NAMESPACE_END
