// The arguments of every operator, in their order.
#include <cstdint>
#include <iostream>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

using namespace gradkern;

int main() {
    // With 1x1 kernels and as many output channels as input channels, all activations have the same shape.
    const extents image{1, 4, 4, 8}, kernel{1, 1, 8, 8}, channels{8};
    std::vector<float> a(128, 1.0F), b(128, 2.0F), c(128), d(128), w(64, 0.5F), dw(64), v(8, 1.0F), dv(8);
    std::vector<std::int64_t> i(128, 0);
    const tensor_view<const float> src(a.data(), image), norms(a.data(), image), diff_dst(b.data(), image),
        weights(w.data(), kernel);
    const tensor_view<const float> bias(v.data(), channels);
    const tensor_view<float> dst(c.data(), image), diff_src(d.data(), image), diff_weights(dw.data(), kernel);
    const tensor_view<float> diff_bias(dv.data(), channels);
    const tensor_view<std::int64_t> indices(i.data(), image);
    const avg_pool_attributes average{.kernel = {1, 1}, .strides = {1, 1}};
    const lp_pool_attributes norm{.kernel = {1, 1}, .strides = {1, 1}};
    const max_pool_attributes maximum{.kernel = {1, 1}, .strides = {1, 1}};
    const max_pool_indices_attributes scatter{};
    const convolution_attributes conv{.strides = {1, 1}, .dilations = {1, 1}};
    const conv_transpose_attributes transposed{.strides = {1, 1}, .dilations = {1, 1}};
    const workspace memory(1 << 20);
    const call_options options{.workspace = memory};

    // clang-format off
    // [arguments]
    const status results[] = {
        avg_pool<float>(src, average, dst, options),
        avg_pool_backward<float>(diff_dst, average, diff_src, options),
        lp_pool<float>(src, norm, dst, options),
        lp_pool_backward<float>(src, norms, diff_dst, norm, diff_src, options),
        max_pool<float>(src, maximum, dst, indices, options),
        max_pool_backward<float>(src, diff_dst, maximum, diff_src, options),
        max_pool_backward_from_indices<float>(diff_dst, indices, scatter, diff_src, options),
        convolution<float>(src, weights, bias, conv, dst, options),
        convolution_backward_data<float>(diff_dst, weights, conv, diff_src, options),
        convolution_backward_weights<float>(src, diff_dst, conv, diff_weights, diff_bias, options),
        conv_transpose<float>(src, weights, bias, transposed, dst, options),
        conv_transpose_backward_data<float>(diff_dst, weights, transposed, diff_src, options),
        conv_transpose_backward_weights<float>(src, diff_dst, transposed, diff_weights, diff_bias, options),
        bias_backward<float>(diff_dst, {.data_format = data_format::nxc}, diff_bias, options),
        convolution<float>(src, weights, {}, conv, dst),  // {} for no bias; options are optional
    };
    // [/arguments]
    // clang-format on

    for (const status& s : results)
        if (!s) {
            std::cerr << s << '\n';
            return 1;
        }
    std::cout << c[0] << ' ' << dv[0] << '\n';  // 8 * 0.5 without a bias, and 16 * 2
    return c[0] == 4 && dv[0] == 32 ? 0 : 1;
}
