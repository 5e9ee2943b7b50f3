// across_groups: groups of few channels, with output channels of all groups in the lanes.
//
// Loops          those of conv/tile_loop.hpp
// Lanes          output channels of all groups; each lane has the activations of its own group
// Packed         activations, each for every output channel of its group: [pixel][channel of the group][lane]
// Taken          where dense would leave most lanes empty and packing activations costs less (conv/cost.hpp)
// Gains          over the rows below: 0.13 to 0.75 of their time where it is taken (depth multipliers 2 and 4, 3x3, 56x56 pixels, NCX
//                and NXC, Sapphire Rapids, AVX-512, f32, rows forced, alternating)
// Used by        no layer of the zoo: layers with a depth multiplier
// Delete it      when depth multipliers have a path of their own
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/cost.hpp>
#include <gradkern/detail/conv/narrow_output.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct across_groups_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept { return !p.is_depthwise(); }
    [[nodiscard]] GRADKERN_COLD static constexpr bool is_profitable(const conv_problem& p) noexcept {
        if (p.groups == 1) return false;
        const double cost = cost_of_across_groups(p);
        if (narrow_output_path::fits(p) && narrow_output_path::costs_less(p) && cost_of_narrow_output(p) < cost)
            return false;
        return cost < cost_of_dense(p);
    }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem&) noexcept {
        return {.inputs = lane_inputs::own, .source = source_kind::packed};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
