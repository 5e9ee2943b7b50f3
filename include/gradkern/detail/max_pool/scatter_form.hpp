// The gradient of a max pool in scatter form: each window adds its gradient to a sum at the linear offset of its maximum. Task
// (box of diff_src of one image, panel of channels) > line of windows: find maxima > windows in ascending order > channels.
// Lanes hold channels while maxima are found; adding is scalar. The rows differ in window_access:
//
// scatter_form          reads src in place. Taken when its channels are neighbours, and gather_form does not fit or lines are
//                       short. Zoo: sppf_max5, sppf_max9, max2s2_20_24 in NXC. scatter_form_packed takes 1.12 of its time (AVX-512),
//                       1.19 (AVX2), Sapphire Rapids.
// scatter_form_packed   packs what some slices read. Taken when channels lie apart. Zoo: 20 of 20 in
//                       NCX. scatter_form_strided takes 9.8 times as long (AVX-512), 14.7 (AVX2).
// scatter_form_strided  for windows too large for scratch, or planes for offsets of 30 bits: sums of a whole box. Zoo: none.
// Delete: scatter_form when packing costs nothing, _packed when gathering is faster on packed planes, _strided if sizes are bounded.
//
// Sums are f32, or f64 where more than pool_part windows reach a pixel. They slide along a box: where a window reaches a slice
// that is not buffered, slices that no window to come reaches are written, and newly reached ones are cleared (and packed).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/gradient.hpp>
#include <gradkern/detail/max_pool/maxima.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool {

struct scatter_form_plan : gradient_plan {
    sum_type sums = sum_type::f32;
    std::int64_t at_gradient = 0;
    std::int64_t sum_width = 0;  // sums of a pixel
    std::int64_t buffered = 0;   // slices at a time
};

/// How many of `extent` neighbouring slices, and of what else their windows read, are buffered at least: what two windows cover.
[[nodiscard]] constexpr std::int64_t least_slices(const shape::axis& a, std::int64_t extent) noexcept {
    const std::int64_t hull = hull_at_most(a, extent);
    return a.reach() >= a.large ? hull : std::min(hull, 2 * (a.reach() + 1));
}

/// Pixels that the scratch of a box buffers: its hull, of which there are only so many slices as two windows cover, so that no
/// more than half of them are moved when a window needs others.
[[nodiscard]] constexpr std::int64_t scatter_pixels(const problem& p, const std::array<std::int64_t, 3>& box) noexcept {
    const std::size_t slices = slice_axis(p);
    std::int64_t pixels = 1;
    for (std::size_t i = 0; i < 3; ++i)
        pixels *= i == slices ? least_slices(p.axes[i], box[i]) : hull_at_most(p.axes[i], box[i]);
    return pixels;
}

/// Whether the smallest box fits scratch. Least scratch never cuts a box across its slices.
[[nodiscard]] constexpr bool fits_scatter_form_packed(const problem& p) noexcept {
    std::array<std::int64_t, 3> smallest{1, 1, 1};
    const std::size_t slices = slice_axis(p);
    if (p.scratch == scratch_use::least) smallest[slices] = p.axes[slices].large;
    return has_short_offsets(p) && fits_scratch(p, scatter_pixels(p, smallest));
}
[[nodiscard]] constexpr bool fits_scatter_form(const problem& p) noexcept {
    return reads_in_place(p) && fits_scatter_form_packed(p);
}

/// The plan of any row.
[[nodiscard]] constexpr scatter_form_plan make_scatter_form(const problem& p, algorithm row) noexcept {
    const window_access access = access_of(row);
    const bool is_strided = access == window_access::strided;
    const bool is_packed = access == window_access::packed;
    const bool is_least = p.scratch == scratch_use::least;
    // A window that reaches several boxes is computed for each: boxes that are not packed are larger.
    panel_budget panel{widest_panel(p, access, target.pools.channels),
                       p.real.in_memory_of(is_packed ? max_scratch : 4 * max_scratch)};
    // narrower, until a whole plane fits its share of scratch
    while (is_packed && !is_least && panel.width > p.real.lanes && !panel.holds(scatter_pixels(p, p.pixels())))
        panel = {panel.width > 2 * p.real.lanes ? 2 * p.real.lanes : p.real.lanes,
                 p.real.in_memory_of(4 * max_scratch)};
    if (!is_strided) panel.cover(p, scatter_pixels(p, {1, 1, 1}));
    scatter_form_plan s{{p, row, panel.width}};
    s.sum_width = is_strided ? std::min(panel.width, p.channels) : panel.width;
    if (p.real.is_f64() || many_terms_meet(p.axes, shape::side::large)) s.sums = sum_type::f64;
    if (is_strided) {
        const std::int64_t floats = p.real.in_memory_of(is_least ? max_least : 64 * max_scratch);
        s.boxes = box_grid(p.batch, p.pixels(), [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
            return images <= 1 && box[0] * box[1] * box[2] * s.sum_width <= floats;
        });
    } else {
        s.boxes = grid_of_slices(p, cut_slices(p, panel, scatter_pixels), s.panels);
    }
    if (s.tasks() == 0) return s;
    const std::array<std::int64_t, 3> box{s.boxes.box(0), s.boxes.box(1), s.boxes.box(2)};
    std::int64_t floats = box[0] * box[1] * box[2] * s.sum_width;
    s.buffered = box[s.slide];
    if (!is_strided) {
        const shape::axis& a = p.axes[s.slide];
        const std::int64_t whole = hull_at_most(a, box[s.slide]);
        const std::int64_t least = least_slices(a, box[s.slide]);
        const std::int64_t slice_floats = scatter_pixels(p, box) * panel.width / least;
        s.buffered = std::clamp(p.real.in_memory_of(is_least ? max_least : max_slices) / slice_floats, least, whole);
        floats = s.buffered * slice_floats;
        // the columns that a segment reads are buffered at a time
        if (s.slide == 2 && s.buffered < whole)
            s.columns = std::min(s.columns, (s.buffered - a.reach() - 1) / a.stride + 1);
    }
    const std::int64_t results = s.columns * s.panel_width;
    slice_layout slice;
    s.at_sums = slice.reserve(floats, size_of(s.sums));
    s.at_gradient = slice.reserve(results, s.real.bytes);
    finish_scratch(s, p.scratch, slice, is_packed ? floats : 0, s.panel_width, results);
    return s;
}

/// One task of a plan, with its sums in the type Sum.
template <class T, class Sum>
class scatter_form_task : maxima_task<accumulate_t<T>> {
    using base = maxima_task<accumulate_t<T>>;
    using base::box_, base::packed_, base::panel_of, base::results_, base::used_;

public:
    scatter_form_task(const scatter_form_plan& s, std::int64_t task, std::byte* slice) noexcept
        : base(s, shape::side::large, task, slice),
          plan_(s),
          gradient_(array_at<accumulate_t<T>>(slice, s.at_gradient)),
          sums_(array_at<Sum>(slice, s.at_sums)) {
        hull_.images = 1;
        hull_.channels = s.sum_width;
        for (std::size_t i = 0; i < 3; ++i) {
            const position_range h = is_strided() ? position_range{box_.first[i], box_.last[i]}
                                                  : hull_of(s.axes[i], box_.first[i], box_.last[i]);
            hull_.first[i] = h.first;
            hull_.extent[i] = h.last - h.first;
        }
        end_ = hull_.first[s.slide] + hull_.extent[s.slide];
        hull_.extent[s.slide] = 0;
    }

    void run(const T* src, const T* diff_dst, T* diff_src) noexcept {
        const shape::canonical_strides& y = plan_.dst;
        src = panel_of(src, plan_.src);
        diff_dst = panel_of(diff_dst, y);
        diff_src = panel_of(diff_src, plan_.diff_src);
        const std::size_t slide = plan_.slide;
        const shape::axis& a = plan_.axes[slide];
        this->template for_each_segment<walked_windows::with_taps>(
            [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
                // Slices that these windows reach are buffered; windows to come reach none before them.
                const position_range windows =
                    std::array<position_range, 3>{{{d, d + 1}, {h, h + 1}, {first, last}}}[slide];
                if (std::min(end_, a.window_end(windows.last - 1)) > hull_.first[slide] + hull_.extent[slide])
                    advance(src, diff_src, std::max(hull_.first[slide], a.position(windows.first, 0)));
                const shape::canonical_strides in = hull_.strides();
                const std::array<std::int64_t, 3> sum_steps{in[2], in[3], in[4]};
                this->with_source(src, hull_, is_strided() ? plan_.plane_offsets() : sum_steps,
                                  is_strided() ? 0 : hull_.origin(),
                                  [&](const auto& source) { this->find_maxima(source, d, h, first, last, results_); });
                const T* const gradient = diff_dst + (d * y[2] + h * y[3] + first * y[4]);
                if constexpr (simd::is_wide<T>) {
                    if (y[1] == 1) return add_gradients(last - first, gradient, y[4]);
                }
                pack_lanes(gradient, y[1], used_, y[4], last - first, gradient_, plan_.panel_width);
                add_gradients(last - first, gradient_, plan_.panel_width);
            });
        advance(src, diff_src, end_);
    }

private:
    [[nodiscard]] bool is_strided() const noexcept { return plan_.access == window_access::strided; }

    /// Writes the slices before `begin`, and buffers those from there on: in several rounds where a stride steps over more
    /// slices than are buffered, which are written as zeros.
    void advance(const T* src, T* diff_src, std::int64_t begin) noexcept {
        std::int64_t& first = hull_.first[plan_.slide];
        std::int64_t& extent = hull_.extent[plan_.slide];
        const std::int64_t slice = hull_.strides()[2 + plan_.slide];
        const bool is_packed = plan_.access == window_access::packed;
        for (;;) {
            const std::int64_t done = std::min(begin - first, extent);
            const std::int64_t kept = extent - done;
            if (done > 0) {
                write(diff_src, first, first + done);
                own::copy_n(sums_ + done * slice, kept * slice, sums_);
                if (is_packed) own::copy_n(packed_ + done * slice, kept * slice, packed_);
            }
            first += done;
            if (first == end_) return;
            const std::int64_t reached = std::min(plan_.buffered, end_ - first) - kept;
            own::fill_n(sums_ + kept * slice, reached * slice, Sum{0});
            if (is_packed) {
                packed_box box = hull_;
                box.first[plan_.slide] = first + kept;
                box.extent[plan_.slide] = reached;
                pack_channels(src, plan_.src, box, used_, packed_ + kept * slice);
            }
            extent = kept + reached;
            if (first == begin) return;
        }
    }

    /// Writes the part of the slices [first, last) that belongs to the box.
    void write(T* diff_src, std::int64_t first, std::int64_t last) const noexcept {
        box_grid::item part = box_;
        part.first[plan_.slide] = std::max(first, part.first[plan_.slide]);
        part.last[plan_.slide] = std::min(last, part.last[plan_.slide]);
        const shape::canonical_strides from = hull_.strides();
        const shape::canonical_strides& x = plan_.diff_src;
        const std::int64_t columns = part.last[2] - part.first[2];
        if (columns <= 0) return;  // the slices lie beside the box
        // whole rows that follow one another in the tensor, too, are collapsed
        const bool follow = columns == hull_.extent[2] && continues(x[3], columns, x[4]);
        const std::int64_t rows = follow ? std::max<std::int64_t>(1, part.last[1] - part.first[1]) : 1;
        for (std::int64_t d = part.first[0]; d < part.last[0]; ++d)
            for (std::int64_t h = part.first[1]; h < part.last[1]; h += rows)
                unpack_lanes(sums_ + ((d - hull_.first[0]) * from[2] + (h - hull_.first[1]) * from[3] +
                                      (part.first[2] - hull_.first[2]) * from[4]),
                             plan_.sum_width, used_, rows * columns,
                             diff_src + (d * x[2] + h * x[3] + part.first[2] * x[4]), x[1], x[4],
                             plan_.output == output_mode::accumulate);
    }

    /// Adds the gradients of `count` windows of the segment, `step` apart, to the sums of what is buffered.
    void add_gradients(std::int64_t count, const accumulate_t<T>* gradient, std::int64_t step) const noexcept {
        if (plan_.access == window_access::strided) return add_inside(count, gradient, step);
        Sum* const sums = sums_;
        for (std::int64_t w = 0; w < count; ++w, gradient += step) {
            const accumulate_t<T>* const offset = results_.offset + w * plan_.panel_width;
            if (to_bits(*offset) == no_offset) continue;  // no channel of this window has one
            GRADKERN_UNROLL_FOUR
            for (std::int64_t j = 0; j < used_; ++j) (sums + j)[to_bits(offset[j])] += gradient[j];
        }
    }

    /// The same of those whose maximum is a pixel of what is buffered, where offsets number the pixels of the tensor.
    void add_inside(std::int64_t count, const accumulate_t<T>* gradient, std::int64_t step) const noexcept {
        for (std::int64_t w = 0; w < count; ++w) {
            for (std::int64_t j = 0; j < used_; ++j) {
                std::int64_t offset = results_.offset_at(w * plan_.panel_width + j);
                bool inside = offset >= 0;
                std::int64_t sum = j;
                for (std::size_t i = 3; inside && i-- > 0; offset /= plan_.axes[i].large) {
                    const std::int64_t at = offset % plan_.axes[i].large - hull_.first[i];
                    inside = at >= 0 && at < hull_.extent[i];
                    sum += at * hull_.strides()[2 + i];
                }
                if (inside) sums_[sum] += gradient[w * step + j];
            }
        }
    }

    const scatter_form_plan& plan_;
    accumulate_t<T>* gradient_;
    Sum* sums_;
    packed_box hull_;       // what is buffered
    std::int64_t end_ = 0;  // of the slices that the box needs
};

/// Runs a plan in scatter form. All checks have passed.
template <class T>
void run_path(const scatter_form_plan& s, const T* src, const T* diff_dst, T* diff_src, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    if (s.sums == sum_type::f64) {
        run_plan<scatter_form_task<T, double>>(s, workspace, executor, src, diff_dst, diff_src);
    } else {
        run_plan<scatter_form_task<T, accumulate_t<T>>>(s, workspace, executor, src, diff_dst, diff_src);
    }
}

}  // namespace detail::max_pool
GRADKERN_ISA_NAMESPACE_END
