// Path `non_overlapping` of the average engine: gradients where each column belongs to one window at most. Nothing is added
// horizontally: the vertical sum of a window is the result of all its columns.
//
//     loops         task > item > row, or rows that read the same: (vertical) row read > block; window > its columns
//     lanes         channels where those are neighbours, else columns
//     taken when    windows of a gradient do not overlap along the columns, and nine channels or more lie on the lines, or fill a vector
//     gain          over lines: global pools of 32 x 1280 x 7x7 NXC 2800 -> 297 us, NCX 8240 -> 318 us, 2x2 s2 of 3 x 256 x 56x56 NXC
//                   525 -> 419 us. Channels stored to all rows that read the same at once: 596 -> 468 us of the latter, 576 -> 303 us
//                   of global pools (Sapphire Rapids, one core, g++ 12 -O2, f32, both forced by `algorithm`)
//     zoo           13 of 20 layers: NXC avg2s2_*, global_*, avg7s7_64, pspnet_bin3, avg1d_k2_256, avg3d_global, avg3d_2x1x1;
//                   NCX global_*, lpips_like_avg4, avg1d_k2_256, avg3d_global
//     delete when   the gain over lines is below 3 %
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/avg_pool/segment_worker.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/micro/line_stores.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

struct non_overlapping_plan : segment_plan {
    static constexpr algorithm name = algorithm::non_overlapping;
};

[[nodiscard]] constexpr bool windows_do_not_overlap(const problem& p) noexcept {
    const shape::axis& w = p.axes[2];
    return p.is_backward() && w.dilation == 1 && (w.small == 1 || w.kernel <= w.stride);
}

/// Stores of few channels are short: lines are faster, which store many columns at once, but for windows so wide that a line has
/// fewer than four, and so are channels that lines transpose. (Least scratch is the same on all CPUs.)
[[nodiscard]] constexpr bool non_overlapping_is_profitable(const problem& p) noexcept {
    const std::int64_t lanes = p.real.lanes;
    const std::int64_t enough = p.elements == element_kind::sums ? std::min<std::int64_t>(9, lanes) : lanes;
    if (p.scratch == scratch_use::least) return true;
    return p.inner == 1 ? !is_profitable_to_transpose(p) : p.inner >= enough || p.axes[2].small < 4;
}

/// Channels need no line of results, but one of the zeros of columns without a window.
[[nodiscard]] constexpr non_overlapping_plan make_non_overlapping(const problem& p) noexcept {
    auto g = plan_of<non_overlapping_plan>(p);
    const std::int64_t stride = g.axes[2].stride;
    const std::int64_t line = sizes_for(g).line;
    g.inner_block = std::min(g.inner, line);
    even_strips(g);
    g.segment = shape::even_part(g.out_extent(2), longest_segment(g, line, g.inner > 1 ? 4 : 1));
    if (g.segment < g.out_extent(2) && g.segment > stride) g.segment -= g.segment % stride;
    g.reads = reads_at_most(g.axes[2], g.outputs, g.segment);
    choose_tasks(g);
    choose_ring(g);
    slice_layout slice;
    reserve_lines(slice, g, g.inner > 1 ? g.inner_block : g.segment);
    reserve_rest(slice, g);
    return g;
}

template <class T>
class worker<algorithm::non_overlapping, T, shape::side::large> : public segment_worker<T, shape::side::large> {
    using base = segment_worker<T, shape::side::large>;
    using base::divisors_, base::result_, base::s_, base::sums_, base::vertical_;

public:
    using base::base;

    void run(std::int64_t task) noexcept { this->compute_task(*this, task); }

    void set_columns() noexcept {
        if (s_.p.inner > 1) own::fill(result_, result_ + s_.inner, accumulate_t<T>{0});  // for columns without a window
        divisors_.count(s_.all_reads());
    }
    void store_zeros(T* out) const noexcept {
        if (s_.p.inner == 1) return base::store_zeros(out);
        store_columns(result_, 1, 0, s_.columns, 1, out);
    }

    std::int64_t compute_lines(std::int64_t h, const axis_reads& rows, bool is_same, T* out) noexcept {
        if (!is_same && s_.reads > 0) vertical_.sum(h, rows, s_.all_reads(), sums_);
        if (s_.p.inner > 1) {
            std::int64_t lines = 1;
            while (h + lines < s_.last_line && s_.rows_of(h + lines) == rows) ++lines;
            store_tiles(lines, out);
            return lines;
        }
        if (!s_.p.accumulates() && s_.is_dense(s_.p.out, s_.p.out_inner, s_.columns)) {
            // rounded, if the sums in result_ are not yet the same
            repeat_values(as_elements<T>(sums_, is_same ? 0 : s_.reads, result_), out);
        } else {
            if (!is_same) repeat_values(sums_, result_);
            s_.store_line(result_, out);
        }
        return 1;
    }

private:
    /// Calls repeat(values, windows, column, count) for the segment's columns in ascending order: `windows` neighbours in the line
    /// `sums`, whose values go to `count` columns each, from `column` on. Null are those of columns without a window.
    template <class V, class Repeat>
    void for_each_tile(const V* sums, const Repeat& repeat) const noexcept {
        const shape::axis& a = s_.p.axes[2];
        std::int64_t q = s_.first_column;  // next position
        const std::int64_t end = s_.first_column + s_.columns;
        const auto up_to = [&](const V* values, std::int64_t to) {
            if (q >= to) return;
            repeat(values, 1, q - s_.first_column, to - q);
            q = to;
        };
        for (std::int64_t o = s_.first_read; o < s_.first_read + s_.reads;) {
            const V* const values = sums + (o - s_.first_read) * s_.inner;
            const std::int64_t from = a.position(o, 0);
            const bool whole = from >= q && a.kernel <= end - from;
            up_to(nullptr, std::min(end, from));
            std::int64_t windows = 1;
            if (whole && a.kernel == a.stride) {  // they lie side by side
                windows = std::min(s_.first_read + s_.reads - o, (end - from) / a.stride);
                repeat(values, windows, from - s_.first_column, a.stride);
                q = from + windows * a.stride;
            } else {
                up_to(values, from + std::min(a.kernel, end - from));
            }
            o += windows;
        }
        up_to(nullptr, end);
    }

    /// Stores the channels of `windows` columns, which are neighbours, to `count` columns each, from `column` on, of `lines`
    /// lines.
    void store_columns(const accumulate_t<T>* channels, std::int64_t windows, std::int64_t column, std::int64_t count,
                       std::int64_t lines, T* out) const noexcept {
        const std::int64_t step = s_.p.out[4];
        const line_copies copies{count, count > 1 ? step : 0, lines, lines > 1 ? s_.p.out[3] : 0};
        const std::int64_t next = windows > 1 ? count * step : 0;
        out += column * step;
        if (!s_.p.accumulates()) return repeat_lines(channels, s_.inner, windows, copies, out, next);
        for (std::int64_t w = 0; w < windows; ++w)
            copies.for_each([&](std::ptrdiff_t copy) {
                accumulate_line(channels + w * s_.inner, s_.inner, out + w * next + copy);
            });
    }

    /// Repeats the channels of each window over its columns, straight to the output, in each of `lines` rows.
    void store_tiles(std::int64_t lines, T* out) const noexcept {
        for_each_tile(
            sums_, [&](const accumulate_t<T>* values, std::int64_t windows, std::int64_t column, std::int64_t count) {
                store_columns(values == nullptr ? result_ : values, windows, column, count, lines, out);
            });
    }

    /// Repeats the value of each window over its columns, as elements of the line's type: into the output, or a line of results.
    template <class V>
    void repeat_values(const V* line, V* out) const noexcept {
        for_each_tile(line, [&](const V* values, std::int64_t windows, std::int64_t column, std::int64_t count) {
            if (values == nullptr) return own::fill_n(out + column, count, V{});
            const std::int64_t block = std::max<std::int64_t>(1, 256 / count);  // windows
            for (std::int64_t w = 0; w < windows; w += block) {
                const std::int64_t some = std::min(block, windows - w);
                V* const to = out + column + w * count;
                simd::prefetch_stream_to_write(to, some * count);
                repeat_each(values + w, some, count, to);
            }
        });
    }
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
