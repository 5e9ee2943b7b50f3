// The table of paths of the average engine: which problems a path fits, what forces it, and that all of them compute the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>

#include "support/pool_problem.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::algorithm;
using gk::data_format;
using gk::extents;
using gk::detail::avg_pool::paths;
using problem = pool_problem<gk::avg_pool_attributes>;

static_assert(std::is_trivially_copyable_v<gk::detail::avg_pool::plan>);

/// A pool whose axes all have this kernel, stride and pad.
problem pool(data_format f, std::int64_t batch, std::int64_t channels, const extents& size, std::int64_t kernel,
             std::int64_t stride, std::int64_t pad, std::int64_t dilation = 1) {
    problem p;
    const auto all = [&](std::int64_t v) { return extents::filled(size.rank(), v); };
    p.attributes = {.kernel = all(kernel),
                    .strides = all(stride),
                    .pads_begin = all(pad),
                    .pads_end = all(pad),
                    .dilations = all(dilation),
                    .data_format = f};
    p.src = {batch};
    if (f == data_format::ncx) p.src.push_back(channels);
    for (const std::int64_t v : size.values()) p.src.push_back(v);
    if (f == data_format::nxc) p.src.push_back(channels);
    p.dst = *gk::infer_avg_pool(p.src, p.attributes);
    return p;
}

template <class T>
auto plan_forward(const problem& p, const gk::plan_options& o) {
    return gk::plan_avg_pool<T>(p.src, p.attributes, p.dst, o);
}
template <class T>
auto plan_backward(const problem& p, const gk::plan_options& o) {
    return gk::plan_avg_pool_backward<T>(p.dst, p.attributes, p.src, o);
}

/// The path that a plan says it takes; "algorithm" where that is refused.
template <class Plan>
std::string path_of(const gk::result<Plan>& plan) {
    if (!plan) {
        EXPECT_EQ(plan.error().code, gk::errc::unsupported);
        return std::string(plan.error().argument);
    }
    std::array<char, 300> text{};
    const std::string_view line(text.data(), std::min(text.size(), plan->describe(text)));
    const std::string_view path = line.substr(line.find(": ") + 2);
    return std::string(path.substr(0, path.find(',')));
}
std::string forward(const problem& p, algorithm a = algorithm::automatic) {
    return path_of(plan_forward<float>(p, {.algorithm = a}));
}
std::string backward(const problem& p, algorithm a = algorithm::automatic) {
    return path_of(plan_backward<float>(p, {.algorithm = a}));
}

constexpr auto ncx = data_format::ncx;
constexpr auto nxc = data_format::nxc;

TEST(avg_pool_paths, have_names_of_their_own_and_the_last_one_fits_all) {
    std::set<std::string_view> names;
    for (const auto& row : paths) names.insert(gk::name_of(row.name));
    EXPECT_EQ(names.size(), paths.size());
    EXPECT_EQ(names.count("unknown"), 0U);
    EXPECT_EQ(paths.back().fits, gk::detail::always<gk::detail::avg_pool::problem>);
    EXPECT_EQ(paths.back().is_profitable, gk::detail::always<gk::detail::avg_pool::problem>);
}

TEST(avg_pool_paths, of_other_operators_are_refused) {
    const problem p = pool(nxc, 1, 16, {9, 9}, 3, 1, 1);
    EXPECT_EQ(forward(p, algorithm::dense), "algorithm");
    EXPECT_EQ(backward(p, algorithm::dense), "algorithm");
}

TEST(avg_pool_paths, are_not_looked_at_with_least_scratch) {
    const problem p = pool(ncx, 2, 40, {9, 9}, 3, 1, 1);
    for (const auto& row : paths) {
        const auto plan = plan_forward<float>(p, {.algorithm = row.name, .scratch = gk::scratch_use::least});
        EXPECT_EQ(path_of(plan), "lines");
    }
}

TEST(avg_pool_paths, collapsed_lines_take_many_small_planes_that_follow_one_another) {
    const auto takes_planes = [](const problem& p) {
        std::array<char, 300> text{};
        plan_forward<float>(p, {.algorithm = algorithm::collapsed_lines})->describe(text);
        return std::string_view(text.data()).find(", planes,") != std::string_view::npos;
    };
    const problem small = pool(ncx, 2, 9, {8, 8}, 3, 1, 1);
    EXPECT_EQ(forward(small), "collapsed_lines");
    EXPECT_EQ(backward(small), "collapsed_lines");
    EXPECT_TRUE(takes_planes(small));
    EXPECT_FALSE(takes_planes(pool(ncx, 2, 9, {25, 25}, 3, 1, 1)));
    EXPECT_FALSE(takes_planes(pool(ncx, 2, 9, {8, 8}, 3, 2, 1)));
    EXPECT_FALSE(takes_planes(pool(ncx, 2, 9, {8, 8, 8}, 3, 1, 1)));
    EXPECT_EQ(forward(pool(nxc, 2, 9, {8, 8}, 3, 1, 1), algorithm::collapsed_lines), "algorithm");
    const auto plan =
        plan_forward<float>(small, {.output = gk::output_mode::accumulate, .algorithm = algorithm::collapsed_lines});
    EXPECT_EQ(path_of(plan), "algorithm");
}

TEST(avg_pool_paths, collapsed_lines_take_planes_that_are_worth_it_where_channels_could_be_transposed) {
    EXPECT_EQ(forward(pool(ncx, 2, 40, {22, 22}, 2, 2, 0)), "lines");  // phases: from 512 inputs on
    EXPECT_EQ(forward(pool(ncx, 2, 40, {24, 24}, 2, 2, 0)), "collapsed_lines");
    EXPECT_EQ(backward(pool(ncx, 2, 40, {10, 10}, 2, 2, 0)), "lines");  // repeated: from 128 on
    EXPECT_EQ(backward(pool(ncx, 2, 40, {12, 12}, 2, 2, 0)), "collapsed_lines");
    EXPECT_EQ(backward(pool(ncx, 2, 40, {12, 12}, 4, 4, 0)), "lines");  // three columns fill no shuffle
    EXPECT_EQ(backward(pool(ncx, 2, 40, {16, 16}, 4, 4, 0)), "collapsed_lines");
    EXPECT_EQ(forward(pool(ncx, 2, 40, {4, 14, 14}, 3, 1, 1)), "lines");  // stride 1: from 256 on
    EXPECT_EQ(forward(pool(ncx, 2, 40, {4, 18, 18}, 3, 1, 1)), "collapsed_lines");
    EXPECT_EQ(backward(pool(ncx, 2, 40, {4, 14, 14}, 3, 1, 1)), "lines");
    EXPECT_EQ(backward(pool(ncx, 2, 40, {4, 18, 18}, 3, 1, 1)), "collapsed_lines");
}

TEST(avg_pool_paths, collapsed_lines_take_short_lines_that_follow_one_another) {
    for (const std::int64_t stride : {1, 2}) {
        const problem p = pool(ncx, 2, 3, {28, 28}, 3, stride, 1);
        EXPECT_EQ(forward(p), "collapsed_lines") << stride;
        EXPECT_EQ(backward(p), stride == 1 ? "collapsed_lines" : "lines") << stride;
    }
    EXPECT_EQ(backward(pool(ncx, 2, 3, {21, 21}, 7, 7, 0)), "collapsed_lines");  // side by side
    const problem longer = pool(ncx, 2, 3, {28, 500}, 3, 1, 1);                  // fits, but is not profitable
    EXPECT_EQ(forward(longer), "lines");
    EXPECT_EQ(forward(longer, algorithm::collapsed_lines), "collapsed_lines");
    EXPECT_EQ(backward(longer, algorithm::collapsed_lines), "collapsed_lines");
    EXPECT_EQ(forward(pool(nxc, 2, 3, {28, 28}, 3, 1, 1), algorithm::collapsed_lines), "algorithm");
    EXPECT_EQ(forward(pool(ncx, 2, 3, {28, 28}, 3, 1, 0), algorithm::collapsed_lines), "algorithm");
    EXPECT_EQ(forward(pool(ncx, 2, 3, {28, 28}, 3, 3, 1), algorithm::collapsed_lines), "algorithm");
    EXPECT_EQ(forward(pool(ncx, 2, 3, {28, 2000}, 3, 1, 1), algorithm::collapsed_lines), "algorithm");
}

TEST(avg_pool_paths, windows_take_windows_of_few_rows_whose_channels_are_neighbours) {
    EXPECT_EQ(forward(pool(nxc, 2, 64, {28, 28}, 2, 2, 0)), "windows");
    EXPECT_EQ(forward(pool(nxc, 2, 64, {7, 7}, 7, 1, 0)), "windows");
    EXPECT_EQ(forward(pool(nxc, 2, 64, {28, 28}, 3, 1, 1)), "lines");
    EXPECT_EQ(forward(pool(nxc, 2, 128, {28, 28}, 3, 1, 1)), "windows");
    EXPECT_EQ(forward(pool(nxc, 2, 48, {28, 28}, 3, 1, 1)), "lines");  // few channels
    const problem overlap = pool(nxc, 2, 64, {28, 28}, 5, 1, 2);       // fits, but is not profitable
    EXPECT_EQ(forward(overlap), "lines");
    EXPECT_EQ(forward(overlap, algorithm::windows), "windows");
    EXPECT_EQ(backward(overlap, algorithm::windows), "algorithm");
    EXPECT_EQ(forward(pool(ncx, 2, 64, {28, 28}, 2, 2, 0), algorithm::windows), "algorithm");
    EXPECT_EQ(forward(pool(nxc, 2, 64, {40, 40}, 40, 1, 0), algorithm::windows), "algorithm");  // rows
}

TEST(avg_pool_paths, non_overlapping_takes_gradients_of_such_windows) {
    for (const data_format f : {ncx, nxc}) {
        const problem p = pool(f, 2, 40, {300}, 3, 4, 0);
        EXPECT_EQ(backward(p), "non_overlapping");
        EXPECT_EQ(forward(p, algorithm::non_overlapping), "algorithm");
        EXPECT_EQ(backward(pool(f, 2, 3, {300}, 3, 2, 0), algorithm::non_overlapping), "algorithm");
        EXPECT_EQ(backward(pool(f, 2, 3, {300}, 3, 9, 0, 2), algorithm::non_overlapping), "algorithm");
    }
    EXPECT_EQ(backward(pool(ncx, 2, 3, {300}, 3, 4, 0)), "non_overlapping");
    // eight channels: half a vector of 16 lanes
    EXPECT_EQ(backward(pool(nxc, 2, 8, {300}, 3, 4, 0)), gk::detail::simd::lanes > 8 ? "lines" : "non_overlapping");
    const problem few_channels = pool(nxc, 2, 3, {300}, 3, 4, 0);  // fits, but is not profitable
    EXPECT_EQ(backward(few_channels), gk::detail::simd::lanes > 3 ? "lines" : "non_overlapping");
    EXPECT_EQ(backward(few_channels, algorithm::non_overlapping), "non_overlapping");
    EXPECT_EQ(backward(pool(nxc, 2, 3, {300}, 300, 300, 0)), "non_overlapping");  // one window
}

TEST(avg_pool_paths, lines_take_what_fits_a_scratch_line_and_taps_the_rest) {
    for (const data_format f : {ncx, nxc}) {
        const problem dense = pool(f, 1, 3, {300}, 3, 1, 0);
        EXPECT_EQ(forward(dense), "lines");
        EXPECT_EQ(backward(dense), "lines");
        EXPECT_EQ(forward(dense, algorithm::taps), "taps");
        EXPECT_EQ(backward(dense, algorithm::taps), "taps");
        const problem sparse = pool(f, 1, 3, {9000}, 2, 1000, 0);  // fits, but is not profitable
        EXPECT_EQ(forward(sparse), "taps");
        EXPECT_EQ(forward(sparse, algorithm::lines), "lines");
        const problem long_window = pool(f, 1, 3, {40'000}, 30'000, 1, 0);
        EXPECT_EQ(forward(long_window), "taps");
        EXPECT_EQ(forward(long_window, algorithm::lines), "algorithm");
    }
}

// -------------------------------------------------------------------------------------------- all paths, one result

std::vector<problem> cases() {
    std::vector<problem> all;
    for (const data_format f : {ncx, nxc}) {
        for (const std::int64_t channels : {3, 40}) {
            all.push_back(pool(f, 2, channels, {8, 9}, 3, 1, 1));
            all.push_back(pool(f, 1, channels, {12, 12}, 2, 2, 0));
            all.push_back(pool(f, 1, channels, {12, 12}, 3, 2, 1));
            all.push_back(pool(f, 2, channels, {7, 7}, 7, 7, 0));
            all.push_back(pool(f, 1, channels, {4, 6, 8}, 3, 1, 1));
            all.push_back(pool(f, 1, channels, {4, 9, 12}, 3, 3, 0));
            all.push_back(pool(f, 1, channels, {50}, 3, 5, 1));
            all.push_back(pool(f, 1, channels, {50}, 4, 3, 2, 2));
            all.push_back(pool(f, 1, channels, {1300}, 600, 50, 0));  // a long sum
            all.back().attributes.exclude_pad = false;
        }
    }
    return all;
}

/// The runs of a path that fit, each against the reference.
template <class T>
int runs_of(algorithm path) {
    int runs = 0;
    random_source random("avg_pool_paths.forced");
    std::vector<std::byte> workspace;
    const auto run = [&](const auto& plan, const test_tensor<T>& in, const test_tensor<T>& out) {
        if (!plan) {
            EXPECT_EQ(plan.error().argument, "algorithm");
            return false;
        }
        EXPECT_EQ(path_of(plan), gk::name_of(path));
        workspace.resize(plan->workspace_bytes());
        EXPECT_TRUE(plan->run(in.data(), out.data(), workspace).ok());
        EXPECT_TRUE(out.surroundings_intact());
        ++runs;
        return true;
    };
    for (const problem& p : cases()) {
        SCOPED_TRACE(p.description() + std::string(gk::name_of(path)));
        test_tensor<T> src(p.src);
        test_tensor<T> dst(p.dst);
        src.fill_random(random);
        const test_tensor<T> mean(p.dst);
        if (run(plan_forward<T>(p, {.algorithm = path}), src, mean)) {
            EXPECT_TRUE(gk::ref::avg_pool<T>(src.const_view(), p.attributes, dst.view()).ok());
            EXPECT_TRUE(mean.equals(dst));
        }
        dst.fill_random(random);
        const test_tensor<T> gradient(p.src);
        if (run(plan_backward<T>(p, {.algorithm = path}), dst, gradient)) {
            EXPECT_TRUE(gk::ref::avg_pool_backward<T>(dst.const_view(), p.attributes, src.view()).ok());
            EXPECT_TRUE(gradient.equals(src));
        }
    }
    return runs;
}

TEST(avg_pool_paths, compute_what_the_reference_does) {
    for (const auto& row : paths) {
        EXPECT_GT(runs_of<float>(row.name), 0) << gk::name_of(row.name);
        EXPECT_GT(runs_of<gk::bfloat16>(row.name), 0) << gk::name_of(row.name);
    }
}

}  // namespace
}  // namespace gradkern_test
