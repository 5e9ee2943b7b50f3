// dense_packed: output channels of one group in the lanes, activations packed.
//
// Loops          those of conv/tile_loop.hpp; a block packs its activations once for all panels of a group
// Lanes          output channels of one group; a row's activation is broadcast to all of them
// Packed         activations of a block as [image][plane][row][column][channel], f32 or pairs
// Taken          whatever no other path takes: channels apart (NCX), 16-bit elements
// Gains          it is the last row
// Used by        149 layers of the zoo in NCX, and 206 in NXC with 16-bit elements
// Delete it      never: it computes everything
#pragma once

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/dense.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct dense_packed_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem&) noexcept { return true; }
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem&) noexcept { return true; }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return {.numbers = dense_numbers(p), .source = source_kind::packed};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
