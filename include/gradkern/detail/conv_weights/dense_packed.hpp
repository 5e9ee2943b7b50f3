// dense_packed: the same as dense from a packing buffer, which holds windows of lines once for all taps.
//
//   loops      task > chunk > plane tap > channels l packed at a time > column taps > row tap > panel > tile > pixel.
//              Where no window fits: task > chunk > column taps > plane tap > channels l > row tap, whose pixels are
//              packed > panel > tile > pixel
//   lanes      channels s of one group
//   taken      16 bits, which packing widens; f32 in NXC whose pixels lie far apart, or whose numbers meet so many
//              lanes and taps that rows of pixels, transposed, gain more than they cost
//   gains      over dense, f32 in NXC, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name: 1.08 in
//              the mean of 14 layers (1.01 to 1.16)
//   zoo        141 layers in f32 (NXC), about 200 in 16 bits
//   delete     never: 16 bits need it
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense_tiles.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// What lies innermost in the packing buffer: channels, or pixels (pairs of them in dense_bf16).
enum class window_order : std::uint8_t { channels, pixels };

[[nodiscard]] constexpr std::int64_t window_floats(window_order order, std::int64_t pixels,
                                                   std::int64_t channels) noexcept {
    return channels * (order == window_order::pixels ? row_pitch(pixels) : pixels);
}

/// Floats of the buffer: the pixels of one tap at least. A window for all taps has no more than the tensor, and no more
/// than are read.
[[nodiscard]] GRADKERN_NOINLINE constexpr std::int64_t window_buffer_floats(const dense_tasks& p,
                                                                            window_order order) noexcept {
    constexpr std::int64_t most = target.weight_gradients.packed_window;
    std::int64_t tensor = 1;
    for (const std::int64_t extent : {p.batch, p.axes[0].large, p.axes[1].large, p.axes[2].large})
        tensor = std::min(most, tensor * std::min(most, extent));
    const std::int64_t read = p.chunk_pixels() * std::min(most, p.axes[1].kernel * p.axes[2].kernel);
    const std::int64_t window = window_floats(order, std::min(tensor, read), std::min(channel_block, p.large_channels));
    const std::int64_t rows = std::min(channel_block, p.large_channels * p.task_taps);
    return std::max(std::min(most, window), window_floats(order, p.chunk_pixels(), rows));
}

/// Neighbouring lines of the large side, numbered over (batch, depth, height), and the columns wanted of each.
struct line_window {
    std::int64_t first_line = 0;
    std::int64_t lines = 0;
    std::int64_t first_column = 0;
    std::int64_t columns = 0;
    [[nodiscard]] std::int64_t pixels() const noexcept { return lines * columns; }
};

/// All that a chunk meets with tap `tap` of the outermost axis and any of the others.
[[nodiscard]] inline line_window window_of(const tensors& p, const chunk_grid::chunk& c, std::int64_t tap) noexcept {
    line_window w;
    line_position at(p.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes)) {
        const std::int64_t d = p.axes[0].position(at.d, tap);
        const position_range rows = read_span_inside(p.axes[1], shape::side::small, at.h, at.h + 1);
        if (d < 0 || d >= p.axes[0].large || rows.first == rows.last) continue;
        const std::int64_t plane = (at.n * p.axes[0].large + d) * p.axes[1].large;
        if (w.lines == 0) w.first_line = plane + rows.first;
        w.lines = plane + rows.last - w.first_line;
    }
    const position_range columns = read_span_inside(p.axes[2], shape::side::small, c.first_column, c.last_column);
    w.first_column = columns.first;
    w.columns = columns.last - columns.first;
    return w;
}

/// What is done for a chunk whose window is too large for the buffer.
enum class without_window : std::uint8_t { pack_each_tap, read_in_place };

struct dense_packed_plan : dense_tasks {
    window_order order = window_order::channels;
    without_window fallback = without_window::pack_each_tap;
    std::int64_t packed_floats = 0;

    using dense_tasks::dense_tasks;
};

/// Whether pixels of many channels at a time go to one place first.
[[nodiscard]] constexpr bool has_far_pixels(const problem& p) noexcept {
    return p.large[1] == 1 && p.axes[2].stride_in(p.large[4]) >= target.weight_gradients.far_pixels;
}

/// Rows of pixels take fewer lines of the cache than pixels of many channels, of which each tile reads a few. To
/// transpose a number takes as long as multiplying it with some vectors: it has to meet more of them. Not where dense
/// needs no workspace.
[[nodiscard]] GRADKERN_NOINLINE constexpr bool is_transposing_profitable(const problem& p) noexcept {
    constexpr std::int64_t many = simd::lanes < 16 ? 32 : 16;
    if (p.large[1] != 1 || p.large[4] == 1 || p.axes[2].stride != 1 || p.large_channels < many) return false;
    dense_tasks tasks(p);
    if (p.taps() * std::min(tasks.task_panels * tasks.panel_width, p.small_channels) < 128) return false;
    tasks.lay_out(0);
    const auto list = static_cast<std::int64_t>(sizeof(k_segment)) * (tasks.chunk_lines() + 2);
    return !p.is_f32() || has_far_pixels(p) || tasks.at_large + list + tasks.sum_bytes() > stack_slice;
}

[[nodiscard]] constexpr dense_packed_plan make_dense_packed(const problem& p) noexcept {
    dense_packed_plan plan(p);
    const bool transposes = is_transposing_profitable(p);
    if (transposes || p.large[4] == 1) plan.order = window_order::pixels;
    if (transposes && p.is_f32() && !has_far_pixels(p)) plan.fallback = without_window::read_in_place;
    plan.packed_floats = window_buffer_floats(plan, plan.order);
    plan.lay_out(plan.packed_floats);
    return plan;
}
[[nodiscard]] constexpr dense_packed_plan make_least_dense_packed(const problem& p) noexcept {
    dense_packed_plan plan(p, source::packed);
    if (p.large[4] == 1) plan.order = window_order::pixels;
    plan.packed_floats = window_floats(plan.order, plan.chunk_pixels(), std::min(channel_block, plan.task_channels));
    plan.lay_out(plan.packed_floats, scratch_use::least);
    return plan;
}

/// How many channels of the windows of a chunk are packed at a time; 0 where that is more work than to pack the pixels
/// of each tap, or more than the buffer holds.
[[nodiscard]] inline std::int64_t window_channels(const dense_packed_plan& p, const chunk_grid::chunk& c,
                                                  std::int64_t channels) noexcept {
    // Tiles read many channels with a stride between pixels more slowly than the same moved together.
    const std::int64_t stride = p.axes[2].stride;
    if (p.order == window_order::channels && stride > 1 && channels > channel_block / stride) return 0;
    std::int64_t pixels = 0;
    for (std::int64_t tap = 0; tap < p.axes[0].kernel; ++tap) pixels = std::max(pixels, window_of(p, c, tap).pixels());
    if (pixels > c.positions() * p.axes[1].kernel * p.axes[2].kernel) return 0;
    for (std::int64_t blocks = shape::ceil_div(channels, channel_block);; ++blocks) {
        const std::int64_t block = shape::ceil_div(channels, blocks);
        if (window_floats(p.order, pixels, block) <= p.packed_floats) return block;
        if (block <= tile_rows) return 0;
    }
}

/// Packs `channels` channels of a window: rows of pixels as they lie in memory, or transposed to such rows, or pixels
/// of channels.
template <class T>
[[nodiscard]] large_view pack_window(const dense_packed_plan& p, const T* large, const line_window& w,
                                     std::int64_t channels, float* packed) noexcept {
    const bool rows = p.order == window_order::pixels;
    const std::int64_t pitch = row_pitch(w.pixels());
    const std::int64_t column = rows ? 1 : channels;
    const std::int64_t line = w.columns * column;
    const std::int64_t plane = p.axes[1].large * line;
    const large_view view{packed,
                          {p.axes[0].large * plane, rows ? pitch : 1, plane, line, column},
                          w.first_line * line + w.first_column * column};
    if (w.pixels() == 0) return view;
    pixel_walk walk(p.batch, {p.axes[0].large, p.axes[1].large, w.columns}, p.large, w.first_line * w.columns);
    const T* const first = large + w.first_column * p.large[4];
    if (rows && p.large[4] == 1) {
        pack_pixels(first, walk, w.pixels(), p.large[1], channels, false, packed, pitch);
        return view;
    }
    for (std::int64_t left = w.pixels(); left > 0;) {
        const pixel_run run = walk.next(left);
        const T* const from = first + run.offset;
        if (rows) {
            pack_lanes(from, walk.step(), run.count, p.large[1], channels, packed, pitch);
        } else {
            pack_lanes(from, p.large[1], channels, walk.step(), run.count, packed, channels);
        }
        packed += run.count * column;
        left -= run.count;
    }
    return view;
}

/// Adds a chunk whose pixels are packed anew for each tap.
template <class T>
void add_packed_taps(const dense_packed_plan& p, const dense_tiles& tiles, const chunk_grid::chunk& c, const T* large,
                     float* packed) noexcept {
    const std::int64_t step = p.axes[2].stride_in(p.large[4]);
    const std::int64_t tap_step = p.axes[2].dilation_in(p.large[4]);
    std::array<std::int64_t, 3> tap{};
    for (std::int64_t taps = 0; tap[2] < p.axes[2].kernel; tap[2] += taps) {
        const tap_group columns = tap_group_at(p.axes[2], tap[2], c, p.task_taps);
        taps = columns.taps;
        if (columns.columns() == 0) continue;
        const line_terms terms{columns.columns(), c.columns() * p.panel_width,
                               (columns.first - c.first_column) * p.panel_width};
        for (tap[0] = 0; tap[0] < p.axes[0].kernel; ++tap[0]) {
            for (std::int64_t first = 0; first < tiles.task.channels; first += channel_block) {
                const std::int64_t channels = std::min(channel_block, tiles.task.channels - first);
                const std::int64_t pixel_floats = taps * channels;
                const auto pack = [&](std::int64_t offset, std::int64_t pixels, std::int64_t at) {
                    const T* from = large + first * p.large[1] + offset;
                    for (std::int64_t t = 0; t < taps; ++t, from += tap_step, at += channels)
                        pack_lanes(from, p.large[1], channels, step, pixels, packed + at, pixel_floats);
                };
                for (tap[1] = 0; tap[1] < p.axes[1].kernel; ++tap[1]) {
                    // packed with a stride, each segment stays in its line
                    const std::ptrdiff_t segments =
                        pack_tap(tiles, c, tap, columns, terms, 1, pixel_floats, p.axes[2].stride == 1, pack);
                    if (segments > 0)
                        tiles.add(segments, tiles.tap_number(tap), taps, first, channels, packed,
                                  {pixel_floats, 1, channels});
                }
            }
        }
    }
}

template <class T>
void add_task(const dense_packed_plan& p, const T* large, const T* small, std::int64_t number,
              std::byte* slice) noexcept {
    auto* const packed = array_at<float>(slice, p.at_large);
    dense_tiles tiles(p, number, slice);
    const std::int64_t channels = tiles.task.channels;
    const T* const from = tiles.task.large(p, large);
    for (std::int64_t i = 0; i < p.chunks.count; ++i) {
        const chunk_grid::chunk c = p.chunks[i];
        tiles.take_small(tiles.task.small(p, small), c, slice);
        const std::int64_t block = window_channels(p, c, channels);
        for (std::int64_t d = 0; d < p.axes[0].kernel && block > 0; ++d) {
            const line_window window = window_of(p, c, d);
            for (std::int64_t first = 0; first < channels; first += block) {
                const std::int64_t count = std::min(block, channels - first);
                tiles.add_plane(c, d, first, count, pack_window(p, from + first * p.large[1], window, count, packed));
            }
        }
        if (block == 0 && p.fallback == without_window::pack_each_tap) add_packed_taps(p, tiles, c, from, packed);
        if constexpr (std::is_same_v<T, float>) {
            if (block == 0 && p.fallback == without_window::read_in_place)
                for (std::int64_t d = 0; d < p.axes[0].kernel; ++d) tiles.add_plane(c, d, 0, channels, {from, p.large});
        }
        p.close_chunk(i, slice);
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
