// Finished lines on their way from scratch to the tensor: written, repeated, or added to what is there. Long lines that
// go to many places are rounded once, and copied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// out[x] = T(line[x]) for x < n, as a part of a stream of stores.
template <element T>
inline void write_line(const accumulate_t<T>* line, std::ptrdiff_t n, T* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<T>;
    std::ptrdiff_t x = 0;
    for (; x + 4 * lanes <= n; x += 4 * lanes) {
        simd::prefetch_stream_to_write(out + x, 4 * lanes);
        for (std::ptrdiff_t i = x; i < x + 4 * lanes; i += lanes) simd::store_narrow(out + i, simd::load(line + i));
    }
    if (x < n) simd::narrow(line + x, out + x, n - x);
}

/// Copies a line that is neither read nor written elsewhere, as a part of a stream of stores.
template <element T>
inline void copy_line(const T* line, std::ptrdiff_t n, T* out) noexcept {
    constexpr std::ptrdiff_t block = simd::line_elements<T>;
    std::ptrdiff_t x = 0;
    for (; x + block <= n; x += block) {
        simd::prefetch_stream_to_write(out + x, block);
        std::memcpy(static_cast<void*>(out + x), line + x, block * sizeof(T));
    }
    if (x < n) std::memcpy(static_cast<void*>(out + x), line + x, static_cast<std::size_t>(n - x) * sizeof(T));
}

/// Where a line goes: `times` copies, `step` elements apart, in each of `lines` lines, `pitch` elements apart.
struct line_copies {
    std::ptrdiff_t times;
    std::ptrdiff_t step;
    std::ptrdiff_t lines;
    std::ptrdiff_t pitch;

    /// Calls f(offset) for the first element of each copy.
    template <class F>
    GRADKERN_ALWAYS_INLINE void for_each(const F& f) const noexcept {
        for (std::ptrdiff_t l = 0; l < lines; ++l)
            for (std::ptrdiff_t i = 0; i < times; ++i) f(l * pitch + i * step);
    }
};

/// V vectors of a line of which several copies are stored.
template <std::ptrdiff_t V, element T>
GRADKERN_ALWAYS_INLINE void store_repeated(const accumulate_t<T>* line, const line_copies& copies, T* out) noexcept {
    simd::wide_vec<T> v[bound(V)];
    GRADKERN_UNROLL
    for (std::ptrdiff_t i = 0; i < V; ++i) v[i] = simd::load(line + i * simd::wide_lanes<T>);
    copies.for_each([&](std::ptrdiff_t copy) GRADKERN_INLINE_LAMBDA {
        T* const to = out + copy;
        if constexpr (V > 1) simd::prefetch_stream_to_write(to, V * simd::wide_lanes<T>);
        GRADKERN_UNROLL
        for (std::ptrdiff_t i = 0; i < V; ++i) simd::store_narrow(to + i * simd::wide_lanes<T>, v[i]);
    });
}

/// out[w * out_step + copy + x] = T(line[w * n + x]) for w < windows, each of these copies, and x < n. (Elements may be
/// written twice, with the same value.)
template <element T>
inline void repeat_lines(const accumulate_t<T>* line, std::ptrdiff_t n, std::ptrdiff_t windows,
                         const line_copies& copies, T* out, std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<T>;
    // Memory is written fastest in long blocks, but rounding from registers is faster than reading what was rounded: where
    // stores of 16 bits are not too short.
    constexpr std::ptrdiff_t most = sizeof(T) == 2 && simd::lanes >= 16 ? 8 * lanes : 4 * lanes;
    for (std::ptrdiff_t w = 0; w < windows; ++w, line += n, out += out_step) {
        if (n < lanes || n > most) {
            write_line(line, n, out);
            copies.for_each([&](std::ptrdiff_t copy) {
                if (copy == 0) return;
                if constexpr (simd::is_wide<T>) {
                    write_line(line, n, out + copy);
                } else {
                    copy_line(out, n, out + copy);
                }
            });
            continue;
        }
        std::ptrdiff_t x = 0;
        for (; x + 4 * lanes <= n; x += 4 * lanes) store_repeated<4>(line + x, copies, out + x);
        for (; x < n; x += lanes) {
            x = std::min(x, n - lanes);  // the last vector ends with the line
            store_repeated<1>(line + x, copies, out + x);
        }
    }
}

/// out[x] = T(out[x] + line[x]) for x < n.
template <element T>
inline void accumulate_line(const accumulate_t<T>* line, std::ptrdiff_t n, T* out) noexcept {
    constexpr std::ptrdiff_t lanes = simd::wide_lanes<T>;
    std::ptrdiff_t x = 0;
    for (; x + lanes <= n; x += lanes)
        simd::store_narrow(out + x, simd::add(simd::load_wide(out + x), simd::load(line + x)));
    if (x < n) {
        const simd::wide_vec<T> sum =
            simd::add(simd::load_wide_partial(out + x, n - x), simd::load_partial(line + x, n - x));
        simd::store_narrow_partial(out + x, sum, n - x);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
