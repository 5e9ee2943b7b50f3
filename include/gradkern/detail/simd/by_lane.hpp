#ifndef GRADKERN_DETAIL_SIMD_BY_LANE_HPP
#define GRADKERN_DETAIL_SIMD_BY_LANE_HPP

/// \file
/// \brief Operations on `vec_of` lane by lane, by way of memory: for targets without registers of their own (x86, NEON).
///
/// Included by detail/simd.hpp alone, behind array.hpp or batch.hpp.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd {

inline constexpr bool has_fast_f16 = false;
inline constexpr bool has_fast_bf16 = false;

/// The lanes of a vector.
template <class Real>
struct lane_array {
    using bits_type = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
    Real lane[lanes_of<Real>];
    explicit GRADKERN_ALWAYS_INLINE lane_array(vec_of<Real> v) noexcept { store(lane, v); }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE Real operator[](std::ptrdiff_t i) const noexcept { return lane[i]; }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE bits_type bits(std::ptrdiff_t i) const noexcept {
        return own::bit_cast<bits_type>(lane[i]);
    }
};

/// The vector whose lane i is number(i).
template <class Real = float, class F>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> each_lane(const F& number) noexcept {
    Real lane[lanes_of<Real>];
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) lane[i] = number(i);
    return load(static_cast<const Real*>(lane));
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> keep(vec_of<Real> a) noexcept {
    return a;
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> div_whole(vec_of<Real> a, vec_of<Real> d, vec_of<Real>) noexcept {
    return div(a, d);
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> fma_broadcast(const Real* a, vec_of<Real> b,
                                                                vec_of<Real> c) noexcept {
    return fma(broadcast(*a), b, c);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> load_partial(const Real* source, std::ptrdiff_t n) noexcept {
    return each_lane<Real>([&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA { return i < n ? source[i] : Real{0}; });
}
template <class Real>
GRADKERN_ALWAYS_INLINE void store_partial(Real* dst, vec_of<Real> value, std::ptrdiff_t n) noexcept {
    const lane_array<Real> from(value);
    for (std::ptrdiff_t i = 0; i < lanes_of<Real> && i < n; ++i) dst[i] = from[i];
}

/// Patterns of 16 bits, each widened or narrowed by a function.
template <class F>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec widen_by(const F& widen, const void* source) noexcept {
    std::uint16_t bits[lanes];
    std::memcpy(bits, source, sizeof bits);
    return each_lane([&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA { return widen(bits[i]); });
}
template <class F>
GRADKERN_ALWAYS_INLINE void narrow_by(const F& narrow, vec value, void* dst) noexcept {
    const lane_array<float> from(value);
    std::uint16_t bits[lanes];
    for (std::ptrdiff_t i = 0; i < lanes; ++i) bits[i] = narrow(from[i]);
    std::memcpy(dst, bits, sizeof bits);
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec widen_f16(const void* source) noexcept {
    return widen_by([](std::uint16_t x) GRADKERN_INLINE_LAMBDA { return half_bits::f16_to_f32(x); }, source);
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec widen_bf16(const void* source) noexcept {
    return widen_by([](std::uint16_t x) GRADKERN_INLINE_LAMBDA { return half_bits::bf16_to_f32(x); }, source);
}
GRADKERN_ALWAYS_INLINE void narrow_f16(vec value, void* dst) noexcept {
    narrow_by([](float x) GRADKERN_INLINE_LAMBDA { return half_bits::f32_to_f16(x); }, value, dst);
}
GRADKERN_ALWAYS_INLINE void narrow_bf16(vec value, void* dst) noexcept {
    narrow_by([](float x) GRADKERN_INLINE_LAMBDA { return half_bits::f32_to_bf16(x); }, value, dst);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> add_bits(vec_of<Real> a, vec_of<Real> b) noexcept {
    const lane_array<Real> x(a);
    const lane_array<Real> y(b);
    return each_lane<Real>([&](std::ptrdiff_t i)
                               GRADKERN_INLINE_LAMBDA { return own::bit_cast<Real>(x.bits(i) + y.bits(i)); });
}
template <class Real>
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, vec_of<Real> a, std::int64_t number) noexcept {
    const lane_array<Real> from(a);
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) dst[i] = number + static_cast<std::int64_t>(from.bits(i));
}

// Nobody calls those of quads for vectors shorter than that.
template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec quad_lane(vec a) noexcept {
    const lane_array<float> from(a);
    return each_lane([&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA { return from[(i / 4 * 4 + K) % lanes]; });
}
template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec quad_of_two(const float* a) noexcept {
    return each_lane([&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA { return a[(i / 8 * 8 + K * 4 + i % 4) % lanes]; });
}
template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec every_second_quad(vec a, vec b) noexcept {
    const lane_array<float> from[2]{lane_array<float>(a), lane_array<float>(b)};
    return each_lane([&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA {
        const std::ptrdiff_t at = i / 4 * 8 + K * 4 + i % 4;
        return from[at / lanes % 2][at % lanes];
    });
}
GRADKERN_ALWAYS_INLINE void interleave_quads(vec& a, vec& b) noexcept {
    const lane_array<float> from[2]{lane_array<float>(a), lane_array<float>(b)};
    const auto lane = [&](std::ptrdiff_t i)
                          GRADKERN_INLINE_LAMBDA { return from[i / 4 % 2][(i / 8 * 4 + i % 4) % lanes]; };
    a = each_lane(lane);
    b = each_lane([&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA { return lane(lanes + i); });
}

#if GRADKERN_DETAIL_DOT_BF16
inline constexpr bool has_dot_bf16 = true;

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec broadcast_pair(const void* source) noexcept {
    float pair;
    std::memcpy(&pair, source, sizeof pair);
    return broadcast(pair);
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec pair_bf16(vec low, vec high) noexcept {
    const lane_array<float> x(low);
    const lane_array<float> y(high);
    return each_lane([&](std::ptrdiff_t i)
                         GRADKERN_INLINE_LAMBDA { return own::bit_cast<float>(x.bits(i) >> 16 | y.bits(i)); });
}
/// The second products are added first.
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec dot_bf16(vec a, vec b, vec c) noexcept {
    const auto first = [](vec v) GRADKERN_INLINE_LAMBDA {
        const lane_array<float> from(v);
        return each_lane([&](std::ptrdiff_t i)
                             GRADKERN_INLINE_LAMBDA { return own::bit_cast<float>(from.bits(i) << 16); });
    };
    const auto second = [](vec v) GRADKERN_INLINE_LAMBDA {
        const lane_array<float> from(v);
        return each_lane([&](std::ptrdiff_t i)
                             GRADKERN_INLINE_LAMBDA { return own::bit_cast<float>(from.bits(i) & 0xffff0000U); });
    };
    return fma(first(a), first(b), fma(second(a), second(b), c));
}
GRADKERN_ALWAYS_INLINE void narrow_dots(vec value, void* dst) noexcept { narrow_bf16(value, dst); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec pick_words(const void* source, std::ptrdiff_t n,
                                                    const std::uint16_t* places) noexcept {
    std::uint16_t words[2 * lanes] = {};
    std::memcpy(words, source, static_cast<std::size_t>(n) * sizeof words[0]);
    return each_lane([&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA {
        const std::uint32_t high = words[places[2 * i + 1]];
        return own::bit_cast<float>(words[places[2 * i]] | high << 16);
    });
}
GRADKERN_ALWAYS_INLINE void interleave_words(const void* low, const void* high, float* dst) noexcept {
    constexpr std::size_t word = sizeof(std::uint16_t);
    auto* to = reinterpret_cast<std::byte*>(dst);
    for (std::size_t i = 0; i < 2 * lanes; ++i, to += 2 * word) {
        std::memcpy(to, static_cast<const std::byte*>(low) + i * word, word);
        std::memcpy(to + word, static_cast<const std::byte*>(high) + i * word, word);
    }
}
#endif

template <class Real>
GRADKERN_ALWAYS_INLINE void transpose(const Real* source, std::ptrdiff_t source_stride, Real* dst,
                                      std::ptrdiff_t dst_stride) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) {
        for (std::ptrdiff_t j = 0; j < lanes_of<Real>; ++j) dst[j * dst_stride + i] = source[i * source_stride + j];
    }
}

}  // namespace detail::simd
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_BY_LANE_HPP
