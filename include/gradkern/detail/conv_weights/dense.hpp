// The dense path of the reduction engine (conv_weights/plan.hpp): tasks of some panels of small-side channels times a range of
// large-side channels. Per chunk, where large-side lines are read in place or staged once for all taps:
//
//     tap of the outermost axis > channels staged at a time > column tap > tap of the middle axis > panel > tile
//
// and where the positions of each tap are staged, or pairs of bf16 are packed for each column tap (of 1x1 kernels those of the
// large side may be read in place):
//
//     column tap > tap of the outermost axis > channels staged at a time > tap of the middle axis > panel > tile
//
// A column tap stands for several neighbouring ones where channels are few; rows of a tile are (column tap, channel). One
// panel whose lanes fill half of a second vector has tiles of its own (micro/twin_tile.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/large_side.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/twin_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The tiles of a task, whatever the types of its tensors: compiled once.
struct dense_tiles {
    const reduce_plan& r;
    std::int64_t panels = 0;
    std::int64_t lanes = 0;  // of all of them
    const tile_function* (*tiles)(std::ptrdiff_t lanes_used) = nullptr;
    const float* small = nullptr;  // packed, or in place
    std::int64_t panel_step = 0;   // there, from panel to panel
    const stretch* list = nullptr;
    float* sum = nullptr;
    std::int64_t ahead = 0;

    /// What rows read: `source` belongs to the first channel and tap.
    struct row_source {
        const float* source;
        std::int64_t term;     // from term to term
        std::int64_t channel;  // from channel to channel
        std::int64_t tap;      // from column tap to column tap
    };

    /// Of twins, writes the first half of each second vector of a packed chunk to its second half.
    GRADKERN_NOINLINE void double_halves(float* packed) const noexcept {
        constexpr std::ptrdiff_t half = simd::lanes / 2;
        GRADKERN_NO_UNROLL
        for (std::int64_t x = tiles == twin_tiles ? r.positions : 0; x > 0; --x, packed += r.panel_width)
            own::copy_n(packed + 2 * half, half, packed + 3 * half);
    }

    /// Adds the positions in the list, `stretches` of them, to the sums of `taps` neighbouring column taps from number `tap` on,
    /// in `channels` channels from `first_channel` on.
    GRADKERN_NOINLINE void add(std::ptrdiff_t stretches, std::int64_t tap, std::int64_t taps,
                               std::int64_t first_channel, std::int64_t channels,
                               const row_source& from) const noexcept {
        const std::int64_t row_floats = r.taps() * r.panel_width;  // between the sums of neighbouring channels
        for (std::int64_t p = 0; p < panels; ++p) {
            const std::int64_t used = std::min(r.panel_width, lanes - p * r.panel_width);
            const tile_function* const kernels = tiles(used);
            const std::ptrdiff_t rows = has_twins && tiles == twin_tiles ? twin_rows : rows_at_most(used);
            float* const panel_sum = sum + (p * r.task_channels + first_channel) * row_floats + tap * r.panel_width;
            std::int64_t t = 0;  // rows of the tile: (tap, channel)
            std::int64_t channel = 0;
            constexpr std::ptrdiff_t unit = row_unit<operand::scalar>;
            split_rows(taps * channels, rows, unit, [&](std::ptrdiff_t count) {
                std::array<const float*, most_rows_of_any> a;
                std::array<float*, most_rows_of_any> to;
                for (std::ptrdiff_t row = 0; row < count; ++row) {
                    a[static_cast<std::size_t>(row)] = from.source + t * from.tap + channel * from.channel;
                    to[static_cast<std::size_t>(row)] = panel_sum + t * r.panel_width + channel * row_floats;
                    if (++channel < channels) continue;
                    channel = 0;
                    ++t;
                }
                kernels[count - 1]({.list = list,
                                    .count = stretches,
                                    .rows = count,
                                    .a = a.data(),
                                    .a_step = from.term,
                                    .b = small + p * panel_step,
                                    .b_step = r.small_step(),
                                    .c = to.data(),
                                    .mode = tile_mode::add,
                                    .a_ahead = ahead});
            });
        }
    }
};

/// One task of the dense path.
template <class T>
void reduce_dense(const reduce_plan& r, const T* large, const T* small, std::int64_t task, std::byte* slice) noexcept {
    auto* packed = reinterpret_cast<float*>(slice + r.at_small);
    auto* staging = reinterpret_cast<float*>(slice + r.at_large);
    auto* list = reinterpret_cast<stretch*>(slice + r.at_list);
    auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
    auto* total = reinterpret_cast<float*>(slice + r.at_total);
    const std::int64_t first_channel = task % r.channel_ranges() * r.task_channels;
    const std::int64_t first_panel = task / r.channel_ranges() % r.panel_groups() * r.task_panels;
    const std::int64_t group = task / (r.channel_ranges() * r.panel_groups());
    const std::int64_t channels = std::min(r.task_channels, r.large_channels - first_channel);
    const std::int64_t panels = std::min(r.task_panels, r.panels - first_panel);
    const bool none = r.chunks.count == 0;  // an empty batch has no memory: null takes no offset
    const T* large_base = none ? large : large + (group * r.large_channels + first_channel) * r.large[1];
    const T* small_base = none ? small : small + (group * r.small_channels + first_panel * r.panel_width) * r.small[1];
    dense_tiles tiles{.r = r,
                      .panels = panels,
                      .lanes = std::min(panels * r.panel_width, r.small_channels - first_panel * r.panel_width),
                      .tiles = tiles_for<operand::scalar>,
                      .small = packed,
                      .panel_step = r.positions * r.panel_width,
                      .list = list,
                      .sum = sum};
    if constexpr (has_pairs<T>) {
        if (r.pairs) tiles.tiles = tiles_for<operand::pair>;
    }
    if constexpr (has_twins) {
        if (are_twins(tiles.lanes) && channels > 6 && !r.pairs) tiles.tiles = twin_tiles;
    }
    if constexpr (std::is_same_v<T, float>) {
        if (r.small_in_place) {
            tiles.small = small_base;
            tiles.panel_step = r.panel_width;
        }
    }

    for (std::int64_t i = 0; i < r.chunks.count; ++i) {
        const chunk_grid::chunk c = r.chunks[i];
        if (!r.pairs && !r.small_in_place)
            pack_chunk(r.axes, small_base, r.small, c, tiles.lanes, r.panel_width, tiles.panel_step, packed);
        if constexpr (has_twins) tiles.double_halves(packed);
        // 1x1: from what a tile reads in place to what one reads for the next chunk, more than a CPU fetches by itself. Other
        // kernels read each position several times.
        tiles.ahead = 0;
        if (r.taps() == 1 && !r.staged && r.large[1] == 1 && i + 1 < r.chunks.count) {
            const line_position here(r.axes, c.first_line);
            const line_position next(r.axes, r.chunks[i + 1].first_line);
            tiles.ahead = (next.n - here.n) * r.large[0] + (next.d - here.d) * r.axes[0].stride_in(r.large[2]) +
                          (next.h - here.h) * r.axes[1].stride_in(r.large[3]);
        }
        std::array<std::int64_t, 3> tap{};
        const auto tap_index = [&] { return (tap[0] * r.axes[1].kernel + tap[1]) * r.axes[2].kernel + tap[2]; };
        // Channels read in place all at once, staged windows of them by blocks. Where no window fits, f32 is read in place
        // that would have been turned, unless it lies far apart; else the positions of each tap are staged, below.
        const std::int64_t window_block = !r.staged || r.pairs ? 0 : window_channels(r, c, channels);
        const bool in_place = std::is_same_v<T, float> && (!r.staged || (r.turned && !r.far && window_block == 0));
        const std::int64_t block = in_place ? channels : window_block;
        for (tap[0] = 0; tap[0] < r.axes[0].kernel && block > 0; ++tap[0]) {
            const line_window window = in_place ? line_window{} : window_of(r, c, tap[0]);
            for (std::int64_t c0 = 0; c0 < channels; c0 += block) {
                const std::int64_t cl = std::min(block, channels - c0);
                large_source<float> source;
                if (!in_place) {
                    source = stage_window(r, large_base + c0 * r.large[1], window, cl, staging);
                } else if constexpr (std::is_same_v<T, float>) {
                    source = {large_base, r.large};
                }
                std::int64_t taps = 1;
                for (tap[2] = 0; tap[2] < r.axes[2].kernel; tap[2] += taps) {
                    const tap_group columns =
                        tap_group_at(r.axes[2], tap[2], c.first_column, c.last_column, r.task_taps);
                    taps = columns.taps;
                    if (columns.first == columns.last) continue;
                    for (tap[1] = 0; tap[1] < r.axes[1].kernel; ++tap[1]) {
                        const std::ptrdiff_t stretches = fill_positions(r, source, c, tap, columns.first, columns.last,
                                                                        r.axes[2].stride_in(source.stride[4]), list);
                        if (stretches == 0) continue;
                        tiles.add(stretches, tap_index(), taps, c0, cl,
                                  {source.data, r.axes[2].stride_in(source.stride[4]), source.stride[1],
                                   r.axes[2].dilation_in(source.stride[4])});
                    }
                }
            }
        }
        std::int64_t taps = 1;  // of a row, neighbours that meet the same positions: they go together
        for (tap[2] = 0; tap[2] < r.axes[2].kernel && block == 0; tap[2] += taps) {
            const tap_group columns = tap_group_at(r.axes[2], tap[2], c.first_column, c.last_column, r.task_taps);
            taps = columns.taps;
            if (columns.first == columns.last) continue;
            if constexpr (has_pairs<T>) {
                for (std::int64_t p = 0; r.pairs && p < panels; ++p) {
                    const std::int64_t used = std::min(r.panel_width, tiles.lanes - p * r.panel_width);
                    pack_chunk_pairs(r.axes, small_base + p * r.panel_width * r.small[1], r.small, c, columns.first,
                                     columns.last, used, r.panel_width, packed + p * tiles.panel_step);
                }
            }
            for (tap[0] = 0; tap[0] < r.axes[0].kernel; ++tap[0]) {
                const line_window window = r.pairs ? window_of(r, c, tap[0]) : line_window{};
                const std::int64_t lines = c.last_line - c.first_line;
                const std::int64_t terms = r.terms(columns.last - columns.first);
                for (std::int64_t c0 = 0; c0 < channels; c0 += channel_block) {
                    const std::int64_t cl = std::min(channel_block, channels - c0);
                    const T* const from = large_base + c0 * r.large[1];
                    if constexpr (has_pairs<T>) {
                        if (r.pairs_in_place) {
                            large_source<float> source{reinterpret_cast<const float*>(from), r.large,
                                                       -columns.first / 2};
                            for (std::int64_t& step : source.stride) step /= 2;
                            source.stride[4] = 0;  // in the origin
                            const std::ptrdiff_t stretches =
                                fill_positions(r, source, c, tap, columns.first, columns.last, 1, list);
                            tiles.add(stretches, 0, 1, c0, cl, {source.data, 1, source.stride[1], 0});
                            continue;
                        }
                    }
                    const bool innermost = r.pairs && r.window_of_rows();
                    staged_rows rows(innermost, window.lines * terms, taps, cl);
                    const bool windowed =
                        r.pairs && window.lines <= lines * r.axes[1].kernel && rows.floats <= r.staged_floats;
                    if (!windowed) rows = staged_rows(innermost, lines * terms, taps, cl);
                    large_source<float> source;
                    if (windowed) source = stage_window_pairs(r, from, window, columns, cl, rows, staging);
                    for (tap[1] = 0; tap[1] < r.axes[1].kernel; ++tap[1]) {
                        const std::ptrdiff_t stretches =
                            windowed ? fill_positions(r, source, c, tap, columns.first, columns.last, rows.term, list)
                                     : stage_tap(r, from, c, tap, columns, cl, rows, list, staging);
                        if (stretches > 0)
                            tiles.add(stretches, tap_index(), taps, c0, cl,
                                      {staging, rows.term, rows.channel, rows.tap});
                    }
                }
            }
        }
        if (r.two_levels() && ((i + 1) % chunks_per_sum == 0 || i + 1 == r.chunks.count))
            fold(sum, total, r.sum_floats);
    }
}

/// Sends the sums [panel][l][tap][lane] of a dense task to the tensor.
template <class G>
void store_dense(const reduce_plan& r, const float* sum, std::int64_t task, G* diff_weights) noexcept {
    const std::int64_t first_channel = task % r.channel_ranges() * r.task_channels;
    const std::int64_t first_panel = task / r.channel_ranges() % r.panel_groups() * r.task_panels;
    const std::int64_t group = task / (r.channel_ranges() * r.panel_groups());
    const std::int64_t channels = std::min(r.task_channels, r.large_channels - first_channel);
    const std::int64_t panels = std::min(r.task_panels, r.panels - first_panel);
    const std::int64_t first_lane = first_panel * r.panel_width;
    const std::int64_t lanes = std::min(panels * r.panel_width, r.small_channels - first_lane);
    const std::int64_t kh = r.axes[1].kernel;
    const std::int64_t kw = r.axes[2].kernel;
    const std::int64_t row_floats = r.taps() * r.panel_width;
    G* const to = diff_weights + (group * r.small_channels + first_lane) * r.weights[0] + first_channel * r.weights[1];
    // Calls f(sums of a panel, its lanes, where the first of them goes).
    const auto for_each_panel = [&](const auto& f) {
        for (std::int64_t p = 0; p < panels; ++p)
            f(sum + p * r.task_channels * row_floats, std::min(r.panel_width, lanes - p * r.panel_width),
              to + p * r.panel_width * r.weights[0]);
    };
    const bool taps_contiguous =
        r.weights[4] == 1 && (kh == 1 || r.weights[3] == kw) && (r.axes[0].kernel == 1 || r.weights[2] == kw * kh);
    if (taps_contiguous && r.weights[0] != 1) {
        // OIX: one long row a lane; of a transposed convolution a row for each channel and lane
        const bool rows_join = r.weights[1] == r.taps();
        for_each_panel([&](const float* from, std::int64_t used, G* dw) {
            for (std::int64_t l = 0; l < (rows_join ? 1 : channels); ++l)
                unpack_lanes(from + l * row_floats, r.panel_width, used, (rows_join ? channels : 1) * r.taps(),
                             dw + l * r.weights[1], r.weights[0], 1, r.accumulate);
        });
        return;
    }
    // Where lanes are neighbours, the rows of a few channels are written over all panels at a time. No CPU fetches the
    // next ones by itself: they lie far behind.
    const std::int64_t some = r.weights[0] == 1 ? 4 : channels;
    std::int64_t tap = 0;
    for (std::int64_t d = 0; d < r.axes[0].kernel; ++d)
        for (std::int64_t h = 0; h < kh; ++h)
            for (std::int64_t x = 0; x < kw; ++x, ++tap)
                for (std::int64_t l = 0; l < channels; l += some)
                    for_each_panel([&](const float* from, std::int64_t used, G* dw) {
                        G* const row = dw + d * r.weights[2] + h * r.weights[3] + x * r.weights[4] + l * r.weights[1];
                        for (std::int64_t next = some; next < std::min(2 * some, channels - l); ++next)
                            for (std::int64_t j = 0; j < used; j += simd::line_elements<G>)
                                simd::prefetch_to_write(row, next * r.weights[1] + j * r.weights[0]);
                        unpack_lanes(from + l * row_floats + tap * r.panel_width, row_floats, used,
                                     std::min(some, channels - l), row, r.weights[0], r.weights[1], r.accumulate);
                    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
