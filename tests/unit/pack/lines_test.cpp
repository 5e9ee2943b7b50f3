// Planes packed as lines, and the way back, against plain loops, in memory that notices stray reads and writes.

#include <gradkern/detail/pack/lines.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
using gradkern::bfloat16;
using gradkern::float16;
using gradkern_test::begins_with;
using gradkern_test::guarded_buffer;
using gradkern_test::random_source;
using gradkern_test::touching;

constexpr std::int64_t lanes = simd::lanes;

template <class T>
class pack_lines_of : public ::testing::Test {};
using types = ::testing::Types<float, float16, bfloat16>;
TYPED_TEST_SUITE(pack_lines_of, types);

TYPED_TEST(pack_lines_of, lines_end_with_a_vector_of_negative_zeros) {
    random_source random("pack.lines");
    for (std::int64_t n = 1; n <= 3 * lanes + 2; ++n)
        for (const std::int64_t gap : {0, 2}) {
            SCOPED_TRACE("n " + std::to_string(n) + ", gap " + std::to_string(gap));
            const std::int64_t rows = random.integer(1, 4);
            const std::int64_t row_step = n + gap;
            const auto side = random.chance(1, 2) ? touching::end : touching::begin;
            const guarded_buffer<TypeParam> source(static_cast<std::size_t>((rows - 1) * row_step + n), side);
            for (std::size_t i = 0; i < source.size(); ++i)
                store_element(&source[i], static_cast<float>(random.integer(1, 100)));
            const std::int64_t pitch = n + lanes + random.integer(0, 5);
            const guarded_buffer<float> packed(static_cast<std::size_t>((rows - 1) * pitch + n + lanes), side);
            for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = 7.0F;
            std::vector<float> expected(packed.data(), packed.data() + packed.size());
            for (std::int64_t h = 0; h < rows; ++h)
                for (std::int64_t x = 0; x < n + lanes; ++x)
                    expected[static_cast<std::size_t>(h * pitch + x)] =
                        x < n ? load_element(&source[static_cast<std::size_t>(h * row_step + x)]) : -0.0F;
            pack_lines(source.data(), row_step, rows, n, packed.data(), pitch);
            ASSERT_TRUE(begins_with(packed, expected));
            ASSERT_TRUE(packed.zones_intact());
        }
}

TYPED_TEST(pack_lines_of, rows_of_a_tensor_get_their_sums_and_gaps_are_left_alone) {
    random_source random("unpack.lines");
    for (std::int64_t n = 1; n <= 3 * lanes + 2; ++n)
        for (const std::int64_t gap : {0, 2}) {
            SCOPED_TRACE("n " + std::to_string(n) + ", gap " + std::to_string(gap));
            const std::int64_t rows = random.integer(1, 4);
            const std::int64_t pitch = n + lanes + random.integer(0, 5);
            const auto side = random.chance(1, 2) ? touching::end : touching::begin;
            const guarded_buffer<float> sums(static_cast<std::size_t>(rows * pitch), side);
            for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(random.integer(1, 100));
            const guarded_buffer<TypeParam> out(static_cast<std::size_t>((rows - 1) * (n + gap) + n), side);
            for (std::size_t i = 0; i < out.size(); ++i) store_element(&out[i], 7.0F);
            unpack_lines(sums.data(), pitch, rows, n, out.data(), n + gap);
            for (std::size_t i = 0; i < out.size(); ++i) {
                const auto at = static_cast<std::int64_t>(i);
                const std::int64_t x = at % (n + gap);
                const float expected = x < n ? sums[static_cast<std::size_t>(at / (n + gap) * pitch + x)] : 7.0F;
                ASSERT_EQ(load_element(&out[i]), expected) << i;
            }
            ASSERT_TRUE(out.zones_intact());
        }
}

}  // namespace
