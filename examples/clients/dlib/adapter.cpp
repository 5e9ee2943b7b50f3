// dlib's convolution and pooling on the CPU, computed by gradkern.
//
// These are definitions of member functions that dlib's shared library defines, too. A linker takes the first one it meets, so a
// program that links this file calls these, and so does dlib itself. Programs keep their source and their layers.
//
// dlib is a C++14 library. This is the one file that is compiled as C++20, and for an instruction set: see CMakeLists.txt.
#include "adapter.hpp"

#include <atomic>
#include <cstdlib>
#include <string>

#include <dlib/cuda/cpu_dlib.h>

#include <gradkern/error_text.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

namespace gk = gradkern;

namespace {

std::atomic<long> calls{0};

gk::thread_pool& workers() {
    static gk::thread_pool pool([] {
        const char* threads = std::getenv("GRADKERN_DLIB_THREADS");
        return threads == nullptr ? std::ptrdiff_t{1} : static_cast<std::ptrdiff_t>(std::atol(threads));
    }());
    return pool;
}

// Plans have many sizes, and dlib has no place for their scratch memory: each of its threads has one workspace for all of them.
gk::growing_workspace& memory() {
    thread_local gk::growing_workspace workspace;
    return workspace;
}

template <class Plan, class... Pointers>
void run(const gk::result<Plan>& plan, Pointers... tensors) {
    gk::thread_pool& pool = workers();
    const gk::status s =
        plan ? plan->run(tensors..., memory().of(plan->workspace_bytes(pool.concurrency())), pool) : plan.error();
    if (!s) throw dlib::error("gradkern: " + gk::to_string(s));
    calls.fetch_add(1, std::memory_order_relaxed);
}

gk::extents shape_of(const dlib::tensor& t) { return {t.num_samples(), t.k(), t.nr(), t.nc()}; }
gk::plan_options options(bool add) {
    return {.output = add ? gk::output_mode::accumulate : gk::output_mode::overwrite};
}
// What is overwritten need not be read first.
float* output(dlib::tensor& t, bool add) { return add ? t.host() : t.host_write_only(); }

gk::convolution_attributes layer(long stride_y, long stride_x, long padding_y, long padding_x) {
    return {.strides = {stride_y, stride_x},
            .dilations = {1, 1},
            .pads_begin = {padding_y, padding_x},
            .pads_end = {padding_y, padding_x},
            .data_format = gk::data_format::ncx,
            .weights_format = gk::weights_format::oix};
}
template <class Attributes>
Attributes pool(int height, int width, int stride_y, int stride_x, int padding_y, int padding_x) {
    Attributes a{.kernel = {height, width},
                 .strides = {stride_y, stride_x},
                 .pads_begin = {padding_y, padding_x},
                 .pads_end = {padding_y, padding_x}};
    a.data_format = gk::data_format::ncx;
    // Windows are clipped to the image: a mean is over what is inside.
    if constexpr (requires { a.exclude_pad; }) a.exclude_pad = true;
    return a;
}

void convolve(const gk::convolution_attributes& attributes, bool add, dlib::tensor& out, const dlib::tensor& data,
              const dlib::tensor& filters, const dlib::tensor* biases) {
    const gk::tensor_layout bias = biases == nullptr ? gk::tensor_layout{} : gk::tensor_layout{biases->k()};
    run(gk::plan_convolution<float>(shape_of(data), shape_of(filters), bias, attributes, shape_of(out), options(add)),
        data.host(), filters.host(), biases == nullptr ? nullptr : biases->host(), output(out, add));
}

void resize(dlib::resizable_tensor& out, const gk::result<gk::extents>& shape) {
    if (!shape) throw dlib::error("gradkern: " + gk::to_string(gk::status(shape.error())));
    const gk::extents& s = *shape;
    out.set_size(static_cast<long>(s[0]), static_cast<long>(s[1]), static_cast<long>(s[2]), static_cast<long>(s[3]));
}

}  // namespace

long gradkern_dlib::calls() { return ::calls.load(std::memory_order_relaxed); }

namespace dlib {
namespace cpu {

void tensor_conv::operator()(const bool add_to_output, tensor& output, const tensor& data, const tensor& filters) {
    convolve(layer(last_stride_y, last_stride_x, last_padding_y, last_padding_x), add_to_output, output, data, filters,
             nullptr);
}
void tensor_conv::operator()(const bool add_to_output, tensor& output, const tensor& data, const tensor& filters,
                             const tensor& biases) {
    convolve(layer(last_stride_y, last_stride_x, last_padding_y, last_padding_x), add_to_output, output, data, filters,
             &biases);
}
void tensor_conv::operator()(const bool add_to_output, resizable_tensor& output, const tensor& data,
                             const tensor& filters) {
    const auto attributes = layer(last_stride_y, last_stride_x, last_padding_y, last_padding_x);
    resize(output, gk::infer_convolution(shape_of(data), shape_of(filters), attributes));
    convolve(attributes, add_to_output, output, data, filters, nullptr);
}
void tensor_conv::operator()(const bool add_to_output, resizable_tensor& output, const tensor& data,
                             const tensor& filters, const tensor& biases) {
    const auto attributes = layer(last_stride_y, last_stride_x, last_padding_y, last_padding_x);
    resize(output, gk::infer_convolution(shape_of(data), shape_of(filters), attributes));
    convolve(attributes, add_to_output, output, data, filters, &biases);
}

void tensor_conv::get_gradient_for_data(const bool add_to_output, const tensor& gradient_input, const tensor& filters,
                                        tensor& data_gradient) {
    run(gk::plan_convolution_backward_data<float>(shape_of(gradient_input), shape_of(filters),
                                                  layer(last_stride_y, last_stride_x, last_padding_y, last_padding_x),
                                                  shape_of(data_gradient), options(add_to_output)),
        gradient_input.host(), filters.host(), output(data_gradient, add_to_output));
}
void tensor_conv::get_gradient_for_filters(const bool add_to_output, const tensor& gradient_input, const tensor& data,
                                           tensor& filters_gradient) {
    run(gk::plan_convolution_backward_weights<float>(
            shape_of(data), shape_of(gradient_input),
            layer(last_stride_y, last_stride_x, last_padding_y, last_padding_x), shape_of(filters_gradient), {},
            options(add_to_output)),
        data.host(), gradient_input.host(), output(filters_gradient, add_to_output));
}

void pooling::operator()(resizable_tensor& dest, const tensor& src) {
    if (do_max_pooling) {
        const auto a =
            pool<gk::max_pool_attributes>(window_height, window_width, stride_y, stride_x, padding_y, padding_x);
        resize(dest, gk::infer_max_pool(shape_of(src), a));
        run(gk::plan_max_pool<float>(shape_of(src), a, shape_of(dest)), src.host(), dest.host_write_only(), nullptr);
    } else {
        const auto a =
            pool<gk::avg_pool_attributes>(window_height, window_width, stride_y, stride_x, padding_y, padding_x);
        resize(dest, gk::infer_avg_pool(shape_of(src), a));
        run(gk::plan_avg_pool<float>(shape_of(src), a, shape_of(dest)), src.host(), dest.host_write_only());
    }
}
// Adds to `grad`.
void pooling::get_gradient(const tensor& gradient_input, const tensor& /*dest*/, const tensor& src, tensor& grad) {
    if (do_max_pooling) {
        run(gk::plan_max_pool_backward<float>(
                shape_of(src), shape_of(gradient_input),
                pool<gk::max_pool_attributes>(window_height, window_width, stride_y, stride_x, padding_y, padding_x),
                shape_of(grad), options(true)),
            src.host(), gradient_input.host(), grad.host());
    } else {
        run(gk::plan_avg_pool_backward<float>(
                shape_of(gradient_input),
                pool<gk::avg_pool_attributes>(window_height, window_width, stride_y, stride_x, padding_y, padding_x),
                shape_of(grad), options(true)),
            gradient_input.host(), grad.host());
    }
}

}  // namespace cpu
}  // namespace dlib
