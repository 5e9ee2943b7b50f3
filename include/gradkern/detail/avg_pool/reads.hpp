// What output positions of the average engine read along one axis: forward the taps of a window, backward the windows that
// reach a position, in ascending order of what is read. That is also the order of their sum.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// The entries an output position of one axis reads on the other side: first, first + step, ...
struct axis_reads {
    std::int64_t first = 0;
    std::int64_t count = 0;
    [[nodiscard]] friend constexpr bool operator==(const axis_reads&, const axis_reads&) noexcept = default;
};

/// What position number i of a class reads.
[[nodiscard]] constexpr axis_reads reads_of_class(const shape::tap_class& c, std::int64_t i) noexcept {
    return c.taps == 0 ? axis_reads{} : axis_reads{c.first_read + i * c.read_per_position, c.taps};
}
/// Lists what each of the positions [first, last) reads.
GRADKERN_NOINLINE inline void list_reads(const shape::axis& a, shape::side outputs, std::int64_t first,
                                         std::int64_t last, axis_reads* list) noexcept {
    shape::tap_class_walk walk(a, outputs, first, last);
    for (shape::tap_class c; walk.next(c);)
        for (std::int64_t i = 0; i < c.positions; ++i)
            list[c.first_position - first + i * c.position_step] = reads_of_class(c, i);
}

/// The item that a worker computes: a block of output rows at one depth of a plane, and what they read.
struct block_place {
    block_place(const block_plan& p, axis_reads* list) noexcept : block(p), line_reads(list) {}

    /// Moves to depth and plane number `position`.
    GRADKERN_NOINLINE void set_plane(std::int64_t position) noexcept {
        const std::int64_t d = position % block.out_extent(0);
        const std::int64_t plane = position / block.out_extent(0);
        const std::int64_t n = plane / block.planes;
        const std::int64_t c = plane % block.planes;
        in_offset = n * block.in[0] + c * block.in[1];
        out_offset = n * block.out[0] + c * block.out[1] + d * block.out[2];
        if (d == depth) return;
        depth = d;
        list_reads(block.axes[0], block.outputs, d, d + 1, &depths);
    }
    /// Moves to the block of rows that begins at `first`.
    GRADKERN_NOINLINE void set_lines(std::int64_t first) noexcept {
        first_line = first;
        last_line = std::min(first + block.line_block, block.out_extent(1));
        list_reads(block.axes[1], block.outputs, first_line, last_line, line_reads);
    }
    /// The rows that row h of the block reads.
    [[nodiscard]] const axis_reads& rows_of(std::int64_t h) const noexcept { return line_reads[h - first_line]; }

    const block_plan& block;
    axis_reads* line_reads;       // of the rows of the block
    std::int64_t in_offset = 0;   // of the plane, in elements
    std::int64_t out_offset = 0;  // of its depth
    std::int64_t depth = -1;
    axis_reads depths{};
    std::int64_t first_line = -1;
    std::int64_t last_line = -1;
};

/// Whether windows of an axis overlap; forward, those that do not read the input in order.
[[nodiscard]] constexpr bool windows_overlap(const shape::axis& a) noexcept { return a.stride < a.kernel; }

/// Output columns begin, begin + position_step, ... (relative to the segment) that read `count` columns each: first the
/// column `first` (relative to the scratch line), then shifted by the same amount from one position to the next.
struct column_run {
    std::int64_t begin;
    std::int64_t positions;
    std::int64_t first;
    std::int64_t count;
};

/// Part number i of a sum of more than pool_part columns: what every column of the run reads of it. Parts are cut where reads
/// behind the border count, too, so that all columns of a segment may be summed as one where they read zeros there: `skipped`
/// of the first part lie before the first one inside.
[[nodiscard]] constexpr column_run part_of(column_run run, std::int64_t skipped, std::int64_t i,
                                           std::int64_t column_step) noexcept {
    const std::int64_t first = std::clamp<std::int64_t>(i * pool_part - skipped, 0, run.count);
    const std::int64_t last = std::clamp<std::int64_t>((i + 1) * pool_part - skipped, first, run.count);
    run.count = last - first;
    run.first = run.count == 0 ? 0 : run.first + first * column_step;
    return run;
}

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
