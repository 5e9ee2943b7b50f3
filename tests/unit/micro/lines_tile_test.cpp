// The kernels of depthwise planes that lie as lines, against plain loops, bit for bit, in memory that notices stray reads and writes.

#include <gradkern/detail/micro/lines_tile.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
namespace simd = gradkern::detail::simd;
using gradkern_test::begins_with;
using gradkern_test::guarded_buffer;
using gradkern_test::random_source;
using gradkern_test::touching;

constexpr std::ptrdiff_t lanes = simd::lanes;

// A tile whose first line is number `first` of the `lines` there are, with `planes` plane taps.
void check_tile(std::ptrdiff_t taps, std::ptrdiff_t first, std::ptrdiff_t lines, std::ptrdiff_t planes,
                random_source& random) {
    SCOPED_TRACE(std::to_string(taps) + " taps, first line " + std::to_string(first) + " of " + std::to_string(lines) +
                 ", planes " + std::to_string(planes));
    GRADKERN_TRACE_SEED(random);
    const lines_function tile = lines_tile_for(taps);
    const auto side = random.chance(1, 2) ? touching::end : touching::begin;
    const std::ptrdiff_t row = lanes + taps - 1;
    const std::ptrdiff_t tap_floats = taps * taps * lanes;
    const guarded_buffer<float> a(static_cast<std::size_t>(planes * lines * row), side);
    const guarded_buffer<float> b(static_cast<std::size_t>(planes * tap_floats), side);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = random.real(-2.0F, 2.0F);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = random.real(-2.0F, 2.0F);
    std::vector<k_segment> list;
    for (std::ptrdiff_t d = 0; d < planes; ++d) list.push_back({d * lines * row, (planes - 1 - d) * tap_floats, 0});
    const std::ptrdiff_t c_row = lanes + random.integer(0, 3);
    guarded_buffer<float> c(static_cast<std::size_t>((lines_rows - 1) * c_row + lanes), side);
    c.poison();
    std::vector<float> expected(c.data(), c.data() + c.size());
    std::uint32_t inside = 0;
    for (std::ptrdiff_t i = 0; i < lines_rows + taps - 1; ++i)
        if (first + i >= 0 && first + i < lines) inside |= std::uint32_t{1} << i;
    const auto at = [](const guarded_buffer<float>& x, std::ptrdiff_t i) { return x[static_cast<std::size_t>(i)]; };
    for (std::ptrdiff_t i = 0; i < lines_rows; ++i)
        for (std::ptrdiff_t j = 0; j < lanes; ++j) {
            float sum = 0.0F;
            for (const k_segment& e : list)
                for (std::ptrdiff_t k = 0; k < taps; ++k) {
                    const std::ptrdiff_t line = first + i + k;
                    if (line < 0 || line >= lines) continue;
                    for (std::ptrdiff_t t = 0; t < taps; ++t)
                        sum = simd::fma(at(a, e.a + line * row + t + j), at(b, e.b + (k * taps + t) * lanes + j), sum);
                }
            expected[static_cast<std::size_t>(i * c_row + j)] = sum;
        }
    tile({.a = a.data(),
          .a_first = first * row,
          .a_row = row,
          .list = list.data(),
          .count = planes,
          .b = b.data(),
          .c = c.data(),
          .c_row = c_row,
          .inside = inside});
    ASSERT_TRUE(begins_with(c, expected));
    ASSERT_TRUE(c.zones_intact());
}

TEST(lines_tile, every_kernel_adds_the_terms_of_lines_that_are_inside) {
    random_source random("lines_tile");
    for (std::int64_t taps = 1; taps <= 16; ++taps) {
        if (lines_tile_for(taps) == nullptr) continue;
        for (std::ptrdiff_t first = -12; first <= 4; ++first)
            for (const std::ptrdiff_t lines : {1, 4, 9, 20})
                for (std::ptrdiff_t planes = 0; planes <= 3; ++planes) check_tile(taps, first, lines, planes, random);
    }
}

TEST(lines_tile, wide_windows_have_kernels_where_vectors_are_short) {
    EXPECT_NE(lines_tile_for(3), nullptr);
    for (const std::int64_t taps : {5, 7}) EXPECT_EQ(lines_tile_for(taps) != nullptr, lanes < 16);
    for (const std::int64_t taps : {0, 1, 2, 4, 6, 8, 9}) EXPECT_EQ(lines_tile_for(taps), nullptr);
}

}  // namespace
