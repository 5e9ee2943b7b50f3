// Shapes, strides and views.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gradkern/attributes.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/tensor_view.hpp>

namespace {

namespace gk = gradkern;

static_assert(gk::extents{}.empty() && gk::extents{}.rank() == 0);
static_assert(gk::extents{1, 2, 3}[2] == 3);
static_assert(gk::extents{1, 2} != gk::extents{1, 2, 0});
static_assert(gk::extents::filled(3, 7) == gk::extents{7, 7, 7});
static_assert(gk::extents{1, 2, 3, 4, 5, 6}.rank() == 6, "longer lists are counted");
static_assert(gk::extents{1, 2, 3, 4, 5, 6}.values().size() == gk::extents::capacity, "and not kept");
static_assert(gk::convolution_attributes{.strides = {1, 1}} == gk::convolution_attributes{.strides = {1, 1}});
static_assert(gk::convolution_attributes{.strides = {1, 1}} != gk::convolution_attributes{.strides = {1, 2}});
static_assert(gk::convolution_attributes{.groups = 2} != gk::convolution_attributes{});
static_assert(gk::conv_transpose_attributes{.dst_shape = {1}} != gk::conv_transpose_attributes{});
static_assert(gk::bias_attributes{.data_format = gk::data_format::ncx} != gk::bias_attributes{});
static_assert(gk::avg_pool_attributes{.divisor_override = 0} != gk::avg_pool_attributes{}, "0 is not the same as none");
static_assert(gk::lp_pool_attributes{.kernel = {2}} != gk::lp_pool_attributes{.kernel = {2, 2}});
static_assert(gk::max_pool_attributes{.ignore_nan = true} != gk::max_pool_attributes{});
static_assert(gk::max_pool_indices_attributes{} == gk::max_pool_indices_attributes{});
static_assert(gk::plan_options{.output = gk::output_mode::accumulate} != gk::plan_options{});
static_assert(gk::tensor_layout{}.empty() && gk::tensor_layout{1, 2, 3}.is_dense());
static_assert(std::is_convertible_v<gk::tensor_view<float>, gk::tensor_view<const float>>);
static_assert(!std::is_convertible_v<gk::tensor_view<const float>, gk::tensor_view<float>>);
static_assert(std::is_trivially_copyable_v<gk::tensor_view<float>>);

// Braces mean the same for every rank: shape and strides, a shape alone, or nothing.
static_assert(gk::tensor_layout{{64}, {1}}.shape == gk::extents{64});
static_assert(gk::tensor_layout{{64}, {1}}.strides == gk::extents{1});
static_assert(gk::tensor_layout{{8, 64}, {64, 1}} == gk::tensor_layout(gk::extents{8, 64}, gk::extents{64, 1}));
static_assert(gk::tensor_layout{{2, 3, 4}, {12, 4, 1}} ==
              gk::tensor_layout(gk::extents{2, 3, 4}, gk::extents{12, 4, 1}));
static_assert(gk::tensor_layout{{2, 3, 4, 5}, {60, 20, 5, 1}}.strides == gk::extents{60, 20, 5, 1});
static_assert(gk::tensor_layout{{2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}}.shape.rank() == 5);
static_assert(gk::tensor_layout{64}.shape == gk::extents{64} && gk::tensor_layout{64}.is_dense());
static_assert(gk::tensor_layout{{64}} == gk::tensor_layout{64} &&
              gk::tensor_layout{{8, 64}} == gk::tensor_layout{8, 64});
static_assert(gk::tensor_layout{1, 64, 56, 56}.shape == gk::extents{1, 64, 56, 56});
static_assert(gk::tensor_layout{1, 2, 3, 4, 5, 6}.shape.rank() == 6);
static_assert(gk::tensor_layout{{}}.empty() && gk::tensor_layout{{}, {}}.empty() &&
              gk::tensor_layout{{64}, {}}.is_dense());
constexpr gk::tensor_layout from_call(const gk::tensor_layout& t) { return t; }
static_assert(from_call({{64}, {1}}) == gk::tensor_layout{{64}, {1}} && from_call({64}) == gk::tensor_layout{64});
static_assert(from_call({{8, 64}, {64, 1}}).strides == gk::extents{64, 1} && from_call({8, 64}).is_dense());
static_assert(from_call({}).empty() && from_call({{64}}) == gk::tensor_layout{64});
constexpr float element = 0;
static_assert(gk::tensor_view{&element, {64}}.layout == gk::tensor_layout{64});
static_assert(gk::tensor_view{&element, {{64}, {1}}}.layout == gk::tensor_layout{{64}, {1}});
static_assert(gk::tensor_view{&element, {{64}, {-1}}}.layout.strides[0] == -1);
static_assert(gk::tensor_view{&element, {8, 64}}.layout == gk::tensor_layout{8, 64});
static_assert(gk::tensor_view{&element, {{8, 64}, {64, 1}}}.layout == gk::tensor_layout{{8, 64}, {64, 1}});
// Strides in the place of a shape alone are refused for every rank.
template <class Shape>
concept takes_two_lists = requires {
    Shape{{64}, {1}};
};
static_assert(takes_two_lists<gk::tensor_layout> && !takes_two_lists<gk::extents>);

// One number is no list, and neither are text, truth values and numbers with fractions.
static_assert(!std::is_constructible_v<gk::extents, int> && !std::is_constructible_v<gk::tensor_layout, int>);
static_assert(!std::is_convertible_v<const char*, gk::extents> &&
              !std::is_convertible_v<const char (&)[4], gk::extents>);
static_assert(!std::is_convertible_v<std::string, gk::extents> &&
              !std::is_convertible_v<std::vector<bool>, gk::extents>);
static_assert(!std::is_convertible_v<std::vector<float>, gk::extents> &&
              !std::is_constructible_v<gk::extents, float, float>);
static_assert(!std::is_convertible_v<std::vector<std::vector<int>>, gk::extents>);

// Lists of integers of any kind.
static_assert(std::is_convertible_v<const std::vector<int>&, gk::extents> &&
              std::is_convertible_v<std::vector<std::int64_t>, gk::tensor_layout>);
static_assert(gk::extents(std::array<short, 3>{1, -2, 3}) == gk::extents{1, -2, 3});
static_assert(gk::tensor_layout(std::array<long, 2>{8, 64}) == gk::tensor_layout{8, 64});
static_assert(gk::extents(std::initializer_list<int>{1, 2}) == gk::extents{1, 2});
static_assert(gk::extents(std::array<int, 7>{}).rank() == 7);
static_assert(gk::extents{std::size_t{3}, 4, std::int8_t{-5}, 6U} == gk::extents{3, 4, -5, 6});
constexpr std::uint64_t too_large = std::uint64_t{1} << 63;
static_assert(gk::extents{too_large, 1}[0] == INT64_MAX && gk::extents{too_large - 1, 1}[0] == INT64_MAX);
static_assert(gk::extents(std::array<std::uint64_t, 2>{too_large, ~std::uint64_t{0}}) ==
              gk::extents{INT64_MAX, INT64_MAX});
struct symbolic_size {
    constexpr operator std::int64_t() const noexcept { return 7; }  // NOLINT(google-explicit-constructor)
};
static_assert(gk::extents{symbolic_size{}, 2} == gk::extents{7, 2});

// Attributes that are constants of a constant expression, filled from lists of every kind. (g++ 12 refuses constructors that
// store in their body there.)
constexpr std::int64_t sum_of_constants(std::int64_t x) {
    const std::array<int, 2> range{4, 5};
    const gradkern::avg_pool_attributes a{.kernel = {x}, .strides = {x, 2}, .pads_begin = range};
    return a.kernel[0] + a.strides[1] + a.pads_begin[1] + static_cast<std::int64_t>(a.pads_end.rank());
}
static_assert(sum_of_constants(3) == 10);

TEST(extents, goes_where_shapes_and_attributes_go) {
    const std::vector<std::int64_t> shape{1, 5, 5, 2};
    const std::vector<int> two{2, 2};
    const std::list<unsigned> ones{1, 1};
    const long weights[4]{2, 2, 2, 3};
    const gk::convolution_attributes a{.strides = two, .dilations = ones};
    EXPECT_EQ(a.strides, (gk::extents{2, 2}));
    EXPECT_EQ(a.dilations, (gk::extents{1, 1}));
    EXPECT_EQ(gk::infer_convolution(shape, weights, a).value(), (gk::extents{1, 2, 2, 3}));
    EXPECT_TRUE(gk::plan_convolution<float>(shape, weights, {}, a));
    std::vector<float> memory(50);
    EXPECT_EQ((gk::tensor_view{memory.data(), shape}.layout), (gk::tensor_layout{1, 5, 5, 2}));
    EXPECT_EQ((gk::tensor_layout{shape, shape}.strides), (gk::extents{1, 5, 5, 2}));
    EXPECT_EQ(gk::extents(std::span<const std::int64_t>(shape).first(2)), (gk::extents{1, 5}));
    EXPECT_EQ(gk::extents(std::vector<int>()), gk::extents{});
    const std::vector<std::uint64_t> wrong{1, too_large, 5, 2};
    EXPECT_EQ(gk::infer_convolution(wrong, weights, a).error().code, gk::errc::overflow) << "not negative";
}

// A bias with strides of its own.
TEST(tensor_layout, a_bias_may_have_strides) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    EXPECT_TRUE(gk::plan_convolution<float>({1, 5, 1}, {3, 1, 64}, {{64}, {2}}, a));
    EXPECT_TRUE(gk::plan_convolution_backward_weights<float>({1, 5, 1}, {1, 3, 64}, a, {3, 1, 64}, {{64}, {-1}}));
}

TEST(extents, takes_run_time_lists_of_any_integers) {
    const std::vector<std::int64_t> wide{4, 5, 6};
    const std::vector<std::int32_t> narrow{4, 5, 6};
    EXPECT_EQ(gk::extents(std::span<const std::int64_t>(wide)), (gk::extents{4, 5, 6}));
    EXPECT_EQ(gk::extents(std::span<const std::int32_t>(narrow)), (gk::extents{4, 5, 6}));
    EXPECT_EQ(gk::extents(std::span<const std::int32_t>()), gk::extents{});
    const std::vector<std::int64_t> eight{1, 2, 3, 4, 5, 6, 7, 8};
    const gk::extents e{std::span<const std::int64_t>(eight)};
    EXPECT_EQ(e.rank(), 8U);
    EXPECT_EQ(e.values().size(), 5U);
    EXPECT_EQ(gk::extents::filled(9, 1).rank(), 9U);
}

TEST(extents, appends_and_never_writes_past_its_array) {
    gk::extents e;
    for (std::int64_t i = 0; i < 9; ++i) e.push_back(i);
    EXPECT_EQ(e.rank(), 9U);
    EXPECT_EQ(std::vector<std::int64_t>(e.values().begin(), e.values().end()),
              (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(extents, operators_refuse_longer_ones) {
    const gk::convolution_attributes a{.strides = {1, 1}, .dilations = {1, 1}};
    EXPECT_EQ(gk::infer_convolution({1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}, a).error().code, gk::errc::unsupported);
    EXPECT_EQ(gk::infer_convolution({1, 4, 4, 1}, {1, 1, 1, 1, 1, 1, 1}, a).error().code, gk::errc::unsupported);
    gk::convolution_attributes b = a;
    b.strides = {1, 1, 1, 1, 1, 1, 1};
    EXPECT_EQ(gk::infer_convolution({1, 4, 4, 1}, {1, 1, 1, 1}, b).error().code, gk::errc::invalid_argument);
}

TEST(tensor_layout, strides_default_to_dense_rows) {
    EXPECT_EQ(gk::shape::strides_of({2, 3, 4}), (gk::extents{12, 4, 1}));
    EXPECT_EQ(gk::shape::strides_of({2, 0, 4}), (gk::extents{4, 4, 1})) << "as if empty axes had one entry";
    EXPECT_EQ(gk::shape::strides_of({{2, 3}, {-1, 0}}), (gk::extents{-1, 0}));
    const gk::shape::canonical_strides ncx = gk::shape::activation_strides({2, 3, 4, 5}, gk::data_format::ncx);
    EXPECT_EQ(ncx, (gk::shape::canonical_strides{60, 20, 0, 5, 1}));
    const gk::shape::canonical_strides nxc = gk::shape::activation_strides({2, 4, 5, 3}, gk::data_format::nxc);
    EXPECT_EQ(nxc, (gk::shape::canonical_strides{60, 1, 0, 15, 3}));
    EXPECT_EQ(gk::shape::filter_strides({6, 2, 5}, gk::weights_format::oix, false),
              (gk::shape::canonical_strides{10, 5, 0, 0, 1}));
    EXPECT_EQ(gk::shape::filter_strides({6, 2, 5}, gk::weights_format::oix, true),
              (gk::shape::canonical_strides{5, 10, 0, 0, 1}));
    EXPECT_EQ(gk::shape::filter_strides({5, 2, 6}, gk::weights_format::xio, false),
              (gk::shape::canonical_strides{1, 6, 0, 0, 12}));
}

// Two elements of an output in one place are refused; distinct ones are accepted: brute force over small cases.
TEST(tensor_layout, overlapping_outputs_are_found) {
    const auto accepted = [](const gk::extents& shape, const gk::extents& strides) {
        gk::shape::operator_checks checks("test");
        checks.addresses("out", {shape, strides}, 4, true);
        return checks.ok();
    };
    int distinct_seen = 0;
    for (std::int64_t n = 1; n <= 3; ++n) {
        for (std::int64_t m = 1; m <= 3; ++m) {
            for (std::int64_t s = -5; s <= 5; ++s) {
                for (std::int64_t t = -5; t <= 5; ++t) {
                    std::vector<std::int64_t> places;
                    for (std::int64_t i = 0; i < n; ++i)
                        for (std::int64_t j = 0; j < m; ++j) places.push_back(i * s + j * t);
                    bool distinct = true;
                    for (std::size_t a = 0; a < places.size(); ++a)
                        for (std::size_t b = 0; b < a; ++b) distinct = distinct && places[a] != places[b];
                    const bool nested = accepted({n, m}, {s, t});
                    EXPECT_TRUE(distinct || !nested) << n << ' ' << m << ' ' << s << ' ' << t;
                    distinct_seen += distinct && nested ? 1 : 0;
                }
            }
        }
    }
    EXPECT_GT(distinct_seen, 300);
    EXPECT_TRUE(accepted({2, 3, 4}, {12, 4, 1}));
    EXPECT_TRUE(accepted({2, 3, 4}, {1, 8, 2}));
    EXPECT_TRUE(accepted({2, 1, 4}, {4, 0, 1}));
    EXPECT_FALSE(accepted({2, 3, 4}, {12, 3, 1}));
    EXPECT_FALSE(accepted({2, 3, 4}, {12, 4, 0}));
    EXPECT_FALSE(accepted({2, 2}, {INT64_MIN, INT64_MIN}));
}

TEST(tensor_layout, address_arithmetic_is_checked) {
    const auto code = [](const gk::extents& shape, const gk::extents& strides, std::int64_t bytes) {
        gk::shape::operator_checks checks("test");
        checks.addresses("in", {shape, strides}, bytes, false);
        return checks.error().code;
    };
    EXPECT_EQ(code({2}, {INT64_MAX / 2}, 2), gk::errc::overflow);
    EXPECT_EQ(code({2}, {INT64_MAX / 8}, 4), gk::errc::ok);
    EXPECT_EQ(code({3, 3}, {INT64_MAX, INT64_MIN}, 1), gk::errc::overflow);
    EXPECT_EQ(code({2, 2}, {INT64_MAX / 2, INT64_MIN / 2}, 1), gk::errc::overflow);
    EXPECT_EQ(code({0}, {INT64_MAX}, 8), gk::errc::ok);
    EXPECT_EQ(code({2, 2}, {1}, 4), gk::errc::invalid_argument);
    EXPECT_EQ(code({2, 2}, {0, 0}, 4), gk::errc::ok) << "inputs may repeat elements";
}

}  // namespace
