// Finished lines on their way from f32 scratch to the tensor: written, repeated, or added to what is there.
#pragma once

#include <cstddef>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// out[x] = T(line[x]) for x < n, as a part of a stream of stores.
template <simd::float_element T>
inline void write_line(const float* line, std::ptrdiff_t n, T* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    std::ptrdiff_t x = 0;
    for (; x + 4 * lanes <= n; x += 4 * lanes) {
        simd::ask_to_write(out + x, 4 * lanes);
        for (std::ptrdiff_t i = x; i < x + 4 * lanes; i += lanes) simd::store_narrow(out + i, simd::load(line + i));
    }
    if (x < n) simd::narrow(line + x, out + x, n - x);
}

/// out[i * out_step + x] = T(line[x]) for x < n and i < times.
template <simd::float_element T>
inline void repeat_line(const float* line, std::ptrdiff_t n, std::ptrdiff_t times, T* out,
                        std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    if (n < lanes || n >= 4 * lanes) {
        for (std::ptrdiff_t i = 0; i < times; ++i) write_line(line, n, out + i * out_step);
        return;
    }
    for (std::ptrdiff_t next = 0; next < n; next += lanes) {
        const std::ptrdiff_t x = next + lanes <= n ? next : n - lanes;  // the last vector ends with the line
        const simd::vec v = simd::load(line + x);
        for (std::ptrdiff_t i = 0; i < times; ++i) simd::store_narrow(out + i * out_step + x, v);
    }
}

/// out[x] = T(f32(out[x]) + line[x]) for x < n.
template <simd::float_element T>
inline void accumulate_line(const float* line, std::ptrdiff_t n, T* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::lanes;
    std::ptrdiff_t x = 0;
    for (; x + lanes <= n; x += lanes)
        simd::store_narrow(out + x, simd::add(simd::load_wide(out + x), simd::load(line + x)));
    if (x < n) {
        const simd::vec sum = simd::add(simd::load_wide_partial(out + x, n - x), simd::load_partial(line + x, n - x));
        simd::store_narrow_partial(out + x, sum, n - x);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
