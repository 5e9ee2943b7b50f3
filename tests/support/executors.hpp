// Executors that reveal hidden dependences between tasks: serial ones in other orders, and real threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <latch>
#include <numeric>
#include <thread>
#include <vector>

#include "support/random.hpp"

namespace gradkern_test {

/// Reports `workers` threads and runs the calls serially in random order.
class shuffling_executor {
public:
    explicit shuffling_executor(std::ptrdiff_t workers) : workers_(workers), random_("shuffling_executor") {}

    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) {
        std::vector<std::ptrdiff_t> order(static_cast<std::size_t>(n));
        std::iota(order.begin(), order.end(), std::ptrdiff_t{0});
        random_.shuffle(order);
        random_.next_case();
        for (const std::ptrdiff_t i : order) fn(i);
        calls_ += n;
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept { return workers_; }
    /// The number of calls so far.
    [[nodiscard]] std::ptrdiff_t calls() const noexcept { return calls_; }

private:
    std::ptrdiff_t workers_;
    std::ptrdiff_t calls_ = 0;
    random_source random_;
};

/// Reports `workers` threads and runs the calls serially in reverse order.
class reversing_executor {
public:
    explicit reversing_executor(std::ptrdiff_t workers) : workers_(workers) {}

    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        for (std::ptrdiff_t i = n; i-- > 0;) fn(i);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept { return workers_; }

private:
    std::ptrdiff_t workers_;
};

/// Runs each call on a separate thread. All threads start at the same time: none finishes all tasks before the last one starts.
class thread_executor {
public:
    explicit thread_executor(std::ptrdiff_t workers) : workers_(workers) {}

    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        std::vector<std::thread> threads;
        threads.reserve(static_cast<std::size_t>(n));
        std::latch all_here(n);
        for (std::ptrdiff_t i = 0; i < n; ++i)
            threads.emplace_back([&fn, &all_here, i] {
                all_here.arrive_and_wait();
                fn(i);
            });
        for (std::thread& t : threads) t.join();
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept { return workers_; }

private:
    std::ptrdiff_t workers_;
};

/// Reports another number of threads each time: `workers` and 1 in turns. Runs the calls on threads.
class fickle_executor {
public:
    fickle_executor(std::ptrdiff_t workers, bool one_first) : workers_(workers), says_one_(one_first) {}

    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        thread_executor(n).parallel_for(n, fn);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() noexcept {
        says_one_ = !says_one_;
        return says_one_ ? workers_ : 1;
    }

private:
    std::ptrdiff_t workers_;
    bool says_one_;
};

}  // namespace gradkern_test
