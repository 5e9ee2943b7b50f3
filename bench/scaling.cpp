// How operators would scale over cores that this machine does not have: every task of the plan for P workers is timed alone on one core,
// and P workers take them in turn, as the library hands them out, in a simulation.
//
//     bench_scaling [regular expression of layers [images [every]]]
//
// With `images`, layers have so many; with `every` n, one row of n is measured. For each operator of the zoo: time of one worker / (P * time of P workers), where the latter is the simulated makespan and 5 us for
// fork and join. What workers share is not simulated: memory bandwidth, the last-level cache, the clock.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradkern_bench {

/// When a worker asked for tasks: the time between two of these is a task.
inline std::vector<std::chrono::steady_clock::time_point> task_times;

}  // namespace gradkern_bench
#define GRADKERN_DETAIL_NEXT_TASK() gradkern_bench::task_times.push_back(std::chrono::steady_clock::now())

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <queue>
#include <regex>
#include <string>

#include <cases/zoo.hpp>

#include "layers.hpp"

namespace {

using namespace gradkern_bench;

constexpr std::array<int, 7> worker_counts{2, 4, 8, 16, 32, 64, 128};
constexpr double fork_join = 5e-6;
constexpr int rounds = 3;

/// Claims some workers; the first one does everything.
struct lone_executor {
    std::ptrdiff_t workers;
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        if (n > 0) fn(0);
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const { return workers; }
};

using seconds = std::chrono::duration<double>;

/// Shortest times of a run by so many workers: before the first task, and of the tasks in their order.
struct run_times {
    double begin = 0;
    std::vector<double> tasks;
};
template <class Case>
run_times time_tasks(const Case& c, role what, gradkern::data_format format, int workers) {
    const lone_executor executor{workers};
    layer<float> l;
    l.executor = executor;
    make_layer(l, c, what, format);
    run_times least;
    for (int round = 0; round <= rounds; ++round) {  // the first one touches memory
        task_times.clear();
        const auto start = std::chrono::steady_clock::now();
        if (!l.run() || task_times.empty()) std::exit(1);
        if (round == 0) continue;
        const double begin = seconds(task_times[0] - start).count();
        least.begin = round == 1 ? begin : std::min(least.begin, begin);
        least.tasks.resize(task_times.size() - 1, 1e9);
        for (std::size_t i = 0; i < least.tasks.size(); ++i)
            least.tasks[i] = std::min(least.tasks[i], seconds(task_times[i + 1] - task_times[i]).count());
    }
    return least;
}

/// When the last of so many workers is done, where each takes the next task as soon as it is free.
double makespan(const run_times& run, int workers) {
    std::priority_queue<double, std::vector<double>, std::greater<>> free;
    for (int i = 0; i < workers; ++i) free.push(run.begin);
    double last = run.begin;
    for (const double t : run.tasks) {
        const double end = free.top() + t;
        free.pop();
        free.push(end);
        last = std::max(last, end);
    }
    return last;
}

struct summary {
    int count = 0;
    std::array<double, worker_counts.size()> log_sum{};
    std::array<double, worker_counts.size()> least{};
};

}  // namespace

int main(int argc, char** argv) {
    const std::regex wanted(argc > 1 ? argv[1] : ".*");
    const std::int64_t images = argc > 2 ? std::atoll(argv[2]) : 0;
    const std::int64_t every = argc > 3 ? std::max(1LL, std::atoll(argv[3])) : 1;
    std::int64_t number = 0;
    gradkern_cases::zoo zoo(GRADKERN_ZOO);
    std::map<std::string, summary> groups;
    const auto measure = [&](auto c, role what, gradkern::data_format format) {
        if (!std::regex_search(name_of(c, what, format), wanted)) return;
        const std::int64_t i = number++;
        if (i % every != i / every % every)
            return;  // in each so many rows at another place: else some roles are never met
        if (images > 0) c.batch = images;
        const double one = makespan(time_tasks(c, what, format, 1), 1);
        summary& s = groups[std::string(role_names[static_cast<int>(what)]) +
                            (format == gradkern::data_format::ncx ? "/NCX" : "/NXC")];
        std::printf("%-50s %9.4f ms ", name_of(c, what, format).c_str(), one * 1e3);
        for (std::size_t i = 0; i < worker_counts.size(); ++i) {
            const int workers = worker_counts[i];
            const double all = makespan(time_tasks(c, what, format, workers), workers) + fork_join;
            const double efficiency = one / (workers * all);
            s.log_sum[i] += std::log(efficiency);
            s.least[i] = s.count == 0 ? efficiency : std::min(s.least[i], efficiency);
            std::printf(" %5.2f", efficiency);
        }
        ++s.count;
        std::printf("\n");
        std::fflush(stdout);
    };
    for_each_layer_of([&](const auto& c, role what, gradkern::data_format format) { measure(c, what, format); },
                      zoo.convolutions, zoo.pools);
    for (const auto& [name, s] : groups) {
        std::printf("%-24s %4d mean ", name.c_str(), s.count);
        for (const double sum : s.log_sum) std::printf(" %5.2f", std::exp(sum / s.count));
        std::printf("  least");
        for (const double least : s.least) std::printf(" %5.2f", least);
        std::printf("\n");
    }
}
