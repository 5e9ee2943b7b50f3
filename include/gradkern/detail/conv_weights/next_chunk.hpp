// The next chunk of 1x1 kernels in NXC, prefetched while tiles compute the one before: such kernels read each number for few products.
// The hardware does not prefetch short runs that lie apart. (With AVX-512 next_chunk_ahead in dense.hpp does it
// where tiles read in place.)
//
//   gains      f32, Zen 3, AVX2, g++ 12 -O3: 1.0 to 1.5, 1.10 in the mean of 49 layers of the zoo. In
//              NCX times grew to 1.07
//   delete     when L2 has the next chunk without it
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/plan.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// Neighbouring channels of the pixels of a chunk, by 64 bytes, one line of the cache.
class chunk_lines {
public:
    chunk_lines() noexcept = default;
    /// An element has `element` bytes.
    chunk_lines(const plan& p, const chunk_grid::chunk& c, const shape::canonical_strides& stride,
                std::int64_t channels, std::int64_t element) noexcept
        : plan_(&p), chunk_(c), stride_(&stride), element_(element) {
        const bool contiguous = stride[4] == channels;  // pixels are one run
        runs_ = contiguous ? 1 : c.columns();
        run_lines_ = shape::ceil_div((contiguous ? c.columns() : 1) * channels * element, cache_line);
        go_to(c.first_line);
    }

    [[nodiscard]] std::int64_t count() const noexcept {
        return (chunk_.last_line - chunk_.first_line) * runs_ * run_lines_;
    }

    /// Calls f(bytes from the first channel) for the next ones, as many as there are.
    template <class F>
    void next(std::int64_t lines, const F& f) noexcept {
        while (lines > 0 && line_ < chunk_.last_line) {
            const std::int64_t some = std::min(lines, run_lines_ - done_);
            for (std::int64_t i = 0; i < some; ++i) f(at_ + (done_ + i) * cache_line);
            lines -= some;
            done_ += some;
            if (done_ < run_lines_) return;
            done_ = 0;
            at_ += (*stride_)[4] * element_;
            if (--runs_left_ > 0) continue;
            if (++line_ < chunk_.last_line) go_to(line_);
        }
    }

private:
    void go_to(std::int64_t line) noexcept {
        line_ = line;
        runs_left_ = runs_;
        at_ = line_position(plan_->axes, line).offset(*stride_, chunk_.first_column) * element_;
    }

    const plan* plan_ = nullptr;
    chunk_grid::chunk chunk_{};
    const shape::canonical_strides* stride_ = nullptr;
    std::int64_t element_ = 0;
    std::int64_t runs_ = 0;  // of each line of the chunk
    std::int64_t run_lines_ = 0;
    std::int64_t line_ = 0;
    std::int64_t runs_left_ = 0;
    std::int64_t at_ = 0;    // bytes from the first channel of position 0 to the run
    std::int64_t done_ = 0;  // lines of the run
};

/// Whether tasks prefetch.
[[nodiscard]] inline bool prefetches_next_chunk(const plan& p) noexcept {
    return p.has_unit_axes() && p.copies_pixels() && p.cut != position_cut::chunks;
}

/// Tiles of a chunk of a task.
template <class Real>
[[nodiscard]] inline std::int64_t tiles_of_chunk(const plan& p, const task& t) noexcept {
    std::int64_t tiles = 0;
    for (std::int64_t panel = 0; panel < t.panels; ++panel)
        tiles += shape::ceil_div(t.channels, std::int64_t{rows_at_most(t.lanes_of(p, panel), simd::lanes_of<Real>)});
    return tiles;
}

/// Both sides of a task, shared out among its tiles.
class next_chunk {
public:
    next_chunk() noexcept = default;
    template <class T>
    next_chunk(const plan& p, const task& t, const chunk_grid::chunk& c, const T* large, const T* small) noexcept
        : large_(large),
          small_(small),
          large_lines_(p, c, p.large, t.channels, sizeof(T)),
          small_lines_(p, c, p.small, t.lanes, sizeof(T)) {
        const std::int64_t tiles = tiles_of_chunk<accumulate_t<T>>(p, t);
        of_large_ = shape::ceil_div(large_lines_.count(), tiles);
        of_small_ = shape::ceil_div(small_lines_.count(), tiles);
    }
    GRADKERN_NOINLINE void prefetch_for_tile() noexcept {
        GRADKERN_DETAIL_KEEP_CALLS();
        prefetch(large_lines_, of_large_, static_cast<const std::byte*>(large_));
        prefetch(small_lines_, of_small_, static_cast<const std::byte*>(small_));
    }

private:
    static void prefetch(chunk_lines& lines, std::int64_t count, const std::byte* first) noexcept {
        lines.next(count, [&](std::int64_t at) GRADKERN_INLINE_LAMBDA { simd::prefetch_to_l2(first, at); });
    }

    const void* large_ = nullptr;
    const void* small_ = nullptr;
    chunk_lines large_lines_;
    chunk_lines small_lines_;
    std::int64_t of_large_ = 0;  // lines for each tile
    std::int64_t of_small_ = 0;
};

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
