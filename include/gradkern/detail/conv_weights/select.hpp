// Which path computes a weight gradient: the table of paths, fastest first.
#pragma once

#include <array>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/run/select.hpp>
#include <gradkern/options.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

using path = detail::path<problem, plan>;

template <auto make>
[[nodiscard]] constexpr plan make_path(const problem& p, algorithm) noexcept {
    return make(p);
}

inline constexpr std::array<path, 8> paths{{
    {algorithm::few_channels, fits_few_channels, is_few_channels_profitable, make_path<make_few_channels>},
    {algorithm::grouped, fits_grouped, always, make_path<make_grouped>},
    {algorithm::depthwise_sliding, fits_depthwise_sliding, is_across_groups_profitable,
     make_path<make_depthwise_sliding>},
    {algorithm::depthwise, fits_depthwise, is_across_groups_profitable, make_path<make_depthwise>},
    {algorithm::across_groups, fits_across_groups, is_across_groups_profitable, make_path<make_across_groups>},
    {algorithm::dense_bf16, fits_dense_bf16, always, make_path<make_dense_bf16>},
    {algorithm::dense, fits_dense, is_dense_profitable, make_path<make_dense>},
    {algorithm::dense_packed, always, always, make_path<make_dense_packed>},
}};

/// Whether 1x1 kernels take a tenth less time with the sides swapped: either may lie in the lanes. Where channels lie
/// apart, those in the lanes are transposed, which takes a number about as long as a multiply-add a vector; else empty
/// lanes decide.
[[nodiscard]] constexpr bool is_swapping_profitable(const problem& p) noexcept {
    if (!p.has_unit_axes() || p.groups != 1 || p.dot_bf16) return false;
    constexpr std::int64_t bound = std::int64_t{1} << 30;  // products stay below 2^62, those of empty tensors, too
    if (p.small_channels >= bound || p.large_channels >= bound) return false;
    const auto vectors = [](std::int64_t channels) { return panel_vectors(channels, panel_lanes(channels)); };
    const std::int64_t as_given =
        (p.small[1] == 1 ? 0 : p.small_channels) + vectors(p.small_channels) * p.large_channels;
    const std::int64_t swapped =
        (p.large[1] == 1 ? 0 : p.large_channels) + vectors(p.large_channels) * p.small_channels;
    return swapped < as_given - as_given / 10;
}

/// A plan, and the row of the table that made it; null where `options` name a path that does not fit.
struct choice {
    const path* row = nullptr;
    conv_weights::plan plan{};
};

/// Without results there is nothing to choose: any row, and no tasks.
[[nodiscard]] constexpr choice choose_for_nothing(algorithm wanted) noexcept {
    for (const path& row : paths)
        if (row.name == wanted || (wanted == algorithm::automatic && &row == &paths.back())) return {&row, {}};
    return {};
}

/// Chooses the path, and plans it. The least scratch is that of dense tasks, whatever `options.algorithm` names; bits
/// of relaxed results depend on the path, which stays.
[[nodiscard]] constexpr choice choose(const problem& given, const plan_options& options) noexcept {
    if (given.is_empty()) return choose_for_nothing(options.algorithm);
    const bool least = options.scratch == scratch_use::least && !given.dot_bf16;
    const problem p = !least && is_swapping_profitable(given) ? given.with_swapped_sides() : given;
    const path* const row = select_path(paths, p, least ? wanted_row(paths, options) : options.algorithm);
    if (row == nullptr) return {};
    if (!least) return {row, row->make(p, row->name)};
    return p.is_f32() ? choice{select_path(paths, p, algorithm::dense), make_least_dense(p)}
                      : choice{&paths.back(), make_least_dense_packed(p)};
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
