// Bias gradients: db[c] = sum over n and all positions of diff_dst, in the chunks of order/summation.hpp.
//
// Loops, outermost first:
//
//     task      a panel of channels: the lanes
//     chunk     at most 256 positions, summed from +0 in row-major order; 32 chunks are added up, and so are these sums
//     position  one vector load and add per vector of lanes
//
// Channels that lie side by side are read in place, others are packed piece by piece with the channels innermost. A
// piece only feeds the chunk's running sums, so its length is no part of the order of summation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/bias.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Positions packed at a time: small enough for one-call workspaces on the stack, long enough for whole cache lines.
inline constexpr std::int64_t piece_positions = simd::lanes > 16 ? 16 : 64;

/// Everything a run needs but pointers. Made by make_bias_plan from a checked problem.
struct bias_plan {
    std::int64_t channels = 0;
    std::int64_t planes = 1;  // D
    std::int64_t rows = 1;    // H
    shape::canonical_strides in{};
    std::int64_t out_step = 1;
    bool accumulate = false;

    chunk_grid chunks{};
    std::int64_t panels = 0;
    std::int64_t at_wide = 0;  // byte offset in a slice; the packed piece is at 0
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return panels; }
    [[nodiscard]] constexpr bool packed() const noexcept { return in[1] != 1; }
    /// Offset of the first element of a line (n, d, h).
    [[nodiscard]] constexpr std::int64_t line_offset(std::int64_t line) const noexcept {
        return line / rows / planes * in[0] + line / rows % planes * in[2] + line % rows * in[3];
    }
};

/// Chooses panels and scratch. `f32` says whether diff_dst is f32.
[[nodiscard]] constexpr bias_plan make_bias_plan(const shape::bias_problem& p, const shape::canonical_strides& in,
                                                 std::int64_t out_step, bool f32,
                                                 const plan_options& options) noexcept {
    bias_plan b;
    b.channels = p.channels;
    b.planes = p.positions[0];
    b.rows = p.positions[1];
    b.in = in;
    b.out_step = out_step;
    b.accumulate = options.output == output_mode::accumulate;
    b.chunks = chunk_grid(p.batch * p.positions[0] * p.positions[1], p.positions[2]);
    b.panels = shape::ceil_div(p.channels, narrow_lanes);
    slice_layout slice;
    if (b.packed()) {
        slice.reserve<float>(piece_positions * narrow_lanes);
        b.at_wide = slice.reserve<float>(f32 ? 0 : piece_positions * narrow_lanes);
    }
    b.slice_bytes = b.tasks() == 0 ? 0 : slice.bytes();
    return b;
}

/// sum[v] += the `count` rows of a panel that lie `step` elements apart, one after the other. Only the last vector may
/// be partly used.
template <int Vectors, class T>
inline void add_rows(const T* row, std::int64_t step, std::int64_t count, std::int64_t lanes_used,
                     std::array<simd::vec, narrow_vectors>& sum) noexcept {
    constexpr auto width = static_cast<std::ptrdiff_t>(simd::lanes);
    const std::int64_t in_last = lanes_used - (Vectors - 1) * width;
    if (in_last == width) {
        for (std::int64_t i = 0; i < count; ++i, row += step)
            unroll<Vectors>(
                [&](auto v) GRADKERN_INLINE_LAMBDA { sum[v] = simd::add(sum[v], simd::load_wide(row + v * width)); });
        return;
    }
    for (std::int64_t i = 0; i < count; ++i, row += step) {
        unroll<Vectors - 1>(
            [&](auto v) GRADKERN_INLINE_LAMBDA { sum[v] = simd::add(sum[v], simd::load_wide(row + v * width)); });
        sum[Vectors - 1] = simd::add(sum[Vectors - 1], simd::load_wide_partial(row + (Vectors - 1) * width, in_last));
    }
}

template <class T, int... I>
inline void add_rows_by_width(std::integer_sequence<int, I...>, const T* row, std::int64_t step, std::int64_t count,
                              std::int64_t lanes_used, std::array<simd::vec, narrow_vectors>& sum) noexcept {
    const auto vectors = shape::ceil_div(lanes_used, static_cast<std::int64_t>(simd::lanes));
    static_cast<void>(((vectors == I + 1 ? (add_rows<I + 1>(row, step, count, lanes_used, sum), true) : false) || ...));
}

/// Packs `count` positions of the channels [0, used) as [position][narrow_lanes]. Neighbouring 16-bit positions are
/// widened first, which makes the transposition one of floats.
template <class T>
inline void pack_piece(const T* source, const shape::canonical_strides& in, std::int64_t used, std::int64_t count,
                       float* packed, float* wide) noexcept {
    if constexpr (!std::is_same_v<T, float>) {
        if (in[4] == 1) {
            for (std::int64_t j = 0; j < used; ++j) simd::widen(source + j * in[1], wide + j * piece_positions, count);
            pack_lanes(static_cast<const float*>(wide), piece_positions, used, 1, count, packed, narrow_lanes);
            return;
        }
    }
    pack_lanes(source, in[1], used, in[4], count, packed, narrow_lanes);
}

/// Runs a plan over typed tensors. All checks have passed.
template <class T, class G>
void run_bias(const bias_plan& b, const T* diff_dst, G* diff_bias, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    using vectors = std::array<simd::vec, narrow_vectors>;
    constexpr std::make_integer_sequence<int, narrow_vectors> widths;
    const slices memory(workspace, b.slice_bytes);
    const auto zeros = [] {
        vectors v;
        v.fill(simd::zero());
        return v;
    };
    const auto fold_into = [](vectors& to, const vectors& from) {
        for (std::size_t v = 0; v < from.size(); ++v) to[v] = simd::add(to[v], from[v]);
    };
    run_tasks(executor, b.tasks(), memory, [&](std::byte* slice, auto&& next) {
        auto* packed = reinterpret_cast<float*>(slice);
        auto* wide = reinterpret_cast<float*>(slice + b.at_wide);
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const std::int64_t first = task * narrow_lanes;
            const std::int64_t used = std::min<std::int64_t>(narrow_lanes, b.channels - first);
            // an empty batch has no memory: null takes no offset
            const T* base = b.chunks.count == 0 ? diff_dst : diff_dst + first * b.in[1];
            // packed rows are whole vectors; lanes without a channel hold zeros that no result shows
            const std::int64_t packed_lanes =
                shape::ceil_div(used, static_cast<std::int64_t>(simd::lanes)) * simd::lanes;
            if (b.packed()) clear_lanes(used, packed_lanes, piece_positions, packed, narrow_lanes);
            vectors total = zeros();
            vectors sum = zeros();
            for (std::int64_t i = 0; i < b.chunks.count; ++i) {
                const chunk_grid::chunk c = b.chunks[i];
                vectors chunk = zeros();
                for (std::int64_t line = c.first_line; line < c.last_line;) {
                    // lines that continue one another become one run
                    const std::int64_t offset = b.line_offset(line);
                    std::int64_t count = c.columns();
                    while (++line < c.last_line && b.line_offset(line) == offset + count * b.in[4])
                        count += c.columns();
                    const T* run = base + offset + c.first_column * b.in[4];
                    if (!b.packed()) {
                        add_rows_by_width(widths, run, b.in[4], count, used, chunk);
                        continue;
                    }
                    for (std::int64_t at = 0; at < count; at += piece_positions) {
                        const std::int64_t piece = std::min(piece_positions, count - at);
                        pack_piece(run + at * b.in[4], b.in, used, piece, packed, wide);
                        add_rows_by_width(widths, static_cast<const float*>(packed), narrow_lanes, piece, packed_lanes,
                                          chunk);
                    }
                }
                fold_into(sum, chunk);
                if ((i + 1) % chunks_per_sum == 0 || i + 1 == b.chunks.count) {
                    fold_into(total, sum);
                    sum = zeros();
                }
            }
            std::array<float, narrow_lanes> result;
            for (std::size_t v = 0; v < total.size(); ++v)
                simd::store(result.data() + v * static_cast<std::size_t>(simd::lanes), total[v]);
            for (std::int64_t j = 0; j < used; ++j)
                store_result(diff_bias + (first + j) * b.out_step, result[static_cast<std::size_t>(j)], b.accumulate);
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
