// The sums of one task: zeroed just before gradients are added to them, so that they are in the cache then, and, where they are
// in scratch, rounded and written as soon as no gradient to come is added to them.
//
// Loops: run of elements (runs.hpp) > part of at most 256, of whole windows: find how far it reaches, zero or slide as far, widen
// the gradients, add.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool_indices {

/// The sums of a block of pixels of a panel: in diff_src itself, or in scratch, all of them or those that are buffered while they
/// slide along.
template <class T, sum_place where, class Sum>
class block_sums {
public:
    static constexpr bool in_place = where == sum_place::in_place;

    /// `all_within`: all indices are known to point into the planes of their elements.
    block_sums(const plan& g, T* diff_src, std::int64_t task, bool all_within, Sum* scratch) noexcept
        : g_(g),
          out_(diff_src + offset_of_panel(task)),
          used_(std::min(g.panel_width, g.channels - g.channel_of(task))),
          first_(task % g.blocks * g.block),
          last_(std::min(g.plane, first_ + g.block)),
          pixels_(std::min(g.buffered, last_ - first_)),
          written_(first_) {
        // sums that are zeroed at once
        const std::int64_t most = (in_place && used_ > 1 ? 4 : 1) * sums_in_cache(g.sums);
        if constexpr (in_place) {
            data_ = out_;
            channels_ = used_;
            pixel_step_ = g.one_line ? g.diff_src[4] : 0;
            channel_step_ = g.diff_src[1];
        } else {
            data_ = scratch;
            channels_ = pixel_step_ = g.panel_width;
        }
        // Sums that stay in the cache are zeroed at once: then nobody needs to know how far a run reaches.
        ready_ = all_within && pixels_ == g.plane && pixels_ <= most / channels_;
        if (ready_) zero_to(pixels_);
        // In place the same worker is likely to write the next task, if there is one.
        const bool has_next = !in_place || task + 1 < g.tasks();
        if (ready_ && channels_ == 1 && g.one_line && g.diff_src[4] == 1 && has_next && g.windows() > 0) {
            ahead_ = in_place ? diff_src + offset_of_panel(task + 1) : out_;
            prefetched_each_ = shape::ceil_div(g.plane, g.windows());
        }
        by_largest_ = all_within && g.block == g.plane &&
                      (channels_ - 1) * g.index.per_channel < std::max<std::int64_t>(1, g.index.per_offset);
    }

    /// The order of runs: interleaved where an index alone tells where to add, whatever the channel of its element.
    [[nodiscard]] run_order order() const noexcept {
        return order_of_panel(
            g_, (ready_ || by_largest_) && pixel_step_ == g_.index.per_offset && channel_step_ == g_.index.per_channel);
    }

    /// Adds the gradients of a run. Returns whether all its indices point into the block; others are left out.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE bool add(const element_run& run, const T* gradients,
                                                  const std::int64_t* indices) noexcept {
        const std::int64_t most = run.part_size();
        bool all_within = true;
        for (std::int64_t e = 0; e < run.count; e += most) {
            const element_run part = run.part(e, std::min(most, run.count - e));
            if (part.at_step == 1) simd::prefetch_stream(indices + part.at, part.count);
            if (part.from_step == 1) simd::prefetch_stream(gradients + part.from, part.count);
            prefetch_next(part.count);
            const bool within = ready_ || make_ready(part, indices);
            Sum* const sums = data_ + e * run.channel_step * channel_step_;
            std::array<accumulate_t<T>, static_cast<std::size_t>(part_elements)> wide;
            const accumulate_t<T>* from = wide.data();
            std::int64_t from_step = 1;
            if constexpr (simd::is_wide<T>) {
                from = gradients + part.from;
                from_step = part.from_step;
            } else {
                // as many lanes of one pixel as there are elements
                pack_lanes(gradients + part.from, part.from_step, part.count, 0, 1, wide.data(), most);
            }
            if (within && pixel_step_ == g_.index.per_offset) {
                add_all(part, from, from_step, indices, sums);
            } else {
                add_those_within(part, from, from_step, indices, sums);
            }
            all_within = all_within && within;
        }
        return all_within;
    }

    /// Zeroes what no run has reached, and writes what has not been written.
    void finish() noexcept { in_place ? zero_to(pixels_) : slide_to(last_); }

private:
    [[nodiscard]] std::int64_t offset_of_panel(std::int64_t task) const noexcept {
        return g_.image_of(task) * g_.diff_src[0] + g_.channel_of(task) * g_.diff_src[1];
    }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t offset_of(std::int64_t pixel) const noexcept {
        return pixel_step_ != 0 ? pixel * pixel_step_ : g_.offset_of(first_ + pixel);
    }

    /// Prefetches the output that is written next, as much of it as falls to so many gradients: while these are added, memory
    /// would have nothing to do.
    GRADKERN_ALWAYS_INLINE void prefetch_next(std::int64_t count) noexcept {
        const std::int64_t end = prefetched_ + count * prefetched_each_;
        for (; prefetched_ < end; prefetched_ += simd::line_elements<T>) simd::prefetch_to_write(ahead_, prefetched_);
    }

    /// Zeroes the pixels that the elements of a run point to. Returns whether all are in the block.
    [[nodiscard]] GRADKERN_NOINLINE bool make_ready(const element_run& run, const std::int64_t* indices) noexcept {
        if (by_largest_) {
            const std::int64_t last = run.last_pixel(indices, g_.index.per_offset);
            if (!in_place)  // written as soon as it can be: memory takes it while gradients are added
                last < first_ + pixels_ ? write_to(last - g_.look_back) : slide_to(last - g_.look_back);
            zero_to(last - first_ + 1);
            return true;
        }
        element_run::reach reach = run.reach_of(indices, first_, pixels_);
        if (!in_place && !reach.within && first_ + pixels_ < last_) {
            slide_to(run.reach_of(indices, first_, last_ - first_).last - g_.look_back);
            reach = run.reach_of(indices, first_, pixels_);
        }
        zero_to(reach.within ? reach.last - first_ + 1 : pixels_);
        return reach.within;
    }

    /// Writes the sums of all pixels before `begin`, and buffers those from there on.
    void slide_to(std::int64_t begin) noexcept {
        while (first_ < begin) {
            const std::int64_t done = std::min(begin - first_, pixels_);
            write_to(first_ + done);
            own::copy_n(data_ + done * pixel_step_, (zeroed_ - done) * pixel_step_, data_);
            zeroed_ -= done;
            first_ += done;
            pixels_ = std::min(g_.buffered, last_ - first_);
        }
    }

    /// Writes the buffered sums of pixels before `end` that have not been written.
    void write_to(std::int64_t end) noexcept {
        if (end <= written_) return;
        zero_to(end - first_);
        // pixels whose lines are prefetched before they are written
        const std::int64_t most = !g_.one_line          ? 1
                                  : g_.diff_src[1] == 1 ? target.prefetch.rounded_pixels
                                                        : end - written_;
        while (written_ < end) {
            const std::int64_t here = std::min(most, end - written_);
            const std::int64_t p = written_ - first_;
            T* const to = out_ + g_.offset_of(written_);
            for (std::int64_t k = 0; g_.diff_src[1] == 1 && k < here; ++k)
                simd::prefetch_stream_to_write(to + k * g_.diff_src[4], used_);
            unpack_lanes(data_ + p * pixel_step_, pixel_step_, used_, here, to, g_.diff_src[1], g_.diff_src[4],
                         g_.output == output_mode::accumulate);
            written_ += here;
        }
    }

    void zero_to(std::int64_t end) noexcept {
        if (end <= zeroed_) return;
        if (pixel_step_ == channels_ && (channels_ == 1 || channel_step_ == 1)) {
            const std::int64_t count = (end - zeroed_) * pixel_step_;
            simd::prefetch_stream_to_write(data_ + end * pixel_step_, std::min(count, target.prefetch.zeroed_sums));
            own::fill_n(data_ + zeroed_ * pixel_step_, count, Sum{0});
        } else {
            for (std::int64_t p = zeroed_; p < end; ++p) {
                Sum* const row = data_ + offset_of(p);
                if (channel_step_ == 1) {
                    own::fill_n(row, channels_, Sum{0});
                } else {
                    for (std::int64_t c = 0; c < channels_; ++c) row[c * channel_step_] = Sum{0};
                }
            }
        }
        zeroed_ = end;
    }

    /// Adds all gradients of a run within the block, where indices count what offsets count.
    GRADKERN_NOINLINE void add_all(const element_run& run, const accumulate_t<T>* from, std::int64_t from_step,
                                   const std::int64_t* indices, Sum* sums) const noexcept {
        const std::int64_t* at = indices + run.at;
        const std::uint64_t first = run.own.origin + static_cast<std::uint64_t>(first_ * pixel_step_);
        // an address of index 0, which may be in front of the tensor: pointers could not say so
        const auto zero = reinterpret_cast<std::uintptr_t>(sums) - first * sizeof(Sum);
        const auto sum = [zero](std::int64_t i) GRADKERN_INLINE_LAMBDA -> Sum& {
            return *reinterpret_cast<Sum*>(zero + static_cast<std::uintptr_t>(i) * sizeof(Sum));
        };
        const std::int64_t drift = run.channel_step * channel_step_ - static_cast<std::int64_t>(run.origin_step);
        const std::int64_t n = run.count;
        if (run.at_step == 1 && from_step == 1 && drift == 0) {
            GRADKERN_UNROLL_FOUR
            for (std::int64_t e = 0; e < n; ++e) sum(at[e]) += from[e];
        } else {
            GRADKERN_UNROLL_FOUR
            for (std::int64_t e = 0; e < n; ++e) sum(at[e * run.at_step] + e * drift) += from[e * from_step];
        }
    }

    void add_those_within(const element_run& run, const accumulate_t<T>* from, std::int64_t from_step,
                          const std::int64_t* indices, Sum* sums) const noexcept {
        const std::int64_t* at = indices + run.at;
        const std::int64_t sum_step = run.channel_step * channel_step_;
        plan::own_plane own = run.own;
        for (std::int64_t e = 0; e < run.count; ++e, own.origin += run.origin_step) {
            const std::uint64_t pixel = own.pixel(at[e * run.at_step]) - static_cast<std::uint64_t>(first_);
            if (pixel < static_cast<std::uint64_t>(pixels_))
                sums[offset_of(static_cast<std::int64_t>(pixel)) + e * sum_step] += from[e * from_step];
        }
    }

    const plan& g_;
    T* out_;
    std::int64_t used_;
    std::int64_t first_;
    std::int64_t last_;
    std::int64_t pixels_;   // of the block, from first_ on, whose sums are kept
    std::int64_t written_;  // pixels before it are
    Sum* data_ = nullptr;
    std::int64_t channels_ = 0;
    std::int64_t pixel_step_ = 0;
    std::int64_t channel_step_ = 1;
    const T* ahead_ = nullptr;          // output that is prefetched while gradients are added to sums in the cache
    std::int64_t prefetched_ = 0;       // elements of it
    std::int64_t prefetched_each_ = 0;  // elements of it for each gradient
    std::int64_t zeroed_ = 0;           // pixels
    bool ready_ = false;                // all pixels are zeroed, and all indices point to them
    bool by_largest_ = false;  // the largest index of elements that follow one another tells how far they reach
};

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
