// What the paths of the gradient of a max pool share, in gather form and in scatter form.
//
// A task is a box of diff_src that is passed slice by slice. A slice is a plane of a volume, a row of a plane, or a column of a
// row. Windows pass over the slices of a box in order, and scratch buffers those that windows to come may reach. So a box may be
// as long as it likes across its slices, and what is buffered stays in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/max_pool/window_plan.hpp>
#include <gradkern/detail/max_pool/window_task.hpp>
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

/// The axis across slices: the outermost one there is.
[[nodiscard]] constexpr std::size_t slice_axis(const max_problem& p) noexcept {
    std::size_t i = 0;
    while (i < 2 && p.axes[i].large == 1 && p.axes[i].small == 1) ++i;
    return i;
}

/// Narrows panels of packed planes until a whole one fits its share of scratch. `pixels`: what a whole plane buffers.
constexpr void narrow_panel(panel_budget& panel, std::int64_t pixels) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    while (panel.width > lanes && pixels * panel.width > panel.floats) {
        panel.width = panel.width > 2 * lanes ? 2 * lanes : lanes;
        panel.floats = 4 * max_scratch;
    }
}

/// Cuts slices, never their number, until too_large(box) is false. Windows between boxes are computed for each: the axis with most
/// windows beside one another is cut.
template <class TooLarge>
[[nodiscard]] constexpr std::array<std::int64_t, 3> cut_slices(const max_problem& p,
                                                               const TooLarge& too_large) noexcept {
    std::array<std::int64_t, 3> box = p.pixels();
    const std::size_t slices = slice_axis(p);
    const auto windows = [&](std::size_t i) {
        return static_cast<double>(box[i]) / static_cast<double>(p.axes[i].reach() + 1);
    };
    while (too_large(box)) {
        const std::size_t i = slices == 0 && (box[2] == 1 || (box[1] > 1 && windows(1) >= windows(2))) ? 1 : 2;
        if (i == slices || box[i] == 1) break;
        box[i] = shape::ceil_div(box[i], 2);
    }
    return box;
}

/// Boxes of that size, with fewer slices where there are too few tasks for many threads.
[[nodiscard]] constexpr box_grid grid_of_slices(const max_problem& p, std::array<std::int64_t, 3> box,
                                                std::int64_t panels) noexcept {
    constexpr std::int64_t enough_tasks = 16;
    const std::size_t slices = slice_axis(p);
    const box_grid boxes(p.batch, p.pixels(), box);
    const std::int64_t tasks = boxes.count() * panels;
    if (tasks == 0 || tasks >= enough_tasks) return boxes;
    const std::int64_t most = box[slices] / 4 / (p.axes[slices].reach() + 1);
    const std::int64_t parts = std::min(shape::ceil_div(enough_tasks, tasks), most);
    if (parts > 1) box[slices] = shape::ceil_div(box[slices], parts);
    return box_grid(p.batch, p.pixels(), box);
}

struct gradient_plan : window_plan {
    shape::canonical_strides diff_dst{};
    shape::canonical_strides diff_src{};
    output_mode output = output_mode::overwrite;
    std::size_t slide = 0;  // the axis across slices
    std::int64_t at_sums = 0;
    std::int64_t at_gradient = 0;

    constexpr gradient_plan() noexcept = default;
    constexpr gradient_plan(const window_plan& w, const max_pool_backward_problem& p) noexcept
        : window_plan(w), diff_dst(p.diff_dst), diff_src(p.diff_src), output(p.output), slide(slice_axis(p)) {}
};

/// One task of a plan: a box of diff_src, and the windows that reach it.
class gradient_task : protected window_task {
protected:
    gradient_task(const gradient_plan& g, std::int64_t task, std::byte* slice) noexcept
        : window_task(g, task, slice), gradient_(array_at<float>(slice, g.at_gradient)), gradient_plan_(g) {
        results_.value_step = 0;  // nobody reads values
        for (std::size_t i = 0; i < 3; ++i)
            windows_[i] = read_span_inside(g.axes[i], shape::side::large, box_.first[i], box_.last[i]);
    }

    /// Element of the panel's first channel at the image's origin.
    template <class U>
    [[nodiscard]] U* panel_of(U* tensor, const shape::canonical_strides& strides) const noexcept {
        return tensor + (box_.first_image * strides[0] + first_channel_ * strides[1]);
    }

    /// Linear offsets that number the pixels of the tensor.
    [[nodiscard]] std::array<std::int64_t, 3> tensor_offsets() const noexcept {
        const std::array<shape::axis, 3>& axes = gradient_plan_.axes;
        return {axes[1].large * axes[2].large, axes[2].large, 1};
    }

    /// Computes windows of a line from the tensor, or from what is packed of it.
    template <class T>
    void find_maxima(const T* source, const staging_box& packed, const std::array<std::int64_t, 3>& offset_steps,
                     std::int64_t offset_origin, std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last,
                     const window_results& results) noexcept {
        if (gradient_plan_.access == window_access::packed) {
            const window_source<float> from{packed_ - packed.origin(), packed.strides(), 1, offset_steps,
                                            offset_origin};
            max_windows(from, d, h, first, last, results);
        } else {
            const shape::canonical_strides& src = gradient_plan_.src;
            max_windows(window_source<T>{source, src, src[1], offset_steps, offset_origin}, d, h, first, last, results);
        }
    }

    float* gradient_;
    std::array<position_range, 3> windows_{};  // those that reach the box

private:
    const gradient_plan& gradient_plan_;
};

/// Runs the tasks of a plan.
template <class Task, class Plan, class T>
void run_gradient(const Plan& g, const T* src, const T* diff_dst, T* diff_src, std::span<std::byte> workspace,
                  executor_ref executor) noexcept {
    run_tasks(executor, g.tasks(), slices(workspace, g.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) Task(g, task, slice).run(src, diff_dst, diff_src);
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
