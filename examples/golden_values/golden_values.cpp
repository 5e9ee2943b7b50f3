// Prints expected values for testing another kernel. The plain-loop reference in f64 gives the exact values. The operator
// gives f32 values with the same bits on every machine that has fused multiply-add.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/ref/convolution.hpp>
#include <gradkern/workspace.hpp>

int main() {
    using namespace gradkern;
    const extents diff_dst{1, 16, 7, 7}, weights{16, 8, 3, 3}, diff_src{1, 8, 14, 14};
    const convolution_attributes layer{.strides = {2, 2},
                                       .dilations = {1, 1},
                                       .pads_begin = {1, 1},
                                       .pads_end = {1, 1},
                                       .data_format = data_format::ncx,
                                       .weights_format = weights_format::oix};
    // Both types start from the same f32 numbers.
    std::vector<float> dy(16 * 7 * 7), w(16 * 8 * 3 * 3), dx(8 * 14 * 14);
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i * 37 % 101) / 100 - 0.5F;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 53 % 89) / 90 - 0.5F;
    const std::vector<double> dy64(dy.begin(), dy.end()), w64(w.begin(), w.end());
    std::vector<double> exact(dx.size());

    status s = ref::convolution_backward_data<double>({dy64.data(), diff_dst}, {w64.data(), weights}, layer,
                                                      {exact.data(), diff_src});
    if (s) {
        const auto plan = plan_convolution_backward_data<float>(diff_dst, weights, layer, diff_src);
        workspace scratch(plan->workspace_bytes());
        s = plan ? plan->run(dy.data(), w.data(), dx.data(), scratch) : status(plan.error());
    }
    if (!s) {
        std::cerr << s << '\n';
        return 1;
    }
    double largest = 0;
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a over the bits of the result
    for (std::size_t i = 0; i < dx.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(dx[i]) - exact[i]));
        hash = (hash ^ std::bit_cast<std::uint32_t>(dx[i])) * 0x100000001b3U;
    }
    std::cout << "first values     " << dx[0] << ' ' << dx[1] << ' ' << dx[2] << '\n'
              << "largest error    " << largest << '\n'
              << "hash of the bits " << std::hex << hash << '\n';
    return largest < 1e-4 ? 0 : 1;
}
