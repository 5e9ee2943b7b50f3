// Which path plans a weight gradient. Nothing is run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/detail/conv_weights/select.hpp>

#include "support/random.hpp"

namespace gradkern_test {
namespace {

using namespace gradkern::detail::conv_weights;
using gradkern::algorithm;
using gradkern::plan_options;
using gradkern::detail::source_kind;
namespace simd = gradkern::detail::simd;

static_assert(std::is_trivially_copyable_v<plan>);

/// A problem with square windows of "same" size where `pad` allows, in NXC or NCX.
struct layer {
    std::int64_t groups = 1, large = 64, small = 64;  // channels of a group
    std::int64_t size = 28, kernel = 3, stride = 1, dilation = 1, pad = 1, batch = 2;
    activations type = activations::wide;
    bool nxc = true;
    bool dot_bf16 = false;

    [[nodiscard]] problem make() const {
        problem p;
        const std::int64_t out = (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
        for (const std::size_t i : {1U, 2U}) p.axes[i] = {size, out, kernel, stride, dilation, pad, pad};
        p.batch = batch;
        p.groups = groups;
        p.large_channels = large;
        p.small_channels = small;
        p.large = strides(groups * large, size);
        p.small = strides(groups * small, out);
        p.weights = {large * kernel * kernel, kernel * kernel, kernel * kernel, kernel, 1};
        p.activations = type;
        p.dot_bf16 = dot_bf16;
        return p;
    }

private:
    [[nodiscard]] gradkern::shape::canonical_strides strides(std::int64_t channels, std::int64_t extent) const {
        const std::int64_t plane = extent * extent;
        if (nxc) return {plane * channels, 1, plane * channels, extent * channels, channels};
        return {plane * channels, plane, plane, extent, 1};
    }
};

algorithm chosen(const layer& l) { return choose(l.make(), {}).row->name; }
bool is_refused(const layer& l, algorithm wanted) { return choose(l.make(), {.algorithm = wanted}).row == nullptr; }

TEST(conv_weights_select, each_row_has_its_layers) {
    EXPECT_EQ(chosen({.large = 3}), algorithm::few_channels);
    EXPECT_EQ(chosen({.large = 3, .nxc = false}), algorithm::few_channels);
    if (gradkern::detail::has_outer(4)) {
        EXPECT_EQ(chosen({.groups = 32, .large = 4, .small = 4}), algorithm::grouped);
    }
    if (simd::lanes >= 4) {
        EXPECT_EQ(chosen({.groups = 64, .large = 1, .small = 1}), algorithm::depthwise_sliding);
        EXPECT_EQ(chosen({.groups = 64, .large = 1, .small = 1, .kernel = 5, .pad = 2}), algorithm::depthwise);
        EXPECT_EQ(chosen({.groups = 16, .large = 3, .small = 2}), algorithm::depthwise);
    }
    if (simd::lanes >= 8) {
        EXPECT_EQ(chosen({.groups = 8, .large = 12, .small = 12}), algorithm::tap_lanes);
        EXPECT_EQ(chosen({.groups = 24, .large = 5, .small = 5, .nxc = false}), algorithm::tap_lanes);
    }
    EXPECT_EQ(chosen({.groups = 4, .large = 64, .small = 64, .nxc = false}), algorithm::dense);
    EXPECT_EQ(chosen({.dot_bf16 = true}), algorithm::dense_bf16);
    EXPECT_EQ(chosen({.nxc = false}), algorithm::dense);
    EXPECT_EQ(chosen({.stride = 2}), algorithm::dense);
    EXPECT_EQ(chosen({}), algorithm::dense_packed) << "transposed";
    EXPECT_EQ(chosen({.large = 1024, .kernel = 1, .pad = 0}), algorithm::dense_packed) << "pixels far apart";
    EXPECT_EQ(chosen({.type = activations::packed_16bit, .nxc = false}), algorithm::dense_packed);
}

// What costs decide, on CPUs whose vectors are long enough to be empty.
TEST(conv_weights_select, few_channels_take_the_row_that_costs_least) {
    if (simd::lanes < 8) GTEST_SKIP() << "short vectors";
    for (const bool nxc : {true, false}) {
        if (nxc || simd::lanes > 8) {
            EXPECT_EQ(chosen({.large = 12, .small = 12, .nxc = nxc}), algorithm::tap_lanes);
        }
        EXPECT_NE(chosen({.large = 12, .small = 4096, .nxc = nxc}), algorithm::tap_lanes) << "many sums";
        EXPECT_NE(chosen({.large = 12, .small = 12, .kernel = 1, .pad = 0, .nxc = nxc}), algorithm::tap_lanes);
        // Chunks cut the lines: inner ones have no borders.
        EXPECT_EQ(chosen({.large = 1, .size = 512, .nxc = nxc}), algorithm::few_channels);
        EXPECT_NE(chosen({.large = 3, .size = 512, .nxc = nxc}), algorithm::few_channels);
    }
    EXPECT_EQ(chosen({.groups = 32, .large = 3, .small = 3}), algorithm::tap_lanes);
}

TEST(conv_weights_select, rows_that_do_not_fit_are_refused) {
    const layer groups{.groups = 16, .large = 3, .small = 2};
    const layer depthwise{.groups = 64, .large = 1, .small = 1};
    EXPECT_TRUE(is_refused(groups, algorithm::few_channels));
    EXPECT_TRUE(is_refused(groups, algorithm::grouped));
    EXPECT_TRUE(is_refused(groups, algorithm::depthwise_sliding));
    EXPECT_TRUE(is_refused({}, algorithm::depthwise));
    EXPECT_TRUE(is_refused({.groups = 8, .large = 12, .small = 12, .dilation = 2, .pad = 2}, algorithm::tap_lanes));
    EXPECT_TRUE(is_refused({}, algorithm::dense_bf16));
    EXPECT_TRUE(is_refused({.type = activations::packed_16bit}, algorithm::dense));
    for (layer l : {layer{.kernel = 5, .pad = 2}, layer{.dilation = 2, .pad = 2}, layer{.stride = 3}}) {
        l.groups = depthwise.groups;
        l.large = l.small = 1;
        EXPECT_TRUE(is_refused(l, algorithm::depthwise_sliding));
        EXPECT_FALSE(is_refused(l, algorithm::depthwise));
    }
    EXPECT_FALSE(is_refused(groups, algorithm::depthwise));
    EXPECT_FALSE(is_refused(groups, algorithm::dense_packed));
}

// Windows far apart, whose lines would be packed with all that lies between.
TEST(conv_weights_select, packing_buffers_are_bounded) {
    layer far{.large = 4, .small = 4, .size = 900, .dilation = 400, .pad = 0, .type = activations::packed_16bit};
    EXPECT_TRUE(is_refused(far, algorithm::few_channels));
    far.groups = 64;
    EXPECT_TRUE(is_refused(far, algorithm::depthwise));
    EXPECT_TRUE(is_refused(far, algorithm::grouped));
    EXPECT_TRUE(is_refused(far, algorithm::tap_lanes));
    far.large = far.small = 1;
    EXPECT_TRUE(is_refused(far, algorithm::depthwise));
    EXPECT_EQ(chosen(far), algorithm::dense_packed);
}

TEST(conv_weights_select, sides_of_1x1_kernels_are_swapped_where_lanes_would_be_empty) {
    constexpr std::int64_t lanes = simd::lanes;
    const layer l{.large = 8 * lanes, .small = lanes / 4 + 1, .kernel = 1, .pad = 0};
    if (lanes < 4) GTEST_SKIP() << "too few lanes to be empty";
    EXPECT_EQ(choose(l.make(), {}).plan.sides, sides::swapped);
    EXPECT_EQ(choose(l.make(), {.scratch = gradkern::scratch_use::least}).plan.sides, sides::as_given);
    layer other = l;
    std::swap(other.large, other.small);
    EXPECT_EQ(choose(other.make(), {}).plan.sides, sides::as_given);
}

TEST(conv_weights_select, sides_of_other_kernels_are_swapped_in_dense_where_lanes_would_be_empty) {
    constexpr std::int64_t lanes = simd::lanes;
    const layer l{.large = 8 * lanes, .small = lanes / 4 + 1};
    if (lanes < 8) GTEST_SKIP() << "too few lanes to be empty";
    for (const bool nxc : {true, false}) {
        layer other = l;
        other.nxc = nxc;
        const choice c = choose(other.make(), {});
        EXPECT_EQ(c.row->name, algorithm::dense);
        EXPECT_EQ(c.plan.sides, sides::swapped_windows);
        EXPECT_EQ(c.plan.small_source, nxc ? source_kind::in_place : source_kind::packed);
        EXPECT_EQ(choose(other.make(), {.algorithm = algorithm::dense}).plan.sides, sides::swapped_windows);
        EXPECT_EQ(choose(other.make(), {.algorithm = algorithm::dense_packed}).plan.sides, sides::as_given);
        EXPECT_EQ(choose(other.make(), {.scratch = gradkern::scratch_use::least}).plan.sides, sides::as_given);
    }
    layer other = l;
    other.large = 8 * lanes + 1;
    EXPECT_EQ(choose(other.make(), {}).plan.small_source, source_kind::packed) << "lanes beyond the channels";
    other = l;
    other.type = activations::packed_16bit;
    EXPECT_EQ(choose(other.make(), {}).plan.sides, sides::as_given);
    other = l;
    std::swap(other.large, other.small);
    EXPECT_EQ(choose(other.make(), {}).plan.sides, sides::as_given);
    other = l;
    other.size = 900;
    other.dilation = other.pad = 200;
    other.nxc = false;
    EXPECT_EQ(choose(other.make(), {}).plan.sides, sides::as_given) << "windows too large to be packed";
}

TEST(conv_weights_select, nothing_to_write_takes_any_row_and_no_task) {
    for (const path& row : paths) {
        const choice c = choose(layer{.large = 0}.make(), {.algorithm = row.name});
        ASSERT_NE(c.row, nullptr);
        EXPECT_EQ(c.row->name, row.name);
        EXPECT_EQ(c.plan.tasks(), 0);
        EXPECT_EQ(c.plan.slice_bytes, 0);
    }
}

TEST(conv_weights_select, contiguous_lines_of_1x1_kernels_collapse) {
    const problem p = layer{.kernel = 1, .pad = 0}.make().with_collapsed_lines();
    EXPECT_EQ(p.axes[2].small, 28 * 28);
    EXPECT_EQ(p.axes[1].small, 1);
    EXPECT_EQ(layer{}.make().with_collapsed_lines().axes, layer{}.make().axes) << "3x3";
    problem gaps = layer{.kernel = 1, .pad = 0}.make();
    gaps.small[3] += 64;
    EXPECT_EQ(gaps.with_collapsed_lines().axes, gaps.axes);
}

layer random_layer(random_source& random) {
    const auto channels = [&] { return random.pick<std::int64_t>({1, 1, 2, 3, 4, 5, 8, 8, 16, 17, 24, 33, 64, 200}); };
    layer l{.groups = random.chance(1, 2) ? 1 : random.integer(2, 40), .large = channels(), .small = channels()};
    l.size = random.integer(6, 40);
    l.kernel = random.integer(1, 5);
    l.stride = random.integer(1, 3);
    l.pad = random.integer(0, 2);
    l.batch = random.integer(0, 9);
    l.type = random.pick({activations::wide, activations::native_16bit, activations::packed_16bit});
    l.nxc = random.chance(1, 2);
    l.dot_bf16 = l.type != activations::wide && random.chance(1, 3);
    return l;
}

// Forced or not: what is chosen is a row that fits; the least scratch is that of dense tasks, and fits the stack.
TEST(conv_weights_select, every_problem_has_a_row) {
    random_source random("conv_weights.select");
    for (int i = 0; i < 2000; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const layer l = random_layer(random);
        const problem p = l.make();
        const choice fast = choose(p, {});
        ASSERT_NE(fast.row, nullptr);
        EXPECT_GT(fast.plan.slice_bytes, 0);
        for (const path& row : paths) {
            const choice forced = choose(p, {.algorithm = row.name});
            EXPECT_TRUE(forced.row == nullptr || forced.row->name == row.name);
            EXPECT_TRUE(forced.row != nullptr || row.name != fast.row->name);
        }
        const choice least = choose(p, {.scratch = gradkern::scratch_use::least});
        ASSERT_NE(least.row, nullptr);
        if (p.dot_bf16) continue;
        EXPECT_EQ(least.row->name, p.is_wide() ? algorithm::dense : algorithm::dense_packed);
        EXPECT_LE(least.plan.slice_bytes, gradkern::detail::call_scratch * gradkern::detail::least_times);
        for (const path& row : paths) {  // names are ignored, but must be there
            const choice named = choose(p, {.algorithm = row.name, .scratch = gradkern::scratch_use::least});
            ASSERT_EQ(named.row, least.row) << gradkern::name_of(row.name);
        }
        EXPECT_EQ(choose(p, {.algorithm = algorithm::pointwise, .scratch = gradkern::scratch_use::least}).row, nullptr);
    }
}

// More workers get more tasks, and no slice grows.
TEST(conv_weights_select, workers_share_out_panels_and_channels_but_no_sum) {
    random_source random("conv_weights.workers");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const choice c = choose(random_layer(random).make(), {});
        for (const std::int64_t workers : {1, 2, 3, 8, 100}) {
            const plan split = c.plan.split_for(workers);
            EXPECT_GE(split.tasks(), c.plan.tasks());
            EXPECT_LE(split.sum_floats(), c.plan.sum_floats());
            EXPECT_EQ(split.chunks.count, c.plan.chunks.count);
            EXPECT_TRUE(workers > 1 || split.tasks() == c.plan.tasks());
        }
    }
}

// Stems have few weights, but many positions and taps.
TEST(conv_weights_select, positions_and_taps_are_cut_where_channels_are_few) {
    for (const std::int64_t batch : {4, 32}) {
        const layer stem{.large = 3, .small = 64, .size = 224, .kernel = 7, .stride = 2, .pad = 3, .batch = batch};
        const plan one = choose(stem.make(), {}).plan;
        EXPECT_EQ(one.split_for(1).cut, position_cut::none);
        for (const std::int64_t workers : {4, 8, 16}) {
            const plan p = one.split_for(workers);
            EXPECT_GT(p.tasks(), one.tasks());
            EXPECT_LE(p.shared_bytes(), std::int64_t{32} << 20);
            EXPECT_LE(p.makespan(workers), 1.5 / static_cast<double>(workers));
        }
    }
}

// Small planes are one sum of chunks: where channels offer few tasks, each chunk is one.
TEST(conv_weights_select, chunks_are_tasks_where_sums_and_channels_are_few) {
    const layer small{.large = 6, .small = 16, .size = 10, .kernel = 5, .stride = 1, .pad = 0, .batch = 32};
    const plan one = choose(small.make(), {}).plan;
    EXPECT_EQ(one.chunks.sums(), 1);
    const plan p = one.split_for(16);
    EXPECT_EQ(p.cut, position_cut::chunks);
    EXPECT_EQ(p.tasks(), p.parts() * p.chunks.count);
    EXPECT_LE(p.makespan(16), 0.5 * one.makespan(1));
}

// The last parts may be smaller than the others. What a plan counts as one is the largest.
TEST(conv_weights_select, the_busiest_worker_has_its_share_at_least) {
    random_source random("conv_weights.parts");
    for (int i = 0; i < 500; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const plan planned = choose(random_layer(random).make(), {}).plan;
        if (planned.chunks.count == 0) continue;
        for (const std::int64_t workers : {2, 5, 16, 64}) {
            const plan p = planned.split_for(workers);
            EXPECT_GT(p.whole_parts(), 0);
            EXPECT_LE(p.whole_parts(), static_cast<double>(p.parts()) + 1e-9);
            EXPECT_LE(p.makespan(workers), planned.makespan(workers));
            const double chunks = p.most_chunks(workers);
            EXPECT_GE(chunks * static_cast<double>(workers) + 1e-9,
                      p.whole_parts() * static_cast<double>(p.chunks.count));
        }
    }
}

}  // namespace
}  // namespace gradkern_test
