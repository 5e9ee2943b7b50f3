// Forward operators of ONNX as calls of gradkern, each beside a plain loop.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

#include "plain.hpp"

using namespace gradkern;

namespace {

// [attributes]
using ints = std::span<const std::int64_t>;

// `pads` has all begins, then all ends.
extents begins(ints pads) { return extents(pads.first(pads.size() / 2)); }
extents ends(ints pads) { return extents(pads.last(pads.size() / 2)); }

// The words of auto_pad: NOTSET, VALID, SAME_UPPER, SAME_LOWER.
constexpr status unknown_word(std::string_view op) {
    return error{.code = errc::invalid_argument, .op = op, .argument = "auto_pad", .relation = expectation::none};
}
// [/attributes]

// [conv]
status Conv(tensor_view<const float> X, tensor_view<const float> W, tensor_view<const float> B,
            std::string_view auto_pad, ints dilations, std::int64_t group, ints pads, ints strides,
            tensor_view<float> Y, const call_options& options) {
    convolution_attributes a{.strides = extents(strides),
                             .dilations = extents(dilations),
                             .pads_begin = begins(pads),
                             .pads_end = ends(pads),
                             .groups = group,
                             .data_format = data_format::ncx,
                             .weights_format = weights_format::oix};
    if (!parse(auto_pad, a.auto_pad)) return unknown_word("Conv");
    return convolution<float>(X, W, B, a, Y, options);
}
// [/conv]

// [conv_transpose]
// W is (C, M / group, K...), gradkern's OIX is (M / group, C, K...): swap the strides of the first two axes.
tensor_layout oix_of(const extents& W) {
    tensor_layout oix(W, W);
    std::int64_t step = 1;
    for (std::size_t axis = W.rank(); axis-- > 0; step *= W[axis]) oix.strides[axis] = step;
    std::swap(oix.shape[0], oix.shape[1]);
    std::swap(oix.strides[0], oix.strides[1]);
    return oix;
}

// If output_shape is given, it determines the pads. Their total is the excess length of the result. The larger half of an
// odd total is at the end for SAME_UPPER, and at the beginning for every other auto_pad, including NOTSET.
status ConvTranspose(tensor_view<const float> X, tensor_view<const float> W, tensor_view<const float> B,
                     std::string_view auto_pad, ints dilations, std::int64_t group, ints output_padding,
                     ints output_shape, ints pads, ints strides, tensor_view<float> Y, const call_options& options) {
    conv_transpose_attributes a{.strides = extents(strides),
                                .dilations = extents(dilations),
                                .pads_begin = begins(pads),
                                .pads_end = ends(pads),
                                .output_padding = extents(output_padding),
                                .groups = group,
                                .data_format = data_format::ncx,
                                .weights_format = weights_format::oix};
    if (!parse(auto_pad, a.auto_pad)) return unknown_word("ConvTranspose");
    if (!output_shape.empty()) {
        a.pads_begin = a.pads_end = extents{};
        for (std::size_t axis = 0; axis < output_shape.size(); ++axis) {
            const std::int64_t reach = (W.layout.shape[2 + axis] - 1) * dilations[axis] + 1;
            const std::int64_t padding = output_padding.empty() ? 0 : output_padding[axis];
            const std::int64_t longest = strides[axis] * (X.layout.shape[2 + axis] - 1) + reach + padding;
            const std::int64_t total = std::max<std::int64_t>(0, longest - output_shape[axis]);
            const std::int64_t begin = a.auto_pad == gradkern::auto_pad::same_upper ? total / 2 : total - total / 2;
            a.pads_begin.push_back(begin);
            a.pads_end.push_back(total - begin);
        }
        a.auto_pad = gradkern::auto_pad::none;
        a.output_padding = {};  // absent: Y decides
    }
    return conv_transpose<float>(X, {W.data, oix_of(W.layout.shape)}, B, a, Y, options);
}
// [/conv_transpose]

// [pools]
status AveragePool(tensor_view<const float> X, std::string_view auto_pad, std::int64_t ceil_mode,
                   std::int64_t count_include_pad, ints dilations, ints kernel_shape, ints pads, ints strides,
                   tensor_view<float> Y, const call_options& options) {
    avg_pool_attributes a{.kernel = extents(kernel_shape),
                          .strides = extents(strides),
                          .pads_begin = begins(pads),
                          .pads_end = ends(pads),
                          .dilations = extents(dilations),
                          .exclude_pad = count_include_pad == 0,
                          .rounding_type = ceil_mode == 0 ? rounding_type::floor : rounding_type::ceil_torch,
                          .data_format = data_format::ncx};
    if (!parse(auto_pad, a.auto_pad)) return unknown_word("AveragePool");
    return avg_pool<float>(X, a, Y, options);
}

// Indices may be {}.
status MaxPool(tensor_view<const float> X, std::string_view auto_pad, std::int64_t ceil_mode, ints dilations,
               ints kernel_shape, ints pads, std::int64_t storage_order, ints strides, tensor_view<float> Y,
               tensor_view<std::int64_t> Indices, const call_options& options) {
    max_pool_attributes a{.kernel = extents(kernel_shape),
                          .strides = extents(strides),
                          .pads_begin = begins(pads),
                          .pads_end = ends(pads),
                          .dilations = extents(dilations),
                          .rounding_type = ceil_mode == 0 ? rounding_type::floor : rounding_type::ceil_torch,
                          .data_format = data_format::ncx,
                          .index_base = index_base::tensor,
                          .storage_order = storage_order == 0 ? gradkern::storage_order::row_major
                                                              : gradkern::storage_order::column_major};
    if (!parse(auto_pad, a.auto_pad)) return unknown_word("MaxPool");
    return max_pool<float>(X, a, Y, Indices, options);
}

// One window covers the image; Y is (N, C, 1, 1).
extents image_of(const extents& X) { return extents(X.values().subspan(2)); }

status GlobalAveragePool(tensor_view<const float> X, tensor_view<float> Y, const call_options& options) {
    const extents image = image_of(X.layout.shape);
    return avg_pool<float>(X, {.kernel = image, .strides = image, .data_format = data_format::ncx}, Y, options);
}

status GlobalMaxPool(tensor_view<const float> X, tensor_view<float> Y, const call_options& options) {
    const extents image = image_of(X.layout.shape);
    return max_pool<float>(X, {.kernel = image, .strides = image, .data_format = data_format::ncx}, Y, {}, options);
}
// [/pools]

// ------------------------------------------------------------------------------------------------------- plain loops

void test_conv(plain::report& report, const call_options& options) {
    // X (2, 4, 9, 10), W (6, 2, 4, 3), strides (2, 3), two groups
    struct row {
        std::string_view auto_pad;
        std::vector<std::int64_t> pads;
        plain::size height, width, top, left;
    };
    const std::vector<row> rows{
        {"NOTSET", {1, 0, 2, 1}, 5, 3, 1, 0},
        {"VALID", {0, 0, 0, 0}, 3, 3, 0, 0},
        {"SAME_UPPER", {0, 0, 0, 0}, 5, 4, 1, 1},  // totals 3 and 2
        {"SAME_LOWER", {0, 0, 0, 0}, 5, 4, 2, 1},
    };
    plain::tensor X({2, 4, 9, 10}, 1), W({6, 2, 4, 3}, 2), B({1, 1, 1, 6}, 3);
    for (const row& r : rows) {
        plain::tensor Y({2, 6, r.height, r.width}), wanted(Y.shape);
        const plain::windows h{.length = 9, .count = r.height, .kernel = 4, .stride = 2, .pad = r.top};
        const plain::windows w{.length = 10, .count = r.width, .kernel = 3, .stride = 3, .pad = r.left};
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size o = 0; o < 6; ++o) {
                for (plain::size oh = 0; oh < r.height; ++oh)
                    for (plain::size ow = 0; ow < r.width; ++ow) wanted(n, o, oh, ow) = B(0, 0, 0, o);
                for (plain::size i = 0; i < 2; ++i)
                    plain::for_each_tap(h, w, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                        wanted(n, o, oh, ow) += X(n, o / 3 * 2 + i, ih, iw) * W(o, i, kh, kw);
                    });
            }
        const std::array<std::int64_t, 2> dilations{1, 1}, strides{2, 3};
        report.succeeded(r.auto_pad, Conv(X.view(), W.view(), {B.data(), {6}}, r.auto_pad, dilations, 2, r.pads,
                                          strides, Y.view(), options));
        report.equal(r.auto_pad, Y.values, wanted.values);
    }
    report.holds("an unknown auto_pad is refused",
                 Conv(X.view(), W.view(), {}, "SAME", {}, 2, {}, {}, {}, options).code() == errc::invalid_argument);
}

void test_conv_transpose(plain::report& report, const call_options& options) {
    // X (2, 4, 4, 5), W (4, 3, 4, 3), strides (2, 3), two groups: without pads the result has (10, 15) pixels
    struct row {
        std::string_view auto_pad;
        std::vector<std::int64_t> output_padding, output_shape, pads;
        plain::size height, width, top, left;
    };
    const std::vector<row> rows{
        {"NOTSET", {}, {}, {1, 0, 1, 2}, 8, 13, 1, 0}, {"NOTSET", {1, 2}, {}, {1, 0, 1, 2}, 9, 15, 1, 0},
        {"VALID", {}, {}, {}, 10, 15, 0, 0},           {"SAME_UPPER", {}, {}, {}, 8, 15, 1, 0},
        {"NOTSET", {}, {7, 14}, {}, 7, 14, 2, 1},  // totals 3 and 1, the larger halves at the beginning
        {"SAME_LOWER", {}, {7, 14}, {}, 7, 14, 2, 1},  {"SAME_UPPER", {}, {7, 14}, {}, 7, 14, 1, 0},
        {"NOTSET", {}, {5, 12}, {}, 5, 12, 3, 2},                                                     // totals 5 and 3
        {"VALID", {}, {5, 12}, {}, 5, 12, 3, 2},       {"NOTSET", {1, 2}, {9, 14}, {}, 9, 14, 1, 2},  // totals 2 and 3
        {"NOTSET", {}, {11, 16}, {}, 11, 16, 0, 0},  // beyond the last tap: the rest is the bias
    };
    plain::tensor X({2, 4, 4, 5}, 1), W({4, 3, 4, 3}, 2), B({1, 1, 1, 6}, 3);
    const std::array<std::int64_t, 2> dilations{1, 1}, strides{2, 3};
    for (const row& r : rows) {
        plain::tensor Y({2, 6, r.height, r.width}), wanted(Y.shape);
        const plain::windows h{.length = r.height, .count = 4, .kernel = 4, .stride = 2, .pad = r.top};
        const plain::windows w{.length = r.width, .count = 5, .kernel = 3, .stride = 3, .pad = r.left};
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size o = 0; o < 6; ++o) {
                for (plain::size oh = 0; oh < r.height; ++oh)
                    for (plain::size ow = 0; ow < r.width; ++ow) wanted(n, o, oh, ow) = B(0, 0, 0, o);
                for (plain::size i = o / 3 * 2; i < o / 3 * 2 + 2; ++i)
                    plain::for_each_tap(h, w, [&](auto ih, auto iw, auto kh, auto kw, auto oh, auto ow) {
                        wanted(n, o, oh, ow) += X(n, i, ih, iw) * W(i, o % 3, kh, kw);
                    });
            }
        report.succeeded(r.auto_pad,
                         ConvTranspose(X.view(), W.view(), {B.data(), {6}}, r.auto_pad, dilations, 2, r.output_padding,
                                       r.output_shape, r.pads, strides, Y.view(), options));
        report.equal(r.auto_pad, Y.values, wanted.values);
    }
    plain::tensor Y({2, 6, 5, 12});
    report.holds("same_lower is another rule: it refuses (5, 12)",
                 !conv_transpose<float>(X.view(), {W.data(), oix_of(W.extents())}, {},
                                        {.strides = {2, 3},
                                         .dilations = {1, 1},
                                         .auto_pad = auto_pad::same_lower,
                                         .groups = 2,
                                         .data_format = data_format::ncx,
                                         .weights_format = weights_format::oix},
                                        Y.view(), options));
}

void test_average_pool(plain::report& report, const call_options& options) {
    // X (2, 3, 8, 7), kernel (3, 2), strides (2, 2), pads [1, 0, 1, 1]
    plain::tensor X({2, 3, 8, 7}, 1);
    const std::array<std::int64_t, 2> kernel{3, 2}, strides{2, 2}, dilations{1, 1};
    const std::array<std::int64_t, 4> pads{1, 0, 1, 1};
    for (const int ceil_mode : {0, 1})
        for (const int count_include_pad : {0, 1}) {
            const plain::size height = ceil_mode == 0 ? 4 : 5, width = 4;
            plain::tensor Y({2, 3, height, width}), wanted(Y.shape), divisors(Y.shape);
            const plain::windows h{.length = 8, .count = height, .kernel = 3, .stride = 2, .pad = 1};
            const plain::windows w{.length = 7, .count = width, .kernel = 2, .stride = 2, .pad = 0};
            for (plain::size n = 0; n < 2; ++n)
                for (plain::size c = 0; c < 3; ++c) {
                    plain::for_each_tap(h, w, [&](auto oh, auto ow, auto, auto, auto ih, auto iw) {
                        wanted(n, c, oh, ow) += X(n, c, ih, iw);
                        if (count_include_pad == 0) divisors(n, c, oh, ow) += 1;
                    });
                    for (plain::size oh = 0; oh < height; ++oh)
                        for (plain::size ow = 0; ow < width; ++ow)
                            for (plain::size k = 0; count_include_pad == 1 && k < 3 * 2; ++k)
                                if (h.at(oh, k / 2) < 8 + 1 && w.at(ow, k % 2) < 7 + 1) divisors(n, c, oh, ow) += 1;
                }
            for (std::size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] /= divisors.values[i];
            report.succeeded("AveragePool", AveragePool(X.view(), "NOTSET", ceil_mode, count_include_pad, dilations,
                                                        kernel, pads, strides, Y.view(), options));
            report.equal("AveragePool", Y.values, wanted.values);
        }
}

void test_max_pool(plain::report& report, const call_options& options) {
    // X (2, 3, 11, 9), kernel (3, 2), strides (2, 3), dilations (2, 1), pads [1, 1, 1, 0]
    plain::tensor X({2, 3, 11, 9}, 1);
    const std::array<std::int64_t, 2> kernel{3, 2}, strides{2, 3}, dilations{2, 1};
    const std::array<std::int64_t, 4> pads{1, 1, 1, 0};
    for (const int mode : {0, 1, 2, 3}) {
        const int ceil_mode = mode / 2, storage_order = mode % 2;
        const plain::windows h{.length = 11, .count = 5, .kernel = 3, .stride = 2, .pad = 1, .dilation = 2};
        const plain::windows w{.length = 9, .count = 3 + ceil_mode, .kernel = 2, .stride = 3, .pad = 1};
        plain::tensor Y({2, 3, h.count, w.count}), wanted(Y.shape);
        std::vector<std::int64_t> indices(Y.values.size(), -2), want_indices(indices.size(), -1);
        for (float& v : wanted.values) v = -std::numeric_limits<float>::infinity();
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size c = 0; c < 3; ++c)
                plain::for_each_tap(h, w, [&](auto oh, auto ow, auto, auto, auto ih, auto iw) {
                    float& best = wanted(n, c, oh, ow);
                    if (!(X(n, c, ih, iw) > best)) return;
                    best = X(n, c, ih, iw);
                    const plain::size place = storage_order == 0 ? ih * 9 + iw : ih + iw * 11;
                    want_indices[static_cast<std::size_t>(&best - wanted.data())] = (n * 3 + c) * 11 * 9 + place;
                });
        report.succeeded("MaxPool", MaxPool(X.view(), "NOTSET", ceil_mode, dilations, kernel, pads, storage_order,
                                            strides, Y.view(), {indices.data(), Y.extents()}, options));
        report.equal("MaxPool", Y.values, wanted.values);
        report.holds("MaxPool: Indices", indices == want_indices);
    }
}

void test_global_pools(plain::report& report, const call_options& options) {
    plain::tensor X({2, 3, 4, 8}, 1), mean({2, 3, 1, 1}), maximum(mean.shape);
    plain::tensor want_mean(mean.shape), want_maximum(mean.shape);
    for (float& v : want_maximum.values) v = -std::numeric_limits<float>::infinity();
    for (plain::size n = 0; n < 2; ++n)
        for (plain::size c = 0; c < 3; ++c)
            for (plain::size i = 0; i < 32; ++i) {
                want_mean(n, c, 0, 0) += X(n, c, i / 8, i % 8) / 32;
                want_maximum(n, c, 0, 0) = std::max(want_maximum(n, c, 0, 0), X(n, c, i / 8, i % 8));
            }
    report.succeeded("GlobalAveragePool", GlobalAveragePool(X.view(), mean.view(), options));
    report.succeeded("GlobalMaxPool", GlobalMaxPool(X.view(), maximum.view(), options));
    report.equal("GlobalAveragePool", mean.values, want_mean.values);
    report.equal("GlobalMaxPool", maximum.values, want_maximum.values);
}

}  // namespace

int main() {
    plain::report report;
    const workspace memory(1 << 22);
    const call_options options{.workspace = memory};
    test_conv(report, options);
    test_conv_transpose(report, options);
    test_average_pool(report, options);
    test_max_pool(report, options);
    test_global_pools(report, options);
    return report.result();
}
