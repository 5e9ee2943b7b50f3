// narrow_output: few output channels, with pixels of a line in the lanes.
//
// Loops          block > panel of output channels > class of columns > class of planes > class of rows > image > plane > line >
//                tile > part > K segment
// Lanes          neighbouring pixels of a line, which read neighbours. A class of one column has rows in the lanes, where there
//                are enough: its columns are transposed. Rows of a tile are output channels
// Packed         activations as [image][plane][row][channel][column]
// Taken          where output channels would leave many lanes empty, or in NCX with few terms for each output, which dense transposes: it
//                costs less (conv/cost.hpp)
// Gains          over dense_packed: 0.34 of its time (seven layers, 0.26 to 0.87; Sapphire Rapids, AVX-512, f32, rows forced, alternating)
//                Up to six outputs of transposed 4x4 kernels, stride 2, planes of 8 to 64: 0.37 to 0.97 of its time (mean 0.6); of 3x3
//                kernels with 256 and 512 inputs: 0.3 to 1.0 (Emerald Rapids, AVX-512, f32 and bf16)
//                Layers of few channels drawn at random, in NCX: 0.82 of the time of the rows that were taken before costs were cycles (175
//                of 720 with AVX-512, 0.36 to 1.4), 0.91 with AVX2 (70 of 457; Emerald Rapids, f32)
// Used by        32 layers of the zoo: gradients of stems, last layers of decoders, long lines of up to 128 channels in NCX
// Delete it      when panels of few output channels fill their lanes in another way
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/cost.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/pixel_tile.hpp>
#include <gradkern/detail/conv/pointwise.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

struct narrow_output_plan : panel_plan {
    bool transposes_columns = false;  // of a class of one: its rows lie in the lanes, else it has one lane
    std::int64_t at_transposed = 0;
};

struct narrow_output_path {
    /// Neighbours have to read neighbours.
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        return !p.is_forward() || p.axes[2].stride == 1;
    }

    [[nodiscard]] GRADKERN_COLD static constexpr bool is_profitable(const conv_problem& p) noexcept {
        return p.groups == 1 && pointwise_path::leaves_lanes_empty(p) ? holds_lines(p)
                                                                      : costs_less(p, cost_of_dense(p));
    }

    [[nodiscard]] GRADKERN_COLD static constexpr narrow_output_plan make(const conv_problem& p) noexcept {
        narrow_output_plan g{{{p}}};
        choose_pixel_panels(g, p);
        g.budget = {.pixels = block_pixels,
                    .floats = p.real.in_memory_of(most_packed_floats),
                    .pixel_floats = g.panels.terms,
                    .pads_rows = true};
        g.tasks.blocks = choose_blocks(g, g.budget);
        g.tasks.share_out();
        const box_grid& blocks = g.tasks.blocks;
        const bool rows_adjoin = !p.is_forward() || p.axes[1].stride == 1;
        if (2 * blocks.box(1) >= p.real.lanes && rows_adjoin) {
            g.transposes_columns = true;
            const std::int64_t lines = blocks.images() * reads_at_most(p.axes[0], p.outputs, blocks.box(0)) *
                                       std::min(p.axes[2].kernel, reads_at_most(p.axes[2], p.outputs, 1));
            const std::int64_t pitch = row_pitch(reads_at_most(p.axes[1], p.outputs, blocks.box(1)));
            g.at_transposed =
                g.fixed.reserve(lines * g.panels.terms * pitch + most_tile_columns(p.real.lanes), p.real.bytes);
        }
        lay_out_pixels(g, source_kind::packed);
        return g;
    }

    /// Whether it fits and costs `other` cycles at most. 1x1 kernels use too seldom what is packed. Output channels of one panel gain so much that
    /// strides of data gradients may cut lines short, and lines be packed more often. Strides above the kernel would have phases without
    /// taps, as many as there are columns; so would those that share a divisor with the dilation.
    [[nodiscard]] GRADKERN_COLD static constexpr bool costs_less(const conv_problem& p, double other) noexcept {
        if (!fits(p)) return false;
        for (const shape::axis& a : p.axes)
            if (a.stride != 1 &&
                (p.is_forward() || !is_one_panel(p) || a.stride > a.kernel || own::gcd(a.stride, a.dilation) != 1))
                return false;
        const std::int64_t most_channels = p.real.in_memory_of(most_packed_floats) / (is_one_panel(p) ? 256 : 1024);
        if (p.taps() == 1 || p.in_channels > most_channels || p.out_channels > 1024 || p.axes[2].kernel > 16)
            return false;
        return holds_lines(p) && cost_of_narrow_output(p) <= other;
    }

private:
    [[nodiscard]] static constexpr bool is_one_panel(const conv_problem& p) noexcept {
        return p.out_channels <= most_panel_rows;
    }
    /// Whether the buffer holds two vectors of a line of outputs, or of several panels sixteen of four lines. With less, lanes are empty, and
    /// lines are packed again and again: 256->3 channels of 9x9 windows with dilation took 10 to 20 times as long as dense_packed.
    [[nodiscard]] GRADKERN_COLD static constexpr bool holds_lines(const conv_problem& p) noexcept {
        const std::int64_t most_floats = p.real.in_memory_of(most_packed_floats);
        const std::int64_t columns = std::min(p.extent(2), (is_one_panel(p) ? 2 : 16) * p.real.lanes);
        const std::int64_t line_floats = p.in_channels * row_pitch(reads_at_most(p.axes[2], p.outputs, columns));
        const std::int64_t lines =
            reads_at_most(p.axes[0], p.outputs, 1) * reads_at_most(p.axes[1], p.outputs, is_one_panel(p) ? 1 : 4);
        return lines <= most_floats / std::max<std::int64_t>(line_floats, 1);
    }
};

/// Packs the lines of a box of inputs, the first channel of which `src` points to: [image][plane][row][channel][column].
template <class Real>
inline void pack_lines(const narrow_output_plan& g, const tensor_pointer<Real>& src, const packed_box& read,
                       std::int64_t pitch, Real* to) noexcept {
    const std::int64_t row = g.panels.terms * pitch;
    for (std::int64_t n = 0; n < read.images; ++n)
        for (std::int64_t d = 0; d < read.extent[0]; ++d, to += read.extent[1] * row) {
            const tensor_pointer<Real> plane = src + ((read.first_image + n) * g.in[0] + (read.first[0] + d) * g.in[2] +
                                                      read.first[1] * g.in[3] + read.first[2] * g.in[4]);
            if (g.in[4] == 1 && !g.panels.has_pairs()) {                         // rows of a channel follow one another
                constexpr std::int64_t ahead = target.prefetch.packed_channels;  // no CPU prefetches the next channel
                const std::int64_t count = read.extent[1] * read.extent[2];
                for (std::int64_t k = 0; k < g.in_channels; ++k) {
                    for (std::int64_t i = 0; i < count && k + ahead < g.in_channels; i += plane.per_cache_line())
                        plane.prefetch((k + ahead) * g.in[1] + i);
                    pack_lanes(plane + k * g.in[1], 1, read.extent[2], g.in[3], read.extent[1], to + k * pitch, row);
                }
                continue;
            }
            for (std::int64_t h = 0; h < read.extent[1]; ++h) {
                const tensor_pointer<Real> line = plane + h * g.in[3];
                if (!g.panels.has_pairs()) {
                    pack_lanes(line, g.in[4], read.extent[2], g.in[1], g.in_channels, to + h * row, pitch);
                } else if constexpr (simd::has_dot_bf16 && std::is_same_v<Real, float>) {
                    pack_row_pairs(line, g.in[4], read.extent[2], g.in[1], g.in_channels, to + h * row, pitch);
                }
            }
        }
}

/// The packed columns that a class of one column reads, as lines: [image][plane][tap][channel][row].
template <class Real>
inline void transpose_columns(const narrow_output_plan& g, const Real* packed, const packed_box& read,
                              std::int64_t pitch, const shape::tap_class& column, Real* to,
                              std::int64_t to_pitch) noexcept {
    const std::int64_t terms = g.panels.terms;
    for (std::int64_t plane = 0; plane < read.images * read.extent[0]; ++plane) {
        for (std::int64_t k = 0; k < terms; ++k)  // the taps of a line of the cache together
            for (std::int64_t t = 0; t < column.taps; ++t) {
                const Real* const from =
                    packed + (column.first_read + t * column.read_per_tap - read.first[2] + k * pitch);
                Real* const line = to + (t * terms + k) * to_pitch;
                for (std::int64_t h = 0; h < read.extent[1]; ++h) line[h] = from[h * terms * pitch];
            }
        packed += read.extent[1] * terms * pitch;
        to += column.taps * terms * to_pitch;
    }
}

/// One panel over the packed lines `read` of a box, class by class of columns: whatever the order, a row has left L1 before it
/// is read again. Pixels that read neighbours lie in the lanes. `transposed` has room for the columns that a class of one
/// column reads.
template <class Real>
GRADKERN_NOINLINE void compute_lines(const narrow_output_plan& g, const pixel_panel<Real>& panel, const Real* packed,
                                     std::int64_t pitch, const packed_box& read, const box_grid::item& box,
                                     term_list& terms, Real* transposed) noexcept {
    std::array<shape::tap_class, 3> c;
    shape::tap_class_walk columns(g.axes[2], g.outputs, box.first[2], box.last[2]);
    while (columns.next(c[2])) {
        const bool transposes = c[2].positions == 1 && g.transposes_columns;
        const std::int64_t line = transposes ? row_pitch(read.extent[1]) : pitch;
        const std::int64_t lines = g.panels.terms * line;  // of a row, or of a tap
        const std::int64_t plane = lines * (transposes ? c[2].taps : read.extent[1]);
        if (transposes) {
            transpose_columns(g, packed, read, pitch, c[2], transposed, line);
            c[2].first_read = read.first[2];
            c[2].read_per_tap = c[2].taps > 1 ? 1 : 0;
        }
        const Real* const source = transposes ? transposed : packed;
        const shape::canonical_strides in{read.extent[0] * plane, line, plane, transposes ? 1 : lines,
                                          transposes ? lines : 1};
        std::int64_t origin = read.first_image * in[0];
        for (std::size_t i = 0; i < 3; ++i) origin += read.first[i] * in[2 + i];
        shape::tap_class_walk planes(g.axes[0], g.outputs, box.first[0], box.last[0]);
        while (planes.next(c[0])) {
            shape::tap_class_walk rows(g.axes[1], g.outputs, box.first[1], box.last[1]);
            while (rows.next(c[1])) {
                list_terms(g, g.panels, c, in, in[1], terms);
                terms.swap_operands();
                row_walk walk(box.first_image, box.last_image, c, in, g.out, origin);
                for (std::int64_t left = walk.rows(); left > 0;) {
                    std::int64_t from = 0;
                    pixel_run run{0, walk.in_step() == 1 ? walk.left() : 1};
                    walk.take(1, &from, &run.offset);
                    const std::int64_t done = panel.compute(source + from, 0, run.count, terms, &run, walk.out_step());
                    walk.pass(done - 1);
                    left -= done;
                }
            }
        }
    }
}

/// The tasks of a worker.
template <class Real>
void run_path(const narrow_output_plan& g, const conv_call<Real>& call, std::byte* slice,
              const next_task& next) noexcept {
    term_list terms(slice, g.terms);
    for_each_panel_task(g, call.run, slice, next, [&](const panel_task& t) {
        auto* const packed = array_at<Real>(slice, t.scratch.at_packed);
        auto* const weights = array_at<Real>(slice, t.scratch.at_weights);
        if (t.new_weights) pack_row_weights(g, t, call.weights, weights);
        const packed_box read = reads_of(g.axes, g.outputs, t.box, g.panels.terms);
        const std::int64_t pitch = row_pitch(read.extent[2]);
        if (t.new_source) pack_lines(g, call.src + t.group * g.in_channels * g.in[1], read, pitch, packed);
        if (t.packs_only) return;
        for_each_pixel_panel(g, call, t, weights, g.panels.floats, [&](const pixel_panel<Real>& panel) {
            compute_lines(g, panel, packed, pitch, read, t.box, terms, array_at<Real>(slice, g.at_transposed));
        });
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
