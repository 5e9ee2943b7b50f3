// Average pooling by the specification: worked examples with their numbers, divisors, and every error with its contents.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>

#include "support/tensor.hpp"

namespace {

using gradkern::auto_pad;
using gradkern::avg_pool_attributes;
using gradkern::bfloat16;
using gradkern::data_format;
using gradkern::errc;
using gradkern::error;
using gradkern::expectation;
using gradkern::extents;
using gradkern::float16;
using gradkern::rounding_type;
using gradkern_test::test_tensor;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

/// A 1-D example with one image and one channel.
struct example {
    std::int64_t large;
    avg_pool_attributes attributes;
    std::vector<float> diff_dst;
    std::vector<float> expected;
};

/// `rank` axes of which the last is the example's and the others are of size 1.
extents with_leading(std::size_t rank, std::int64_t value, std::int64_t leading) {
    extents e = extents::filled(rank, leading);
    e[rank - 1] = value;
    return e;
}

avg_pool_attributes attributes_of(const avg_pool_attributes& line, std::size_t rank, data_format f) {
    avg_pool_attributes a = line;
    a.data_format = f;
    a.kernel = with_leading(rank, line.kernel[0], 1);
    a.strides = with_leading(rank, line.strides[0], 1);
    if (!line.pads_begin.empty()) a.pads_begin = with_leading(rank, line.pads_begin[0], 0);
    if (!line.pads_end.empty()) a.pads_end = with_leading(rank, line.pads_end[0], 0);
    if (!line.dilations.empty()) a.dilations = with_leading(rank, line.dilations[0], 1);
    return a;
}

/// (1, 1, ..., size), which is the same shape in both formats except for the axis of the channels.
extents shape_of(std::size_t rank, std::int64_t size, data_format f) {
    extents e = extents::filled(rank + 2, 1);
    e[f == data_format::ncx ? rank + 1 : rank] = size;
    return e;
}

/// Runs an example in every rank and format, by operator and reference.
template <class T>
void check(const example& x) {
    for (const std::size_t rank : {1U, 2U, 3U}) {
        for (const data_format f : {data_format::ncx, data_format::nxc}) {
            SCOPED_TRACE("rank " + std::to_string(rank) + (f == data_format::ncx ? " NCX" : " NXC"));
            avg_pool_attributes a = attributes_of(x.attributes, rank, f);
            const test_tensor<T> dy(shape_of(rank, static_cast<std::int64_t>(x.diff_dst.size()), f));
            dy.fill([&](std::int64_t i) { return x.diff_dst[static_cast<std::size_t>(i)]; });
            test_tensor<T> dx(shape_of(rank, x.large, f));
            test_tensor<T> plain(shape_of(rank, x.large, f));
            a.diff_src_shape = extents{9, 9, 9};  // the shape of the output tensor takes precedence
            ASSERT_TRUE(gradkern::avg_pool_backward(dy.const_view(), a, dx.view()).ok());
            ASSERT_TRUE(gradkern::ref::avg_pool_backward(dy.const_view(), a, plain.view()).ok());
            ASSERT_EQ(static_cast<std::size_t>(dx.count()), x.expected.size());
            for (std::int64_t i = 0; i < dx.count(); ++i) {
                const float want = x.expected[static_cast<std::size_t>(i)];
                const float tolerance = sizeof(T) == 2 ? 4e-3F * std::fabs(want) : 3e-7F * std::fabs(want);
                for (const float got : {dx.value(i), plain.value(i)}) {
                    if (std::isfinite(want)) {
                        EXPECT_NEAR(got, want, tolerance) << "position " << i;
                    } else {
                        EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << "position " << i << " " << got;
                    }
                }
            }
            EXPECT_TRUE(dx.equals(plain));
        }
    }
}
void check_all_types(const example& x) {
    check<float>(x);
    check<float16>(x);
    check<bfloat16>(x);
}

avg_pool_attributes line(std::int64_t k, std::int64_t s, std::int64_t begin, std::int64_t end, bool exclude,
                         rounding_type r = rounding_type::floor, auto_pad mode = auto_pad::none) {
    return {.kernel = {k},
            .strides = {s},
            .pads_begin = {begin},
            .pads_end = {end},
            .exclude_pad = exclude,
            .auto_pad = mode,
            .rounding_type = r};
}

TEST(AvgPoolSpec, padding_included) {  // 1
    check_all_types({6, line(3, 2, 1, 0, false), {1, 2, 3}, {1.0F / 3, 1, 2.0F / 3, 5.0F / 3, 1, 1}});
}
TEST(AvgPoolSpec, padding_excluded) {  // 2
    check_all_types({6, line(3, 2, 1, 0, true), {1, 2, 3}, {0.5F, 7.0F / 6, 2.0F / 3, 5.0F / 3, 1, 1}});
}
TEST(AvgPoolSpec, same_lower) {  // 3
    check_all_types({5,
                     line(2, 1, 0, 0, true, rounding_type::floor, auto_pad::same_lower),
                     {1, 2, 3, 4, 5},
                     {2, 2.5F, 3.5F, 4.5F, 2.5F}});
}
TEST(AvgPoolSpec, same_upper) {  // 4
    check_all_types({5,
                     line(2, 1, 0, 0, true, rounding_type::floor, auto_pad::same_upper),
                     {1, 2, 3, 4, 5},
                     {0.5F, 1.5F, 2.5F, 3.5F, 7}});
}
TEST(AvgPoolSpec, valid_ignores_pads) {  // 5
    check_all_types({6,
                     line(2, 2, 1, 1, false, rounding_type::floor, auto_pad::valid),
                     {1, 1, 1},
                     {0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F}});
}
TEST(AvgPoolSpec, same_upper_with_a_stride_above_the_kernel) {  // 6
    check_all_types(
        {7, line(1, 4, 0, 0, false, rounding_type::floor, auto_pad::same_upper), {5, 9}, {5, 0, 0, 0, 9, 0, 0}});
}
TEST(AvgPoolSpec, empty_windows_contribute_nothing) {  // 7
    check_all_types({3, line(2, 1, 2, 2, true), {1, 2, 3, 4, 5, 6}, {3.5F, 3.5F, 7}});
}

/// Calls operator, plan and reference; all must report the same error, and no byte of the output may change.
void expect_error(const extents& diff_dst, const avg_pool_attributes& a, const extents& diff_src, const error& want) {
    const std::vector<float> dy(64);
    std::vector<float> dx(64, 7.0F);
    const gradkern::tensor_view<const float> in(dy.data(), diff_dst);
    const gradkern::tensor_view<float> out(dx.data(), diff_src);
    EXPECT_EQ(gradkern::avg_pool_backward(in, a, out).error(), want);
    EXPECT_EQ(gradkern::ref::avg_pool_backward(in, a, out).error(), want);
    EXPECT_EQ(gradkern::plan_avg_pool_backward<float>(diff_dst, a, diff_src).error(), want);
    EXPECT_EQ(dx, std::vector<float>(64, 7.0F));
}
void expect_forward_error(const extents& src, const avg_pool_attributes& a, const extents& dst, const error& want) {
    const std::vector<float> x(64);
    std::vector<float> y(64, 7.0F);
    const gradkern::tensor_view<const float> in(x.data(), src);
    const gradkern::tensor_view<float> out(y.data(), dst);
    EXPECT_EQ(gradkern::avg_pool(in, a, out).error(), want);
    EXPECT_EQ(gradkern::ref::avg_pool(in, a, out).error(), want);
    EXPECT_EQ(gradkern::plan_avg_pool<float>(src, a, dst).error(), want);
    EXPECT_EQ(y, std::vector<float>(64, 7.0F));
}
constexpr error backward_error(errc code, std::string_view argument, int axis, std::int64_t got, std::int64_t expected,
                               expectation relation = expectation::equal) {
    return {code, "avg_pool_backward", argument, axis, got, expected, relation};
}
constexpr error forward_error(errc code, std::string_view argument, int axis, std::int64_t got, std::int64_t expected,
                              expectation relation = expectation::equal) {
    return {code, "avg_pool", argument, axis, got, expected, relation};
}
avg_pool_attributes first_example() {
    avg_pool_attributes a = line(3, 2, 1, 0, false);
    a.data_format = data_format::ncx;
    return a;
}

TEST(AvgPoolSpec, a_gradient_of_another_size_is_refused) {  // 8
    expect_error({1, 1, 4}, first_example(), {1, 1, 6}, backward_error(errc::invalid_shape, "diff_dst", 2, 4, 3));
}
TEST(AvgPoolSpec, no_shape_anywhere) {  // 9
    expect_error({1, 1, 3}, first_example(), {},
                 backward_error(errc::missing_shape, "diff_src", -1, 0, 0, expectation::none));
    EXPECT_EQ(gradkern::infer_avg_pool_backward({1, 1, 3}, first_example()).error().code, errc::missing_shape);
}
TEST(AvgPoolSpec, the_shape_given_as_input_wins) {  // 10
    avg_pool_attributes a = first_example();
    a.diff_src_shape = {9, 9, 9};
    EXPECT_EQ(*gradkern::infer_avg_pool_backward({1, 1, 3}, a, {1, 1, 6}), (extents{1, 1, 6}));
    a.diff_src_shape = {1, 1, 6};
    EXPECT_EQ(*gradkern::infer_avg_pool_backward({1, 1, 3}, a), (extents{1, 1, 6}));
    const std::vector<float> dy{1, 2, 3};
    std::vector<float> dx(6);
    const auto plan = gradkern::plan_avg_pool_backward<float>({1, 1, 3}, a);
    ASSERT_TRUE(plan.has_value());
    std::vector<std::byte> workspace(plan->workspace_bytes());
    ASSERT_TRUE(plan->run(dy.data(), dx.data(), workspace).ok());
    EXPECT_EQ(dx, (std::vector<float>{1.0F / 3, 1.0F / 3 + 2.0F / 3, 2.0F / 3, 2.0F / 3 + 1, 1, 1}));
}
TEST(AvgPoolSpec, channels_last_in_two_dimensions) {  // 11
    const avg_pool_attributes a{.kernel = {2, 2}, .strides = {2, 2}};
    const std::vector<float> dy{4, 8, 12};
    std::vector<float> dx(12, nan);
    ASSERT_TRUE(gradkern::avg_pool_backward<float>({dy.data(), {1, 1, 1, 3}}, a, {dx.data(), {1, 2, 2, 3}}).ok());
    EXPECT_EQ(dx, (std::vector<float>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
}
TEST(AvgPoolSpec, ceil_with_a_last_window_that_overhangs) {  // 12
    check_all_types({6, line(3, 2, 1, 1, false, rounding_type::ceil), {6, 6, 6, 6}, {2, 4, 2, 4, 2, 5}});
    check_all_types({6, line(3, 2, 1, 1, true, rounding_type::ceil), {6, 6, 6, 6}, {3, 5, 2, 4, 2, 8}});
}
TEST(AvgPoolSpec, sizes_of_the_three_roundings) {  // 13
    for (const auto& [r, size] : {std::pair{rounding_type::floor, 2}, std::pair{rounding_type::ceil, 3},
                                  std::pair{rounding_type::ceil_torch, 2}}) {
        avg_pool_attributes a = line(2, 3, 1, 1, true, r);
        a.data_format = data_format::ncx;
        EXPECT_EQ(*gradkern::infer_avg_pool({1, 1, 5}, a), (extents{1, 1, size}));
    }
}
TEST(AvgPoolSpec, ceil_with_a_window_in_the_end_padding) {  // 14
    check_all_types({5, line(2, 3, 1, 1, true, rounding_type::ceil), {2, 2, 2}, {2, 0, 1, 1, 0}});
}
TEST(AvgPoolSpec, windows_overlap_in_three_dimensions) {  // 15
    for (const data_format f : {data_format::ncx, data_format::nxc}) {
        const avg_pool_attributes a{.kernel = {2, 2, 2}, .strides = {1, 1, 1}, .data_format = f};
        const std::vector<float> dy(8, 8.0F);
        std::vector<float> dx(27, nan);
        const extents small = f == data_format::ncx ? extents{1, 1, 2, 2, 2} : extents{1, 2, 2, 2, 1};
        const extents large = f == data_format::ncx ? extents{1, 1, 3, 3, 3} : extents{1, 3, 3, 3, 1};
        ASSERT_TRUE(gradkern::avg_pool_backward<float>({dy.data(), small}, a, {dx.data(), large}).ok());
        for (std::size_t i = 0; i < 27; ++i) {
            const int middles = (i / 9 == 1) + (i / 3 % 3 == 1) + (i % 3 == 1);
            EXPECT_EQ(dx[i], static_cast<float>(1 << middles));
        }
    }
}
TEST(AvgPoolSpec, attributes_out_of_range) {  // 16
    avg_pool_attributes a = first_example();
    a.strides = {0};
    expect_error({1, 1, 3}, a, {1, 1, 6},
                 backward_error(errc::invalid_argument, "strides", 0, 0, 1, expectation::at_least));
    a = first_example();
    a.pads_begin = {-1};
    expect_error({1, 1, 3}, a, {1, 1, 6},
                 backward_error(errc::invalid_argument, "pads_begin", 0, -1, 0, expectation::at_least));
    a = first_example();
    a.kernel = {0};
    expect_error({1, 1, 3}, a, {1, 1, 6},
                 backward_error(errc::invalid_argument, "kernel", 0, 0, 1, expectation::at_least));
    a = first_example();
    a.strides = {1, 1};
    expect_error({1, 1, 3}, a, {1, 1, 6}, backward_error(errc::invalid_argument, "strides", -1, 2, 1));
}
TEST(AvgPoolSpec, no_images) {  // 17
    EXPECT_TRUE(gradkern::avg_pool_backward<float>({nullptr, {0, 1, 3}}, first_example(), {nullptr, {0, 1, 6}}).ok());
    EXPECT_TRUE(gradkern::avg_pool<float>({nullptr, {0, 1, 6}}, first_example(), {nullptr, {0, 1, 3}}).ok());
    EXPECT_TRUE(
        gradkern::ref::avg_pool_backward<float>({nullptr, {0, 1, 3}}, first_example(), {nullptr, {0, 1, 6}}).ok());
}
template <class T>
float largest_of_many_ones() {
    avg_pool_attributes a = line(3000, 1, 0, 0, false);
    a.divisor_override = 1;
    a.data_format = data_format::ncx;
    const test_tensor<T> dy({1, 1, 1001});
    dy.fill([](std::int64_t) { return 1.0F; });
    const test_tensor<T> dx({1, 1, 4000});
    std::vector<std::byte> workspace(1U << 20);
    EXPECT_TRUE(gradkern::avg_pool_backward(dy.const_view(), a, dx.view(), {.workspace = workspace}).ok());
    float largest = 0;
    for (std::int64_t i = 0; i < dx.count(); ++i) largest = std::max(largest, dx.value(i));
    return largest;
}
TEST(AvgPoolSpec, sums_of_16_bit_types_are_kept_in_f32) {  // 18
    EXPECT_EQ(largest_of_many_ones<bfloat16>(), 1000.0F);
    EXPECT_EQ(largest_of_many_ones<float16>(), 1001.0F);
}
TEST(AvgPoolSpec, one_rounding_to_f16) {  // 19
    avg_pool_attributes a = line(3, 1, 0, 0, false);
    a.data_format = data_format::ncx;
    const test_tensor<float16> dy({1, 1, 4});
    dy.fill([](std::int64_t) { return 1.0F; });
    const test_tensor<float16> dx({1, 1, 6});
    ASSERT_TRUE(gradkern::avg_pool_backward(dy.const_view(), a, dx.view()).ok());
    const std::vector<float> expected{.333251953125F, .66650390625F, 1, 1, .66650390625F, .333251953125F};
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(dx.value(i), expected[static_cast<std::size_t>(i)]);
}
TEST(AvgPoolSpec, non_finite_gradients) {  // 20
    check_all_types({3, line(2, 1, 0, 0, false), {nan, 1}, {nan, nan, 0.5F}});
    check_all_types({3, line(2, 1, 0, 0, false), {inf, -inf}, {inf, nan, -inf}});
}

TEST(AvgPoolSpec, divisor_override_replaces_every_divisor) {
    avg_pool_attributes a = line(3, 2, 1, 0, true);
    a.divisor_override = -2;
    check_all_types({6, a, {1, 2, 3}, {-0.5F, -1.5F, -1, -2.5F, -1.5F, -1.5F}});
}
TEST(AvgPoolSpec, an_empty_window_has_the_mean_zero) {
    for (const std::optional<std::int64_t> divisor : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{-3}}) {
        for (const bool exclude : {true, false}) {
            avg_pool_attributes a = line(2, 1, 2, 2, exclude);
            a.divisor_override = divisor;
            a.data_format = data_format::ncx;
            const std::vector<float> x{1, 2, 3};
            std::vector<float> y(6, nan);
            ASSERT_TRUE(gradkern::avg_pool<float>({x.data(), {1, 1, 3}}, a, {y.data(), {1, 1, 6}}).ok());
            EXPECT_EQ(y[0], 0.0F);
            EXPECT_FALSE(std::signbit(y[0]));
            EXPECT_EQ(y[5], 0.0F);
            EXPECT_FALSE(std::signbit(y[5]));
            EXPECT_EQ(y[2], 3.0F / (divisor ? -3.0F : 2.0F));
        }
    }
}

/// The order of the checks: every request below also makes the mistakes of the later ones.
TEST(AvgPoolSpec, errors_in_order) {
    constexpr std::int64_t big = std::int64_t{1} << 31;
    avg_pool_attributes a = first_example();
    a.kernel = {3, 3};
    a.strides = {0, 0};
    a.pads_begin = {-1, -1};
    a.pads_end = {-1, 0, 0};
    a.dilations = {0};
    a.auto_pad = static_cast<auto_pad>(9);
    a.divisor_override = 0;
    const auto fails = [&](const extents& dy, const extents& dx, errc code, std::string_view argument, int axis,
                           std::int64_t got, std::int64_t expected, expectation relation = expectation::equal) {
        SCOPED_TRACE(std::string(argument));
        expect_error(dy, a, dx, backward_error(code, argument, axis, got, expected, relation));
    };
    fails({1, 1}, {1, 1, 6}, errc::unsupported, "diff_dst", -1, 2, 3, expectation::at_least);
    fails({1, 1, 1, 1, 1, 1}, {1, 1, 6}, errc::unsupported, "diff_dst", -1, 6, 5, expectation::at_most);
    a.auto_pad = auto_pad::none;
    fails({1, 1, 3}, {}, errc::invalid_argument, "kernel", -1, 2, 1);
    a.kernel = {3};
    fails({1, 1, 3}, {}, errc::invalid_argument, "strides", -1, 2, 1);
    a.strides = {0};
    fails({1, 1, 3}, {}, errc::invalid_argument, "pads_begin", -1, 2, 1);
    a.pads_begin = {-1};
    fails({1, 1, 3}, {}, errc::invalid_argument, "pads_end", -1, 3, 1);
    a.pads_end = {-2};
    a.auto_pad = static_cast<auto_pad>(9);
    fails({1, 1, 3}, {}, errc::invalid_argument, "auto_pad", -1, 9, 3, expectation::at_most);
    a.auto_pad = auto_pad::valid;
    a.rounding_type = static_cast<rounding_type>(7);
    fails({1, 1, 3}, {}, errc::invalid_argument, "rounding_type", -1, 7, 2, expectation::at_most);
    a.rounding_type = rounding_type::floor;
    fails({1, 1, 3}, {}, errc::invalid_argument, "strides", 0, 0, 1, expectation::at_least);
    a.strides = {2};
    fails({1, 1, 3}, {}, errc::invalid_argument, "dilations", 0, 0, 1, expectation::at_least);
    a.dilations = {};
    fails({1, 1, 3}, {}, errc::invalid_argument, "pads_begin", 0, -1, 0, expectation::at_least);
    a.pads_begin = {1};
    fails({1, 1, 3}, {}, errc::invalid_argument, "pads_end", 0, -2, 0, expectation::at_least);
    a.pads_end = {0};
    fails({1, 1, 3}, {}, errc::invalid_argument, "divisor_override", -1, 0, 0, expectation::not_equal);
    a.divisor_override.reset();
    a.auto_pad = auto_pad::none;
    fails({1, 1, 0}, {1, 1, 6, 1}, errc::unsupported, "diff_src", -1, 4, 3);
    fails({1, 1, 0}, {}, errc::missing_shape, "diff_src", -1, 0, 0, expectation::none);
    fails({-1, -1, 0}, {1, -1, 6}, errc::invalid_shape, "diff_src", 1, -1, 0, expectation::at_least);
    fails({-1, -1, 0}, {1, 2, 6}, errc::invalid_shape, "diff_dst", 0, -1, 0, expectation::at_least);
    fails({1, -1, 0}, {1, 2, 6}, errc::invalid_shape, "diff_dst", 1, -1, 0, expectation::at_least);
    fails({1, 0, 0}, {1, 2, 6}, errc::invalid_shape, "diff_dst", 2, 0, 1, expectation::at_least);
    fails({7, 3, 9}, {big, big, big}, errc::overflow, "diff_src", -1, 0, 0, expectation::none);
    fails({big, big, big}, {2, 2, 6}, errc::overflow, "diff_dst", -1, 0, 0, expectation::none);
    a.kernel = {INT64_MAX};
    a.dilations = {2};
    fails({7, 3, 9}, {2, 2, 6}, errc::overflow, "kernel", 0, 0, 0, expectation::none);
    a.kernel = {3};
    a.dilations = {};
    a.pads_begin = {INT64_MAX - 3};
    fails({7, 3, 9}, {2, 2, 6}, errc::overflow, "diff_src", 2, 0, 0, expectation::none);
    a.pads_begin = {1};
    a.strides = {INT64_MAX / 2};
    fails({7, 3, 9}, {2, 2, 6}, errc::overflow, "diff_dst", 2, 0, 0, expectation::none);
    a.strides = {2};
    fails({7, 3, 9}, {2, 2, 6}, errc::invalid_shape, "diff_dst", 0, 7, 2);
    fails({2, 3, 9}, {2, 2, 6}, errc::invalid_shape, "diff_dst", 1, 3, 2);
    a.kernel = {8};
    fails({2, 2, 9}, {2, 2, 6}, errc::invalid_shape, "diff_src", 2, 7, 8, expectation::at_least);
    a.kernel = {3};
    fails({2, 2, 9}, {2, 2, 6}, errc::invalid_shape, "diff_dst", 2, 9, 3);
}
TEST(AvgPoolSpec, errors_of_the_shape_attribute) {
    avg_pool_attributes a = first_example();
    a.diff_src_shape = {1, 6};
    expect_error({1, 1, 3}, a, {}, backward_error(errc::invalid_shape, "diff_src", -1, 2, 3));
    a.diff_src_shape = {1, 1, 0};
    expect_error({1, 1, 3}, a, {}, backward_error(errc::invalid_shape, "diff_src", 2, 0, 1, expectation::at_least));
}
TEST(AvgPoolSpec, errors_of_the_forward_operator) {
    avg_pool_attributes a = first_example();
    expect_forward_error({1, 6}, a, {1, 1, 3},
                         forward_error(errc::unsupported, "src", -1, 2, 3, expectation::at_least));
    expect_forward_error({1, 1, 6}, a, {1, 3}, forward_error(errc::unsupported, "dst", -1, 2, 3));
    expect_forward_error({1, 1, 6}, a, {1, 1, 4}, forward_error(errc::invalid_shape, "dst", 2, 4, 3));
    expect_forward_error({1, 2, 6}, a, {1, 1, 3}, forward_error(errc::invalid_shape, "dst", 1, 1, 2));
    a.kernel = {9};
    expect_forward_error({1, 1, 6}, a, {1, 1, 3},
                         forward_error(errc::invalid_shape, "src", 2, 7, 9, expectation::at_least));
    // Truncating division would call this one window.
    a.kernel = {8};
    a.rounding_type = rounding_type::ceil;
    expect_forward_error({1, 1, 6}, a, {1, 1, 1},
                         forward_error(errc::invalid_shape, "src", 2, 7, 8, expectation::at_least));
}

TEST(AvgPoolSpec, errors_of_memory) {
    const avg_pool_attributes a = first_example();
    std::vector<float> dy(6, 1.0F);
    std::vector<float> dx(12, 7.0F);
    const gradkern::tensor_view<const float> in(dy.data(), {1, 1, 3});
    const auto backward = [&](const gradkern::tensor_view<const float>& i, const gradkern::tensor_view<float>& o) {
        return gradkern::avg_pool_backward(i, a, o).error();
    };
    EXPECT_EQ(backward(in, {nullptr, {1, 1, 6}}),
              backward_error(errc::null_pointer, "diff_src", -1, 0, 0, expectation::none));
    EXPECT_EQ(backward({nullptr, {1, 1, 3}}, {dx.data(), {1, 1, 6}}),
              backward_error(errc::null_pointer, "diff_dst", -1, 0, 0, expectation::none));
    EXPECT_EQ(backward({dx.data() + 5, {1, 1, 3}}, {dx.data(), {1, 1, 6}}),
              backward_error(errc::invalid_argument, "diff_src", -1, 0, 0, expectation::none));
    EXPECT_EQ(backward(in, {dx.data(), {{1, 1, 6}, {6, 6, 0}}}),
              backward_error(errc::invalid_argument, "diff_src", 2, 0, 0, expectation::none));
    EXPECT_EQ(backward(in, {dx.data(), {{1, 1, 6}, {6, 6}}}),
              backward_error(errc::invalid_argument, "diff_src", -1, 2, 3));
    EXPECT_EQ(backward(in, {dx.data(), {{1, 1, 6}, {1, 1, INT64_MAX}}}),
              backward_error(errc::overflow, "diff_src", -1, 0, 0, expectation::none));
    const auto plan = gradkern::plan_avg_pool_backward<float>({1, 1, 3}, a, {1, 1, 6});
    ASSERT_TRUE(plan.has_value());
    ASSERT_GT(plan->workspace_bytes(), 0U);
    std::vector<std::byte> workspace(plan->workspace_bytes() - 1);
    EXPECT_EQ(plan->run(dy.data(), dx.data(), workspace).error(),
              backward_error(errc::workspace_too_small, "workspace", -1, static_cast<std::int64_t>(workspace.size()),
                             static_cast<std::int64_t>(plan->workspace_bytes()), expectation::at_least));
    EXPECT_EQ(dx, std::vector<float>(12, 7.0F));
}

TEST(AvgPoolSpec, an_empty_batch_needs_no_workspace) {
    const avg_pool_attributes a{.kernel = {3, 3}, .strides = {2, 2}};
    EXPECT_TRUE(gradkern::avg_pool<float>({nullptr, {0, 57, 57, 64}}, a, {nullptr, {0, 28, 28, 64}}).ok());
    EXPECT_TRUE(gradkern::avg_pool_backward<float>({nullptr, {0, 28, 28, 64}}, a, {nullptr, {0, 57, 57, 64}}).ok());
    // without elements nothing overlaps
    const gradkern::tensor_layout nothing({0, 57, 57, 64}, {0, 0, 0, 0});
    EXPECT_TRUE(gradkern::avg_pool_backward<float>({nullptr, {0, 28, 28, 64}}, a, {nullptr, nothing}).ok());
}

TEST(AvgPoolSpec, shapes_are_constant_expressions) {
    constexpr avg_pool_attributes a{.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    static_assert(*gradkern::infer_avg_pool({8, 56, 56, 64}, a) == extents{8, 28, 28, 64});
    static_assert(*gradkern::infer_avg_pool_backward({8, 28, 28, 64}, a, {8, 56, 56, 64}) == extents{8, 56, 56, 64});
}

}  // namespace
