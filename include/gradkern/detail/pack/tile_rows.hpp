// Walking positions: blocks of a problem, and the rows of register tiles inside one tap-set class.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

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
        const auto fit = [&] { return fits(size[0], {size[1], size[2], size[3]}); };
        std::size_t cut = 0;
        while (cut < 3 && !fit()) size[++cut] = 1;
        std::int64_t low = 1;  // the most of them; fits is monotone
        for (std::int64_t high = whole[cut]; low < high;) {
            size[cut] = low + (high - low + 1) / 2;
            if (fit()) {
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
    /// Boxes of one image and the given extents.
    constexpr box_grid(std::int64_t batch, const std::array<std::int64_t, 3>& extent,
                       const std::array<std::int64_t, 3>& box) noexcept
        : batch_(batch), extent_(extent), box_(box) {
        if (batch > 0) count_boxes();
    }

    [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
    [[nodiscard]] constexpr std::int64_t images() const noexcept { return images_; }
    [[nodiscard]] constexpr std::int64_t box(std::size_t i) const noexcept { return box_[i]; }
    [[nodiscard]] constexpr item operator[](std::int64_t i) const noexcept {
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
    constexpr void count_boxes() noexcept {
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

/// The positions of one class over a range of images, in row-major order, as offsets on the input and the output side.
class row_walk {
public:
    row_walk(std::int64_t first_image, std::int64_t last_image, const std::array<shape::tap_class, 3>& c,
             const shape::canonical_strides& in, const shape::canonical_strides& out, std::int64_t origin) noexcept {
        in_ = first_image * in[0] - origin;
        out_ = first_image * out[0];
        level add[4];
        add[0] = {last_image - first_image, in[0], out[0]};
        for (std::size_t i = 0; i < 3; ++i) {
            in_ += c[i].first_read * in[2 + i];
            out_ += c[i].first_position * out[2 + i];
            add[1 + i] = {c[i].positions, c[i].read_per_position * in[2 + i], c[i].position_step * out[2 + i]};
        }
        // Axes that continue one another become one, so that a line of the walk is as long as can be.
        for (int i = 3; i >= 0; --i) {
            rows_ *= add[i].count;
            if (add[i].count == 1 && levels_ > 0) continue;
            level& last = levels_ == 0 ? level_[0] : level_[levels_ - 1];
            if (levels_ > 0 &&
                (last.count == 1 || (add[i].in == last.count * last.in && add[i].out == last.count * last.out))) {
                last = last.count == 1 ? add[i] : level{last.count * add[i].count, last.in, last.out};
            } else {
                level_[levels_++] = add[i];
            }
        }
    }

    /// Number of positions.
    [[nodiscard]] std::ptrdiff_t rows() const noexcept { return static_cast<std::ptrdiff_t>(rows_); }

    /// The next `count` positions: offsets in the input and in the output.
    void take(std::ptrdiff_t count, std::int64_t* from, std::int64_t* to) noexcept {
        while (count > 0) {
            const std::int64_t run = std::min<std::int64_t>(count, left());
            for (std::int64_t n = 0; n < run; ++n) {
                *from++ = in_ + n * in_step();
                *to++ = out_ + n * out_step();
            }
            pass(run);
            count -= static_cast<std::ptrdiff_t>(run);
        }
    }

    /// Positions that are left of a line, and how far apart they lie.
    [[nodiscard]] std::int64_t left() const noexcept { return level_[0].count - at_[0]; }
    [[nodiscard]] std::int64_t in_step() const noexcept { return level_[0].in; }
    [[nodiscard]] std::int64_t out_step() const noexcept { return level_[0].out; }
    /// Leaves out `count` of them.
    void pass(std::int64_t count) noexcept {
        in_ += count * level_[0].in;
        out_ += count * level_[0].out;
        at_[0] += count;
        for (int l = 0; at_[l] == level_[l].count && l + 1 < levels_; ++l) {
            in_ += level_[l + 1].in - level_[l].count * level_[l].in;
            out_ += level_[l + 1].out - level_[l].count * level_[l].out;
            at_[l] = 0;
            ++at_[l + 1];
        }
    }

private:
    struct level {
        std::int64_t count = 0;
        std::int64_t in = 0;
        std::int64_t out = 0;
    };
    level level_[4];  // innermost first
    std::int64_t at_[4] = {};
    int levels_ = 0;
    std::int64_t rows_ = 1;
    std::int64_t in_ = 0;
    std::int64_t out_ = 0;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
