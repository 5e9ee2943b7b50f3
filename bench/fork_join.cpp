// What a call of parallel_for costs besides its tasks: gradkern::thread_pool beside OpenMP's `parallel for schedule(static)`.
//
//     bench_fork_join [calls [workers...]]     by default 500, and 2, 4, 8 ... up to the threads of the machine
//
// Three kinds of tasks, one task a worker:
//
// - empty: does nothing. The caller of a thread_pool does itself what a late worker has not begun.
// - meet: waits until every task of the call has begun. All workers take part, as they do under OpenMP in any case.
// - 10 us: spins for 10 us. Printed without these 10 us.
//
// Calls come back to back ("hot") or after a gap in which the caller spins. Medians and 90th percentiles, in microseconds,
// over several alternating rounds. Workers need cores of their own: with more workers than cores, `meet` times the scheduler.
//
// Without CMake: g++ -O2 -std=c++20 -march=native -Iinclude -pthread -fopenmp bench/fork_join.cpp
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gradkern/executors/thread_pool.hpp>

namespace {

using clock_type = std::chrono::steady_clock;
using microseconds = std::chrono::duration<double, std::micro>;

constexpr int rounds = 3;
constexpr std::array<double, 4> gaps{0, 10, 100, 1000};
constexpr double task = 10;

void spin(double us) {
    if (us <= 0) return;
    const auto end = clock_type::now() + std::chrono::duration_cast<clock_type::duration>(microseconds(us));
    while (clock_type::now() < end) {
    }
}

struct openmp_static {
    std::ptrdiff_t workers;
    template <class F>
    void parallel_for([[maybe_unused]] std::ptrdiff_t n, const F& fn) const {
#if defined(_OPENMP)
        const int threads = static_cast<int>(workers);
#pragma omp parallel for schedule(static) num_threads(threads)
#endif
        for (std::ptrdiff_t i = 0; i < n; ++i) fn(i);
    }
};

/// Counts on a cache line of its own.
struct alignas(128) counter {
    std::atomic<std::ptrdiff_t> count{0};
};
/// How often each task ran, each on a line of its own, and how many tasks of the call have begun.
struct tasks {
    explicit tasks(std::ptrdiff_t n) : done(static_cast<std::size_t>(n)) {}
    std::vector<counter> done;
    counter begun;

    void ran(std::ptrdiff_t i) {
        std::atomic<std::ptrdiff_t>& own = done[static_cast<std::size_t>(i)].count;
        own.store(own.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
};

enum class kind { empty, meet, spin };
constexpr std::array<const char*, 3> kind_names{"empty", "meet", "10 us"};

/// Adds the times of `calls` calls, after some that are not timed.
template <class Executor>
void time_calls(Executor& e, std::ptrdiff_t workers, kind what, double gap, int calls, std::vector<double>& times) {
    constexpr int first_calls = 20;
    // The other executor's threads may spin for some time after their last call.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    tasks t(workers);
    for (int call = -first_calls; call < calls; ++call) {
        t.begun.count.store(0);
        spin(gap);
        const auto begin = clock_type::now();
        switch (what) {
            case kind::empty: e.parallel_for(workers, [&](std::ptrdiff_t i) { t.ran(i); }); break;
            case kind::meet:
                e.parallel_for(workers, [&](std::ptrdiff_t i) {
                    t.ran(i);
                    t.begun.count.fetch_add(1);
                    // On a machine of too few cores the others need this one.
                    for (int looks = 1; t.begun.count.load() < workers; ++looks)
                        if (looks % 10000 == 0) std::this_thread::yield();
                });
                break;
            case kind::spin:
                e.parallel_for(workers, [&](std::ptrdiff_t i) {
                    t.ran(i);
                    spin(task);
                });
                break;
        }
        const double time = microseconds(clock_type::now() - begin).count();
        if (call >= 0) times.push_back(what == kind::spin ? time - task : time);
    }
    for (const counter& done : t.done) {
        if (done.count.load() == first_calls + calls) continue;
        std::printf("a task did not run once a call\n");
        std::exit(1);
    }
}

void print(std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    std::printf("  %8.2f %8.2f", times[times.size() / 2], times[times.size() * 9 / 10]);
}

void measure(std::ptrdiff_t workers, int most_calls) {
    gradkern::thread_pool pool(workers);
    [[maybe_unused]] openmp_static openmp{workers};
    for (std::size_t what = 0; what < kind_names.size(); ++what) {
        for (const double gap : gaps) {
            std::vector<double> of_pool;
            std::vector<double> of_openmp;
            const int calls = gap < 1000 ? most_calls : (most_calls + 4) / 5;
            for (int round = 0; round < rounds; ++round) {
                time_calls(pool, workers, static_cast<kind>(what), gap, calls, of_pool);
#if defined(_OPENMP)
                time_calls(openmp, workers, static_cast<kind>(what), gap, calls, of_openmp);
#endif
            }
            std::printf("%4td  %-5s  %4.0f us", workers, kind_names[what], gap);
            print(of_pool);
            if (!of_openmp.empty()) print(of_openmp);
            std::printf("\n");
            std::fflush(stdout);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::printf("workers task     gap  thread_pool  90 %%");
#if defined(_OPENMP)
    std::printf("            OpenMP  90 %%");
#endif
    std::printf("\n");
    const int calls = argc > 1 ? std::max(1, std::atoi(argv[1])) : 500;
    if (argc > 2) {
        for (int i = 2; i < argc; ++i) measure(std::max(1, std::atoi(argv[i])), calls);
    } else {
        for (std::ptrdiff_t workers = 2; workers <= gradkern::thread_pool::hardware_threads(); workers *= 2)
            measure(workers, calls);
    }
}
