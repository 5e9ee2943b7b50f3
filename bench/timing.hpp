// Times that what else runs on the machine disturbs little.
#pragma once

#include <time.h>

#include <algorithm>
#include <limits>

namespace gradkern_bench {

/// CPU time of this thread in seconds: what other programs do on the machine counts little.
inline double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The shortest of several runs: at least `runs`, and as many as fit into so many seconds.
template <class Run>
double best_seconds(int runs, const Run& run, double seconds_at_least = 0.1) {
    double best = std::numeric_limits<double>::infinity();
    double all = 0;
    for (int i = 0; i < runs || all < seconds_at_least; ++i) {
        const double start = cpu_seconds();
        run();
        const double seconds = cpu_seconds() - start;
        best = std::min(best, seconds);
        all += seconds;
    }
    return best;
}

}  // namespace gradkern_bench
