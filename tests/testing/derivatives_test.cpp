// Checks of gradients without a reference: right ones pass, wrong ones do not, and the report says where.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/ref/lp_pool.hpp>
#include <gradkern/testing/gtest.hpp>

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::test::check_adjoint;
using gk::test::check_gradient;
using gk::test::derivative_report;

/// y = A x for the matrix A[i, j] = 1 / (1 + i + 2 j), (rows, columns).
template <class T>
struct matrix {
    std::size_t rows;
    std::size_t columns;
    bool transposed = false;
    std::size_t wrong = std::numeric_limits<std::size_t>::max();  ///< the entry that is 10 % too large
    void operator()(std::span<const T> x, std::span<T> y) const {
        std::fill(y.begin(), y.end(), T(0));
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j) {
                T a = T(1) / static_cast<T>(1 + i + 2 * j);
                if (i * columns + j == wrong) a *= T(1.1);
                transposed ? y[j] += a * x[i] : y[i] += a * x[j];
            }
    }
};

template <class T>
class derivatives : public ::testing::Test {};
using floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(derivatives, floats);

TYPED_TEST(derivatives, of_a_matrix_are_its_transpose) {
    using T = TypeParam;
    const matrix<T> a{30, 17};
    matrix<T> at{30, 17, true};
    for (std::uint64_t seed = 0; seed < 50; ++seed)
        ASSERT_TRUE(gk::test::is_ok(check_adjoint<T>(a, at, 17, 30, {.seed = seed})));
    const derivative_report right = check_adjoint<T>(a, at, 17, 30);
    EXPECT_LT(std::fabs(right.left - right.right), 1e-5);
    EXPECT_GT(std::fabs(right.left), 1e-3);
    for (std::size_t entry = 0; entry < 510; entry += 13) {
        at.wrong = entry;
        ASSERT_FALSE(check_adjoint<T>(a, at, 17, 30).ok()) << entry;
    }
    EXPECT_FALSE(check_adjoint<T>(a, a, 30, 30).ok()) << "A is not symmetric";
}

TYPED_TEST(derivatives, are_those_of_finite_differences) {
    using T = TypeParam;
    // y[i] = x[i]^3 + x[0]: the gradient of v^T y is 3 x[i]^2 v[i], and the sum of v in the first.
    const auto f = [](std::span<const T> x, std::span<T> y) {
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] * x[i] + x[0];
    };
    std::size_t wrong = 1000;
    const auto gradient = [&](std::span<const T> x, std::span<const T> v, std::span<T> g) {
        T sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            g[i] = 3 * x[i] * x[i] * v[i] * (i == wrong ? T(1.1) : T(1));
            sum += v[i];
        }
        g[0] += sum;
    };
    std::vector<T> x(40);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(0.7) + static_cast<T>(i % 7) / 10;
    for (std::uint64_t seed = 0; seed < 20; ++seed)
        ASSERT_TRUE(gk::test::is_ok(check_gradient<T>(f, gradient, x, 40, {.seed = seed})));
    for (const std::size_t at : {1U, 20U, 39U}) {
        wrong = at;
        // A v that is nearly 0 there hides the mistake: some seed finds it.
        bool found = false;
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
            const derivative_report r = check_gradient<T>(f, gradient, x, 40, {.seed = seed, .directions = 0});
            if (r.ok()) continue;
            found = true;
            EXPECT_EQ(r.coordinate, static_cast<std::int64_t>(at)) << r;
            EXPECT_EQ(r.direction, -1);
        }
        EXPECT_TRUE(found) << at;
    }
    wrong = 5;
    EXPECT_GE(check_gradient<T>(f, gradient, x, 40, {.seed = 2, .directions = 6, .coordinates = 0}).direction, 0);
}

TYPED_TEST(derivatives, of_outputs_that_are_not_written_are_wrong) {
    using T = TypeParam;
    const matrix<T> a{5, 4};
    const auto nothing = [](std::span<const T>, std::span<T>) {};
    const auto no_gradient = [](std::span<const T>, std::span<const T>, std::span<T>) {};
    EXPECT_FALSE(check_adjoint<T>(a, nothing, 4, 5).ok());
    EXPECT_FALSE(check_adjoint<T>(nothing, nothing, 4, 5).ok());
    const std::vector<T> x(4, T(1));
    EXPECT_FALSE(check_gradient<T>(a, no_gradient, x, 5).ok());
    EXPECT_FALSE(check_gradient<T>(nothing, no_gradient, x, 5).ok());
}

TEST(a_nan, in_one_direction_is_enough) {
    const matrix<float> a{5, 4};
    int calls = 0;
    const auto once = [&](std::span<const float> x, std::span<float> y) {
        a(x, y);
        if (++calls == 2) y[3] = std::numeric_limits<float>::quiet_NaN();
    };
    EXPECT_FALSE(check_adjoint<float>(once, matrix<float>{5, 4, true}, 4, 5).ok());
    EXPECT_GT(calls, 2);
}

TEST(callables, may_return_a_status) {
    int calls = 0;
    const auto fails = [&](std::span<const float>, std::span<float>) -> gk::status {
        ++calls;
        return gk::error{.code = gk::errc::invalid_shape, .op = "mine", .argument = "x"};
    };
    const derivative_report r = check_adjoint<float>(fails, matrix<float>{3, 3, true}, 3, 3);
    EXPECT_FALSE(r.ok());
    EXPECT_EQ(r.mistake.op, "mine");
    EXPECT_EQ(calls, 1);
    std::ostringstream text;
    text << r;
    EXPECT_NE(text.str().find("cannot be judged: mine: x"), std::string::npos) << text.str();
}

TEST(texts, show_both_numbers_and_the_place) {
    matrix<float> at{3, 4, true};
    at.wrong = 5;
    const derivative_report r = check_adjoint<float>(matrix<float>{3, 4}, at, 4, 3);
    std::ostringstream text;
    text << r;
    EXPECT_NE(text.str().find("wrong: "), std::string::npos) << text.str();
    EXPECT_NE(text.str().find(" against "), std::string::npos);
    EXPECT_NE(text.str().find("random direction " + std::to_string(r.direction)), std::string::npos);
    const ::testing::AssertionResult failure = gk::test::is_ok(r);
    EXPECT_FALSE(failure);
    EXPECT_EQ(std::string(failure.message()), text.str());
    std::vector<char> little(5);
    EXPECT_EQ(r.format(little), text.str().size());
}

// gradkern's own: the convolution and its data gradient, and its transposed one; with one attribute changed, they are no pair.
TEST(convolutions, and_their_gradients_are_adjoint) {
    const gk::extents large{2, 9, 8, 6};
    const gk::extents weights{3, 3, 3, 4};
    const gk::convolution_attributes a{
        .strides = {2, 1}, .dilations = {1, 2}, .pads_begin = {1, 2}, .pads_end = {0, 1}, .groups = 2};
    const gk::extents small = *gk::infer_convolution(large, weights, a);
    std::vector<float> w(3 * 3 * 3 * 4);
    ASSERT_TRUE(gk::test::fill(gk::tensor_view(w.data(), weights), gk::test::pattern::uniform, 1, 1).ok());
    const auto forward = [&](std::span<const float> x, std::span<float> y) {
        return gk::convolution<float>({x.data(), large}, {w.data(), weights}, {}, a, {y.data(), small});
    };
    const auto backward_with = [&](const gk::convolution_attributes& b) {
        return [&, b](std::span<const float> y, std::span<float> x) {
            return gk::convolution_backward_data<float>({y.data(), small}, {w.data(), weights}, b, {x.data(), large});
        };
    };
    EXPECT_TRUE(gk::test::is_ok(check_adjoint<float>(forward, backward_with(a), 2 * 9 * 8 * 6, 2 * 4 * 7 * 4)));
    gk::convolution_attributes b = a;
    b.pads_begin = {0, 2};
    b.pads_end = {1, 1};
    EXPECT_FALSE(check_adjoint<float>(forward, backward_with(b), 2 * 9 * 8 * 6, 2 * 4 * 7 * 4).ok());
    // The weight gradient is the adjoint of the convolution as a function of its weights.
    std::vector<float> x(2 * 9 * 8 * 6);
    ASSERT_TRUE(gk::test::fill(gk::tensor_view(x.data(), large), gk::test::pattern::uniform, 2, 0).ok());
    std::vector<std::byte> memory(std::size_t{1} << 18);
    const auto of_weights = [&](std::span<const float> v, std::span<float> y) {
        return gk::convolution<float>({x.data(), large}, {v.data(), weights}, {}, a, {y.data(), small});
    };
    const auto weight_gradient = [&](std::span<const float> y, std::span<float> v) {
        return gk::convolution_backward_weights<float, float>({x.data(), large}, {y.data(), small}, a,
                                                              {v.data(), weights}, {}, {.workspace = memory});
    };
    EXPECT_TRUE(gk::test::is_ok(check_adjoint<float>(of_weights, weight_gradient, w.size(), 2 * 4 * 7 * 4)));
}

/// A convolution of 8 channels, 3x3 windows and padding, of an n x n image. Its data gradient leaves the last `zeros` elements 0.
struct large_layer {
    gk::extents image;
    gk::extents weights{3, 3, 8, 8};
    gk::convolution_attributes a{.strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    std::vector<float> w = std::vector<float>(3 * 3 * 8 * 8);
    std::size_t zeros = 0;

    explicit large_layer(std::int64_t n) : image{1, n, n, 8} {
        EXPECT_TRUE(gk::test::fill(gk::tensor_view(w.data(), weights), gk::test::pattern::uniform, 1, 1).ok());
    }
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(image[1] * image[2] * 8); }
    gk::status operator()(std::span<const float> x, std::span<float> y) const {
        return gk::convolution<float>({x.data(), image}, {w.data(), weights}, {}, a, {y.data(), image});
    }
    [[nodiscard]] auto backward() const {
        return [this](std::span<const float> y, std::span<float> x) {
            const gk::status s =
                gk::convolution_backward_data<float>({y.data(), image}, {w.data(), weights}, a, {x.data(), image});
            std::fill(x.end() - static_cast<std::ptrdiff_t>(zeros), x.end(), 0.0F);
            return s;
        };
    }
    [[nodiscard]] derivative_report adjoint() const { return check_adjoint<float>(*this, backward(), size(), size()); }
    [[nodiscard]] derivative_report gradient(const gk::test::derivative_options& options) const {
        std::vector<float> x(size());
        EXPECT_TRUE(gk::test::fill(gk::tensor_view(x.data(), image), gk::test::pattern::uniform, 3).ok());
        return check_gradient<float>(
            *this,
            [&](std::span<const float>, std::span<const float> v, std::span<float> g) { return backward()(v, g); }, x,
            size(), options);
    }
};

TEST(large_layers, show_a_corner_and_a_row_of_zeros_to_the_adjoint_law) {
    for (const std::int64_t n : {32, 128, 512}) {
        large_layer layer(n);
        const derivative_report right = layer.adjoint();
        EXPECT_LT(right.ratio, 0.01) << n << ": no right kernel comes near the limit";
        layer.zeros = 8;
        EXPECT_FALSE(layer.adjoint().ok() && n < 512) << n << ": a pixel";
        layer.zeros = static_cast<std::size_t>(n) * 8;
        EXPECT_FALSE(layer.adjoint().ok()) << n << ": a row";
    }
}

TEST(large_layers, show_a_row_of_zeros_to_finite_differences_if_they_are_small) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        large_layer layer(8);
        EXPECT_TRUE(gk::test::is_ok(layer.gradient({.seed = seed})));
        layer.zeros = 8 * 8;
        found += layer.gradient({.seed = seed}).ok() ? 0 : 1;
    }
    EXPECT_EQ(found, 20);
}

// Rounding hides what a coordinate changes, in outputs that are large: no mistake of the gradient.
TYPED_TEST(derivatives, may_be_smaller_than_what_rounding_shows) {
    using T = TypeParam;
    for (const double slope : {1e-30, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.1}) {
        const auto f = [&](std::span<const T> x, std::span<T> y) {
            for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(slope) * x[i] + T(10);
        };
        const auto gradient = [&](std::span<const T>, std::span<const T> v, std::span<T> g) {
            for (std::size_t i = 0; i < v.size(); ++i) g[i] = static_cast<T>(slope) * v[i];
        };
        const std::vector<T> x(60, T(1));
        for (std::uint64_t seed = 0; seed < 20; ++seed)
            EXPECT_TRUE(gk::test::is_ok(check_gradient<T>(f, gradient, x, 60, {.seed = seed}))) << slope;
    }
}

// Kernels that round everywhere, as those by Fourier transforms do: each output and each gradient has a little of all others.
TEST(derivatives_with_errors_everywhere, are_right) {
    constexpr std::size_t n = 3000;
    const auto blur = [](std::span<const float> from, std::span<float> to, float factor) {
        double squares = 0;
        for (const float v : from) squares += static_cast<double>(v) * static_cast<double>(v);
        const auto noise = static_cast<float>(std::sqrt(squares / n)) * 1e-6F;
        for (std::size_t i = 0; i < n; ++i)
            to[i] = (i < n / 2 ? factor * from[i] : 0.0F) + ((i * 7) % 5 < 2 ? noise : -noise);
    };
    const auto f = [&](std::span<const float> x, std::span<float> y) { blur(x, y, 0.5F); };
    const auto gradient = [&](std::span<const float>, std::span<const float> v, std::span<float> g) {
        blur(v, g, 0.5F);
    };
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = 1 + static_cast<float>(i % 13) / 8;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        EXPECT_TRUE(gk::test::is_ok(check_gradient<float>(f, gradient, x, n, {.seed = seed})));
        EXPECT_TRUE(gk::test::is_ok(check_adjoint<float>(f, f, n, n, {.seed = seed})));
    }
}

// One sum of 200,000 terms, one by one in f32.
TEST(long_sums, are_right) {
    constexpr std::size_t n = 200'000;
    const auto sum = [](std::span<const float> x, std::span<float> y) {
        y[0] = 0;
        for (const float v : x) y[0] += v;
    };
    const auto copy = [](std::span<const float> y, std::span<float> x) { std::fill(x.begin(), x.end(), y[0]); };
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        EXPECT_TRUE(gk::test::is_ok(check_adjoint<float>(sum, copy, n, 1, {.seed = seed})));
        EXPECT_TRUE(gk::test::is_ok(check_adjoint<float>(copy, sum, 1, n, {.seed = seed})));
    }
}

// A coordinate at which the slope is 0, or nearly, has a difference quotient of the third derivative alone.
TYPED_TEST(derivatives, of_smooth_functions_are_right_where_they_vanish) {
    using T = TypeParam;
    using function = double (*)(double);
    const std::array<std::pair<function, function>, 3> functions{{
        {[](double x) { return x * x * x; }, [](double x) { return 3 * x * x; }},
        {[](double x) { return x - std::sin(x); }, [](double x) { return 1 - std::cos(x); }},
        {[](double x) { return x * std::fabs(x); }, [](double x) { return 2 * std::fabs(x); }},
    }};
    const std::vector<std::vector<T>> points{{T(0), T(0.5), T(-0.3), T(0.8)},
                                             {T(0), T(1), T(-1), T(0.5)},
                                             {T(0.02), T(0.1), T(0.2), T(0.3), T(0.4), T(0.5), T(0.55), T(0.6)}};
    for (std::size_t k = 0; k < functions.size(); ++k) {
        const function value = functions[k].first;  // clang 14 lets no lambda capture structured bindings
        const function slope = functions[k].second;
        const auto f = [&](std::span<const T> x, std::span<T> y) {
            for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(value(static_cast<double>(x[i])));
        };
        const auto gradient = [&](std::span<const T> x, std::span<const T> v, std::span<T> g) {
            for (std::size_t i = 0; i < v.size(); ++i)
                g[i] = static_cast<T>(slope(static_cast<double>(x[i])) * static_cast<double>(v[i]));
        };
        // |x| x has a kink in its slope: it is smooth on the scale of the step where that is small.
        const double step = k == 2 ? (sizeof(T) == 8 ? 0x1p-24 : 0x1p-10) : 0;
        for (const std::vector<T>& x : points)
            for (std::uint64_t seed = 0; seed < 50; ++seed)
                EXPECT_TRUE(gk::test::is_ok(check_gradient<T>(f, gradient, x, x.size(), {.seed = seed, .step = step})))
                    << k << ' ' << x.size() << ' ' << seed;
    }
}

// A few kinks among many elements do not count, with the step of f32.
TEST(rectifiers, are_right_where_many_hide_a_few_kinks) {
    using T = float;
    const auto f = [](std::span<const T> x, std::span<T> y) {
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = std::max(x[i], T(0));
    };
    const auto gradient = [](std::span<const T> x, std::span<const T> v, std::span<T> g) {
        for (std::size_t i = 0; i < v.size(); ++i) g[i] = x[i] > 0 ? v[i] : T(0);
    };
    std::vector<T> x(10'000);
    ASSERT_TRUE(gk::test::fill(gk::tensor_view(x.data(), {10'000}), gk::test::pattern::uniform, 1).ok());
    for (std::uint64_t seed = 0; seed < 5; ++seed)
        EXPECT_TRUE(gk::test::is_ok(check_gradient<T>(f, gradient, x, x.size(), {.seed = seed})));
}

TYPED_TEST(derivatives, of_which_none_was_checked_are_not_right) {
    using T = TypeParam;
    const matrix<T> a{5, 4};
    const matrix<T> at{5, 4, true};
    const std::vector<T> x(4, T(1));
    const auto gradient = [&](std::span<const T>, std::span<const T> v, std::span<T> g) { at(v, g); };
    const auto is_nothing = [](const derivative_report& r) {
        std::ostringstream text;
        text << r;
        return !r.ok() && r.judged_nothing() && r.checks == 0 && text.str() == "nothing was judged\n" &&
               !gk::test::is_ok(r);
    };
    EXPECT_TRUE(is_nothing(check_adjoint<T>(a, at, 4, 5, {.directions = 0})));
    EXPECT_TRUE(is_nothing(check_adjoint<T>(a, at, 4, 5, {.directions = -3})));
    EXPECT_TRUE(is_nothing(check_gradient<T>(a, gradient, x, 5, {.directions = 0, .coordinates = 0})));
    EXPECT_TRUE(is_nothing(check_gradient<T>(a, gradient, x, 5, {.directions = -1, .coordinates = -1})));
    EXPECT_EQ(check_gradient<T>(a, gradient, x, 5, {.directions = 0, .coordinates = 3}).checks, 3);
    EXPECT_EQ(check_gradient<T>(a, gradient, x, 5, {.directions = 2, .coordinates = 99}).checks, 6);
    EXPECT_EQ(check_adjoint<T>(a, at, 4, 5).checks, 4);
    // No elements, and steps that rounding takes away.
    EXPECT_TRUE(is_nothing(check_adjoint<T>([](auto, auto) {}, [](auto, auto) {}, 0, 0)));
    const std::vector<T> far(4, T(0x1p60));
    EXPECT_TRUE(is_nothing(check_gradient<T>(
        a, [](auto, auto, std::span<T> g) { std::fill(g.begin(), g.end(), T(12345)); }, far, 5)));
    // No limit is finite, so nothing can exceed it.
    const matrix<T> square{4, 4};
    EXPECT_TRUE(
        is_nothing(check_adjoint<T>(square, square, 4, 4, {.tolerance = std::numeric_limits<double>::infinity()})));
    EXPECT_FALSE(check_adjoint<T>(a, at, 4, 5, {.tolerance = -1}).ok());
}

TYPED_TEST(derivatives, of_norms_are_those_of_lp_pool_backward) {
    using T = TypeParam;
    const gk::lp_pool_attributes a{.kernel = {3}, .strides = {2}};
    const gk::extents large{1, 9, 2};
    const gk::extents small{1, 4, 2};
    std::vector<T> x(18);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(1) + static_cast<T>((i * 5) % 11) / 8;
    const auto f = [&](std::span<const T> in, std::span<T> out) {
        return gk::ref::lp_pool<T>({in.data(), large}, a, {out.data(), small});
    };
    const auto gradient = [&](std::span<const T> in, std::span<const T> v, std::span<T> g) {
        std::vector<T> norms(8);
        if (const gk::status s = f(in, norms); !s) return s;
        return gk::ref::lp_pool_backward<T>({in.data(), large}, {norms.data(), small}, {v.data(), small}, a,
                                            {g.data(), large});
    };
    EXPECT_TRUE(gk::test::is_ok(check_gradient<T>(f, gradient, x, 8)));
    const auto without_norms = [&](std::span<const T> in, std::span<const T> v, std::span<T> g) {
        const std::vector<T> ones(8, T(1));
        return gk::ref::lp_pool_backward<T>({in.data(), large}, {ones.data(), small}, {v.data(), small}, a,
                                            {g.data(), large});
    };
    EXPECT_FALSE(check_gradient<T>(f, without_norms, x, 8).ok());
}

}  // namespace
}  // namespace gradkern_test
