// depthwise: the lanes run across groups of few channels, mostly of one.
//
//   loops      tap_rows.hpp; tile of rows (plane tap, row tap, column tap, l)
//   lanes      channels s of the small side over all groups; a row is a vector: channel l of each lane's own group
//   packed     the large side, for each of the lanes. f32 groups of one channel, neighbours in both tensors, are read in
//              place
//   taken      where depthwise_sliding does not fit: groups whose small side fills half of a vector at most and whose
//              large side fills one at most, unless each number would be packed too often
//   gains      over dense 20 to 40 times, of one channel a group. Reading in place over packing, f32, one image, Sapphire
//              Rapids, AVX-512, g++ 12 -O2, both forced, in NXC: efficientnet_b3_dw144_k5_s2 0.175 -> 0.115 ms,
//              convnext_s_dw7_384 0.134 -> 0.119, 1.03 in the mean of 8 layers (0.75 to 1.52)
//   zoo        25 layers: depthwise 5x5 and larger, and long lines (quartznet_dw_k33)
//   delete     when depthwise_sliding takes windows of any size and groups of several channels
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/tap_rows.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Lanes of the panels of groups.
[[nodiscard]] constexpr std::int64_t group_panel_lanes(const problem& p) noexcept {
    return p.groups * p.small_channels <= p.real.lanes ? p.real.lanes : p.real.narrow_lanes();
}

[[nodiscard]] GRADKERN_COLD constexpr plan make_depthwise(const problem& p, algorithm name) noexcept {
    const bool in_place = p.is_depthwise() && p.is_wide() && p.has_neighbouring_channels();
    const std::int64_t width = group_panel_lanes(p);
    return plan_tap_rows(p, name, width, in_place, p.large_channels * width,
                         target.weight_gradients.sums_of_group_taps);
}

[[nodiscard]] GRADKERN_COLD constexpr bool fits_depthwise(const problem& p) noexcept {
    return p.groups > 1 && is_bounded(make_depthwise(p, algorithm::depthwise));
}

[[nodiscard]] GRADKERN_COLD constexpr bool is_depthwise_profitable(const problem& p) noexcept {
    const bool packed_too_often =
        p.large[1] == 1 ? p.small_channels > 4 : p.small_channels >= 8 && p.large_channels >= 8;
    return 2 * p.small_channels <= p.real.lanes && p.large_channels <= p.real.lanes && !packed_too_often;
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
