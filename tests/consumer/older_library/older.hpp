#pragma once

#include <vector>

namespace older {

/// The gradient of a 2x2 mean with strides of 2, of images (channels, 2 height, 2 width).
std::vector<float> mean_gradient(const std::vector<float>& gradient, long channels, long height, long width);

}  // namespace older
