// The one family of micro-kernels behind every convolution path: a tile of rows x lanes kept in registers while it walks
// a list of stretches of the reduction.
//
//     c[i][j]  (set | add | resume)  sum over stretches e, k in [0, e.length) of
//
//         a[i][e.a + k * a_step]     * b[e.b + k * b_step + j]     operand::scalar: lanes share the row's number
//         a[i][e.a + k * a_step + j] * b[e.b + k * b_step + j]     operand::vector: each lane has its own
//                                                                  operand::f16, bf16: so, but of a and c of 16 bits, and
//                                                                  with a bias that is added behind the sum
//         a[i][e.a + k * a_step]     . b[e.b + k * b_step + j]     operand::pair: as scalar, of two products, since what lies
//                                                                  in place of a float are two bf16 numbers (pack/pairs.hpp)
//
// for rows i and lanes j. Three more serve groups of few channels, whose lanes share as many numbers: with q = j - j % n,
//
//     sum over l in [0, n) of
//         a[i][e.a + k * a_step + q + l] * b[e.b + k * b_step + l * row + j]     operand::quad: one l after the other, n = 4,
//                                                                                row = all lanes of b
//                                                                                operand::shared: so, but n = call.group;
//                                                                                n = 8: lanes of b in octet's order
//     c[i][2 * q + 4 * v + j - q]  (set | add)  sum over stretches e, k and l of, for two vectors v and q = j - j % 4,
//         a[i][e.a + k * a_step + q + l] . b[e.b + k * b_step + (2 * l + v) * lanes + j]   operand::octet, of pairs
//     c[i][v * c_step + j]  (set | add | resume)  sum over stretches e, k of, for v in [0, n) and the lanes j of a vector,
//         a[i][e.a + k * a_step + q + v] * b[e.b + k * b_step + j]               operand::outer, n = 4 or 8; with 8
//                                                                                row i reads b from i * lanes on
//                                                                                operand::half: so, n = 4, but q = 0
//
// Terms are added one after the other by fused multiply-adds in the order of the list, so that
// the bits depend on the list alone, never on the shape of the tile (nor with pairs, but there on the target, too).
// Pointers are f32 (but in name only where a and c have 16 bits); layouts, ranks and operators are settled before a tile is
// called, and so are element types that are not widened in registers, which keeps the number of bodies small.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether rows are neighbours in memory.
[[nodiscard]] inline bool rows_adjoin(const float* const* a, std::ptrdiff_t rows) noexcept {
    for (std::ptrdiff_t i = 1; i < rows; ++i)
        if (a[i] != a[0] + i) return false;
    return true;
}

/// Sends the sums [row][lane] of a tile of 16-bit rows to c by way of a bias or of what c holds: in a loop, since few do.
template <operand A>
GRADKERN_NOINLINE void store_rows(const tile_call& call, const float* sums, std::ptrdiff_t lanes, std::ptrdiff_t b_at,
                                  std::ptrdiff_t c_at) noexcept {
    for (std::ptrdiff_t i = 0; i < call.rows; ++i) {
        row_number<A>* const c = reinterpret_cast<row_number<A>*>(call.c[i]) + c_at;
        for (std::ptrdiff_t j = 0; j < lanes; j += simd::lanes, sums += simd::lanes) {
            simd::vec sum = simd::load(sums);
            if (call.bias != nullptr) sum = simd::add(sum, simd::load(call.bias + b_at + j));
            if (call.mode == tile_mode::add) sum = simd::add(load_lanes<A>(c + j), sum);
            store_lanes<A>(c + j, sum);
        }
    }
}

/// Asks for the lines of a tile of 16-bit rows: not in the tile, which has no registers left for addresses.
template <operand A>
GRADKERN_NOINLINE void ask_for_halves(const tile_call& call, std::ptrdiff_t a_at, std::ptrdiff_t c_at) noexcept {
    GRADKERN_DETAIL_KEEP_CALLS();
    for (std::ptrdiff_t i = 0; i < call.rows; ++i) {
        simd::prefetch_to_write(reinterpret_cast<const row_number<A>*>(call.c[i]), c_at + call.c_ahead);
        simd::prefetch_to_l2(reinterpret_cast<const row_number<A>*>(call.a[i]), a_at + call.a_ahead);
    }
}

/// The micro-kernel. Never inlined: its callers differ by type and layout, it does not. Loops over accumulators are
/// unrolled by pragma: without it they stay in memory at -O2, and by templates a file with tiles takes twice as long to compile.
template <operand A, int Rows, int Vectors>
GRADKERN_NOINLINE void register_tile(const tile_call& call) noexcept {
    using simd::vec;
    using number = row_number<A>;
    constexpr bool resumes = !is_shared<A> && !is_half<A>;  // not what serves the gather engine alone
    constexpr bool reads_lanes = A == operand::vector || is_shared<A> || is_half<A>;
    constexpr std::ptrdiff_t width = static_cast<std::ptrdiff_t>(simd::lanes);
    const std::ptrdiff_t c_step = is_outer<A> ? call.c_step : width;
    constexpr int sure = std::max(1, Rows - row_unit<A> + 1);  // rows there always are
    const auto row = [&](int i) GRADKERN_INLINE_LAMBDA {
        return i < sure ? i : i == Rows - 1 ? call.rows - 1 : std::min<std::ptrdiff_t>(i, call.rows - 1);
    };
    const bool eight_share = A == operand::shared && width >= 8 && call.group == 8;
    const std::ptrdiff_t a_step = call.a_step;
    const std::ptrdiff_t b_step = call.b_step;
    const std::ptrdiff_t a_ahead = call.a_ahead;
    constexpr bool several_terms =
        A == operand::scalar && Vectors > 1 && Rows >= Vectors && target.tile.unrolled_terms > 1;
    const bool adjoin = several_terms && a_step != 1 && rows_adjoin(call.a, call.rows);
    std::ptrdiff_t a_at = 0;  // of a tile
    std::ptrdiff_t c_at = 0;
    std::ptrdiff_t b_at = 0;
    for (std::ptrdiff_t tile = call.tiles; tile != 0;
         --tile, a_at += call.a_next, b_at += call.b_next, c_at += call.c_next) {
        vec acc[bound(Rows)][bound(Vectors)];
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[i][v] = simd::zero();
        }
        if (resumes && call.mode == tile_mode::resume) {
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) {
                GRADKERN_UNROLL
                for (int v = 0; v < Vectors; ++v) acc[i][v] = simd::load(call.c[row(i)] + c_at + v * c_step);
            }
        }
        // The lines of c are on their way while the sum is computed; it is the first touch of an output.
        const auto ask = [&](std::ptrdiff_t i) GRADKERN_INLINE_LAMBDA {
            // places from the first to the last
            constexpr std::ptrdiff_t last = Vectors * width - 1;
            using result = std::conditional_t<is_paired<A>, std::uint16_t, number>;  // of pairs at most
            constexpr std::ptrdiff_t steps =
                std::max<std::ptrdiff_t>(2, Vectors * width / simd::line_elements<result>) - 1;
            const auto* c = reinterpret_cast<const result*>(call.c[i]);
            simd::prefetch_to_write(c, c_at + call.c_ahead);
            GRADKERN_UNROLL
            for (std::ptrdiff_t j = 1; j <= steps; ++j)
                simd::prefetch_to_write(c, c_at + call.c_ahead + j * last / steps);
            if constexpr (reads_lanes) {
                const auto* a = reinterpret_cast<const number*>(call.a[i]) + a_at;
                GRADKERN_UNROLL
                for (std::ptrdiff_t j = 0; j < (A == operand::octet ? 1 : Vectors) * width;
                     j += simd::line_elements<number>)
                    simd::prefetch_to_l2(a, call.a_ahead + j);
            }
        };
        if constexpr (is_half<A>) {
            if (!call.quiet) ask_for_halves<A>(call, a_at, c_at);
        } else if constexpr (reads_lanes) {  // sums are short, and a loop would show
            if (!call.quiet) {
                GRADKERN_UNROLL
                for (int i = 0; i < Rows; ++i) ask(row(i));
            }
        } else {
            GRADKERN_NO_UNROLL
            for (std::ptrdiff_t i = 0; i < call.rows; ++i) ask(i);
        }
        for (const stretch* e = call.list; e != call.list + call.count; ++e) {
            const number* a[bound(Rows)];
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) a[i] = reinterpret_cast<const number*>(call.a[row(i)]) + a_at + e->a;
            const float* b = call.b + b_at + e->b;
            std::ptrdiff_t left = e->length;
            if constexpr (several_terms) {
                // One term; at_row(i) is where row i's number is.
                constexpr int read_again = Vectors == 2 && target.quirk.reload_broadcasts ? Rows / 2 : 0;
                const auto add_term = [&](const auto& at_row) GRADKERN_INLINE_LAMBDA {
                    vec bv[bound(Vectors)];
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v)  // kept: of few rows g++ would read it again for each
                        bv[v] = simd::keep(simd::load(b + v * width));
                    GRADKERN_UNROLL
                    for (int i = 0; i < read_again; ++i) {
                        GRADKERN_UNROLL
                        for (int v = 0; v < Vectors; ++v) acc[i][v] = simd::fma_broadcast(at_row(i), bv[v], acc[i][v]);
                    }
                    GRADKERN_UNROLL
                    for (int i = read_again; i < Rows; ++i) {
                        const vec x = simd::broadcast(*at_row(i));
                        GRADKERN_UNROLL
                        for (int v = 0; v < Vectors; ++v) acc[i][v] = simd::fma(x, bv[v], acc[i][v]);
                    }
                    b += b_step;
                };
                for (; a_step == 1 && left >= target.tile.unrolled_terms; left -= target.tile.unrolled_terms) {
                    GRADKERN_UNROLL
                    for (int k = 0; k < target.tile.unrolled_terms; ++k)
                        add_term([&](int i) GRADKERN_INLINE_LAMBDA { return a[i] + k; });
                    GRADKERN_UNROLL
                    for (int i = 0; i < Rows; ++i) a[i] += target.tile.unrolled_terms;
                }
                if (adjoin) {
                    const float* first = a[0];
                    GRADKERN_NO_UNROLL
                    for (; left != 0; --left, first += a_step) {
                        simd::prefetch(first, a_ahead);
                        add_term([&](int i) GRADKERN_INLINE_LAMBDA { return first + row(i); });
                    }
                }
            }
            std::ptrdiff_t at = 0;
            // The eight terms a turn that clang likes spill, too (60 GF/s).
            GRADKERN_NO_UNROLL
            for (; left != 0; --left) {
                if constexpr (is_outer<A>) {
                    GRADKERN_UNROLL
                    for (int i = 0; i < Rows; ++i) {
                        const vec bv = simd::load(b + (outer_adjoins<Vectors> ? row(i) * width : 0));
                        const float* const x = a[i] + at;
                        unroll<Vectors>([&](auto v) GRADKERN_INLINE_LAMBDA {
                            acc[i][v] = simd::fma(group_number<A, Vectors, v>(x), bv, acc[i][v]);
                        });
                    }
                } else if constexpr (shares_numbers<A> && Rows < Vectors) {
                    // The few numbers wait in registers, not the many vectors: 16 registers do not hold those, and g++ would read
                    // them once for each row.
                    vec x[bound(Rows)];
                    GRADKERN_UNROLL
                    for (int i = 0; i < Rows; ++i) x[i] = shared_number<A>(a[i] + at);
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v) {
                        const vec bv = simd::keep(simd::load(b + v * width));
                        GRADKERN_UNROLL
                        for (int i = 0; i < Rows; ++i) acc[i][v] = add_product<A>(x[i], bv, acc[i][v]);
                    }
                } else if (eight_share) {
                    // Quads of two vectors are put together, so that what repeats a number need not leave its quad: CPUs have more
                    // units for that. A vector of sums then has one half of the outputs of each group.
                    if constexpr (A == operand::shared) {
                        const float* lane_b = b;
                        GRADKERN_NO_UNROLL
                        for (int half = 0; half < 2; ++half) {
                            vec x[bound(Rows)][bound(Vectors / 2)];
                            const auto take = [&](auto quad) GRADKERN_INLINE_LAMBDA {
                                GRADKERN_UNROLL
                                for (int i = 0; i < Rows; ++i) {
                                    GRADKERN_UNROLL
                                    for (int v = 0; v < Vectors; v += 2)
                                        x[i][v / 2] = simd::every_second_quad<quad>(
                                            simd::load(a[i] + at + v * width), simd::load(a[i] + at + (v + 1) * width));
                                }
                            };
                            if (half == 0) {
                                take(std::integral_constant<int, 0>{});
                            } else {
                                take(std::integral_constant<int, 1>{});
                            }
                            unroll<4>([&](auto l) GRADKERN_INLINE_LAMBDA {
                                vec bv[bound(Vectors)];
                                GRADKERN_UNROLL
                                for (int v = 0; v < Vectors; ++v) bv[v] = simd::load(lane_b + v * width);
                                lane_b += Vectors * width;
                                GRADKERN_UNROLL
                                for (int i = 0; i < Rows; ++i) {
                                    GRADKERN_UNROLL
                                    for (int v = 0; v < Vectors; ++v)
                                        acc[i][v] = simd::fma(simd::quad_lane<l>(x[i][v / 2]), bv[v], acc[i][v]);
                                }
                            });
                        }
                    }
                } else if constexpr (A == operand::shared) {
                    const std::int32_t* places = places_of_two.data();  // a known number of them g++ would unroll
                    const float* lane_b = b;
                    GRADKERN_NO_UNROLL
                    for (std::ptrdiff_t l = call.group; l != 0; --l, lane_b += Vectors * width, places += width) {
                        vec bv[bound(Vectors)];
                        GRADKERN_UNROLL
                        for (int v = 0; v < Vectors; ++v) bv[v] = simd::load(lane_b + v * width);
                        GRADKERN_UNROLL
                        for (int i = 0; i < Rows; ++i) {
                            GRADKERN_UNROLL
                            for (int v = 0; v < Vectors; ++v)
                                acc[i][v] = simd::fma(simd::permute(simd::load(a[i] + at + v * width), places), bv[v],
                                                      acc[i][v]);
                        }
                    }
                } else if constexpr (A == operand::quad || A == operand::octet) {
                    // A row's numbers wait in a register for all that shares them, one vector after the other: g++ would read them
                    // again each time.
                    constexpr int outputs = A == operand::octet ? Vectors : 1;  // vectors that share these numbers
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; v += outputs) {
                        vec x[bound(Rows)];
                        GRADKERN_UNROLL
                        for (int i = 0; i < Rows; ++i) x[i] = simd::keep(simd::load(a[i] + at + v * width));
                        unroll<4>([&](auto l) GRADKERN_INLINE_LAMBDA {
                            vec bv[bound(outputs)];
                            GRADKERN_UNROLL
                            for (int u = 0; u < outputs; ++u) bv[u] = simd::load(b + (l * Vectors + v + u) * width);
                            GRADKERN_UNROLL
                            for (int i = 0; i < Rows; ++i) {
                                const vec factor = simd::quad_lane<l>(x[i]);
                                GRADKERN_UNROLL
                                for (int u = 0; u < outputs; ++u)
                                    acc[i][v + u] = add_product<A>(factor, bv[u], acc[i][v + u]);
                            }
                        });
                    }
                } else {
                    vec bv[bound(Vectors)];
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v) bv[v] = simd::load(b + v * width);
                    GRADKERN_UNROLL
                    for (int i = 0; i < Rows; ++i) {
                        vec x = simd::zero();
                        if constexpr (shares_numbers<A>) x = shared_number<A>(a[i] + at);
                        GRADKERN_UNROLL
                        for (int v = 0; v < Vectors; ++v) {
                            if constexpr (reads_lanes) x = load_lanes<A>(a[i] + at + v * width);
                            acc[i][v] = add_product<A>(x, bv[v], acc[i][v]);
                        }
                    }
                }
                at += a_step;
                b += b_step;
            }
        }
        if constexpr (is_half<A>) {
            if (call.mode == tile_mode::set && call.bias == nullptr) {
                GRADKERN_UNROLL
                for (int i = 0; i < Rows; ++i) {
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v)
                        store_lanes<A>(reinterpret_cast<number*>(call.c[row(i)]) + c_at + v * width, acc[i][v]);
                }
            } else {
                alignas(64) float sums[bound(Rows * Vectors * width)];
                GRADKERN_UNROLL
                for (int i = 0; i < Rows; ++i) {
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v) simd::store(sums + (i * Vectors + v) * width, acc[i][v]);
                }
                store_rows<A>(call, sums, Vectors * width, b_at, c_at);
            }
            continue;
        }
        if (A == operand::octet || eight_share) {
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) {
                GRADKERN_UNROLL
                for (int v = 0; v + 1 < Vectors; v += 2) simd::interleave_quads(acc[i][v], acc[i][v + 1]);
            }
        }
        if constexpr (is_paired<A>) {
            if (call.rounds) {
                GRADKERN_UNROLL
                for (int i = 0; i < Rows; ++i) {
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v)
                        simd::narrow_dots(acc[i][v],
                                          reinterpret_cast<std::uint16_t*>(call.c[row(i)]) + c_at + v * width);
                }
                continue;
            }
        }
        if (call.mode == tile_mode::add) {
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) {
                GRADKERN_UNROLL
                for (int v = 0; v < Vectors; ++v)
                    acc[i][v] = simd::add(simd::load(call.c[row(i)] + c_at + v * c_step), acc[i][v]);
            }
        }
        GRADKERN_UNROLL
        for (int i = 0; i < Rows; ++i) {
            GRADKERN_UNROLL
            for (int v = 0; v < Vectors; ++v) simd::store(call.c[row(i)] + c_at + v * c_step, acc[i][v]);
        }
    }
}

using tile_function = void (*)(const tile_call&) noexcept;

template <operand A, int Vectors, int Unit, int... I>
constexpr std::array<tile_function, sizeof...(I)> make_tiles(std::integer_sequence<int, I...>) noexcept {
    return {{&register_tile<A, kernel_rows(I + 1, Unit), Vectors>...}};
}

/// Kernels for 1 row to the most.
template <operand A, int Vectors, int Unit>
inline constexpr auto tiles_of = make_tiles<A, Vectors, Unit>(
    std::make_integer_sequence<int, most_rows_of<A>(Vectors* static_cast<std::ptrdiff_t>(simd::lanes))>{});

/// Of groups of four or eight.
template <int Group>
inline constexpr auto outer_tiles = make_tiles<outer_operand<Group>, outer_sums(Group), outer_sums(Group) / 4>(
    std::make_integer_sequence<int, outer_rows(Group)>{});

/// Those of 1 vector to the most; of 1 vector in multiples of row_unit.
template <operand A, int Unit, int... V>
constexpr std::array<const tile_function*, sizeof...(V)> make_tiles_by_width(
    std::integer_sequence<int, V...>) noexcept {
    return {{tiles_of<A, V + 1, (V == 0 ? row_unit<A> : Unit)>.data()...}};
}
template <operand A, int Unit>
inline constexpr auto tiles_by_width =
    make_tiles_by_width<A, Unit>(std::make_integer_sequence<int, shares_numbers<A> ? tile_vectors : narrow_vectors>{});

/// The kernels for `lanes_used` lanes of a panel.
template <operand A, int Unit = row_unit<A>>
[[nodiscard]] inline const tile_function* tiles_for(std::ptrdiff_t lanes_used) noexcept {
    constexpr auto& tiles = tiles_by_width<A, Unit>;
    return tiles[static_cast<std::size_t>(kernel_vectors(lanes_used, static_cast<int>(tiles.size())) - 1)];
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
