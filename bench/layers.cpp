// Times every operator on the named cases: bench_layers --benchmark_filter='r50_3x3.*/backward_data/NXC'.
// Each result is compared with the plain-loop reference before it is timed; GF/s counts useful work only.
#include <benchmark/benchmark.h>

#include <cmath>
#include <limits>
#include <memory>

#include "layers.hpp"

int main(int argc, char** argv) {
    using namespace gradkern_bench;
    for_each_layer([](const auto& c, role what, gradkern::data_format format) {
        benchmark::RegisterBenchmark(name_of(c, what, format).c_str(), [&c, what, format](benchmark::State& state) {
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
    });
    benchmark::Initialize(&argc, argv);
    benchmark::AddCustomContext("gradkern", std::string(gradkern::detail::isa_name));
    benchmark::RunSpecifiedBenchmarks();
}
