// The max engine, backward: the gradient of max pooling by finding every maximum again.
//
// A task is one box of positions of diff_src of one image and one panel of channels; it computes the windows that reach
// them (window_task.hpp) line by line. Where few windows overlap, every position then pulls the gradients of those whose
// maximum it is (window_pull.hpp), as soon as all that reach it are there. Elsewhere gradients are added to f32 sums at
// the places of the maxima, and sums are written when no window to come reaches them. Both add in ascending order of the
// windows: the bits depend on shape and values alone.
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
#include <gradkern/detail/micro/window_pull.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/maximum_plan.hpp>
#include <gradkern/detail/plan/window_task.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The slices of a box that are held in scratch for sums: these, and elements of src where those are staged.
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

/// One task of a backward plan.
template <class T>
class max_gradient_task : window_task {
public:
    max_gradient_task(const max_plan& m, std::int64_t task, std::byte* slice) noexcept
        : window_task(m, task, slice),
          sums_(reinterpret_cast<float*>(slice + m.at_sums)),
          gradient_(reinterpret_cast<float*>(slice + m.at_gradient)) {
        results_.value_step = 0;  // nobody reads values
        for (std::size_t i = 0; i < 3; ++i) windows_[i] = m.axes[i].windows_reaching(box_.first[i], box_.last[i]);
    }

    void run(const T* src, const T* diff_dst, T* diff_src) noexcept {
        const shape::canonical_strides& x = m_.large;
        const shape::canonical_strides& y = m_.small;
        const T* const source = src + (box_.first_image * m_.src[0] + first_channel_ * m_.src[1]);
        const T* const gradients = diff_dst + (box_.first_image * y[0] + first_channel_ * y[1]);
        T* const to = diff_src + (box_.first_image * x[0] + first_channel_ * x[1]);
        m_.pulls ? pull(source, gradients, to) : scatter(source, gradients, to);
    }

private:
    /// Lets the positions of the box pull their gradients. All pointers: to the panel's first channel at the image's
    /// origin.
    void pull(const T* source, const T* gradients, T* to) noexcept {
        const shape::canonical_strides& y = m_.small;
        staging_box staged;
        if (m_.staged && windows_[2].first < windows_[2].last) {
            const box_grid::item read{0, 1, {0, 0, windows_[2].first}, {1, 1, windows_[2].last}};
            staged = reads_of(m_.axes, shape::side::small, read, m_.panel_width);
            stage_channels(source, m_.src, staged, used_, staging_);
        }
        std::int64_t pulled = box_.first[m_.slide];  // slices before this one have been
        const auto pull_before = [&](std::int64_t end) {
            end = std::min(end, box_.last[m_.slide]);
            if (end <= pulled) return;
            box_grid::item part = box_;
            part.first[m_.slide] = pulled;
            part.last[m_.slide] = end;
            pulled = end;
            for (std::int64_t d = part.first[0]; d < part.last[0]; ++d)
                for (std::int64_t h = part.first[1]; h < part.last[1]; ++h) pull_line(source, gradients, to, d, h);
        };
        for_each_segment(windows_, [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
            // windows from here on reach no position before their own first one
            if (m_.slide < 2) pull_before(m_.axes[m_.slide].position(m_.slide == 0 ? d : h, 0));
            const std::int64_t at = kept_line(d, h) + (first - windows_[2].first) * m_.panel_width;
            window_results results = results_;
            results.place += at;
            find_maxima(source, staged, tensor_places(), 0, d, h, first, last, results);
            if (!m_.pulls_in_place)
                pack_lanes(gradients + (d * y[2] + h * y[3] + first * y[4]), y[1], used_, y[4], last - first,
                           gradient_ + at, m_.panel_width);
        });
        pull_before(box_.last[m_.slide]);
    }

    /// Lets the positions of the box in line (d, h) pull theirs.
    void pull_line(const T* source, const T* gradients, T* to, std::int64_t d, std::int64_t h) noexcept {
        const shape::canonical_strides& x = m_.large;
        const shape::canonical_strides& y = m_.small;
        const window_range planes = m_.axes[0].windows_reaching(d, d + 1);
        const window_range rows = m_.axes[1].windows_reaching(h, h + 1);
        const std::int64_t first = box_.first[2];
        const std::int64_t last = box_.last[2];
        const std::array<std::int64_t, 3> places = tensor_places();
        const std::int64_t place = d * places[0] + h * places[1];  // of column 0
        to += d * x[2] + h * x[3];
        // the columns [begin, end)
        const auto pull_from = [&]<class G>(std::int64_t begin, std::int64_t end, std::int64_t gradient_step, auto* out,
                                            std::int64_t out_step, const asked_ahead<T>& ahead,
                                            const auto& gradient_of) {
            std::array<window_line<G>, most_pulled> lines;
            std::size_t count = 0;
            for (std::int64_t p = planes.first; p < planes.last && windows_[2].first < windows_[2].last; ++p)
                for (std::int64_t r = rows.first; r < rows.last; ++r)
                    lines[count++] = {results_.place + kept_line(p, r), gradient_of(p, r)};
            pull_gradients<G>({lines.data(), count}, {m_.panel_width, gradient_step, out_step}, m_.axes[2],
                              windows_[2].first, begin, end, place + begin, used_, out, ahead);
        };
        if (m_.pulls_in_place) {
            asked_ahead<T> ahead;  // what the next slice of windows, or the next box, is the first to read
            std::array<std::int64_t, 3> at{d, h, first};
            at[m_.slide] += m_.slide < 2 ? m_.axes[m_.slide].kernel : last - first;
            if (m_.asks_ahead && !m_.staged && at[m_.slide] < m_.axes[m_.slide].large && last - first > 1) {
                ahead = {source, at[0] * m_.src[2] + at[1] * m_.src[3] + at[2] * m_.src[4], m_.src[4]};
            }
            pull_from.template operator()<T>(first, last, y[4], to + first * x[4], x[4], ahead,
                                             [&](std::int64_t p, std::int64_t r) {
                                                 return gradients + (p * y[2] + r * y[3] + windows_[2].first * y[4]);
                                             });
            return;
        }
        for (std::int64_t begin = first; begin < last; begin += m_.pulled_columns) {
            const std::int64_t end = std::min(last, begin + m_.pulled_columns);
            pull_from.template operator()<float>(
                begin, end, m_.panel_width, sums_, m_.panel_width, {},
                [&](std::int64_t p, std::int64_t r) { return gradient_ + kept_line(p, r); });
            unpack_lanes(sums_, m_.panel_width, used_, end - begin, to + begin * x[4], x[1], x[4], m_.accumulate);
        }
    }

    /// Offset of the results of a line of windows in what is kept of them: some slices, which take turns.
    [[nodiscard]] std::int64_t kept_line(std::int64_t d, std::int64_t h) const noexcept {
        const std::int64_t line = m_.slide == 0   ? d % m_.kept_slices * m_.kept_lines + (h - windows_[1].first)
                                  : m_.slide == 1 ? h % m_.kept_slices
                                                  : 0;
        return line * m_.kept_windows * m_.panel_width;
    }

    /// Adds gradients to sums at the places of the maxima, and writes the sums.
    void scatter(const T* source, const T* gradients, T* to) noexcept {
        const shape::canonical_strides& x = m_.large;
        const shape::canonical_strides& y = m_.small;
        held_slices<T> slices(m_, box_, used_, sums_, staging_);
        for_each_segment(windows_, [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
            const std::array<window_range, 3> line{{{d, d + 1}, {h, h + 1}, {first, last}}};
            slices.reach(source, to, line[m_.slide].first, line[m_.slide].last);
            const staging_box& held = slices.hull();
            const shape::canonical_strides in = held.strides();
            if (m_.gathered) {  // places are those of the tensor
                const window_source<T> all{source, m_.src, m_.src[1], tensor_places(), 0};
                max_windows(all, d, h, first, last, results_);
            } else {  // places are offsets of sums
                find_maxima(source, held, {in[2], in[3], in[4]}, held.origin(), d, h, first, last, results_);
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

    /// Places as numbers of positions of the tensor.
    [[nodiscard]] std::array<std::int64_t, 3> tensor_places() const noexcept {
        return {m_.axes[1].large * m_.axes[2].large, m_.axes[2].large, 1};
    }

    /// Computes windows of a line from the tensor, or from what is held of it.
    void find_maxima(const T* source, const staging_box& held, const std::array<std::int64_t, 3>& place_steps,
                     std::int64_t place_origin, std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last,
                     const window_results& results) noexcept {
        if (m_.staged) {
            const window_source<float> staged{staging_ - held.origin(), held.strides(), 1, place_steps, place_origin};
            max_windows(staged, d, h, first, last, results);
        } else {
            const window_source<T> in_place{source, m_.src, 1, place_steps, place_origin};
            max_windows(in_place, d, h, first, last, results);
        }
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

    float* sums_;
    float* gradient_;
    std::array<window_range, 3> windows_{};  // those that reach the box
};

/// Runs a backward plan. All checks have passed.
template <class T>
void run_max_pool_backward(const max_plan& m, const T* src, const T* diff_dst, T* diff_src,
                           std::span<std::byte> workspace, executor_ref executor) noexcept {
    run_tasks(executor, m.tasks(), slices(workspace, m.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next())
            max_gradient_task<T>(m, task, slice).run(src, diff_dst, diff_src);
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
