// The compiled library beside the headers, compiled for this machine: the same bits, and the time of each.
//
//     bench_runtime [regular expression of layers [every]]
//
// With `every` n, one layer of n is measured. First comes the time of the first call of the library, which chooses the instruction
// set; then for each operator of the zoo, both layouts: time of the headers / time of the library.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <regex>
#include <string>
#include <type_traits>
#include <vector>

#include <cases/zoo.hpp>
#include <gradkern/runtime.hpp>

#include "layers.hpp"
#include "timing.hpp"

namespace {

using namespace gradkern_bench;
using gradkern::extents;

gradkern_tensor tensor(const extents& shape) {
    return gradkern_dense(GRADKERN_F32, static_cast<int>(shape.rank()), shape.values().data());
}
gradkern_list list(const extents& e) { return gradkern_list_of(static_cast<int>(e.rank()), e.values().data()); }

/// An operator of the library and the addresses it wants.
struct call {
    gradkern::runtime::plan plan;
    std::vector<const void*> tensors;
};

call make(const gradkern_problem& problem, std::vector<const void*> tensors) {
    gradkern_error error;
    gradkern::runtime::plan plan(problem, error);
    if (!plan) {
        std::fprintf(stderr, "%s\n", error.message);
        std::exit(1);
    }
    return {std::move(plan), std::move(tensors)};
}

gradkern::runtime::problem problem_of(gradkern_operator op, gradkern::data_format format, const extents& strides,
                                      const extents& begin, const extents& end) {
    gradkern::runtime::problem p(op);
    const bool ncx = format == gradkern::data_format::ncx;
    p.data_format = ncx ? GRADKERN_NCX : GRADKERN_NXC;
    p.weights_format = ncx ? GRADKERN_OIX : GRADKERN_XIO;
    p.strides = list(strides);
    p.pads_begin = list(begin);
    p.pads_end = list(end);
    return p;
}

call same_call(layer<float>& l, const gradkern_cases::convolution_case& c, role what, gradkern::data_format format,
               elements<float>& out) {
    const int first = c.transposed ? GRADKERN_CONV_TRANSPOSE : GRADKERN_CONVOLUTION;
    const auto op = static_cast<gradkern_operator>(first + static_cast<int>(what));
    auto p = problem_of(op, format, c.strides, c.pads_begin, c.pads_end);
    p.dilations = list(c.dilations);
    p.groups = c.groups;
    if (c.transposed) p.output_padding = list(c.output_padding);
    const gradkern_tensor src = tensor(c.src_shape(format));
    const gradkern_tensor dst = tensor(c.dst_shape(format));
    const gradkern_tensor weights = tensor(c.weights_shape(
        p.weights_format == GRADKERN_OIX ? gradkern::weights_format::oix : gradkern::weights_format::xio));
    p.tensors[0] = what == role::backward_data ? dst : src;
    p.tensors[1] = what == role::backward_weights ? dst : weights;
    p.tensors[what == role::forward ? 3 : 2] = what == role::forward         ? dst
                                               : what == role::backward_data ? src
                                                                             : weights;
    std::vector<const void*> tensors{l.a.data(), l.b.data()};
    if (what == role::forward) tensors.push_back(nullptr);
    tensors.push_back(out.data());
    if (what == role::backward_weights) tensors.push_back(nullptr);
    return make(p, std::move(tensors));
}

call same_call(layer<float>& l, const gradkern_cases::pool_case& c, role what, gradkern::data_format format,
               elements<float>& out) {
    const int first = c.maximum ? GRADKERN_MAX_POOL : GRADKERN_AVG_POOL;
    const int after = what == role::backward_from_indices ? 2 : what == role::backward_data ? 1 : 0;
    const auto op = static_cast<gradkern_operator>(first + after);
    auto p = problem_of(op, format, c.strides, c.pads_begin, c.pads_end);
    p.kernel = list(c.kernel);
    p.exclude_pad = !c.maximum && c.exclude_pad ? 1 : 0;
    const gradkern_tensor src = tensor(c.src_shape(format));
    const gradkern_tensor dst = tensor(c.dst_shape(format));
    if (what == role::forward) {
        p.tensors[0] = src;
        p.tensors[1] = dst;
        if (!c.maximum) return make(p, {l.a.data(), out.data()});
        p.tensors[2] = dst;
        return make(p, {l.a.data(), out.data(), l.indices.data()});
    }
    if (!c.maximum) {
        p.tensors[0] = dst;
        p.tensors[1] = src;
        return make(p, {l.a.data(), out.data()});
    }
    p.tensors[0] = what == role::backward_data ? src : dst;
    p.tensors[1] = dst;
    p.tensors[2] = src;
    if (what == role::backward_data) return make(p, {l.a.data(), l.b.data(), out.data()});
    return make(p, {l.a.data(), l.indices.data(), out.data()});
}

struct summary {
    int count = 0;
    double log_sum = 0;
};

}  // namespace

int main(int argc, char** argv) {
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    const char* isa = gradkern_isa();
    const std::chrono::duration<double, std::milli> choice = clock::now() - begin;
    std::printf("%s, chosen in %.3f ms\n", isa, choice.count());

    const std::regex wanted(argc > 1 ? argv[1] : ".*");
    const std::int64_t every = argc > 2 ? std::max(1LL, std::atoll(argv[2])) : 1;
    std::int64_t number = -1;
    std::map<std::string, summary> groups;
    int different = 0;
    gradkern_cases::zoo zoo(GRADKERN_ZOO);
    const auto measure = [&](const auto& c, role what, gradkern::data_format format) {
        if (!std::regex_search(name_of(c, what, format), wanted)) return;
        if (what == role::forward) ++number;
        if (number % every != 0) return;
        layer<float> l;
        make_layer(l, c, what, format);
        elements<float> out(l.out.size());
        const call library = same_call(l, c, what, format, out);
        std::vector<std::byte> workspace(library.plan.workspace_bytes());
        const auto run_library = [&] {
            gradkern_error error;
            return gradkern_plan_run(library.plan.get(), const_cast<void* const*>(library.tensors.data()),
                                     library.tensors.size(), workspace.data(), workspace.size(), nullptr, &error,
                                     sizeof error) == GRADKERN_OK;
        };
        if (!l.run() || !run_library()) std::exit(1);
        const bool same = std::memcmp(out.data(), l.out.data(), out.size() * sizeof(float)) == 0;
        different += same ? 0 : 1;
        std::array<double, 2> best{1e9, 1e9};
        for (int round = 0; round < 3; ++round) {
            best[0] = std::min(best[0], best_seconds(2, [&] { static_cast<void>(l.run()); }));
            best[1] = std::min(best[1], best_seconds(2, [&] { static_cast<void>(run_library()); }));
        }
        const double ratio = best[0] / best[1];
        std::printf("%-60s %9.4f ms %9.4f ms %6.3f%s\n", l.name.c_str(), best[0] * 1e3, best[1] * 1e3, ratio,
                    same ? "" : " different bits");
        std::fflush(stdout);
        constexpr bool convolution = std::is_same_v<std::decay_t<decltype(c)>, gradkern_cases::convolution_case>;
        for (const std::string& group :
             {std::string("all"), std::string(convolution ? "conv " : "pool ") + role_names[static_cast<int>(what)] +
                                      (format == gradkern::data_format::ncx ? " NCX" : " NXC")}) {
            summary& s = groups[group];
            ++s.count;
            s.log_sum += std::log(ratio);
        }
    };
    for_each_layer_of(measure, zoo.convolutions, zoo.pools);
    for (const auto& [name, s] : groups)
        std::printf("%-40s %4d %6.3f\n", name.c_str(), s.count, std::exp(s.log_sum / s.count));
    std::printf("%d results with different bits\n", different);
    return different == 0 ? 0 : 1;
}
