// What is prefetched of the next chunk, against a list of the bytes that tasks read of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include <gradkern/detail/conv_weights/dense_tiles.hpp>

#include "support/random.hpp"

namespace gradkern_test {
namespace {

using namespace gradkern::detail::conv_weights;
using gradkern::detail::cache_line;
using gradkern::detail::chunk_grid;
using gradkern::detail::later_lines;
using gradkern::detail::panel_lanes;
namespace simd = gradkern::detail::simd;

/// A 1x1 kernel in NXC. Pixels may lie apart.
plan random_plan(random_source& random) {
    problem p;
    for (auto& a : p.axes) a.small = a.large = random.integer(1, 40);
    p.axes[2].small = p.axes[2].large = random.integer(1, 300);
    p.batch = random.integer(1, 3);
    p.small_channels = random.integer(1, 70);
    p.large_channels = random.integer(1, 70);
    const auto strides = [&](std::int64_t channels) {
        const std::int64_t pixel = channels + random.pick<std::int64_t>({0, 0, 5});
        const std::int64_t row = p.axes[2].small * pixel;
        const std::int64_t plane = p.axes[1].small * row;
        return gradkern::shape::canonical_strides{p.axes[0].small * plane, 1, plane, row, pixel};
    };
    p.small = strides(p.small_channels);
    p.large = strides(p.large_channels);
    return plan(p, gradkern::algorithm::dense, panel_lanes(p.small_channels), 0);
}

/// The lines of the cache that `terms` terms prefetch.
std::set<std::uintptr_t> prefetched(later_lines later, std::int64_t terms) {
    std::set<std::uintptr_t> lines;
    for (; terms > 0; --terms)
        later.prefetch_with(1, [&, line = later.next] { lines.insert(reinterpret_cast<std::uintptr_t>(line) / 64); });
    return lines;
}
/// Those of the first `channels` channels of each pixel of a chunk.
std::set<std::uintptr_t> lines_of_pixels(const plan& p, const chunk_grid::chunk& c, const float* side,
                                         const gradkern::shape::canonical_strides& stride, std::int64_t channels) {
    std::set<std::uintptr_t> lines;
    line_position at(p.axes, c.first_line);
    for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes))
        for (std::int64_t w = c.first_column; w < c.last_column; ++w)
            for (std::int64_t k = 0; k < channels; ++k)
                lines.insert(reinterpret_cast<std::uintptr_t>(side + at.offset(stride, w) + k) / 64);
    return lines;
}
std::int64_t missing(const std::set<std::uintptr_t>& wanted, const std::set<std::uintptr_t>& there) {
    return std::count_if(wanted.begin(), wanted.end(), [&](std::uintptr_t line) { return !there.contains(line); });
}

TEST(conv_weights_next_chunk, is_the_lines_of_its_pixels_where_terms_are_enough) {
    random_source random("conv_weights.next_chunk");
    for (int i = 0; i < 100; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const plan p = random_plan(random);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        const std::int64_t channels = random.chance(1, 2) ? p.small_channels : random.integer(1, p.small_channels);
        const std::vector<float> tensor(static_cast<std::size_t>(p.batch * p.small[0]));
        // A line for each term, and for each pixel one more than its channels fill.
        const std::int64_t terms = c.positions() * (p.small[4] / 16 + 2);
        const auto there = prefetched(lines_of(p, c, tensor.data(), p.small, channels, 4, terms), terms);
        const auto wanted = lines_of_pixels(p, c, tensor.data(), p.small, channels);
        // The last line of a run may be one that only its last bytes reach.
        EXPECT_LE(missing(wanted, there), p.small[4] == channels ? 1 : c.positions());
        EXPECT_EQ(*there.begin(), *wanted.begin());
        // A term may prefetch a byte more than its share.
        EXPECT_LE(*there.rbegin(), *wanted.rbegin() + 1 + static_cast<std::uintptr_t>(terms) / 64);
    }
}

TEST(conv_weights_next_chunk, is_shared_out_among_the_tiles_that_prefetch) {
    const std::vector<float> tensor(600 * 150);
    const auto side = gradkern::detail::tensor_pointer_of(tensor.data());
    for (std::int64_t lanes = 1; lanes <= 150; lanes += 13)
        for (std::int64_t channels = 1; channels <= 40; channels += 3) {
            problem p;
            p.batch = 1;
            p.axes[2].small = p.axes[2].large = 600;
            p.small_channels = lanes;
            p.large_channels = channels;
            p.small = {600 * lanes, 1, 600 * lanes, 600 * lanes, lanes};
            p.large = {600 * channels, 1, 600 * channels, 600 * channels, channels};
            const plan q = plan_dense(p, gradkern::algorithm::dense_packed);
            const task t(q, 0);
            const std::int64_t tiles = prefetching_tiles<float>(q, t);
            // Of many rows some tiles have all that fit.
            ASSERT_TRUE(tiles > 0 || lanes <= simd::lanes || channels < 19) << lanes << " lanes, " << channels;
            if (tiles < 2 || t.lanes < lanes || t.channels < channels) continue;
            const chunk_grid::chunk c = q.chunks[1];
            const std::int64_t terms = q.chunks[0].positions();
            next_chunk next(q, t, c, side, side, tiles, terms);
            std::set<std::uintptr_t> there;
            for (std::int64_t tile = 0; tile < tiles; ++tile) {
                later_lines& later = *next.of_tile();
                there.merge(prefetched(later, terms));
                later.prefetch_with(terms, [] {});
            }
            auto wanted = lines_of_pixels(q, c, tensor.data(), p.small, lanes);
            wanted.merge(lines_of_pixels(q, c, tensor.data(), p.large, channels));
            // A line for each term at most, of either side.
            if (4 * (lanes + channels) <= 48 * (tiles - 2)) {
                EXPECT_LE(missing(wanted, there), 4) << lanes << " lanes, " << channels << " channels";
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
