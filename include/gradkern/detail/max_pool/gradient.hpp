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

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/maxima.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool {

/// The axis across slices: the outermost one there is.
[[nodiscard]] constexpr std::size_t slice_axis(const tensors& p) noexcept {
    std::size_t i = 0;
    while (i < 2 && p.axes[i].large == 1 && p.axes[i].small == 1) ++i;
    return i;
}

/// Cuts slices, never their number, until a panel holds the pixels(p, box) that a box buffers. Windows between boxes are computed
/// for each: the axis with most windows beside one another is cut.
template <class Pixels>
[[nodiscard]] constexpr std::array<std::int64_t, 3> cut_slices(const problem& p, const panel_budget& panel,
                                                               const Pixels& pixels) noexcept {
    std::array<std::int64_t, 3> box = p.pixels();
    const std::size_t slices = slice_axis(p);
    const auto windows = [&](std::size_t i) {
        return static_cast<double>(box[i]) / static_cast<double>(p.axes[i].reach() + 1);
    };
    while (!panel.holds(pixels(p, box))) {
        const std::size_t i = slices == 0 && (box[2] == 1 || (box[1] > 1 && windows(1) >= windows(2))) ? 1 : 2;
        if (i == slices || box[i] == 1) break;
        box[i] = shape::ceil_div(box[i], 2);
    }
    return box;
}

/// Boxes of that size, with fewer slices where there are too few tasks for many threads.
[[nodiscard]] constexpr box_grid grid_of_slices(const problem& p, std::array<std::int64_t, 3> box,
                                                std::int64_t panels) noexcept {
    constexpr std::int64_t enough_tasks = 16;
    const std::size_t slices = slice_axis(p);
    const std::int64_t tasks = box_grid(p.batch, p.pixels(), box).count() * panels;
    const std::int64_t most = box[slices] / 4 / (p.axes[slices].reach() + 1);
    const std::int64_t parts = tasks == 0 ? 1 : std::min(shape::ceil_div(enough_tasks, tasks), most);
    if (parts > 1) box[slices] = shape::ceil_div(box[slices], parts);
    return box_grid(p.batch, p.pixels(), box);
}

struct gradient_plan : maxima_plan {
    using maxima_plan::maxima_plan;

    std::size_t slide = slice_axis(*this);  // the axis across slices
    std::int64_t at_sums = 0;
};

}  // namespace detail::max_pool
GRADKERN_ISA_NAMESPACE_END
