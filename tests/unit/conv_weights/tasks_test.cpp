// What the tasks of weight gradients walk: groups of taps, lines of a chunk, segments, windows, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
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
plan random_plan(random_source& random) {
    problem p;
    for (shape::axis& a : p.axes) a = random_axis(random);
    p.batch = random.integer(1, 3);
    p.small_channels = 5;
    p.large_channels = 3;
    const std::int64_t row = p.axes[2].small + random.pick<std::int64_t>({0, 0, 2});
    p.small = {p.axes[0].small * p.axes[1].small * row * 5, 1, p.axes[1].small * row * 5, row * 5, 5};
    p.large = {p.axes[0].large * p.axes[1].large * p.axes[2].large, 1, p.axes[1].large * p.axes[2].large,
               p.axes[2].large, 1};
    return plan_dense(p, gradkern::algorithm::dense_packed);
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
        plan p;
        p.axes[2] = a;
        p.task_taps = random.integer(1, 5);
        std::int64_t next = 0;  // tap
        const auto expect_outside = [&](std::int64_t end) {
            for (; next < end; ++next)
                for (std::int64_t o = c.first_column; o < c.last_column; ++o)
                    EXPECT_FALSE(is_inside(a, o, next)) << "tap " << next << " pixel " << o;
        };
        for_each_tap_group(p, c, false, [&](const tap_group& g) {
            EXPECT_GE(g.columns(), 1);
            expect_outside(g.first_tap);
            EXPECT_GE(g.taps, 1);
            EXPECT_LE(g.taps, p.task_taps);
            for (; next < g.first_tap + g.taps; ++next)
                for (std::int64_t o = c.first_column; o < c.last_column; ++o)
                    EXPECT_EQ(is_inside(a, o, next), o >= g.first && o < g.last) << "tap " << next << " pixel " << o;
        });
        expect_outside(a.kernel);

        next = 0;
        for_each_tap_group(p, c, true, [&](const tap_group& g) {
            EXPECT_EQ(g.first_tap, next);
            EXPECT_GE(g.taps, 1);
            EXPECT_LE(g.taps, p.task_taps);
            for (; next < g.first_tap + g.taps; ++next)
                for (std::int64_t o = c.first_column; o < c.last_column; ++o)
                    EXPECT_EQ(is_inside(a, o, next), o >= g.first && o < g.last) << "tap " << next << " pixel " << o;
        });
        EXPECT_EQ(next, a.kernel);
    }
}

TEST(conv_weights_tasks, lines_of_a_chunk_are_packed_in_order) {
    random_source random("conv_weights.lines");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const plan p = random_plan(random);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        std::vector<float> small(static_cast<std::size_t>(p.batch * p.small[0]));
        for (std::size_t x = 0; x < small.size(); ++x) small[x] = static_cast<float>(x + 1);
        std::vector<float> expected;
        line_position at(p.axes, c.first_line);
        for (std::int64_t line = c.first_line; line < c.last_line; ++line, at.advance(p.axes)) {
            EXPECT_EQ((at.n * p.axes[0].small + at.d) * p.axes[1].small + at.h, line);
            for (std::int64_t w = c.first_column; w < c.last_column; ++w)
                for (std::int64_t s = 0; s < p.panel_width; ++s)
                    expected.push_back(s < 5 ? static_cast<float>(at.offset(p.small, w) + s + 1) : 0.0F);
        }
        std::vector<float> packed(expected.size());
        for (std::int64_t lane = 0; lane < 5; lane += p.panel_width) {  // a panel at a time
            const std::int64_t lanes = std::min<std::int64_t>(p.panel_width, 5 - lane);
            std::fill(packed.begin(), packed.end(), -1.0F);
            pack_chunk(p, gradkern::detail::tensor_pointer_of(small.data() + lane), c, lanes, 0, packed.data());
            for (std::size_t x = 0; x < packed.size(); ++x) {
                const auto s = static_cast<std::int64_t>(x) % p.panel_width;
                EXPECT_EQ(packed[x], s < lanes ? expected[x] + static_cast<float>(lane) : 0.0F);
            }
        }
    }
}

TEST(conv_weights_tasks, segments_are_the_inside_pixels_of_a_tap) {
    random_source random("conv_weights.segments");
    for (int i = 0; i < 1000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const plan p = random_plan(random);
        const chunk_grid::chunk c = p.chunks[random.integer(0, p.chunks.count - 1)];
        const std::array<std::int64_t, 3> tap{random.integer(0, p.axes[0].kernel - 1),
                                              random.integer(0, p.axes[1].kernel - 1),
                                              random.integer(0, p.axes[2].kernel - 1)};
        const shape::axis::position_range inside = p.axes[2].inside_positions(tap[2]);
        if (inside.first >= inside.last) continue;
        const tap_group columns{tap[2], 1, inside.first, inside.last};  // chunks are whole lines
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
        std::vector<k_segment> list(static_cast<std::size_t>(p.chunk_lines()) + 1);
        const task t(p, 0);
        dense_tiles<float> tiles(p, t, nullptr);
        tiles.list = list.data();
        for (const bool at_once : {false, true}) {
            std::ptrdiff_t count =
                tiles.fill_list({nullptr, p.large}, c, tap[0], tap[1], columns, at_once ? a_step : 0);
            if (!at_once) {
                std::ptrdiff_t kept = 0;
                for (std::ptrdiff_t e = 0; e < count; ++e)
                    kept = append(list.data(), kept, k_segment{list[static_cast<std::size_t>(e)]}, a_step, b_step);
                count = kept;
            }
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
        const plan p = random_plan(random);
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
                EXPECT_TRUE(!is_inside(p.axes[2], o, k) || (read >= w.columns.first && read < w.columns.last));
            }
        EXPECT_LE(w.width(), p.axes[2].large);
    }
}

TEST(conv_weights_tasks, an_odd_pixel_is_a_pair) {
    plan p;
    EXPECT_EQ(p.terms_of(7), 7);
    p.path = gradkern::algorithm::dense_bf16;
    EXPECT_EQ(p.terms_of(0), 0);
    EXPECT_EQ(p.terms_of(1), 1);
    EXPECT_EQ(p.terms_of(6), 3);
    EXPECT_EQ(p.terms_of(7), 4);
}

}  // namespace
}  // namespace gradkern_test
