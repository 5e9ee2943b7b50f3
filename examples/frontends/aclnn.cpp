// The gradient of a 2x2 average pool of a 4x4 image, in the two phases of aclnn.
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <vector>

#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/frontend/aclnn.hpp>

int main() {
    namespace acl = gradkern::aclnn;
    std::array<float, 4> grad_output{4, 8, 12, 16};
    std::array<float, 16> grad_input{};
    const std::array<std::int64_t, 3> small{1, 2, 2}, large{1, 4, 4};  // (C, H, W)
    const std::array<std::int64_t, 1> two{2}, zero{0};                 // one number for both axes

    acl::aclTensor* dy = acl::aclCreateTensor(small.data(), 3, acl::ACL_FLOAT, nullptr, 0, acl::ACL_FORMAT_NCL,
                                              small.data(), 3, grad_output.data());
    acl::aclTensor* dx = acl::aclCreateTensor(large.data(), 3, acl::ACL_FLOAT, nullptr, 0, acl::ACL_FORMAT_NCL,
                                              large.data(), 3, grad_input.data());
    acl::aclIntArray* kernel = acl::aclCreateIntArray(two.data(), 1);
    acl::aclIntArray* padding = acl::aclCreateIntArray(zero.data(), 1);

    // Phase 1 checks and plans. dx is also passed as self, of which only the shape is used. No stride means that of the
    // kernel size.
    std::uint64_t bytes = 0;
    acl::aclOpExecutor* executor = nullptr;
    acl::aclnnStatus status = acl::aclnnAvgPool2dBackwardGetWorkspaceSize(dy, dx, kernel, nullptr, padding, false, true,
                                                                          0, 0, dx, &bytes, &executor);
    acl::aclDestroyTensor(dy);
    acl::aclDestroyTensor(dx);
    acl::aclDestroyIntArray(kernel);
    acl::aclDestroyIntArray(padding);

    // Phase 2 computes, here with threads, and consumes the executor.
    if (status == acl::ACLNN_SUCCESS) {
        gradkern::thread_pool pool(2);
        gradkern::executor_ref threads(pool);
        bytes = acl::workspace_bytes(executor, pool.concurrency());  // with the `bytes` of phase 1, one thread works
        std::vector<std::byte> workspace(bytes);
        status = acl::aclnnAvgPool2dBackward(workspace.data(), bytes, executor, &threads);
    }
    if (status != acl::ACLNN_SUCCESS) {
        std::cerr << "aclnn status " << status << '\n';
        return 1;
    }
    for (std::size_t i = 0; i < grad_input.size(); ++i) std::cout << grad_input[i] << (i % 4 == 3 ? '\n' : '\t');
    return grad_input[15] == 4 ? 0 : 1;
}
