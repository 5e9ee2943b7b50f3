#include <iostream>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

int main() {
    using namespace gradkern;
    const extents src{8, 64, 28, 28}, diff_dst{8, 128, 14, 14}, weights{128, 64, 3, 3};
    const convolution_attributes layer{.strides = {2, 2},
                                       .dilations = {1, 1},
                                       .pads_begin = {1, 1},
                                       .pads_end = {1, 1},
                                       .data_format = data_format::ncx,
                                       .weights_format = weights_format::oix};

    // Plan once per shape. This checks everything. Inputs are bf16, the weight gradient is f32.
    const auto plan = plan_convolution_backward_weights<bfloat16, float>(src, diff_dst, layer, weights);
    if (!plan) {
        std::cerr << plan.error() << '\n';
        return 1;
    }
    thread_pool pool;                                              // or your own executor
    workspace scratch(plan->workspace_bytes(pool.concurrency()));  // or your own memory

    // Run many times.
    const std::vector<bfloat16> x(8 * 64 * 28 * 28, bfloat16(0.5F)), dy(8 * 128 * 14 * 14, bfloat16(0.25F));
    std::vector<float> dw(128 * 64 * 3 * 3);
    const status done = plan->run(x.data(), dy.data(), dw.data(), scratch, pool);
    if (!done) {
        std::cerr << done << '\n';
        return 1;
    }
    std::cout << dw[4] << '\n';  // a centre tap: 8 * 14 * 14 * 0.5 * 0.25 = 196
}
