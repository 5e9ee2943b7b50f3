// Quotients of lines: by one divisor, or by one for each element. Lines are f32 scratch or tensor memory; nothing outside the
// n elements named is read or written.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A divisor of many neighbours of a line, a whole number. Dividing by a power of two is the same as multiplying
/// by its reciprocal, bit for bit, as both round the same number once.
struct divisor {
    float value = 1.0F;       ///< not 0
    float reciprocal = 1.0F;  ///< a NaN where it is of no use
    bool is_power_of_two = true;

    constexpr divisor() noexcept = default;
    explicit constexpr divisor(float d) noexcept : value(d) {
        const auto word = own::bit_cast<std::uint32_t>(d);
        const std::uint32_t exponent = (word >> 23) & 0xffU;
        is_power_of_two = (word & 0x7fffffU) == 0 && exponent >= 1 && exponent <= 253;  // the reciprocal is normal
        const bool is_small = d >= 1.0F && d < 0x1p20F;                                 // as simd::div_whole asks for
        reciprocal = is_power_of_two || is_small ? 1.0F / d : own::quiet_nan<float>;
    }
};

/// What quotients are added to.
enum class addend : std::uint8_t {
    none,   ///< they are the result
    zero,   ///< +0, the beginning of every sum
    output  ///< what the output holds
};

/// out[x] = onto + source[x] / divisor for x < n; divide(x, v) gives the quotients of the vector at x.
template <addend Onto, simd::float_element In, class Divide>
GRADKERN_ALWAYS_INLINE void quotients(const In* source, std::ptrdiff_t n, float* out, const Divide& divide) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    const auto put = [&](std::ptrdiff_t x, std::ptrdiff_t used, simd::vec v) GRADKERN_INLINE_LAMBDA {
        simd::vec q = divide(x, v);
        if constexpr (Onto == addend::zero) q = simd::add(simd::zero(), q);
        if constexpr (Onto == addend::output) q = simd::add(simd::load_partial(out + x, used), q);
        simd::store_partial(out + x, q, used);
    };
    std::ptrdiff_t x = 0;
    for (; x + lanes <= n; x += lanes) {
        if constexpr (target.quirk.prefetch_streams) simd::prefetch_stream(source + x, lanes);
        put(x, lanes, simd::load_wide(source + x));
    }
    if (x < n) put(x, n - x, simd::load_wide_partial(source + x, n - x));
}

/// The quotients of a vector, by a power of two, by a whole number, and by a divisor for each element. They have names, so that
/// all who finish sums so share one body of them.
struct times_reciprocal {
    simd::vec reciprocal;
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec operator()(std::ptrdiff_t, simd::vec v) const noexcept {
        return simd::mul(v, reciprocal);
    }
};
struct over_whole {
    simd::vec value;
    simd::vec reciprocal;
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec operator()(std::ptrdiff_t, simd::vec v) const noexcept {
        return simd::div_whole(v, value, reciprocal);
    }
};
struct over_each {
    const float* divisors;  // readable, and not 0, for a vector behind their end
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec operator()(std::ptrdiff_t x, simd::vec v) const noexcept {
        return simd::div(v, simd::load(divisors + x));
    }
};

/// Calls f(divide), where divide(x, v) gives the quotients by d of the vector at any x.
template <class F>
GRADKERN_ALWAYS_INLINE void with_division(const divisor& d, const F& f) noexcept {
    if (d.is_power_of_two) {
        f(times_reciprocal{simd::broadcast(d.reciprocal)});
    } else {
        f(over_whole{simd::broadcast(d.value), simd::broadcast(d.reciprocal)});
    }
}

/// The quotients by one divisor.
template <addend Onto, simd::float_element In>
inline void divide_by_one(const In* source, std::ptrdiff_t n, const divisor& d, float* out) noexcept {
    with_division(d, [&](const auto& divide) { quotients<Onto>(source, n, out, divide); });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
