// Path `windows` of the average engine: means of whole windows go from the input to the output in registers (window_sums.hpp).
//
//     loops         task > item > row > columns with one divisor > run > column > vector of channels > tap
//     lanes         channels, which are neighbours in memory
//     taken when    windows share few columns and read few rows, or are small: 2x2, 3x3
//     gain          over lines: 2x2 s2 of 3 x 256 x 56x56 NXC 468 -> 404 us, global pools of 32 x 1280 x 7x7 334 -> 280 us (Sapphire
//                   Rapids, one core, g++ 12 -O2, f32, both forced by `algorithm`); 1-d 0.58 -> 0.40 ms, 2x2x2 0.20 -> 0.18
//                   ms (Zen 5, dda7a0c)
//     zoo           12 of 20 layers, in NXC: avg2s2_*, global_*, avg5s3_512, avg7s7_64, pspnet_bin3, avg1d_k2_256, avg3d_2x1x1
//     delete when   the gain over lines is below 3 %
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/avg_pool/segment_worker.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/micro/window_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

struct windows_plan : segment_plan {
    static constexpr algorithm name = algorithm::windows;

    prefetch rows = prefetch::none;  // that windows read
};

/// Rows that a window reads, at all depths; more than lines_at_once where they are too many.
[[nodiscard]] constexpr std::int64_t window_rows(const problem& p) noexcept {
    const std::int64_t depths = std::min(p.axes[0].kernel, p.axes[0].large);
    const std::int64_t rows = std::min(p.axes[1].kernel, p.axes[1].large);
    return depths > lines_at_once || rows > lines_at_once ? lines_at_once + 1 : depths * rows;
}

[[nodiscard]] constexpr bool windows_fit(const problem& p) noexcept {
    return !p.is_backward() && !p.accumulates() && p.inner >= p.real.lanes && p.in_inner == 1 && p.out_inner == 1 &&
           window_rows(p) <= lines_at_once;
}

/// Elements of another type than sums are converted for each window that reads them: overlapping windows are faster whole
/// where they read very few.
[[nodiscard]] constexpr bool windows_are_profitable(const problem& p) noexcept {
    const shape::axis& w = p.axes[2];
    if (is_profitable_to_transpose(p)) return false;  // vectors of one lane
    if (w.small == 1 || !windows_overlap(w)) return true;
    const bool is_wide = p.elements == element_kind::sums;
    if (w.kernel / 2 < w.stride && (is_wide || window_rows(p) <= 4)) return true;
    // Windows that are about as few loads as sums of rows and then of columns, which are stored between. Not of few channels or short
    // lines (3x3, 16 to 48 channels: 1.1 to 2.5 times the time of lines; 64 of 56 columns: 1.0; more: 0.74 to 1.1; Emerald Rapids).
    const std::int64_t least = p.real.in_memory_of(64);
    const std::int64_t rows = window_rows(p);
    const std::int64_t columns = std::min(w.kernel, w.large);
    const bool whole = p.inner % p.real.lanes == 0 || p.inner >= 8 * p.real.lanes;
    const bool is_long = p.inner >= least && p.inner * w.small >= 32 * least;
    return is_wide && whole && is_long && columns <= 8 && rows * columns <= rows + columns + 4;
}

/// Whether rows are prefetched: those that are read from memory, by CPUs that are faster for it.
[[nodiscard]] constexpr prefetch prefetch_of_rows(const problem& p) noexcept {
    const std::int64_t read = p.batch * p.planes * p.inner * p.in_extent(0) * p.in_extent(1) * p.in_extent(2);
    const bool is_cached = read <= target.cache.last_level / p.real.bytes;
    return target.quirk.prefetch_streams && !is_cached ? prefetch::ahead : prefetch::none;
}

/// Cuts strips and segments, which need no scratch line, unless sums are long. The last strip fills a vector, too.
[[nodiscard]] constexpr windows_plan make_windows(const problem& p) noexcept {
    auto g = plan_of<windows_plan>(p);
    g.rows = prefetch_of_rows(p);
    const segment_sizes sizes = sizes_for(g);
    g.inner_block = std::min(g.inner, shape::ceil_div(shape::even_part(g.inner, sizes.line), 16) * 16);
    while (g.inner % g.inner_block != 0 && g.inner % g.inner_block < p.real.lanes) g.inner_block += 16;
    g.segment =
        shape::even_part(g.out_extent(2), std::clamp<std::int64_t>(sizes.line / g.inner_block, 1, sizes.columns));
    g.reads = reads_at_most(g.axes[2], g.outputs, g.segment);
    choose_tasks(g);
    slice_layout slice;
    g.at_result = slice.reserve(g.long_columns ? g.segment * g.inner_block : 0, g.real.bytes);
    reserve_runs(slice, g, g.segment);
    reserve_rest(slice, g);
    return g;
}

template <class T>
class worker<algorithm::windows, T, shape::side::small> : public segment_worker<T, shape::side::small> {
    using base = segment_worker<T, shape::side::small>;
    using base::divisors_, base::result_, base::s_, base::vertical_;

public:
    worker(const windows_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : base(plan, in, out, slice), rows_(plan.rows), runs_(s_, slice) {}

    void run(std::int64_t task) noexcept { this->compute_task(*this, task); }

    void set_columns() noexcept {
        runs_.set(s_.p.axes[2], 0);
        divisors_.count(s_.all_columns());
    }
    GRADKERN_NOINLINE void store_zeros(T* out) const noexcept {
        for (std::int64_t x = 0; x < s_.columns; ++x) own::fill_n(out + x * out_column(), s_.inner, T{});
    }

    GRADKERN_NOINLINE std::int64_t compute_lines(std::int64_t h, const axis_reads& rows, bool, T* out) noexcept {
        line_count_ = 0;
        s_.for_each_line(rows, s_.all_lines(rows), [&](std::int64_t d, std::int64_t row, std::int64_t) {
            lines_[line_count_++] = vertical_.line_at(d, row, s_.all_reads());
        });
        if (runs_.parts() > 1) {
            runs_.sum_parts(result_, [&] { sum(0, s_.columns, result_, s_.inner, as_it_is{}); });
            this->finish_line(h, out);
            return 1;
        }
        divisors_.set_line(s_.depth, h);
        divisors_.for_each_equal(s_.columns, [&](std::int64_t begin, std::int64_t end, const auto& divide) {
            sum(begin, end, out, out_column(), divide);
        });
        return 1;
    }

private:
    /// From one column to the next. Steps that nobody takes are not formed.
    [[nodiscard]] std::int64_t in_column() const noexcept { return s_.reads > 1 ? s_.p.in[4] : 0; }
    [[nodiscard]] std::int64_t out_column() const noexcept { return s_.columns > 1 ? s_.p.out[4] : 0; }

    /// Sums and finishes the windows of the segment's columns [begin, end), whose results are `step` elements apart.
    template <class Out, class Finish>
    void sum(std::int64_t begin, std::int64_t end, Out* out, std::int64_t step, const Finish& finish) const noexcept {
        runs_.for_each(begin, end, [&](const column_run& run, std::int64_t first, std::int64_t last) {
            const std::int64_t advance = run.count > 0 && run.positions > 1 ? s_.p.advance(2) * in_column() : 0;
            const window_reads<T> w{lines_.data(), static_cast<std::ptrdiff_t>(line_count_),
                                    run.first * in_column() + first * advance, run.count,
                                    s_.column_step() * in_column()};
            with_prefetch(target.quirk.prefetch_streams ? rows_ : prefetch::none,
                          [&]<prefetch Reads>(std::integral_constant<prefetch, Reads>) {
                              sum_windows<Reads>(w, s_.inner, last - first, advance, prefetch::none,
                                                 out + (run.begin + first) * step, step, finish);
                          });
        });
    }

    prefetch rows_;
    column_runs runs_;
    std::array<const T*, lines_at_once> lines_;  // rows read, at the first column that the segment reads
    std::size_t line_count_ = 0;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
