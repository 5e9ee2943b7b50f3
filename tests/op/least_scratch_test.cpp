// Plans with the least scratch have the bits of the fast ones, in the workspace that they request. Calls without a workspace
// use them: they give the same bits, or workspace_too_small with the bytes of the fast plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>

#include "support/conv_cases.hpp"
#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

template <class T>
class least_scratch : public ::testing::Test {};
using element_types = ::testing::Types<float, gk::bfloat16, double>;
TYPED_TEST_SUITE(least_scratch, element_types);

/// Runs plans of one operator into one output after another: fast, least, and the call without a workspace.
/// make(options): a plan; run(plan, out, workspace, executor); call(out, options).
template <class T, class Make, class Run, class Call>
void compare(test_tensor<T>& fast, test_tensor<T>& out, gk::plan_options options, const Make& make, const Run& run,
             const Call& call) {
    const auto plan = make(options);
    ASSERT_TRUE(plan) << gk::to_string(plan.error());
    const std::size_t fast_bytes = plan->workspace_bytes();
    {
        const guarded_bytes workspace(fast_bytes);
        fast.poison();
        ASSERT_TRUE(run(*plan, fast.data(), std::span<std::byte>(workspace.data(), workspace.size()), {}).ok());
    }
    options.scratch = gk::scratch_use::least;
    const auto least = make(options);
    ASSERT_TRUE(least) << gk::to_string(least.error());
    const std::size_t bytes = least->workspace_bytes();
    {
        const guarded_bytes workspace(bytes);
        out.poison();
        const gk::status s = run(*least, out.data(), std::span<std::byte>(workspace.data(), workspace.size()), {});
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(fast));
        ASSERT_TRUE(out.surroundings_intact());
        ASSERT_TRUE(workspace.zones_intact());
    }
    {
        const guarded_bytes workspace(least->workspace_bytes(3));
        shuffling_executor workers(3);
        out.poison();
        const gk::status s = run(*least, out.data(), std::span<std::byte>(workspace.data(), workspace.size()), workers);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(fast)) << "several workers";
        ASSERT_TRUE(workspace.zones_intact());
    }
    out.poison();
    const gk::status s = call(gk::call_options{.plan = {.output = options.output}});
    if (fast_bytes == 0 || bytes <= gk::detail::call_workspace) {
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(fast)) << "without a workspace";
        ASSERT_TRUE(out.surroundings_intact());
    } else {
        ASSERT_EQ(s.code(), gk::errc::workspace_too_small);
        ASSERT_EQ(s.error().got, 0);
        ASSERT_EQ(s.error().expected, static_cast<std::int64_t>(fast_bytes));
    }
}

gk::extents some_strides(random_source& random, const gk::extents& shape) {
    return random.chance(1, 3) ? random_output_strides(random, shape) : gk::extents{};
}

TYPED_TEST(least_scratch, pools_have_the_bits_of_fast_plans) {
    using T = TypeParam;
    random_source random("least_scratch.pools");
    for (int i = 0; i < 250; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto r = static_cast<std::size_t>(random.integer(1, 3));
        const auto format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const bool long_line = r == 1 && random.chance(1, 2);
        gk::extents space;
        gk::avg_pool_attributes a{.data_format = format};
        for (std::size_t k = 0; k < r; ++k) {
            space.push_back(long_line ? random.integer(500, 3000) : random.integer(1, r == 3 ? 9 : 40));
            a.kernel.push_back(random.integer(1, long_line && random.chance(1, 2) ? 400 : r == 3 ? 4 : 9));
            a.strides.push_back(random.chance(1, 2) ? 1 : random.integer(1, 12));
            a.dilations.push_back(random.chance(3, 4) ? 1 : random.integer(1, 4));
            a.pads_begin.push_back(random.chance(1, 2) ? 0 : random.integer(0, 3));
            a.pads_end.push_back(random.chance(1, 2) ? 0 : random.integer(0, 3));
        }
        a.exclude_pad = random.chance(1, 2);
        const gk::max_pool_attributes m{.kernel = a.kernel,
                                        .strides = a.strides,
                                        .pads_begin = a.pads_begin,
                                        .pads_end = a.pads_end,
                                        .dilations = a.dilations,
                                        .data_format = format};
        const gk::extents large =
            activation(format, random.integer(1, 2), random.pick<std::int64_t>({1, 2, 3, 8, 17, 40}), space);
        const auto inferred = gk::infer_avg_pool(large, a);
        if (!inferred) continue;
        const gk::extents small = *inferred;
        const test_tensor<T> x(large, some_strides(random, large));
        const test_tensor<T> dy(small, some_strides(random, small));
        x.fill([&](std::int64_t) { return static_cast<float>(random.integer(-6, 6)); });
        dy.fill_random(random);
        test_tensor<T> y(small, some_strides(random, small));
        test_tensor<T> dx(large, some_strides(random, large));
        const auto two = [](const auto* in) {
            return [in](const auto& plan, T* out, std::span<std::byte> w, gk::executor_ref e) {
                return plan.run(in, out, w, e);
            };
        };
        // the layout of the output matters, too: both plans write to the same
        test_tensor<T> same_y(small, y.layout().strides);
        test_tensor<T> same_dx(large, dx.layout().strides);
        compare(
            same_y, y, {},
            [&](const gk::plan_options& o) { return gk::plan_avg_pool<T>(x.layout(), a, y.layout(), o); },
            two(x.data()), [&](const gk::call_options& o) { return gk::avg_pool<T>(x.const_view(), a, y.view(), o); });
        if (this->HasFatalFailure()) return;
        compare(
            same_dx, dx, {},
            [&](const gk::plan_options& o) { return gk::plan_avg_pool_backward<T>(dy.layout(), a, dx.layout(), o); },
            two(dy.data()),
            [&](const gk::call_options& o) { return gk::avg_pool_backward<T>(dy.const_view(), a, dx.view(), o); });
        if (this->HasFatalFailure()) return;
        const gk::lp_pool_attributes l{.kernel = a.kernel,
                                       .strides = a.strides,
                                       .pads_begin = a.pads_begin,
                                       .pads_end = a.pads_end,
                                       .dilations = a.dilations,
                                       .data_format = format};
        compare(
            same_y, y, {}, [&](const gk::plan_options& o) { return gk::plan_lp_pool<T>(x.layout(), l, y.layout(), o); },
            two(x.data()), [&](const gk::call_options& o) { return gk::lp_pool<T>(x.const_view(), l, y.view(), o); });
        if (this->HasFatalFailure()) return;
        compare(
            same_dx, dx, {},
            [&](const gk::plan_options& o) {
                return gk::plan_lp_pool_backward<T>(x.layout(), y.layout(), dy.layout(), l, dx.layout(), o);
            },
            [&](const auto& plan, T* out, std::span<std::byte> w, gk::executor_ref e) {
                return plan.run(x.data(), y.data(), dy.data(), out, w, e);
            },
            [&](const gk::call_options& o) {
                return gk::lp_pool_backward<T>(x.const_view(), y.const_view(), dy.const_view(), l, dx.view(), o);
            });
        if (this->HasFatalFailure()) return;
        std::vector<std::int64_t> places(static_cast<std::size_t>(dy.count()));
        std::vector<std::int64_t> first_places;
        compare(
            same_y, y, {},
            [&](const gk::plan_options& o) { return gk::plan_max_pool<T>(x.layout(), m, y.layout(), small, o); },
            [&](const auto& plan, T* out, std::span<std::byte> w, gk::executor_ref e) {
                std::fill(places.begin(), places.end(), -7);
                const gk::status s = plan.run(x.data(), out, places.data(), w, e);
                if (first_places.empty()) first_places = places;
                EXPECT_EQ(places, first_places);
                return s;
            },
            [&](const gk::call_options& o) {
                return gk::max_pool<T>(x.const_view(), m, y.view(), {places.data(), small}, o);
            });
        EXPECT_EQ(places, first_places);
        if (this->HasFatalFailure()) return;
        compare(
            same_dx, dx, {},
            [&](const gk::plan_options& o) {
                return gk::plan_max_pool_backward<T>(x.layout(), dy.layout(), m, dx.layout(), o);
            },
            [&](const auto& plan, T* out, std::span<std::byte> w, gk::executor_ref e) {
                return plan.run(x.data(), dy.data(), out, w, e);
            },
            [&](const gk::call_options& o) {
                return gk::max_pool_backward<T>(x.const_view(), dy.const_view(), m, dx.view(), o);
            });
        if (this->HasFatalFailure()) return;
        compare(
            same_dx, dx, {},
            [&](const gk::plan_options& o) {
                return gk::plan_max_pool_backward_from_indices<T>(dy.layout(), small, {.data_format = format},
                                                                  dx.layout(), o);
            },
            [&](const auto& plan, T* out, std::span<std::byte> w, gk::executor_ref e) {
                return plan.run(dy.data(), places.data(), out, w, e);
            },
            [&](const gk::call_options& o) {
                return gk::max_pool_backward_from_indices<T>(dy.const_view(), {places.data(), small},
                                                             {.data_format = format}, dx.view(), o);
            });
        if (this->HasFatalFailure()) return;
        const std::int64_t channels = large[gk::shape::channel_index(format, r)];
        using sum = gk::accumulate_t<T>;
        test_tensor<sum> fast_bias({channels});
        test_tensor<sum> bias({channels});
        compare(
            fast_bias, bias, {},
            [&](const gk::plan_options& o) {
                return gk::plan_bias_backward<T, sum>(x.layout(), {.data_format = format}, {}, o);
            },
            [&](const auto& plan, sum* out, std::span<std::byte> w, gk::executor_ref e) {
                return plan.run(x.data(), out, w, e);
            },
            [&](const gk::call_options& o) {
                return gk::bias_backward<T, sum>(x.const_view(), {.data_format = format}, bias.view(), o);
            });
        if (this->HasFatalFailure()) return;
    }
}

template <class T, class G>
void compare_convolutions(random_source& random, const conv_case& c) {
    const conv_tensors<T, G, T> t(random, c, random.chance(1, 3));
    t.fill_reals(random);
    test_tensor<G> fast(c.result());
    test_tensor<G> out(c.result());
    ASSERT_TRUE(t.run(c, fast).ok());
    const auto plan_with = [&](gk::scratch_use scratch) {
        return make_plan<T, G, T>(c, t.first.const_view(), t.second.const_view(), t.bias_view(), out.view(),
                                  {.output = t.mode, .scratch = scratch});
    };
    const planned least = plan_with(gk::scratch_use::least);
    ASSERT_TRUE(least.status.ok());
    const std::size_t bytes = least.workspace_bytes(1);
    for (const std::ptrdiff_t workers : {1, 3}) {
        const guarded_bytes workspace(least.workspace_bytes(workers));
        shuffling_executor executor(workers);
        t.prepare(out);
        const gk::status s = least.run({workspace.data(), workspace.size()}, executor);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(fast)) << least.description;
        ASSERT_TRUE(out.surroundings_intact());
        ASSERT_TRUE(workspace.zones_intact());
    }
    t.prepare(out);
    const gk::call_options options{.plan = {.output = t.mode}};
    const auto one_call = [&]() -> gk::status {
        if (c.op == conv_operator::convolution_backward_weights)
            return gk::convolution_backward_weights<T, G>(t.first.const_view(), t.second.const_view(), c.conv,
                                                          out.view(), {}, options);
        if (c.op == conv_operator::conv_transpose_backward_weights)
            return gk::conv_transpose_backward_weights<T, G>(t.first.const_view(), t.second.const_view(), c.transpose,
                                                             out.view(), {}, options);
        if constexpr (std::is_same_v<T, G>) {
            if (c.op == conv_operator::convolution)
                return gk::convolution<T>(t.first.const_view(), t.second.const_view(), t.bias_view(), c.conv,
                                          out.view(), options);
            if (c.op == conv_operator::conv_transpose)
                return gk::conv_transpose<T>(t.first.const_view(), t.second.const_view(), t.bias_view(), c.transpose,
                                             out.view(), options);
            if (c.op == conv_operator::convolution_backward_data)
                return gk::convolution_backward_data<T>(t.first.const_view(), t.second.const_view(), c.conv, out.view(),
                                                        options);
            return gk::conv_transpose_backward_data<T>(t.first.const_view(), t.second.const_view(), c.transpose,
                                                       out.view(), options);
        }
        return gk::error{.code = gk::errc::unsupported};
    };
    const gk::status s = one_call();
    const std::size_t fast_bytes = plan_with(gk::scratch_use::fast).workspace_bytes(1);
    if (fast_bytes == 0 || bytes <= gk::detail::call_workspace) {
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(fast)) << "without a workspace";
    } else {
        ASSERT_EQ(s.code(), gk::errc::workspace_too_small);
        ASSERT_EQ(s.error().expected, static_cast<std::int64_t>(fast_bytes));
    }
}

TYPED_TEST(least_scratch, convolutions_have_the_bits_of_fast_plans) {
    using T = TypeParam;
    random_source random("least_scratch.convolutions");
    for (int i = 0; i < 240; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 150'000, all_conv_operators[static_cast<std::size_t>(i % 6)],
                                             random.chance(1, 10));
        if (c.writes_weights() && random.chance(1, 2)) {
            compare_convolutions<T, gk::accumulate_t<T>>(random, c);
        } else {
            compare_convolutions<T, T>(random, c);
        }
        if (this->HasFatalFailure()) FAIL() << c.text();
    }
}

}  // namespace
}  // namespace gradkern_test
