// Micro-kernels of the weight gradients of depthwise layers whose windows slide along the columns: while the outputs of a line
// pass, the sums of all column taps stay in registers, for three lines of the window,
//
//     sums[i][k][j]  +=  sum over outputs o, with column(o, k) = first + o * Stride + k inside, of
//                            a[a_row[i] + column(o, k) * a_step + j]  *  b[b_row + o * b_step + j]
//
// so that each number of both sides is read, and of 16 bits widened, once for all of these taps. Terms are added in the order
// of register_tile.hpp, so that the bits are the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/simd.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Column taps, and lines of the window, whose sums a kernel keeps: with outputs and a number they fill 16 registers.
inline constexpr int sliding_sum_taps = 3;
inline constexpr int sliding_sum_lines = 3;
inline constexpr int most_sliding_stride = 2;

/// Arguments of a kernel; offsets and steps in elements. a and b are f32 in name only.
template <class Real>
struct sliding_sums_call_of {
    const Real* a = nullptr;
    const Real* b = nullptr;
    std::array<std::ptrdiff_t, sliding_sum_lines> a_row{};  ///< to column 0 of each line
    std::ptrdiff_t b_row = 0;
    std::ptrdiff_t a_step = 0;
    std::ptrdiff_t b_step = 0;
    std::ptrdiff_t a_ahead = 0;  ///< to the lines of the next outputs
    std::ptrdiff_t b_ahead = 0;
    std::ptrdiff_t columns = 0;  ///< of a
    std::ptrdiff_t first = 0;    ///< column that the first tap of the first output meets
    std::ptrdiff_t outputs = 0;
    /// Newest outputs [whole, whole_end): with those they look back to, they meet columns that are all inside.
    std::ptrdiff_t whole = 0;
    std::ptrdiff_t whole_end = 0;
    std::array<Real*, sliding_sum_lines> sums{};  ///< [tap][lane]; lines may be the same
};
using sliding_sums_call = sliding_sums_call_of<float>;

/// Adds the terms of a vector of lanes, output by output: the newest one, and those it looks back to, meet the same columns.
template <operand A, int Stride, class Real = float>
GRADKERN_NOINLINE void sliding_sums(const sliding_sums_call_of<Real>& call) noexcept {
    using vec = simd::vec_of<Real>;
    using number = row_number<A, Real>;
    constexpr int taps = sliding_sum_taps;
    constexpr int rows = sliding_sum_lines;
    constexpr int look_back = (taps - 1) / Stride;  // outputs before the newest one that meet one column
    constexpr std::ptrdiff_t width = simd::lanes_of<Real>;
    const number* const b = reinterpret_cast<const number*>(call.b) + call.b_row;
    Real* const* const sums = call.sums.data();
    const number* a[bound(rows)];
    vec acc[bound(rows)][bound(taps)];
    GRADKERN_UNROLL
    for (int i = 0; i < rows; ++i) {
        a[i] = reinterpret_cast<const number*>(call.a) + call.a_row.data()[i];
        GRADKERN_UNROLL
        for (int k = 0; k < taps; ++k) acc[i][k] = simd::load(sums[i] + k * width);
    }
    // Vectors in one line of the cache: the first of them prefetches.
    const bool prefetches = call.b_row % simd::line_elements<number> < width;
    vec g[bound(look_back + 1)];  // the newest output comes last
    GRADKERN_UNROLL
    for (int j = 0; j <= look_back; ++j) g[j] = simd::zero<Real>();
    const auto next_output = [&](std::ptrdiff_t b_at) GRADKERN_INLINE_LAMBDA {
        GRADKERN_UNROLL
        for (int j = 0; j < look_back; ++j) g[j] = g[j + 1];
        g[look_back] = load_lanes<A, Real>(b + b_at);
    };
    std::ptrdiff_t newest = 0;
    for (const bool is_first : {true, false}) {
        const std::ptrdiff_t end = is_first ? call.whole : call.outputs + look_back;
        // At borders: the terms whose output and column are inside.
        GRADKERN_NO_UNROLL
        for (; newest < end; ++newest) {
            next_output(std::min(newest, call.outputs - 1) * call.b_step);
            GRADKERN_UNROLL
            for (int k = 0; k < taps; ++k) {
                const std::ptrdiff_t output = newest - k / Stride;
                const std::ptrdiff_t column = call.first + newest * Stride + k % Stride;
                if (output < 0 || output >= call.outputs || column < 0 || column >= call.columns) continue;
                GRADKERN_UNROLL
                for (int i = 0; i < rows; ++i)
                    acc[i][k] = simd::fma(load_lanes<A, Real>(a[i] + column * call.a_step), g[look_back - k / Stride],
                                          acc[i][k]);
            }
        }
        if (!is_first) break;
        std::ptrdiff_t at = (call.first + newest * Stride) * call.a_step;
        std::ptrdiff_t b_at = newest * call.b_step;
        GRADKERN_NO_UNROLL
        for (; newest < call.whole_end; ++newest, b_at += call.b_step) {
            next_output(b_at);
            if (prefetches) simd::prefetch_to_l2(b, b_at + call.b_ahead);
            GRADKERN_UNROLL
            for (int s = 0; s < Stride; ++s, at += call.a_step) {
                GRADKERN_UNROLL
                for (int i = 0; i < rows; ++i) {
                    if (prefetches && i >= rows - Stride)
                        simd::prefetch_to_l2(a[i], at + call.a_ahead);  // the others were there
                    const vec x = simd::keep(load_lanes<A, Real>(a[i] + at));
                    GRADKERN_UNROLL
                    for (int k = s; k < taps; k += Stride)
                        acc[i][k] = simd::fma(x, g[look_back - k / Stride], acc[i][k]);
                }
            }
        }
    }
    GRADKERN_UNROLL
    for (int i = 0; i < rows; ++i) {
        GRADKERN_UNROLL
        for (int k = 0; k < taps; ++k) simd::store(sums[i] + k * width, acc[i][k]);
    }
}

/// The kernels for a type, for strides from 1 on.
template <class Real>
using sliding_sums_kernels_of = std::array<void (*)(const sliding_sums_call_of<Real>&) noexcept, most_sliding_stride>;
template <operand A, class Real = float>
inline constexpr sliding_sums_kernels_of<Real> sliding_sums_of{{&sliding_sums<A, 1, Real>, &sliding_sums<A, 2, Real>}};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
