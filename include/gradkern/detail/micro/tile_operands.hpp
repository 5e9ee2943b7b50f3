// What a register tile (register_tile.hpp) makes of the numbers that lanes share, by how its rows are read (tile_call.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// f(integral_constant 0) ... f(integral_constant N - 1), where numbers must be constants.
template <int N, class F>
GRADKERN_ALWAYS_INLINE void unroll(F&& f) {
    [&]<int... I>(std::integer_sequence<int, I...>) GRADKERN_INLINE_LAMBDA {
        (f(std::integral_constant<int, I>{}), ...);
    }
    (std::make_integer_sequence<int, N>{});
}

/// Where each lane finds the first number of its group of two, then the second one.
inline constexpr auto places_of_two = [] {
    std::array<std::int32_t, 2 * simd::lanes> places{};
    auto next = places.begin();
    for (std::int32_t l = 0; l < 2; ++l)
        for (std::int32_t j = 0; j < static_cast<std::int32_t>(simd::lanes); ++j)
            *next++ = (j / 2 * 2 + l) % static_cast<std::int32_t>(simd::lanes);
    return places;
}();

/// operand::outer, half: number L of each N at `a` in all lanes of theirs.
template <operand A, int N, int L>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec group_number(const float* a) noexcept {
    static_assert(N == 4 || N == 8);
    if constexpr (A == operand::half) {
        return simd::quad_lane<L>(simd::quad_of_two<0>(a));
    } else if constexpr (N == 4) {
        return simd::quad_lane<L>(simd::load(a));
    } else {
        return simd::quad_lane<L % 4>(simd::quad_of_two<L / 4>(a));
    }
}

/// What all lanes share: a number, or a pair.
template <operand A>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec shared_number(const float* a) noexcept {
    if constexpr (is_paired<A>) {
        return simd::broadcast_pair(a);
    } else {
        return simd::broadcast(*a);
    }
}
/// c and the product of numbers, or of pairs.
template <operand A>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec add_product(simd::vec a, simd::vec b, simd::vec c) noexcept {
    if constexpr (is_paired<A>) {
        return simd::dot_bf16(a, b, c);
    } else {
        return simd::fma(a, b, c);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
