// Verdicts of compare(): bounds, worst elements, what is not finite, the checks over a tensor, mistakes, and texts.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/testing/gtest.hpp>

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::test::compare;
using gk::test::operation;
using gk::test::report;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// 2^-2, the units of the last place around it, and the ends of the ranges.
static_assert(gk::detail::ulp_of(gk::data_type::f32, 0.25) == 0x1p-25);
static_assert(gk::detail::ulp_of(gk::data_type::f16, -0.3) == 0x1p-12);
static_assert(gk::detail::ulp_of(gk::data_type::bf16, 255.0) == 1);
static_assert(gk::detail::ulp_of(gk::data_type::bf16, 256.0) == 2);
static_assert(gk::detail::ulp_of(gk::data_type::f16, 0.0) == 0x1p-24, "the least subnormal number");
static_assert(gk::detail::ulp_of(gk::data_type::f32, 0x1p-140) == 0x1p-149);
static_assert(gk::detail::ulp_of(gk::data_type::f16, 1e9) == 32, "that of the largest number");
static_assert(gk::detail::power_of_two(-1074) == 0x1p-1074 && gk::detail::power_of_two(-1075) == 0);
static_assert(gk::detail::power_of_two(-1022) == 0x1p-1022 && gk::detail::power_of_two(1023) == 0x1p1023);

constexpr gk::convolution_attributes line{.strides = {1}, .dilations = {1}};
constexpr auto of_f16 = *gk::accuracy::convolution<gk::float16>({1, 1, 1}, {1, 1, 1}, {}, line);
static_assert(!of_f16.overflows(65504.0, 65504.0) && !of_f16.overflows(65519.9, 65519.9));
static_assert(of_f16.overflows(65521.0, 65521.0) && of_f16.overflows(1e6, -1e6) && !of_f16.overflows(1e6, 3.0));
static_assert(!of_f16.overflows(1e39, 1e39), "the sum leaves the range of f32");
constexpr auto of_f32 = *gk::accuracy::convolution<float>({1, 1, 1}, {1, 1, 1}, {}, line);
static_assert(!of_f32.overflows(1e39, 1e39) && !of_f32.overflows(1e38, 1e38));

TEST(rounded_to, is_the_nearest_number_with_ties_to_even) {
    using gk::detail::rounded_to;
    EXPECT_EQ(rounded_to(gk::data_type::bf16, 1 + 0x1p-8), 1);
    EXPECT_EQ(rounded_to(gk::data_type::bf16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
    EXPECT_EQ(rounded_to(gk::data_type::bf16, -1 - 0x1.001p-8), -1 - 0x1p-7);
    EXPECT_EQ(rounded_to(gk::data_type::f16, 0x1p-25), 0);
    EXPECT_EQ(rounded_to(gk::data_type::f16, 0x1.01p-25), 0x1p-24);
    // What was rounded off before decides a tie, and nothing else.
    EXPECT_EQ(rounded_to(gk::data_type::bf16, 1 + 0x1p-8, 0x1p-60), 1 + 0x1p-7);
    EXPECT_EQ(rounded_to(gk::data_type::bf16, 1 + 0x1p-8, -0x1p-60), 1);
    EXPECT_EQ(rounded_to(gk::data_type::bf16, -1 - 3 * 0x1p-8, 0x1p-60), -1 - 0x1p-7);
    EXPECT_EQ(rounded_to(gk::data_type::bf16, 1 + 0x1.1p-8, -0x1p-60), 1 + 0x1p-7);
    EXPECT_EQ(rounded_to(gk::data_type::bf16, 1, 0x1p-60), 1);
    // Beyond the range.
    EXPECT_EQ(rounded_to(gk::data_type::f16, 65519), 65504);
    EXPECT_EQ(rounded_to(gk::data_type::f16, -65520), -infinity);
    EXPECT_EQ(rounded_to(gk::data_type::f16, 65520, -0x1p-40), 65504);
    EXPECT_EQ(rounded_to(gk::data_type::f32, 1e39), infinity);
    for (double v = 0.37; v < 1e4; v *= 1.0000731) {
        ASSERT_EQ(rounded_to(gk::data_type::f32, v), static_cast<double>(static_cast<float>(v)));
        const auto f = static_cast<float>(v);
        ASSERT_EQ(rounded_to(gk::data_type::f16, static_cast<double>(f)), static_cast<float>(gk::float16(f)));
        ASSERT_EQ(rounded_to(gk::data_type::bf16, -static_cast<double>(f)), static_cast<float>(gk::bfloat16(-f)));
    }
}

/// A 1x1 convolution of one channel: result i is x[i] * w.
template <class T>
report judge_products(const std::vector<T>& result, const std::vector<T>& x, const T& w,
                      const gk::test::compare_options& options = {}) {
    const auto n = static_cast<std::int64_t>(x.size());
    return compare(gk::tensor_view(result.data(), {1, n, 1}), {operation::convolution, line},
                   {.src = gk::tensor_view(x.data(), {1, n, 1}), .weights = gk::tensor_view(&w, {1, 1, 1})}, options);
}

TEST(bounds, are_those_of_accuracy_for_the_terms_of_an_element) {
    const std::vector<float> x{3, 3, 3};
    const float up = std::nextafter(15.0F, 16.0F);
    const report r = judge_products<float>({15, up, std::nextafter(up, 16.0F)}, x, 5);
    EXPECT_EQ(r.mistake.code, gk::errc::ok);
    EXPECT_EQ(r.elements, 3);
    EXPECT_EQ(r.refused, 2) << "15 * 2^-24 is less than one ulp";
    EXPECT_FALSE(r.ok());
    ASSERT_EQ(r.worst_count, 2U);
    const gk::test::judged_element& e = r.worst[0];
    EXPECT_EQ(e.index, (gk::extents{0, 2, 0}));
    EXPECT_EQ(e.expected, 15);
    EXPECT_EQ(e.result, 15 + 0x1p-19);
    EXPECT_EQ(e.error, 0x1p-19);
    EXPECT_EQ(e.ulps, 2);
    EXPECT_EQ(e.terms, 15);
    EXPECT_EQ(e.bound, (*gk::accuracy::convolution<float>({1, 3, 1}, {1, 1, 1}, {}, line))(15));
    EXPECT_EQ(e.ratio, e.error / e.bound);
    EXPECT_EQ(r.worst[1].index, (gk::extents{0, 1, 0}));
    EXPECT_EQ(r.largest_ulps, 2);
    EXPECT_EQ(r.mean_ulps, 1);
    EXPECT_EQ(r.largest_ratio, e.ratio);
    EXPECT_TRUE(judge_products<float>({15, 15, 15}, x, 5).ok());
}

TEST(bounds, leave_a_tie_both_neighbours) {
    const std::vector<gk::bfloat16> x{gk::bfloat16(1 + 0x1p-7F)};
    const auto verdict = [&](float v) { return judge_products<gk::bfloat16>({gk::bfloat16(v)}, x, x[0]).ok(); };
    // (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14
    EXPECT_TRUE(verdict(1 + 0x1p-6F));
    EXPECT_FALSE(verdict(1 + 0x1p-6F + 0x1p-7F));
    EXPECT_FALSE(verdict(1 + 0x1p-7F));
    const std::vector<gk::bfloat16> y{gk::bfloat16(1), gk::bfloat16(1 + 0x1p-7F)};
    const auto mean = [&](float v) {
        const gk::bfloat16 result(v);
        const gk::avg_pool_attributes a{.kernel = {2}, .strides = {1}};
        return compare(gk::tensor_view(&result, {1, 1, 1}), {operation::avg_pool, a},
                       {.src = gk::tensor_view(y.data(), {1, 2, 1})})
            .ok();
    };
    EXPECT_TRUE(mean(1));
    EXPECT_TRUE(mean(1 + 0x1p-7F));
    EXPECT_FALSE(mean(1 - 0x1p-8F));
    EXPECT_FALSE(mean(1 + 0x1p-6F));
}

TEST(worst_elements, are_the_largest_ratios_in_order) {
    std::vector<float> x(50, 1);
    std::vector<float> y(50, 1);
    for (std::size_t i = 0; i < 20; ++i) y[i * 2] = 1 + static_cast<float>((i * 7) % 20 + 1) * 0x1p-20F;
    const report r = judge_products<float>(y, x, 1);
    EXPECT_EQ(r.refused, 20);
    ASSERT_EQ(r.worst_count, report::most_worst);
    for (std::size_t i = 0; i < r.worst_count; ++i) {
        EXPECT_EQ(r.worst[i].error, static_cast<double>(20 - i) * 0x1p-20);
        EXPECT_EQ(r.worst[i].result, y[static_cast<std::size_t>(r.worst[i].index[1])]);
    }
}

TEST(strides, of_results_and_inputs_are_followed) {
    // NCX: rows of 4 in memory, of which 3 are the image; the source is upside down.
    std::vector<float> memory(2 * 2 * 4, -99);
    const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const gk::avg_pool_attributes a{.kernel = {1, 1}, .strides = {1, 1}, .data_format = gk::data_format::ncx};
    const gk::tensor_layout out({1, 2, 2, 3}, {16, 8, 4, 1});
    const gk::tensor_view<const float> src(x.data() + 3, {{1, 2, 2, 3}, {12, 6, -3, 1}});
    for (std::size_t c = 0; c < 2; ++c)
        for (std::size_t h = 0; h < 2; ++h)
            for (std::size_t w = 0; w < 3; ++w) memory[c * 8 + h * 4 + w] = x[c * 6 + (1 - h) * 3 + w];
    const gk::test::problem p{operation::avg_pool, a};
    EXPECT_TRUE(gk::test::is_right(gk::tensor_view<const float>(memory.data(), out), p, {.src = src}));
    memory[1 * 8 + 1 * 4 + 2] += 1;
    const report r = compare(gk::tensor_view<const float>(memory.data(), out), p, {.src = src});
    EXPECT_EQ(r.refused, 1);
    EXPECT_EQ(r.worst[0].index, (gk::extents{0, 1, 1, 2}));
    EXPECT_EQ(r.worst[0].expected, 9);
    EXPECT_EQ(r.worst[0].result, 10);
}

TEST(what_is_not_finite, has_to_be_the_same) {
    const auto verdict = [](float result, float x, float w) { return judge_products<float>({result}, {x}, w).ok(); };
    EXPECT_TRUE(verdict(nan, nan, 1) && verdict(-nan, infinity, 0) && verdict(infinity, infinity, 2));
    EXPECT_TRUE(verdict(-infinity, infinity, -2));
    EXPECT_FALSE(verdict(0, infinity, 0) || verdict(infinity, nan, 1) || verdict(nan, infinity, 1));
    EXPECT_FALSE(verdict(-infinity, infinity, 1) || verdict(3.4e38F, infinity, 1));
    EXPECT_FALSE(verdict(nan, 1, 1) || verdict(infinity, 1, 1) || verdict(nan, 0, 0));
    const report r = judge_products<float>({nan, 2}, {1, 2}, 1);
    EXPECT_EQ(r.refused, 1);
    EXPECT_EQ(r.worst[0].ratio, std::numeric_limits<double>::infinity());
}

TEST(the_range_of_a_type, decides_what_is_inf_and_what_is_not_promised) {
    const auto of_halves = [](float result, float x, float w) {
        return judge_products<gk::float16>({gk::float16(result)}, {gk::float16(x)}, gk::float16(w));
    };
    EXPECT_TRUE(of_halves(infinity, 1000, 1000).ok());
    EXPECT_TRUE(of_halves(-infinity, -1000, 1000).ok());
    EXPECT_FALSE(of_halves(65504, 1000, 1000).ok()) << "a saturated result";
    EXPECT_FALSE(of_halves(-infinity, 1000, 1000).ok() || of_halves(nan, 1000, 1000).ok());
    EXPECT_TRUE(of_halves(65504, 32752, 2).ok());
    EXPECT_FALSE(of_halves(infinity, 32752, 2).ok());
    // A sum beyond the range of f32: nothing is promised, and it is counted.
    for (const float result : {infinity, nan, 3e38F}) {
        const report r = judge_products<float>({result, 6}, {2e38F, 1}, 6);
        EXPECT_TRUE(r.ok()) << r;
        EXPECT_EQ(r.without_bound, 1);
        EXPECT_EQ(r.elements, 2);
    }
    EXPECT_FALSE(judge_products<float>({infinity, 7}, {2e38F, 1}, 6).ok()) << "the others are judged all the same";
}

TEST(roundings, may_be_those_of_the_kernel) {
    // A one, and 5000 numbers of which a plain sum loses every one.
    const float lost = std::nextafter(0x1p-24F, 0.0F);
    std::vector<float> x(5001, lost);
    x[0] = 1;
    const std::vector<float> ones(5001, 1);
    float plain = 0;
    for (const float v : x) plain += v;
    const auto verdict = [&](const gk::test::compare_options& options) {
        return compare(
            gk::tensor_view(&plain, {1, 1, 1}), {operation::convolution, line},
            {.src = gk::tensor_view(x.data(), {1, 1, 5001}), .weights = gk::tensor_view(ones.data(), {1, 5001, 1})},
            options);
    };
    EXPECT_FALSE(verdict({}).ok()) << "sums of gradkern are cut into parts";
    EXPECT_TRUE(gk::test::is_ok(verdict({.roundings = 5001})));
    EXPECT_FALSE(verdict({.roundings = 4000}).ok());
    // None: only the correctly rounded value is right.
    EXPECT_TRUE(
        judge_products<gk::bfloat16>({gk::bfloat16(9)}, {gk::bfloat16(3)}, gk::bfloat16(3), {.roundings = 0}).ok());
    EXPECT_TRUE(judge_products<float>({9}, {3}, 3, {.roundings = 0}).ok());
    EXPECT_FALSE(judge_products<float>({std::nextafter(9.0F, 10.0F)}, {3}, 3, {.roundings = 0}).ok());
}

/// A sum of numbers of any type, against a result of another.
template <class T, class In>
report judge_sum(float result, const std::vector<In>& terms, const gk::test::compare_options& options = {}) {
    const T y(result);
    const auto n = static_cast<std::int64_t>(terms.size());
    const gk::avg_pool_attributes a{.kernel = {n}, .strides = {1}, .divisor_override = 1};
    return compare(gk::tensor_view(&y, {1, 1, 1}), {operation::avg_pool, a},
                   {.src = gk::tensor_view(terms.data(), {1, n, 1})}, options);
}

/// Numbers of T around each tie, and the verdicts on them without roundings: of both neighbours only the even one is right.
template <class T>
void judge_ties(int fraction_bits) {
    const float ulp = std::ldexp(1.0F, -fraction_bits);
    for (const float sign : {1.0F, -1.0F})
        for (int j = 0; j < 40; ++j) {
            const float below = 1 + static_cast<float>(j) * ulp;
            const std::vector<float> tie{sign * below, sign * ulp / 2};
            const auto verdict = [&](float result) { return judge_sum<T>(sign * result, tie, {.roundings = 0}).ok(); };
            EXPECT_EQ(verdict(below), j % 2 == 0) << "truncated " << j;
            EXPECT_EQ(verdict(below + ulp), j % 2 == 1) << "rounded half away from zero " << j;
            EXPECT_FALSE(verdict(below - ulp) || verdict(below + 2 * ulp));
        }
}
TEST(without_roundings, only_the_even_neighbour_of_a_tie_is_right) {
    judge_ties<gk::bfloat16>(7);
    judge_ties<gk::float16>(10);
}

// The sum lies so close to a tie that rounding it to f64 first makes it one.
TEST(without_roundings, a_value_is_rounded_once) {
    const auto verdict = [](float result, double by) {
        return judge_sum<gk::bfloat16>(result, std::vector<double>{1 + 0x1p-8, by}, {.roundings = 0}).ok();
    };
    EXPECT_TRUE(verdict(1, 0) && verdict(1, -0x1p-80) && verdict(1 + 0x1p-7F, 0x1p-80));
    EXPECT_FALSE(verdict(1 + 0x1p-7F, 0) || verdict(1 + 0x1p-7F, -0x1p-80) || verdict(1, 0x1p-80));
    // So is the sum of a result that accumulates: 2^-80 more than a tie, and the tie.
    const gk::plan_options adds{.output = gk::output_mode::accumulate};
    for (const double more : {0x1p-80, 0.0, -0x1p-80}) {
        const std::vector<double> dy{0x1p-8, more};
        const double before = 1;
        const auto accumulated = [&](float result) {
            const gk::bfloat16 y(result);
            return compare(
                       gk::tensor_view(&y, {1}), {operation::bias_backward, gk::bias_attributes{}, adds},
                       {.diff_dst = gk::tensor_view(dy.data(), {1, 2, 1}), .previous = gk::tensor_view(&before, {1})},
                       {.roundings = 0})
                .ok();
        };
        EXPECT_EQ(accumulated(1), more <= 0) << more;
        EXPECT_EQ(accumulated(1 + 0x1p-7F), more > 0) << more;
    }
}

TEST(without_roundings, every_type_has_one_right_value) {
    // 1/3, which no type has, and the least number of f32, which underflow may not take.
    const auto third = [](float result) {
        const std::vector<float> x{1, 0, 0};
        const gk::avg_pool_attributes a{.kernel = {3}, .strides = {1}};
        return compare(gk::tensor_view(&result, {1, 1, 1}), {operation::avg_pool, a},
                       {.src = gk::tensor_view(x.data(), {1, 3, 1})}, {.roundings = 0})
            .ok();
    };
    EXPECT_TRUE(third(1.0F / 3));
    EXPECT_FALSE(third(std::nextafter(1.0F / 3, 0.0F)) || third(std::nextafter(1.0F / 3, 1.0F)));
    const auto least = [](float result) {
        return judge_products<float>({result}, {0x1p-149F}, 1, {.roundings = 0}).ok();
    };
    EXPECT_TRUE(least(0x1p-149F));
    EXPECT_FALSE(least(0) || least(0x1p-148F));
    const double d = 3;
    const auto square = [&](double result) { return judge_products<double>({result}, {d}, d, {.roundings = 0}).ok(); };
    EXPECT_TRUE(square(9));
    EXPECT_FALSE(square(std::nextafter(9.0, 10.0)));
    // Inf where the value rounds to it; what is not finite.
    const auto half = [](float result, float x, float w) {
        return judge_products<gk::float16>({gk::float16(result)}, {gk::float16(x)}, gk::float16(w), {.roundings = 0})
            .ok();
    };
    EXPECT_TRUE(half(infinity, 1000, 1000) && half(nan, nan, 1) && half(-infinity, infinity, -1));
    EXPECT_FALSE(half(65504, 1000, 1000) || half(1, nan, 1) || half(infinity, 32752, 2));
    const report r = judge_sum<gk::bfloat16>(2, std::vector<float>{1, 0x1p-8F}, {.roundings = 0});
    EXPECT_EQ(r.refused, 1);
    EXPECT_EQ(r.worst[0].expected, 1) << "the value that is demanded";
    EXPECT_EQ(r.worst[0].bound, 0);
}

TEST(roundings, that_leave_no_bound_are_a_mistake) {
    const std::vector<float> garbage(248, 12345);
    const std::vector<float> x(248, 3);
    const auto mistake = [&](std::int64_t roundings) {
        const report r = judge_products<float>(garbage, x, 5, {.roundings = roundings});
        EXPECT_FALSE(r.ok());
        if (r.mistake.code == gk::errc::ok) return false;
        EXPECT_EQ(r.mistake.argument, "roundings");
        EXPECT_EQ(r.mistake.code, gk::errc::invalid_argument);
        EXPECT_EQ(r.mistake.got, roundings);
        return true;
    };
    EXPECT_TRUE(mistake(-1) && mistake(-(1 << 25)) && mistake(std::numeric_limits<std::int64_t>::min()));
    EXPECT_TRUE(mistake(1 << 24) && mistake(std::numeric_limits<std::int64_t>::max()));
    EXPECT_FALSE(mistake(0) || mistake(1000));
    const std::vector<double> of_f64{9};
    const auto f64 = [&](std::int64_t roundings) {
        return judge_products<double>(of_f64, {3}, 3, {.roundings = roundings});
    };
    EXPECT_TRUE(f64(1 << 24).ok());
    EXPECT_EQ(f64(std::int64_t{1} << 53).mistake.argument, "roundings");
    // Max pools, which have no roundings, do not take them either.
    const report copied = compare(gk::tensor_view(garbage.data(), {1, 1, 1}),
                                  {operation::max_pool, gk::max_pool_attributes{.kernel = {1}, .strides = {1}}},
                                  {.src = gk::tensor_view(garbage.data(), {1, 1, 1})}, {.roundings = -1});
    EXPECT_EQ(copied.mistake.argument, "roundings");
    std::ostringstream text;
    text << judge_products<float>(garbage, x, 5, {.roundings = 1 << 24});
    EXPECT_NE(text.str().find("roundings: got 16777216, expected below 16777216"), std::string::npos) << text.str();
}

TEST(nothing_judged, is_not_right) {
    const report r = judge_products<float>({12345, nan, 1}, {3e38F, 3e38F, 3e38F}, 3);
    EXPECT_EQ(r.mistake.code, gk::errc::ok);
    EXPECT_EQ(r.without_bound, 3);
    EXPECT_TRUE(r.judged_nothing());
    EXPECT_FALSE(r.ok());
    std::ostringstream text;
    text << r;
    EXPECT_NE(text.str().find("nothing was judged"), std::string::npos) << text.str();
    EXPECT_EQ(text.str().find("wrong"), std::string::npos) << text.str();
    EXPECT_FALSE(gk::test::is_ok(r));
    const report some = judge_products<float>({12345, nan, 3}, {3e38F, 3e38F, 1}, 3);
    EXPECT_FALSE(some.judged_nothing());
    EXPECT_TRUE(some.ok()) << some;
}

/// Sums of 64 products, each moved by a part of its bound.
report judge_moved(double by, bool alternating, bool positive, std::int64_t pixels) {
    const gk::extents src{1, pixels, 64};
    const gk::extents weights{1, 64, 1};
    std::vector<float> x(static_cast<std::size_t>(pixels) * 64);
    std::vector<float> w(64);
    const auto kind = positive ? gk::test::pattern::positive : gk::test::pattern::uniform;
    EXPECT_TRUE(gk::test::fill(gk::tensor_view(x.data(), src), kind, 1, 0).ok());
    EXPECT_TRUE(gk::test::fill(gk::tensor_view(w.data(), weights), kind, 2, 1).ok());
    std::vector<float> y(static_cast<std::size_t>(pixels));
    const auto bound = *gk::accuracy::convolution<float>(src, weights, {}, line);
    for (std::size_t i = 0; i < y.size(); ++i) {
        double exact = 0;
        double terms = 0;
        for (std::size_t c = 0; c < 64; ++c) {
            const double product = static_cast<double>(x[i * 64 + c]) * static_cast<double>(w[c]);
            exact += product;
            terms += std::fabs(product);
        }
        y[i] = static_cast<float>(exact + (alternating && i % 2 == 1 ? -by : by) * bound(terms, exact));
    }
    return compare(gk::tensor_view(y.data(), {1, pixels, 1}), {operation::convolution, line},
                   {.src = gk::tensor_view(x.data(), src), .weights = gk::tensor_view(w.data(), weights)});
}

TEST(tensor_checks, find_errors_that_are_small_but_alike) {
    const report right = judge_moved(0, false, false, 2000);
    EXPECT_TRUE(right.ok()) << right;
    EXPECT_TRUE(right.over_tensor.judges_sum && right.over_tensor.judges_squares);
    EXPECT_EQ(right.over_tensor.ksb, 64);
    EXPECT_NEAR(static_cast<double>(right.over_tensor.elements), 2000, 3);
    const double t = 64 * static_cast<double>(right.over_tensor.elements);
    EXPECT_NEAR(right.over_tensor.largest_sum, 2 * std::sqrt(t), 20) << "and what rounding alone adds";
    EXPECT_DOUBLE_EQ(right.over_tensor.most_squares, 0.4 * t);

    // 0.02 bounds = 1.28 units each: 2560 in all, where 715 are allowed; squares of 3277, where 51200 are.
    const report biased = judge_moved(0.02, false, false, 2000);
    EXPECT_EQ(biased.refused, 0);
    EXPECT_FALSE(biased.over_tensor.sum_holds());
    EXPECT_TRUE(biased.over_tensor.squares_hold());
    EXPECT_FALSE(biased.ok());
    EXPECT_FALSE(judge_moved(-0.02, false, false, 2000).over_tensor.sum_holds());
    EXPECT_TRUE(judge_moved(0.02, true, false, 2000).ok()) << "errors of both signs";
    // 0.5 bounds = 32 units: squares of 2,048,000.
    const report wide = judge_moved(0.5, true, false, 2000);
    EXPECT_EQ(wide.refused, 0);
    EXPECT_TRUE(wide.over_tensor.sum_holds());
    EXPECT_FALSE(wide.over_tensor.squares_hold());
    EXPECT_FALSE(wide.ok());
}

TEST(tensor_checks, need_a_thousand_values_and_both_signs) {
    EXPECT_FALSE(judge_moved(0.5, true, false, 900).over_tensor.judges_squares);
    EXPECT_TRUE(judge_moved(0.5, true, false, 900).ok());
    const report positive = judge_moved(0.02, false, true, 2000);
    EXPECT_TRUE(positive.over_tensor.judges_squares);
    EXPECT_FALSE(positive.over_tensor.judges_sum);
    EXPECT_TRUE(positive.ok()) << positive;
    // The same value a thousand times is one value.
    EXPECT_EQ(judge_products<float>(std::vector<float>(2000, 9), std::vector<float>(2000, 3), 3).over_tensor.elements,
              1);
}

// Ties that all round downwards: correctly rounded values have a bias, and squares beyond TOSA's limit. They are right.
TEST(tensor_checks, allow_what_correct_rounding_has) {
    std::vector<float> x;
    std::vector<gk::bfloat16> y;
    for (int exponent = -10; exponent < 10; ++exponent)
        for (int j = 0; j < 128; ++j) {
            const float tie = std::ldexp(1 + static_cast<float>(2 * j + 1) * 0x1p-8F, exponent);
            x.push_back(j % 2 == 0 ? tie : -tie);
            y.emplace_back(x.back());
            ASSERT_LT(static_cast<float>(y.back()), x.back());
        }
    const auto n = static_cast<std::int64_t>(x.size());
    const float one = 1;
    const auto verdict = [&] {
        return compare(gk::tensor_view(y.data(), {1, n, 1}), {operation::convolution, line},
                       {.src = gk::tensor_view(x.data(), {1, n, 1}), .weights = gk::tensor_view(&one, {1, 1, 1})},
                       {.roundings = 0});
    };
    const report r = verdict();
    EXPECT_TRUE(r.ok()) << r;
    EXPECT_TRUE(r.over_tensor.judges_sum);
    EXPECT_EQ(r.over_tensor.elements, n);
    EXPECT_EQ(r.over_tensor.ksb, 1) << "the last rounding";
    EXPECT_GT(-r.over_tensor.sum, 10 * std::sqrt(static_cast<double>(n)));
    EXPECT_EQ(r.over_tensor.most_squares, r.over_tensor.squares);
    y[7] = gk::bfloat16(1.5F);
    EXPECT_FALSE(verdict().ok());
}

// Squares that are too small for f32: norms may be 0, each of them, and the tensor is right.
TEST(tensor_checks, allow_what_underflows) {
    std::vector<float> x(2000);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (1 + static_cast<float>(i) * 0x1p-12F) * 0x1p-100F;
    const std::vector<float> y(2000, 0);
    const report r = compare(gk::tensor_view(y.data(), {1, 2000, 1}),
                             {operation::lp_pool, gk::lp_pool_attributes{.kernel = {1}, .strides = {1}}},
                             {.src = gk::tensor_view(x.data(), {1, 2000, 1})});
    EXPECT_TRUE(r.over_tensor.judges_squares);
    EXPECT_TRUE(r.ok()) << r;
}

TEST(accumulating_problems, count_the_previous_value) {
    const gk::plan_options adds{.output = gk::output_mode::accumulate};
    const std::vector<float> dy{1, 2, 3, 4};
    const float before = 100;
    const auto verdict = [&](float result) {
        return compare(gk::tensor_view(&result, {1}), {operation::bias_backward, gk::bias_attributes{}, adds},
                       {.diff_dst = gk::tensor_view(dy.data(), {1, 4, 1}), .previous = gk::tensor_view(&before, {1})});
    };
    EXPECT_TRUE(verdict(110).ok());
    EXPECT_FALSE(verdict(10).ok() || verdict(210).ok());
    EXPECT_EQ(verdict(10).worst[0].terms, 110);
}

TEST(inputs, may_have_other_types_than_the_result) {
    const std::vector<gk::bfloat16> x{gk::bfloat16(3)};
    const std::vector<double> w{0x1.000002p0};
    const auto verdict = [&](float result) {
        return compare(gk::tensor_view(&result, {1, 1, 1}), {operation::convolution, line},
                       {.src = gk::tensor_view(x.data(), {1, 1, 1}), .weights = gk::tensor_view(w.data(), {1, 1, 1})});
    };
    EXPECT_TRUE(verdict(3.0000004F).ok());
    EXPECT_FALSE(verdict(3).ok());
}

// src / dst is below the least subnormal number: it may count as 0, and diff_dst makes that visible.
TEST(gradients_of_norms, may_lose_what_a_quotient_loses) {
    const float x = 0x1p-140F;
    const float norm = 0x1p10F;
    const float dy = 0x1p100F;
    const gk::extents one{1, 1, 1};
    const gk::test::problem p{operation::lp_pool_backward, gk::lp_pool_attributes{.kernel = {1}, .strides = {1}}};
    const auto verdict = [&](float result) {
        return compare(gk::tensor_view(&result, one), p,
                       {.src = gk::tensor_view(&x, one),
                        .dst = gk::tensor_view(&norm, one),
                        .diff_dst = gk::tensor_view(&dy, one)});
    };
    EXPECT_TRUE(gk::test::is_ok(verdict(0x1p-50F)));
    EXPECT_TRUE(gk::test::is_ok(verdict(0)));
    EXPECT_FALSE(verdict(0x1p-47F).ok());
}

TEST(an_empty_result, is_right) {
    const report r = compare(gk::tensor_view<float>(nullptr, {0, 4, 1}), {operation::convolution, line},
                             {.src = gk::tensor_view<float>(nullptr, {0, 4, 1}),
                              .weights = gk::tensor_view<const float>(&infinity, {1, 1, 1})});
    EXPECT_TRUE(r.ok());
    EXPECT_EQ(r.elements, 0);
}

TEST(mistakes, are_those_of_the_operator) {
    const std::vector<float> x(64, 1);
    const gk::avg_pool_attributes a{.kernel = {2}, .strides = {2}};
    const auto of = [&](std::int64_t n) { return gk::tensor_view(x.data(), {1, n, 1}); };
    const auto mistake = [&](const gk::const_dynamic_view& result, const gk::test::problem& p,
                             const gk::test::inputs& in) {
        const report r = compare(result, p, in);
        EXPECT_FALSE(r.ok());
        EXPECT_EQ(r.elements, 0);
        return r.mistake;
    };
    const gk::test::problem mean{operation::avg_pool, a};
    const auto shapes = gk::shape::avg_pool_shapes({1, 8, 1}, a, {1, 5, 1}, true, sizeof(float));
    ASSERT_FALSE(shapes.has_value());
    EXPECT_EQ(mistake(of(5), mean, {.src = of(8)}), shapes.error());
    EXPECT_EQ(mistake(of(4), {operation::max_pool, a}, {.src = of(8)}).argument, "attributes");
    EXPECT_EQ(mistake(of(4), {operation::bias_backward, line}, {.diff_dst = of(8)}).code, gk::errc::invalid_argument);
    EXPECT_EQ(mistake(of(4), {static_cast<operation>(77), a}, {.src = of(8)}).code, gk::errc::invalid_argument);
    EXPECT_EQ(mistake({static_cast<gk::data_type>(4), x.data(), {1, 4, 1}}, mean, {.src = of(8)}).code,
              gk::errc::unsupported);
    EXPECT_EQ(mistake({gk::data_type::f32, x.data(), {}}, mean, {.src = of(8)}).code, gk::errc::missing_shape);
    EXPECT_EQ(mistake(of(4), mean, {}).argument, "src");
    EXPECT_EQ(mistake(gk::tensor_view<const float>(nullptr, {1, 4, 1}), mean, {.src = of(8)}).code,
              gk::errc::null_pointer);
    EXPECT_EQ(mistake(of(4), mean, {.src = gk::tensor_view<const float>(nullptr, {1, 8, 1})}).argument, "src");
    EXPECT_EQ(mistake(of(4), mean, {.src = gk::tensor_view<const float>(x.data(), {{1, 8, 1}, {1, 1}})}).what,
              gk::quantity::strides);
    const gk::plan_options adds{.output = gk::output_mode::accumulate};
    EXPECT_EQ(mistake(of(4), {operation::avg_pool, a, adds}, {.src = of(8)}).argument, "previous");
    EXPECT_EQ(mistake(of(4), {operation::avg_pool, a, adds}, {.src = of(8), .previous = of(8)}).argument, "previous");
    EXPECT_EQ(
        mistake(of(4), {operation::avg_pool, a, {.output = static_cast<gk::output_mode>(9)}}, {.src = of(8)}).argument,
        "output");
    EXPECT_EQ(mistake(of(1), {operation::bias_backward, gk::bias_attributes{}, {.summation = gk::summation::per_image}},
                      {.diff_dst = of(8)})
                  .argument,
              "summation");
    const std::int64_t index = 0;
    EXPECT_FALSE(compare(gk::tensor_view(&index, {1, 1, 1}), mean, {.src = of(8)}).ok());
}

// Every input of every operator, left out.
TEST(mistakes, name_the_input_that_is_missing) {
    struct row {
        gk::test::problem problem;
        std::vector<const char*> reads;
    };
    const gk::avg_pool_attributes mean{.kernel = {1}, .strides = {1}};
    const gk::lp_pool_attributes norm{.kernel = {1}, .strides = {1}};
    const gk::max_pool_attributes peak{.kernel = {1}, .strides = {1}};
    const gk::conv_transpose_attributes transposed{.strides = {1}, .dilations = {1}};
    const std::vector<row> rows{
        {{operation::avg_pool, mean}, {"src"}},
        {{operation::avg_pool_backward, mean}, {"diff_dst"}},
        {{operation::lp_pool, norm}, {"src"}},
        {{operation::lp_pool_backward, norm}, {"src", "dst", "diff_dst"}},
        {{operation::max_pool, peak}, {"src"}},
        {{operation::max_pool_backward, peak}, {"src", "diff_dst"}},
        {{operation::max_pool_backward_from_indices, gk::max_pool_indices_attributes{}}, {"diff_dst", "indices"}},
        {{operation::convolution, line}, {"src", "weights"}},
        {{operation::convolution_backward_data, line}, {"weights", "diff_dst"}},
        {{operation::convolution_backward_weights, line}, {"src", "diff_dst"}},
        {{operation::conv_transpose, transposed}, {"src", "weights"}},
        {{operation::conv_transpose_backward_data, transposed}, {"weights", "diff_dst"}},
        {{operation::conv_transpose_backward_weights, transposed}, {"src", "diff_dst"}},
        {{operation::bias_backward, gk::bias_attributes{}}, {"diff_dst"}}};
    const float zero = 0;
    const std::int64_t index = 0;
    const gk::tensor_view one(&zero, {1, 1, 1});
    for (const row& r : rows) {
        const auto with = [&](std::string_view missing) {
            gk::test::inputs in;
            for (const std::string_view name : r.reads) {
                if (name == missing) continue;
                if (name == "src") in.src = one;
                if (name == "weights") in.weights = one;
                if (name == "dst") in.dst = one;
                if (name == "diff_dst") in.diff_dst = one;
                if (name == "indices") in.indices = gk::tensor_view(&index, {1, 1, 1});
            }
            const bool is_bias = r.problem.op() == operation::bias_backward;
            return compare(is_bias ? gk::tensor_view(&zero, {1}) : one, r.problem, in);
        };
        EXPECT_TRUE(gk::test::is_ok(with("")));
        for (const std::string_view name : r.reads) {
            const gk::error e = with(name).mistake;
            EXPECT_EQ(e.code, gk::errc::missing_shape);
            EXPECT_EQ(e.argument, name) << gk::test::name_of(r.problem.op());
            EXPECT_EQ(e.op, gk::test::name_of(r.problem.op()));
        }
    }
    std::ostringstream text;
    text << compare(one, {operation::convolution, line}, {.src = one});
    EXPECT_NE(text.str().find("convolution: weights: it is missing"), std::string::npos) << text.str();
    const report r = compare(gk::tensor_view(&index, {1, 1, 1}), {operation::max_pool, peak}, {});
    EXPECT_EQ(r.mistake.code, gk::errc::missing_shape);
    EXPECT_EQ(r.mistake.argument, "src");
}

TEST(indices, are_compared_one_by_one) {
    const std::vector<float> x{1, 7, 7, 2};
    const gk::test::problem p{operation::max_pool, gk::max_pool_attributes{.kernel = {2}, .strides = {2}}};
    const auto verdict = [&](std::int64_t first, std::int64_t second) {
        const std::array<std::int64_t, 2> index{first, second};
        return compare(gk::tensor_view(index.data(), {1, 2, 1}), p, {.src = gk::tensor_view(x.data(), {1, 4, 1})});
    };
    EXPECT_TRUE(verdict(1, 2).ok());
    const report r = verdict(1, 3);
    EXPECT_EQ(r.refused, 1);
    EXPECT_EQ(r.worst[0].index, (gk::extents{0, 1, 0}));
    EXPECT_EQ(r.worst[0].expected, 2);
    EXPECT_EQ(r.worst[0].result, 3);
}

TEST(indices, may_be_int32) {
    const std::vector<float> x{1, 7, 7, 2};
    const gk::test::problem p{operation::max_pool, gk::max_pool_attributes{.kernel = {2}, .strides = {2}}};
    const gk::test::inputs in{.src = gk::tensor_view(x.data(), {1, 4, 1})};
    // Every other number, so that strides count in elements of 4 bytes; the first is the last in memory.
    std::array<std::int32_t, 3> index{2, -1, 1};
    const gk::tensor_view<std::int32_t> view(index.data() + 2, {{1, 2, 1}, {4, -2, 1}});
    EXPECT_TRUE(gk::test::is_right(view, p, in));
    index[0] = 3;
    const report r = compare(view, p, in);
    EXPECT_EQ(r.refused, 1);
    EXPECT_EQ(r.worst[0].expected, 2);
    EXPECT_EQ(r.worst[0].result, 3);
    // As inputs: the gradients of the two maxima.
    index[0] = 2;
    const std::vector<float> dy{10, 20};
    const std::vector<float> dx{0, 10, 20, 0};
    const gk::test::problem back{operation::max_pool_backward_from_indices, gk::max_pool_indices_attributes{}};
    const auto verdict = [&](const gk::test::index_view& indices) {
        return compare(gk::tensor_view(dx.data(), {1, 4, 1}), back,
                       {.diff_dst = gk::tensor_view(dy.data(), {1, 2, 1}), .indices = indices});
    };
    EXPECT_TRUE(gk::test::is_ok(verdict(view)));
    const std::array<std::int64_t, 2> wide{1, 2};
    EXPECT_TRUE(gk::test::is_ok(verdict({wide.data(), {1, 2, 1}})));
    index[0] = 1;
    EXPECT_FALSE(verdict(view).ok());
    EXPECT_EQ(verdict(gk::tensor_view<const std::int32_t>(nullptr, {1, 2, 1})).mistake.code, gk::errc::null_pointer);
}

TEST(texts, say_what_is_wrong_and_where) {
    const report r = judge_products<float>({15, 16}, {3, 3}, 5);
    std::array<char, 4096> text{};
    const std::size_t length = r.format(text);
    ASSERT_LT(length, text.size());
    const std::string whole(text.data(), length);
    for (const char* part : {"convolution, f32: wrong", "1 of 2 elements", "[0, 1, 0]", "result 16", "expected 15",
                             "error 1 ", "sum of |terms| 15", "bias:", "variance:", "not judged"})
        EXPECT_NE(whole.find(part), std::string::npos) << part << " in\n" << whole;
    std::array<char, 20> little{};
    EXPECT_EQ(r.format(little), length);
    EXPECT_EQ(std::string(little.data(), little.size()), whole.substr(0, little.size()));
    std::ostringstream stream;
    stream << r;
    EXPECT_EQ(stream.str(), whole);

    std::ostringstream mistake;
    mistake << compare(gk::const_dynamic_view{}, {operation::max_pool, line}, {});
    EXPECT_NE(mistake.str().find("cannot be judged: max_pool: attributes"), std::string::npos) << mistake.str();
    std::ostringstream right;
    right << judge_products<float>({15}, {3}, 5);
    EXPECT_NE(right.str().find("convolution, f32: right"), std::string::npos);
}

TEST(matchers, agree_with_compare) {
    const std::vector<float> x{3};
    const float w = 5;
    const gk::test::problem p{operation::convolution, line};
    const gk::test::inputs in{.src = gk::tensor_view(x.data(), {1, 1, 1}), .weights = gk::tensor_view(&w, {1, 1, 1})};
    const std::vector<float> right{15};
    const std::vector<float> wrong{16};
    const gk::tensor_view good(right.data(), {1, 1, 1});
    const gk::tensor_view bad(wrong.data(), {1, 1, 1});
    EXPECT_TRUE(gk::test::is_right(good, p, in));
    const ::testing::AssertionResult failure = gk::test::is_right(bad, p, in);
    EXPECT_FALSE(failure);
    EXPECT_NE(std::string(failure.message()).find("result 16, expected 15"), std::string::npos);

    const ::testing::Matcher<gk::tensor_view<const float>> matcher = gk::test::is_result_of(p, in);
    EXPECT_TRUE(matcher.Matches(good));
    EXPECT_FALSE(matcher.Matches(bad));
    std::ostringstream explanation;
    EXPECT_FALSE(gk::test::is_result_of(p, in).MatchAndExplain(bad, &explanation));
    EXPECT_NE(explanation.str().find("result 16, expected 15"), std::string::npos);
    std::ostringstream text;
    matcher.DescribeTo(&text);
    EXPECT_EQ(text.str(), "is the result of convolution");
}

// GoogleTest prints what is meant, not bytes: as values, inside matchers' messages and in containers.
TEST(printed_values, say_what_they_are) {
    using ::testing::PrintToString;
    const float x = 3;
    const gk::bfloat16 b(3);
    const std::int64_t i = 0;
    gk::float16 h(3);
    EXPECT_EQ(PrintToString(gk::extents{1, 2, 3}), "[1, 2, 3]");
    EXPECT_EQ(PrintToString(gk::extents{}), "[]");
    EXPECT_EQ(PrintToString(gk::extents(std::vector<int>{1, 2, 3, 4, 5, 6})), "[1, 2, 3, 4, 5, ?]");
    EXPECT_EQ(PrintToString(gk::tensor_layout({2, 3}, {4, 1})), "shape [2, 3], strides [4, 1]");
    EXPECT_EQ(PrintToString(gk::tensor_view(&x, {1, 1, 1})), "f32 tensor of shape [1, 1, 1]");
    EXPECT_EQ(PrintToString(gk::tensor_view(&h, {1, 1, 1})), "f16 tensor of shape [1, 1, 1]");
    EXPECT_EQ(PrintToString(gk::const_dynamic_view(gk::tensor_view(&b, {1, 1, 1}))), "bf16 tensor of shape [1, 1, 1]");
    EXPECT_EQ(PrintToString(gk::dynamic_view(gk::tensor_view(&h, {{1, 1, 1}, {9, 9, 9}}))),
              "f16 tensor of shape [1, 1, 1], strides [9, 9, 9]");
    EXPECT_EQ(PrintToString(gk::tensor_view(&i, {1, 1, 1})), "tensor of shape [1, 1, 1]");
    EXPECT_EQ(PrintToString(operation::lp_pool_backward), "lp_pool_backward");
    EXPECT_EQ(PrintToString(std::vector{gk::test::pattern::near_ties}), "{ near_ties }");
    EXPECT_EQ(PrintToString(gk::status()), "ok");
    const gk::error e{.code = gk::errc::invalid_shape, .op = "mine", .argument = "dst"};
    EXPECT_NE(PrintToString(e).find("mine: dst"), std::string::npos) << PrintToString(e);
    EXPECT_NE(PrintToString(judge_products<float>({15}, {3}, 5)).find("convolution, f32: right"), std::string::npos);
}

TEST(names, are_those_of_the_operators) {
    EXPECT_EQ(gk::test::name_of(operation::avg_pool), "avg_pool");
    EXPECT_EQ(gk::test::name_of(operation::conv_transpose_backward_weights), "conv_transpose_backward_weights");
    EXPECT_EQ(gk::test::name_of(operation::bias_backward), "bias_backward");
    EXPECT_EQ(gk::test::name_of(static_cast<operation>(14)), "unknown");
}

}  // namespace
}  // namespace gradkern_test
