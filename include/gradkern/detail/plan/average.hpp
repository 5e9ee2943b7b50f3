// The average engine: mean over windows (forward) and its gradient, as sums of lines.
//
//     forward    out[o]  =  (sum over columns kw of (sum over kd, kh of in[p(o, k)]))  /  div(o)
//     backward   out[q]  =   sum over columns ow of (sum over od, oh of in[o] / div(o))     windows o that reach q
//
// Every sum starts from +0 and runs in ascending order: this order is the definition of the result, the same for every
// layout, type and path. Both tensors are seen as lines [outer][D][H][columns][inner]: inner = channels where those are
// neighbours in memory, else 1. Loops, outermost first:
//
//     strip      a block of inner
//     segment    a block of output columns
//     item       an outer index, a depth, a block of output lines; a task is one or several of them
//     line       1. vertical sums over depth and height, one f32 scratch line for all columns the segment reads
//                2. horizontal sums over columns: shifted stretches of the scratch line
//
// Quotients of the backward pass are formed once per line where windows overlap, in a ring of lines. Loops run over
// inside taps only, but for short kernels columns behind the border are read as zeros of the scratch line (adding +0
// changes no sum), which spares the borders runs of their own. Short lines whose windows move by few positions
// are computed many at a time (average_planes.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_stores.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/plan/average_plan.hpp>
#include <gradkern/detail/plan/average_planes.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One lane's work on one task; T is the element type of both tensors.
template <class T>
class average_lane {
public:
    average_lane(const average_plan& plan, const T* in, T* out, std::byte* memory) noexcept
        : p_(plan),
          in_(in),
          out_(out),
          vertical_(at<float>(memory, plan.at_vertical)),
          result_(at<float>(memory, plan.at_result)),
          packed_(at<float>(memory, plan.at_packed)),
          wide_(at<float>(memory, plan.at_wide)),
          phases_(at<float>(memory, plan.at_phases)),
          divisors_(at<float>(memory, plan.at_divisors)),
          counts_(at<std::int64_t>(memory, plan.at_counts)),
          runs_(at<column_run>(memory, plan.at_runs)),
          line_reads_(at<axis_reads>(memory, plan.at_lines)),
          ring_(at<float>(memory, plan.at_ring)),
          uniform_(plan.uniform_divisor) {}

    /// Computes all lines of task number `task`.
    void run(std::int64_t task) noexcept {
        const std::int64_t items = p_.items();
        const std::int64_t part = task / p_.groups();
        const std::int64_t first = task % p_.groups() * p_.group;
        const std::int64_t last = std::min(items, first + p_.group);
        set_columns(part % p_.segments(), part / p_.segments());
        set_lines(first % p_.line_blocks() * p_.line_block);
        for (std::int64_t item = first; item < last; ++item) {
            const std::int64_t position = item / p_.line_blocks();
            const std::int64_t outer = position / p_.out_extent(0);
            const std::int64_t d = position % p_.out_extent(0);
            const std::int64_t n = outer / p_.planes;
            const std::int64_t c = outer % p_.planes;
            in_image_ = in_ + n * p_.in[0] + c * p_.in[1] + first_inner_ * p_.in_inner;
            T* const plane = out_ + n * p_.out[0] + c * p_.out[1] + first_inner_ * p_.out_inner + d * p_.out[2] +
                             first_column_ * p_.out[4];
            depths_ = reads_at(0, d);
            counted_depth_ = p_.backward ? 0 : p_.counted(0, d);
            ring_next_ = 0;
            same_as_last_ = axis_reads{-1, -1};
            for (std::int64_t h = first_line_; h < last_line_; ++h) compute_line(h, plane + h * p_.out[3]);
        }
    }

private:
    static constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);

    /// Neighbouring or equidistant columns of the input.
    struct columns {
        std::int64_t first;
        std::int64_t step;
        std::int64_t count;
    };

    template <class U>
    [[nodiscard]] static U* at(std::byte* memory, std::int64_t offset) noexcept {
        return memory == nullptr ? nullptr : reinterpret_cast<U*>(memory + offset);
    }

    // ------------------------------------------------------------------------------------------------- what is read

    /// What class c's position i of an axis reads, in ascending order.
    [[nodiscard]] axis_reads reads_of_class(const shape::tap_class& c, std::int64_t i) const noexcept {
        if (c.taps == 0) return {0, 0};
        return {c.first_read + i * c.read_per_position, c.taps};
    }
    [[nodiscard]] axis_reads reads_at(std::size_t axis, std::int64_t position) const noexcept {
        shape::tap_class_walk walk(p_.axes[axis], p_.outputs(), position, position + 1);
        shape::tap_class c;
        return walk.next(c) ? reads_of_class(c, 0) : axis_reads{};
    }

    /// Chooses the output columns and channels, and finds out what the columns read.
    void set_columns(std::int64_t segment, std::int64_t strip) noexcept {
        first_inner_ = strip * p_.inner_block;
        inner_ = std::min(p_.inner_block, p_.inner - first_inner_);
        first_column_ = segment * p_.segment;
        columns_ = std::min(p_.segment, p_.out_extent(2) - first_column_);
        const column_range all = columns_read(p_.axes[2], p_.backward, first_column_, first_column_ + columns_);
        first_read_ = std::clamp<std::int64_t>(all.first, 0, p_.in_extent(2));
        reads_ = std::clamp<std::int64_t>(all.last, first_read_, p_.in_extent(2)) - first_read_;
        origin_ = p_.extended ? all.first : first_read_;
        has_zeros_ = p_.extended && reads_ < all.last - all.first;
        // the zeros behind the borders stay as they are through all lines
        if (has_zeros_) std::fill(vertical_, vertical_ + (all.last - all.first) * inner_, 0.0F);
        if (p_.direct_tiles) std::fill(result_, result_ + inner_, 0.0F);  // for columns without a window
        run_count_ = 0;
        most_reads_ = 0;
        if (!p_.tiles && !p_.by_taps) {
            shape::tap_class_walk walk(p_.run_axis, p_.outputs(), first_column_, first_column_ + columns_);
            for (shape::tap_class c; walk.next(c);) {
                const axis_reads r = reads_of_class(c, 0);
                runs_[run_count_++] = {static_cast<std::int32_t>(c.first_position - first_column_),
                                       static_cast<std::int32_t>(c.positions),
                                       static_cast<std::int32_t>(r.count == 0 ? 0 : r.first - p_.run_shift - origin_),
                                       static_cast<std::int32_t>(r.count)};
                most_reads_ = std::max(most_reads_, r.count);
            }
        }
        if (!p_.uniform && !p_.by_taps) {
            if (p_.backward) {
                count_columns({first_read_, 1, reads_});
            } else {
                count_columns({first_column_, 1, columns_});
            }
        }
    }

    /// Chooses the output lines and finds out what they read.
    void set_lines(std::int64_t first) noexcept {
        first_line_ = first;
        last_line_ = std::min(first + p_.line_block, p_.out_extent(1));
        shape::tap_class_walk walk(p_.axes[1], p_.outputs(), first_line_, last_line_);
        for (shape::tap_class c; walk.next(c);)
            for (std::int64_t i = 0; i < c.positions; ++i)
                line_reads_[c.first_position - first_line_ + i * c.position_step] = reads_of_class(c, i);
    }

    // --------------------------------------------------------------------------------------------------- divisors

    /// Counts the taps of the windows in these columns.
    void count_columns(const columns& c) noexcept {
        for (std::int64_t x = 0; x < c.count; ++x) counts_[x] = p_.counted_columns(c.first + x * c.step);
        counted_columns_ = c.count;
        counted_rows_ = -1;
    }
    /// Makes the divisors of the counted columns for windows that count `rows` taps along depth and height.
    void set_divisors(std::int64_t rows) noexcept {
        if (p_.uniform || rows == counted_rows_) return;
        counted_rows_ = rows;
        const std::int64_t factor = p_.divisor_override ? 1 : rows;
        for (std::int64_t x = 0; x < counted_columns_; ++x)
            divisors_[x] = average_plan::divisor_of(factor * counts_[x]);
        std::fill(divisors_ + counted_columns_, divisors_ + counted_columns_ + lanes, 1.0F);
    }

    /// The end, at most `end`, of the columns behind x that have the divisor of column x.
    [[nodiscard]] std::int64_t alike_until(std::int64_t x, std::int64_t end) const noexcept {
        std::int64_t next = x + 1;
        while (next < end && divisors_[next] == divisors_[x]) ++next;
        return next;
    }

    /// out = quotients of count columns of inner_ values each, `step` elements apart from column to column.
    template <addend Onto, class In>
    void divide(const In* source, std::int64_t count, std::int64_t step, float* out) const noexcept {
        if (p_.uniform && step == inner_) {
            divide_by_one<Onto>(source, count * inner_, uniform_, out);
        } else if (inner_ == 1 && step == 1) {
            divide_by_each<Onto>(source, count, divisors_, out);
        } else {
            for (std::int64_t x = 0; x < count;) {
                const std::int64_t end = step == inner_ ? alike_until(x, count) : x + 1;
                divide_by_one<Onto>(source + x * step, (end - x) * inner_,
                                    p_.uniform ? uniform_ : divisor(divisors_[x]), out + x * inner_);
                x = end;
            }
        }
    }

    /// How windows lie along an axis: forward, those that do not overlap read the input in order.
    using overlapping = std::integral_constant<ahead, ahead::ask>;
    using apart = std::integral_constant<ahead, ahead::leave>;
    [[nodiscard]] static bool overlap(const shape::axis& a) noexcept { return a.stride < a.kernel; }

    // ---------------------------------------------------------------------------------------------- vertical sums

    /// True where the values of one column are neighbours in memory.
    [[nodiscard]] bool in_place(const columns& c) const noexcept {
        const bool together = p_.in_inner == 1 || inner_ == 1;
        return together && (step_of(c) == inner_ || c.count == 1 || inner_ >= lanes);
    }
    [[nodiscard]] std::int64_t step_of(const columns& c) const noexcept {
        return c.count == 1 ? inner_ : c.step * p_.in[4];
    }
    [[nodiscard]] const T* line_at(std::int64_t d, std::int64_t h, const columns& c) const noexcept {
        return in_image_ + d * p_.in[2] + h * p_.in[3] + c.first * p_.in[4];
    }
    const float* pack(const T* line, const columns& c) const noexcept {
        if (inner_ == 1) {
            for (std::int64_t x = 0; x < c.count; ++x) packed_[x] = load_element(line + x * c.step * p_.in[4]);
            return packed_;
        }
        const std::int64_t step = c.step * p_.in[4];
        if constexpr (!std::is_same_v<T, float>) {
            if (p_.transposes && (step == 1 || c.count == 1)) {  // only floats are transposed in registers
                for (std::int64_t j = 0; j < inner_; ++j)
                    simd::widen(line + j * p_.in_inner, wide_ + j * c.count, c.count);
                pack_lanes(wide_, c.count, inner_, 1, c.count, packed_, inner_);
                return packed_;
            }
        }
        pack_lanes(line, p_.in_inner, inner_, step, c.count, packed_, inner_);
        return packed_;
    }

    /// out = onto + the quotients of line (d, h) of diff_dst.
    template <addend Onto>
    void quotient_line(std::int64_t d, std::int64_t h, const columns& c, float* out) noexcept {
        if (!p_.uniform) set_divisors(p_.divisor_override ? 1 : p_.counted(0, d) * p_.counted(1, h));
        const T* line = line_at(d, h, c);
        if (in_place(c)) {
            divide<Onto>(line, c.count, step_of(c), out);
        } else {
            divide<Onto>(pack(line, c), c.count, inner_, out);
        }
    }

    /// Sums of diff_dst / divisor over the lines that output line h reads.
    void sum_quotients(const axis_reads& rows, const columns& c, float* out) noexcept {
        bool is_first = true;
        for (std::int64_t i = 0; i < depths_.count; ++i) {
            for (std::int64_t j = 0; j < rows.count; ++j) {
                const std::int64_t d = depths_.first + i * p_.read_step(0);
                const std::int64_t h = rows.first + j * p_.read_step(1);
                if (is_first) {
                    quotient_line<addend::zero>(d, h, c, out);
                } else {
                    quotient_line<addend::output>(d, h, c, out);
                }
                is_first = false;
            }
        }
    }

    /// The same with quotients formed once, in the ring.
    void sum_ring(std::int64_t h, const axis_reads& rows, const columns& c, float* out) noexcept {
        const std::int64_t pitch = p_.reads * p_.inner_block;
        const auto slot = [&](std::int64_t depth, std::int64_t row) {
            return ring_ + (depth * p_.ring_lines + (row & (p_.ring_lines - 1))) * pitch;
        };
        // no line at or behind h reads lines before this one
        const column_range lowest = columns_read(p_.axes[1], true, h, h + 1);
        ring_next_ = std::max(ring_next_, lowest.first);
        for (; ring_next_ <= rows.first + (rows.count - 1) * p_.read_step(1); ++ring_next_)
            for (std::int64_t i = 0; i < depths_.count; ++i)
                quotient_line<addend::zero>(depths_.first + i * p_.read_step(0), ring_next_, c, slot(i, ring_next_));
        line_list<float, ahead::leave> list(c.count * inner_, out);
        for (std::int64_t i = 0; i < depths_.count; ++i)
            for (std::int64_t j = 0; j < rows.count; ++j) list.push(slot(i, rows.first + j * p_.read_step(1)));
        list.finish();
    }

    /// Elements of a channel in a short run, at most.
    static constexpr std::int64_t turned_columns = 64;

    /// True where the lines that an output line reads are one short run of memory, each shorter than a vector.
    [[nodiscard]] bool is_short_run(const axis_reads& rows, const columns& c) const noexcept {
        return depths_.count == 1 && c.count < lanes && inner_ >= lanes && c.step * p_.in[4] == 1 &&
               p_.read_step(1) == 1 && p_.in[3] == c.count && rows.count <= turned_columns / c.count;
    }
    /// Sums of such a run: its channels are transposed all lines at once, a vector of channels at a time.
    void sum_short_run(const T* run, std::int64_t line_count, std::int64_t count, float* out) const noexcept {
        alignas(64) std::array<float, static_cast<std::size_t>(turned_columns * lanes)> turned;
        for (std::int64_t next = 0; next < inner_; next += lanes) {
            const std::int64_t j = std::min(next, inner_ - lanes);  // the last block overlaps: the same sums again
            pack_lanes(run + j * p_.in_inner, p_.in_inner, lanes, 1, line_count * count, turned.data(), lanes);
            for (std::int64_t x = 0; x < count; ++x) {
                simd::vec sum = simd::zero();
                for (std::int64_t line = 0; line < line_count; ++line)
                    sum = simd::add(sum, simd::load(turned.data() + (line * count + x) * lanes));
                simd::store(out + x * inner_ + j, sum);
            }
        }
    }

    /// Sums of src over the lines that output line h reads.
    void sum_source(const axis_reads& rows, const columns& c, float* out) noexcept {
        if (!in_place(c)) {
            if (is_short_run(rows, c)) {
                sum_short_run(line_at(depths_.first, rows.first, c), rows.count, c.count, out);
                return;
            }
            bool is_first = true;
            for (std::int64_t i = 0; i < depths_.count; ++i) {
                for (std::int64_t j = 0; j < rows.count; ++j) {
                    const float* const line =
                        pack(line_at(depths_.first + i * p_.read_step(0), rows.first + j * p_.read_step(1), c), c);
                    if (is_first) {
                        sum_lines<false>(&line, 1, c.count * inner_, out);
                    } else {
                        sum_lines<true>(&line, 1, c.count * inner_, out);
                    }
                    is_first = false;
                }
            }
            return;
        }
        const std::int64_t step = step_of(c);
        const std::int64_t pieces = step == inner_ ? 1 : c.count;
        const std::int64_t length = step == inner_ ? c.count * inner_ : inner_;
        const auto sum = [&]<ahead Reads>(std::integral_constant<ahead, Reads>) {
            for (std::int64_t x = 0; x < pieces; ++x) {
                line_list<T, Reads> list(length, out + x * inner_);
                for (std::int64_t i = 0; i < depths_.count; ++i)
                    for (std::int64_t j = 0; j < rows.count; ++j)
                        list.push(line_at(depths_.first + i * p_.read_step(0), rows.first + j * p_.read_step(1), c) +
                                  x * step);
                list.finish();
            }
        };
        overlap(p_.axes[1]) ? sum(overlapping{}) : sum(apart{});
    }

    void sum_vertically(std::int64_t h, const axis_reads& rows, const columns& c, float* out) noexcept {
        if (!p_.backward) {
            sum_source(rows, c, out);
        } else if (p_.ring_lines != 0 && !p_.by_taps) {
            sum_ring(h, rows, c, out);
        } else {
            sum_quotients(rows, c, out);
        }
    }

    // -------------------------------------------------------------------------------------------- horizontal sums

    /// out[x] = sums of `count` stretches of n values, the first at `first`, `step` values apart. Short lists are finished.
    template <ahead Reads = ahead::leave, class In, class Out, class Finish = as_it_is>
    void sum_stretches(const In* first, std::int64_t count, std::int64_t step, std::int64_t n, Out* out,
                       const Finish& finish = {}) const noexcept {
        std::array<const In*, lines_at_once> lines;
        const std::int64_t here = std::min<std::int64_t>(count, lines_at_once);
        for (std::int64_t k = 0; k < here; ++k) lines[static_cast<std::size_t>(k)] = first + k * step;
        sum_lines<false, Reads>(lines.data(), here, n, out, finish);
        if constexpr (std::is_same_v<Out, float>) {  // other outputs take short lists only
            for (std::int64_t done = here; done < count; done += lines_at_once) {
                const std::int64_t more = std::min<std::int64_t>(count - done, lines_at_once);
                for (std::int64_t k = 0; k < more; ++k) lines[static_cast<std::size_t>(k)] = first + (done + k) * step;
                sum_lines<true, Reads>(lines.data(), more, n, out);
            }
        }
    }

    /// From one read of a position to the next, in columns of the scratch line. A step beyond it is never taken.
    [[nodiscard]] std::int64_t column_step() const noexcept { return std::min(p_.read_step(2), p_.reads); }

    /// Horizontal sums of the vertical ones into the scratch line of results.
    void sum_horizontally() noexcept {
        if (!is_narrow()) {
            sum_runs(sums_, 0, columns_, result_);
        } else if (p_.backward) {
            sum_phases(result_);
        } else {
            sum_strided(result_);
        }
    }

    /// Horizontal sums where a position's values fill vectors, or neighbours read neighbours: those of columns
    /// [begin, end) of a line of columns_ * inner_ values; backward all of them.
    template <class In, class Out, class Finish = as_it_is>
    void sum_runs(const In* sums, std::int64_t begin, std::int64_t end, Out* out,
                  const Finish& finish = {}) const noexcept {
        const std::int64_t step = p_.position_step();
        const std::int64_t advance = p_.advance();
        const std::int64_t read_step = column_step() * inner_;
        for (std::int64_t r = 0; r < run_count_; ++r) {
            const column_run& run = runs_[r];
            const In* const source = sums + run.first * inner_;
            const std::int64_t first = std::max<std::int64_t>(0, begin - run.begin);
            const std::int64_t last = std::min<std::int64_t>(run.positions, end - run.begin);
            if (step == 1 && advance == 1) {
                if (first < last)
                    sum_stretches(source + first * inner_, run.count, read_step, (last - first) * inner_,
                                  out + (run.begin + first) * inner_, finish);
            } else if (inner_ >= lanes && inner_ < 4 * lanes) {
                const std::int64_t width = last - first > 1 ? inner_ : 0;  // steps that nobody takes are not formed
                const std::int64_t from = run.count == 0 ? 0 : first * advance * inner_;
                sum_positions(source + from, run.count, read_step, inner_, last - first,
                              run.count == 0 ? 0 : advance * width, out + (run.begin + first * step) * inner_,
                              step * width, finish);
            } else {
                const auto sum = [&]<ahead Reads>(std::integral_constant<ahead, Reads>) {
                    for (std::int64_t i = first; i < last; ++i) {
                        const std::int64_t from =
                            run.count == 0 ? 0 : i * advance * inner_;  // no taps: no place either
                        sum_stretches<Reads>(source + from, run.count, read_step, inner_,
                                             out + (run.begin + i * step) * inner_, finish);
                    }
                };
                p_.backward || overlap(p_.axes[2]) ? sum(overlapping{}) : sum(apart{});
            }
        }
    }

    /// Backward with a stride and few channels: one line for each phase of the stride, then all interleaved.
    void sum_phases(float* out) noexcept {
        const std::int64_t stride = p_.axes[2].stride;
        const std::int64_t count = std::min(stride, columns_);
        const std::int64_t pitch = shape::ceil_div(columns_, stride) * inner_;
        for (std::int64_t r = 0; r < run_count_; ++r) {
            const column_run& run = runs_[r];
            sum_stretches(vertical_ + run.first * inner_, run.count, column_step() * inner_, run.positions * inner_,
                          phases_ + run.begin % stride * pitch + run.begin / stride * inner_);
        }
        if (stride == 2 && inner_ == 1) {
            interleave_two(phases_, phases_ + pitch, columns_ / 2, out);
            if (columns_ % 2 != 0) out[columns_ - 1] = phases_[columns_ / 2];
            return;
        }
        for (std::int64_t f = 0; f < count; ++f) {
            const float* phase = phases_ + f * pitch;
            const std::int64_t positions = shape::ceil_div(columns_ - f, stride);
            for (std::int64_t i = 0; i < positions; ++i)
                for (std::int64_t c = 0; c < inner_; ++c) out[(f + i * stride) * inner_ + c] = *phase++;
        }
    }

    /// Forward with a stride and few channels.
    void sum_strided(float* out) noexcept {
        const std::int64_t stride = p_.axes[2].stride;
        const std::int64_t read_step = p_.read_step(2);
        const std::int64_t pitch = shape::ceil_div(p_.reads, stride);
        // columns of one phase side by side, so that windows are neighbours
        if (p_.separates) separate(sums_, held_columns(), stride, pitch, phases_);
        for (std::int64_t r = 0; r < run_count_; ++r) {
            const column_run& run = runs_[r];
            if (p_.separates && run.positions >= 4 && run.count <= lines_at_once) {
                std::array<const float*, lines_at_once> list;
                for (std::int64_t k = 0; k < run.count; ++k) {
                    const std::int64_t column = run.first + k * read_step;
                    list[static_cast<std::size_t>(k)] = phases_ + column % stride * pitch + column / stride;
                }
                sum_lines<false>(list.data(), run.count, run.positions, out + run.begin);
                continue;
            }
            for (std::int64_t i = 0; i < run.positions; ++i) {
                const std::int64_t first = run.count == 0 ? 0 : run.first + i * stride;  // no taps: no place either
                for (std::int64_t c = 0; c < inner_; ++c) {
                    const float* source = sums_ + first * inner_ + c;
                    float sum = 0.0F;
                    for (std::int64_t k = 0; k < run.count; ++k) sum += source[k * read_step * inner_];
                    out[(run.begin + i) * inner_ + c] = sum;
                }
            }
        }
    }
    /// Columns of the scratch line in use.
    [[nodiscard]] std::int64_t held_columns() const noexcept {
        if (!p_.extended) return reads_;
        const column_range all = columns_read(p_.axes[2], p_.backward, first_column_, first_column_ + columns_);
        return all.last - all.first;
    }

    /// Backward where each position belongs to one window at most: calls repeat(quotients of a column, or null for
    /// zeros; first column; columns) for the segment in ascending order. Where there is a line of results, single values
    /// that follow one another go there many at a time.
    template <class Repeat>
    void for_each_tile(const Repeat& repeat) noexcept {
        const shape::axis& a = p_.axes[2];
        std::int64_t q = first_column_;  // next position
        const std::int64_t end = first_column_ + columns_;
        const auto up_to = [&](const float* value, std::int64_t to) {
            if (q >= to) return;
            repeat(value, q - first_column_, to - q);
            q = to;
        };
        for (std::int64_t o = first_read_; o < first_read_ + reads_; ++o) {
            const std::int64_t from = a.position(o, 0);
            const bool whole = from >= q && a.kernel <= end - from;
            up_to(nullptr, std::min(end, from));
            if (!p_.direct_tiles && inner_ == 1 && whole && a.kernel == a.stride) {
                const std::int64_t n = std::min(first_read_ + reads_ - o, (end - from) / a.stride);
                repeat_each(vertical_ + (o - first_read_), n, a.stride, result_ + (from - first_column_));
                q = from + n * a.stride;
                o += n - 1;
                continue;
            }
            up_to(vertical_ + (o - first_read_) * inner_, from + std::min(a.kernel, end - from));
        }
        up_to(nullptr, end);
    }
    /// Repeats each value over its tile, into the line of results.
    void repeat_tiles() noexcept {
        for_each_tile([&](const float* value, std::int64_t x, std::int64_t n) {
            float* const out = result_ + x * inner_;
            if (value == nullptr || inner_ == 1) {
                std::fill(out, out + n * inner_, value == nullptr ? 0.0F : *value);
            } else {
                for (std::int64_t i = 0; i < n; ++i) std::copy(value, value + inner_, out + i * inner_);
            }
        });
    }
    /// Repeats each value over its tile, straight to the output.
    void store_tiles(T* out) noexcept {
        for_each_tile([&](const float* value, std::int64_t x, std::int64_t n) { store_columns(value, x, n, out); });
    }
    /// Writes the same values to each of n columns; null stands for zeros.
    void store_columns(const float* value, std::int64_t x, std::int64_t n, T* out) const noexcept {
        const float* const line = value == nullptr ? result_ : value;
        if (!p_.accumulate) return repeat_line(line, inner_, n, out + x * p_.out[4], p_.out[4]);
        for (std::int64_t i = x; i < x + n; ++i) accumulate_line(line, inner_, out + i * p_.out[4]);
    }

    /// Horizontal sums where no scratch line holds all columns: tap by tap, in ascending order of the columns read.
    void sum_by_taps(std::int64_t h, const axis_reads& rows) noexcept {
        const std::int64_t step = p_.position_step();
        shape::tap_class_walk walk(p_.axes[2], p_.outputs(), first_column_, first_column_ + columns_);
        std::fill(result_, result_ + columns_ * inner_, 0.0F);
        for (shape::tap_class c; walk.next(c);) {
            const axis_reads r = reads_of_class(c, 0);
            for (std::int64_t k = 0; k < r.count; ++k) {
                const columns read{r.first + k * p_.read_step(2), c.positions == 1 ? 1 : p_.advance(), c.positions};
                if (p_.backward && !p_.uniform) count_columns(read);
                sum_vertically(h, rows, read, vertical_);
                float* const sums = result_ + (c.first_position - first_column_) * inner_;
                const std::int64_t length = step == 1 ? c.positions * inner_ : inner_;
                for (std::int64_t i = 0; i < c.positions * inner_ / length; ++i) {
                    const float* const source = vertical_ + i * inner_;
                    sum_lines<true>(&source, 1, length, sums + i * step * inner_);
                }
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------ lines

    /// True where sums may go to the output without a stop in result_.
    [[nodiscard]] bool is_direct() const noexcept {
        return (p_.backward || p_.uniform || inner_ > 1) && !p_.accumulate &&
               is_dense(p_.out, p_.out_inner, columns_) && !p_.tiles && !p_.by_taps && !is_narrow() &&
               most_reads_ <= lines_at_once;
    }
    /// True where a position's values fill no vector and its neighbours read no neighbours.
    [[nodiscard]] bool is_narrow() const noexcept { return inner_ < lanes && p_.axes[2].stride > 1; }

    /// Writes a finished line of columns_ * inner_ values.
    void store_line(const float* line, T* out) const noexcept {
        if (inner_ == 1 && p_.out[4] != 1) {
            for (std::int64_t x = 0; x < columns_; ++x) store_result(out + x * p_.out[4], line[x], p_.accumulate);
            return;
        }
        if (inner_ > 1 && p_.out_inner != 1) {
            if constexpr (!std::is_same_v<T, float>) {
                if (p_.transposes) {
                    unpack_lanes(line, inner_, inner_, columns_, wide_, columns_, 1, false);
                    for (std::int64_t j = 0; j < inner_; ++j)
                        put(wide_ + j * columns_, columns_, out + j * p_.out_inner);
                    return;
                }
            }
            unpack_lanes(line, inner_, inner_, columns_, out, p_.out_inner, p_.out[4], p_.accumulate);
            return;
        }
        const bool dense = p_.out[4] == inner_ || columns_ == 1;
        const std::int64_t pieces = dense ? 1 : columns_;
        const std::int64_t length = dense ? columns_ * inner_ : inner_;
        for (std::int64_t x = 0; x < pieces; ++x) put(line + x * length, length, out + x * p_.out[4]);
    }
    void put(const float* line, std::int64_t n, T* out) const noexcept {
        if (p_.accumulate) {
            accumulate_line(line, n, out);
        } else {
            write_line(line, n, out);
        }
    }

    void compute_line(std::int64_t h, T* out) noexcept {
        const axis_reads rows = line_reads_[h - first_line_];
        if (depths_.count == 0 || rows.count == 0) {
            if (p_.direct_tiles) {
                store_columns(nullptr, 0, columns_, out);
            } else {
                std::fill(result_, result_ + columns_ * inner_, 0.0F);
                store_line(result_, out);
            }
            same_as_last_ = axis_reads{-1, -1};
            return;
        }
        // Windows that do not overlap along the height give several lines the same sums.
        const bool is_same = rows.first == same_as_last_.first && rows.count == same_as_last_.count;
        same_as_last_ = rows;
        if (p_.by_taps) {
            if (!is_same || !p_.backward) sum_by_taps(h, rows);
        } else {
            const columns all{first_read_, 1, reads_};
            sums_ = vertical_;
            if (const T* const line = lone_line(rows, all)) {
                if (is_direct()) return divide_sums(line, h, out);
                if constexpr (std::is_same_v<T, float>) sums_ = line;
            } else if (!is_same && reads_ > 0) {
                sum_vertically(h, rows, all, vertical_ + (first_read_ - origin_) * inner_);
            }
            if (is_direct()) {
                if (p_.backward) {
                    sum_runs(sums_, 0, columns_, out);
                } else {
                    divide_sums(sums_, h, out);
                }
                return;
            }
            if (p_.direct_tiles) return store_tiles(out);
            if (p_.tiles) {
                if (!is_same) repeat_tiles();
            } else if (!is_same || !p_.backward) {
                sum_horizontally();
            }
        }
        if (!p_.backward) {
            if constexpr (std::is_same_v<T, float>) {
                if (!p_.accumulate && is_dense(p_.out, p_.out_inner, columns_)) return divide_result(h, out);
            }
            divide_result(h, result_);
        }
        store_line(result_, out);
    }

    /// Forward: the one line of the input that an output line reads, where its columns are read in place; else null.
    /// Only floats go anywhere from there but straight to the output.
    [[nodiscard]] const T* lone_line(const axis_reads& rows, const columns& c) const noexcept {
        const bool can_go_on = std::is_same_v<T, float> ? !is_narrow() || p_.separates : is_direct();
        if (!p_.backward && !has_zeros_ && can_go_on && depths_.count * rows.count == 1 && reads_ > 0 &&
            is_dense(p_.in, p_.in_inner, c.count))
            return line_at(depths_.first, rows.first, c);
        return nullptr;
    }
    /// Whether the values of a line follow one another in memory.
    [[nodiscard]] bool is_dense(const shape::canonical_strides& strides, std::int64_t inner_step,
                                std::int64_t count) const noexcept {
        return (inner_step == 1 || inner_ == 1) && (strides[4] == inner_ || count == 1);
    }

    void divide_result(std::int64_t h, float* out) noexcept {
        if (p_.by_taps && !p_.uniform) count_columns({first_column_, 1, columns_});
        set_divisors_of_line(h);
        divide<addend::none>(result_, columns_, inner_, out);
    }
    /// Makes the divisors of output line h.
    void set_divisors_of_line(std::int64_t h) noexcept {
        if (!p_.uniform) set_divisors(p_.divisor_override ? 1 : counted_depth_ * p_.counted(1, h));
    }

    /// Forward: horizontal sums of a line, divided.
    template <class In>
    void divide_sums(const In* sums, std::int64_t h, T* out) noexcept {
        set_divisors_of_line(h);
        for (std::int64_t x = 0; x < columns_;) {
            const std::int64_t end = p_.uniform ? columns_ : alike_until(x, columns_);
            with_division(p_.uniform ? uniform_ : divisor(divisors_[x]),
                          [&](const auto& divide) { sum_runs(sums, x, end, out, divide); });
            x = end;
        }
    }

    const average_plan& p_;
    const T* in_;
    T* out_;
    float* vertical_;
    const float* sums_ = nullptr;  // what horizontal sums read: vertical_, or a line of the input
    float* result_;
    float* packed_;
    float* wide_;
    float* phases_;
    float* divisors_;
    std::int64_t* counts_;
    column_run* runs_;
    axis_reads* line_reads_;
    float* ring_;
    divisor uniform_;

    std::int64_t first_inner_ = 0;
    std::int64_t inner_ = 0;
    std::int64_t first_column_ = 0;
    std::int64_t columns_ = 0;
    std::int64_t first_read_ = 0;  // columns of the input that the segment reads
    std::int64_t reads_ = 0;
    std::int64_t origin_ = 0;  // column at the beginning of vertical_
    bool has_zeros_ = false;   // vertical_ holds zeros for columns behind the borders
    std::int64_t run_count_ = 0;
    std::int64_t most_reads_ = 0;
    std::int64_t counted_columns_ = 0;
    std::int64_t counted_rows_ = -1;
    std::int64_t counted_depth_ = 0;
    std::int64_t first_line_ = 0;
    std::int64_t last_line_ = 0;
    const T* in_image_ = nullptr;
    axis_reads depths_{};
    std::int64_t ring_next_ = 0;
    axis_reads same_as_last_{-1, -1};
};

/// Runs a plan.
template <class T>
void run_average(const average_plan& plan, const T* in, T* out, std::span<std::byte> workspace,
                 executor_ref executor) noexcept {
    run_tasks(executor, plan.tasks(), slices(workspace, plan.slice_bytes), [&](std::byte* memory, const auto& next) {
        const auto run = [&](auto&& lane) {
            for (std::int64_t t = next(); t >= 0; t = next()) lane.run(t);
        };
        if (plan.joined) {
            run(average_planes<T>(plan, in, out, memory));
        } else {
            run(average_lane<T>(plan, in, out, memory));
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
