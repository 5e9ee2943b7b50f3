// Which path computes a weight gradient: the table of paths, fastest first.
#pragma once

#include <array>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/run.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

using path = detail::path<problem, plan>;

inline constexpr std::array<path, 8> paths{{
    {algorithm::tap_lanes, fits_tap_lanes, is_tap_lanes_profitable, make_tap_lanes},
    {algorithm::few_channels, fits_few_channels, is_few_channels_profitable, make_few_channels},
    {algorithm::grouped, fits_grouped, always, make_grouped},
    {algorithm::depthwise_sliding, fits_depthwise_sliding, is_depthwise_profitable, make_depthwise_sliding},
    {algorithm::depthwise, fits_depthwise, is_depthwise_profitable, make_depthwise},
    {algorithm::dense_bf16, fits_dense_bf16, always, make_dense_bf16},
    {algorithm::dense, fits_dense, is_dense_profitable, make_dense},
    {algorithm::dense_packed, always, always, make_dense},
}};

/// Whether 1x1 kernels take a tenth less time with the sides swapped: either may lie in the lanes. Where channels lie
/// apart, those in the lanes are transposed, which makes the side of fewer channels the better one; else empty lanes
/// decide. With AVX2, beyond L2, more channels in the lanes take less time, of copied pixels (0.75 to 0.97; 11 layers, Zen 3) and of those
/// in place (0.8 to 1.05; 12 layers, Emerald Rapids).
[[nodiscard]] GRADKERN_COLD constexpr bool is_swapping_profitable(const problem& p) noexcept {
    if (!p.has_unit_axes() || p.groups != 1 || p.dot_bf16) return false;
    // vectors of products, and numbers to transpose: some times the channels of the largest tensor pass 63 bits
    const auto work = [&](std::int64_t channels, std::int64_t channel_step, std::int64_t others) {
        const std::int64_t each = channel_step == 1 ? 0 : target.cost.transposed_value;
        const std::int64_t vectors =
            panel_vectors(channels, panel_lanes(channels, false, p.real.lanes), p.real.lanes) * others;
        return static_cast<std::uint64_t>(each) * static_cast<std::uint64_t>(channels) +
               static_cast<std::uint64_t>(vectors);
    };
    const std::uint64_t as_given = work(p.small_channels, p.small[1], p.large_channels);
    const std::uint64_t swapped = work(p.large_channels, p.large[1], p.small_channels);
    if (p.copies_pixels() && p.large_channels > p.small_channels) return swapped <= as_given;
    return swapped < as_given - as_given / 10;
}

/// A plan, and the row of the table that made it; null where `options` name a path that does not fit.
struct choice {
    const path* row = nullptr;
    conv_weights::plan plan{};
};

/// Chooses the path, and plans it. Without results there is nothing to choose: any row, and no tasks. The least scratch
/// is that of dense tasks, whatever `options.algorithm` names; bits of relaxed results depend on the path, which stays.
[[nodiscard]] GRADKERN_COLD constexpr choice choose(const problem& given, const plan_options& options) noexcept {
    if (given.is_empty()) {
        plan nothing;
        for (const path& row : paths) {
            nothing.path = row.name;
            if (row.name == options.algorithm || (options.algorithm == algorithm::automatic && &row == &paths.back()))
                return {&row, nothing};
        }
        return {};
    }
    const bool least = options.scratch == scratch_use::least && !given.dot_bf16;
    algorithm wanted = least ? wanted_row(paths, options) : options.algorithm;
    const auto takes_tap_lanes = [&] { return fits_tap_lanes(given) && is_tap_lanes_profitable(given); };
    const bool swaps_windows = !least && is_swapping_windows_profitable(given) &&
                               (wanted == algorithm::dense || (wanted == algorithm::automatic && !takes_tap_lanes()));
    if (swaps_windows) wanted = algorithm::dense;
    const problem p = swaps_windows || (!least && is_swapping_profitable(given)) ? given.with_swapped_sides() : given;
    if (least && wanted == algorithm::automatic) wanted = p.is_wide() ? algorithm::dense : algorithm::dense_packed;
    const path* const row = select_path(paths, p, wanted);
    if (row == nullptr) return {};
    return {row, least ? make_least_dense(p, row->name) : row->make(p, row->name)};
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
