// Integer arithmetic of shapes: overflow-checked values, floor and ceiling division.
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// A signed 64-bit integer that remembers whether any operation that led to it overflowed.
///
/// Every member is inlined and operands are passed by reference. Otherwise g++ 12 -Os drops stores to an object: those whose address
/// goes to one function that is not inlined, and whose value goes from there to a second one with two structure parameters.
class checked {
public:
    // NOLINTNEXTLINE(google-explicit-constructor): plain integers take part in checked expressions
    GRADKERN_ALWAYS_INLINE constexpr checked(std::int64_t v) noexcept : value_(v) {}

    /// False once an operation overflowed.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr bool ok() const noexcept { return ok_; }
    /// The value; unspecified where !ok().
    [[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::int64_t value() const noexcept { return value_; }

    friend GRADKERN_ALWAYS_INLINE constexpr checked operator+(const checked& a, const checked& b) noexcept {
        std::int64_t v = 0;
        const bool lost = own::add_overflows(a.value_, b.value_, v);
        return {v, a.ok_ && b.ok_ && !lost};
    }
    friend GRADKERN_ALWAYS_INLINE constexpr checked operator-(const checked& a, const checked& b) noexcept {
        std::int64_t v = 0;
        const bool lost = own::subtract_overflows(a.value_, b.value_, v);
        return {v, a.ok_ && b.ok_ && !lost};
    }
    friend GRADKERN_ALWAYS_INLINE constexpr checked operator*(const checked& a, const checked& b) noexcept {
        std::int64_t v = 0;
        const bool lost = own::multiply_overflows(a.value_, b.value_, v);
        return {v, a.ok_ && b.ok_ && !lost};
    }
    GRADKERN_ALWAYS_INLINE constexpr checked& operator*=(const checked& b) noexcept { return *this = *this * b; }
    GRADKERN_ALWAYS_INLINE constexpr checked& operator+=(const checked& b) noexcept { return *this = *this + b; }

private:
    GRADKERN_ALWAYS_INLINE constexpr checked(std::int64_t v, bool ok) noexcept : value_(v), ok_(ok) {}
    std::int64_t value_ = 0;
    bool ok_ = true;
};

/// floor(a / b) for b > 0.
[[nodiscard]] constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept {
    const std::int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}
/// ceil(a / b) for b > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
    const std::int64_t q = a / b;
    return a % b > 0 ? q + 1 : q;
}
/// The size of equal parts of `total` > 0: as few parts as possible of at most `most` > 0.
[[nodiscard]] constexpr std::int64_t even_part(std::int64_t total, std::int64_t most) noexcept {
    return ceil_div(total, ceil_div(total, most));
}
/// a modulo b in [0, b) for b > 0.
[[nodiscard]] constexpr std::int64_t floor_mod(std::int64_t a, std::int64_t b) noexcept {
    const std::int64_t m = a % b;
    return m < 0 ? m + b : m;
}

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
