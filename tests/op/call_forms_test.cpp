// The ways to write a one-call form: outputs in braces, views of const and of mutable elements, inputs in braces if the type
// is named. Every operator, its reference and its names in the front ends accept them.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradkern/dynamic.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/frontend/onednn_graph.hpp>
#include <gradkern/frontend/onnxruntime.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>
#include <gradkern/ref/lp_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

namespace gradkern_test {
namespace {

namespace gk = gradkern;
namespace graph = gradkern::onednn_graph;
namespace ort = gradkern::onnxruntime;

/// A 4x4 image of one channel, a kernel of 3x3 and its 2x2 result.
template <class T, class G>
struct tensors {
    std::array<T, 16> large;
    std::array<T, 9> kernel;
    std::array<T, 4> small;
    std::array<std::int64_t, 4> indices{0, 1, 2, 3};
    std::array<G, 9> gradient;
    std::array<G, 1> bias;

    explicit tensors(float start) {
        float value = start;
        for (T& e : large) e = T(value += 0.5F);
        for (T& e : kernel) e = T(value -= 1.0F);
        for (T& e : small) e = T(value += 2.0F);
        for (G& e : gradient) e = G(77.0F);
        bias[0] = G(78.0F);
    }
    [[nodiscard]] gk::tensor_view<T> x() { return {large.data(), {1, 4, 4, 1}}; }
    [[nodiscard]] gk::tensor_view<T> w() { return {kernel.data(), {3, 3, 1, 1}}; }
    [[nodiscard]] gk::tensor_view<T> y() { return {small.data(), {1, 2, 2, 1}}; }
    [[nodiscard]] gk::tensor_view<std::int64_t> i() { return {indices.data(), {1, 2, 2, 1}}; }
};

constexpr gk::convolution_attributes conv{.strides = {1, 1}, .dilations = {1, 1}};
constexpr gk::conv_transpose_attributes transposed{.strides = {1, 1}, .dilations = {1, 1}};
constexpr gk::avg_pool_attributes mean{.kernel = {3, 3}, .strides = {1, 1}};
constexpr gk::lp_pool_attributes norm{.kernel = {3, 3}, .strides = {1, 1}};
constexpr gk::max_pool_attributes maximum{.kernel = {3, 3}, .strides = {1, 1}};
constexpr gk::max_pool_indices_attributes by_index{};

/// Views of const elements.
template <class T>
gk::tensor_view<const T> read_only(const gk::tensor_view<T>& v) {
    return v;
}

// Every form below is called with views of const and of mutable elements, which `as` makes; each output is in braces.

template <class T, class As>
void pools(tensors<T, T>& t, const As& as, gk::status& worst) {
    const auto note = [&](const gk::status& s) {
        if (!s) worst = s;
    };
    auto other = t;
    note(gk::avg_pool(as(t.x()), mean, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::ref::avg_pool(as(t.x()), mean, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::avg_pool_backward(as(t.y()), mean, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::ref::avg_pool_backward(as(t.y()), mean, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::lp_pool(as(t.x()), norm, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::ref::lp_pool(as(t.x()), norm, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::lp_pool_backward(as(t.x()), as(t.y()), as(t.y()), norm, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::ref::lp_pool_backward(as(t.x()), as(t.y()), as(t.y()), norm, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::max_pool(as(t.x()), maximum, {other.small.data(), {1, 2, 2, 1}}, {other.indices.data(), {1, 2, 2, 1}}));
    note(gk::ref::max_pool(as(t.x()), maximum, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::max_pool_backward(as(t.x()), as(t.y()), maximum, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::ref::max_pool_backward(as(t.x()), as(t.y()), maximum, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::max_pool_backward_from_indices(as(t.y()), as(t.i()), by_index, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::ref::max_pool_backward_from_indices(as(t.y()), as(t.i()), by_index, {other.large.data(), {1, 4, 4, 1}}));
}

template <class T, class As>
void convolutions(tensors<T, T>& t, const As& as, gk::status& worst) {
    const auto note = [&](const gk::status& s) {
        if (!s) worst = s;
    };
    auto other = t;
    note(gk::convolution(as(t.x()), as(t.w()), {}, conv, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::ref::convolution(as(t.x()), as(t.w()), {}, conv, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::convolution_backward_data(as(t.y()), as(t.w()), conv, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::ref::convolution_backward_data(as(t.y()), as(t.w()), conv, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::convolution_backward_weights(as(t.x()), as(t.y()), conv, {other.kernel.data(), {3, 3, 1, 1}}));
    note(gk::convolution_backward_weights(as(t.x()), as(t.y()), conv, {other.kernel.data(), {3, 3, 1, 1}},
                                          {other.bias.data(), gk::extents{1}}));
    note(gk::ref::convolution_backward_weights(as(t.x()), as(t.y()), conv, {other.kernel.data(), {3, 3, 1, 1}},
                                               {other.bias.data(), gk::extents{1}}));
    note(gk::bias_backward(as(t.y()), {}, {other.bias.data(), gk::extents{1}}));
    note(gk::ref::bias_backward(as(t.y()), {}, {other.bias.data(), gk::extents{1}}));
    note(gk::conv_transpose(as(t.y()), as(t.w()), {}, transposed, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::ref::conv_transpose(as(t.y()), as(t.w()), {}, transposed, {other.large.data(), {1, 4, 4, 1}}));
    note(gk::conv_transpose_backward_data(as(t.x()), as(t.w()), transposed, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::ref::conv_transpose_backward_data(as(t.x()), as(t.w()), transposed, {other.small.data(), {1, 2, 2, 1}}));
    note(gk::conv_transpose_backward_weights(as(t.y()), as(t.x()), transposed, {other.kernel.data(), {3, 3, 1, 1}},
                                             {other.bias.data(), gk::extents{1}}));
    note(gk::ref::conv_transpose_backward_weights(as(t.y()), as(t.x()), transposed,
                                                  {other.kernel.data(), {3, 3, 1, 1}}));
}

template <class As>
void graph_operators(tensors<float, float>& t, const As& as, gk::status& worst) {
    const auto note = [&](const gk::status& s) {
        if (!s) worst = s;
    };
    auto other = t;
    const auto pool = [](auto a) {
        a.strides = {1, 1};
        a.kernel = {3, 3};
        if constexpr (requires { a.exclude_pad; }) a.exclude_pad = true;
        return a;
    };
    const auto layer = [](auto a) {
        a.strides = {1, 1};
        a.dilations = {1, 1};
        return a;
    };
    const gk::extents large{1, 4, 4, 1}, kernel{3, 3, 1, 1}, small{1, 2, 2, 1}, one{1};
    note(graph::AvgPool(as(t.x()), pool(graph::AvgPool_attributes{}), {other.small.data(), small}));
    note(graph::AvgPoolBackprop(as(t.y()), large, pool(graph::AvgPoolBackprop_attributes{}),
                                {other.large.data(), large}));
    note(graph::AvgPoolBackward(as(t.y()), large, pool(graph::AvgPoolBackward_attributes{}),
                                {other.large.data(), large}));
    note(graph::MaxPool(as(t.x()), pool(graph::MaxPool_attributes{}), {other.small.data(), small}));
    note(graph::MaxPoolBackward(as(t.x()), as(t.y()), pool(graph::MaxPoolBackward_attributes{}),
                                {other.large.data(), large}));
    note(graph::MaxPoolBackprop(as(t.x()), as(t.y()), pool(graph::MaxPoolBackprop_attributes{}),
                                {other.large.data(), large}));
    note(graph::Convolution(as(t.x()), as(t.w()), {}, layer(graph::Convolution_attributes{}),
                            {other.small.data(), small}));
    note(graph::ConvolutionBackwardData(as(t.y()), as(t.w()), large, layer(graph::ConvolutionBackwardData_attributes{}),
                                        {other.large.data(), large}));
    note(graph::ConvolutionBackpropData(as(t.y()), as(t.w()), large, layer(graph::ConvolutionBackpropData_attributes{}),
                                        {other.large.data(), large}));
    note(graph::ConvolutionBackwardWeights(as(t.x()), as(t.y()), kernel,
                                           layer(graph::ConvolutionBackwardWeights_attributes{}),
                                           {other.kernel.data(), kernel}));
    note(graph::ConvolutionBackpropFilters(as(t.x()), as(t.y()), kernel,
                                           layer(graph::ConvolutionBackpropFilters_attributes{}),
                                           {other.kernel.data(), kernel}));
    note(graph::ConvTranspose(as(t.y()), as(t.w()), {}, layer(graph::ConvTranspose_attributes{}),
                              {other.large.data(), large}));
    note(graph::ConvTransposeBackwardData(as(t.x()), as(t.w()), layer(graph::ConvTransposeBackwardData_attributes{}),
                                          {other.small.data(), small}));
    note(graph::ConvTransposeBackpropData(as(t.x()), as(t.w()), layer(graph::ConvTransposeBackpropData_attributes{}),
                                          {other.small.data(), small}));
    note(graph::ConvTransposeBackwardWeights(as(t.y()), as(t.x()), kernel,
                                             layer(graph::ConvTransposeBackwardWeights_attributes{}),
                                             {other.kernel.data(), kernel}));
    note(graph::ConvTransposeBackpropFilters(as(t.y()), as(t.x()), kernel,
                                             layer(graph::ConvTransposeBackpropFilters_attributes{}),
                                             {other.kernel.data(), kernel}));
    note(graph::BiasAddBackward(as(t.y()), {}, {other.bias.data(), one}));
    note(graph::BiasAddBackprop(as(t.y()), {}, {other.bias.data(), one}));
}

template <class T>
class call_forms : public ::testing::Test {};
using all_types = ::testing::Types<float, gk::float16, gk::bfloat16, double>;
TYPED_TEST_SUITE(call_forms, all_types);

TYPED_TEST(call_forms, take_views_of_const_elements_and_braced_outputs) {
    tensors<TypeParam, TypeParam> t(1);
    gk::status worst;
    const auto as = [](const auto& v) { return read_only(v); };
    pools<TypeParam>(t, as, worst);
    convolutions<TypeParam>(t, as, worst);
    EXPECT_TRUE(worst) << worst;
}

TYPED_TEST(call_forms, take_views_of_mutable_elements_and_braced_outputs) {
    tensors<TypeParam, TypeParam> t(1);
    gk::status worst;
    const auto as = [](const auto& v) { return v; };
    pools<TypeParam>(t, as, worst);
    convolutions<TypeParam>(t, as, worst);
    EXPECT_TRUE(worst) << worst;
}

TEST(call_forms_of_onednn_graph, take_views_of_const_and_of_mutable_elements_and_braced_outputs) {
    tensors<float, float> t(1);
    gk::status worst;
    graph_operators(
        t, [](const auto& v) { return read_only(v); }, worst);
    graph_operators(
        t, [](const auto& v) { return v; }, worst);
    EXPECT_TRUE(worst) << worst;
}

TEST(call_forms_of_onnxruntime, take_views_of_mutable_elements) {
    tensors<float, float> t(1);
    std::array<float, 16> dx{};
    std::array<float, 9> dw{};
    std::array<float, 1> db{};
    const gk::tensor_view<float> x(t.large.data(), {1, 1, 4, 4}), w(t.kernel.data(), {1, 1, 3, 3}),
        y(t.small.data(), {1, 1, 2, 2});
    EXPECT_TRUE(
        ort::ConvGrad(y, x, w, {}, {dx.data(), {1, 1, 4, 4}}, {dw.data(), {1, 1, 3, 3}}, {db.data(), gk::extents{1}}));
    std::array<float, 4> dsmall{};
    EXPECT_TRUE(ort::ConvTransposeGrad(x, y, w, {}, {dsmall.data(), {1, 1, 2, 2}}));
    EXPECT_TRUE(ort::AveragePoolGrad(y, {.kernel_shape = {3, 3}}, {dx.data(), {1, 1, 4, 4}}));
    EXPECT_TRUE(ort::MaxPoolGrad(y, gk::tensor_view<std::int64_t>(t.indices.data(), {1, 1, 2, 2}), {},
                                 {dx.data(), {1, 1, 4, 4}}));
}

// ------------------------------------------------------------------------------------------------- types of gradients

/// 16-bit inputs: braces mean a gradient of their type; f32 if the type is named, or by a typed view.
TEST(gradient_types, follow_the_input_unless_named_or_viewed) {
    using T = gk::bfloat16;
    tensors<T, T> t(1);
    std::array<T, 9> braced{}, typed{};
    std::array<float, 9> named{}, viewed{}, reference{};
    std::array<T, 1> bias{};
    std::array<float, 1> bias_named{}, bias_viewed{};
    const gk::extents shape{3, 3, 1, 1}, one{1};

    ASSERT_TRUE(
        gk::convolution_backward_weights(t.x(), t.y(), conv, {braced.data(), {3, 3, 1, 1}}, {bias.data(), one}));
    ASSERT_TRUE(gk::convolution_backward_weights(t.x(), t.y(), conv, gk::tensor_view<T>(typed.data(), shape)));
    ASSERT_TRUE((gk::convolution_backward_weights<T, float>(t.x(), t.y(), conv, {named.data(), {3, 3, 1, 1}},
                                                            {bias_named.data(), one})));
    ASSERT_TRUE(gk::convolution_backward_weights(t.x(), t.y(), conv, gk::tensor_view<float>(viewed.data(), shape),
                                                 {bias_viewed.data(), one}));
    ASSERT_TRUE(
        (gk::ref::convolution_backward_weights<T, float>(t.x(), t.y(), conv, {reference.data(), {3, 3, 1, 1}})));
    for (std::size_t i = 0; i < braced.size(); ++i) {
        EXPECT_EQ(braced[i].bits, typed[i].bits);
        EXPECT_EQ(braced[i].bits, T(named[i]).bits);
        EXPECT_EQ(named[i], viewed[i]);
        EXPECT_NEAR(named[i], reference[i], 1e-3F * std::abs(reference[i]));
    }
    EXPECT_EQ(bias[0].bits, T(bias_named[0]).bits);
    EXPECT_EQ(bias_named[0], bias_viewed[0]);

    std::array<float, 1> sum{};
    ASSERT_TRUE((gk::bias_backward<T, float>(t.y(), {}, {sum.data(), one})));
    EXPECT_EQ(sum[0], bias_named[0]);
    ASSERT_TRUE(gk::bias_backward(read_only(t.y()), {}, gk::tensor_view<float>(sum.data(), one)));
    EXPECT_EQ(sum[0], bias_named[0]);
}

/// `{pointer, shape}` as the first input needs the type; the pointer may be to const or to mutable elements.
TEST(braced_inputs, need_the_type_alone) {
    tensors<float, float> t(1);
    const auto& c = t;
    std::array<float, 4> from_const{}, from_mutable{};
    ASSERT_TRUE(gk::convolution<float>({c.large.data(), {1, 4, 4, 1}}, {c.kernel.data(), {3, 3, 1, 1}}, {}, conv,
                                       {from_const.data(), {1, 2, 2, 1}}));
    ASSERT_TRUE(gk::convolution<float>({t.large.data(), {1, 4, 4, 1}}, {t.kernel.data(), {3, 3, 1, 1}}, {}, conv,
                                       {from_mutable.data(), {1, 2, 2, 1}}));
    EXPECT_EQ(from_const, from_mutable);
    std::array<float, 9> dw{}, dw_ref{};
    ASSERT_TRUE(gk::convolution_backward_weights<float>({t.large.data(), {1, 4, 4, 1}}, {c.small.data(), {1, 2, 2, 1}},
                                                        conv, {dw.data(), {3, 3, 1, 1}}));
    ASSERT_TRUE(gk::ref::convolution_backward_weights<float>(
        {t.large.data(), {1, 4, 4, 1}}, {c.small.data(), {1, 2, 2, 1}}, conv, {dw_ref.data(), {3, 3, 1, 1}}));
    EXPECT_FLOAT_EQ(dw[4], dw_ref[4]);
    std::array<float, 1> db{};
    ASSERT_TRUE(gk::bias_backward<float>({t.small.data(), {1, 2, 2, 1}}, {}, {db.data(), gk::extents{1}}));
}

// ------------------------------------------------------------------------------------------------------------- options

/// Every operator and reference with these options, on tensors that fit.
std::vector<gk::error> errors_with(const gk::plan_options& plan) {
    tensors<float, float> t(1);
    auto other = t;
    const gk::call_options o{.plan = plan};
    const gk::tensor_view<float> large(other.large.data(), {1, 4, 4, 1}), small(other.small.data(), {1, 2, 2, 1}),
        kernel(other.kernel.data(), {3, 3, 1, 1}), bias(other.bias.data(), gk::extents{1});
    return {gk::avg_pool(t.x(), mean, small, o).error(),
            gk::ref::avg_pool(t.x(), mean, small, o).error(),
            gk::avg_pool_backward(t.y(), mean, large, o).error(),
            gk::ref::avg_pool_backward(t.y(), mean, large, o).error(),
            gk::lp_pool(t.x(), norm, small, o).error(),
            gk::ref::lp_pool(t.x(), norm, small, o).error(),
            gk::lp_pool_backward(t.x(), t.y(), t.y(), norm, large, o).error(),
            gk::ref::lp_pool_backward(t.x(), t.y(), t.y(), norm, large, o).error(),
            gk::max_pool(t.x(), maximum, small, {}, o).error(),
            gk::ref::max_pool(t.x(), maximum, small, {}, o).error(),
            gk::max_pool_backward(t.x(), t.y(), maximum, large, o).error(),
            gk::ref::max_pool_backward(t.x(), t.y(), maximum, large, o).error(),
            gk::max_pool_backward_from_indices(t.y(), t.i(), by_index, large, o).error(),
            gk::ref::max_pool_backward_from_indices(t.y(), t.i(), by_index, large, o).error(),
            gk::convolution(t.x(), t.w(), {}, conv, small, o).error(),
            gk::ref::convolution(t.x(), t.w(), {}, conv, small, o).error(),
            gk::convolution_backward_data(t.y(), t.w(), conv, large, o).error(),
            gk::ref::convolution_backward_data(t.y(), t.w(), conv, large, o).error(),
            gk::convolution_backward_weights(t.x(), t.y(), conv, kernel, {}, o).error(),
            gk::ref::convolution_backward_weights(t.x(), t.y(), conv, kernel, {}, o).error(),
            gk::conv_transpose(t.y(), t.w(), {}, transposed, large, o).error(),
            gk::ref::conv_transpose(t.y(), t.w(), {}, transposed, large, o).error(),
            gk::conv_transpose_backward_data(t.x(), t.w(), transposed, small, o).error(),
            gk::ref::conv_transpose_backward_data(t.x(), t.w(), transposed, small, o).error(),
            gk::conv_transpose_backward_weights(t.y(), t.x(), transposed, kernel, {}, o).error(),
            gk::ref::conv_transpose_backward_weights(t.y(), t.x(), transposed, kernel, {}, o).error(),
            gk::bias_backward(t.y(), {}, bias, o).error(),
            gk::ref::bias_backward(t.y(), {}, bias, o).error()};
}

TEST(options, unknown_enumerators_are_refused) {
    for (const gk::error& e : errors_with({})) EXPECT_EQ(e.code, gk::errc::ok) << e;
    const auto refused = [](const gk::plan_options& plan, std::string_view name, std::int64_t number) {
        for (const gk::error& e : errors_with(plan)) {
            EXPECT_EQ(e.code, gk::errc::invalid_argument) << e;
            EXPECT_EQ(e.argument, name) << e;
            EXPECT_EQ(e.got, number) << e;
        }
    };
    refused({.output = static_cast<gk::output_mode>(2)}, "output", 2);
    refused({.output = static_cast<gk::output_mode>(255)}, "output", 255);
    refused({.precision = static_cast<gk::precision>(2)}, "precision", 2);
    refused({.summation = static_cast<gk::summation>(3)}, "summation", 3);
    refused({.algorithm = static_cast<gk::algorithm>(255)}, "algorithm", 255);
    refused({.index_check = static_cast<gk::index_check>(2)}, "index_check", 2);
}

// The advice in the comment of output_mode::accumulate.
TEST(options, accumulated_16_bit_gradients_stop_growing_and_f32_ones_do_not) {
    const std::array<gk::bfloat16, 1> one{gk::bfloat16(1.0F)};
    std::array<gk::bfloat16, 1> narrow{gk::bfloat16(0.0F)};
    std::array<float, 1> wide{};
    const gk::tensor_view<const gk::bfloat16> image(one.data(), {1, 1, 1});
    const gk::call_options add{.plan = {.output = gk::output_mode::accumulate}};
    for (int i = 0; i < 300; ++i) {
        ASSERT_TRUE(gk::bias_backward(image, {}, {narrow.data(), gk::extents{1}}, add));
        ASSERT_TRUE(gk::bias_backward(image, {}, gk::tensor_view<float>(wide.data(), gk::extents{1}), add));
    }
    EXPECT_EQ(static_cast<float>(narrow[0]), 256.0F);
    EXPECT_EQ(wide[0], 300.0F);
}

// A call that would do nothing is an error.
TEST(options, gradients_of_onnxruntime_need_a_result) {
    tensors<float, float> t(1);
    const gk::tensor_view<float> x(t.large.data(), {1, 1, 4, 4}), w(t.kernel.data(), {1, 1, 3, 3}),
        y(t.small.data(), {1, 1, 2, 2});
    const auto nothing = [](const gk::error& e, std::string_view op) {
        EXPECT_EQ(e.code, gk::errc::invalid_argument) << e;
        EXPECT_EQ(e.op, op);
        EXPECT_EQ(e.argument, "dX, dW, dB");
    };
    nothing(ort::plan_ConvGrad<float>(y.layout, x.layout, w.layout, {}, {}).error(), "ConvGrad");
    nothing(ort::plan_ConvTransposeGrad<float>(x.layout, y.layout, w.layout, {}, {}).error(), "ConvTransposeGrad");
    nothing(ort::ConvGrad(y, x, w, {}, {}).error(), "ConvGrad");
    nothing(ort::ConvTransposeGrad(x, y, w, {}, {}).error(), "ConvTransposeGrad");
    const auto plan = ort::plan_ConvGrad<float>(y.layout, x.layout, w.layout, {}, x.layout);
    ASSERT_TRUE(plan);
    nothing(plan->run(y.data, x.data, w.data, nullptr, nullptr, nullptr).error(), "ConvGrad");
    const auto back = ort::plan_ConvTransposeGrad<float>(x.layout, y.layout, w.layout, {}, y.layout);
    ASSERT_TRUE(back);
    nothing(back->run(x.data, y.data, w.data, nullptr, nullptr, nullptr).error(), "ConvTransposeGrad");

    // A result without elements has no memory and needs no work.
    const auto empty = ort::plan_ConvGrad<float>({0, 1, 2, 2}, {0, 1, 4, 4}, w.layout, {}, gk::extents{0, 1, 4, 4});
    ASSERT_TRUE(empty) << empty.error();
    EXPECT_TRUE(empty->run(nullptr, nullptr, w.data, nullptr, nullptr, nullptr));
}

}  // namespace
}  // namespace gradkern_test
