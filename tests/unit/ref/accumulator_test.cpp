// The exact accumulator: golden numbers, laws of addition, and the rounding of every format against conversions that are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <gradkern/half.hpp>
#include <gradkern/ref/exact/accumulator.hpp>

#include "support/random.hpp"

namespace gradkern_test {
namespace {

using gradkern::bfloat16;
using gradkern::float16;
using gradkern::ref::exact::accumulator;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <class T, class... Terms>
constexpr T sum_of(const Terms&... terms) {
    accumulator a;
    (a.add(terms), ...);
    return a.rounded<T>();
}
std::uint32_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }
std::uint64_t bits(double v) { return std::bit_cast<std::uint64_t>(v); }

// ------------------------------------------------------------------------------------------------------------ examples

static_assert(sum_of<float>(1e30F, 1.0F, -1e30F) == 1.0F);
static_assert(sum_of<double>(0x1p1023, 0x1p-1074, -0x1p1023) == 0x1p-1074);

TEST(accumulator, keeps_what_floating_point_loses) {
    accumulator a;
    a.add_product(1e30F, 1e30F);
    a.add_product(1e-30F, 3.0F);
    a.add_product(-1e30F, 1e30F);
    EXPECT_EQ(a.rounded<float>(), 3e-30F);
    // the greatest and the least product of f64
    accumulator b;
    const double most = std::numeric_limits<double>::max();
    for (int i = 0; i < 1000; ++i) b.add_product(most, most);
    b.add_product(0x1p-1074, 0x1p-1074);
    EXPECT_EQ(b.rounded<double>(), std::numeric_limits<double>::infinity());
    for (int i = 0; i < 1000; ++i) b.add_product(-most, most);
    EXPECT_FALSE(b.is_zero());
    EXPECT_EQ(b.rounded<double>(), 0.0);
    EXPECT_FALSE(std::signbit(b.rounded<double>()));
    b.add_product(-0x1p-1074, 0x1p-1073);
    EXPECT_TRUE(std::signbit(b.rounded<double>()));
    b.add_product(0x1p-1074, 0x1p-1074);
    EXPECT_TRUE(b.is_zero());
}

TEST(accumulator, rounds_ties_to_even_and_once) {
    EXPECT_EQ(sum_of<float>(1.0F, 0x1p-24F), 1.0F);
    EXPECT_EQ(sum_of<float>(1.0F, 0x1p-24F, 0x1p-149F), 1.0F + 0x1p-23F);
    EXPECT_EQ(sum_of<float>(1.0F + 0x1p-23F, 0x1p-24F), 1.0F + 0x1p-22F);
    EXPECT_EQ(sum_of<float>(-1.0F, -0x1p-24F, 0x1p-149F), -1.0F);
    // Through f32 this would be rounded twice, to 1 + 2^-9.
    EXPECT_EQ(sum_of<float16>(1.0F, 0x1p-11F, 0x1p-40F).bits, float16(1.0F + 0x1p-10F).bits);
    EXPECT_EQ(sum_of<float16>(1.0F, 0x1p-11F, -0x1p-40F).bits, float16(1.0F).bits);
    EXPECT_EQ(sum_of<bfloat16>(1.0F, 0x1p-8F).bits, bfloat16(1.0F).bits);
    EXPECT_EQ(sum_of<bfloat16>(1.0F, 0x1p-8F, 0x1p-60F).bits, bfloat16(1.0F + 0x1p-7F).bits);
}

TEST(accumulator, overflows_and_underflows_when_it_is_rounded) {
    const float most = std::numeric_limits<float>::max();
    EXPECT_EQ(sum_of<float>(most, 0x1p102F), most);
    EXPECT_EQ(sum_of<float>(most, 0x1p103F), inf);  // half a unit: to even
    EXPECT_EQ(sum_of<float>(-most, -0x1p103F), -inf);
    EXPECT_EQ(sum_of<float>(most, most, most, -most, -most), most);
    EXPECT_EQ(sum_of<float16>(65519.0F).bits, 0x7bff);
    EXPECT_EQ(sum_of<float16>(65520.0F).bits, 0x7c00);
    EXPECT_EQ(bits(sum_of<float>(0x1p-150)), bits(0.0F));
    EXPECT_EQ(bits(sum_of<float>(-0x1p-150)), bits(-0.0F));
    EXPECT_EQ(sum_of<float>(0x1p-150, 0x1p-1074), 0x1p-149F);
    EXPECT_EQ(sum_of<float>(0x1.8p-149), 0x1p-148F);
    EXPECT_EQ(sum_of<float>(0x1.fffffep-127), 0x1p-126F);  // a subnormal number that is rounded to a normal one
}

TEST(accumulator, zeros_are_positive_and_nan_has_one_pattern) {
    EXPECT_EQ(bits(accumulator().rounded<float>()), bits(0.0F));
    EXPECT_EQ(bits(sum_of<float>(-0.0F)), bits(0.0F));
    EXPECT_EQ(bits(sum_of<float>(-0.0F, -0.0F)), bits(0.0F));
    EXPECT_EQ(bits(sum_of<float>(2.5F, -2.5F)), bits(0.0F));
    for (const float n : {nan, -nan, std::bit_cast<float>(0x7f800001U)}) EXPECT_EQ(bits(sum_of<float>(n)), 0x7fc00000U);
    EXPECT_EQ(sum_of<float16>(nan).bits, 0x7e00);
    EXPECT_EQ(sum_of<bfloat16>(nan).bits, 0x7fc0);
    EXPECT_EQ(bits(sum_of<double>(nan)), 0x7ff8000000000000U);
    EXPECT_EQ(sum_of<float>(inf, 1.0F), inf);
    EXPECT_EQ(sum_of<float>(-inf, std::numeric_limits<float>::max()), -inf);
    EXPECT_EQ(bits(sum_of<float>(inf, -inf)), 0x7fc00000U);
    accumulator a;
    a.add_product(0.0F, inf);
    EXPECT_EQ(bits(a.rounded<float>()), 0x7fc00000U);
    accumulator b;
    b.add_product(-2.0F, inf);
    EXPECT_EQ(b.rounded<float>(), -inf);
    EXPECT_FALSE(a == b);
    b.clear();
    EXPECT_TRUE(b == accumulator());
}

// Integers are exact numbers, too: 2^63 and its neighbours have no f64.
static_assert(sum_of<float>(10) == 10.0F && sum_of<float>(-3, 10U, std::int8_t{-4}) == 3.0F);
static_assert(sum_of<double>(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()) == -1);
static_assert(sum_of<double>(std::numeric_limits<std::uint64_t>::max(), -0x1p64) == -1);

template <class T>
concept addend = requires(accumulator a, const T& value) {
    a.add(value);
};
static_assert(addend<int> && addend<long long> && addend<unsigned short> && addend<float16> && addend<double>);
static_assert(!addend<bool> && !addend<char> && !addend<const char*>, "no numbers");

TEST(accumulator, takes_products_of_integers) {
    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    accumulator a;
    a.add_product(least, most);
    a.add_product(0x1p63, 0x1p64);
    EXPECT_EQ(a.rounded<double>(), 0x1p63) << "-2^63 (2^64 - 1) + 2^127";
    accumulator b;
    b.add_product(-3, 0.5F);
    b.add_product(bfloat16(2), 5U);
    EXPECT_EQ(b.rounded<float>(), 8.5F);
    accumulator c;
    c.add_product(0, inf);
    EXPECT_TRUE(std::isnan(c.rounded<float>()));
    accumulator d;
    d.add_product(-2, inf);
    EXPECT_EQ(d.rounded<float>(), -inf);
}

// As IEEE 754 divides by +0.
TEST(accumulator, over_zero_is_infinite_or_nan) {
    const auto over_zero = []<class T>(const T& value) {
        accumulator a;
        a.add(value);
        return a.rounded_quotient<float>(0);
    };
    EXPECT_EQ(over_zero(3), inf);
    EXPECT_EQ(over_zero(-0x1p-1074), -inf);
    EXPECT_EQ(over_zero(inf), inf);
    EXPECT_EQ(over_zero(-inf), -inf);
    EXPECT_TRUE(std::isnan(over_zero(nan)));
    EXPECT_EQ(bits(over_zero(0)), 0x7fc00000U);
    EXPECT_EQ(bits(accumulator().rounded_quotient<float>(0)), 0x7fc00000U);
    accumulator cancelled;
    cancelled.add(7.5);
    cancelled.add(-7.5);
    EXPECT_TRUE(std::isnan(cancelled.rounded_quotient<double>(0)));
    accumulator of_f16;
    of_f16.add(-1);
    EXPECT_EQ(of_f16.rounded_quotient<float16>(0).bits, 0xfc00U);
}
static_assert(std::bit_cast<std::uint32_t>(accumulator().rounded_quotient<float>(0)) == 0x7fc00000U);

TEST(accumulator, the_least_product_has_quotients) {
    accumulator a;
    a.add_product(0x1p-1074, 0x1p-1074);
    EXPECT_EQ(bits(a.rounded<double>()), bits(0.0));
    EXPECT_EQ(bits(a.rounded_quotient<double>(-3)), bits(-0.0));
    // 3 * 2^-2148 and as much as makes it a number of f64 again
    a.add_product(0x1p-1074, 0x1p-1073);
    accumulator b;
    for (int i = 0; i < 3; ++i) b.add_product(0x1p-1074, -0x1p-1074);
    b.add_product(1.0, 0x1p-1074);
    a += b;
    EXPECT_EQ(a.rounded<double>(), 0x1p-1074);
}

TEST(accumulator, divides_once) {
    accumulator a;
    a.add(1.0F);
    EXPECT_EQ(a.rounded_quotient<float>(3), 1.0F / 3);
    EXPECT_EQ(a.rounded_quotient<double>(-10), -0.1);
    EXPECT_EQ(bits(accumulator().rounded_quotient<float>(-4)), bits(-0.0F));
    EXPECT_EQ(bits(accumulator().rounded_quotient<float>(4)), bits(0.0F));
    a.add(0x1p-40);  // 2^62 is more than f32 counts, and the least number has a magnitude that no other has
    EXPECT_EQ(a.rounded_quotient<double>((std::int64_t{1} << 62) + 1), 0x1.0000000001p-62);
    EXPECT_EQ(a.rounded_quotient<double>(std::numeric_limits<std::int64_t>::min()), -0x1.0000000001p-63);
    // d * (1 + 2^-24) is a tie in f32; a quarter more is not, although the quotient's first 64 bits are the same.
    constexpr std::int64_t d = (std::int64_t{1} << 62) + (1 << 24);
    accumulator tie;
    for (const double term : {0x1p62, 0x1p24, 0x1p38, 1.0}) tie.add(term);
    EXPECT_EQ(tie.rounded_quotient<float>(d), 1.0F);
    tie.add(0.25F);
    EXPECT_EQ(tie.rounded_quotient<float>(d), 1.0F + 0x1p-23F);
    accumulator b;
    b.add(inf);
    EXPECT_EQ(b.rounded_quotient<float>(-3), -inf);
}

// ---------------------------------------------------------------------------------------------------------------- laws

/// Any pattern of f64 that is finite; half of them near 1.
double any_number(random_source& random) {
    for (;;) {
        const double v = random.chance(1, 2) ? std::bit_cast<double>(random.bits())
                                             : std::ldexp(static_cast<double>(random.integer(-999, 999)),
                                                          static_cast<int>(random.integer(-60, 60)));
        if (std::isfinite(v)) return v;
    }
}

TEST(accumulator, order_and_grouping_of_terms_do_not_matter) {
    random_source random("accumulator.order");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        std::vector<std::array<double, 2>> terms(static_cast<std::size_t>(random.integer(1, 60)));
        for (auto& t : terms) t = {any_number(random), any_number(random)};
        accumulator whole;
        for (const auto& t : terms) whole.add_product(t[0], t[1]);
        std::vector<accumulator> parts(static_cast<std::size_t>(random.integer(1, 8)));
        random.shuffle(terms);
        for (const auto& t : terms)
            parts[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(parts.size()) - 1))].add_product(
                t[1], t[0]);
        while (parts.size() > 1) {  // any two, until one is left
            random.shuffle(parts);
            parts[0] += parts.back();
            parts.pop_back();
        }
        ASSERT_TRUE(parts[0] == whole);
        EXPECT_EQ(bits(parts[0].rounded<double>()), bits(whole.rounded<double>()));
        EXPECT_EQ(bits(parts[0].rounded<float>()), bits(whole.rounded<float>()));
        // and what was added can be taken away
        for (const auto& t : terms) whole.add_product(-t[0], t[1]);
        EXPECT_TRUE(whole.is_zero());
    }
}

TEST(accumulator, a_sum_may_be_added_to_itself) {
    accumulator a;
    a.add(1.0F);
    double expected = 1;
    for (int i = 0; i < 60; ++i) {  // so often that digits overflow if carries are forgotten
        a += a;
        expected *= 2;
        ASSERT_EQ(a.rounded<double>(), expected);
    }
    accumulator b;
    b.add(-0xffffffffp0);
    for (int i = 0; i < 61; ++i) b += accumulator(b);
    EXPECT_EQ(b.rounded<double>(), -0xffffffffp61);
}

TEST(accumulator, its_bytes_are_its_value) {
    accumulator a;
    a.add_product(3.0, 1e-300);
    accumulator b;
    std::memcpy(static_cast<void*>(&b), &a, sizeof a);
    EXPECT_TRUE(a == b);
}

// -------------------------------------------------------------------------------------------------- known conversions

TEST(accumulator, every_16_bit_number_stays_what_it_is) {
    for (std::uint32_t i = 0; i <= 0xffff; ++i) {
        const auto pattern = static_cast<std::uint16_t>(i);
        const float16 h = float16::from_bits(pattern);
        const bfloat16 b = bfloat16::from_bits(pattern);
        if (static_cast<float>(h) == static_cast<float>(h) && pattern != 0x8000) {
            ASSERT_EQ(sum_of<float16>(h).bits, pattern);
            ASSERT_EQ(sum_of<float>(h), static_cast<float>(h));
            ASSERT_EQ(sum_of<double>(h), static_cast<double>(static_cast<float>(h)));
        }
        if (static_cast<float>(b) == static_cast<float>(b) && pattern != 0x8000) {
            ASSERT_EQ(sum_of<bfloat16>(b).bits, pattern);
            ASSERT_EQ(bits(sum_of<float>(b)), bits(static_cast<float>(b)));
        }
    }
}

TEST(accumulator, rounds_f32_and_f64_as_conversions_do) {
    random_source random("accumulator.conversions");
    for (std::uint32_t upper = 0; upper <= 0xffff; ++upper) {  // every sign and exponent of f32
        for (const std::uint32_t lower :
             {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xf000U, 0xffffU}) {
            const float v = std::bit_cast<float>(upper << 16 | lower);
            if (v != v || v == 0) continue;
            ASSERT_EQ(sum_of<float16>(v).bits, float16(v).bits) << std::hexfloat << v;
            ASSERT_EQ(sum_of<bfloat16>(v).bits, bfloat16(v).bits) << std::hexfloat << v;
            ASSERT_EQ(bits(sum_of<float>(v)), bits(v)) << std::hexfloat << v;
        }
    }
    for (int i = 0; i < 200000; ++i) {
        std::uint64_t pattern = random.bits();
        if (i % 2 == 0)
            pattern = (pattern & 0x800fffffffffffffU) |
                      static_cast<std::uint64_t>(random.integer(1023 - 160, 1023 + 130)) << 52;
        if (i % 3 == 0) pattern &= ~std::uint64_t{0xfffffff};  // a tie of f32, or nearly
        if (i % 3 == 0) pattern |= std::uint64_t{1} << 28;
        const double v = std::bit_cast<double>(pattern);
        if (v != v || v == 0) continue;
        ASSERT_EQ(bits(sum_of<float>(v)), bits(static_cast<float>(v))) << std::hexfloat << v;
        ASSERT_EQ(bits(sum_of<double>(v)), bits(v)) << std::hexfloat << v;
    }
}

TEST(accumulator, sums_products_and_quotients_of_two_numbers_are_those_of_ieee) {
    random_source random("accumulator.ieee");
    for (int i = 0; i < 200000; ++i) {
        const auto a = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
        auto b = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
        if (i % 2 == 0 && std::isfinite(a))
            b = std::ldexp(b, std::ilogb(a == 0 ? 1 : a) - std::ilogb(b == 0 || !std::isfinite(b) ? 1 : b));
        const float sum = a + b;
        if (sum == sum && sum != 0) {
            ASSERT_EQ(bits(sum_of<float>(a, b)), bits(sum)) << std::hexfloat << a << " " << b;
        }
        accumulator product;
        product.add_product(a, b);
        const float expected = a * b;
        if (expected != 0 || a == 0 || b == 0) {
            const float got = product.rounded<float>();
            ASSERT_TRUE(expected != expected ? got != got : got == expected) << std::hexfloat << a << " " << b;
        }
        const std::int64_t divisor = random.integer(1, 0xffffff);
        accumulator dividend;
        dividend.add(a);
        if (a == a && a != 0) {
            ASSERT_EQ(bits(dividend.rounded_quotient<float>(divisor)), bits(a / static_cast<float>(divisor)))
                << std::hexfloat << a << " " << divisor;
        }
        const double c = any_number(random);
        const double d = any_number(random);
        accumulator wide;
        wide.add_product(c, d);
        if (c * d != 0) {
            ASSERT_EQ(bits(wide.rounded<double>()), bits(c * d)) << std::hexfloat << c << " " << d;
        }
        wide.add(a == a && std::isfinite(a) ? static_cast<double>(a) : 1.0);
        const double fused = std::fma(c, d, a == a && std::isfinite(a) ? static_cast<double>(a) : 1.0);
        if (fused != 0) {
            ASSERT_EQ(bits(wide.rounded<double>()), bits(fused)) << std::hexfloat << c << " " << d << " " << a;
        }
    }
}

}  // namespace
}  // namespace gradkern_test
