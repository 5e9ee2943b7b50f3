// The reduction engine: weight gradients of the convolution family.
//
//     dw[s, l, k]  =  sum over n, o with p(o, k) inside of  small[n, s, o] * large[n, channel(s, l), p(o, k)]
//
// where s counts the channels of the small side over all groups and l those of the large side inside the group of s.
// Positions are summed in chunks (plan/summation.hpp). Loops, outermost first:
//
//     task      dense: some panels of s x a range of l; channelwise: one panel of s over all groups
//     chunk     at most 256 positions of the small side, packed or in place
//     dense        tap > panel > tile of rows l: one call sums the chunk's inside positions
//     channelwise  line > tap-set class of columns > tile of rows (tap, l): the chain resumes from line to line
//
// The lanes of a tile are channels s: no horizontal sums.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/plan/lanes.hpp>
#include <gradkern/detail/plan/summation.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/convolution.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Everything a run needs but pointers. Made by make_reduce_plan from a checked problem.
struct reduce_plan {
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t groups = 1;
    std::int64_t small_channels = 0;  // per group
    std::int64_t large_channels = 0;  // per group
    shape::canonical_strides small{};
    shape::canonical_strides large{};
    shape::canonical_strides weights{};
    bool accumulate = false;

    bool channelwise = false;
    bool staged = false;
    chunk_grid chunks{};
    std::int64_t panel_width = 0;     // lanes
    std::int64_t panels = 0;          // in one group (dense) or in all (channelwise)
    std::int64_t task_panels = 1;     // dense: panels of one task
    std::int64_t task_channels = 1;   // dense: large-side channels of one task
    std::int64_t sum_floats = 0;      // of one level of the sums
    std::int64_t at_small = 0;        // byte offsets in a slice
    std::int64_t at_large = 0;
    std::int64_t at_list = 0;
    std::int64_t at_chunk = 0;
    std::int64_t at_sum = 0;
    std::int64_t at_total = 0;
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t taps() const noexcept {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    [[nodiscard]] constexpr std::int64_t panel_groups() const noexcept { return shape::ceil_div(panels, task_panels); }
    [[nodiscard]] constexpr std::int64_t channel_ranges() const noexcept {
        return shape::ceil_div(large_channels, task_channels);
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept {
        return channelwise ? panels : groups * panel_groups() * channel_ranges();
    }
    [[nodiscard]] constexpr bool two_levels() const noexcept { return chunks.count > chunks_per_sum; }
};

/// Chooses path, tasks and scratch. `f32` says whether both activations are f32.
[[nodiscard]] constexpr reduce_plan make_reduce_plan(const shape::convolution_problem& p,
                                                     const shape::canonical_strides& large,
                                                     const shape::canonical_strides& small,
                                                     const shape::canonical_strides& weights, bool f32,
                                                     const plan_options& options) noexcept {
    reduce_plan r;
    r.axes = p.axes;
    r.batch = p.batch;
    r.groups = p.groups;
    r.small_channels = p.small_channels;
    r.large_channels = p.large_channels;
    r.small = small;
    r.large = large;
    r.weights = weights;
    r.accumulate = options.output == output_mode::accumulate;
    r.chunks = chunk_grid(p.batch * p.axes[0].small * p.axes[1].small, p.axes[2].small);

    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    const bool few = r.groups > 1 && 2 * r.small_channels <= lanes && r.large_channels <= lanes;
    r.channelwise = options.algorithm == algorithm::channelwise || (options.algorithm == algorithm::automatic && few);
    const std::int64_t width = r.channelwise ? r.groups * r.small_channels : r.small_channels;
    r.panel_width = width <= lanes ? lanes : tile_lanes;
    r.panels = shape::ceil_div(width, r.panel_width);
    const bool in_place = r.channelwise ? f32 && large[1] == 1 && small[1] == 1 && r.small_channels == 1 &&
                                              r.large_channels == 1
                                        : f32;
    r.staged = !in_place || options.algorithm == algorithm::dense_staged;

    slice_layout slice;
    const std::int64_t lines = std::min(r.chunks.lines_per_chunk, std::max<std::int64_t>(r.chunks.lines, 1));
    if (r.channelwise) {
        r.sum_floats = r.taps() * r.large_channels * r.panel_width;
        r.at_small = slice.reserve<float>(chunk_positions * r.panel_width);
        std::int64_t staging = r.large_channels * r.panel_width;
        const std::array<std::int64_t, 3> extent{1, std::min(lines, p.axes[1].small),
                                                 std::min(chunk_positions, p.axes[2].small)};
        for (std::size_t i = 0; i < 3; ++i) staging *= reads_at_most(r.axes[i], shape::side::small, extent[i]);
        const bool may_stage = r.staged || width % r.panel_width != 0;
        r.at_large = slice.reserve<float>(may_stage ? staging : 0);
        r.at_chunk = slice.reserve<float>(r.sum_floats);
    } else {
        // Sums of a task stay in L2; what is packed for a chunk serves several panels and many channels.
        constexpr std::int64_t sum_budget = 64 * 1024;
        r.task_panels = std::clamp<std::int64_t>(sum_budget / (r.taps() * r.panel_width), 1, std::min<std::int64_t>(r.panels, 4));
        r.task_channels = std::clamp<std::int64_t>(sum_budget / (r.task_panels * r.taps() * r.panel_width),
                                                   std::min<std::int64_t>(r.large_channels, channel_block),
                                                   r.large_channels);
        r.task_channels = shape::ceil_div(r.large_channels, shape::ceil_div(r.large_channels, r.task_channels));
        r.sum_floats = r.task_panels * r.task_channels * r.taps() * r.panel_width;
        r.at_small = slice.reserve<float>(r.task_panels * chunk_positions * r.panel_width);
        r.at_large = slice.reserve<float>(r.staged ? chunk_positions * std::min(channel_block, r.large_channels) : 0);
        r.at_list = slice.reserve<stretch>(lines);
    }
    r.at_sum = slice.reserve<float>(r.sum_floats);
    r.at_total = slice.reserve<float>(r.two_levels() ? r.sum_floats : 0);
    r.slice_bytes = slice.bytes();
    return r;
}

/// The line (n, d, h) of the small side, walked in order.
struct line_position {
    std::int64_t n, d, h;
    line_position(const std::array<shape::axis, 3>& axes, std::int64_t line) noexcept
        : n(line / (axes[0].small * axes[1].small)), d(line / axes[1].small % axes[0].small), h(line % axes[1].small) {}
    void advance(const std::array<shape::axis, 3>& axes) noexcept {
        if (++h == axes[1].small) {
            h = 0;
            if (++d == axes[0].small) {
                d = 0;
                ++n;
            }
        }
    }
    /// Offset of column `w` of this line in a tensor.
    [[nodiscard]] std::int64_t offset(const shape::canonical_strides& s, std::int64_t w) const noexcept {
        return n * s[0] + d * s[2] + h * s[3] + w * s[4];
    }
};

/// Packs the channels [first, first + used) of a chunk of the small side as [position][width].
template <class T>
inline void pack_chunk(const std::array<shape::axis, 3>& axes, const T* small, const shape::canonical_strides& strides,
                       const chunk_grid::chunk& c, std::int64_t used, std::int64_t width, float* out) noexcept {
    line_position at(axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(axes)) {
        pack_lanes(small + at.offset(strides, c.first_column), strides[1], used, strides[4], c.columns(), out, width);
        clear_lanes(used, width, c.columns(), out, width);
        out += c.columns() * width;
    }
}

/// The inside positions of one tap in a chunk: `a` on the large side, `b` in the packed chunk. Neighbouring stretches
/// become one.
[[nodiscard]] inline std::ptrdiff_t fill_positions(const reduce_plan& r, const chunk_grid::chunk& c,
                                                   const std::array<std::int64_t, 3>& tap, stretch* list) noexcept {
    const shape::axis::position_range inside = r.axes[2].inside_positions(tap[2]);
    const std::int64_t first = std::max(inside.first, c.first_column);
    const std::int64_t last = std::min(inside.last, c.last_column);
    std::ptrdiff_t count = 0;
    if (first >= last) return 0;
    const std::int64_t step = r.axes[2].stride * r.large[4];
    line_position at(r.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(r.axes)) {
        const std::int64_t d = r.axes[0].position(at.d, tap[0]);
        const std::int64_t h = r.axes[1].position(at.h, tap[1]);
        if (d < 0 || d >= r.axes[0].large || h < 0 || h >= r.axes[1].large) continue;
        const std::int64_t a = at.n * r.large[0] + d * r.large[2] + h * r.large[3] +
                               r.axes[2].position(first, tap[2]) * r.large[4];
        const std::int64_t b = ((line - c.first_line) * c.columns() + first - c.first_column) * r.panel_width;
        if (count > 0) {
            stretch& e = list[count - 1];
            if (e.a + e.length * step == a && e.b + e.length * r.panel_width == b) {
                e.length += last - first;
                continue;
            }
        }
        list[count++] = {a, b, last - first};
    }
    return count;
}

/// One task of the dense path.
template <class T>
void reduce_dense(const reduce_plan& r, const T* large, const T* small, std::int64_t task, std::byte* slice) noexcept {
    auto* packed = reinterpret_cast<float*>(slice + r.at_small);
    auto* staging = reinterpret_cast<float*>(slice + r.at_large);
    auto* list = reinterpret_cast<stretch*>(slice + r.at_list);
    auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
    auto* total = reinterpret_cast<float*>(slice + r.at_total);
    const std::int64_t first_channel = task % r.channel_ranges() * r.task_channels;
    const std::int64_t first_panel = task / r.channel_ranges() % r.panel_groups() * r.task_panels;
    const std::int64_t group = task / (r.channel_ranges() * r.panel_groups());
    const std::int64_t channels = std::min(r.task_channels, r.large_channels - first_channel);
    const std::int64_t panels = std::min(r.task_panels, r.panels - first_panel);
    const T* large_base = large + (group * r.large_channels + first_channel) * r.large[1];
    const T* small_base = small + (group * r.small_channels + first_panel * r.panel_width) * r.small[1];
    const std::int64_t row_floats = r.taps() * r.panel_width;  // between the sums of neighbouring channels

    for (std::int64_t i = 0; i < r.chunks.count; ++i) {
        const chunk_grid::chunk c = r.chunks[i];
        for (std::int64_t p = 0; p < panels; ++p) {
            const std::int64_t used = std::min(r.panel_width, r.small_channels - (first_panel + p) * r.panel_width);
            pack_chunk(r.axes, small_base + p * r.panel_width * r.small[1], r.small, c, used, r.panel_width,
                       packed + p * chunk_positions * r.panel_width);
        }
        std::int64_t tap_index = 0;
        std::array<std::int64_t, 3> tap{};
        for (tap[0] = 0; tap[0] < r.axes[0].kernel; ++tap[0]) {
            for (tap[1] = 0; tap[1] < r.axes[1].kernel; ++tap[1]) {
                for (tap[2] = 0; tap[2] < r.axes[2].kernel; ++tap[2], ++tap_index) {
                    const std::ptrdiff_t stretches = fill_positions(r, c, tap, list);
                    if (stretches == 0) continue;
                    // channels read in place all at once, staged ones by blocks
                    const std::int64_t block = r.staged ? std::min(channel_block, channels) : channels;
                    std::int64_t a_step = r.axes[2].stride * r.large[4];
                    for (std::int64_t c0 = 0; c0 < channels; c0 += block) {
                        const std::int64_t cl = std::min(block, channels - c0);
                        const float* source = nullptr;
                        std::int64_t row_step = r.large[1];
                        if (r.staged) {
                            if (c0 > 0) static_cast<void>(fill_positions(r, c, tap, list));  // staging overwrote `a`
                            std::int64_t at = 0;
                            for (std::ptrdiff_t e = 0; e < stretches; ++e) {
                                pack_lanes(large_base + c0 * r.large[1] + list[e].a, r.large[1], cl,
                                           r.axes[2].stride * r.large[4], list[e].length, staging + at * cl, cl);
                                list[e].a = at * cl;
                                at += list[e].length;
                            }
                            source = staging;
                            a_step = cl;
                            row_step = 1;
                        } else if constexpr (std::is_same_v<T, float>) {
                            source = large_base;
                        }
                        for (std::int64_t p = 0; p < panels; ++p) {
                            const std::int64_t used =
                                std::min(r.panel_width, r.small_channels - (first_panel + p) * r.panel_width);
                            const tile_function* tiles = tiles_for<operand::scalar>(used);
                            float* panel_sum = sum + (p * r.task_channels + c0) * row_floats + tap_index * r.panel_width;
                            split_rows(cl, [&](std::ptrdiff_t first, std::ptrdiff_t count) {
                                std::array<const float*, tile_rows> a;
                                std::array<float*, tile_rows> to;
                                for (std::ptrdiff_t row = 0; row < count; ++row) {
                                    a[static_cast<std::size_t>(row)] = source + (first + row) * row_step;
                                    to[static_cast<std::size_t>(row)] = panel_sum + (first + row) * row_floats;
                                }
                                tiles[count - 1]({.list = list,
                                                  .count = stretches,
                                                  .a = a.data(),
                                                  .a_step = a_step,
                                                  .b = packed + p * chunk_positions * r.panel_width,
                                                  .b_step = r.panel_width,
                                                  .c = to.data(),
                                                  .mode = tile_mode::add});
                            });
                        }
                    }
                }
            }
        }
        if (r.two_levels() && ((i + 1) % chunks_per_sum == 0 || i + 1 == r.chunks.count)) fold(sum, total, r.sum_floats);
    }
}

/// One task of the channelwise path.
template <class T>
void reduce_channelwise(const reduce_plan& r, const T* large, const T* small, std::int64_t task,
                        std::byte* slice) noexcept {
    auto* packed = reinterpret_cast<float*>(slice + r.at_small);
    auto* staging = reinterpret_cast<float*>(slice + r.at_large);
    auto* chunk_sum = reinterpret_cast<float*>(slice + r.at_chunk);
    auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
    auto* total = reinterpret_cast<float*>(slice + r.at_total);
    const std::int64_t first_lane = task * r.panel_width;
    const std::int64_t used = std::min(r.panel_width, r.groups * r.small_channels - first_lane);
    const bool stage = r.staged || used != r.panel_width;  // whole vectors would leave the tensor
    const tile_function* tiles = tiles_for<operand::vector>(used);

    for (std::int64_t i = 0; i < r.chunks.count; ++i) {
        const chunk_grid::chunk c = r.chunks[i];
        if (stage) pack_chunk(r.axes, small + first_lane * r.small[1], r.small, c, used, r.panel_width, packed);
        line_position at(r.axes, c.first_line);
        staging_box box;
        std::int64_t staged_until = c.first_line;  // lines before this one are staged
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(r.axes)) {
            const float* a_base = nullptr;
            const float* b_base = nullptr;
            shape::canonical_strides in = r.large;
            std::int64_t b_step = r.small[4];
            std::int64_t origin = 0;
            if (stage) {
                if (line == staged_until) {  // what the lines up to the end of this plane read
                    const std::int64_t run = std::min(c.last_line - line, r.axes[1].small - at.h);
                    box_grid::item out;
                    out.first_image = at.n;
                    out.last_image = at.n + 1;
                    out.first = {at.d, at.h, c.first_column};
                    out.last = {at.d + 1, at.h + run, c.last_column};
                    box = reads_of(r.axes, shape::side::small, out, r.large_channels * r.panel_width);
                    stage_across_groups(large, r.large, box, first_lane, used, r.small_channels, r.large_channels,
                                        r.panel_width, staging);
                    staged_until = line + run;
                }
                in = box.strides();
                origin = box.origin();
                a_base = staging;
                b_base = packed + (line - c.first_line) * c.columns() * r.panel_width;
                b_step = r.panel_width;
            } else if constexpr (std::is_same_v<T, float>) {
                a_base = large + first_lane;
                b_base = small + first_lane + at.offset(r.small, c.first_column);
            }
            const shape::tap_sequence planes = r.axes[0].inside_taps(at.d);
            const shape::tap_sequence rows = r.axes[1].inside_taps(at.h);
            shape::tap_class_walk walk(r.axes[2], shape::side::small, c.first_column, c.last_column);
            for (shape::tap_class columns; walk.next(columns);) {
                const std::int64_t a_line = at.n * in[0] + r.axes[0].position(at.d, 0) * in[2] +
                                            r.axes[1].position(at.h, 0) * in[3] + columns.first_read * in[4] - origin;
                const stretch positions{0, (columns.first_position - c.first_column) * b_step, columns.positions};
                // rows of the tile: (plane tap, row tap, column tap, k), k innermost
                std::int64_t d = planes.first;
                std::int64_t h = rows.first;
                std::int64_t w = 0;
                std::int64_t k = 0;
                split_rows(planes.count * rows.count * columns.taps * r.large_channels,
                           [&](std::ptrdiff_t, std::ptrdiff_t count) {
                               std::array<const float*, tile_rows> a;
                               std::array<float*, tile_rows> to;
                               for (std::ptrdiff_t row = 0; row < count; ++row) {
                                   a[static_cast<std::size_t>(row)] =
                                       a_base + (a_line + d * r.axes[0].dilation * in[2] +
                                                 h * r.axes[1].dilation * in[3] + w * columns.read_per_tap * in[4] +
                                                 k * r.panel_width);
                                   const std::int64_t tap =
                                       (d * r.axes[1].kernel + h) * r.axes[2].kernel + columns.first_tap + w;
                                   to[static_cast<std::size_t>(row)] =
                                       chunk_sum + (tap * r.large_channels + k) * r.panel_width;
                                   if (++k < r.large_channels) continue;
                                   k = 0;
                                   if (++w < columns.taps) continue;
                                   w = 0;
                                   if (++h < rows.first + rows.count) continue;
                                   h = rows.first;
                                   ++d;
                               }
                               tiles[count - 1]({.list = &positions,
                                                 .count = 1,
                                                 .a = a.data(),
                                                 .a_step = r.axes[2].stride * in[4],
                                                 .b = b_base,
                                                 .b_step = b_step,
                                                 .c = to.data(),
                                                 .mode = tile_mode::resume});
                           });
            }
        }
        fold(chunk_sum, sum, r.sum_floats);
        if (r.two_levels() && ((i + 1) % chunks_per_sum == 0 || i + 1 == r.chunks.count)) fold(sum, total, r.sum_floats);
    }
}

/// Sends the sums [panel][l][tap][lane] of a dense task to the tensor.
template <class G>
void store_dense(const reduce_plan& r, const float* sum, std::int64_t task, G* diff_weights) noexcept {
    const std::int64_t first_channel = task % r.channel_ranges() * r.task_channels;
    const std::int64_t first_panel = task / r.channel_ranges() % r.panel_groups() * r.task_panels;
    const std::int64_t group = task / (r.channel_ranges() * r.panel_groups());
    const std::int64_t channels = std::min(r.task_channels, r.large_channels - first_channel);
    const std::int64_t kh = r.axes[1].kernel;
    const std::int64_t kw = r.axes[2].kernel;
    const bool taps_contiguous = r.weights[4] == 1 && (kh == 1 || r.weights[3] == kw) &&
                                 (r.axes[0].kernel == 1 || r.weights[2] == kw * kh);
    for (std::int64_t p = first_panel; p < std::min(first_panel + r.task_panels, r.panels); ++p) {
        const std::int64_t s0 = p * r.panel_width;
        const std::int64_t used = std::min(r.panel_width, r.small_channels - s0);
        G* to = diff_weights + (group * r.small_channels + s0) * r.weights[0] + first_channel * r.weights[1];
        const float* from = sum + (p - first_panel) * r.task_channels * r.taps() * r.panel_width;
        if (taps_contiguous && (r.weights[1] == r.taps() || channels == 1)) {  // OIX: one long row a lane
            unpack_lanes(from, r.panel_width, used, channels * r.taps(), to, r.weights[0], 1, r.accumulate);
            continue;
        }
        std::int64_t tap = 0;
        for (std::int64_t d = 0; d < r.axes[0].kernel; ++d)
            for (std::int64_t h = 0; h < kh; ++h)
                for (std::int64_t x = 0; x < kw; ++x, ++tap)
                    unpack_lanes(from + tap * r.panel_width, r.taps() * r.panel_width, used, channels,
                                 to + d * r.weights[2] + h * r.weights[3] + x * r.weights[4], r.weights[0],
                                 r.weights[1], r.accumulate);
    }
}

/// Sends the sums [tap][l][lane] of a channelwise task to the tensor.
template <class G>
void store_channelwise(const reduce_plan& r, const float* sum, std::int64_t task, G* diff_weights) noexcept {
    const std::int64_t first_lane = task * r.panel_width;
    const std::int64_t used = std::min(r.panel_width, r.groups * r.small_channels - first_lane);
    for (std::int64_t d = 0; d < r.axes[0].kernel; ++d)
        for (std::int64_t h = 0; h < r.axes[1].kernel; ++h)
            for (std::int64_t x = 0; x < r.axes[2].kernel; ++x, sum += r.large_channels * r.panel_width)
                unpack_lanes(sum, r.panel_width, used, r.large_channels,
                             diff_weights + first_lane * r.weights[0] + d * r.weights[2] + h * r.weights[3] +
                                 x * r.weights[4],
                             r.weights[0], r.weights[1], r.accumulate);
}

/// Runs a plan over typed tensors. G is the type of the weight gradient: T or float. All checks have passed.
template <class T, class G>
void run_reduce(const reduce_plan& r, const T* large, const T* small, G* diff_weights, std::span<std::byte> workspace,
                executor_ref executor) noexcept {
    const slices memory(workspace, r.slice_bytes);
    run_tasks(executor, r.tasks(), memory, [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) {
            auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
            std::fill(sum, sum + r.sum_floats, 0.0F);
            const float* done = sum;
            if (r.two_levels()) {
                auto* total = reinterpret_cast<float*>(slice + r.at_total);
                std::fill(total, total + r.sum_floats, 0.0F);
                done = total;
            }
            if (r.channelwise) {
                auto* chunk_sum = reinterpret_cast<float*>(slice + r.at_chunk);
                std::fill(chunk_sum, chunk_sum + r.sum_floats, 0.0F);
                reduce_channelwise(r, large, small, task, slice);
                store_channelwise(r, done, task, diff_weights);
            } else {
                reduce_dense(r, large, small, task, slice);
                store_dense(r, done, task, diff_weights);
            }
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
