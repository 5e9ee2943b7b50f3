// The loops that dense, dense_packed and dense_bf16 share, below the taps: panel of lanes > tile of rows (column tap,
// channel l) > pixels of a chunk that lie inside for these taps, in line segments.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/dense_tasks.hpp>
#include <gradkern/detail/micro/one_and_a_half_tile.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// What tiles read of the large side: the tensor, or what is packed of it. Offsets of a pixel, as in the tensor, count
/// from `origin`.
struct large_view {
    const float* data = nullptr;
    shape::canonical_strides stride{};
    std::int64_t origin = 0;
};

/// Where rows (tap, channel) lie in memory.
struct row_steps {
    std::int64_t term = 0;     // from term to term
    std::int64_t channel = 0;  // from channel to channel
    std::int64_t tap = 0;      // from column tap to column tap
};

/// Terms of a line of a chunk: its inside pixels, or pairs of them.
struct line_terms {
    std::int64_t count = 0;
    std::int64_t floats = 0;  // of a line of the packed small side
    std::int64_t first = 0;   // to its first term
};

/// Fills the list with the inside pixels of one tap in a chunk, in the columns [first, last) of each line: `a` on the
/// large side, `b` on the small one. Segments whose terms on the large side are `a_step` apart, and contiguous on both,
/// become one; 0: each stays in its line. Returns how many there are.
[[nodiscard]] inline std::ptrdiff_t fill_list(const dense_tasks& p, const large_view& large, const chunk_grid::chunk& c,
                                              const std::array<std::int64_t, 3>& tap, std::int64_t first,
                                              const line_terms& terms, std::int64_t a_step, k_segment* list) noexcept {
    std::ptrdiff_t count = 0;
    line_position at(p.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes)) {
        const std::int64_t d = p.axes[0].position(at.d, tap[0]);
        const std::int64_t h = p.axes[1].position(at.h, tap[1]);
        if (d < 0 || d >= p.axes[0].large || h < 0 || h >= p.axes[1].large) continue;
        const std::int64_t a = at.n * large.stride[0] + d * large.stride[2] + h * large.stride[3] +
                               p.axes[2].position(first, tap[2]) * large.stride[4] - large.origin;
        const std::int64_t b = p.small_source == source::in_place ? at.offset(p.small, first)
                                                                  : (line - c.first_line) * terms.floats + terms.first;
        if (a_step != 0 && count > 0) {
            k_segment& e = list[count - 1];
            if (e.a + e.length * a_step == a && e.b + e.length * p.small_step() == b) {
                e.length += terms.count;
                continue;
            }
        }
        list[count++] = {a, b, terms.count};
    }
    return count;
}

/// The tiles of a task, whatever the types of its tensors: compiled once.
struct dense_tiles {
    const dense_tasks& p;
    dense_task task;
    const tile_function* (*kernels)(std::ptrdiff_t lanes) = tiles_for<operand::scalar>;
    const float* small = nullptr;  // packed, or in place
    std::int64_t panel_step = 0;   // there, from panel to panel
    k_segment* list = nullptr;
    float* sum = nullptr;
    std::int64_t ahead = 0;  // to what is prefetched of the large side

    dense_tiles(const dense_tasks& plan, std::int64_t number, std::byte* slice) noexcept
        : p(plan),
          task(plan, number),
          small(array_at<float>(slice, plan.at_small)),
          panel_step(plan.chunk_pixels() * plan.panel_width),
          list(array_at<k_segment>(slice, plan.at_list)),
          sum(array_at<float>(slice, plan.at_sum)) {
        if constexpr (has_one_and_a_half_tile) {
            if (fits_one_and_a_half(task.lanes) && task.channels > 6) kernels = one_and_a_half_tiles;
        }
    }
    [[nodiscard]] bool are_one_and_a_half() const noexcept {
        return has_one_and_a_half_tile && kernels == one_and_a_half_tiles;
    }

    /// Of tiles of one and a half vectors, writes the first half of each second vector of a packed chunk to its second
    /// half.
    GRADKERN_NOINLINE void double_halves(float* packed) const noexcept {
        constexpr std::ptrdiff_t half = simd::lanes / 2;
        GRADKERN_NO_UNROLL
        for (std::int64_t x = are_one_and_a_half() ? p.chunk_pixels() : 0; x > 0; --x, packed += p.panel_width)
            own::copy_n(packed + 2 * half, half, packed + 3 * half);
    }

    /// Reads the small side in place, or packs a chunk of it.
    template <class T>
    void take_small(const T* from, const chunk_grid::chunk& c, std::byte* slice) noexcept {
        if (p.small_source == source::in_place) {
            small = reinterpret_cast<const float*>(from);  // f32 alone
            panel_step = p.panel_width;
            return;
        }
        auto* const packed = array_at<float>(slice, p.at_small);
        pack_chunk(p, from, c, task.lanes, panel_step, packed);
        if constexpr (has_one_and_a_half_tile) double_halves(packed);
    }

    /// Adds the terms in the list, `segments` of them, to the sums of `taps` neighbouring taps from number `tap` on, in
    /// `channels` channels from `first_channel` on, whose first row is at `from`.
    GRADKERN_NOINLINE void add(std::ptrdiff_t segments, std::int64_t tap, std::int64_t taps, std::int64_t first_channel,
                               std::int64_t channels, const float* from, const row_steps& step) const noexcept {
        const std::int64_t channel_sums = p.channel_sums();
        for (std::int64_t panel = 0; panel < task.panels; ++panel) {
            const std::int64_t lanes = std::min(p.panel_width, task.lanes - panel * p.panel_width);
            const tile_function* const tiles = kernels(lanes);
            const std::ptrdiff_t rows = are_one_and_a_half() ? one_and_a_half_rows : rows_at_most(lanes);
            float* const panel_sum =
                sum + (panel * p.task_channels + first_channel) * channel_sums + tap * p.panel_width;
            std::int64_t t = 0;  // rows of the tile: (tap, channel)
            std::int64_t channel = 0;
            constexpr std::ptrdiff_t unit = row_unit<operand::scalar>;
            split_rows(taps * channels, rows, unit, [&](std::ptrdiff_t count) {
                std::array<const float*, most_rows_of_any> a;
                std::array<float*, most_rows_of_any> to;
                for (std::ptrdiff_t row = 0; row < count; ++row) {
                    a[static_cast<std::size_t>(row)] = from + t * step.tap + channel * step.channel;
                    to[static_cast<std::size_t>(row)] = panel_sum + t * p.panel_width + channel * channel_sums;
                    if (++channel < channels) continue;
                    channel = 0;
                    ++t;
                }
                tiles[count - 1]({.list = list,
                                  .count = segments,
                                  .rows = count,
                                  .a = a.data(),
                                  .a_step = step.term,
                                  .b = small + panel * panel_step,
                                  .b_step = p.small_step(),
                                  .c = to.data(),
                                  .mode = tile_mode::add,
                                  .a_ahead = ahead});
            });
        }
    }

    /// Adds all taps of plane `plane_tap` of the kernel in a chunk, where one source serves them all: column taps,
    /// those that meet the same pixels together > row taps.
    GRADKERN_NOINLINE void add_plane(const chunk_grid::chunk& c, std::int64_t plane_tap, std::int64_t first_channel,
                                     std::int64_t channels, const large_view& view) const noexcept {
        const row_steps step{p.axes[2].stride_in(view.stride[4]), view.stride[1],
                             p.axes[2].dilation_in(view.stride[4])};
        std::array<std::int64_t, 3> tap{plane_tap, 0, 0};
        for (std::int64_t taps = 0; tap[2] < p.axes[2].kernel; tap[2] += taps) {
            const tap_group columns = tap_group_at(p.axes[2], tap[2], c, p.task_taps);
            taps = columns.taps;
            if (columns.columns() == 0) continue;
            const line_terms terms{columns.columns(), c.columns() * p.panel_width,
                                   (columns.first - c.first_column) * p.panel_width};
            for (tap[1] = 0; tap[1] < p.axes[1].kernel; ++tap[1]) {
                const std::ptrdiff_t segments = fill_list(p, view, c, tap, columns.first, terms, step.term, list);
                if (segments > 0) add(segments, tap_number(tap), taps, first_channel, channels, view.data, step);
            }
        }
    }

    [[nodiscard]] std::int64_t tap_number(const std::array<std::int64_t, 3>& tap) const noexcept {
        return (tap[0] * p.axes[1].kernel + tap[1]) * p.axes[2].kernel + tap[2];
    }
};

/// Makes one segment of those that continue the one before; returns how many are left.
[[nodiscard]] inline std::ptrdiff_t collapse_segments(k_segment* list, std::ptrdiff_t count, std::int64_t a_step,
                                                      std::int64_t b_step) noexcept {
    if (count == 0) return 0;
    std::ptrdiff_t last = 0;
    for (std::ptrdiff_t e = 1; e < count; ++e) {
        k_segment& s = list[last];
        if (s.a + s.length * a_step == list[e].a && s.b + s.length * b_step == list[e].b) {
            s.length += list[e].length;
        } else {
            list[++last] = list[e];
        }
    }
    return last + 1;
}

/// Packs the pixels of some column taps and one tap of each other axis, segment by segment: pack(offset in the tensor,
/// pixels, offset in the buffer). A term has `term_pixels` pixels and takes `term_floats` of the buffer. `collapse`:
/// segments may pass the end of their lines. Returns how many segments the list has.
template <class Pack>
[[nodiscard]] std::ptrdiff_t pack_tap(const dense_tiles& tiles, const chunk_grid::chunk& c,
                                      const std::array<std::int64_t, 3>& tap, const tap_group& columns,
                                      const line_terms& terms, std::int64_t term_pixels, std::int64_t term_floats,
                                      bool collapse, const Pack& pack) noexcept {
    const dense_tasks& p = tiles.p;
    k_segment* const list = tiles.list;
    const std::ptrdiff_t count =
        fill_list(p, {nullptr, p.large}, c, tap, columns.first, terms, collapse ? term_pixels * p.large[4] : 0, list);
    std::int64_t at = 0;
    for (std::ptrdiff_t e = 0; e < count; ++e) {
        pack(list[e].a, collapse ? list[e].length * term_pixels : columns.columns(), at);
        list[e].a = at;
        at += list[e].length * term_floats;
    }
    return collapse_segments(list, count, term_floats, p.small_step());
}

/// Sends the sums [panel][l][tap][lane] of a task to the tensor.
template <class G>
void store_task(const dense_tasks& p, const float* sum, std::int64_t number, G* diff_weights) noexcept {
    const dense_task task(p, number);
    const std::int64_t kh = p.axes[1].kernel;
    const std::int64_t kw = p.axes[2].kernel;
    const std::int64_t channel_sums = p.channel_sums();
    G* const to = diff_weights + (task.group * p.small_channels + task.first_lane) * p.weights[0] +
                  task.first_channel * p.weights[1];
    // Calls f(sums of a panel, its lanes, where the first of them goes).
    const auto for_each_panel = [&](const auto& f) {
        for (std::int64_t panel = 0; panel < task.panels; ++panel)
            f(sum + panel * p.task_channels * channel_sums, std::min(p.panel_width, task.lanes - panel * p.panel_width),
              to + panel * p.panel_width * p.weights[0]);
    };
    const bool taps_contiguous =
        p.weights[4] == 1 && (kh == 1 || p.weights[3] == kw) && (p.axes[0].kernel == 1 || p.weights[2] == kw * kh);
    if (taps_contiguous && p.weights[0] != 1) {
        // OIX: one long row a lane; of a transposed convolution a row for each channel and lane
        const bool one_row = p.weights[1] == p.taps();
        for_each_panel([&](const float* from, std::int64_t lanes, G* dw) {
            for (std::int64_t l = 0; l < (one_row ? 1 : task.channels); ++l)
                unpack_lanes(from + l * channel_sums, p.panel_width, lanes, (one_row ? task.channels : 1) * p.taps(),
                             dw + l * p.weights[1], p.weights[0], 1, p.accumulate);
        });
        return;
    }
    // Where lanes are neighbours, the rows of a few channels are written over all panels at a time. No CPU fetches the
    // next ones by itself: they lie far behind.
    const std::int64_t some = p.weights[0] == 1 ? 4 : task.channels;
    std::int64_t tap = 0;
    for (std::int64_t d = 0; d < p.axes[0].kernel; ++d)
        for (std::int64_t h = 0; h < kh; ++h)
            for (std::int64_t x = 0; x < kw; ++x, ++tap)
                for (std::int64_t l = 0; l < task.channels; l += some)
                    for_each_panel([&](const float* from, std::int64_t lanes, G* dw) {
                        G* const row = dw + d * p.weights[2] + h * p.weights[3] + x * p.weights[4] + l * p.weights[1];
                        for (std::int64_t next = some; next < std::min(2 * some, task.channels - l); ++next)
                            for (std::int64_t j = 0; j < lanes; j += simd::line_elements<G>)
                                simd::prefetch_to_write(row, next * p.weights[1] + j * p.weights[0]);
                        unpack_lanes(from + l * channel_sums + tap * p.panel_width, channel_sums, lanes,
                                     std::min(some, task.channels - l), row, p.weights[0], p.weights[1], p.accumulate);
                    });
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
