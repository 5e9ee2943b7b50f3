// The plan of the scatter engine (scatter.hpp): panels of channels, blocks of places, and where their sums are.
//
// A place is a position's number in its plane. The plan also knows what an index means: the place it points to where that
// is in the plane of its own element (own_plane), or anywhere in the tensor (target_of).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/index_rule.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
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
/// Floats of planes in the output that are taken as one.
inline constexpr std::int64_t scatter_joined = scatter_held / 8;
/// Floats of sums that are small enough for a workspace on the stack.
inline constexpr std::int64_t scatter_small = 3 * 1024;

/// Floats of sums where scratch is the least: what a workspace on the stack holds.
inline constexpr std::int64_t scatter_least = call_scratch / 4;

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
    bool direct = false;           // sums in the output itself
    bool in_f64 = false;           // sums, in scratch: a plane has very many windows
    bool anywhere_in_f64 = false;  // sums of indices that point anywhere: the tensor has
    bool look_first = true;        // at all indices, before the first write
    bool places_run = false;       // row-major places are one stride apart in the output
    bool all_within = false;       // of a run: every index is known to point into the plane of its own element
    std::int64_t plane = 0;        // places
    std::uint64_t inverse = 1;     // of the odd part of index.per_place, modulo 2^64
    int shift = 0;                 // per_place = odd part << shift
    std::int64_t width = 1;        // of a panel at most: neighbouring channels
    std::int64_t panel_width = 1;
    std::int64_t panels = 0;
    std::int64_t block = 1;  // places
    std::int64_t blocks = 0;
    std::int64_t held = 1;    // places of a block whose sums are in scratch at a time
    std::int64_t behind = 0;  // see index_findings; a plane where nobody has asked
    std::int64_t sums = 0;    // in a slice
    std::int64_t slice_bytes = 0;

    /// Sums that stay in the cache beside all else.
    [[nodiscard]] constexpr std::int64_t held_sums() const noexcept { return in_f64 ? scatter_held / 2 : scatter_held; }
    /// Whether the sums of a block are too many for the cache, so that they had better slide along it.
    [[nodiscard]] constexpr bool wants_to_slide() const noexcept {
        return look_first && !direct && block * panel_width > held_sums();
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
            return own::rotate_right((static_cast<std::uint64_t>(i) - origin) * inverse, shift);
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
constexpr void take_small_planes_together(scatter_plan& g) noexcept {
    const std::int64_t most = g.direct ? scatter_joined : scatter_small;
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
    if (p.channels == 0) return g;  // nothing to write
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
    const std::int64_t windows = g.small[0] * g.small[1] * g.small[2];
    g.in_f64 = windows > many_windows;
    g.anywhere_in_f64 = g.batch * g.channels * windows > many_windows;
    g.direct = f32 && !g.accumulate && !g.in_f64;
    // A pass that went wrong can be done again only where it overwrites. Sums of large planes are faster where they slide along.
    g.look_first = g.accumulate || g.in_f64 || options.index_check == index_check::first;
    g.plane = g.large[0] * g.large[1] * g.large[2];
    take_small_planes_together(g);
    g.places_run = !g.column_major && (g.large[1] == 1 || g.out[3] == g.large[2] * g.out[4]) &&
                   (g.large[0] == 1 || g.out[2] == g.large[1] * g.large[2] * g.out[4]);
    const auto per_place = static_cast<std::uint64_t>(std::max<std::int64_t>(g.index.per_place, 1));
    g.shift = own::trailing_zeros(per_place);
    for (int bits = 1; bits < 64; bits *= 2) g.inverse *= 2 - (per_place >> g.shift) * g.inverse;  // Newton's steps
    const std::int64_t share = g.in_f64 ? 2 : 1;  // floats that one sum takes
    g.block = g.direct ? g.plane : std::min(g.plane, scatter_sums / share);
    // Neighbouring channels share lines of memory: a panel of them is walked together.
    if (g.out[1] == 1) g.width = std::min<std::int64_t>(g.channels, 128);
    g.panel_width = g.width;
    if (!g.direct) {
        const std::int64_t most = options.scratch == scratch_use::least ? scatter_least / share : scatter_sums / share;
        g.panel_width = std::clamp<std::int64_t>(most / g.block, 1, g.panel_width);
        if (g.panel_width > simd::lanes) g.panel_width -= g.panel_width % simd::lanes;
    }
    g.panels = shape::ceil_div(g.channels, g.panel_width);
    g.blocks = shape::ceil_div(g.plane, g.block);
    g.held = g.block;
    g.behind = g.plane;
    if (!g.direct && g.tasks() > 0) {
        slice_layout slice(options.scratch == scratch_use::least);
        g.sums = std::max(g.block * g.panel_width, std::min(scatter_small, g.batch * g.channels * g.plane));
        static_cast<void>(g.in_f64 ? slice.reserve<double>(g.sums) : slice.reserve<float>(g.sums));
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
    s.held = std::max(least, g.held_sums() / 4 / s.panel_width);  // written early, they need little room
    if (s.held >= g.plane || s.held * s.panel_width > g.sums) return g;
    s.block = s.plane;
    s.blocks = 1;
    s.behind = behind;
    return s;
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
