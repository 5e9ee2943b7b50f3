// The tiles of the average engine's gradient: columns where each belongs to one window at most. Nothing is added
// horizontally: the vertical sum of a window is the result of all its columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Calls repeat(values, column, count) for the segment's columns in ascending order, where `values` are those of a column of
/// the line `sums`, or null for columns without a window. Windows that lie side by side go to repeat_all(values, windows,
/// column) together, if that returns true.
template <class V, class Repeat, class RepeatAll>
void for_each_tile(const average_segment& s, const V* sums, const Repeat& repeat,
                   const RepeatAll& repeat_all) noexcept {
    const shape::axis& a = s.p.axes[2];
    std::int64_t q = s.first_column;  // next position
    const std::int64_t end = s.first_column + s.columns;
    const auto up_to = [&](const V* values, std::int64_t to) {
        if (q >= to) return;
        repeat(values, q - s.first_column, to - q);
        q = to;
    };
    for (std::int64_t o = s.first_read; o < s.first_read + s.reads; ++o) {
        const V* const values = sums + (o - s.first_read) * s.inner;
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

/// Repeats the values of each window over its columns, into a line of results: several values a column.
inline void repeat_tiles(const average_segment& s, const float* sums, float* result) noexcept {
    const auto repeat = [&](const float* values, std::int64_t column, std::int64_t count) {
        float* const out = result + column * s.inner;
        for (std::int64_t i = 0; i < count; ++i) {
            if (values == nullptr) {
                own::fill_n(out + i * s.inner, s.inner, 0.0F);
            } else {
                own::copy_n(values, s.inner, out + i * s.inner);
            }
        }
    };
    for_each_tile(s, sums, repeat, [](const float*, std::int64_t, std::int64_t) { return false; });
}

/// The same for one value a column, of the line's own type; also straight to the output.
template <class T>
inline void repeat_values(const average_segment& s, const T* values, T* out) noexcept {
    const auto repeat = [&](const T* value, std::int64_t column, std::int64_t count) {
        own::fill_n(out + column, count, value == nullptr ? T{} : *value);
    };
    for_each_tile(s, values, repeat, [&](const T* first, std::int64_t windows, std::int64_t column) {
        const std::int64_t stride = s.p.axes[2].stride;
        const std::int64_t together = std::max<std::int64_t>(1, 256 / stride);
        for (std::int64_t w = 0; w < windows; w += together) {
            const std::int64_t count = std::min(together, windows - w);
            T* const to = out + column + w * stride;
            simd::prefetch_stream_to_write(to, count * stride);
            repeat_each(first + w, count, stride, to);
        }
        return true;
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
