// grouped: lanes across groups that broadcast within the group.
//
//   loops      tap_rows.hpp; tile of rows (plane tap, row tap, column tap), or of two vectors of one tap; then vector
//              of lanes; then some of the channels l of a group
//   lanes      channels s over all groups; a row is a vector of the large side, each of whose numbers the kernel
//              broadcasts to the lanes of its group
//   taken      groups of 4 and 4 channels, or 8 and 8, where a vector holds that many (micro/tile_sizes.hpp: has_outer)
//   gains      over depthwise, f32, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name:
//              resnext50_g32_128 NXC 1.83 -> 0.46 ms, NCX 0.81 -> 0.45; over dense 2.77 -> 0.47 and 1.43 -> 0.47
//   zoo        2 layers: resnext50_g32_128, resnext50_g32_256_s2. tap_lanes takes most of 8 and 8
//   delete     when depthwise packs no number more than once
#pragma once

#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/depthwise.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

[[nodiscard]] GRADKERN_COLD constexpr plan make_grouped(const problem& p, algorithm name) noexcept {
    // Not where each number is read for many tiles: pixels that lie far apart miss L1 again and again.
    const bool few_reads = p.taps() == 1 || outer_sums(p.large_channels) == 8;
    const bool in_place = p.is_wide() && p.has_neighbouring_channels() && few_reads;
    const std::int64_t width = group_panel_lanes(p);
    return plan_tap_rows(p, name, width, in_place, width, target.weight_gradients.sums_of_shared_taps);
}

[[nodiscard]] constexpr bool fits_grouped(const problem& p) noexcept {
    return !p.real.is_f64() && p.groups > 1 && p.small_channels == p.large_channels && has_outer(p.small_channels) &&
           is_bounded(make_grouped(p, algorithm::grouped));
}

/// Whether the two rows of a tile are vectors side by side of one tap. Else rows are taps.
[[nodiscard]] constexpr bool rows_adjoin(const tensors& p) noexcept {
    return p.large_channels == 8 && outer_adjoins<8>;
}

/// row_tiles::run: for each vector of lanes, some channels of the group at a time.
inline void run_group_tiles(const plan& p, const tile_function* kernels, tile_call& call, const float** a, float** c,
                            std::int64_t lanes) noexcept {
    if (rows_adjoin(p)) {
        a[1] = a[0] + simd::lanes;
        c[1] = c[0] + simd::lanes;
        call.rows = kernel_vectors(lanes, 2);
        return kernels[0](call);
    }
    const std::ptrdiff_t sums = outer_sums(p.large_channels);
    for (std::ptrdiff_t j = 0; j < lanes; j += simd::lanes, call.b += simd::lanes) {
        for (std::ptrdiff_t k = 0; k < p.large_channels; k += sums) {
            kernels[call.rows - 1](call);
            const bool last = k + sums == p.large_channels;  // then rows go on by a vector
            for (std::ptrdiff_t row = 0; row < call.rows; ++row) {
                a[row] += last ? simd::lanes - k : sums;
                c[row] += last ? simd::lanes - k * p.panel_width : sums * p.panel_width;
            }
        }
    }
}

inline void add_lines_of_groups(const plan& p, const plane_lines<float>& l, float* sum) noexcept {
    constexpr int widest = has_outer(8) ? 8 : 4;
    add_lines_by_rows<float>(p, l,
                             {.most = rows_adjoin(p) ? 1 : outer_rows(p.large_channels),
                              .kernels = p.large_channels == 4 ? outer_tiles<4>.data() : outer_tiles<widest>.data(),
                              .run = run_group_tiles},
                             sum);
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
