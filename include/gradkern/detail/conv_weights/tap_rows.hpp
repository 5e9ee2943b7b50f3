// What the paths whose tiles have taps for rows share: few_channels, grouped, depthwise, across_groups,
// depthwise_sliding. The channels l of a group are too few to fill the rows of a tile. Loops, outermost first:
//
//     task       some panels of lanes s, over all groups
//     chunk      at most 256 pixels of the small side, packed or in place
//     panel      one, or several that are fused (depthwise_sliding)
//     lines      those of one plane: the large side's lines that they meet, packed or in place
//     row taps   lines that meet the same row taps: these taps are rows of the same tiles
//     columns    column taps that meet the same pixels
//     tile       rows (tap, l): one call sums the pixels of all these lines
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/tasks.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

struct tap_rows_plan : task_plan {
    algorithm path = algorithm::automatic;
    source large_source = source::packed;
    std::int64_t pixel_floats = 0;  // of the large side, packed
    std::int64_t at_chunk = 0;

    constexpr tap_rows_plan() noexcept = default;
    /// `width`: lanes of a panel; `floats`: pixel_floats.
    GRADKERN_NOINLINE constexpr tap_rows_plan(const tensors& t, algorithm name, std::int64_t width, source large_from,
                                              source small_from, std::int64_t floats) noexcept
        : task_plan(t, t.groups * t.small_channels, width), path(name), large_source(large_from), pixel_floats(floats) {
        small_source = small_from;
    }

    /// Lanes of panels [first, first + count).
    [[nodiscard]] constexpr std::int64_t lanes_of(std::int64_t first, std::int64_t count) const noexcept {
        return std::min(count * panel_width, groups * small_channels - first * panel_width);
    }
    /// Whether every panel is whole vectors. Others are packed: vectors would leave the tensor.
    [[nodiscard]] constexpr bool has_whole_panels() const noexcept {
        const std::int64_t rest = groups * small_channels % panel_width;
        return rest == 0 || fills_tile(rest);
    }
    /// Sums of one panel.
    [[nodiscard]] constexpr std::int64_t panel_floats() const noexcept { return taps() * large_channels * panel_width; }
    /// Floats of the large side that are packed at a time.
    [[nodiscard]] GRADKERN_NOINLINE constexpr std::int64_t packed_floats() const noexcept {
        if (large_source == source::in_place && (groups == 1 || has_whole_panels())) return 0;
        const std::array<std::int64_t, 3> extent{1, std::min(chunk_lines(), axes[1].small),
                                                 std::min(chunk_positions, axes[2].small)};
        std::int64_t floats = pixel_floats;
        for (std::size_t i = 0; i < 3; ++i) floats *= reads_at_most(axes[i], shape::side::small, extent[i]);
        return floats;
    }
    /// Whether the packing buffer has a bounded size: of windows far apart it holds what lies between.
    [[nodiscard]] constexpr bool is_bounded() const noexcept {
        return packed_floats() <= target.weight_gradients.most_packed;
    }

    /// The same with tasks and a slice: panels with at most `sums` sums, where channels are neighbours, which read
    /// parts of the same pages.
    [[nodiscard]] constexpr tap_rows_plan with_tasks_of(std::int64_t sums) const noexcept {
        tap_rows_plan plan = *this;
        plan.lay_out(sums);
        return plan;
    }
    GRADKERN_NOINLINE constexpr void lay_out(std::int64_t sums) noexcept {
        if (has_neighbouring_channels()) {
            const std::int64_t fit = std::min(panels, sums / std::max<std::int64_t>(panel_floats(), 1));
            task_panels = shape::even_part(panels, std::clamp<std::int64_t>(fit, 1, 16));
        }
        sum_floats = task_panels * panel_floats();
        slice_layout slice;
        at_small = slice.reserve<float>(
            small_source == source::in_place && has_whole_panels() ? 0 : chunk_pixels() * panel_width);
        at_large = slice.reserve<float>(packed_floats());
        at_chunk = slice.reserve<float>(sum_floats);
        at_list = slice.reserve<k_segment>(chunk_lines());
        reserve_sums(slice, sum_floats);
    }

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return panel_groups(); }
    /// Makes smaller tasks for several workers: three at least. Not for one: tasks of fewer panels read parts of all
    /// lines.
    constexpr void split_for(std::int64_t workers) noexcept {
        if (workers == 1 || panels == 0) return;
        const std::int64_t wanted = std::max<std::int64_t>(workers, 3);
        task_panels = shape::even_part(panels, std::clamp<std::int64_t>(panels / wanted, 1, task_panels));
        sum_floats = task_panels * panel_floats();
    }
};

/// Neighbouring lines of a plane for some lanes, and where tiles read both sides. Offsets of the large side are those
/// of a tensor with the strides `stride`, counted from `origin`; those of the small side count from the first pixel.
struct plane_lines {
    chunk_grid::chunk chunk;
    line_position at;
    std::int64_t lines = 0;
    std::int64_t lanes = 0;
    const float* large = nullptr;  // f32 in name only where kernels read 16 bits
    const float* small = nullptr;
    shape::canonical_strides stride{};
    std::int64_t origin = 0;
    std::int64_t column_step = 0;
    std::int64_t line_step = 0;
    k_segment* list = nullptr;
};

/// The steps that are a path's own. One instance of the loops serves all paths.
template <class T>
struct tap_rows_steps {
    /// Packs a box of the large side for `lanes` lanes from `first_lane` on.
    void (*pack_large)(const tap_rows_plan&, const T* large, const packed_box& box, std::int64_t first_lane,
                       std::int64_t lanes, float* to) noexcept;
    /// Adds the products of some lines to the sums of a panel, [tap][l][lane], where the large side is packed.
    void (*add_lines)(const tap_rows_plan&, const plane_lines&, float* sum) noexcept;
    /// The same where it is read in place.
    void (*add_lines_in_place)(const tap_rows_plan&, const plane_lines&, float* sum) noexcept;
    std::int64_t fused_panels = 1;  // whole panels that it takes at most
};

/// How the rows of a tile become sums.
struct row_tiles {
    std::int64_t most = 0;      // rows of a tile
    std::int64_t unit = 1;      // of rows
    std::int64_t channels = 1;  // rows of one tap
    const tile_function* kernels = nullptr;
    /// Runs the kernels for the rows of `call`, whose pointers it may change.
    void (*run)(const tap_rows_plan&, const row_tiles&, tile_call& call, const float** a, float** c,
                std::int64_t lanes) noexcept = nullptr;
};

/// row_tiles::run where a row is all there is of a tap and a channel.
inline void run_row_tile(const tap_rows_plan&, const row_tiles& tiles, tile_call& call, const float**, float**,
                         std::int64_t) noexcept {
    tiles.kernels[call.rows - 1](call);
}

/// tap_rows_steps::add_lines by tiles of rows (tap, channel). Whatever the types of the tensors: compiled once.
GRADKERN_NOINLINE inline void add_lines_by_rows(const tap_rows_plan& p, const plane_lines& l, const row_tiles& tiles,
                                                float* sum) noexcept {
    const shape::tap_sequence planes = p.axes[0].inside_taps(l.at.d);
    const std::int64_t first_read = l.at.n * l.stride[0] - l.origin;
    shape::tap_class_walk classes(p.axes[1], shape::side::small, l.at.h, l.at.h + l.lines);
    for (shape::tap_class h; planes.count > 0 && classes.next(h);) {
        if (h.taps == 0) continue;
        tap_group w;
        for (std::int64_t kw = 0; kw < p.axes[2].kernel; kw += w.taps) {
            w = tap_group_at(p.axes[2], kw, l.chunk);
            if (w.columns() == 0) continue;
            // the pixels of all taps of this class and this group: one segment a line
            const std::int64_t b_first =
                (h.first_position - l.at.h) * l.line_step + (w.first - l.chunk.first_column) * l.column_step;
            for (std::int64_t i = 0; i < h.positions; ++i)
                l.list[i] = {i * h.read_per_position * l.stride[3], i * l.line_step + b_first, w.columns()};
            std::array<std::int64_t, 4> t{};  // of a row: plane tap, row tap, column tap, channel
            split_rows(
                planes.count * h.taps * w.taps * tiles.channels, tiles.most, tiles.unit, [&](std::ptrdiff_t count) {
                    std::array<const float*, most_rows> a;
                    std::array<float*, most_rows> c;
                    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
                        const std::int64_t d = planes.first + t[0];
                        a[row] = l.large + (first_read + p.axes[0].position(l.at.d, d) * l.stride[2] +
                                            (h.first_read + t[1] * h.read_per_tap) * l.stride[3] +
                                            p.axes[2].position(w.first, kw + t[2]) * l.stride[4] + t[3] * l.stride[1]);
                        const std::int64_t tap =
                            (d * p.axes[1].kernel + h.first_tap + t[1]) * p.axes[2].kernel + kw + t[2];
                        c[row] = sum + (tap * p.large_channels + t[3]) * p.panel_width;
                        if (++t[3] < tiles.channels) continue;
                        t[3] = 0;
                        if (++t[2] < w.taps) continue;
                        t[2] = 0;
                        if (++t[1] < h.taps) continue;
                        t[1] = 0;
                        ++t[0];
                    }
                    tile_call call{.list = l.list,
                                   .count = static_cast<std::ptrdiff_t>(h.positions),
                                   .rows = count,
                                   .a = a.data(),
                                   .a_step = p.axes[2].stride_in(l.stride[4]),
                                   .b = l.small,
                                   .b_step = l.column_step,
                                   .c = c.data(),
                                   .c_step = p.panel_width,
                                   .mode = tile_mode::resume};
                    tiles.run(p, tiles, call, a.data(), c.data(), l.lanes);
                });
        }
    }
}

/// Adds the products of one chunk to the sums of `panels` panels.
template <class T>
void add_panels(const tap_rows_plan& p, const tap_rows_steps<T>& steps, const T* large, const T* small,
                const chunk_grid::chunk& chunk, std::int64_t first_panel, std::int64_t panels, std::byte* slice,
                float* sum) noexcept {
    auto* const packed_small = array_at<float>(slice, p.at_small);
    auto* const packed_large = array_at<float>(slice, p.at_large);
    const std::int64_t first_lane = first_panel * p.panel_width;
    const std::int64_t lanes = p.lanes_of(first_panel, panels);
    const bool whole = panels > 1 || fills_tile(lanes);
    const bool packs_large = p.large_source == source::packed || (p.groups > 1 && !whole);
    const bool packs_small = p.small_source == source::packed || !whole;
    if (packs_small) pack_chunk(p, small + first_lane * p.small[1], chunk, lanes, 0, packed_small);

    plane_lines l{.chunk = chunk,
                  .at = line_position(p.axes, chunk.first_line),
                  .lanes = lanes,
                  .stride = p.large,
                  .column_step = packs_small ? p.panel_width : p.small[4],
                  .line_step = packs_small ? chunk.columns() * p.panel_width : p.small[3],
                  .list = array_at<k_segment>(slice, p.at_list)};
    for (std::int64_t line = chunk.first_line; line < chunk.last_line;) {
        l.lines = std::min(chunk.last_line - line, p.axes[1].small - l.at.h);  // of this plane
        if (packs_large) {
            box_grid::item out;
            out.first_image = l.at.n;
            out.last_image = l.at.n + 1;
            out.first = {l.at.d, l.at.h, chunk.first_column};
            out.last = {l.at.d + 1, l.at.h + l.lines, chunk.last_column};
            const packed_box box = reads_of(p.axes, shape::side::small, out, p.pixel_floats);
            steps.pack_large(p, large, box, first_lane, lanes, packed_large);
            l.large = packed_large;
            l.stride = box.strides();
            l.stride[1] = p.pixel_floats / p.large_channels;
            l.origin = box.origin();
        } else {  // lanes share the channels of one group, or each has the one beside that of its neighbour
            l.large = reinterpret_cast<const float*>(p.groups == 1 ? large : large + first_lane);
        }
        l.small = packs_small
                      ? packed_small + (line - chunk.first_line) * l.line_step
                      : reinterpret_cast<const float*>(small + first_lane + l.at.offset(p.small, chunk.first_column));
        (packs_large ? steps.add_lines : steps.add_lines_in_place)(p, l, sum);
        line += l.lines;
        l.at.advance(p.axes, l.lines);
    }
}

/// Computes the sums of one task.
template <class T>
void add_tap_rows(const tap_rows_plan& p, const tap_rows_steps<T>& steps, const T* large, const T* small,
                  std::int64_t task, std::byte* slice) noexcept {
    auto* const chunk_sum = array_at<float>(slice, p.at_chunk);
    const std::int64_t first_panel = task * p.task_panels;
    const std::int64_t panels = std::min(p.task_panels, p.panels - first_panel);
    const std::int64_t whole_panels = p.lanes_of(first_panel, panels) / p.panel_width;
    const std::int64_t most = p.large_source == source::in_place ? steps.fused_panels : 1;
    own::fill(chunk_sum, chunk_sum + p.sum_floats, 0.0F);
    for (std::int64_t i = 0; i < p.chunks.count; ++i) {
        for (std::int64_t panel = 0, fused = 0; panel < panels; panel += fused) {
            fused = std::clamp<std::int64_t>(whole_panels - panel, 1, most);
            add_panels(p, steps, large, small, p.chunks[i], first_panel + panel, fused, slice,
                       chunk_sum + panel * p.panel_floats());
        }
        fold(chunk_sum, array_at<float>(slice, p.at_sum), p.sum_floats);
        p.close_chunk(i, slice);
    }
}

/// Sends the sums [panel][tap][l][lane] of a task to the tensor.
template <class G>
void store_task(const tap_rows_plan& p, const float* sum, std::int64_t task, G* diff_weights) noexcept {
    const std::int64_t last_panel = std::min((task + 1) * p.task_panels, p.panels);
    for (std::int64_t panel = task * p.task_panels; panel < last_panel; ++panel) {
        G* const to = diff_weights + panel * p.panel_width * p.weights[0];
        for (std::int64_t d = 0; d < p.axes[0].kernel; ++d)
            for (std::int64_t h = 0; h < p.axes[1].kernel; ++h)
                for (std::int64_t x = 0; x < p.axes[2].kernel; ++x, sum += p.large_channels * p.panel_width)
                    unpack_lanes(sum, p.panel_width, p.lanes_of(panel, 1), p.large_channels,
                                 to + d * p.weights[2] + h * p.weights[3] + x * p.weights[4], p.weights[0],
                                 p.weights[1], p.accumulate);
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
