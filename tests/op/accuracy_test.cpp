// Long sums: gradients over 1e6 positions are close to those of a double reference, and the published bounds follow from
// the order of summation.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gradkern/accuracy.hpp>
#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/convolution.hpp>
#include <gradkern/ref/lp_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/conv_cases.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

constexpr double u = 0x1p-24;  // f32's unit roundoff

static_assert(gk::detail::gather_roundings(1) == 1 && gk::detail::gather_roundings(512) == 512);
static_assert(gk::detail::gather_roundings(9 * 512) < 576 + 10, "nine parts, not 4608 terms");
static_assert(gk::detail::gather_roundings(9 * 512) >= 576 + 7, "eight parts of 576 terms are added up");
static_assert(gk::detail::reduction_roundings(1, 0, 5, gk::summation::joint) == 0 &&
              gk::detail::reduction_roundings(1, 1, 5, gk::summation::joint) == 5);
static_assert(gk::detail::reduction_roundings(1, 1000, 1000, gk::summation::joint) <= 256 + 32 + 125,
              "1e6 terms pass through some 410 roundings");
static_assert(gk::detail::reduction_roundings(1 << 20, 1, 1, gk::summation::joint) < 256 + 32 + 128);
static_assert(gk::detail::pool_roundings(0) == 0 && gk::detail::pool_roundings(9) == 8);
static_assert(gk::detail::pool_roundings(512) == 511 && gk::detail::pool_roundings(std::int64_t{1} << 31) == 512);

/// Whether a bound is that of n roundings for terms of size 1, up to a thousandth.
template <class T>
constexpr bool is_about(const gk::result<gk::accuracy::error_bound<T>>& bound, double n) {
    return bound.has_value() && (*bound)(1.0) >= n * u && (*bound)(1.0) <= n * u * 1.001;
}
constexpr gk::data_format ncx = gk::data_format::ncx;
constexpr gk::plan_options adds{.output = gk::output_mode::accumulate};

constexpr gk::convolution_attributes oix_stride_2{
    .strides = {2, 2}, .dilations = {1, 1}, .data_format = ncx, .weights_format = gk::weights_format::oix};
static_assert(is_about(gk::accuracy::convolution<float>({2, 4, 9, 9}, {8, 4, 3, 3}, {}, oix_stride_2), 36));
static_assert(is_about(gk::accuracy::convolution<float>({2, 4, 9, 9}, {8, 4, 3, 3}, gk::extents{8}, oix_stride_2), 37));
static_assert(is_about(gk::accuracy::convolution<float>({2, 4, 9, 9}, {8, 4, 3, 3}, {}, oix_stride_2, {}, adds), 37));
static_assert(is_about(gk::accuracy::convolution_backward_data<float>({2, 8, 4, 4}, {8, 4, 3, 3}, oix_stride_2), 32),
              "2 x 2 taps of a phase");
static_assert(is_about(gk::accuracy::convolution_backward_data<float>({1, 9, 8}, {3, 4, 8},
                                                                      {.strides = {2}, .dilations = {2}}),
                       24),
              "taps two apart, windows two apart: all three overlap");
static_assert(is_about(gk::accuracy::convolution_backward_weights<float>({2, 4, 7, 11}, {2, 8, 3, 5}, oix_stride_2,
                                                                         {8, 4, 3, 3}),
                       30));
static_assert(is_about(gk::accuracy::bias_backward<float>({2, 8, 3, 5}, {.data_format = ncx}), 30));
static_assert(!gk::accuracy::convolution<float>({2, 5, 9, 9}, {8, 4, 3, 3}, {}, oix_stride_2).has_value(),
              "what the operator refuses has no bound");

constexpr gk::max_pool_attributes max_3_2{.kernel = {3, 3}, .strides = {2, 2}, .data_format = ncx};
static_assert((*gk::accuracy::max_pool<float>({1, 1, 9, 9}, max_3_2))(1.0) == 0);
static_assert((*gk::accuracy::max_pool<gk::bfloat16>({1, 1, 9, 9}, max_3_2))(1.0) == 0, "values are exact");
static_assert(is_about(gk::accuracy::max_pool<float>({1, 1, 9, 9}, max_3_2, {}, {}, adds), 1));
static_assert(is_about(gk::accuracy::max_pool_backward<float>({1, 1, 9, 9}, {1, 1, 4, 4}, max_3_2), 3),
              "2 x 2 windows, three additions");
static_assert(is_about(gk::accuracy::max_pool_backward<float>({1, 1, 3, 9}, {1, 1, 1, 4}, max_3_2), 1),
              "no more windows than there are");
constexpr gk::max_pool_indices_attributes to_nine{.data_format = ncx, .diff_src_shape = {1, 1, 9}};
static_assert(is_about(gk::accuracy::max_pool_backward_from_indices<float>({1, 1, 7}, {1, 1, 7}, to_nine), 6));
static_assert(is_about(gk::accuracy::max_pool_backward_from_indices<float>({1, 1, 1 << 19}, {1, 1, 1 << 19}, to_nine),
                       1),
              "planes of very many windows are summed in f64");
constexpr gk::avg_pool_attributes mean_5_2{
    .kernel = {5, 5}, .strides = {2, 2}, .dilations = {1, 1}, .data_format = ncx};
static_assert(is_about(gk::accuracy::avg_pool<float>({1, 1, 9, 9}, mean_5_2), 10),
              "4 + 4 additions, quotient, divisor");
static_assert(is_about(gk::accuracy::avg_pool_backward<float>({1, 1, 3, 3}, mean_5_2, {1, 1, 9, 9}), 6),
              "3 x 3 windows");

// Bounds of the largest and smallest numbers.
constexpr auto mean_f16 = *gk::accuracy::avg_pool<gk::float16>({1, 1, 9, 9}, mean_5_2);
static_assert(mean_f16(0.0) == 0 && mean_f16(0x1p-30) >= 0x1p-25 && mean_f16(0x1p-30) < 0x1.01p-25,
              "half the least subnormal number");
static_assert(mean_f16(1.0) >= 0x1p-11 && mean_f16(1.0, 0.0) < 0x1p-19, "the last rounding is that of the result");
static_assert(mean_f16(65510.0) < 40 && mean_f16(65520.0) > 1e300 && mean_f16(65520.0, 3.0) < 1);
constexpr auto mean_f32 = *gk::accuracy::avg_pool<float>({1, 1, 9, 9}, mean_5_2);
static_assert(mean_f32(0x1p127) > 1e300 && mean_f32(0x1p122) < 0x1p104, "elements are added before they are divided");
static_assert(mean_f32(std::numeric_limits<double>::infinity()) > 1e300);
static_assert(mean_f32(std::numeric_limits<double>::quiet_NaN()) > 1e300);
static_assert((*gk::accuracy::convolution<float>({1, 1, std::int64_t{1} << 40}, {1, std::int64_t{1} << 40, 1}, {},
                                                 {.strides = {1}, .dilations = {1}}))(1.0) > 1e300,
              "too many terms");
constexpr auto of_products = *gk::accuracy::convolution<float>({2, 4, 9, 9}, {8, 4, 3, 3}, {}, oix_stride_2);
static_assert(of_products(0x1p-160) >= 36 * 0x1p-150 && of_products(0x1p-160) < 37 * 0x1p-150, "subnormal products");
static_assert((*gk::accuracy::convolution<gk::bfloat16>({2, 4, 9, 9}, {8, 4, 3, 3}, {}, oix_stride_2, {},
                                                        {.precision = gk::precision::relaxed}))(1.0, 0.0) >= 2 * 36 * u,
              "relaxed sums may be twice as far off");

// 1e6 positions, two channels on each side.
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
    // relative to the sum of absolute terms: a sum that cancels has no relative accuracy
    const auto expect_near = [&](const float* got, const double* exact, const double* sizes, int n, const auto& bound) {
        ASSERT_TRUE(bound);
        for (int i = 0; i < n; ++i) {
            EXPECT_LE(std::fabs(got[i] - exact[i]), 1e-5 * sizes[i]) << i;
            EXPECT_LE(std::fabs(got[i] - exact[i]), (*bound)(sizes[i], exact[i])) << i;
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
    expect_near(dw, exact, sizes, 4, gk::accuracy::convolution_backward_weights<float>(shape, shape, a));

    // k = 1: the transposed convolution's gradient is the same sum with the sides swapped
    gk::conv_transpose_attributes t{.strides = a.strides, .dilations = a.dilations};
    t.diff_weights_shape = a.diff_weights_shape;
    const auto transposed = gk::plan_conv_transpose_backward_weights<float>({shape}, {shape}, t);
    ASSERT_TRUE(transposed);
    workspace.resize(transposed->workspace_bytes());
    ASSERT_TRUE(transposed->run(x.data(), dy.data(), dw, workspace).ok());
    expect_near(dw, exact, sizes, 4, gk::accuracy::conv_transpose_backward_weights<float>(shape, shape, t));

    float db[2];
    ASSERT_TRUE(
        gk::bias_backward(gk::tensor_view<const float>(dy.data(), shape), {}, gk::tensor_view<float>(db, {2})).ok());
    ASSERT_TRUE(gk::ref::bias_backward(gk::tensor_view<const double>(dyd.data(), shape), {},
                                       gk::tensor_view<double>(exact, {2}))
                    .ok());
    ASSERT_TRUE(gk::ref::bias_backward(gk::tensor_view<const double>(dya.data(), shape), {},
                                       gk::tensor_view<double>(sizes, {2}))
                    .ok());
    expect_near(db, exact, sizes, 2, gk::accuracy::bias_backward<float>(shape, {}));
}

INSTANTIATE_TEST_SUITE_P(million_terms, long_gradients,
                         ::testing::Values(long_sum{true, {1, 1'000'000, 2}}, long_sum{false, {1, 1'000'000, 2}},
                                           long_sum{true, {4, 500, 500, 2}}, long_sum{false, {4, 500, 500, 2}},
                                           long_sum{true, {10, 10, 100, 100, 2}}, long_sum{true, {62'500, 16, 2}}));

// --------------------------------------------------------------------------------------------------------------- pools

// One peak per plane, which all windows contain: it receives all their gradients.
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
                                    const test_tensor<double>& sizes, const auto& bound) {
            ASSERT_TRUE(bound);
            for (std::int64_t i = 0; i < got.count(); ++i)
                ASSERT_LE(std::fabs(static_cast<double>(got.value(i)) - exact.value(i)),
                          (*bound)(sizes.value(i), exact.value(i)))
                    << i;
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
        expect_near(dx, exact, sizes, gk::accuracy::max_pool_backward<T>(large, small, a));
        ASSERT_TRUE(
            gk::max_pool_backward_from_indices<T>(dy.const_view(), {indices.data(), small}, {}, dx.view(), options)
                .ok());
        expect_near(dx, exact, sizes, gk::accuracy::max_pool_backward_from_indices<T>(small, small, {}, large));

        ASSERT_TRUE(gk::avg_pool_backward<T>(dy.const_view(), mean, dx.view(), options).ok());
        ASSERT_TRUE(gk::ref::avg_pool_backward<double>(dyd.const_view(), mean, exact.view()).ok());
        ASSERT_TRUE(gk::ref::avg_pool_backward<double>(dya.const_view(), mean, sizes.view()).ok());
        expect_near(dx, exact, sizes, gk::accuracy::avg_pool_backward<T>(small, mean, large));
        const test_tensor<double> exact_mean(small);
        const test_tensor<double> mean_sizes(small);
        ASSERT_TRUE(gk::avg_pool<T>(x.const_view(), mean, y.view(), options).ok());
        ASSERT_TRUE(gk::ref::avg_pool<double>(xd.const_view(), mean, exact_mean.view()).ok());
        ASSERT_TRUE(gk::ref::avg_pool<double>(xa.const_view(), mean, mean_sizes.view()).ok());
        expect_near(y, exact_mean, mean_sizes, gk::accuracy::avg_pool<T>(large, mean));
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

// ------------------------------------------------------------------------------------------------- very long sums

constexpr std::int64_t very_many = 25'000'000;  // more than 2^24, where f32 stops counting

/// Checks a sum of very many ones, then of random numbers: run(terms, sum) computes it.
template <class T, class Run>
void count_and_stay_near(const Run& run, double tolerance = 5e-7) {
    std::vector<T> terms(static_cast<std::size_t>(very_many), T(1.0F));
    const auto nearest = [](double v) { return static_cast<float>(T(static_cast<float>(v))); };
    EXPECT_EQ(run(terms), nearest(double{very_many}));
    random_source random("accuracy.very_long");
    double sum = 0;
    for (T& t : terms) sum += static_cast<double>(static_cast<float>(t = T(random.real(0.5F, 1.0F))));
    const double roundoff = sizeof(T) == 4 ? 0.0 : 0x1p-8;
    EXPECT_LE(std::fabs(static_cast<double>(run(terms)) - sum), (tolerance + roundoff) * sum);
}

template <class Plan>
std::vector<std::byte> workspace_of(const Plan& plan) {
    return std::vector<std::byte>(plan->workspace_bytes());
}

TEST(very_long_sums, of_avg_pool) {
    for (const bool tall : {false, true}) {  // along the last axis, or the one before
        const gk::data_format f = tall ? gk::data_format::nxc : ncx;
        const auto shape = [&](std::int64_t n) {
            gk::extents e{1};
            if (f == ncx) e.push_back(1);
            e.push_back(tall ? n : 1);
            e.push_back(tall ? 1 : n);
            if (f != ncx) e.push_back(1);
            return e;
        };
        const gk::extents line = tall ? gk::extents{very_many, 1} : gk::extents{1, very_many};
        const gk::extents reach = tall ? gk::extents{very_many - 1, 0} : gk::extents{0, very_many - 1};
        gk::avg_pool_attributes a{.kernel = line, .strides = {1, 1}, .data_format = f};
        a.divisor_override = 1;
        count_and_stay_near<float>([&](const std::vector<float>& x) {
            float y = 0;
            const auto plan = gk::plan_avg_pool<float>(shape(very_many), a);
            auto workspace = workspace_of(plan);
            EXPECT_TRUE(plan->run(x.data(), &y, workspace).ok());
            return y;
        });
        a.pads_begin = a.pads_end = reach;  // every window reaches the one pixel
        count_and_stay_near<float>([&](const std::vector<float>& dy) {
            float dx = 0;
            const auto plan = gk::plan_avg_pool_backward<float>(shape(very_many), a, shape(1));
            auto workspace = workspace_of(plan);
            EXPECT_TRUE(plan->run(dy.data(), &dx, workspace).ok());
            return dx;
        });
    }
}

TEST(very_long_sums, of_max_pool_backward) {
    const gk::max_pool_attributes a{
        .kernel = {very_many}, .strides = {1}, .pads_begin = {very_many - 1}, .pads_end = {very_many - 1}};
    count_and_stay_near<float>([&](const std::vector<float>& dy) {
        const float x = 1;
        float dx = 0;
        const auto plan = gk::plan_max_pool_backward<float>({1, 1, 1}, {1, very_many, 1}, a);
        auto workspace = workspace_of(plan);
        EXPECT_TRUE(plan->run(&x, dy.data(), &dx, workspace).ok());
        return dx;
    });
}

/// All indices are equal. `workers`: of an executor.
template <class T>
void all_of_one_place(gk::output_mode mode, gk::index_check check, std::ptrdiff_t workers) {
    constexpr std::int64_t plane = 9000;
    const std::vector<std::int64_t> indices(static_cast<std::size_t>(very_many), 8123);
    count_and_stay_near<T>([&](const std::vector<T>& dy) {
        std::vector<T> dx(static_cast<std::size_t>(plane), T(0.0F));
        const auto plan = gk::plan_max_pool_backward_from_indices<T>(
            {1, very_many, 1}, {1, very_many, 1}, {}, {1, plane, 1}, {.output = mode, .index_check = check});
        EXPECT_TRUE(plan);
        std::vector<std::byte> workspace(plan->workspace_bytes(workers));
        shuffling_executor executor(workers);
        EXPECT_TRUE(plan->run(dy.data(), indices.data(), dx.data(), workspace, executor).ok());
        float rest = 0;
        for (std::size_t i = 0; i < dx.size(); ++i) rest += i == 8123 ? 0 : static_cast<float>(dx[i]);
        EXPECT_EQ(rest, 0);
        return static_cast<float>(dx[8123]);
    });
}

TEST(very_long_sums, of_equal_indices) {
    all_of_one_place<float>(gk::output_mode::overwrite, gk::index_check::first, 1);
    all_of_one_place<float>(gk::output_mode::overwrite, gk::index_check::each, 3);
    all_of_one_place<float>(gk::output_mode::accumulate, gk::index_check::first, 2);
    all_of_one_place<gk::bfloat16>(gk::output_mode::overwrite, gk::index_check::first, 1);
}

TEST(very_long_sums, of_convolutions) {
    constexpr std::int64_t n = very_many;
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    const std::vector<float> ones(static_cast<std::size_t>(n), 1.0F);
    const auto run = [](const auto& plan, const auto&... arguments) {
        auto workspace = workspace_of(plan);
        EXPECT_TRUE(plan->run(arguments..., workspace).ok());
    };
    const auto sum_of = [&](const auto& compute) {
        count_and_stay_near<float>(
            [&](const std::vector<float>& x) {
                float sum = 0;
                compute(x.data(), &sum);
                return sum;
            },
            1e-5);
    };
    sum_of([&](const float* x, float* y) {  // channels
        run(gk::plan_convolution<float>({1, 1, n}, {1, n, 1}, {}, a), x, ones.data(),
            static_cast<const float*>(nullptr), y);
    });
    sum_of([&](const float* x, float* y) {  // taps
        run(gk::plan_convolution<float>({1, n, 1}, {n, 1, 1}, {}, a), x, ones.data(),
            static_cast<const float*>(nullptr), y);
    });
    sum_of([&](const float* x, float* dw) {
        run(gk::plan_convolution_backward_weights<float>({1, n, 1}, {1, n, 1}, a, {1, 1, 1}), x, ones.data(), dw);
    });
    sum_of([&](const float* dy, float* db) { run(gk::plan_bias_backward<float>({1, n, 1}, {}), dy, db); });
}

// ------------------------------------------------------------------------------------------ bounds of every element

/// Numbers as they are used, or near an end of the range of products, or of sums.
enum class numbers { usual, same_sign, tiny, huge };
constexpr std::array all_numbers{numbers::usual, numbers::same_sign, numbers::tiny, numbers::huge};

/// `exponent`: what two to the power of it times the largest number is still in the range of T, times two.
template <class T>
float number(random_source& random, numbers n, bool is_product) {
    constexpr bool is_f16 = gk::element_traits<T>::type == gk::data_type::f16;
    const float v = random.real(-2.0F, 2.0F);
    const float least = is_f16 ? (is_product ? 0x1p-11F : 0x1p-22F) : (is_product ? 0x1p-73F : 0x1p-146F);
    const float most = is_f16 ? (is_product ? 0x1p5F : 0x1p11F) : (is_product ? 0x1p60F : 0x1p122F);
    switch (n) {
        case numbers::same_sign: return std::fabs(v) + 0.1F;
        case numbers::tiny: return v * least;
        case numbers::huge: return v * most;
        default: return v;
    }
}

/// Compares a result, and counts finite bounds.
template <class T>
void expect_within(const test_tensor<T>& got, const test_tensor<double>& exact, const test_tensor<double>& sizes,
                   const gk::result<gk::accuracy::error_bound<T>>& bound, int& finite) {
    ASSERT_TRUE(bound);
    constexpr gk::data_type type = gk::element_traits<T>::type;
    const double least = type == gk::data_type::f16 ? 0x1p-24 : type == gk::data_type::bf16 ? 0x1p-133 : 0x1p-149;
    for (std::int64_t i = 0; i < got.count(); ++i) {
        const double size = std::fabs(sizes.value(i));  // of a negative divisor
        const double blind = (*bound)(size);
        const double most = (*bound)(size, exact.value(i));
        ASSERT_LE(most, blind);
        if (std::isinf(most)) continue;
        ++finite;
        const double error = std::fabs(static_cast<double>(got.value(i)) - exact.value(i));
        ASSERT_LE(error, most) << "element " << i << ": got " << static_cast<double>(got.value(i)) << ", exact "
                               << exact.value(i) << ", size " << size;
        // a result that is off by two bounds, and another rounding, is refused
        const double off = static_cast<double>(got.value(i)) + 3 * blind + least;
        if (blind == 0 || off >= (sizeof(T) == 2 ? 6e4 : 3e38)) continue;
        T wrong{};
        gk::detail::store_element(&wrong, static_cast<float>(off));
        ASSERT_GT(std::fabs(static_cast<double>(gk::detail::load_element(&wrong)) - exact.value(i)), most);
    }
}

template <class T>
class published_bounds : public ::testing::Test {};
using bounded_types = ::testing::Types<float, gk::float16, gk::bfloat16>;
TYPED_TEST_SUITE(published_bounds, bounded_types);

template <class T, class G>
void bound_convolutions(random_source& random, numbers n) {
    const conv_case c = [&] {
        for (;; random.next_case()) {
            const conv_case any = random_conv_case(random, 20'000);
            if (std::is_same_v<T, G> || any.writes_weights()) return any;
        }
    }();
    SCOPED_TRACE(c.text());
    const conv_tensors<T, G> t(random, c, false);
    t.first.fill([&](std::int64_t) { return number<T>(random, n, true); });
    t.second.fill([&](std::int64_t) { return number<T>(random, n, true); });
    t.bias.fill([&](std::int64_t) { return number<T>(random, n, false); });
    t.previous.fill([&](std::int64_t) { return number<G>(random, n, false); });
    test_tensor<G> out(c.result());
    ASSERT_TRUE(t.run(c, out).ok());
    ASSERT_TRUE(within_bound(c, t, out));
}

TYPED_TEST(published_bounds, hold_for_convolutions) {
    random_source random("accuracy.convolutions");
    for (int i = 0; i < 200 && !this->HasFatalFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const numbers n = all_numbers[static_cast<std::size_t>(i) % all_numbers.size()];
        bound_convolutions<TypeParam, TypeParam>(random, n);
        if constexpr (sizeof(TypeParam) == 2) bound_convolutions<TypeParam, float>(random, n);
    }
}

TYPED_TEST(published_bounds, hold_for_pools) {
    using T = TypeParam;
    random_source random("accuracy.small_pools");
    int finite = 0;
    for (int i = 0; i < 300 && !this->HasFatalFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const numbers n = all_numbers[static_cast<std::size_t>(i) % all_numbers.size()];
        const auto format = random.pick({gk::data_format::nxc, ncx});
        const std::int64_t channels = random.pick<std::int64_t>({1, 3, 17});
        gk::max_pool_attributes a{.data_format = format};
        const std::int64_t rank = random.integer(1, 3);
        gk::extents large{2};
        if (format == ncx) large.push_back(channels);
        for (std::int64_t axis = 0; axis < rank; ++axis) {
            const std::int64_t size = rank == 1 && random.chance(1, 4) ? 700 : random.integer(1, rank == 1 ? 60 : 9);
            const std::int64_t kernel = size == 700 ? 600 : random.integer(1, size);
            large.push_back(size);
            a.kernel.push_back(kernel);
            a.strides.push_back(random.integer(1, 3));
            a.pads_begin.push_back(random.integer(0, kernel / 2));
            a.pads_end.push_back(random.integer(0, kernel / 2));
        }
        if (format != ncx) large.push_back(channels);
        gk::avg_pool_attributes mean{.kernel = a.kernel,
                                     .strides = a.strides,
                                     .pads_begin = a.pads_begin,
                                     .pads_end = a.pads_end,
                                     .exclude_pad = random.chance(1, 2),
                                     .data_format = format};
        if (random.chance(1, 5)) mean.divisor_override = random.pick<std::int64_t>({-3, 2, 16'777'217});
        const gk::extents small = *gk::infer_max_pool(large, a);
        const gk::plan_options plan{.output = random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate})};
        std::vector<std::byte> workspace(std::size_t{1} << 20);
        const gk::call_options options{.plan = plan, .workspace = workspace};

        const test_tensor<T> x(large);
        const test_tensor<T> dy(small);
        x.fill([&](std::int64_t) { return number<T>(random, n, false); });
        dy.fill([&](std::int64_t) { return number<T>(random, n, false); });
        const test_tensor<T> y(small);
        const test_tensor<T> dx(large);
        const test_tensor<double> sums[2][2] = {{test_tensor<double>(small), test_tensor<double>(small)},
                                                {test_tensor<double>(large), test_tensor<double>(large)}};
        const auto start = [&](const test_tensor<T>& out, std::size_t side) {  // previous values
            out.fill([&](std::int64_t) { return number<T>(random, n, false); });
            for (const bool absolute : {false, true})
                sums[side][absolute ? 1 : 0].fill([&](std::int64_t k) {
                    const double v = plan.output == gk::output_mode::accumulate ? double{out.value(k)} : 0.0;
                    return absolute ? std::fabs(v) : v;
                });
        };
        const auto add = [&](std::size_t side, std::int64_t k, double term) {
            sums[side][0].set(k, sums[side][0].value(k) + term);
            sums[side][1].set(k, sums[side][1].value(k) + std::fabs(term));
        };

        start(y, 0);
        ASSERT_TRUE(gk::avg_pool<T>(x.const_view(), mean, y.view(), options).ok());
        const auto means = [&](bool absolute) {
            test_tensor<double> out(small);
            const auto in = in_double(x, absolute);
            EXPECT_TRUE(gk::ref::avg_pool<double>(in.const_view(), mean, out.view()).ok());
            return out;
        };
        const test_tensor<double> exact_means = means(false);
        const test_tensor<double> mean_sizes = means(true);
        for (std::int64_t k = 0; k < y.count(); ++k) {
            sums[0][0].set(k, sums[0][0].value(k) + exact_means.value(k));
            sums[0][1].set(k, sums[0][1].value(k) + std::fabs(mean_sizes.value(k)));
        }
        expect_within<T>(y, sums[0][0], sums[0][1], gk::accuracy::avg_pool<T>(large, mean, small, plan), finite);

        start(dx, 1);
        ASSERT_TRUE(gk::avg_pool_backward<T>(dy.const_view(), mean, dx.view(), options).ok());
        const auto gradients = [&](bool absolute) {
            test_tensor<double> out(large);
            const auto in = in_double(dy, absolute);
            EXPECT_TRUE(gk::ref::avg_pool_backward<double>(in.const_view(), mean, out.view()).ok());
            return out;
        };
        const test_tensor<double> exact_gradients = gradients(false);
        const test_tensor<double> gradient_sizes = gradients(true);
        for (std::int64_t k = 0; k < dx.count(); ++k) {
            sums[1][0].set(k, sums[1][0].value(k) + exact_gradients.value(k));
            sums[1][1].set(k, sums[1][1].value(k) + std::fabs(gradient_sizes.value(k)));
        }
        expect_within<T>(dx, sums[1][0], sums[1][1], gk::accuracy::avg_pool_backward<T>(small, mean, large, plan),
                         finite);

        const gk::lp_pool_attributes norm{.kernel = a.kernel,
                                          .strides = a.strides,
                                          .pads_begin = a.pads_begin,
                                          .pads_end = a.pads_end,
                                          .data_format = format};
        const test_tensor<double> norms(small);
        const auto in = in_double(x, false);
        ASSERT_TRUE(gk::ref::lp_pool<double>(in.const_view(), norm, norms.view()).ok());
        start(y, 0);
        ASSERT_TRUE(gk::lp_pool<T>(x.const_view(), norm, y.view(), options).ok());
        for (std::int64_t k = 0; k < y.count(); ++k) add(0, k, norms.value(k));
        expect_within<T>(y, sums[0][0], sums[0][1], gk::accuracy::lp_pool<T>(large, norm, small, plan), finite);

        const test_tensor<T> rounded_norms(small);
        ASSERT_TRUE(gk::lp_pool<T>(x.const_view(), norm, rounded_norms.view()).ok());
        const auto norms_are_finite = [&] {
            for (std::int64_t k = 0; k < rounded_norms.count(); ++k)
                if (!std::isfinite(rounded_norms.value(k))) return false;
            return true;
        };
        if (norms_are_finite()) {  // bounds hold for finite inputs
            start(dx, 1);
            ASSERT_TRUE(gk::lp_pool_backward<T>(x.const_view(), rounded_norms.const_view(), dy.const_view(), norm,
                                                dx.view(), options)
                            .ok());
            const auto shares = [&](bool absolute) {
                // terms are diff_dst * (src / dst): a quotient below 2^-126 counts as that
                test_tensor<double> out(large);
                const auto numerators = in_double(x, absolute);
                const auto gradient = in_double(dy, absolute);
                const auto divisors = in_double(rounded_norms, absolute);
                EXPECT_TRUE(gk::ref::lp_pool_backward<double>(numerators.const_view(), divisors.const_view(),
                                                              gradient.const_view(), norm, out.view())
                                .ok());
                return out;
            };
            const test_tensor<double> exact_shares = shares(false);
            const test_tensor<double> share_sizes = shares(true);
            for (std::int64_t k = 0; k < dx.count(); ++k) {
                sums[1][0].set(k, sums[1][0].value(k) + exact_shares.value(k));
                sums[1][1].set(k, sums[1][1].value(k) + share_sizes.value(k));
            }
            expect_within<T>(dx, sums[1][0], sums[1][1],
                             gk::accuracy::lp_pool_backward<T>(large, small, small, norm, {}, plan), finite);
        }

        const test_tensor<T> best(small);
        std::vector<std::int64_t> indices(static_cast<std::size_t>(y.count()));
        ASSERT_TRUE(gk::ref::max_pool<T>(x.const_view(), a, best.view(), {indices.data(), small}).ok());
        start(y, 0);
        ASSERT_TRUE(gk::max_pool<T>(x.const_view(), a, y.view(), {}, options).ok());
        for (std::int64_t k = 0; k < y.count(); ++k) add(0, k, double{best.value(k)});
        expect_within<T>(y, sums[0][0], sums[0][1], gk::accuracy::max_pool<T>(large, a, small, {}, plan), finite);

        const auto scatter = [&] {
            start(dx, 1);
            for (std::int64_t k = 0; k < dy.count(); ++k)
                add(1, indices[static_cast<std::size_t>(k)], double{dy.value(k)});
        };
        scatter();
        ASSERT_TRUE(gk::max_pool_backward<T>(x.const_view(), dy.const_view(), a, dx.view(), options).ok());
        expect_within<T>(dx, sums[1][0], sums[1][1], gk::accuracy::max_pool_backward<T>(large, small, a, large, plan),
                         finite);
        scatter();
        const gk::max_pool_indices_attributes from{.data_format = format};
        ASSERT_TRUE(
            gk::max_pool_backward_from_indices<T>(dy.const_view(), {indices.data(), small}, from, dx.view(), options)
                .ok());
        expect_within<T>(dx, sums[1][0], sums[1][1],
                         gk::accuracy::max_pool_backward_from_indices<T>(small, small, from, large, plan), finite);
    }
    EXPECT_GT(finite, 100'000);
}

TYPED_TEST(published_bounds, hold_for_biases) {
    using T = TypeParam;
    random_source random("accuracy.biases");
    int finite = 0;
    const auto check = [&]<class G>(G, numbers n) {
        const auto format = random.pick({gk::data_format::nxc, ncx});
        const std::int64_t channels = random.integer(1, 20);
        gk::extents shape{random.integer(1, 3)};
        if (format == ncx) shape.push_back(channels);
        shape.push_back(random.integer(1, 40));
        shape.push_back(random.integer(1, 40));
        if (format != ncx) shape.push_back(channels);
        const gk::plan_options plan{.output = random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate})};
        const gk::bias_attributes a{.data_format = format};
        const test_tensor<T> dy(shape);
        dy.fill([&](std::int64_t) { return number<T>(random, n, false); });
        const test_tensor<G> out({channels});
        out.fill([&](std::int64_t) { return number<G>(random, n, false); });
        const test_tensor<double> sums[2] = {test_tensor<double>({channels}), test_tensor<double>({channels})};
        for (const bool absolute : {false, true}) {
            const auto in = in_double(dy, absolute);
            const auto& sum = sums[absolute ? 1 : 0];
            sum.fill([&](std::int64_t k) { return absolute ? std::fabs(double{out.value(k)}) : double{out.value(k)}; });
            ASSERT_TRUE(gk::ref::bias_backward(in.const_view(), a, sum.view(), {.plan = plan}).ok());
        }
        std::vector<std::byte> workspace(std::size_t{1} << 18);
        ASSERT_TRUE(gk::bias_backward(dy.const_view(), a, out.view(), {.plan = plan, .workspace = workspace}).ok());
        expect_within<G>(out, sums[0], sums[1],
                         gk::accuracy::bias_backward<T, G>(shape, a, gk::extents{channels}, plan), finite);
    };
    for (int i = 0; i < 200 && !this->HasFatalFailure(); ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const numbers n = all_numbers[static_cast<std::size_t>(i) % all_numbers.size()];
        check(T{}, n);
        if constexpr (sizeof(T) == 2) check(float{}, n);
    }
    EXPECT_GT(finite, 1000);
}

// A one, and then numbers that are lost one by one: errors come close to the published bound.
TEST(published_bounds_of_f32, are_not_loose) {
    const float lost = std::nextafter(0x1p-24F, 0.0F);
    const auto expect_ok = [](const gk::status& status) { EXPECT_TRUE(status.ok()); };
    const auto terms = [&](std::int64_t n) {
        std::vector<float> v(static_cast<std::size_t>(n), lost);
        v[0] = 1;
        return v;
    };
    const auto expect_close = [&](double got, std::int64_t n, const gk::result<gk::accuracy::error_bound<float>>& bound,
                                  double divisor = 1) {
        ASSERT_TRUE(bound);
        const double exact = (1 + static_cast<double>(n - 1) * double{lost}) / divisor;
        const double error = std::fabs(got - exact);
        EXPECT_LE(error, (*bound)(exact));
        EXPECT_GE(error, 0.9 * (*bound)(exact));
    };
    std::vector<std::byte> workspace(std::size_t{1} << 20);
    const gk::call_options options{.workspace = workspace};
    const std::vector<float> ones(600, 1.0F);
    float r = 0;
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    const auto v500 = terms(500);
    const auto v256 = terms(256);
    expect_ok(gk::convolution<float>({v500.data(), {1, 500, 1}}, {ones.data(), {500, 1, 1}}, {}, a, {&r, {1, 1, 1}},
                                     options));
    expect_close(r, 500, gk::accuracy::convolution<float>({1, 500, 1}, {500, 1, 1}, {}, a));
    expect_ok(gk::convolution_backward_data<float>({v500.data(), {1, 1, 500}}, {ones.data(), {1, 1, 500}}, a,
                                                   {&r, {1, 1, 1}}, options));
    expect_close(r, 500, gk::accuracy::convolution_backward_data<float>({1, 1, 500}, {1, 1, 500}, a, {1, 1, 1}));
    expect_ok(gk::convolution_backward_weights(gk::tensor_view<const float>(v256.data(), {1, 256, 1}),
                                               {ones.data(), {1, 256, 1}}, a, gk::tensor_view<float>(&r, {1, 1, 1}), {},
                                               options));
    expect_close(r, 256, gk::accuracy::convolution_backward_weights<float>({1, 256, 1}, {1, 256, 1}, a, {1, 1, 1}));
    expect_ok(gk::bias_backward(gk::tensor_view<const float>(v256.data(), {1, 256, 1}), {},
                                gk::tensor_view<float>(&r, {1}), options));
    expect_close(r, 256, gk::accuracy::bias_backward<float>({1, 256, 1}, {}));
    const gk::avg_pool_attributes mean{.kernel = {500}, .strides = {1}, .pads_begin = {499}, .pads_end = {499}};
    const gk::avg_pool_attributes global{.kernel = {500}, .strides = {1}};
    expect_ok(gk::avg_pool<float>({v500.data(), {1, 500, 1}}, global, {&r, {1, 1, 1}}, options));
    expect_close(r, 500, gk::accuracy::avg_pool<float>({1, 500, 1}, global), 500);
    const gk::max_pool_attributes peak{.kernel = {500}, .strides = {1}, .pads_begin = {499}, .pads_end = {499}};
    const float one = 1;
    expect_ok(
        gk::max_pool_backward<float>({&one, {1, 1, 1}}, {v500.data(), {1, 500, 1}}, peak, {&r, {1, 1, 1}}, options));
    expect_close(r, 500, gk::accuracy::max_pool_backward<float>({1, 1, 1}, {1, 500, 1}, peak));
    gk::avg_pool_attributes sum = mean;
    sum.divisor_override = 1;
    expect_ok(gk::avg_pool_backward<float>({v500.data(), {1, 500, 1}}, sum, {&r, {1, 1, 1}}, options));
    expect_close(r, 500, gk::accuracy::avg_pool_backward<float>({1, 500, 1}, sum, {1, 1, 1}));
    const std::vector<std::int64_t> indices(500, 0);
    expect_ok(gk::max_pool_backward_from_indices<float>({v500.data(), {1, 500, 1}}, {indices.data(), {1, 500, 1}}, {},
                                                        {&r, {1, 1, 1}}, options));
    expect_close(r, 500, gk::accuracy::max_pool_backward_from_indices<float>({1, 500, 1}, {1, 500, 1}, {}, {1, 1, 1}));
}

}  // namespace
}  // namespace gradkern_test
