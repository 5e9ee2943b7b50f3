// The oneDNN Graph front end: hand-made numbers in the documents' words, the spellings it takes, where shapes come
// from, and errors that name the documents' arguments.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onednn_graph.hpp>

#include "support/spec_rows.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;
namespace og = gradkern::onednn_graph;
using gk::errc;
using gk::error;
using gk::expectation;
using gk::extents;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

template <class T>
test_tensor<T> tensor_of(const extents& shape, const std::vector<float>& values) {
    test_tensor<T> t(shape);
    t.fill([&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
    return t;
}

// Equal, both NaN, or apart by the rounding of a quotient or two.
template <class T>
void expect_values(const test_tensor<T>& got, const std::vector<float>& expected) {
    ASSERT_EQ(got.count(), static_cast<std::int64_t>(expected.size()));
    for (std::int64_t i = 0; i < got.count(); ++i) {
        const float e = expected[static_cast<std::size_t>(i)];
        const float g = got.value(i);
        if (std::isnan(e)) {
            EXPECT_TRUE(std::isnan(g)) << i << ": " << g;
        } else if (std::isinf(e)) {
            EXPECT_EQ(g, e) << i;
        } else {
            EXPECT_NEAR(g, e, 4e-7F * std::abs(e)) << i;
        }
    }
    EXPECT_TRUE(got.surroundings_intact());
}

const char* data_word(const variant& v) { return v.is_ncx() ? "NCX" : "NXC"; }
const char* filter_word(const variant& v) { return v.is_oix() ? "OIX" : "XIO"; }

// --------------------------------------------------------------------------------------------------- AvgPoolBackprop

struct pool_row {
    std::string_view name;
    std::int64_t size, k, s, pb, pe;
    std::string_view auto_pad, rounding;
    bool exclude_pad;
    std::vector<float> output_delta, input_delta;
};

const std::vector<pool_row>& pool_rows() {
    static const std::vector<pool_row> rows{
        {"1", 6, 3, 2, 1, 0, "none", "floor", false, {1, 2, 3}, {1.0F / 3, 1, 2.0F / 3, 5.0F / 3, 1, 1}},
        {"2", 6, 3, 2, 1, 0, "none", "floor", true, {1, 2, 3}, {0.5F, 7.0F / 6, 2.0F / 3, 5.0F / 3, 1, 1}},
        {"3", 5, 2, 1, 0, 0, "same_lower", "floor", true, {1, 2, 3, 4, 5}, {2, 2.5F, 3.5F, 4.5F, 2.5F}},
        {"4", 5, 2, 1, 0, 0, "same_upper", "floor", true, {1, 2, 3, 4, 5}, {0.5F, 1.5F, 2.5F, 3.5F, 7}},
        {"5", 6, 2, 2, 1, 1, "valid", "floor", false, {1, 1, 1}, {0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F}},
        {"6", 7, 1, 4, 0, 0, "same_upper", "floor", false, {5, 9}, {5, 0, 0, 0, 9, 0, 0}},
        {"7", 3, 2, 1, 2, 2, "none", "floor", true, {1, 2, 3, 4, 5, 6}, {3.5F, 3.5F, 7}},
        {"12 incl", 6, 3, 2, 1, 1, "none", "ceil", false, {6, 6, 6, 6}, {2, 4, 2, 4, 2, 5}},
        {"12 excl", 6, 3, 2, 1, 1, "none", "ceil", true, {6, 6, 6, 6}, {3, 5, 2, 4, 2, 8}},
        {"14", 5, 2, 3, 1, 1, "none", "ceil", true, {2, 2, 2}, {2, 0, 1, 1, 0}},
        {"20 NaN", 3, 2, 1, 0, 0, "none", "floor", false, {nan, 1}, {nan, nan, 0.5F}},
        {"20 Inf", 3, 2, 1, 0, 0, "none", "floor", false, {inf, -inf}, {inf, nan, -inf}},
    };
    return rows;
}

og::AvgPoolBackprop_attributes attributes_of(const pool_row& row, const variant& v) {
    return {.strides = v.axes(row.s, 1),
            .pads_begin = v.axes(row.pb, 0),
            .pads_end = v.axes(row.pe, 0),
            .kernel = v.axes(row.k, 1),
            .exclude_pad = row.exclude_pad,
            .auto_pad = row.auto_pad,
            .data_format = data_word(v),
            .input_shape = v.activation(1, 1, row.size),
            .rounding_type = row.rounding};
}

TEST(onednn_graph, avg_pool_rows) {
    for (const pool_row& row : pool_rows()) {
        SCOPED_TRACE(row.name);
        for_each_variant([&](const variant& v) {
            SCOPED_TRACE(v.name());
            const auto a = attributes_of(row, v);
            const auto delta = tensor_of<float>(v.activation(1, 1, static_cast<std::int64_t>(row.output_delta.size())),
                                                row.output_delta);
            const auto shape = og::infer_AvgPoolBackprop(delta.shape(), {}, a);
            ASSERT_TRUE(shape.has_value()) << gk::to_string(shape.error());
            ASSERT_EQ(*shape, a.input_shape.values());
            test_tensor<float> result(*shape);
            const gk::status s = og::AvgPoolBackprop<float>(delta.const_view(), {}, a, result.view());
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_values(result, row.input_delta);
            // planned, under the other name
            ASSERT_EQ(og::infer_AvgPoolBackward(delta.shape(), {}, a).value(), *shape);
            const auto plan = og::plan_AvgPoolBackward<float>(delta.layout(), {}, a, result.layout());
            ASSERT_TRUE(plan.has_value());
            std::vector<std::byte> workspace(plan->workspace_bytes());
            test_tensor<float> again(*shape);
            ASSERT_TRUE(plan->run(delta.data(), again.data(), workspace).ok());
            EXPECT_TRUE(again.equals(result));
            EXPECT_GT(plan->describe({}), 0U);
        });
    }
}

// Row 8.
TEST(onednn_graph, avg_pool_refuses_a_wrong_output_delta) {
    for_each_variant([](const variant& v) {
        const auto a = attributes_of(pool_rows()[0], v);
        EXPECT_EQ(og::infer_AvgPoolBackprop(v.activation(1, 1, 4), {}, a).error(),
                  (error{errc::invalid_shape, "AvgPoolBackprop", "output_delta", v.spatial_axis(), 4, 3,
                         expectation::equal}));
    });
}

// Rows 9 and 10.
TEST(onednn_graph, avg_pool_shape_input_wins_over_the_attribute) {
    for_each_variant([](const variant& v) {
        SCOPED_TRACE(v.name());
        auto a = attributes_of(pool_rows()[0], v);
        const extents delta = v.activation(1, 1, 3);
        a.input_shape = {};
        EXPECT_EQ(og::infer_AvgPoolBackprop(delta, {}, a).error(),
                  (error{errc::missing_shape, "AvgPoolBackprop", "input_shape", -1, 0, 0, expectation::none}));
        EXPECT_EQ(og::plan_AvgPoolBackprop<float>(delta, {}, a).error().code, errc::missing_shape);
        // an output tensor is no substitute
        EXPECT_EQ(og::plan_AvgPoolBackprop<float>(delta, {}, a, v.activation(1, 1, 6)).error().code,
                  errc::missing_shape);
        const auto dy = tensor_of<float>(delta, {1, 2, 3});
        test_tensor<float> result(v.activation(1, 1, 6));
        EXPECT_EQ(og::AvgPoolBackprop<float>(dy.const_view(), {}, a, result.view()).code(), errc::missing_shape);
        std::vector<std::int64_t> s64;
        std::vector<std::int32_t> s32;
        const extents shape = v.activation(1, 1, 6);
        for (const std::int64_t e : shape.values()) {
            s64.push_back(e);
            s32.push_back(static_cast<std::int32_t>(e));
        }
        for (const auto& ignored : {extents{}, extents{9, 9, 9}, extents{-1}, extents::filled(9, 0)}) {
            a.input_shape = ignored;
            for (const og::shape_input& given :
                 {og::shape_input(s64), og::shape_input(s32), og::shape_input(std::span<const std::int64_t>(s64)),
                  og::shape_input(std::span<const std::int32_t>(s32))}) {
                ASSERT_EQ(*og::infer_AvgPoolBackprop(delta, given, a), shape);
                result.poison();
                ASSERT_TRUE(og::AvgPoolBackward<float>(dy.const_view(), given, a, result.view()).ok());
                expect_values(result, pool_rows()[0].input_delta);
            }
        }
    });
}

// Row 11: two axes, three channels innermost; NXC and floor are the defaults.
TEST(onednn_graph, avg_pool_defaults_to_nxc) {
    const og::AvgPoolBackprop_attributes a{
        .strides = {2, 2}, .kernel = {2, 2}, .exclude_pad = false, .input_shape = {1, 2, 2, 3}};
    const auto delta = tensor_of<float>({1, 1, 1, 3}, {4, 8, 12});
    test_tensor<float> result({1, 2, 2, 3});
    ASSERT_TRUE(og::AvgPoolBackprop<float>(delta.const_view(), {}, a, result.view()).ok());
    expect_values(result, {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3});
}

// Row 13: the number of windows depends on the rounding type.
TEST(onednn_graph, avg_pool_rounding_types) {
    for_each_variant([](const variant& v) {
        auto a = attributes_of({"13", 5, 2, 3, 1, 1, "none", "floor", true, {}, {}}, v);
        constexpr std::array<std::array<std::string_view, 2>, 3> words{
            {{"floor", "FLOOR"}, {"ceil", "CEIL"}, {"ceil_torch", "CEIL_TORCH"}}};
        constexpr std::array<std::int64_t, 3> windows{2, 3, 2};
        for (std::size_t i = 0; i < words.size(); ++i) {
            for (const std::string_view word : words[i]) {
                a.rounding_type = word;
                for (std::int64_t o = 1; o <= 4; ++o)
                    EXPECT_EQ(og::infer_AvgPoolBackprop(v.activation(1, 1, o), {}, a).has_value(), o == windows[i]);
            }
        }
    });
}

// The rounding type applies to valid, without pads; the size of same_* is always ceil(I / s).
TEST(onednn_graph, avg_pool_rounding_with_auto_pad) {
    for_each_variant([](const variant& v) {
        for (const char* rounding : {"floor", "ceil", "ceil_torch"}) {
            auto a = attributes_of({"", 6, 3, 2, 4, 4, "valid", rounding, true, {}, {}}, v);
            const auto fits = [&](std::int64_t o) {
                return og::infer_AvgPoolBackprop(v.activation(1, 1, o), {}, a).has_value();
            };
            const std::int64_t valid = std::string_view(rounding) == "floor" ? 2 : 3;
            for (std::int64_t o = 1; o <= 8; ++o) EXPECT_EQ(fits(o), o == valid) << rounding << o;
            for (const char* same : {"same_upper", "same_lower"}) {
                a.auto_pad = same;
                for (std::int64_t o = 1; o <= 8; ++o) EXPECT_EQ(fits(o), o == 3) << rounding << o;
            }
        }
    });
}

// A window larger than the padded input is a wrong shape; for ceil_torch one that is larger by the stride or more.
TEST(onednn_graph, avg_pool_refuses_a_window_that_never_fits) {
    for_each_variant([](const variant& v) {
        for (const char* rounding : {"floor", "ceil", "ceil_torch"}) {
            const bool torch = std::string_view(rounding) == "ceil_torch";
            const auto a = attributes_of({"", 2, torch ? 5 : 4, 2, 1, 0, "none", rounding, false, {}, {}}, v);
            for (std::int64_t o = 1; o <= 2; ++o)
                EXPECT_EQ(og::infer_AvgPoolBackprop(v.activation(1, 1, o), {}, a).error(),
                          (error{errc::invalid_shape, "AvgPoolBackprop", "input_shape", v.spatial_axis(), 3, 4,
                                 expectation::at_least}));
        }
        const auto a = attributes_of({"", 2, 4, 2, 1, 0, "none", "ceil_torch", false, {}, {}}, v);
        EXPECT_TRUE(og::infer_AvgPoolBackprop(v.activation(1, 1, 1), {}, a).has_value());
        EXPECT_FALSE(og::infer_AvgPoolBackprop(v.activation(1, 1, 2), {}, a).has_value());
    });
}

// divisor_override replaces the divisor of every window, and may be negative.
TEST(onednn_graph, avg_pool_divisor_override) {
    for_each_variant([](const variant& v) {
        for (const bool exclude_pad : {false, true}) {
            auto a = attributes_of({"", 6, 3, 2, 1, 0, "none", "floor", exclude_pad, {}, {}}, v);
            a.divisor_override = -4;
            const auto delta = tensor_of<float>(v.activation(1, 1, 3), {4, 8, 12});
            test_tensor<float> result(v.activation(1, 1, 6));
            ASSERT_TRUE(og::AvgPoolBackprop<float>(delta.const_view(), {}, a, result.view()).ok());
            expect_values(result, {-1, -3, -2, -5, -3, -3});
        }
    });
}

// Row 15: windows overlap on three axes.
TEST(onednn_graph, avg_pool_accumulates_in_three_dimensions) {
    for (const char* format : {"NCX", "NXC"}) {
        const bool ncx = std::string_view(format) == "NCX";
        const og::AvgPoolBackprop_attributes a{.strides = {1, 1, 1},
                                               .kernel = {2, 2, 2},
                                               .exclude_pad = true,
                                               .data_format = format,
                                               .input_shape = ncx ? extents{1, 1, 3, 3, 3} : extents{1, 3, 3, 3, 1}};
        const auto delta =
            tensor_of<float>(ncx ? extents{1, 1, 2, 2, 2} : extents{1, 2, 2, 2, 1}, std::vector<float>(8, 8.0F));
        test_tensor<float> result(a.input_shape.values());
        ASSERT_TRUE(og::AvgPoolBackprop<float>(delta.const_view(), {}, a, result.view()).ok());
        std::vector<float> expected;
        for (int d = 0; d < 3; ++d)
            for (int h = 0; h < 3; ++h)
                for (int w = 0; w < 3; ++w)
                    expected.push_back(static_cast<float>(1 << ((d == 1) + (h == 1) + (w == 1))));
        expect_values(result, expected);
    }
}

// Row 16.
TEST(onednn_graph, avg_pool_refuses_bad_attributes) {
    for_each_variant([](const variant& v) {
        const auto good = attributes_of(pool_rows()[0], v);
        const extents delta = v.activation(1, 1, 3);
        const auto last = static_cast<int>(v.rank) - 1;
        const auto expect = [&](const og::AvgPoolBackprop_attributes& a, std::string_view argument, int axis) {
            const error e = og::infer_AvgPoolBackprop(delta, {}, a).error();
            EXPECT_EQ(e.code, errc::invalid_argument) << argument;
            EXPECT_EQ(e.op, "AvgPoolBackprop");
            EXPECT_EQ(e.argument, argument);
            EXPECT_EQ(e.axis, axis) << argument;
        };
        auto a = good;
        a.strides = v.axes(0, 1);
        expect(a, "strides", last);
        a.strides = extents::filled(v.rank + 1, 1);
        expect(a, "strides", -1);
        a.strides = {};
        expect(a, "strides", -1);
        a = good;
        a.pads_begin = v.axes(-1, 0);
        expect(a, "pads_begin", last);
        a = good;
        a.pads_end = v.axes(-1, 0);
        a.auto_pad = "valid";
        expect(a, "pads_end", last);
        a = good;
        a.kernel = v.axes(0, 1);
        expect(a, "kernel", last);
        a.kernel = {};
        expect(a, "kernel", -1);
        a = good;
        a.exclude_pad = std::nullopt;
        expect(a, "exclude_pad", -1);
        a = good;
        a.auto_pad = "same";
        expect(a, "auto_pad", -1);
        a = good;
        a.data_format = "NCHW";
        expect(a, "data_format", -1);
        a = good;
        a.rounding_type = "round";
        expect(a, "rounding_type", -1);
        a = good;
        a.divisor_override = 0;
        expect(a, "divisor_override", -1);
        a.divisor_override = -2;
        EXPECT_TRUE(og::infer_AvgPoolBackprop(delta, {}, a).has_value());
    });
}

// Row 17.
TEST(onednn_graph, avg_pool_takes_an_empty_batch) {
    for_each_variant([](const variant& v) {
        auto a = attributes_of(pool_rows()[0], v);
        a.input_shape = v.activation(0, 1, 6);
        const gk::tensor_layout delta = v.activation(0, 1, 3);
        EXPECT_TRUE(og::AvgPoolBackprop<float>({nullptr, delta}, {}, a, {nullptr, v.activation(0, 1, 6)}).ok());
    });
}

// Rows 18 and 19: sums of 16-bit types are in f32, rounded once.
template <class T>
float largest_of_a_thousand() {
    og::AvgPoolBackprop_attributes a{
        .strides = {1}, .kernel = {3000}, .exclude_pad = false, .input_shape = {1, 4000, 1}, .divisor_override = 1};
    const auto delta = tensor_of<T>({1, 1001, 1}, std::vector<float>(1001, 1.0F));
    test_tensor<T> result({1, 4000, 1});
    const auto plan = og::plan_AvgPoolBackprop<T>(delta.layout(), {}, a);
    std::vector<std::byte> workspace(plan->workspace_bytes());
    const gk::status s = og::AvgPoolBackprop<T>(delta.const_view(), {}, a, result.view(), {.workspace = workspace});
    EXPECT_TRUE(s.ok()) << gk::to_string(s);
    float largest = 0;
    for (std::int64_t i = 0; i < 4000; ++i) largest = std::max(largest, result.value(i));
    return largest;
}

TEST(onednn_graph, avg_pool_sums_16_bit_types_in_f32) {
    EXPECT_EQ(largest_of_a_thousand<gk::bfloat16>(), 1000.0F);
    EXPECT_EQ(largest_of_a_thousand<gk::float16>(), 1001.0F);
    for_each_variant([](const variant& v) {
        const auto a = attributes_of({"19", 6, 3, 1, 0, 0, "none", "floor", false, {}, {}}, v);
        const auto delta = tensor_of<gk::float16>(v.activation(1, 1, 4), {1, 1, 1, 1});
        test_tensor<gk::float16> result(v.activation(1, 1, 6));
        ASSERT_TRUE(og::AvgPoolBackprop<gk::float16>(delta.const_view(), {}, a, result.view()).ok());
        const std::array<float, 6> expected{.333251953125F, .66650390625F, 1, 1, .66650390625F, .333251953125F};
        for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(result.value(i), expected[static_cast<std::size_t>(i)]);
    });
}

// ------------------------------------------------------------------------------------------- ConvolutionBackwardData

og::ConvolutionBackwardData_attributes attributes_of(const backward_data_row& row, const variant& v) {
    og::ConvolutionBackwardData_attributes a{.strides = v.axes(row.stride, 1),
                                             .pads_begin = v.axes(row.pad_begin, 0),
                                             .pads_end = v.axes(row.pad_end, 0),
                                             .dilations = v.axes(1, 1),
                                             .auto_pad = row.auto_pad,
                                             .groups = row.groups,
                                             .data_format = data_word(v),
                                             .weights_format = filter_word(v)};
    if (row.output_padding) a.output_padding = v.axes(*row.output_padding, 0);
    if (row.size) a.dst_shape = v.activation(1, row.groups * row.icg, *row.size);
    return a;
}

// Rows 21 to 29. Where the row has no dst_shape, the answer is missing_shape.
TEST(onednn_graph, convolution_rows) {
    for (const backward_data_row& row : backward_data_rows()) {
        SCOPED_TRACE(row.name);
        for_each_variant([&](const variant& v) {
            SCOPED_TRACE(v.name());
            const auto a = attributes_of(row, v);
            const auto diff_dst =
                tensor_of<float>(v.activation(1, row.oc, row.o), v.arrange_activation(row.diff_dst, 1, row.oc, row.o));
            const auto weights = tensor_of<float>(v.filter(row.oc, row.icg, row.k),
                                                  v.arrange_filter(row.weights, row.oc, row.icg, row.k));
            const auto shape = og::infer_ConvolutionBackwardData(diff_dst.shape(), weights.shape(), {}, a);
            ASSERT_EQ(shape.error().code, row.size || row.code != errc::ok ? row.code : errc::missing_shape);
            if (!shape) return;
            test_tensor<float> diff_src(*shape);
            const gk::status s =
                og::ConvolutionBackwardData<float>(diff_dst.const_view(), weights.const_view(), {}, a, diff_src.view());
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_values(diff_src, v.arrange_activation(row.diff_src, 1, row.groups * row.icg, *row.size));
            const auto plan = og::plan_ConvolutionBackpropData<float>(diff_dst.layout(), weights.layout(), {}, a);
            ASSERT_TRUE(plan.has_value());
            std::vector<std::byte> workspace(plan->workspace_bytes());
            test_tensor<float> again(*shape);
            ASSERT_TRUE(plan->run(diff_dst.data(), weights.data(), again.data(), workspace).ok());
            EXPECT_TRUE(again.equals(diff_src));
            EXPECT_GT(plan->describe({}), 0U);
        });
    }
}

TEST(onednn_graph, convolution_shape_input_wins_over_the_attribute) {
    og::ConvolutionBackwardData_attributes a{.strides = {2}, .dilations = {1}, .output_padding = {1}};
    const auto diff_dst = tensor_of<float>({1, 3, 1}, {1, 2, 3});
    const auto weights = tensor_of<float>({3, 1, 1}, {1, 10, 100});
    const error missing{errc::missing_shape, "ConvolutionBackwardData", "dst_shape", -1, 0, 0, expectation::none};
    EXPECT_EQ(og::infer_ConvolutionBackwardData(diff_dst.shape(), weights.shape(), {}, a).error(), missing);
    EXPECT_EQ(og::plan_ConvolutionBackwardData<float>(diff_dst.layout(), weights.layout(), {}, a).error(), missing);
    test_tensor<float> diff_src({1, 8, 1});
    EXPECT_EQ(
        og::ConvolutionBackwardData<float>(diff_dst.const_view(), weights.const_view(), {}, a, diff_src.view()).error(),
        missing);
    a.dst_shape = {9, 9, 9, 9, 9, 9, 9};
    const std::array<std::int32_t, 3> s32{1, 8, 1};
    const std::array<std::int64_t, 3> s64{1, 8, 1};
    for (const og::shape_input& given : {og::shape_input(s32), og::shape_input(s64)}) {
        diff_src.poison();
        ASSERT_TRUE(
            og::ConvolutionBackpropData<float>(diff_dst.const_view(), weights.const_view(), given, a, diff_src.view())
                .ok());
        expect_values(diff_src, {1, 10, 102, 20, 203, 30, 300, 0});
        EXPECT_EQ(*og::infer_ConvolutionBackpropData(diff_dst.shape(), weights.shape(), given, a), diff_src.shape());
    }
    EXPECT_EQ(og::infer_ConvolutionBackwardData(diff_dst.shape(), weights.shape(), {}, a).error(),
              (error{errc::invalid_shape, "ConvolutionBackwardData", "dst_shape", -1, 7, 3, expectation::equal}));
}

// -------------------------------------------------------------------------------------- ConvTransposeBackpropFilters

// Rows 30 to 32 and 34.
TEST(onednn_graph, conv_transpose_rows) {
    for (const backward_filter_row& row : backward_filter_rows()) {
        SCOPED_TRACE(row.name);
        for_each_variant([&](const variant& v) {
            SCOPED_TRACE(v.name());
            const std::int64_t ocg = row.oc / row.groups;
            const og::ConvTransposeBackpropFilters_attributes a{.strides = v.axes(row.stride, 1),
                                                                .pads_begin = v.axes(row.pad_begin, 0),
                                                                .pads_end = v.axes(row.pad_end, 0),
                                                                .dilations = v.axes(1, 1),
                                                                .groups = row.groups,
                                                                .data_format = data_word(v),
                                                                .filter_format = filter_word(v),
                                                                .filter_shape = v.filter(ocg, row.ic, row.k)};
            const auto forward = tensor_of<float>(v.activation(row.n, row.ic, row.o),
                                                  v.arrange_activation(row.src, row.n, row.ic, row.o));
            const auto delta = tensor_of<float>(v.activation(row.n, row.oc, row.size),
                                                v.arrange_activation(row.diff_dst, row.n, row.oc, row.size));
            const auto shape = og::infer_ConvTransposeBackpropFilters(forward.shape(), delta.shape(), {}, a);
            ASSERT_TRUE(shape.has_value()) << gk::to_string(shape.error());
            test_tensor<float> filter_delta(*shape);
            const gk::status s = og::ConvTransposeBackpropFilters<float>(forward.const_view(), delta.const_view(), {},
                                                                         a, filter_delta.view());
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_values(filter_delta, v.arrange_filter(row.diff_weights, ocg, row.ic, row.k));
            const auto plan = og::plan_ConvTransposeBackwardWeights<float>(forward.layout(), delta.layout(), {}, a,
                                                                           filter_delta.layout());
            ASSERT_TRUE(plan.has_value());
            std::vector<std::byte> workspace(plan->workspace_bytes());
            test_tensor<float> again(*shape);
            ASSERT_TRUE(plan->run(forward.data(), delta.data(), again.data(), workspace).ok());
            EXPECT_TRUE(again.equals(filter_delta));
            EXPECT_GT(plan->describe({}), 0U);
        });
    }
}

// Row 33.
TEST(onednn_graph, conv_transpose_filter_shape_is_required_and_transposed) {
    for_each_variant([](const variant& v) {
        SCOPED_TRACE(v.name());
        og::ConvTransposeBackpropFilters_attributes a{.strides = v.axes(1, 1),
                                                      .dilations = v.axes(1, 1),
                                                      .groups = 2,
                                                      .data_format = data_word(v),
                                                      .filter_format = filter_word(v)};
        const extents forward = v.activation(1, 4, 1);
        const extents delta = v.activation(1, 6, 1);
        const error missing{errc::missing_shape, "ConvTransposeBackpropFilters", "filter_shape", -1, 0, 0,
                            expectation::none};
        EXPECT_EQ(og::infer_ConvTransposeBackpropFilters(forward, delta, {}, a).error(), missing);
        EXPECT_EQ(og::plan_ConvTransposeBackpropFilters<float>(forward, delta, {}, a).error(), missing);
        EXPECT_EQ(og::plan_ConvTransposeBackpropFilters<float>(forward, delta, {}, a, v.filter(3, 4, 1)).error(),
                  missing);
        a.filter_shape = v.filter(4, 3, 1);
        EXPECT_EQ(og::infer_ConvTransposeBackpropFilters(forward, delta, {}, a).error().code, errc::invalid_shape);
        std::vector<std::int32_t> s32;
        const extents right = v.filter(3, 4, 1);
        for (const std::int64_t e : right.values()) s32.push_back(static_cast<std::int32_t>(e));
        EXPECT_EQ(*og::infer_ConvTransposeBackpropFilters(forward, delta, s32, a), right);
        EXPECT_EQ(*og::infer_ConvTransposeBackwardWeights(forward, delta, right, a), right);
    });
}

// Weight gradients of 16-bit inputs may be f32.
TEST(onednn_graph, conv_transpose_filter_delta_may_be_f32) {
    const og::ConvTransposeBackpropFilters_attributes a{.strides = {2}, .dilations = {1}, .filter_shape = {3, 1, 1}};
    const auto forward = tensor_of<gk::float16>({1, 3, 1}, {1, 2, 3});
    const auto delta = tensor_of<gk::float16>({1, 7, 1}, {1, 10, 100, 1000, 10000, 0, 1});
    test_tensor<float> wide({3, 1, 1});
    ASSERT_TRUE(
        og::ConvTransposeBackwardWeights<gk::float16>(forward.const_view(), delta.const_view(), {}, a, wide.view())
            .ok());
    expect_values(wide, {30201, 2010, 20103});
}

// ---------------------------------------------------------------------------------------------------------- spelling

TEST(onednn_graph, words_in_every_spelling) {
    const auto pads = [](const og::word<gk::auto_pad>& w) {
        // k = 2, s = 1 and an input of 5: the window count and the first element tell the modes apart
        const og::AvgPoolBackprop_attributes a{.strides = {1},
                                               .pads_begin = {1},
                                               .pads_end = {1},
                                               .kernel = {2},
                                               .exclude_pad = true,
                                               .auto_pad = w,
                                               .input_shape = {1, 5, 1}};
        for (std::int64_t o = 1; o <= 7; ++o) {
            const auto delta = tensor_of<float>({1, o, 1}, {1, 2, 3, 4, 5, 6, 7});
            test_tensor<float> result({1, 5, 1});
            const gk::status s = og::AvgPoolBackprop<float>(delta.const_view(), {}, a, result.view());
            if (s.ok()) return std::string(1, static_cast<char>('0' + o)) + (result.value(0) == 2 ? " lower" : "");
            if (s.code() == errc::invalid_argument) return std::string("unknown");
        }
        return std::string("none fits");
    };
    for (const char* w : {"none", "None", "NONE", "NOTSET"}) EXPECT_EQ(pads(w), "6 lower") << w;
    for (const char* w : {"same_upper", "SAME_UPPER"}) EXPECT_EQ(pads(w), "5") << w;
    for (const char* w : {"same_lower", "SAME_LOWER"}) EXPECT_EQ(pads(w), "5 lower") << w;
    for (const char* w : {"valid", "VALID"}) EXPECT_EQ(pads(w), "4") << w;
    for (const char* w : {"", "Same_Upper", "same", "same_upper ", "explicit"}) EXPECT_EQ(pads(w), "unknown") << w;
    EXPECT_EQ(pads({}), "6 lower");
    EXPECT_EQ(pads(static_cast<const char*>(nullptr)), "6 lower");
    EXPECT_EQ(pads(gk::auto_pad::valid), "4");
    EXPECT_EQ(pads(std::string("VALID")), "4");
    EXPECT_EQ(pads(std::string_view("valid")), "4");
    EXPECT_EQ(pads(static_cast<gk::auto_pad>(17)), "unknown");
}

TEST(onednn_graph, formats_in_every_spelling) {
    og::ConvolutionBackwardData_attributes a{.strides = {1}, .dilations = {1}, .groups = 2};
    const auto code = [&](const extents& diff_dst, const extents& weights, const extents& dst_shape) {
        return og::infer_ConvolutionBackwardData(diff_dst, weights, dst_shape, a).error().code;
    };
    const extents oix{4, 3, 1};
    const extents xio{1, 3, 4};
    EXPECT_EQ(code({1, 5, 4}, xio, {1, 5, 6}), errc::ok);  // the defaults
    for (const char* w : {"XIO", "xio"}) {
        a.weights_format = w;
        EXPECT_EQ(code({1, 5, 4}, xio, {1, 5, 6}), errc::ok);
    }
    for (const char* w : {"OIX", "oix"}) {
        a.weights_format = w;
        EXPECT_EQ(code({1, 5, 4}, oix, {1, 5, 6}), errc::ok);
    }
    for (const char* w : {"NCX", "ncx"}) {
        a.data_format = w;
        EXPECT_EQ(code({1, 4, 5}, oix, {1, 6, 5}), errc::ok);
    }
    for (const char* w : {"NXC", "nxc"}) {
        a.data_format = w;
        EXPECT_EQ(code({1, 5, 4}, oix, {1, 5, 6}), errc::ok);
    }
    a.data_format = gk::data_format::ncx;
    a.weights_format = gk::weights_format::xio;
    EXPECT_EQ(code({1, 4, 5}, xio, {1, 6, 5}), errc::ok);
    for (const char* w : {"IOX", "XOI", "OIHW", ""}) {
        a.weights_format = w;
        const error e = og::infer_ConvolutionBackwardData({1, 4, 5}, xio, {{1, 6, 5}}, a).error();
        EXPECT_EQ(e, (error{errc::invalid_argument, "ConvolutionBackwardData", "weights_format", -1, 0, 0,
                            expectation::none}));
    }
    // the ConvTranspose family knows the formats of oneDNN's code, too
    for (const char* w : {"OXI", "OIHW", ""}) {
        const error f = og::infer_ConvTransposeBackpropFilters({1, 5, 4}, {1, 5, 6}, {},
                                                               {.strides = {1}, .dilations = {1}, .filter_format = w})
                            .error();
        EXPECT_EQ(f, (error{errc::invalid_argument, "ConvTransposeBackpropFilters", "filter_format", -1, 0, 0,
                            expectation::none}));
    }
    // an enumerator that does not exist is found by the core, and still has the document's name
    EXPECT_EQ(og::infer_ConvTransposeBackpropFilters(
                  {1, 5, 4}, {1, 5, 6}, {},
                  {.strides = {1}, .dilations = {1}, .filter_format = static_cast<gk::weights_format>(5)})
                  .error()
                  .argument,
              "filter_format");
}

TEST(onednn_graph, vectors_come_from_any_integers) {
    const std::vector<std::int64_t> vector{2, 3};
    const std::array<std::int32_t, 2> array{2, 3};
    const std::array<long long, 2> longs{2, 3};
    const extents expected{2, 3};
    EXPECT_EQ(og::ints(vector).values(), expected);
    EXPECT_EQ(og::ints(array).values(), expected);
    EXPECT_EQ(og::ints(longs).values(), expected);
    EXPECT_EQ(og::ints(std::span<const std::int64_t>(vector)).values(), expected);
    EXPECT_EQ(og::ints(expected).values(), expected);
    EXPECT_EQ(og::ints({2, 3}).values(), expected);
    EXPECT_TRUE(og::ints().empty());
    EXPECT_TRUE(og::ints(std::vector<std::int32_t>{}).empty());
    const og::AvgPoolBackprop_attributes a{
        .strides = vector, .kernel = array, .exclude_pad = true, .input_shape = std::vector<std::int64_t>{1, 4, 6, 2}};
    EXPECT_EQ(*og::infer_AvgPoolBackprop({1, 2, 2, 2}, {}, a), (extents{1, 4, 6, 2}));
}

// The front end works in constant expressions, too.
constexpr bool infers_at_compile_time() {
    og::AvgPoolBackprop_attributes a{
        .strides = {2}, .kernel = {2}, .exclude_pad = true, .auto_pad = "SAME_UPPER", .input_shape = {1, 4, 2}};
    return og::infer_AvgPoolBackprop({1, 2, 2}, {}, a)->rank() == 3;
}
static_assert(infers_at_compile_time());

// ------------------------------------------------------------------------------------------------------------ errors

TEST(onednn_graph, avg_pool_errors_have_the_documents_names) {
    constexpr std::string_view op = "AvgPoolBackprop";
    const og::AvgPoolBackprop_attributes good{.strides = {2},
                                              .pads_begin = {1},
                                              .pads_end = {0},
                                              .kernel = {3},
                                              .exclude_pad = false,
                                              .input_shape = {1, 6, 1}};
    const auto plan = [](const gk::tensor_layout& output_delta, const og::AvgPoolBackprop_attributes& a,
                         const gk::tensor_layout& input_delta = {}) {
        return og::plan_AvgPoolBackprop<float>(output_delta, {}, a, input_delta).error();
    };
    EXPECT_EQ(plan({1, 3}, good), (error{errc::unsupported, op, "output_delta", -1, 2, 3, expectation::at_least}));
    EXPECT_EQ(plan({1, 1, 1, 1, 3, 1}, good),
              (error{errc::unsupported, op, "output_delta", -1, 6, 5, expectation::at_most}));
    EXPECT_EQ(plan({1, 3, 1}, good, {1, 6}),
              (error{errc::unsupported, op, "input_delta", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(plan({1, 3, 1}, good, {1, 7, 1}),
              (error{errc::invalid_shape, op, "input_delta", 1, 7, 6, expectation::equal}));
    EXPECT_EQ(plan({1, 0, 1}, good), (error{errc::invalid_shape, op, "output_delta", 1, 0, 1, expectation::at_least}));
    EXPECT_EQ(plan({2, 3, 1}, good), (error{errc::invalid_shape, op, "output_delta", 0, 2, 1, expectation::equal}));
    EXPECT_EQ(plan({1, 3, 2}, good), (error{errc::invalid_shape, op, "output_delta", 2, 2, 1, expectation::equal}));
    auto a = good;
    a.input_shape = {1, 6};
    EXPECT_EQ(plan({1, 3, 1}, a), (error{errc::invalid_shape, op, "input_shape", -1, 2, 3, expectation::equal}));
    a.input_shape = {1, 0, 1};
    EXPECT_EQ(plan({1, 3, 1}, a), (error{errc::invalid_shape, op, "input_shape", 1, 0, 1, expectation::at_least}));
    a.input_shape = {1, 1, 1};
    EXPECT_EQ(plan({1, 3, 1}, a), (error{errc::invalid_shape, op, "input_shape", 1, 2, 3, expectation::at_least}));
    a.input_shape = {1, std::int64_t{1} << 62, 1};
    EXPECT_EQ(plan({1, 3, 1}, a), (error{errc::overflow, op, "input_shape", -1, 0, 0, expectation::none}));
    // memory
    EXPECT_EQ(plan({1, 3, 1}, good, {extents{1, 6, 1}, extents{6, 0, 1}}),
              (error{errc::invalid_argument, op, "input_delta", 1, 0, 0, expectation::none}));
    const auto delta = tensor_of<float>({1, 3, 1}, {1, 2, 3});
    test_tensor<float> result({1, 6, 1});
    EXPECT_EQ(og::AvgPoolBackprop<float>({nullptr, delta.layout()}, {}, good, result.view()).error(),
              (error{errc::null_pointer, op, "output_delta", -1, 0, 0, expectation::none}));
    EXPECT_EQ(og::AvgPoolBackprop<float>(delta.const_view(), {}, good, {nullptr, result.layout()}).error(),
              (error{errc::null_pointer, op, "input_delta", -1, 0, 0, expectation::none}));
    EXPECT_EQ(og::AvgPoolBackprop<float>({result.data(), delta.layout()}, {}, good, result.view()).error(),
              (error{errc::invalid_argument, op, "input_delta", -1, 0, 0, expectation::none}));
    const auto planned = og::plan_AvgPoolBackprop<float>(delta.layout(), {}, good);
    ASSERT_TRUE(planned.has_value());
    EXPECT_EQ(planned->run(nullptr, result.data()).error(),
              (error{errc::null_pointer, op, "output_delta", -1, 0, 0, expectation::none}));
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(result.value(i)));
}

TEST(onednn_graph, convolution_errors_have_the_documents_names) {
    constexpr std::string_view op = "ConvolutionBackwardData";
    const og::ConvolutionBackwardData_attributes good{.strides = {2}, .dilations = {1}, .dst_shape = {1, 7, 1}};
    const auto plan = [](const gk::tensor_layout& diff_dst, const gk::tensor_layout& weights,
                         const og::ConvolutionBackwardData_attributes& a, const gk::tensor_layout& diff_src = {}) {
        return og::plan_ConvolutionBackwardData<float>(diff_dst, weights, {}, a, diff_src).error();
    };
    const gk::tensor_layout w{3, 1, 1};
    EXPECT_EQ(plan({1, 3}, w, good), (error{errc::unsupported, op, "diff_dst", -1, 2, 3, expectation::at_least}));
    EXPECT_EQ(plan({1, 3, 1}, {3, 1}, good), (error{errc::unsupported, op, "weights", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(plan({1, 3, 1}, w, good, {1, 7}),
              (error{errc::unsupported, op, "diff_src", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(plan({1, 3, 1}, w, good, {1, 8, 1}),
              (error{errc::invalid_shape, op, "diff_src", 1, 8, 7, expectation::equal}));
    EXPECT_EQ(plan({2, 3, 1}, w, good), (error{errc::invalid_shape, op, "dst_shape", 0, 1, 2, expectation::equal}));
    EXPECT_EQ(plan({1, 4, 1}, w, good), (error{errc::invalid_shape, op, "diff_dst", 1, 4, 3, expectation::equal}));
    auto a = good;
    a.strides = {};
    EXPECT_EQ(plan({1, 3, 1}, w, a), (error{errc::invalid_argument, op, "strides", -1, 0, 1, expectation::equal}));
    a = good;
    a.dilations = {};
    EXPECT_EQ(plan({1, 3, 1}, w, a), (error{errc::invalid_argument, op, "dilations", -1, 0, 1, expectation::equal}));
    a = good;
    a.output_padding = {2};
    EXPECT_EQ(plan({1, 3, 1}, w, a),
              (error{errc::invalid_argument, op, "output_padding", 0, 2, 2, expectation::below}));
    a = good;
    a.groups = 0;
    EXPECT_EQ(plan({1, 3, 1}, w, a), (error{errc::invalid_argument, op, "groups", -1, 0, 1, expectation::at_least}));
    a.groups = 2;
    EXPECT_EQ(plan({1, 3, 1}, w, a), (error{errc::invalid_shape, op, "weights", 2, 1, 2, expectation::multiple_of}));
    const auto diff_dst = tensor_of<float>({1, 3, 1}, {1, 2, 3});
    const auto weights = tensor_of<float>({3, 1, 1}, {1, 10, 100});
    test_tensor<float> result({1, 7, 1});
    EXPECT_EQ(og::ConvolutionBackwardData<float>(diff_dst.const_view(), {nullptr, w}, {}, good, result.view()).error(),
              (error{errc::null_pointer, op, "weights", -1, 0, 0, expectation::none}));
    EXPECT_EQ(og::ConvolutionBackwardData<float>(diff_dst.const_view(), weights.const_view(), {}, good,
                                                 {nullptr, result.layout()})
                  .error(),
              (error{errc::null_pointer, op, "diff_src", -1, 0, 0, expectation::none}));
    for (std::int64_t i = 0; i < 7; ++i) EXPECT_TRUE(std::isnan(result.value(i)));
}

TEST(onednn_graph, conv_transpose_errors_have_the_documents_names) {
    constexpr std::string_view op = "ConvTransposeBackpropFilters";
    const og::ConvTransposeBackpropFilters_attributes good{.strides = {2}, .dilations = {1}, .filter_shape = {3, 2, 4}};
    const auto plan = [](const gk::tensor_layout& forward, const gk::tensor_layout& delta,
                         const og::ConvTransposeBackpropFilters_attributes& a,
                         const gk::tensor_layout& filter_delta = {}) {
        return og::plan_ConvTransposeBackpropFilters<float>(forward, delta, {}, a, filter_delta).error();
    };
    const gk::tensor_layout x{1, 3, 2};
    const gk::tensor_layout dy{1, 7, 4};
    EXPECT_EQ(plan(x, dy, good), error{});
    EXPECT_EQ(plan({1, 3}, dy, good), (error{errc::unsupported, op, "input_forward", -1, 2, 3, expectation::at_least}));
    EXPECT_EQ(plan(x, {1, 7}, good), (error{errc::unsupported, op, "output_delta", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(plan(x, dy, good, {3, 2}), (error{errc::unsupported, op, "filter_delta", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(plan(x, dy, good, {4, 2, 4}),
              (error{errc::invalid_shape, op, "filter_delta", 0, 4, 3, expectation::equal}));
    EXPECT_EQ(plan(x, {2, 7, 4}, good), (error{errc::invalid_shape, op, "output_delta", 0, 2, 1, expectation::equal}));
    EXPECT_EQ(plan({1, 3, 5}, dy, good),
              (error{errc::invalid_shape, op, "input_forward", 2, 5, 2, expectation::equal}));
    EXPECT_EQ(plan(x, {1, 7, 5}, good), (error{errc::invalid_shape, op, "output_delta", 2, 5, 4, expectation::equal}));
    EXPECT_EQ(plan(x, {1, 9, 4}, good), (error{errc::invalid_shape, op, "output_delta", 1, 9, 9, expectation::below}));
    auto a = good;
    a.filter_shape = {3, 2};
    EXPECT_EQ(plan(x, dy, a), (error{errc::invalid_shape, op, "filter_shape", -1, 2, 3, expectation::equal}));
    a.filter_shape = {0, 2, 4};
    EXPECT_EQ(plan(x, dy, a), (error{errc::invalid_shape, op, "filter_shape", 0, 0, 1, expectation::at_least}));
    a = good;
    a.groups = 3;
    EXPECT_EQ(plan(x, dy, a), (error{errc::invalid_shape, op, "filter_shape", 1, 2, 3, expectation::multiple_of}));
    a = good;
    a.output_padding = {1};
    EXPECT_EQ(plan(x, dy, a), (error{errc::invalid_shape, op, "output_delta", 1, 7, 8, expectation::equal}));
    a.output_padding = {2};
    EXPECT_EQ(plan(x, dy, a), (error{errc::invalid_argument, op, "output_padding", 0, 2, 2, expectation::below}));
    const auto forward = tensor_of<float>({1, 3, 2}, {1, 2, 3, 4, 5, 6});
    test_tensor<float> result({3, 2, 4});
    EXPECT_EQ(
        og::ConvTransposeBackpropFilters<float>(forward.const_view(), {nullptr, dy}, {}, good, result.view()).error(),
        (error{errc::null_pointer, op, "output_delta", -1, 0, 0, expectation::none}));
    EXPECT_EQ(og::ConvTransposeBackpropFilters<float>({nullptr, x}, {}, {}, good, result.view()).error().argument,
              "output_delta");
    for (std::int64_t i = 0; i < 24; ++i) EXPECT_TRUE(std::isnan(result.value(i)));
}

// Attributes and ranks come before a missing shape, sizes after it.
TEST(onednn_graph, missing_shapes_keep_their_place) {
    og::AvgPoolBackprop_attributes pool{.strides = {2}, .kernel = {3}, .exclude_pad = false};
    og::ConvolutionBackwardData_attributes conv{.strides = {2}, .dilations = {1}};
    og::ConvTransposeBackpropFilters_attributes filters{.strides = {2}, .dilations = {1}};
    const auto codes = [&](const extents& first, const extents& weights, const extents& delta, const extents& out) {
        return std::array{og::plan_AvgPoolBackprop<float>(first, {}, pool, out).error().code,
                          og::plan_ConvolutionBackwardData<float>(first, weights, {}, conv, out).error().code,
                          og::plan_ConvTransposeBackpropFilters<float>(first, delta, {}, filters, out).error().code};
    };
    const auto all = [](errc code) { return std::array{code, code, code}; };
    const extents x{1, 3, 1};
    EXPECT_EQ(codes(x, {3, 1, 1}, {1, 7, 1}, {}), all(errc::missing_shape));
    EXPECT_EQ(codes(x, {3, 1, 1}, {1, 7, 1}, {1, 7, 1}), all(errc::missing_shape));
    EXPECT_EQ(codes({1, 3}, {3, 1, 1}, {1, 7, 1}, {}), all(errc::unsupported));
    EXPECT_EQ(codes(x, {3, 1, 1}, {1, 7, 1}, {1, 7}), all(errc::unsupported));
    EXPECT_EQ(codes(x, {3, 1}, {1, 7}, {})[1], errc::unsupported);
    EXPECT_EQ(codes(x, {3, 1}, {1, 7}, {})[2], errc::unsupported);
    EXPECT_EQ(codes({1, 0, 1}, {3, 0, 1}, {1, 0, 1}, {}), all(errc::missing_shape));
    EXPECT_EQ(codes({1, std::int64_t{1} << 62, 1}, {3, 1, 1}, {1, 7, 1}, {}), all(errc::missing_shape));
    EXPECT_EQ(codes({1, 3, 2}, {3, 1, 1}, {2, 7, 1}, {}), all(errc::missing_shape));
    pool.strides = conv.strides = filters.strides = {0};
    EXPECT_EQ(codes(x, {3, 1, 1}, {1, 7, 1}, {}), all(errc::invalid_argument));
    EXPECT_EQ(codes(x, {3, 1, 1}, {1, 7, 1}, {1, 7}), all(errc::invalid_argument));
}

}  // namespace
}  // namespace gradkern_test
