// depthwise_planes: depthwise layers of stride 1 whose columns are neighbours in both memories, as in NCX.
//
// Loops          block > channel > class of planes > class of lines > vector of pixels, which run on from line to line > tap:
//                one offset for all lines; it counts in the columns where it is inside (micro/weighted_lines.hpp)
// Lanes          pixels of one channel: nothing is transposed
// Packed         the lines that a box reads of a channel, as f32, one behind the other
// Taken          large planes, few taps
// Gains          over depthwise: not measured
// Used by        CARD
// Delete it      when depthwise transposes without loss
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/micro/weighted_lines.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Taps at most, and floats of packed lines that are aimed at.
inline constexpr std::int64_t most_plane_taps = 64;
inline constexpr std::int64_t plane_floats = 16 * 1024;

/// Panels are channels.
struct depthwise_planes_plan : conv_equation {
    weight_panels panels{};
    panel_tasks tasks{};
    std::int64_t at_packed = 0;  // byte offsets in a slice
    std::int64_t at_inside = 0;
    std::int64_t at_results = 0;
    std::int64_t slice_bytes = 0;

    [[nodiscard]] constexpr plan_summary summary() const noexcept {
        return {.panels = tasks.panels,
                .panel_channels = 1,
                .blocks = tasks.blocks.count(),
                .tasks = task_count(false),
                .slice_bytes = slice_bytes};
    }
    [[nodiscard]] constexpr std::int64_t task_count(bool) const noexcept { return tasks.count(); }
    /// Floats before the packed lines.
    [[nodiscard]] constexpr std::int64_t margin() const noexcept { return row_pitch(axes[2].reach()); }
    /// Floats from line to line of so many columns.
    [[nodiscard]] static constexpr std::int64_t pitch(const conv_equation& e, std::int64_t columns) noexcept {
        return std::max(columns, reads_at_most(e.axes[2], e.outputs, columns));
    }
    /// Floats from tap to tap that say where it is inside.
    [[nodiscard]] constexpr std::int64_t inside_pitch() const noexcept {
        return pitch(*this, tasks.blocks.box(2)) + static_cast<std::int64_t>(simd::lanes);
    }
};

struct depthwise_planes_path {
    [[nodiscard]] static constexpr bool fits(const conv_problem& p) noexcept {
        if (p.groups == 1 || !p.is_depthwise() || p.in[4] != 1 || p.out[4] != 1) return false;
        for (const shape::axis& a : p.axes)
            if (a.stride != 1 || a.kernel > most_plane_taps) return false;
        const shape::axis& columns = p.axes[2];
        const std::int64_t reach = columns.reach();
        // What the first and the last column read lies no farther from the input than the kernel reaches.
        const bool ends = p.is_forward() ? columns.position(columns.small - 1, 0) <= columns.large
                                         : columns.large - 1 + columns.pad_begin - reach <= columns.small;
        return p.taps() <= most_plane_taps && columns.pad_begin <= reach && ends && reach <= plane_floats / 4;
    }

    /// Planes are large, read by few taps, and cut into blocks of several lines. Each vector is read from an address of its own.
    [[nodiscard]] static constexpr bool is_profitable(const conv_problem& p) noexcept {
        const std::int64_t lines_of_four =
            reads_at_most(p.axes[0], p.outputs, 1) * reads_at_most(p.axes[1], p.outputs, 4);
        return p.in[1] != 1 && p.out[1] != 1 && p.taps() <= 9 && p.extent(1) >= 8 &&
               p.extent(1) * p.extent(2) >= 2048 &&
               lines_of_four <= plane_floats / depthwise_planes_plan::pitch(p, p.extent(2));
    }

    [[nodiscard]] static constexpr depthwise_planes_plan make(const conv_problem& p) noexcept {
        depthwise_planes_plan g{p};
        g.panels = make_weight_panels(p, lane_inputs::broadcast, tile_numbers::f32, 1);
        g.tasks.panels = g.tasks.fused = p.groups;
        const auto packed = [&](const std::array<std::int64_t, 3>& box) {
            return reads_at_most(p.axes[0], p.outputs, box[0]) * reads_at_most(p.axes[1], p.outputs, box[1]) *
                   depthwise_planes_plan::pitch(p, box[2]);
        };
        g.tasks.blocks =
            box_grid(p.batch, p.extents(), [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
                return images == 1 && packed(box) <= plane_floats;
            });
        const box_grid& blocks = g.tasks.blocks;
        if (blocks.count() == 0) return g;
        // Channels of a task: a few thousand pixels, as long as there are tasks for many workers.
        const std::array<std::int64_t, 3> box{blocks.box(0), blocks.box(1), blocks.box(2)};
        g.tasks.each = std::max<std::int64_t>(plane_floats / (box[0] * box[1] * box[2]), 1);
        g.tasks.share_out();
        slice_layout slice;
        constexpr auto slack = 4 * static_cast<std::int64_t>(simd::lanes);
        g.at_packed = slice.reserve<float>(g.margin() + packed(box) + g.margin() + slack);
        g.at_inside = slice.reserve<float>(p.axes[2].kernel * g.inside_pitch());
        g.at_results = slice.reserve<float>(box[0] * box[1] * depthwise_planes_plan::pitch(p, box[2]));
        g.slice_bytes = slice.bytes();
        return g;
    }
};

/// The lines of a box: what their positions read of a staged channel, whatever the tensors' types.
class plane_lines {
public:
    plane_lines(const depthwise_planes_plan& g, std::byte* slice) noexcept
        : g_(g),
          packed_(reinterpret_cast<float*>(slice + g.at_packed) + g.margin()),
          inside_(reinterpret_cast<float*>(slice + g.at_inside)) {}

    GRADKERN_NOINLINE void begin_box(const box_grid::item& box) noexcept {
        read_ = reads_of(g_.axes, g_.outputs, box, 1);
        width_ = box.last[2] - box.first[2];
        pitch_ = std::max(read_.extent[2], width_);
        const bool same_columns = has_columns_ && box.first[2] == box_.first[2] && box.last[2] == box_.last[2];
        box_ = box;
        if (same_columns) return;
        has_columns_ = true;
        const shape::axis& a = g_.axes[2];
        const bool forward = g_.is_forward();
        const std::int64_t extent = read_extent(a, g_.outputs);
        for (std::int64_t t = 0; t < a.kernel; ++t) {
            const std::int64_t tap = forward ? t : a.kernel - 1 - t;
            const std::int64_t column =  // that the first column reads
                box.first[2] + (forward ? tap * a.dilation - a.pad_begin : a.pad_begin - tap * a.dilation);
            column_tap& to = taps_[static_cast<std::size_t>(t)];
            to = {column - read_.first[2], nullptr};
            if (column >= 0 && column + width_ <= extent) continue;
            float* const inside = inside_ + t * g_.inside_pitch();
            for (std::int64_t x = 0; x < pitch_; ++x)
                inside[x] = x < width_ && column + x >= 0 && column + x < extent ? 1.0F : 0.0F;
            for (std::int64_t x = pitch_; x < pitch_ + simd::lanes; ++x) inside[x] = inside[x - pitch_];
            to.inside = inside;
        }
    }

    /// Where a channel is packed: line (d, h) of read() begins (d * its lines + h) * pitch() floats on.
    [[nodiscard]] float* packed() const noexcept { return packed_; }
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
        const std::int64_t first_column = g_.is_forward() ? 0 : columns - 1;
        const std::int64_t tap = (planes.first_tap * g_.axes[1].kernel + lines.first_tap) * columns + first_column;
        weighted_lines l{.first = packed_ + (has_taps ? first : 0),
                         .depths = has_taps ? planes.taps : 0,
                         .rows = lines.taps,
                         .columns = columns,
                         .depth_step = planes.read_per_tap * plane,
                         .row_step = lines.read_per_tap,
                         .pitch = pitch_,
                         .taps = taps_.data(),
                         .weights = weights + (has_taps ? g_.packed_tap(tap) : 0),
                         .weights_step = g_.axes[1].kernel * columns};
        for (std::int64_t i = 0; i < planes.positions; ++i) {
            weigh_lines(l, lines.positions, width_, out + i * out_plane);
            if (has_taps && i + 1 < planes.positions) l.first += planes.read_per_position * plane;
        }
    }

    const depthwise_planes_plan& g_;
    float* packed_;
    float* inside_;
    box_grid::item box_{};
    staging_box read_{};
    std::int64_t width_ = 0;  // columns of the box
    std::int64_t pitch_ = 0;  // floats from line to line, of what is staged and of results
    bool has_columns_ = false;
    std::array<column_tap, most_plane_taps> taps_;  // along the columns, in the order in which they are read
};

/// One channel of a box, from tensor to tensor.
template <class T>
void compute_plane(const depthwise_planes_plan& g, plane_lines& lines, const T* src, const T* weights, const void* bias,
                   T* dst, std::int64_t channel, float* results) noexcept {
    const box_grid::item& box = lines.box();
    const staging_box& read = lines.read();
    const std::int64_t pitch = lines.pitch();
    const T* const from = src + box.first_image * g.in[0] + channel * g.in[1] + read.first[2];
    const bool contiguous = g.in[3] == pitch && read.extent[2] == pitch;
    const std::int64_t rows = contiguous ? read.extent[1] : 1;
    float* to_line = lines.packed();
    for (std::int64_t d = 0; d < read.extent[0]; ++d)
        for (std::int64_t h = 0; h < read.extent[1]; h += rows, to_line += rows * pitch)
            simd::widen(from + (read.first[0] + d) * g.in[2] + (read.first[1] + h) * g.in[3], to_line,
                        rows * read.extent[2]);

    std::array<float, most_plane_taps> w;
    pack_weight_panel(g, g.panels, weights, channel, 0, 1, w.data());

    T* const to = dst + box.first_image * g.out[0] + channel * g.out[1] + box.first[0] * g.out[2] +
                  box.first[1] * g.out[3] + box.first[2];
    const std::int64_t out_rows = box.last[1] - box.first[1];
    if constexpr (std::is_same_v<T, float>) {
        const bool dense = out_rows == 1 || (lines.width() == pitch && g.out[3] == pitch);
        if (dense && bias == nullptr && !g.accumulates()) return lines.compute(w.data(), to, g.out[2]);
    }
    const std::int64_t plane = out_rows * pitch;
    lines.compute(w.data(), results, plane);
    for (std::int64_t d = 0; d < box.last[0] - box.first[0]; ++d, results += plane) {
        if (bias != nullptr) {
            const float b = load_as_float(bias, g.bias_type, channel * g.bias_stride);
            for (std::int64_t x = 0; x < plane; ++x) results[x] += b;
        }
        unpack_lanes(results, pitch, lines.width(), out_rows, to + d * g.out[2], 1, g.out[3], g.accumulates());
    }
}

/// The tasks of a worker.
template <class T, class Next>
void run_path(const depthwise_planes_plan& g, const conv_call<T>& call, std::byte* slice, const Next& next) noexcept {
    plane_lines lines(g, slice);
    for (std::int64_t task = next(); task >= 0; task = next()) {
        const auto [first, last] = g.tasks.panels_of(task, g.tasks.each);
        lines.begin_box(g.tasks.blocks[task / g.tasks.per_block(g.tasks.each)]);
        for (std::int64_t channel = first; channel < last; ++channel)
            compute_plane(g, lines, call.src, call.weights, call.bias, call.dst, channel,
                          array_at<float>(slice, g.at_results));
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
