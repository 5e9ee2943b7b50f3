// Executors that bring out hidden dependences between tasks: serial ones in other orders, and real threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <latch>
#include <numeric>
#include <thread>
#include <vector>

#include "support/random.hpp"

namespace gradkern_test {

/// Claims `lanes` threads and runs the calls one after another in random order.
class shuffling_executor {
public:
    explicit shuffling_executor(std::ptrdiff_t lanes) : lanes_(lanes), random_("shuffling_executor") {}

    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) {
        std::vector<std::ptrdiff_t> order(static_cast<std::size_t>(n));
        std::iota(order.begin(), order.end(), std::ptrdiff_t{0});
        random_.shuffle(order);
        random_.next_case();
        for (const std::ptrdiff_t i : order) fn(i);
        calls_ += n;
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept { return lanes_; }
    /// How many calls were made so far.
    [[nodiscard]] std::ptrdiff_t calls() const noexcept { return calls_; }

private:
    std::ptrdiff_t lanes_;
    std::ptrdiff_t calls_ = 0;
    random_source random_;
};

/// Claims `lanes` threads and runs the calls one after another, the last one first.
class reversing_executor {
public:
    explicit reversing_executor(std::ptrdiff_t lanes) : lanes_(lanes) {}

    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        for (std::ptrdiff_t i = n; i-- > 0;) fn(i);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept { return lanes_; }

private:
    std::ptrdiff_t lanes_;
};

/// Runs each call on a thread of its own. All begin together: no lane is done with all tasks before the last one starts.
class thread_executor {
public:
    explicit thread_executor(std::ptrdiff_t lanes) : lanes_(lanes) {}

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
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept { return lanes_; }

private:
    std::ptrdiff_t lanes_;
};

}  // namespace gradkern_test
