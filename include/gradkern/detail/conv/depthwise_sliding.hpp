// depthwise_sliding: depthwise layers of column stride 1 whose windows slide along the columns.
//
// Loops          class of planes > class of rows > line > tile of neighbouring columns > panel of channels
// Lanes          channels; a row of the tile is a vector of activations, read once for all column taps
// Taken          windows of five or seven columns, in one part
// Gains          over depthwise: 0.85 of its time (six layers, 0.70 to 0.95; Sapphire Rapids, AVX-512, f32, rows forced in turns)
// Used by        14 layers of the zoo: 5x5 windows of EfficientNet, MnasNet and GhostNet, 7x7 windows of ConvNeXt
// Delete it      when depthwise reads as little
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/depthwise.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct depthwise_sliding_path {
    /// Neighbouring outputs read neighbours. In one part, since outputs of one class have the same parts; not where a step to a
    /// column outside might not be countable.
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        constexpr std::int64_t farthest = std::int64_t{1} << 31;
        const shape::axis& columns = p.axes[2];
        return p.is_depthwise() && columns.stride == 1 && columns.dilation == 1 && can_slide(columns.kernel) &&
               p.taps() <= part_terms && columns.pad_begin < farthest && p.in[4] < farthest && p.in[4] > -farthest;
    }
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem& p) noexcept { return p.groups > 1; }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return depthwise_choice(p, column_walk::sliding);
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
