// Packing buffers with positions in the lanes, those of all lines, planes and images as one line: of 1x1 kernels, and of
// windows of lines for weight gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Positions of a tensor that are neighbours in their order and lie equally far apart in memory.
struct pixel_run {
    std::int64_t offset = 0;  ///< of the first, in elements
    std::int64_t count = 0;
};

/// Walks the positions (image, plane, row, column) of a tensor in row-major order, by runs as long as can be.
class pixel_walk : row_walk {
public:
    /// From position number `first` on, which exists.
    GRADKERN_NOINLINE pixel_walk(std::int64_t batch, const std::array<std::int64_t, 3>& extent,
                                 const shape::canonical_strides& stride, std::int64_t first) noexcept
        : row_walk(0, batch, {all_of(extent[0]), all_of(extent[1]), all_of(extent[2])}, stride, {}, 0) {
        start_at(first);
    }

    /// Elements between the positions of a run.
    [[nodiscard]] std::int64_t step() const noexcept { return in_step(); }

    /// The next run of at most `most` positions.
    [[nodiscard]] pixel_run next(std::int64_t most) noexcept {
        const pixel_run run{in_offset(), std::min(most, left())};
        pass(run.count);
        return run;
    }

private:
    [[nodiscard]] static shape::tap_class all_of(std::int64_t positions) noexcept {
        return {.positions = positions, .read_per_position = 1};
    }
};

/// Where packed positions lie: [segment][channel][position of the segment].
struct pixel_rows {
    std::int64_t segment = 1;  ///< positions
    std::int64_t pitch = 0;    ///< floats from channel to channel
    std::int64_t step = 0;     ///< floats from segment to segment; 0: there is one

    /// Of a position of the first channel.
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t position) const noexcept {
        return step == 0 ? position : position / segment * step + position % segment;
    }
};
/// [channel][position]
[[nodiscard]] constexpr pixel_rows one_segment(std::int64_t positions, std::int64_t pitch) noexcept {
    return {positions, pitch, 0};
}

/// Packs `count` positions, `step` elements apart, of `together` channels: one, or more
/// where they are packed in pairs.
template <class T>
void pack_pixel_row(const T* from, std::int64_t step, std::int64_t count, std::int64_t channel_step,
                    std::int64_t together, bool pairs, accumulate_t<T>* to, std::int64_t pitch) noexcept {
    if constexpr (has_pairs<T>) {
        if (pairs) return pack_row_pairs(from, step, count, channel_step, together, to, pitch);
    }
    if (step == 1) return simd::widen(from, to, count);
    for (std::int64_t x = 0; x < count; ++x) to[x] = load_element(from + x * step);
}

/// Positions of a channel that are copied before those of the next one, where channels are copied side by side.
template <class T>
inline constexpr std::int64_t positions_in_turn = simd::line_elements<accumulate_t<T>>;
/// Whether they ever are: in whole vectors.
template <class T>
inline constexpr bool has_rows_side_by_side =
    target.side_by_side_rows > 1 && positions_in_turn<T> % simd::wide_lanes<T> == 0;

/// Packs `count` contiguous positions of each of target.side_by_side_rows channels, so many of one and then of the next.
template <class T>
void pack_rows_in_turn(const T* from, std::int64_t count, std::int64_t channel_step, accumulate_t<T>* to,
                       std::int64_t pitch) noexcept {
    constexpr std::int64_t rows = target.side_by_side_rows;
    std::int64_t x = 0;
    for (; x + positions_in_turn<T> <= count; x += positions_in_turn<T>) {
        for (std::int64_t k = 0; k < rows; ++k) simd::prefetch(from, k * channel_step + x + packed_row_ahead<T>);
        for (std::int64_t i = x; i < x + positions_in_turn<T>; i += simd::wide_lanes<T>)
            for (std::int64_t k = 0; k < rows; ++k)
                simd::store(to + k * pitch + i, simd::load_wide(from + k * channel_step + i));
    }
    for (std::int64_t k = 0; k < rows && x < count; ++k)
        simd::widen(from + k * channel_step + x, to + k * pitch + x, count - x);
}

/// Packs the next `count` positions of a walk over `src`. `pairs`: of pairs of bf16 channels, half as many.
template <class T>
GRADKERN_NOINLINE void pack_pixels(const T* src, pixel_walk walk, std::int64_t count, std::int64_t channel_step,
                                   std::int64_t channels, bool pairs, accumulate_t<T>* packed,
                                   const pixel_rows& rows) noexcept {
    for (std::int64_t at = 0; at < count;) {
        const pixel_run run = walk.next(count - at);
        const std::int64_t step = walk.step();
        const std::int64_t first = at % rows.segment;  // of its segment
        // Rows far apart are streams of their own, which the CPU prefetches; rows close together are one stream.
        const bool are_streams = has_rows_side_by_side<T> && step == 1 && !pairs &&
                                 std::min(run.count, rows.segment) >= positions_in_turn<T> &&
                                 channel_step * static_cast<std::int64_t>(sizeof(T)) >= page / 2;
        const std::int64_t paired = step == 1 ? 2 : channels;
        constexpr std::int64_t ahead = target.prefetch.packed_pixels;
        std::int64_t together = 1;
        accumulate_t<T>* row = packed + rows.offset(at - first);
        for (std::int64_t k = 0; k < channels; k += together) {
            const bool in_turn = are_streams && channels - k >= target.side_by_side_rows;
            together = in_turn ? target.side_by_side_rows : pairs ? std::min(channels - k, paired) : 1;
            const T* from = src + run.offset + k * channel_step;
            // No CPU fetches ahead from channel to channel.
            for (std::int64_t x = 0; x < run.count && step == 1 && !in_turn; x += simd::line_elements<T>)
                for (std::int64_t next = ahead; next < std::min(ahead + together, channels - k); ++next)
                    simd::prefetch(from, next * channel_step + x);
            accumulate_t<T>* to = row;
            for (std::int64_t left = run.count, place = first; left > 0; to += rows.step, place = 0) {
                const std::int64_t piece = std::min(left, rows.segment - place);
                left -= piece;
                if constexpr (has_rows_side_by_side<T>) {
                    if (in_turn) {
                        pack_rows_in_turn(from, piece, channel_step, to + place, rows.pitch);
                        from += piece;
                        continue;
                    }
                }
                pack_pixel_row(from, step, piece, channel_step, together, pairs, to + place, rows.pitch);
                from += piece * step;
            }
            row += rows.pitch * (pairs ? shape::ceil_div(together, 2) : together);
        }
        at += run.count;
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
