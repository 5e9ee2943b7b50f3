// What sums alone do not compute: sums of quotients of different divisors, and roots. Both exact until they are rounded once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/detail/format.hpp>
#include <gradkern/ref/exact/detail/natural.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact::detail {

/// The digits of a magnitude, which is not 0; the exponent of the least one is `exponent_of`.
[[nodiscard]] inline natural natural_of(const magnitude& m) {
    return {m.digits.data() + m.low, static_cast<std::uint32_t>(m.high - m.low)};
}
[[nodiscard]] constexpr std::int64_t exponent_of(const magnitude& m) noexcept { return bottom + digit_bits * m.low; }

/// A sum of quotients as one fraction: (positive - negative) / divisor * 2^exponent.
class quotient_sum {
public:
    /// Adds dividend / (divisor * 2^scale), divisor > 0.
    void add(const accumulator& dividend, bool is_negated, std::uint64_t divisor, std::int64_t scale = 0) {
        non_finite special = dividend.special();
        if (is_negated) std::swap(special.positive, special.negative);
        special_.add(special);
        const magnitude m = dividend.magnitude();
        if (m.is_zero()) return;
        natural term = natural_of(m);
        const std::int64_t exponent = exponent_of(m) - scale;
        if (positive_.is_zero() && negative_.is_zero()) exponent_ = exponent;
        if (exponent < exponent_) {
            positive_.shift_left(exponent_ - exponent);
            negative_.shift_left(exponent_ - exponent);
            exponent_ = exponent;
        } else {
            term.shift_left(exponent - exponent_);
        }
        term = term * divisor_;
        if (divisor != 1) {
            const natural d(divisor);
            positive_ = positive_ * d;
            negative_ = negative_ * d;
            divisor_ = divisor_ * d;
        }
        (m.is_negative != is_negated ? negative_ : positive_).add(term);
    }
    /// Adds dividend / divisor; divisor is not 0.
    void add(const accumulator& dividend, std::int64_t divisor) {
        const auto bits = static_cast<std::uint64_t>(divisor);
        add(dividend, divisor < 0, divisor < 0 ? 0 - bits : bits);
    }
    /// Adds an infinity or a NaN.
    void add_special(const parts& p) noexcept { special_.add(p); }

    /// The number of T nearest to the sum, ties to even; a sum of 0 is +0.
    template <element T>
    [[nodiscard]] T rounded() {
        if (special_.any()) return special_.value<T>();
        const int order = positive_.compare(negative_);
        if (order == 0) return zero<T>(false);
        natural rest = order > 0 ? std::move(positive_) : std::move(negative_);
        rest.subtract(order > 0 ? negative_ : positive_);
        // Long division of rest by divisor * 2^shift, where the quotient is in (1/2, 2), for 65 bits: the first or second is set.
        const std::int64_t shift = rest.bit_width() - divisor_.bit_width();
        natural divisor = std::move(divisor_);
        if (shift > 0) divisor.shift_left(shift);
        if (shift < 0) rest.shift_left(-shift);
        std::uint64_t quotient = 0;
        std::int64_t exponent = exponent_ + shift + 1;
        while (quotient >> 63 == 0) {
            --exponent;
            quotient *= 2;
            if (rest.compare(divisor) >= 0) {
                rest.subtract(divisor);
                ++quotient;
            }
            rest.shift_left(1);
        }
        // What lies outside these limits is infinite or 0 in every format.
        const auto limited = static_cast<int>(std::clamp<std::int64_t>(exponent, -10000, 10000));
        return exact::detail::rounded<T>(order < 0, quotient, limited, rest.is_zero());
    }

private:
    natural positive_;
    natural negative_;
    natural divisor_{1};
    std::int64_t exponent_ = 0;
    non_finite special_{};
};

/// Twice the largest integer whose square is at most `n`; `is_exact` tells whether its square is that.
[[nodiscard]] inline natural twice_root_of(const natural& n, bool& is_exact) {
    natural twice;
    natural rest;
    for (std::int64_t place = (n.bit_width() + 1) / 2 * 2 - 2; place >= 0; place -= 2) {
        rest.append(n.bit(place + 1));
        rest.append(n.bit(place));
        twice.append(1);  // 4 * root + 1: what the square grows by if the next bit of the root is 1
        const bool fits = rest.compare(twice) >= 0;
        if (fits) rest.subtract(twice);
        twice.invert_last(fits ? 3 : 1);  // 2 * (2 * root + 1), or 2 * (2 * root)
    }
    is_exact = rest.is_zero();
    return twice;
}

/// Adds the root of a sum, which is not negative, to `to`; of a root that is not a multiple of 2^least, what lies between two such
/// multiples instead.
inline void add_root(const accumulator& sum, int least, accumulator& to) {
    if (sum.special().any()) {  // no term is -Inf
        to.add_special(sum.special());
        return;
    }
    const magnitude m = sum.magnitude();
    if (m.is_zero()) return;
    natural n = natural_of(m);
    const std::int64_t exponent = exponent_of(m);  // even
    bool is_exact = true;
    if (exponent >= 2 * std::int64_t{least}) {
        n.shift_left(exponent - 2 * std::int64_t{least});
    } else {
        natural shorter;
        const std::int64_t dropped = 2 * std::int64_t{least} - exponent;
        for (std::int64_t place = n.bit_width() - 1; place >= dropped; --place) shorter.append(n.bit(place));
        for (std::int64_t place = 0; is_exact && place < dropped; ++place) is_exact = n.bit(place) == 0;
        n = std::move(shorter);
    }
    bool is_square = true;
    const natural twice = twice_root_of(n, is_square);
    for (std::size_t i = 0; i < twice.size(); ++i)
        to.add_magnitude(false, twice.digit(i), least - 1 + digit_bits * static_cast<int>(i));
    if (!is_exact || !is_square) to.add_magnitude(false, 1, least - 1);
}

}  // namespace ref::exact::detail
GRADKERN_ISA_NAMESPACE_END
