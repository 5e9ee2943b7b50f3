#include "digits.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gradkern/avg_pool.hpp>

#include "require.hpp"

namespace digits {
namespace {

/// The decompressed text of a gzip file.
std::string read_gzip(const std::filesystem::path& file) {
    const auto fail = [&](const std::string& what) { throw std::runtime_error(file.string() + ": " + what); };
    if (!std::filesystem::exists(file)) fail("no such file");
    if (!std::filesystem::is_regular_file(file)) fail("not a regular file");

    const std::unique_ptr<gzFile_s, int (*)(gzFile)> handle(gzopen(file.c_str(), "rb"), gzclose);
    if (!handle) fail("cannot be opened");

    std::string text;
    std::array<char, 1 << 16> block{};
    constexpr std::size_t limit = 1 << 24;  // the text has 265 kB; a damaged file may claim any size
    for (;;) {
        const int got = gzread(handle.get(), block.data(), static_cast<unsigned>(block.size()));
        // zlib returns the bytes of an uncompressed file unchanged; here such a file is an error.
        if (gzdirect(handle.get()) != 0) fail("not a gzip file");
        int code = Z_OK;
        const char* message = gzerror(handle.get(), &code);
        if (got < 0 || code != Z_OK) fail(std::string("damaged gzip file (") + message + ")");
        if (got == 0) return text;
        text.append(block.data(), static_cast<std::size_t>(got));
        if (text.size() > limit) fail("far too long for the digits");
    }
}

/// One line: 64 pixels from 0 to 16 and a label from 0 to 9. Returns a description of what is wrong, or nothing.
std::string parse_line(std::string_view line, image_set& into) {
    constexpr std::size_t columns = image_pixels + 1;
    std::array<int, columns> values{};
    std::size_t count = 0;
    const char* at = line.data();
    const char* const end = at + line.size();
    for (;;) {
        int value = 0;
        const auto [next, error] = std::from_chars(at, end, value);
        if (error != std::errc{}) return "column " + std::to_string(count + 1) + " is not an integer";
        if (count < columns) values[count] = value;
        ++count;
        if (next == end) break;
        if (*next != ',') return "column " + std::to_string(count) + " is not an integer";
        at = next + 1;
    }
    if (count != columns) return std::to_string(count) + " columns instead of " + std::to_string(columns);
    for (std::size_t i = 0; i < columns; ++i) {
        const int highest = i < image_pixels ? 16 : 9;
        if (values[i] < 0 || values[i] > highest) {
            return "column " + std::to_string(i + 1) + " holds " + std::to_string(values[i]) + ", outside 0.." +
                   std::to_string(highest);
        }
    }
    for (std::size_t i = 0; i < image_pixels; ++i) into.pixels.push_back(static_cast<float>(values[i]) / 16.0F);
    into.labels.push_back(values[image_pixels]);
    return {};
}

}  // namespace

image_set read_digits(const std::filesystem::path& file) {
    const std::string text = read_gzip(file);
    image_set all;
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::size_t length = std::min(rest.find('\n'), rest.size());
        std::string_view line = rest.substr(0, length);
        if (line.ends_with('\r')) line.remove_suffix(1);
        rest.remove_prefix(std::min(length + 1, rest.size()));
        if (const std::string wrong = parse_line(line, all); !wrong.empty()) {
            throw std::runtime_error(file.string() + ", line " + std::to_string(all.size() + 1) + ": " + wrong);
        }
    }
    if (all.size() != image_count) {
        throw std::runtime_error(file.string() + ": " + std::to_string(all.size()) + " images instead of " +
                                 std::to_string(image_count));
    }
    return all;
}

split_set split(const image_set& all, std::size_t train_count, std::mt19937_64& random) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    split_set sets;
    for (std::size_t i = 0; i < order.size(); ++i) {
        image_set& set = i < train_count ? sets.train : sets.test;
        const auto image = all.image(order[i]);
        set.pixels.insert(set.pixels.end(), image.begin(), image.end());
        set.labels.push_back(all.labels[order[i]]);
    }
    return sets;
}

std::vector<float> with_noise(std::span<const float> pixels, float deviation, std::mt19937_64& random) {
    std::normal_distribution<float> noise(0.0F, deviation);
    std::vector<float> noisy(pixels.begin(), pixels.end());
    for (float& value : noisy) value += noise(random);
    return noisy;
}

std::vector<float> mean_filter(std::span<const float> images) {
    const gradkern::extents shape{static_cast<std::int64_t>(images.size() / image_pixels), image_side, image_side, 1};
    std::vector<float> smooth(images.size());
    require(gradkern::avg_pool(
        gradkern::tensor_view<const float>{images.data(), shape},
        {.kernel = {3, 3}, .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .exclude_pad = true},
        {smooth.data(), shape}));
    return smooth;
}

double mean_squared_error(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += difference * difference;
    }
    return sum / static_cast<double>(a.size());
}

double psnr(double mean_squared_error) { return -10.0 * std::log10(mean_squared_error); }

}  // namespace digits
