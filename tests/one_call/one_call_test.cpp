// Whether a call without a workspace is accepted follows from the problem alone: objects compiled for vectors of 1 to 64
// floats, linked into one program, say the same of thousands of problems.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/error_text.hpp>

#include "one_call/probe.hpp"
#include "support/conv_cases.hpp"
#include "support/random.hpp"

namespace gradkern_test {
namespace {

using one_call::answer;
using one_call::op;
using one_call::problem;

struct target {
    const char* name;
    one_call::probe ask;
    std::size_t kilobytes;  ///< a problem whose fast plan needs no more is accepted, on all targets; 0: nothing is said
};
const std::array<target, 8> targets{{{"1", &one_call::ask_1, 0},
                                     {"2", &one_call::ask_2, 0},
                                     {"4", &one_call::ask_4, 0},
                                     {"8", &one_call::ask_8, 16},
                                     {"16", &one_call::ask_16, 32},
                                     {"32", &one_call::ask_32, 0},
                                     {"64", &one_call::ask_64, 0},
                                     {"real", &one_call::ask_real, 16}}};

gk::data_type any_type(random_source& random) {
    return random.pick({gk::data_type::f32, gk::data_type::f16, gk::data_type::bf16});
}
gk::plan_options any_options(random_source& random) {
    return {.output = random.chance(1, 4) ? gk::output_mode::accumulate : gk::output_mode::overwrite};
}

/// A pool, small or so large that nobody could run it.
problem random_pool(random_source& random) {
    for (;;) {
        problem p;
        p.op = static_cast<op>(random.integer(0, static_cast<int>(op::convolution) - 1));
        p.type = any_type(random);
        p.f32_gradient = random.chance(1, 2);
        p.options = any_options(random);
        p.with_indices = random.chance(1, 2);
        const auto r = static_cast<std::size_t>(random.integer(1, 3));
        const std::int64_t most = r == 1 ? 100'000 : r == 2 ? 300 : 40;
        gk::extents space;
        auto& a = p.average;
        for (std::size_t i = 0; i < r; ++i) {
            space.push_back(random.chance(1, 2) ? random.integer(1, 20) : random.integer(1, most));
            a.kernel.push_back(random.chance(1, 8) ? random.integer(1, space[i]) : random.integer(1, 6));
            a.strides.push_back(random.chance(1, 2) ? 1 : random.chance(1, 4) ? a.kernel[i] : random.integer(1, 5));
            a.dilations.push_back(random.chance(3, 4) ? 1 : random.integer(1, 4));
            a.pads_begin.push_back(random.chance(1, 2) ? 0 : random.integer(0, 3));
            a.pads_end.push_back(random.chance(1, 2) ? 0 : random.integer(0, 3));
        }
        a.exclude_pad = random.chance(1, 2);
        a.data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        p.norm = {.kernel = a.kernel,
                  .strides = a.strides,
                  .pads_begin = a.pads_begin,
                  .pads_end = a.pads_end,
                  .dilations = a.dilations,
                  .data_format = a.data_format};
        p.maximum = {.kernel = a.kernel,
                     .strides = a.strides,
                     .pads_begin = a.pads_begin,
                     .pads_end = a.pads_end,
                     .dilations = a.dilations,
                     .data_format = a.data_format,
                     .index_base = random.pick({gk::index_base::tensor, gk::index_base::plane, gk::index_base::image})};
        const std::int64_t channels = random.pick<std::int64_t>({1, 2, 3, 8, 16, 17, 24, 64, 100, 257});
        const gk::extents large =
            activation(a.data_format, random.integer(0, 40) == 0 ? 0 : random.integer(1, 3), channels, space);
        const auto small = gk::infer_avg_pool(large, a);
        if (!small) continue;
        p.large = large;
        p.small = *small;
        return p;
    }
}

problem call_of(const conv_case& c, gk::data_type type) {
    problem p;
    p.op = static_cast<op>(static_cast<int>(op::convolution) + static_cast<int>(c.op));
    p.type = type;
    p.large = c.large;
    p.small = c.small;
    p.weights = c.weights;
    p.conv = c.conv;
    p.transpose = c.transpose;
    return p;
}

problem random_convolution(random_source& random) {
    const conv_case c =
        random_conv_case(random, random.pick<std::int64_t>({100'000, 3'000'000, 30'000'000}), {}, random.chance(1, 8));
    problem p = call_of(c, any_type(random));
    p.f32_gradient = random.chance(1, 2);
    p.options = any_options(random);
    return p;
}

std::string text(const problem& p) {
    std::ostringstream out;
    const auto list = [&](const char* name, const gk::extents& e) {
        out << ' ' << name;
        for (const std::int64_t v : e.values()) out << ' ' << v;
    };
    const bool pool = p.op < op::convolution;
    const bool conv = p.op < op::conv_transpose;
    out << "op " << static_cast<int>(p.op) << " type " << static_cast<int>(p.type);
    list("large", p.large.shape);
    list("small", p.small.shape);
    list("weights", p.weights.shape);
    list("kernel", p.average.kernel);
    list("strides", pool ? p.average.strides : conv ? p.conv.strides : p.transpose.strides);
    out << " groups " << (conv ? p.conv.groups : p.transpose.groups) << " format "
        << static_cast<int>(pool   ? p.average.data_format
                            : conv ? p.conv.data_format
                                   : p.transpose.data_format);
    return out.str();
}

/// Asks all targets, and returns how many problems were accepted.
int all_agree(const std::vector<problem>& problems) {
    std::array<std::vector<answer>, targets.size()> answers;
    for (std::size_t t = 0; t < targets.size(); ++t) answers[t] = targets[t].ask(problems);
    int accepted = 0;
    int failures = 0;
    for (std::size_t i = 0; i < problems.size() && failures < 10; ++i) {
        const answer& first = answers[0][i];
        accepted += first.accepted ? 1 : 0;
        for (std::size_t t = 0; t < targets.size(); ++t) {
            const answer& a = answers[t][i];
            const bool agrees = a.planned == first.planned && a.accepted == first.accepted;
            // what some target accepted by its own scratch is accepted
            const bool was = a.planned && targets[t].kilobytes != 0 && a.fast_bytes <= targets[t].kilobytes * 1024 + 64;
            const bool refused_late = was && !a.accepted;
            const bool fits = !a.accepted || a.bytes <= 40 * 1024 * (t == 5 ? 2U : t == 6 ? 4U : 1U) + 64;
            const bool always =
                problems[i].op >= op::max_pool_backward_from_indices && problems[i].op != op::bias_backward;
            const bool pools_fit = always || !a.planned || a.accepted;
            if (agrees && !refused_late && fits && pools_fit) continue;
            ++failures;
            ADD_FAILURE() << text(problems[i]) << ": vectors of " << targets[t].name << ": planned " << a.planned
                          << ", accepted " << a.accepted << ", bytes " << a.fast_bytes << " or " << a.bytes
                          << "; of 1: " << first.planned << ", " << first.accepted << ", " << first.fast_bytes << " or "
                          << first.bytes;
        }
    }
    return accepted;
}

TEST(one_call, pools_and_bias_gradients_are_accepted_by_all_targets_or_by_none) {
    random_source random("one_call.pools");
    std::vector<problem> problems;
    for (int i = 0; i < 8000; ++i, random.next_case()) problems.push_back(random_pool(random));
    GRADKERN_TRACE_SEED(random);
    EXPECT_GT(all_agree(problems), 7000);
}

TEST(one_call, convolutions_are_accepted_by_all_targets_or_by_none) {
    random_source random("one_call.convolutions");
    std::vector<problem> problems;
    for (int i = 0; i < 8000; ++i, random.next_case()) problems.push_back(random_convolution(random));
    GRADKERN_TRACE_SEED(random);
    const int accepted = all_agree(problems);
    EXPECT_GT(accepted, 800);
    EXPECT_LT(accepted, 7950);
}

// Packed weights are blocks of 64 channels, of which the last one is as long as it is.
TEST(one_call, channels_of_more_than_a_block_are_accepted_as_long_as_their_weights_fit) {
    std::vector<problem> problems;
    for (std::int64_t channels = 50; channels <= 140; ++channels)
        for (std::int64_t kernel = 1; kernel * channels <= 512; ++kernel)
            for (const conv_operator op : {conv_operator::convolution, conv_operator::convolution_backward_data})
                for (const gk::data_type type : {gk::data_type::f32, gk::data_type::bf16}) {
                    const conv_row row{op, 1, 1, channels, channels, {16}, kernel, 1, 1, 0};
                    problems.push_back(call_of(make_case(row, gk::data_format::ncx, gk::weights_format::oix), type));
                }
    EXPECT_EQ(all_agree(problems), static_cast<int>(problems.size()));
}

// Two that some targets refused.
TEST(one_call, reported_problems) {
    problem image;
    image.op = op::avg_pool_backward;
    image.large = image.small = gk::extents{1, 112, 112, 8};
    image.average = {.kernel = {3, 3}, .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
    problem line;
    line.op = op::avg_pool_backward;
    line.type = gk::data_type::f16;
    line.large = gk::extents{1, 2000, 1};
    line.small = gk::extents{1, 1701, 1};
    line.average = {.kernel = {300}, .strides = {1}};
    problem forward = line;
    forward.op = op::avg_pool;
    EXPECT_EQ(all_agree({image, line, forward}), 3);
}

}  // namespace
}  // namespace gradkern_test
