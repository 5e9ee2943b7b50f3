// The gather engine: forward and data gradients of the convolution family.
//
//     out[n, g * OC + j, q]  =  sum over inside taps t of q, channels k of
//                               in[n, g * IC + k, read(q, t)] * w[g, k, j, t]        (+ bias[g * OC + j])
//
// Loops, outermost first:
//
//     block      a box of output positions (images x planes x rows x columns)
//     panel      tile_lanes output channels: their weights are packed just before use   [block of 64 k][tap][k][lane]
//     class      output positions that share one set of inside taps (shape/axis.hpp): borders need no branch
//     tile       rows of the register tile = positions of one class, from any line or image, by row pointers
//     part       at most 576 terms (plan/summation.hpp)
//     stretch    (block of 64 channels, tap), channels innermost
//
// Two ways to fill the lanes: `dense` takes the output channels of one group and broadcasts activations; `channelwise`
// takes output channels across groups, each lane with the activations of its own group. Activations are read in place
// where the tile can read them, else from a bounded staging area per lane: f32, channels innermost, one block's input.
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
#include <gradkern/detail/pack/tile_output.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/summation.hpp>
#include <gradkern/detail/plan/tile_rows.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/convolution.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Everything a run needs but pointers. Made by make_gather_plan from a checked problem.
struct gather_plan {
    shape::side outputs = shape::side::small;
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t groups = 1;
    std::int64_t in_channels = 0;   // per group
    std::int64_t out_channels = 0;  // per group
    shape::canonical_strides in{};
    shape::canonical_strides out{};
    std::int64_t w_group = 0;  // elements between groups, reduction channels, output channels and taps of the filter
    std::int64_t w_reduce = 0;
    std::int64_t w_out = 0;
    std::array<std::int64_t, 3> w_tap{};
    data_type bias_type = data_type::f32;
    std::int64_t bias_step = 1;
    bool accumulate = false;

    bool channelwise = false;
    bool staged = false;
    std::int64_t panels = 0;       // in one group (dense) or in all (channelwise)
    std::int64_t panel_width = 0;  // lanes
    std::int64_t tap_pitch = 0;    // floats from tap to tap in a packed panel
    box_grid blocks{};
    std::int64_t staged_channels = 0;  // floats per staged position
    std::int64_t at_panel = 0;         // byte offsets in a slice
    std::int64_t at_staging = 0;
    std::int64_t at_list = 0;
    std::int64_t at_parts = 0;
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t taps() const noexcept {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    /// Where a packed panel holds a tap: in the order in which taps are read.
    [[nodiscard]] constexpr std::int64_t tap_place(std::int64_t tap) const noexcept {
        return outputs == shape::side::small ? tap : taps() - 1 - tap;
    }
    [[nodiscard]] constexpr std::int64_t channel_blocks() const noexcept {
        return shape::ceil_div(in_channels, channel_block);
    }
    [[nodiscard]] constexpr std::int64_t extent(std::size_t i) const noexcept {
        return outputs == shape::side::small ? axes[i].small : axes[i].large;
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept {
        return blocks.count() * panels * (channelwise ? 1 : groups);
    }
    [[nodiscard]] constexpr std::int64_t total_out_channels() const noexcept { return groups * out_channels; }
};

/// Chooses path, panels, blocks and scratch. `f32` says whether activations are f32.
[[nodiscard]] constexpr gather_plan make_gather_plan(const shape::convolution_problem& p, shape::side outputs,
                                                     const shape::canonical_strides& in,
                                                     const shape::canonical_strides& out,
                                                     const shape::canonical_strides& weights, bool f32,
                                                     const plan_options& options) noexcept {
    gather_plan g;
    const bool forward = outputs == shape::side::small;
    g.outputs = outputs;
    g.axes = p.axes;
    g.batch = p.batch;
    g.groups = p.groups;
    g.in_channels = forward ? p.large_channels : p.small_channels;
    g.out_channels = forward ? p.small_channels : p.large_channels;
    g.in = in;
    g.out = out;
    g.w_group = p.small_channels * weights[0];
    g.w_reduce = forward ? weights[1] : weights[0];
    g.w_out = forward ? weights[0] : weights[1];
    g.w_tap = {weights[2], weights[3], weights[4]};
    g.accumulate = options.output == output_mode::accumulate;

    // Lanes across groups pay off where a group has too few channels to fill them.
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const bool few = g.groups > 1 && 2 * g.out_channels <= lanes && g.in_channels <= lanes;
    g.channelwise = options.algorithm == algorithm::channelwise || (options.algorithm == algorithm::automatic && few);
    const std::int64_t width = g.channelwise ? g.total_out_channels() : g.out_channels;
    g.panel_width = width <= lanes ? lanes : tile_lanes;
    g.panels = shape::ceil_div(width, g.panel_width);
    const bool in_place = g.channelwise ? f32 && in[1] == 1 && g.in_channels == 1 && g.out_channels == 1 : f32;
    g.staged = !in_place || options.algorithm == algorithm::dense_staged;

    slice_layout slice;
    // A tap pitch of a multiple of 4 KB would send the stores of all taps to one cache set.
    // Not where there is one block of channels: taps that follow one another in both memories then join into long stretches.
    const std::int64_t pitch = std::min(g.in_channels, channel_block) * g.panel_width;
    g.tap_pitch = pitch % 1024 == 0 && g.channel_blocks() > 1 ? pitch + 32 : pitch;
    g.at_panel = slice.reserve<float>(g.channel_blocks() * g.taps() * g.tap_pitch);

    g.staged_channels = g.channelwise ? g.in_channels * g.panel_width : g.in_channels;
    const bool may_stage = g.staged || (g.channelwise && width % g.panel_width != 0);
    std::array<std::int64_t, 3> extents_of{g.extent(0), g.extent(1), g.extent(2)};
    constexpr std::int64_t block_positions = 4096;  // packing a panel costs below 1 % of its use
    constexpr std::int64_t staging_floats = 128 * 1024;
    g.blocks = box_grid(g.batch, extents_of, [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        std::int64_t positions = images;
        std::int64_t read = images * g.staged_channels;
        for (std::size_t i = 0; i < 3; ++i) {
            positions *= box[i];
            read *= reads_at_most(g.axes[i], g.outputs, box[i]);
        }
        return positions <= block_positions && (!may_stage || read <= staging_floats);
    });
    std::int64_t staging = 0;
    if (may_stage && g.blocks.count() > 0) {
        staging = g.blocks.images() * g.staged_channels;
        for (std::size_t i = 0; i < 3; ++i) staging *= reads_at_most(g.axes[i], g.outputs, g.blocks.box(i));
    }
    g.at_staging = slice.reserve<float>(staging);
    std::int64_t stretches = g.channel_blocks();
    for (const shape::axis& a : g.axes) stretches *= std::min(a.kernel, forward ? a.large : a.small);
    g.at_list = slice.reserve<stretch>(stretches);
    g.at_parts = slice.reserve<std::ptrdiff_t>(stretches);
    g.slice_bytes = g.tasks() == 0 ? 0 : slice.bytes();
    return g;
}

/// The weights of one panel as [block of 64 k][tap][k][lane], taps in the order in which they are read.
template <class T>
inline void pack_weight_panel(const gather_plan& g, const T* w, std::int64_t group, std::int64_t first_lane,
                              std::int64_t lanes_used, float* panel) noexcept {
    const std::int64_t kd = g.axes[0].kernel;
    const std::int64_t kh = g.axes[1].kernel;
    const std::int64_t kw = g.axes[2].kernel;
    const std::int64_t taps = g.taps();
    // One run of lanes with a uniform step, or one run per group where lanes cross groups of several outputs.
    const auto pack = [&](std::int64_t offset, std::int64_t source_step, std::int64_t count, float* out,
                          std::int64_t out_step) {
        if (!g.channelwise || g.out_channels == 1) {
            const std::int64_t step = g.channelwise ? g.w_group : g.w_out;
            pack_lanes(w + group * g.w_group + first_lane * step + offset, step, lanes_used, source_step, count, out,
                       out_step);
        } else {
            for (std::int64_t j = 0; j < lanes_used;) {
                const std::int64_t of = (first_lane + j) / g.out_channels;
                const std::int64_t c = (first_lane + j) % g.out_channels;
                const std::int64_t run = std::min(lanes_used - j, g.out_channels - c);
                pack_lanes(w + of * g.w_group + c * g.w_out + offset, g.w_out, run, source_step, count, out + j,
                           out_step);
                j += run;
            }
        }
        clear_lanes(lanes_used, g.panel_width, count, out, out_step);
    };
    // Walk the filter along whichever axis is contiguous, so that pages and lines are read once.
    const bool taps_contiguous = g.w_tap[2] == 1 && (kh == 1 || g.w_tap[1] == kw) && (kd == 1 || g.w_tap[0] == kw * kh);
    for (std::int64_t k0 = 0; k0 < g.in_channels; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, g.in_channels - k0);
        float* block = panel + k0 / channel_block * taps * g.tap_pitch;
        if (taps_contiguous && taps > 1) {
            const std::int64_t step = g.outputs == shape::side::small ? g.tap_pitch : -g.tap_pitch;
            for (std::int64_t k = 0; k < kl; ++k)
                pack((k0 + k) * g.w_reduce, 1, taps, block + g.tap_place(0) * g.tap_pitch + k * g.panel_width, step);
            continue;
        }
        std::int64_t tap = 0;
        for (std::int64_t d = 0; d < kd; ++d)
            for (std::int64_t h = 0; h < kh; ++h)
                for (std::int64_t x = 0; x < kw; ++x, ++tap)
                    pack(k0 * g.w_reduce + d * g.w_tap[0] + h * g.w_tap[1] + x * g.w_tap[2], g.w_reduce, kl,
                         block + g.tap_place(tap) * g.tap_pitch, g.panel_width);
    }
}

/// The reduction of one class: stretches in the fixed order, and how many of them make up each part.
struct reduction_list {
    stretch* list = nullptr;
    std::ptrdiff_t* parts = nullptr;  // stretches in each part
    std::ptrdiff_t part_count = 0;
    std::ptrdiff_t a_step = 1;  // from term to term of a stretch
    std::ptrdiff_t b_step = 0;
};

/// Lists the terms of a class that reads a source with strides `in` and `channel_step`. Terms that continue the stretch
/// before them join it, which changes neither their order nor the parts.
inline void fill_reduction(const gather_plan& g, const std::array<shape::tap_class, 3>& c,
                           const shape::canonical_strides& in, std::int64_t channel_step, reduction_list& r) noexcept {
    r.a_step = channel_step;
    r.b_step = g.panel_width;
    if (g.in_channels == 1) {  // one term a tap: let the taps of a row make up a stretch
        r.a_step = c[2].read_per_tap * in[4];
        r.b_step = (c[2].tap_step < 0 ? -c[2].tap_step : c[2].tap_step) * g.tap_pitch;
    }
    stretch* end = r.list;
    r.part_count = 0;
    std::int64_t terms = part_terms;  // of the open part; full: the first stretch opens one
    for (std::int64_t k0 = 0; k0 < g.in_channels; k0 += channel_block) {
        const std::int64_t kl = std::min(channel_block, g.in_channels - k0);
        const std::int64_t block = k0 / channel_block * g.taps() * g.tap_pitch;
        for (std::int64_t d = 0; d < c[0].taps; ++d) {
            for (std::int64_t h = 0; h < c[1].taps; ++h) {
                for (std::int64_t x = 0; x < c[2].taps; ++x) {
                    const std::int64_t tap =
                        ((c[0].first_tap + d * c[0].tap_step) * g.axes[1].kernel + c[1].first_tap + h * c[1].tap_step) *
                            g.axes[2].kernel +
                        c[2].first_tap + x * c[2].tap_step;
                    const stretch s{k0 * channel_step + d * c[0].read_per_tap * in[2] + h * c[1].read_per_tap * in[3] +
                                        x * c[2].read_per_tap * in[4],
                                    block + g.tap_place(tap) * g.tap_pitch, kl};
                    if (terms + kl > part_terms) {
                        terms = 0;
                        r.parts[r.part_count++] = 0;
                    }
                    terms += kl;
                    if (r.parts[r.part_count - 1] > 0) {
                        stretch& last = end[-1];
                        if (last.a + last.length * r.a_step == s.a && last.b + last.length * r.b_step == s.b) {
                            last.length += kl;
                            continue;
                        }
                    }
                    *end++ = s;
                    ++r.parts[r.part_count - 1];
                }
            }
        }
    }
    if (r.part_count == 0) r.parts[r.part_count++] = 0;  // no tap inside: one empty part, which writes zeros
}

/// Runs a plan over typed tensors. All checks have passed.
template <class T>
void run_gather(const gather_plan& g, const T* src, const T* weights, const void* bias, T* dst,
                std::span<std::byte> workspace, executor_ref executor) noexcept {
    const slices memory(workspace, g.slice_bytes);
    run_tasks(executor, g.tasks(), memory, [&](std::byte* slice, auto&& next) {
        auto* panel = reinterpret_cast<float*>(slice + g.at_panel);
        auto* staging = reinterpret_cast<float*>(slice + g.at_staging);
        reduction_list reduction{reinterpret_cast<stretch*>(slice + g.at_list),
                                 reinterpret_cast<std::ptrdiff_t*>(slice + g.at_parts)};
        std::int64_t staged_key = -1;  // which (block, channels) the staging area holds
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t p = task % g.panels;
            const std::int64_t group = g.channelwise ? 0 : task / g.panels % g.groups;
            const std::int64_t block = task / (g.panels * (g.channelwise ? 1 : g.groups));
            const box_grid::item box = g.blocks[block];
            const std::int64_t first_lane = p * g.panel_width;
            const std::int64_t all_lanes = g.channelwise ? g.total_out_channels() : g.out_channels;
            const std::int64_t lanes_used = std::min(g.panel_width, all_lanes - first_lane);
            const std::int64_t first_channel = group * g.out_channels + first_lane;
            pack_weight_panel(g, weights, group, first_lane, lanes_used, panel);

            // Where the tile reads: in place, or from the staging area after a copy of the block's input.
            // The last panel of channelwise lanes is staged too, since whole vectors would leave the tensor.
            const bool stage = g.staged || (g.channelwise && lanes_used != g.panel_width);
            const float* source = nullptr;
            shape::canonical_strides in = g.in;
            std::int64_t origin = 0;
            std::int64_t channel_step = 0;
            if (stage) {
                const staging_box read = reads_of(g.axes, g.outputs, box, g.staged_channels);
                const std::int64_t key = g.channelwise ? task : block * g.groups + group;
                if (key != staged_key) {
                    if (g.channelwise) {
                        stage_across_groups(src, g.in, read, first_lane, lanes_used, g.out_channels, g.in_channels,
                                            g.panel_width, staging);
                    } else {
                        stage_channels(src + group * g.in_channels * g.in[1], g.in, read, g.in_channels, staging);
                    }
                    staged_key = key;
                }
                source = staging;
                in = read.strides();
                origin = read.origin();
                channel_step = g.channelwise ? g.panel_width : 1;
            } else if constexpr (std::is_same_v<T, float>) {
                source = src + (g.channelwise ? first_lane : group * g.in_channels) * g.in[1];
                channel_step = g.in[1];
            }

            tile_output<T> output(dst + first_channel * g.out[1], g.out[1], lanes_used, g.panel_width, g.accumulate,
                                  bias, g.bias_type, g.bias_step, first_channel);
            const tile_function* tiles =
                g.channelwise ? tiles_for<operand::vector>(lanes_used) : tiles_for<operand::scalar>(lanes_used);
            std::array<shape::tap_class, 3> c;
            shape::tap_class_walk planes(g.axes[0], g.outputs, box.first[0], box.last[0]);
            while (planes.next(c[0])) {
                shape::tap_class_walk rows(g.axes[1], g.outputs, box.first[1], box.last[1]);
                while (rows.next(c[1])) {
                    shape::tap_class_walk columns(g.axes[2], g.outputs, box.first[2], box.last[2]);
                    while (columns.next(c[2])) {
                        fill_reduction(g, c, in, channel_step, reduction);
                        row_walk walk(box.first_image, box.last_image, c, in, g.out, origin);
                        split_rows(walk.rows(), [&](std::ptrdiff_t, std::ptrdiff_t count) {
                            std::array<const float*, tile_rows> a;
                            std::array<std::int64_t, tile_rows> to;
                            walk.take(count, source, a.data(), to.data());
                            tile_call call{.list = reduction.list,
                                           .a = a.data(),
                                           .a_step = reduction.a_step,
                                           .b = panel,
                                           .b_step = reduction.b_step,
                                           .c = output.rows(count, to.data())};
                            for (std::ptrdiff_t part = 0; part < reduction.part_count; ++part) {
                                call.count = reduction.parts[part];
                                call.mode = part == 0 ? tile_mode::set : tile_mode::add;
                                tiles[count - 1](call);
                                call.list += call.count;
                            }
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
