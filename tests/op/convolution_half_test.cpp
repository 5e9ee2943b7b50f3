// The convolution family on f16 and bf16: f32 sums, one rounding, weight gradients and biases also in f32.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

template <class T, class G, class B>
struct types {
    using input = T;
    using output = G;
    using bias = B;
};

template <class Types>
class convolution_half : public ::testing::Test {};
using all_types =
    ::testing::Types<types<gk::float16, gk::float16, gk::float16>, types<gk::bfloat16, gk::bfloat16, gk::bfloat16>,
                     types<gk::float16, gk::float16, float>, types<gk::bfloat16, float, gk::bfloat16>>;
TYPED_TEST_SUITE(convolution_half, all_types);

// Only weight gradients of 16-bit inputs may be f32.
template <class T, class G>
[[nodiscard]] std::optional<conv_operator> some_operator(random_source& random) {
    if (std::is_same_v<T, G>) return std::nullopt;
    return random.pick({conv_operator::convolution_backward_weights, conv_operator::conv_transpose_backward_weights});
}

TYPED_TEST(convolution_half, integers_are_rounded_once) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    using B = typename TypeParam::bias;
    random_source random("convolution_half.integers");
    for (int i = 0; i < 250; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 200'000, some_operator<T, G>(random));
        SCOPED_TRACE(c.text());
        const bool strided = random.chance(1, 3);
        const conv_tensors<T, G, B> t(random, c, strided);
        t.fill_integers(random);
        test_tensor<G> expected(c.result());
        const gk::status r = t.reference(c, expected);
        ASSERT_TRUE(r.ok()) << gk::to_string(r);
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(static_cast<int>(a));
            test_tensor<G> out(c.result(), strided ? random_output_strides(random, c.result()) : gk::extents{});
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(expected));
            ASSERT_TRUE(out.surroundings_intact());
        }
    }
}

TYPED_TEST(convolution_half, reals_keep_the_bound_and_their_bits) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    using B = typename TypeParam::bias;
    random_source random("convolution_half.reals");
    for (int i = 0; i < 200; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 200'000, some_operator<T, G>(random));
        SCOPED_TRACE(c.text());
        const conv_tensors<T, G, B> t(random, c, random.chance(1, 4));
        t.fill_reals(random);
        test_tensor<G> expected(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        ASSERT_TRUE(within_bound(c, t, expected));
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(gk::name_of(a));
            test_tensor<G> out(c.result());
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(expected));
        }
    }
}

// The bits of a 16-bit problem are those of the f32 problem with the same numbers, rounded at the end.
template <class T, class G>
void expect_sums_of_f32(random_source& random, const conv_case& c) {
    SCOPED_TRACE(c.text());
    conv_tensors<T, G> t(random, c, false);
    t.mode = gk::output_mode::overwrite;
    t.has_bias = false;
    t.fill_reals(random);
    conv_tensors<float> wide(random, c, false);
    wide.mode = gk::output_mode::overwrite;
    wide.has_bias = false;
    wide.first.fill([&](std::int64_t k) { return t.first.value(k); });
    wide.second.fill([&](std::int64_t k) { return t.second.value(k); });
    test_tensor<G> out(c.result());
    test_tensor<float> sums(c.result());
    ASSERT_TRUE(t.run(c, out).ok());
    ASSERT_TRUE(wide.run(c, sums).ok());
    test_tensor<G> expected(c.result());
    expected.fill([&](std::int64_t k) { return sums.value(k); });
    ASSERT_TRUE(out.equals(expected));
}

TYPED_TEST(convolution_half, sums_are_those_of_f32) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("convolution_half.sums");
    for (int i = 0; i < 100; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        expect_sums_of_f32<T, G>(random, random_conv_case(random, 100'000, some_operator<T, G>(random)));
        if (this->HasFatalFailure()) return;
    }
}

// Depthwise, NXC: tiles that read and write 16 bits give the bits of those that read f32, with and without a bias and
// previous values; full and partial panels, borders, strides, dilations, and more taps than fit one part.
TYPED_TEST(convolution_half, depthwise_tensors_in_place_have_the_bits_of_packed_ones) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    using B = typename TypeParam::bias;
    if constexpr (std::is_same_v<T, G>) {
        constexpr conv_operator forward = conv_operator::convolution;
        constexpr conv_operator backward = conv_operator::convolution_backward_data;
        const std::array<conv_row, 14> rows{{
            {forward, 2, 48, 1, 1, {13, 11}, 3, 1, 1, 1},
            {forward, 2, 48, 1, 1, {9, 31}, 5, 1, 1, 2},  // sliding windows
            {forward, 1, 33, 1, 1, {6, 7}, 7, 1, 1, 3},
            {backward, 1, 72, 1, 1, {9, 18}, 7, 1, 1, 4},
            {backward, 2, 16, 1, 1, {3, 5, 6}, 5, 1, 1, 2},
            {forward, 1, 72, 1, 1, {9, 30}, 5, 2, 1, 2},
            {forward, 3, 21, 1, 1, {4, 5, 6}, 3, 1, 1, 1},
            {forward, 1, 33, 1, 1, {1300}, 577, 1, 1, 0},
            {forward, 2, 16, 1, 1, {1300}, 576, 2, 1, 3},
            {backward, 2, 48, 1, 1, {13, 11}, 3, 1, 1, 1},
            {backward, 1, 72, 1, 1, {9, 30}, 5, 2, 1, 2},
            {backward, 9, 32, 1, 1, {7, 7}, 3, 1, 2, 2},
            {conv_operator::conv_transpose, 2, 40, 1, 1, {7, 9}, 4, 2, 1, 1},
            {conv_operator::conv_transpose_backward_data, 1, 64, 1, 1, {8, 9}, 3, 3, 1, 0},
        }};
        random_source random("convolution_half.depthwise_in_place");
        for (const conv_row& r : rows) {
            const conv_case c = make_case(r, gk::data_format::nxc, gk::weights_format::oix);
            SCOPED_TRACE(c.text());
            conv_tensors<T, G, B> t(random, c, false);
            t.fill_reals(random);
            for (const bool has_bias : {false, c.takes_bias()}) {
                for (const gk::output_mode mode : {gk::output_mode::overwrite, gk::output_mode::accumulate}) {
                    t.has_bias = has_bias;
                    t.mode = mode;
                    test_tensor<G> expected(c.result());
                    ASSERT_TRUE(t.run(c, expected, gk::algorithm::dense_packed).ok());
                    test_tensor<G> out(c.result());
                    ASSERT_TRUE(t.run(c, out).ok());
                    ASSERT_TRUE(out.equals(expected));
                    ASSERT_TRUE(out.surroundings_intact());
                }
            }
        }
        for (const conv_row& r : rows) {
            expect_sums_of_f32<T, G>(random, make_case(r, gk::data_format::nxc, gk::weights_format::oix));
            if (this->HasFatalFailure()) return;
        }
    }
}

// Weight gradients of depthwise layers of three column taps: numbers of 16 bits, widened in registers, give the sums of f32.
TYPED_TEST(convolution_half, weights_of_windows_that_slide) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("convolution_half.sliding_weights");
    for (std::int64_t columns = 1; columns <= 31; ++columns) {
        for (const std::int64_t stride : {1, 2}) {
            const std::int64_t pad = columns < 3 ? 1 : random.integer(0, 3);
            const std::int64_t rows = random.integer(columns < 3 ? 1 : 3, 9);
            const gk::extents space = columns % 8 == 7 ? gk::extents{4, rows, columns} : gk::extents{rows, columns};
            const conv_row row{conv_operator::convolution_backward_weights,
                               random.integer(1, 3),
                               random.integer(2, 70),
                               1,
                               1,
                               space,
                               3,
                               stride,
                               1,
                               pad};
            const conv_case c = make_case(row, gk::data_format::nxc, gk::weights_format::xio);
            expect_sums_of_f32<T, G>(random, c);
            if (this->HasFatalFailure()) return;
            SCOPED_TRACE(c.text());
            const auto plan = gk::plan_convolution_backward_weights<T, G>(c.large, c.small, c.conv, c.weights);
            ASSERT_TRUE(plan.has_value());
            std::string text(plan->describe({}), ' ');
            plan->describe(text);
            EXPECT_NE(text.find("depthwise_sliding"), std::string::npos) << text;
        }
    }
}

// 1x1 and non-overlapping windows in NXC: fused panels of one group are stored through one buffer, with biases and previous
// values; partial last panels, and tasks of all panels or some.
template <class T, class B>
void expect_reference_of_joined_panels() {
    constexpr conv_operator forward = conv_operator::convolution;
    constexpr conv_operator backward = conv_operator::convolution_backward_data;
    // A task computes several panels if there are enough tasks: 16 blocks of 1024 positions.
    const std::array<conv_row, 4> rows{{
        {forward, 1, 1, 3, 144, {130, 128}, 1, 1, 1, 0},
        {forward, 2, 1, 2, 511, {2600}, 1, 2, 1, 0},
        {backward, 1, 1, 130, 2, {130, 128}, 1, 1, 1, 0},
        {conv_operator::conv_transpose, 1, 1, 3, 136, {65, 64}, 2, 2, 1, 0},
    }};
    random_source random("convolution_half.joined_panels");
    for (const conv_row& r : rows) {
        const conv_case c = make_case(r, gk::data_format::nxc, gk::weights_format::oix);
        SCOPED_TRACE(c.text());
        conv_tensors<T, T, B> t(random, c, false);
        t.fill_integers(random);
        for (const gk::output_mode mode : {gk::output_mode::overwrite, gk::output_mode::accumulate}) {
            t.has_bias = c.takes_bias() && mode == gk::output_mode::accumulate;
            t.mode = mode;
            test_tensor<T> expected(c.result());
            ASSERT_TRUE(t.reference(c, expected).ok());
            test_tensor<T> out(c.result());
            ASSERT_TRUE(t.run(c, out).ok());
            ASSERT_TRUE(out.equals(expected));
            ASSERT_TRUE(out.surroundings_intact());
        }
    }
}

TYPED_TEST(convolution_half, fused_panels_of_outputs) {
    if constexpr (std::is_same_v<typename TypeParam::input, typename TypeParam::output>)
        expect_reference_of_joined_panels<typename TypeParam::input, typename TypeParam::bias>();
}
TEST(convolution, fused_panels_of_outputs) { expect_reference_of_joined_panels<float, float>(); }

// Tensors larger than any cache, whose lines tiles prefetch: windows with and without a stride, sliding windows and groups.
// The last panel is partial, and the memory after the last lines does not belong to the tensor.
template <class T>
void expect_reference_beyond_the_cache() {
    constexpr conv_operator forward = conv_operator::convolution;
    constexpr conv_operator backward = conv_operator::convolution_backward_data;
    const std::array<conv_row, 6> rows{{{forward, 1, 41, 1, 1, {}, 3, 1, 1, 1},
                                        {forward, 1, 41, 1, 1, {}, 3, 2, 1, 1},
                                        {backward, 1, 41, 1, 1, {}, 3, 2, 1, 1},
                                        {forward, 1, 41, 1, 1, {}, 5, 1, 1, 2},
                                        {forward, 1, 41, 1, 1, {}, 3, 600, 1, 1},  // windows skip lines
                                        {forward, 1, 11, 4, 4, {}, 3, 1, 1, 1}}};
    random_source random("convolution_half.beyond_the_cache");
    for (conv_row r : rows) {
        const std::int64_t lines = 70;
        const std::int64_t bytes = (r.stride == 1 ? 9 : 17) * 1024 * 1024;  // of the larger side, or of two equal ones
        r.space = {lines, bytes / (lines * r.groups * r.large * static_cast<std::int64_t>(sizeof(T)))};
        const conv_case c = make_case(r, gk::data_format::nxc, gk::weights_format::xio);
        SCOPED_TRACE(c.text());
        conv_tensors<T> t(random, c, false);
        t.fill_integers(random);
        test_tensor<T> expected(c.result());
        ASSERT_TRUE(t.reference(c, expected).ok());
        test_tensor<T> out(c.result());
        ASSERT_TRUE(t.run(c, out).ok());
        ASSERT_TRUE(out.equals(expected));
        ASSERT_TRUE(out.surroundings_intact());
    }
}
TEST(convolution, tensors_beyond_the_cache) {
    expect_reference_beyond_the_cache<float>();
    expect_reference_beyond_the_cache<gk::bfloat16>();
}

// Weight gradients pack lines for all taps at once: several blocks of channels, chunks across images and planes, pieces of
// long lines, few channels, and lines that are too long for that.
TYPED_TEST(convolution_half, weight_gradients_of_packed_lines_are_those_of_f32) {
    constexpr conv_operator weights = conv_operator::convolution_backward_weights;
    const std::array<conv_row, 12> rows{{
        {weights, 3, 1, 20, 70, {13, 11}, 3, 1, 1, 1},
        {weights, 1, 1, 64, 64, {5, 2, 4}, 3, 1, 1, 1},  // planes so small that windows differ by less than a line
        {weights, 3, 1, 64, 64, {3, 2, 4}, 3, 1, 1, 1},
        {weights, 1, 1, 64, 64, {9, 2, 2}, 3, 1, 1, 1},
        {weights, 2, 1, 20, 70, {25, 30}, 3, 2, 1, 1},
        {weights, 2, 2, 18, 20, {19, 23}, 3, 2, 2, 2},
        {weights, 1, 1, 5, 66, {600}, 5, 1, 2, 3},
        {weights, 2, 2, 18, 24, {5, 6, 7}, 3, 1, 1, 1},
        {weights, 3, 1, 5, 30, {9, 8, 11}, 3, 2, 1, 1},
        {weights, 2, 1, 9, 3, {40, 37}, 7, 2, 1, 3},
        {weights, 1, 1, 4, 64, {11, 700}, 3, 3, 1, 1},
        {weights, 1, 1, 4, 30, {20, 700}, 17, 3, 1, 0},
    }};
    random_source random("convolution_half.staged_lines");
    for (const conv_row& r : rows) {
        for (const gk::data_format format : {gk::data_format::ncx, gk::data_format::nxc}) {
            expect_sums_of_f32<typename TypeParam::input, typename TypeParam::output>(
                random, make_case(r, format, gk::weights_format::oix));
            if (this->HasFatalFailure()) return;
        }
    }
}

}  // namespace
}  // namespace gradkern_test
