// pointwise: 1x1 kernels of stride 1 with pixels in the lanes.
//
// Loops          block > panel of output channels > segment of pixels > tile > part > K segment
// Lanes          neighbouring pixels; those of all lines and images are one line. Rows of a tile are output channels
// Packed         activations as [segment][channel][pixel], unless they are read in place; weights as a matrix, unless they lie so
// Taken          where output channels would leave many lanes empty, and where channels lie apart (NCX): nothing is transposed
// Gains          over dense_packed: 0.77 of its time (seven layers, 0.48 to 1.13; Sapphire Rapids, AVX-512, f32, rows forced, alternating)
//                AVX2, 512 to 1024 channels, Zen 3: 0.81 to 1.05 (15 layers)
// Used by        49 layers of the zoo in NCX: 1x1 kernels of ResNet, SqueezeNet, EfficientNet
// Prefetches     AVX-512, up to 128 output channels: tiles prefetch what is packed next, 1.03 to 1.18 (20 layers, Emerald Rapids)
// Delete it      when dense_packed transposes NCX activations without loss
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/pixel_tile.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Activations in place are all but the pixels of an image that fill no tile.
struct pointwise_plan : panel_plan {
    source_kind weights_source = source_kind::packed;
    std::int64_t segment = 0;  // pixels: columns of a tile at most. Blocks count segments

    /// Pixels that blocks take for one line: all of them, or read in place those of an image.
    [[nodiscard]] constexpr std::int64_t line_pixels() const noexcept { return in_place() ? extent(2) : pixels(); }
    [[nodiscard]] constexpr std::int64_t packed_floats(std::int64_t segments) const noexcept {
        return row_pitch(segments * segment) * panels.terms;
    }
    /// Where `count` packed pixels lie. A tile reads a segment from one end to the other; the tiles of a single panel may be wider.
    [[nodiscard]] constexpr pixel_rows packed_rows(std::int64_t count) const noexcept {
        if (out_channels <= wide_tile_rows) return one_segment(count, row_pitch(count));
        return {segment, segment, segment * panels.terms};
    }
};

struct pointwise_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept { return p.is_pointwise(); }

    [[nodiscard]] GRADKERN_COLD static constexpr bool is_profitable(const conv_problem& p) noexcept {
        if (p.groups > 1 || p.out_channels == 0) return false;
        if (leaves_lanes_empty(p)) return true;
        if (p.in[1] == 1 || p.out[1] == 1) return false;  // nothing to transpose
        const std::int64_t block = p.real.in_memory_of(most_packed_floats) / std::max<std::int64_t>(p.in_channels, 1);
        if (p.pixels() < p.real.lanes || block < segment_of(p)) return false;
        if (reads_weights_in_place(p)) return true;
        // Packing weights for each block takes longer than transposing few activations, and than blocks of few pixels.
        const bool few_weights = std::min(p.in_channels, p.out_channels) < p.real.lanes;
        return block >= p.real.in_memory_of(target.least_packed_pixels) &&
               (few_weights || p.pixels() >= 64 * p.real.lanes);
    }

    [[nodiscard]] GRADKERN_COLD static constexpr pointwise_plan make(const conv_problem& p) noexcept {
        pointwise_plan g{{{p}}};
        choose_pixel_panels(g, p);
        g.segment = segment_of(p);
        if (p.is_wide && reads_in_place(p)) g.source = source_kind::in_place;
        if (reads_weights_in_place(p)) g.weights_source = source_kind::in_place;
        std::int64_t segments = std::max<std::int64_t>(block_pixels / g.segment, 1);
        while (segments > 1 && g.packed_floats(segments) > g.real.in_memory_of(most_packed_floats)) --segments;
        if (g.pixels() > 0) {  // blocks of one line, or of one image
            const std::int64_t all = shape::ceil_div(g.line_pixels(), g.segment);
            g.tasks.blocks = box_grid(g.in_place() ? p.batch : 1, {1, 1, all}, {1, 1, shape::even_part(all, segments)});
        }
        g.position_pixels = g.segment;
        g.least_block = 1;
        g.tasks.share_out();
        if (g.in_place()) {
            g.spare_floats = g.packed_floats(1);
        } else {
            g.budget.pixel_floats = g.panels.terms;
        }
        lay_out_pixels(g, g.weights_source);
        return g;
    }

    /// Whether lanes of output channels would be mostly empty, whatever the kernel, and pixels are many.
    [[nodiscard]] static constexpr bool leaves_lanes_empty(const conv_problem& p) noexcept {
        return 2 * p.out_channels <= p.real.lanes && p.out_channels <= wide_tile_rows &&
               p.in_channels * p.taps() >= 32 && p.extent(2) >= 4 * p.real.lanes;
    }

private:
    [[nodiscard]] static constexpr std::int64_t segment_of(const conv_problem& p) noexcept {
        if (p.out_channels > wide_tile_rows) return p.real.tile_lanes();
        return wide_tile_vectors(static_cast<int>(p.out_channels)) * p.real.lanes;
    }
    [[nodiscard]] static constexpr bool reads_weights_in_place(const conv_problem& p) noexcept {
        return p.is_wide && p.weights.in == 1 && p.weights.run == p.out_channels;
    }
    /// Whether activations are faster in place, each channel on a page of its own: many of them for few outputs, so that to
    /// copy them takes a good part of the time, and where a CPU waits less for what lies so far apart. Images are one line of
    /// whole tiles, but for a small rest.
    [[nodiscard]] static constexpr bool reads_in_place(const conv_problem& p) noexcept {
        return target.quirk.fast_far_reads && p.out_channels < p.in_channels && p.out_channels <= 128 && p.in[4] == 1 &&
               p.extent(0) == 1 && p.extent(1) == 1 && p.extent(2) >= 8 * segment_of(p);
    }
};

/// What the tiles of a task prefetch of the next block, if anything: of the channels that fall to the task as many pixels as lie together.
template <class Real>
[[nodiscard]] GRADKERN_NOINLINE later_lines next_block(const pointwise_plan& g, const panel_task& t,
                                                       const tensor_pointer<Real>& src) noexcept {
    const std::int64_t segments = t.box.last[2] - t.box.first[2];
    const std::int64_t first = t.box.last[2] * g.segment;
    const std::int64_t whole = g.out_channels / tile_rows;  // panels whose tiles prefetch
    if (first >= g.pixels() || whole == 0) return {};
    const pixel_run run = pixel_walk(g.batch, g.extents(), g.in, first).next(segments * g.segment);
    const std::int64_t channel = t.first_channel / tile_rows * g.in_channels / whole;
    const std::int64_t bytes = src.type->bytes;
    return {(src + (run.offset + channel * g.in[1])).first, run.count * bytes, g.in[1] * bytes, whole * segments};
}
/// Whether they do: where each worker packs what is beyond L2, to use it a few times.
[[nodiscard]] inline bool prefetches_next_block(const pointwise_plan& g, const panel_tasks& tasks,
                                                std::int64_t bytes) noexcept {
    return g.out_channels <= target.prefetch.next_pixels && g.panel_channels == tile_rows && g.in[4] == 1 &&
           !g.in_place() && !tasks.shares_pixels && !g.panels.has_pairs() &&
           g.pixels() * g.in_channels * bytes > target.cache.tensor_in_l2;
}

/// One panel over the pixels of a block.
template <class Real>
GRADKERN_NOINLINE void compute_pixels(const pixel_panel<Real>& panel, std::int64_t segment, const Real* source,
                                      const pixel_rows& rows, std::int64_t first, std::int64_t count,
                                      const term_list& terms, later_lines* later) noexcept {
    const panel_plan& g = panel.g;
    pixel_walk outputs(g.batch, g.extents(), g.out, first);
    std::array<pixel_run, most_tile_columns(simd::lanes_of<Real>)> runs;
    pixel_run rest;  // of the last run
    for (std::int64_t at = 0; at < count;) {
        std::int64_t columns = 0;
        for (pixel_run* run = runs.data(); columns < std::min(segment, count - at); ++run) {
            if (rest.count == 0) rest = outputs.next(count - at - columns);
            // several tiles, or a part of one
            const std::int64_t tiles = columns == 0 ? rest.count / segment : 0;
            *run = {rest.offset, tiles > 0 ? tiles * segment : std::min(rest.count, segment - columns)};
            rest.offset += run->count * outputs.step();
            rest.count -= run->count;
            columns += run->count;
        }
        for (const std::int64_t end = at + columns; at < end;) {
            const std::int64_t done =
                panel.compute(source + rows.offset(at), rows.step, end - at, terms, runs.data(), outputs.step(), later);
            at += done;
            runs[0].offset += done * outputs.step();
            runs[0].count -= done;
        }
    }
}

/// The tasks of a worker.
template <class Real>
void run_path(const pointwise_plan& g, const conv_call<Real>& call, std::byte* slice, const next_task& next) noexcept {
    term_list terms(slice, g.terms);
    const bool prefetches = prefetches_next_block(g, call.run.tasks, call.src.type->bytes);
    for_each_panel_task(g, call.run, slice, next, [&](const panel_task& t) {
        auto* const packed = array_at<Real>(slice, t.scratch.at_packed);
        auto* const packed_weights = array_at<Real>(slice, t.scratch.at_weights);
        const Real* weights = packed_weights;
        std::int64_t weights_step = g.panels.floats;
        if (g.weights_source == source_kind::packed) {
            if (t.new_weights) pack_row_weights(g, t, call.weights, packed_weights);
        } else {
            weights = (call.weights + (g.weights.first + t.group * g.weights.group + t.first_channel * g.weights.out))
                          .in_place();
            weights_step = g.weights.out;
        }
        if (t.packs_only && !t.new_source) return;

        const tensor_pointer<Real> from = call.src + t.group * g.in_channels * g.in[1];
        const std::int64_t in_line = t.box.first[2] * g.segment;
        const std::int64_t first = t.box.first_image * g.line_pixels() + in_line;
        const std::int64_t count = std::min(t.box.last[2] * g.segment, g.line_pixels()) - in_line;
        const auto compute = [&](const Real* source, const pixel_rows& rows, std::int64_t begin, std::int64_t pixels) {
            std::array<shape::tap_class, 3> c;
            for (shape::tap_class& one : c) one.taps = 1;
            list_terms(g, g.panels, c, {}, rows.pitch, terms);
            terms.swap_operands();
            later_lines later;
            if (prefetches) later = next_block(g, t, from);
            for_each_pixel_panel(g, call, t, weights, weights_step, [&](const pixel_panel<Real>& panel) {
                compute_pixels(panel, g.segment, source, rows, begin, pixels, terms, later.step > 0 ? &later : nullptr);
            });
        };
        // Pixels are two parts: in place, then packed.
        std::int64_t in_place = 0;
        if constexpr (target.quirk.fast_far_reads) {
            if (from.type->is_wide && g.in_place()) in_place = count / g.segment * g.segment;
            if (in_place > 0)
                compute((from + (t.box.first_image * g.in[0] + in_line)).in_place(), one_segment(in_place, g.in[1]),
                        first, in_place);
        }
        if (in_place == count) return;
        const pixel_rows rows = g.packed_rows(count - in_place);
        if (t.new_source)
            pack_pixels(from, pixel_walk(g.batch, g.extents(), g.in, first + in_place), count - in_place, g.in[1],
                        g.in_channels, g.panels.has_pairs(), packed, rows);
        if (t.packs_only) return;
        compute(packed, rows, first + in_place, count - in_place);
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
