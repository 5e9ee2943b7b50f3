// The average engine where lines are short, and windows move by one position or, forward, by a few: all
// lines of a block as one.
//
// Lines of W columns follow one another in both memories, and outputs have as many columns as inputs. So the column at
// distance s of output i is element i + s of the block, but for columns near the ends of a line, which would read the
// line before or behind. Forward, with a stride, lines of the input are as many times longer: then this holds of each
// phase of its columns. Loops: block of output lines > image, plane, depth > stretch of lines that read alike:
//
//     1. backward: quotients of all lines that the block reads
//     2. vertical sums over depth and height, of the whole stretch
//     3. horizontal sums of the whole stretch, as if lines had no ends, phases of a stride put apart
//     4. the columns near the ends again, by their inside taps
//
// The order of every sum is that of average.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/plan/average_plan.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One lane's work on one task of a plan that joins lines; T is the element type of both tensors.
template <class T>
class average_planes {
public:
    average_planes(const average_plan& plan, const T* in, T* out, std::byte* memory) noexcept
        : p_(plan),
          in_(in),
          out_(out),
          columns_(plan.out_extent(2)),
          in_columns_(plan.in_extent(2)),
          vertical_(reinterpret_cast<float*>(memory + plan.at_vertical) + plan.margin),
          phases_(plan.advance() == 1 ? vertical_ : reinterpret_cast<float*>(memory + plan.at_phases) + plan.margin),
          pitch_(plan.line_block * columns_ + 2 * plan.margin),
          result_(reinterpret_cast<float*>(memory + plan.at_result)),
          quotients_(reinterpret_cast<float*>(memory + plan.at_ring)),
          divisors_(reinterpret_cast<float*>(memory + plan.at_divisors)),
          counts_(reinterpret_cast<std::int64_t*>(memory + plan.at_counts)),
          ends_(reinterpret_cast<column_run*>(memory + plan.at_runs)),
          lines_(reinterpret_cast<axis_reads*>(memory + plan.at_lines)),
          uniform_(plan.uniform_divisor) {
        // read by the ends of lines, whose sums are made again
        for (std::int64_t f = 0; f < p_.advance(); ++f) std::fill_n(phases_ + f * pitch_ - p_.margin, p_.margin, 0.0F);
        const std::int64_t first = columns_read(p_.axes[2], p_.backward, 0, 1).first;  // of column 0, not clipped
        for (std::int64_t k = 0; k < p_.axes[2].kernel; ++k) {
            const std::int64_t column = first + k * p_.read_step(2);
            tap_offsets_[static_cast<std::size_t>(k)] =
                shape::floor_mod(column, p_.advance()) * pitch_ + shape::floor_div(column, p_.advance());
        }
        shape::tap_class_walk walk(p_.axes[2], p_.outputs(), 0, columns_);
        for (shape::tap_class c; walk.next(c);)
            if (c.taps != p_.axes[2].kernel)
                ends_[end_count_++] = {static_cast<std::int32_t>(c.first_position),
                                       static_cast<std::int32_t>(c.positions), static_cast<std::int32_t>(c.first_read),
                                       static_cast<std::int32_t>(c.taps)};
        for (std::int64_t x = 0; x < columns_ && !p_.uniform; ++x) {
            const bool is_empty = p_.divisor_axes[2].inside_taps(x).count == 0;
            counts_[x] = is_empty ? 0 : p_.divisor_override ? *p_.divisor_override : p_.counted(2, x);
        }
    }

    /// Computes all lines of task number `task`.
    void run(std::int64_t task) noexcept {
        const std::int64_t first = task * p_.group;
        const std::int64_t last = std::min(p_.items(), first + p_.group);
        for (std::int64_t item = first; item < last; ++item) {
            const std::int64_t positions = p_.items() / p_.line_blocks();
            const std::int64_t position = item % positions;  // planes that are cut alike follow one another
            const std::int64_t outer = position / p_.out_extent(0);
            const std::int64_t n = outer / p_.planes;
            const std::int64_t c = outer % p_.planes;
            set_depth(position % p_.out_extent(0));
            set_lines(item / positions * p_.line_block);
            compute_block(in_ + n * p_.in[0] + c * p_.in[1], out_ + n * p_.out[0] + c * p_.out[1] + depth_ * p_.out[2]);
        }
    }

private:
    void set_depth(std::int64_t d) noexcept {
        if (d == depth_) return;
        depth_ = d;
        shape::tap_class c;
        shape::tap_class_walk(p_.axes[0], p_.outputs(), d, d + 1).next(c);
        depths_ = {c.first_read, c.taps};
    }

    /// Turns to the block of output lines that begins at `first`.
    void set_lines(std::int64_t first) noexcept {
        if (first == first_line_) return;
        first_line_ = first;
        last_line_ = std::min(first + p_.line_block, p_.out_extent(1));
        shape::tap_class_walk walk(p_.axes[1], p_.outputs(), first_line_, last_line_);
        for (shape::tap_class c; walk.next(c);)
            for (std::int64_t i = 0; i < c.positions; ++i)
                lines_[c.first_position - first_line_ + i] = {c.first_read + i * c.read_per_position, c.taps};
        const column_range read = columns_read(p_.axes[1], p_.backward, first_line_, last_line_);
        first_row_ = std::clamp<std::int64_t>(read.first, 0, p_.in_extent(1));
        rows_ = std::clamp<std::int64_t>(read.last, first_row_, p_.in_extent(1)) - first_row_;
    }

    /// Computes the block of lines of one plane.
    void compute_block(const T* image, T* plane) noexcept {
        for (std::int64_t i = 0; p_.backward && i < depths_.count; ++i)
            divide_rows(image, depths_.first + i * p_.read_step(0), quotients_ + i * rows_ * columns_);
        for (std::int64_t h = first_line_; h < last_line_;) {
            const axis_reads rows = lines_[h - first_line_];
            // lines that read alike: each a step further than the one before
            std::int64_t end = h + 1;
            for (; end < last_line_; ++end) {
                const axis_reads& next = lines_[end - first_line_];
                if (next.count != rows.count ||
                    (rows.count > 0 && next.first != rows.first + (end - h) * p_.axes[1].stride))
                    break;
            }
            T* const to = plane + h * columns_;
            if (depths_.count == 0 || rows.count == 0) {  // no window, or no tap: +0, and not divided
                std::fill_n(vertical_, (end - h) * columns_, 0.0F);
                simd::narrow(vertical_, to, (end - h) * columns_);
            } else if (p_.backward) {
                sum_rows<float>(rows, end - h, [&](std::int64_t i, std::int64_t row) {
                    return quotients_ + (i * rows_ + row - first_row_) * columns_;
                });
                sum_columns(end - h, to, as_it_is{});
            } else {
                sum_rows<T>(rows, end - h, [&](std::int64_t i, std::int64_t row) {
                    return image + (depths_.first + i * p_.read_step(0)) * p_.in[2] + row * in_columns_;
                });
                divide_columns(h, end, to);
            }
            h = end;
        }
    }

    /// Vertical sums of `lines` lines, the first of which reads `rows`; line_at(i, row) is a row at its depth number i.
    template <class In, class LineAt>
    void sum_rows(const axis_reads& rows, std::int64_t lines, const LineAt& line_at) const noexcept {
        const std::int64_t step = p_.axes[1].stride;
        const std::int64_t together = step == 1 ? lines : 1;
        for (std::int64_t line = 0; line < lines; line += together) {
            line_list<In> list(together * in_columns_, vertical_ + line * in_columns_);
            for (std::int64_t i = 0; i < depths_.count; ++i)
                for (std::int64_t j = 0; j < rows.count; ++j)
                    list.push(line_at(i, rows.first + line * step + j * p_.read_step(1)));
            list.finish();
        }
        const std::int64_t phases = p_.advance();
        if (phases > 1) separate(vertical_, lines * in_columns_, phases, pitch_, phases_);
        for (std::int64_t f = 0; f < phases; ++f) std::fill_n(phases_ + f * pitch_ + lines * columns_, p_.margin, 0.0F);
    }

    /// Horizontal sums of the vertical ones of `lines` lines, finished.
    template <class Out, class Finish>
    void sum_columns(std::int64_t lines, Out* out, const Finish& finish) const noexcept {
        const std::int64_t taps = p_.axes[2].kernel;
        const std::int64_t step = p_.read_step(2);
        const std::int64_t phases = p_.advance();
        std::array<const float*, static_cast<std::size_t>(lines_at_once)> list;
        for (std::size_t k = 0; k < static_cast<std::size_t>(taps); ++k) list[k] = phases_ + tap_offsets_[k];
        sum_lines<false>(list.data(), taps, lines * columns_, out, finish);
        for (std::int64_t r = 0; r < end_count_; ++r) {
            const column_run& run = ends_[r];
            for (std::int64_t x = 0; x < run.positions; ++x) {
                const float* from = vertical_ + run.first + x * phases;
                Out* to = out + run.begin + x;
                for (std::int64_t h = 0; h < lines; ++h, from += in_columns_, to += columns_) {
                    float sum = 0.0F;
                    for (std::int64_t k = 0; k < run.count; ++k) sum += from[k * step];
                    simd::store_narrow_partial(to, finish(simd::broadcast(sum)), 1);
                }
            }
        }
    }

    /// Means of lines [first, last) from their vertical sums.
    void divide_columns(std::int64_t first, std::int64_t last, T* out) noexcept {
        if (p_.uniform) {
            with_division(uniform_, [&](const auto& divide) { sum_columns(last - first, out, divide); });
            return;
        }
        sum_columns(last - first, result_, as_it_is{});
        set_divisors(p_.counted(0, depth_), first_line_, last_line_);
        const float* const divisors = divisors_ + (first - first_line_) * columns_;
        const std::int64_t count = (last - first) * columns_;
        if constexpr (std::is_same_v<T, float>) {
            divide_by_each<addend::none>(result_, count, divisors, out);
        } else {
            divide_by_each<addend::none>(result_, count, divisors, result_);
            simd::narrow(result_, out, count);
        }
    }

    /// Quotients of the rows of diff_dst at depth d that the block reads.
    void divide_rows(const T* image, std::int64_t d, float* out) noexcept {
        const T* const from = image + d * p_.in[2] + first_row_ * columns_;
        if (p_.uniform) {
            divide_by_one<addend::none>(from, rows_ * columns_, uniform_, out);
        } else {
            set_divisors(p_.counted(0, d), first_row_, first_row_ + rows_);
            divide_by_each<addend::none>(from, rows_ * columns_, divisors_, out);
        }
    }

    /// Divisors of lines [first, last) of windows that count `depth` taps along the depth.
    void set_divisors(std::int64_t depth, std::int64_t first, std::int64_t last) noexcept {
        if (p_.divisor_override) depth = 1;
        if (depth == counted_depth_ && first == counted_lines_.first && last == counted_lines_.last) return;
        counted_depth_ = depth;
        counted_lines_ = {first, last};
        float* to = divisors_;
        for (std::int64_t h = first; h < last; ++h) {
            const std::int64_t taps = p_.divisor_override ? 1 : depth * p_.counted(1, h);
            for (std::int64_t x = 0; x < columns_; ++x) *to++ = average_plan::divisor_of(taps * counts_[x]);
        }
        std::fill(to, to + simd::lanes, 1.0F);
    }

    const average_plan& p_;
    const T* in_;
    T* out_;
    std::int64_t columns_;
    std::int64_t in_columns_;
    float* vertical_;
    float* phases_;  // of the vertical sums: themselves where there is one
    std::int64_t pitch_;
    std::array<std::int64_t, static_cast<std::size_t>(lines_at_once)> tap_offsets_{};  // of output 0, from phases_
    float* result_;
    float* quotients_;
    float* divisors_;       // of the lines of the block; backward of the rows that it reads
    std::int64_t* counts_;  // taps that the windows of a column count
    column_run* ends_;      // columns without some of their taps
    axis_reads* lines_;     // rows that the lines of the block read
    divisor uniform_;

    std::int64_t end_count_ = 0;
    std::int64_t depth_ = -1;
    axis_reads depths_{};
    std::int64_t first_line_ = -1;
    std::int64_t last_line_ = -1;
    std::int64_t first_row_ = 0;  // that the block reads
    std::int64_t rows_ = 0;
    std::int64_t counted_depth_ = -1;  // of the divisors
    column_range counted_lines_{-1, -1};
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
