// The operators of TOSA as calls of gradkern, each beside a plain loop.
#include <algorithm>
#include <array>
#include <limits>

#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

#include "plain.hpp"

using namespace gradkern;

namespace {

// [layouts]
// Activations are dense NHWC or NDHWC: gradkern's default format, NXC. Weights are (OC, K..., IC), which is XIO,
// (K..., IC, OC), with other strides.
tensor_layout xio_of(const extents& w) {
    if (w.rank() == 4) {  // (OC, KH, KW, IC)
        return {{w[1], w[2], w[3], w[0]}, {w[2] * w[3], w[3], 1, w[1] * w[2] * w[3]}};
    }
    return {{w[1], w[2], w[3], w[4], w[0]},  // (OC, KD, KH, KW, IC)
            {w[2] * w[3] * w[4], w[3] * w[4], w[4], 1, w[1] * w[2] * w[3] * w[4]}};
}
// [/layouts]

// [convolutions]
// pad = [top, bottom, left, right]
status conv2d(tensor_view<const float> input, const float* weight, const extents& weight_shape,
              tensor_view<const float> bias, const std::array<std::int64_t, 4>& pad, const extents& stride,
              const extents& dilation, tensor_view<float> output, const call_options& options) {
    return convolution<float>(
        input, {weight, xio_of(weight_shape)}, bias,
        {.strides = stride, .dilations = dilation, .pads_begin = {pad[0], pad[2]}, .pads_end = {pad[1], pad[3]}},
        output, options);
}

// pad = [front, back, top, bottom, left, right]
status conv3d(tensor_view<const float> input, const float* weight, const extents& weight_shape,
              tensor_view<const float> bias, const std::array<std::int64_t, 6>& pad, const extents& stride,
              const extents& dilation, tensor_view<float> output, const call_options& options) {
    return convolution<float>(input, {weight, xio_of(weight_shape)}, bias,
                              {.strides = stride,
                               .dilations = dilation,
                               .pads_begin = {pad[0], pad[2], pad[4]},
                               .pads_end = {pad[1], pad[3], pad[5]}},
                              output, options);
}

// Weights (KH, KW, C, M) are XIO weights of C groups, (KH, KW, 1, C * M): the same memory.
status depthwise_conv2d(tensor_view<const float> input, const float* weight, const extents& weight_shape,
                        tensor_view<const float> bias, const std::array<std::int64_t, 4>& pad, const extents& stride,
                        const extents& dilation, tensor_view<float> output, const call_options& options) {
    const extents& w = weight_shape;
    return convolution<float>(input, {weight, {w[0], w[1], 1, w[2] * w[3]}}, bias,
                              {.strides = stride,
                               .dilations = dilation,
                               .pads_begin = {pad[0], pad[2]},
                               .pads_end = {pad[1], pad[3]},
                               .groups = w[2]},
                              output, options);
}
// [/convolutions]

// [transpose_conv2d]
// out_pad = [top, bottom, left, right] enlarges the output: OH = (IH - 1) * stride + KH + top + bottom. A negative entry
// crops it, which is gradkern's padding. A positive entry adds a rim that no tap reaches, so the result there is the bias.
// The call writes the view inside the rim.
status transpose_conv2d(tensor_view<const float> input, const float* weight, const extents& weight_shape,
                        const float* bias, const std::array<std::int64_t, 4>& out_pad, const extents& stride,
                        tensor_view<float> output, const call_options& options) {
    std::array<std::int64_t, 4> crop{}, rim{};
    for (std::size_t i = 0; i < 4; ++i) {
        crop[i] = std::max<std::int64_t>(-out_pad[i], 0);
        rim[i] = std::max<std::int64_t>(out_pad[i], 0);
    }
    const extents& all = output.layout.shape;  // (N, OH, OW, OC), dense
    for (std::int64_t i = 0; i < all[0] * all[1] * all[2] * all[3]; ++i) output.data[i] = bias[i % all[3]];

    const extents inner{all[0], all[1] - rim[0] - rim[1], all[2] - rim[2] - rim[3], all[3]};
    const extents strides{all[1] * all[2] * all[3], all[2] * all[3], all[3], 1};
    return conv_transpose<float>(
        input, {weight, xio_of(weight_shape)}, {bias, {all[3]}},
        {.strides = stride, .dilations = {1, 1}, .pads_begin = {crop[0], crop[2]}, .pads_end = {crop[1], crop[3]}},
        {output.data + rim[0] * strides[1] + rim[2] * strides[2], {inner, strides}}, options);
}
// [/transpose_conv2d]

// [pools]
// The mean of the elements inside the input.
status avg_pool2d(tensor_view<const float> input, const extents& kernel, const extents& stride,
                  const std::array<std::int64_t, 4>& pad, tensor_view<float> output, const call_options& options) {
    return avg_pool<float>(input,
                           {.kernel = kernel,
                            .strides = stride,
                            .pads_begin = {pad[0], pad[2]},
                            .pads_end = {pad[1], pad[3]},
                            .exclude_pad = true},
                           output, options);
}

// nan_mode PROPAGATE, or IGNORE
status max_pool2d(tensor_view<const float> input, const extents& kernel, const extents& stride,
                  const std::array<std::int64_t, 4>& pad, bool ignore_nan, tensor_view<float> output,
                  const call_options& options) {
    return max_pool<float>(input,
                           {.kernel = kernel,
                            .strides = stride,
                            .pads_begin = {pad[0], pad[2]},
                            .pads_end = {pad[1], pad[3]},
                            .ignore_nan = ignore_nan},
                           output, {}, options);
}
// [/pools]

void test_conv2d(plain::report& report, const call_options& options) {
    plain::tensor input({2, 9, 11, 6}, 1), weight({10, 3, 2, 6}, 2), bias({1, 1, 1, 10}, 3);  // OHWI
    plain::tensor output({2, 5, 9, 10}), wanted(output.shape);
    const plain::windows rows{.length = 9, .count = 5, .kernel = 3, .stride = 2, .pad = 1, .dilation = 1};
    const plain::windows columns{.length = 11, .count = 9, .kernel = 2, .stride = 1, .pad = 0, .dilation = 3};
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size o = 0; o < 10; ++o) {
            for (plain::size h = 0; h < 5; ++h)
                for (plain::size w = 0; w < 9; ++w) wanted(n, h, w, o) = bias(0, 0, 0, o);
            for (plain::size i = 0; i < 6; ++i)
                plain::for_each_tap(rows, columns, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    wanted(n, oh, ow, o) += input(n, ih, iw, i) * weight(o, kh, kw, i);
                });
        }
    report.succeeded("conv2d", conv2d(input.view(), weight.data(), weight.extents(), {bias.data(), {10}}, {1, 1, 0, 1},
                                      {2, 1}, {1, 3}, output.view(), options));
    report.equal("conv2d", output.values, wanted.values);
    // With stride 0, a bias of one element applies to all channels.
    for (float& v : wanted.values) v = 0;
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size o = 0; o < 10; ++o) {
            for (plain::size h = 0; h < 5; ++h)
                for (plain::size w = 0; w < 9; ++w) wanted(n, h, w, o) = bias(0, 0, 0, 4);
            for (plain::size i = 0; i < 6; ++i)
                plain::for_each_tap(rows, columns, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    wanted(n, oh, ow, o) += input(n, ih, iw, i) * weight(o, kh, kw, i);
                });
        }
    report.succeeded("conv2d, one bias", conv2d(input.view(), weight.data(), weight.extents(),
                                                {bias.data() + 4, tensor_layout(extents{10}, extents{0})}, {1, 1, 0, 1},
                                                {2, 1}, {1, 3}, output.view(), options));
    report.equal("conv2d, one bias", output.values, wanted.values);
}

void test_conv3d(plain::report& report, const call_options& options) {
    // One image: the first axis of these tensors is its depth.
    constexpr plain::size depth = 5, out_depth = 3;
    plain::tensor input({depth, 6, 7, 4}, 1), weight({8 * 2, 3, 3, 4}, 2),
        bias({1, 1, 1, 8}, 3);  // OC and KD are one axis
    plain::tensor output({out_depth, 6, 4, 8}), wanted(output.shape);
    const plain::windows planes{.length = depth, .count = out_depth, .kernel = 2, .stride = 2, .pad = 1};
    const plain::windows rows{.length = 6, .count = 6, .kernel = 3, .stride = 1, .pad = 1};
    const plain::windows columns{.length = 7, .count = 4, .kernel = 3, .stride = 2, .pad = 2};
    for (plain::size od = 0; od < out_depth; ++od)
        for (plain::size o = 0; o < 8; ++o) {
            for (plain::size h = 0; h < 6; ++h)
                for (plain::size w = 0; w < 4; ++w) wanted(od, h, w, o) = bias(0, 0, 0, o);
            for (plain::size kd = 0; kd < 2; ++kd) {
                const plain::size id = planes.at(od, kd);
                if (!planes.inside(id)) continue;
                for (plain::size i = 0; i < 4; ++i)
                    plain::for_each_tap(rows, columns, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                        wanted(od, oh, ow, o) += input(id, ih, iw, i) * weight(o * 2 + kd, kh, kw, i);
                    });
            }
        }
    report.succeeded(
        "conv3d", conv3d({input.data(), {1, depth, 6, 7, 4}}, weight.data(), {8, 2, 3, 3, 4}, {bias.data(), {8}},
                         {1, 0, 1, 1, 2, 0}, {2, 1, 2}, {1, 1, 1}, {output.data(), {1, out_depth, 6, 4, 8}}, options));
    report.equal("conv3d", output.values, wanted.values);
}

void test_depthwise_conv2d(plain::report& report, const call_options& options) {
    plain::tensor input({2, 9, 9, 5}, 1), weight({3, 3, 5, 3}, 2), bias({1, 1, 1, 15}, 3);
    plain::tensor output({2, 9, 5, 15}), wanted(output.shape);
    const plain::windows rows{.length = 9, .count = 9, .kernel = 3, .stride = 1, .pad = 1};
    const plain::windows columns{.length = 9, .count = 5, .kernel = 3, .stride = 2, .pad = 1};
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size c = 0; c < 5; ++c)
            for (plain::size m = 0; m < 3; ++m) {
                for (plain::size h = 0; h < 9; ++h)
                    for (plain::size w = 0; w < 5; ++w) wanted(n, h, w, c * 3 + m) = bias(0, 0, 0, c * 3 + m);
                plain::for_each_tap(rows, columns, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    wanted(n, oh, ow, c * 3 + m) += input(n, ih, iw, c) * weight(kh, kw, c, m);
                });
            }
    report.succeeded("depthwise_conv2d",
                     depthwise_conv2d(input.view(), weight.data(), weight.extents(), {bias.data(), {15}}, {1, 1, 1, 1},
                                      {1, 2}, {1, 1}, output.view(), options));
    report.equal("depthwise_conv2d", output.values, wanted.values);
}

void test_transpose_conv2d(plain::report& report, const call_options& options) {
    constexpr std::array<std::array<std::int64_t, 4>, 6> out_pads{{
        {0, 0, 0, 0},
        {-1, -2, -1, 0},
        {2, 1, 4, 3},
        {-2, 3, 1, -1},
        {3, -1, -2, -2},
        {-2, -2, 0, 5},
    }};
    plain::tensor input({2, 4, 5, 6}, 1), weight({7, 3, 4, 6}, 2), bias({1, 1, 1, 7}, 3);  // OHWI
    for (const auto& pad : out_pads) {
        const plain::size height = 3 * 2 + 3 + pad[0] + pad[1], width = 4 * 3 + 4 + pad[2] + pad[3];
        plain::tensor output({2, height, width, 7}), wanted(output.shape);
        const plain::windows rows{.length = height, .count = 4, .kernel = 3, .stride = 2, .pad = -pad[0]};
        const plain::windows columns{.length = width, .count = 5, .kernel = 4, .stride = 3, .pad = -pad[2]};
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size o = 0; o < 7; ++o) {
                for (plain::size h = 0; h < height; ++h)
                    for (plain::size w = 0; w < width; ++w) wanted(n, h, w, o) = bias(0, 0, 0, o);
                for (plain::size i = 0; i < 6; ++i)
                    plain::for_each_tap(rows, columns, [&](auto ih, auto iw, auto kh, auto kw, auto oh, auto ow) {
                        wanted(n, oh, ow, o) += input(n, ih, iw, i) * weight(o, kh, kw, i);
                    });
            }
        report.succeeded("transpose_conv2d", transpose_conv2d(input.view(), weight.data(), weight.extents(),
                                                              bias.data(), pad, {2, 3}, output.view(), options));
        report.equal("transpose_conv2d", output.values, wanted.values);
    }
}

void test_pools(plain::report& report, const call_options& options) {
    plain::tensor input({2, 8, 7, 5}, 1), mean({2, 4, 8, 5}), maximum(mean.shape);
    plain::tensor sum(mean.shape), count(mean.shape), want_maximum(mean.shape);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const plain::windows rows{.length = 8, .count = 4, .kernel = 3, .stride = 2, .pad = 0};  // pads [0, 1]
    const plain::windows columns{.length = 7, .count = 8, .kernel = 2, .stride = 1, .pad = 1};
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size c = 0; c < 5; ++c)
            plain::for_each_tap(rows, columns, [&](auto oh, auto ow, auto, auto, auto ih, auto iw) {
                sum(n, oh, ow, c) += input(n, ih, iw, c);
                count(n, oh, ow, c) += 1;
            });
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] /= count.values[i];
    report.succeeded("avg_pool2d", avg_pool2d(input.view(), {3, 2}, {2, 1}, {0, 1, 1, 1}, mean.view(), options));
    report.equal("avg_pool2d", mean.values, sum.values);

    input(1, 4, 3, 2) = nan;
    for (const bool ignore : {false, true}) {
        for (float& v : want_maximum.values) v = -std::numeric_limits<float>::infinity();
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size c = 0; c < 5; ++c)
                plain::for_each_tap(rows, columns, [&](auto oh, auto ow, auto, auto, auto ih, auto iw) {
                    float& best = want_maximum(n, oh, ow, c);
                    const float v = input(n, ih, iw, c);
                    if (v > best || (std::isnan(v) && !ignore)) best = v;
                });
        report.succeeded("max_pool2d",
                         max_pool2d(input.view(), {3, 2}, {2, 1}, {0, 1, 1, 1}, ignore, maximum.view(), options));
        report.equal("max_pool2d", maximum.values, want_maximum.values);
    }
}

}  // namespace

int main() {
    plain::report report;
    const workspace memory(1 << 22);
    const call_options options{.workspace = memory};
    test_conv2d(report, options);
    test_conv3d(report, options);
    test_depthwise_conv2d(report, options);
    test_transpose_conv2d(report, options);
    test_pools(report, options);
    return report.result();
}
