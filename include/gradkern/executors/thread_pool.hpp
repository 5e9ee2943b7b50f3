// A small pool of std::threads that models the executor concept. Include it explicitly.
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

#include <gradkern/detail/config.hpp>
#include <gradkern/executor.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Threads that wait for work between calls. parallel_for may be called from any thread. While one call uses the pool,
/// another call, or a nested call from a task, runs on its calling thread.
class thread_pool {
public:
    /// `threads` threads including the one that calls parallel_for; at least 1. If the system refuses some, there are
    /// fewer: see concurrency(). (Without exceptions, a refused thread ends the program.)
    GRADKERN_PER_ISA explicit thread_pool(std::ptrdiff_t threads = hardware_threads()) {
        const std::ptrdiff_t others = threads < 1 ? 0 : threads - 1;
        if (others > 0) workers_ = new std::thread[static_cast<std::size_t>(others)];
#if defined(__cpp_exceptions)
        try {
            start(others);
        } catch (...) {
            // The threads that started do the work.
        }
#else
        start(others);
#endif
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;
    /// Ends the threads. No call of parallel_for may be running.
    GRADKERN_PER_ISA ~thread_pool() {
        {
            const std::lock_guard lock(mutex());
            stop_ = true;
        }
        wake_.notify_all();
        for (std::ptrdiff_t i = 0; i < count_; ++i) workers_[i].join();
        delete[] workers_;
    }

    /// The threads of the machine, at least 1.
    [[nodiscard]] GRADKERN_PER_ISA static std::ptrdiff_t hardware_threads() noexcept {
        const auto n = static_cast<std::ptrdiff_t>(std::thread::hardware_concurrency());
        return n < 1 ? 1 : n;
    }

    /// Threads that work on a call, including the caller.
    [[nodiscard]] GRADKERN_PER_ISA std::ptrdiff_t concurrency() const noexcept { return count_ + 1; }

    /// Calls fn(i) for every i in [0, n) and returns when all are done. fn must not throw.
    template <class F>
    GRADKERN_PER_ISA void parallel_for(std::ptrdiff_t n, const F& fn) noexcept {
        if (n > 1 && count_ > 0 && !inside_) {
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
        void (*call)(const void*, std::ptrdiff_t);
        const void* fn;
        std::ptrdiff_t n;
    };

    GRADKERN_PER_ISA void start(std::ptrdiff_t others) {
        for (; count_ < others; ++count_) workers_[count_] = std::thread([this] { work(); });
    }

    GRADKERN_PER_ISA void run(const job& j) noexcept {
        {
            const std::lock_guard lock(mutex());
            job_ = j;
            next_.store(0, std::memory_order_relaxed);
            working_ = count_;
            ++generation_;
        }
        wake_.notify_all();
        drain(j);
        std::unique_lock lock(mutex());
        done_.wait(lock, [this] { return working_ == 0; });
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

    GRADKERN_PER_ISA void work() noexcept {
        std::uint64_t seen = 0;
        std::unique_lock lock(mutex());
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

    // The mutex that guards the members after next_. Pools share a few, chosen by address. A mutex in each pool would be
    // constructed by a function of the standard library, and all objects of a program share its body, whatever instruction set
    // they are compiled for. (The waits of std::atomic and std::vector<std::thread>::reserve are such functions, too.)
    [[nodiscard]] GRADKERN_PER_ISA std::mutex& mutex() const noexcept {
        return mutexes_[reinterpret_cast<std::uintptr_t>(this) / 64 % mutex_count];
    }
    static constexpr std::size_t mutex_count = 16;
    static inline std::mutex mutexes_[mutex_count]{};  // not constinit: on Windows it has a constructor that runs
    // True on a thread that runs a task of any pool: a nested call must not wait for threads that may wait for it.
    static constinit inline thread_local bool inside_ = false;

    std::thread* workers_ = nullptr;
    std::ptrdiff_t count_ = 0;             // of workers_
    std::atomic<std::uint32_t> taken_{0};  // 1: a call uses the pool
    std::atomic<std::ptrdiff_t> next_{0};  // next task
    std::condition_variable wake_;
    std::condition_variable done_;
    job job_{nullptr, nullptr, 0};
    std::uint64_t generation_ = 0;
    std::ptrdiff_t working_ = 0;
    bool stop_ = false;
};

GRADKERN_NAMESPACE_END
