// Packing into panels: numbers in the order that tiles read them, lanes innermost, always in the type of the sums; and the way back.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Stores `value`, or the previous value plus `value`: the previous value is added last, with one rounding to T.
template <class T>
GRADKERN_ALWAYS_INLINE void store_result(T* to, accumulate_t<T> value, bool accumulate) noexcept {
    store_element(to, accumulate ? load_element(to) + value : value);
}

/// Prefetch distance of packing and unpacking, in elements: a vector of rows at once is more streams than a CPU follows by itself.
template <class T>
inline constexpr auto packed_row_ahead = static_cast<std::ptrdiff_t>(target.prefetch.packed_row /
                                                                     static_cast<std::int64_t>(sizeof(T)));

/// Blocks of fewer columns than a vector has over this are faster element by element: where a part of a row is one masked load or
/// store, those of a third are not.
inline constexpr std::ptrdiff_t blocks_of_part = simd::has_first_words ? 3 : 2;

/// Rows that lie `step` elements apart, or of which `same` neighbours are one: the first row is number `number` of its own.
template <class T>
struct strided_rows {
    const T* first;
    std::ptrdiff_t step;
    std::ptrdiff_t same = 1;
    std::ptrdiff_t number = 0;
    bool goes_on = false;  // whether the caller packs on along the rows, rather than the next rows
    [[nodiscard]] GRADKERN_ALWAYS_INLINE const T* operator()(std::ptrdiff_t j) const noexcept {
        return first + (same == 1 ? j : (number + j) / same) * step;
    }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE strided_rows operator+(std::ptrdiff_t n) const noexcept {
        return {first + n, step, same, number, goes_on};
    }
};

/// How a row is read: the first n of a vector of elements, and one. Rows of pairs have their own (pack/pairs.hpp).
template <class T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::wide_vec<T> load_row(const T* row, std::ptrdiff_t n) noexcept {
    return simd::load_wide_partial(row, n);
}
template <class T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE accumulate_t<T> load_one(const T* row) noexcept {
    return load_element(row);
}
template <class T>
GRADKERN_ALWAYS_INLINE void prefetch_row(const T* row, std::ptrdiff_t step) noexcept {
    simd::prefetch(row, step);
}

/// out[x * out_step + i] = row(i)[x] for the lanes i of a vector and as many x, by way of registers. Columns x behind the first
/// `columns` are not read: there out is +0.
template <class Row, class Real>
GRADKERN_ALWAYS_INLINE void transpose_block(const Row& row, std::ptrdiff_t columns, Real* out,
                                            std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t block = simd::lanes_of<Real>;
    alignas(64) Real square[bound(block * block)];
    for (std::ptrdiff_t i = 0; i < block; ++i) simd::store(square + i * block, load_row(row(i), columns));
    simd::transpose(square, block, out, out_step);
}

/// out[x * out_step + j] = row(j)[x] for lanes j in [0, lanes), x in [0, count): blocks of vector x vector go through
/// registers, whatever is left element by element. Lanes may share a row.
template <class T, class Row>
GRADKERN_NOINLINE void pack_columns(const Row& rows, std::ptrdiff_t lanes, std::ptrdiff_t count, accumulate_t<T>* out,
                                    std::ptrdiff_t out_step) noexcept {
    const Row row = rows;  // a copy, which no store can change
    constexpr std::ptrdiff_t block = simd::wide_lanes<T>;
    // Pieces of columns, so that what one block of lanes has written is in L1 when the next one writes beside it.
    constexpr std::ptrdiff_t piece = 8 * block;
    const std::ptrdiff_t whole = blocks_of_part * count >= block ? lanes / block * block : 0;
    bool direct = false;  // no detour by way of a square: 5 % of a depthwise layer
    std::ptrdiff_t ahead = packed_row_ahead<T>;
    if constexpr (std::is_same_v<Row, strided_rows<accumulate_t<T>>>) {
        direct = row.same == 1;
        if (count <= ahead && !row.goes_on) ahead = block * row.step;  // short rows: the next block of them
    }
    for (std::ptrdiff_t begin = 0; begin < count && whole > 0; begin += piece) {
        const std::ptrdiff_t end = std::min(count, begin + piece);
        for (std::ptrdiff_t j = 0; j < whole; j += block) {
            if (count < block) {
                accumulate_t<T> transposed[bound(block * block)];
                transpose_block([&](std::ptrdiff_t i) { return row(j + i); }, count, transposed, block);
                for (std::ptrdiff_t x = 0; x < count; ++x)
                    simd::store(out + x * out_step + j, simd::load(transposed + x * block));
                continue;
            }
            std::array<decltype(row(0)), static_cast<std::size_t>(block)> of_block;
            for (std::ptrdiff_t i = 0; i < block && !direct; ++i) of_block[static_cast<std::size_t>(i)] = row(j + i);
            for (std::ptrdiff_t next = begin; next < end; next += block) {
                const std::ptrdiff_t x =
                    std::min(next, count - block);  // the last block overlaps: the same numbers again
                accumulate_t<T>* const to = out + x * out_step + j;
                const bool prefetches = x % simd::line_elements<T> < block;  // once a line
                if constexpr (std::is_same_v<Row, strided_rows<accumulate_t<T>>>) {
                    if (direct) {
                        const accumulate_t<T>* const from = row.first + j * row.step + x;
                        if (prefetches)
                            for (std::ptrdiff_t i = 0; i < block; ++i) simd::prefetch(from, i * row.step + ahead);
                        simd::transpose(from, row.step, to, out_step);
                        continue;
                    }
                }
                if (prefetches)
                    for (const auto& from : of_block) prefetch_row(from, x + packed_row_ahead<T>);
                transpose_block([&](std::ptrdiff_t i) { return of_block[static_cast<std::size_t>(i)] + x; }, block, to,
                                out_step);
            }
        }
    }
    std::ptrdiff_t j = whole;
    if constexpr (std::is_same_v<Row,
                                 strided_rows<accumulate_t<T>>>) {  // as images have: one pass over what is written
        for (; direct && lanes - j >= 3; j += 3) {
            const T* s = row.first + j * row.step;
            accumulate_t<T>* to = out + j;
            for (std::ptrdiff_t x = 0; x < count; ++x, ++s, to += out_step) {
                to[0] = load_element(s);
                to[1] = load_element(s + row.step);
                to[2] = load_element(s + 2 * row.step);
            }
        }
    }
    for (; j < lanes; ++j) {
        const auto s = row(j);
        for (std::ptrdiff_t x = 0; x < count; ++x) out[x * out_step + j] = load_one(s + x);
    }
}

/// out[x * out_step + j] = source[x * source_step + j] for lanes j in [0, lanes), x in [0, count): two vectors of some
/// pixels at a time. A whole pixel at a time is a copy of memory, for which g++ has loops half as fast. Lines of the next
/// pixels are prefetched, since a CPU does not follow parts of pixels.
template <class T>
inline void pack_contiguous_lanes(const T* source, std::ptrdiff_t lanes, std::ptrdiff_t source_step,
                                  std::ptrdiff_t count, accumulate_t<T>* out, std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t block = simd::wide_lanes<T>;
    constexpr std::ptrdiff_t piece = target.prefetch.packed_lanes;
    const std::ptrdiff_t ahead = count >= piece ? piece * source_step : 0;  // some callers take pixels piece by piece
    for (std::ptrdiff_t begin = 0; begin < count; begin += piece) {
        const std::ptrdiff_t end = std::min(count, begin + piece);
        std::ptrdiff_t j = 0;
        for (; j + 2 * block <= lanes; j += 2 * block) {
            for (std::ptrdiff_t x = begin; x < end; ++x) {
                const T* const from = source + x * source_step + j;
                accumulate_t<T>* const to = out + x * out_step + j;
                simd::prefetch(from, ahead);
                simd::store(to, simd::load_wide(from));
                simd::store(to + block, simd::load_wide(from + block));
            }
        }
        if (j == lanes) continue;
        if (j > 0) j = std::min(j, lanes - block);  // the last vector overlaps its predecessor
        for (std::ptrdiff_t x = begin; x < end; ++x)
            simd::widen(source + x * source_step + j, out + x * out_step + j, lanes - j);
    }
}

/// out[x * out_step + j] = source[j * lane_step + x * source_step] for lanes j in [0, lanes), x in [0, count).
template <class T>
GRADKERN_NOINLINE void pack_lanes(const T* source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes,
                                  std::ptrdiff_t source_step, std::ptrdiff_t count, accumulate_t<T>* out,
                                  std::ptrdiff_t out_step) noexcept {
    if (lane_step == 1 && source_step == lanes && out_step == lanes) {
        simd::widen(source, out, count * lanes);
    } else if (lane_step == 1 && lanes >= simd::wide_lanes<T> / 2) {  // fewer elements are faster one by one
        pack_contiguous_lanes(source, lanes, source_step, count, out, out_step);
    } else if (source_step == 1) {
        pack_columns<T>(strided_rows<T>{source, lane_step}, lanes, count, out, out_step);
    } else {
        for (std::ptrdiff_t j = 0; j < lanes; ++j) {
            const T* s = source + j * lane_step;
            for (std::ptrdiff_t x = 0; x < count; ++x) out[x * out_step + j] = load_element(s + x * source_step);
        }
    }
}

/// out[x * out_step + j] = 0 for lanes j in [first, last): lanes without a source, which no result ever shows.
template <class Real>
inline void clear_lanes(std::ptrdiff_t first, std::ptrdiff_t last, std::ptrdiff_t count, Real* out,
                        std::ptrdiff_t out_step) noexcept {
    if (first == last) return;
    for (std::ptrdiff_t x = 0; x < count; ++x)
        own::fill(out + x * out_step + first, out + x * out_step + last, Real{0});
}

/// unpack_lanes where lanes are neighbours in memory: a tile's rows, often a few vectors. No calls.
template <class T>
GRADKERN_ALWAYS_INLINE void unpack_contiguous_lanes(const accumulate_t<T>* in, std::ptrdiff_t in_step,
                                                    std::ptrdiff_t lanes, std::ptrdiff_t count, T* out,
                                                    std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t block = simd::wide_lanes<T>;
    for (std::ptrdiff_t x = 0; x < count; ++x) {
        const accumulate_t<T>* const from = in + x * in_step;
        T* const to = out + x * out_step;
        std::ptrdiff_t j = 0;
        for (; j + block <= lanes; j += block) simd::store_narrow(to + j, simd::load(from + j));
        if (j < lanes) simd::store_narrow_partial(to + j, simd::load_partial(from + j, lanes - j), lanes - j);
    }
}

/// unpack_lanes where columns are neighbours in memory, a block of lanes at a time; returns how many lanes are done. Of fewer
/// columns than a vector has, a part of each vector.
template <class T>
GRADKERN_ALWAYS_INLINE std::ptrdiff_t unpack_columns(const accumulate_t<T>* in, std::ptrdiff_t in_step,
                                                     std::ptrdiff_t lanes, std::ptrdiff_t count, T* out,
                                                     std::ptrdiff_t lane_step) noexcept {
    constexpr std::ptrdiff_t block = simd::wide_lanes<T>;
    std::ptrdiff_t j = 0;
    for (; count < block && blocks_of_part * count >= block && j + block <= lanes; j += block) {
        accumulate_t<T> square[bound(block * block)] = {};
        accumulate_t<T> transposed[bound(block * block)];
        for (std::ptrdiff_t x = 0; x < count; ++x) simd::store(square + x * block, simd::load(in + x * in_step + j));
        simd::transpose(square, block, transposed, block);
        for (std::ptrdiff_t i = 0; i < block; ++i)
            simd::store_narrow_partial(out + (j + i) * lane_step, simd::load(transposed + i * block), count);
    }
    for (; count >= block && j + block <= lanes; j += block) {
        for (std::ptrdiff_t next = 0; next < count; next += block) {
            const std::ptrdiff_t x = std::min(next, count - block);  // the last block overlaps
            const accumulate_t<T>* const from = in + x * in_step + j;
            T* const to = out + j * lane_step + x;
            if (x % simd::line_elements<T> < block)  // once a line
                for (std::ptrdiff_t i = 0; i < block; ++i)
                    simd::prefetch_to_write(to, i * lane_step + packed_row_ahead<T>);
            if constexpr (simd::is_wide<T>) {
                simd::transpose(from, in_step, to, lane_step);
            } else {
                accumulate_t<T> square[bound(block * block)];
                simd::transpose(from, in_step, square, block);
                for (std::ptrdiff_t i = 0; i < block; ++i)
                    simd::store_narrow(to + i * lane_step, simd::load(square + i * block));
            }
        }
    }
    return j;
}

/// The way back: out[j * lane_step + x * out_step] = in[x * in_step + j], or that plus the previous value.
template <class T>
inline void unpack_lanes(const accumulate_t<T>* in, std::ptrdiff_t in_step, std::ptrdiff_t lanes, std::ptrdiff_t count,
                         T* out, std::ptrdiff_t lane_step, std::ptrdiff_t out_step, bool accumulate) noexcept {
    std::ptrdiff_t j = 0;
    if (!accumulate) {
        if (lane_step == 1 && in_step == lanes && out_step == lanes) {
            simd::narrow(in, out, count * lanes);
            return;
        }
        if (lane_step == 1) {
            unpack_contiguous_lanes(in, in_step, lanes, count, out, out_step);
            return;
        }
        if (lanes == 1 && in_step == 1 && out_step == 1) {
            simd::narrow(in, out, count);
            return;
        }
        if (out_step == 1) j = unpack_columns(in, in_step, lanes, count, out, lane_step);
    }
    for (; j < lanes; ++j) {
        T* lane = out + j * lane_step;
        for (std::ptrdiff_t x = 0; x < count; ++x) store_result(lane + x * out_step, in[x * in_step + j], accumulate);
    }
}

/// The same of f64 sums of other elements, each rounded to f32 on the way; in_step <= 128.
template <class T>
requires(!std::is_same_v<accumulate_t<T>, double>) inline void unpack_lanes(const double* in, std::ptrdiff_t in_step,
                                                                            std::ptrdiff_t lanes, std::ptrdiff_t count,
                                                                            T* out, std::ptrdiff_t lane_step,
                                                                            std::ptrdiff_t out_step,
                                                                            bool accumulate) noexcept {
    std::array<float, 1024> rounded;
    const std::ptrdiff_t most = static_cast<std::ptrdiff_t>(rounded.size()) / in_step;
    for (std::ptrdiff_t x = 0; x < count; x += most) {
        const std::ptrdiff_t here = std::min(most, count - x);
        for (std::ptrdiff_t i = 0; i < (here - 1) * in_step + lanes; ++i)
            rounded[static_cast<std::size_t>(i)] = static_cast<float>(in[x * in_step + i]);
        unpack_lanes(rounded.data(), in_step, lanes, here, out + x * out_step, lane_step, out_step, accumulate);
    }
}

/// unpack_lanes into a tensor whose elements only the function knows.
template <class Real>
using unpack_function_of = void (*)(const Real* in, std::ptrdiff_t in_step, std::ptrdiff_t lanes, std::ptrdiff_t count,
                                    std::byte* out, std::ptrdiff_t lane_step, std::ptrdiff_t out_step,
                                    bool accumulate) noexcept;
template <class T>
void unpack_bytes(const accumulate_t<T>* in, std::ptrdiff_t in_step, std::ptrdiff_t lanes, std::ptrdiff_t count,
                  std::byte* out, std::ptrdiff_t lane_step, std::ptrdiff_t out_step, bool accumulate) noexcept {
    unpack_lanes(in, in_step, lanes, count, reinterpret_cast<T*>(out), lane_step, out_step, accumulate);
}

/// The element type of an output of sums of type Real.
template <class Real>
struct unpack_functions {
    std::int64_t bytes = 0;
    bool is_sum = false;  ///< whether tiles may write it as it is
    unpack_function_of<Real> unpack = nullptr;
};
template <class T>
inline constexpr unpack_functions<accumulate_t<T>> unpack_functions_of{sizeof(T), simd::is_wide<T>, &unpack_bytes<T>};

/// to[i] += from[i], then from[i] = 0: one level of a fixed-order sum into the next.
template <class Real>
GRADKERN_NOINLINE void fold(Real* from, Real* to, std::ptrdiff_t count) noexcept {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        to[i] += from[i];
        from[i] = Real{0};
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
