// How lines of results of the average engine get into the output: written or added, rounded once, and transposed where
// channels lie on the lines but not in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_stores.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/half.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Stores one lane's lines; T is the element type of the output. Lines begin at the segment's first column.
template <class T>
class average_output {
public:
    average_output(const average_segment& s, std::byte* slice) noexcept
        : p_(s.p), s_(s), wide_(array_at<float>(slice, s.p.at_wide)) {}

    /// Stores a line of results of all columns of the segment.
    void store_line(const float* line, T* out) const noexcept {
        const std::int64_t columns = s_.columns;
        const std::int64_t inner = s_.inner;
        if (inner == 1 && p_.out[4] != 1) {
            for (std::int64_t x = 0; x < columns; ++x) store_result(out + x * p_.out[4], line[x], p_.accumulate);
            return;
        }
        if (inner > 1 && p_.out_inner != 1) {
            if constexpr (!std::is_same_v<T, float>) {
                if (p_.transposes) {
                    unpack_lanes(line, inner, inner, columns, wide_, columns, 1, false);
                    for (std::int64_t j = 0; j < inner; ++j) put(wide_ + j * columns, columns, out + j * p_.out_inner);
                    return;
                }
            }
            unpack_lanes(line, inner, inner, columns, out, p_.out_inner, p_.out[4], p_.accumulate);
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
        const line_places places{count, count > 1 ? step : 0, lines, lines > 1 ? p_.out[3] : 0};
        const std::int64_t next = windows > 1 ? count * step : 0;
        out += column * step;
        if (!p_.accumulate) return repeat_lines(channels, s_.inner, windows, places, out, next);
        for (std::int64_t w = 0; w < windows; ++w)
            places.for_each([&](std::ptrdiff_t place) {
                accumulate_line(channels + w * s_.inner, s_.inner, out + w * next + place);
            });
    }

private:
    void put(const float* line, std::int64_t n, T* out) const noexcept {
        if (p_.accumulate) {
            accumulate_line(line, n, out);
        } else {
            write_line(line, n, out);
        }
    }

    const average_plan& p_;
    const average_segment& s_;
    float* wide_;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
