// Both paths of bias gradients, by name, against the reference, and which of them is taken.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <gradkern/bias.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/ref/bias.hpp>

#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

gk::extents activation(gk::data_format f, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return f == gk::data_format::ncx ? gk::extents{n, c, h, w} : gk::extents{n, h, w, c};
}

TEST(bias_paths, channels_that_are_neighbours_are_read_in_place) {
    using gk::detail::bias_paths;
    gk::detail::bias_problem p;
    p.channels = 40;
    p.in[1] = 1;
    EXPECT_EQ(select_path(bias_paths, p, gk::algorithm::automatic)->name, gk::algorithm::dense);
    EXPECT_EQ(select_path(bias_paths, p, gk::algorithm::dense_packed)->name, gk::algorithm::dense_packed);
    p.in[1] = 2;
    EXPECT_EQ(select_path(bias_paths, p, gk::algorithm::automatic)->name, gk::algorithm::dense_packed);
    EXPECT_EQ(select_path(bias_paths, p, gk::algorithm::dense), nullptr);
    EXPECT_EQ(select_path(bias_paths, p, gk::algorithm::few_channels), nullptr);
}

TEST(bias_paths, algorithms_without_a_row_are_refused) {
    for (const gk::algorithm a : {gk::algorithm::grouped, gk::algorithm::dense}) {
        const auto plan = gk::plan_bias_backward<float>(gk::extents{2, 5, 7}, {.data_format = gk::data_format::ncx}, {},
                                                        {.algorithm = a});
        ASSERT_FALSE(plan);
        EXPECT_EQ(plan.error().code, gk::errc::unsupported);
        EXPECT_EQ(plan.error().argument, "algorithm");
    }
}

template <class T>
void expect_reference_by_every_row(const char* name) {
    random_source random(name);
    for (int i = 0; i < 200; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const gk::bias_attributes attributes{.data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc})};
        const gk::extents shape =
            activation(attributes.data_format, random.integer(0, 3), random.pick<std::int64_t>({1, 3, 8, 17, 33, 70}),
                       random.integer(1, 20), random.integer(1, 40));
        const test_tensor<T> x(shape);
        x.fill([&](std::int64_t) { return static_cast<float>(random.integer(-3, 3)); });
        const gk::extents channels{shape[attributes.data_format == gk::data_format::ncx ? 1 : 3]};
        const test_tensor<float> expected(channels);
        ASSERT_TRUE((gk::ref::bias_backward<T, float>(x.const_view(), attributes, expected.view())));
        for (const auto& row : gk::detail::bias_paths) {
            SCOPED_TRACE(std::string(gk::name_of(row.name)));
            test_tensor<float> db(channels);
            db.poison();
            const auto plan =
                gk::plan_bias_backward<T, float>(x.layout(), attributes, db.layout(), {.algorithm = row.name});
            if (!plan) {
                EXPECT_EQ(row.name, gk::algorithm::dense);
                EXPECT_EQ(attributes.data_format, gk::data_format::ncx);
                continue;
            }
            std::string text(plan->describe({}), ' ');
            plan->describe(text);
            EXPECT_NE(text.find(": " + std::string(gk::name_of(row.name)) + ","), std::string::npos) << text;
            const std::ptrdiff_t workers = random.integer(1, 3);
            const guarded_bytes workspace(plan->workspace_bytes(workers));
            shuffling_executor executor(workers);
            ASSERT_TRUE(plan->run(x.data(), db.data(), {workspace.data(), workspace.size()}, executor));
            EXPECT_TRUE(db.equals(expected));
        }
    }
}

TEST(bias_paths, least_scratch_ignores_which_row_is_named) {
    const gk::tensor_layout diff_dst(gk::extents{1, 40, 9, 9});
    const gk::bias_attributes ncx{.data_format = gk::data_format::ncx};
    for (const auto& row : gk::detail::bias_paths)
        EXPECT_TRUE(gk::plan_bias_backward<float>(diff_dst, ncx, {},
                                                  {.algorithm = row.name, .scratch = gk::scratch_use::least}));
    const gk::plan_options other{.algorithm = gk::algorithm::pointwise, .scratch = gk::scratch_use::least};
    EXPECT_EQ(gk::plan_bias_backward<float>(diff_dst, ncx, {}, other).error().code, gk::errc::unsupported);
}

TEST(bias_paths, every_row_equals_the_reference_in_f32) { expect_reference_by_every_row<float>("bias.paths.f32"); }
TEST(bias_paths, every_row_equals_the_reference_in_bf16) {
    expect_reference_by_every_row<gk::bfloat16>("bias.paths.bf16");
}

// Positions of long sums are cut; partial sums keep their order.
TEST(bias_paths, long_sums_have_the_bits_of_one_worker) {
    random_source random("bias.workers");
    for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc})
        for (const std::int64_t channels : {1, 7, 70}) {
            const test_tensor<gk::bfloat16> x(activation(format, 3, channels, 90, 101));
            x.fill_random(random);
            for (const auto& row : gk::detail::bias_paths) {
                const auto plan = gk::plan_bias_backward<gk::bfloat16, float>(
                    x.layout(), {.data_format = format}, gk::extents{channels}, {.algorithm = row.name});
                if (!plan) continue;
                test_tensor<float> expected(gk::extents{channels});
                test_tensor<float> out(gk::extents{channels});
                const auto run = [&](test_tensor<float>& to, std::ptrdiff_t room, auto&& executor) {
                    to.poison();
                    const guarded_bytes workspace(plan->workspace_bytes(room));
                    EXPECT_TRUE(plan->run(x.data(), to.data(), {workspace.data(), workspace.size()}, executor));
                    EXPECT_TRUE(workspace.zones_intact());
                };
                run(expected, 1, reversing_executor(1));
                EXPECT_GT(plan->workspace_bytes(4), plan->workspace_bytes(1));
                for (const std::ptrdiff_t workers : {2, 3, 7, 16, 64}) {
                    SCOPED_TRACE(workers);
                    run(out, workers, shuffling_executor(workers));
                    EXPECT_TRUE(out.equals(expected));
                    run(out, 1, shuffling_executor(workers));
                    EXPECT_TRUE(out.equals(expected));
                    run(out, workers, thread_executor(workers));
                    EXPECT_TRUE(out.equals(expected));
                }
            }
        }
}

}  // namespace
}  // namespace gradkern_test
