// A layer whose images are buffers of their own, forward and its weight gradient, beside one call over the whole batch.
#include <algorithm>
#include <iostream>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/separate_images.hpp>
#include <gradkern/workspace.hpp>

using namespace gradkern;

namespace {

// [separate_images]
// Ranges of pointers have one for each image. Other arguments are shared: weights, the bias, and the summed gradient.
status forward(const convolution_plan<float>& one_image, const std::vector<const float*>& src, const float* weights,
               const float* bias, const std::vector<float*>& dst, growing_workspace& memory, thread_pool& pool) {
    const std::size_t bytes = separate_images_workspace_bytes(one_image, pool.concurrency());
    return run_separate_images(one_image, memory.of(bytes), pool, src, weights, bias, dst);
}

// `first` overwrites and `next` accumulates; both have summation::image_by_image.
using weights_plan = convolution_backward_weights_plan<float>;
status weight_gradient(const weights_plan& first, const weights_plan& next, const std::vector<const float*>& src,
                       const std::vector<const float*>& diff_dst, float* diff_weights, growing_workspace& memory,
                       thread_pool& pool) {
    const std::size_t bytes = separate_images_workspace_bytes(next, pool.concurrency());
    return sum_separate_images(first, next, memory.of(bytes), pool, src, diff_dst, diff_weights);
}
// [/separate_images]

constexpr std::int64_t batch = 6;
constexpr std::size_t src_size = 8 * 12 * 12, dst_size = 16 * 12 * 12, weights_size = 16 * 8 * 9;

std::vector<float> numbers(std::size_t count, std::size_t step) {
    std::vector<float> v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<float>(i * step % 29) / 7 - 2;
    return v;
}

// Pointers to the images of a batch, which here lie side by side.
template <class T>
std::vector<T*> images(T* first, std::size_t size) {
    std::vector<T*> pointers;
    for (std::size_t n = 0; n < batch; ++n) pointers.push_back(first + n * size);
    return pointers;
}

bool failed(const status& s) {
    if (!s) std::cerr << s << '\n';
    return !s;
}

}  // namespace

int main() {
    const convolution_attributes layer{.strides = {1, 1},
                                       .dilations = {1, 1},
                                       .pads_begin = {1, 1},
                                       .pads_end = {1, 1},
                                       .data_format = data_format::ncx,
                                       .weights_format = weights_format::oix};
    const auto src = numbers(batch * src_size, 5), weights = numbers(weights_size, 3), bias = numbers(16, 11);
    const auto diff_dst = numbers(batch * dst_size, 13);
    thread_pool pool(3);
    growing_workspace memory;

    const auto one_image = plan_convolution<float>({1, 8, 12, 12}, {16, 8, 3, 3}, {16}, layer);
    const auto whole = plan_convolution<float>({batch, 8, 12, 12}, {16, 8, 3, 3}, {16}, layer);
    std::vector<float> dst(batch * dst_size), expected(dst.size());
    if (failed(forward(*one_image, images(src.data(), src_size), weights.data(), bias.data(),
                       images(dst.data(), dst_size), memory, pool)) ||
        failed(
            whole->run(src.data(), weights.data(), bias.data(), expected.data(), memory.of(whole->workspace_bytes()))))
        return 1;

    const auto plan = [&](std::int64_t n, output_mode output) {
        return plan_convolution_backward_weights<float>({n, 8, 12, 12}, {n, 16, 12, 12}, layer, {16, 8, 3, 3}, {},
                                                        {.output = output, .summation = summation::image_by_image});
    };
    const auto first = plan(1, output_mode::overwrite), next = plan(1, output_mode::accumulate);
    const auto all = plan(batch, output_mode::overwrite);
    std::vector<float> dw(weights_size), expected_dw(weights_size);
    if (failed(weight_gradient(*first, *next, images(src.data(), src_size), images(diff_dst.data(), dst_size),
                               dw.data(), memory, pool)) ||
        failed(all->run(src.data(), diff_dst.data(), expected_dw.data(), memory.of(all->workspace_bytes()))))
        return 1;

    const bool equal = dst == expected && dw == expected_dw;
    std::cout << batch << " images in buffers of their own " << (equal ? "equal" : "differ from") << " the batch\n";
    return equal ? 0 : 1;
}
