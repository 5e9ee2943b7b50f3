// Packing buffers: the input of one block of outputs in the type of its sums with channels innermost, [image][plane][row][column][channel].
// Only what lies inside the tensor is copied; there is no padding in a packing buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/detail/pack/pairs.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Floats from row to row of `count` packed floats: an odd number of cache lines, so that rows do not meet in one cache set.
/// It never falls as `count` grows: room for the longest rows is room for all.
[[nodiscard]] constexpr std::int64_t row_pitch(std::int64_t count) noexcept {
    return (shape::ceil_div(count, 16) | 1) * 16;
}

/// The box of input positions that a box of outputs reads, and its place in a packing buffer.
struct packed_box {
    std::int64_t first_image = 0;
    std::int64_t images = 0;
    std::array<std::int64_t, 3> first{};
    std::array<std::int64_t, 3> extent{};
    std::int64_t channels = 0;  // floats per position

    /// Strides of the packing buffer.
    [[nodiscard]] constexpr shape::canonical_strides strides() const noexcept {
        const std::int64_t row = extent[2] * channels;
        const std::int64_t plane = extent[1] * row;
        return {extent[0] * plane, 1, plane, row, channels};
    }
    /// Offset that the first packed element would have in a tensor with these strides.
    [[nodiscard]] constexpr std::int64_t origin() const noexcept {
        const shape::canonical_strides s = strides();
        return first_image * s[0] + first[0] * s[2] + first[1] * s[3] + first[2] * s[4];
    }
};

/// The input box of the outputs `box`.
[[nodiscard]] GRADKERN_NOINLINE constexpr packed_box reads_of(const std::array<shape::axis, 3>& axes,
                                                              shape::side outputs, const box_grid::item& box,
                                                              std::int64_t channels) noexcept {
    packed_box r;
    r.first_image = box.first_image;
    r.images = box.last_image - box.first_image;
    r.channels = channels;
    for (std::size_t i = 0; i < 3; ++i) {
        const position_range reads = read_span_inside(axes[i], outputs, box.first[i], box.last[i]);
        r.first[i] = reads.first;
        r.extent[i] = reads.last - reads.first;
    }
    return r;
}

/// Calls f(offset of a run's first position in the tensor, its length, its place in the packing buffer) for all rows.
/// Rows that follow each other in the tensor are one run.
template <class Real, class F>
inline void for_each_contiguous_run(const packed_box& box, const shape::canonical_strides& in, Real* packed,
                                    const F& f) {
    const std::int64_t rows = continues(in[3], box.extent[2], in[4]) ? box.extent[1] : 1;
    const std::int64_t positions = rows * box.extent[2];
    for (std::int64_t n = 0; n < box.images; ++n)
        for (std::int64_t d = 0; d < box.extent[0]; ++d)
            for (std::int64_t h = 0; h < box.extent[1]; h += rows, packed += positions * box.channels)
                f((box.first_image + n) * in[0] + (box.first[0] + d) * in[2] + (box.first[1] + h) * in[3] +
                      box.first[2] * in[4],
                  positions, packed);
}

/// Packs neighbouring channels, the first of which is at `src`: a pointer, or elements of any type.
template <class Source, class Real>
inline void pack_channels(const Source& src, const shape::canonical_strides& in, const packed_box& box,
                          std::int64_t channels, Real* packed) noexcept {
    for_each_contiguous_run(box, in, packed, [&](std::int64_t offset, std::int64_t count, Real* to) {
        pack_lanes(src + offset, in[1], channels, in[4], count, to, box.channels);
        clear_lanes(channels, box.channels, count, to, box.channels);
    });
}

/// The same of pairs of bf16 channels: half as many floats.
template <class Source, class Real>
inline void pack_channel_pairs(const Source& src, const shape::canonical_strides& in, const packed_box& box,
                               std::int64_t channels, Real* packed) noexcept {
    for_each_contiguous_run(box, in, packed, [&](std::int64_t offset, std::int64_t count, Real* to) {
        pack_lane_pairs(src + offset, in[1], channels, in[4], count, to, box.channels);
    });
}

/// The lanes of a panel that run across groups: lane j is output channel first + j. There are narrow_lanes_of them at most.
struct lanes_of_groups {
    std::int64_t first;
    std::int64_t count;
    std::int64_t outputs;  // of a group
    std::int64_t inputs;
    std::int64_t width;  // lanes of the panel
};

/// out[x * out_step + k * width + j] = element k * channel_step of row j, at position x; zero behind the rows. Position by position:
/// neighbouring groups share lines.
template <class T>
inline void spread_positions(const strided_rows<T>& rows, const lanes_of_groups& lanes, std::int64_t channel_step,
                             std::int64_t step, std::int64_t count, accumulate_t<T>* out,
                             std::int64_t out_step) noexcept {
    std::array<std::int64_t, narrow_lanes_of<accumulate_t<T>>> offsets{};
    for (std::int64_t j = 0; j < lanes.count; ++j) offsets[static_cast<std::size_t>(j)] = rows(j) - rows.first;
    const T* source = rows.first;
    for (std::int64_t x = 0; x < count; ++x, source += step, out += out_step) {
        simd::prefetch(source, target.prefetch.packed_positions * step);
        for (std::int64_t k = 0; k < lanes.inputs; ++k) {
            accumulate_t<T>* const to = out + k * lanes.width;
            for (std::int64_t j = 0; j < lanes.count; ++j)
                to[j] = load_element(source + k * channel_step + offsets[static_cast<std::size_t>(j)]);
            GRADKERN_NO_UNROLL
            for (std::int64_t j = lanes.count; j < lanes.width; ++j) to[j] = accumulate_t<T>{0};
        }
    }
}

/// Packs such a panel, [position][k][lane]: channel k of the group of a lane, zero for the lanes behind them.
template <class T>
inline void spread_across_groups(const T* src, const shape::canonical_strides& in, const packed_box& box,
                                 const lanes_of_groups& lanes, accumulate_t<T>* packed) noexcept {
    const std::int64_t group_step = lanes.inputs * in[1];
    for_each_contiguous_run(box, in, packed, [&](std::int64_t offset, std::int64_t count, accumulate_t<T>* to) {
        const strided_rows<T> first{src + offset + lanes.first / lanes.outputs * group_step, group_step, lanes.outputs,
                                    lanes.first % lanes.outputs};
        if (in[4] != 1 && lanes.outputs > 1)
            return spread_positions(first, lanes, in[1], in[4], count, to, box.channels);
        for (std::int64_t k = 0; k < lanes.inputs; ++k, to += lanes.width) {
            const strided_rows<T> rows = first + k * in[1];
            if (lanes.outputs == 1) {  // the lanes step through the channels
                pack_lanes(rows.first, group_step, lanes.count, in[4], count, to, box.channels);
            } else {
                pack_columns<T>(rows, lanes.count, count, to, box.channels);
            }
            clear_lanes(lanes.count, lanes.width, count, to, box.channels);
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
