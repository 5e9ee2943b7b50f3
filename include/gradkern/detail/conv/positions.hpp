// The positionwise path of the gather engine: lanes hold neighbouring positions, rows of the tile output channels. It
// serves output channels that would leave many lanes empty, and 1x1 kernels where channels lie apart: those need no
// transposing then (lines_pay_off, points_pay_off in conv/paths.hpp). Block, class and part are those of gather.hpp; a task
// is some panels of output channels of one group, whose rows are the tile's. Loops:
//
//     points              block (staged, or of an image in place) > panel > segment > tile > part > stretch
//     all others          block (staged) > panel > class of columns > class of planes > class of rows > image > plane >
//                         line > tile > part > stretch
//
//     kernels             1x1 ("points")                               all others
//     positions           of all lines and images in one line          of a line of outputs
//     class               one                                          of columns: neighbours read neighbours
//     border              none                                         a class of one column has rows in the lanes, where
//                                                                      there are enough: its columns are turned into lines
//     segment             as many positions as the tile has lanes; lanes behind the last one compute what nobody reads
//     stretch             as in gather.hpp: channels innermost
//     staged as           [channel][position]                          [image][plane][row][channel][column]
//
// Staged are f32 or pairs of bf16. Weights are packed as [output channel][block of 64 k][tap][k]; those of points are read in
// place where they are f32 and neighbours along the reduction. Sums of whole tiles go straight into an f32 tensor, or, of pairs
// in one part, rounded into one of bf16; others by way of a buffer of a few tiles that follow one another.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/conv/reduction.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/points.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Kernels for a few rows: one vector wide, two, as wide as can be, and of three rows as wide as the lines of an image. The
/// narrow ones are those of all tiles.
template <operand A, int Rows>
inline constexpr std::array<tile_function, 4> position_tiles{
    {&register_tile<A, kernel_rows(Rows, row_unit<A>), 1>, &register_tile<A, kernel_rows(Rows, row_unit<A>), 2>,
     &register_tile<A, Rows, position_vectors(Rows)>,
     &register_tile<A, Rows, Rows == 3 ? image_vectors : position_vectors(Rows)>}};

/// Rows of a panel at most.
inline constexpr std::int64_t max_panel_rows = std::max<std::int64_t>(position_rows, tile_rows);
/// Sums of the tiles of a call that go by way of a buffer, at most: a few tiles.
inline constexpr std::int64_t max_tile_sums = 2048;
static_assert(max_tile_sums >= std::max(12, 3 * image_vectors) * simd::lanes &&
              max_tile_sums >= tile_rows * tile_lanes);

/// A kernel and the columns it computes.
struct position_tile {
    tile_function run;
    std::int64_t width;
};

/// The kernel for some rows where `left` columns are left. `few`: all output channels are rows of one tile, which may
/// then be wide; else tiles of all panels are equally wide.
template <operand A>
[[nodiscard]] inline position_tile position_tile_for(std::size_t rows, std::int64_t left, bool few) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    static_assert(position_rows == 4);
    if (!few) {
        const std::int64_t width = kernel_vectors(left) * lanes;
        return {tiles_for<A>(width)[rows - 1], width};
    }
    const auto& tiles = rows == 1   ? position_tiles<A, 1>
                        : rows == 2 ? position_tiles<A, 2>
                        : rows == 3 ? position_tiles<A, 3>
                                    : position_tiles<A, 4>;
    if (left <= lanes) return {tiles[0], lanes};
    if (left <= 2 * lanes) return {tiles[1], 2 * lanes};
    const std::int64_t vectors = (left + lanes - 1) / lanes;
    if (rows == 3 && vectors >= image_vectors && vectors % position_vectors(3) != 0)
        return {tiles[3], image_vectors * lanes};
    return {tiles[2], position_vectors(static_cast<int>(rows)) * lanes};
}

/// The output channels of a panel: the rows of its tiles.
template <class T>
struct position_panel {
    const gather_plan& g;
    std::int64_t first = 0;  // of all groups
    std::size_t rows = 0;
    const float* weights = nullptr;  // of the first, packed or in place
    std::int64_t weights_step = 0;   // from channel to channel
    const void* bias = nullptr;      // of channel 0
    T* dst = nullptr;                // of the first

    /// Whether tiles write straight into a tensor where columns lie `step` apart.
    [[nodiscard]] bool is_direct(std::int64_t step) const noexcept {
        return (std::is_same_v<T, float> || g.pairs_round()) && step == 1 && !g.accumulate && bias == nullptr;
    }

    /// Computes the next columns, `left` of them or as many as the tiles of a call have, and returns their number. Several
    /// tiles belong to the first run. Whole tiles are read at `source`. The runs tell where the columns belong, which lie
    /// `step` apart there; they must hold all of them.
    std::int64_t compute(const float* source, std::int64_t left, const reduction_list& reduction, const point_run* runs,
                         std::int64_t step) const noexcept {
        const bool few = g.out_channels <= position_rows;
        position_tile tile = position_tile_for<operand::scalar>(rows, left, few);
        if constexpr (has_pairs<T>) {
            if (g.pairs) tile = position_tile_for<operand::pair>(rows, left, few);
        }
        const bool direct = is_direct(step) && tile.width <= runs->count;
        const std::int64_t most = direct ? left : max_tile_sums / static_cast<std::int64_t>(rows);
        const std::int64_t tiles = std::max<std::int64_t>(std::min({left, runs->count, most}) / tile.width, 1);
        alignas(64) std::array<float, static_cast<std::size_t>(max_tile_sums)> sums;
        std::array<const float*, static_cast<std::size_t>(max_panel_rows)> w;
        std::array<float*, static_cast<std::size_t>(max_panel_rows)> c;
        for (std::size_t j = 0; j < rows; ++j) {
            const auto row = static_cast<std::int64_t>(j);
            w[j] = weights + row * weights_step;
            c[j] = sums.data() + row * tiles * tile.width;
            if (direct) c[j] = reinterpret_cast<float*>(dst + (runs->offset + row * g.out[1]));
        }
        tile_call call{.list = reduction.list,
                       .rows = static_cast<std::ptrdiff_t>(rows),
                       .a = w.data(),
                       .a_step = reduction.a_step,
                       .b = source,
                       .b_step = reduction.b_step,
                       .c = c.data(),
                       .rounds = direct && g.pairs,
                       .tiles = tiles,
                       .b_next = tile.width,
                       .c_next = tile.width};
        for (std::ptrdiff_t part = 0; part < reduction.part_count; ++part) {
            call.count = reduction.parts[part];
            call.mode = part == 0 ? tile_mode::set : tile_mode::add;
            tile.run(call);
            call.list += call.count;
        }
        const std::int64_t columns = std::min(left, tiles * tile.width);
        for (std::size_t j = 0; j < rows && !direct; ++j)
            store(static_cast<std::int64_t>(j), c[j], columns, runs, step);
        return columns;
    }

private:
    void store(std::int64_t row, float* sums, std::int64_t columns, const point_run* run,
               std::int64_t step) const noexcept {
        if (bias != nullptr) {
            const float b = load_as_float(bias, g.bias_type, (first + row) * g.bias_step);
            for (std::int64_t i = 0; i < columns; ++i) sums[i] += b;
        }
        for (std::int64_t i = 0; i < columns; i += run->count, ++run) {
            const std::int64_t n = std::min(run->count, columns - i);
            unpack_lanes(sums + i, n, n, 1, dst + (run->offset + row * g.out[1]), step, 0, g.accumulate);
        }
    }
};

/// Lines of a box of inputs, the first channel of which `src` points to: [image][plane][row][channel][column].
template <class T>
inline void stage_lines(const gather_plan& g, const T* src, const staging_box& read, std::int64_t pitch,
                        float* to) noexcept {
    const std::int64_t row = g.terms * pitch;
    for (std::int64_t n = 0; n < read.images; ++n)
        for (std::int64_t d = 0; d < read.extent[0]; ++d, to += read.extent[1] * row) {
            const T* const plane = src + (read.first_image + n) * g.in[0] + (read.first[0] + d) * g.in[2] +
                                   read.first[1] * g.in[3] + read.first[2] * g.in[4];
            if (g.in[4] == 1 && !g.pairs) {  // rows of a channel follow one another
                const std::int64_t elements = read.extent[1] * read.extent[2];
                for (std::int64_t k = 0; k < g.in_channels; ++k) {
                    // No CPU fetches ahead from channel to channel.
                    for (std::int64_t i = 0; i < elements && k + target.prefetch.packed_channels < g.in_channels;
                         i += simd::line_elements<T>)
                        simd::prefetch(plane, (k + target.prefetch.packed_channels) * g.in[1] + i);
                    pack_lanes(plane + k * g.in[1], 1, read.extent[2], g.in[3], read.extent[1], to + k * pitch, row);
                }
                continue;
            }
            for (std::int64_t h = 0; h < read.extent[1]; ++h) {
                const T* const line = plane + h * g.in[3];
                if (!g.pairs) {
                    pack_lanes(line, g.in[4], read.extent[2], g.in[1], g.in_channels, to + h * row, pitch);
                } else if constexpr (has_pairs<T>) {
                    pack_row_pairs(line, g.in[4], read.extent[2], g.in[1], g.in_channels, to + h * row, pitch);
                }
            }
        }
}

/// The staged columns that a class of one column reads, as lines: [image][plane][tap][channel][row].
inline void turn_columns(const gather_plan& g, const float* staging, const staging_box& read, std::int64_t pitch,
                         const shape::tap_class& column, float* to, std::int64_t to_pitch) noexcept {
    for (std::int64_t plane = 0; plane < read.images * read.extent[0]; ++plane) {
        for (std::int64_t k = 0; k < g.terms; ++k)  // the taps of a line of the cache together
            for (std::int64_t t = 0; t < column.taps; ++t) {
                const float* const from =
                    staging + (column.first_read + t * column.read_per_tap - read.first[2] + k * pitch);
                float* const line = to + (t * g.terms + k) * to_pitch;
                for (std::int64_t h = 0; h < read.extent[1]; ++h) line[h] = from[h * g.terms * pitch];
            }
        staging += read.extent[1] * g.terms * pitch;
        to += column.taps * g.terms * to_pitch;
    }
}

/// One panel over the staged points of a block.
template <class T>
inline void compute_points(const position_panel<T>& panel, const float* staging, std::int64_t first, std::int64_t count,
                           const reduction_list& reduction) noexcept {
    const gather_plan& g = panel.g;
    point_walk outputs(g.batch, g.extents(), g.out, first);
    std::array<point_run, 8 * simd::lanes> runs;  // a tile has no more columns
    point_run rest;                               // of the last run
    for (std::int64_t at = 0; at < count;) {
        std::int64_t columns = 0;
        for (point_run* run = runs.data(); columns < std::min(g.segment, count - at); ++run) {
            if (rest.count == 0) rest = outputs.next(count - at - columns);
            // several tiles, or a part of one
            const std::int64_t tiles = columns == 0 ? rest.count / g.segment : 0;
            *run = {rest.offset, tiles > 0 ? tiles * g.segment : std::min(rest.count, g.segment - columns)};
            rest.offset += run->count * outputs.step();
            rest.count -= run->count;
            columns += run->count;
        }
        for (const std::int64_t end = at + columns; at < end;) {
            const std::int64_t done = panel.compute(staging + at, end - at, reduction, runs.data(), outputs.step());
            at += done;
            runs[0].offset += done * outputs.step();
            runs[0].count -= done;
        }
    }
}

/// One panel over the outputs of a box whose columns are one class. The inputs `read` begin at `source` with strides `in`;
/// positions of `lane_axis`, whose stride there is 1, lie in the lanes. One body for both axes: not inlined.
template <class T>
GRADKERN_NOINLINE void compute_columns(const position_panel<T>& panel, const float* source, const staging_box& read,
                                       const shape::canonical_strides& in, std::size_t lane_axis,
                                       const shape::tap_class& columns, const box_grid::item& box,
                                       reduction_list& reduction) noexcept {
    const gather_plan& g = panel.g;
    std::array<shape::tap_class, 3> c{{{}, {}, columns}};
    const shape::tap_class& lane = c[lane_axis];
    const shape::tap_class& line = c[3 - lane_axis];
    shape::tap_class_walk planes(g.axes[0], g.outputs, box.first[0], box.last[0]);
    while (planes.next(c[0])) {
        shape::tap_class_walk rows(g.axes[1], g.outputs, box.first[1], box.last[1]);
        while (rows.next(c[1])) {
            fill_reduction(g, c, in, in[1], reduction);
            swap_operands(reduction);
            std::int64_t from = 0;
            std::int64_t to = 0;
            for (std::size_t i = 0; i < 3; ++i) {
                from += (c[i].first_read - read.first[i]) * in[2 + i];
                to += c[i].first_position * g.out[2 + i];
            }
            const std::int64_t step = lane.position_step * g.out[2 + lane_axis];
            for (std::int64_t n = 0; n < read.images; ++n)
                for (std::int64_t d = 0; d < c[0].positions; ++d)
                    for (std::int64_t l = 0; l < line.positions; ++l) {
                        const float* at = source + from + n * in[0] + d * c[0].read_per_position * in[2] +
                                          l * line.read_per_position * in[5 - lane_axis];
                        point_run run{to + (read.first_image + n) * g.out[0] + d * c[0].position_step * g.out[2] +
                                          l * line.position_step * g.out[5 - lane_axis],
                                      lane.positions};
                        while (run.count > 0) {
                            const std::int64_t done = panel.compute(at, run.count, reduction, &run, step);
                            at += done;
                            run.offset += done * step;
                            run.count -= done;
                        }
                    }
        }
    }
}

/// One panel over the staged lines of a box, all columns of a class after the other: what a row reads of one is soon gone
/// from L1 in any order. `turned` has room for the columns that a class of one column reads.
template <class T>
inline void compute_lines(const position_panel<T>& panel, const float* staging, std::int64_t pitch,
                          const staging_box& read, const box_grid::item& box, reduction_list reduction,
                          float* turned) noexcept {
    const gather_plan& g = panel.g;
    const auto strides = [&](std::int64_t channel, std::int64_t row, std::int64_t column, std::int64_t plane) {
        return shape::canonical_strides{read.extent[0] * plane, channel, plane, row, column};
    };
    shape::tap_class columns;
    shape::tap_class_walk walk(g.axes[2], g.outputs, box.first[2], box.last[2]);
    while (walk.next(columns)) {
        if (columns.positions > 1 || !g.turned) {
            const std::int64_t row = g.terms * pitch;
            compute_columns(panel, staging, read, strides(pitch, row, 1, read.extent[1] * row), 2, columns, box,
                            reduction);
            continue;
        }
        const std::int64_t turned_pitch = row_pitch(read.extent[1]);
        const std::int64_t column = g.terms * turned_pitch;
        turn_columns(g, staging, read, pitch, columns, turned, turned_pitch);
        columns.first_read = read.first[2];
        columns.read_per_tap = columns.taps > 1 ? 1 : 0;
        compute_columns(panel, turned, read, strides(turned_pitch, 1, column, columns.taps * column), 1, columns, box,
                        reduction);
    }
}

/// Runs a positionwise plan over typed tensors. All checks have passed.
template <class T>
void run_gather_positions(const gather_plan& g, const T* src, const T* weights, const void* bias, T* dst,
                          std::span<std::byte> workspace, executor_ref executor) noexcept {
    const slices memory(workspace, g.slice_bytes);
    run_tasks(executor, g.tasks(), memory, [&](std::byte* slice, auto&& next) {
        auto* packed = reinterpret_cast<float*>(slice + g.at_panel);
        auto* staging = reinterpret_cast<float*>(slice + g.at_staging);
        auto* turned = reinterpret_cast<float*>(slice + g.at_turned);
        reduction_list reduction{reinterpret_cast<stretch*>(slice + g.at_list),
                                 reinterpret_cast<std::ptrdiff_t*>(slice + g.at_parts)};
        std::int64_t staged_key = -1;  // which (block, group) the staging area holds
        std::int64_t packed_key = -1;  // the panels of which task of a block are packed
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t block = task / g.block_tasks();
            const box_grid::item box = g.blocks[block];
            const auto [first_panel, last_panel] = g.panels_of(task % g.block_tasks());
            const std::int64_t group = first_panel / g.panels;
            const std::int64_t first_row = first_panel % g.panels * g.panel_rows;  // of the group
            const std::int64_t rows = std::min((last_panel - first_panel) * g.panel_rows, g.out_channels - first_row);
            const T* const task_weights = weights + (g.w_first + group * g.w_group + first_row * g.w_out);
            if (!g.weights_in_place && packed_key != task % g.block_tasks()) {
                packed_key = task % g.block_tasks();
                if (g.points && !g.pairs) {  // a matrix
                    pack_lanes(task_weights, g.w_reduce, g.in_channels, g.w_out, rows, packed, g.panel_floats);
                } else {
                    for (std::int64_t j = 0; j < rows; ++j)
                        pack_weight_panel(g, weights, group, first_row + j, 1, 1, packed + j * g.panel_floats);
                }
            }

            const T* const from = src + group * g.in_channels * g.in[1];
            const bool stage = staged_key != block * g.groups + group;
            staged_key = block * g.groups + group;
            const std::int64_t in_line = box.first[2] * g.segment;
            const std::int64_t points = std::min(box.last[2] * g.segment, g.line_points()) - in_line;
            const std::int64_t in_place = g.points_in_place ? points / g.segment * g.segment : 0;
            const std::int64_t first_point = (g.points ? box.first_image * g.line_points() : 0) + in_line;
            const std::int64_t first_staged = first_point + in_place;
            const std::int64_t staged_points = points - in_place;
            const staging_box read = g.points ? staging_box{} : reads_of(g.axes, g.outputs, box, g.terms);
            const std::int64_t pitch = row_pitch(g.points ? staged_points : read.extent[2]);
            if (stage && g.points && staged_points > 0) {
                stage_points(from, point_walk(g.batch, g.extents(), g.in, first_staged), staged_points, g.in[1],
                             g.in_channels, g.pairs, staging, pitch);
            } else if (stage && !g.points) {
                stage_lines(g, from, read, pitch, staging);
            }

            const float* panel_weights = packed;
            std::int64_t weights_step = g.panel_floats;
            if constexpr (std::is_same_v<T, float>) {
                if (g.weights_in_place) {
                    panel_weights = task_weights;
                    weights_step = g.w_out;
                }
            }
            // Points are two parts: in place, then staged.
            for (bool staged = in_place == 0;; staged = true) {
                if (g.points) {  // one list for all panels
                    std::array<shape::tap_class, 3> c;
                    for (shape::tap_class& one : c) one.taps = 1;
                    fill_reduction(g, c, {}, staged ? pitch : g.in[1], reduction);
                    swap_operands(reduction);
                }
                const float* source = staging;
                if constexpr (std::is_same_v<T, float>) {
                    if (!staged) source = from + (box.first_image * g.in[0] + in_line);
                }
                for (std::int64_t row = 0; row < rows; row += g.panel_rows) {
                    const std::int64_t first = group * g.out_channels + first_row + row;
                    const position_panel<T> panel{.g = g,
                                                  .first = first,
                                                  .rows = static_cast<std::size_t>(std::min(g.panel_rows, rows - row)),
                                                  .weights = panel_weights + row * weights_step,
                                                  .weights_step = weights_step,
                                                  .bias = bias,
                                                  .dst = dst + first * g.out[1]};
                    if (g.points) {
                        compute_points(panel, source, staged ? first_staged : first_point,
                                       staged ? staged_points : in_place, reduction);
                    } else {
                        compute_lines(panel, source, pitch, read, box, reduction, turned);
                    }
                }
                if (staged || staged_points == 0) break;
            }
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
