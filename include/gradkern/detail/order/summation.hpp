// The order of summation: what makes results the same on every machine. These numbers are part of the definition of
// every result; changing one changes bits. They depend on shapes alone, never on an instruction set, a cache or a path.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

// Forward and data gradients. The terms of one output run over blocks of 64 channels, in each over the inside taps in
// row-major order of what they read, in each over the channels. A part ends before it would exceed 576 terms (a 3x3 window of one block);
// parts are summed from zero and added in order.
inline constexpr std::int64_t channel_block = 64;
inline constexpr std::int64_t part_terms = 576;

// Weight and bias gradients. The positions of the small side are cut into chunks of whole lines (rows of the last axis)
// of at most 256 positions, longer lines into pieces of 256. Each chunk is summed from zero in row-major order over the
// batch; 32 chunks are added up in order, and so are these sums: a sum of 1e6 terms passes through 256 + 32 + 122
// additions, not 1e6. With summation::image_by_image the same happens in each image, and then the images are added up in
// order, beginning with the previous value where results accumulate.
inline constexpr std::int64_t chunk_positions = 256;
inline constexpr std::int64_t chunks_per_sum = 32;

// Pools. A sum runs in f32 while it has few terms. A longer one is cut into parts of 512 terms, of which the last ones may
// have fewer: each is summed from zero in f32, and the parts are added up in f64, so that the error does not grow with
// their number. The total is rounded to f32 once.
inline constexpr std::int64_t pool_part = 512;

// Gradients of max pools go where the values lead: nobody knows beforehand how many of them meet. Sums are f32; where more
// than pool_part windows reach one element, or, where indices are given, could name it, since there are more than
// many_windows, they are f64, which is rounded to f32 once.
inline constexpr std::int64_t many_windows = 1 << 18;

/// Results of a sum over a batch: one, or one an image.
[[nodiscard]] constexpr std::int64_t results_of(summation how, std::int64_t batch) noexcept {
    return how == summation::per_image ? batch : 1;
}
/// Whether accumulating sums begin with the previous results. Else those are added in the end.
[[nodiscard]] constexpr bool begins_with_results(summation how) noexcept { return how == summation::image_by_image; }

/// What such sums are kept in.
enum class sum_type : std::uint8_t { f32, f64 };
[[nodiscard]] constexpr std::int64_t size_of(sum_type s) noexcept {
    return s == sum_type::f64 ? sizeof(double) : sizeof(float);
}

/// Whether more than pool_part terms may meet in one output: taps of a window, or windows that reach one position.
[[nodiscard]] constexpr bool many_terms_meet(const std::array<shape::axis, 3>& axes, shape::side outputs) noexcept {
    std::int64_t terms = 1;
    for (const shape::axis& a : axes) terms *= (std::min)(a.most_reads(outputs), pool_part + 1);
    return terms > pool_part;
}

/// Positions of the small side cut into chunks. Lines are numbered row-major over (batch, depth, height).
///
/// Chunks are added up in sums, these in groups, and groups in order: with summation::joint all chunks are one group, else those
/// of an image are. No chunk then has lines of two images.
struct chunk_grid {
    std::int64_t lines = 0;            ///< N * D * H
    std::int64_t width = 0;            ///< W
    std::int64_t image_lines = 0;      ///< those that chunks share out: of one image, or all
    std::int64_t lines_per_chunk = 1;  ///< more than 1 only where a chunk holds whole lines
    std::int64_t pieces = 1;           ///< more than 1 only where a line is longer than a chunk
    std::int64_t image_chunks = 0;     ///< of image_lines
    std::int64_t count = 0;            ///< chunks
    std::int64_t sum_chunks = 1;       ///< of one sum, at most
    std::int64_t group_chunks = 0;     ///< of one group
    bool folds_groups = false;         ///< whether groups are sums from zero, which are added to a total

    constexpr chunk_grid() noexcept = default;
    constexpr chunk_grid(std::int64_t images, std::int64_t lines_of_one, std::int64_t line_width,
                         summation how) noexcept
        : lines(images * lines_of_one),
          width(line_width),
          image_lines(how == summation::joint ? lines : lines_of_one),
          lines_per_chunk(line_width < chunk_positions ? chunk_positions / line_width : 1),
          pieces(shape::ceil_div(line_width, chunk_positions)) {
        if (how != summation::joint)
            lines_per_chunk = (std::max)((std::min)(lines_per_chunk, image_lines), std::int64_t{1});
        image_chunks = shape::ceil_div(image_lines, lines_per_chunk) * pieces;
        count = how == summation::joint ? image_chunks : images * image_chunks;
        folds_groups = how == summation::image_by_image && image_chunks > 1 && count > 0;
        // An image of one chunk is a sum and a group by itself. To add such groups in order is to add chunks in order.
        const bool is_one_sum = how == summation::image_by_image && !folds_groups;
        sum_chunks = is_one_sum ? (std::max)(count, std::int64_t{1}) : chunks_per_sum;
        group_chunks = is_one_sum || count == 0 ? count : image_chunks;
    }

    /// Groups: one at least, of nothing.
    [[nodiscard]] constexpr std::int64_t groups() const noexcept { return count == 0 ? 1 : count / group_chunks; }
    /// Sums of one group.
    [[nodiscard]] constexpr std::int64_t group_sums() const noexcept {
        return (std::max)(shape::ceil_div(group_chunks, sum_chunks), std::int64_t{1});
    }
    [[nodiscard]] constexpr std::int64_t sums() const noexcept { return groups() * group_sums(); }
    /// Chunks of a sum, at most.
    [[nodiscard]] constexpr std::int64_t chunks_of_sum() const noexcept { return (std::min)(sum_chunks, group_chunks); }
    /// The sum that a chunk is part of, of a grid that has chunks.
    [[nodiscard]] constexpr std::int64_t sum_of(std::int64_t i) const noexcept {
        return i / group_chunks * group_sums() + i % group_chunks / sum_chunks;
    }
    /// The chunks [first, last) of one of them.
    struct range {
        std::int64_t first, last;
    };
    [[nodiscard]] constexpr range of_sum(std::int64_t sum) const noexcept {
        const std::int64_t group = sum / group_sums() * group_chunks;
        const std::int64_t first = group + sum % group_sums() * sum_chunks;
        return {first, (std::min)(first + sum_chunks, group + group_chunks)};
    }

    /// One chunk: lines [first_line, last_line), columns [first_column, last_column) of each.
    struct chunk {
        std::int64_t first_line, last_line, first_column, last_column;
        [[nodiscard]] constexpr std::int64_t columns() const noexcept { return last_column - first_column; }
        [[nodiscard]] constexpr std::int64_t positions() const noexcept { return (last_line - first_line) * columns(); }
    };
    [[nodiscard]] constexpr chunk operator[](std::int64_t i) const noexcept {
        const std::int64_t image = i / image_chunks * image_lines;
        const std::int64_t in_image = i % image_chunks;
        const std::int64_t line = image + in_image / pieces * lines_per_chunk;
        const std::int64_t column = in_image % pieces * chunk_positions;
        return {line, (std::min)(line + lines_per_chunk, image + image_lines), column,
                pieces == 1 || column + chunk_positions > width ? width : column + chunk_positions};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
