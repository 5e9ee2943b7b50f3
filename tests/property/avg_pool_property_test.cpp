// Laws of average pooling that need no second implementation: backward is the adjoint of forward, both are linear, and
// backward is the derivative of forward.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>

#include "support/pool_problem.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace {

using gradkern::auto_pad;
using gradkern::avg_pool_attributes;
using gradkern::data_format;
using gradkern::extents;
using gradkern::rounding_type;
using gradkern_test::random_source;
using gradkern_test::test_tensor;

using pool_problem = gradkern_test::pool_problem<avg_pool_attributes>;

pool_problem random_case(random_source& random) {
    for (;;) {
        pool_problem p;
        avg_pool_attributes& a = p.attributes;
        const std::int64_t rank = random.integer(1, 3);
        const std::int64_t channels = random.integer(1, 5);
        a.data_format = random.chance(1, 2) ? data_format::nxc : data_format::ncx;
        a.exclude_pad = random.chance(1, 2);
        a.auto_pad =
            random.pick({auto_pad::none, auto_pad::none, auto_pad::valid, auto_pad::same_upper, auto_pad::same_lower});
        a.rounding_type = random.pick({rounding_type::floor, rounding_type::ceil, rounding_type::ceil_torch});
        if (random.chance(1, 5)) a.divisor_override = random.pick<std::int64_t>({1, 4, -8});
        p.src = {random.integer(1, 2)};
        if (a.data_format == data_format::ncx) p.src.push_back(channels);
        for (std::int64_t i = 0; i < rank; ++i) {
            p.src.push_back(random.integer(1, 8));
            a.kernel.push_back(random.integer(1, 4));
            a.strides.push_back(random.integer(1, 3));
            a.dilations.push_back(random.integer(1, 2));
            a.pads_begin.push_back(random.integer(0, 3));
            a.pads_end.push_back(random.integer(0, 3));
        }
        if (a.data_format == data_format::nxc) p.src.push_back(channels);
        const auto dst = gradkern::infer_avg_pool(p.src, a);
        if (!dst) continue;
        p.dst = *dst;
        return p;
    }
}

template <class T>
double product(const test_tensor<T>& a, const test_tensor<T>& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < a.count(); ++i)
        sum += static_cast<double>(a.value(i)) * static_cast<double>(b.value(i));
    return sum;
}

std::span<std::byte> scratch() {
    static std::vector<std::byte> bytes(1U << 20);
    return bytes;
}

TEST(AvgPoolProperty, backward_is_the_adjoint_of_forward) {
    random_source random("avg_pool.adjoint");
    for (int i = 0; i < 1000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = random_case(random);
        const test_tensor<double> x(p.src);
        const test_tensor<double> y(p.dst);
        const test_tensor<double> mean(p.dst);
        const test_tensor<double> gradient(p.src);
        x.fill([&](std::int64_t) { return random.real(-1, 1); });
        y.fill([&](std::int64_t) { return random.real(-1, 1); });
        ASSERT_TRUE(gradkern::ref::avg_pool(x.const_view(), p.attributes, mean.view()).ok());
        ASSERT_TRUE(gradkern::ref::avg_pool_backward(y.const_view(), p.attributes, gradient.view()).ok());
        const double left = product(mean, y);
        EXPECT_NEAR(left, product(x, gradient), 1e-12 * (1 + static_cast<double>(x.count())));
    }
}

TEST(AvgPoolProperty, the_operators_are_adjoint) {
    random_source random("avg_pool.adjoint_f32");
    for (int i = 0; i < 1000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = random_case(random);
        const test_tensor<float> x(p.src);
        const test_tensor<float> y(p.dst);
        const test_tensor<float> mean(p.dst);
        const test_tensor<float> gradient(p.src);
        // multiples of 5040 divide by most divisors without a remainder, and all sums stay exact
        x.fill([&](std::int64_t) { return static_cast<float>(5040 * random.integer(-9, 9)); });
        y.fill([&](std::int64_t) { return static_cast<float>(5040 * random.integer(-9, 9)); });
        ASSERT_TRUE(gradkern::avg_pool(x.const_view(), p.attributes, mean.view(), {.workspace = scratch()}).ok());
        ASSERT_TRUE(
            gradkern::avg_pool_backward(y.const_view(), p.attributes, gradient.view(), {.workspace = scratch()}).ok());
        const double left = product(mean, y);
        const double magnitude = 45360.0 * 45360.0 * static_cast<double>(x.count() + y.count());
        EXPECT_NEAR(left, product(x, gradient), 1e-6 * magnitude);
    }
}

TEST(AvgPoolProperty, both_are_linear) {
    random_source random("avg_pool.linear");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool_problem p = random_case(random);
        p.attributes.divisor_override = 8;  // quotients and sums of small integers are exact
        const auto in_shape = [&](bool backward) { return backward ? p.dst : p.src; };
        const auto out_shape = [&](bool backward) { return backward ? p.src : p.dst; };
        for (const bool backward : {false, true}) {
            const auto apply = [&](const test_tensor<float>& in, const test_tensor<float>& out) {
                const gradkern::call_options options{.workspace = scratch()};
                return backward ? gradkern::avg_pool_backward(in.const_view(), p.attributes, out.view(), options)
                                : gradkern::avg_pool(in.const_view(), p.attributes, out.view(), options);
            };
            const test_tensor<float> a(in_shape(backward));
            const test_tensor<float> b(in_shape(backward));
            const test_tensor<float> both(in_shape(backward));
            const test_tensor<float> fa(out_shape(backward));
            const test_tensor<float> fb(out_shape(backward));
            const test_tensor<float> fboth(out_shape(backward));
            a.fill([&](std::int64_t) { return static_cast<float>(random.integer(-99, 99)); });
            b.fill([&](std::int64_t) { return static_cast<float>(random.integer(-99, 99)); });
            both.fill([&](std::int64_t k) { return 3.0F * a.value(k) - 2.0F * b.value(k); });
            ASSERT_TRUE(apply(a, fa).ok());
            ASSERT_TRUE(apply(b, fb).ok());
            ASSERT_TRUE(apply(both, fboth).ok());
            for (std::int64_t k = 0; k < fa.count(); ++k)
                ASSERT_EQ(fboth.value(k), 3.0F * fa.value(k) - 2.0F * fb.value(k));
        }
    }
}

/// (f(x + h e_j) - f(x)) / h summed against dy is the gradient's entry j; exact up to rounding since f is linear.
TEST(AvgPoolProperty, backward_is_the_derivative_of_forward) {
    random_source random("avg_pool.finite_differences");
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const pool_problem p = random_case(random);
        const test_tensor<double> x(p.src);
        const test_tensor<double> dy(p.dst);
        const test_tensor<double> before(p.dst);
        const test_tensor<double> after(p.dst);
        const test_tensor<double> gradient(p.src);
        x.fill([&](std::int64_t) { return random.real(-1, 1); });
        dy.fill([&](std::int64_t) { return random.real(-1, 1); });
        ASSERT_TRUE(gradkern::ref::avg_pool(x.const_view(), p.attributes, before.view()).ok());
        ASSERT_TRUE(gradkern::ref::avg_pool_backward(dy.const_view(), p.attributes, gradient.view()).ok());
        for (int k = 0; k < 5; ++k) {
            const std::int64_t j = random.integer(0, x.count() - 1);
            const double here = x.value(j);
            constexpr double h = 0.25;
            x.set(j, here + h);
            ASSERT_TRUE(gradkern::ref::avg_pool(x.const_view(), p.attributes, after.view()).ok());
            x.set(j, here);
            double slope = 0;
            for (std::int64_t o = 0; o < dy.count(); ++o) slope += (after.value(o) - before.value(o)) / h * dy.value(o);
            EXPECT_NEAR(slope, gradient.value(j), 1e-11);
        }
    }
}

}  // namespace
