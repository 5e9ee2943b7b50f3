// Which positions of the other side outputs read along one axis: every formula of the extent of windows, once.
//
// Outputs on the small side read what their windows cover, [p(begin, 0), p(end - 1, K - 1)]; outputs on the large side read the
// windows that reach them. Ranges are half-open.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Neighbouring positions of one axis: [first, last).
using position_range = shape::axis::position_range;

/// Positions of the side that is read.
[[nodiscard]] constexpr std::int64_t read_extent(const shape::axis& a, shape::side outputs) noexcept {
    return outputs == shape::side::small ? a.large : a.small;
}

/// Positions from the first to the last that outputs [begin, end) may read; some may lie outside.
[[nodiscard]] constexpr position_range read_span(const shape::axis& a, shape::side outputs, std::int64_t begin,
                                                 std::int64_t end) noexcept {
    if (outputs == shape::side::small) return {a.position(begin, 0), a.window_end(end - 1)};
    return {shape::ceil_div(begin + a.pad_begin - a.reach(), a.stride),
            shape::floor_div(end - 1 + a.pad_begin, a.stride) + 1};
}
/// Those of a range that are inside, of `extent` in all.
[[nodiscard]] constexpr position_range clipped(position_range r, std::int64_t extent) noexcept {
    const std::int64_t first = std::clamp<std::int64_t>(r.first, 0, extent);
    return {first, std::clamp<std::int64_t>(r.last, first, extent)};
}
/// Positions from the first to the last inside ones that outputs [begin, end) may read.
[[nodiscard]] constexpr position_range read_span_inside(const shape::axis& a, shape::side outputs, std::int64_t begin,
                                                        std::int64_t end) noexcept {
    return clipped(read_span(a, outputs, begin, end), read_extent(a, outputs));
}

/// The longest read_span of `extent` neighbouring outputs, wherever they are; INT64_MAX where it does not fit.
[[nodiscard]] constexpr std::int64_t span_at_most(const shape::axis& a, shape::side outputs,
                                                  std::int64_t extent) noexcept {
    if (outputs == shape::side::small) {  // `extent` may exceed the axis
        const shape::checked span = shape::checked(extent - 1) * a.stride + a.reach() + 1;
        return span.ok() ? span.value() : INT64_MAX;
    }
    const std::uint64_t span = static_cast<std::uint64_t>(extent - 1) + static_cast<std::uint64_t>(a.reach());
    const std::uint64_t steps = span / static_cast<std::uint64_t>(a.stride);
    return steps < INT64_MAX ? static_cast<std::int64_t>(steps) + 1 : INT64_MAX;
}
/// The longest read_span_inside of them.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::int64_t reads_at_most(const shape::axis& a, shape::side outputs,
                                                                     std::int64_t extent) noexcept {
    return std::min(read_extent(a, outputs), span_at_most(a, outputs, extent));
}

/// The most neighbouring outputs, of `limit` at most, that read `span` positions or fewer wherever they are.
[[nodiscard]] constexpr std::int64_t longest_extent(const shape::axis& a, shape::side outputs, std::int64_t span,
                                                    std::int64_t limit) noexcept {
    if (read_extent(a, outputs) <= span) return limit;
    if (span <= 0) return 0;
    if (outputs == shape::side::small)
        return a.reach() >= span ? 0 : std::min(limit, (span - 1 - a.reach()) / a.stride + 1);
    const std::int64_t most = a.stride > INT64_MAX / span ? INT64_MAX : span * a.stride;
    return std::clamp<std::int64_t>(most - a.reach(), 0, limit);
}

/// The outputs of [begin, end) in the stride phase of `begin` as one class with all taps of the kernel, some of which read outside.
/// Data gradients have a stride of 1, or no dilation.
[[nodiscard]] constexpr shape::tap_class whole_windows(const shape::axis& a, shape::side outputs, std::int64_t begin,
                                                       std::int64_t end) noexcept {
    if (outputs == shape::side::small)
        return {.first_position = begin,
                .positions = end - begin,
                .taps = a.kernel,
                .first_read = a.position(begin, 0),
                .read_per_position = a.stride,
                .read_per_tap = a.dilation};
    const std::int64_t first = a.stride == 1 ? 0 : (begin + a.pad_begin) % a.stride;  // tap of the phase
    const std::int64_t taps = first < a.kernel ? (a.kernel - 1 - first) / a.stride + 1 : 0;
    const std::int64_t last = first + (taps - 1) * a.stride;
    return {.first_position = begin,
            .position_step = a.stride,
            .positions = shape::ceil_div(end - begin, a.stride),
            .first_tap = last,
            .tap_step = -a.stride,
            .taps = taps,
            .first_read = (begin + a.pad_begin - last * a.dilation) / a.stride,
            .read_per_position = 1,
            .read_per_tap = a.dilation};
}

/// Which of the positions first, first + 1 ... are inside, of `extent` in all: a bit each, `count` of at most 32.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::uint32_t inside_bits(std::int64_t first, std::int64_t count,
                                                                    std::int64_t extent) noexcept {
    const auto low_bits = [&](std::int64_t n) {
        return static_cast<std::uint32_t>((std::uint64_t{1} << std::clamp<std::int64_t>(n, 0, count)) - 1);
    };
    return low_bits(extent - first) & ~low_bits(-first);
}

/// The hull of the large positions [first, last) and of all that the windows reaching them read.
[[nodiscard]] constexpr position_range hull_of(const shape::axis& a, std::int64_t first, std::int64_t last) noexcept {
    const position_range windows = read_span_inside(a, shape::side::large, first, last);
    if (windows.first == windows.last) return {first, last};
    return {std::clamp<std::int64_t>(a.position(windows.first, 0), 0, first),
            std::clamp<std::int64_t>(a.window_end(windows.last - 1), last, a.large)};
}
/// Its length at most, for `extent` neighbouring positions anywhere.
[[nodiscard]] constexpr std::int64_t hull_at_most(const shape::axis& a, std::int64_t extent) noexcept {
    return a.reach() >= a.large ? a.large : std::min(a.large, extent + 2 * a.reach());
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
