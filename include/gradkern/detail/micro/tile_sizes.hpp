// How large the tiles of this folder are: rows and vectors that the registers of a target hold, for which of them there are
// kernels, how wide panels of weights are, and how rows are shared out to tiles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

// Rows x vectors of the widest tiles, whose rows are broadcast.
inline constexpr int tile_rows = target.tile.rows;
inline constexpr int tile_vectors = target.tile.vectors;
template <class Real>
inline constexpr std::ptrdiff_t tile_lanes_of = tile_vectors* simd::lanes_of<Real>;
inline constexpr std::ptrdiff_t tile_lanes = tile_lanes_of<float>;

// Narrow tiles serve few lanes, and rows that are vectors: each of those is read for one product, however wide the tile.
inline constexpr int narrow_rows = target.tile.narrow_rows;
inline constexpr int narrow_vectors = target.tile.narrow_vectors;
template <class Real>
inline constexpr std::ptrdiff_t narrow_lanes_of = narrow_vectors* simd::lanes_of<Real>;
inline constexpr std::ptrdiff_t narrow_lanes = narrow_lanes_of<float>;

/// Real, the type that sums are kept in, as plans know it: float, or double of f64 tensors.
struct real_type {
    std::int64_t bytes = sizeof(float);
    std::int64_t lanes = simd::lanes;  ///< of a vector

    [[nodiscard]] constexpr bool is_f64() const noexcept { return bytes == sizeof(double); }
    [[nodiscard]] constexpr std::int64_t narrow_lanes() const noexcept { return narrow_vectors * lanes; }
    [[nodiscard]] constexpr std::int64_t tile_lanes() const noexcept { return tile_vectors * lanes; }
    /// As many as fill the memory of so many floats: sizes of buffers are counted in floats.
    [[nodiscard]] constexpr std::int64_t in_memory_of(std::int64_t floats) const noexcept {
        return floats * static_cast<std::int64_t>(sizeof(float)) / bytes;
    }
};
template <class Real>
inline constexpr real_type real_type_of{sizeof(Real), simd::lanes_of<Real>};

/// That of the sums of tensors of T. A T that is no element is refused elsewhere, in one message (run/elements.hpp).
template <class T>
inline constexpr real_type sum_type_of = real_type_of<float>;
template <element T>
inline constexpr real_type sum_type_of<T> = real_type_of<accumulate_t<T>>;

// Tiles of 16-bit rows have eight sums, about as many as a CPU has multiply-adds under way: of more of them g++ keeps some
// in memory, for want of registers to widen in. A row fills half a line of the cache, with AVX2 as with AVX-512.
inline constexpr int native_16bit_vectors = simd::lanes < 16 ? 2 : 1;
inline constexpr int native_16bit_rows = 8 / native_16bit_vectors;
inline constexpr std::ptrdiff_t native_16bit_lanes = native_16bit_vectors * simd::lanes;

// Tiles of a single vector have one sum a row. 12 rows with 16 registers, narrow_rows with 32, keep the units for multiply-adds busy.
inline constexpr int single_vector_rows = narrow_rows < 8 ? 12 : narrow_rows;

// Rows equally far apart take few registers for addresses, so that there may be more of them. With fewer, nothing is gained.
inline constexpr int spaced_rows = target.tile.spaced_rows;
inline constexpr int least_spaced_rows = 9;

// Tiles of groups keep a vector of numbers for each row beside its sums, of which there are eight with 16 registers, as many as a
// CPU has multiply-adds under way.
inline constexpr int group_rows = narrow_rows < 8 ? 4 : narrow_rows;

inline constexpr int most_rows = std::max({tile_rows, narrow_rows, single_vector_rows, native_16bit_rows});

// Tiles whose windows slide (sliding_tile.hpp) keep a vector for each row, and the weights of a line of the window.
inline constexpr int most_sliding_rows = target.tile.sliding_rows;
inline constexpr int most_rows_of_any = std::max({most_rows, spaced_rows, most_sliding_rows});

/// Kernels take longest to compile, so there are those for multiples of row_unit rows alone: one with too many rows computes its last
/// row again. Not where rows are taps, and a tile has few of them, often an odd number, but for tiles of one
/// vector, which serve what is left of wider ones.
template <operand A>
inline constexpr int row_unit = is_native_16bit<A> ? native_16bit_rows / 2
                                : is_group<A>      ? group_rows
                                                   : 2;

/// How many rows the kernel for `rows` of them has, where kernels have multiples of `unit`, and two at least: a
/// single row is computed twice, which spares a kernel.
[[nodiscard]] constexpr int kernel_rows(int rows, int unit) noexcept {
    return std::max((rows + unit - 1) / unit * unit, 2);
}

/// Whether there are tiles of groups of so many lanes. Groups of eight need two vectors of two quads or more.
[[nodiscard]] constexpr bool has_group_tiles(std::ptrdiff_t group) noexcept {
    return (group == 4 || group == 8) && group <= simd::lanes;
}

/// How many rows tiles of a panel of `lanes` have at most. Here and below `vector` is the lanes of a vector.
[[nodiscard]] constexpr int rows_at_most(std::ptrdiff_t lanes, std::ptrdiff_t vector = simd::lanes) noexcept {
    if (lanes <= vector) return single_vector_rows;
    return lanes > narrow_vectors * vector ? tile_rows : narrow_rows;
}

// operand::outer has as many accumulators a row as a group has channels: four, or eight in halves of a vector. Where eight fill
// a vector, operand::outer_half takes four of them at a time: three rows share a vector of b then.
inline constexpr int most_outer = simd::lanes > 8 && narrow_vectors == 2 ? 8 : 4;
[[nodiscard]] constexpr int outer_sums(std::ptrdiff_t group) noexcept {
    return static_cast<int>(std::min<std::ptrdiff_t>(group, most_outer));
}
[[nodiscard]] constexpr int outer_rows(std::ptrdiff_t group) noexcept {
    return narrow_rows * narrow_vectors / outer_sums(group);
}
template <int Group>
inline constexpr operand outer_operand = Group > most_outer ? operand::outer_half : operand::outer;
/// Whether there are kernels for weight gradients of such groups.
[[nodiscard]] constexpr bool has_outer(std::ptrdiff_t group) noexcept {
    return simd::lanes >= 8 && (group == 4 || (group == 8 && (most_outer == 8 || simd::lanes == 8)));
}
/// Whether these rows are vectors side by side, each with its own of b, of one tap; else taps, which share b. Where two rows are
/// all there is, three taps would leave one empty.
template <int Group>
inline constexpr bool outer_adjoins = Group == 8 && most_outer == 8;

/// How many rows the kernels of so many vectors have at most; 0: there are none.
template <operand A>
[[nodiscard]] constexpr int most_rows_of(int vectors) noexcept {
    if (is_group<A>) return has_group_tiles(group_of<A>) ? group_rows : 0;
    return is_native_16bit<A> ? native_16bit_rows
           : is_outer<A>      ? outer_rows(vectors)
                              : rows_at_most(vectors * simd::lanes);
}
/// What their rows are a multiple of, where those of several vectors have multiples of `unit` rows.
template <operand A>
[[nodiscard]] constexpr int kernel_unit(int vectors, int unit) noexcept {
    return is_outer<A> ? vectors / 4 : vectors == 1 ? row_unit<A> : unit;
}

/// How many vectors the kernels for `lanes_used` lanes of a panel have, where the widest have `most`, two or four.
[[nodiscard]] constexpr int kernel_vectors(std::ptrdiff_t lanes_used, int most = tile_vectors,
                                           std::ptrdiff_t vector = simd::lanes) noexcept {
    return static_cast<int>(std::clamp<std::ptrdiff_t>((lanes_used + vector - 1) / vector, 1, most));
}

/// Where rows are output channels, up to so many of them share one wide tile.
inline constexpr std::int64_t wide_tile_rows = 4;
/// The widest tile for a few rows, in vectors: a dozen accumulators, or eight, as many as a CPU has multiply-adds under way.
[[nodiscard]] constexpr int wide_tile_vectors(int rows) noexcept { return rows <= 2 ? 8 / rows : 12 / rows; }

/// Cycles that a tile takes for a term, on a core that starts two multiply-adds of four cycles and two loads at a time: what the cost models
/// of paths count.
[[nodiscard]] constexpr double cycles_of_term(std::int64_t rows, std::int64_t vectors) noexcept {
    constexpr std::int64_t under_way = 8;
    return static_cast<double>(std::max({rows * vectors, rows + vectors, under_way})) / 2;
}

/// Whether tiles of so many rows and lanes prefetch what is read later: those of several vectors and all their rows, to which most
/// terms are added.
[[nodiscard]] constexpr bool prefetches_later(std::ptrdiff_t rows, std::ptrdiff_t lanes_used,
                                              std::ptrdiff_t vector = simd::lanes) noexcept {
    return lanes_used > vector &&
           kernel_rows(static_cast<int>(rows), row_unit<operand::scalar>) == rows_at_most(lanes_used, vector);
}

/// Whether the kernels for `lanes_used` lanes read and write no others.
[[nodiscard]] constexpr bool fills_tile(std::ptrdiff_t lanes_used, std::ptrdiff_t vector = simd::lanes) noexcept {
    return lanes_used == kernel_vectors(lanes_used, tile_vectors, vector) * vector;
}

/// Calls f(size, count) for the parts of `whole` that have `size` each: as many as there are, and what is left.
template <class F>
GRADKERN_ALWAYS_INLINE constexpr void for_each_part(std::ptrdiff_t whole, std::ptrdiff_t size, const F& f) noexcept {
    if (whole >= size) f(size, whole / size);
    if (whole % size != 0) f(whole % size, std::ptrdiff_t{1});
}

/// Vectors of the panels of `channels` where each panel has `width` lanes.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::ptrdiff_t panel_vectors(std::ptrdiff_t channels, std::ptrdiff_t width,
                                                                       std::ptrdiff_t vector = simd::lanes) noexcept {
    std::ptrdiff_t vectors = 0;
    for_each_part(channels, width, [&](std::ptrdiff_t lanes, std::ptrdiff_t panels) {
        vectors += panels * kernel_vectors(lanes, tile_vectors, vector);
    });
    return vectors;
}

/// Lanes of the panels of `channels` where rows are broadcast: those of the widest tiles, or somewhat fewer, or those of narrow tiles, where the
/// widest leave more than an eighth of the work empty, or `narrow` says so.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::ptrdiff_t panel_lanes(std::ptrdiff_t channels, bool narrow = false,
                                                                     std::ptrdiff_t vector = simd::lanes) noexcept {
    if (channels <= 2 * vector) return kernel_vectors(channels, tile_vectors, vector) * vector;
    const std::ptrdiff_t narrow_width = narrow_vectors * vector;
    const std::ptrdiff_t width = tile_vectors * vector;
    const auto vectors = [&](std::ptrdiff_t lanes) { return panel_vectors(channels, lanes, vector); };
    if (narrow || 8 * vectors(narrow_width) < 7 * vectors(width)) return narrow_width;
    // Tiles of one vector wait for loads. Where tiles have four, and five or nine are needed, all panels have three in place of a last one of
    // one (144 channels, AVX-512, Emerald Rapids: 1.05 to 1.2 times as fast in NXC).
    const std::ptrdiff_t all = panel_vectors(channels, vector, vector);
    const std::ptrdiff_t panels = (all + tile_vectors - 1) / tile_vectors;
    return all % tile_vectors == 1 ? (all + panels - 1) / panels * vector : width;
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
        const std::ptrdiff_t equal = larger > 0 ? larger : rows / count;
        f(count, equal);
        rows -= count * equal;
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
