// tiny-dnn's convolution and max pool with gradkern inside: they take the place of tiny_dnn::convolutional_layer and
// tiny_dnn::max_pooling_layer, and keep their weights, shapes and activations. C++14.
//
// tiny-dnn keeps each image of a batch in a vector of its own, and gradients of weights for each image.
#pragma once

#include <vector>

#include <tiny_dnn/tiny_dnn.h>

#include "images.hpp"

namespace gradkern_tiny {

inline inputs images(const tiny_dnn::tensor_t& t) {
    inputs p;
    for (const tiny_dnn::vec_t& image : t) p.push_back(image.data());
    return p;
}
inline outputs images(tiny_dnn::tensor_t& t) {
    outputs p;
    for (tiny_dnn::vec_t& image : t) p.push_back(image.data());
    return p;
}
inline inputs constant(tiny_dnn::tensor_t& t) { return images(static_cast<const tiny_dnn::tensor_t&>(t)); }

template <class Activation = tiny_dnn::activation::identity>
class convolutional_layer : public tiny_dnn::convolutional_layer<Activation> {
    using base = tiny_dnn::convolutional_layer<Activation>;
    using size = tiny_dnn::serial_size_t;

public:
    convolutional_layer(size in_width, size in_height, size window_width, size window_height, size in_channels,
                        size out_channels, tiny_dnn::padding padding = tiny_dnn::padding::valid, bool has_bias = true,
                        size w_stride = 1, size h_stride = 1)
        : base(in_width, in_height, window_width, window_height, in_channels, out_channels, padding, has_bias, w_stride,
               h_stride),
          layer_({static_cast<long>(in_channels), static_cast<long>(in_height), static_cast<long>(in_width),
                  static_cast<long>(out_channels), static_cast<long>(window_height), static_cast<long>(window_width),
                  static_cast<long>(h_stride), static_cast<long>(w_stride), padding == tiny_dnn::padding::same,
                  has_bias}) {}

    void forward_propagation(const std::vector<tiny_dnn::tensor_t*>& in_data,
                             std::vector<tiny_dnn::tensor_t*>& out_data) override {
        const float* bias = in_data.size() > 2 ? (*in_data[2])[0].data() : nullptr;
        layer_.forward(constant(*in_data[0]), (*in_data[1])[0].data(), bias, images(*out_data[1]));
        this->forward_activation(*out_data[0], *out_data[1]);
    }
    void back_propagation(const std::vector<tiny_dnn::tensor_t*>& in_data,
                          const std::vector<tiny_dnn::tensor_t*>& out_data, std::vector<tiny_dnn::tensor_t*>& out_grad,
                          std::vector<tiny_dnn::tensor_t*>& in_grad) override {
        this->backward_activation(*out_grad[0], *out_data[0], *out_grad[1]);
        const inputs gradient = constant(*out_grad[1]);
        layer_.backward_data(gradient, (*in_data[1])[0].data(), images(*in_grad[0]));
        layer_.backward_weights(constant(*in_data[0]), gradient, images(*in_grad[1]),
                                in_grad.size() > 2 ? images(*in_grad[2]) : outputs());
    }

private:
    convolution layer_;
};

template <class Activation = tiny_dnn::activation::identity>
class max_pooling_layer : public tiny_dnn::max_pooling_layer<Activation> {
    using base = tiny_dnn::max_pooling_layer<Activation>;
    using size = tiny_dnn::serial_size_t;

public:
    max_pooling_layer(size in_width, size in_height, size in_channels, size pooling_size, size stride)
        : base(in_width, in_height, in_channels, pooling_size, stride),
          layer_(static_cast<long>(in_channels), static_cast<long>(in_height), static_cast<long>(in_width),
                 static_cast<long>(pooling_size), static_cast<long>(pooling_size), static_cast<long>(stride),
                 static_cast<long>(stride)) {}

    void forward_propagation(const std::vector<tiny_dnn::tensor_t*>& in_data,
                             std::vector<tiny_dnn::tensor_t*>& out_data) override {
        layer_.forward(constant(*in_data[0]), images(*out_data[1]));
        this->forward_activation(*out_data[0], *out_data[1]);
    }
    void back_propagation(const std::vector<tiny_dnn::tensor_t*>& in_data,
                          const std::vector<tiny_dnn::tensor_t*>& out_data, std::vector<tiny_dnn::tensor_t*>& out_grad,
                          std::vector<tiny_dnn::tensor_t*>& in_grad) override {
        this->backward_activation(*out_grad[0], *out_data[0], *out_grad[1]);
        layer_.backward(constant(*in_data[0]), constant(*out_grad[1]), images(*in_grad[0]));
    }

private:
    max_pool layer_;
};

}  // namespace gradkern_tiny
