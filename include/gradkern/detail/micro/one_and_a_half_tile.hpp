// A register tile of one and a half vectors, for weight gradients of panels whose lanes fill half of a second vector at most: the
// second vector of b has its first half twice, and two rows meet it at once.
//
//     c[i][j]  (add)  sum over segments e, k in [0, e.length) of  a[i][e.a + k * a_step] * b[e.b + k * b_step + j]
//
// Each sum is that of operand::scalar (row_terms.hpp), in the same order. Behind its lanes c is anything. Rows of the kernel behind
// call.rows read the last one's numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether there are registers for it, and rows at most. It serves nine layers of the zoo.
inline constexpr bool has_one_and_a_half_tile = target.tile.one_and_a_half;
inline constexpr int one_and_a_half_rows = 10;
static_assert(one_and_a_half_rows <= most_rows_of_any);

/// Whether so many lanes of a panel may be read by it.
[[nodiscard]] constexpr bool fits_one_and_a_half(std::ptrdiff_t lanes_used) noexcept {
    return has_one_and_a_half_tile && lanes_used > simd::lanes && 2 * lanes_used <= 3 * simd::lanes;
}

/// The half that each lane belongs to.
inline constexpr auto number_of_half = [] {
    std::array<float, simd::lanes> halves{};
    for (std::size_t j = halves.size() / 2; j < halves.size(); ++j) halves[j] = 1.0F;
    return halves;
}();

template <int Rows>
GRADKERN_NOINLINE void one_and_a_half_tile(const tile_call& call) noexcept {
    using simd::vec;
    constexpr std::ptrdiff_t width = simd::lanes;
    const auto second_half = simd::greater(simd::load(number_of_half.data()), simd::zero());
    vec single[bound(Rows)];
    vec halves_of_two[bound(Rows / 2)];
    GRADKERN_UNROLL
    for (int i = 0; i < Rows; ++i) {
        single[i] = simd::zero();
        halves_of_two[i / 2] = simd::zero();
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
                single[i] = simd::fma(x, b0, single[i]);
                single[i + 1] = simd::fma(y, b0, single[i + 1]);
                halves_of_two[i / 2] = simd::fma(simd::select(second_half, y, x), b1, halves_of_two[i / 2]);
            }
        }
    }
    // Halves leave by way of memory; a half of a row is read with whatever follows.
    alignas(64) float sums[bound(Rows * width)];
    alignas(64) float halves[bound((Rows / 2 + 1) * width)];
    GRADKERN_UNROLL
    for (int i = 0; i < Rows; ++i) {
        simd::store(sums + i * width, single[i]);
        simd::store(halves + i / 2 * width, halves_of_two[i / 2]);
    }
    simd::store(halves + Rows / 2 * width, simd::zero());
    GRADKERN_NO_UNROLL
    for (std::ptrdiff_t i = 0; i < call.rows; ++i) {
        float* const c = call.c[i];
        const float* const added = call.added != nullptr ? call.added[i] : c;
        const vec first = simd::add(simd::load(added), simd::load(sums + i * width));
        const vec second = simd::add(simd::load(added + width), simd::load(halves + i * (width / 2)));
        simd::store(c, first);
        simd::store(c + width, second);
    }
}

/// The kernels for 1 row to the most.
[[nodiscard]] inline const tile_function* one_and_a_half_tiles(std::ptrdiff_t) noexcept {
    static constexpr auto tiles = [] {
        std::array<tile_function, one_and_a_half_rows> of{};
        of.fill(&one_and_a_half_tile<one_and_a_half_rows - 2>);
        of[one_and_a_half_rows - 2] = of[one_and_a_half_rows - 1] = &one_and_a_half_tile<one_and_a_half_rows>;
        return of;
    }();
    return tiles.data();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
