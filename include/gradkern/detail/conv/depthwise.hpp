// depthwise, depthwise_sliding: groups of few channels, mostly of one input and one output channel.
//
// Loops          depthwise: those of conv/tile_loop.hpp. depthwise_sliding, of column stride 1: class of planes > class of rows > line >
//                tile of neighbouring columns > panel of channels
// Lanes          output channels of all groups, each with activations of its own group; a row of the tile is a vector of them, which
//                depthwise_sliding reads once for several column taps
// Packed         groups of more than one channel: each activation for each output channel of its group, [pixel][channel of the
//                group][lane]. depthwise_sliding: 144 taps in several lines and more are packed where channels are neighbours,
//                too, one panel a task
// Taken          depthwise_sliding: one channel a group, windows of five columns and more; with AVX-512, in NXC, of three in several
//                lines.
//                depthwise: all others of one channel; of more where dense would leave most lanes empty and packing costs less
//                (conv/cost.hpp)
// Gains          depthwise over dense_packed, which has one lane in use: 0.09 of its time (seven layers, 0.04 to 0.18; Sapphire Rapids,
//                AVX-512, f32, rows forced, alternating); with depth multipliers of 2 and 4, 0.13 to 0.75 of the time of the rows
//                below (3x3, 56x56 pixels, the same CPU). depthwise_sliding over depthwise: 0.85 of five and seven columns (six layers,
//                0.70 to 0.95), 0.5 to 0.8 of 9 to 87 columns, 0.06 to 0.3 of 27x27 and 31x31 on planes of 14 to 56; pieces of up to
//                seven taps over one kernel for each width: 0.93 of 5x5 and 7x7
// Used by        depthwise: layers with strides, and 3x3 windows where channels lie apart. depthwise_sliding: 5x5 windows of
//                EfficientNet, MnasNet and GhostNet, 7x7 windows of ConvNeXt, 31x31 windows of RepLKNet, QuartzNet, Conformer
// Delete it      depthwise: never, depthwise layers have nothing to broadcast. depthwise_sliding: when depthwise reads as little
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/cost.hpp>
#include <gradkern/detail/conv/narrow_output.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether 16 bits are read and written as they are: where channels are neighbours, in one part.
[[nodiscard]] constexpr bool depthwise_in_16bit(const conv_problem& p) noexcept {
    return p.native_16bit && p.in[1] == 1 && p.out[1] == 1 && p.taps() <= part_terms;
}

/// In place where channels are neighbours and each lane reads one of its own.
[[nodiscard]] GRADKERN_COLD constexpr tile_choice depthwise_choice(const conv_problem& p, bool slides) noexcept {
    if (!p.is_depthwise()) return {.inputs = lane_inputs::own, .source = source_kind::packed};
    const bool in_16bit = depthwise_in_16bit(p);
    const bool in_place = in_16bit || (p.is_wide && p.in[1] == 1 && !(slides && packs_windows(p)));
    return {.inputs = lane_inputs::own,
            .numbers = in_16bit ? tile_numbers::native_16bit : tile_numbers::f32,
            .source = in_place ? source_kind::in_place : source_kind::packed,
            .slides = slides};
}

struct depthwise_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        return p.groups > 1 || p.is_depthwise();
    }
    [[nodiscard]] GRADKERN_COLD static constexpr bool is_profitable(const conv_problem& p) noexcept {
        if (p.groups == 1) return false;
        if (p.is_depthwise()) return true;
        const double cost = cost_of_depthwise(p);
        return cost < cost_of_dense(p) && !narrow_output_path::costs_less(p, cost);
    }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return depthwise_choice(p, false);
    }
};

struct depthwise_sliding_path {
    /// Neighbouring outputs read neighbours. Not where a step to a column outside might not be countable.
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        constexpr std::int64_t farthest = std::int64_t{1} << 31;
        const shape::axis& columns = p.axes[2];
        return p.is_depthwise() && columns.stride == 1 && columns.dilation == 1 && columns.kernel < farthest &&
               columns.pad_begin < farthest && p.in[4] < farthest && p.in[4] > -farthest;
    }
    /// Lines of three gain less than it takes to tell which columns are inside. In f32 they have a kernel of their own, which gains where
    /// windows have several lines; one alone takes 1.3 times the time of depthwise. Where channels have to be packed, that takes longer than
    /// they save.
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem& p) noexcept {
        const bool threes =
            p.taps() > 3 && slides_by_threes(p.axes[2].kernel, p.taps()) && p.in[1] == 1 && !depthwise_in_16bit(p);
        return p.groups > 1 && (p.axes[2].kernel >= 5 || threes);
    }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return depthwise_choice(p, true);
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
