// What plans and tasks of the gradient of a max pool share, in gather form and in scatter form.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/max_pool/slices.hpp>
#include <gradkern/detail/max_pool/window_plan.hpp>
#include <gradkern/detail/max_pool/window_task.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

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
