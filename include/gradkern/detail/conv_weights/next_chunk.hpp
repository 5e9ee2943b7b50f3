// The next chunk of 1x1 kernels in NXC, which tiles prefetch while they compute the one before: such kernels read each number for few
// products, and packing waits for what lies beyond L2.
//
//   gains      f32, Emerald Rapids, AVX-512, g++ 12 -O3, weight gradients in NXC: 1.03 to 1.27 where a side has up to 256 channels, 1.0
//              where both have more
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
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Neighbouring bytes.
struct byte_run {
    std::int64_t at = 0;  ///< from the first channel of position 0
    std::int64_t bytes = 0;
};

/// Neighbouring channels of the pixels of a chunk: one run where they are all there is, else one of each pixel.
class chunk_runs {
public:
    chunk_runs() noexcept = default;
    /// An element has `element` bytes.
    chunk_runs(const plan& p, const chunk_grid::chunk& c, const shape::canonical_strides& stride, std::int64_t channels,
               std::int64_t element) noexcept
        : plan_(&p), chunk_(c), stride_(&stride), element_(element) {
        const std::int64_t pixels = c.positions();
        const bool one_run = offset_of(pixels - 1) - offset_of(0) == (pixels - 1) * channels;
        count_ = one_run ? 1 : pixels;
        bytes_ = (one_run ? pixels : 1) * channels * element;
    }

    [[nodiscard]] std::int64_t bytes() const noexcept { return count_ * bytes_; }

    /// The next ones, `most` at most; none behind the last one.
    [[nodiscard]] byte_run next(std::int64_t most) noexcept {
        if (number_ == count_) return {};
        const byte_run run{offset_of(number_) * element_ + done_, std::min(most, bytes_ - done_)};
        done_ += run.bytes;
        if (done_ == bytes_) {
            done_ = 0;
            ++number_;
        }
        return run;
    }

private:
    [[nodiscard]] std::int64_t offset_of(std::int64_t pixel) const noexcept {
        return line_position(plan_->axes, chunk_.first_line + pixel / chunk_.columns())
            .offset(*stride_, chunk_.first_column + pixel % chunk_.columns());
    }

    const plan* plan_ = nullptr;
    chunk_grid::chunk chunk_{};
    const shape::canonical_strides* stride_ = nullptr;
    std::int64_t element_ = 0;
    std::int64_t count_ = 0;   // runs
    std::int64_t bytes_ = 0;   // of each
    std::int64_t number_ = 0;  // of the next one,
    std::int64_t done_ = 0;    // and bytes of it
};

/// Whether tasks prefetch.
[[nodiscard]] inline bool prefetches_next_chunk(const plan& p) noexcept {
    return p.has_unit_axes() && p.waits_for_pixels() && p.cut != position_cut::chunks;
}

/// Tiles of a chunk of a task that can prefetch.
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

/// Both sides of a task, shared out among the tiles of the chunk before.
class next_chunk {
public:
    next_chunk() noexcept = default;
    /// `tiles` tiles prefetch, which add `terms` terms each.
    template <class T>
    next_chunk(const plan& p, const task& t, const chunk_grid::chunk& c, const T* large, const T* small,
               std::int64_t tiles, std::int64_t terms) noexcept
        : large_(reinterpret_cast<const std::byte*>(large)),
          small_(reinterpret_cast<const std::byte*>(small)),
          large_runs_(p, c, p.large, t.channels, sizeof(T)),
          small_runs_(p, c, p.small, t.lanes, sizeof(T)),
          terms_(terms),
          most_(shape::ceil_div(large_runs_.bytes() + small_runs_.bytes(), tiles)) {}

    /// The share of a tile: of one run, so that what pixels of few channels have may be more than is prefetched.
    [[nodiscard]] GRADKERN_NOINLINE later_lines share() noexcept {
        const std::byte* side = small_;
        byte_run run = small_runs_.next(most_);
        if (run.bytes == 0) {
            side = large_;
            run = large_runs_.next(most_);
        }
        return {side + run.at, shape::ceil_div(run.bytes, terms_)};
    }

private:
    const std::byte* large_ = nullptr;
    const std::byte* small_ = nullptr;
    chunk_runs large_runs_;
    chunk_runs small_runs_;
    std::int64_t terms_ = 1;
    std::int64_t most_ = 0;  // bytes for each tile
};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
