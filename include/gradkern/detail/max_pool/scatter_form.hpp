// The gradient of a max pool in scatter form: each window adds its gradient to a sum at the linear offset of its maximum.
//
// Path cards. All three: task (box of diff_src of one image, panel of channels) > line of windows: find maxima > windows in
// ascending order > channels. Lanes hold channels while maxima are found; adding is scalar. Sums are f32, or f64 where more than
// pool_part windows reach a pixel. Times: means over the zoo, tensors of two images, both rows forced, Sapphire Rapids,
// g++ 12 -O3.
//
// scatter_form          reads src in place.
//                       Taken when channels of src are neighbours and gather_form does not fit: many windows, or dilated ones.
//                       Gain: scatter_form_packed takes 1.12 of its time (AVX-512), 1.19 (AVX2).
//                       Zoo: sppf_max5, sppf_max9 in NXC. Delete it when packing costs nothing.
// scatter_form_packed   packs what some slices read as f32, channels innermost, beside their sums.
//                       Taken when channels of src lie apart, across more than one axis.
//                       Gain: scatter_form_strided takes 9.8 times as long (AVX-512), 14.7 (AVX2); four pools.
//                       Zoo: 18 of 20 max pools in NCX. Delete it when gather form is faster on packed planes.
// scatter_form_strided  loads element by element, and buffers the sums of a whole box.
//                       Taken when a window is too large for scratch, or a plane for offsets of 30 bits: it fits every problem.
//                       Zoo: none. Delete it when the contract bounds the sizes of planes and kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/gradient.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/max_pool/scatter_slices.hpp>
#include <gradkern/detail/max_pool/window_plan.hpp>
#include <gradkern/detail/max_pool/window_task.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Pixels that the scratch of a box buffers: its hull, of which there are only so many slices as two windows cover, so that no
/// more than half of them are moved when a window needs others.
[[nodiscard]] constexpr std::int64_t scatter_pixels(const max_problem& p,
                                                    const std::array<std::int64_t, 3>& box) noexcept {
    const std::size_t slices = slice_axis(p);
    std::int64_t pixels = 1;
    for (std::size_t i = 0; i < 3; ++i)
        pixels *= i == slices ? least_slices(p.axes[i], box[i]) : hull_at_most(p.axes[i], box[i]);
    return pixels;
}

/// Whether the smallest box fits scratch. Least scratch never cuts a box across its slices.
[[nodiscard]] constexpr bool fits_scatter_scratch(const max_problem& p) noexcept {
    std::array<std::int64_t, 3> smallest{1, 1, 1};
    const std::size_t slices = slice_axis(p);
    if (p.scratch == scratch_use::least) smallest[slices] = p.axes[slices].large;
    return has_short_offsets(p) && fits_scratch(p, scatter_pixels(p, smallest));
}
[[nodiscard]] constexpr bool fits_scatter_form(const max_pool_backward_problem& p) noexcept {
    return reads_in_place(p) && fits_scatter_scratch(p);
}
[[nodiscard]] constexpr bool fits_scatter_form_packed(const max_pool_backward_problem& p) noexcept {
    return fits_scatter_scratch(p);
}

/// Ends a plan: the scratch of sums over `slices_floats` floats of slices.
constexpr void reserve_scatter(scatter_form_plan& s, const max_problem& p, std::int64_t floats) noexcept {
    const std::int64_t results = s.columns * s.panel_width;
    slice_layout slice;
    s.at_packed = slice.reserve<float>(s.access == window_access::packed ? floats : 0);
    s.at_sums = s.sums == sum_type::f64 ? slice.reserve<double>(floats) : slice.reserve<float>(floats);
    s.at_value = slice.reserve<float>(s.panel_width);
    s.at_offset = slice.reserve<float>(results);
    s.at_offset_high = slice.reserve<float>(s.access == window_access::strided ? results : 0);
    s.at_gradient = slice.reserve<float>(results);
    finish_scratch(s, p.scratch, slice);
}

/// The plan of scatter_form and of scatter_form_packed.
[[nodiscard]] constexpr scatter_form_plan make_scatter_form(const max_pool_backward_problem& p,
                                                            algorithm row) noexcept {
    const window_access access =
        row == algorithm::scatter_form_packed ? window_access::packed : window_access::in_place;
    // A window that reaches several boxes is computed for each: boxes that are not packed are larger.
    const bool is_packed = access == window_access::packed;
    panel_budget panel{widest_panel(p, access), is_packed ? max_scratch : 4 * max_scratch};
    const bool is_least = p.scratch == scratch_use::least;
    if (is_packed && !is_least) narrow_panel(panel, scatter_pixels(p, p.pixels()));
    panel.cover(p, scatter_pixels(p, {1, 1, 1}));
    scatter_form_plan s{{{p, row, access, panel.width}, p}};
    s.sum_width = panel.width;
    if (many_windows_meet(p.axes)) s.sums = sum_type::f64;
    const auto box_of = cut_slices(
        p, [&](const std::array<std::int64_t, 3>& box) { return scatter_pixels(p, box) * panel.width > panel.floats; });
    s.boxes = grid_of_slices(p, box_of, s.panels);
    if (s.tasks() == 0) return s;
    const std::array<std::int64_t, 3> box{s.boxes.box(0), s.boxes.box(1), s.boxes.box(2)};
    const shape::axis& a = p.axes[s.slide];
    const std::int64_t whole = hull_at_most(a, box[s.slide]);
    const std::int64_t least = least_slices(a, box[s.slide]);
    const std::int64_t slice_floats = scatter_pixels(p, box) * panel.width / least;
    s.buffered = std::clamp((is_least ? max_least : max_slices) / slice_floats, least, whole);
    // the columns that a segment reads are buffered at a time
    if (s.slide == 2 && s.buffered < whole)
        s.columns = std::min(s.columns, (s.buffered - a.reach() - 1) / a.stride + 1);
    reserve_scatter(s, p, s.buffered * slice_floats);
    return s;
}

/// The plan of scatter_form_strided.
[[nodiscard]] constexpr scatter_form_plan make_scatter_form_strided(const max_pool_backward_problem& p,
                                                                    algorithm row) noexcept {
    const std::int64_t floats = p.scratch == scratch_use::least ? max_least : 64 * max_scratch;
    const std::int64_t width = widest_panel(p, window_access::strided);
    scatter_form_plan s{{{p, row, window_access::strided, width}, p}};
    s.sum_width = std::min(width, p.channels);
    if (many_windows_meet(p.axes)) s.sums = sum_type::f64;
    s.boxes = box_grid(p.batch, p.pixels(), [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        return images <= 1 && box[0] * box[1] * box[2] * s.sum_width <= floats;
    });
    if (s.tasks() == 0) return s;
    s.buffered = s.boxes.box(s.slide);
    reserve_scatter(s, p, s.boxes.box(0) * s.boxes.box(1) * s.boxes.box(2) * s.sum_width);
    return s;
}

/// One task of a plan in scatter form.
template <class T>
class scatter_form_task : gradient_task {
public:
    scatter_form_task(const scatter_form_plan& s, std::int64_t task, std::byte* slice) noexcept
        : gradient_task(s, task, slice), plan_(s), sums_(array_at<float>(slice, s.at_sums)) {}

    void run(const T* src, const T* diff_dst, T* diff_src) noexcept {
        const T* const source = panel_of(src, plan_.src);
        const T* const gradients = panel_of(diff_dst, plan_.diff_dst);
        T* const to = panel_of(diff_src, plan_.diff_src);
        if (plan_.sums == sum_type::f64) {
            scatter(source, gradients, to, reinterpret_cast<double*>(sums_));
        } else {
            scatter(source, gradients, to, sums_);
        }
    }

private:
    /// Adds gradients to sums at the offsets of the maxima, and writes the sums.
    template <class Sum>
    void scatter(const T* source, const T* gradients, T* to, Sum* sums) noexcept {
        const shape::canonical_strides& y = plan_.diff_dst;
        scatter_slices<T, Sum> slices(plan_, box_, used_, sums, packed_);
        const auto segment = [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
            const std::array<position_range, 3> line{{{d, d + 1}, {h, h + 1}, {first, last}}};
            slices.reach(source, to, line[plan_.slide].first, line[plan_.slide].last);
            const staging_box& hull = slices.hull();
            if (plan_.access == window_access::strided) {
                find_maxima(source, hull, tensor_offsets(), 0, d, h, first, last, results_);
            } else {  // offsets are those of sums
                const shape::canonical_strides in = hull.strides();
                find_maxima(source, hull, {in[2], in[3], in[4]}, hull.origin(), d, h, first, last, results_);
            }
            const T* const gradient = gradients + (d * y[2] + h * y[3] + first * y[4]);
            if constexpr (std::is_same_v<T, float>) {
                if (y[1] == 1) return add_gradients(hull, last - first, gradient, y[4], sums);
            }
            pack_lanes(gradient, y[1], used_, y[4], last - first, gradient_, plan_.panel_width);
            add_gradients(hull, last - first, gradient_, plan_.panel_width, sums);
        };
        for_each_segment(windows_, windows_with_taps{}, segment);
        slices.finish(source, to);
    }

    /// Adds the gradients of `count` windows of the segment, `step` apart, to the sums of `hull`.
    template <class Sum>
    void add_gradients(const staging_box& hull, std::int64_t count, const float* gradient, std::int64_t step,
                       Sum* sums) const noexcept {
        if (plan_.access == window_access::strided) return add_inside(hull, count, gradient, step, sums);
        for (std::int64_t w = 0; w < count; ++w, gradient += step) {
            const float* const offset = results_.offset + w * plan_.panel_width;
            if (own::bit_cast<std::uint32_t>(*offset) == no_offset) continue;  // no channel of this window has one
            GRADKERN_UNROLL_FOUR
            for (std::int64_t j = 0; j < used_; ++j) (sums + j)[own::bit_cast<std::uint32_t>(offset[j])] += gradient[j];
        }
    }

    /// The same of those whose maximum is a pixel of `hull`, where offsets number the pixels of the tensor.
    template <class Sum>
    void add_inside(const staging_box& hull, std::int64_t count, const float* gradient, std::int64_t step,
                    Sum* sums) const noexcept {
        for (std::int64_t w = 0; w < count; ++w) {
            for (std::int64_t j = 0; j < used_; ++j) {
                const std::int64_t offset = results_.offset_at(w * plan_.panel_width + j);
                if (offset < 0) break;  // no channel of this window has one
                const std::int64_t rows = offset / plan_.axes[2].large;
                const std::array<std::int64_t, 3> at{rows / plan_.axes[1].large - hull.first[0],
                                                     rows % plan_.axes[1].large - hull.first[1],
                                                     offset % plan_.axes[2].large - hull.first[2]};
                bool inside = true;
                for (std::size_t i = 0; i < 3; ++i) inside = inside && at[i] >= 0 && at[i] < hull.extent[i];
                if (!inside) continue;
                const std::int64_t pixel = (at[0] * hull.extent[1] + at[1]) * hull.extent[2] + at[2];
                sums[pixel * plan_.sum_width + j] += gradient[w * step + j];
            }
        }
    }

    const scatter_form_plan& plan_;
    float* sums_;
};

/// Runs a plan in scatter form. All checks have passed.
template <class T>
void run_path(const scatter_form_plan& s, const T* src, const T* diff_dst, T* diff_src, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    run_gradient<scatter_form_task<T>>(s, src, diff_dst, diff_src, workspace, executor);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
