// Prints, as JSON, what the pictures of docs/ show: which taps of which window touch which position, divisors, maxima, and
// where elements lie. Every number comes from an operator, found with inputs that are zero but for one element.
//
// docs/site/draw.py makes the pictures. The test docs_windows compares what this prints with docs/images/windows.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <string_view>
#include <vector>

#include <gradkern/error_text.hpp>
#include <gradkern/gradkern.hpp>

using namespace gradkern;

namespace {

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

void require(const status& s) {
    if (s) return;
    std::cerr << s << '\n';
    std::exit(1);
}

extents require(const result<extents>& shape) {
    if (!shape) require(status(shape.error()));
    return *shape;
}

template <class T>
void print(std::string_view key, const std::vector<T>& values) {
    std::cout << ", \"" << key << "\": [";
    for (std::size_t i = 0; i < values.size(); ++i) std::cout << (i ? ", " : "") << +values[i];
    std::cout << ']';
}

// Of each small position o, the taps inside as pairs: tap, position on the large side.
class windows {
public:
    explicit windows(std::int64_t small) : taps_(size_of(small)) {}

    void add(std::int64_t o, std::int64_t tap, std::int64_t position) {
        taps_[size_of(o)].push_back(tap);
        taps_[size_of(o)].push_back(position);
    }

    void print() const {
        std::cout << ", \"windows\": [";
        for (std::size_t o = 0; o < taps_.size(); ++o) {
            std::cout << (o ? ", [" : "[");
            for (std::size_t i = 0; i < taps_[o].size(); i += 2)
                std::cout << (i ? ", [" : "[") << taps_[o][i] << ", " << taps_[o][i + 1] << ']';
            std::cout << ']';
        }
        std::cout << ']';
    }

private:
    std::vector<std::vector<std::int64_t>> taps_;
};

bool first = true;

void begin(std::string_view name, std::int64_t large, std::int64_t small) {
    std::cout << (first ? "{\n" : ",\n") << "  \"" << name << "\": {\"large\": " << large << ", \"small\": " << small;
    first = false;
}

// Weights 1, 2, 3, ...: an output that sees only a one is the number of its tap, plus 1.
std::vector<float> numbered(std::int64_t kernel) {
    std::vector<float> w(size_of(kernel));
    for (std::size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>(k + 1);
    return w;
}

void convolution_windows(std::string_view name, std::int64_t large, std::int64_t kernel,
                         const convolution_attributes& attributes) {
    const extents src{1, large, 1}, weights{kernel, 1, 1};
    const extents dst = require(infer_convolution(src, weights, attributes));
    const std::vector<float> w = numbered(kernel);
    windows found(dst[1]);
    std::vector<float> y(size_of(dst[1]));
    for (std::int64_t p = 0; p < large; ++p) {
        std::vector<float> x(size_of(large));
        x[size_of(p)] = 1;
        require(convolution<float>({x.data(), src}, {w.data(), weights}, {}, attributes, {y.data(), dst}));
        for (std::int64_t o = 0; o < dst[1]; ++o)
            if (y[size_of(o)] > 0) found.add(o, static_cast<std::int64_t>(y[size_of(o)]) - 1, p);
    }
    begin(name, large, dst[1]);
    found.print();
    std::cout << '}';
}

void transposed_windows(std::string_view name, std::int64_t small, std::int64_t kernel,
                        const conv_transpose_attributes& attributes) {
    const extents src{1, small, 1}, weights{kernel, 1, 1};
    const extents dst = require(infer_conv_transpose(src, weights, attributes));
    const std::vector<float> w = numbered(kernel);
    windows found(small);
    std::vector<float> y(size_of(dst[1]));
    for (std::int64_t o = 0; o < small; ++o) {
        std::vector<float> x(size_of(small));
        x[size_of(o)] = 1;
        require(conv_transpose<float>({x.data(), src}, {w.data(), weights}, {}, attributes, {y.data(), dst}));
        for (std::int64_t q = 0; q < dst[1]; ++q)
            if (y[size_of(q)] > 0) found.add(o, static_cast<std::int64_t>(y[size_of(q)]) - 1, q);
    }
    begin(name, dst[1], small);
    found.print();
    std::cout << '}';
}

// The taps of a pool have no numbers: the first tap of window o is at o * stride - pads_begin. Dilation is 1.
void pool_windows(std::string_view name, std::int64_t large, avg_pool_attributes attributes) {
    const extents src{1, large, 1};
    const extents dst = require(infer_avg_pool(src, attributes));
    std::vector<float> x(size_of(large), 1), y(size_of(dst[1])), sums(size_of(dst[1]));
    require(avg_pool<float>({x.data(), src}, attributes, {y.data(), dst}));
    attributes.divisor_override = 1;
    require(avg_pool<float>({x.data(), src}, attributes, {sums.data(), dst}));
    std::vector<std::int64_t> divisors;
    for (std::size_t o = 0; o < y.size(); ++o)  // a window without taps inside has no divisor
        divisors.push_back(y[o] > 0 ? static_cast<std::int64_t>(sums[o] / y[o] + 0.5F) : 0);
    windows found(dst[1]);
    for (std::int64_t p = 0; p < large; ++p) {
        x.assign(x.size(), 0);
        x[size_of(p)] = 1;
        require(avg_pool<float>({x.data(), src}, attributes, {y.data(), dst}));
        for (std::int64_t o = 0; o < dst[1]; ++o)
            if (y[size_of(o)] > 0) found.add(o, p - (o * attributes.strides[0] - attributes.pads_begin[0]), p);
    }
    begin(name, large, dst[1]);
    found.print();
    print("divisors", divisors);
    std::cout << '}';
}

// A plane of 4 x 4 with windows of 3 x 3, one step apart: maxima, their indices, and where gradients go.
void maxima() {
    const std::vector<float> src{2, 7, 1, 3, 0, 4, 6, 2, 5, 1, 3, 9, 8, 2, 0, 1}, diff_dst{1, 2, 3, 4};
    const max_pool_attributes attributes{.kernel = {3, 3}, .strides = {1, 1}};
    const extents large{1, 4, 4, 1}, small{1, 2, 2, 1};
    std::vector<float> dst(4), diff_src(16);
    std::vector<std::int64_t> indices(4);
    require(max_pool<float>({src.data(), large}, attributes, {dst.data(), small}, {indices.data(), small}));
    require(
        max_pool_backward<float>({src.data(), large}, {diff_dst.data(), small}, attributes, {diff_src.data(), large}));
    begin("maxima", 4, 2);
    print("src", src);
    print("dst", dst);
    print("indices", indices);
    print("diff_dst", diff_dst);
    print("diff_src", diff_src);
    std::cout << '}';
}

// Two channels of 2 x 3 pixels. Indices within an image count with channels innermost, so that those of the maxima of 1 x 1
// windows in NCX tell where each element lies in NXC.
void memory_order() {
    const max_pool_attributes attributes{
        .kernel = {1, 1}, .strides = {1, 1}, .data_format = data_format::ncx, .index_base = index_base::image};
    const extents shape{1, 2, 2, 3};
    const std::vector<float> src(12);
    std::vector<float> dst(12);
    std::vector<std::int64_t> nxc(12);
    require(max_pool<float>({src.data(), shape}, attributes, {dst.data(), shape}, {nxc.data(), shape}));
    begin("memory_order", 3, 2);
    print("nxc", nxc);
    std::cout << '}';
}

}  // namespace

int main() {
    convolution_windows("window", 6, 3, {.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}});
    convolution_windows("stride", 7, 3, {.strides = {2}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}});
    convolution_windows("dilation", 7, 3, {.strides = {1}, .dilations = {2}, .pads_begin = {2}, .pads_end = {2}});
    convolution_windows("stride_and_dilation", 7, 3,
                        {.strides = {2}, .dilations = {2}, .pads_begin = {2}, .pads_end = {2}});
    convolution_windows("valid", 6, 3, {.strides = {2}, .dilations = {1}, .auto_pad = auto_pad::valid});
    convolution_windows("same_upper", 6, 3, {.strides = {2}, .dilations = {1}, .auto_pad = auto_pad::same_upper});
    convolution_windows("same_lower", 6, 3, {.strides = {2}, .dilations = {1}, .auto_pad = auto_pad::same_lower});

    avg_pool_attributes pool{.kernel = {3}, .strides = {2}, .pads_begin = {0}, .pads_end = {0}};
    pool_windows("floor", 6, pool);
    pool.rounding_type = rounding_type::ceil;
    pool_windows("ceil", 6, pool);
    pool = {.kernel = {2}, .strides = {2}, .pads_begin = {1}, .pads_end = {1}, .rounding_type = rounding_type::ceil};
    pool_windows("ceil_beyond", 5, pool);
    pool.rounding_type = rounding_type::ceil_torch;
    pool_windows("ceil_torch", 5, pool);
    pool = {.kernel = {3}, .strides = {2}, .pads_begin = {1}, .pads_end = {1}, .rounding_type = rounding_type::ceil};
    pool_windows("include_pad", 6, pool);
    pool.exclude_pad = true;
    pool_windows("exclude_pad", 6, pool);

    transposed_windows("transposed", 3, 3,
                       {.strides = {2}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}, .output_padding = {1}});
    transposed_windows("transposed_same", 3, 3, {.strides = {2}, .dilations = {1}, .auto_pad = auto_pad::same_upper});
    maxima();
    memory_order();
    std::cout << "\n}\n";
}
