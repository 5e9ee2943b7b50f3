// Max pooling, with indices or without: task (box of windows of one image, panel of channels) > line of windows > segment > run
// of windows with the same inside taps > taps. Lanes hold channels. The rows differ in window_access:
//
// windows          vectors of neighbouring channels of the tensor. Taken when channels are neighbours: 20 of the zoo, all NXC.
//                  Whole pixels of more than 128 channels, AVX2, Zen 3: 0.4 to 0.9 of the time of panels of 128 (nine layers).
// windows_packed   what a box reads is packed. Taken when channels lie apart: 20 of the zoo, all NCX. 1.46 of the time of windows
//                  (AVX-512), 1.41 (AVX2): means over the zoo, both forced, Sapphire Rapids, g++ 12.
// windows_strided  element by element, 9 to 11 times the time. For windows too large for scratch, or planes for 30 bits: no zoo.
// Delete: windows when packing costs nothing; windows_strided when the contract bounds the sizes of planes and kernels.
//
// Results of neighbouring channels are stored by the kernel at once: memory takes them while other windows are compared. Others
// wait in scratch for the rest of their segment, or, where lines of dst follow one another, of some lines: one long one is faster.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/maxima.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/prefetch.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/boxes.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool {

/// When a result is stored: never, by the kernel with its window, or from scratch.
enum class result_output : std::uint8_t { none, with_window, buffered };
/// Planned windows, what is packed, and where results go. Offsets are indices, with per_offset 1, where 30 bits can say them.
struct windows_plan : maxima_plan {
    using maxima_plan::maxima_plan;

    result_output values = result_output::buffered;
    result_output index_output = result_output::none;
    bool packs_lines = false;          // whole, not only what windows read
    std::int64_t waiting_windows = 0;  // whose results scratch holds

    /// Whether linear offsets are indices of 30 bits.
    [[nodiscard]] constexpr bool offsets_are_indices() const noexcept {
        return access != window_access::strided && index.per_offset == 1;
    }
};

/// Columns that a box of `windows` windows of a line packs: whole lines, where those follow one another in memory and most of
/// them is read, since they are packed as one.
[[nodiscard]] constexpr std::int64_t packed_columns(const problem& p, std::int64_t windows) noexcept {
    const shape::axis& a = p.axes[2];
    const std::int64_t reads = reads_at_most(a, shape::side::small, windows);
    const bool is_most = windows == a.small && reads >= a.large - a.large / 4;
    return is_most && continues(p.src[3], a.large, p.src[4]) ? a.large : reads;
}

/// Pixels that a box of windows packs.
[[nodiscard]] constexpr std::int64_t packed_pixels(const problem& p, const std::array<std::int64_t, 3>& box) noexcept {
    return reads_at_most(p.axes[0], shape::side::small, box[0]) * reads_at_most(p.axes[1], shape::side::small, box[1]) *
           packed_columns(p, box[2]);
}

/// Whether windows can be packed: the smallest box fits the scratch.
[[nodiscard]] constexpr bool fits_windows_packed(const problem& p) noexcept {
    return has_short_offsets(p) && fits_scratch(p, packed_pixels(p, {1, 1, 1}));
}

/// Channels in place whose windows are compared together: whole pixels, since the hardware prefetches those. Where maxima of rows save
/// comparisons, no more than these fit.
[[nodiscard]] constexpr std::int64_t compared_channels(const problem& p) noexcept {
    constexpr std::int64_t most = target.pools.compared_channels;
    static_assert(target.pools.channels <= most);
    const std::int64_t line = p.axes[2].small;
    if (line == 0 || p.channels == 0 || !saves_comparisons(p.axes[1], p.axes[2])) return most;
    const std::int64_t results = p.real.in_memory_of(max_results) / line;
    const std::int64_t rows = p.real.in_memory_of(max_scratch) / line / p.axes[0].kernel / p.axes[1].kernel;
    return std::clamp(std::min(results, rows), target.pools.channels, most) / p.real.lanes * p.real.lanes;
}

/// When values and indices are stored.
constexpr void choose_outputs(const problem& p, windows_plan& w) noexcept {
    if (p.dst[1] == 1 && p.output == output_mode::overwrite && w.access != window_access::strided)
        w.values = result_output::with_window;
    if (p.writes_indices)
        w.index_output = p.indices[1] == 1 && w.offsets_are_indices() && p.index.per_channel <= 1
                             ? result_output::with_window
                             : result_output::buffered;
}

/// Whether results of several lines wait in scratch for one store: those that wait lie behind one another.
[[nodiscard]] constexpr bool collects_lines(const problem& p, const windows_plan& w) noexcept {
    const std::int64_t line = p.axes[2].small;
    return p.scratch == scratch_use::fast && w.access != window_access::strided && p.dst[1] != 1 && line > 1 &&
           w.columns == line && continues(p.dst[3], line, p.dst[4]) &&
           (w.index_output != result_output::buffered || continues(p.indices[3], line, p.indices[4]));
}

/// The plan of any row.
[[nodiscard]] constexpr windows_plan make_windows(const problem& p, algorithm row) noexcept {
    const bool is_packed = access_of(row) == window_access::packed;
    panel_budget panel{widest_panel(p, access_of(row), compared_channels(p)), p.real.in_memory_of(max_scratch)};
    if (is_packed) panel.cover(p, packed_pixels(p, {1, 1, 1}));
    windows_plan w(p, row, panel.width);
    const std::array<std::int64_t, 3> windows{p.axes[0].small, p.axes[1].small, p.axes[2].small};
    w.boxes = box_grid(p.batch, windows, [&](std::int64_t images, const std::array<std::int64_t, 3>& box) {
        return images <= 1 && box[0] * box[1] * box[2] <= max_windows &&
               (!is_packed || panel.holds(packed_pixels(p, box)));
    });
    if (w.tasks() == 0) return w;
    w.least_box = w.boxes.box(2);
    const bool is_strided = w.access == window_access::strided;
    if (!is_strided && p.plane() < offset_limit / w.index.per_offset) {
        for (std::int64_t& step : w.index.offset_steps) step *= w.index.per_offset;
        w.index.per_offset = 1;
    }
    // Of few taps conversions alone take as long as memory; of many, what later windows read is prefetched.
    w.prefetching = prefetch::ahead;
    choose_outputs(p, w);
    const std::array<std::int64_t, 3> box{w.boxes.box(0), w.boxes.box(1), w.boxes.box(2)};
    w.waiting_windows = w.columns;
    if (collects_lines(p, w))
        w.waiting_windows *= std::min(box[1], p.real.in_memory_of(max_results) / (p.axes[2].small * panel.width));
    w.packs_lines = packed_columns(p, box[2]) == p.axes[2].large;
    const std::int64_t results = w.waiting_windows * panel.width;
    finish_scratch(w, p.scratch, {}, is_packed ? packed_pixels(p, box) * panel.width : 0,
                   w.values == result_output::with_window ? 0 : results, results);
    return w;
}

/// One task of a plan.
template <class T>
class windows_task : maxima_task<accumulate_t<T>> {
    using base = maxima_task<accumulate_t<T>>;
    using base::box_, base::first_channel_, base::image_, base::packed_, base::panel_of;
    using base::results_, base::used_, base::windows_;
    static constexpr std::int64_t lanes = simd::wide_lanes<T>;

public:
    windows_task(const windows_plan& w, std::int64_t task, std::byte* slice) noexcept
        : base(w, shape::side::small, task, slice),
          plan_(w),
          base_(image_ * w.index.per_image + first_channel_ * w.index.per_channel) {}

    /// `indices` is not looked at where the plan writes none.
    void run(const T* src, T* dst, std::int64_t* indices) noexcept {
        src = panel_of(src, plan_.src);
        dst = panel_of(dst, plan_.dst);
        indices = plan_.index_output == result_output::none ? nullptr : panel_of(indices, plan_.indices);
        packed_box packed;
        if (plan_.access == window_access::packed) {
            packed = reads_of(plan_.axes, shape::side::small, windows_, plan_.panel_width);
            if (plan_.packs_lines) {
                packed.first[2] = 0;
                packed.extent[2] = plan_.axes[2].large;
            }
            pack_channels(src, plan_.src, packed, used_, packed_);
        }
        const shape::canonical_strides& y = plan_.dst;
        const shape::canonical_strides& z = plan_.indices;
        this->with_source(src, packed, plan_.index.offset_steps, 0, [&](const auto& source) {
            this->template for_each_segment<walked_windows::all>([&](std::int64_t d, std::int64_t h, std::int64_t first,
                                                                     std::int64_t last) {
                write(dst + (d * y[2] + h * y[3] + first * y[4]),
                      indices == nullptr ? nullptr : indices + (d * z[2] + h * z[3] + first * z[4]), h, last - first,
                      [&](const auto& results) { this->find_maxima(source, d, h, first, last, results); });
            });
        });
        flush();
    }

private:
    /// Writes `count` windows of line h to `to` and `index`, which compute(results) stores where `results` says.
    template <class Compute>
    GRADKERN_ALWAYS_INLINE void write(T* to, std::int64_t* index, std::int64_t h, std::int64_t count,
                                      const Compute& compute) noexcept {
        index_store store;
        if (plan_.index_output == result_output::with_window)
            store = {index, plan_.indices[4], base_, plan_.index.per_channel != 0};
        if (plan_.values == result_output::with_window) {
            compute(window_results_of<T>{to, results_.offset, nullptr, plan_.dst[4], plan_.panel_width, store});
            if (plan_.index_output == result_output::buffered) store_indices(index, count);
            return;
        }
        // whole lines of a plane may wait for one another
        if (h == box_.first[1] || count < plan_.axes[2].small || waiting_ + count > plan_.waiting_windows) flush();
        if (waiting_ == 0) {
            to_ = to;
            index_ = index;
        }
        window_results_of<accumulate_t<T>> results = results_.at(waiting_, 0);
        results.index = store;
        compute(results);
        waiting_ += count;
    }

    /// Writes what waits.
    void flush() noexcept {
        if (waiting_ == 0) return;
        unpack_lanes(results_.value, plan_.panel_width, used_, waiting_, to_, plan_.dst[1], plan_.dst[4],
                     plan_.output == output_mode::accumulate);
        if (plan_.index_output == result_output::buffered) store_indices(index_, waiting_);
        waiting_ = 0;
    }

    /// Stores the indices of `count` windows, the first of which go to `to`, from their offsets.
    void store_indices(std::int64_t* to, std::int64_t count) const noexcept {
        const std::int64_t step = plan_.indices[4];
        for (std::int64_t j = store_squares(to, count); j < used_; ++j) {
            std::int64_t* const line = to + j * plan_.indices[1];
            const std::int64_t first = base_ + j * plan_.index.per_channel;
            for (std::int64_t w = 0; w < count; ++w) {
                const std::int64_t offset = results_.offset_at(w * plan_.panel_width + j);
                line[w * step] = offset < 0 ? -1 : first + offset * plan_.index.per_offset;
            }
        }
    }

    /// By squares of offsets that are indices, where the windows of a channel are neighbours. Returns the number of channels
    /// stored.
    [[nodiscard]] std::int64_t store_squares(std::int64_t* to, std::int64_t count) const noexcept {
        const std::int64_t channel_step = plan_.indices[1];
        std::int64_t j = 0;
        bool fits = plan_.offsets_are_indices() && plan_.indices[4] == 1 && count >= lanes;
        for (std::int64_t w = 0; w < count && fits; ++w)  // where one channel of a window has no inside tap, none has
            fits = to_bits(results_.offset[w * plan_.panel_width]) != no_offset;
        if (!fits) return j;
        for (; j + lanes <= used_; j += lanes) {
            for (std::int64_t next = 0; next < count; next += lanes) {
                const std::int64_t w = std::min(next, count - lanes);  // the last square overlaps its predecessor
                accumulate_t<T> square[bound(lanes * lanes)];
                simd::transpose(static_cast<const accumulate_t<T>*>(results_.offset + w * plan_.panel_width + j),
                                plan_.panel_width, square, lanes);
                for (std::int64_t i = 0; i < lanes; ++i) {
                    std::int64_t* const line = to + (j + i) * channel_step + w;
                    for (std::int64_t k = 0; k < lanes; k += simd::line_elements<std::int64_t>)
                        simd::prefetch_to_write(line, lanes * channel_step + k);
                    simd::store_bits_plus(line, simd::load(square + i * lanes),
                                          base_ + (j + i) * plan_.index.per_channel);
                }
            }
        }
        return j;
    }

    const windows_plan& plan_;
    std::int64_t base_;         // index of the panel's first channel at offset 0
    std::int64_t waiting_ = 0;  // windows whose results are in scratch
    T* to_ = nullptr;           // where the first of them goes
    std::int64_t* index_ = nullptr;
};

/// Runs a plan. All checks have passed.
template <class T>
void run_path(const windows_plan& w, const T* src, T* dst, std::int64_t* indices, std::span<std::byte> workspace,
              executor_ref executor) noexcept {
    run_plan<windows_task<T>>(w, workspace, executor, src, dst, indices);
}

}  // namespace detail::max_pool
GRADKERN_ISA_NAMESPACE_END
