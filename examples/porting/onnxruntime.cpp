// A layer of ONNX Runtime's training graph through the front end, beside a plain loop.
#include <gradkern/frontend/onnxruntime.hpp>
#include <gradkern/workspace.hpp>

#include "plain.hpp"

using namespace gradkern;

namespace {

// [conv_grad]
// The gradient of Conv(X, W, B) with pads=[1, 0, 2, 1], strides=[2, 1], group=2; X is (2, 8, 9, 7), W (6, 4, 3, 3).
// Pass {} for an output that is not needed.
status conv_grad(const float* dY, const float* X, const float* W, float* dX, float* dW, float* dB,
                 std::span<std::byte> memory) {
    return onnxruntime::ConvGrad<float>({dY, {2, 6, 5, 6}}, {X, {2, 8, 9, 7}}, {W, {6, 4, 3, 3}},
                                        {.group = 2, .pads = {1, 0, 2, 1}, .strides = {2, 1}}, {dX, {2, 8, 9, 7}},
                                        {dW, {6, 4, 3, 3}}, {dB, {6}}, {.workspace = memory});
}
// [/conv_grad]

void test_conv_grad(plain::report& report, std::span<std::byte> memory) {
    plain::tensor X({2, 8, 9, 7}, 1), W({6, 4, 3, 3}, 2), dY({2, 6, 5, 6}, 3);
    plain::tensor dX(X.shape), dW(W.shape), dB({1, 1, 1, 6});
    plain::tensor want_dX(X.shape), want_dW(W.shape), want_dB(dB.shape);
    const plain::windows rows{.length = 9, .count = 5, .kernel = 3, .stride = 2, .pad = 1};
    const plain::windows columns{.length = 7, .count = 6, .kernel = 3, .stride = 1, .pad = 0};
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size o = 0; o < 6; ++o) {
            for (plain::size h = 0; h < 5; ++h)
                for (plain::size w = 0; w < 6; ++w) want_dB(0, 0, 0, o) += dY(n, o, h, w);
            const plain::size first = o / 3 * 4;  // input channel of this output channel's group
            for (plain::size i = 0; i < 4; ++i)
                plain::for_each_tap(rows, columns, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    want_dX(n, first + i, ih, iw) += dY(n, o, oh, ow) * W(o, i, kh, kw);
                    want_dW(o, i, kh, kw) += dY(n, o, oh, ow) * X(n, first + i, ih, iw);
                });
        }
    report.succeeded("ConvGrad", conv_grad(dY.data(), X.data(), W.data(), dX.data(), dW.data(), dB.data(), memory));
    report.equal("ConvGrad: dX", dX.values, want_dX.values);
    report.equal("ConvGrad: dW", dW.values, want_dW.values);
    report.equal("ConvGrad: dB", dB.values, want_dB.values);
}

}  // namespace

int main() {
    plain::report report;
    const workspace memory(1 << 22);
    test_conv_grad(report, memory);
    return report.result();
}
