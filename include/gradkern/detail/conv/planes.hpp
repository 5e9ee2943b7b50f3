// The planewise path of the gather engine: depthwise layers of stride 1 whose columns are neighbours in both memories, as in
// NCX. Lanes hold positions of one channel, so that nothing is transposed. Loops, outermost first:
//
//     block        a box of output positions of one image
//     channel      those of a task; the lines that the box reads are staged as f32, one behind the other
//     class        planes, and lines of a plane, that meet the same taps along depth and height
//     vectors      of positions, which run on from line to line
//     tap          one offset for all lines; it counts in the columns where it is inside (weighted_lines.hpp)
//
// The terms of a position are those of gather.hpp, in the same order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/paths.hpp>
#include <gradkern/detail/conv/plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/weighted_lines.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The lines of a box: what their positions read of a staged channel, whatever the tensors' types.
class plane_lines {
public:
    plane_lines(const gather_plan& g, std::byte* slice) noexcept
        : g_(g),
          staging_(reinterpret_cast<float*>(slice + g.at_staging) + plane_margin(g)),
          inside_(reinterpret_cast<float*>(slice + g.at_inside)) {}

    GRADKERN_NOINLINE void turn_to(const box_grid::item& box) noexcept {
        read_ = reads_of(g_.axes, g_.outputs, box, 1);
        width_ = box.last[2] - box.first[2];
        pitch_ = std::max(read_.extent[2], width_);
        const bool same_columns = has_columns_ && box.first[2] == box_.first[2] && box.last[2] == box_.last[2];
        box_ = box;
        if (same_columns) return;
        has_columns_ = true;
        const shape::axis& a = g_.axes[2];
        const bool forward = g_.outputs == shape::side::small;
        const std::int64_t extent = forward ? a.large : a.small;  // of the input
        for (std::int64_t t = 0; t < a.kernel; ++t) {
            const std::int64_t tap = forward ? t : a.kernel - 1 - t;
            const std::int64_t column =  // that the first column reads
                box.first[2] + (forward ? tap * a.dilation - a.pad_begin : a.pad_begin - tap * a.dilation);
            column_tap& to = taps_[static_cast<std::size_t>(t)];
            to = {column - read_.first[2], nullptr};
            if (column >= 0 && column + width_ <= extent) continue;
            float* const inside = inside_ + t * plane_inside_pitch(g_);
            for (std::int64_t x = 0; x < pitch_; ++x)
                inside[x] = x < width_ && column + x >= 0 && column + x < extent ? 1.0F : 0.0F;
            for (std::int64_t x = pitch_; x < pitch_ + simd::lanes; ++x) inside[x] = inside[x - pitch_];
            to.inside = inside;
        }
    }

    /// Where a channel is staged: line (d, h) of read() begins (d * its lines + h) * pitch() floats on.
    [[nodiscard]] float* staging() const noexcept { return staging_; }
    [[nodiscard]] const box_grid::item& box() const noexcept { return box_; }
    [[nodiscard]] const staging_box& read() const noexcept { return read_; }
    [[nodiscard]] std::int64_t width() const noexcept { return width_; }
    [[nodiscard]] std::int64_t pitch() const noexcept { return pitch_; }

    /// The sums of the box with these weights, which are in the order in which taps are read: line (d, h) goes to
    /// out + d * plane + h * pitch(), and between the columns of two lines goes anything.
    GRADKERN_NOINLINE void compute(const float* weights, float* out, std::int64_t plane) noexcept {
        shape::tap_class planes;
        shape::tap_class_walk depth(g_.axes[0], g_.outputs, box_.first[0], box_.last[0]);
        while (depth.next(planes)) {
            shape::tap_class lines;
            shape::tap_class_walk height(g_.axes[1], g_.outputs, box_.first[1], box_.last[1]);
            while (height.next(lines))
                compute_class(planes, lines, weights,
                              out + (planes.first_position - box_.first[0]) * plane +
                                  (lines.first_position - box_.first[1]) * pitch_,
                              plane);
        }
    }

private:
    void compute_class(const shape::tap_class& planes, const shape::tap_class& lines, const float* weights, float* out,
                       std::int64_t out_plane) noexcept {
        const std::int64_t columns = g_.axes[2].kernel;
        const std::int64_t plane = read_.extent[1] * pitch_;
        const bool has_taps = planes.taps > 0 && lines.taps > 0;
        const std::int64_t first =
            (planes.first_read - read_.first[0]) * plane + (lines.first_read - read_.first[1]) * pitch_;
        // Of a class with stride 1 taps follow one another, along the columns all of them.
        const std::int64_t first_column = g_.outputs == shape::side::small ? 0 : columns - 1;
        const std::int64_t tap = (planes.first_tap * g_.axes[1].kernel + lines.first_tap) * columns + first_column;
        weighted_lines l{.first = staging_ + (has_taps ? first : 0),
                         .depths = has_taps ? planes.taps : 0,
                         .rows = lines.taps,
                         .columns = columns,
                         .depth_step = planes.read_per_tap * plane,
                         .row_step = lines.read_per_tap,
                         .pitch = pitch_,
                         .taps = taps_.data(),
                         .weights = weights + (has_taps ? g_.tap_place(tap) : 0),
                         .weights_step = g_.axes[1].kernel * columns};
        for (std::int64_t i = 0; i < planes.positions; ++i) {
            weigh_lines(l, lines.positions, width_, out + i * out_plane);
            if (has_taps && i + 1 < planes.positions) l.first += planes.read_per_position * plane;
        }
    }

    const gather_plan& g_;
    float* staging_;
    float* inside_;
    box_grid::item box_{};
    staging_box read_{};
    std::int64_t width_ = 0;  // columns of the box
    std::int64_t pitch_ = 0;  // floats from line to line, of what is staged and of results
    bool has_columns_ = false;
    std::array<column_tap, plane_taps> taps_;  // along the columns, in the order in which they are read
};

/// One channel of a box, from tensor to tensor.
template <class T>
void compute_plane(const gather_plan& g, plane_lines& lines, const T* src, const T* weights, const void* bias, T* dst,
                   std::int64_t channel, float* results) noexcept {
    const box_grid::item& box = lines.box();
    const staging_box& read = lines.read();
    const std::int64_t pitch = lines.pitch();
    const T* const from = src + box.first_image * g.in[0] + channel * g.in[1] + read.first[2];
    const bool joined = g.in[3] == pitch && read.extent[2] == pitch;
    const std::int64_t rows = joined ? read.extent[1] : 1;
    float* staged = lines.staging();
    for (std::int64_t d = 0; d < read.extent[0]; ++d)
        for (std::int64_t h = 0; h < read.extent[1]; h += rows, staged += rows * pitch)
            simd::widen(from + (read.first[0] + d) * g.in[2] + (read.first[1] + h) * g.in[3], staged,
                        rows * read.extent[2]);

    std::array<float, plane_taps> w;
    pack_weight_panel(g, weights, channel, 0, 1, 1, w.data());

    T* const to = dst + box.first_image * g.out[0] + channel * g.out[1] + box.first[0] * g.out[2] +
                  box.first[1] * g.out[3] + box.first[2];
    const std::int64_t out_rows = box.last[1] - box.first[1];
    if constexpr (std::is_same_v<T, float>) {
        const bool dense = out_rows == 1 || (lines.width() == pitch && g.out[3] == pitch);
        if (dense && bias == nullptr && !g.accumulate) return lines.compute(w.data(), to, g.out[2]);
    }
    const std::int64_t plane = out_rows * pitch;
    lines.compute(w.data(), results, plane);
    for (std::int64_t d = 0; d < box.last[0] - box.first[0]; ++d, results += plane) {
        if (bias != nullptr) {
            const float b = load_as_float(bias, g.bias_type, channel * g.bias_step);
            for (std::int64_t x = 0; x < plane; ++x) results[x] += b;
        }
        unpack_lanes(results, pitch, lines.width(), out_rows, to + d * g.out[2], 1, g.out[3], g.accumulate);
    }
}

/// Runs a planewise plan over typed tensors. All checks have passed.
template <class T>
void run_gather_planes(const gather_plan& g, const T* src, const T* weights, const void* bias, T* dst,
                       std::span<std::byte> workspace, executor_ref executor) noexcept {
    run_tasks(executor, g.tasks(), slices(workspace, g.slice_bytes), [&](std::byte* slice, auto&& next) {
        plane_lines lines(g, slice);
        for (std::int64_t task = next(); task >= 0; task = next()) {
            const auto [first, last] = g.panels_of(task % g.block_tasks());
            lines.turn_to(g.blocks[task / g.block_tasks()]);
            for (std::int64_t channel = first; channel < last; ++channel)
                compute_plane(g, lines, src, weights, bias, dst, channel,
                              reinterpret_cast<float*>(slice + g.at_results));
        }
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
