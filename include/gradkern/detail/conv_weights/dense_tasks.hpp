// What the paths whose tiles have channels for rows plan in the same way: dense, dense_packed, dense_bf16. Tasks are some panels
// of lanes of one group x a range of its large-side channels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/tasks.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

struct dense_tasks : task_plan {
    std::int64_t task_channels = 1;  // large-side channels of one task
    std::int64_t task_taps = 1;      // column taps that are rows of one tile beside those channels, at most

    constexpr dense_tasks() noexcept = default;
    /// Tasks that are fast.
    GRADKERN_NOINLINE constexpr explicit dense_tasks(const problem& p) noexcept
        : task_plan(p, p.small_channels, panel_lanes(p.small_channels)) {
        // 1x1: each number of the large side is used once for each panel, so that many are wanted, and larger sums,
        // which are read and written once a chunk, are better than sides that are packed more often. Not in NCX, where
        // nothing is transposed, on CPUs of 2 MB of L2: those were up to 7 % slower.
        const auto& block = target.weight_gradients;
        const bool wide = taps() == 1 && (large[1] == 1 || !target.cache.two_mb_l2);
        const std::int64_t sums = wide ? block.sums_of_1x1 : block.sums;
        const std::int64_t lanes = wide ? block.lanes_of_1x1 : taps() == 1 ? block.lanes_of_1x1 / 2 : block.lanes;
        const std::int64_t channel_sums = taps() * panel_width;
        task_panels = std::clamp<std::int64_t>(sums / channel_sums, 1,
                                               std::min(panels, std::max<std::int64_t>(lanes / panel_width, 1)));
        task_channels = std::clamp<std::int64_t>(sums / (task_panels * channel_sums),
                                                 std::min(large_channels, channel_block), large_channels);
        task_channels = shape::even_part(large_channels, task_channels);
        sum_floats = task_panels * task_channels * channel_sums;
        // Few channels leave a tile most of its rows: taps fill them.
        if (task_channels < 2 * tile_rows) task_taps = std::min(axes[2].kernel, channel_block / task_channels);
        // Where the small side is whole vectors, a few tiles read it as fast in place, and any number of them pixels
        // that are contiguous. 1x1: or lie close together, where L2 holds a chunk of both sides.
        const std::int64_t rest = small_channels % panel_width;
        const bool whole = rest == 0 || fills_tile(rest);
        const bool few_tiles = taps() * large_channels <= 4 * tile_rows;
        const bool close = target.cache.two_mb_l2 && taps() == 1 && small[4] < block.far_pixels;
        if (p.is_f32() && small[1] == 1 && whole && (few_tiles || close || small[4] == panel_width))
            small_source = source::in_place;
    }
    /// Tasks with the least scratch: one vector of lanes, and as many channels as fit the stack, with a buffer for
    /// their pixels where the large side is packed.
    GRADKERN_NOINLINE constexpr dense_tasks(const problem& p, source large_from) noexcept
        : task_plan(p, p.small_channels, simd::lanes) {
        slice_layout slice(true);
        static_cast<void>(slice.reserve<float>(chunk_pixels() * least_lanes));
        static_cast<void>(slice.reserve<k_segment>(chunk_lines()));
        const std::int64_t each = (has_two_levels() ? 2 : 1) * taps() * least_lanes +
                                  (large_from == source::packed ? row_pitch(chunk_pixels()) : 0);
        constexpr std::int64_t lines_of_arrays = 3 * cache_line;
        const std::int64_t room = call_scratch - slice.bytes() / least_times - lines_of_arrays;
        task_channels = shape::even_part(
            large_channels,
            std::clamp<std::int64_t>(room / each / static_cast<std::int64_t>(sizeof(float)), 1, large_channels));
        sum_floats = task_channels * taps() * panel_width;
    }

    /// Lays out a slice with `packed_floats` of the large side.
    GRADKERN_NOINLINE constexpr void lay_out(std::int64_t packed_floats,
                                             scratch_use scratch = scratch_use::fast) noexcept {
        const bool least = scratch == scratch_use::least;
        const std::int64_t width = least ? least_lanes : panel_width;
        slice_layout slice(least);
        at_small = slice.reserve<float>(small_source == source::in_place ? 0 : task_panels * chunk_pixels() * width);
        at_large = slice.reserve<float>(packed_floats);
        at_list = slice.reserve<k_segment>(chunk_lines());
        reserve_sums(slice, sum_floats / panel_width * width);
    }

    [[nodiscard]] constexpr std::int64_t channel_ranges() const noexcept {
        return shape::ceil_div(large_channels, task_channels);
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return groups * panel_groups() * channel_ranges(); }
    /// Makes smaller tasks for more workers than there are tasks. Not for one: tasks of fewer channels each pack the
    /// small side for themselves.
    constexpr void split_for(std::int64_t workers) noexcept {
        if (workers == 1 || tasks() == 0 || tasks() >= workers) return;
        const std::int64_t ranges = shape::ceil_div(workers, tasks() / channel_ranges());
        const std::int64_t least = std::min<std::int64_t>(task_channels, tile_rows);
        task_channels = std::max(shape::ceil_div(large_channels, ranges), least);
        sum_floats = task_panels * task_channels * taps() * panel_width;
    }

    /// From pixel to pixel of the small side, packed or in place.
    [[nodiscard]] constexpr std::int64_t small_step() const noexcept {
        return small_source == source::in_place ? small[4] : panel_width;
    }
    /// From the sums of a channel to those of the next.
    [[nodiscard]] constexpr std::int64_t channel_sums() const noexcept { return taps() * panel_width; }
};

/// Which part of the sums a task has.
struct dense_task {
    std::int64_t first_channel = 0;  // of the large side, in the group
    std::int64_t channels = 0;
    std::int64_t first_lane = 0;  // of the small side, in the group
    std::int64_t lanes = 0;
    std::int64_t panels = 0;
    std::int64_t group = 0;

    constexpr dense_task(const dense_tasks& p, std::int64_t number) noexcept {
        first_channel = number % p.channel_ranges() * p.task_channels;
        channels = std::min(p.task_channels, p.large_channels - first_channel);
        number /= p.channel_ranges();
        const std::int64_t first_panel = number % p.panel_groups() * p.task_panels;
        panels = std::min(p.task_panels, p.panels - first_panel);
        first_lane = first_panel * p.panel_width;
        lanes = std::min(panels * p.panel_width, p.small_channels - first_lane);
        group = number / p.panel_groups();
    }
    /// The first element of each side; an empty batch has no memory: null takes no offset.
    template <class T>
    [[nodiscard]] const T* large(const dense_tasks& p, const T* base) const noexcept {
        return p.chunks.count == 0 ? base : base + (group * p.large_channels + first_channel) * p.large[1];
    }
    template <class T>
    [[nodiscard]] const T* small(const dense_tasks& p, const T* base) const noexcept {
        return p.chunks.count == 0 ? base : base + (group * p.small_channels + first_lane) * p.small[1];
    }
};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
