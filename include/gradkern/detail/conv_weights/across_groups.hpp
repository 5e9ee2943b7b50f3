// across_groups: the lanes run across groups of few channels; the large side is packed for each of them.
//
//   loops      tap_rows.hpp; tile of rows (plane tap, row tap, column tap, l)
//   lanes      channels s of the small side over all groups; a row is a vector: channel l of each lane's own group
//   taken      groups whose small side fills half of a vector at most and whose large side fills one at most, unless
//              each number would be packed too often
//   gains      over dense, whose lanes would be the channels of one group: not measured
//   zoo        none; its tiles are those of depthwise
//   delete     with depthwise
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/tap_rows.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Lanes of the panels of groups.
[[nodiscard]] constexpr std::int64_t group_panel_lanes(const problem& p) noexcept {
    return p.groups * p.small_channels <= simd::lanes ? simd::lanes : narrow_lanes;
}

[[nodiscard]] constexpr tap_rows_plan outline_across_groups(const problem& p) noexcept {
    const std::int64_t width = group_panel_lanes(p);
    return {p, algorithm::across_groups, width, source::packed, source::packed, p.large_channels * width};
}
[[nodiscard]] constexpr tap_rows_plan make_across_groups(const problem& p) noexcept {
    return outline_across_groups(p).with_tasks_of(target.weight_gradients.sums_of_group_taps);
}

[[nodiscard]] constexpr bool fits_across_groups(const problem& p) noexcept {
    return p.groups > 1 && outline_across_groups(p).is_bounded();
}

[[nodiscard]] constexpr bool is_across_groups_profitable(const problem& p) noexcept {
    const bool packed_too_often =
        p.large[1] == 1 ? p.small_channels > 4 : p.small_channels >= 8 && p.large_channels >= 8;
    return 2 * p.small_channels <= simd::lanes && p.large_channels <= simd::lanes && !packed_too_often;
}

template <class T>
void pack_across_groups(const tap_rows_plan& p, const T* large, const packed_box& box, std::int64_t first_lane,
                        std::int64_t lanes, float* to) noexcept {
    spread_across_groups(large, p.large, box, {first_lane, lanes, p.small_channels, p.large_channels, p.panel_width},
                         to);
}

inline void add_lines_across_groups(const tap_rows_plan& p, const plane_lines& l, float* sum) noexcept {
    constexpr int unit = 1;  // a row more is a vector more to read for nothing
    add_lines_by_rows(p, l,
                      {.most = narrow_rows,
                       .unit = unit,
                       .channels = p.large_channels,
                       .kernels = tiles_for<operand::vector, unit>(l.lanes),
                       .run = run_row_tile},
                      sum);
}

/// Of depthwise, too.
template <class T>
inline constexpr tap_rows_steps<T> across_groups_steps{pack_across_groups<T>, add_lines_across_groups,
                                                       add_lines_across_groups};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
