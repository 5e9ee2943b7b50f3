#include <array>
#include <cstdint>
#include <iostream>

#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onednn_graph.hpp>

int main() {
    namespace graph = gradkern::onednn_graph;
    // Tensors are NXC and filters XIO unless an attribute says otherwise, as in the documentation.
    const std::array<float, 3> diff_dst{1, 2, 3};          // (N, O, OC) = (1, 3, 1)
    const std::array<float, 3> weights{1, 10, 100};        // (K, IC, OC) = (3, 1, 1)
    const std::array<std::int32_t, 3> dst_shape{1, 8, 1};  // a 1-D tensor of s32, as the operator's third input
    std::array<float, 8> diff_src{};

    // Words are spelled as in the documentation or as in oneDNN's code; enumerators work, too.
    const graph::ConvolutionBackwardData_attributes attributes{
        .strides = {2}, .pads_begin = {0}, .pads_end = {0}, .dilations = {1}, .auto_pad = "none", .data_format = "NXC"};
    gradkern::status status = graph::ConvolutionBackwardData<float>(
        {diff_dst.data(), {1, 3, 1}}, {weights.data(), {3, 1, 1}}, dst_shape, attributes, {diff_src.data(), {1, 8, 1}});
    if (!status) {
        std::cerr << status << '\n';
        return 1;
    }
    for (const float v : diff_src) std::cout << v << ' ';
    std::cout << '\n';  // 1 10 102 20 203 30 300 0

    // Without a shape the operator returns an error, which uses oneDNN's names.
    status = graph::ConvolutionBackwardData<float>({diff_dst.data(), {1, 3, 1}}, {weights.data(), {3, 1, 1}}, {},
                                                   attributes, {diff_src.data(), {1, 8, 1}});
    std::cout << status << '\n';
    return diff_src[4] == 203 && status.code() == gradkern::errc::missing_shape ? 0 : 1;
}
