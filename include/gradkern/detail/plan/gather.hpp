// The gather engine: forward and data gradients of the convolution family.
//
//     out[n, g * OC + j, q]  =  sum over inside taps t of q, channels k of
//                               in[n, g * IC + k, read(q, t)] * w[g, k, j, t]        (+ bias[g * OC + j])
//
// Loops, outermost first:
//
//     block      a box of output positions (images x planes x rows x columns)
//     panels     of output channels: their weights are packed just before use [block of 64 k][tap][k][lane]
//     class      output positions that share one set of inside taps (shape/axis.hpp): borders need no branch
//     tile       rows of the register tile = positions of one class, from any line or image, by row pointers
//     panel      of a task: one, or many: of groups whose channels share lines of memory, or of windows that share no
//                position
//     part       at most 576 terms (plan/summation.hpp)
//     stretch    (block of 64 channels, tap), channels innermost
//
// Ways to fill the lanes: `dense` takes the output channels of one group and broadcasts activations; `channelwise`
// takes output channels across groups, each lane with the activations of its own group, which groups of two, four or
// eight channels on both sides find in one register (of two and eight where they fill more than one); two more, with
// positions in the lanes, are gather_positions.hpp and, for depthwise layers, gather_planes.hpp. Activations are
// read in place where the tile can reach them quickly, else from a bounded staging area per lane: f32, channels
// innermost, one block's input. Depthwise tiles also read f16 and bf16 in place, and write them. With relaxed
// precision and instructions for it, `dense` and positions in the lanes take bf16 channels by pairs: two of them,
// and of the weights, in place of one float (pack/pairs.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/pack/tile_output.hpp>
#include <gradkern/detail/plan/gather_plan.hpp>
#include <gradkern/detail/plan/gather_planes.hpp>
#include <gradkern/detail/plan/gather_positions.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/tile_rows.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Asks for a part of each of `lines` lines, from that at `at` back by `step`. Offsets in bytes from `base`.
GRADKERN_NOINLINE inline void ask_for_lines(const void* base, std::int64_t at, std::int64_t bytes, std::int64_t lines,
                                            std::int64_t step) noexcept {
    GRADKERN_DETAIL_KEEP_CALLS();
    for (; lines > 0; --lines, at -= step)
        for (std::int64_t i = 0; i < bytes; i += cache_line)
            simd::prefetch_to_l2(static_cast<const std::byte*>(base), at + i);
}

/// Runs a plan over typed tensors. All checks have passed.
template <class T>
void run_gather(const gather_plan& g, const T* src, const T* weights, const void* bias, T* dst,
                std::span<std::byte> workspace, executor_ref executor) noexcept {
    if (g.planewise) return run_gather_planes(g, src, weights, bias, dst, workspace, executor);
    if (g.positionwise) return run_gather_positions(g, src, weights, bias, dst, workspace, executor);
    const slices memory(workspace, g.slice_bytes);
    const bool lone = executor.concurrency() == 1 || memory.count() == 1;
    const std::int64_t each = lone ? g.lone_panels : g.task_panels;
    const std::int64_t block_tasks = g.block_tasks(each);
    run_tasks(executor, g.blocks.count() * block_tasks, memory, [&](std::byte* slice, auto&& next) {
        auto* panel = reinterpret_cast<float*>(slice + g.at_panel);
        auto* staging = reinterpret_cast<float*>(slice + g.at_staging);
        auto* results = reinterpret_cast<float*>(slice + g.at_results);
        reduction_list reduction{reinterpret_cast<stretch*>(slice + g.at_list),
                                 reinterpret_cast<std::ptrdiff_t*>(slice + g.at_parts)};
        std::int64_t staged_key = -1;  // which (block, channels) the staging area holds
        std::int64_t packed_key = -1;  // whose weights the panels hold
        const std::int64_t all_lanes = g.channelwise ? g.total_out_channels() : g.out_channels;
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t block = task / block_tasks;
            const box_grid::item box = g.blocks[block];
            const auto [first_panel, last_panel] = g.panels_of(task % block_tasks, each);
            const std::int64_t panels = last_panel - first_panel;
            // Calls f(number in the task, group, first lane in the group or in all, lanes used) for each panel; it returns how
            // many it has served.
            const std::int64_t group = first_panel / g.panels;  // of the first panel, often the only one
            const std::int64_t first_lane = first_panel % g.panels * g.panel_width;
            const std::int64_t lanes_used = std::min(g.panel_width, all_lanes - first_lane);
            const auto for_each_panel = [&](const auto& f) {
                std::int64_t of = group;
                std::int64_t lane = first_lane;
                for (std::int64_t p = 0; p < panels;) {
                    const std::int64_t served = f(p, of, lane, std::min(g.panel_width, all_lanes - lane));
                    p += served;
                    lane += served * g.panel_width;
                    if (lane >= all_lanes) {
                        lane = 0;
                        ++of;
                    }
                }
            };
            if (packed_key != first_panel) {
                for_each_panel([&](std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) {
                    float* packed = panel + p * g.panel_floats;
                    for (std::int64_t j = 0; bias != nullptr && j < used; ++j)
                        packed[j] = load_as_float(bias, g.bias_type, (of * g.out_channels + lane + j) * g.bias_step);
                    pack_weight_panel(g, weights, of, lane, used, g.panel_width, packed + g.panel_width);
                    return 1;
                });
                packed_key = first_panel;
            }

            // Where the tile reads: in place, or from the staging area after a copy of the block's input.
            // The last panel of channelwise lanes is staged too, since whole vectors would leave the tensor.
            const bool stage = g.staged || (g.channelwise && !g.is_whole(lanes_used));
            const std::int64_t panel_step = g.together ? g.panel_width : 0;  // in the staging area
            const std::byte* source = nullptr;
            std::int64_t number = sizeof(float);  // bytes of what offsets count
            shape::canonical_strides in = g.in;
            std::int64_t origin = 0;
            std::int64_t channel_step = 0;
            if (stage) {
                const staging_box read = reads_of(g.axes, g.outputs, box, g.staged_channels);
                const std::int64_t key = g.channelwise ? task : block * g.groups + group;
                if (key != staged_key) {
                    if (g.together && g.staged) {
                        const std::int64_t channels = std::min(all_lanes - first_lane, g.staged_channels);
                        stage_channels(src + first_lane * g.in[1], g.in, read, channels, staging);
                    } else if (g.channelwise) {
                        const std::int64_t outputs = g.shared ? 1 : g.out_channels;  // shared ones are found in the tile
                        const std::int64_t inputs = g.shared ? 1 : g.in_channels;
                        stage_across_groups(src, g.in, read, first_lane, lanes_used, outputs, inputs, g.panel_width,
                                            staging);
                    } else {
                        const T* const from = src + group * g.in_channels * g.in[1];
                        if (!g.pairs) {
                            stage_channels(from, g.in, read, g.in_channels, staging);
                        } else if constexpr (has_pairs<T>) {
                            stage_pairs(from, g.in, read, g.in_channels, staging);
                        }
                    }
                    staged_key = key;
                }
                source = reinterpret_cast<const std::byte*>(staging);
                in = read.strides();
                origin = read.origin();
                channel_step = g.channelwise ? g.panel_width : 1;
            } else {
                source = reinterpret_cast<const std::byte*>(src);
                if (g.pairs) {
                    for (std::int64_t& step : in) step /= 2;
                    in[1] = channel_step = 1;
                } else {
                    number = sizeof(T);
                    channel_step = g.in[1];
                }
            }

            const bool halves = g.halves && !stage;  // a last panel may be staged
            tile_output<T> output(g.out, g.panel_width, g.accumulate, halves);
            shape::canonical_strides out = g.out;
            if (g.out_staged) out = output.stage(box, results);
            const auto turn_to = [&](std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) {
                output.turn_to(dst + (of * g.out_channels + lane) * g.out[1], used, g.is_whole(used),
                               bias != nullptr ? panel + p * g.panel_floats : nullptr);
            };
            turn_to(0, group, first_lane, lanes_used);
            // Panels of one group may leave together: then they are one wide panel for the output.
            const bool joined =
                panels > 1 && g.groups == 1 && !g.channelwise &&
                output.join(panels, std::min(panels * g.panel_width, all_lanes - first_lane), g.panel_floats);
            const std::ptrdiff_t rows_most = halves ? half_rows : rows_at_most(g.panel_width);
            const std::ptrdiff_t rows_unit = halves     ? row_unit<lane_operand<T>>
                                             : g.shared ? row_unit<operand::quad>
                                                        : row_unit<operand::scalar>;
            const auto tiles_of_width = [&](std::int64_t width) {
                if constexpr (has_pairs<T>) {
                    if (g.pairs) return tiles_for<operand::pair>(width);
                }
                if constexpr (is_half<lane_operand<T>>) {
                    if (halves) return tiles_of<lane_operand<T>, half_vectors, row_unit<lane_operand<T>>>.data();
                }
                if (g.shared && g.in_channels != 4)
                    return tiles_of<operand::shared, narrow_vectors, row_unit<operand::shared>>.data();
                return g.shared        ? tiles_for<operand::quad>(g.panel_width)
                       : g.channelwise ? tiles_for<operand::vector>(width)
                                       : tiles_for<operand::scalar>(width);
            };
            std::array<shape::tap_class, 3> c;
            shape::tap_class_walk planes(g.axes[0], g.outputs, box.first[0], box.last[0]);
            while (planes.next(c[0])) {
                shape::tap_class_walk rows(g.axes[1], g.outputs, box.first[1], box.last[1]);
                while (rows.next(c[1])) {
                    shape::tap_class_walk columns(g.axes[2], g.outputs, box.first[2], box.last[2]);
                    while (columns.next(c[2])) {
                        fill_reduction(g, c, in, channel_step, reduction);
                        // Panels that go together: the next line of inputs, and outputs one or two tiles ahead.
                        std::int64_t a_ahead = 0;
                        std::int64_t c_ahead = 0;
                        // Windows with a stride, in place: the lines between, too, unless windows skip some.
                        const bool strided = c[1].read_per_position > 1 || c[2].read_per_position > 1;
                        const auto meet = [](const shape::tap_class& k) {
                            return k.read_per_position <= (k.taps - 1) * k.read_per_tap + 1;
                        };
                        const bool side_by_side = panels > 1 && g.channelwise && !stage && meet(c[1]) && meet(c[2]);
                        const std::int64_t lines_ahead = side_by_side && strided ? c[1].read_per_position : 0;
                        if (panels > 1) {
                            a_ahead = ((c[1].taps - 1) * c[1].read_per_tap + c[1].read_per_position) * in[3];
                            c_ahead = 2 * narrow_rows * c[2].position_step * g.out[4];
                        }
                        const bool reads = c[0].taps > 0 && c[1].taps > 0 && c[2].taps > 0;  // else rows are nowhere
                        row_walk walk(box.first_image, box.last_image, c, in, out, origin);
                        split_rows(walk.rows(), rows_most, rows_unit, [&](std::ptrdiff_t count) {
                            std::array<std::int64_t, most_rows> from;
                            std::array<std::int64_t, most_rows> to;
                            walk.take(count, from.data(), to.data());
                            // Not more than L1 holds: so many at a time hold the tiles up.
                            constexpr std::int64_t size = sizeof(T);
                            const std::int64_t reach = count * c[2].read_per_position * in[4] * size;
                            const bool asks = lines_ahead > 0 && reach <= 32 * 1024 / lines_ahead;
                            if (asks)
                                ask_for_lines(src, (first_lane + from[0] + a_ahead) * size, reach, lines_ahead,
                                              in[3] * size);
                            for_each_panel([&](std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) {
                                if (panels > 1 && !joined) turn_to(p, of, lane, used);
                                const std::int64_t first =
                                    stage ? p * panel_step : (g.channelwise ? lane : of * g.terms) * in[1];
                                std::array<const float*, most_rows> a;
                                for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
                                    a[i] =
                                        reinterpret_cast<const float*>(source + (reads ? first + from[i] : 0) * number);
                                tile_call call{.list = reduction.list,
                                               .rows = count,
                                               .a = a.data(),
                                               .a_step = reduction.a_step,
                                               .b = panel + p * g.panel_floats + g.panel_width,
                                               .b_step = reduction.b_step,
                                               .c = output.rows(count, to.data(), joined ? p * g.panel_width : 0),
                                               .group = g.in_channels,
                                               .bias = bias != nullptr ? panel + p * g.panel_floats : nullptr,
                                               .a_ahead = asks ? 0 : a_ahead,
                                               .c_ahead = c_ahead,
                                               .a_next = g.channelwise ? g.panel_width : 0,
                                               .b_next = g.panel_floats,
                                               .c_next = g.panel_width};
                                // Whole panels of a group, one after the other.
                                if ((joined || output.is_direct()) && used == g.panel_width)
                                    call.tiles = std::min(panels - p, (all_lanes - lane) / used);
                                const tile_function tile = tiles_of_width(used)[count - 1];
                                for (std::ptrdiff_t part = 0; part < reduction.part_count; ++part) {
                                    call.count = reduction.parts[part];
                                    call.mode =
                                        part == 0 && !(halves && g.accumulate) ? tile_mode::set : tile_mode::add;
                                    tile(call);
                                    call.list += call.count;
                                }
                                if (panels > 1 && !joined) output.flush();
                                return call.tiles;
                            });
                        });
                    }
                }
            }
            output.flush();
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
