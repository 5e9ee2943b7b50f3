// The gather engine: forward and data gradients of the convolution family.
//
//     out[n, g * OC + j, q]  =  sum over inside taps t of q, channels k of
//                               in[n, g * IC + k, read(q, t)] * w[g, k, j, t]        (+ bias[g * OC + j])
//
// Loops, outermost first; this file has those of blocks and panels, conv/tiles.hpp the others:
//
//     block      a box of output positions (images x planes x rows x columns)
//     panels     of output channels: their weights are packed just before use [block of 64 k][tap][k][lane]
//     class      output positions that share one set of inside taps (shape/axis.hpp): borders need no branch
//     tile       rows of the register tile = positions of one class, from any line or image, by row pointers; where rows lie
//                equally far apart, up to 16 tiles at a time, which are inside the panel then
//     panel      of a task: one, or many: of groups whose channels share lines of memory, or of windows that share no
//                position
//     part       at most 576 terms (order/summation.hpp)
//     stretch    (block of 64 channels, tap), channels innermost
//
// Ways to fill the lanes: `dense` takes the output channels of one group and broadcasts activations; `channelwise`
// takes output channels across groups, each lane with the activations of its own group, which groups of two, four or
// eight channels on both sides find in one register (of two and eight where they fill more than one), and of which
// depthwise layers of column stride 1 read each number once for all column taps (`sliding`); two more, with
// positions in the lanes, are conv/positions.hpp and, for depthwise layers, conv/planes.hpp. Activations are
// read in place where the tile can reach them quickly, else from a bounded staging area per lane: f32, channels
// innermost, one block's input. Depthwise tiles also read f16 and bf16 in place, and write them. With relaxed
// precision and instructions for it, `dense`, groups of eight and positions in the lanes take bf16 channels by pairs:
// two of them, and of the weights, in place of one float (pack/pairs.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/conv/planes.hpp>
#include <gradkern/detail/conv/positions.hpp>
#include <gradkern/detail/conv/tiles.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Packs the weights of all panels of a task, each behind its bias.
template <class T>
void pack_task_weights(const gather_task& t, const T* weights, const void* bias) noexcept {
    const gather_plan& g = t.g;
    t.for_each_panel([&](std::int64_t p, std::int64_t group, std::int64_t lane, std::int64_t used) {
        float* const packed = t.packed + p * g.panel_floats;
        for (std::int64_t j = 0; bias != nullptr && j < used; ++j)
            packed[j] = load_as_float(bias, g.bias_type, (group * g.out_channels + lane + j) * g.bias_step);
        pack_weight_panel(g, weights, group, lane, used, g.panel_width, packed + g.panel_width);
        return 1;
    });
}

/// Stages what a task reads: the channels of its group, or of the groups of its lanes.
template <class T>
void stage_task(const gather_task& t, const staging_box& read, const T* src, float* staging) noexcept {
    const gather_plan& g = t.g;
    if (g.together && g.staged) {
        const std::int64_t channels = std::min(g.lane_channels() - t.first_lane, g.staged_channels);
        stage_channels(src + t.first_lane * g.in[1], g.in, read, channels, staging);
        return;
    }
    if (g.channelwise && !g.pairs) {
        const std::int64_t outputs = g.shared ? 1 : g.out_channels;  // shared ones are found in the tile
        const std::int64_t inputs = g.shared ? 1 : g.in_channels;
        stage_across_groups(src, g.in, read, t.first_lane, t.first_used, outputs, inputs, g.panel_width, staging);
        return;
    }
    const T* const from = src + (g.channelwise ? t.first_lane : t.group * g.in_channels) * g.in[1];
    if (!g.pairs) {
        stage_channels(from, g.in, read, g.in_channels, staging);
    } else if constexpr (has_pairs<T>) {
        stage_pairs(from, g.in, read, g.channelwise ? g.panel_width : g.in_channels, staging);
    }
}

/// Writes outputs that are sums of nothing, with the bias where there is one. A task is a plane.
template <class T>
void fill_outputs(const gather_plan& g, const void* bias, T* dst, executor_ref executor) noexcept {
    const std::int64_t channels = g.total_out_channels();
    run_tasks(executor, g.batch * channels, slices({}, 0), [&](std::byte*, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t channel = task % channels;
            const float value = bias == nullptr ? 0.0F : load_as_float(bias, g.bias_type, channel * g.bias_step);
            T* const plane = dst + (task / channels * g.out[0] + channel * g.out[1]);
            for (std::int64_t d = 0; d < g.extent(0); ++d)
                for (std::int64_t h = 0; h < g.extent(1); ++h)
                    for (std::int64_t w = 0; w < g.extent(2); ++w)
                        store_result(plane + (d * g.out[2] + h * g.out[3] + w * g.out[4]), value, g.accumulate);
        }
    });
}

/// Runs a plan over typed tensors. All checks have passed.
template <class T>
void run_gather(const gather_plan& g, const T* src, const T* weights, const void* bias, T* dst,
                std::span<std::byte> workspace, executor_ref executor) noexcept {
    if (g.fills) return fill_outputs(g, bias, dst, executor);
    if (g.planewise) return run_gather_planes(g, src, weights, bias, dst, workspace, executor);
    if (g.positionwise) return run_gather_positions(g, src, weights, bias, dst, workspace, executor);
    const slices memory(workspace, g.slice_bytes);
    const bool lone = executor.concurrency() == 1 || memory.count() == 1;
    const std::int64_t each = lone ? g.lone_panels : g.task_panels;
    const std::int64_t block_tasks = g.block_tasks(each);
    run_tasks(executor, g.blocks.count() * block_tasks, memory, [&](std::byte* slice, auto&& next) {
        auto* staging = reinterpret_cast<float*>(slice + g.at_staging);
        std::int64_t staged_key = -1;  // which (block, channels) the staging area holds
        std::int64_t packed_key = -1;  // whose weights the panels hold
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t block = task / block_tasks;
            gather_task t(g, g.blocks[block], g.panels_of(task % block_tasks, each), slice);
            if (packed_key != t.first_panel) pack_task_weights(t, weights, bias);
            packed_key = t.first_panel;

            if (t.staged) {
                const staging_box read = reads_of(g.axes, g.outputs, t.box, g.staged_channels);
                const std::int64_t key = g.channelwise ? task : block * g.groups + t.group;
                if (key != staged_key) stage_task(t, read, src, staging);
                staged_key = key;
                t.read_staged(read, staging);
            } else {
                t.read_in_place(src, sizeof(T));
            }
            compute_task(t, gather_element_of<T>, reinterpret_cast<std::byte*>(dst), bias != nullptr);
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
