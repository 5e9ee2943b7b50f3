// across_groups: groups of few channels, with output channels of all groups in the lanes.
//
// Loops          those of conv/tile_loop.hpp
// Lanes          output channels of all groups; each lane has the activations of its own group
// Packed         activations, each for every output channel of its group: [pixel][channel of the group][lane]
// Taken          where dense would leave most lanes empty and spreading activations costs less (is_profitable)
// Gains          over the rows below: half of the time, NCX more than NXC (0.09 to 1.1 of it; depth multipliers 2 and 4, 16 groups
//                of 3 channels, 3x3 of 56x56 pixels, Sapphire Rapids, AVX-512, f32, rows forced in turns)
// Used by        no layer of the zoo: layers with a depth multiplier
// Delete it      when depth multipliers have a path of their own
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/narrow_output.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct across_groups_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept { return !p.is_depthwise(); }
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem& p) noexcept {
        constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
        if (p.groups == 1 || 2 * p.out_channels > lanes || p.in_channels > lanes) return false;
        const std::int64_t products = p.in_channels * p.out_channels;  // of channels of a group
        const bool one_by_one = p.in[1] == 1;                          // is how neighbours are packed
        const bool strided = p.axes[1].stride > 1 || p.axes[2].stride > 1;
        if (strided && !p.is_forward()) return products < (one_by_one ? 64 : 128);
        if (products <= (!one_by_one ? 24 : strided ? 4 : 16)) return true;
        return !one_by_one && !strided && products < 128 && !narrow_output_path::saves_multiply_adds(p);
    }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem&) noexcept {
        return {.inputs = lane_inputs::own, .source = source_kind::packed};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
