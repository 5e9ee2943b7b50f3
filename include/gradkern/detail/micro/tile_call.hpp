// What the tiles of register_tile.hpp and sliding_tile.hpp are called with: how rows are read, and where everything is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A stretch of a reduction: offsets in elements from a row pointer and from b, and its number of terms.
struct stretch {
    std::ptrdiff_t a = 0;
    std::ptrdiff_t b = 0;
    std::ptrdiff_t length = 0;
};

/// What becomes of the values c holds before the call.
enum class tile_mode : std::uint8_t {
    set,    ///< c = sum; c is not read
    add,    ///< c = c + sum: the end of one part of a longer reduction
    resume  ///< the sum continues from c as if the call before had not ended
};

/// How a row's operand is read.
enum class operand : std::uint8_t { scalar, vector, f16, bf16, quad, shared, outer, half, pair, octet };

/// Whether a and c are rows of 16-bit numbers.
template <operand A>
inline constexpr bool is_half = A == operand::f16 || A == operand::bf16;

/// How tiles read rows of type T that have a number for each lane: 16 bits as they are, where that takes few instructions.
template <class T>
inline constexpr operand lane_operand = !simd::widens_quickly<T>                     ? operand::vector
                                        : element_traits<T>::type == data_type::f16  ? operand::f16
                                        : element_traits<T>::type == data_type::bf16 ? operand::bf16
                                                                                     : operand::vector;

/// Whether the lanes of a group share its numbers.
template <operand A>
inline constexpr bool is_shared = A == operand::quad || A == operand::shared || A == operand::octet;

/// Whether a row has a vector of sums for each number of a group, or each of half of them.
template <operand A>
inline constexpr bool is_outer = A == operand::outer || A == operand::half;

/// Whether what lies in place of a float are two bf16 numbers.
template <operand A>
inline constexpr bool is_paired = A == operand::pair || A == operand::octet;

/// What offsets in rows count.
template <operand A>
using row_number = std::conditional_t<is_half<A>, std::uint16_t, float>;

/// A vector of a row.
template <operand A>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec load_lanes(const row_number<A>* row) noexcept {
    if constexpr (A == operand::f16) {
        return simd::widen_f16(row);
    } else if constexpr (A == operand::bf16) {
        return simd::widen_bf16(row);
    } else {
        return simd::load(row);
    }
}
template <operand A>
GRADKERN_ALWAYS_INLINE void store_lanes(row_number<A>* row, simd::vec value) noexcept {
    if constexpr (A == operand::f16) {
        simd::narrow_f16(value, row);
    } else {
        simd::narrow_bf16(value, row);
    }
}

/// Arguments of a tile; offsets and steps in elements.
struct tile_call {
    const stretch* list = nullptr;  ///< `count` stretches
    std::ptrdiff_t count = 0;
    std::ptrdiff_t rows = 0;          ///< the kernel's, or less by up to its row_unit - 1
    const float* const* a = nullptr;  ///< one pointer a row
    std::ptrdiff_t a_step = 1;
    const float* b = nullptr;
    std::ptrdiff_t b_step = 0;
    float* const* c = nullptr;  ///< one pointer a row, vectors * lanes floats behind each
    std::ptrdiff_t c_step = 0;  ///< operand::outer, half: between the results of a row
    std::ptrdiff_t group = 0;   ///< operand::shared: how many lanes share numbers, 2 or 8
    bool rounds = false;  ///< operand::pair, octet: c holds bf16 numbers, which c_next and c_ahead count; set alone
    tile_mode mode = tile_mode::set;
    const float* bias = nullptr;  ///< operand::f16, bf16: a number for each lane, `b_next` from tile to tile, or null
    std::ptrdiff_t a_ahead = 0;  ///< from a row pointer to what another tile will read soon, and from c to what it will
    std::ptrdiff_t c_ahead = 0;  ///< write: lines so far apart that no CPU fetches them by itself. May leave the tensor
    bool quiet = false;          ///< rows that are vectors: no line is asked for
    std::ptrdiff_t tiles = 1;    ///< so many tiles one after the other, each that far behind its predecessor:
    std::ptrdiff_t a_next = 0;
    std::ptrdiff_t b_next = 0;
    std::ptrdiff_t c_next = 0;
    // sliding_tile.hpp alone: there is one row pointer,
    std::ptrdiff_t a_first = 0;  ///< from it to the first column,
    std::uint32_t inside = 0;    ///< which columns from that on are inside, a bit each,
    std::ptrdiff_t lanes = 0;    ///< and lanes of a tile
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
