// Integer arithmetic of shapes: overflow-checked values, floor and ceiling division.
#pragma once

#include <concepts>
#include <cstdint>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// A signed 64-bit integer that remembers whether any operation that led to it overflowed.
class checked {
public:
    // NOLINTNEXTLINE(google-explicit-constructor): plain integers take part in checked expressions
    constexpr checked(std::int64_t v) noexcept : value_(v) {}

    /// False once an operation overflowed.
    [[nodiscard]] constexpr bool ok() const noexcept { return ok_; }
    /// The value; unspecified where !ok().
    [[nodiscard]] constexpr std::int64_t value() const noexcept { return value_; }

    friend constexpr checked operator+(checked a, checked b) noexcept {
        std::int64_t v = 0;
        const bool lost = __builtin_add_overflow(a.value_, b.value_, &v);
        return {v, a.ok_ && b.ok_ && !lost};
    }
    friend constexpr checked operator-(checked a, checked b) noexcept {
        std::int64_t v = 0;
        const bool lost = __builtin_sub_overflow(a.value_, b.value_, &v);
        return {v, a.ok_ && b.ok_ && !lost};
    }
    friend constexpr checked operator*(checked a, checked b) noexcept {
        std::int64_t v = 0;
        const bool lost = __builtin_mul_overflow(a.value_, b.value_, &v);
        return {v, a.ok_ && b.ok_ && !lost};
    }
    constexpr checked& operator*=(checked b) noexcept { return *this = *this * b; }
    constexpr checked& operator+=(checked b) noexcept { return *this = *this + b; }

private:
    constexpr checked(std::int64_t v, bool ok) noexcept : value_(v), ok_(ok) {}
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
/// The size of equal parts of `total`, as few as parts of at most `most` > 0 can be; total > 0.
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
