// The channelwise path of the reduction engine (reduce_plan.hpp): tasks of one panel of small-side channels over all
// groups. Per chunk: line > tap-set class of columns > tile of rows (tap, large-side channel).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/plan/reduce_plan.hpp>
#include <gradkern/detail/plan/summation.hpp>
#include <gradkern/detail/plan/tile_rows.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// One task of the channelwise path.
template <class T>
void reduce_channelwise(const reduce_plan& r, const T* large, const T* small, std::int64_t task,
                        std::byte* slice) noexcept {
    auto* packed = reinterpret_cast<float*>(slice + r.at_small);
    auto* staging = reinterpret_cast<float*>(slice + r.at_large);
    auto* chunk_sum = reinterpret_cast<float*>(slice + r.at_chunk);
    auto* sum = reinterpret_cast<float*>(slice + r.at_sum);
    auto* total = reinterpret_cast<float*>(slice + r.at_total);
    const std::int64_t first_lane = task * r.panel_width;
    const std::int64_t used = std::min(r.panel_width, r.groups * r.small_channels - first_lane);
    const bool stage = r.staged || used != r.panel_width;  // whole vectors would leave the tensor
    const tile_function* tiles = tiles_for<operand::vector>(used);

    for (std::int64_t i = 0; i < r.chunks.count; ++i) {
        const chunk_grid::chunk c = r.chunks[i];
        if (stage) pack_chunk(r.axes, small + first_lane * r.small[1], r.small, c, used, r.panel_width, packed);
        line_position at(r.axes, c.first_line);
        staging_box box;
        std::int64_t staged_until = c.first_line;  // lines before this one are staged
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(r.axes)) {
            const float* a_base = nullptr;
            const float* b_base = nullptr;
            shape::canonical_strides in = r.large;
            std::int64_t b_step = r.small[4];
            std::int64_t origin = 0;
            if (stage) {
                if (line == staged_until) {  // what the lines up to the end of this plane read
                    const std::int64_t run = std::min(c.last_line - line, r.axes[1].small - at.h);
                    box_grid::item out;
                    out.first_image = at.n;
                    out.last_image = at.n + 1;
                    out.first = {at.d, at.h, c.first_column};
                    out.last = {at.d + 1, at.h + run, c.last_column};
                    box = reads_of(r.axes, shape::side::small, out, r.large_channels * r.panel_width);
                    stage_across_groups(large, r.large, box, first_lane, used, r.small_channels, r.large_channels,
                                        r.panel_width, staging);
                    staged_until = line + run;
                }
                in = box.strides();
                origin = box.origin();
                a_base = staging;
                b_base = packed + (line - c.first_line) * c.columns() * r.panel_width;
                b_step = r.panel_width;
            } else if constexpr (std::is_same_v<T, float>) {
                a_base = large + first_lane;
                b_base = small + first_lane + at.offset(r.small, c.first_column);
            }
            const shape::tap_sequence planes = r.axes[0].inside_taps(at.d);
            const shape::tap_sequence rows = r.axes[1].inside_taps(at.h);
            shape::tap_class_walk walk(r.axes[2], shape::side::small, c.first_column, c.last_column);
            for (shape::tap_class columns; walk.next(columns);) {
                const std::int64_t a_line = at.n * in[0] + r.axes[0].position(at.d, 0) * in[2] +
                                            r.axes[1].position(at.h, 0) * in[3] + columns.first_read * in[4] - origin;
                const stretch positions{0, (columns.first_position - c.first_column) * b_step, columns.positions};
                // rows of the tile: (plane tap, row tap, column tap, k), k innermost
                std::int64_t d = planes.first;
                std::int64_t h = rows.first;
                std::int64_t w = 0;
                std::int64_t k = 0;
                split_rows(planes.count * rows.count * columns.taps * r.large_channels, [&](std::ptrdiff_t,
                                                                                            std::ptrdiff_t count) {
                    std::array<const float*, tile_rows> a;
                    std::array<float*, tile_rows> to;
                    for (std::ptrdiff_t row = 0; row < count; ++row) {
                        a[static_cast<std::size_t>(row)] =
                            a_base + (a_line + d * r.axes[0].dilation * in[2] + h * r.axes[1].dilation * in[3] +
                                      w * columns.read_per_tap * in[4] + k * r.panel_width);
                        const std::int64_t tap = (d * r.axes[1].kernel + h) * r.axes[2].kernel + columns.first_tap + w;
                        to[static_cast<std::size_t>(row)] = chunk_sum + (tap * r.large_channels + k) * r.panel_width;
                        if (++k < r.large_channels) continue;
                        k = 0;
                        if (++w < columns.taps) continue;
                        w = 0;
                        if (++h < rows.first + rows.count) continue;
                        h = rows.first;
                        ++d;
                    }
                    tiles[count - 1]({.list = &positions,
                                      .count = 1,
                                      .a = a.data(),
                                      .a_step = r.axes[2].stride * in[4],
                                      .b = b_base,
                                      .b_step = b_step,
                                      .c = to.data(),
                                      .mode = tile_mode::resume});
                });
            }
        }
        fold(chunk_sum, sum, r.sum_floats);
        if (r.two_levels() && ((i + 1) % chunks_per_sum == 0 || i + 1 == r.chunks.count))
            fold(sum, total, r.sum_floats);
    }
}

/// Sends the sums [tap][l][lane] of a channelwise task to the tensor.
template <class G>
void store_channelwise(const reduce_plan& r, const float* sum, std::int64_t task, G* diff_weights) noexcept {
    const std::int64_t first_lane = task * r.panel_width;
    const std::int64_t used = std::min(r.panel_width, r.groups * r.small_channels - first_lane);
    for (std::int64_t d = 0; d < r.axes[0].kernel; ++d)
        for (std::int64_t h = 0; h < r.axes[1].kernel; ++h)
            for (std::int64_t x = 0; x < r.axes[2].kernel; ++x, sum += r.large_channels * r.panel_width)
                unpack_lanes(
                    sum, r.panel_width, used, r.large_channels,
                    diff_weights + first_lane * r.weights[0] + d * r.weights[2] + h * r.weights[3] + x * r.weights[4],
                    r.weights[0], r.weights[1], r.accumulate);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
