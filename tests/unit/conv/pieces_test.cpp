// What the paths of convolutions share: problems, packed weights, the order of terms, tasks and blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradkern/detail/conv/dense.hpp>
#include <gradkern/detail/conv/panel_tasks.hpp>
#include <gradkern/detail/conv/pointwise.hpp>
#include <gradkern/detail/conv/problem.hpp>
#include <gradkern/detail/conv/terms.hpp>
#include <gradkern/detail/conv/tile_plan.hpp>
#include <gradkern/detail/conv/weights.hpp>
#include <gradkern/detail/run/tasks.hpp>
#include <gradkern/detail/simd.hpp>

namespace {

namespace gk = gradkern;
namespace detail = gradkern::detail;
using detail::conv_equation;
using detail::lane_inputs;
using detail::tile_numbers;
using detail::weight_panels;
using gk::shape::side;

constexpr auto lanes = static_cast<std::int64_t>(detail::simd::lanes);

/// Groups of channels and a 2x3 kernel; the filter is dense as [group][out][in][row][column], each weight its own offset.
conv_equation small_equation(side outputs, std::int64_t groups, std::int64_t in, std::int64_t out) {
    conv_equation e;
    e.outputs = outputs;
    e.axes = {{{.large = 1, .small = 1}, {.large = 5, .small = 4, .kernel = 2}, {.large = 6, .small = 4, .kernel = 3}}};
    e.batch = 1;
    e.groups = groups;
    e.in_channels = in;
    e.out_channels = out;
    e.weights = {.group = out * in * 6, .in = 6, .out = in * 6, .run = out, .tap = {6, 3, 1}};
    return e;
}
std::vector<float> offsets(const conv_equation& e) {
    std::vector<float> w(static_cast<std::size_t>(e.groups * e.weights.group));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
    return w;
}

TEST(conv_problem, axes_that_are_contiguous_in_both_memories_are_one) {
    conv_equation e;
    for (gk::shape::axis& a : e.axes) a = {.large = 4, .small = 4};
    e.in = {64, 64, 16, 4, 1};
    e.out = {640, 64, 160, 40, 10};
    detail::collapse_unit_axes(e);
    EXPECT_EQ(e.axes[2].large, 64);
    EXPECT_EQ(e.axes[0].large * e.axes[1].large, 1);
    EXPECT_TRUE(e.is_pointwise());
    // a gap between rows of one memory keeps them apart
    for (gk::shape::axis& a : e.axes) a = {.large = 4, .small = 4};
    e.in = {80, 80, 20, 5, 1};
    detail::collapse_unit_axes(e);
    EXPECT_EQ(e.axes[2].large, 4);
}

TEST(conv_problem, pixels_between_windows_of_one_are_dropped) {
    conv_equation e;
    e.axes[2] = {.large = 9, .small = 3, .stride = 4};
    e.in = {9, 9, 9, 9, 1};
    detail::drop_unread_pixels(e);
    EXPECT_EQ(e.axes[2].large, 3);
    EXPECT_EQ(e.axes[2].stride, 1);
    EXPECT_EQ(e.in[4], 4);
}

/// A data gradient of windows of two columns that lie side by side. Channels of the output, or pixels, lie `step` apart.
conv_equation windows_side_by_side(std::int64_t channels, std::int64_t step) {
    conv_equation e = small_equation(side::large, 1, 3, channels);
    e.axes[2] = {.large = 8, .small = 4, .kernel = 2, .stride = 2};
    e.weights.tap = {4, 2, 1};
    e.out = {0, 1, 0, 8 * channels * step, channels * step};
    return e;
}

TEST(conv_problem, column_taps_of_windows_side_by_side_become_channels) {
    conv_equation e = windows_side_by_side(lanes, 1);
    detail::collapse_column_taps(e);
    EXPECT_EQ(e.out_channels, 2 * lanes);
    EXPECT_EQ(e.weights.run, lanes);
    EXPECT_EQ(e.weights.group, 1);
    EXPECT_EQ(e.axes[2], (gk::shape::axis{.large = 4, .small = 4}));
    EXPECT_EQ(e.out[4], 2 * lanes);
    // weights that continue those of the tap before
    e = windows_side_by_side(lanes, 1);
    e.weights.out = 5;
    e.weights.tap[2] = 5 * lanes;
    detail::collapse_column_taps(e);
    EXPECT_EQ(e.weights.run, 2 * lanes);
}

TEST(conv_problem, other_column_taps_stay) {
    const auto stays = [](conv_equation e) {
        const std::int64_t channels = e.out_channels;
        const gk::shape::axis columns = e.axes[2];
        detail::collapse_column_taps(e);
        return e.out_channels == channels && e.axes[2] == columns;
    };
    EXPECT_FALSE(stays(windows_side_by_side(lanes, 1)));
    EXPECT_TRUE(stays(windows_side_by_side(lanes, 2)));  // a gap between pixels
    if (lanes > 2) {
        EXPECT_TRUE(stays(windows_side_by_side(lanes / 2 - 1, 1)));  // lanes would be empty all the same
    }
    conv_equation e = windows_side_by_side(lanes, 1);
    e.groups = 2;
    EXPECT_TRUE(stays(e));
    for (const gk::shape::axis columns : {gk::shape::axis{.large = 9, .small = 4, .kernel = 2, .stride = 2},
                                          {.large = 9, .small = 4, .kernel = 3, .stride = 2},
                                          {.large = 11, .small = 4, .kernel = 2, .stride = 3},
                                          {.large = 8, .small = 4, .kernel = 2, .stride = 2, .dilation = 3},
                                          {.large = 7, .small = 4, .kernel = 2, .stride = 2, .pad_begin = 1}}) {
        e = windows_side_by_side(lanes, 1);
        e.axes[2] = columns;
        EXPECT_TRUE(stays(e));
    }
}

TEST(conv_weights_panels, lanes_run_across_column_taps) {
    conv_equation e = windows_side_by_side(lanes, 1);
    const std::vector<float> w = offsets(e);
    detail::collapse_column_taps(e);
    const weight_panels p = detail::make_weight_panels(e, lane_inputs::broadcast, tile_numbers::f32, 2 * lanes);
    std::vector<float> packed(static_cast<std::size_t>(p.floats - 2 * lanes), -1.0F);
    detail::pack_weight_panel(e, p, detail::tensor_pointer_of(w.data()), 0, 0, 2 * lanes, packed.data());
    for (std::int64_t j = 0; j < 2 * lanes; ++j)
        EXPECT_EQ(packed[static_cast<std::size_t>(p.last_pitch + 2 * lanes + j)],  // row tap 0, channel 1
                  static_cast<float>(j % lanes * e.weights.out + e.weights.in + j / lanes));
}

TEST(conv_weights_panels, lanes_are_innermost_and_taps_in_the_order_of_reads) {
    for (const side outputs : {side::small, side::large}) {
        const conv_equation e = small_equation(outputs, 2, 70, 5);
        const weight_panels p = detail::make_weight_panels(e, lane_inputs::broadcast, tile_numbers::f32, 8);
        EXPECT_EQ(p.blocks(), 2);
        EXPECT_GE(p.tap_pitch, 64 * 8);
        EXPECT_EQ(p.floats, 8 + 6 * (p.tap_pitch + p.last_pitch));
        const std::vector<float> w = offsets(e);
        std::vector<float> packed(static_cast<std::size_t>(p.floats - 8), -1.0F);
        detail::pack_weight_panel(e, p, detail::tensor_pointer_of(w.data()), 1, 0, 5, packed.data());
        for (std::int64_t k = 0; k < 70; ++k)
            for (std::int64_t tap = 0; tap < 6; ++tap)
                for (std::int64_t j = 0; j < 8; ++j) {
                    const std::int64_t at =
                        k / 64 * 6 * p.tap_pitch + e.packed_tap(tap) * p.tap_pitch_at(k) + k % 64 * 8 + j;
                    const std::int64_t from = e.weights.group + j * e.weights.out + k * e.weights.in + tap;
                    ASSERT_EQ(packed[static_cast<std::size_t>(at)], j < 5 ? static_cast<float>(from) : 0.0F);
                }
        EXPECT_EQ(e.packed_tap(0), outputs == side::small ? 0 : 5);
    }
}

TEST(conv_weights_panels, lanes_run_across_groups) {
    const conv_equation e = small_equation(side::small, 5, 2, 3);
    const weight_panels p = detail::make_weight_panels(e, lane_inputs::own, tile_numbers::f32, 16);
    EXPECT_EQ(p.lane_channels(e), 15);
    const std::vector<float> w = offsets(e);
    std::vector<float> packed(static_cast<std::size_t>(p.floats - 16), -1.0F);
    detail::pack_weight_panel(e, p, detail::tensor_pointer_of(w.data()), 0, 4, 11, packed.data());
    for (std::int64_t j = 0; j < 11; ++j)
        EXPECT_EQ(packed[static_cast<std::size_t>(p.last_pitch + 16 + j)],  // tap 1, channel 1
                  static_cast<float>((4 + j) / 3 * e.weights.group + (4 + j) % 3 * e.weights.out + e.weights.in + 1));
}

TEST(conv_weights_panels, groups_of_eight_are_split_in_halves) {
    if (lanes < 4) return;
    std::vector<std::int64_t> at(static_cast<std::size_t>(2 * lanes));
    for (std::int64_t j = 0; j < 2 * lanes; ++j)
        at[static_cast<std::size_t>(j)] = weight_panels::split_lane(j / 4 * 4) + j % 4;
    for (std::int64_t j = 0; j < 2 * lanes; ++j)  // first halves lie in the first vector
        EXPECT_EQ(at[static_cast<std::size_t>(j)] >= lanes, j % 8 >= 4) << j;
    std::sort(at.begin(), at.end());
    for (std::int64_t j = 0; j < 2 * lanes; ++j) EXPECT_EQ(at[static_cast<std::size_t>(j)], j);
}

/// The terms of a class as pairs of offsets, and where parts begin.
struct listed {
    std::vector<std::array<std::int64_t, 2>> terms;
    std::vector<std::size_t> parts;
};
listed list_of(const conv_equation& e, const weight_panels& p, const std::array<gk::shape::tap_class, 3>& c) {
    detail::slice_layout layout;
    const detail::term_list_layout at = detail::reserve_terms(layout, e, p.blocks());
    alignas(64) static std::array<std::byte, 1 << 16> slice;
    detail::term_list list(slice.data(), at);
    detail::list_terms(e, p, c, {0, 1, 0, 600, 100}, 1, list);
    listed all;
    const auto* s = list.segments;
    for (std::ptrdiff_t part = 0; part < list.part_count; ++part) {
        all.parts.push_back(all.terms.size());
        for (std::ptrdiff_t n = 0; n < list.parts[part]; ++n, ++s)
            for (std::ptrdiff_t k = 0; k < s->length; ++k)
                all.terms.push_back({s->a + k * list.a_step, s->b + k * list.b_step});
    }
    return all;
}

TEST(conv_terms, blocks_of_channels_then_taps_then_channels_in_parts_of_576) {
    const conv_equation e = small_equation(side::small, 1, 130, 4);
    const weight_panels p = detail::make_weight_panels(e, lane_inputs::broadcast, tile_numbers::f32, 8);
    std::array<gk::shape::tap_class, 3> c;
    for (std::size_t i = 0; i < 3; ++i)
        c[i] = {.positions = 1, .taps = e.axes[i].kernel, .read_per_position = 1, .read_per_tap = 1};
    const listed all = list_of(e, p, c);
    ASSERT_EQ(all.terms.size(), 130U * 6U);
    std::size_t n = 0;
    for (std::int64_t k0 = 0; k0 < 130; k0 += 64)
        for (std::int64_t tap = 0; tap < 6; ++tap)
            for (std::int64_t k = k0; k < std::min<std::int64_t>(k0 + 64, 130); ++k, ++n) {
                EXPECT_EQ(all.terms[n][0], k + tap / 3 * 600 + tap % 3 * 100);
                EXPECT_EQ(all.terms[n][1], k0 / 64 * 6 * p.tap_pitch + tap * p.tap_pitch_at(k0) + (k - k0) * 8);
            }
    EXPECT_EQ(all.parts, (std::vector<std::size_t>{0, 576}));
}

TEST(conv_terms, a_class_without_taps_is_one_empty_part) {
    const conv_equation e = small_equation(side::large, 1, 3, 4);
    const weight_panels p = detail::make_weight_panels(e, lane_inputs::broadcast, tile_numbers::f32, 8);
    std::array<gk::shape::tap_class, 3> c;
    const listed all = list_of(e, p, c);
    EXPECT_TRUE(all.terms.empty());
    EXPECT_EQ(all.parts.size(), 1U);
}

TEST(conv_tasks, every_panel_of_every_block_has_one_task) {
    for (const std::int64_t fused : {0, 9, 10})
        for (const std::int64_t each : {1, 3, 10}) {
            detail::panel_tasks t;
            t.blocks = detail::box_grid(2, {1, 1, 8}, {1, 1, 4});
            t.panels = 10;
            t.fused = fused == 0 ? 10 : fused;
            t.each = each;
            std::vector<int> seen(static_cast<std::size_t>(t.blocks.count() * t.panels));
            for (std::int64_t task = 0; task < t.count(); ++task) {
                const auto [first, last] = t.panels_of(task % t.per_block());
                EXPECT_LE(last - first, each);
                for (std::int64_t p = first; p < last; ++p)
                    ++seen[static_cast<std::size_t>(task / t.per_block() * t.panels + p)];
            }
            for (const int times : seen) EXPECT_EQ(times, 1);
        }
}

// More workers get more and smaller tasks, which fit the scratch of the plan's and do the same work.
TEST(conv_tasks, workers_share_out_blocks_and_panels) {
    for (const std::int64_t batch : {1, 4})
        for (const std::int64_t extent : {7, 28, 56})
            for (const std::int64_t panels : {1, 2, 9})
                for (const std::int64_t each : {1, 4}) {
                    detail::panel_plan g;
                    static_cast<conv_equation&>(g) = small_equation(side::small, 1, 64, 64);
                    g.batch = batch;
                    g.axes = {};
                    g.axes[1] = g.axes[2] = {extent, extent, 3, 1, 1, 1, 1};
                    g.panels = detail::make_weight_panels(g, lane_inputs::broadcast, tile_numbers::f32, 16);
                    g.panel_channels = 16;
                    g.tasks.panels = g.tasks.fused = panels;
                    g.tasks.each = g.single_worker_panels = std::min(each, panels);
                    g.tasks.blocks = detail::choose_blocks(g, {.pixels = 4096, .floats = 1 << 17, .pixel_floats = 0});
                    EXPECT_EQ(detail::tasks_for(g, 1).count(), g.tasks.count());
                    for (const std::int64_t workers : {2, 3, 8, 16, 64, 1000}) {
                        const detail::panel_tasks t = detail::tasks_for(g, workers);
                        EXPECT_LE(detail::makespan(g, t, workers), detail::makespan(g, g.tasks, workers));
                        EXPECT_LE(t.each, g.tasks.each);
                        EXPECT_LE(t.blocks.images(), g.tasks.blocks.images());
                        for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(t.blocks.box(i), g.tasks.blocks.box(i));
                        std::int64_t work = 0;
                        for (std::int64_t n = 0; n < t.count(); ++n) {
                            const auto box = t.blocks[n / t.per_block()];
                            const auto [first, last] = t.panels_of(n % t.per_block());
                            work += (box.last_image - box.first_image) * (box.last[1] - box.first[1]) *
                                    (box.last[2] - box.first[2]) * (last - first);
                        }
                        EXPECT_EQ(work, batch * extent * extent * panels);
                    }
                    // Of large outputs there is work for many.
                    EXPECT_GE(detail::tasks_for(g, 16).count(), extent == 56 ? 15 : 1);
                }
}

/// The tasks of a depthwise layer of 4 panels of 29 channels, 14x14, for so many workers.
detail::panel_tasks depthwise_tasks(std::int64_t batch, bool channels_are_neighbours, std::int64_t workers) {
    detail::panel_plan g;
    static_cast<conv_equation&>(g) = small_equation(side::small, 116, 1, 1);
    g.batch = batch;
    g.axes = {};
    g.axes[1] = g.axes[2] = {14, 14, 3, 1, 1, 1, 1};
    g.out = channels_are_neighbours ? gk::shape::canonical_strides{14 * 14 * 116, 1, 0, 14 * 116, 116}
                                    : gk::shape::canonical_strides{14 * 14 * 116, 14 * 14, 0, 14, 1};
    g.panels.terms = 1;
    g.panel_channels = 29;
    g.tasks.panels = g.tasks.fused = g.single_worker_panels = 4;
    g.tasks.blocks = detail::choose_blocks(g, {.pixels = 4096, .floats = 1 << 17, .pixel_floats = 0});
    return detail::tasks_for(g, workers);
}

// Panels of one block share lines of the cache where channels are neighbours: workers have blocks of their own, as long as there are pixels, and
// few of the other tasks write to the same pixels.
TEST(conv_tasks, workers_write_to_pixels_of_their_own_in_nxc) {
    for (const std::int64_t batch : {1, 8, 32})
        for (const std::int64_t workers : {2, 4, 8}) {
            const detail::panel_tasks t = depthwise_tasks(batch, true, workers);
            EXPECT_GE(t.blocks.count(), std::min(workers, 2 * batch));
            EXPECT_TRUE(batch == 1 || t.per_block() == 1);
        }
    EXPECT_GT(depthwise_tasks(1, false, 4).per_block(), 1);
}

/// dense_packed of two images, 3x3 with 24 input channels.
detail::tile_plan packed_layer(std::int64_t channels, std::int64_t extent) {
    detail::conv_problem p{};
    static_cast<conv_equation&>(p) = small_equation(side::small, 1, 24, channels);
    p.batch = 2;
    p.axes = {};
    p.axes[1] = p.axes[2] = {extent, extent, 3, 1, 1, 1, 1};
    return detail::make_tile_plan(p, detail::dense_packed_path::choice(p));
}

/// What a walk over the tasks of a pass packs: how often the weights of each panel, and the activations of each block, and where.
struct packings {
    std::vector<int> weights, blocks;
    std::vector<std::int64_t> weights_at, blocks_at;

    explicit packings(const detail::panel_tasks& t)
        : weights(static_cast<std::size_t>(t.panels)),
          blocks(static_cast<std::size_t>(t.blocks.count())),
          weights_at(weights.size(), -1),
          blocks_at(blocks.size(), -1) {}
    void walk(const detail::panel_plan& g, const detail::panel_run& run, std::int64_t tasks, const std::byte* slice) {
        detail::worker_buffers buffers;
        std::int64_t last = -1;
        for (std::int64_t n = 0; n < tasks; ++n) {
            const detail::panel_task task(g, run, n, slice, buffers);
            if (!run.tasks.shares_weights && !task.packs_only) {
                EXPECT_EQ(task.new_weights, task.first_panel != last);
                EXPECT_EQ(task.scratch.at_weights, run.tasks.scratch.at_weights);
                EXPECT_LE(task.scratch.at_weights + task.panels * g.panel_floats * g.real.bytes,
                          task.scratch.slice_bytes);
            }
            last = task.first_panel;
            std::size_t block = 0;
            while (run.tasks.blocks[static_cast<std::int64_t>(block)].first != task.box.first ||
                   run.tasks.blocks[static_cast<std::int64_t>(block)].first_image != task.box.first_image)
                ++block;
            const std::int64_t bytes = g.panel_floats * g.real.bytes;
            for (std::int64_t i = 0; i < task.panels; ++i) {
                const auto panel = static_cast<std::size_t>(task.first_panel + i);
                if (task.new_weights) {
                    ++weights[panel];
                    weights_at[panel] = task.scratch.at_weights + i * bytes;
                } else if (!task.packs_only) {  // reads what was packed there
                    EXPECT_EQ(weights_at[panel], task.scratch.at_weights + i * bytes);
                }
            }
            if (task.new_source) {
                ++blocks[block];
                blocks_at[block] = task.scratch.at_packed;
            } else if (!task.packs_only) {
                EXPECT_EQ(blocks_at[block], task.scratch.at_packed);
            }
            EXPECT_EQ(task.packs_only, run.pass == detail::task_pass::pack);
        }
    }
};

/// Arrays of so many bytes, which begin there, lie apart from one another between two offsets.
void expect_apart(std::vector<std::int64_t> begin, std::int64_t bytes, std::int64_t first, std::int64_t end) {
    std::sort(begin.begin(), begin.end());
    for (std::size_t i = 0; i < begin.size(); ++i) {
        EXPECT_GE(begin[i], first);
        EXPECT_LE(begin[i] + bytes, i + 1 < begin.size() ? begin[i + 1] : end);
    }
}

// One worker packs the weights of a panel once where it keeps them; several pack what they share once, in the first pass, each array in
// memory of its own behind one another, and read it there in the second pass.
TEST(conv_tasks, pack_once_what_is_shared) {
    int kept = 0;
    int shared_weights = 0;
    int shared_pixels = 0;
    for (const std::int64_t channels : {40, 130, 1000})
        for (const std::int64_t extent : {9, 70, 200})
            for (const std::int64_t workers : {1, 2, 16, 1000}) {
                const detail::tile_plan g = packed_layer(channels, extent);
                detail::panel_run run{detail::tasks_for(g, workers)};
                const detail::panel_tasks& t = run.tasks;
                std::vector<std::byte> memory(static_cast<std::size_t>(t.scratch.shared_bytes) + 1);
                const std::byte* const slice = memory.data() + t.scratch.shared_bytes;
                run.shared = memory.data();
                packings packed(t);
                detail::panel_tasks own = t;  // the same, where nothing is shared
                own.shares_weights = own.shares_pixels = false;
                EXPECT_LE(t.scratch.slice_bytes, detail::lay_out(g, own).slice_bytes);
                EXPECT_TRUE(!t.shares_weights || t.blocks.count() > 1);
                if (workers == 1) {
                    EXPECT_FALSE(t.shares_pixels);
                    packed.walk(g, run, t.count(), slice);
                    for (const int n : packed.weights) {
                        EXPECT_EQ(n, t.shares_weights ? 1 : static_cast<int>(t.per_block() > 1 ? t.blocks.count() : 1));
                    }
                    kept += static_cast<int>(t.shares_weights);
                } else if (t.shares()) {
                    // It takes less time, or less memory where that is scarce.
                    const detail::panel_tasks apart = detail::tasks_for(g, workers, 0);
                    const bool is_less = detail::scratch_bytes(apart, workers) > detail::most_scratch &&
                                         detail::scratch_bytes(t, workers) < detail::scratch_bytes(apart, workers);
                    EXPECT_TRUE(is_less || detail::makespan(g, t, workers) < detail::makespan(g, apart, workers));
                    packed.walk(g, run, run.begin_packing(), slice);
                    for (const int n : packed.weights) EXPECT_EQ(n, t.shares_weights ? 1 : 0);
                    for (const int n : packed.blocks) EXPECT_EQ(n, t.shares_pixels ? 1 : 0);
                    const std::int64_t begin = memory.data() - slice;
                    const std::int64_t pixels =
                        t.shares_pixels ? t.blocks.count() * t.scratch.packed_bytes : std::int64_t{0};
                    if (t.shares_weights)
                        expect_apart(packed.weights_at, g.panel_floats * g.real.bytes, begin + pixels, 0);
                    if (t.shares_pixels) expect_apart(packed.blocks_at, t.scratch.packed_bytes, begin, begin + pixels);
                    run.begin_computing();
                    packings computed = packed;
                    computed.walk(g, run, t.count(), slice);
                    // nothing again
                    EXPECT_TRUE(!t.shares_weights || computed.weights == packed.weights);
                    EXPECT_TRUE(!t.shares_pixels || computed.blocks == packed.blocks);
                    shared_weights += static_cast<int>(t.shares_weights);
                    shared_pixels += static_cast<int>(t.shares_pixels);
                } else {
                    packed.walk(g, run, t.count(), slice);
                }
            }
    EXPECT_GE(kept, 2);
    EXPECT_GE(shared_weights, 3);
    EXPECT_GE(shared_pixels, 3);
}

// Runs with the workspace that was asked for have the tasks that were planned for it. With less, their slices fit, and they take no longer
// than the tasks for all workers or those for as many as have memory for these, whichever are faster, where nothing is shared.
TEST(conv_tasks, fit_the_workspace) {
    int fewer = 0;
    int sharing = 0;
    for (const std::int64_t channels : {40, 130, 1000})
        for (const std::int64_t extent : {9, 70, 200})
            for (const std::int64_t workers : {1, 2, 3, 16, 1000}) {
                const detail::tile_plan g = packed_layer(channels, extent);
                const detail::panel_tasks planned = detail::tasks_for(g, workers);
                const std::size_t asked = detail::workspace_of(planned, workers);
                const std::size_t least = detail::workspace_of(detail::tasks_for(g, 1), 1);
                std::vector<std::byte> memory(std::max(asked, least));
                const detail::panel_tasks all = detail::tasks_within(g, workers, memory);
                EXPECT_EQ(all.count(), planned.count());
                EXPECT_EQ(all.scratch.slice_bytes, planned.scratch.slice_bytes);
                EXPECT_EQ(all.scratch.shared_bytes, planned.scratch.shared_bytes);
                const detail::panel_tasks small = detail::tasks_for(g, workers, 0);
                EXPECT_TRUE(workers == 1 || !small.shares());
                for (std::size_t bytes = least; bytes < asked; bytes += (asked - least) / 5 + 1) {
                    const std::span<std::byte> some = std::span(memory).first(bytes);
                    const auto time = [&](const detail::panel_tasks& t) {
                        const std::int64_t slices = detail::slices_of(t, some).count();
                        return detail::makespan(g, t, std::clamp<std::int64_t>(slices, 1, workers));
                    };
                    const detail::panel_tasks t = detail::tasks_within(g, workers, some);
                    EXPECT_LE(detail::workspace_of(t, 1), bytes);
                    EXPECT_GE(detail::slices_of(t, some).count(), 1);
                    EXPECT_LE(time(t), time(small));
                    const std::int64_t most = detail::slices_of(small, some).count();
                    EXPECT_LE(time(t), time(detail::tasks_for(g, std::clamp<std::int64_t>(most, 1, workers), 0)));
                    ++fewer;
                    sharing += static_cast<int>(t.shares());
                }
            }
    EXPECT_GE(fewer, 20);
    EXPECT_GE(sharing, 1);
}

// Nothing is kept or shared that is not packed: weights that are read in place have no memory.
TEST(conv_tasks, share_only_what_is_packed) {
    int in_place = 0;
    for (const std::int64_t channels : {64, 512})
        for (const std::int64_t workers : {1, 2, 16}) {
            detail::conv_problem p{};
            static_cast<conv_equation&>(p) = small_equation(side::small, 1, channels, 128);
            p.batch = 2;
            p.axes[1] = {};
            p.axes[2] = {.large = 3136, .small = 3136};
            p.in = p.out = {channels * 3136, 3136, 3136, 3136, 1};
            p.weights = {.in = 1, .out = channels, .run = 128};
            p.is_wide = true;
            const detail::pointwise_plan g = detail::pointwise_path::make(p);
            in_place += g.weights_source == detail::source_kind::in_place ? 1 : 0;
            const detail::panel_tasks t = detail::tasks_for(g, workers);
            EXPECT_TRUE(!t.shares_weights || g.panel_floats > 0);
            EXPECT_TRUE(!t.shares() || t.scratch.shared_bytes > 0);
        }
    EXPECT_EQ(in_place, 6);
}

// Bytes of weights that cannot be counted are not kept: so many groups that their product with the floats of a panel wraps.
TEST(conv_tasks, keep_no_weights_beyond_count) {
    for (const std::int64_t panels : {std::int64_t{3}, std::int64_t{1} << 40, (std::int64_t{1} << 62) / 16385 + 1}) {
        detail::tile_plan g = packed_layer(40, 70);
        g.tasks.panels = g.tasks.fused = g.group_panels = panels;
        g.panel_floats = std::int64_t{1} << 20;
        const detail::panel_tasks t = detail::tasks_for(g, 1);
        EXPECT_FALSE(t.shares()) << panels;
        EXPECT_GE(t.scratch.slice_bytes, g.panel_floats);
    }
}

TEST(conv_blocks, keep_to_their_budget_and_cover_the_outputs) {
    conv_equation e = small_equation(side::small, 1, 4, 4);
    e.batch = 3;
    e.axes[2] = {.large = 1002, .small = 1000, .kernel = 3};
    for (const std::int64_t pixels : {1, 100, 5000})
        for (const std::int64_t floats : {1 << 8, 1 << 14}) {
            const detail::block_budget budget{.pixels = pixels, .floats = floats, .pixel_floats = 4};
            const detail::box_grid blocks = detail::choose_blocks(e, budget);
            std::int64_t outputs = 0;
            for (std::int64_t b = 0; b < blocks.count(); ++b) {
                const auto box = blocks[b];
                outputs +=
                    (box.last_image - box.first_image) * (box.last[1] - box.first[1]) * (box.last[2] - box.first[2]);
            }
            EXPECT_EQ(outputs, e.pixels());
            EXPECT_LE(blocks.images() * blocks.box(1) * blocks.box(2), pixels);
            EXPECT_LE(detail::buffer_floats(e, budget, blocks.images(), {blocks.box(0), blocks.box(1), blocks.box(2)}),
                      floats);
        }
}

// Windows that reach far: blocks pack what they share with others only a few times, whatever the dilation.
TEST(conv_blocks, pack_far_windows_a_few_times) {
    for (const std::int64_t channels : {256, 2048})
        for (const std::int64_t extent : {19, 33, 60})
            for (const std::int64_t dilation : {1, 3, 6, 12, 18}) {
                detail::conv_problem p{};
                static_cast<conv_equation&>(p) = small_equation(side::small, 1, channels, 64);
                p.axes = {};
                p.axes[1] = p.axes[2] = {.large = extent,
                                         .small = extent,
                                         .kernel = 3,
                                         .stride = 1,
                                         .dilation = dilation,
                                         .pad_begin = dilation,
                                         .pad_end = dilation};
                const detail::tile_plan g = detail::make_tile_plan(p, detail::dense_packed_path::choice(p));
                for (const std::int64_t workers : {1, 4}) {
                    const detail::panel_tasks t = detail::tasks_for(g, workers);
                    const auto all = static_cast<double>(p.batch * channels * extent * extent);
                    const auto packed = static_cast<double>(t.blocks.count() * detail::packed_floats(g, t.blocks));
                    EXPECT_LE(packed, (workers == 1 ? 2.5 : 8) * all)
                        << channels << ' ' << extent << ' ' << dilation << ' ' << workers;
                }
            }
}

// Rows of channels, behind the block of each task.
TEST(pointwise, tasks_prefetch_the_rows_of_the_next_block) {
    detail::conv_problem p;
    p.batch = 3;
    p.axes[2].small = p.axes[2].large = 5000;
    p.in_channels = 70;
    p.out_channels = 4 * detail::tile_rows;
    p.in = {70 * 5000, 5000, 5000, 5000, 1};
    p.out = {p.out_channels * 5000, 5000, 5000, 5000, 1};
    p.weights = {.group = 0, .in = 1, .out = 70, .run = 1, .tap = {1, 1, 1}};
    p.is_wide = true;
    const auto g = detail::pointwise_path::make(p);
    ASSERT_GT(g.tasks.blocks.count(), 1);
    EXPECT_EQ(detail::prefetches_next_block(g, g.tasks, sizeof(float)), detail::target.prefetch.next_pixels > 0);
    detail::panel_tasks shared = g.tasks;
    shared.shares_pixels = true;
    EXPECT_FALSE(detail::prefetches_next_block(g, shared, sizeof(float)));
    const std::vector<float> src(static_cast<std::size_t>(p.batch * p.in[0]));
    detail::worker_buffers buffers;
    detail::panel_run run{.tasks = g.tasks};
    for (std::int64_t task = 0; task < g.tasks.count(); ++task) {
        const detail::panel_task t(g, run, task, nullptr, buffers);
        const detail::later_lines later = detail::next_block(g, t, detail::tensor_pointer_of(src.data()));
        const std::int64_t first = t.box.last[2] * g.segment;
        if (first >= p.batch * 5000) {
            EXPECT_EQ(later.step, 0);
            continue;
        }
        const std::int64_t channel = t.first_channel / detail::tile_rows * 70 / 4;
        EXPECT_EQ(reinterpret_cast<const float*>(later.next) - src.data(),
                  first / 5000 * p.in[0] + channel * 5000 + first % 5000);
        EXPECT_EQ(later.run * later.step + later.jump, 5000 * 4);
        // all channels by the tiles of all panels, no further than the end of the image or of a block
        const std::int64_t pixels = std::min((t.box.last[2] - t.box.first[2]) * g.segment, 5000 - first % 5000);
        EXPECT_EQ(later.run, 4 * (t.box.last[2] - t.box.first[2]));
        EXPECT_GE(later.run * later.step, std::min<std::int64_t>(pixels * 4, later.run * 64));
        EXPECT_LT(later.run * later.step, pixels * 4 + later.run);
    }
}

}  // namespace
