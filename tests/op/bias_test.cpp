// The bias gradient: exact on integers, within the published bound on reals, the same bits with every layout and number of workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <gradkern/accuracy.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/ref/bias.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>

#include "support/conv_cases.hpp"
#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

struct bias_case {
    gk::extents shape{};
    gk::bias_attributes attributes{};
    std::int64_t channels = 0;
    gk::output_mode mode = gk::output_mode::overwrite;
};

gk::extents shape_of(gk::data_format f, std::int64_t n, std::int64_t c, const gk::extents& space) {
    gk::extents e{n};
    if (f == gk::data_format::ncx) e.push_back(c);
    for (const std::int64_t v : space.values()) e.push_back(v);
    if (f == gk::data_format::nxc) e.push_back(c);
    return e;
}

bias_case random_case(random_source& random) {
    bias_case b;
    const auto r = static_cast<std::size_t>(random.integer(1, 3));
    b.channels = random.pick<std::int64_t>({1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129});
    gk::extents space;
    for (std::size_t i = 0; i < r; ++i)
        space.push_back(random.chance(1, 5) ? 1 : random.integer(1, r == 1 ? 900 : r == 2 ? 40 : 12));
    b.attributes.data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
    b.shape = shape_of(b.attributes.data_format, random.chance(1, 20) ? 0 : random.integer(1, 4), b.channels, space);
    b.mode = random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate});
    return b;
}

template <class T, class G>
gk::status run(const bias_case& b, const test_tensor<T>& x, const test_tensor<G>& db, std::ptrdiff_t workers = 1,
               std::size_t shift = 0) {
    const auto plan = gk::plan_bias_backward<T, G>(x.layout(), b.attributes, db.layout(), {.output = b.mode});
    if (!plan) return plan.error();
    const guarded_bytes workspace(plan->workspace_bytes(workers), touching::end, shift);
    shuffling_executor executor(workers);
    return plan->run(x.data(), db.data(), {workspace.data(), workspace.size()}, executor);
}

template <class T, class G>
struct types {
    using input = T;
    using output = G;
};
template <class Types>
class bias_backward : public ::testing::Test {};
using all_types = ::testing::Types<types<float, float>, types<gk::float16, gk::float16>,
                                   types<gk::bfloat16, gk::bfloat16>, types<gk::float16, float>, types<double, double>>;
TYPED_TEST_SUITE(bias_backward, all_types);

TYPED_TEST(bias_backward, integers_are_exact) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("bias.integers");
    for (int i = 0; i < 150; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const bias_case b = random_case(random);
        const bool strided = random.chance(1, 3);
        const test_tensor<T> x(b.shape, strided ? random_input_strides(random, b.shape) : gk::extents{});
        x.fill([&](std::int64_t) { return static_cast<float>(random.integer(-3, 3)); });
        const test_tensor<G> out({b.channels}, strided ? random_output_strides(random, {b.channels}) : gk::extents{});
        const test_tensor<G> expected({b.channels});
        if (b.mode == gk::output_mode::accumulate) {
            expected.fill([](std::int64_t k) { return static_cast<float>(k % 9 - 4); });
            for (std::int64_t k = 0; k < b.channels; ++k) out[k] = expected[k];
        }
        const gk::status r =
            gk::ref::bias_backward(x.const_view(), b.attributes, expected.view(), {.plan = {.output = b.mode}});
        ASSERT_TRUE(r.ok()) << gk::to_string(r);
        const gk::status s = run(b, x, out);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(expected));
        ASSERT_TRUE(out.surroundings_intact());
    }
}

TYPED_TEST(bias_backward, reals_keep_the_bound_and_their_bits) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("bias.reals");
    for (int i = 0; i < 100; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        bias_case b = random_case(random);
        b.mode = gk::output_mode::overwrite;
        const test_tensor<T> x(b.shape);
        x.fill_random(random);
        const test_tensor<G> out({b.channels});
        ASSERT_TRUE(run(b, x, out).ok());
        const test_tensor<double> exact({b.channels});
        const test_tensor<double> sizes({b.channels});
        const test_tensor<double> wide(b.shape);
        wide.fill([&](std::int64_t k) { return static_cast<double>(x.value(k)); });
        ASSERT_TRUE(gk::ref::bias_backward(wide.const_view(), b.attributes, exact.view()).ok());
        wide.fill([&](std::int64_t k) { return std::fabs(static_cast<double>(x.value(k))); });
        ASSERT_TRUE(gk::ref::bias_backward(wide.const_view(), b.attributes, sizes.view()).ok());
        const auto bound = gk::accuracy::bias_backward<T, G>(b.shape, b.attributes);
        ASSERT_TRUE(bound);
        for (std::int64_t k = 0; k < b.channels; ++k)
            ASSERT_LE(std::fabs(static_cast<double>(out.value(k)) - exact.value(k)),
                      (*bound)(sizes.value(k), exact.value(k)));
        // workers, the other layout, strides
        const test_tensor<G> again({b.channels});
        ASSERT_TRUE(run(b, x, again, 3, static_cast<std::size_t>(random.integer(0, 70))).ok());
        ASSERT_TRUE(again.equals(out));
        bias_case other = b;
        const bool ncx = b.attributes.data_format == gk::data_format::ncx;
        other.attributes.data_format = ncx ? gk::data_format::nxc : gk::data_format::ncx;
        const std::size_t rank = b.shape.rank();
        gk::extents strides = dense_strides(b.shape);
        gk::extents shape = b.shape;
        for (std::size_t a = 1; a < rank; ++a) {  // the same memory under the other name
            const std::size_t from = ncx ? (a + 1 < rank ? a + 1 : 1) : (a == 1 ? rank - 1 : a - 1);
            shape[a] = b.shape[from];
            strides[a] = dense_strides(b.shape)[from];
        }
        const auto plan = gk::plan_bias_backward<T, G>({shape, strides}, other.attributes);
        ASSERT_TRUE(plan);
        std::vector<std::byte> workspace(plan->workspace_bytes());
        again.fill([](std::int64_t) { return 0.0F; });
        ASSERT_TRUE(plan->run(x.data(), again.data(), workspace).ok());
        ASSERT_TRUE(again.equals(out));
        // the other layout in memory
        const test_tensor<T> moved(shape);
        for (std::int64_t k = 0; k < moved.count(); ++k) {
            std::int64_t rest = k;
            std::int64_t at = 0;
            for (std::size_t a = rank; a-- > 0;) {
                at += rest % shape[a] * strides[a];
                rest /= shape[a];
            }
            moved[k] = x.data()[at];
        }
        ASSERT_TRUE(run(other, moved, again).ok());
        ASSERT_TRUE(again.equals(out));
    }
}

TEST(bias_backward_errors, shapes_and_memory) {
    std::array<float, 12> x{};
    std::array<float, 3> db{7, 7, 7};
    const gk::bias_attributes a{.data_format = gk::data_format::ncx};
    const auto code = [&](const gk::tensor_layout& in, const gk::tensor_layout& out) {
        return gk::bias_backward(gk::tensor_view<const float>(x.data(), in), a, gk::tensor_view<float>(db.data(), out))
            .code();
    };
    EXPECT_EQ(gk::infer_bias_backward({2, 3, 2}, a).value(), gk::extents{3});
    EXPECT_EQ(code({2, 3, 2}, {3}), gk::errc::ok);
    EXPECT_EQ(code({2, 3, 2}, {}), gk::errc::ok);
    EXPECT_EQ(code({2, 3}, {3}), gk::errc::unsupported);
    EXPECT_EQ(code({1, 1, 1, 1, 1, 1}, {1}), gk::errc::unsupported);
    EXPECT_EQ(code({2, 3, 2}, {3, 1}), gk::errc::unsupported);
    EXPECT_EQ(code({2, 3, 2}, {2}), gk::errc::invalid_shape);
    const gk::status wrong =
        gk::bias_backward(gk::tensor_view<const float>(x.data(), {2, 3, 2}), a, gk::tensor_view<float>(db.data(), {2}));
    EXPECT_EQ(wrong.error().argument, "diff_bias");
    EXPECT_EQ(wrong.error().axis, 0);
    EXPECT_EQ(wrong.error().got, 2);
    EXPECT_EQ(wrong.error().expected, 3);
    EXPECT_EQ(code({-1, 3, 2}, {3}), gk::errc::invalid_shape);
    EXPECT_EQ(code({2, 0, 2}, {3}), gk::errc::invalid_shape);
    EXPECT_EQ(code({2, 3, 0}, {3}), gk::errc::invalid_shape);
    EXPECT_EQ(code({INT64_C(1) << 31, 3, INT64_C(1) << 31}, {3}), gk::errc::overflow);
    // sizes of both, then overflow of both, then what must agree
    const std::int64_t huge = INT64_C(1) << 31;
    EXPECT_EQ(code({huge, 3, huge}, {-1}), gk::errc::invalid_shape);
    EXPECT_EQ(code({2, 3, 2}, {0}), gk::errc::invalid_shape);
    EXPECT_EQ(code({2, 3, 2}, {INT64_C(1) << 62}), gk::errc::overflow);
    EXPECT_EQ(code({2, 3, 2}, {gk::extents{3}, gk::extents{0}}), gk::errc::invalid_argument);
    EXPECT_EQ(
        gk::bias_backward(gk::tensor_view<const float>(nullptr, {2, 3, 2}), a, gk::tensor_view<float>(db.data(), {3}))
            .code(),
        gk::errc::null_pointer);
    EXPECT_EQ(
        gk::bias_backward(gk::tensor_view<const float>(x.data(), {2, 3, 2}), a, gk::tensor_view<float>(x.data(), {3}))
            .code(),
        gk::errc::invalid_argument);
    db = {7, 7, 7};
    EXPECT_EQ(
        gk::bias_backward(gk::tensor_view<const float>(nullptr, {0, 3, 2}), a, gk::tensor_view<float>(db.data(), {3}))
            .code(),
        gk::errc::ok);
    EXPECT_EQ(db, (std::array<float, 3>{0, 0, 0}));
}

TEST(bias_backward_values, non_finite_stays_in_its_channel) {
    for (const gk::data_format f : {gk::data_format::ncx, gk::data_format::nxc}) {
        const bias_case b{shape_of(f, 2, 19, {3, 5}), {f}, 19, gk::output_mode::overwrite};
        const test_tensor<float> x(b.shape);
        for (std::int64_t at = 0; at < x.count(); ++at) {
            x.fill([](std::int64_t) { return 1.0F; });
            x.set(at, std::numeric_limits<float>::infinity());
            const std::int64_t channel = f == gk::data_format::ncx ? at / 15 % 19 : at % 19;
            const test_tensor<float> out({19});
            ASSERT_TRUE(run(b, x, out).ok());
            for (std::int64_t c = 0; c < 19; ++c)
                ASSERT_EQ(out.value(c), c == channel ? std::numeric_limits<float>::infinity() : 30.0F);
        }
    }
}

// ------------------------------------------------------------------------- as an output of the gradients of the weights

/// The gradients of weights and bias in one call.
template <class T, class G>
gk::status both(const conv_case& c, const test_tensor<T>& src, const test_tensor<T>& diff_dst, gk::tensor_view<G> dw,
                gk::tensor_view<G> db, const gk::call_options& options, bool reference = false) {
    const auto x = src.const_view();
    const auto dy = diff_dst.const_view();
    if (reference)
        return c.transposed() ? gk::ref::conv_transpose_backward_weights<T, G>(x, dy, c.transpose, dw, db, options)
                              : gk::ref::convolution_backward_weights<T, G>(x, dy, c.conv, dw, db, options);
    return c.transposed() ? gk::conv_transpose_backward_weights<T, G>(x, dy, c.transpose, dw, db, options)
                          : gk::convolution_backward_weights<T, G>(x, dy, c.conv, dw, db, options);
}

TYPED_TEST(bias_backward, beside_the_weights_it_has_the_bits_it_has_alone) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("bias.beside_weights");
    for (int i = 0; i < 450; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 60'000);
        if (!c.writes_weights()) continue;
        SCOPED_TRACE(c.text());
        const bool strided = random.chance(1, 3);
        const auto data_format = c.transposed() ? c.transpose.data_format : c.conv.data_format;
        const gk::extents& dy_shape = c.transposed() ? c.large : c.small;
        const std::int64_t channels = dy_shape[gk::shape::channel_index(data_format, dy_shape.rank() - 2)];
        const test_tensor<T> src(c.transposed() ? c.small : c.large);
        const test_tensor<T> diff_dst(dy_shape, strided ? random_input_strides(random, dy_shape) : gk::extents{});
        src.fill_random(random);
        diff_dst.fill_random(random);
        gk::call_options options{};
        options.plan.output = random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate});
        const std::ptrdiff_t workers = random.integer(1, 3);
        shuffling_executor executor(workers);
        std::vector<std::byte> memory(8 << 20);
        options.workspace = memory;
        options.executor = executor;

        struct gradients {
            test_tensor<G> weights;
            test_tensor<G> bias;
        };
        const auto fresh = [&](const gk::extents& strides) {
            gradients g{test_tensor<G>(c.weights), test_tensor<G>({channels}, strides)};
            if (options.plan.output == gk::output_mode::accumulate) {
                g.weights.fill([](std::int64_t k) { return static_cast<float>(k % 5); });
                g.bias.fill([](std::int64_t k) { return static_cast<float>(k % 7); });
            }
            return g;
        };
        const gradients alone = fresh({});
        const gk::status w = both<T, G>(c, src, diff_dst, alone.weights.view(), {}, options);
        ASSERT_TRUE(w.ok()) << gk::to_string(w);
        ASSERT_TRUE(
            gk::bias_backward(diff_dst.const_view(), {.data_format = data_format}, alone.bias.view(), options).ok());

        const gradients together = fresh(strided ? random_output_strides(random, {channels}) : gk::extents{});
        const gk::status s = both<T, G>(c, src, diff_dst, together.weights.view(), together.bias.view(), options);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(together.weights.equals(alone.weights));
        ASSERT_TRUE(together.bias.equals(alone.bias));
        ASSERT_TRUE(together.bias.surroundings_intact());

        // the references, too, compute both
        const gradients plain = fresh({});
        const gradients plain_alone = fresh({});
        ASSERT_TRUE((both<T, G>(c, src, diff_dst, plain.weights.view(), plain.bias.view(), options, true).ok()));
        ASSERT_TRUE((both<T, G>(c, src, diff_dst, plain_alone.weights.view(), {}, options, true).ok()));
        ASSERT_TRUE(gk::ref::bias_backward(diff_dst.const_view(), {.data_format = data_format}, plain_alone.bias.view(),
                                           options)
                        .ok());
        ASSERT_TRUE(plain.weights.equals(plain_alone.weights));
        ASSERT_TRUE(plain.bias.equals(plain_alone.bias));
    }
}

TEST(bias_backward_errors, beside_the_weights) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    const test_tensor<float> x({2, 5, 3});
    const test_tensor<float> dy({2, 4, 6});
    const test_tensor<float> dw({2, 3, 6});
    const std::vector<float> room(16);
    x.fill([](std::int64_t) { return 1.0F; });
    dy.fill([](std::int64_t) { return 1.0F; });
    const auto before = dw.snapshot();
    const auto fails = [&](gk::tensor_view<float> db) {
        const gk::status s = gk::convolution_backward_weights<float>(x.const_view(), dy.const_view(), a, dw.view(), db);
        EXPECT_FALSE(s.ok());
        EXPECT_EQ(dw.snapshot(), before);
        EXPECT_EQ(s.error().op, "convolution_backward_weights");
        return s.error();
    };
    const auto is = [](gk::errc code, int axis, std::int64_t got, std::int64_t expected, gk::expectation kind) {
        return gk::error{code, "convolution_backward_weights", "diff_bias", axis, got, expected, kind};
    };
    const test_tensor<float> db({16});
    EXPECT_EQ(fails({db.data(), {6, 1}}), is(gk::errc::unsupported, -1, 2, 1, gk::expectation::equal));
    EXPECT_EQ(fails({db.data(), {-1}}), is(gk::errc::invalid_shape, 0, -1, 0, gk::expectation::at_least));
    EXPECT_EQ(fails({db.data(), {0}}), is(gk::errc::invalid_shape, 0, 0, 6, gk::expectation::equal));
    EXPECT_EQ(fails({db.data(), {INT64_C(1) << 62}}), is(gk::errc::overflow, -1, 0, 0, gk::expectation::none));
    EXPECT_EQ(fails({db.data(), {3}}), is(gk::errc::invalid_shape, 0, 3, 6, gk::expectation::equal));
    EXPECT_EQ(fails({nullptr, {6}}), is(gk::errc::null_pointer, -1, 0, 0, gk::expectation::none));
    EXPECT_EQ(fails({db.data(), {gk::extents{6}, gk::extents{0}}}).code, gk::errc::invalid_argument);
    EXPECT_EQ(fails({dw.data() + 30, {6}}), is(gk::errc::invalid_argument, -1, 0, 0, gk::expectation::none));
    EXPECT_EQ(fails({dy.data(), {6}}), is(gk::errc::invalid_argument, -1, 0, 0, gk::expectation::none));

    // of a transposed convolution the output channels are those of the large side
    const gk::conv_transpose_attributes t{.strides = {1}, .dilations = {1}};
    const auto code = [&](std::int64_t channels) {
        return gk::plan_conv_transpose_backward_weights<float>({2, 4, 6}, {2, 5, 3}, t, {2, 6, 3}, {channels}).error();
    };
    EXPECT_EQ(code(3).code, gk::errc::ok);
    EXPECT_EQ(code(6), (gk::error{gk::errc::invalid_shape, "conv_transpose_backward_weights", "diff_bias", 0, 6, 3,
                                  gk::expectation::equal}));

    // one workspace for both
    const gk::extents wide{1, 600, 40};
    const gk::convolution_attributes ncx{.strides = {1}, .dilations = {1}, .data_format = gk::data_format::ncx};
    const auto plan = gk::plan_convolution_backward_weights<float>(wide, wide, ncx, {1, 600, 600}, {600});
    ASSERT_TRUE(plan);
    const auto bias_alone = gk::plan_bias_backward<float>(wide, {.data_format = gk::data_format::ncx});
    const auto weights_alone = gk::plan_convolution_backward_weights<float>(wide, wide, ncx, {1, 600, 600});
    EXPECT_EQ(plan->workspace_bytes(3), std::max(bias_alone->workspace_bytes(3), weights_alone->workspace_bytes(3)));
    std::array<char, 400> text{};
    const std::string_view line(text.data(), plan->describe(text));
    EXPECT_NE(line.find("then the bias"), std::string_view::npos) << line;
}

}  // namespace
}  // namespace gradkern_test
