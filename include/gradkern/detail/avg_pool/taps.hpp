// Path `taps` of the average engine: for each tap of the columns, vertical sums of the columns that it reads are added to the
// results.
//
//     loops         task > item > row > class of columns with the same taps > tap > (vertical) row read > block of the line
//     lanes         channels where those are neighbours or transposed, else columns
//     taken when    what a line reads does not fit a scratch line, or few columns of it are read
//     gain          needs no more scratch than results
//     zoo           none
//     delete when   never: windows and dilations may be of any size
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/avg_pool/segment_worker.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

struct taps_plan : segment_plan {
    static constexpr algorithm name = algorithm::taps;
};

[[nodiscard]] constexpr taps_plan make_taps(const problem& p) noexcept {
    auto g = with_channels<taps_plan>(p);
    choose_segment(g);
    g.segment = std::min(g.out_extent(2), std::max<std::int64_t>(1, sizes_for(g).columns / g.inner_block));
    g.reads = g.segment;
    choose_tasks(g);
    slice_layout slice;
    reserve_lines(slice, g, g.segment * g.inner_block);
    reserve_runs(slice, g, g.segment);
    reserve_rest(slice, g);
    return g;
}

template <class T, shape::side Outputs>
class worker<algorithm::taps, T, Outputs> : public segment_worker<T, Outputs> {
    using base = segment_worker<T, Outputs>;
    using base::divisors_, base::is_backward, base::result_, base::s_, base::sums_, base::vertical_;

public:
    worker(const taps_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : base(plan, in, out, slice), runs_(s_, slice) {}

    void run(std::int64_t task) noexcept { this->compute_task(*this, task); }

    void set_columns() noexcept { runs_.set(s_.p.axes[2], 0); }

    std::int64_t compute_lines(std::int64_t h, const axis_reads& rows, bool is_same, T* out) noexcept {
        if (!is_same || !is_backward) runs_.sum_parts(result_, [&] { sum_taps(h, rows); });
        if constexpr (!is_backward) divisors_.count(s_.all_columns());
        this->finish_line(h, out);
        return 1;
    }

private:
    /// Tap by tap, in ascending order of the columns read.
    GRADKERN_NOINLINE void sum_taps(std::int64_t h, const axis_reads& rows) noexcept {
        own::fill(result_, result_ + s_.columns * s_.inner, accumulate_t<T>{0});
        runs_.for_each([&](const column_run& run) {
            for (std::int64_t k = 0; k < run.count; ++k) {
                const std::int64_t first = s_.origin + run.first + k * s_.p.read_step(2);
                const input_columns read{first, run.positions == 1 ? 1 : s_.p.advance(2), run.positions};
                if constexpr (is_backward) divisors_.count(read);
                vertical_.sum(h, rows, read, sums_);
                add_columns(run.positions, result_ + run.begin * s_.inner);
            }
        });
    }
    /// Adds `count` columns of vertical sums to those of a class of output columns.
    void add_columns(std::int64_t count, accumulate_t<T>* out) const noexcept {
        const std::int64_t step = s_.p.position_step(2);
        const std::int64_t length = step == 1 ? count * s_.inner : s_.inner;
        for (std::int64_t i = 0; i < count * s_.inner / length; ++i) {
            const accumulate_t<T>* const source = sums_ + i * s_.inner;
            sum_lines<true>(&source, 1, length, out + i * step * s_.inner);
        }
    }

    column_runs runs_;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
