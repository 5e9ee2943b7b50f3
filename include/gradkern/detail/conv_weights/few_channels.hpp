// few_channels: the lanes share the few input channels of one group.
//
//   loops      tap_rows.hpp; tile of rows (plane tap, row tap, column tap, l)
//   lanes      channels s of the small side; each row is one number of the large side, broadcast to all lanes
//   taken      unless tap_lanes costs less, one group of up to 4 large-side channels, up to 128 taps on several lines, and padding: at
//              borders each tap of a row meets pixels of its own, so that a dense tile has one row for each channel. Of lines that chunks cut,
//              whose inner chunks have no borders, up to 2 channels (0.4 to 0.9 of the time of dense; 3 channels: 0.96 to 1.2)
//   gains      over dense, f32, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name: cifar_stem NCX
//              0.013 -> 0.005 ms, lenet_c1 0.021 -> 0.010, fsrcnn_9x9_like 0.260 -> 0.151, 1.25 in the mean of 10
//              layers. slow_stem loses: 3.23 -> 3.81
//   zoo        10 layers: stems of images, lenet_c1, vae_latent_in, and deconvolutions to 1 or 3 channels
//   delete     when dense tiles take the taps of several lines for rows
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/cost.hpp>
#include <gradkern/detail/conv_weights/dense.hpp>
#include <gradkern/detail/conv_weights/tap_rows.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

[[nodiscard]] GRADKERN_COLD constexpr plan make_few_channels(const problem& p, algorithm name) noexcept {
    return plan_tap_rows(p, name, panel_lanes(p.small_channels, false, p.real.lanes), p.is_wide(), p.large_channels,
                         target.weight_gradients.sums_of_taps);
}

[[nodiscard]] GRADKERN_COLD constexpr bool fits_few_channels(const problem& p) noexcept {
    return p.groups == 1 && is_bounded(make_few_channels(p, algorithm::few_channels));
}

/// Not without borders, nor of very many taps, whose sums are read and written for each line, nor where packing puts
/// channels together.
[[nodiscard]] GRADKERN_COLD constexpr bool is_few_channels_profitable(const problem& p) noexcept {
    const bool row_taps = p.axes[0].kernel * p.axes[1].kernel > 1 && p.taps() <= 128;
    const bool rows_stay = p.is_wide() || p.large[1] == 1 || p.large_channels == 1;
    const std::int64_t most_channels = has_borders(p) ? 4 : 2;
    return !p.dot_bf16 && p.large_channels <= most_channels && row_taps && has_padding(p) && rows_stay;
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
