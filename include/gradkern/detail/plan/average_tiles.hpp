// The tiles of the average engine's gradient: columns where each belongs to one window at most. Nothing is added
// horizontally: the vertical sum of a window is the result of all its columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/plan/average_segment.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Calls repeat(values, column, count) for the segment's columns in ascending order, where `values` are those of a column of
/// the line `sums`, or null for columns without a window. Windows that lie side by side go to repeat_all(values, windows,
/// column) together, if that returns true.
template <class Repeat, class RepeatAll>
void for_each_tile(const average_segment& s, const float* sums, const Repeat& repeat,
                   const RepeatAll& repeat_all) noexcept {
    const shape::axis& a = s.p.axes[2];
    std::int64_t q = s.first_column;  // next position
    const std::int64_t end = s.first_column + s.columns;
    const auto up_to = [&](const float* values, std::int64_t to) {
        if (q >= to) return;
        repeat(values, q - s.first_column, to - q);
        q = to;
    };
    for (std::int64_t o = s.first_read; o < s.first_read + s.reads; ++o) {
        const float* const values = sums + (o - s.first_read) * s.inner;
        const std::int64_t from = a.position(o, 0);
        const bool whole = from >= q && a.kernel <= end - from;
        up_to(nullptr, std::min(end, from));
        if (whole && a.kernel == a.stride) {
            const std::int64_t windows = std::min(s.first_read + s.reads - o, (end - from) / a.stride);
            if (repeat_all(values, windows, from - s.first_column)) {
                q = from + windows * a.stride;
                o += windows - 1;
                continue;
            }
        }
        up_to(values, from + std::min(a.kernel, end - from));
    }
    up_to(nullptr, end);
}

/// Repeats the values of each window over its columns, into a line of results.
inline void repeat_tiles(const average_segment& s, const float* sums, float* result) noexcept {
    const auto repeat = [&](const float* values, std::int64_t column, std::int64_t count) {
        float* const out = result + column * s.inner;
        if (values == nullptr || s.inner == 1) {
            std::fill(out, out + count * s.inner, values == nullptr ? 0.0F : *values);
        } else {
            for (std::int64_t i = 0; i < count; ++i) std::copy(values, values + s.inner, out + i * s.inner);
        }
    };
    for_each_tile(s, sums, repeat, [&](const float* values, std::int64_t windows, std::int64_t column) {
        if (s.inner == 1) repeat_each(values, windows, s.p.axes[2].stride, result + column);
        return s.inner == 1;
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
