// A tile for lanes that fill half of a second vector at most, for weight gradients: the second vector of b has its first half
// twice, and two rows meet it at once.
//
//     c[i][j]  +=  sum over stretches e, k in [0, e.length) of  a[i][e.a + k * a_step] * b[e.b + k * b_step + j]
//
// Each sum is that of operand::scalar (register_tile.hpp), in the same order. Behind its lanes c is anything. Rows of the
// kernel behind call.rows read the last one's numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether there are registers for it, and rows at most.
inline constexpr bool has_twins = target.tile.one_and_a_half;
inline constexpr int twin_rows = 10;
static_assert(twin_rows <= most_rows_of_any);

/// Whether so many lanes of a panel may be read by it.
[[nodiscard]] constexpr bool are_twins(std::ptrdiff_t lanes_used) noexcept {
    constexpr auto lanes = static_cast<std::ptrdiff_t>(simd::lanes);
    return has_twins && lanes_used > lanes && 2 * lanes_used <= 3 * lanes;
}

/// The half that each lane belongs to.
inline constexpr auto number_of_half = [] {
    std::array<float, simd::lanes> halves{};
    for (std::size_t j = halves.size() / 2; j < halves.size(); ++j) halves[j] = 1.0F;
    return halves;
}();

template <int Rows>
GRADKERN_NOINLINE void twin_tile(const tile_call& call) noexcept {
    using simd::vec;
    constexpr auto width = static_cast<std::ptrdiff_t>(simd::lanes);
    const auto second_half = simd::greater(simd::load(number_of_half.data()), simd::zero());
    vec lone[bound(Rows)];
    vec twice[bound(Rows / 2)];
    GRADKERN_UNROLL
    for (int i = 0; i < Rows; ++i) {
        lone[i] = simd::zero();
        twice[i / 2] = simd::zero();
    }
    for (const k_segment* e = call.list; e != call.list + call.count; ++e) {
        const float* a[bound(Rows)];
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) a[i] = call.a[std::min<std::ptrdiff_t>(i, call.rows - 1)] + e->a;
        const float* b = call.b + e->b;
        std::ptrdiff_t at = 0;
        GRADKERN_NO_UNROLL
        for (std::ptrdiff_t left = e->length; left != 0; --left, at += call.a_step, b += call.b_step) {
            const vec b0 = simd::load(b);
            const vec b1 = simd::keep(simd::load(b + width));  // g++ would read it again for each two rows
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; i += 2) {
                const vec x = simd::broadcast(a[i][at]);
                const vec y = simd::broadcast(a[i + 1][at]);
                lone[i] = simd::fma(x, b0, lone[i]);
                lone[i + 1] = simd::fma(y, b0, lone[i + 1]);
                twice[i / 2] = simd::fma(simd::select(second_half, y, x), b1, twice[i / 2]);
            }
        }
    }
    // Halves leave by way of memory; those of a row are read with what follows, anything.
    alignas(64) float sums[bound(Rows * width)];
    alignas(64) float halves[bound((Rows / 2 + 1) * width)];
    GRADKERN_UNROLL
    for (int i = 0; i < Rows; ++i) {
        simd::store(sums + i * width, lone[i]);
        simd::store(halves + i / 2 * width, twice[i / 2]);
    }
    simd::store(halves + Rows / 2 * width, simd::zero());
    GRADKERN_NO_UNROLL
    for (std::ptrdiff_t i = 0; i < call.rows; ++i) {
        float* const c = call.c[i];
        simd::store(c, simd::add(simd::load(c), simd::load(sums + i * width)));
        simd::store(c + width, simd::add(simd::load(c + width), simd::load(halves + i * (width / 2))));
    }
}

/// The kernels for 1 row to the most.
[[nodiscard]] inline const tile_function* twin_tiles(std::ptrdiff_t) noexcept {
    static constexpr auto tiles = [] {
        std::array<tile_function, twin_rows> of{};
        of.fill(&twin_tile<twin_rows - 2>);
        of[twin_rows - 2] = of[twin_rows - 1] = &twin_tile<twin_rows>;
        return of;
    }();
    return tiles.data();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
