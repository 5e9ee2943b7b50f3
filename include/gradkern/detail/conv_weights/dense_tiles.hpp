// The loops that dense, dense_packed and dense_bf16 share, below the plane taps: column taps that meet the same
// pixels > row tap > panel of lanes > tile of rows (column tap, channel l) > pixels of a chunk that lie inside for
// these taps, in line segments. Tasks are some panels of lanes of one group x a range of its large-side channels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/next_chunk.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// A plan with tasks that are fast, but for its slice.
[[nodiscard]] GRADKERN_COLD constexpr plan plan_dense(const problem& p, algorithm name) noexcept {
    plan q(p, name, panel_lanes(p.small_channels, false, p.real.lanes), 0);
    // 1x1: each number of the large side is used once for each panel, so that many are wanted, and larger sums, which
    // are read and written once a chunk, are better than sides that are packed more often. Not in NCX, where nothing is
    // transposed, on CPUs of 2 MB of L2: those were up to 7 % slower.
    const auto& block = target.weight_gradients;
    const std::int64_t taps = p.taps();
    const bool wide = taps == 1 && (p.large[1] == 1 || !target.cache.two_mb_l2);
    const std::int64_t sums = p.real.in_memory_of(wide ? block.sums_of_1x1 : block.sums);
    const std::int64_t lanes = p.real.in_memory_of(wide        ? block.lanes_of_1x1
                                                   : taps == 1 ? block.lanes_of_1x1 / 2
                                                               : block.lanes);
    const std::int64_t channel_sums = taps * q.panel_width;
    q.task_panels = std::clamp<std::int64_t>(sums / channel_sums, 1,
                                             std::min(q.panels, std::max<std::int64_t>(lanes / q.panel_width, 1)));
    q.task_channels = shape::even_part(
        p.large_channels, std::clamp<std::int64_t>(sums / (q.task_panels * channel_sums),
                                                   std::min(p.large_channels, channel_block), p.large_channels));
    // Few channels leave a tile most of its rows: taps fill them, where they share the lanes.
    if (!p.moves_lanes() && q.task_channels < 2 * tile_rows)
        q.task_taps = std::min(p.axes[2].kernel, channel_block / q.task_channels);
    // Where the small side is whole vectors, a few tiles read it as fast in place, and any number of them pixels that are contiguous or lie
    // close together.
    const bool few_tiles = taps * p.large_channels <= 4 * tile_rows && !p.copies_pixels();
    if (p.is_wide() && p.small[1] == 1 && q.has_whole_panels() &&
        (p.moves_lanes() || few_tiles || (taps == 1 && p.has_close_pixels()) || p.small[4] == q.panel_width))
        q.small_source = source_kind::in_place;
    return q;
}

/// What tiles read of the large side: the tensor, or what is packed of it. Offsets of a pixel, as in the tensor, count
/// from `origin`.
template <class Real>
struct large_view {
    const Real* data = nullptr;
    shape::canonical_strides stride{};
    std::int64_t origin = 0;
};

/// Where rows (tap, channel) lie in memory.
struct row_steps {
    std::int64_t term = 0;     // from term to term
    std::int64_t channel = 0;  // from channel to channel
    std::int64_t tap = 0;      // from column tap to column tap
};

/// A packing buffer for the pixels of one tap of the outer axes, and some of the columns.
template <class Real>
struct tap_buffer {
    /// Packs `pixels` pixels of `channels` channels, the first of which lies at `offset` in the tensor, for `taps`
    /// taps.
    void (*pack)(const plan&, const tensor_pointer<Real>& large, std::int64_t offset, std::int64_t pixels,
                 std::int64_t taps, std::int64_t channels, const row_steps&, Real* to) noexcept;
    tensor_pointer<Real> large{};
    Real* packed = nullptr;
    bool collapses = true;  // segments may pass the ends of their lines
};

/// Appends a segment to `count` of them, or makes it part of the last one, which it continues, unless `a_step` is 0;
/// returns how many there are.
[[nodiscard]] inline std::ptrdiff_t append(k_segment* list, std::ptrdiff_t count, const k_segment& s,
                                           std::int64_t a_step, std::int64_t b_step) noexcept {
    if (count > 0 && a_step != 0) {
        k_segment& last = list[count - 1];
        if (last.a + last.length * a_step == s.a && last.b + last.length * b_step == s.b) {
            last.length += s.length;
            return count;
        }
    }
    list[count] = s;
    return count + 1;
}

/// What tiles add to that set their sums: a sum that underflowed to -0 becomes +0, as where sums are zero before.
template <class Real>
inline constexpr std::array<Real, static_cast<std::size_t>(tile_lanes_of<Real>)> row_of_zeros{};
template <class Real>
inline constexpr auto rows_of_zeros = [] {
    std::array<const Real*, static_cast<std::size_t>(most_rows_of_any)> rows{};
    for (const Real*& row : rows) row = row_of_zeros<Real>.data();
    return rows;
}();

/// The tiles of a task, whatever the types of its tensors: compiled once. Terms are pixels, or pairs of them
/// (dense_bf16), for which the small side is packed anew for each group of column taps.
template <class Real>
struct dense_tiles {
    const plan& p;
    const task& t;
    const bool pairs;
    const bool moves;           // whether the lanes are read a tap away, not the rows
    const std::int64_t b_step;  // from term to term of the lanes
    const tile_function_of<Real>* (*kernels)(std::ptrdiff_t lanes) =
        tiles_for<operand::scalar, row_unit<operand::scalar>, Real>;
    const Real* small = nullptr;  // packed, or in place
    std::int64_t panel_step = 0;  // there, from panel to panel
    large_view<Real> moved{};     // where the small side lies, if its lanes move
    k_segment* list = nullptr;
    Real* sum = nullptr;
    sum_steps sum_step{};
    bool sets = false;  // whether tiles set their sums: in the first chunk of a sum
    next_chunk* next = nullptr;

    dense_tiles(const plan& planned, const task& tasked, std::byte* slice) noexcept
        : p(planned),
          t(tasked),
          pairs(p.path == algorithm::dense_bf16),
          moves(p.moves_lanes()),
          b_step(p.small_step()),
          small(array_at<Real>(slice, p.at_small)),
          panel_step(p.chunk_pixels() * p.panel_width),
          list(array_at<k_segment>(slice, p.at_list)),
          sum(t.results != nullptr ? static_cast<Real*>(t.results) : array_at<Real>(slice, p.at_sum)),
          sum_step(p.steps_of_sums()) {
        if constexpr (simd::has_dot_bf16 && std::is_same_v<Real, float>) {
            if (pairs) kernels = tiles_for<operand::pair>;
        }
    }

    /// Reads the small side in place, or packs a chunk of it.
    void take_small(const tensor_pointer<Real>& from, const chunk_grid::chunk& c, std::byte* slice) noexcept {
        if (p.small_source == source_kind::in_place) {
            small = from.in_place();
            panel_step = p.panel_width;
            return;
        }
        auto* const packed = array_at<Real>(slice, p.at_small);
        pack_chunk(p, from, c, t.lanes, panel_step, packed);
    }

    /// Fills the list with the inside terms of a tap of each outer axis and a group of column taps: `a` on the large
    /// side, `b` on the small one. Segments whose terms on the large side are `a_step` apart, and contiguous on both,
    /// become one; 0: each stays in its line. Returns how many there are.
    [[nodiscard]] std::ptrdiff_t fill_list(const large_view<Real>& large, const chunk_grid::chunk& c,
                                           std::int64_t plane_tap, std::int64_t row_tap, const tap_group& columns,
                                           std::int64_t a_step) const noexcept {
        const std::int64_t length = p.terms_of(columns.columns());
        const std::int64_t line_floats = (pairs ? length : c.columns()) * p.panel_width;
        const std::int64_t first = pairs ? 0 : (columns.first - c.first_column) * p.panel_width;
        const large_view<Real>& tapped = moves ? moved : large;
        const shape::canonical_strides& still = moves ? p.large : p.small;  // the other side
        const bool packed = p.small_source == source_kind::packed && !moves;
        std::ptrdiff_t count = 0;
        line_position at(p.axes, c.first_line);
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes)) {
            const std::int64_t d = p.axes[0].position(at.d, plane_tap);
            const std::int64_t h = p.axes[1].position(at.h, row_tap);
            if (d < 0 || d >= p.axes[0].large || h < 0 || h >= p.axes[1].large) continue;
            const std::int64_t at_tap = at.n * tapped.stride[0] + d * tapped.stride[2] + h * tapped.stride[3] +
                                        p.axes[2].position(columns.first, columns.first_tap) * tapped.stride[4] -
                                        tapped.origin;
            const std::int64_t at_pixel =
                packed ? (line - c.first_line) * line_floats + first : at.offset(still, columns.first);
            k_segment s{at_tap, at_pixel, length};
            if (moves) std::swap(s.a, s.b);
            count = append(list, count, s, a_step, b_step);
        }
        return count;
    }

    /// Packs the pixels of the segments in the list, `count` of them, which become those of the buffer; returns how
    /// many there are.
    [[nodiscard]] std::ptrdiff_t pack_list(std::ptrdiff_t count, const tap_group& columns, std::int64_t channels,
                                           const row_steps& step, const tap_buffer<Real>& buffer) const noexcept {
        std::ptrdiff_t kept = 0;
        std::int64_t at = 0;
        for (std::ptrdiff_t e = 0; e < count; ++e) {
            const k_segment s = list[e];
            const std::int64_t pixels = buffer.collapses ? s.length * (pairs ? 2 : 1) : columns.columns();
            buffer.pack(p, buffer.large, s.a, pixels, columns.taps, channels, step, buffer.packed + at);
            kept = append(list, kept, {at, s.b, s.length}, step.term, b_step);
            at += s.length * step.term;
        }
        return kept;
    }

    /// Adds the terms in the list, `segments` of them, to the sums, or to zeros, of `taps` neighbouring taps from number `tap` on, in
    /// `channels` channels from `first_channel` on, whose first row is at `from`.
    void add(std::ptrdiff_t segments, std::int64_t tap, std::int64_t taps, std::int64_t first_channel,
             std::int64_t channels, const Real* from, const row_steps& step) const noexcept {
        for (std::int64_t panel = 0; panel < t.panels; ++panel) {
            const std::int64_t lanes = t.lanes_of(p, panel);
            const tile_function_of<Real>* const tiles = kernels(lanes);
            const std::ptrdiff_t rows = rows_at_most(lanes, simd::lanes_of<Real>);
            Real* const panel_sum =
                sum + panel * sum_step.panel + first_channel * sum_step.channel + tap * sum_step.tap;
            std::int64_t x = 0;  // rows of the tile: (tap, channel)
            std::int64_t channel = 0;
            constexpr std::ptrdiff_t unit = row_unit<operand::scalar>;
            split_rows(taps * channels, rows, unit, [&](std::ptrdiff_t count) {
                std::array<const Real*, most_rows_of_any> a;
                std::array<Real*, most_rows_of_any> to;
                for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
                    a[row] = from + x * step.tap + channel * step.channel;
                    to[row] = panel_sum + x * sum_step.tap + channel * sum_step.channel;
                    if (++channel < channels) continue;
                    channel = 0;
                    ++x;
                }
                const bool prefetches = next != nullptr && prefetches_later(count, lanes, simd::lanes_of<Real>);
                const tile_function_of<Real> tile = prefetches ? prefetching_tile_for<Real>(lanes) : tiles[count - 1];
                tile({.list = list,
                      .count = segments,
                      .rows = count,
                      .a = a.data(),
                      .a_step = step.term,
                      .b = small + panel * panel_step,
                      .b_step = b_step,
                      .c = to.data(),
                      .mode = tile_mode::add,
                      .added = sets ? rows_of_zeros<Real>.data() : nullptr,
                      .later = prefetches ? next->of_tile() : nullptr});
            });
        }
    }

    /// Adds all row taps of a plane tap and a group of column taps, in `channels` channels from `first_channel` on.
    /// With a buffer, the pixels of each are packed anew, and `view` is the tensor; else tiles read the view.
    GRADKERN_NOINLINE void add_row_taps(const chunk_grid::chunk& c, std::int64_t plane_tap, const tap_group& columns,
                                        std::int64_t first_channel, std::int64_t channels, const large_view<Real>& view,
                                        const row_steps& step,
                                        const tap_buffer<Real>* buffer = nullptr) const noexcept {
        const std::int64_t a_step = buffer == nullptr    ? step.term
                                    : !buffer->collapses ? 0
                                                         : view.stride[4] * (pairs ? 2 : 1);
        for (std::int64_t h = 0; h < p.axes[1].kernel; ++h) {
            std::ptrdiff_t segments = columns.columns() > 0 ? fill_list(view, c, plane_tap, h, columns, a_step) : 0;
            if (buffer != nullptr) segments = pack_list(segments, columns, channels, step, *buffer);
            const std::int64_t tap = (plane_tap * p.axes[1].kernel + h) * p.axes[2].kernel + columns.first_tap;
            if (segments > 0 || sets)
                add(segments, tap, columns.taps, first_channel, channels,
                    buffer == nullptr ? view.data : buffer->packed, step);
        }
    }

    /// Adds all taps of plane `plane_tap` of the kernel in a chunk, where one source serves them all.
    GRADKERN_NOINLINE void add_plane(const chunk_grid::chunk& c, std::int64_t plane_tap, std::int64_t first_channel,
                                     std::int64_t channels, const large_view<Real>& view) const noexcept {
        const row_steps step{moves ? view.stride[4] : p.axes[2].stride_in(view.stride[4]), view.stride[1],
                             p.axes[2].dilation_in(view.stride[4])};
        for_each_tap_group(p, c, sets, [&](const tap_group& columns) {
            add_row_taps(c, plane_tap, columns, first_channel, channels, view, step);
        });
    }
};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
