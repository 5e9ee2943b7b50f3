// The register tile: the micro-kernel behind every convolution path, and the table of all its kernels. What a term is depends on the
// operand: row_terms.hpp, group_terms.hpp and outer_terms.hpp have a contract each. tile_call.hpp says what all have in common.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/group_terms.hpp>
#include <gradkern/detail/micro/outer_terms.hpp>
#include <gradkern/detail/micro/row_terms.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/micro/tile_sums.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A kernel. Never inlined: its callers differ by type and layout, it does not.
template <operand A, int Rows, int Vectors>
GRADKERN_NOINLINE void register_tile(const tile_call& call) noexcept {
    const row_map row = rows_of<A, Rows>(call);
    const std::ptrdiff_t a_step = call.a_step;
    const std::ptrdiff_t b_step = call.b_step;
    const std::ptrdiff_t c_step = is_outer<A> ? call.c_step : simd::lanes;
    const std::ptrdiff_t a_ahead = call.a_ahead;
    const bool contiguous = unrolls_terms<A, Rows, Vectors> && a_step != 1 && rows_are_contiguous(call.a, call.rows);
    tile_offsets from;
    for (std::ptrdiff_t tile = call.tiles; tile != 0; --tile, from.next(call)) {
        tile_sums<Rows, Vectors> sums;
        sums.start(call, !is_group<A> && !is_native_16bit<A>, row, from.c, c_step);
        prefetch_tile<A>(call, row, from, Vectors);
        for (const k_segment* e = call.list; e != call.list + call.count; ++e) {
            const row_number<A>* a[bound(Rows)];
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i)
                a[i] = reinterpret_cast<const row_number<A>*>(call.a[row[i]]) + from.a + e->a;
            const float* const b = call.b + from.b + e->b;
            if constexpr (is_group<A>) {
                add_group_terms<A>(sums, a, a_step, b, b_step, e->length);
            } else if constexpr (is_outer<A>) {
                add_outer_terms<A>(sums, row, a, a_step, b, b_step, e->length);
            } else {
                add_row_terms<A>(sums, row, contiguous, a_ahead, a, a_step, b, b_step, e->length);
            }
        }
        if constexpr (A == operand::group_8 || A == operand::pair_group_8) order_groups_of_eight(sums);
        if constexpr (is_native_16bit<A>) {
            store_16bit_sums<A>(sums, call, row, from);
        } else if (is_paired<A> && call.rounds) {
            sums.round(call, row, from.c);
        } else {
            sums.store(call, row, from.c, c_step);
        }
    }
}

/// A kernel: how it reads rows, how many it has sums for, how many vectors each row has.
struct tile_kernel {
    operand rows_are = operand::scalar;
    int rows = 0;
    int vectors = 0;
    tile_function run = nullptr;
};

/// The shapes of the kernels of an operand, {rows, vectors}, by vectors, then by rows.
template <operand A, int Unit>
inline constexpr auto kernel_shapes = [] {
    struct {
        std::array<std::array<int, 2>, 64> at{};
        std::size_t count = 0;
    } shapes;
    for (int vectors = 1; vectors <= 8; ++vectors)
        for (int rows = 1; rows <= most_rows; ++rows)
            if (has_tile_shape<A>(rows, vectors, Unit)) shapes.at[shapes.count++] = {rows, vectors};
    return shapes;
}();

template <operand A, int Unit, std::size_t... I>
[[nodiscard]] consteval auto make_tile_kernels(std::index_sequence<I...>) noexcept {
    [[maybe_unused]] constexpr const auto& shape = kernel_shapes<A, Unit>.at;  // there may be no kernel
    return std::array<tile_kernel, sizeof...(I)>{
        {{A, shape[I][0], shape[I][1], &register_tile<A, shape[I][0], shape[I][1]>}...}};
}
/// THE table: the kernels of an operand. Those of several vectors have multiples of `Unit` rows. They are compiled where the table
/// of their operand is named.
template <operand A, int Unit = row_unit<A>>
inline constexpr auto tile_kernels =
    make_tile_kernels<A, Unit>(std::make_index_sequence<kernel_shapes<A, Unit>.count>{});

/// The kernels of `Vectors` vectors for 1 row to the most: those that compute the fewest rows too many.
template <operand A, int Vectors, int Unit = row_unit<A>>
inline constexpr auto tiles_of = [] {
    std::array<tile_function, static_cast<std::size_t>(most_rows_of<A>(Vectors))> tiles{};
    for (std::size_t i = tile_kernels<A, Unit>.size(); i-- > 0;)
        if (const tile_kernel& kernel = tile_kernels<A, Unit>[i]; kernel.vectors == Vectors)
            for (std::size_t row = 0; row < std::min(tiles.size(), static_cast<std::size_t>(kernel.rows)); ++row)
                tiles[row] = kernel.run;
    return tiles;
}();

/// Those of weight gradients of groups of four or eight.
template <int Group>
inline constexpr auto outer_tiles = tiles_of<outer_operand<Group>, outer_sums(Group)>;

template <operand A, int Unit, int... V>
[[nodiscard]] consteval auto make_tiles_by_vectors(std::integer_sequence<int, V...>) noexcept {
    return std::array{tiles_of<A, V + 1, Unit>.data()...};
}
/// The kernels for `lanes_used` lanes of a panel.
template <operand A, int Unit = row_unit<A>>
[[nodiscard]] inline const tile_function* tiles_for(std::ptrdiff_t lanes_used) noexcept {
    constexpr int most = is_broadcast<A> ? tile_vectors : narrow_vectors;
    static constexpr auto tiles = make_tiles_by_vectors<A, Unit>(std::make_integer_sequence<int, most>{});
    return tiles[static_cast<std::size_t>(kernel_vectors(lanes_used, most) - 1)];
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
