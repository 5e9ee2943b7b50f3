// A layer of aclnn through the front end, beside a plain loop.
#include <array>
#include <cstdint>
#include <vector>

#include <gradkern/frontend/aclnn.hpp>

#include "plain.hpp"

namespace {

// [avg_pool]
// The gradient of torch.nn.AvgPool2d(kernel_size=3, stride=2, padding=1) on an input of shape (2, 16, 13, 13).
gradkern::aclnn::aclnnStatus avg_pool_backward(float* grad_output, float* grad_input) {
    using namespace gradkern::aclnn;
    const std::array<std::int64_t, 4> small{2, 16, 7, 7}, large{2, 16, 13, 13};
    const std::array<std::int64_t, 1> three{3}, two{2}, one{1};  // one number for both axes
    aclTensor* gradOutput =
        aclCreateTensor(small.data(), 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, small.data(), 4, grad_output);
    aclTensor* gradInput =
        aclCreateTensor(large.data(), 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, large.data(), 4, grad_input);
    aclIntArray* kernelSize = aclCreateIntArray(three.data(), 1);
    aclIntArray* stride = aclCreateIntArray(two.data(), 1);
    aclIntArray* padding = aclCreateIntArray(one.data(), 1);

    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    aclnnStatus s = aclnnAvgPool2dBackwardGetWorkspaceSize(gradOutput, gradInput, kernelSize, stride, padding, false,
                                                           true, 0, 0, gradInput, &bytes, &executor);
    std::vector<std::byte> memory(bytes);
    if (s == ACLNN_SUCCESS) s = aclnnAvgPool2dBackward(memory.data(), bytes, executor, nullptr);

    aclDestroyIntArray(padding);
    aclDestroyIntArray(stride);
    aclDestroyIntArray(kernelSize);
    aclDestroyTensor(gradInput);
    aclDestroyTensor(gradOutput);
    return s;
}
// [/avg_pool]

void test_avg_pool(plain::report& report) {
    plain::tensor grad_output({2, 16, 7, 7}, 1), grad_input({2, 16, 13, 13}), wanted(grad_input.shape);
    const plain::windows axis{.length = 13, .count = 7, .kernel = 3, .stride = 2, .pad = 1};
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size c = 0; c < 16; ++c)
            plain::for_each_tap(axis, axis, [&](auto oh, auto ow, auto, auto, auto ih, auto iw) {
                wanted(n, c, ih, iw) += grad_output(n, c, oh, ow);
            });
    // Compare 9 times the result: sums of integers are exact, sums of their ninths are not.
    for (float& v : grad_output.values) v *= 9.0F;
    report.holds("aclnnAvgPool2dBackward",
                 avg_pool_backward(grad_output.data(), grad_input.data()) == gradkern::aclnn::ACLNN_SUCCESS);
    report.equal("aclnnAvgPool2dBackward: gradInput", grad_input.values, wanted.values);
}

}  // namespace

int main() {
    plain::report report;
    test_avg_pool(report);
    return report.result();
}
