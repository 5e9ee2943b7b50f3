// The kernels of max pooling against their definitions: maxima of windows with their linear offsets, those of rows, and the
// gradients that a pixel gathers.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/detail/micro/window_gather.hpp>
#include <gradkern/detail/micro/window_max.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/shape/axis.hpp>

#include "support/random.hpp"

namespace {

namespace detail = gradkern::detail;
using gradkern_test::random_source;

constexpr std::int64_t lanes = gradkern::detail::simd::lanes;

/// A plane of channels, [row][column][channel], with ties and some NaN, and room for the results of windows.
struct plane {
    static constexpr std::int64_t rows = 6;
    static constexpr std::int64_t columns = 11;
    std::int64_t channels;
    std::int64_t width = (channels + lanes - 1) / lanes * lanes;  // results of a window
    std::vector<float> src = std::vector<float>(static_cast<std::size_t>(rows * columns * channels));
    std::vector<float> value = std::vector<float>(static_cast<std::size_t>(columns * width));
    std::vector<float> offset = value;
    std::vector<float> high = value;

    plane(std::int64_t c, random_source& random) : channels(c) {
        for (float& x : src) x = random.chance(1, 20) ? __builtin_nanf("") : static_cast<float>(random.integer(-2, 2));
    }
    [[nodiscard]] detail::window_results results() { return {value.data(), offset.data(), high.data(), width, width}; }
    /// Windows of kernel x kernel pixels side by side, `stride` columns apart.
    [[nodiscard]] detail::window_run windows(std::int64_t kernel, std::int64_t stride, std::int64_t count) const {
        detail::window_run r;
        r.taps = {1, kernel, kernel};
        r.read_step = {0, columns * channels, channels};
        r.offset_step = {0, columns, 1};
        r.windows = count;
        r.window_read = stride * channels;
        r.window_offset = stride;
        return r;
    }
    [[nodiscard]] float at(std::int64_t pixel, std::int64_t channel) const {
        return src[static_cast<std::size_t>(pixel * channels + channel)];
    }
};

/// The pixel of the maximum of a window, counted from the plane's first one.
std::int64_t best_pixel(const plane& p, std::int64_t kernel, std::int64_t column, std::int64_t channel,
                        bool ignore_nan) {
    std::int64_t best = column;
    for (std::int64_t h = 0; h < kernel; ++h)
        for (std::int64_t w = 0; w < kernel; ++w) {
            const std::int64_t pixel = h * plane::columns + column + w;
            const float x = p.at(pixel, channel);
            const float b = p.at(best, channel);
            const bool takes =
                ignore_nan ? x > b || (std::isnan(b) && !std::isnan(x)) : x > b || (std::isnan(x) && pixel != best);
            if (takes) best = pixel;
        }
    return best;
}

template <bool ignore_nan>
void expect_maxima(plane& p, std::int64_t kernel, std::int64_t stride, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t c = 0; c < p.channels; ++c) {
            const std::int64_t pixel = best_pixel(p, kernel, i * stride, c, ignore_nan);
            ASSERT_EQ(p.results().offset_at(i * p.width + c), pixel) << "window " << i << ", channel " << c;
            const float value = p.value[static_cast<std::size_t>(i * p.width + c)];
            ASSERT_TRUE(value == p.at(pixel, c) || (std::isnan(value) && std::isnan(p.at(pixel, c))));
        }
}

template <bool ignore_nan>
void check_kernels(std::int64_t channels, random_source& random) {
    plane p(channels, random);
    for (const std::int64_t kernel : {1, 2, 3, 5}) {
        for (const std::int64_t stride : {1, 2}) {
            const std::int64_t count = (plane::columns - kernel) / stride + 1;
            const detail::window_run run = p.windows(kernel, stride, count);
            std::fill(p.high.begin(), p.high.end(), 0.0F);
            detail::window_max<float, ignore_nan>(run, p.src.data(), channels, p.results());
            expect_maxima<ignore_nan>(p, kernel, stride, count);
            for (std::int64_t c = 0; c < channels; c += lanes) {  // a vector of channels
                detail::window_max_strided<float, ignore_nan>(run, p.src.data() + c, 1, std::min(lanes, channels - c),
                                                              p.results().at(0, c));
            }
            expect_maxima<ignore_nan>(p, kernel, stride, count);
        }
    }
}

TEST(window_max, kernels_find_the_first_maximum_or_the_last_nan) {
    random_source random("window_max.kernels");
    for (const std::int64_t channels : {std::int64_t{1}, lanes, lanes + 3, 4 * lanes, 5 * lanes + 1})
        check_kernels<false>(channels, random);
}
TEST(window_max, kernels_find_the_first_number_where_nan_loses) {
    random_source random("window_max.ignored");
    for (const std::int64_t channels : {std::int64_t{1}, lanes, lanes + 3, 4 * lanes, 5 * lanes + 1})
        check_kernels<true>(channels, random);
}

TEST(window_max, maxima_of_rows_are_those_of_windows) {
    random_source random("window_max.rows");
    for (const std::int64_t channels : {std::int64_t{2}, 4 * lanes + 1}) {
        plane p(channels, random);
        constexpr std::int64_t kernel = 3;
        constexpr std::int64_t count = plane::columns - kernel + 1;
        std::vector<std::vector<float>> kept;
        std::vector<detail::row_results<float>> rows;
        kept.reserve(2 * kernel);  // no pointer changes
        for (std::int64_t h = 0; h < kernel; ++h) {
            detail::window_run run = p.windows(kernel, 1, count);
            run.taps[1] = 1;
            float* const value = kept.emplace_back(p.value.size()).data();
            float* const offset = kept.emplace_back(p.value.size()).data();
            detail::window_max<float, false>(run, p.src.data() + h * plane::columns * channels, channels,
                                             detail::window_results{value, offset, nullptr, p.width, p.width});
            rows.push_back({value, offset, h * plane::columns});
        }
        std::fill(p.high.begin(), p.high.end(), 0.0F);
        detail::max_of_rows<false, float>({rows.data(), rows.size()}, count, p.width, channels, p.results());
        expect_maxima<false>(p, kernel, 1, count);
    }
}

TEST(window_max, windows_without_taps_are_minus_infinity_and_have_no_offset) {
    random_source random("window_max.none");
    plane p(lanes + 1, random);
    detail::window_max_of_none(p.windows(2, 1, 3), p.channels, p.results());
    for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t c = 0; c < p.channels; ++c) {
            EXPECT_EQ(p.value[static_cast<std::size_t>(i * p.width + c)], -gradkern::own::infinity<float>);
            EXPECT_EQ(p.results().offset_at(i * p.width + c), -1);
        }
}

/// One line of windows of one axis: each pixel adds the gradients of the windows whose maximum it is.
TEST(window_gather, pixels_add_the_gradients_of_their_windows) {
    random_source random("window_gather");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        gradkern::shape::axis a;
        a.kernel = random.integer(1, 5);
        a.stride = random.integer(1, 4);
        a.pad_begin = random.integer(0, a.kernel - 1);
        a.large = random.integer(a.kernel, 40);
        a.small = (a.large + a.pad_begin - a.kernel) / a.stride + 1;
        const std::int64_t channels = random.pick<std::int64_t>({1, lanes, lanes + 2, 4 * lanes + 1});
        const std::int64_t width = (channels + lanes - 1) / lanes * lanes;
        std::vector<float> offset(static_cast<std::size_t>(a.small * width));
        std::vector<float> gradient(offset.size());
        std::vector<float> expected(static_cast<std::size_t>(a.large * width));
        for (std::int64_t o = 0; o < a.small; ++o)
            for (std::int64_t c = 0; c < channels; ++c) {
                const auto taps = a.inside_taps(o);
                const std::int64_t at = a.position(o, taps.first + random.integer(0, taps.count - 1));
                const auto k = static_cast<std::size_t>(o * width + c);
                offset[k] = gradkern::own::bit_cast<float>(static_cast<std::uint32_t>(at));
                gradient[k] = random.real(-1.0F, 1.0F);
                expected[static_cast<std::size_t>(at * width + c)] += gradient[k];
            }
        std::vector<float> sums(expected.size());
        const detail::window_line<float> line{offset.data(), gradient.data()};
        detail::gather_gradients<float>({&line, 1}, {width, width, width}, a, 0, 0, a.large, 0, channels, sums.data(),
                                        detail::gather_prefetch<float>{});
        for (std::int64_t x = 0; x < a.large; ++x)
            for (std::int64_t c = 0; c < channels; ++c)
                ASSERT_EQ(sums[static_cast<std::size_t>(x * width + c)],
                          expected[static_cast<std::size_t>(x * width + c)]);
    }
}

}  // namespace
