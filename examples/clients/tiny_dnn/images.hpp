// Layers over batches whose images are buffers of their own, computed by gradkern. C++11: tiny-dnn's side sees no other header.
#pragma once

#include <memory>
#include <vector>

namespace gradkern_tiny {

using inputs = std::vector<const float*>;  ///< one image each
using outputs = std::vector<float*>;

/// Threads of all layers; 1 if nobody calls it. Results do not depend on it.
void set_threads(int threads);

/// A convolution of images (channels, height, width) with weights (out, in, height, width). Mistakes throw std::invalid_argument.
class convolution {
public:
    struct shape {
        long in_channels, in_height, in_width, out_channels, kernel_height, kernel_width, stride_y, stride_x;
        bool same;  ///< padded so that strides of 1 keep the size
        bool bias;
    };
    explicit convolution(const shape& s);

    void forward(const inputs& src, const float* weights, const float* bias, const outputs& dst) const;
    void backward_data(const inputs& diff_dst, const float* weights, const outputs& diff_src) const;
    /// Adds to each image's own gradients; diff_bias is empty without a bias.
    void backward_weights(const inputs& src, const inputs& diff_dst, const outputs& diff_weights,
                          const outputs& diff_bias) const;

private:
    struct plans;
    std::shared_ptr<const plans> plans_;
};

/// A max pool without padding.
class max_pool {
public:
    max_pool(long channels, long height, long width, long kernel_y, long kernel_x, long stride_y, long stride_x);

    void forward(const inputs& src, const outputs& dst) const;
    void backward(const inputs& src, const inputs& diff_dst, const outputs& diff_src) const;

private:
    struct plans;
    std::shared_ptr<const plans> plans_;
};

}  // namespace gradkern_tiny
