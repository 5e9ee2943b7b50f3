// Where the values and indices of max pooling go.
//
// Results of neighbouring channels are stored by the kernel as soon as they are found: memory takes them while other windows
// are compared. All others wait in scratch for the rest of their segment; where lines of dst follow one another, for the rest
// of some lines, since many short lines are slower than one long one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/index_rule.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/max_pool/window_plan.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/pack/panels.hpp>
#include <gradkern/detail/run/boxes.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What is packed of a line: what windows read, or all of it.
enum class packed_lines : std::uint8_t { as_read, whole };
/// When a result is stored.
enum class result_output : std::uint8_t {
    none,
    with_window,  ///< by the kernel
    buffered      ///< from scratch
};
/// What a linear offset counts: pixels of a plane, or indices, which are as many as 30 bits can say.
enum class offset_unit : std::uint8_t { pixels, indices };

/// Where results go.
struct result_plan {
    shape::canonical_strides dst{};
    shape::canonical_strides indices{};
    index_rule index{};
    std::array<std::int64_t, 3> offset_steps{};  // from pixel to pixel
    output_mode output = output_mode::overwrite;
    result_output values = result_output::buffered;
    result_output index_output = result_output::none;
    offset_unit unit = offset_unit::pixels;
    bool collapses_lines = false;  // results of several lines wait for one another
    std::int64_t windows = 0;      // whose results scratch holds

    constexpr result_plan() noexcept = default;
    constexpr result_plan(const max_pool_problem& p, window_access access) noexcept
        : dst(p.dst), indices(p.indices), index(p.index), offset_steps(p.index.offset_steps), output(p.output) {
        const bool is_strided = access == window_access::strided;
        if (!is_strided && p.plane() < offset_limit / std::max<std::int64_t>(index.per_offset, 1)) {
            unit = offset_unit::indices;
            for (std::int64_t& step : offset_steps) step *= index.per_offset;
        }
        if (dst[1] == 1 && output == output_mode::overwrite && !is_strided) values = result_output::with_window;
        if (p.writes_indices)
            index_output = indices[1] == 1 && unit == offset_unit::indices && index.per_channel <= 1
                               ? result_output::with_window
                               : result_output::buffered;
    }

    /// Decides how many windows wait.
    constexpr void choose_lines(const max_pool_problem& p, const window_plan& w, packed_lines packing) noexcept {
        const std::int64_t columns = p.axes[2].small;
        windows = w.columns;
        collapses_lines = false;
        if (packing == packed_lines::as_read || p.scratch == scratch_use::least || w.access == window_access::strided ||
            dst[1] == 1 || columns <= 1 || w.columns != columns || w.panel_width * columns > max_results ||
            !continues(dst[3], columns, dst[4]))
            return;
        windows *= std::min(w.boxes.box(1), max_results / (columns * w.panel_width));
        collapses_lines = index_output != result_output::buffered || continues(indices[3], columns, indices[4]);
    }
};

/// Writes the results of one task.
template <class T>
class result_writer {
public:
    /// `dst`, `indices`: of the tensors; `scratch`: for the results that wait.
    result_writer(const window_plan& w, const result_plan& r, const box_grid::item& box, std::int64_t first_channel,
                  std::int64_t used, T* dst, std::int64_t* indices, const window_results& scratch) noexcept
        : plan_(r),
          panel_width_(w.panel_width),
          line_(w.axes[2].small),
          first_line_(box.first[1]),
          used_(used),
          base_(box.first_image * r.index.per_image + first_channel * r.index.per_channel),
          dst_(dst + (box.first_image * r.dst[0] + first_channel * r.dst[1])),
          indices_(r.index_output == result_output::none
                       ? nullptr
                       : indices + (box.first_image * r.indices[0] + first_channel * r.indices[1])),
          scratch_(scratch) {}

    /// Writes the windows [first, last) of line (d, h), which compute(results) stores where `results` says.
    template <class Compute>
    GRADKERN_ALWAYS_INLINE void write(std::int64_t d, std::int64_t h, std::int64_t first, std::int64_t last,
                                      const Compute& compute) noexcept {
        const shape::canonical_strides& y = plan_.dst;
        const shape::canonical_strides& z = plan_.indices;
        T* const to = dst_ + (d * y[2] + h * y[3] + first * y[4]);
        std::int64_t* const index = indices_ == nullptr ? nullptr : indices_ + (d * z[2] + h * z[3] + first * z[4]);
        index_store store;
        if (plan_.index_output == result_output::with_window)
            store = {index, z[4], base_, plan_.index.per_channel != 0};
        const std::int64_t count = last - first;
        if (plan_.values == result_output::with_window) {
            compute(window_results_of<T>{to, scratch_.offset, nullptr, y[4], panel_width_, store});
            if (plan_.index_output == result_output::buffered) store_indices(index, count);
            return;
        }
        // whole lines of a plane may wait for one another
        if (!plan_.collapses_lines || h == first_line_ || count < line_ || waiting_ + count > plan_.windows) flush();
        if (waiting_ == 0) {
            to_ = to;
            index_ = index;
        }
        window_results results = scratch_.at(waiting_, 0);
        results.index = store;
        compute(results);
        waiting_ += count;
    }

    /// Writes what waits.
    void flush() noexcept {
        if (waiting_ == 0) return;
        unpack_lanes(scratch_.value, panel_width_, used_, waiting_, to_, plan_.dst[1], plan_.dst[4],
                     plan_.output == output_mode::accumulate);
        if (plan_.index_output == result_output::buffered) store_indices(index_, waiting_);
        waiting_ = 0;
    }

private:
    /// Stores the indices of `count` windows, the first of which go to `to`, from their offsets.
    void store_indices(std::int64_t* to, std::int64_t count) const noexcept {
        const bool is_fast = plan_.unit == offset_unit::indices && !any_empty(count);
        const std::int64_t done = is_fast ? store_squares(to, count) : 0;
        if (plan_.indices[1] == 1) {
            for (std::int64_t w = 0; w < count; ++w)
                for (std::int64_t j = done; j < used_; ++j) store_one(to, w, j);
        } else if (is_fast) {
            for (std::int64_t j = done; j < used_; ++j) store_line(to, count, j);
        } else {
            for (std::int64_t j = done; j < used_; ++j)
                for (std::int64_t w = 0; w < count; ++w) store_one(to, w, j);
        }
    }

    /// By squares of offsets, where the windows of a channel are neighbours. Returns the number of channels stored.
    [[nodiscard]] std::int64_t store_squares(std::int64_t* to, std::int64_t count) const noexcept {
        constexpr std::int64_t lanes = simd::lanes;
        const std::int64_t channel_step = plan_.indices[1];
        std::int64_t j = 0;
        if (plan_.indices[4] != 1 || count < lanes) return j;
        for (; j + lanes <= used_; j += lanes) {
            for (std::int64_t next = 0; next < count; next += lanes) {
                const std::int64_t w = std::min(next, count - lanes);  // the last square overlaps its predecessor
                float square[lanes * lanes];
                simd::transpose(scratch_.offset + w * panel_width_ + j, panel_width_, square, lanes);
                for (std::int64_t i = 0; i < lanes; ++i) {
                    std::int64_t* const line = to + (j + i) * channel_step + w;
                    for (std::int64_t k = 0; k < lanes; k += simd::line_elements<std::int64_t>)
                        simd::prefetch_to_write(line, lanes * channel_step + k);
                    simd::store_bits_plus(line, simd::load(square + i * lanes), first_index(j + i));
                }
            }
        }
        return j;
    }
    /// The windows of one channel, all of which have inside taps.
    void store_line(std::int64_t* to, std::int64_t count, std::int64_t channel) const noexcept {
        const std::int64_t first = first_index(channel);
        const std::int64_t step = plan_.indices[4];
        const float* const offset = scratch_.offset + channel;
        to += channel * plan_.indices[1];
        for (std::int64_t w = 0; w < count; ++w)
            to[w * step] = first + own::bit_cast<std::uint32_t>(offset[w * panel_width_]);
    }
    void store_one(std::int64_t* to, std::int64_t window, std::int64_t channel) const noexcept {
        const std::int64_t offset = scratch_.offset_at(window * panel_width_ + channel);
        const std::int64_t per_offset = plan_.unit == offset_unit::indices ? 1 : plan_.index.per_offset;
        to[channel * plan_.indices[1] + window * plan_.indices[4]] =
            offset < 0 ? -1 : first_index(channel) + offset * per_offset;
    }
    [[nodiscard]] std::int64_t first_index(std::int64_t channel) const noexcept {
        return base_ + channel * plan_.index.per_channel;
    }

    /// Whether one of the windows has no inside tap: none of its channels has.
    [[nodiscard]] bool any_empty(std::int64_t count) const noexcept {
        bool any = false;
        for (std::int64_t w = 0; w < count; ++w)
            any = any || own::bit_cast<std::uint32_t>(scratch_.offset[w * panel_width_]) == no_offset;
        return any;
    }

    const result_plan& plan_;
    std::int64_t panel_width_;
    std::int64_t line_;
    std::int64_t first_line_;
    std::int64_t used_;
    std::int64_t base_;      // index of the panel's first channel at offset 0
    T* dst_;                 // element of the panel's first channel at the image's origin
    std::int64_t* indices_;  // the same
    window_results scratch_;
    std::int64_t waiting_ = 0;  // windows whose results are in scratch
    T* to_ = nullptr;           // where the first of them goes
    std::int64_t* index_ = nullptr;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
