// The scatter engine: the gradient of a max pool from the indices that its forward pass wrote.
//
// A run looks at all indices first (or, with index_check::each, at each of them on the way): is every one in range, and
// does every one point into the plane of its own element? Then comes the scatter. A task is a block of places of
// diff_src, of one panel of channels of one image; it adds the gradients whose indices point into it to f32 sums, in
// ascending order of the elements (n, c, o), and writes the sums.
// That is where all indices stay in their planes; else, right and slow, blocks of sums over all planes look at all elements.
// f32 outputs that are overwritten hold their own sums, so that a block is a whole plane.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/maximum_plan.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Floats of one lane's sums at most (4 MB). With fewer, panels of 16-bit tensors become so narrow that lines of memory
/// are read in parts.
inline constexpr std::int64_t scatter_sums = 1024 * 1024;

/// Everything a run needs but pointers. Made by make_scatter_plan from a checked problem.
struct scatter_plan {
    std::array<std::int64_t, 3> small{};  // spatial sizes
    std::array<std::int64_t, 3> large{};
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    shape::canonical_strides gradient{};
    shape::canonical_strides indices{};
    shape::canonical_strides out{};
    index_rule index{};
    bool column_major = false;
    bool accumulate = false;
    bool direct = false;        // sums in the output itself
    bool look_first = true;     // at all indices, before the first write
    bool places_run = false;    // row-major places are one stride apart in the output
    std::int64_t plane = 0;     // places
    std::uint64_t inverse = 1;  // of the odd part of index.per_place, modulo 2^64
    int shift = 0;              // per_place = odd part << shift
    std::int64_t panel_width = 1;
    std::int64_t panels = 0;
    std::int64_t block = 1;  // places
    std::int64_t blocks = 0;
    std::int64_t sums = 0;  // floats of a slice
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return batch * panels * blocks; }

    /// The place of index i in the plane of channel c of image n. For every other index, whatever its value, the result is
    /// outside [0, plane): subtracting the index of place 0 and multiplying by the inverse of per_place modulo 2^64 maps
    /// numbers one to one, and the indices of the plane in order to its places.
    struct own_plane {
        std::uint64_t origin;
        std::uint64_t inverse;
        int shift;
        [[nodiscard]] GRADKERN_ALWAYS_INLINE std::uint64_t place(std::int64_t i) const noexcept {
            return std::rotr((static_cast<std::uint64_t>(i) - origin) * inverse, shift);
        }
    };
    [[nodiscard]] constexpr own_plane plane_of(std::int64_t n, std::int64_t c) const noexcept {
        return {static_cast<std::uint64_t>(n * index.per_image + c * index.per_channel), inverse, shift};
    }
    /// Where an index points, seen from an element of image n and channel c.
    struct target {
        std::int64_t n;
        std::int64_t c;
        std::int64_t place;
    };
    [[nodiscard]] constexpr target target_of(std::int64_t i, std::int64_t n, std::int64_t c) const noexcept {
        if (index.per_image != 0) {
            n = i / index.per_image;
            i %= index.per_image;
        }
        if (index.per_channel == 0) return {n, c, i};  // the plane
        if (index.per_place == 1) return {n, i / plane, i % plane};
        return {n, i % index.per_place, i / index.per_place};
    }
    /// Offset of a place in the output's plane.
    [[nodiscard]] constexpr std::int64_t offset_of(std::int64_t place) const noexcept {
        if (places_run) return place * out[4];
        if (column_major) {
            const std::int64_t rest = place / large[0];
            return place % large[0] * out[2] + rest % large[1] * out[3] + rest / large[1] * out[4];
        }
        const std::int64_t rest = place / large[2];
        return rest / large[1] * out[2] + rest % large[1] * out[3] + place % large[2] * out[4];
    }
};

/// Chooses panels, blocks and scratch.
[[nodiscard]] constexpr scatter_plan make_scatter_plan(const shape::pooling_problem& p,
                                                       const max_pool_indices_attributes& attributes,
                                                       const shape::canonical_strides& gradient,
                                                       const shape::canonical_strides& indices,
                                                       const shape::canonical_strides& out, bool f32,
                                                       const plan_options& options) noexcept {
    scatter_plan g;
    for (std::size_t i = 0; i < 3; ++i) {
        g.small[i] = p.axes[i].small;
        g.large[i] = p.axes[i].large;
    }
    g.batch = p.batch;
    g.channels = p.channels;
    g.gradient = gradient;
    g.indices = indices;
    g.out = out;
    g.index = index_rule(p, attributes.data_format, attributes.index_base, attributes.storage_order);
    g.column_major = attributes.storage_order == storage_order::column_major;
    g.accumulate = options.output == output_mode::accumulate;
    g.direct = f32 && !g.accumulate;
    // a pass that went wrong can be done again only where it overwrites
    g.look_first = g.accumulate || options.index_check == index_check::first;
    g.plane = g.large[0] * g.large[1] * g.large[2];
    g.places_run = !g.column_major && (g.large[1] == 1 || out[3] == g.large[2] * out[4]) &&
                   (g.large[0] == 1 || out[2] == g.large[1] * g.large[2] * out[4]);
    const auto per_place = static_cast<std::uint64_t>(std::max<std::int64_t>(g.index.per_place, 1));
    g.shift = std::countr_zero(per_place);
    for (int bits = 1; bits < 64; bits *= 2) g.inverse *= 2 - (per_place >> g.shift) * g.inverse;  // Newton's steps
    g.block = g.direct ? g.plane : std::min(g.plane, scatter_sums);
    // Neighbouring channels share lines of memory: a panel of them is walked together.
    if (out[1] == 1) g.panel_width = std::min<std::int64_t>(g.channels, 128);
    if (!g.direct) {
        g.panel_width = std::clamp<std::int64_t>(scatter_sums / g.block, 1, g.panel_width);
        if (g.panel_width > simd::lanes) g.panel_width -= g.panel_width % simd::lanes;
    }
    g.panels = shape::ceil_div(g.channels, g.panel_width);
    g.blocks = shape::ceil_div(g.plane, g.block);
    if (!g.direct && g.tasks() > 0) {
        slice_layout slice;
        constexpr std::int64_t few = 3 * 1024;  // floats: small enough for a workspace on the stack
        g.sums = std::max(g.block * g.panel_width, std::min(few, g.batch * g.channels * g.plane));
        static_cast<void>(slice.reserve<float>(g.sums));
        g.slice_bytes = slice.bytes();
    }
    return g;
}

/// Elements of one image that are walked in one loop: windows of one channel, or channels of one window.
struct element_run {
    std::int64_t count = 0;
    std::int64_t from = 0;  // offset of the first gradient
    std::int64_t from_step = 0;
    std::int64_t at = 0;  // offset of the first index
    std::int64_t at_step = 0;
    std::int64_t channel_step = 0;  // channels from element to element
    scatter_plan::own_plane own{};  // of the first element
    std::uint64_t origin_step = 0;

    /// Elements [begin, begin + length) of the run.
    [[nodiscard]] element_run part(std::int64_t begin, std::int64_t length) const noexcept {
        element_run r = *this;
        r.count = length;
        r.from += begin * from_step;
        r.at += begin * at_step;
        r.own.origin += static_cast<std::uint64_t>(begin) * origin_step;
        return r;
    }

    /// Where the indices of a run point.
    struct reach {
        bool within;        // all of them into [first, first + places) of the planes of their elements
        std::int64_t last;  // place, if so; else 0
    };
    /// Multiples of per_place become multiples of a power of two, 2^shift: bits below it, and the sign bits of distances
    /// from both ends, tell whether there is a stray. Compilers collect bits by vectors, but comparisons one by one.
    [[nodiscard]] reach reach_of(const std::int64_t* indices, std::int64_t first, std::int64_t places) const noexcept {
        const std::uint64_t base = static_cast<std::uint64_t>(first) << own.shift;
        const std::uint64_t end = static_cast<std::uint64_t>(places) << own.shift;
        std::uint64_t outside = 0;
        std::uint64_t between = 0;
        std::int64_t last = 0;
        const auto look = [&](std::int64_t apart, std::uint64_t inverse) GRADKERN_INLINE_LAMBDA {
            const std::int64_t* const index = indices + at;
            const std::uint64_t step = origin_step;
            const std::int64_t n = count;
            std::uint64_t origin = own.origin;
            for (std::int64_t e = 0; e < n; ++e, origin += step) {
                const std::uint64_t there = (static_cast<std::uint64_t>(index[e * apart]) - origin) * inverse - base;
                outside |= there | (end - 1 - there);
                between |= there;
                last = std::max(last, static_cast<std::int64_t>(there));
            }
        };
        if (at_step == 1 && own.inverse == 1) {
            look(1, 1);
        } else if (at_step == 1) {
            look(1, own.inverse);
        } else {
            look(at_step, own.inverse);
        }
        const std::uint64_t low_bits = (std::uint64_t{1} << own.shift) - 1;
        const bool within = static_cast<std::int64_t>(outside) >= 0 && (between & low_bits) == 0;
        return {within, within ? first + (last >> own.shift) : 0};
    }
};

/// Calls f(run) for the elements of image n, channels [first, last), in ascending order of the windows.
template <class F>
GRADKERN_ALWAYS_INLINE void for_each_run(const scatter_plan& g, std::int64_t n, std::int64_t first, std::int64_t last,
                                         const F& f) noexcept {
    const auto offset = [&](const shape::canonical_strides& s, std::int64_t d, std::int64_t h) {
        return n * s[0] + first * s[1] + d * s[2] + h * s[3];
    };
    element_run run;
    run.own = g.plane_of(n, first);
    if (last - first == 1) {
        const auto joined = [&](const shape::canonical_strides& s) { return s[3] == g.small[2] * s[4]; };
        const bool join = joined(g.gradient) && joined(g.indices);
        run.count = join ? g.small[1] * g.small[2] : g.small[2];
        run.from_step = g.gradient[4];
        run.at_step = g.indices[4];
        for (std::int64_t d = 0; d < g.small[0]; ++d)
            for (std::int64_t h = 0; h < g.small[1]; h += join ? g.small[1] : 1) {
                run.from = offset(g.gradient, d, h);
                run.at = offset(g.indices, d, h);
                f(run);
            }
        return;
    }
    run.count = last - first;
    run.from_step = g.gradient[1];
    run.at_step = g.indices[1];
    run.channel_step = 1;
    run.origin_step = static_cast<std::uint64_t>(g.index.per_channel);
    for (std::int64_t d = 0; d < g.small[0]; ++d)
        for (std::int64_t h = 0; h < g.small[1]; ++h) {
            run.from = offset(g.gradient, d, h);
            run.at = offset(g.indices, d, h);
            for (std::int64_t w = 0; w < g.small[2]; ++w, run.from += g.gradient[4], run.at += g.indices[4]) f(run);
        }
}

/// What was found out about indices.
struct index_findings {
    bool in_range = true;
    bool local = true;  ///< every index points into the plane of its own element

    /// Takes note of the indices of a run that are no places of the planes of their elements.
    void note_strays(const scatter_plan& g, const element_run& run, const std::int64_t* indices) noexcept {
        scatter_plan::own_plane own = run.own;
        for (std::int64_t e = 0; e < run.count; ++e, own.origin += run.origin_step) {
            const std::int64_t i = indices[run.at + e * run.at_step];
            if (own.place(i) < static_cast<std::uint64_t>(g.plane)) continue;
            local = local && i == -1;
            in_range = in_range && i >= -1 && i < g.index.end;
        }
    }
};

/// What the tasks of a run found out together.
class shared_findings {
public:
    void add(const index_findings& f) noexcept {
        if (!f.in_range) in_range_.store(false, std::memory_order_relaxed);
        if (!f.local) local_.store(false, std::memory_order_relaxed);
    }
    [[nodiscard]] index_findings get() const noexcept { return {in_range_.load(), local_.load()}; }

private:
    std::atomic<bool> in_range_{true};
    std::atomic<bool> local_{true};
};

/// Looks at all indices, and writes nothing.
[[nodiscard]] inline index_findings look_at_indices(const scatter_plan& g, const std::int64_t* indices,
                                                    executor_ref executor) noexcept {
    shared_findings all;
    run_tasks(executor, g.batch * g.panels, slices({}, 0), [&](std::byte*, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t n = task / g.panels;
            const std::int64_t first = task % g.panels * g.panel_width;
            const std::int64_t last = std::min(g.channels, first + g.panel_width);
            index_findings found;
            for_each_run(g, n, first, last, [&](const element_run& run) {
                constexpr std::int64_t most = 256;  // elements between two requests for what follows
                for (std::int64_t e = 0; e < run.count; e += most) {
                    const element_run part = run.part(e, std::min(most, run.count - e));
                    if (part.at_step == 1) simd::ask_to_read(indices + part.at, part.count);
                    if (!part.reach_of(indices, 0, g.plane).within) found.note_strays(g, part, indices);
                }
            });
            all.add(found);
        }
    });
    return all.get();
}

/// The first index out of range in row-major order of (n, c, o); there is one.
[[nodiscard]] inline std::int64_t first_bad_index(const scatter_plan& g, const std::int64_t* indices) noexcept {
    std::int64_t bad = -1;
    for (std::int64_t n = 0; n < g.batch; ++n)
        for (std::int64_t c = 0; c < g.channels; ++c) {
            for_each_run(g, n, c, c + 1, [&](const element_run& run) {
                for (std::int64_t e = 0; e < run.count && bad == -1; ++e) {
                    const std::int64_t i = indices[run.at + e * run.at_step];
                    if (i < -1 || i >= g.index.end) bad = i;
                }
            });
            if (bad != -1) return bad;
        }
    return bad;
}

/// Runs a plan whose indices point anywhere in the tensor: every block of sums looks at all elements.
template <class T>
void run_scatter_anywhere(const scatter_plan& g, const T* gradient, const std::int64_t* indices, T* out,
                          std::span<std::byte> workspace, executor_ref executor) noexcept {
    // Calls f(place among all planes, gradient's offset) for every element in row-major order of (n, c, o).
    const auto for_each_target = [&](const auto& f) {
        for (std::int64_t n = 0; n < g.batch; ++n)
            for (std::int64_t c = 0; c < g.channels; ++c)
                for_each_run(g, n, c, c + 1, [&](const element_run& run) {
                    for (std::int64_t e = 0; e < run.count; ++e) {
                        const std::int64_t i = indices[run.at + e * run.at_step];
                        if (i == -1) continue;
                        const scatter_plan::target t = g.target_of(i, n, c);
                        f((t.n * g.channels + t.c) * g.plane + t.place, run.from + e * run.from_step);
                    }
                });
    };
    const auto element = [&](std::int64_t i) {
        const std::int64_t plane = i / g.plane;
        return out + (plane / g.channels * g.out[0] + plane % g.channels * g.out[1] + g.offset_of(i % g.plane));
    };
    const std::int64_t count = g.batch * g.channels * g.plane;
    if constexpr (std::is_same_v<T, float>) {
        if (g.direct) {  // one pass, in the caller's thread
            for (std::int64_t i = 0; i < count; ++i) *element(i) = 0.0F;
            for_each_target([&](std::int64_t i, std::int64_t from) { *element(i) += gradient[from]; });
            return;
        }
    }
    const std::int64_t block = g.sums;
    run_tasks(executor, shape::ceil_div(count, block), slices(workspace, g.slice_bytes),
              [&](std::byte* slice, auto&& next) {
                  auto* sums = reinterpret_cast<float*>(slice);
                  for (std::int64_t task = next(); task >= 0; task = next()) {
                      const std::int64_t first = task * block;
                      const std::int64_t here = std::min(block, count - first);
                      std::fill_n(sums, here, 0.0F);
                      for_each_target([&](std::int64_t i, std::int64_t from) {
                          if (i >= first && i < first + here) sums[i - first] += load_element(gradient + from);
                      });
                      for (std::int64_t i = 0; i < here; ++i) store_result(element(first + i), sums[i], g.accumulate);
                  }
              });
}

/// The f32 sums of a block of places of a panel. They are cleared no further than runs have reached, so that they are
/// still in the cache when gradients are added to them.
class block_sums {
public:
    /// `data`: the sum of the first place and channel; others are `place_step` and `channel_step` floats on. Where
    /// `place_step` is 0 places lie as in the output.
    block_sums(const scatter_plan& g, float* data, std::int64_t first, std::int64_t last, std::int64_t channels,
               std::int64_t place_step, std::int64_t channel_step) noexcept
        : g_(g),
          data_(data),
          first_(first),
          places_(last - first),
          channels_(channels),
          place_step_(place_step),
          channel_step_(channel_step) {}

    /// Adds the gradients of a run. Returns whether all its indices point into the block; others are left out.
    template <class T>
    [[nodiscard]] bool add(const element_run& run, const T* gradients, const std::int64_t* indices) noexcept {
        constexpr std::int64_t most = 64;  // elements, whose indices stay in the innermost cache
        bool all_within = true;
        for (std::int64_t e = 0; e < run.count; e += most) {
            const element_run part = run.part(e, std::min(most, run.count - e));
            if (part.at_step == 1) simd::ask_to_read(indices + part.at, part.count);
            if (part.from_step == 1) simd::ask_to_read(gradients + part.from, part.count);
            const auto [within, last] = part.reach_of(indices, first_, places_);
            clear_to(within ? last - first_ + 1 : places_);
            float* const sums = data_ + e * run.channel_step * channel_step_;
            std::array<float, static_cast<std::size_t>(most)> wide;
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

    /// Clears what no run has reached.
    void clear_rest() noexcept { clear_to(places_); }

private:
    [[nodiscard]] GRADKERN_ALWAYS_INLINE std::int64_t offset_of(std::int64_t place) const noexcept {
        return place_step_ != 0 ? place * place_step_ : g_.offset_of(first_ + place);
    }

    void clear_to(std::int64_t end) noexcept {
        if (end <= clean_) return;
        if (place_step_ == channels_ && (channels_ == 1 || channel_step_ == 1)) {
            const std::int64_t count = (end - clean_) * place_step_;
            simd::ask_to_write(data_ + end * place_step_, std::min<std::int64_t>(count, 1024));
            std::fill_n(data_ + clean_ * place_step_, count, 0.0F);
        } else {
            for (std::int64_t p = clean_; p < end; ++p)
                for (std::int64_t c = 0; c < channels_; ++c) data_[offset_of(p) + c * channel_step_] = 0.0F;
        }
        clean_ = end;
    }

    /// Adds all gradients of a run within the block, where indices count what offsets count.
    GRADKERN_NOINLINE void add_all(const element_run& run, const float* from, std::int64_t from_step,
                                   const std::int64_t* indices, float* sums) const noexcept {
        const std::int64_t* at = indices + run.at;
        const auto first = static_cast<std::int64_t>(run.own.origin) + first_ * place_step_;
        const std::int64_t drift = run.channel_step * channel_step_ - static_cast<std::int64_t>(run.origin_step);
        const std::int64_t n = run.count;
        if (run.at_step == 1 && from_step == 1 && drift == 0) {
            GRADKERN_UNROLL_FOUR
            for (std::int64_t e = 0; e < n; ++e) sums[at[e] - first] += from[e];
        } else {
            GRADKERN_UNROLL_FOUR
            for (std::int64_t e = 0; e < n; ++e) sums[at[e * run.at_step] - first + e * drift] += from[e * from_step];
        }
    }

    void add_those_within(const element_run& run, const float* from, std::int64_t from_step,
                          const std::int64_t* indices, float* sums) const noexcept {
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
    float* data_;
    std::int64_t first_;
    std::int64_t places_;
    std::int64_t channels_;
    std::int64_t place_step_;
    std::int64_t channel_step_;
    std::int64_t clean_ = 0;  // places
};

/// Runs a plan whose indices all point into the planes of their own elements, or finds out that they do not: then the
/// output is not the result. All other checks have passed.
template <class T>
[[nodiscard]] index_findings run_scatter(const scatter_plan& g, const T* gradient, const std::int64_t* indices, T* out,
                                         std::span<std::byte> workspace, executor_ref executor) noexcept {
    shared_findings all;
    run_tasks(executor, g.tasks(), slices(workspace, g.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t n = task / (g.panels * g.blocks);
            const std::int64_t first_channel = task / g.blocks % g.panels * g.panel_width;
            const std::int64_t last_channel = std::min(g.channels, first_channel + g.panel_width);
            const std::int64_t first_place = task % g.blocks * g.block;
            const std::int64_t last_place = std::min(g.plane, first_place + g.block);
            const std::int64_t used = last_channel - first_channel;
            T* const panel = out + n * g.out[0] + first_channel * g.out[1];

            // sums[place][channel], or the output itself
            auto* const scratch = reinterpret_cast<float*>(slice);
            block_sums sums = [&] {
                if constexpr (std::is_same_v<T, float>) {
                    if (g.direct)
                        return block_sums(g, panel, first_place, last_place, used, g.places_run ? g.out[4] : 0,
                                          g.out[1]);
                }
                return block_sums(g, scratch, first_place, last_place, g.panel_width, g.panel_width, 1);
            }();
            index_findings found;
            for_each_run(g, n, first_channel, last_channel, [&](const element_run& run) {
                if (!sums.add(run, gradient, indices)) found.note_strays(g, run, indices);
            });
            sums.clear_rest();
            all.add(found);
            if (g.direct) continue;
            if (g.places_run) {
                unpack_lanes(scratch, g.panel_width, used, last_place - first_place, panel + first_place * g.out[4],
                             g.out[1], g.out[4], g.accumulate);
            } else {
                for (std::int64_t p = first_place; p < last_place; ++p)
                    unpack_lanes(scratch + (p - first_place) * g.panel_width, g.panel_width, used, 1,
                                 panel + g.offset_of(p), g.out[1], std::ptrdiff_t{1}, g.accumulate);
            }
        }
    });
    return all.get();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
