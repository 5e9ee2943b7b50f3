// What outputs of an average pool read along one axis, its divisors, and the parts of long sums, against plain counting.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include <gradkern/detail/avg_pool/problem.hpp>
#include <gradkern/detail/avg_pool/reads.hpp>

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::detail::avg_pool::axis_reads;
using gk::shape::axis;
using gk::shape::side;

/// Calls f with all small axes.
template <class F>
void for_each_axis(const F& f) {
    for (std::int64_t large = 1; large <= 7; ++large)
        for (std::int64_t kernel = 1; kernel <= 4; ++kernel)
            for (std::int64_t stride = 1; stride <= 4; ++stride)
                for (std::int64_t dilation = 1; dilation <= 3; ++dilation)
                    for (std::int64_t pad = 0; pad <= 3; ++pad) {
                        axis a{.large = large, .kernel = kernel, .stride = stride, .dilation = dilation};
                        a.pad_begin = a.pad_end = pad;
                        if (large + 2 * pad <= a.reach()) continue;
                        a.small = (large + 2 * pad - a.reach() - 1) / stride + 1;
                        f(a);
                    }
}

/// Positions that output q reads, in ascending order.
std::vector<std::int64_t> read_by(const axis& a, side outputs, std::int64_t q) {
    std::vector<std::int64_t> all;
    if (outputs == side::small) {
        for (std::int64_t k = 0; k < a.kernel; ++k)
            if (a.position(q, k) >= 0 && a.position(q, k) < a.large) all.push_back(a.position(q, k));
        return all;
    }
    for (std::int64_t o = 0; o < a.small; ++o)
        for (std::int64_t k = 0; k < a.kernel; ++k)
            if (a.position(o, k) == q) all.push_back(o);
    return all;
}

TEST(avg_pool_reads, are_those_of_plain_counting_in_ascending_order) {
    for_each_axis([](const axis& a) {
        for (const side outputs : {side::small, side::large}) {
            const std::int64_t extent = outputs == side::small ? a.small : a.large;
            std::vector<axis_reads> list(static_cast<std::size_t>(extent));
            gk::detail::avg_pool::list_reads(a, outputs, 0, extent, list.data());
            for (std::int64_t q = 0; q < extent; ++q) {
                const std::vector<std::int64_t> expected = read_by(a, outputs, q);
                const axis_reads r = list[static_cast<std::size_t>(q)];
                axis_reads alone;
                gk::detail::avg_pool::list_reads(a, outputs, q, q + 1, &alone);
                EXPECT_EQ(alone, r);
                ASSERT_EQ(r.count, static_cast<std::int64_t>(expected.size()));
                for (std::int64_t i = 0; i < r.count; ++i)
                    EXPECT_EQ(r.first + i * a.read_step(outputs), expected[static_cast<std::size_t>(i)]);
            }
        }
    });
}

TEST(avg_pool_reads, of_long_sums_are_cut_where_reads_behind_the_border_count) {
    constexpr std::int64_t part = gk::detail::pool_part;
    for (const std::int64_t skipped : {std::int64_t{0}, std::int64_t{5}, part - 1}) {
        for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, part, 3 * part - 2}) {
            const gk::detail::avg_pool::column_run all{2, 7, 11, count};
            std::int64_t next = 0;
            for (std::int64_t i = 0; i * part < skipped + count; ++i) {
                const gk::detail::avg_pool::column_run r = gk::detail::avg_pool::part_of(all, skipped, i, 3);
                EXPECT_EQ(r.begin, 2);
                EXPECT_EQ(r.positions, 7);
                if (r.count > 0) {
                    EXPECT_EQ(r.first, 11 + 3 * next);
                }
                next += r.count;
                if (next < count) {
                    EXPECT_EQ((skipped + next) % part, 0);
                }
            }
            EXPECT_EQ(next, count);
        }
    }
}

TEST(avg_pool_divisors, are_uniform_where_all_windows_count_the_same) {
    for_each_axis([](const axis& a) {
        for (const bool exclude_pad : {false, true}) {
            gk::detail::avg_pool::divisor_rule rule{.axes = {axis{}, axis{}, a}, .exclude_pad = exclude_pad};
            const std::int64_t first = rule.counted(2, 0);
            bool equal = true;
            bool never_empty = true;
            for (std::int64_t o = 0; o < a.small; ++o) {
                equal = equal && rule.counted(2, o) == first;
                never_empty = never_empty && a.inside_taps(o).count > 0;
            }
            for (const bool backward : {false, true}) {
                rule.uniform = 0.0F;
                gk::detail::avg_pool::find_uniform_divisor(rule, backward);
                if (!rule.is_uniform()) continue;  // a dilated axis is not looked at closely
                EXPECT_TRUE(equal && (never_empty || backward));
                EXPECT_EQ(rule.uniform, gk::detail::avg_pool::divisor_rule::of_count(first));
            }
            if (a.dilation == 1 && equal && never_empty && (!exclude_pad || a.pad_begin == 0)) {
                gk::detail::avg_pool::find_uniform_divisor(rule, false);
                EXPECT_TRUE(rule.is_uniform());
            }
        }
    });
}

}  // namespace
}  // namespace gradkern_test
