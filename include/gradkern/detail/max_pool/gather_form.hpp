// The gradient of a max pool in gather form: each pixel adds the gradients of the windows whose maximum it is. Task (box of
// diff_src of one image, panel of channels) > line of windows: find maxima, keep their linear offsets > line of pixels, as soon
// as all windows that reach it are there > windows that reach a pixel, in ascending order. Lanes hold channels.
//
// Taken when channels of src and diff_dst are neighbours, few windows, without dilation, reach a pixel, and lines have many numbers.
// Zoo: 17 of 20 in NXC. Of pools drawn at random this path alone takes 1.24 (AVX-512) and 1.32 (AVX2) times as long as the faster of both
// forms, scatter_form alone 1.12 and 1.07 times (bench_rows, Emerald Rapids, g++ 12). Delete it when the latter is near 1.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/gradient.hpp>
#include <gradkern/detail/max_pool/maxima.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/micro/window_gather.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool {

/// Windows at most that may reach a pixel.
inline constexpr std::int64_t most_gathered = simd::lanes * 3 / 2;

/// Where sums are written: to diff_src, or to scratch, from which they are unpacked.
enum class gathered_sums : std::uint8_t { in_place, unpacked };

struct gather_form_plan : gradient_plan {
    gathered_sums sums = gathered_sums::unpacked;
    prefetch prefetch_next = prefetch::none;
    std::int64_t kept_slices = 1;       // of windows, whose results are kept for all pixels that they reach
    std::int64_t kept_lines = 1;        // of a slice
    std::int64_t kept_windows = 0;      // of a line
    std::int64_t gathered_columns = 0;  // of a line whose sums wait in scratch
};

/// Whether windows and gradients are read in place, and few enough, all without dilation, reach each pixel.
[[nodiscard]] constexpr bool fits_gather_form(const problem& p) noexcept {
    constexpr std::int64_t too_many = most_gathered + 1;
    std::int64_t windows = 1;
    for (const shape::axis& a : p.axes)
        windows *= a.dilation == 1 ? std::min(reads_at_most(a, shape::side::large, 1), too_many) : too_many;
    return p.scratch == scratch_use::fast && reads_in_place(p) && p.dst[1] == 1 && windows < too_many;
}

/// Whether lines have many numbers.
[[nodiscard]] constexpr bool gather_form_is_profitable(const problem& p) noexcept {
    return p.channels * p.axes[2].large >= target.pools.gathered_line;
}

/// Windows whose results are kept for a box, or for a slice of it.
[[nodiscard]] constexpr std::int64_t kept_results(const problem& p, const std::array<std::int64_t, 3>& box) noexcept {
    const std::size_t slices = slice_axis(p);
    std::int64_t windows = 1;
    for (std::size_t i = 0; i < 3; ++i)
        windows *= reads_at_most(p.axes[i], shape::side::large, i == slices && i < 2 ? 1 : box[i]);
    return windows;
}

[[nodiscard]] constexpr gather_form_plan make_gather_form(const problem& p, algorithm row) noexcept {
    panel_budget panel{widest_panel(p, window_access::in_place, target.pools.gathered_channels),
                       p.real.in_memory_of(max_scratch)};
    panel.cover(p, kept_results(p, {1, 1, 1}));
    gather_form_plan g{{p, row, panel.width}};
    std::array<std::int64_t, 3> box = cut_slices(p, panel, kept_results);
    if (g.slide == 2) {  // the results of all windows that reach a box are kept
        const std::int64_t stride = p.axes[2].stride;
        const std::int64_t windows = p.real.in_memory_of(max_results) / panel.width;
        if (box[2] / stride > windows) box[2] = windows * stride;
    }
    g.boxes = grid_of_slices(p, box, g.panels);
    if (g.tasks() == 0) return g;
    box = {g.boxes.box(0), g.boxes.box(1), g.boxes.box(2)};
    if (g.diff_src[1] == 1 && g.output == output_mode::overwrite) g.sums = gathered_sums::in_place;
    if (p.batch * p.channels * p.plane() > target.cache.tensor_in_l2 / p.real.bytes) g.prefetch_next = prefetch::ahead;
    if (g.slide < 2) g.kept_slices = reads_at_most(p.axes[g.slide], shape::side::large, 1);
    if (g.slide == 0) g.kept_lines = reads_at_most(p.axes[1], shape::side::large, box[1]);
    g.kept_windows = reads_at_most(p.axes[2], shape::side::large, box[2]);
    g.gathered_columns = std::min(box[2], p.real.in_memory_of(max_results) / panel.width);
    slice_layout slice;
    g.at_sums = slice.reserve(g.sums == gathered_sums::in_place ? 0 : g.gathered_columns * panel.width, g.real.bytes);
    finish_scratch(g, p.scratch, slice, 0, panel.width, kept_results(p, box) * panel.width);
    return g;
}

/// One task of a plan.
template <class T>
class gather_form_task : maxima_task<accumulate_t<T>> {
    using base = maxima_task<accumulate_t<T>>;
    using base::box_, base::panel_of, base::results_, base::used_, base::windows_;

public:
    gather_form_task(const gather_form_plan& g, std::int64_t task, std::byte* slice) noexcept
        : base(g, shape::side::large, task, slice), plan_(g), sums_(array_at<accumulate_t<T>>(slice, g.at_sums)) {}

    void run(const T* src, const T* diff_dst, T* diff_src) noexcept {
        src = panel_of(src, plan_.src);
        diff_dst = panel_of(diff_dst, plan_.dst);
        diff_src = panel_of(diff_src, plan_.diff_src);
        const std::size_t slide = plan_.slide;
        std::int64_t done = box_.first[slide];  // slices before this one
        const auto gather_before = [&](std::int64_t end) {
            end = std::min(end, box_.last[slide]);
            if (end <= done) return;
            box_grid::item part = box_;
            part.first[slide] = done;
            part.last[slide] = end;
            done = end;
            for (std::int64_t d = part.first[0]; d < part.last[0]; ++d)
                for (std::int64_t h = part.first[1]; h < part.last[1]; ++h) gather_line(src, diff_dst, diff_src, d, h);
        };
        const auto segment = [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
            // windows from here on reach no pixel before their own first one
            if (slide < 2) gather_before(plan_.axes[slide].position(slide == 0 ? d : h, 0));
            window_results_of<accumulate_t<T>> results = results_;
            results.offset += kept_line(d, h) + (first - windows_.first[2]) * plan_.panel_width;
            this->find_maxima(window_source<T>{src, plan_.src, plan_.plane_offsets()}, d, h, first, last, results);
        };
        this->template for_each_segment<walked_windows::all>(segment);
        gather_before(box_.last[slide]);
    }

private:
    /// Gathers for the pixels of the box in line (d, h).
    void gather_line(const T* source, const T* gradients, T* to, std::int64_t d, std::int64_t h) noexcept {
        const shape::canonical_strides& x = plan_.diff_src;
        const std::int64_t first = box_.first[2];
        const std::int64_t last = box_.last[2];
        to += d * x[2] + h * x[3];
        if (plan_.sums == gathered_sums::in_place)
            return gather_columns(gradients, d, h, first, last, to + first * x[4], x[4], next_slice(source, d, h));
        for (std::int64_t begin = first; begin < last; begin += plan_.gathered_columns) {
            const std::int64_t end = std::min(last, begin + plan_.gathered_columns);
            gather_columns(gradients, d, h, begin, end, sums_, plan_.panel_width, {});
            unpack_lanes(sums_, plan_.panel_width, used_, end - begin, to + begin * x[4], x[1], x[4],
                         plan_.output == output_mode::accumulate);
        }
    }

    /// Gathers for the columns [begin, end) of line (d, h).
    template <class O>
    void gather_columns(const T* gradients, std::int64_t d, std::int64_t h, std::int64_t begin, std::int64_t end,
                        O* out, std::int64_t out_step, const gather_prefetch<T>& ahead) noexcept {
        const position_range planes = read_span_inside(plan_.axes[0], shape::side::large, d, d + 1);
        const position_range rows = read_span_inside(plan_.axes[1], shape::side::large, h, h + 1);
        const std::array<std::int64_t, 3> offsets = plan_.plane_offsets();
        const shape::canonical_strides& y = plan_.dst;
        std::array<window_line<T>, most_gathered> lines;
        std::size_t count = 0;
        for (std::int64_t p = planes.first; p < planes.last && windows_.first[2] < windows_.last[2]; ++p)
            for (std::int64_t r = rows.first; r < rows.last; ++r)
                lines[count++] = {results_.offset + kept_line(p, r),
                                  gradients + (p * y[2] + r * y[3] + windows_.first[2] * y[4])};
        gather_gradients<T>({lines.data(), count}, {plan_.panel_width, y[4], out_step}, plan_.axes[2],
                            windows_.first[2], begin, end, d * offsets[0] + h * offsets[1] + begin, used_, out, ahead);
    }

    /// What the next slice of windows, or the next box, is the first to read.
    [[nodiscard]] gather_prefetch<T> next_slice(const T* source, std::int64_t d, std::int64_t h) const noexcept {
        const std::size_t slide = plan_.slide;
        const std::int64_t columns = box_.last[2] - box_.first[2];
        std::array<std::int64_t, 3> at{d, h, box_.first[2]};
        at[slide] += slide < 2 ? plan_.axes[slide].kernel : columns;
        if (plan_.prefetch_next == prefetch::none || columns <= 1 || at[slide] >= plan_.axes[slide].large) return {};
        return {source, at[0] * plan_.src[2] + at[1] * plan_.src[3] + at[2] * plan_.src[4], plan_.src[4]};
    }

    /// Offset of the results of a line of windows in what is kept of them: a ring of slices.
    [[nodiscard]] std::int64_t kept_line(std::int64_t d, std::int64_t h) const noexcept {
        const std::int64_t line = plan_.slide == 0 ? d % plan_.kept_slices * plan_.kept_lines + (h - windows_.first[1])
                                  : plan_.slide == 1 ? h % plan_.kept_slices
                                                     : 0;
        return line * plan_.kept_windows * plan_.panel_width;
    }

    const gather_form_plan& plan_;
    accumulate_t<T>* sums_;
};

/// Runs a plan in gather form. All checks have passed.
template <class T>
void run_path(const gather_form_plan& g, const T* src, const T* diff_dst, T* diff_src, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    run_plan<gather_form_task<T>>(g, workspace, executor, src, diff_dst, diff_src);
}

}  // namespace detail::max_pool
GRADKERN_ISA_NAMESPACE_END
