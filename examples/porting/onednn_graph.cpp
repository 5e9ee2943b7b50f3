// A layer of a oneDNN graph through the front end, beside a plain loop.
#include <gradkern/frontend/onednn_graph.hpp>
#include <gradkern/workspace.hpp>

#include "plain.hpp"

using namespace gradkern;

namespace {

// [backward_weights]
// A node ConvolutionBackwardWeights whose src is (2, 15, 15, 8) in NXC and whose weights are (3, 3, 8, 12) in XIO, with
// dilations of 2. The third argument is the 1-D tensor weights_shape; with {} the attribute is used.
status backward_weights(const float* src, const float* diff_dst, float* diff_weights, std::span<std::byte> memory) {
    return onednn_graph::ConvolutionBackwardWeights<float, float>({src, {2, 15, 15, 8}}, {diff_dst, {2, 15, 15, 12}},
                                                                  {},
                                                                  {.strides = {1, 1},
                                                                   .pads_begin = {2, 2},
                                                                   .pads_end = {2, 2},
                                                                   .dilations = {2, 2},
                                                                   .auto_pad = "none",
                                                                   .data_format = "NXC",
                                                                   .weights_format = "XIO",
                                                                   .weights_shape = {3, 3, 8, 12}},
                                                                  {diff_weights, {3, 3, 8, 12}}, {.workspace = memory});
}
// [/backward_weights]

void test_backward_weights(plain::report& report, std::span<std::byte> memory) {
    plain::tensor src({2, 15, 15, 8}, 1), diff_dst({2, 15, 15, 12}, 2), diff_weights({3, 3, 8, 12});
    plain::tensor wanted(diff_weights.shape);
    const plain::windows axis{.length = 15, .count = 15, .kernel = 3, .stride = 1, .pad = 2, .dilation = 2};
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size i = 0; i < 8; ++i)
            for (plain::size o = 0; o < 12; ++o)
                plain::for_each_tap(axis, axis, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    wanted(kh, kw, i, o) += src(n, ih, iw, i) * diff_dst(n, oh, ow, o);
                });
    report.succeeded("ConvolutionBackwardWeights",
                     backward_weights(src.data(), diff_dst.data(), diff_weights.data(), memory));
    report.equal("ConvolutionBackwardWeights: diff_weights", diff_weights.values, wanted.values);
}

}  // namespace

int main() {
    plain::report report;
    const workspace memory(1 << 22);
    test_backward_weights(report, memory);
    return report.result();
}
