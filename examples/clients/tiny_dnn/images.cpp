// The one C++20 file: plans for one image, which run for each image of a batch.
#include "images.hpp"

#include <memory>
#include <mutex>
#include <stdexcept>

#include <gradkern/error_text.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/separate_images.hpp>
#include <gradkern/workspace.hpp>

namespace gk = gradkern;

namespace gradkern_tiny {
namespace {

std::mutex pool_mutex;
std::shared_ptr<gk::thread_pool> pool = std::make_shared<gk::thread_pool>(1);

std::shared_ptr<gk::thread_pool> workers() {
    const std::scoped_lock lock(pool_mutex);
    return pool;
}

void require(const gk::status& s) {
    if (!s) throw std::invalid_argument("gradkern: " + gk::to_string(s));
}
template <class Plan>
Plan value(const gk::result<Plan>& plan) {
    if (!plan) require(plan.error());
    return *plan;
}

template <class Plan, class... Arguments>
void run(const Plan& plan, const Arguments&... arguments) {
    thread_local gk::growing_workspace memory;
    const auto threads = workers();
    const std::size_t bytes = gk::separate_images_workspace_bytes(plan, threads->concurrency());
    require(gk::run_separate_images(plan, memory.of(bytes), *threads, arguments...));
}

gk::convolution_attributes attributes(const convolution::shape& s) {
    const std::int64_t y = s.same ? s.kernel_height - 1 : 0, x = s.same ? s.kernel_width - 1 : 0;
    return {.strides = {s.stride_y, s.stride_x},
            .dilations = {1, 1},
            .pads_begin = {(y + 1) / 2, (x + 1) / 2},
            .pads_end = {y / 2, x / 2},
            .data_format = gk::data_format::ncx,
            .weights_format = gk::weights_format::oix};
}

}  // namespace

void set_threads(int threads) {
    const std::scoped_lock lock(pool_mutex);
    pool = std::make_shared<gk::thread_pool>(threads);
}

struct convolution::plans {
    gk::convolution_plan<float> forward;
    gk::convolution_backward_data_plan<float> data;
    gk::convolution_backward_weights_plan<float> weights;

    explicit plans(const shape& s) {
        const gk::convolution_attributes a = attributes(s);
        const gk::extents src{1, s.in_channels, s.in_height, s.in_width};
        const gk::extents kernel{s.out_channels, s.in_channels, s.kernel_height, s.kernel_width};
        const gk::tensor_layout bias = s.bias ? gk::tensor_layout{s.out_channels} : gk::tensor_layout{};
        const gk::extents dst = value(gk::infer_convolution(src, kernel, a));
        forward = value(gk::plan_convolution<float>(src, kernel, bias, a, dst));
        data = value(gk::plan_convolution_backward_data<float>(dst, kernel, a, src));
        weights = value(gk::plan_convolution_backward_weights<float>(src, dst, a, kernel, bias,
                                                                     {.output = gk::output_mode::accumulate}));
    }
};

convolution::convolution(const shape& s) : plans_(std::make_shared<const plans>(s)) {}

void convolution::forward(const inputs& src, const float* weights, const float* bias, const outputs& dst) const {
    run(plans_->forward, src, weights, bias, dst);
}
void convolution::backward_data(const inputs& diff_dst, const float* weights, const outputs& diff_src) const {
    run(plans_->data, diff_dst, weights, diff_src);
}
void convolution::backward_weights(const inputs& src, const inputs& diff_dst, const outputs& diff_weights,
                                   const outputs& diff_bias) const {
    if (diff_bias.empty()) {
        run(plans_->weights, src, diff_dst, diff_weights);
    } else {
        run(plans_->weights, src, diff_dst, diff_weights, diff_bias);
    }
}

struct max_pool::plans {
    gk::max_pool_plan<float> forward;
    gk::max_pool_backward_plan<float> backward;
};

max_pool::max_pool(long channels, long height, long width, long kernel_y, long kernel_x, long stride_y, long stride_x) {
    const gk::max_pool_attributes a{
        .kernel = {kernel_y, kernel_x}, .strides = {stride_y, stride_x}, .data_format = gk::data_format::ncx};
    const gk::extents src{1, channels, height, width};
    const gk::extents dst = value(gk::infer_max_pool(src, a));
    plans_ = std::make_shared<const plans>(plans{value(gk::plan_max_pool<float>(src, a, dst)),
                                                 value(gk::plan_max_pool_backward<float>(src, dst, a, src))});
}

void max_pool::forward(const inputs& src, const outputs& dst) const { run(plans_->forward, src, dst, nullptr); }
void max_pool::backward(const inputs& src, const inputs& diff_dst, const outputs& diff_src) const {
    run(plans_->backward, src, diff_dst, diff_src);
}

}  // namespace gradkern_tiny
