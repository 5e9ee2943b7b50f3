#ifndef GRADKERN_DETAIL_OWN_HPP
#define GRADKERN_DETAIL_OWN_HPP

/// \file
/// \brief Functions of the standard library whose bodies hold other instructions for another instruction set, as the library's own.
///
/// A body of the standard library's that is not inlined, as without optimisation, is shared by all objects of a program, and its name has
/// no room for an instruction set (detail/config.hpp). So floats are not passed through templates of the standard library, nor are loops
/// over memory or operations on bits left to them. (Comparisons of integers may be, as in std::min.)

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <gradkern/detail/config.hpp>

GRADKERN_NAMESPACE_BEGIN
namespace own {

/// \brief std::bit_cast.
template <class To, class From>
requires(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>)
    [[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr To bit_cast(const From& from) noexcept {
    return __builtin_bit_cast(To, from);
}

/// \brief std::bit_width: the number of bits without leading zeros.
template <class Unsigned>
requires(std::is_unsigned_v<Unsigned>) [[nodiscard]] GRADKERN_ALWAYS_INLINE
    constexpr unsigned bit_width(Unsigned value) noexcept {
#if defined(__GNUC__)
    return value == 0 ? 0U : 64U - static_cast<unsigned>(__builtin_clzll(value));
#else
    return static_cast<unsigned>(std::bit_width(value));
#endif
}

/// \brief std::countr_zero of a number that is not 0.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr int trailing_zeros(std::uint64_t value) noexcept {
#if defined(__GNUC__)
    return __builtin_ctzll(value);
#else
    return std::countr_zero(value);
#endif
}

/// \brief std::rotr of 64 bits by 0 to 63 places.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::uint64_t rotate_right(std::uint64_t value, int places) noexcept {
    return value >> (places & 63) | value << (-places & 63);
}

/// \brief std::gcd of numbers that are not negative.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::int64_t gcd(std::int64_t a, std::int64_t b) noexcept {
    while (b != 0) {
        const std::int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/// \brief std::fma.
[[nodiscard]] GRADKERN_ALWAYS_INLINE float fma(float a, float b, float c) noexcept {
#if defined(__GNUC__)
    return __builtin_fmaf(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

/// \brief std::sqrt, which is correctly rounded.
[[nodiscard]] GRADKERN_ALWAYS_INLINE float sqrt(float a) noexcept {
#if defined(__GNUC__)
    return __builtin_sqrtf(a);
#else
    return std::sqrt(a);
#endif
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE double sqrt(double a) noexcept {
#if defined(__GNUC__)
    return __builtin_sqrt(a);
#else
    return std::sqrt(a);
#endif
}

/// \brief std::fill_n.
template <class T>
GRADKERN_ALWAYS_INLINE void fill_n(T* to, std::ptrdiff_t count, const std::type_identity_t<T>& value) noexcept {
    const T v = value;
    for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = v;
}

/// \brief std::fill.
template <class T>
GRADKERN_ALWAYS_INLINE void fill(T* first, T* last, const std::type_identity_t<T>& value) noexcept {
    fill_n(first, last - first, value);
}

/// \brief std::copy_n; the ranges may overlap.
template <class T>
requires(std::is_trivially_copyable_v<T>) GRADKERN_ALWAYS_INLINE
    void copy_n(const T* from, std::ptrdiff_t count, T* to) noexcept {
    if (count > 0) std::memmove(static_cast<void*>(to), from, static_cast<std::size_t>(count) * sizeof(T));
}

/// \brief Infinity of float or double.
template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// \brief A quiet NaN of float or double.
template <class T>
inline constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();

}  // namespace own
GRADKERN_NAMESPACE_END

#endif  // GRADKERN_DETAIL_OWN_HPP
