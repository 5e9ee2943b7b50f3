// Sizes of tiles and panels, and how rows are shared out to tiles.

#include <gradkern/detail/micro/tile_sizes.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace {

using namespace gradkern::detail;
constexpr std::ptrdiff_t lanes = simd::lanes;

TEST(tile_sizes, kernels_have_the_rows_asked_for_and_fewer_than_a_unit_more) {
    for (int unit = 1; unit <= 8; ++unit)
        for (int rows = 1; rows <= 20; ++rows) {
            const int kernel = kernel_rows(rows, unit);
            EXPECT_GE(kernel, std::max(rows, 2));
            EXPECT_TRUE(kernel == 2 || kernel % unit == 0);
            EXPECT_TRUE(kernel - rows < std::max(unit, 2));
        }
}

TEST(tile_sizes, tiles_of_any_width_fit_the_arrays_of_row_pointers) {
    for (std::ptrdiff_t width = 1; width <= tile_lanes; ++width) EXPECT_LE(rows_at_most(width), most_rows);
    EXPECT_LE(group_rows, most_rows);
    EXPECT_LE(native_16bit_rows, most_rows);
    for (const std::ptrdiff_t group : {4, 8}) EXPECT_LE(outer_rows(group), most_rows);
    EXPECT_LE(most_sliding_rows, most_rows_of_any);
    EXPECT_LE(most_rows, most_rows_of_any);
}

TEST(tile_sizes, kernel_vectors_hold_the_lanes_used_up_to_the_widest) {
    for (std::ptrdiff_t used = 1; used <= tile_lanes; ++used) {
        const int vectors = kernel_vectors(used);
        EXPECT_GE(vectors * lanes, used);
        EXPECT_LT((vectors - 1) * lanes, used);
        EXPECT_EQ(fills_tile(used), used % lanes == 0);
    }
    EXPECT_EQ(kernel_vectors(0), 1);
    EXPECT_EQ(kernel_vectors(1000 * lanes), tile_vectors);
}

TEST(tile_sizes, panels_are_as_wide_as_tiles_or_narrow_where_that_wastes_less) {
    for (std::ptrdiff_t channels = 1; channels <= 40 * lanes; ++channels) {
        const std::ptrdiff_t width = panel_lanes(channels);
        EXPECT_EQ(width % lanes, 0);
        EXPECT_LE(width, tile_lanes);
        EXPECT_LE(panel_lanes(channels, true), std::max(narrow_lanes, 2 * lanes));
        EXPECT_GE(panel_vectors(channels, width) * lanes, channels);
        EXPECT_TRUE(channels > 2 * lanes || width - channels < lanes);
    }
}

TEST(tile_sizes, panels_are_equal_where_the_last_one_would_have_one_vector) {
    EXPECT_EQ(panel_lanes((tile_vectors + 1) * lanes), tile_vectors == 4 ? 3 * lanes : narrow_lanes);
    if (tile_vectors != 4) return;
    EXPECT_EQ(panel_lanes(6 * lanes), 4 * lanes);
    EXPECT_EQ(panel_lanes(8 * lanes + 1), 3 * lanes);
    EXPECT_EQ(panel_lanes(9 * lanes), 3 * lanes);
    EXPECT_EQ(panel_lanes(10 * lanes), 4 * lanes);
    EXPECT_EQ(panel_lanes(13 * lanes), 4 * lanes);  // panels of three vectors would be five
}

TEST(tile_sizes, group_tiles_need_a_vector_that_holds_a_group) {
    for (std::ptrdiff_t group = 1; group <= 64; ++group)
        EXPECT_EQ(has_group_tiles(group), (group == 4 || group == 8) && group <= lanes);
}

TEST(tile_sizes, rows_are_shared_out_evenly) {
    for (std::ptrdiff_t unit = 1; unit <= 4; ++unit)
        for (std::ptrdiff_t most = unit; most <= 4 * unit; most += unit)
            for (std::ptrdiff_t rows = 0; rows <= 50; ++rows) {
                std::vector<std::ptrdiff_t> sizes;
                split_runs(rows, most, unit, [&](std::ptrdiff_t count, std::ptrdiff_t tiles) {
                    ASSERT_GT(tiles, 0);
                    sizes.insert(sizes.end(), static_cast<std::size_t>(tiles), count);
                });
                std::vector<std::ptrdiff_t> one_by_one;
                split_rows(rows, most, unit, [&](std::ptrdiff_t count) { one_by_one.push_back(count); });
                EXPECT_EQ(sizes, one_by_one);
                std::ptrdiff_t sum = 0;
                for (std::size_t i = 0; i < sizes.size(); ++i) {
                    sum += sizes[i];
                    EXPECT_GT(sizes[i], 0);
                    EXPECT_LE(sizes[i], most);
                    EXPECT_TRUE(i + 1 == sizes.size() || sizes[i] % unit == 0);
                }
                EXPECT_EQ(sum, rows);
                for (std::size_t i = 2; i < sizes.size(); ++i) EXPECT_LE(std::abs(sizes[0] - sizes[i - 1]), unit);
                EXPECT_EQ(sizes.size(), static_cast<std::size_t>((rows + most - 1) / most));
            }
}

}  // namespace
