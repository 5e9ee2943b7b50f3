// dense: output channels of one group in the lanes, activations read in place.
//
// Loops          those of conv/tile_loop.hpp
// Lanes          output channels of one group; a row's activation is broadcast to all of them
// Taken          f32 (or bf16 pairs) that tiles reach fast: channels are neighbours (NXC), or each is read a few times
// Gains          over dense_packed: 0.93 of its time (ten NXC layers of the zoo, 0.73 to 1.04; Sapphire Rapids, AVX-512, f32, rows
//                forced in turns)
// Used by        206 layers of the zoo in NXC and f32: all but depthwise ones and those of few channels
// Delete it      never: it is the matrix product
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What tiles of the channels of one group take.
[[nodiscard]] constexpr tile_numbers dense_numbers(const conv_problem& p) noexcept {
    return p.bf16_pairs && p.in_channels > 1 ? tile_numbers::bf16_pairs : tile_numbers::f32;
}

/// Whether pairs of channels lie in memory as tiles take them: neighbours, as many as there are channels, and whole numbers of
/// them from one pixel to the next.
[[nodiscard]] constexpr bool pairs_in_memory(const conv_problem& p) noexcept {
    return p.in[1] == 1 && p.in_channels % 2 == 0 && (p.in[0] | p.in[2] | p.in[3] | p.in[4]) % 2 == 0;
}

struct dense_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        return p.is_f32 || (dense_numbers(p) == tile_numbers::bf16_pairs && pairs_in_memory(p));
    }
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem& p) noexcept {
        if (p.in[1] == 1 || p.in_channels == 1) return true;
        // Channels far apart are a page each: read in place only where they are read a few times.
        const std::int64_t width = panel_width(p, choice(p));
        return p.taps() * shape::ceil_div(p.out_channels, width) <= 4;
    }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return {.numbers = dense_numbers(p), .source = source_kind::in_place};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
