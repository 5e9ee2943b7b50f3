// What a caller may rely on besides the values: the same bits for every executor and workspace, non-finite values only
// where the definition has them, errors, empty batches, large problems.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <gradkern/bias.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/workspace.hpp>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

using tensors = conv_tensors<float>;

// Problems of several blocks, tasks and levels of sums, which random ones are too small for.
std::vector<conv_case> large_cases() {
    const std::array<conv_row, 18> rows{{
        {conv_operator::convolution, 2, 1, 20, 6, {70, 61}, 3, 1, 1, 1},
        {conv_operator::convolution, 1, 2, 7, 130, {32, 40}, 3, 2, 1, 1},
        {conv_operator::convolution_backward_data, 3, 1, 130, 5, {39, 41}, 3, 2, 1, 1},
        {conv_operator::convolution_backward_data, 1, 40, 1, 1, {90, 90}, 3, 1, 2, 2},
        {conv_operator::convolution_backward_data, 1, 4, 3, 2, {20, 30, 20}, 2, 1, 1, 0},
        {conv_operator::convolution_backward_weights, 2, 1, 17, 2, {80, 130}, 3, 1, 1, 1},
        {conv_operator::convolution_backward_weights, 1, 35, 1, 1, {110, 90}, 3, 1, 1, 1},
        {conv_operator::convolution_backward_weights, 3, 1, 70, 70, {30}, 1, 1, 1, 0},
        {conv_operator::convolution_backward_weights, 3, 1, 10, 70, {17, 33}, 1, 1, 1, 0},
        {conv_operator::convolution_backward_weights, 1, 5, 3, 2, {100, 301}, 3, 2, 2, 2},
        {conv_operator::convolution_backward_weights, 1, 1, 20, 33, {64, 40}, 3, 1, 30, 30},
        {conv_operator::convolution_backward_weights, 2, 1, 50, 34, {700}, 3, 1, 1, 1},
        {conv_operator::convolution_backward_weights, 3, 1, 20, 1, {40, 33}, 5, 1, 1, 2},
        {conv_operator::convolution_backward_weights, 2, 1, 70, 3, {60, 50}, 3, 2, 1, 1},
        {conv_operator::convolution_backward_weights, 1, 1, 18, 2, {9, 20, 20}, 3, 1, 1, 1},
        {conv_operator::conv_transpose, 1, 1, 66, 6, {40, 40}, 2, 2, 1, 0},
        {conv_operator::conv_transpose_backward_data, 2, 1, 9, 33, {50, 51}, 3, 2, 1, 1},
        {conv_operator::conv_transpose_backward_weights, 2, 2, 5, 9, {70, 70}, 3, 1, 1, 1},
    }};
    std::vector<conv_case> cases;
    for (const conv_row& r : rows) {
        cases.push_back(make_case(r, gk::data_format::ncx, gk::weights_format::oix));
        cases.push_back(make_case(r, gk::data_format::nxc, gk::weights_format::xio));
    }
    return cases;
}

// Runs with a workspace of `bytes` bytes at an odd address that ends at a guard page.
void expect_same_bits(const conv_case& c, const tensors& t, const test_tensor<float>& expected, const planned& p,
                      test_tensor<float>& out, std::size_t bytes, std::size_t shift, const gk::executor_ref& executor) {
    const guarded_bytes workspace(bytes, touching::end, shift);
    t.prepare(out);
    const gk::status s = p.run({workspace.data(), bytes}, executor);
    ASSERT_TRUE(s.ok()) << gk::to_string(s) << c.text();
    ASSERT_TRUE(out.equals(expected)) << bytes << " bytes, shift " << shift;
    ASSERT_TRUE(workspace.zones_intact());
}

void expect_no_influence_of_workers(random_source& random, const conv_case& c, gk::thread_pool& pool) {
    const tensors t(random, c, false);
    t.fill_reals(random);
    test_tensor<float> expected(c.result());
    ASSERT_TRUE(t.run(c, expected).ok());
    for (const gk::algorithm a : all_algorithms) {
        SCOPED_TRACE(static_cast<int>(a));
        test_tensor<float> out(c.result());
        const planned p = t.plan(c, out, a);
        if (refuses_algorithm(p.status)) continue;
        ASSERT_TRUE(p.status.ok());
        const std::size_t needed = p.workspace_bytes(1);
        if (needed != 0) {  // any workspace that is too small is refused with the bytes needed
            std::vector<std::byte> little(needed - 1);
            const gk::status s = p.run(little, {});
            ASSERT_EQ(s.code(), gk::errc::workspace_too_small);
            ASSERT_EQ(s.error().expected, static_cast<std::int64_t>(needed));
        }
        for (const std::ptrdiff_t workers : {1, 2, 3, 7}) {
            shuffling_executor executor(workers);
            const auto extra = static_cast<std::size_t>(random.integer(0, 200));
            const auto between = static_cast<std::size_t>(random.integer(
                static_cast<std::int64_t>(needed), static_cast<std::int64_t>(p.workspace_bytes(workers))));
            for (const std::size_t bytes :
                 {needed, p.workspace_bytes(workers), between, p.workspace_bytes(workers) + extra}) {
                expect_same_bits(c, t, expected, p, out, bytes, static_cast<std::size_t>(random.integer(0, 70)),
                                 executor);
                if (::testing::Test::HasFatalFailure()) return;
            }
        }
        expect_same_bits(c, t, expected, p, out, p.workspace_bytes(pool.concurrency()), 0, pool);
    }
}

// What several tasks read is packed in a call of the executor of its own, by whichever worker in whatever order. An executor may say another number
// of workers each time it is asked.
TEST(convolution_contract, workers_share_what_is_packed) {
    random_source random("convolution.shared");
    int shared = 0;
    for (const conv_row& row :
         {conv_row{conv_operator::convolution, 4, 1, 256, 136, {14, 14}, 1, 1, 1, 0},
          conv_row{conv_operator::convolution, 4, 1, 130, 260, {9, 9}, 3, 1, 1, 1},
          conv_row{conv_operator::convolution_backward_data, 3, 1, 100, 300, {14, 15}, 1, 1, 1, 0},
          conv_row{conv_operator::convolution_backward_data, 4, 1, 260, 130, {8, 8}, 3, 2, 1, 1},
          conv_row{conv_operator::conv_transpose, 4, 1, 200, 150, {7, 9}, 2, 2, 1, 0}})
        for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
            const conv_case c = make_case(row, format, gk::weights_format::oix);
            const tensors t(random, c, false);
            t.fill_reals(random);
            test_tensor<float> expected(c.result());
            ASSERT_TRUE(t.run(c, expected).ok());
            test_tensor<float> out(c.result());
            for (const gk::algorithm a : {gk::algorithm::automatic, gk::algorithm::dense, gk::algorithm::dense_packed,
                                          gk::algorithm::pointwise, gk::algorithm::narrow_output}) {
                const planned p = t.plan(c, out, a);
                if (refuses_algorithm(p.status)) continue;
                for (const std::ptrdiff_t workers : {2, 3, 16, 64}) {
                    const std::size_t bytes = p.workspace_bytes(workers);
                    shuffling_executor executor(workers);
                    expect_same_bits(c, t, expected, p, out, bytes, 3, executor);
                    shared += executor.calls() > workers ? 1 : 0;
                    for (const bool one_first : {false, true}) {
                        fickle_executor fickle(std::min<std::ptrdiff_t>(workers, 8), one_first);
                        expect_same_bits(c, t, expected, p, out, bytes, 0, fickle);
                    }
                    if (::testing::Test::HasFatalFailure()) return;
                }
            }
        }
    EXPECT_GE(shared, 10);
}

// Sums that are one task for one worker are split by channels for several.
TEST(convolution_contract, weight_gradients_of_few_channels_use_every_worker) {
    random_source random("convolution.few_channels");
    for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
        const conv_case c = make_case({conv_operator::convolution_backward_weights, 1, 1, 64, 64, {9, 9}, 3, 1, 1, 1},
                                      format, gk::weights_format::oix);
        const tensors t(random, c, false);
        t.fill_reals(random);
        test_tensor<float> expected(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        test_tensor<float> out(c.result());
        const planned p = t.plan(c, out, gk::algorithm::automatic);
        shuffling_executor executor(4);
        expect_same_bits(c, t, expected, p, out, p.workspace_bytes(4), 0, executor);
        EXPECT_EQ(executor.calls(), 4);
    }
}

TEST(convolution_contract, workers_order_and_workspace_do_not_change_bits) {
    random_source random("convolution.lanes");
    gk::thread_pool pool(3);
    for (int i = 0; i < 150; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random);
        SCOPED_TRACE(c.text());
        expect_no_influence_of_workers(random, c, pool);
        if (HasFatalFailure()) return;
    }
}

TEST(convolution_contract, large_problems_are_exact_with_any_number_of_workers) {
    random_source random("convolution.large");
    gk::thread_pool pool(4);
    for (const conv_case& c : large_cases()) {
        GRADKERN_TRACE_SEED(random);
        SCOPED_TRACE(c.text());
        const tensors t(random, c, false);
        t.fill_integers(random);
        test_tensor<float> exact(c.result());
        ASSERT_TRUE(t.reference(c, exact).ok());
        for (const gk::algorithm a : all_algorithms) {
            test_tensor<float> out(c.result());
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(exact)) << gk::name_of(a);
        }
        t.fill_reals(random);
        test_tensor<float> bits(c.result());
        ASSERT_TRUE(t.run(c, bits).ok());
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(static_cast<int>(a));
            test_tensor<float> out(c.result());
            const planned p = t.plan(c, out, a);
            if (refuses_algorithm(p.status)) continue;
            ASSERT_TRUE(p.status.ok());
            shuffling_executor shuffled(5);
            expect_same_bits(c, t, bits, p, out, p.workspace_bytes(5), 3, shuffled);
            expect_same_bits(c, t, bits, p, out, p.workspace_bytes(2), 1, pool);
            if (HasFatalFailure()) return;
        }
        random.next_case();
    }
}

enum class kind : std::uint8_t { finite, nan, plus_infinity, minus_infinity };
kind kind_of(float v) {
    if (std::isnan(v)) return kind::nan;
    if (!std::isinf(v)) return kind::finite;
    return v > 0 ? kind::plus_infinity : kind::minus_infinity;
}

void expect_same_kinds(const test_tensor<float>& out, const test_tensor<float>& expected) {
    for (std::int64_t i = 0; i < out.count(); ++i)
        ASSERT_EQ(static_cast<int>(kind_of(out.value(i))), static_cast<int>(kind_of(expected.value(i))))
            << "element " << i << ": " << out.value(i) << " and " << expected.value(i);
}

TEST(convolution_contract, non_finite_values_reach_what_they_touch_and_no_more) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    random_source random("convolution.non_finite");
    for (int i = 0; i < 600; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 60'000);
        SCOPED_TRACE(c.text());
        const tensors t(random, c, random.chance(1, 4));
        t.fill_integers(random);  // with zeros among them: 0 * Inf is NaN
        // one element of the first input, the second, or both; often the first or last one, which lie at borders
        const std::int64_t where = random.integer(1, 3);
        const auto put = [&](const test_tensor<float>& x) {
            if (x.count() == 0) return;
            const std::int64_t at = random.chance(1, 3)   ? 0
                                    : random.chance(1, 2) ? x.count() - 1
                                                          : random.integer(0, x.count() - 1);
            x.set(at, random.pick({infinity, -infinity, nan}));
        };
        if ((where & 1) != 0) put(t.first);
        if ((where & 2) != 0) put(t.second);
        test_tensor<float> expected(c.result());
        ASSERT_TRUE(t.reference(c, expected).ok());
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(static_cast<int>(a));
            test_tensor<float> out(c.result());
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_same_kinds(out, expected);
            if (HasFatalFailure()) return;
        }
    }
}

TEST(convolution_contract, every_border_position_keeps_its_infinity) {
    // Each pixel of a small padded image, then each tap of the filter, is set to infinity.
    for (const conv_operator op : all_conv_operators) {
        for (const std::int64_t dilation : {1, 2}) {
            conv_case c;
            c.op = op;
            const auto set = [&](auto& a) {
                a.strides = {2, 1};
                a.dilations = {dilation, 1};
                a.pads_begin = {2, 1};
                a.pads_end = {1, 1};
                a.data_format = gk::data_format::ncx;
                a.weights_format = gk::weights_format::oix;
            };
            set(c.conv);
            set(c.transpose);
            c.weights = {3, 3, 3, 3};
            if (c.transposed()) {
                c.small = {1, 3, 4, 5};
                c.large = gk::infer_conv_transpose(c.small, c.weights, c.transpose).value();
            } else {
                c.large = {1, 3, 6, 5};
                c.small = gk::infer_convolution(c.large, c.weights, c.conv).value();
            }
            SCOPED_TRACE(c.text());
            random_source random("convolution.borders");
            tensors t(random, c, false);
            t.mode = gk::output_mode::overwrite;
            t.fill_reals(random);
            for (const test_tensor<float>* x : {&t.first, &t.second}) {
                for (std::int64_t at = 0; at < x->count(); ++at) {
                    const float before = x->value(at);
                    x->set(at, std::numeric_limits<float>::infinity());
                    test_tensor<float> expected(c.result());
                    ASSERT_TRUE(t.reference(c, expected).ok());
                    for (const gk::algorithm a : all_algorithms) {
                        test_tensor<float> out(c.result());
                        const gk::status s = t.run(c, out, a);
                        if (refuses_algorithm(s)) continue;
                        ASSERT_TRUE(s.ok()) << gk::to_string(s);
                        expect_same_kinds(out, expected);
                        if (HasFatalFailure()) return;
                    }
                    x->set(at, before);
                }
            }
        }
    }
}

TEST(convolution_contract, one_call_works_on_the_stack_or_names_the_bytes) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    std::array<float, 8> x{1, 2, 3, 4, 5, 6, 7, 8};
    std::array<float, 2> w{1, 10};
    std::array<float, 7> y{};
    const gk::tensor_view<const float> src(x.data(), {1, 8, 1});
    const gk::tensor_view<const float> weights(w.data(), {2, 1, 1});
    ASSERT_TRUE(gk::convolution<float>(src, weights, {}, a, {y.data(), {1, 7, 1}}).ok());
    EXPECT_EQ(y, (std::array<float, 7>{21, 32, 43, 54, 65, 76, 87}));

    const std::vector<float> wide(9000);
    float out = 0;
    const gk::tensor_view<const float> big_src(wide.data(), {1, 1, 9000});
    const gk::tensor_view<const float> big_weights(wide.data(), {1, 9000, 1});
    const gk::tensor_view<float> big_dst(&out, {1, 1, 1});
    const gk::status s = gk::convolution<float>(big_src, big_weights, {}, a, big_dst);
    ASSERT_EQ(s.code(), gk::errc::workspace_too_small);
    const gk::workspace scratch(static_cast<std::size_t>(s.error().expected));
    ASSERT_TRUE(scratch);
    EXPECT_TRUE(gk::convolution<float>(big_src, big_weights, {}, a, big_dst, {.workspace = scratch}).ok());
}

// The packing buffer of a worker is bounded for any number of channels and positions.
TEST(convolution_contract, scratch_does_not_grow_with_the_image) {
    const gk::convolution_attributes a{.strides = {1, 1},
                                       .dilations = {1, 1},
                                       .data_format = gk::data_format::ncx,
                                       .weights_format = gk::weights_format::oix};
    for (const std::int64_t extent : {64, 1024}) {
        const auto plan = gk::plan_convolution<float>({1, 256, extent, extent}, {8, 256, 1, 1}, {}, a, {},
                                                      {.algorithm = gk::algorithm::dense_packed});
        ASSERT_TRUE(plan);
        EXPECT_LE(plan->workspace_bytes(), std::size_t{1} << 20) << extent;
    }
    for (const std::int64_t channels : {512, 8192}) {  // few to many: one task may compute all panels
        const auto plan = gk::plan_convolution<float>({16, 8, 60, 60}, {channels, 8, 1, 1}, {}, a);
        ASSERT_TRUE(plan);
        EXPECT_LE(plan->workspace_bytes(), std::size_t{1} << 20) << channels;
    }
}

// Nor does scratch grow with the gaps between distant windows: weights of groups of few channels.
TEST(convolution_contract, scratch_does_not_grow_with_the_stride) {
    constexpr std::int64_t stride = 150000;
    constexpr std::int64_t length = 2 * stride + 1;
    const gk::convolution_attributes a{.strides = {stride}, .dilations = {1}, .groups = 2};
    std::vector<float> src(length * 4);
    for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
    const std::vector<float> diff_dst{1, 2, -3, 4, -5, 6, 7, 8, -9, 1, 2, 3};
    const gk::tensor_view<const float> x{src.data(), {1, length, 4}};
    const gk::tensor_view<const float> dy{diff_dst.data(), {1, 3, 4}};
    std::vector<float> exact(8, -2.0F);
    ASSERT_TRUE(
        gk::ref::convolution_backward_weights<float>(x, dy, a, gk::tensor_view<float>{exact.data(), {1, 2, 4}}).ok());
    for (const gk::algorithm path : all_algorithms) {
        const auto plan = gk::plan_convolution_backward_weights<float>(
            gk::extents{1, length, 4}, gk::extents{1, 3, 4}, a, gk::extents{1, 2, 4}, {}, {.algorithm = path});
        if (refuses_algorithm(plan.error())) continue;
        ASSERT_TRUE(plan);
        EXPECT_LE(plan->workspace_bytes(), std::size_t{8} << 20);
        std::vector<float> diff_weights(8, -1.0F);
        const gk::workspace scratch(plan->workspace_bytes());
        ASSERT_TRUE(plan->run(src.data(), diff_dst.data(), diff_weights.data(), scratch).ok());
        EXPECT_EQ(diff_weights, exact);
    }
}

// The cost of distant windows is what they read, not what they skip: an image of 2^28 lines, all at one line of memory.
TEST(convolution_contract, strides_over_many_lines_take_little_time) {
    constexpr std::int64_t channels = 1024;  // several panels of a task
    constexpr std::int64_t stride = std::int64_t{1} << 27;
    const std::vector<float> line(5 * channels, 1.0F);
    const std::vector<float> weights(9 * channels, 1.0F);
    std::vector<float> dst(3 * 2 * channels);
    const gk::tensor_layout image(gk::extents{1, 2 * stride + 3, 5, channels}, gk::extents{0, 0, channels, 1});
    const gk::convolution_attributes a{.strides = {stride, 2}, .dilations = {1, 1}, .groups = channels};
    for (const gk::algorithm path :
         {gk::algorithm::automatic, gk::algorithm::dense, gk::algorithm::dense_packed, gk::algorithm::depthwise}) {
        const auto plan = gk::plan_convolution<float>(image, gk::extents{3, 3, 1, channels}, {}, a,
                                                      gk::extents{1, 3, 2, channels}, {.algorithm = path});
        ASSERT_TRUE(plan);
        const gk::workspace scratch(plan->workspace_bytes());
        ASSERT_TRUE(plan->run(line.data(), weights.data(), nullptr, dst.data(), scratch).ok());
        EXPECT_EQ(dst, std::vector<float>(dst.size(), 9.0F));
    }
}

// Several groups, panels and tasks: under a sanitizer no offset is added to null.
TEST(convolution_contract, an_empty_batch_needs_no_memory_for_gradients_of_weights_and_bias) {
    const gk::tensor_view<const float> nothing(nullptr, {0, 5, 300});
    for (const gk::algorithm path : all_algorithms) {
        for (const std::int64_t groups : {1, 3, 300}) {
            const gk::extents shape{2, 300 / groups, 300};
            test_tensor<float> gradient(shape);
            const gk::convolution_attributes a{.strides = {1}, .dilations = {1}, .groups = groups};
            const gk::tensor_view<const float> diff_dst(nullptr, {0, 4, 300});
            const auto plan = gk::plan_convolution_backward_weights<float>(nothing.layout, diff_dst.layout, a,
                                                                           gradient.layout(), {}, {.algorithm = path});
            if (refuses_algorithm(plan.error())) continue;
            ASSERT_TRUE(plan);
            const gk::workspace scratch(plan->workspace_bytes());
            ASSERT_TRUE(plan->run(nullptr, nullptr, gradient.data(), scratch).ok());
            for (std::int64_t i = 0; i < gradient.count(); ++i) ASSERT_EQ(gradient.value(i), 0.0F);
        }
    }
    test_tensor<float> bias(gk::extents{300});
    ASSERT_TRUE(gk::bias_backward<float>(nothing, {}, bias.view()).ok());
    for (std::int64_t i = 0; i < bias.count(); ++i) ASSERT_EQ(bias.value(i), 0.0F);
}

TEST(convolution_contract, memory_mistakes_are_errors) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    std::array<float, 64> x{};
    std::array<float, 64> y{};
    const gk::tensor_layout image{1, 8, 1};
    const gk::tensor_layout filter_layout{1, 1, 1};
    const auto run = [&](const float* src, const float* weights, const gk::tensor_view<const float>& bias, float* dst,
                         const gk::tensor_layout& dst_layout) {
        return gk::convolution<float>(gk::tensor_view<const float>(src, image), {weights, filter_layout}, bias, a,
                                      {dst, dst_layout})
            .error();
    };
    EXPECT_EQ(run(x.data(), x.data(), {}, y.data(), image).code, gk::errc::ok);
    EXPECT_EQ(run(nullptr, x.data(), {}, y.data(), image).argument, "src");
    EXPECT_EQ(run(x.data(), nullptr, {}, y.data(), image).code, gk::errc::null_pointer);
    EXPECT_EQ(run(x.data(), x.data(), {}, nullptr, image).argument, "dst");
    EXPECT_EQ(run(x.data(), x.data(), {nullptr, {1}}, y.data(), image).argument, "bias");
    EXPECT_EQ(run(x.data(), x.data(), {x.data(), {2}}, y.data(), image).code, gk::errc::invalid_shape);
    EXPECT_EQ(run(x.data(), x.data(), {x.data(), {1, 1}}, y.data(), image).code, gk::errc::unsupported);
    EXPECT_EQ(run(x.data(), x.data() + 32, {}, x.data() + 7, image).code, gk::errc::invalid_argument);  // overlap
    EXPECT_EQ(run(x.data(), x.data() + 32, {}, x.data() + 8, image).code, gk::errc::ok);
    EXPECT_EQ(run(x.data(), x.data(), {}, y.data(), {{1, 8, 1}, {8, 0, 1}}).code, gk::errc::invalid_argument);
    EXPECT_EQ(run(x.data(), x.data(), {}, y.data(), {{1, 8, 1}, {8, 1}}).code, gk::errc::invalid_argument);
    EXPECT_EQ(run(x.data(), x.data(), {}, y.data(), {{1, 8, 1}, {8, INT64_MAX, 1}}).code, gk::errc::overflow);
    EXPECT_EQ(run(x.data(), x.data(), {}, y.data() + 7, {{1, 8, 1}, {INT64_MIN, -1, 1}}).code, gk::errc::ok)
        << "the stride of an axis of extent 1 is never used";
    // empty tensors need no memory
    const gk::tensor_view<const float> none(nullptr, {0, 8, 1});
    EXPECT_TRUE(gk::convolution<float>(none, {x.data(), filter_layout}, {}, a, {nullptr, {0, 8, 1}}).ok());
}

// Huge shapes, which strides of 0 make possible: planned or refused, never miscounted.
TEST(convolution_contract, sizes_of_scratch_memory_do_not_wrap_around) {
    random_source random("convolution.absurd");
    int planned_cases = 0;
    for (int i = 0; i < 20'000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto extent = [&]() -> std::int64_t {
            if (random.chance(1, 2)) return 1;
            return random.chance(1, 3) ? random.integer(1, 9) : INT64_C(1) << random.integer(0, 61);
        };
        conv_case c;
        c.op = static_cast<conv_operator>(random.integer(0, 5));
        const auto rank = static_cast<std::size_t>(random.integer(1, 3));
        gk::extents space;
        gk::extents kernel;
        for (std::size_t a = 0; a < rank; ++a) {
            space.push_back(extent());
            kernel.push_back(extent());
        }
        const auto set = [&](auto& a) {
            for (std::size_t k = 0; k < rank; ++k) {
                a.strides.push_back(extent());
                a.dilations.push_back(extent());
                a.pads_begin.push_back(extent() - 1);
                a.pads_end.push_back(extent() - 1);
            }
        };
        const std::int64_t s_channels = extent();
        const std::int64_t l_channels = extent();
        if (c.transposed()) {
            set(c.transpose);
            c.small = activation(gk::data_format::nxc, 1, s_channels, space);
            c.weights = filter(gk::weights_format::xio, l_channels, s_channels, kernel);
            c.large = gk::infer_conv_transpose(c.small, c.weights, c.transpose).value();
        } else {
            set(c.conv);
            c.large = activation(gk::data_format::nxc, 1, l_channels, space);
            c.weights = filter(gk::weights_format::xio, s_channels, l_channels, kernel);
            c.small = gk::infer_convolution(c.large, c.weights, c.conv).value();
        }
        if (c.large.empty() || c.small.empty()) continue;  // refused
        SCOPED_TRACE(c.text());
        for (const gk::algorithm a : all_algorithms) {
            const planned p =
                make_plan<float, float, float>(c, {nullptr, c.first()}, {nullptr, c.second()}, {},
                                               gk::tensor_view<float>(nullptr, c.result()), {.algorithm = a});
            if (refuses_algorithm(p.status)) continue;
            if (!p.status) {
                ASSERT_EQ(p.status.code(), gk::errc::overflow);
                continue;
            }
            ++planned_cases;
            ASSERT_LE(p.workspace_bytes(1), static_cast<std::size_t>(INT64_MAX));
            ASSERT_GE(p.workspace_bytes(1'000'000), p.workspace_bytes(1));
            ASSERT_EQ(p.run({}, {}).code(), gk::errc::null_pointer);
        }
    }
    EXPECT_GT(planned_cases, 1000);
}

TEST(convolution_contract, plans_are_values_and_describe_themselves) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    const auto plan = gk::plan_convolution<float>({1, 8, 3}, {1, 3, 5}, {}, a);
    ASSERT_TRUE(plan);
    const auto copy = *plan;
    std::array<char, 256> text{};
    const std::size_t n = copy.describe(text);
    ASSERT_LT(n, text.size());
    const std::string_view line(text.data(), n);
    EXPECT_NE(line.find("convolution"), std::string_view::npos);
    EXPECT_EQ(line.find('\n'), std::string_view::npos);
    EXPECT_EQ(copy.describe({}), n);
    EXPECT_EQ(copy.workspace_bytes(), plan->workspace_bytes());
    EXPECT_LE(plan->workspace_bytes(1), plan->workspace_bytes(2));

    // groups of four channels, whose lanes are permuted in a register, in both directions
    const gk::convolution_attributes grouped{.strides = {1}, .dilations = {1}, .groups = 16};
    const gk::tensor_layout wide = gk::extents{1, 20, 64};
    const auto forward = gk::plan_convolution<float>(wide, {1, 4, 64}, {}, grouped, wide);
    const auto weights = gk::plan_convolution_backward_weights<float>(wide, wide, grouped, {1, 4, 64});
    ASSERT_TRUE(forward && weights);
    const auto says = [&](const auto& p, std::string_view words) {
        const std::string_view whole_line(text.data(), std::min(text.size(), p.describe(text)));
        return whole_line.find(words) != std::string_view::npos;
    };
    EXPECT_TRUE(says(*forward, "grouped"));
    EXPECT_TRUE(says(*weights, "grouped"));

    // the gradient of a 1x1 kernel has the cheaper side in its lanes
    const gk::tensor_layout few = gk::extents{1, 16, 50};
    const gk::tensor_layout many = gk::extents{1, 96, 50};
    const gk::convolution_attributes ncx{.strides = {1},
                                         .dilations = {1},
                                         .data_format = gk::data_format::ncx,
                                         .weights_format = gk::weights_format::oix};
    const auto widens = gk::plan_convolution_backward_weights<float>(few, many, ncx, {96, 16, 1});
    const auto narrows = gk::plan_convolution_backward_weights<float>(many, few, ncx, {16, 96, 1});
    ASSERT_TRUE(widens && narrows);
    EXPECT_NE(says(*widens, "sides swapped"), says(*narrows, "sides swapped"));

    // and if channels are contiguous, positions of many taps and channels are transposed to rows
    const gk::tensor_layout deep = gk::extents{1, 50, 64};
    const gk::convolution_attributes nxc{.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}};
    const auto turned = gk::plan_convolution_backward_weights<float>(deep, deep, nxc, {3, 64, 64});
    const auto in_place = gk::plan_convolution_backward_weights<float>(deep, deep, nxc, {3, 64, 64}, {},
                                                                       {.algorithm = gk::algorithm::dense});
    ASSERT_TRUE(turned && in_place);
    EXPECT_TRUE(says(*turned, "activations transposed"));
    EXPECT_TRUE(says(*in_place, "activations in place"));

    // with few input channels rows hold taps
    const auto image = gk::plan_convolution_backward_weights<float>(
        gk::extents{1, 50, 20, 1}, gk::extents{1, 50, 20, 6},
        {.strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}}, {3, 3, 1, 6});
    ASSERT_TRUE(image);
    EXPECT_TRUE(says(*image, "few_channels"));
}

// Paths that would be faster with a workspace do not require one for small weight gradients.
TEST(convolution_contract, small_weight_gradients_need_no_workspace) {
    const gk::convolution_attributes a{
        .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    const auto works = [&](std::int64_t images, std::int64_t extent, std::int64_t channels) {
        const std::int64_t positions = images * extent * extent;
        const std::vector<float> src(static_cast<std::size_t>(positions * channels), 1.0F);
        const std::vector<float> diff_dst(static_cast<std::size_t>(positions * 16), 1.0F);
        std::vector<float> diff_weights(static_cast<std::size_t>(9 * channels * 16));
        const gk::status status = gk::convolution_backward_weights<float>(
            {src.data(), {images, extent, extent, channels}}, {diff_dst.data(), {images, extent, extent, 16}}, a,
            gk::tensor_view<float>{diff_weights.data(), {3, 3, channels, 16}});
        return status.ok() &&
               diff_weights[static_cast<std::size_t>(4 * channels * 16)] == static_cast<float>(positions);
    };
#if defined(__AVX2__) || defined(__aarch64__)  // panels of fewer lanes share a packed small side
    EXPECT_TRUE(works(2, 14, 16));
    EXPECT_TRUE(works(8, 8, 16));
#endif
    EXPECT_TRUE(works(1, 32, 3));
}

// Packing buffers are split along every axis: the workspace does not grow with a long line.
TEST(convolution_contract, a_long_line_needs_no_long_workspace) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}};
    const auto workspace = [&](std::int64_t length) {
        const auto plan = gk::plan_convolution<gk::bfloat16>({1, length, 64}, {3, 64, 64}, {}, a);
        EXPECT_TRUE(plan.has_value());
        return plan->workspace_bytes();
    };
    EXPECT_LE(workspace(1000000), 2 * workspace(4096));
    EXPECT_LE(workspace(1000000), std::size_t{2} << 20);

    // and the split does not change results: integers are exact
    constexpr std::int64_t length = 9001;
    std::vector<float> src(length * 2);
    std::vector<float> weights(3 * 2 * 3);
    for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(static_cast<int>(i % 5) - 2);
    std::vector<float> dst(length * 3, -1.0F);
    std::vector<float> exact(length * 3, -2.0F);
    const gk::tensor_view<const float> x{src.data(), {1, length, 2}};
    const gk::tensor_view<const float> w{weights.data(), {3, 2, 3}};
    const gk::workspace memory(std::size_t{4} << 20);
    for (const gk::algorithm path : all_algorithms) {
        gk::call_options options{.workspace = memory};
        options.plan.algorithm = path;
        const gk::status s = gk::convolution<float>(x, w, {}, a, {dst.data(), {1, length, 3}}, options);
        if (refuses_algorithm(s)) continue;
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(gk::ref::convolution<float>(x, w, {}, a, {exact.data(), {1, length, 3}}).ok());
        EXPECT_EQ(dst, exact);
    }
}

// Strides that are never used may have any value.
TEST(convolution_contract, strides_that_are_never_used_have_no_limit) {
    constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
    const std::vector<float> src(2 * 3 * 3, 1.0F);
    const std::vector<float> diff_dst(2 * 2, 1.0F);
    std::vector<float> diff_weights(3 * 3 * 2);
    const gk::workspace memory(std::size_t{1} << 20);
    for (const gk::algorithm path : all_algorithms) {
        gk::call_options options{.workspace = memory};
        options.plan.algorithm = path;
        const gk::status s = gk::convolution_backward_weights<float>(
            {src.data(), {2, 3, 3}}, {diff_dst.data(), {2, 1, 2}}, {.strides = {far}, .dilations = {1}},
            gk::tensor_view<float>{diff_weights.data(), {3, 3, 2}}, {}, options);
        if (refuses_algorithm(s)) continue;
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        EXPECT_EQ(diff_weights, std::vector<float>(diff_weights.size(), 2.0F));
    }
    // one window whose taps lie far apart in the padding
    float dst = 0;
    constexpr std::int64_t wide = std::int64_t{1} << 40;
    ASSERT_TRUE(gk::convolution<float>({src.data(), {1, 1, 1}}, {src.data(), {3, 1, 1}}, {},
                                       {.strides = {1}, .dilations = {wide}, .pads_begin = {wide}, .pads_end = {wide}},
                                       {&dst, {1, 1, 1}})
                    .ok());
    EXPECT_EQ(dst, 1.0F);
    // an axis of extent 1 with any stride
    std::array<float, 3> diff_bias{};
    ASSERT_TRUE(gk::bias_backward<float>({src.data(), {{2, 2, 1, 3}, {6, 3, far, 1}}}, {},
                                         gk::tensor_view<float>{diff_bias.data(), {3}}, {.workspace = memory})
                    .ok());
    EXPECT_EQ(diff_bias, (std::array<float, 3>{4, 4, 4}));
}

}  // namespace
}  // namespace gradkern_test
