// Workers, tasks and slices of a workspace.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <gradkern/detail/run/shared_sums.hpp>
#include <gradkern/detail/run/tasks.hpp>

#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"

namespace {

namespace detail = gradkern::detail;

TEST(tasks, arrays_of_a_slice_lie_apart_on_lines_of_their_own) {
    detail::slice_layout slice;
    const std::int64_t floats = slice.reserve<float>(3);
    const std::int64_t none = slice.reserve<double>(0);
    const std::int64_t doubles = slice.reserve<double>(9);
    const std::int64_t bytes = slice.reserve<std::byte>(64);
    EXPECT_EQ(floats, 0);
    EXPECT_EQ(none, 64);
    EXPECT_EQ(doubles, 64);
    EXPECT_EQ(bytes, 64 + 128);
    EXPECT_EQ(slice.bytes(), 64 + 128 + 64);
}

TEST(tasks, least_scratch_is_counted_as_if_vectors_had_16_floats) {
    detail::slice_layout least(true);
    EXPECT_EQ(least.reserve<float>(16), 0);
    EXPECT_EQ(least.bytes(), 64 * detail::least_times);
    EXPECT_GE(detail::least_times * 16, static_cast<std::int64_t>(detail::simd::lanes));
}

/// Memory of workspace_for(bytes, workers) has room for as many slices, wherever it begins, each on its own cache lines.
TEST(tasks, a_workspace_holds_its_slices_at_any_address) {
    for (const std::int64_t bytes : {64, 128, 640})
        for (const std::int64_t workers : {1, 2, 5})
            for (std::size_t shift = 0; shift < 64; ++shift) {
                const gradkern_test::guarded_bytes memory(detail::workspace_for(bytes, workers),
                                                          gradkern_test::touching::end, shift);
                const detail::slices slices({memory.data(), memory.size()}, bytes);
                ASSERT_GE(slices.count(), workers);
                for (std::int64_t i = 0; i < slices.count(); ++i) {
                    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(slices[i]) % 64, 0U);
                    std::memset(slices[i], static_cast<int>(i), static_cast<std::size_t>(bytes));
                }
                ASSERT_TRUE(memory.zones_intact());
                for (std::int64_t i = 0; i < slices.count(); ++i) EXPECT_EQ(slices[i][bytes - 1], std::byte(i));
            }
}

TEST(tasks, slices_of_no_bytes_need_no_memory) {
    const detail::slices none({}, 0);
    EXPECT_EQ(none.count(), INT64_MAX);
    EXPECT_EQ(none[7], nullptr);
    EXPECT_EQ(detail::workspace_for(0, 1000), 0U);
}

TEST(tasks, a_workspace_too_small_has_no_slice) {
    std::vector<std::byte> memory(200);
    EXPECT_EQ(detail::slices(memory, 256).count(), 0);
    EXPECT_EQ(detail::slices({}, 64).count(), 0);
    EXPECT_EQ(detail::slices(std::span(memory).first(1), 64).count(), 0);
}

TEST(tasks, a_workspace_that_cannot_be_counted_is_the_largest_number) {
    EXPECT_EQ(detail::workspace_for(INT64_MAX / 2, 3), SIZE_MAX);
    EXPECT_EQ(detail::workspace_for(INT64_MAX, 1), SIZE_MAX);
    EXPECT_EQ(detail::workspace_for(640, -5), 640U + 64);  // one worker at least
}

/// Runs tasks and expects each once, by as many workers as there are tasks, memory and calls at once for.
template <class Executor>
void expect_each_task_once(Executor& executor, std::int64_t tasks, const detail::slices& memory, std::int64_t most,
                           std::int64_t per_block = 1) {
    std::vector<std::atomic<int>> times(static_cast<std::size_t>(tasks));
    std::atomic<std::int64_t> workers{0};
    const auto worker = [&](std::byte*, const detail::next_task& next) {
        ++workers;
        for (std::int64_t t = next(); t >= 0; t = next()) ++times.at(static_cast<std::size_t>(t));
        EXPECT_EQ(next(), -1);  // and so on
    };
    detail::run_tasks(executor, tasks, memory, worker, per_block);
    for (const std::atomic<int>& t : times) EXPECT_EQ(t, 1);
    EXPECT_EQ(workers, most);
}

TEST(tasks, each_task_runs_once) {
    std::vector<std::byte> bytes(detail::workspace_for(64, 3));
    const detail::slices none({}, 0);
    for (const std::int64_t tasks : {1, 2, 3, 7, 100}) {
        gradkern_test::thread_executor threads(4);
        expect_each_task_once(threads, tasks, none, std::min<std::int64_t>(tasks, 4));
        expect_each_task_once(threads, 3 * tasks, none, std::min<std::int64_t>(3 * tasks, 4), 3);
        gradkern_test::reversing_executor reversed(5);
        expect_each_task_once(reversed, tasks, none, std::min<std::int64_t>(tasks, 5));
        const detail::slices three(bytes, 64);
        expect_each_task_once(reversed, tasks, three, std::min({tasks, three.count(), std::int64_t{5}}));
        gradkern::serial_executor serial;
        expect_each_task_once(serial, tasks, none, 1);
    }
}

/// The tasks that workers take who ask in such an order. Each asks once more than there are tasks for it.
std::vector<std::int64_t> taken(detail::task_shares& shares, const std::vector<std::int64_t>& asking) {
    std::vector<std::int64_t> all;
    for (const std::int64_t worker : asking) {
        const std::int64_t task = shares.take(worker);
        if (task >= 0) all.push_back(task);
    }
    for (const std::int64_t worker : asking) EXPECT_EQ(shares.take(worker), -1);
    return all;
}

// Whoever asks, each task is taken once.
TEST(tasks, shares_hand_out_each_task_once) {
    gradkern_test::random_source random("shares_hand_out_each_task_once");
    for (const std::int64_t blocks : {1, 2, 5, 16, 67})
        for (const std::int64_t per_block : {detail::in_order, std::int64_t{1}, std::int64_t{2}, std::int64_t{7}})
            for (const std::int64_t workers : {1, 2, 3, 16, 64, 65, 1000}) {
                const std::int64_t tasks = blocks * std::max<std::int64_t>(per_block, 1);
                std::vector<std::int64_t> asking(static_cast<std::size_t>(tasks));
                for (std::int64_t& worker : asking) worker = random.integer(0, workers - 1);
                detail::task_shares shares(tasks, per_block, workers);
                std::vector<int> times(static_cast<std::size_t>(tasks));
                for (const std::int64_t task : taken(shares, asking)) ++times.at(static_cast<std::size_t>(task));
                for (const int n : times) EXPECT_EQ(n, 1);
                random.next_case();
            }
}

TEST(tasks, shares_hand_out_what_fills_no_block) {
    detail::task_shares shares(7, 3, 2);
    EXPECT_EQ(taken(shares, std::vector<std::int64_t>(7, 0)), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

// Workers that are equally fast take neighbouring tasks each, and are in blocks of their own.
TEST(tasks, workers_have_blocks_of_their_own) {
    for (const std::int64_t blocks : {3, 5, 16, 67})
        for (const std::int64_t per_block : {1, 2, 7})
            for (const std::int64_t workers : {2, 3, 16}) {
                if (blocks < workers) continue;
                detail::task_shares shares(blocks * per_block, per_block, workers);
                std::vector<std::int64_t> asking;
                for (std::int64_t round = 0; round < blocks / workers * per_block; ++round)
                    for (std::int64_t worker = 0; worker < workers; ++worker) asking.push_back(worker);
                std::vector<std::int64_t> last(static_cast<std::size_t>(workers), -1);
                std::vector<std::int64_t> owner(static_cast<std::size_t>(blocks), -1);
                for (const std::int64_t worker : asking) {
                    const std::int64_t task = shares.take(worker);
                    std::int64_t& before = last[static_cast<std::size_t>(worker)];
                    EXPECT_TRUE(before < 0 || task == before + 1);
                    before = task;
                    std::int64_t& whose = owner[static_cast<std::size_t>(task / per_block)];
                    EXPECT_TRUE(whose < 0 || whose == worker);
                    whose = worker;
                }
            }
}

// One that is done early takes the tasks of others, and tasks in order are taken in order by whoever asks.
TEST(tasks, who_is_done_early_helps) {
    detail::task_shares shares(12, 1, 3);
    EXPECT_EQ(taken(shares, std::vector<std::int64_t>(12, 1)),
              (std::vector<std::int64_t>{4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3}));
    detail::task_shares ordered(5, detail::in_order, 3);
    EXPECT_EQ(taken(ordered, {2, 0, 1, 1, 0}), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(tasks, no_task_and_no_memory_call_nobody) {
    gradkern_test::reversing_executor executor(3);
    const auto fail = [](std::byte*, auto&&) { ADD_FAILURE(); };
    detail::run_tasks(executor, 0, detail::slices({}, 0), fail);
    detail::run_tasks(executor, -1, detail::slices({}, 0), fail);
    detail::run_tasks(executor, 5, detail::slices({}, 64), fail);
}

template <class Real>
void expect_sums_to_lie_apart() {
    const detail::shared_layout layout{.parts = 3, .sums = 4, .numbers = 17, .number_bytes = sizeof(Real)};
    const gradkern_test::guarded_bytes memory(static_cast<std::size_t>(layout.bytes()) + 64);
    const detail::shared_sums<Real> sums(layout, detail::slices({memory.data(), memory.size()}, layout.bytes())[0]);
    for (std::int64_t part = 0; part < layout.parts; ++part)
        for (std::int64_t sum = 0; sum < layout.sums; ++sum)
            for (std::int64_t i = 0; i < layout.numbers; ++i) sums.at(part, sum)[i] = static_cast<Real>(part * 4 + sum);
    for (std::int64_t part = 0; part < layout.parts; ++part)
        for (std::int64_t sum = 0; sum < layout.sums; ++sum) {
            for (std::int64_t i = 0; i < layout.numbers; ++i)
                EXPECT_EQ(sums.at(part, sum)[i], static_cast<Real>(part * 4 + sum));
            EXPECT_EQ(sums.finish(part), sum + 1 == layout.sums);
        }
    EXPECT_TRUE(memory.zones_intact());
}
TEST(shared_sums, lie_apart_and_the_last_task_of_a_part_is_told) {
    expect_sums_to_lie_apart<float>();
    expect_sums_to_lie_apart<double>();
}

TEST(shared_sums, what_cannot_be_counted_needs_all_memory) {
    constexpr std::int64_t many = std::int64_t{1} << 40;
    constexpr detail::shared_layout layout{.parts = many, .sums = many, .numbers = many};
    static_assert(layout.bytes() == std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(detail::workspace_for(layout.bytes(), 64, 2), SIZE_MAX);
    EXPECT_EQ(detail::workspace_beside(layout.bytes(), 64, 1 << 20), 0U);
}

}  // namespace
