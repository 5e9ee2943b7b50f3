// The average engine where lines are short, and windows move by one position or a few: all lines of a block as one.
//
// Lines of W columns follow one another in both memories, and outputs have as many columns as inputs. So the column at
// distance s of output i is element i + s of the block, but for columns near the ends of a line, which would read the
// line before or behind. With a stride, lines of the large side are as many times longer: then this holds of each
// phase of its columns, and backward of each phase of its lines. Loops: block of output lines > image, plane, depth >
// backward: phase of lines > stretch of lines that read alike:
//
//     1. backward: quotients of all lines that the block reads
//     2. vertical sums over depth and height, of the whole stretch
//     3. horizontal sums of the whole stretch, of each tap where it is inside; forward phases of a stride are put apart
//        before
//     4. backward: phases of a stride are put together
//
// The order of every sum is that of average.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One lane's work on one task of a plan that joins lines; T is the element type of both tensors.
template <class T>
class average_joined_lines {
public:
    average_joined_lines(const average_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : p_(plan),
          in_(in),
          out_(out),
          columns_(plan.out_extent(2)),
          in_columns_(plan.in_extent(2)),
          phase_columns_(columns_ / plan.position_step()),
          vertical_(array_at<float>(slice, plan.at_vertical) + plan.margin),
          phases_(plan.advance() == 1 ? vertical_ : array_at<float>(slice, plan.at_phases) + plan.margin),
          pitch_(plan.line_block * columns_ + 2 * plan.margin),
          phase_sums_(array_at<float>(slice, plan.at_phases)),
          quotients_(array_at<float>(slice, plan.at_ring)),
          divisors_(array_at<float>(slice, plan.at_divisors)),
          counts_(array_at<std::int64_t>(slice, plan.at_counts)),
          inside_(array_at<float>(slice, plan.at_inside)),
          lines_(array_at<axis_reads>(slice, plan.at_lines)),
          uniform_(plan.uniform_divisor) {
        for (std::int64_t x = 0; x < p_.axes[2].small && !p_.uniform; ++x) counts_[x] = p_.counted_columns(x);
        if (p_.repeats) return;
        for (std::int64_t f = 0; f < p_.position_step(); ++f) set_taps(f);
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
    /// Where the taps of the columns of a phase are, seen from column 0 of that phase, and in which of them they are inside.
    void set_taps(std::int64_t phase) noexcept {
        const shape::axis& a = p_.axes[2];
        const position_range read = read_span(a, p_.outputs(), phase, phase + 1);
        const std::int64_t taps =
            p_.backward && a.stride > 1 ? std::max<std::int64_t>(read.last - read.first, 0) : a.kernel;
        std::int64_t at = first_tap_[static_cast<std::size_t>(phase)];
        for (std::int64_t k = 0; k < taps; ++k) {
            const std::int64_t column = read.first + k * p_.read_step(2);
            tap_offsets_[static_cast<std::size_t>(at++)] =
                shape::floor_mod(column, p_.advance()) * pitch_ + shape::floor_div(column, p_.advance());
            float* const inside = inside_ + (at - 1) * inside_pitch();
            for (std::int64_t x = 0; x < phase_columns_; ++x) {
                const std::int64_t from = column + x * p_.advance();
                inside[x] = from >= 0 && from < in_columns_ ? 1.0F : 0.0F;
                has_ends_ = has_ends_ || inside[x] == 0.0F;
            }
            for (std::int64_t x = phase_columns_; x < inside_pitch(); ++x) inside[x] = inside[x - phase_columns_];
        }
        first_tap_[static_cast<std::size_t>(phase + 1)] = at;
    }
    [[nodiscard]] std::int64_t taps_of(std::int64_t phase) const noexcept {
        const auto f = static_cast<std::size_t>(phase);
        return first_tap_[f + 1] - first_tap_[f];
    }

    [[nodiscard]] std::int64_t inside_pitch() const noexcept {
        return phase_columns_ + 4 * static_cast<std::int64_t>(simd::lanes);
    }

    void set_depth(std::int64_t d) noexcept {
        if (d == depth_) return;
        depth_ = d;
        depths_ = reads_at(p_.axes[0], p_.outputs(), d);
    }

    /// Turns to the block of output lines that begins at `first`.
    void set_lines(std::int64_t first) noexcept {
        if (first == first_line_) return;
        first_line_ = first;
        last_line_ = std::min(first + p_.line_block, p_.out_extent(1));
        list_reads(p_.axes[1], p_.outputs(), first_line_, last_line_, lines_);
        const position_range read =
            clipped(read_span(p_.axes[1], p_.outputs(), first_line_, last_line_), p_.in_extent(1));
        first_row_ = read.first;
        rows_ = read.last - read.first;
    }

    /// Computes the block of lines of one plane.
    void compute_block(const T* image, T* plane) noexcept {
        for (std::int64_t i = 0; p_.backward && i < depths_.count; ++i)
            divide_rows(image, depths_.first + i * p_.read_step(0), quotients_ + i * rows_ * in_columns_);
        const std::int64_t phases = p_.backward ? p_.axes[1].stride : 1;
        for (std::int64_t f = 0; f < std::min(phases, last_line_ - first_line_);) {
            std::int64_t alike = 1;  // phases; where windows lie side by side, these are one line after the other
            while (p_.repeats && f + alike < phases && phases_alike(f, f + alike)) ++alike;
            compute_phase(first_line_ + f, phases, alike, image, plane);
            f += alike;
        }
    }
    /// Whether two phases of the block's lines have as many lines, which read the same.
    [[nodiscard]] bool phases_alike(std::int64_t f, std::int64_t g) const noexcept {
        const std::int64_t lines = last_line_ - first_line_;
        const std::int64_t step = p_.axes[1].stride;
        bool alike = true;
        for (; f < lines; f += step, g += step) alike = alike && g < lines && lines_[f] == lines_[g];
        return alike;
    }

    /// Computes the lines h, h + step, ... of the block; each is `copies` lines.
    GRADKERN_NOINLINE void compute_phase(std::int64_t h, std::int64_t step, std::int64_t copies, const T* image,
                                         T* plane) noexcept {
        while (h < last_line_) {
            const axis_reads rows = lines_[h - first_line_];
            const std::int64_t count = lines_alike(h, step);
            T* const to = plane + h * columns_;
            if (depths_.count == 0 || rows.count == 0) {  // no window, or no tap: +0, and not divided
                for (std::int64_t l = 0; l < count; ++l) own::fill_n(to + l * step * columns_, copies * columns_, T{});
            } else if (p_.backward) {
                sum_gradients(rows, count, step, copies, to);
            } else {
                average_rows(h, rows, count, image, to);
            }
            h += count * step;
        }
    }
    /// How many of the lines h, h + step, ... read alike: each a step further than the one before.
    [[nodiscard]] std::int64_t lines_alike(std::int64_t h, std::int64_t step) const noexcept {
        const std::int64_t row_step = p_.backward ? 1 : p_.axes[1].stride;
        const axis_reads rows = lines_[h - first_line_];
        std::int64_t count = 1;
        for (std::int64_t end = h + step; end < last_line_; end += step, ++count) {
            const axis_reads& next = lines_[end - first_line_];
            if (next.count != rows.count || (rows.count > 0 && next.first != rows.first + count * row_step)) break;
        }
        return count;
    }

    /// Backward: `count` lines that read alike, the first of them `rows`, `step` lines apart in the output.
    void sum_gradients(const axis_reads& rows, std::int64_t count, std::int64_t step, std::int64_t copies,
                       T* out) const noexcept {
        const auto line_at = [&](std::int64_t i, std::int64_t row) {
            return quotients_ + (i * rows_ + row - first_row_) * in_columns_;
        };
        const bool as_they_are = p_.repeats && depths_.count * rows.count == 1;
        if (!as_they_are) sum_rows<float, ahead::leave>(rows, count, line_at);
        if (p_.repeats) {
            repeat_columns(as_they_are ? line_at(0, rows.first) : vertical_, count, copies, out, step * columns_);
        } else if (p_.position_step() == 1 && step == 1) {
            sum_columns(0, count, out, as_it_is{});
        } else {
            sum_phases(count, out, step * columns_);
        }
    }

    /// Forward: `count` lines from h on that read alike, the first of them `rows`.
    void average_rows(std::int64_t h, const axis_reads& rows, std::int64_t count, const T* image, T* out) noexcept {
        sum_rows<T, ahead::ask>(rows, count, [&](std::int64_t i, std::int64_t row) {
            return image + (depths_.first + i * p_.read_step(0)) * p_.in[2] + row * in_columns_;
        });
        divide_columns(h, h + count, out);
    }

    /// Vertical sums of `lines` lines, the first of which reads `rows`; line_at(i, row) is a row at its depth number i.
    template <class In, ahead Reads, class LineAt>
    void sum_rows(const axis_reads& rows, std::int64_t lines, const LineAt& line_at) const noexcept {
        const std::int64_t step = p_.backward ? 1 : p_.axes[1].stride;
        const std::int64_t together = step == 1 ? lines : 1;
        for (std::int64_t line = 0; line < lines; line += together) {
            if constexpr (Reads == ahead::ask && target.quirk.prefetch_streams) {  // rows that no line before has read
                const std::int64_t fresh = std::min(depths_.count, p_.axes[0].stride);
                for (std::int64_t i = depths_.count - fresh; p_.is_large && step > 1 && i < depths_.count; ++i)
                    simd::prefetch_stream(line_at(i, rows.first + line * step), step * in_columns_);
            }
            line_list<In, Reads> list(together * in_columns_, vertical_ + line * in_columns_);
            for (std::int64_t i = 0; i < depths_.count; ++i)
                for (std::int64_t j = 0; j < rows.count; ++j)
                    list.push(line_at(i, rows.first + line * step + j * p_.read_step(1)));
            list.finish();
        }
        const std::int64_t phases = p_.advance();
        if (phases > 1) separate(vertical_, lines * in_columns_, phases, pitch_, phases_);
    }

    /// Horizontal sums of the vertical ones of `lines` lines, finished: of the columns of one phase of the output.
    template <ahead Writes = ahead::ask, class Out, class Finish>
    void sum_columns(std::int64_t phase, std::int64_t lines, Out* out, const Finish& finish) const noexcept {
        const std::int64_t taps = taps_of(phase);
        std::array<const float*, static_cast<std::size_t>(lines_at_once)> list;
        std::array<const float*, static_cast<std::size_t>(lines_at_once)> inside;
        const std::int64_t first = first_tap_[static_cast<std::size_t>(phase)];
        for (std::int64_t k = 0; k < taps; ++k) {
            list[static_cast<std::size_t>(k)] = phases_ + tap_offsets_[static_cast<std::size_t>(first + k)];
            inside[static_cast<std::size_t>(k)] = inside_ + (first + k) * inside_pitch();
        }
        const std::int64_t floats = lines * phase_columns_;
        if (has_ends_) {
            sum_lines_inside<Writes>(list.data(), inside.data(), taps, phase_columns_, floats, out, finish);
        } else {
            sum_lines<false, ahead::leave, Writes>(list.data(), taps, floats, out, finish);
        }
    }

    /// Backward with a stride: horizontal sums of the vertical ones of `lines` lines, which lie `pitch` apart in the output.
    void sum_phases(std::int64_t lines, T* out, std::int64_t pitch) const noexcept {
        const std::int64_t phases = p_.position_step();
        const std::int64_t floats = lines * phase_columns_;
        for (std::int64_t f = 0; f < phases; ++f)
            sum_columns<ahead::leave>(f, lines, phase_sums_ + f * floats, as_it_is{});
        for (std::int64_t l = 0; l < lines; ++l) {
            const float* const line = phase_sums_ + l * phase_columns_;
            T* const to = out + l * pitch;
            simd::prefetch_stream_to_write(to, columns_);
            if (phases > 1) {
                interleave_two(line, line + floats, phase_columns_, to);
            } else {
                simd::narrow(line, to, columns_);
            }
        }
    }

    /// Backward where windows lie side by side: each sum belongs to all columns of its window, in `copies` lines.
    void repeat_columns(const float* sums, std::int64_t lines, std::int64_t copies, T* out,
                        std::int64_t pitch) const noexcept {
        const T* const results = as_elements<T>(sums, lines * in_columns_, phase_sums_);
        for (std::int64_t l = 0; l < lines; ++l) {
            T* const to = out + l * pitch;
            simd::prefetch_stream_to_write(to, copies * columns_);
            for (std::int64_t c = 0; c < copies; ++c)
                repeat_each(results + l * in_columns_, in_columns_, p_.position_step(), to + c * columns_);
        }
    }

    /// Means of lines [first, last) from their vertical sums.
    GRADKERN_NOINLINE void divide_columns(std::int64_t first, std::int64_t last, T* out) noexcept {
        if (p_.uniform) {
            with_division(uniform_, [&](const auto& divide) { sum_columns(0, last - first, out, divide); });
            return;
        }
        set_divisors(p_.counted(0, depth_), first_line_, last_line_);
        const float* const divisors = divisors_ + (first - first_line_) * columns_;
        sum_columns(0, last - first, out, [divisors](std::ptrdiff_t x, simd::vec sum) GRADKERN_INLINE_LAMBDA {
            return simd::div(sum, simd::load(divisors + x));
        });
    }

    /// Quotients of the rows of diff_dst at depth d that the block reads: each by itself a sum, which has no -0.
    void divide_rows(const T* image, std::int64_t d, float* out) noexcept {
        const T* const from = image + d * p_.in[2] + first_row_ * in_columns_;
        if (p_.uniform) {
            divide_by_one<addend::zero>(from, rows_ * in_columns_, uniform_, out);
        } else {
            set_divisors(p_.counted(0, d), first_row_, first_row_ + rows_);
            divide_by_each<addend::zero>(from, rows_ * in_columns_, divisors_, out);
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
            for (std::int64_t x = 0; x < p_.axes[2].small; ++x) *to++ = average_plan::divisor_of(taps * counts_[x]);
        }
        own::fill(to, to + simd::lanes, 1.0F);
    }

    const average_plan& p_;
    const T* in_;
    T* out_;
    std::int64_t columns_;
    std::int64_t in_columns_;
    std::int64_t phase_columns_;  // of a line of the output
    float* vertical_;
    float* phases_;  // forward: of the vertical sums; themselves where there is one
    std::int64_t pitch_;
    float* phase_sums_;  // backward: sums of the columns of each phase
    std::array<std::int64_t, static_cast<std::size_t>(lines_at_once)> tap_offsets_{};  // from phases_, phase by phase
    std::array<std::int64_t, 3> first_tap_{};                                          // of each phase of the output
    float* quotients_;
    float* divisors_;       // of the lines of the block; backward of the rows that it reads
    std::int64_t* counts_;  // taps that the windows of a column count
    float* inside_;         // of each tap
    axis_reads* lines_;     // rows that the lines of the block read
    divisor uniform_;

    bool has_ends_ = false;  // some taps are not inside everywhere
    std::int64_t depth_ = -1;
    axis_reads depths_{};
    std::int64_t first_line_ = -1;
    std::int64_t last_line_ = -1;
    std::int64_t first_row_ = 0;  // that the block reads
    std::int64_t rows_ = 0;
    std::int64_t counted_depth_ = -1;  // of the divisors
    position_range counted_lines_{-1, -1};
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
