// The positionwise path of the gather engine: lanes hold neighbouring positions of a line, rows of the tile output
// channels. It serves a few output channels, and 1x1 kernels where positions are neighbours in memory: those need no
// transposing then. Block, class and part are those of gather.hpp; a task is some panels of output channels of one
// group. Per line of outputs:
//
//     class      of columns: neighbours read neighbours, so that a tap is one run of the staged line it reads
//     segment    as many columns as the tile has lanes; lanes behind the last column compute what nobody reads
//     panel      its output channels are the rows of the tile
//     part       as in gather.hpp, in the same order: channels innermost
//
// Activations are staged by lines: f32 or pairs of bf16, [image][plane][row][channel][column]. Weights: [output channel][block of 64 k]
// [tap][k]. Sums of whole tiles go straight into an f32 tensor, others by way of a buffer of one tile.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/plan/gather_plan.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/tile_rows.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The widest tile for a few rows, in vectors: a dozen accumulators.
[[nodiscard]] constexpr int position_vectors(int rows) noexcept { return rows == 1 ? 8 : 12 / rows; }

/// Kernels for a few rows: one vector wide, two, and as wide as can be.
template <operand A, int Rows>
inline constexpr std::array<tile_function, 3> position_tiles{
    {&register_tile<A, Rows, 1>, &register_tile<A, Rows, 2>, &register_tile<A, Rows, position_vectors(Rows)>}};

/// Rows of a panel at most.
inline constexpr std::int64_t max_panel_rows = std::max<std::int64_t>(position_rows, tile_rows);
/// Sums of a tile at most.
inline constexpr std::int64_t max_tile_sums =
    std::max<std::int64_t>(12 * static_cast<std::int64_t>(simd::lanes), std::int64_t{tile_rows} * tile_lanes);

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
        const std::int64_t width = left <= lanes ? lanes : tile_lanes;
        return {tiles_for<A>(width)[rows - 1], width};
    }
    const auto& tiles = rows == 1   ? position_tiles<A, 1>
                        : rows == 2 ? position_tiles<A, 2>
                        : rows == 3 ? position_tiles<A, 3>
                                    : position_tiles<A, 4>;
    if (left <= lanes) return {tiles[0], lanes};
    if (left <= 2 * lanes) return {tiles[1], 2 * lanes};
    return {tiles[2], position_vectors(static_cast<int>(rows)) * lanes};
}

/// Runs a positionwise plan over typed tensors. All checks have passed.
template <class T>
void run_gather_positions(const gather_plan& g, const T* src, const T* weights, const void* bias, T* dst,
                          std::span<std::byte> workspace, executor_ref executor) noexcept {
    const slices memory(workspace, g.slice_bytes);
    run_tasks(executor, g.tasks(), memory, [&](std::byte* slice, auto&& next) {
        auto* panel = reinterpret_cast<float*>(slice + g.at_panel);
        auto* staging = reinterpret_cast<float*>(slice + g.at_staging);
        reduction_list reduction{reinterpret_cast<stretch*>(slice + g.at_list),
                                 reinterpret_cast<std::ptrdiff_t*>(slice + g.at_parts)};
        std::int64_t staged = -1;  // which (block, group) the staging area holds
        std::int64_t packed = -1;  // the panels of which task of a block are packed
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t block = task / g.block_tasks();
            const box_grid::item box = g.blocks[block];
            const auto [first_panel, last_panel] = g.panels_of(task % g.block_tasks());
            const std::int64_t group = first_panel / g.panels;
            const std::int64_t first_row = first_panel % g.panels * g.panel_rows;
            const std::int64_t rows = std::min((last_panel - first_panel) * g.panel_rows, g.out_channels - first_row);
            if (packed != task % g.block_tasks()) {
                packed = task % g.block_tasks();
                for (std::int64_t j = 0; j < rows; ++j)
                    pack_weight_panel(g, weights, group, first_row + j, 1, panel + j * g.panel_floats);
            }

            const staging_box read = reads_of(g.axes, g.outputs, box, g.terms);
            const std::int64_t pitch = position_pitch(read.extent[2]);
            const std::int64_t row = g.terms * pitch;
            const shape::canonical_strides in{read.extent[0] * read.extent[1] * row, pitch, read.extent[1] * row, row,
                                              1};
            if (staged != block * g.groups + group) {
                staged = block * g.groups + group;
                const T* const from = src + group * g.in_channels * g.in[1];
                float* to = staging;
                for (std::int64_t n = 0; n < read.images; ++n)
                    for (std::int64_t d = 0; d < read.extent[0]; ++d)
                        for (std::int64_t h = 0; h < read.extent[1]; ++h, to += row) {
                            const T* const line = from + (read.first_image + n) * g.in[0] +
                                                  (read.first[0] + d) * g.in[2] + (read.first[1] + h) * g.in[3] +
                                                  read.first[2] * g.in[4];
                            if (!g.pairs) {
                                pack_lanes(line, g.in[4], read.extent[2], g.in[1], g.in_channels, to, pitch);
                            } else if constexpr (has_pairs<T>) {
                                pack_row_pairs(line, g.in[4], read.extent[2], g.in[1], g.in_channels, to, pitch);
                            }
                        }
            }
            const std::int64_t origin =
                read.first_image * in[0] + read.first[0] * in[2] + read.first[1] * in[3] + read.first[2];

            const std::int64_t first_channel = group * g.out_channels + first_row;
            T* const first_output = dst + first_channel * g.out[1];
            alignas(64) std::array<float, static_cast<std::size_t>(max_tile_sums)> sums;
            // Columns of one class: the first one reads at `source` and is written to `to`, counted from first_output.
            const auto compute = [&](const shape::tap_class& c, const float* source, std::int64_t to) {
                const std::int64_t step = c.position_step * g.out[4];
                const bool plain = std::is_same_v<T, float> && step == 1 && !g.accumulate && bias == nullptr;
                for (std::int64_t x = 0; x < c.positions;) {
                    const std::int64_t left = c.positions - x;
                    T* const at = first_output + (to + x * step);
                    std::int64_t width = 0;
                    for (std::int64_t first = 0; first < rows; first += g.panel_rows) {
                        const auto count = static_cast<std::size_t>(std::min(g.panel_rows, rows - first));
                        const bool few = g.out_channels <= position_rows;
                        position_tile tile = position_tile_for<operand::scalar>(count, left, few);
                        if constexpr (has_pairs<T>) {
                            if (g.pairs) tile = position_tile_for<operand::pair>(count, left, few);
                        }
                        width = tile.width;
                        std::array<const float*, static_cast<std::size_t>(max_panel_rows)> w{};
                        std::array<float*, static_cast<std::size_t>(max_panel_rows)> c_rows{};
                        const bool direct = plain && width <= left;
                        for (std::size_t j = 0; j < count; ++j) {
                            const auto r = static_cast<std::int64_t>(j);
                            w[j] = panel + (first + r) * g.panel_floats;
                            c_rows[j] = sums.data() + r * width;
                            if constexpr (std::is_same_v<T, float>) {
                                if (direct) c_rows[j] = at + (first + r) * g.out[1];
                            }
                        }
                        tile_call call{.list = reduction.list,
                                       .rows = static_cast<std::ptrdiff_t>(count),
                                       .a = w.data(),
                                       .a_step = reduction.a_step,
                                       .b = source + x,
                                       .b_step = reduction.b_step,
                                       .c = c_rows.data()};
                        for (std::ptrdiff_t part = 0; part < reduction.part_count; ++part) {
                            call.count = reduction.parts[part];
                            call.mode = part == 0 ? tile_mode::set : tile_mode::add;
                            tile.run(call);
                            call.list += call.count;
                        }
                        const std::int64_t columns = std::min(left, width);
                        for (std::size_t j = 0; j < count && !direct; ++j) {
                            const std::int64_t r = first + static_cast<std::int64_t>(j);
                            if (bias != nullptr) {
                                const float b = load_as_float(bias, g.bias_type, (first_channel + r) * g.bias_step);
                                for (std::int64_t i = 0; i < columns; ++i) c_rows[j][i] += b;
                            }
                            unpack_lanes(c_rows[j], columns, columns, 1, at + r * g.out[1], step, 0, g.accumulate);
                        }
                    }
                    x += std::min(left, width);
                }
            };

            std::array<shape::tap_class, 3> c;
            shape::tap_class_walk planes(g.axes[0], g.outputs, box.first[0], box.last[0]);
            while (planes.next(c[0])) {
                shape::tap_class_walk lines(g.axes[1], g.outputs, box.first[1], box.last[1]);
                while (lines.next(c[1])) {
                    for (std::int64_t n = box.first_image; n < box.last_image; ++n)
                        for (std::int64_t d = 0; d < c[0].positions; ++d)
                            for (std::int64_t h = 0; h < c[1].positions; ++h) {
                                const std::int64_t from = n * in[0] - origin +
                                                          (c[0].first_read + d * c[0].read_per_position) * in[2] +
                                                          (c[1].first_read + h * c[1].read_per_position) * in[3];
                                const std::int64_t to = n * g.out[0] +
                                                        (c[0].first_position + d * c[0].position_step) * g.out[2] +
                                                        (c[1].first_position + h * c[1].position_step) * g.out[3];
                                shape::tap_class_walk walk(g.axes[2], g.outputs, box.first[2], box.last[2]);
                                while (walk.next(c[2])) {
                                    fill_reduction(g, c, in, pitch, reduction);
                                    swap_operands(reduction);
                                    compute(c[2], staging + (from + c[2].first_read),
                                            to + c[2].first_position * g.out[4]);
                                }
                            }
                }
            }
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
