// The taps of lines that were collapsed: where they are, seen from each element, and where they count.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// Numbers of the room of a tap: a period, and as much more as sum_lines_inside reads with vectors of so many lanes.
[[nodiscard]] constexpr std::int64_t line_tap_numbers(std::int64_t period, std::int64_t lanes) noexcept {
    return period + 4 * lanes;
}

/// Taps, in the order of their sum, of elements that have the same ones every `period` elements.
template <class Real>
class line_taps {
public:
    line_taps() noexcept = default;
    /// `inside`: room for numbers(period) of each tap.
    line_taps(std::int64_t period, Real* inside) noexcept : period_(period), inside_(inside) {}

    [[nodiscard]] static constexpr std::int64_t numbers(std::int64_t period) noexcept {
        return line_tap_numbers(period, simd::lanes_of<Real>);
    }

    /// Adds the tap that lies `offset` elements from its output, for the outputs [begin, end) of a period.
    GRADKERN_NOINLINE void push(std::int64_t offset, std::int64_t begin, std::int64_t end) noexcept {
        offsets_[count_] = offset;
        Real* const inside = inside_of(count_++);
        own::fill(inside, inside + period_, Real{0});
        own::fill(inside + begin, inside + end, Real{1});
        for (std::int64_t done = period_; done < numbers(period_); done *= 2)
            own::copy_n(inside, std::min(done, numbers(period_) - done), inside + done);
        count_everywhere_ = count_everywhere_ && begin == 0 && end == period_;
    }

    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    /// The end of the room in use.
    [[nodiscard]] Real* end() const noexcept { return inside_of(count_); }

    /// out[x] = finish(sum of the taps of element x of `line`) for x < n.
    template <prefetch Writes, class Out, class Finish>
    GRADKERN_NOINLINE void sum(const Real* line, std::int64_t n, Out* out, const Finish& finish) const noexcept {
        std::array<const Real*, lines_at_once> lines;
        std::array<const Real*, lines_at_once> inside;
        for (std::size_t k = 0; k < count_; ++k) {
            lines[k] = line + offsets_[k];
            inside[k] = inside_of(k);
        }
        const auto taps = static_cast<std::ptrdiff_t>(count_);
        if (count_everywhere_) {
            sum_lines<false, prefetch::none, Writes>(lines.data(), taps, n, out, finish);
        } else {
            sum_lines_inside<Writes>(lines.data(), inside.data(), taps, period_, n, out, finish);
        }
    }

private:
    [[nodiscard]] Real* inside_of(std::size_t tap) const noexcept {
        return inside_ + static_cast<std::int64_t>(tap) * numbers(period_);
    }

    std::array<std::int64_t, lines_at_once> offsets_{};
    std::size_t count_ = 0;
    std::int64_t period_ = 1;
    Real* inside_ = nullptr;  // 1 where a tap counts, else 0
    bool count_everywhere_ = true;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
