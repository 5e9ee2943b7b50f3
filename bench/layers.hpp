// Benchmark problems ready to run: named cases with data, a planned run and the reference's run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <cases/convolution_cases.hpp>
#include <cases/pooling_cases.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>

namespace gradkern_bench {

/// One operator on one case and layout: data, output, and two ways to compute it.
struct layer {
    std::string name;
    double flops = 0;  // useful ones: taps inside
    double bytes = 0;  // tensors read once and written once
    std::vector<float> a, b, out;
    std::vector<std::byte> workspace;
    std::function<gradkern::status()> run;        // plan made beforehand
    std::function<gradkern::status()> reference;  // plain loops
};

inline std::vector<float> random_floats(const gradkern::extents& shape, unsigned seed) {
    std::size_t n = 1;
    for (const std::int64_t e : shape.values()) n *= static_cast<std::size_t>(e);
    std::vector<float> v(n);
    std::minstd_rand r(seed);
    for (float& x : v) x = static_cast<float>(static_cast<int>(r() % 2001) - 1000) / 1000.0F;
    return v;
}

/// Sets up the run of a plan that reads a and b; exits with a message where the plan was refused.
template <class Plan>
void attach(layer& l, const gradkern::result<Plan>& made) {
    if (!made) {
        char text[256];
        const std::size_t n = made.error().format(text);
        std::fprintf(stderr, "%s: %.*s\n", l.name.c_str(), static_cast<int>(n), text);
        std::exit(1);
    }
    l.workspace.resize(made->workspace_bytes());
    if constexpr (requires { made->run(l.a.data(), l.b.data(), l.out.data(), l.workspace); }) {
        l.run = [&l, plan = *made] { return plan.run(l.a.data(), l.b.data(), l.out.data(), l.workspace); };
    } else if constexpr (requires { made->run(l.a.data(), l.b.data(), nullptr, l.out.data(), l.workspace); }) {
        l.run = [&l, plan = *made] { return plan.run(l.a.data(), l.b.data(), nullptr, l.out.data(), l.workspace); };
    } else {
        l.run = [&l, plan = *made] { return plan.run(l.a.data(), l.out.data(), l.workspace); };
    }
}

enum class role { forward, backward_data, backward_weights };
inline constexpr const char* role_names[]{"forward", "backward_data", "backward_weights"};

/// Fills `l` with one operator of a convolution case. The layer must not move afterwards.
inline void make_layer(layer& l, const gradkern_cases::convolution_case& c, role what, gradkern::data_format format) {
    using namespace gradkern;
    const bool ncx = format == data_format::ncx;
    const weights_format filter = ncx ? weights_format::oix : weights_format::xio;
    l.name = std::string(c.name) + "/" + role_names[static_cast<int>(what)] + (ncx ? "/NCX" : "/NXC");
    l.flops = c.useful_flops();
    const extents src = c.src_shape(format);
    const extents dst = c.dst_shape(format);
    const extents w = c.weights_shape(filter);
    const extents& first = what == role::backward_data ? dst : src;
    const extents& second = what == role::backward_weights ? dst : w;
    const extents& result = what == role::forward ? dst : what == role::backward_data ? src : w;
    l.a = random_floats(first, 1);
    l.b = random_floats(second, 2);
    l.out = random_floats(result, 3);
    l.bytes = 4.0 * static_cast<double>(l.a.size() + l.b.size() + l.out.size());
    const auto a = [&l, first] { return tensor_view<const float>{l.a.data(), first}; };
    const auto b = [&l, second] { return tensor_view<const float>{l.b.data(), second}; };
    const auto out = [&l, result] { return tensor_view<float>{l.out.data(), result}; };
    if (c.transposed) {
        const auto attributes = c.attributes<conv_transpose_attributes>(format, filter);
        switch (what) {
            case role::forward:
                attach(l, plan_conv_transpose<float>(src, w, {}, attributes, dst));
                l.reference = [=] { return ref::conv_transpose<float>(a(), b(), {}, attributes, out()); };
                break;
            case role::backward_data:
                attach(l, plan_conv_transpose_backward_data<float>(dst, w, attributes, src));
                l.reference = [=] { return ref::conv_transpose_backward_data<float>(a(), b(), attributes, out()); };
                break;
            case role::backward_weights:
                attach(l, plan_conv_transpose_backward_weights<float>(src, dst, attributes, w));
                l.reference = [=] { return ref::conv_transpose_backward_weights<float>(a(), b(), attributes, out()); };
                break;
        }
        return;
    }
    const auto attributes = c.attributes<convolution_attributes>(format, filter);
    switch (what) {
        case role::forward:
            attach(l, plan_convolution<float>(src, w, {}, attributes, dst));
            l.reference = [=] { return ref::convolution<float>(a(), b(), {}, attributes, out()); };
            break;
        case role::backward_data:
            attach(l, plan_convolution_backward_data<float>(dst, w, attributes, src));
            l.reference = [=] { return ref::convolution_backward_data<float>(a(), b(), attributes, out()); };
            break;
        case role::backward_weights:
            attach(l, plan_convolution_backward_weights<float>(src, dst, attributes, w));
            l.reference = [=] { return ref::convolution_backward_weights<float>(a(), b(), attributes, out()); };
            break;
    }
}

/// Fills `l` with one operator of an average pool. The layer must not move afterwards.
inline void make_layer(layer& l, const gradkern_cases::average_case& c, role what, gradkern::data_format format) {
    using namespace gradkern;
    l.name =
        std::string(c.name) + "/" + role_names[static_cast<int>(what)] + (format == data_format::ncx ? "/NCX" : "/NXC");
    const auto attributes = c.attributes(format);
    const extents src = c.src_shape(format);
    const extents dst = infer_avg_pool(src, attributes).value_or({});
    const bool forward = what == role::forward;
    l.a = random_floats(forward ? src : dst, 1);
    l.out = random_floats(forward ? dst : src, 3);
    l.bytes = 4.0 * static_cast<double>(l.a.size() + l.out.size());
    const auto a = [&l, shape = forward ? src : dst] { return tensor_view<const float>{l.a.data(), shape}; };
    const auto out = [&l, shape = forward ? dst : src] { return tensor_view<float>{l.out.data(), shape}; };
    if (forward) {
        attach(l, plan_avg_pool<float>(src, attributes, dst));
        l.reference = [=] { return ref::avg_pool<float>(a(), attributes, out()); };
    } else {
        attach(l, plan_avg_pool_backward<float>(dst, attributes, src));
        l.reference = [=] { return ref::avg_pool_backward<float>(a(), attributes, out()); };
    }
}

/// Calls f(case, role, format) for every operator, case and layout.
template <class F>
void for_each_layer(const F& f) {
    using gradkern::data_format;
    for (const data_format format : {data_format::nxc, data_format::ncx}) {
        for (const auto& c : gradkern_cases::convolution_cases)
            for (const role what : {role::forward, role::backward_data, role::backward_weights}) f(c, what, format);
        for (const auto& c : gradkern_cases::average_cases)
            for (const role what : {role::forward, role::backward_data}) f(c, what, format);
    }
}

/// Runs the kernel into poisoned memory and returns the largest difference from `exact`, relative to the largest number
/// there; NaN or infinity where something went wrong.
inline double difference(layer& l, const std::vector<float>& exact) {
    std::fill(l.out.begin(), l.out.end(), std::numeric_limits<float>::quiet_NaN());
    if (!l.run()) return std::numeric_limits<double>::infinity();
    double worst = 0;
    double scale = 1e-30;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const double d = std::abs(static_cast<double>(exact[i]) - static_cast<double>(l.out[i]));
        worst = d <= worst ? worst : d;  // a NaN difference stays
        scale = std::max(scale, std::abs(static_cast<double>(exact[i])));
    }
    return worst / scale;
}

/// The result of the reference; empty after an error.
inline std::vector<float> reference_result(layer& l) { return l.reference() ? l.out : std::vector<float>{}; }

}  // namespace gradkern_bench
