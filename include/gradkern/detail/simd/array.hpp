#ifndef GRADKERN_DETAIL_SIMD_ARRAY_HPP
#define GRADKERN_DETAIL_SIMD_ARRAY_HPP

/// \file
/// \brief Vectors as plain arrays: for targets without vector registers, and to walk the code paths of any vector length on any machine.
///
/// Included by detail/simd.hpp alone; one of array.hpp, batch.hpp defines `vec_of` and its arithmetic.

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

/// As many as fill the same bytes, one at least.
template <class Real>
inline constexpr std::ptrdiff_t lanes_of = sizeof(Real) == sizeof(float) || lanes == 1 ? lanes : lanes / 2;

template <class Real>
struct vec_of {
    Real lane[lanes_of<Real>];
};
using vec = vec_of<float>;

inline constexpr bool is_fused = true;

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> broadcast(Real value) noexcept {
    vec_of<Real> r;
    for (Real& lane : r.lane) lane = value;
    return r;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> load(const Real* source) noexcept {
    vec_of<Real> r;
    std::memcpy(r.lane, source, sizeof r.lane);
    return r;
}

template <class Real>
GRADKERN_ALWAYS_INLINE void store(Real* dst, vec_of<Real> value) noexcept {
    std::memcpy(dst, value.lane, sizeof value.lane);
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> fma(vec_of<Real> a, vec_of<Real> b, vec_of<Real> c) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) c.lane[i] = own::fma(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> add(vec_of<Real> a, vec_of<Real> b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) a.lane[i] += b.lane[i];
    return a;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> mul(vec_of<Real> a, vec_of<Real> b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) a.lane[i] *= b.lane[i];
    GRADKERN_DETAIL_OPAQUE(a);
    return a;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> div(vec_of<Real> a, vec_of<Real> b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) a.lane[i] /= b.lane[i];
    return a;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> sqrt(vec_of<Real> a) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) a.lane[i] = own::sqrt(a.lane[i]);
    return a;
}

template <class Real>
struct mask_of {
    bool lane[lanes_of<Real>];
};
using mask = mask_of<float>;

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> greater(vec_of<Real> a, vec_of<Real> b) noexcept {
    mask_of<Real> r;
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) r.lane[i] = a.lane[i] > b.lane[i];
    return r;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> is_nan(vec_of<Real> a) noexcept {
    mask_of<Real> r;
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) r.lane[i] = a.lane[i] != a.lane[i];
    return r;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> equal_bits(vec_of<Real> a, vec_of<Real> b) noexcept {
    mask_of<Real> r;
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i)
        r.lane[i] = std::memcmp(&a.lane[i], &b.lane[i], sizeof(Real)) == 0;
    return r;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> either(mask_of<Real> a, mask_of<Real> b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) a.lane[i] = a.lane[i] || b.lane[i];
    return a;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE mask_of<Real> but_not(mask_of<Real> a, mask_of<Real> b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i) a.lane[i] = a.lane[i] && !b.lane[i];
    return a;
}

template <class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE vec_of<Real> select(mask_of<Real> m, vec_of<Real> a, vec_of<Real> b) noexcept {
    for (std::ptrdiff_t i = 0; i < lanes_of<Real>; ++i)
        std::memcpy(&b.lane[i], m.lane[i] ? &a.lane[i] : &b.lane[i], sizeof(Real));
    return b;
}

}  // namespace detail::simd
GRADKERN_ISA_NAMESPACE_END

#endif  // GRADKERN_DETAIL_SIMD_ARRAY_HPP
