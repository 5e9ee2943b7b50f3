// The average engine: mean over windows (forward) and its gradient, as sums of lines.
//
//     forward    out[o]  =  (sum over columns kw of (sum over kd, kh of in[p(o, k)]))  /  div(o)
//     backward   out[q]  =   sum over columns ow of (sum over od, oh of in[o] / div(o))     windows o that reach q
//
// Every sum starts from +0 and runs in ascending order, the vertical ones over the lines that are inside, the horizontal
// ones over the columns, inside or not; long ones in parts (order/summation.hpp). This order is the definition of the result,
// the same for every layout, type and path. Both tensors are seen as lines [outer][D][H][columns][inner]: inner = channels where those are
// neighbours in memory, else 1. Loops, outermost first:
//
//     task       strip: a block of inner; segment: a block of output columns (avg_pool/segment.hpp); some items
//     item       an outer index, a depth, a block of output lines
//     line       1. vertical sums over depth and height, one f32 scratch line for all columns the segment reads
//                   (avg_pool/vertical.hpp); backward of quotients (avg_pool/divisors.hpp)
//                2. horizontal sums over columns: shifted stretches of the scratch line (avg_pool/horizontal.hpp), or
//                   tiles where windows do not overlap (avg_pool/tiles.hpp)
//                3. forward: quotients, on the way out where horizontal sums are finished at once
//                4. to the output (avg_pool/output.hpp), unless the sums went there directly
//
// Four other orders of loops, with the same sums: windows that share few columns are summed whole, in registers
// (avg_pool/windows.hpp); where the columns that a segment reads are too many or too sparse for a
// scratch line, step 1 follows tap by tap within step 2 (sum_by_taps); short lines whose windows move by few positions are
// computed many at a time (avg_pool/joined_lines.hpp), and so are small planes (avg_pool/joined_planes.hpp). Loops run over inside
// taps only, but for short kernels columns behind the border are read as zeros of the scratch line (adding +0 changes no
// sum), which spares the borders runs of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/avg_pool/divisors.hpp>
#include <gradkern/detail/avg_pool/horizontal.hpp>
#include <gradkern/detail/avg_pool/joined_lines.hpp>
#include <gradkern/detail/avg_pool/joined_planes.hpp>
#include <gradkern/detail/avg_pool/make_plan.hpp>
#include <gradkern/detail/avg_pool/output.hpp>
#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/tiles.hpp>
#include <gradkern/detail/avg_pool/vertical.hpp>
#include <gradkern/detail/avg_pool/windows.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One lane's work on one task; T is the element type of both tensors.
template <class T>
class average_lane {
public:
    average_lane(const average_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : p_(plan),
          in_(in),
          out_(out),
          s_(plan, slice),
          divisors_(plan, slice),
          vertical_(s_, divisors_, slice),
          horizontal_(s_, slice),
          output_(s_, slice),
          sums_(array_at<float>(slice, plan.at_vertical)),
          result_(array_at<float>(slice, plan.at_result)),
          totals_(array_at<double>(slice, plan.at_column_totals)) {}
    average_lane(const average_lane&) = delete;  // its parts refer to one another
    average_lane& operator=(const average_lane&) = delete;

    /// Computes all lines of task number `task`.
    void run(std::int64_t task) noexcept {
        const std::int64_t part = task / p_.groups();
        const std::int64_t first = task % p_.groups() * p_.group;
        const std::int64_t last = std::min(p_.items(), first + p_.group);
        set_columns(part % p_.segments(), part / p_.segments());
        s_.set_lines(first % p_.line_blocks() * p_.line_block);
        for (std::int64_t item = first; item < last; ++item) compute_item(item / p_.line_blocks());
    }

private:
    /// Turns to the columns of a segment and the channels of a strip.
    void set_columns(std::int64_t segment, std::int64_t strip) noexcept {
        s_.set_columns(segment, strip);
        // the zeros behind the borders stay as they are through all lines
        if (s_.has_zeros()) own::fill(sums_, sums_ + s_.held * s_.inner, 0.0F);
        if (p_.direct_tiles) own::fill(result_, result_ + s_.inner, 0.0F);  // for columns without a window
        if (!p_.by_taps) divisors_.count(p_.backward ? s_.all_reads() : output_columns());
    }
    [[nodiscard]] input_columns output_columns() const noexcept { return {s_.first_column, 1, s_.columns}; }

    /// Computes the block of lines at one outer index and depth.
    void compute_item(std::int64_t position) noexcept {
        const std::int64_t outer = position / p_.out_extent(0);
        const std::int64_t d = position % p_.out_extent(0);
        const std::int64_t n = outer / p_.planes;
        const std::int64_t c = outer % p_.planes;
        s_.set_depth(d);
        vertical_.start(in_ + n * p_.in[0] + c * p_.in[1] + s_.first_inner * p_.in_inner);
        T* const plane = out_ + n * p_.out[0] + c * p_.out[1] + s_.first_inner * p_.out_inner + d * p_.out[2] +
                         s_.first_column * p_.out[4];
        same_as_last_ = axis_reads{-1, -1};
        for (std::int64_t h = s_.first_line; h < s_.last_line;) {
            T* const line = plane + h * p_.out[3];
            if (p_.direct_tiles) {
                h += compute_tiles(h, line);
            } else {
                compute_line(h++, line);
            }
        }
    }

    /// Direct tiles: computes output line h and those behind it that read the same rows. Returns how many.
    std::int64_t compute_tiles(std::int64_t h, T* out) noexcept {
        const axis_reads rows = s_.rows_of(h);
        std::int64_t lines = 1;
        while (h + lines < s_.last_line && s_.rows_of(h + lines) == rows) ++lines;
        if (s_.depths.count == 0 || rows.count == 0) {
            output_.store_columns(result_, 1, 0, s_.columns, lines, out);
        } else {
            if (s_.reads > 0) vertical_.sum(h, rows, s_.all_reads(), sums_);
            store_tiles(lines, out);
        }
        return lines;
    }

    /// Computes output line h.
    void compute_line(std::int64_t h, T* out) noexcept {
        const axis_reads rows = s_.rows_of(h);
        if (s_.depths.count == 0 || rows.count == 0) {
            same_as_last_ = axis_reads{-1, -1};
            return store_zeros(out);
        }
        // Windows that do not overlap along the height give several lines the same sums.
        const bool is_same = rows == same_as_last_;
        same_as_last_ = rows;
        if (p_.whole_windows) return average_whole_windows(h, rows, out);
        if (p_.by_taps) {
            if (!is_same || !p_.backward) sum_by_taps(h, rows);
            return finish_line(h, out);
        }
        const T* const line = lone_line(rows);
        if (line == nullptr && !is_same && s_.reads > 0)
            vertical_.sum(h, rows, s_.all_reads(), sums_ + (s_.first_read - s_.origin) * s_.inner);
        if (is_direct()) {
            if (line != nullptr) {
                divide_sums(line, h, out);
            } else if (p_.backward) {
                horizontal_.sum_runs(sums_, 0, s_.columns, out);
            } else {
                divide_sums(sums_, h, out);
            }
            return;
        }
        if (p_.tiles) {
            if (s_.inner == 1 && !p_.accumulate && s_.is_dense(p_.out, p_.out_inner, s_.columns))
                return repeat_values(s_, rounded_sums(is_same), out);
            if (!is_same) s_.inner == 1 ? repeat_values(s_, sums_, result_) : repeat_tiles(s_, sums_, result_);
        } else if (!is_same || !p_.backward) {
            horizontal_.sum(sums_or(line), result_);
        }
        finish_line(h, out);
    }

    // ------------------------------------------------------------------------------------------- ways through a line

    /// True where sums may go to the output without a stop in result_.
    [[nodiscard]] bool is_direct() const noexcept {
        return (p_.backward || p_.uniform || s_.inner > 1) && !p_.accumulate && s_.parts() <= 1 &&
               s_.is_dense(p_.out, p_.out_inner, s_.columns) && !p_.tiles && !p_.by_taps && !s_.is_narrow() &&
               s_.most_reads <= lines_at_once;
    }

    /// Forward: the one line of the input that an output line reads, where its columns are read in place; else null.
    /// Only floats go anywhere from there but straight to the output.
    [[nodiscard]] const T* lone_line(const axis_reads& rows) const noexcept {
        const bool can_go_on = std::is_same_v<T, float> ? !s_.is_narrow() || p_.separates : is_direct();
        if (!p_.backward && !s_.has_zeros() && can_go_on && s_.depths.count * rows.count == 1 && s_.reads > 0 &&
            s_.is_dense(p_.in, p_.in_inner, s_.reads))
            return vertical_.line_at(s_.depths.first, rows.first, s_.all_reads());
        return nullptr;
    }
    /// What horizontal sums read: that line, or the scratch line.
    [[nodiscard]] const float* sums_or(const T* line) const noexcept {
        if constexpr (std::is_same_v<T, float>) {
            if (line != nullptr) return line;
        }
        return sums_;
    }

    /// Horizontal sums where no scratch line holds all columns: tap by tap, in ascending order of the columns read.
    void sum_by_taps(std::int64_t h, const axis_reads& rows) noexcept {
        own::fill(result_, result_ + s_.columns * s_.inner, 0.0F);
        line_totals totals(totals_, p_.long_columns ? s_.columns * s_.inner : 0);
        shape::tap_class_walk walk(p_.axes[2], p_.outputs(), s_.first_column, s_.first_column + s_.columns);
        for (shape::tap_class c; walk.next(c);) {
            const axis_reads r = reads_of_class(c, 0);
            const std::int64_t skipped = p_.long_columns ? reads_skipped(p_.axes[2], p_.outputs(), c) % pool_part : 0;
            for (std::int64_t k = 0; k < r.count; ++k) {
                if (p_.long_columns && k > 0 && (skipped + k) % pool_part == 0) close_part(totals, c);
                const input_columns read{r.first + k * p_.read_step(2), c.positions == 1 ? 1 : p_.advance(),
                                         c.positions};
                if (p_.backward) divisors_.count(read);
                vertical_.sum(h, rows, read, sums_);
                add_columns(c.positions, result_ + (c.first_position - s_.first_column) * s_.inner);
            }
        }
        if (!p_.long_columns) return;
        totals.add(result_);
        totals.round_to(result_);
    }
    /// Adds the sums of a class to the totals, and lets them start from zero.
    void close_part(line_totals& totals, const shape::tap_class& c) const noexcept {
        const std::int64_t first = (c.first_position - s_.first_column) * s_.inner;
        for (std::int64_t i = 0; i < c.positions; ++i) {
            const std::int64_t at = first + i * c.position_step * s_.inner;
            totals.add(result_ + at, at, s_.inner);
            own::fill_n(result_ + at, s_.inner, 0.0F);
        }
    }
    /// Adds `count` columns of vertical sums to those of a class of output columns.
    void add_columns(std::int64_t count, float* out) const noexcept {
        const std::int64_t step = p_.position_step();
        const std::int64_t length = step == 1 ? count * s_.inner : s_.inner;
        for (std::int64_t i = 0; i < count * s_.inner / length; ++i) {
            const float* const source = sums_ + i * s_.inner;
            sum_lines<true>(&source, 1, length, out + i * step * s_.inner);
        }
    }

    /// Forward: horizontal sums of a line, divided on the way to the output.
    template <class In>
    void divide_sums(const In* sums, std::int64_t h, T* out) noexcept {
        divisors_.set_line(s_.counted_depth, h);
        divisors_.for_each_alike(s_.columns, [&](std::int64_t begin, std::int64_t end, const auto& divide) {
            horizontal_.sum_runs(sums, begin, end, out, divide);
        });
    }

    /// Forward: the means of whole windows.
    GRADKERN_NOINLINE void average_whole_windows(std::int64_t h, const axis_reads& rows, T* out) noexcept {
        const auto line_at = [&](std::int64_t d, std::int64_t row) {
            return vertical_.line_at(d, row, s_.all_reads());
        };
        const whole_windows<T> windows(s_, rows, line_at);
        if (s_.parts() > 1) {
            s_.sum_parts(totals_, result_, [&] { windows.sum(0, s_.columns, result_, s_.inner, as_it_is{}); });
            return finish_line(h, out);
        }
        divisors_.set_line(s_.counted_depth, h);
        const std::int64_t out_column = s_.columns > 1 ? p_.out[4] : 0;
        divisors_.for_each_alike(s_.columns, [&](std::int64_t begin, std::int64_t end, const auto& divide) {
            windows.sum(begin, end, out, out_column, divide);
        });
    }

    /// Divides what is in result_, if it is not yet divided, and stores it.
    void finish_line(std::int64_t h, T* out) noexcept {
        if (!p_.backward) {
            if (p_.by_taps) divisors_.count(output_columns());
            divisors_.set_line(s_.counted_depth, h);
            if constexpr (std::is_same_v<T, float>) {
                if (!p_.accumulate && s_.is_dense(p_.out, p_.out_inner, s_.columns)) return divide_result(out);
            }
            divide_result(result_);
        }
        output_.store_line(result_, out);
    }
    void divide_result(float* out) const noexcept {
        divisors_.template divide<addend::none>(result_, s_.columns, s_.inner, s_.inner, out);
    }

    /// Repeats the values of each window over its columns, straight to the output, in each of `lines` lines.
    void store_tiles(std::int64_t lines, T* out) const noexcept {
        const auto store = [&](const float* values, std::int64_t column, std::int64_t count) {
            output_.store_columns(values == nullptr ? result_ : values, 1, column, count, lines, out);
        };
        for_each_tile(s_, sums_, store, [&](const float* values, std::int64_t windows, std::int64_t column) {
            output_.store_columns(values, windows, column, p_.axes[2].stride, lines, out);
            return true;
        });
    }

    /// Vertical sums as elements of the output: themselves, or rounded, if those in result_ are not yet the same.
    [[nodiscard]] const T* rounded_sums(bool is_same) const noexcept {
        return as_elements<T>(sums_, is_same ? 0 : s_.reads, result_);
    }

    /// A line of positions that no window reaches.
    GRADKERN_NOINLINE void store_zeros(T* out) const noexcept {
        if (p_.whole_windows) {
            for (std::int64_t x = 0; x < s_.columns; ++x)
                for (std::int64_t c = 0; c < s_.inner; ++c) store_element(out + x * p_.out[4] + c, 0.0F);
            return;
        }
        own::fill(result_, result_ + s_.columns * s_.inner, 0.0F);
        output_.store_line(result_, out);
    }

    const average_plan& p_;
    const T* in_;
    T* out_;
    average_segment s_;
    average_divisors divisors_;
    vertical_sums<T> vertical_;
    horizontal_sums horizontal_;
    average_output<T> output_;
    float* sums_;     // the scratch line: vertical sums
    float* result_;   // a line of results; direct tiles: a column of zeros
    double* totals_;  // by taps, or of whole windows: of a line of long sums
    axis_reads same_as_last_{-1, -1};
};

/// Runs a plan.
template <class T>
void run_average(const average_plan& plan, const T* in, T* out, std::span<std::byte> workspace,
                 executor_ref executor) noexcept {
    run_tasks(executor, plan.tasks(), slices(workspace, plan.slice_bytes), [&](std::byte* slice, const auto& next) {
        const auto run = [&](auto&& lane) {
            for (std::int64_t t = next(); t >= 0; t = next()) lane.run(t);
        };
        if (plan.joined_planes) {
            run(average_joined_planes<T>(plan, in, out, slice));
        } else if (plan.joined_lines) {
            run(average_joined_lines<T>(plan, in, out, slice));
        } else {
            run(average_lane<T>(plan, in, out, slice));
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
