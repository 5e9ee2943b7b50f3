// What a call costs besides its work: gradients of the smallest pools planned beforehand, and planned and run in one
// call; and of some pools of the named cases through the front ends beside the core.
//
//     bench_calls --benchmark_filter=small     nanoseconds of a 1x64x7x7 problem
//     bench_calls --benchmark_filter=front_end
//
// Every result is compared with the plain-loop reference before it is timed.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradkern/frontend/aclnn.hpp>
#include <gradkern/frontend/onnxruntime.hpp>

#include "layers.hpp"

namespace gradkern_bench {
namespace {

using namespace gradkern;

constexpr max_pool_indices_attributes in_ncx{.data_format = data_format::ncx};

const gradkern_cases::pool_case& case_named(std::string_view name) {
    const gradkern_cases::pool_case* found = nullptr;
    for (const auto& c : gradkern_cases::average_cases) found = c.name == name ? &c : found;
    for (const auto& c : gradkern_cases::maximum_cases) found = c.name == name ? &c : found;
    return *found;
}

/// Tensors of one pool in NCX, and the results that the reference gives.
struct pool {
    explicit pool(std::string_view name)
        : c(case_named(name)),
          x(c.src_shape(data_format::ncx)),
          y(infer_max_pool(x, c.attributes<max_pool_attributes>(data_format::ncx)).value_or({})),
          src(random_elements<float>(x, 1)),
          diff_dst(random_elements<float>(y, 2)),
          dst(count_of(y)),
          diff_src(count_of(x)),
          indices(count_of(y)) {
        static_cast<void>(ref::max_pool<float>({src.data(), x}, maximum(), {dst.data(), y}, {indices.data(), y}));
    }
    [[nodiscard]] avg_pool_attributes average() const { return c.attributes<avg_pool_attributes>(data_format::ncx); }
    [[nodiscard]] max_pool_attributes maximum() const { return c.attributes<max_pool_attributes>(data_format::ncx); }

    /// diff_src by the reference of the operator in question.
    [[nodiscard]] elements<float> expected(bool of_average) {
        if (of_average) {
            static_cast<void>(ref::avg_pool_backward<float>({diff_dst.data(), y}, average(), {diff_src.data(), x}));
        } else {
            static_cast<void>(
                ref::max_pool_backward<float>({src.data(), x}, {diff_dst.data(), y}, maximum(), {diff_src.data(), x}));
        }
        return std::exchange(diff_src, elements<float>(diff_src.size()));
    }

    gradkern_cases::pool_case c;
    extents x, y;
    elements<float> src, diff_dst, dst, diff_src;
    elements<std::int64_t> indices;
    std::vector<std::byte> workspace;
};

/// Registers the gradient of a pool: `prepare` makes what is timed from its tensors.
void add(const std::string& name, std::string_view layer, bool of_average,
         const std::function<std::function<bool()>(pool&)>& prepare) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        pool p(layer);
        const elements<float> expected = p.expected(of_average);
        const std::function<bool()> run = prepare(p);
        if (!run() || p.diff_src != expected) {
            state.SkipWithError("the result differs from the reference");
            return;
        }
        for (auto _ : state) {
            if (!run()) state.SkipWithError("refused");
            benchmark::ClobberMemory();
        }
    });
}

/// A call of a plan that is made here.
template <class Plan, class... Tensors>
std::function<bool()> planned(pool& p, const result<Plan>& plan, Tensors... tensors) {
    if (!plan) return [] { return false; };
    p.workspace.resize(plan->workspace_bytes());
    return [&p, plan = *plan, tensors...] { return static_cast<bool>(plan.run(tensors..., p.workspace)); };
}

/// Both forms of the core's operators, on the smallest pools.
void add_small() {
    constexpr std::string_view average = "avgpool_small_3x3s1p1_64_7";
    constexpr std::string_view maximum = "maxpool_small_2x2s2_64_7";
    add("small/avg_pool_backward/planned", average, true, [](pool& p) {
        return planned(p, plan_avg_pool_backward<float>(p.y, p.average(), p.x), p.diff_dst.data(), p.diff_src.data());
    });
    add("small/avg_pool_backward/one_call", average, true, [](pool& p) {
        return [&p] {
            return static_cast<bool>(
                avg_pool_backward<float>({p.diff_dst.data(), p.y}, p.average(), {p.diff_src.data(), p.x}));
        };
    });
    add("small/max_pool_backward/planned", maximum, false, [](pool& p) {
        return planned(p, plan_max_pool_backward<float>(p.x, p.y, p.maximum(), p.x), p.src.data(), p.diff_dst.data(),
                       p.diff_src.data());
    });
    add("small/max_pool_backward/one_call", maximum, false, [](pool& p) {
        return [&p] {
            return static_cast<bool>(max_pool_backward<float>({p.src.data(), p.x}, {p.diff_dst.data(), p.y},
                                                              p.maximum(), {p.diff_src.data(), p.x}));
        };
    });
    add("small/max_pool_backward_from_indices/planned", maximum, false, [](pool& p) {
        return planned(p, plan_max_pool_backward_from_indices<float>(p.y, p.y, in_ncx, p.x), p.diff_dst.data(),
                       p.indices.data(), p.diff_src.data());
    });
    add("small/max_pool_backward_from_indices/one_call", maximum, false, [](pool& p) {
        return [&p] {
            return static_cast<bool>(max_pool_backward_from_indices<float>(
                {p.diff_dst.data(), p.y}, {p.indices.data(), p.y}, in_ncx, {p.diff_src.data(), p.x}));
        };
    });
}

/// The two phases of aclnn on tensors described beforehand.
std::function<bool()> aclnn_call(pool& p) {
    using namespace gradkern::aclnn;
    const auto tensor = [](const extents& shape, float* data) {
        const auto dims = shape.values();
        return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, dims.data(),
                               dims.size(), data);
    };
    // released with the program: benchmarks are few
    const aclTensor* const gradient = tensor(p.y, p.diff_dst.data());
    const aclTensor* const self = tensor(p.x, p.src.data());
    aclTensor* const result = tensor(p.x, p.diff_src.data());
    const auto list = [](const extents& e) { return aclCreateIntArray(e.values().data(), e.values().size()); };
    const aclIntArray *const kernel = list(p.c.kernel), *const stride = list(p.c.strides);
    const aclIntArray* const pad = list(p.c.pads_begin);
    return [=, &p] {
        std::uint64_t bytes = 0;
        aclOpExecutor* executor = nullptr;
        if (aclnnAvgPool2dBackwardGetWorkspaceSize(gradient, self, kernel, stride, pad, false, !p.c.exclude_pad, 0, 0,
                                                   result, &bytes, &executor) != ACLNN_SUCCESS)
            return false;
        if (p.workspace.size() < bytes) p.workspace.resize(bytes);
        return aclnnAvgPool2dBackward(p.workspace.data(), bytes, executor, nullptr) == ACLNN_SUCCESS;
    };
}

/// Front ends beside the core on one case each.
void add_front_ends(std::string_view average, std::string_view maximum) {
    const std::string of_average = "front_end/" + std::string(average);
    const std::string of_maximum = "front_end/" + std::string(maximum);
    add(of_average + "/core", average, true, [](pool& p) {
        return planned(p, plan_avg_pool_backward<float>(p.y, p.average(), p.x), p.diff_dst.data(), p.diff_src.data());
    });
    add(of_average + "/aclnnAvgPool2dBackward", average, true, aclnn_call);
    add(of_average + "/onnxruntime::AveragePoolGrad", average, true, [](pool& p) {
        onnxruntime::AveragePoolGrad_attributes a;
        a.kernel_shape = p.c.kernel;
        a.strides = p.c.strides;
        a.pads = extents::filled(2 * p.c.rank(), p.c.pads_begin[0]);
        a.count_include_pad = p.c.exclude_pad ? 0 : 1;
        return planned(p, onnxruntime::plan_AveragePoolGrad<float>(p.y, a, p.x), p.diff_dst.data(), p.diff_src.data());
    });
    add(of_maximum + "/core", maximum, false, [](pool& p) {
        return planned(p, plan_max_pool_backward_from_indices<float>(p.y, p.y, in_ncx, p.x), p.diff_dst.data(),
                       p.indices.data(), p.diff_src.data());
    });
    add(of_maximum + "/onnxruntime::MaxPoolGrad", maximum, false, [](pool& p) {
        return planned(p, onnxruntime::plan_MaxPoolGrad<float>(p.y, p.y, {}, p.x), p.diff_dst.data(), p.indices.data(),
                       p.diff_src.data());
    });
}

}  // namespace
}  // namespace gradkern_bench

int main(int argc, char** argv) {
    gradkern_bench::add_small();
    gradkern_bench::add_front_ends("avgpool_small_3x3s1p1_64_7", "maxpool_small_2x2s2_64_7");
    gradkern_bench::add_front_ends("avgpool_3x3s1p1_192_28_incl", "maxpool_3x3s2p1_64_112");
    benchmark::Initialize(&argc, argv);
    benchmark::AddCustomContext("gradkern", std::string(gradkern::detail::isa_name));
    benchmark::RunSpecifiedBenchmarks();
}
