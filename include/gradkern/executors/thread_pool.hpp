// A small pool of std::threads that models the executor concept. Opt-in: operators take any executor.
//
//     gradkern::thread_pool pool;                        // one thread per hardware thread, the caller included
//     plan.run(src, weights, nullptr, dst, scratch, pool);
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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
    explicit thread_pool(std::ptrdiff_t threads = hardware_threads()) {
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
    ~thread_pool() {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        for (std::thread& t : workers_) t.join();
    }

    /// The threads of the machine, at least 1.
    [[nodiscard]] static std::ptrdiff_t hardware_threads() noexcept {
        const auto n = static_cast<std::ptrdiff_t>(std::thread::hardware_concurrency());
        return n < 1 ? 1 : n;
    }

    /// Threads that take part in a call, the caller's included.
    [[nodiscard]] std::ptrdiff_t concurrency() const noexcept {
        return static_cast<std::ptrdiff_t>(workers_.size()) + 1;
    }

    /// Calls fn(i) for every i in [0, n) and returns when all are done. fn must not throw.
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) noexcept {
        if (n > 1 && !workers_.empty() && !inside()) {
            const std::unique_lock one_call(call_mutex_, std::try_to_lock);
            if (one_call.owns_lock()) {
                run({[](const void* f, std::ptrdiff_t i) { (*static_cast<const F*>(f))(i); }, std::addressof(fn), n});
                return;
            }
        }
        serial_executor{}.parallel_for(n, fn);
    }

private:
    struct job {
        void (*call)(const void*, std::ptrdiff_t) = nullptr;
        const void* fn = nullptr;
        std::ptrdiff_t n = 0;
    };

    /// True on a thread that runs a task of any pool: a nested call must not wait for threads that may wait for it.
    [[nodiscard]] static bool& inside() noexcept {
        thread_local bool value = false;
        return value;
    }

    void start(std::ptrdiff_t others) {
        for (std::ptrdiff_t i = 0; i < others; ++i) workers_.emplace_back([this] { work(); });
    }

    void run(const job& j) noexcept {
        {
            const std::lock_guard lock(mutex_);
            job_ = j;
            next_.store(0, std::memory_order_relaxed);
            working_ = workers_.size();
            ++generation_;
        }
        wake_.notify_all();
        drain(j);
        std::unique_lock lock(mutex_);
        done_.wait(lock, [this] { return working_ == 0; });
    }

    void drain(const job& j) noexcept {
        inside() = true;
        for (;;) {
            const std::ptrdiff_t i = next_.fetch_add(1, std::memory_order_relaxed);
            if (i >= j.n) break;
            j.call(j.fn, i);
        }
        inside() = false;
    }

    void work() noexcept {
        std::uint64_t seen = 0;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
            if (stop_) return;
            seen = generation_;
            const job j = job_;
            lock.unlock();
            drain(j);
            lock.lock();
            if (--working_ == 0) done_.notify_one();
        }
    }

    std::vector<std::thread> workers_;
    std::mutex call_mutex_;  // held by the call that has the pool
    std::mutex mutex_;       // guards what follows but next_
    std::condition_variable wake_;
    std::condition_variable done_;
    job job_{};
    std::uint64_t generation_ = 0;
    std::size_t working_ = 0;
    bool stop_ = false;
    std::atomic<std::ptrdiff_t> next_{0};
};

GRADKERN_NAMESPACE_END
