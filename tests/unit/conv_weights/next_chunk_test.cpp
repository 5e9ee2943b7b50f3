// What is prefetched of the next chunk, against a list of the bytes that tasks read of it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/detail/conv_weights/dense_tiles.hpp>

#include "support/random.hpp"

namespace gradkern_test {
namespace {

using namespace gradkern::detail::conv_weights;
using gradkern::detail::cache_line;
using gradkern::detail::chunk_grid;
using gradkern::detail::panel_lanes;
namespace simd = gradkern::detail::simd;

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

/// The bytes of the first `channels` channels of each pixel of a chunk.
std::vector<std::int64_t> bytes_of(const plan& p, const chunk_grid::chunk& c,
                                   const gradkern::shape::canonical_strides& stride, std::int64_t channels,
                                   std::int64_t element) {
    std::vector<std::int64_t> bytes;
    line_position at(p.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes))
        for (std::int64_t w = c.first_column; w < c.last_column; ++w)
            for (std::int64_t i = 0; i < channels * element; ++i) bytes.push_back(at.offset(stride, w) * element + i);
    return bytes;
}

TEST(conv_weights_next_chunk, has_the_bytes_of_its_channels_once) {
    random_source random("conv_weights.next_chunk");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const plan p = random_plan(random);
        ASSERT_GT(p.chunks.count, 0);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        const std::int64_t element = random.pick<std::int64_t>({2, 4, 8});
        const std::int64_t channels = random.integer(1, p.small_channels);
        const std::vector<std::int64_t> expected = bytes_of(p, c, p.small, channels, element);

        chunk_runs runs(p, c, p.small, channels, element);
        EXPECT_EQ(runs.bytes(), static_cast<std::int64_t>(expected.size()));
        std::vector<std::int64_t> seen;
        for (;;) {  // some at a time, as tiles do
            const std::int64_t most = random.integer(1, 5000);
            const byte_run run = runs.next(most);
            if (run.bytes == 0) break;
            ASSERT_LE(run.bytes, most);
            for (std::int64_t j = 0; j < run.bytes; ++j) seen.push_back(run.at + j);
        }
        EXPECT_EQ(seen, expected);
        EXPECT_EQ(runs.next(1).bytes, 0);
    }
}

TEST(conv_weights_next_chunk, is_one_run_where_its_pixels_are_neighbours) {
    random_source random("conv_weights.next_chunk.one_run");
    for (int i = 0; i < 100; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        plan p = random_plan(random);
        const std::int64_t pixel = p.small_channels;
        const std::int64_t row = p.axes[2].small * pixel;
        const std::int64_t plane = p.axes[1].small * row;
        p.small = {p.axes[0].small * plane, 1, plane, row, pixel};
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        EXPECT_EQ(chunk_runs(p, c, p.small, pixel, 4).next(INT64_MAX).bytes, c.positions() * pixel * 4);
        if (c.positions() == 1 || pixel == 1) continue;
        EXPECT_EQ(chunk_runs(p, c, p.small, pixel - 1, 4).next(INT64_MAX).bytes, (pixel - 1) * 4);
    }
}

TEST(conv_weights_next_chunk, is_shared_out_among_the_tiles_that_prefetch) {
    const std::vector<float> tensor(300 * 150);
    for (std::int64_t lanes = 1; lanes <= 150; ++lanes)
        for (std::int64_t channels = 1; channels <= 40; ++channels) {
            problem p;
            p.batch = 1;
            p.axes[2].small = p.axes[2].large = 300;
            p.small_channels = lanes;
            p.large_channels = channels;
            p.small = {300 * lanes, 1, 300 * lanes, 300 * lanes, lanes};
            p.large = {300 * channels, 1, 300 * channels, 300 * channels, channels};
            const plan q = plan_dense(p, gradkern::algorithm::dense_packed);
            const task t(q, 0);
            const std::int64_t tiles = prefetching_tiles<float>(q, t);
            // Of many rows some tiles have all that fit.
            ASSERT_TRUE(tiles > 0 || lanes <= simd::lanes || channels < 19) << lanes << " lanes, " << channels;
            if (tiles == 0) continue;
            const chunk_grid::chunk c = q.chunks[1];
            const std::int64_t terms = q.chunks[0].positions();
            next_chunk next(q, t, c, tensor.data(), tensor.data(), tiles, terms);
            std::int64_t bytes = 0;
            for (std::int64_t i = 0; i < tiles; ++i) bytes += next.share().step * terms;
            // Where the first side ends, a share is smaller than others.
            const std::int64_t wanted = c.positions() * (t.lanes + t.channels) * 4;
            if (t.lanes == lanes && t.channels == channels) {
                EXPECT_GE(bytes + wanted / tiles + 1, wanted) << lanes << " lanes, " << channels << " channels";
                EXPECT_LE(bytes, wanted + tiles * terms) << lanes << " lanes, " << channels << " channels";
            }
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
    EXPECT_TRUE(prefetches(p));
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
