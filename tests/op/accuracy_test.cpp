// Long sums: gradients over 1e6 positions stay near those of a double reference, and the published bounds are what the
// order of summation says.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/accuracy.hpp>
#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/convolution.hpp>

#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

static_assert(gk::accuracy::roundings(0) == 0.0);
static_assert(gk::accuracy::gather(1) >= 1.0 && gk::accuracy::gather(1) < 1.001);
static_assert(gk::accuracy::gather(576) >= 576.0 && gk::accuracy::gather(576) < 578.0);
static_assert(gk::accuracy::gather(9 * 512) < 576 + 10, "nine parts, not 4608 terms");
static_assert(gk::accuracy::gather(9 * 512) >= 576 + 7, "eight parts of 576 terms are added up");
static_assert(gk::accuracy::gather(1, 1) >= 2.0 && gk::accuracy::reduction(1, 5, 1) >= 6.0, "a bias is one more term");
static_assert(gk::accuracy::reduction(0, 5) == 0.0);
static_assert(gk::accuracy::reduction(1, 5) >= 5.0 && gk::accuracy::reduction(1, 5) < 5.001);
static_assert(gk::accuracy::reduction(1000, 1000) < 256 + 32 + 125 + 1, "1e6 terms pass through some 410 roundings");
static_assert(gk::accuracy::reduction(1 << 20, 1) < 256 + 32 + 128);
static_assert(gk::accuracy::result_roundoff<float> == 0.0);
static_assert(gk::accuracy::result_roundoff<gk::float16> == 0x1p-11);
static_assert(gk::accuracy::result_roundoff<gk::bfloat16> == 0x1p-8);
static_assert(gk::accuracy::unit_roundoff == 0x1p-24);

constexpr gk::convolution_attributes oix_stride_2{.strides = {2, 2},
                                                  .dilations = {1, 1},
                                                  .data_format = gk::data_format::ncx,
                                                  .weights_format = gk::weights_format::oix};
static_assert(gk::accuracy::convolution({8, 4, 3, 3}, oix_stride_2) >= 36.0);
static_assert(gk::accuracy::convolution({8, 4, 3, 3}, oix_stride_2) < 36.001);
static_assert(gk::accuracy::convolution_backward_data({8, 4, 3, 3}, oix_stride_2) < 32.001, "2 x 2 taps of a phase");
static_assert(gk::accuracy::convolution_backward_data({3, 4, 8}, {.strides = {2}, .dilations = {2}}) >= 24.0,
              "taps two apart, windows two apart: all three meet");
static_assert(gk::accuracy::convolution_backward_weights({2, 8, 3, 5}, oix_stride_2) < 30.001);
static_assert(gk::accuracy::bias_backward({2, 8, 3, 5}, {.data_format = gk::data_format::ncx}) < 30.001);

constexpr gk::max_pool_attributes max_3_2{.kernel = {3, 3}, .strides = {2, 2}, .data_format = gk::data_format::ncx};
static_assert(gk::accuracy::max_pool() == 0.0 && gk::accuracy::max_pool(1) < 1.001);
static_assert(gk::accuracy::max_pool_backward({1, 1, 9, 9}, max_3_2) >= 3.0, "2 x 2 windows, three additions");
static_assert(gk::accuracy::max_pool_backward({1, 1, 9, 9}, max_3_2) < 3.001);
static_assert(gk::accuracy::max_pool_backward({1, 1, 1, 9}, max_3_2) < 1.001, "no more windows than there are");
static_assert(gk::accuracy::max_pool_backward({1, 1, 9, 9}, max_3_2, 1) >= 4.0);
static_assert(gk::accuracy::max_pool_backward({1, 9, 1}, {.kernel = {3}, .strides = {2}, .dilations = {2}}) < 2.001,
              "taps two apart, windows two apart: all three meet");
static_assert(gk::accuracy::max_pool_backward_from_indices(0) == 0.0);
static_assert(gk::accuracy::max_pool_backward_from_indices(7) >= 6.0);
static_assert(gk::accuracy::max_pool_backward_from_indices(7) < 6.001);
static_assert(gk::accuracy::max_pool_backward_from_indices(std::int64_t{1} << 40) > 1e300);
constexpr gk::avg_pool_attributes mean_5_2{
    .kernel = {5, 5}, .strides = {2, 2}, .dilations = {1, 1}, .data_format = gk::data_format::ncx};
static_assert(gk::accuracy::avg_pool({1, 1, 9, 9}, mean_5_2) >= 10.0, "4 + 4 additions, quotient, divisor");
static_assert(gk::accuracy::avg_pool({1, 1, 9, 9}, mean_5_2) < 10.001);
static_assert(gk::accuracy::avg_pool({1, 1, 3, 9}, mean_5_2) < 8.001, "no more taps than there are");
static_assert(gk::accuracy::avg_pool_backward({1, 1, 9, 9}, mean_5_2) >= 6.0, "3 x 3 windows");
static_assert(gk::accuracy::avg_pool_backward({1, 1, 9, 9}, mean_5_2) < 6.001);

// 1e6 positions, two channels a side.
struct long_sum {
    bool same_sign;
    gk::extents shape;  // NXC
};

class long_gradients : public ::testing::TestWithParam<long_sum> {};

TEST_P(long_gradients, stay_near_double) {
    random_source random("accuracy.long");
    const gk::extents& shape = GetParam().shape;
    std::size_t count = 1;
    for (const std::int64_t e : shape.values()) count *= static_cast<std::size_t>(e);
    std::vector<float> x(count);
    std::vector<float> dy(count);
    const auto value = [&] {
        const float v = random.real(-1.0F, 1.0F);
        return GetParam().same_sign ? std::fabs(v) + 0.1F : v;
    };
    std::generate(x.begin(), x.end(), value);
    std::generate(dy.begin(), dy.end(), value);
    const std::vector<double> xd(x.begin(), x.end());
    const std::vector<double> dyd(dy.begin(), dy.end());

    const std::size_t r = shape.rank() - 2;
    gk::convolution_attributes a{.strides = gk::extents::filled(r, 1), .dilations = gk::extents::filled(r, 1)};
    a.diff_weights_shape = gk::extents::filled(r, 1);
    a.diff_weights_shape.push_back(2);
    a.diff_weights_shape.push_back(2);
    // relative to the sum of absolute terms: a sum that cancels has no relative accuracy of its own
    const auto expect_near = [&](const float* got, const double* exact, const double* sizes, int n, double factor) {
        for (int i = 0; i < n; ++i) {
            EXPECT_LE(std::fabs(got[i] - exact[i]), 1e-5 * sizes[i]) << i;
            EXPECT_LE(std::fabs(got[i] - exact[i]), factor * gk::accuracy::unit_roundoff * sizes[i]) << i;
        }
    };
    const auto absolute = [](std::vector<double> v) {
        for (double& e : v) e = std::fabs(e);
        return v;
    };
    const std::vector<double> xa = absolute(xd);
    const std::vector<double> dya = absolute(dyd);
    float dw[4];
    double exact[4];
    double sizes[4];
    const gk::tensor_layout small{gk::extents(a.diff_weights_shape)};
    const auto plan = gk::plan_convolution_backward_weights<float>({shape}, {shape}, a);
    ASSERT_TRUE(plan);
    std::vector<std::byte> workspace(plan->workspace_bytes());
    ASSERT_TRUE(plan->run(x.data(), dy.data(), dw, workspace).ok());
    ASSERT_TRUE(gk::ref::convolution_backward_weights(gk::tensor_view<const double>(xd.data(), shape),
                                                      {dyd.data(), shape}, a, gk::tensor_view<double>(exact, small))
                    .ok());
    ASSERT_TRUE(gk::ref::convolution_backward_weights(gk::tensor_view<const double>(xa.data(), shape),
                                                      {dya.data(), shape}, a, gk::tensor_view<double>(sizes, small))
                    .ok());
    expect_near(dw, exact, sizes, 4, gk::accuracy::convolution_backward_weights(shape, a));

    // k = 1: the transposed convolution's gradient is the same sum with the sides swapped
    gk::conv_transpose_attributes t{.strides = a.strides, .dilations = a.dilations};
    t.diff_weights_shape = a.diff_weights_shape;
    const auto transposed = gk::plan_conv_transpose_backward_weights<float>({shape}, {shape}, t);
    ASSERT_TRUE(transposed);
    workspace.resize(transposed->workspace_bytes());
    ASSERT_TRUE(transposed->run(x.data(), dy.data(), dw, workspace).ok());
    expect_near(dw, exact, sizes, 4, gk::accuracy::conv_transpose_backward_weights(shape, t));

    float db[2];
    ASSERT_TRUE(
        gk::bias_backward(gk::tensor_view<const float>(dy.data(), shape), {}, gk::tensor_view<float>(db, {2})).ok());
    ASSERT_TRUE(gk::ref::bias_backward(gk::tensor_view<const double>(dyd.data(), shape), {},
                                       gk::tensor_view<double>(exact, {2}))
                    .ok());
    ASSERT_TRUE(gk::ref::bias_backward(gk::tensor_view<const double>(dya.data(), shape), {},
                                       gk::tensor_view<double>(sizes, {2}))
                    .ok());
    expect_near(db, exact, sizes, 2, gk::accuracy::bias_backward(shape, {}));
}

INSTANTIATE_TEST_SUITE_P(million_terms, long_gradients,
                         ::testing::Values(long_sum{true, {1, 1'000'000, 2}}, long_sum{false, {1, 1'000'000, 2}},
                                           long_sum{true, {4, 500, 500, 2}}, long_sum{false, {4, 500, 500, 2}},
                                           long_sum{true, {10, 10, 100, 100, 2}}, long_sum{true, {62'500, 16, 2}}));

// --------------------------------------------------------------------------------------------------------------- pools

// One peak a plane, which all windows have in common: their gradients meet there.
struct overlapping_pool {
    bool same_sign;
    gk::extents large;  // NXC
    gk::extents kernel;
};

class long_pools : public ::testing::TestWithParam<overlapping_pool> {
protected:
    template <class T>
    static void stay_near_double() {
        random_source random("accuracy.pools");
        const gk::extents& large = GetParam().large;
        const gk::extents& kernel = GetParam().kernel;
        const std::size_t r = kernel.rank();
        const gk::max_pool_attributes a{.kernel = kernel, .strides = gk::extents::filled(r, 1)};
        const gk::avg_pool_attributes mean{.kernel = kernel, .strides = a.strides};
        const gk::extents small = *gk::infer_max_pool(large, a);
        std::int64_t windows = 1;
        for (std::size_t i = 1; i <= r; ++i) windows *= small[i];

        const test_tensor<T> x(large);
        const test_tensor<T> dy(small);
        const auto value = [&](std::int64_t) {
            const float v = random.real(-1.0F, 1.0F);
            return GetParam().same_sign ? std::fabs(v) + 0.1F : v;
        };
        x.fill(value);
        dy.fill(value);
        std::int64_t peak = 0;
        for (std::size_t i = 1; i <= r; ++i) peak = peak * large[i] + large[i] / 2;
        for (std::int64_t c = 0; c < 2; ++c) x.set(2 * peak + c, 8.0F);
        const auto numbers = [](const test_tensor<T>& t, bool absolute) {
            test_tensor<double> d(t.shape());
            for (std::int64_t i = 0; i < t.count(); ++i)
                d.set(i, absolute ? std::fabs(static_cast<double>(t.value(i))) : static_cast<double>(t.value(i)));
            return d;
        };
        const auto xd = numbers(x, false);
        const auto xa = numbers(x, true);
        const auto dyd = numbers(dy, false);
        const auto dya = numbers(dy, true);
        const auto expect_near = [](const test_tensor<T>& got, const test_tensor<double>& exact,
                                    const test_tensor<double>& sizes, double factor) {
            for (std::int64_t i = 0; i < got.count(); ++i) {
                const double sum_error = factor * gk::accuracy::unit_roundoff * sizes.value(i);
                const double bound =
                    sum_error + gk::accuracy::result_roundoff<T> * (std::fabs(exact.value(i)) + sum_error);
                ASSERT_LE(std::fabs(static_cast<double>(got.value(i)) - exact.value(i)), bound) << i;
            }
        };
        std::vector<std::byte> workspace(std::size_t{1} << 22);
        const gk::call_options options{.workspace = workspace};
        const test_tensor<double> exact(large);
        const test_tensor<double> sizes(large);

        std::vector<std::int64_t> indices(static_cast<std::size_t>(dy.count()));
        const test_tensor<T> y(small);
        ASSERT_TRUE(gk::max_pool<T>(x.const_view(), a, y.view(), {indices.data(), small}, options).ok());
        const test_tensor<T> dx(large);
        ASSERT_TRUE(gk::max_pool_backward<T>(x.const_view(), dy.const_view(), a, dx.view(), options).ok());
        exact.fill([](std::int64_t) { return 0; });
        sizes.fill([](std::int64_t) { return 0; });
        for (std::int64_t i = 0; i < dy.count(); ++i) {
            const std::int64_t at = indices[static_cast<std::size_t>(i)];
            exact.set(at, exact.value(at) + dyd.value(i));
            sizes.set(at, sizes.value(at) + dya.value(i));
        }
        for (std::int64_t c = 0; c < 2; ++c) ASSERT_NE(sizes.value(2 * peak + c), 0.0);
        expect_near(dx, exact, sizes, gk::accuracy::max_pool_backward(small, a));
        ASSERT_TRUE(
            gk::max_pool_backward_from_indices<T>(dy.const_view(), {indices.data(), small}, {}, dx.view(), options)
                .ok());
        expect_near(dx, exact, sizes, gk::accuracy::max_pool_backward_from_indices(windows));

        ASSERT_TRUE(gk::avg_pool_backward<T>(dy.const_view(), mean, dx.view(), options).ok());
        ASSERT_TRUE(gk::ref::avg_pool_backward<double>(dyd.const_view(), mean, exact.view()).ok());
        ASSERT_TRUE(gk::ref::avg_pool_backward<double>(dya.const_view(), mean, sizes.view()).ok());
        expect_near(dx, exact, sizes, gk::accuracy::avg_pool_backward(small, mean));
        const test_tensor<double> exact_mean(small);
        const test_tensor<double> mean_sizes(small);
        ASSERT_TRUE(gk::avg_pool<T>(x.const_view(), mean, y.view(), options).ok());
        ASSERT_TRUE(gk::ref::avg_pool<double>(xd.const_view(), mean, exact_mean.view()).ok());
        ASSERT_TRUE(gk::ref::avg_pool<double>(xa.const_view(), mean, mean_sizes.view()).ok());
        expect_near(y, exact_mean, mean_sizes, gk::accuracy::avg_pool(large, mean));
    }
};

TEST_P(long_pools, stay_near_double_in_f32) { stay_near_double<float>(); }
TEST_P(long_pools, stay_near_double_in_bf16) { stay_near_double<gk::bfloat16>(); }

INSTANTIATE_TEST_SUITE_P(overlapping, long_pools,
                         ::testing::Values(overlapping_pool{true, {1, 2000, 2}, {1500}},
                                           overlapping_pool{false, {1, 2000, 2}, {1500}},
                                           overlapping_pool{true, {1, 60, 50, 2}, {40, 30}},
                                           overlapping_pool{false, {1, 60, 50, 2}, {40, 30}},
                                           overlapping_pool{true, {1, 12, 20, 16, 2}, {8, 15, 12}}));

// Sums of ones: exact while below 2^24, so that any lost or doubled position shows.
TEST(long_sums, count_every_position_once) {
    for (const std::int64_t width : {1, 2, 3, 100, 127, 128, 129, 255, 256, 257, 511, 512, 513, 10'000}) {
        for (const std::int64_t lines : {1, 2, 31, 33, 70, 600}) {
            const std::vector<float> ones(static_cast<std::size_t>(lines * width), 1.0F);
            const gk::extents shape{1, lines, width, 1};
            float sum = 0;
            ASSERT_TRUE(gk::bias_backward(gk::tensor_view<const float>(ones.data(), shape), {},
                                          gk::tensor_view<float>(&sum, {1}))
                            .ok());
            EXPECT_EQ(sum, static_cast<float>(lines * width));
            const gk::convolution_attributes a{.strides = {1, 1}, .dilations = {1, 1}};
            const auto plan = gk::plan_convolution_backward_weights<float>({shape}, {shape}, a, {{1, 1, 1, 1}});
            ASSERT_TRUE(plan);
            std::vector<std::byte> workspace(plan->workspace_bytes());
            ASSERT_TRUE(plan->run(ones.data(), ones.data(), &sum, workspace).ok());
            EXPECT_EQ(sum, static_cast<float>(lines * width));
        }
    }
}

}  // namespace
}  // namespace gradkern_test
