// Boxes of output positions: they cover every position once, and each is as large as what it was cut for allows.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/detail/run/boxes.hpp>

namespace {

using gradkern::detail::box_grid;

/// How often each position of `batch` images is in a box, and whether boxes keep to `most` images and extents.
::testing::AssertionResult covers_once(const box_grid& grid, std::int64_t batch,
                                       const std::array<std::int64_t, 3>& extent,
                                       const std::array<std::int64_t, 4>& most) {
    std::vector<int> times(static_cast<std::size_t>(batch * extent[0] * extent[1] * extent[2]));
    for (std::int64_t i = 0; i < grid.count(); ++i) {
        const box_grid::item b = grid[i];
        if (b.last_image - b.first_image > most[0]) return ::testing::AssertionFailure() << "too many images";
        for (std::size_t k = 0; k < 3; ++k)
            if (b.last[k] - b.first[k] > most[1 + k]) return ::testing::AssertionFailure() << "too long an axis " << k;
        for (std::int64_t n = b.first_image; n < b.last_image; ++n)
            for (std::int64_t d = b.first[0]; d < b.last[0]; ++d)
                for (std::int64_t h = b.first[1]; h < b.last[1]; ++h)
                    for (std::int64_t w = b.first[2]; w < b.last[2]; ++w)
                        ++times.at(static_cast<std::size_t>(((n * extent[0] + d) * extent[1] + h) * extent[2] + w));
    }
    for (const int t : times)
        if (t != 1) return ::testing::AssertionFailure() << "a position is in " << t << " boxes";
    return ::testing::AssertionSuccess();
}

/// Calls f(batch, extents) for a small space.
template <class F>
void for_each_shape(const F& f) {
    for (std::int64_t batch = 0; batch <= 3; ++batch)
        for (std::int64_t d = 1; d <= 3; ++d)
            for (std::int64_t h = 1; h <= 4; ++h)
                for (std::int64_t w = 1; w <= 5; ++w) f(batch, std::array<std::int64_t, 3>{d, h, w});
}

TEST(boxes, boxes_of_a_size_cover_everything_once) {
    for_each_shape([](std::int64_t batch, const std::array<std::int64_t, 3>& extent) {
        for (std::int64_t d = 1; d <= extent[0]; ++d)
            for (std::int64_t h = 1; h <= extent[1]; ++h)
                for (std::int64_t w = 1; w <= extent[2]; ++w) {
                    const box_grid grid(batch, extent, {d, h, w});
                    ASSERT_TRUE(covers_once(grid, batch, extent, {1, d, h, w}));
                }
    });
}

TEST(boxes, the_largest_boxes_that_fit_cover_everything_once) {
    for_each_shape([](std::int64_t batch, const std::array<std::int64_t, 3>& extent) {
        for (std::int64_t room = 0; room <= 70; room += 1 + room / 8) {
            const auto volume = [](std::int64_t n, const std::array<std::int64_t, 3>& e) {
                return n * e[0] * e[1] * e[2];
            };
            const box_grid grid(batch, extent, [&](std::int64_t n, const std::array<std::int64_t, 3>& e) {
                EXPECT_TRUE(n >= 1 && e[0] >= 1 && e[1] >= 1 && e[2] >= 1);  // nothing is asked about no box
                return volume(n, e) <= room;
            });
            ASSERT_TRUE(covers_once(grid, batch, extent, {grid.images(), grid.box(0), grid.box(1), grid.box(2)}));
            if (batch == 0) {
                EXPECT_EQ(grid.count(), 0);
                continue;
            }
            const std::array<std::int64_t, 3> box{grid.box(0), grid.box(1), grid.box(2)};
            if (room >= 1) {
                EXPECT_LE(volume(grid.images(), box), room);
            }
            // A box that could be one entry longer, and make fewer boxes of it, would not fit.
            const std::array<std::int64_t, 4> whole{batch, extent[0], extent[1], extent[2]};
            std::array<std::int64_t, 4> size{grid.images(), box[0], box[1], box[2]};
            std::size_t cut = 3;  // the last axis that is cut: those before it are single
            while (cut > 0 && size[cut] == whole[cut]) --cut;
            for (std::size_t k = 0; k < cut; ++k) EXPECT_EQ(size[k], 1);
            const std::int64_t parts = (whole[cut] + size[cut] - 1) / size[cut];
            if (parts > 1) {
                size[cut] = (whole[cut] + parts - 2) / (parts - 1);
                EXPECT_GT(volume(size[0], {size[1], size[2], size[3]}), room);
            }
        }
    });
}

TEST(boxes, boxes_are_of_about_equal_size) {
    const box_grid grid(1, {1, 1, 100}, [](std::int64_t, const std::array<std::int64_t, 3>& e) { return e[2] <= 64; });
    EXPECT_EQ(grid.count(), 2);
    EXPECT_EQ(grid.box(2), 50);
}

}  // namespace
