// What a task of a path that computes lines one by one works on, and what that reads: a strip of channels, a segment of output
// columns, a block of output rows, and one depth after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_stores.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// Neighbouring or equidistant columns of the input.
struct input_columns {
    std::int64_t first;
    std::int64_t step;
    std::int64_t count;
};

/// A worker's place in the problem. The scratch line holds what the segment's columns read: from column `origin` on, `inner`
/// values each.
struct segment_place : block_place {
    segment_place(const segment_plan& plan, std::byte* slice) noexcept
        : block_place(plan, array_at<axis_reads>(slice, plan.at_lines)), p(plan) {}

    /// Moves to the columns of a segment and the channels of a strip.
    GRADKERN_NOINLINE void set_columns(std::int64_t segment, std::int64_t strip) noexcept {
        first_inner = strip * p.inner_block;
        inner = std::min(p.inner_block, p.inner - first_inner);
        first_column = segment * p.segment;
        columns = std::min(p.segment, p.out_extent(2) - first_column);
        const position_range all = read_span(p.axes[2], p.outputs, first_column, first_column + columns);
        const position_range there = clipped(all, p.in_extent(2));
        first_read = there.first;
        reads = there.last - there.first;
        origin = p.borders == border::zeros ? all.first : first_read;
        buffered = p.borders == border::zeros ? all.last - all.first : reads;
    }

    /// Elements from the origin of the image that is read, and from row 0 of the depth that is written.
    [[nodiscard]] std::int64_t in_origin() const noexcept { return in_offset + first_inner * p.in_inner; }
    [[nodiscard]] std::int64_t out_origin() const noexcept {
        return out_offset + first_inner * p.out_inner + first_column * p.out[4];
    }

    /// All lines of the input that an output line reads, which reads `rows`, in the order of its sums.
    [[nodiscard]] position_range all_lines(const axis_reads& rows) const noexcept {
        return {0, depths.count * rows.count};
    }
    /// Calls f(d, h, i) for some of them, in the order of sums: depth and row of the input; i counts the depths that are read.
    template <class F>
    void for_each_line(const axis_reads& rows, const position_range& lines, const F& f) const noexcept {
        const std::int64_t depth_step = p.read_step(0);
        const std::int64_t row_step = p.read_step(1);
        std::int64_t i = lines.first == 0 ? 0 : lines.first / rows.count;
        std::int64_t j = lines.first - i * rows.count;
        for (; i * rows.count < lines.last; ++i, j = 0)
            for (const std::int64_t end = std::min(rows.count, lines.last - i * rows.count); j < end; ++j)
                f(depths.first + i * depth_step, rows.first + j * row_step, i);
    }

    /// All columns that the segment reads, and those that it writes.
    [[nodiscard]] input_columns all_reads() const noexcept { return {first_read, 1, reads}; }
    [[nodiscard]] input_columns all_columns() const noexcept { return {first_column, 1, columns}; }
    /// Whether the scratch line has zeros for columns behind the borders.
    [[nodiscard]] bool has_zeros() const noexcept { return reads < buffered; }
    /// From one read of a position to the next, in columns. A step beyond all of them is never taken.
    [[nodiscard]] std::int64_t column_step() const noexcept {
        return std::min(p.read_step(2), std::max(p.reads, p.in_extent(2)));
    }

    /// True where a position's values fill no vector and its neighbours read no neighbours.
    [[nodiscard]] bool is_narrow() const noexcept { return inner < p.real.lanes && p.axes[2].stride > 1; }
    /// Whether the values of `count` columns of a tensor's line follow one another in memory.
    [[nodiscard]] bool is_dense(const shape::canonical_strides& strides, std::int64_t inner_step,
                                std::int64_t count) const noexcept {
        return (inner_step == 1 || inner == 1) && (strides[4] == inner || count == 1);
    }

    /// Stores a line of results of all columns of the segment; `out` is its first column.
    template <class T>
    void store_line(const accumulate_t<T>* line, T* out) const noexcept {
        if (inner == 1 ? p.out[4] != 1 : p.out_inner != 1)
            return unpack_lanes(line, inner, inner, columns, out, p.out_inner, p.out[4], p.accumulates());
        const bool dense = p.out[4] == inner || columns == 1;
        const std::int64_t length = dense ? columns * inner : inner;
        for (std::int64_t x = 0; x < columns * inner; x += length, out += p.out[4])
            p.accumulates() ? accumulate_line(line + x, length, out) : write_line(line + x, length, out);
    }

    const segment_plan& p;

    std::int64_t first_inner = 0;
    std::int64_t inner = 0;
    std::int64_t first_column = 0;
    std::int64_t columns = 0;
    std::int64_t first_read = 0;  // columns of the input that the segment reads
    std::int64_t reads = 0;
    std::int64_t origin = 0;    // column at the beginning of the scratch line
    std::int64_t buffered = 0;  // columns of the scratch line in use
};

/// The runs of a segment's columns: neighbours that read the same number of columns.
class column_runs {
public:
    column_runs(const segment_place& s, std::byte* slice) noexcept
        : s_(s),
          runs_(array_at<column_run>(slice, s.p.at_runs)),
          totals_(array_at<double>(slice, s.p.at_column_totals)) {}

    /// Lists those of the segment's columns, which read as columns of `a` do, shifted by `shift`.
    GRADKERN_NOINLINE void set(const shape::axis& a, std::int64_t shift) noexcept {
        count_ = most_reads_ = parts_ = 0;
        shape::tap_class_walk walk(a, s_.p.outputs, s_.first_column, s_.first_column + s_.columns);
        for (shape::tap_class c; walk.next(c); ++count_) {
            const axis_reads r = reads_of_class(c, 0);
            const column_run run{c.first_position - s_.first_column, c.positions,
                                 r.count == 0 ? 0 : r.first - shift - s_.origin, r.count};
            runs_[count_] = run;
            most_reads_ = std::max(most_reads_, r.count);
            if (s_.p.long_columns) parts_ = std::max(parts_, shape::ceil_div(skipped(run) + r.count, pool_part));
        }
    }

    /// Columns that a column reads at most, and parts of the longest sum of them.
    [[nodiscard]] std::int64_t most_reads() const noexcept { return most_reads_; }
    [[nodiscard]] std::int64_t parts() const noexcept { return parts_; }
    /// out = the sums of all columns, of which sum() leaves there those that the runs say, part by part.
    template <class Real, class Sum>
    void sum_parts(Real* out, const Sum& sum) noexcept {
        if (parts_ <= 1) return sum();
        line_totals all(totals_, s_.columns * s_.inner);
        for (part_ = 0; part_ < parts_; ++part_) {
            sum();
            all.add(out);
        }
        part_ = -1;
        all.round_to(out);
    }

    /// Calls f(run) for each.
    template <class F>
    void for_each(const F& f) const noexcept {
        for (std::int64_t r = 0; r < count_; ++r) {
            column_run run = runs_[r];
            if (part_ >= 0) run = part_of(run, skipped(run), part_, s_.column_step());
            f(run);
        }
    }
    /// Calls f(run, first, last) for those of the segment's columns [begin, end): their positions in there. (Steps of one
    /// column; else the columns are all.)
    template <class F>
    void for_each(std::int64_t begin, std::int64_t end, const F& f) const noexcept {
        for_each([&](const column_run& run) {
            const std::int64_t first = std::max<std::int64_t>(0, begin - run.begin);
            const std::int64_t last = std::min<std::int64_t>(run.positions, end - run.begin);
            if (first < last) f(run, first, last);
        });
    }

private:
    /// Reads of a run's first part that lie behind the border, before the first one inside, where those are no columns of the
    /// scratch line.
    [[nodiscard]] GRADKERN_NOINLINE std::int64_t skipped(const column_run& run) const noexcept {
        if (s_.p.borders == border::zeros || run.count == 0) return 0;
        const std::int64_t column = s_.first_column + run.begin;
        const std::int64_t first = read_span(s_.p.axes[2], s_.p.outputs, column, column + 1).first;
        return (s_.origin + run.first - first) / s_.p.read_step(2) % pool_part;
    }

    const segment_place& s_;
    column_run* runs_;
    double* totals_;
    std::int64_t count_ = 0;
    std::int64_t most_reads_ = 0;
    std::int64_t parts_ = 0;
    std::int64_t part_ = -1;  // of long sums, while they are formed
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
