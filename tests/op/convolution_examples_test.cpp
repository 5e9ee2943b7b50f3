// Small problems with results computed by hand, each in one, two and three dimensions and in every layout, by every
// path and by the reference.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// A one-dimensional problem. Values are in the order NCX and OIX.
struct example {
    const char* name;
    conv_operator op;
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
    std::int64_t pad_begin = 0;
    std::int64_t pad_end = 0;
    gk::auto_pad auto_pad = gk::auto_pad::none;
    std::int64_t groups = 1;
    std::int64_t large_channels = 1;
    std::int64_t large = 1;
    std::int64_t small_channels = 1;
    std::int64_t small = 1;
    std::vector<float> first{};
    std::vector<float> second{};
    std::vector<float> expected{};
};

std::vector<float> ramp(std::size_t n) {  // 1, 2, 3, ...
    std::vector<float> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i + 1);
    return v;
}
std::vector<float> powers(std::size_t n) {  // 1, 10, 100, ...
    std::vector<float> v(n);
    float p = 1;
    for (float& e : v) {
        e = p;
        p *= 10;
    }
    return v;
}

std::vector<example> examples() {
    constexpr auto data = conv_operator::convolution_backward_data;
    constexpr auto filter_gradient = conv_operator::conv_transpose_backward_weights;
    return {
        {.name = "same_upper",
         .op = data,
         .kernel = 4,
         .auto_pad = gk::auto_pad::same_upper,
         .large = 3,
         .small = 3,
         .first = ramp(3),
         .second = powers(4),
         .expected = {12, 123, 1230}},
        {.name = "same_lower",
         .op = data,
         .kernel = 4,
         .auto_pad = gk::auto_pad::same_lower,
         .large = 3,
         .small = 3,
         .first = ramp(3),
         .second = powers(4),
         .expected = {123, 1230, 2300}},
        {.name = "stride_2",
         .op = data,
         .kernel = 3,
         .stride = 2,
         .large = 7,
         .small = 3,
         .first = ramp(3),
         .second = powers(3),
         .expected = {1, 10, 102, 20, 203, 30, 300}},
        {.name = "stride_2_surplus",
         .op = data,
         .kernel = 3,
         .stride = 2,
         .large = 8,
         .small = 3,
         .first = ramp(3),
         .second = powers(3),
         .expected = {1, 10, 102, 20, 203, 30, 300, 0}},
        {.name = "valid_ignores_pads",
         .op = data,
         .kernel = 3,
         .stride = 2,
         .pad_begin = 5,
         .pad_end = 5,
         .auto_pad = gk::auto_pad::valid,
         .large = 8,
         .small = 3,
         .first = ramp(3),
         .second = powers(3),
         .expected = {1, 10, 102, 20, 203, 30, 300, 0}},
        {.name = "groups",
         .op = data,
         .groups = 2,
         .large_channels = 6,
         .small_channels = 4,
         .first = ramp(4),
         .second = ramp(12),
         .expected = {9, 12, 15, 61, 68, 75}},
        {.name = "zero_times_infinity",
         .op = data,
         .kernel = 2,
         .large = 3,
         .small = 2,
         .first = {0, 1},
         .second = {0, infinity},
         .expected = {0, nan, infinity}},
        {.name = "windows_with_gaps",
         .op = data,
         .kernel = 2,
         .stride = 4,
         .auto_pad = gk::auto_pad::same_upper,
         .large = 8,
         .small = 2,
         .first = {1, 2},
         .second = {1, 10},
         .expected = {1, 10, 0, 0, 2, 20, 0, 0}},
        {.name = "filter_gradient",
         .op = filter_gradient,
         .kernel = 3,
         .stride = 2,
         .large = 7,
         .small = 3,
         .first = ramp(3),
         .second = powers(7),
         .expected = {30201, 302010, 3020100}},
        {.name = "filter_gradient_surplus",
         .op = filter_gradient,
         .kernel = 3,
         .stride = 2,
         .large = 8,
         .small = 3,
         .first = ramp(3),
         .second = powers(8),
         .expected = {30201, 302010, 3020100}},
        {.name = "filter_gradient_pads",
         .op = filter_gradient,
         .kernel = 3,
         .stride = 2,
         .pad_begin = 1,
         .pad_end = 1,
         .large = 5,
         .small = 3,
         .first = ramp(3),
         .second = powers(5),
         .expected = {3020, 30201, 2010}},
        {.name = "filter_gradient_groups",
         .op = filter_gradient,
         .groups = 2,
         .large_channels = 6,
         .small_channels = 4,
         .first = ramp(4),
         .second = powers(6),
         .expected = {1, 2, 3000, 4000, 10, 20, 30000, 40000, 100, 200, 3e5F, 4e5F}},
        {.name = "forward",
         .op = conv_operator::convolution,
         .kernel = 3,
         .stride = 2,
         .pad_begin = 1,
         .large = 6,
         .small = 3,
         .first = powers(6),
         .second = ramp(3),
         .expected = {32, 3210, 321000}},
        {.name = "weights",
         .op = conv_operator::convolution_backward_weights,
         .kernel = 2,
         .pad_begin = 1,
         .large = 3,
         .small = 3,
         .first = powers(3),
         .second = ramp(3),
         .expected = {32, 321}},
        {.name = "transposed_forward",
         .op = conv_operator::conv_transpose,
         .kernel = 3,
         .stride = 2,
         .pad_begin = 1,
         .large = 6,
         .small = 3,
         .first = ramp(3),
         .second = powers(3),
         .expected = {10, 102, 20, 203, 30, 300}},
        {.name = "transposed_data",
         .op = conv_operator::conv_transpose_backward_data,
         .kernel = 2,
         .stride = 3,
         .large = 5,
         .small = 2,
         .first = powers(5),
         .second = {1, 2},
         .expected = {21, 21000}},
    };
}

class convolution_example : public ::testing::TestWithParam<example> {};

// The offset of canonical element (a, b, x) of extents (A, B, X) if the first two axes come last, swapped or not.
std::int64_t inner(std::int64_t flat, std::int64_t b_extent, std::int64_t x_extent, std::int64_t a_extent,
                   bool filter_axes) {
    const std::int64_t x = flat % x_extent;
    const std::int64_t b = flat / x_extent % b_extent;
    const std::int64_t a = flat / x_extent / b_extent;
    return filter_axes ? (x * b_extent + b) * a_extent + a : (a * x_extent + x) * b_extent + b;
}

TEST_P(convolution_example, comes_out_in_every_layout) {
    const example& e = GetParam();
    const bool transposed = e.op >= conv_operator::conv_transpose;
    for (const std::size_t rank : {1U, 2U, 3U}) {
        for (const bool nxc : {false, true}) {
            for (const bool xio : {false, true}) {
                const gk::data_format d = nxc ? gk::data_format::nxc : gk::data_format::ncx;
                const gk::weights_format w = xio ? gk::weights_format::xio : gk::weights_format::oix;
                conv_case c;
                c.op = e.op;
                const auto last = [&](std::int64_t v, std::int64_t others) {
                    gk::extents x = gk::extents::filled(rank, others);
                    x[rank - 1] = v;
                    return x;
                };
                const auto set = [&](auto& a) {
                    a.strides = last(e.stride, 1);
                    a.dilations = last(1, 1);
                    a.pads_begin = last(e.pad_begin, 0);
                    a.pads_end = last(e.pad_end, 0);
                    a.auto_pad = e.auto_pad;
                    a.groups = e.groups;
                    a.data_format = d;
                    a.weights_format = w;
                };
                set(c.conv);
                set(c.transpose);
                const std::int64_t divided = e.large_channels / e.groups;
                const std::int64_t o = transposed ? divided : e.small_channels;
                const std::int64_t i = transposed ? e.small_channels : divided;
                c.large = activation(d, 1, e.large_channels, last(e.large, 1));
                c.small = activation(d, 1, e.small_channels, last(e.small, 1));
                c.weights = filter(w, o, i, last(e.kernel, 1));
                const auto place = [&](const gk::extents& shape, std::int64_t flat) {
                    if (&shape == &c.weights) return xio ? inner(flat, i, e.kernel, o, true) : flat;
                    const bool large = &shape == &c.large;
                    return nxc ? inner(flat, large ? e.large_channels : e.small_channels, large ? e.large : e.small, 1,
                                       false)
                               : flat;
                };
                SCOPED_TRACE(c.text());
                const test_tensor<float> first(c.first());
                const test_tensor<float> second(c.second());
                const auto fill = [&](const test_tensor<float>& t, const gk::extents& shape,
                                      const std::vector<float>& values) {
                    ASSERT_EQ(t.count(), static_cast<std::int64_t>(values.size()));
                    for (std::int64_t k = 0; k < t.count(); ++k)
                        t.set(place(shape, k), values[static_cast<std::size_t>(k)]);
                };
                fill(first, c.first(), e.first);
                fill(second, c.second(), e.second);
                const auto expect = [&](const test_tensor<float>& out) {
                    ASSERT_EQ(out.count(), static_cast<std::int64_t>(e.expected.size()));
                    for (std::int64_t k = 0; k < out.count(); ++k) {
                        const float v = out.value(place(c.result(), k));
                        const float x = e.expected[static_cast<std::size_t>(k)];
                        EXPECT_TRUE(v == x || (std::isnan(v) && std::isnan(x)))
                            << k << ": got " << v << ", expected " << x;
                    }
                };
                test_tensor<float> out(c.result());
                for (const gk::algorithm a : all_algorithms) {
                    out.poison();
                    const planned p = make_plan<float, float, float>(c, first.const_view(), second.const_view(), {},
                                                                     out.view(), {.algorithm = a});
                    if (refuses_algorithm(p.status)) continue;
                    ASSERT_TRUE(p.status.ok()) << gk::to_string(p.status);
                    const guarded_bytes workspace(p.workspace_bytes(1));
                    ASSERT_TRUE(p.run({workspace.data(), workspace.size()}, {}).ok());
                    expect(out);
                }
                out.poison();
                ASSERT_TRUE((run_reference<float, float, float>(c, first.const_view(), second.const_view(), {},
                                                                out.view(), gk::output_mode::overwrite)
                                 .ok()));
                expect(out);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(hand_made, convolution_example, ::testing::ValuesIn(examples()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(convolution_examples, an_empty_batch_gives_empty_data_and_zero_weights) {
    for (const conv_operator op : all_conv_operators) {
        conv_case c;
        c.op = op;
        for (auto* strides : {&c.conv.strides, &c.transpose.strides, &c.conv.dilations, &c.transpose.dilations})
            *strides = {1};
        c.large = {0, 5, 3};
        c.small = {0, 4, 2};
        c.weights = c.transposed() ? gk::extents{2, 2, 3} : gk::extents{2, 3, 2};
        for (const gk::algorithm a : all_algorithms) {
            test_tensor<float> out(c.result());
            const test_tensor<float> weights(c.weights);
            const gk::tensor_view<const float> second =
                c.writes_weights() ? gk::tensor_view<const float>(nullptr, c.second()) : weights.const_view();
            const planned p =
                make_plan<float, float, float>(c, {nullptr, c.first()}, second, {}, out.view(), {.algorithm = a});
            if (refuses_algorithm(p.status)) continue;
            ASSERT_TRUE(p.status.ok()) << gk::to_string(p.status);
            std::vector<std::byte> workspace(p.workspace_bytes(1));
            const gk::status s = p.run(workspace, {});
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            for (std::int64_t k = 0; k < out.count(); ++k) ASSERT_EQ(out.value(k), 0.0F);
            ASSERT_EQ(out.count() == 0, !c.writes_weights());
        }
    }
}

TEST(convolution_examples, wrong_shapes_have_names) {
    const gk::convolution_attributes a{.strides = {2},
                                       .dilations = {1},
                                       .data_format = gk::data_format::ncx,
                                       .weights_format = gk::weights_format::oix};
    const auto data = [&](const gk::extents& diff_src, const gk::convolution_attributes& with) {
        return gk::infer_convolution_backward_data({1, 1, 3}, {1, 1, 3}, with, diff_src);
    };
    EXPECT_EQ(data({1, 1, 6}, a).error().code, gk::errc::invalid_shape);
    EXPECT_EQ(data({1, 1, 9}, a).error().code, gk::errc::invalid_shape);
    EXPECT_EQ(data({1, 1, 9}, a).error().argument, "diff_dst");
    EXPECT_EQ(data({}, a).value(), (gk::extents{1, 1, 7}));
    gk::convolution_attributes padded = a;
    padded.output_padding = {1};
    EXPECT_EQ(data({}, padded).value(), (gk::extents{1, 1, 8}));
    padded.output_padding = {2};
    EXPECT_EQ(data({}, padded).error().code, gk::errc::invalid_argument);
    EXPECT_EQ(gk::plan_convolution_backward_data<float>({1, 3, 1}, {3, 3, 1},
                                                        {.strides = {1},
                                                         .dilations = {1},
                                                         .groups = 2,
                                                         .data_format = gk::data_format::ncx,
                                                         .weights_format = gk::weights_format::oix})
                  .error()
                  .code,
              gk::errc::invalid_shape);

    const gk::conv_transpose_attributes t{.strides = {1},
                                          .dilations = {1},
                                          .groups = 2,
                                          .data_format = gk::data_format::ncx,
                                          .weights_format = gk::weights_format::oix};
    const auto weights = [&](const gk::tensor_layout& w) {
        return gk::plan_conv_transpose_backward_weights<float>({1, 4, 1}, {1, 6, 1}, t, w).error();
    };
    EXPECT_EQ(weights({}).code, gk::errc::missing_shape);
    EXPECT_EQ(weights({}).argument, "diff_weights");
    EXPECT_EQ(weights({4, 3, 1}).code, gk::errc::invalid_shape);
    EXPECT_EQ(weights({3, 4}).code, gk::errc::unsupported);
    EXPECT_EQ(weights({3, 4, 1}).code, gk::errc::ok);
    EXPECT_EQ(gk::infer_conv_transpose_backward_weights({1, 4, 1}, {1, 6, 1}, t, {3, 4}).error().code,
              gk::errc::invalid_shape)
        << "a shape input of the wrong length is a shape, not a tensor";
    EXPECT_EQ(gk::infer_conv_transpose({1, 4, 5}, {3, 4, 2}, t).value(), (gk::extents{1, 6, 6}));
    EXPECT_EQ(gk::infer_conv_transpose_backward_data({1, 6, 6}, {3, 4, 2}, t).value(), (gk::extents{1, 4, 5}));
    EXPECT_EQ(gk::infer_convolution_backward_weights({1, 1, 7}, {1, 1, 3}, a, {1, 1, 3}).value(),
              (gk::extents{1, 1, 3}));
    EXPECT_EQ(gk::infer_convolution({1, 1, 7}, {1, 1, 3}, a).value(), (gk::extents{1, 1, 3}));
}

// References refuse the same arguments as the operators.
TEST(convolution_examples, references_share_the_errors) {
    random_source random("convolution.errors");
    for (int i = 0; i < 400; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        conv_case c = random_conv_case(random, 20'000);
        const auto spoil = [&](gk::extents& e) {
            e[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(e.rank()) - 1))] +=
                random.pick<std::int64_t>({-1, 1, -9, 3});
        };
        switch (random.integer(0, 4)) {
            case 0: spoil(c.large); break;
            case 1: spoil(c.small); break;
            case 2: spoil(c.weights); break;
            case 3: c.transposed() ? spoil(c.transpose.strides) : spoil(c.conv.strides); break;
            default: c.transposed() ? ++c.transpose.groups : ++c.conv.groups; break;
        }
        SCOPED_TRACE(c.text());
        float memory = 0;  // never reached: outputs without memory are refused last
        const gk::tensor_view<const float> first(&memory, c.first());
        const gk::tensor_view<const float> second(&memory, c.second());
        const gk::tensor_view<float> out(nullptr, c.result());
        const planned p = make_plan<float, float, float>(c, first, second, {}, out, {});
        const gk::status r = run_reference<float, float, float>(c, first, second, {}, out, gk::output_mode::overwrite);
        if (p.status.ok()) {
            ASSERT_TRUE(r.ok() || r.code() == gk::errc::null_pointer) << gk::to_string(r);
        } else {
            ASSERT_EQ(gk::to_string(r), gk::to_string(p.status));
        }
    }
}

}  // namespace
}  // namespace gradkern_test
