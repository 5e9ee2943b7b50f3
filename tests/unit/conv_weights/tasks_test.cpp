// What the tasks of weight gradients walk: groups of taps, lines of a chunk, segments, windows, against plain loops.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradkern/detail/conv_weights/dense_bf16.hpp>

#include "support/random.hpp"

namespace gradkern_test {
namespace {

using namespace gradkern::detail::conv_weights;
using gradkern::detail::chunk_grid;
using gradkern::detail::k_segment;
namespace shape = gradkern::shape;

shape::axis random_axis(random_source& random) {
    shape::axis a{.kernel = random.integer(1, 5), .stride = random.integer(1, 3), .dilation = random.integer(1, 3)};
    a.pad_begin = random.integer(0, 4);
    a.small = random.integer(1, 9);
    a.large = std::max<std::int64_t>(1, a.position(a.small - 1, a.kernel - 1) + 1 - random.integer(0, 4));
    return a;
}

/// A plan of three such axes, with chunks of whole lines.
dense_tasks random_tasks(random_source& random) {
    problem p;
    for (shape::axis& a : p.axes) a = random_axis(random);
    p.batch = random.integer(1, 3);
    p.small_channels = 5;
    p.large_channels = 3;
    const std::int64_t row = p.axes[2].small + random.pick<std::int64_t>({0, 0, 2});
    p.small = {p.axes[0].small * p.axes[1].small * row * 5, 1, p.axes[1].small * row * 5, row * 5, 5};
    p.large = {p.axes[0].large * p.axes[1].large * p.axes[2].large, 1, p.axes[1].large * p.axes[2].large,
               p.axes[2].large, 1};
    return dense_tasks(p);
}

bool is_inside(const shape::axis& a, std::int64_t o, std::int64_t k) {
    return a.position(o, k) >= 0 && a.position(o, k) < a.large;
}

TEST(conv_weights_tasks, groups_of_taps_meet_the_same_pixels) {
    random_source random("conv_weights.tap_groups");
    for (int i = 0; i < 2000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const shape::axis a = random_axis(random);
        const std::int64_t first = random.integer(0, a.small - 1);
        const chunk_grid::chunk c{0, 1, first, random.integer(first + 1, a.small)};
        const std::int64_t most = random.integer(1, 5);
        std::int64_t taps = 0;
        for (std::int64_t k = 0; k < a.kernel; k += taps) {
            const tap_group g = tap_group_at(a, k, c, most);
            taps = g.taps;
            ASSERT_GE(taps, 1);
            ASSERT_LE(taps, most);
            EXPECT_EQ(g.first_tap, k);
            for (std::int64_t tap = k; tap < k + taps; ++tap)
                for (std::int64_t o = c.first_column; o < c.last_column; ++o)
                    EXPECT_EQ(is_inside(a, o, tap), o >= g.first && o < g.last) << "tap " << tap << " pixel " << o;
        }
    }
}

TEST(conv_weights_tasks, lines_of_a_chunk_come_in_order_and_contiguous_ones_as_one) {
    random_source random("conv_weights.lines");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const dense_tasks p = random_tasks(random);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        std::vector<std::int64_t> expected;
        line_position at(p.axes, c.first_line);
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes)) {
            EXPECT_EQ((at.n * p.axes[0].small + at.d) * p.axes[1].small + at.h, line);
            for (std::int64_t w = c.first_column; w < c.last_column; ++w) expected.push_back(at.offset(p.small, w));
        }
        for (const bool collapse : {false, true}) {
            std::vector<std::int64_t> pixels;
            std::int64_t calls = 0;
            for_each_line(p, c, c.first_column, c.last_column, collapse, [&](std::int64_t offset, std::int64_t count) {
                ++calls;
                for (std::int64_t x = 0; x < count; ++x) pixels.push_back(offset + x * p.small[4]);
            });
            EXPECT_EQ(pixels, expected);
            EXPECT_LE(calls, c.last_line - c.first_line);
            EXPECT_TRUE(collapse || calls == c.last_line - c.first_line);
        }
    }
}

TEST(conv_weights_tasks, segments_are_the_inside_pixels_of_a_tap) {
    random_source random("conv_weights.segments");
    for (int i = 0; i < 1000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const dense_tasks p = random_tasks(random);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        const std::array<std::int64_t, 3> tap{random.integer(0, p.axes[0].kernel - 1),
                                              random.integer(0, p.axes[1].kernel - 1),
                                              random.integer(0, p.axes[2].kernel - 1)};
        const tap_group columns = tap_group_at(p.axes[2], tap[2], c, 1);
        if (columns.columns() == 0) continue;
        const std::int64_t a_step = p.axes[2].stride * p.large[4];
        const std::int64_t b_step = p.panel_width;
        std::vector<std::pair<std::int64_t, std::int64_t>> expected;
        line_position at(p.axes, c.first_line);
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes))
            for (std::int64_t w = c.first_column; w < c.last_column; ++w)
                if (is_inside(p.axes[0], at.d, tap[0]) && is_inside(p.axes[1], at.h, tap[1]) &&
                    is_inside(p.axes[2], w, tap[2]))
                    expected.emplace_back(at.n * p.large[0] + p.axes[0].position(at.d, tap[0]) * p.large[2] +
                                              p.axes[1].position(at.h, tap[1]) * p.large[3] +
                                              p.axes[2].position(w, tap[2]) * p.large[4],
                                          ((line - c.first_line) * c.columns() + w - c.first_column) * b_step);
        const line_terms terms{columns.columns(), c.columns() * b_step, (columns.first - c.first_column) * b_step};
        for (const bool at_once : {false, true}) {
            std::vector<k_segment> list(static_cast<std::size_t>(p.chunk_lines()) + 1);
            std::ptrdiff_t count =
                fill_list(p, {nullptr, p.large}, c, tap, columns.first, terms, at_once ? a_step : 0, list.data());
            if (!at_once) count = collapse_segments(list.data(), count, a_step, b_step);
            std::vector<std::pair<std::int64_t, std::int64_t>> found;
            for (std::ptrdiff_t e = 0; e < count; ++e) {
                const k_segment& s = list[static_cast<std::size_t>(e)];
                for (std::int64_t k = 0; k < s.length; ++k) found.emplace_back(s.a + k * a_step, s.b + k * b_step);
            }
            EXPECT_EQ(found, expected);
        }
    }
}

TEST(conv_weights_tasks, windows_hold_every_line_and_column_that_is_read) {
    random_source random("conv_weights.windows");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const dense_tasks p = random_tasks(random);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        const std::int64_t tap = random.integer(0, p.axes[0].kernel - 1);
        const line_window w = window_of(p, c, tap);
        line_position at(p.axes, c.first_line);
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes)) {
            if (!is_inside(p.axes[0], at.d, tap)) continue;
            for (std::int64_t k = 0; k < p.axes[1].kernel; ++k) {
                if (!is_inside(p.axes[1], at.h, k)) continue;
                const std::int64_t read = (at.n * p.axes[0].large + p.axes[0].position(at.d, tap)) * p.axes[1].large +
                                          p.axes[1].position(at.h, k);
                EXPECT_TRUE(read >= w.first_line && read < w.first_line + w.lines);
            }
        }
        for (std::int64_t o = c.first_column; o < c.last_column; ++o)
            for (std::int64_t k = 0; k < p.axes[2].kernel; ++k) {
                const std::int64_t read = p.axes[2].position(o, k);
                EXPECT_TRUE(!is_inside(p.axes[2], o, k) ||
                            (read >= w.first_column && read < w.first_column + w.columns));
            }
        EXPECT_LE(w.columns, p.axes[2].large);
    }
}

TEST(conv_weights_tasks, an_odd_pixel_is_a_pair) {
    EXPECT_EQ(pairs_of(0), 0);
    EXPECT_EQ(pairs_of(1), 1);
    EXPECT_EQ(pairs_of(6), 3);
    EXPECT_EQ(pairs_of(7), 4);
}

}  // namespace
}  // namespace gradkern_test
