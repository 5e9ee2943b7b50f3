// How many times faster every operator is than the plain-loop reference in the same build: one line a case, and a
// failure where one is below the factor asked for.
//
//     bench_against_reference [FACTOR [SUBSTRING]]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "layers.hpp"

namespace {

/// CPU time of this thread in seconds: what other programs do on the machine counts little.
double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The shortest of several runs: at least `runs`, and as many as fit into a tenth of a second.
template <class Run>
double best_seconds(int runs, const Run& run) {
    double best = std::numeric_limits<double>::infinity();
    double all = 0;
    for (int i = 0; i < runs || all < 0.1; ++i) {
        const double start = cpu_seconds();
        run();
        const double seconds = cpu_seconds() - start;
        best = std::min(best, seconds);
        all += seconds;
    }
    return best;
}

}  // namespace

int main(int argc, char** argv) {
    using namespace gradkern_bench;
    const double factor = argc > 1 ? std::atof(argv[1]) : 8;
    const char* only = argc > 2 ? argv[2] : "";
    int below = 0;
    int count = 0;
    for_each_layer([&](const auto& c, role what, gradkern::data_format format) {
        layer l;
        make_layer(l, c, what, format);
        if (std::strstr(l.name.c_str(), only) == nullptr) return;
        std::vector<float> exact;
        const double plain = best_seconds(1, [&] { exact = reference_result(l); });
        const bool wrong = exact.empty() || !(difference(l, exact) < 1e-4);
        const double best = best_seconds(5, [&] { static_cast<void>(l.run()); });
        const double ratio = plain / best;
        below += ratio < factor || wrong;
        ++count;
        std::printf("%-50s reference %9.2f ms, gradkern %8.3f ms, %6.1f times%s%s\n", l.name.c_str(), plain * 1e3,
                    best * 1e3, ratio, ratio < factor ? " BELOW" : "", wrong ? " WRONG" : "");
        std::fflush(stdout);
    });
    std::printf("%d cases, %d below %.0f times or wrong, %s\n", count, below, factor,
                std::string(gradkern::detail::isa_name).c_str());
    return below == 0 ? 0 : 1;
}
