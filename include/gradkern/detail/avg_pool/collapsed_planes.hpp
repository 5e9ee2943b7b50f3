// Path `collapsed_planes` of the average engine: small planes, whose windows move by one position, as one line.
//
// Planes of H x W follow one another in both memories, and outputs have as many rows and columns as inputs. So what is s rows,
// or columns, from output i is element i + s * W, or i + s, of the block, but near the ends of a plane, or a row, which would
// read the one before or behind: there taps do not count. Each step is one of the whole block: forward the elements as f32,
// backward their quotients; vertical sums; horizontal sums of these, finished.
//
//     loops         task (block of planes) > step > block of the line > tap
//     lanes         neighbouring positions, over the ends of rows and planes
//     taken when    planes have at most 256 positions and follow one another, and windows keep their size
//     gain          over transposed lines: 3x3 s1 of 32 x 1280 x 8x8 NCX forward 6970 -> 1290 us, backward 5790 -> 1320 us (collapsed_lines
//                   8150 and 12100 us; Sapphire Rapids, one core, g++ 12 -O2, f32, both forced by `algorithm`)
//     zoo           1 of 20 layers, in NCX: avg3s1p1_1280; avgpool_small_3x3s1p1_64_7 of the named cases
//     delete when   the gain over transposed lines is below 3 %
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradkern/detail/avg_pool/line_taps.hpp>
#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/axes/collapse.hpp>
#include <gradkern/detail/axes/span.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/line_quotients.hpp>
#include <gradkern/detail/micro/line_sums.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::avg_pool {

struct collapsed_planes_plan : block_plan {
    static constexpr algorithm name = algorithm::collapsed_planes;

    std::int64_t margin = 0;  // floats before and behind the elements and the vertical sums

    std::int64_t at_source = 0;  // byte offsets in a slice
    std::int64_t at_vertical = 0;
    std::int64_t at_divisors = 0;
    std::int64_t at_inside = 0;  // of the taps
};

/// Plans blocks of so many planes.
[[nodiscard]] constexpr collapsed_planes_plan plan_planes(const problem& p, std::int64_t group) noexcept {
    auto g = plan_of<collapsed_planes_plan>(p);
    const std::int64_t columns = g.out_extent(2);
    const std::int64_t plane = g.out_extent(1) * columns;
    g.line_block = g.out_extent(1);
    g.group = group;
    g.margin = shape::ceil_div(columns * g.axes[1].kernel * g.axes[1].dilation, 16) * 16;
    slice_layout slice;
    g.at_source = slice.reserve<float>(group * plane + 2 * g.margin);
    g.at_vertical = slice.reserve<float>(group * plane + 2 * g.margin);
    g.at_divisors = slice.reserve<float>(g.divisors.is_uniform() ? 0 : group * plane + std::int64_t{simd::lanes});
    g.at_inside = slice.reserve<float>(g.axes[1].kernel * line_taps::floats(plane) +
                                       g.axes[2].kernel * line_taps::floats(columns));
    g.slice_bytes = slice.bytes();
    return g;
}
[[nodiscard]] constexpr bool fits_stack(const collapsed_planes_plan& g) noexcept {
    return workspace_for(g.slice_bytes, 1) <= stack_workspace;
}

/// Whether planes follow one another in both memories, windows move along them by one position, all have taps inside, and a
/// plane fits the stack.
[[nodiscard]] constexpr bool collapsed_planes_fit(const problem& p) noexcept {
    constexpr std::int64_t most = stack_slice / std::int64_t{sizeof(float)};
    const std::int64_t columns = p.out_extent(2);
    const std::int64_t lines = p.out_extent(1);
    const auto keeps_extent = [](const shape::axis& a) {
        return a.stride == 1 && a.small == a.large && a.kernel <= lines_at_once && a.reach() <= a.large / 2 &&
               a.pad_begin <= a.reach();
    };
    const auto is_one_line = [&](const shape::canonical_strides& s) {
        return s[4] == 1 && continues(s[3], columns, 1) && planes_are_one_line(s, p.batch, p.planes, lines * columns);
    };
    return p.scratch == scratch_use::fast && p.inner == 1 && !p.accumulates() && is_single(p.axes[0]) &&
           p.batch * p.planes > 0 && columns <= most && lines <= most / columns && keeps_extent(p.axes[1]) &&
           keeps_extent(p.axes[2]) && is_one_line(p.in) && is_one_line(p.out) && fits_stack(plan_planes(p, 1));
}

[[nodiscard]] constexpr bool collapsed_planes_are_profitable(const problem& p) noexcept {
    constexpr std::int64_t largest = 256;
    return p.out_extent(1) * p.out_extent(2) <= largest && p.batch * p.planes > 1;
}

/// Plans as many planes at a time as fit the stack.
[[nodiscard]] constexpr collapsed_planes_plan make_collapsed_planes(const problem& p) noexcept {
    constexpr std::int64_t block = 768;  // outputs
    std::int64_t most = std::max<std::int64_t>(1, block / p.out_extent(1) / p.out_extent(2));
    for (; most > 1; --most) {
        const collapsed_planes_plan g = plan_planes(p, shape::even_part(p.batch * p.planes, most));
        if (fits_stack(g)) return g;
    }
    return plan_planes(p, 1);
}

/// The taps of axis number i, whose positions are `unit` elements each and repeat every `period` elements.
[[nodiscard]] inline line_taps taps_of_axis(const problem& p, std::size_t i, std::int64_t unit, std::int64_t period,
                                            float* inside) noexcept {
    line_taps taps(period, inside);
    std::int64_t offset = read_span(p.axes[i], p.outputs, 0, 1).first * unit;
    for (std::int64_t k = 0; k < p.axes[i].kernel; ++k, offset += p.read_step(i) * unit) {
        const std::int64_t begin = std::clamp<std::int64_t>(-offset, 0, period);
        taps.push(offset, begin, std::clamp<std::int64_t>(period - offset, begin, period));
    }
    return taps;
}

template <class T, shape::side Outputs>
class worker<algorithm::collapsed_planes, T, Outputs> {
public:
    worker(const collapsed_planes_plan& plan, const T* in, T* out, std::byte* slice) noexcept
        : p_(plan),
          in_(in),
          out_(out),
          columns_(plan.out_extent(2)),
          plane_(plan.out_extent(1) * columns_),
          source_(array_at<float>(slice, plan.at_source) + plan.margin),
          vertical_(array_at<float>(slice, plan.at_vertical) + plan.margin),
          divisors_(array_at<float>(slice, plan.at_divisors)),
          rows_(taps_of_axis(plan, 1, columns_, plane_, array_at<float>(slice, plan.at_inside))),
          line_(taps_of_axis(plan, 2, 1, columns_, rows_.end())) {
        if (!plan.divisors.is_uniform()) set_divisors();
    }

    /// Computes block number `task`.
    void run(std::int64_t task) noexcept {
        const std::int64_t first = task * p_.group * plane_;
        const std::int64_t n = std::min(p_.batch * p_.planes * plane_ - first, p_.group * plane_);
        if constexpr (Outputs == shape::side::small) {
            simd::widen(in_ + first, source_, n);
        } else if (p_.divisors.is_uniform()) {
            divide_by_one<addend::zero>(in_ + first, n, divisor(p_.divisors.uniform), source_);
        } else {
            quotients<addend::zero>(in_ + first, n, source_, over_each{divisors_});
        }
        const float* sums = source_;
        if (rows_.count() > 1) {
            rows_.sum<prefetch::none>(source_, n, vertical_, as_it_is{});
            sums = vertical_;
        }
        const auto sum_line = [&](const auto& finish) { line_.sum<prefetch::ahead>(sums, n, out_ + first, finish); };
        if constexpr (Outputs == shape::side::large) {
            sum_line(as_it_is{});
        } else if (p_.divisors.is_uniform()) {
            with_division(divisor(p_.divisors.uniform), sum_line);
        } else {
            sum_line(over_each{divisors_});
        }
    }

private:
    /// The divisors of a plane, and of as many as a block has.
    void set_divisors() noexcept {
        float* to = divisors_;
        for (std::int64_t h = 0; h < p_.axes[1].small; ++h) {
            const std::int64_t taps = p_.divisors.counted_rows(p_.divisors.counted(0, 0), h);
            for (std::int64_t x = 0; x < columns_; ++x)
                *to++ = divisor_rule::of_count(taps * p_.divisors.counted_columns(x));
        }
        repeat_period(divisors_, plane_, p_.group * plane_ + std::int64_t{simd::lanes});
    }

    const collapsed_planes_plan& p_;
    const T* in_;
    T* out_;
    std::int64_t columns_;
    std::int64_t plane_;  // elements
    float* source_;
    float* vertical_;
    float* divisors_;
    line_taps rows_;
    line_taps line_;
};

}  // namespace detail::avg_pool
GRADKERN_ISA_NAMESPACE_END
