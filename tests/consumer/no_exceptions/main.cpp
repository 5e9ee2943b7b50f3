// A program without exceptions and type information uses every header.
#include <everything.hpp>

#include <array>
#include <cstdio>

#include <gradkern/executors/openmp.hpp>

int main() {
    const std::array<float, 16> src{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    std::array<float, 4> dst{};
    const auto plan = gradkern::plan_avg_pool<float>({1, 4, 4, 1}, {.kernel = {2, 2}, .strides = {2, 2}});
    if (!plan) return 1;
    gradkern::thread_pool pool(2);
    const gradkern::workspace scratch(plan->workspace_bytes(pool.concurrency()));
    if (!scratch || !plan->run(src.data(), dst.data(), scratch, pool)) return 2;
    if (dst[0] != 3.5F || dst[3] != 13.5F) return 3;
    const gradkern::status refused = plan->run(nullptr, dst.data(), scratch, pool);
    std::puts(gradkern::to_string(refused).c_str());
    return refused.code() == gradkern::errc::null_pointer ? 0 : 4;
}
