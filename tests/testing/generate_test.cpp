// Inputs of fill(): the same numbers everywhere, exact in their types, and adversarial as their names say.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include <gradkern/testing.hpp>

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::test::fill;
using gk::test::pattern;

template <class T>
std::vector<T> filled(std::int64_t n, pattern p, std::uint64_t seed, int operand) {
    std::vector<T> v(static_cast<std::size_t>(n));
    EXPECT_TRUE(fill(gk::tensor_view(v.data(), {n}), p, seed, operand).ok());
    return v;
}
template <class T>
std::vector<double> numbers(std::int64_t n, pattern p, std::uint64_t seed = 1, int operand = 0) {
    std::vector<double> d;
    for (const T& v : filled<T>(n, p, seed, operand)) d.push_back(static_cast<double>(gk::detail::load_element(&v)));
    return d;
}

// From a program of 15 lines in Python, which computes splitmix64 with whole numbers.
TEST(numbers_of_a_seed, are_the_same_on_every_machine) {
    EXPECT_EQ(numbers<float>(4, pattern::uniform),
              (std::vector<double>{-0x1.b636p-3, -0x1.4b3b78p-1, -0x1.6493f4p+0, 0x1.efc318p-1}));
    EXPECT_EQ(numbers<gk::bfloat16>(4, pattern::uniform, 7, 1),
              (std::vector<double>{-0.875, 1.546875, 0.546875, 0.109375}));
    EXPECT_EQ(numbers<gk::float16>(12, pattern::integers, 3),
              (std::vector<double>{-1, -3, 1, -2, -3, 2, -3, 0, -1, 0, 3, 1}));
}

// A hash of the bits of a tensor for each pattern and type: a change of any number changes it.
TEST(numbers_of_a_seed, keep_their_hash) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    const auto take = [&]<class T>(T, pattern p) {
        for (int operand = 0; operand < 3; ++operand) {
            std::vector<T> v(3 * 5 * 7);
            ASSERT_TRUE(fill(gk::tensor_view(v.data(), {3, 5, 7}), p, 42, operand).ok());
            for (const T& e : v) {
                unsigned char bytes[sizeof(T)];
                std::memcpy(bytes, &e, sizeof(T));
                for (const unsigned char b : bytes) hash = (hash ^ b) * 0x100000001b3U;
            }
        }
    };
    for (const pattern p : gk::test::all_patterns) {
        take(float{}, p);
        take(gk::float16{}, p);
        take(gk::bfloat16{}, p);
        take(double{}, p);
    }
    EXPECT_EQ(hash, 0x968ed2889cd1fcf4U) << std::hex << hash;
}

template <class T>
class patterns : public ::testing::Test {
protected:
    static constexpr gk::detail::number_format format = gk::detail::format_of(gk::element_traits<T>::type);
    static constexpr double ulp = gk::detail::power_of_two(-format.fraction_bits);
};
using all_types = ::testing::Types<float, gk::float16, gk::bfloat16, double>;
TYPED_TEST_SUITE(patterns, all_types);

TYPED_TEST(patterns, have_the_ranges_that_they_name) {
    using T = TypeParam;
    constexpr std::int64_t n = 5000;
    double sum = 0;
    for (const double v : numbers<T>(n, pattern::uniform)) {
        ASSERT_LT(std::fabs(v), 2);
        sum += v;
    }
    EXPECT_LT(std::fabs(sum), 5 * std::sqrt(n * 4.0 / 3)) << "no sign is preferred";
    for (const double v : numbers<T>(n, pattern::positive)) ASSERT_TRUE(v >= 0.5 && v < 1);
    std::set<double> integers;
    for (const double v : numbers<T>(n, pattern::integers)) integers.insert(v);
    EXPECT_EQ(integers, (std::set<double>{-4, -3, -2, -1, 0, 1, 2, 3, 4}));
    std::set<double> near;
    for (const double v : numbers<T>(n, pattern::near_ties)) near.insert(v);
    std::set<double> wanted;
    for (const double sign : {-1.0, 1.0})
        for (const int k : {0, 1, 2, 3}) wanted.insert(sign * (1 + k * this->ulp));
    EXPECT_EQ(near, wanted);
    for (const double v : numbers<T>(n, pattern::near_ties, 1, 1)) ASSERT_GE(v, 1);
    const double least = gk::detail::power_of_two(this->format.least_exponent);
    int subnormal = 0;
    for (const double v : numbers<T>(n, pattern::subnormal)) {
        ASSERT_LT(std::fabs(v), 2 * least);
        subnormal += std::fabs(v) < least ? 1 : 0;
    }
    EXPECT_GT(subnormal, n / 3);
    EXPECT_LT(subnormal, 2 * n / 3);
    for (const double v : numbers<T>(n, pattern::subnormal, 1, 1)) ASSERT_TRUE(v >= 1 && v < 2);
    for (const double v : numbers<T>(n, pattern::large))
        ASSERT_TRUE(std::fabs(v) >= gk::detail::power_of_two(this->format.largest_exponent) && std::isfinite(v));
    for (const double v : numbers<T>(n, pattern::cancelling, 1, 1)) ASSERT_TRUE(v >= 1 && v < 1.125);
}

TYPED_TEST(patterns, have_some_numbers_that_are_not_finite) {
    using T = TypeParam;
    for (const std::int64_t n : {1, 7, 100, 10'000}) {
        int not_finite = 0;
        int zeros = 0;
        for (std::uint64_t seed = 0; seed < 20; ++seed)
            for (const double v : numbers<T>(n, pattern::non_finite, seed)) {
                not_finite += std::isfinite(v) ? 0 : 1;
                zeros += v == 0 ? 1 : 0;
            }
        EXPECT_GE(not_finite, 20) << n;
        EXPECT_LE(not_finite, 20 * 8) << n;
        if (n < 100) continue;
        EXPECT_NEAR(zeros, 20.0 * static_cast<double>(n) / 8, 20.0 * static_cast<double>(n) / 40);
    }
}

TYPED_TEST(patterns, of_one_hot_are_a_single_one_and_telling_weights) {
    using T = TypeParam;
    for (const std::uint64_t seed : {0U, 3U, 11U, 12U, 25U}) {
        const auto v = numbers<T>(12, pattern::one_hot, seed);
        for (std::size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], i == seed % 12 ? 1 : 0);
    }
    const auto w = numbers<T>(127, pattern::one_hot, 5, 1);
    for (std::size_t i = 0; i < w.size(); ++i) ASSERT_EQ(w[i], static_cast<double>(i + 1));
}

TYPED_TEST(patterns, that_cancel_leave_a_small_part_of_their_terms) {
    using T = TypeParam;
    std::vector<T> x(10 * 10 * 8);
    ASSERT_TRUE(fill(gk::tensor_view(x.data(), {1, 10, 10, 8}), pattern::cancelling, 1, 0).ok());
    double sum = 0;
    double terms = 0;
    for (const T& v : x) {
        sum += static_cast<double>(gk::detail::load_element(&v));
        terms += std::fabs(static_cast<double>(gk::detail::load_element(&v)));
    }
    EXPECT_LT(std::fabs(sum), terms / 64);
    const double first = static_cast<double>(gk::detail::load_element(&x[0]));
    EXPECT_GT(first, 0);
    EXPECT_LT(static_cast<double>(gk::detail::load_element(&x[1])), 0) << "the next channel";
    EXPECT_LT(static_cast<double>(gk::detail::load_element(&x[8])), 0) << "the next column";
    EXPECT_GT(static_cast<double>(gk::detail::load_element(&x[9])), 0);
}

// What is written is the number, not one that was rounded on the way.
TYPED_TEST(patterns, are_exact_in_their_type) {
    using T = TypeParam;
    for (const pattern p : gk::test::all_patterns)
        for (int operand = 0; operand < 3; ++operand) {
            const gk::detail::pattern_numbers number(gk::element_traits<T>::type, p, 9, operand, 300);
            const auto stored = numbers<T>(300, p, 9, operand);
            for (std::int64_t k = 0; k < 300; ++k) {
                const double v = number(k, gk::extents::filled(1, k));
                const double s = stored[static_cast<std::size_t>(k)];
                ASSERT_TRUE(v == s || (std::isnan(v) && std::isnan(s))) << gk::test::name_of(p) << ' ' << v << ' ' << s;
            }
        }
}

TEST(strides, do_not_change_the_numbers) {
    std::vector<float> dense(2 * 3 * 4);
    std::vector<float> strided(200, -99);
    ASSERT_TRUE(fill(gk::tensor_view(dense.data(), {2, 3, 4}), pattern::cancelling, 5, 0).ok());
    const gk::tensor_layout layout({2, 3, 4}, {1, -40, 2});
    ASSERT_TRUE(fill(gk::tensor_view<float>(strided.data() + 100, layout), pattern::cancelling, 5, 0).ok());
    std::size_t written = 0;
    for (const float v : strided) written += v != -99 ? 1 : 0;
    EXPECT_EQ(written, dense.size());
    for (std::size_t a = 0; a < 2; ++a)
        for (std::size_t b = 0; b < 3; ++b)
            for (std::size_t c = 0; c < 4; ++c)
                EXPECT_EQ(strided[100 + a - 40 * b + 2 * c], dense[(a * 3 + b) * 4 + c]);
}

TEST(names, are_those_of_the_patterns) {
    for (std::size_t i = 0; i < gk::test::all_patterns.size(); ++i)
        EXPECT_EQ(static_cast<std::size_t>(gk::test::all_patterns[i]), i);
    EXPECT_EQ(gk::test::name_of(pattern::uniform), "uniform");
    EXPECT_EQ(gk::test::name_of(pattern::one_hot), "one_hot");
    EXPECT_EQ(gk::test::name_of(static_cast<pattern>(9)), "unknown");
}

TEST(seeds_and_operands, give_other_numbers) {
    const auto one = numbers<float>(100, pattern::uniform, 1, 0);
    EXPECT_NE(one, numbers<float>(100, pattern::uniform, 2, 0));
    EXPECT_NE(one, numbers<float>(100, pattern::uniform, 1, 1));
    EXPECT_EQ(one, numbers<float>(100, pattern::uniform, 1, 0));
}

TEST(mistakes, are_errors_and_nothing_is_written) {
    std::vector<float> v(4, -99);
    EXPECT_EQ(fill(gk::tensor_view(v.data(), {4}), static_cast<pattern>(50), 1).code(), gk::errc::unsupported);
    EXPECT_EQ(fill(gk::tensor_view<float>(v.data(), {{2, 2}, {1}}), pattern::uniform, 1).code(),
              gk::errc::invalid_argument);
    EXPECT_EQ(fill(gk::tensor_view<float>(v.data(), {{2, 2}, {1, 1}}), pattern::uniform, 1).code(),
              gk::errc::invalid_argument)
        << "two elements at one address";
    EXPECT_EQ(fill(gk::tensor_view(v.data(), {-1, 4}), pattern::uniform, 1).code(), gk::errc::invalid_shape);
    EXPECT_EQ(
        fill(gk::tensor_view(v.data(), {std::int64_t{1} << 40, std::int64_t{1} << 40}), pattern::uniform, 1).code(),
        gk::errc::overflow);
    EXPECT_EQ(fill(gk::tensor_view<float>(nullptr, {4}), pattern::uniform, 1).code(), gk::errc::null_pointer);
    EXPECT_EQ(v, std::vector<float>(4, -99));
    EXPECT_TRUE(fill(gk::tensor_view<float>(nullptr, {0, 4}), pattern::one_hot, 1).ok());
}

}  // namespace
}  // namespace gradkern_test
