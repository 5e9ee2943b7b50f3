// Shapes, strides and views.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gradkern/convolution.hpp>
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
static_assert(gk::tensor_layout{}.empty() && gk::tensor_layout{1, 2, 3}.is_dense());
static_assert(std::is_convertible_v<gk::tensor_view<float>, gk::tensor_view<const float>>);
static_assert(!std::is_convertible_v<gk::tensor_view<const float>, gk::tensor_view<float>>);
static_assert(std::is_trivially_copyable_v<gk::tensor_view<float>>);

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
