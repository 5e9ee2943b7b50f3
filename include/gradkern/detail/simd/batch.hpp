#ifndef GRADKERN_DETAIL_SIMD_BATCH_HPP
#define GRADKERN_DETAIL_SIMD_BATCH_HPP

/// \file
/// \brief `vec_of` as an xsimd batch.
///
/// Included by detail/simd.hpp alone; one of array.hpp, batch.hpp defines `vec_of` and the operations on it.

#include <xsimd/xsimd.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

#if defined(GRADKERN_DETAIL_REGISTERS)
namespace registers = GRADKERN_DETAIL_REGISTERS;
#endif

template <class Real>
using vec_of = xsimd::batch<Real, arch>;
template <class Real>
using mask_of = xsimd::batch_bool<Real, arch>;

template <class Real>
inline constexpr auto lanes_of = static_cast<std::ptrdiff_t>(vec_of<Real>::size);

using vec = vec_of<float>;
using mask = mask_of<float>;
inline constexpr std::ptrdiff_t lanes = lanes_of<float>;

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> broadcast(Real value) noexcept {
    return vec_of<Real>(value);
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> load(const Real* source) noexcept {
    return vec_of<Real>::load_unaligned(source);
}
template <class Real>
GRADKERN_ALWAYS_INLINE void store(Real* dst, vec_of<Real> value) noexcept {
    value.store_unaligned(dst);
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> add(vec_of<Real> a, vec_of<Real> b) noexcept {
    return a + b;
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> div(vec_of<Real> a, vec_of<Real> b) noexcept {
#if defined(__aarch64__) && !XSIMD_WITH_SVE
    return registers::div(a, b);
#else
    return a / b;
#endif
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> greater(vec_of<Real> a, vec_of<Real> b) noexcept {
    return a > b;
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> is_nan(vec_of<Real> a) noexcept {
    return xsimd::isnan(a);
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> either(mask_of<Real> a, mask_of<Real> b) noexcept {
    return a | b;
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> but_not(mask_of<Real> a, mask_of<Real> b) noexcept {
    return a & !b;
}
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> select(mask_of<Real> m, vec_of<Real> a, vec_of<Real> b) noexcept {
    return xsimd::select(m, a, b);
}

#if defined(GRADKERN_DETAIL_REGISTERS)

/// The register of a vector.
template <class Real>
using register_of = typename vec_of<Real>::register_type;
using register_type = register_of<float>;

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
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> fma(vec_of<Real> a, vec_of<Real> b, vec_of<Real> c) noexcept {
    return registers::fma(a, b, c);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> fma_broadcast(const Real* a, vec_of<Real> b,
                                                                vec_of<Real> c) noexcept {
    return registers::fma_broadcast(a, b, c);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> mul(vec_of<Real> a, vec_of<Real> b) noexcept {
    return registers::opaque(a * b);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> sqrt(vec_of<Real> a) noexcept {
    return registers::sqrt(a);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> div_whole(vec_of<Real> a, vec_of<Real> d, vec_of<Real> r) noexcept {
    if constexpr (std::is_same_v<Real, float>) {
        return registers::div_whole(a, d, r);
    } else {
        return div(a, d);
    }
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> keep(vec_of<Real> a) noexcept {
    return registers::opaque(a);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> load_partial(const Real* source, std::ptrdiff_t n) noexcept {
    if (n >= lanes_of<Real>) return load(source);
    return registers::load_first(source, n > 0 ? n : 0, register_of<Real>{});
}

template <class Real>
GRADKERN_ALWAYS_INLINE void store_partial(Real* dst, vec_of<Real> value, std::ptrdiff_t n) noexcept {
    if (n >= lanes_of<Real>) {
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

/// The sum of the lanes' bits as integers of as many bits.
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> add_bits(vec_of<Real> a, vec_of<Real> b) noexcept {
    return registers::add_bits(a, b);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> equal_bits(vec_of<Real> a, vec_of<Real> b) noexcept {
    return mask_of<Real>(registers::equal_bits(a, b));
}

template <class Real>
GRADKERN_ALWAYS_INLINE void store_bits_plus(std::int64_t* dst, vec_of<Real> a, std::int64_t number) noexcept {
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
template <class Real>
GRADKERN_NOINLINE void transpose(const Real* source, std::ptrdiff_t source_stride, Real* dst,
                                 std::ptrdiff_t dst_stride) noexcept {
    using quarters = register_of<Real>;
    constexpr std::ptrdiff_t rows = 16 / sizeof(Real);  // elements of a quarter
    static_assert(lanes_of<Real> % rows == 0);
    for (std::ptrdiff_t j = 0; j < lanes_of<Real>; j += rows) {
        const Real* const column = source + j;
        const quarters row0 = registers::load_quarters(column, source_stride, quarters{});
        const quarters row1 = registers::load_quarters(column + source_stride, source_stride, quarters{});
        const quarters low01 = registers::unpack_low(row0, row1);
        const quarters high01 = registers::unpack_high(row0, row1);
        Real* const out = dst + j * dst_stride;
        if constexpr (rows == 2) {
            registers::store_all(out, low01);
            registers::store_all(out + dst_stride, high01);
        } else {
            const quarters row2 = registers::load_quarters(column + 2 * source_stride, source_stride, quarters{});
            const quarters row3 = registers::load_quarters(column + 3 * source_stride, source_stride, quarters{});
            const quarters low23 = registers::unpack_low(row2, row3);
            const quarters high23 = registers::unpack_high(row2, row3);
            registers::store_all(out, registers::low_pairs(low01, low23));
            registers::store_all(out + dst_stride, registers::high_pairs(low01, low23));
            registers::store_all(out + 2 * dst_stride, registers::low_pairs(high01, high23));
            registers::store_all(out + 3 * dst_stride, registers::high_pairs(high01, high23));
        }
    }
}

#else  // other targets: what xsimd says, and the rest lane by lane (by_lane.hpp)

inline constexpr bool is_fused = XSIMD_WITH_SVE || XSIMD_WITH_VSX || XSIMD_WITH_RVV;

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> mul(vec_of<Real> a, vec_of<Real> b) noexcept {
    vec_of<Real> product = a * b;
    GRADKERN_DETAIL_OPAQUE(product);
    return product;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> sqrt(vec_of<Real> a) noexcept {
    return xsimd::sqrt(a);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> fma(vec_of<Real> a, vec_of<Real> b, vec_of<Real> c) noexcept {
    if constexpr (is_fused) {
        return xsimd::fma(a, b, c);
    } else {
        return mul(a, b) + c;
    }
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> equal_bits(vec_of<Real> a, vec_of<Real> b) noexcept {
    Real x[lanes_of<Real>];
    Real y[lanes_of<Real>];
    store(x, a);
    store(y, b);
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i)
        x[i] = std::memcmp(&x[i], &y[i], sizeof(Real)) == 0 ? Real{1} : Real{0};
    return greater(load(x), broadcast(Real{0}));
}

#endif

}  // namespace detail::simd
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_BATCH_HPP
