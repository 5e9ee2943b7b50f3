// What a task of the average engine works on, and what that reads: a strip of channels, a segment of output columns, a block
// of output lines, and one depth after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Neighbouring or equidistant columns of the input.
struct input_columns {
    std::int64_t first;
    std::int64_t step;
    std::int64_t count;
};

/// A run of columns that may read more than pool_part columns each: their sums are cut into parts.
struct long_run {
    column_run run;
    /// Reads of the first part before the first one inside. Parts are cut where reads behind the border count, too, so that
    /// all columns of a segment may be summed as one where they read zeros there.
    std::int64_t skipped;

    [[nodiscard]] constexpr std::int64_t parts() const noexcept {
        return shape::ceil_div(skipped + run.count, pool_part);
    }
    /// Part number i of what every column of the run reads.
    [[nodiscard]] constexpr column_run part(std::int64_t i, std::int64_t column_step) const noexcept {
        const std::int64_t first = std::clamp<std::int64_t>(i * pool_part - skipped, 0, run.count);
        const std::int64_t last = std::clamp<std::int64_t>((i + 1) * pool_part - skipped, first, run.count);
        column_run r = run;
        r.count = last - first;
        r.first = r.count == 0 ? 0 : run.first + first * column_step;
        return r;
    }
};

/// Some of the lines that an output line reads, in the order of its sums.
struct line_range {
    std::int64_t first;
    std::int64_t last;
};

/// One lane's place in the problem. The scratch line holds what the segment's columns read: from column `origin` on, `inner`
/// values each.
struct average_segment {
    average_segment(const average_plan& plan, std::byte* slice) noexcept
        : p(plan),
          runs(array_at<column_run>(slice, plan.at_runs)),
          long_runs(array_at<long_run>(slice, plan.at_long_runs)),
          line_reads(array_at<axis_reads>(slice, plan.at_lines)) {}

    /// Turns to the columns of a segment and the channels of a strip.
    void set_columns(std::int64_t segment, std::int64_t strip) noexcept {
        first_inner = strip * p.inner_block;
        inner = std::min(p.inner_block, p.inner - first_inner);
        first_column = segment * p.segment;
        columns = std::min(p.segment, p.out_extent(2) - first_column);
        const position_range all = read_span(p.axes[2], p.outputs(), first_column, first_column + columns);
        const position_range there = clipped(all, p.in_extent(2));
        first_read = there.first;
        reads = there.last - there.first;
        origin = p.extended ? all.first : first_read;
        held = p.extended ? all.last - all.first : reads;
        set_runs();
    }

    /// Turns to the block of lines that begins at `first`.
    void set_lines(std::int64_t first) noexcept {
        first_line = first;
        last_line = std::min(first + p.line_block, p.out_extent(1));
        list_reads(p.axes[1], p.outputs(), first_line, last_line, line_reads);
    }

    void set_depth(std::int64_t d) noexcept {
        depths = reads_at(p.axes[0], p.outputs(), d);
        counted_depth = p.backward ? 0 : p.counted(0, d);
    }

    [[nodiscard]] axis_reads rows_of(std::int64_t h) const noexcept { return line_reads[h - first_line]; }
    /// All lines of the input that an output line reads, which reads `rows`.
    [[nodiscard]] line_range all_lines(const axis_reads& rows) const noexcept { return {0, depths.count * rows.count}; }
    /// Calls f(i, h) for some of them, in the order of sums: i counts the depths that are read, h is the row.
    template <class F>
    void for_each_line(const axis_reads& rows, const line_range& lines, const F& f) const noexcept {
        const std::int64_t row_step = p.read_step(1);
        std::int64_t i = lines.first == 0 ? 0 : lines.first / rows.count;
        std::int64_t j = lines.first - i * rows.count;
        for (; i * rows.count < lines.last; ++i, j = 0)
            for (const std::int64_t end = std::min(rows.count, lines.last - i * rows.count); j < end; ++j)
                f(i, rows.first + j * row_step);
    }
    /// The same with f(d, h): depth and row of the input.
    template <class F>
    void for_each_line_read(const axis_reads& rows, const line_range& lines, const F& f) const noexcept {
        const std::int64_t depth_step = p.read_step(0);
        for_each_line(rows, lines, [&](std::int64_t i, std::int64_t h) { f(depths.first + i * depth_step, h); });
    }

    /// Parts of the longest sum of columns.
    [[nodiscard]] std::int64_t parts() const noexcept { return most_parts_; }
    /// out = the sums of all columns, of which sum() leaves there those that `runs` says, part by part. `totals`: scratch.
    template <class Sum>
    void sum_parts(double* totals, float* out, const Sum& sum) noexcept {
        line_totals all(totals, columns * inner);
        for (std::int64_t part = 0; part < parts(); ++part) {
            for (std::int64_t r = 0; r < run_count; ++r) runs[r] = long_runs[r].part(part, column_step());
            sum();
            all.add(out);
        }
        all.round_to(out);
    }

    /// Calls f(run, first, last) for the runs of the segment's columns [begin, end): their positions in there. (Steps of one
    /// column; else the columns are all.)
    template <class F>
    void for_each_run(std::int64_t begin, std::int64_t end, const F& f) const noexcept {
        for (std::int64_t r = 0; r < run_count; ++r) {
            const column_run& run = runs[r];
            const std::int64_t first = std::max<std::int64_t>(0, begin - run.begin);
            const std::int64_t last = std::min<std::int64_t>(run.positions, end - run.begin);
            if (first < last) f(run, first, last);
        }
    }

    /// All columns that the segment reads.
    [[nodiscard]] input_columns all_reads() const noexcept { return {first_read, 1, reads}; }
    /// Whether the scratch line has zeros for columns behind the borders.
    [[nodiscard]] bool has_zeros() const noexcept { return reads < held; }
    /// From one read of a position to the next, in columns of the scratch line. A step beyond it is never taken.
    [[nodiscard]] std::int64_t column_step() const noexcept { return std::min(p.read_step(2), p.reads); }

    /// True where a position's values fill no vector and its neighbours read no neighbours.
    [[nodiscard]] bool is_narrow() const noexcept { return inner < simd::lanes && p.axes[2].stride > 1; }
    /// Whether the values of `count` columns of a tensor's line follow one another in memory.
    [[nodiscard]] bool is_dense(const shape::canonical_strides& strides, std::int64_t inner_step,
                                std::int64_t count) const noexcept {
        return (inner_step == 1 || inner == 1) && (strides[4] == inner || count == 1);
    }

    const average_plan& p;
    column_run* runs;        // of the segment's columns; of long sums, a part of them
    long_run* long_runs;     // of a plan with long sums of columns: all of them
    axis_reads* line_reads;  // of the block's lines

    std::int64_t first_inner = 0;
    std::int64_t inner = 0;
    std::int64_t first_column = 0;
    std::int64_t columns = 0;
    std::int64_t first_read = 0;  // columns of the input that the segment reads
    std::int64_t reads = 0;
    std::int64_t origin = 0;  // column at the beginning of the scratch line
    std::int64_t held = 0;    // columns of the scratch line in use
    std::int64_t run_count = 0;
    std::int64_t most_reads = 0;  // of a run
    std::int64_t first_line = 0;
    std::int64_t last_line = 0;
    axis_reads depths{};
    std::int64_t counted_depth = 0;  // forward: taps along the depth that the divisors count

private:
    /// Lists the runs of columns that read alike.
    void set_runs() noexcept {
        run_count = 0;
        most_reads = 0;
        most_parts_ = 0;
        if (p.tiles || p.by_taps) return;
        shape::tap_class_walk walk(p.run_axis, p.outputs(), first_column, first_column + columns);
        for (shape::tap_class c; walk.next(c);) {
            const axis_reads r = reads_of_class(c, 0);
            const column_run run{c.first_position - first_column, c.positions,
                                 r.count == 0 ? 0 : r.first - p.run_shift - origin, r.count};
            runs[run_count] = run;
            if (p.long_columns) {
                long_runs[run_count] = {run, p.extended ? 0 : reads_skipped(p.axes[2], p.outputs(), c) % pool_part};
                most_parts_ = std::max(most_parts_, long_runs[run_count].parts());
            }
            ++run_count;
            most_reads = std::max(most_reads, r.count);
        }
    }

    std::int64_t most_parts_ = 0;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
