// Compares the gradients, in f32, with central differences of the loss in f64. The f64 loss comes from gradkern's
// plain-loop reference, so the two sides share no kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>

#include "network.hpp"

namespace digits {

/// The network of network.hpp and its loss in f64: forward only, slow and simple.
class reference_network {
public:
    explicit reference_network(std::int64_t batch) : batch_(batch) {}

    double loss(const std::vector<std::vector<double>>& values, const std::vector<extents>& shapes,
                const std::vector<double>& noisy, std::span<const float> clean) const {
        const auto view = [](const std::vector<double>& data, const extents& shape) {
            return gradkern::tensor_view<const double>(data.data(), shape);
        };
        const auto convolve = [&](const std::vector<double>& src, const extents& src_shape, std::size_t layer) {
            const extents dst_shape = images(batch_, src_shape[1], shapes[2 * layer][3]);
            std::vector<double> dst(element_count(dst_shape));
            require(gradkern::ref::convolution(view(src, src_shape), view(values[2 * layer], shapes[2 * layer]),
                                               view(values[2 * layer + 1], shapes[2 * layer + 1]), convolution_3x3,
                                               gradkern::tensor_view<double>(dst.data(), dst_shape)));
            return dst;
        };
        const auto relu = [](std::vector<double> data) {
            for (double& value : data) value = value > 0 ? value : 0;
            return data;
        };
        const extents full = images(batch_, 8, full_channels), half = images(batch_, 4, full_channels);

        const std::vector<double> encoded = relu(convolve(noisy, images(batch_, 8, 1), encode1));
        std::vector<double> pooled(element_count(half));
        require(
            gradkern::ref::avg_pool(view(encoded, full), pool_2x2, gradkern::tensor_view<double>(pooled.data(), half)));
        const std::vector<double> code = relu(convolve(pooled, half, encode2));
        std::vector<double> decoded(element_count(full));
        require(gradkern::ref::conv_transpose(view(code, images(batch_, 4, half_channels)),
                                              view(values[2 * decode1], shapes[2 * decode1]),
                                              view(values[2 * decode1 + 1], shapes[2 * decode1 + 1]), transpose_4x4,
                                              gradkern::tensor_view<double>(decoded.data(), full)));
        const std::vector<double> restored = convolve(relu(std::move(decoded)), full, decode2);

        double sum = 0;
        for (std::size_t i = 0; i < clean.size(); ++i) {
            const double difference = restored[i] - static_cast<double>(clean[i]);
            sum += difference * difference;
        }
        return sum / static_cast<double>(clean.size());
    }

private:
    std::int64_t batch_;
};

/// Checks the gradient of every parameter tensor and of the noisy input, prints one line each and returns the largest
/// error. A random direction moves all entries of a tensor at once, so each comparison covers all of its gradient: the
/// change of the loss must be the gradient's component along the direction. Errors are relative to the length of the
/// gradient.
inline double check_gradients(const parameters& initial, std::span<const float> noisy, std::span<const float> clean,
                              gradkern::executor_ref executor, std::mt19937_64& random) {
    const auto batch = static_cast<std::int64_t>(noisy.size() / image_pixels);
    parameters all = initial;
    network<float> under_test(batch, all, executor);
    std::vector<float> diff_noisy;
    under_test.forward(noisy, all);
    under_test.backward(clean, 1, all, &diff_noisy);

    const reference_network reference(batch);
    std::vector<std::vector<double>> values;
    std::vector<extents> shapes;
    for (const parameter& p : all) {
        values.emplace_back(p.value.begin(), p.value.end());
        shapes.push_back(p.shape);
    }
    std::vector<double> input(noisy.begin(), noisy.end());

    // Small enough that hardly any activation crosses the kink of its ReLU, and far above the rounding error of f64.
    constexpr double step = 1e-8;
    constexpr int directions = 2;
    double largest_error = 0;
    const auto check = [&](const std::string& name, std::vector<double>& point, const std::vector<float>& gradient) {
        const std::vector<double> original = point;
        std::vector<double> direction(point.size());
        const auto loss_at = [&](double distance) {
            for (std::size_t i = 0; i < point.size(); ++i) point[i] = original[i] + distance * direction[i];
            return reference.loss(values, shapes, input, clean);
        };
        double length = 0, error = 0;
        for (const float g : gradient) length += static_cast<double>(g) * static_cast<double>(g);
        length = std::sqrt(length);
        for (int d = 0; d < directions; ++d) {
            double component = 0;
            for (std::size_t i = 0; i < direction.size(); ++i) {
                direction[i] = (random() & 1U) != 0 ? 1 : -1;
                component += direction[i] * static_cast<double>(gradient[i]);
            }
            const double difference = (loss_at(step) - loss_at(-step)) / (2 * step);
            error = std::max(error, std::abs(difference - component) / length);
            if (!std::isfinite(difference - component)) error = INFINITY;
        }
        point = original;
        std::printf("  %-15s  %5zu entries   error %.1e\n", name.c_str(), gradient.size(), error);
        largest_error = std::max(largest_error, error);
    };
    for (std::size_t t = 0; t < all.size(); ++t) check(all[t].name, values[t], all[t].gradient);
    check("noisy input", input, diff_noisy);
    return largest_error;
}

}  // namespace digits
