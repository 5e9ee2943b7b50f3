// The average engine where planes are small, and windows move by one position: all planes of a block as one line.
//
// Planes of H x W follow one another in both memories, and outputs have as many lines and columns as inputs. So what is s
// lines, or columns, from output i is element i + s * W, or i + s, of the block, but near the ends of a plane, or a line,
// which would read the one before or behind: there taps do not count. Steps, each of the whole block:
//
//     1. forward the elements as f32, backward their quotients
//     2. vertical sums, of each tap where it is inside
//     3. horizontal sums of these, finished
//
// The order of every sum is that of average.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One lane's work on one block of a plan that joins planes; T is the element type of both tensors.
template <class T>
class average_joined_planes {
public:
    average_joined_planes(const average_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : p_(plan),
          in_(in),
          out_(out),
          columns_(plan.out_extent(2)),
          plane_(plan.out_extent(1) * columns_),
          source_(array_at<float>(slice, plan.at_ring) + plan.margin),
          vertical_(array_at<float>(slice, plan.at_vertical) + plan.margin),
          divisors_(array_at<float>(slice, plan.at_divisors)),
          rows_(taps_of(1, columns_, plane_, array_at<float>(slice, plan.at_inside))),
          line_(taps_of(2, 1, columns_, rows_.inside + rows_.count * rows_.pitch())) {
        if (!plan.uniform) set_divisors();
    }

    /// Computes block number `task`.
    void run(std::int64_t task) noexcept {
        const std::int64_t first = task * p_.group * plane_;
        const std::int64_t n = std::min(p_.items() * plane_ - first, p_.group * plane_);
        if (!p_.backward) {
            simd::widen(in_ + first, source_, n);
        } else if (p_.uniform) {
            divide_by_one<addend::zero>(in_ + first, n, divisor(p_.uniform_divisor), source_);
        } else {
            divide_by_each<addend::zero>(in_ + first, n, divisors_, source_);
        }
        const float* sums = source_;
        if (rows_.count > 1) {
            sum_taps<ahead::leave>(rows_, source_, n, vertical_, as_it_is{});
            sums = vertical_;
        }
        T* const out = out_ + first;
        if (p_.backward) {
            sum_taps<ahead::ask>(line_, sums, n, out, as_it_is{});
        } else if (p_.uniform) {
            with_division(divisor(p_.uniform_divisor),
                          [&](const auto& divide) { sum_taps<ahead::ask>(line_, sums, n, out, divide); });
        } else {
            sum_taps<ahead::ask>(line_, sums, n, out,
                                 [d = divisors_](std::ptrdiff_t x, simd::vec sum)
                                     GRADKERN_INLINE_LAMBDA { return simd::div(sum, simd::load(d + x)); });
        }
    }

private:
    /// The taps of one axis, in the order of its sums: `step` elements from one to the next, the first one `first` elements
    /// from its output. inside[tap * pitch() + x % period] is 1 where a tap of output x is inside, else 0.
    struct axis_taps {
        float* inside;
        std::int64_t count;
        std::int64_t first;
        std::int64_t step;
        std::int64_t period;

        [[nodiscard]] std::int64_t pitch() const noexcept { return period + 4 * std::int64_t{simd::lanes}; }
    };

    /// Those of axis number i, whose positions are `unit` elements each and repeat every `period` elements.
    [[nodiscard]] axis_taps taps_of(std::size_t i, std::int64_t unit, std::int64_t period,
                                    float* inside) const noexcept {
        const shape::axis& a = p_.axes[i];
        const std::int64_t first = read_span(a, p_.outputs(), 0, 1).first;
        const axis_taps taps{inside, a.kernel, first * unit, p_.read_step(i) * unit, period};
        for (std::int64_t k = 0; k < taps.count; ++k, inside += taps.pitch()) {
            const std::int64_t shift = taps.first + k * taps.step;
            const std::int64_t begin = std::clamp<std::int64_t>(-shift, 0, period);
            const std::int64_t end = std::clamp<std::int64_t>(period - shift, begin, period);
            own::fill(inside, inside + begin, 0.0F);
            own::fill(inside + begin, inside + end, 1.0F);
            own::fill(inside + end, inside + period, 0.0F);
            repeat(inside, period, taps.pitch());
        }
        return taps;
    }

    /// out = finish(sums of the taps of elements [0, n) of `line`).
    template <ahead Writes, class Out, class Finish>
    GRADKERN_NOINLINE static void sum_taps(const axis_taps& taps, const float* line, std::int64_t n, Out* out,
                                           const Finish& finish) noexcept {
        std::array<const float*, static_cast<std::size_t>(lines_at_once)> lines;
        std::array<const float*, static_cast<std::size_t>(lines_at_once)> inside;
        for (std::int64_t k = 0; k < taps.count; ++k) {
            lines[static_cast<std::size_t>(k)] = line + taps.first + k * taps.step;
            inside[static_cast<std::size_t>(k)] = taps.inside + k * taps.pitch();
        }
        sum_lines_inside<Writes>(lines.data(), inside.data(), taps.count, taps.period, n, out, finish);
    }

    /// The divisors of a plane, and of as many as a block has.
    void set_divisors() noexcept {
        float* to = divisors_;
        for (std::int64_t h = 0; h < p_.axes[1].small; ++h) {
            const std::int64_t taps = p_.divisor_override ? 1 : p_.counted(0, 0) * p_.counted(1, h);
            for (std::int64_t x = 0; x < columns_; ++x) *to++ = average_plan::divisor_of(taps * p_.counted_columns(x));
        }
        repeat(divisors_, plane_, p_.group * plane_ + std::int64_t{simd::lanes});
    }

    /// Lets a line of n floats go on as it begins, with `period` of them.
    static void repeat(float* line, std::int64_t period, std::int64_t n) noexcept {
        for (std::int64_t done = period; done < n; done *= 2) own::copy_n(line, std::min(done, n - done), line + done);
    }

    const average_plan& p_;
    const T* in_;
    T* out_;
    std::int64_t columns_;
    std::int64_t plane_;  // elements
    float* source_;
    float* vertical_;
    float* divisors_;
    axis_taps rows_;
    axis_taps line_;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
