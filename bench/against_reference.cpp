// How many times faster every operator is than the plain-loop reference in the same build: one line a case, and a
// failure where one is below the factor asked for. A case below it is timed again, up to eight turns of both; the shortest
// time of each counts.
//
//     bench_against_reference [FACTOR [SUBSTRING]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "layers.hpp"
#include "timing.hpp"

int main(int argc, char** argv) {
    using namespace gradkern_bench;
    const double factor = argc > 1 ? std::atof(argv[1]) : 8;
    const char* only = argc > 2 ? argv[2] : "";
    int below = 0;
    int count = 0;
    for_each_layer([&](const auto& c, role what, gradkern::data_format format) {
        if (name_of(c, what, format).find(only) == std::string::npos) return;
        layer<float> l;
        make_layer(l, c, what, format);
        elements<float> exact;
        const auto run = [&] { static_cast<void>(l.run()); };
        double best = best_seconds(5, run);
        double plain = best_seconds(1, [&] { exact = reference_result(l); });
        const bool wrong = exact.empty() || !(difference(l, exact) < tolerance<float>);
        best = std::min(best, best_seconds(5, run));
        // In turns: both meet the machine's moods. Who else uses a core disturbs full units, not waiting ones.
        for (int turn = 1; turn < 8 && plain / best < factor; ++turn) {
            plain = std::min(plain, best_seconds(1, [&] { static_cast<void>(reference_result(l)); }));
            best = std::min(best, best_seconds(5, run));
        }
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
