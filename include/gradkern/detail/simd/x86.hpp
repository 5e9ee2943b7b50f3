#ifndef GRADKERN_DETAIL_SIMD_X86_HPP
#define GRADKERN_DETAIL_SIMD_X86_HPP

/// \file
/// \brief Operations on SSE, AVX and AVX-512 registers for which xsimd has no form, or not the same one in every version.
///
/// Included by detail/simd.hpp alone. Overloaded by register type, since a program may ask for shorter registers than the target has.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd::x86 {

// ------------------------------------------------------------------------------------------------------------------------ 128 bits

/// Hides from the optimiser where a value comes from, so that a product and a sum are not contracted into one rounding.
GRADKERN_ALWAYS_INLINE __m128 opaque(__m128 value) noexcept {
#if defined(__AVX512VL__)
    __asm__("" : "+v"(value));
#elif defined(__GNUC__)
    __asm__("" : "+x"(value));
#endif
    return value;
}

GRADKERN_ALWAYS_INLINE __m128 fma(__m128 a, __m128 b, __m128 c) noexcept {
#if defined(__FMA__)
    return _mm_fmadd_ps(a, b, c);
#else
    return _mm_add_ps(opaque(_mm_mul_ps(a, b)), c);
#endif
}

/// *a * b + c in each lane.
GRADKERN_ALWAYS_INLINE __m128 fma_broadcast(const float* a, __m128 b, __m128 c) noexcept {
    return fma(_mm_set1_ps(*a), b, c);
}
GRADKERN_ALWAYS_INLINE __m128 min(__m128 a, __m128 b) noexcept { return _mm_min_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m128 max(__m128 a, __m128 b) noexcept { return _mm_max_ps(a, b); }
// Shorter registers are divided as quickly as quotients are looked at.
GRADKERN_ALWAYS_INLINE __m128 div_whole(__m128 a, __m128 d, __m128) noexcept { return _mm_div_ps(a, d); }

/// The first n (0 ... 3) lanes, zero above.
GRADKERN_ALWAYS_INLINE __m128 load_first(const float* source, std::ptrdiff_t n, __m128) noexcept {
    // Pairs by way of integers: those loads may alias anything and need no alignment.
    const bool pair = (n & 2) != 0;
    const __m128 low =
        pair ? _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(source))) : _mm_setzero_ps();
    if ((n & 1) == 0) return low;
    const __m128 single = _mm_load_ss(source + (n & 2));
    return pair ? _mm_movelh_ps(low, single) : single;
}

GRADKERN_ALWAYS_INLINE void store_first(float* target, __m128 value, std::ptrdiff_t n) noexcept {
    if ((n & 2) != 0) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(target), _mm_castps_si128(value));
        target += 2;
        value = _mm_movehl_ps(value, value);
    }
    if ((n & 1) != 0) _mm_store_ss(target, value);
}

GRADKERN_ALWAYS_INLINE __m128i select_bits(__m128i mask, __m128i yes, __m128i no) noexcept {
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

/// Four patterns in the low half -> one in each 32-bit lane.
GRADKERN_ALWAYS_INLINE __m128i words_to_lanes(__m128i words) noexcept {
    return _mm_unpacklo_epi16(words, _mm_setzero_si128());
}

/// Four lanes, each a sign-extended 16-bit pattern -> four patterns in the low half.
GRADKERN_ALWAYS_INLINE __m128i lanes_to_words(__m128i wide) noexcept { return _mm_packs_epi32(wide, wide); }

GRADKERN_ALWAYS_INLINE __m128 widen_f16(__m128i words) noexcept {
#if defined(__F16C__)
    return _mm_cvtph_ps(words);
#else
    // Exponent and fraction move into place, the exponent is rebased; the two ends are mended: all ones stays all ones (and a NaN becomes
    // quiet), zero means that the hidden bit is not there, which the subtraction of 2^-14 removes (exactly, and without subnormal floats).
    const __m128i half = words_to_lanes(words);
    const __m128i sign = _mm_slli_epi32(_mm_and_si128(half, _mm_set1_epi32(0x8000)), 16);
    const __m128i shifted = _mm_slli_epi32(_mm_and_si128(half, _mm_set1_epi32(0x7fff)), 13);
    const __m128i rebased = _mm_add_epi32(shifted, _mm_set1_epi32(112 << 23));
    const __m128i is_special = _mm_cmpgt_epi32(shifted, _mm_set1_epi32((0x7c00 << 13) - 1));
    const __m128i is_nan = _mm_cmpgt_epi32(shifted, _mm_set1_epi32(0x7c00 << 13));
    const __m128i is_small = _mm_cmpgt_epi32(_mm_set1_epi32(0x0400 << 13), shifted);
    const __m128i special = _mm_or_si128(_mm_add_epi32(rebased, _mm_and_si128(is_special, _mm_set1_epi32(112 << 23))),
                                         _mm_and_si128(is_nan, _mm_set1_epi32(0x00400000)));
    const __m128 with_hidden = _mm_castsi128_ps(_mm_add_epi32(rebased, _mm_set1_epi32(1 << 23)));
    const __m128i small = _mm_castps_si128(_mm_sub_ps(with_hidden, _mm_castsi128_ps(_mm_set1_epi32(113 << 23))));
    return _mm_castsi128_ps(_mm_or_si128(sign, select_bits(is_small, small, special)));
#endif
}

GRADKERN_ALWAYS_INLINE __m128i narrow_f16(__m128 value) noexcept {
#if defined(__F16C__)
    return _mm_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
#else
    const __m128i word = _mm_castps_si128(value);
    const __m128i magnitude = _mm_and_si128(word, _mm_set1_epi32(0x7fffffff));
    const __m128i is_nan = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000));
    const __m128i is_infinite = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477fefff));
    const __m128i is_small = _mm_cmpgt_epi32(_mm_set1_epi32(0x38800000), magnitude);
    // Below 2^-14 the addition of 1/2, whose last place is worth 2^-24, does the rounding.
    const __m128i half = _mm_set1_epi32(126 << 23);
    const __m128i small =
        _mm_sub_epi32(_mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(magnitude), _mm_castsi128_ps(half))), half);
    const __m128i odd = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
    const __m128i normal =
        _mm_srli_epi32(_mm_add_epi32(_mm_add_epi32(magnitude, _mm_set1_epi32(0x0fff - 0x38000000)), odd), 13);
    const __m128i nan =
        _mm_or_si128(_mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(0x03ff)), _mm_set1_epi32(0x7e00));
    const __m128i finite = select_bits(is_small, small, normal);
    const __m128i special = select_bits(is_nan, nan, _mm_set1_epi32(0x7c00));
    // The arithmetic shift extends the sign, as packing with signed saturation wants it.
    const __m128i sign = _mm_srai_epi32(_mm_and_si128(word, _mm_set1_epi32(static_cast<int>(0x80000000u))), 16);
    return lanes_to_words(_mm_or_si128(sign, select_bits(is_infinite, special, finite)));
#endif
}

GRADKERN_ALWAYS_INLINE __m128 widen_bf16(__m128i words) noexcept {
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), words));
}

/// One bfloat16, sign-extended, in each lane.
GRADKERN_ALWAYS_INLINE __m128i round_bf16(__m128 value) noexcept {
    const __m128i word = _mm_castps_si128(value);
    const __m128i is_nan = _mm_cmpgt_epi32(_mm_and_si128(word, _mm_set1_epi32(0x7fffffff)), _mm_set1_epi32(0x7f800000));
    const __m128i odd = _mm_and_si128(_mm_srli_epi32(word, 16), _mm_set1_epi32(1));
    const __m128i rounded = _mm_add_epi32(_mm_add_epi32(word, _mm_set1_epi32(0x7fff)), odd);
    const __m128i quiet = _mm_or_si128(word, _mm_set1_epi32(0x00400000));
    return _mm_srai_epi32(select_bits(is_nan, quiet, rounded), 16);
}

GRADKERN_ALWAYS_INLINE __m128 load_wide_f16(const void* source, __m128) noexcept {
    return widen_f16(_mm_loadl_epi64(static_cast<const __m128i*>(source)));
}
GRADKERN_ALWAYS_INLINE __m128 load_wide_bf16(const void* source, __m128) noexcept {
    return widen_bf16(_mm_loadl_epi64(static_cast<const __m128i*>(source)));
}
GRADKERN_ALWAYS_INLINE void store_narrow_f16(void* target, __m128 value) noexcept {
    _mm_storel_epi64(static_cast<__m128i*>(target), narrow_f16(value));
}
GRADKERN_ALWAYS_INLINE void store_narrow_bf16(void* target, __m128 value) noexcept {
    _mm_storel_epi64(static_cast<__m128i*>(target), lanes_to_words(round_bf16(value)));
}

// The transposes of 4, 8 and 16 rows are one algorithm: the 128-bit quarter q of a register holds four elements of row 4q + i, loads put
// them there (cheaper than shuffles across quarters), and a 4x4 transpose within each quarter leaves whole columns.
GRADKERN_ALWAYS_INLINE __m128 load_quarters(const float* source, std::ptrdiff_t, __m128) noexcept {
    return _mm_loadu_ps(source);
}
/// The sum of the lanes' bits as integers of 32 bits.
GRADKERN_ALWAYS_INLINE __m128 add_bits(__m128 a, __m128 b) noexcept {
    return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
}
GRADKERN_ALWAYS_INLINE __m128 equal_bits(__m128 a, __m128 b) noexcept {
    return _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
}
/// target[i] = number + the bits of lane i.
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* target, __m128 lanes, std::int64_t number) noexcept {
    const __m128i word = _mm_castps_si128(lanes);
    const __m128i add = _mm_set1_epi64x(number);
    auto* const to = reinterpret_cast<__m128i*>(target);
    _mm_storeu_si128(to, _mm_add_epi64(add, _mm_unpacklo_epi32(word, _mm_setzero_si128())));
    _mm_storeu_si128(to + 1, _mm_add_epi64(add, _mm_unpackhi_epi32(word, _mm_setzero_si128())));
}
/// Number K of each four lanes in all four of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m128 quad_lane(__m128 a) noexcept {
    return _mm_shuffle_ps(a, a, K * 0x55);
}
/// Lane i: number places[i] of a.
GRADKERN_ALWAYS_INLINE __m128 permute(__m128 a, const std::int32_t* places) noexcept {
#if defined(__AVX__)
    return _mm_permutevar_ps(a, _mm_loadu_si128(reinterpret_cast<const __m128i*>(places)));
#else
    alignas(16) float from[4];
    _mm_store_ps(from, a);
    return _mm_setr_ps(from[places[0]], from[places[1]], from[places[2]], from[places[3]]);
#endif
}
GRADKERN_ALWAYS_INLINE __m128 unpack_low(__m128 a, __m128 b) noexcept { return _mm_unpacklo_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m128 unpack_high(__m128 a, __m128 b) noexcept { return _mm_unpackhi_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m128 low_pairs(__m128 a, __m128 b) noexcept { return _mm_shuffle_ps(a, b, 0x44); }
GRADKERN_ALWAYS_INLINE __m128 high_pairs(__m128 a, __m128 b) noexcept { return _mm_shuffle_ps(a, b, 0xee); }
GRADKERN_ALWAYS_INLINE void store_all(float* target, __m128 value) noexcept { _mm_storeu_ps(target, value); }

// ------------------------------------------------------------------------------------------------------------------------ 256 bits

#if defined(__AVX__)

GRADKERN_ALWAYS_INLINE __m256 opaque(__m256 value) noexcept {
#if defined(__AVX512VL__)
    __asm__("" : "+v"(value));
#elif defined(__GNUC__)
    __asm__("" : "+x"(value));
#endif
    return value;
}

GRADKERN_ALWAYS_INLINE __m256 fma(__m256 a, __m256 b, __m256 c) noexcept {
#if defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return _mm256_add_ps(opaque(_mm256_mul_ps(a, b)), c);
#endif
}

GRADKERN_ALWAYS_INLINE __m256 fma_broadcast(const float* a, __m256 b, __m256 c) noexcept {
    return fma(_mm256_set1_ps(*a), b, c);
}
GRADKERN_ALWAYS_INLINE __m256 min(__m256 a, __m256 b) noexcept { return _mm256_min_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m256 max(__m256 a, __m256 b) noexcept { return _mm256_max_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m256 div_whole(__m256 a, __m256 d, __m256) noexcept { return _mm256_div_ps(a, d); }

/// The lower halves side by side.
GRADKERN_ALWAYS_INLINE __m256 join(__m128 low, __m128 high) noexcept {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

/// The first n (0 ... 7) lanes, zero above; masked-out lanes do not fault.
GRADKERN_ALWAYS_INLINE __m256 load_first(const float* source, std::ptrdiff_t n, __m256) noexcept {
    const __m256 index = _mm256_setr_ps(0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f);
    const __m256 mask = _mm256_cmp_ps(_mm256_set1_ps(static_cast<float>(n)), index, _CMP_GT_OQ);
    return _mm256_maskload_ps(source, _mm256_castps_si256(mask));
}

// Not by a masked store: those are microcode of some 20 cycles on several machines.
GRADKERN_ALWAYS_INLINE void store_first(float* target, __m256 value, std::ptrdiff_t n) noexcept {
    __m128 part = _mm256_castps256_ps128(value);
    if ((n & 4) != 0) {
        _mm_storeu_ps(target, part);
        target += 4;
        part = _mm256_extractf128_ps(value, 1);
    }
    store_first(target, part, n & 3);
}

GRADKERN_ALWAYS_INLINE __m256 load_wide_f16(const void* source, __m256) noexcept {
    const __m128i words = _mm_loadu_si128(static_cast<const __m128i*>(source));
#if defined(__F16C__)
    return _mm256_cvtph_ps(words);
#else
    return join(widen_f16(words), widen_f16(_mm_unpackhi_epi64(words, words)));
#endif
}

GRADKERN_ALWAYS_INLINE __m256 load_wide_bf16(const void* source, __m256) noexcept {
    const __m128i words = _mm_loadu_si128(static_cast<const __m128i*>(source));
#if defined(__AVX2__)
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
#else
    return join(widen_bf16(words), widen_bf16(_mm_unpackhi_epi64(words, words)));
#endif
}

GRADKERN_ALWAYS_INLINE void store_narrow_f16(void* target, __m256 value) noexcept {
#if defined(__F16C__)
    const __m128i words = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
#else
    const __m128i words =
        _mm_unpacklo_epi64(narrow_f16(_mm256_castps256_ps128(value)), narrow_f16(_mm256_extractf128_ps(value, 1)));
#endif
    _mm_storeu_si128(static_cast<__m128i*>(target), words);
}

GRADKERN_ALWAYS_INLINE void store_narrow_bf16(void* target, __m256 value) noexcept {
#if defined(__AVX2__)
    const __m256i word = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(word, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(word, _mm256_set1_epi32(0x7fff)), odd);
    const __m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    if (_mm256_movemask_ps(is_nan) != 0) {  // seldom: sooner asked than mended everywhere
        const __m256i quiet = _mm256_or_si256(word, _mm256_set1_epi32(0x00400000));
        rounded = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan));
    }
    const __m256i wide = _mm256_srli_epi32(rounded, 16);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
#else
    const __m128i words =
        _mm_packs_epi32(round_bf16(_mm256_castps256_ps128(value)), round_bf16(_mm256_extractf128_ps(value, 1)));
#endif
    _mm_storeu_si128(static_cast<__m128i*>(target), words);
}

GRADKERN_ALWAYS_INLINE __m256 load_quarters(const float* source, std::ptrdiff_t stride, __m256) noexcept {
    return join(_mm_loadu_ps(source), _mm_loadu_ps(source + 4 * stride));
}
/// The sum of the lanes' bits as integers of 32 bits.
GRADKERN_ALWAYS_INLINE __m256 add_bits(__m256 a, __m256 b) noexcept {
#if defined(__AVX2__)
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
#else
    return join(add_bits(_mm256_castps256_ps128(a), _mm256_castps256_ps128(b)),
                add_bits(_mm256_extractf128_ps(a, 1), _mm256_extractf128_ps(b, 1)));
#endif
}
GRADKERN_ALWAYS_INLINE __m256 equal_bits(__m256 a, __m256 b) noexcept {
#if defined(__AVX2__)
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
#else
    return join(equal_bits(_mm256_castps256_ps128(a), _mm256_castps256_ps128(b)),
                equal_bits(_mm256_extractf128_ps(a, 1), _mm256_extractf128_ps(b, 1)));
#endif
}
/// target[i] = number + the bits of lane i.
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* target, __m256 lanes, std::int64_t number) noexcept {
#if defined(__AVX2__)
    const __m256i word = _mm256_castps_si256(lanes);
    const __m256i add = _mm256_set1_epi64x(number);
    auto* const to = reinterpret_cast<__m256i*>(target);
    _mm256_storeu_si256(to, _mm256_add_epi64(add, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(word))));
    _mm256_storeu_si256(to + 1, _mm256_add_epi64(add, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(word, 1))));
#else
    store_bits_plus(target, _mm256_castps256_ps128(lanes), number);
    store_bits_plus(target + 4, _mm256_extractf128_ps(lanes, 1), number);
#endif
}
/// Number K of each four lanes in all four of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m256 quad_lane(__m256 a) noexcept {
    return _mm256_permute_ps(a, K * 0x55);
}
/// Lane i: number places[i] of a.
GRADKERN_ALWAYS_INLINE __m256 permute(__m256 a, const std::int32_t* places) noexcept {
#if defined(__AVX2__)
    return _mm256_permutevar8x32_ps(a, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places)));
#else
    alignas(32) float from[8];
    _mm256_store_ps(from, a);
    return _mm256_setr_ps(from[places[0]], from[places[1]], from[places[2]], from[places[3]], from[places[4]],
                          from[places[5]], from[places[6]], from[places[7]]);
#endif
}
GRADKERN_ALWAYS_INLINE __m256 unpack_low(__m256 a, __m256 b) noexcept { return _mm256_unpacklo_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m256 unpack_high(__m256 a, __m256 b) noexcept { return _mm256_unpackhi_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m256 low_pairs(__m256 a, __m256 b) noexcept { return _mm256_shuffle_ps(a, b, 0x44); }
GRADKERN_ALWAYS_INLINE __m256 high_pairs(__m256 a, __m256 b) noexcept { return _mm256_shuffle_ps(a, b, 0xee); }
GRADKERN_ALWAYS_INLINE void store_all(float* target, __m256 value) noexcept { _mm256_storeu_ps(target, value); }

#endif  // __AVX__

// ------------------------------------------------------------------------------------------------------------------------ 512 bits

#if defined(__AVX512F__)

// The zeroing forms under a full mask give the plain instructions. The plain intrinsics leave g++ up to 12 warning of their own headers'
// uninitialised operands in every user's build.
inline constexpr __mmask16 all_lanes = 0xffff;

GRADKERN_ALWAYS_INLINE __m512 opaque(__m512 value) noexcept {
#if defined(__GNUC__)
    __asm__("" : "+v"(value));
#endif
    return value;
}

GRADKERN_ALWAYS_INLINE __m512 fma(__m512 a, __m512 b, __m512 c) noexcept { return _mm512_fmadd_ps(a, b, c); }
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
GRADKERN_ALWAYS_INLINE __m512 min(__m512 a, __m512 b) noexcept { return _mm512_maskz_min_ps(all_lanes, a, b); }
GRADKERN_ALWAYS_INLINE __m512 max(__m512 a, __m512 b) noexcept { return _mm512_maskz_max_ps(all_lanes, a, b); }

// The product with the reciprocal, q, is off by less than 1.5 units of the 24th place, and its error e = q * d - a is
// exact. q - e * r then comes within 2^-23 of such a unit of the true quotient. That is no halfway case (25 places times
// d, unless a power of two, fill more than a's 24) and no nearer to one than 1 / 2d of a unit, so that both round to the
// same number. This holds for normal quotients, and zeros keep their sign; the division itself is left for the others. A
// product that underflows to zero stays one, as the quotient does: neither is above half of the least number.
GRADKERN_ALWAYS_INLINE __m512 div_whole(__m512 a, __m512 d, __m512 r) noexcept {
#if defined(__AVX512DQ__)
    constexpr int nan_infinite_or_subnormal = 0x80 | 0x01 | 0x10 | 0x08 | 0x20;
    const __m512 q = _mm512_mul_ps(a, r);
    if (__builtin_expect(_mm512_fpclass_ps_mask(q, nan_infinite_or_subnormal) == 0, 1))
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

GRADKERN_ALWAYS_INLINE void store_first(float* target, __m512 value, std::ptrdiff_t n) noexcept {
    _mm512_mask_storeu_ps(target, first_lanes(n), value);
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define GRADKERN_DETAIL_FIRST_WORDS
/// Copies the first n (0 ... 15) words of 16 bits and zeros up to the 16th, as a whole: pieces would be read again, all at once,
/// before they have left the CPU's queue of stores.
GRADKERN_ALWAYS_INLINE void copy_first_words(unsigned char* target, const void* source, std::ptrdiff_t n) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm256_maskz_loadu_epi16(first_lanes(n), source));
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
    return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xffffffff, places, _mm512_zextsi256_si512(words)));
#else
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(all_lanes, _mm512_maskz_cvtepu16_epi32(all_lanes, words), 16));
#endif
}

GRADKERN_ALWAYS_INLINE void store_narrow_f16(void* target, __m512 value) noexcept {
    _mm256_storeu_si256(static_cast<__m256i*>(target),
                        _mm512_maskz_cvtps_ph(all_lanes, value, _MM_FROUND_TO_NEAREST_INT));
}

// Not by vcvtneps2bf16 (AVX512-BF16): that one flushes subnormal numbers.
GRADKERN_ALWAYS_INLINE void store_narrow_bf16(void* target, __m512 value) noexcept {
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
    _mm256_storeu_si256(static_cast<__m256i*>(target), words);
}

#if defined(__AVX512BF16__)
/// c + the products of the lanes' halves.
GRADKERN_ALWAYS_INLINE __m512 dot_bf16(__m512 a, __m512 b, __m512 c) noexcept {
    return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
GRADKERN_ALWAYS_INLINE void narrow_dots(void* target, __m512 value) noexcept {
    const __m256bh words = _mm512_cvtneps_pbh(value);
    std::memcpy(target, &words, sizeof words);
}
GRADKERN_ALWAYS_INLINE __m512 broadcast_bits(std::uint32_t bits, __m512) noexcept {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(bits)));
}
/// Numbers in the upper halves of lanes -> the first ones in the lower halves, the second ones in the upper.
GRADKERN_ALWAYS_INLINE __m512 join_halves(__m512 low, __m512 high) noexcept {
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_maskz_srli_epi32(all_lanes, _mm512_castps_si512(low), 16), _mm512_castps_si512(high)));
}
#endif

GRADKERN_ALWAYS_INLINE __m512 load_quarters(const float* source, std::ptrdiff_t stride, __m512) noexcept {
    __m512 r = _mm512_castps128_ps512(_mm_loadu_ps(source));
    r = _mm512_maskz_insertf32x4(all_lanes, r, _mm_loadu_ps(source + 4 * stride), 1);
    r = _mm512_maskz_insertf32x4(all_lanes, r, _mm_loadu_ps(source + 8 * stride), 2);
    return _mm512_maskz_insertf32x4(all_lanes, r, _mm_loadu_ps(source + 12 * stride), 3);
}
/// The sum of the lanes' bits as integers of 32 bits.
GRADKERN_ALWAYS_INLINE __m512 add_bits(__m512 a, __m512 b) noexcept {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
GRADKERN_ALWAYS_INLINE __mmask16 equal_bits(__m512 a, __m512 b) noexcept {
    return _mm512_cmpeq_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(b));
}
/// target[i] = number + the bits of lane i.
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* target, __m512 lanes, std::int64_t number) noexcept {
    const __m512i word = _mm512_castps_si512(lanes);
    const __m512i add = _mm512_set1_epi64(number);
    const __m256i low = _mm512_maskz_extracti64x4_epi64(0xff, word, 0);
    const __m256i high = _mm512_maskz_extracti64x4_epi64(0xff, word, 1);
    _mm512_storeu_si512(target, _mm512_add_epi64(add, _mm512_maskz_cvtepu32_epi64(0xff, low)));
    _mm512_storeu_si512(target + 8, _mm512_add_epi64(add, _mm512_maskz_cvtepu32_epi64(0xff, high)));
}
/// Number K of each four lanes in all four of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m512 quad_lane(__m512 a) noexcept {
    return _mm512_maskz_permute_ps(all_lanes, a, K * 0x55);
}
/// Lane i: number places[i] of a.
GRADKERN_ALWAYS_INLINE __m512 permute(__m512 a, const std::int32_t* places) noexcept {
    return _mm512_maskz_permutexvar_ps(all_lanes, _mm512_loadu_si512(places), a);
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
GRADKERN_ALWAYS_INLINE void store_all(float* target, __m512 value) noexcept { _mm512_storeu_ps(target, value); }

#endif  // __AVX512F__

}  // namespace detail::simd::x86
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_X86_HPP
