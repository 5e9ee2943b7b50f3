// depthwise_lines against depthwise, bit for bit: uneven pads, planes of all small sizes, numbers that are not finite.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "support/conv_cases.hpp"
#include "support/random.hpp"

namespace gradkern_test {
namespace {

struct axis_case {
    std::int64_t size, kernel, stride, dilation, pad_begin, pad_end;
    [[nodiscard]] std::int64_t outputs() const {
        const std::int64_t rest = size + pad_begin + pad_end - (kernel - 1) * dilation - 1;
        return rest < 0 ? 0 : rest / stride + 1;
    }
};

conv_case depthwise_case(conv_operator op, std::int64_t batch, std::int64_t channels,
                         std::initializer_list<axis_case> axes) {
    constexpr auto format = gk::data_format::ncx;
    conv_case c{.op = op};
    gk::extents large, small, kernel;
    for (const axis_case& a : axes) {
        large.push_back(a.size);
        small.push_back(a.outputs());
        kernel.push_back(a.kernel);
        c.conv.strides.push_back(a.stride);
        c.conv.dilations.push_back(a.dilation);
        c.conv.pads_begin.push_back(a.pad_begin);
        c.conv.pads_end.push_back(a.pad_end);
    }
    c.conv.groups = channels;
    c.conv.data_format = format;
    c.conv.weights_format = gk::weights_format::oix;
    c.large = activation(format, batch, channels, large);
    c.small = activation(format, batch, channels, small);
    c.weights = filter(c.conv.weights_format, channels, 1, kernel);
    if (op == conv_operator::convolution_backward_data) c.conv.diff_src_shape = c.large;
    return c;
}

enum class numbers : std::uint8_t { plain, hostile };

/// Zeros of both signs, numbers whose products are subnormal or underflow, infinities and NaN.
template <class T>
void make_hostile(random_source& random, const test_tensor<T>& x) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < x.count(); ++i)
        if (random.chance(1, 2))
            x.set(i, random.pick({0.0F, -0.0F, 1e-22F, -1e-22F, 1e-30F, -1e-30F, 1e-40F, -1e-40F}));
    if (x.count() == 0) return;
    for (int i = 0; i < 2; ++i)
        if (random.chance(1, 2))
            x.set(random.integer(0, x.count() - 1),
                  random.pick({infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 3e38F}));
}

/// Whether the path took the problem.
template <class T>
bool agrees(random_source& random, const conv_case& c, numbers kind, bool strided = false) {
    SCOPED_TRACE(c.text());
    GRADKERN_TRACE_SEED(random);
    const conv_tensors<T> t(random, c, strided);
    t.fill_reals(random);
    if (kind == numbers::hostile) {
        make_hostile(random, t.first);
        make_hostile(random, t.second);
    }
    test_tensor<T> expected(c.result());
    test_tensor<T> out(c.result());
    const gk::status s = t.run(c, out, gk::algorithm::depthwise_lines);
    if (refuses_algorithm(s)) return false;
    EXPECT_TRUE(s.ok()) << gk::to_string(s);
    EXPECT_TRUE(t.run(c, expected, gk::algorithm::depthwise).ok());
    EXPECT_TRUE(out.equals(expected));
    EXPECT_TRUE(out.surroundings_intact());
    return true;
}

template <class T>
class depthwise_lines : public ::testing::Test {};
using types = ::testing::Types<float, gk::float16, gk::bfloat16>;
TYPED_TEST_SUITE(depthwise_lines, types);

TYPED_TEST(depthwise_lines, random_planes_have_the_bits_of_depthwise) {
    random_source random("depthwise_lines");
    int taken = 0;
    for (int i = 0; i < 3000; ++i) {
        const std::int64_t kernel = random.pick({3, 3, 5, 7});
        const auto axis = [&](std::int64_t most, std::int64_t taps) {
            axis_case a{random.integer(1, most), taps, 1, 1, random.integer(0, taps), random.integer(0, taps)};
            while (a.outputs() == 0) ++a.size;
            return a;
        };
        axis_case planes = axis(random.chance(1, 3) ? 7 : 1, random.integer(1, 3));
        if (planes.size > 1) planes.stride = random.integer(1, 2);
        const axis_case rows = axis(24, kernel);
        const axis_case columns = axis(70, kernel);
        const auto op = random.pick({conv_operator::convolution, conv_operator::convolution_backward_data});
        const conv_case c =
            planes.size == 1 ? depthwise_case(op, random.integer(1, 3), random.integer(2, 9), {rows, columns})
                             : depthwise_case(op, random.integer(1, 3), random.integer(2, 9), {planes, rows, columns});
        taken +=
            agrees<TypeParam>(random, c, random.chance(1, 4) ? numbers::hostile : numbers::plain, random.chance(1, 4))
                ? 1
                : 0;
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GE(taken, 1000);
}

// On every small plane, and on one that is cut into blocks of rows.
TYPED_TEST(depthwise_lines, square_windows_on_every_small_plane) {
    random_source random("depthwise_lines.planes");
    for (const std::int64_t kernel : {3, 5, 7})
        for (std::int64_t size = 1; size <= 35; ++size)
            for (const auto op : {conv_operator::convolution, conv_operator::convolution_backward_data}) {
                const axis_case a{size, kernel, 1, 1, kernel / 2, kernel / 2};
                const bool taken = agrees<TypeParam>(random, depthwise_case(op, 2, 3, {a, a}), numbers::plain);
                EXPECT_TRUE(taken || size < kernel || kernel > 3) << size;
                if (::testing::Test::HasFailure()) return;
            }
    const axis_case tall{150, 3, 1, 1, 1, 1};
    EXPECT_TRUE(
        agrees<TypeParam>(random, depthwise_case(conv_operator::convolution, 1, 2, {tall, tall}), numbers::plain));
}

}  // namespace
}  // namespace gradkern_test
