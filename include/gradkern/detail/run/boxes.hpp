// Output positions cut into boxes, which tasks compute.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Output positions cut into boxes: several images, or some planes of one, or some rows of one plane, or a part of a row.
class box_grid {
public:
    /// One box.
    struct item {
        std::int64_t first_image = 0;
        std::int64_t last_image = 0;
        std::array<std::int64_t, 3> first{};
        std::array<std::int64_t, 3> last{};
    };

    constexpr box_grid() noexcept = default;
    /// The largest boxes for which fits(images, {planes, rows, columns}) holds, in about equal sizes; at least one column.
    template <class Fits>
    constexpr box_grid(std::int64_t batch, const std::array<std::int64_t, 3>& extent, const Fits& fits) noexcept
        : batch_(batch), extent_(extent), box_(extent) {
        if (batch == 0) return;
        // Cut: images where a whole one fits, else the first axis of which one entry does; those before it are single.
        const std::array<std::int64_t, 4> whole{batch, extent[0], extent[1], extent[2]};
        std::array<std::int64_t, 4> size{1, extent[0], extent[1], extent[2]};
        std::size_t cut = 0;
        while (cut < 3 && !fit(fits, size)) size[++cut] = 1;
        std::int64_t low = 1;  // the most of them; fits is monotone
        for (std::int64_t high = whole[cut]; low < high;) {
            size[cut] = low + (high - low + 1) / 2;
            if (fit(fits, size)) {
                low = size[cut];
            } else {
                high = size[cut] - 1;
            }
        }
        size[cut] = shape::even_part(whole[cut], low);
        images_ = size[0];
        box_ = {size[1], size[2], size[3]};
        count_boxes();
    }
    /// Boxes of one image, or of some whole ones, and the given extents.
    constexpr box_grid(std::int64_t batch, const std::array<std::int64_t, 3>& extent,
                       const std::array<std::int64_t, 3>& box, std::int64_t images = 1) noexcept
        : batch_(batch), images_(images), extent_(extent), box_(box) {
        if (batch > 0) count_boxes();
    }

    /// The same positions in boxes of at most so many, none larger than these along any axis; at least one column.
    [[nodiscard]] GRADKERN_COLD constexpr box_grid smaller(std::int64_t positions) const noexcept {
        return {batch_, extent_, [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
                    return images <= images_ && box[0] <= box_[0] && box[1] <= box_[1] && box[2] <= box_[2] &&
                           images * box[0] * box[1] * box[2] <= positions;
                }};
    }

    [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
    /// Positions of all boxes.
    [[nodiscard]] constexpr std::int64_t positions() const noexcept {
        return batch_ * extent_[0] * extent_[1] * extent_[2];
    }
    [[nodiscard]] constexpr std::int64_t images() const noexcept { return images_; }
    [[nodiscard]] constexpr std::int64_t box(std::size_t i) const noexcept { return box_[i]; }
    [[nodiscard]] GRADKERN_NOINLINE constexpr item operator[](std::int64_t i) const noexcept {
        item b;
        const std::int64_t column = i % columns_ * box_[2];
        const std::int64_t row = i / columns_ % rows_ * box_[1];
        const std::int64_t plane = i / (columns_ * rows_) % planes_ * box_[0];
        b.first_image = i / (columns_ * rows_ * planes_) * images_;
        b.last_image = (std::min)(batch_, b.first_image + images_);
        b.first = {plane, row, column};
        b.last = {(std::min)(extent_[0], plane + box_[0]), (std::min)(extent_[1], row + box_[1]),
                  (std::min)(extent_[2], column + box_[2])};
        return b;
    }

private:
    template <class Fits>
    [[nodiscard]] GRADKERN_COLD static constexpr bool fit(const Fits& fits,
                                                          const std::array<std::int64_t, 4>& size) noexcept {
        return fits(size[0], {size[1], size[2], size[3]});
    }
    GRADKERN_COLD constexpr void count_boxes() noexcept {
        planes_ = shape::ceil_div(extent_[0], box_[0]);
        rows_ = shape::ceil_div(extent_[1], box_[1]);
        columns_ = shape::ceil_div(extent_[2], box_[2]);
        count_ = shape::ceil_div(batch_, images_) * planes_ * rows_ * columns_;
    }

    std::int64_t batch_ = 0;
    std::int64_t images_ = 1;
    std::int64_t planes_ = 1;
    std::int64_t rows_ = 1;
    std::int64_t columns_ = 1;
    std::int64_t count_ = 0;
    std::array<std::int64_t, 3> extent_{};
    std::array<std::int64_t, 3> box_{};
};

/// Positions of the largest box.
[[nodiscard]] constexpr std::int64_t positions_of(const box_grid& b) noexcept {
    return b.images() * b.box(0) * b.box(1) * b.box(2);
}

/// Whether each worker has so many tasks that the uneven end costs little.
[[nodiscard]] constexpr bool has_many_tasks(std::int64_t tasks, std::int64_t workers) noexcept {
    return tasks >= 8 * workers;
}

/// Calls f(boxes) for these boxes cut so that each worker has about one task, two, three ..., none below `least` positions. A box is
/// `tasks` tasks.
template <class F>
GRADKERN_COLD constexpr void for_smaller_boxes(const box_grid& boxes, std::int64_t tasks, std::int64_t workers,
                                               std::int64_t least, const F& f) noexcept {
    for (std::int64_t rounds = 1; rounds <= 4; ++rounds) {
        const std::int64_t wanted = (std::max)(rounds * workers / tasks, std::int64_t{1});
        f(boxes.smaller((std::max)(boxes.positions() / wanted, least)));
    }
}

/// These boxes for so many workers, or smaller ones of `least` positions or more, where each box is some tasks: those with which the
/// slowest worker is done soonest.
[[nodiscard]] GRADKERN_NOINLINE constexpr box_grid boxes_for(const box_grid& boxes, std::int64_t tasks,
                                                             std::int64_t workers, std::int64_t least) noexcept {
    constexpr std::int64_t begin = 16;  // positions that beginning a task takes as long as
    box_grid best = boxes;
    if (workers == 1 || boxes.count() == 0 || has_many_tasks(boxes.count() * tasks, workers)) return best;
    const auto makespan = [&](const box_grid& b) {
        return (b.count() * tasks + workers - 1) / workers * (positions_of(b) + begin);
    };
    for_smaller_boxes(boxes, tasks, workers, least, [&](const box_grid& smaller) {
        if (makespan(smaller) < makespan(best)) best = smaller;
    });
    return best;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
