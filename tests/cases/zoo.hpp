// The layers of zoo.json: those of many published networks, with uneven kernels, strides and pads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <cases/convolution_cases.hpp>
#include <cases/pooling_cases.hpp>

namespace gradkern_cases {

/// One line of zoo.json.
class zoo_line {
public:
    explicit zoo_line(std::string_view line) : line_(line) {}

    [[nodiscard]] std::string_view word(std::string_view key) const {
        const std::string_view value = after(key);
        const std::size_t first = value.find('"') + 1;
        return value.substr(first, value.find('"', first) - first);
    }
    [[nodiscard]] std::int64_t number(std::string_view key, std::int64_t absent) const {
        const std::string_view value = after(key);
        return value.empty() ? absent : to_number(value);
    }
    /// `absent` on each of `rank` axes where the line does not have the key.
    [[nodiscard]] gradkern::extents list(std::string_view key, std::size_t rank, std::int64_t absent) const {
        const std::string_view value = after(key);
        if (value.empty()) return gradkern::extents::filled(rank, absent);
        gradkern::extents e;
        for (std::size_t at = value.find('['); value[at] != ']'; at = value.find_first_of(",]", at + 1))
            e.push_back(to_number(value.substr(at + 1)));
        return e;
    }

private:
    /// What follows a key; nothing where the line does not have it.
    [[nodiscard]] std::string_view after(std::string_view key) const {
        const std::string quoted = '"' + std::string(key) + "\":";
        const std::size_t at = line_.find(quoted);
        return at == std::string_view::npos ? std::string_view{} : line_.substr(at + quoted.size());
    }
    [[nodiscard]] static std::int64_t to_number(std::string_view s) {
        return std::strtoll(std::string(s.substr(0, s.find_first_of(",]}"))).c_str(), nullptr, 10);
    }

    std::string_view line_;
};

/// The layers, in the order of the file.
struct zoo {
    explicit zoo(const std::string& path) {
        std::ifstream in(path);
        text_.assign(std::istreambuf_iterator<char>(in), {});
        for (std::size_t first = 0; first < text_.size();) {
            const std::size_t end = std::min(text_.find('\n', first), text_.size());
            const zoo_line line(std::string_view(text_).substr(first, end - first));
            if (text_[first] == '{') add(line);
            first = end + 1;
        }
        if (convolutions.empty() || pools.empty()) {
            std::fprintf(stderr, "%s is not the file of the zoo\n", path.c_str());
            std::exit(1);
        }
    }
    zoo(const zoo&) = delete;  // names are parts of its text
    zoo& operator=(const zoo&) = delete;

    std::vector<convolution_case> convolutions;
    std::vector<pool_case> pools;

private:
    void add(const zoo_line& line) {
        const std::string_view kind = line.word("kind");
        const gradkern::extents size = line.list("size", 0, 0);
        const auto list = [&](std::string_view key, std::int64_t absent) {
            return line.list(key, size.rank(), absent);
        };
        if (kind == "avg_pool" || kind == "max_pool") {
            pools.push_back({.name = line.word("name"),
                             .maximum = kind == "max_pool",
                             .batch = line.number("batch", 1),
                             .channels = line.number("in_channels", 1),
                             .size = size,
                             .kernel = list("kernel", 1),
                             .strides = list("strides", 1),
                             .pads_begin = list("pads_begin", 0),
                             .pads_end = list("pads_end", 0)});
            return;
        }
        convolutions.push_back({.name = line.word("name"),
                                .transposed = kind == "conv_transpose",
                                .batch = line.number("batch", 1),
                                .in_channels = line.number("in_channels", 1),
                                .out_channels = line.number("out_channels", 1),
                                .groups = line.number("groups", 1),
                                .size = size,
                                .kernel = list("kernel", 1),
                                .strides = list("strides", 1),
                                .dilations = list("dilations", 1),
                                .pads_begin = list("pads_begin", 0),
                                .pads_end = list("pads_end", 0),
                                .output_padding = list("output_padding", 0)});
    }

    std::string text_;
};

}  // namespace gradkern_cases
