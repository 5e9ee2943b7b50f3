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
#include <cstdint>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/bound.hpp>
#include <gradkern/detail/micro/tile_operands.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/check.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Column taps, and lines of the window, whose sums a kernel keeps: with outputs and a number they fill 16 registers.
inline constexpr int sliding_sum_taps = 3;
inline constexpr int sliding_sum_lines = 3;
inline constexpr int most_sliding_stride = 2;

/// Arguments of a kernel; offsets and steps in elements. a and b are f32 in name only.
struct sliding_sums_call {
    const float* a = nullptr;
    const float* b = nullptr;
    std::array<std::ptrdiff_t, sliding_sum_lines> a_row{};  ///< to column 0 of each line
    std::ptrdiff_t b_row = 0;
    std::ptrdiff_t a_step = 0;
    std::ptrdiff_t b_step = 0;
    std::ptrdiff_t a_ahead = 0;  ///< to the lines of the next outputs
    std::ptrdiff_t b_ahead = 0;
    std::ptrdiff_t columns = 0;  ///< of a
    std::ptrdiff_t first = 0;    ///< column that the first tap of the first output meets
    std::ptrdiff_t stride = 1;
    std::ptrdiff_t outputs = 0;
    /// Newest outputs [whole, whole_end): with those they look back to, they meet columns that are all inside.
    std::ptrdiff_t whole = 0;
    std::ptrdiff_t whole_end = 0;
    std::array<float*, sliding_sum_lines> sums{};  ///< [tap][lane]
    std::size_t lines = 0;                         ///< those that differ; the others are the last of them again
};

/// Adds, of the terms of a vector of lanes, those of each tap that go with the newest outputs [from, to): one by one, at
/// borders.
template <operand A>
GRADKERN_NOINLINE void add_border_terms(const sliding_sums_call& call, std::ptrdiff_t from,
                                        std::ptrdiff_t to) noexcept {
    using number = row_number<A>;
    for (std::ptrdiff_t k = 0; k < sliding_sum_taps; ++k) {
        const std::ptrdiff_t look_back = k / call.stride;
        const std::ptrdiff_t inside = -(call.first + k);  // columns from that of output 0 to column 0
        const std::ptrdiff_t begin =
            std::max({from - look_back, std::ptrdiff_t{0}, shape::ceil_div(inside, call.stride)});
        const std::ptrdiff_t end =
            std::min({to - look_back, call.outputs, shape::ceil_div(inside + call.columns, call.stride)});
        for (std::ptrdiff_t o = begin; o < end; ++o) {
            const std::ptrdiff_t column = call.first + o * call.stride + k;
            const simd::vec g = load_lanes<A>(reinterpret_cast<const number*>(call.b) + call.b_row + o * call.b_step);
            for (std::size_t i = 0; i < call.lines; ++i) {
                const number* const a = reinterpret_cast<const number*>(call.a) + call.a_row[i] + column * call.a_step;
                float* const sum = call.sums[i] + k * simd::lanes;
                simd::store(sum, simd::fma(load_lanes<A>(a), g, simd::load(sum)));
            }
        }
    }
}

/// The others, of which there are some, for a vector of lanes.
template <operand A, int Stride>
GRADKERN_NOINLINE void sliding_sums(const sliding_sums_call& call) noexcept {
    using simd::vec;
    using number = row_number<A>;
    constexpr int taps = sliding_sum_taps;
    constexpr int rows = sliding_sum_lines;
    constexpr int look_back = (taps - 1) / Stride;  // outputs before the newest one that meet one column
    constexpr std::ptrdiff_t width = simd::lanes;
    const number* b = reinterpret_cast<const number*>(call.b) + call.b_row;
    float* const* const sums = call.sums.data();
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
    std::ptrdiff_t at = (call.first + call.whole * Stride) * call.a_step;
    std::ptrdiff_t b_at = (call.whole - look_back) * call.b_step;
    vec g[bound(look_back + 1)];  // the newest output comes last
    GRADKERN_UNROLL
    for (int j = 0; j < look_back; ++j, b_at += call.b_step) g[j + 1] = load_lanes<A>(b + b_at);
    GRADKERN_NO_UNROLL
    for (std::ptrdiff_t left = call.whole_end - call.whole; left != 0; --left, b_at += call.b_step) {
        GRADKERN_UNROLL
        for (int j = 0; j < look_back; ++j) g[j] = g[j + 1];
        g[look_back] = load_lanes<A>(b + b_at);
        if (prefetches) simd::prefetch_to_l2(b, b_at + call.b_ahead);
        GRADKERN_UNROLL
        for (int s = 0; s < Stride; ++s, at += call.a_step) {
            GRADKERN_UNROLL
            for (int i = 0; i < rows; ++i) {
                if (prefetches && i >= rows - Stride)
                    simd::prefetch_to_l2(a[i], at + call.a_ahead);  // the others were there
                const vec x = simd::keep(load_lanes<A>(a[i] + at));
                GRADKERN_UNROLL
                for (int k = s; k < taps; k += Stride) acc[i][k] = simd::fma(x, g[look_back - k / Stride], acc[i][k]);
            }
        }
    }
    GRADKERN_UNROLL
    for (int i = 0; i < rows; ++i) {
        GRADKERN_UNROLL
        for (int k = 0; k < taps; ++k) simd::store(sums[i] + k * width, acc[i][k]);
    }
}

/// The kernels for a type.
struct sliding_sums_kernels {
    void (*border)(const sliding_sums_call&, std::ptrdiff_t from, std::ptrdiff_t to) noexcept;
    std::array<void (*)(const sliding_sums_call&) noexcept, most_sliding_stride> whole;  // for strides from 1 on
};
template <operand A>
inline constexpr sliding_sums_kernels sliding_sums_of{&add_border_terms<A>,
                                                      {{&sliding_sums<A, 1>, &sliding_sums<A, 2>}}};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
