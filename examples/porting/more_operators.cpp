// Operators that gradkern has under another name or in two steps, each beside a plain loop.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

#include "plain.hpp"

using namespace gradkern;

namespace {

// [max_unpool]
// ONNX: Y = 0, then Y[I] = X. Indices count within the tensor Y. (torch.nn.MaxUnpool2d: within a plane, index_base::plane.)
status MaxUnpool(tensor_view<const float> X, tensor_view<const std::int64_t> I, tensor_view<float> Y,
                 const call_options& options) {
    return max_pool_backward_from_indices<float>(
        X, I, {.data_format = data_format::ncx, .index_base = index_base::tensor}, Y, options);
}
// [/max_unpool]

// [lp_pool]
// Y = (sum over the window of |X|^p)^(1/p), for p = 1 or 2. A mean whose divisor is 1 is a sum.
avg_pool_attributes sum_over(const extents& kernel, const extents& strides, const extents& begin, const extents& end) {
    return {.kernel = kernel,
            .strides = strides,
            .pads_begin = begin,
            .pads_end = end,
            .divisor_override = 1,
            .data_format = data_format::ncx};
}

status LpPool(const std::vector<float>& X, const extents& X_shape, int p, const avg_pool_attributes& sum,
              std::vector<float>& Y, const extents& Y_shape, const call_options& options) {
    std::vector<float> powers(X.size());
    std::transform(X.begin(), X.end(), powers.begin(), [p](float x) { return p == 1 ? std::abs(x) : x * x; });
    const status s = avg_pool<float>({powers.data(), X_shape}, sum, {Y.data(), Y_shape}, options);
    if (p == 2) std::transform(Y.begin(), Y.end(), Y.begin(), [](float y) { return std::sqrt(y); });
    return s;
}

// dX = |X|^(p-1) sign(X) * (sum over the windows that contain X of dY / Y^(p-1))
status LpPoolGrad(const std::vector<float>& X, const extents& X_shape, const std::vector<float>& Y,
                  const std::vector<float>& dY, const extents& Y_shape, int p, const avg_pool_attributes& sum,
                  std::vector<float>& dX, const call_options& options) {
    std::vector<float> quotients = dY;
    for (std::size_t i = 0; p == 2 && i < Y.size(); ++i) quotients[i] = Y[i] == 0 ? 0 : dY[i] / Y[i];
    const status s = avg_pool_backward<float>({quotients.data(), Y_shape}, sum, {dX.data(), X_shape}, options);
    for (std::size_t i = 0; i < X.size(); ++i) dX[i] *= p == 2 ? X[i] : static_cast<float>((X[i] > 0) - (X[i] < 0));
    return s;
}
// [/lp_pool]

// [col2im]
// ONNX Col2Im, torch.nn.Fold: columns (N, C * KH * KW, OH * OW) are summed into an image (N, C, H, W). Their memory is
// that of N * C tensors (KH * KW, OH, OW). A transposed convolution with one-hot weights adds tap k of a window where it
// belongs.
status Col2Im(const float* columns, const extents& image, const extents& block, const extents& count,
              const extents& strides, const extents& dilations, const extents& begin, const extents& end, float* Y,
              const call_options& options) {
    const std::int64_t images = image[0] * image[1], taps = block[0] * block[1];
    std::vector<float> one_hot(static_cast<std::size_t>(taps * taps));  // (1, taps, KH, KW)
    for (std::int64_t k = 0; k < taps; ++k) one_hot[static_cast<std::size_t>(k * taps + k)] = 1;
    return conv_transpose<float>({columns, {images, taps, count[0], count[1]}},
                                 {one_hot.data(), {1, taps, block[0], block[1]}}, {},
                                 {.strides = strides,
                                  .dilations = dilations,
                                  .pads_begin = begin,
                                  .pads_end = end,
                                  .data_format = data_format::ncx,
                                  .weights_format = weights_format::oix},
                                 {Y, {images, 1, image[2], image[3]}}, options);
}
// [/col2im]

// [col2im_by_indices]
// The same without products: each tap has the index of its pixel, or -1 in the padding. With stride 0, one list of indices
// is used for all images.
status Col2Im_by_indices(const float* columns, const extents& image, const extents& block, const extents& count,
                         const extents& strides, const extents& dilations, const extents& begin, float* Y,
                         const call_options& options) {
    const std::int64_t images = image[0] * image[1], taps = block[0] * block[1], windows = count[0] * count[1];
    std::vector<std::int64_t> indices;
    for (std::int64_t k = 0; k < taps; ++k)
        for (std::int64_t o = 0; o < windows; ++o) {
            const std::int64_t h = o / count[1] * strides[0] - begin[0] + k / block[1] * dilations[0];
            const std::int64_t w = o % count[1] * strides[1] - begin[1] + k % block[1] * dilations[1];
            const bool inside = 0 <= h && h < image[2] && 0 <= w && w < image[3];
            indices.push_back(inside ? h * image[3] + w : -1);
        }
    const extents shape{images, 1, taps, windows};
    return max_pool_backward_from_indices<float>({columns, shape}, {indices.data(), {shape, {0, 0, windows, 1}}},
                                                 {.data_format = data_format::ncx, .index_base = index_base::plane},
                                                 {Y, {images, 1, image[2], image[3]}}, options);
}
// [/col2im_by_indices]

void test_max_unpool(plain::report& report, const call_options& options) {
    plain::tensor X({2, 3, 2, 2}, 1), Y({2, 3, 4, 5}), wanted(Y.shape);
    std::vector<std::int64_t> I(X.values.size());
    for (std::size_t i = 0; i < I.size(); ++i)  // any element of each 2x2 window
        I[i] = static_cast<std::int64_t>(i / 4 * 20 + i / 2 % 2 * 10 + i % 2 * 2 + i % 3 % 2 * 5 + i % 5 % 2);
    for (std::size_t i = 0; i < I.size(); ++i) wanted.values[static_cast<std::size_t>(I[i])] = X.values[i];
    report.succeeded("MaxUnpool", MaxUnpool(X.view(), {I.data(), X.extents()}, Y.view(), options));
    report.equal("MaxUnpool", Y.values, wanted.values);

    // Values with the same index are added; MaxUnpool keeps one of them.
    I[1] = I[0];
    wanted.values.assign(wanted.values.size(), 0);
    for (std::size_t i = 0; i < I.size(); ++i) wanted.values[static_cast<std::size_t>(I[i])] += X.values[i];
    report.succeeded("MaxUnpool, repeated", MaxUnpool(X.view(), {I.data(), X.extents()}, Y.view(), options));
    report.equal("MaxUnpool, repeated", Y.values, wanted.values);

    // A larger output_shape: indices count within a view of a larger tensor of zeros.
    plain::tensor larger({2, 3, 6, 7});
    report.succeeded("MaxUnpool, in a view",
                     MaxUnpool(X.view(), {I.data(), X.extents()},
                               {larger.data(), {{2, 3, 4, 5}, {3 * 6 * 7, 6 * 7, 7, 1}}}, options));
    for (plain::size i = 0; i < 2 * 3 * 4 * 5; ++i)
        Y.values[static_cast<std::size_t>(i)] = larger(i / 60, i / 20 % 3, i / 5 % 4, i % 5);
    report.equal("MaxUnpool, in a view", Y.values, wanted.values);
}

void test_lp_pool(plain::report& report, const call_options& options) {
    plain::tensor X({2, 3, 7, 6}, 1), Y({2, 3, 4, 5}), dY(Y.shape, 2), dX(X.shape);
    const plain::windows h{.length = 7, .count = 4, .kernel = 3, .stride = 2, .pad = 1};
    const plain::windows w{.length = 6, .count = 5, .kernel = 3, .stride = 1, .pad = 0};
    const avg_pool_attributes sum = sum_over({3, 3}, {2, 1}, {1, 0}, {1, 1});
    for (const int p : {1, 2}) {
        plain::tensor want_Y(Y.shape), want_dX(X.shape);
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size c = 0; c < 3; ++c)
                plain::for_each_tap(h, w, [&](auto oh, auto ow, auto, auto, auto ih, auto iw) {
                    want_Y(n, c, oh, ow) += std::pow(std::abs(X(n, c, ih, iw)), static_cast<float>(p));
                });
        for (float& y : want_Y.values) y = std::pow(y, 1.0F / static_cast<float>(p));
        std::vector<double> exact(X.values.size());  // dX[i] = sum of dY * sign(X) * |X|^(p-1) / Y^(p-1)
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size c = 0; c < 3; ++c)
                plain::for_each_tap(h, w, [&](auto oh, auto ow, auto, auto, auto ih, auto iw) {
                    const double x = X(n, c, ih, iw), y = want_Y(n, c, oh, ow), sign = (x > 0) - (x < 0);
                    exact[static_cast<std::size_t>(&X(n, c, ih, iw) - X.data())] +=
                        dY(n, c, oh, ow) * (p == 1 ? sign : x / y);
                });
        report.succeeded("LpPool", LpPool(X.values, X.extents(), p, sum, Y.values, Y.extents(), options));
        report.succeeded("LpPoolGrad", LpPoolGrad(X.values, X.extents(), Y.values, dY.values, Y.extents(), p, sum,
                                                  dX.values, options));
        report.equal("LpPool", Y.values, want_Y.values);
        for (std::size_t i = 0; i < exact.size(); ++i)
            report.holds("LpPoolGrad", std::abs(static_cast<double>(dX.values[i]) - exact[i]) <= 1e-5);
    }
}

void test_col2im(plain::report& report, const call_options& options) {
    // An image (2, 3, 8, 7), block (3, 2), strides (2, 1), dilations (1, 3), pads [1, 0, 1, 2]: 4 x 6 windows
    plain::tensor columns({2, 3, 3 * 2, 4 * 6}, 1), Y({2, 3, 8, 7}), wanted(Y.shape);
    const plain::windows h{.length = 8, .count = 4, .kernel = 3, .stride = 2, .pad = 1, .dilation = 1};
    const plain::windows w{.length = 7, .count = 6, .kernel = 2, .stride = 1, .pad = 0, .dilation = 3};
    const float infinity = std::numeric_limits<float>::infinity();
    for (const bool finite : {true, false}) {
        if (!finite) columns(1, 2, 1, 9) = infinity;
        wanted.values.assign(wanted.values.size(), 0);
        for (plain::size n = 0; n < 2; ++n)
            for (plain::size c = 0; c < 3; ++c)
                plain::for_each_tap(h, w, [&](auto oh, auto ow, auto kh, auto kw, auto ih, auto iw) {
                    wanted(n, c, ih, iw) += columns(n, c, kh * 2 + kw, oh * 6 + ow);
                });
        if (finite) {
            report.succeeded("Col2Im", Col2Im(columns.data(), Y.extents(), {3, 2}, {4, 6}, {2, 1}, {1, 3}, {1, 0},
                                              {1, 2}, Y.data(), options));
            report.equal("Col2Im", Y.values, wanted.values);
        }
        report.succeeded("Col2Im by indices", Col2Im_by_indices(columns.data(), Y.extents(), {3, 2}, {4, 6}, {2, 1},
                                                                {1, 3}, {1, 0}, Y.data(), options));
        report.equal("Col2Im by indices", Y.values, wanted.values);
    }
}

}  // namespace

int main() {
    plain::report report;
    const workspace memory(1 << 22);
    const call_options options{.workspace = memory};
    test_max_unpool(report, options);
    test_lp_pool(report, options);
    test_col2im(report, options);
    return report.result();
}
