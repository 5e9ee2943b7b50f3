// Judges a naive kernel: a data gradient as people write it in their tests, and the same with a mistake in it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <string_view>
#include <vector>

#include <gradkern/testing.hpp>

using namespace gradkern;

// The layer: 3x3 kernels, stride 2, padding 1, from 5 channels of 15 x 15 to 7 of 8 x 8.
constexpr int N = 2, IC = 5, OC = 7, IH = 15, OH = 8, K = 3, S = 2, P = 1;
const extents diff_dst{N, OC, OH, OH}, weights{OC, IC, K, K}, diff_src{N, IC, IH, IH};
const convolution_attributes layer{.strides = {S, S},
                                   .dilations = {1, 1},
                                   .pads_begin = {P, P},
                                   .pads_end = {P, P},
                                   .data_format = data_format::ncx,
                                   .weights_format = weights_format::oix};

// The kernel under test. `last_row` is OH in the right one.
void naive_backward_data(const float* dy, const float* w, float* dx, int last_row) {
    for (int i = 0; i < N * IC * IH * IH; ++i) dx[i] = 0;
    for (int n = 0; n < N; ++n)
        for (int oc = 0; oc < OC; ++oc)
            for (int oh = 0; oh < last_row; ++oh)
                for (int ow = 0; ow < OH; ++ow)
                    for (int ic = 0; ic < IC; ++ic)
                        for (int kh = 0; kh < K; ++kh)
                            for (int kw = 0; kw < K; ++kw) {
                                const int ih = oh * S - P + kh, iw = ow * S - P + kw;
                                if (ih < 0 || ih >= IH || iw < 0 || iw >= IH) continue;
                                dx[((n * IC + ic) * IH + ih) * IH + iw] +=
                                    dy[((n * OC + oc) * OH + oh) * OH + ow] * w[((oc * IC + ic) * K + kh) * K + kw];
                            }
}

// [judge]
// All adversarial inputs for one kernel. Prints the first verdict that is not "right".
bool judge(std::string_view name, int last_row) {
    std::vector<float> dy(N * OC * OH * OH), w(OC * IC * K * K), dx(N * IC * IH * IH);
    for (const test::pattern p : test::all_patterns) {
        const status filled = test::fill(tensor_view(dy.data(), diff_dst), p, 1, 0);
        if (!filled || !test::fill(tensor_view(w.data(), weights), p, 2, 1)) return false;
        naive_backward_data(dy.data(), w.data(), dx.data(), last_row);
        const test::report r =
            test::compare(tensor_view(dx.data(), diff_src), {test::operation::convolution_backward_data, layer},
                          {.weights = tensor_view(w.data(), weights), .diff_dst = tensor_view(dy.data(), diff_dst)});
        // The largest numbers of f32 have sums beyond its range, about which nothing is promised.
        if (!r.ok() && !(p == test::pattern::large && r.judged_nothing())) {
            std::cout << name << ", " << test::name_of(p) << ": " << r;
            return false;
        }
    }
    std::cout << name << ": right\n";
    return true;
}
// [/judge]

int main() {
    const bool right = judge("the kernel", OH);
    const bool wrong = judge("without its last row", OH - 1);
    return right && !wrong ? 0 : 1;
}
