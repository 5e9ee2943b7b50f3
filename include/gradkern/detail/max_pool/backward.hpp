// The max engine, backward: the gradient of max pooling by finding every maximum again.
//
// Loops, outermost first:
//
//     task       one box of positions of diff_src, of one image and one panel of channels
//     segment    of a line of the windows that reach the box: their maxima are found (window_task.hpp)
//
//     pull       where few windows overlap: every position pulls the gradients of those whose maximum it is
//                (window_pull.hpp), line of positions by line, as soon as all that reach it are there
//     scatter    elsewhere: window by window, gradients are added to f32 sums, or f64 ones, at the places of the maxima, which are written
//                when no window to come reaches them (held_slices.hpp)
//
// Both add in ascending order of the windows: the bits depend on shape and values alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/held_slices.hpp>
#include <gradkern/detail/max_pool/plan.hpp>
#include <gradkern/detail/max_pool/window_task.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/micro/window_pull.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One task of a backward plan.
template <class T>
class max_gradient_task : window_task {
public:
    max_gradient_task(const max_plan& m, std::int64_t task, std::byte* slice) noexcept
        : window_task(m, task, slice),
          sums_(array_at<float>(slice, m.at_sums)),
          gradient_(array_at<float>(slice, m.at_gradient)) {
        results_.value_step = 0;  // nobody reads values
        for (std::size_t i = 0; i < 3; ++i)
            windows_[i] = read_span_inside(m.axes[i], shape::side::large, box_.first[i], box_.last[i]);
    }

    void run(const T* src, const T* diff_dst, T* diff_src) noexcept {
        const shape::canonical_strides& x = m_.large;
        const shape::canonical_strides& y = m_.small;
        const T* const source = src + (box_.first_image * m_.src[0] + first_channel_ * m_.src[1]);
        const T* const gradients = diff_dst + (box_.first_image * y[0] + first_channel_ * y[1]);
        T* const to = diff_src + (box_.first_image * x[0] + first_channel_ * x[1]);
        if (m_.pulls) {
            pull(source, gradients, to);
        } else if (m_.in_f64) {
            scatter(source, gradients, to, reinterpret_cast<double*>(sums_));
        } else {
            scatter(source, gradients, to, sums_);
        }
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
        const position_range planes = read_span_inside(m_.axes[0], shape::side::large, d, d + 1);
        const position_range rows = read_span_inside(m_.axes[1], shape::side::large, h, h + 1);
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
    template <class Sum>
    void scatter(const T* source, const T* gradients, T* to, Sum* sums) noexcept {
        const shape::canonical_strides& y = m_.small;
        held_slices<T, Sum> slices(m_, box_, used_, sums, staging_);
        for_each_segment(windows_, [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
            const std::array<position_range, 3> line{{{d, d + 1}, {h, h + 1}, {first, last}}};
            slices.reach(source, to, line[m_.slide].first, line[m_.slide].last);
            const staging_box& held = slices.hull();
            const shape::canonical_strides in = held.strides();
            if (m_.gathered) {  // places are those of the tensor
                const window_source<T> all{source, m_.src, m_.src[1], tensor_places(), 0};
                max_windows(all, d, h, first, last, results_);
            } else {  // places are offsets of sums
                find_maxima(source, held, {in[2], in[3], in[4]}, held.origin(), d, h, first, last, results_);
            }
            const T* const gradient = gradients + (d * y[2] + h * y[3] + first * y[4]);
            if constexpr (std::is_same_v<T, float>) {
                if (y[1] == 1) return add_gradients(held, last - first, gradient, y[4], sums);
            }
            pack_lanes(gradient, y[1], used_, y[4], last - first, gradient_, m_.panel_width);
            add_gradients(held, last - first, gradient_, m_.panel_width, sums);
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

    /// Adds the gradients of `count` windows of the segment, `step` apart, to the sums of `hull`.
    template <class Sum>
    void add_gradients(const staging_box& hull, std::int64_t count, const float* gradient, std::int64_t step,
                       Sum* sums) noexcept {
        if (!m_.gathered) {
            for (std::int64_t w = 0; w < count; ++w, gradient += step) {
                const float* const place = results_.place + w * m_.panel_width;
                if (own::bit_cast<std::uint32_t>(*place) == no_place) continue;  // no channel of this window has one
                GRADKERN_UNROLL_FOUR
                for (std::int64_t j = 0; j < used_; ++j)
                    (sums + j)[own::bit_cast<std::uint32_t>(place[j])] += gradient[j];
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
                sums[in_box * m_.sum_width + j] += gradient[w * step + j];
            }
        }
    }

    float* sums_;
    float* gradient_;
    std::array<position_range, 3> windows_{};  // those that reach the box
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
