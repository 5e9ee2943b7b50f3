// A small pool of std::threads that models the executor concept. Include it explicitly.
//
//     gradkern::thread_pool pool;                        // one thread per hardware thread, the caller included
//     plan.run(src, weights, nullptr, dst, scratch, pool);
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/executor.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Threads that wait for work between calls. parallel_for may be called from any thread. While one call uses the pool,
/// another call, or a nested call from a task, runs on its calling thread.
///
/// A call of n tasks wakes n - 1 threads at most. What they have not begun when the caller is done with its own tasks, the
/// caller does itself. Who waits, for a call or for the last tasks of one, spins for 50 us before it sleeps: threads take up
/// calls in quick succession without being woken. A pool of more threads than the machine has hardly spins.
class thread_pool {
public:
    /// `threads` threads including the one that calls parallel_for; at least 1. If the system refuses some, there are
    /// fewer: see concurrency(). (Without exceptions, a refused thread ends the program.)
    GRADKERN_PER_ISA explicit thread_pool(std::ptrdiff_t threads = hardware_threads())
        : spin_(threads > hardware_threads() ? 0 : longest_spin) {
        const std::ptrdiff_t others = threads < 1 ? 0 : threads - 1;
        if (others > 0) seats_ = new seat[static_cast<std::size_t>(others)];
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
        for (std::ptrdiff_t i = 0; i < count_; ++i) {
            seats_[i].state.store(stopped, std::memory_order_release);
            notify(seats_[i]);
        }
        for (std::ptrdiff_t i = 0; i < count_; ++i) seats_[i].thread.join();
        delete[] seats_;
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
                run([](const void* f, std::ptrdiff_t i) { (*static_cast<const F*>(f))(i); }, std::addressof(fn), n);
                taken_.store(0, std::memory_order_release);
                return;
            }
        }
        serial_executor{}.parallel_for(n, fn);
    }

private:
    // What one thread does in a call: task `first` and, if tasks are more than threads, those that it gets from next_.
    struct share {
        void (*call)(const void*, std::ptrdiff_t);
        const void* fn;
        std::ptrdiff_t first;
        std::ptrdiff_t end;  // where next_ ends; 0 if every task is the first of a share
    };

    // States of a seat. The caller puts a share into an idle seat and posts it. Whoever changes `posted` to another state has
    // the share: the thread of the seat, which makes it idle again when it is done, or the caller, who takes back what a
    // late thread has not begun. A call leaves all seats idle, so a late thread finds nothing of a call that has returned.
    static constexpr std::uint32_t idle = 0;
    static constexpr std::uint32_t posted = 1;
    static constexpr std::uint32_t running = 2;  // the thread has the share
    static constexpr std::uint32_t awaited = 3;  // the same, and the caller sleeps until it is done
    static constexpr std::uint32_t stopped = 4;  // the thread ends

    static constexpr std::int64_t longest_spin =
        std::chrono::steady_clock::duration(std::chrono::microseconds(50)).count();
    // Bytes between what different threads write: two cache lines, since CPUs fetch them in pairs.
    static constexpr std::size_t line = 128;

    // A thread beside the caller's, and how the caller talks to it: state and share cross in one cache line.
    struct alignas(line) seat {
        GRADKERN_PER_ISA seat() = default;
        GRADKERN_PER_ISA ~seat() = default;

        std::atomic<std::uint32_t> state{idle};
        share work{nullptr, nullptr, 0, 0};
        std::condition_variable changed;  // for whichever of the two sleeps: never both
        std::thread thread;
    };

    GRADKERN_PER_ISA void start(std::ptrdiff_t others) {
        for (; count_ < others; ++count_) {
            seat& s = seats_[count_];
            s.thread = std::thread([this, &s] { serve(s); });
        }
    }

    GRADKERN_PER_ISA void run(void (*call)(const void*, std::ptrdiff_t), const void* fn, std::ptrdiff_t n) noexcept {
        const std::ptrdiff_t others = n - 1 < count_ ? n - 1 : count_;
        const std::ptrdiff_t end = n - 1 > others ? n : 0;
        next_.store(others + 1, std::memory_order_relaxed);  // the posts below publish it
        for (std::ptrdiff_t i = 0; i < others; ++i) {
            seats_[i].work = {call, fn, i + 1, end};
            seats_[i].state.store(posted, std::memory_order_release);
        }
        // Either a thread counts itself among the sleepers before this, and is seen here; or it does so later, reads from
        // this in turn, and sees what is posted before it sleeps. A plain load would not do: it may come before the posts.
        if (sleepers_.fetch_add(0, std::memory_order_acq_rel) != 0)
            for (std::ptrdiff_t i = 0; i < others; ++i) notify(seats_[i]);
        inside_ = true;
        perform({call, fn, 0, end});
        for (std::ptrdiff_t i = 0; i < others; ++i) {
            if (claim(seats_[i], idle)) {
                perform(seats_[i].work);
            } else {
                wait_until_done(seats_[i]);
            }
        }
        inside_ = false;
    }

    GRADKERN_PER_ISA void perform(const share& s) noexcept {
        s.call(s.fn, s.first);
        if (s.end == 0) return;  // spares the others the cache line of next_
        for (;;) {
            const std::ptrdiff_t i = next_.fetch_add(1, std::memory_order_relaxed);
            if (i >= s.end) return;
            s.call(s.fn, i);
        }
    }

    // Whether the share was still posted; then the state is `next` now. The thread may have seen the post of an earlier call: it
    // gets the share of the call that is posted now, and reads it only after this.
    [[nodiscard]] GRADKERN_PER_ISA static bool claim(seat& s, std::uint32_t next) noexcept {
        std::uint32_t expected = posted;
        return s.state.load(std::memory_order_relaxed) == posted &&
               s.state.compare_exchange_strong(expected, next, std::memory_order_acquire);
    }

    // By the caller, of a seat whose thread has its share.
    GRADKERN_PER_ISA void wait_until_done(seat& s) noexcept {
        if (spin_while(s, running) == idle) return;
        std::unique_lock lock(mutex(s));
        std::uint32_t expected = running;
        if (!s.state.compare_exchange_strong(expected, awaited, std::memory_order_acquire)) return;
        while (s.state.load(std::memory_order_acquire) == awaited) s.changed.wait(lock);
    }

    GRADKERN_PER_ISA void serve(seat& s) noexcept {
        inside_ = true;
        for (;;) {
            const std::uint32_t state = spin_while(s, idle);
            if (state == stopped) return;
            if (state == idle) {
                sleep(s);
            } else if (claim(s, running)) {
                perform(s.work);
                if (s.state.exchange(idle, std::memory_order_release) == awaited) notify(s);
            }
        }
    }

    // Until the state changes or, at times, without a reason. Either way the thread spins again, so that it is awake for the next
    // call even if the caller has taken back what it was woken for.
    GRADKERN_PER_ISA void sleep(seat& s) noexcept {
        std::unique_lock lock(mutex(s));
        sleepers_.fetch_add(1, std::memory_order_acq_rel);
        if (s.state.load(std::memory_order_acquire) == idle) s.changed.wait(lock);
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }

    // After a change of the state. Sleepers look at the state under the mutex before they sleep. Once the mutex was free, they
    // either sleep, and are woken, or will see the change.
    GRADKERN_PER_ISA static void notify(seat& s) noexcept {
        { const std::lock_guard lock(mutex(s)); }
        s.changed.notify_one();
    }

    // The state, once it is not `old`, or after a bounded time. The shortest waits do without a system call. In longer ones
    // the thread yields: where cores are few, it may be in the way of the one that it waits for.
    GRADKERN_PER_ISA std::uint32_t spin_while(const seat& s, std::uint32_t old) const noexcept {
        std::int64_t end = 0;
        for (;;) {
            for (int i = 0; i < 64; ++i) {
                const std::uint32_t state = s.state.load(std::memory_order_acquire);
                if (state != old) return state;
                own::pause();
            }
            const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
            if (end == 0) end = now + spin_;
            if (now >= end) return old;
            std::this_thread::yield();
        }
    }

    // The mutex of those who sleep at a seat. Seats share a few, chosen by address. A mutex in each seat would be
    // constructed by a function of the standard library, and all objects of a program share its body, whatever instruction set
    // they are compiled for. (The waits of std::atomic and std::vector<std::thread>::reserve are such functions, too.)
    [[nodiscard]] GRADKERN_PER_ISA static std::mutex& mutex(const seat& s) noexcept {
        return mutexes_[reinterpret_cast<std::uintptr_t>(&s) / line % mutex_count];
    }
    static constexpr std::size_t mutex_count = 16;
    static inline std::mutex mutexes_[mutex_count]{};  // not constinit: on Windows it has a constructor that runs
    // True on the threads of every pool and on a caller that runs tasks: a nested call must not wait for threads that may wait for it.
    static constinit inline thread_local bool inside_ = false;

    // Written by the constructor,
    seat* seats_ = nullptr;
    std::ptrdiff_t count_ = 0;  // of seats_ with a thread
    std::int64_t spin_;         // before a thread sleeps, in ticks of std::chrono::steady_clock
    // by callers and sleepers,
    alignas(line) std::atomic<std::uint32_t> taken_{0};  // 1: a call uses the pool
    std::atomic<std::uint32_t> sleepers_{0};             // threads that sleep, or are about to
    // and by all, if tasks are more than threads.
    alignas(line) std::atomic<std::ptrdiff_t> next_{0};  // the next task that is not the first of a share
};

GRADKERN_NAMESPACE_END
