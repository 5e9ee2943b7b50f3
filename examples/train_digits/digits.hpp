// The handwritten digits: reads and splits them, adds noise, and smooths them as a baseline without a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <vector>

namespace digits {

inline constexpr std::int64_t image_side = 8;
inline constexpr std::size_t image_pixels = 64;
inline constexpr std::size_t image_count = 1797;

/// Images one after another, row by row, with values from 0 (paper) to 1 (ink).
struct image_set {
    std::vector<float> pixels;  // (image, row, column)
    std::vector<int> labels;    // (image)

    [[nodiscard]] std::size_t size() const { return labels.size(); }
    [[nodiscard]] std::span<const float> image(std::size_t i) const {
        return std::span(pixels).subspan(i * image_pixels, image_pixels);
    }
};

/// Reads digits.csv.gz; throws std::runtime_error with a message for the user if the file is missing or damaged.
image_set read_digits(const std::filesystem::path& file);

struct split_set {
    image_set train;
    image_set test;
};

/// Shuffles the images and splits them: the first `train_count` to train on, the others to test on.
split_set split(const image_set& all, std::size_t train_count, std::mt19937_64& random);

/// The pixels with Gaussian noise of this standard deviation added; values may leave [0, 1].
std::vector<float> with_noise(std::span<const float> pixels, float deviation, std::mt19937_64& random);

/// Every pixel replaced by the mean of its 3x3 neighbourhood (of the part that lies inside the image).
std::vector<float> mean_filter(std::span<const float> images);

/// Mean squared error.
double mean_squared_error(std::span<const float> a, std::span<const float> b);

/// Peak signal-to-noise ratio in decibels for images whose peak is 1.
double psnr(double mean_squared_error);

}  // namespace digits
