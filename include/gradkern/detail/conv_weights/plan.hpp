// The plan of the reduction engine: weight gradients of the convolution family.
//
//     dw[s, l, k]  =  sum over n, o with p(o, k) inside of  small[n, s, o] * large[n, channel(s, l), p(o, k)]
//
// where s counts the channels of the small side over all groups and l those of the large side inside the group of s.
// Positions are summed in chunks (order/summation.hpp). Loops, outermost first:
//
//     task      dense: some panels of s x a range of l; channelwise: some panels of s over all groups
//     chunk     at most 256 positions of the small side, packed or in place
//     dense        taps and blocks of channels l (conv_weights/dense.hpp) > panel > tile of rows l: one call sums the chunk's
//                  inside positions. The large side is read in place, or staged: its lines that the chunk meets once
//                  for all taps, as they lie in memory or turned to rows of positions, or the positions of each tap
//     channelwise  panel > lines with the same row taps > column taps with the same positions > tile of rows (tap, l);
//                  also of one group whose channels l are too few for the rows of a dense tile: lanes share them all;
//                  where windows of a depthwise layer slide, line > three lines of its windows > panel > output, whose
//                  terms go to the sums of all their column taps (micro/sliding_sums.hpp)
//
// The lanes of a tile are channels s: no horizontal sums. For 1x1 kernels the sides may be swapped (swap_sides). With
// relaxed precision and instructions for it, dense tasks take bf16 positions by pairs (pack/pairs.hpp): of each line those
// inside for a tap, packed anew for each column tap, or of 1x1 kernels read in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/sliding_sums.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
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

    bool swapped = false;  // the operator's large side is the small one here, and the other way about
    bool channelwise = false;
    bool shared = false;   // channelwise, groups of 4 and 4 channels, or 8 and 8, whose lanes share them
    bool common = false;   // channelwise, one group: all lanes share the numbers of the large side
    bool sliding = false;  // channelwise, depthwise: kernels that keep the sums of all column taps (sliding_sums.hpp)
    bool staged = false;
    bool turned = false;          // dense: positions side by side in the staged windows, channels in the tensor
    bool far = false;             // dense: positions of the large side lie a page apart, or half of one
    bool pairs = false;           // of bf16 positions, each in place of a float
    bool small_in_place = false;  // but for a last channelwise panel that is not whole vectors
    chunk_grid chunks{};
    std::int64_t panel_width = 0;    // lanes
    std::int64_t panels = 0;         // in one group (dense) or in all (channelwise)
    std::int64_t task_panels = 1;    // panels of one task
    std::int64_t task_channels = 1;  // dense: large-side channels of one task
    std::int64_t task_taps = 1;      // dense: column taps that are rows of one tile beside those channels, at most
    std::int64_t sum_floats = 0;     // of one level of the sums
    std::int64_t positions = 0;      // of a chunk at most
    bool pairs_in_place = false;     // dense, though staged otherwise
    std::int64_t staged_floats = 0;  // dense: of the large side at a time
    std::int64_t at_small = 0;       // byte offsets in a slice
    std::int64_t at_large = 0;
    std::int64_t at_list = 0;
    std::int64_t at_chunk = 0;
    std::int64_t at_sum = 0;
    std::int64_t at_total = 0;
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t taps() const noexcept {
        return axes[0].kernel * axes[1].kernel * axes[2].kernel;
    }
    /// Dense: from position to position of the small side, packed or in place.
    [[nodiscard]] constexpr std::int64_t small_step() const noexcept { return small_in_place ? small[4] : panel_width; }
    /// Dense: terms of `count` neighbouring positions of a line: themselves, or pairs of them.
    [[nodiscard]] constexpr std::int64_t terms(std::int64_t count) const noexcept {
        return pairs ? count / 2 + count % 2 : count;
    }
    /// Dense: whether columns are neighbours where a window of the large side is staged, or channels.
    [[nodiscard]] constexpr bool window_of_rows() const noexcept { return large[4] == 1 || turned; }
    /// Dense: whether pairs of the large side may be read in place: of 1x1 kernels, whole numbers of them in each line and from
    /// one to the next along every axis.
    [[nodiscard]] constexpr bool has_pairs_in_place() const noexcept {
        const auto even = [](std::int64_t extent, std::int64_t step) { return extent <= 1 || step % 2 == 0; };
        for (const shape::axis& a : axes)
            if (!a.is_unit()) return false;
        return pairs && large[4] == 1 && even(2, axes[2].small) && even(batch, large[0]) &&
               even(groups * large_channels, large[1]) && even(axes[0].small, large[2]) &&
               even(axes[1].small, large[3]);
    }
    /// Dense: floats of a staged window.
    [[nodiscard]] constexpr std::int64_t window_floats(std::int64_t window_positions,
                                                       std::int64_t channels) const noexcept {
        return channels * (window_of_rows() ? row_pitch(window_positions) : window_positions);
    }
    /// Channelwise: floats of the large side for one position.
    [[nodiscard]] constexpr std::int64_t large_floats() const noexcept {
        return shared ? panel_width : large_channels * (common ? 1 : panel_width);
    }
    /// Channelwise: sums of one panel.
    [[nodiscard]] constexpr std::int64_t panel_floats() const noexcept { return taps() * large_channels * panel_width; }
    [[nodiscard]] constexpr std::int64_t panel_groups() const noexcept { return shape::ceil_div(panels, task_panels); }
    [[nodiscard]] constexpr std::int64_t channel_ranges() const noexcept {
        return shape::ceil_div(large_channels, task_channels);
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept {
        return channelwise ? panel_groups() : groups * panel_groups() * channel_ranges();
    }
    /// The same with smaller tasks for more lanes. Not for one: dense tasks of fewer channels each pack the small side for
    /// themselves, and channelwise ones of fewer panels read parts of all lines. No sum is split, so that the bits stay.
    [[nodiscard]] constexpr reduce_plan for_lanes(std::int64_t lanes) const noexcept {
        reduce_plan r = *this;
        if (lanes == 1 || tasks() == 0) return r;
        if (channelwise) {
            const std::int64_t groups_wanted = std::max<std::int64_t>(lanes, 3);
            const std::int64_t most = std::clamp<std::int64_t>(panels / groups_wanted, 1, task_panels);
            r.task_panels = shape::even_part(panels, most);
            r.sum_floats = r.task_panels * panel_floats();
            return r;
        }
        if (tasks() >= lanes) return r;
        const std::int64_t ranges = shape::ceil_div(lanes, tasks() / channel_ranges());
        const std::int64_t least = std::min<std::int64_t>(task_channels, tile_rows);
        r.task_channels = std::max(shape::ceil_div(large_channels, ranges), least);
        r.sum_floats = task_panels * r.task_channels * taps() * panel_width;
        return r;
    }
    /// Makes one line of those that follow one another in both tensors, where kernels are 1x1. Pairs end with lines; other
    /// sums keep their order, and so their lines.
    constexpr void join_lines() noexcept {
        if (batch == 0 || small_channels == 0 || large_channels == 0)
            return;  // extents of empty tensors know no bounds
        shape::axis& line = axes[2];
        // unsigned: strides may be anything
        const auto follow = [&](const shape::canonical_strides& s, std::size_t outer) {
            const auto behind = static_cast<std::uint64_t>(line.small) * static_cast<std::uint64_t>(s[4]);
            return behind == static_cast<std::uint64_t>(s[outer + 2]);
        };
        for (const std::size_t outer : {1U, 0U}) {
            if (!line.is_unit() || !axes[outer].is_unit() || !follow(small, outer) || !follow(large, outer)) return;
            line.small = line.large = line.small * axes[outer].small;
            axes[outer] = shape::axis{};
        }
    }
    /// Makes the large side of 1x1 kernels the small one, where that takes a tenth less time: either may lie in the lanes.
    /// Where channels lie apart, those in the lanes are transposed, which takes a number about as long as a multiply-add a
    /// vector; else empty lanes decide.
    constexpr void swap_sides() noexcept {
        for (const shape::axis& a : axes)
            if (!a.is_unit()) return;
        if (groups != 1) return;
        const auto vectors = [](std::int64_t channels) { return panel_vectors(channels, panel_lanes(channels)); };
        // less than 2^62: channels of tensors that there are, or of empty ones
        const std::int64_t bound = std::int64_t{1} << 30;
        if (small_channels >= bound || large_channels >= bound || small_channels == 0 || large_channels == 0) return;
        const std::int64_t as_is = (small[1] == 1 ? 0 : small_channels) + vectors(small_channels) * large_channels;
        const std::int64_t other_way = (large[1] == 1 ? 0 : large_channels) + vectors(large_channels) * small_channels;
        if (other_way >= as_is - as_is / 10) return;
        swapped = true;
        std::swap(small_channels, large_channels);
        std::swap(small, large);
        std::swap(weights[0], weights[1]);
    }
    /// Shared: whether tiles in place would miss L1 again and again: positions a multiple of a power of two apart lie in few of
    /// its sets, which do not hold those that the row taps of a line read, each several times.
    [[nodiscard]] constexpr bool misses_cache() const noexcept {
        if (outer_sums(large_channels) == 8) return false;  // reads a number too seldom
        const std::uint64_t step = static_cast<std::uint64_t>(large[4]) * sizeof(float);
        const auto apart = static_cast<std::int64_t>(std::min<std::uint64_t>(step & (~step + 1), 4096));
        const auto few = [](std::int64_t n) { return std::min(n, chunk_positions); };
        const std::int64_t reads = few(taps()) * (large_channels / outer_sums(large_channels));
        return few(axes[1].kernel) * few(axes[2].large) * apart > target.cache.l1 &&
               reads >= 4 * few(axes[1].stride) * few(axes[2].stride);
    }
    [[nodiscard]] constexpr bool two_levels() const noexcept { return chunks.count > chunks_per_sum; }
    /// Of all levels of the sums.
    [[nodiscard]] constexpr std::int64_t sum_bytes() const noexcept {
        return (two_levels() ? 2 : 1) * sum_floats * static_cast<std::int64_t>(sizeof(float));
    }
};

/// What make_reduce_plan knows of the element type of activations: whether it is f32, whether kernels widen it as quickly, and
/// whether tiles may take it by pairs.
struct reduce_types {
    bool f32 = false;
    bool halves = false;
    bool pairs = false;
};

/// The rest of a plan with the least scratch: dense tasks of one vector of the small side, and as many channels of the large
/// side as fit the stack.
constexpr void plan_least(reduce_plan& r, bool f32) noexcept {
    r.chunks = chunk_grid(r.batch * r.axes[0].small * r.axes[1].small, r.axes[2].small);
    r.panel_width = simd::lanes;
    r.panels = shape::ceil_div(r.small_channels, r.panel_width);
    r.staged = !f32;
    r.positions = std::min(chunk_positions, r.chunks.lines * r.axes[2].small);
    slice_layout slice(true);
    r.at_small = slice.reserve<float>(r.positions * least_lanes);
    r.at_list = slice.reserve<stretch>(std::min(r.chunks.lines_per_chunk, std::max<std::int64_t>(r.chunks.lines, 1)));
    const std::int64_t sums = r.taps() * least_lanes;
    const std::int64_t each = (r.two_levels() ? 2 : 1) * sums + (r.staged ? row_pitch(r.positions) : 0);
    constexpr std::int64_t lines_of_arrays = 3 * cache_line;
    const std::int64_t room = call_scratch - slice.bytes() / least_times - lines_of_arrays;
    r.task_channels =
        std::clamp<std::int64_t>(room / each / static_cast<std::int64_t>(sizeof(float)), 1, r.large_channels);
    r.task_channels = shape::even_part(r.large_channels, r.task_channels);
    r.sum_floats = r.task_channels * r.taps() * r.panel_width;
    r.staged_floats = r.staged ? r.window_floats(r.positions, std::min(channel_block, r.task_channels)) : 0;
    r.at_large = slice.reserve<float>(r.staged_floats);
    r.at_sum = slice.reserve<float>(r.task_channels * sums);
    r.at_total = slice.reserve<float>(r.two_levels() ? r.task_channels * sums : 0);
    r.slice_bytes = slice.bytes();
}

/// Chooses path, tasks and scratch.
[[nodiscard]] constexpr reduce_plan make_reduce_plan(const shape::convolution_problem& p,
                                                     const shape::canonical_strides& large,
                                                     const shape::canonical_strides& small,
                                                     const shape::canonical_strides& weights, const reduce_types& types,
                                                     const plan_options& options) noexcept {
    const bool f32 = types.f32;
    const bool pairs = types.pairs;
    reduce_plan r;
    r.axes = p.axes;
    for (shape::axis& a : r.axes)
        if (a.small == 1) a.stride = 1;  // nobody takes this step: products with strides of memory stay small
    r.batch = p.batch;
    r.groups = p.groups;
    r.small_channels = p.small_channels;
    r.large_channels = p.large_channels;
    r.small = small;
    r.large = large;
    r.weights = weights;
    r.accumulate = options.output == output_mode::accumulate;
    if (r.small_channels == 0 || r.large_channels == 0) return r;  // nothing to write
    if (options.scratch == scratch_use::least && !pairs) {  // bits of relaxed results depend on the path: that stays
        plan_least(r, f32);
        return r;
    }
    if (options.algorithm == algorithm::automatic && !pairs) r.swap_sides();

    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    // Lanes across groups: unless they share numbers, activations are staged for each channel of the small side.
    const bool shares = r.groups > 1 && r.small_channels == r.large_channels && has_outer(r.small_channels);
    const bool staged_often = r.large[1] == 1 ? r.small_channels > 4 : r.small_channels >= 8 && r.large_channels >= 8;
    const bool few = r.groups > 1 && 2 * r.small_channels <= lanes && r.large_channels <= lanes;
    // One group of so few channels that they leave rows of a dense tile empty where each tap of a row meets positions of
    // its own, as at borders. Not of very many taps, whose sums are read and written for each line.
    const shape::axis& columns = r.axes[2];
    const bool borders =
        columns.pad_begin > 0 || columns.position(columns.small - 1, columns.kernel - 1) >= columns.large;
    const bool row_taps = r.axes[0].kernel * r.axes[1].kernel > 1 && r.taps() <= 128;
    const bool rows_stay = f32 || r.large[1] == 1 || r.large_channels == 1;  // staging puts channels together
    const bool lone = r.groups == 1 && r.large_channels <= 4 && row_taps && borders && rows_stay && !pairs;
    r.channelwise = options.algorithm == algorithm::channelwise ||
                    (options.algorithm == algorithm::automatic && (lone || shares || (few && !staged_often)));
    r.common = r.channelwise && r.groups == 1;
    if (pairs && !r.channelwise) r.join_lines();
    r.pairs = pairs && !r.channelwise && r.axes[2].small > 1;
    r.chunks = chunk_grid(r.batch * r.axes[0].small * r.axes[1].small, r.axes[2].small);
    const std::int64_t width = r.channelwise ? r.groups * r.small_channels : r.small_channels;
    const bool depthwise = r.small_channels == 1 && r.large_channels == 1;
    r.sliding = r.channelwise && !r.common && depthwise && columns.kernel == sliding_sum_taps &&
                columns.dilation == 1 && columns.stride <= most_sliding_stride;
    r.panel_width = !r.channelwise || r.common    ? panel_lanes(width)
                    : r.sliding || width <= lanes ? lanes
                                                  : narrow_lanes;
    r.panels = shape::ceil_div(width, r.panel_width);
    r.shared = r.channelwise && shares;
    const bool neighbours = r.large[1] == 1 && r.small[1] == 1;
    const bool own_lanes = neighbours && (depthwise || (r.shared && !r.misses_cache()));
    const bool in_place =
        (f32 && (!r.channelwise || r.common || own_lanes)) || (types.halves && r.sliding && neighbours);
    // Channels of many positions at a time go to one place first.
    constexpr std::int64_t far_apart = 512;
    r.far = options.algorithm == algorithm::automatic && !r.channelwise && r.large[1] == 1 &&
            r.axes[2].stride_in(r.large[4]) >= far_apart;
    r.staged = !in_place || r.far || options.algorithm == algorithm::dense_staged;

    const bool whole = width % r.panel_width == 0 || fills_tile(width % r.panel_width);  // panels, the last one too
    slice_layout slice;
    const std::int64_t lines = std::min(r.chunks.lines_per_chunk, std::max<std::int64_t>(r.chunks.lines, 1));
    r.positions = std::min(chunk_positions, r.chunks.lines * r.axes[2].small);
    if (r.channelwise) {
        // Where channels are neighbours, panels read parts of the same pages, and 16-bit ones parts of the same lines.
        if (r.large[1] == 1 && r.small[1] == 1 && r.panels > 0) {
            const std::int64_t sum_budget = (r.common ? 64 : r.shared ? 16 : 4) * 1024;
            const std::int64_t sums = sum_budget / std::max<std::int64_t>(r.panel_floats(), 1);
            const std::int64_t most = std::clamp<std::int64_t>(std::min(sums, r.panels), 1, 16);
            r.task_panels = shape::even_part(r.panels, most);
        }
        r.sum_floats = r.task_panels * r.panel_floats();
        r.small_in_place = r.common ? f32 && r.small[1] == 1 : !r.staged;
        r.at_small = slice.reserve<float>(r.small_in_place && whole ? 0 : r.positions * r.panel_width);
        std::int64_t staging = r.large_floats();
        const std::array<std::int64_t, 3> extent{1, std::min(lines, p.axes[1].small),
                                                 std::min(chunk_positions, p.axes[2].small)};
        for (std::size_t i = 0; i < 3; ++i) staging *= reads_at_most(r.axes[i], shape::side::small, extent[i]);
        if (!r.staged && (r.common || whole)) staging = 0;
        // Windows far apart, or of many positions: here all of them would be staged, and what lies between.
        constexpr std::int64_t staging_budget = 1024 * 1024;
        plan_options dense = options;
        dense.algorithm = algorithm::dense;
        if (staging > staging_budget) return make_reduce_plan(p, large, small, weights, types, dense);
        r.at_large = slice.reserve<float>(staging);
        r.at_chunk = slice.reserve<float>(r.sum_floats);
        r.at_list = slice.reserve<stretch>(lines);
        // Sums of one group are many, and one more level of them: not where dense tiles need no workspace.
        if (lone && options.algorithm == algorithm::automatic && slice.bytes() + r.sum_bytes() > stack_slice) {
            const reduce_plan d = make_reduce_plan(p, large, small, weights, types, dense);
            if (d.slice_bytes <= stack_slice) return d;
        }
    } else {
        // Sums of a task stay in L2; what is packed for a chunk serves several panels and many channels.
        // 1x1: there each number of the large side is used once for each panel, so that many are wanted, and sums of 1 MB,
        // which are read and written once a chunk, better than sides packed more often. Not in NCX, where none is turned, on
        // CPUs of 2 MB of L2: those were up to 7 % slower.
        const bool wide = r.taps() == 1 && (r.large[1] == 1 || !target.cache.two_mb_l2);
        const std::int64_t sum_budget = (wide ? 256 : 64) * 1024;
        const std::int64_t channels = wide ? 512 : r.taps() == 1 ? 256 : 128;
        const std::int64_t together = std::max<std::int64_t>(channels / r.panel_width, 1);  // a panel may be longer
        r.task_panels =
            std::clamp<std::int64_t>(sum_budget / (r.taps() * r.panel_width), 1, std::min(r.panels, together));
        r.task_channels =
            std::clamp<std::int64_t>(sum_budget / (r.task_panels * r.taps() * r.panel_width),
                                     std::min<std::int64_t>(r.large_channels, channel_block), r.large_channels);
        r.task_channels = shape::even_part(r.large_channels, r.task_channels);
        r.sum_floats = r.task_panels * r.task_channels * r.taps() * r.panel_width;
        // Where the small side is whole vectors, a few tiles read it as quickly in place, and any number of them positions
        // that follow one another. 1x1: or lie close together, where L2 holds a chunk of both sides.
        const bool few_tiles = r.taps() * r.large_channels <= 4 * tile_rows;
        const bool close = target.cache.two_mb_l2 && r.taps() == 1 && r.small[4] < far_apart;
        r.small_in_place = f32 && r.small[1] == 1 && whole && (few_tiles || close || r.small[4] == r.panel_width);
        r.at_small = slice.reserve<float>(r.small_in_place ? 0 : r.task_panels * r.positions * r.panel_width);
        // Rows of positions take fewer lines of the cache than positions of many channels, of which each tile reads a few.
        // To turn a number takes as long as multiplying it with some vectors: it has to meet more of them.
        const std::int64_t meets = r.taps() * std::min(r.task_panels * r.panel_width, r.small_channels);
        constexpr std::int64_t many = lanes < 16 ? 32 : 16;
        const std::int64_t list = (lines + 2) * static_cast<std::int64_t>(sizeof(stretch));
        const bool fits =
            !r.staged && slice.bytes() + list + r.sum_bytes() <= stack_slice;  // needs no workspace as it is
        r.turned = options.algorithm == algorithm::automatic && !r.pairs && r.large[1] == 1 && r.large[4] != 1 &&
                   r.axes[2].stride == 1 && r.large_channels >= many && meets >= 128 && !fits;
        r.staged = r.staged || r.turned;
        // Few channels leave a tile most of its rows: taps fill them.
        if (r.task_channels > 0 && r.task_channels < 2 * tile_rows)
            r.task_taps = std::min(r.axes[2].kernel, channel_block / r.task_channels);
        r.pairs_in_place = r.has_pairs_in_place() && options.algorithm != algorithm::dense_staged;
        if (r.staged && !r.pairs_in_place) {
            // At least the positions of one tap; a window of lines for all taps has no more than the tensor, and no more
            // than are read.
            constexpr std::int64_t window_budget = 96 * 1024;
            std::int64_t tensor = 1;
            for (const std::int64_t extent : {r.batch, r.axes[0].large, r.axes[1].large, r.axes[2].large})
                tensor = std::min(window_budget, tensor * std::min(window_budget, extent));
            tensor = std::min(tensor, r.positions * std::min(window_budget, r.axes[1].kernel * r.axes[2].kernel));
            const std::int64_t window =
                std::min(window_budget, r.window_floats(tensor, std::min(channel_block, r.large_channels)));
            const std::int64_t rows = std::min(channel_block, r.large_channels * r.task_taps);
            r.staged_floats = std::max(window, r.window_floats(r.positions, rows));
        }
        r.at_large = slice.reserve<float>(r.staged_floats);
        r.at_list = slice.reserve<stretch>(lines);
    }
    r.at_sum = slice.reserve<float>(r.sum_floats);
    r.at_total = slice.reserve<float>(r.two_levels() ? r.sum_floats : 0);
    r.slice_bytes = slice.bytes();
    return r;
}

/// Neighbouring taps of one axis, here of the columns, that lie inside for the same positions of [first, last).
struct tap_group {
    std::int64_t first_tap = 0;
    std::int64_t taps = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
};

/// The group of at most `most` taps that starts with tap `tap`.
[[nodiscard]] inline tap_group tap_group_at(const shape::axis& axis, std::int64_t tap, std::int64_t first,
                                            std::int64_t last, std::int64_t most = INT64_MAX) noexcept {
    const auto range_of = [&](std::int64_t k) {
        const shape::axis::position_range inside = axis.inside_positions(k);
        const std::int64_t low = std::max(inside.first, first);
        return shape::axis::position_range{low, std::max(low, std::min(inside.last, last))};
    };
    const shape::axis::position_range range = range_of(tap);
    tap_group g{tap, 1, range.first, range.last};
    for (; g.taps < most && tap + g.taps < axis.kernel; ++g.taps) {
        const shape::axis::position_range next = range_of(tap + g.taps);
        if (next.first != range.first || next.last != range.last) break;
    }
    return g;
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

/// Packs the first `lanes` channels of a chunk of the small side as panels [position][width], `panel_floats` apart.
template <class T>
inline void pack_chunk(const std::array<shape::axis, 3>& axes, const T* small, const shape::canonical_strides& strides,
                       const chunk_grid::chunk& c, std::int64_t lanes, std::int64_t width, std::int64_t panel_floats,
                       float* out) noexcept {
    const std::int64_t row = c.columns();
    const bool rows_join = strides[3] == row * strides[4];  // lines that follow each other in memory are one
    line_position at(axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line;) {
        const std::int64_t lines = rows_join ? std::min(c.last_line - line, axes[1].small - at.h) : 1;
        const std::int64_t count = lines * row;
        const T* const from = small + at.offset(strides, c.first_column);
        // Neighbouring channels are read about as they lie in memory: some positions of all panels at a time.
        const std::int64_t piece = strides[1] == 1 && lanes > width ? 16 : count;
        for (std::int64_t x = 0; x < count; x += piece) {
            const std::int64_t n = std::min(piece, count - x);
            float* to = out + x * width;
            for (std::int64_t j = 0; j < lanes; j += width, to += panel_floats) {
                const std::int64_t used = std::min(width, lanes - j);
                pack_lanes(from + j * strides[1] + x * strides[4], strides[1], used, strides[4], n, to, width);
                clear_lanes(used, width, n, to, width);
            }
        }
        out += count * width;
        line += lines;
        at.h += lines - 1;
        at.advance(axes);
    }
}

/// The same of pairs: of each line the columns [first, last).
template <class T>
inline void pack_chunk_pairs(const std::array<shape::axis, 3>& axes, const T* small,
                             const shape::canonical_strides& strides, const chunk_grid::chunk& c, std::int64_t first,
                             std::int64_t last, std::int64_t used, std::int64_t width, float* out) noexcept {
    const std::int64_t row = last - first;
    const bool rows_join = row % 2 == 0 && axes[1].small > 1 && strides[3] == row * strides[4];  // as above
    line_position at(axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line;) {
        const std::int64_t lines = rows_join ? std::min(c.last_line - line, axes[1].small - at.h) : 1;
        const std::int64_t pairs = (lines * row + 1) / 2;
        pack_row_pairs(small + at.offset(strides, first), strides[1], used, strides[4], lines * row, out, width);
        clear_lanes(used, width, pairs, out, width);
        out += pairs * width;
        line += lines;
        at.h += lines - 1;
        at.advance(axes);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
