// Every path of weight gradients, by name, against the reference: a row that is added to the table is run here.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

/// Runs a case whose sums are exact through a path, for some workers. `ran`: counted where it fits.
template <class T>
void expect_reference(random_source& random, const conv_case& c, const test_tensor<T>& first,
                      const test_tensor<T>& second, const test_tensor<float>& expected, const gk::plan_options& options,
                      int& ran) {
    test_tensor<float> out(c.result());
    out.poison();
    const auto run = [&](const auto& plan) {
        if (!plan) {
            EXPECT_EQ(plan.error().code, gk::errc::unsupported) << gk::to_string(plan.error());
            EXPECT_EQ(plan.error().argument, "algorithm");
            return;
        }
        ++ran;
        std::string text(plan->describe({}), ' ');
        plan->describe(text);
        EXPECT_NE(text.find(": " + std::string(gk::name_of(options.algorithm)) + ","), std::string::npos) << text;
        const std::ptrdiff_t workers = random.integer(1, 4);
        const guarded_bytes workspace(plan->workspace_bytes(workers));
        shuffling_executor executor(workers);
        ASSERT_TRUE(plan->run(first.data(), second.data(), out.data(), {workspace.data(), workspace.size()}, executor));
        EXPECT_TRUE(out.equals(expected));
        EXPECT_TRUE(out.surroundings_intact());
    };
    if (c.transposed()) {
        run(gk::plan_conv_transpose_backward_weights<T, float>(first.layout(), second.layout(), c.transpose,
                                                               out.layout(), {}, options));
    } else {
        run(gk::plan_convolution_backward_weights<T, float>(first.layout(), second.layout(), c.conv, out.layout(), {},
                                                            options));
    }
}

template <class T>
void expect_reference_by_every_row(const char* name, gk::precision precision) {
    random_source random(name);
    std::map<gk::algorithm, int> ran;
    for (int i = 0; i < 400; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_operator op =
            random.pick({conv_operator::convolution_backward_weights, conv_operator::conv_transpose_backward_weights});
        const conv_case drawn = random_conv_case(random, 100'000, op, random.chance(1, 12));
        const gk::weights_format filter = random.pick({gk::weights_format::oix, gk::weights_format::xio});
        for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
            const conv_case c = with_formats(drawn, format, filter);
            SCOPED_TRACE(c.text());
            const bool strided = random.chance(1, 4);
            const conv_tensors<T, float, float> t(random, c, strided);
            t.fill_integers(random);
            test_tensor<float> expected(c.result());
            ASSERT_TRUE((c.transposed() ? gk::ref::conv_transpose_backward_weights<T, float>(
                                              t.first.const_view(), t.second.const_view(), c.transpose, expected.view())
                                        : gk::ref::convolution_backward_weights<T, float>(
                                              t.first.const_view(), t.second.const_view(), c.conv, expected.view())));
            for (const auto& row : gk::detail::conv_weights::paths) {
                SCOPED_TRACE(std::string(gk::name_of(row.name)));
                expect_reference(random, c, t.first, t.second, expected,
                                 {.precision = precision, .algorithm = row.name}, ran[row.name]);
                if (::testing::Test::HasFailure()) return;
            }
        }
    }
    constexpr bool dots = gk::detail::has_pairs<T>;
    for (const auto& row : gk::detail::conv_weights::paths) {
        const bool exists = row.name == gk::algorithm::dense_bf16 ? dots && precision == gk::precision::relaxed
                            : row.name == gk::algorithm::dense    ? std::is_same_v<T, float>
                            : row.name == gk::algorithm::grouped  ? gk::detail::has_outer(4)
                                                                  : true;
        if (exists) {
            EXPECT_GE(ran[row.name], 10) << gk::name_of(row.name);
        } else {
            EXPECT_EQ(ran[row.name], 0) << gk::name_of(row.name);
        }
    }
}

TEST(conv_weights_paths, every_row_equals_the_reference_in_f32) {
    expect_reference_by_every_row<float>("conv_weights.paths.f32", gk::precision::strict);
}
TEST(conv_weights_paths, every_row_equals_the_reference_in_bf16) {
    expect_reference_by_every_row<gk::bfloat16>("conv_weights.paths.bf16", gk::precision::relaxed);
}

}  // namespace
}  // namespace gradkern_test
