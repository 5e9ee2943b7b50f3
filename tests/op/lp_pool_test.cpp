// Lp pools and their gradients: examples by hand, the reference's bits by every path, and the equations in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/lp_pool.hpp>

#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/pool_problem.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::algorithm;
using gk::data_format;
using gk::extents;
using problem = pool_problem<gk::lp_pool_attributes>;

// ------------------------------------------------------------------------------------------------------------ examples

TEST(lp_pool, computes_norms_and_shares) {
    const std::array<float, 4> x{3, -4, 0, 0};
    const gk::lp_pool_attributes a{.kernel = {2}, .strides = {2}};
    std::array<float, 2> y{};
    ASSERT_TRUE(gk::lp_pool<float>({x.data(), {1, 4, 1}}, a, {y.data(), {1, 2, 1}}).ok());
    EXPECT_EQ(y, (std::array<float, 2>{5, 0}));
    const std::array<float, 2> dy{10, 7};
    std::array<float, 4> dx{9, 9, 9, 9};
    ASSERT_TRUE(gk::lp_pool_backward<float>({x.data(), {1, 4, 1}}, {y.data(), {1, 2, 1}}, {dy.data(), {1, 2, 1}}, a,
                                            {dx.data(), {1, 4, 1}})
                    .ok());
    EXPECT_EQ(dx[0], 10 * (3.0F / 5));
    EXPECT_EQ(dx[1], 10 * (-4.0F / 5));
    EXPECT_EQ(dx[2], 0);  // a window whose norm is 0
    EXPECT_EQ(dx[3], 0);
}

TEST(lp_pool, windows_of_padding_have_the_norm_0_and_pass_no_gradient) {
    const std::array<float, 2> x{3, 4};
    const gk::lp_pool_attributes a{.kernel = {1}, .strides = {1}, .pads_begin = {1}, .pads_end = {1}};
    std::array<float, 4> y{9, 9, 9, 9};
    ASSERT_TRUE(gk::lp_pool<float>({x.data(), {1, 2, 1}}, a, {y.data(), {1, 4, 1}}).ok());
    EXPECT_EQ(y, (std::array<float, 4>{0, 3, 4, 0}));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::array<float, 4> dy{nan, 2, 3, nan};
    std::array<float, 2> dx{};
    ASSERT_TRUE(gk::lp_pool_backward<float>({x.data(), {1, 2, 1}}, {y.data(), {1, 4, 1}}, {dy.data(), {1, 4, 1}}, a,
                                            {dx.data(), {1, 2, 1}})
                    .ok());
    EXPECT_EQ(dx, (std::array<float, 2>{2, 3}));
}

TEST(lp_pool, inputs_of_the_gradient_are_required) {
    const gk::lp_pool_attributes a{.kernel = {2}, .strides = {2}};
    const extents large{1, 4, 1};
    const extents small{1, 2, 1};
    EXPECT_EQ(gk::plan_lp_pool_backward<float>(large, {}, small, a).error().argument, "dst");
    EXPECT_EQ(gk::plan_lp_pool_backward<float>(large, small, {}, a).error().argument, "diff_dst");
    EXPECT_EQ(gk::plan_lp_pool_backward<float>({}, small, small, a).error().argument, "src");
    EXPECT_TRUE(gk::plan_lp_pool_backward<float>(large, small, small, a).has_value());
    EXPECT_EQ(*gk::infer_lp_pool_backward(large, small, small, a), large);
    EXPECT_EQ(gk::to_string(gk::plan_lp_pool_backward<float>(large, small, extents{1, 3, 1}, a).error()),
              "lp_pool_backward: diff_dst[1]: got 3, expected 2, to match dst (invalid_shape)");
    for (const algorithm other : {algorithm::lines, algorithm::dense})
        EXPECT_EQ(gk::plan_lp_pool<float>(large, a, small, {.algorithm = other}).error().code, gk::errc::unsupported);
}

// ----------------------------------------------------------------------------------------------------------- reference

problem random_case(random_source& random, bool is_long) {
    for (;;) {
        problem p;
        gk::lp_pool_attributes& a = p.attributes;
        const auto r = static_cast<std::size_t>(random.integer(1, 3));
        a.data_format = random.pick({data_format::nxc, data_format::ncx});
        a.auto_pad = random.pick({gk::auto_pad::none, gk::auto_pad::none, gk::auto_pad::valid, gk::auto_pad::same_upper,
                                  gk::auto_pad::same_lower});
        a.rounding_type =
            random.pick({gk::rounding_type::floor, gk::rounding_type::ceil, gk::rounding_type::ceil_torch});
        extents space;
        for (std::size_t i = 0; i < r; ++i) {
            const std::int64_t kernel = is_long ? random.integer(r == 1   ? 500
                                                                 : r == 2 ? 22
                                                                          : 8,
                                                                 r == 1   ? 1500
                                                                 : r == 2 ? 30
                                                                          : 10)
                                                : random.integer(1, 4);
            space.push_back(is_long ? kernel + random.integer(0, kernel / 2)
                                    : random.integer(1, r == 1   ? 60
                                                        : r == 2 ? 19
                                                                 : 7));
            a.kernel.push_back(kernel);
            a.strides.push_back(random.integer(1, 3));
            a.dilations.push_back(is_long ? 1 : random.integer(1, 3));
            a.pads_begin.push_back(random.integer(0, kernel));
            a.pads_end.push_back(random.integer(0, kernel));
        }
        const std::int64_t channels =
            is_long ? random.integer(1, 3) : random.pick<std::int64_t>({0, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65, 130});
        p.src.push_back(random.chance(1, 20) ? 0 : random.integer(1, 2));
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        for (const std::int64_t s : space.values()) p.src.push_back(s);
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gk::infer_lp_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        return p;
    }
}

extents input_strides(random_source& random, const extents& shape) {
    return random.chance(1, 2) ? random_input_strides(random, shape) : extents{};
}

template <class T>
void fill_with_zeros_between(const test_tensor<T>& t, random_source& random) {
    t.fill_random(random);
    for (std::int64_t i = 0; i < t.count(); ++i)
        if (random.chance(1, 6)) t.set(i, random.pick({0.0F, -0.0F}));
    if (t.count() > 0 && random.chance(1, 4))
        t.set(random.integer(0, t.count() - 1), random.pick({std::numeric_limits<float>::infinity(),
                                                             std::numeric_limits<float>::quiet_NaN(), 1e-41F, 3e38F}));
}

/// Runs a plan by one path, with a random number of workers, and compares with what the reference wrote.
template <class T, class Make, class Run>
bool runs_like(random_source& random, algorithm path, gk::plan_options options, const test_tensor<T>& expected,
               const test_tensor<T>& out, const Make& make, const Run& run) {
    options.algorithm = path;
    const auto plan = make(options);
    if (!plan) {
        EXPECT_EQ(plan.error().argument, "algorithm");
        EXPECT_EQ(path, algorithm::windows);
        return false;
    }
    const std::ptrdiff_t workers = random.pick<std::ptrdiff_t>({1, 2, 3, 7});
    const guarded_bytes workspace(plan->workspace_bytes(workers), random.pick({touching::begin, touching::end}),
                                  static_cast<std::size_t>(random.integer(0, 65)));
    shuffling_executor executor(workers);
    EXPECT_TRUE(run(*plan, std::span(workspace.data(), workspace.size()), executor).ok());
    EXPECT_TRUE(out.equals(expected)) << gk::name_of(path);
    EXPECT_TRUE(out.surroundings_intact());
    EXPECT_TRUE(workspace.zones_intact());
    return true;
}

template <class T>
class lp_pool_paths : public ::testing::Test {};
using element_types = ::testing::Types<float, gk::float16, gk::bfloat16, double>;
TYPED_TEST_SUITE(lp_pool_paths, element_types, );

template <class T>
void compare_with_reference(const char* name, int cases, bool is_long) {
    random_source random(name);
    std::array<int, 2> ran{};
    for (int i = 0; i < cases; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const problem p = random_case(random, is_long);
        SCOPED_TRACE(p.description());
        const gk::plan_options options{.output =
                                           random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate})};
        const test_tensor<T> x(p.src, input_strides(random, p.src));
        const test_tensor<T> dy(p.dst, input_strides(random, p.dst));
        fill_with_zeros_between(x, random);
        fill_with_zeros_between(dy, random);
        const test_tensor<T> norms(p.dst);
        ASSERT_TRUE(gk::ref::lp_pool<T>(x.const_view(), p.attributes, norms.view()).ok());
        const auto start = [&](const test_tensor<T>& t) { t.fill([](std::int64_t k) { return k % 5 - 2; }); };
        const test_tensor<T> expected(p.dst);
        const test_tensor<T> gradient(p.src);
        start(expected);
        start(gradient);
        ASSERT_TRUE(gk::ref::lp_pool<T>(x.const_view(), p.attributes, expected.view(), {.plan = options}).ok());
        ASSERT_TRUE(gk::ref::lp_pool_backward<T>(x.const_view(), norms.const_view(), dy.const_view(), p.attributes,
                                                 gradient.view(), {.plan = options})
                        .ok());
        std::size_t row = 0;
        for (const auto& path : gk::detail::lp_pool::paths) {
            const bool strided = random.chance(1, 2);
            const test_tensor<T> y(p.dst, strided ? random_output_strides(random, p.dst) : extents{});
            start(y);
            bool fits = runs_like(
                random, path.name, options, expected, y,
                [&](const gk::plan_options& o) { return gk::plan_lp_pool<T>(x.layout(), p.attributes, y.layout(), o); },
                [&](const auto& plan, auto w, auto e) { return plan.run(x.data(), y.data(), w, e); });
            const test_tensor<T> dx(p.src, strided ? random_output_strides(random, p.src) : extents{});
            start(dx);
            fits = runs_like(
                       random, path.name, options, gradient, dx,
                       [&](const gk::plan_options& o) {
                           return gk::plan_lp_pool_backward<T>(x.layout(), norms.layout(), dy.layout(), p.attributes,
                                                               dx.layout(), o);
                       },
                       [&](const auto& plan, auto w, auto e) {
                           return plan.run(x.data(), norms.data(), dy.data(), dx.data(), w, e);
                       }) &&
                   fits;
            ran[row++] += fits ? 1 : 0;
            if (::testing::Test::HasFailure()) return;
        }
    }
    for (const int times : ran) EXPECT_GT(times, cases / 10);
}

TYPED_TEST(lp_pool_paths, have_the_references_bits) {
    compare_with_reference<TypeParam>("lp_pool.reference", 300, false);
}
TYPED_TEST(lp_pool_paths, cut_long_sums_as_the_reference_does) {
    compare_with_reference<TypeParam>("lp_pool.long", 12, true);
}

// ----------------------------------------------------------------------------------------------------------- equations

// In double the reference is the square root of a sum of squares, and its gradient is that of finite differences.
TEST(lp_pool_reference, is_the_root_of_a_mean_of_squares_in_double) {
    random_source random("lp_pool.mean");
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const problem p = random_case(random, false);
        const gk::avg_pool_attributes sum{.kernel = p.attributes.kernel,
                                          .strides = p.attributes.strides,
                                          .pads_begin = p.attributes.pads_begin,
                                          .pads_end = p.attributes.pads_end,
                                          .dilations = p.attributes.dilations,
                                          .auto_pad = p.attributes.auto_pad,
                                          .rounding_type = p.attributes.rounding_type,
                                          .divisor_override = 1,
                                          .data_format = p.attributes.data_format};
        const test_tensor<double> x(p.src), squares(p.src), y(p.dst), sums(p.dst);
        x.fill([&](std::int64_t) { return random.real(-1, 1); });
        squares.fill([&](std::int64_t k) { return x.value(k) * x.value(k); });
        ASSERT_TRUE(gk::ref::lp_pool<double>(x.const_view(), p.attributes, y.view()).ok());
        ASSERT_TRUE(gk::ref::avg_pool<double>(squares.const_view(), sum, sums.view()).ok());
        for (std::int64_t k = 0; k < y.count(); ++k) ASSERT_NEAR(y.value(k), std::sqrt(sums.value(k)), 1e-12);
    }
}

TEST(lp_pool_reference, has_the_gradient_of_finite_differences) {
    random_source random("lp_pool.differences");
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const problem p = random_case(random, false);
        const test_tensor<double> x(p.src), y(p.dst), dy(p.dst), dx(p.src);
        if (x.count() == 0) continue;
        x.fill([&](std::int64_t) { return random.real(0.5F, 1); });
        dy.fill([&](std::int64_t) { return random.real(-1, 1); });
        ASSERT_TRUE(gk::ref::lp_pool<double>(x.const_view(), p.attributes, y.view()).ok());
        ASSERT_TRUE(
            gk::ref::lp_pool_backward<double>(x.const_view(), y.const_view(), dy.const_view(), p.attributes, dx.view())
                .ok());
        const auto loss = [&] {
            const test_tensor<double> out(p.dst);
            EXPECT_TRUE(gk::ref::lp_pool<double>(x.const_view(), p.attributes, out.view()).ok());
            double total = 0;
            for (std::int64_t k = 0; k < out.count(); ++k) total += out.value(k) * dy.value(k);
            return total;
        };
        const std::int64_t at = random.integer(0, x.count() - 1);
        const double value = x.value(at);
        constexpr double step = 1e-5;
        x.set(at, value + step);
        const double above = loss();
        x.set(at, value - step);
        const double below = loss();
        EXPECT_NEAR(dx.value(at), (above - below) / (2 * step), 1e-6);
    }
}

}  // namespace
}  // namespace gradkern_test
