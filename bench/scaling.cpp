// How operators would scale over cores that this machine does not have: P workers run the plan for P workers, one at a time on one core, each
// with a clock, which runs while it does; whoever's clock is behind takes the next task. The makespan follows from the shortest time of each
// task over some runs.
//
//     bench_scaling [regular expression of layers [images [every]]]
//     bench_scaling --real P [regular expression of layers [images [every]]]
//
// With `images`, layers have so many; with `every` n, one row of n is measured. For each operator of the zoo: time of one worker / (P * time of
// P workers), where the latter is the makespan and, for each call of the executor, 5 us for fork and join. Workers have buffers of their own,
// as real ones do, and pack what real ones pack. What they share is not simulated: memory bandwidth, the last-level cache, the
// clock of the CPU. `--real` compares with P threads on as many cores.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <regex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace gradkern_bench {

using seconds = std::chrono::duration<double>;
inline double now() { return seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Shortest times of a call of the executor: of a worker before its first task and behind its last one, and of each task. And the order in which
/// tasks were handed out last.
struct call_times {
    double beside = INFINITY;
    std::vector<double> tasks;
    std::vector<std::size_t> order;
};

/// Workers that take turns, each in a thread of its own, of which one runs at a time.
class turns {
public:
    /// Runs fn(0) ... fn(n - 1), and notes times that are shorter.
    template <class F>
    void run(std::ptrdiff_t n, const F& fn, call_times& times) {
        for (std::ptrdiff_t i = 0; i < n; ++i) workers_.emplace_back();
        std::vector<std::thread> threads;
        for (worker& w : workers_) {
            threads.emplace_back([&, i = static_cast<std::ptrdiff_t>(threads.size())] {
                w.turn.acquire();
                mine_ = &w;
                all_ = this;
                w.begun = now();
                fn(i);
                w.is_done = true;
                w.beside += stop(w);
                hand_over();
            });
        }
        workers_.front().turn.release();
        for (std::thread& t : threads) t.join();
        times.tasks.resize(order_.size(), INFINITY);
        for (std::size_t i = 0; i < order_.size(); ++i) times.tasks[i] = std::min(times.tasks[i], durations_.at(i));
        times.order = order_;
        for (const worker& w : workers_) times.beside = std::min(times.beside, w.beside);
    }
    /// The next task of a worker, when it is its turn: take() returns its number, or -1.
    template <class Take>
    static std::int64_t next_task(const Take& take) {
        if (mine_ == nullptr) return take();
        all_->wait(*mine_);
        const std::int64_t task = take();
        all_->begin(*mine_, task);
        return task;
    }

private:
    struct worker {
        std::binary_semaphore turn{0};
        double clock = 0;
        double begun = 0;
        double beside = 0;
        std::int64_t task = -1;
        bool is_done = false;
    };

    double stop(worker& w) {
        const double time = now() - w.begun;
        w.clock += time;
        return time;
    }
    void wait(worker& w) {
        const double time = stop(w);
        if (w.task < 0) {
            w.beside = time;
        } else {
            durations_[static_cast<std::size_t>(w.task)] = time;
        }
        hand_over();
        w.turn.acquire();
        w.begun = now();
    }
    void begin(worker& w, std::int64_t task) {
        w.task = task;
        if (task < 0) return;
        const auto number = static_cast<std::size_t>(task);
        if (durations_.size() <= number) durations_.resize(number + 1, INFINITY);
        order_.push_back(number);
    }
    /// Lets the worker go on that is farthest behind.
    void hand_over() {
        worker* next = nullptr;
        for (worker& w : workers_)
            if (!w.is_done && (next == nullptr || w.clock < next->clock)) next = &w;
        if (next != nullptr) next->turn.release();
    }

    std::deque<worker> workers_;
    std::vector<double> durations_;  // of each task
    std::vector<std::size_t> order_;
    static inline thread_local worker* mine_ = nullptr;
    static inline thread_local turns* all_ = nullptr;
};

}  // namespace gradkern_bench
#define GRADKERN_DETAIL_NEXT_TASK(take) gradkern_bench::turns::next_task([&] { return take; })

#include <cases/zoo.hpp>
#include <gradkern/executors/thread_pool.hpp>

#include "layers.hpp"

namespace {

using namespace gradkern_bench;

constexpr std::array<int, 7> worker_counts{2, 4, 8, 16, 32, 64, 128};
constexpr double fork_join = 5e-6;
constexpr int rounds = 3;

/// The calls of runs by so many workers.
struct run_times {
    std::vector<call_times> calls;
    std::size_t call = 0;  // of this run, the next one
    double in_calls = 0;   // of this run
};

/// Claims some workers, which take turns.
struct simulated_executor {
    std::ptrdiff_t workers;
    run_times* times;
    template <class F>
    void parallel_for(std::ptrdiff_t n, const F& fn) const {
        const double start = now();
        if (times->call == times->calls.size()) times->calls.emplace_back();
        turns().run(n, fn, times->calls[times->call++]);
        times->in_calls += now() - start;
    }
    [[nodiscard]] std::ptrdiff_t concurrency() const { return workers; }
};

/// When the last of so many workers is done, where each takes the next task as soon as it is free.
double makespan(const call_times& call, int workers) {
    std::priority_queue<double, std::vector<double>, std::greater<>> free;
    for (int i = 0; i < workers; ++i) free.push(call.beside);
    double last = call.beside;
    for (const std::size_t task : call.order) {
        const double t = call.tasks[task];
        last = std::max(last, free.top() + t);
        free.push(free.top() + t);
        free.pop();
    }
    return last;
}

/// Runs of an operator on an executor, which notes its calls. Returns the shortest time of a run, without these.
template <class Case>
double shortest_time(const Case& c, role what, gradkern::data_format format, gradkern::executor_ref executor,
                     run_times& times) {
    layer<float> l;
    l.executor = executor;
    make_layer(l, c, what, format);
    double least = INFINITY;
    for (int round = 0; round <= rounds; ++round) {
        times.call = 0;
        times.in_calls = 0;
        const double start = now();
        if (!l.run()) std::exit(1);
        if (round > 0) {
            least = std::min(least, now() - start - times.in_calls);
        } else {
            times.calls.clear();  // this one touches memory
        }
    }
    return least;
}
template <class Case>
double simulated_time(const Case& c, role what, gradkern::data_format format, int workers) {
    run_times times;
    const simulated_executor executor{workers, &times};
    double time = shortest_time(c, what, format, executor, times);
    for (const call_times& call : times.calls) time += makespan(call, workers) + fork_join;
    return time;
}
template <class Case>
double real_time(const Case& c, role what, gradkern::data_format format, gradkern::executor_ref executor) {
    run_times none;
    return shortest_time(c, what, format, executor, none);
}

struct summary {
    int count = 0;
    std::array<double, worker_counts.size()> log_sum{};
    std::array<double, worker_counts.size()> least{};
};

}  // namespace

int main(int argc, char** argv) {
    int real = 0;
    if (argc > 2 && std::string(argv[1]) == "--real") {
        real = std::max(2, std::atoi(argv[2]));
        argc -= 2;
        argv += 2;
    }
    const std::regex wanted(argc > 1 ? argv[1] : ".*");
    const std::int64_t images = argc > 2 ? std::atoll(argv[2]) : 0;
    const std::int64_t every = argc > 3 ? std::max(1LL, std::atoll(argv[3])) : 1;
    std::int64_t number = 0;
    gradkern_cases::zoo zoo(GRADKERN_ZOO);
    std::map<std::string, summary> groups;
    gradkern::thread_pool threads(std::max(real, 1));
    double log_sum = 0;  // of simulated and real times
    int count = 0;
    const auto compare = [&](const auto& c, role what, gradkern::data_format format) {
        const double simulated = simulated_time(c, what, format, real);
        const double measured = real_time(c, what, format, threads);
        log_sum += std::log(simulated / measured);
        ++count;
        std::printf("%-50s simulated %9.4f ms, %d threads %9.4f ms, ratio %.2f, mean %.3f\n",
                    name_of(c, what, format).c_str(), simulated * 1e3, real, measured * 1e3, simulated / measured,
                    std::exp(log_sum / count));
        std::fflush(stdout);
    };
    const auto measure = [&](auto c, role what, gradkern::data_format format) {
        if (!std::regex_search(name_of(c, what, format), wanted)) return;
        const std::int64_t i = number++;
        if (i % every != i / every % every)
            return;  // in each so many rows at another place: else some roles are never met
        if (images > 0) c.batch = images;
        if (real > 0) return compare(c, what, format);
        const double one = simulated_time(c, what, format, 1);
        summary& s = groups[std::string(role_names[static_cast<int>(what)]) +
                            (format == gradkern::data_format::ncx ? "/NCX" : "/NXC")];
        std::printf("%-50s %9.4f ms ", name_of(c, what, format).c_str(), one * 1e3);
        for (std::size_t w = 0; w < worker_counts.size(); ++w) {
            const int workers = worker_counts[w];
            const double all = simulated_time(c, what, format, workers);
            const double efficiency = one / (workers * all);
            s.log_sum[w] += std::log(efficiency);
            s.least[w] = s.count == 0 ? efficiency : std::min(s.least[w], efficiency);
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
