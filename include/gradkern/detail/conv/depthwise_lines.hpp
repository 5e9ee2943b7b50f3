// depthwise_lines: one input and one output channel in each group, whose planes lie as lines.
//
// Loops          images and channels of a task > part of an image, some planes or rows > plane > seven rows > vector of columns >
//                plane tap > line > column tap > row tap
// Lanes          neighbouring columns. Rows of a tile are neighbours in a column: each vector is read once for all row taps
//                (micro/lines_tile.hpp)
// Packed         activations as [plane][row][column], with -0 at the ends of lines; weights as a vector for each tap, once for whole
//                windows, and once for each vector with windows that are cut
// Taken          windows of three rows and columns (with AVX2 and shorter vectors five and seven, too) of stride 1, where columns are
//                neighbours in both tensors, and it costs less than transposing both sides; always for one channel in all
// Gains          over depthwise and depthwise_sliding, NCX, f32, both directions: 0.58 of their time with AVX-512 (13 layers, 0.36 to 0.77;
//                four of them beyond the last-level cache: 0.82), 0.75 with AVX2 (20 layers); Sapphire Rapids, g++ 12 -O2, rows forced,
//                alternating. Windows of five and seven with AVX-512, which have no kernels: see lines_tile_for
// Used by        30 layers of the zoo with AVX2, 16 with AVX-512: MobileNet, EfficientNet, Xception, X3D, ConvNeXt
// Delete it      when planes are transposed in no time
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/lines_tile.hpp>
#include <gradkern/detail/micro/sliding_tile.hpp>
#include <gradkern/detail/micro/tile_call.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/lines.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The outputs of a line cut into vectors. Those whose windows are all whole share a set of weights; the others have their own.
struct line_vectors {
    std::int64_t first_read = 0;  // column that the first tap of the first output reads, which may be outside
    std::int64_t count = 0;
    std::int64_t cut_left = 0;   // vectors with windows that begin outside
    std::int64_t cut_right = 0;  // vectors with windows that end outside, but for those
    std::int64_t lanes = simd::lanes;

    constexpr line_vectors() noexcept = default;
    GRADKERN_COLD constexpr explicit line_vectors(const conv_equation& e) noexcept
        : first_read(read_span(e.axes[2], e.outputs, 0, 1).first),
          count(shape::ceil_div(e.extent(2), e.real.lanes)),
          lanes(e.real.lanes) {
        cut_left = std::clamp<std::int64_t>(shape::ceil_div(-first_read, lanes), 0, count);
        const std::int64_t cut = read_extent(e.axes[2], e.outputs) - (first_read + e.axes[2].kernel - 1);
        if (cut < e.extent(2)) cut_right = std::min(count - cut_left, count - std::max<std::int64_t>(cut, 0) / lanes);
    }
    /// Vectors but one of those that share a set.
    [[nodiscard]] constexpr std::int64_t shared() const noexcept {
        return std::max<std::int64_t>(count - cut_left - cut_right - 1, 0);
    }
    [[nodiscard]] constexpr std::int64_t sets() const noexcept { return count - shared(); }
    /// The set that a vector meets, and the first vector that meets a set.
    [[nodiscard]] constexpr std::int64_t set_of(std::int64_t v) const noexcept {
        return v < cut_left ? v : std::max(cut_left, v - shared());
    }
    [[nodiscard]] constexpr std::int64_t first_of(std::int64_t set) const noexcept {
        return set <= cut_left ? set : set + shared();
    }
};

/// Some rows of a plane that one tile after the other computes, for any channel and image of a block.
struct line_step {
    std::int64_t first = 0;  // offset in the output
    std::int64_t rows = 0;
    std::ptrdiff_t line = 0;            // offset of the first line that is read
    const k_segment* planes = nullptr;  // plane taps
    std::ptrdiff_t plane_taps = 0;
    std::uint32_t inside = 0;
};

struct depthwise_lines_plan : panel_plan {
    line_vectors vectors{};
    box_grid parts{};         // of an image, which are packed one after the other
    std::int64_t margin = 0;  // floats before the columns of a line
    std::int64_t pitch = 0;   // from line to line
    std::int64_t block_floats = 0;
    std::int64_t channel_floats = 0;  // of the weights of a channel
    std::int64_t at_block = 0;        // byte offsets in a slice
    std::int64_t at_results = 0;
    std::int64_t at_steps = 0;
};

struct depthwise_lines_path {
    /// Floats of a packed block and of the weights of a task: with them, calls without a workspace fit the stack.
    static constexpr std::int64_t most_block_floats = 7 * 1024;
    static constexpr std::int64_t most_weight_floats = 3 * 512;
    /// Columns of a line.
    static constexpr std::int64_t most_columns = 1024;

    /// Where there are kernels, in one part, and a block may be some lines of a plane.
    [[nodiscard]] GRADKERN_COLD static constexpr bool fits(const conv_problem& p) noexcept {
        const shape::axis& rows = p.axes[1];
        const shape::axis& columns = p.axes[2];
        return p.is_depthwise() && p.taps() <= part_terms && p.are_lines() && rows.kernel == columns.kernel &&
               lines_tile_for(rows.kernel) != nullptr && rows.stride == 1 && columns.stride == 1 &&
               rows.dilation == 1 && columns.dilation == 1 && columns.large <= most_columns &&
               columns.small <= most_columns && block_floats(p, {1, 1, 1}) <= p.real.in_memory_of(most_block_floats);
    }

    [[nodiscard]] GRADKERN_COLD static constexpr bool is_profitable(const conv_problem& p) noexcept {
        // One channel on each side: no other path has lanes to fill (1.4 to 6 times as fast as narrow_output).
        return p.extent(1) >= 4 && (p.groups == 1 || (p.in[1] != 1 && costs_less(p)));
    }

    [[nodiscard]] GRADKERN_COLD static constexpr depthwise_lines_plan make(const conv_problem& p) noexcept {
        depthwise_lines_plan g{{{p}}};
        g.panels = make_weight_panels(p, lane_inputs::broadcast, tile_numbers::f32, 1);
        g.panel_channels = g.group_panels = 1;
        g.tasks.panels = g.tasks.fused = p.groups;
        g.vectors = line_vectors(p);
        g.margin = margin_of(g.vectors);
        g.pitch = pitch_of(p);
        g.channel_floats = g.vectors.sets() * p.taps() * p.real.lanes;
        const std::int64_t most = p.real.in_memory_of(most_weight_floats) / std::max<std::int64_t>(g.channel_floats, 1);
        g.tasks.each = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(p.groups, 1));
        // Whole planes: parts of them are no stream that a CPU follows.
        const std::int64_t pixels = std::max<std::int64_t>(p.extent(0) * p.extent(1) * p.extent(2), 1);
        const std::int64_t images =
            std::clamp<std::int64_t>(block_pixels / pixels, 1, std::max<std::int64_t>(p.batch, 1));
        g.tasks.blocks =
            box_grid(p.batch, p.extents(), p.extents(), shape::even_part(std::max<std::int64_t>(p.batch, 1), images));
        g.least_block = pixels;
        g.tasks.share_out();
        g.single_worker_panels = g.tasks.each;
        conv_equation image = p;
        image.batch = 1;
        g.parts = choose_blocks(image, {.pixels = INT64_MAX,
                                        .floats = p.real.in_memory_of(most_block_floats),
                                        .pixel_floats = 1,
                                        .pads_rows = true});
        const box_grid& parts = g.parts;
        slice_layout& slice = g.fixed;
        g.block_floats = block_floats(p, {parts.box(0), parts.box(1), parts.box(2)});
        g.at_block = slice.reserve(g.block_floats, p.real.bytes);
        g.at_results = slice.reserve(lines_rows * g.vectors.count * p.real.lanes, p.real.bytes);
        g.terms.at_segments = slice.reserve<k_segment>(parts.box(0) * p.axes[0].kernel);
        g.at_steps = slice.reserve<line_step>(parts.box(0) * shape::ceil_div(parts.box(1), std::int64_t{lines_rows}));
        g.panel_floats = g.channel_floats;
        return g;
    }

private:
    [[nodiscard]] static constexpr std::int64_t margin_of(const line_vectors& v) noexcept {
        return std::max<std::int64_t>(-v.first_read, 0);
    }
    /// With room for what the last vector reads, and for a vector behind the columns.
    [[nodiscard]] GRADKERN_COLD static constexpr std::int64_t pitch_of(const conv_problem& p) noexcept {
        const line_vectors v(p);
        const std::int64_t read = v.first_read + p.axes[2].kernel - 1 + v.count * p.real.lanes;
        return row_pitch(margin_of(v) + std::max(read, read_extent(p.axes[2], p.outputs) + p.real.lanes));
    }
    /// Floats of the packed lines of a block of one image. Columns are not cut.
    [[nodiscard]] GRADKERN_COLD static constexpr std::int64_t block_floats(
        const conv_problem& p, const std::array<std::int64_t, 3>& box) noexcept {
        return reads_at_most(p.axes[0], p.outputs, box[0]) * reads_at_most(p.axes[1], p.outputs, box[1]) * pitch_of(p);
    }
    /// In multiply-adds of a lane.
    [[nodiscard]] GRADKERN_COLD static constexpr bool costs_less(const conv_problem& p) noexcept {
        const auto columns = static_cast<double>(p.extent(2));
        const double filled = static_cast<double>(line_vectors(p).count * p.real.lanes) / columns;
        const double term = p.axes[2].kernel > 3 ? 1 : target.cost.depthwise_term;  // of windows that slide
        const auto taps = static_cast<double>(p.taps());
        return target.cost.line_term * taps * filled < term * taps + target.cost.transposed_output;
    }
};

/// What a worker keeps from task to task, whatever the types of the tensors.
template <class Real>
class line_tiles {
public:
    GRADKERN_NOINLINE line_tiles(const depthwise_lines_plan& g, const task_scratch& scratch, std::byte* slice) noexcept
        : g_(g),
          packed_(array_at<Real>(slice, g.at_block)),
          weights_(array_at<Real>(slice, scratch.at_weights)),
          results_(array_at<Real>(slice, g.at_results)),
          planes_(array_at<k_segment>(slice, g.terms.at_segments)),
          steps_(array_at<line_step>(slice, g.at_steps)),
          tile_(lines_tile_for<Real>(g.axes[2].kernel)) {
        own::fill_n(packed_, g.block_floats, -Real{0});
    }

    /// Where the first column of the packed block lies.
    [[nodiscard]] Real* packed() const noexcept { return packed_ + g_.margin; }
    /// Lines of results.
    [[nodiscard]] Real* results() const noexcept { return results_; }
    [[nodiscard]] std::int64_t results_pitch() const noexcept { return g_.vectors.count * simd::lanes_of<Real>; }
    /// The steps of the block.
    [[nodiscard]] std::span<const line_step> steps() const noexcept { return {steps_, step_count_}; }

    /// Spreads the packed taps of a channel of the task over the lanes of its sets: [set][tap][lane].
    GRADKERN_NOINLINE void spread_weights(const Real* taps, std::int64_t channel) noexcept {
        std::array<Real, static_cast<std::size_t>(simd::lanes_of<Real>)> numbers;
        for (std::size_t j = 0; j < numbers.size(); ++j) numbers[j] = static_cast<Real>(j);
        const simd::vec_of<Real> lane = simd::load(numbers.data());
        const simd::vec_of<Real> one = simd::broadcast(Real{1});
        const std::int64_t columns = g_.axes[2].kernel;
        const std::int64_t reads = read_extent(g_.axes[2], g_.outputs);
        Real* to = weights_ + channel * g_.channel_floats;
        for (std::int64_t set = 0; set < g_.vectors.sets(); ++set) {
            const std::int64_t first = g_.vectors.first_read + g_.vectors.first_of(set) * simd::lanes_of<Real>;
            for (std::int64_t tap = 0; tap < g_.taps(); ++tap, to += simd::lanes_of<Real>) {
                const std::int64_t read = first + tap % columns;  // of lane 0
                const auto before = simd::greater(simd::broadcast(static_cast<Real>(-read)), lane);
                const auto behind = simd::greater(lane, simd::broadcast(static_cast<Real>(reads - 1 - read)));
                simd::store(to, simd::select(simd::either(before, behind), one, simd::broadcast(taps[tap])));
            }
        }
    }

    /// Lists the steps of a part of an image, and returns what it reads.
    [[nodiscard]] const packed_box& begin_part(std::int64_t part) noexcept {
        if (part != part_) list_steps(g_.parts[part]);
        part_ = part;
        return read_;
    }

    /// Computes the rows of a step, of a channel of the task.
    void compute(const line_step& step, std::int64_t channel) noexcept {
        const Real* const weights = weights_ + channel * g_.channel_floats;
        lines_call_of<Real> call{.a = packed_,
                                 .a_first = step.line + g_.margin + g_.vectors.first_read,
                                 .a_row = g_.pitch,
                                 .list = step.planes,
                                 .count = step.plane_taps,
                                 .c = results_,
                                 .c_row = results_pitch(),
                                 .inside = step.inside};
        for (std::int64_t v = 0; v < g_.vectors.count;
             ++v, call.a_first += simd::lanes_of<Real>, call.c += simd::lanes_of<Real>) {
            call.b = weights + g_.vectors.set_of(v) * (g_.taps() * simd::lanes_of<Real>);
            tile_(call);
        }
    }

private:
    GRADKERN_NOINLINE void list_steps(const box_grid::item& box) noexcept {
        step_count_ = 0;
        read_ = reads_of(g_.axes, g_.outputs, box, 1);
        const packed_box& read = read_;
        k_segment* segments = planes_;
        const std::int64_t tap_floats = g_.axes[1].kernel * g_.axes[2].kernel * simd::lanes_of<Real>;
        const std::int64_t first_line = read_span(g_.axes[1], g_.outputs, 0, 1).first - read.first[1];
        shape::tap_class_walk walk(g_.axes[0], g_.outputs, box.first[0], box.last[0]);
        for (shape::tap_class c; walk.next(c);)
            for (std::int64_t i = 0; i < c.positions; ++i) {
                const k_segment* const planes = segments;
                for (std::int64_t d = 0; d < c.taps; ++d) {
                    const std::int64_t plane =
                        c.first_read + i * c.read_per_position + d * c.read_per_tap - read.first[0];
                    const std::int64_t tap = c.first_tap + d * c.tap_step;
                    *segments++ = {plane * read.extent[1] * g_.pitch,
                                   (g_.is_forward() ? tap : g_.axes[0].kernel - 1 - tap) * tap_floats, 0};
                }
                const std::int64_t out = (c.first_position + i * c.position_step) * g_.out[2];
                for (std::int64_t h = box.first[1]; h < box.last[1]; h += lines_rows) {
                    const std::int64_t rows = std::min<std::int64_t>(box.last[1] - h, lines_rows);
                    const std::int64_t line = first_line + h;
                    steps_[step_count_++] = {out + h * g_.out[3],
                                             rows,
                                             line * g_.pitch,
                                             planes,
                                             c.taps,
                                             inside_bits(line, rows + g_.axes[1].kernel - 1, read.extent[1])};
                }
            }
    }

    const depthwise_lines_plan& g_;
    Real* packed_;
    Real* weights_;
    Real* results_;
    k_segment* planes_;
    line_step* steps_;
    lines_function_of<Real> tile_;
    std::size_t step_count_ = 0;
    std::int64_t part_ = -1;
    packed_box read_{};
};

/// What depends on the element type of the results: how lines are written.
template <class Real>
struct line_element {
    unpack_functions<Real> output;
    unpack_lines_function<Real> unpack_lines = nullptr;
};
template <class Dst>
[[nodiscard]] constexpr line_element<accumulate_t<Dst>> make_line_element() noexcept {
    return {unpack_functions_of<Dst>, &unpack_line_bytes<Dst>};
}

/// Sends the results of some rows to the tensor.
template <class Real>
void store_rows(const depthwise_lines_plan& g, const line_element<Real>& element, const void* bias,
                std::int64_t channel, std::int64_t rows, Real* results, std::int64_t pitch, std::byte* to) noexcept {
    if (bias != nullptr) {
        const Real added = load_bias<Real>(g, bias, channel);
        for (std::int64_t i = 0; i < rows * pitch; ++i) results[i] += added;
    }
    if (!g.accumulates()) return element.unpack_lines(results, pitch, rows, g.extent(2), to, g.out[3]);
    for (std::int64_t i = 0; i < rows; ++i)
        element.output.unpack(results + i * pitch, 0, g.extent(2), 1, to + i * g.out[3] * element.output.bytes, 1, 0,
                              true);
}

/// The tasks of a worker.
template <class Real>
void run_path(const depthwise_lines_plan& g, const conv_call<Real>& call, std::byte* slice,
              const next_task& next) noexcept {
    line_tiles<Real> tiles(g, call.run.tasks.scratch, slice);
    const std::int64_t columns = read_extent(g.axes[2], g.outputs);
    for_each_panel_task(g, call.run, slice, next, [&](const panel_task& t) {
        for (std::int64_t j = 0; t.new_weights && j < t.panels; ++j) {
            std::array<Real, static_cast<std::size_t>(part_terms)> taps;
            pack_weight_panel(g, g.panels, call.weights, t.first_panel + j, 0, 1, taps.data());
            tiles.spread_weights(taps.data(), j);
        }
        for (std::int64_t n = t.box.first_image; n < t.box.last_image; ++n)
            for (std::int64_t j = 0; j < t.panels; ++j)
                for (std::int64_t part = 0; part < g.parts.count(); ++part) {
                    const std::int64_t channel = t.first_panel + j;
                    const packed_box& read = tiles.begin_part(part);
                    const tensor_pointer<Real> from =
                        call.src + (n * g.in[0] + channel * g.in[1] + read.first[1] * g.in[3]);
                    for (std::int64_t d = 0; d < read.extent[0]; ++d)
                        pack_lines(from + (read.first[0] + d) * g.in[2], g.in[3], read.extent[1], columns,
                                   tiles.packed() + d * read.extent[1] * g.pitch, g.pitch);
                    const std::int64_t bytes = call.element.line.output.bytes;
                    std::byte* const to = call.dst + (n * g.out[0] + channel * g.out[1]) * bytes;
                    for (const line_step& step : tiles.steps()) {
                        tiles.compute(step, j);
                        store_rows(g, call.element.line, call.bias, channel, step.rows, tiles.results(),
                                   tiles.results_pitch(), to + step.first * bytes);
                    }
                }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
