// Long sums: gradients over 1e6 positions stay near those of a double reference, and the published bounds are what the
// order of summation says.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/accuracy.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/convolution.hpp>

#include "support/random.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

static_assert(gk::accuracy::roundings(0) == 0.0);
static_assert(gk::accuracy::gather(1) >= 1.0 && gk::accuracy::gather(1) < 1.001);
static_assert(gk::accuracy::gather(576) >= 576.0 && gk::accuracy::gather(576) < 578.0);
static_assert(gk::accuracy::gather(9 * 512) < 576 + 10, "nine parts, not 4608 terms");
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
static_assert(gk::accuracy::convolution_backward_weights({2, 8, 3, 5}, oix_stride_2) < 30.001);
static_assert(gk::accuracy::bias_backward({2, 8, 3, 5}, {.data_format = gk::data_format::ncx}) < 30.001);

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
