// The plan of a gradient from indices, and how it is made.
//
// A pixel is a position of a plane of diff_src. It is named by its linear offset: its number in the plane, as indices count.
// The plan knows what an index means: a pixel of the plane of its own element (own_plane), or of any plane (destination_of).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool_indices/problem.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool_indices {

/// Pixels of fused planes, and sums that scratch has room for at least: few enough for a workspace on the stack.
inline constexpr std::int64_t small_planes = 3 * 1024;

/// Sums that stay in the cache beside the gradients that are added to them.
[[nodiscard]] constexpr std::int64_t sums_in_cache(sum_type s) noexcept { return target.cache.sums / size_of(s); }

/// Where sums are: in diff_src itself, where that has their type, or in scratch.
enum class sum_place : std::uint8_t { in_place, buffered };

/// Calls f(sums) with sums of their type, of elements of type T, in a slice of the workspace.
template <class T, class F>
void with_sums(sum_type s, std::byte* slice, const F& f) noexcept {
    s == sum_type::f64 ? f(reinterpret_cast<double*>(slice)) : f(reinterpret_cast<accumulate_t<T>*>(slice));
}

struct plan : tensors {
    algorithm path = algorithm::automatic;
    output_mode output{};
    index_check check{};  ///< `each`: indices are not looked at beforehand
    sum_type sums{};
    sum_type stray_sums{};      // where indices point into planes of other elements
    std::int64_t plane = 0;     // pixels of a plane
    bool one_line = false;      // pixels are equally far apart, in the order in which indices count
    std::uint64_t inverse = 1;  // of the odd part of index.per_offset, modulo 2^64
    int shift = 0;              // per_offset = odd part << shift
    std::int64_t width = 1;     // of a panel at most: neighbouring channels, which share lines of memory
    std::int64_t panel_width = 1;
    std::int64_t panels = 0;
    std::int64_t block = 1;  // pixels
    std::int64_t blocks = 0;
    std::int64_t buffered = 1;   // pixels of a block whose sums are kept at a time
    std::int64_t look_back = 0;  // see index_findings; a whole plane where it was not measured
    std::int64_t capacity = 0;   // sums in a slice of the workspace
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return batch * panels * blocks; }
    /// The image and the first channel of a task.
    [[nodiscard]] constexpr std::int64_t image_of(std::int64_t task) const noexcept { return task / (panels * blocks); }
    [[nodiscard]] constexpr std::int64_t channel_of(std::int64_t task) const noexcept {
        return task / blocks % panels * panel_width;
    }

    /// The pixel of index i in the plane of channel c of image n. For every other index, whatever its value, the result is
    /// outside [0, plane): subtracting the index of pixel 0 and multiplying by the inverse of per_offset modulo 2^64 maps
    /// numbers one to one, and the indices of the plane in order to its pixels.
    struct own_plane {
        std::uint64_t origin;
        std::uint64_t inverse;
        int shift;
        [[nodiscard]] GRADKERN_ALWAYS_INLINE std::uint64_t pixel(std::int64_t i) const noexcept {
            return own::rotate_right((static_cast<std::uint64_t>(i) - origin) * inverse, shift);
        }
    };
    [[nodiscard]] constexpr own_plane plane_of(std::int64_t n, std::int64_t c) const noexcept {
        return {static_cast<std::uint64_t>(n * index.per_image + c * index.per_channel), inverse, shift};
    }
    /// The pixel, among those of all planes, that index i of an element of image n and channel c points to.
    [[nodiscard]] constexpr std::int64_t destination_of(std::int64_t i, std::int64_t n, std::int64_t c) const noexcept {
        if (index.per_image != 0) {
            n = i / index.per_image;
            i %= index.per_image;
        }
        if (index.per_channel != 0) {
            if (index.per_offset == 1) return n * channels * plane + i;
            c = i % index.per_offset;
            i /= index.per_offset;
        }
        return (n * channels + c) * plane + i;
    }
    /// Offset of a pixel in the memory of a plane of diff_src.
    [[nodiscard]] constexpr std::int64_t offset_of(std::int64_t pixel) const noexcept {
        if (one_line) return pixel * diff_src[4];
        const std::int64_t rest = pixel / large[2];
        return rest / large[1] * diff_src[2] + rest % large[1] * diff_src[3] + pixel % large[2] * diff_src[4];
    }
};

/// Takes planes of neighbouring channels as one longer plane of one line, of at most `most` pixels, where indices count
/// through all of them as diff_src does: what points into the plane of its own element points into the longer one, too.
constexpr void fuse_small_planes(plan& g, std::int64_t most) noexcept {
    const std::int64_t windows = g.windows();
    const auto is_dense = [](const shape::canonical_strides& s, const std::array<std::int64_t, 3>& extent) {
        return s[4] == 1 && is_one_line(s, extent) && s[1] == extent[0] * extent[1] * extent[2];
    };
    if (g.index.per_offset != 1 || g.index.per_channel != g.plane || g.plane > most / 2 || g.channels == 0 ||
        !is_dense(g.diff_src, g.large) || !is_dense(g.diff_dst, g.small) || !is_dense(g.indices, g.small))
        return;
    std::int64_t fused = std::min(g.channels, most / g.plane);
    while (g.channels % fused != 0) --fused;
    g.channels /= fused;
    g.plane *= fused;
    g.index.per_channel = g.diff_src[1] = g.plane;
    g.diff_dst[1] = g.indices[1] = fused * windows;
    g.small = {1, 1, fused * windows};
    g.large = {1, 1, g.plane};
}

[[nodiscard]] constexpr bool fits_in_place(const problem& p) noexcept {
    return p.is_wide && p.options.output == output_mode::overwrite && size_of(p.sums()) == p.real.bytes;
}

/// The plan of any row. Panels are as wide as can be; a block is a plane, or as much of it as scratch holds.
[[nodiscard]] constexpr plan make_plan(const problem& p, algorithm path) noexcept {
    const bool in_place = path == algorithm::sums_in_place;
    const index_check check = p.looks_first() ? index_check::first : index_check::each;
    plan g{p, path, p.options.output, check, p.sums(), p.stray_sums(), p.pixels()};
    fuse_small_planes(g, in_place ? sums_in_cache(p.sums()) / 8 : small_planes);
    g.one_line = is_one_line(g.diff_src, g.large);
    const auto per_offset = static_cast<std::uint64_t>(std::max<std::int64_t>(g.index.per_offset, 1));
    g.shift = own::trailing_zeros(per_offset);
    for (int bits = 1; bits < 64; bits *= 2) g.inverse *= 2 - (per_offset >> g.shift) * g.inverse;  // Newton's steps
    if (g.diff_src[1] == 1) g.width = std::min(g.channels, target.pools.channels);
    g.panel_width = g.width;
    g.block = g.plane;
    const bool least = p.options.scratch == scratch_use::least;
    if (!in_place) {
        const std::int64_t most = target.cache.sum_buffer / size_of(g.sums);
        g.block = std::min(g.plane, most);
        g.panel_width = std::clamp<std::int64_t>((least ? call_scratch / size_of(g.sums) : most) / g.block, 1, g.width);
        if (g.panel_width > p.real.lanes) g.panel_width -= g.panel_width % p.real.lanes;
    }
    g.panels = shape::ceil_div(g.channels, g.panel_width);
    g.blocks = in_place ? 1 : shape::ceil_div(g.plane, g.block);
    g.buffered = g.block;
    g.look_back = g.plane;
    if (!in_place && g.tasks() > 0) {
        slice_layout slice(least);
        g.capacity = std::max(g.block * g.panel_width, std::min(small_planes, g.batch * g.channels * g.plane));
        slice.reserve<std::byte>(g.capacity * size_of(g.sums));
        g.slice_bytes = slice.bytes();
    }
    return g;
}

/// The plan of a run none of whose indices looks back more than `look_back` pixels.
[[nodiscard]] constexpr plan slide_along(const plan& g, std::int64_t look_back) noexcept {
    if (look_back >= g.plane) return g;
    plan s = g;
    const std::int64_t least = look_back + look_back / 2 + 1;  // more than is needed, so that less of it is moved
    s.panel_width = g.width;
    while (s.panel_width > g.panel_width && least * s.panel_width > g.capacity) s.panel_width /= 2;
    s.panels = shape::ceil_div(s.channels, s.panel_width);
    s.buffered = std::max(least, sums_in_cache(g.sums) / 4 / s.panel_width);  // written early, they need little room
    if (s.buffered >= g.plane || s.buffered * s.panel_width > g.capacity) return g;
    s.block = s.plane;
    s.blocks = 1;
    s.look_back = look_back;
    return s;
}

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
