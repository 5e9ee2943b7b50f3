// dense, dense_packed: lanes hold channels of one group. Two paths share their loops:
//
//   loops      task (panels of lanes x channels l) > chunk of at most 256 pixels > plane tap > channels l packed at a
//              time > column taps > row tap > panel > tile of rows (column tap, l) > pixel. dense_packed where no window
//              fits: task > chunk > column taps > plane tap > channels l > row tap, whose pixels are packed > panel >
//              tile > pixel
//   lanes      channels s of one group; each row is one number of the large side, broadcast to all lanes
//
// dense: the large side is read in place.
//
//   taken      f32, unless dense_packed gains more than packing costs; in NXC always where pixels lie close together and packed numbers
//              would meet one tap: 1x1 kernels, [3, 1, 1], wide dilations
//   gains      over dense_packed, f32, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name: 1.07 in
//              the mean of 12 layers in NCX (1.01 to 1.25), 1.05 of 7 in NXC (0.94 to 1.27)
//   zoo        192 layers in NCX, 88 in NXC
//   delete     when packing costs nothing
//
// dense, sides swapped (sides::swapped_windows): lanes hold channels of the large side, which are read a tap away from the
// pixel, in place or from windows that are packed in panels; each row is one number of the small side, read in place.
//
//   taken      f32, few small-side channels, which would leave most lanes empty, and many on the large side
//   gains      over the sides as given, f32, Sapphire Rapids, g++ 12 -O2, AVX-512 / AVX2: cyclegan_out_7x7 NXC 11.9 -> 2.8 ms /
//              14.5 -> 8.8, NCX 12.2 -> 3.0 / 24.5 -> 8.8; vae_latent_4 NXC 5.4 -> 2.5, NCX 5.2 -> 2.6 / 8.6 -> 4.9
//   zoo        cyclegan_out_7x7 and vae_latent_4 in both layouts: last layers of decoders
//   delete     when panels of few channels fill their lanes in another way
//
// Sums of few chunks are kept in diff_weights, where its lanes are neighbours (plan::sums_in_results): 34 layers of the zoo in NXC,
// 1.09 times as fast in the mean (1.03 to 1.4, Emerald Rapids, AVX-512; 1.07 with AVX2).
//
// dense_packed: the same from a packing buffer, which holds windows of lines once for all taps.
//
//   taken      16 bits, which packing widens; f32 in NXC whose pixels lie far apart, or whose numbers meet so many
//              lanes and taps that rows of pixels, transposed, gain more than they cost
//   gains      over dense, f32 in NXC, one image, Sapphire Rapids, AVX-512, g++ 12 -O2, both forced by name: 1.08 in
//              the mean of 14 layers (1.01 to 1.16)
//   zoo        100 layers in f32 (NXC), about 200 in 16 bits
//   delete     never: 16 bits need it
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense_tiles.hpp>
#include <gradkern/detail/conv_weights/next_chunk.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/pack/tensor_pointer.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

[[nodiscard]] constexpr std::int64_t window_floats(window_order order, std::int64_t pixels,
                                                   std::int64_t channels) noexcept {
    return channels * (order == window_order::pixels ? row_pitch(pixels) : pixels);
}

/// Floats of the buffer: the pixels of one tap at least. A window for all taps has no more than the tensor, and no more
/// than are read.
[[nodiscard]] GRADKERN_COLD constexpr std::int64_t window_buffer_floats(const plan& p) noexcept {
    const std::int64_t most = p.real.in_memory_of(target.weight_gradients.packed_window);
    std::int64_t tensor = 1;
    for (const std::int64_t extent : {p.batch, p.axes[0].large, p.axes[1].large, p.axes[2].large})
        tensor = std::min(most, tensor * std::min(most, extent));
    const std::int64_t read = p.chunk_pixels() * std::min(most, p.axes[1].kernel * p.axes[2].kernel);
    const std::int64_t window =
        window_floats(p.order, std::min(tensor, read), std::min(channel_block, p.large_channels));
    const std::int64_t rows = std::min(channel_block, p.large_channels * p.task_taps);
    return std::max(std::min(most, window), window_floats(p.order, p.chunk_pixels(), rows));
}

/// Neighbouring lines of the large side, numbered over (batch, depth, height), and the columns wanted of each.
struct line_window {
    std::int64_t first_line = 0;
    std::int64_t lines = 0;
    position_range columns{};
    [[nodiscard]] std::int64_t width() const noexcept { return columns.last - columns.first; }
    [[nodiscard]] std::int64_t pixels() const noexcept { return lines * width(); }
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
    w.columns = read_span_inside(p.axes[2], shape::side::small, c.first_column, c.last_column);
    return w;
}

/// Whether pixels of many channels at a time go to one place first.
[[nodiscard]] constexpr bool has_far_pixels(const problem& p) noexcept {
    return p.large[1] == 1 &&
           p.axes[2].stride_in(p.large[4]) >= p.real.in_memory_of(target.weight_gradients.far_pixels);
}

/// Pixels of the windows of a chunk, for a tap of the outermost axis, at most; or more than a packing buffer has floats.
[[nodiscard]] GRADKERN_COLD constexpr std::int64_t window_pixels_at_most(const plan& p) noexcept {
    const std::int64_t most = p.real.in_memory_of(target.weight_gradients.packed_window);
    const shape::axis& depth = p.axes[0];
    const shape::axis& height = p.axes[1];
    const std::int64_t lines = p.chunk_lines();
    const bool one_plane = lines <= height.small && height.small % lines == 0;
    const std::int64_t more_planes = one_plane ? 0 : (lines + height.small - 2) / height.small;
    const std::int64_t rows = std::min(most, height.large);
    // Planes from one to the next of an image, or to the next image; rows that windows leave out at the end of a plane.
    const std::int64_t step = std::min(most, std::max(depth.stride, depth.large - (depth.small - 1) * depth.stride));
    const std::int64_t left = height.large - (height.small - 1) * height.stride;
    const std::int64_t rest = left > height.stride ? std::min(most, left - height.stride) : 0;
    const std::int64_t read = std::min(
        std::min(most, span_at_most(height, shape::side::small, lines)) + more_planes * (rest + (step - 1) * rows),
        (more_planes * step + 1) * rows);
    return std::min(most, read) *
           std::min(most, reads_at_most(p.axes[2], shape::side::small, std::min(chunk_positions, p.axes[2].small)));
}

/// Whether packed windows fit their buffer, and a packed number of the large side meets two taps of the inner axes or more.
[[nodiscard]] GRADKERN_COLD constexpr bool window_reuses_pixels(const plan& q) noexcept {
    const std::int64_t taps = q.axes[1].kernel * q.axes[2].kernel;
    if (taps == 1) return false;
    const std::int64_t pixels = window_pixels_at_most(q);
    return window_floats(window_order::pixels, pixels, tile_rows) <=
               q.real.in_memory_of(target.weight_gradients.packed_window) &&
           2 * pixels <= taps * q.chunk_pixels();
}

/// Whether tiles read both sides in place as fast as packed ones.
[[nodiscard]] GRADKERN_COLD constexpr bool reads_close_pixels(const problem& p) noexcept {
    return p.is_wide() && p.has_close_pixels() && !window_reuses_pixels(plan_dense(p, algorithm::dense));
}

/// Rows of pixels take fewer lines of the cache than pixels of many channels, of which each tile reads a few. To
/// transpose a number takes as long as multiplying it with some vectors: it has to meet more of them. Not of close
/// pixels, and not where dense needs no workspace.
[[nodiscard]] GRADKERN_COLD constexpr bool is_transposing_profitable(const problem& p) noexcept {
    constexpr std::int64_t many = simd::lanes < 16 ? 32 : 16;
    if (p.large[1] != 1 || p.large[4] == 1 || p.axes[2].stride != 1 || p.large_channels < many) return false;
    if (reads_close_pixels(p)) return false;
    plan q = plan_dense(p, algorithm::dense);
    if (p.taps() * std::min(q.task_panels * q.panel_width, p.small_channels) < 128) return false;
    q.wide_results = false;  // the choice does not depend on where sums are kept
    q.lay_out();
    return !p.is_wide() || has_far_pixels(p) || q.slice_bytes > stack_slice;
}

/// Whether few channels of the small side leave most lanes empty, and those of the large side fill them, each for several
/// taps. Where they are not whole vectors of neighbours, the windows of a chunk are packed for them.
[[nodiscard]] GRADKERN_COLD constexpr bool is_swapping_windows_profitable(const problem& p) noexcept {
    if (p.has_unit_axes() || p.groups != 1 || !p.is_wide() || p.batch == 0) return false;
    for (const shape::axis& a : p.axes)
        if (a.small == 0 || a.large == 0) return false;
    // vectors of products a pixel, and numbers to pack
    constexpr std::int64_t unit = row_unit<operand::scalar>;
    const std::int64_t rows = shape::ceil_div(p.small_channels, unit) * unit;
    const auto vectors = [&](std::int64_t channels) {
        return panel_vectors(channels, panel_lanes(channels, false, p.real.lanes), p.real.lanes);
    };
    const plan q = plan_dense(p.with_swapped_sides(), algorithm::dense);
    const bool packs = q.small_source == source_kind::packed;
    if (packs && window_pixels_at_most(q) * q.panel_width > p.real.in_memory_of(target.weight_gradients.packed_window))
        return false;
    const std::int64_t swapped = vectors(p.large_channels) * rows * p.taps() + (packs ? 2 * p.large_channels : 0);
    return 4 * swapped <= 3 * vectors(p.small_channels) * p.large_channels * p.taps();
}

[[nodiscard]] GRADKERN_COLD constexpr plan make_dense(const problem& p, algorithm name) noexcept {
    plan q = plan_dense(p, name);
    if (p.moves_lanes()) {
        q.large_source = source_kind::in_place;
        if (q.small_source == source_kind::packed) {
            const std::int64_t panel = window_pixels_at_most(q) * q.panel_width;
            const std::int64_t fit =
                std::max<std::int64_t>(p.real.in_memory_of(target.weight_gradients.packed_window) / panel, 1);
            q.task_panels = shape::even_part(q.panels, std::min(q.task_panels, fit));
            q.packed_floats = q.task_panels * panel;
        }
        q.lay_out();
        return q;
    }
    const bool packs = name != algorithm::dense;
    const bool transposes = packs && is_transposing_profitable(p);
    if (transposes || (packs && p.large[4] == 1)) q.order = window_order::pixels;
    if (!packs || (transposes && p.is_wide() && !has_far_pixels(p))) q.large_source = source_kind::in_place;
    if (packs) q.packed_floats = window_buffer_floats(q);
    q.lay_out();
    return q;
}
/// The plan of either with the least scratch: one vector of lanes, and as many channels as fit the stack, with a buffer
/// for their pixels where the large side is packed.
[[nodiscard]] GRADKERN_COLD constexpr plan make_least_dense(const problem& p, algorithm name) noexcept {
    plan q(p, name, p.real.lanes, 0);
    q.task_channels = 0;
    q.lay_out(scratch_use::least);
    const bool packs = name != algorithm::dense;
    const std::int64_t each = (1 + std::int64_t{q.adds_sums()} + std::int64_t{q.adds_groups()}) * p.taps() *
                                  p.real.in_memory_of(least_lanes) +
                              (packs ? row_pitch(q.chunk_pixels()) : 0);
    const std::int64_t room = call_scratch - q.slice_bytes / least_times - 3 * cache_line;  // each array's last line
    q.task_channels =
        shape::even_part(p.large_channels, std::clamp<std::int64_t>(room / each / p.real.bytes, 1, p.large_channels));
    q.large_source = packs ? source_kind::packed : source_kind::in_place;
    if (packs && p.large[4] == 1) q.order = window_order::pixels;
    if (packs) q.packed_floats = window_floats(q.order, q.chunk_pixels(), std::min(channel_block, q.task_channels));
    q.lay_out(scratch_use::least);
    return q;
}

[[nodiscard]] constexpr bool fits_dense(const problem& p) noexcept { return p.is_wide(); }
[[nodiscard]] GRADKERN_COLD constexpr bool is_dense_profitable(const problem& p) noexcept {
    return has_far_pixels(p) ? reads_close_pixels(p) : !is_transposing_profitable(p);
}

/// How many channels of the windows of a chunk are packed at a time; 0 where there is no buffer, or that is more work
/// than to pack the pixels of each tap, or more than the buffer holds.
[[nodiscard]] inline std::int64_t window_channels(const plan& p, const chunk_grid::chunk& c,
                                                  std::int64_t channels) noexcept {
    // Tiles read many channels with a stride between pixels more slowly than the same moved together.
    const std::int64_t stride = p.axes[2].stride;
    const bool strided = p.order == window_order::channels && stride > 1 && channels > channel_block / stride;
    if (p.packed_floats == 0 || strided) return 0;
    std::int64_t pixels = 0;
    for (std::int64_t tap = 0; tap < p.axes[0].kernel; ++tap) pixels = std::max(pixels, window_of(p, c, tap).pixels());
    if (pixels > c.positions() * p.axes[1].kernel * p.axes[2].kernel) return 0;
    for (std::int64_t blocks = shape::ceil_div(channels, channel_block);; ++blocks) {
        const std::int64_t block = shape::ceil_div(channels, blocks);
        if (window_floats(p.order, pixels, block) <= p.packed_floats) return block;
        if (block <= tile_rows) return 0;
    }
}

/// Packs `channels` channels of a window of a tensor: rows of pixels as they lie in memory, or transposed to such rows, or
/// pixels of channels, `width` floats from one to the next.
template <class Real>
[[nodiscard]] GRADKERN_NOINLINE large_view<Real> pack_window(const plan& p, const tensor_pointer<Real>& large,
                                                             const shape::canonical_strides& stride,
                                                             const line_window& w, std::int64_t channels,
                                                             std::int64_t width, Real* packed) noexcept {
    const bool rows = p.order == window_order::pixels;
    const std::int64_t pitch = row_pitch(w.pixels());
    const std::int64_t column = rows ? 1 : width;
    const std::int64_t line = w.width() * column;
    const std::int64_t plane = p.axes[1].large * line;
    const large_view<Real> view{packed,
                                {p.axes[0].large * plane, rows ? pitch : 1, plane, line, column},
                                w.first_line * line + w.columns.first * column};
    if (w.pixels() == 0) return view;
    pixel_walk walk(p.batch, {p.axes[0].large, p.axes[1].large, w.width()}, stride, w.first_line * w.width());
    const tensor_pointer<Real> first = large + w.columns.first * stride[4];
    if (rows && stride[4] == 1) {
        pack_pixels(first, walk, w.pixels(), stride[1], channels, false, packed, one_segment(w.pixels(), pitch));
        return view;
    }
    for (std::int64_t left = w.pixels(); left > 0;) {
        const pixel_run run = walk.next(left);
        const tensor_pointer<Real> from = first + run.offset;
        if (rows) {
            pack_lanes(from, walk.step(), run.count, stride[1], channels, packed, pitch);
        } else {
            pack_lanes(from, stride[1], channels, walk.step(), run.count, packed, width);
            clear_lanes(channels, width, run.count, packed, width);
        }
        packed += run.count * column;
        left -= run.count;
    }
    return view;
}

/// tap_buffer::pack
template <class Real>
void pack_tap(const plan& p, const tensor_pointer<Real>& large, std::int64_t offset, std::int64_t pixels,
              std::int64_t taps, std::int64_t channels, const row_steps& row, Real* to) noexcept {
    const std::int64_t step = p.axes[2].stride_in(p.large[4]);
    for (std::int64_t t = 0; t < taps; ++t, offset += p.axes[2].dilation_in(p.large[4]), to += row.tap)
        pack_lanes(large + offset, p.large[1], channels, step, pixels, to, row.term);
}

/// Adds a chunk whose pixels are packed anew for each tap.
template <class Real>
GRADKERN_NOINLINE void add_packed_taps(const dense_tiles<Real>& tiles, const chunk_grid::chunk& c,
                                       const tap_buffer<Real>& buffer) noexcept {
    const plan& p = tiles.p;
    for_each_tap_group(p, c, tiles.sets, [&](const tap_group& columns) {
        for (std::int64_t d = 0; d < p.axes[0].kernel; ++d)
            for (std::int64_t first = 0; first < tiles.t.channels; first += channel_block) {
                const std::int64_t channels = std::min(channel_block, tiles.t.channels - first);
                tiles.add_row_taps(c, d, columns, first, channels, {nullptr, p.large, -first * p.large[1]},
                                   {columns.taps * channels, 1, channels}, &buffer);
            }
    });
}

/// Adds a chunk whose lanes are read a tap away from its pixels, in place or from windows that are packed for each panel.
template <class Real>
GRADKERN_NOINLINE void add_moved_lanes(dense_tiles<Real>& tiles, const chunk_grid::chunk& c,
                                       const tensor_pointer<Real>& large, const tensor_pointer<Real>& small,
                                       Real* packed) noexcept {
    const plan& p = tiles.p;
    tiles.moved = {small.in_place(), p.small};
    tiles.panel_step = p.panel_width;
    for (std::int64_t d = 0; d < p.axes[0].kernel; ++d) {
        if (p.small_source == source_kind::packed) {
            const line_window w = window_of(p, c, d);
            tiles.panel_step = w.pixels() * p.panel_width;
            for (std::int64_t panel = tiles.t.panels; panel-- > 0;)
                tiles.moved = pack_window(p, small + panel * p.panel_width * p.small[1], p.small, w,
                                          tiles.t.lanes_of(p, panel), p.panel_width, packed + panel * tiles.panel_step);
        }
        tiles.small = tiles.moved.data;
        tiles.add_plane(c, d, 0, tiles.t.channels, {large.in_place(), p.large});
    }
}

template <class Real>
void add_dense(const plan& p, const task& t, const chunk_grid::range& range, const tensor_pointer<Real>& large,
               const tensor_pointer<Real>& small, std::byte* slice) noexcept {
    const tensor_pointer<Real> from = large + t.large;
    const tensor_pointer<Real> first_small = small + t.small;
    // packed with a stride, each segment stays in its line
    const tap_buffer<Real> buffer{pack_tap<Real>, from, array_at<Real>(slice, p.at_large), p.axes[2].stride == 1};
    dense_tiles<Real> tiles(p, t, slice);
    const std::int64_t prefetching = prefetches_next_chunk(p) ? prefetching_tiles<Real>(p, t) : 0;
    // Where positions are cut, and of several results, another task has the chunk behind the last one.
    const bool goes_on = p.cut == position_cut::none && p.results() == 1;
    const std::int64_t last_read = goes_on ? p.chunks.count : range.last;
    next_chunk next;
    for (std::int64_t i = range.first; i < range.last; ++i) {
        const chunk_grid::chunk c = p.chunks[i];
        tiles.sets = i == range.first && p.sets_sums();
        if (tiles.moves) {
            add_moved_lanes(tiles, c, from, first_small, buffer.packed);
            continue;
        }
        const std::int64_t block = window_channels(p, c, t.channels);
        tiles.take_small(first_small, c, slice);
        tiles.next = nullptr;
        if (prefetching > 0 && i + 1 < last_read) {
            next = next_chunk(p, t, p.chunks[i + 1], from, first_small, prefetching, c.positions());
            tiles.next = &next;
        }
        for (std::int64_t d = 0; d < p.axes[0].kernel && block > 0; ++d) {
            const line_window window = window_of(p, c, d);
            for (std::int64_t first = 0; first < t.channels; first += block) {
                const std::int64_t count = std::min(block, t.channels - first);
                tiles.add_plane(
                    c, d, first, count,
                    pack_window(p, from + first * p.large[1], p.large, window, count, count, buffer.packed));
            }
        }
        if (block == 0 && p.large_source == source_kind::packed) add_packed_taps(tiles, c, buffer);
        if (block == 0 && p.large_source == source_kind::in_place) {
            for (std::int64_t d = 0; d < p.axes[0].kernel; ++d)
                tiles.add_plane(c, d, 0, t.channels, {from.in_place(), p.large});
        }
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
