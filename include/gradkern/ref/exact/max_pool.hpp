// Exact max pooling: forward and both gradients. Maxima are elements; gradients of the same element are added exactly and rounded once.
//
// The same arguments, shapes and errors as ref/max_pool.hpp. The gradients sort the windows by what they point at, so they take time in
// proportion to the elements of both tensors. Memory for that comes from the heap; std::bad_alloc passes through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/detail/buffer.hpp>
#include <gradkern/ref/exact/detail/contractions.hpp>
#include <gradkern/ref/exact/detail/store.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/ref/max_pool.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact {
namespace detail {

/// dx of element (n, c, q) = sum of dy of the windows (n, c, o) with key_of_window = key_of_element. Keys of windows lie in [-1, keys); that
/// of a window that passes no gradient is -1.
template <class T, class Dst, class KeyOfWindow, class KeyOfElement>
void route_gradients(const shape::pooling_problem& p, std::int64_t keys, const tensor5<const T>& dy,
                     const tensor5<Dst>& dx, output_mode mode, const KeyOfWindow& key_of_window,
                     const KeyOfElement& key_of_element) {
    const index3 small{p.axes[0].small, p.axes[1].small, p.axes[2].small};
    const index3 large{p.axes[0].large, p.axes[1].large, p.axes[2].large};
    const auto for_each_window_with_key = [&](const auto& f) {
        for (std::int64_t n = 0; n < p.batch; ++n)
            for (std::int64_t c = 0; c < p.channels; ++c)
                for_each_index(small, [&](const index3& o) {
                    const std::int64_t key = key_of_window(n, c, o);
                    if (key >= 0) f(static_cast<std::size_t>(key), dy.at(n, c, o));
                });
    };
    // A counting sort: the gradients of key k are [ends[k - 1], ends[k]).
    buffer<std::int64_t> ends(static_cast<std::size_t>(keys) + 1);
    for_each_window_with_key([&](std::size_t key, const T*) { ++ends[key + 1]; });
    for (std::size_t k = 1; k < ends.size(); ++k) ends[k] += ends[k - 1];
    buffer<const T*> sorted(static_cast<std::size_t>(ends[ends.size() - 1]));
    for_each_window_with_key(
        [&](std::size_t key, const T* from) { sorted[static_cast<std::size_t>(ends[key]++)] = from; });

    accumulator sum;
    for (std::int64_t n = 0; n < p.batch; ++n)
        for (std::int64_t c = 0; c < p.channels; ++c)
            for_each_index(large, [&](const index3& q) {
                const auto key = static_cast<std::size_t>(key_of_element(n, c, q));
                sum.clear();
                for (std::int64_t i = key == 0 ? 0 : ends[key - 1]; i < ends[key]; ++i)
                    sum.add(*sorted[static_cast<std::size_t>(i)]);
                store_sum(dx.at(n, c, q), sum, mode);
            });
}

}  // namespace detail

/// dst[n, c, o] = max over inside taps k of src[n, c, p(o,k)]; -Inf for a window without taps inside. `indices`, if given, receives the index
/// of that element, or -1. The value is the element itself, zeros with their sign; a NaN is positive and quiet, without payload. An
/// accumulating call adds to the previous value and rounds once; -0 is the sum of negative zeros alone.
template <class T>
[[nodiscard]] status max_pool(tensor_view<const T> src, const max_pool_attributes& attributes,
                              std::type_identity_t<tensor_view<T>> dst, tensor_view<std::int64_t> indices = {},
                              const call_options& options = {}) {
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
    shape::canonical_strides at{};
    if (!indices.layout.empty()) at = shape::activation_strides(indices.layout, attributes.data_format);
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].small, p->axes[1].small, p->axes[2].small}, [&](const index3& o) {
                const auto best = max_of_window<T>(x, *p, attributes.ignore_nan, n, c, o);
                T* const to = y.at(n, c, o);
                const T value = best.found ? *x.at(n, c, best.position) : detail::infinity<T>(true);
                accumulator sum;
                sum.add(value);
                bool is_negative = detail::parts_of(value).is_negative;
                if (options.plan.output == output_mode::accumulate) {
                    sum.add(*to);
                    is_negative = is_negative && detail::parts_of(*to).is_negative;
                }
                *to = sum.is_zero() ? detail::zero<T>(is_negative) : sum.rounded<T>();
                if (!indices.layout.empty())
                    indices.data[n * at[0] + c * at[1] + o[0] * at[2] + o[1] * at[3] + o[2] * at[4]] =
                        best.found ? index_of(*p, attributes.data_format, attributes.index_base,
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
                              const call_options& options = {}) {
    return exact::max_pool<typename Src::element_type>(src, attributes, dst, indices, options);
}

/// diff_src[n, c, q] = sum over windows o whose maximum is at q of diff_dst[n, c, o], rounded once to Dst, which may be `accumulator`.
template <class T, class Dst = T>
[[nodiscard]] status max_pool_backward(tensor_view<const T> src, std::type_identity_t<tensor_view<const T>> diff_dst,
                                       const max_pool_attributes& attributes,
                                       std::type_identity_t<tensor_view<Dst>> diff_src,
                                       const call_options& options = {}) {
    const auto p = shape::max_pool_backward_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                   diff_src.layout.shape, gradkern::detail::widest_bytes<T, Dst>);
    if (!p) return p.error();
    if (diff_src.layout.empty()) diff_src.layout.shape = p->large_shape;
    const status s = check_arguments("max_pool_backward",
                                     {{"src", src.data, src.layout, sizeof(T)},
                                      {"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"diff_src", diff_src.data, diff_src.layout, sizeof(Dst), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<Dst> dx{diff_src.data, shape::activation_strides(diff_src.layout, attributes.data_format)};
    const std::int64_t plane = p->axes[0].large * p->axes[1].large * p->axes[2].large;
    const auto key = [&](std::int64_t n, std::int64_t c, const index3& q) {
        return index_of(*p, data_format::ncx, index_base::tensor, storage_order::row_major, n, c, q);
    };
    detail::route_gradients(
        *p, p->batch * p->channels * plane, dy, dx, options.plan.output,
        [&](std::int64_t n, std::int64_t c, const index3& o) {
            const auto best = max_of_window<T>(x, *p, attributes.ignore_nan, n, c, o);
            return best.found ? key(n, c, best.position) : std::int64_t{-1};
        },
        key);
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src, class Dst = typename Src::element_type>
[[nodiscard]] status max_pool_backward(const Src& src, tensor_view<const typename Src::element_type> diff_dst,
                                       const max_pool_attributes& attributes,
                                       std::type_identity_t<tensor_view<Dst>> diff_src,
                                       const call_options& options = {}) {
    return exact::max_pool_backward<typename Src::element_type, Dst>(src, diff_dst, attributes, diff_src, options);
}

/// diff_src = 0, then diff_src[indices[n, c, o]] += diff_dst[n, c, o] for every element whose index is not -1; each sum is rounded once to
/// Dst, which may be `accumulator`.
template <class T, class Dst = T>
[[nodiscard]] status max_pool_backward_from_indices(tensor_view<const T> diff_dst,
                                                    tensor_view<const std::int64_t> indices,
                                                    const max_pool_indices_attributes& attributes,
                                                    std::type_identity_t<tensor_view<Dst>> diff_src,
                                                    const call_options& options = {}) {
    constexpr std::string_view op = "max_pool_backward_from_indices";
    const auto p =
        shape::max_pool_backward_from_indices_shapes(diff_dst.layout.shape, indices.layout.shape, attributes,
                                                     diff_src.layout.shape, gradkern::detail::widest_bytes<T, Dst>);
    if (!p) return p.error();
    if (diff_src.layout.empty()) diff_src.layout.shape = p->large_shape;
    const status s = check_arguments(op,
                                     {{"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"indices", indices.data, indices.layout, sizeof(std::int64_t)},
                                      {"diff_src", diff_src.data, diff_src.layout, sizeof(Dst), true}},
                                     options.plan);
    if (!s) return s;

    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    const tensor5<Dst> dx{diff_src.data, shape::activation_strides(diff_src.layout, attributes.data_format)};
    const shape::canonical_strides at = shape::activation_strides(indices.layout, attributes.data_format);
    // Indices count within a plane, an image or the tensor: from `base_of` on, in keys.
    const std::int64_t plane = p->axes[0].large * p->axes[1].large * p->axes[2].large;
    const bool by_plane = attributes.index_base == index_base::plane;
    const bool by_tensor = attributes.index_base == index_base::tensor;
    const std::int64_t size = plane * (by_plane ? 1 : p->channels) * (by_tensor ? p->batch : 1);
    const auto base_of = [&](std::int64_t n, std::int64_t c) {
        return by_tensor ? 0 : (by_plane ? n * p->channels + c : n) * size;
    };
    const auto index_at = [&](std::int64_t n, std::int64_t c, const index3& o) {
        return indices.data[n * at[0] + c * at[1] + o[0] * at[2] + o[1] * at[3] + o[2] * at[4]];
    };
    status bad;
    for (std::int64_t n = 0; n < p->batch; ++n)
        for (std::int64_t c = 0; c < p->channels; ++c)
            for_each_index({p->axes[0].small, p->axes[1].small, p->axes[2].small}, [&](const index3& o) {
                const std::int64_t i = index_at(n, c, o);
                if (bad && (i < -1 || i >= size)) bad = shape::bad_index(op, i, size);
            });
    if (!bad) return bad;

    detail::route_gradients(
        *p, p->batch * p->channels * plane, dy, dx, options.plan.output,
        [&](std::int64_t n, std::int64_t c, const index3& o) {
            const std::int64_t i = index_at(n, c, o);
            return i < 0 ? i : base_of(n, c) + i;
        },
        [&](std::int64_t n, std::int64_t c, const index3& q) {
            return base_of(n, c) +
                   index_of(*p, attributes.data_format, attributes.index_base, attributes.storage_order, n, c, q);
        });
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst, class Dst = typename DiffDst::element_type>
[[nodiscard]] status max_pool_backward_from_indices(const DiffDst& diff_dst, tensor_view<const std::int64_t> indices,
                                                    const max_pool_indices_attributes& attributes,
                                                    std::type_identity_t<tensor_view<Dst>> diff_src,
                                                    const call_options& options = {}) {
    return exact::max_pool_backward_from_indices<typename DiffDst::element_type, Dst>(diff_dst, indices, attributes,
                                                                                      diff_src, options);
}

}  // namespace ref::exact
GRADKERN_ISA_NAMESPACE_END
