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
// for rows i and lanes j. Two more serve groups of few channels, whose lanes share as many numbers: with q = j - j % n,
//
//     sum over l in [0, n) of
//         a[i][e.a + k * a_step + q + l] * b[e.b + k * b_step + l * row + j]     operand::quad: one l after the other, n = 4,
//                                                                                row = all lanes of b
//                                                                                operand::shared: so, but n = call.group
//     c[i][v * c_step + j]  (set | add | resume)  sum over stretches e, k of, for v in [0, n) and the lanes j of a vector,
//         a[i][e.a + k * a_step + q + v] * b[e.b + k * b_step + j]               operand::outer, n = 4 or 8
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
#include <gradkern/detail/simd.hpp>

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
enum class operand : std::uint8_t { scalar, vector, f16, bf16, quad, shared, outer, pair };

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
inline constexpr bool is_shared = A == operand::quad || A == operand::shared;

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
    std::ptrdiff_t rows = 0;          ///< as many as the kernel has, or one less
    const float* const* a = nullptr;  ///< one pointer a row
    std::ptrdiff_t a_step = 1;
    const float* b = nullptr;
    std::ptrdiff_t b_step = 0;
    float* const* c = nullptr;  ///< one pointer a row, vectors * lanes floats behind each
    std::ptrdiff_t c_step = 0;  ///< operand::outer: between the results of a row
    std::ptrdiff_t group = 0;   ///< operand::shared: how many lanes share numbers
    bool rounds = false;        ///< operand::pair: c holds bf16 numbers, which c_next and c_ahead count; set alone
    tile_mode mode = tile_mode::set;
    const float* bias = nullptr;  ///< operand::f16, bf16: a number for each lane, `b_next` from tile to tile, or null
    std::ptrdiff_t a_ahead = 0;  ///< from a row pointer to what another tile will read soon, and from c to what it will
    std::ptrdiff_t c_ahead = 0;  ///< write: lines so far apart that no CPU fetches them by itself. May leave the tensor
    std::ptrdiff_t tiles = 1;    ///< so many tiles one after the other, each that far behind its predecessor:
    std::ptrdiff_t a_next = 0;
    std::ptrdiff_t b_next = 0;
    std::ptrdiff_t c_next = 0;
    // sliding_tile.hpp alone: there is one row pointer,
    std::ptrdiff_t a_first = 0;  ///< from it to the first column,
    std::uint32_t inside = 0;    ///< which columns from that on are inside, a bit each,
    std::ptrdiff_t lanes = 0;    ///< and lanes of a tile
};

// Rows x vectors that leave registers for the operands, at most. Where rows are numbers that lanes share, 16 registers hold
// 6x2 accumulators, two vectors of b and one broadcast without spills (7x2 spills); 32 take 6x4 (AVX-512) or 4x4 vectors
// of 4 (NEON; emulated lanes, for tests). With AVX-512 12x2 reads twice as much for each product: it is 5 to 20 % slower
// where caches are small or another thread shares the core.
#if defined(__aarch64__) || (defined(GRADKERN_SIMD_EMULATE_LANES) && GRADKERN_SIMD_EMULATE_LANES + 0 == 4)
inline constexpr int tile_rows = 4;
inline constexpr int tile_vectors = 4;
#elif defined(__AVX512F__)
inline constexpr int tile_rows = 6;
inline constexpr int tile_vectors = 4;
#else
inline constexpr int tile_rows = 6;
inline constexpr int tile_vectors = 2;
#endif
inline constexpr std::ptrdiff_t tile_lanes = tile_vectors * static_cast<std::ptrdiff_t>(simd::lanes);

// Narrow tiles serve few lanes, and rows that are vectors: each of those is read for one product, however wide the tile.
#if defined(__AVX512F__)
inline constexpr int narrow_rows = 8;
inline constexpr int narrow_vectors = 2;
#else
inline constexpr int narrow_rows = tile_rows;
inline constexpr int narrow_vectors = tile_vectors;
#endif
inline constexpr std::ptrdiff_t narrow_lanes = narrow_vectors * static_cast<std::ptrdiff_t>(simd::lanes);

// Tiles of 16-bit rows have eight sums, about as many as a CPU has multiply-adds under way: of more of them g++ keeps some
// in memory, for want of registers to widen in. A row fills half a line of the cache, with AVX2 as with AVX-512.
inline constexpr int half_vectors = simd::lanes < 16 ? 2 : 1;
inline constexpr int half_rows = 8 / half_vectors;
inline constexpr std::ptrdiff_t half_lanes = half_vectors * static_cast<std::ptrdiff_t>(simd::lanes);

// Tiles of one vector have a sum a row: as many as a CPU has multiply-adds under way, and few calls. AVX-512 has as many.
inline constexpr int lone_rows = narrow_rows < 8 ? 12 : narrow_rows;

inline constexpr int most_rows = std::max({tile_rows, narrow_rows, lone_rows, half_rows});

// Tiles whose windows slide (sliding_tile.hpp) keep a vector for each row, and the weights of a line of the window.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int most_sliding_rows = 14;
#else
inline constexpr int most_sliding_rows = 8;
#endif
inline constexpr int most_rows_of_any = std::max(most_rows, most_sliding_rows);

// Neighbouring terms of operand::scalar that one turn of the loop adds in tiles of several vectors. With 16 registers two
// or four make g++ spill (94 became 61 and 79 GF/s).
#if defined(__AVX512F__)
inline constexpr int terms_a_turn = 4;
#else
inline constexpr int terms_a_turn = 1;
#endif

// Tiles of two vectors read half of the numbers once for each vector, by way of the multiply-add: fewer instructions for CPUs
// that take four a cycle. Those with AVX512_VBMI2, Ice Lake and later, take more; Intel's wait for so many reads (4 to 7 %).
#if defined(__AVX512VBMI2__)
inline constexpr bool reads_half_again = false;
#else
inline constexpr bool reads_half_again = true;
#endif

/// f(integral_constant 0) ... f(integral_constant N - 1), where numbers must be constants.
template <int N, class F>
GRADKERN_ALWAYS_INLINE void unroll(F&& f) {
    [&]<int... I>(std::integer_sequence<int, I...>) GRADKERN_INLINE_LAMBDA {
        (f(std::integral_constant<int, I>{}), ...);
    }
    (std::make_integer_sequence<int, N>{});
}

/// Kernels are what takes longest to compile: there are those for each `row_unit` rows, and the last row is computed again in
/// place of what is left of one. Not where rows are taps, and a tile has few of them, often an odd number, but for tiles of one
/// vector, which serve what is left of wider ones.
template <operand A>
inline constexpr int row_unit = is_half<A>     ? half_rows / 2
                                : is_shared<A> ? narrow_rows
                                               : 2;

/// How many rows the kernel for `rows` of them has, where kernels have multiples of `unit`, and two at least.
[[nodiscard]] constexpr int kernel_rows(int rows, int unit) noexcept {
    return std::max((rows + unit - 1) / unit * unit, 2);
}

/// Whether so many lanes may share their numbers.
[[nodiscard]] constexpr bool can_share(std::ptrdiff_t group) noexcept {
    return (group == 2 || group == 4 || group == 8) && group <= static_cast<std::ptrdiff_t>(simd::lanes);
}

/// Where each lane finds number l of its group, for all l of groups of two, then of four, then of eight.
inline constexpr auto group_places = [] {
    std::array<std::int32_t, 14 * simd::lanes> places{};
    auto next = places.begin();
    for (std::int32_t group : {2, 4, 8})
        for (std::int32_t l = 0; l < group; ++l)
            for (std::int32_t j = 0; j < static_cast<std::int32_t>(simd::lanes); ++j)
                *next++ = (j / group * group + l) % static_cast<std::int32_t>(simd::lanes);
    return places;
}();

/// Number L of each N lanes in all of them.
template <int N, int L>
[[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec group_number(simd::vec a) noexcept {
    if constexpr (N == 4) {
        return simd::quad_lane<L>(a);
    } else {
        return simd::permute(a, group_places.data() + (N - 2 + L) * static_cast<std::ptrdiff_t>(simd::lanes));
    }
}

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

/// The micro-kernel. Never inlined: its callers differ by type and layout, it does not. Loops over accumulators are
/// unrolled by pragma: without it they stay in memory at -O2, and by templates a file with tiles takes twice as long to compile.
template <operand A, int Rows, int Vectors>
GRADKERN_NOINLINE void register_tile(const tile_call& call) noexcept {
    using simd::vec;
    using number = row_number<A>;
    constexpr bool resumes = !is_shared<A> && !is_half<A>;  // not what serves the gather engine alone
    constexpr bool reads_lanes = A == operand::vector || is_shared<A> || is_half<A>;
    constexpr std::ptrdiff_t width = static_cast<std::ptrdiff_t>(simd::lanes);
    const std::ptrdiff_t c_step = A == operand::outer ? call.c_step : width;
    constexpr int sure = std::max(1, Rows - row_unit<A> + 1);  // rows there always are
    const auto row = [&](int i) GRADKERN_INLINE_LAMBDA {
        return i < sure ? i : i == Rows - 1 ? call.rows - 1 : std::min<std::ptrdiff_t>(i, call.rows - 1);
    };
    const std::ptrdiff_t a_step = call.a_step;
    const std::ptrdiff_t b_step = call.b_step;
    const std::ptrdiff_t a_ahead = call.a_ahead;
    constexpr bool several_terms = A == operand::scalar && Vectors > 1 && terms_a_turn > 1;
    const bool adjoin = several_terms && a_step != 1 && rows_adjoin(call.a, call.rows);
    std::ptrdiff_t a_at = 0;  // of a tile
    std::ptrdiff_t c_at = 0;
    std::ptrdiff_t b_at = 0;
    for (std::ptrdiff_t tile = call.tiles; tile != 0;
         --tile, a_at += call.a_next, b_at += call.b_next, c_at += call.c_next) {
        vec acc[Rows][Vectors];
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
            using result = std::conditional_t<A == operand::pair, std::uint16_t, number>;  // of pairs at most
            constexpr std::ptrdiff_t steps =
                is_half<A> ? 0 : std::max<std::ptrdiff_t>(2, Vectors * width / simd::line_elements<result>) - 1;
            const auto* c = reinterpret_cast<const result*>(call.c[i]);
            simd::prefetch_to_write(c, c_at + call.c_ahead);
            GRADKERN_UNROLL
            for (std::ptrdiff_t j = 1; j <= steps; ++j)
                simd::prefetch_to_write(c, c_at + call.c_ahead + j * last / std::max<std::ptrdiff_t>(steps, 1));
            if constexpr (reads_lanes) {
                const auto* a = reinterpret_cast<const number*>(call.a[i]) + a_at;
                GRADKERN_UNROLL
                for (std::ptrdiff_t j = 0; j < Vectors * width; j += simd::line_elements<number>)
                    simd::prefetch_to_l2(a, call.a_ahead + j);
            }
        };
        if constexpr (reads_lanes) {  // sums are short, and a loop would show
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) ask(row(i));
        } else {
            GRADKERN_NO_UNROLL
            for (std::ptrdiff_t i = 0; i < call.rows; ++i) ask(i);
        }
        for (const stretch* e = call.list; e != call.list + call.count; ++e) {
            const number* a[Rows];
            GRADKERN_UNROLL
            for (int i = 0; i < Rows; ++i) a[i] = reinterpret_cast<const number*>(call.a[row(i)]) + a_at + e->a;
            const float* b = call.b + b_at + e->b;
            std::ptrdiff_t left = e->length;
            if constexpr (several_terms) {
                // One term; at_row(i) is where row i's number is.
                constexpr int read_again = Vectors == 2 && reads_half_again ? Rows / 2 : 0;
                const auto add_term = [&](const auto& at_row) GRADKERN_INLINE_LAMBDA {
                    vec bv[Vectors];
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
                for (; a_step == 1 && left >= terms_a_turn; left -= terms_a_turn) {
                    GRADKERN_UNROLL
                    for (int k = 0; k < terms_a_turn; ++k)
                        add_term([&](int i) GRADKERN_INLINE_LAMBDA { return a[i] + k; });
                    GRADKERN_UNROLL
                    for (int i = 0; i < Rows; ++i) a[i] += terms_a_turn;
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
                if constexpr (A == operand::outer) {
                    const vec bv = simd::load(b);
                    GRADKERN_UNROLL
                    for (int i = 0; i < Rows; ++i) {
                        const vec x = simd::load(a[i] + at);
                        unroll<Vectors>([&](auto v) GRADKERN_INLINE_LAMBDA {
                            acc[i][v] = simd::fma(group_number<Vectors, v>(x), bv, acc[i][v]);
                        });
                    }
                } else if constexpr (A == operand::scalar && Rows < Vectors) {
                    // The few numbers wait in registers, not the many vectors: 16 registers do not hold those, and g++ would read
                    // them once for each row.
                    vec x[Rows];
                    GRADKERN_UNROLL
                    for (int i = 0; i < Rows; ++i) x[i] = simd::broadcast(a[i][at]);
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v) {
                        const vec bv = simd::keep(simd::load(b + v * width));
                        GRADKERN_UNROLL
                        for (int i = 0; i < Rows; ++i) acc[i][v] = simd::fma(x[i], bv, acc[i][v]);
                    }
                } else if constexpr (A == operand::shared) {
                    const std::int32_t* places = group_places.data() + (call.group - 2) * width;
                    const float* lane_b = b;
                    GRADKERN_NO_UNROLL
                    for (std::ptrdiff_t l = call.group; l != 0; --l, lane_b += Vectors * width, places += width) {
                        vec bv[Vectors];
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
                } else {
                    constexpr int terms = A == operand::quad ? 4 : 1;
                    unroll<terms>([&](auto l) GRADKERN_INLINE_LAMBDA {
                        vec bv[Vectors];
                        GRADKERN_UNROLL
                        for (int v = 0; v < Vectors; ++v) bv[v] = simd::load(b + (l * Vectors + v) * width);
                        GRADKERN_UNROLL
                        for (int i = 0; i < Rows; ++i) {
                            vec x = simd::zero();
                            if constexpr (A == operand::scalar) x = simd::broadcast(a[i][at]);
                            if constexpr (A == operand::pair) x = simd::broadcast_pair(a[i] + at);
                            GRADKERN_UNROLL
                            for (int v = 0; v < Vectors; ++v) {
                                if constexpr (reads_lanes) x = load_lanes<A>(a[i] + at + v * width);
                                if constexpr (A == operand::quad) x = simd::quad_lane<l>(x);
                                if constexpr (A == operand::pair) {
                                    acc[i][v] = simd::dot_bf16(x, bv[v], acc[i][v]);
                                } else {
                                    acc[i][v] = simd::fma(x, bv[v], acc[i][v]);
                                }
                            }
                        }
                    });
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
                alignas(64) float sums[Rows * Vectors * width];
                GRADKERN_UNROLL
                for (int i = 0; i < Rows; ++i) {
                    GRADKERN_UNROLL
                    for (int v = 0; v < Vectors; ++v) simd::store(sums + (i * Vectors + v) * width, acc[i][v]);
                }
                store_rows<A>(call, sums, Vectors * width, b_at, c_at);
            }
            continue;
        }
        if constexpr (A == operand::pair) {
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

/// Whether rows are numbers that lanes share.
template <operand A>
inline constexpr bool shares_numbers = A == operand::scalar || A == operand::pair;

/// How many rows tiles of a panel of `lanes` have at most.
[[nodiscard]] constexpr int rows_at_most(std::ptrdiff_t lanes) noexcept {
    if (lanes <= static_cast<std::ptrdiff_t>(simd::lanes)) return lone_rows;
    return lanes > narrow_lanes ? tile_rows : narrow_rows;
}

/// Kernels for 1 row to the most.
template <operand A, int Vectors, int Unit>
inline constexpr auto tiles_of = make_tiles<A, Vectors, Unit>(
    std::make_integer_sequence<int, is_half<A> ? half_rows
                                               : rows_at_most(Vectors* static_cast<std::ptrdiff_t>(simd::lanes))>{});

// operand::outer has as many accumulators a row as a group has channels: four, or eight in halves of a vector.
inline constexpr int most_outer = simd::lanes > 8 ? 8 : 4;
[[nodiscard]] constexpr int outer_rows(std::ptrdiff_t group) noexcept {
    return narrow_rows * narrow_vectors / static_cast<int>(group);
}
template <int Group>
inline constexpr auto outer_tiles =
    make_tiles<operand::outer, Group, Group / 4>(std::make_integer_sequence<int, outer_rows(Group)>{});

/// How many vectors the kernels for `lanes_used` lanes of a panel have, where the widest have `most`, two or four.
[[nodiscard]] constexpr int kernel_vectors(std::ptrdiff_t lanes_used, int most = tile_vectors) noexcept {
    constexpr auto lanes = static_cast<std::ptrdiff_t>(simd::lanes);
    return static_cast<int>(std::clamp<std::ptrdiff_t>((lanes_used + lanes - 1) / lanes, 1, most));
}

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

/// Whether the kernels for `lanes_used` lanes read and write no others.
[[nodiscard]] constexpr bool fills_tile(std::ptrdiff_t lanes_used) noexcept {
    return lanes_used == kernel_vectors(lanes_used) * static_cast<std::ptrdiff_t>(simd::lanes);
}

/// Vectors of the panels of `channels` where each panel has `width` lanes.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::ptrdiff_t panel_vectors(std::ptrdiff_t channels,
                                                                       std::ptrdiff_t width) noexcept {
    const std::ptrdiff_t rest = channels % width;
    return channels / width * kernel_vectors(width) + (rest == 0 ? 0 : kernel_vectors(rest));
}

/// Lanes of the panels of `channels` that share numbers: those of the widest tiles, or of narrow ones, where the widest
/// leave more than an eighth of the work empty, or `narrow` asks for it.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::ptrdiff_t panel_lanes(std::ptrdiff_t channels,
                                                                     bool narrow = false) noexcept {
    constexpr auto lanes = static_cast<std::ptrdiff_t>(simd::lanes);
    if (channels <= 2 * lanes) return kernel_vectors(channels) * lanes;
    const auto vectors = [&](std::ptrdiff_t width) { return panel_vectors(channels, width); };
    return narrow || 8 * vectors(narrow_lanes) < 7 * vectors(tile_lanes) ? narrow_lanes : tile_lanes;
}

/// Calls f(count, tiles) for as many tiles of `count` rows, at most `most`, a multiple of `unit`. Sizes differ by at most one
/// unit, since tiles of few rows are slow, and only the last tile's may be no multiple.
template <class F>
GRADKERN_ALWAYS_INLINE void split_runs(std::ptrdiff_t rows, std::ptrdiff_t most, std::ptrdiff_t unit, const F& f) {
    const std::ptrdiff_t tiles = (rows + most - 1) / most;
    if (tiles == 0) return;
    const std::ptrdiff_t units = (rows + unit - 1) / unit;
    const std::ptrdiff_t size = units / tiles;
    for (std::ptrdiff_t larger = units % tiles; rows > 0; larger = 0) {
        const std::ptrdiff_t count = std::min(rows, (size + (larger > 0 ? 1 : 0)) * unit);
        const std::ptrdiff_t alike = larger > 0 ? larger : rows / count;
        f(count, alike);
        rows -= count * alike;
    }
}

/// Calls f(count) for each of these tiles.
template <class F>
GRADKERN_ALWAYS_INLINE void split_rows(std::ptrdiff_t rows, std::ptrdiff_t most, std::ptrdiff_t unit, const F& f) {
    split_runs(rows, most, unit, [&](std::ptrdiff_t count, std::ptrdiff_t tiles) GRADKERN_INLINE_LAMBDA {
        for (; tiles > 0; --tiles) f(count);
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
