// The denoising autoencoder and its gradients. gradkern computes every convolution, pooling and transposed convolution,
// every bias and all their gradients. ReLU and the loss are a few lines of plain code at the end of each step.
//
//     noisy image   (N, 8, 8,  1)
//     encode1       convolution 3x3, ReLU                        (N, 8, 8, 32)
//     pool          average pool 2x2                             (N, 4, 4, 32)
//     encode2       convolution 3x3, ReLU                        (N, 4, 4, 64)
//     decode1       transposed convolution 4x4, stride 2, ReLU   (N, 8, 8, 32)
//     decode2       convolution 3x3                              (N, 8, 8,  1)
//
// Activations and working weights are of type T. The weights that are trained ("master weights") and the gradients of
// weights and biases are f32: a 16-bit weight would lose most of the small steps that training takes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/workspace.hpp>

#include "digits.hpp"
#include "require.hpp"

namespace digits {

using gradkern::extents;

// ------------------------------------------------------------------------------------------------------- architecture

// The library's default layouts: images are NXC (batch, row, column, channel), weights XIO (row, column, in, out).
inline constexpr std::int64_t full_channels = 32;  // at 8x8
inline constexpr std::int64_t half_channels = 64;  // at 4x4

inline constexpr gradkern::convolution_attributes convolution_3x3{
    .strides = {1, 1}, .dilations = {1, 1}, .auto_pad = gradkern::auto_pad::same_upper};
inline constexpr gradkern::avg_pool_attributes pool_2x2{.kernel = {2, 2}, .strides = {2, 2}};
inline constexpr gradkern::conv_transpose_attributes transpose_4x4{
    .strides = {2, 2}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};

inline extents images(std::int64_t batch, std::int64_t side, std::int64_t channels) {
    return {batch, side, side, channels};
}

inline std::size_t element_count(const extents& shape) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape.values()) count *= static_cast<std::size_t>(extent);
    return count;
}

// --------------------------------------------------------------------------------------------------------- parameters

/// One trained tensor: its master values and the gradient of the loss.
struct parameter {
    std::string name;
    extents shape;
    std::vector<float> value{};
    std::vector<float> gradient{};
};

using parameters = std::vector<parameter>;

/// Index of the parameters of a layer: weights at 2 * layer, then the bias.
enum layer_index : std::size_t { encode1, encode2, decode1, decode2, layer_count };

/// All parameters: weights are uniform with the variance that keeps activations alive after a ReLU (He et al. 2015),
/// biases zero.
inline parameters initial_parameters(std::mt19937_64& random) {
    parameters all{{"encode1 weights", {3, 3, 1, full_channels}},
                   {"encode1 bias", {full_channels}},
                   {"encode2 weights", {3, 3, full_channels, half_channels}},
                   {"encode2 bias", {half_channels}},
                   {"decode1 weights", {4, 4, half_channels, full_channels}},
                   {"decode1 bias", {full_channels}},
                   {"decode2 weights", {3, 3, full_channels, 1}},
                   {"decode2 bias", {1}}};
    for (std::size_t i = 0; i < all.size(); ++i) {
        parameter& p = all[i];
        p.value.resize(element_count(p.shape));
        p.gradient.resize(p.value.size());
        if (p.shape.rank() == 1) continue;
        // Each output of the transposed convolution sums over a quarter of its taps, because its stride is 2 on both axes.
        const double taps = static_cast<double>(p.shape[0] * p.shape[1] * p.shape[2]) / (i == 2 * decode1 ? 4 : 1);
        const auto limit = static_cast<float>(std::sqrt(6.0 / taps));
        std::uniform_real_distribution<float> uniform(-limit, limit);
        for (float& value : p.value) value = uniform(random);
    }
    return all;
}

inline std::size_t total_size(const parameters& all) {
    std::size_t total = 0;
    for (const parameter& p : all) total += p.value.size();
    return total;
}

// ------------------------------------------------------------------------------------------------------------- layers

/// The threads and scratch memory that every run of a plan uses.
struct resources {
    gradkern::executor_ref executor{};
    gradkern::workspace workspace{};

    /// Makes room for a plan. The plans run one after another, so the largest workspace serves all of them.
    template <class Plan>
    void reserve(const Plan& plan) {
        const std::size_t bytes = plan.workspace_bytes(executor.concurrency());
        if (bytes > workspace.size()) workspace = gradkern::workspace(bytes);
        if (!workspace) throw std::bad_alloc();
    }
};

template <class T>
std::vector<T> rounded(std::span<const float> values) {
    std::vector<T> result(values.size());
    std::transform(values.begin(), values.end(), result.begin(), [](float v) { return static_cast<T>(v); });
    return result;
}

/// A convolution or transposed convolution with bias: three plans, made once for one batch size, run in every step.
template <class T, class Forward, class BackwardData, class BackwardWeights>
struct trained_layer {
    Forward forward;
    BackwardData backward_data;
    BackwardWeights backward_weights;
    bool relu;
    std::vector<T> dst, diff_dst;  // activations and the loss gradient with respect to them
    std::vector<T> weights{};      // the master weights, rounded

    void reserve(resources& with) const {
        with.reserve(forward);
        with.reserve(backward_data);
        with.reserve(backward_weights);
    }

    void run_forward(const T* src, const parameter* weights_and_bias, resources& with) {
        weights = rounded<T>(weights_and_bias[0].value);
        require(forward.run(src, weights.data(), weights_and_bias[1].value.data(), dst.data(), with.workspace,
                            with.executor));
        if (relu) {
            for (T& value : dst) value = static_cast<float>(value) > 0 ? value : T{};
        }
    }

    /// Computes the gradients of weights and bias from diff_dst and, if requested, diff_src.
    void run_backward(const T* src, T* diff_src, parameter* weights_and_bias, resources& with) {
        if (relu) {
            for (std::size_t i = 0; i < dst.size(); ++i) {
                if (!(static_cast<float>(dst[i]) > 0)) diff_dst[i] = T{};
            }
        }
        require(backward_weights.run(src, diff_dst.data(), weights_and_bias[0].gradient.data(),
                                     weights_and_bias[1].gradient.data(), with.workspace, with.executor));
        if (diff_src != nullptr) {
            require(backward_data.run(diff_dst.data(), weights.data(), diff_src, with.workspace, with.executor));
        }
    }
};

template <class T>
using convolution_layer =
    trained_layer<T, gradkern::convolution_plan<T, T, T, float>, gradkern::convolution_backward_data_plan<T>,
                  gradkern::convolution_backward_weights_plan<T, float>>;

template <class T>
using conv_transpose_layer =
    trained_layer<T, gradkern::conv_transpose_plan<T, T, T, float>, gradkern::conv_transpose_backward_data_plan<T>,
                  gradkern::conv_transpose_backward_weights_plan<T, float>>;

template <class T>
convolution_layer<T> make_convolution(const extents& src, const extents& weights, bool relu) {
    const auto& attributes = convolution_3x3;
    const extents bias{weights[3]};
    const extents dst = require(gradkern::infer_convolution(src, weights, attributes));
    return {.forward = require(gradkern::plan_convolution<T, float>(src, weights, bias, attributes, dst)),
            .backward_data = require(gradkern::plan_convolution_backward_data<T>(dst, weights, attributes, src)),
            .backward_weights =
                require(gradkern::plan_convolution_backward_weights<T, float>(src, dst, attributes, weights, bias)),
            .relu = relu,
            .dst = std::vector<T>(element_count(dst)),
            .diff_dst = std::vector<T>(element_count(dst))};
}

template <class T>
conv_transpose_layer<T> make_conv_transpose(const extents& src, const extents& weights, bool relu) {
    const auto& attributes = transpose_4x4;
    const extents bias{weights[3]};
    const extents dst = require(gradkern::infer_conv_transpose(src, weights, attributes));
    return {.forward = require(gradkern::plan_conv_transpose<T, float>(src, weights, bias, attributes, dst)),
            .backward_data = require(gradkern::plan_conv_transpose_backward_data<T>(dst, weights, attributes, src)),
            .backward_weights =
                require(gradkern::plan_conv_transpose_backward_weights<T, float>(src, dst, attributes, weights, bias)),
            .relu = relu,
            .dst = std::vector<T>(element_count(dst)),
            .diff_dst = std::vector<T>(element_count(dst))};
}

template <class T>
struct pool_layer {
    gradkern::avg_pool_plan<T> forward;
    gradkern::avg_pool_backward_plan<T> backward;
    std::vector<T> dst, diff_dst;
};

template <class T>
pool_layer<T> make_pool(const extents& src) {
    const extents dst = require(gradkern::infer_avg_pool(src, pool_2x2));
    return {.forward = require(gradkern::plan_avg_pool<T>(src, pool_2x2, dst)),
            .backward = require(gradkern::plan_avg_pool_backward<T>(dst, pool_2x2, src)),
            .dst = std::vector<T>(element_count(dst)),
            .diff_dst = std::vector<T>(element_count(dst))};
}

// ------------------------------------------------------------------------------------------------------------ network

/// The network for batches of one size. The parameters are stored outside it, so several networks may share them.
template <class T>
class network {
public:
    network(std::int64_t batch, const parameters& all, gradkern::executor_ref executor)
        : resources_{.executor = executor},
          encode1_(make_convolution<T>(images(batch, 8, 1), all[2 * encode1].shape, true)),
          pool_(make_pool<T>(images(batch, 8, full_channels))),
          encode2_(make_convolution<T>(images(batch, 4, full_channels), all[2 * encode2].shape, true)),
          decode1_(make_conv_transpose<T>(images(batch, 4, half_channels), all[2 * decode1].shape, true)),
          decode2_(make_convolution<T>(images(batch, 8, full_channels), all[2 * decode2].shape, false)) {
        encode1_.reserve(resources_);
        resources_.reserve(pool_.forward);
        resources_.reserve(pool_.backward);
        encode2_.reserve(resources_);
        decode1_.reserve(resources_);
        decode2_.reserve(resources_);
    }

    /// The restored images; valid until the next call.
    const std::vector<T>& forward(std::span<const float> noisy, const parameters& all) {
        src_ = rounded<T>(noisy);
        encode1_.run_forward(src_.data(), &all[2 * encode1], resources_);
        require(pool_.forward.run(encode1_.dst.data(), pool_.dst.data(), resources_.workspace, resources_.executor));
        encode2_.run_forward(pool_.dst.data(), &all[2 * encode2], resources_);
        decode1_.run_forward(encode2_.dst.data(), &all[2 * decode1], resources_);
        decode2_.run_forward(decode1_.dst.data(), &all[2 * decode2], resources_);
        return decode2_.dst;
    }

    /// After `forward`: the mean squared error against the clean images. All gradients, times `scale`, go to `all` and,
    /// where `diff_noisy` is given, to it.
    double backward(std::span<const float> clean, float scale, parameters& all, std::vector<T>* diff_noisy = nullptr) {
        double sum = 0;
        const auto slope = 2 * scale / static_cast<float>(clean.size());
        for (std::size_t i = 0; i < clean.size(); ++i) {
            const float difference = static_cast<float>(decode2_.dst[i]) - clean[i];
            sum += static_cast<double>(difference) * static_cast<double>(difference);
            decode2_.diff_dst[i] = static_cast<T>(slope * difference);
        }
        if (diff_noisy != nullptr) diff_noisy->resize(src_.size());
        T* const diff_src = diff_noisy == nullptr ? nullptr : diff_noisy->data();

        decode2_.run_backward(decode1_.dst.data(), decode1_.diff_dst.data(), &all[2 * decode2], resources_);
        decode1_.run_backward(encode2_.dst.data(), encode2_.diff_dst.data(), &all[2 * decode1], resources_);
        encode2_.run_backward(pool_.dst.data(), pool_.diff_dst.data(), &all[2 * encode2], resources_);
        require(pool_.backward.run(pool_.diff_dst.data(), encode1_.diff_dst.data(), resources_.workspace,
                                   resources_.executor));
        encode1_.run_backward(src_.data(), diff_src, &all[2 * encode1], resources_);
        return sum / static_cast<double>(clean.size());
    }

private:
    resources resources_;
    std::vector<T> src_;
    convolution_layer<T> encode1_;
    pool_layer<T> pool_;
    convolution_layer<T> encode2_;
    conv_transpose_layer<T> decode1_;
    convolution_layer<T> decode2_;
};

}  // namespace digits
