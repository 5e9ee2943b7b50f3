// oneTBB as an executor. Include it explicitly. It declares nothing if oneTBB's headers are not found.
#pragma once

#if __has_include(<tbb/parallel_for.h>)

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cstddef>

#include <gradkern/detail/config.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Runs in the calling thread's oneTBB task arena. It has no state: `tbb_executor tbb; plan.run(..., tbb)`.
struct tbb_executor {
    /// Calls fn(i) for every i in [0, n) and returns when all are done. fn must not throw.
    template <class F>
    GRADKERN_PER_ISA void parallel_for(std::ptrdiff_t n, const F& fn) const noexcept {
        // isolated: a waiting thread must not run a task of the caller that waits for this one
        ::tbb::this_task_arena::isolate([&] { ::tbb::parallel_for(std::ptrdiff_t{0}, n, fn); });
    }
    /// The threads of the calling thread's arena.
    [[nodiscard]] GRADKERN_PER_ISA static std::ptrdiff_t concurrency() noexcept {
        return ::tbb::this_task_arena::max_concurrency();
    }
};

GRADKERN_NAMESPACE_END

#endif
