// Path `lines` of the average engine: vertical sums of a line, then horizontal sums of that.
//
//     loops         task > item > row: (vertical) row read > block of the line; (horizontal) run > block or position > column
//     lanes         channels where those are neighbours or transposed, else columns
//     taken when    what a line reads fits a scratch line and is not sparse
//     gain          over taps: 11x11 s1 of 8 x 3 x 128x128 NCX forward 1970 -> 300 us, backward 82200 -> 369 us (Sapphire Rapids, one core,
//                   g++ 12 -O2, f32, both forced by `algorithm`). The ring of quotients: 3x3 s1 of 13 x 192 x 35x35 NXC
//                   backward 2130 -> 1920 us, 11x11 541 -> 281 us
//     zoo           16 of 20 layers: forward 9 in NXC and 12 in NCX, backward 8 and 4
//     delete when   never: the general path of windows that overlap
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/horizontal.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/avg_pool/segment_worker.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

struct lines_plan : segment_plan {
    static constexpr algorithm name = algorithm::lines;

    shape::axis run_axis{};      // columns; where borders are zeros, one that clips nothing
    std::int64_t run_shift = 0;  // its reads are shifted by this
    strided_sums strided = strided_sums::by_position;
    std::int64_t at_phases = 0;
};

/// Whether what one column of the output reads fits a scratch line.
[[nodiscard]] constexpr bool lines_fit(const problem& p) noexcept {
    const std::int64_t inner = is_profitable_to_transpose(p) ? p.planes : p.inner;
    return reads_at_most(p.axes[2], p.outputs, 1) <= sizes_for(p).most_line / std::min<std::int64_t>(inner, 16);
}

/// A plan with its segments alone.
[[nodiscard]] constexpr lines_plan cut_lines(const problem& p) noexcept {
    auto g = with_channels<lines_plan>(p);
    choose_segment(g);
    return g;
}

/// Windows far apart, or with taps far apart, would have columns summed that few of them read.
[[nodiscard]] constexpr bool lines_are_profitable(const problem& p) noexcept {
    const lines_plan g = cut_lines(p);
    return reads_at_most(g.axes[2], g.outputs, g.segment) / 8 / g.axes[2].taps_met(g.outputs) <= g.segment;
}

/// Lets runs read zeros behind the borders, if that does not make the scratch line much longer: then all positions of one
/// phase of the stride are one run.
constexpr void extend_lines(lines_plan& g) noexcept {
    const shape::axis& a = g.axes[2];
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t taps = a.taps_met(g.outputs);
    const auto whole = static_cast<double>(taps) * static_cast<double>(columns);
    const auto inside =
        static_cast<double>(g.is_backward() ? a.small : columns) * static_cast<double>(std::min(a.kernel, a.large));
    if (span_at_most(a, g.outputs, g.segment) > sizes_for(g).most_line / g.inner_block ||
        (taps > 16 && whole > 8 * inside))
        return;
    const std::int64_t shift = g.is_backward() ? a.reach() / a.stride + 1 : a.pad_begin;
    const shape::checked shifted = shape::checked(shift) * a.stride + a.pad_begin + columns;
    if (g.is_backward() && !shifted.ok()) return;
    g.borders = border::zeros;
    g.run_shift = shift;
    if (g.is_backward()) {
        g.run_axis.pad_begin += shift * a.stride;
        g.run_axis.small = (columns - 1 + g.run_axis.pad_begin) / a.stride + 1;
    } else {
        g.run_axis.pad_begin = 0;
        g.run_axis.large = (a.small - 1) * a.stride + a.reach() + 1;
    }
}

/// Reserves room for the phases of a stride, where the channels of a strip do not fill a vector.
constexpr void reserve_phases(slice_layout& slice, lines_plan& g) noexcept {
    const std::int64_t lanes = g.real.lanes;
    const shape::axis& a = g.axes[2];
    const std::int64_t last_strip = g.inner - (g.strips() - 1) * g.inner_block;
    if (last_strip >= lanes || a.stride == 1) return;
    const std::int64_t inner = g.inner_block < lanes ? g.inner_block : last_strip;
    if (g.is_backward()) {
        g.at_phases =
            slice.reserve(std::min(a.stride, g.segment) * shape::ceil_div(g.segment, a.stride) * inner, g.real.bytes);
    } else if (!g.long_columns && inner == 1 && a.stride <= 16 && a.kernel >= a.stride / 2) {
        g.strided = strided_sums::by_phase;
        g.at_phases = slice.reserve(shape::ceil_div(g.reads, a.stride) * a.stride, g.real.bytes);
    }
}

[[nodiscard]] constexpr lines_plan make_lines(const problem& p) noexcept {
    lines_plan g = cut_lines(p);
    g.run_axis = g.axes[2];
    extend_lines(g);
    const bool clips = g.borders == border::clipped;
    if (clips) g.segment = std::min(g.segment, sizes_for(g).columns);
    g.reads = clips ? reads_at_most(g.axes[2], g.outputs, g.segment) : span_at_most(g.axes[2], g.outputs, g.segment);
    choose_tasks(g);
    choose_ring(g);
    slice_layout slice;
    reserve_lines(slice, g, g.segment * g.inner_block);
    reserve_phases(slice, g);
    reserve_runs(slice, g, clips ? g.segment : std::min(g.position_step(2), g.segment));
    reserve_rest(slice, g);
    return g;
}

template <class T, shape::side Outputs>
class worker<algorithm::lines, T, Outputs> : public segment_worker<T, Outputs> {
    using base = segment_worker<T, Outputs>;
    using base::divisors_, base::is_backward, base::result_, base::s_, base::sums_, base::vertical_;

public:
    worker(const lines_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : base(plan, in, out, slice),
          plan_(plan),
          runs_(s_, slice),
          horizontal_(s_, runs_, plan.strided, array_at<accumulate_t<T>>(slice, plan.at_phases)) {}

    void run(std::int64_t task) noexcept { this->compute_task(*this, task); }

    void set_columns() noexcept {
        runs_.set(plan_.run_axis, plan_.run_shift);
        // the zeros behind the borders stay as they are through all lines
        if (s_.has_zeros()) own::fill(sums_, sums_ + s_.buffered * s_.inner, accumulate_t<T>{0});
        divisors_.count(is_backward ? s_.all_reads() : s_.all_columns());
    }

    std::int64_t compute_lines(std::int64_t h, const axis_reads& rows, bool is_same, T* out) noexcept {
        const T* const line = single_line(rows);
        if (line == nullptr && !is_same && s_.reads > 0)
            vertical_.sum(h, rows, s_.all_reads(), sums_ + (s_.first_read - s_.origin) * s_.inner);
        if (!is_direct()) {
            if (!is_same || !is_backward) horizontal_.sum(sums_or(line), result_);
            this->finish_line(h, out);
        } else if constexpr (is_backward) {
            horizontal_.sum_runs(sums_, 0, s_.columns, out);
        } else {
            line != nullptr ? divide_sums(line, h, out) : divide_sums(sums_, h, out);
        }
        return 1;
    }

private:
    /// True where sums may go to the output without a stop in result_.
    [[nodiscard]] bool is_direct() const noexcept {
        return (is_backward || divisors_.is_uniform() || s_.inner > 1) && !s_.p.accumulates() && runs_.parts() <= 1 &&
               s_.is_dense(s_.p.out, s_.p.out_inner, s_.columns) && !s_.is_narrow() &&
               runs_.most_reads() <= lines_at_once;
    }

    /// Forward: the one line of the input that an output line reads, where its columns are read in place; else null.
    /// Only elements of the type of the sums go anywhere from there but straight to the output.
    [[nodiscard]] const T* single_line(const axis_reads& rows) const noexcept {
        const bool can_go_on =
            simd::is_wide<T> ? !s_.is_narrow() || plan_.strided == strided_sums::by_phase : is_direct();
        const bool is_single = !is_backward && !s_.has_zeros() && can_go_on && s_.depths.count * rows.count == 1 &&
                               s_.reads > 0 && s_.is_dense(s_.p.in, s_.p.in_inner, s_.reads);
        return is_single ? vertical_.line_at(s_.depths.first, rows.first, s_.all_reads()) : nullptr;
    }
    /// What horizontal sums read: that line, or the scratch line.
    [[nodiscard]] const accumulate_t<T>* sums_or(const T* line) const noexcept {
        if constexpr (simd::is_wide<T>) {
            if (line != nullptr) return line;
        }
        return sums_;
    }

    /// Forward: horizontal sums of a line, divided on the way to the output.
    template <class In>
    void divide_sums(const In* sums, std::int64_t h, T* out) noexcept {
        divisors_.set_line(s_.depth, h);
        divisors_.for_each_equal(s_.columns, [&](std::int64_t begin, std::int64_t end, const auto& divide) {
            horizontal_.sum_runs(sums, begin, end, out, divide);
        });
    }

    const lines_plan& plan_;
    column_runs runs_;
    horizontal_sums<accumulate_t<T>> horizontal_;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
