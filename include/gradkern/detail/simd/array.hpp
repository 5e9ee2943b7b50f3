#ifndef GRADKERN_DETAIL_SIMD_ARRAY_HPP
#define GRADKERN_DETAIL_SIMD_ARRAY_HPP

/// \file
/// \brief Vectors as plain arrays: for targets without vector registers, and to walk the code paths of any vector length on any machine.
///
/// Included by detail/simd.hpp alone; one of array.hpp, batch.hpp defines `vec` and its arithmetic.

#include <cstddef>
#include <cstring>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>

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

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec div(vec a, vec b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] /= b.lane[i];
    return a;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec sqrt(vec a) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes; ++i) a.lane[i] = own::sqrt(a.lane[i]);
    return a;
}

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

}  // namespace detail::simd
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_ARRAY_HPP
