// The convolution family on f16 and bf16: f32 sums, one rounding, weight gradients and biases also in f32.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
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

// f32 outputs of 16-bit inputs exist for weight gradients alone.
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
            ASSERT_TRUE(t.run(c, out, a).ok());
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
        for (const gk::algorithm a : {gk::algorithm::dense, gk::algorithm::dense_staged, gk::algorithm::channelwise,
                                      gk::algorithm::positionwise}) {
            SCOPED_TRACE(static_cast<int>(a));
            test_tensor<G> out(c.result());
            ASSERT_TRUE(t.run(c, out, a).ok());
            ASSERT_TRUE(out.equals(expected));
        }
    }
}

// The bits of a 16-bit problem are those of the f32 problem with the same numbers, rounded at the end.
TYPED_TEST(convolution_half, sums_are_those_of_f32) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::output;
    random_source random("convolution_half.sums");
    for (int i = 0; i < 100; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 100'000, some_operator<T, G>(random));
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
}

}  // namespace
}  // namespace gradkern_test
