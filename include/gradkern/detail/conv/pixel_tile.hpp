// What pointwise and narrow_output share: tiles with neighbouring pixels in the lanes and output channels as rows. Weights are
// packed as [output channel][block of 64 terms][tap][term]. Sums of whole tiles go straight into an f32 tensor, or, of pairs in
// one part, rounded into one of bf16; others by way of a buffer of a few tiles that follow one another.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/pixels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Up to so many output channels share one wide tile.
inline constexpr std::int64_t wide_tile_rows = 4;
/// Rows of a panel at most.
inline constexpr std::int64_t most_panel_rows = std::max<std::int64_t>(wide_tile_rows, tile_rows);

/// The widest tile for a few rows, in vectors: a dozen accumulators, or eight, as many as a CPU has multiply-adds under way.
[[nodiscard]] constexpr int wide_tile_vectors(int rows) noexcept { return rows <= 2 ? 8 / rows : 12 / rows; }
/// Three rows, the channels of an image, whose lines often are so many vectors of 16: with registers for as many sums.
inline constexpr int image_vectors = narrow_rows == 8 ? 7 : 4;

/// Columns of a tile at most.
inline constexpr std::int64_t most_tile_columns = 8 * static_cast<std::int64_t>(simd::lanes);
/// Sums of the tiles of a call that go by way of a buffer, at most: a few tiles.
inline constexpr std::int64_t most_buffered_sums = 2048;
static_assert(most_buffered_sums >= std::max(12, 3 * image_vectors) * simd::lanes &&
              most_buffered_sums >= tile_rows * tile_lanes);

/// What the plans have in common.
struct pixel_plan : conv_equation {
    weight_panels panels{};         // of one lane: an output channel each
    std::int64_t panel_rows = 1;    // output channels of a panel: the rows of its tiles
    std::int64_t group_panels = 0;  // of one group
    panel_tasks tasks{};
    std::int64_t at_weights = 0;  // byte offsets in a slice
    std::int64_t at_packed = 0;
    term_list_layout terms{};
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr plan_summary summary() const noexcept {
        return {.has_pairs = panels.has_pairs(),
                .panels = group_panels,
                .panel_channels = panel_rows,
                .blocks = tasks.blocks.count(),
                .tasks = task_count(false),
                .slice_bytes = slice_bytes};
    }
    [[nodiscard]] constexpr std::int64_t task_count(bool) const noexcept { return tasks.count(); }
    /// Whether tiles of pairs round their sums themselves: these are one part, and nothing is added.
    [[nodiscard]] constexpr bool rounds_pairs() const noexcept {
        return panels.has_pairs() && panels.terms * taps() <= part_terms && !accumulates();
    }
};

/// Panels and the most of them that a task has. Those of several groups read other activations: one a task.
constexpr void choose_pixel_panels(pixel_plan& g, const conv_problem& p) noexcept {
    const bool pairs = p.bf16_pairs && p.in_channels > 1;
    g.panels = make_weight_panels(p, lane_inputs::broadcast, pairs ? tile_numbers::bf16_pairs : tile_numbers::f32, 1);
    g.panel_rows = p.out_channels <= wide_tile_rows ? wide_tile_rows : tile_rows;
    g.group_panels = shape::ceil_div(p.out_channels, g.panel_rows);
    g.tasks.panels = g.tasks.fused = g.group_panels * p.groups;
    if (p.groups == 1)
        g.tasks.each = std::clamp<std::int64_t>(task_weight_floats / (g.panel_rows * g.panels.floats), 1,
                                                std::max<std::int64_t>(g.tasks.fused, 1));
}

/// The output channels of a task.
struct pixel_task {
    std::int64_t group;
    std::int64_t first_row;  // of the group
    std::int64_t rows;
    std::int64_t first_channel;  // of all

    GRADKERN_NOINLINE pixel_task(const pixel_plan& g, std::int64_t task) noexcept {
        const auto [first, last] = g.tasks.panels_of(task, g.tasks.each);
        group = first / g.group_panels;
        first_row = first % g.group_panels * g.panel_rows;
        rows = std::min((last - first) * g.panel_rows, g.out_channels - first_row);
        first_channel = group * g.out_channels + first_row;
    }
};

/// Packs the weights of the task's output channels, one panel of one row each.
template <class T>
void pack_row_weights(const pixel_plan& g, const pixel_task& t, const T* weights, float* packed) noexcept {
    for (std::int64_t j = 0; j < t.rows; ++j)
        pack_weight_panel(g, g.panels, weights, t.group, t.first_row + j, 1, packed + j * g.panels.floats);
}

/// Kernels for a few rows: one vector wide, two, as wide as can be, and of three rows as wide as the lines of an image. The
/// narrow ones are those of all tiles.
template <operand A, int Rows>
inline constexpr std::array<tile_function, 4> wide_tiles{
    {&register_tile<A, kernel_rows(Rows, row_unit<A>), 1>, &register_tile<A, kernel_rows(Rows, row_unit<A>), 2>,
     &register_tile<A, Rows, wide_tile_vectors(Rows)>,
     &register_tile<A, Rows, Rows == 3 ? image_vectors : wide_tile_vectors(Rows)>}};

/// A kernel and the columns it computes.
struct pixel_tile {
    tile_function run;
    std::int64_t width;
};

/// The kernel for some rows where `left` columns are left. `few`: all output channels are rows of one tile, which may
/// then be wide; else tiles of all panels are equally wide.
template <operand A>
[[nodiscard]] inline pixel_tile pixel_tile_for(std::size_t rows, std::int64_t left, bool few) noexcept {
    constexpr auto lanes = static_cast<std::int64_t>(simd::lanes);
    static_assert(wide_tile_rows == 4);
    if (!few) {
        const std::int64_t width = kernel_vectors(left) * lanes;
        return {tiles_for<A>(width)[rows - 1], width};
    }
    const auto& tiles = rows == 1   ? wide_tiles<A, 1>
                        : rows == 2 ? wide_tiles<A, 2>
                        : rows == 3 ? wide_tiles<A, 3>
                                    : wide_tiles<A, 4>;
    if (left <= lanes) return {tiles[0], lanes};
    if (left <= 2 * lanes) return {tiles[1], 2 * lanes};
    const std::int64_t vectors = (left + lanes - 1) / lanes;
    if (rows == 3 && vectors >= image_vectors && vectors % wide_tile_vectors(3) != 0)
        return {tiles[3], image_vectors * lanes};
    return {tiles[2], wide_tile_vectors(static_cast<int>(rows)) * lanes};
}

/// The output channels of a panel: the rows of its tiles.
template <class T>
struct pixel_panel {
    const pixel_plan& g;
    std::int64_t first = 0;  // of all groups
    std::size_t rows = 0;
    const float* weights = nullptr;  // of the first, packed or in place
    std::int64_t weights_step = 0;   // from channel to channel
    const void* bias = nullptr;      // of channel 0
    T* dst = nullptr;                // of the first

    /// Whether tiles write straight into a tensor where columns lie `step` apart.
    [[nodiscard]] bool is_direct(std::int64_t step) const noexcept {
        return (std::is_same_v<T, float> || g.rounds_pairs()) && step == 1 && !g.accumulates() && bias == nullptr;
    }

    /// Computes the next columns, `left` of them or as many as the tiles of a call have, and returns their number. Several
    /// tiles belong to the first run. Whole tiles are read at `source`. The runs tell where the columns belong, which lie
    /// `step` apart there; they must hold all of them.
    std::int64_t compute(const float* source, std::int64_t left, const term_list& terms, const pixel_run* runs,
                         std::int64_t step) const noexcept {
        const bool few = g.out_channels <= wide_tile_rows;
        pixel_tile tile = pixel_tile_for<operand::scalar>(rows, left, few);
        if constexpr (has_pairs<T>) {
            if (g.panels.has_pairs()) tile = pixel_tile_for<operand::pair>(rows, left, few);
        }
        const bool direct = is_direct(step) && tile.width <= runs->count;
        const std::int64_t most = direct ? left : most_buffered_sums / static_cast<std::int64_t>(rows);
        const std::int64_t tiles = std::max<std::int64_t>(std::min({left, runs->count, most}) / tile.width, 1);
        alignas(64) std::array<float, static_cast<std::size_t>(most_buffered_sums)> sums;
        std::array<const float*, static_cast<std::size_t>(most_panel_rows)> w;
        std::array<float*, static_cast<std::size_t>(most_panel_rows)> c;
        for (std::size_t j = 0; j < rows; ++j) {
            const auto row = static_cast<std::int64_t>(j);
            w[j] = weights + row * weights_step;
            c[j] = sums.data() + row * tiles * tile.width;
            if (direct) c[j] = reinterpret_cast<float*>(dst + (runs->offset + row * g.out[1]));
        }
        tile_call call{.list = terms.segments,
                       .rows = static_cast<std::ptrdiff_t>(rows),
                       .a = w.data(),
                       .a_step = terms.a_step,
                       .b = source,
                       .b_step = terms.b_step,
                       .c = c.data(),
                       .rounds = direct && g.panels.has_pairs(),
                       .tiles = tiles,
                       .b_next = tile.width,
                       .c_next = tile.width};
        for (std::ptrdiff_t part = 0; part < terms.part_count; ++part) {
            call.count = terms.parts[part];
            call.mode = part == 0 ? tile_mode::set : tile_mode::add;
            tile.run(call);
            call.list += call.count;
        }
        const std::int64_t columns = std::min(left, tiles * tile.width);
        for (std::size_t j = 0; j < rows && !direct; ++j)
            store(static_cast<std::int64_t>(j), c[j], columns, runs, step);
        return columns;
    }

private:
    void store(std::int64_t row, float* sums, std::int64_t columns, const pixel_run* run,
               std::int64_t step) const noexcept {
        if (bias != nullptr) {
            const float b = load_as_float(bias, g.bias_type, (first + row) * g.bias_stride);
            for (std::int64_t i = 0; i < columns; ++i) sums[i] += b;
        }
        for (std::int64_t i = 0; i < columns; i += run->count, ++run) {
            const std::int64_t n = std::min(run->count, columns - i);
            unpack_lanes(sums + i, n, n, 1, dst + (run->offset + row * g.out[1]), step, 0, g.accumulates());
        }
    }
};

/// Calls f(panel) for the panels of a task.
template <class T, class F>
inline void for_each_pixel_panel(const pixel_plan& g, const conv_call<T>& call, const pixel_task& task,
                                 const float* weights, std::int64_t weights_step, const F& f) {
    for (std::int64_t row = 0; row < task.rows; row += g.panel_rows) {
        const std::int64_t first = task.first_channel + row;
        f(pixel_panel<T>{.g = g,
                         .first = first,
                         .rows = static_cast<std::size_t>(std::min(g.panel_rows, task.rows - row)),
                         .weights = weights + row * weights_step,
                         .weights_step = weights_step,
                         .bias = call.bias,
                         .dst = call.dst + first * g.out[1]});
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
