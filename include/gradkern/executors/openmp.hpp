// OpenMP as an executor. Include it explicitly. Without OpenMP (-fopenmp) it is serial.
#pragma once

#include <cstddef>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <gradkern/detail/config.hpp>
#include <gradkern/executor.hpp>

GRADKERN_NAMESPACE_BEGIN

// Inlined: with and without -fopenmp the bodies differ.

/// Runs on the threads of the OpenMP runtime. It has no state: `openmp_executor omp; plan.run(..., omp)`.
struct openmp_executor {
    /// Calls fn(i) for every i in [0, n) and returns when all are done. fn must not throw.
    template <class F>
    GRADKERN_ALWAYS_INLINE void parallel_for(std::ptrdiff_t n, const F& fn) const noexcept {
#if defined(_OPENMP)
#pragma omp parallel for schedule(dynamic, 1) if (n > 1)
#endif
        for (std::ptrdiff_t i = 0; i < n; ++i) fn(i);
    }
    /// The threads of the next parallel region; 1 inside a region if nesting is off.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE static std::ptrdiff_t concurrency() noexcept {
#if defined(_OPENMP)
        if (omp_in_parallel() != 0 && omp_get_active_level() >= omp_get_max_active_levels()) return 1;
        return omp_get_max_threads();
#else
        return 1;
#endif
    }
};

GRADKERN_NAMESPACE_END
