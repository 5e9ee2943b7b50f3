// The vector layer for doubles: arithmetic, masks, partial accesses at guard pages, bits as integers, transposes.

#include <gradkern/detail/simd.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/pages.hpp"

namespace {

namespace simd = gradkern::detail::simd;
using vec = simd::vec_of<double>;
constexpr std::ptrdiff_t lanes = simd::lanes_of<double>;
constexpr auto count = static_cast<std::size_t>(lanes);
using doubles = std::array<double, count>;

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }
double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }

doubles to_array(vec value) {
    doubles r;
    simd::store(r.data(), value);
    return r;
}

vec from_array(const doubles& values) { return simd::load(values.data()); }

// Unlike equality of doubles, this tells zeros apart and knows a NaN again.
bool same_bits(double a, double b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

const std::array<double, 9> specials{std::numeric_limits<double>::quiet_NaN(),
                                     -std::numeric_limits<double>::quiet_NaN(),
                                     0.0,
                                     -0.0,
                                     std::numeric_limits<double>::denorm_min(),
                                     1.0,
                                     -std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::infinity(),
                                     1.0 + 0x1p-52};

std::array<bool, count> truths(simd::mask_of<double> m) {
    std::array<bool, count> r;
    const doubles f = to_array(simd::select(m, simd::broadcast(1.0), simd::zero<double>()));
    std::transform(f.begin(), f.end(), r.begin(), [](double x) { return x == 1.0; });
    return r;
}

TEST(simd_f64, as_many_bytes_as_vectors_of_floats) { EXPECT_EQ(lanes, std::max<std::ptrdiff_t>(simd::lanes / 2, 1)); }

TEST(simd_f64, arithmetic_is_ieee_in_every_lane) {
    std::mt19937_64 random(20250101);
    for (int round = 0; round < 20000; ++round) {
        doubles a;
        doubles b;
        doubles c;
        doubles whole;
        doubles reciprocal;
        for (std::size_t i = 0; i < count; ++i) {
            // any patterns, or numbers near one, where rounding shows
            const auto draw = [&] {
                const std::uint64_t bits = random();
                return double_of(round % 2 == 0 ? bits : (bits & 0x800fffffffffffffU) | 0x3ff0000000000000U);
            };
            a[i] = draw();
            b[i] = draw();
            c[i] = round % 4 == 1 ? -(a[i] * b[i]) : draw();
            whole[i] = static_cast<double>(1 + random() % ((1U << 20) - 1));
            reciprocal[i] = 1.0 / whole[i];
        }
        const vec va = from_array(a);
        const vec vb = from_array(b);
        const vec vc = from_array(c);
        const doubles sum = to_array(simd::add(va, vb));
        const doubles product = to_array(simd::mul(va, vb));
        const doubles quotient = to_array(simd::div(va, vb));
        const doubles root = to_array(simd::sqrt(va));
        const doubles shares = to_array(simd::div_whole(va, from_array(whole), from_array(reciprocal)));
        const doubles fused = to_array(simd::fma(va, vb, vc));
        const doubles separate = to_array(simd::add(simd::mul(va, vb), vc));
        const doubles spread = to_array(simd::fma_broadcast(a.data(), vb, vc));
        for (std::size_t i = 0; i < count; ++i) {
            volatile double rounded_product = a[i] * b[i];  // neither contracted nor folded
            const double two_roundings = rounded_product + c[i];
            volatile double first_product = a[0] * b[i];
            const double first_rounded = first_product + c[i];
            ASSERT_TRUE(same_bits(sum[i], a[i] + b[i])) << a[i] << ' ' << b[i];
            ASSERT_TRUE(same_bits(product[i], rounded_product)) << a[i] << ' ' << b[i];
            ASSERT_TRUE(same_bits(quotient[i], a[i] / b[i])) << a[i] << ' ' << b[i];
            ASSERT_TRUE(same_bits(root[i], std::sqrt(a[i]))) << a[i];
            ASSERT_TRUE(same_bits(shares[i], a[i] / whole[i])) << a[i] << ' ' << whole[i];
            ASSERT_TRUE(same_bits(separate[i], two_roundings)) << a[i] << ' ' << b[i] << ' ' << c[i];
            ASSERT_TRUE(same_bits(fused[i], simd::is_fused ? std::fma(a[i], b[i], c[i]) : two_roundings))
                << a[i] << ' ' << b[i] << ' ' << c[i];
            ASSERT_TRUE(same_bits(spread[i], simd::is_fused ? std::fma(a[0], b[i], c[i]) : first_rounded))
                << a[0] << ' ' << b[i] << ' ' << c[i];
            ASSERT_TRUE(same_bits(simd::fma(a[i], b[i], c[i]), fused[i])) << a[i] << ' ' << b[i] << ' ' << c[i];
        }
    }
}

// A product that nothing but the sum uses is what compilers contract.
GRADKERN_NOINLINE void product_and_sum(const double* a, const double* b, const double* c, double* target) {
    simd::store(target, simd::add(simd::mul(simd::load(a), simd::load(b)), simd::load(c)));
}

TEST(simd_f64, a_product_is_rounded_before_it_is_added) {
    volatile double hidden_factor = 1.0 + 0x1p-27;  // its square has a term of 2^-54
    volatile double hidden_square = 1.0 + 0x1p-26;
    doubles a;
    doubles negative;
    doubles r;
    const double factor = hidden_factor;
    const double square = hidden_square;
    a.fill(factor);
    negative.fill(-square);
    product_and_sum(a.data(), a.data(), negative.data(), r.data());
    for (const double x : r) EXPECT_EQ(x, 0.0);
    for (const double x : to_array(simd::fma(from_array(a), from_array(a), from_array(negative))))
        EXPECT_EQ(x, simd::is_fused ? 0x1p-54 : 0.0);
}

TEST(simd_f64, comparisons_masks_and_bits_in_every_lane) {
    for (const double a : specials) {
        for (const double b : specials) {
            for (std::size_t lane = 0; lane < count; ++lane) {
                doubles first;
                doubles second;
                first.fill(b);
                second.fill(a);
                first[lane] = a;
                second[lane] = b;
                const vec va = from_array(first);
                const vec vb = from_array(second);
                const auto above = simd::greater(va, vb);
                const auto nan = simd::is_nan(va);
                const auto is_above = truths(above);
                const auto is_nan = truths(nan);
                const auto either = truths(simd::either(above, nan));
                const auto but_not = truths(simd::but_not(above, nan));
                const auto equal = truths(simd::equal_bits(va, vb));
                const doubles chosen = to_array(simd::select(above, va, vb));
                for (std::size_t i = 0; i < count; ++i) {
                    const double x = first[i];
                    const double y = second[i];
                    ASSERT_EQ(is_above[i], x > y) << x << ' ' << y << " in lane " << i;
                    ASSERT_EQ(is_nan[i], std::isnan(x)) << x << " in lane " << i;
                    ASSERT_EQ(either[i], x > y || std::isnan(x)) << x << ' ' << y << " in lane " << i;
                    ASSERT_EQ(but_not[i], x > y && !std::isnan(x)) << x << ' ' << y << " in lane " << i;
                    ASSERT_EQ(equal[i], bits_of(x) == bits_of(y)) << x << ' ' << y << " in lane " << i;
                    ASSERT_EQ(bits_of(chosen[i]), bits_of(x > y ? x : y)) << x << ' ' << y << " in lane " << i;
                }
            }
        }
    }
}

TEST(simd_f64, bits_are_integers) {
    doubles a{};
    doubles b{};
    for (std::size_t i = 0; i < count; ++i) {
        a[i] = double_of(0x00000000ffffffffU - i);  // a carry passes the middle of a lane
        b[i] = double_of(3 * i + 1);
    }
    const doubles r = to_array(simd::add_bits(from_array(a), from_array(b)));
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(bits_of(r[i]), 0x100000000U + 2 * i) << "lane " << i;
    for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1} << 40}) {
        std::array<std::int64_t, count + 2> out{};
        simd::store_bits_plus(out.data() + 1, from_array(a), number);
        EXPECT_EQ(out.front(), 0);
        EXPECT_EQ(out.back(), 0);
        for (std::size_t i = 0; i < count; ++i)
            EXPECT_EQ(out[i + 1], number + static_cast<std::int64_t>(bits_of(a[i]))) << "lane " << i;
    }
}

TEST(simd_f64, partial_accesses_stay_inside) {
    const std::size_t page = gradkern_test::page_size();
    std::byte* const memory = gradkern_test::map_between_guards(page);
    ASSERT_NE(memory, nullptr);
    for (const bool at_end : {false, true}) {
        for (std::ptrdiff_t n = 0; n <= lanes + 1; ++n) {
            const std::ptrdiff_t used = std::min(n, lanes);
            const std::size_t bytes = static_cast<std::size_t>(used) * sizeof(double);
            auto* const inside = reinterpret_cast<double*>(at_end ? memory + page - bytes : memory);
            for (std::ptrdiff_t i = 0; i < used; ++i) inside[i] = static_cast<double>(i + 1);
            const vec value = simd::load_partial(inside, n);
            const doubles lane = to_array(value);
            for (std::ptrdiff_t i = 0; i < lanes; ++i)
                EXPECT_EQ(bits_of(lane[static_cast<std::size_t>(i)]),
                          bits_of(i < n ? static_cast<double>(i + 1) : 0.0));
            simd::store_partial(inside, simd::add(value, value), n);
            for (std::ptrdiff_t i = 0; i < used; ++i) EXPECT_EQ(inside[i], static_cast<double>(2 * (i + 1)));
            EXPECT_EQ(bits_of(to_array(simd::load_wide_partial(inside, n))[0]), bits_of(n > 0 ? 2.0 : 0.0));

            std::array<double, count + 2> untouched;
            untouched.fill(-7.0);
            simd::store_partial(untouched.data(), value, n);
            for (std::ptrdiff_t i = used; i < lanes + 2; ++i) EXPECT_EQ(untouched[static_cast<std::size_t>(i)], -7.0);
        }
    }
    gradkern_test::unmap_between_guards(memory, page);
    EXPECT_EQ(to_array(simd::load_partial(static_cast<const double*>(nullptr), 0))[0], 0.0);
    simd::store_partial(static_cast<double*>(nullptr), simd::zero<double>(), 0);
}

TEST(simd_f64, transposes_one_block) {
    constexpr std::ptrdiff_t source_stride = lanes + 3;
    constexpr std::ptrdiff_t target_stride = lanes + 5;
    std::vector<double> source(static_cast<std::size_t>(lanes * source_stride));
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<double>(i) + 0x1p-40;
    for (const bool backward : {false, true}) {
        std::vector<double> target(static_cast<std::size_t>(lanes * target_stride), -1.0);
        const std::ptrdiff_t last = backward ? lanes - 1 : 0;
        const std::ptrdiff_t sign = backward ? -1 : 1;
        const double* const from = source.data() + last * source_stride;
        double* const to = target.data() + last * target_stride;
        simd::transpose(from, sign * source_stride, to, sign * target_stride);
        for (std::ptrdiff_t j = 0; j < lanes; ++j) {
            for (std::ptrdiff_t i = 0; i < lanes; ++i)
                ASSERT_EQ(to[sign * j * target_stride + i], from[sign * i * source_stride + j]) << i << ' ' << j;
        }
        for (std::ptrdiff_t j = 0; j < lanes; ++j) {
            for (std::ptrdiff_t i = lanes; i < target_stride; ++i)
                ASSERT_EQ(target[static_cast<std::size_t>(j * target_stride + i)], -1.0);
        }
    }
}

}  // namespace
