// Pools whose only window exceeds the padded input, which ceil_torch allows as PyTorch and ONNX Runtime do: sizes, values,
// gradients and divisors are compared with plain loops by PyTorch's rule, and with the references.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <gradkern/avg_pool.hpp>
#include <gradkern/frontend/onednn_graph.hpp>
#include <gradkern/frontend/onnxruntime.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/max_pool.hpp>

#include "support/random.hpp"
#include "support/tensor.hpp"

namespace {

namespace gk = gradkern;
using gk::errc;
using gk::extents;
using gradkern_test::guarded_bytes;
using gradkern_test::random_source;
using gradkern_test::test_tensor;

/// PyTorch's number of windows, by floor division of numbers that are exact in double; 0 or less: "output size is too small".
std::int64_t torch_windows(std::int64_t size, std::int64_t begin, std::int64_t end, std::int64_t effective,
                           std::int64_t stride) {
    const auto room = static_cast<double>(size + begin + end - effective + stride - 1);
    auto windows = static_cast<std::int64_t>(std::floor(room / static_cast<double>(stride))) + 1;
    if ((windows - 1) * stride >= size + begin) --windows;
    return windows;
}

/// One pool over three axes, of which leading ones may be unused: sizes (n, c, d, h, w), in any layout of memory.
struct pool {
    std::int64_t n = 1, c = 1;
    std::array<std::int64_t, 3> large{1, 1, 1}, small{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1},
        begin{}, end{};
    std::size_t rank = 1;
    bool ncx = true;
    bool exclude_pad = false;
    std::optional<std::int64_t> divisor{};

    [[nodiscard]] extents list(const std::array<std::int64_t, 3>& a) const {
        return extents(std::span<const std::int64_t>(a).last(rank));
    }
    [[nodiscard]] extents shape(const std::array<std::int64_t, 3>& size) const {
        extents e{n};
        if (ncx) e.push_back(c);
        const extents sizes = list(size);
        for (const std::int64_t s : sizes.values()) e.push_back(s);
        if (!ncx) e.push_back(c);
        return e;
    }
    /// Number of an element in row-major order of its shape.
    [[nodiscard]] std::int64_t at(const std::array<std::int64_t, 3>& size, std::int64_t i, std::int64_t k,
                                  const std::array<std::int64_t, 3>& q) const {
        const std::int64_t plane = size[0] * size[1] * size[2];
        const std::int64_t place = (q[0] * size[1] + q[1]) * size[2] + q[2];
        return ncx ? (i * c + k) * plane + place : (i * plane + place) * c + k;
    }
    template <class Attributes>
    [[nodiscard]] Attributes attributes() const {
        Attributes a{.kernel = list(kernel),
                     .strides = list(stride),
                     .pads_begin = list(begin),
                     .pads_end = list(end),
                     .dilations = list(dilation)};
        a.rounding_type = gk::rounding_type::ceil_torch;
        a.data_format = ncx ? gk::data_format::ncx : gk::data_format::nxc;
        if constexpr (std::is_same_v<Attributes, gk::avg_pool_attributes>) {
            a.exclude_pad = exclude_pad;
            a.divisor_override = divisor;
        }
        return a;
    }
};

template <class Fn>
void each(const std::array<std::int64_t, 3>& size, const Fn& fn) {
    for (std::int64_t a = 0; a < size[0]; ++a)
        for (std::int64_t b = 0; b < size[1]; ++b)
            for (std::int64_t d = 0; d < size[2]; ++d) fn(std::array<std::int64_t, 3>{a, b, d});
}

/// Calls fn(position) for every tap of window o that lies inside.
template <class Fn>
void inside(const pool& p, const std::array<std::int64_t, 3>& o, const Fn& fn) {
    each(p.kernel, [&](const std::array<std::int64_t, 3>& k) {
        std::array<std::int64_t, 3> q{};
        for (std::size_t i = 0; i < 3; ++i) {
            q[i] = o[i] * p.stride[i] - p.begin[i] + k[i] * p.dilation[i];
            if (q[i] < 0 || q[i] >= p.large[i]) return;
        }
        fn(q);
    });
}

/// PyTorch's divisor: the taps inside, or those before the end of the padded input.
double divisor_of(const pool& p, const std::array<std::int64_t, 3>& o) {
    if (p.divisor) return static_cast<double>(*p.divisor);
    double count = 0;
    if (p.exclude_pad) {
        inside(p, o, [&](const auto&) { ++count; });
        return count;
    }
    each(p.kernel, [&](const std::array<std::int64_t, 3>& k) {
        bool counts = true;
        for (std::size_t i = 0; i < 3; ++i)
            counts = counts && o[i] * p.stride[i] - p.begin[i] + k[i] * p.dilation[i] < p.large[i] + p.end[i];
        count += counts ? 1 : 0;
    });
    return count;
}

template <class T>
void expect_near(const test_tensor<T>& got, const std::vector<double>& expected) {
    ASSERT_EQ(static_cast<std::size_t>(got.count()), expected.size());
    const double unit = sizeof(T) == 2 ? 1.0 / 64 : 1e-5;
    for (std::int64_t i = 0; i < got.count(); ++i) {
        const double want = expected[static_cast<std::size_t>(i)];
        const auto value = static_cast<double>(got.value(i));
        if (std::isinf(want)) {
            ASSERT_EQ(value, want) << "element " << i;
        } else {
            ASSERT_NEAR(value, want, unit * (1 + std::fabs(want))) << "element " << i;
        }
    }
}

/// The four pools of one problem against plain loops and references.
template <class T>
void check(const pool& p, random_source& random) {
    const auto strides = [&](const extents& shape) {
        return random.chance(1, 2) ? extents{} : random_output_strides(random, shape);
    };
    const auto avg = p.attributes<gk::avg_pool_attributes>();
    const auto max = p.attributes<gk::max_pool_attributes>();
    const extents large = p.shape(p.large);
    const extents small = p.shape(p.small);
    ASSERT_EQ(gk::infer_avg_pool(large, avg).value(), small);
    ASSERT_EQ(gk::infer_max_pool(large, max).value(), small);
    test_tensor<T> src(large, strides(large));
    test_tensor<T> dy(small, strides(small));
    src.fill([&](std::int64_t) { return static_cast<float>(random.integer(-9, 9)); });
    dy.fill([&](std::int64_t) { return static_cast<float>(random.integer(-9, 9)); });
    const guarded_bytes memory(1 << 20);
    const gk::call_options options{.workspace = {memory.data(), memory.size()}};

    std::vector<double> sums(static_cast<std::size_t>(dy.count()));
    std::vector<double> maxima(sums.size(), -std::numeric_limits<double>::infinity());
    std::vector<double> spread(static_cast<std::size_t>(src.count()));
    std::vector<double> routed(spread.size());
    for (std::int64_t n = 0; n < p.n; ++n)
        for (std::int64_t c = 0; c < p.c; ++c)
            each(p.small, [&](const std::array<std::int64_t, 3>& o) {
                const auto to = static_cast<std::size_t>(p.at(p.small, n, c, o));
                const double divisor = divisor_of(p, o);
                std::int64_t best = -1;
                inside(p, o, [&](const std::array<std::int64_t, 3>& q) {
                    const std::int64_t from = p.at(p.large, n, c, q);
                    const auto x = static_cast<double>(src.value(from));
                    sums[to] += x / divisor;
                    spread[static_cast<std::size_t>(from)] +=
                        static_cast<double>(dy.value(static_cast<std::int64_t>(to))) / divisor;
                    if (best < 0 || x > maxima[to]) {
                        maxima[to] = x;
                        best = from;
                    }
                });
                if (best >= 0)
                    routed[static_cast<std::size_t>(best)] +=
                        static_cast<double>(dy.value(static_cast<std::int64_t>(to)));
            });

    test_tensor<T> y(small, strides(small));
    test_tensor<T> y_ref(small);
    ASSERT_TRUE(gk::avg_pool<T>(src.const_view(), avg, y.view(), options).ok());
    ASSERT_TRUE(gk::ref::avg_pool<T>(src.const_view(), avg, y_ref.view()).ok());
    EXPECT_TRUE(y.equals(y_ref));
    EXPECT_TRUE(y.surroundings_intact());
    expect_near(y, sums);

    test_tensor<T> dx(large, strides(large));
    test_tensor<T> dx_ref(large);
    ASSERT_TRUE(gk::avg_pool_backward<T>(dy.const_view(), avg, dx.view(), options).ok());
    ASSERT_TRUE(gk::ref::avg_pool_backward<T>(dy.const_view(), avg, dx_ref.view()).ok());
    EXPECT_TRUE(dx.equals(dx_ref));
    EXPECT_TRUE(dx.surroundings_intact());
    expect_near(dx, spread);

    y.poison();
    test_tensor<std::int64_t> indices(small, strides(small));
    test_tensor<std::int64_t> indices_ref(small);
    ASSERT_TRUE(gk::max_pool<T>(src.const_view(), max, y.view(), indices.view(), options).ok());
    ASSERT_TRUE(gk::ref::max_pool<T>(src.const_view(), max, y_ref.view(), indices_ref.view()).ok());
    EXPECT_TRUE(y.equals(y_ref));
    EXPECT_TRUE(y.surroundings_intact());
    for (std::int64_t i = 0; i < indices.count(); ++i) ASSERT_EQ(indices[i], indices_ref[i]);
    expect_near(y, maxima);

    dx.poison();
    ASSERT_TRUE(gk::max_pool_backward<T>(src.const_view(), dy.const_view(), max, dx.view(), options).ok());
    ASSERT_TRUE(gk::ref::max_pool_backward<T>(src.const_view(), dy.const_view(), max, dx_ref.view()).ok());
    EXPECT_TRUE(dx.equals(dx_ref));
    EXPECT_TRUE(dx.surroundings_intact());
    expect_near(dx, routed);

    if (p.ncx && !p.divisor) {  // ceil_mode of ONNX
        namespace ort = gk::onnxruntime;
        std::vector<std::int64_t> pads(avg.pads_begin.values().begin(), avg.pads_begin.values().end());
        pads.insert(pads.end(), avg.pads_end.values().begin(), avg.pads_end.values().end());
        const ort::AveragePoolGrad_attributes a{.ceil_mode = 1,
                                                .count_include_pad = p.exclude_pad ? 0 : 1,
                                                .dilations = avg.dilations,
                                                .kernel_shape = avg.kernel,
                                                .pads = pads,
                                                .strides = avg.strides};
        dx.poison();
        ASSERT_TRUE(ort::AveragePoolGrad<T>(dy.const_view(), a, dx.view(), options).ok());
        expect_near(dx, spread);
    }
}

pool random_pool(random_source& random) {
    pool p;
    p.rank = static_cast<std::size_t>(random.integer(1, 3));
    p.n = random.integer(1, 2);
    p.c = std::array<std::int64_t, 6>{1, 2, 3, 8, 17, 40}[static_cast<std::size_t>(random.integer(0, 5))];
    p.ncx = random.chance(1, 2);
    p.exclude_pad = random.chance(1, 2);
    if (random.chance(1, 6)) p.divisor = random.chance(1, 2) ? 3 : -2;
    for (std::size_t i = 3 - p.rank; i < 3; ++i) {
        p.large[i] = random.integer(1, p.rank == 1 ? 30 : 7);
        p.dilation[i] = random.chance(1, 3) ? random.integer(1, 3) : 1;
        p.begin[i] = random.integer(0, 2);
        p.end[i] = random.integer(0, 2);
        const bool overhangs = random.chance(2, 3);
        const std::int64_t padded = p.large[i] + p.begin[i] + p.end[i];
        p.kernel[i] = overhangs ? padded / p.dilation[i] + random.integer(1, 8) : random.integer(1, 4);
        const std::int64_t over = (p.kernel[i] - 1) * p.dilation[i] + 1 - padded;
        p.stride[i] = over > 0 ? over + random.integer(random.chance(1, 12) ? 0 : 1, 9) : random.integer(1, 4);
    }
    return p;
}

template <class T>
void random_pools(const char* name, int runs) {
    random_source random(name);
    int computed = 0;
    int overhanging = 0;
    for (int i = 0; i < runs; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        pool p = random_pool(random);
        bool fits = true;
        bool over = false;
        for (std::size_t k = 0; k < 3; ++k) {
            const std::int64_t effective = (p.kernel[k] - 1) * p.dilation[k] + 1;
            p.small[k] = torch_windows(p.large[k], p.begin[k], p.end[k], effective, p.stride[k]);
            fits = fits && p.small[k] >= 1;
            over = over || effective > p.large[k] + p.begin[k] + p.end[k];
        }
        if (!fits) {
            EXPECT_EQ(gk::infer_avg_pool(p.shape(p.large), p.attributes<gk::avg_pool_attributes>()).error().code,
                      errc::invalid_shape);
            EXPECT_EQ(gk::infer_max_pool(p.shape(p.large), p.attributes<gk::max_pool_attributes>()).error().code,
                      errc::invalid_shape);
            continue;
        }
        ++computed;
        overhanging += over ? 1 : 0;
        check<T>(p, random);
        if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(computed, runs / 2);
    EXPECT_GT(overhanging, runs / 3);
}

TEST(ceil_torch, pools_are_those_of_plain_loops) {
    random_pools<float>("ceil_torch f32", 600);
    random_pools<gk::float16>("ceil_torch f16", 200);
    random_pools<gk::bfloat16>("ceil_torch bf16", 200);
}

// Ones of 3x3 under a kernel of 4 with stride 2: PyTorch's max_pool2d gives 1, its avg_pool2d 1 (nine taps count).
TEST(ceil_torch, one_window_over_a_small_image) {
    const std::vector<float> ones(9, 1.0F);
    for (const bool exclude : {false, true}) {
        const gk::avg_pool_attributes a{.kernel = {4, 4},
                                        .strides = {2, 2},
                                        .exclude_pad = exclude,
                                        .rounding_type = gk::rounding_type::ceil_torch};
        float mean = 0;
        ASSERT_TRUE(gk::avg_pool<float>({ones.data(), {1, 3, 3, 1}}, a, {&mean, {1, 1, 1, 1}}).ok());
        EXPECT_EQ(mean, 1.0F);
        std::vector<float> dx(9);
        const float dy = 9;
        ASSERT_TRUE(gk::avg_pool_backward<float>({&dy, {1, 1, 1, 1}}, a, {dx.data(), {1, 3, 3, 1}}).ok());
        EXPECT_EQ(dx, ones);
    }
    const gk::max_pool_attributes m{
        .kernel = {4, 4}, .strides = {2, 2}, .rounding_type = gk::rounding_type::ceil_torch};
    float top = 0;
    ASSERT_TRUE(gk::max_pool<float>({ones.data(), {1, 3, 3, 1}}, m, {&top, {1, 1, 1, 1}}).ok());
    EXPECT_EQ(top, 1.0F);
}

// Taps in the padding count in the divisor, taps beyond it do not: 1 + 3 + 1 of 9 taps.
TEST(ceil_torch, divisors_end_with_the_declared_padding) {
    const std::vector<float> x{1, 2, 3};
    gk::avg_pool_attributes a{.kernel = {9},
                              .strides = {5},
                              .pads_begin = {1},
                              .pads_end = {1},
                              .rounding_type = gk::rounding_type::ceil_torch};
    const auto mean = [&] {
        float y = 0;
        EXPECT_TRUE(gk::avg_pool<float>({x.data(), {1, 3, 1}}, a, {&y, {1, 1, 1}}).ok());
        return y;
    };
    EXPECT_EQ(mean(), 6.0F / 5);
    a.exclude_pad = true;
    EXPECT_EQ(mean(), 2.0F);
    a.divisor_override = 4;
    EXPECT_EQ(mean(), 1.5F);
}

// The window may exceed the input by less than the stride, and not at all with the other roundings.
TEST(ceil_torch, the_only_window_overhangs_by_less_than_the_stride) {
    const auto windows = [](std::int64_t size, std::int64_t kernel, std::int64_t stride, gk::rounding_type rounding) {
        const auto y =
            gk::infer_max_pool({1, size, 1}, {.kernel = {kernel}, .strides = {stride}, .rounding_type = rounding});
        return y ? (*y)[1] : 0;
    };
    for (std::int64_t size = 1; size <= 8; ++size)
        for (std::int64_t kernel = 1; kernel <= 12; ++kernel)
            for (std::int64_t stride = 1; stride <= 6; ++stride) {
                EXPECT_EQ(windows(size, kernel, stride, gk::rounding_type::ceil_torch),
                          std::max<std::int64_t>(0, torch_windows(size, 0, 0, kernel, stride)));
                if (kernel <= size) continue;
                EXPECT_EQ(windows(size, kernel, stride, gk::rounding_type::ceil), 0);
                EXPECT_EQ(windows(size, kernel, stride, gk::rounding_type::floor), 0);
            }
    // auto_pad valid rounds, too; the document's front end has the rounding as an extension
    const gk::onednn_graph::AvgPool_attributes a{
        .strides = {2}, .kernel = {4}, .exclude_pad = false, .rounding_type = "ceil_torch", .auto_pad = "valid"};
    EXPECT_EQ(gk::onednn_graph::infer_AvgPool({1, 3, 1}, a).value(), (extents{1, 1, 1}));
}

// Taps outside are not visited, and no product of them wraps around.
TEST(ceil_torch, enormous_windows) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const std::vector<float> x{1, 4, 3, 2};
    for (const std::int64_t kernel : {std::int64_t{1} << 40, std::int64_t{1} << 62, most}) {
        for (const std::int64_t stride : {kernel - 3, kernel, most}) {
            gk::avg_pool_attributes a{
                .kernel = {kernel}, .strides = {stride}, .rounding_type = gk::rounding_type::ceil_torch};
            float y = 0;
            ASSERT_TRUE(gk::avg_pool<float>({x.data(), {1, 4, 1}}, a, {&y, {1, 1, 1}}).ok());
            EXPECT_EQ(y, 2.5F);
            std::vector<float> dx(4);
            ASSERT_TRUE(gk::avg_pool_backward<float>({&y, {1, 1, 1}}, a, {dx.data(), {1, 4, 1}}).ok());
            EXPECT_EQ(dx, std::vector<float>(4, 0.625F));
            const gk::max_pool_attributes m{
                .kernel = {kernel}, .strides = {stride}, .rounding_type = gk::rounding_type::ceil_torch};
            std::int64_t index = 0;
            ASSERT_TRUE(gk::max_pool<float>({x.data(), {1, 4, 1}}, m, {&y, {1, 1, 1}}, {&index, {1, 1, 1}}).ok());
            EXPECT_EQ(y, 4.0F);
            EXPECT_EQ(index, 1);
            ASSERT_TRUE(
                gk::max_pool_backward<float>({x.data(), {1, 4, 1}}, {&y, {1, 1, 1}}, m, {dx.data(), {1, 4, 1}}).ok());
            EXPECT_EQ(dx, (std::vector<float>{0, 4, 0, 0}));
            a.strides = {kernel - 4};
            EXPECT_EQ(gk::infer_avg_pool({1, 4, 1}, a).error(),
                      (gk::error{errc::invalid_shape, "avg_pool", "src", 1, 4, 5, gk::expectation::at_least}));
        }
    }
}

}  // namespace
