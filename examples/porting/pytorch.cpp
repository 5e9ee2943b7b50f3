// PyTorch's layers as calls of gradkern, each beside a plain loop.
#include <utility>

#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

#include "plain.hpp"

using namespace gradkern;

namespace {

// [conv2d]
// torch.nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1), on x of shape (4, 16, 14, 14)
const convolution_attributes conv{.strides = {2, 2},
                                  .dilations = {1, 1},
                                  .pads_begin = {1, 1},
                                  .pads_end = {1, 1},
                                  .data_format = data_format::ncx,
                                  .weights_format = weights_format::oix};
const extents x_shape{4, 16, 14, 14}, weight_shape{32, 16, 3, 3}, y_shape{4, 32, 7, 7};

// y = conv(x)
status conv2d(const float* x, const float* weight, const float* bias, float* y, std::span<std::byte> memory) {
    return convolution<float>({x, x_shape}, {weight, weight_shape}, {bias, {32}}, conv, {y, y_shape},
                              {.workspace = memory});
}

// y.backward(dy): the three results of aten::convolution_backward
status conv2d_backward(const float* dy, const float* x, const float* weight, float* dx, float* dweight, float* dbias,
                       std::span<std::byte> memory) {
    const status s = convolution_backward_data<float>({dy, y_shape}, {weight, weight_shape}, conv, {dx, x_shape},
                                                      {.workspace = memory});
    if (!s) return s;
    return convolution_backward_weights<float, float>({x, x_shape}, {dy, y_shape}, conv, {dweight, weight_shape},
                                                      {dbias, {32}}, {.workspace = memory});
}
// [/conv2d]

// [conv_transpose2d]
// The weight of a transposed convolution is (in, out/groups, K...) in PyTorch, and OIX, (out/groups, in, K...), in gradkern. It
// is the same memory with the first two axes swapped. `sizes` and `strides` are those of the torch tensor, in any memory format.
tensor_layout transposed_weight(extents sizes, extents strides) {
    std::swap(sizes[0], sizes[1]);
    std::swap(strides[0], strides[1]);
    return {sizes, strides};
}

// y = torch.nn.ConvTranspose2d(16, 8, kernel_size=4, stride=2, padding=1, groups=2)(x)
const conv_transpose_attributes transposed{.strides = {2, 2},
                                           .dilations = {1, 1},
                                           .pads_begin = {1, 1},
                                           .pads_end = {1, 1},
                                           .groups = 2,
                                           .data_format = data_format::ncx,
                                           .weights_format = weights_format::oix};
const tensor_layout oix = transposed_weight({16, 4, 4, 4}, {4 * 4 * 4, 4 * 4, 4, 1});

status conv_transpose2d(const float* x, const float* weight, const float* bias, float* y, std::span<std::byte> memory) {
    return conv_transpose<float>({x, {4, 16, 7, 7}}, {weight, oix}, {bias, {8}}, transposed, {y, {4, 8, 14, 14}},
                                 {.workspace = memory});
}

// dweight has the layout of the weight.
status conv_transpose2d_weight(const float* x, const float* dy, float* dweight, std::span<std::byte> memory) {
    return conv_transpose_backward_weights<float, float>({x, {4, 16, 7, 7}}, {dy, {4, 8, 14, 14}}, transposed,
                                                         {dweight, oix}, {}, {.workspace = memory});
}
// [/conv_transpose2d]

void test_conv2d(plain::report& report, std::span<std::byte> memory) {
    plain::tensor x({4, 16, 14, 14}, 1), weight({32, 16, 3, 3}, 2), bias({1, 1, 1, 32}, 3), dy({4, 32, 7, 7}, 4);
    plain::tensor y({4, 32, 7, 7}), dx(x.shape), dweight(weight.shape), dbias(bias.shape);
    plain::tensor want_y(y.shape), want_dx(x.shape), want_dweight(weight.shape), want_dbias(bias.shape);
    const plain::windows axis{.length = 14, .count = 7, .kernel = 3, .stride = 2, .pad = 1};
    for (plain::size n = 0; n < 4; ++n)
        for (plain::size o = 0; o < 32; ++o) {
            for (plain::size h = 0; h < 7; ++h)
                for (plain::size w = 0; w < 7; ++w) {
                    want_y(n, o, h, w) = bias(0, 0, 0, o);
                    want_dbias(0, 0, 0, o) += dy(n, o, h, w);
                }
            for (plain::size i = 0; i < 16; ++i)
                plain::for_each_tap(axis, axis, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    want_y(n, o, oh, ow) += x(n, i, ih, iw) * weight(o, i, kh, kw);
                    want_dx(n, i, ih, iw) += dy(n, o, oh, ow) * weight(o, i, kh, kw);
                    want_dweight(o, i, kh, kw) += dy(n, o, oh, ow) * x(n, i, ih, iw);
                });
        }
    report.succeeded("conv2d", conv2d(x.data(), weight.data(), bias.data(), y.data(), memory));
    report.succeeded("conv2d_backward", conv2d_backward(dy.data(), x.data(), weight.data(), dx.data(), dweight.data(),
                                                        dbias.data(), memory));
    report.equal("conv2d: y", y.values, want_y.values);
    report.equal("conv2d: dx", dx.values, want_dx.values);
    report.equal("conv2d: dweight", dweight.values, want_dweight.values);
    report.equal("conv2d: dbias", dbias.values, want_dbias.values);
}

void test_conv_transpose2d(plain::report& report, std::span<std::byte> memory) {
    plain::tensor x({4, 16, 7, 7}, 5), weight({16, 4, 4, 4}, 6), bias({1, 1, 1, 8}, 7), dy({4, 8, 14, 14}, 8);
    plain::tensor y({4, 8, 14, 14}), dweight(weight.shape), want_y(y.shape), want_dweight(weight.shape);
    const plain::windows axis{.length = 14, .count = 7, .kernel = 4, .stride = 2, .pad = 1};
    for (plain::size n = 0; n < 4; ++n)
        for (plain::size o = 0; o < 8; ++o) {
            for (plain::size h = 0; h < 14; ++h)
                for (plain::size w = 0; w < 14; ++w) want_y(n, o, h, w) = bias(0, 0, 0, o);
            for (plain::size i = o / 4 * 8; i < o / 4 * 8 + 8; ++i)  // the inputs of the group of o
                plain::for_each_tap(axis, axis, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    want_y(n, o, ih, iw) += x(n, i, oh, ow) * weight(i, o % 4, kh, kw);
                    want_dweight(i, o % 4, kh, kw) += x(n, i, oh, ow) * dy(n, o, ih, iw);
                });
        }
    report.succeeded("conv_transpose2d", conv_transpose2d(x.data(), weight.data(), bias.data(), y.data(), memory));
    report.succeeded("conv_transpose2d_weight", conv_transpose2d_weight(x.data(), dy.data(), dweight.data(), memory));
    report.equal("conv_transpose2d: y", y.values, want_y.values);
    report.equal("conv_transpose2d: dweight", dweight.values, want_dweight.values);

    // (2, 3, 4, 5) in channels_last memory.
    const tensor_layout nhwc = transposed_weight({2, 3, 4, 5}, {60, 1, 15, 3});
    report.holds("transposed_weight", nhwc == tensor_layout({3, 2, 4, 5}, {1, 60, 15, 3}));
}

}  // namespace

int main() {
    plain::report report;
    const workspace memory(1 << 22);
    test_conv2d(report, memory);
    test_conv_transpose2d(report, memory);
    return report.result();
}
