// Horizontal sums of the average engine: over the columns of a line of vertical sums, as sums of shifted lines.
//
// Loops: run of output columns (avg_pool/segment.hpp) > block of the line (line_sums.hpp), or position, where neighbours do not
// read neighbours (window_sums.hpp). With a stride and very few channels:
//
//     backward    a line of sums for each phase of the stride, then all interleaved
//     forward     the columns of each phase put side by side, so that windows are neighbours; else position by position
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/reads.hpp>
#include <gradkern/detail/avg_pool/segment.hpp>
#include <gradkern/detail/avg_pool/segment_plan.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_phases.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/micro/window_sums.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

/// How columns that few channels have are summed forward with a stride: position by position, or after the columns of each
/// phase of the stride were put side by side.
enum class strided_sums : std::uint8_t { by_position, by_phase };

template <class Real>
class horizontal_sums {
public:
    /// `phases`: scratch for the phases of a stride.
    horizontal_sums(const segment_place& s, column_runs& runs, strided_sums strided, Real* phases) noexcept
        : s_(s), runs_(runs), strided_(strided), phases_(phases) {}

    /// out = the horizontal sums of all columns of the segment, from the line `sums`.
    void sum(const Real* sums, Real* out) noexcept {
        runs_.sum_parts(out, [&] {
            if (!s_.is_narrow()) {
                sum_runs(sums, 0, s_.columns, out);
            } else if (s_.p.is_backward()) {
                sum_phases(sums, out);
            } else {
                sum_strided(sums, out);
            }
        });
    }

    /// The same where a position's values fill vectors, or neighbours read neighbours: those of columns [begin, end) of
    /// the segment; backward all of them. Finishes sums on the way, but those of more than lines_at_once columns.
    template <class In, class Out, class Finish = as_it_is>
    void sum_runs(const In* sums, std::int64_t begin, std::int64_t end, Out* out,
                  const Finish& finish = {}) const noexcept {
        const std::int64_t step = s_.p.position_step(2);
        const std::int64_t advance = s_.p.advance(2);
        const std::int64_t inner = s_.inner;
        const std::int64_t read_step = s_.column_step() * inner;
        runs_.for_each(begin, end, [&](const column_run& run, std::int64_t first, std::int64_t last) {
            if (step == 1 && advance == 1) {
                sum_shifted(sums + (run.first + first) * inner, run.count, read_step, (last - first) * inner,
                            out + (run.begin + first) * inner, finish);
            } else {
                const In* const line = sums;
                const std::int64_t width = last - first > 1 ? inner : 0;  // steps that nobody takes are not formed
                const std::int64_t from = run.count == 0 ? 0 : first * advance * inner;
                const window_reads<In> w{&line, 1, run.first * inner + from, run.count, read_step};
                // 16-bit results are written no faster than memory takes them
                const prefetch writes = simd::is_wide<Out> ? prefetch::ahead : prefetch::none;
                sum_windows<prefetch::none>(w, inner, last - first, run.count == 0 ? 0 : advance * width, writes,
                                            out + (run.begin + first * step) * inner, step * width, finish);
            }
        });
    }

private:
    /// out[x] = sums of `count` lines of n values, the first at `first`, `step` values apart: those of lines_at_once at most are
    /// finished.
    template <class In, class Out, class Finish = as_it_is>
    void sum_shifted(const In* first, std::int64_t count, std::int64_t step, std::int64_t n, Out* out,
                     const Finish& finish = {}) const noexcept {
        std::array<const In*, lines_at_once> lines;
        const std::int64_t here = std::min<std::int64_t>(count, lines_at_once);
        for (std::int64_t k = 0; k < here; ++k) lines[static_cast<std::size_t>(k)] = first + k * step;
        sum_lines<false, prefetch::none>(lines.data(), here, n, out, finish);
        if constexpr (simd::is_wide<Out>) {  // other outputs take no more lines
            for (std::int64_t done = here; done < count; done += lines_at_once) {
                const std::int64_t more = std::min<std::int64_t>(count - done, lines_at_once);
                for (std::int64_t k = 0; k < more; ++k) lines[static_cast<std::size_t>(k)] = first + (done + k) * step;
                sum_lines<true, prefetch::none>(lines.data(), more, n, out);
            }
        }
    }

    /// Backward with a stride and few channels.
    void sum_phases(const Real* sums, Real* out) const noexcept {
        const std::int64_t stride = s_.p.axes[2].stride;
        const std::int64_t inner = s_.inner;
        const std::int64_t pitch = shape::ceil_div(s_.columns, stride) * inner;
        runs_.for_each([&](const column_run& run) {
            sum_shifted(sums + run.first * inner, run.count, s_.column_step() * inner, run.positions * inner,
                        phases_ + run.begin % stride * pitch + run.begin / stride * inner);
        });
        if (stride == 2 && inner == 1) {
            interleave_two(phases_, phases_ + pitch, s_.columns / 2, out);
            if (s_.columns % 2 != 0) out[s_.columns - 1] = phases_[s_.columns / 2];
            return;
        }
        for (std::int64_t f = 0; f < std::min(stride, s_.columns); ++f) {
            const Real* phase = phases_ + f * pitch;
            const std::int64_t positions = shape::ceil_div(s_.columns - f, stride);
            for (std::int64_t i = 0; i < positions; ++i)
                for (std::int64_t c = 0; c < inner; ++c) out[(f + i * stride) * inner + c] = *phase++;
        }
    }

    /// Forward with a stride and few channels.
    void sum_strided(const Real* sums, Real* out) const noexcept {
        const std::int64_t stride = s_.p.axes[2].stride;
        const std::int64_t pitch = shape::ceil_div(s_.p.reads, stride);
        const bool by_phase = strided_ == strided_sums::by_phase;
        if (by_phase) separate(sums, s_.buffered, stride, pitch, phases_);
        runs_.for_each([&](const column_run& run) {
            if (by_phase && run.positions >= 4 && run.count <= lines_at_once) {
                sum_by_phase(run, pitch, out + run.begin);
            } else {
                sum_by_position(run, sums, out + run.begin * s_.inner);
            }
        });
    }
    void sum_by_phase(const column_run& run, std::int64_t pitch, Real* out) const noexcept {
        const std::int64_t stride = s_.p.axes[2].stride;
        std::array<const Real*, lines_at_once> list;
        for (std::int64_t k = 0; k < run.count; ++k) {
            const std::int64_t column = run.first + k * s_.p.read_step(2);
            list[static_cast<std::size_t>(k)] = phases_ + column % stride * pitch + column / stride;
        }
        sum_lines<false>(list.data(), run.count, run.positions, out);
    }
    void sum_by_position(const column_run& run, const Real* sums, Real* out) const noexcept {
        const std::int64_t inner = s_.inner;
        const std::int64_t read_step = s_.column_step() * inner;
        for (std::int64_t i = 0; i < run.positions; ++i) {
            // no taps: no position either
            const std::int64_t first = run.count == 0 ? 0 : run.first + i * s_.p.axes[2].stride;
            for (std::int64_t c = 0; c < inner; c += simd::lanes_of<Real>) {
                const auto lanes = std::min<std::ptrdiff_t>(simd::lanes_of<Real>, inner - c);
                const Real* const source = sums + first * inner + c;
                simd::vec_of<Real> sum = simd::zero<Real>();
                for (std::int64_t k = 0; k < run.count; ++k)
                    sum = simd::add(sum, simd::load_partial(source + k * read_step, lanes));
                simd::store_partial(out + i * inner + c, sum, lanes);
            }
        }
    }

    const segment_place& s_;
    column_runs& runs_;
    strided_sums strided_;
    Real* phases_;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
