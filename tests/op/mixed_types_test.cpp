// Convolutions and their data gradients over tensors of differing types: 16-bit inputs with f32 results, and 16-bit activations beside f32
// weights. The order of sums is that of f32, so results have the bits of other operators.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <gradkern/gradkern.hpp>
#include <gradkern/ref/exact.hpp>

#include "support/algorithms.hpp"
#include "support/conv_cases.hpp"
#include "support/exact_conv.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace their {
struct half {  // somebody else's binary16
    std::uint16_t bits;
};
}  // namespace their
template <>
struct gradkern::element_traits<their::half> : gradkern::f16_storage {};

namespace gradkern_test {
namespace {

using gk::bfloat16;
using gk::float16;

template <class T, class W, class B>
struct types {
    using input = T;
    using weights = W;
    using bias = B;
};

/// Results are f32.
template <class Types>
class mixed_types : public ::testing::Test {};
using all_types =
    ::testing::Types<types<float16, float16, float16>, types<bfloat16, bfloat16, bfloat16>,
                     types<bfloat16, bfloat16, float>, types<float16, float, float>, types<bfloat16, float, float>,
                     types<bfloat16, float, bfloat16>, types<their::half, float16, float>>;
TYPED_TEST_SUITE(mixed_types, all_types);

constexpr std::array operators{conv_operator::convolution, conv_operator::convolution_backward_data,
                               conv_operator::conv_transpose, conv_operator::conv_transpose_backward_data};

/// Sets every element of `to` to that of `from`, which `to` has room for.
template <class To, class From>
void copy(const test_tensor<To>& to, const test_tensor<From>& from) {
    to.fill([&](std::int64_t i) { return from.value(i); });
}

/// Numbers that every type has.
void fill_with_16_bits(random_source& random, const test_tensor<float>& t) {
    t.fill([&](std::int64_t) { return static_cast<float>(random.integer(-64, 64)) / 32.0F; });
}

/// The same numbers in tensors of other types, dense.
template <class T, class G, class B, class W, class Tensors>
conv_tensors<T, G, B, W> in_types(random_source& random, const conv_case& c, const Tensors& t) {
    conv_tensors<T, G, B, W> other(random, c, false);
    other.has_bias = t.has_bias;
    other.mode = t.mode;
    copy(other.first, t.first);
    copy(other.second, t.second);
    copy(other.bias, t.bias);
    copy(other.previous, t.previous);
    return other;
}

TYPED_TEST(mixed_types, integers_are_exact_by_every_path) {
    using T = typename TypeParam::input;
    using W = typename TypeParam::weights;
    using B = typename TypeParam::bias;
    random_source random("mixed_types.integers");
    for (int i = 0; i < 120; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_operator op = random.pick({operators[0], operators[1], operators[2], operators[3]});
        const conv_case c = random_conv_case(random, 200'000, op, i % 4 == 0);
        SCOPED_TRACE(c.text());
        const bool strided = random.chance(1, 3);
        const conv_tensors<T, float, B, W> t(random, c, strided);
        t.fill_integers(random);
        test_tensor<float> expected(c.result());
        const gk::status r = t.reference(c, expected);
        ASSERT_TRUE(r.ok()) << gk::to_string(r);
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(gk::name_of(a));
            test_tensor<float> out(c.result(), strided ? random_output_strides(random, c.result()) : gk::extents{},
                                   side_of(random));
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(expected));
            ASSERT_TRUE(out.surroundings_intact());
        }
    }
}

// The bits of the f32 operator on the same numbers by every path, and, of inputs of one type, those of the 16-bit operator before its
// rounding.
TYPED_TEST(mixed_types, results_have_the_bits_of_f32_and_round_to_those_of_16_bits) {
    using T = typename TypeParam::input;
    using W = typename TypeParam::weights;
    using B = typename TypeParam::bias;
    random_source random("mixed_types.reals");
    for (int i = 0; i < 160; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_operator op = random.pick({operators[0], operators[1], operators[2], operators[3]});
        const conv_case c = random_conv_case(random, 200'000, op, i % 4 == 0);
        SCOPED_TRACE(c.text());
        const conv_tensors<T, float, B, W> t(random, c, random.chance(1, 4));
        t.fill_reals(random);
        fill_with_16_bits(random, t.previous);
        const auto wide = in_types<float, float, float, float>(random, c, t);
        test_tensor<float> expected(c.result());
        ASSERT_TRUE(wide.run(c, expected).ok());
        ASSERT_TRUE(within_bound(c, t, expected));
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(gk::name_of(a));
            test_tensor<float> out(c.result());
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(expected));
        }
        if constexpr (std::is_same_v<T, W>) {
            const auto narrow = in_types<T, T, B, T>(random, c, t);
            test_tensor<T> rounded(c.result());
            test_tensor<T> result(c.result());
            copy(rounded, expected);
            ASSERT_TRUE(narrow.run(c, result).ok());
            ASSERT_TRUE(result.equals(rounded));
        }
    }
}

// Any number of workers, workspaces of any size.
TYPED_TEST(mixed_types, workers_change_no_bit) {
    using T = typename TypeParam::input;
    using W = typename TypeParam::weights;
    using B = typename TypeParam::bias;
    random_source random("mixed_types.workers");
    for (int i = 0; i < 40; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_operator op = random.pick({operators[0], operators[1], operators[2], operators[3]});
        const conv_case c = random_conv_case(random, 600'000, op, i % 2 == 0);
        SCOPED_TRACE(c.text());
        const conv_tensors<T, float, B, W> t(random, c, false);
        t.fill_reals(random);
        test_tensor<float> expected(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        for (const std::ptrdiff_t workers : {2, 3, 7}) {
            test_tensor<float> out(c.result());
            t.prepare(out);
            const planned p = t.plan(c, out, gk::algorithm::automatic);
            ASSERT_TRUE(p.status.ok());
            const guarded_bytes workspace(p.workspace_bytes(random.chance(1, 2) ? workers : 1));
            thread_executor threads(workers);
            shuffling_executor shuffled(workers);
            const gk::executor_ref executor = workers == 3 ? gk::executor_ref(threads) : gk::executor_ref(shuffled);
            ASSERT_TRUE(p.run({workspace.data(), workspace.size()}, executor).ok());
            ASSERT_TRUE(out.equals(expected)) << workers;
        }
    }
}

TYPED_TEST(mixed_types, results_are_near_the_exact_ones) {
    using T = typename TypeParam::input;
    using W = typename TypeParam::weights;
    using B = typename TypeParam::bias;
    random_source random("mixed_types.exact");
    for (int i = 0; i < 30; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 60'000, operators[static_cast<std::size_t>(i % 4)]);
        SCOPED_TRACE(c.text());
        const conv_tensors<T, float, B, W> t(random, c, random.chance(1, 4));
        t.fill_reals(random);
        test_tensor<float> out(c.result());
        ASSERT_TRUE(t.run(c, out).ok());
        test_tensor<double> exact(c.result());
        copy(exact, t.previous);
        ASSERT_TRUE(run_exact(c, t, exact).ok());
        // sums of absolute terms
        conv_tensors<double> sizes(random, c, false);
        sizes.has_bias = t.has_bias;
        sizes.mode = t.mode;
        const auto absolute = [](const test_tensor<double>& to, const auto& from) {
            to.fill([&](std::int64_t k) { return std::fabs(static_cast<double>(from.value(k))); });
        };
        absolute(sizes.first, t.first);
        absolute(sizes.second, t.second);
        absolute(sizes.bias, t.bias);
        absolute(sizes.previous, t.previous);
        test_tensor<double> size(c.result());
        ASSERT_TRUE(sizes.reference(c, size).ok());
        const auto bound = c.error_bound<T, float, B, W>(t.has_bias, {.output = t.mode});
        ASSERT_TRUE(bound);
        for (std::int64_t k = 0; k < out.count(); ++k)
            ASSERT_LE(std::fabs(static_cast<double>(out.value(k)) - exact.value(k)),
                      (*bound)(size.value(k), exact.value(k)))
                << k;
    }
}

// precision::relaxed is for tensors of one type.
TYPED_TEST(mixed_types, relaxed_results_are_strict) {
    using T = typename TypeParam::input;
    using W = typename TypeParam::weights;
    using B = typename TypeParam::bias;
    random_source random("mixed_types.relaxed");
    for (int i = 0; i < 40; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 100'000, operators[static_cast<std::size_t>(i % 4)]);
        SCOPED_TRACE(c.text());
        conv_tensors<T, float, B, W> t(random, c, false);
        t.fill_reals(random);
        test_tensor<float> expected(c.result());
        test_tensor<float> out(c.result());
        ASSERT_TRUE(t.run(c, expected).ok());
        t.precision = gk::precision::relaxed;
        ASSERT_TRUE(t.run(c, out).ok());
        ASSERT_TRUE(out.equals(expected));
    }
}

// f32 weight gradients of 16-bit inputs round to the 16-bit ones.
template <class T>
void expect_rounded_weight_gradients() {
    random_source random("mixed_types.weights");
    for (int i = 0; i < 80; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(
            random, 200'000,
            random.pick({conv_operator::convolution_backward_weights, conv_operator::conv_transpose_backward_weights}),
            i % 4 == 0);
        SCOPED_TRACE(c.text());
        const conv_tensors<T, float> t(random, c, random.chance(1, 4));
        t.fill_reals(random);
        fill_with_16_bits(random, t.previous);
        const auto narrow = in_types<T, T, T, T>(random, c, t);
        test_tensor<float> wide(c.result());
        test_tensor<T> rounded(c.result());
        test_tensor<T> result(c.result());
        ASSERT_TRUE(t.run(c, wide).ok());
        ASSERT_TRUE(narrow.run(c, result).ok());
        copy(rounded, wide);
        ASSERT_TRUE(result.equals(rounded));
    }
}
TEST(mixed_types_of_weight_gradients, f32_results_round_to_those_of_16_bits) {
    expect_rounded_weight_gradients<float16>();
    expect_rounded_weight_gradients<bfloat16>();
}

// Golden numbers: a sum that 16 bits would round, and f32 weights that they have no room for.
TEST(mixed_types_by_hand, keep_what_16_bits_round_away) {
    const std::array<bfloat16, 2> x{bfloat16(256.0F), bfloat16(1.0F)};
    const std::array<bfloat16, 2> w{bfloat16(1.0F), bfloat16(1.0F)};
    const std::array<float, 2> fine{1.0F + 0x1p-20F, 0x1p-12F};
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    float y = 0;
    ASSERT_TRUE((
        gk::convolution<bfloat16, bfloat16, float>({x.data(), {1, 1, 2}}, {w.data(), {1, 2, 1}}, {}, a, {&y, {1, 1, 1}})
            .ok()));
    EXPECT_EQ(y, 257.0F);  // bf16: 256
    ASSERT_TRUE((
        gk::convolution<bfloat16, float, float>({x.data(), {1, 1, 2}}, {fine.data(), {1, 2, 1}}, {}, a, {&y, {1, 1, 1}})
            .ok()));
    EXPECT_EQ(y, 256.0F + 0x1p-12F + 0x1p-12F);
    const float half = 0.5F;
    ASSERT_TRUE((gk::convolution<bfloat16, bfloat16, float, float>({x.data(), {1, 1, 2}}, {w.data(), {1, 2, 1}},
                                                                   {&half, {1}}, a, {&y, {1, 1, 1}})
                     .ok()));
    EXPECT_EQ(y, 257.5F);
    ASSERT_TRUE((gk::convolution_backward_data<bfloat16, float, float>({x.data(), {1, 1, 2}}, {fine.data(), {1, 1, 2}},
                                                                       a, {&y, {1, 1, 1}})
                     .ok()));
    EXPECT_EQ(y, 256.0F + 0x1p-12F + 0x1p-12F);
}

// Plans by name, views of mutable elements, and what stays as it was.
TEST(mixed_types_by_hand, names_of_types_follow_the_arguments) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    const gk::conv_transpose_attributes t{.strides = {1}, .dilations = {1}};
    const gk::tensor_layout x({1, 4, 2}), w({1, 2, 3}), y({1, 4, 3});
    const auto same = [](const auto& plan, const auto& expected) {
        static_assert(std::is_same_v<std::remove_cvref_t<decltype(*plan)>, std::remove_cvref_t<decltype(expected)>>);
        return static_cast<bool>(plan);
    };
    using h = float16;
    EXPECT_TRUE(same(gk::plan_convolution<h>(x, w, {}, a), gk::convolution_plan<h, h, h, h>()));
    EXPECT_TRUE(same(gk::plan_convolution<h, float>(x, w, {}, a), gk::convolution_plan<h, h, h, float>()));
    EXPECT_TRUE(same(gk::plan_convolution<h, h, float>(x, w, {}, a), gk::convolution_plan<h, h, float>()));
    EXPECT_TRUE(same(gk::plan_convolution<h, float, float>(x, w, {}, a), gk::convolution_plan<h, float, float>()));
    EXPECT_TRUE(
        same(gk::plan_convolution<h, float, float, h>(x, w, {}, a), gk::convolution_plan<h, float, float, h>()));
    EXPECT_TRUE(same(gk::plan_conv_transpose<h, float>(x, w, {}, t), gk::conv_transpose_plan<h, h, h, float>()));
    EXPECT_TRUE(
        same(gk::plan_conv_transpose<h, float, float>(x, w, {}, t), gk::conv_transpose_plan<h, float, float>()));
    EXPECT_TRUE(same(gk::plan_convolution_backward_data<h, h, float>(y, w, a),
                     gk::convolution_backward_data_plan<h, h, float>()));
    EXPECT_TRUE(same(gk::plan_conv_transpose_backward_data<h, float, float>(y, w, t),
                     gk::conv_transpose_backward_data_plan<h, float, float>()));

    std::array<h, 8> src{};
    std::array<float, 6> weights{};
    std::array<float, 12> dst{};
    EXPECT_TRUE((gk::convolution<h, float, float>(gk::tensor_view<h>(src.data(), {1, 4, 2}),
                                                  gk::tensor_view<float>(weights.data(), {1, 2, 3}), {}, a,
                                                  gk::tensor_view<float>(dst.data(), {1, 4, 3}))
                     .ok()));
}

// Each tensor has the bytes of its own type.
TEST(mixed_types_by_hand, memory_is_counted_in_bytes_of_each_type) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    alignas(8) std::array<std::byte, 64> memory{};
    const auto* src = reinterpret_cast<const bfloat16*>(memory.data() + 16);  // 8 elements: bytes 16 to 32
    const bfloat16 one(1.0F);
    const auto call = [&](std::size_t at) {
        return gk::convolution<bfloat16, bfloat16, float>({src, {1, 8, 1}}, {&one, {1, 1, 1}}, {}, a,
                                                          {reinterpret_cast<float*>(memory.data() + at), {1, 8, 1}});
    };
    EXPECT_EQ(call(0).code(), gk::errc::invalid_argument);  // 8 floats: bytes 0 to 32
    EXPECT_TRUE(call(32).ok());
    const std::int64_t most = std::int64_t{1} << 60;  // elements of 4 bytes and more are too many
    const gk::tensor_layout far({1, 2, 1}, {most * 3, most * 3, 1});
    EXPECT_TRUE(gk::plan_convolution<bfloat16>({1, 2, 1}, {1, 1, 1}, {}, a, far));
    EXPECT_EQ((gk::plan_convolution<bfloat16, bfloat16, float>({1, 2, 1}, {1, 1, 1}, {}, a, far).error().code),
              gk::errc::overflow);
}

}  // namespace
}  // namespace gradkern_test
