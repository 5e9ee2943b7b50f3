// The code of docs/convolution.md and docs/threads.md.
#include <array>
#include <cstddef>
#include <thread>
#include <vector>

#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

#include "checks.hpp"

using namespace gradkern;

using two = std::array<float, 2>;
using three = std::array<float, 3>;
using four = std::array<float, 4>;
using five = std::array<float, 5>;

// [convolution]
// src is 1, 2, 3, 4; weights are 1, 10; the bias is 100: dst is 121, 132, 143.
status forward(const four& src, const two& weights, const float& bias, three& dst) {
    return convolution<float>({src.data(), {1, 4, 1}}, {weights.data(), {2, 1, 1}}, {&bias, {{1}}},
                              {.strides = {1}, .dilations = {1}}, {dst.data(), {1, 3, 1}});
}
// [/convolution]

// [convolution_backward_data]
// diff_dst is 1, 1, 1: diff_src is 1, 11, 11, 10.
status data_gradient(const three& diff_dst, const two& weights, four& diff_src) {
    return convolution_backward_data<float>({diff_dst.data(), {1, 3, 1}}, {weights.data(), {2, 1, 1}},
                                            {.strides = {1}, .dilations = {1}}, {diff_src.data(), {1, 4, 1}});
}
// [/convolution_backward_data]

// [convolution_backward_weights]
// diff_weights is 6, 9, and diff_bias is 3. Without the last argument no gradient of a bias is written.
status weight_gradient(const four& src, const three& diff_dst, two& diff_weights, float& diff_bias) {
    return convolution_backward_weights<float>({src.data(), {1, 4, 1}}, {diff_dst.data(), {1, 3, 1}},
                                               {.strides = {1}, .dilations = {1}}, {diff_weights.data(), {2, 1, 1}},
                                               {&diff_bias, {{1}}});
}
// [/convolution_backward_weights]

// [conv_transpose]
// src is 1, 2; weights are 1, 10, 100; the stride is 2: dst is 1, 10, 102, 20, 200.
status transposed_forward(const two& src, const three& weights, five& dst) {
    return conv_transpose<float>({src.data(), {1, 2, 1}}, {weights.data(), {3, 1, 1}}, {},
                                 {.strides = {2}, .dilations = {1}}, {dst.data(), {1, 5, 1}});
}
// [/conv_transpose]

// [conv_transpose_backward_data]
// diff_dst is 1, 1, 1, 1, 1: diff_src is 111, 111.
status transposed_data_gradient(const five& diff_dst, const three& weights, two& diff_src) {
    return conv_transpose_backward_data<float>({diff_dst.data(), {1, 5, 1}}, {weights.data(), {3, 1, 1}},
                                               {.strides = {2}, .dilations = {1}}, {diff_src.data(), {1, 2, 1}});
}
// [/conv_transpose_backward_data]

// [conv_transpose_backward_weights]
// src is 1, 2; diff_dst is 1, 2, 3, 4, 5: diff_weights is 7, 10, 13.
status transposed_weight_gradient(const two& src, const five& diff_dst, three& diff_weights) {
    return conv_transpose_backward_weights<float>({src.data(), {1, 2, 1}}, {diff_dst.data(), {1, 5, 1}},
                                                  {.strides = {2}, .dilations = {1}}, {diff_weights.data(), {3, 1, 1}});
}
// [/conv_transpose_backward_weights]

// [bias_backward]
// Two pixels of two channels, 1, 10 and 2, 20: diff_bias is 3, 30.
status bias_gradient(const four& diff_dst, two& diff_bias) {
    return bias_backward<float>({diff_dst.data(), {1, 2, 2}}, {}, {diff_bias.data(), {{2}}});
}
// [/bias_backward]

// [mixed]
// bf16 inputs, an f32 result: src is 256, 1; weights are 1, 1: dst is 257. In bf16 it would be 256.
status f32_sum(const std::array<bfloat16, 2>& src, const std::array<bfloat16, 2>& weights, float& dst) {
    return convolution<bfloat16, bfloat16, float>({src.data(), {1, 1, 2}}, {weights.data(), {1, 2, 1}}, {},
                                                  {.strides = {1}, .dilations = {1}}, {&dst, {1, 1, 1}});
}
// [/mixed]

// [depthwise]
// One channel a group: 32 channels, 3 x 3 taps, padding that keeps the size. Weights are (3, 3, 1, 32).
constexpr convolution_attributes depthwise{
    .strides = {1, 1}, .dilations = {1, 1}, .auto_pad = auto_pad::same_upper, .groups = 32};
static_assert(infer_convolution({1, 28, 28, 32}, {3, 3, 1, 32}, depthwise)->operator[](3) == 32);
// [/depthwise]

// [workspace]
// One plan, memory for all workers, and a pool of two threads.
status on_two_threads(const std::vector<float>& src, const std::vector<float>& weights, std::vector<float>& dst) {
    const auto plan = plan_convolution<float>({8, 28, 28, 32}, {3, 3, 1, 32}, {}, depthwise);
    if (!plan) return plan.error();
    thread_pool pool(2);
    const workspace memory(plan->workspace_bytes(pool.concurrency()));
    return plan->run(src.data(), weights.data(), nullptr, dst.data(), memory, pool);
}
// [/workspace]

// [executor]
// An executor of one's own: a thread for each call. fn(i) may run in any order, on any thread.
struct one_thread_each {
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        std::vector<std::jthread> threads;
        for (std::ptrdiff_t i = 0; i < n; ++i) threads.emplace_back([&fn, i] { fn(i); });
    }
    std::ptrdiff_t concurrency() const { return 2; }
};
// [/executor]

int main() {
    checks check;
    two small{};
    three y{};
    four dx{};
    five large{};
    float db = 0;

    check({"convolution", forward({1, 2, 3, 4}, {1, 10}, 100, y), y == three{121, 132, 143}});
    check({"convolution_backward_data", data_gradient({1, 1, 1}, {1, 10}, dx), dx == four{1, 11, 11, 10}});
    check({"convolution_backward_weights", weight_gradient({1, 2, 3, 4}, {1, 1, 1}, small, db),
           small == two{6, 9} && db == 3});
    check({"conv_transpose", transposed_forward({1, 2}, {1, 10, 100}, large), large == five{1, 10, 102, 20, 200}});
    check({"conv_transpose_backward_data", transposed_data_gradient({1, 1, 1, 1, 1}, {1, 10, 100}, small),
           small == two{111, 111}});
    check({"conv_transpose_backward_weights", transposed_weight_gradient({1, 2}, {1, 2, 3, 4, 5}, y),
           y == three{7, 10, 13}});
    check({"bias_backward", bias_gradient({1, 10, 2, 20}, small), small == two{3, 30}});

    float sum = 0;
    const std::array one_each{bfloat16(1.0F), bfloat16(1.0F)};
    check({"mixed", f32_sum({bfloat16(256.0F), bfloat16(1.0F)}, one_each, sum), sum == 257});

    const std::vector<float> src(8 * 28 * 28 * 32, 1), weights(9 * 32, 1);
    std::vector<float> one(src.size()), other(src.size());
    check({"workspace", on_two_threads(src, weights, one), one[0] == 4 && one[29 * 32] == 9});
    one_thread_each threads;
    check({"executor",
           convolution<float>({src.data(), {8, 28, 28, 32}}, {weights.data(), {3, 3, 1, 32}}, {}, depthwise,
                              {other.data(), {8, 28, 28, 32}}, {.executor = threads}),
           other == one});
    return check.failures;
}
