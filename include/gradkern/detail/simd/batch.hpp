#ifndef GRADKERN_DETAIL_SIMD_BATCH_HPP
#define GRADKERN_DETAIL_SIMD_BATCH_HPP

/// \file
/// \brief `vec` as an xsimd batch.
///
/// Included by detail/simd.hpp alone; one of array.hpp, batch.hpp defines `vec` and the operations on it.

#include <xsimd/xsimd.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>

#if XSIMD_WITH_SSE2
#include <gradkern/detail/simd/x86.hpp>
#define GRADKERN_DETAIL_REGISTERS x86
#elif defined(__aarch64__) && !XSIMD_WITH_SVE
#include <gradkern/detail/simd/neon.hpp>
#define GRADKERN_DETAIL_REGISTERS neon
#endif

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd {

#if defined(GRADKERN_SIMD_ARCH)
using arch = xsimd::GRADKERN_SIMD_ARCH;
#elif defined(__AVX512F__) && !(defined(__AVX512CD__) && defined(__AVX512DQ__) && defined(__AVX512BW__))
using arch = xsimd::avx512f;  // of such a CPU (-march=knl) xsimd may choose avx512cd, for which it has no registers
#else
using arch = xsimd::default_arch;
#endif

using vec = xsimd::batch<float, arch>;

inline constexpr std::ptrdiff_t lanes = static_cast<std::ptrdiff_t>(vec::size);

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec broadcast(float value) noexcept { return vec(value); }
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec load(const float* source) noexcept { return vec::load_unaligned(source); }
GRADKERN_ALWAYS_INLINE void store(float* dst, vec value) noexcept { value.store_unaligned(dst); }
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec add(vec a, vec b) noexcept { return a + b; }
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec sub(vec a, vec b) noexcept { return a - b; }
#if defined(__aarch64__) && !XSIMD_WITH_SVE
// xsimd 8.1 divides floats by a refined reciprocal here, which does not round correctly.
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec div(vec a, vec b) noexcept { return vdivq_f32(a, b); }
#else
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec div(vec a, vec b) noexcept { return a / b; }
#endif

using mask = vec::batch_bool_type;

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask greater(vec a, vec b) noexcept { return a > b; }
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask is_nan(vec a) noexcept { return xsimd::isnan(a); }
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask either(mask a, mask b) noexcept { return a | b; }
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask but_not(mask a, mask b) noexcept { return a & !b; }
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec select(mask m, vec a, vec b) noexcept { return xsimd::select(m, a, b); }

#if defined(GRADKERN_DETAIL_REGISTERS)

namespace registers = GRADKERN_DETAIL_REGISTERS;

using register_type = vec::register_type;

inline constexpr bool has_fast_bf16 = true;
#if GRADKERN_DETAIL_HAS_F16C || defined(__AVX512F__) || defined(__aarch64__)
inline constexpr bool has_fast_f16 = true;
#else
inline constexpr bool has_fast_f16 = false;
#endif

#if GRADKERN_DETAIL_HAS_FMA || defined(__aarch64__)
inline constexpr bool is_fused = true;
#else
inline constexpr bool is_fused = lanes == 16;  // AVX-512 alone has it without the flag
#endif

// The intrinsics, and not xsimd::fma: that one is a product and a sum for some architectures in some versions.
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec fma(vec a, vec b, vec c) noexcept { return registers::fma(a, b, c); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec fma_broadcast(const float* a, vec b, vec c) noexcept {
    return registers::fma_broadcast(a, b, c);
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec mul(vec a, vec b) noexcept { return registers::opaque(a * b); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec sqrt(vec a) noexcept { return registers::sqrt(a); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec div_whole(vec a, vec d, vec r) noexcept {
    return registers::div_whole(a, d, r);
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec keep(vec a) noexcept { return registers::opaque(a); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec min(vec a, vec b) noexcept { return registers::min(a, b); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec max(vec a, vec b) noexcept { return registers::max(a, b); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec load_partial(const float* source, std::ptrdiff_t n) noexcept {
    if (n >= lanes) return load(source);
    return registers::load_first(source, n > 0 ? n : 0, register_type{});
}

GRADKERN_ALWAYS_INLINE void store_partial(float* dst, vec value, std::ptrdiff_t n) noexcept {
    if (n >= lanes) {
        store(dst, value);
    } else if (n > 0) {
        registers::store_first(dst, value, n);
    }
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec widen_f16(const void* source) noexcept {
    return registers::load_wide_f16(source, register_type{});
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec widen_bf16(const void* source) noexcept {
    return registers::load_wide_bf16(source, register_type{});
}

GRADKERN_ALWAYS_INLINE void narrow_f16(vec value, void* dst) noexcept { registers::store_narrow_f16(dst, value); }

GRADKERN_ALWAYS_INLINE void narrow_bf16(vec value, void* dst) noexcept { registers::store_narrow_bf16(dst, value); }

/// The sum of the lanes' bits as integers of 32 bits.
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec add_bits(vec a, vec b) noexcept { return registers::add_bits(a, b); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask equal_bits(vec a, vec b) noexcept {
    return mask(registers::equal_bits(a, b));
}

GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, vec a, std::int64_t number) noexcept {
    registers::store_bits_plus(dst, a, number);
}

/// Number K of each four lanes in all four of them.
template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec quad_lane(vec a) noexcept {
    return registers::quad_lane<K>(a);
}

template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec quad_of_two(const float* a) noexcept {
    return registers::quad_of_two<K>(a, register_type{});
}
template <int K>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec every_second_quad(vec a, vec b) noexcept {
    return registers::every_second_quad<K>(a, b);
}
GRADKERN_ALWAYS_INLINE void interleave_quads(vec& a, vec& b) noexcept {
    register_type x = a;
    register_type y = b;
    registers::interleave_quads(x, y);
    a = vec(x);
    b = vec(y);
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec permute(vec a, const std::int32_t* places) noexcept {
    return registers::permute(a, places);
}

#if GRADKERN_DETAIL_DOT_BF16
inline constexpr bool has_dot_bf16 = true;
static_assert(lanes == 16);

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec broadcast_pair(const void* source) noexcept {
    std::uint32_t bits;
    std::memcpy(&bits, source, sizeof bits);
    return registers::broadcast_bits(bits, register_type{});
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec pair_bf16(vec low, vec high) noexcept {
    return registers::join_halves(low, high);
}
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec dot_bf16(vec a, vec b, vec c) noexcept { return registers::dot_bf16(a, b, c); }
GRADKERN_ALWAYS_INLINE void narrow_dots(vec value, void* dst) noexcept { registers::narrow_dots(dst, value); }
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec pick_words(const void* source, std::ptrdiff_t n,
                                                    const std::uint16_t* places) noexcept {
    return registers::pick_words(source, n, places);
}
GRADKERN_ALWAYS_INLINE void interleave_words(const void* low, const void* high, float* dst) noexcept {
    registers::interleave_words(low, high, dst);
}
#endif

/// Not inlined: to transpose takes much longer than a call, and is done at many places.
GRADKERN_NOINLINE inline void transpose(const float* source, std::ptrdiff_t source_stride, float* dst,
                                        std::ptrdiff_t dst_stride) noexcept {
    static_assert(lanes % 4 == 0);
    for (std::ptrdiff_t j = 0; j < lanes; j += 4) {
        const float* const column = source + j;
        const register_type row0 = registers::load_quarters(column, source_stride, register_type{});
        const register_type row1 = registers::load_quarters(column + source_stride, source_stride, register_type{});
        const register_type row2 = registers::load_quarters(column + 2 * source_stride, source_stride, register_type{});
        const register_type row3 = registers::load_quarters(column + 3 * source_stride, source_stride, register_type{});
        const register_type low01 = registers::unpack_low(row0, row1);
        const register_type low23 = registers::unpack_low(row2, row3);
        const register_type high01 = registers::unpack_high(row0, row1);
        const register_type high23 = registers::unpack_high(row2, row3);
        float* const out = dst + j * dst_stride;
        registers::store_all(out, registers::low_pairs(low01, low23));
        registers::store_all(out + dst_stride, registers::high_pairs(low01, low23));
        registers::store_all(out + 2 * dst_stride, registers::low_pairs(high01, high23));
        registers::store_all(out + 3 * dst_stride, registers::high_pairs(high01, high23));
    }
}

#else  // other targets: what xsimd says, and the rest lane by lane (by_lane.hpp)

inline constexpr bool is_fused = XSIMD_WITH_SVE || XSIMD_WITH_VSX || XSIMD_WITH_RVV;

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec mul(vec a, vec b) noexcept {
    vec product = a * b;
    GRADKERN_DETAIL_OPAQUE(product);
    return product;
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec sqrt(vec a) noexcept { return xsimd::sqrt(a); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec fma(vec a, vec b, vec c) noexcept {
    if constexpr (is_fused) {
        return xsimd::fma(a, b, c);
    } else {
        return mul(a, b) + c;
    }
}

[[nodiscard]] GRADKERN_ALWAYS_INLINE vec min(vec a, vec b) noexcept { return xsimd::select(a < b, a, b); }
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec max(vec a, vec b) noexcept { return xsimd::select(a > b, a, b); }

[[nodiscard]] GRADKERN_ALWAYS_INLINE mask equal_bits(vec a, vec b) noexcept {
    float x[lanes];
    float y[lanes];
    store(x, a);
    store(y, b);
    for (std::ptrdiff_t i = 0; i < lanes; ++i) x[i] = std::memcmp(&x[i], &y[i], sizeof(float)) == 0 ? 1.0f : 0.0f;
    return greater(load(x), broadcast(0.0f));
}

#endif

}  // namespace detail::simd
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_BATCH_HPP
