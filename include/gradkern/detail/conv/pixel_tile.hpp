// What pointwise and narrow_output share: tiles with neighbouring pixels in the lanes and output channels as rows. Weights are
// packed as [output channel][block of 64 terms][tap][term]. Sums of whole tiles go straight into an f32 tensor, or, of pairs in
// one part, rounded into one of bf16; others by way of a buffer of a few tiles that follow one another.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Rows of a panel at most.
inline constexpr std::int64_t most_panel_rows = std::max<std::int64_t>(wide_tile_rows, tile_rows);

/// Three rows, the channels of an image, whose lines often are so many vectors of 16: with registers for as many sums.
inline constexpr int image_vectors = narrow_rows == 8 ? 7 : 4;

/// Columns of a tile at most.
[[nodiscard]] constexpr std::int64_t most_tile_columns(std::int64_t lanes) noexcept { return 8 * lanes; }
/// Sums of the tiles of a call that go by way of a buffer, at most: a few tiles.
inline constexpr std::int64_t most_buffered_sums = 2048;
static_assert(most_buffered_sums >= std::max(12, 3 * image_vectors) * simd::lanes &&
              most_buffered_sums >= tile_rows * tile_lanes);

/// Panels and the most of them that a task has. Those of several groups read other activations: one a task.
GRADKERN_COLD constexpr void choose_pixel_panels(panel_plan& g, const conv_problem& p) noexcept {
    g.panels = make_weight_panels(p, lane_inputs::broadcast, broadcast_numbers(p), 1);
    g.panel_channels = p.out_channels <= wide_tile_rows ? wide_tile_rows : tile_rows;
    g.group_panels = shape::ceil_div(p.out_channels, g.panel_channels);
    g.tasks.panels = g.tasks.fused = g.group_panels * p.groups;
    g.may_share = p.scratch == scratch_use::fast;
    if (p.groups == 1) g.tasks.fuse(g.panel_channels * g.panels.floats, g.real);
}

/// The scratch of a worker, beside packed activations.
GRADKERN_COLD constexpr void lay_out_pixels(panel_plan& g, source_kind weights) noexcept {
    g.single_worker_panels = g.tasks.each;
    g.terms = reserve_terms(g.fixed, g, g.panels.blocks());
    g.spare_floats += most_tile_columns(g.real.lanes);
    g.panel_floats = weights == source_kind::packed ? g.panel_channels * g.panels.floats : 0;
}

/// Packs the weights of the task's output channels, one panel of one row each.
template <class Real>
void pack_row_weights(const panel_plan& g, const panel_task& t, const tensor_pointer<Real>& weights,
                      Real* packed) noexcept {
    if (g.taps() == 1 && g.weights.run == g.out_channels && !g.panels.has_pairs()) {  // a matrix
        const tensor_pointer<Real> first =
            weights + (g.weights.first + t.group * g.weights.group + t.first_channel * g.weights.out);
        pack_lanes(first, g.weights.in, g.in_channels, g.weights.out, t.channels, packed, g.panels.floats);
        return;
    }
    for (std::int64_t j = 0; j < t.channels; ++j)
        pack_weight_panel(g, g.panels, weights, t.group, t.first_channel + j, 1, packed + j * g.panels.floats);
}

/// A kernel and the columns it computes.
template <class Real>
struct pixel_tile {
    tile_function_of<Real> run;
    std::int64_t width;
};
/// The kernel for a few rows where `left` columns are left: one vector wide, two, as wide as can be, or as wide as the lines of an
/// image. The narrow ones are those of all tiles.
template <operand A, int Rows, class Real>
[[nodiscard]] inline pixel_tile<Real> wide_tile_for(std::int64_t left) noexcept {
    constexpr int narrow = kernel_rows(Rows, row_unit<A>);
    constexpr int most = wide_tile_vectors(Rows);
    const std::int64_t vectors = shape::ceil_div(left, simd::lanes_of<Real>);
    if (vectors <= 1) return {&register_tile<A, narrow, 1, Real>, simd::lanes_of<Real>};
    if (vectors == 2) return {&register_tile<A, narrow, 2, Real>, 2 * simd::lanes_of<Real>};
    if (Rows == 3 && vectors >= image_vectors && vectors % most != 0)
        return {&register_tile < A, Rows, Rows == 3 ? image_vectors : most, Real >,
                image_vectors * simd::lanes_of<Real>};
    return {&register_tile<A, Rows, most, Real>, most * simd::lanes_of<Real>};
}

/// The kernel for some rows where `left` columns are left. `few`: all output channels are rows of one tile, which may
/// then be wide; else tiles of all panels are equally wide.
template <operand A, class Real>
[[nodiscard]] inline pixel_tile<Real> pixel_tile_for(std::size_t rows, std::int64_t left, bool few) noexcept {
    static_assert(wide_tile_rows == 4);
    if (!few) {
        const std::int64_t width = kernel_vectors(left, tile_vectors, simd::lanes_of<Real>) * simd::lanes_of<Real>;
        return {tiles_for<A, row_unit<A>, Real>(width)[rows - 1], width};
    }
    switch (rows) {
        case 1: return wide_tile_for<A, 1, Real>(left);
        case 2: return wide_tile_for<A, 2, Real>(left);
        case 3: return wide_tile_for<A, 3, Real>(left);
        default: return wide_tile_for<A, 4, Real>(left);
    }
}

/// What depends on element types: how outputs are written, and the kernels of pairs.
template <class Real>
struct pixel_element {
    unpack_functions<Real> output;
    pixel_tile<Real> (*pairs)(std::size_t rows, std::int64_t left, bool few) noexcept = nullptr;
};
template <class Src, class Weights, class Dst>
[[nodiscard]] constexpr pixel_element<accumulate_t<Dst>> make_pixel_element() noexcept {
    pixel_element<accumulate_t<Dst>> e{.output = unpack_functions_of<Dst>};
    if constexpr (have_one_type<Src, Weights, Dst> && has_pairs<Dst>) e.pairs = &pixel_tile_for<operand::pair, float>;
    return e;
}

/// The output channels of a panel: the rows of its tiles.
template <class Real>
struct pixel_panel {
    const panel_plan& g;
    const pixel_element<Real>& element;
    std::int64_t first = 0;  // of all groups
    std::size_t rows = 0;
    const Real* weights = nullptr;  // of the first, packed or in place
    std::int64_t weights_step = 0;  // from channel to channel
    const void* bias = nullptr;     // of channel 0
    std::byte* dst = nullptr;       // of the first

    /// Computes the next columns, `left` of them or as many as the tiles of a call have, and returns their number. Several
    /// tiles belong to the first run. Whole tiles are read at `source`, the next ones `next` floats behind (0: their columns
    /// are neighbours). The runs tell where the columns belong, which lie `step` apart there; they must hold all of them.
    /// Meanwhile tiles prefetch what `later` says.
    std::int64_t compute(const Real* source, std::int64_t next, std::int64_t left, const term_list& terms,
                         const pixel_run* runs, std::int64_t step, later_lines* later = nullptr) const noexcept {
        const bool few = g.out_channels <= wide_tile_rows;
        pixel_tile<Real> tile = g.panels.has_pairs() ? element.pairs(rows, left, few)
                                                     : pixel_tile_for<operand::scalar, Real>(rows, left, few);
        if (later != nullptr && rows == tile_rows && tile.width == tile_lanes_of<Real>)
            tile.run = &register_tile<operand::scalar, tile_rows, tile_vectors, Real, prefetch::ahead>;
        // Whether tiles write straight into the tensor.
        const bool direct = (element.output.is_sum || g.rounds_pairs()) && step == 1 && !g.accumulates() &&
                            bias == nullptr && tile.width <= runs->count;
        const std::int64_t most = direct ? left : most_buffered_sums / static_cast<std::int64_t>(rows);
        const std::int64_t tiles = std::max<std::int64_t>(std::min({left, runs->count, most}) / tile.width, 1);
        alignas(64) std::array<Real, static_cast<std::size_t>(most_buffered_sums)> sums;
        std::array<const Real*, static_cast<std::size_t>(most_panel_rows)> w;
        std::array<Real*, static_cast<std::size_t>(most_panel_rows)> c;
        for (std::size_t j = 0; j < rows; ++j) {
            const auto row = static_cast<std::int64_t>(j);
            w[j] = weights + row * weights_step;
            c[j] = sums.data() + row * tiles * tile.width;
            if (direct) c[j] = reinterpret_cast<Real*>(at(runs->offset + row * g.out[1]));
        }
        tile_call_of<Real> call{.rows = static_cast<std::ptrdiff_t>(rows),
                                .a = w.data(),
                                .a_step = terms.a_step,
                                .b = source,
                                .b_step = terms.b_step,
                                .c = c.data(),
                                .rounds = direct && g.panels.has_pairs(),
                                .later = later,
                                .tiles = tiles,
                                .b_next = next == 0 ? tile.width : next,
                                .c_next = tile.width};
        terms.run(tile.run, call, false);
        const std::int64_t columns = std::min(left, tiles * tile.width);
        if (!direct) store(sums.data(), tiles * tile.width, columns, runs, step);
        return columns;
    }

private:
    [[nodiscard]] std::byte* at(std::int64_t offset) const noexcept { return dst + offset * element.output.bytes; }
    /// Sends `columns` columns of all rows, which lie `pitch` apart, to the tensor.
    void store(Real* sums, std::int64_t pitch, std::int64_t columns, const pixel_run* run,
               std::int64_t step) const noexcept {
        const auto count = static_cast<std::int64_t>(rows);
        for (std::int64_t row = 0; bias != nullptr && row < count; ++row) {
            const Real b = load_bias<Real>(g, bias, first + row);
            for (std::int64_t i = 0; i < columns; ++i) sums[row * pitch + i] += b;
        }
        for (std::int64_t i = 0; i < columns; i += run->count, ++run)
            element.output.unpack(sums + i, pitch, std::min(run->count, columns - i), count, at(run->offset), step,
                                  g.out[1], g.accumulates());
    }
};

/// Calls f(panel) for the panels of a task.
template <class Real, class F>
inline void for_each_pixel_panel(const panel_plan& g, const conv_call<Real>& call, const panel_task& task,
                                 const Real* weights, std::int64_t weights_step, const F& f) {
    for (std::int64_t row = 0; row < task.channels; row += g.panel_channels) {
        const std::int64_t first = task.group * g.out_channels + task.first_channel + row;
        f(pixel_panel<Real>{.g = g,
                            .element = call.element.pixel,
                            .first = first,
                            .rows = static_cast<std::size_t>(std::min(g.panel_channels, task.channels - row)),
                            .weights = weights + row * weights_step,
                            .weights_step = weights_step,
                            .bias = call.bias,
                            .dst = call.dst + first * g.out[1] * call.element.pixel.output.bytes});
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
