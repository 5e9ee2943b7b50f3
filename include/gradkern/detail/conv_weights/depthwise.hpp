// depthwise: one channel a group. That of across_groups, but for f32 channels that are neighbours in both tensors:
// those are read in place.
//
//   loops      tap_rows.hpp; tile of rows (plane tap, row tap, column tap)
//   lanes      groups; a row is a vector of the large side
//   taken      where depthwise_sliding does not fit
//   gains      over across_groups, f32, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name, in NXC,
//              which is read in place: efficientnet_b3_dw144_k5_s2 0.175 -> 0.115 ms, convnext_s_dw7_384 0.134 ->
//              0.119, 1.03 in the mean of 8 layers (0.75 to 1.52). Over dense 20 to 40 times
//   zoo        25 layers: depthwise 5x5 and larger, and long lines (quartznet_dw_k33)
//   delete     when depthwise_sliding takes windows of any size
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/across_groups.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

[[nodiscard]] constexpr tap_rows_plan outline_depthwise(const problem& p) noexcept {
    const source from = p.is_f32() && p.has_neighbouring_channels() ? source::in_place : source::packed;
    const std::int64_t width = group_panel_lanes(p);
    return {p, algorithm::depthwise, width, from, from, width};
}
[[nodiscard]] constexpr tap_rows_plan make_depthwise(const problem& p) noexcept {
    return outline_depthwise(p).with_tasks_of(target.weight_gradients.sums_of_group_taps);
}

[[nodiscard]] constexpr bool fits_depthwise(const problem& p) noexcept {
    return p.is_depthwise() && outline_depthwise(p).is_bounded();
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
