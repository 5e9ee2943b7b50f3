#ifndef GRADKERN_DETAIL_SIMD_X86_AVX_HPP
#define GRADKERN_DETAIL_SIMD_X86_AVX_HPP

/// \file
/// \brief Registers of 256 bits (see x86.hpp).

#if defined(__AVX__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd/x86/sse.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd::x86 {

GRADKERN_ALWAYS_INLINE __m256 opaque(__m256 value) noexcept {
#if defined(__AVX512VL__)
    GRADKERN_DETAIL_OPAQUE_VECTOR("+v", value);
#else
    GRADKERN_DETAIL_OPAQUE_VECTOR("+x", value);
#endif
    return value;
}

GRADKERN_ALWAYS_INLINE __m256d opaque(__m256d value) noexcept {
#if defined(__AVX512VL__)
    GRADKERN_DETAIL_OPAQUE_VECTOR("+v", value);
#else
    GRADKERN_DETAIL_OPAQUE_VECTOR("+x", value);
#endif
    return value;
}

GRADKERN_ALWAYS_INLINE __m256 fma(__m256 a, __m256 b, __m256 c) noexcept {
#if GRADKERN_DETAIL_HAS_FMA
    return _mm256_fmadd_ps(a, b, c);
#else
    return _mm256_add_ps(opaque(_mm256_mul_ps(a, b)), c);
#endif
}

GRADKERN_ALWAYS_INLINE __m256d fma(__m256d a, __m256d b, __m256d c) noexcept {
#if GRADKERN_DETAIL_HAS_FMA
    return _mm256_fmadd_pd(a, b, c);
#else
    return _mm256_add_pd(opaque(_mm256_mul_pd(a, b)), c);
#endif
}

GRADKERN_ALWAYS_INLINE __m256 fma_broadcast(const float* a, __m256 b, __m256 c) noexcept {
    return fma(_mm256_set1_ps(*a), b, c);
}
GRADKERN_ALWAYS_INLINE __m256d fma_broadcast(const double* a, __m256d b, __m256d c) noexcept {
    return fma(_mm256_set1_pd(*a), b, c);
}
GRADKERN_ALWAYS_INLINE __m256 sqrt(__m256 a) noexcept { return _mm256_sqrt_ps(a); }
GRADKERN_ALWAYS_INLINE __m256d sqrt(__m256d a) noexcept { return _mm256_sqrt_pd(a); }
GRADKERN_ALWAYS_INLINE __m256 div_whole(__m256 a, __m256 d, __m256) noexcept { return _mm256_div_ps(a, d); }

/// The lower halves side by side.
GRADKERN_ALWAYS_INLINE __m256 join(__m128 low, __m128 high) noexcept {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

GRADKERN_ALWAYS_INLINE __m256d join(__m128d low, __m128d high) noexcept {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1);
}

/// The first n (0 ... 7) lanes, zero above; masked-out lanes do not fault.
GRADKERN_ALWAYS_INLINE __m256 load_first(const float* source, std::ptrdiff_t n, __m256) noexcept {
    const __m256 index = _mm256_setr_ps(0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f);
    const __m256 mask = _mm256_cmp_ps(_mm256_set1_ps(static_cast<float>(n)), index, _CMP_GT_OQ);
    return _mm256_maskload_ps(source, _mm256_castps_si256(mask));
}

// Not by a masked store: those are microcode of some 20 cycles on several machines.
GRADKERN_ALWAYS_INLINE void store_first(float* dst, __m256 value, std::ptrdiff_t n) noexcept {
    __m128 part = _mm256_castps256_ps128(value);
    if ((n & 4) != 0) {
        _mm_storeu_ps(dst, part);
        dst += 4;
        part = _mm256_extractf128_ps(value, 1);
    }
    store_first(dst, part, n & 3);
}

/// The same of f64; n is 0 ... 3.
GRADKERN_ALWAYS_INLINE __m256d load_first(const double* source, std::ptrdiff_t n, __m256d) noexcept {
    const __m256d index = _mm256_setr_pd(0.0, 1.0, 2.0, 3.0);
    const __m256d mask = _mm256_cmp_pd(_mm256_set1_pd(static_cast<double>(n)), index, _CMP_GT_OQ);
    return _mm256_maskload_pd(source, _mm256_castpd_si256(mask));
}
GRADKERN_ALWAYS_INLINE void store_first(double* dst, __m256d value, std::ptrdiff_t n) noexcept {
    __m128d part = _mm256_castpd256_pd128(value);
    if ((n & 2) != 0) {
        _mm_storeu_pd(dst, part);
        dst += 2;
        part = _mm256_extractf128_pd(value, 1);
    }
    store_first(dst, part, n & 1);
}

GRADKERN_ALWAYS_INLINE __m256 load_wide_f16(const void* source, __m256) noexcept {
    const __m128i words = _mm_loadu_si128(static_cast<const __m128i*>(source));
#if GRADKERN_DETAIL_HAS_F16C
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

GRADKERN_ALWAYS_INLINE void store_narrow_f16(void* dst, __m256 value) noexcept {
#if GRADKERN_DETAIL_HAS_F16C
    const __m128i words = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
#else
    const __m128i words =
        _mm_unpacklo_epi64(narrow_f16(_mm256_castps256_ps128(value)), narrow_f16(_mm256_extractf128_ps(value, 1)));
#endif
    _mm_storeu_si128(static_cast<__m128i*>(dst), words);
}

GRADKERN_ALWAYS_INLINE void store_narrow_bf16(void* dst, __m256 value) noexcept {
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
    _mm_storeu_si128(static_cast<__m128i*>(dst), words);
}

GRADKERN_ALWAYS_INLINE __m256 load_quarters(const float* source, std::ptrdiff_t stride, __m256) noexcept {
    return join(_mm_loadu_ps(source), _mm_loadu_ps(source + 4 * stride));
}
GRADKERN_ALWAYS_INLINE __m256d load_quarters(const double* source, std::ptrdiff_t stride, __m256d) noexcept {
    return join(_mm_loadu_pd(source), _mm_loadu_pd(source + 2 * stride));
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
/// The same of f64, as integers of 64 bits.
GRADKERN_ALWAYS_INLINE __m256d add_bits(__m256d a, __m256d b) noexcept {
#if defined(__AVX2__)
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)));
#else
    return join(add_bits(_mm256_castpd256_pd128(a), _mm256_castpd256_pd128(b)),
                add_bits(_mm256_extractf128_pd(a, 1), _mm256_extractf128_pd(b, 1)));
#endif
}
GRADKERN_ALWAYS_INLINE __m256d equal_bits(__m256d a, __m256d b) noexcept {
#if defined(__AVX2__)
    return _mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)));
#else
    return join(equal_bits(_mm256_castpd256_pd128(a), _mm256_castpd256_pd128(b)),
                equal_bits(_mm256_extractf128_pd(a, 1), _mm256_extractf128_pd(b, 1)));
#endif
}
/// target[i] = number + the bits of lane i.
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, __m256 lanes, std::int64_t number) noexcept {
#if defined(__AVX2__)
    const __m256i word = _mm256_castps_si256(lanes);
    const __m256i add = _mm256_set1_epi64x(number);
    auto* const to = reinterpret_cast<__m256i*>(dst);
    _mm256_storeu_si256(to, _mm256_add_epi64(add, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(word))));
    _mm256_storeu_si256(to + 1, _mm256_add_epi64(add, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(word, 1))));
#else
    store_bits_plus(dst, _mm256_castps256_ps128(lanes), number);
    store_bits_plus(dst + 4, _mm256_extractf128_ps(lanes, 1), number);
#endif
}
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, __m256d lanes, std::int64_t number) noexcept {
    store_bits_plus(dst, _mm256_castpd256_pd128(lanes), number);
    store_bits_plus(dst + 2, _mm256_extractf128_pd(lanes, 1), number);
}
/// Number K of each four lanes in all four of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m256 quad_lane(__m256 a) noexcept {
    return _mm256_permute_ps(a, K * 0x55);
}
/// Quads of lanes of a and b, alternating: the first half in a, the others in b.
GRADKERN_ALWAYS_INLINE void interleave_quads(__m256& a, __m256& b) noexcept {
    const __m256 low = _mm256_permute2f128_ps(a, b, 0x20);
    b = _mm256_permute2f128_ps(a, b, 0x31);
    a = low;
}
/// Quad K of each two quads of lanes: those of a, then those of b.
template <int K>
GRADKERN_ALWAYS_INLINE __m256 every_second_quad(__m256 a, __m256 b) noexcept {
    return _mm256_permute2f128_ps(a, b, K == 0 ? 0x20 : 0x31);
}
/// Quad K of each two quads of numbers in both of them.
template <int K>
GRADKERN_ALWAYS_INLINE __m256 quad_of_two(const float* a, __m256) noexcept {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(a + 4 * K));
}
GRADKERN_ALWAYS_INLINE __m256 unpack_low(__m256 a, __m256 b) noexcept { return _mm256_unpacklo_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m256 unpack_high(__m256 a, __m256 b) noexcept { return _mm256_unpackhi_ps(a, b); }
GRADKERN_ALWAYS_INLINE __m256 low_pairs(__m256 a, __m256 b) noexcept { return _mm256_shuffle_ps(a, b, 0x44); }
GRADKERN_ALWAYS_INLINE __m256 high_pairs(__m256 a, __m256 b) noexcept { return _mm256_shuffle_ps(a, b, 0xee); }
GRADKERN_ALWAYS_INLINE void store_all(float* dst, __m256 value) noexcept { _mm256_storeu_ps(dst, value); }
GRADKERN_ALWAYS_INLINE __m256d unpack_low(__m256d a, __m256d b) noexcept { return _mm256_unpacklo_pd(a, b); }
GRADKERN_ALWAYS_INLINE __m256d unpack_high(__m256d a, __m256d b) noexcept { return _mm256_unpackhi_pd(a, b); }
GRADKERN_ALWAYS_INLINE void store_all(double* dst, __m256d value) noexcept { _mm256_storeu_pd(dst, value); }

}  // namespace detail::simd::x86
GRADKERN_ISA_NAMESPACE_END

#endif  // __AVX__

#endif  // GRADKERN_DETAIL_SIMD_X86_AVX_HPP
