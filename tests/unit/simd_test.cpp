// The vector layer: arithmetic, partial accesses at guard pages, conversions against the scalar ones, transposes.

#include <gradkern/detail/simd.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "support/pages.hpp"

namespace framework {

struct alignas(2) half_lookalike {
    unsigned short x;
};

struct wrapped_float {
    float value;
};

}  // namespace framework

template <>
struct gradkern::element_traits<framework::half_lookalike> : gradkern::f16_storage {};
template <>
struct gradkern::element_traits<framework::wrapped_float> : gradkern::f32_storage {};

namespace {

namespace simd = gradkern::detail::simd;
using gradkern::bfloat16;
using gradkern::float16;
using simd::lanes;
using simd::vec;

constexpr auto count = static_cast<std::size_t>(lanes);
using floats = std::array<float, count>;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

floats to_array(vec value) {
    floats r;
    simd::store(r.data(), value);
    return r;
}

vec from_array(const floats& values) { return simd::load(values.data()); }

// Unlike equality of floats, this tells zeros apart and knows a NaN again.
bool same_bits(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

// One readable page between two that fault.
class guarded_page {
public:
    guarded_page() : size_(gradkern_test::page_size()), first_(gradkern_test::map_between_guards(size_)) {}
    ~guarded_page() { gradkern_test::unmap_between_guards(first_, size_); }
    guarded_page(const guarded_page&) = delete;
    guarded_page& operator=(const guarded_page&) = delete;

    explicit operator bool() const { return first_ != nullptr; }

    // n objects that end where the page ends, or begin where it begins.
    template <class T>
    T* place(std::ptrdiff_t n, bool at_end) const {
        return reinterpret_cast<T*>(at_end ? first_ + size_ - static_cast<std::size_t>(n) * sizeof(T) : first_);
    }

private:
    std::size_t size_;
    std::byte* first_;
};

TEST(simd, lanes_and_memory) {
    floats values;
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) + 0.5f;
    EXPECT_EQ(to_array(from_array(values)), values);
    EXPECT_EQ(to_array(simd::broadcast(2.5f))[count - 1], 2.5f);
    for (const float z : to_array(simd::zero())) EXPECT_EQ(bits_of(z), 0u);

    // An address that is aligned for a float and for nothing longer.
    alignas(64) float memory[2 * lanes + 1];
    for (std::ptrdiff_t i = 0; i < 2 * lanes + 1; ++i) memory[i] = static_cast<float>(i);
    simd::store(memory, simd::load(memory + 1));
    for (std::ptrdiff_t i = 0; i < lanes; ++i) EXPECT_EQ(memory[i], static_cast<float>(i + 1));
#if defined(GRADKERN_SIMD_EMULATE_LANES)
    EXPECT_EQ(lanes, GRADKERN_SIMD_EMULATE_LANES);
    EXPECT_TRUE(simd::is_fused);
#elif defined(__FMA__) || defined(__aarch64__)
    EXPECT_TRUE(simd::is_fused);
#endif
}

TEST(simd, arithmetic_is_ieee_in_every_lane) {
    std::mt19937 random(20250101);
    for (int round = 0; round < 20000; ++round) {
        floats a;
        floats b;
        floats c;
        floats whole;
        floats dividend;
        floats reciprocal;
        for (std::size_t i = 0; i < count; ++i) {
            // Any patterns, non-finite and subnormal ones included; every other round near one, where rounding shows.
            const auto draw = [&] {
                const auto bits = static_cast<std::uint32_t>(random());
                return round % 2 == 0 ? float_of(bits) : float_of((bits & 0x807fffffu) | 0x3f800000u);
            };
            a[i] = draw();
            b[i] = draw();
            c[i] = round % 4 == 1 ? -(a[i] * b[i]) : draw();
            whole[i] = static_cast<float>(1 + random() % (round % 3 == 0 ? 64 : (1U << 20) - 1));
            // every other round next to where quotients are halfway between neighbours, subnormal ones included
            const double halfway = (static_cast<double>(a[i]) + static_cast<double>(float_of(bits_of(a[i]) + 1))) / 2;
            const auto near_halfway = static_cast<float>(halfway * static_cast<double>(whole[i]));
            dividend[i] =
                round % 4 < 2 ? a[i] : float_of(bits_of(near_halfway) + static_cast<std::uint32_t>(i % 3) - 1);
            reciprocal[i] = 1.0F / whole[i];
        }
        const vec va = from_array(a);
        const vec vb = from_array(b);
        const vec vc = from_array(c);
        const floats sum = to_array(simd::add(va, vb));
        const floats product = to_array(simd::mul(va, vb));
        const floats quotient = to_array(simd::div(va, vb));
        const floats root = to_array(simd::sqrt(va));
        const floats whole_quotient =
            to_array(simd::div_whole(from_array(dividend), from_array(whole), from_array(reciprocal)));
        const floats fused = to_array(simd::fma(va, vb, vc));
        const floats separate = to_array(simd::add(simd::mul(va, vb), vc));
        for (std::size_t i = 0; i < count; ++i) {
            // volatile: the expectations shall not be contracted or folded.
            volatile float rounded_product = a[i] * b[i];
            const float two_roundings = rounded_product + c[i];
            ASSERT_TRUE(same_bits(sum[i], a[i] + b[i])) << a[i] << ' ' << b[i];
            ASSERT_TRUE(same_bits(product[i], rounded_product)) << a[i] << ' ' << b[i];
            ASSERT_TRUE(same_bits(quotient[i], a[i] / b[i])) << a[i] << ' ' << b[i];
            ASSERT_TRUE(same_bits(root[i], std::sqrt(a[i]))) << a[i];
            ASSERT_TRUE(same_bits(whole_quotient[i], dividend[i] / whole[i])) << dividend[i] << ' ' << whole[i];
            ASSERT_TRUE(same_bits(separate[i], two_roundings)) << a[i] << ' ' << b[i] << ' ' << c[i];
            ASSERT_TRUE(same_bits(fused[i], simd::is_fused ? std::fma(a[i], b[i], c[i]) : two_roundings))
                << a[i] << ' ' << b[i] << ' ' << c[i];
            ASSERT_TRUE(same_bits(simd::fma(a[i], b[i], c[i]), fused[i])) << a[i] << ' ' << b[i] << ' ' << c[i];
            ASSERT_TRUE(same_bits(simd::mul(a[i], b[i]) + c[i], two_roundings)) << a[i] << ' ' << b[i] << ' ' << c[i];
        }
    }
}

// A product that nothing but the sum uses is what compilers contract.
GRADKERN_NOINLINE void product_and_sum(const float* a, const float* b, const float* c, float* target) {
    simd::store(target, simd::add(simd::mul(simd::load(a), simd::load(b)), simd::load(c)));
}

GRADKERN_NOINLINE float product_and_sum(const float* a, const float* b, const float* c) {
    return simd::mul(*a, *b) + *c;
}

TEST(simd, a_product_is_rounded_before_it_is_added) {
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, which rounds to 1 + 2^-11.
    volatile float hidden_factor = 0x1.001p0f;
    volatile float hidden_square = 0x1.002p0f;
    const float factor = hidden_factor;
    const float square = hidden_square;
    floats a;
    floats positive;
    floats negative;
    floats minus;
    a.fill(factor);
    minus.fill(-factor);
    positive.fill(square);
    negative.fill(-square);
    floats r;
    product_and_sum(a.data(), a.data(), negative.data(), r.data());
    for (const float x : r) EXPECT_EQ(x, 0.0f);
    product_and_sum(a.data(), minus.data(), positive.data(), r.data());
    for (const float x : r) EXPECT_EQ(x, 0.0f);
    EXPECT_EQ(product_and_sum(a.data(), a.data(), negative.data()), 0.0f);
    const floats fused = to_array(simd::fma(from_array(a), from_array(a), from_array(negative)));
    for (const float x : fused) EXPECT_EQ(x, simd::is_fused ? 0x1p-24f : 0.0f);
}

// Numbers of every kind, and a NaN of each sign; then patterns that are places rather than numbers.
const std::array<std::uint32_t, 14> patterns{
    0x80000000u, 0x00000000u, 0x3f800000u, 0xbf800000u, 0x7f800000u, 0xff800000u, 0x7fc00000u,
    0xffc00000u, 0x7f800001u, 0x00000001u, 0x00400000u, 0x7f7fffffu, 0x3fffffffu, 0x7fffffffu,
};

// 1 in the lanes where a mask is true.
std::array<bool, count> truths(simd::mask m) {
    std::array<bool, count> r;
    const floats f = to_array(simd::select(m, simd::broadcast(1.0f), simd::zero()));
    std::transform(f.begin(), f.end(), r.begin(), [](float x) { return x == 1.0f; });
    return r;
}

// One lane has the pair (a, b), the others have (c, d).
template <class Check>
void for_each_lane(float a, float b, float c, float d, const Check& check) {
    for (std::size_t lane = 0; lane < count; ++lane) {
        floats first;
        floats second;
        first.fill(c);
        second.fill(d);
        first[lane] = a;
        second[lane] = b;
        check(first, second);
    }
}

TEST(simd, greater_and_is_nan_in_every_lane) {
    for (const std::uint32_t p : patterns) {
        for (const std::uint32_t q : patterns) {
            const float a = float_of(p);
            const float b = float_of(q);
            for_each_lane(a, b, b, a, [](const floats& first, const floats& second) {
                const auto above = truths(simd::greater(from_array(first), from_array(second)));
                const auto nan = truths(simd::is_nan(from_array(first)));
                for (std::size_t i = 0; i < count; ++i) {
                    ASSERT_EQ(above[i], first[i] > second[i]) << first[i] << ' ' << second[i] << " in lane " << i;
                    ASSERT_EQ(nan[i], std::isnan(first[i])) << first[i] << " in lane " << i;
                }
            });
        }
    }
    for (const bool b : truths(simd::greater(simd::zero(), simd::broadcast(-0.0f)))) EXPECT_FALSE(b);
    for (const bool b : truths(simd::greater(simd::broadcast(-0.0f), simd::zero()))) EXPECT_FALSE(b);
}

TEST(simd, masks_combine_in_every_lane) {
    // lanes alternate between the two numbers of a mask: all four pairs of truths occur, in all lanes
    for (int first = 0; first < 4; ++first) {
        for (int second = 0; second < 4; ++second) {
            floats a;
            floats b;
            for (std::size_t i = 0; i < count; ++i) {
                a[i] = static_cast<float>(first >> (i % 2) & 1);
                b[i] = static_cast<float>(second >> (i % 2) & 1);
            }
            const simd::mask m = simd::greater(from_array(a), simd::zero());
            const simd::mask n = simd::greater(from_array(b), simd::zero());
            const auto one_of = truths(simd::either(m, n));
            const auto only = truths(simd::but_not(m, n));
            for (std::size_t i = 0; i < count; ++i) {
                EXPECT_EQ(one_of[i], a[i] > 0 || b[i] > 0) << i;
                EXPECT_EQ(only[i], a[i] > 0 && !(b[i] > 0)) << i;
            }
        }
    }
}

// Bits, not numbers: quiet and signalling NaN, subnormals and both zeros arrive as they were.
TEST(simd, select_moves_bits_unchanged) {
    std::vector<std::uint32_t> all(patterns.begin(), patterns.end());
    all.insert(all.end(), {0u, 1u, 2u, 0x3ffffffeu, 0x7f800002u, 0xff812345u, 0x7ffffffeu, 0xffffffffu});
    for (std::size_t lane = 0; lane < count; ++lane) {
        floats chooser{};
        chooser[lane] = 1.0f;
        for (const bool inverted : {false, true}) {
            const simd::mask m = inverted ? simd::greater(simd::broadcast(0.5f), from_array(chooser))
                                          : simd::greater(from_array(chooser), simd::broadcast(0.5f));
            for (const std::uint32_t p : all) {
                for (const std::uint32_t q : all) {
                    std::array<std::uint32_t, count> yes;
                    std::array<std::uint32_t, count> no;
                    std::array<std::uint32_t, count> chosen;
                    yes.fill(p);
                    no.fill(q);
                    floats a;
                    floats b;
                    std::memcpy(a.data(), yes.data(), sizeof a);
                    std::memcpy(b.data(), no.data(), sizeof b);
                    const floats r = to_array(simd::select(m, from_array(a), from_array(b)));
                    std::memcpy(chosen.data(), r.data(), sizeof chosen);
                    for (std::size_t i = 0; i < count; ++i)
                        ASSERT_EQ(chosen[i], (i == lane) != inverted ? p : q) << "lane " << i << " of " << lane;
                }
            }
        }
    }
}

TEST(simd, partial_floats_stay_inside) {
    const guarded_page source_page;
    const guarded_page target_page;
    ASSERT_TRUE(source_page && target_page);
    for (const bool at_end : {false, true}) {
        for (std::ptrdiff_t n = 0; n <= lanes + 1; ++n) {
            const std::ptrdiff_t used = std::min(n, lanes);
            float* const source = source_page.place<float>(used, at_end);
            float* const target = target_page.place<float>(used, at_end);
            for (std::ptrdiff_t i = 0; i < used; ++i) source[i] = static_cast<float>(i + 1);
            const vec value = simd::load_partial(source, n);
            const floats lane = to_array(value);
            for (std::ptrdiff_t i = 0; i < lanes; ++i) {
                EXPECT_EQ(bits_of(lane[static_cast<std::size_t>(i)]),
                          bits_of(i < n ? static_cast<float>(i + 1) : 0.0f));
            }
            simd::store_partial(target, value, n);
            for (std::ptrdiff_t i = 0; i < used; ++i) EXPECT_EQ(target[i], static_cast<float>(i + 1));

            float untouched[lanes + 2];
            std::fill(untouched, untouched + lanes + 2, -7.0f);
            simd::store_partial(untouched, value, n);
            for (std::ptrdiff_t i = used; i < lanes + 2; ++i) EXPECT_EQ(untouched[i], -7.0f) << n << ' ' << i;
        }
    }
    for (const float z : to_array(simd::load_partial(static_cast<const float*>(nullptr), 0))) EXPECT_EQ(bits_of(z), 0u);
    simd::store_partial(static_cast<float*>(nullptr), simd::zero(), 0);
    simd::store_partial(static_cast<float*>(nullptr), simd::zero(), -1);
    EXPECT_EQ(to_array(simd::load_partial(static_cast<const float*>(nullptr), -1))[0], 0.0f);
}

template <class T>
class simd_elements : public testing::Test {};
using element_types = testing::Types<float, float16, bfloat16, framework::half_lookalike, framework::wrapped_float>;
TYPED_TEST_SUITE(simd_elements, element_types);

TYPED_TEST(simd_elements, widen_and_narrow_stay_inside) {
    using T = TypeParam;
    const guarded_page narrow_page;
    const guarded_page wide_page;
    const guarded_page again_page;
    ASSERT_TRUE(narrow_page && wide_page && again_page);
    for (const bool at_end : {false, true}) {
        for (std::ptrdiff_t n = 0; n <= 3 * lanes + 2; ++n) {
            T* const elements = narrow_page.place<T>(n, at_end);
            float* const wide = wide_page.place<float>(n, at_end);
            T* const again = again_page.place<T>(n, at_end);
            for (std::ptrdiff_t i = 0; i < n; ++i) {
                gradkern::detail::store_element(elements + i, static_cast<float>(i) - 5.25f);
                wide[i] = -1.0f;
            }
            simd::widen(elements, wide, n);
            for (std::ptrdiff_t i = 0; i < n; ++i) {
                ASSERT_EQ(wide[i], gradkern::detail::load_element(elements + i)) << n << ' ' << i;
            }
            simd::narrow(wide, again, n);
            ASSERT_EQ(n == 0 ? 0 : std::memcmp(again, elements, static_cast<std::size_t>(n) * sizeof(T)), 0) << n;

            if (n <= lanes) {
                const vec value = simd::load_wide_partial(elements, n);
                const floats lane = to_array(value);
                for (std::ptrdiff_t i = 0; i < lanes; ++i) {
                    ASSERT_EQ(bits_of(lane[static_cast<std::size_t>(i)]), i < n ? bits_of(wide[i]) : 0u)
                        << n << ' ' << i;
                }
                if (n != 0) std::memset(static_cast<void*>(again), 0, static_cast<std::size_t>(n) * sizeof(T));
                simd::store_narrow_partial(again, value, n);
                ASSERT_EQ(n == 0 ? 0 : std::memcmp(again, elements, static_cast<std::size_t>(n) * sizeof(T)), 0) << n;
            }
        }
    }
    simd::widen(static_cast<const T*>(nullptr), nullptr, 0);
    simd::narrow(nullptr, static_cast<T*>(nullptr), 0);
}

TYPED_TEST(simd_elements, whole_vectors) {
    using T = TypeParam;
    std::array<T, count + 2> elements;
    for (std::size_t i = 0; i < count + 2; ++i)
        gradkern::detail::store_element(&elements[i], static_cast<float>(i) * 0.5f);
    const floats lane = to_array(simd::load_wide(elements.data() + 1));
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(lane[i], gradkern::detail::load_element(&elements[i + 1]));
    simd::store_narrow(elements.data(), simd::load_wide(elements.data() + 1));
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(gradkern::detail::load_element(&elements[i]), lane[i]);
    EXPECT_EQ(gradkern::detail::load_element(&elements[count + 1]), static_cast<float>(count + 1) * 0.5f);
}

TEST(simd, widens_all_patterns_as_the_scalar_form_does) {
    // One byte off any alignment.
    std::array<unsigned char, 2 * count + 1> memory{};
    for (std::uint32_t p = 0; p < 0x10000u; p += static_cast<std::uint32_t>(lanes)) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto pattern = static_cast<std::uint16_t>(p + i);
            std::memcpy(memory.data() + 1 + 2 * i, &pattern, sizeof pattern);
        }
        const floats f16 = to_array(simd::widen_f16(memory.data() + 1));
        const floats bf16 = to_array(simd::widen_bf16(memory.data() + 1));
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto pattern = static_cast<std::uint16_t>(p + i);
            ASSERT_EQ(bits_of(f16[i]), bits_of(gradkern::half_bits::f16_to_f32(pattern))) << p + i;
            ASSERT_EQ(bits_of(bf16[i]), bits_of(gradkern::half_bits::bf16_to_f32(pattern))) << p + i;
        }
    }
}

// Collects float patterns to whole vectors and compares both narrowing forms with the scalar ones.
class narrowing_check {
public:
    void operator()(std::uint32_t pattern) {
        value_[filled_++] = float_of(pattern);
        if (filled_ == count) flush();
    }
    void flush() {
        std::array<unsigned char, 2 * count + 1> f16{};
        std::array<unsigned char, 2 * count + 1> bf16{};
        const vec value = from_array(value_);
        simd::narrow_f16(value, f16.data() + 1);
        simd::narrow_bf16(value, bf16.data() + 1);
        std::array<std::uint16_t, count> expected_f16;
        std::array<std::uint16_t, count> expected_bf16;
        for (std::size_t i = 0; i < count; ++i) {
            expected_f16[i] = gradkern::half_bits::f32_to_f16(value_[i]);
            expected_bf16[i] = gradkern::half_bits::f32_to_bf16(value_[i]);
        }
        if (std::memcmp(f16.data() + 1, expected_f16.data(), 2 * count) != 0 ||
            std::memcmp(bf16.data() + 1, expected_bf16.data(), 2 * count) != 0) {
            if (failures_++ < 10)
                ADD_FAILURE() << std::hex << "in the vector from float pattern " << bits_of(value_[0]);
        }
        filled_ = 0;
    }
    std::uint64_t failures() const { return failures_; }

private:
    floats value_{};
    std::size_t filled_ = 0;
    std::uint64_t failures_ = 0;
};

TEST(simd, narrows_as_the_scalar_form_does) {
    narrowing_check check;
    for (std::uint32_t high = 0; high < (1u << 20); ++high) {
        for (const std::uint32_t low : {0x000u, 0x001u, 0x002u, 0x7ffu, 0x800u, 0x801u, 0xffeu, 0xfffu})
            check(high << 12 | low);
    }
#if defined(__OPTIMIZE__)
    constexpr std::uint64_t stride = 29;
#else
    constexpr std::uint64_t stride = 1013;
#endif
    for (std::uint64_t pattern = 0; pattern <= 0xffffffffu; pattern += stride)
        check(static_cast<std::uint32_t>(pattern));
    check.flush();
    EXPECT_EQ(check.failures(), 0u);
}

TEST(simd, transposes_one_block) {
    constexpr std::ptrdiff_t source_stride = lanes + 3;
    constexpr std::ptrdiff_t target_stride = lanes + 5;
    std::vector<float> source(static_cast<std::size_t>(lanes * source_stride));
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
    std::vector<float> target(static_cast<std::size_t>(lanes * target_stride), -1.0f);
    const auto check = [&](const float* from, std::ptrdiff_t from_stride, const float* to, std::ptrdiff_t to_stride) {
        for (std::ptrdiff_t i = 0; i < lanes; ++i) {
            for (std::ptrdiff_t j = 0; j < lanes; ++j) {
                ASSERT_EQ(to[j * to_stride + i], from[i * from_stride + j]) << i << ' ' << j;
            }
        }
    };
    simd::transpose(source.data(), source_stride, target.data(), target_stride);
    check(source.data(), source_stride, target.data(), target_stride);
    for (std::ptrdiff_t j = 0; j < lanes; ++j) {
        for (std::ptrdiff_t i = lanes; i < target_stride; ++i)
            ASSERT_EQ(target[static_cast<std::size_t>(j * target_stride + i)], -1.0f);
    }

    // Rows from the last to the first.
    const float* const last = source.data() + (lanes - 1) * source_stride;
    float* const last_out = target.data() + (lanes - 1) * target_stride;
    simd::transpose(last, -source_stride, last_out, -target_stride);
    check(last, -source_stride, last_out, -target_stride);

    // Dense blocks that touch the guards on both sides.
    const guarded_page source_page;
    const guarded_page target_page;
    ASSERT_TRUE(source_page && target_page);
    for (const bool at_end : {false, true}) {
        if (lanes * lanes * static_cast<std::ptrdiff_t>(sizeof(float)) >
            static_cast<std::ptrdiff_t>(gradkern_test::page_size()))
            continue;
        float* const from = source_page.place<float>(lanes * lanes, at_end);
        float* const to = target_page.place<float>(lanes * lanes, at_end);
        for (std::ptrdiff_t i = 0; i < lanes * lanes; ++i) from[i] = static_cast<float>(i) * 3.0f;
        simd::transpose(from, lanes, to, lanes);
        check(from, lanes, to, lanes);
    }
}

TEST(simd, quad_lane_repeats_one_of_four) {
    if (lanes % 4 != 0) GTEST_SKIP() << "vectors of fewer than four lanes";
    floats a{};
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i + 1);
    const auto expect = [&](std::size_t k, simd::vec got) {
        const floats r = to_array(got);
        for (std::size_t i = 0; i < r.size(); ++i) EXPECT_EQ(r[i], a[i / 4 * 4 + k]) << k << ", lane " << i;
    };
    expect(0, simd::quad_lane<0>(from_array(a)));
    expect(1, simd::quad_lane<1>(from_array(a)));
    expect(2, simd::quad_lane<2>(from_array(a)));
    expect(3, simd::quad_lane<3>(from_array(a)));
}

TEST(simd, quads_move_as_a_whole) {
    if (lanes % 8 != 0) GTEST_SKIP() << "vectors of fewer than two quads";
    floats a{};
    floats b{};
    for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<float>(i);
        b[i] = static_cast<float>(i + a.size());
    }
    const auto expect = [](const char* what, simd::vec got, auto expected) {
        const floats r = to_array(got);
        for (std::size_t i = 0; i < r.size(); ++i)
            EXPECT_EQ(r[i], static_cast<float>(expected(i))) << what << ", lane " << i;
    };
    expect("first of two", simd::quad_of_two<0>(a.data()), [](std::size_t i) { return i / 8 * 8 + i % 4; });
    expect("second of two", simd::quad_of_two<1>(a.data()), [](std::size_t i) { return i / 8 * 8 + 4 + i % 4; });
    simd::vec even = simd::every_second_quad<0>(from_array(a), from_array(b));
    simd::vec odd = simd::every_second_quad<1>(from_array(a), from_array(b));
    expect("even", even, [](std::size_t i) { return i / 4 * 8 + i % 4; });
    expect("odd", odd, [](std::size_t i) { return i / 4 * 8 + 4 + i % 4; });
    simd::interleave_quads(even, odd);
    expect("in turns, first half", even, [](std::size_t i) { return i; });
    expect("in turns, the rest", odd, [](std::size_t i) { return i + count; });
}

TEST(simd, add_bits_adds_integers) {
    floats a{};
    floats b{};
    for (std::size_t i = 0; i < a.size(); ++i) {  // below 2^30: no carry out of a lane may reach the next one
        a[i] = std::bit_cast<float>(static_cast<std::uint32_t>(0x1fffffffU - i));
        b[i] = std::bit_cast<float>(static_cast<std::uint32_t>(0x0fffffffU + 3 * i));
    }
    const floats r = to_array(simd::add_bits(from_array(a), from_array(b)));
    for (std::size_t i = 0; i < r.size(); ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(r[i]), 0x2ffffffeU + 2 * static_cast<std::uint32_t>(i)) << "lane " << i;
}

TEST(simd, store_bits_plus_widens) {
    floats a{};
    for (std::size_t i = 0; i < count; ++i)
        a[i] = std::bit_cast<float>(static_cast<std::uint32_t>(0xfffffff0U + 5 * i));  // some carry, some are NaNs
    for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1} << 40}) {
        std::array<std::int64_t, count + 2> out{};
        simd::store_bits_plus(out.data() + 1, from_array(a), number);
        EXPECT_EQ(out.front(), 0);
        EXPECT_EQ(out.back(), 0);
        for (std::size_t i = 0; i < count; ++i)
            EXPECT_EQ(out[i + 1], number + std::int64_t{std::bit_cast<std::uint32_t>(a[i])}) << "lane " << i;
    }
}

TEST(simd, equal_bits_tells_bits_apart) {
    // equal as numbers, or never equal as numbers, or equal where subnormal numbers count as 0
    const std::array<std::array<std::uint32_t, 2>, 5> pairs{
        {{0u, 0x80000000u}, {1u, 2u}, {0x7fc00000u, 0x7fc00000u}, {0x3f800000u, 0x3f800000u}, {0u, 1u}}};
    for (const auto& [first, second] : pairs) {
        for (std::size_t lane = 0; lane < count; ++lane) {
            floats a{};
            floats b{};
            b.fill(1.0f);
            a[lane] = std::bit_cast<float>(first);
            b[lane] = std::bit_cast<float>(second);
            const auto same = truths(simd::equal_bits(from_array(a), from_array(b)));
            for (std::size_t i = 0; i < count; ++i)
                EXPECT_EQ(same[i], i == lane && first == second) << first << ' ' << i;
        }
    }
}

}  // namespace
