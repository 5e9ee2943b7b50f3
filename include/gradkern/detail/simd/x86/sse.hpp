#ifndef GRADKERN_DETAIL_SIMD_X86_SSE_HPP
#define GRADKERN_DETAIL_SIMD_X86_SSE_HPP

/// \file
/// \brief Registers of 128 bits (see x86.hpp).

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd::x86 {

/// Hides from the optimiser where a value comes from, so that a product and a sum are not contracted into one rounding.
GRADKERN_ALWAYS_INLINE __m128 opaque(__m128 value) noexcept {
#if defined(__AVX512VL__)
    GRADKERN_DETAIL_OPAQUE_VECTOR("+v", value);
#else
    GRADKERN_DETAIL_OPAQUE_VECTOR("+x", value);
#endif
    return value;
}

GRADKERN_ALWAYS_INLINE __m128d opaque(__m128d value) noexcept {
#if defined(__AVX512VL__)
    GRADKERN_DETAIL_OPAQUE_VECTOR("+v", value);
#else
    GRADKERN_DETAIL_OPAQUE_VECTOR("+x", value);
#endif
    return value;
}

GRADKERN_ALWAYS_INLINE __m128 fma(__m128 a, __m128 b, __m128 c) noexcept {
#if GRADKERN_DETAIL_HAS_FMA
    return _mm_fmadd_ps(a, b, c);
#else
    return _mm_add_ps(opaque(_mm_mul_ps(a, b)), c);
#endif
}

GRADKERN_ALWAYS_INLINE __m128d fma(__m128d a, __m128d b, __m128d c) noexcept {
#if GRADKERN_DETAIL_HAS_FMA
    return _mm_fmadd_pd(a, b, c);
#else
    return _mm_add_pd(opaque(_mm_mul_pd(a, b)), c);
#endif
}

/// *a * b + c in each lane.
GRADKERN_ALWAYS_INLINE __m128 fma_broadcast(const float* a, __m128 b, __m128 c) noexcept {
    return fma(_mm_set1_ps(*a), b, c);
}
GRADKERN_ALWAYS_INLINE __m128d fma_broadcast(const double* a, __m128d b, __m128d c) noexcept {
    return fma(_mm_set1_pd(*a), b, c);
}
GRADKERN_ALWAYS_INLINE __m128 sqrt(__m128 a) noexcept { return _mm_sqrt_ps(a); }
GRADKERN_ALWAYS_INLINE __m128d sqrt(__m128d a) noexcept { return _mm_sqrt_pd(a); }
// A division of 128 bits takes no longer than checking a product with the reciprocal.
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

GRADKERN_ALWAYS_INLINE void store_first(float* dst, __m128 value, std::ptrdiff_t n) noexcept {
    if ((n & 2) != 0) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), _mm_castps_si128(value));
        dst += 2;
        value = _mm_movehl_ps(value, value);
    }
    if ((n & 1) != 0) _mm_store_ss(dst, value);
}

/// The same of f64, of which n is 0 or 1.
GRADKERN_ALWAYS_INLINE __m128d load_first(const double* source, std::ptrdiff_t n, __m128d) noexcept {
    return n != 0 ? _mm_load_sd(source) : _mm_setzero_pd();
}
GRADKERN_ALWAYS_INLINE void store_first(double* dst, __m128d value, std::ptrdiff_t n) noexcept {
    if (n != 0) _mm_store_sd(dst, value);
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
#if GRADKERN_DETAIL_HAS_F16C
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
#if GRADKERN_DETAIL_HAS_F16C
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
GRADKERN_ALWAYS_INLINE void store_narrow_f16(void* dst, __m128 value) noexcept {
    _mm_storel_epi64(static_cast<__m128i*>(dst), narrow_f16(value));
}
GRADKERN_ALWAYS_INLINE void store_narrow_bf16(void* dst, __m128 value) noexcept {
    _mm_storel_epi64(static_cast<__m128i*>(dst), lanes_to_words(round_bf16(value)));
}

// The transposes of 4, 8 and 16 rows are one algorithm: the 128-bit quarter q of a register holds four elements of row 4q + i, loads put
// them there (cheaper than shuffles across quarters), and a 4x4 transpose within each quarter leaves whole columns.
GRADKERN_ALWAYS_INLINE __m128 load_quarters(const float* source, std::ptrdiff_t, __m128) noexcept {
    return _mm_loadu_ps(source);
}
/// The same of f64: a quarter holds two elements of row 2q + i.
GRADKERN_ALWAYS_INLINE __m128d load_quarters(const double* source, std::ptrdiff_t, __m128d) noexcept {
    return _mm_loadu_pd(source);
}
/// The sum of the lanes' bits as integers of 32 bits.
GRADKERN_ALWAYS_INLINE __m128 add_bits(__m128 a, __m128 b) noexcept {
    return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
}
GRADKERN_ALWAYS_INLINE __m128 equal_bits(__m128 a, __m128 b) noexcept {
    return _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
}
/// The same of f64, as integers of 64 bits.
GRADKERN_ALWAYS_INLINE __m128d add_bits(__m128d a, __m128d b) noexcept {
    return _mm_castsi128_pd(_mm_add_epi64(_mm_castpd_si128(a), _mm_castpd_si128(b)));
}
GRADKERN_ALWAYS_INLINE __m128d equal_bits(__m128d a, __m128d b) noexcept {
    // equal halves of 32 bits, and the same with the halves swapped
    const __m128i halves = _mm_cmpeq_epi32(_mm_castpd_si128(a), _mm_castpd_si128(b));
    return _mm_castsi128_pd(_mm_and_si128(halves, _mm_shuffle_epi32(halves, 0xb1)));
}
/// target[i] = number + the bits of lane i.
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, __m128 lanes, std::int64_t number) noexcept {
    const __m128i word = _mm_castps_si128(lanes);
    const __m128i add = _mm_set1_epi64x(number);
    auto* const to = reinterpret_cast<__m128i*>(dst);
    _mm_storeu_si128(to, _mm_add_epi64(add, _mm_unpacklo_epi32(word, _mm_setzero_si128())));
    _mm_storeu_si128(to + 1, _mm_add_epi64(add, _mm_unpackhi_epi32(word, _mm_setzero_si128())));
}
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, __m128d lanes, std::int64_t number) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm_add_epi64(_mm_set1_epi64x(number), _mm_castpd_si128(lanes)));
}
/// Number K of each four lanes in all four of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m128 quad_lane(__m128 a) noexcept {
    return _mm_shuffle_ps(a, a, K * 0x55);
}
/// Quads of lanes of a and b, alternating: of four lanes they already are.
GRADKERN_ALWAYS_INLINE void interleave_quads(__m128&, __m128&) noexcept {}
/// Quad K of each two quads of lanes: those of a, then those of b; in both of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m128 every_second_quad(__m128 a, __m128 b) noexcept {
    return K == 0 ? a : b;
}
template <int K>
GRADKERN_ALWAYS_INLINE __m128 quad_of_two(const float* a, __m128) noexcept {
    return _mm_loadu_ps(a);  // nobody asks for this
}
GRADKERN_ALWAYS_INLINE __m128 unpack_low(__m128 a, __m128 b) noexcept { return _mm_unpacklo_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m128 unpack_high(__m128 a, __m128 b) noexcept { return _mm_unpackhi_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m128 low_pairs(__m128 a, __m128 b) noexcept { return _mm_shuffle_ps(a, b, 0x44); }
GRADKERN_ALWAYS_INLINE __m128 high_pairs(__m128 a, __m128 b) noexcept { return _mm_shuffle_ps(a, b, 0xee); }
GRADKERN_ALWAYS_INLINE void store_all(float* dst, __m128 value) noexcept { _mm_storeu_ps(dst, value); }
GRADKERN_ALWAYS_INLINE __m128d unpack_low(__m128d a, __m128d b) noexcept { return _mm_unpacklo_pd(a, b); }
GRADKERN_ALWAYS_INLINE __m128d unpack_high(__m128d a, __m128d b) noexcept { return _mm_unpackhi_pd(a, b); }
GRADKERN_ALWAYS_INLINE void store_all(double* dst, __m128d value) noexcept { _mm_storeu_pd(dst, value); }

}  // namespace detail::simd::x86
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_X86_SSE_HPP
