// The positionwise path of the gather engine, for a few output channels: lanes hold neighbouring positions of a line, rows
// of the tile output channels. Block, class and part are those of gather.hpp; a task is one panel of at most four
// output channels of one group. Per line of outputs:
//
//     class      of columns: neighbours read neighbours, so that a tap is one run of the staged line it reads
//     segment    as many columns as the tile has lanes; lanes behind the last column compute what nobody reads
//     part       as in gather.hpp, in the same order: channels innermost
//
// Activations are staged by lines: f32, [image][plane][row][channel][column]. Weights: [output channel][block of 64 k]
// [tap][k]. A line of results waits in a buffer until all its classes are done.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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

/// The widest tile for some rows, in vectors: a dozen accumulators.
[[nodiscard]] constexpr int position_vectors(int rows) noexcept { return rows == 1 ? 8 : 12 / rows; }

/// Kernels for a number of rows: one vector wide, two, and as wide as can be.
template <int Rows>
inline constexpr std::array<tile_function, 3> position_tiles{
    {&register_tile<operand::scalar, Rows, 1>, &register_tile<operand::scalar, Rows, 2>,
     &register_tile<operand::scalar, Rows, position_vectors(Rows)>}};

/// The same for a number of rows in [1, position_rows].
[[nodiscard]] inline const std::array<tile_function, 3>& position_tiles_for(std::int64_t rows) noexcept {
    static_assert(position_rows == 4);
    switch (rows) {
        case 1: return position_tiles<1>;
        case 2: return position_tiles<2>;
        case 3: return position_tiles<3>;
        default: return position_tiles<4>;
    }
}

/// Runs a positionwise plan over typed tensors. All checks have passed.
template <class T>
void run_gather_positions(const gather_plan& g, const T* src, const T* weights, const void* bias, T* dst,
                          std::span<std::byte> workspace, executor_ref executor) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const slices memory(workspace, g.slice_bytes);
    run_tasks(executor, g.tasks(), memory, [&](std::byte* slice, auto&& next) {
        auto* panel = reinterpret_cast<float*>(slice + g.at_panel);
        auto* staging = reinterpret_cast<float*>(slice + g.at_staging);
        auto* line = reinterpret_cast<float*>(slice + g.at_results);
        reduction_list reduction{reinterpret_cast<stretch*>(slice + g.at_list),
                                 reinterpret_cast<std::ptrdiff_t*>(slice + g.at_parts)};
        std::int64_t staged = -1;  // which (block, group) the staging area holds
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t first_row = task % g.panels * position_rows;
            const std::int64_t group = task / g.panels % g.groups;
            const box_grid::item box = g.blocks[task / g.block_tasks()];
            const std::int64_t rows = std::min(position_rows, g.out_channels - first_row);
            for (std::int64_t j = 0; j < rows; ++j)
                pack_weight_panel(g, weights, group, first_row + j, 1, panel + j * g.panel_floats);

            const staging_box read = reads_of(g.axes, g.outputs, box, g.in_channels);
            const std::int64_t pitch = position_pitch(read.extent[2]);
            const std::int64_t row = g.in_channels * pitch;
            const shape::canonical_strides in{read.extent[0] * read.extent[1] * row, pitch, read.extent[1] * row, row,
                                              1};
            if (staged != task / g.panels) {
                staged = task / g.panels;
                const T* const from = src + group * g.in_channels * g.in[1];
                float* to = staging;
                for (std::int64_t n = 0; n < read.images; ++n)
                    for (std::int64_t d = 0; d < read.extent[0]; ++d)
                        for (std::int64_t h = 0; h < read.extent[1]; ++h, to += row)
                            pack_lanes(from + (read.first_image + n) * g.in[0] + (read.first[0] + d) * g.in[2] +
                                           (read.first[1] + h) * g.in[3] + read.first[2] * g.in[4],
                                       g.in[4], read.extent[2], g.in[1], g.in_channels, to, pitch);
            }
            const std::int64_t origin =
                read.first_image * in[0] + read.first[0] * in[2] + read.first[1] * in[3] + read.first[2];

            // The results of one line: [output channel][column], and how they reach the tensor.
            const std::int64_t columns = box.last[2] - box.first[2];
            const std::int64_t first_channel = group * g.out_channels + first_row;
            const auto store_line = [&](std::int64_t offset) {
                for (std::int64_t j = 0; j < rows; ++j) {
                    float* const results = line + j * columns;
                    if (bias != nullptr) {
                        const float b = load_as_float(bias, g.bias_type, (first_channel + j) * g.bias_step);
                        for (std::int64_t x = 0; x < columns; ++x) results[x] += b;
                    }
                    unpack_lanes(results, columns, columns, 1, dst + offset + (first_channel + j) * g.out[1], g.out[4],
                                 0, g.accumulate);
                }
            };

            const auto& tiles = position_tiles_for(rows);
            const std::int64_t widest = position_vectors(static_cast<int>(rows)) * lanes;
            std::array<const float*, position_rows> w{};
            for (std::size_t j = 0; j < static_cast<std::size_t>(rows); ++j)
                w[j] = panel + static_cast<std::int64_t>(j) * g.panel_floats;
            alignas(64) std::array<float, static_cast<std::size_t>(12 * lanes)> sums;
            // Columns of one class, whose first one reads at `source`.
            const auto compute = [&](const shape::tap_class& c, const float* source) {
                for (std::int64_t x = 0; x < c.positions;) {
                    const std::int64_t left = c.positions - x;
                    const std::int64_t width = left <= lanes ? lanes : left <= 2 * lanes ? 2 * lanes : widest;
                    std::array<float*, position_rows> to{};
                    for (std::size_t j = 0; j < static_cast<std::size_t>(rows); ++j)
                        to[j] = sums.data() + static_cast<std::int64_t>(j) * width;
                    tile_call call{.list = reduction.list,
                                   .a = w.data(),
                                   .a_step = reduction.a_step,
                                   .b = source + x,
                                   .b_step = reduction.b_step,
                                   .c = to.data()};
                    for (std::ptrdiff_t part = 0; part < reduction.part_count; ++part) {
                        call.count = reduction.parts[part];
                        call.mode = part == 0 ? tile_mode::set : tile_mode::add;
                        tiles[width == lanes ? 0 : width == 2 * lanes ? 1 : 2](call);
                        call.list += call.count;
                    }
                    const std::int64_t count = std::min(left, width);
                    float* const at = line + (c.first_position + x * c.position_step - box.first[2]);
                    for (std::int64_t j = 0; j < rows; ++j)
                        for (std::int64_t i = 0; i < count; ++i)
                            at[j * columns + i * c.position_step] = sums[static_cast<std::size_t>(j * width + i)];
                    x += count;
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
                                shape::tap_class_walk walk(g.axes[2], g.outputs, box.first[2], box.last[2]);
                                while (walk.next(c[2])) {
                                    fill_reduction(g, c, in, pitch, reduction);
                                    swap_operands(reduction);
                                    compute(c[2], staging + (from + c[2].first_read));
                                }
                                store_line(n * g.out[0] + (c[0].first_position + d * c[0].position_step) * g.out[2] +
                                           (c[1].first_position + h * c[1].position_step) * g.out[3] +
                                           box.first[2] * g.out[4]);
                            }
                }
            }
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
