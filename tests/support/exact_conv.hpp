// Exact results of convolution cases (support/conv_cases.hpp).
#pragma once

#include <gradkern/ref/exact.hpp>

#include "support/conv_cases.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {

/// The exact result of c.op, rounded to R. It adds to what `out` holds if t.mode says so: see conv_tensors::prepare.
template <class R, class T, class G, class B, class W>
gk::status run_exact(const conv_case& c, const conv_tensors<T, G, B, W>& t, test_tensor<R>& out) {
    namespace exact = gk::ref::exact;
    const gk::call_options options{.plan = {.output = t.mode}};
    const auto first = t.first.const_view();
    const auto second = t.second.const_view();
    switch (c.op) {
        case conv_operator::convolution:
            return exact::convolution<T, W, R, B>(first, second, t.bias_view(), c.conv, out.view(), options);
        case conv_operator::convolution_backward_data:
            return exact::convolution_backward_data<T, W, R>(first, second, c.conv, out.view(), options);
        case conv_operator::convolution_backward_weights:
            return exact::convolution_backward_weights<T, R, W>(first, second, c.conv, out.view(), {}, options);
        case conv_operator::conv_transpose:
            return exact::conv_transpose<T, W, R, B>(first, second, t.bias_view(), c.transpose, out.view(), options);
        case conv_operator::conv_transpose_backward_data:
            return exact::conv_transpose_backward_data<T, W, R>(first, second, c.transpose, out.view(), options);
        default:
            return exact::conv_transpose_backward_weights<T, R, W>(first, second, c.transpose, out.view(), {}, options);
    }
}

}  // namespace gradkern_test
