// The tile of one and a half vectors against plain loops, bit for bit, in memory that notices stray reads and writes.

#include <gradkern/detail/micro/one_and_a_half_tile.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
namespace simd = gradkern::detail::simd;
using gradkern_test::guarded_buffer;
using gradkern_test::random_source;

constexpr std::ptrdiff_t lanes = simd::lanes;

void fill(const guarded_buffer<float>& buffer, random_source& random) {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = random.real(-2.0F, 2.0F);
}

TEST(one_and_a_half_tile, sums_the_terms_of_each_row_in_order) {
    if constexpr (lanes > 1) {
        random_source random("one_and_a_half_tile");
        const std::ptrdiff_t used = lanes + lanes / 2;
        for (std::ptrdiff_t rows = 1; rows <= one_and_a_half_rows; ++rows)
            for (const std::ptrdiff_t a_step : {1, 7})
                for (const std::ptrdiff_t length : {0, 1, 2, 9}) {
                    SCOPED_TRACE("rows " + std::to_string(rows) + ", a_step " + std::to_string(a_step) + ", length " +
                                 std::to_string(length));
                    const std::array<k_segment, 2> list{{{0, 0, length}, {2, 3 * 2 * lanes, 1}}};
                    const std::ptrdiff_t a_reach = std::max(length, std::ptrdiff_t{1}) * a_step + 2;
                    guarded_buffer<float> a(static_cast<std::size_t>(rows * a_reach));
                    guarded_buffer<float> b(static_cast<std::size_t>((length + 4) * 2 * lanes));
                    guarded_buffer<float> c(static_cast<std::size_t>(rows * 2 * lanes));
                    fill(a, random);
                    fill(b, random);
                    fill(c, random);
                    const bool to_zeros = random.chance(1, 2);  // in place of what c holds
                    const std::array<float, static_cast<std::size_t>(2 * lanes)> zeros{};
                    std::array<const float*, one_and_a_half_rows> added{};
                    added.fill(zeros.data());
                    for (std::size_t x = 0; x < b.size(); x += 2 * lanes)  // the first half of each second vector twice
                        std::copy_n(b.data() + x + lanes, lanes / 2, b.data() + x + used);
                    std::vector<float> expected(c.data(), c.data() + c.size());
                    std::array<const float*, one_and_a_half_rows> from{};
                    std::array<float*, one_and_a_half_rows> to{};
                    for (std::ptrdiff_t i = 0; i < rows; ++i) {
                        from[static_cast<std::size_t>(i)] = a.data() + i * a_reach;
                        to[static_cast<std::size_t>(i)] = c.data() + i * 2 * lanes;
                        for (std::ptrdiff_t j = 0; j < used; ++j) {
                            float sum = 0.0F;
                            for (const k_segment& e : list)
                                for (std::ptrdiff_t k = 0; k < e.length; ++k)
                                    sum = simd::fma(a[static_cast<std::size_t>(i * a_reach + e.a + k * a_step)],
                                                    b[static_cast<std::size_t>(e.b + k * 2 * lanes + j)], sum);
                            float& one = expected[static_cast<std::size_t>(i * 2 * lanes + j)];
                            one = to_zeros ? sum : one + sum;
                        }
                    }
                    one_and_a_half_tiles(used)[rows - 1]({.list = list.data(),
                                                          .count = 2,
                                                          .rows = rows,
                                                          .a = from.data(),
                                                          .a_step = a_step,
                                                          .b = b.data(),
                                                          .b_step = 2 * lanes,
                                                          .c = to.data(),
                                                          .mode = tile_mode::add,
                                                          .added = to_zeros ? added.data() : nullptr});
                    for (std::ptrdiff_t i = 0; i < rows; ++i)  // behind the lanes c is anything
                        EXPECT_EQ(std::memcmp(to[static_cast<std::size_t>(i)], expected.data() + i * 2 * lanes,
                                              static_cast<std::size_t>(used) * sizeof(float)),
                                  0)
                            << "row " << i;
                    EXPECT_TRUE(c.zones_intact());
                }
    }
}

TEST(one_and_a_half_tile, serves_lanes_that_fill_half_of_a_second_vector_at_most) {
    for (std::ptrdiff_t used = 1; used <= 2 * lanes; ++used)
        EXPECT_EQ(fits_one_and_a_half(used), has_one_and_a_half_tile && used > lanes && used <= lanes + lanes / 2);
}

}  // namespace
