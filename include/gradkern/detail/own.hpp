#ifndef GRADKERN_DETAIL_OWN_HPP
#define GRADKERN_DETAIL_OWN_HPP

/// \file
/// \brief Functions of the standard library whose bodies hold other instructions for another instruction set, as the library's own.
///
/// A body of the standard library's that is not inlined, as without optimisation, is shared by all objects of a program, and its name has
/// no room for an instruction set (detail/config.hpp). So floats are not passed through templates of the standard library, nor are loops
/// over memory or operations on bits left to them. (Comparisons of integers may be, as in std::min.)
///
/// This is also the one place for builtins of g++ and clang; each has an alternative for other compilers, which
/// GRADKERN_DETAIL_NO_BUILTINS chooses in tests.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <gradkern/detail/config.hpp>

#if (defined(__GNUC__) || defined(__clang__)) && !defined(GRADKERN_DETAIL_NO_BUILTINS)
#define GRADKERN_DETAIL_HAS_BUILTINS 1
#else
#define GRADKERN_DETAIL_HAS_BUILTINS 0
#endif
#if !GRADKERN_DETAIL_HAS_BUILTINS && (defined(_M_X64) || defined(__x86_64__))
#include <immintrin.h>
#endif

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
#if GRADKERN_DETAIL_HAS_BUILTINS
    return value == 0 ? 0U : 64U - static_cast<unsigned>(__builtin_clzll(value));
#else
    return static_cast<unsigned>(std::bit_width(value));
#endif
}

/// \brief std::countr_zero of a number that is not 0.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr int trailing_zeros(std::uint64_t value) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    return __builtin_ctzll(value);
#else
    return std::countr_zero(value);
#endif
}

/// \brief std::rotr of 64 bits by 0 to 63 places.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::uint64_t rotate_right(std::uint64_t value, int places) noexcept {
    return value >> (places & 63) | value << (-places & 63);
}

/// \brief Stores a + b, a - b or a * b, and returns whether it is not representable; what is stored then is not specified.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr bool add_overflows(std::int64_t a, std::int64_t b,
                                                                  std::int64_t& sum) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    return __builtin_add_overflow(a, b, &sum);
#else
    const bool lost = b < 0 ? a < INT64_MIN - b : a > INT64_MAX - b;
    sum = lost ? 0 : a + b;
    return lost;
#endif
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr bool subtract_overflows(std::int64_t a, std::int64_t b,
                                                                       std::int64_t& difference) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    return __builtin_sub_overflow(a, b, &difference);
#else
    const bool lost = b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b;
    difference = lost ? 0 : a - b;
    return lost;
#endif
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr bool multiply_overflows(std::int64_t a, std::int64_t b,
                                                                       std::int64_t& product) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    return __builtin_mul_overflow(a, b, &product);
#else
    // The limit of the product's sign, divided by the factor that is not 0 and not -1; -1 negates.
    bool lost = false;
    if (b == -1) {
        lost = a == INT64_MIN;
    } else if (b != 0) {
        const std::int64_t limit = (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
        lost = a < 0 ? a < limit / b : a > limit / b;
    }
    product = lost ? 0 : a * b;
    return lost;
#endif
}

/// \brief a * b modulo m, for 0 <= a, b < m.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::int64_t multiply_modulo(std::int64_t a, std::int64_t b,
                                                                      std::int64_t m) noexcept {
    if (m <= std::int64_t{1} << 31) return a * b % m;
    std::int64_t product = 0;
    for (; b > 0; b /= 2) {  // no sum exceeds m
        if (b % 2 != 0) product -= product >= m - a ? m - a : -a;
        a -= a >= m - a ? m - a : -a;
    }
    return product;
}

/// \brief Prefetches the line of the cache at `address`, which may be anywhere: to be read soon, to be read later, or to be written.
GRADKERN_ALWAYS_INLINE void prefetch(const void* address) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    __builtin_prefetch(address);
#elif defined(_M_X64) || defined(__x86_64__)
    _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
#else
    static_cast<void>(address);
#endif
}
GRADKERN_ALWAYS_INLINE void prefetch_to_l2(const void* address) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    __builtin_prefetch(address, 0, 2);
#elif defined(_M_X64) || defined(__x86_64__)
    _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T1);
#else
    static_cast<void>(address);
#endif
}
GRADKERN_ALWAYS_INLINE void prefetch_to_write(const void* address) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    __builtin_prefetch(address, 1);
#else
    prefetch(address);
#endif
}

/// \brief Some 10 to 50 ns, in which a core leaves its resources to its other hardware thread, where the CPU has such an instruction.
GRADKERN_ALWAYS_INLINE void pause() noexcept {
#if defined(__x86_64__) && GRADKERN_DETAIL_HAS_BUILTINS
    __builtin_ia32_pause();
#elif defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ __volatile__("isb");  // `yield` takes no time on most CPUs
#endif
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
#if GRADKERN_DETAIL_HAS_BUILTINS
    return __builtin_fmaf(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE double fma(double a, double b, double c) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    return __builtin_fma(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

/// \brief std::sqrt, which is correctly rounded.
[[nodiscard]] GRADKERN_ALWAYS_INLINE float sqrt(float a) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
    return __builtin_sqrtf(a);
#else
    return std::sqrt(a);
#endif
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE double sqrt(double a) noexcept {
#if GRADKERN_DETAIL_HAS_BUILTINS
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
