// How tiles read their rows: the operands, and what a kernel does with each.
#pragma once

#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// How a row is read. Each has its product in the header named here.
enum class operand : std::uint8_t {
    scalar,        ///< row_terms.hpp: a number, broadcast to all lanes
    spaced,        ///< so, of rows equally far apart
    vector,        ///< a number for each lane
    f16,           ///< so, of 16 bits, as c is
    bf16,          ///< so
    group_4,       ///< group_terms.hpp: four numbers for each four lanes, broadcast within the group
    group_8,       ///< eight for each eight
    outer,         ///< outer_terms.hpp: four or eight numbers, each of which has its own vector of sums
    outer_half,    ///< so, four of groups of eight
    pair,          ///< as scalar, of two bf16 numbers in place of a float (pack/pairs.hpp)
    pair_group_8,  ///< as group_4, of pairs: eight channels
};

/// Whether rows are broadcast to all lanes: a number, or a pair.
template <operand A>
inline constexpr bool is_broadcast = A == operand::scalar || A == operand::spaced || A == operand::pair;

/// Whether a and c are rows of 16-bit numbers.
template <operand A>
inline constexpr bool is_native_16bit = A == operand::f16 || A == operand::bf16;

/// Whether numbers are broadcast within the group.
template <operand A>
inline constexpr bool is_group = A == operand::group_4 || A == operand::group_8 || A == operand::pair_group_8;

/// How many, in each term.
template <operand A>
inline constexpr int group_of = A == operand::group_8 ? 8 : 4;

/// Whether each number of a group has its own vector of sums.
template <operand A>
inline constexpr bool is_outer = A == operand::outer || A == operand::outer_half;

/// Whether what lies in place of a float are two bf16 numbers.
template <operand A>
inline constexpr bool is_paired = A == operand::pair || A == operand::pair_group_8;

/// How tiles read rows of type T that have a number for each lane: 16 bits as they are, where that takes few instructions.
template <class T>
inline constexpr operand lane_operand = !simd::widens_quickly<T>                     ? operand::vector
                                        : element_traits<T>::type == data_type::f16  ? operand::f16
                                        : element_traits<T>::type == data_type::bf16 ? operand::bf16
                                                                                     : operand::vector;

/// What offsets in rows count.
template <operand A, class Real = float>
using row_number = std::conditional_t<is_native_16bit<A>, std::uint16_t, Real>;

/// Whether kernels take runs of tiles: those whose panels lie side by side in the pixels of a tile.
template <operand A>
inline constexpr bool has_runs = A == operand::vector || is_native_16bit<A> || is_group<A>;

/// A vector of a row.
template <operand A, class Real = float>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec_of<Real> load_lanes(const row_number<A, Real>* row) noexcept {
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

/// A number, or a pair, in all lanes.
template <operand A, class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec_of<Real> broadcast_number(const Real* a) noexcept {
    if constexpr (is_paired<A>) {
        return simd::broadcast_pair(a);
    } else {
        return simd::broadcast(*a);
    }
}

/// c and the product of numbers, or of pairs.
template <operand A, class Real>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec_of<Real> add_product(simd::vec_of<Real> a, simd::vec_of<Real> b,
                                                                    simd::vec_of<Real> c) noexcept {
    if constexpr (is_paired<A>) {
        return simd::dot_bf16(a, b, c);
    } else {
        return simd::fma(a, b, c);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
