// The order of sums: chunks of pixels, and where sums of pools are long. The numbers are the definition of results.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include <gradkern/detail/order/summation.hpp>

namespace {

namespace detail = gradkern::detail;
using gradkern::shape::axis;
using gradkern::shape::side;

TEST(summation, the_numbers_of_the_definition) {
    EXPECT_EQ(detail::channel_block, 64);
    EXPECT_EQ(detail::part_terms, 576);
    EXPECT_EQ(detail::chunk_positions, 256);
    EXPECT_EQ(detail::chunks_per_sum, 32);
    EXPECT_EQ(detail::pool_part, 512);
    EXPECT_EQ(detail::many_windows, 1 << 18);
}

// Every pixel is in one chunk, in row-major order; a chunk is whole lines, or a piece of one.
TEST(summation, chunks_cover_every_pixel_once_and_in_order) {
    for (std::int64_t lines = 0; lines <= 40; ++lines)
        for (const std::int64_t width : {1, 2, 3, 7, 28, 85, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1000}) {
            const detail::chunk_grid grid(1, lines, width, gradkern::summation::joint);
            std::int64_t pixel = 0;
            for (std::int64_t i = 0; i < grid.count; ++i) {
                const auto c = grid[i];
                ASSERT_GT(c.positions(), 0);
                ASSERT_LE(c.positions(), 256);
                ASSERT_TRUE(c.columns() == width || c.last_line == c.first_line + 1);
                for (std::int64_t line = c.first_line; line < c.last_line; ++line)
                    for (std::int64_t column = c.first_column; column < c.last_column; ++column)
                        ASSERT_EQ(line * width + column, pixel++) << lines << " lines of " << width;
                // as many whole lines as fit
                if (c.columns() == width && c.last_line < lines) {
                    ASSERT_GT(c.positions() + width, 256);
                }
            }
            EXPECT_EQ(pixel, lines * width);
        }
}

// Image by image no chunk has lines of two images, and each image has the chunks, sums and groups that it has alone.
TEST(summation, chunks_of_images_are_those_of_each_image_alone) {
    using gradkern::summation;
    for (const summation how : {summation::image_by_image, summation::per_image})
        for (std::int64_t images = 1; images <= 5; ++images)
            for (const std::int64_t lines : {1, 2, 3, 7, 14, 40, 300})
                for (const std::int64_t width : {1, 3, 7, 28, 128, 256, 257, 1000}) {
                    const detail::chunk_grid grid(images, lines, width, how);
                    const detail::chunk_grid alone(1, lines, width, summation::joint);
                    ASSERT_EQ(grid.count, images * alone.count);
                    for (std::int64_t i = 0; i < grid.count; ++i) {
                        const auto c = grid[i];
                        const auto a = alone[i % alone.count];
                        const std::int64_t first = i / alone.count * lines;
                        ASSERT_EQ(c.first_line, first + a.first_line);
                        ASSERT_EQ(c.last_line, first + a.last_line);
                        ASSERT_EQ(c.first_column, a.first_column);
                        ASSERT_EQ(c.last_column, a.last_column);
                    }
                    std::int64_t next = 0;
                    for (std::int64_t sum = 0; sum < grid.sums(); ++sum) {
                        const auto range = grid.of_sum(sum);
                        ASSERT_EQ(range.first, next);
                        ASSERT_GT(range.last, range.first);
                        ASSERT_LE(range.last - range.first, grid.chunks_of_sum());
                        for (; next < range.last; ++next) ASSERT_EQ(grid.sum_of(next), sum);
                    }
                    ASSERT_EQ(next, grid.count);
                    // images of one chunk are one chain, whose steps are the images
                    const bool chain = alone.count == 1 && how == summation::image_by_image;
                    ASSERT_EQ(grid.groups(), chain ? 1 : images);
                    ASSERT_EQ(grid.folds_groups, alone.count > 1 && how == summation::image_by_image);
                    ASSERT_EQ(grid.group_sums(), chain ? 1 : alone.sums());
                }
}

// Gradients are summed in f64 where more than 512 windows may reach one position.
TEST(summation, terms_that_meet_are_counted) {
    const auto pool = [](std::int64_t size, std::int64_t kernel, std::int64_t stride) {
        return axis{.large = size, .small = (size - kernel) / stride + 1, .kernel = kernel, .stride = stride};
    };
    const axis one = pool(1, 1, 1);
    EXPECT_FALSE(detail::many_terms_meet({one, one, pool(2000, 512, 1)}, side::large));
    EXPECT_TRUE(detail::many_terms_meet({one, one, pool(2000, 513, 1)}, side::large));
    EXPECT_FALSE(detail::many_terms_meet({one, one, pool(2000, 513, 2)}, side::large));
    EXPECT_FALSE(detail::many_terms_meet({pool(100, 8, 1), pool(100, 8, 1), pool(100, 8, 1)}, side::large));
    EXPECT_TRUE(detail::many_terms_meet({pool(100, 9, 1), pool(100, 8, 1), pool(100, 8, 1)}, side::large));
    EXPECT_FALSE(detail::many_terms_meet({one, one, pool(600, 600, 1)}, side::large)) << "there is one window";
    EXPECT_TRUE(detail::many_terms_meet({one, one, pool(600, 600, 1)}, side::small));
    EXPECT_FALSE(detail::many_terms_meet({one, one, pool(2000, 512, 1)}, side::small));
}

}  // namespace
