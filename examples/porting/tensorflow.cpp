// TensorFlow's layers as calls of gradkern, each beside a plain loop.
#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

#include "plain.hpp"

using namespace gradkern;

namespace {

// [depthwise_conv2d]
// y = tf.nn.depthwise_conv2d(x, filter, strides=[1, 2, 2, 1], padding='SAME'), x of shape (2, 14, 14, 8) and a filter of
// shape (3, 3, 8, 2). The filter (kH, kW, C, M) is XIO of C groups, (kH, kW, 1, C * M): the same memory.
status depthwise_conv2d(const float* x, const float* filter, float* y, std::span<std::byte> memory) {
    return convolution<float>({x, {2, 14, 14, 8}}, {filter, {3, 3, 1, 16}}, {},
                              {.strides = {2, 2}, .dilations = {1, 1}, .auto_pad = auto_pad::same_upper, .groups = 8},
                              {y, {2, 7, 7, 16}}, {.workspace = memory});
}
// [/depthwise_conv2d]

// [conv2d_transpose]
// y = tf.nn.conv2d_transpose(x, filter, output_shape=(2, 14, 14, 8), strides=2, padding='SAME'), x of shape (2, 7, 7, 16)
// and a filter of shape (3, 3, 8, 16). It is the data gradient of the convolution that computes x from y, so its filter
// (kH, kW, out, in) is the XIO filter of that convolution.
status conv2d_transpose(const float* x, const float* filter, float* y, std::span<std::byte> memory) {
    return convolution_backward_data<float>({x, {2, 7, 7, 16}}, {filter, {3, 3, 8, 16}},
                                            {.strides = {2, 2}, .dilations = {1, 1}, .auto_pad = auto_pad::same_upper},
                                            {y, {2, 14, 14, 8}}, {.workspace = memory});
}
// [/conv2d_transpose]

// 14 elements, stride 2, kernel 3, SAME: 7 windows, and one element of padding, at the end.
const plain::windows same{.length = 14, .count = 7, .kernel = 3, .stride = 2, .pad = 0};

void test_depthwise_conv2d(plain::report& report, std::span<std::byte> memory) {
    plain::tensor x({2, 14, 14, 8}, 1), filter({3, 3, 8, 2}, 2), y({2, 7, 7, 16}), want_y(y.shape);
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size c = 0; c < 8; ++c)
            for (plain::size m = 0; m < 2; ++m)
                plain::for_each_tap(same, same, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    want_y(n, oh, ow, c * 2 + m) += x(n, ih, iw, c) * filter(kh, kw, c, m);
                });
    report.succeeded("depthwise_conv2d", depthwise_conv2d(x.data(), filter.data(), y.data(), memory));
    report.equal("depthwise_conv2d: y", y.values, want_y.values);
}

void test_conv2d_transpose(plain::report& report, std::span<std::byte> memory) {
    plain::tensor x({2, 7, 7, 16}, 3), filter({3, 3, 8, 16}, 4), y({2, 14, 14, 8}), want_y(y.shape);
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size out = 0; out < 8; ++out)
            for (plain::size in = 0; in < 16; ++in)
                plain::for_each_tap(same, same, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    want_y(n, ih, iw, out) += x(n, oh, ow, in) * filter(kh, kw, out, in);
                });
    report.succeeded("conv2d_transpose", conv2d_transpose(x.data(), filter.data(), y.data(), memory));
    report.equal("conv2d_transpose: y", y.values, want_y.values);
}

}  // namespace

int main() {
    plain::report report;
    const workspace memory(1 << 22);
    test_depthwise_conv2d(report, memory);
    test_conv2d_transpose(report, memory);
    return report.result();
}
