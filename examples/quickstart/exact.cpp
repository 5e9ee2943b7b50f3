#include <array>
#include <iostream>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/ref/exact.hpp>

int main() {
    using namespace gradkern;
    namespace exact = gradkern::ref::exact;
    const convolution_attributes layer{.strides = {1}, .dilations = {1}};

    // Weight gradient of two images: 1e8 * 1 + 1 * 1 of the first one, 1e8 * -1 of the second one.
    const std::array<float, 4> src{1e8F, 1, 1e8F, 0};
    const std::array<float, 4> diff_dst{1, 1, -1, 0};
    const extents image{1, 2, 1};  // (batch, width, channels)
    const extents weights{1, 1, 1};

    // Each worker has some images, and an exact sum for each weight.
    std::array<exact::accumulator, 2> sums;
    for (std::size_t worker = 0; worker < 2; ++worker) {
        const status done = exact::convolution_backward_weights<float>(
            tensor_view<const float>(src.data() + 2 * worker, image), {diff_dst.data() + 2 * worker, image}, layer,
            tensor_view<exact::accumulator>(&sums[worker], weights));
        if (!done) {
            std::cerr << done << '\n';
            return 1;
        }
    }

    // The order in which sums are added does not matter. The last step rounds, and nothing else.
    sums[0] += sums[1];
    std::cout << sums[0].rounded<float>() << '\n';
}
