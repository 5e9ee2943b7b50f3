// depthwise: one input and one output channel in each group.
//
// Loops          those of conv/tile_loop.hpp
// Lanes          channels; a row of the tile is a vector of activations
// Taken          all depthwise layers but those that depthwise_sliding takes
// Gains          over dense_packed, which has one lane in use: 0.09 of its time (seven layers, 0.04 to 0.18; Sapphire Rapids, AVX-512,
//                f32, rows forced in turns)
// Used by        32 layers of the zoo: MobileNet, EfficientNet, Xception, QuartzNet
// Delete it      never: depthwise layers have nothing to broadcast
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/order/summation.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// In place where channels are neighbours; then 16 bits are read and written as they are, in one part.
[[nodiscard]] constexpr tile_choice depthwise_choice(const conv_problem& p, column_walk columns) noexcept {
    const bool in_16bit = p.native_16bit && p.in[1] == 1 && p.out[1] == 1 && p.taps() <= part_terms;
    const bool in_place = in_16bit || (p.is_f32 && p.in[1] == 1);
    return {.inputs = lane_inputs::own,
            .numbers = in_16bit ? tile_numbers::native_16bit : tile_numbers::f32,
            .source = in_place ? source_kind::in_place : source_kind::packed,
            .columns = columns};
}

struct depthwise_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept { return p.is_depthwise(); }
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem& p) noexcept { return p.groups > 1; }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return depthwise_choice(p, column_walk::classes);
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
