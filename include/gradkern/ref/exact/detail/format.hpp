// Numbers of every element format as integers times powers of two, and the one rounding of all exact results. Integers alone: neither
// the rounding mode nor the treatment of subnormal numbers that a thread has set reaches them.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/half.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact::detail {

/// A format: numbers of up to `precision` bits, multiples of 2^least, below 2^(greatest + 1).
struct format {
    int precision;  ///< bits of a normal number's significand
    int least;      ///< exponent of the least subnormal number
    int greatest;   ///< exponent of the largest numbers' leading bit
};

[[nodiscard]] constexpr format format_of(data_type type) noexcept {
    switch (type) {
        case data_type::f16: return {11, -24, 15};
        case data_type::bf16: return {8, -133, 127};
        case data_type::f64: return {53, -1074, 1023};
        default: return {24, -149, 127};
    }
}
template <element T>
inline constexpr format format_for = format_of(element_traits<T>::type);

/// An integer of up to 64 bits; neither bool nor a character.
template <class T>
concept integer = std::integral<T> && sizeof(T) <= 8 && extent_value<T>;
template <class T>
concept number = element<T> || integer<T>;

/// Bits of a significand.
template <class T>
inline constexpr int precision_of = 64;
template <element T>
inline constexpr int precision_of<T> = format_for<T>.precision;

/// The unsigned integer with the bits of a T.
template <class T>
using pattern_t =
    std::conditional_t<sizeof(T) == 8, std::uint64_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

/// significand * 2^exponent, or an infinity, or a NaN.
struct parts {
    std::uint64_t significand = 0;
    int exponent = 0;
    bool is_negative = false;
    bool is_infinite = false;
    bool is_nan = false;

    [[nodiscard]] constexpr bool is_finite() const noexcept { return !is_infinite && !is_nan; }
};

template <element T>
[[nodiscard]] constexpr parts parts_of(const T& value) noexcept {
    constexpr format f = format_for<T>;
    const std::uint64_t bits = own::bit_cast<pattern_t<T>>(value);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << (f.precision - 1)) - 1);
    constexpr auto all_ones = static_cast<std::uint64_t>(f.greatest - f.least - f.precision + 3);
    const std::uint64_t biased = (bits >> (f.precision - 1)) & all_ones;
    parts p;
    p.is_negative = bits >> (sizeof(T) * 8 - 1) != 0;
    if (biased == all_ones) {
        p.is_nan = fraction != 0;
        p.is_infinite = fraction == 0;
    } else {
        p.significand = biased == 0 ? fraction : fraction | std::uint64_t{1} << (f.precision - 1);
        p.exponent = f.least + (biased == 0 ? 0 : static_cast<int>(biased) - 1);
    }
    return p;
}

template <integer T>
[[nodiscard]] constexpr parts parts_of(const T& value) noexcept {
    const auto bits = static_cast<std::uint64_t>(value);
    return {.significand = value < 0 ? 0 - bits : bits, .is_negative = value < 0};
}

/// The pattern of a T with this sign and magnitude.
template <element T>
[[nodiscard]] constexpr T from_pattern(bool is_negative, std::uint64_t magnitude) noexcept {
    const std::uint64_t sign = is_negative ? std::uint64_t{1} << (sizeof(T) * 8 - 1) : 0;
    return own::bit_cast<T>(static_cast<pattern_t<T>>(sign | magnitude));
}
template <element T>
[[nodiscard]] constexpr T zero(bool is_negative) noexcept {
    return from_pattern<T>(is_negative, 0);
}
template <element T>
inline constexpr std::uint64_t infinity_pattern =
    static_cast<std::uint64_t>(format_for<T>.greatest - format_for<T>.least - format_for<T>.precision + 3)
    << (format_for<T>.precision - 1);
template <element T>
[[nodiscard]] constexpr T infinity(bool is_negative) noexcept {
    return from_pattern<T>(is_negative, infinity_pattern<T>);
}
/// The one NaN that results have: quiet, positive, no payload.
template <element T>
[[nodiscard]] constexpr T nan() noexcept {
    return from_pattern<T>(false, infinity_pattern<T> | std::uint64_t{1} << (format_for<T>.precision - 2));
}

/// The number of T nearest to significand * 2^exponent, or, if not exact, to something above that and below (significand + 1) * 2^exponent;
/// ties to even. The leading bit of `significand` is set.
template <element T>
[[nodiscard]] constexpr T rounded(bool is_negative, std::uint64_t significand, int exponent, bool is_exact) noexcept {
    constexpr format f = format_for<T>;
    const int leading = exponent + 63;
    if (leading > f.greatest) return infinity<T>(is_negative);
    const int last = leading - f.precision + 1 > f.least ? leading - f.precision + 1 : f.least;  // of the result's bits
    const int dropped = last - exponent;                                                         // at least 11
    if (dropped > 64) return zero<T>(is_negative);
    const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
    const std::uint64_t kept = dropped == 64 ? 0 : significand >> dropped;
    const std::uint64_t rest = dropped == 64 ? significand : significand & (half | (half - 1));
    const bool up = rest > half || (rest == half && (!is_exact || kept % 2 != 0));
    // The leading bit of a normal number raises the exponent's field by one, as does a carry, up to infinity.
    return from_pattern<T>(is_negative,
                           (static_cast<std::uint64_t>(last - f.least) << (f.precision - 1)) + kept + (up ? 1 : 0));
}

/// What infinite and NaN terms make of a sum.
struct non_finite {
    bool nan = false;
    bool positive = false;  ///< +Inf
    bool negative = false;  ///< -Inf

    constexpr void add(const parts& p) noexcept {
        nan = nan || p.is_nan;
        positive = positive || (p.is_infinite && !p.is_negative);
        negative = negative || (p.is_infinite && p.is_negative);
    }
    constexpr void add(const non_finite& other) noexcept {
        nan = nan || other.nan;
        positive = positive || other.positive;
        negative = negative || other.negative;
    }
    [[nodiscard]] constexpr bool any() const noexcept { return nan || positive || negative; }
    /// The sum, if there are any.
    template <element T>
    [[nodiscard]] constexpr T value() const noexcept {
        return nan || (positive && negative) ? exact::detail::nan<T>() : infinity<T>(negative);
    }
    friend constexpr bool operator==(const non_finite&, const non_finite&) noexcept = default;
};

/// The product of numbers: NaN or infinite if it is, else any finite number.
[[nodiscard]] constexpr parts non_finite_product(const parts& a, const parts& b) noexcept {
    if (a.is_finite() && b.is_finite()) return {};
    const bool zero_times_infinity = (a.is_finite() && a.significand == 0) || (b.is_finite() && b.significand == 0);
    parts p;
    p.is_nan = a.is_nan || b.is_nan || zero_times_infinity;
    p.is_infinite = !p.is_nan;
    p.is_negative = a.is_negative != b.is_negative;
    return p;
}

/// The quotient of numbers: NaN, infinite or zero if it is, else any finite number; b is not 0.
[[nodiscard]] constexpr parts non_finite_quotient(const parts& a, const parts& b) noexcept {
    parts q;
    q.is_nan = a.is_nan || b.is_nan || (a.is_infinite && b.is_infinite);
    q.is_infinite = a.is_infinite && !q.is_nan;
    q.significand = b.is_infinite ? 0 : a.significand;
    q.is_negative = a.is_negative != b.is_negative;
    return q;
}

}  // namespace ref::exact::detail
GRADKERN_ISA_NAMESPACE_END
