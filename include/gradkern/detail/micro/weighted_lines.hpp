// The micro-kernels of depthwise layers whose lanes are positions: sums of weighted lines, of which some count in some
// columns only.
#pragma once

#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A tap along the columns of a line: where its first column is, and in which columns it counts.
struct column_tap {
    std::int64_t offset = 0;
    const float* inside = nullptr;  // more than 0 where it counts; null: everywhere
};

/// Lines of outputs that meet the same taps: output line i, column x is
///
///     +0 + sum over d in [0, depths), h in [0, rows), t in [0, columns), in this order, of the t that count in column x, of
///          first[d * depth_step + (i + h * row_step) * pitch + taps[t].offset + x] * weights[d * weights_step + h * columns + t]
///
/// by fused multiply-adds.
struct weighted_lines {
    const float* first = nullptr;
    std::int64_t depths = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t depth_step = 0;
    std::int64_t row_step = 0;
    std::int64_t pitch = 0;  // floats from line to line of inputs and outputs
    const column_tap* taps = nullptr;
    const float* weights = nullptr;
    std::int64_t weights_step = 0;  // from depth to depth
};

/// x * weight + sum, or the sum where the tap does not count.
struct counts_everywhere {
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec operator()(simd::vec x, simd::vec w, simd::vec sum) const noexcept {
        return simd::fma(x, w, sum);
    }
};
struct counts_inside {
    simd::mask inside;
    [[nodiscard]] GRADKERN_ALWAYS_INLINE simd::vec operator()(simd::vec x, simd::vec w, simd::vec sum) const noexcept {
        return simd::select(inside, simd::fma(x, w, sum), sum);
    }
};
/// Calls f(what counts in the vector from `column` on).
template <class F>
GRADKERN_ALWAYS_INLINE void with_inside(const column_tap& tap, std::int64_t column, const F& f) noexcept {
    if (tap.inside == nullptr) {
        f(counts_everywhere{});
    } else {
        f(counts_inside{simd::greater(simd::load(tap.inside + column), simd::zero())});
    }
}

/// V vectors, `step` apart, that lie alike in their lines: those of positions x + v * step, in `column` of a line.
template <int V>
GRADKERN_ALWAYS_INLINE void weigh_vectors(const weighted_lines& l, std::int64_t x, std::int64_t step,
                                          std::int64_t column, std::int64_t used, float* out) noexcept {
    simd::vec s[bound(V)];
    GRADKERN_UNROLL
    for (int v = 0; v < V; ++v) s[v] = simd::zero();
    for (std::int64_t d = 0; d < l.depths; ++d) {
        const float* weight = l.weights + d * l.weights_step;
        for (std::int64_t h = 0; h < l.rows; ++h) {
            const float* const line = l.first + (d * l.depth_step + h * l.row_step * l.pitch + x);
            for (const column_tap* t = l.taps; t != l.taps + l.columns; ++t) {
                const simd::vec w = simd::broadcast(*weight++);
                with_inside(*t, column, [&](const auto& add) GRADKERN_INLINE_LAMBDA {
                    GRADKERN_UNROLL
                    for (int v = 0; v < V; ++v) s[v] = add(simd::load(line + t->offset + v * step), w, s[v]);
                });
            }
        }
    }
    GRADKERN_UNROLL
    for (int v = 0; v < V; ++v) simd::store_partial(out + x + v * step, s[v], used);
}

/// V stretches of n positions, `step` apart, that begin with a line.
template <int V>
inline void weigh_stretches(const weighted_lines& l, std::int64_t n, std::int64_t step, float* out) noexcept {
    constexpr std::int64_t lanes = simd::lanes;
    const std::int64_t turn = lanes % l.pitch;
    std::int64_t column = 0;
    for (std::int64_t x = 0; x < n; x += lanes) {
        weigh_vectors<V>(l, x, step, column, n - x, out);
        column += column + turn < l.pitch ? turn : turn - l.pitch;
    }
}

/// Computes `lines` lines of `width` columns. What `inside` points to is readable for a vector more than a line, the inputs
/// for a vector behind the last column; between the columns of two lines anything may be written.
GRADKERN_NOINLINE inline void weigh_lines(const weighted_lines& l, std::int64_t lines, std::int64_t width,
                                          float* out) noexcept {
    // Vectors run on from line to line. Four lines far apart have the same columns; some are computed twice, alike.
    const std::int64_t step = lines / 4;
    if (step > 0) {
        weigh_stretches<4>(l, (lines - 3 * step - 1) * l.pitch + width, step * l.pitch, out);
    } else {
        weigh_stretches<1>(l, (lines - 1) * l.pitch + width, 0, out);
    }
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
