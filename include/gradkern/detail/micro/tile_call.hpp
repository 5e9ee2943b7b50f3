// What the tiles of this folder are called with. A tile is rows x lanes of sums that stay in registers while a list of segments
// of the K dimension is walked:
//
//     c[i][j]  (set | add | resume)  sum over segments e, k in [0, e.length) of  product(i, j, e.a + k * a_step, e.b + k * b_step)
//
// The operand (tile_operands.hpp) says what the product is. Terms are added one after the other by fused multiply-adds, in the
// order of the list. So the bits depend on the list alone, never on the shape of the tile; those of bf16 pairs depend on the
// target, too. Layouts, ranks and operators are settled before a tile is called, and so are element types that are not widened in
// registers: the number of bodies stays small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Where tiles read an operand.
enum class source_kind : std::uint8_t {
    in_place,
    packed  ///< in a buffer: numbers as sums are, or pairs
};

/// A segment of the K dimension: offsets in elements from a row pointer and from b, and its number of terms.
struct k_segment {
    std::ptrdiff_t a = 0;
    std::ptrdiff_t b = 0;
    std::ptrdiff_t length = 0;
};

/// Neighbouring column taps of a line of a window that slides (sliding_tile.hpp): offsets in elements of the first one.
struct sliding_piece {
    std::ptrdiff_t a = 0;
    std::ptrdiff_t b = 0;
    std::ptrdiff_t first = 0;  ///< number of the first one in its line
    std::int32_t taps = 0;
    std::uint32_t ends =
        0;  ///< rows that have the end of a part behind these, a bit each; none where sums are one part
};

/// What becomes of the values c holds before the call.
enum class tile_mode : std::uint8_t {
    set,    ///< c = sum; c is not read
    add,    ///< c = c + sum: the end of one part of a longer reduction
    resume  ///< the sum continues from c as if the call before had not ended
};

/// Lines of the cache that other tiles will read, beyond L2: runs of neighbouring ones. Tiles prefetch them to L2, one run after the other,
/// a line or a part of one for each term, so that the core waits for memory and multiplies at the same time. Prefetched between
/// tiles, lines fill all buffers that wait for memory, and the next tile waits, too (1.04 to 1.08 times as long; Emerald Rapids).
struct later_lines {
    const std::byte* next = nullptr;
    std::ptrdiff_t step = 0;  ///< bytes from term to term
    std::ptrdiff_t run = 1;   ///< terms of a run, one at least
    std::ptrdiff_t jump = 0;  ///< bytes from the end of a run to the next one
    std::ptrdiff_t left = 1;  ///< terms of this run

    /// `bytes` bytes of each run, which begin `from_run_to_run` bytes apart, in `terms` terms, one at least: of as many lines as there are terms
    /// at most.
    constexpr later_lines(const std::byte* first, std::int64_t bytes, std::int64_t from_run_to_run,
                          std::int64_t terms) noexcept
        : next(first),
          step(std::min(shape::ceil_div(bytes, terms), cache_line)),
          run(terms),
          jump(from_run_to_run - terms * step),
          left(terms) {}
    constexpr later_lines() noexcept = default;

    /// Calls add() for each of `terms` terms, and prefetches.
    template <class F>
    GRADKERN_ALWAYS_INLINE void prefetch_with(std::ptrdiff_t terms, const F& add) noexcept {
        while (terms > 0) {
            const std::ptrdiff_t count = std::min(terms, left);
            const std::byte* line = next;
            GRADKERN_NO_UNROLL
            for (std::ptrdiff_t i = count; i != 0; --i) {
                simd::prefetch_to_l2(line);
                line = behind(line, step);
                add();
            }
            terms -= count;
            left -= count;
            next = line;
            if (left > 0) return;
            left = run;
            next = behind(line, jump);
        }
    }

private:
    /// Runs may leave the tensor.
    static GRADKERN_ALWAYS_INLINE const std::byte* behind(const std::byte* line, std::ptrdiff_t bytes) noexcept {
        return static_cast<const std::byte*>(simd::address_of(line, bytes));
    }
};

/// Arguments of a tile with sums of type Real; offsets and steps in elements. Pointers are f32 in name only where rows have 16 bits.
template <class Real>
struct tile_call_of {
    const k_segment* list = nullptr;  ///< `count` segments
    std::ptrdiff_t count = 0;
    std::ptrdiff_t rows = 0;         ///< the kernel's, or less by up to its row_unit - 1
    const Real* const* a = nullptr;  ///< one pointer a row
    std::ptrdiff_t a_step = 1;
    const Real* b = nullptr;
    std::ptrdiff_t b_step = 0;
    Real* const* c = nullptr;   ///< one pointer a row, vectors * lanes numbers behind each
    std::ptrdiff_t c_step = 0;  ///< operand::outer, outer_half: between the results of a row
    bool rounds = false;  ///< operand::pair, pair_group_8: c holds bf16, which c_next and c_ahead count; set alone
    tile_mode mode = tile_mode::set;
    const Real* const* added = nullptr;  ///< tile_mode::add: what sums are added to, in place of c; null: c
    const Real* bias = nullptr;  ///< operand::f16, bf16: a number for each lane, `b_next` from tile to tile, or null
    /// Prefetch distances, from a row pointer to what another tile will read soon, and from c to what it will write: lines so far
    /// apart that no CPU fetches them by itself. The addresses may leave the tensor.
    std::ptrdiff_t a_ahead = 0;
    std::ptrdiff_t c_ahead = 0;
    std::ptrdiff_t a_lines = 0;    ///< operand::scalar: so many lines of the cache of each row, at a_ahead
    bool no_prefetch = false;      ///< rows that are vectors: no prefetch
    later_lines* later = nullptr;  ///< of kernels that prefetch it
    std::ptrdiff_t tiles = 1;      ///< so many tiles one after the other, each that far behind its predecessor:
    std::ptrdiff_t a_next = 0;
    std::ptrdiff_t b_next = 0;
    std::ptrdiff_t c_next = 0;
    std::ptrdiff_t runs = 1;  ///< has_runs: so many runs of these tiles, each that far behind its predecessor:
    std::ptrdiff_t a_run = 0;
    std::ptrdiff_t c_run = 0;
    // sliding_tile.hpp, which has no runs, alone: there is one row pointer,
    std::ptrdiff_t a_first = 0;       ///< from it to the first column,
    std::ptrdiff_t inside_begin = 0;  ///< which columns from that on are inside,
    std::ptrdiff_t inside_end = 0;
    std::ptrdiff_t lanes = 0;               ///< lanes of a tile,
    const sliding_piece* pieces = nullptr;  ///< and `count` pieces in place of segments
};

using tile_call = tile_call_of<float>;

template <class Real>
using tile_function_of = void (*)(const tile_call_of<Real>&) noexcept;
using tile_function = tile_function_of<float>;

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
