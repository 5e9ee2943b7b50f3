#include "kernels.hpp"

#include <gradkern/avg_pool.hpp>
#include <gradkern/workspace.hpp>

namespace older {

static_assert(__cplusplus >= 202002L, "this file alone is C++20");

bool mean_gradient(const float* gradient, float* result, long channels, long height, long width, char* text,
                   unsigned size) {
    using namespace gradkern;
    thread_local growing_workspace memory;
    const auto plan = plan_avg_pool_backward<float>(
        {1, channels, height, width}, {.kernel = {2, 2}, .strides = {2, 2}, .data_format = data_format::ncx},
        extents{1, channels, 2 * height, 2 * width});
    const status s = plan ? plan->run(gradient, result, memory.of(plan->workspace_bytes())) : plan.error();
    if (s) return true;
    const std::size_t length = s.error().format({text, size - 1});
    text[length < size - 1 ? length : size - 1] = '\0';
    return false;
}

}  // namespace older
