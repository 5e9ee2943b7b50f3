// What the max engine's gradient asks memory for while it adds: speed only.
#pragma once

#include <algorithm>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/plan.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The lines of memory of the positions that windows of a line, one after the other, are the first to reach.
template <class T>
class fresh_lines {
public:
    /// The line's first window is (d, h, w); `tensor`: element of the panel's first channel at the image's origin.
    fresh_lines(const max_plan& m, const T* tensor, const shape::canonical_strides& strides, std::int64_t channels,
                std::int64_t d, std::int64_t h, std::int64_t w) noexcept
        : channels_(channels),
          planes_(count(m.axes[0])),
          rows_(count(m.axes[1])),
          columns_(count(m.axes[2])),
          plane_(strides[2]),
          row_(strides[3]),
          column_(strides[4]),
          advance_(m.axes[2].stride_in(column_)),
          tensor_(tensor),
          first_(first(m.axes[0], d) * plane_ + first(m.axes[1], h) * row_ + first(m.axes[2], w) * column_) {
        if (column_ == channels_) {  // neighbours are one stretch
            channels_ *= columns_;
            columns_ = 1;
        }
    }

    /// Asks for what window `w` of the line reaches. (Inlined by force: g++ drops calls of functions that only ask.)
    template <bool to_write>
    GRADKERN_ALWAYS_INLINE void ask(std::int64_t w) const noexcept {
        const std::int64_t window = first_ + w * advance_;
        for (std::int64_t p = 0; p < planes_; ++p)
            for (std::int64_t r = 0; r < rows_; ++r)
                for (std::int64_t c = 0; c < columns_; ++c)
                    for (std::int64_t j = 0; j < channels_; j += simd::line_elements<T>) {
                        const std::int64_t at = window + p * plane_ + r * row_ + c * column_ + j;
                        if constexpr (to_write) {
                            simd::prefetch_to_write(tensor_, at);
                        } else {
                            simd::prefetch(tensor_, at);
                        }
                    }
    }

private:
    /// From one window to the next `stride` positions are new, of which only the first few are asked for.
    [[nodiscard]] static std::int64_t count(const shape::axis& a) noexcept {
        return std::min<std::int64_t>(a.stride, 4);
    }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static std::int64_t first(const shape::axis& a, std::int64_t o) noexcept {
        const std::int64_t last = a.position(std::min(o, a.small - 1), 0) + a.reach();
        return std::clamp<std::int64_t>(last - count(a) + 1, 0, a.large - 1);
    }

    std::int64_t channels_;
    std::int64_t planes_;
    std::int64_t rows_;
    std::int64_t columns_;
    std::int64_t plane_;
    std::int64_t row_;
    std::int64_t column_;
    std::int64_t advance_;  // from window to window
    const T* tensor_;
    std::int64_t first_;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
