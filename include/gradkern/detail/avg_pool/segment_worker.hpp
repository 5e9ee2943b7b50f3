// What workers of paths that compute lines one by one share: the walk over a task's lines, and a line's way to the output.
//
// Loops: task (strip of channels, segment of columns, some items) > item (image, plane, depth, block of rows) > row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/divisors.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/avg_pool/vertical.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// T is the element type of both tensors.
template <class T, shape::side Outputs>
class segment_worker {
public:
    segment_worker(const segment_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : in_(in),
          out_(out),
          s_(plan, slice),
          divisors_(plan, slice),
          vertical_(s_, divisors_, slice),
          sums_(array_at<accumulate_t<T>>(slice, plan.at_vertical)),
          result_(array_at<accumulate_t<T>>(slice, plan.at_result)) {}
    segment_worker(const segment_worker&) = delete;  // its parts refer to one another
    segment_worker& operator=(const segment_worker&) = delete;

protected:
    static constexpr bool is_backward = Outputs == shape::side::large;

    /// Calls path.set_columns() for the columns of task number `task`, then for its lines path.compute_lines(h, rows, is_same, out),
    /// which returns how many it has computed, or path.store_zeros(out) for a line that reads nothing. `is_same`: the line reads the
    /// rows that the last one has read: windows that do not overlap along the height give several lines the same sums.
    template <class Path>
    void compute_task(Path& path, std::int64_t task) noexcept {
        const std::int64_t part = task / s_.p.groups();
        const std::int64_t first = task % s_.p.groups() * s_.p.group;
        const std::int64_t last = std::min(s_.p.items(), first + s_.p.group);
        s_.set_columns(part % s_.p.segments(), part / s_.p.segments());
        path.set_columns();
        s_.set_lines(first % s_.p.line_blocks() * s_.p.line_block);
        for (std::int64_t item = first; item < last; ++item) {
            s_.set_plane(item / s_.p.line_blocks());
            vertical_.start(in_ + s_.in_origin());
            T* const out = out_ + s_.out_origin();
            axis_reads last_rows{-1, -1};
            for (std::int64_t h = s_.first_line; h < s_.last_line;) {
                T* const line = out + h * s_.p.out[3];
                const axis_reads rows = s_.rows_of(h);
                const bool is_same = rows == last_rows;
                last_rows = rows;
                if (s_.depths.count == 0 || rows.count == 0) {
                    path.store_zeros(line);
                    ++h;
                } else {
                    h += path.compute_lines(h, rows, is_same, line);
                }
            }
        }
    }

    /// Forward divides what is in result_; stores it.
    void finish_line(std::int64_t h, T* out) noexcept {
        if constexpr (!is_backward) {
            const auto divide_to = [&](accumulate_t<T>* to) {
                divisors_.template divide<addend::none>(result_, s_.columns, s_.inner, s_.inner, to);
            };
            divisors_.set_line(s_.depth, h);
            if constexpr (simd::is_wide<T>) {
                if (!s_.p.accumulates() && s_.is_dense(s_.p.out, s_.p.out_inner, s_.columns)) return divide_to(out);
            }
            divide_to(result_);
        }
        s_.store_line(result_, out);
    }

public:
    /// A line of positions that no window reaches, by way of result_.
    GRADKERN_NOINLINE void store_zeros(T* out) const noexcept {
        own::fill(result_, result_ + s_.columns * s_.inner, accumulate_t<T>{0});
        s_.store_line(result_, out);
    }

protected:
    const T* in_;
    T* out_;
    segment_place s_;
    segment_divisors<accumulate_t<T>> divisors_;
    vertical_sums<T, Outputs> vertical_;
    accumulate_t<T>* sums_;    // the scratch line: vertical sums
    accumulate_t<T>* result_;  // a line of results
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
