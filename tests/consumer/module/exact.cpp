// A second file that imports the module.
#include <vector>

import gradkern;

bool exact_agrees(const std::vector<float>& diff_dst, const std::vector<float>& weights,
                  const std::vector<float>& diff_src) {
    std::vector<float> expected(diff_src.size());
    return gradkern::ref::exact::convolution_backward_data<float>(
               {diff_dst.data(), {1, 3, 1}}, {weights.data(), {4, 1, 1}},
               {.strides = {1}, .dilations = {1}, .auto_pad = gradkern::auto_pad::same_upper},
               {expected.data(), {1, 3, 1}})
               .ok() &&
           expected == diff_src;
}
