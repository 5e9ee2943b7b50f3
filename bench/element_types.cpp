// What f16 and bf16 cost beside f32: every operator on the named cases in all three types, one line a case, and a failure
// where a 16-bit type takes more than FACTOR times as long.
//
//     bench_element_types [FACTOR [SUBSTRING]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "layers.hpp"
#include "timing.hpp"

namespace gradkern_bench {
namespace {

/// Times of two plans in turns, the better half of the machine's moods for both.
template <class T>
double ratio_to(layer<float>& f32, const elements<float>& expected, layer<T>& other, bool& wrong) {
    wrong = wrong || !(difference(other, expected) < tolerance<T>);
    double best_f32 = std::numeric_limits<double>::infinity();
    double best = best_f32;
    for (int turn = 0; turn < 3; ++turn) {
        best_f32 = std::min(best_f32, best_seconds(3, [&] { static_cast<void>(f32.run()); }));
        best = std::min(best, best_seconds(3, [&] { static_cast<void>(other.run()); }));
    }
    return best / best_f32;
}

}  // namespace
}  // namespace gradkern_bench

int main(int argc, char** argv) {
    using namespace gradkern_bench;
    const double factor = argc > 1 ? std::atof(argv[1]) : 2;
    const char* only = argc > 2 ? argv[2] : "";
    int above = 0;
    int count = 0;
    for_each_layer([&](const auto& c, role what, gradkern::data_format format) {
        const std::string name = name_of(c, what, format);
        if (name.find(only) == std::string::npos) return;
        layer<float> f32;
        layer<gradkern::float16> f16;
        layer<gradkern::bfloat16> bf16;
        make_layer(f32, c, what, format);
        make_layer(f16, c, what, format);
        make_layer(bf16, c, what, format);
        bool wrong = !f32.run();
        const elements<float> expected = f32.out;  // inputs are the same numbers in every type
        const double r16 = ratio_to(f32, expected, f16, wrong);
        const double rb16 = ratio_to(f32, expected, bf16, wrong);
        const bool slow = std::max(r16, rb16) > factor;
        above += slow || wrong;
        ++count;
        std::printf("%-50s f16 %5.2f, bf16 %5.2f times f32%s%s\n", name.c_str(), r16, rb16, slow ? " ABOVE" : "",
                    wrong ? " WRONG" : "");
        std::fflush(stdout);
    });
    std::printf("%d cases, %d above %.1f times or wrong, %s\n", count, above, factor,
                std::string(gradkern::detail::isa_name).c_str());
    return above == 0 ? 0 : 1;
}
