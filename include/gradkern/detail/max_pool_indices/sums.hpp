// The sums of one task of the scatter engine: cleared just before gradients are added to them, and written, where they
// are in scratch, when no gradient to come is added to them.
//
// Loops: run of elements (max_pool_indices/runs.hpp) > part of at most 256, of whole windows: find how far they reach, clear or
// slide as far, widen the gradients, add.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/plan.hpp>
#include <gradkern/detail/max_pool_indices/runs.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The sums of a block of places of a panel, f32, or f64 for very many windows: in the output itself (`direct`), or in scratch, all of them or those
/// that are held while they slide along. They are cleared no further than runs have reached, so that they are still in
/// the cache when gradients are added to them.
template <class T, bool direct, class Sum = float>
class block_sums {
public:
    /// The block is [first, last) of the panel of `used` channels at `out`. The same lane is likely to write that at `next`
    /// after it, if there is one.
    block_sums(const scatter_plan& g, T* out, T* next, std::int64_t used, std::int64_t first, std::int64_t last,
               Sum* scratch) noexcept
        : g_(g),
          out_(out),
          used_(used),
          first_(first),
          places_(std::min(g.held, last - first)),
          last_(last),
          written_(first) {
        if constexpr (direct) {
            data_ = out;
            channels_ = used;
            place_step_ = g.places_run ? g.out[4] : 0;
            channel_step_ = g.out[1];
        } else {
            data_ = scratch;
            channels_ = g.panel_width;
            place_step_ = g.panel_width;
        }
        // Sums that stay in the cache are cleared at once: then nobody needs to know how far a run reaches.
        const std::int64_t held = g.held_sums();
        const std::int64_t most = direct && channels_ > 1 ? 4 * held : held;
        ready_ = g.all_within && places_ == g.plane && places_ <= most / channels_;
        if (ready_) clear_to(places_);
        if (ready_ && channels_ == 1 && g.places_run && g.out[4] == 1) {
            ahead_ = direct ? next : out;
            const std::int64_t windows = g.small[0] * g.small[1] * g.small[2];
            if (ahead_ != nullptr && windows > 0) asked_each_ = shape::ceil_div(g.plane, windows);
        }
        by_largest_ = g.all_within && g.block == g.plane &&
                      (channels_ - 1) * g.index.per_channel < std::max<std::int64_t>(1, g.index.per_place);
    }

    /// Whether an index alone tells where to add, whatever the channel of its element.
    [[nodiscard]] bool takes_mixed_runs() const noexcept {
        return (ready_ || by_largest_) && place_step_ == g_.index.per_place && channel_step_ == g_.index.per_channel;
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
            ask_for(part.count);
            const bool within = ready_ || make_ready(part, indices);
            Sum* const sums = data_ + e * run.channel_step * channel_step_;
            std::array<float, static_cast<std::size_t>(part_elements)> wide;
            const float* from = wide.data();
            std::int64_t from_step = 1;
            if constexpr (std::is_same_v<T, float>) {
                from = gradients + part.from;
                from_step = part.from_step;
            } else {
                // as many lanes of one position as there are elements
                pack_lanes(gradients + part.from, part.from_step, part.count, 0, 1, wide.data(), most);
            }
            if (within && place_step_ == g_.index.per_place) {
                add_all(part, from, from_step, indices, sums);
            } else {
                add_those_within(part, from, from_step, indices, sums);
            }
            all_within = all_within && within;
        }
        return all_within;
    }

    /// Completes what no run has reached, and writes what has not been written.
    void finish() noexcept {
        if constexpr (direct) {
            clear_to(places_);
        } else {
            slide_to(last_);
        }
    }

private:
    [[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t offset_of(std::int64_t place) const noexcept {
        return place_step_ != 0 ? place * place_step_ : g_.offset_of(first_ + place);
    }

    /// Asks for the output that is written next, as much of it as falls to so many gradients: while these are added, memory
    /// would have nothing to do.
    GRADKERN_ALWAYS_INLINE void ask_for(std::int64_t count) noexcept {
        const std::int64_t end = asked_ + count * asked_each_;
        for (; asked_ < end; asked_ += simd::line_elements<T>) simd::prefetch_to_write(ahead_, asked_);
    }

    /// Clears the places that the elements of a run point to. Returns whether all are in the block.
    [[nodiscard]] GRADKERN_NOINLINE bool make_ready(const element_run& run, const std::int64_t* indices) noexcept {
        if (by_largest_) {
            const std::int64_t last = run.last_place(indices, g_.index.per_place);
            if constexpr (!direct) {
                if (last >= first_ + places_) {
                    slide_to(last - g_.behind);
                } else {
                    write_to(last - g_.behind);  // as soon as it can be: memory takes it while gradients are added
                }
            }
            clear_to(last - first_ + 1);
            return true;
        }
        element_run::reach reach = run.reach_of(indices, first_, places_);
        if constexpr (!direct)
            if (!reach.within && first_ + places_ < last_) reach = slide_for(run, indices);
        clear_to(reach.within ? reach.last - first_ + 1 : places_);
        return reach.within;
    }

    /// Slides as far as the elements of a run point. Returns where they do.
    GRADKERN_NOINLINE element_run::reach slide_for(const element_run& run, const std::int64_t* indices) noexcept {
        slide_to(run.reach_of(indices, first_, last_ - first_).last - g_.behind);
        return run.reach_of(indices, first_, places_);
    }

    /// Writes the sums of all places before `begin`, and holds those from there on.
    void slide_to(std::int64_t begin) noexcept {
        while (first_ < begin) {
            const std::int64_t done = std::min(begin - first_, places_);
            write_to(first_ + done);
            own::copy_n(data_ + done * place_step_, (clean_ - done) * place_step_, data_);
            clean_ -= done;
            first_ += done;
            places_ = std::min(g_.held, last_ - first_);
        }
    }

    /// Writes the sums of the held places before `end` that have not been written.
    void write_to(std::int64_t end) noexcept {
        if (end <= written_) return;
        clear_to(end - first_);
        // places whose lines are asked for before they are written
        const std::int64_t most = !g_.places_run ? 1 : g_.out[1] == 1 ? 16 : end - written_;
        while (written_ < end) {
            const std::int64_t here = std::min(most, end - written_);
            const std::int64_t p = written_ - first_;
            T* const to = out_ + g_.offset_of(written_);
            if (g_.out[1] == 1 && g_.out[4] == used_) {
                simd::prefetch_stream_to_write(to, here * used_);
            } else if (g_.out[1] == 1) {
                for (std::int64_t k = 0; k < here; ++k) simd::prefetch_stream_to_write(to + k * g_.out[4], used_);
            }
            unpack_lanes(data_ + p * place_step_, place_step_, used_, here, to, g_.out[1], g_.out[4], g_.accumulate);
            written_ += here;
        }
    }

    void clear_to(std::int64_t end) noexcept {
        if (end <= clean_) return;
        if (place_step_ == channels_ && (channels_ == 1 || channel_step_ == 1)) {
            const std::int64_t count = (end - clean_) * place_step_;
            simd::prefetch_stream_to_write(data_ + end * place_step_, std::min<std::int64_t>(count, 1024));
            own::fill_n(data_ + clean_ * place_step_, count, Sum{0});
        } else {
            for (std::int64_t p = clean_; p < end; ++p)
                for (std::int64_t c = 0; c < channels_; ++c) data_[offset_of(p) + c * channel_step_] = Sum{0};
        }
        clean_ = end;
    }

    /// Adds all gradients of a run within the block, where indices count what offsets count.
    GRADKERN_NOINLINE void add_all(const element_run& run, const float* from, std::int64_t from_step,
                                   const std::int64_t* indices, Sum* sums) const noexcept {
        const std::int64_t* at = indices + run.at;
        const std::uint64_t first = run.own.origin + static_cast<std::uint64_t>(first_ * place_step_);
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

    void add_those_within(const element_run& run, const float* from, std::int64_t from_step,
                          const std::int64_t* indices, Sum* sums) const noexcept {
        const std::int64_t* at = indices + run.at;
        const std::int64_t sum_step = run.channel_step * channel_step_;
        scatter_plan::own_plane own = run.own;
        for (std::int64_t e = 0; e < run.count; ++e, own.origin += run.origin_step) {
            const std::uint64_t place = own.place(at[e * run.at_step]) - static_cast<std::uint64_t>(first_);
            if (place < static_cast<std::uint64_t>(places_))
                sums[offset_of(static_cast<std::int64_t>(place)) + e * sum_step] += from[e * from_step];
        }
    }

    const scatter_plan& g_;
    T* out_;
    std::int64_t used_;
    std::int64_t first_;
    std::int64_t places_;
    std::int64_t last_;
    std::int64_t written_;  // places before it are
    Sum* data_ = nullptr;
    std::int64_t channels_ = 0;
    std::int64_t place_step_ = 0;
    std::int64_t channel_step_ = 1;
    const T* ahead_ = nullptr;     // output that is asked for while sums are in the cache
    std::int64_t asked_ = 0;       // elements of it that have been asked for
    std::int64_t asked_each_ = 0;  // elements of it for each gradient
    std::int64_t clean_ = 0;       // places
    bool ready_ = false;           // all places are clean, and all indices point to them
    bool by_largest_ = false;      // the largest index of elements that follow one another tells how far they reach
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
