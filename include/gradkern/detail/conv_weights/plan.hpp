// The plan of all paths, and what they walk in the same way: tasks, groups of taps, lines of a chunk.
//
// The lanes of a tile are channels s of the small side, or (tap_lanes.hpp) taps and channels l, so that there are no
// horizontal sums. A task computes the
// sums of some panels of lanes, chunk by chunk: a chunk's sums begin at zero, and chunks are added up on two levels
// (order/summation.hpp). Rows of tiles are channels l of one group (dense.hpp, dense_bf16.hpp), of which a task has
// some, or taps and all channels l (tap_rows.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv_weights/problem.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/tensor_pointer.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/shared_sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::conv_weights {

/// What lies innermost in the packing buffer: channels, or pixels (pairs of them in dense_bf16).
enum class window_order : std::uint8_t { channels, pixels };

/// What a task has of the positions: all, one sum of chunks, or one chunk. Workers share the partial sums, which are added in
/// order in the end.
enum class position_cut : std::uint8_t { none, sums, chunks };

/// In elements: from panel to panel, from channel l to channel l, and from tap to tap.
struct sum_steps {
    std::int64_t panel = 0;
    std::int64_t channel = 0;
    std::int64_t tap = 0;
};

struct plan : tensors {
    algorithm path = algorithm::automatic;
    chunk_grid chunks{};
    std::int64_t panel_width = 0;    // lanes
    std::int64_t panels = 0;         // of one group, or of all where rows are taps
    std::int64_t task_panels = 1;    // of one task
    std::int64_t task_groups = 1;    // of one task, where rows are channels
    std::int64_t task_channels = 1;  // large-side channels of one task
    std::int64_t task_taps = 1;      // column taps that are rows of one tile, at most
    std::int64_t task_rows = 1;      // row taps of one task
    std::int64_t overlap = 0;  // lanes that the last panel shares with the one before, so that its vectors are whole
    position_cut cut = position_cut::none;
    source_kind small_source = source_kind::packed;
    source_kind large_source = source_kind::packed;  // where no window is packed
    window_order order = window_order::channels;
    std::int64_t packed_floats = 0;  // of the large side
    std::int64_t small_floats = 0;   // of the small side, tap_lanes: of both of one group
    std::int64_t pixel_floats = 0;   // of one pixel of it; 0 where rows are channels
    std::int64_t at_small = 0;       // byte offsets in a slice
    std::int64_t at_large = 0;
    std::int64_t at_chunk = 0;
    std::int64_t at_list = 0;
    std::int64_t at_sum = 0;
    std::int64_t at_group = 0;
    std::int64_t at_total = 0;
    std::int64_t slice_bytes = 0;

    constexpr plan() noexcept = default;
    /// Of rows that are channels, or, with `floats` for each pixel of the large side, taps.
    constexpr plan(const tensors& t, algorithm name, std::int64_t width, std::int64_t floats) noexcept
        : tensors(t),
          path(name),
          chunks(batch, axes[0].small * axes[1].small, axes[2].small, summation),
          panel_width(width),
          task_rows(axes[1].kernel),
          pixel_floats(floats) {
        panels = shape::ceil_div(lanes(), width);
    }

    [[nodiscard]] constexpr bool rows_are_taps() const noexcept { return pixel_floats != 0; }
    /// Channels that panels share out.
    [[nodiscard]] constexpr std::int64_t lanes() const noexcept {
        return rows_are_taps() ? groups * small_channels : small_channels;
    }
    /// Whether every panel is whole vectors. Others are packed: vectors would leave the tensor.
    [[nodiscard]] constexpr bool has_whole_panels() const noexcept {
        return lanes() % panel_width == 0 || fills_tile(lanes() % panel_width + overlap, real.lanes);
    }
    [[nodiscard]] constexpr std::int64_t panel_groups() const noexcept { return shape::ceil_div(panels, task_panels); }
    [[nodiscard]] constexpr std::int64_t channel_ranges() const noexcept {
        return shape::ceil_div(large_channels, task_channels);
    }
    [[nodiscard]] constexpr std::int64_t row_ranges() const noexcept {
        return shape::ceil_div(axes[1].kernel, task_rows);
    }
    [[nodiscard]] constexpr std::int64_t group_ranges() const noexcept {
        return rows_are_taps() ? 1 : shape::ceil_div(groups, task_groups);
    }
    /// Parts of the weights.
    [[nodiscard]] constexpr std::int64_t parts() const noexcept {
        return group_ranges() * panel_groups() * channel_ranges() * row_ranges();
    }
    [[nodiscard]] constexpr std::int64_t tasks() const noexcept {
        return parts() * (cut == position_cut::none   ? results()
                          : cut == position_cut::sums ? chunks.sums()
                                                      : chunks.count);
    }
    /// What workers share where positions are cut: the sums of each part.
    [[nodiscard]] constexpr shared_layout shared() const noexcept {
        return cut == position_cut::none ? shared_layout{}
                                         : shared_layout{parts(), chunks.sums(), sum_floats(), real.bytes};
    }
    /// The chunks of each sum of each part, where tasks have one.
    [[nodiscard]] constexpr shared_layout shared_chunks() const noexcept {
        return cut == position_cut::chunks
                   ? shared_layout{parts() * chunks.sums(), chunks.chunks_of_sum(), sum_floats(), real.bytes}
                   : shared_layout{};
    }
    /// Bytes of both. Where the sums alone are too many, chunks are not counted.
    [[nodiscard]] constexpr std::int64_t shared_bytes() const noexcept {
        const std::int64_t sums = shared().bytes();
        if (sums > most_shared) return sums;
        const shape::checked bytes = shape::checked(shared_chunks().bytes()) + sums;
        return bytes.ok() ? bytes.value() : INT64_MAX;
    }
    /// From pixel to pixel of what lies in the lanes, packed or in place.
    [[nodiscard]] constexpr std::int64_t small_step() const noexcept {
        const std::int64_t step = small_source == source_kind::in_place ? small[4] : panel_width;
        return moves_lanes() ? axes[2].stride_in(step) : step;
    }
    /// Terms of so many pixels of a line: dense_bf16 takes pairs, of which the last one may have one pixel.
    [[nodiscard]] constexpr std::int64_t terms_of(std::int64_t pixels) const noexcept {
        return path == algorithm::dense_bf16 ? pixels / 2 + pixels % 2 : pixels;
    }
    /// Sums of a task lie in its slice as [panel][l][tap][lane], or [panel][tap][l][lane] where rows are taps: from l to l, from
    /// panel to panel, and all of one level. tap_lanes: [group][s][tap of the outer axes][lane], a panel a group.
    [[nodiscard]] constexpr std::int64_t channel_sums() const noexcept {
        return (rows_are_taps() ? 1 : taps()) * panel_width;
    }
    [[nodiscard]] constexpr std::int64_t panel_sums() const noexcept {
        return path == algorithm::tap_lanes ? small_channels * axes[0].kernel * axes[1].kernel * panel_width
                                            : task_channels * taps() * panel_width;
    }
    [[nodiscard]] constexpr std::int64_t sum_floats() const noexcept {
        return task_groups * task_panels * panel_sums();
    }
    /// Whether a dense task keeps its sums in diff_weights: those of few chunks, of the type of the results, whose lanes are neighbours
    /// there and whole vectors.
    [[nodiscard]] constexpr bool sums_in_results() const noexcept {
        return (path == algorithm::dense || path == algorithm::dense_packed) && cut == position_cut::none &&
               wide_results && !adds_results() && !adds_sums() && !adds_groups() && chunks.count > 0 &&
               chunks.count <= target.weight_gradients.chunks_in_results * results() && weights[0] == 1 &&
               small_channels % real.lanes == 0 &&
               is_one_line(weights, {axes[0].kernel, axes[1].kernel, axes[2].kernel});
    }
    /// Steps between the sums of a dense task.
    [[nodiscard]] constexpr sum_steps steps_of_sums() const noexcept {
        if (sums_in_results()) return {panel_width, weights[1], weights[4]};
        return {panel_sums(), channel_sums(), panel_width};
    }
    /// Levels of sums: of chunks, of a group's sums, and of groups, which are added up where there are several.
    [[nodiscard]] constexpr bool adds_sums() const noexcept { return chunks.group_sums() > 1; }
    [[nodiscard]] constexpr bool adds_groups() const noexcept { return chunks.folds_groups; }
    /// Whether the first chunk of a sum sets it, so that it need not be zero before: in dense tasks whose sums have one level, unless they
    /// begin with previous results.
    [[nodiscard]] constexpr bool sets_sums() const noexcept {
        const bool is_dense = path == algorithm::dense || path == algorithm::dense_packed;
        return is_dense && at_sum == at_total && cut == position_cut::none && chunks.count > 0 && !continues_results();
    }
    /// Lines of a chunk, and its pixels, at most.
    [[nodiscard]] constexpr std::int64_t chunk_lines() const noexcept {
        return std::min(chunks.lines_per_chunk, std::max<std::int64_t>(chunks.image_lines, 1));
    }
    [[nodiscard]] constexpr std::int64_t chunk_pixels() const noexcept {
        return std::min(chunk_positions, chunks.image_lines * axes[2].small);
    }

    /// Lays out a slice.
    GRADKERN_NOINLINE constexpr void lay_out(scratch_use scratch = scratch_use::fast) noexcept {
        const bool least = scratch == scratch_use::least;
        const std::int64_t width = least ? real.in_memory_of(least_lanes) : panel_width;
        const std::int64_t sums = sum_floats() / panel_width * width;
        const bool reads_in_place = small_source == source_kind::in_place && has_whole_panels();
        const std::int64_t packed_panels = reads_in_place || moves_lanes() ? 0 : rows_are_taps() ? 1 : task_panels;
        slice_layout slice(least);
        at_small = slice.reserve(small_floats > 0 ? task_groups * small_floats : packed_panels * chunk_pixels() * width,
                                 real.bytes);
        at_large = slice.reserve(task_groups * packed_floats, real.bytes);
        at_chunk = slice.reserve(rows_are_taps() ? sums : 0, real.bytes);
        at_list = slice.reserve<k_segment>(chunk_lines());
        at_sum = slice.reserve(sums_in_results() ? 0 : sums, real.bytes);
        at_group = adds_sums() ? slice.reserve(sums, real.bytes) : at_sum;
        at_total = adds_groups() ? slice.reserve(sums, real.bytes) : at_group;
        slice_bytes = slice.bytes();
    }
    /// How many of the largest part all parts are as much work as: the last ones may be smaller.
    [[nodiscard]] constexpr double whole_parts() const noexcept {
        const auto ratio = [](std::int64_t all, std::int64_t one) {
            return static_cast<double>(all) / static_cast<double>(one);
        };
        return ratio(panels, task_panels) * ratio(large_channels, task_channels) * ratio(axes[1].kernel, task_rows) *
               (rows_are_taps() ? 1 : ratio(groups, task_groups));
    }
    /// Chunks of the largest part that the busiest of so many workers computes, where each takes the next task as soon as it is free.
    [[nodiscard]] constexpr double most_chunks(std::int64_t workers) const noexcept {
        const std::int64_t longest = cut == position_cut::none   ? chunks.count / results()
                                     : cut == position_cut::sums ? chunks.chunks_of_sum()
                                                                 : 1;
        double most = static_cast<double>(shape::ceil_div(tasks(), workers)) * static_cast<double>(longest);
        // The last sum of a group may be short: workers that are free early take several.
        const std::int64_t rest = cut == position_cut::sums ? chunks.group_chunks % longest : 0;
        if (rest > 0) {
            const std::int64_t whole_tasks = parts() * chunks.groups() * (chunks.group_chunks / longest);
            const std::int64_t rounds = shape::ceil_div(whole_tasks, workers);
            const std::int64_t taken = (rounds * workers - whole_tasks) * (longest / rest);
            const std::int64_t left = std::max<std::int64_t>(tasks() - whole_tasks - taken, 0);
            most = static_cast<double>(rounds * longest + shape::ceil_div(left, workers) * rest);
        }
        const double shared_out = whole_parts() * static_cast<double>(chunks.count) / static_cast<double>(workers);
        // No std::min of doubles: objects of all instruction sets share that function.
        const double at_most = shared_out + static_cast<double>(longest);
        // Tasks of one size take differently long.
        return (most < at_most ? most : at_most) + target.cost.uneven_task * static_cast<double>(longest);
    }
    /// How long so many workers take, in parts of what one takes without packing. Tasks of few channels and lanes read both sides
    /// for few products. Whoever is last adds up what workers share.
    [[nodiscard]] constexpr double makespan(std::int64_t workers) const noexcept {
        const auto lanes_of_task = static_cast<double>(task_panels * panel_width);
        const auto products = static_cast<double>(task_channels * taps()) / static_cast<double>(row_ranges());
        double chunk = 1 + target.cost.read_again * (1 / products + 1 / lanes_of_task);
        const double positions = static_cast<double>(chunks.lines * chunks.width) / static_cast<double>(chunks.count);
        const double shared_number = target.cost.shared_number / positions;
        double added = static_cast<double>(shape::ceil_div(tasks(), workers)) * target.cost.weights_task /
                       (static_cast<double>(sum_floats()) * positions);
        if (cut != position_cut::none) added += shared_number * static_cast<double>(chunks.sums());
        if (cut == position_cut::chunks) {
            added += shared_number * static_cast<double>(chunks.chunks_of_sum());
            chunk += shared_number;
        }
        return (most_chunks(workers) * chunk + added) / (whole_parts() * static_cast<double>(chunks.count));
    }
    /// The same with smaller tasks for several workers: fewer channels or taps, which have no partial results, and then fewer positions.
    [[nodiscard]] GRADKERN_NOINLINE constexpr plan split_for(std::int64_t workers) const noexcept {
        plan best = *this;
        workers = counted_workers(workers);
        if (workers == 1 || tasks() == 0 || chunks.count == 0) return best;
        double least = makespan(workers);
        for (plan p = *this;; p.halve_task()) {
            for (const position_cut c : {position_cut::none, position_cut::sums, position_cut::chunks}) {
                p.cut = c;
                if (!p.may_cut()) continue;
                const double time = p.makespan(workers);
                if (time >= least) continue;
                least = time;
                best = p;
            }
            if (p.is_smallest_task() || has_many_tasks(p.parts(), workers)) break;
        }
        best.lay_out();
        return best;
    }

    /// Sets one level of the sums of a task to zero.
    void clear_sums(std::byte* slice, std::int64_t at) const noexcept {
        std::memset(slice + at, 0, static_cast<std::size_t>(sum_floats() * real.bytes));
    }

private:
    /// Bytes that workers may share.
    static constexpr std::int64_t most_shared = std::int64_t{32} << 20;

    /// Whether positions may be cut this way. Not where results are a chain that begins with the previous ones and takes one chunk after
    /// the other: it has no partial sums.
    [[nodiscard]] constexpr bool may_cut() const noexcept {
        if (cut == position_cut::none) return true;
        const bool is_chain = continues_results() && !chunks.folds_groups;
        const std::int64_t pieces = cut == position_cut::sums ? chunks.sums() : chunks.count;
        return results() == 1 && !is_chain && pieces > 1 && shared_bytes() <= most_shared;
    }
    [[nodiscard]] constexpr bool has_few_channels() const noexcept {
        return rows_are_taps() || task_channels <= std::min<std::int64_t>(large_channels, tile_rows);
    }
    /// Where rows are taps, row taps are cut last, but for windows that slide over them.
    [[nodiscard]] constexpr bool is_smallest_task() const noexcept {
        const bool has_rows = rows_are_taps() && path != algorithm::depthwise_sliding && task_rows > 1;
        return task_groups == 1 && task_panels == 1 && (has_few_channels() || path == algorithm::tap_lanes) &&
               !has_rows;
    }
    /// Halves a task along its panels or its channels, whichever are more.
    constexpr void halve_task() noexcept {
        if (task_groups > 1) {
            task_groups = shape::even_part(groups, task_groups / 2);
        } else if (task_panels > 1 && (has_few_channels() || task_panels * panel_width >= task_channels)) {
            task_panels = shape::even_part(panels, (task_panels + 1) / 2);
        } else if (!has_few_channels()) {
            const std::int64_t half = std::max<std::int64_t>((task_channels + 1) / 2, tile_rows);
            task_channels = shape::ceil_div(large_channels, shape::ceil_div(large_channels, half));
        } else {
            task_rows = shape::even_part(axes[1].kernel, (task_rows + 1) / 2);
        }
    }
};

/// Which part of the sums a task has.
struct task {
    std::int64_t first_channel = 0;  // of the large side, in the group
    std::int64_t channels = 0;
    std::int64_t panels = 0;
    std::int64_t first_lane = 0;  // of the small side, in the group, or of all where rows are taps
    std::int64_t lanes = 0;
    std::int64_t group = 0;  // the first one of
    std::int64_t groups = 1;
    std::int64_t first_row = 0;  // row taps
    std::int64_t last_row = 0;
    std::int64_t large = 0;  // to the first element of each side, where there is one
    std::int64_t small = 0;
    void* results = nullptr;  // its sums in diff_weights, where they are kept there and not in a slice

    constexpr task(const plan& p, std::int64_t number) noexcept {
        first_row = number % p.row_ranges() * p.task_rows;
        last_row = std::min(first_row + p.task_rows, p.axes[1].kernel);
        number /= p.row_ranges();
        first_channel = number % p.channel_ranges() * p.task_channels;
        channels = std::min(p.task_channels, p.large_channels - first_channel);
        number /= p.channel_ranges();
        const std::int64_t first_panel = number % p.panel_groups() * p.task_panels;
        panels = std::min(p.task_panels, p.panels - first_panel);
        first_lane = first_panel * p.panel_width;
        lanes = std::min(panels * p.panel_width, p.lanes() - first_lane);
        group = number / p.panel_groups() * p.task_groups;
        if (!p.rows_are_taps()) groups = std::min(p.task_groups, p.groups - group);
        large = (group * p.large_channels + first_channel) * p.large[1];
        small = (group * p.small_channels + first_lane) * p.small[1];
    }
    /// Lanes of one panel.
    [[nodiscard]] constexpr std::int64_t lanes_of(const plan& p, std::int64_t panel) const noexcept {
        return std::min(p.panel_width, lanes - panel * p.panel_width);
    }
    /// Those before them that it computes, too.
    [[nodiscard]] constexpr std::int64_t shared_lanes_of(const plan& p, std::int64_t panel) const noexcept {
        return lanes_of(p, panel) < p.panel_width ? p.overlap : 0;
    }
};

/// Neighbouring taps of one axis, here of the columns, that lie inside for the same pixels of [first, last).
struct tap_group {
    std::int64_t first_tap = 0;
    std::int64_t taps = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
    [[nodiscard]] constexpr std::int64_t columns() const noexcept { return last - first; }
};

/// Calls f(group) for groups of at most plan::task_taps column taps, in order: all, or those that meet pixels of a chunk.
template <class F>
void for_each_tap_group(const plan& p, const chunk_grid::chunk& c, bool all, const F& f) noexcept {
    tap_group g;
    for (std::int64_t tap = 0; tap < p.axes[2].kernel; ++tap) {
        const shape::axis::position_range inside = p.axes[2].inside_positions(tap);
        const std::int64_t first = std::max(inside.first, c.first_column);
        const std::int64_t last = std::max(first, std::min(inside.last, c.last_column));
        if (g.taps == p.task_taps || first != g.first || last != g.last) {
            if (g.columns() > 0 || (all && g.taps > 0)) f(g);
            g = {tap, 0, first, last};
        }
        ++g.taps;
    }
    if (g.columns() > 0 || (all && g.taps > 0)) f(g);
}

/// The line (n, d, h) of the small side, walked in order.
struct line_position {
    std::int64_t n, d, h;
    line_position(const std::array<shape::axis, 3>& axes, std::int64_t line) noexcept
        : n(line / (axes[0].small * axes[1].small)), d(line / axes[1].small % axes[0].small), h(line % axes[1].small) {}
    /// Goes `lines` lines on, which end in this plane or with it.
    void advance(const std::array<shape::axis, 3>& axes, std::int64_t lines = 1) noexcept {
        h += lines;
        if (h < axes[1].small) return;
        h = 0;
        if (++d < axes[0].small) return;
        d = 0;
        ++n;
    }
    /// Offset of column `w` of this line in a tensor.
    [[nodiscard]] std::int64_t offset(const shape::canonical_strides& s, std::int64_t w) const noexcept {
        return n * s[0] + d * s[2] + h * s[3] + w * s[4];
    }
};

/// How sums of a task go to the tensor, or previous results to the sums.
enum class direction : std::uint8_t { to_tensor, to_sums };
struct transfer {
    direction to = direction::to_tensor;
    bool adds = false;  // to what the tensor holds
};

/// Elements of diff_weights, from one of them on, whatever their type. Offsets count elements.
template <class Real>
struct result_pointer {
    std::byte* first = nullptr;
    const pack_functions<Real>* input = nullptr;
    const unpack_functions<Real>* output = nullptr;

    [[nodiscard]] result_pointer operator+(std::int64_t offset) const noexcept {
        return {first + offset * output->bytes, input, output};
    }
    void prefetch(std::int64_t offset) const noexcept { simd::prefetch_to_write(first, offset * output->bytes); }
    void move(const transfer& how, Real* sums, std::ptrdiff_t step, std::ptrdiff_t lanes, std::ptrdiff_t count,
              std::ptrdiff_t lane_step, std::ptrdiff_t tensor_step) const noexcept {
        if (how.to == direction::to_tensor)
            output->unpack(sums, step, lanes, count, first, lane_step, tensor_step, how.adds);
        else
            input->pack_lanes(first, lane_step, lanes, tensor_step, count, sums, step);
    }
};

/// Packs the first `lanes` channels of a chunk of the small side as panels [term][panel_width], `panel_floats` apart.
/// Lines of a plane that are contiguous in memory, and whole pairs, are one.
template <class Real>
GRADKERN_NOINLINE void pack_chunk(const plan& p, const tensor_pointer<Real>& small, const chunk_grid::chunk& c,
                                  std::int64_t lanes, std::int64_t panel_floats, Real* out) noexcept {
    const std::int64_t width = p.panel_width;
    const bool pairs = p.path == algorithm::dense_bf16;
    const bool one_line = (!pairs || c.columns() % 2 == 0) && continues(p.small[3], c.columns(), p.small[4]);
    line_position at(p.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line;) {
        const std::int64_t lines = one_line ? std::min(c.last_line - line, p.axes[1].small - at.h) : 1;
        const std::int64_t count = lines * c.columns();
        // Neighbouring channels are read about as they lie in memory: some pixels of all panels at a time.
        const std::int64_t piece = p.small[1] == 1 && lanes > width ? target.prefetch.packed_lanes : count;
        for (std::int64_t x = 0; x < count; x += piece) {
            const std::int64_t n = std::min(piece, count - x);
            const tensor_pointer<Real> first = small + at.offset(p.small, c.first_column + x);
            Real* to = out + p.terms_of(x) * width;
            for (std::int64_t j = 0; j < lanes; j += width, to += panel_floats) {
                const tensor_pointer<Real> from = first + j * p.small[1];
                const std::int64_t used = std::min(width, lanes - j);
                if constexpr (simd::has_dot_bf16 && std::is_same_v<Real, float>) {
                    if (pairs) pack_row_pairs(from, p.small[1], used, p.small[4], n, to, width);
                }
                if (!pairs) pack_lanes(from, p.small[1], used, p.small[4], n, to, width);
                clear_lanes(used, width, p.terms_of(n), to, width);
            }
        }
        out += p.terms_of(count) * width;
        line += lines;
        at.advance(p.axes, lines);
    }
}

}  // namespace detail::conv_weights
GRADKERN_ISA_NAMESPACE_END
