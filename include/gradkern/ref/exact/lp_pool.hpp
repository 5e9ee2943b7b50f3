// Exact Lp pooling with p = 2: forward and backward. Each output is the correctly rounded value of its equation: of the root of an exact
// sum, and of one fraction.
//
// The same arguments, shapes and errors as ref/lp_pool.hpp. Memory for long integers comes from the heap; std::bad_alloc passes through.
#pragma once

#include <cstdint>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/detail/quotients.hpp>
#include <gradkern/ref/exact/detail/store.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact {

/// dst[n, c, o] = sqrt(sum over inside taps k of src[n, c, p(o,k)]^2), rounded once; +0 for a window without taps inside.
template <class T>
[[nodiscard]] status lp_pool(tensor_view<const T> src, const lp_pool_attributes& attributes,
                             std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) {
    const auto p = shape::lp_pool_shapes(src.layout.shape, attributes, dst.layout.shape, sizeof(T));
    if (!p) return p.error();
    if (dst.layout.empty()) dst.layout.shape = p->small_shape;
    const status s = check_arguments(
        "lp_pool", {{"src", src.data, src.layout, sizeof(T)}, {"dst", dst.data, dst.layout, sizeof(T), true}},
        options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<T> y{dst.data, shape::activation_strides(dst.layout, attributes.data_format)};
    accumulator squares;
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].small, p->axes[1].small, p->axes[2].small}, [&](const index3& o) {
                squares.clear();
                for_each_tap(p->axes, o, [&](const index3&, const index3& q) {
                    const T value = *x.at(n, c, q);
                    squares.add_product(value, value);
                });
                // Bits that may decide how the result is rounded: 64 from the root's leading one on, or, if a previous value is added,
                // all down to half the least subnormal number.
                const int least = options.plan.output == output_mode::accumulate || squares.is_zero()
                                      ? detail::format_for<T>.least - 1
                                      : squares.magnitude().leading() / 2 - 64;
                accumulator norm;
                detail::add_root(squares, least, norm);
                detail::store_sum(y.at(n, c, o), norm, options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status lp_pool(const Src& src, const lp_pool_attributes& attributes,
                             tensor_view<typename Src::element_type> dst, const call_options& options = {}) {
    return exact::lp_pool<typename Src::element_type>(src, attributes, dst, options);
}

/// diff_src[n, c, q] = sum over windows o that reach q of diff_dst[n, c, o] * (src[n, c, q] / dst[n, c, o]), rounded once, where the terms of
/// windows with dst = 0 are 0; +0 if there are none, or if the sum is 0. A finite number over an infinite dst is 0.
template <class T>
[[nodiscard]] status lp_pool_backward(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> dst,
                                      std::type_identity_t<tensor_view<const T>> diff_dst,
                                      const lp_pool_attributes& attributes,
                                      std::type_identity_t<tensor_view<T>> diff_src, const call_options& options = {}) {
    const auto p = shape::lp_pool_backward_shapes(src.layout.shape, dst.layout.shape, diff_dst.layout.shape, attributes,
                                                  diff_src.layout.shape, sizeof(T));
    if (!p) return p.error();
    if (diff_src.layout.empty()) diff_src.layout.shape = p->large_shape;
    const status s = check_arguments("lp_pool_backward",
                                     {{"src", src.data, src.layout, sizeof(T)},
                                      {"dst", dst.data, dst.layout, sizeof(T)},
                                      {"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"diff_src", diff_src.data, diff_src.layout, sizeof(T), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<const T> y{dst.data, shape::activation_strides(dst.layout, attributes.data_format)};
    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<T> dx{diff_src.data, shape::activation_strides(diff_src.layout, attributes.data_format)};
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].large, p->axes[1].large, p->axes[2].large}, [&](const index3& q) {
                detail::quotient_sum total;
                const detail::parts value = detail::parts_of(*x.at(n, c, q));
                for_each_window(p->axes, q, [&](const index3&, const index3& o) {
                    const detail::parts norm = detail::parts_of(*y.at(n, c, o));
                    if (norm.is_finite() && norm.significand == 0) return;
                    const detail::parts slope = detail::parts_of(*dy.at(n, c, o));
                    if (!value.is_finite() || !norm.is_finite() || !slope.is_finite()) {
                        const detail::parts term =
                            detail::non_finite_product(slope, detail::non_finite_quotient(value, norm));
                        if (!term.is_finite()) total.add_special(term);
                        return;
                    }
                    const int zeros = own::trailing_zeros(norm.significand);
                    accumulator dividend;
                    dividend.add_product(*dy.at(n, c, o), *x.at(n, c, q));
                    total.add(dividend, norm.is_negative, norm.significand >> zeros, norm.exponent + zeros);
                });
                if (options.plan.output == output_mode::accumulate) {
                    accumulator previous;
                    previous.add(*dx.at(n, c, q));
                    total.add(previous, 1);
                }
                *dx.at(n, c, q) = total.rounded<T>();
            });
        }
    }
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status lp_pool_backward(const Src& src, tensor_view<const typename Src::element_type> dst,
                                      tensor_view<const typename Src::element_type> diff_dst,
                                      const lp_pool_attributes& attributes,
                                      tensor_view<typename Src::element_type> diff_src,
                                      const call_options& options = {}) {
    return exact::lp_pool_backward<typename Src::element_type>(src, dst, diff_dst, attributes, diff_src, options);
}

}  // namespace ref::exact
GRADKERN_ISA_NAMESPACE_END
