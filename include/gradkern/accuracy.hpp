// Error bounds: how far an element of a result may be from the exact one. One function per operator.
//
//     const auto bound = gradkern::accuracy::convolution<float>(src, weights, bias, attributes, dst, options);
//     if (!bound) ...                                          // an error: the operator would return the same
//     is_right = std::abs(result - exact) <= (*bound)(size);   // size: the sum of the absolute values of all terms
//
// Each function takes the arguments of plan_X in the same order and returns an error_bound. (A shape is enough for a layout,
// since strides are ignored.) Each function documents its terms. A bias is one more term; so is the previous value if the
// output accumulates. Bounds hold for finite data, for every path, layout, instruction set and number of threads.
//
// The references of the pools have the operators' bits. Those of the convolutions and of the bias add in plain order; there is
// no bound for them here.
//
// Derivation: each term is rounded at most as often as the longest chain of additions in the order of summation has roundings
// (detail/order/summation.hpp), each time by at most 2^-24 of the value, of f64 2^-53. Results are rounded to their type once
// more. A subnormal value loses at most half the smallest subnormal number. Bounds of f64 results are for exact numbers: one that
// is rounded to f64 itself may be off by as much as the bound says.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/run/widest_bytes.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace accuracy {

/// The parts of an error_bound. The functions below fill it in.
struct error_terms {
    std::int64_t roundings = 0;    ///< of one term at most, before the rounding to the result's type
    double underflows = 0;         ///< roundings of subnormal numbers, of all terms together
    double underflow = 0;          ///< error of one of them; 0: half the least number of the type of sums
    double growth = 1;             ///< bound of partial sums, relative to the sum of the absolute terms
    double relaxed = 1;            ///< factor of precision::relaxed on the error of the sum
    bool result_is_exact = false;  ///< the sum is a number of the result's type
};

/// How far an element of a result of type T may be from the exact one. A small value; call it for every element.
template <element T>
class error_bound {
    static constexpr bool is_f64 = element_traits<T>::type == data_type::f64;

public:
    /// No bound is finite if a term meets so many roundings.
    static constexpr std::int64_t most_roundings = is_f64 ? std::int64_t{1} << 53 : 1 << 24;

    constexpr error_bound() noexcept = default;
    /// From its parts.
    constexpr explicit error_bound(const error_terms& e) noexcept : terms_(e) {}

    /// The bound of |result - exact|, including the last rounding and subnormal numbers. `size` is the sum of the absolute
    /// values of the element's terms. The bound is infinite if nothing is promised: a partial sum or the result may exceed
    /// the range of its type, there are too many terms, or `size` is not finite. It is 0 if all terms are 0.
    [[nodiscard]] constexpr double operator()(double size) const noexcept { return (*this)(size, size); }

    /// The same if the exact result is known. The bound is smaller if terms cancel, because the last rounding and the range
    /// depend on the result.
    [[nodiscard]] constexpr double operator()(double size, double exact) const noexcept {
        constexpr double infinity = own::infinity<double>;
        if (size == 0) return 0;
        if (!(size < infinity) || terms_.roundings >= most_roundings) return infinity;  // or a NaN
        const double of_sum = sum_error(size);
        const double most = (exact < 0 ? -exact : exact) + of_sum;  // before the last rounding
        if (!((size + of_sum) * terms_.growth < overflow_of_sums) || !(most < overflow)) return infinity;
        const double last =
            terms_.result_is_exact ? 0 : (roundoff * most > half_of_least ? roundoff * most : half_of_least);
        return (of_sum + last) * (1 + 0x1p-20);  // `size` and this expression are rounded, too
    }

    /// Whether the result has to be infinite: the sum stays in the range of its type, and rounds to Inf in T. (The bound is infinite
    /// then, too.)
    [[nodiscard]] constexpr bool overflows(double size, double exact) const noexcept {
        if (!(size < own::infinity<double>) || terms_.roundings >= most_roundings) return false;
        const double of_sum = sum_error(size);
        return (size + of_sum) * terms_.growth < overflow_of_sums && (exact < 0 ? -exact : exact) - of_sum >= overflow;
    }

    /// What the bound is made of.
    [[nodiscard]] constexpr const error_terms& terms() const noexcept { return terms_; }

private:
    static constexpr data_type type = element_traits<T>::type;
    /// The unit roundoff of sums, and half the least number that they have, or of f64 the least one.
    static constexpr double unit = is_f64 ? 0x1p-53 : 0x1p-24;
    static constexpr double least = is_f64 ? 0x1p-1074 : 0x1p-150;
    /// Numbers from here on round to Inf, or are the largest one.
    static constexpr double overflow_of_sums = is_f64 ? 0x1.fffffffffffffp1023 : 0x1.ffffffp127;
    static constexpr double overflow = type == data_type::f16    ? 65520.0
                                       : type == data_type::bf16 ? 0x1.ffp127
                                                                 : overflow_of_sums;
    /// The error of rounding to T: relative for a normal number, absolute for a subnormal one. Sums are results of their type.
    static constexpr double roundoff = type == data_type::f16 ? 0x1p-11 : type == data_type::bf16 ? 0x1p-8 : 0.0;
    static constexpr double half_of_least = type == data_type::f16 ? 0x1p-25 : type == data_type::bf16 ? 0x1p-134 : 0.0;

    /// The error of the sum: n successive roundings give (1 + u)^n - 1 <= n u / (1 - n u).
    [[nodiscard]] constexpr double sum_error(double size) const noexcept {
        const double n = static_cast<double>(terms_.roundings) * unit;
        const double grown = n / (1 - n);
        const double underflow = terms_.underflow == 0 ? least : terms_.underflow;
        return terms_.relaxed * (grown * size + terms_.underflows * underflow * (1 + grown));
    }

    error_terms terms_{};
};

}  // namespace accuracy

namespace detail {

/// The roundings of forward and data gradients: outputs that are sums of up to `terms` (channel, inside tap) pairs.
[[nodiscard]] constexpr std::int64_t gather_roundings(std::int64_t terms) noexcept {
    // A part ends when the next block of up to channel_block terms would not fit: only the last part is shorter.
    constexpr std::int64_t shortest_part = part_terms - channel_block + 1;
    return (std::min)(terms, part_terms) + terms / shortest_part;
}

/// Those of weight and bias gradients: sums over positions of the small side, `lines` * `width` of each of some images.
[[nodiscard]] constexpr std::int64_t reduction_roundings(std::int64_t images, std::int64_t lines, std::int64_t width,
                                                         summation how) noexcept {
    if (images == 0 || lines == 0 || width == 0) return 0;
    const chunk_grid chunks(images, lines, width, how);
    const std::int64_t terms =
        (std::min)({chunk_positions, chunks.image_lines * width, chunks.lines_per_chunk * width});
    const std::int64_t groups = how == summation::per_image ? 1 : chunks.groups();
    return terms + (std::min)(chunks.group_chunks, chunks.sum_chunks) - 1 + chunks.group_sums() - 1 + groups - 1;
}

/// Those of a pool's sum of `terms` terms in Real, of which the first is added to +0.
template <class Real = float>
[[nodiscard]] constexpr std::int64_t pool_roundings(std::int64_t terms) noexcept {
    if (terms <= pool_part) return (std::max<std::int64_t>)(terms - 1, 0);
    if constexpr (sizeof(Real) == sizeof(double)) return pool_part - 1 + shape::ceil_div(terms, pool_part) - 1;
    return pool_part - 1 + 1 + (terms >> 38);  // the total, and 2^9 times as many sums in f64, each 2^-29 as far off
}

/// Those of a sum of gradients of a max pool in Real, or in f64 if there may be more than `most`.
template <class Real>
[[nodiscard]] constexpr std::int64_t scattered_roundings(std::int64_t terms, std::int64_t most) noexcept {
    if (terms <= most || sizeof(Real) == sizeof(double)) return (std::max<std::int64_t>)(terms - 1, 0);
    return 1 + (terms >> 29);
}

/// The largest number of entries of the other side that contribute to one position of this side, over all axes.
[[nodiscard]] constexpr std::array<std::int64_t, 3> most_met(const std::array<shape::axis, 3>& axes,
                                                             shape::side outputs) noexcept {
    std::array<std::int64_t, 3> most{};
    for (std::size_t i = 0; i < 3; ++i) most[i] = axes[i].most_reads(outputs);
    return most;
}

/// The bound of an output. If it accumulates, the previous value is one more term.
template <class T>
[[nodiscard]] constexpr accuracy::error_bound<T> finished_bound(accuracy::error_terms e,
                                                                const plan_options& options) noexcept {
    if (options.output == output_mode::accumulate) ++e.roundings;
    return accuracy::error_bound<T>(e);
}

/// Convolutions: sums of products of elements of type `In`.
template <class T, class In>
[[nodiscard]] constexpr accuracy::error_bound<T> convolution_bound(std::int64_t roundings, double products,
                                                                   bool has_bias,
                                                                   const plan_options& options) noexcept {
    accuracy::error_terms e{.roundings = roundings + (has_bias ? 1 : 0), .underflows = products};
    if (options.precision == precision::relaxed && element_traits<In>::type == data_type::bf16) {
        e.relaxed = 2;
        e.underflow = 0x1p-126;  // subnormal products and sums may count as 0
    }
    return finished_bound<T>(e, options);
}
template <class T>
[[nodiscard]] constexpr accuracy::error_bound<T> gather_bound(const shape::convolution_problem& p, shape::side outputs,
                                                              bool has_bias, const plan_options& options) noexcept {
    const auto taps = most_met(p.axes, outputs);
    const std::int64_t channels = outputs == shape::side::small ? p.large_channels : p.small_channels;
    const std::int64_t terms = channels * taps[0] * taps[1] * taps[2];
    return convolution_bound<T, T>(gather_roundings(terms), static_cast<double>(terms), has_bias, options);
}
template <class T, class G>
[[nodiscard]] constexpr accuracy::error_bound<G> reduction_bound(const shape::convolution_problem& p,
                                                                 const plan_options& options) noexcept {
    const std::int64_t lines = p.axes[0].small * p.axes[1].small;
    const std::int64_t width = p.axes[2].small;
    return convolution_bound<G, T>(reduction_roundings(p.batch, lines, width, options.summation),
                                   static_cast<double>(p.batch * lines * width), false, options);
}

}  // namespace detail

namespace accuracy {

/// Bound of gradkern::convolution. Terms: products src * weights, bias, previous value.
template <element Src, element Weights, element Dst, element Bias = Weights>
[[nodiscard]] constexpr result<error_bound<Dst>> convolution(const tensor_layout& src, const tensor_layout& weights,
                                                             const tensor_layout& bias,
                                                             const convolution_attributes& attributes,
                                                             const tensor_layout& dst = {},
                                                             const plan_options& options = {}) noexcept {
    const auto p = shape::convolution_shapes(src.shape, weights.shape, attributes, dst.shape, true,
                                             detail::widest_bytes<Src, Weights, Dst, Bias>, bias.shape);
    if (!p) return p.error();
    return detail::gather_bound<Dst>(*p, shape::side::small, !bias.empty(), options);
}

/// The same for tensors of one type T, and a bias.
template <element T, element Bias = T>
[[nodiscard]] constexpr result<error_bound<T>> convolution(const tensor_layout& src, const tensor_layout& weights,
                                                           const tensor_layout& bias,
                                                           const convolution_attributes& attributes,
                                                           const tensor_layout& dst = {},
                                                           const plan_options& options = {}) noexcept {
    return accuracy::convolution<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// Bound of gradkern::convolution_backward_data. Terms: products diff_dst * weights, previous value.
template <element DiffDst, element Weights = DiffDst, element DiffSrc = DiffDst>
[[nodiscard]] constexpr result<error_bound<DiffSrc>> convolution_backward_data(
    const tensor_layout& diff_dst, const tensor_layout& weights, const convolution_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    const auto p = shape::convolution_backward_data_shapes(diff_dst.shape, weights.shape, attributes, diff_src.shape,
                                                           true, detail::widest_bytes<DiffDst, Weights, DiffSrc>);
    if (!p) return p.error();
    return detail::gather_bound<DiffSrc>(*p, shape::side::large, false, options);
}

/// Bound of gradkern::convolution_backward_weights: of diff_weights, whose terms are products src * diff_dst and the
/// previous value. That of diff_bias is bias_backward's.
template <element T, element G = T>
[[nodiscard]] constexpr result<error_bound<G>> convolution_backward_weights(const tensor_layout& src,
                                                                            const tensor_layout& diff_dst,
                                                                            const convolution_attributes& attributes,
                                                                            const tensor_layout& diff_weights = {},
                                                                            const tensor_layout& diff_bias = {},
                                                                            const plan_options& options = {}) noexcept {
    const auto p = shape::convolution_backward_weights_shapes(src.shape, diff_dst.shape, attributes, diff_weights.shape,
                                                              true, detail::widest_bytes<T, G>, diff_bias.shape);
    if (!p) return p.error();
    return detail::reduction_bound<T, G>(*p, options);
}

/// Bound of gradkern::conv_transpose. Terms: products src * weights, bias, previous value.
template <element Src, element Weights, element Dst, element Bias = Weights>
[[nodiscard]] constexpr result<error_bound<Dst>> conv_transpose(const tensor_layout& src, const tensor_layout& weights,
                                                                const tensor_layout& bias,
                                                                const conv_transpose_attributes& attributes,
                                                                const tensor_layout& dst = {},
                                                                const plan_options& options = {}) noexcept {
    const auto p = shape::conv_transpose_shapes(src.shape, weights.shape, attributes, dst.shape, true,
                                                detail::widest_bytes<Src, Weights, Dst, Bias>, bias.shape);
    if (!p) return p.error();
    return detail::gather_bound<Dst>(*p, shape::side::large, !bias.empty(), options);
}

/// The same for tensors of one type T, and a bias.
template <element T, element Bias = T>
[[nodiscard]] constexpr result<error_bound<T>> conv_transpose(const tensor_layout& src, const tensor_layout& weights,
                                                              const tensor_layout& bias,
                                                              const conv_transpose_attributes& attributes,
                                                              const tensor_layout& dst = {},
                                                              const plan_options& options = {}) noexcept {
    return accuracy::conv_transpose<T, T, T, Bias>(src, weights, bias, attributes, dst, options);
}

/// Bound of gradkern::conv_transpose_backward_data. Terms: products diff_dst * weights, previous value.
template <element DiffDst, element Weights = DiffDst, element DiffSrc = DiffDst>
[[nodiscard]] constexpr result<error_bound<DiffSrc>> conv_transpose_backward_data(
    const tensor_layout& diff_dst, const tensor_layout& weights, const conv_transpose_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    const auto p = shape::conv_transpose_backward_data_shapes(diff_dst.shape, weights.shape, attributes, diff_src.shape,
                                                              true, detail::widest_bytes<DiffDst, Weights, DiffSrc>);
    if (!p) return p.error();
    return detail::gather_bound<DiffSrc>(*p, shape::side::small, false, options);
}

/// Bound of gradkern::conv_transpose_backward_weights: of diff_weights, whose terms are products src * diff_dst and the
/// previous value. That of diff_bias is bias_backward's.
template <element T, element G = T>
[[nodiscard]] constexpr result<error_bound<G>> conv_transpose_backward_weights(
    const tensor_layout& src, const tensor_layout& diff_dst, const conv_transpose_attributes& attributes,
    const tensor_layout& diff_weights = {}, const tensor_layout& diff_bias = {},
    const plan_options& options = {}) noexcept {
    const auto p = shape::conv_transpose_backward_weights_shapes(
        src.shape, diff_dst.shape, attributes, diff_weights.shape, true, detail::widest_bytes<T, G>, diff_bias.shape);
    if (!p) return p.error();
    return detail::reduction_bound<T, G>(*p, options);
}

/// Bound of gradkern::bias_backward. Terms: the channel's elements of diff_dst, previous value.
template <element T, element G = T>
[[nodiscard]] constexpr result<error_bound<G>> bias_backward(const tensor_layout& diff_dst,
                                                             const bias_attributes& attributes,
                                                             const tensor_layout& diff_bias = {},
                                                             const plan_options& options = {}) noexcept {
    const auto p =
        shape::bias_backward_shapes(diff_dst.shape, attributes, diff_bias.shape, true, detail::widest_bytes<T, G>);
    if (!p) return p.error();
    const std::int64_t lines = p->positions[0] * p->positions[1];
    const std::int64_t roundings = detail::reduction_roundings(p->batch, lines, p->positions[2], options.summation);
    return detail::finished_bound<G>({.roundings = roundings}, options);
}

/// Bound of gradkern::avg_pool. Terms: the window's elements, each divided by the window's divisor, and the previous value.
template <element T>
[[nodiscard]] constexpr result<error_bound<T>> avg_pool(const tensor_layout& src, const avg_pool_attributes& attributes,
                                                        const tensor_layout& dst = {},
                                                        const plan_options& options = {}) noexcept {
    const auto p = shape::avg_pool_shapes(src.shape, attributes, dst.shape, true, sizeof(T));
    if (!p) return p.error();
    const auto taps = detail::most_met(p->axes, shape::side::small);
    error_terms e;
    // the quotient, and the divisor, which may have been rounded
    e.roundings = detail::pool_roundings<accumulate_t<T>>(taps[0] * taps[1]) +
                  detail::pool_roundings<accumulate_t<T>>(taps[2]) + 2;
    e.underflows = 1;
    for (std::size_t i = 0; i < 3; ++i)  // elements are added before they are divided
        e.growth *= static_cast<double>(attributes.exclude_pad ? taps[i] : p->axes[i].kernel);
    if (attributes.divisor_override) {
        const auto divisor = static_cast<double>(*attributes.divisor_override);
        e.growth = divisor < 0 ? -divisor : divisor;
    }
    return detail::finished_bound<T>(e, options);
}

/// Bound of gradkern::avg_pool_backward. Terms: the gradients of the windows that reach the position, each divided by its
/// window's divisor, and the previous value.
template <element T>
[[nodiscard]] constexpr result<error_bound<T>> avg_pool_backward(const tensor_layout& diff_dst,
                                                                 const avg_pool_attributes& attributes,
                                                                 const tensor_layout& diff_src = {},
                                                                 const plan_options& options = {}) noexcept {
    const auto p = shape::avg_pool_backward_shapes(diff_dst.shape, attributes, diff_src.shape, true, sizeof(T));
    if (!p) return p.error();
    const auto windows = detail::most_met(p->axes, shape::side::large);
    error_terms e;
    // the quotient, and the divisor, which may have been rounded
    e.roundings = 2 + detail::pool_roundings<accumulate_t<T>>(windows[0] * windows[1]) +
                  detail::pool_roundings<accumulate_t<T>>(windows[2]);
    e.underflows = static_cast<double>(windows[0]) * static_cast<double>(windows[1]) * static_cast<double>(windows[2]);
    return detail::finished_bound<T>(e, options);
}

/// Bound of gradkern::lp_pool. Terms: the norm of the window, and the previous value.
template <element T>
[[nodiscard]] constexpr result<error_bound<T>> lp_pool(const tensor_layout& src, const lp_pool_attributes& attributes,
                                                       const tensor_layout& dst = {},
                                                       const plan_options& options = {}) noexcept {
    const auto p = shape::lp_pool_shapes(src.shape, attributes, dst.shape, sizeof(T));
    if (!p) return p.error();
    const auto taps = detail::most_met(p->axes, shape::side::small);
    error_terms e;
    // A root halves the relative error of the squares' sum. Then it is rounded itself.
    e.roundings = shape::ceil_div(1 + detail::pool_roundings<accumulate_t<T>>(taps[0] * taps[1] * taps[2]), 2) + 1;
    // Each square may lose half the least subnormal number; the root of n of these is at most n times that of one.
    e.underflows = static_cast<double>(taps[0]) * static_cast<double>(taps[1]) * static_cast<double>(taps[2]);
    constexpr bool is_f64 = element_traits<T>::type == data_type::f64;
    e.underflow = is_f64 ? 0x1p-537 : 0x1p-75;
    e.growth =
        is_f64 ? 0x1p512 : 0x1p64;  // squares are added: their sum is in range where the norm is below 2^64, or 2^512
    return detail::finished_bound<T>(e, options);
}

/// Bound of gradkern::lp_pool_backward for these numbers of src, dst and diff_dst. Terms: for each window that reaches the
/// position, diff_dst * max(|src / dst|, 2^-126, of f64 2^-1022), or 0 where dst is 0; and the previous value.
template <element T>
[[nodiscard]] constexpr result<error_bound<T>> lp_pool_backward(const tensor_layout& src, const tensor_layout& dst,
                                                                const tensor_layout& diff_dst,
                                                                const lp_pool_attributes& attributes,
                                                                const tensor_layout& diff_src = {},
                                                                const plan_options& options = {}) noexcept {
    const auto p =
        shape::lp_pool_backward_shapes(src.shape, dst.shape, diff_dst.shape, attributes, diff_src.shape, sizeof(T));
    if (!p) return p.error();
    const auto windows = detail::most_met(p->axes, shape::side::large);
    error_terms e;
    e.roundings = 2 + detail::pool_roundings<accumulate_t<T>>(windows[0] * windows[1] *
                                                              windows[2]);  // the quotient and the product
    e.underflows = static_cast<double>(windows[0]) * static_cast<double>(windows[1]) * static_cast<double>(windows[2]);
    return detail::finished_bound<T>(e, options);
}

/// Bound of gradkern::max_pool's values: 0, unless the output accumulates. Terms: the maximum, and the previous value.
template <element T>
[[nodiscard]] constexpr result<error_bound<T>> max_pool(const tensor_layout& src, const max_pool_attributes& attributes,
                                                        const tensor_layout& dst = {},
                                                        const tensor_layout& indices = {},
                                                        const plan_options& options = {}) noexcept {
    const auto p = shape::max_pool_shapes(src.shape, attributes, dst.shape, indices.shape, sizeof(T));
    if (!p) return p.error();
    return detail::finished_bound<T>({.result_is_exact = options.output != output_mode::accumulate}, options);
}

/// Bound of gradkern::max_pool_backward. Terms: the gradients of the windows whose maximum is at the position, and the
/// previous value.
template <element T>
[[nodiscard]] constexpr result<error_bound<T>> max_pool_backward(const tensor_layout& src,
                                                                 const tensor_layout& diff_dst,
                                                                 const max_pool_attributes& attributes,
                                                                 const tensor_layout& diff_src = {},
                                                                 const plan_options& options = {}) noexcept {
    const auto p = shape::max_pool_backward_shapes(src.shape, diff_dst.shape, attributes, diff_src.shape, sizeof(T));
    if (!p) return p.error();
    const auto windows = detail::most_met(p->axes, shape::side::large);
    const std::int64_t terms = windows[0] * windows[1] * windows[2];
    return detail::finished_bound<T>(
        {.roundings = detail::scattered_roundings<accumulate_t<T>>(terms, detail::pool_part)}, options);
}

/// Bound of gradkern::max_pool_backward_from_indices, if every index lies in the plane of its own element, as those of
/// max_pool do. Terms: the gradients whose index names the element, as many as a plane has, and the previous value.
template <element T>
[[nodiscard]] constexpr result<error_bound<T>> max_pool_backward_from_indices(
    const tensor_layout& diff_dst, const tensor_layout& indices, const max_pool_indices_attributes& attributes,
    const tensor_layout& diff_src = {}, const plan_options& options = {}) noexcept {
    const auto p = shape::max_pool_backward_from_indices_shapes(diff_dst.shape, indices.shape, attributes,
                                                                diff_src.shape, sizeof(T));
    if (!p) return p.error();
    const std::int64_t terms = p->axes[0].small * p->axes[1].small * p->axes[2].small;
    return detail::finished_bound<T>(
        {.roundings = detail::scattered_roundings<accumulate_t<T>>(terms, detail::many_windows)}, options);
}

}  // namespace accuracy
GRADKERN_ISA_NAMESPACE_END
