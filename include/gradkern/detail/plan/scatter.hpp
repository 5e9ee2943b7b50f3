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

inline constexpr std::int64_t scatter_sums = 256 * 1024;  ///< floats of one lane's sums at most

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
    bool direct = false;      // sums in the output itself
    bool look_first = true;   // at all indices, before the first write
    bool places_run = false;  // row-major places are one stride apart in the output
    std::int64_t plane = 0;   // places
    std::int64_t panel_width = 1;
    std::int64_t panels = 0;
    std::int64_t block = 1;  // places
    std::int64_t blocks = 0;
    std::int64_t sums = 0;  // floats of a slice
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return batch * panels * blocks; }

    /// Quotient and rest of `value` by index.per_place, in the cheapest type that holds both.
    template <class U>
    [[nodiscard]] constexpr std::array<std::int64_t, 2> divide(std::int64_t value) const noexcept {
        const auto v = static_cast<U>(value);
        const auto by = static_cast<U>(index.per_place);
        return {static_cast<std::int64_t>(v / by), static_cast<std::int64_t>(v % by)};
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
    g.block = g.direct ? g.plane : std::min(g.plane, scatter_sums);
    // Neighbouring channels share lines of memory: a panel of them is walked together.
    if (out[1] == 1) g.panel_width = std::min<std::int64_t>(g.channels, 64);
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

/// Calls f(c, gradient's offset, index's offset) for the elements of image n, channels [first, last), in ascending order
/// of the windows.
template <class F>
GRADKERN_ALWAYS_INLINE void for_each_gradient(const scatter_plan& g, std::int64_t n, std::int64_t first,
                                              std::int64_t last, const F& f) noexcept {
    const auto at = [&](const shape::canonical_strides& s, std::int64_t d, std::int64_t h) {
        return n * s[0] + first * s[1] + d * s[2] + h * s[3];
    };
    const std::int64_t columns = g.small[2];
    const std::int64_t from_column = g.gradient[4];
    const std::int64_t from_channel = g.gradient[1];
    const std::int64_t index_column = g.indices[4];
    const std::int64_t index_channel = g.indices[1];
    for (std::int64_t d = 0; d < g.small[0]; ++d) {
        for (std::int64_t h = 0; h < g.small[1]; ++h) {
            const std::int64_t from = at(g.gradient, d, h);
            const std::int64_t index = at(g.indices, d, h);
            if (last - first == 1) {
                for (std::int64_t w = 0; w < columns; ++w) f(first, from + w * from_column, index + w * index_column);
                continue;
            }
            for (std::int64_t w = 0; w < columns; ++w)
                for (std::int64_t c = first; c < last; ++c)
                    f(c, from + w * from_column + (c - first) * from_channel,
                      index + w * index_column + (c - first) * index_channel);
        }
    }
}

/// Calls f(own_place), where own_place(i, c) is the place of index i in the plane of channel c of image n. For every
/// other index, whatever its value, it is outside [0, plane).
template <class F>
GRADKERN_ALWAYS_INLINE void with_own_place(const scatter_plan& g, std::int64_t n, const F& f) noexcept {
    const std::int64_t image = n * g.index.per_image;
    if (g.index.per_place == 1) {  // unsigned: the difference of any two indices is defined, and no wrong one is small
        const std::int64_t step = g.index.per_channel;
        f([=](std::int64_t i, std::int64_t c) GRADKERN_INLINE_LAMBDA {
            return static_cast<std::int64_t>(static_cast<std::uint64_t>(i) -
                                             static_cast<std::uint64_t>(image + c * step));
        });
        return;
    }
    f([=, &g](std::int64_t i, std::int64_t c) GRADKERN_INLINE_LAMBDA -> std::int64_t {
        if (i < 0 || i >= g.index.end) return -1;
        const std::int64_t rest = i - image - c * g.index.per_channel;
        if (rest < 0) return -1;
        const auto [place, other] = rest <= UINT32_MAX && g.index.per_place <= UINT32_MAX
                                        ? g.divide<std::uint32_t>(rest)
                                        : g.divide<std::uint64_t>(rest);
        return other == 0 ? place : -1;
    });
}

/// What was found out about indices.
struct index_findings {
    bool in_range = true;
    bool local = true;  ///< every index points into the plane of its own element

    /// Takes note of an index that is no place of its element's plane.
    constexpr void note_stray(const scatter_plan& g, std::int64_t i) noexcept {
        local = local && i == -1;
        in_range = in_range && i >= -1 && i < g.index.end;
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
            with_own_place(g, n, [&](const auto& own_place) {
                for_each_gradient(g, n, first, last, [&](std::int64_t c, std::int64_t, std::int64_t at) {
                    const std::int64_t i = indices[at];
                    if (static_cast<std::uint64_t>(own_place(i, c)) >= static_cast<std::uint64_t>(g.plane))
                        found.note_stray(g, i);
                });
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
            for_each_gradient(g, n, c, c + 1, [&](std::int64_t, std::int64_t, std::int64_t at) {
                const std::int64_t i = indices[at];
                if (bad == -1 && (i < -1 || i >= g.index.end)) bad = i;
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
                for_each_gradient(g, n, c, c + 1, [&](std::int64_t, std::int64_t from, std::int64_t at) {
                    if (indices[at] == -1) return;
                    const scatter_plan::target t = g.target_of(indices[at], n, c);
                    f((t.n * g.channels + t.c) * g.plane + t.place, from);
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
            const auto places = static_cast<std::uint64_t>(last_place - first_place);
            const auto plane = static_cast<std::uint64_t>(g.plane);
            index_findings found;
            with_own_place(g, n, [&](const auto& own_place) {
                for_each_gradient(g, n, first_channel, last_channel,
                                  [=, &g, &found](std::int64_t c, std::int64_t from, std::int64_t at)
                                      GRADKERN_INLINE_LAMBDA {
                                          const std::int64_t place = own_place(indices[at], c);
                                          if (static_cast<std::uint64_t>(place - first_place) < places) {
                                              sum_at(place, c) += load_element(gradient + from);
                                          } else if (static_cast<std::uint64_t>(place) >= plane) {
                                              found.note_stray(g, indices[at]);
                                          }
                                      });
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
