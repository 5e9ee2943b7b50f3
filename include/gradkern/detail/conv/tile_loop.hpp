// Runs a tile_plan. Loops, outermost first:
//
//     block      a box of output pixels (images x planes x rows x columns)
//     panels     of output channels: their weights are packed just before use
//     class      output pixels that have the same inside taps (shape/axis.hpp): borders need no branch
//     tile       rows of the register tile are pixels of one class, from any line or image, by row pointers; where rows lie
//                equally far apart, up to 16 tiles at a time, which are inside the panel then, or panels inside each tile
//     panel      of a task: one, or fused ones
//     part       at most 576 terms (order/summation.hpp)
//     K segment  (block of 64 channels, tap), channels innermost
//
// Where windows slide: class of planes > class of rows > line > tile of neighbouring columns > panel. Element types are
// sizes and tables of functions here (pack/tensor_pointer.hpp), so that the loops are compiled once for each type of sums.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/tile_output.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The kernels that depend on element types, and how outputs are written.
template <class Real>
struct tile_element {
    unpack_functions<Real> output;
    const tile_function_of<Real>* (*pairs)(std::ptrdiff_t lanes_used) = nullptr;  // of bf16 channels
    const tile_function_of<Real>* pair_groups = nullptr;                          // of them, in groups of eight
    const tile_function_of<Real>* native_16bit = nullptr;
    tile_function_of<Real> sliding_16bit = nullptr;
};
template <class Src, class Weights, class Dst>
[[nodiscard]] constexpr tile_element<accumulate_t<Dst>> make_tile_element() noexcept {
    tile_element<accumulate_t<Dst>> e{.output = unpack_functions_of<Dst>};
    constexpr bool one_type = have_one_type<Src, Weights, Dst>;
    if constexpr (one_type && has_pairs<Dst>) {
        e.pairs = &tiles_for<operand::pair>;
        e.pair_groups = tiles_of<operand::pair_group_8, 2>.data();
    }
    constexpr operand A = lane_operand<Dst>;
    if constexpr (one_type && is_native_16bit<A>) {
        e.native_16bit = tiles_of<A, native_16bit_vectors>.data();
        e.sliding_16bit = &sliding_tile<A>;
    }
    return e;
}

/// One task, and where its tiles read.
template <class Real>
struct tile_task : panel_task {
    const tile_plan& plan;
    std::int64_t first_used;  // lanes of the first panel
    source_kind read_from;    // a last panel may be packed where others are read in place
    bool in_16bit;            // tiles read and write 16 bits as they are: packed activations are f32
    std::byte* slice;
    term_list terms;
    piece_list pieces;  // in place of terms, where windows slide
    const std::byte* source = nullptr;
    std::int64_t number_bytes = sizeof(Real);  // of what offsets count
    shape::canonical_strides in{};
    std::int64_t origin = 0;
    std::int64_t channel_step = 0;
    std::int64_t panel_step = 0;  // packed: from panel to panel

    GRADKERN_NOINLINE tile_task(const tile_plan& t, const panel_task& task, std::byte* memory) noexcept
        : panel_task(task),
          plan(t),
          first_used(std::min(t.panels.width, channels)),
          read_from(t.packs(first_used) ? source_kind::packed : source_kind::in_place),
          in_16bit(t.in_16bit() && in_place()),
          slice(memory),
          terms(memory, t.terms),
          pieces(memory, t.terms) {}

    [[nodiscard]] bool in_place() const noexcept { return read_from == source_kind::in_place; }

    /// Calls f(number in the task, group, first lane in the group or in all, lanes used) for each panel; it returns how
    /// many it has served.
    template <class F>
    void for_each_panel(const F& f) const {
        const std::int64_t lanes = plan.lane_channels();
        std::int64_t of = group;
        std::int64_t lane = first_channel;
        for (std::int64_t p = 0; p < panels;) {
            const std::int64_t used = std::min(plan.panels.width, lanes - lane);
            const std::int64_t overlap = used < plan.panels.width ? plan.overlap : 0;
            const std::int64_t served = f(p, of, lane - overlap, used + overlap);
            p += served;
            lane += served * plan.panels.width;
            if (lane >= lanes) {
                lane = 0;
                ++of;
            }
        }
    }
    /// Where a panel is packed: bias, then weights.
    [[nodiscard]] Real* weights_of(std::int64_t panel) const noexcept {
        return array_at<Real>(slice, scratch.at_weights) + panel * plan.panels.floats;
    }

    GRADKERN_NOINLINE void read_packed(const packed_box& read, const Real* packed) noexcept {
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
    /// Where the first row of a panel begins.
    [[nodiscard]] std::int64_t panel_offset(std::int64_t p, std::int64_t of, std::int64_t lane) const noexcept {
        if (!in_place()) return p * panel_step;
        const weight_panels& g = plan.panels;
        return (g.across_groups() ? lane / g.term_channels() : of * g.terms) * in[1];
    }
};

/// Computes the tiles of a task.
template <class Real>
class tile_loop {
public:
    tile_loop(tile_task<Real>& task, const tile_element<Real>& element, std::byte* dst, bool biased) noexcept
        : t_(task),
          g_(task.plan),
          element_(element),
          dst_(dst),
          biased_(biased),
          out_(task.plan.out),
          sliding_(task.in_16bit ? element.sliding_16bit
                                 : sliding_tile_for<operand::vector, Real>(task.plan.axes[2].kernel, task.plan.taps())),
          output_(element.output, task.plan.out, task.plan.panels.width, task.plan.accumulates(),
                  task.in_16bit              ? tile_results::native_16bit
                  : task.plan.rounds_pairs() ? tile_results::rounded
                                             : tile_results::sums) {
        if (g_.buffers_box)
            out_ = output_.buffer_box(t_.box, array_at<Real>(t_.slice, t_.scratch.at_results), g_.taps() == 1);
        begin_panel(0, t_.group, t_.first_channel, t_.first_used);
        // Panels of one group, or of lanes across groups, may leave together: then they are one wide panel for the output.
        const int rows = g_.slides ? most_sliding_rows : takes_spaced_rows() ? most_rows_of_any : most_rows;
        fused_ = t_.panels > 1 && g_.overlap == 0 && (g_.groups == 1 || g_.panels.across_groups()) &&
                 output_.fuse(t_.panels, t_.channels, g_.panels.floats, rows);
    }

    void compute() noexcept {
        std::array<shape::tap_class, 3> c;
        shape::tap_class_walk planes(g_.axes[0], g_.outputs, t_.box.first[0], t_.box.last[0]);
        while (planes.next(c[0])) {
            shape::tap_class_walk rows(g_.axes[1], g_.outputs, t_.box.first[1], t_.box.last[1]);
            while (rows.next(c[1])) {
                if (g_.slides) {
                    c[2] = whole_windows(g_.axes[2], g_.outputs, t_.box.first[2], t_.box.last[2]);
                    compute_lines(c);
                    continue;
                }
                shape::tap_class_walk columns(g_.axes[2], g_.outputs, t_.box.first[2], t_.box.last[2]);
                while (columns.next(c[2])) compute_class(c);
            }
        }
        output_.flush();
    }

private:
    static constexpr std::ptrdiff_t run_of_tiles = 16;

    void begin_panel(std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) noexcept {
        output_.begin_panel(dst_ + (of * g_.out_channels + lane) * g_.out[1] * element_.output.bytes, used,
                            g_.is_whole(used), biased_ ? t_.weights_of(p) : nullptr);
    }

    /// The terms of a class, and what its tiles prefetch: fused panels, the next line of inputs, and outputs one or two tiles ahead.
    GRADKERN_NOINLINE void begin_class(const std::array<shape::tap_class, 3>& c) noexcept {
        if (!g_.slides) list_terms(g_, g_.panels, c, t_.in, t_.channel_step, t_.terms);
        a_ahead_ = c_ahead_ = lines_ahead_ = 0;
        if (t_.panels == 1 || g_.prefetching == prefetch::none) return;
        a_ahead_ = ((c[1].taps - 1) * c[1].read_per_tap + c[1].read_per_position) * t_.in[3];
        // Tiles of 16 bits, and of groups, are short of lines between those that their rows read.
        const bool is_short = t_.in_16bit || (g_.panels.inputs == lane_inputs::broadcast_in_group && t_.in_place());
        if (is_short && (c[1].read_per_position > 1 || c[2].read_per_position > 1))
            lines_ahead_ = c[1].read_per_position;
        c_ahead_ = target.prefetch.output_tiles * narrow_rows * c[2].position_step * g_.out[4];
    }

    [[nodiscard]] const tile_function_of<Real>* tiles_of_width(std::int64_t width) const noexcept {
        if (g_.panels.has_pairs()) return g_.panels.across_groups() ? element_.pair_groups : element_.pairs(width);
        if (t_.in_16bit) return element_.native_16bit;
        if (g_.panels.inputs == lane_inputs::own)
            return tiles_for<operand::vector, row_unit<operand::vector>, Real>(width);
        if constexpr (std::is_same_v<Real, float>) {
            if (g_.panels.inputs == lane_inputs::broadcast_in_group) {
                return g_.in_channels == 8 ? tiles_of<operand::group_8, narrow_vectors>.data()
                                           : tiles_of<operand::group_4, narrow_vectors>.data();
            }
        }
        return tiles_for<operand::scalar, row_unit<operand::scalar>, Real>(width);
    }

    /// Whether there are kernels of many rows, equally far apart: of one vector, and of numbers that windows read several times.
    [[nodiscard]] bool takes_spaced_rows() const noexcept {
        return g_.panels.inputs == lane_inputs::broadcast && g_.panels.width <= simd::lanes_of<Real> && !t_.in_16bit &&
               !g_.panels.has_pairs() && g_.taps() > 1;
    }

    [[nodiscard]] tile_function_of<Real> kernel_for(std::ptrdiff_t rows, std::int64_t width) const noexcept {
        if (by_lines_ && rows >= least_spaced_rows) return spaced_tile_for<Real>(rows);
        return tiles_of_width(width)[rows - 1];
    }

    /// Whether tiles prefetch the pixels of the next call, even those in the last cache: a CPU that waits for it does not fetch the short pixels
    /// of 1x1 kernels in NXC in time.
    [[nodiscard]] bool prefetches_pixels() const noexcept {
        return target.quirk.waits_for_last_level && g_.taps() == 1 && g_.groups == 1 && t_.in_place() && !t_.in_16bit &&
               t_.in[1] == 1 && g_.in_channels * std::int64_t{sizeof(Real)} <= target.quirk.short_pixel;
    }

    /// Prefetches so many bytes of the next lines that tiles which begin at `from` read, no more than L1 holds; returns whether it did.
    [[nodiscard]] bool prefetch_lines(std::int64_t from, std::int64_t bytes) const noexcept {
        if (lines_ahead_ == 0 || bytes * lines_ahead_ > target.prefetch.most_lines_ahead) return false;
        for (std::int64_t line = 0; line < lines_ahead_; ++line) {
            const std::int64_t at = t_.first_channel + from + a_ahead_ - line * t_.in[3];
            for (std::int64_t i = 0; i < bytes; i += cache_line)
                simd::prefetch_to_l2(t_.source, at * t_.number_bytes + i);
        }
        return true;
    }

    /// The next `tiles` tiles of `count` pixels of a walk, in all panels of the task; several lie in one line of it. Where windows
    /// slide, `read` is the column that the first tap of the first pixel reads.
    GRADKERN_NOINLINE void compute_tiles(row_walk& walk, std::ptrdiff_t count, std::ptrdiff_t tiles,
                                         std::int64_t read = 0) noexcept {
        std::array<std::int64_t, most_rows_of_any> from;
        std::array<std::int64_t, most_rows_of_any> to;
        const std::int64_t read_step = walk.in_step();
        const std::int64_t write_step = walk.out_step();
        walk.take(count, from.data(), to.data());
        walk.pass((tiles - 1) * count);
        const bool prefetches = prefetch_lines(from[0], count * tiles * read_step * t_.number_bytes);
        const bool panel_by_panel = t_.panels > 1 && !fused_;
        const bool ahead = tiles > 1 && prefetches_pixels();
        t_.for_each_panel([&](std::int64_t p, std::int64_t of, std::int64_t lane,
                              std::int64_t used) GRADKERN_INLINE_LAMBDA {
            if (panel_by_panel) begin_panel(p, of, lane, used);
            const auto c = output_.rows(count, tiles, to.data(), write_step, fused_ ? p * g_.panels.width : 0);
            tile_call_of<Real> call{.rows = count,
                                    .a_step = t_.terms.a_step,
                                    .b = t_.weights_of(p) + g_.panels.width,
                                    .b_step = t_.terms.b_step,
                                    .c = c.first,
                                    .rounds = g_.rounds_pairs() && output_.is_direct(),
                                    .bias = biased_ ? t_.weights_of(p) : nullptr,
                                    .a_ahead = prefetches ? 0 : a_ahead_,
                                    .c_ahead = c_ahead_,
                                    .no_prefetch = g_.prefetching == prefetch::none,
                                    .tiles = tiles,
                                    .a_next = count * read_step,
                                    .c_next = c.next_tile};
            if (ahead) {  // each panel prefetches a part of the next pixels
                const std::int64_t lines = shape::ceil_div(g_.in_channels, simd::line_elements<Real>);
                const std::int64_t part = shape::ceil_div(lines, t_.panels);
                call.a_lines = std::max<std::int64_t>(std::min(part, lines - p * part), 0);
                call.a_ahead = tiles * call.a_next + p * part * simd::line_elements<Real>;
            }
            if (tiles == 1 || panels_first_) {  // whole panels of a group from this one on, of each tile
                call.runs = tiles;
                call.a_run = call.a_next;
                call.c_run = call.c_next;
                const bool several = (fused_ || output_.is_direct()) && used == g_.panels.width;
                call.tiles = several ? std::min(t_.panels - p, (g_.lane_channels() - lane) / used) : 1;
                call.a_next = g_.panels.across_groups() ? g_.panels.width / g_.panels.term_channels() : 0;
                call.b_next = g_.panels.floats;
                call.c_next = g_.panels.width;
            }
            const std::int64_t first = t_.panel_offset(p, of, lane);
            const auto at = [&](std::int64_t offset) {
                return reinterpret_cast<const Real*>(t_.source + offset * t_.number_bytes);
            };
            std::array<const Real*, most_rows_of_any> rows;
            call.a = rows.data();
            if (g_.slides) {
                rows[0] = at(first);
                call.a_first = from[0];
                call.inside_begin = -read;
                call.inside_end = read_extent(g_.axes[2], g_.outputs) - read;
                call.pieces = t_.pieces.pieces();
                call.count = t_.pieces.count();
                if (t_.in_16bit && g_.accumulates()) call.mode = tile_mode::add;
                call.no_prefetch |= a_ahead_ == 0;  // no line follows
                call.a_ahead += g_.axes[2].kernel / 2 * t_.in[4];
                call.lanes = t_.in_16bit
                                 ? native_16bit_lanes
                                 : kernel_vectors(used, narrow_vectors, simd::lanes_of<Real>) * simd::lanes_of<Real>;
                sliding_(call);
            } else {
                for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
                    rows[i] = at(reads_ ? first + from[i] : 0);
                t_.terms.run(kernel_for(count, used), call, t_.in_16bit && g_.accumulates());
            }
            if (panel_by_panel) output_.flush();
            return tiles > 1 && !panels_first_ ? 1 : call.tiles;
        });
    }

    /// The outputs of one class.
    void compute_class(const std::array<shape::tap_class, 3>& c) noexcept {
        reads_ = c[0].taps > 0 && c[1].taps > 0 && c[2].taps > 0;
        if (!reads_ && g_.buffers_box && g_.taps() == 1) return;  // the buffer is clear
        begin_class(c);
        const bool in_group = g_.panels.inputs == lane_inputs::broadcast_in_group;
        const std::ptrdiff_t most = t_.in_16bit ? native_16bit_rows
                                    : in_group  ? group_rows
                                                : rows_at_most(g_.panels.width, simd::lanes_of<Real>);
        const std::ptrdiff_t unit = t_.in_16bit ? most / 2 : in_group ? most : row_unit<operand::scalar>;
        row_walk walk(t_.box.first_image, t_.box.last_image, c, t_.in, out_, t_.origin);
        // Rows equally far apart make up several tiles of a call: few calls, and weights of one panel at a time in L1. Panels of
        // lanes across groups that write straight into the tensor go over a tile together where they have few weights, or
        // wide pixels.
        panels_first_ = g_.panels.across_groups() && t_.panels > 1 && !fused_ &&
                        (!in_group || (simd::lanes > 8 && g_.panels.splits_groups(g_)));
        const bool waits = !output_.is_direct() || (t_.panels > 1 && !g_.is_whole(g_.last_lanes()));  // in the buffer
        const auto compute_rows = [&](std::ptrdiff_t rows, std::ptrdiff_t at_most) {
            split_runs(rows, at_most, unit, [&](std::ptrdiff_t count, std::ptrdiff_t left) {
                while (left > 0) {
                    const auto in_line = static_cast<std::ptrdiff_t>(walk.left()) / count;
                    const std::ptrdiff_t most_tiles =
                        waits ? std::min(run_of_tiles, output_.room() / count) : run_of_tiles;
                    const std::ptrdiff_t tiles = std::clamp<std::ptrdiff_t>(in_line, 1, std::min(left, most_tiles));
                    compute_tiles(walk, count, tiles);
                    left -= tiles;
                }
            });
        };
        // The columns of one line lie equally far apart.
        by_lines_ = takes_spaced_rows() && shape::even_part(c[2].positions, spaced_rows) >= least_spaced_rows;
        if (!by_lines_) return compute_rows(walk.rows(), most);
        for (std::int64_t lines = walk.rows() / c[2].positions; lines > 0; --lines)
            compute_rows(c[2].positions, spaced_rows);
    }

    /// The outputs of a class of planes and rows, where windows slide along the columns: tiles leave out the taps that are outside, so
    /// that all columns are one class. Sums of several parts have a list for each tile, since parts end where the taps inside say.
    void compute_lines(const std::array<shape::tap_class, 3>& c) noexcept {
        begin_class(c);
        const bool has_parts = c[0].taps * c[1].taps * c[2].taps > part_terms;
        t_.terms.a_step = t_.in[4];
        t_.terms.b_step = g_.panels.width;
        std::int64_t listed = -1;  // rows of the tile that was listed last
        std::int64_t listed_read = 0;
        row_walk walk(t_.box.first_image, t_.box.last_image, c, t_.in, out_, t_.origin);
        for (std::int64_t lines = walk.rows() / c[2].positions; lines > 0; --lines) {
            std::int64_t read = c[2].first_read;  // of the first tap of the first row
            split_rows(c[2].positions, most_sliding_rows, 1, [&](std::ptrdiff_t count) {
                if (listed < 0 || (has_parts && (count != listed || read != listed_read))) {
                    t_.pieces.list(g_, g_.panels, c, t_.in, read, count);
                    listed = count;
                    listed_read = read;
                }
                compute_tiles(walk, count, 1, read);
                read += count;
            });
        }
    }

    tile_task<Real>& t_;
    const tile_plan& g_;
    const tile_element<Real>& element_;
    std::byte* dst_;
    bool biased_;
    bool fused_ = false;
    bool panels_first_ = false;  // whether all panels go over a tile, then over the next one
    bool by_lines_ = false;      // whether all rows of a tile belong to one line
    bool reads_ = true;          // false: a class without taps, whose rows are nowhere
    shape::canonical_strides out_;
    tile_function_of<Real> sliding_;  // where windows slide
    std::int64_t a_ahead_ = 0;
    std::int64_t c_ahead_ = 0;
    std::int64_t lines_ahead_ = 0;
    tile_output<Real> output_;
};

/// Packs the weights of all panels of a task, each behind its bias.
template <class Real>
void pack_task_weights(const tile_task<Real>& t, const tensor_pointer<Real>& weights, const void* bias) noexcept {
    const tile_plan& g = t.plan;
    t.for_each_panel([&](std::int64_t p, std::int64_t group, std::int64_t lane, std::int64_t used) {
        Real* const packed = t.weights_of(p);
        for (std::int64_t j = 0; bias != nullptr && j < used; ++j)
            packed[j] = load_bias<Real>(g, bias, group * g.out_channels + lane + j);
        pack_weight_panel(g, g.panels, weights, group, lane, used, packed + g.panels.width);
        return 1;
    });
}

/// Packs what a task reads: the channels of its group, or of the groups of its lanes.
template <class Real>
void pack_task_activations(const tile_task<Real>& t, const packed_box& read, const tensor_pointer<Real>& src,
                           Real* packed) noexcept {
    const tile_plan& g = t.plan;
    const bool side_by_side = g.fusion == panel_fusion::groups && !g.in_place();
    const bool across = g.panels.across_groups();
    if (across && !side_by_side && !g.panels.has_pairs()) {
        const bool in_group = g.panels.inputs == lane_inputs::broadcast_in_group;  // the tile finds them
        spread_across_groups(src, g.in, read,
                             {t.first_channel, t.first_used, in_group ? 1 : g.out_channels,
                              in_group ? 1 : g.in_channels, g.panels.width},
                             packed);
        return;
    }
    const tensor_pointer<Real> from =
        src + (across || side_by_side ? t.first_channel : t.group * g.in_channels) * g.in[1];
    if (!g.panels.has_pairs()) {
        pack_channels(from, g.in, read, side_by_side ? t.channels : g.in_channels, packed);
    } else if constexpr (simd::has_dot_bf16 && std::is_same_v<Real, float>) {
        pack_channel_pairs(from, g.in, read, across ? g.panels.width : g.in_channels, packed);
    }
}

/// The tasks of a worker.
template <class Real>
void run_path(const tile_plan& g, const conv_call<Real>& call, std::byte* slice, const next_task& next) noexcept {
    for_each_panel_task(g, call.run, slice, next, [&](const panel_task& task) {
        tile_task<Real> t(g, task, slice);
        if (t.new_weights) pack_task_weights(t, call.weights, call.bias);
        if (t.in_place()) {
            t.read_in_place(call.src.first, call.src.type->bytes);
        } else {
            auto* const packed = array_at<Real>(slice, t.scratch.at_packed);
            const packed_box read = reads_of(g.axes, g.outputs, t.box, g.packed_channels());
            if (t.new_source) pack_task_activations(t, read, call.src, packed);
            t.read_packed(read, packed);
        }
        if (t.packs_only) return;
        tile_loop<Real>(t, call.element.tile, call.dst, call.bias != nullptr).compute();
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
