// Exact average pooling: forward and backward. Each output is the correctly rounded value of its equation: a sum over one divisor, or a sum
// of quotients of different divisors, is one fraction, which is rounded once. Divisors are not rounded.
//
// The same arguments, shapes and errors as ref/avg_pool.hpp. Memory for sums of quotients comes from the heap; std::bad_alloc passes through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/detail/quotients.hpp>
#include <gradkern/ref/exact/detail/store.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact {
namespace detail {

/// `to` gets the sum over the divisor, or its previous value plus that.
template <class T>
void store_quotient(T* to, const accumulator& sum, std::int64_t divisor, output_mode mode) {
    if (mode != output_mode::accumulate) {
        *to = sum.rounded_quotient<T>(divisor);
        return;
    }
    accumulator previous;
    previous.add(*to);
    if (previous.is_zero() && sum.is_zero()) {  // two negative zeros make a negative one
        *to = zero<T>(divisor < 0 && parts_of(*to).is_negative);
        return;
    }
    quotient_sum total;
    total.add(previous, 1);
    total.add(sum, divisor);
    *to = total.rounded<T>();
}

}  // namespace detail

/// dst[n, c, o] = (sum over inside taps k of src[n, c, p(o,k)]) / divisor(o), rounded once; +0 for a window without taps inside. A sum of
/// 0 over a negative divisor is -0.
template <class T>
[[nodiscard]] status avg_pool(tensor_view<const T> src, const avg_pool_attributes& attributes,
                              std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) {
    const auto p = shape::avg_pool_shapes(src.layout.shape, attributes, dst.layout.shape, true, sizeof(T));
    if (!p) return p.error();
    if (dst.layout.empty()) dst.layout.shape = p->small_shape;
    const status s = check_arguments(
        "avg_pool", {{"src", src.data, src.layout, sizeof(T)}, {"dst", dst.data, dst.layout, sizeof(T), true}},
        options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<T> y{dst.data, shape::activation_strides(dst.layout, attributes.data_format)};
    accumulator sum;
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].small, p->axes[1].small, p->axes[2].small}, [&](const index3& o) {
                sum.clear();
                bool is_empty = true;
                for_each_tap(p->axes, o, [&](const index3&, const index3& q) {
                    sum.add(*x.at(n, c, q));
                    is_empty = false;
                });
                const std::int64_t divisor = is_empty ? 1 : average_divisor(*p, attributes, o);
                detail::store_quotient(y.at(n, c, o), sum, divisor, options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status avg_pool(const Src& src, const avg_pool_attributes& attributes,
                              tensor_view<typename Src::element_type> dst, const call_options& options = {}) {
    return exact::avg_pool<typename Src::element_type>(src, attributes, dst, options);
}

/// diff_src[n, c, q] = sum over windows o that reach q of diff_dst[n, c, o] / divisor(o), rounded once; +0 if there are none, or if the sum
/// is 0.
template <class T>
[[nodiscard]] status avg_pool_backward(tensor_view<const T> diff_dst, const avg_pool_attributes& attributes,
                                       std::type_identity_t<tensor_view<T>> diff_src,
                                       const call_options& options = {}) {
    const auto p =
        shape::avg_pool_backward_shapes(diff_dst.layout.shape, attributes, diff_src.layout.shape, true, sizeof(T));
    if (!p) return p.error();
    if (diff_src.layout.empty()) diff_src.layout.shape = p->large_shape;
    const status s = check_arguments("avg_pool_backward",
                                     {{"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"diff_src", diff_src.data, diff_src.layout, sizeof(T), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const T> y{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<T> x{diff_src.data, shape::activation_strides(diff_src.layout, attributes.data_format)};
    const bool overrides = attributes.divisor_override.has_value();
    accumulator sum;
    // Windows whose divisor is not that of the first one.
    std::vector<std::pair<std::int64_t, accumulator>> others;
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].large, p->axes[1].large, p->axes[2].large}, [&](const index3& q) {
                sum.clear();
                others.clear();
                std::int64_t first = 0;
                for_each_window(p->axes, q, [&](const index3&, const index3& o) {
                    const std::int64_t divisor =
                        overrides ? *attributes.divisor_override : average_divisor(*p, attributes, o);
                    if (first == 0) first = divisor;
                    accumulator* to = &sum;
                    if (divisor != first) {
                        std::size_t i = 0;
                        while (i < others.size() && others[i].first != divisor) ++i;
                        if (i == others.size()) others.emplace_back(divisor, accumulator());
                        to = &others[i].second;
                    }
                    to->add(*y.at(n, c, o));
                });
                T* const to = x.at(n, c, q);
                const bool accumulates = options.plan.output == output_mode::accumulate;
                if (others.empty() && !accumulates) {
                    *to = sum.is_zero() ? detail::zero<T>(false) : sum.rounded_quotient<T>(first);
                    return;
                }
                detail::quotient_sum total;
                if (first != 0) total.add(sum, first);
                for (const auto& [divisor, dividend] : others) total.add(dividend, divisor);
                if (accumulates) {
                    sum.clear();
                    sum.add(*to);
                    total.add(sum, 1);
                }
                *to = total.rounded<T>();
            });
        }
    }
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status avg_pool_backward(const DiffDst& diff_dst, const avg_pool_attributes& attributes,
                                       tensor_view<typename DiffDst::element_type> diff_src,
                                       const call_options& options = {}) {
    return exact::avg_pool_backward<typename DiffDst::element_type>(diff_dst, attributes, diff_src, options);
}

}  // namespace ref::exact
GRADKERN_ISA_NAMESPACE_END
