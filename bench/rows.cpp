// What plans choose for layers that nobody tuned for: draws convolutions or pools at random, forces each row of the table of paths in
// turn, and prints the time of the chosen row over that of the fastest. The constants of target.cost were fitted to such layers.
//
//     bench_rows [SEED [LAYERS [few|dense|1x1|depthwise|max|average [WORST]]]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "layers.hpp"
#include "timing.hpp"

namespace gradkern_bench {
namespace {

using gradkern::algorithm;
using gradkern_cases::convolution_case;
using gradkern_cases::pool_case;

/// Draws one of the numbers of a list.
class random_choice {
public:
    explicit random_choice(unsigned seed) : random_(seed) {}
    std::int64_t operator()(std::initializer_list<std::int64_t> values) {
        return *std::next(values.begin(), static_cast<std::ptrdiff_t>(random_() % values.size()));
    }
    /// True once in `draws` draws, in the mean.
    bool once_in(unsigned draws) { return random_() % draws == 0; }

private:
    std::mt19937 random_;
};

/// Convolutions of one kind, of 0.3 to 800 MFLOP an image.
class convolution_source {
public:
    convolution_source(unsigned seed, std::string kind) : pick_(seed), kind_(std::move(kind)) {}

    /// `name` must outlive the case.
    convolution_case next(std::string& name) {
        for (;;) {
            std::int64_t in = channels();
            std::int64_t out = channels();
            std::int64_t groups = 1;
            const std::size_t rank = pick_.once_in(4) ? 1 : 2;
            std::int64_t kernel = rank == 1 ? pick_({3, 5, 7, 11, 15}) : pick_({3, 3, 3, 5, 7, 9});
            if (kind_ == "few") {
                out = pick_({1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48});
                in = pick_({1, 2, 3, 4, 8, 12, 16, 24, 32, 64, 128, 256});
                if (pick_.once_in(2)) std::swap(in, out);
                if (pick_.once_in(3)) {
                    in = out = pick_({2, 3, 4, 6, 8, 12, 16, 24, 32});
                    groups = std::max<std::int64_t>(2, 128 / in);
                }
            } else if (kind_ == "1x1") {
                kernel = 1;
            } else if (kind_ == "depthwise") {
                groups = in;
                in = out = 1;
            }
            const std::int64_t stride = pick_.once_in(5) ? 2 : 1;
            const std::int64_t dilation = stride == 1 && pick_.once_in(6) ? 2 : 1;
            const std::int64_t size =
                rank == 1 ? pick_({50, 128, 500, 1000, 4000}) : pick_({7, 14, 20, 28, 40, 56, 80, 112});
            const double outputs = std::pow(static_cast<double>(size / stride), static_cast<double>(rank));
            const double flops = 2.0 * static_cast<double>(in * out * groups) * outputs *
                                 std::pow(static_cast<double>(kernel), static_cast<double>(rank));
            const double numbers = static_cast<double>((in + out) * groups) * outputs;
            if (flops < 3e5 || flops > 8e8 || numbers > 1e7) continue;
            const auto batch = static_cast<std::int64_t>(std::clamp(1.5e8 / flops, 1.0, std::min(8.0, 1e7 / numbers)));
            const auto text = [](std::int64_t v) { return std::to_string(v); };
            name = std::to_string(rank) + "d_" + text(in) + "_" + text(out) + "_g" + text(groups) + "_k" +
                   text(kernel) + "_s" + text(stride) + "_d" + text(dilation) + "_" + text(size) + "_n" + text(batch);
            const auto all = [&](std::int64_t v) { return gradkern::extents::filled(rank, v); };
            convolution_case c;
            c.name = name;
            c.batch = batch;
            c.in_channels = in * groups;
            c.out_channels = out * groups;
            c.groups = groups;
            c.size = all(size);
            c.kernel = all(kernel);
            c.strides = all(stride);
            c.dilations = all(dilation);
            c.pads_begin = c.pads_end = all(dilation * (kernel / 2));
            return c;
        }
    }

private:
    std::int64_t channels() {
        return pick_({16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024});
    }

    random_choice pick_;
    std::string kind_;
};

/// Max or average pools of 1-D to 3-D, of up to four million numbers.
class pool_source {
public:
    pool_source(unsigned seed, bool maximum) : pick_(seed), maximum_(maximum) {}

    /// `name` must outlive the case.
    pool_case next(std::string& name) {
        for (;;) {
            const std::size_t rank = pick_.once_in(6) ? 1 : pick_.once_in(6) ? 3 : 2;
            const std::int64_t channels = pick_({1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024});
            const std::int64_t kernel = pick_({2, 2, 3, 3, 3, 4, 5, 7, 13});
            const std::int64_t stride = pick_({1, 2, kernel});
            const std::int64_t size = rank == 1   ? pick_({64, 500, 2000, 8000})
                                      : rank == 3 ? pick_({8, 14, 28})
                                                  : pick_({7, 8, 13, 14, 16, 24, 28, 35, 56, 112});
            const std::int64_t pad = kernel % 2 == 1 && pick_.once_in(2) ? kernel / 2 : 0;
            const double numbers =
                static_cast<double>(channels) * std::pow(static_cast<double>(size), static_cast<double>(rank));
            if (kernel > size || stride > kernel || numbers > 4e6) continue;
            const auto batch = static_cast<std::int64_t>(std::clamp(1.2e6 / numbers, 1.0, 16.0));
            name = std::to_string(rank) + "d_c" + std::to_string(channels) + "_k" + std::to_string(kernel) + "_s" +
                   std::to_string(stride) + "_p" + std::to_string(pad) + "_" + std::to_string(size) + "_n" +
                   std::to_string(batch);
            return gradkern_cases::same_axes(name, maximum_, batch, channels, gradkern::extents::filled(rank, size),
                                             kernel, stride, pad, pick_.once_in(2));
        }
    }

private:
    random_choice pick_;
    bool maximum_;
};

struct timed_row {
    std::string name;
    double seconds;
};

double shortest(int calls, const layer<float>& l) {
    return best_seconds(
        calls, [&] { static_cast<void>(l.run()); }, 0);
}

/// The rows that fit, the chosen one first, timed in turns. A row that takes three times as long as another is given up.
template <class Case>
std::vector<timed_row> time_rows(const Case& c, role what, gradkern::data_format format) {
    const auto row_of = [](const std::string& plan) {
        const std::size_t first = plan.find(": ") + 2;
        return plan.substr(first, plan.find(',') - first);
    };
    std::vector<std::unique_ptr<layer<float>>> layers;
    std::vector<timed_row> rows;
    for (int i = 0; i <= static_cast<int>(gradkern::last_algorithm); ++i) {
        auto l = std::make_unique<layer<float>>();
        l->options.algorithm = static_cast<algorithm>(i);
        make_layer(*l, c, what, format);
        if (!l->run) continue;
        const std::string name = row_of(l->plan);
        if (!rows.empty() && name == rows.front().name) continue;
        rows.push_back({name, shortest(2, *l)});
        layers.push_back(std::move(l));
        if (layers.back()->out == layers.front()->out) continue;
        std::fprintf(stderr, "%s: %s and %s differ in bits\n", layers.back()->name.c_str(), rows.front().name.c_str(),
                     rows.back().name.c_str());
        std::exit(1);
    }
    const auto fastest = [&] {
        return std::min_element(rows.begin(), rows.end(),
                                [](const timed_row& a, const timed_row& b) { return a.seconds < b.seconds; })
            ->seconds;
    };
    for (int turn = 0; turn < 4; ++turn) {
        const double least = fastest();
        const int calls = std::max(2, static_cast<int>(0.003 / least));
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (i > 0 && turn > 0 && rows[i].seconds > 3 * least) continue;
            rows[i].seconds = std::min(rows[i].seconds, shortest(calls, *layers[i]));
        }
    }
    return rows;
}

struct loss {
    double ratio;
    std::string text;
};

/// Prints the mean and the worst layers of one operator in both layouts.
template <class Source>
void compare_rows(const Source& source, role what, const std::string& kind, unsigned seed, int count,
                  std::size_t worst) {
    for (const gradkern::data_format format : {gradkern::data_format::ncx, gradkern::data_format::nxc}) {
        Source layers = source;  // the same for all
        std::vector<loss> losses;
        double sum = 0;
        for (int i = 0; i < count; ++i) {
            std::string name;
            const auto c = layers.next(name);
            const std::vector<timed_row> rows = time_rows(c, what, format);
            double least = rows.front().seconds;
            std::string text = name + ": " + rows.front().name + ";";
            for (const timed_row& r : rows) {
                least = std::min(least, r.seconds);
                text += " " + r.name + " " + std::to_string(static_cast<int>(r.seconds * 1e6)) + " us";
            }
            losses.push_back({rows.front().seconds / least, text});
            sum += std::log(losses.back().ratio);
        }
        std::sort(losses.begin(), losses.end(), [](const loss& a, const loss& b) { return a.ratio > b.ratio; });
        std::printf("%s, %s, %s: %d layers, seed %u, chosen over fastest row %.3f in the mean\n", kind.c_str(),
                    role_names[static_cast<int>(what)], format == gradkern::data_format::ncx ? "NCX" : "NXC", count,
                    seed, count == 0 ? 1.0 : std::exp(sum / count));
        for (std::size_t i = 0; i < std::min(worst, losses.size()); ++i)
            std::printf("    %.2f %s\n", losses[i].ratio, losses[i].text.c_str());
        std::fflush(stdout);
    }
}

}  // namespace
}  // namespace gradkern_bench

int main(int argc, char** argv) {
    using namespace gradkern_bench;
    const unsigned seed = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
    const int count = argc > 2 ? std::atoi(argv[2]) : 100;
    const std::string kind = argc > 3 ? argv[3] : "few";
    const std::size_t worst = argc > 4 ? static_cast<std::size_t>(std::atoi(argv[4])) : 5;
    const bool maximum = kind == "max";
    if (maximum || kind == "average") {
        const pool_source pools(seed, maximum);
        compare_rows(pools, role::forward, kind, seed, count, worst);
        compare_rows(pools, role::backward_data, kind, seed, count, worst);
        if (maximum) compare_rows(pools, role::backward_from_indices, kind, seed, count, worst);
        return 0;
    }
    const convolution_source convolutions(seed, kind);
    for (const role what : {role::forward, role::backward_data, role::backward_weights})
        compare_rows(convolutions, what, kind, seed, count, worst);
}
