// The channelwise path of the reduction engine (conv_weights/plan.hpp): tasks of some panels of small-side channels over all
// groups. Per chunk: panel > lines of one plane > lines that meet the same row taps > column taps that meet the same
// positions > tile of rows (tap, large-side channel). Rows hold a number for each lane, of its own group; of one group
// (`common`) one number for all lanes, read in place where it is f32. Where windows of a depthwise layer slide, per chunk:
// line > three lines of its windows > panel, all of a task together where they are read in place > output.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/sliding_sums.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What tiles read of neighbouring lines of a plane: of the large side offsets as in the tensor, counted from `origin`; of
/// the small side the offset of the first position, and steps from column to column and from line to line. f32 in name only
/// where windows slide.
struct channelwise_source {
    const float* large = nullptr;
    const float* small = nullptr;
    shape::canonical_strides in{};
    std::int64_t origin = 0;
    std::int64_t column_step = 0;
    std::int64_t line_step = 0;
};

/// Adds the products of `run` lines of a plane, from that at `at` on, in the columns of chunk `c`, to the sums [tap][lane] of
/// neighbouring panels of a depthwise layer whose windows slide. `kernels` are those for its type.
GRADKERN_NOINLINE inline void add_lines_sliding(const reduce_plan& r, const chunk_grid::chunk& c,
                                                const line_position& at, std::int64_t run, std::int64_t used,
                                                const channelwise_source& from, const sliding_sums_kernels& kernels,
                                                float* chunk_sum) noexcept {
    const shape::axis& columns = r.axes[2];
    const std::int64_t line_floats = columns.kernel * r.panel_width;
    const shape::tap_sequence planes = r.axes[0].inside_taps(at.d);
    const std::int64_t first = columns.position(c.first_column, 0);
    const std::int64_t held = (sliding_sum_taps - 1) / columns.stride;
    const std::int64_t end = c.columns() + held;
    const std::int64_t whole = std::clamp((columns.stride - 1 - first) / columns.stride, held, end);
    const std::int64_t whole_end = std::max(whole, std::min(c.columns(), (columns.large - first) / columns.stride));
    sliding_sums_call call{.a = from.large,
                           .b = from.small,
                           .a_step = from.in[4],
                           .b_step = from.column_step,
                           .a_ahead = r.axes[1].stride_in(from.in[3]),
                           .b_ahead = from.line_step,
                           .columns = columns.large,
                           .first = first,
                           .stride = columns.stride,
                           .outputs = c.columns(),
                           .whole = whole,
                           .whole_end = whole_end};
    const auto add_whole = kernels.whole[static_cast<std::size_t>(columns.stride - 1)];
    for (std::int64_t line = at.h; line < at.h + run; ++line) {
        const shape::tap_sequence lines = r.axes[1].inside_taps(line);
        for (std::int64_t d = planes.first; d < planes.first + planes.count; ++d) {
            const std::int64_t plane = at.n * from.in[0] - from.origin + r.axes[0].position(at.d, d) * from.in[2];
            for (std::int64_t t = 0; t < lines.count; t += sliding_sum_lines) {
                call.lines = static_cast<std::size_t>(std::min<std::int64_t>(lines.count - t, sliding_sum_lines));
                call.b_row = (line - at.h) * from.line_step;
                GRADKERN_NO_UNROLL
                for (std::size_t i = 0; i < sliding_sum_lines; ++i) {
                    // in place of lines that there are not the last one again, to the same sums
                    const std::int64_t tap = lines.first + std::min(t + static_cast<std::int64_t>(i), lines.count - 1);
                    call.a_row[i] = plane + r.axes[1].position(line, tap) * from.in[3];
                    call.sums[i] = chunk_sum + (d * r.axes[1].kernel + tap) * line_floats;
                }
                for (std::int64_t lane = 0; lane < used; lane += simd::lanes) {
                    kernels.border(call, 0, whole);
                    if (whole < whole_end) add_whole(call);
                    kernels.border(call, whole_end, end);
                    call.b_row += simd::lanes;
                    GRADKERN_NO_UNROLL
                    for (std::size_t i = 0; i < sliding_sum_lines; ++i) {
                        call.a_row[i] += simd::lanes;
                        call.sums[i] += r.panel_floats();
                    }
                }
            }
        }
    }
}

/// Adds the products of `run` lines of a plane, from that at `at` on, in the columns of chunk `c`, to the sums [tap][l][lane]
/// of a panel of which `used` lanes are used, or, where windows slide, of neighbouring panels. Whatever the types of its tensors:
/// compiled once. `kernels` are those of windows that slide, for what is read; all else is f32 here.
GRADKERN_NOINLINE inline void add_lines_channelwise(const reduce_plan& r, const chunk_grid::chunk& c,
                                                    const line_position& at, std::int64_t run, std::int64_t used,
                                                    channelwise_source from, const sliding_sums_kernels& kernels,
                                                    stretch* list, float* chunk_sum) noexcept {
    if (r.sliding) {
        add_lines_sliding(r, c, at, run, used, from, kernels, chunk_sum);
        return;
    }
    constexpr int taps_unit = 1;  // of rows, which are taps
    const tile_function* tiles =
        r.common ? tiles_for<operand::scalar>(used) : tiles_for<operand::vector, taps_unit>(used);
    constexpr int widest = has_outer(8) ? 8 : 4;
    const tile_function* outer = r.large_channels == 4 ? outer_tiles<4>.data() : outer_tiles<widest>.data();
    const bool adjoins = r.shared && r.large_channels == 8 && outer_adjoins<8>;  // both rows are one tap's
    const std::int64_t most = adjoins    ? 1
                              : r.shared ? outer_rows(r.large_channels)
                              : r.common ? rows_at_most(r.panel_width)
                                         : narrow_rows;
    const shape::tap_sequence planes = r.axes[0].inside_taps(at.d);
    // Lines that meet the same row taps: these taps are rows of the same tiles.
    shape::tap_class_walk classes(r.axes[1], shape::side::small, at.h, at.h + run);
    for (shape::tap_class h; planes.count > 0 && classes.next(h);) {
        if (h.taps == 0) continue;
        tap_group w;
        for (std::int64_t kw = 0; kw < r.axes[2].kernel; kw += w.taps) {
            w = tap_group_at(r.axes[2], kw, c.first_column, c.last_column);
            if (w.first == w.last) continue;
            // the positions of all taps of this class and this group: one stretch a line
            const std::int64_t b_first =
                (h.first_position - at.h) * from.line_step + (w.first - c.first_column) * from.column_step;
            for (std::int64_t l = 0; l < h.positions; ++l)
                list[l] = {l * h.read_per_position * from.in[3], l * from.line_step + b_first, w.last - w.first};
            // rows of the tile: (plane tap, row tap, column tap, k), k innermost; shared: all k in a row
            const std::int64_t row_channels = r.shared ? 1 : r.large_channels;
            const std::int64_t first_read = at.n * from.in[0] - from.origin;
            std::array<std::int64_t, 4> t{};
            const auto tile = [&](std::ptrdiff_t count) {
                std::array<const float*, most_rows> a;
                std::array<float*, most_rows> to;
                for (std::ptrdiff_t row = 0; row < count; ++row) {
                    const std::int64_t d = planes.first + t[0];
                    a[static_cast<std::size_t>(row)] =
                        from.large + (first_read + r.axes[0].position(at.d, d) * from.in[2] +
                                      (h.first_read + t[1] * h.read_per_tap) * from.in[3] +
                                      r.axes[2].position(w.first, kw + t[2]) * from.in[4] + t[3] * from.in[1]);
                    const std::int64_t tap = (d * r.axes[1].kernel + h.first_tap + t[1]) * r.axes[2].kernel + kw + t[2];
                    to[static_cast<std::size_t>(row)] = chunk_sum + (tap * r.large_channels + t[3]) * r.panel_width;
                    if (++t[3] < row_channels) continue;
                    t[3] = 0;
                    if (++t[2] < w.taps) continue;
                    t[2] = 0;
                    if (++t[1] < h.taps) continue;
                    t[1] = 0;
                    ++t[0];
                }
                tile_call call{.list = list,
                               .count = static_cast<std::ptrdiff_t>(h.positions),
                               .rows = count,
                               .a = a.data(),
                               .a_step = r.axes[2].stride_in(from.in[4]),
                               .b = from.small,
                               .b_step = from.column_step,
                               .c = to.data(),
                               .c_step = r.panel_width,
                               .mode = tile_mode::resume};
                if (!r.shared) {
                    tiles[count - 1](call);
                    return;
                }
                if (adjoins) {
                    a[1] = a[0] + simd::lanes;
                    to[1] = to[0] + simd::lanes;
                    call.rows = kernel_vectors(used, 2);
                    outer[0](call);
                    return;
                }
                const std::ptrdiff_t sums = outer_sums(r.large_channels);  // rows go on by so many, then a vector
                for (std::ptrdiff_t j = 0; j < used; j += simd::lanes, call.b += simd::lanes) {
                    for (std::ptrdiff_t k = 0; k < r.large_channels; k += sums) {
                        outer[count - 1](call);
                        const bool last = k + sums == r.large_channels;
                        for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
                            a[row] += last ? simd::lanes - k : sums;
                            to[row] += last ? simd::lanes - k * r.panel_width : sums * r.panel_width;
                        }
                    }
                }
            };
            split_rows(planes.count * h.taps * w.taps * row_channels, most,
                       r.common ? row_unit<operand::scalar> : taps_unit, tile);
        }
    }
}

/// Adds the products of one chunk to the sums of some panels: of one, or, where windows slide in place, of whole ones.
template <class T>
void add_chunk_channelwise(const reduce_plan& r, const T* large, const T* small, const chunk_grid::chunk& c,
                           std::int64_t first_panel, std::int64_t panels, std::byte* slice, float* chunk_sum) noexcept {
    auto* packed = reinterpret_cast<float*>(slice + r.at_small);
    auto* staging = reinterpret_cast<float*>(slice + r.at_large);
    auto* list = reinterpret_cast<stretch*>(slice + r.at_list);
    const std::int64_t first_lane = first_panel * r.panel_width;
    const std::int64_t used = std::min(panels * r.panel_width, r.groups * r.small_channels - first_lane);
    const bool whole = panels > 1 || fills_tile(used);  // else whole vectors would leave the tensor
    const bool stage_large = r.staged || (!r.common && !whole);
    const bool stage_small = !r.small_in_place || !whole;
    if (stage_small) pack_chunk(r.axes, small + first_lane * r.small[1], r.small, c, used, r.panel_width, 0, packed);

    line_position at(r.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line;) {
        const std::int64_t run = std::min(c.last_line - line, r.axes[1].small - at.h);  // lines of this plane
        channelwise_source from;
        if (stage_large) {
            box_grid::item out;
            out.first_image = at.n;
            out.last_image = at.n + 1;
            out.first = {at.d, at.h, c.first_column};
            out.last = {at.d + 1, at.h + run, c.last_column};
            const staging_box box = reads_of(r.axes, shape::side::small, out, r.large_floats());
            from = {.large = staging, .in = box.strides(), .origin = box.origin()};
            if (r.common) {
                stage_channels(large, r.large, box, r.large_channels, staging);
            } else {
                const std::int64_t outputs = r.shared ? 1 : r.small_channels;  // shared ones are found in the tile
                const std::int64_t inputs = r.shared ? 1 : r.large_channels;
                stage_across_groups(large, r.large, box, first_lane, used, outputs, inputs, r.panel_width, staging);
                from.in[1] = r.panel_width;
            }
        } else {  // floats, or what kernels of windows that slide widen
            from = {.large = reinterpret_cast<const float*>(r.common ? large : large + first_lane), .in = r.large};
        }
        if (stage_small) {
            from.column_step = r.panel_width;
            from.line_step = c.columns() * r.panel_width;
            from.small = packed + (line - c.first_line) * from.line_step;
        } else {
            from.column_step = r.small[4];
            from.line_step = r.small[3];
            from.small = reinterpret_cast<const float*>(small + first_lane + at.offset(r.small, c.first_column));
        }
        const sliding_sums_kernels& kernels =
            stage_large ? sliding_sums_of<operand::vector> : sliding_sums_of<lane_operand<T>>;
        add_lines_channelwise(r, c, at, run, used, from, kernels, list, chunk_sum);
        line += run;
        at.h += run - 1;
        at.advance(r.axes);
    }
}

/// One task of the channelwise path.
template <class T>
void reduce_channelwise(const reduce_plan& r, const T* large, const T* small, std::int64_t task,
                        std::byte* slice) noexcept {
    auto* chunk_sum = reinterpret_cast<float*>(slice + r.at_chunk);
    auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
    auto* total = reinterpret_cast<float*>(slice + r.at_total);
    const std::int64_t first_panel = task * r.task_panels;
    const std::int64_t panels = std::min(r.task_panels, r.panels - first_panel);
    // Where windows slide in place, whole panels go together, as they lie in memory.
    const std::int64_t first_lane = first_panel * r.panel_width;
    const std::int64_t whole_panels = (r.groups * r.small_channels - first_lane) / r.panel_width;
    const std::int64_t together = r.sliding && !r.staged ? std::min(panels, whole_panels) : 0;
    for (std::int64_t i = 0; i < r.chunks.count; ++i) {
        if (together > 0) add_chunk_channelwise(r, large, small, r.chunks[i], first_panel, together, slice, chunk_sum);
        for (std::int64_t p = together; p < panels; ++p)
            add_chunk_channelwise(r, large, small, r.chunks[i], first_panel + p, 1, slice,
                                  chunk_sum + p * r.panel_floats());
        fold(chunk_sum, sum, r.sum_floats);
        if (r.two_levels() && ((i + 1) % chunks_per_sum == 0 || i + 1 == r.chunks.count))
            fold(sum, total, r.sum_floats);
    }
}

/// Sends the sums [panel][tap][l][lane] of a channelwise task to the tensor.
template <class G>
void store_channelwise(const reduce_plan& r, const float* sum, std::int64_t task, G* diff_weights) noexcept {
    const std::int64_t last_panel = std::min((task + 1) * r.task_panels, r.panels);
    for (std::int64_t panel = task * r.task_panels; panel < last_panel; ++panel) {
        const std::int64_t first_lane = panel * r.panel_width;
        const std::int64_t used = std::min(r.panel_width, r.groups * r.small_channels - first_lane);
        for (std::int64_t d = 0; d < r.axes[0].kernel; ++d)
            for (std::int64_t h = 0; h < r.axes[1].kernel; ++h)
                for (std::int64_t x = 0; x < r.axes[2].kernel; ++x, sum += r.large_channels * r.panel_width)
                    unpack_lanes(sum, r.panel_width, used, r.large_channels,
                                 diff_weights + first_lane * r.weights[0] + d * r.weights[2] + h * r.weights[3] +
                                     x * r.weights[4],
                                 r.weights[0], r.weights[1], r.accumulate);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
