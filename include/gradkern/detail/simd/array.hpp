#ifndef GRADKERN_DETAIL_SIMD_ARRAY_HPP
#define GRADKERN_DETAIL_SIMD_ARRAY_HPP

/// \file
/// \brief Vectors as plain arrays: for targets without vector registers, and to walk the code paths of any vector length on any machine.
///
/// Included by detail/simd.hpp alone; one of array.hpp, batch.hpp defines `vec` and the operations on it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd {

#if defined(GRADKERN_SIMD_EMULATE_LANES)
inline constexpr std::ptrdiff_t lanes = GRADKERN_SIMD_EMULATE_LANES;
#else
inline constexpr std::ptrdiff_t lanes = 4;
#endif
static_assert(lanes >= 1 && lanes <= 64 && (lanes & (lanes - 1)) == 0,
              "GRADKERN_SIMD_EMULATE_LANES must be 1, 2, 4, ... 64");

struct vec {
    float lane[lanes];
};

inline constexpr bool is_fused = true;
inline constexpr bool has_fast_f16 = false;
inline constexpr bool has_fast_bf16 = false;

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec broadcast(float value) noexcept {
    vec r;
    for (float& lane : r.lane) lane = value;
    return r;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec load(const float* source) noexcept {
    vec r;
    std::memcpy(r.lane, source, sizeof r.lane);
    return r;
}

GRADKERN_ALWAYS_INLINE void store(float* dst, vec value) noexcept { std::memcpy(dst, value.lane, sizeof value.lane); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec fma(vec a, vec b, vec c) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) c.lane[i] = own::fma(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec fma_broadcast(const float* a, vec b, vec c) noexcept {
    return fma(broadcast(*a), b, c);
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec add(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] += b.lane[i];
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec sub(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] -= b.lane[i];
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec mul(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] *= b.lane[i];
    GRADKERN_DETAIL_OPAQUE(a);
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec keep(vec a) noexcept { return a; }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec div(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] /= b.lane[i];
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec sqrt(vec a) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] = own::sqrt(a.lane[i]);
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec div_whole(vec a, vec d, vec) noexcept { return div(a, d); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec min(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec max(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

struct mask {
    bool lane[lanes];
};

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask greater(vec a, vec b) noexcept {
    mask r;
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = a.lane[i] > b.lane[i];
    return r;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask is_nan(vec a) noexcept {
    mask r;
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = a.lane[i] != a.lane[i];
    return r;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask equal_bits(vec a, vec b) noexcept {
    mask r;
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = std::memcmp(&a.lane[i], &b.lane[i], sizeof(float)) == 0;
    return r;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask either(mask a, mask b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] = a.lane[i] || b.lane[i];
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask but_not(mask a, mask b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] = a.lane[i] && !b.lane[i];
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec select(mask m, vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i)
        std::memcpy(&b.lane[i], m.lane[i] ? &a.lane[i] : &b.lane[i], sizeof(float));
    return b;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec load_partial(const float* source, std::ptrdiff_t n) noexcept {
    vec r = broadcast(0.0f);
    for (std::ptrdiff_t i = 0; i < lanes && i < n; ++i) r.lane[i] = source[i];
    return r;
}

GRADKERN_ALWAYS_INLINE void store_partial(float* dst, vec value, std::ptrdiff_t n) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes && i < n; ++i) dst[i] = value.lane[i];
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec widen_f16(const void* source) noexcept {
    std::uint16_t bits[lanes];
    std::memcpy(bits, source, sizeof bits);
    vec r;
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = half_bits::f16_to_f32(bits[i]);
    return r;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec widen_bf16(const void* source) noexcept {
    std::uint16_t bits[lanes];
    std::memcpy(bits, source, sizeof bits);
    vec r;
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = half_bits::bf16_to_f32(bits[i]);
    return r;
}

GRADKERN_ALWAYS_INLINE void narrow_f16(vec value, void* dst) noexcept {
    std::uint16_t bits[lanes];
    for (std::ptrdiff_t i = 0; i < lanes; ++i) bits[i] = half_bits::f32_to_f16(value.lane[i]);
    std::memcpy(dst, bits, sizeof bits);
}

GRADKERN_ALWAYS_INLINE void narrow_bf16(vec value, void* dst) noexcept {
    std::uint16_t bits[lanes];
    for (std::ptrdiff_t i = 0; i < lanes; ++i) bits[i] = half_bits::f32_to_bf16(value.lane[i]);
    std::memcpy(dst, bits, sizeof bits);
}

/// The sum of the lanes' bits as integers of 32 bits.
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec add_bits(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
        std::uint32_t x = 0;
        std::uint32_t y = 0;
        std::memcpy(&x, &a.lane[i], sizeof x);
        std::memcpy(&y, &b.lane[i], sizeof y);
        x += y;
        std::memcpy(&a.lane[i], &x, sizeof x);
    }
    return a;
}

GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, vec a, std::int64_t number) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &a.lane[i], sizeof bits);
        dst[i] = number + std::int64_t{bits};
    }
}

/// Number K of each four lanes in all four of them.
template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec quad_lane(vec a) noexcept {
    vec r;  // of fewer than four lanes nobody asks for this
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = a.lane[(i / 4 * 4 + K) % lanes];
    return r;
}

template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec quad_of_two(const float* a) noexcept {
    vec r;  // of fewer than eight lanes nobody asks for this
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = a[(i / 8 * 8 + K * 4 + i % 4) % lanes];
    return r;
}

template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec every_second_quad(vec a, vec b) noexcept {
    vec r;
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
        const std::ptrdiff_t from = i / 4 * 8 + K * 4 + i % 4;
        r.lane[i] = (from < lanes ? a : b).lane[from % lanes];
    }
    return r;
}

GRADKERN_ALWAYS_INLINE void interleave_quads(vec& a, vec& b) noexcept {
    const vec from[2]{a, b};
    for (std::ptrdiff_t i = 0; i < 2 * lanes; ++i)
        (i < lanes ? a : b).lane[i % lanes] = from[i / 4 % 2].lane[(i / 8 * 4 + i % 4) % lanes];
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec permute(vec a, const std::int32_t* places) noexcept {
    vec r;
    for (std::ptrdiff_t i = 0; i < lanes; ++i) r.lane[i] = a.lane[places[i]];
    return r;
}

#if GRADKERN_DETAIL_DOT_BF16
inline constexpr bool has_dot_bf16 = true;

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec broadcast_pair(const void* source) noexcept {
    vec r;
    for (float& lane : r.lane) std::memcpy(&lane, source, sizeof lane);
    return r;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec pair_bf16(vec low, vec high) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
        const std::uint32_t bits =
            own::bit_cast<std::uint32_t>(low.lane[i]) >> 16 | own::bit_cast<std::uint32_t>(high.lane[i]);
        std::memcpy(&low.lane[i], &bits, sizeof bits);
    }
    return low;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec dot_bf16(vec a, vec b, vec c) noexcept {
    const auto first = [](float x) { return own::bit_cast<float>(own::bit_cast<std::uint32_t>(x) << 16); };
    const auto second = [](float x) { return own::bit_cast<float>(own::bit_cast<std::uint32_t>(x) & 0xffff0000U); };
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
        c.lane[i] = own::fma(second(a.lane[i]), second(b.lane[i]), c.lane[i]);
        c.lane[i] = own::fma(first(a.lane[i]), first(b.lane[i]), c.lane[i]);
    }
    return c;
}

GRADKERN_ALWAYS_INLINE void narrow_dots(vec value, void* dst) noexcept { narrow_bf16(value, dst); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec pick_words(const void* source, std::ptrdiff_t n,
                                                    const std::uint16_t* places) noexcept {
    std::array<std::uint16_t, 2 * lanes> words{};
    std::memcpy(words.data(), source, static_cast<std::size_t>(n) * sizeof words[0]);
    std::array<std::uint16_t, 2 * lanes> picked;
    for (std::uint16_t& word : picked) word = words[*places++];
    vec r;
    std::memcpy(r.lane, picked.data(), sizeof picked);
    return r;
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

GRADKERN_ALWAYS_INLINE void transpose(const float* source, std::ptrdiff_t source_stride, float* dst,
                                      std::ptrdiff_t dst_stride) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
        for (std::ptrdiff_t j = 0; j < lanes; ++j) dst[j * dst_stride + i] = source[i * source_stride + j];
    }
}

}  // namespace detail::simd
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_ARRAY_HPP
