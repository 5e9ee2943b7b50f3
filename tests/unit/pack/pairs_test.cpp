// Pairs of bf16 numbers in place of floats against plain loops, for all small sizes, in memory that notices stray reads and writes.
// There is nothing to test where the target has no dot products of bf16.

#include <gradkern/detail/pack/pairs.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

using namespace gradkern::detail;
using gradkern::bfloat16;
using gradkern_test::guarded_buffer;
using gradkern_test::random_source;
using gradkern_test::touching;

constexpr std::ptrdiff_t vector = simd::lanes;
constexpr bool has = has_pairs<bfloat16>;

std::uint32_t bits_of(const bfloat16* p) {
    std::uint16_t bits = 0;
    if (p != nullptr) std::memcpy(&bits, p, sizeof bits);
    return bits;
}

// A pair as it lies in a float; null: 0.
float pair_of(const bfloat16* first, const bfloat16* second) {
    const std::uint32_t bits = bits_of(first) | bits_of(second) << 16;
    float pair;
    std::memcpy(&pair, &bits, sizeof pair);
    return pair;
}

// Packs `count` columns of `lanes` lanes from a source of `elements` and compares with at(column, lane).
template <class Pack, class At>
void check(std::size_t elements, std::ptrdiff_t lanes, std::ptrdiff_t count, random_source& random, const Pack& pack,
           const At& at) {
    const auto side = random.chance(1, 2) ? touching::end : touching::begin;
    const std::ptrdiff_t out_step = random.chance(1, 2) ? lanes : lanes + random.integer(1, 3);
    guarded_buffer<bfloat16> source(elements, side);
    for (std::size_t i = 0; i < elements; ++i) store_element(&source[i], random.real(-2.0F, 2.0F));
    guarded_buffer<float> out(count == 0 || lanes == 0 ? 0 : static_cast<std::size_t>((count - 1) * out_step + lanes),
                              side);
    std::vector<float> expected(out.data(), out.data() + out.size());
    for (std::ptrdiff_t x = 0; x < count; ++x)
        for (std::ptrdiff_t j = 0; j < lanes; ++j)
            expected[static_cast<std::size_t>(x * out_step + j)] = at(source.data(), x, j);
    pack(source.data(), out.data(), out_step);
    EXPECT_TRUE(begins_with(out, expected));
    EXPECT_TRUE(out.zones_intact());
}

[[maybe_unused]] std::string sizes(std::ptrdiff_t a, std::ptrdiff_t b, std::ptrdiff_t step, std::ptrdiff_t other) {
    return std::to_string(a) + " elements to pair, " + std::to_string(b) + " others, " + std::to_string(step) +
           " apart, others " + std::to_string(other) + " apart";
}

// Elements that are paired along the lanes: [x][pair].
TEST(pairs, along_the_lanes) {
    if constexpr (has) {
        random_source random("pairs.lanes");
        for (std::ptrdiff_t count = 1; count <= 4 * vector + 3; ++count)
            for (const std::ptrdiff_t pixels : {0, 1, 2, 3, 9, 17, 40})
                for (const std::ptrdiff_t step : {std::ptrdiff_t{1}, std::ptrdiff_t{2}, pixels + 1})
                    for (const std::ptrdiff_t pixel_step : {std::ptrdiff_t{1}, count * step, count * step + 3}) {
                        if (pixel_step == 1 && step <= pixels && pixels > 1) continue;
                        SCOPED_TRACE(sizes(count, pixels, step, pixel_step));
                        const auto elements =
                            pixels == 0 ? 0
                                        : static_cast<std::size_t>((count - 1) * step + (pixels - 1) * pixel_step + 1);
                        check(
                            elements, (count + 1) / 2, pixels, random,
                            [&](const bfloat16* from, float* to, std::ptrdiff_t out_step) {
                                pack_lane_pairs(from, step, count, pixel_step, pixels, to, out_step);
                            },
                            [&](const bfloat16* from, std::ptrdiff_t x, std::ptrdiff_t j) {
                                const bfloat16* const first = from + x * pixel_step + 2 * j * step;
                                return pair_of(first, 2 * j + 1 < count ? first + step : nullptr);
                            });
                    }
    }
}

// Elements that are paired across the lanes: [pair][lane].
TEST(pairs, across_the_lanes) {
    if constexpr (has) {
        random_source random("pairs.rows");
        for (std::ptrdiff_t lanes = 1; lanes <= 4 * vector + 3; ++lanes)
            for (const std::ptrdiff_t count : {1, 2, 3, 8, 19, 34})
                for (const std::ptrdiff_t lane_step : {std::ptrdiff_t{1}, std::ptrdiff_t{2}, std::ptrdiff_t{4}, count})
                    for (const std::ptrdiff_t step :
                         {std::ptrdiff_t{1}, std::ptrdiff_t{2}, lanes, lanes * lane_step + 1}) {
                        if (lane_step == count && step != 1) continue;
                        SCOPED_TRACE(sizes(count, lanes, step, lane_step));
                        check(
                            static_cast<std::size_t>((count - 1) * step + (lanes - 1) * lane_step + 1), lanes,
                            (count + 1) / 2, random,
                            [&](const bfloat16* from, float* to, std::ptrdiff_t out_step) {
                                pack_row_pairs(from, lane_step, lanes, step, count, to, out_step);
                            },
                            [&](const bfloat16* from, std::ptrdiff_t k, std::ptrdiff_t j) {
                                const bfloat16* const first = from + 2 * k * step + j * lane_step;
                                return pair_of(first, 2 * k + 1 < count ? first + step : nullptr);
                            });
                    }
    }
}

TEST(pairs, one_at_any_address) {
    if constexpr (has) {
        guarded_buffer<bfloat16> source(4);
        for (std::size_t i = 0; i < 4; ++i) store_element(&source[i], static_cast<float>(i) + 1.5F);
        const auto same = [](float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; };
        EXPECT_TRUE(same(load_one(paired_row<bfloat16>{&source[1], 2, true}), pair_of(&source[1], &source[3])));
        EXPECT_TRUE(same(load_one(paired_row<bfloat16>{&source[3], 9, false}), pair_of(&source[3], nullptr)));
    }
}

}  // namespace
