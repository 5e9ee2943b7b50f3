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
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cases/convolution_cases.hpp>
#include <cases/pooling_cases.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>
#include <gradkern/ref/lp_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

namespace gradkern_bench {

/// Memory that begins with a cache line, as frameworks hand it out.
template <class T>
struct line_allocator {
    using value_type = T;
    line_allocator() = default;
    template <class U>
    line_allocator(const line_allocator<U>&) noexcept {}
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
    void deallocate(T* p, std::size_t) noexcept { ::operator delete (p, std::align_val_t{64}); }
    friend bool operator==(line_allocator, line_allocator) noexcept { return true; }
};
template <class T>
using elements = std::vector<T, line_allocator<T>>;

/// One operator on one case and layout in elements of type T: data, output, and two ways to compute it.
template <class T = float>
struct layer {
    gradkern::executor_ref executor = {};  // of `run`; set it and the options before the layer is made
    gradkern::plan_options options = {};   // of the plan
    std::string name;
    double flops = 0;  // useful ones: taps inside
    double bytes = 0;  // tensors read once and written once
    elements<T> a, b, out;
    elements<std::int64_t> indices;  // of max pools
    std::vector<std::byte> workspace;
    std::string plan;                             // what it says of itself
    std::function<gradkern::status()> run;        // plan made beforehand
    std::function<gradkern::status()> reference;  // plain loops
};

inline std::size_t count_of(const gradkern::extents& shape) {
    std::size_t n = 1;
    for (const std::int64_t e : shape.values()) n *= static_cast<std::size_t>(e);
    return n;
}

/// Numbers between -1 and 1 that every element type has. Those of two seeds are independent: sums of their products stay
/// small, and so do the errors of libraries that add many numbers in plain order.
template <class T>
elements<T> random_elements(const gradkern::extents& shape, unsigned seed) {
    elements<T> v(count_of(shape));
    std::mt19937 r(seed);
    for (T& x : v) x = static_cast<T>(static_cast<float>(static_cast<int>(r() % 129) - 64) / 64.0F);
    return v;
}

/// Sets up the run of a plan that reads a and b. A named row that does not fit leaves it empty, and layers then have no data; exits with a
/// message where the plan was refused for another reason.
template <class T, class Plan>
void attach(layer<T>& l, const gradkern::result<Plan>& made) {
    if (!made && made.error().code == gradkern::errc::unsupported &&
        l.options.algorithm != gradkern::algorithm::automatic)
        return;
    if (!made) {
        char text[256];
        const std::size_t n = made.error().format(text);
        std::fprintf(stderr, "%s: %.*s\n", l.name.c_str(), static_cast<int>(n), text);
        std::exit(1);
    }
    l.workspace.resize(made->workspace_bytes(l.executor.concurrency()));
    l.plan.resize(made->describe({}));
    made->describe(l.plan);
    // called with whatever comes before the workspace
    const auto runs = [&l, plan = *made](const auto... tensors) {
        return plan.run(tensors..., l.workspace, l.executor);
    };
    if constexpr (requires { made->run(l.a.data(), l.b.data(), l.out.data(), l.workspace); }) {
        l.run = [&l, runs] { return runs(l.a.data(), l.b.data(), l.out.data()); };
    } else if constexpr (requires { made->run(l.a.data(), l.b.data(), nullptr, l.out.data(), l.workspace); }) {
        l.run = [&l, runs] { return runs(l.a.data(), l.b.data(), nullptr, l.out.data()); };
    } else if constexpr (requires { made->run(l.a.data(), l.out.data(), l.workspace); }) {
        l.run = [&l, runs] { return runs(l.a.data(), l.out.data()); };
    }  // plans that read or write indices are run by their own lines
}

enum class role { forward, backward_data, backward_weights, backward_from_indices };
inline constexpr const char* role_names[]{"forward", "backward_data", "backward_weights", "backward_from_indices"};

template <class Case>
std::string name_of(const Case& c, role what, gradkern::data_format format) {
    return std::string(c.name) + "/" + role_names[static_cast<int>(what)] +
           (format == gradkern::data_format::ncx ? "/NCX" : "/NXC");
}

/// Fills `l` with one operator of a convolution case. The layer must not move afterwards.
template <class T>
void make_layer(layer<T>& l, const gradkern_cases::convolution_case& c, role what, gradkern::data_format format) {
    using namespace gradkern;
    const bool ncx = format == data_format::ncx;
    const weights_format filter = ncx ? weights_format::oix : weights_format::xio;
    l.name = name_of(c, what, format);
    l.flops = c.useful_flops();
    const extents src = c.src_shape(format);
    const extents dst = c.dst_shape(format);
    const extents w = c.weights_shape(filter);
    const extents& first = what == role::backward_data ? dst : src;
    const extents& second = what == role::backward_weights ? dst : w;
    const extents& result = what == role::forward ? dst : what == role::backward_data ? src : w;
    const auto a = [&l, first] { return tensor_view<const T>{l.a.data(), first}; };
    const auto b = [&l, second] { return tensor_view<const T>{l.b.data(), second}; };
    const auto out = [&l, result] { return tensor_view<T>{l.out.data(), result}; };
    if (c.transposed) {
        const auto attributes = c.attributes<conv_transpose_attributes>(format, filter);
        switch (what) {
            case role::forward:
                attach(l, plan_conv_transpose<T>(src, w, {}, attributes, dst, l.options));
                l.reference = [=] { return ref::conv_transpose<T>(a(), b(), {}, attributes, out()); };
                break;
            case role::backward_data:
                attach(l, plan_conv_transpose_backward_data<T>(dst, w, attributes, src, l.options));
                l.reference = [=] { return ref::conv_transpose_backward_data<T>(a(), b(), attributes, out()); };
                break;
            case role::backward_weights:
                attach(l, plan_conv_transpose_backward_weights<T>(src, dst, attributes, w, {}, l.options));
                l.reference = [=] { return ref::conv_transpose_backward_weights<T>(a(), b(), attributes, out()); };
                break;
            case role::backward_from_indices: break;
        }
    } else {
        const auto attributes = c.attributes<convolution_attributes>(format, filter);
        switch (what) {
            case role::forward:
                attach(l, plan_convolution<T>(src, w, {}, attributes, dst, l.options));
                l.reference = [=] { return ref::convolution<T>(a(), b(), {}, attributes, out()); };
                break;
            case role::backward_data:
                attach(l, plan_convolution_backward_data<T>(dst, w, attributes, src, l.options));
                l.reference = [=] { return ref::convolution_backward_data<T>(a(), b(), attributes, out()); };
                break;
            case role::backward_weights:
                attach(l, plan_convolution_backward_weights<T>(src, dst, attributes, w, {}, l.options));
                l.reference = [=] { return ref::convolution_backward_weights<T>(a(), b(), attributes, out()); };
                break;
            case role::backward_from_indices: break;
        }
    }
    if (!l.run) return;
    l.a = random_elements<T>(first, 1);
    l.b = random_elements<T>(second, 2);
    l.out = random_elements<T>(result, 3);
    l.bytes = sizeof(T) * static_cast<double>(l.a.size() + l.b.size() + l.out.size());
}

/// Fills `l` with one operator of a max pool. The layer must not move afterwards.
template <class T>
void make_max_layer(layer<T>& l, const gradkern_cases::pool_case& c, role what, gradkern::data_format format) {
    using namespace gradkern;
    const auto attributes = c.attributes<max_pool_attributes>(format);
    const max_pool_indices_attributes indices_attributes{.data_format = format};
    const extents src = c.src_shape(format);
    const extents dst = infer_max_pool(src, attributes).value_or({});
    l.indices.resize(count_of(dst));
    const auto indices = [&l, dst] { return tensor_view<std::int64_t>{l.indices.data(), dst}; };
    const auto x = [&l, src] { return tensor_view<const T>{l.a.data(), src}; };
    const auto dx = [&l, src] { return tensor_view<T>{l.out.data(), src}; };
    const auto y = [&l, dst] { return tensor_view<T>{l.out.data(), dst}; };
    if (what == role::forward) {
        const auto plan = plan_max_pool<T>(src, attributes, dst, dst, l.options);
        attach(l, plan);
        if (!plan) return;
        l.a = random_elements<T>(src, 1);
        l.out = random_elements<T>(dst, 3);
        l.run = [&l, plan = *plan] {
            return plan.run(l.a.data(), l.out.data(), l.indices.data(), l.workspace, l.executor);
        };
        l.reference = [=] { return ref::max_pool<T>(x(), attributes, y(), indices()); };
    } else if (what == role::backward_data) {
        attach(l, plan_max_pool_backward<T>(src, dst, attributes, src, l.options));
        if (!l.run) return;
        l.a = random_elements<T>(src, 1);
        l.b = random_elements<T>(dst, 2);
        l.out = random_elements<T>(src, 3);
        l.reference = [=, &l] { return ref::max_pool_backward<T>(x(), {l.b.data(), dst}, attributes, dx()); };
    } else {
        const auto plan = plan_max_pool_backward_from_indices<T>(dst, dst, indices_attributes, src, l.options);
        attach(l, plan);
        if (!plan) return;
        l.a = random_elements<T>(src, 1);
        l.out = random_elements<T>(dst, 3);
        static_cast<void>(max_pool<T>(x(), attributes, y(), indices()));
        const auto source = std::make_shared<elements<T>>(std::move(l.a));
        l.a = random_elements<T>(dst, 2);
        l.out = random_elements<T>(src, 3);
        l.run = [&l, plan = *plan] {
            return plan.run(l.a.data(), l.indices.data(), l.out.data(), l.workspace, l.executor);
        };
        // the one that finds the maxima itself: the reference that reads indices is quadratic
        l.reference = [=, &l] {
            return ref::max_pool_backward<T>({source->data(), src}, {l.a.data(), dst}, attributes, dx());
        };
    }
    l.bytes = sizeof(T) * static_cast<double>(l.a.size() + l.b.size() + l.out.size()) +
              (what == role::backward_data ? 0.0 : 8.0 * static_cast<double>(l.indices.size()));
}

/// Fills `l` with one operator of an Lp pool. The layer must not move afterwards.
template <class T>
void make_norm_layer(layer<T>& l, const gradkern_cases::pool_case& c, role what, gradkern::data_format format) {
    using namespace gradkern;
    const auto attributes = c.attributes<lp_pool_attributes>(format);
    const extents src = c.src_shape(format);
    const extents dst = infer_lp_pool(src, attributes).value_or({});
    l.a = random_elements<T>(src, 1);
    l.b = random_elements<T>(dst, 2);
    const auto x = [&l, src] { return tensor_view<const T>{l.a.data(), src}; };
    if (what == role::forward) {
        l.out = random_elements<T>(dst, 3);
        attach(l, plan_lp_pool<T>(src, attributes, dst, l.options));
        l.reference = [=, &l] { return ref::lp_pool<T>(x(), attributes, {l.out.data(), dst}); };
        l.bytes = sizeof(T) * static_cast<double>(l.a.size() + l.out.size());
        return;
    }
    l.out = random_elements<T>(src, 3);
    // the norms serve as their own gradients: one tensor less to hold
    const auto plan = plan_lp_pool_backward<T>(src, dst, dst, attributes, {}, l.options);
    attach(l, plan);
    if (!plan) return;
    l.run = [&l, plan = *plan] {
        return plan.run(l.a.data(), l.b.data(), l.b.data(), l.out.data(), l.workspace, l.executor);
    };
    const auto y = [&l, dst] { return tensor_view<const T>{l.b.data(), dst}; };
    l.reference = [=, &l] { return ref::lp_pool_backward<T>(x(), y(), y(), attributes, {l.out.data(), src}); };
    l.bytes = sizeof(T) * static_cast<double>(l.a.size() + 2 * l.b.size() + l.out.size());
}

/// Fills `l` with one operator of an average pool, or of another pool. The layer must not move afterwards.
template <class T>
void make_layer(layer<T>& l, const gradkern_cases::pool_case& c, role what, gradkern::data_format format) {
    using namespace gradkern;
    l.name = name_of(c, what, format);
    if (c.maximum) return make_max_layer(l, c, what, format);
    if (c.norm) return make_norm_layer(l, c, what, format);
    const auto attributes = c.attributes<avg_pool_attributes>(format);
    const extents src = c.src_shape(format);
    const extents dst = infer_avg_pool(src, attributes).value_or({});
    const bool forward = what == role::forward;
    const auto a = [&l, shape = forward ? src : dst] { return tensor_view<const T>{l.a.data(), shape}; };
    const auto out = [&l, shape = forward ? dst : src] { return tensor_view<T>{l.out.data(), shape}; };
    if (forward) {
        attach(l, plan_avg_pool<T>(src, attributes, dst, l.options));
        l.reference = [=] { return ref::avg_pool<T>(a(), attributes, out()); };
    } else {
        attach(l, plan_avg_pool_backward<T>(dst, attributes, src, l.options));
        l.reference = [=] { return ref::avg_pool_backward<T>(a(), attributes, out()); };
    }
    if (!l.run) return;
    l.a = random_elements<T>(forward ? src : dst, 1);
    l.out = random_elements<T>(forward ? dst : src, 3);
    l.bytes = sizeof(T) * static_cast<double>(l.a.size() + l.out.size());
}

/// Calls f(case, role, format) for every operator of a case.
template <class F>
void for_each_role(const gradkern_cases::convolution_case& c, gradkern::data_format format, const F& f) {
    for (const role what : {role::forward, role::backward_data, role::backward_weights}) f(c, what, format);
}
template <class F>
void for_each_role(const gradkern_cases::pool_case& c, gradkern::data_format format, const F& f) {
    for (const role what : {role::forward, role::backward_data}) f(c, what, format);
    if (c.maximum) f(c, role::backward_from_indices, format);
}

/// Calls f(case, role, format) for every operator, layout and case of the lists.
template <class F, class... Lists>
void for_each_layer_of(const F& f, const Lists&... lists) {
    using gradkern::data_format;
    for (const data_format format : {data_format::nxc, data_format::ncx}) {
        const auto each = [&](const auto& list) {
            for (const auto& c : list) for_each_role(c, format, f);
        };
        (each(lists), ...);
    }
}

/// The same for the named cases.
template <class F>
void for_each_layer(const F& f) {
    using namespace gradkern_cases;
    for_each_layer_of(f, convolution_cases, average_cases, norm_cases, maximum_cases);
}

/// How far a result may be from another that rounds its sums in another order, relative to the largest number.
template <class T>
inline constexpr double tolerance = sizeof(T) == 4 ? 1e-4 : 1e-2;

/// Runs the kernel into poisoned memory and returns the largest difference from `exact`, relative to the largest number
/// there; NaN or infinity where something went wrong.
template <class T, class U>
double difference(layer<T>& l, const elements<U>& exact) {
    std::fill(l.out.begin(), l.out.end(), static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
    if (!l.run() || exact.size() != l.out.size()) return std::numeric_limits<double>::infinity();
    double worst = 0;
    double scale = 1e-30;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const auto expected = static_cast<double>(static_cast<float>(exact[i]));
        const double d = std::abs(expected - static_cast<double>(static_cast<float>(l.out[i])));
        worst = d <= worst ? worst : d;  // a NaN difference stays
        scale = std::max(scale, std::abs(expected));
    }
    return worst / scale;
}

/// The result of the reference; empty after an error.
template <class T>
elements<T> reference_result(layer<T>& l) {
    return l.reference() ? l.out : elements<T>{};
}

}  // namespace gradkern_bench
