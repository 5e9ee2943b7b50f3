// The register tile: the micro-kernel behind every convolution path, and the table of all its kernels. What a term is depends on the
// operand: row_terms.hpp, group_terms.hpp and outer_terms.hpp have a contract each. tile_call.hpp says what all have in common.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/group_terms.hpp>
#include <gradkern/detail/micro/outer_terms.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/micro/row_terms.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/micro/tile_sums.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A kernel, which prefetches `call.later`, or does not. Never inlined: its callers differ by type and layout, it does not.
template <operand A, int Rows, int Vectors, class Real = float, prefetch Later = prefetch::none>
GRADKERN_NOINLINE void register_tile(const tile_call_of<Real>& call) noexcept {
    const row_map row = rows_of<A, Rows>(call);
    const std::ptrdiff_t a_step = call.a_step;
    const std::ptrdiff_t b_step = call.b_step;
    const std::ptrdiff_t c_step = is_outer<A> ? call.c_step : simd::lanes_of<Real>;
    const bool contiguous = unrolls_terms<A, Rows, Vectors> && a_step != 1 && rows_are_contiguous(call.a, call.rows);
    tile_offsets run;
    std::ptrdiff_t runs = has_runs<A> ? call.runs : 1;
    do {
        tile_offsets from = run;
        for (std::ptrdiff_t tile = call.tiles; tile != 0; --tile, from.next(call)) {
            tile_sums<Rows, Vectors, Real> sums;
            sums.start(call, !is_group<A> && !is_native_16bit<A>, row, from.c, c_step);
            prefetch_tile<A>(call, row, from, Vectors);
            for (const k_segment* e = call.list; e != call.list + call.count; ++e) {
                const row_number<A, Real>* a[bound(Rows)];
                GRADKERN_UNROLL
                for (int i = 0; i < Rows; ++i)
                    a[i] = reinterpret_cast<const row_number<A, Real>*>(call.a[row[i]]) + from.a + e->a;
                const Real* const b = call.b + from.b + e->b;
                if constexpr (is_group<A>) {
                    add_group_terms<A>(sums, a, a_step, b, b_step, e->length);
                } else if constexpr (A == operand::spaced) {
                    add_spaced_terms<A>(sums, a, a_step, b, b_step, e->length);
                } else if constexpr (Later == prefetch::ahead) {
                    add_prefetching_terms<A>(sums, *call.later, a, a_step, b, b_step, e->length);
                } else if constexpr (is_outer<A>) {
                    add_outer_terms<A>(sums, row, a, a_step, b, b_step, e->length);
                } else {
                    add_row_terms<A>(sums, row, contiguous, a, a_step, b, b_step, e->length);
                }
            }
            if constexpr (A == operand::group_8 || A == operand::pair_group_8) order_groups_of_eight(sums);
            if constexpr (is_native_16bit<A>) {
                store_16bit_sums<A>(sums, call, row, from);
            } else {
                if constexpr (is_paired<A>) {
                    if (call.rounds) {
                        sums.round(call, row, from.c);
                        continue;
                    }
                }
                sums.store(call, row, from.c, c_step);
            }
        }
        if constexpr (has_runs<A>) run.next_run(call);
    } while (--runs != 0);
}

/// THE table: the kernels of `Vectors` vectors for 1 row to the most, those that compute the fewest rows too many. Kernels of several
/// vectors have multiples of `Unit` rows. They are compiled where a table is named.
template <operand A, int Vectors, int Unit = row_unit<A>, class Real = float>
inline constexpr auto tiles_of = []<int... I>(std::integer_sequence<int, I...>) {
    return std::array<tile_function_of<Real>, sizeof...(I)>{
        &register_tile<A, kernel_rows(I + 1, kernel_unit<A>(Vectors, Unit)), Vectors, Real>...};
}
(std::make_integer_sequence<int, most_rows_of<A>(Vectors)>{});

/// Those of weight gradients of groups of four or eight.
template <int Group>
inline constexpr auto outer_tiles = tiles_of<outer_operand<Group>, outer_sums(Group)>;

/// The kernels for `lanes_used` lanes of a panel.
template <operand A, int Unit = row_unit<A>, class Real = float>
[[nodiscard]] inline const tile_function_of<Real>* tiles_for(std::ptrdiff_t lanes_used) noexcept {
    constexpr int most = is_broadcast<A> ? tile_vectors : narrow_vectors;
    static constexpr auto tiles = []<int... V>(std::integer_sequence<int, V...>) {
        return std::array{tiles_of<A, V + 1, Unit, Real>.data()...};
    }
    (std::make_integer_sequence<int, most>{});
    return tiles[static_cast<std::size_t>(kernel_vectors(lanes_used, most, simd::lanes_of<Real>) - 1)];
}

/// The kernel of one vector for least_spaced_rows to spaced_rows rows, equally far apart.
template <class Real>
[[nodiscard]] inline tile_function_of<Real> spaced_tile_for(std::ptrdiff_t rows) noexcept {
    static constexpr auto tiles = []<int... I>(std::integer_sequence<int, I...>) {
        return std::array<tile_function_of<Real>, sizeof...(I)>{
            &register_tile<operand::spaced, kernel_rows(least_spaced_rows + I, row_unit<operand::spaced>), 1, Real>...};
    }
    (std::make_integer_sequence<int, spaced_rows - least_spaced_rows + 1>{});
    return tiles[static_cast<std::size_t>(rows - least_spaced_rows)];
}

/// The kernel that prefetches `call.later`, for rows and lanes that prefetches_later() names.
template <class Real>
[[nodiscard]] inline tile_function_of<Real> prefetching_tile_for(std::ptrdiff_t lanes_used) noexcept {
    static constexpr auto tiles = []<int... V>(std::integer_sequence<int, V...>) {
        return std::array<tile_function_of<Real>, sizeof...(V)>{
            &register_tile<operand::scalar, rows_at_most(V + 2, 1), V + 2, Real, prefetch::ahead>...};
    }
    (std::make_integer_sequence<int, tile_vectors - 1>{});
    return tiles[static_cast<std::size_t>(kernel_vectors(lanes_used, tile_vectors, simd::lanes_of<Real>) - 2)];
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
