// The code of docs/layouts.md whose types are known only at run time, with what it has to print.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradkern/dynamic.hpp>
#include <gradkern/workspace.hpp>

#include "checks.hpp"

using namespace gradkern;

namespace {

// [run_time_types]
// A framework's tensor: what an element is, where the first one lies, and the shape.
struct tensor {
    data_type type;
    void* data;
    std::vector<std::int64_t> shape;
};
dynamic_view view(const tensor& t) { return {t.type, t.data, t.shape}; }

// Means of 2x2 pixels in f32, f16, bf16 or f64. The plan takes types and layouts, and serves any memory of these.
status halve(const tensor& src, const tensor& dst) {
    const auto plan = plan_avg_pool(view(src), {.kernel = {2, 2}, .strides = {2, 2}}, view(dst));
    if (!plan) return plan.error();
    const workspace scratch(plan->workspace_bytes());
    return plan->run(src.data, dst.data, scratch);
}
// [/run_time_types]

}  // namespace

int main() {
    checks check;
    std::vector<bfloat16> x(64);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = bfloat16(static_cast<float>(i));
    std::vector<bfloat16> y(16);
    const tensor src{data_type::bf16, x.data(), {1, 8, 8, 1}};
    tensor dst{data_type::bf16, y.data(), {1, 4, 4, 1}};
    // 0, 1, 8 and 9 are 4.5 in the mean
    check({"halve", halve(src, dst), static_cast<float>(y[0]) == 4.5F && static_cast<float>(y[15]) == 58.5F});
    dst.type = data_type::f16;
    if (halve(src, dst).error().code != errc::unsupported) check({"another type", {}, false});
    return check.failures;
}
