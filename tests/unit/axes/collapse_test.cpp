// Contiguous axes as one, and walks over strided rows, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/detail/axes/collapse.hpp>

#include "support/random.hpp"

namespace {

namespace detail = gradkern::detail;
namespace shape = gradkern::shape;
using detail::row_walk;
using gradkern_test::random_source;

TEST(collapse, an_axis_continues_another_where_all_entries_are_equally_far_apart) {
    for (std::int64_t outer = -9; outer <= 9; ++outer)
        for (std::int64_t extent = 1; extent <= 4; ++extent)
            for (std::int64_t stride = -3; stride <= 3; ++stride) {
                bool is_line = true;
                for (std::int64_t i = 0; i < 3 * extent; ++i)
                    is_line = is_line && i / extent * outer + i % extent * stride == i * stride;
                EXPECT_EQ(detail::continues(outer, extent, stride), is_line) << outer << ' ' << extent << ' ' << stride;
            }
    EXPECT_FALSE(detail::continues(1, INT64_MAX, INT64_MAX - 1));  // no overflow
    EXPECT_FALSE(detail::continues(INT64_MIN, INT64_MAX, INT64_MIN + 7));
}

TEST(collapse, spatial_axes_are_one_line_where_every_entry_says_so) {
    for (std::int64_t d = 1; d <= 3; ++d)
        for (std::int64_t h = 1; h <= 3; ++h)
            for (std::int64_t w = 1; w <= 3; ++w)
                for (std::int64_t sd = 0; sd <= 9; ++sd)
                    for (std::int64_t sh = 0; sh <= 6; ++sh)
                        for (std::int64_t sw = -1; sw <= 2; ++sw) {
                            bool is_line = true;
                            for (std::int64_t i = 0; i < d * h * w; ++i)
                                is_line = is_line && i / w / h * sd + i / w % h * sh + i % w * sw == i * sw;
                            EXPECT_EQ(detail::is_one_line({0, 0, sd, sh, sw}, {d, h, w}), is_line);
                        }
}

TEST(collapse, planes_are_one_line_where_every_element_says_so) {
    for (std::int64_t n = 1; n <= 3; ++n)
        for (std::int64_t c = 1; c <= 3; ++c)
            for (std::int64_t plane = 1; plane <= 3; ++plane)
                for (std::int64_t sn = 0; sn <= 10; ++sn)
                    for (std::int64_t sc = -1; sc <= 4; ++sc) {
                        bool is_line = true;
                        for (std::int64_t i = 0; i < n * c * plane; ++i)
                            is_line = is_line && i / plane / c * sn + i / plane % c * sc + i % plane == i;
                        EXPECT_EQ(detail::planes_are_one_line({sn, sc, 0, 0, 1}, n, c, plane), is_line);
                    }
}

/// The rows of a class over images as plain loops say.
struct row {
    std::int64_t in;
    std::int64_t out;
    friend bool operator==(const row&, const row&) = default;
};
std::vector<row> rows_of(std::int64_t first, std::int64_t last, const std::array<shape::tap_class, 3>& c,
                         const shape::canonical_strides& in, const shape::canonical_strides& out, std::int64_t origin) {
    std::vector<row> rows;
    for (std::int64_t n = first; n < last; ++n)
        for (std::int64_t d = 0; d < c[0].positions; ++d)
            for (std::int64_t h = 0; h < c[1].positions; ++h)
                for (std::int64_t w = 0; w < c[2].positions; ++w) {
                    row r{n * in[0] - origin, n * out[0]};
                    const std::array<std::int64_t, 3> at{d, h, w};
                    for (std::size_t i = 0; i < 3; ++i) {
                        r.in += (c[i].first_read + at[i] * c[i].read_per_position) * in[2 + i];
                        r.out += (c[i].first_position + at[i] * c[i].position_step) * out[2 + i];
                    }
                    rows.push_back(r);
                }
    return rows;
}

/// A class of `positions` outputs.
shape::tap_class class_of(std::int64_t positions, std::int64_t first, std::int64_t step, std::int64_t read,
                          std::int64_t read_step) {
    shape::tap_class c;
    c.first_position = first;
    c.positions = positions;
    c.position_step = positions == 1 ? 0 : step;
    c.first_read = read;
    c.read_per_position = positions == 1 ? 0 : read_step;
    return c;
}

TEST(collapse, a_walk_passes_the_rows_of_plain_loops) {
    random_source random("collapse.row_walk");
    for (int i = 0; i < 3000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        std::array<shape::tap_class, 3> c;
        shape::canonical_strides in{};
        shape::canonical_strides out{};
        // Strides of dense tensors, larger ones now and then: some axes continue one another, others do not.
        std::int64_t in_stride = random.integer(1, 2);
        std::int64_t out_stride = random.integer(1, 2);
        for (std::size_t k = 3; k-- > 0;) {
            const std::int64_t positions = random.integer(1, 3);
            const std::int64_t step = random.chance(1, 4) ? 2 : 1;
            c[k] = class_of(positions, random.integer(0, 2), step, random.integer(0, 2), step);
            in[2 + k] = in_stride;
            out[2 + k] = out_stride;
            in_stride *= step * positions + (random.chance(1, 4) ? 1 : 0);
            out_stride *= step * positions + (random.chance(1, 4) ? 1 : 0);
        }
        in[0] = random.chance(1, 8) ? 0 : in_stride;
        out[0] = out_stride;
        const std::int64_t first = random.integer(0, 2);
        const std::int64_t last = first + random.integer(1, 3);
        const std::int64_t origin = random.integer(-5, 5);
        const std::vector<row> rows = rows_of(first, last, c, in, out, origin);
        row_walk walk(first, last, c, in, out, origin);
        const auto count = static_cast<std::ptrdiff_t>(rows.size());
        ASSERT_EQ(walk.rows(), count);
        for (std::ptrdiff_t at = 0; at < count;) {
            if (random.chance(1, 3)) {  // a line, or the rest of it
                const std::int64_t left = walk.left();
                ASSERT_GT(left, 0);
                ASSERT_LE(at + left, count);
                row_walk line = walk;
                std::vector<std::int64_t> from(static_cast<std::size_t>(left));
                std::vector<std::int64_t> to(from.size());
                line.take(left, from.data(), to.data());
                for (std::size_t k = 1; k < from.size(); ++k) {
                    EXPECT_EQ(from[k] - from[k - 1], walk.in_step());
                    EXPECT_EQ(to[k] - to[k - 1], walk.out_step());
                }
                const std::int64_t some = random.integer(1, left);
                walk.pass(some);
                at += some;
                continue;
            }
            const std::ptrdiff_t here = random.integer(1, count - at);
            std::vector<std::int64_t> from(static_cast<std::size_t>(here));
            std::vector<std::int64_t> to(from.size());
            walk.take(here, from.data(), to.data());
            for (std::size_t k = 0; k < from.size(); ++k)
                ASSERT_EQ((row{from[k], to[k]}), rows[static_cast<std::size_t>(at) + k]);
            at += here;
        }
    }
}

TEST(collapse, a_walk_over_contiguous_axes_is_one_line) {
    const std::array<shape::tap_class, 3> c{class_of(2, 0, 1, 0, 1), class_of(3, 0, 1, 0, 1), class_of(4, 0, 1, 0, 1)};
    const shape::canonical_strides dense{24, 1, 12, 4, 1};
    const shape::canonical_strides gaps{25, 1, 12, 4, 1};
    EXPECT_EQ(row_walk(0, 5, c, dense, dense, 0).left(), 5 * 24);
    EXPECT_EQ(row_walk(0, 5, c, dense, gaps, 0).left(), 24);
    EXPECT_EQ(row_walk(0, 5, c, {24, 1, 12, 5, 1}, dense, 0).left(), 4);
    // axes of one entry are in nobody's way, whatever their strides
    const std::array<shape::tap_class, 3> flat{class_of(2, 0, 1, 0, 1), class_of(1, 1, 1, 1, 1),
                                               class_of(4, 0, 1, 0, 1)};
    EXPECT_EQ(row_walk(0, 5, flat, {8, 1, 4, 77, 1}, {8, 1, 4, -3, 1}, 0).left(), 5 * 8);
}

}  // namespace
