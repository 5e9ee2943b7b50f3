// The scatter engine: the gradient of a max pool from the indices that its forward pass wrote.
//
// A run looks at all indices first (or, with index_check::each, at each of them on the way): is every one in range, and
// does every one point into the plane of its own element? Then comes the scatter. A task is a block of places of diff_src, of one panel of channels of one image; it adds the
// gradients whose indices point into it to f32 sums, in ascending order of the elements (n, c, o), and writes the sums.
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

    /// Whether every index points into [first, first + places) of the plane of its element.
    [[nodiscard]] bool all_within(const std::int64_t* indices, std::uint64_t first,
                                  std::uint64_t places) const noexcept {
        const std::int64_t* const index = indices + at;
        const scatter_plan::own_plane of = own;
        bool within = true;
        for (std::int64_t e = 0; e < count; ++e) {
            const std::uint64_t origin = of.origin + static_cast<std::uint64_t>(e) * origin_step;
            within &= scatter_plan::own_plane{origin, of.inverse, of.shift}.place(index[e * at_step]) - first < places;
        }
        return within;
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
                if (!run.all_within(indices, 0, static_cast<std::uint64_t>(g.plane)))
                    found.note_strays(g, run, indices);
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

/// Adds the gradients of a run whose indices point into [first, first + places) of the planes of their elements to
/// sums[offset_of(place - first) + e * sum_step]; returns whether all do.
template <class T, class Offset>
[[nodiscard]] GRADKERN_ALWAYS_INLINE bool add_run(const element_run& run, const T* gradients,
                                                  const std::int64_t* indices, std::uint64_t first,
                                                  std::uint64_t places, float* sums, std::int64_t sum_step,
                                                  const Offset& offset_of) noexcept {
    const T* from = gradients + run.from;
    const std::int64_t* at = indices + run.at;
    scatter_plan::own_plane own = run.own;
    const std::int64_t from_step = run.from_step;
    const std::int64_t at_step = run.at_step;
    const std::uint64_t origin_step = run.origin_step;
    bool within = true;
    std::array<float, 64> wide;  // gradients of a part of the run, where a vector at a time can be widened
    for (std::int64_t left = run.count; left > 0;) {
        const bool widens = !std::is_same_v<T, float> && from_step == 1 && left >= simd::lanes;
        const std::int64_t part = widens ? std::min<std::int64_t>(left, 64) : left;
        if (widens) simd::widen(from, wide.data(), part);
        for (std::int64_t e = 0; e < part; ++e) {
            const std::uint64_t place = own.place(*at) - first;
            if (place < places) {
                sums[offset_of(static_cast<std::int64_t>(place))] +=
                    widens ? wide[static_cast<std::size_t>(e)] : load_element(from);
            } else {
                within = false;
            }
            from += from_step;
            at += at_step;
            sums += sum_step;
            own.origin += origin_step;
        }
        left -= part;
    }
    return within;
}

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
            float* sums = reinterpret_cast<float*>(slice);
            std::int64_t channel_step = 1;
            std::int64_t place_step = g.panel_width;
            if constexpr (std::is_same_v<T, float>) {
                if (g.direct) {
                    sums = panel;
                    channel_step = g.out[1];
                    place_step = g.out[4];
                }
            }
            const bool linear = !g.direct || g.places_run;  // a place's sum is place_step from the one before
            const auto sum_at = [=, &g](std::int64_t place, std::int64_t c) GRADKERN_INLINE_LAMBDA -> float& {
                const std::int64_t p = linear ? (place - first_place) * place_step : g.offset_of(place);
                return sums[p + (c - first_channel) * channel_step];
            };
            if (g.direct && !(linear && place_step == 1)) {
                for (std::int64_t p = first_place; p < last_place; ++p)
                    for (std::int64_t c = first_channel; c < last_channel; ++c) sum_at(p, c) = 0.0F;
            } else {
                std::fill_n(sums, (last_place - first_place) * (g.direct ? used : g.panel_width), 0.0F);
            }
            const auto first_own = static_cast<std::uint64_t>(first_place);
            const auto places = static_cast<std::uint64_t>(last_place - first_place);
            index_findings found;
            for_each_run(g, n, first_channel, last_channel, [&](const element_run& run) {
                const std::int64_t sum_step = run.channel_step * channel_step;
                const bool within =
                    linear ? add_run(run, gradient, indices, first_own, places, sums, sum_step,
                                     [=](std::int64_t place) GRADKERN_INLINE_LAMBDA { return place * place_step; })
                           : add_run(run, gradient, indices, first_own, places, sums, sum_step,
                                     [&](std::int64_t place) { return g.offset_of(first_place + place); });
                if (!within) found.note_strays(g, run, indices);
            });
            all.add(found);
            if (g.direct) continue;
            if (g.places_run) {
                unpack_lanes(sums, g.panel_width, used, last_place - first_place, panel + first_place * g.out[4],
                             g.out[1], g.out[4], g.accumulate);
            } else {
                for (std::int64_t p = first_place; p < last_place; ++p)
                    unpack_lanes(sums + (p - first_place) * g.panel_width, g.panel_width, used, 1,
                                 panel + g.offset_of(p), g.out[1], std::ptrdiff_t{1}, g.accumulate);
            }
        }
    });
    return all.get();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
