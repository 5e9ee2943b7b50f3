// What is prefetched of the next chunk, against a list of the bytes that tasks read of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include <gradkern/detail/conv_weights/dense_tiles.hpp>

#include "support/random.hpp"

namespace gradkern_test {
namespace {

using namespace gradkern::detail::conv_weights;
using gradkern::detail::cache_line;
using gradkern::detail::chunk_grid;
using gradkern::detail::panel_lanes;

/// A 1x1 kernel in NXC. Pixels and lines may lie apart.
plan random_plan(random_source& random) {
    problem p;
    for (auto& a : p.axes) a.small = a.large = random.integer(1, 40);
    p.axes[2].small = p.axes[2].large = random.integer(1, 300);
    p.batch = random.integer(1, 3);
    p.small_channels = random.integer(1, 70);
    p.large_channels = random.integer(1, 70);
    const auto strides = [&](std::int64_t channels) {
        const std::int64_t pixel = channels + random.pick<std::int64_t>({0, 0, 5});
        const std::int64_t row = p.axes[2].small * pixel + random.pick<std::int64_t>({0, 3});
        const std::int64_t plane = p.axes[1].small * row;
        return gradkern::shape::canonical_strides{p.axes[0].small * plane, 1, plane, row, pixel};
    };
    p.small = strides(p.small_channels);
    p.large = strides(p.large_channels);
    return plan(p, gradkern::algorithm::dense, panel_lanes(p.small_channels), 0);
}

TEST(conv_weights_next_chunk, has_the_lines_of_the_cache_that_hold_its_channels) {
    random_source random("conv_weights.next_chunk");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const plan p = random_plan(random);
        ASSERT_GT(p.chunks.count, 0);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        const std::int64_t element = random.pick<std::int64_t>({2, 4, 8});
        const std::int64_t channels = random.integer(1, p.small_channels);
        std::vector<std::int64_t> expected;  // the first byte of each channel
        line_position at(p.axes, c.first_line);
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes))
            for (std::int64_t w = c.first_column; w < c.last_column; ++w)
                for (std::int64_t k = 0; k < channels; ++k) expected.push_back((at.offset(p.small, w) + k) * element);

        chunk_lines lines(p, c, p.small, channels, element);
        std::vector<std::int64_t> seen;
        while (static_cast<std::int64_t>(seen.size()) < lines.count()) {  // some at a time, as tiles do
            const std::size_t before = seen.size();
            lines.next(random.integer(1, 50), [&](std::int64_t byte) { seen.push_back(byte); });
            ASSERT_GT(seen.size(), before);
        }
        lines.next(1000, [&](std::int64_t byte) { ADD_FAILURE() << byte << " lies behind the chunk"; });
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), lines.count());

        ASSERT_TRUE(std::is_sorted(seen.begin(), seen.end()));
        ASSERT_TRUE(std::is_sorted(expected.begin(), expected.end()));
        // Every channel lies in a line, and every line has a channel.
        for (const std::int64_t byte : expected) {
            const auto behind = std::upper_bound(seen.begin(), seen.end(), byte);
            ASSERT_TRUE(behind != seen.begin() && byte < *std::prev(behind) + cache_line) << byte;
        }
        for (const std::int64_t line : seen) {
            const auto first = std::lower_bound(expected.begin(), expected.end(), line);
            EXPECT_TRUE(first != expected.end() && *first < line + cache_line) << line;
        }
    }
}

TEST(conv_weights_next_chunk, is_shared_out_among_the_tiles_that_there_are) {
    for (std::int64_t lanes = 1; lanes <= 70; ++lanes)
        for (std::int64_t channels = 1; channels <= 40; ++channels) {
            problem p;
            p.batch = 1;
            p.small_channels = lanes;
            p.large_channels = channels;
            p.small = {lanes, 1, lanes, lanes, lanes};
            p.large = {channels, 1, channels, channels, channels};
            const plan q = plan_dense(p, gradkern::algorithm::dense_packed);
            const task t(q, 0);
            std::int64_t tiles = 0;
            for (std::int64_t panel = 0; panel < t.panels; ++panel) {
                const auto most =
                    gradkern::detail::rows_at_most(t.lanes_of(q, panel), gradkern::detail::simd::lanes_of<float>);
                gradkern::detail::split_rows(t.channels, most,
                                             gradkern::detail::row_unit<gradkern::detail::operand::scalar>,
                                             [&](std::ptrdiff_t) { ++tiles; });
            }
            EXPECT_EQ(tiles_of_chunk<float>(q, t), tiles) << lanes << " lanes, " << channels << " channels";
        }
}

TEST(conv_weights_next_chunk, is_only_prefetched_for_many_pixels_of_neighbouring_channels) {
    problem p;
    for (auto& a : p.axes) a.small = a.large = 8;
    p.batch = 40;
    p.small_channels = p.large_channels = 32;
    p.small = p.large = {8 * 8 * 8 * 32, 1, 8 * 8 * 32, 8 * 32, 32};
    const auto prefetches = [](const problem& q) {
        return prefetches_next_chunk(plan(q, gradkern::algorithm::dense, 16, 0));
    };
    EXPECT_EQ(prefetches(p), gradkern::detail::target.weight_gradients.copies_pixels);
    problem cached = p;
    cached.batch = 2;
    EXPECT_FALSE(prefetches(cached));
    problem apart = p;
    apart.large = {8 * 8 * 8 * 32, 8 * 8 * 8, 8 * 8, 8, 1};
    EXPECT_FALSE(prefetches(apart));
    problem wide = p;
    wide.axes[2].kernel = 3;
    wide.axes[2].large = 10;
    EXPECT_FALSE(prefetches(wide));
    plan cut(p, gradkern::algorithm::dense, 16, 0);
    cut.cut = position_cut::chunks;
    EXPECT_FALSE(prefetches_next_chunk(cut));
}

}  // namespace
}  // namespace gradkern_test
