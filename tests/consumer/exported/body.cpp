#include <gradkern/bias.hpp>

float parent_sum(const float* values) {
    float sum = 0;
    if (!gradkern::bias_backward<float, float>({values, {1, 4, 1}}, {}, {&sum, {1}})) return -1;
    return sum;
}
