// The code of docs/testing.md.
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <vector>

#include <gradkern/gradkern.hpp>
#include <gradkern/ref/lp_pool.hpp>
#include <gradkern/testing.hpp>

using namespace gradkern;

// [compare]
// Somebody's average gradient: 3x3 windows, stride 2, of 9 x 9 images. Is it right?
test::report judge(const std::vector<float>& dy, const std::vector<float>& dx) {
    const avg_pool_attributes pool{.kernel = {3, 3}, .strides = {2, 2}, .data_format = data_format::ncx};
    return test::compare(tensor_view(dx.data(), {1, 8, 9, 9}), {test::operation::avg_pool_backward, pool},
                         {.diff_dst = tensor_view(dy.data(), {1, 8, 4, 4})});
}
// [/compare]

// [accumulate]
// A weight gradient in f32 of bf16 tensors that adds to what `dw` held before. The kernel adds 1000 products one by one.
test::report judge_sum(const std::vector<bfloat16>& x, const std::vector<bfloat16>& dy,
                       const std::vector<float>& before, const std::vector<float>& dw) {
    const convolution_attributes layer{.strides = {1}, .dilations = {1}};
    const plan_options adds{.output = output_mode::accumulate};
    return test::compare(tensor_view(dw.data(), {1, 2, 3}),
                         {test::operation::convolution_backward_weights, layer, adds},
                         {.src = tensor_view(x.data(), {1, 1000, 2}),
                          .diff_dst = tensor_view(dy.data(), {1, 1000, 3}),
                          .previous = tensor_view(before.data(), {1, 2, 3})},
                         {.roundings = 1000});
}
// [/accumulate]

// [fill]
// The same numbers on every machine. Operand 0 is multiplied by operand 1.
status make_inputs(std::vector<float16>& x, std::vector<float16>& w) {
    if (const status s = test::fill(tensor_view(x.data(), {1, 8, 8, 4}), test::pattern::cancelling, 1, 0); !s) return s;
    return test::fill(tensor_view(w.data(), {3, 3, 4, 5}), test::pattern::cancelling, 2, 1);
}
// [/fill]

// [adjoint]
// <y, A x> = <A^T y, x> for a convolution and its data gradient.
test::derivative_report check_pair(const std::vector<float>& w) {
    const extents src{1, 8, 8, 4}, weights{3, 3, 4, 5}, dst{1, 6, 6, 5};
    const convolution_attributes layer{.strides = {1, 1}, .dilations = {1, 1}};
    const auto forward = [&](std::span<const float> x, std::span<float> y) {
        return convolution<float>({x.data(), src}, {w.data(), weights}, {}, layer, {y.data(), dst});
    };
    const auto backward = [&](std::span<const float> y, std::span<float> x) {
        return convolution_backward_data<float>({y.data(), dst}, {w.data(), weights}, layer, {x.data(), src});
    };
    return test::check_adjoint<float>(forward, backward, 8 * 8 * 4, 6 * 6 * 5);
}
// [/adjoint]

// [finite_differences]
// The gradient of norms, in f64, against central differences at x.
test::derivative_report check_norms(const std::vector<double>& x) {
    const lp_pool_attributes pool{.kernel = {3}, .strides = {2}};
    const extents src{1, 9, 2}, dst{1, 4, 2};
    const auto norms = [&](std::span<const double> in, std::span<double> out) {
        return ref::lp_pool<double>({in.data(), src}, pool, {out.data(), dst});
    };
    const auto gradient = [&](std::span<const double> in, std::span<const double> dy, std::span<double> dx) {
        std::vector<double> y(8);
        if (const status s = norms(in, y); !s) return s;
        return ref::lp_pool_backward<double>({in.data(), src}, {y.data(), dst}, {dy.data(), dst}, pool,
                                             {dx.data(), src});
    };
    return test::check_gradient<double>(norms, gradient, x, 8);
}
// [/finite_differences]

int main() {
    std::vector<float> dy(8 * 4 * 4, 9), dx(8 * 9 * 9);
    const avg_pool_attributes pool{.kernel = {3, 3}, .strides = {2, 2}, .data_format = data_format::ncx};
    bool ok = avg_pool_backward<float>({dy.data(), {1, 8, 4, 4}}, pool, {dx.data(), {1, 8, 9, 9}}).ok();
    ok = ok && judge(dy, dx).ok();
    dx[100] += 1;
    ok = ok && !judge(dy, dx).ok();

    std::vector<bfloat16> x(2000), dz(3000);
    std::vector<float> before(6, 1), dw(6, 1);
    ok = ok && test::fill(tensor_view(x.data(), {1, 1000, 2}), test::pattern::uniform, 1, 0).ok() &&
         test::fill(tensor_view(dz.data(), {1, 1000, 3}), test::pattern::uniform, 2, 1).ok();
    for (std::size_t i = 0; i < 1000; ++i)
        for (std::size_t c = 0; c < 6; ++c)
            dw[c] += static_cast<float>(x[i * 2 + c / 3]) * static_cast<float>(dz[i * 3 + c % 3]);
    ok = ok && judge_sum(x, dz, before, dw).ok() && !judge_sum(x, dz, dw, dw).ok();

    std::vector<float16> halves(8 * 8 * 4), taps(3 * 3 * 4 * 5);
    ok = ok && make_inputs(halves, taps).ok();
    std::vector<float> w(3 * 3 * 4 * 5);
    ok = ok && test::fill(tensor_view(w.data(), {3, 3, 4, 5}), test::pattern::uniform, 3, 1).ok();
    ok = ok && check_pair(w).ok();
    std::vector<double> point(18);
    for (std::size_t i = 0; i < point.size(); ++i) point[i] = 1 + static_cast<double>(i * 5 % 11) / 8;
    ok = ok && check_norms(point).ok();
    std::cout << (ok ? "all as docs/testing.md says\n" : "docs/testing.md is wrong\n");
    return ok ? 0 : 1;
}
