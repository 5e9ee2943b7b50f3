// The exact references as operators: the references' bits where those do not round, sums longer than a block and wider than f64, partial
// sums of workers, errors, layouts, and the state of the floating-point unit. Fractions: golden/exact_golden_test.cpp, exact/rationals.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <gradkern/error_text.hpp>
#include <gradkern/ref/exact.hpp>
#include <gradkern/ref/lp_pool.hpp>

#include "support/conv_cases.hpp"
#include "support/exact_conv.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace exact = gradkern::ref::exact;
using exact::accumulator;
using gk::bfloat16;
using gk::data_format;
using gk::extents;
using gk::float16;
using gk::output_mode;

template <class T>
std::vector<T> plain(const test_tensor<T>& t) {
    std::vector<T> v(static_cast<std::size_t>(t.count()));
    for (std::int64_t i = 0; i < t.count(); ++i) v[static_cast<std::size_t>(i)] = t[i];
    return v;
}
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return ::testing::AssertionFailure() << "element " << i;
    return a.size() == b.size() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "sizes";
}

// -------------------------------------------------------------------------------------------------------- convolutions

template <class T>
class ExactConvolution : public ::testing::Test {};
using element_types = ::testing::Types<float, float16, bfloat16, double>;
TYPED_TEST_SUITE(ExactConvolution, element_types);

TYPED_TEST(ExactConvolution, has_the_references_bits_on_integers) {
    using T = TypeParam;
    random_source random("exact.integers");
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 20'000, all_conv_operators[static_cast<std::size_t>(i % 6)]);
        SCOPED_TRACE(c.text());
        const conv_tensors<T> t(random, c, random.chance(1, 2));
        const auto value = [&](std::int64_t) { return static_cast<gk::accumulate_t<T>>(random.integer(-3, 3)); };
        t.first.fill(value);
        t.second.fill(value);
        t.bias.fill(value);
        t.previous.fill(value);
        test_tensor<T> expected(c.result());
        test_tensor<T> got(c.result(), random_output_strides(random, c.result()), side_of(random));
        ASSERT_TRUE(t.reference(c, expected).ok());
        t.prepare(got);
        const gk::status s = run_exact(c, t, got);
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        EXPECT_TRUE(same_bits(plain(got), plain(expected)));
        EXPECT_TRUE(got.surroundings_intact());
    }
}

/// Numbers whose products need more and more bins: exponents in [-spread, spread].
template <class T>
std::vector<T> spread_numbers(random_source& random, std::size_t count, int spread) {
    std::vector<T> v(count);
    for (T& x : v) {
        const auto fraction =
            static_cast<double>(random.integer(-(std::int64_t{1} << 52), std::int64_t{1} << 52)) * 0x1p-52;
        const double number = std::ldexp(fraction, static_cast<int>(random.integer(-spread, spread)));
        if constexpr (sizeof(T) == 2) {
            x = T(static_cast<float>(number));
        } else {
            x = static_cast<T>(number);
        }
    }
    return v;
}

// Sums themselves are compared, so that no bit may get lost. Where `spread` is negative, all
// products are the same and near 4, as large as blocks allow: of the largest numbers below 2, or of any there.
TYPED_TEST(ExactConvolution, long_sums_and_wide_ranges_are_those_of_accumulators) {
    using T = TypeParam;
    random_source random("exact.long");
    const int widest = sizeof(T) == 8 ? 900 : 60;
    for (const std::int64_t terms : {1, 7, 16, 63, 64, 65, 127, 128, 1023, 1024, 1025, 3000}) {
        for (const int spread : {-3, -2, -1, 0, 3, 12, 25, widest}) {
            GRADKERN_TRACE_SEED(random);
            SCOPED_TRACE(std::to_string(terms) + " terms, spread " + std::to_string(spread));
            const std::int64_t channels = random.integer(1, 18);
            const std::int64_t rows = 3;
            auto a = spread_numbers<T>(random, static_cast<std::size_t>(rows * terms), std::max(spread, 0));
            auto b = spread_numbers<T>(random, static_cast<std::size_t>(terms * channels), std::max(spread, 0));
            if (spread < 0) {
                const auto near_two = [&] {
                    const auto below =
                        spread == -1 ? 1 : random.integer(1, 1 << (std::min)(std::numeric_limits<T>::digits - 4, 20));
                    return static_cast<T>(static_cast<gk::accumulate_t<T>>(2) -
                                          static_cast<gk::accumulate_t<T>>(below) *
                                              static_cast<gk::accumulate_t<T>>(std::numeric_limits<T>::epsilon()));
                };
                std::fill(a.begin(), a.end(), near_two());
                std::fill(b.begin(), b.end(), near_two());
            }
            for (std::size_t i = 1; i < a.size(); ++i)  // half of all cancel
                if (spread >= 0 && random.chance(1, 2)) a[i] = a[i - 1];
            // A 1x1 convolution is a product of matrices: (rows, terms) times (terms, channels).
            std::vector<accumulator> y(static_cast<std::size_t>(rows * channels));
            ASSERT_TRUE((exact::convolution<T, T, accumulator>(
                             {a.data(), {1, rows, terms}}, {b.data(), {1, terms, channels}}, {},
                             {.strides = {1}, .dilations = {1}}, {y.data(), {1, rows, channels}})
                             .ok()));
            // So is its weight gradient: positions are the terms.
            std::vector<accumulator> w(static_cast<std::size_t>(channels));
            ASSERT_TRUE((exact::convolution_backward_weights<T, accumulator>(
                             {a.data(), {1, terms, 1}}, {b.data(), {1, terms, channels}},
                             {.strides = {1}, .dilations = {1}}, {w.data(), {1, 1, channels}})
                             .ok()));
            for (std::int64_t c = 0; c < channels; ++c) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    accumulator sum;
                    for (std::int64_t i = 0; i < terms; ++i)
                        sum.add_product(a[static_cast<std::size_t>(r * terms + i)],
                                        b[static_cast<std::size_t>(i * channels + c)]);
                    ASSERT_TRUE(y[static_cast<std::size_t>(r * channels + c)] == sum);
                    if (r == 0) {
                        ASSERT_TRUE(w[static_cast<std::size_t>(c)] == sum);
                    }
                }
            }
            random.next_case();
        }
    }
}

TEST(exact_convolution, every_operand_may_have_its_own_type) {
    const std::vector<float16> x{float16(1.5F), float16(-2.0F)};
    const std::vector<float> w{0x1p-30F, 3.0F};
    const std::vector<bfloat16> b{bfloat16(0.5F)};
    std::vector<double> y(1);
    ASSERT_TRUE((exact::convolution<float16, float, double, bfloat16>(
                     {x.data(), {1, 1, 2}}, {w.data(), {1, 2, 1}}, {b.data(), {1}}, {.strides = {1}, .dilations = {1}},
                     {y.data(), {1, 1, 1}})
                     .ok()));
    EXPECT_EQ(y[0], 0x1.8p-30 - 5.5);
}

// One infinite weight: outputs that read it through a tap inside are infinite or NaN, the others keep their bits.
TEST(exact_convolution, infinities_reach_the_sums_that_contain_them) {
    std::vector<float> x{1, 0, -2, 4};
    std::vector<float> w{2, std::numeric_limits<float>::infinity()};
    std::vector<float> y(5);
    ASSERT_TRUE(exact::convolution<float>({x.data(), {1, 4, 1}}, {w.data(), {2, 1, 1}}, {},
                                          {.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}},
                                          {y.data(), {1, 5, 1}})
                    .ok());
    const float inf = std::numeric_limits<float>::infinity();
    EXPECT_EQ(y[0], inf);           // 1 * Inf; the other tap is padding
    EXPECT_TRUE(std::isnan(y[1]));  // 0 * Inf
    EXPECT_EQ(y[2], -inf);
    EXPECT_EQ(y[3], inf);
    EXPECT_EQ(y[4], 8);  // Inf would meet padding
}

// Weights of 2^40 taps, of which four are inside: time and memory are those of four.
TEST(exact_convolution, taps_outside_cost_nothing) {
    constexpr std::int64_t taps = std::int64_t{1} << 40;
    const std::vector<float> x{1, 2, 3, 4};
    const float w = 0.5F;
    float y = 0;
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}, .pads_begin = {taps - 4}, .pads_end = {0}};
    ASSERT_TRUE(
        exact::convolution<float>({x.data(), {1, 4, 1}}, {&w, {{taps, 1, 1}, {0, 0, 0}}}, {}, a, {&y, {1, 1, 1}}).ok());
    EXPECT_EQ(y, 5);
    std::vector<float> dx(4);
    ASSERT_TRUE(exact::convolution_backward_data<float>({&y, {1, 1, 1}}, {&w, {{taps, 1, 1}, {0, 0, 0}}}, a,
                                                        {dx.data(), {1, 4, 1}})
                    .ok());
    EXPECT_EQ(dx, (std::vector<float>{2.5F, 2.5F, 2.5F, 2.5F}));
}

// ----------------------------------------------------------------------------------------------------- partial results

struct layer {
    std::int64_t images = 8;
    extents image{1, 9, 7, 5};  // NXC
    extents gradient{1, 9, 7, 19};
    extents weights{3, 3, 5, 19};
    gk::convolution_attributes attributes{
        .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    std::vector<float> x = std::vector<float>(8 * 9 * 7 * 5);
    std::vector<float> dy = std::vector<float>(8 * 9 * 7 * 19);

    layer() {
        random_source random("exact.partial");
        for (float& v : x) v = std::ldexp(random.real(-2, 2), static_cast<int>(random.integer(-30, 30)));
        for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = i % 3 == 1 ? -dy[i - 1] : random.real(-2, 2);
    }
    static extents batch(extents e, std::int64_t n) {
        e[0] = n;
        return e;
    }
    /// Exact sums over images [first, last).
    std::vector<accumulator> sums(std::int64_t first, std::int64_t last) const {
        std::vector<accumulator> dw(9 * 5 * 19);
        const auto s = exact::convolution_backward_weights<float>(
            gk::tensor_view<const float>(x.data() + first * 9 * 7 * 5, batch(image, last - first)),
            {dy.data() + first * 9 * 7 * 19, batch(gradient, last - first)}, attributes,
            gk::tensor_view<accumulator>(dw.data(), weights));
        EXPECT_TRUE(s.ok()) << gk::to_string(s);
        return dw;
    }
    std::vector<float> whole() const {
        std::vector<float> dw(9 * 5 * 19);
        EXPECT_TRUE((exact::convolution_backward_weights<float, float>({x.data(), batch(image, images)},
                                                                       {dy.data(), batch(gradient, images)}, attributes,
                                                                       {dw.data(), weights})
                         .ok()));
        return dw;
    }
};

std::vector<float> rounded(const std::vector<accumulator>& sums) {
    std::vector<float> v;
    for (const accumulator& a : sums) v.push_back(a.rounded<float>());
    return v;
}

TEST(exact_partial_sums, of_workers_give_the_bits_of_one_in_any_order) {
    const layer l;
    const std::vector<float> expected = l.whole();
    random_source random("exact.workers");
    for (const std::int64_t workers : {2, 3, 8}) {
        std::vector<std::vector<accumulator>> partial(static_cast<std::size_t>(workers));
        std::vector<std::thread> threads;
        for (std::int64_t w = 0; w < workers; ++w)
            threads.emplace_back([&, w] {
                partial[static_cast<std::size_t>(w)] = l.sums(w * l.images / workers, (w + 1) * l.images / workers);
            });
        for (std::thread& t : threads) t.join();
        for (int order = 0; order < 6; ++order) {
            auto parts = partial;
            if (order == 1) std::reverse(parts.begin(), parts.end());
            if (order > 1) random.shuffle(parts);
            const bool as_tree = order % 2 == 0;
            while (parts.size() > 1) {  // one after another, or neighbours
                for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
                    for (std::size_t k = 0; k < parts[i].size(); ++k) parts[i][k] += parts[i + 1][k];
                    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
                    if (!as_tree) break;
                }
            }
            EXPECT_TRUE(same_bits(rounded(parts[0]), expected)) << workers << " workers, order " << order;
        }
    }
}

TEST(exact_partial_sums, accumulating_calls_go_on_with_a_sum) {
    const layer l;
    std::vector<accumulator> dw = l.sums(0, 3);
    const auto s = exact::convolution_backward_weights<float>(
        gk::tensor_view<const float>(l.x.data() + 3 * 9 * 7 * 5, layer::batch(l.image, 5)),
        {l.dy.data() + 3 * 9 * 7 * 19, layer::batch(l.gradient, 5)}, l.attributes,
        gk::tensor_view<accumulator>(dw.data(), l.weights), {}, {.plan = {.output = output_mode::accumulate}});
    ASSERT_TRUE(s.ok());
    EXPECT_TRUE(same_bits(rounded(dw), l.whole()));
    // Sums in floats are not exact, so that the tests above can fail.
    std::vector<float> folded = rounded(l.sums(0, 3));
    const std::vector<float> rest = rounded(l.sums(3, 8));
    for (std::size_t i = 0; i < folded.size(); ++i) folded[i] += rest[i];
    EXPECT_FALSE(same_bits(folded, l.whole()));
}

// ------------------------------------------------------------------------------------------------ the state of threads

/// Inputs of which some are subnormal, and results that are.
struct small_numbers {
    std::vector<float> x = std::vector<float>(9 * 7 * 5);
    std::vector<float> w = std::vector<float>(9 * 5 * 19);

    small_numbers() {
        random_source random("exact.environment");
        for (float& v : x) v = std::ldexp(random.real(-2, 2), -10);
        for (float& v : w) v = std::ldexp(random.real(-2, 2), static_cast<int>(random.integer(-140, -118)));
        x[3] = 0x1p-140F;
    }
};
struct results {
    std::vector<float> y = std::vector<float>(9 * 7 * 19);
    std::vector<float> mean = std::vector<float>(4 * 3 * 5);
    std::vector<float> norm = std::vector<float>(4 * 3 * 5);

    explicit results(const small_numbers& n) {
        const extents image{1, 9, 7, 5};
        EXPECT_TRUE(exact::convolution<float>(
                        {n.x.data(), image}, {n.w.data(), {3, 3, 5, 19}}, {},
                        {.strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}},
                        {y.data(), {1, 9, 7, 19}})
                        .ok());
        const gk::avg_pool_attributes mean_of{.kernel = {3, 3}, .strides = {2, 2}};
        const gk::lp_pool_attributes norm_of{.kernel = {3, 3}, .strides = {2, 2}};
        EXPECT_TRUE(exact::avg_pool<float>({n.x.data(), image}, mean_of, {mean.data(), {1, 4, 3, 5}}).ok());
        EXPECT_TRUE(exact::lp_pool<float>({n.x.data(), image}, norm_of, {norm.data(), {1, 4, 3, 5}}).ok());
    }
};

TEST(exact, results_do_not_depend_on_the_rounding_mode_or_on_flushed_subnormals) {
    const small_numbers l;
    const results expected(l);
    EXPECT_TRUE(
        std::any_of(expected.y.begin(), expected.y.end(), [](float v) { return v != 0 && std::fabs(v) < 0x1p-126F; }));
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        ASSERT_EQ(std::fesetround(mode), 0);
        const results got(l);
        std::fesetround(FE_TONEAREST);
        EXPECT_TRUE(same_bits(got.y, expected.y)) << mode;
        EXPECT_TRUE(same_bits(got.mean, expected.mean)) << mode;
        EXPECT_TRUE(same_bits(got.norm, expected.norm)) << mode;
    }
#if defined(__SSE2__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
    const results got(l);
    _mm_setcsr(before);
    EXPECT_TRUE(same_bits(got.y, expected.y));
    EXPECT_TRUE(same_bits(got.mean, expected.mean));
    EXPECT_TRUE(same_bits(got.norm, expected.norm));
#endif
}

// --------------------------------------------------------------------------------------------------------------- pools

TEST(exact_pool, divides_once_and_takes_one_root) {
    const std::vector<float> x{1e30F, 1, -1e30F};
    float y = 0;
    ASSERT_TRUE(exact::avg_pool<float>({x.data(), {1, 3, 1}}, {.kernel = {3}, .strides = {1}}, {&y, {1, 1, 1}}).ok());
    EXPECT_EQ(y, 1.0F / 3);
    // 1/2 + 1/3 + 1/6 is 1, of windows of two, three and six elements; every quotient alone is rounded.
    const std::vector<float> dy{1, 1};
    std::vector<float> dx(3);
    ASSERT_TRUE(exact::avg_pool_backward<float>(
                    {dy.data(), {1, 2, 1}},
                    {.kernel = {3}, .strides = {2}, .pads_begin = {1}, .pads_end = {1}, .exclude_pad = true},
                    {dx.data(), {1, 3, 1}})
                    .ok());
    EXPECT_EQ(dx, (std::vector<float>{0.5F, 1, 0.5F}));
    // The square of 2^100 is no f32, the norm is.
    const std::vector<float> z{0x3p100F, 0x4p100F};
    ASSERT_TRUE(exact::lp_pool<float>({z.data(), {1, 2, 1}}, {.kernel = {2}, .strides = {1}}, {&y, {1, 1, 1}}).ok());
    EXPECT_EQ(y, 0x5p100F);
    const std::vector<float> tiny{0x3p-148F, 0x4p-148F};
    ASSERT_TRUE(exact::lp_pool<float>({tiny.data(), {1, 2, 1}}, {.kernel = {2}, .strides = {1}}, {&y, {1, 1, 1}}).ok());
    EXPECT_EQ(y, 0x5p-148F);
}

TEST(exact_pool, ties_of_roots_and_quotients_are_seen_from_far_away) {
    // (1 + 2^-8)^2 is a sum of four squares, and 1 + 2^-8 is a tie in bf16: to even, unless the sum is a little larger.
    for (const float more : {0.0F, 0x1p-20F, 0x1p-60F, 0x1p-100F}) {
        std::vector<bfloat16> x;
        for (const float v : {1.0F, 0x1p-4F, 0x1p-4F, 0x1p-8F, more}) x.emplace_back(v);
        bfloat16 y{};
        ASSERT_TRUE(
            exact::lp_pool<bfloat16>({x.data(), {1, 5, 1}}, {.kernel = {5}, .strides = {1}}, {&y, {1, 1, 1}}).ok());
        EXPECT_EQ(static_cast<float>(y), more == 0 ? 1 : 1 + 0x1p-7F) << more;
    }
    // 1 + 3 * 2^-24 / 3, and what a second window adds.
    for (const float more : {0.0F, 0x1p-100F}) {
        const std::vector<float> dy{0x3p-24F, more};
        std::vector<float> dx{0, 1, 0};
        ASSERT_TRUE(exact::avg_pool_backward<float>(
                        {dy.data(), {1, 2, 1}}, {.kernel = {2}, .strides = {1}, .divisor_override = 3},
                        {dx.data(), {1, 3, 1}}, {.plan = {.output = output_mode::accumulate}})
                        .ok());
        EXPECT_EQ(dx[1], more == 0 ? 1 : 1 + 0x1p-23F) << more;
    }
}

TEST(exact_pool, gradients_of_many_divisors_are_one_fraction) {
    // Windows of 2 to 40 elements reach the first pixel: their common multiple has more than 64 bits.
    constexpr std::int64_t size = 40;
    std::vector<float> dy(39, 1.0F);
    std::vector<float> dx(size);
    ASSERT_TRUE(
        exact::avg_pool_backward<float>({dy.data(), {1, 39, 1}},
                                        {.kernel = {size}, .strides = {1}, .pads_begin = {38}, .exclude_pad = true},
                                        {dx.data(), {1, size, 1}})
            .ok());
    long double sum = 0;
    for (int i = 2; i <= 40; ++i) sum += 1.0L / i;
    EXPECT_EQ(dx[0], static_cast<float>(sum));
    // The same from the other end, where divisors descend.
    ASSERT_TRUE(exact::avg_pool_backward<float>(
                    {dy.data(), {1, 39, 1}}, {.kernel = {size}, .strides = {1}, .pads_end = {38}, .exclude_pad = true},
                    {dx.data(), {1, size, 1}})
                    .ok());
    EXPECT_EQ(dx[size - 1], static_cast<float>(sum));
}

TEST(exact_pool, signs_of_zeros) {
    const std::vector<float> x{-0.0F, -0.0F, 2, -2};
    const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
    for (const std::int64_t divisor : {4, -4}) {
        for (const float before : {0.0F, -0.0F}) {
            std::vector<float> y(2, before);
            const gk::avg_pool_attributes a{.kernel = {2}, .strides = {2}, .divisor_override = divisor};
            ASSERT_TRUE(exact::avg_pool<float>({x.data(), {1, 4, 1}}, a, {y.data(), {1, 2, 1}}).ok());
            for (const float v : y) EXPECT_EQ(bits(v), bits(divisor < 0 ? -0.0F : 0.0F));
            y = {before, before};
            ASSERT_TRUE(exact::avg_pool<float>({x.data(), {1, 4, 1}}, a, {y.data(), {1, 2, 1}},
                                               {.plan = {.output = output_mode::accumulate}})
                            .ok());
            for (const float v : y) EXPECT_EQ(bits(v), bits(divisor < 0 ? before : 0.0F));
        }
    }
    std::vector<float> y(1);
    ASSERT_TRUE(
        exact::max_pool<float>({x.data(), {1, 2, 1}}, {.kernel = {2}, .strides = {1}}, {y.data(), {1, 1, 1}}).ok());
    EXPECT_EQ(bits(y[0]), bits(-0.0F));  // the element
    const float zero = 0;
    ASSERT_TRUE(exact::max_pool<float>({&zero, {1, 1, 1}}, {.kernel = {1}, .strides = {1}}, {y.data(), {1, 1, 1}}, {},
                                       {.plan = {.output = output_mode::accumulate}})
                    .ok());
    EXPECT_EQ(bits(y[0]), 0U);  // -0 plus +0
    const float w = -1;
    ASSERT_TRUE(exact::convolution<float>({x.data(), {1, 1, 1}}, {&w, {1, 1, 1}}, {},
                                          {.strides = {1}, .dilations = {1}}, {y.data(), {1, 1, 1}})
                    .ok());
    EXPECT_EQ(bits(y[0]), 0U);
}

TEST(exact_pool, has_the_references_bits_where_those_do_not_round) {
    random_source random("exact.pools");
    for (int i = 0; i < 150; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        gk::avg_pool_attributes avg;
        const auto r = static_cast<std::size_t>(random.integer(1, 3));
        extents space;
        for (std::size_t k = 0; k < r; ++k) {
            avg.kernel.push_back(random.integer(1, 4));
            avg.strides.push_back(random.integer(1, 3));
            avg.dilations.push_back(random.integer(1, 2));
            avg.pads_begin.push_back(random.integer(0, 3));
            avg.pads_end.push_back(random.integer(0, 3));
            space.push_back(random.integer(1, r == 3 ? 5 : 9));
        }
        avg.auto_pad = random.pick({gk::auto_pad::none, gk::auto_pad::same_upper, gk::auto_pad::same_lower});
        avg.rounding_type =
            random.pick({gk::rounding_type::floor, gk::rounding_type::ceil, gk::rounding_type::ceil_torch});
        avg.data_format = random.pick({data_format::nxc, data_format::ncx});
        avg.divisor_override = random.pick<std::int64_t>({8, -4, 1});
        gk::lp_pool_attributes lp{.kernel = avg.kernel,
                                  .strides = avg.strides,
                                  .pads_begin = avg.pads_begin,
                                  .pads_end = avg.pads_end,
                                  .dilations = avg.dilations,
                                  .auto_pad = avg.auto_pad,
                                  .rounding_type = avg.rounding_type,
                                  .data_format = avg.data_format};
        gk::max_pool_attributes max{.kernel = avg.kernel,
                                    .strides = avg.strides,
                                    .pads_begin = avg.pads_begin,
                                    .pads_end = avg.pads_end,
                                    .dilations = avg.dilations,
                                    .auto_pad = avg.auto_pad,
                                    .rounding_type = avg.rounding_type,
                                    .data_format = avg.data_format};
        max.ignore_nan = random.chance(1, 2);
        max.index_base = random.pick({gk::index_base::tensor, gk::index_base::plane, gk::index_base::image});
        max.storage_order = random.pick({gk::storage_order::row_major, gk::storage_order::column_major});
        const extents large = activation(avg.data_format, random.integer(0, 2), random.integer(1, 3), space);
        const auto inferred = gk::shape::avg_pool_shapes(large, avg, {}, true, 4);
        if (!inferred) continue;
        const extents small = inferred->small_shape;
        const test_tensor<float> x(large, random_input_strides(random, large));
        const test_tensor<float> dy(small, random_input_strides(random, small));
        const auto value = [&](std::int64_t) { return static_cast<float>(random.integer(-4, 4)); };
        x.fill(value);
        dy.fill(value);
        const bool with_nan = random.chance(1, 3) && x.count() > 0;
        const gk::call_options options{
            .plan = {.output = random.pick({output_mode::overwrite, output_mode::accumulate})}};
        const auto compare = [&](const char* what, const extents& shape, const auto& run_exact_form,
                                 const auto& run_plain) {
            SCOPED_TRACE(what);
            test_tensor<float> got(shape, random_output_strides(random, shape));
            test_tensor<float> expected(shape);
            if (options.plan.output == output_mode::accumulate) {
                got.fill([](std::int64_t k) { return static_cast<float>(k % 7); });
                expected.fill([](std::int64_t k) { return static_cast<float>(k % 7); });
            }
            ASSERT_TRUE(run_exact_form(got.view()).ok());
            ASSERT_TRUE(run_plain(expected.view()).ok());
            EXPECT_TRUE(got.equals(expected));
            EXPECT_TRUE(got.surroundings_intact());
        };
        const auto X = x.const_view();
        const auto DY = dy.const_view();
        compare(
            "avg_pool", small, [&](auto out) { return exact::avg_pool<float>(X, avg, out, options); },
            [&](auto out) { return gk::ref::avg_pool<float>(X, avg, out, options); });
        compare(
            "avg_pool_backward", large,
            [&](auto out) { return exact::avg_pool_backward<float>(DY, avg, out, options); },
            [&](auto out) { return gk::ref::avg_pool_backward<float>(DY, avg, out, options); });
        if (options.plan.output == output_mode::overwrite) {
            compare(
                "lp_pool", small, [&](auto out) { return exact::lp_pool<float>(X, lp, out, options); },
                [&](auto out) { return gk::ref::lp_pool<float>(X, lp, out, options); });
        }
        test_tensor<float> norms(small);
        norms.fill([&](std::int64_t) { return random.pick({1.0F, 2.0F, -4.0F, 0.0F, 0.5F}); });
        compare(
            "lp_pool_backward", large,
            [&](auto out) { return exact::lp_pool_backward<float>(X, norms.const_view(), DY, lp, out, options); },
            [&](auto out) { return gk::ref::lp_pool_backward<float>(X, norms.const_view(), DY, lp, out, options); });
        if (with_nan)
            for (int k = 0; k < 3; ++k)
                x.set(random.integer(0, x.count() - 1), std::numeric_limits<float>::quiet_NaN());
        test_tensor<std::int64_t> indices(small);
        test_tensor<std::int64_t> expected_indices(small);
        compare(
            "max_pool", small, [&](auto out) { return exact::max_pool<float>(X, max, out, indices.view(), options); },
            [&](auto out) { return gk::ref::max_pool<float>(X, max, out, expected_indices.view(), options); });
        for (std::int64_t k = 0; k < indices.count(); ++k) ASSERT_EQ(indices[k], expected_indices[k]);
        compare(
            "max_pool_backward", large,
            [&](auto out) { return exact::max_pool_backward<float>(X, DY, max, out, options); },
            [&](auto out) { return gk::ref::max_pool_backward<float>(X, DY, max, out, options); });
        const gk::max_pool_indices_attributes by_index{
            .data_format = max.data_format, .index_base = max.index_base, .storage_order = max.storage_order};
        if (max.index_base == gk::index_base::tensor)  // indices that point anywhere
            for (std::int64_t k = 0; k < indices.count(); ++k)
                if (random.chance(1, 3)) indices[k] = random.integer(-1, x.count() - 1);
        compare(
            "max_pool_backward_from_indices", large,
            [&](auto out) {
                return exact::max_pool_backward_from_indices<float>(DY, indices.const_view(), by_index, out, options);
            },
            [&](auto out) {
                return gk::ref::max_pool_backward_from_indices<float>(DY, indices.const_view(), by_index, out, options);
            });
    }
}

// -------------------------------------------------------------------------------------------------------------- errors

/// Runs gradients of weights and bias of `images` images, whose first is image `first` of the tensors.
template <class Run>
void expect_each_image_alone(std::size_t images, std::size_t weights, std::size_t channels, const Run& run) {
    std::vector<float> dw(images * weights, 7);
    std::vector<float> db(images * channels, 7);
    ASSERT_TRUE(run(0, images, dw.data(), db.data(), {.plan = {.summation = gk::summation::per_image}}));
    for (std::size_t n = 0; n < images; ++n) {
        std::vector<float> one(weights, 8);
        std::vector<float> bias(channels, 8);
        ASSERT_TRUE(run(n, 1, one.data(), bias.data(), {}));
        for (std::size_t i = 0; i < weights; ++i) ASSERT_EQ(dw[n * weights + i], one[i]) << n << ' ' << i;
        for (std::size_t i = 0; i < channels; ++i) ASSERT_EQ(db[n * channels + i], bias[i]) << n << ' ' << i;
    }
}

TEST(exact, gradients_per_image_are_those_of_each_image_alone) {
    constexpr std::size_t images = 3;
    std::vector<float> small(images * 12 * 4);
    std::vector<float> large(images * 12 * 6);
    std::uint32_t state = 1;
    for (std::vector<float>* v : {&small, &large})
        for (float& x : *v)
            x = static_cast<float>(static_cast<std::int32_t>(state = state * 1664525U + 1013904223U)) / 3e7F;
    // (N, 12, 6) and (N, 12, 4), a kernel of 3, pads of 1
    expect_each_image_alone(images, 3 * 6 * 4, 4,
                            [&](std::size_t first, std::size_t count, float* dw, float* db, const gk::call_options& o) {
                                const auto n = static_cast<std::int64_t>(count);
                                return exact::convolution_backward_weights<float>(
                                    gk::tensor_view<const float>{large.data() + first * 72, {n, 12, 6}},
                                    gk::tensor_view<const float>{small.data() + first * 48, {n, 12, 4}},
                                    {.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}},
                                    gk::tensor_view<float>{dw, {3, 6, 4}}, gk::tensor_view<float>{db, {4}}, o);
                            });
    expect_each_image_alone(images, 3 * 4 * 6, 6,
                            [&](std::size_t first, std::size_t count, float* dw, float* db, const gk::call_options& o) {
                                const auto n = static_cast<std::int64_t>(count);
                                return exact::conv_transpose_backward_weights<float>(
                                    gk::tensor_view<const float>{small.data() + first * 48, {n, 12, 4}},
                                    gk::tensor_view<const float>{large.data() + first * 72, {n, 12, 6}},
                                    {.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}},
                                    gk::tensor_view<float>{dw, {3, 4, 6}}, gk::tensor_view<float>{db, {6}}, o);
                            });
}

TEST(exact, mistakes_have_the_references_errors_and_nothing_is_written) {
    std::vector<float> data(64, 1.0F);
    std::vector<float> out(64, 7.0F);
    std::vector<std::int64_t> index(64, 99);
    const extents four{1, 4, 1};
    const gk::tensor_view<const float> v(data.data(), four);
    const gk::tensor_view<const float> none(nullptr, four);
    const gk::tensor_view<const float> odd(data.data(), extents{1, 3, 1});
    const gk::tensor_view<float> to(out.data(), four);
    const gk::tensor_view<const std::int64_t> indices(index.data(), four);
    std::vector<std::array<std::string, 2>> texts;
    const auto both = [&](const gk::status& got, const gk::status& expected) {
        EXPECT_FALSE(got.ok());
        texts.push_back({gk::to_string(got), gk::to_string(expected)});
    };
    const gk::convolution_attributes conv{.strides = {0}, .dilations = {1}};
    const gk::conv_transpose_attributes tran{.strides = {1}, .dilations = {0}};
    const gk::convolution_attributes good{.strides = {1}, .dilations = {1}};
    const gk::conv_transpose_attributes fine{.strides = {1}, .dilations = {1}};
    const gk::avg_pool_attributes avg{.kernel = {2}, .strides = {2}};
    const gk::lp_pool_attributes lp{.kernel = {2}, .strides = {2}};
    const gk::max_pool_attributes max{.kernel = {2}, .strides = {2}};
    namespace ref = gk::ref;
    for (const auto& a : {conv, good}) {
        for (const auto& w : {v, none, odd}) {
            both(exact::convolution<float>(v, w, {}, a, to), ref::convolution<float>(v, w, {}, a, to));
            both(exact::convolution_backward_data<float>(v, w, a, to),
                 ref::convolution_backward_data<float>(v, w, a, to));
            both(exact::convolution_backward_weights<float, float>(v, w, a, to, to),
                 ref::convolution_backward_weights<float, float>(v, w, a, to, to));
        }
    }
    for (const auto& a : {tran, fine}) {
        for (const auto& w : {none, odd}) {
            both(exact::conv_transpose<float>(v, w, {}, a, to), ref::conv_transpose<float>(v, w, {}, a, to));
            both(exact::conv_transpose_backward_data<float>(v, w, a, to),
                 ref::conv_transpose_backward_data<float>(v, w, a, to));
            both(exact::conv_transpose_backward_weights<float, float>(v, w, a, to, to),
                 ref::conv_transpose_backward_weights<float, float>(v, w, a, to, to));
        }
    }
    both(exact::bias_backward<float, float>(v, {}, to), ref::bias_backward<float, float>(v, {}, to));
    both(exact::avg_pool<float>(v, avg, to), ref::avg_pool<float>(v, avg, to));
    both(exact::avg_pool_backward<float>(v, avg, to), ref::avg_pool_backward<float>(v, avg, to));
    both(exact::lp_pool<float>(v, lp, to), ref::lp_pool<float>(v, lp, to));
    both(exact::lp_pool_backward<float>(v, odd, v, lp, to), ref::lp_pool_backward<float>(v, odd, v, lp, to));
    both(exact::max_pool<float>(v, max, to), ref::max_pool<float>(v, max, to));
    both(exact::max_pool_backward<float>(v, odd, max, to), ref::max_pool_backward<float>(v, odd, max, to));
    both(exact::max_pool_backward_from_indices<float>(v, indices, {}, to),
         ref::max_pool_backward_from_indices<float>(v, indices, {}, to));
    for (const auto& [got, expected] : texts) EXPECT_EQ(got, expected);
    EXPECT_EQ(out, std::vector<float>(64, 7.0F));
}

TEST(exact, empty_batches_have_sums_of_no_terms) {
    std::vector<float> dw(4, 7.0F);
    std::vector<float> db(1, 7.0F);
    const float none = 0;
    ASSERT_TRUE((exact::convolution_backward_weights<float, float>({&none, {0, 5, 4}}, {&none, {0, 5, 1}},
                                                                   {.strides = {1}, .dilations = {1}},
                                                                   {dw.data(), {1, 4, 1}}, {db.data(), {1}})
                     .ok()));
    EXPECT_EQ(dw, std::vector<float>(4, 0.0F));
    EXPECT_EQ(db[0], 0.0F);
}

}  // namespace
}  // namespace gradkern_test
