// No result of gradkern is refused: every operator, type and layout, for all patterns of inputs.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>

#include <gradkern/testing/gtest.hpp>

#include "support/any_operator.hpp"

namespace gradkern_test {
namespace {

using gk::test::operation;

/// Whether results of integers are sums of integers, not quotients or roots.
bool sums_are_exact(operation op) {
    return op != operation::avg_pool && op != operation::avg_pool_backward && op != operation::lp_pool &&
           op != operation::lp_pool_backward;
}

class own_results : public ::testing::TestWithParam<operation> {};

TEST_P(own_results, are_right) {
    random_source random("testing.own_results");
    std::int64_t judged = 0;
    std::int64_t with_squares = 0;
    double largest = 0;
    for (const gk::data_type type : {gk::data_type::f32, gk::data_type::f16, gk::data_type::bf16, gk::data_type::f64}) {
        for (const gk::test::pattern pattern : gk::test::all_patterns) {
            for (int i = 0; i < 8; ++i, random.next_case()) {
                GRADKERN_TRACE_SEED(random);
                any_case c = random_any_case(random, GetParam(), type, pattern);
                ASSERT_TRUE(run_gradkern(c).ok()) << run_gradkern(c);
                const gk::test::report r = gk::test::compare(c.result.const_view(), c.problem, c.inputs());
                // The largest numbers may leave sums of f32 and f64 without a bound.
                if (pattern == gk::test::pattern::large && r.judged_nothing()) continue;
                ASSERT_TRUE(gk::test::is_ok(r)) << gk::test::name_of(pattern);
                if (pattern == gk::test::pattern::integers && sums_are_exact(GetParam())) {
                    ASSERT_TRUE(gk::test::is_right(c.result.const_view(), c.problem, c.inputs(), {.roundings = 0}));
                }
                judged += r.elements - r.without_bound;
                if (r.over_tensor.judges_squares) ++with_squares;
                if (r.largest_ratio > largest) largest = r.largest_ratio;
            }
        }
    }
    EXPECT_GT(judged, 1'000);
    EXPECT_LE(largest, 1);
    RecordProperty("judged_elements", std::to_string(judged));
    RecordProperty("judged_tensors", std::to_string(with_squares));
    RecordProperty("largest_ratio", std::to_string(largest));
}

INSTANTIATE_TEST_SUITE_P(of, own_results,
                         ::testing::Values(operation::avg_pool, operation::avg_pool_backward, operation::lp_pool,
                                           operation::lp_pool_backward, operation::max_pool,
                                           operation::max_pool_backward, operation::max_pool_backward_from_indices,
                                           operation::convolution, operation::convolution_backward_data,
                                           operation::convolution_backward_weights, operation::conv_transpose,
                                           operation::conv_transpose_backward_data,
                                           operation::conv_transpose_backward_weights, operation::bias_backward),
                         [](const auto& row) { return std::string(gk::test::name_of(row.param)); });

// Enough elements for the checks over the tensor, with sums of all lengths.
TEST(own_results_of_many_elements, hold_bias_and_variance) {
    random_source random("testing.own_results_many");
    int squares = 0;
    int sums = 0;
    for (const gk::data_type type : {gk::data_type::f32, gk::data_type::f16, gk::data_type::bf16})
        for (const gk::test::pattern pattern : {gk::test::pattern::uniform, gk::test::pattern::positive,
                                                gk::test::pattern::cancelling, gk::test::pattern::near_ties})
            for (const std::int64_t channels : {1, 7, 64}) {
                any_case c;
                const gk::convolution_attributes a{.strides = {1, 1}, .dilations = {1, 1}};
                c.problem = gk::test::problem(operation::convolution, a);
                c.src = any_tensor(type, {1, 22, 22, channels});
                c.weights = any_tensor(type, {3, 3, channels, 4});
                c.result = any_tensor(type, {1, 20, 20, 4});
                c.src.fill(pattern, random.bits(), 0);
                c.weights.fill(pattern, random.bits(), 1);
                ASSERT_TRUE(run_gradkern(c).ok());
                const gk::test::report r = gk::test::compare(c.result.const_view(), c.problem, c.inputs());
                EXPECT_TRUE(gk::test::is_ok(r)) << channels << " channels, " << gk::test::name_of(pattern);
                squares += r.over_tensor.judges_squares ? 1 : 0;
                sums += r.over_tensor.judges_sum ? 1 : 0;
                // Positive sums have one sign.
                EXPECT_FALSE(pattern == gk::test::pattern::positive && r.over_tensor.judges_sum);
            }
    EXPECT_GE(squares, 20);
    EXPECT_GE(sums, 9);
}

TEST(own_indices, are_right) {
    random_source random("testing.own_indices");
    for (const gk::test::pattern pattern : gk::test::all_patterns) {
        for (int i = 0; i < 10; ++i, random.next_case()) {
            GRADKERN_TRACE_SEED(random);
            any_case c = random_any_case(random, operation::max_pool, gk::data_type::bf16, pattern);
            std::size_t count = 1;
            for (const std::int64_t e : c.result.shape().values()) count *= static_cast<std::size_t>(e);
            std::vector<std::int64_t> indices(count, -7);
            const gk::tensor_view<std::int64_t> to{indices.data(), c.result.shape()};
            std::vector<std::byte> memory(std::size_t{1} << 20);
            ASSERT_TRUE(gk::max_pool(c.src.const_view(), c.problem.max_pool(), c.result.view(), to,
                                     {.plan = c.problem.options(), .workspace = memory})
                            .ok());
            EXPECT_TRUE(gk::test::is_right(to, c.problem, c.inputs()));
        }
    }
}

}  // namespace
}  // namespace gradkern_test
