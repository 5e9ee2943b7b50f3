#ifndef GRADKERN_DETAIL_SIMD_NEON_HPP
#define GRADKERN_DETAIL_SIMD_NEON_HPP

/// \file
/// \brief Operations on aarch64 NEON registers for which xsimd has no form, or not the same one in every version.
///
/// Included by detail/simd.hpp alone.

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd::neon {

/// Hides from the optimiser where a value comes from, so that a product and a sum are not contracted into one rounding.
GRADKERN_ALWAYS_INLINE float32x4_t opaque(float32x4_t value) noexcept {
    GRADKERN_DETAIL_OPAQUE_VECTOR("+w", value);
    return value;
}

GRADKERN_ALWAYS_INLINE float64x2_t opaque(float64x2_t value) noexcept {
    GRADKERN_DETAIL_OPAQUE_VECTOR("+w", value);
    return value;
}

GRADKERN_ALWAYS_INLINE float64x2_t fma(float64x2_t a, float64x2_t b, float64x2_t c) noexcept {
    return vfmaq_f64(c, a, b);
}
GRADKERN_ALWAYS_INLINE float64x2_t fma_broadcast(const double* a, float64x2_t b, float64x2_t c) noexcept {
    return fma(vdupq_n_f64(*a), b, c);
}
GRADKERN_ALWAYS_INLINE float32x4_t fma(float32x4_t a, float32x4_t b, float32x4_t c) noexcept {
    return vfmaq_f32(c, a, b);
}
GRADKERN_ALWAYS_INLINE float32x4_t fma_broadcast(const float* a, float32x4_t b, float32x4_t c) noexcept {
    return fma(vdupq_n_f32(*a), b, c);
}

// xsimd 8.1 refines an estimate of the root, which does not round correctly.
GRADKERN_ALWAYS_INLINE float32x4_t sqrt(float32x4_t a) noexcept { return vsqrtq_f32(a); }
GRADKERN_ALWAYS_INLINE float64x2_t sqrt(float64x2_t a) noexcept { return vsqrtq_f64(a); }
// xsimd 8.1 divides by a refined reciprocal, which does not round correctly.
GRADKERN_ALWAYS_INLINE float32x4_t div(float32x4_t a, float32x4_t b) noexcept { return vdivq_f32(a, b); }
GRADKERN_ALWAYS_INLINE float64x2_t div(float64x2_t a, float64x2_t b) noexcept { return vdivq_f64(a, b); }
GRADKERN_ALWAYS_INLINE float32x4_t div_whole(float32x4_t a, float32x4_t d, float32x4_t) noexcept {
    return vdivq_f32(a, d);
}

/// The first n (0 or 1) lanes of f64, zero above.
GRADKERN_ALWAYS_INLINE float64x2_t load_first(const double* source, std::ptrdiff_t n, float64x2_t) noexcept {
    const float64x2_t zeros = vdupq_n_f64(0.0);
    return n > 0 ? vld1q_lane_f64(source, zeros, 0) : zeros;
}
GRADKERN_ALWAYS_INLINE void store_first(double* dst, float64x2_t value, std::ptrdiff_t n) noexcept {
    if (n > 0) vst1q_lane_f64(dst, value, 0);
}

/// The first n (0 ... 3) lanes, zero above.
GRADKERN_ALWAYS_INLINE float32x4_t load_first(const float* source, std::ptrdiff_t n, float32x4_t) noexcept {
    float32x4_t r = vdupq_n_f32(0.0f);
    if (n > 0) r = vld1q_lane_f32(source, r, 0);
    if (n > 1) r = vld1q_lane_f32(source + 1, r, 1);
    if (n > 2) r = vld1q_lane_f32(source + 2, r, 2);
    return r;
}

GRADKERN_ALWAYS_INLINE void store_first(float* dst, float32x4_t value, std::ptrdiff_t n) noexcept {
    if (n > 0) vst1q_lane_f32(dst, value, 0);
    if (n > 1) vst1q_lane_f32(dst + 1, value, 1);
    if (n > 2) vst1q_lane_f32(dst + 2, value, 2);
}

// The 16-bit patterns move by memcpy: they may be any type's objects, and may lie at odd addresses.
GRADKERN_ALWAYS_INLINE uint16x4_t load_words(const void* source) noexcept {
    uint16x4_t words;
    std::memcpy(&words, source, sizeof words);
    return words;
}

GRADKERN_ALWAYS_INLINE float32x4_t load_wide_f16(const void* source, float32x4_t) noexcept {
    return vcvt_f32_f16(vreinterpret_f16_u16(load_words(source)));
}

GRADKERN_ALWAYS_INLINE float32x4_t load_wide_bf16(const void* source, float32x4_t) noexcept {
    return vreinterpretq_f32_u32(vshll_n_u16(load_words(source), 16));
}

GRADKERN_ALWAYS_INLINE void store_narrow_f16(void* dst, float32x4_t value) noexcept {
    const uint16x4_t words = vreinterpret_u16_f16(vcvt_f16_f32(value));
    std::memcpy(dst, &words, sizeof words);
}

GRADKERN_ALWAYS_INLINE void store_narrow_bf16(void* dst, float32x4_t value) noexcept {
    const uint32x4_t word = vreinterpretq_u32_f32(value);
    const uint32x4_t is_nan = vcgtq_u32(vandq_u32(word, vdupq_n_u32(0x7fffffffu)), vdupq_n_u32(0x7f800000u));
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(word, 16), vdupq_n_u32(1u));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(word, vdupq_n_u32(0x7fffu)), odd);
    const uint32x4_t quiet = vorrq_u32(word, vdupq_n_u32(0x00400000u));
    const uint16x4_t words = vshrn_n_u32(vbslq_u32(is_nan, quiet, rounded), 16);
    std::memcpy(dst, &words, sizeof words);
}

GRADKERN_ALWAYS_INLINE float32x4_t load_quarters(const float* source, std::ptrdiff_t, float32x4_t) noexcept {
    return vld1q_f32(source);
}
/// The same of f64: a quarter holds two elements of row 2q + i.
GRADKERN_ALWAYS_INLINE float64x2_t load_quarters(const double* source, std::ptrdiff_t, float64x2_t) noexcept {
    return vld1q_f64(source);
}
/// The sum of the lanes' bits as integers of 32 bits.
GRADKERN_ALWAYS_INLINE float32x4_t add_bits(float32x4_t a, float32x4_t b) noexcept {
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}
GRADKERN_ALWAYS_INLINE uint32x4_t equal_bits(float32x4_t a, float32x4_t b) noexcept {
    return vceqq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b));
}
/// The same of f64, as integers of 64 bits.
GRADKERN_ALWAYS_INLINE float64x2_t add_bits(float64x2_t a, float64x2_t b) noexcept {
    return vreinterpretq_f64_u64(vaddq_u64(vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b)));
}
GRADKERN_ALWAYS_INLINE uint64x2_t equal_bits(float64x2_t a, float64x2_t b) noexcept {
    return vceqq_u64(vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b));
}
/// target[i] = number + the bits of lane i.
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, float32x4_t lanes, std::int64_t number) noexcept {
    const uint32x4_t word = vreinterpretq_u32_f32(lanes);
    const uint64x2_t add = vdupq_n_u64(static_cast<std::uint64_t>(number));
    vst1q_s64(dst, vreinterpretq_s64_u64(vaddw_u32(add, vget_low_u32(word))));
    vst1q_s64(dst + 2, vreinterpretq_s64_u64(vaddw_u32(add, vget_high_u32(word))));
}
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, float64x2_t lanes, std::int64_t number) noexcept {
    vst1q_s64(dst, vaddq_s64(vdupq_n_s64(number), vreinterpretq_s64_f64(lanes)));
}
/// Number K of each four lanes in all four of them.
template <int K>
GRADKERN_ALWAYS_INLINE float32x4_t quad_lane(float32x4_t a) noexcept {
    return vdupq_laneq_f32(a, K);
}
/// Quads of lanes of a and b, alternating: of four lanes they already are.
GRADKERN_ALWAYS_INLINE void interleave_quads(float32x4_t&, float32x4_t&) noexcept {}
/// Quad K of each two quads of lanes: those of a, then those of b; in both of them.
template <int K>
GRADKERN_ALWAYS_INLINE float32x4_t every_second_quad(float32x4_t a, float32x4_t b) noexcept {
    return K == 0 ? a : b;
}
template <int K>
GRADKERN_ALWAYS_INLINE float32x4_t quad_of_two(const float* a, float32x4_t) noexcept {
    return vld1q_f32(a);  // nobody asks for this
}
GRADKERN_ALWAYS_INLINE float32x4_t unpack_low(float32x4_t a, float32x4_t b) noexcept { return vzip1q_f32(a, b); }
GRADKERN_ALWAYS_INLINE float32x4_t unpack_high(float32x4_t a, float32x4_t b) noexcept { return vzip2q_f32(a, b); }
GRADKERN_ALWAYS_INLINE float32x4_t low_pairs(float32x4_t a, float32x4_t b) noexcept {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
GRADKERN_ALWAYS_INLINE float32x4_t high_pairs(float32x4_t a, float32x4_t b) noexcept {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
GRADKERN_ALWAYS_INLINE void store_all(float* dst, float32x4_t value) noexcept { vst1q_f32(dst, value); }
GRADKERN_ALWAYS_INLINE float64x2_t unpack_low(float64x2_t a, float64x2_t b) noexcept { return vzip1q_f64(a, b); }
GRADKERN_ALWAYS_INLINE float64x2_t unpack_high(float64x2_t a, float64x2_t b) noexcept { return vzip2q_f64(a, b); }
GRADKERN_ALWAYS_INLINE void store_all(double* dst, float64x2_t value) noexcept { vst1q_f64(dst, value); }

}  // namespace detail::simd::neon
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_NEON_HPP
