// f64: convolutions of double against the plain sums of the reference, through every path; what f32 would lose is kept.
// (The pools and the bias gradient have the bits of their references: their own tests have double in their lists of types.)

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/gradkern.hpp>

#include "support/algorithms.hpp"
#include "support/conv_cases.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;

/// 53 random bits in [-1, 1).
double fine(random_source& random) {
    return static_cast<double>(static_cast<std::int64_t>(random.bits() >> 10) - (std::int64_t{1} << 53)) * 0x1p-53;
}

TEST(f64, integers_are_exact_through_every_path) {
    random_source random("f64.integers");
    for (int i = 0; i < 200; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 100'000);
        SCOPED_TRACE(c.text());
        const bool strided = random.chance(1, 3);
        const conv_tensors<double> t(random, c, strided);
        // products of numbers of 26 bits, which f32 would round
        const auto value = [&](std::int64_t) { return static_cast<double>(random.integer(-(1 << 21), 1 << 21)); };
        t.first.fill(value);
        t.second.fill(value);
        t.bias.fill(value);
        t.previous.fill(value);
        test_tensor<double> expected(c.result());
        const gk::status r = t.reference(c, expected);
        ASSERT_TRUE(r.ok()) << gk::to_string(r);
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(gk::name_of(a));
            test_tensor<double> out(c.result(), strided ? random_output_strides(random, c.result()) : gk::extents{});
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(expected));
            ASSERT_TRUE(out.surroundings_intact());
        }
    }
}

/// The reference of a case with other numbers.
template <class F>
test_tensor<double> sums_of(const conv_case& c, const conv_tensors<double>& t, const F& number) {
    const auto changed = [&](const test_tensor<double>& from) {
        test_tensor<double> to(from.shape());
        to.fill([&](std::int64_t k) { return number(from.value(k)); });
        return to;
    };
    const auto first = changed(t.first);
    const auto second = changed(t.second);
    const auto bias = changed(t.bias);
    auto sum = changed(t.previous);
    const gk::status s = run_reference<double, double, double>(
        c, first.const_view(), second.const_view(), t.has_bias ? bias.const_view() : gk::tensor_view<const double>{},
        sum.view(), t.mode);
    EXPECT_TRUE(s.ok()) << gk::to_string(s);
    return sum;
}

TEST(f64, reals_stay_near_plain_sums_and_every_path_has_their_bits) {
    random_source random("f64.reals");
    for (int i = 0; i < 200; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 100'000);
        SCOPED_TRACE(c.text());
        const conv_tensors<double> t(random, c, random.chance(1, 4));
        for (const test_tensor<double>* x : {&t.first, &t.second, &t.bias, &t.previous})
            x->fill([&](std::int64_t) { return fine(random); });
        test_tensor<double> got(c.result());
        ASSERT_TRUE(t.run(c, got).ok());
        const auto plain = sums_of(c, t, [](double x) { return x; });
        const auto sizes = sums_of(c, t, [](double x) { return std::fabs(x); });
        const auto terms = sums_of(c, t, [](double) { return 1.0; });
        const auto bound = c.error_bound<double, double, double>(t.has_bias, {.output = t.mode});
        ASSERT_TRUE(bound);
        for (std::int64_t k = 0; k < got.count(); ++k) {
            const double of_plain_sum = 1.01 * 0x1p-53 * (terms.value(k) + 1) * sizes.value(k);
            ASSERT_LE(std::fabs(got.value(k) - plain.value(k)), (*bound)(sizes.value(k)) + of_plain_sum) << k;
        }
        for (const gk::algorithm a : all_algorithms) {
            SCOPED_TRACE(gk::name_of(a));
            test_tensor<double> out(c.result());
            const gk::status s = t.run(c, out, a);
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            ASSERT_TRUE(out.equals(got));
        }
    }
}

// Golden numbers: what f32 rounds away, and what it has no range for.
TEST(f64, keeps_what_f32_has_no_room_for) {
    const std::array<double, 2> x{1.0 + 0x1p-40, 0x1p200};
    const std::array<double, 1> w{1.0 - 0x1p-30};
    const std::array<double, 1> b{0x1p-45};
    std::array<double, 2> y{};
    ASSERT_TRUE(gk::convolution<double>({x.data(), {1, 2, 1}}, {w.data(), {1, 1, 1}}, {b.data(), {1}},
                                        {.strides = {1}, .dilations = {1}}, {y.data(), {1, 2, 1}})
                    .ok());
    EXPECT_EQ(y[0], 1.0 - 0x1p-30 + 0x1p-40 + 0x1p-45);
    EXPECT_EQ(y[1], 0x1p200 - 0x1p170);

    std::array<double, 1> dw{};
    ASSERT_TRUE(gk::convolution_backward_weights<double>({x.data(), {1, 2, 1}}, {x.data(), {1, 2, 1}},
                                                         {.strides = {1}, .dilations = {1}}, {dw.data(), {1, 1, 1}})
                    .ok());
    EXPECT_EQ(dw[0], 0x1p400);

    std::array<double, 1> mean{};
    const std::array<double, 3> thirds{1.0, 0x1p-40, 0x1p-40};
    ASSERT_TRUE(
        gk::avg_pool<double>({thirds.data(), {1, 3, 1}}, {.kernel = {3}, .strides = {1}}, {mean.data(), {1, 1, 1}})
            .ok());
    EXPECT_EQ(mean[0], (1.0 + 0x1p-39) / 3.0);

    std::array<double, 1> norm{};
    const std::array<double, 2> sides{3 * 0x1p300, 4 * 0x1p300};
    ASSERT_TRUE(
        gk::lp_pool<double>({sides.data(), {1, 2, 1}}, {.kernel = {2}, .strides = {1}}, {norm.data(), {1, 1, 1}}).ok());
    EXPECT_EQ(norm[0], 5 * 0x1p300);

    std::array<double, 1> most{};
    const std::array<double, 2> close{1.0, 1.0 + 0x1p-52};
    std::array<std::int64_t, 1> index{};
    ASSERT_TRUE(gk::max_pool<double>({close.data(), {1, 2, 1}}, {.kernel = {2}, .strides = {1}},
                                     {most.data(), {1, 1, 1}}, {index.data(), {1, 1, 1}})
                    .ok());
    EXPECT_EQ(most[0], close[1]);
    EXPECT_EQ(index[0], 1);
}

}  // namespace
}  // namespace gradkern_test
