// Path `collapsed_lines` of the average engine: the short lines of a block as one, where windows move along them by one position
// or a few.
//
// Lines of W columns follow one another in both memories, and outputs have as many columns as inputs. So the column at distance
// s of output i is element i + s of the block, but for columns near the ends of a line, which would read the line before or
// behind. Forward with a stride, lines of the input are as many times longer: then this holds of each phase of its columns.
// Steps of a run of rows, each of which reads as much, one step further:
//
//     1. backward: quotients of all rows that the block reads
//     2. vertical sums over depth and height
//     3. horizontal sums, of each tap where it is inside; forward the phases of a stride are separated before
//
// Where windows of a gradient lie side by side there are no sums: each quotient is repeated for the columns of its window.
//
// Small planes whose windows keep their size are a line, too: the row at distance s of output i is element i + s * W, but near the
// ends of a plane. Then a block is all planes of a task, and vertical sums are of each tap where it is inside.
//
//     loops         task (block of rows) > image, plane, depth > run of rows > step > block > tap;
//                   or task (block of planes) > step > block > tap
//     lanes         neighbouring positions, over the ends of rows and planes
//     taken when    rows have at most 128 columns and follow one another, and what a block reads is little; where channels could be
//                   transposed, planes from 128 positions on (quotients repeated), 256 (stride 1) or 512 (phases separated)
//     gain          over lines: 3x3 s1 of 13 x 192 x 35x35 NCX forward 3020 -> 1350 us, backward 2360 -> 1690 us; 2x2 s2 of
//                   3 x 256 x 56x56 forward 800 -> 525 us, backward over non_overlapping 869 -> 477 us (Sapphire Rapids, one core,
//                   g++ 12 -O2, f32, both forced by `algorithm`). Blocks of planes over transposed lines: 3x3 s1 of
//                   32 x 1280 x 8x8 forward 3050 -> 1330 us, backward 2990 -> 1300 us; over blocks of rows 4260 and 4930 us;
//                   of 8 x 768 x 17x17 over blocks of rows 1130 -> 910 us and 1240 -> 860 us. Over transposed lines: 2x2 s2 of
//                   29 x 512 x 28x28 forward 18.2 -> 8.7 ms; of 32 x 1024 x 14x14 backward 5.3 -> 3.4 ms (Emerald Rapids, g++ 12 -O3)
//     zoo           10 of 20 layers, in NCX: avg2s2_256, avg2s2_512, avg3s1p1_*, avg3d_2x1x1; forward lpips_like_avg4;
//                   backward avg2s2_1024, avg7s7_64, pspnet_bin3
//     delete when   the gain over lines and transposed lines is below 3 %
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/line_taps.hpp>
#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// How quotients of a gradient, or rows of the input, become results: by sums; or, backward where windows do not overlap and
/// lie side by side along the columns, with none between or before them, as they are for all columns of their window.
enum class collapsed_result : std::uint8_t { summed, repeated };

/// What a block is: rows of one plane, or all planes of a task.
enum class collapsed_block : std::uint8_t { rows, planes };

struct collapsed_lines_plan : block_plan {
    static constexpr algorithm name = algorithm::collapsed_lines;

    collapsed_block block = collapsed_block::rows;
    collapsed_result result = collapsed_result::summed;
    std::int64_t margin = 0;  // floats before and behind vertical sums, each phase of them, and planes

    std::int64_t at_vertical = 0;  // byte offsets in a slice
    std::int64_t at_phases = 0;
    std::int64_t at_source = 0;  // backward quotients of the rows that a block reads; forward planes as f32
    std::int64_t at_divisors = 0;
    std::int64_t at_counts = 0;
    std::int64_t at_inside = 0;  // of the taps
    std::int64_t at_lines = 0;

    /// Planes of a block are not cut.
    [[nodiscard]] constexpr std::int64_t least_rows(std::int64_t outputs_of_row) const noexcept {
        return block == collapsed_block::planes ? line_block : block_plan::least_rows(outputs_of_row);
    }
};

/// Whether windows of a gradient do not overlap and lie side by side, with no column between or before them.
[[nodiscard]] constexpr bool windows_lie_side_by_side(const problem& p) noexcept {
    const shape::axis& w = p.axes[2];
    return p.is_backward() && w.stride > 1 && w.kernel == w.stride && w.dilation == 1 && w.pad_begin == 0 &&
           p.axes[0].most_reads(p.outputs) <= 1 && p.axes[1].most_reads(p.outputs) <= 1;
}

/// Rows of a block: whole planes, if possible, but scratch of small problems fits the stack.
[[nodiscard]] constexpr std::int64_t collapsed_rows(const problem& p) noexcept {
    const std::int64_t depth = std::max<std::int64_t>(p.out_extent(0), 1);
    const bool is_small = p.batch * p.planes <= average_task / p.out_extent(2) / p.out_extent(1) / depth;
    const std::int64_t outputs = p.position_step(2) > 1 || !is_small ? 4096 : 1024;
    return shape::even_part(p.out_extent(1), outputs / p.out_extent(2));
}
/// Rows that a block reads at one depth, at most: quotients of those that it shares with others are formed for each.
[[nodiscard]] constexpr std::int64_t collapsed_reads(const problem& p) noexcept {
    return reads_at_most(p.axes[1], p.outputs, collapsed_rows(p));
}

/// Whether lines follow one another in both memories, and windows move along them by as many positions as a line has for each
/// window.
[[nodiscard]] constexpr bool collapsed_lines_fit(const problem& p) noexcept {
    constexpr std::int64_t longest = 1024;  // columns: the least block
    const shape::axis& h = p.axes[1];
    const shape::axis& w = p.axes[2];
    const std::int64_t columns = p.out_extent(2);
    const std::int64_t in_columns = p.in_extent(2);
    // forward phases are separated in registers
    const bool can_stride = p.is_backward() ? w.stride == 1 && h.stride == 1 : w.stride <= 2 || w.stride == 4;
    const bool can_add = can_stride && w.kernel <= lines_at_once && w.reach() <= in_columns / 2;
    if (p.scratch == scratch_use::least || p.inner != 1 || p.accumulates() || p.long_lines || columns > longest ||
        !(can_add || windows_lie_side_by_side(p)))
        return false;
    if (p.is_backward() && (w.stride > columns || h.stride > p.out_extent(1))) return false;
    if (in_columns * p.position_step(2) != p.advance(2) * columns || p.in[3] != in_columns || p.in[4] != 1 ||
        p.out[3] != columns || p.out[4] != 1)
        return false;
    const std::int64_t depths = std::min(p.axes[0].small, p.axes[0].kernel);
    return !p.is_backward() || collapsed_reads(p) <= p.real.in_memory_of(average_ring) / in_columns / depths;
}

/// Whether small planes follow one another in both memories, and windows move along them by one position, all with taps inside.
[[nodiscard]] constexpr bool planes_are_collapsed(const problem& p) noexcept {
    constexpr std::int64_t largest = 512;
    const std::int64_t plane = p.out_extent(1) * p.out_extent(2);
    const auto keeps_extent = [](const shape::axis& a) {
        return a.stride == 1 && a.small == a.large && a.kernel <= lines_at_once && a.reach() <= a.large / 2 &&
               a.pad_begin <= a.reach();
    };
    return p.batch > 0 && plane <= largest && is_single(p.axes[0]) && keeps_extent(p.axes[1]) &&
           keeps_extent(p.axes[2]) && planes_are_one_line(p.in, p.batch, p.planes, plane) &&
           planes_are_one_line(p.out, p.batch, p.planes, plane);
}

/// Positions on the large side of a plane whose channels might be transposed from which on lines are collapsed: fewer of them where each
/// quotient is repeated in a shuffle, more where phases have to be separated.
[[nodiscard]] constexpr std::int64_t least_collapsed_plane(const problem& p) noexcept {
    if (!is_profitable_to_transpose(p)) return 1;
    const std::int64_t stride = p.axes[2].stride;
    if (windows_lie_side_by_side(p)) return repeats_by_shuffles(p.in_extent(2), stride) ? 128 : 256;
    return stride > 1 ? 512 : 256;
}

/// Long lines are fast one at a time, and small planes are fast with their channels transposed.
[[nodiscard]] constexpr bool collapsed_lines_are_profitable(const problem& p) noexcept {
    constexpr std::int64_t longest = 128;  // columns
    const std::int64_t columns = p.out_extent(2);
    const std::int64_t lines = p.out_extent(1);
    const std::int64_t plane = p.axes[1].large * p.axes[2].large;
    const std::int64_t block = collapsed_rows(p);
    return planes_are_collapsed(p) || (lines > 1 && columns <= longest && plane >= least_collapsed_plane(p) &&
                                       (p.axes[1].reach() <= block || block == lines));
}

/// Reserves what a block of `lines` lines needs.
constexpr void reserve_block(collapsed_lines_plan& g, std::int64_t lines) noexcept {
    const shape::axis& w = g.axes[2];
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t in_columns = g.in_extent(2);
    const bool are_planes = g.block == collapsed_block::planes;
    const std::int64_t rows = are_planes ? lines : collapsed_reads(g);
    const std::int64_t source = std::min(g.axes[0].small, g.axes[0].kernel) * rows * in_columns;
    slice_layout slice;
    if (g.result == collapsed_result::repeated) {
        g.at_phases = slice.reserve(rows * in_columns, g.real.bytes);
    } else {
        const std::int64_t row_taps =
            are_planes ? g.axes[1].kernel * line_tap_numbers(g.line_block * columns, g.real.lanes) : 0;
        g.at_vertical = slice.reserve(lines * in_columns + 2 * g.margin, g.real.bytes);
        g.at_inside = slice.reserve(w.kernel * line_tap_numbers(columns, g.real.lanes) + row_taps, g.real.bytes);
        if (g.advance(2) > 1) g.at_phases = slice.reserve(w.stride * (lines * columns + 2 * g.margin), g.real.bytes);
    }
    g.at_source = slice.reserve(are_planes ? source + 2 * g.margin : g.is_backward() ? source : 0, g.real.bytes);
    if (!g.divisors.is_uniform()) {
        g.at_divisors = slice.reserve((g.is_backward() ? rows : lines) * w.small + g.real.lanes, g.real.bytes);
        g.at_counts = slice.reserve<std::int64_t>(w.small);
    }
    g.at_lines = slice.reserve<axis_reads>(g.line_block);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
}

[[nodiscard]] constexpr collapsed_lines_plan make_collapsed_lines(const problem& p) noexcept {
    constexpr std::int64_t plane_block = 1536;  // outputs
    auto g = plan_of<collapsed_lines_plan>(p);
    const shape::axis& w = g.axes[2];
    const std::int64_t lines = g.out_extent(1);
    const std::int64_t columns = g.out_extent(2);
    if (windows_lie_side_by_side(p)) g.result = collapsed_result::repeated;
    if (planes_are_collapsed(p)) {
        g.block = collapsed_block::planes;
        g.line_block = lines;
        g.group = shape::even_part(g.batch * g.planes, std::max<std::int64_t>(1, plane_block / columns / lines));
        g.margin = shape::ceil_div(columns * g.axes[1].kernel * g.axes[1].dilation, 16) * 16;
        reserve_block(g, g.group * lines);
    } else {
        g.line_block = collapsed_rows(p);
        g.group = g.line_block == lines ? std::max<std::int64_t>(1, average_task / columns / lines) : 1;
        const std::int64_t first = read_span(w, g.outputs, 0, 1).first;  // of column 0, not clipped
        g.margin = shape::ceil_div(std::max({std::int64_t{0}, -first, first + w.reach()}), 16) * 16;
        reserve_block(g, g.line_block);
    }
    return g;
}

/// A worker's place: a block of output rows at one depth, what it reads, and what does not change from one to the next.
template <class Real>
class collapsed_place {
protected:
    collapsed_place(const collapsed_lines_plan& plan, std::byte* slice) noexcept
        : p_(plan),
          columns_(plan.out_extent(2)),
          in_columns_(plan.in_extent(2)),
          positions_(plan.batch * plan.planes * plan.out_extent(0)),
          pitch_(plan.line_block * columns_ + 2 * plan.margin),
          divisors_(array_at<Real>(slice, plan.at_divisors)),
          counts_(array_at<std::int64_t>(slice, plan.at_counts)),
          uniform_(static_cast<Real>(plan.divisors.uniform)),
          at_(plan, array_at<axis_reads>(slice, plan.at_lines)) {
        for (std::int64_t x = 0; x < p_.axes[2].small && !p_.divisors.is_uniform(); ++x)
            counts_[x] = p_.divisors.counted_columns(x);
        if (repeats()) return;
        set_taps(2, 1, array_at<Real>(slice, plan.at_inside), taps_);
        if (p_.block == collapsed_block::planes) set_taps(1, columns_, taps_.end(), row_taps_);
    }

    /// Moves to an item.
    GRADKERN_NOINLINE void set_item(std::int64_t item) noexcept {
        at_.set_plane(item % positions_);  // planes that are cut at the same rows follow one another
        const std::int64_t first = item / positions_ * p_.line_block;
        if (first == at_.first_line) return;
        at_.set_lines(first);
        const position_range read = read_span_inside(p_.axes[1], p_.outputs, at_.first_line, at_.last_line);
        first_row_ = read.first;
        rows_ = read.last - read.first;
    }

    [[nodiscard]] bool repeats() const noexcept { return p_.result == collapsed_result::repeated; }

    /// How many of the lines from h on are one run: each reads as much as the one before, a step further.
    [[nodiscard]] std::int64_t run_length(std::int64_t h) const noexcept {
        const axis_reads rows = at_.rows_of(h);
        std::int64_t count = 1;
        for (; h + count < at_.last_line; ++count) {
            const axis_reads& next = at_.rows_of(h + count);
            if (next.count != rows.count || (rows.count > 0 && next.first != rows.first + count * p_.advance(1))) break;
        }
        return count;
    }

    /// Divisors of lines [first, last) of windows that count `depth` taps along the depth. Planes follow one another.
    GRADKERN_NOINLINE void set_divisors(std::int64_t depth, std::int64_t first, std::int64_t last) noexcept {
        if (depth == counted_depth_ && first == counted_lines_.first && last == counted_lines_.last) return;
        counted_depth_ = depth;
        counted_lines_ = {first, last};
        // Blocks of planes have those of the first plane again and again.
        const std::int64_t columns = p_.axes[2].small;
        const std::int64_t end = std::min(last, first + p_.axes[1].small);
        Real* to = divisors_;
        for (std::int64_t h = first; h < end; ++h) {
            const std::int64_t taps = p_.divisors.counted_rows(depth, h);
            for (std::int64_t x = 0; x < columns; ++x)
                *to++ = static_cast<Real>(divisor_rule::of_count(taps * counts_[x]));
        }
        for (const std::int64_t plane = to - divisors_; to < divisors_ + (last - first) * columns; to += plane)
            own::copy_n(divisors_, plane, to);
        own::fill(to, to + simd::lanes_of<Real>, Real{1});
    }

private:
    /// Lists the taps of axis number i, whose positions are `unit` elements each, seen from position 0.
    void set_taps(std::size_t i, std::int64_t unit, Real* inside, line_taps<Real>& taps) noexcept {
        const std::int64_t advance = p_.advance(i);
        const std::int64_t positions = p_.out_extent(i);
        const auto end_before = [&](std::int64_t at) {
            return std::clamp<std::int64_t>(shape::ceil_div(at, advance), 0, positions) * unit;
        };
        const position_range read = read_span(p_.axes[i], p_.outputs, 0, 1);
        taps = line_taps<Real>(positions * unit, inside);
        for (std::int64_t at = read.first; at < read.last; at += p_.read_step(i))
            taps.push(shape::floor_mod(at, advance) * pitch_ + shape::floor_div(at, advance) * unit, end_before(-at),
                      end_before(p_.in_extent(i) - at));
    }

protected:
    const collapsed_lines_plan& p_;
    std::int64_t columns_;
    std::int64_t in_columns_;
    std::int64_t positions_;  // planes and depths
    std::int64_t pitch_;      // from one phase of vertical sums to the next
    Real* divisors_;          // of the lines of the block; backward of the rows that it reads
    std::int64_t* counts_;    // taps that the windows of a column count
    divisor<Real> uniform_;
    line_taps<Real> taps_;      // of the columns
    line_taps<Real> row_taps_;  // of a block of planes

    block_place at_;
    std::int64_t first_row_ = 0;  // that the block reads
    std::int64_t rows_ = 0;

private:
    std::int64_t counted_depth_ = -1;  // of the divisors
    position_range counted_lines_{-1, -1};
};

template <class T, shape::side Outputs>
class worker<algorithm::collapsed_lines, T, Outputs> : collapsed_place<accumulate_t<T>> {
    using base = collapsed_place<accumulate_t<T>>;
    using base::at_, base::columns_, base::divisors_, base::first_row_, base::in_columns_, base::p_, base::pitch_;
    using base::repeats, base::row_taps_, base::rows_, base::run_length, base::set_divisors, base::taps_,
        base::uniform_;

public:
    worker(const collapsed_lines_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : base(plan, slice),
          in_(in),
          out_(out),
          vertical_(array_at<accumulate_t<T>>(slice, plan.at_vertical) + plan.margin),
          phases_(array_at<accumulate_t<T>>(slice, plan.at_phases)),
          source_(array_at<accumulate_t<T>>(slice, plan.at_source)) {}

    /// Computes all lines of task number `task`.
    void run(std::int64_t task) noexcept {
        const std::int64_t first = task * p_.group;
        const std::int64_t last = std::min(p_.items(), first + p_.group);
        if (p_.block == collapsed_block::planes) return compute_planes(first, last - first);
        for (std::int64_t item = first; item < last; ++item) {
            this->set_item(item);
            compute_lines(in_ + at_.in_offset, out_ + at_.out_offset);
        }
    }

private:
    static constexpr bool is_backward = Outputs == shape::side::large;

    /// Computes a block of planes.
    void compute_planes(std::int64_t first, std::int64_t count) noexcept {
        at_.set_plane(first);
        at_.first_line = first_row_ = 0;
        at_.last_line = rows_ = count * p_.line_block;
        const T* const image = in_ + at_.in_offset;
        T* const out = out_ + at_.out_offset;
        const std::int64_t n = rows_ * columns_;
        accumulate_t<T>* const source = row_taps_.count() > 1 ? source_ + p_.margin : vertical_;
        if constexpr (is_backward) {
            divide_rows(image, 0, source);
        } else {
            simd::widen(image, source, n);
        }
        if (row_taps_.count() > 1) row_taps_.template sum<prefetch::none>(source, n, vertical_, as_it_is{});
        if constexpr (is_backward) {
            taps_.template sum<prefetch::ahead>(vertical_, n, out, as_it_is{});
        } else {
            divide_columns(0, rows_, out);
        }
    }

    /// Computes the block of lines of one plane.
    GRADKERN_NOINLINE void compute_lines(const T* image, T* plane) noexcept {
        if constexpr (is_backward) {
            for (std::int64_t i = 0; i < at_.depths.count; ++i)
                divide_rows(image, at_.depths.first + i * p_.read_step(0), source_ + i * rows_ * in_columns_);
        }
        if (repeats()) return repeat_rows(plane);
        for (std::int64_t h = at_.first_line, count = 0; h < at_.last_line; h += count) {
            const axis_reads rows = at_.rows_of(h);
            count = run_length(h);
            T* const to = plane + h * columns_;
            if (at_.depths.count == 0 || rows.count == 0) {  // no window, or no tap: +0, and not divided
                own::fill_n(to, count * columns_, T{});
            } else if constexpr (is_backward) {
                sum_rows<accumulate_t<T>, prefetch::none>(rows, count, [&](std::int64_t i, std::int64_t row) {
                    return source_ + (i * rows_ + row - first_row_) * in_columns_;
                });
                taps_.template sum<prefetch::ahead>(vertical_, count * columns_, to, as_it_is{});
            } else {
                sum_rows<T, prefetch::ahead>(rows, count, [&](std::int64_t i, std::int64_t row) {
                    return image + (at_.depths.first + i * p_.read_step(0)) * p_.in[2] + row * in_columns_;
                });
                divide_columns(h, h + count, to);
            }
        }
    }

    /// Backward: the quotients of the rows that the block reads, each in all columns of its window.
    void repeat_rows(T* plane) const noexcept {
        const T* const values = as_elements<T>(source_, at_.depths.count * rows_ * in_columns_, phases_);
        for (std::int64_t h = at_.first_line; h < at_.last_line; ++h) {
            const axis_reads& rows = at_.rows_of(h);
            T* const to = plane + h * columns_;
            simd::prefetch_stream_to_write(to, columns_);
            if (at_.depths.count * rows.count == 0) {
                own::fill_n(to, columns_, T{});
            } else {
                repeat_each(values + (rows.first - first_row_) * in_columns_, in_columns_, p_.axes[2].stride, to);
            }
        }
    }

    /// Vertical sums of `lines` lines, the first of which reads `rows`; line_at(i, row) is a row at its depth number i.
    template <class In, prefetch Reads, class LineAt>
    void sum_rows(const axis_reads& rows, std::int64_t lines, const LineAt& line_at) const noexcept {
        const std::int64_t step = p_.advance(1);
        const std::int64_t block = step == 1 ? lines : 1;
        for (std::int64_t line = 0; line < lines; line += block) {
            line_list<In, Reads> list(block * in_columns_, vertical_ + line * in_columns_);
            for (std::int64_t i = 0; i < at_.depths.count; ++i)
                for (std::int64_t j = 0; j < rows.count; ++j)
                    list.push(line_at(i, rows.first + line * step + j * p_.read_step(1)));
            list.finish();
        }
    }

    /// Means of lines [first, last) from their vertical sums; with a stride from the phases of these.
    GRADKERN_NOINLINE void divide_columns(std::int64_t first, std::int64_t last, T* out) noexcept {
        const accumulate_t<T>* sums = vertical_;
        if (p_.advance(2) > 1) {
            accumulate_t<T>* const phases = phases_ + p_.margin;
            separate(vertical_, (last - first) * in_columns_, p_.advance(2), pitch_, phases);
            sums = phases;
        }
        const auto sum_columns = [&](const auto& finish) {
            taps_.template sum<prefetch::ahead>(sums, (last - first) * columns_, out, finish);
        };
        if (p_.divisors.is_uniform()) return with_division(uniform_, sum_columns);
        set_divisors(p_.divisors.counted(0, at_.depth), at_.first_line, at_.last_line);
        sum_columns(over_each<accumulate_t<T>>{divisors_ + (first - at_.first_line) * columns_});
    }

    /// Quotients of the rows of diff_dst at depth d that the block reads: each by itself a sum, which has no -0.
    void divide_rows(const T* image, std::int64_t d, accumulate_t<T>* out) noexcept {
        const T* const from = image + d * p_.in[2] + first_row_ * in_columns_;
        if (p_.divisors.is_uniform()) return divide_by_one<addend::zero>(from, rows_ * in_columns_, uniform_, out);
        set_divisors(p_.divisors.counted(0, d), first_row_, first_row_ + rows_);
        quotients<addend::zero>(from, rows_ * in_columns_, out, over_each<accumulate_t<T>>{divisors_});
    }

    const T* in_;
    T* out_;
    accumulate_t<T>* vertical_;
    accumulate_t<T>* phases_;  // forward of a stride, of vertical sums, behind a margin; backward elements to repeat
    accumulate_t<T>* source_;  // backward quotients; of a block of planes behind a margin
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
