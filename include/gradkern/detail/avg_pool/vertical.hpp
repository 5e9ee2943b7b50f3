// Vertical sums of the average engine: over depth and height, of all columns that a segment reads, into a scratch line.
//
// Forward they are sums of lines of the input. Backward they are sums of quotients, which are formed once per line of the
// input where windows overlap, in a ring of lines. Loops:
//
//     forward, in place     columns, if they are not neighbours > line of the input (line_sums.hpp)
//     forward, transposed   line of the input: transpose, add; short lines that are neighbours in one call
//     backward, ring        line of quotients that no output line before has needed; then lines of the ring
//     backward, no ring     line of the input: divide, add
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/avg_pool/divisors.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// Vertical sums of a worker; T is the element type of the input.
template <class T, shape::side Outputs>
class vertical_sums {
public:
    vertical_sums(const segment_place& s, segment_divisors<accumulate_t<T>>& divisors, std::byte* slice) noexcept
        : s_(s),
          divisors_(divisors),
          packed_(array_at<accumulate_t<T>>(slice, s.p.at_packed)),
          totals_(array_at<double>(slice, s.p.at_line_totals)),
          ring_(array_at<accumulate_t<T>>(slice, s.p.at_ring)) {}

    /// Moves to another image or depth; `image`: element of the strip's first channel at the image's origin.
    void start(const T* image) noexcept {
        image_ = image;
        ring_next_ = 0;
    }

    /// out = the vertical sums of these columns that output line h needs, which reads `rows`.
    void sum(std::int64_t h, const axis_reads& rows, const input_columns& c, accumulate_t<T>* out) noexcept {
        const position_range lines = s_.all_lines(rows);
        if (lines.last <= pool_part) return sum_part(h, rows, lines, c, out);
        line_totals totals(totals_, c.count * s_.inner);
        for (std::int64_t first = 0; first < lines.last; first += pool_part) {
            sum_part(h, rows, {first, std::min(lines.last, first + pool_part)}, c, out);
            totals.add(out);
        }
        totals.round_to(out);
    }

    /// The first of these columns in line (d, h) of the input.
    [[nodiscard]] const T* line_at(std::int64_t d, std::int64_t h, const input_columns& c) const noexcept {
        return image_ + d * s_.p.in[2] + h * s_.p.in[3] + c.first * s_.p.in[4];
    }

private:
    static constexpr bool is_backward = Outputs == shape::side::large;
    static constexpr auto lanes = static_cast<std::int64_t>(simd::wide_lanes<T>);
    /// Elements of a channel in short lines that are neighbours, at most.
    static constexpr std::int64_t short_elements = 64;
    static_assert(short_elements <= pool_part, "sums of such lines are not long");

    void sum_part(std::int64_t h, const axis_reads& rows, const position_range& part, const input_columns& c,
                  accumulate_t<T>* out) noexcept {
        if constexpr (is_backward) {
            s_.p.ring_lines != 0 ? sum_ring(h, rows, part, c, out) : sum_one_by_one(rows, part, c, out);
        } else if (in_place(c)) {
            sum_in_place(rows, part, c, out);
        } else if (are_short_neighbours(rows, c)) {
            sum_short_lines(line_at(s_.depths.first, rows.first, c), rows.count, c.count, out);
        } else {
            sum_one_by_one(rows, part, c, out);
        }
    }

    // ---------------------------------------------------------------------------------------------- lines of the input

    /// True where the values of one column are neighbours in memory.
    [[nodiscard]] bool in_place(const input_columns& c) const noexcept {
        const bool are_neighbours = s_.p.in_inner == 1 || s_.inner == 1;
        return are_neighbours && (step_of(c) == s_.inner || c.count == 1 || s_.inner >= lanes);
    }
    [[nodiscard]] std::int64_t step_of(const input_columns& c) const noexcept {
        return c.count == 1 ? s_.inner : c.step * s_.p.in[4];
    }

    /// A line of the input in the type of the sums, with the values of one column side by side.
    [[nodiscard]] GRADKERN_NOINLINE const accumulate_t<T>* pack(const T* line, const input_columns& c) const noexcept {
        pack_lanes(line, s_.p.in_inner, s_.inner, c.step * s_.p.in[4], c.count, packed_, s_.inner);
        return packed_;
    }

    /// out = onto + line (d, h) of the input, packed; backward its quotients.
    template <addend Onto>
    void add_line(std::int64_t d, std::int64_t h, const input_columns& c, accumulate_t<T>* out) noexcept {
        const T* const line = line_at(d, h, c);
        if constexpr (is_backward) {
            divisors_.set_line(d, h);
            if (in_place(c)) {
                divisors_.template divide<Onto>(line, c.count, s_.inner, step_of(c), out);
            } else {
                divisors_.template divide<Onto>(pack(line, c), c.count, s_.inner, s_.inner, out);
            }
        } else {
            const accumulate_t<T>* const packed = pack(line, c);
            sum_lines<Onto == addend::output>(&packed, 1, c.count * s_.inner, out);
        }
    }
    void sum_one_by_one(const axis_reads& rows, const position_range& part, const input_columns& c,
                        accumulate_t<T>* out) noexcept {
        bool is_first = true;
        s_.for_each_line(rows, part, [&](std::int64_t d, std::int64_t h, std::int64_t) {
            is_first ? add_line<addend::zero>(d, h, c, out) : add_line<addend::output>(d, h, c, out);
            is_first = false;
        });
    }

    // --------------------------------------------------------------------------------------------------------- forward

    void sum_in_place(const axis_reads& rows, const position_range& part, const input_columns& c,
                      accumulate_t<T>* out) const noexcept {
        const std::int64_t step = step_of(c);
        const std::int64_t pieces = step == s_.inner ? 1 : c.count;
        const std::int64_t length = step == s_.inner ? c.count * s_.inner : s_.inner;
        with_prefetch(windows_overlap(s_.p.axes[1]) ? prefetch::ahead : prefetch::none,
                      [&]<prefetch Reads>(std::integral_constant<prefetch, Reads>) {
                          for (std::int64_t x = 0; x < pieces; ++x) {
                              line_list<T, Reads> list(length, out + x * s_.inner);
                              s_.for_each_line(rows, part, [&](std::int64_t d, std::int64_t h, std::int64_t) {
                                  list.push(line_at(d, h, c) + x * step);
                              });
                              list.finish();
                          }
                      });
    }

    /// True where the lines that an output line reads follow one another in memory, each shorter than a vector.
    [[nodiscard]] bool are_short_neighbours(const axis_reads& rows, const input_columns& c) const noexcept {
        return s_.depths.count == 1 && c.count < lanes && s_.inner >= lanes && c.step * s_.p.in[4] == 1 &&
               s_.p.read_step(1) == 1 && s_.p.in[3] == c.count && rows.count <= short_elements / c.count;
    }
    /// Sums of such lines: all of them are transposed at once, a vector of channels at a time.
    void sum_short_lines(const T* lines, std::int64_t line_count, std::int64_t count,
                         accumulate_t<T>* out) const noexcept {
        alignas(64) std::array<accumulate_t<T>, static_cast<std::size_t>(short_elements * lanes)> transposed;
        const bool is_stream = line_count * count == s_.p.in_inner;  // channels follow one another
        for (std::int64_t next = 0; next < s_.inner; next += lanes) {
            const std::int64_t j = std::min(next, s_.inner - lanes);  // the last block overlaps: the same sums again
            if (is_stream) simd::prefetch_stream(lines + j * s_.p.in_inner, lanes * s_.p.in_inner);
            pack_lanes(lines + j * s_.p.in_inner, s_.p.in_inner, lanes, 1, line_count * count, transposed.data(),
                       lanes);
            for (std::int64_t x = 0; x < count; ++x) {
                simd::wide_vec<T> sum = simd::zero<accumulate_t<T>>();
                for (std::int64_t line = 0; line < line_count; ++line)
                    sum = simd::add(sum, simd::load(transposed.data() + (line * count + x) * lanes));
                simd::store(out + x * s_.inner + j, sum);
            }
        }
    }

    // -------------------------------------------------------------------------------------------------------- backward

    void sum_ring(std::int64_t h, const axis_reads& rows, const position_range& part, const input_columns& c,
                  accumulate_t<T>* out) noexcept {
        const std::int64_t pitch = s_.p.reads * s_.p.inner_block;
        const auto slot = [&](std::int64_t depth, std::int64_t row) {
            return ring_ + (depth * s_.p.ring_lines + (row & (s_.p.ring_lines - 1))) * pitch;
        };
        // no line at or behind h reads lines before this one
        ring_next_ = std::max(ring_next_, read_span(s_.p.axes[1], shape::side::large, h, h + 1).first);
        for (; ring_next_ <= rows.first + (rows.count - 1) * s_.p.read_step(1); ++ring_next_)
            for (std::int64_t i = 0; i < s_.depths.count; ++i)
                add_line<addend::zero>(s_.depths.first + i * s_.p.read_step(0), ring_next_, c, slot(i, ring_next_));
        line_list<accumulate_t<T>, prefetch::none> list(c.count * s_.inner, out);
        s_.for_each_line(rows, part, [&](std::int64_t, std::int64_t row, std::int64_t i) { list.push(slot(i, row)); });
        list.finish();
    }

    const segment_place& s_;
    segment_divisors<accumulate_t<T>>& divisors_;
    accumulate_t<T>* packed_;
    double* totals_;  // of sums of many lines
    accumulate_t<T>* ring_;
    std::int64_t ring_next_ = 0;  // the ring holds quotients of lines before this one
    const T* image_ = nullptr;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
