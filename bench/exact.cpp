// How long the exact references take on a 3x3 convolution of 64 channels at 56 x 56, forward and both gradients, on one core: relative to
// gradkern's operator, and to two loop nests in f64. Every result is compared with the operator's first.
//
//     bench_exact [MOST]      fails where the exact reference takes more than MOST (100) times as long as the operator in f32, or longer
//                             than the plain loop nest in 16 bits
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gradkern/gradkern.hpp>
#include <gradkern/ref/exact.hpp>

#include "timing.hpp"

namespace {

using namespace gradkern;
namespace exact = gradkern::ref::exact;

constexpr std::int64_t size = 56;
constexpr std::int64_t channels = 64;
constexpr convolution_attributes attributes{
    .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
const extents activation{1, size, size, channels};
const extents filter{3, 3, channels, channels};

/// Normally distributed, as activations and weights are: exponents span 20 powers of two and more.
template <class T>
std::vector<T> numbers(const extents& shape, float scale, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, scale);
    std::vector<T> v(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    for (T& x : v) x = static_cast<T>(normal(random));
    return v;
}

/// The loop nest that people write: one sum at a time, elements converted where they are read.
template <class T>
void plain(const T* x, const T* w, T* y) {
    for (std::int64_t h = 0; h < size; ++h)
        for (std::int64_t v = 0; v < size; ++v)
            for (std::int64_t o = 0; o < channels; ++o) {
                double sum = 0;
                for (std::int64_t kh = 0; kh < 3; ++kh)
                    for (std::int64_t kw = 0; kw < 3; ++kw) {
                        const std::int64_t i = h + kh - 1;
                        const std::int64_t j = v + kw - 1;
                        if (i < 0 || i >= size || j < 0 || j >= size) continue;
                        for (std::int64_t c = 0; c < channels; ++c)
                            sum += static_cast<double>(static_cast<float>(x[(i * size + j) * channels + c])) *
                                   static_cast<double>(
                                       static_cast<float>(w[((kh * 3 + kw) * channels + c) * channels + o]));
                    }
                y[(h * size + v) * channels + o] = static_cast<T>(static_cast<float>(sum));
            }
}

/// The same with output channels innermost, so that compilers use vectors, and elements converted once beforehand.
template <class T>
void vectorised(const T* x, const T* w, T* y) {
    std::vector<double> xs(size * size * channels);
    std::vector<double> ws(9 * channels * channels);
    for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<double>(static_cast<float>(x[i]));
    for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<double>(static_cast<float>(w[i]));
    for (std::int64_t h = 0; h < size; ++h)
        for (std::int64_t v = 0; v < size; ++v) {
            double sums[channels]{};
            for (std::int64_t kh = 0; kh < 3; ++kh)
                for (std::int64_t kw = 0; kw < 3; ++kw) {
                    const std::int64_t i = h + kh - 1;
                    const std::int64_t j = v + kw - 1;
                    if (i < 0 || i >= size || j < 0 || j >= size) continue;
                    for (std::int64_t c = 0; c < channels; ++c) {
                        const double a = xs[static_cast<std::size_t>((i * size + j) * channels + c)];
                        const double* const b = ws.data() + ((kh * 3 + kw) * channels + c) * channels;
                        for (std::int64_t o = 0; o < channels; ++o) sums[o] += a * b[o];
                    }
                }
            for (std::int64_t o = 0; o < channels; ++o)
                y[(h * size + v) * channels + o] = static_cast<T>(static_cast<float>(sums[o]));
        }
}

template <class Plan>
std::vector<std::byte> workspace_of(const result<Plan>& plan) {
    if (!plan) std::exit(1);
    return std::vector<std::byte>(plan->workspace_bytes(1));
}
void require(const status& s) {
    if (!s) std::exit(1);
}

/// Whether results are as near as 16-bit types, or sums in f32, allow.
template <class T>
bool agree(const std::vector<T>& a, const std::vector<T>& b) {
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const auto x = static_cast<double>(static_cast<float>(a[i]));
        const auto y = static_cast<double>(static_cast<float>(b[i]));
        largest = std::max(largest, std::fabs(x));
        difference = std::max(difference, std::fabs(x - y));
    }
    return difference <= largest * (sizeof(T) == 4 ? 1e-5 : 1e-2);
}

int failures = 0;

template <class T>
void row(const char* type, const char* op, double exact_seconds, double fast, bool agrees, double most) {
    const bool slow = std::is_same_v<T, float> && exact_seconds > most * fast;
    failures += slow || !agrees;
    std::printf("%-5s %-17s exact %7.2f ms, operator %6.2f ms: %5.1f times as long%s%s\n", type, op,
                exact_seconds * 1e3, fast * 1e3, exact_seconds / fast, slow ? " SLOW" : "", agrees ? "" : " WRONG");
}

template <class T>
void measure(const char* type, double most) {
    using gradkern_bench::best_seconds;
    const auto x = numbers<T>(activation, 1, 1);
    const auto dy = numbers<T>(activation, 1, 2);
    const auto w = numbers<T>(filter, 0.05F, 3);
    std::vector<T> got(x.size());
    std::vector<T> expected(x.size());
    std::vector<T> got_w(w.size());
    std::vector<T> expected_w(w.size());

    const auto forward = plan_convolution<T>(activation, filter, {}, attributes);
    auto scratch = workspace_of(forward);
    double fast = best_seconds(5, [&] {
        require(forward->run(x.data(), w.data(), static_cast<const T*>(nullptr), expected.data(), scratch));
    });
    const double slow = best_seconds(3, [&] {
        require(exact::convolution<T>({x.data(), activation}, {w.data(), filter}, {}, attributes,
                                      {got.data(), activation}));
    });
    row<T>(type, "forward", slow, fast, agree(got, expected), most);
    const double nest = best_seconds(1, [&] { plain(x.data(), w.data(), expected.data()); });
    const bool late = sizeof(T) == 2 && slow > nest;
    const bool wrong = !agree(got, expected);
    const double vectors = best_seconds(3, [&] { vectorised(x.data(), w.data(), expected.data()); });
    failures += late || wrong;
    std::printf(
        "%-5s %-17s f64 loop nest %7.2f ms: exact is %.2f times as fast%s%s; vectorised nest %6.2f ms: %.2f times as "
        "fast\n",
        type, "", nest * 1e3, nest / slow, late ? " SLOW" : "", wrong ? " WRONG" : "", vectors * 1e3, vectors / slow);

    const auto data = plan_convolution_backward_data<T>(activation, filter, attributes, activation);
    scratch = workspace_of(data);
    fast = best_seconds(5, [&] { require(data->run(dy.data(), w.data(), expected.data(), scratch)); });
    const double slow_data = best_seconds(3, [&] {
        require(exact::convolution_backward_data<T>({dy.data(), activation}, {w.data(), filter}, attributes,
                                                    {got.data(), activation}));
    });
    row<T>(type, "backward_data", slow_data, fast, agree(got, expected), most);

    const auto weights = plan_convolution_backward_weights<T>(activation, activation, attributes, filter);
    scratch = workspace_of(weights);
    fast = best_seconds(5, [&] { require(weights->run(x.data(), dy.data(), expected_w.data(), scratch)); });
    const double slow_weights = best_seconds(3, [&] {
        require(exact::convolution_backward_weights<T, T>({x.data(), activation}, {dy.data(), activation}, attributes,
                                                          {got_w.data(), filter}));
    });
    row<T>(type, "backward_weights", slow_weights, fast, agree(got_w, expected_w), most);
}

}  // namespace

int main(int argc, char** argv) {
    const double most = argc > 1 ? std::atof(argv[1]) : 100;
    measure<float>("f32", most);
    measure<float16>("f16", most);
    measure<bfloat16>("bf16", most);
    std::printf("%d failures, %s\n", failures, std::string(detail::isa_name).c_str());
    return failures == 0 ? 0 : 1;
}
