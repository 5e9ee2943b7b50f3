// The tiles of one task of the gather engine (gather.hpp): its inner loops,
//
//     class of planes > class of rows > class of columns > tile, or up to 16 whose rows lie equally far apart > panel > part
//
// and, where windows slide (`sliding`), class of planes > class of rows > line > tile of neighbouring columns > panel. The
// type of the tensors is numbers and functions here: compiled once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/conv/reduction.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/pack/tile_output.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The kernels that depend on the type of a tensor, and how its outputs are written.
struct gather_element {
    output_element output;
    const tile_function* (*pairs)(std::ptrdiff_t lanes_used) = nullptr;  // of bf16 channels
    const tile_function* octets = nullptr;                               // of them, in groups of eight
    const tile_function* halves = nullptr;                               // of rows of 16 bits
    const tile_function* (*sliding_halves)(std::int64_t taps) = nullptr;
};
template <class T>
[[nodiscard]] constexpr gather_element make_gather_element() noexcept {
    gather_element e{.output = output_element_of<T>};
    if constexpr (has_pairs<T>) {
        e.pairs = &tiles_for<operand::pair>;
        e.octets = tiles_of<operand::octet, 2, row_unit<operand::octet>>.data();
    }
    constexpr operand A = lane_operand<T>;
    if constexpr (is_half<A>) {
        e.halves = tiles_of<A, half_vectors, row_unit<A>>.data();
        e.sliding_halves = &sliding_tiles_for<A>;
    }
    return e;
}
template <class T>
inline constexpr gather_element gather_element_of = make_gather_element<T>();

/// One task: a block of outputs and some panels.
struct gather_task {
    const gather_plan& g;
    box_grid::item box;
    std::int64_t first_panel;
    std::int64_t panels;
    std::int64_t group;       // of the first panel, often the only one
    std::int64_t first_lane;  // of the first panel: in its group, or in all
    std::int64_t first_used;  // lanes of the first panel
    bool staged;              // tiles read a staging area: of a last panel whole vectors would leave the tensor
    float* packed;            // [panel][bias, weights]
    float* results;           // of lines that wait
    reduction_list reduction;
    // Where tiles read.
    const std::byte* source = nullptr;
    std::int64_t number = sizeof(float);  // bytes of what offsets count
    shape::canonical_strides in{};
    std::int64_t origin = 0;
    std::int64_t channel_step = 0;
    std::int64_t panel_step = 0;  // staged: from panel to panel

    gather_task(const gather_plan& plan, const box_grid::item& block, const gather_plan::panel_range& range,
                std::byte* slice) noexcept
        : g(plan),
          box(block),
          first_panel(range.first),
          panels(range.last - range.first),
          group(range.first / plan.panels),
          first_lane(range.first % plan.panels * plan.panel_width),
          first_used(std::min(plan.panel_width, plan.lane_channels() - first_lane)),
          staged(plan.staged || (plan.channelwise && !plan.is_whole(first_used))),
          packed(reinterpret_cast<float*>(slice + plan.at_panel)),
          results(reinterpret_cast<float*>(slice + plan.at_results)),
          reduction{reinterpret_cast<stretch*>(slice + plan.at_list),
                    reinterpret_cast<std::ptrdiff_t*>(slice + plan.at_parts)} {}

    /// Calls f(number in the task, group, first lane in the group or in all, lanes used) for each panel; it returns how
    /// many it has served.
    template <class F>
    void for_each_panel(const F& f) const {
        const std::int64_t lanes = g.lane_channels();
        std::int64_t of = group;
        std::int64_t lane = first_lane;
        for (std::int64_t p = 0; p < panels;) {
            const std::int64_t served = f(p, of, lane, std::min(g.panel_width, lanes - lane));
            p += served;
            lane += served * g.panel_width;
            if (lane >= lanes) {
                lane = 0;
                ++of;
            }
        }
    }

    void read_staged(const staging_box& read, const float* staging) noexcept {
        source = reinterpret_cast<const std::byte*>(staging);
        in = read.strides();
        origin = read.origin();
        channel_step = g.channelwise ? g.panel_width : 1;
        panel_step = g.together ? g.panel_width : 0;
    }
    void read_in_place(const void* src, std::int64_t bytes) noexcept {
        source = static_cast<const std::byte*>(src);
        in = g.in;
        channel_step = g.in[1];
        if (g.pairs) {
            for (std::int64_t& step : in) step /= 2;
            in[1] = channel_step = 1;
        } else {
            number = bytes;
        }
    }
    /// Channelwise: what rows hold of so many lanes.
    [[nodiscard]] std::int64_t lanes_read(std::int64_t lanes) const noexcept { return g.pairs ? lanes / 2 : lanes; }
    /// Where the first row of a panel begins.
    [[nodiscard]] std::int64_t panel_offset(std::int64_t p, std::int64_t of, std::int64_t lane) const noexcept {
        if (staged) return p * panel_step;
        return (g.channelwise ? lanes_read(lane) : of * g.terms) * in[1];
    }
};

/// Asks for a part of each of `lines` lines, from that at `at` back by `step`. Offsets in bytes from `base`.
GRADKERN_NOINLINE inline void ask_for_lines(const void* base, std::int64_t at, std::int64_t bytes, std::int64_t lines,
                                            std::int64_t step) noexcept {
    GRADKERN_DETAIL_KEEP_CALLS();
    for (; lines > 0; --lines, at -= step)
        for (std::int64_t i = 0; i < bytes; i += cache_line)
            simd::prefetch_to_l2(static_cast<const std::byte*>(base), at + i);
}

/// Computes the tiles of a task.
class gather_tiles {
public:
    gather_tiles(gather_task& task, const gather_element& element, std::byte* dst, bool biased) noexcept
        : t_(task),
          element_(element),
          dst_(dst),
          biased_(biased),
          halves_(task.g.halves && !task.staged),  // a last panel may be staged
          out_(task.g.out),
          output_(element.output, task.g.out, task.g.panel_width, task.g.accumulate, halves_, task.g.pairs_round()) {
        const gather_plan& g = t_.g;
        if (g.out_staged) out_ = output_.stage(t_.box, t_.results, g.taps() == 1);
        turn_to(0, t_.group, t_.first_lane, t_.first_used);
        // Panels of one group, or of lanes across groups, may leave together: then they are one wide panel for the output.
        joined_ = t_.panels > 1 && (g.groups == 1 || g.channelwise) &&
                  output_.join(t_.panels, std::min(t_.panels * g.panel_width, g.lane_channels() - t_.first_lane),
                               g.panel_floats, g.sliding ? most_sliding_rows : most_rows);
    }

    void compute() noexcept {
        const gather_plan& g = t_.g;
        std::array<shape::tap_class, 3> c;
        shape::tap_class_walk planes(g.axes[0], g.outputs, t_.box.first[0], t_.box.last[0]);
        while (planes.next(c[0])) {
            shape::tap_class_walk rows(g.axes[1], g.outputs, t_.box.first[1], t_.box.last[1]);
            while (rows.next(c[1])) {
                if (g.sliding) {
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

    void turn_to(std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) noexcept {
        const gather_plan& g = t_.g;
        output_.turn_to(dst_ + (of * g.out_channels + lane) * g.out[1] * element_.output.bytes, used, g.is_whole(used),
                        biased_ ? t_.packed + p * g.panel_floats : nullptr);
    }

    /// What tiles of a class ask for: panels that go together, the next line of inputs, and outputs one or two tiles ahead.
    /// Nothing where tensors are in the cache: asking would take longer than it saves. (Called from two places: once in the text.)
    GRADKERN_NOINLINE void look_ahead(const std::array<shape::tap_class, 3>& c) noexcept {
        const gather_plan& g = t_.g;
        a_ahead_ = c_ahead_ = lines_ahead_ = 0;
        if (t_.panels == 1 || g.cached) return;
        a_ahead_ = ((c[1].taps - 1) * c[1].read_per_tap + c[1].read_per_position) * t_.in[3];
        c_ahead_ = target.prefetch.output_tiles * narrow_rows * c[2].position_step * g.out[4];
        // Windows with a stride, in place: the lines between, too, unless windows skip some.
        const bool strided = c[1].read_per_position > 1 || c[2].read_per_position > 1;
        const auto meet = [](const shape::tap_class& k) {
            return k.read_per_position <= (k.taps - 1) * k.read_per_tap + 1;
        };
        if (g.channelwise && !t_.staged && strided && meet(c[1]) && meet(c[2])) lines_ahead_ = c[1].read_per_position;
    }
    /// Asks for them where a tile of `count` rows, the first of which reads at `from`, cannot itself; returns whether it did.
    bool ask_ahead(std::ptrdiff_t count, std::int64_t from, const shape::tap_class& columns) const noexcept {
        if (lines_ahead_ == 0) return false;
        // Not more than L1 holds: so many at a time hold the tiles up.
        const std::int64_t reach = count * columns.read_per_position * t_.in[4] * t_.number;
        if (reach > 32 * 1024 / lines_ahead_) return false;
        ask_for_lines(t_.source, (t_.lanes_read(t_.first_lane) + from + a_ahead_) * t_.number, reach, lines_ahead_,
                      t_.in[3] * t_.number);
        return true;
    }

    /// What tiles of a panel have in common.
    [[nodiscard]] tile_call call_of(std::int64_t p, std::ptrdiff_t count, const tile_output::row_pointers& c) noexcept {
        const gather_plan& g = t_.g;
        return {.list = t_.reduction.list,
                .rows = count,
                .a_step = t_.reduction.a_step,
                .b = t_.packed + p * g.panel_floats + g.panel_width,
                .b_step = t_.reduction.b_step,
                .c = c.first,
                .group = g.in_channels,
                .rounds = g.pairs_round() && output_.is_direct(),
                .bias = biased_ ? t_.packed + p * g.panel_floats : nullptr,
                .a_ahead = a_ahead_,
                .c_ahead = c_ahead_,
                .a_next = g.channelwise ? t_.lanes_read(g.panel_width) : 0,
                .b_next = g.panel_floats,
                .c_next = g.panel_width};
    }
    /// Whole panels of a group, one after the other, from this one on.
    [[nodiscard]] std::int64_t panels_at_once(std::int64_t p, std::int64_t lane, std::int64_t used) const noexcept {
        if ((!joined_ && !output_.is_direct()) || used < t_.g.panel_width) return 1;
        return std::min(t_.panels - p, (t_.g.lane_channels() - lane) / used);
    }
    void run_parts(tile_function tile, tile_call& call) const noexcept {
        for (std::ptrdiff_t part = 0; part < t_.reduction.part_count; ++part) {
            call.count = t_.reduction.parts[part];
            call.mode = part == 0 && !(halves_ && t_.g.accumulate) ? tile_mode::set : tile_mode::add;
            tile(call);
            call.list += call.count;
        }
    }

    [[nodiscard]] const tile_function* tiles_of_width(std::int64_t width) const noexcept {
        const gather_plan& g = t_.g;
        if (g.pairs) return g.channelwise ? element_.octets : element_.pairs(width);
        if (halves_) return element_.halves;
        if (g.shared && g.in_channels != 4)
            return tiles_of<operand::shared, narrow_vectors, row_unit<operand::shared>>.data();
        return g.shared        ? tiles_for<operand::quad>(g.panel_width)
               : g.channelwise ? tiles_for<operand::vector>(width)
                               : tiles_for<operand::scalar>(width);
    }

    /// The next `tiles` tiles of `count` positions of a walk, in all panels of the task; several lie in one line of it.
    /// `tile_of(call, row pointers, offset of the panel, lanes used, offsets of what rows read)` completes the call and
    /// returns the kernel.
    template <class TileOf>
    void compute_tiles(row_walk& walk, std::ptrdiff_t count, std::ptrdiff_t tiles, const shape::tap_class& columns,
                       const TileOf& tile_of) noexcept {
        rows_of_tile from;
        rows_of_tile to;
        const std::int64_t read_step = walk.in_step();
        const std::int64_t write_step = walk.out_step();
        walk.take(count, from.data(), to.data());
        walk.pass((tiles - 1) * count);
        const bool asked = ask_ahead(count * tiles, from[0], columns);
        const bool turns = t_.panels > 1 && !joined_;
        t_.for_each_panel([&](std::int64_t p, std::int64_t of, std::int64_t lane, std::int64_t used) {
            if (turns) turn_to(p, of, lane, used);
            const auto c = output_.rows(count, tiles, to.data(), write_step, joined_ ? p * t_.g.panel_width : 0);
            tile_call call = call_of(p, count, c);
            if (tiles > 1) {
                call.tiles = tiles;
                call.a_next = count * read_step;
                call.b_next = 0;
                call.c_next = c.next_tile;
            } else {
                call.tiles = panels_at_once(p, lane, used);
            }
            if (asked) call.a_ahead = 0;
            call.quiet = t_.g.cached || (asked && !halves_);  // halves ask for outputs still
            std::array<const float*, most_rows> rows;
            call.a = rows.data();
            run_parts(tile_of(call, rows, t_.panel_offset(p, of, lane), used, from), call);
            if (turns) output_.flush();
            return tiles > 1 ? 1 : call.tiles;
        });
    }

    /// The outputs of one class.
    void compute_class(const std::array<shape::tap_class, 3>& c) noexcept {
        const gather_plan& g = t_.g;
        const bool reads = c[0].taps > 0 && c[1].taps > 0 && c[2].taps > 0;  // else rows are nowhere
        if (!reads && g.out_staged && g.taps() == 1) return;                 // the staging area is clear
        fill_reduction(g, c, t_.in, t_.channel_step, t_.reduction);
        look_ahead(c);
        const std::ptrdiff_t rows_most = halves_ ? half_rows : g.shared ? shared_rows : rows_at_most(g.panel_width);
        const std::ptrdiff_t rows_unit = halves_    ? half_rows / 2
                                         : g.shared ? row_unit<operand::quad>
                                                    : row_unit<operand::scalar>;
        row_walk walk(t_.box.first_image, t_.box.last_image, c, t_.in, out_, t_.origin);
        const auto tile_of = [&](const tile_call& call, auto& a, std::int64_t first, std::int64_t used,
                                 const auto& from) {
            for (std::size_t i = 0; i < static_cast<std::size_t>(call.rows); ++i)
                a[i] = reinterpret_cast<const float*>(t_.source + (reads ? first + from[i] : 0) * t_.number);
            return tiles_of_width(used)[call.rows - 1];
        };
        // Rows equally far apart make up several tiles of a call: few calls, and weights of one panel at a time in L1. Panels of
        // lanes across groups that write straight into the tensor go over a tile together where they have few weights, or
        // wide positions.
        const bool panels_first =  // all of one tile, then the next tile
            g.channelwise && t_.panels > 1 && !joined_ && (!g.shared || (simd::lanes > 8 && g.octets()));
        const bool waits = !output_.is_direct() || (t_.panels > 1 && !g.last_is_whole());  // in the buffer
        split_runs(walk.rows(), rows_most, rows_unit, [&](std::ptrdiff_t count, std::ptrdiff_t left) {
            while (left > 0) {
                const auto in_line = static_cast<std::ptrdiff_t>(walk.left()) / count;
                const std::ptrdiff_t most = panels_first ? 1
                                            : waits      ? std::min(run_of_tiles, output_.room() / count)
                                                         : run_of_tiles;
                const std::ptrdiff_t tiles = std::clamp<std::ptrdiff_t>(in_line, 1, std::min(left, most));
                compute_tiles(walk, count, tiles, c[2], tile_of);
                left -= tiles;
            }
        });
    }

    /// The outputs of a class of planes and rows, where windows slide along the columns: all columns are one class, whose
    /// tiles leave out the taps that are outside.
    void compute_lines(const std::array<shape::tap_class, 3>& c) noexcept {
        const gather_plan& g = t_.g;
        fill_reduction(g, c, t_.in, t_.channel_step, t_.reduction);
        look_ahead(c);
        const std::int64_t taps = g.axes[2].kernel;
        const std::int64_t reads = g.outputs == shape::side::small ? g.axes[2].large : g.axes[2].small;
        const tile_function* const tiles =
            halves_ ? element_.sliding_halves(taps) : sliding_tiles_for<operand::vector>(taps);
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
                                  a[0] = reinterpret_cast<const float*>(t_.source + first * t_.number);
                                  call.a_first = from[0];
                                  call.inside = inside;
                                  call.lanes =
                                      halves_ ? half_lanes : kernel_vectors(used, narrow_vectors) * simd::lanes;
                                  return tiles[count - 1];
                              });
                read += count;
            });
        }
    }

    gather_task& t_;
    const gather_element& element_;
    std::byte* dst_;
    bool biased_;
    bool halves_;
    bool joined_ = false;
    shape::canonical_strides out_;
    std::int64_t a_ahead_ = 0;
    std::int64_t c_ahead_ = 0;
    std::int64_t lines_ahead_ = 0;
    tile_output output_;
};

/// Computes a task whose weights are packed and whose source is known. `biased`: panels begin with a bias.
GRADKERN_NOINLINE inline void compute_task(gather_task& task, const gather_element& element, std::byte* dst,
                                           bool biased) noexcept {
    gather_tiles(task, element, dst, biased).compute();
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
