// The scatter engine: the gradient of a max pool from the indices that its forward pass wrote.
//
// A run looks at all indices first (or, with index_check::each, at each of them on the way): is every one in range, and
// does every one point into the plane of its own element? Then comes the scatter. A task is a block of places of
// diff_src, of one panel of channels of one image; it adds the gradients whose indices point into it to f32 sums, in
// ascending order of the elements (n, c, o), and writes the sums. Where indices keep roughly to the order of memory, as
// those of any pool do, sums in scratch slide along a plane: few places are held at a time.
// That is where all indices stay in their planes; else, right and slow, blocks of sums over all planes look at all elements.
// f32 outputs that are overwritten hold their own sums, so that a block is a whole plane.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
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
/// Floats of sums that stay in the cache beside all else.
inline constexpr std::int64_t scatter_held = 64 * 1024;
/// Floats of one channel's sums that are cleared at once.
inline constexpr std::int64_t scatter_cleared = scatter_held / 8;
/// Floats of sums that are small enough for a workspace on the stack.
inline constexpr std::int64_t scatter_small = 3 * 1024;

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
    bool all_within = false;    // of a run: every index is known to point into the plane of its own element
    std::int64_t plane = 0;     // places
    std::uint64_t inverse = 1;  // of the odd part of index.per_place, modulo 2^64
    int shift = 0;              // per_place = odd part << shift
    std::int64_t width = 1;     // of a panel at most: neighbouring channels
    std::int64_t panel_width = 1;
    std::int64_t panels = 0;
    std::int64_t block = 1;  // places
    std::int64_t blocks = 0;
    std::int64_t held = 1;    // places of a block whose sums are in scratch at a time
    std::int64_t behind = 0;  // where those are not all: see index_findings
    std::int64_t sums = 0;    // floats of a slice
    std::int64_t slice_bytes = 0;

    /// Whether the sums of a block are too many for the cache, so that they had better slide along it.
    [[nodiscard]] constexpr bool wants_to_slide() const noexcept {
        return look_first && !direct && block * panel_width > scatter_held;
    }
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

/// Takes small planes of neighbouring channels as one longer plane of one line, where indices count through all of them as
/// the output does: what points into the plane of its own element points into the longer one, too.
constexpr void join_planes(scatter_plan& g) noexcept {
    const std::int64_t most = g.direct ? scatter_cleared : scatter_small;
    const std::int64_t windows = g.small[0] * g.small[1] * g.small[2];
    const auto follow = [](const shape::canonical_strides& s, const std::array<std::int64_t, 3>& extent) {
        return s[4] == 1 && (extent[1] == 1 || s[3] == extent[2]) &&
               (extent[0] == 1 || s[2] == extent[1] * extent[2]) && s[1] == extent[0] * extent[1] * extent[2];
    };
    if (g.index.per_place != 1 || g.index.per_channel != g.plane || g.plane > most / 2 || g.column_major ||
        g.channels == 0 || !follow(g.out, g.large) || !follow(g.gradient, g.small) || !follow(g.indices, g.small))
        return;
    std::int64_t together = std::min(g.channels, most / g.plane);
    while (g.channels % together != 0) --together;
    g.channels /= together;
    g.plane *= together;
    g.index.per_channel = g.out[1] = g.plane;
    g.gradient[1] = g.indices[1] = together * windows;
    g.small = {1, 1, together * windows};
    g.large = {1, 1, g.plane};
    // a line of its own: steps that nobody takes, as of lines that continue one another
    g.gradient[3] = g.indices[3] = g.small[2];
    g.out[3] = g.plane;
}

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
    join_planes(g);
    g.places_run = !g.column_major && (g.large[1] == 1 || g.out[3] == g.large[2] * g.out[4]) &&
                   (g.large[0] == 1 || g.out[2] == g.large[1] * g.large[2] * g.out[4]);
    const auto per_place = static_cast<std::uint64_t>(std::max<std::int64_t>(g.index.per_place, 1));
    g.shift = std::countr_zero(per_place);
    for (int bits = 1; bits < 64; bits *= 2) g.inverse *= 2 - (per_place >> g.shift) * g.inverse;  // Newton's steps
    g.block = g.direct ? g.plane : std::min(g.plane, scatter_sums);
    // Neighbouring channels share lines of memory: a panel of them is walked together.
    if (g.out[1] == 1) g.width = std::min<std::int64_t>(g.channels, 128);
    g.panel_width = g.width;
    if (!g.direct) {
        g.panel_width = std::clamp<std::int64_t>(scatter_sums / g.block, 1, g.panel_width);
        if (g.panel_width > simd::lanes) g.panel_width -= g.panel_width % simd::lanes;
    }
    g.panels = shape::ceil_div(g.channels, g.panel_width);
    g.blocks = shape::ceil_div(g.plane, g.block);
    g.held = g.block;
    if (!g.direct && g.tasks() > 0) {
        slice_layout slice;
        g.sums = std::max(g.block * g.panel_width, std::min(scatter_small, g.batch * g.channels * g.plane));
        static_cast<void>(slice.reserve<float>(g.sums));
        g.slice_bytes = slice.bytes();
    }
    return g;
}

/// The plan for indices none of which points more than `behind` places before where others ahead of it have pointed.
[[nodiscard]] constexpr scatter_plan slide_along(const scatter_plan& g, std::int64_t behind) noexcept {
    if (!g.wants_to_slide() || behind >= g.plane) return g;
    scatter_plan s = g;
    const std::int64_t least = behind + behind / 2 + 1;  // more than is needed, so that less of it is moved
    s.panel_width = g.width;
    while (s.panel_width > g.panel_width && least * s.panel_width > g.sums) s.panel_width /= 2;
    s.panels = shape::ceil_div(s.channels, s.panel_width);
    s.held = std::max(least, scatter_held / s.panel_width);
    if (s.held >= g.plane || s.held * s.panel_width > g.sums) return g;
    s.block = s.plane;
    s.blocks = 1;
    s.behind = behind;
    return s;
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
        bool within;         // all of them into [first, first + places) of the planes of their elements
        std::int64_t last;   // place, if so; else 0
        std::int64_t least;  // the same, where it is wanted
    };
    /// Multiples of per_place become multiples of a power of two, 2^shift: bits below it, and the sign bits of distances
    /// from both ends, tell whether there is a stray. Compilers collect bits by vectors, but comparisons one by one.
    template <bool wants_least = false>
    [[nodiscard]] GRADKERN_ALWAYS_INLINE reach reach_of(const std::int64_t* indices, std::int64_t first,
                                                        std::int64_t places) const noexcept {
        const std::uint64_t base = static_cast<std::uint64_t>(first) << own.shift;
        const std::uint64_t end = static_cast<std::uint64_t>(places) << own.shift;
        std::uint64_t outside = 0;
        std::uint64_t between = 0;
        std::int64_t last = 0;
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
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
                if constexpr (wants_least) least = std::min(least, static_cast<std::int64_t>(there));
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
        return {within, within ? first + (last >> own.shift) : 0, within ? first + (least >> own.shift) : 0};
    }
};

/// Calls f(run) for the elements of image n, channels [first, last), in ascending order of the windows. `mixed`: a run may
/// have elements of several windows and channels, as if of one channel: all that follow one another in memory.
template <class F>
GRADKERN_ALWAYS_INLINE void for_each_run(const scatter_plan& g, std::int64_t n, std::int64_t first, std::int64_t last,
                                         bool mixed, const F& f) noexcept {
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
    const auto follow = [&](const shape::canonical_strides& s) { return s[1] == 1 && s[4] == run.count; };
    const bool joins = mixed && follow(g.gradient) && follow(g.indices);
    if (joins) {
        run.count *= g.small[2];
    } else {
        run.channel_step = 1;
        run.origin_step = static_cast<std::uint64_t>(g.index.per_channel);
    }
    const std::int64_t runs = joins ? 1 : g.small[2];  // of a line
    for (std::int64_t d = 0; d < g.small[0]; ++d)
        for (std::int64_t h = 0; h < g.small[1]; ++h) {
            run.from = offset(g.gradient, d, h);
            run.at = offset(g.indices, d, h);
            for (std::int64_t w = 0; w < runs; ++w, run.from += g.gradient[4], run.at += g.indices[4]) f(run);
        }
}

/// What was found out about indices.
struct index_findings {
    bool in_range = true;
    bool local = true;        ///< every index points into the plane of its own element, or is -1
    bool all_within = true;   ///< none is -1 either
    std::int64_t behind = 0;  ///< places at most by which one points before where others ahead of it point

    /// Takes note of the indices of a run that are no places of the planes of their elements.
    void note_strays(const scatter_plan& g, const element_run& run, const std::int64_t* indices) noexcept {
        scatter_plan::own_plane own = run.own;
        for (std::int64_t e = 0; e < run.count; ++e, own.origin += run.origin_step) {
            const std::int64_t i = indices[run.at + e * run.at_step];
            if (own.place(i) < static_cast<std::uint64_t>(g.plane)) continue;
            all_within = false;
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
        if (!f.all_within) all_within_.store(false, std::memory_order_relaxed);
        std::int64_t most = behind_.load(std::memory_order_relaxed);
        while (most < f.behind && !behind_.compare_exchange_weak(most, f.behind, std::memory_order_relaxed)) {
        }
    }
    [[nodiscard]] index_findings get() const noexcept {
        return {in_range_.load(), local_.load(), all_within_.load(), behind_.load()};
    }

private:
    std::atomic<bool> in_range_{true};
    std::atomic<bool> local_{true};
    std::atomic<bool> all_within_{true};
    std::atomic<std::int64_t> behind_{0};
};

/// Looks at all indices, and writes nothing. `in_order`: whether it is asked how far they keep to the order of memory.
template <bool in_order>
[[nodiscard]] index_findings look_at_indices(const scatter_plan& g, const std::int64_t* indices,
                                             executor_ref executor) noexcept {
    shared_findings all;
    const std::int64_t panels = shape::ceil_div(g.channels, g.width);
    run_tasks(executor, g.batch * panels, slices({}, 0), [&](std::byte*, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t n = task / panels;
            const std::int64_t first = task % panels * g.width;
            const std::int64_t last = std::min(g.channels, first + g.width);
            index_findings found;
            std::int64_t furthest = 0;
            for_each_run(g, n, first, last, false, [&](const element_run& run) {
                constexpr std::int64_t most = 256;  // elements between two requests for what follows
                for (std::int64_t e = 0; e < run.count; e += most) {
                    const element_run part = run.part(e, std::min(most, run.count - e));
                    if (part.at_step == 1) simd::ask_to_read(indices + part.at, part.count);
                    const element_run::reach reach = part.template reach_of<in_order>(indices, 0, g.plane);
                    if (!reach.within) found.note_strays(g, part, indices);
                    if constexpr (in_order) {
                        furthest = std::max(furthest, reach.last);
                        found.behind = std::max(found.behind, reach.within ? furthest - reach.least : g.plane);
                    }
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
            for_each_run(g, n, c, c + 1, false, [&](const element_run& run) {
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
                for_each_run(g, n, c, c + 1, false, [&](const element_run& run) {
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

/// The f32 sums of a block of places of a panel: in the output itself (`direct`), or in scratch, all of them or those
/// that are held while they slide along. They are cleared no further than runs have reached, so that they are still in
/// the cache when gradients are added to them.
template <class T, bool direct>
class block_sums {
public:
    /// The block is [first, last) of the panel of `used` channels at `out`.
    block_sums(const scatter_plan& g, T* out, std::int64_t used, std::int64_t first, std::int64_t last,
               float* scratch) noexcept
        : g_(g), out_(out), used_(used), first_(first), places_(std::min(g.held, last - first)), last_(last) {
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
        // Sums that stay in the cache are cleared at once: then nobody needs to know how far a run reaches. Of one channel's
        // planes in the output fewer, since memory would wait for those of long tensors.
        const std::int64_t most = !direct ? scatter_held : channels_ == 1 ? scatter_cleared : 4 * scatter_held;
        ready_ = g.all_within && places_ == g.plane && places_ <= most / channels_;
        if (ready_) clear_to(places_);
    }

    /// Whether an index alone tells where to add, whatever the channel of its element.
    [[nodiscard]] bool takes_mixed_runs() const noexcept {
        return ready_ && place_step_ == g_.index.per_place && channel_step_ == g_.index.per_channel;
    }

    /// Adds the gradients of a run. Returns whether all its indices point into the block; others are left out.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE bool add(const element_run& run, const T* gradients,
                                                  const std::int64_t* indices) noexcept {
        constexpr std::int64_t most = 64;  // elements, whose indices stay in the innermost cache
        bool all_within = true;
        for (std::int64_t e = 0; e < run.count; e += most) {
            const element_run part = run.part(e, std::min(most, run.count - e));
            if (part.at_step == 1) simd::ask_to_read(indices + part.at, part.count);
            if (part.from_step == 1) simd::ask_to_read(gradients + part.from, part.count);
            const bool within = ready_ || make_ready(part, indices);
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

    /// Clears the places that the elements of a run point to. Returns whether all are in the block.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE bool make_ready(const element_run& run, const std::int64_t* indices) noexcept {
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
            clear_to(done);
            write(done);
            std::copy(data_ + done * place_step_, data_ + clean_ * place_step_, data_);
            clean_ -= done;
            first_ += done;
            places_ = std::min(g_.held, last_ - first_);
        }
    }

    /// Writes the sums of the first `count` places.
    void write(std::int64_t count) const noexcept {
        // places whose lines are asked for before they are written
        const std::int64_t most = !g_.places_run ? 1 : g_.out[1] == 1 ? 16 : count;
        for (std::int64_t p = 0; p < count; p += most) {
            const std::int64_t here = std::min(most, count - p);
            T* const to = out_ + g_.offset_of(first_ + p);
            if (g_.out[1] == 1 && g_.out[4] == used_) {
                simd::ask_to_write(to, here * used_);
            } else if (g_.out[1] == 1) {
                for (std::int64_t k = 0; k < here; ++k) simd::ask_to_write(to + k * g_.out[4], used_);
            }
            unpack_lanes(data_ + p * place_step_, place_step_, used_, here, to, g_.out[1], g_.out[4], g_.accumulate);
        }
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
    T* out_;
    std::int64_t used_;
    std::int64_t first_;
    std::int64_t places_;
    std::int64_t last_;
    float* data_ = nullptr;
    std::int64_t channels_ = 0;
    std::int64_t place_step_ = 0;
    std::int64_t channel_step_ = 1;
    std::int64_t clean_ = 0;  // places
    bool ready_ = false;      // all places are clean, and all indices point to them
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

            const auto scatter = [&](auto sums) {
                index_findings found;
                for_each_run(g, n, first_channel, last_channel, sums.takes_mixed_runs(),
                             [&](const element_run& run) GRADKERN_INLINE_LAMBDA {
                                 if (!sums.add(run, gradient, indices)) found.note_strays(g, run, indices);
                             });
                sums.finish();
                all.add(found);
            };
            if constexpr (std::is_same_v<T, float>) {
                if (g.direct) {
                    scatter(block_sums<T, true>(g, panel, used, first_place, last_place, nullptr));
                    continue;
                }
            }
            auto* const scratch = reinterpret_cast<float*>(slice);
            scatter(block_sums<T, false>(g, panel, used, first_place, last_place, scratch));
        }
    });
    return all.get();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
