// Scalar conversions of 16-bit types against their definition, the two types' interfaces, and foreign types through element_traits.

#include <gradkern/half.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace framework {

// The shape of c10::Half, Eigen::half and their like: two bytes, conversions of their own (here wrong ones, to show that nobody uses them).
struct alignas(2) half_lookalike {
    unsigned short x;
    half_lookalike() = default;
    operator float() const { return -1.0f; }
};

struct brain_lookalike {
    std::uint16_t raw;
};

struct wrapped_float {
    float value;
};

}  // namespace framework

template <>
struct gradkern::element_traits<framework::half_lookalike> : gradkern::f16_storage {};
template <>
struct gradkern::element_traits<framework::brain_lookalike> : gradkern::bf16_storage {};
template <>
struct gradkern::element_traits<framework::wrapped_float> : gradkern::f32_storage {};

namespace {

using gradkern::bfloat16;
using gradkern::float16;
namespace half_bits = gradkern::half_bits;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// A 16-bit format, by its definition alone: numbers in double, patterns in ascending order of magnitude.
struct format {
    int fraction_bits;
    int bias;
    std::uint32_t infinity;  // its pattern, and the number of finite magnitudes

    double magnitude(std::uint32_t pattern) const {
        const auto exponent = static_cast<int>(pattern >> fraction_bits);
        const double fraction = std::ldexp(static_cast<double>(pattern & ((1u << fraction_bits) - 1u)), -fraction_bits);
        return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias);
    }

    std::uint32_t nan(std::uint32_t float_magnitude) const {
        return infinity | (1u << (fraction_bits - 1)) | ((float_magnitude & 0x7fffffu) >> (23 - fraction_bits));
    }
};

constexpr format binary16{10, 15, 0x7c00};
constexpr format brain16{7, 127, 0x7f80};

// Rounds float magnitudes that come in ascending order: goes up the table of all numbers, each owning the values nearer to it than to its
// neighbours; the middle belongs to the even pattern. The number after the largest one would be a power of two, and stands for infinity.
class ascending_oracle {
public:
    explicit ascending_oracle(const format& f) : format_(f) {
        for (std::uint32_t p = 0; p < f.infinity; ++p) middle_.push_back((f.magnitude(p) + f.magnitude(p + 1)) / 2.0);
    }

    std::uint32_t operator()(std::uint32_t magnitude) {
        if (magnitude > 0x7f800000u) return format_.nan(magnitude);
        const auto value = static_cast<double>(float_of(magnitude));
        while (pattern_ < format_.infinity &&
               (value > middle_[pattern_] || (value == middle_[pattern_] && pattern_ % 2 == 1))) {
            ++pattern_;
        }
        return pattern_;
    }

private:
    format format_;
    std::vector<double> middle_;
    std::uint32_t pattern_ = 0;
};

// Calls visit(magnitude) in ascending order for float magnitudes at and around every tie and every power of two.
template <class Visit>
void visit_edges(Visit visit) {
    for (std::uint32_t high = 0; high < (1u << 19); ++high) {
        for (const std::uint32_t low : {0x000u, 0x001u, 0x002u, 0x7ffu, 0x800u, 0x801u, 0xffeu, 0xfffu})
            visit(high << 12 | low);
    }
}

#if defined(__OPTIMIZE__)
constexpr std::uint32_t prime_stride = 29;
#else
constexpr std::uint32_t prime_stride = 1009;
#endif

template <class Visit>
void visit_by_stride(Visit visit) {
    for (std::uint32_t magnitude = 0; magnitude < 0x80000000u; magnitude += prime_stride) visit(magnitude);
    visit(0x7fffffffu);
}

class narrowing_check {
public:
    void operator()(std::uint32_t magnitude) {
        const std::uint32_t f16 = f16_(magnitude);
        const std::uint32_t bf16 = bf16_(magnitude);
        const bool good = half_bits::f32_to_f16(float_of(magnitude)) == f16 &&
                          half_bits::f32_to_f16(float_of(magnitude | 0x80000000u)) == (f16 | 0x8000u) &&
                          half_bits::f32_to_bf16(float_of(magnitude)) == bf16 &&
                          half_bits::f32_to_bf16(float_of(magnitude | 0x80000000u)) == (bf16 | 0x8000u);
        ++visited_;
        if (!good && failures_++ < 10) {
            ADD_FAILURE() << std::hex << "float pattern " << magnitude << ": f16 "
                          << half_bits::f32_to_f16(float_of(magnitude)) << ", expected " << f16 << "; bf16 "
                          << half_bits::f32_to_bf16(float_of(magnitude)) << ", expected " << bf16;
        }
    }

    std::uint64_t failures() const { return failures_; }
    std::uint64_t visited() const { return visited_; }

private:
    ascending_oracle f16_{binary16};
    ascending_oracle bf16_{brain16};
    std::uint64_t failures_ = 0;
    std::uint64_t visited_ = 0;
};

TEST(half, widens_all_f16_patterns) {
    for (std::uint32_t p = 0; p < 0x8000u; ++p) {
        const float wide = half_bits::f16_to_f32(static_cast<std::uint16_t>(p));
        const float negative = half_bits::f16_to_f32(static_cast<std::uint16_t>(p | 0x8000u));
        ASSERT_EQ(bits_of(negative), bits_of(wide) | 0x80000000u) << p;
        if (p < binary16.infinity) {
            ASSERT_EQ(static_cast<double>(wide), binary16.magnitude(p)) << p;
        } else if (p == binary16.infinity) {
            ASSERT_EQ(bits_of(wide), 0x7f800000u);
        } else {
            ASSERT_EQ(bits_of(wide), 0x7fc00000u | (p & 0x3ffu) << 13) << p;
        }
    }
}

TEST(half, widens_all_bf16_patterns) {
    for (std::uint32_t p = 0; p < 0x8000u; ++p) {
        const float wide = half_bits::bf16_to_f32(static_cast<std::uint16_t>(p));
        const float negative = half_bits::bf16_to_f32(static_cast<std::uint16_t>(p | 0x8000u));
        ASSERT_EQ(bits_of(negative), bits_of(wide) | 0x80000000u) << p;
        if (p < brain16.infinity) {
            ASSERT_EQ(static_cast<double>(wide), brain16.magnitude(p)) << p;
        } else {
            ASSERT_EQ(bits_of(wide), p << 16) << p;
        }
    }
}

TEST(half, patterns_come_back) {
    for (std::uint32_t p = 0; p < 0x10000u; ++p) {
        const auto pattern = static_cast<std::uint16_t>(p);
        const std::uint32_t magnitude = p & 0x7fffu;
        const auto quiet16 = static_cast<std::uint16_t>(magnitude > 0x7c00u ? p | 0x200u : p);
        const auto quietbf = static_cast<std::uint16_t>(magnitude > 0x7f80u ? p | 0x40u : p);
        ASSERT_EQ(half_bits::f32_to_f16(half_bits::f16_to_f32(pattern)), quiet16) << p;
        ASSERT_EQ(half_bits::f32_to_bf16(half_bits::bf16_to_f32(pattern)), quietbf) << p;
        ASSERT_EQ(float16(static_cast<float>(float16::from_bits(pattern))).bits, quiet16) << p;
        ASSERT_EQ(bfloat16(static_cast<float>(bfloat16::from_bits(pattern))).bits, quietbf) << p;
    }
}

TEST(half, narrows_to_nearest_around_ties) {
    narrowing_check check;
    visit_edges([&](std::uint32_t magnitude) { check(magnitude); });
    EXPECT_EQ(check.failures(), 0u) << "of " << check.visited();
}

TEST(half, narrows_to_nearest_by_stride) {
    narrowing_check check;
    visit_by_stride([&](std::uint32_t magnitude) { check(magnitude); });
    EXPECT_EQ(check.failures(), 0u) << "of " << check.visited();
}

TEST(half, named_boundaries) {
    EXPECT_EQ(half_bits::f32_to_f16(65504.0f), 0x7bffu);
    EXPECT_EQ(half_bits::f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bffu);
    EXPECT_EQ(half_bits::f32_to_f16(65520.0f), 0x7c00u);
    EXPECT_EQ(half_bits::f32_to_f16(-65520.0f), 0xfc00u);
    EXPECT_EQ(half_bits::f32_to_f16(0x1p-24f), 0x0001u);
    EXPECT_EQ(half_bits::f32_to_f16(0x1p-25f), 0x0000u);         // tie, to even
    EXPECT_EQ(half_bits::f32_to_f16(0x1.000002p-25f), 0x0001u);  // just above
    EXPECT_EQ(half_bits::f32_to_f16(0x1.8p-24f), 0x0002u);       // tie, to even
    EXPECT_EQ(half_bits::f32_to_f16(-0x1p-25f), 0x8000u);        // the sign of zero stays
    EXPECT_EQ(half_bits::f32_to_f16(0x1.ffcp-15f), 0x0400u);     // from subnormal into normal
    EXPECT_EQ(half_bits::f32_to_f16(2049.0f), half_bits::f32_to_f16(2048.0f));
    EXPECT_EQ(half_bits::f32_to_f16(2051.0f), half_bits::f32_to_f16(2052.0f));
    EXPECT_EQ(half_bits::f32_to_bf16(257.0f), half_bits::f32_to_bf16(256.0f));
    EXPECT_EQ(half_bits::f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80u);
    EXPECT_EQ(half_bits::f32_to_bf16(std::numeric_limits<float>::denorm_min()), 0x0000u);
    EXPECT_EQ(half_bits::f32_to_bf16(float_of(0x00008001u)), 0x0001u);
    // A NaN whose payload lies below the bits that stay is no infinity.
    EXPECT_EQ(half_bits::f32_to_f16(float_of(0x7f800001u)), 0x7e00u);
    EXPECT_EQ(half_bits::f32_to_f16(float_of(0xffffffffu)), 0xffffu);
    EXPECT_EQ(half_bits::f32_to_bf16(float_of(0x7f800001u)), 0x7fc0u);
    EXPECT_EQ(half_bits::f32_to_bf16(float_of(0xffffffffu)), 0xffffu);
}

TEST(half, types) {
    static_assert(std::is_trivially_copyable_v<float16> && std::is_standard_layout_v<bfloat16>);
    static_assert(!std::is_convertible_v<float, float16> && !std::is_convertible_v<float16, float>);
    static_assert(!std::is_convertible_v<float, bfloat16> && !std::is_convertible_v<bfloat16, float>);
    static_assert(std::is_constructible_v<float16, float> && std::is_constructible_v<bfloat16, int>);
    static_assert(!std::is_constructible_v<float16, double> && !std::is_constructible_v<bfloat16, long double>);
    static_assert(!std::is_constructible_v<float16, bfloat16>);
    static_assert(float16{}.bits == 0 && bfloat16{}.bits == 0);
    static_assert(static_cast<float>(float16(0.1f)) == 0x1.998p-4f);
    static_assert(static_cast<float>(bfloat16(0.1f)) == 0x1.9ap-4f);

    static_assert(float16(1.0f) == float16::from_bits(0x3c00) && bfloat16(1.0f) == bfloat16::from_bits(0x3f80));
    static_assert(float16::from_bits(0x8000) == float16(0.0f) && bfloat16::from_bits(0x8000) == bfloat16(0.0f));
    static_assert(float16(-2.0f) < float16(-1.0f) && bfloat16(-2.0f) < bfloat16(1.0f) &&
                  float16(3.0f) >= float16(3.0f));
    constexpr auto nan16 = std::numeric_limits<float16>::quiet_NaN();
    constexpr auto nanbf = std::numeric_limits<bfloat16>::quiet_NaN();
    static_assert(nan16 != nan16 && !(nan16 == nan16) && !(nan16 < nan16) && !(nan16 >= nan16));
    static_assert(nanbf != nanbf && !(nanbf < bfloat16(1.0f)) && !(nanbf > bfloat16(1.0f)));
    EXPECT_TRUE(std::isnan(static_cast<float>(nan16)));
}

template <class T>
void check_limits(int digits, int min_exponent, int max_exponent) {
    using limits = std::numeric_limits<T>;
    const auto value = [](T x) { return static_cast<double>(static_cast<float>(x)); };
    EXPECT_TRUE(limits::is_specialized && limits::has_infinity && limits::has_quiet_NaN && !limits::is_integer);
    EXPECT_EQ(limits::digits, digits);
    EXPECT_EQ(limits::min_exponent, min_exponent);
    EXPECT_EQ(limits::max_exponent, max_exponent);
    EXPECT_EQ(limits::digits10, static_cast<int>(std::floor((digits - 1) * std::log10(2.0))));
    EXPECT_EQ(limits::max_digits10, static_cast<int>(std::ceil(digits * std::log10(2.0) + 1)));
    EXPECT_EQ(limits::min_exponent10, static_cast<int>(std::ceil((min_exponent - 1) * std::log10(2.0))));
    EXPECT_EQ(limits::max_exponent10, static_cast<int>(std::floor(max_exponent * std::log10(2.0))));
    EXPECT_EQ(value(limits::min()), std::ldexp(1.0, min_exponent - 1));
    EXPECT_EQ(value(limits::denorm_min()), std::ldexp(1.0, min_exponent - digits));
    EXPECT_EQ(value(limits::epsilon()), std::ldexp(1.0, 1 - digits));
    EXPECT_EQ(value(limits::round_error()), 0.5);
    EXPECT_EQ(value(limits::max()), std::ldexp(2.0 - std::ldexp(1.0, 1 - digits), max_exponent - 1));
    EXPECT_EQ(value(limits::lowest()), -value(limits::max()));
    EXPECT_TRUE(std::isinf(value(limits::infinity())) && value(limits::infinity()) > 0);
    EXPECT_TRUE(std::isnan(value(limits::quiet_NaN())));
    EXPECT_TRUE(std::isnan(value(limits::signaling_NaN())));
    EXPECT_EQ(limits::max().bits + 1, limits::infinity().bits);
}

TEST(half, numeric_limits) {
    check_limits<float16>(11, -13, 16);
    check_limits<bfloat16>(8, -125, 128);
}

TEST(half, element_concept) {
    using gradkern::data_type;
    using gradkern::element;
    using gradkern::element_traits;
    static_assert(element<float> && element<double> && element<float16> && element<bfloat16>);
    static_assert(element<framework::half_lookalike> && element<framework::brain_lookalike> &&
                  element<framework::wrapped_float>);
    static_assert(!element<int> && !element<std::uint16_t> && !element<const float> && !element<float*>);
    static_assert(std::is_same_v<gradkern::accumulate_t<framework::half_lookalike>, float>);
    static_assert(std::is_same_v<gradkern::accumulate_t<double>, double>);
    static_assert(element_traits<framework::brain_lookalike>::type == data_type::bf16);
    static_assert(sizeof(data_type) == 1 && gradkern::size_of(data_type::f16) == 2 &&
                  gradkern::size_of(data_type::f64) == 8);
#if defined(__FLT16_MANT_DIG__) && defined(__x86_64__)
    static_assert(element<_Float16> && element_traits<_Float16>::type == data_type::f16);
#endif
#if defined(__ARM_FP16_FORMAT_IEEE)
    static_assert(element<__fp16> && element_traits<__fp16>::type == data_type::f16);
#endif
}

template <class T>
T stored(gradkern::accumulate_t<T> value) {
    T result;
    gradkern::detail::store_element(&result, value);
    return result;
}

// One by one elements may go through other instructions than half_bits, and never to other bits.
TEST(half, scalar_elements_have_the_bits_of_the_integer_forms) {
    for (std::uint32_t p = 0; p <= 0xffffu; ++p) {
        const auto pattern = static_cast<std::uint16_t>(p);
        const auto f16 = float16::from_bits(pattern);
        const auto bf16 = bfloat16::from_bits(pattern);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(gradkern::detail::load_element(&f16)),
                  std::bit_cast<std::uint32_t>(gradkern::half_bits::f16_to_f32(pattern)));
        ASSERT_EQ(std::bit_cast<std::uint32_t>(gradkern::detail::load_element(&bf16)),
                  std::bit_cast<std::uint32_t>(gradkern::half_bits::bf16_to_f32(pattern)));
    }
    for (std::uint64_t p = 0; p <= 0xffffffffu; p += 1021) {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(p));
        ASSERT_EQ(stored<float16>(value).bits, gradkern::half_bits::f32_to_f16(value)) << p;
        ASSERT_EQ(stored<bfloat16>(value).bits, gradkern::half_bits::f32_to_bf16(value)) << p;
    }
}

TEST(half, scalar_elements_go_by_bytes) {
    using gradkern::detail::load_element;
    EXPECT_EQ(stored<framework::half_lookalike>(1.0f).x, 0x3c00u);
    EXPECT_EQ(stored<framework::brain_lookalike>(1.0f).raw, 0x3f80u);
    EXPECT_EQ(stored<framework::wrapped_float>(0.1f).value, 0.1f);
    EXPECT_EQ(stored<double>(0.1), 0.1);

    framework::half_lookalike foreign;
    foreign.x = 0x4248;
    EXPECT_EQ(load_element(&foreign), 3.140625f);
    const auto pi = stored<bfloat16>(3.14159f);
    EXPECT_EQ(load_element(&pi), 3.140625f);
    const double tenth = 0.1;
    EXPECT_EQ(load_element(&tenth), 0.1);

#if defined(__FLT16_MANT_DIG__) && defined(__x86_64__)
    // The compiler's own type agrees about what the patterns mean.
    for (std::uint32_t p = 0; p < 0x7c00u; ++p) {
        const auto pattern = static_cast<std::uint16_t>(p);
        _Float16 native;
        std::memcpy(&native, &pattern, sizeof native);
        ASSERT_EQ(load_element(&native), static_cast<float>(native));
        const _Float16 again = stored<_Float16>(static_cast<float>(native));
        ASSERT_EQ(std::memcmp(&again, &native, sizeof native), 0);
    }
#endif
}

}  // namespace
