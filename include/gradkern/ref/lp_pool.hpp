// Reference Lp pooling with p = 2: forward and backward as plain loops, with the equations beside them.
//
// The same arguments, shapes and errors as lp_pool.hpp (overlap and algorithms are not looked at), also for double; no workspace,
// one thread. Sums are kept in accumulate_t<T> (f32; f64 for double) in the order of the operators, so both give the same
// bits: row-major over inside taps, or over the windows that reach a position, in parts (sum_of_parts).
#pragma once

#include <cstdint>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref {

/// dst[n, c, o] = sqrt(sum over inside taps k of src[n, c, p(o,k)]^2); +0 for a window without taps inside.
template <class T>
[[nodiscard]] status lp_pool(tensor_view<const T> src, const lp_pool_attributes& attributes,
                             std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) noexcept {
    using sum_type = accumulate_t<T>;
    const auto p = shape::lp_pool_shapes(src.layout.shape, attributes, dst.layout.shape, sizeof(T));
    if (!p) return p.error();
    if (dst.layout.empty()) dst.layout.shape = p->small_shape;
    const status s = check_arguments(
        "lp_pool", {{"src", src.data, src.layout, sizeof(T)}, {"dst", dst.data, dst.layout, sizeof(T), true}},
        options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<T> y{dst.data, shape::activation_strides(dst.layout, attributes.data_format)};
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].small, p->axes[1].small, p->axes[2].small}, [&](const index3& o) {
                sum_of_parts<sum_type> squares;
                for_each_tap(p->axes, o, [&](const index3&, const index3& q) {
                    const sum_type value = x(n, c, q);
                    squares.add(rounded_product(value, value));
                });
                store(y.at(n, c, o), own::sqrt(squares.value()), options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status lp_pool(const Src& src, const lp_pool_attributes& attributes,
                             tensor_view<typename Src::element_type> dst, const call_options& options = {}) noexcept {
    return ref::lp_pool<typename Src::element_type>(src, attributes, dst, options);
}

/// diff_src[n, c, q] = sum over windows o that reach q of diff_dst[n, c, o] * (src[n, c, q] / dst[n, c, o]), where the terms of
/// windows with dst = 0 are 0; +0 if there are none.
template <class T>
[[nodiscard]] status lp_pool_backward(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> dst,
                                      std::type_identity_t<tensor_view<const T>> diff_dst,
                                      const lp_pool_attributes& attributes,
                                      std::type_identity_t<tensor_view<T>> diff_src,
                                      const call_options& options = {}) noexcept {
    using sum_type = accumulate_t<T>;
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
                sum_of_parts<sum_type> total;
                for_each_window(p->axes, q, [&](const index3&, const index3& o) {
                    const sum_type norm = y(n, c, o);
                    const sum_type share = norm == 0 ? sum_type{0} : x(n, c, q) / norm;
                    total.add(norm == 0 ? sum_type{0} : rounded_product<sum_type>(dy(n, c, o), share));
                });
                store(dx.at(n, c, q), total.value(), options.plan.output);
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
                                      const call_options& options = {}) noexcept {
    return ref::lp_pool_backward<typename Src::element_type>(src, dst, diff_dst, attributes, diff_src, options);
}

}  // namespace ref
GRADKERN_ISA_NAMESPACE_END
