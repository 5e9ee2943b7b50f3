// Contiguous axes become one: when two axes may be walked as one, and a walk over strided rows that does so.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether an outer axis continues an inner one of `extent` entries `stride` elements apart, so that both are one axis of the
/// inner stride. Strides may be anything: products wrap around instead of overflowing, and no tensor is as large as that.
[[nodiscard]] constexpr bool continues(std::int64_t outer_stride, std::int64_t extent, std::int64_t stride) noexcept {
    return static_cast<std::uint64_t>(extent) * static_cast<std::uint64_t>(stride) ==
           static_cast<std::uint64_t>(outer_stride);
}

/// Whether the spatial axes of these extents are one line in memory, in row-major order, each entry s[4] elements behind the
/// one before it. An axis of one entry may have any stride.
[[nodiscard]] constexpr bool is_one_line(const shape::canonical_strides& s,
                                         const std::array<std::int64_t, 3>& extent) noexcept {
    return (extent[1] == 1 || continues(s[3], extent[2], s[4])) &&
           (extent[0] == 1 || continues(s[2], extent[1] * extent[2], s[4]));
}

/// Whether the planes of all channels and images, of `plane` neighbouring elements each, follow one another in memory.
[[nodiscard]] constexpr bool planes_are_one_line(const shape::canonical_strides& s, std::int64_t batch,
                                                 std::int64_t channels, std::int64_t plane) noexcept {
    return (channels == 1 || continues(s[1], plane, 1)) && (batch == 1 || continues(s[0], channels * plane, 1));
}

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
        // Contiguous axes become one, so that a line of the walk is as long as can be.
        for (int i = 3; i >= 0; --i) {
            rows_ *= add[i].count;
            if (add[i].count == 1 && levels_ > 0) continue;
            level& last = levels_ == 0 ? level_[0] : level_[levels_ - 1];
            if (levels_ > 0 && (last.count == 1 || (continues(add[i].in, last.count, last.in) &&
                                                    continues(add[i].out, last.count, last.out)))) {
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

protected:
    /// From the first position to number `first`, which exists.
    void start_at(std::int64_t first) noexcept {
        for (int l = 0; l < levels_; ++l) {
            at_[l] = first % level_[l].count;
            first /= level_[l].count;
            in_ += at_[l] * level_[l].in;
            out_ += at_[l] * level_[l].out;
        }
    }
    [[nodiscard]] std::int64_t in_offset() const noexcept { return in_; }

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
