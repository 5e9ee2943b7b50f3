// The divisors of a segment: one for all windows (`uniform`), or one for each column, made anew for lines whose windows count
// other rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

template <class Real>
class segment_divisors {
public:
    segment_divisors(const segment_plan& plan, std::byte* slice) noexcept
        : rule_(plan.divisors),
          divisors_(array_at<Real>(slice, plan.at_divisors)),
          counts_(array_at<std::int64_t>(slice, plan.at_counts)),
          uniform_(static_cast<Real>(plan.divisors.uniform)) {}

    [[nodiscard]] bool is_uniform() const noexcept { return rule_.is_uniform(); }

    /// Counts the taps of the windows in these columns.
    void count(const input_columns& c) noexcept {
        if (is_uniform()) return;
        for (std::int64_t x = 0; x < c.count; ++x) counts_[x] = rule_.counted_columns(c.first + x * c.step);
        columns_ = c.count;
        rows_ = -1;
    }

    /// Makes the divisors of the counted columns for windows at depth d and row h.
    void set_line(std::int64_t d, std::int64_t h) noexcept {
        if (!is_uniform()) make_line(d, h);
    }

    /// Calls f(begin, end, divide) for neighbouring columns before `end` that have the same; divide(v): the quotients of a vector
    /// by it.
    template <class F>
    void for_each_equal(std::int64_t end, const F& f) const noexcept {
        if (is_uniform()) return with_division(uniform_, [&](const auto& divide) { f(0, end, divide); });
        for (std::int64_t x = 0, next = 0; x < end; x = next) {
            while (next < end && divisors_[next] == divisors_[x]) ++next;
            with_division(divisor<Real>(divisors_[x]), [&](const auto& divide) { f(x, next, divide); });
        }
    }

    /// out = onto + the quotients of `count` columns of `inner` values each, `step` elements apart from column to column.
    template <addend Onto, class In>
    void divide(const In* source, std::int64_t count, std::int64_t inner, std::int64_t step, Real* out) const noexcept {
        if (!is_uniform() && inner == 1 && step == 1)
            return quotients<Onto>(source, count, out, over_each<Real>{divisors_});
        for_each_equal(count, [&](std::int64_t begin, std::int64_t end, const auto& divide) {
            const std::int64_t columns = step == inner ? end - begin : 1;  // at a time
            for (std::int64_t x = begin; x < end; x += columns)
                quotients<Onto>(source + x * step, columns * inner, out + x * inner, divide);
        });
    }

private:
    GRADKERN_NOINLINE void make_line(std::int64_t d, std::int64_t h) noexcept {
        if (d != depth_) depth_taps_ = rule_.counted(0, depth_ = d);
        const std::int64_t rows = rule_.counted_rows(depth_taps_, h);
        if (rows == rows_) return;
        rows_ = rows;
        for (std::int64_t x = 0; x < columns_; ++x)
            divisors_[x] = static_cast<Real>(divisor_rule::of_count(rows * counts_[x]));
        own::fill(divisors_ + columns_, divisors_ + columns_ + simd::lanes_of<Real>, Real{1});
    }

    const divisor_rule& rule_;
    Real* divisors_;
    std::int64_t* counts_;  // taps along the columns
    divisor<Real> uniform_;
    std::int64_t columns_ = 0;
    std::int64_t depth_ = -1;
    std::int64_t depth_taps_ = 0;
    std::int64_t rows_ = -1;  // taps along depth and height that the divisors count
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
