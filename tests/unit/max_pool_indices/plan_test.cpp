// Gradients from indices: which rows of the table fit and which is chosen, plans, what indices mean, walks over runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradkern/max_pool.hpp>

#include "support/random.hpp"

namespace {

namespace gk = gradkern;
namespace engine = gradkern::detail::max_pool_indices;
using engine::paths;
using gk::algorithm;
using gk::data_format;
using gk::extents;
using gk::index_base;
using gk::index_check;
using gk::output_mode;
using gk::plan_options;
using gk::storage_order;
using gk::tensor_layout;
using gradkern_test::random_source;

/// A problem of one spatial shape of windows and one of pixels.
struct shapes {
    data_format format = data_format::nxc;
    std::int64_t batch = 1;
    std::int64_t channels = 1;
    extents windows{};
    extents pixels{};
    [[nodiscard]] extents with(const extents& spatial) const {
        extents e{batch};
        if (format == data_format::ncx) e.push_back(channels);
        for (const std::int64_t s : spatial.values()) e.push_back(s);
        if (format == data_format::nxc) e.push_back(channels);
        return e;
    }
    [[nodiscard]] extents small() const { return with(windows); }
    [[nodiscard]] extents large() const { return with(pixels); }
};

engine::problem problem_of(const shapes& s, bool floats, const plan_options& options = {},
                           index_base base = index_base::tensor, storage_order order = storage_order::row_major,
                           const tensor_layout& diff_dst = {}, const tensor_layout& indices = {},
                           const tensor_layout& diff_src = {}) {
    const gk::max_pool_indices_attributes a{.data_format = s.format, .index_base = base, .storage_order = order};
    const auto p = gk::shape::max_pool_backward_from_indices_shapes(s.small(), s.small(), a, s.large(), 4);
    EXPECT_TRUE(p);
    const auto or_dense = [](const tensor_layout& l, const extents& e) { return l.empty() ? tensor_layout(e) : l; };
    return {*p,     a,      or_dense(diff_dst, s.small()), or_dense(indices, s.small()), or_dense(diff_src, s.large()),
            floats, options};
}

algorithm chosen(const engine::problem& p, algorithm wanted = algorithm::automatic) {
    const auto* row = gk::detail::select_path(paths, p, wanted);
    return row == nullptr ? algorithm::automatic : row->name;
}

std::vector<algorithm> rows_that_fit(const engine::problem& p) {
    std::vector<algorithm> names;
    for (const auto& row : paths)
        if (chosen(p, row.name) == row.name) names.push_back(row.name);
    return names;
}

constexpr shapes small_planes{data_format::ncx, 2, 8, {3, 3}, {7, 7}};
constexpr plan_options accumulating{.output = output_mode::accumulate};
constexpr plan_options each{.index_check = index_check::each};

// ------------------------------------------------------------------------------------------------------------- the table

TEST(max_pool_indices_select, floats_that_are_overwritten_hold_their_own_sums) {
    const std::vector all{algorithm::sums_in_place, algorithm::sums_sliding, algorithm::sums_buffered};
    EXPECT_EQ(rows_that_fit(problem_of(small_planes, true)), all);
    EXPECT_EQ(chosen(problem_of(small_planes, true)), algorithm::sums_in_place);
}

TEST(max_pool_indices_select, other_sums_are_in_scratch) {
    const std::vector in_scratch{algorithm::sums_sliding, algorithm::sums_buffered};
    EXPECT_EQ(rows_that_fit(problem_of(small_planes, false)), in_scratch);
    EXPECT_EQ(rows_that_fit(problem_of(small_planes, true, accumulating)), in_scratch);
    shapes many = small_planes;
    many.windows = {513, 512};
    EXPECT_EQ(rows_that_fit(problem_of(many, true)), in_scratch);
    many.windows = {512, 512};
    EXPECT_EQ(rows_that_fit(problem_of(many, true)).front(), algorithm::sums_in_place);
}

TEST(max_pool_indices_select, sums_slide_where_all_indices_are_looked_at_first) {
    EXPECT_EQ(rows_that_fit(problem_of(small_planes, false, each)), std::vector{algorithm::sums_buffered});
    EXPECT_EQ(chosen(problem_of(small_planes, false, each), algorithm::sums_sliding), algorithm::automatic);
    // accumulating plans and those of many windows look first all the same
    EXPECT_EQ(
        rows_that_fit(problem_of(small_planes, false, {output_mode::accumulate, {}, {}, index_check::each})).size(),
        2U);
    shapes many = small_planes;
    many.windows = {513, 512};
    EXPECT_EQ(rows_that_fit(problem_of(many, false, each)).size(), 2U);
}

TEST(max_pool_indices_select, sums_slide_where_those_of_a_block_exceed_the_cache) {
    shapes s{data_format::nxc, 1, 64, {8, 8}, {32, 32}};
    ASSERT_EQ(engine::sums_in_cache(gk::detail::sum_type::f32), 64 * 32 * 32);
    EXPECT_EQ(chosen(problem_of(s, false)), algorithm::sums_buffered);
    s.pixels = {32, 33};
    EXPECT_EQ(chosen(problem_of(s, false)), algorithm::sums_sliding);
    EXPECT_EQ(chosen(problem_of(s, true, accumulating)), algorithm::sums_sliding);
    EXPECT_EQ(chosen(problem_of(s, false, each)), algorithm::sums_buffered);
    s.format = data_format::ncx;  // a panel is one channel
    EXPECT_EQ(chosen(problem_of(s, false)), algorithm::sums_buffered);
}

TEST(max_pool_indices_select, a_row_that_does_not_fit_is_unsupported) {
    const auto error_of = [](const auto& plan) { return plan ? gk::error{} : plan.error(); };
    const auto plan_of = [&]<class T>(T, plan_options options, algorithm how) {
        options.algorithm = how;
        return error_of(gk::plan_max_pool_backward_from_indices<T>(small_planes.small(), small_planes.small(),
                                                                   {.data_format = data_format::ncx},
                                                                   small_planes.large(), options));
    };
    for (const gk::error& e :
         {plan_of(gk::bfloat16{}, {}, algorithm::sums_in_place), plan_of(0.0F, accumulating, algorithm::sums_in_place),
          plan_of(0.0F, each, algorithm::sums_sliding), plan_of(0.0F, {}, algorithm::dense)}) {
        EXPECT_EQ(e.code, gk::errc::unsupported);
        EXPECT_EQ(e.op, "max_pool_backward_from_indices");
        EXPECT_EQ(e.argument, "algorithm");
    }
    EXPECT_EQ(plan_of(0.0F, {}, algorithm::sums_sliding).code, gk::errc::ok);
}

TEST(max_pool_indices_select, a_plan_says_its_row) {
    for (const auto& row : paths) {
        const auto plan = *gk::plan_max_pool_backward_from_indices<float>(
            small_planes.small(), small_planes.small(), {.data_format = data_format::ncx}, small_planes.large(),
            {.algorithm = row.name});
        std::array<char, 256> text{};
        plan.describe(text);
        const std::string start = "max_pool_backward_from_indices: " + std::string(gk::name_of(row.name)) + ", ";
        EXPECT_EQ(std::string_view(text.data()).substr(0, start.size()), start);
    }
}

// ----------------------------------------------------------------------------------------------------------------- plans

TEST(max_pool_indices_plan, dense_small_planes_are_fused) {
    const engine::problem p = problem_of(small_planes, true);
    const engine::plan plan = engine::make_plan(p, algorithm::sums_in_place);
    EXPECT_EQ(plan.channels, 1);
    EXPECT_EQ(plan.plane, 8 * 49);
    EXPECT_EQ(plan.windows(), 8 * 9);
    EXPECT_EQ(plan.tasks(), 2);
    const auto planes_of = [](const engine::problem& q) {
        return engine::make_plan(q, algorithm::sums_buffered).channels;
    };
    EXPECT_EQ(planes_of(problem_of(small_planes, false)), 1);
    EXPECT_EQ(planes_of(problem_of(small_planes, false, {}, index_base::plane)), 8);
    EXPECT_EQ(planes_of(problem_of(small_planes, false, {}, index_base::tensor, storage_order::column_major)), 8);
    const tensor_layout apart({2, 8, 7, 7}, {8 * 50, 50, 7, 1});
    EXPECT_EQ(planes_of(problem_of(small_planes, false, {}, index_base::tensor, {}, {}, {}, apart)), 8);
    shapes larger = small_planes;
    larger.pixels = {40, 40};  // 3072 pixels at most, in scratch
    EXPECT_EQ(planes_of(problem_of(larger, false)), 8);
    larger.pixels = {39, 39};
    EXPECT_EQ(planes_of(problem_of(larger, false)), 4);
}

TEST(max_pool_indices_plan, nothing_to_write_is_no_task) {
    for (const shapes& s : {shapes{data_format::ncx, 2, 0, {3}, {7}}, shapes{data_format::nxc, 0, 3, {3}, {7}}})
        for (const auto& row : paths) {
            const auto plan = row.make(problem_of(s, true), row.name);
            EXPECT_EQ(plan.tasks(), 0);
            EXPECT_EQ(plan.slice_bytes, 0);
        }
}

/// Blocks cover a plane, panels the channels, and a slice holds the sums of a block of a panel.
TEST(max_pool_indices_plan, blocks_and_panels_cover_everything_and_fit_scratch) {
    random_source random("max_pool_indices.blocks");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const shapes s{random.pick({data_format::ncx, data_format::nxc}),
                       random.integer(1, 3),
                       random.integer(1, 300),
                       {random.integer(1, 700), random.integer(1, 700)},
                       {random.integer(1, 3000), random.integer(1, 900)}};
        const plan_options options{.scratch = random.pick({gk::scratch_use::fast, gk::scratch_use::least})};
        const engine::plan g = engine::make_plan(problem_of(s, false, options), algorithm::sums_buffered);
        EXPECT_GE(g.blocks * g.block, g.plane);
        EXPECT_LT((g.blocks - 1) * g.block, g.plane);
        EXPECT_GE(g.panels * g.panel_width, g.channels);
        EXPECT_LT((g.panels - 1) * g.panel_width, g.channels);
        EXPECT_LE(g.block * g.panel_width, g.capacity);
        EXPECT_LE(g.capacity * size_of(g.sums), g.slice_bytes);
        EXPECT_EQ(g.channels * g.plane, s.channels * s.pixels[0] * s.pixels[1]);
    }
}

/// However far indices look back, the sums that slide fit the slice that was planned, and hold more than what is looked back.
TEST(max_pool_indices_plan, sums_that_slide_fit_the_slice) {
    for (const std::int64_t channels : {1, 5, 16, 64, 100, 128, 300})
        for (const std::int64_t pixels : {40, 1000, 20'000, 300'000}) {
            const shapes s{data_format::nxc, 1, channels, {10}, {pixels}};
            const engine::plan g = engine::make_plan(problem_of(s, false), algorithm::sums_sliding);
            int slide = 0;
            for (std::int64_t back = 0; back <= pixels; back += std::max<std::int64_t>(1, pixels / 97)) {
                const engine::plan r = engine::slide_along(g, back);
                EXPECT_LE(r.buffered * r.panel_width, r.capacity);
                EXPECT_EQ(r.slice_bytes, g.slice_bytes);
                if (r.buffered == g.buffered) continue;
                ++slide;
                EXPECT_GT(r.buffered, back);
                EXPECT_LT(r.buffered, r.plane);
                EXPECT_EQ(r.blocks, 1);
                EXPECT_GE(r.panels * r.panel_width, r.channels);
            }
            EXPECT_EQ(slide > 0, pixels * std::min<std::int64_t>(channels, 128) > 16 * 1024)
                << channels << ' ' << pixels;
            EXPECT_EQ(engine::slide_along(g, pixels).look_back, g.look_back);
        }
}

// ----------------------------------------------------------------------------------------------------------- what indices mean

/// Every number is a pixel of exactly the planes that it should be, and no other number is one of any.
TEST(max_pool_indices_plan, indices_are_pixels_of_their_planes_alone) {
    for (const data_format format : {data_format::ncx, data_format::nxc})
        for (const index_base base : {index_base::tensor, index_base::plane, index_base::image})
            for (const storage_order order : {storage_order::row_major, storage_order::column_major})
                for (const std::int64_t channels : {1, 2, 3, 6, 8, 12}) {
                    const shapes s{format, 2, channels, {2, 2, 2}, {2, 3, 4}};
                    const engine::plan g =
                        engine::make_plan(problem_of(s, false, {}, base, order), algorithm::sums_buffered);
                    for (std::int64_t n = 0; n < 2; ++n)
                        for (std::int64_t c = 0; c < g.channels; ++c) {
                            const auto own = g.plane_of(n, c);
                            std::int64_t inside = 0;
                            for (std::int64_t i = -50; i < g.index.end + 50; ++i) {
                                const std::uint64_t pixel = own.pixel(i);
                                if (pixel >= static_cast<std::uint64_t>(g.plane)) continue;
                                ++inside;
                                EXPECT_EQ(g.destination_of(i, n, c),
                                          (n * g.channels + c) * g.plane + static_cast<std::int64_t>(pixel));
                            }
                            EXPECT_EQ(inside, g.plane);
                            for (const std::int64_t far : {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 23})
                                EXPECT_GE(own.pixel(far), static_cast<std::uint64_t>(g.plane));
                        }
                }
}

TEST(max_pool_indices_plan, pixels_have_their_offsets_in_memory) {
    const shapes s{data_format::ncx, 1, 1, {1, 1, 1}, {3, 4, 5}};
    for (const extents& strides : {extents{60, 60, 20, 5, 1}, extents{60, 60, 40, 10, 2}, extents{200, 200, 60, 7, 1}})
        for (const storage_order order : {storage_order::row_major, storage_order::column_major}) {
            const tensor_layout out(s.large(), strides);
            const engine::plan g = engine::make_plan(problem_of(s, false, {}, index_base::plane, order, {}, {}, out),
                                                     algorithm::sums_buffered);
            const bool one_line = order == storage_order::row_major && strides[2] == 4 * strides[3];
            EXPECT_EQ(g.one_line, one_line);
            std::int64_t pixel = 0;
            const bool rows = order == storage_order::row_major;
            for (std::int64_t a = 0; a < (rows ? 3 : 5); ++a)
                for (std::int64_t h = 0; h < 4; ++h)
                    for (std::int64_t b = 0; b < (rows ? 5 : 3); ++b)
                        EXPECT_EQ(g.offset_of(pixel++),
                                  (rows ? a : b) * strides[2] + h * strides[3] + (rows ? b : a) * strides[4]);
        }
}

// ------------------------------------------------------------------------------------------------------- runs of elements

/// Each element of the channels comes once, with the windows of a channel in ascending order, and with the origin of its plane.
TEST(max_pool_indices_runs, every_element_comes_once_and_in_order) {
    random_source random("max_pool_indices.runs");
    for (int i = 0; i < 400; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        shapes s{random.pick({data_format::ncx, data_format::nxc}),
                 2,
                 random.integer(1, 9),
                 {random.integer(1, 3), random.integer(1, 4), random.integer(1, 5)},
                 {2, 3, 4}};
        const auto layout = [&] {
            extents e = s.small();
            if (random.chance(1, 2)) return tensor_layout(e);
            e[1 + static_cast<std::size_t>(random.integer(0, 3))] += random.integer(1, 2);  // gaps somewhere
            return tensor_layout(s.small(), tensor_layout(e).strides);
        };
        const engine::plan g = engine::make_plan(problem_of(s, false, {}, index_base::plane, {}, layout(), layout()),
                                                 algorithm::sums_buffered);
        const std::int64_t n = random.integer(0, 1);
        const auto order =
            random.pick({engine::run_order::windows, engine::run_order::channels, engine::run_order::interleaved});
        const std::int64_t first = random.integer(0, g.channels - 1);
        const std::int64_t last =
            order == engine::run_order::windows ? first + 1 : random.integer(first + 1, g.channels);
        std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>>
            element;  // channel, window
        std::int64_t window = 0;
        for (std::int64_t d = 0; d < s.windows[0]; ++d)
            for (std::int64_t h = 0; h < s.windows[1]; ++h)
                for (std::int64_t w = 0; w < s.windows[2]; ++w, ++window)
                    for (std::int64_t c = first; c < last; ++c) {
                        const auto at = [&](const gk::shape::canonical_strides& t) {
                            return n * t[0] + c * t[1] + d * t[2] + h * t[3] + w * t[4];
                        };
                        element[{at(g.diff_dst), at(g.indices)}] = {c, window};
                    }
        std::vector<std::int64_t> next(static_cast<std::size_t>(g.channels), 0);  // window of each channel
        engine::run_walk(g, n, first, last, order).for_each([&](const engine::element_run& run) {
            ASSERT_EQ(run.count % run.interleaved, 0);
            for (std::int64_t e = 0; e < run.count; ++e) {
                const auto found = element.find({run.from + e * run.from_step, run.at + e * run.at_step});
                ASSERT_NE(found, element.end());
                const auto [c, o] = found->second;
                EXPECT_EQ(o, next[static_cast<std::size_t>(c)]++);
                const auto steps = static_cast<std::uint64_t>(e) * run.origin_step +
                                   static_cast<std::uint64_t>(e % run.interleaved) * run.interleave_step;
                EXPECT_EQ(run.own.origin + steps, g.plane_of(n, c).origin);
                if (run.interleaved == 1) {
                    EXPECT_EQ(c, first + e * run.channel_step);
                }
            }
        });
        for (std::int64_t c = first; c < last; ++c) EXPECT_EQ(next[static_cast<std::size_t>(c)], window);
    }
}

/// The look at indices finds what a loop over them finds. How far they look back may be overestimated, by one part of a run at most.
TEST(max_pool_indices_look, findings_are_those_of_a_plain_loop) {
    random_source random("max_pool_indices.look");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const shapes s{random.pick({data_format::ncx, data_format::nxc}),
                       2,
                       random.integer(1, 5),
                       {random.integer(1, 30)},
                       {random.integer(20, 60)}};
        const engine::plan g = engine::make_plan(problem_of(s, false, {}, index_base::tensor), algorithm::sums_sliding);
        std::vector<std::int64_t> indices(static_cast<std::size_t>(2 * s.channels * s.windows[0]), -1);
        const std::int64_t back = random.integer(0, 10);
        const bool holes = random.chance(1, 3);
        const bool strays = random.chance(1, 3);
        const bool bad = random.chance(1, 4);
        using engine::pointing;
        pointing want = pointing::to_own_plane;
        std::int64_t first_bad = 0;
        std::int64_t look_back = 0;
        for (std::int64_t n = 0; n < 2; ++n)
            for (std::int64_t c = 0; c < g.channels; ++c) {
                std::int64_t furthest = 0;
                for (std::int64_t o = 0; o < g.windows(); ++o) {
                    std::int64_t pixel = std::clamp<std::int64_t>(o - random.integer(0, back), 0, g.plane - 1);
                    std::int64_t index = n * g.index.per_image + c * g.index.per_channel + pixel * g.index.per_offset;
                    furthest = std::max(furthest, pixel);
                    look_back = std::max(look_back, furthest - pixel);
                    if (holes && random.chance(1, 20)) index = -1;
                    if (strays && random.chance(1, 20)) index = random.integer(0, g.index.end - 1);
                    if (bad && random.chance(1, 20)) index = random.chance(1, 2) ? -2 : g.index.end;
                    const std::int64_t to = g.destination_of(std::clamp<std::int64_t>(index, 0, g.index.end - 1), n, c);
                    const bool is_bad = index < -1 || index >= g.index.end;
                    const bool own = !is_bad && index != -1 && to / g.plane == n * g.channels + c;
                    want = std::max(want, is_bad        ? pointing::out_of_range
                                          : own         ? pointing::to_own_plane
                                          : index == -1 ? pointing::to_own_plane_or_nowhere
                                                        : pointing::anywhere);
                    if (is_bad && first_bad == 0) first_bad = index;
                    indices[static_cast<std::size_t>(n * g.indices[0] + c * g.indices[1] + o * g.indices[4])] = index;
                }
            }
        for (const bool measures : {false, true}) {
            const engine::index_findings f = measures ? engine::look_at_indices<true>(g, indices.data(), {})
                                                      : engine::look_at_indices<false>(g, indices.data(), {});
            EXPECT_EQ(f.worst, want);
            if (measures && want == pointing::to_own_plane) {
                EXPECT_GE(f.look_back, look_back);
                EXPECT_LE(f.look_back, g.plane);
            }
            if (measures && want != pointing::to_own_plane) {
                EXPECT_GE(f.look_back, g.plane);
            }
        }
        if (want == pointing::out_of_range) {
            EXPECT_EQ(engine::first_bad_index(g, indices.data()), first_bad);
        }
    }
}

}  // namespace
