// What the paths whose tiles have taps for rows share: few_channels, grouped, depthwise,
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
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/tensor_pointer.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// A plan of these paths. `width`: lanes of a panel; `in_place`: whether they may read both sides there; `floats`:
/// plan::pixel_floats; `sums`: of a task, at most, in floats, where channels are neighbours: its panels read parts of the same
/// pages.
[[nodiscard]] GRADKERN_COLD constexpr plan plan_tap_rows(const problem& p, algorithm name, std::int64_t width,
                                                         bool in_place, std::int64_t floats,
                                                         std::int64_t sums) noexcept {
    plan q(p, name, width, floats);
    if (in_place) q.large_source = source_kind::in_place;
    if (in_place && p.small[1] == 1) q.small_source = source_kind::in_place;
    if (q.small_source == source_kind::in_place && q.panels > 1 && !q.has_whole_panels())
        q.overlap = p.real.lanes - q.lanes() % p.real.lanes;
    q.task_channels = p.large_channels;
    q.task_taps = p.axes[2].kernel;
    if (!in_place || (p.groups > 1 && !q.has_whole_panels())) {
        const std::array<std::int64_t, 3> extent{1, std::min(q.chunk_lines(), p.axes[1].small),
                                                 std::min(chunk_positions, p.axes[2].small)};
        q.packed_floats = floats;
        for (std::size_t i = 0; i < 3; ++i) q.packed_floats *= reads_at_most(p.axes[i], shape::side::small, extent[i]);
    }
    if (p.has_neighbouring_channels()) {
        const std::int64_t fit = std::min(q.panels, p.real.in_memory_of(sums) / q.panel_sums());
        q.task_panels = shape::even_part(q.panels, std::clamp<std::int64_t>(fit, 1, 16));
    }
    q.lay_out();
    return q;
}

/// Whether the packing buffer has a bounded size: of windows far apart it holds what lies between.
[[nodiscard]] constexpr bool is_bounded(const plan& p) noexcept {
    return p.packed_floats <= p.real.in_memory_of(target.weight_gradients.most_packed);
}

/// Neighbouring lines of a plane for some lanes, and where tiles read both sides. Offsets of the large side are those
/// of a tensor with the strides `stride`, counted from `origin`; those of the small side count from the first pixel.
template <class Real>
struct plane_lines {
    chunk_grid::chunk chunk;
    line_position at;
    std::int64_t lines = 0;
    std::int64_t lanes = 0;
    source_kind from = source_kind::packed;  // the large side
    const Real* large = nullptr;             // f32 in name only where kernels read 16 bits
    const Real* small = nullptr;
    shape::canonical_strides stride{};
    std::int64_t origin = 0;
    std::int64_t column_step = 0;
    std::int64_t line_step = 0;
    k_segment* list = nullptr;
    std::int64_t first_row = 0;  // row taps of the task
    std::int64_t last_row = 0;
};

/// A path's own step: adds the products of some lines to the sums of a panel, [tap][l][lane].
template <class Real>
using add_lines_function = void (*)(const plan&, const plane_lines<Real>&, Real* sum) noexcept;

/// How the rows of a tile become sums.
template <class Real>
struct row_tiles {
    std::int64_t most = 0;      // rows of a tile
    std::int64_t unit = 1;      // of rows
    std::int64_t channels = 1;  // rows of one tap
    const tile_function_of<Real>* kernels = nullptr;
    /// Runs the kernels for the rows of `call`, whose pointers it may change; null: each row is all there is of a tap
    /// and a channel.
    void (*run)(const plan&, const tile_function_of<Real>* kernels, tile_call_of<Real>& call, const Real** a, Real** c,
                std::int64_t lanes) noexcept = nullptr;
};

/// add_lines_function by tiles of rows (tap, channel). Whatever the types of the tensors: compiled once.
template <class Real>
GRADKERN_NOINLINE void add_lines_by_rows(const plan& p, const plane_lines<Real>& l, const row_tiles<Real>& tiles,
                                         Real* sum) noexcept {
    const shape::tap_sequence planes = p.axes[0].inside_taps(l.at.d);
    const std::int64_t first_read = l.at.n * l.stride[0] - l.origin;
    shape::tap_class_walk classes(p.axes[1], shape::side::small, l.at.h, l.at.h + l.lines);
    for (shape::tap_class h; planes.count > 0 && classes.next(h);) {
        const std::int64_t first_row = std::max(h.first_tap, l.first_row);
        const std::int64_t last_row = std::min(h.first_tap + h.taps, l.last_row);
        if (first_row >= last_row) continue;
        h.first_read += (first_row - h.first_tap) * h.read_per_tap;
        h.first_tap = first_row;
        h.taps = last_row - first_row;
        for_each_tap_group(p, l.chunk, false, [&](const tap_group& w) {
            // the pixels of all taps of this class and this group: one segment a line
            const std::int64_t b_first =
                (h.first_position - l.at.h) * l.line_step + (w.first - l.chunk.first_column) * l.column_step;
            for (std::int64_t i = 0; i < h.positions; ++i)
                l.list[i] = {i * h.read_per_position * l.stride[3], i * l.line_step + b_first, w.columns()};
            const std::array<std::int64_t, 4> extent{planes.count, h.taps, w.taps, tiles.channels};
            std::array<std::int64_t, 4> t{};  // of a row: plane tap, row tap, column tap, channel
            split_rows(
                extent[0] * extent[1] * extent[2] * extent[3], tiles.most, tiles.unit, [&](std::ptrdiff_t count) {
                    std::array<const Real*, most_rows> a;
                    std::array<Real*, most_rows> c;
                    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
                        const std::int64_t d = planes.first + t[0];
                        a[row] = l.large +
                                 (first_read + p.axes[0].position(l.at.d, d) * l.stride[2] +
                                  (h.first_read + t[1] * h.read_per_tap) * l.stride[3] +
                                  p.axes[2].position(w.first, w.first_tap + t[2]) * l.stride[4] + t[3] * l.stride[1]);
                        const std::int64_t tap =
                            (d * p.axes[1].kernel + h.first_tap + t[1]) * p.axes[2].kernel + w.first_tap + t[2];
                        c[row] = sum + (tap * p.large_channels + t[3]) * p.panel_width;
                        for (std::size_t i = 3; ++t[i] == extent[i] && i > 0; --i) t[i] = 0;
                    }
                    tile_call_of<Real> call{.list = l.list,
                                            .count = static_cast<std::ptrdiff_t>(h.positions),
                                            .rows = count,
                                            .a = a.data(),
                                            .a_step = p.axes[2].stride_in(l.stride[4]),
                                            .b = l.small,
                                            .b_step = l.column_step,
                                            .c = c.data(),
                                            .c_step = p.panel_width,
                                            .mode = tile_mode::resume};
                    if (tiles.run == nullptr) return tiles.kernels[count - 1](call);
                    tiles.run(p, tiles.kernels, call, a.data(), c.data(), l.lanes);
                });
        });
    }
}

/// The same where a row is a number of the large side (few_channels), or a vector of it (depthwise).
template <class Real>
inline void add_lines_by_channels(const plan& p, const plane_lines<Real>& l, Real* sum) noexcept {
    const bool numbers = p.groups == 1;
    add_lines_by_rows<Real>(
        p, l,
        {.most = numbers ? rows_at_most(p.panel_width, simd::lanes_of<Real>) : narrow_rows,
         .unit = numbers ? row_unit<operand::scalar> : 1,  // a vector more would be read for nothing
         .channels = p.large_channels,
         .kernels = numbers ? tiles_for<operand::scalar, row_unit<operand::scalar>, Real>(l.lanes)
                            : tiles_for<operand::vector, 1, Real>(l.lanes)},
        sum);
}

/// Packs a box of the large side for `lanes` lanes from `first_lane` on: the channels of one group, or those of each
/// lane.
template <class Real>
void pack_box(const plan& p, const tensor_pointer<Real>& large, const packed_box& box, std::int64_t first_lane,
              std::int64_t lanes, Real* to) noexcept {
    if (p.groups == 1) return pack_channels(large, p.large, box, p.large_channels, to);
    // grouped: each lane has one number of its group; the kernel finds the others in the register
    const bool one = p.path == algorithm::grouped;
    spread_across_groups(large, p.large, box,
                         {first_lane, lanes, one ? 1 : p.small_channels, one ? 1 : p.large_channels, p.panel_width},
                         to);
}

/// Adds the products of one chunk to the sums of `lanes` lanes, of one panel or several, the first of which is `first_lane`.
template <class Real>
void add_panels(const plan& p, const task& t, add_lines_function<Real> add_lines, const tensor_pointer<Real>& large,
                const tensor_pointer<Real>& small, const chunk_grid::chunk& chunk, std::int64_t first_lane,
                std::int64_t lanes, std::byte* slice, Real* sum) noexcept {
    auto* const packed_small = array_at<Real>(slice, p.at_small);
    auto* const packed_large = array_at<Real>(slice, p.at_large);
    const bool whole = lanes > p.panel_width || fills_tile(lanes, simd::lanes_of<Real>);
    const bool packs_large = p.large_source == source_kind::packed || (p.groups > 1 && !whole);
    const bool packs_small = p.small_source == source_kind::packed || !whole;
    const tensor_pointer<Real> first_small = small + first_lane * p.small[1];
    if (packs_small) pack_chunk(p, first_small, chunk, lanes, 0, packed_small);

    plane_lines<Real> l{
        .chunk = chunk,
        .at = line_position(p.axes, chunk.first_line),
        .lanes = lanes,
        .from = packs_large ? source_kind::packed : source_kind::in_place,
        // in place, lanes share the channels of one group, or each has the one beside that of its neighbour
        .large = packs_large ? packed_large : (p.groups == 1 ? large : large + first_lane).in_place(),
        .stride = p.large,
        .column_step = packs_small ? p.panel_width : p.small[4],
        .line_step = packs_small ? chunk.columns() * p.panel_width : p.small[3],
        .list = array_at<k_segment>(slice, p.at_list),
        .first_row = t.first_row,
        .last_row = t.last_row};
    for (std::int64_t line = chunk.first_line; line < chunk.last_line;) {
        l.lines = std::min(chunk.last_line - line, p.axes[1].small - l.at.h);  // of this plane
        if (packs_large) {
            const box_grid::item out{.first_image = l.at.n,
                                     .last_image = l.at.n + 1,
                                     .first = {l.at.d, l.at.h, chunk.first_column},
                                     .last = {l.at.d + 1, l.at.h + l.lines, chunk.last_column}};
            const packed_box box = reads_of(p.axes, shape::side::small, out, p.pixel_floats);
            pack_box(p, large, box, first_lane, lanes, packed_large);
            l.stride = box.strides();
            l.stride[1] = p.pixel_floats / p.large_channels;
            l.origin = box.origin();
        }
        l.small = packs_small ? packed_small + (line - chunk.first_line) * l.line_step
                              : (first_small + l.at.offset(p.small, chunk.first_column)).in_place();
        add_lines(p, l, sum);
        line += l.lines;
        l.at.advance(p.axes, l.lines);
    }
}

/// Adds some chunks to the sums of a task. depthwise_sliding takes all panels that are read in place at once.
template <class Real>
void add_tap_rows(const plan& p, const task& t, const chunk_grid::range& range, add_lines_function<Real> add_lines,
                  const tensor_pointer<Real>& large, const tensor_pointer<Real>& small, std::byte* slice) noexcept {
    auto* const chunk_sum = array_at<Real>(slice, p.at_chunk);
    const bool fuses = p.path == algorithm::depthwise_sliding && p.large_source == source_kind::in_place;
    p.clear_sums(slice, p.at_chunk);
    for (std::int64_t i = range.first; i < range.last; ++i) {
        for (std::int64_t lane = 0, lanes = 0; lane < t.lanes; lane += lanes) {
            lanes = fuses ? t.lanes - lane : std::min(t.lanes - lane, p.panel_width);
            if (lanes > p.panel_width && p.overlap == 0) lanes -= lanes % p.panel_width;
            const std::int64_t shared = lanes < p.panel_width ? p.overlap : 0;
            add_panels(p, t, add_lines, large, small, p.chunks[i], t.first_lane + lane - shared, lanes + shared, slice,
                       chunk_sum + lane / p.panel_width * p.panel_sums());
        }
        fold(chunk_sum, array_at<Real>(slice, p.at_sum), p.sum_floats());
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
