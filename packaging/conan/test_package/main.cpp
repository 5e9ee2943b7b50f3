#include <gradkern/gradkern.hpp>
#include <iostream>

// The gradient of a mean of two by two pixels: a quarter for each.
int main() {
    const float diff_dst[]{1};
    float diff_src[4]{};
    const gradkern::status s = gradkern::avg_pool_backward<float>(
        {diff_dst, {1, 1, 1, 1}}, {.kernel = {2, 2}, .strides = {2, 2}}, {diff_src, {1, 2, 2, 1}});
    std::cout << "gradkern " << GRADKERN_VERSION << ": " << diff_src[0] << '\n';
    return s.ok() && diff_src[0] == 0.25F && diff_src[3] == 0.25F ? 0 : 1;
}
