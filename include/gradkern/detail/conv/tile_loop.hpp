// Runs a tile_plan. Loops, outermost first:
//
//     block      a box of output pixels (images x planes x rows x columns)
//     panels     of output channels: their weights are packed just before use
//     class      output pixels that have the same inside taps (shape/axis.hpp): borders need no branch
//     tile       rows of the register tile are pixels of one class, from any line or image, by row pointers; where rows lie
//                equally far apart, up to 16 tiles at a time, which are inside the panel then
//     panel      of a task: one, or fused ones
//     part       at most 576 terms (order/summation.hpp)
//     K segment  (block of 64 channels, tap), channels innermost
//
// Where windows slide: class of planes > class of rows > line > tile of neighbouring columns > panel. The element type is
// numbers and functions here, but where operands are packed: the loops are compiled once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/tile_output.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The kernels that depend on the element type, and how outputs are written.
struct tile_element {
    output_element output;
    const tile_function* (*pairs)(std::ptrdiff_t lanes_used) = nullptr;  // of bf16 channels
    const tile_function* pair_groups = nullptr;                          // of them, in groups of eight
    const tile_function* native_16bit = nullptr;
    const tile_function* (*sliding_16bit)(std::int64_t taps) = nullptr;
};
template <class T>
[[nodiscard]] constexpr tile_element make_tile_element() noexcept {
    tile_element e{.output = output_element_of<T>};
    if constexpr (has_pairs<T>) {
        e.pairs = &tiles_for<operand::pair>;
        e.pair_groups = tiles_of<operand::pair_group_8, 2>.data();
    }
    constexpr operand A = lane_operand<T>;
    if constexpr (is_native_16bit<A>) {
        e.native_16bit = tiles_of<A, native_16bit_vectors>.data();
        e.sliding_16bit = &sliding_tiles_for<A>;
    }
    return e;
}
template <class T>
inline constexpr tile_element tile_element_of = make_tile_element<T>();

/// One task: a block of outputs and some panels.
struct tile_task {
    const tile_plan& plan;
    box_grid::item box;
    std::int64_t first_panel;
    std::int64_t panels;
    std::int64_t group;       // of the first panel, often the only one
    std::int64_t first_lane;  // of the first panel: in its group, or in all
    std::int64_t first_used;  // lanes of the first panel
    source_kind read_from;    // a last panel may be packed where others are read in place
    bool in_16bit;            // tiles read and write 16 bits as they are: packed activations are f32
    float* packed_weights;    // [panel][bias, weights]
    float* results;           // result_buffer::box
    term_list terms;
    // Where tiles read.
    const std::byte* source = nullptr;
    std::int64_t number_bytes = sizeof(float);  // of what offsets count
    shape::canonical_strides in{};
    std::int64_t origin = 0;
    std::int64_t channel_step = 0;
    std::int64_t panel_step = 0;  // packed: from panel to panel

    GRADKERN_NOINLINE tile_task(const tile_plan& t, const box_grid::item& block, const panel_tasks::range& range,
                                std::byte* slice) noexcept
        : plan(t),
          box(block),
          first_panel(range.first),
          panels(range.last - range.first),
          group(range.first / t.group_panels),
          first_lane(range.first % t.group_panels * t.panels.width),
          first_used(std::min(t.panels.width, t.lane_channels() - first_lane)),
          read_from(t.packs(first_used) ? source_kind::packed : source_kind::in_place),
          in_16bit(t.in_16bit() && in_place()),
          packed_weights(array_at<float>(slice, t.at_panels)),
          results(array_at<float>(slice, t.at_results)),
          terms(slice, t.terms) {}

    [[nodiscard]] bool in_place() const noexcept { return read_from == source_kind::in_place; }

    /// Calls f(number in the task, group, first lane in the group or in all, lanes used) for each panel; it returns how
    /// many it has served.
    template <class F>
    void for_each_panel(const F& f) const {
        const std::int64_t lanes = plan.lane_channels();
        std::int64_t of = group;
        std::int64_t lane = first_lane;
        for (std::int64_t p = 0; p < panels;) {
            const std::int64_t served = f(p, of, lane, std::min(plan.panels.width, lanes - lane));
            p += served;
            lane += served * plan.panels.width;
            if (lane >= lanes) {
                lane = 0;
                ++of;
            }
        }
    }
    [[nodiscard]] float* weights_of(std::int64_t panel) const noexcept {
        return packed_weights + panel * plan.panels.floats;
    }

    GRADKERN_NOINLINE void read_packed(const packed_box& read, const float* packed) noexcept {
        source = reinterpret_cast<const std::byte*>(packed);
        in = read.strides();
        origin = read.origin();
        channel_step = plan.panels.across_groups() ? plan.panels.width : 1;
        panel_step = plan.fusion == panel_fusion::groups ? plan.panels.width : 0;
    }
    GRADKERN_NOINLINE void read_in_place(const void* src, std::int64_t element_bytes) noexcept {
        source = static_cast<const std::byte*>(src);
        in = plan.in;
        channel_step = plan.in[1];
        if (plan.panels.has_pairs()) {
            for (std::int64_t& step : in) step /= 2;
            in[1] = channel_step = 1;
        } else {
            number_bytes = element_bytes;
        }
    }
    /// Across groups: numbers of a row that so many lanes meet.
    [[nodiscard]] std::int64_t numbers_of(std::int64_t lanes) const noexcept {
        return plan.panels.has_pairs() ? lanes / 2 : lanes;
    }
    /// Where the first row of a panel begins.
    [[nodiscard]] std::int64_t panel_offset(std::int64_t p, std::int64_t of, std::int64_t lane) const noexcept {
        if (!in_place()) return p * panel_step;
        return (plan.panels.across_groups() ? numbers_of(lane) : of * plan.panels.terms) * in[1];
    }
};

/// Prefetches a part of each of `lines` lines, from that at `at` back by `step`. Offsets in bytes from `base`.
GRADKERN_NOINLINE inline void prefetch_lines(const void* base, std::int64_t at, std::int64_t bytes, std::int64_t lines,
                                             std::int64_t step) noexcept {
    GRADKERN_DETAIL_KEEP_CALLS();
    for (; lines > 0; --lines, at -= step)
        for (std::int64_t i = 0; i < bytes; i += cache_line)
            simd::prefetch_to_l2(static_cast<const std::byte*>(base), at + i);
}

/// Computes the tiles of a task.
class tile_loop {
public:
    tile_loop(tile_task& task, const tile_element& element, std::byte* dst, bool biased) noexcept
        : t_(task),
          element_(element),
          dst_(dst),
          biased_(biased),
          out_(task.plan.out),
          output_(element.output, task.plan.out, task.plan.panels.width, task.plan.accumulates(),
                  task.in_16bit              ? tile_results::native_16bit
                  : task.plan.rounds_pairs() ? tile_results::rounded
                                             : tile_results::sums) {
        const tile_plan& g = t_.plan;
        if (g.results == result_buffer::box) out_ = output_.buffer_box(t_.box, t_.results, g.taps() == 1);
        begin_panel(0, t_.group, t_.first_lane, t_.first_used);
        // Panels of one group, or of lanes across groups, may leave together: then they are one wide panel for the output.
        fused_ = t_.panels > 1 && (g.groups == 1 || g.panels.across_groups()) &&
                 output_.fuse(t_.panels, std::min(t_.panels * g.panels.width, g.lane_channels() - t_.first_lane),
                              g.panels.floats, g.columns == column_walk::sliding ? most_sliding_rows : most_rows);
    }

    void compute() noexcept {
        const tile_plan& g = t_.plan;
        std::array<shape::tap_class, 3> c;
        shape::tap_class_walk planes(g.axes[0], g.outputs, t_.box.first[0], t_.box.last[0]);
        while (planes.next(c[0])) {
            shape::tap_class_walk rows(g.axes[1], g.outputs, t_.box.first[1], t_.box.last[1]);
            while (rows.next(c[1])) {
                if (g.columns == column_walk::sliding) {
                    c[2] = g.sliding_columns(t_.box.first[2], t_.box.last[2]);
                    compute_lines(c);
                    continue;
                }
                shape::tap_class_walk columns(g.axes[2], g.outputs, t_.box.first[2], t_.box.last[2]);
                while (columns.next(c[2])) compute_class(c);
            }
        }
        output_.flush();
    }

private:
    static constexpr std::ptrdiff_t run_of_tiles = 16;
    using rows_of_tile = std::array<std::int64_t, most_rows_of_any>;

    void begin_panel(std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) noexcept {
        const tile_plan& g = t_.plan;
        output_.begin_panel(dst_ + (of * g.out_channels + lane) * g.out[1] * element_.output.bytes, used,
                            g.is_whole(used), biased_ ? t_.weights_of(p) : nullptr);
    }

    /// What tiles of a class prefetch: fused panels, the next line of inputs, and outputs one or two tiles ahead. (Called from two
    /// places: once in the text.)
    GRADKERN_NOINLINE void choose_prefetch(const std::array<shape::tap_class, 3>& c) noexcept {
        const tile_plan& g = t_.plan;
        a_ahead_ = c_ahead_ = lines_ahead_ = 0;
        if (t_.panels == 1 || g.prefetching == prefetch::none) return;
        a_ahead_ = ((c[1].taps - 1) * c[1].read_per_tap + c[1].read_per_position) * t_.in[3];
        c_ahead_ = target.prefetch.output_tiles * narrow_rows * c[2].position_step * g.out[4];
        // Windows with a stride, in place: the lines between, too, unless windows skip some.
        const bool strided = c[1].read_per_position > 1 || c[2].read_per_position > 1;
        const auto meet = [](const shape::tap_class& k) {
            return k.read_per_position <= (k.taps - 1) * k.read_per_tap + 1;
        };
        if (g.panels.across_groups() && t_.in_place() && strided && meet(c[1]) && meet(c[2]))
            lines_ahead_ = c[1].read_per_position;
    }
    /// Prefetches them where a tile of `count` rows, the first of which reads at `from`, cannot itself; returns whether it did.
    bool prefetch_ahead(std::ptrdiff_t count, std::int64_t from, const shape::tap_class& columns) const noexcept {
        if (lines_ahead_ == 0) return false;
        // Not more than L1 holds: so many at a time hold the tiles up.
        const std::int64_t reach = count * columns.read_per_position * t_.in[4] * t_.number_bytes;
        if (reach > target.prefetch.most_lines_ahead / lines_ahead_) return false;
        prefetch_lines(t_.source, (t_.numbers_of(t_.first_lane) + from + a_ahead_) * t_.number_bytes, reach,
                       lines_ahead_, t_.in[3] * t_.number_bytes);
        return true;
    }

    /// What tiles of a panel have in common.
    [[nodiscard]] tile_call call_of(std::int64_t p, std::ptrdiff_t count, const tile_output::row_pointers& c) noexcept {
        const tile_plan& g = t_.plan;
        return {.list = t_.terms.segments,
                .rows = count,
                .a_step = t_.terms.a_step,
                .b = t_.weights_of(p) + g.panels.width,
                .b_step = t_.terms.b_step,
                .c = c.first,
                .rounds = g.rounds_pairs() && output_.is_direct(),
                .bias = biased_ ? t_.weights_of(p) : nullptr,
                .a_ahead = a_ahead_,
                .c_ahead = c_ahead_,
                .a_next = g.panels.across_groups() ? t_.numbers_of(g.panels.width) : 0,
                .b_next = g.panels.floats,
                .c_next = g.panels.width};
    }
    /// Whole panels of a group, one after the other, from this one on.
    [[nodiscard]] std::int64_t panels_at_once(std::int64_t p, std::int64_t lane, std::int64_t used) const noexcept {
        if ((!fused_ && !output_.is_direct()) || used < t_.plan.panels.width) return 1;
        return std::min(t_.panels - p, (t_.plan.lane_channels() - lane) / used);
    }
    void run_parts(tile_function tile, tile_call& call) const noexcept {
        const bool adds = t_.in_16bit && t_.plan.accumulates();
        for (std::ptrdiff_t part = 0; part < t_.terms.part_count; ++part) {
            call.count = t_.terms.parts[part];
            call.mode = part == 0 && !adds ? tile_mode::set : tile_mode::add;
            tile(call);
            call.list += call.count;
        }
    }

    [[nodiscard]] const tile_function* tiles_of_width(std::int64_t width) const noexcept {
        const tile_plan& g = t_.plan;
        if (g.panels.has_pairs()) return g.panels.across_groups() ? element_.pair_groups : element_.pairs(width);
        if (t_.in_16bit) return element_.native_16bit;
        switch (g.panels.inputs) {
            case lane_inputs::broadcast: return tiles_for<operand::scalar>(width);
            case lane_inputs::own: return tiles_for<operand::vector>(width);
            default: break;
        }
        switch (g.in_channels) {
            case 2: return tiles_of<operand::group_2, narrow_vectors>.data();
            case 4: return tiles_for<operand::group_4>(g.panels.width);
            default: return tiles_of<operand::group_8, narrow_vectors>.data();
        }
    }

    /// The next `tiles` tiles of `count` pixels of a walk, in all panels of the task; several lie in one line of it.
    /// `tile_of(call, row pointers, offset of the panel, lanes used, offsets of what rows read)` completes the call and
    /// returns the kernel.
    template <class TileOf>
    void compute_tiles(row_walk& walk, std::ptrdiff_t count, std::ptrdiff_t tiles, const shape::tap_class& columns,
                       const TileOf& tile_of) noexcept {
        const tile_plan& g = t_.plan;
        rows_of_tile from;
        rows_of_tile to;
        const std::int64_t read_step = walk.in_step();
        const std::int64_t write_step = walk.out_step();
        walk.take(count, from.data(), to.data());
        walk.pass((tiles - 1) * count);
        const bool prefetched = prefetch_ahead(count * tiles, from[0], columns);
        const bool panel_by_panel = t_.panels > 1 && !fused_;
        t_.for_each_panel([&](std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) {
            if (panel_by_panel) begin_panel(p, of, lane, used);
            const auto c = output_.rows(count, tiles, to.data(), write_step, fused_ ? p * g.panels.width : 0);
            tile_call call = call_of(p, count, c);
            if (tiles > 1) {
                call.tiles = tiles;
                call.a_next = count * read_step;
                call.b_next = 0;
                call.c_next = c.next_tile;
            } else {
                call.tiles = panels_at_once(p, lane, used);
            }
            if (prefetched) call.a_ahead = 0;
            // Tiles of 16 bits prefetch outputs still.
            call.no_prefetch = g.prefetching == prefetch::none || (prefetched && !t_.in_16bit);
            std::array<const float*, most_rows> rows;
            call.a = rows.data();
            run_parts(tile_of(call, rows, t_.panel_offset(p, of, lane), used, from), call);
            if (panel_by_panel) output_.flush();
            return tiles > 1 ? 1 : call.tiles;
        });
    }

    /// The outputs of one class.
    void compute_class(const std::array<shape::tap_class, 3>& c) noexcept {
        const tile_plan& g = t_.plan;
        const bool reads = c[0].taps > 0 && c[1].taps > 0 && c[2].taps > 0;      // else rows are nowhere
        if (!reads && g.results == result_buffer::box && g.taps() == 1) return;  // the buffer is clear
        list_terms(g, g.panels, c, t_.in, t_.channel_step, t_.terms);
        choose_prefetch(c);
        const bool in_group = g.panels.inputs == lane_inputs::broadcast_in_group;
        const std::ptrdiff_t most = t_.in_16bit ? native_16bit_rows
                                    : in_group  ? group_rows
                                                : rows_at_most(g.panels.width);
        const std::ptrdiff_t unit = t_.in_16bit ? native_16bit_rows / 2
                                    : in_group  ? row_unit<operand::group_4>
                                                : row_unit<operand::scalar>;
        row_walk walk(t_.box.first_image, t_.box.last_image, c, t_.in, out_, t_.origin);
        const auto tile_of = [&](const tile_call& call, auto& a, std::int64_t first, std::int64_t used,
                                 const auto& from) {
            for (std::size_t i = 0; i < static_cast<std::size_t>(call.rows); ++i)
                a[i] = reinterpret_cast<const float*>(t_.source + (reads ? first + from[i] : 0) * t_.number_bytes);
            return tiles_of_width(used)[call.rows - 1];
        };
        // Rows equally far apart make up several tiles of a call: few calls, and weights of one panel at a time in L1. Panels of
        // lanes across groups that write straight into the tensor go over a tile together where they have few weights, or
        // wide pixels.
        const bool panels_first =  // all of one tile, then the next tile
            g.panels.across_groups() && t_.panels > 1 && !fused_ &&
            (!in_group || (simd::lanes > 8 && g.panels.splits_groups(g)));
        const bool waits = !output_.is_direct() || (t_.panels > 1 && !g.is_whole(g.last_lanes()));  // in the buffer
        split_runs(walk.rows(), most, unit, [&](std::ptrdiff_t count, std::ptrdiff_t left) {
            while (left > 0) {
                const auto in_line = static_cast<std::ptrdiff_t>(walk.left()) / count;
                const std::ptrdiff_t most_tiles = panels_first ? 1
                                                  : waits      ? std::min(run_of_tiles, output_.room() / count)
                                                               : run_of_tiles;
                const std::ptrdiff_t tiles = std::clamp<std::ptrdiff_t>(in_line, 1, std::min(left, most_tiles));
                compute_tiles(walk, count, tiles, c[2], tile_of);
                left -= tiles;
            }
        });
    }

    /// The outputs of a class of planes and rows, where windows slide along the columns: all columns are one class, whose
    /// tiles leave out the taps that are outside.
    void compute_lines(const std::array<shape::tap_class, 3>& c) noexcept {
        const tile_plan& g = t_.plan;
        list_terms(g, g.panels, c, t_.in, t_.channel_step, t_.terms);
        choose_prefetch(c);
        const std::int64_t taps = g.axes[2].kernel;
        const std::int64_t reads = read_extent(g.axes[2], g.outputs);
        const tile_function* const tiles =
            t_.in_16bit ? element_.sliding_16bit(taps) : sliding_tiles_for<operand::vector>(taps);
        row_walk walk(t_.box.first_image, t_.box.last_image, c, t_.in, out_, t_.origin);
        for (std::int64_t lines = walk.rows() / c[2].positions; lines > 0; --lines) {
            std::int64_t read = c[2].first_read;  // of the first tap of the first row
            split_rows(c[2].positions, sliding_rows(taps), 1, [&](std::ptrdiff_t count) {
                // of the columns that a tile reads, those from -read to reads - read
                const auto low_bits = [&](std::int64_t n) {
                    return (std::uint32_t{1} << std::clamp<std::int64_t>(n, 0, count + taps - 1)) - 1;
                };
                const std::uint32_t inside = low_bits(reads - read) & ~low_bits(-read);
                compute_tiles(walk, count, 1, c[2],
                              [&](tile_call& call, auto& a, std::int64_t first, std::int64_t used, const auto& from) {
                                  a[0] = reinterpret_cast<const float*>(t_.source + first * t_.number_bytes);
                                  call.a_first = from[0];
                                  call.inside = inside;
                                  call.lanes = t_.in_16bit ? native_16bit_lanes
                                                           : kernel_vectors(used, narrow_vectors) * simd::lanes;
                                  return tiles[count - 1];
                              });
                read += count;
            });
        }
    }

    tile_task& t_;
    const tile_element& element_;
    std::byte* dst_;
    bool biased_;
    bool fused_ = false;
    shape::canonical_strides out_;
    std::int64_t a_ahead_ = 0;
    std::int64_t c_ahead_ = 0;
    std::int64_t lines_ahead_ = 0;
    tile_output output_;
};

/// Computes a task whose weights are packed and whose source is known. `biased`: panels begin with a bias.
GRADKERN_NOINLINE inline void compute_task(tile_task& task, const tile_element& element, std::byte* dst,
                                           bool biased) noexcept {
    tile_loop(task, element, dst, biased).compute();
}

/// Packs the weights of all panels of a task, each behind its bias.
template <class T>
void pack_task_weights(const tile_task& t, const T* weights, const void* bias) noexcept {
    const tile_plan& g = t.plan;
    t.for_each_panel([&](std::int64_t p, std::int64_t group, std::int64_t lane, std::int64_t used) {
        float* const packed = t.weights_of(p);
        for (std::int64_t j = 0; bias != nullptr && j < used; ++j)
            packed[j] = load_as_float(bias, g.bias_type, (group * g.out_channels + lane + j) * g.bias_stride);
        pack_weight_panel(g, g.panels, weights, group, lane, used, packed + g.panels.width);
        return 1;
    });
}

/// Packs what a task reads: the channels of its group, or of the groups of its lanes.
template <class T>
void pack_task_activations(const tile_task& t, const packed_box& read, const T* src, float* packed) noexcept {
    const tile_plan& g = t.plan;
    if (g.fusion == panel_fusion::groups && !g.in_place()) {
        const std::int64_t channels = std::min(g.lane_channels() - t.first_lane, g.packed_channels);
        pack_channels(src + t.first_lane * g.in[1], g.in, read, channels, packed);
        return;
    }
    const bool across = g.panels.across_groups();
    if (across && !g.panels.has_pairs()) {
        const bool in_group = g.panels.inputs == lane_inputs::broadcast_in_group;  // the tile finds them
        spread_across_groups(
            src, g.in, read,
            {t.first_lane, t.first_used, in_group ? 1 : g.out_channels, in_group ? 1 : g.in_channels, g.panels.width},
            packed);
        return;
    }
    const T* const from = src + (across ? t.first_lane : t.group * g.in_channels) * g.in[1];
    if (!g.panels.has_pairs()) {
        pack_channels(from, g.in, read, g.in_channels, packed);
    } else if constexpr (has_pairs<T>) {
        pack_channel_pairs(from, g.in, read, across ? g.panels.width : g.in_channels, packed);
    }
}

/// The tasks of a worker.
template <class T, class Next>
void run_path(const tile_plan& g, const conv_call<T>& call, std::byte* slice, const Next& next) noexcept {
    const std::int64_t each = g.task_panels(call.single_worker);
    const std::int64_t block_tasks = g.tasks.per_block(each);
    auto* const packed = array_at<float>(slice, g.at_packed);
    std::int64_t packed_key = -1;   // which (block, channels) the buffer holds
    std::int64_t weights_key = -1;  // whose weights the panels hold
    for (std::int64_t task = next(); task >= 0; task = next()) {
        const std::int64_t block = task / block_tasks;
        tile_task t(g, g.tasks.blocks[block], g.tasks.panels_of(task, each), slice);
        if (weights_key != t.first_panel) pack_task_weights(t, call.weights, call.bias);
        weights_key = t.first_panel;

        if (t.in_place()) {
            t.read_in_place(call.src, sizeof(T));
        } else {
            const packed_box read = reads_of(g.axes, g.outputs, t.box, g.packed_channels);
            const std::int64_t key = g.panels.across_groups() ? task : block * g.groups + t.group;
            if (key != packed_key) pack_task_activations(t, read, call.src, packed);
            packed_key = key;
            t.read_packed(read, packed);
        }
        compute_task(t, tile_element_of<T>, reinterpret_cast<std::byte*>(call.dst), call.bias != nullptr);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
