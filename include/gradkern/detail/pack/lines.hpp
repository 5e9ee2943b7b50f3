// Planes packed as lines: the columns of one channel, for tiles with columns in the lanes; and the way back.
#pragma once

#include <cstddef>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Packs rows of n neighbours, `row_step` elements apart, as lines, and writes a vector of -0 behind each. Rows that follow one another
/// are a stream.
template <class T>
inline void pack_lines(const T* from, std::ptrdiff_t row_step, std::ptrdiff_t rows, std::ptrdiff_t n,
                       accumulate_t<T>* to, std::ptrdiff_t pitch) noexcept {
    for (std::ptrdiff_t h = 0; h < rows; ++h, to += pitch) {
        const T* const row = from + h * row_step;
        // Whole vectors may go over the end of a row: what lies there is the next one.
        const std::ptrdiff_t there = row_step == n ? (rows - h) * n : n;
        std::ptrdiff_t x = 0;
        for (; x < n && x + simd::wide_lanes<T> <= there; x += simd::wide_lanes<T>) {
            simd::prefetch_stream(row + x, simd::wide_lanes<T>);
            simd::store(to + x, simd::load_wide(row + x));
        }
        if (x < n) simd::store(to + x, simd::load_wide_partial(row + x, n - x));
        simd::store(to + n, simd::broadcast(-accumulate_t<T>{0}));
    }
}

/// unpack_lines into a tensor whose elements only the function knows.
template <class Real>
using unpack_lines_function = void (*)(const Real* from, std::ptrdiff_t pitch, std::ptrdiff_t rows, std::ptrdiff_t n,
                                       std::byte* to, std::ptrdiff_t row_step) noexcept;

/// The way back, without what lies behind the lines.
template <class T>
inline void unpack_lines(const accumulate_t<T>* from, std::ptrdiff_t pitch, std::ptrdiff_t rows, std::ptrdiff_t n,
                         T* to, std::ptrdiff_t row_step) noexcept {
    for (std::ptrdiff_t h = 0; h < rows; ++h, from += pitch) {
        T* const row = to + h * row_step;
        const std::ptrdiff_t there = row_step == n ? (rows - h) * n : n;  // the next row is written later
        std::ptrdiff_t x = 0;
        for (; x < n && x + simd::wide_lanes<T> <= there; x += simd::wide_lanes<T>) {
            simd::prefetch_stream_to_write(row + x, simd::wide_lanes<T>);
            simd::store_narrow(row + x, simd::load(from + x));
        }
        if (x < n) simd::store_narrow_partial(row + x, simd::load(from + x), n - x);
    }
}
template <class T>
void unpack_line_bytes(const accumulate_t<T>* from, std::ptrdiff_t pitch, std::ptrdiff_t rows, std::ptrdiff_t n,
                       std::byte* to, std::ptrdiff_t row_step) noexcept {
    unpack_lines(from, pitch, rows, n, reinterpret_cast<T*>(to), row_step);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
