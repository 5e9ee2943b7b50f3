// Every row of the table of forward passes and data gradients, forced by name, against the reference.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradkern/convolution.hpp>
#include <gradkern/ref/convolution.hpp>

#include "support/conv_cases.hpp"
#include "support/random.hpp"

namespace gradkern_test {
namespace {

constexpr conv_operator operators[]{conv_operator::convolution, conv_operator::convolution_backward_data,
                                    conv_operator::conv_transpose, conv_operator::conv_transpose_backward_data};

// Channels of one and several panels, parts and blocks; windows with borders, strides and dilations; each row fits some.
const conv_row cases[]{
    {{}, 2, 1, 17, 5, {9, 40}, 3, 1, 1, 1},     // few channels on one side
    {{}, 1, 1, 40, 70, {6, 7}, 3, 2, 1, 1},     // several panels, blocks of channels, classes
    {{}, 1, 1, 3, 66, {10, 35}, 1, 1, 1, 0},    // pixels in the lanes
    {{}, 3, 1, 20, 33, {3, 4, 9}, 1, 1, 1, 0},  // of planes and images
    {{}, 2, 13, 1, 1, {9, 18}, 3, 1, 1, 1},     // depthwise
    {{}, 2, 19, 1, 1, {9, 18}, 3, 1, 2, 2},     //
    {{}, 2, 33, 1, 1, {8, 13}, 3, 2, 1, 1},     //
    {{}, 1, 35, 1, 1, {8, 31}, 5, 1, 1, 2},     // windows that slide
    {{}, 1, 18, 1, 1, {40}, 7, 1, 1, 4},        //
    {{}, 1, 9, 4, 4, {7, 11}, 3, 1, 1, 1},      // groups that lanes share
    {{}, 2, 17, 2, 2, {9, 10}, 3, 2, 1, 1},     //
    {{}, 1, 8, 8, 8, {6, 9}, 3, 1, 1, 0},       //
    {{}, 1, 12, 1, 3, {9, 12}, 3, 1, 1, 1},     // groups of few channels
    {{}, 1, 3, 7, 10, {5, 6, 7}, 2, 1, 1, 0},   // of many
};

template <class T>
class conv_paths : public ::testing::Test {};
using types = ::testing::Types<float, gk::bfloat16>;
TYPED_TEST_SUITE(conv_paths, types);

TYPED_TEST(conv_paths, every_row_gives_the_integers_of_the_reference) {
    random_source random("conv.paths");
    std::map<std::string_view, int> runs;
    for (conv_row row : cases) {
        for (const conv_operator op : operators) {
            for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
                row.op = op;
                const conv_case c =
                    make_case(row, format, random.pick({gk::weights_format::oix, gk::weights_format::xio}));
                SCOPED_TRACE(c.text());
                const conv_tensors<TypeParam> t(random, c, random.chance(1, 4));
                t.fill_integers(random);
                test_tensor<TypeParam> expected(c.result());
                ASSERT_TRUE(t.reference(c, expected).ok());
                for (const auto& path : gk::detail::conv_paths) {
                    SCOPED_TRACE(gk::name_of(path.name));
                    test_tensor<TypeParam> out(c.result());
                    const gk::status s = t.run(c, out, path.name);
                    if (refuses_algorithm(s)) continue;
                    ASSERT_TRUE(s.ok()) << gk::to_string(s);
                    ASSERT_TRUE(out.equals(expected));
                    ASSERT_TRUE(out.surroundings_intact());
                    ++runs[gk::name_of(path.name)];
                }
            }
        }
    }
    for (const auto& path : gk::detail::conv_paths) {
        const bool has_none = path.name == gk::algorithm::dense && !std::is_same_v<TypeParam, float>;
        EXPECT_EQ(runs[gk::name_of(path.name)] == 0, has_none) << gk::name_of(path.name);
    }
}

// Blocks behind the first one take the weights that it packed.
TYPED_TEST(conv_paths, many_blocks_of_several_panels_give_the_integers_of_the_reference) {
    random_source random("conv.paths.blocks");
    const conv_row rows[]{{{}, 2, 1, 70, 5, {80, 70}, 3, 1, 1, 1}, {{}, 3, 1, 80, 12, {70, 71}, 1, 1, 1, 0}};
    for (const conv_row& forward : rows)
        for (const conv_operator op : operators)
            for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
                conv_row row = forward;  // with many channels of the result
                row.op = op;
                if (op == conv_operator::convolution_backward_data || op == conv_operator::conv_transpose)
                    std::swap(row.small, row.large);
                const conv_case c =
                    make_case(row, format, random.pick({gk::weights_format::oix, gk::weights_format::xio}));
                SCOPED_TRACE(c.text());
                const conv_tensors<TypeParam> t(random, c, false);
                t.fill_integers(random);
                test_tensor<TypeParam> expected(c.result());
                ASSERT_TRUE(t.reference(c, expected).ok());
                for (const auto& path : gk::detail::conv_paths) {
                    SCOPED_TRACE(gk::name_of(path.name));
                    test_tensor<TypeParam> out(c.result());
                    const planned p = t.plan(c, out, path.name);
                    if (!p.status.ok()) continue;
                    for (const std::ptrdiff_t workers : {1, 5}) {
                        t.prepare(out);
                        const guarded_bytes workspace(p.workspace_bytes(workers));
                        shuffling_executor executor(workers);
                        ASSERT_TRUE(p.run({workspace.data(), workspace.size()}, executor).ok());
                        ASSERT_TRUE(out.equals(expected));
                        ASSERT_TRUE(workspace.zones_intact());
                    }
                }
            }
}

// Tasks, and with them the scratch of a worker, follow the workers; fewer of these work where the workspace is smaller.
TYPED_TEST(conv_paths, every_row_has_the_bits_of_one_worker_with_any_workspace) {
    random_source random("conv.paths.workers");
    const conv_row larger[]{{{}, 2, 1, 17, 70, {29, 23}, 3, 1, 1, 1},   {{}, 2, 1, 40, 70, {31, 20}, 3, 2, 1, 1},
                            {{}, 3, 1, 70, 140, {25, 20}, 1, 1, 1, 0},  {{}, 1, 1, 24, 3, {40, 37}, 5, 1, 1, 2},
                            {{}, 2, 40, 1, 1, {30, 33}, 3, 1, 1, 1},    {{}, 2, 17, 2, 2, {29, 30}, 3, 2, 1, 1},
                            {{}, 1, 1, 24, 48, {9, 14, 13}, 2, 2, 1, 0}};
    for (conv_row row : larger) {
        for (const conv_operator op : operators) {
            const gk::data_format format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
            row.op = op;
            const conv_case c = make_case(row, format, gk::weights_format::oix);
            SCOPED_TRACE(c.text());
            const conv_tensors<TypeParam> t(random, c, false);
            t.fill_reals(random);
            for (const auto& path : gk::detail::conv_paths) {
                SCOPED_TRACE(gk::name_of(path.name));
                test_tensor<TypeParam> expected(c.result());
                if (refuses_algorithm(t.run(c, expected, path.name))) continue;
                test_tensor<TypeParam> out(c.result());
                const planned p = t.plan(c, out, path.name);
                for (const std::ptrdiff_t workers : {2, 7, 64, 1000})
                    for (const std::ptrdiff_t room : {workers, workers / 2, std::ptrdiff_t{1}}) {
                        SCOPED_TRACE(std::to_string(workers) + " workers, memory for " + std::to_string(room));
                        t.prepare(out);
                        const guarded_bytes workspace(p.workspace_bytes(room));
                        shuffling_executor executor(workers);
                        ASSERT_TRUE(p.run({workspace.data(), workspace.size()}, executor).ok());
                        ASSERT_TRUE(out.equals(expected));
                        ASSERT_TRUE(out.surroundings_intact());
                        ASSERT_TRUE(workspace.zones_intact());
                        ASSERT_GE(workspace.size(), p.workspace_bytes(1));
                    }
            }
        }
    }
}

// Sums of nothing, by the rows that fit, with and without a bias.
TYPED_TEST(conv_paths, rows_without_channels_give_the_bias) {
    for (const auto& path : gk::detail::conv_paths) {
        SCOPED_TRACE(gk::name_of(path.name));
        const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
        test_tensor<TypeParam> bias(gk::extents{3});
        bias.fill([](std::int64_t i) { return i + 1; });
        test_tensor<TypeParam> dst(gk::extents{1, 8, 3});
        const auto plan = gk::plan_convolution<TypeParam>(gk::extents{1, 8, 0}, gk::extents{1, 0, 3}, bias.layout(), a,
                                                          dst.layout(), {.algorithm = path.name});
        if (refuses_algorithm(plan.error())) continue;
        ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        const guarded_bytes workspace(plan->workspace_bytes());
        ASSERT_TRUE(plan->run(nullptr, nullptr, bias.data(), dst.data(), {workspace.data(), workspace.size()}).ok());
        for (std::int64_t i = 0; i < dst.count(); ++i) EXPECT_EQ(dst.value(i), static_cast<float>(i % 3 + 1));
    }
}

// Tiles of few output channels have many rows, of one line or of several: these lie equally far apart or not, or only their ends do.
template <class T>
void check_short_lines(gk::data_format format, const gk::extents& src, std::int64_t outputs, const gk::extents& kernel,
                       const gk::extents& strides) {
    const bool nxc = format == gk::data_format::nxc;
    const std::int64_t inputs = nxc ? src[3] : src[1];
    const gk::extents weights =
        nxc ? gk::extents{kernel[0], kernel[1], inputs, outputs} : gk::extents{outputs, inputs, kernel[0], kernel[1]};
    gk::convolution_attributes a;
    a.strides = strides;
    a.dilations = {1, 1};
    a.pads_begin = a.pads_end = {0, 0};
    a.data_format = format;
    a.weights_format = nxc ? gk::weights_format::xio : gk::weights_format::oix;
    if (kernel[1] > (nxc ? src[2] : src[3])) return;
    const auto dst = gk::infer_convolution(src, weights, a);
    ASSERT_TRUE(dst.has_value());
    const auto count = [](const gk::extents& e) { return static_cast<std::size_t>(e[0] * e[1] * e[2] * e[3]); };
    std::vector<T> x(count(src));
    std::vector<T> w(count(weights));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<int>(i * 7 % 13) - 6);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<T>(static_cast<int>(i * 5 % 11) - 5);
    std::vector<T> expected(count(*dst));
    ASSERT_TRUE(gk::ref::convolution<T>({x.data(), src}, {w.data(), weights}, {}, a, {expected.data(), *dst}).ok());
    for (const gk::algorithm path : {gk::algorithm::dense, gk::algorithm::dense_packed}) {
        const auto plan = gk::plan_convolution<T>(src, weights, {}, a, *dst, {.algorithm = path});
        ASSERT_TRUE(plan.has_value());
        std::vector<std::byte> workspace(plan->workspace_bytes(1));
        std::vector<T> y(expected.size(), T{99});
        ASSERT_TRUE(plan->run(x.data(), w.data(), nullptr, y.data(), workspace).ok());
        ASSERT_EQ(y, expected) << gk::name_of(path) << ", " << (nxc ? "NXC" : "NCX") << ", " << src[0] << " images, "
                               << inputs << " to " << outputs << " channels, kernel " << kernel[0] << "x" << kernel[1]
                               << ", strides " << strides[0] << " and " << strides[1] << ", lines of "
                               << (nxc ? src[2] : src[3]);
    }
}

TEST(conv_rows, of_short_lines_give_the_integers_of_the_reference) {
    for (const std::int64_t images : {5, 10, 11})
        for (const std::int64_t height : {3, 4})
            for (const std::int64_t width : {2, 3, 4, 5, 6, 8, 9, 12, 15, 17, 30, 31})
                for (const std::int64_t row_taps : {1, 2})
                    for (const std::int64_t taps : {1, 2, 3})
                        for (const std::int64_t stride : {1, 2, 3, 4})
                            for (const std::int64_t outputs : {1, 4, 8, 12, 16}) {
                                const gk::extents kernel{row_taps, taps};
                                const gk::extents strides{1, stride};
                                check_short_lines<float>(gk::data_format::nxc, {images, height, width, 2}, outputs,
                                                         kernel, strides);
                                check_short_lines<float>(gk::data_format::ncx, {images, 2, height, width}, outputs,
                                                         kernel, strides);
                                if (outputs <= 8)
                                    check_short_lines<double>(gk::data_format::nxc, {images, height, width, 2}, outputs,
                                                              kernel, strides);
                            }
}

}  // namespace
}  // namespace gradkern_test
