// All operators of the oneDNN Graph front end, under both of their names: the bits of the core on random problems, the
// two spellings of attributes, filters in all four orders, and errors that name the documents' arguments.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onednn_graph.hpp>
#include <gradkern/max_pool.hpp>

#include "support/conv_cases.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace og = gradkern::onednn_graph;
using gk::errc;
using gk::error;
using gk::expectation;
using gk::extents;

// ------------------------------------------------------------------------------------------------- bits of the core

/// The attributes that all six convolutions have, in the spelling of the newer documents or of the older ones.
template <class To, class From>
To common(const From& a, bool older) {
    To to{};
    to.strides = a.strides;
    to.pads_begin = a.pads_begin;
    to.pads_end = a.pads_end;
    to.dilations = a.dilations;
    to.auto_pad = a.auto_pad;
    to.groups = a.groups;
    to.data_format = a.data_format;
    (older ? to.filter_format : to.weights_format) = a.weights_format;
    if constexpr (requires { to.output_padding; }) to.output_padding = a.output_padding;
    return to;
}

/// A random case whose sizes are those that the documents infer where they have no shape to ask for.
conv_case graph_case(random_source& random, conv_operator op) {
    for (;;) {
        conv_case c = random_conv_case(random, 60'000, op);
        if (op == conv_operator::conv_transpose) c.large = *gk::infer_conv_transpose(c.small, c.weights, c.transpose);
        if (op != conv_operator::conv_transpose_backward_data) return c;
        const auto o = gk::infer_conv_transpose_backward_data(c.large, c.weights, c.transpose);
        if (o && *o == c.small) return c;
    }
}

/// A face of the front end's operator of c: `face(infer, plan, once)` with the three of them as functions of layouts,
/// or of views. Every second face uses the older names.
template <class T>
void same_bits_as_core(random_source& random, const conv_case& c, bool older) {
    SCOPED_TRACE(c.text() + (older ? " older" : " newer"));
    const conv_tensors<T, T, T> t(random, c, random.chance(1, 3));
    t.fill_reals(random);
    test_tensor<T> expected(c.result());
    const gk::status s = t.run(c, expected);
    ASSERT_TRUE(s.ok()) << gk::to_string(s);

    const auto check = [&](const gk::result<extents>& inferred, const auto& plan, const auto& run, const auto& once) {
        ASSERT_TRUE(inferred.has_value()) << gk::to_string(inferred.error());
        ASSERT_EQ(*inferred, c.result());
        ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        std::vector<std::byte> workspace(plan->workspace_bytes());
        test_tensor<T> out(c.result());
        t.prepare(out);
        const gk::status planned = run(*plan, out.data(), workspace);
        ASSERT_TRUE(planned.ok()) << gk::to_string(planned);
        ASSERT_TRUE(out.equals(expected));
        ASSERT_GT(plan->describe({}), 0U);
        t.prepare(out);
        const gk::status called = once(out.view(), {.plan = {.output = t.mode}, .workspace = workspace});
        ASSERT_TRUE(called.ok()) << gk::to_string(called);
        ASSERT_TRUE(out.equals(expected));
    };
    const auto first = t.first.const_view();
    const auto second = t.second.const_view();
    const auto bias = t.bias_view();
    const gk::plan_options options{.output = t.mode};
    const extents& f = c.first();
    const extents& g = c.second();
    const extents& result = c.result();
    using out_view = gk::tensor_view<T>;
    const auto two = [&](const auto& plan, T* out, std::span<std::byte> w) {
        return plan.run(first.data, second.data, out, w);
    };
    const auto three = [&](const auto& plan, T* out, std::span<std::byte> w) {
        return plan.run(first.data, second.data, bias.data, out, w);
    };
    switch (c.op) {
        case conv_operator::convolution: {
            const auto a = common<og::Convolution_attributes>(c.conv, older);
            check(og::infer_Convolution(f, g, a),
                  og::plan_Convolution<T>(first.layout, second.layout, bias.layout, a, {}, options), three,
                  [&](out_view out, const gk::call_options& o) {
                      return og::Convolution<T>(first, second, bias, a, out, o);
                  });
            break;
        }
        case conv_operator::convolution_backward_data: {
            auto a = common<og::ConvolutionBackwardData_attributes>(c.conv, older);
            (older ? a.output_shape : a.dst_shape) = result;
            if (older) {
                check(og::infer_ConvolutionBackpropData(f, g, {}, a),
                      og::plan_ConvolutionBackpropData<T>(first.layout, second.layout, {}, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvolutionBackpropData<T>(first, second, {}, a, out, o);
                      });
            } else {
                check(og::infer_ConvolutionBackwardData(f, g, {}, a),
                      og::plan_ConvolutionBackwardData<T>(first.layout, second.layout, {}, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvolutionBackwardData<T>(first, second, {}, a, out, o);
                      });
            }
            break;
        }
        case conv_operator::convolution_backward_weights: {
            auto a = common<og::ConvolutionBackwardWeights_attributes>(c.conv, older);
            (older ? a.filter_shape : a.weights_shape) = result;
            if (older) {
                check(og::infer_ConvolutionBackpropFilters(f, g, {}, a),
                      og::plan_ConvolutionBackpropFilters<T>(first.layout, second.layout, {}, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvolutionBackpropFilters<T>(first, second, {}, a, out, o);
                      });
            } else {
                check(og::infer_ConvolutionBackwardWeights(f, g, result, a),
                      og::plan_ConvolutionBackwardWeights<T>(first.layout, second.layout, result, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvolutionBackwardWeights<T>(first, second, result, a, out, o);
                      });
            }
            break;
        }
        case conv_operator::conv_transpose: {
            const auto a = common<og::ConvTranspose_attributes>(c.transpose, older);
            check(og::infer_ConvTranspose(f, g, a),
                  og::plan_ConvTranspose<T>(first.layout, second.layout, bias.layout, a, {}, options), three,
                  [&](out_view out, const gk::call_options& o) {
                      return og::ConvTranspose<T>(first, second, bias, a, out, o);
                  });
            break;
        }
        case conv_operator::conv_transpose_backward_data: {
            const auto a = common<og::ConvTransposeBackwardData_attributes>(c.transpose, older);
            if (older) {
                check(og::infer_ConvTransposeBackpropData(f, g, a),
                      og::plan_ConvTransposeBackpropData<T>(first.layout, second.layout, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvTransposeBackpropData<T>(first, second, a, out, o);
                      });
            } else {
                check(og::infer_ConvTransposeBackwardData(f, g, a),
                      og::plan_ConvTransposeBackwardData<T>(first.layout, second.layout, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvTransposeBackwardData<T>(first, second, a, out, o);
                      });
            }
            break;
        }
        case conv_operator::conv_transpose_backward_weights: {
            auto a = common<og::ConvTransposeBackpropFilters_attributes>(c.transpose, older);
            (older ? a.filter_shape : a.weights_shape) = result;
            if (older) {
                check(og::infer_ConvTransposeBackpropFilters(f, g, {}, a),
                      og::plan_ConvTransposeBackpropFilters<T>(first.layout, second.layout, {}, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvTransposeBackpropFilters<T>(first, second, {}, a, out, o);
                      });
            } else {
                check(og::infer_ConvTransposeBackwardWeights(f, g, {}, a),
                      og::plan_ConvTransposeBackwardWeights<T>(first.layout, second.layout, {}, a, {}, options), two,
                      [&](out_view out, const gk::call_options& o) {
                          return og::ConvTransposeBackwardWeights<T>(first, second, {}, a, out, o);
                      });
            }
            break;
        }
    }
}

template <class T>
void convolutions_have_the_bits_of_the_core(std::string_view stream) {
    random_source random(stream);
    for (int i = 0; i < 120; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = graph_case(random, all_conv_operators[static_cast<std::size_t>(i % 6)]);
        same_bits_as_core<T>(random, c, i / 6 % 2 == 0);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(onednn_graph_operators, convolutions_have_the_bits_of_the_core) {
    convolutions_have_the_bits_of_the_core<float>("onednn_graph.f32");
    convolutions_have_the_bits_of_the_core<gk::bfloat16>("onednn_graph.bf16");
}

TEST(onednn_graph_operators, pools_have_the_bits_of_the_core) {
    random_source random("onednn_graph.pools");
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const gk::avg_pool_attributes core{
            .kernel = {random.integer(1, 3), random.integer(1, 4)},
            .strides = {random.integer(1, 3), random.integer(1, 3)},
            .pads_begin = {random.integer(0, 2), random.integer(0, 2)},
            .pads_end = {random.integer(0, 2), random.integer(0, 2)},
            .exclude_pad = random.chance(1, 2),
            .auto_pad = static_cast<gk::auto_pad>(random.integer(0, 3)),
            .rounding_type = static_cast<gk::rounding_type>(random.integer(0, 2)),
            .divisor_override = random.chance(1, 4) ? std::optional<std::int64_t>(-3) : std::nullopt,
            .data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc})};
        const og::AvgPool_attributes forward{.strides = core.strides,
                                             .pads_begin = core.pads_begin,
                                             .pads_end = core.pads_end,
                                             .kernel = core.kernel,
                                             .exclude_pad = core.exclude_pad,
                                             .rounding_type = core.rounding_type,
                                             .auto_pad = core.auto_pad,
                                             .data_format = core.data_format,
                                             .divisor_override = core.divisor_override};
        const extents large = activation(core.data_format, random.integer(1, 2), random.integer(1, 20),
                                         {random.integer(3, 9), random.integer(4, 20)});
        const extents small = *gk::infer_avg_pool(large, core);
        ASSERT_EQ(*og::infer_AvgPool(large, forward), small);
        const test_tensor<float> src(large);
        src.fill_random(random);
        const test_tensor<float> expected(small);
        const test_tensor<float> dst(small);
        std::vector<std::byte> workspace(std::size_t{1} << 20);
        const gk::call_options options{.workspace = workspace};
        ASSERT_TRUE(gk::avg_pool<float>(src.const_view(), core, expected.view(), options).ok());
        const gk::status s = og::AvgPool<float>(src.const_view(), forward, dst.view(), options);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(dst.equals(expected));

        const bool newer = random.chance(1, 2);
        og::AvgPoolBackprop_attributes backward{.strides = core.strides,
                                                .pads_begin = core.pads_begin,
                                                .pads_end = core.pads_end,
                                                .kernel = core.kernel,
                                                .exclude_pad = core.exclude_pad,
                                                .auto_pad = core.auto_pad,
                                                .data_format = core.data_format,
                                                .rounding_type = core.rounding_type,
                                                .divisor_override = core.divisor_override};
        (newer ? backward.src_shape : backward.input_shape) = large;
        const test_tensor<float> wanted(large);
        const test_tensor<float> got(large);
        ASSERT_TRUE(gk::avg_pool_backward<float>(dst.const_view(), core, wanted.view(), options).ok());
        const gk::status b = newer ? og::AvgPoolBackward<float>(dst.const_view(), {}, backward, got.view(), options)
                                   : og::AvgPoolBackprop<float>(dst.const_view(), {}, backward, got.view(), options);
        ASSERT_TRUE(b.ok()) << gk::to_string(b);
        ASSERT_TRUE(got.equals(wanted));
    }
}

// Few different numbers, so that maxima tie, and a NaN here and there.
template <class T>
void max_pools_have_the_bits_of_the_core(std::string_view stream) {
    random_source random(stream);
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        gk::max_pool_attributes core{.kernel = {random.integer(1, 3), random.integer(1, 4)},
                                     .strides = {random.integer(1, 3), random.integer(1, 3)},
                                     .pads_begin = {random.integer(0, 2), random.integer(0, 2)},
                                     .pads_end = {random.integer(0, 2), random.integer(0, 2)},
                                     .auto_pad = static_cast<gk::auto_pad>(random.integer(0, 3)),
                                     .rounding_type = static_cast<gk::rounding_type>(random.integer(0, 2)),
                                     .ignore_nan = random.chance(1, 2),
                                     .data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc})};
        if (random.chance(1, 2)) core.dilations = {random.integer(1, 2), random.integer(1, 2)};
        const auto large = activation(core.data_format, random.integer(1, 2), random.integer(1, 20),
                                      {random.integer(5, 9), random.integer(7, 20)});
        const extents small = *gk::infer_max_pool(large, core);
        const og::MaxPool_attributes forward{.strides = core.strides,
                                             .pads_begin = core.pads_begin,
                                             .pads_end = core.pads_end,
                                             .kernel = core.kernel,
                                             .dilations = core.dilations,
                                             .rounding_type = core.rounding_type,
                                             .auto_pad = core.auto_pad,
                                             .data_format = core.data_format,
                                             .ignore_nan = core.ignore_nan};
        ASSERT_EQ(*og::infer_MaxPool(large, forward), small);
        const test_tensor<T> src(large, random.chance(1, 3) ? random_input_strides(random, large) : extents{});
        src.fill([&](std::int64_t) {
            return random.chance(1, 9) ? std::numeric_limits<float>::quiet_NaN()
                                       : static_cast<float>(random.integer(-3, 3));
        });
        const gk::output_mode mode = random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate});
        const auto prepare = [&](const test_tensor<T>& out) {
            if (mode == gk::output_mode::accumulate) out.fill([](std::int64_t k) { return k % 5; });
        };
        std::vector<std::byte> workspace(std::size_t{1} << 20);
        const gk::call_options options{.plan = {.output = mode}, .workspace = workspace};
        const test_tensor<T> expected(small);
        prepare(expected);
        ASSERT_TRUE(gk::max_pool<T>(src.const_view(), core, expected.view(), {}, options).ok());
        const test_tensor<T> dst(small, random.chance(1, 3) ? random_output_strides(random, small) : extents{});
        prepare(dst);
        const gk::status s = og::MaxPool<T>(src.const_view(), forward, dst.view(), options);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(dst.equals(expected));
        const auto plan = og::plan_MaxPool<T>(src.layout(), forward, {}, options.plan);
        ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        ASSERT_LE(plan->workspace_bytes(), workspace.size());
        ASSERT_GT(plan->describe({}), 0U);
        const test_tensor<T> planned(small);
        prepare(planned);
        ASSERT_TRUE(plan->run(src.data(), planned.data(), workspace).ok());
        ASSERT_TRUE(planned.equals(expected));

        const og::MaxPoolBackward_attributes backward{.strides = core.strides,
                                                      .pads_begin = core.pads_begin,
                                                      .pads_end = core.pads_end,
                                                      .kernel = core.kernel,
                                                      .auto_pad = core.auto_pad,
                                                      .dilations = core.dilations,
                                                      .data_format = core.data_format,
                                                      .rounding_type = core.rounding_type,
                                                      .ignore_nan = core.ignore_nan};
        const bool older = random.chance(1, 2);
        const auto inferred = older ? og::infer_MaxPoolBackprop(large, small, backward)
                                    : og::infer_MaxPoolBackward(large, small, backward);
        ASSERT_TRUE(inferred.has_value()) << gk::to_string(inferred.error());
        ASSERT_EQ(*inferred, large);
        const test_tensor<T> diff_dst(small);
        diff_dst.fill_random(random);
        const test_tensor<T> wanted(large);
        const test_tensor<T> got(large);
        const test_tensor<T> again(large);
        for (const auto* out : {&wanted, &got, &again}) prepare(*out);
        ASSERT_TRUE(
            gk::max_pool_backward<T>(src.const_view(), diff_dst.const_view(), core, wanted.view(), options).ok());
        const auto call = older ? &og::MaxPoolBackprop<T> : &og::MaxPoolBackward<T>;
        const gk::status b = call(src.const_view(), diff_dst.const_view(), backward, got.view(), options);
        ASSERT_TRUE(b.ok()) << gk::to_string(b);
        ASSERT_TRUE(got.equals(wanted));
        const auto gradient =
            (older ? &og::plan_MaxPoolBackprop<T> : &og::plan_MaxPoolBackward<T>)(src.layout(), diff_dst.layout(),
                                                                                  backward, {}, options.plan);
        ASSERT_TRUE(gradient.has_value()) << gk::to_string(gradient.error());
        ASSERT_TRUE(gradient->run(src.data(), diff_dst.data(), again.data(), workspace).ok());
        ASSERT_TRUE(again.equals(wanted));
    }
}

TEST(onednn_graph_operators, max_pools_have_the_bits_of_the_core) {
    max_pools_have_the_bits_of_the_core<float>("onednn_graph.max_pools.f32");
    max_pools_have_the_bits_of_the_core<gk::float16>("onednn_graph.max_pools.f16");
}

// By hand, in channels last: a tie goes to the first, a NaN wins unless it is ignored, and gradients that meet add up.
TEST(onednn_graph_operators, max_pool_rows) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    struct row {
        std::string_view name;
        std::vector<float> src;
        std::int64_t kernel, stride, pad;
        const char* auto_pad;
        const char* rounding;
        extents dilations;
        bool ignore_nan;
        std::vector<float> dst, diff_dst, diff_src;
    };
    const std::vector<row> rows{
        {"ties", {2, 5, 5, 1, 5}, 3, 1, 0, "none", "floor", {}, false, {5, 5, 5}, {1, 2, 4}, {0, 3, 4, 0, 0}},
        {"pads", {-3, -1, -2, -4}, 2, 2, 1, "none", "floor", {1}, false, {-3, -1, -4}, {1, 2, 4}, {1, 2, 0, 4}},
        {"ceil", {1, 2, 3, 4, 9}, 2, 2, 0, "none", "ceil", {}, false, {2, 4, 9}, {1, 2, 4}, {0, 1, 0, 2, 4}},
        {"same", {7, 1, 2, 8}, 2, 1, 5, "SAME_UPPER", "floor", {}, false, {7, 2, 8, 8}, {1, 2, 4, 8}, {1, 0, 2, 12}},
        {"dilated", {4, 9, 3, 8, 5}, 2, 1, 0, "none", "floor", {2}, false, {4, 9, 5}, {1, 2, 4}, {1, 2, 0, 0, 4}},
        {"NaN", {1, nan, nan, 2}, 3, 1, 0, "valid", "floor", {}, false, {nan, nan}, {1, 2}, {0, 0, 3, 0}},
        {"NaN ignored", {1, nan, nan, 2}, 3, 1, 0, "valid", "floor", {}, true, {1, 2}, {1, 2}, {1, 0, 0, 2}},
    };
    for (const row& r : rows) {
        SCOPED_TRACE(r.name);
        const og::MaxPool_attributes a{.strides = {r.stride},
                                       .pads_begin = {r.pad},
                                       .pads_end = {r.pad},
                                       .kernel = {r.kernel},
                                       .dilations = r.dilations,
                                       .rounding_type = r.rounding,
                                       .auto_pad = r.auto_pad,
                                       .ignore_nan = r.ignore_nan};
        const og::MaxPoolBackward_attributes b{.strides = {r.stride},
                                               .pads_begin = {r.pad},
                                               .pads_end = {r.pad},
                                               .kernel = {r.kernel},
                                               .auto_pad = r.auto_pad,
                                               .dilations = r.dilations,
                                               .rounding_type = r.rounding,
                                               .ignore_nan = r.ignore_nan};
        const auto tensor = [](const std::vector<float>& values) {
            test_tensor<float> t({1, static_cast<std::int64_t>(values.size()), 1});
            t.fill([&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
            return t;
        };
        const auto src = tensor(r.src);
        const auto diff_dst = tensor(r.diff_dst);
        const auto shape = og::infer_MaxPool(src.shape(), a);
        ASSERT_TRUE(shape.has_value()) << gk::to_string(shape.error());
        ASSERT_EQ(*shape, diff_dst.shape());
        const test_tensor<float> dst(*shape);
        const gk::status s = og::MaxPool<float>(src.const_view(), a, dst.view());
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        EXPECT_TRUE(dst.equals(tensor(r.dst)));
        const test_tensor<float> diff_src(src.shape());
        const gk::status d = og::MaxPoolBackward<float>(src.const_view(), diff_dst.const_view(), b, diff_src.view());
        ASSERT_TRUE(d.ok()) << gk::to_string(d);
        EXPECT_TRUE(diff_src.equals(tensor(r.diff_src)));
    }
}

TEST(onednn_graph_operators, bias_gradients_have_the_bits_of_the_core) {
    random_source random("onednn_graph.bias");
    for (int i = 0; i < 40; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const og::BiasAddBackward_attributes a{.data_format = format == gk::data_format::ncx ? "NCX" : "NXC"};
        const std::int64_t channels = random.integer(1, 40);
        const test_tensor<gk::float16> x(activation(format, random.integer(0, 3), channels, {random.integer(1, 60)}));
        x.fill_random(random);
        ASSERT_EQ(*og::infer_BiasAddBackward(x.shape(), a), extents{channels});
        ASSERT_EQ(*og::infer_BiasAddBackprop(x.shape(), a), extents{channels});
        const test_tensor<float> expected({channels});
        const test_tensor<float> out({channels});
        const auto plan = og::plan_BiasAddBackprop<gk::float16, float>(x.layout(), a);
        ASSERT_TRUE(plan.has_value());
        std::vector<std::byte> workspace(plan->workspace_bytes());
        const gk::call_options options{.workspace = workspace};
        ASSERT_TRUE(
            gk::bias_backward<gk::float16>(x.const_view(), {.data_format = format}, expected.view(), options).ok());
        ASSERT_TRUE(plan->run(x.data(), out.data(), workspace).ok());
        ASSERT_TRUE(out.equals(expected));
        ASSERT_TRUE(og::BiasAddBackward<gk::float16>(x.const_view(), a, out.view(), options).ok());
        ASSERT_TRUE(out.equals(expected));
        ASSERT_TRUE(og::BiasAddBackprop<gk::float16>(x.const_view(), a, out.view(), options).ok());
        ASSERT_TRUE(out.equals(expected));
    }
}

// --------------------------------------------------------------------------------------------------- filters' formats

/// The same filter with its channels the other way round, dense.
test_tensor<float> other_way_round(const test_tensor<float>& filter, gk::weights_format format) {
    const std::size_t at = format == gk::weights_format::oix ? 0 : filter.shape().rank() - 2;
    extents shape = filter.shape();
    std::swap(shape[at], shape[at + 1]);
    extents strides = dense_strides(filter.shape());
    std::swap(strides[at], strides[at + 1]);
    test_tensor<float> turned(shape);
    for (std::int64_t i = 0; i < turned.count(); ++i) {
        std::int64_t rest = i;
        std::int64_t from = 0;
        for (std::size_t a = shape.rank(); a-- > 0; rest /= shape[a]) from += rest % shape[a] * strides[a];
        turned[i] = filter[from];
    }
    return turned;
}

// IOX and XOI of the ConvTranspose family are OIX and XIO with O and I in each other's place.
TEST(onednn_graph_operators, transposed_filters_may_have_their_channels_swapped) {
    random_source random("onednn_graph.swapped");
    for (int i = 0; i < 90; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = graph_case(random, all_conv_operators[static_cast<std::size_t>(3 + i % 3)]);
        SCOPED_TRACE(c.text());
        const gk::weights_format format = c.transpose.weights_format;
        const char* word = format == gk::weights_format::oix ? "IOX" : "XOI";
        const conv_tensors<float> t(random, c, false);
        t.fill_reals(random);
        test_tensor<float> expected(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        std::vector<std::byte> workspace(std::size_t{1} << 21);
        const gk::call_options options{.plan = {.output = t.mode}, .workspace = workspace};
        if (c.op == conv_operator::conv_transpose_backward_weights) {
            auto a = common<og::ConvTransposeBackwardWeights_attributes>(c.transpose, false);
            a.weights_format = word;
            const auto turned = other_way_round(expected, format);
            a.weights_shape = turned.shape();
            ASSERT_EQ(*og::infer_ConvTransposeBackwardWeights(c.first(), c.second(), {}, a), turned.shape());
            test_tensor<float> out(turned.shape());
            if (t.mode == gk::output_mode::accumulate) {
                const auto before = other_way_round(t.previous, format);
                for (std::int64_t k = 0; k < out.count(); ++k) out[k] = before[k];
            }
            const bool given = random.chance(1, 2);
            const auto plan = og::plan_ConvTransposeBackwardWeights<float>(
                t.first.layout(), t.second.layout(), {}, a, given ? out.layout() : gk::tensor_layout{}, options.plan);
            ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
            workspace.resize(plan->workspace_bytes());
            ASSERT_TRUE(plan->run(t.first.data(), t.second.data(), out.data(), workspace).ok());
            ASSERT_TRUE(out.equals(turned));
            continue;
        }
        const auto weights = other_way_round(t.second, format);
        test_tensor<float> out(c.result());
        t.prepare(out);
        gk::status s;
        if (c.op == conv_operator::conv_transpose) {
            auto a = common<og::ConvTranspose_attributes>(c.transpose, false);
            a.weights_format = word;
            ASSERT_EQ(*og::infer_ConvTranspose(c.first(), weights.shape(), a), c.result());
            s = og::ConvTranspose<float>(t.first.const_view(), weights.const_view(), t.bias_view(), a, out.view(),
                                         options);
        } else {
            auto a = common<og::ConvTransposeBackwardData_attributes>(c.transpose, false);
            a.weights_format = word;
            s = og::ConvTransposeBackwardData<float>(t.first.const_view(), weights.const_view(), a, out.view(),
                                                     options);
        }
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(expected));
    }
}

// ------------------------------------------------------------------------------------------------------------- errors

struct mistake {
    std::string_view what;
    error got;
    error expected;
};
void expect_errors(const std::vector<mistake>& mistakes) {
    for (const mistake& m : mistakes)
        EXPECT_EQ(m.got, m.expected) << m.what << ": " << gk::to_string(m.got) << ", expected "
                                     << gk::to_string(m.expected);
}

template <class Attributes, class Change>
Attributes with(Attributes a, const Change& change) {
    change(a);
    return a;
}

constexpr auto equal = expectation::equal;
constexpr auto none = expectation::none;
constexpr auto least = expectation::at_least;

TEST(onednn_graph_operators, avg_pool_errors) {
    constexpr std::string_view op = "AvgPool";
    const og::AvgPool_attributes good{.strides = {2}, .kernel = {3}, .exclude_pad = true};
    const auto plan = [](const gk::tensor_layout& src, const og::AvgPool_attributes& a,
                         const gk::tensor_layout& dst = {}) { return og::plan_AvgPool<float>(src, a, dst).error(); };
    const extents src{1, 7, 2};
    const auto changed = [&](const auto& change) { return plan(src, with(good, change)); };
    expect_errors({
        {"none", plan(src, good, {1, 3, 2}), {}},
        {"rank", plan({7, 2}, good), {errc::unsupported, op, "src", -1, 2, 3, least}},
        {"exclude_pad",
         changed([](auto& a) { a.exclude_pad.reset(); }),
         {errc::invalid_argument, op, "exclude_pad", -1, 0, 0, none}},
        {"auto_pad",
         changed([](auto& a) { a.auto_pad = "same"; }),
         {errc::invalid_argument, op, "auto_pad", -1, 0, 0, none}},
        {"rounding",
         changed([](auto& a) { a.rounding_type = "up"; }),
         {errc::invalid_argument, op, "rounding_type", -1, 0, 0, none}},
        {"format",
         changed([](auto& a) { a.data_format = "NHWC"; }),
         {errc::invalid_argument, op, "data_format", -1, 0, 0, none}},
        {"kernel", changed([](auto& a) { a.kernel = {0}; }), {errc::invalid_argument, op, "kernel", 0, 0, 1, least}},
        {"strides", changed([](auto& a) { a.strides = {}; }), {errc::invalid_argument, op, "strides", -1, 0, 1, equal}},
        {"dst rank", plan(src, good, {3, 2}), {errc::unsupported, op, "dst", -1, 2, 3, equal}},
        {"dst size", plan(src, good, {1, 4, 2}), {errc::invalid_shape, op, "dst", 1, 4, 3, equal}},
        {"src size", plan({1, 0, 2}, good), {errc::invalid_shape, op, "src", 1, 0, 1, least}},
        {"window", plan({1, 2, 2}, good), {errc::invalid_shape, op, "src", 1, 2, 3, least}},
    });
}

TEST(onednn_graph_operators, max_pool_errors) {
    constexpr std::string_view op = "MaxPool";
    const og::MaxPool_attributes good{.strides = {2}, .kernel = {3}};
    const auto plan = [](const gk::tensor_layout& src, const og::MaxPool_attributes& a,
                         const gk::tensor_layout& dst = {}) { return og::plan_MaxPool<float>(src, a, dst).error(); };
    const extents src{1, 7, 2};
    const auto changed = [&](const auto& change) { return plan(src, with(good, change)); };
    expect_errors({
        {"none", plan(src, good, {1, 3, 2}), {}},
        {"rank", plan({7, 2}, good), {errc::unsupported, op, "src", -1, 2, 3, least}},
        {"auto_pad",
         changed([](auto& a) { a.auto_pad = "same"; }),
         {errc::invalid_argument, op, "auto_pad", -1, 0, 0, none}},
        {"rounding",
         changed([](auto& a) { a.rounding_type = "up"; }),
         {errc::invalid_argument, op, "rounding_type", -1, 0, 0, none}},
        {"format",
         changed([](auto& a) { a.data_format = "NHWC"; }),
         {errc::invalid_argument, op, "data_format", -1, 0, 0, none}},
        {"kernel", changed([](auto& a) { a.kernel = {}; }), {errc::invalid_argument, op, "kernel", -1, 0, 1, equal}},
        {"strides", changed([](auto& a) { a.strides = {0}; }), {errc::invalid_argument, op, "strides", 0, 0, 1, least}},
        {"pads",
         changed([](auto& a) { a.pads_end = {-1}; }),
         {errc::invalid_argument, op, "pads_end", 0, -1, 0, least}},
        {"dilations' length",
         changed([](auto& a) {
             a.dilations = {1, 1};
         }),
         {errc::invalid_argument, op, "dilations", -1, 2, 1, equal}},
        {"dilations",
         changed([](auto& a) { a.dilations = {0}; }),
         {errc::invalid_argument, op, "dilations", 0, 0, 1, least}},
        {"dst rank", plan(src, good, {3, 2}), {errc::unsupported, op, "dst", -1, 2, 3, equal}},
        {"dst size", plan(src, good, {1, 4, 2}), {errc::invalid_shape, op, "dst", 1, 4, 3, equal}},
        {"dst memory",
         plan(src, good, {extents{1, 3, 2}, extents{0, 0, 1}}),
         {errc::invalid_argument, op, "dst", 1, 0, 0, none}},
        {"src size", plan({1, 0, 2}, good), {errc::invalid_shape, op, "src", 1, 0, 1, least}},
        {"window", changed([](auto& a) { a.dilations = {4}; }), {errc::invalid_shape, op, "src", 1, 7, 9, least}},
        {"overflow", plan({1, std::int64_t{1} << 62, 2}, good), {errc::overflow, op, "src", -1, 0, 0, none}},
    });
}

TEST(onednn_graph_operators, max_pool_backward_errors) {
    constexpr std::string_view op = "MaxPoolBackward";
    const og::MaxPoolBackward_attributes good{.strides = {2}, .kernel = {3}};
    const auto plan = [](const gk::tensor_layout& src, const gk::tensor_layout& diff_dst,
                         const og::MaxPoolBackward_attributes& a, const gk::tensor_layout& diff_src = {}) {
        return og::plan_MaxPoolBackprop<float>(src, diff_dst, a, diff_src).error();
    };
    const extents src{1, 7, 2};
    const extents dy{1, 3, 2};
    expect_errors({
        {"none", plan(src, dy, good, src), {}},
        {"rank", plan({7, 2}, dy, good), {errc::unsupported, op, "src", -1, 2, 3, least}},
        {"auto_pad",
         plan(src, dy, with(good, [](auto& a) { a.auto_pad = "SAME"; })),
         {errc::invalid_argument, op, "auto_pad", -1, 0, 0, none}},
        {"strides",
         plan(src, {3, 2}, with(good, [](auto& a) { a.strides = {0}; }), {7, 2}),
         {errc::invalid_argument, op, "strides", 0, 0, 1, least}},
        {"diff_dst missing", plan(src, {}, good), {errc::unsupported, op, "diff_dst", -1, 0, 3, equal}},
        {"diff_dst rank", plan(src, {3, 2}, good, {7, 2}), {errc::unsupported, op, "diff_dst", -1, 2, 3, equal}},
        {"diff_src rank", plan(src, {1, 4, 2}, good, {7, 2}), {errc::unsupported, op, "diff_src", -1, 2, 3, equal}},
        {"batch", plan(src, {2, 3, 2}, good), {errc::invalid_shape, op, "diff_dst", 0, 2, 1, equal}},
        {"channels", plan(src, {1, 3, 3}, good), {errc::invalid_shape, op, "diff_dst", 2, 3, 2, equal}},
        {"diff_dst size", plan(src, {1, 4, 2}, good), {errc::invalid_shape, op, "diff_dst", 1, 4, 3, equal}},
        {"diff_src size", plan(src, dy, good, {1, 6, 2}), {errc::invalid_shape, op, "diff_src", 1, 6, 7, equal}},
        {"diff_src memory",
         plan(src, dy, good, {src, extents{0, 0, 1}}),
         {errc::invalid_argument, op, "diff_src", 1, 0, 0, none}},
    });

    // at run time, with nothing written
    const test_tensor<float> x(src);
    const test_tensor<float> g(dy);
    const test_tensor<float> dx(src);
    const auto before = dx.snapshot();
    const auto call = [&](const float* a, const float* b, float* c) {
        return og::MaxPoolBackward<float>({a, src}, {b, dy}, good, {c, src}).error();
    };
    expect_errors({
        {"src", call(nullptr, g.data(), dx.data()), {errc::null_pointer, op, "src", -1, 0, 0, none}},
        {"diff_dst", call(x.data(), nullptr, dx.data()), {errc::null_pointer, op, "diff_dst", -1, 0, 0, none}},
        {"diff_src", call(x.data(), g.data(), nullptr), {errc::null_pointer, op, "diff_src", -1, 0, 0, none}},
        {"overlap", call(dx.data(), g.data(), dx.data()), {errc::invalid_argument, op, "diff_src", -1, 0, 0, none}},
        {"MaxPool",
         og::MaxPool<float>({x.data(), src}, {.strides = {2}, .kernel = {3}}, {nullptr, dy}).error(),
         {errc::null_pointer, "MaxPool", "dst", -1, 0, 0, none}},
    });
    EXPECT_EQ(dx.snapshot(), before);
}

TEST(onednn_graph_operators, convolution_errors) {
    constexpr std::string_view op = "Convolution";
    const og::Convolution_attributes good{.strides = {1}, .dilations = {1}};
    const auto plan = [](const extents& src, const extents& weights, const extents& bias,
                         const og::Convolution_attributes& a, const gk::tensor_layout& dst = {}) {
        return og::plan_Convolution<float>(src, weights, bias, a, dst).error();
    };
    const extents src{1, 5, 2};
    const extents w{2, 2, 3};
    const auto changed = [&](const auto& change) { return plan(src, w, {3}, with(good, change)); };
    expect_errors({
        {"none", plan(src, w, {3}, good, {1, 4, 3}), {}},
        {"no bias", plan(src, w, {}, good), {}},
        {"rank", plan({5, 2}, w, {3}, good), {errc::unsupported, op, "src", -1, 2, 3, least}},
        {"newer format",
         changed([](auto& a) { a.weights_format = "IOX"; }),
         {errc::invalid_argument, op, "weights_format", -1, 0, 0, none}},
        {"older format",
         changed([](auto& a) { a.filter_format = "XOI"; }),
         {errc::invalid_argument, op, "filter_format", -1, 0, 0, none}},
        {"groups", changed([](auto& a) { a.groups = 0; }), {errc::invalid_argument, op, "groups", -1, 0, 1, least}},
        {"weights rank", plan(src, {2, 3}, {3}, good), {errc::unsupported, op, "weights", -1, 2, 3, equal}},
        {"weights", plan(src, {2, 4, 3}, {3}, good), {errc::invalid_shape, op, "src", 2, 2, 4, equal}},
        {"bias rank", plan(src, w, {1, 3}, good), {errc::unsupported, op, "bias", -1, 2, 1, equal}},
        {"bias", plan(src, w, {4}, good), {errc::invalid_shape, op, "bias", 0, 4, 3, equal}},
        {"dst rank", plan(src, w, {3}, good, {4, 3}), {errc::unsupported, op, "dst", -1, 2, 3, equal}},
        {"dst", plan(src, w, {3}, good, {1, 5, 3}), {errc::invalid_shape, op, "dst", 1, 5, 4, equal}},
        {"dst memory",
         plan(src, w, {3}, good, {extents{1, 4, 3}, extents{0, 0, 1}}),
         {errc::invalid_argument, op, "dst", 1, 0, 0, none}},
    });
}

TEST(onednn_graph_operators, convolution_backward_weights_errors) {
    constexpr std::string_view op = "ConvolutionBackwardWeights";
    const og::ConvolutionBackwardWeights_attributes good{.strides = {1}, .dilations = {1}, .weights_shape = {2, 2, 3}};
    const auto plan = [](const extents& src, const extents& diff_dst, const og::shape_input& shape,
                         const og::ConvolutionBackwardWeights_attributes& a, const gk::tensor_layout& out = {}) {
        return og::plan_ConvolutionBackpropFilters<float>(src, diff_dst, shape, a, out).error();
    };
    const extents src{1, 5, 2};
    const extents dy{1, 4, 3};
    const auto missing = with(good, [](auto& a) { a.weights_shape = {}; });
    const auto older = with(missing, [](auto& a) { a.filter_shape = {2, 2, 3}; });
    const auto both = with(good, [](auto& a) { a.filter_shape = {9}; });
    const error is_missing{errc::missing_shape, op, "weights_shape", -1, 0, 0, none};
    expect_errors({
        {"none", plan(src, dy, {}, good, {2, 2, 3}), {}},
        {"older spelling", plan(src, dy, {}, older), {}},
        {"both spellings", plan(src, dy, {}, both), {}},
        {"input wins", plan(src, dy, {2, 2, 3}, with(good, [](auto& a) { a.weights_shape = {7}; })), {}},
        {"missing", plan(src, dy, {}, missing), is_missing},
        {"missing, with a tensor", plan(src, dy, {}, missing, {2, 2, 3}), is_missing},
        {"missing, before sizes", plan({1, 0, 2}, dy, {}, missing), is_missing},
        {"rank before missing", plan(src, {4, 3}, {}, missing), {errc::unsupported, op, "diff_dst", -1, 2, 3, equal}},
        {"attribute before missing",
         plan(src, dy, {}, with(missing, [](auto& a) { a.strides = {0}; })),
         {errc::invalid_argument, op, "strides", 0, 0, 1, least}},
        {"shape's length", plan(src, dy, {2, 2}, good), {errc::invalid_shape, op, "weights_shape", -1, 2, 3, equal}},
        {"shape", plan(src, dy, {2, 2, 4}, good), {errc::invalid_shape, op, "diff_dst", 2, 3, 4, equal}},
        {"tensor", plan(src, dy, {}, good, {2, 3, 3}), {errc::invalid_shape, op, "diff_weights", 1, 3, 2, equal}},
        {"batch", plan(src, {2, 4, 3}, {}, good), {errc::invalid_shape, op, "diff_dst", 0, 2, 1, equal}},
    });
}

TEST(onednn_graph_operators, conv_transpose_errors) {
    constexpr std::string_view op = "ConvTranspose";
    const og::ConvTranspose_attributes good{.strides = {2}, .dilations = {1}};
    const auto plan = [](const extents& src, const extents& weights, const extents& bias,
                         const og::ConvTranspose_attributes& a, const gk::tensor_layout& dst = {}) {
        return og::plan_ConvTranspose<float>(src, weights, bias, a, dst).error();
    };
    const extents src{1, 3, 2};
    const extents w{3, 2, 5};  // (K, IC, OC/g)
    const auto swapped = with(good, [](auto& a) { a.weights_format = "XOI"; });
    expect_errors({
        {"none", plan(src, w, {5}, good, {1, 7, 5}), {}},
        {"output_padding",
         plan(src, w, {}, with(good, [](auto& a) { a.output_padding = {2}; })),
         {errc::invalid_argument, op, "output_padding", 0, 2, 2, expectation::below}},
        {"format",
         plan(src, w, {}, with(good, [](auto& a) { a.weights_format = "OXI"; })),
         {errc::invalid_argument, op, "weights_format", -1, 0, 0, none}},
        // a size that the core would take from an output tensor
        {"dst", plan(src, w, {}, good, {1, 8, 5}), {errc::invalid_shape, op, "dst", 1, 8, 7, equal}},
        {"bias", plan(src, w, {4}, good), {errc::invalid_shape, op, "bias", 0, 4, 5, equal}},
        {"groups",
         plan(src, w, {}, with(good, [](auto& a) { a.groups = 3; })),
         {errc::invalid_shape, op, "weights", 1, 2, 3, expectation::multiple_of}},
        // axes of errors are the caller's: the input channels are the last of XOI
        {"swapped", plan(src, {3, 5, 2}, {5}, swapped, {1, 7, 5}), {}},
        {"swapped groups",
         plan(src, {3, 5, 2}, {}, with(swapped, [](auto& a) { a.groups = 3; })),
         {errc::invalid_shape, op, "weights", 2, 2, 3, expectation::multiple_of}},
        {"swapped size", plan(src, {3, -1, 2}, {}, swapped), {errc::invalid_shape, op, "weights", 1, -1, 0, least}},
        {"swapped rank", plan(src, {5, 2}, {}, swapped), {errc::unsupported, op, "weights", -1, 2, 3, equal}},
        {"swapped overflow",
         plan(src, {3, std::int64_t{1} << 62, 2}, {}, swapped),
         {errc::overflow, op, "weights", -1, 0, 0, none}},
    });
}

TEST(onednn_graph_operators, conv_transpose_backward_data_errors) {
    constexpr std::string_view op = "ConvTransposeBackwardData";
    const og::ConvTransposeBackwardData_attributes good{.strides = {2}, .dilations = {1}};
    const auto plan = [](const extents& diff_dst, const extents& weights,
                         const og::ConvTransposeBackwardData_attributes& a, const gk::tensor_layout& out = {}) {
        return og::plan_ConvTransposeBackpropData<float>(diff_dst, weights, a, out).error();
    };
    const extents dy{1, 7, 5};
    const extents w{3, 2, 5};
    const auto iox = with(good, [](auto& a) { a.filter_format = "IOX"; });
    expect_errors({
        {"none", plan(dy, w, good, {1, 3, 2}), {}},
        {"IOX", plan(dy, {2, 5, 3}, iox, {1, 3, 2}), {}},
        {"rank", plan({7, 5}, w, good), {errc::unsupported, op, "diff_dst", -1, 2, 3, least}},
        {"size", plan(dy, w, good, {1, 4, 2}), {errc::invalid_shape, op, "diff_src", 1, 4, 3, equal}},
        {"channels", plan({1, 7, 4}, w, good), {errc::invalid_shape, op, "diff_dst", 2, 4, 5, equal}},
        {"IOX groups",
         plan(dy, {2, 5, 3}, with(iox, [](auto& a) { a.groups = 3; })),
         {errc::invalid_shape, op, "weights", 0, 2, 3, expectation::multiple_of}},
    });
}

// Of two spellings of one attribute the newer counts.
TEST(onednn_graph_operators, the_newer_of_two_filter_formats_counts) {
    const extents shape{2, 4, 3};  // XIO: taps 2, IC 4, OC 3; OIX: OC 2, IC 4, taps 3
    const extents src{1, 9, 4};
    const auto channels = [&](const og::Convolution_attributes& a) {
        return (*og::infer_Convolution(src, shape, a))[2];
    };
    EXPECT_EQ(channels({.strides = {1}, .dilations = {1}, .weights_format = "XIO", .filter_format = "OIX"}), 3);
    EXPECT_EQ(channels({.strides = {1}, .dilations = {1}, .weights_format = "OIX", .filter_format = "XIO"}), 2);
}

// An output tensor's own sizes and volume come before anything that is computed from the others.
TEST(onednn_graph_operators, sizes_of_the_output_tensor_have_their_place_in_the_order) {
    const og::AvgPool_attributes avg{.strides = {1, 1, 1}, .kernel = {1, 1, 1}, .exclude_pad = false};
    constexpr std::int64_t much = INT64_C(1) << 31;
    const auto code = og::plan_AvgPool<float>({1, 2, 2, 2, 1}, avg, {1, much, much, much, 1}).error();
    EXPECT_EQ(code.code, errc::overflow);
    EXPECT_EQ(code.argument, "dst");
    constexpr std::int64_t far = INT64_C(1) << 40;
    EXPECT_EQ(
        og::plan_MaxPool<float>({1, 2, 1}, {.strides = {1}, .kernel = {far}, .dilations = {far}}, {1, 0, 1}).error(),
        (error{errc::invalid_shape, "MaxPool", "dst", 1, 0, 1, least}));
    EXPECT_EQ(
        og::plan_AvgPool<float>({1, 2, 1}, {.strides = {1}, .kernel = {3}, .exclude_pad = false}, {1, 0, 1}).error(),
        (error{errc::invalid_shape, "AvgPool", "dst", 1, 0, 1, least}));
    // a shape input of the wrong length, and one that overflows, before what the output tensor gets wrong later
    const og::AvgPoolBackprop_attributes back{.strides = {2}, .kernel = {3}, .exclude_pad = false};
    const auto refused = [&](const extents& asked, const extents& output) {
        return og::plan_AvgPoolBackprop<float>({1, 2, 1}, asked, back, output).error();
    };
    EXPECT_EQ(refused({1, 6}, {1, INT64_C(1) << 62, INT64_C(1) << 62}).code, errc::invalid_shape);
    EXPECT_EQ(refused({1, INT64_C(1) << 62, INT64_C(1) << 62}, {1, 1, 1}).code, errc::overflow);
    EXPECT_EQ(refused({1, 5, 1}, {1, 1, 1}).argument, "input_delta");
    // after attributes, which come first
    EXPECT_EQ(
        og::plan_AvgPool<float>({1, 2, 1}, {.strides = {0}, .kernel = {3}, .exclude_pad = false}, {1, 0, 1}).error(),
        (error{errc::invalid_argument, "AvgPool", "strides", 0, 0, 1, least}));
}

TEST(onednn_graph_operators, swapped_filter_shapes_keep_their_axes_in_errors) {
    constexpr std::string_view op = "ConvTransposeBackpropFilters";
    const og::ConvTransposeBackpropFilters_attributes good{
        .strides = {2}, .dilations = {1}, .filter_format = "XOI", .filter_shape = {3, 5, 2}};
    const auto plan = [](const og::ConvTransposeBackpropFilters_attributes& a, const og::shape_input& shape,
                         const gk::tensor_layout& out = {}) {
        return og::plan_ConvTransposeBackpropFilters<float>({1, 3, 2}, {1, 7, 5}, shape, a, out).error();
    };
    expect_errors({
        {"none", plan(good, {}, {3, 5, 2}), {}},
        {"shape", plan(good, {3, -1, 2}), {errc::invalid_shape, op, "filter_shape", 1, -1, 0, least}},
        {"groups",
         plan(with(good, [](auto& a) { a.groups = 3; }), {}),
         {errc::invalid_shape, op, "filter_shape", 2, 2, 3, expectation::multiple_of}},
        {"tensor", plan(good, {}, {3, 2, 5}), {errc::invalid_shape, op, "filter_delta", 1, 2, 5, equal}},
        {"tensor's rank", plan(good, {}, {3, 10}), {errc::unsupported, op, "filter_delta", -1, 2, 3, equal}},
        {"tensor's memory",
         plan(good, {}, {extents{3, 5, 2}, extents{10, 0, 1}}),
         {errc::invalid_argument, op, "filter_delta", 1, 0, 0, none}},
    });
}

TEST(onednn_graph_operators, bias_errors) {
    constexpr std::string_view op = "BiasAddBackward";
    const auto plan = [](const extents& diff_dst, const og::BiasAddBackward_attributes& a,
                         const gk::tensor_layout& out = {}) {
        return og::plan_BiasAddBackward<float>(diff_dst, a, out).error();
    };
    const extents dy{1, 7, 5};
    expect_errors({
        {"none", plan(dy, {}, {5}), {}},
        {"rank", plan({7, 5}, {}), {errc::unsupported, op, "diff_dst", -1, 2, 3, least}},
        {"rank before words",
         plan({7, 5}, {.data_format = "NCW"}),
         {errc::unsupported, op, "diff_dst", -1, 2, 3, least}},
        {"format", plan(dy, {.data_format = "NCW"}), {errc::invalid_argument, op, "data_format", -1, 0, 0, none}},
        {"out rank", plan(dy, {}, {5, 1}), {errc::unsupported, op, "diff_bias", -1, 2, 1, equal}},
        {"out", plan(dy, {}, {7}), {errc::invalid_shape, op, "diff_bias", 0, 7, 5, equal}},
        {"size", plan({1, 7, -1}, {}), {errc::invalid_shape, op, "diff_dst", 2, -1, 0, least}},
    });
}

// Whatever fails at run time has the document's names as well, and nothing is written.
TEST(onednn_graph_operators, memory_errors) {
    const test_tensor<float> x({1, 5, 2});
    const test_tensor<float> w({2, 2, 3});
    test_tensor<float> y({1, 4, 3});
    const auto before = y.snapshot();
    const og::Convolution_attributes a{.strides = {1}, .dilations = {1}};
    const auto call = [&](const float* src, const float* weights, float* dst, std::size_t bytes) {
        std::vector<std::byte> workspace(bytes);
        return og::Convolution<float>({src, x.layout()}, {weights, w.layout()}, {}, a, {dst, y.layout()},
                                      {.workspace = workspace})
            .error();
    };
    const std::size_t enough = og::plan_Convolution<float>(x.layout(), w.layout(), {}, a)->workspace_bytes();
    constexpr std::string_view op = "Convolution";
    expect_errors({
        {"src", call(nullptr, w.data(), y.data(), enough), {errc::null_pointer, op, "src", -1, 0, 0, none}},
        {"weights", call(x.data(), nullptr, y.data(), enough), {errc::null_pointer, op, "weights", -1, 0, 0, none}},
        {"dst", call(x.data(), w.data(), nullptr, enough), {errc::null_pointer, op, "dst", -1, 0, 0, none}},
        {"overlap", call(y.data(), w.data(), y.data(), enough), {errc::invalid_argument, op, "dst", -1, 0, 0, none}},
    });
    EXPECT_EQ(call(x.data(), w.data(), y.data(), 1).code, enough > 1 ? errc::workspace_too_small : errc::ok);
    if (enough > 1) {
        EXPECT_EQ(y.snapshot(), before);
    }
}

}  // namespace
}  // namespace gradkern_test
