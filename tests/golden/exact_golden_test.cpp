// The exact references against fractions: exact.txt, which make_exact.py wrote. Every bit counts.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/ref/exact.hpp>

namespace {

namespace gk = gradkern;
namespace exact = gradkern::ref::exact;
using gk::bfloat16;
using gk::extents;
using gk::float16;

/// A line: <operator> <types> <kind> <key>=<value>... : <tensor> : ... : <result>. Tensors are lists of hexadecimal patterns.
struct exact_case {
    std::string problem;
    std::string op;
    std::string types;
    std::map<std::string, std::int64_t> fields;
    std::vector<std::vector<std::uint64_t>> tensors;

    [[nodiscard]] bool has(const std::string& key) const { return fields.count(key) != 0; }
    [[nodiscard]] std::int64_t operator[](const std::string& key) const { return fields.at(key); }
};

exact_case parse(const std::string& line) {
    exact_case c;
    std::istringstream parts(line);
    std::string part;
    std::getline(parts, part, ':');
    c.problem = part;
    std::istringstream words(part);
    std::string kind;
    words >> c.op >> c.types >> kind;
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        c.fields[word.substr(0, equals)] = equals == std::string::npos ? 1 : std::stoll(word.substr(equals + 1));
    }
    while (std::getline(parts, part, ':')) {
        std::vector<std::uint64_t> tensor;
        std::istringstream numbers(part);
        for (std::string number; std::getline(numbers, number, ',');)
            tensor.push_back(std::stoull(number, nullptr, 16));
        c.tensors.push_back(tensor);
    }
    return c;
}

template <class T>
std::vector<T> elements(const std::vector<std::uint64_t>& patterns) {
    using bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
    std::vector<T> v(patterns.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
        const auto b = static_cast<bits>(patterns[i]);
        std::memcpy(static_cast<void*>(&v[i]), &b, sizeof b);
    }
    return v;
}
template <class T>
std::vector<std::uint64_t> patterns(const std::vector<T>& v) {
    std::vector<std::uint64_t> p(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) std::memcpy(&p[i], &v[i], sizeof(T));
    return p;
}

template <class Src, class Second, class Dst>
void compute(const exact_case& c) {
    const std::int64_t groups = c["groups"];
    const extents large{c["batch"], groups * c["large_channels"], c["large"]};
    const extents small{c["batch"], groups * c["small_channels"], c["small"]};
    const bool transposed = c.op.starts_with("conv_t");
    const extents weights = transposed ? extents{c["large_channels"], groups * c["small_channels"], c["kernel"]}
                                       : extents{groups * c["small_channels"], c["large_channels"], c["kernel"]};
    const gk::convolution_attributes conv{.strides = {c["stride"]},
                                          .dilations = {c["dilation"]},
                                          .pads_begin = {c["begin"]},
                                          .pads_end = {c["end"]},
                                          .groups = groups,
                                          .data_format = gk::data_format::ncx,
                                          .weights_format = gk::weights_format::oix};
    const gk::conv_transpose_attributes tran{.strides = {c["stride"]},
                                             .dilations = {c["dilation"]},
                                             .pads_begin = {c["begin"]},
                                             .pads_end = {c["end"]},
                                             .groups = groups,
                                             .data_format = gk::data_format::ncx,
                                             .weights_format = gk::weights_format::oix};
    const bool accumulates = c.has("accumulate");
    const gk::call_options options{
        .plan = {.output = accumulates ? gk::output_mode::accumulate : gk::output_mode::overwrite}};
    const std::vector<std::uint64_t>& expected = c.tensors.back();
    const auto a = elements<Src>(c.tensors[0]);
    const auto b = elements<Second>(c.tensors[1]);  // the result, where there is one input
    std::vector<Dst> result(expected.size());
    if (accumulates) result = elements<Dst>(c.tensors[c.tensors.size() - 2]);
    Dst* const to = result.data();

    gk::status s;
    if (c.op == "convolution") {
        s = exact::convolution<Src, Second, Dst, Dst>({a.data(), large}, {b.data(), weights}, {}, conv, {to, small},
                                                      options);
    } else if (c.op == "convolution_backward_data") {
        s = exact::convolution_backward_data<Src, Second, Dst>({a.data(), small}, {b.data(), weights}, conv,
                                                               {to, large}, options);
    } else if (c.op == "convolution_backward_weights") {
        s = exact::convolution_backward_weights<Src, Dst, Second>({a.data(), large}, {b.data(), small}, conv,
                                                                  {to, weights}, {}, options);
    } else if (c.op == "conv_transpose") {
        s = exact::conv_transpose<Src, Second, Dst, Dst>({a.data(), small}, {b.data(), weights}, {}, tran, {to, large},
                                                         options);
    } else if (c.op == "conv_transpose_backward_data") {
        s = exact::conv_transpose_backward_data<Src, Second, Dst>({a.data(), large}, {b.data(), weights}, tran,
                                                                  {to, small}, options);
    } else if (c.op == "conv_transpose_backward_weights") {
        s = exact::conv_transpose_backward_weights<Src, Dst, Second>({a.data(), small}, {b.data(), large}, tran,
                                                                     {to, weights}, {}, options);
    } else if constexpr (std::is_same_v<Src, Second> && std::is_same_v<Src, Dst>) {
        gk::avg_pool_attributes avg{.kernel = {c["kernel"]},
                                    .strides = {c["stride"]},
                                    .pads_begin = {c["begin"]},
                                    .pads_end = {c["end"]},
                                    .dilations = {c["dilation"]},
                                    .exclude_pad = c.has("exclude"),
                                    .data_format = gk::data_format::ncx};
        if (c.has("divisor")) avg.divisor_override = c["divisor"];
        gk::lp_pool_attributes lp;
        gk::max_pool_attributes max;
        lp.kernel = max.kernel = avg.kernel;
        lp.strides = max.strides = avg.strides;
        lp.dilations = max.dilations = avg.dilations;
        lp.pads_begin = max.pads_begin = avg.pads_begin;
        lp.pads_end = max.pads_end = avg.pads_end;
        lp.data_format = max.data_format = avg.data_format;
        if (c.op == "avg_pool") {
            s = exact::avg_pool<Src>({a.data(), large}, avg, {to, small}, options);
        } else if (c.op == "avg_pool_backward") {
            s = exact::avg_pool_backward<Src>({a.data(), small}, avg, {to, large}, options);
        } else if (c.op == "lp_pool") {
            s = exact::lp_pool<Src>({a.data(), large}, lp, {to, small}, options);
        } else if (c.op == "lp_pool_backward") {
            const auto slope = elements<Src>(c.tensors[2]);
            s = exact::lp_pool_backward<Src>({a.data(), large}, {b.data(), small}, {slope.data(), small}, lp,
                                             {to, large}, options);
        } else if (c.op == "max_pool") {
            s = exact::max_pool<Src>({a.data(), large}, max, {to, small}, {}, options);
        } else if (c.op == "max_pool_backward") {
            s = exact::max_pool_backward<Src>({a.data(), large}, {b.data(), small}, max, {to, large}, options);
        } else if (c.op == "bias_backward") {
            s = exact::bias_backward<Src, Src>({a.data(), small}, {.data_format = gk::data_format::ncx},
                                               {to, extents::filled(1, small[1])}, options);
        } else {
            throw std::runtime_error("no such operator: " + c.op);
        }
    } else {
        throw std::runtime_error("no such operator of several types: " + c.op);
    }
    ASSERT_TRUE(s.ok()) << gk::to_string(s.error());
    EXPECT_EQ(patterns(result), expected);
}

TEST(exact_golden, every_bit_is_that_of_fractions) {
    std::ifstream file(std::string(GRADKERN_GOLDEN_DIRECTORY) + "/exact.txt");
    ASSERT_TRUE(file) << "exact.txt is missing";
    const std::map<std::string, void (*)(const exact_case&)> types{
        {"f32", compute<float, float, float>},           {"f16", compute<float16, float16, float16>},
        {"bf16", compute<bfloat16, bfloat16, bfloat16>}, {"f64", compute<double, double, double>},
        {"f16/f32/f32", compute<float16, float, float>}, {"bf16/bf16/f32", compute<bfloat16, bfloat16, float>},
        {"f32/f32/f64", compute<float, float, double>},  {"f64/f32/f16", compute<double, float, float16>}};
    std::int64_t announced = 0;
    std::int64_t cases = 0;
    std::map<std::string, int> operators;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        if (line.starts_with("cases ")) {
            announced = std::stoll(line.substr(6));
            continue;
        }
        const exact_case c = parse(line);
        SCOPED_TRACE(c.problem);
        // "f32/f32/f32" and the like are one type.
        const std::string first = c.types.substr(0, c.types.find('/'));
        std::string type = first;
        std::istringstream words(c.types);
        for (std::string word; std::getline(words, word, '/');)
            if (word != first) type = c.types;
        ASSERT_TRUE(types.contains(type)) << type;
        types.at(type)(c);
        if (HasFatalFailure()) return;
        ++operators[c.op];
        ++cases;
    }
    EXPECT_EQ(cases, announced);
    EXPECT_EQ(operators.size(), 13U);
}

}  // namespace
