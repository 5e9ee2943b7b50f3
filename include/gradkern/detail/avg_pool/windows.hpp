// Whole windows of the average engine: forward, with channels in the lanes, means of windows that share few columns go from
// the input to the output in registers (window_sums.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradkern/detail/avg_pool/divisors.hpp>
#include <gradkern/detail/avg_pool/plan.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/micro/window_sums.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Whether windows are summed whole: they hardly overlap along the columns, and read few lines. 16-bit elements are widened
/// for each window that reads them, so that overlapping windows had better read very few. `f32`: whether elements are floats.
[[nodiscard]] constexpr bool sums_whole_windows(const average_plan& g, bool f32) noexcept {
    if (g.backward || g.accumulate || g.inner < simd::lanes || g.in_inner != 1 || g.out_inner != 1) return false;
    const shape::axis& w = g.axes[2];
    const bool overlap = w.small > 1 && windows_overlap(w);
    if (overlap && w.kernel / 2 >= w.stride) return false;
    const std::int64_t most = overlap && !f32 ? 4 : lines_at_once;
    const auto taps = [&](std::size_t i) { return std::min(g.axes[i].kernel, g.axes[i].large); };
    return taps(0) <= most && taps(1) <= most / taps(0);
}

/// The sums of the windows of the segment's columns in a line whose windows read `rows`; line_at(d, h): the first column that
/// the segment reads, in that line of the input.
template <class T>
class whole_windows {
public:
    template <class LineAt>
    whole_windows(const average_segment& s, const axis_reads& rows, const LineAt& line_at) noexcept
        : s_(s), column_(s.reads > 1 ? s.p.in[4] : 0) {  // steps that nobody takes are not formed
        s.for_each_line_read(rows, s.all_lines(rows),
                             [&](std::int64_t d, std::int64_t h) { lines_[line_count_++] = line_at(d, h); });
    }

    /// Finishes those of the columns [begin, end), `out_column` elements apart.
    template <class Out, class Finish>
    void sum(std::int64_t begin, std::int64_t end, Out* out, std::int64_t out_column,
             const Finish& finish) const noexcept {
        s_.for_each_run(begin, end, [&](const column_run& run, std::int64_t first, std::int64_t last) {
            const std::int64_t advance = run.count > 0 && run.positions > 1 ? s_.p.advance() * column_ : 0;
            const window_reads<T> w{lines_.data(), static_cast<std::ptrdiff_t>(line_count_),
                                    run.first * column_ + first * advance, run.count, s_.column_step() * column_};
            with_ahead(target.quirk.prefetch_streams && s_.p.is_large,
                       [&]<ahead Reads>(std::integral_constant<ahead, Reads>) {
                           sum_windows<Reads, ahead::leave>(w, s_.inner, last - first, advance,
                                                            out + (run.begin + first) * out_column, out_column, finish);
                       });
        });
    }

private:
    const average_segment& s_;
    std::int64_t column_;
    std::array<const T*, lines_at_once> lines_;
    std::size_t line_count_ = 0;
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
