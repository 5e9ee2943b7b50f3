#include "older.hpp"

#include <stdexcept>

#include "kernels.hpp"

#if __cplusplus >= 201703L
#error "this file is C++14"
#endif

namespace older {

std::vector<float> mean_gradient(const std::vector<float>& gradient, long channels, long height, long width) {
    std::vector<float> result(gradient.size() * 4);
    char text[200] = "";
    if (!mean_gradient(gradient.data(), result.data(), channels, height, width, text, sizeof text))
        throw std::invalid_argument(text);
    return result;
}

}  // namespace older
