// Quotients of lines: by one divisor, or by one for each element. Lines are scratch or tensor memory; nothing outside the
// n elements named is read or written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A divisor of many neighbours of a line, a whole number. Dividing by a power of two is the same as multiplying
/// by its reciprocal, bit for bit, as both round the same number once.
template <class Real>
struct divisor {
    Real value{1};       ///< not 0
    Real reciprocal{1};  ///< a NaN where it is of no use
    bool is_power_of_two = true;

    constexpr divisor() noexcept = default;
    explicit constexpr divisor(Real d) noexcept : value(d) {
        using bits = std::conditional_t<sizeof(Real) == sizeof(float), std::uint32_t, std::uint64_t>;
        constexpr int fraction_bits = std::numeric_limits<Real>::digits - 1;
        constexpr bits most_exponent = 2 * std::numeric_limits<Real>::max_exponent - 1;  // of infinity
        const auto word = own::bit_cast<bits>(d);
        const bits exponent = (word >> fraction_bits) & most_exponent;
        is_power_of_two = (word & ((bits{1} << fraction_bits) - 1)) == 0 && exponent >= 1 &&
                          exponent <= most_exponent - 2;          // the reciprocal is normal
        const bool is_small = d >= Real{1} && d < Real{0x1p20F};  // as simd::div_whole asks for
        reciprocal = is_power_of_two || is_small ? Real{1} / d : own::quiet_nan<Real>;
    }
};

/// What quotients are added to.
enum class addend : std::uint8_t {
    none,   ///< they are the result
    zero,   ///< +0, the beginning of every sum
    output  ///< what the output holds
};

/// out[x] = onto + source[x] / divisor for x < n; divide(x, v) gives the quotients of the vector at x.
template <addend Onto, element In, class Divide>
GRADKERN_ALWAYS_INLINE void quotients(const In* source, std::ptrdiff_t n, accumulate_t<In>* out,
                                      const Divide& divide) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<In>;
    const auto put = [&](std::ptrdiff_t x, std::ptrdiff_t used, simd::wide_vec<In> v) GRADKERN_INLINE_LAMBDA {
        simd::wide_vec<In> q = divide(x, v);
        if constexpr (Onto == addend::zero) q = simd::add(simd::zero<accumulate_t<In>>(), q);
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
template <class Real>
struct times_reciprocal {
    simd::vec_of<Real> reciprocal;
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec_of<Real> operator()(std::ptrdiff_t,
                                                                       simd::vec_of<Real> v) const noexcept {
        return simd::mul(v, reciprocal);
    }
};
template <class Real>
struct over_whole {
    simd::vec_of<Real> value;
    simd::vec_of<Real> reciprocal;
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec_of<Real> operator()(std::ptrdiff_t,
                                                                       simd::vec_of<Real> v) const noexcept {
        return simd::div_whole(v, value, reciprocal);
    }
};
template <class Real>
struct over_each {
    const Real* divisors;  // readable, and not 0, for a vector behind their end
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec_of<Real> operator()(std::ptrdiff_t x,
                                                                       simd::vec_of<Real> v) const noexcept {
        return simd::div(v, simd::load(divisors + x));
    }
};

/// Calls f(divide), where divide(x, v) gives the quotients by d of the vector at any x.
template <class Real, class F>
GRADKERN_ALWAYS_INLINE void with_division(const divisor<Real>& d, const F& f) noexcept {
    if (d.is_power_of_two) {
        f(times_reciprocal<Real>{simd::broadcast(d.reciprocal)});
    } else {
        f(over_whole<Real>{simd::broadcast(d.value), simd::broadcast(d.reciprocal)});
    }
}

/// The quotients by one divisor.
template <addend Onto, element In>
inline void divide_by_one(const In* source, std::ptrdiff_t n, const divisor<accumulate_t<In>>& d,
                          accumulate_t<In>* out) noexcept {
    with_division(d, [&](const auto& divide) { quotients<Onto>(source, n, out, divide); });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
