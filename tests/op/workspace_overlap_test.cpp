// A workspace in the memory of a tensor of its call is refused, whichever operator, tensor and byte it is, before anything is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onnxruntime.hpp>
#include <gradkern/gradkern.hpp>

namespace {

namespace gk = gradkern;

constexpr std::size_t room = 4096;  // floats between the beginnings of tensors
constexpr std::size_t most_tensors = 4;

/// Memory of the tensors of a call, each with as much room before and behind it as a workspace needs.
struct arena {
    std::vector<float> floats = std::vector<float>((3 * most_tensors + 1) * room, 1.F);

    [[nodiscard]] float* tensor(std::size_t i) { return floats.data() + (3 * i + 1) * room; }
    [[nodiscard]] std::int64_t* indices(std::size_t i) { return reinterpret_cast<std::int64_t*>(tensor(i)); }
    [[nodiscard]] std::byte* begin(std::size_t i) { return reinterpret_cast<std::byte*>(tensor(i)); }
};

/// A planned operator: names and bytes of its tensors in the order of run, and run with the tensors of an arena.
struct planned {
    std::string_view op;
    std::vector<std::pair<std::string_view, std::size_t>> tensors;
    std::size_t workspace = 0;
    std::function<gk::status(arena&, std::span<std::byte>)> run;
};

template <class Plan, class Run>
planned plan_of(std::string_view op, std::vector<std::pair<std::string_view, std::size_t>> tensors, const Plan& plan,
                const Run& run) {
    EXPECT_TRUE(plan) << gk::to_string(plan.error());
    return {op, std::move(tensors), plan->workspace_bytes(),
            [plan, run](arena& a, std::span<std::byte> w) { return run(*plan, a, w); }};
}

/// Elements of f32.
constexpr std::size_t f32(std::size_t elements) { return elements * sizeof(float); }

std::vector<planned> every_operator() {
    using bytes = std::span<std::byte>;
    gk::convolution_attributes conv;
    conv.strides = conv.dilations = {1, 1};
    gk::conv_transpose_attributes transposed;
    transposed.strides = transposed.dilations = {1, 1};
    const gk::avg_pool_attributes average{.kernel = {2, 2}, .strides = {1, 1}};
    const gk::lp_pool_attributes norm{.kernel = {2, 2}, .strides = {1, 1}};
    const gk::max_pool_attributes maximum{.kernel = {2, 2}, .strides = {1, 1}};
    const gk::extents large{1, 6, 6, 8};
    const gk::extents small{1, 5, 5, 8};
    const gk::extents weights{2, 2, 8, 8};
    const std::size_t x = f32(288);
    const std::size_t y = f32(200);
    const std::size_t w = f32(256);
    const std::size_t b = f32(8);
    return {
        plan_of("convolution", {{"src", x}, {"weights", w}, {"bias", b}, {"dst", y}},
                gk::plan_convolution<float>(large, weights, {8}, conv, small),
                [](const auto& p, arena& a, bytes s) {
                    return p.run(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), s);
                }),
        plan_of("convolution_backward_data", {{"diff_dst", y}, {"weights", w}, {"diff_src", x}},
                gk::plan_convolution_backward_data<float>(small, weights, conv, large),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), a.tensor(2), s); }),
        plan_of("convolution_backward_weights", {{"src", x}, {"diff_dst", y}, {"diff_weights", w}, {"diff_bias", b}},
                gk::plan_convolution_backward_weights<float>(large, small, conv, weights, {8}),
                [](const auto& p, arena& a, bytes s) {
                    return p.run(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), s);
                }),
        plan_of("conv_transpose", {{"src", y}, {"weights", w}, {"bias", b}, {"dst", x}},
                gk::plan_conv_transpose<float>(small, weights, {8}, transposed, large),
                [](const auto& p, arena& a, bytes s) {
                    return p.run(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), s);
                }),
        plan_of("conv_transpose_backward_data", {{"diff_dst", x}, {"weights", w}, {"diff_src", y}},
                gk::plan_conv_transpose_backward_data<float>(large, weights, transposed, small),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), a.tensor(2), s); }),
        plan_of("conv_transpose_backward_weights", {{"src", y}, {"diff_dst", x}, {"diff_weights", w}, {"diff_bias", b}},
                gk::plan_conv_transpose_backward_weights<float>(small, large, transposed, weights, {8}),
                [](const auto& p, arena& a, bytes s) {
                    return p.run(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), s);
                }),
        plan_of("bias_backward", {{"diff_dst", y}, {"diff_bias", b}}, gk::plan_bias_backward<float>(small, {}, {8}),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), s); }),
        plan_of("avg_pool", {{"src", x}, {"dst", y}}, gk::plan_avg_pool<float>(large, average, small),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), s); }),
        plan_of("avg_pool_backward", {{"diff_dst", y}, {"diff_src", x}},
                gk::plan_avg_pool_backward<float>(small, average, large),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), s); }),
        plan_of("lp_pool", {{"src", x}, {"dst", y}}, gk::plan_lp_pool<float>(large, norm, small),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), s); }),
        plan_of("lp_pool_backward", {{"src", x}, {"dst", y}, {"diff_dst", y}, {"diff_src", x}},
                gk::plan_lp_pool_backward<float>(large, small, small, norm, large),
                [](const auto& p, arena& a, bytes s) {
                    return p.run(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), s);
                }),
        plan_of("max_pool", {{"src", x}, {"dst", y}, {"indices", 2 * y}},
                gk::plan_max_pool<float>(large, maximum, small, small),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), a.indices(2), s); }),
        plan_of("max_pool_backward", {{"src", x}, {"diff_dst", y}, {"diff_src", x}},
                gk::plan_max_pool_backward<float>(large, small, maximum, large),
                [](const auto& p, arena& a, bytes s) { return p.run(a.tensor(0), a.tensor(1), a.tensor(2), s); }),
        plan_of("max_pool_backward_from_indices", {{"diff_dst", y}, {"indices", 2 * y}, {"diff_src", x}},
                gk::plan_max_pool_backward_from_indices<float>(small, small, {}, large),
                [](const auto& p, arena& a, bytes s) {
                    std::fill_n(a.indices(1), 200, 7);
                    return p.run(a.tensor(0), a.indices(1), a.tensor(2), s);
                }),
    };
}

TEST(workspace_overlap, is_refused_for_every_operator_tensor_and_end) {
    std::size_t refused = 0;
    for (const planned& p : every_operator()) {
        const std::size_t size = std::max<std::size_t>(p.workspace, 64);
        ASSERT_LE(size, room * sizeof(float)) << p.op;
        for (std::size_t t = 0; t < p.tensors.size(); ++t) {
            const auto& [name, bytes] = p.tensors[t];
            arena a;
            std::byte* const first = a.begin(t);
            // the first byte, the last one, one within, and all of it
            const std::array<std::span<std::byte>, 4> shared{
                std::span(first + 1 - size, size), std::span(first + bytes - 1, size), std::span(first + 1, size),
                std::span(first - 8, std::max(size, bytes + 16))};
            for (const auto& workspace : shared) {
                static_cast<void>(p.run(a, {}));  // indices are there
                const std::vector<float> before = a.floats;
                const gk::status s = p.run(a, workspace);
                EXPECT_EQ(gk::to_string(s.error()), std::string(p.op) + ": workspace: shares memory with " +
                                                        std::string(name) + " (invalid_argument)");
                EXPECT_TRUE(before == a.floats) << p.op << ' ' << name;
                ++refused;
            }
            // Neighbours are none, and an empty workspace has no place.
            EXPECT_TRUE(p.run(a, {first - size, size})) << p.op << ' ' << name;
            EXPECT_TRUE(p.run(a, {first + bytes, size})) << p.op << ' ' << name;
            const gk::status empty = p.run(a, {first + 4, 0});
            EXPECT_TRUE(empty || empty.error().code == gk::errc::workspace_too_small) << p.op << ' ' << name;
        }
    }
    EXPECT_EQ(refused, 4U * (4 + 3 + 4 + 4 + 3 + 4 + 2 + 2 + 2 + 2 + 4 + 3 + 3 + 3));
}

// Between the rows of a tensor there is room for it.
TEST(workspace_overlap, gaps_of_a_strided_tensor_are_no_part_of_it) {
    std::vector<float> rows(6 * room, 1.F);
    std::vector<float> dst(200);
    const gk::tensor_layout strided({1, 6, 6, 8}, {6 * room, room, 8, 1});
    const auto plan = gk::plan_avg_pool<float>(strided, {.kernel = {2, 2}, .strides = {1, 1}}, {1, 5, 5, 8});
    ASSERT_TRUE(plan) << gk::to_string(plan.error());
    const std::size_t size = std::max<std::size_t>(plan->workspace_bytes(), 64);
    auto* const gap = reinterpret_cast<std::byte*>(rows.data() + 2 * room + 48);
    ASSERT_LE(size, (room - 48) * sizeof(float));
    EXPECT_TRUE(plan->run(rows.data(), dst.data(), {gap, size}));
    EXPECT_EQ(dst, std::vector<float>(200, 1.F));
    const gk::status s = plan->run(rows.data(), dst.data(), {gap - 1, size});
    EXPECT_EQ(gk::to_string(s), "avg_pool: workspace: shares memory with src (invalid_argument)");
}

TEST(workspace_overlap, too_small_a_workspace_is_named_first) {
    gk::convolution_attributes conv;
    conv.strides = conv.dilations = {1, 1};
    const auto plan = gk::plan_convolution<float>({1, 6, 6, 8}, {2, 2, 8, 8}, {}, conv, {});
    ASSERT_TRUE(plan);
    ASSERT_GT(plan->workspace_bytes(), 4U);
    arena a;
    const gk::status s = plan->run(a.tensor(0), a.tensor(1), nullptr, a.tensor(2), {a.begin(0), 4});
    EXPECT_EQ(s.error().code, gk::errc::workspace_too_small);
}

TEST(workspace_overlap, is_refused_by_front_ends) {
    namespace ort = gradkern::onnxruntime;
    const auto plan = ort::plan_ConvGrad<float>({1, 8, 5, 5}, {1, 8, 6, 6}, {8, 8, 2, 2}, {}, {1, 8, 6, 6});
    ASSERT_TRUE(plan) << gk::to_string(plan.error());
    arena a;
    const std::size_t size = std::max<std::size_t>(plan->workspace_bytes(), 64);
    const gk::status s =
        plan->run(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), nullptr, nullptr, {a.begin(0) - 8, size});
    EXPECT_EQ(gk::to_string(s.error()), "ConvGrad: workspace: shares memory with dY (invalid_argument)");
}

}  // namespace
