// The max engine: max pooling forward, and its gradient by finding every maximum again.
//
// A task is one box of outputs of one image and one panel of channels. Loops: line of windows (d, h) > segment of
// it > run of windows with the same inside taps (window_max.hpp) > taps. Large windows that overlap take the maxima of
// rows first, which neighbouring lines share. Forward a segment is then written out.
// Backward its gradients are added to f32 sums at the places of the maxima, in ascending order of the windows, and sums
// are written when no window to come reaches them: the bits depend on shape and values alone.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/maximum_plan.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>

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
template <class T, bool ignore_nan>
void max_segment(const max_plan& m, const window_source<T>& s, inside_reads planes, inside_reads rows,
                 std::int64_t first, std::int64_t last, std::int64_t used, window_results to) noexcept {
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
            run.window_read = c.read_per_position * s.strides[4];
            run.window_place = c.read_per_position * s.place_steps[2];
            if (to.place_high != nullptr) {
                window_max_gathered<T, ignore_nan>(run, source, s.lane_step, used, to);
            } else {
                window_max<T, ignore_nan>(run, source, used, to);
            }
        }
        to.skip(c.positions);
    }
}

/// The place in element i of the results; -1 for a window without inside taps.
[[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t place_at(const window_results& r, std::int64_t i) noexcept {
    const auto low = std::bit_cast<std::uint32_t>(r.place[i]);
    if (low == no_place) return -1;
    if (r.place_high == nullptr) return low;
    return low + place_limit * std::int64_t{std::bit_cast<std::uint32_t>(r.place_high[i])};
}

/// The slices of a box that a backward task holds in scratch: their sums and, where those are staged, elements of src.
template <class T>
class held_slices {
public:
    held_slices(const max_plan& m, const box_grid::item& box, std::int64_t used, float* sums, float* staging) noexcept
        : m_(m), box_(box), used_(used), sums_(sums), staging_(staging) {
        hull_.images = 1;
        hull_.channels = m.sum_width;
        for (std::size_t i = 0; i < 3; ++i) {
            const window_range h =
                m.gathered ? window_range{box.first[i], box.last[i]} : hull_of(m.axes[i], box.first[i], box.last[i]);
            hull_.first[i] = h.first;
            hull_.extent[i] = h.last - h.first;
        }
        end_ = hull_.first[m.slide] + hull_.extent[m.slide];
        hull_.extent[m.slide] = 0;
    }

    /// What is held.
    [[nodiscard]] const staging_box& hull() const noexcept { return hull_; }

    /// Sees to it that the slices which these windows reach are held; windows to come reach none before them. `source`
    /// and `to`: element of the panel's first channel at the image's origin.
    void reach(const T* source, T* to, std::int64_t first_window, std::int64_t last_window) noexcept {
        const shape::axis& a = m_.axes[m_.slide];
        const std::int64_t first = hull_.first[m_.slide];
        std::int64_t begin = first;
        std::int64_t end = end_;
        if (!m_.gathered) {
            begin = std::max(begin, a.position(first_window, 0));
            end = std::min(end, a.position(last_window - 1, 0) + (a.kernel - 1) * a.dilation + 1);
        }
        if (end > first + hull_.extent[m_.slide]) advance(source, to, begin);
    }
    /// Writes all that has not been written.
    void finish(const T* source, T* to) noexcept { advance(source, to, end_); }

private:
    /// Writes the slices before `begin`, and holds those from there on: in several rounds where a stride steps over more
    /// slices than are held, which are written as zeros.
    void advance(const T* source, T* to, std::int64_t begin) noexcept {
        std::int64_t& first = hull_.first[m_.slide];
        std::int64_t& extent = hull_.extent[m_.slide];
        for (;;) {
            const std::int64_t slice = m_.slide == 0   ? hull_.extent[1] * hull_.extent[2] * hull_.channels
                                       : m_.slide == 1 ? hull_.extent[2] * hull_.channels
                                                       : hull_.channels;
            const std::int64_t done = std::min(begin - first, extent);
            const std::int64_t kept = extent - done;
            if (done > 0) {
                write(to, first, first + done);
                std::copy_n(sums_ + done * slice, kept * slice, sums_);
                if (m_.staged) std::copy_n(staging_ + done * slice, kept * slice, staging_);
            }
            first += done;
            if (first == end_) return;
            const std::int64_t fresh = std::min(m_.held, end_ - first) - kept;
            std::fill_n(sums_ + kept * slice, fresh * slice, 0.0F);
            if (m_.staged) {
                staging_box box = hull_;
                box.first[m_.slide] = first + kept;
                box.extent[m_.slide] = fresh;
                stage_channels(source, m_.src, box, used_, staging_ + kept * slice);
            }
            extent = kept + fresh;
            if (first == begin) return;
        }
    }

    /// Writes the part of the slices [first, last) that belongs to the box.
    void write(T* to, std::int64_t first, std::int64_t last) const noexcept {
        box_grid::item part = box_;
        part.first[m_.slide] = std::max(first, part.first[m_.slide]);
        part.last[m_.slide] = std::min(last, part.last[m_.slide]);
        const shape::canonical_strides from = hull_.strides();
        const shape::canonical_strides& x = m_.large;
        for (std::int64_t d = part.first[0]; d < part.last[0]; ++d)
            for (std::int64_t h = part.first[1]; h < part.last[1]; ++h)
                unpack_lanes(sums_ + ((d - hull_.first[0]) * from[2] + (h - hull_.first[1]) * from[3] +
                                      (part.first[2] - hull_.first[2]) * from[4]),
                             m_.sum_width, used_, part.last[2] - part.first[2],
                             to + (d * x[2] + h * x[3] + part.first[2] * x[4]), x[1], x[4], m_.accumulate);
    }

    const max_plan& m_;
    const box_grid::item& box_;
    std::int64_t used_;
    float* sums_;
    float* staging_;
    staging_box hull_;
    std::int64_t end_ = 0;  // of the slices that the box needs
};

/// The lines of memory of the positions that windows of a line, one after the other, are the first to reach.
template <class T>
class fresh_lines {
public:
    /// The line's first window is (d, h, w); `tensor`: element of the panel's first channel at the image's origin.
    fresh_lines(const max_plan& m, const T* tensor, const shape::canonical_strides& strides, std::int64_t channels,
                std::int64_t d, std::int64_t h, std::int64_t w) noexcept
        : channels_(channels),
          planes_(count(m.axes[0])),
          rows_(count(m.axes[1])),
          columns_(count(m.axes[2])),
          plane_(strides[2]),
          row_(strides[3]),
          column_(strides[4]),
          advance_(m.axes[2].stride_in(column_)),
          tensor_(tensor),
          first_(first(m.axes[0], d) * plane_ + first(m.axes[1], h) * row_ + first(m.axes[2], w) * column_) {
        if (column_ == channels_) {  // neighbours are one stretch
            channels_ *= columns_;
            columns_ = 1;
        }
    }

    /// Asks for what window `w` of the line reaches. (Inlined by force: g++ drops calls of functions that only ask.)
    template <bool to_write>
    GRADKERN_ALWAYS_INLINE void ask(std::int64_t w) const noexcept {
        const std::int64_t window = first_ + w * advance_;
        for (std::int64_t p = 0; p < planes_; ++p)
            for (std::int64_t r = 0; r < rows_; ++r)
                for (std::int64_t c = 0; c < columns_; ++c)
                    for (std::int64_t j = 0; j < channels_; j += simd::line_elements<T>) {
                        const std::int64_t at = window + p * plane_ + r * row_ + c * column_ + j;
                        if constexpr (to_write) {
                            simd::prefetch_to_write(tensor_, at);
                        } else {
                            simd::prefetch(tensor_, at);
                        }
                    }
    }

private:
    /// From one window to the next `stride` positions are new, of which only the first few are asked for.
    [[nodiscard]] static std::int64_t count(const shape::axis& a) noexcept {
        return std::min<std::int64_t>(a.stride, 4);
    }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static std::int64_t first(const shape::axis& a, std::int64_t o) noexcept {
        const std::int64_t last = a.position(std::min(o, a.small - 1), 0) + (a.kernel - 1) * a.dilation;
        return std::clamp<std::int64_t>(last - count(a) + 1, 0, a.large - 1);
    }

    std::int64_t channels_;
    std::int64_t planes_;
    std::int64_t rows_;
    std::int64_t columns_;
    std::int64_t plane_;
    std::int64_t row_;
    std::int64_t column_;
    std::int64_t advance_;  // from window to window
    const T* tensor_;
    std::int64_t first_;
};

/// One task of one plan: a box of outputs of one image, one panel of channels.
template <class T>
class max_task {
public:
    max_task(const max_plan& m, std::int64_t task, std::byte* slice) noexcept
        : m_(m),
          box_(m.boxes[task / m.panels]),
          first_channel_(task % m.panels * m.panel_width),
          used_(std::min(m.panel_width, m.channels - first_channel_)),
          staging_(reinterpret_cast<float*>(slice + m.at_staging)),
          sums_(reinterpret_cast<float*>(slice + m.at_sums)),
          gradient_(reinterpret_cast<float*>(slice + m.at_gradient)),
          rows_(reinterpret_cast<float*>(slice + m.at_rows)),
          results_{reinterpret_cast<float*>(slice + m.at_value), reinterpret_cast<float*>(slice + m.at_place),
                   m.gathered ? reinterpret_cast<float*>(slice + m.at_high) : nullptr, m.panel_width, m.panel_width} {}

    void forward(const T* src, T* dst, std::int64_t* indices) noexcept {
        staging_box read;
        if (m_.staged) read = reads_of(m_.axes, shape::side::small, box_, m_.panel_width);
        const shape::canonical_strides& y = m_.small;
        T* const panel = dst + (box_.first_image * y[0] + first_channel_ * y[1]);
        const bool direct = std::is_same_v<T, float> && y[1] == 1 && !m_.accumulate && !m_.gathered;
        read_windows(src, read, m_.index.place_steps, 0, [&](const auto& source) {
            for_each_segment(
                {{{box_.first[0], box_.last[0]}, {box_.first[1], box_.last[1]}, {box_.first[2], box_.last[2]}}},
                [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
                    T* const to = panel + (d * y[2] + h * y[3] + first * y[4]);
                    window_results results = results_;
                    if constexpr (std::is_same_v<T, float>) {
                        if (direct) {
                            results.value = to;
                            results.value_step = y[4];
                        }
                    }
                    max_windows(source, d, h, first, last, results);
                    if (!direct)
                        unpack_lanes(results.value, m_.panel_width, used_, last - first, to, y[1], y[4], m_.accumulate);
                    if (indices != nullptr) store_indices(indices, d, h, first, last - first);
                });
        });
    }

    void backward(const T* src, const T* diff_dst, T* diff_src) noexcept {
        std::array<window_range, 3> windows{};
        for (std::size_t i = 0; i < 3; ++i) windows[i] = windows_reaching(m_.axes[i], box_.first[i], box_.last[i]);
        const shape::canonical_strides& x = m_.large;
        const shape::canonical_strides& y = m_.small;
        const T* const source = src + (box_.first_image * m_.src[0] + first_channel_ * m_.src[1]);
        const T* const gradients = diff_dst + (box_.first_image * y[0] + first_channel_ * y[1]);
        T* const to = diff_src + (box_.first_image * x[0] + first_channel_ * x[1]);
        held_slices<T> slices(m_, box_, used_, sums_, staging_);
        window_results results = results_;
        results.value_step = 0;  // nobody reads values
        for_each_segment(windows, [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
            const std::array<window_range, 3> line{{{d, d + 1}, {h, h + 1}, {first, last}}};
            slices.reach(source, to, line[m_.slide].first, line[m_.slide].last);
            const staging_box& held = slices.hull();
            const shape::canonical_strides in = held.strides();
            if (m_.gathered) {  // places are those of the tensor
                const std::int64_t columns = m_.axes[2].large;
                const window_source<T> all{source, m_.src, m_.src[1], {m_.axes[1].large * columns, columns, 1}, 0};
                max_windows(all, d, h, first, last, results);
            } else {  // places are offsets of sums
                const std::array<std::int64_t, 3> steps{in[2], in[3], in[4]};
                if (m_.staged) {
                    const window_source<float> staged{staging_ - held.origin(), in, 1, steps, held.origin()};
                    max_windows(staged, d, h, first, last, results);
                } else {
                    const window_source<T> in_place{source, m_.src, 1, steps, held.origin()};
                    max_windows(in_place, d, h, first, last, results);
                }
            }
            // While gradients are added to sums in the cache comes what memory would be waited for: what this window
            // is the first to reach of diff_src, and to read of src a line or a segment later.
            const bool is_line = m_.axes[1].small > 1;
            const fresh_lines<T> reached(m_, to, x, used_, d, h, first);
            const fresh_lines<T> read(m_, source, m_.src, used_, d, is_line ? h + 1 : h, is_line ? first : last);
            const auto ask = [&](std::int64_t w) GRADKERN_INLINE_LAMBDA {
                if (!m_.asks_ahead) return;
                if (x[1] == 1) reached.template ask<true>(w);
                if (m_.src[1] == 1) read.template ask<false>(w);
            };
            const T* const gradient = gradients + (d * y[2] + h * y[3] + first * y[4]);
            if constexpr (std::is_same_v<T, float>) {
                if (y[1] == 1) return add_gradients(held, last - first, gradient, y[4], ask);
            }
            pack_lanes(gradient, y[1], used_, y[4], last - first, gradient_, m_.panel_width);
            add_gradients(held, last - first, gradient_, m_.panel_width, ask);
        });
        slices.finish(source, to);
    }

private:
    /// Calls f with the source of the task's windows: the tensor, or the staging area after `box` was copied into it.
    template <class F>
    void read_windows(const T* src, const staging_box& box, const std::array<std::int64_t, 3>& place_steps,
                      std::int64_t place_origin, const F& f) noexcept {
        const T* panel = src + first_channel_ * m_.src[1];
        if (m_.staged) {
            stage_channels(panel, m_.src, box, used_, staging_);
            const shape::canonical_strides in = box.strides();
            f(window_source<float>{staging_ + (box_.first_image * in[0] - box.origin()), in, 1, place_steps,
                                   place_origin});
        } else {
            f(window_source<T>{panel + box_.first_image * m_.src[0], m_.src, m_.src[1], place_steps, place_origin});
        }
    }

    /// Calls f(first, last) for the windows of `range`; backward for those with inside taps only, since windows of a
    /// dilated kernel may step over the input in great numbers.
    template <class F>
    void for_each_range(const shape::axis& axis, window_range range, const F& f) const noexcept {
        if (!m_.backward) {
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

    /// Computes the windows [first, last) of line (d, h).
    template <class S>
    void max_windows(const window_source<S>& source, std::int64_t d, std::int64_t h, std::int64_t first,
                     std::int64_t last, const window_results& to) noexcept {
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

    /// The same, from the maxima of rows: those of rows that lines before have read are kept.
    template <bool ignore_nan, class S>
    void max_by_rows(const window_source<S>& source, inside_reads planes, inside_reads rows, std::int64_t first,
                     std::int64_t last, const window_results& to) noexcept {
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
                    max_segment<S, ignore_nan>(m_, in_row, {d, 1}, {h, 1}, first, last, used_,
                                               {row, row + line, nullptr, m_.panel_width, m_.panel_width});
                kept[count++] = {row, row + line,
                                 d * source.place_steps[0] + h * source.place_steps[1] + left - source.place_origin};
            }
        }
        rows_end_ = rows.first + rows.count;
        max_of_rows<ignore_nan>({kept.data(), count}, last - first, m_.panel_width, used_, to);
    }

    /// Calls f(d, h, first, last) for segments of lines of windows.
    template <class F>
    void for_each_segment(const std::array<window_range, 3>& windows, const F& f) const noexcept {
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

    void store_indices(std::int64_t* indices, std::int64_t d, std::int64_t h, std::int64_t first,
                       std::int64_t count) const noexcept {
        const shape::canonical_strides& y = m_.indices;
        std::int64_t* const to =
            indices + (box_.first_image * y[0] + first_channel_ * y[1] + d * y[2] + h * y[3] + first * y[4]);
        const std::int64_t base = box_.first_image * m_.index.per_image + first_channel_ * m_.index.per_channel;
        const std::int64_t per_channel = m_.index.per_channel;
        const bool quick =
            results_.place_high == nullptr && m_.index.per_place <= UINT32_MAX && !any_without_place(count);
        const auto per_place = static_cast<std::uint32_t>(m_.index.per_place);
        // Stores the indices of results i, i + step, ... whose channels are `channels` apart.
        const auto store = [&](std::int64_t n, std::int64_t i, std::int64_t step, std::int64_t origin,
                               std::int64_t channels, std::int64_t* out, std::int64_t out_step) {
            if (!quick) {
                for (std::int64_t e = 0; e < n; ++e) {
                    const std::int64_t place = place_at(results_, i + e * step);
                    out[e * out_step] = place < 0 ? -1 : origin + e * channels + place * m_.index.per_place;
                }
            } else if (step == 1 && out_step == 1) {
                store_indices_quickly(results_.place + i, 1, n, origin, channels, per_place, out, 1);
            } else {
                store_indices_quickly(results_.place + i, step, n, origin, channels, per_place, out, out_step);
            }
        };
        if (y[1] == 1) {
            for (std::int64_t w = 0; w < count; ++w)
                store(used_, w * m_.panel_width, 1, base, per_channel, to + w * y[4], 1);
        } else {
            constexpr std::int64_t ahead = 8;  // channels
            for (std::int64_t j = 0; j < used_; ++j) {
                for (std::int64_t w = 0; w < count && j + ahead < used_; w += simd::line_elements<std::int64_t>)
                    simd::prefetch_to_write(to, (j + ahead) * y[1] + w * y[4]);
                store(count, j, m_.panel_width, base + j * per_channel, 0, to + j * y[1], y[4]);
            }
        }
    }

    /// out[e * out_step] = first + e * channels + place[e * step] * per_place: one product of 32 bits by 32 each.
    GRADKERN_ALWAYS_INLINE static void store_indices_quickly(const float* place, std::int64_t step, std::int64_t n,
                                                             std::int64_t first, std::int64_t channels,
                                                             std::uint32_t per_place, std::int64_t* out,
                                                             std::int64_t out_step) noexcept {
        for (std::int64_t e = 0; e < n; ++e)
            out[e * out_step] =
                first + e * channels +
                static_cast<std::int64_t>(std::uint64_t{std::bit_cast<std::uint32_t>(place[e * step])} * per_place);
    }

    /// Whether one of the segment's windows has no inside tap: none of its channels has.
    [[nodiscard]] bool any_without_place(std::int64_t count) const noexcept {
        bool any = false;
        for (std::int64_t w = 0; w < count; ++w)
            any = any || std::bit_cast<std::uint32_t>(results_.place[w * m_.panel_width]) == no_place;
        return any;
    }

    /// Adds the gradients of `count` windows of the segment, `step` apart, to the sums of `hull`. ask(w) comes before
    /// those of window w.
    template <class Ask>
    void add_gradients(const staging_box& hull, std::int64_t count, const float* gradient, std::int64_t step,
                       const Ask& ask) noexcept {
        if (!m_.gathered) {
            for (std::int64_t w = 0; w < count; ++w, gradient += step) {
                const float* const place = results_.place + w * m_.panel_width;
                if (std::bit_cast<std::uint32_t>(*place) == no_place) continue;  // no channel of this window has one
                ask(w);
                GRADKERN_UNROLL_FOUR
                for (std::int64_t j = 0; j < used_; ++j)
                    (sums_ + j)[std::bit_cast<std::uint32_t>(place[j])] += gradient[j];
            }
            return;
        }
        for (std::int64_t w = 0; w < count; ++w) {
            const std::int64_t row = w * m_.panel_width;
            for (std::int64_t j = 0; j < used_; ++j) {
                const std::int64_t place = place_at(results_, row + j);
                if (place < 0) break;  // no lane of this window has one
                const std::int64_t rows = place / m_.axes[2].large;
                const std::array<std::int64_t, 3> at{rows / m_.axes[1].large - hull.first[0],
                                                     rows % m_.axes[1].large - hull.first[1],
                                                     place % m_.axes[2].large - hull.first[2]};
                bool inside = true;
                for (std::size_t i = 0; i < 3; ++i) inside = inside && at[i] >= 0 && at[i] < hull.extent[i];
                if (!inside) continue;
                const std::int64_t in_box = (at[0] * hull.extent[1] + at[1]) * hull.extent[2] + at[2];
                sums_[in_box * m_.sum_width + j] += gradient[w * step + j];
            }
        }
    }

    const max_plan& m_;
    box_grid::item box_;
    std::int64_t first_channel_;
    std::int64_t used_;
    float* staging_;
    float* sums_;
    float* gradient_;
    float* rows_;
    std::int64_t rows_of_ = -1;  // the windows' d
    std::int64_t rows_end_ = 0;  // maxima of rows from there on are missing
    window_results results_;
};

/// Runs a forward plan. All checks have passed; `indices` may be null.
template <class T>
void run_max_pool(const max_plan& m, const T* src, T* dst, std::int64_t* indices, std::span<std::byte> workspace,
                  executor_ref executor) noexcept {
    run_tasks(executor, m.tasks(), slices(workspace, m.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next())
            max_task<T>(m, task, slice).forward(src, dst, indices);
    });
}

/// Runs a backward plan. All checks have passed.
template <class T>
void run_max_pool_backward(const max_plan& m, const T* src, const T* diff_dst, T* diff_src,
                           std::span<std::byte> workspace, executor_ref executor) noexcept {
    run_tasks(executor, m.tasks(), slices(workspace, m.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next())
            max_task<T>(m, task, slice).backward(src, diff_dst, diff_src);
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
