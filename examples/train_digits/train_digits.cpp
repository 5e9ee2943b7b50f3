// Trains a small autoencoder that removes noise from handwritten digits. It checks the gradients against finite
// differences, and compares the result with the noisy images and with a mean filter.
//
// Exit status: 0 if the network beats both baselines, 1 if not, 2 for errors that the user can fix.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradkern/executors/thread_pool.hpp>
#include <gradkern/version.hpp>

#include "adam.hpp"
#include "digits.hpp"
#include "gradient_check.hpp"
#include "network.hpp"
#include "pictures.hpp"
#include "progress.hpp"

#ifndef GRADKERN_EXAMPLE_DATA
#define GRADKERN_EXAMPLE_DATA "examples/data"
#endif

namespace digits {
namespace {

constexpr std::size_t train_count = 1500;

struct options {
    int epochs = 60;
    int threads = 2;
    std::uint64_t seed = 1;
    std::string dtype = "f32";
    std::string data = GRADKERN_EXAMPLE_DATA "/digits.csv.gz";
    std::string output = "digits";
    float noise = 0.3F;
    int batch = 50;
    float learning_rate = 3e-3F;
};

/// The results of the training: a loss per epoch, and the restored test images.
struct outcome {
    std::vector<double> train_losses, test_losses;
    std::vector<float> restored;
};

/// The images numbered by `order`, one after another.
std::vector<float> gather(const image_set& set, std::span<const std::size_t> order) {
    std::vector<float> pixels;
    pixels.reserve(order.size() * image_pixels);
    for (const std::size_t i : order) {
        const auto image = set.image(i);
        pixels.insert(pixels.end(), image.begin(), image.end());
    }
    return pixels;
}

template <class T>
outcome train(const options& o, const split_set& sets, std::span<const float> noisy_test, parameters& all,
              gradkern::executor_ref executor, std::mt19937_64& random) {
    network<T> learner(o.batch, all, executor);
    network<T> tester(static_cast<std::int64_t>(sets.test.size()), all, executor);
    const auto restore = [&] {
        const std::vector<T>& dst = tester.forward(noisy_test, all);
        std::vector<float> images(dst.size());
        std::transform(dst.begin(), dst.end(), images.begin(), [](T v) { return static_cast<float>(v); });
        return images;
    };

    // Some gradients of this network are too small for f16, so the loss is scaled, which scales all gradients. If one
    // overflows, the step is skipped and the scale halved. The range of f32 and bf16 is large enough.
    float scale = o.dtype == "f16" ? 1024.0F : 1.0F;

    const auto batch = static_cast<std::size_t>(o.batch);
    const int steps = static_cast<int>(sets.train.size() / batch);  // a smaller last batch waits for the next shuffle
    adam optimizer(all);
    progress bar(o.epochs, steps);
    outcome result;
    std::vector<std::size_t> order(sets.train.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int epoch = 1; epoch <= o.epochs; ++epoch) {
        std::shuffle(order.begin(), order.end(), random);
        double loss = 0;
        for (int step = 0; step < steps; ++step) {
            const auto clean =
                gather(sets.train, std::span(order).subspan(static_cast<std::size_t>(step) * batch, batch));
            learner.forward(with_noise(clean, o.noise, random), all);
            loss += learner.backward(clean, scale, all);
            // Steps become shorter along half a cosine.
            const double done = (epoch - 1 + static_cast<double>(step) / steps) / o.epochs;
            const auto rate = o.learning_rate * static_cast<float>(0.5 + 0.5 * std::cos(std::numbers::pi * done));
            if (!optimizer.step(all, rate, scale)) {
                scale /= 2;
                if (scale < 1e-6F) throw std::runtime_error("training diverged; try a smaller --learning-rate");
            }
            bar.step(epoch, step + 1);
        }
        result.restored = restore();
        result.train_losses.push_back(loss / steps);
        result.test_losses.push_back(mean_squared_error(result.restored, sets.test.pixels));
        bar.epoch(epoch, result.train_losses.back(), result.test_losses.back());
    }
    return result;
}

/// One number that changes when any bit of any weight does (FNV-1a).
std::uint64_t hash(const parameters& all) {
    std::uint64_t h = 0xcbf29ce484222325U;
    for (const parameter& p : all) {
        for (const float value : p.value) {
            const auto bits = std::bit_cast<std::uint32_t>(value);
            for (int shift = 0; shift < 32; shift += 8) h = (h ^ ((bits >> shift) & 0xffU)) * 0x100000001b3U;
        }
    }
    return h;
}

/// Checks before the training that the pictures can be written.
void prepare_output(const std::filesystem::path& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) throw std::runtime_error(directory.string() + ": cannot be made (" + error.message() + ")");
    for (const char* name : {"digits.png", "loss.png"}) {
        if (!std::ofstream(directory / name, std::ios::app)) {
            throw std::runtime_error((directory / name).string() + ": cannot be written");
        }
    }
}

/// The first test image of each digit.
std::vector<std::size_t> one_of_each(const image_set& set) {
    std::vector<std::size_t> chosen;
    for (int label = 0; label < 10; ++label) {
        const auto at = std::find(set.labels.begin(), set.labels.end(), label);
        if (at != set.labels.end()) chosen.push_back(static_cast<std::size_t>(at - set.labels.begin()));
    }
    return chosen;
}

std::string decibels(double mse) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f dB", psnr(mse));
    return text;
}

int run(const options& o) {
    const auto start = std::chrono::steady_clock::now();
    const image_set all_images = read_digits(o.data);
    prepare_output(o.output);

    std::mt19937_64 random(o.seed);
    const split_set sets = split(all_images, train_count, random);
    const std::vector<float> noisy = with_noise(sets.test.pixels, o.noise, random);
    const std::vector<float> smooth = mean_filter(noisy);
    parameters all = initial_parameters(random);

    std::printf("%zu digits to train on, %zu to test on; noise %g\n", sets.train.size(), sets.test.size(),
                static_cast<double>(o.noise));
    std::printf("%zu weights, %s, %d threads, gradkern %d.%d.%d\n\n", total_size(all), o.dtype.c_str(), o.threads,
                GRADKERN_VERSION_MAJOR, GRADKERN_VERSION_MINOR, GRADKERN_VERSION_PATCH);

    gradkern::thread_pool pool(o.threads);

    std::puts("Gradients in f32 against finite differences in f64:");
    std::mt19937_64 directions(o.seed);  // a separate generator: the training does not depend on the check
    for (std::size_t attempt = 0;; ++attempt) {
        constexpr std::size_t two_images = 2 * image_pixels;
        const double error =
            check_gradients(all, std::span(noisy).subspan(attempt * two_images, two_images),
                            std::span(sets.test.pixels).subspan(attempt * two_images, two_images), pool, directions);
        std::printf("  largest error %.1e\n\n", error);
        if (error < 1e-4) break;
        // An activation at the kink of its ReLU has no derivative; then try other images.
        if (attempt == 2) throw std::runtime_error("the gradients are wrong");
    }

    const outcome result = o.dtype == "f32"    ? train<float>(o, sets, noisy, all, pool, random)
                           : o.dtype == "bf16" ? train<gradkern::bfloat16>(o, sets, noisy, all, pool, random)
                                               : train<gradkern::float16>(o, sets, noisy, all, pool, random);

    const std::vector<float>& clean = sets.test.pixels;
    const double noisy_error = mean_squared_error(noisy, clean);
    const double smooth_error = mean_squared_error(smooth, clean);
    const double restored_error = mean_squared_error(result.restored, clean);
    std::printf("\nOn the %zu test digits   error (MSE)   PSNR\n", sets.test.size());
    std::printf("  noisy                %.5f       %s\n", noisy_error, decibels(noisy_error).c_str());
    std::printf("  3x3 mean filter      %.5f       %s\n", smooth_error, decibels(smooth_error).c_str());
    std::printf("  restored             %.5f       %s\n", restored_error, decibels(restored_error).c_str());

    const std::filesystem::path directory = o.output;
    const std::vector<std::size_t> chosen = one_of_each(sets.test);
    const auto row = [&](const char* title, const std::string& note, const std::vector<float>& pixels) {
        return sheet_row{title, note, gather({pixels, sets.test.labels}, chosen)};
    };
    const std::vector<sheet_row> sheet{row("clean", "test digits", clean), row("noisy", decibels(noisy_error), noisy),
                                       row("mean filter", decibels(smooth_error), smooth),
                                       row("restored", decibels(restored_error), result.restored)};
    write_contact_sheet(directory / "digits.png", sheet);
    const std::vector<curve> curves{{"train", result.train_losses},
                                    {"test", result.test_losses},
                                    {"noisy", {noisy_error}},
                                    {"mean filter", {smooth_error}}};
    write_loss_picture(directory / "loss.png", curves);

    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("\nfinal weights %016llx\n", static_cast<unsigned long long>(hash(all)));
    std::printf("pictures      %s, %s\n", (directory / "digits.png").c_str(), (directory / "loss.png").c_str());
    std::printf("time          %.1f s\n", seconds);
    if (!(restored_error < noisy_error && restored_error < smooth_error)) {
        std::puts("\nNot good enough: the restored images must be nearer to the clean ones than both baselines.");
        return 1;
    }
    return 0;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
    digits::options o;
    CLI::App app{"Trains a denoising autoencoder on handwritten digits, with gradkern for every gradient.",
                 "train_digits"};
    app.option_defaults()->always_capture_default();
    app.add_option("--epochs", o.epochs, "passes over the training images")->check(CLI::Range(1, 100000));
    app.add_option("--threads", o.threads, "threads; the weights do not depend on them")->check(CLI::Range(1, 256));
    app.add_option("--seed", o.seed, "seed of the split, the noise and the first weights");
    app.add_option("--dtype", o.dtype, "type of activations and weights")->check(CLI::IsMember({"f32", "bf16", "f16"}));
    app.add_option("--data", o.data, "the digits, a gzipped CSV file");
    app.add_option("--output", o.output, "directory for digits.png and loss.png");
    app.add_option("--noise", o.noise, "standard deviation of the noise; ink is 1, paper 0")
        ->check(CLI::Range(0.0, 10.0));
    app.add_option("--batch", o.batch, "images in a training step")
        ->check(CLI::Range(1, static_cast<int>(digits::train_count)));
    app.add_option("--learning-rate", o.learning_rate, "first step size of Adam")->check(CLI::Range(1e-9, 1.0));
    try {
        app.parse(argc, argv);
        // NaN compares false with both ends of a range.
        if (std::isnan(o.noise)) throw CLI::ValidationError("--noise", "not a number");
        if (std::isnan(o.learning_rate)) throw CLI::ValidationError("--learning-rate", "not a number");
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        app.exit(error);
        return 2;
    }
    try {
        return digits::run(o);
    } catch (const std::exception& error) {
        std::fflush(stdout);
        std::fprintf(stderr, "train_digits: %s\n", error.what());
        return 2;
    }
}
