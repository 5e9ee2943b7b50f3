// precision::relaxed: what it computes with dot products of bf16 pairs (compiled with them, or with an emulation), and
// that it changes nothing anywhere else.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "support/conv_cases.hpp"

namespace gradkern_test {
namespace {

constexpr bool has_dots = gk::detail::simd::has_dot_bf16;

// Outputs of bf16 inputs: bf16, or f32 for weight gradients.
template <class G>
class relaxed : public ::testing::Test {
protected:
    using tensors = conv_tensors<gk::bfloat16, G, gk::bfloat16>;

    [[nodiscard]] static conv_case some_case(random_source& random, std::int64_t limit) {
        std::optional<conv_operator> op;
        if (!std::is_same_v<G, gk::bfloat16>)
            op = random.pick(
                {conv_operator::convolution_backward_weights, conv_operator::conv_transpose_backward_weights});
        if (!random.chance(1, 5)) return random_conv_case(random, limit, op);
        const conv_operator any = all_conv_operators[static_cast<std::size_t>(random.integer(0, 5))];
        const gk::data_format format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const gk::weights_format filter = random.pick({gk::weights_format::oix, gk::weights_format::xio});
        if (random.chance(1, 4)) {  // images of few channels: rows of a few pairs, and lines of many vectors
            const std::int64_t small = random.integer(1, 20);
            const std::int64_t large = random.integer(1, 4);
            const gk::extents space{random.integer(7, 9), random.integer(7, 240)};
            const std::int64_t kernel = random.integer(2, 7);
            return make_case({op.value_or(any), 1, 1, small, large, space, kernel, random.integer(1, 3), 1,
                              random.integer(0, kernel - 1)},
                             format, filter);
        }
        // Groups of eight channels, which may share vectors, in full and partial panels.
        return make_case({op.value_or(any), random.integer(1, 2), random.integer(1, 9), 8, 8,
                          gk::extents::filled(random.pick({std::size_t{1}, std::size_t{2}}), random.integer(3, 12)),
                          random.integer(1, 3), random.integer(1, 2), 1, random.integer(0, 1)},
                         format, filter);
    }
    [[nodiscard]] static tensors relaxed_tensors(random_source& random, const conv_case& c, bool strided) {
        tensors t(random, c, strided);
        t.precision = gk::precision::relaxed;
        return t;
    }
};
using outputs = ::testing::Types<gk::bfloat16, float>;
TYPED_TEST_SUITE(relaxed, outputs);

// Sums of small integers are exact in any order, with Inf and NaN among them, too: 0 * Inf where a pair has no second
// number, or at a border, would show.
TYPED_TEST(relaxed, integers_are_exact) {
    random_source random("relaxed.integers");
    for (int i = 0; i < 600; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = this->some_case(random, 200'000);
        SCOPED_TRACE(c.text());
        const bool strided = random.chance(1, 4);
        const auto t = this->relaxed_tensors(random, c, strided);
        t.fill_integers(random);
        const bool finite = random.chance(1, 2);
        for (const auto* tensor : {&t.first, &t.second}) {
            const std::int64_t specials = finite || tensor->count() == 0 ? 0 : random.integer(0, 4);
            for (std::int64_t k = 0; k < specials; ++k)
                tensor->set(
                    random.integer(0, tensor->count() - 1),
                    random.pick({std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN()}));
        }
        test_tensor<TypeParam> expected(c.result());
        ASSERT_TRUE(t.reference(c, expected).ok());
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(static_cast<int>(a));
            test_tensor<TypeParam> out(c.result(), strided ? random_output_strides(random, c.result()) : gk::extents{});
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(expected));
            ASSERT_TRUE(out.surroundings_intact());
        }
    }
}

TYPED_TEST(relaxed, reals_keep_twice_the_bound) {
    random_source random("relaxed.reals");
    for (int i = 0; i < 250; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = this->some_case(random, 200'000);
        SCOPED_TRACE(c.text());
        const auto t = this->relaxed_tensors(random, c, random.chance(1, 4));
        t.fill_reals(random);
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(static_cast<int>(a));
            test_tensor<TypeParam> out(c.result());
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(within_bound(c, t, out));
        }
    }
}

TYPED_TEST(relaxed, bits_do_not_depend_on_threads_or_workspace) {
    random_source random("relaxed.threads");
    for (int i = 0; i < 80; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = this->some_case(random, 400'000);
        SCOPED_TRACE(c.text());
        const auto t = this->relaxed_tensors(random, c, false);
        t.fill_reals(random);
        test_tensor<TypeParam> expected(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        test_tensor<TypeParam> out(c.result());
        const planned p = t.plan(c, out, gk::algorithm::automatic);
        ASSERT_TRUE(p.status.ok());
        std::vector<std::byte> workspace(p.workspace_bytes(4) + 1);
        const auto odd = std::span(workspace).subspan(1);
        t.prepare(out);
        thread_executor threads(3);
        ASSERT_TRUE(p.run(odd, threads).ok());
        ASSERT_TRUE(out.equals(expected));
        t.prepare(out);
        shuffling_executor shuffled(4);
        ASSERT_TRUE(p.run(odd, shuffled).ok());
        ASSERT_TRUE(out.equals(expected));
    }
}

// Without the instructions, and for other types, relaxed is strict.
template <class T, class G>
void expect_strict_bits(const char* name) {
    random_source random(name);
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        std::optional<conv_operator> op;
        if (!std::is_same_v<T, G>) op = conv_operator::convolution_backward_weights;
        const conv_case c = random_conv_case(random, 200'000, op);
        SCOPED_TRACE(c.text());
        conv_tensors<T, G> t(random, c, random.chance(1, 4));
        t.fill_reals(random);
        test_tensor<G> expected(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        t.precision = gk::precision::relaxed;
        test_tensor<G> out(c.result());
        ASSERT_TRUE(t.run(c, out).ok());
        ASSERT_TRUE(out.equals(expected));
    }
}
TEST(relaxed_elsewhere, is_strict) {
    expect_strict_bits<float, float>("relaxed.f32");
    expect_strict_bits<gk::float16, gk::float16>("relaxed.f16");
    if (has_dots) return;
    expect_strict_bits<gk::bfloat16, gk::bfloat16>("relaxed.bf16");
    expect_strict_bits<gk::bfloat16, float>("relaxed.bf16_f32");
}

// Strict sums of bf16 are those of f32 in this build, too.
template <class G>
void expect_sums_of_f32(const char* name, std::optional<conv_operator> op) {
    random_source random(name);
    for (int i = 0; i < 100; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 100'000, op);
        SCOPED_TRACE(c.text());
        conv_tensors<gk::bfloat16, G> t(random, c, false);
        conv_tensors<float> wide(random, c, false);
        t.mode = wide.mode = gk::output_mode::overwrite;
        t.has_bias = wide.has_bias = false;
        t.fill_reals(random);
        wide.first.fill([&](std::int64_t k) { return t.first.value(k); });
        wide.second.fill([&](std::int64_t k) { return t.second.value(k); });
        test_tensor<G> out(c.result());
        test_tensor<G> expected(c.result());
        test_tensor<float> sums(c.result());
        ASSERT_TRUE(t.run(c, out).ok());
        ASSERT_TRUE(wide.run(c, sums).ok());
        expected.fill([&](std::int64_t k) { return sums.value(k); });
        ASSERT_TRUE(out.equals(expected));
    }
}
TEST(relaxed_elsewhere, strict_stays_strict) {
    expect_sums_of_f32<gk::bfloat16>("relaxed.strict", std::nullopt);
    expect_sums_of_f32<float>("relaxed.strict_f32", conv_operator::convolution_backward_weights);
    expect_sums_of_f32<float>("relaxed.strict_f32_transposed", conv_operator::conv_transpose_backward_weights);
}

// Long sums over several blocks of channels, panels and blocks of positions; integers again.
TEST(relaxed_layers, are_exact) {
    random_source random("relaxed.layers");
    const std::array layers{
        conv_row{conv_operator::convolution, 2, 1, 70, 300, {13, 14}, 3, 1, 1, 1},
        conv_row{conv_operator::convolution, 1, 1, 300, 131, {9, 10}, 3, 2, 1, 1},
        conv_row{conv_operator::convolution, 1, 3, 40, 66, {9, 8}, 3, 1, 2, 2},
        conv_row{conv_operator::convolution, 2, 1, 64, 256, {56, 56}, 1, 1, 1, 0},
        conv_row{conv_operator::convolution, 1, 1, 70, 3, {40, 41}, 7, 2, 1, 3},
        conv_row{conv_operator::convolution, 1, 1, 3, 64, {70, 71}, 3, 1, 1, 1},
        conv_row{conv_operator::convolution, 2, 1, 36, 34, {5, 6, 7}, 3, 1, 1, 1},
        conv_row{conv_operator::convolution, 1, 8, 8, 8, {14, 15}, 13, 1, 1, 6},  // groups of eight, in parts
    };
    for (const conv_row& layer : layers) {
        for (const conv_operator op : all_conv_operators) {
            conv_row row = layer;
            row.op = op;
            for (const auto d : {gk::data_format::ncx, gk::data_format::nxc}) {
                for (const auto w : {gk::weights_format::oix, gk::weights_format::xio}) {
                    GRADKERN_TRACE_SEED(random);
                    const conv_case c = make_case(row, d, w);
                    SCOPED_TRACE(c.text());
                    conv_tensors<gk::bfloat16> t(random, c, false);
                    t.precision = gk::precision::relaxed;
                    const auto value = [&](std::int64_t) { return static_cast<float>(random.integer(-1, 1)); };
                    t.first.fill(value);
                    t.second.fill(value);
                    t.bias.fill(value);
                    t.previous.fill(value);
                    test_tensor<gk::bfloat16> out(c.result());
                    test_tensor<gk::bfloat16> expected(c.result());
                    ASSERT_TRUE(t.run(c, out).ok());
                    t.precision = gk::precision::strict;
                    ASSERT_TRUE(t.run(c, expected).ok());
                    ASSERT_TRUE(out.equals(expected));
                    random.next_case();
                }
            }
        }
    }
}

[[nodiscard]] bool describes_dots(const auto& plan) {
    std::array<char, 400> text{};
    const std::size_t n = plan.value().describe(text);
    return std::string(text.data(), n).find("dot_bf16") != std::string::npos;
}

TEST(relaxed_plans, say_so) {
    const gk::plan_options options{.precision = gk::precision::relaxed};
    const gk::extents src{2, 14, 14, 64};
    const gk::extents weights{3, 3, 64, 64};
    const gk::convolution_attributes a{
        .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    using b = gk::bfloat16;
    using h = gk::float16;
    EXPECT_EQ(describes_dots(gk::plan_convolution<b, b>(src, weights, {}, a, src, options)), has_dots);
    EXPECT_EQ(describes_dots(gk::plan_convolution_backward_data<b>(src, weights, a, src, options)), has_dots);
    EXPECT_EQ(describes_dots(gk::plan_convolution_backward_weights<b, b>(src, src, a, weights, {}, options)), has_dots);
    EXPECT_EQ(describes_dots(gk::plan_convolution_backward_weights<b, float>(src, src, a, weights, {}, options)),
              has_dots);
    EXPECT_FALSE(describes_dots(gk::plan_convolution<b, b>(src, weights, {}, a, src, {})));
    EXPECT_FALSE(describes_dots(gk::plan_convolution_backward_weights<b, b>(src, src, a, weights, {}, {})));
    EXPECT_FALSE(describes_dots(gk::plan_convolution<h, h>(src, weights, {}, a, src, options)));
    EXPECT_FALSE(describes_dots(gk::plan_convolution<float, float>(src, weights, {}, a, src, options)));
}

}  // namespace
}  // namespace gradkern_test
