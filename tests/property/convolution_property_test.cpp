// What holds for every convolution without a second implementation: adjoints, linearity, finite differences, and the
// identities between the two families. Data are small integers and every sum is exact, so the laws hold to the bit.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gradkern/bias.hpp>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

// The three linear maps of a layer on one set of shapes, and its data.
struct layer {
    conv_case shapes{};
    test_tensor<float> large;
    test_tensor<float> small;
    test_tensor<float> weights;

    layer(random_source& random, const conv_case& c) : shapes(c), large(c.large), small(c.small), weights(c.weights) {
        for (const test_tensor<float>* t : {&large, &small, &weights}) fill(random, *t);
    }
    static void fill(random_source& random, const test_tensor<float>& t) {
        t.fill([&](std::int64_t) { return static_cast<float>(random.integer(-2, 2)); });
    }
    [[nodiscard]] conv_operator member(conv_operator of_convolution) const {
        const auto i = static_cast<std::uint8_t>(of_convolution);
        return static_cast<conv_operator>(shapes.transposed() ? i + 3 : i);
    }
    // Runs the operator that maps `first` and `second` to a new tensor.
    [[nodiscard]] test_tensor<float> apply(conv_operator of_convolution, const test_tensor<float>& first,
                                           const test_tensor<float>& second) const {
        conv_case c = shapes;
        c.op = member(of_convolution);
        test_tensor<float> out(c.result());
        const planned p =
            make_plan<float, float, float>(c, first.const_view(), second.const_view(), {}, out.view(), {});
        EXPECT_TRUE(p.status.ok()) << gk::to_string(p.status);
        if (!p.status) return out;
        std::vector<std::byte> workspace(p.workspace_bytes(1));
        EXPECT_TRUE(p.run(workspace, {}).ok());
        return out;
    }
    // y = forward(x, w); its two adjoints. x lies on the large side of a convolution, on the small one of a transposed.
    [[nodiscard]] const test_tensor<float>& x() const { return shapes.transposed() ? small : large; }
    [[nodiscard]] const test_tensor<float>& y() const { return shapes.transposed() ? large : small; }
    [[nodiscard]] test_tensor<float> forward(const test_tensor<float>& src, const test_tensor<float>& w) const {
        return apply(conv_operator::convolution, src, w);
    }
    [[nodiscard]] test_tensor<float> backward_data(const test_tensor<float>& dy, const test_tensor<float>& w) const {
        return apply(conv_operator::convolution_backward_data, dy, w);
    }
    [[nodiscard]] test_tensor<float> backward_weights(const test_tensor<float>& src,
                                                      const test_tensor<float>& dy) const {
        return apply(conv_operator::convolution_backward_weights, src, dy);
    }
};

double dot(const test_tensor<float>& a, const test_tensor<float>& b) {
    EXPECT_EQ(a.shape(), b.shape());
    double sum = 0;
    for (std::int64_t i = 0; i < a.count(); ++i)
        sum += static_cast<double>(a.value(i)) * static_cast<double>(b.value(i));
    return sum;
}

TEST(convolution_laws, gradients_are_adjoints) {
    random_source random("laws.adjoint");
    for (int i = 0; i < 800; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 200'000);
        SCOPED_TRACE(c.text());
        const layer l(random, c);
        const double forward = dot(l.forward(l.x(), l.weights), l.y());
        ASSERT_EQ(forward, dot(l.x(), l.backward_data(l.y(), l.weights)));
        ASSERT_EQ(forward, dot(l.weights, l.backward_weights(l.x(), l.y())));
    }
}

TEST(convolution_laws, operators_are_linear_in_each_argument) {
    random_source random("laws.linear");
    const auto combine = [](const test_tensor<float>& a, const test_tensor<float>& b) {  // a - 2 b
        test_tensor<float> sum(a.shape());
        sum.fill([&](std::int64_t k) { return a.value(k) - 2.0F * b.value(k); });
        return sum;
    };
    for (int i = 0; i < 150; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 100'000);
        SCOPED_TRACE(c.text());
        const layer a(random, c);
        const layer b(random, c);
        ASSERT_TRUE(a.forward(combine(a.x(), b.x()), a.weights)
                        .equals(combine(a.forward(a.x(), a.weights), a.forward(b.x(), a.weights))));
        ASSERT_TRUE(a.forward(a.x(), combine(a.weights, b.weights))
                        .equals(combine(a.forward(a.x(), a.weights), a.forward(a.x(), b.weights))));
        ASSERT_TRUE(a.backward_data(combine(a.y(), b.y()), a.weights)
                        .equals(combine(a.backward_data(a.y(), a.weights), a.backward_data(b.y(), a.weights))));
        ASSERT_TRUE(a.backward_weights(a.x(), combine(a.y(), b.y()))
                        .equals(combine(a.backward_weights(a.x(), a.y()), a.backward_weights(a.x(), b.y()))));
    }
}

// The loss <forward(x, w), y> is linear in x and in w: its differences over a step of 1 are the gradients.
TEST(convolution_laws, gradients_are_differences) {
    random_source random("laws.differences");
    for (int i = 0; i < 150; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 60'000);
        SCOPED_TRACE(c.text());
        const layer l(random, c);
        const double loss = dot(l.forward(l.x(), l.weights), l.y());
        const auto data = l.backward_data(l.y(), l.weights);
        const auto weights = l.backward_weights(l.x(), l.y());
        for (int k = 0; k < 4; ++k) {
            for (const bool in_weights : {false, true}) {
                const test_tensor<float>& moved = in_weights ? l.weights : l.x();
                if (moved.count() == 0) continue;
                const std::int64_t at = random.integer(0, moved.count() - 1);
                const float before = moved.value(at);
                moved.set(at, before + 1.0F);
                ASSERT_EQ(dot(l.forward(l.x(), l.weights), l.y()) - loss,
                          static_cast<double>((in_weights ? weights : data).value(at)));
                moved.set(at, before);
            }
        }
    }
}

// A transposed convolution is the data gradient of the convolution with the same filter; so are the other members.
TEST(convolution_laws, families_are_one_another_s_gradients) {
    random_source random("laws.families");
    int found = 0;
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 100'000);
        if (c.transposed()) continue;
        ++found;
        SCOPED_TRACE(c.text());
        layer l(random, c);
        for (const test_tensor<float>* t : {&l.large, &l.small, &l.weights}) t->fill_random(random);
        gk::conv_transpose_attributes a;
        a.strides = c.conv.strides;
        a.dilations = c.conv.dilations;
        a.pads_begin = c.conv.pads_begin;
        a.pads_end = c.conv.pads_end;
        a.auto_pad = c.conv.auto_pad;
        a.groups = c.conv.groups;
        a.data_format = c.conv.data_format;
        a.weights_format = c.conv.weights_format;
        // the filter with the axes O and I exchanged
        const std::size_t r = c.large.rank() - 2;
        const std::size_t o = gk::shape::output_channel_index(a.weights_format, r);
        const std::size_t in = gk::shape::input_channel_index(a.weights_format, r);
        gk::extents shape = c.weights;
        gk::extents strides = dense_strides(c.weights);
        std::swap(shape[o], shape[in]);
        std::swap(strides[o], strides[in]);
        const gk::tensor_view<const float> filter_view(l.weights.data(), {shape, strides});
        std::vector<std::byte> workspace(4 << 20);
        const gk::call_options options{.workspace = workspace};

        const test_tensor<float> dst(c.large);
        ASSERT_TRUE(gk::conv_transpose<float>(l.small.const_view(), filter_view, {}, a, dst.view(), options).ok());
        ASSERT_TRUE(dst.equals(l.backward_data(l.small, l.weights)));

        const test_tensor<float> diff_src(c.small);
        ASSERT_TRUE(
            gk::conv_transpose_backward_data<float>(l.large.const_view(), filter_view, a, diff_src.view(), options)
                .ok());
        ASSERT_TRUE(diff_src.equals(l.forward(l.large, l.weights)));

        const test_tensor<float> diff_weights(c.weights);
        ASSERT_TRUE(gk::conv_transpose_backward_weights(l.small.const_view(), l.large.const_view(), a,
                                                        gk::tensor_view<float>(diff_weights.data(), {shape, strides}),
                                                        {}, options)
                        .ok());
        ASSERT_TRUE(diff_weights.equals(l.backward_weights(l.large, l.small)));
    }
    EXPECT_GE(found, 200);
}

// Adding a bias is linear too: its gradient is the sum over everything but the channel.
TEST(convolution_laws, bias_gradient_is_the_adjoint_of_adding_a_bias) {
    random_source random("laws.bias");
    for (int i = 0; i < 150; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        conv_case c = random_conv_case(random, 60'000);
        c.op = c.transposed() ? conv_operator::conv_transpose : conv_operator::convolution;
        SCOPED_TRACE(c.text());
        const layer l(random, c);
        const test_tensor<float> bias(c.bias());
        layer::fill(random, bias);
        const test_tensor<float> with(c.result());
        const planned p = make_plan<float, float, float>(c, l.x().const_view(), l.weights.const_view(),
                                                         bias.const_view(), with.view(), {});
        ASSERT_TRUE(p.status.ok());
        std::vector<std::byte> workspace(p.workspace_bytes(1));
        ASSERT_TRUE(p.run(workspace, {}).ok());
        const test_tensor<float> diff_bias(c.bias());
        ASSERT_TRUE(gk::bias_backward(l.y().const_view(), {c.data_format()}, diff_bias.view()).ok());
        ASSERT_EQ(dot(with, l.y()) - dot(l.forward(l.x(), l.weights), l.y()), dot(bias, diff_bias));
    }
}

}  // namespace
}  // namespace gradkern_test
