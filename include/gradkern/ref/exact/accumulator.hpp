// A sum without rounding: of numbers, of products of two numbers, and of other such sums.
//
// The sum is a fixed-point number that holds every bit of every product of two f64 numbers, and of 2^63 of them. So addition is
// associative and commutative: whoever adds the terms, in whatever order and in however many partial sums, the sum is the same, and so is
// the number that it is rounded to, once, at the end.
//
//     gradkern::ref::exact::accumulator first, second;   // of two workers
//     first.add_product(1e30F, 1e30F);
//     second.add_product(1e-30F, 3.0F);
//     second.add_product(-1e30F, 1e30F);
//     first += second;
//     first.rounded<float>();                            // 3e-30F
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/half.hpp>
#include <gradkern/ref/exact/detail/format.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact {
namespace detail {

// Sums are integers times 2^bottom, in digits of 32 bits. Least and greatest product of two f64: 2^-2148, below 2^2048.
inline constexpr int bottom = -2176;
inline constexpr int digit_bits = 32;
inline constexpr int most_digits = 136;

/// The magnitude of a sum: digits [low, high), of which the first and the last are not 0; none of a zero.
struct magnitude {
    bool is_negative = false;
    int low = 0;
    int high = 0;
    std::array<std::uint32_t, most_digits> digits;  // not set outside [low, high)

    constexpr magnitude() noexcept {
        if (std::is_constant_evaluated()) digits = {};
    }
    [[nodiscard]] constexpr bool is_zero() const noexcept { return low == high; }
    /// Digit i, whether it is there or not.
    [[nodiscard]] constexpr std::uint64_t digit(int i) const noexcept {
        return i >= low && i < high ? digits[static_cast<std::size_t>(i)] : 0;
    }
    /// The exponent of the leading bit.
    [[nodiscard]] constexpr int leading() const noexcept {
        return bottom + digit_bits * (high - 1) + static_cast<int>(own::bit_width(digit(high - 1))) - 1;
    }
    /// The bit of 2^exponent.
    [[nodiscard]] constexpr std::uint64_t bit(int exponent) const noexcept {
        const int place = exponent - bottom;
        return place < 0 ? 0 : digit(place / digit_bits) >> (place % digit_bits) & 1;
    }
    /// The 64 bits from 2^exponent on.
    [[nodiscard]] constexpr std::uint64_t bits_from(int exponent) const noexcept {
        const int place = exponent - bottom + 2 * digit_bits;  // two digits below 2^bottom, for small sums
        const int first = place / digit_bits - 2;
        const int shift = place % digit_bits;
        const std::uint64_t low_half = (digit(first) | digit(first + 1) << digit_bits) >> shift;
        return shift == 0 ? low_half : low_half | digit(first + 2) << (64 - shift);
    }
    /// Whether a bit below that of 2^exponent is set.
    [[nodiscard]] constexpr bool any_below(int exponent) const noexcept {
        if (is_zero()) return false;
        const int place = exponent - bottom;
        return place > low * digit_bits + own::trailing_zeros(digit(low));
    }
};

}  // namespace detail

/// An exact sum of numbers of f32, f16, bf16 and f64 and of products of two of them.
///
/// The sum of no terms is +0. An infinite term makes the sum infinite, a NaN term, terms of both infinities, and a product of zero and
/// infinity make it a NaN. It never overflows. It is a trivially copyable value of about 1 KB, with no pointers: its bytes may be sent to
/// another process of the same program. Several objects may be added to at once; one object may not.
class accumulator {
public:
    /// The sum of no terms.
    constexpr accumulator() noexcept = default;

    /// Back to the sum of no terms.
    constexpr void clear() noexcept {
        for (int i = low_; i < high_; ++i) digits_[static_cast<std::size_t>(i)] = 0;
        low_ = detail::most_digits;
        high_ = 0;
        pending_ = 0;
        special_ = {};
    }

    /// Adds a number: an element, or an integer of up to 64 bits.
    template <detail::number T>
    constexpr void add(const T& value) noexcept {
        add_parts(detail::parts_of(value));
    }

    /// Adds the product of two numbers, of any two types.
    template <detail::number A, detail::number B>
    constexpr void add_product(const A& a, const B& b) noexcept {
        const detail::parts x = detail::parts_of(a);
        const detail::parts y = detail::parts_of(b);
        if (!x.is_finite() || !y.is_finite()) {
            special_.add(detail::non_finite_product(x, y));
            return;
        }
        const bool is_negative = x.is_negative != y.is_negative;
        const int exponent = x.exponent + y.exponent;
        if constexpr (detail::precision_of<A> + detail::precision_of<B> <= 64) {
            add_magnitude(is_negative, x.significand * y.significand, exponent);
        } else {  // by halves
            constexpr std::uint64_t low = 0xffffffffU;
            add_magnitude(is_negative, (x.significand & low) * (y.significand & low), exponent);
            add_magnitude(is_negative, (x.significand >> 32) * (y.significand & low), exponent + 32);
            add_magnitude(is_negative, (x.significand & low) * (y.significand >> 32), exponent + 32);
            add_magnitude(is_negative, (x.significand >> 32) * (y.significand >> 32), exponent + 64);
        }
    }

    /// Adds another sum: the terms of both. Exact, so the order in which partial sums are added does not matter.
    constexpr accumulator& operator+=(const accumulator& other) noexcept {
        special_.add(other.special_);
        const std::uint32_t pending = other.pending_;  // `other` may be this object
        if (pending_ + pending > most_pending) settle();
        const int low = other.low_;
        const int high = other.high_;
        for (int i = low; i < high; ++i)
            digits_[static_cast<std::size_t>(i)] += other.digits_[static_cast<std::size_t>(i)];
        low_ = (std::min)(low_, low);
        high_ = (std::max)(high_, high);
        pending_ += pending;
        return *this;
    }
    /// The sum of the terms of both.
    [[nodiscard]] friend constexpr accumulator operator+(accumulator a, const accumulator& b) noexcept {
        return a += b;
    }

    /// Whether the sum is 0.
    [[nodiscard]] constexpr bool is_zero() const noexcept { return !special_.any() && magnitude().is_zero(); }

    /// The number of T nearest to the sum, ties to even: infinite from half a unit above the largest number on, and subnormal where it is
    /// that small. A sum of 0 is +0; one that is rounded to 0 keeps its sign. A NaN is positive and quiet, without payload.
    template <element T>
    [[nodiscard]] constexpr T rounded() const noexcept {
        if (special_.any()) return special_.value<T>();
        const detail::magnitude m = magnitude();
        if (m.is_zero()) return detail::zero<T>(false);
        const int exponent = m.leading() - 63;
        return detail::rounded<T>(m.is_negative, m.bits_from(exponent), exponent, !m.any_below(exponent));
    }

    /// The number of T nearest to the sum divided by `divisor`: rounded once, as `rounded` is. A sum of 0 gives +0, or -0 if the divisor is
    /// negative. As in IEEE 754, a sum over 0 is infinite with the sum's sign, and 0 over 0 is a NaN.
    template <element T>
    [[nodiscard]] constexpr T rounded_quotient(std::int64_t divisor) const noexcept {
        const bool flips = divisor < 0;
        const std::uint64_t d = flips ? 0 - static_cast<std::uint64_t>(divisor) : static_cast<std::uint64_t>(divisor);
        if (special_.any()) {
            detail::non_finite s = special_;
            if (flips) s = {.nan = s.nan, .positive = s.negative, .negative = s.positive};
            return s.value<T>();
        }
        const detail::magnitude m = magnitude();
        if (d == 0) return m.is_zero() ? detail::nan<T>() : detail::infinity<T>(m.is_negative);
        if (m.is_zero()) return detail::zero<T>(flips);
        // Long division: 64 bits at once, then bit by bit, until the quotient has 64.
        int exponent = m.leading() - 63;
        const std::uint64_t first = m.bits_from(exponent);
        std::uint64_t quotient = first / d;
        std::uint64_t rest = first % d;
        while (quotient >> 63 == 0) {
            --exponent;
            rest = 2 * rest + m.bit(exponent);  // no overflow, since d is at most 2^63
            quotient *= 2;
            if (rest >= d) {
                rest -= d;
                ++quotient;
            }
        }
        return detail::rounded<T>(m.is_negative != flips, quotient, exponent, rest == 0 && !m.any_below(exponent));
    }

    /// Whether both are the same number, or the same of +Inf, -Inf and NaN.
    [[nodiscard]] friend constexpr bool operator==(const accumulator& a, const accumulator& b) noexcept {
        if (a.special_.any() || b.special_.any()) {
            if (!a.special_.any() || !b.special_.any()) return false;
            return own::bit_cast<std::uint32_t>(a.special_.value<float>()) ==
                   own::bit_cast<std::uint32_t>(b.special_.value<float>());
        }
        const detail::magnitude x = a.magnitude();
        const detail::magnitude y = b.magnitude();
        if (x.is_zero() || y.is_zero()) return x.is_zero() && y.is_zero();
        bool same = x.is_negative == y.is_negative && x.low == y.low && x.high == y.high;
        for (int i = x.low; same && i < x.high; ++i) same = x.digit(i) == y.digit(i);
        return same;
    }

    /// \cond  for the references
    constexpr void add_parts(const detail::parts& p) noexcept {
        if (p.is_finite()) {
            add_magnitude(p.is_negative, p.significand, p.exponent);
        } else {
            special_.add(p);
        }
    }
    constexpr void add_special(const detail::non_finite& other) noexcept { special_.add(other); }
    [[nodiscard]] constexpr const detail::non_finite& special() const noexcept { return special_; }

    constexpr void add_magnitude(bool is_negative, std::uint64_t significand, int exponent) noexcept {
        if (significand == 0) return;
        if (pending_ >= most_pending) settle();
        const int place = exponent - detail::bottom;
        const int first = place / detail::digit_bits;
        const int shift = place % detail::digit_bits;
        constexpr std::uint64_t mask = 0xffffffffU;
        const std::uint64_t low = significand << shift;
        const std::uint64_t high = shift == 0 ? 0 : significand >> (64 - shift);
        const std::int64_t sign = is_negative ? -1 : 1;
        std::int64_t* const digit = digits_.data() + first;
        digit[0] += sign * static_cast<std::int64_t>(low & mask);
        digit[1] += sign * static_cast<std::int64_t>(low >> 32);
        digit[2] += sign * static_cast<std::int64_t>(high);
        low_ = (std::min)(low_, first);
        high_ = (std::max)(high_, first + 3);
        ++pending_;
    }

    [[nodiscard]] constexpr detail::magnitude magnitude() const noexcept {
        detail::magnitude m;
        std::array<std::int64_t, detail::most_digits> balanced;
        int high = low_;
        std::int64_t carry = 0;
        for (int i = low_; i < high_ || carry != 0; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const std::int64_t digit = digits_[at] + carry;
            carry = carry_of(digit);
            balanced[at] = digit - carry * radix;
            if (balanced[at] != 0) high = i + 1;
        }
        if (high == low_) return m;  // no digit, or zeros alone
        m.is_negative = balanced[static_cast<std::size_t>(high - 1)] < 0;
        m.low = m.high = high;
        std::int64_t borrow = 0;
        for (int i = low_; i < high; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const std::int64_t digit = (m.is_negative ? -balanced[at] : balanced[at]) + borrow;
            m.digits[at] = static_cast<std::uint32_t>(digit);
            borrow = digit < 0 ? -1 : 0;
            if (m.digits[at] == 0) continue;
            if (m.low == high) m.low = i;
            m.high = i + 1;
        }
        return m;
    }
    /// \endcond

private:
    static constexpr std::int64_t radix = std::int64_t{1} << 32;
    // Digits grow by less than 2^32 with each term.
    static constexpr std::uint32_t most_pending = std::uint32_t{1} << 29;

    [[nodiscard]] static constexpr std::int64_t carry_of(std::int64_t digit) noexcept {
        return (digit + radix / 2) >>
               32;  // leaves a digit in [-2^31, 2^31): a small sum has few digits, negative or not
    }
    constexpr void settle() noexcept {
        std::int64_t carry = 0;
        for (int i = low_; i < high_ || carry != 0; ++i) {
            std::int64_t& digit = digits_[static_cast<std::size_t>(i)];
            digit += carry;
            carry = carry_of(digit);
            digit -= carry * radix;
            high_ = (std::max)(high_, i + 1);
        }
        pending_ = 1;
    }

    std::array<std::int64_t, detail::most_digits> digits_{};
    int low_ = detail::most_digits;  // digits outside [low_, high_) are 0
    int high_ = 0;
    std::uint32_t pending_ = 0;  // terms since digits were settled
    detail::non_finite special_{};
};

}  // namespace ref::exact
GRADKERN_ISA_NAMESPACE_END
