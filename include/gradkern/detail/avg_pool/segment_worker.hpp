// What workers of paths that compute lines one by one share: the walk over a task's lines, and a line's way to the output.
//
// Loops: task (strip of channels, segment of columns, some items) > item (image, plane, depth, block of rows) > row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/avg_pool/divisors.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/avg_pool/vertical.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_stores.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// Stores a worker's lines; T is the element type of the output. Lines begin at the segment's first column.
template <class T>
class segment_output {
public:
    segment_output(const segment_place& s, std::byte* slice) noexcept
        : p_(s.p), s_(s), wide_(array_at<float>(slice, s.p.at_wide)) {}

    /// Stores a line of results of all columns of the segment.
    void store_line(const float* line, T* out) const noexcept {
        const std::int64_t columns = s_.columns;
        const std::int64_t inner = s_.inner;
        if (inner == 1 && p_.out[4] != 1) {
            for (std::int64_t x = 0; x < columns; ++x) store_result(out + x * p_.out[4], line[x], p_.accumulates());
            return;
        }
        if (inner > 1 && p_.out_inner != 1) {
            if constexpr (!std::is_same_v<T, float>) {
                if (p_.channels == channel_order::transposed) {
                    unpack_lanes(line, inner, inner, columns, wide_, columns, 1, false);
                    for (std::int64_t j = 0; j < inner; ++j) put(wide_ + j * columns, columns, out + j * p_.out_inner);
                    return;
                }
            }
            unpack_lanes(line, inner, inner, columns, out, p_.out_inner, p_.out[4], p_.accumulates());
            return;
        }
        const bool dense = p_.out[4] == inner || columns == 1;
        const std::int64_t pieces = dense ? 1 : columns;
        const std::int64_t length = dense ? columns * inner : inner;
        for (std::int64_t x = 0; x < pieces; ++x) put(line + x * length, length, out + x * p_.out[4]);
    }

    /// Stores the channels of `windows` columns, which are neighbours, to `count` columns each, from `column` on, of `lines`
    /// lines.
    void store_columns(const float* channels, std::int64_t windows, std::int64_t column, std::int64_t count,
                       std::int64_t lines, T* out) const noexcept {
        const std::int64_t step = p_.out[4];
        const line_copies copies{count, count > 1 ? step : 0, lines, lines > 1 ? p_.out[3] : 0};
        const std::int64_t next = windows > 1 ? count * step : 0;
        out += column * step;
        if (!p_.accumulates()) return repeat_lines(channels, s_.inner, windows, copies, out, next);
        for (std::int64_t w = 0; w < windows; ++w)
            copies.for_each([&](std::ptrdiff_t copy) {
                accumulate_line(channels + w * s_.inner, s_.inner, out + w * next + copy);
            });
    }

private:
    void put(const float* line, std::int64_t n, T* out) const noexcept {
        if (p_.accumulates()) {
            accumulate_line(line, n, out);
        } else {
            write_line(line, n, out);
        }
    }

    const segment_plan& p_;
    const segment_place& s_;
    float* wide_;
};

/// T is the element type of both tensors.
template <class T, shape::side Outputs>
class segment_worker {
public:
    segment_worker(const segment_worker&) = delete;  // its parts refer to one another
    segment_worker& operator=(const segment_worker&) = delete;

protected:
    static constexpr bool is_backward = Outputs == shape::side::large;

    segment_worker(const segment_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : p_(plan),
          in_(in),
          out_(out),
          s_(plan, slice),
          divisors_(plan, slice),
          vertical_(s_, divisors_, slice),
          output_(s_, slice),
          sums_(array_at<float>(slice, plan.at_vertical)),
          result_(array_at<float>(slice, plan.at_result)) {}

    /// Calls path.set_columns() for the columns of task number `task`, then for its lines path.compute_lines(h, rows, out), which
    /// returns how many it has computed, or path.store_zeros(out) for a line that reads nothing.
    template <class Path>
    void compute_task(Path& path, std::int64_t task) noexcept {
        const std::int64_t part = task / p_.groups();
        const std::int64_t first = task % p_.groups() * p_.group;
        const std::int64_t last = std::min(p_.items(), first + p_.group);
        s_.set_columns(part % p_.segments(), part / p_.segments());
        path.set_columns();
        s_.set_lines(first % p_.line_blocks() * p_.line_block);
        for (std::int64_t item = first; item < last; ++item) {
            s_.set_plane(item / p_.line_blocks());
            vertical_.start(in_ + s_.in_origin());
            T* const out = out_ + s_.out_origin();
            last_rows_ = axis_reads{-1, -1};
            for (std::int64_t h = s_.first_line; h < s_.last_line;) {
                T* const line = out + h * p_.out[3];
                const axis_reads rows = s_.rows_of(h);
                if (s_.depths.count == 0 || rows.count == 0) {
                    last_rows_ = axis_reads{-1, -1};
                    path.store_zeros(line);
                    ++h;
                } else {
                    h += path.compute_lines(h, rows, line);
                }
            }
        }
    }

    /// Whether a line reads the rows that the last one has read: windows that do not overlap along the height give several lines
    /// the same sums.
    [[nodiscard]] bool are_last_rows(const axis_reads& rows) noexcept {
        const bool are = rows == last_rows_;
        last_rows_ = rows;
        return are;
    }

    /// Forward divides what is in result_; stores it.
    void finish_line(std::int64_t h, T* out) noexcept {
        if constexpr (!is_backward) {
            divisors_.set_line(s_.depth, h);
            if constexpr (std::is_same_v<T, float>) {
                if (!p_.accumulates() && s_.is_dense(p_.out, p_.out_inner, s_.columns)) return divide_result(out);
            }
            divide_result(result_);
        }
        output_.store_line(result_, out);
    }

public:
    /// A line of positions that no window reaches, by way of result_.
    GRADKERN_NOINLINE void store_zeros(T* out) const noexcept {
        own::fill(result_, result_ + s_.columns * s_.inner, 0.0F);
        output_.store_line(result_, out);
    }

private:
    void divide_result(float* out) const noexcept {
        divisors_.template divide<addend::none>(result_, s_.columns, s_.inner, s_.inner, out);
    }

protected:
    const segment_plan& p_;
    const T* in_;
    T* out_;
    segment_place s_;
    segment_divisors divisors_;
    vertical_sums<T, Outputs> vertical_;
    segment_output<T> output_;
    float* sums_;    // the scratch line: vertical sums
    float* result_;  // a line of results

private:
    axis_reads last_rows_{-1, -1};
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
