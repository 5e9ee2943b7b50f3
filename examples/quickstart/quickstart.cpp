#include <array>
#include <iostream>

#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>

int main() {
    // A 3x3 convolution maps a 4x4 image to a 2x2 image. How does the sum of the 2x2 image change with each pixel of the
    // 4x4 image? Activations are (batch, height, width, channels), weights (height, width, in, out).
    const std::array<float, 4> diff_dst{1, 1, 1, 1};
    const std::array<float, 9> weights{1, 2, 3, 4, 5, 6, 7, 8, 9};
    std::array<float, 16> diff_src{};

    const gradkern::status status = gradkern::convolution_backward_data<float>(
        {diff_dst.data(), {1, 2, 2, 1}}, {weights.data(), {3, 3, 1, 1}}, {.strides = {1, 1}, .dilations = {1, 1}},
        {diff_src.data(), {1, 4, 4, 1}});
    if (!status) {
        std::cerr << status << '\n';
        return 1;
    }
    for (std::size_t i = 0; i < diff_src.size(); ++i) std::cout << diff_src[i] << (i % 4 == 3 ? '\n' : '\t');
}
