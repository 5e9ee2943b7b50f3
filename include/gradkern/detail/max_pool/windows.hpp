// Max pooling, with indices or without.
//
// Path cards. All three: task (box of windows of one image, panel of channels) > line of windows > segment > run of windows
// with the same inside taps > taps. Lanes hold channels. Times: means over the zoo, tensors of two images, both rows forced,
// Sapphire Rapids, g++ 12 -O3.
//
// windows          reads vectors of neighbouring channels from the tensor.
//                  Taken when channels are neighbours (NXC).
//                  Gain: windows_packed takes 1.46 of its time (AVX-512), 1.41 (AVX2). Known loss: sppf_max9, 0.52 (AVX-512):
//                  maxima of rows would not fit the stack beside panels that wide.
//                  Zoo: all 20 max pools in NXC. Delete it when packing costs nothing.
// windows_packed   packs what a box reads as f32, channels innermost.
//                  Taken when channels lie apart (NCX).
//                  Gain: windows_strided takes 9.2 times as long (AVX-512), 10.9 (AVX2); four pools.
//                  Zoo: all 20 max pools in NCX. Delete it when CPUs load lanes that lie apart as fast as neighbours.
// windows_strided  loads element by element, and carries linear offsets of 60 bits.
//                  Taken when a window is too large for scratch, or a plane for offsets of 30 bits: it fits every problem.
//                  Zoo: none. Delete it when the contract bounds the sizes of planes and kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/index_rule.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/max_pool/result_writer.hpp>
#include <gradkern/detail/max_pool/window_plan.hpp>
#include <gradkern/detail/max_pool/window_task.hpp>
#include <gradkern/detail/pack/staging.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Forward: a window plan, what is packed, and where results go.
struct windows_plan : window_plan {
    packed_lines packing = packed_lines::as_read;
    result_plan results{};
};

/// How a forward row reads windows.
[[nodiscard]] constexpr window_access access_of(algorithm row) noexcept {
    return row == algorithm::windows          ? window_access::in_place
           : row == algorithm::windows_packed ? window_access::packed
                                              : window_access::strided;
}

/// Columns that a box of `windows` windows of a line packs: whole lines, where those follow one another in memory and most of
/// them is read, since they are packed as one.
[[nodiscard]] constexpr std::int64_t packed_columns(const max_problem& p, packed_lines lines,
                                                    std::int64_t windows) noexcept {
    const shape::axis& a = p.axes[2];
    const std::int64_t reads = reads_at_most(a, shape::side::small, windows);
    return lines == packed_lines::whole && windows == a.small && reads >= a.large - a.large / 4 &&
                   continues(p.src[3], a.large, p.src[4])
               ? a.large
               : reads;
}

/// Pixels that a box of windows packs.
[[nodiscard]] constexpr std::int64_t packed_pixels(const max_problem& p, packed_lines lines,
                                                   const std::array<std::int64_t, 3>& box) noexcept {
    return reads_at_most(p.axes[0], shape::side::small, box[0]) * reads_at_most(p.axes[1], shape::side::small, box[1]) *
           packed_columns(p, lines, box[2]);
}

/// Whether windows can be packed: the smallest box fits the scratch.
[[nodiscard]] constexpr bool fits_windows_packed(const max_pool_problem& p) noexcept {
    return has_short_offsets(p) && fits_scratch(p, packed_pixels(p, packed_lines::whole, {1, 1, 1}));
}
[[nodiscard]] constexpr bool fits_windows(const max_pool_problem& p) noexcept { return reads_in_place(p); }

/// The plan of any forward row.
[[nodiscard]] constexpr windows_plan make_windows(const max_pool_problem& p, algorithm row) noexcept {
    const window_access access = access_of(row);
    const bool is_packed = access == window_access::packed;
    panel_budget panel{widest_panel(p, access), max_scratch};
    if (is_packed) panel.cover(p, packed_pixels(p, packed_lines::whole, {1, 1, 1}));
    windows_plan w{{p, row, access, panel.width}, {}, result_plan(p, access)};
    // Of few taps conversions alone take as long as memory; of many, what later windows read is prefetched.
    w.prefetch = prefetch_windows::ahead;
    w.boxes = box_grid(p.batch, p.windows(), [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        return images <= 1 && box[0] * box[1] * box[2] <= max_windows &&
               (!is_packed || packed_pixels(p, packed_lines::whole, box) * panel.width <= panel.floats);
    });
    if (w.tasks() == 0) return w;
    const std::array<std::int64_t, 3> box{w.boxes.box(0), w.boxes.box(1), w.boxes.box(2)};
    const auto lay_out = [&](packed_lines lines) {
        w.packing = lines;
        w.results.choose_lines(p, w, lines);
        slice_layout slice;
        w.at_packed = slice.reserve<float>(is_packed ? packed_pixels(p, lines, box) * panel.width : 0);
        w.at_value = slice.reserve<float>(w.results.windows * panel.width);
        w.at_offset = slice.reserve<float>(w.results.windows * panel.width);
        w.at_offset_high = slice.reserve<float>(access == window_access::strided ? w.columns * panel.width : 0);
        return slice;
    };
    // What runs without a workspace of the caller's goes on doing so.
    const auto fits_stack = [](const slice_layout& s) { return workspace_for(s.bytes(), 1) <= stack_workspace; };
    slice_layout slice = lay_out(packed_lines::whole);
    if (!fits_stack(slice))
        slice = lay_out(fits_stack(lay_out(packed_lines::as_read)) ? packed_lines::as_read : packed_lines::whole);
    if (packed_columns(p, w.packing, box[2]) != p.axes[2].large) w.packing = packed_lines::as_read;
    finish_scratch(w, p.scratch, slice);
    return w;
}

/// One task of a forward plan.
template <class T>
class windows_task : window_task {
public:
    windows_task(const windows_plan& w, std::int64_t task, std::byte* slice) noexcept
        : window_task(w, task, slice), plan_(w) {}

    void run(const T* src, T* dst, std::int64_t* indices) noexcept {
        result_writer<T> writer(plan_, plan_.results, box_, first_channel_, used_, dst, indices, results_);
        const T* const panel = src + first_channel_ * plan_.src[1];
        if (plan_.access == window_access::packed) {
            staging_box read = reads_of(plan_.axes, shape::side::small, box_, plan_.panel_width);
            if (plan_.packing == packed_lines::whole) {
                read.first[2] = 0;
                read.extent[2] = plan_.axes[2].large;
            }
            stage_channels(panel, plan_.src, read, used_, packed_);
            const shape::canonical_strides in = read.strides();
            compute(window_source<float>{packed_ + (box_.first_image * in[0] - read.origin()), in, 1,
                                         plan_.results.offset_steps, 0},
                    writer);
        } else {
            compute(window_source<T>{panel + box_.first_image * plan_.src[0], plan_.src, plan_.src[1],
                                     plan_.results.offset_steps, 0},
                    writer);
        }
    }

private:
    template <class S>
    void compute(const window_source<S>& source, result_writer<T>& writer) noexcept {
        for_each_segment(
            box_windows(), every_window{}, [&](std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last) {
                writer.write(d, h, first, last,
                             [&](const auto& results) { max_windows(source, d, h, first, last, results); });
            });
        writer.flush();
    }
    [[nodiscard]] std::array<position_range, 3> box_windows() const noexcept {
        return {{{box_.first[0], box_.last[0]}, {box_.first[1], box_.last[1]}, {box_.first[2], box_.last[2]}}};
    }

    const windows_plan& plan_;
};

/// Runs a forward plan. All checks have passed; `indices` is not looked at where the plan writes none.
template <class T>
void run_path(const windows_plan& w, const T* src, T* dst, std::int64_t* indices, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    run_tasks(executor, w.tasks(), slices(workspace, w.slice_bytes), [&](std::byte* slice, auto&& next) {
        for (std::int64_t task = next(); task >= 0; task = next())
            windows_task<T>(w, task, slice).run(src, dst, indices);
    });
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
