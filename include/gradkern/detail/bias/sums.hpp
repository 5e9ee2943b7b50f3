// Bias gradients: db[c] = sum over n and all pixels of diff_dst, in the chunks of order/summation.hpp. Two paths share
// one loop:
//
//   loops      task (a panel of channels) > chunk of at most 256 pixels, summed from +0 in row-major order; 32 chunks
//              are added up, and so are these sums > pixel: one vector load and add per vector of lanes
//   lanes      channels
//   dense          taken where channels are neighbours: pixels are read in place. Gain over dense_packed: not measured
//   dense_packed   else: channels innermost, piece by piece. A piece only feeds the chunk's running sums, so that its
//                  length is no part of the order of summation
//   zoo        dense all layers in NXC, dense_packed all in NCX
//   delete     never: the only path of each layout
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <gradkern/detail/bias/problem.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/register_tile.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Pixels packed at a time: small enough for one-call workspaces on the stack, long enough for whole cache lines.
inline constexpr std::int64_t piece_pixels = simd::lanes > 16 ? 16 : 64;

/// Whether pixels are read where they are, or from a packing buffer.
enum class bias_source : std::uint8_t { in_place, packed };

struct bias_plan : bias_problem {
    bias_source source = bias_source::in_place;
    chunk_grid chunks{};
    std::int64_t panels = 0;
    std::int64_t at_wide = 0;  // byte offset in a slice; the packed piece is at 0
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr std::int64_t tasks() const noexcept { return panels; }
    /// Offset of the first element of a line (n, d, h).
    [[nodiscard]] constexpr std::int64_t line_offset(std::int64_t line) const noexcept {
        return line / rows / planes * in[0] + line / rows % planes * in[2] + line % rows * in[3];
    }
};

[[nodiscard]] constexpr bias_plan make_bias(const bias_problem& p, algorithm name) noexcept {
    bias_plan b{p};
    b.chunks = chunk_grid(p.batch * p.planes * p.rows, p.columns);
    b.panels = shape::ceil_div(p.channels, narrow_lanes);
    if (name == algorithm::dense) return b;
    b.source = bias_source::packed;
    slice_layout slice;
    slice.reserve<float>(piece_pixels * narrow_lanes);
    b.at_wide = slice.reserve<float>(p.is_f32 ? 0 : piece_pixels * narrow_lanes);
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

/// Packs `count` pixels of the channels [0, used) as [pixel][narrow_lanes]. Neighbouring 16-bit pixels are
/// widened first, which makes the transposition one of floats.
template <class T>
inline void pack_piece(const T* source, const shape::canonical_strides& in, std::int64_t used, std::int64_t count,
                       float* packed, float* wide) noexcept {
    if constexpr (!std::is_same_v<T, float>) {
        if (in[4] == 1) {
            for (std::int64_t j = 0; j < used; ++j) simd::widen(source + j * in[1], wide + j * piece_pixels, count);
            pack_lanes(static_cast<const float*>(wide), piece_pixels, used, 1, count, packed, narrow_lanes);
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
    const bool packs = b.source == bias_source::packed;
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
            if (packs) clear_lanes(used, packed_lanes, piece_pixels, packed, narrow_lanes);
            vectors total = zeros();
            vectors sum = zeros();
            for (std::int64_t i = 0; i < b.chunks.count; ++i) {
                const chunk_grid::chunk c = b.chunks[i];
                vectors chunk = zeros();
                for (std::int64_t line = c.first_line; line < c.last_line;) {
                    // contiguous lines are one run
                    const std::int64_t offset = b.line_offset(line);
                    std::int64_t count = c.columns();
                    while (++line < c.last_line && b.line_offset(line) == offset + count * b.in[4])
                        count += c.columns();
                    const T* run = base + offset + c.first_column * b.in[4];
                    if (!packs) {
                        add_rows_by_width(widths, run, b.in[4], count, used, chunk);
                        continue;
                    }
                    for (std::int64_t at = 0; at < count; at += piece_pixels) {
                        const std::int64_t piece = std::min(piece_pixels, count - at);
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
