// Reference max pooling: forward and both gradients as plain loops, with the equations beside them.
//
// The same arguments, shapes and errors as max_pool.hpp (overlapping tensors are not detected), also for double; no
// workspace, one thread. Gradients of the same element are added in ascending order of their windows.
#pragma once

#include <cstdint>
#include <string_view>
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

/// The maximum of one window.
template <class T>
struct window_maximum {
    accumulate_t<T> value = -own::infinity<accumulate_t<T>>;  ///< -Inf if there is none
    index3 position{};                                        ///< on the large side
    bool found = false;                                       ///< false if no tap is inside
};

/// The first largest element of window o in row-major order. A NaN beats every number and a later NaN an earlier one;
/// with ignore_nan any number beats a NaN.
template <class T>
[[nodiscard]] window_maximum<T> max_of_window(const tensor5<const T>& x, const shape::pooling_problem& p,
                                              bool ignore_nan, std::int64_t n, std::int64_t c,
                                              const index3& o) noexcept {
    window_maximum<T> best;
    for_each_tap(p.axes, o, [&](const index3&, const index3& position) {
        const auto v = x(n, c, position);
        const bool v_is_nan = v != v;
        const bool best_is_nan = best.value != best.value;
        if (!best.found || v > best.value || (ignore_nan ? best_is_nan && !v_is_nan : v_is_nan))
            best = {v, position, true};
    });
    return best;
}

/// The index of element (n, c, q) of the large side.
[[nodiscard]] constexpr std::int64_t index_of(const shape::pooling_problem& p, data_format format, index_base base,
                                              storage_order order, std::int64_t n, std::int64_t c,
                                              const index3& q) noexcept {
    const std::int64_t d = p.axes[0].large;
    const std::int64_t h = p.axes[1].large;
    const std::int64_t w = p.axes[2].large;
    const std::int64_t s =
        order == storage_order::row_major ? (q[0] * h + q[1]) * w + q[2] : q[0] + (q[1] + q[2] * h) * d;
    switch (base) {
        case index_base::plane: return s;
        case index_base::image: return s * p.channels + c;
        default: break;
    }
    const std::int64_t plane = d * h * w;
    return format == data_format::ncx ? (n * p.channels + c) * plane + s : (n * plane + s) * p.channels + c;
}

/// dst[n, c, o] = max over inside taps k of src[n, c, p(o,k)]; -Inf for a window without taps inside. `indices`, if
/// given, receives the index of that element, or -1.
template <class T>
[[nodiscard]] status max_pool(tensor_view<const T> src, const max_pool_attributes& attributes,
                              std::type_identity_t<tensor_view<T>> dst, tensor_view<std::int64_t> indices = {},
                              const call_options& options = {}) noexcept {
    const auto p =
        shape::max_pool_shapes(src.layout.shape, attributes, dst.layout.shape, indices.layout.shape, sizeof(T));
    if (!p) return p.error();
    if (dst.layout.empty()) dst.layout.shape = p->small_shape;
    const status s = check_arguments("max_pool",
                                     {{"src", src.data, src.layout, sizeof(T)},
                                      {"dst", dst.data, dst.layout, sizeof(T), true},
                                      {"indices", indices.data, indices.layout, sizeof(std::int64_t), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<T> y{dst.data, shape::activation_strides(dst.layout, attributes.data_format)};
    const bool wants_indices = !indices.layout.empty();
    shape::canonical_strides index_strides{};
    if (wants_indices) index_strides = shape::activation_strides(indices.layout, attributes.data_format);
    const auto index_at = [&](std::int64_t n, std::int64_t c, const index3& o) {
        return indices.data + (n * index_strides[0] + c * index_strides[1] + o[0] * index_strides[2] +
                               o[1] * index_strides[3] + o[2] * index_strides[4]);
    };
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].small, p->axes[1].small, p->axes[2].small}, [&](const index3& o) {
                const auto best = max_of_window<T>(x, *p, attributes.ignore_nan, n, c, o);
                store(y.at(n, c, o), best.value, options.plan.output);
                if (wants_indices)
                    *index_at(n, c, o) = best.found ? index_of(*p, attributes.data_format, attributes.index_base,
                                                               attributes.storage_order, n, c, best.position)
                                                    : -1;
            });
        }
    }
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status max_pool(const Src& src, const max_pool_attributes& attributes,
                              tensor_view<typename Src::element_type> dst, tensor_view<std::int64_t> indices = {},
                              const call_options& options = {}) noexcept {
    return ref::max_pool<typename Src::element_type>(src, attributes, dst, indices, options);
}

/// A sum of gradients whose number is not known beforehand: in Sum, or, if there may be very many, in f64 and rounded once.
template <class Sum>
class scattered_sum {
public:
    /// An empty sum.
    constexpr explicit scattered_sum(bool in_f64) noexcept : in_f64_(in_f64) {}
    /// Adds a gradient.
    constexpr void add(Sum term) noexcept {
        plain_ += term;
        exact_ += static_cast<double>(term);
    }
    /// The sum.
    [[nodiscard]] constexpr Sum value() const noexcept { return in_f64_ ? static_cast<Sum>(exact_) : plain_; }

private:
    bool in_f64_;
    Sum plain_ = 0;
    double exact_ = 0;
};

/// diff_src[n, c, q] = sum over windows o whose maximum is at q of diff_dst[n, c, o].
template <class T>
[[nodiscard]] status max_pool_backward(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> diff_dst,
                                       const max_pool_attributes& attributes,
                                       std::type_identity_t<tensor_view<T>> diff_src,
                                       const call_options& options = {}) noexcept {
    const auto p = shape::max_pool_backward_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                   diff_src.layout.shape, sizeof(T));
    if (!p) return p.error();
    if (diff_src.layout.empty()) diff_src.layout.shape = p->large_shape;
    const status s = check_arguments("max_pool_backward",
                                     {{"src", src.data, src.layout, sizeof(T)},
                                      {"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"diff_src", diff_src.data, diff_src.layout, sizeof(T), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<T> dx{diff_src.data, shape::activation_strides(diff_src.layout, attributes.data_format)};
    const bool in_f64 = detail::many_terms_meet(p->axes, shape::side::large);
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].large, p->axes[1].large, p->axes[2].large}, [&](const index3& q) {
                scattered_sum<accumulate_t<T>> sum(in_f64);
                for_each_window(p->axes, q, [&](const index3&, const index3& o) {
                    const auto best = max_of_window<T>(x, *p, attributes.ignore_nan, n, c, o);
                    if (best.position == q) sum.add(dy(n, c, o));
                });
                store(dx.at(n, c, q), sum.value(), options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status max_pool_backward(const Src& src, tensor_view<const typename Src::element_type> diff_dst,
                                       const max_pool_attributes& attributes,
                                       tensor_view<typename Src::element_type> diff_src,
                                       const call_options& options = {}) noexcept {
    return ref::max_pool_backward<typename Src::element_type>(src, diff_dst, attributes, diff_src, options);
}

/// diff_src = 0, then diff_src[indices[n, c, o]] += diff_dst[n, c, o] for every element whose index is not -1.
template <class T>
[[nodiscard]] status max_pool_backward_from_indices(tensor_view<const T> diff_dst,
                                                    tensor_view<const std::int64_t> indices,
                                                    const max_pool_indices_attributes& attributes,
                                                    std::type_identity_t<tensor_view<T>> diff_src,
                                                    const call_options& options = {}) noexcept {
    constexpr std::string_view op = "max_pool_backward_from_indices";
    const auto p = shape::max_pool_backward_from_indices_shapes(diff_dst.layout.shape, indices.layout.shape, attributes,
                                                                diff_src.layout.shape, sizeof(T));
    if (!p) return p.error();
    if (diff_src.layout.empty()) diff_src.layout.shape = p->large_shape;
    const status s = check_arguments(op,
                                     {{"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"indices", indices.data, indices.layout, sizeof(std::int64_t)},
                                      {"diff_src", diff_src.data, diff_src.layout, sizeof(T), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const shape::canonical_strides at = shape::activation_strides(indices.layout, attributes.data_format);
    const tensor5<T> dx{diff_src.data, shape::activation_strides(diff_src.layout, attributes.data_format)};
    const index3 small{p->axes[0].small, p->axes[1].small, p->axes[2].small};
    const index3 large{p->axes[0].large, p->axes[1].large, p->axes[2].large};
    const std::int64_t plane = large[0] * large[1] * large[2];
    const std::int64_t size = plane * (attributes.index_base == index_base::plane ? 1 : p->channels) *
                              (attributes.index_base == index_base::tensor ? p->batch : 1);
    const auto index = [&](std::int64_t n, std::int64_t c, const index3& o) {
        return indices.data[n * at[0] + c * at[1] + o[0] * at[2] + o[1] * at[3] + o[2] * at[4]];
    };
    status bad;
    for (std::int64_t n = 0; n < p->batch; ++n)
        for (std::int64_t c = 0; c < p->channels; ++c)
            for_each_index(small, [&](const index3& o) {
                const std::int64_t i = index(n, c, o);
                if (bad && (i < -1 || i >= size)) bad = shape::bad_index(op, i, size);
            });
    if (!bad) return bad;

    const bool in_f64 = small[0] * small[1] * small[2] > detail::many_windows;
    // Every element of diff_src searches its gradients: quadratic, but obviously correct.
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index(large, [&](const index3& q) {
                const std::int64_t own =
                    index_of(*p, attributes.data_format, attributes.index_base, attributes.storage_order, n, c, q);
                scattered_sum<accumulate_t<T>> sum(in_f64);
                for (std::int64_t m = 0; m < p->batch; ++m) {
                    for (std::int64_t k = 0; k < p->channels; ++k) {
                        if (attributes.index_base != index_base::tensor && m != n) continue;
                        if (attributes.index_base == index_base::plane && k != c) continue;
                        for_each_index(small, [&](const index3& o) {
                            if (index(m, k, o) == own) sum.add(dy(m, k, o));
                        });
                    }
                }
                store(dx.at(n, c, q), sum.value(), options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status max_pool_backward_from_indices(const DiffDst& diff_dst, tensor_view<const std::int64_t> indices,
                                                    const max_pool_indices_attributes& attributes,
                                                    tensor_view<typename DiffDst::element_type> diff_src,
                                                    const call_options& options = {}) noexcept {
    return ref::max_pool_backward_from_indices<typename DiffDst::element_type>(diff_dst, indices, attributes, diff_src,
                                                                               options);
}

}  // namespace ref
GRADKERN_ISA_NAMESPACE_END
