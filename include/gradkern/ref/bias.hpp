// Reference bias gradient as plain loops beside its equation.
//
// The same arguments, shapes and errors as bias.hpp (overlapping tensors are not detected), also for double; no
// workspace, one thread. Sums are kept in accumulate_t<T> (f32; f64 for double) in plain order, with one rounding at the
// end.
#pragma once

#include <cstdint>

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

/// diff_bias[c] = sum over n and all positions of diff_dst[n, c, position].
template <class T, class G = T>
[[nodiscard]] status bias_backward(tensor_view<const T> diff_dst, const bias_attributes& attributes,
                                   tensor_view<G> diff_bias, const call_options& options = {}) noexcept {
    const auto p = shape::bias_backward_shapes(diff_dst.layout.shape, attributes, diff_bias.layout.shape, true,
                                               detail::widest_bytes<T, G>);
    if (!p) return p.error();
    if (diff_bias.layout.empty()) diff_bias.layout.shape = p->diff_bias_shape;
    const status s = check_arguments("bias_backward",
                                     {{"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"diff_bias", diff_bias.data, diff_bias.layout, sizeof(G), true}},
                                     options.plan, detail::batch_use::summed, p->batch);
    if (!s) return s;

    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    for (std::int64_t c = 0; c < p->channels; ++c) {
        for_each_result(p->batch, p->channels, options.plan, [&](auto first, auto last, auto offset) {
            accumulate_t<T> sum = 0;
            for (std::int64_t n = first; n < last; ++n)
                for_each_index(p->positions, [&](const index3& o) { sum += dy(n, c, o); });
            store(diff_bias.data + offset + c * shape::strides_of(diff_bias.layout)[0], sum, options.plan.output);
        });
    }
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst, class G = typename DiffDst::element_type>
[[nodiscard]] status bias_backward(const DiffDst& diff_dst, const bias_attributes& attributes, tensor_view<G> diff_bias,
                                   const call_options& options = {}) noexcept {
    return ref::bias_backward<typename DiffDst::element_type, G>(diff_dst, attributes, diff_bias, options);
}

}  // namespace ref
GRADKERN_ISA_NAMESPACE_END
