// Plans that were never made, default constructed or from a result with an error: run refuses them and writes nothing, and
// their other member functions are harmless. The list of plans is compared with the headers.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/dynamic.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/frontend/aclnn.hpp>
#include <gradkern/frontend/onednn_graph.hpp>
#include <gradkern/frontend/onnxruntime.hpp>
#include <gradkern/gradkern.hpp>

namespace {

namespace gk = gradkern;
namespace graph = gradkern::onednn_graph;
namespace onnx = gradkern::onnxruntime;

/// Memory of every element type for tensors, which must not change, and a workspace.
template <class T>
struct memory {
    std::vector<std::byte> bytes = std::vector<std::byte>(1 << 16, std::byte{0x5a});
    std::vector<std::byte> workspace = std::vector<std::byte>(1 << 16);

    [[nodiscard]] T* at(std::size_t i) { return reinterpret_cast<T*>(bytes.data() + i * 4096); }
    [[nodiscard]] std::int64_t* indices() { return reinterpret_cast<std::int64_t*>(bytes.data() + 5 * 4096); }
    [[nodiscard]] bool untouched() const {
        for (const std::byte b : bytes)
            if (b != std::byte{0x5a}) return false;
        return true;
    }
};

template <class T>
using runner = std::function<gk::status(memory<T>&)>;

/// One plan: its class name in the headers, the operator that errors name, and runs of a plan that was never made.
template <class T>
struct row {
    std::string_view plan;
    std::string_view op;
    std::vector<runner<T>> runs;
    std::function<void()> ask;
};

template <class Plan>
void ask(const Plan& plan) {
    for (const std::ptrdiff_t workers : {std::ptrdiff_t{1}, std::ptrdiff_t{7}, PTRDIFF_MAX})
        EXPECT_EQ(plan.workspace_bytes(workers), 0U);
    std::array<char, 1024> text{};
    EXPECT_LE(plan.describe(text), text.size());
    EXPECT_EQ(plan.describe({}), plan.describe(text));
}

/// A row whose runs take a plan, memory, and memory of a workspace or none.
template <class T, class Plan, class... Run>
row<T> plan_of(std::string_view plan, std::string_view op, const Run&... run) {
    row<T> r{plan, op, {}, [] { ask(Plan{}); }};
    const auto add = [&](const auto& call) {
        r.runs.push_back([call](memory<T>& m) { return call(Plan{}, m, std::span<std::byte>{}); });
        r.runs.push_back([call](memory<T>& m) { return call(Plan{}, m, std::span<std::byte>(m.workspace)); });
    };
    (add(run), ...);
    return r;
}

using span = std::span<std::byte>;

template <class T>
std::vector<row<T>> all_plans() {
    using m = memory<T>;
    const auto two = [](const auto& p, m& x, span w) { return p.run(x.at(0), x.at(1), w); };
    const auto three = [](const auto& p, m& x, span w) { return p.run(x.at(0), x.at(1), x.at(2), w); };
    const auto four = [](const auto& p, m& x, span w) { return p.run(x.at(0), x.at(1), x.at(2), x.at(3), w); };
    const auto values = [](const auto& p, m& x, span w) { return p.run(x.at(0), x.at(1), nullptr, w); };
    const auto pool = [](const auto& p, m& x, span w) { return p.run(x.at(0), x.at(1), x.indices(), w); };
    const auto scatter = [](const auto& p, m& x, span w) { return p.run(x.at(0), x.indices(), x.at(1), w); };
    const auto nulls = [](const auto& p, m& /*x*/, span w) {
        return p.run(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, w);
    };
    const auto six = [](const auto& p, m& x, span w) {
        return p.run(x.at(0), x.at(1), x.at(2), x.at(3), x.at(4), x.at(5), w);
    };
    return {
        plan_of<T, gk::avg_pool_plan<T>>("avg_pool_plan", "avg_pool", two),
        plan_of<T, gk::avg_pool_backward_plan<T>>("avg_pool_backward_plan", "avg_pool_backward", two),
        plan_of<T, gk::lp_pool_plan<T>>("lp_pool_plan", "lp_pool", two),
        plan_of<T, gk::lp_pool_backward_plan<T>>("lp_pool_backward_plan", "lp_pool_backward", four),
        plan_of<T, gk::max_pool_plan<T>>("max_pool_plan", "max_pool", pool, values),
        plan_of<T, gk::max_pool_backward_plan<T>>("max_pool_backward_plan", "max_pool_backward", three),
        plan_of<T, gk::max_pool_backward_from_indices_plan<T>>("max_pool_backward_from_indices_plan",
                                                               "max_pool_backward_from_indices", scatter),
        plan_of<T, gk::convolution_plan<T>>("convolution_plan", "convolution", four),
        plan_of<T, gk::convolution_backward_data_plan<T>>("convolution_backward_data_plan", "convolution_backward_data",
                                                          three),
        plan_of<T, gk::convolution_backward_weights_plan<T>>("convolution_backward_weights_plan",
                                                             "convolution_backward_weights", three, four),
        plan_of<T, gk::conv_transpose_plan<T>>("conv_transpose_plan", "conv_transpose", four),
        plan_of<T, gk::conv_transpose_backward_data_plan<T>>("conv_transpose_backward_data_plan",
                                                             "conv_transpose_backward_data", three),
        plan_of<T, gk::conv_transpose_backward_weights_plan<T>>("conv_transpose_backward_weights_plan",
                                                                "conv_transpose_backward_weights", three, four),
        plan_of<T, gk::bias_backward_plan<T>>("bias_backward_plan", "bias_backward", two),

        plan_of<T, gk::dynamic_avg_pool_plan>("dynamic_avg_pool_plan", "avg_pool", two),
        plan_of<T, gk::dynamic_avg_pool_backward_plan>("dynamic_avg_pool_backward_plan", "avg_pool_backward", two),
        plan_of<T, gk::dynamic_lp_pool_plan>("dynamic_lp_pool_plan", "lp_pool", two),
        plan_of<T, gk::dynamic_lp_pool_backward_plan>("dynamic_lp_pool_backward_plan", "lp_pool_backward", four),
        plan_of<T, gk::dynamic_max_pool_plan>("dynamic_max_pool_plan", "max_pool", pool, values),
        plan_of<T, gk::dynamic_max_pool_backward_plan>("dynamic_max_pool_backward_plan", "max_pool_backward", three),
        plan_of<T, gk::dynamic_max_pool_backward_from_indices_plan>("dynamic_max_pool_backward_from_indices_plan",
                                                                    "max_pool_backward_from_indices", scatter),
        plan_of<T, gk::dynamic_convolution_plan>("dynamic_convolution_plan", "convolution", four),
        plan_of<T, gk::dynamic_convolution_backward_data_plan>("dynamic_convolution_backward_data_plan",
                                                               "convolution_backward_data", three),
        plan_of<T, gk::dynamic_convolution_backward_weights_plan>("dynamic_convolution_backward_weights_plan",
                                                                  "convolution_backward_weights", four),
        plan_of<T, gk::dynamic_conv_transpose_plan>("dynamic_conv_transpose_plan", "conv_transpose", four),
        plan_of<T, gk::dynamic_conv_transpose_backward_data_plan>("dynamic_conv_transpose_backward_data_plan",
                                                                  "conv_transpose_backward_data", three),
        plan_of<T, gk::dynamic_conv_transpose_backward_weights_plan>("dynamic_conv_transpose_backward_weights_plan",
                                                                     "conv_transpose_backward_weights", four),
        plan_of<T, gk::dynamic_bias_backward_plan>("dynamic_bias_backward_plan", "bias_backward", two),

        plan_of<T, graph::AvgPool_plan<T>>("AvgPool_plan", "AvgPool", two),
        plan_of<T, graph::AvgPoolBackprop_plan<T>>("AvgPoolBackprop_plan", "AvgPoolBackprop", two),
        plan_of<T, graph::AvgPoolBackward_plan<T>>("AvgPoolBackward_plan", "AvgPoolBackprop", two),
        plan_of<T, graph::MaxPool_plan<T>>("MaxPool_plan", "MaxPool", two),
        plan_of<T, graph::MaxPoolBackward_plan<T>>("MaxPoolBackward_plan", "MaxPoolBackward", three),
        plan_of<T, graph::MaxPoolBackprop_plan<T>>("MaxPoolBackprop_plan", "MaxPoolBackward", three),
        plan_of<T, graph::Convolution_plan<T>>("Convolution_plan", "Convolution", four),
        plan_of<T, graph::ConvolutionBackwardData_plan<T>>("ConvolutionBackwardData_plan", "ConvolutionBackwardData",
                                                           three),
        plan_of<T, graph::ConvolutionBackpropData_plan<T>>("ConvolutionBackpropData_plan", "ConvolutionBackwardData",
                                                           three),
        plan_of<T, graph::ConvolutionBackwardWeights_plan<T>>("ConvolutionBackwardWeights_plan",
                                                              "ConvolutionBackwardWeights", three),
        plan_of<T, graph::ConvolutionBackpropFilters_plan<T>>("ConvolutionBackpropFilters_plan",
                                                              "ConvolutionBackwardWeights", three),
        plan_of<T, graph::ConvTranspose_plan<T>>("ConvTranspose_plan", "ConvTranspose", four),
        plan_of<T, graph::ConvTransposeBackwardData_plan<T>>("ConvTransposeBackwardData_plan",
                                                             "ConvTransposeBackwardData", three),
        plan_of<T, graph::ConvTransposeBackpropData_plan<T>>("ConvTransposeBackpropData_plan",
                                                             "ConvTransposeBackwardData", three),
        plan_of<T, graph::ConvTransposeBackpropFilters_plan<T>>("ConvTransposeBackpropFilters_plan",
                                                                "ConvTransposeBackpropFilters", three),
        plan_of<T, graph::ConvTransposeBackwardWeights_plan<T>>("ConvTransposeBackwardWeights_plan",
                                                                "ConvTransposeBackpropFilters", three),
        plan_of<T, graph::BiasAddBackward_plan<T>>("BiasAddBackward_plan", "BiasAddBackward", two),
        plan_of<T, graph::BiasAddBackprop_plan<T>>("BiasAddBackprop_plan", "BiasAddBackward", two),

        plan_of<T, onnx::AveragePoolGrad_plan<T>>("AveragePoolGrad_plan", "AveragePoolGrad", two),
        plan_of<T, onnx::MaxPoolGrad_plan<T>>("MaxPoolGrad_plan", "MaxPoolGrad", scatter),
        plan_of<T, onnx::ConvGrad_plan<T>>("ConvGrad_plan", "ConvGrad", six, nulls),
        plan_of<T, onnx::ConvTransposeGrad_plan<T>>("ConvTransposeGrad_plan", "ConvTransposeGrad", six, nulls),
    };
}

TEST(unplanned, run_refuses_every_plan_that_was_never_made) {
    for (const row<float>& r : all_plans<float>()) {
        SCOPED_TRACE(r.plan);
        for (const auto& run : r.runs) {
            memory<float> m;
            const gk::status s = run(m);
            EXPECT_EQ(s.error().code, gk::errc::invalid_argument) << gk::to_string(s);
            EXPECT_EQ(s.error().op, r.op);
            EXPECT_EQ(s.error().argument, "plan");
            EXPECT_TRUE(m.untouched());
        }
    }
}

TEST(unplanned, every_other_member_function_is_harmless) {
    for (const row<float>& r : all_plans<float>()) {
        SCOPED_TRACE(r.plan);
        r.ask();
    }
}

// A result with an error contains such a plan, which operator-> returns.
TEST(unplanned, run_refuses_the_plan_of_a_failed_result) {
    std::array<float, 4> dy{};
    std::array<float, 81> dx{};
    dx.fill(7.0F);
    const auto p = gk::plan_avg_pool_backward<float>({1, 2, 2, 1}, {.kernel = {2, 2}, .strides = {2, 2}}, {1, 9, 9, 1});
    ASSERT_FALSE(p);
    const gk::status s = p->run(dy.data(), dx.data());
    EXPECT_EQ(gk::to_string(s), "avg_pool_backward: plan: was never made (invalid_argument)");
    for (const float v : dx) EXPECT_EQ(v, 7.0F);
    EXPECT_EQ(p.value_or({}).run(dy.data(), dx.data()).code(), gk::errc::invalid_argument);
}

// aclnn returns no plan if its first phase fails: its executor stays null.
TEST(unplanned, a_failed_first_phase_leaves_no_executor) {
    using namespace gk::aclnn;
    std::uint64_t bytes = 1;
    aclOpExecutor* executor = nullptr;
    EXPECT_NE(aclnnAvgPool2dBackwardGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, nullptr, false, false, 0, 0,
                                                     nullptr, &bytes, &executor),
              ACLNN_SUCCESS);
    EXPECT_EQ(executor, nullptr);
    EXPECT_EQ(bytes, 0U);
    EXPECT_EQ(aclnnAvgPool2dBackward(nullptr, 0, executor, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_EQ(workspace_bytes(executor, 3), 0U);
}

// Every class and alias whose name is a plan outside detail is in the list. (One element type represents all.)
TEST(unplanned, no_plan_is_forgotten) {
    std::set<std::string, std::less<>> found;
    const std::regex plan(R"(\n(?:class|struct|using) (\w+_plan)\b(?! *;))");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(GRADKERN_INCLUDE_DIRECTORY)) {
        const std::string path = entry.path().generic_string();
        if (!entry.is_regular_file() || path.find("/detail/") != std::string::npos) continue;
        std::ifstream file(entry.path());
        const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        for (std::sregex_iterator i(text.begin(), text.end(), plan), end; i != end; ++i) found.insert((*i)[1].str());
    }
    std::set<std::string, std::less<>> listed;
    for (const row<float>& r : all_plans<float>()) listed.insert(std::string(r.plan));
    EXPECT_EQ(found, listed);
}

}  // namespace
