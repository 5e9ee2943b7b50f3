// Error messages: the whole text for every kind of mistake, and rules for thousands of random mistakes in all operators and
// front ends. An error says what kind of numbers it compares, and gives a reason if it compares none.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/dynamic.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onednn_graph.hpp>
#include <gradkern/frontend/onnxruntime.hpp>
#include <gradkern/gradkern.hpp>

#include "support/random.hpp"

namespace {

namespace gk = gradkern;
namespace og = gradkern::onednn_graph;
namespace ort = gradkern::onnxruntime;
using gk::data_type;
using gk::errc;
using gk::error;
using gk::expectation;
using gk::extents;
using gk::quantity;
using gradkern_test::random_source;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

template <class Result>
std::string text(const Result& r) {
    return gk::to_string(r.error());
}

/// The attributes after `change`.
template <class Attributes, class Change>
Attributes with(Attributes a, const Change& change) {
    change(a);
    return a;
}

const gk::convolution_attributes conv{.strides = {1, 1}, .dilations = {1, 1}};
const gk::conv_transpose_attributes transposed{.strides = {2}, .dilations = {1}};
const gk::avg_pool_attributes pool{.kernel = {2}, .strides = {2}};

// ----------------------------------------------------------------------------------------------------------- the texts

TEST(error_text, lists_ranks_and_strides_are_counted) {
    EXPECT_EQ(
        text(gk::infer_convolution({1, 5, 5, 1}, {3, 3, 1, 2}, {.dilations = {1, 1}})),
        "convolution: strides: got 0 entries, expected 2, to match src: one for each spatial axis (invalid_argument)");
    EXPECT_EQ(
        text(gk::infer_convolution({1, 5, 5, 1}, {3, 3, 1, 2}, with(conv, [](auto& a) { a.pads_end = {0}; }))),
        "convolution: pads_end: got 1 entry, expected 2, to match src: one for each spatial axis (invalid_argument)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 1, 1, 1}, {3, 3, 1, 2}, conv)),
              "convolution: src: got rank 6, expected at most 5 (unsupported)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5}, {3, 3, 1, 2}, conv)),
              "convolution: src: got rank 2, expected at least 3 (unsupported)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 1}, {3, 3, 1}, conv)),
              "convolution: weights: got rank 3, expected 4 (unsupported)");
    EXPECT_EQ(text(gk::plan_convolution<float>({1, 5, 5, 1}, {3, 3, 1, 2}, {1, 2}, conv)),
              "convolution: bias: got rank 2, expected 1 (unsupported)");
    EXPECT_EQ(text(gk::infer_avg_pool_backward({1, 2, 1}, pool, {1, 4})),
              "avg_pool_backward: diff_src: got rank 2, expected 3 (invalid_shape)");
    EXPECT_EQ(text(gk::plan_convolution<float>({{1, 5, 5, 1}, {1, 1}}, {3, 3, 1, 2}, {}, conv)),
              "convolution: src: got 2 strides, expected 4 (invalid_argument)");
}

TEST(error_text, words_are_listed) {
    const auto refused = [](const auto& change) {
        return text(gk::infer_convolution({1, 5, 5, 1}, {3, 3, 1, 2}, with(conv, change)));
    };
    EXPECT_EQ(refused([](auto& a) { a.data_format = static_cast<gk::data_format>(7); }),
              "convolution: data_format: got 7, expected nxc or ncx (invalid_argument)");
    EXPECT_EQ(refused([](auto& a) { a.weights_format = static_cast<gk::weights_format>(2); }),
              "convolution: weights_format: got 2, expected xio or oix (invalid_argument)");
    EXPECT_EQ(refused([](auto& a) { a.auto_pad = static_cast<gk::auto_pad>(4); }),
              "convolution: auto_pad: got 4, expected none, same_upper, same_lower or valid (invalid_argument)");
    EXPECT_EQ(text(gk::infer_avg_pool(
                  {1, 2, 1}, with(pool, [](auto& a) { a.rounding_type = static_cast<gk::rounding_type>(3); }))),
              "avg_pool: rounding_type: got 3, expected floor, ceil or ceil_torch (invalid_argument)");
    EXPECT_EQ(text(gk::infer_max_pool({1, 2, 1},
                                      {.kernel = {2}, .strides = {2}, .index_base = static_cast<gk::index_base>(3)})),
              "max_pool: index_base: got 3, expected tensor, plane or image (invalid_argument)");
    EXPECT_EQ(text(gk::infer_max_pool(
                  {1, 2, 1}, {.kernel = {2}, .strides = {2}, .storage_order = static_cast<gk::storage_order>(2)})),
              "max_pool: storage_order: got 2, expected row_major or column_major (invalid_argument)");
    EXPECT_EQ(text(og::infer_Convolution({1, 5, 5, 1}, {3, 3, 1, 2},
                                         {.strides = {1, 1}, .dilations = {1, 1}, .data_format = "NHC"})),
              "Convolution: data_format: unknown word, expected nxc or ncx (invalid_argument)");
    EXPECT_EQ(text(og::infer_ConvTranspose({1, 5, 5, 1}, {3, 3, 1, 2},
                                           {.strides = {1, 1}, .dilations = {1, 1}, .filter_format = "IO"})),
              "ConvTranspose: filter_format: unknown word, expected xio, oix, xoi or iox (invalid_argument)");
    EXPECT_EQ(
        text(og::infer_AvgPool({1, 5, 1}, {.strides = {1}, .kernel = {2}, .exclude_pad = true, .rounding_type = "up"})),
        "AvgPool: rounding_type: unknown word, expected floor, ceil or ceil_torch (invalid_argument)");
    EXPECT_EQ(text(og::infer_AvgPool({1, 5, 1}, {.strides = {1}, .kernel = {2}})),
              "AvgPool: exclude_pad: it has no default: true or false must be given (invalid_argument)");
    EXPECT_EQ(text(ort::infer_AveragePoolGrad({1, 1, 2}, {.auto_pad = "SAME", .kernel_shape = {2}}, {1, 1, 3})),
              "AveragePoolGrad: auto_pad: unknown word, expected NOTSET, VALID, SAME_UPPER or SAME_LOWER "
              "(invalid_argument)");
    EXPECT_EQ(text(ort::infer_AveragePoolGrad({1, 1, 2}, {.ceil_mode = 4, .kernel_shape = {2}}, {1, 1, 3})),
              "AveragePoolGrad: ceil_mode: got 4, expected 0 or 1 (invalid_argument)");
}

TEST(error_text, element_types_have_names) {
    float x[64]{};
    using in = gk::const_dynamic_view;
    using out = gk::dynamic_view;
    const auto unknown = static_cast<data_type>(4);
    EXPECT_EQ(text(gk::avg_pool_backward(in(unknown, x, {1, 2, 1}), pool, out(unknown, x, {1, 4, 1}))),
              "avg_pool_backward: diff_dst: got type 4, expected f32, f16, bf16 or f64 (unsupported)");
    const auto convolve = [&](data_type weights, data_type bias) {
        return text(gk::convolution(in(data_type::f16, x, {1, 5, 5, 1}), in(weights, x, {3, 3, 1, 2}), in(bias, x, {2}),
                                    conv, out(data_type::f16, x, {1, 3, 3, 2})));
    };
    EXPECT_EQ(convolve(data_type::f32, data_type::f16),
              "convolution: dst: got f16, expected f32, the type of weights (unsupported)");
    EXPECT_EQ(convolve(static_cast<data_type>(9), data_type::f16),
              "convolution: weights: got type 9, expected f16, the type of src: f32 is also accepted (unsupported)");
    EXPECT_EQ(convolve(data_type::f16, data_type::bf16),
              "convolution: bias: got bf16, expected f16, the type of src: f32 is also accepted (unsupported)");
    EXPECT_EQ(
        text(gk::convolution_backward_weights(in(data_type::f16, x, {1, 5, 5, 1}), in(data_type::f16, x, {1, 3, 3, 2}),
                                              conv, out(data_type::f16, x, {3, 3, 1, 2}), out(data_type::f32, x, {2}))),
        "convolution_backward_weights: diff_bias: got f32, expected f16, the type of diff_weights (unsupported)");
}

TEST(error_text, sizes_name_the_rule_and_where_it_comes_from) {
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 1}, {3, 3, 1, 2},
                                         with(conv,
                                              [](auto& a) {
                                                  a.strides = {0, 1};
                                              }))),
              "convolution: strides[0]: got 0, expected at least 1 (invalid_argument)");
    EXPECT_EQ(
        text(gk::infer_conv_transpose(
            {1, 3, 1}, {3, 1, 1}, with(transposed, [](auto& a) { a.auto_pad = gk::auto_pad::same_upper; }), {1, 8, 1})),
        "conv_transpose: src[1]: got 3, expected 4, to match dst: auto_pad same_upper makes it "
        "ceil(size / stride) (invalid_shape)");
    EXPECT_EQ(text(gk::infer_conv_transpose({1, 3, 1}, {3, 1, 1},
                                            with(transposed,
                                                 [](auto& a) {
                                                     a.auto_pad = gk::auto_pad::same_lower;
                                                     a.output_padding = {1};
                                                 }),
                                            {1, 8, 1})),
              "conv_transpose: src[1]: got 3, expected 4, to match dst: auto_pad same_lower makes it "
              "ceil((size - output_padding) / stride) (invalid_shape)");
    EXPECT_EQ(text(gk::infer_conv_transpose({1, 3, 1}, {3, 1, 1}, transposed, {1, 6, 1})),
              "conv_transpose: dst[1]: got 6, expected at least 7, to match src: stride * (size - 1) + effective "
              "kernel - pads + output_padding (invalid_shape)");
    EXPECT_EQ(text(gk::infer_conv_transpose({1, 3, 1}, {3, 1, 1}, transposed, {1, 9, 1})),
              "conv_transpose: dst[1]: got 9, expected below 9, to match src: output_padding must be below "
              "max(stride, dilation) (invalid_shape)");
    EXPECT_EQ(
        text(gk::infer_conv_transpose({1, 3, 1}, {3, 1, 1}, with(transposed, [](auto& a) { a.output_padding = {2}; }))),
        "conv_transpose: output_padding[0]: got 2, expected below 2: the larger of stride and dilation "
        "(invalid_argument)");
    EXPECT_EQ(text(gk::infer_convolution_backward_data({1, 3, 3, 2}, {3, 3, 1, 2},
                                                       with(conv,
                                                            [](auto& a) {
                                                                a.output_padding = {1, 0};
                                                            }))),
              "convolution_backward_data: output_padding[0]: got 1, expected below 1: the stride (invalid_argument)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 2, 1}, {3, 3, 1, 2}, conv)),
              "convolution: src[2]: got 2, expected at least 3: the size with its padding must hold the effective "
              "kernel, (kernel - 1) * dilation + 1 (invalid_shape)");
    EXPECT_EQ(text(gk::infer_convolution({1, 6, 6, 4}, {3, 3, 5, 4}, conv)),
              "convolution: src[3]: got 4, expected 5, to match weights (invalid_shape)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 5}, {3, 3, 5, 4}, with(conv, [](auto& a) { a.groups = 2; }))),
              "convolution: src[3]: got 5, expected 10, to match weights: the channels of one group, times the number "
              "of groups (invalid_shape)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 10}, {3, 3, 5, 3}, with(conv, [](auto& a) { a.groups = 2; }))),
              "convolution: weights[3]: got 3, expected a multiple of 2: the number of groups must divide it "
              "(invalid_shape)");
    EXPECT_EQ(text(gk::plan_convolution<float>({1, 5, 5, 1}, {3, 3, 1, 2}, {}, conv, {2, 3, 3, 2})),
              "convolution: dst[0]: got 2, expected 1, to match src (invalid_shape)");
    EXPECT_EQ(text(gk::plan_convolution<float>({1, 5, 5, 1}, {3, 3, 1, 2}, {}, conv, {1, 3, 4, 2})),
              "convolution: dst[2]: got 4, expected 3, to match src: the number of windows that fit (invalid_shape)");
    EXPECT_EQ(text(gk::plan_convolution<float>({1, 5, 5, 1}, {3, 3, 1, 2}, {3}, conv)),
              "convolution: bias[0]: got 3, expected 2, to match weights (invalid_shape)");
    const auto pooled = [](const auto& change) {
        return text(gk::infer_avg_pool_backward({1, 2, 1}, with(pool, change), {1, 6, 1}));
    };
    EXPECT_EQ(pooled([](auto& a) { a.rounding_type = gk::rounding_type::ceil; }),
              "avg_pool_backward: diff_dst[1]: got 2, expected 3, to match diff_src: the number of windows, rounded up "
              "(invalid_shape)");
    EXPECT_EQ(pooled([](auto& a) { a.rounding_type = gk::rounding_type::ceil_torch; }),
              "avg_pool_backward: diff_dst[1]: got 2, expected 3, to match diff_src: the number of windows, rounded "
              "up, without a last window in the end padding (invalid_shape)");
    EXPECT_EQ(text(gk::infer_avg_pool({1, 2, 1}, with(pool,
                                                      [](auto& a) {
                                                          a.kernel = {9};
                                                          a.rounding_type = gk::rounding_type::ceil_torch;
                                                      }))),
              "avg_pool: src[1]: got 2, expected at least 8: the size with its padding must hold the effective kernel, "
              "(kernel - 1) * dilation + 1, minus (stride - 1) (invalid_shape)");
    EXPECT_EQ(text(gk::infer_avg_pool({1, 2, 1}, with(pool, [](auto& a) { a.divisor_override = 0; }))),
              "avg_pool: divisor_override: got 0, expected other than 0 (invalid_argument)");
    EXPECT_EQ(
        text(og::infer_AvgPoolBackprop({1, 5, 1}, {1, 7, 1}, {.strides = {1}, .kernel = {2}, .exclude_pad = true})),
        "AvgPoolBackprop: output_delta[1]: got 5, expected 6, to match input_shape: the number of windows that "
        "fit (invalid_shape)");
    EXPECT_EQ(text(og::infer_ConvTransposeBackpropFilters({1, 3, 1}, {2, 7, 1}, {3, 1, 1},
                                                          {.strides = {2}, .dilations = {1}})),
              "ConvTransposeBackpropFilters: output_delta[0]: got 2, expected 1, to match input_forward "
              "(invalid_shape)");
    EXPECT_EQ(text(og::plan_AvgPoolBackprop<float>({1, 5, 1}, {1, 6, 1},
                                                   {.strides = {1}, .kernel = {2}, .exclude_pad = true}, {1, 7, 1})),
              "AvgPoolBackprop: input_delta[1]: got 7, expected 6, to match input_shape (invalid_shape)");
    EXPECT_EQ(text(og::plan_AvgPool<float>({1, 5, 1}, {.strides = {1}, .kernel = {2}, .exclude_pad = true}, {1, 5, 1})),
              "AvgPool: dst[1]: got 5, expected 4, to match src: the number of windows that fit (invalid_shape)");
    EXPECT_EQ(text(ort::infer_ConvTransposeGrad({1, 2, 5}, {1, 1, 3}, {1, 2, 3}, {.output_shape = {6}})),
              "ConvTransposeGrad: output_shape[0]: got 6, expected 5, to match dY (invalid_shape)");
    EXPECT_EQ(text(ort::infer_ConvGrad({1, 2, 3, 3}, {1, 1, 5, 5}, {2, 3, 3, 3}, {})),
              "ConvGrad: X[1]: got 1, expected 3, to match W (invalid_shape)");
}

// Weights in the other order are the most common mistake of users of other libraries.
TEST(error_text, weights_in_the_other_format_are_named) {
    const std::string as_oix =
        "[2]: got 3, expected 1, to match src: its channels would fit as weights_format oix (invalid_shape)";
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 1}, {2, 1, 3, 3}, conv)), "convolution: weights" + as_oix);
    EXPECT_EQ(text(gk::plan_convolution<float>({1, 5, 5, 1}, {2, 1, 3, 3}, {}, conv, {1, 3, 3, 2})),
              "convolution: weights" + as_oix);
    EXPECT_EQ(text(gk::infer_convolution_backward_weights({1, 5, 5, 1}, {1, 3, 3, 2}, conv, {2, 1, 3, 3})),
              "convolution_backward_weights: diff_weights" + as_oix);
    EXPECT_EQ(text(gk::infer_convolution_backward_data({1, 3, 3, 2}, {2, 1, 3, 3}, conv)),
              "convolution_backward_data: weights[3]: got 3, expected 2, to match diff_dst: its channels would fit as "
              "weights_format oix (invalid_shape)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 4}, {3, 3, 2, 6},
                                         with(conv,
                                              [](auto& a) {
                                                  a.groups = 2;
                                                  a.weights_format = gk::weights_format::oix;
                                              }))),
              "convolution: weights[1]: got 3, expected 2, to match src: its channels would fit as weights_format xio "
              "(invalid_shape)");
    // OIX = (OC, IC, K) of a transposed convolution under the default XIO = (K, IC, OC)
    EXPECT_EQ(text(gk::infer_conv_transpose({1, 3, 5}, {4, 5, 3}, transposed, {1, 7, 4})),
              "conv_transpose: weights[2]: got 3, expected 4, to match dst: its channels would fit as weights_format "
              "oix (invalid_shape)");
    // if neither order fits, the tensor that is checked first is named, as usual
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 1}, {2, 7, 3, 3}, conv)),
              "convolution: src[3]: got 1, expected 3, to match weights (invalid_shape)");
    EXPECT_EQ(text(og::infer_Convolution({1, 5, 5, 1}, {2, 1, 3, 3}, {.strides = {1, 1}, .dilations = {1, 1}})),
              "Convolution: weights" + as_oix);
    // A front end whose weights have one format has no other one to name.
    EXPECT_EQ(text(ort::infer_ConvGrad({1, 2, 3, 3}, {1, 1, 5, 5}, {3, 3, 1, 2}, {})).find("weights_format"),
              std::string::npos);
}

// So are a data_format and groups that were forgotten.
TEST(error_text, channels_that_fit_another_attribute_say_so) {
    const std::string as_ncx = "its channels would fit as data_format ncx (invalid_shape)";
    EXPECT_EQ(text(gk::infer_convolution({1, 3, 5, 5}, {3, 3, 3, 2}, conv)),
              "convolution: src[3]: got 5, expected 3, to match weights: " + as_ncx);
    EXPECT_EQ(text(gk::infer_convolution_backward_data({1, 2, 6, 6}, {3, 3, 3, 2}, conv)),
              "convolution_backward_data: diff_dst[3]: got 6, expected 2, to match weights: " + as_ncx);
    EXPECT_EQ(text(gk::infer_conv_transpose({1, 4, 7}, {3, 4, 5}, transposed)),
              "conv_transpose: src[2]: got 7, expected 4, to match weights: " + as_ncx);
    const auto ncx = with(conv, [](auto& a) { a.data_format = gk::data_format::ncx; });
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 3}, {3, 3, 3, 2}, ncx)),
              "convolution: src[1]: got 5, expected 3, to match weights: its channels would fit as data_format nxc "
              "(invalid_shape)");
    const std::string of_groups = "groups is 1: weights of more groups have the channels of one (invalid_shape)";
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 6}, {3, 3, 2, 9}, conv)),
              "convolution: src[3]: got 6, expected 2, to match weights: " + of_groups);
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 6}, {3, 3, 4, 9}, conv)),
              "convolution: src[3]: got 6, expected 4, to match weights (invalid_shape)");
    // A height that happens to be as many does not hide the groups.
    EXPECT_EQ(text(gk::infer_convolution({1, 8, 8, 16}, {3, 3, 8, 16}, conv)),
              "convolution: src[3]: got 16, expected 8, to match weights: " + of_groups);
    // Seven groups have no part of six channels.
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 7}, {3, 3, 1, 6}, conv)),
              "convolution: src[3]: got 7, expected 1, to match weights (invalid_shape)");
    // src fits as it is: another format would not help dst.
    EXPECT_EQ(text(gk::plan_convolution<float>({1, 8, 8, 3}, {3, 3, 3, 16}, {}, conv, {1, 16, 6, 6})),
              "convolution: dst[3]: got 6, expected 16, to match weights (invalid_shape)");
    // Channels of the small side have all groups: no number of groups would fit.
    EXPECT_EQ(text(gk::infer_convolution_backward_data({1, 6, 6, 4}, {3, 3, 3, 2}, conv)),
              "convolution_backward_data: diff_dst[3]: got 4, expected 2, to match weights (invalid_shape)");
    // A front end of one format has no other one to name.
    EXPECT_EQ(text(ort::infer_ConvGrad({1, 2, 3, 3}, {1, 5, 5, 3}, {2, 3, 3, 3}, {})).find("data_format"),
              std::string::npos);
}

TEST(error_text, memory_pointers_and_missing_shapes_have_a_reason) {
    EXPECT_EQ(text(gk::infer_convolution({1, std::int64_t{1} << 40, std::int64_t{1} << 40, 1}, {3, 3, 1, 2}, conv)),
              "convolution: src: its size in bytes exceeds 63 bits (overflow)");
    EXPECT_EQ(text(gk::infer_avg_pool({1, 2, 1}, with(pool,
                                                      [](auto& a) {
                                                          a.kernel = {most};
                                                          a.dilations = {2};
                                                      }))),
              "avg_pool: kernel[0]: the effective kernel, (kernel - 1) * dilation + 1, exceeds 63 bits (overflow)");
    EXPECT_EQ(text(gk::infer_avg_pool({1, 2, 1}, with(pool, [](auto& a) { a.pads_begin = {most}; }))),
              "avg_pool: src[1]: the size with its padding exceeds 63 bits (overflow)");
    EXPECT_EQ(
        text(gk::infer_avg_pool_backward({1, most / 8, 1}, with(pool, [](auto& a) { a.strides = {9}; }), {1, 4, 1})),
        "avg_pool_backward: diff_dst[1]: the reach of all windows, (windows - 1) * stride + effective kernel, "
        "exceeds 63 bits (overflow)");
    EXPECT_EQ(text(gk::infer_avg_pool({1, 9, 9, 9, 1}, {.kernel = extents::filled(3, std::int64_t{1} << 30),
                                                        .strides = {1, 1, 1},
                                                        .pads_end = extents::filled(3, std::int64_t{1} << 31)})),
              "avg_pool: kernel: the number of its taps exceeds 63 bits (overflow)");
    EXPECT_EQ(text(gk::infer_convolution({1, 5, 5, 4}, {3, 3, std::int64_t{1} << 40, 4},
                                         with(conv, [](auto& a) { a.groups = std::int64_t{1} << 40; }))),
              "convolution: weights: its channels times the number of groups exceed 63 bits (overflow)");
    constexpr std::int64_t big = std::int64_t{1} << 17;
    EXPECT_EQ(text(gk::plan_convolution<float>({big, big, big, 1}, {1, 1, 1, 1}, {}, conv)),
              "convolution: workspace: the bytes that this problem needs exceed 63 bits (overflow)");
    EXPECT_EQ(
        text(gk::plan_convolution_backward_weights<float>({big, big, big, 1}, {big, big, big, 1}, conv, {1, 1, 1, 1})),
        "convolution_backward_weights: workspace: the bytes that this problem needs exceed 63 bits (overflow)");
    EXPECT_EQ(text(gk::plan_convolution<float>({{1, 5, 5, 1}, {25, 5, most / 2, 1}}, {3, 3, 1, 2}, {}, conv)),
              "convolution: src: its range of addresses exceeds 63 bits (overflow)");
    EXPECT_EQ(
        text(gk::plan_convolution<float>({1, 5, 5, 1}, {3, 3, 1, 2}, {}, conv, {{1, 3, 3, 2}, {18, 6, 1, 1}})),
        "convolution: dst[3]: elements of the output overlap: this stride must exceed the reach of all smaller strides "
        "(invalid_argument)");

    EXPECT_EQ(text(gk::infer_avg_pool_backward({1, 2, 1}, pool)),
              "avg_pool_backward: diff_src: its shape cannot be inferred, and was not given (missing_shape)");
    EXPECT_EQ(text(gk::infer_convolution_backward_weights({1, 5, 5, 1}, {1, 3, 3, 2}, conv)),
              "convolution_backward_weights: diff_weights: its shape cannot be inferred, and was not given "
              "(missing_shape)");
    EXPECT_EQ(text(og::infer_AvgPoolBackprop({1, 5, 1}, {}, {.strides = {1}, .kernel = {2}, .exclude_pad = true})),
              "AvgPoolBackprop: input_shape: it was given neither as input nor as attribute (missing_shape)");
    EXPECT_EQ(text(ort::infer_AveragePoolGrad({1, 1, 2}, {.kernel_shape = {2}}, {})),
              "AveragePoolGrad: dX: its shape cannot be inferred, and was not given (missing_shape)");

    std::vector<float> x(64);
    EXPECT_EQ(text(gk::avg_pool<float>({nullptr, {1, 4, 1}}, pool, {x.data(), {1, 2, 1}})),
              "avg_pool: src: the pointer is null, but the tensor has elements (null_pointer)");
    EXPECT_EQ(text(gk::avg_pool<float>({x.data(), {1, 4, 1}}, pool, {x.data() + 1, {1, 2, 1}})),
              "avg_pool: dst: shares memory with src (invalid_argument)");
    const auto layer = gk::plan_convolution<float>({1, 64, 64, 64}, {3, 3, 64, 64}, {}, conv);
    ASSERT_GT(layer->workspace_bytes(), 1U);
    std::vector<float> big_src(64 * 64 * 64);
    std::vector<float> big_weights(3 * 3 * 64 * 64);
    std::vector<float> big_dst(62 * 62 * 64);
    std::array<std::byte, 1> byte{};
    EXPECT_EQ(text(layer->run(big_src.data(), big_weights.data(), nullptr, big_dst.data(), byte)),
              "convolution: workspace: got 1 byte, expected at least " + std::to_string(layer->workspace_bytes()) +
                  " (workspace_too_small)");
    const auto gradients = ort::plan_ConvGrad<float>({1, 2, 3, 3}, {1, 1, 5, 5}, {2, 1, 3, 3}, {}, {1, 1, 5, 5});
    EXPECT_EQ(text(gradients->run(x.data(), x.data(), x.data(), nullptr, x.data(), nullptr)),
              "ConvGrad: dW: memory was given for a result that was not planned (missing_shape)");

    std::int64_t index = 9;
    const auto scatter = [&] {
        return text(gk::max_pool_backward_from_indices<float>({x.data(), {1, 1, 1}}, {&index, {1, 1, 1}}, {},
                                                              {x.data() + 8, {1, 8, 1}}));
    };
    EXPECT_EQ(scatter(),
              "max_pool_backward_from_indices: indices: got 9, expected below 8, to match diff_src: the elements that "
              "index_base counts (index_out_of_range)");
    index = -2;
    EXPECT_EQ(scatter(),
              "max_pool_backward_from_indices: indices: got -2, expected at least -1: -1 means a window without a "
              "maximum (index_out_of_range)");
}

// ------------------------------------------------------------------------------------------------- rules for all texts

/// Rules for every error of the library.
void expect_clear(const error& e) {
    const std::string whole = gk::to_string(e);
    SCOPED_TRACE(whole);
    if (e.code == errc::ok) return;
    const auto says = [&](std::string_view part) { return whole.find(part) != std::string::npos; };
    EXPECT_FALSE(e.op.empty());
    EXPECT_FALSE(e.argument.empty());
    // numbers or a reason
    if (e.relation == expectation::none) {
        EXPECT_FALSE(e.why.empty());
        EXPECT_EQ(says("got "), e.what == quantity::type);
        EXPECT_TRUE(says(e.why));
    } else {
        EXPECT_TRUE(says(": got "));
        const std::int64_t a = e.got;
        const std::int64_t b = e.expected;
        EXPECT_FALSE(e.relation == expectation::equal         ? a == b
                     : e.relation == expectation::not_equal   ? a != b
                     : e.relation == expectation::at_least    ? a >= b
                     : e.relation == expectation::at_most     ? a <= b
                     : e.relation == expectation::below       ? a < b
                     : e.relation == expectation::multiple_of ? b != 0 && a % b == 0
                                                              : false)
            << "the numbers are valid";
        // A number without an axis belongs to the argument itself only if that is a single number.
        static const std::set<std::string_view> numbers{"groups", "group", "divisor_override", "indices"};
        if (e.what == quantity::value) {
            EXPECT_TRUE(e.axis >= 0 || numbers.count(e.argument) == 1);
        }
        if (e.what != quantity::value) {
            EXPECT_EQ(e.axis, -1);
        }
    }
    // the kind of number is in the text
    switch (e.what) {
        case quantity::entries: EXPECT_TRUE(says(" entries, expected ") || says("got 1 entry, expected ")); break;
        case quantity::strides: EXPECT_TRUE(says(" strides, expected ") || says("got 1 stride, expected ")); break;
        case quantity::rank: EXPECT_TRUE(says("got rank ")); break;
        case quantity::bytes: EXPECT_TRUE(says(" bytes, expected ") || says("got 1 byte, expected ")); break;
        case quantity::type: EXPECT_TRUE(says("got f") || says("got bf16") || says("got type ")); break;
        case quantity::word:
            EXPECT_TRUE(says(", expected " + std::string(e.why)));
            EXPECT_TRUE(says(" or "));
            break;
        case quantity::value: break;
    }
    // each class has its kinds
    if (e.code == errc::unsupported) {
        EXPECT_TRUE(e.what == quantity::rank || e.what == quantity::type);
    }
    if (e.code == errc::workspace_too_small) {
        EXPECT_EQ(e.what, quantity::bytes);
    }
    if (e.what == quantity::entries) {
        EXPECT_TRUE(e.code == errc::invalid_argument || e.argument == "output_shape");
    }
    if (e.code == errc::overflow || e.code == errc::null_pointer || e.code == errc::missing_shape) {
        EXPECT_EQ(e.relation, expectation::none);
    }
    EXPECT_NE(e.other, e.argument);
}

/// Shapes and attributes that are nearly valid: every list may be too short or too long, every number wrong.
class mistakes {
public:
    explicit mistakes(random_source& random) : random_(random) {}

    extents list(std::int64_t usual) {
        extents e;
        const std::int64_t size = random_.chance(1, 10) ? random_.integer(0, 7) : rank;
        for (std::int64_t i = 0; i < size; ++i) e.push_back(number(usual));
        return random_.chance(1, 10) ? extents{} : e;
    }
    /// Batch, channels and sizes in a random or the right order.
    extents tensor(std::int64_t usual) {
        extents e;
        const std::int64_t size = random_.chance(1, 10) ? random_.integer(0, 7) : rank + 2;
        for (std::int64_t i = 0; i < size; ++i) e.push_back(number(usual));
        return e;
    }
    gk::tensor_layout layout(std::int64_t usual) {
        gk::tensor_layout t(tensor(usual));
        if (random_.chance(1, 6)) t.strides = random_.chance(1, 2) ? t.shape : tensor(4);
        return t;
    }
    std::int64_t number(std::int64_t usual) {
        if (random_.chance(1, 60)) return most;
        if (random_.chance(1, 60)) return std::int64_t{1} << 40;
        if (random_.chance(1, 30)) return random_.integer(-1, 9);
        return usual;
    }
    template <class E>
    E word(int last) {
        return static_cast<E>(random_.chance(1, 20) ? 7 : random_.integer(0, last));
    }
    data_type type() { return random_.chance(1, 8) ? static_cast<data_type>(random_.integer(0, 4)) : data_type::f16; }
    const char* text(std::initializer_list<const char*> words) {
        return random_.chance(1, 20) ? "wrong" : random_.pick(words);
    }
    std::int64_t rank = 1;  ///< spatial

private:
    random_source& random_;
};

template <class Attributes>
Attributes convolution_attributes(mistakes& m) {
    Attributes a{.strides = m.list(1), .dilations = m.list(1), .pads_begin = m.list(1), .pads_end = m.list(1)};
    a.auto_pad = m.word<gk::auto_pad>(3);
    a.output_padding = m.list(0);
    a.groups = m.number(1);
    a.data_format = m.word<gk::data_format>(1);
    a.weights_format = m.word<gk::weights_format>(1);
    return a;
}
template <class Attributes>
Attributes pool_attributes(mistakes& m) {
    Attributes a{.kernel = m.list(3), .strides = m.list(1), .pads_begin = m.list(1), .pads_end = m.list(1)};
    a.dilations = m.list(1);
    a.auto_pad = m.word<gk::auto_pad>(3);
    a.rounding_type = m.word<gk::rounding_type>(2);
    a.data_format = m.word<gk::data_format>(1);
    return a;
}

TEST(error_text, thousands_of_mistakes_have_clear_messages) {
    random_source random("error_text");
    mistakes m(random);
    std::set<std::string> kinds;
    const auto expect = [&](const error& e) {
        expect_clear(e);
        if (e.code != errc::ok)
            kinds.insert(std::string(to_string(e.code)) + std::to_string(static_cast<int>(e.what)) +
                         std::to_string(static_cast<int>(e.relation)) + std::string(e.why));
    };
    for (int i = 0; i < 4000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        m.rank = random.integer(1, 3);
        const std::int64_t usual = random.integer(1, 4);
        const auto src = [&] { return m.layout(usual); };
        const auto conv_a = convolution_attributes<gk::convolution_attributes>(m);
        const auto trans_a = convolution_attributes<gk::conv_transpose_attributes>(m);
        auto avg_a = pool_attributes<gk::avg_pool_attributes>(m);
        if (random.chance(1, 6)) avg_a.divisor_override = random.integer(-1, 1);
        const auto lp_a = pool_attributes<gk::lp_pool_attributes>(m);
        auto max_a = pool_attributes<gk::max_pool_attributes>(m);
        max_a.index_base = m.word<gk::index_base>(2);
        max_a.storage_order = m.word<gk::storage_order>(1);
        const gk::max_pool_indices_attributes from{.data_format = m.word<gk::data_format>(1),
                                                   .index_base = m.word<gk::index_base>(2),
                                                   .storage_order = m.word<gk::storage_order>(1)};
        // types and shapes at run time; pointers are null, so calls that pass all other checks fail there
        const auto in = [&] { return gk::const_dynamic_view(m.type(), nullptr, src()); };
        const auto out = [&] { return gk::dynamic_view(m.type(), nullptr, src()); };
        const gk::tensor_view<std::int64_t> indices(nullptr, src());
        expect(gk::convolution(in(), in(), in(), conv_a, out()).error());
        expect(gk::convolution(in(), in(), {}, conv_a, out()).error());
        expect(gk::convolution_backward_data(in(), in(), conv_a, out()).error());
        expect(gk::convolution_backward_weights(in(), in(), conv_a, out(), out()).error());
        expect(gk::conv_transpose(in(), in(), {}, trans_a, out()).error());
        expect(gk::conv_transpose_backward_data(in(), in(), trans_a, out()).error());
        expect(gk::conv_transpose_backward_weights(in(), in(), trans_a, out()).error());
        expect(gk::bias_backward(in(), {m.word<gk::data_format>(1)}, out()).error());
        expect(gk::avg_pool(in(), avg_a, out()).error());
        expect(gk::avg_pool_backward(in(), avg_a, out()).error());
        expect(gk::lp_pool(in(), lp_a, out()).error());
        expect(gk::lp_pool_backward(in(), in(), in(), lp_a, out()).error());
        expect(gk::max_pool(in(), max_a, out(), indices).error());
        expect(gk::max_pool_backward(in(), in(), max_a, out()).error());
        expect(gk::max_pool_backward_from_indices(in(), indices, from, out()).error());
        expect(gk::infer_convolution(m.tensor(usual), m.tensor(1), conv_a).error());
        expect(gk::infer_convolution_backward_data(m.tensor(usual), m.tensor(1), conv_a).error());
        expect(gk::infer_convolution_backward_weights(m.tensor(usual), m.tensor(1), conv_a).error());
        expect(gk::infer_conv_transpose(m.tensor(usual), m.tensor(1), trans_a).error());

        const auto word = [&](std::initializer_list<const char*> words) { return m.text(words); };
        const std::initializer_list<const char*> pads{"none", "SAME_UPPER", "same_lower", "valid"};
        const std::initializer_list<const char*> data{"NXC", "NCX"};
        og::AvgPoolBackprop_attributes og_pool{.strides = m.list(1),
                                               .pads_begin = m.list(1),
                                               .pads_end = m.list(1),
                                               .kernel = m.list(3),
                                               .auto_pad = word(pads),
                                               .data_format = word(data),
                                               .rounding_type = word({"floor", "ceil", "ceil_torch"})};
        if (random.chance(7, 8)) og_pool.exclude_pad = true;
        expect(og::plan_AvgPoolBackprop<float>(src(), m.list(2), og_pool, src()).error());
        expect(og::plan_AvgPoolBackprop<float>(src(), m.tensor(usual), og_pool, src()).error());
        const og::ConvolutionBackwardData_attributes og_conv{.strides = m.list(1),
                                                             .pads_begin = m.list(1),
                                                             .pads_end = m.list(1),
                                                             .dilations = m.list(1),
                                                             .auto_pad = word(pads),
                                                             .groups = m.number(1),
                                                             .data_format = word(data),
                                                             .weights_format = word({"XIO", "OIX"})};
        expect(og::plan_ConvolutionBackwardData<float>(src(), src(), m.tensor(usual), og_conv, src()).error());
        const og::ConvTransposeBackpropFilters_attributes og_filters{
            .strides = m.list(1),
            .pads_begin = m.list(1),
            .pads_end = m.list(1),
            .dilations = m.list(1),
            .auto_pad = word(pads),
            .data_format = word(data),
            .filter_format = word({"XIO", "OIX", "XOI", "IOX"})};
        expect(og::plan_ConvTransposeBackpropFilters<float>(src(), src(), m.tensor(usual), og_filters, src()).error());

        const std::initializer_list<const char*> onnx_pads{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
        const ort::AveragePoolGrad_attributes ort_pool{.auto_pad = word(onnx_pads),
                                                       .ceil_mode = m.number(1),
                                                       .count_include_pad = m.number(0),
                                                       .kernel_shape = m.list(3),
                                                       .pads = m.list(1),
                                                       .strides = m.list(1)};
        expect(ort::plan_AveragePoolGrad<float>(src(), ort_pool, src()).error());
        const ort::ConvTransposeGrad_attributes ort_conv{.auto_pad = word(onnx_pads),
                                                         .group = m.number(1),
                                                         .kernel_shape = m.list(usual),
                                                         .output_padding = m.list(0),
                                                         .output_shape = m.list(usual),
                                                         .strides = m.list(1)};
        expect(ort::plan_ConvTransposeGrad<float>(src(), src(), src(), ort_conv, src(), src(), src()).error());
        expect(ort::plan_ConvGrad<float>(src(), src(), src(), {.group = m.number(1), .strides = m.list(1)}, src())
                   .error());
        expect(ort::plan_MaxPoolGrad<float>(src(), src(), {.storage_order = m.number(0)}, src()).error());
    }
    EXPECT_GT(kinds.size(), 45U) << "there are many kinds of mistakes";
}

}  // namespace
