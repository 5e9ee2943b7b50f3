// grouped: groups of four or eight channels on both sides.
//
// Loops          those of conv/tile_loop.hpp; the tile has the channels of a tap
// Lanes          output channels of all groups; the activations of a group lie in one register, where each is broadcast within
//                the group
// Taken          as many input as output channels in a group, where all groups together fill more than a register, unless narrow_output
//                costs less (conv/cost.hpp)
// Gains          over depthwise, which spreads activations over lanes: 0.38 of its time (its three layers, 0.17 to 0.75; Sapphire
//                Rapids, AVX-512, f32, rows forced, alternating)
// Used by        three layers of the zoo: those of resnext50_g32 with four and eight channels
// Delete it      when group convolutions of few channels leave the networks
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/cost.hpp>
#include <gradkern/detail/conv/dense.hpp>
#include <gradkern/detail/conv/narrow_output.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct grouped_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        return !p.real.is_f64() && p.in_channels == p.out_channels && has_group_tiles(p.in_channels) &&
               p.total_out_channels() > vector_lanes;
    }
    [[nodiscard]] GRADKERN_COLD static constexpr bool is_profitable(const conv_problem& p) noexcept {
        return p.groups > 1 && !narrow_output_path::costs_less(p, cost_of_grouped(p));
    }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        // Pairs are taken by groups of eight that fill whole panels.
        constexpr std::int64_t pair_lanes = 2 * vector_lanes;
        static_assert(pair_lanes == narrow_lanes || simd::lanes < 8);
        const bool pairs = p.bf16_pairs && p.in_channels == 8 && p.total_out_channels() % pair_lanes == 0;
        const bool in_place = pairs ? pairs_in_memory(p) : p.is_wide && p.in[1] == 1;
        return {.inputs = lane_inputs::broadcast_in_group,
                .numbers = pairs ? tile_numbers::bf16_pairs : tile_numbers::f32,
                .source = in_place ? source_kind::in_place : source_kind::packed};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
