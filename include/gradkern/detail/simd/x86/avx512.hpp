#ifndef GRADKERN_DETAIL_SIMD_X86_AVX512_HPP
#define GRADKERN_DETAIL_SIMD_X86_AVX512_HPP

/// \file
/// \brief Registers of 512 bits (see x86.hpp).

#if defined(__AVX512F__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd::x86 {

// The zeroing forms under a full mask give the plain instructions. The plain intrinsics leave g++ up to 12 warning of their own headers'
// uninitialised operands in every user's build.
inline constexpr __mmask16 all_lanes = 0xffff;
inline constexpr __mmask8 all_f64_lanes = 0xff;

GRADKERN_ALWAYS_INLINE __m512 opaque(__m512 value) noexcept {
    GRADKERN_DETAIL_OPAQUE_VECTOR("+v", value);
    return value;
}

GRADKERN_ALWAYS_INLINE __m512d opaque(__m512d value) noexcept {
    GRADKERN_DETAIL_OPAQUE_VECTOR("+v", value);
    return value;
}

GRADKERN_ALWAYS_INLINE __m512 fma(__m512 a, __m512 b, __m512 c) noexcept { return _mm512_fmadd_ps(a, b, c); }
GRADKERN_ALWAYS_INLINE __m512d fma(__m512d a, __m512d b, __m512d c) noexcept { return _mm512_fmadd_pd(a, b, c); }
// One instruction. Compilers keep a broadcast that is used twice in a register: one instruction more, and two threads that
// share a core are bound by their number.
GRADKERN_ALWAYS_INLINE __m512 fma_broadcast(const float* a, __m512 b, __m512 c) noexcept {
#if defined(__GNUC__) && !defined(GRADKERN_DETAIL_SANITIZED)
    __asm__("vfmadd231ps {%2%{1to16%}, %1, %0|%0, %1, %2%{1to16%}}" : "+v"(c) : "v"(b), "m"(*a));
    return c;
#else
    return fma(_mm512_set1_ps(*a), b, c);
#endif
}
GRADKERN_ALWAYS_INLINE __m512d fma_broadcast(const double* a, __m512d b, __m512d c) noexcept {
#if defined(__GNUC__) && !defined(GRADKERN_DETAIL_SANITIZED)
    __asm__("vfmadd231pd {%2%{1to8%}, %1, %0|%0, %1, %2%{1to8%}}" : "+v"(c) : "v"(b), "m"(*a));
    return c;
#else
    return fma(_mm512_set1_pd(*a), b, c);
#endif
}
GRADKERN_ALWAYS_INLINE __m512 sqrt(__m512 a) noexcept { return _mm512_maskz_sqrt_ps(all_lanes, a); }
GRADKERN_ALWAYS_INLINE __m512d sqrt(__m512d a) noexcept { return _mm512_maskz_sqrt_pd(all_f64_lanes, a); }

// The product with the reciprocal, q, is off by less than 1.5 units of the 24th place, and its error e = q * d - a is
// exact. q - e * r then comes within 2^-23 of such a unit of the true quotient. That is no halfway case (25 places times
// d, unless a power of two, fill more than a's 24) and no nearer to one than 1 / 2d of a unit, so that both round to the
// same number. This holds for normal quotients, and zeros keep their sign; the division itself is left for the others. A
// product that underflows to zero stays one, as the quotient does: neither is above half of the least number.
GRADKERN_ALWAYS_INLINE __m512 div_whole(__m512 a, __m512 d, __m512 r) noexcept {
#if defined(__AVX512DQ__)
    constexpr int nan_infinite_or_subnormal = 0x80 | 0x01 | 0x10 | 0x08 | 0x20;
    const __m512 q = _mm512_mul_ps(a, r);
    if (_mm512_fpclass_ps_mask(q, nan_infinite_or_subnormal) == 0) [[likely]]
        return _mm512_fnmadd_ps(_mm512_fmsub_ps(q, d, a), r, q);
#endif
    return _mm512_div_ps(a, d);
}

/// A mask of the first n (0 ... 15) lanes.
GRADKERN_ALWAYS_INLINE __mmask16 first_lanes(std::ptrdiff_t n) noexcept {
    return static_cast<__mmask16>((1u << n) - 1u);
}

GRADKERN_ALWAYS_INLINE __m512 load_first(const float* source, std::ptrdiff_t n, __m512) noexcept {
    return _mm512_maskz_loadu_ps(first_lanes(n), source);
}

GRADKERN_ALWAYS_INLINE void store_first(float* dst, __m512 value, std::ptrdiff_t n) noexcept {
    _mm512_mask_storeu_ps(dst, first_lanes(n), value);
}

/// The same of f64; n is 0 ... 7.
GRADKERN_ALWAYS_INLINE __m512d load_first(const double* source, std::ptrdiff_t n, __m512d) noexcept {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>(first_lanes(n)), source);
}
GRADKERN_ALWAYS_INLINE void store_first(double* dst, __m512d value, std::ptrdiff_t n) noexcept {
    _mm512_mask_storeu_pd(dst, static_cast<__mmask8>(first_lanes(n)), value);
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define GRADKERN_DETAIL_FIRST_WORDS
/// Copies the first n (0 ... 15) words of 16 bits and zeros up to the 16th, as a whole: pieces would be read again, all at once,
/// before they have left the CPU's queue of stores.
GRADKERN_ALWAYS_INLINE void copy_first_words(unsigned char* dst, const void* source, std::ptrdiff_t n) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm256_maskz_loadu_epi16(first_lanes(n), source));
}
#endif

GRADKERN_ALWAYS_INLINE __m512 load_wide_f16(const void* source, __m512) noexcept {
    return _mm512_maskz_cvtph_ps(all_lanes, _mm256_loadu_si256(static_cast<const __m256i*>(source)));
}

GRADKERN_ALWAYS_INLINE __m512 load_wide_bf16(const void* source, __m512) noexcept {
    const __m256i words = _mm256_loadu_si256(static_cast<const __m256i*>(source));
#if defined(__AVX512BW__)  // straight to the upper halves, by one shuffle; word 16 is the first of the zeros behind
    const __m512i places =
        _mm512_add_epi32(_mm512_set1_epi32(16),
                         _mm512_set_epi32(15 << 16, 14 << 16, 13 << 16, 12 << 16, 11 << 16, 10 << 16, 9 << 16, 8 << 16,
                                          7 << 16, 6 << 16, 5 << 16, 4 << 16, 3 << 16, 2 << 16, 1 << 16, 0));
    return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(
        0xffffffff, places, _mm512_maskz_inserti64x4(0xff, _mm512_setzero_si512(), words, 0)));
#else
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(all_lanes, _mm512_maskz_cvtepu16_epi32(all_lanes, words), 16));
#endif
}

GRADKERN_ALWAYS_INLINE void store_narrow_f16(void* dst, __m512 value) noexcept {
    _mm256_storeu_si256(static_cast<__m256i*>(dst), _mm512_maskz_cvtps_ph(all_lanes, value, _MM_FROUND_TO_NEAREST_INT));
}

// Not by vcvtneps2bf16 (AVX512-BF16): that one flushes subnormal numbers.
GRADKERN_ALWAYS_INLINE void store_narrow_bf16(void* dst, __m512 value) noexcept {
    const __m512i word = _mm512_castps_si512(value);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(all_lanes, word, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(word, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i mended = _mm512_mask_or_epi32(rounded, is_nan, word, _mm512_set1_epi32(0x00400000));
#if defined(__AVX512BW__)  // all upper halves by one shuffle
    const __m512i uppers = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 31 << 16 | 29, 27 << 16 | 25, 23 << 16 | 21,
                                            19 << 16 | 17, 15 << 16 | 13, 11 << 16 | 9, 7 << 16 | 5, 3 << 16 | 1);
    const __m256i words =
        _mm512_maskz_extracti64x4_epi64(0xff, _mm512_maskz_permutexvar_epi16(0xffffffff, uppers, mended), 0);
#else
    const __m256i words = _mm512_maskz_cvtepi32_epi16(all_lanes, _mm512_maskz_srli_epi32(all_lanes, mended, 16));
#endif
    _mm256_storeu_si256(static_cast<__m256i*>(dst), words);
}

#if defined(__AVX512BF16__)
/// c + the products of the lanes' halves.
GRADKERN_ALWAYS_INLINE __m512 dot_bf16(__m512 a, __m512 b, __m512 c) noexcept {
    return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
GRADKERN_ALWAYS_INLINE void narrow_dots(void* dst, __m512 value) noexcept {
    const __m256bh words = _mm512_cvtneps_pbh(value);
    std::memcpy(dst, &words, sizeof words);
}
GRADKERN_ALWAYS_INLINE __m512 broadcast_bits(std::uint32_t bits, __m512) noexcept {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(bits)));
}
/// Numbers in the upper halves of lanes -> the first ones in the lower halves, the second ones in the upper.
GRADKERN_ALWAYS_INLINE __m512 join_halves(__m512 low, __m512 high) noexcept {
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_maskz_srli_epi32(all_lanes, _mm512_castps_si512(low), 16), _mm512_castps_si512(high)));
}
/// Lane i: the words places[2 * i] and places[2 * i + 1] of the first n (1 ... 32) at source; nothing behind them is read.
GRADKERN_ALWAYS_INLINE __m512 pick_words(const void* source, std::ptrdiff_t n, const std::uint16_t* places) noexcept {
    const auto first = static_cast<__mmask32>(0xffffffffu >> (32 - n));
    return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xffffffff, _mm512_loadu_si512(places),
                                                              _mm512_maskz_loadu_epi16(first, source)));
}
/// 32 words of `low` in the lower halves, as many of `high` in the upper ones.
GRADKERN_ALWAYS_INLINE void interleave_words(const void* low, const void* high, float* dst) noexcept {
    const __m512i places =
        _mm512_set_epi32(47 << 16 | 15, 46 << 16 | 14, 45 << 16 | 13, 44 << 16 | 12, 43 << 16 | 11, 42 << 16 | 10,
                         41 << 16 | 9, 40 << 16 | 8, 39 << 16 | 7, 38 << 16 | 6, 37 << 16 | 5, 36 << 16 | 4,
                         35 << 16 | 3, 34 << 16 | 2, 33 << 16 | 1, 32 << 16);
    const __m512i a = _mm512_loadu_si512(low);
    const __m512i b = _mm512_loadu_si512(high);
    _mm512_storeu_si512(dst, _mm512_permutex2var_epi16(a, places, b));
    _mm512_storeu_si512(dst + 16, _mm512_permutex2var_epi16(a, _mm512_add_epi16(places, _mm512_set1_epi16(16)), b));
}
#endif

GRADKERN_ALWAYS_INLINE __m512 load_quarters(const float* source, std::ptrdiff_t stride, __m512) noexcept {
    __m512 r = _mm512_castps128_ps512(_mm_loadu_ps(source));
    r = _mm512_maskz_insertf32x4(all_lanes, r, _mm_loadu_ps(source + 4 * stride), 1);
    r = _mm512_maskz_insertf32x4(all_lanes, r, _mm_loadu_ps(source + 8 * stride), 2);
    return _mm512_maskz_insertf32x4(all_lanes, r, _mm_loadu_ps(source + 12 * stride), 3);
}
GRADKERN_ALWAYS_INLINE __m512d load_quarters(const double* source, std::ptrdiff_t stride, __m512d) noexcept {
    const auto pair = [&](std::ptrdiff_t row)
                          GRADKERN_INLINE_LAMBDA { return _mm_castpd_ps(_mm_loadu_pd(source + row * stride)); };
    __m512 r = _mm512_castps128_ps512(pair(0));
    r = _mm512_maskz_insertf32x4(all_lanes, r, pair(2), 1);
    r = _mm512_maskz_insertf32x4(all_lanes, r, pair(4), 2);
    return _mm512_castps_pd(_mm512_maskz_insertf32x4(all_lanes, r, pair(6), 3));
}
/// The sum of the lanes' bits as integers of 32 bits.
GRADKERN_ALWAYS_INLINE __m512 add_bits(__m512 a, __m512 b) noexcept {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
GRADKERN_ALWAYS_INLINE __mmask16 equal_bits(__m512 a, __m512 b) noexcept {
    return _mm512_cmpeq_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(b));
}
/// The same of f64, as integers of 64 bits.
GRADKERN_ALWAYS_INLINE __m512d add_bits(__m512d a, __m512d b) noexcept {
    return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)));
}
GRADKERN_ALWAYS_INLINE __mmask8 equal_bits(__m512d a, __m512d b) noexcept {
    return _mm512_cmpeq_epi64_mask(_mm512_castpd_si512(a), _mm512_castpd_si512(b));
}
/// target[i] = number + the bits of lane i.
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, __m512 lanes, std::int64_t number) noexcept {
    const __m512i word = _mm512_castps_si512(lanes);
    const __m512i add = _mm512_set1_epi64(number);
    const __m256i low = _mm512_maskz_extracti64x4_epi64(0xff, word, 0);
    const __m256i high = _mm512_maskz_extracti64x4_epi64(0xff, word, 1);
    _mm512_storeu_si512(dst, _mm512_add_epi64(add, _mm512_maskz_cvtepu32_epi64(0xff, low)));
    _mm512_storeu_si512(dst + 8, _mm512_add_epi64(add, _mm512_maskz_cvtepu32_epi64(0xff, high)));
}
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, __m512d lanes, std::int64_t number) noexcept {
    _mm512_storeu_si512(dst, _mm512_add_epi64(_mm512_set1_epi64(number), _mm512_castpd_si512(lanes)));
}
/// Number K of each four lanes in all four of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m512 quad_lane(__m512 a) noexcept {
    return _mm512_maskz_permute_ps(all_lanes, a, K * 0x55);
}
/// Quads of lanes of a and b, alternating: the first half in a, the others in b.
GRADKERN_ALWAYS_INLINE void interleave_quads(__m512& a, __m512& b) noexcept {
    const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    const __m512d x = _mm512_castps_pd(a);
    const __m512d y = _mm512_castps_pd(b);
    a = _mm512_castpd_ps(_mm512_permutex2var_pd(x, low, y));
    b = _mm512_castpd_ps(_mm512_permutex2var_pd(x, high, y));
}
/// Quad K of each two quads of lanes: those of a, then those of b.
template <int K>
GRADKERN_ALWAYS_INLINE __m512 every_second_quad(__m512 a, __m512 b) noexcept {
    return _mm512_maskz_shuffle_f32x4(all_lanes, a, b, K == 0 ? 0x88 : 0xdd);
}
/// Quad K of each two quads of numbers in both of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m512 quad_of_two(const float* source, __m512) noexcept {
    const __m512 a = _mm512_loadu_ps(source);
    return _mm512_maskz_shuffle_f32x4(all_lanes, a, a, K == 0 ? 0xa0 : 0xf5);
}
GRADKERN_ALWAYS_INLINE __m512 unpack_low(__m512 a, __m512 b) noexcept {
    return _mm512_maskz_unpacklo_ps(all_lanes, a, b);
}
GRADKERN_ALWAYS_INLINE __m512 unpack_high(__m512 a, __m512 b) noexcept {
    return _mm512_maskz_unpackhi_ps(all_lanes, a, b);
}
GRADKERN_ALWAYS_INLINE __m512 low_pairs(__m512 a, __m512 b) noexcept {
    return _mm512_maskz_shuffle_ps(all_lanes, a, b, 0x44);
}
GRADKERN_ALWAYS_INLINE __m512 high_pairs(__m512 a, __m512 b) noexcept {
    return _mm512_maskz_shuffle_ps(all_lanes, a, b, 0xee);
}
GRADKERN_ALWAYS_INLINE void store_all(float* dst, __m512 value) noexcept { _mm512_storeu_ps(dst, value); }
GRADKERN_ALWAYS_INLINE __m512d unpack_low(__m512d a, __m512d b) noexcept {
    return _mm512_maskz_unpacklo_pd(all_f64_lanes, a, b);
}
GRADKERN_ALWAYS_INLINE __m512d unpack_high(__m512d a, __m512d b) noexcept {
    return _mm512_maskz_unpackhi_pd(all_f64_lanes, a, b);
}
GRADKERN_ALWAYS_INLINE void store_all(double* dst, __m512d value) noexcept { _mm512_storeu_pd(dst, value); }

}  // namespace detail::simd::x86
GRADKERN_ISA_NAMESPACE_END

#endif  // __AVX512F__

#endif  // GRADKERN_DETAIL_SIMD_X86_AVX512_HPP
