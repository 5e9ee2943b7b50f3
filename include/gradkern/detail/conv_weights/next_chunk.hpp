// The next chunk of 1x1 kernels in NXC, which tiles prefetch while they compute the one before: such kernels read each number for few
// products, and tiles or packing wait for what lies beyond L2.
//
//   gains      f32, Emerald Rapids, AVX-512, g++ 12 -O3, weight gradients in NXC: 1.10 in the mean of 48 layers of the zoo, 1.02 to 1.56
//              where a side has up to 256 channels, 1.0 where both have more
//   delete     when L2 has the next chunk without it
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/tensor_pointer.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Whether tasks prefetch.
[[nodiscard]] inline bool prefetches_next_chunk(const plan& p) noexcept {
    return p.has_unit_axes() && p.waits_for_pixels() && p.cut != position_cut::chunks;
}

/// Tiles of a chunk of a task that can.
template <class Real>
[[nodiscard]] inline std::int64_t prefetching_tiles(const plan& p, const task& t) noexcept {
    std::int64_t tiles = 0;
    for (std::int64_t panel = 0; panel < t.panels; ++panel) {
        const std::int64_t lanes = t.lanes_of(p, panel);
        split_rows(t.channels, rows_at_most(lanes, simd::lanes_of<Real>), row_unit<operand::scalar>,
                   [&](std::ptrdiff_t rows) { tiles += prefetches_later(rows, lanes, simd::lanes_of<Real>) ? 1 : 0; });
    }
    return tiles;
}

/// The first `channels` channels of the pixels of a chunk, of `element` bytes each, in `terms` terms, of which there are some: one run
/// where they are all that a pixel has, else one of each pixel.
[[nodiscard]] inline later_lines lines_of(const plan& p, const chunk_grid::chunk& c, const void* side,
                                          const shape::canonical_strides& stride, std::int64_t channels,
                                          std::int64_t element, std::int64_t terms) noexcept {
    const auto* const first = static_cast<const std::byte*>(side) +
                              line_position(p.axes, c.first_line).offset(stride, c.first_column) * element;
    const std::int64_t pixel = stride[4] * element;
    if (stride[4] == channels) return {first, c.positions() * pixel, 0, terms};
    return {first, channels * element, pixel, std::max<std::int64_t>(terms / c.positions(), 1)};
}

/// Both sides of a task, shared out among `tiles` tiles of the chunk before, of `terms` terms each: first the small side.
class next_chunk {
public:
    next_chunk() noexcept = default;
    template <class Real>
    next_chunk(const plan& p, const task& t, const chunk_grid::chunk& c, const tensor_pointer<Real>& large,
               const tensor_pointer<Real>& small, std::int64_t tiles, std::int64_t terms) noexcept
        : small_tiles_(std::max<std::int64_t>(tiles * t.lanes / (t.lanes + t.channels), 1)),
          small_(lines_of(p, c, small.first, p.small, t.lanes, small.type->bytes, small_tiles_ * terms)) {
        if (tiles > small_tiles_)
            large_ =
                lines_of(p, c, large.first, p.large, t.channels, large.type->bytes, (tiles - small_tiles_) * terms);
    }

    /// What the next tile prefetches.
    [[nodiscard]] later_lines* of_tile() noexcept { return small_tiles_-- > 0 ? &small_ : &large_; }

private:
    std::int64_t small_tiles_ = 0;  // those left
    later_lines small_;
    later_lines large_;
};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
