// A small pool of std::threads that models the executor concept. Opt-in: operators take any executor.
//
//     gradkern::thread_pool pool;                        // one thread per hardware thread, the caller included
//     plan.run(src, weights, nullptr, dst, scratch, pool);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gradkern/detail/config.hpp>
#include <gradkern/executor.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Threads that wait for work between calls. parallel_for may be called from any thread: while one call has the pool, a
/// second one from outside, or a nested one from a task, runs on its own thread.
class thread_pool {
public:
    /// `threads` threads including the one that calls parallel_for; at least 1. Fewer where the system refuses more:
    /// see concurrency(). (Compiled without exceptions, a thread that the system refuses ends the program.)
    GRADKERN_PER_ISA explicit thread_pool(std::ptrdiff_t threads = hardware_threads()) {
        const std::ptrdiff_t others = threads < 1 ? 0 : threads - 1;
        workers_.reserve(static_cast<std::size_t>(others));
#if defined(__cpp_exceptions)
        try {
            start(others);
        } catch (...) {
            // Those that were started do the work.
        }
#else
        start(others);
#endif
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;
    /// Ends the threads. No call of parallel_for may be under way.
    GRADKERN_PER_ISA ~thread_pool() {
        post(job{});
        for (std::thread& t : workers_) t.join();
    }

    /// The threads of the machine, at least 1.
    [[nodiscard]] GRADKERN_PER_ISA static std::ptrdiff_t hardware_threads() noexcept {
        const auto n = static_cast<std::ptrdiff_t>(std::thread::hardware_concurrency());
        return n < 1 ? 1 : n;
    }

    /// Threads that take part in a call, the caller's included.
    [[nodiscard]] GRADKERN_PER_ISA std::ptrdiff_t concurrency() const noexcept {
        return static_cast<std::ptrdiff_t>(workers_.size()) + 1;
    }

    /// Calls fn(i) for every i in [0, n) and returns when all are done. fn must not throw.
    template <class F>
    GRADKERN_PER_ISA void parallel_for(std::ptrdiff_t n, const F& fn) noexcept {
        if (n > 1 && !workers_.empty() && !inside_) {
            if (taken_.exchange(1, std::memory_order_acquire) == 0) {
                run({[](const void* f, std::ptrdiff_t i) { (*static_cast<const F*>(f))(i); }, std::addressof(fn), n});
                taken_.store(0, std::memory_order_release);
                return;
            }
        }
        serial_executor{}.parallel_for(n, fn);
    }

private:
    struct job {
        void (*call)(const void*, std::ptrdiff_t);  // null: end the thread
        const void* fn;
        std::ptrdiff_t n;
    };

    GRADKERN_PER_ISA void post(const job& j) noexcept {
        job_ = j;
        next_.store(0, std::memory_order_relaxed);
        working_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
    }

    GRADKERN_PER_ISA void start(std::ptrdiff_t others) {
        for (std::ptrdiff_t i = 0; i < others; ++i) workers_.emplace_back([this] { work(); });
    }

    GRADKERN_PER_ISA void run(const job& j) noexcept {
        post(j);
        drain(j);
        while (const std::uint32_t working = working_.load(std::memory_order_acquire))
            working_.wait(working, std::memory_order_acquire);
    }

    GRADKERN_PER_ISA void drain(const job& j) noexcept {
        inside_ = true;
        for (;;) {
            const std::ptrdiff_t i = next_.fetch_add(1, std::memory_order_relaxed);
            if (i >= j.n) break;
            j.call(j.fn, i);
        }
        inside_ = false;
    }

    // Every thread takes part in every generation, so that none misses one.
    GRADKERN_PER_ISA void work() noexcept {
        for (std::uint32_t seen = 0;; ++seen) {
            generation_.wait(seen, std::memory_order_acquire);
            const job j = job_;
            if (j.call == nullptr) return;
            drain(j);
            if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_one();
        }
    }

    // True on a thread that runs a task of any pool: a nested call must not wait for threads that may wait for it. An
    // object, not a function: all objects of a program share it, whatever they are compiled for.
    static constinit inline thread_local bool inside_ = false;

    std::vector<std::thread> workers_;
    job job_{nullptr, nullptr, 0};
    std::atomic<std::uint32_t> taken_{0};       // 1: by a call
    std::atomic<std::uint32_t> generation_{0};  // of jobs; guards job_
    std::atomic<std::uint32_t> working_{0};     // threads that have not finished the job
    std::atomic<std::ptrdiff_t> next_{0};       // task
};

GRADKERN_NAMESPACE_END
