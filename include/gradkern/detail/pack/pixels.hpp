// Packing buffers with positions in the lanes, those of all lines, planes and images as one line: of 1x1 kernels, and of
// windows of lines for weight gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Positions of a tensor that are neighbours in their order and lie equally far apart in memory.
struct pixel_run {
    std::int64_t offset = 0;  ///< of the first, in elements
    std::int64_t count = 0;
};

/// Walks the positions (image, plane, row, column) of a tensor in row-major order, by runs as long as can be.
class pixel_walk {
public:
    /// From position number `first` on, which exists.
    GRADKERN_NOINLINE pixel_walk(std::int64_t batch, const std::array<std::int64_t, 3>& extent,
                                 const shape::canonical_strides& stride, std::int64_t first) noexcept {
        const std::array<level, 4> axes{
            {{extent[2], stride[4]}, {extent[1], stride[3]}, {extent[0], stride[2]}, {batch, stride[0]}}};
        for (const level& axis : axes) {
            if (axis.count == 1) continue;
            level* const last = levels_ == 0 ? nullptr : &level_[levels_ - 1];
            if (last != nullptr && axis.step == last->count * last->step) {
                last->count *= axis.count;
            } else {
                level_[levels_++] = axis;
            }
        }
        for (std::size_t l = 0; l < levels_; ++l) {
            at_[l] = first % level_[l].count;
            first /= level_[l].count;
            offset_ += at_[l] * level_[l].step;
        }
    }

    /// Elements between the positions of a run.
    [[nodiscard]] std::int64_t step() const noexcept { return level_[0].step; }

    /// The next run of at most `most` positions.
    [[nodiscard]] pixel_run next(std::int64_t most) noexcept {
        const pixel_run run{offset_, std::min(most, level_[0].count - at_[0])};
        at_[0] += run.count;
        offset_ += run.count * level_[0].step;
        for (std::size_t l = 0; at_[l] == level_[l].count && l + 1 < levels_; ++l) {
            offset_ += level_[l + 1].step - level_[l].count * level_[l].step;
            at_[l] = 0;
            ++at_[l + 1];
        }
        return run;
    }

private:
    struct level {
        std::int64_t count = 1;
        std::int64_t step = 1;
    };
    std::array<level, 4> level_{};  // innermost first
    std::array<std::int64_t, 4> at_{};
    std::size_t levels_ = 0;
    std::int64_t offset_ = 0;
};

/// Packs the next `count` positions of a walk over `src` as [channel][position], `pitch` floats from channel to channel.
/// `pairs`: of pairs of bf16 channels, half as many.
template <class T>
GRADKERN_NOINLINE void pack_pixels(const T* src, pixel_walk walk, std::int64_t count, std::int64_t channel_step,
                                   std::int64_t channels, bool pairs, float* packed, std::int64_t pitch) noexcept {
    for (float* const end = packed + count; packed != end;) {
        const pixel_run run = walk.next(end - packed);
        const std::int64_t step = walk.step();
        constexpr std::int64_t ahead = target.prefetch.packed_pixels;
        const std::int64_t together = !pairs ? 1 : step == 1 ? 2 : channels;  // channels
        float* to = packed;
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
