// dense, dense_packed: output channels of one group in the lanes, activations read in place or packed.
//
// Loops          those of conv/tile_loop.hpp; a block packs its activations once for all panels of a group
// Lanes          output channels of one group; a row's activation is broadcast to all of them. Column taps of windows side by side
//                are channels, too (conv/problem.hpp): vit_l14_patch data NXC 6.3 -> 3.5 ms, espnet_up forward NXC 2.1 -> 1.5
// Packed         dense_packed: activations of a block as [image][plane][row][column][channel], f32 or pairs
// Taken          dense: f32 (or bf16 pairs) that tiles reach fast: channels are neighbours (NXC), or on few pages and each read a few
//                times. dense_packed: whatever no other path takes: channels apart (NCX), 16-bit elements
// Gains          dense over dense_packed: 0.93 of its time (ten NXC layers of the zoo, 0.73 to 1.04; Sapphire Rapids, AVX-512, f32, rows
//                forced, alternating). dense_packed over dense where 1x1 channels lie on many pages: resnet18_shortcut_128 data NCX
//                10.6 -> 6.1 ms, pointnet_k1_1024 data NCX 6.1 -> 4.6 (AVX-512)
//                On a Zen 3 dense_packed also takes some NXC layers (waits_for_pieces), 29 of the zoo: 0.83 of the time of dense
//                (AVX2, f32, geometric mean)
// Used by        dense: 206 layers of the zoo in NXC and f32: all but depthwise ones and those of few channels; dense_packed: 149
//                layers in NCX, and 206 in NXC with 16-bit elements
// Delete it      never: dense is the matrix product, and dense_packed computes everything
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether pairs of channels lie in memory as tiles take them: neighbours, as many as there are channels, and whole numbers of
/// them from one pixel to the next.
[[nodiscard]] constexpr bool pairs_in_memory(const conv_problem& p) noexcept {
    return p.in[1] == 1 && p.in_channels % 2 == 0 && (p.in[0] | p.in[2] | p.in[3] | p.in[4]) % 2 == 0;
}

struct dense_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        return p.is_wide || (broadcast_numbers(p) == tile_numbers::bf16_pairs && pairs_in_memory(p));
    }
    [[nodiscard]] GRADKERN_COLD static constexpr bool is_profitable(const conv_problem& p) noexcept {
        if (p.in_channels == 1) return true;
        if (p.in[1] == 1) return !waits_for_pieces(p);
        // Channels apart: read in place only where they lie on few pages, and where packed numbers would be read once or twice.
        const std::int64_t channel_bytes = std::min(page, p.in[1] * p.bytes);
        if (p.in_channels > target.cache.tlb_pages * page / std::max<std::int64_t>(channel_bytes, 1)) return false;
        std::int64_t reads = 1;  // of a packed number; blocks pack planes for each plane tap
        for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
            reads *= shape::ceil_div(p.axes[i].kernel, p.axes[i].stride);
        const std::int64_t width = panel_width(p, choice(p));
        return reads <= 2 && p.taps() * shape::ceil_div(p.out_channels, width) <= 4;
    }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return {.numbers = broadcast_numbers(p), .source = source_kind::in_place};
    }

private:
    /// Whether tiles read pieces of the activations that a CPU does not fetch ahead: of a pixel the few channels of a group; or pixels of
    /// 1x1 kernels, of half to one KB, for so few outputs that the products take less time than the memory.
    [[nodiscard]] static constexpr bool waits_for_pieces(const conv_problem& p) noexcept {
        if (!target.quirk.waits_for_last_level) return false;
        const std::int64_t piece = p.in_channels * p.bytes;
        if (p.groups > 1) return p.taps() > 1 && piece < 2 * cache_line;
        return p.taps() == 1 && piece >= target.quirk.short_pixel && piece <= target.quirk.long_pixel &&
               p.out_channels <= 4 * p.real.tile_lanes() && !p.is_cached();
    }
};

struct dense_packed_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem&) noexcept { return true; }
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem&) noexcept { return true; }
    [[nodiscard]] static constexpr tile_choice choice(const conv_problem& p) noexcept {
        return {.numbers = broadcast_numbers(p), .source = source_kind::packed};
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
