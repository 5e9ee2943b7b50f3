// Reference average pooling: forward and backward as plain loops, with the equations beside them.
//
// The same arguments, shapes and errors as avg_pool.hpp (overlapping tensors are not detected), also for double; no
// workspace, one thread. Sums are kept in accumulate_t<T> (f32; f64 for double) in the order of the operators, so both
// give the same bits. For each column of the window (kw, or ow) in ascending order, the sum over (kd, kh), or (od, oh), is
// row-major; then the columns are added. Every sum starts from +0. Long sums are cut into parts (sum_of_parts): sums of
// columns if they may have more than 512 terms, counting columns outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref {

/// The divisor of window o; 0 if the window is empty.
[[nodiscard]] constexpr std::int64_t average_divisor(const shape::pooling_problem& p, const avg_pool_attributes& a,
                                                     const index3& o) noexcept {
    if (a.divisor_override) return *a.divisor_override;
    std::int64_t count = 1;
    for (std::size_t i = 0; i < 3; ++i)
        count *= a.exclude_pad ? p.axes[i].inside_taps(o[i]).count : p.axes[i].padded_taps(o[i]);
    return count;
}

/// dst[n, c, o] = (sum over inside taps k of src[n, c, p(o,k)]) / divisor(o); +0 for a window without taps inside.
template <class T>
[[nodiscard]] status avg_pool(tensor_view<const T> src, const avg_pool_attributes& attributes,
                              std::type_identity_t<tensor_view<T>> dst, const call_options& options = {}) noexcept {
    using sum_type = accumulate_t<T>;
    const auto p = shape::avg_pool_shapes(src.layout.shape, attributes, dst.layout.shape, true, sizeof(T));
    if (!p) return p.error();
    if (dst.layout.empty()) dst.layout.shape = p->small_shape;
    const status s = check_arguments(
        "avg_pool", {{"src", src.data, src.layout, sizeof(T)}, {"dst", dst.data, dst.layout, sizeof(T), true}},
        options.plan);
    if (!s) return s;

    const tensor5<const T> x{src.data, shape::activation_strides(src.layout, attributes.data_format)};
    const tensor5<T> y{dst.data, shape::activation_strides(dst.layout, attributes.data_format)};
    const shape::axis& d = p->axes[0];
    const shape::axis& h = p->axes[1];
    const shape::axis& w = p->axes[2];
    const bool may_be_long = w.most_reads(shape::side::small) > detail::pool_part;  // sums of columns
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({d.small, h.small, w.small}, [&](const index3& o) {
                const shape::tap_sequence kd = d.inside_taps(o[0]);
                const shape::tap_sequence kh = h.inside_taps(o[1]);
                const shape::tap_sequence kw = w.inside_taps(o[2]);
                sum_of_parts<sum_type> total(may_be_long ? kw.first : 0);
                for (std::int64_t j = kw.first; j < kw.first + kw.count; ++j) {
                    sum_of_parts<sum_type> column;
                    for_each_index({kd.count, kh.count, 1}, [&](const index3& k) {
                        column.add(x(n, c,
                                     {d.position(o[0], kd.first + k[0]), h.position(o[1], kh.first + k[1]),
                                      w.position(o[2], j)}));
                    });
                    total.add(column.value());
                }
                const bool is_empty = kd.count == 0 || kh.count == 0 || kw.count == 0;
                const auto divisor = static_cast<sum_type>(average_divisor(*p, attributes, o));
                store(y.at(n, c, o), is_empty ? sum_type{0} : total.value() / divisor, options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `src` that is a view of mutable elements.
template <mutable_view Src>
[[nodiscard]] status avg_pool(const Src& src, const avg_pool_attributes& attributes,
                              tensor_view<typename Src::element_type> dst, const call_options& options = {}) noexcept {
    return ref::avg_pool<typename Src::element_type>(src, attributes, dst, options);
}

/// How many windows before window o would reach position q if there were windows before window 0.
[[nodiscard]] constexpr std::int64_t windows_before(const shape::axis& a, std::int64_t q, std::int64_t o) noexcept {
    const std::int64_t first = shape::ceil_div(q + a.pad_begin - a.reach(), a.stride);
    return (o - first) / a.read_step(shape::side::large);
}

/// diff_src[n, c, q] = sum over windows o that reach q of diff_dst[n, c, o] / divisor(o); +0 if there are none.
template <class T>
[[nodiscard]] status avg_pool_backward(tensor_view<const T> diff_dst, const avg_pool_attributes& attributes,
                                       std::type_identity_t<tensor_view<T>> diff_src,
                                       const call_options& options = {}) noexcept {
    using sum_type = accumulate_t<T>;
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
    const shape::axis& w = p->axes[2];
    const bool may_be_long = w.most_reads(shape::side::large) > detail::pool_part;  // sums of columns
    for (std::int64_t n = 0; n < p->batch; ++n) {
        for (std::int64_t c = 0; c < p->channels; ++c) {
            for_each_index({p->axes[0].large, p->axes[1].large, p->axes[2].large}, [&](const index3& q) {
                std::optional<sum_of_parts<sum_type>> total;
                sum_of_parts<sum_type> column;
                std::int64_t ow = -1;  // column of the windows being added
                // The windows of one column must follow each other: for_each_window with the axes as (w, d, h).
                for_each_window({w, p->axes[0], p->axes[1]}, {q[2], q[0], q[1]}, [&](const index3&, const index3& o) {
                    if (!total) total.emplace(may_be_long ? windows_before(w, q[2], o[0]) : 0);
                    if (o[0] != ow && ow != -1) {
                        total->add(column.value());
                        column = sum_of_parts<sum_type>();
                    }
                    ow = o[0];
                    const index3 window{o[1], o[2], o[0]};
                    column.add(y(n, c, window) / static_cast<sum_type>(average_divisor(*p, attributes, window)));
                });
                if (total) total->add(column.value());
                store(x.at(n, c, q), total ? total->value() : sum_type{0}, options.plan.output);
            });
        }
    }
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst>
[[nodiscard]] status avg_pool_backward(const DiffDst& diff_dst, const avg_pool_attributes& attributes,
                                       tensor_view<typename DiffDst::element_type> diff_src,
                                       const call_options& options = {}) noexcept {
    return ref::avg_pool_backward<typename DiffDst::element_type>(diff_dst, attributes, diff_src, options);
}

}  // namespace ref
GRADKERN_ISA_NAMESPACE_END
