// Moving numbers into the order the register tile reads them, always as f32: lanes innermost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Stores `value`, or the previous value plus `value`: the previous value is added last, with one rounding to T.
template <class T>
GRADKERN_ALWAYS_INLINE void store_result(T* to, float value, bool accumulate) noexcept {
    store_element(to, accumulate ? load_element(to) + value : value);
}

/// out[x * out_step + j] = source[j * lane_step + x * source_step] for lanes j in [0, lanes), x in [0, count).
///
/// Rows of neighbours are copied, columns of neighbours go through registers in blocks of vector x vector, whatever else
/// element by element.
template <class T>
inline void pack_lanes(const T* source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes, std::ptrdiff_t source_step,
                       std::ptrdiff_t count, float* out, std::ptrdiff_t out_step) noexcept {
    if (lane_step == 1) {
        if (source_step == lanes && out_step == lanes) {
            simd::widen(source, out, count * lanes);
        } else {
            for (std::ptrdiff_t x = 0; x < count; ++x) simd::widen(source + x * source_step, out + x * out_step, lanes);
        }
        return;
    }
    std::ptrdiff_t j = 0;
    if constexpr (std::is_same_v<T, float>) {
        constexpr auto block = static_cast<std::ptrdiff_t>(simd::lanes);
        if (source_step == 1 && count >= block) {
            for (; j + block <= lanes; j += block) {
                const float* s = source + j * lane_step;
                for (std::ptrdiff_t x = 0; x < count; x += block) {
                    x = std::min(x, count - block);  // the last block overlaps the one before: the same numbers again
                    simd::transpose(s + x, lane_step, out + x * out_step + j, out_step);
                }
            }
        }
    }
    for (; j < lanes; ++j) {
        const T* s = source + j * lane_step;
        for (std::ptrdiff_t x = 0; x < count; ++x) out[x * out_step + j] = load_element(s + x * source_step);
    }
}

/// out[x * out_step + j] = 0 for lanes j in [first, last): lanes without a source, which no result ever shows.
inline void clear_lanes(std::ptrdiff_t first, std::ptrdiff_t last, std::ptrdiff_t count, float* out,
                        std::ptrdiff_t out_step) noexcept {
    if (first == last) return;
    for (std::ptrdiff_t x = 0; x < count; ++x) std::fill(out + x * out_step + first, out + x * out_step + last, 0.0F);
}

/// The way back: out[j * lane_step + x * out_step] = in[x * in_step + j], or that plus the previous value.
template <class T>
inline void unpack_lanes(const float* in, std::ptrdiff_t in_step, std::ptrdiff_t lanes, std::ptrdiff_t count, T* out,
                         std::ptrdiff_t lane_step, std::ptrdiff_t out_step, bool accumulate) noexcept {
    std::ptrdiff_t j = 0;
    if (!accumulate) {
        if (lane_step == 1) {
            for (std::ptrdiff_t x = 0; x < count; ++x) simd::narrow(in + x * in_step, out + x * out_step, lanes);
            return;
        }
        if constexpr (std::is_same_v<T, float>) {
            constexpr auto block = static_cast<std::ptrdiff_t>(simd::lanes);
            if (out_step == 1 && count >= block) {
                for (; j + block <= lanes; j += block) {
                    for (std::ptrdiff_t x = 0; x < count; x += block) {
                        x = std::min(x, count - block);
                        simd::transpose(in + x * in_step + j, in_step, out + j * lane_step + x, lane_step);
                    }
                }
            }
        }
    }
    for (; j < lanes; ++j) {
        T* lane = out + j * lane_step;
        for (std::ptrdiff_t x = 0; x < count; ++x) store_result(lane + x * out_step, in[x * in_step + j], accumulate);
    }
}

/// to[i] += from[i], then from[i] = 0: one level of a fixed-order sum into the next.
inline void fold(float* from, float* to, std::ptrdiff_t count) noexcept {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        to[i] += from[i];
        from[i] = 0.0F;
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
