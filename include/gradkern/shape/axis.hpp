// The window arithmetic of one spatial axis, for convolutions and pooling.
//
// An axis couples a large side (input of a forward convolution or pool) with a small side (its output). Tap k of
// small position o covers the large position
//
//     p(o, k) = o * stride - pad_begin + k * dilation
//
// and only taps with 0 <= p < large exist: padding is never read and never multiplied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// An arithmetic progression of taps: first, first + step, ..., `count` of them.
struct tap_sequence {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t step = 1;
    friend constexpr bool operator==(const tap_sequence&, const tap_sequence&) noexcept = default;
};

/// Which side of an axis the outputs of a gather lie on: the small side (forward) or the large side (backward data).
enum class side : std::uint8_t { small, large };

/// One spatial axis; a default constructed one is an unused axis of extent 1. All values have passed the checks of the
/// operators, so that no expression below overflows.
struct axis {
    std::int64_t large = 1;      ///< I: extent of the large side
    std::int64_t small = 1;      ///< O: extent of the small side
    std::int64_t kernel = 1;     ///< K: taps
    std::int64_t stride = 1;     ///< s
    std::int64_t dilation = 1;   ///< d, 1 means dense
    std::int64_t pad_begin = 0;  ///< pb
    std::int64_t pad_end = 0;    ///< pe, counts in average pooling's divisors only

    friend constexpr bool operator==(const axis&, const axis&) noexcept = default;

    /// p(o, k); may lie outside the large side.
    [[nodiscard]] constexpr std::int64_t position(std::int64_t o, std::int64_t k) const noexcept {
        return o * stride - pad_begin + k * dilation;
    }

    /// From the first tap of a window to its last one.
    [[nodiscard]] constexpr std::int64_t reach() const noexcept { return (kernel - 1) * dilation; }
    /// One position after the last tap of window o.
    [[nodiscard]] constexpr std::int64_t window_end(std::int64_t o) const noexcept {
        return position(o, 0) + reach() + 1;
    }

    /// Whether every window is the single position of its own number.
    [[nodiscard]] constexpr bool is_unit() const noexcept {
        return kernel == 1 && pad_begin == 0 && small == large && (stride == 1 || small == 1);
    }

    /// The stride and the dilation as steps in memory, if neighbouring positions are `memory` elements apart. 0 if no two
    /// positions at that distance lie inside, so that the step is never used.
    [[nodiscard]] constexpr std::int64_t stride_in(std::int64_t memory) const noexcept {
        return stride < large ? stride * memory : 0;
    }
    [[nodiscard]] constexpr std::int64_t dilation_in(std::int64_t memory) const noexcept {
        return dilation < large ? dilation * memory : 0;
    }

    /// Number of taps of window o with p(o, k) < limit, limit >= -pad_begin.
    [[nodiscard]] constexpr std::int64_t taps_below(std::int64_t o, std::int64_t limit) const noexcept {
        const std::int64_t rest = limit - position(o, 0);  // taps with k * dilation < rest
        return rest <= 0 ? 0 : (std::min)(kernel, ceil_div(rest, dilation));
    }

    /// The taps of window o that lie inside the large side. `first` is defined even if there are none, so that
    /// (first, count) is monotone in o.
    [[nodiscard]] constexpr tap_sequence inside_taps(std::int64_t o) const noexcept {
        const std::int64_t p = position(o, 0);
        const std::int64_t first = p >= 0 ? 0 : (std::min)(kernel, ceil_div(-p, dilation));
        return {first, std::max<std::int64_t>(0, taps_below(o, large) - first), 1};
    }

    /// The small positions o in [first, last) for which tap k lies inside the large side.
    struct position_range {
        std::int64_t first;
        std::int64_t last;
    };
    [[nodiscard]] constexpr position_range inside_positions(std::int64_t k) const noexcept {
        const std::int64_t shift = pad_begin - k * dilation;  // p = o * stride - shift
        const std::int64_t first = std::clamp<std::int64_t>(ceil_div(shift, stride), 0, small);
        return {first, std::clamp<std::int64_t>(floor_div(large - 1 + shift, stride) + 1, first, small)};
    }

    /// Makes steps that nobody takes 1: products with strides of memory stay small.
    constexpr void drop_unused_steps() noexcept {
        if (kernel == 1) dilation = 1;
        if (small == 1) stride = 1;
    }

    /// Drops taps at both ends of the kernel that lie inside for no window, as long as the rest is a valid axis: at least one
    /// tap, pad_begin >= 0. Returns the number of the first remaining tap. No window's inside taps change.
    constexpr std::int64_t drop_outside_taps() noexcept {
        const std::int64_t last = std::max<std::int64_t>(taps_below(0, large), 1);
        const std::int64_t below = ceil_div(-position(small - 1, 0), dilation);  // these end before the large side
        const std::int64_t first = std::clamp<std::int64_t>((std::min)(below, pad_begin / dilation), 0, last - 1);
        kernel = last - first;
        pad_begin -= first * dilation;
        return first;
    }

    /// The largest number of taps of a position of side `outputs`, inside or not: on the large side those of one stride phase.
    [[nodiscard]] constexpr std::int64_t taps_met(side outputs) const noexcept {
        return outputs == side::small ? kernel : ceil_div(kernel, stride / own::gcd(stride, dilation));
    }
    /// The largest number of positions of the other side that it reads.
    [[nodiscard]] constexpr std::int64_t most_reads(side outputs) const noexcept {
        return (std::min)(taps_met(outputs), outputs == side::small ? large : small);
    }
    /// From one of those to the next.
    [[nodiscard]] constexpr std::int64_t read_step(side outputs) const noexcept {
        return outputs == side::small ? dilation : dilation / own::gcd(stride, dilation);
    }

    /// Taps of window o that count in an average that includes padding: p(o, k) < large + pad_end.
    [[nodiscard]] constexpr std::int64_t padded_taps(std::int64_t o) const noexcept {
        return taps_below(o, large + pad_end);
    }
};

/// A run of output positions with the same set of inside taps. Positions, taps and the coordinates that they read on
/// the other side are arithmetic progressions, in ascending order of what is read (on the large side later taps read
/// earlier positions, so that taps descend):
///
///     output position  first_position + i * position_step         i in [0, positions)
///     tap              first_tap      + t * tap_step              t in [0, taps)
///     reads            first_read     + i * read_per_position + t * read_per_tap
///
/// Steps of a progression of one are 0.
struct tap_class {
    std::int64_t first_position = 0;
    std::int64_t position_step = 1;
    std::int64_t positions = 0;
    std::int64_t first_tap = 0;
    std::int64_t tap_step = 1;
    std::int64_t taps = 0;
    std::int64_t first_read = 0;
    std::int64_t read_per_position = 0;
    std::int64_t read_per_tap = 0;
};

/// Inverse of a modulo m for coprime a, m; m >= 1. (Extended Euclid.)
[[nodiscard]] constexpr std::int64_t inverse_modulo(std::int64_t a, std::int64_t m) noexcept {
    std::int64_t r0 = m;
    std::int64_t r1 = a % m;
    std::int64_t t0 = 0;
    std::int64_t t1 = 1;
    while (r1 > 0) {
        const std::int64_t q = r0 / r1;
        r0 = std::exchange(r1, r0 - q * r1);
        t0 = std::exchange(t1, t0 - q * t1);
    }
    return floor_mod(t0, m);
}

/// Walks the tap-set classes of the output positions [begin, end) of one axis without storage:
///
///     tap_class_walk walk(ax, side::large, 0, ax.large);
///     for (tap_class c; walk.next(c);) ...
///
/// Every position belongs to exactly one class. On the small side a class is a run of neighbours; on the large side a
/// run within one stride phase, since positions of different phases have different taps. Each class is found by binary
/// search, so its cost does not depend on the extents.
class tap_class_walk {
public:
    GRADKERN_NOINLINE constexpr tap_class_walk(const axis& a, side outputs, std::int64_t begin,
                                               std::int64_t end) noexcept
        : axis_(a), outputs_(outputs), begin_(begin), end_(end), next_(begin) {
        if (outputs_ == side::large) {
            common_ = own::gcd(a.stride, a.dilation);
            tap_step_ = a.stride / common_;
            read_step_ = a.dilation / common_;
            inverse_ = inverse_modulo(read_step_ % tap_step_, tap_step_);
            position_step_ = a.stride;
            phases_ = (std::min)(a.stride, end - begin);
        }
    }

    /// Stores the next class and returns true, or returns false at the end.
    GRADKERN_NOINLINE constexpr bool next(tap_class& c) noexcept {
        if (next_ >= end_) {
            if (++phase_ >= phases_) return false;
            next_ = begin_ + phase_;
        }
        if (next_ >= end_) return false;
        const std::int64_t here = next_;
        const tap_sequence taps = taps_of(here);
        // The last position of the run. Whole windows go on until one ends after the large side. Elsewhere taps_of is
        // evaluated in longer and longer steps, since it is monotone along a phase and runs at borders are short.
        std::int64_t low = 0;
        std::int64_t high = (end_ - 1 - here) / position_step_;
        if (outputs_ == side::small && taps.count == axis_.kernel) {
            low = high = (std::min)(high, (axis_.large - 1 - axis_.position(here, axis_.kernel - 1)) / axis_.stride);
        }
        for (std::int64_t step = 1; low < high; step *= 2) {
            const std::int64_t next = (std::min)(low + step, high);
            if (taps_of(here + next * position_step_) == taps) {
                low = next;
            } else {
                high = next - 1;
                break;
            }
        }
        while (low < high) {
            const std::int64_t mid = low + (high - low + 1) / 2;
            if (taps_of(here + mid * position_step_) == taps) {
                low = mid;
            } else {
                high = mid - 1;
            }
        }
        next_ = low == (end_ - 1 - here) / position_step_ ? end_ : here + (low + 1) * position_step_;
        c.first_position = here;
        c.position_step = position_step_;
        c.positions = low + 1;
        c.first_tap = taps.first;
        c.tap_step = taps.step;
        c.taps = taps.count;
        if (taps.count == 0) {
            c.first_read = c.read_per_position = c.read_per_tap = 0;
        } else if (outputs_ == side::small) {
            c.first_read = axis_.position(here, taps.first);
            c.read_per_position = axis_.stride;
            c.read_per_tap = axis_.dilation;
        } else {
            // a later tap reads an earlier position: begin with the last one
            c.first_tap = taps.first + (taps.count - 1) * taps.step;
            c.tap_step = -taps.step;
            c.first_read = (here + axis_.pad_begin - c.first_tap * axis_.dilation) / axis_.stride;
            c.read_per_position = 1;
            c.read_per_tap = read_step_;
        }
        // Unused steps are 0, so that products with memory strides stay small.
        if (c.positions == 1) c.position_step = c.read_per_position = 0;
        if (c.taps <= 1) c.tap_step = c.read_per_tap = 0;
        return true;
    }

    /// The taps of output position q, in ascending order.
    [[nodiscard]] constexpr tap_sequence taps_of(std::int64_t q) const noexcept {
        if (outputs_ == side::small) return axis_.inside_taps(q);
        const std::int64_t shifted = q + axis_.pad_begin;  // = o * stride + k * dilation
        if (shifted % common_ != 0) return {0, 0, tap_step_};
        // smallest k >= 0 with k * dilation = shifted modulo stride
        const std::int64_t k0 = own::multiply_modulo(shifted / common_ % tap_step_, inverse_, tap_step_);
        if (k0 >= axis_.kernel) return {0, 0, tap_step_};
        // tap k0 + j * tap_step reads o0 - j * read_step
        const std::int64_t o0 = (shifted - k0 * axis_.dilation) / axis_.stride;  // a window's reach is countable
        const std::int64_t in_kernel = (axis_.kernel - 1 - k0) / tap_step_ + 1;
        const std::int64_t first = std::clamp<std::int64_t>(ceil_div(o0 - (axis_.small - 1), read_step_), 0, in_kernel);
        const std::int64_t last = std::clamp<std::int64_t>(floor_div(o0, read_step_) + 1, first, in_kernel);
        return {k0 + first * tap_step_, last - first, tap_step_};
    }

private:
    axis axis_;
    side outputs_;
    std::int64_t begin_;
    std::int64_t end_;
    std::int64_t next_;
    std::int64_t phase_ = 0;
    std::int64_t phases_ = 1;
    std::int64_t position_step_ = 1;
    std::int64_t common_ = 1;
    std::int64_t tap_step_ = 1;
    std::int64_t read_step_ = 1;
    std::int64_t inverse_ = 0;
};

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
