#ifndef GRADKERN_DETAIL_SIMD_HPP
#define GRADKERN_DETAIL_SIMD_HPP

/// \file
/// \brief Vectors of float, conversions of 16-bit types and register transposes; with the files below detail/simd/, the only place that
/// names xsimd, and beside target.hpp the only one that tells instruction sets apart.
///
/// In `gradkern::detail::simd`, for the target that the translation unit is compiled for:
///
/// | name | meaning |
/// |---|---|
/// | `vec_of<Real>`, `lanes_of<Real>` | a vector of floats or doubles and their number, a power of two; a double counts as two floats, but where `lanes` is 1 |
/// | `vec`, `lanes`, `mask` | those of floats. What names neither `vec` nor a 16-bit type below is there for both |
/// | `is_fused` | `fma` rounds once; where false (x86 before FMA), it rounds the product and then the sum |
/// | `zero<Real>()`, `broadcast(x)` | all lanes equal |
/// | `load(p)`, `store(p, v)` | whole vectors, any alignment |
/// | `load_partial(p, n)`, `store_partial(p, v, n)` | the first n lanes, the others +0 or left alone; nothing at or behind `p + n` is touched |
/// | `fma(a, b, c)` | `a * b + c` |
/// | `fma_broadcast(p, b, c)` | `*p * b + c` |
/// | `add mul div` | a product is never contracted with a later sum, whatever the compiler's flags |
/// | `sqrt(a)` | the root, rounded once |
/// | `div_whole(a, d, r)` | `a / d`, where d is a whole number below 2^20 and r is `1 / d`; where r is a NaN, d may be anything |
/// | `keep(a)` | `a`, in a register: a compiler does not read it from memory again for each use |
/// | `greater(a, b)`, `is_nan(a)` | a `mask`: one truth a lane |
/// | `equal_bits(a, b)` | a `mask`: whether the lanes' bits are the same |
/// | `add_bits(a, b)` | the sum of the lanes' bits, as integers of 32 bits, of doubles of 64 |
/// | `store_bits_plus(p, v, n)` | `p[i] = n` + the bits of lane i, as integers of 64 bits |
/// | `quad_lane<K>(a)` | number K of each four lanes in all four of them |
/// | `quad_of_two<K>(source)` | quad K, 0 or 1, of each two quads of numbers in both of them |
/// | `every_second_quad<K>(a, b)` | quad K of each two quads of lanes, those of a, then those of b |
/// | `interleave_quads(a, b)` | quads of lanes of a and b, alternating: the first half in a, the others in b |
/// | `either(m, n)`, `but_not(m, n)` | `m or n`, `m and not n` |
/// | `select(m, a, b)` | `m ? a : b`, bit by bit: also for floats that carry other things |
/// | `widen_f16(p)`, `widen_bf16(p)` | `lanes` 16-bit patterns at any address -> vector |
/// | `narrow_f16(v, p)`, `narrow_bf16(v, p)` | vector -> `lanes` 16-bit patterns at any address |
/// | `transpose(src, src_stride, dst, dst_stride)` | a block of lanes x lanes: `dst[j * dst_stride + i] = src[i * src_stride + j]` |
/// | `load_wide(p)`, `store_narrow(p, v)` | the same as load/store for elements of any type, as vectors of the type of their sums |
/// | `widens_quickly<T>` | whether `load_wide` takes a few instructions, and no detour by way of memory |
/// | `load_wide_partial(p, n)`, `store_narrow_partial(p, v, n)` | their first n elements |
/// | `widen(src, dst, n)`, `narrow(src, dst, n)` | n elements to and from the type of their sums |
/// | `fma`, `mul` of three, two numbers | what `vec`'s do in one lane |
/// | `has_dot_bf16` | whether there are the six below, whose lanes hold two bf16 patterns each, the first one in the lower half |
/// | `pair_bf16(a, b)` | lanes of bf16 numbers, widened -> lanes of pairs |
/// | `broadcast_pair(p)` | all lanes the pair at p, any address |
/// | `dot_bf16(a, b, c)` | `c + a.first * b.first + a.second * b.second`; subnormal numbers may count as 0, rounding is the target's |
/// | `narrow_dots(v, p)` | `narrow_bf16` of such sums, none of which is subnormal |
/// | `pick_words(p, n, places)` | lane i: the patterns `places[2 * i]` and `places[2 * i + 1]` of the n at p, at most two a lane |
/// | `interleave_words(a, b, p)` | two vectors of pairs: of the patterns at a, first, with those at b |
///
/// Every operation but `dot_bf16` and `narrow_dots` gives the same bits on every target, NaN patterns of the conversions included, if the floating-point environment rounds
/// to nearest and does not flush subnormal numbers.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>

// On targets not listed vectors are arrays of floats. (32-bit NEON is left out because it flushes subnormal numbers.)
#if !defined(GRADKERN_SIMD_EMULATE_LANES) && \
    (XSIMD_WITH_SSE2 || XSIMD_WITH_NEON64 || XSIMD_WITH_SVE || XSIMD_WITH_VSX || XSIMD_WITH_RVV || XSIMD_WITH_WASM)
#include <gradkern/detail/simd/batch.hpp>
#else
#include <gradkern/detail/simd/array.hpp>
#endif
#if defined(GRADKERN_DETAIL_REGISTERS)
#undef GRADKERN_DETAIL_REGISTERS
#else
#include <gradkern/detail/simd/by_lane.hpp>
#endif

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::simd {

static_assert((lanes & (lanes - 1)) == 0);

#if defined(GRADKERN_DETAIL_FIRST_WORDS)
inline constexpr bool has_first_words = true;
using registers::copy_first_words;
#else
inline constexpr bool has_first_words = false;
void copy_first_words(unsigned char* dst, const void* source, std::ptrdiff_t n) noexcept;  // nobody calls it
#endif

#if !GRADKERN_DETAIL_DOT_BF16
inline constexpr bool has_dot_bf16 = false;
// Only for templates to name; nobody calls them.
[[nodiscard]] vec broadcast_pair(const void* source) noexcept;
[[nodiscard]] vec pair_bf16(vec low, vec high) noexcept;
[[nodiscard]] vec dot_bf16(vec a, vec b, vec c) noexcept;
void narrow_dots(vec value, void* dst) noexcept;
[[nodiscard]] vec pick_words(const void* source, std::ptrdiff_t n, const std::uint16_t* places) noexcept;
void interleave_words(const void* low, const void* high, float* dst) noexcept;
#endif

/// All lanes +0.
template <class Real = float>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> zero() noexcept {
    return broadcast(Real{0});
}

/// Elements in a line of the cache.
template <class T>
inline constexpr std::ptrdiff_t line_elements = static_cast<std::ptrdiff_t>(cache_line) /
                                                static_cast<std::ptrdiff_t>(sizeof(T));

/// The address of p[step], which may be anywhere.
template <class T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE const void* address_of(const T* p, std::ptrdiff_t step) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(step) * sizeof(T);
    return reinterpret_cast<const void*>(at);
}

/// Prefetches the line of the cache that holds p[step]. Nothing is read: the address may be anywhere.
template <class T>
GRADKERN_ALWAYS_INLINE void prefetch(const T* p, std::ptrdiff_t step = 0) noexcept {
    own::prefetch(address_of(p, step));
}

/// The same for what is read later than L1 would hold it.
template <class T>
GRADKERN_ALWAYS_INLINE void prefetch_to_l2(const T* p, std::ptrdiff_t step = 0) noexcept {
    own::prefetch_to_l2(address_of(p, step));
}

/// The same for a line that will be written.
template <class T>
GRADKERN_ALWAYS_INLINE void prefetch_to_write(const T* p, std::ptrdiff_t step = 0) noexcept {
    own::prefetch_to_write(address_of(p, step));
}

/// Prefetch the lines of a stream of loads or stores, n elements from `next` on, Distance bytes before they are used.
/// (Inlined by force: g++ drops calls of functions that only prefetch.)
template <std::int64_t Distance = target.prefetch.stream, class T>
GRADKERN_ALWAYS_INLINE void prefetch_stream(const T* next, std::ptrdiff_t n) noexcept {
    constexpr std::ptrdiff_t line = line_elements<T>;
    constexpr auto ahead = static_cast<std::ptrdiff_t>(Distance / static_cast<std::int64_t>(sizeof(T)));
    for (std::ptrdiff_t i = 0; i < n; i += line) prefetch(next, ahead + i);
}
template <class T>
GRADKERN_ALWAYS_INLINE void prefetch_stream_to_write(const T* next, std::ptrdiff_t n) noexcept {
    constexpr std::ptrdiff_t line = line_elements<T>;
    constexpr auto ahead = static_cast<std::ptrdiff_t>(target.prefetch.stream / static_cast<std::int64_t>(sizeof(T)));
    for (std::ptrdiff_t i = 0; i < n; i += line) prefetch_to_write(next, ahead + i);
}

/// One lane's product: not contracted with a later sum.
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE Real mul(Real a, std::type_identity_t<Real> b) noexcept
    requires(std::is_floating_point_v<Real>) {
    Real product = a * b;
    GRADKERN_DETAIL_OPAQUE_FLOAT(product);
    return product;
}

/// One lane's multiply-add, fused where the vector's is.
template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE Real fma(Real a, std::type_identity_t<Real> b,
                                              std::type_identity_t<Real> c) noexcept
    requires(std::is_floating_point_v<Real>) {
    if constexpr (is_fused) {
        return own::fma(a, b, c);
    } else {
        return mul(a, b) + c;
    }
}

/// Elements as a vector of the type that their sums are kept in.
template <element T>
using wide_vec = vec_of<accumulate_t<T>>;
template <element T>
inline constexpr std::ptrdiff_t wide_lanes = lanes_of<accumulate_t<T>>;

/// Whether elements are, as they lie in memory, what their sums are kept in; not those of a foreign type, which may not be read
/// through a pointer to float or double.
template <class T>
inline constexpr bool is_wide = std::is_same_v<T, float> || std::is_same_v<T, double>;

/// Whether an element may as well be widened for each use as once for all.
template <element T>
inline constexpr bool widens_quickly = element_traits<T>::type == data_type::f16    ? has_fast_f16
                                       : element_traits<T>::type == data_type::bf16 ? has_fast_bf16
                                                                                    : is_wide<T>;

/// `lanes` elements at any address.
template <element T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE wide_vec<T> load_wide(const T* source) noexcept {
    if constexpr (element_traits<T>::type == data_type::f16) {
        return widen_f16(source);
    } else if constexpr (element_traits<T>::type == data_type::bf16) {
        return widen_bf16(source);
    } else if constexpr (is_wide<T>) {
        return load(source);
    } else {  // a foreign type that is a float in memory: its bytes may not be read through a float*
        accumulate_t<T> copy[wide_lanes<T>];
        std::memcpy(copy, source, sizeof copy);
        return load(static_cast<const accumulate_t<T>*>(copy));
    }
}

/// Writes `lanes` elements at any address.
template <element T>
GRADKERN_ALWAYS_INLINE void store_narrow(T* dst, std::type_identity_t<wide_vec<T>> value) noexcept {
    if constexpr (element_traits<T>::type == data_type::f16) {
        narrow_f16(value, dst);
    } else if constexpr (element_traits<T>::type == data_type::bf16) {
        narrow_bf16(value, dst);
    } else if constexpr (is_wide<T>) {
        store(dst, value);
    } else {
        accumulate_t<T> copy[wide_lanes<T>];
        store(static_cast<accumulate_t<T>*>(copy), value);
        std::memcpy(static_cast<void*>(dst), copy, sizeof copy);
    }
}

/// Copies n < 2 * Step elements of `Bytes` bytes in pieces of fixed, falling size.
template <std::ptrdiff_t Step, std::size_t Bytes>
GRADKERN_ALWAYS_INLINE void copy_elements(unsigned char* dst, const unsigned char* source, std::ptrdiff_t n) noexcept {
    if constexpr (Step > 0) {
        if ((n & Step) != 0) {
            constexpr std::size_t piece = static_cast<std::size_t>(Step) * Bytes;
            std::memcpy(dst, source, piece);
            dst += piece;
            source += piece;
        }
        copy_elements<Step / 2, Bytes>(dst, source, n);
    }
}

/// The first n of `lanes` elements, other lanes +0; nothing behind them is read.
template <element T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE wide_vec<T> load_wide_partial(const T* source, std::ptrdiff_t n) noexcept {
    if constexpr (is_wide<T>) {
        return load_partial(source, n);
    } else if constexpr (has_first_words && element_traits<T>::type == data_type::f32) {
        return load_partial(reinterpret_cast<const float*>(source), n);  // one masked load, from any address
    } else {
        if (n >= wide_lanes<T>) return load_wide(source);
        alignas(T) unsigned char copy[static_cast<std::size_t>(wide_lanes<T>) * sizeof(T)] = {};
        if (n > 0) {
            if constexpr (has_first_words && sizeof(T) == 2) {
                copy_first_words(copy, source, n);
            } else {
                copy_elements<wide_lanes<T> / 2, sizeof(T)>(copy, reinterpret_cast<const unsigned char*>(source), n);
            }
        }
        return load_wide(reinterpret_cast<const T*>(copy));
    }
}

/// Writes the first n of `lanes` elements; nothing behind them is touched.
template <element T>
GRADKERN_ALWAYS_INLINE void store_narrow_partial(T* dst, std::type_identity_t<wide_vec<T>> value,
                                                 std::ptrdiff_t n) noexcept {
    if constexpr (is_wide<T>) {
        store_partial(dst, value, n);
    } else if (n >= wide_lanes<T>) {
        store_narrow(dst, value);
    } else if (n > 0) {
        alignas(T) unsigned char copy[static_cast<std::size_t>(wide_lanes<T>) * sizeof(T)];
        store_narrow(reinterpret_cast<T*>(copy), value);
        copy_elements<wide_lanes<T> / 2, sizeof(T)>(reinterpret_cast<unsigned char*>(dst), copy, n);
    }
}

/// `target[i] = source[i]` for i < n, exact. Elements may be written twice, with the same value.
template <element T>
void widen(const T* source, accumulate_t<T>* dst, std::ptrdiff_t n) noexcept {
    if (n < wide_lanes<T>) {
        store_partial(dst, load_wide_partial(source, n), n);
        return;
    }
    std::ptrdiff_t i = 0;
    for (; i + wide_lanes<T> <= n; i += wide_lanes<T>) store(dst + i, load_wide(source + i));
    // The last vector ends with the array and overlaps its predecessor.
    if (i < n) store(dst + (n - wide_lanes<T>), load_wide(source + (n - wide_lanes<T>)));
}

/// `target[i] = source[i]` for i < n, each rounded once. Elements may be written twice, with the same value.
template <element T>
void narrow(const accumulate_t<T>* source, T* dst, std::ptrdiff_t n) noexcept {
    if (n < wide_lanes<T>) {
        store_narrow_partial(dst, load_partial(source, n), n);
        return;
    }
    std::ptrdiff_t i = 0;
    for (; i + wide_lanes<T> <= n; i += wide_lanes<T>) store_narrow(dst + i, load(source + i));
    if (i < n) store_narrow(dst + (n - wide_lanes<T>), load(source + (n - wide_lanes<T>)));
}

}  // namespace detail::simd
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_HPP
