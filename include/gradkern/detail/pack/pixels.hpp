// Packing buffers with positions in the lanes, those of all lines, planes and images as one line: of 1x1 kernels, and of
// windows of lines for weight gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Positions of a tensor that are neighbours in their order and lie equally far apart in memory.
struct pixel_run {
    std::int64_t offset = 0;  ///< of the first, in elements
    std::int64_t count = 0;
};

/// Walks the positions (image, plane, row, column) of a tensor in row-major order, by runs as long as can be.
class pixel_walk : row_walk {
public:
    /// From position number `first` on, which exists.
    GRADKERN_NOINLINE pixel_walk(std::int64_t batch, const std::array<std::int64_t, 3>& extent,
                                 const shape::canonical_strides& stride, std::int64_t first) noexcept
        : row_walk(0, batch, {all_of(extent[0]), all_of(extent[1]), all_of(extent[2])}, stride, {}, 0) {
        start_at(first);
    }

    /// Elements between the positions of a run.
    [[nodiscard]] std::int64_t step() const noexcept { return in_step(); }

    /// The next run of at most `most` positions.
    [[nodiscard]] pixel_run next(std::int64_t most) noexcept {
        const pixel_run run{in_offset(), std::min(most, left())};
        pass(run.count);
        return run;
    }

private:
    [[nodiscard]] static shape::tap_class all_of(std::int64_t positions) noexcept {
        return {.positions = positions, .read_per_position = 1};
    }
};

/// Packs the next `count` positions of a walk over `src` as [channel][position], `pitch` floats from channel to channel.
/// `pairs`: of pairs of bf16 channels, half as many.
template <class T>
GRADKERN_NOINLINE void pack_pixels(const T* src, pixel_walk walk, std::int64_t count, std::int64_t channel_step,
                                   std::int64_t channels, bool pairs, accumulate_t<T>* packed,
                                   std::int64_t pitch) noexcept {
    for (accumulate_t<T>* const end = packed + count; packed != end;) {
        const pixel_run run = walk.next(end - packed);
        const std::int64_t step = walk.step();
        constexpr std::int64_t ahead = target.prefetch.packed_pixels;
        const std::int64_t together = !pairs ? 1 : step == 1 ? 2 : channels;  // channels
        accumulate_t<T>* to = packed;
        for (std::int64_t k = 0; k < channels; k += together, to += pitch) {
            const T* const from = src + run.offset + k * channel_step;
            // No CPU fetches ahead from channel to channel.
            for (std::int64_t x = 0; x < run.count && step == 1; x += simd::line_elements<T>)
                for (std::int64_t next = ahead; next < std::min(ahead + together, channels - k); ++next)
                    simd::prefetch(from, next * channel_step + x);
            if constexpr (has_pairs<T>) {
                if (pairs) {
                    pack_row_pairs(from, step, run.count, channel_step, std::min(together, channels - k), to, pitch);
                    continue;
                }
            }
            if (step == 1) {
                simd::widen(from, to, run.count);
            } else {
                for (std::int64_t x = 0; x < run.count; ++x) to[x] = load_element(from + x * step);
            }
        }
        packed += run.count;
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
