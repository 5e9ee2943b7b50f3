// Pairs of bf16 numbers in place of floats, for register tiles with operand::pair: both operands of the tile hold two
// neighbours of the reduction in each 32 bits, the first one in the lower half. Where the reduction has an odd number of
// terms, the last pair's second number is 0 in both operands: it meets no number of a tensor, which might be infinite.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether tiles may take elements of type T by pairs.
template <class T>
inline constexpr bool has_pairs = (element_traits<T>::type == data_type::bf16) && simd::has_dot_bf16;

/// Two neighbours in memory, moved as if they were a float. Aligned like bytes: a pair may begin at any element.
struct neighbours {
    unsigned char bytes[4];
};

/// A row of pairs: an element, and the one `other` elements behind it, or 0 if there is no `both`.
template <class T>
struct paired_row {
    const T* first;
    std::ptrdiff_t other;
    bool both;
    [[nodiscard]] GRADKERN_ALWAYS_INLINE paired_row operator+(std::ptrdiff_t n) const noexcept {
        return {first + n, other, both};
    }
};

template <class T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec load_row(const paired_row<T>& row, std::ptrdiff_t n) noexcept {
    return simd::pair_bf16(simd::load_wide_partial(row.first, n),
                           row.both ? simd::load_wide_partial(row.first + row.other, n) : simd::zero());
}
template <class T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec load_row(const paired_row<T>& row) noexcept {
    return simd::pair_bf16(simd::load_wide(row.first),
                           row.both ? simd::load_wide(row.first + row.other) : simd::zero());
}
template <class T>
[[nodiscard]] GRADKERN_ALWAYS_INLINE float load_one(const paired_row<T>& row) noexcept {
    std::uint16_t low;
    std::uint16_t high = 0;
    std::memcpy(&low, row.first, sizeof low);
    if (row.both) std::memcpy(&high, row.first + row.other, sizeof high);
    return own::bit_cast<float>(std::uint32_t{high} << 16 | low);
}
template <class T>
GRADKERN_ALWAYS_INLINE void prefetch_row(const paired_row<T>& row, std::ptrdiff_t step) noexcept {
    simd::prefetch(row.first, step);
    simd::prefetch(row.first, row.other + step);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END

GRADKERN_NAMESPACE_BEGIN
template <>
struct element_traits<detail::neighbours> : f32_storage {};
GRADKERN_NAMESPACE_END

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// out[j] = the pair of row[4 * j] and row[4 * j + 2], for j < count: halves of neighbouring words, but for the last one,
/// whose words may end behind the tensor.
template <class T>
inline void pack_every_second(const T* row, std::ptrdiff_t count, float* out) noexcept {
    const auto word = [&](std::ptrdiff_t i) {
        std::uint32_t w;
        std::memcpy(&w, row + i, sizeof w);
        return w;
    };
    for (std::ptrdiff_t j = 0; j < count - 1; ++j)
        out[j] = own::bit_cast<float>((word(4 * j) & 0xffffU) | word(4 * j + 2) << 16);
    if (count > 0) out[count - 1] = load_one(paired_row<T>{row + 4 * (count - 1), 2, true});
}

/// How many rows of `lanes` neighbouring pairs, `step` elements apart, are made of two vectors of elements at a time; 0: none.
template <class T>
[[nodiscard]] inline std::ptrdiff_t short_rows(const paired_row<T>& row, std::ptrdiff_t lanes,
                                               std::ptrdiff_t step) noexcept {
    constexpr std::ptrdiff_t width = simd::lanes;
    if (!row.both || lanes < 1 || lanes > width || row.other < 1 || row.other > 2 * width - lanes || step < 1) return 0;
    return std::min(width / lanes, 1 + (2 * width - lanes - row.other) / step);
}

/// Packs them: out[x * lanes + j] = the pair of row[x * step + j] and the one `other` elements behind it, where x < count.
template <class T>
inline void pack_short_rows(const T* row, std::ptrdiff_t other, std::ptrdiff_t lanes, std::ptrdiff_t step,
                            std::ptrdiff_t count, std::ptrdiff_t rows, float* out) noexcept {
    std::array<std::uint16_t, 2 * simd::lanes> places{};
    auto place = places.begin();
    for (std::ptrdiff_t x = 0; x < rows; ++x)
        for (std::ptrdiff_t j = x * step; j < x * step + lanes; ++j) {
            *place++ = static_cast<std::uint16_t>(j);
            *place++ = static_cast<std::uint16_t>(j + other);
        }
    const std::ptrdiff_t words = (rows - 1) * step + other + lanes;
    const auto pairs = [&](std::ptrdiff_t x) { return simd::pick_words(row + x * step, words, places.data()); };
    std::ptrdiff_t x = 0;
    for (; (count - x) * lanes >= simd::lanes; x += rows) simd::store(out + x * lanes, pairs(x));  // more comes behind
    for (; x < count; x += rows) {
        x = std::min(x, count - rows);  // the last rows come again
        simd::store_partial(out + x * lanes, pairs(x), rows * lanes);
    }
}

/// Packs rows of neighbouring pairs: out[x * out_step + j] = the pair that begins at source[x * source_step + j].
template <class T>
inline void pack_rows_of_pairs(const paired_row<T>& source, std::ptrdiff_t lanes, std::ptrdiff_t source_step,
                               std::ptrdiff_t count, float* out, std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t width = simd::lanes;
    const bool by_two_vectors = source.both && lanes >= 2 * width;
    for (std::ptrdiff_t x = 0; x < count; ++x) {
        const paired_row<T> row = source + x * source_step;
        float* const to = out + x * out_step;
        if (lanes < width) simd::store_partial(to, load_row(row, lanes), lanes);
        for (std::ptrdiff_t next = 0; next < lanes && by_two_vectors; next += 2 * width) {
            const std::ptrdiff_t j = std::min(next, lanes - 2 * width);  // the last ones overlap, here and below
            simd::interleave_words(row.first + j, row.first + j + row.other, to + j);
        }
        for (std::ptrdiff_t next = 0; next < lanes && lanes >= width && !by_two_vectors; next += width) {
            const std::ptrdiff_t j = std::min(next, lanes - width);
            simd::store(to + j, load_row(row + j));
        }
    }
}

/// pack_lanes (pack/panels.hpp) of pairs: out[x * out_step + j] = the pair that begins at
/// source[j * lane_step + x * source_step].
template <class T>
inline void pack_pairs(const paired_row<T>& source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes,
                       std::ptrdiff_t source_step, std::ptrdiff_t count, float* out, std::ptrdiff_t out_step) noexcept {
    constexpr std::ptrdiff_t width = simd::lanes;
    const bool in_memory = source.both && source.other == 1;  // pairs as they are wanted
    const std::ptrdiff_t short_ones =
        lane_step == 1 && out_step == lanes ? std::min(count, short_rows(source, lanes, source_step)) : 0;
    const auto at = [&](std::ptrdiff_t offset) { return reinterpret_cast<const neighbours*>(source.first + offset); };
    if (in_memory && lane_step == 2) {
        for (std::ptrdiff_t x = 0; x < count; ++x)  // often a few pairs: no calls
            for (std::ptrdiff_t j = 0; j < lanes; j += width)
                simd::store_partial(out + x * out_step + j, simd::load_wide_partial(at(x * source_step) + j, lanes - j),
                                    lanes - j);
    } else if (source.both && source.other == 2 && lane_step == 4) {
        for (std::ptrdiff_t x = 0; x < count; ++x)
            pack_every_second(source.first + x * source_step, lanes, out + x * out_step);
    } else if (in_memory && source_step == 2) {
        pack_columns<neighbours>([&](std::ptrdiff_t j) { return at(j * lane_step); }, lanes, count, out, out_step);
    } else if (short_ones > 0) {
        pack_short_rows(source.first, source.other, lanes, source_step, count, short_ones, out);
    } else if (lane_step == 1 && lanes >= width / 2) {
        pack_rows_of_pairs(source, lanes, source_step, count, out, out_step);
    } else if (source_step == 1) {
        pack_columns<T>([&](std::ptrdiff_t j) { return source + j * lane_step; }, lanes, count, out, out_step);
    } else {
        for (std::ptrdiff_t j = 0; j < lanes; ++j)
            for (std::ptrdiff_t x = 0; x < count; ++x)
                out[x * out_step + j] = load_one(source + (j * lane_step + x * source_step));
    }
}

/// Pairs of `count` elements `step` apart, along the lanes: [x][pair].
template <class T>
inline void pack_lane_pairs(const T* source, std::ptrdiff_t step, std::ptrdiff_t count, std::ptrdiff_t source_step,
                            std::ptrdiff_t positions, float* out, std::ptrdiff_t out_step) noexcept {
    if (count == 3 && step == 1) {  // the few channels of an image: no loops over two pairs
        for (; positions > 0; --positions, source += source_step, out += out_step) {
            std::memcpy(out, source, sizeof *out);
            out[1] = load_one(paired_row<T>{source + 2, 0, false});
        }
        return;
    }
    pack_pairs<T>({source, step, true}, 2 * step, count / 2, source_step, positions, out, out_step);
    if (count % 2 != 0)
        pack_pairs<T>({source + (count - 1) * step, 0, false}, 0, 1, source_step, positions, out + count / 2, out_step);
}

/// Pairs of `count` elements `step` apart, across the lanes: [pair][lane].
template <class T>
inline void pack_row_pairs(const T* source, std::ptrdiff_t lane_step, std::ptrdiff_t lanes, std::ptrdiff_t step,
                           std::ptrdiff_t count, float* out, std::ptrdiff_t out_step) noexcept {
    pack_pairs<T>({source, step, true}, lane_step, lanes, 2 * step, count / 2, out, out_step);
    if (count % 2 != 0)
        pack_pairs<T>({source + (count - 1) * step, 0, false}, lane_step, lanes, 1, 1, out + count / 2 * out_step,
                      out_step);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
