// A problem of a pool, as pooling tests and fuzzers draw it at random.
#pragma once

#include <cstdint>
#include <string>

#include <gradkern/attributes.hpp>
#include <gradkern/tensor_view.hpp>

namespace gradkern_test {

/// Shapes and attributes of a pool.
template <class Attributes>
struct pool_problem {
    gradkern::extents src;
    gradkern::extents dst;
    Attributes attributes;

    [[nodiscard]] std::string description() const {
        const Attributes& a = attributes;
        std::string s;
        const auto list = [&](const char* name, const gradkern::extents& e) {
            s += std::string(name) + "(";
            for (const std::int64_t v : e.values()) s += std::to_string(v) + " ";
            s += ") ";
        };
        const auto number = [&](const char* name, auto v) {
            s += std::string(name) + " " + std::to_string(static_cast<std::int64_t>(v)) + " ";
        };
        list("src", src);
        list("dst", dst);
        list("kernel", a.kernel);
        list("strides", a.strides);
        list("dilations", a.dilations);
        list("pads_begin", a.pads_begin);
        list("pads_end", a.pads_end);
        number("auto_pad", a.auto_pad);
        number("rounding_type", a.rounding_type);
        number("ncx", a.data_format == gradkern::data_format::ncx);
        if constexpr (requires { a.exclude_pad; }) {
            number("exclude_pad", a.exclude_pad);
            number("divisor_override", a.divisor_override.value_or(0));
        }
        if constexpr (requires { a.ignore_nan; }) number("ignore_nan", a.ignore_nan);
        return s;
    }
};

}  // namespace gradkern_test
