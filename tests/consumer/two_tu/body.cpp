// Compiled once per instruction set, in a namespace of that name.
#include <everything.hpp>

#include <array>
#include <cstddef>
#include <vector>

#ifndef GRADKERN_VERSION_MAJOR
#error "the headers do not state their version"
#endif

namespace GRADKERN_TWO_TU {

// Number of wrong results.
int check();

int check() {
    using namespace gradkern;
    int wrong = 0;
    // Enough channels for whole vectors and tails of every instruction set; small integers, so that sums are exact.
    constexpr std::int64_t channels = 37;
    constexpr std::int64_t width = 9;
    const extents activation{1, width, channels};
    const extents filter{3, channels, channels};
    const convolution_attributes conv{.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}};
    const avg_pool_attributes pool{.kernel = {2}, .strides = {1}};
    std::vector<float> diff_dst(width * channels);
    std::vector<float> weights(3 * channels * channels);
    for (std::size_t i = 0; i < diff_dst.size(); ++i) diff_dst[i] = static_cast<float>(i % 5) - 2;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3;
    std::vector<std::byte> workspace(1U << 20);
    const call_options options{.workspace = workspace};

    const auto compare = [&](const status& fast, const status& plain, const std::vector<float>& a,
                             const std::vector<float>& b) { wrong += !fast || !plain || a != b; };
    std::vector<float> fast(diff_dst.size(), -1.0F);
    std::vector<float> plain(diff_dst.size(), -2.0F);
    const tensor_view<const float> dy{diff_dst.data(), activation};
    const tensor_view<const float> w{weights.data(), filter};
    compare(convolution_backward_data(dy, w, conv, tensor_view<float>{fast.data(), activation}, options),
            ref::convolution_backward_data(dy, w, conv, tensor_view<float>{plain.data(), activation}), fast, plain);
    compare(convolution(dy, w, {}, conv, tensor_view<float>{fast.data(), activation}, options),
            ref::convolution(dy, w, {}, conv, tensor_view<float>{plain.data(), activation}), fast, plain);
    std::vector<float> dw(weights.size(), -1.0F);
    std::vector<float> dw_plain(weights.size(), -2.0F);
    compare(convolution_backward_weights(dy, dy, conv, tensor_view<float>{dw.data(), filter}, {}, options),
            ref::convolution_backward_weights(dy, dy, conv, tensor_view<float>{dw_plain.data(), filter}), dw, dw_plain);
    const tensor_view<const float> pooled{diff_dst.data(), extents{1, width - 1, channels}};
    compare(avg_pool_backward(pooled, pool, tensor_view<float>{fast.data(), activation}, options),
            ref::avg_pool_backward(pooled, pool, tensor_view<float>{plain.data(), activation}), fast, plain);
    return wrong;
}

}  // namespace GRADKERN_TWO_TU
