#include <gradkern/gradkern.hpp>

// A data gradient with padding worked out by hand: 12, 123, 1230.
int main() {
    const float diff_dst[]{1, 2, 3};
    const float weights[]{1, 10, 100, 1000};
    float diff_src[3]{};
    const gradkern::status s = gradkern::convolution_backward_data(
        gradkern::tensor_view<const float>{diff_dst, {1, 3, 1}}, {weights, {4, 1, 1}},
        {.strides = {1}, .dilations = {1}, .auto_pad = gradkern::auto_pad::same_upper}, {diff_src, {1, 3, 1}});
    return s.ok() && diff_src[0] == 12 && diff_src[1] == 123 && diff_src[2] == 1230 ? 0 : 1;
}
