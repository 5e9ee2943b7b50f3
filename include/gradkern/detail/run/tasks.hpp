// Workers: how a plan's tasks meet the caller's executor and workspace.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/simd.hpp>
#include <gradkern/detail/target.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/shape/checked.hpp>

// The number of a worker's next task, from an expression that takes it; bench/scaling.cpp takes the time.
#if !defined(GRADKERN_DETAIL_NEXT_TASK)
#define GRADKERN_DETAIL_NEXT_TASK(take) (take)
#endif

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// Least scratch (scratch_use::least) is counted as if vectors had 16 lanes, and is that many times larger where they have
/// more: so the same problems fit the stack on every CPU.
inline constexpr std::int64_t least_lanes = 16;  // of floats; of doubles half as many
inline constexpr std::int64_t least_times = std::max<std::int64_t>(1, simd::lanes / least_lanes);

/// Byte offsets of the arrays in one worker's slice of the workspace, each on a cache line of its own.
class slice_layout {
public:
    constexpr slice_layout() noexcept = default;
    /// Arrays of least scratch, where `least`.
    constexpr explicit slice_layout(bool least) noexcept : times_(least ? least_times : 1) {}

    /// Reserves `count` objects of type U and returns the byte offset of the first.
    template <class U>
    constexpr std::int64_t reserve(std::int64_t count) noexcept {
        return reserve(count, sizeof(U));
    }
    /// The same of objects of so many bytes.
    constexpr std::int64_t reserve(std::int64_t count, std::int64_t each) noexcept {
        const std::int64_t at = bytes_;
        bytes_ += (count * each + cache_line - 1) / cache_line * cache_line * times_;
        return at;
    }
    [[nodiscard]] constexpr std::int64_t bytes() const noexcept { return bytes_; }

private:
    std::int64_t bytes_ = 0;
    std::int64_t times_ = 1;
};

/// The array of type U at such an offset of a slice.
template <class U>
[[nodiscard]] U* array_at(std::byte* slice, std::int64_t offset) noexcept {
    return reinterpret_cast<U*>(slice + offset);
}

/// Bytes of the workspace that one-call forms have on the stack, where the caller gave none, and what a slice in it has of
/// them on CPUs of up to 16 lanes. A problem is accepted if its least scratch fits: that follows from the problem alone.
inline constexpr std::int64_t call_scratch = 40 * 1024;
inline constexpr std::size_t call_workspace = static_cast<std::size_t>(call_scratch * least_times) + cache_line;

/// Bytes that fast plans of few sums keep to where they can. Scratch grows with the vectors.
inline constexpr std::size_t stack_workspace =
    (simd::lanes > 8 ? 32 : 16) * 1024 + cache_line;  // what any workspace may lose to alignment
inline constexpr std::int64_t stack_slice = static_cast<std::int64_t>(stack_workspace) - cache_line;

/// Bytes that `workers` slices need in memory of any alignment; SIZE_MAX where they cannot be counted.
[[nodiscard]] constexpr std::size_t workspace_for(std::int64_t slice_bytes, std::int64_t workers) noexcept {
    if (slice_bytes == 0) return 0;
    const shape::checked bytes = shape::checked(slice_bytes) * std::max<std::int64_t>(workers, 1) + cache_line;
    return bytes.ok() ? static_cast<std::size_t>(bytes.value()) : SIZE_MAX;
}

/// Workers as plans count them: one for any number below, and no more than there ever are tasks of use.
[[nodiscard]] constexpr std::int64_t counted_workers(std::int64_t workers) noexcept {
    return std::clamp<std::int64_t>(workers, 1, std::int64_t{1} << 20);
}

/// A caller's workspace cut into equal slices.
class slices {
public:
    slices(std::span<std::byte> workspace, std::int64_t slice_bytes) noexcept : slice_bytes_(slice_bytes) {
        const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
        const auto skip = (static_cast<std::uintptr_t>(cache_line) - address % cache_line) % cache_line;
        if (slice_bytes == 0 || workspace.size() < skip) return;
        first_ = workspace.data() + skip;
        count_ = static_cast<std::int64_t>(workspace.size() - skip) / slice_bytes;
    }
    /// How many workers have memory; without any need for memory there is no limit.
    [[nodiscard]] std::int64_t count() const noexcept { return slice_bytes_ == 0 ? INT64_MAX : count_; }
    [[nodiscard]] std::byte* operator[](std::int64_t worker) const noexcept {
        return slice_bytes_ == 0 ? nullptr : first_ + worker * slice_bytes_;
    }

private:
    std::byte* first_ = nullptr;
    std::int64_t slice_bytes_ = 0;
    std::int64_t count_ = 0;
};

/// Tasks per block of tasks that differ in size: workers take them in order.
inline constexpr std::int64_t in_order = 0;

/// Tasks 0 ... tasks - 1, as workers take them. Each has a share of neighbouring tasks: whole blocks of `per_block` tasks, if there are as many
/// blocks as workers. Whoever is done early takes tasks of others. So a worker finds in its caches what it packed, read and wrote before, in this run
/// and in others; and most of the time workers write to blocks of their own: in NXC the panels of a block share lines of the cache, and two workers
/// on one block took up to three times as long as on two. Workers 64 apart have one share.
class task_shares {
public:
    task_shares(std::int64_t tasks, std::int64_t per_block, std::int64_t workers) noexcept
        : tasks_(tasks), count_(per_block == in_order ? 1 : std::min(workers, most)) {
        const std::int64_t unit = per_block > 1 && tasks / per_block >= count_ ? per_block : 1;
        std::int64_t first = 0;
        for (std::int64_t i = 0; i < count_; ++i) {
            const std::int64_t end = i + 1 < count_ ? tasks / unit * (i + 1) / count_ * unit : tasks;
            std::construct_at(memory_of(i), first, end);
            first = end;
        }
    }
    /// The next task of a worker, or -1.
    [[nodiscard]] GRADKERN_NOINLINE std::int64_t take(std::int64_t worker) noexcept {
        // Who gets a number below that of all tasks finds one that nobody has taken.
        if (count_ > 1 && taken_.fetch_add(1, std::memory_order_relaxed) >= tasks_) return -1;
        for (;; ++worker) {
            share& s = *std::launder(memory_of(worker % count_));
            if (s.next.load(std::memory_order_relaxed) < s.end) {
                const std::int64_t task = s.next.fetch_add(1, std::memory_order_relaxed);
                if (task < s.end) return task;
            }
            if (count_ == 1) return -1;
        }
    }

private:
    static constexpr std::int64_t most = 64;
    struct alignas(cache_line) share {
        std::atomic<std::int64_t> next;
        std::int64_t end;

        share(std::int64_t first, std::int64_t last) noexcept : next(first), end(last) {}
    };
    [[nodiscard]] share* memory_of(std::int64_t i) noexcept { return reinterpret_cast<share*>(memory_.data()) + i; }

    alignas(share) std::array<std::byte, most * sizeof(share)> memory_;  // only the shares that are used are begun
    std::atomic<std::int64_t> taken_{0};
    std::int64_t tasks_;
    std::int64_t count_;
};

/// Hands out the numbers of one worker's tasks, then -1.
struct next_task {
    task_shares& shares;
    std::int64_t worker;

    std::int64_t operator()() const noexcept { return GRADKERN_DETAIL_NEXT_TASK(shares.take(worker)); }
};

/// Runs tasks 0 ... tasks - 1. Each worker calls `worker(memory, next_task)`.
/// Which worker gets which task is left to chance: no result may depend on it.
template <class Worker>
void run_tasks(executor_ref executor, std::int64_t tasks, const slices& memory, const Worker& worker,
               std::int64_t per_block = 1) noexcept {
    const std::int64_t workers = std::min({static_cast<std::int64_t>(executor.concurrency()), tasks, memory.count()});
    if (tasks <= 0 || workers <= 0) return;
    task_shares shares(tasks, per_block, workers);
    auto body = [&](std::ptrdiff_t i) { worker(memory[i], next_task{shares, i}); };
    if (workers == 1) {
        body(0);
    } else {
        executor.parallel_for(static_cast<std::ptrdiff_t>(workers), body);
    }
}
/// The same where workers keep nothing from task to task: calls f(memory, task) for each.
template <class F>
void for_each_task(executor_ref executor, std::int64_t tasks, const slices& memory, const F& f,
                   std::int64_t per_block = 1) noexcept {
    const auto worker = [&](std::byte* slice, const next_task& next) {
        for (std::int64_t task = next(); task >= 0; task = next()) f(slice, task);
    };
    run_tasks(executor, tasks, memory, worker, per_block);
}

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
