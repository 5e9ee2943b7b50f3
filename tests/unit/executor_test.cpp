// Executors: the concept, the reference, the thread pool, adapters, and the owning workspace.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradkern/executor.hpp>
#include <gradkern/executors/openmp.hpp>
#include <gradkern/executors/tbb.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/workspace.hpp>

namespace {

namespace gk = gradkern;

struct plain {  // neither function is const
    std::ptrdiff_t calls = 0;
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) {
        ++calls;
        for (std::ptrdiff_t i = n; i-- > 0;) fn(i);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() { return 3; }
};
struct constant {
    template <class F>
    void parallel_for(std::ptrdiff_t n, F fn) const {
        for (std::ptrdiff_t i = 0; i < n; ++i) fn(i);
    }
    [[nodiscard]] int concurrency() const { return -4; }
};
struct not_an_executor {
    void parallel_for(int) {}
};

static_assert(gk::executor<plain> && gk::executor<const constant> && gk::executor<gk::serial_executor>);
static_assert(!gk::executor<not_an_executor> && !gk::executor<int>);
static_assert(gk::executor<gk::thread_pool> && gk::executor<const gk::openmp_executor>);
#if GRADKERN_TEST_TBB
static_assert(gk::executor<const gk::tbb_executor>);
#endif
static_assert(std::is_trivially_copyable_v<gk::executor_ref>);

std::vector<int> visits(const gk::executor_ref& e, std::ptrdiff_t n) {
    std::vector<std::atomic<int>> counts(static_cast<std::size_t>(n));
    auto body = [&](std::ptrdiff_t i) { ++counts[static_cast<std::size_t>(i)]; };
    e.parallel_for(n, body);
    return {counts.begin(), counts.end()};
}

TEST(serial_executor, is_one_lane) {
    gk::serial_executor serial;
    EXPECT_EQ(gk::executor_ref(serial).concurrency(), 1);
    EXPECT_EQ(visits(serial, 3), std::vector<int>(3, 1));
}

TEST(executor_ref, is_serial_by_default) {
    const gk::executor_ref e;
    EXPECT_EQ(e.concurrency(), 1);
    std::vector<std::ptrdiff_t> order;
    auto body = [&](std::ptrdiff_t i) { order.push_back(i); };
    e.parallel_for(4, body);
    EXPECT_EQ(order, (std::vector<std::ptrdiff_t>{0, 1, 2, 3}));
    e.parallel_for(0, body);
    EXPECT_EQ(order.size(), 4U);
}

TEST(executor_ref, refers_to_const_and_other_executors) {
    plain p;
    const gk::executor_ref to_plain(p);
    EXPECT_EQ(to_plain.concurrency(), 3);
    EXPECT_EQ(visits(to_plain, 5), std::vector<int>(5, 1));
    EXPECT_EQ(p.calls, 1) << "the object itself, not a copy";
    const constant c;
    const gk::executor_ref to_constant(c);
    EXPECT_EQ(to_constant.concurrency(), 1) << "never less";
    EXPECT_EQ(visits(to_constant, 5), std::vector<int>(5, 1));
    const gk::executor_ref copy = to_plain;
    EXPECT_EQ(copy.concurrency(), 3);
}

TEST(thread_pool, visits_every_index_once) {
    for (const std::ptrdiff_t threads : {-1, 0, 1, 2, 3, 8}) {
        gk::thread_pool pool(threads);
        EXPECT_EQ(pool.concurrency(), std::max<std::ptrdiff_t>(threads, 1));
        for (const std::ptrdiff_t n : {0, 1, 2, 7, 1000})
            EXPECT_EQ(visits(pool, n), std::vector<int>(static_cast<std::size_t>(n), 1));
    }
    EXPECT_GE(gk::thread_pool::hardware_threads(), 1);
}

TEST(thread_pool, tasks_run_at_the_same_time) {
    for (const std::ptrdiff_t threads : {std::ptrdiff_t{4}, 4 * gk::thread_pool::hardware_threads()}) {
        gk::thread_pool pool(threads);
        for (int call = 0; call < 20; ++call) {
            std::atomic<std::ptrdiff_t> here{0};
            pool.parallel_for(threads, [&](std::ptrdiff_t) {  // ends only if all threads meet
                ++here;
                while (here.load() < threads) std::this_thread::yield();
            });
            EXPECT_EQ(here.load(), threads);
        }
    }
}

// Calls fn `rounds` times for each n up to 40. Tasks and caller write and read plain numbers, so that ThreadSanitizer sees
// whether a call is ordered after what its caller did before, and before what the caller does next.
template <class Gap>
void expect_each_index_once(gk::thread_pool& pool, int rounds, const Gap& gap) {
    std::vector<int> counts(40);
    int expected = 0;
    for (int round = 0; round < rounds; ++round)
        for (std::ptrdiff_t n = 1; n <= 40; ++n) {
            ++expected;
            pool.parallel_for(n, [&](std::ptrdiff_t i) {
                int& count = counts[static_cast<std::size_t>(i)];
                count = count == expected - 1 ? expected : -1;
                if (i == 0) std::this_thread::yield();  // or one thread would do nearly all
            });
            for (std::ptrdiff_t i = 0; i < 40; ++i) {
                int& count = counts[static_cast<std::size_t>(i)];
                ASSERT_EQ(count, i < n ? expected : expected - 1) << "task " << i << " of " << n;
                count = expected;
            }
            gap(n);
        }
}

std::vector<std::ptrdiff_t> pool_sizes() { return {2, 3, 16, 4 * gk::thread_pool::hardware_threads()}; }

TEST(thread_pool, short_calls_visit_every_index_once) {
    for (const std::ptrdiff_t threads : pool_sizes()) {
        gk::thread_pool pool(threads);
        expect_each_index_once(pool, 50, [](std::ptrdiff_t) {});
    }
}

// Gaps of about the time that threads spin: calls meet threads that spin, that are about to sleep, and that sleep.
TEST(thread_pool, short_calls_with_gaps_visit_every_index_once) {
    for (const std::ptrdiff_t threads : pool_sizes()) {
        gk::thread_pool pool(threads);
        expect_each_index_once(pool, 5, [](std::ptrdiff_t n) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(5 * (n % 25));
            while (std::chrono::steady_clock::now() < end) {
            }
        });
    }
}

TEST(thread_pool, slow_tasks_are_waited_for) {
    gk::thread_pool pool(3);
    for (int slow = 0; slow < 5; ++slow) {
        std::vector<int> done(5);
        std::atomic<int> begun{0};
        pool.parallel_for(5, [&](std::ptrdiff_t i) {
            ++begun;
            while (begun.load() < 3) std::this_thread::yield();  // on three threads
            // Longer than the caller spins.
            if (i == slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            done[static_cast<std::size_t>(i)] = 1;
        });
        EXPECT_EQ(done, std::vector<int>(5, 1));
    }
}

TEST(thread_pool, few_tasks_use_few_threads) {
    gk::thread_pool pool(6);
    std::set<std::thread::id> threads;
    for (int call = 0; call < 100; ++call) {
        std::vector<std::thread::id> ids(3);
        pool.parallel_for(3, [&](std::ptrdiff_t i) {
            ids[static_cast<std::size_t>(i)] = std::this_thread::get_id();
            std::this_thread::yield();
        });
        threads.insert(ids.begin(), ids.end());
    }
    EXPECT_LE(threads.size(), 3U);
}

TEST(thread_pool, ends_at_any_time) {
    for (const std::ptrdiff_t threads : pool_sizes())
        for (int i = 0; i < 30; ++i) {
            std::vector<int> counts(static_cast<std::size_t>(threads));
            {
                gk::thread_pool pool(threads);
                // Threads that start, that wait for another call, and that sleep.
                if (i % 3 != 0)
                    pool.parallel_for(threads, [&](std::ptrdiff_t k) { ++counts[static_cast<std::size_t>(k)]; });
                if (i % 3 == 2) std::this_thread::sleep_for(std::chrono::microseconds(100 * (i % 4)));
            }
            EXPECT_EQ(counts, std::vector<int>(static_cast<std::size_t>(threads), i % 3 != 0 ? 1 : 0));
        }
}

TEST(thread_pool, nested_calls_run_where_they_are) {
    gk::thread_pool pool(3);
    std::atomic<int> inner{0};
    std::atomic<int> elsewhere{0};
    pool.parallel_for(6, [&](std::ptrdiff_t) {
        const auto id = std::this_thread::get_id();
        pool.parallel_for(5, [&](std::ptrdiff_t) {
            ++inner;
            if (std::this_thread::get_id() != id) ++elsewhere;
        });
    });
    EXPECT_EQ(inner.load(), 30);
    EXPECT_EQ(elsewhere.load(), 0);
    EXPECT_EQ(visits(pool, 10), std::vector<int>(10, 1)) << "the pool is as before";
}

TEST(thread_pool, calls_from_several_threads_visit_every_index_once) {
    for (const std::ptrdiff_t threads : pool_sizes()) {
        gk::thread_pool pool(threads);
        std::vector<std::thread> callers;
        for (int t = 0; t < 4; ++t)
            callers.emplace_back([&] { expect_each_index_once(pool, 10, [](std::ptrdiff_t) {}); });
        for (std::thread& t : callers) t.join();
    }
}

TEST(thread_pool, nested_calls_from_several_threads_visit_every_index_once) {
    gk::thread_pool pool(3);
    gk::thread_pool other(2);
    std::vector<std::thread> callers;
    std::atomic<int> sum{0};
    for (int t = 0; t < 4; ++t)
        callers.emplace_back([&, t] {
            gk::thread_pool& outer = t % 2 == 0 ? pool : other;
            gk::thread_pool& inner = t < 2 ? pool : other;
            for (int call = 0; call < 100; ++call)
                outer.parallel_for(5, [&](std::ptrdiff_t) { inner.parallel_for(4, [&](std::ptrdiff_t) { ++sum; }); });
        });
    for (std::thread& t : callers) t.join();
    EXPECT_EQ(sum.load(), 4 * 100 * 5 * 4);
}

TEST(openmp_executor, visits_every_index_once) {
    gk::openmp_executor omp;
    EXPECT_GE(gk::executor_ref(omp).concurrency(), 1);
    for (const std::ptrdiff_t n : {0, 1, 2, 100})
        EXPECT_EQ(visits(omp, n), std::vector<int>(static_cast<std::size_t>(n), 1));
}

// Where OpenMP does not nest, a task is told that it has one thread.
TEST(openmp_executor, nested_calls_visit_every_index_once) {
    gk::openmp_executor omp;
    std::atomic<int> inner{0};
    std::atomic<int> lent{0};
    omp.parallel_for(6, [&](std::ptrdiff_t) {
        if (omp.concurrency() != 1) ++lent;
        omp.parallel_for(5, [&](std::ptrdiff_t) { ++inner; });
    });
    EXPECT_EQ(inner.load(), 30);
    EXPECT_EQ(lent.load(), 0);
}

#if GRADKERN_TEST_TBB
TEST(tbb_executor, visits_every_index_once) {
    gk::tbb_executor tbb;
    EXPECT_GE(gk::executor_ref(tbb).concurrency(), 1);
    for (const std::ptrdiff_t n : {0, 1, 2, 100})
        EXPECT_EQ(visits(tbb, n), std::vector<int>(static_cast<std::size_t>(n), 1));
}

TEST(tbb_executor, nested_calls_visit_every_index_once) {
    gk::tbb_executor tbb;
    std::atomic<int> inner{0};
    tbb.parallel_for(6, [&](std::ptrdiff_t) { tbb.parallel_for(5, [&](std::ptrdiff_t) { ++inner; }); });
    EXPECT_EQ(inner.load(), 30);
}
#endif

static_assert(!std::is_copy_constructible_v<gk::workspace> && std::is_nothrow_move_constructible_v<gk::workspace>);
static_assert(std::is_convertible_v<const gk::workspace&, std::span<std::byte>>);

TEST(workspace, owns_aligned_bytes) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{100'000}}) {
        const gk::workspace w(bytes);
        ASSERT_TRUE(w);
        EXPECT_EQ(w.size(), bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w.data()) % gk::workspace::alignment, 0U);
        const std::span<std::byte> all = w;
        std::fill(all.begin(), all.end(), std::byte{1});
    }
}

TEST(workspace, says_when_there_is_no_memory) {
    const gk::workspace nothing(0);
    EXPECT_TRUE(nothing);
    EXPECT_EQ(nothing.data(), nullptr);
    for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 62, SIZE_MAX / 2, SIZE_MAX / 2 - 62}) {
        const gk::workspace too_much(bytes);
        EXPECT_FALSE(too_much);
        EXPECT_EQ(too_much.size(), 0U);
    }
}

TEST(workspace, moves) {
    gk::workspace a(100);
    std::byte* const p = a.data();
    gk::workspace b(std::move(a));
    EXPECT_EQ(b.data(), p);
    gk::workspace c(10);
    c = std::move(b);
    EXPECT_EQ(c.data(), p);
    EXPECT_EQ(c.size(), 100U);
}

}  // namespace
