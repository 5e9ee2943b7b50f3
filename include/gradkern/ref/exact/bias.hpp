// Exact bias gradient: each output is the correctly rounded value of its equation.
#pragma once

#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/ref/exact/accumulator.hpp>
#include <gradkern/ref/exact/detail/store.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref::exact {

/// diff_bias[c] = sum over n and all positions of diff_dst[n, c, position], rounded once to G, which may be `accumulator`.
template <class T, class G = T>
[[nodiscard]] status bias_backward(tensor_view<const T> diff_dst, const bias_attributes& attributes,
                                   tensor_view<G> diff_bias, const call_options& options = {}) {
    const auto p = shape::bias_backward_shapes(diff_dst.layout.shape, attributes, diff_bias.layout.shape, true,
                                               gradkern::detail::widest_bytes<T, G>);
    if (!p) return p.error();
    if (diff_bias.layout.empty()) diff_bias.layout.shape = p->diff_bias_shape;
    const status s = check_arguments("bias_backward",
                                     {{"diff_dst", diff_dst.data, diff_dst.layout, sizeof(T)},
                                      {"diff_bias", diff_bias.data, diff_bias.layout, sizeof(G), true}},
                                     options.plan, gradkern::detail::batch_use::summed, p->batch);
    if (!s) return s;

    const tensor5<const T> dy{diff_dst.data, shape::activation_strides(diff_dst.layout, attributes.data_format)};
    for (std::int64_t c = 0; c < p->channels; ++c) {
        for_each_result(p->batch, p->channels, options.plan, [&](auto first, auto last, auto offset) {
            accumulator sum;
            for (std::int64_t n = first; n < last; ++n)
                for_each_index(p->positions, [&](const index3& o) { sum.add(*dy.at(n, c, o)); });
            detail::store_sum(diff_bias.data + offset + c * shape::strides_of(diff_bias.layout)[0], sum,
                              options.plan.output);
        });
    }
    return {};
}

/// The same for a `diff_dst` that is a view of mutable elements.
template <mutable_view DiffDst, class G = typename DiffDst::element_type>
[[nodiscard]] status bias_backward(const DiffDst& diff_dst, const bias_attributes& attributes, tensor_view<G> diff_bias,
                                   const call_options& options = {}) {
    return exact::bias_backward<typename DiffDst::element_type, G>(diff_dst, attributes, diff_bias, options);
}

}  // namespace ref::exact
GRADKERN_ISA_NAMESPACE_END
