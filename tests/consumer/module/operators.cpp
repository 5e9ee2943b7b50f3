// Every operator for every element type, and one of this file's own, which no header can have compiled before: what templates of
// the module call has to be there for whoever imports it.
#include <bit>
#include <cstdint>
#include <vector>

import gradkern;

namespace theirs {
struct half {
    half() = default;
    explicit half(float value) : bits(std::bit_cast<std::uint16_t>(gradkern::float16(value))) {}
    explicit operator float() const { return static_cast<float>(std::bit_cast<gradkern::float16>(bits)); }
    std::uint16_t bits;
};
struct brain {
    brain() = default;
    explicit brain(float value) : bits(std::bit_cast<std::uint16_t>(gradkern::bfloat16(value))) {}
    explicit operator float() const { return static_cast<float>(std::bit_cast<gradkern::bfloat16>(bits)); }
    std::uint16_t bits;
};
}  // namespace theirs

template <>
struct gradkern::element_traits<theirs::half> : gradkern::f16_storage {};
template <>
struct gradkern::element_traits<theirs::brain> : gradkern::bf16_storage {};

namespace {

template <class T>
int failures() {
    using namespace gradkern;
    // With 1x1 kernels and as many output channels as input channels, all activations have the same shape.
    const extents image{1, 4, 4, 8}, kernel{1, 1, 8, 8}, channels{8};
    const std::vector<T> a(128, T(1.0F)), b(128, T(2.0F)), w(64, T(0.5F)), v(8, T(1.0F));
    std::vector<T> c(128), d(128), dw(64), dv(8);
    std::vector<std::int64_t> i(128, 0);
    const tensor_view<const T> src(a.data(), image), diff_dst(b.data(), image), weights(w.data(), kernel),
        bias(v.data(), channels);
    const tensor_view<T> dst(c.data(), image), diff_src(d.data(), image), diff_weights(dw.data(), kernel),
        diff_bias(dv.data(), channels);
    const tensor_view<std::int64_t> indices(i.data(), image);
    const convolution_attributes conv{.strides = {1, 1}, .dilations = {1, 1}};
    const conv_transpose_attributes transposed{.strides = {1, 1}, .dilations = {1, 1}};
    const workspace memory(1 << 20);
    const call_options options{.workspace = memory};
    const status results[] = {
        avg_pool<T>(src, {.kernel = {1, 1}, .strides = {1, 1}}, dst, options),
        avg_pool_backward<T>(diff_dst, {.kernel = {1, 1}, .strides = {1, 1}}, diff_src, options),
        lp_pool<T>(src, {.kernel = {1, 1}, .strides = {1, 1}}, dst, options),
        lp_pool_backward<T>(src, src, diff_dst, {.kernel = {1, 1}, .strides = {1, 1}}, diff_src, options),
        max_pool<T>(src, {.kernel = {1, 1}, .strides = {1, 1}}, dst, indices, options),
        max_pool_backward<T>(src, diff_dst, {.kernel = {1, 1}, .strides = {1, 1}}, diff_src, options),
        max_pool_backward_from_indices<T>(diff_dst, indices, {}, diff_src, options),
        convolution<T>(src, weights, bias, conv, dst, options),
        convolution_backward_data<T>(diff_dst, weights, conv, diff_src, options),
        convolution_backward_weights<T>(src, diff_dst, conv, diff_weights, diff_bias, options),
        conv_transpose<T>(src, weights, bias, transposed, dst, options),
        conv_transpose_backward_data<T>(diff_dst, weights, transposed, diff_src, options),
        conv_transpose_backward_weights<T>(src, diff_dst, transposed, diff_weights, diff_bias, options),
        bias_backward<T>(diff_dst, {}, diff_bias, options),
    };
    int count = static_cast<float>(c[0]) == 5 && static_cast<float>(dv[0]) == 32 ? 0 : 1;
    for (const status& s : results) count += s ? 0 : 1;
    return count;
}

}  // namespace

int operators_fail() {
    return failures<float>() + failures<double>() + failures<gradkern::float16>() + failures<gradkern::bfloat16>() +
           failures<theirs::half>() + failures<theirs::brain>();
}
