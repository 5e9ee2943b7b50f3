// grouped: lanes across groups that broadcast within the group.
//
//   loops      tap_rows.hpp; tile of rows (plane tap, row tap, column tap), or of two vectors of one tap; then vector
//              of lanes; then some of the channels l of a group
//   lanes      channels s over all groups; a row is a vector of the large side, each of whose numbers the kernel
//              broadcasts to the lanes of its group
//   taken      groups of 4 and 4 channels, or 8 and 8, where a vector holds that many (micro/tile_sizes.hpp: has_outer)
//   gains      over across_groups, f32, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name:
//              resnext50_g32_128 NXC 1.83 -> 0.46 ms, NCX 0.81 -> 0.45; over dense 2.77 -> 0.47 and 1.43 -> 0.47
//   zoo        3 layers: resnext50_g32_128, resnext50_g32_256, resnext50_g32_256_s2
//   delete     when across_groups packs no number more than once
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/across_groups.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Whether tiles in place would miss L1 again and again: pixels a multiple of a power of two apart lie in few of its
/// sets, which do not hold those that the row taps of a line read, each several times.
[[nodiscard]] constexpr bool misses_l1_in_place(const problem& p) noexcept {
    if (outer_sums(p.large_channels) == 8) return false;  // reads a number too seldom
    const std::uint64_t step = static_cast<std::uint64_t>(p.large[4]) * sizeof(float);
    const auto apart = static_cast<std::int64_t>(std::min<std::uint64_t>(step & (~step + 1), 4096));
    const auto few = [](std::int64_t n) { return std::min(n, chunk_positions); };
    const std::int64_t reads = few(p.taps()) * (p.large_channels / outer_sums(p.large_channels));
    return few(p.axes[1].kernel) * few(p.axes[2].large) * apart > target.cache.l1 &&
           reads >= 4 * few(p.axes[1].stride) * few(p.axes[2].stride);
}

[[nodiscard]] constexpr tap_rows_plan outline_grouped(const problem& p) noexcept {
    const bool in_place = p.is_f32() && p.has_neighbouring_channels() && !misses_l1_in_place(p);
    const source from = in_place ? source::in_place : source::packed;
    const std::int64_t width = group_panel_lanes(p);
    return {p, algorithm::grouped, width, from, from, width};
}
[[nodiscard]] constexpr tap_rows_plan make_grouped(const problem& p) noexcept {
    return outline_grouped(p).with_tasks_of(target.weight_gradients.sums_of_shared_taps);
}

[[nodiscard]] constexpr bool fits_grouped(const problem& p) noexcept {
    return p.groups > 1 && p.small_channels == p.large_channels && has_outer(p.small_channels) &&
           outline_grouped(p).is_bounded();
}

/// Each lane has one number of its group: the kernel finds the others in the register.
template <class T>
void pack_grouped(const tap_rows_plan& p, const T* large, const packed_box& box, std::int64_t first_lane,
                  std::int64_t lanes, float* to) noexcept {
    spread_across_groups(large, p.large, box, {first_lane, lanes, 1, 1, p.panel_width}, to);
}

/// row_tiles::run where both rows are vectors side by side of one tap.
inline void run_adjoining_tile(const tap_rows_plan&, const row_tiles& tiles, tile_call& call, const float** a,
                               float** c, std::int64_t lanes) noexcept {
    a[1] = a[0] + simd::lanes;
    c[1] = c[0] + simd::lanes;
    call.rows = kernel_vectors(lanes, 2);
    tiles.kernels[0](call);
}

/// row_tiles::run where rows are taps: some channels of the group at a time, for each vector of lanes.
inline void run_group_tiles(const tap_rows_plan& p, const row_tiles& tiles, tile_call& call, const float** a, float** c,
                            std::int64_t lanes) noexcept {
    const std::ptrdiff_t sums = outer_sums(p.large_channels);
    for (std::ptrdiff_t j = 0; j < lanes; j += simd::lanes, call.b += simd::lanes) {
        for (std::ptrdiff_t k = 0; k < p.large_channels; k += sums) {
            tiles.kernels[call.rows - 1](call);
            const bool last = k + sums == p.large_channels;  // then rows go on by a vector
            for (std::ptrdiff_t row = 0; row < call.rows; ++row) {
                a[row] += last ? simd::lanes - k : sums;
                c[row] += last ? simd::lanes - k * p.panel_width : sums * p.panel_width;
            }
        }
    }
}

inline void add_lines_of_groups(const tap_rows_plan& p, const plane_lines& l, float* sum) noexcept {
    constexpr int widest = has_outer(8) ? 8 : 4;
    const bool adjoins = p.large_channels == 8 && outer_adjoins<8>;
    add_lines_by_rows(p, l,
                      {.most = adjoins ? 1 : outer_rows(p.large_channels),
                       .kernels = p.large_channels == 4 ? outer_tiles<4>.data() : outer_tiles<widest>.data(),
                       .run = adjoins ? run_adjoining_tile : run_group_tiles},
                      sum);
}

template <class T>
inline constexpr tap_rows_steps<T> grouped_steps{pack_grouped<T>, add_lines_of_groups, add_lines_of_groups};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
