// What output positions of the average engine read along one axis: forward the taps of a window, backward the windows that
// reach a position, in ascending order of what is read. That is also the order of their sum.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// The entries an output position of one axis reads on the other side: first, first + step, ...
struct axis_reads {
    std::int64_t first = 0;
    std::int64_t count = 0;
    [[nodiscard]] friend constexpr bool operator==(const axis_reads&, const axis_reads&) noexcept = default;
};

/// What position number i of a class reads.
[[nodiscard]] constexpr axis_reads reads_of_class(const shape::tap_class& c, std::int64_t i) noexcept {
    if (c.taps == 0) return {0, 0};
    return {c.first_read + i * c.read_per_position, c.taps};
}
/// What one position reads.
[[nodiscard]] inline axis_reads reads_at(const shape::axis& a, shape::side outputs, std::int64_t position) noexcept {
    shape::tap_class_walk walk(a, outputs, position, position + 1);
    shape::tap_class c;
    return walk.next(c) ? reads_of_class(c, 0) : axis_reads{};
}
/// Lists what each of the positions [first, last) reads.
inline void list_reads(const shape::axis& a, shape::side outputs, std::int64_t first, std::int64_t last,
                       axis_reads* list) noexcept {
    shape::tap_class_walk walk(a, outputs, first, last);
    for (shape::tap_class c; walk.next(c);)
        for (std::int64_t i = 0; i < c.positions; ++i)
            list[c.first_position - first + i * c.position_step] = reads_of_class(c, i);
}

/// Whether windows of an axis overlap; forward, those that do not read the input in order.
[[nodiscard]] constexpr bool windows_overlap(const shape::axis& a) noexcept { return a.stride < a.kernel; }

/// Output columns begin, begin + position_step, ... (relative to the segment) that read `count` columns each: first the
/// column `first` (relative to the scratch line), then shifted by the same amount from one position to the next.
struct column_run {
    std::int64_t begin;
    std::int64_t positions;
    std::int64_t first;
    std::int64_t count;
};

/// A run of columns that may read more than pool_part columns each: their sums are cut into parts.
struct long_run {
    column_run run;
    /// Reads of the first part before the first one inside. Parts are cut where reads behind the border count, too, so that
    /// all columns of a segment may be summed as one where they read zeros there.
    std::int64_t skipped;

    [[nodiscard]] constexpr std::int64_t parts() const noexcept {
        return shape::ceil_div(skipped + run.count, pool_part);
    }
    /// Part number i of what every column of the run reads.
    [[nodiscard]] constexpr column_run part(std::int64_t i, std::int64_t column_step) const noexcept {
        const std::int64_t first = std::clamp<std::int64_t>(i * pool_part - skipped, 0, run.count);
        const std::int64_t last = std::clamp<std::int64_t>((i + 1) * pool_part - skipped, first, run.count);
        column_run r = run;
        r.count = last - first;
        r.first = r.count == 0 ? 0 : run.first + first * column_step;
        return r;
    }
};

/// How many reads of the first part of a class lie behind the border, before its first one.
[[nodiscard]] constexpr std::int64_t reads_skipped(const shape::axis& a, shape::side outputs,
                                                   const shape::tap_class& c) noexcept {
    if (c.taps == 0) return 0;
    const std::int64_t first = read_span(a, outputs, c.first_position, c.first_position + 1).first;
    return (c.first_read - first) / a.read_step(outputs) % pool_part;
}

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
