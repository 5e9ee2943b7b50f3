// Times every operator on the named cases: bench_layers --benchmark_filter='r50_3x3.*/backward_data/NXC'.
// Each result is compared with the plain-loop reference before it is timed; GF/s counts useful work only.
// The layers of tests/cases/zoo.json are there where the filter asks for them: --benchmark_filter='zoo/tcn.*/forward'.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include <cases/zoo.hpp>

#include "layers.hpp"

int main(int argc, char** argv) {
    using namespace gradkern_bench;
    const auto add = [](const std::string& prefix, const auto& c, role what, gradkern::data_format format) {
        const std::string name = prefix + name_of(c, what, format);
        benchmark::RegisterBenchmark(name.c_str(), [&c, what, format](benchmark::State& state) {
            layer<float> l;
            make_layer(l, c, what, format);
            const elements<float> exact = reference_result(l);
            if (exact.empty() || !(difference(l, exact) < tolerance<float>)) {
                state.SkipWithError("the result differs from the reference");
                return;
            }
            for (auto _ : state) {
                if (!l.run()) state.SkipWithError("refused");
                benchmark::ClobberMemory();
            }
            if (l.flops > 0)
                state.counters["flops"] = benchmark::Counter(l.flops, benchmark::Counter::kIsIterationInvariantRate);
            state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(l.bytes));
        })->Unit(benchmark::kMillisecond);
    };
    for_each_layer([&](const auto&... layer) { add("", layer...); });
    if (std::any_of(argv + 1, argv + argc, [](std::string_view s) { return s.find("zoo") != s.npos; })) {
        static const gradkern_cases::zoo zoo(GRADKERN_ZOO);
        for_each_layer_of([&](const auto&... layer) { add("zoo/", layer...); }, zoo.convolutions, zoo.pools);
    }
    benchmark::Initialize(&argc, argv);
    benchmark::AddCustomContext("gradkern", std::string(gradkern::detail::isa_name));
    benchmark::RunSpecifiedBenchmarks();
}
