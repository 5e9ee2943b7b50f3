#include <array>
#include <iostream>
#include <span>
#include <string_view>

#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onnxruntime.hpp>

namespace {

void print(std::string_view name, std::span<const float> values) {
    std::cout << name << ':';
    for (const float v : values) std::cout << ' ' << v;
    std::cout << '\n';
}

}  // namespace

int main() {
    namespace ort = gradkern::onnxruntime;
    // The backward pass of Conv -> AveragePool. Every node keeps the attributes of its forward operator:
    //   Conv        X (1, 1, 4, 4), W (1, 1, 3, 3), pads [1, 1, 1, 1], bias  ->  Y (1, 1, 4, 4)
    //   AveragePool Y, kernel_shape [2, 2], strides [2, 2]                   ->  Z (1, 1, 2, 2)
    const std::array<float, 16> X{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const std::array<float, 9> W{0, 1, 0, 1, -4, 1, 0, 1, 0};
    const std::array<float, 4> dZ{4, 8, 12, 16};
    std::array<float, 16> dY{}, dX{};
    std::array<float, 9> dW{};
    std::array<float, 1> dB{};

    gradkern::status status = ort::AveragePoolGrad<float>(
        {dZ.data(), {1, 1, 2, 2}}, {.kernel_shape = {2, 2}, .strides = {2, 2}}, {dY.data(), {1, 1, 4, 4}});
    if (status) {
        status = ort::ConvGrad<float>({dY.data(), {1, 1, 4, 4}}, {X.data(), {1, 1, 4, 4}}, {W.data(), {1, 1, 3, 3}},
                                      {.pads = {1, 1, 1, 1}}, {dX.data(), {1, 1, 4, 4}}, {dW.data(), {1, 1, 3, 3}},
                                      {dB.data(), {1}});
    }
    if (!status) {
        std::cerr << status << '\n';
        return 1;
    }
    print("dY", dY);
    print("dX", dX);
    print("dW", dW);
    print("dB", dB);
    return dB[0] == 40 ? 0 : 1;  // the sum of all gradients: 4 + 8 + 12 + 16
}
