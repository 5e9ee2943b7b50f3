// Builtins of compilers and their alternatives: this file is compiled with both.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <gradkern/detail/own.hpp>

#include "support/random.hpp"

namespace {

namespace own = gradkern::own;
__extension__ using wide = __int128;

/// Numbers around every power of two, of both signs.
std::vector<std::int64_t> edges() {
    std::vector<std::int64_t> all{0, 1, 2, 3, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1};
    for (int bit = 2; bit < 63; ++bit)
        for (const std::int64_t near : {-1, 0, 1}) {
            all.push_back((std::int64_t{1} << bit) + near);
            all.push_back(-all.back());
        }
    for (const std::int64_t root : {3037000499, 3037000500, 3037000501}) {  // around the root of 2^63
        all.push_back(root);
        all.push_back(-root);
    }
    return all;
}

TEST(own, overflows_are_those_of_a_wider_number) {
    const auto expect = [](wide exact, bool lost, std::int64_t got) {
        ASSERT_EQ(lost, exact < INT64_MIN || exact > INT64_MAX);
        if (!lost) {
            ASSERT_EQ(got, static_cast<std::int64_t>(exact));
        }
    };
    for (const std::int64_t a : edges())
        for (const std::int64_t b : edges()) {
            std::int64_t got = 0;
            bool lost = own::add_overflows(a, b, got);
            expect(static_cast<wide>(a) + b, lost, got);
            lost = own::subtract_overflows(a, b, got);
            expect(static_cast<wide>(a) - b, lost, got);
            lost = own::multiply_overflows(a, b, got);
            expect(static_cast<wide>(a) * b, lost, got);
        }
}

TEST(own, products_modulo_a_number_are_those_of_a_wider_number) {
    gradkern_test::random_source random("own.multiply_modulo");
    for (int i = 0; i < 100'000; ++i) {
        const std::int64_t m = random.integer(1, INT64_MAX >> random.integer(0, 62));
        const std::int64_t a = random.integer(0, m - 1);
        const std::int64_t b = random.chance(1, 10) ? m - 1 : random.integer(0, m - 1);
        ASSERT_EQ(own::multiply_modulo(a, b, m), static_cast<std::int64_t>(static_cast<wide>(a) * b % m))
            << a << " * " << b << " modulo " << m;
    }
}

TEST(own, bits_are_counted) {
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t one = std::uint64_t{1} << bit;
        EXPECT_EQ(own::trailing_zeros(one), bit);
        EXPECT_EQ(own::bit_width(one), static_cast<unsigned>(bit) + 1);
        EXPECT_EQ(own::rotate_right(one, bit), 1U);
    }
    EXPECT_EQ(own::bit_width(0U), 0U);
    own::prefetch(nullptr);
    own::prefetch_to_l2(nullptr);
    own::prefetch_to_write(nullptr);
    own::pause();
}

}  // namespace
