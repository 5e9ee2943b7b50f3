// Kernels with a mistake planted in them: every one is refused, and the same kernel without it is not.
//
// The kernels are naive loops in NCX and OIX, two spatial axes, as people write them in their tests. `fault` says which mistake
// a kernel makes; each is one expression in the loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gradkern/testing/gtest.hpp>

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::test::operation;
using gk::test::pattern;

enum class fault {
    none,
    // sums of products
    transposed_taps,
    wrong_tap_at_border,
    flipped_kernel,
    swapped_strides,
    padding_off_by_one,
    dilation_ignored,
    groups_mixed,
    image_dropped,
    last_row_missing,
    last_channel_missing,
    bias_twice,
    bias_missing,
    accumulate_ignored,
    accumulated_twice,
    zeros_skipped,
    padding_multiplied,
    subnormals_flushed,
    truncating_conversion,
    double_rounding_through_f16,
    saturating_conversion,
    sums_in_16_bits,
    batch_in_16_bits,
    products_in_16_bits,
    additions_towards_zero,
    last_position_missing,
    stale_rows,
    // pools
    divisor_at_border,
    divisor_with_padding,
    gradient_assigned,
    last_maximum,
    nan_ignored,
    padding_is_zero,
    root_missing,
    division_by_zero_norm
};

template <class T>
float load(const T& v) {
    return static_cast<float>(v);
}
/// A float as a number of T, as the kernel converts it.
template <class T>
T convert(float v, fault f) {
    if constexpr (sizeof(T) == 4) {
        return f == fault::double_rounding_through_f16 ? static_cast<float>(gk::float16(v)) : v;
    } else {
        if (f == fault::truncating_conversion && std::is_same_v<T, gk::bfloat16> && !std::isnan(v))
            return T::from_bits(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16));
        const T rounded(v);
        if (f == fault::saturating_conversion && std::isinf(load(rounded)) && !std::isinf(v))
            return std::is_same_v<T, gk::float16> ? T(v < 0 ? -65504.0F : 65504.0F)
                                                  : T(v < 0 ? -0x1.fep127F : 0x1.fep127F);
        return rounded;
    }
}
/// a + b, rounded as the kernel adds.
template <class T>
float add(float a, float b, fault f) {
    if (f == fault::sums_in_16_bits) return load(T(a + b));
    if (f == fault::additions_towards_zero) {
        const double exact = static_cast<double>(a) + static_cast<double>(b);
        const auto sum = static_cast<float>(exact);
        return std::fabs(static_cast<double>(sum)) > std::fabs(exact) ? std::nextafter(sum, 0.0F) : sum;
    }
    return a + b;
}
template <class T>
float multiply(float a, float b, fault f) {
    const float product = a * b;
    if (f == fault::products_in_16_bits) return load(T(product));
    if (f == fault::subnormals_flushed && std::fabs(product) < 0x1p-126F) return 0;
    return product;
}

/// A layer of two spatial axes. Convolution and its gradients; pools use the sizes of images alone.
struct layer {
    int n = 2, groups = 2, ic = 6, oc = 4, ih = 9, iw = 8, kh = 3, kw = 2;
    int sh = 2, sw = 1, dh = 1, dw = 2, top = 1, left = 1, bottom = 1, right = 2;

    [[nodiscard]] int oh() const { return (ih + top + bottom - (kh - 1) * dh - 1) / sh + 1; }
    [[nodiscard]] int ow() const { return (iw + left + right - (kw - 1) * dw - 1) / sw + 1; }
    [[nodiscard]] gk::extents src() const { return {n, ic, ih, iw}; }
    [[nodiscard]] gk::extents dst() const { return {n, oc, oh(), ow()}; }
    [[nodiscard]] gk::extents pooled() const { return {n, ic, oh(), ow()}; }
    [[nodiscard]] gk::extents weights() const { return {oc, ic / groups, kh, kw}; }
    template <class Attributes>
    [[nodiscard]] Attributes attributes() const {
        Attributes a{};
        a.strides = {sh, sw};
        a.dilations = {dh, dw};
        a.pads_begin = {top, left};
        a.pads_end = {bottom, right};
        a.data_format = gk::data_format::ncx;
        if constexpr (requires { a.kernel; }) a.kernel = {kh, kw};
        if constexpr (requires { a.groups; }) {
            a.groups = groups;
            a.weights_format = gk::weights_format::oix;
        }
        return a;
    }
};

/// Calls visit(n, oc, ic, oh, ow, ih, iw, kh, kw, inside) for every product of a convolution; ic in the group of oc.
template <class Visit>
void for_each_product(const layer& l, fault f, const Visit& visit) {
    const int per_group = l.ic / l.groups;
    for (int n = 0; n < l.n - (f == fault::image_dropped ? 1 : 0); ++n)
        for (int oc = 0; oc < l.oc; ++oc)
            for (int oh = 0; oh < l.oh() - (f == fault::last_row_missing ? 1 : 0); ++oh)
                for (int ow = 0; ow < l.ow() - (f == fault::last_position_missing && oh == l.oh() - 1 ? 1 : 0); ++ow)
                    for (int ic = 0; ic < per_group - (f == fault::last_channel_missing ? 1 : 0); ++ic)
                        for (int kh = 0; kh < l.kh; ++kh)
                            for (int kw = 0; kw < l.kw; ++kw) {
                                int group = oc / (l.oc / l.groups);
                                if (f == fault::groups_mixed) group = (group + 1) % l.groups;
                                const bool swapped = f == fault::swapped_strides;
                                const int step_h = f == fault::dilation_ignored ? 1 : l.dh;
                                const int step_w = f == fault::dilation_ignored ? 1 : l.dw;
                                const int shift = f == fault::padding_off_by_one ? 1 : 0;
                                const int ih = oh * (swapped ? l.sw : l.sh) - l.top + kh * step_h;
                                const int iw = ow * (swapped ? l.sh : l.sw) - l.left + shift + kw * step_w;
                                const bool inside = ih >= 0 && ih < l.ih && iw >= 0 && iw < l.iw;
                                visit(n, oc, group * per_group + ic, ic, oh, ow, ih, iw, kh, kw, inside);
                            }
}

/// The position of a weight as the kernel reads it.
std::size_t weight_at(const layer& l, int oc, int ic, int kh, int kw, bool at_border, fault f) {
    if (f == fault::transposed_taps && kh < l.kw && kw < l.kh) std::swap(kh, kw);
    if (f == fault::flipped_kernel) {
        kh = l.kh - 1 - kh;
        kw = l.kw - 1 - kw;
    }
    if (f == fault::wrong_tap_at_border && at_border) kw = l.kw - 1 - kw;
    return static_cast<std::size_t>(((oc * (l.ic / l.groups) + ic) * l.kh + kh) * l.kw + kw);
}
std::size_t at(int n, int c, int h, int w, int channels, int height, int width) {
    return static_cast<std::size_t>(((n * channels + c) * height + h) * width + w);
}

/// Whether a product counts, and with which factor: what a kernel that pads with zeros, or skips them, computes.
bool counts(float a, bool inside, fault f) {
    if (f == fault::zeros_skipped && a == 0) return false;
    return inside || f == fault::padding_multiplied;
}

/// Writes sums to a result.
template <class T>
void finish(const std::vector<float>& sums, const std::vector<bool>& touched, std::vector<T>& result, bool accumulate,
            fault f) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
        if (f == fault::stale_rows && !touched[i]) continue;
        float sum = sums[i];
        if (accumulate && f != fault::accumulate_ignored)
            sum = load(result[i]) * (f == fault::accumulated_twice ? 2.0F : 1.0F) + sum;
        if (f == fault::subnormals_flushed &&
            std::fabs(load(convert<T>(sum, fault::none))) < (std::is_same_v<T, gk::float16> ? 0x1p-14F : 0x1p-126F))
            sum = 0;
        result[i] = convert<T>(sum, f);
    }
}

template <class T>
void forward(const layer& l, const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& bias,
             std::vector<T>& y, bool accumulate, fault f) {
    std::vector<float> sums(y.size());
    std::vector<bool> touched(y.size());
    for_each_product(l, f,
                     [&](int n, int oc, int ic, int icg, int oh, int ow, int ih, int iw, int kh, int kw, bool in) {
                         const std::size_t to = at(n, oc, oh, ow, l.oc, l.oh(), l.ow());
                         const float a = in ? load(x[at(n, ic, ih, iw, l.ic, l.ih, l.iw)]) : 0;
                         const float b = load(w[weight_at(l, oc, icg, kh, kw, iw == l.iw - 1, f)]);
                         touched[to] = true;
                         if (counts(a, in, f)) sums[to] = add<T>(sums[to], multiply<T>(a, b, f), f);
                     });
    for (std::size_t i = 0; i < y.size() && !bias.empty(); ++i) {
        const std::size_t plane = static_cast<std::size_t>(l.oh() * l.ow());
        const float b = load(bias[i / plane % static_cast<std::size_t>(l.oc)]);
        sums[i] += f == fault::bias_twice ? 2 * b : f == fault::bias_missing ? 0 : b;
    }
    finish(sums, touched, y, accumulate, f);
}

template <class T>
void backward_data(const layer& l, const std::vector<T>& dy, const std::vector<T>& w, std::vector<T>& dx,
                   bool accumulate, fault f) {
    std::vector<float> sums(dx.size());
    std::vector<bool> touched(dx.size());
    for_each_product(l, f,
                     [&](int n, int oc, int ic, int icg, int oh, int ow, int ih, int iw, int kh, int kw, bool in) {
                         if (!in) return;
                         const std::size_t to = at(n, ic, ih, iw, l.ic, l.ih, l.iw);
                         const float a = load(dy[at(n, oc, oh, ow, l.oc, l.oh(), l.ow())]);
                         const float b = load(w[weight_at(l, oc, icg, kh, kw, iw == l.iw - 1, f)]);
                         touched[to] = true;
                         if (counts(a, in, f)) sums[to] = add<T>(sums[to], multiply<T>(a, b, f), f);
                     });
    finish(sums, touched, dx, accumulate, f);
}

template <class T, class G>
void backward_weights(const layer& l, const std::vector<T>& x, const std::vector<T>& dy, std::vector<G>& dw,
                      bool accumulate, fault f) {
    std::vector<float> sums(dw.size());
    std::vector<bool> touched(dw.size());
    int image = 0;
    for_each_product(l, f,
                     [&](int n, int oc, int ic, int icg, int oh, int ow, int ih, int iw, int kh, int kw, bool in) {
                         if (n != image && f == fault::batch_in_16_bits)
                             for (float& s : sums) s = load(T(s));
                         image = n;
                         const std::size_t to = weight_at(l, oc, icg, kh, kw, iw == l.iw - 1, f);
                         const float a = in ? load(x[at(n, ic, ih, iw, l.ic, l.ih, l.iw)]) : 0;
                         const float b = load(dy[at(n, oc, oh, ow, l.oc, l.oh(), l.ow())]);
                         touched[to] = true;
                         if (counts(a, in, f)) sums[to] = add<T>(sums[to], multiply<T>(a, b, f), f);
                     });
    finish(sums, touched, dw, accumulate, f);
}

template <class T, class G>
void bias_backward(const layer& l, const std::vector<T>& dy, std::vector<G>& db, fault f) {
    const std::size_t plane = static_cast<std::size_t>(l.oh() * l.ow());
    for (int c = 0; c < l.oc; ++c) {
        float sum = 0;
        for (int n = 0; n < l.n - (f == fault::image_dropped ? 1 : 0); ++n) {
            if (f == fault::batch_in_16_bits) sum = load(T(sum));
            for (std::size_t i = 0; i < plane - (f == fault::last_position_missing ? 1 : 0); ++i)
                sum = add<T>(sum, load(dy[at(n, c, 0, 0, l.oc, l.oh(), l.ow()) + i]), f);
        }
        db[static_cast<std::size_t>(c)] = convert<G>(sum, f);
    }
}

/// Windows of a pool: visit(n, c, oh, ow, ih, iw) for each tap inside.
template <class Visit>
void for_each_tap(const layer& l, fault f, const Visit& visit) {
    layer pool = l;
    pool.groups = 1;
    pool.oc = l.ic;
    pool.ic = 1;
    for_each_product(pool, f, [&](int n, int c, int, int, int oh, int ow, int ih, int iw, int, int, bool in) {
        visit(n, c, oh, ow, ih, iw, in);
    });
}
/// Taps of a window inside the image, as the kernel counts them.
int divisor(const layer& l, int oh, int ow, fault f) {
    if (f == fault::divisor_with_padding) return l.kh * l.kw;
    int rows = 0;
    int columns = 0;
    for (int k = 0; k < l.kh; ++k) {
        const int ih = oh * l.sh - l.top + k * l.dh;
        rows += ih >= 0 && ih < l.ih ? 1 : 0;
    }
    for (int k = 0; k < l.kw; ++k) {
        const int iw = ow * l.sw - l.left + k * l.dw;
        // one border counts as if it were inside
        columns += (iw >= 0 && iw < l.iw) || (f == fault::divisor_at_border && iw >= l.iw) ? 1 : 0;
    }
    return rows * columns;
}

template <class T>
void average(const layer& l, const std::vector<T>& x, std::vector<T>& y, fault f) {
    std::vector<float> sums(y.size());
    for_each_tap(l, f, [&](int n, int c, int oh, int ow, int ih, int iw, bool in) {
        const std::size_t to = at(n, c, oh, ow, l.ic, l.oh(), l.ow());
        if (in) sums[to] = add<T>(sums[to], load(x[at(n, c, ih, iw, l.ic, l.ih, l.iw)]), f);
    });
    for (std::size_t i = 0; i < y.size(); ++i) {
        const int plane = static_cast<int>(i) % (l.oh() * l.ow());
        const int d = divisor(l, plane / l.ow(), plane % l.ow(), f);
        y[i] = convert<T>(d == 0 ? 0 : sums[i] / static_cast<float>(d), f);
    }
}
template <class T>
void average_backward(const layer& l, const std::vector<T>& dy, std::vector<T>& dx, fault f) {
    std::vector<float> sums(dx.size());
    for_each_tap(l, f, [&](int n, int c, int oh, int ow, int ih, int iw, bool in) {
        if (!in) return;
        const std::size_t to = at(n, c, ih, iw, l.ic, l.ih, l.iw);
        const float share =
            load(dy[at(n, c, oh, ow, l.ic, l.oh(), l.ow())]) / static_cast<float>(divisor(l, oh, ow, f));
        sums[to] = f == fault::gradient_assigned ? share : add<T>(sums[to], share, f);
    });
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = convert<T>(sums[i], f);
}

/// Values and positions (in the plane) of the maxima.
template <class T>
void maximum(const layer& l, const std::vector<T>& x, std::vector<T>& y, std::vector<std::int64_t>& index, fault f) {
    std::vector<float> best(y.size(), -std::numeric_limits<float>::infinity());
    std::fill(index.begin(), index.end(), -1);
    for_each_tap(l, f, [&](int n, int c, int oh, int ow, int ih, int iw, bool in) {
        const std::size_t to = at(n, c, oh, ow, l.ic, l.oh(), l.ow());
        if (!in && f == fault::padding_is_zero) best[to] = std::max(best[to], 0.0F);
        if (!in) return;
        const float v = load(x[at(n, c, ih, iw, l.ic, l.ih, l.iw)]);
        const bool wins = v > best[to] || (f == fault::last_maximum && v == best[to]) || index[to] == -1;
        if (wins || (std::isnan(v) && f != fault::nan_ignored)) {
            best[to] = v;
            index[to] = ih * l.iw + iw;
        }
    });
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = convert<T>(best[i], f);
}
template <class T>
void scatter(const layer& l, const std::vector<T>& dy, const std::vector<std::int64_t>& index, std::vector<T>& dx,
             fault f) {
    std::vector<float> sums(dx.size());
    for (std::size_t i = 0; i < dy.size(); ++i) {
        if (index[i] < 0) continue;
        const std::size_t plane = i / static_cast<std::size_t>(l.oh() * l.ow());
        const std::size_t to = plane * static_cast<std::size_t>(l.ih * l.iw) + static_cast<std::size_t>(index[i]);
        sums[to] = f == fault::gradient_assigned ? load(dy[i]) : add<T>(sums[to], load(dy[i]), f);
    }
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = convert<T>(sums[i], f);
}

template <class T>
void norms(const layer& l, const std::vector<T>& x, std::vector<T>& y, fault f) {
    std::vector<float> sums(y.size());
    for_each_tap(l, f, [&](int n, int c, int oh, int ow, int ih, int iw, bool in) {
        const float v = in ? load(x[at(n, c, ih, iw, l.ic, l.ih, l.iw)]) : 0;
        float& sum = sums[at(n, c, oh, ow, l.ic, l.oh(), l.ow())];
        if (in) sum = add<T>(sum, v * v, f);
    });
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = convert<T>(f == fault::root_missing ? sums[i] : std::sqrt(sums[i]), f);
}
template <class T>
void norms_backward(const layer& l, const std::vector<T>& x, const std::vector<T>& y, const std::vector<T>& dy,
                    std::vector<T>& dx, fault f) {
    std::vector<float> sums(dx.size());
    for_each_tap(l, f, [&](int n, int c, int oh, int ow, int ih, int iw, bool in) {
        if (!in) return;
        const std::size_t to = at(n, c, ih, iw, l.ic, l.ih, l.iw);
        const std::size_t from = at(n, c, oh, ow, l.ic, l.oh(), l.ow());
        const float norm = load(y[from]);
        if (norm != 0 || f == fault::division_by_zero_norm)
            sums[to] = add<T>(sums[to], load(dy[from]) * (load(x[to]) / norm), f);
    });
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = convert<T>(sums[i], f);
}

// ------------------------------------------------------------------------------------------------------------ verdicts

std::size_t count_of(const gk::extents& shape) {
    std::size_t count = 1;
    for (const std::int64_t e : shape.values()) count *= static_cast<std::size_t>(e);
    return count;
}
template <class T>
std::vector<T> filled(const gk::extents& shape, pattern p, std::uint64_t seed, int operand) {
    std::vector<T> v(count_of(shape));
    EXPECT_TRUE(gk::test::fill(gk::tensor_view(v.data(), shape), p, seed, operand).ok());
    return v;
}
template <class T>
gk::tensor_view<const T> view(const std::vector<T>& v, const gk::extents& shape) {
    return {v.data(), shape};
}

/// The verdict on a kernel of one operator with a fault, for inputs of a pattern.
template <class T, class G = T>
gk::test::report judge(operation op, const layer& l, pattern p, fault f, bool accumulate = false) {
    const gk::plan_options options{.output = accumulate ? gk::output_mode::accumulate : gk::output_mode::overwrite};
    const auto conv = [&] { return gk::test::problem(op, l.attributes<gk::convolution_attributes>(), options); };
    // A transposed convolution is the data gradient of a convolution, whose weights it numbers (OC / g, IC, KH, KW).
    const auto transposed = [&] {
        return gk::test::problem(op, l.attributes<gk::conv_transpose_attributes>(), options);
    };
    const gk::tensor_layout transposed_layout({l.ic / l.groups, l.oc, l.kh, l.kw},
                                              {l.kh * l.kw, l.ic / l.groups * l.kh * l.kw, l.kw, 1});
    auto mean = l.attributes<gk::avg_pool_attributes>();
    mean.exclude_pad = true;
    const auto peak = l.attributes<gk::max_pool_attributes>();
    const auto lp = l.attributes<gk::lp_pool_attributes>();
    const gk::max_pool_indices_attributes from{.data_format = gk::data_format::ncx,
                                               .index_base = gk::index_base::plane};
    std::vector<std::int64_t> index(count_of(l.pooled()));
    std::vector<T> maxima(index.size());
    const auto start = [&](const gk::extents& shape) {
        return accumulate || f == fault::stale_rows ? filled<T>(shape, p, 4, 3) : std::vector<T>(count_of(shape));
    };

    switch (op) {
        case operation::convolution: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            const auto w = filled<T>(l.weights(), p, 2, 1);
            const auto b = filled<T>({l.oc}, p, 3, 2);
            auto y = start(l.dst());
            const auto before = y;
            forward(l, x, w, b, y, accumulate, f);
            return gk::test::compare(view(y, l.dst()), conv(),
                                     {.src = view(x, l.src()),
                                      .weights = view(w, l.weights()),
                                      .bias = view(b, {l.oc}),
                                      .previous = view(before, l.dst())});
        }
        case operation::convolution_backward_data: {
            const auto dy = filled<T>(l.dst(), p, 1, 0);
            const auto w = filled<T>(l.weights(), p, 2, 1);
            auto dx = start(l.src());
            const auto before = dx;
            backward_data(l, dy, w, dx, accumulate, f);
            return gk::test::compare(
                view(dx, l.src()), conv(),
                {.weights = view(w, l.weights()), .diff_dst = view(dy, l.dst()), .previous = view(before, l.src())});
        }
        case operation::convolution_backward_weights: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            const auto dy = filled<T>(l.dst(), p, 2, 1);
            std::vector<G> dw = accumulate ? filled<G>(l.weights(), p, 4, 3) : std::vector<G>(count_of(l.weights()));
            const auto before = dw;
            backward_weights(l, x, dy, dw, accumulate, f);
            return gk::test::compare(
                view(dw, l.weights()), conv(),
                {.src = view(x, l.src()), .diff_dst = view(dy, l.dst()), .previous = view(before, l.weights())});
        }
        case operation::conv_transpose: {
            const auto x = filled<T>(l.dst(), p, 1, 0);
            const auto w = filled<T>(l.weights(), p, 2, 1);
            auto y = start(l.src());
            const auto before = y;
            backward_data(l, x, w, y, accumulate, f);
            return gk::test::compare(view(y, l.src()), transposed(),
                                     {.src = view(x, l.dst()),
                                      .weights = gk::tensor_view<const T>(w.data(), transposed_layout),
                                      .previous = view(before, l.src())});
        }
        case operation::conv_transpose_backward_data: {
            const auto dy = filled<T>(l.src(), p, 1, 0);
            const auto w = filled<T>(l.weights(), p, 2, 1);
            auto dx = start(l.dst());
            const auto before = dx;
            forward(l, dy, w, {}, dx, accumulate, f);
            return gk::test::compare(view(dx, l.dst()), transposed(),
                                     {.weights = gk::tensor_view<const T>(w.data(), transposed_layout),
                                      .diff_dst = view(dy, l.src()),
                                      .previous = view(before, l.dst())});
        }
        case operation::conv_transpose_backward_weights: {
            const auto dy = filled<T>(l.src(), p, 1, 0);
            const auto x = filled<T>(l.dst(), p, 2, 1);
            std::vector<G> dw = accumulate ? filled<G>(l.weights(), p, 4, 3) : std::vector<G>(count_of(l.weights()));
            const auto before = dw;
            backward_weights(l, dy, x, dw, accumulate, f);
            return gk::test::compare(gk::tensor_view<const G>(dw.data(), transposed_layout), transposed(),
                                     {.src = view(x, l.dst()),
                                      .diff_dst = view(dy, l.src()),
                                      .previous = gk::tensor_view<const G>(before.data(), transposed_layout)});
        }
        case operation::bias_backward: {
            const auto dy = filled<T>(l.dst(), p, 1, 0);
            std::vector<G> db(static_cast<std::size_t>(l.oc));
            bias_backward(l, dy, db, f);
            return gk::test::compare(view(db, {l.oc}), {op, gk::bias_attributes{.data_format = gk::data_format::ncx}},
                                     {.diff_dst = view(dy, l.dst())});
        }
        case operation::avg_pool: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            std::vector<T> y(count_of(l.pooled()));
            average(l, x, y, f);
            return gk::test::compare(view(y, l.pooled()), {op, mean}, {.src = view(x, l.src())});
        }
        case operation::avg_pool_backward: {
            const auto dy = filled<T>(l.pooled(), p, 1, 0);
            std::vector<T> dx(count_of(l.src()));
            average_backward(l, dy, dx, f);
            return gk::test::compare(view(dx, l.src()), {op, mean}, {.diff_dst = view(dy, l.pooled())});
        }
        case operation::max_pool: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            maximum(l, x, maxima, index, f);
            return gk::test::compare(view(maxima, l.pooled()), {op, peak}, {.src = view(x, l.src())});
        }
        case operation::max_pool_backward: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            const auto dy = filled<T>(l.pooled(), p, 2, 1);
            std::vector<T> dx(count_of(l.src()));
            maximum(l, x, maxima, index, f);
            scatter(l, dy, index, dx, f);
            return gk::test::compare(view(dx, l.src()), {op, peak},
                                     {.src = view(x, l.src()), .diff_dst = view(dy, l.pooled())});
        }
        case operation::max_pool_backward_from_indices: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            const auto dy = filled<T>(l.pooled(), p, 2, 1);
            std::vector<T> dx(count_of(l.src()));
            maximum(l, x, maxima, index, fault::none);
            scatter(l, dy, index, dx, f);
            return gk::test::compare(view(dx, l.src()), {op, from},
                                     {.diff_dst = view(dy, l.pooled()), .indices = view(index, l.pooled())});
        }
        case operation::lp_pool: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            std::vector<T> y(count_of(l.pooled()));
            norms(l, x, y, f);
            return gk::test::compare(view(y, l.pooled()), {op, lp}, {.src = view(x, l.src())});
        }
        default: {
            const auto x = filled<T>(l.src(), p, 1, 0);
            const auto dy = filled<T>(l.pooled(), p, 2, 1);
            std::vector<T> y(count_of(l.pooled()));
            std::vector<T> dx(count_of(l.src()));
            norms(l, x, y, fault::none);
            norms_backward(l, x, y, dy, dx, f);
            return gk::test::compare(
                view(dx, l.src()), {op, lp},
                {.src = view(x, l.src()), .dst = view(y, l.pooled()), .diff_dst = view(dy, l.pooled())});
        }
    }
}

enum class element_type { f32, f16, bf16, bf16_to_f32 };
gk::test::report judge_any(operation op, element_type type, const layer& l, pattern p, fault f, bool accumulate) {
    switch (type) {
        case element_type::f16: return judge<gk::float16>(op, l, p, f, accumulate);
        case element_type::bf16: return judge<gk::bfloat16>(op, l, p, f, accumulate);
        case element_type::bf16_to_f32: return judge<gk::bfloat16, float>(op, l, p, f, accumulate);
        default: return judge<float>(op, l, p, f, accumulate);
    }
}

struct planted {
    const char* name;
    operation op;
    fault planted_fault;
    pattern found_by;
    element_type type = element_type::f32;
    bool accumulate = false;
    layer shape{};
};
void PrintTo(const planted& p, std::ostream* out) { *out << p.name; }

constexpr layer long_sums{.n = 24, .ih = 12, .iw = 12};
constexpr layer many_sums{.n = 4, .groups = 1, .ic = 32, .oc = 4, .ih = 12, .iw = 30, .sh = 1};

constexpr planted all_planted[]{
    {"transposed_taps", operation::convolution, fault::transposed_taps, pattern::one_hot},
    {"wrong_tap_at_border", operation::convolution, fault::wrong_tap_at_border, pattern::uniform},
    {"flipped_kernel", operation::convolution_backward_data, fault::flipped_kernel, pattern::one_hot},
    {"flipped_kernel_of_weights", operation::convolution_backward_weights, fault::flipped_kernel, pattern::one_hot},
    {"swapped_strides", operation::convolution, fault::swapped_strides, pattern::uniform},
    {"swapped_strides_of_data", operation::convolution_backward_data, fault::swapped_strides, pattern::integers},
    {"padding_off_by_one", operation::convolution, fault::padding_off_by_one, pattern::one_hot},
    {"padding_off_by_one_in_average", operation::avg_pool, fault::padding_off_by_one, pattern::uniform},
    {"dilation_ignored", operation::convolution, fault::dilation_ignored, pattern::integers},
    {"dilation_ignored_in_maximum", operation::max_pool, fault::dilation_ignored, pattern::uniform},
    {"groups_mixed", operation::convolution, fault::groups_mixed, pattern::integers},
    {"groups_mixed_in_data", operation::convolution_backward_data, fault::groups_mixed, pattern::positive},
    {"image_dropped", operation::convolution_backward_weights, fault::image_dropped, pattern::uniform},
    {"image_dropped_of_24", operation::convolution_backward_weights, fault::image_dropped, pattern::positive,
     element_type::bf16_to_f32, false, long_sums},
    {"last_row_missing", operation::convolution, fault::last_row_missing, pattern::uniform},
    {"last_row_missing_in_weights", operation::convolution_backward_weights, fault::last_row_missing, pattern::uniform},
    {"last_row_missing_in_average_gradient", operation::avg_pool_backward, fault::last_row_missing, pattern::uniform},
    {"last_channel_missing", operation::convolution, fault::last_channel_missing, pattern::uniform},
    {"last_position_missing", operation::convolution_backward_weights, fault::last_position_missing, pattern::uniform,
     element_type::f32, false, long_sums},
    {"bias_twice", operation::convolution, fault::bias_twice, pattern::uniform},
    {"bias_missing", operation::convolution, fault::bias_missing, pattern::uniform, element_type::bf16},
    {"accumulate_ignored", operation::convolution_backward_weights, fault::accumulate_ignored, pattern::uniform,
     element_type::f32, true},
    {"accumulated_twice", operation::convolution_backward_data, fault::accumulated_twice, pattern::uniform,
     element_type::f16, true},
    {"zeros_skipped", operation::convolution, fault::zeros_skipped, pattern::non_finite},
    {"zeros_skipped_in_data", operation::convolution_backward_data, fault::zeros_skipped, pattern::non_finite},
    {"padding_multiplied", operation::convolution, fault::padding_multiplied, pattern::non_finite},
    {"subnormals_flushed", operation::convolution, fault::subnormals_flushed, pattern::subnormal, element_type::f16},
    {"subnormals_flushed_in_f32", operation::convolution, fault::subnormals_flushed, pattern::subnormal},
    {"truncating_conversion", operation::convolution, fault::truncating_conversion, pattern::uniform,
     element_type::bf16},
    {"truncating_conversion_of_average", operation::avg_pool, fault::truncating_conversion, pattern::near_ties,
     element_type::bf16},
    {"through_f16", operation::convolution, fault::double_rounding_through_f16, pattern::uniform},
    {"saturating_conversion", operation::convolution, fault::saturating_conversion, pattern::large, element_type::f16},
    {"sums_in_f16", operation::convolution, fault::sums_in_16_bits, pattern::uniform, element_type::f16},
    {"sums_in_bf16", operation::convolution_backward_data, fault::sums_in_16_bits, pattern::near_ties,
     element_type::bf16},
    {"average_in_bf16", operation::avg_pool, fault::sums_in_16_bits, pattern::positive, element_type::bf16},
    {"maximum_gradient_in_bf16", operation::max_pool_backward, fault::sums_in_16_bits, pattern::near_ties,
     element_type::bf16},
    {"batch_in_bf16", operation::convolution_backward_weights, fault::batch_in_16_bits, pattern::positive,
     element_type::bf16_to_f32, false, long_sums},
    {"batch_in_bf16_gradients", operation::convolution_backward_weights, fault::batch_in_16_bits, pattern::positive,
     element_type::bf16, false, long_sums},
    {"products_in_bf16", operation::convolution, fault::products_in_16_bits, pattern::uniform, element_type::bf16},
    {"additions_towards_zero", operation::convolution, fault::additions_towards_zero, pattern::positive,
     element_type::f32, false, many_sums},
    {"stale_rows", operation::convolution_backward_data, fault::stale_rows, pattern::uniform, element_type::f32, false,
     layer{.kh = 1, .top = 0, .bottom = 0}},
    {"divisor_at_border", operation::avg_pool, fault::divisor_at_border, pattern::uniform},
    {"divisor_at_border_in_gradient", operation::avg_pool_backward, fault::divisor_at_border, pattern::uniform,
     element_type::bf16},
    {"divisor_with_padding", operation::avg_pool, fault::divisor_with_padding, pattern::integers, element_type::f16},
    {"average_gradient_assigned", operation::avg_pool_backward, fault::gradient_assigned, pattern::uniform},
    {"scattered_gradient_assigned", operation::max_pool_backward_from_indices, fault::gradient_assigned,
     pattern::uniform},
    {"last_maximum", operation::max_pool_backward, fault::last_maximum, pattern::near_ties},
    {"last_maximum_of_bf16", operation::max_pool_backward, fault::last_maximum, pattern::integers, element_type::bf16},
    {"nan_ignored", operation::max_pool, fault::nan_ignored, pattern::non_finite},
    {"padding_is_zero", operation::max_pool, fault::padding_is_zero, pattern::uniform},
    {"flipped_kernel_of_transposed", operation::conv_transpose, fault::flipped_kernel, pattern::one_hot},
    {"groups_mixed_in_transposed", operation::conv_transpose, fault::groups_mixed, pattern::integers,
     element_type::bf16},
    {"stale_rows_of_transposed", operation::conv_transpose, fault::stale_rows, pattern::uniform, element_type::f16,
     false, layer{.kh = 1, .top = 0, .bottom = 0}},
    {"padding_off_by_one_in_transposed_data", operation::conv_transpose_backward_data, fault::padding_off_by_one,
     pattern::one_hot},
    {"last_channel_missing_in_transposed_data", operation::conv_transpose_backward_data, fault::last_channel_missing,
     pattern::cancelling, element_type::f16},
    {"image_dropped_of_transposed", operation::conv_transpose_backward_weights, fault::image_dropped,
     pattern::integers},
    {"accumulate_ignored_in_transposed", operation::conv_transpose_backward_weights, fault::accumulate_ignored,
     pattern::uniform, element_type::bf16_to_f32, true},
    {"image_dropped_of_bias", operation::bias_backward, fault::image_dropped, pattern::uniform},
    {"last_position_missing_in_bias", operation::bias_backward, fault::last_position_missing, pattern::positive,
     element_type::f16},
    {"batch_in_bf16_of_bias", operation::bias_backward, fault::batch_in_16_bits, pattern::positive,
     element_type::bf16_to_f32, false, long_sums},
    {"root_missing", operation::lp_pool, fault::root_missing, pattern::uniform, element_type::f16},
    {"division_by_zero_norm", operation::lp_pool_backward, fault::division_by_zero_norm, pattern::one_hot},
};

class planted_faults : public ::testing::TestWithParam<planted> {};

TEST_P(planted_faults, are_refused) {
    const planted& p = GetParam();
    const gk::test::report r = judge_any(p.op, p.type, p.shape, p.found_by, p.planted_fault, p.accumulate);
    ASSERT_EQ(r.mistake.code, gk::errc::ok) << r;
    EXPECT_FALSE(r.ok()) << r;
}

TEST_P(planted_faults, are_the_only_reason) {
    const planted& p = GetParam();
    for (const pattern inputs : gk::test::all_patterns) {
        const gk::test::report r = judge_any(p.op, p.type, p.shape, inputs, fault::none, p.accumulate);
        // Nothing is promised about sums that leave the range of f32.
        EXPECT_TRUE(r.ok() || (inputs == pattern::large && r.judged_nothing())) << gk::test::name_of(inputs) << r;
    }
}

INSTANTIATE_TEST_SUITE_P(of, planted_faults, ::testing::ValuesIn(all_planted),
                         [](const auto& row) { return std::string(row.param.name); });

// A sum that is always a little too small: each element is within its bound, and the tensor is refused.
TEST(additions_towards_zero, are_found_by_the_checks_over_the_tensor) {
    const gk::test::report r =
        judge<float>(operation::convolution, many_sums, pattern::positive, fault::additions_towards_zero);
    EXPECT_EQ(r.refused, 0);
    EXPECT_TRUE(r.over_tensor.judges_squares);
    EXPECT_FALSE(r.over_tensor.squares_hold()) << r;
}

// Every position of a single 1 shows which taps it meets.
TEST(one_hot_positions, reveal_a_wrong_tap_wherever_it_is) {
    constexpr layer l{.n = 1, .groups = 1, .ic = 1, .oc = 1, .ih = 5, .iw = 5, .kh = 3, .kw = 3, .sh = 1, .dw = 1};
    const gk::test::problem p{operation::convolution, l.attributes<gk::convolution_attributes>()};
    const auto w = filled<float>(l.weights(), pattern::one_hot, 0, 1);
    for (const fault f : {fault::none, fault::transposed_taps, fault::flipped_kernel}) {
        for (std::uint64_t position = 0; position < 25; ++position) {
            const auto x = filled<float>(l.src(), pattern::one_hot, position, 0);
            std::vector<float> y(count_of(l.dst()));
            forward(l, x, w, {}, y, false, f);
            const auto r =
                gk::test::compare(view(y, l.dst()), p, {.src = view(x, l.src()), .weights = view(w, l.weights())});
            EXPECT_EQ(r.ok(), f == fault::none) << position << ' ' << r;
        }
    }
}

}  // namespace
}  // namespace gradkern_test
