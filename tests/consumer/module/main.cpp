// The module alone, headers of the standard library beside it, and a header of gradkern's that the module leaves out.
#include <gradkern/cpu.hpp>
#include <iostream>
#include <type_traits>
#include <vector>

import gradkern;

int operators_fail();
bool exact_agrees(const std::vector<float>& diff_dst, const std::vector<float>& weights,
                  const std::vector<float>& diff_src);

int main() {
    using namespace gradkern;
    if (missing_cpu_feature() != nullptr) return 0;

    const std::vector<float> diff_dst{1, 2, 3}, weights{1, 10, 100, 1000};
    std::vector<float> diff_src(3);
    const convolution_attributes layer{.strides = {1}, .dilations = {1}, .auto_pad = auto_pad::same_upper};
    const auto plan = plan_convolution_backward_data<float>({1, 3, 1}, {4, 1, 1}, layer, {1, 3, 1});
    if (!plan) {
        std::cerr << plan.error() << '\n';
        return 1;
    }
    thread_pool pool(2);
    workspace scratch(plan->workspace_bytes(pool.concurrency()));
    const status done = plan->run(diff_dst.data(), weights.data(), diff_src.data(), scratch, pool);
    if (!done || diff_src != std::vector<float>{12, 123, 1230} || !exact_agrees(diff_dst, weights, diff_src)) return 2;
    if (operators_fail() != 0) return 3;

    // A mistake and its text, a front end.
    const status refused = avg_pool_backward<float>(
        {diff_dst.data(), {1, 1, 1, 1}}, {.kernel = {0, 2}, .strides = {2, 2}}, {diff_src.data(), {1, 2, 2, 1}});
    std::cout << refused << '\n';
    static_assert(std::is_aggregate_v<onednn_graph::AvgPoolBackward_attributes>);
    return refused ? 4 : 0;
}
