// The ONNX Runtime front end: hand-made numbers in ONNX's words, every check in its place, and convolution gradients
// that have the bits of the core's operators.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onnxruntime.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/conv_cases.hpp"
#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/spec_rows.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace ort = gradkern::onnxruntime;
using gk::errc;
using gk::error;
using gk::expectation;
using gk::extents;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr std::int64_t huge = std::int64_t{1} << 62;
using enum gk::expectation;

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

// One to three axes, all but the last of size 1; ONNX has one layout.
template <class F>
void for_each_rank(const F& fn) {
    for (std::size_t rank = 1; rank <= 3; ++rank) {
        SCOPED_TRACE(rank);
        fn(variant{rank, gk::data_format::ncx, gk::weights_format::oix});
    }
}

// ONNX's vector of pads, all begins before all ends.
std::vector<std::int64_t> joined(const extents& begins, const extents& ends) {
    std::vector<std::int64_t> pads(begins.values().begin(), begins.values().end());
    pads.insert(pads.end(), ends.values().begin(), ends.values().end());
    return pads;
}

std::string_view word_of(gk::auto_pad mode) {
    constexpr std::array<std::string_view, 4> words{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    return words[static_cast<std::size_t>(mode)];
}

// --------------------------------------------------------------------------------------------------- AveragePoolGrad

struct pool_row {
    std::string_view name;
    std::int64_t size, k, s, pb, pe;
    std::string_view auto_pad;
    std::int64_t ceil_mode, count_include_pad;
    std::vector<float> dY, dX;
};

const std::vector<pool_row>& pool_rows() {
    static const std::vector<pool_row> rows{
        {"1", 6, 3, 2, 1, 0, "NOTSET", 0, 1, {1, 2, 3}, {1.0F / 3, 1, 2.0F / 3, 5.0F / 3, 1, 1}},
        {"2", 6, 3, 2, 1, 0, "NOTSET", 0, 0, {1, 2, 3}, {0.5F, 7.0F / 6, 2.0F / 3, 5.0F / 3, 1, 1}},
        {"3", 5, 2, 1, 0, 0, "SAME_LOWER", 0, 0, {1, 2, 3, 4, 5}, {2, 2.5F, 3.5F, 4.5F, 2.5F}},
        {"4", 5, 2, 1, 0, 0, "SAME_UPPER", 0, 0, {1, 2, 3, 4, 5}, {0.5F, 1.5F, 2.5F, 3.5F, 7}},
        {"5", 6, 2, 2, 1, 1, "VALID", 0, 1, {1, 1, 1}, {0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F}},
        {"6", 7, 1, 4, 0, 0, "SAME_UPPER", 0, 1, {5, 9}, {5, 0, 0, 0, 9, 0, 0}},
        {"7", 3, 2, 1, 2, 2, "NOTSET", 0, 0, {1, 2, 3, 4, 5, 6}, {3.5F, 3.5F, 7}},
        {"12 incl", 6, 3, 2, 1, 1, "NOTSET", 1, 1, {6, 6, 6, 6}, {2, 4, 2, 4, 2, 5}},
        {"12 excl", 6, 3, 2, 1, 1, "NOTSET", 1, 0, {6, 6, 6, 6}, {3, 5, 2, 4, 2, 8}},
        // ceil_mode drops the third window of row 14, which starts in the end padding and is empty
        {"14", 5, 2, 3, 1, 1, "NOTSET", 1, 0, {2, 2}, {2, 0, 1, 1, 0}},
        {"20 NaN", 3, 2, 1, 0, 0, "NOTSET", 0, 1, {nan, 1}, {nan, nan, 0.5F}},
        {"20 Inf", 3, 2, 1, 0, 0, "NOTSET", 0, 1, {inf, -inf}, {inf, nan, -inf}},
    };
    return rows;
}

ort::AveragePoolGrad_attributes attributes_of(const pool_row& row, const variant& v) {
    return {.auto_pad = row.auto_pad,
            .ceil_mode = row.ceil_mode,
            .count_include_pad = row.count_include_pad,
            .kernel_shape = v.axes(row.k, 1),
            .pads = joined(v.axes(row.pb, 0), v.axes(row.pe, 0)),
            .strides = v.axes(row.s, 1)};
}

// Rows 1 to 7, 12, 14 and 20.
TEST(onnxruntime, average_pool_grad_rows) {
    for (const pool_row& row : pool_rows()) {
        SCOPED_TRACE(row.name);
        for_each_rank([&](const variant& v) {
            const auto a = attributes_of(row, v);
            const extents shape = v.activation(1, 1, row.size);
            const auto dY = tensor_of<float>(v.activation(1, 1, static_cast<std::int64_t>(row.dY.size())), row.dY);
            const auto inferred = ort::infer_AveragePoolGrad(dY.shape(), a, shape);
            ASSERT_TRUE(inferred.has_value()) << gk::to_string(inferred.error());
            EXPECT_EQ(*inferred, shape);
            test_tensor<float> dX(shape);
            const gk::status s = ort::AveragePoolGrad<float>(dY.const_view(), a, dX.view());
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_values(dX, row.dX);
            const auto plan = ort::plan_AveragePoolGrad<float>(dY.layout(), a, dX.layout());
            ASSERT_TRUE(plan.has_value());
            const guarded_bytes workspace(plan->workspace_bytes());
            test_tensor<float> again(shape);
            ASSERT_TRUE(plan->run(dY.data(), again.data(), {workspace.data(), workspace.size()}).ok());
            EXPECT_TRUE(again.equals(dX));
            EXPECT_GT(plan->describe({}), 0U);
        });
    }
}

// Row 15: windows add up on three axes, and the axes are not mixed up.
TEST(onnxruntime, average_pool_grad_accumulates_in_three_dimensions) {
    const auto dY = tensor_of<float>({1, 1, 2, 2, 2}, std::vector<float>(8, 8.0F));
    test_tensor<float> dX({1, 1, 3, 3, 3});
    ASSERT_TRUE(ort::AveragePoolGrad<float>(dY.const_view(), {.kernel_shape = {2, 2, 2}}, dX.view()).ok());
    std::vector<float> expected;
    for (int d = 0; d < 3; ++d)
        for (int h = 0; h < 3; ++h)
            for (int w = 0; w < 3; ++w) expected.push_back(static_cast<float>(1 << ((d == 1) + (h == 1) + (w == 1))));
    expect_values(dX, expected);

    const auto uneven = tensor_of<float>({1, 1, 1, 2, 3}, {6, 12, 18, 24, 30, 36});
    test_tensor<float> each({1, 1, 2, 2, 9});
    ASSERT_TRUE(
        ort::AveragePoolGrad<float>(uneven.const_view(), {.kernel_shape = {2, 1, 3}, .strides = {1, 1, 3}}, each.view())
            .ok());
    expect_values(each, {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6,  //
                         1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6});
}

// Row 19.
TEST(onnxruntime, average_pool_grad_rounds_once) {
    for_each_rank([](const variant& v) {
        const auto dY = tensor_of<gk::float16>(v.activation(1, 1, 4), {1, 1, 1, 1});
        test_tensor<gk::float16> dX(v.activation(1, 1, 6));
        ASSERT_TRUE(ort::AveragePoolGrad<gk::float16>(dY.const_view(), {.kernel_shape = v.axes(3, 1)}, dX.view()).ok());
        const std::array<float, 6> expected{.333251953125F, .66650390625F, 1, 1, .66650390625F, .333251953125F};
        for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(dX.value(i), expected[static_cast<std::size_t>(i)]);
    });
}

// Row 13, for the two roundings that ceil_mode has.
TEST(onnxruntime, average_pool_grad_window_counts) {
    for_each_rank([](const variant& v) {
        const auto fits = [&](const pool_row& row, std::int64_t o) {
            return ort::infer_AveragePoolGrad(v.activation(1, 1, o), attributes_of(row, v),
                                              v.activation(1, 1, row.size))
                .has_value();
        };
        for (std::int64_t o = 1; o <= 5; ++o) {
            EXPECT_EQ(fits({"13", 5, 2, 3, 1, 1, "NOTSET", 0, 0, {}, {}}, o), o == 2);
            EXPECT_EQ(fits({"13", 5, 2, 3, 1, 1, "NOTSET", 1, 0, {}, {}}, o), o == 2);
            EXPECT_EQ(fits({"valid, floor", 6, 3, 2, 4, 4, "VALID", 0, 0, {}, {}}, o), o == 2);
            EXPECT_EQ(fits({"valid, ceil", 6, 3, 2, 4, 4, "VALID", 1, 0, {}, {}}, o), o == 3);
            for (const char* same : {"SAME_UPPER", "SAME_LOWER"}) {
                EXPECT_EQ(fits({"same, floor", 6, 3, 2, 4, 4, same, 0, 0, {}, {}}, o), o == 3);
                EXPECT_EQ(fits({"same, ceil", 6, 3, 2, 4, 4, same, 1, 0, {}, {}}, o), o == 3);
            }
        }
    });
}

// Row 17.
TEST(onnxruntime, average_pool_grad_takes_an_empty_batch) {
    for_each_rank([](const variant& v) {
        const gk::tensor_layout dY = v.activation(0, 1, 3);
        const gk::tensor_layout dX = v.activation(0, 1, 6);
        EXPECT_TRUE(ort::AveragePoolGrad<float>({nullptr, dY}, attributes_of(pool_rows()[0], v), {nullptr, dX}).ok());
    });
}

// -------------------------------------------------------------------------------------------------------- MaxPoolGrad

struct indices {
    gk::tensor_layout layout{};
    std::vector<std::int64_t> values{};

    [[nodiscard]] gk::tensor_view<const std::int64_t> view() const { return {values.data(), layout}; }
};

// Row 35.
TEST(onnxruntime, max_pool_grad_rows) {
    for_each_rank([](const variant& v) {
        const auto dY = tensor_of<float>(v.activation(1, 1, 3), {1, 2, 3});
        test_tensor<float> dX(v.activation(1, 1, 4));
        indices at{v.activation(1, 1, 3), {1, 1, 2}};
        EXPECT_EQ(*ort::infer_MaxPoolGrad(dY.shape(), at.layout.shape, {}, dX.shape()), dX.shape());
        for (const std::int64_t storage_order : {0, 1}) {
            dX.poison();
            gk::status s = ort::MaxPoolGrad<float>(dY.const_view(), at.view(), {storage_order}, dX.view());
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_values(dX, {0, 3, 3, 0});
        }
        at.values[1] = -1;
        dX.poison();
        ASSERT_TRUE(ort::MaxPoolGrad<float>(dY.const_view(), at.view(), {}, dX.view()).ok());
        expect_values(dX, {0, 1, 3, 0});
        const auto plan = ort::plan_MaxPoolGrad<float>(dY.layout(), at.layout, {}, dX.layout());
        ASSERT_TRUE(plan.has_value());
        const guarded_bytes workspace(plan->workspace_bytes());
        dX.poison();
        ASSERT_TRUE(plan->run(dY.data(), at.values.data(), dX.data(), {workspace.data(), workspace.size()}).ok());
        expect_values(dX, {0, 1, 3, 0});
        EXPECT_GT(plan->describe({}), 0U);
    });
}

// Indices count the whole tensor, so that an element of one plane may land in another, and storage_order says how they
// count inside a plane.
TEST(onnxruntime, max_pool_grad_indices_count_the_whole_tensor) {
    const auto dY = tensor_of<float>({2, 2, 1, 1}, {1, 2, 3, 4});
    test_tensor<float> dX({2, 2, 2, 3});
    const indices at{extents{2, 2, 1, 1}, {23, 7, 7, 1}};
    ASSERT_TRUE(ort::MaxPoolGrad<float>(dY.const_view(), at.view(), {.storage_order = 0}, dX.view()).ok());
    expect_values(dX, {0, 4, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    // plane * 6 + x1 + 2 * x2: 1 is the place (1, 0), which is the fourth of its plane
    ASSERT_TRUE(ort::MaxPoolGrad<float>(dY.const_view(), at.view(), {.storage_order = 1}, dX.view()).ok());
    expect_values(dX, {0, 0, 0, 4, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
}

// Whatever an index says, nothing is written before all of them are known to be good.
TEST(onnxruntime, max_pool_grad_refuses_indices_outside) {
    const auto dY = tensor_of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 6});
    test_tensor<float> dX({1, 2, 4});
    const auto before = dX.snapshot();
    constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
    constexpr auto least_value = gk::expectation::at_least;
    for (const std::int64_t bad : {std::int64_t{-2}, std::int64_t{8}, huge, least}) {
        for (const std::size_t place : {0U, 2U, 5U}) {
            for (const std::int64_t storage_order : {0, 1}) {
                indices at{extents{1, 2, 3}, std::vector<std::int64_t>(6, 7)};
                at.values[place] = bad;
                EXPECT_EQ(ort::MaxPoolGrad<float>(dY.const_view(), at.view(), {storage_order}, dX.view()).error(),
                          (error{errc::index_out_of_range, "MaxPoolGrad", "indices", -1, bad, bad < 0 ? -1 : 8,
                                 bad < 0 ? least_value : below}));
                EXPECT_EQ(dX.snapshot(), before);
            }
        }
    }
}

// Sums of 16-bit types are f32: in bf16 they would stick at 256.
TEST(onnxruntime, max_pool_grad_sums_16_bit_types_in_f32) {
    const auto dY = tensor_of<gk::bfloat16>({1, 1, 1000}, std::vector<float>(1000, 1));
    const indices at{extents{1, 1, 1000}, std::vector<std::int64_t>(1000, 1)};
    test_tensor<gk::bfloat16> dX({1, 1, 3});
    ASSERT_TRUE(ort::MaxPoolGrad<gk::bfloat16>(dY.const_view(), at.view(), {}, dX.view()).ok());
    expect_values(dX, {0, 1000, 0});
}

TEST(onnxruntime, max_pool_grad_takes_an_empty_batch) {
    for_each_rank([](const variant& v) {
        const extents dY = v.activation(0, 3, 2);
        EXPECT_TRUE(ort::MaxPoolGrad<float>({nullptr, dY}, {nullptr, dY}, {}, {nullptr, v.activation(0, 3, 7)}).ok());
    });
}

// ---------------------------------------------------------------------------------------- ConvGrad, ConvTransposeGrad

// Rows 21 to 29: dX. Where the row lets the operator find a size, X has that size; output_padding is no attribute here.
TEST(onnxruntime, conv_grad_rows) {
    int rows = 0;
    for (const backward_data_row& row : backward_data_rows()) {
        SCOPED_TRACE(row.name);
        if (row.code == errc::invalid_argument) continue;  // output_padding out of range
        ++rows;
        for_each_rank([&](const variant& v) {
            const ort::ConvGrad_attributes a{.auto_pad = row.auto_pad,
                                             .group = row.groups,
                                             .kernel_shape = v.axes(row.k, 1),
                                             .pads = joined(v.axes(row.pad_begin, 0), v.axes(row.pad_end, 0)),
                                             .strides = v.axes(row.stride, 1)};
            const std::int64_t size =
                row.size ? *row.size : static_cast<std::int64_t>(row.diff_src.size()) / (row.groups * row.icg);
            const auto dY = tensor_of<float>(v.activation(1, row.oc, row.o), row.diff_dst);
            const auto W = tensor_of<float>(v.filter(row.oc, row.icg, row.k), row.weights);
            const extents X = v.activation(1, row.groups * row.icg, size);
            const auto shapes = ort::infer_ConvGrad(dY.shape(), X, W.shape(), a);
            ASSERT_EQ(shapes.error().code, row.code);
            test_tensor<float> dX(X);
            const auto before = dX.snapshot();
            const gk::status s = ort::ConvGrad<float>(dY.const_view(), {nullptr, X}, W.const_view(), a, dX.view());
            ASSERT_EQ(s.code(), row.code) << gk::to_string(s);
            if (!s) {
                EXPECT_EQ(dX.snapshot(), before);
                return;
            }
            EXPECT_EQ(shapes->dX, X);
            EXPECT_EQ(shapes->dW, W.shape());
            EXPECT_EQ(shapes->dB, extents{row.oc});
            expect_values(dX, row.diff_src);
        });
    }
    EXPECT_EQ(rows, 14);
}

// Rows 30 to 32 and 34: dW, whose axes are (IC, OC/g, K...) in ONNX. Row 33: the core's order is refused.
TEST(onnxruntime, conv_transpose_grad_rows) {
    for (const backward_filter_row& row : backward_filter_rows()) {
        SCOPED_TRACE(row.name);
        for_each_rank([&](const variant& v) {
            const ort::ConvTransposeGrad_attributes a{.group = row.groups,
                                                      .pads = joined(v.axes(row.pad_begin, 0), v.axes(row.pad_end, 0)),
                                                      .strides = v.axes(row.stride, 1)};
            const std::int64_t ocg = row.oc / row.groups;
            const auto X = tensor_of<float>(v.activation(row.n, row.ic, row.o), row.src);
            const auto dY = tensor_of<float>(v.activation(row.n, row.oc, row.size), row.diff_dst);
            const extents W = v.filter(row.ic, ocg, row.k);
            std::vector<float> expected;
            for (std::int64_t i = 0; i < row.ic; ++i)
                for (std::int64_t o = 0; o < ocg; ++o)
                    for (std::int64_t k = 0; k < row.k; ++k)
                        expected.push_back(row.diff_weights[static_cast<std::size_t>((o * row.ic + i) * row.k + k)]);
            test_tensor<float> dW(W);
            const gk::status s =
                ort::ConvTransposeGrad<float>(dY.const_view(), X.const_view(), {nullptr, W}, a, {}, dW.view());
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_values(dW, expected);
            if (ocg != row.ic) {
                EXPECT_EQ(
                    ort::infer_ConvTransposeGrad(dY.shape(), X.shape(), v.filter(ocg, row.ic, row.k), a).error().code,
                    errc::invalid_shape);
            }
        });
    }
}

// All results of an empty batch: dX is empty, dW and dB are written with zeros.
TEST(onnxruntime, conv_grad_takes_an_empty_batch) {
    for_each_rank([](const variant& v) {
        const gk::tensor_view<const float> dY{nullptr, v.activation(0, 4, 3)};
        const gk::tensor_view<const float> X{nullptr, v.activation(0, 2, 5)};
        const gk::tensor_view<const float> W{nullptr, v.filter(4, 2, 3)};
        test_tensor<float> dW(W.layout.shape);
        test_tensor<float> dB({4});
        ASSERT_TRUE(ort::ConvGrad<float>(dY, X, W, {}, {nullptr, X.layout}, dW.view(), dB.view()).ok());
        expect_values(dW, std::vector<float>(24, 0.0F));
        expect_values(dB, std::vector<float>(4, 0.0F));
        dW.poison();
        dB.poison();
        // X and dY change places, and so do the axes of W; OC is 2 now
        test_tensor<float> dB2({2});
        ASSERT_TRUE(ort::ConvTransposeGrad<float>(X, dY, W, {}, {nullptr, dY.layout}, dW.view(), dB2.view()).ok());
        expect_values(dW, std::vector<float>(24, 0.0F));
        expect_values(dB2, std::vector<float>(2, 0.0F));
    });
}

// ------------------------------------------------------------------------------------------------- random problems

// Attributes that have their default are left out now and then.
ort::ints maybe(random_source& random, const extents& values, std::int64_t standard) {
    for (const std::int64_t v : values.values())
        if (v != standard) return values;
    return random.chance(1, 2) ? ort::ints{} : ort::ints(values);
}

// Takes over what the two families share.
template <class Attributes, class Core>
Attributes onnx_attributes(random_source& random, const Core& core, const extents& kernel) {
    Attributes a;
    a.auto_pad = word_of(core.auto_pad);
    a.dilations = maybe(random, core.dilations, 1);
    a.group = core.groups;
    if (random.chance(1, 2)) a.kernel_shape = kernel;
    a.strides = maybe(random, core.strides, 1);
    if (core.auto_pad != gk::auto_pad::none && random.chance(1, 2)) {
        a.pads = {7, 1, 2};  // ignored, whatever the length
    } else {
        a.pads = joined(core.pads_begin, core.pads_end);
    }
    return a;
}

// The first two axes the other way round, as a dense copy.
template <class T>
test_tensor<T> swapped(const test_tensor<T>& t) {
    extents shape = t.shape();
    std::swap(shape[0], shape[1]);
    test_tensor<T> copy(shape);
    const std::int64_t inner = t.count() / (shape[0] * shape[1]);
    for (std::int64_t a = 0; a < shape[0]; ++a)
        for (std::int64_t b = 0; b < shape[1]; ++b)
            for (std::int64_t k = 0; k < inner; ++k)
                copy[(a * shape[1] + b) * inner + k] = t[(b * shape[0] + a) * inner + k];
    return copy;
}

template <class T>
test_tensor<T> dense_copy(const test_tensor<T>& t) {
    test_tensor<T> copy(t.shape());
    for (std::int64_t i = 0; i < t.count(); ++i) copy[i] = t[i];
    return copy;
}

// What the core and the reference make of dense tensors, each result on its own.
template <class T, class G, class B>
struct expected_gradients {
    test_tensor<T> dX;
    test_tensor<G> dW;
    test_tensor<B> dB;
};

template <class T, class G, class B>
void one_random_problem(random_source& random, bool transposed, bool integers) {
    const conv_case c = with_formats(random_conv_case(random, 60'000,
                                                      transposed ? conv_operator::conv_transpose_backward_weights
                                                                 : conv_operator::convolution_backward_weights),
                                     gk::data_format::ncx, gk::weights_format::oix);
    SCOPED_TRACE(c.text());
    const std::size_t r = c.large.rank() - 2;
    const bool strided = random.chance(1, 2);
    const auto input = [&](const extents& shape) {
        test_tensor<T> t(shape, strided ? random_input_strides(random, shape) : extents{}, side_of(random));
        t.fill([&](std::int64_t) { return integers ? static_cast<float>(random.integer(-3, 3)) : random.real(-2, 2); });
        return t;
    };
    extents w_shape = c.weights;
    if (transposed) std::swap(w_shape[0], w_shape[1]);
    const auto X = input(transposed ? c.small : c.large);
    const auto dY = input(transposed ? c.large : c.small);
    const auto W = input(w_shape);
    const std::array inputs{X.snapshot(), dY.snapshot(), W.snapshot()};

    const gk::call_options mode{
        .plan = {.output = random.chance(1, 4) ? gk::output_mode::accumulate : gk::output_mode::overwrite}};
    const bool accumulates = mode.plan.output == gk::output_mode::accumulate;
    const extents bias{dY.shape()[1]};
    test_tensor<T> oldX(X.shape());
    test_tensor<G> oldW(w_shape);
    test_tensor<B> oldB(bias);
    const auto previous = [&](const auto& t) { t.fill([&](std::int64_t) { return random.integer(-3, 3); }); };
    previous(oldX);
    previous(oldW);
    previous(oldB);

    // by the core and by the reference, on dense copies in the core's order
    const auto x = dense_copy(X);
    const auto dy = dense_copy(dY);
    const auto w = transposed ? swapped(W) : dense_copy(W);
    const auto compute = [&](bool reference) {
        expected_gradients<T, G, B> e{dense_copy(oldX), transposed ? swapped(oldW) : dense_copy(oldW),
                                      dense_copy(oldB)};
        std::vector<std::byte> workspace(1 << 22);
        gk::call_options options = mode;
        options.workspace = workspace;
        const gk::bias_attributes bias_attributes{.data_format = gk::data_format::ncx};
        std::array<gk::status, 3> s;
        if (reference) {
            s[0] = transposed ? gk::ref::conv_transpose_backward_data<T>(dy.const_view(), w.const_view(), c.transpose,
                                                                         e.dX.view(), mode)
                              : gk::ref::convolution_backward_data<T>(dy.const_view(), w.const_view(), c.conv,
                                                                      e.dX.view(), mode);
            s[1] = transposed ? gk::ref::conv_transpose_backward_weights<T, G>(x.const_view(), dy.const_view(),
                                                                               c.transpose, e.dW.view(), {}, mode)
                              : gk::ref::convolution_backward_weights<T, G>(x.const_view(), dy.const_view(), c.conv,
                                                                            e.dW.view(), {}, mode);
            s[2] = gk::ref::bias_backward<T, B>(dy.const_view(), bias_attributes, e.dB.view(), mode);
        } else {
            s[0] = transposed ? gk::conv_transpose_backward_data<T>(dy.const_view(), w.const_view(), c.transpose,
                                                                    e.dX.view(), options)
                              : gk::convolution_backward_data<T>(dy.const_view(), w.const_view(), c.conv, e.dX.view(),
                                                                 options);
            s[1] = transposed ? gk::conv_transpose_backward_weights<T, G>(x.const_view(), dy.const_view(), c.transpose,
                                                                          e.dW.view(), {}, options)
                              : gk::convolution_backward_weights<T, G>(x.const_view(), dy.const_view(), c.conv,
                                                                       e.dW.view(), {}, options);
            s[2] = gk::bias_backward<T, B>(dy.const_view(), bias_attributes, e.dB.view(), options);
        }
        for (const gk::status& status : s) EXPECT_TRUE(status.ok()) << gk::to_string(status);
        return e;
    };
    const auto core = compute(false);
    const auto check = [&](const test_tensor<T>& dX, const test_tensor<G>& dW, const test_tensor<B>& dB, int wanted,
                           const expected_gradients<T, G, B>& e) {
        if ((wanted & 1) != 0) {
            EXPECT_TRUE(dX.equals(e.dX));
        }
        if ((wanted & 2) != 0) {
            EXPECT_TRUE((transposed ? swapped(dW) : dense_copy(dW)).equals(e.dW));
        }
        if ((wanted & 4) != 0) {
            EXPECT_TRUE(dB.equals(e.dB));
        }
    };

    const int wanted = static_cast<int>(random.integer(1, 7));  // dX, dW, dB
    const auto output = [&](auto element, const extents& shape) {
        return test_tensor<decltype(element)>(shape, strided ? random_output_strides(random, shape) : extents{},
                                              side_of(random));
    };
    auto dX = output(T{}, X.shape());
    auto dW = output(G{}, w_shape);
    auto dB = output(B{}, bias);
    const auto prepare = [&] {
        const auto put = [&](auto& t, const auto& old, int bit) {
            t.poison();
            for (std::int64_t i = 0; accumulates && (wanted & bit) != 0 && i < t.count(); ++i) t[i] = old[i];
        };
        put(dX, oldX, 1);
        put(dW, oldW, 2);
        put(dB, oldB, 4);
    };
    const auto untouched = [&](const auto& t, int bit) {
        if ((wanted & bit) != 0) return;
        for (const unsigned char b : t.snapshot()) ASSERT_EQ(b, poison_byte);
    };
    const auto verify = [&] {
        check(dX, dW, dB, wanted, core);
        if (integers) check(dX, dW, dB, wanted, compute(true));
        untouched(dX, 1);
        untouched(dW, 2);
        untouched(dB, 4);
        EXPECT_TRUE(dX.surroundings_intact());
        EXPECT_TRUE(dW.surroundings_intact());
        EXPECT_TRUE(dB.surroundings_intact());
        EXPECT_TRUE(X.snapshot() == inputs[0] && dY.snapshot() == inputs[1] && W.snapshot() == inputs[2]);
    };
    const auto run = [&](const auto& plan_of, const auto& call, const auto& a) {
        // everything planned, what is wanted run
        const bool all = random.chance(1, 2);
        const auto layout = [&](const auto& t, int bit) {
            return all || (wanted & bit) != 0 ? t.layout() : gk::tensor_layout{};
        };
        const auto plan =
            plan_of(dY.layout(), X.layout(), W.layout(), a, layout(dX, 1), layout(dW, 2), layout(dB, 4), mode.plan);
        ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        const auto workers = static_cast<std::ptrdiff_t>(random.integer(1, 4));
        shuffling_executor executor(workers);
        const guarded_bytes workspace(plan->workspace_bytes(random.chance(1, 2) ? 1 : workers));
        prepare();
        const gk::status s =
            plan->run(dY.data(), (wanted & 2) != 0 ? X.data() : nullptr, (wanted & 1) != 0 ? W.data() : nullptr,
                      (wanted & 1) != 0 ? dX.data() : nullptr, (wanted & 2) != 0 ? dW.data() : nullptr,
                      (wanted & 4) != 0 ? dB.data() : nullptr, {workspace.data(), workspace.size()}, executor);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        verify();
        EXPECT_TRUE(workspace.zones_intact());

        // in one call; dense results need no layout
        gk::call_options options = mode;
        options.workspace = {workspace.data(), workspace.size()};
        const auto view = [&](const auto& t, int bit) {
            auto given = t.view();
            if (!strided && random.chance(1, 2)) given.layout = {};
            return (wanted & bit) != 0 ? given : decltype(given){};
        };
        prepare();
        const gk::status t =
            call(dY.const_view(), X.const_view(), W.const_view(), a, view(dX, 1), view(dW, 2), view(dB, 4), options);
        ASSERT_TRUE(t.ok()) << gk::to_string(t);
        verify();
    };
    extents kernel;
    for (std::size_t i = 0; i < r; ++i) kernel.push_back(c.weights[2 + i]);
    if (transposed) {
        auto a = onnx_attributes<ort::ConvTransposeGrad_attributes>(random, c.transpose, kernel);
        a.output_padding = c.transpose.output_padding;
        if (random.chance(1, 2)) {
            extents size;
            for (std::size_t i = 0; i < r; ++i) size.push_back(c.large[2 + i]);
            a.output_shape = size;
        }
        run([](const auto&... v) { return ort::plan_ConvTransposeGrad<T, G, B>(v...); },
            [](const auto&... v) { return ort::ConvTransposeGrad<T, G, B>(v...); }, a);
    } else {
        run([](const auto&... v) { return ort::plan_ConvGrad<T, G, B>(v...); },
            [](const auto&... v) { return ort::ConvGrad<T, G, B>(v...); },
            onnx_attributes<ort::ConvGrad_attributes>(random, c.conv, kernel));
    }
}

template <class T, class G = T, class B = G>
void random_problems(std::string_view name, int count) {
    random_source random(name);
    for (int i = 0; i < count; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const bool transposed = i % 2 != 0;
        one_random_problem<T, G, B>(random, transposed, i % 4 < 3);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(onnxruntime, conv_gradients_have_the_bits_of_the_core_f32) { random_problems<float>("onnxruntime.f32", 400); }
TEST(onnxruntime, conv_gradients_have_the_bits_of_the_core_f16) {
    random_problems<gk::float16>("onnxruntime.f16", 150);
    random_problems<gk::float16, float>("onnxruntime.f16 to f32", 100);
}
TEST(onnxruntime, conv_gradients_have_the_bits_of_the_core_bf16) {
    random_problems<gk::bfloat16>("onnxruntime.bf16", 150);
    random_problems<gk::bfloat16, float, gk::bfloat16>("onnxruntime.bf16 to f32", 100);
}

// AveragePoolGrad has the bits of the reference, with all its attributes.
template <class T>
void random_pools(std::string_view name) {
    random_source random(name);
    int runs = 0;
    for (int i = 0; i < 400; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto r = static_cast<std::size_t>(random.integer(1, 3));
        gk::avg_pool_attributes core{.exclude_pad = random.chance(1, 2),
                                     .auto_pad = static_cast<gk::auto_pad>(random.integer(0, 3)),
                                     .data_format = gk::data_format::ncx};
        extents src{random.integer(0, 3), random.integer(1, 5)};
        for (std::size_t k = 0; k < r; ++k) {
            src.push_back(random.integer(1, r == 1 ? 40 : r == 2 ? 11 : 6));
            core.kernel.push_back(random.integer(1, 4));
            core.strides.push_back(random.integer(1, 3));
            core.dilations.push_back(random.chance(1, 3) ? random.integer(1, 3) : 1);
            core.pads_begin.push_back(random.integer(0, 4));
            core.pads_end.push_back(random.integer(0, 4));
        }
        const bool ceil_mode = random.chance(1, 2);
        if (ceil_mode) core.rounding_type = gk::rounding_type::ceil_torch;
        const auto dst = gk::infer_avg_pool(src, core);
        if (!dst) continue;
        ++runs;
        ort::AveragePoolGrad_attributes a{.auto_pad = word_of(core.auto_pad),
                                          .ceil_mode = ceil_mode ? 1 : 0,
                                          .count_include_pad = core.exclude_pad ? 0 : 1,
                                          .dilations = maybe(random, core.dilations, 1),
                                          .kernel_shape = core.kernel,
                                          .pads = joined(core.pads_begin, core.pads_end),
                                          .strides = maybe(random, core.strides, 1)};
        const bool strided = random.chance(1, 2);
        test_tensor<T> dY(*dst, strided ? random_input_strides(random, *dst) : extents{}, side_of(random));
        test_tensor<T> dX(src, strided ? random_output_strides(random, src) : extents{}, side_of(random));
        dY.fill_random(random);
        test_tensor<T> expected(src);
        ASSERT_TRUE(gk::ref::avg_pool_backward<T>(dY.const_view(), core, expected.view()).ok());
        const auto plan = ort::plan_AveragePoolGrad<T>(dY.layout(), a, dX.layout());
        ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        const guarded_bytes workspace(plan->workspace_bytes());
        ASSERT_TRUE(plan->run(dY.data(), dX.data(), {workspace.data(), workspace.size()}).ok());
        EXPECT_TRUE(dX.equals(expected));
        EXPECT_TRUE(dX.surroundings_intact());
        dX.poison();
        ASSERT_TRUE(
            ort::AveragePoolGrad<T>(dY.const_view(), a, dX.view(), {.workspace = {workspace.data(), workspace.size()}})
                .ok());
        EXPECT_TRUE(dX.equals(expected));
    }
    EXPECT_GT(runs, 200);
}

TEST(onnxruntime, average_pool_grad_has_the_bits_of_the_reference) {
    random_pools<float>("onnxruntime.pool f32");
    random_pools<gk::float16>("onnxruntime.pool f16");
    random_pools<gk::bfloat16>("onnxruntime.pool bf16");
}

// MaxPoolGrad has the bits of the reference, for indices from MaxPool and for any others.
template <class T>
void random_max_pools(std::string_view name) {
    random_source random(name);
    int runs = 0;
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const auto r = static_cast<std::size_t>(random.integer(1, 3));
        const std::int64_t storage_order = random.integer(0, 1);
        const auto core_order = storage_order == 0 ? gk::storage_order::row_major : gk::storage_order::column_major;
        gk::max_pool_attributes pool{.data_format = gk::data_format::ncx, .storage_order = core_order};
        extents src{random.integer(0, 3), random.integer(1, 5)};
        for (std::size_t k = 0; k < r; ++k) {
            src.push_back(random.integer(1, r == 1 ? 40 : r == 2 ? 11 : 6));
            pool.kernel.push_back(random.integer(1, 4));
            pool.strides.push_back(random.integer(1, 3));
            pool.pads_begin.push_back(random.integer(0, 4));
            pool.pads_end.push_back(random.integer(0, 4));
        }
        const auto dst = gk::infer_max_pool(src, pool);
        if (!dst) continue;
        ++runs;
        std::int64_t count = 1;
        std::int64_t places = 1;
        for (const std::int64_t e : dst->values()) count *= e;
        for (const std::int64_t e : src.values()) places *= e;
        indices at{*dst, std::vector<std::int64_t>(static_cast<std::size_t>(count))};
        if (random.chance(1, 2)) {
            test_tensor<T> x(src);
            test_tensor<T> y(*dst);
            x.fill_random(random);
            ASSERT_TRUE(gk::ref::max_pool<T>(x.const_view(), pool, y.view(), {at.values.data(), at.layout}).ok());
        } else {
            for (std::int64_t& index : at.values) index = random.integer(-1, places - 1);
        }
        const bool strided = random.chance(1, 2);
        test_tensor<T> dY(*dst, strided ? random_input_strides(random, *dst) : extents{}, side_of(random));
        test_tensor<T> dX(src, strided ? random_output_strides(random, src) : extents{}, side_of(random));
        dY.fill_random(random);
        test_tensor<T> expected(src);
        ASSERT_TRUE(gk::ref::max_pool_backward_from_indices<T>(
                        dY.const_view(), at.view(), {.data_format = gk::data_format::ncx, .storage_order = core_order},
                        expected.view())
                        .ok());
        const auto plan = ort::plan_MaxPoolGrad<T>(dY.layout(), at.layout, {storage_order}, dX.layout());
        ASSERT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        const auto workers = static_cast<std::ptrdiff_t>(random.integer(1, 4));
        shuffling_executor executor(workers);
        const guarded_bytes workspace(plan->workspace_bytes(workers));
        ASSERT_TRUE(
            plan->run(dY.data(), at.values.data(), dX.data(), {workspace.data(), workspace.size()}, executor).ok());
        EXPECT_TRUE(dX.equals(expected));
        EXPECT_TRUE(dX.surroundings_intact());
        dX.poison();
        ASSERT_TRUE(ort::MaxPoolGrad<T>(dY.const_view(), at.view(), {storage_order}, dX.view(),
                                        {.workspace = {workspace.data(), workspace.size()}})
                        .ok());
        EXPECT_TRUE(dX.equals(expected));
    }
    EXPECT_GT(runs, 150);
}

TEST(onnxruntime, max_pool_grad_has_the_bits_of_the_reference) {
    random_max_pools<float>("onnxruntime.max_pool f32");
    random_max_pools<gk::float16>("onnxruntime.max_pool f16");
    random_max_pools<gk::bfloat16>("onnxruntime.max_pool bf16");
}

// ---------------------------------------------------------------------------------------------------------- spelling

TEST(onnxruntime, words_and_vectors) {
    // k = 2, s = 1 and an input of 5: the window count tells the modes apart
    const auto windows = [](const ort::word<gk::auto_pad>& w) {
        for (std::int64_t o = 1; o <= 7; ++o) {
            const error e =
                ort::infer_AveragePoolGrad({1, 1, o}, {.auto_pad = w, .kernel_shape = {2}, .pads = {1, 1}}, {1, 1, 5})
                    .error();
            if (e.code == errc::ok) return o;
            if (e.argument == "auto_pad") return std::int64_t{-1};
        }
        return std::int64_t{0};
    };
    EXPECT_EQ(windows({}), 6);
    EXPECT_EQ(windows("NOTSET"), 6);
    EXPECT_EQ(windows("VALID"), 4);
    EXPECT_EQ(windows(std::string("SAME_UPPER")), 5);
    EXPECT_EQ(windows(std::string_view("SAME_LOWER")), 5);
    EXPECT_EQ(windows(gk::auto_pad::valid), 4);
    EXPECT_EQ(windows(static_cast<const char*>(nullptr)), 6);
    for (const char* w : {"", "Valid", "SAME", "EXPLICIT"}) EXPECT_EQ(windows(w), -1) << w;
    EXPECT_EQ(windows(static_cast<gk::auto_pad>(17)), -1);

    const std::vector<std::int64_t> s64{2, 3};
    const std::array<std::int32_t, 2> s32{2, 3};
    for (const ort::ints& v : {ort::ints(s64), ort::ints(s32), ort::ints({2, 3}), ort::ints(extents{2, 3}),
                               ort::ints(std::span<const std::int64_t>(s64))}) {
        EXPECT_EQ(v.size(), 2U);
        EXPECT_EQ(v.part(0, 2, 1), (extents{2, 3}));
        EXPECT_EQ(v.part(1, 1, 1), (extents{3}));
    }
    EXPECT_TRUE(ort::ints(std::vector<std::int64_t>{}).empty());
    EXPECT_EQ(ort::ints{}.part(0, 3, 1), (extents{1, 1, 1}));
    EXPECT_EQ(ort::ints({1, 2, 3, 4, 5, 6}).part(3, 3, 0), (extents{4, 5, 6}));
    EXPECT_EQ(ort::ints(extents::filled(9, 7)).size(), 5U);  // what extents hold
    EXPECT_EQ(ort::ints(std::vector<std::int64_t>(9, 7)).size(), 9U);
}

// The begins of all axes come before the ends: (0, 1) and (2, 0) are different problems.
// Extents hold five numbers: the pads of three axes would lose the last one.
TEST(onnxruntime, six_pads_do_not_come_from_extents) {
    ort::AveragePoolGrad_attributes a{.kernel_shape = {1, 1, 2}, .strides = {1, 1, 2}};
    const extents dY{1, 1, 1, 1, 2};
    const extents dX{1, 1, 1, 1, 3};
    a.pads = {0, 0, 0, 0, 0, 1};
    EXPECT_TRUE(ort::plan_AveragePoolGrad<float>(dY, a, dX));
    a.pads = extents{0, 0, 0, 0, 0, 1};
    EXPECT_EQ(ort::plan_AveragePoolGrad<float>(dY, a, dX).error(),
              (error{errc::invalid_argument, "AveragePoolGrad", "pads", -1, 5, 6, equal}));
}

TEST(onnxruntime, pads_are_all_begins_then_all_ends) {
    const ort::AveragePoolGrad_attributes a{.kernel_shape = {1, 2}, .pads = {0, 1, 2, 0}};
    EXPECT_TRUE(ort::infer_AveragePoolGrad({1, 1, 5, 3}, a, {1, 1, 3, 3}).has_value());
    const auto dY = tensor_of<float>({1, 1, 3, 1}, {2, 4, 6});
    test_tensor<float> dX({1, 1, 1, 1});
    ASSERT_TRUE(
        ort::AveragePoolGrad<float>(dY.const_view(), {.kernel_shape = {1, 2}, .pads = {2, 1, 0, 0}}, dX.view()).ok());
    expect_values(dX, {6});
}

// The front end works in constant expressions, too.
static_assert(ort::infer_AveragePoolGrad({1, 2, 2}, {.auto_pad = "SAME_UPPER", .kernel_shape = {2}, .strides = {2}},
                                         {1, 2, 4})
                  .has_value());
static_assert(ort::infer_MaxPoolGrad({1, 2, 2}, {1, 2, 2}, {.storage_order = 1}, {1, 2, 9}).has_value());
static_assert(ort::infer_ConvGrad({1, 4, 3}, {1, 2, 5}, {4, 2, 3}, {})->dB[0] == 4);
static_assert(ort::infer_ConvTransposeGrad({1, 6, 5}, {1, 4, 3}, {4, 3, 3}, {.group = 2})->dB[0] == 6);

// ------------------------------------------------------------------------------------------------------------ errors

// One mistake: the check that finds it, what it spoils, and the error. Mistakes of one part cannot be made together.
template <class Call>
struct mistake {
    int check;
    std::string_view part;
    std::function<void(Call&)> make;
    error expected;
};

// Every mistake alone, then every two: the earlier check wins. `ask` returns the answers of all faces.
template <class Call, class Ask>
void expect_errors(const Call& good, const std::vector<mistake<Call>>& mistakes, const Ask& ask) {
    for (const error& e : ask(good)) EXPECT_EQ(e, error{}) << gk::to_string(e);
    for (std::size_t i = 0; i < mistakes.size(); ++i) {
        const auto& m = mistakes[i];
        if (i > 0) {
            ASSERT_GE(m.check, mistakes[i - 1].check);
        }
        Call bad = good;
        m.make(bad);
        for (const error& e : ask(bad))
            EXPECT_EQ(e, m.expected) << i << ": " << gk::to_string(e) << "\n" << gk::to_string(m.expected);
        for (const auto& later : mistakes) {
            if (later.check <= m.check || later.part == m.part) continue;
            Call both = good;
            later.make(both);
            m.make(both);
            for (const error& e : ask(both))
                EXPECT_EQ(e, m.expected) << i << ", " << gk::to_string(later.expected) << ": " << gk::to_string(e);
        }
    }
}

// Ways to spoil a call.
template <class Attributes, class Value>
auto with(Value Attributes::*member, const std::type_identity_t<Value>& value) {
    return [=](auto& c) { c.a.*member = value; };
}
template <class Call>
auto tensor(gk::tensor_layout Call::*member, const gk::tensor_layout& value) {
    return [=](Call& c) { c.*member = value; };
}
template <class Call>
auto extent(gk::tensor_layout Call::*member, std::size_t axis, std::int64_t value) {
    return [=](Call& c) { (c.*member).shape[axis] = value; };
}

struct pool_call {
    gk::tensor_layout dY{1, 1, 3, 2};
    gk::tensor_layout dX{1, 1, 6, 5};
    ort::AveragePoolGrad_attributes a{
        .count_include_pad = 1, .dilations = {1, 1}, .kernel_shape = {3, 2}, .pads = {1, 0, 0, 0}, .strides = {2, 3}};
};

// Rows 8, 9, 16 and 38 among them.
TEST(onnxruntime, average_pool_grad_finds_every_mistake) {
    constexpr std::string_view op = "AveragePoolGrad";
    using attributes = ort::AveragePoolGrad_attributes;
    using call = pool_call;
    constexpr auto argument = errc::invalid_argument;
    constexpr auto wrong_shape = errc::invalid_shape;
    const std::vector<mistake<pool_call>> mistakes{
        {0, "dY", tensor(&call::dY, {1, 3}), {errc::unsupported, op, "dY", -1, 2, 3, at_least}},
        {0, "dY", tensor(&call::dY, {}), {errc::unsupported, op, "dY", -1, 0, 3, at_least}},
        {0, "dY", tensor(&call::dY, {1, 1, 1, 1, 3, 1}), {errc::unsupported, op, "dY", -1, 6, 5, at_most}},
        {1, "auto_pad", with(&attributes::auto_pad, "same"), {argument, op, "auto_pad", -1, 0, 0, none}},
        {1,
         "auto_pad",
         with(&attributes::auto_pad, static_cast<gk::auto_pad>(9)),
         {argument, op, "auto_pad", -1, 9, 3, at_most}},
        {1, "kernel_shape", with(&attributes::kernel_shape, {}), {argument, op, "kernel_shape", -1, 0, 2}},
        {1, "kernel_shape", with(&attributes::kernel_shape, {3}), {argument, op, "kernel_shape", -1, 1, 2}},
        {1, "kernel_shape", with(&attributes::kernel_shape, {3, 2, 1}), {argument, op, "kernel_shape", -1, 3, 2}},
        {1, "strides", with(&attributes::strides, {2}), {argument, op, "strides", -1, 1, 2}},
        {1, "pads", with(&attributes::pads, {1, 0}), {argument, op, "pads", -1, 2, 4}},
        {1, "dilations", with(&attributes::dilations, {1, 1, 1}), {argument, op, "dilations", -1, 3, 2}},
        {2, "kernel_shape", with(&attributes::kernel_shape, {3, 0}), {argument, op, "kernel_shape", 1, 0, 1, at_least}},
        {2, "strides", with(&attributes::strides, {0, 3}), {argument, op, "strides", 0, 0, 1, at_least}},
        {2, "dilations", with(&attributes::dilations, {1, -2}), {argument, op, "dilations", 1, -2, 1, at_least}},
        {2, "pads", with(&attributes::pads, {1, -1, 0, 0}), {argument, op, "pads", 1, -1, 0, at_least}},
        {2, "pads", with(&attributes::pads, {1, 0, 0, -3}), {argument, op, "pads", 3, -3, 0, at_least}},
        {2,
         "pads",
         [](auto& c) {  // ignored for their length and their size, not for their sign
             c.a.auto_pad = "SAME_UPPER";
             c.a.pads = {-1};
         },
         {argument, op, "pads", 0, -1, 0, at_least}},
        {2, "ceil_mode", with(&attributes::ceil_mode, 2), {argument, op, "ceil_mode", -1, 2, 1, at_most}},
        {2, "ceil_mode", with(&attributes::ceil_mode, -1), {argument, op, "ceil_mode", -1, -1, 0, at_least}},
        {2,
         "count_include_pad",
         with(&attributes::count_include_pad, 7),
         {argument, op, "count_include_pad", -1, 7, 1, at_most}},
        {3, "dX", tensor(&call::dX, {1, 1, 6}), {errc::unsupported, op, "dX", -1, 3, 4}},
        {3, "dX", tensor(&call::dX, {}), {errc::missing_shape, op, "dX", -1, 0, 0, none}},
        {4, "dX", tensor(&call::dX, {1, 1, 0, 5}), {wrong_shape, op, "dX", 2, 0, 1, at_least}},
        {4, "dX", tensor(&call::dX, {-1, 1, 6, 5}), {wrong_shape, op, "dX", 0, -1, 0, at_least}},
        {4, "dY", tensor(&call::dY, {1, -1, 3, 2}), {wrong_shape, op, "dY", 1, -1, 0, at_least}},
        {5, "dX", tensor(&call::dX, {1, 1, huge, 5}), {errc::overflow, op, "dX", -1, 0, 0, none}},
        {5, "dY", tensor(&call::dY, {1, 1, 3, huge}), {errc::overflow, op, "dY", -1, 0, 0, none}},
        {5,
         "kernel_shape",
         [](auto& c) {
             c.a.kernel_shape = {huge, 2};
             c.a.dilations = {4, 1};
         },
         {errc::overflow, op, "kernel_shape", 0, 0, 0, none}},
        {6, "dY", tensor(&call::dY, {2, 1, 3, 2}), {wrong_shape, op, "dY", 0, 2, 1}},
        {6, "dY", tensor(&call::dY, {1, 2, 3, 2}), {wrong_shape, op, "dY", 1, 2, 1}},
        {6, "dY", tensor(&call::dY, {1, 1, 4, 2}), {wrong_shape, op, "dY", 2, 4, 3}},
        {6, "dY", tensor(&call::dY, {1, 1, 3, 3}), {wrong_shape, op, "dY", 3, 3, 2}},
        {6, "kernel_shape", with(&attributes::kernel_shape, {9, 2}), {wrong_shape, op, "dX", 2, 7, 9, at_least}},
    };
    test_tensor<float> out({1, 1, 6, 5});
    const test_tensor<float> in({1, 1, 3, 2});
    const auto before = out.snapshot();
    bool is_good = true;
    expect_errors<pool_call>({}, mistakes, [&](const pool_call& c) {
        const auto inferred = ort::infer_AveragePoolGrad(c.dY.shape, c.a, c.dX.shape);
        const auto planned = ort::plan_AveragePoolGrad<float>(c.dY, c.a, c.dX);
        const auto called = ort::AveragePoolGrad<float>({in.data(), c.dY}, c.a, {out.data(), c.dX});
        if (is_good) {
            out.poison();
        } else {
            EXPECT_EQ(out.snapshot(), before);
        }
        is_good = false;
        return std::array{inferred.error(), planned.error(), called.error()};
    });
}

struct max_pool_call {
    gk::tensor_layout dY{1, 2, 3, 2};
    gk::tensor_layout indices{1, 2, 3, 2};
    gk::tensor_layout dX{1, 2, 6, 5};
    ort::MaxPoolGrad_attributes a{};
};

// Row 35's shapes among them. Ranks that disagree are wrong shapes here.
TEST(onnxruntime, max_pool_grad_finds_every_mistake) {
    constexpr std::string_view op = "MaxPoolGrad";
    using attributes = ort::MaxPoolGrad_attributes;
    using call = max_pool_call;
    constexpr auto argument = errc::invalid_argument;
    constexpr auto wrong_shape = errc::invalid_shape;
    const std::vector<mistake<call>> mistakes{
        {0, "dY", tensor(&call::dY, {1, 3}), {errc::unsupported, op, "dY", -1, 2, 3, at_least}},
        {0, "dY", tensor(&call::dY, {1, 2, 1, 1, 3, 2}), {errc::unsupported, op, "dY", -1, 6, 5, at_most}},
        {2, "storage_order", with(&attributes::storage_order, 2), {argument, op, "storage_order", -1, 2, 1, at_most}},
        {2,
         "storage_order",
         with(&attributes::storage_order, -1),
         {argument, op, "storage_order", -1, -1, 0, at_least}},
        {3, "dX", tensor(&call::dX, {}), {errc::missing_shape, op, "dX", -1, 0, 0, none}},
        {4, "dY", tensor(&call::dY, {1, 2, 0, 2}), {wrong_shape, op, "dY", 2, 0, 1, at_least}},
        {4, "indices", tensor(&call::indices, {1, 2, 3}), {wrong_shape, op, "indices", -1, 3, 4}},
        {4, "indices", tensor(&call::indices, {}), {wrong_shape, op, "indices", -1, 0, 4}},
        {4, "dX", tensor(&call::dX, {1, 2, 6}), {wrong_shape, op, "dX", -1, 3, 4}},
        {4, "dX", tensor(&call::dX, {1, 2, 6, 0}), {wrong_shape, op, "dX", 3, 0, 1, at_least}},
        {5, "dY", tensor(&call::dY, {1, 2, huge, 2}), {errc::overflow, op, "dY", -1, 0, 0, none}},
        {5, "indices", tensor(&call::indices, {huge, 2, 3, 2}), {errc::overflow, op, "indices", -1, 0, 0, none}},
        {5, "dX", tensor(&call::dX, {1, 2, huge, 5}), {errc::overflow, op, "dX", -1, 0, 0, none}},
        {6, "indices", tensor(&call::indices, {1, 2, 2, 3}), {wrong_shape, op, "indices", 2, 2, 3}},
        {6, "dX", tensor(&call::dX, {2, 2, 6, 5}), {wrong_shape, op, "dX", 0, 2, 1}},
        {6, "dX", tensor(&call::dX, {1, 3, 6, 5}), {wrong_shape, op, "dX", 1, 3, 2}},
    };
    test_tensor<float> out({1, 2, 6, 5});
    const auto in = tensor_of<float>({1, 2, 3, 2}, std::vector<float>(12, 1));
    const indices at{{}, std::vector<std::int64_t>(12, 3)};
    const auto before = out.snapshot();
    bool is_good = true;
    expect_errors<call>({}, mistakes, [&](const call& c) {
        const auto inferred = ort::infer_MaxPoolGrad(c.dY.shape, c.indices.shape, c.a, c.dX.shape);
        const auto planned = ort::plan_MaxPoolGrad<float>(c.dY, c.indices, c.a, c.dX);
        const auto called =
            ort::MaxPoolGrad<float>({in.data(), c.dY}, {at.values.data(), c.indices}, c.a, {out.data(), c.dX});
        EXPECT_EQ(out.snapshot() == before, !is_good);
        if (is_good) out.poison();
        is_good = false;
        return std::array{inferred.error(), planned.error(), called.error()};
    });
    // memory
    const auto plan = ort::plan_MaxPoolGrad<float>({1, 2, 3, 2}, {1, 2, 3, 2}, {}, {1, 2, 6, 5});
    std::vector<std::byte> workspace(plan->workspace_bytes());
    EXPECT_EQ(plan->run(nullptr, at.values.data(), out.data(), workspace).error(),
              (error{errc::null_pointer, op, "dY", -1, 0, 0, none}));
    EXPECT_EQ(plan->run(in.data(), nullptr, out.data(), workspace).error(),
              (error{errc::null_pointer, op, "indices", -1, 0, 0, none}));
    EXPECT_EQ(plan->run(in.data(), at.values.data(), nullptr, workspace).error(),
              (error{errc::null_pointer, op, "dX", -1, 0, 0, none}));
    EXPECT_EQ(plan->run(out.data() + 59, at.values.data(), out.data(), workspace).error(),
              (error{errc::invalid_argument, op, "dX", -1, 0, 0, none}));
    EXPECT_EQ(out.snapshot(), before);
}

// Both families: what they have in common is spoilt in the same way.
template <class Attributes>
struct conv_call {
    gk::tensor_layout dY{};
    gk::tensor_layout X{};
    gk::tensor_layout W{};
    gk::tensor_layout dX{};
    gk::tensor_layout dW{};
    gk::tensor_layout dB{};
    Attributes a{};
};

template <class Call>
std::vector<mistake<Call>> common_conv_mistakes(std::string_view op, int checks) {
    constexpr auto argument = errc::invalid_argument;
    constexpr auto wrong_shape = errc::invalid_shape;
    using call = Call;
    using attributes = decltype(Call::a);
    const std::vector<mistake<Call>> all{
        {0, "dY", tensor(&call::dY, {2, 4}), {errc::unsupported, op, "dY", -1, 2, 3, at_least}},
        {0, "dY", tensor(&call::dY, {2, 4, 1, 1, 1, 1}), {errc::unsupported, op, "dY", -1, 6, 5, at_most}},
        {1, "auto_pad", with(&attributes::auto_pad, "same"), {argument, op, "auto_pad", -1, 0, 0, none}},
        {1, "kernel_shape", with(&attributes::kernel_shape, {3}), {argument, op, "kernel_shape", -1, 1, 2}},
        {1, "strides", with(&attributes::strides, {2, 1, 1}), {argument, op, "strides", -1, 3, 2}},
        {1, "pads", with(&attributes::pads, {0, 0, 0, 0, 0, 0, 0, 0}), {argument, op, "pads", -1, 8, 4}},
        {1, "dilations", with(&attributes::dilations, {1}), {argument, op, "dilations", -1, 1, 2}},
        {2,
         "kernel_shape",
         with(&attributes::kernel_shape, {-3, 2}),
         {argument, op, "kernel_shape", 0, -3, 1, at_least}},
        {2, "strides", with(&attributes::strides, {2, 0}), {argument, op, "strides", 1, 0, 1, at_least}},
        {2, "dilations", with(&attributes::dilations, {0, 1}), {argument, op, "dilations", 0, 0, 1, at_least}},
        {2, "pads", with(&attributes::pads, {0, 0, -1, 0}), {argument, op, "pads", 2, -1, 0, at_least}},
        {2, "group", with(&attributes::group, 0), {argument, op, "group", -1, 0, 1, at_least}},
        {3, "X", tensor(&call::X, {2, 4, 3}), {errc::unsupported, op, "X", -1, 3, 4}},
        {3, "X", tensor(&call::X, {}), {errc::unsupported, op, "X", -1, 0, 4}},
        {3, "W", tensor(&call::W, {4}), {errc::unsupported, op, "W", -1, 1, 4}},
        {3, "dX", tensor(&call::dX, {2, 4, 3}), {errc::unsupported, op, "dX", -1, 3, 4}},
        {3, "dW", tensor(&call::dW, {2, 4, 3, 1, 1, 1}), {errc::unsupported, op, "dW", -1, 6, 4}},
        {3, "dB", tensor(&call::dB, {1, 4}), {errc::unsupported, op, "dB", -1, 2, 1}},
        {4, "dY", extent(&call::dY, 2, 0), {wrong_shape, op, "dY", 2, 0, 1, at_least}},
        {4, "X", extent(&call::X, 1, -1), {wrong_shape, op, "X", 1, -1, 0, at_least}},
        {4, "W", extent(&call::W, 0, -1), {wrong_shape, op, "W", 0, -1, 0, at_least}},
        {4, "W", extent(&call::W, 3, -1), {wrong_shape, op, "W", 3, -1, 1, at_least}},
        {4, "dX", extent(&call::dX, 0, -1), {wrong_shape, op, "dX", 0, -1, 0, at_least}},
        {4, "dW", extent(&call::dW, 1, -1), {wrong_shape, op, "dW", 1, -1, 0, at_least}},
        {4, "dB", tensor(&call::dB, {-1}), {wrong_shape, op, "dB", 0, -1, 0, at_least}},
        {5, "dY", extent(&call::dY, 2, huge), {errc::overflow, op, "dY", -1, 0, 0, none}},
        {5, "X", extent(&call::X, 0, huge), {errc::overflow, op, "X", -1, 0, 0, none}},
        {5, "W", extent(&call::W, 1, huge), {errc::overflow, op, "W", -1, 0, 0, none}},
        {5, "dX", extent(&call::dX, 3, huge), {errc::overflow, op, "dX", -1, 0, 0, none}},
        {5, "dW", extent(&call::dW, 2, huge), {errc::overflow, op, "dW", -1, 0, 0, none}},
        {5, "dB", tensor(&call::dB, {huge}), {errc::overflow, op, "dB", -1, 0, 0, none}},
        {5,
         "dilations",
         with(&attributes::dilations, {1, std::numeric_limits<std::int64_t>::max()}),
         {errc::overflow, op, "W", 3, 0, 0, none}},
        {6, "X", extent(&call::X, 0, 3), {wrong_shape, op, "X", 0, 3, 2}},
        {6, "kernel_shape", with(&attributes::kernel_shape, {3, 4}), {wrong_shape, op, "kernel_shape", 1, 4, 2}},
    };
    std::vector<mistake<Call>> some;
    for (const auto& m : all)
        if (m.check == checks) some.push_back(m);
    return some;
}

template <class Call, class Plan, class Run, class Infer>
void expect_conv_errors(const Call& good, const std::vector<mistake<Call>>& own, std::string_view op, const Plan& plan,
                        const Run& run, const Infer& infer) {
    std::vector<mistake<Call>> mistakes;
    for (int check = 0; check <= 6; ++check) {
        const auto common = common_conv_mistakes<Call>(op, check);
        mistakes.insert(mistakes.end(), common.begin(), common.end());
        for (const auto& m : own)
            if (m.check == check) mistakes.push_back(m);
    }
    const auto in = tensor_of<float>({400}, std::vector<float>(400, 1));
    test_tensor<float> dX(good.dX.shape);
    test_tensor<float> dW(good.dW.shape);
    test_tensor<float> dB(good.dB.shape);
    bool is_good = true;
    expect_errors<Call>(good, mistakes, [&](const Call& c) {
        const std::array before{dX.snapshot(), dW.snapshot(), dB.snapshot()};
        const error called =
            run(gk::tensor_view<const float>{in.data(), c.dY}, gk::tensor_view<const float>{in.data(), c.X},
                gk::tensor_view<const float>{in.data(), c.W}, c.a, gk::tensor_view<float>{dX.data(), c.dX},
                gk::tensor_view<float>{dW.data(), c.dW}, gk::tensor_view<float>{dB.data(), c.dB})
                .error();
        const std::array after{dX.snapshot(), dW.snapshot(), dB.snapshot()};
        EXPECT_EQ(before == after, !is_good);
        is_good = false;
        const error planned = plan(c.dY, c.X, c.W, c.a, c.dX, c.dW, c.dB).error();
        // infer does not see the results
        const bool same_results = c.dX == good.dX && c.dW == good.dW && c.dB == good.dB;
        const error inferred = infer(c.dY.shape, c.X.shape, c.W.shape, c.a).error();
        return std::array{planned, called, same_results ? inferred : planned};
    });
}

TEST(onnxruntime, conv_grad_finds_every_mistake) {
    constexpr std::string_view op = "ConvGrad";
    constexpr auto wrong_shape = errc::invalid_shape;
    using attributes = ort::ConvGrad_attributes;
    using call = conv_call<attributes>;
    const call good{{2, 4, 3, 2},
                    {2, 6, 7, 3},
                    {4, 3, 3, 2},
                    {2, 6, 7, 3},
                    {4, 3, 3, 2},
                    {4},
                    {.dilations = {1, 1}, .group = 2, .pads = {0, 0, 0, 0}, .strides = {2, 1}}};
    const std::vector<mistake<call>> own{
        {5, "pads", with(&attributes::pads, {0, huge, 0, huge}), {errc::overflow, op, "X", 3, 0, 0, none}},
        {6, "group", with(&attributes::group, 3), {wrong_shape, op, "W", 0, 4, 3, multiple_of}},
        {6, "dY", extent(&call::dY, 1, 8), {wrong_shape, op, "dY", 1, 8, 4}},
        {6, "X", extent(&call::X, 1, 3), {wrong_shape, op, "X", 1, 3, 6}},
        {6, "dY", extent(&call::dY, 2, 4), {wrong_shape, op, "dY", 2, 4, 3}},
        {6, "X", extent(&call::X, 3, 4), {wrong_shape, op, "dY", 3, 2, 3}},
        {6, "X", extent(&call::X, 3, 1), {wrong_shape, op, "X", 3, 1, 2, at_least}},
        {6, "dX", extent(&call::dX, 2, 8), {wrong_shape, op, "dX", 2, 8, 7}},
        {6, "dW", extent(&call::dW, 0, 5), {wrong_shape, op, "dW", 0, 5, 4}},
        {6, "dB", tensor(&call::dB, {3}), {wrong_shape, op, "dB", 0, 3, 4}},
    };
    expect_conv_errors(
        good, own, op, [](const auto&... v) { return ort::plan_ConvGrad<float>(v...); },
        [](const auto&... v) { return ort::ConvGrad<float>(v...); },
        [](const auto&... v) { return ort::infer_ConvGrad(v...); });
}

TEST(onnxruntime, conv_transpose_grad_finds_every_mistake) {
    constexpr std::string_view op = "ConvTransposeGrad";
    constexpr auto argument = errc::invalid_argument;
    constexpr auto wrong_shape = errc::invalid_shape;
    using attributes = ort::ConvTransposeGrad_attributes;
    using call = conv_call<attributes>;
    const call good{{2, 6, 8, 3},
                    {2, 4, 3, 2},
                    {4, 3, 3, 2},
                    {2, 4, 3, 2},
                    {4, 3, 3, 2},
                    {6},
                    {.dilations = {1, 1}, .group = 2, .pads = {0, 0, 0, 0}, .strides = {2, 1}}};
    const std::vector<mistake<call>> own{
        {1, "output_padding", with(&attributes::output_padding, {0}), {argument, op, "output_padding", -1, 1, 2}},
        {2,
         "output_padding",
         with(&attributes::output_padding, {0, -1}),
         {argument, op, "output_padding", 1, -1, 0, at_least}},
        {2,
         "output_padding",
         with(&attributes::output_padding, {2, 0}),
         {argument, op, "output_padding", 0, 2, 2, below}},
        {4, "output_shape", with(&attributes::output_shape, {2, 6, 8, 3}), {wrong_shape, op, "output_shape", -1, 4, 2}},
        {4,
         "output_shape",
         with(&attributes::output_shape, {8, 0}),
         {wrong_shape, op, "output_shape", 1, 0, 1, at_least}},
        // W is (IC, OC/g, K...): the core has its first two axes the other way round, and errors do not show it
        {6, "group", with(&attributes::group, 3), {wrong_shape, op, "W", 0, 4, 3, multiple_of}},
        {6, "X", extent(&call::X, 1, 3), {wrong_shape, op, "X", 1, 3, 4}},
        {6, "dY", extent(&call::dY, 1, 3), {wrong_shape, op, "dY", 1, 3, 6}},
        {6, "dY", extent(&call::dY, 2, 9), {wrong_shape, op, "dY", 2, 9, 9, below}},
        {6, "output_padding", with(&attributes::output_padding, {0, 0}), {wrong_shape, op, "dY", 2, 8, 7}},
        {6, "output_shape", with(&attributes::output_shape, {8, 4}), {wrong_shape, op, "output_shape", 1, 4, 3}},
        {6, "dX", extent(&call::dX, 2, 8), {wrong_shape, op, "dX", 2, 8, 3}},
        {6, "dW", extent(&call::dW, 0, 5), {wrong_shape, op, "dW", 0, 5, 4}},
        {6, "dB", tensor(&call::dB, {4}), {wrong_shape, op, "dB", 0, 4, 6}},
    };
    expect_conv_errors(
        good, own, op, [](const auto&... v) { return ort::plan_ConvTransposeGrad<float>(v...); },
        [](const auto&... v) { return ort::ConvTransposeGrad<float>(v...); },
        [](const auto&... v) { return ort::infer_ConvTransposeGrad(v...); });
}

// Memory: what is read and what is written for a result, and nothing else, has to be there and apart.
TEST(onnxruntime, memory_is_checked_for_the_results_that_are_wanted) {
    constexpr std::string_view op = "ConvGrad";
    const extents sizes[]{{1, 2, 4}, {1, 3, 6}, {2, 3, 3}, {2}};
    const auto dY = tensor_of<float>(sizes[0], std::vector<float>(8, 1));
    const auto X = tensor_of<float>(sizes[1], std::vector<float>(18, 1));
    const auto W = tensor_of<float>(sizes[2], std::vector<float>(18, 1));
    test_tensor<float> dX(sizes[1]);
    test_tensor<float> dW(sizes[2]);
    test_tensor<float> dB(sizes[3]);
    const auto plan = ort::plan_ConvGrad<float>(sizes[0], sizes[1], sizes[2], {}, sizes[1], sizes[2], sizes[3]);
    ASSERT_TRUE(plan.has_value());
    std::vector<std::byte> workspace(plan->workspace_bytes());
    const auto run = [&](const float* y, const float* x, const float* w, float* gx, float* gw, float* gb) {
        return plan->run(y, x, w, gx, gw, gb, workspace).error();
    };
    const auto null = [&](std::string_view name) {
        return error{errc::null_pointer, op, name, -1, 0, 0, expectation::none};
    };
    const auto overlap = [&](std::string_view name) {
        return error{errc::invalid_argument, op, name, -1, 0, 0, expectation::none};
    };
    const std::array before{dX.snapshot(), dW.snapshot(), dB.snapshot(), X.snapshot(), W.snapshot(), dY.snapshot()};
    const auto unchanged = [&] {
        return before ==
               std::array{dX.snapshot(), dW.snapshot(), dB.snapshot(), X.snapshot(), W.snapshot(), dY.snapshot()};
    };
    EXPECT_EQ(run(nullptr, X.data(), W.data(), dX.data(), nullptr, nullptr), null("dY"));
    EXPECT_EQ(run(nullptr, nullptr, nullptr, nullptr, nullptr, dB.data()), null("dY"));
    EXPECT_EQ(run(dY.data(), X.data(), nullptr, dX.data(), dW.data(), dB.data()), null("W"));
    EXPECT_EQ(run(dY.data(), nullptr, W.data(), dX.data(), dW.data(), dB.data()), null("X"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), dY.data(), nullptr, nullptr), overlap("dX"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), W.data() + 17, nullptr, nullptr), overlap("dX"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), X.data(), dW.data(), nullptr), overlap("dX"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), dX.data(), W.data(), nullptr), overlap("dW"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), dX.data(), dX.data() + 17, nullptr), overlap("dW"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), dX.data(), dW.data(), dW.data() + 17), overlap("dB"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), dX.data(), dW.data(), dX.data()), overlap("dB"));
    EXPECT_EQ(run(dY.data(), X.data(), W.data(), dX.data(), dW.data(), dY.data() + 7), overlap("dB"));
    EXPECT_EQ(run(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), overlap("dX, dW, dB")) << "nothing is wanted";
    EXPECT_TRUE(unchanged());
    // a tensor that is neither read nor written may be anywhere
    EXPECT_EQ(run(dY.data(), X.data(), nullptr, nullptr, dW.data(), nullptr), error{});
    EXPECT_EQ(run(dY.data(), nullptr, W.data(), X.data(), nullptr, nullptr), error{});
    EXPECT_EQ(run(dY.data(), X.data(), dB.data(), nullptr, nullptr, dB.data()), error{});

    // memory for a result that the plan does not have
    const auto only = [&](bool x, bool w, bool b) {
        return *ort::plan_ConvGrad<float>(sizes[0], sizes[1], sizes[2], {}, x ? sizes[1] : extents{},
                                          w ? sizes[2] : extents{}, b ? sizes[3] : extents{});
    };
    const auto missing = [&](std::string_view name) {
        return error{errc::missing_shape, op, name, -1, 0, 0, expectation::none};
    };
    dX.poison();
    dW.poison();
    dB.poison();
    const auto all = [&](const auto& p) {
        return p.run(dY.data(), X.data(), W.data(), dX.data(), dW.data(), dB.data(), workspace).error();
    };
    EXPECT_EQ(all(only(false, true, true)), missing("dX"));
    EXPECT_EQ(all(only(true, false, true)), missing("dW"));
    EXPECT_EQ(all(only(true, true, false)), missing("dB"));
    EXPECT_EQ((std::array{dX.snapshot(), dW.snapshot(), dB.snapshot()}), (std::array{before[0], before[1], before[2]}));

    // strides: their number, and elements of a result in one place
    const auto planned = [&](const gk::tensor_layout& w, const gk::tensor_layout& gw) {
        return ort::plan_ConvTransposeGrad<float>({1, 3, 6}, {1, 2, 4}, w, {}, {}, gw).error();
    };
    EXPECT_EQ(planned({sizes[2], extents{9, 3}}, {}),
              (error{errc::invalid_argument, "ConvTransposeGrad", "W", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(planned(sizes[2], {sizes[2], extents{0, 3, 1}}),
              (error{errc::invalid_argument, "ConvTransposeGrad", "dW", 0, 0, 0, expectation::none}));
    EXPECT_EQ(planned({sizes[2], extents{0, 0, 0}}, {sizes[2], extents{-9, 1, 3}}), error{});
    EXPECT_EQ(planned({sizes[2], extents{huge, 1, huge}}, {}),
              (error{errc::overflow, "ConvTransposeGrad", "W", -1, 0, 0, expectation::none}));
    // the pool, too
    const auto pool = ort::plan_AveragePoolGrad<float>({1, 1, 3}, {.kernel_shape = {2}, .strides = {2}}, {1, 1, 6});
    EXPECT_EQ(pool->run(nullptr, dX.data(), workspace).error(),
              (error{errc::null_pointer, "AveragePoolGrad", "dY", -1, 0, 0, expectation::none}));
    EXPECT_EQ(pool->run(dX.data(), dX.data(), workspace).error(),
              (error{errc::invalid_argument, "AveragePoolGrad", "dX", -1, 0, 0, expectation::none}));
    EXPECT_EQ(ort::plan_AveragePoolGrad<float>({1, 1, 3}, {.kernel_shape = {2}, .strides = {2}},
                                               {extents{1, 1, 6}, extents{6, 6, 0}})
                  .error(),
              (error{errc::invalid_argument, "AveragePoolGrad", "dX", 2, 0, 0, expectation::none}));
}

// The workspace is as large as the most demanding of the planned results needs it.
TEST(onnxruntime, workspace_is_that_of_the_largest_result) {
    const extents y{1, 70, 20, 20};
    const extents x{1, 70, 22, 22};
    const extents w{70, 70, 3, 3};
    const extents b{70};
    const auto plan = [&](bool gx, bool gw, bool gb) {
        return *ort::plan_ConvGrad<float>(y, x, w, {}, gx ? x : extents{}, gw ? w : extents{}, gb ? b : extents{});
    };
    for (const std::ptrdiff_t workers : {1, 3}) {
        const std::size_t each[]{plan(true, false, false).workspace_bytes(workers),
                                 plan(false, true, false).workspace_bytes(workers),
                                 plan(false, false, true).workspace_bytes(workers)};
        EXPECT_EQ(plan(true, true, true).workspace_bytes(workers), std::max({each[0], each[1], each[2]}));
        EXPECT_EQ(plan(true, false, true).workspace_bytes(workers), std::max(each[0], each[2]));
    }
    EXPECT_EQ(ort::plan_ConvGrad<float>(y, x, w, {}, {}).error(),
              (error{errc::invalid_argument, "ConvGrad", "dX, dW, dB", -1, 0, 0, expectation::none}));

    const std::size_t bytes = plan(true, true, true).workspace_bytes();
    ASSERT_GT(bytes, 16U * 1024);
    test_tensor<float> dY(y), X(x), W(w), dX(x), dW(w), dB(b);
    const std::array before{dX.snapshot(), dW.snapshot(), dB.snapshot()};
    const error too_small{errc::workspace_too_small,        "ConvGrad",           "workspace", -1, 0,
                          static_cast<std::int64_t>(bytes), expectation::at_least};
    EXPECT_EQ(ort::ConvGrad<float>(dY.const_view(), X.const_view(), W.const_view(), {}, dX.view(), dW.view(), dB.view())
                  .error(),
              too_small);
    std::vector<std::byte> workspace(bytes - 1);
    const gk::status s =
        plan(true, true, true).run(dY.data(), X.data(), W.data(), dX.data(), dW.data(), dB.data(), workspace);
    EXPECT_EQ(s.code(), errc::workspace_too_small);
    EXPECT_EQ((std::array{dX.snapshot(), dW.snapshot(), dB.snapshot()}), before);

    // one line per result, and a text that is cut is the beginning of the whole
    const auto described = plan(true, true, true);
    std::string text(described.describe({}), ' ');
    EXPECT_EQ(described.describe(text), text.size());
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    for (std::size_t cut = 0; cut < text.size(); cut += 7) {
        std::string part(cut, ' ');
        EXPECT_EQ(described.describe(part), text.size());
        EXPECT_EQ(part, text.substr(0, cut));
    }
}

// plan_options::algorithm names a path of the convolutions; dB has paths of its own.
TEST(onnxruntime, an_algorithm_of_convolutions_does_not_refuse_their_bias) {
    const extents y{1, 32, 6, 6};
    const extents x{1, 32, 8, 8};
    const extents w{32, 4, 3, 3};
    int accepted = 0;
    for (int i = 0; i < 64; ++i) {
        const gk::plan_options options{.algorithm = static_cast<gk::algorithm>(i)};
        const bool fits = ort::plan_ConvGrad<float>(y, x, w, {.group = 8}, x, w, {}, options).has_value();
        EXPECT_EQ((ort::plan_ConvGrad<float>(y, x, w, {.group = 8}, x, w, extents{32}, options).has_value()), fits)
            << gk::name_of(options.algorithm);
        accepted += fits ? 1 : 0;
    }
    EXPECT_GE(accepted, 2);
}

// Sums of 16-bit types are f32, and so may dW and dB be.
TEST(onnxruntime, gradients_of_16_bit_layers_may_be_f32) {
    const auto dY = tensor_of<gk::float16>({1, 1, 7}, {1, 10, 100, 1000, 10000, 0, 1});
    const auto X = tensor_of<gk::float16>({1, 1, 3}, {1, 2, 3});
    const gk::tensor_layout W{1, 1, 3};
    test_tensor<float> dW({1, 1, 3});
    test_tensor<float> dB({1});
    const gk::status s = ort::ConvTransposeGrad<gk::float16, float>(dY.const_view(), X.const_view(), {nullptr, W},
                                                                    {.strides = {2}}, {}, dW.view(), dB.view());
    ASSERT_TRUE(s.ok()) << gk::to_string(s);
    expect_values(dW, {30201, 2010, 20103});
    expect_values(dB, {11112});
}

}  // namespace
}  // namespace gradkern_test
