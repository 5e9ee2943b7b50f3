// How far results may be from the exact ones: published bounds, one function per operator.
//
// Each function returns a factor c such that, before the result is rounded to its type T,
//
//     |result - exact| <= c * unit_roundoff * S,        S = the sum of the absolute values of all terms
//
// where a term of an average pool is an element after its division. It holds for strict precision (what relaxed precision
// keeps stands in options.hpp), finite data and sums that stay in the normal range of f32 (each subnormal intermediate may
// add 2^-150). Shapes and attributes must be those of a problem that the operator accepts. The factors follow from the order
// of summation, which shapes alone decide: one rounding for each term of the longest part, one for each part added. A bias,
// and the previous value where the output accumulates, are one more term each: they count in S and add 1 to c, which is what
// `more_terms` is for. 16-bit results are rounded once more:
//
//     |T(r) - r| <= result_roundoff<T> * |r|            (normal results; subnormal ones: half the smallest subnormal)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/plan/summation.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace accuracy {

/// 2^-24: half the distance from 1 to the next f32.
inline constexpr double unit_roundoff = 1.0 / (1 << 24);

/// Relative error of the final rounding to T: 0 for f32, whose sums are results already.
template <element T>
inline constexpr double result_roundoff = element_traits<T>::type == data_type::f16    ? 1.0 / (1 << 11)
                                          : element_traits<T>::type == data_type::bf16 ? 1.0 / (1 << 8)
                                                                                       : 0.0;

/// The factor of n roundings on top of one another: (1 + u)^n - 1 <= n * u / (1 - n * u). Infinite from 2^24 on, where
/// nothing is left to promise.
[[nodiscard]] constexpr double roundings(std::int64_t n) noexcept {
    if (n >= 1 << 24) return std::numeric_limits<double>::infinity();
    return static_cast<double>(n) / (1.0 - static_cast<double>(n) * unit_roundoff);
}

/// Forward and data gradients: outputs that are sums of up to `terms` (channel, inside tap) pairs.
[[nodiscard]] constexpr double gather(std::int64_t terms, int more_terms = 0) noexcept {
    // A part is closed when the next stretch, of up to channel_block terms, would not fit: only the last is shorter.
    constexpr std::int64_t shortest_part = detail::part_terms - detail::channel_block + 1;
    return roundings(std::min(terms, detail::part_terms) + terms / shortest_part + more_terms);
}

/// Weight and bias gradients: sums over `lines` * `width` positions of the small side, see detail/plan/summation.hpp.
[[nodiscard]] constexpr double reduction(std::int64_t lines, std::int64_t width, int more_terms = 0) noexcept {
    const detail::chunk_grid chunks(lines, width);
    if (chunks.count == 0) return roundings(more_terms);
    const std::int64_t terms = std::min({detail::chunk_positions, lines * width, chunks.lines_per_chunk * width});
    return roundings(terms + std::min(chunks.count, detail::chunks_per_sum) - 1 +
                     shape::ceil_div(chunks.count, detail::chunks_per_sum) - 1 + more_terms);
}

/// reduction() over the positions of an activation.
[[nodiscard]] constexpr double reduction_over(const extents& activation, data_format format, int more_terms) noexcept {
    const std::size_t r = activation.rank() - 2;
    const std::size_t space = shape::spatial_index(format);
    std::int64_t lines = activation[0];
    for (std::size_t i = 0; i + 1 < r; ++i) lines *= activation[space + i];
    return reduction(lines, activation[space + r - 1], more_terms);
}

/// Taps of a filter that one position of the small side meets: all of them.
template <class Attributes>
[[nodiscard]] constexpr std::int64_t small_side_taps(const extents& weights, const Attributes& a) noexcept {
    std::int64_t taps = 1;
    for (std::size_t i = 0; i + 2 < weights.rank(); ++i) taps *= weights[shape::kernel_index(a.weights_format) + i];
    return taps;
}

/// Taps of a filter that one position of the large side can meet: those of one stride phase.
template <class Attributes>
[[nodiscard]] constexpr std::int64_t large_side_taps(const extents& weights, const Attributes& a) noexcept {
    std::int64_t taps = 1;
    for (std::size_t i = 0; i + 2 < weights.rank(); ++i) {
        const std::int64_t step = a.strides[i] / std::gcd(a.strides[i], a.dilations[i]);
        taps *= shape::ceil_div(weights[shape::kernel_index(a.weights_format) + i], step);
    }
    return taps;
}

/// convolution: IC/g * K... terms.
[[nodiscard]] constexpr double convolution(const extents& weights, const convolution_attributes& a,
                                           int more_terms = 0) noexcept {
    const std::int64_t channels = weights[shape::input_channel_index(a.weights_format, weights.rank() - 2)];
    return gather(channels * small_side_taps(weights, a), more_terms);
}

/// convolution_backward_data: OC/g times the taps of one stride phase.
[[nodiscard]] constexpr double convolution_backward_data(const extents& weights, const convolution_attributes& a,
                                                         int more_terms = 0) noexcept {
    const std::int64_t channels = weights[shape::output_channel_index(a.weights_format, weights.rank() - 2)];
    return gather(channels / a.groups * large_side_taps(weights, a), more_terms);
}

/// convolution_backward_weights: N times the positions of diff_dst.
[[nodiscard]] constexpr double convolution_backward_weights(const extents& diff_dst, const convolution_attributes& a,
                                                            int more_terms = 0) noexcept {
    return reduction_over(diff_dst, a.data_format, more_terms);
}

/// conv_transpose: IC/g times the taps of one stride phase.
[[nodiscard]] constexpr double conv_transpose(const extents& weights, const conv_transpose_attributes& a,
                                              int more_terms = 0) noexcept {
    const std::int64_t channels = weights[shape::input_channel_index(a.weights_format, weights.rank() - 2)];
    return gather(channels / a.groups * large_side_taps(weights, a), more_terms);
}

/// conv_transpose_backward_data: OC/g * K... terms.
[[nodiscard]] constexpr double conv_transpose_backward_data(const extents& weights, const conv_transpose_attributes& a,
                                                            int more_terms = 0) noexcept {
    const std::int64_t channels = weights[shape::output_channel_index(a.weights_format, weights.rank() - 2)];
    return gather(channels * small_side_taps(weights, a), more_terms);
}

/// conv_transpose_backward_weights: N times the positions of src.
[[nodiscard]] constexpr double conv_transpose_backward_weights(const extents& src, const conv_transpose_attributes& a,
                                                               int more_terms = 0) noexcept {
    return reduction_over(src, a.data_format, more_terms);
}

/// bias_backward: N times the positions of diff_dst.
[[nodiscard]] constexpr double bias_backward(const extents& diff_dst, const bias_attributes& a,
                                             int more_terms = 0) noexcept {
    return reduction_over(diff_dst, a.data_format, more_terms);
}

/// Windows of a pool that one position of the large side can meet on axis i: those of one stride phase, and no more than
/// `diff_dst` has.
template <class Attributes>
[[nodiscard]] constexpr std::int64_t windows_of_axis(const extents& diff_dst, const Attributes& a,
                                                     std::size_t i) noexcept {
    const std::int64_t step = a.strides[i] / std::gcd(a.strides[i], a.dilations.empty() ? 1 : a.dilations[i]);
    return std::min(shape::ceil_div(a.kernel[i], step), diff_dst[shape::spatial_index(a.data_format) + i]);
}

/// avg_pool: sums of columns, their sum, the quotient, and a divisor that may have been rounded.
[[nodiscard]] constexpr double avg_pool(const extents& src, const avg_pool_attributes& a, int more_terms = 0) noexcept {
    const auto taps = [&](std::size_t i) {
        return std::min(a.kernel[i], src[shape::spatial_index(a.data_format) + i]);
    };
    const std::size_t last = src.rank() - 3;
    std::int64_t lines = 1;
    for (std::size_t i = 0; i < last; ++i) lines *= taps(i);
    return roundings((lines - 1) + (taps(last) - 1) + 2 + more_terms);
}

/// avg_pool_backward: quotients of divisors that may have been rounded, their sums by columns, and the sum of those.
[[nodiscard]] constexpr double avg_pool_backward(const extents& diff_dst, const avg_pool_attributes& a,
                                                 int more_terms = 0) noexcept {
    const std::size_t last = diff_dst.rank() - 3;
    std::int64_t lines = 1;
    for (std::size_t i = 0; i < last; ++i) lines *= windows_of_axis(diff_dst, a, i);
    return roundings(2 + (lines - 1) + (windows_of_axis(diff_dst, a, last) - 1) + more_terms);
}

/// max_pool: exact, except for what accumulating adds.
[[nodiscard]] constexpr double max_pool(int more_terms = 0) noexcept { return roundings(more_terms); }

/// max_pool_backward_from_indices where at most `terms` indices name one element: the additions of a plain sum. Indices
/// of max_pool repeat no more often than windows overlap: max_pool_backward has their bound.
[[nodiscard]] constexpr double max_pool_backward_from_indices(std::int64_t terms, int more_terms = 0) noexcept {
    return roundings(std::max<std::int64_t>(terms - 1, 0) + more_terms);
}

/// max_pool_backward: the windows that meet in one position.
[[nodiscard]] constexpr double max_pool_backward(const extents& diff_dst, const max_pool_attributes& a,
                                                 int more_terms = 0) noexcept {
    std::int64_t terms = 1;
    for (std::size_t i = 0; i + 2 < diff_dst.rank(); ++i) terms *= windows_of_axis(diff_dst, a, i);
    return max_pool_backward_from_indices(terms, more_terms);
}

}  // namespace accuracy
GRADKERN_ISA_NAMESPACE_END
