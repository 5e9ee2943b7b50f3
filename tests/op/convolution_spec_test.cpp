// The convolution operators against numbers computed by hand, and every rule about their arguments: which mistake is
// found, where, in which order, and that nothing is written then.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/error_text.hpp>

#include "support/algorithms.hpp"
#include "support/spec_rows.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

namespace gk = gradkern;
using gk::errc;
using gk::error;
using gk::expectation;
using gk::extents;

constexpr std::int64_t huge = std::int64_t{1} << 31;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
/// One channel, one axis, N = 1; also a filter.
constexpr extents at_size(std::int64_t size) { return {1, 1, size}; }

// ------------------------------------------------------------------------------------------------------- golden rows

template <class T>
test_tensor<T> tensor_of(const extents& shape, const std::vector<float>& values) {
    test_tensor<T> t(shape);
    t.fill([&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
    return t;
}

template <class T>
void expect_values(const test_tensor<T>& got, const std::vector<float>& expected) {
    ASSERT_EQ(got.count(), static_cast<std::int64_t>(expected.size()));
    EXPECT_TRUE(got.equals(tensor_of<T>(got.shape(), expected)));
    EXPECT_TRUE(got.surroundings_intact());
}

gk::convolution_attributes attributes_of(const backward_data_row& row, const variant& v) {
    gk::convolution_attributes a;
    a.strides = v.axes(row.stride, 1);
    a.dilations = v.axes(1, 1);
    a.pads_begin = v.axes(row.pad_begin, 0);
    a.pads_end = v.axes(row.pad_end, 0);
    a.auto_pad = row.auto_pad;
    if (row.output_padding) a.output_padding = v.axes(*row.output_padding, 0);
    a.groups = row.groups;
    a.data_format = v.data_format;
    a.weights_format = v.weights_format;
    return a;
}

template <class T>
void run_backward_data_rows() {
    int runs = 0;
    for (const backward_data_row& row : backward_data_rows()) {
        if (!exact_in<T>(row.diff_dst) || !exact_in<T>(row.weights)) continue;
        SCOPED_TRACE(row.name);
        for_each_variant([&](const variant& v) {
            SCOPED_TRACE(v.name());
            const auto diff_dst =
                tensor_of<T>(v.activation(1, row.oc, row.o), v.arrange_activation(row.diff_dst, 1, row.oc, row.o));
            const auto weights =
                tensor_of<T>(v.filter(row.oc, row.icg, row.k), v.arrange_filter(row.weights, row.oc, row.icg, row.k));
            const std::int64_t channels = row.groups * row.icg;
            gk::convolution_attributes a = attributes_of(row, v);
            if (row.size) a.diff_src_shape = v.activation(1, channels, *row.size);
            const auto shape = gk::infer_convolution_backward_data(diff_dst.shape(), weights.shape(), a);
            ASSERT_EQ(shape.error().code, row.code);
            if (!shape) return;
            const auto size = static_cast<std::int64_t>(row.diff_src.size()) / channels;
            ASSERT_EQ(*shape, v.activation(1, channels, size));
            for (const gk::algorithm path : all_algorithms) {
                test_tensor<T> diff_src(*shape);
                const gk::status s = gk::convolution_backward_data<T>(diff_dst.const_view(), weights.const_view(), a,
                                                                      diff_src.view(), {.plan = {.algorithm = path}});
                if (refuses_algorithm(s)) continue;
                ASSERT_TRUE(s.ok()) << gk::to_string(s);
                expect_values(diff_src, v.arrange_activation(row.diff_src, 1, channels, size));
                ++runs;
            }
        });
    }
    EXPECT_GE(runs, 11 * 12 * 4);
}

TEST(convolution_spec, backward_data_rows_f32) { run_backward_data_rows<float>(); }
TEST(convolution_spec, backward_data_rows_f16) { run_backward_data_rows<gk::float16>(); }
TEST(convolution_spec, backward_data_rows_bf16) { run_backward_data_rows<gk::bfloat16>(); }

template <class T, class G>
void run_backward_filter_rows(int at_least) {
    int runs = 0;
    for (const backward_filter_row& row : backward_filter_rows()) {
        if (!exact_in<T>(row.src) || !exact_in<T>(row.diff_dst)) continue;
        SCOPED_TRACE(row.name);
        for_each_variant([&](const variant& v) {
            SCOPED_TRACE(v.name());
            const auto src =
                tensor_of<T>(v.activation(row.n, row.ic, row.o), v.arrange_activation(row.src, row.n, row.ic, row.o));
            const auto diff_dst = tensor_of<T>(v.activation(row.n, row.oc, row.size),
                                               v.arrange_activation(row.diff_dst, row.n, row.oc, row.size));
            const std::int64_t ocg = row.oc / row.groups;
            gk::conv_transpose_attributes a;
            a.strides = v.axes(row.stride, 1);
            a.dilations = v.axes(1, 1);
            a.pads_begin = v.axes(row.pad_begin, 0);
            a.pads_end = v.axes(row.pad_end, 0);
            a.groups = row.groups;
            a.data_format = v.data_format;
            a.weights_format = v.weights_format;
            a.diff_weights_shape = v.filter(ocg, row.ic, row.k);
            for (const gk::algorithm path : all_algorithms) {
                test_tensor<G> diff_weights(a.diff_weights_shape);
                const gk::status s = gk::conv_transpose_backward_weights<T, G>(
                    src.const_view(), diff_dst.const_view(), a, diff_weights.view(), {}, {.plan = {.algorithm = path}});
                if (refuses_algorithm(s)) continue;
                ASSERT_TRUE(s.ok()) << gk::to_string(s);
                expect_values(diff_weights, v.arrange_filter(row.diff_weights, ocg, row.ic, row.k));
                ++runs;
            }
        });
    }
    EXPECT_GE(runs, at_least * 12 * 3);
}

TEST(convolution_spec, backward_filter_rows_f32) { run_backward_filter_rows<float, float>(5); }
// Only rows 31 (f16) and 34 hold numbers that a 16-bit type has.
TEST(convolution_spec, backward_filter_rows_f16) { run_backward_filter_rows<gk::float16, gk::float16>(2); }
TEST(convolution_spec, backward_filter_rows_f16_to_f32) { run_backward_filter_rows<gk::float16, float>(2); }
TEST(convolution_spec, backward_filter_rows_bf16) { run_backward_filter_rows<gk::bfloat16, gk::bfloat16>(1); }
TEST(convolution_spec, backward_filter_rows_bf16_to_f32) { run_backward_filter_rows<gk::bfloat16, float>(1); }

// Row 33.
TEST(convolution_spec, backward_filter_shape_is_required_and_transposed) {
    for_each_variant([](const variant& v) {
        SCOPED_TRACE(v.name());
        gk::conv_transpose_attributes a;
        a.strides = a.dilations = v.axes(1, 1);
        a.groups = 2;
        a.data_format = v.data_format;
        a.weights_format = v.weights_format;
        const extents src = v.activation(1, 4, 1);
        const extents diff_dst = v.activation(1, 6, 1);
        EXPECT_EQ(gk::infer_conv_transpose_backward_weights(src, diff_dst, a).error().code, errc::missing_shape);
        EXPECT_EQ(gk::plan_conv_transpose_backward_weights<float>(src, diff_dst, a).error().code, errc::missing_shape);
        const extents swapped = v.filter(4, 3, 1);  // IC in place of OC/g, and vice versa
        EXPECT_EQ(gk::infer_conv_transpose_backward_weights(src, diff_dst, a, swapped).error().code,
                  errc::invalid_shape);
        a.diff_weights_shape = swapped;
        EXPECT_EQ(gk::infer_conv_transpose_backward_weights(src, diff_dst, a).error().code, errc::invalid_shape);
        // an output tensor takes precedence over the attribute, which is then ignored
        EXPECT_TRUE(gk::infer_conv_transpose_backward_weights(src, diff_dst, a, v.filter(3, 4, 1)).has_value());
    });
}

// The bias is added once, with every path and any number of taps.
TEST(convolution_spec, bias_is_added_once) {
    for_each_variant([](const variant& v) {
        SCOPED_TRACE(v.name());
        const auto src = tensor_of<float>(v.activation(1, 1, 5), {1, 2, 3, 4, 5});
        const auto weights = tensor_of<float>(v.filter(2, 1, 3), v.arrange_filter({1, 10, 100, 1, 1, 1}, 2, 1, 3));
        const auto bias = tensor_of<float>({2}, {0.5F, -6});
        gk::convolution_attributes a;
        a.strides = a.dilations = v.axes(1, 1);
        a.data_format = v.data_format;
        a.weights_format = v.weights_format;
        for (const gk::algorithm path : all_algorithms) {
            test_tensor<float> dst(v.activation(1, 2, 3));
            const gk::status s = gk::convolution<float>(src.const_view(), weights.const_view(), bias.const_view(), a,
                                                        dst.view(), {.plan = {.algorithm = path}});
            if (refuses_algorithm(s)) continue;
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            expect_values(dst, v.arrange_activation({321.5F, 432.5F, 543.5F, 0, 3, 6}, 1, 2, 3));
        }
    });
}

// Accumulate adds the previous value last and rounds once; overwrite does not read it.
TEST(convolution_spec, accumulate_rounds_once) {
    for_each_variant([](const variant& v) {
        SCOPED_TRACE(v.name());
        gk::convolution_attributes a;
        a.strides = a.dilations = v.axes(1, 1);
        a.data_format = v.data_format;
        a.weights_format = v.weights_format;
        // the sum, 1025 + 1/2, is added to the previous value and then rounded
        const auto src = tensor_of<gk::float16>(v.activation(1, 1, 3), {1024, 1, 0.5F});
        const auto weights = tensor_of<gk::float16>(v.filter(1, 1, 3), {1, 1, 1});
        const auto ones = tensor_of<gk::float16>(v.activation(1, 1, 1), {1});
        for (const gk::algorithm path : all_algorithms) {
            const gk::call_options options{.plan = {.output = gk::output_mode::accumulate, .algorithm = path}};
            test_tensor<gk::float16> dst(v.activation(1, 1, 1));
            dst.set(0, 0.5F);
            gk::status s =
                gk::convolution<gk::float16>(src.const_view(), weights.const_view(), {}, a, dst.view(), options);
            ASSERT_TRUE(s.ok() || refuses_algorithm(s)) << gk::to_string(s);
            if (s.ok()) expect_values(dst, {1026});
            auto diff_src = tensor_of<gk::float16>(v.activation(1, 1, 3), {1, 2, -1});
            s = gk::convolution_backward_data<gk::float16>(ones.const_view(), weights.const_view(), a, diff_src.view(),
                                                           options);
            ASSERT_TRUE(s.ok() || refuses_algorithm(s)) << gk::to_string(s);
            if (s.ok()) expect_values(diff_src, {2, 3, 0});
            auto diff_weights = tensor_of<float>(v.filter(1, 1, 3), {0.25F, 0.25F, 0.25F});
            s = gk::convolution_backward_weights<gk::float16>(src.const_view(), ones.const_view(), a,
                                                              diff_weights.view(), {}, options);
            ASSERT_TRUE(s.ok() || refuses_algorithm(s)) << gk::to_string(s);
            if (s.ok()) expect_values(diff_weights, {1024.25F, 1.25F, 0.75F});
        }
    });
}

// A tap in the padding is skipped, not multiplied by zero; a tap inside is multiplied even if the other factor is 0.
TEST(convolution_spec, infinite_weights_are_not_multiplied_with_padding) {
    constexpr float inf = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    for_each_variant([](const variant& v) {
        SCOPED_TRACE(v.name());
        gk::convolution_attributes a;
        a.strides = a.dilations = v.axes(1, 1);
        a.pads_begin = a.pads_end = v.axes(1, 0);
        a.data_format = v.data_format;
        a.weights_format = v.weights_format;
        const auto src = tensor_of<float>(v.activation(1, 1, 3), {1, 0, 2});
        const auto weights = tensor_of<float>(v.filter(1, 1, 3), {inf, 1, 1});
        const auto diff_dst = tensor_of<float>(v.activation(1, 1, 3), {0, 1, inf});
        a.diff_weights_shape = weights.shape();
        for (const gk::algorithm path : all_algorithms) {
            const gk::call_options options{.plan = {.algorithm = path}};
            test_tensor<float> dst(src.shape());
            gk::status s = gk::convolution<float>(src.const_view(), weights.const_view(), {}, a, dst.view(), options);
            ASSERT_TRUE(s.ok() || refuses_algorithm(s)) << gk::to_string(s);
            if (s.ok()) expect_values(dst, {1, inf, nan});
            test_tensor<float> diff_weights(weights.shape());
            s = gk::convolution_backward_weights<float>(src.const_view(), diff_dst.const_view(), a, diff_weights.view(),
                                                        {}, options);
            ASSERT_TRUE(s.ok() || refuses_algorithm(s)) << gk::to_string(s);
            // tap 0 reads src 0, 1 for outputs 1, 2; tap 1 all three; tap 2 src 1, 2 for outputs 0, 1
            if (s.ok()) expect_values(diff_weights, {nan, inf, 2});
        }
    });
}

// ------------------------------------------------------------------------------------------------------------ errors

enum class side { large, small, weights };

/// The names of the tensors of one operator, and which are the first input and the result.
struct role {
    std::string_view op;
    bool transposed;
    side first;
    side second;
    side result;
    std::string_view large, small, weights;
    bool uses_output_padding;

    [[nodiscard]] std::string_view name(side s) const {
        return s == side::large ? large : s == side::small ? small : weights;
    }
};

constexpr std::array<role, 6> roles{{
    {"convolution", false, side::large, side::weights, side::small, "src", "dst", "weights", false},
    {"convolution_backward_data", false, side::small, side::weights, side::large, "diff_src", "diff_dst", "weights",
     true},
    {"convolution_backward_weights", false, side::large, side::small, side::weights, "src", "diff_dst", "diff_weights",
     false},
    {"conv_transpose", true, side::small, side::weights, side::large, "dst", "src", "weights", true},
    {"conv_transpose_backward_data", true, side::large, side::weights, side::small, "diff_dst", "diff_src", "weights",
     true},
    {"conv_transpose_backward_weights", true, side::small, side::large, side::weights, "diff_dst", "src",
     "diff_weights", true},
}};

/// Arguments of any of the operators. The base problem is valid: two groups, four and six channels, NCX, OIX.
struct problem {
    gk::tensor_layout large{2, 4, 7, 9};
    gk::tensor_layout small{2, 6, 3, 3};
    gk::tensor_layout weights;
    gk::convolution_attributes a{.strides = {2, 3},
                                 .dilations = {1, 2},
                                 .pads_begin = {1, 0},
                                 .pads_end = {0, 2},
                                 .groups = 2,
                                 .data_format = gk::data_format::ncx,
                                 .weights_format = gk::weights_format::oix};
    bool with_result = true;

    explicit problem(const role& r) : weights(r.transposed ? extents{2, 6, 3, 2} : extents{6, 2, 3, 2}) {}

    [[nodiscard]] gk::tensor_layout& at(side s) {
        return s == side::large ? large : s == side::small ? small : weights;
    }
    [[nodiscard]] gk::conv_transpose_attributes transposed() const {
        return {.strides = a.strides,
                .dilations = a.dilations,
                .pads_begin = a.pads_begin,
                .pads_end = a.pads_end,
                .auto_pad = a.auto_pad,
                .output_padding = a.output_padding,
                .groups = a.groups,
                .data_format = a.data_format,
                .weights_format = a.weights_format};
    }
};

/// The addresses of the tensors of a call.
struct memory {
    float* large = nullptr;
    float* small = nullptr;
    float* weights = nullptr;

    [[nodiscard]] float*& at(side s) { return s == side::large ? large : s == side::small ? small : weights; }
};

gk::status call(const role& r, problem p, const memory& m, const gk::call_options& options = {}) {
    if (!p.with_result) p.at(r.result) = {};
    const gk::tensor_view<float> large{m.large, p.large};
    const gk::tensor_view<float> small{m.small, p.small};
    const gk::tensor_view<float> weights{m.weights, p.weights};
    const gk::tensor_view<const float> in_large = large;
    const gk::tensor_view<const float> in_small = small;
    if (r.op == "convolution") return gk::convolution<float>(in_large, weights, {}, p.a, small, options);
    if (r.op == "convolution_backward_data")
        return gk::convolution_backward_data<float>(in_small, weights, p.a, large, options);
    if (r.op == "convolution_backward_weights")
        return gk::convolution_backward_weights<float, float>(in_large, in_small, p.a, weights, {}, options);
    if (r.op == "conv_transpose")
        return gk::conv_transpose<float>(in_small, weights, {}, p.transposed(), large, options);
    if (r.op == "conv_transpose_backward_data")
        return gk::conv_transpose_backward_data<float>(in_large, weights, p.transposed(), small, options);
    return gk::conv_transpose_backward_weights<float, float>(in_small, in_large, p.transposed(), weights, {}, options);
}

std::size_t workspace_bytes(const role& r, const problem& p, std::ptrdiff_t workers = 1) {
    const auto bytes = [&](const auto& plan) { return plan->workspace_bytes(workers); };
    if (r.op == "convolution") return bytes(gk::plan_convolution<float>(p.large, p.weights, {}, p.a, p.small));
    if (r.op == "convolution_backward_data")
        return bytes(gk::plan_convolution_backward_data<float>(p.small, p.weights, p.a, p.large));
    if (r.op == "convolution_backward_weights")
        return bytes(gk::plan_convolution_backward_weights<float>(p.large, p.small, p.a, p.weights));
    if (r.op == "conv_transpose")
        return bytes(gk::plan_conv_transpose<float>(p.small, p.weights, {}, p.transposed(), p.large));
    if (r.op == "conv_transpose_backward_data")
        return bytes(gk::plan_conv_transpose_backward_data<float>(p.large, p.weights, p.transposed(), p.small));
    return bytes(gk::plan_conv_transpose_backward_weights<float>(p.small, p.large, p.transposed(), p.weights));
}

/// Memory for the base problem; no call with a mistake may change any of it.
class arena {
public:
    arena() {
        for (const guarded_buffer<float>* b : {&large_, &small_, &weights_})
            for (std::size_t i = 0; i < b->size(); ++i) (*b)[i] = 0.5F + static_cast<float>(i % 7);
        before_ = {large_.snapshot(), small_.snapshot(), weights_.snapshot()};
    }
    [[nodiscard]] memory pointers() const { return {large_.data(), small_.data(), weights_.data()}; }
    [[nodiscard]] bool untouched() const {
        return large_.snapshot() == before_[0] && small_.snapshot() == before_[1] && weights_.snapshot() == before_[2];
    }

private:
    guarded_buffer<float> large_{2 * 4 * 7 * 9};
    guarded_buffer<float> small_{2 * 6 * 3 * 3};
    guarded_buffer<float> weights_{6 * 2 * 3 * 2};
    std::array<std::vector<unsigned char>, 3> before_;
};

/// One mistake in an operator's arguments. A mistake of a smaller step is found first; within a step the order is open.
struct mistake {
    std::string name;
    int step;
    std::function<void(problem&)> make;
    error expected;
};

std::vector<mistake> mistakes_of(const role& r) {
    std::vector<mistake> all;
    const auto add = [&](std::string name, int step, std::function<void(problem&)> make, errc code,
                         std::string_view argument, int axis, std::int64_t got, expectation relation,
                         std::int64_t expected) {
        all.push_back({std::move(name), step, std::move(make), {code, r.op, argument, axis, got, expected, relation}});
    };
    const auto wrong = errc::invalid_argument;
    const auto shape = errc::invalid_shape;

    // 0: the spatial rank, from the first input
    add(
        "rank 2", 0,
        [=](problem& p) {
            p.at(r.first) = extents{2, 4};
        },
        errc::unsupported, r.name(r.first), -1, 2, expectation::at_least, 3);
    add(
        "rank 6", 0, [=](problem& p) { p.at(r.first) = extents{1, 1, 1, 1, 1, 1}; }, errc::unsupported, r.name(r.first),
        -1, 6, expectation::at_most, 5);

    // 1: lengths and words
    add(
        "one stride", 10, [](problem& p) { p.a.strides = {2}; }, wrong, "strides", -1, 1, expectation::equal, 2);
    add(
        "no strides", 10, [](problem& p) { p.a.strides = {}; }, wrong, "strides", -1, 0, expectation::equal, 2);
    add(
        "seven strides", 10, [](problem& p) { p.a.strides = extents::filled(7, 1); }, wrong, "strides", -1, 7,
        expectation::equal, 2);
    add(
        "no dilations", 10, [](problem& p) { p.a.dilations = {}; }, wrong, "dilations", -1, 0, expectation::equal, 2);
    add(
        "three dilations", 10,
        [](problem& p) {
            p.a.dilations = {1, 2, 1};
        },
        wrong, "dilations", -1, 3, expectation::equal, 2);
    add(
        "one pad at the beginning", 10, [](problem& p) { p.a.pads_begin = {1}; }, wrong, "pads_begin", -1, 1,
        expectation::equal, 2);
    add(
        "three pads at the end", 10,
        [](problem& p) {
            p.a.pads_end = {0, 2, 0};
        },
        wrong, "pads_end", -1, 3, expectation::equal, 2);
    add(
        "auto_pad 9", 10, [](problem& p) { p.a.auto_pad = static_cast<gk::auto_pad>(9); }, wrong, "auto_pad", -1, 9,
        expectation::at_most, 3);
    add(
        "data_format 7", 10, [](problem& p) { p.a.data_format = static_cast<gk::data_format>(7); }, wrong,
        "data_format", -1, 7, expectation::at_most, 1);
    add(
        "weights_format 7", 10, [](problem& p) { p.a.weights_format = static_cast<gk::weights_format>(7); }, wrong,
        "weights_format", -1, 7, expectation::at_most, 1);

    // 2: values
    add(
        "stride 0", 20,
        [](problem& p) {
            p.a.strides = {2, 0};
        },
        wrong, "strides", 1, 0, expectation::at_least, 1);
    add(
        "stride -2", 20,
        [](problem& p) {
            p.a.strides = {-2, 3};
        },
        wrong, "strides", 0, -2, expectation::at_least, 1);
    add(
        "dilation 0", 20,
        [](problem& p) {
            p.a.dilations = {0, 2};
        },
        wrong, "dilations", 0, 0, expectation::at_least, 1);
    add(
        "pad -1", 20,
        [](problem& p) {
            p.a.pads_begin = {1, -1};
        },
        wrong, "pads_begin", 1, -1, expectation::at_least, 0);
    add(
        "end pad -2", 20,
        [](problem& p) {
            p.a.pads_end = {-2, 2};
        },
        wrong, "pads_end", 0, -2, expectation::at_least, 0);
    add(
        "groups 0", 20, [](problem& p) { p.a.groups = 0; }, wrong, "groups", -1, 0, expectation::at_least, 1);
    add(
        "groups -2", 20, [](problem& p) { p.a.groups = -2; }, wrong, "groups", -1, -2, expectation::at_least, 1);
    if (r.uses_output_padding) {
        add(
            "one output_padding", 10, [](problem& p) { p.a.output_padding = {0}; }, wrong, "output_padding", -1, 1,
            expectation::equal, 2);
        add(
            "output_padding -1", 20,
            [](problem& p) {
                p.a.output_padding = {-1, 0};
            },
            wrong, "output_padding", 0, -1, expectation::at_least, 0);
        // the bound is the stride, or in the transposed family the dilation if that is larger: both 3 here
        add(
            "output_padding 3", 20,
            [](problem& p) {
                p.a.output_padding = {0, 3};
            },
            wrong, "output_padding", 1, 3, expectation::below, 3);
    }

    // 3: ranks, then a required shape
    for (const side s : {r.second, r.result}) {
        const auto name = std::string(r.name(s));
        add(
            name + " of rank 3", 30,
            [=](problem& p) {
                p.at(s) = extents{2, 6, 3};
                p.with_result = true;
            },
            errc::unsupported, r.name(s), -1, 3, expectation::equal, 4);
        add(
            name + " of rank 6", 30,
            [=](problem& p) {
                p.at(s) = extents{1, 1, 1, 1, 1, 1};
                p.with_result = true;
            },
            errc::unsupported, r.name(s), -1, 6, expectation::equal, 4);
    }
    if (r.result == side::weights)
        add(
            "no shape", 35, [](problem& p) { p.with_result = false; }, errc::missing_shape, r.weights, -1, 0,
            expectation::none, 0);

    // 4: sizes
    for (const side s : {side::large, side::small}) {
        const auto name = std::string(r.name(s));
        add(
            name + ": N -1", 40, [=](problem& p) { p.at(s).shape[0] = -1; }, shape, r.name(s), 0, -1,
            expectation::at_least, 0);
        add(
            name + ": C -1", 40, [=](problem& p) { p.at(s).shape[1] = -1; }, shape, r.name(s), 1, -1,
            expectation::at_least, 0);
        add(
            name + ": size 0", 40, [=](problem& p) { p.at(s).shape[3] = 0; }, shape, r.name(s), 3, 0,
            expectation::at_least, 1);
    }
    add(
        "kernel 0", 40, [](problem& p) { p.weights.shape[2] = 0; }, shape, r.weights, 2, 0, expectation::at_least, 1);
    add(
        "filter channels -1 of a group", 40, [](problem& p) { p.weights.shape[1] = -1; }, shape, r.weights, 1, -1,
        expectation::at_least, 0);
    add(
        "filter channels -1", 40, [](problem& p) { p.weights.shape[0] = -1; }, shape, r.weights, 0, -1,
        expectation::at_least, 0);

    // 5: overflow
    for (const side s : {side::large, side::small, side::weights}) {
        add(
            std::string(r.name(s)) + " of 2^65 elements", 50,
            [=](problem& p) {
                p.at(s) = extents{2, 4, huge, huge};
            },
            errc::overflow, r.name(s), -1, 0, expectation::none, 0);
    }
    add(
        "effective kernel", 50, [](problem& p) { p.a.dilations[0] = std::int64_t{1} << 62; }, errc::overflow, r.weights,
        2, 0, expectation::none, 0);
    add(
        "padded size", 50, [](problem& p) { p.a.pads_end[0] = most; }, errc::overflow, r.large, 2, 0, expectation::none,
        0);
    add(
        "last window", 50, [](problem& p) { p.a.strides[0] = most; }, errc::overflow, r.small, 2, 0, expectation::none,
        0);

    // 6: batch; groups; channels; positions
    const side other = r.first == side::large ? side::small : side::large;
    add(
        "N 3 and 2", 60, [=](problem& p) { p.at(other).shape[0] = 3; }, shape, r.name(other), 0, 3, expectation::equal,
        2);
    add(
        "4 groups of 6 channels", 61, [](problem& p) { p.a.groups = 4; }, shape, r.weights, r.transposed ? 1 : 0, 6,
        expectation::multiple_of, 4);
    add(
        "7 channels", 62, [](problem& p) { p.small.shape[1] = 7; }, shape, r.small, 1, 7, expectation::equal, 6);
    add(
        "5 channels", 62, [](problem& p) { p.large.shape[1] = 5; }, shape, r.large, 1, 5, expectation::equal, 4);
    if (r.transposed) {
        add(
            "one window too many", 63, [](problem& p) { p.small.shape[2] = 4; }, shape, r.large, 2, 7,
            expectation::at_least, 8);
        add(
            "too small for a window", 63, [](problem& p) { p.large.shape[2] = 1; }, shape, r.large, 2, 1,
            expectation::at_least, 6);
        add(
            "room for a window more", 63, [](problem& p) { p.large.shape[3] = 10; }, shape, r.large, 3, 10,
            expectation::below, 10);
        add(
            "output_padding 0, rest 1", 63,
            [](problem& p) {
                p.a.output_padding = {0, 2};
            },
            shape, r.large, 2, 7, expectation::equal, 6);
    } else {
        add(
            "one window too many", 63, [](problem& p) { p.small.shape[2] = 4; }, shape, r.small, 2, 4,
            expectation::equal, 3);
        add(
            "too small for a window", 63, [](problem& p) { p.large.shape[2] = 1; }, shape, r.large, 2, 2,
            expectation::at_least, 3);
        add(
            "room for a window more", 63, [](problem& p) { p.large.shape[3] = 10; }, shape, r.small, 3, 3,
            expectation::equal, 4);
    }
    return all;
}

TEST(convolution_errors, the_base_problem_is_right) {
    for (const role& r : roles) {
        SCOPED_TRACE(r.op);
        const arena m;
        const gk::status s = call(r, problem(r), m.pointers());
        EXPECT_TRUE(s.ok()) << gk::to_string(s);
    }
}

TEST(convolution_errors, every_mistake_is_found_and_nothing_is_written) {
    for (const role& r : roles) {
        const arena m;
        for (const mistake& wrong : mistakes_of(r)) {
            SCOPED_TRACE(std::string(r.op) + ", " + wrong.name);
            problem p(r);
            wrong.make(p);
            EXPECT_EQ(call(r, p, m.pointers()).error(), wrong.expected) << gk::to_string(call(r, p, m.pointers()));
            // mistakes in shapes and attributes come before null pointers
            EXPECT_EQ(call(r, p, {}).error(), wrong.expected);
            ASSERT_TRUE(m.untouched());
        }
    }
}

TEST(convolution_errors, the_earlier_of_two_mistakes_is_reported) {
    int pairs = 0;
    for (const role& r : roles) {
        const arena m;
        const std::vector<mistake> all = mistakes_of(r);
        for (const mistake& earlier : all) {
            for (const mistake& later : all) {
                if (earlier.step >= later.step) continue;
                problem p(r);
                later.make(p);
                earlier.make(p);
                const gk::status s = call(r, p, m.pointers());
                ++pairs;
                EXPECT_EQ(s.error(), earlier.expected)
                    << r.op << ": " << earlier.name << " with " << later.name << ": " << gk::to_string(s);
            }
        }
        ASSERT_TRUE(m.untouched());
    }
    EXPECT_GT(pairs, 4000);
}

// The values of ignored pads are checked; their length is not.
TEST(convolution_errors, ignored_pads_must_not_be_negative) {
    for (const role& r : roles) {
        SCOPED_TRACE(r.op);
        const arena m;
        for (const gk::auto_pad mode : {gk::auto_pad::valid, gk::auto_pad::same_upper, gk::auto_pad::same_lower}) {
            problem p(r);
            p.a.auto_pad = mode;
            p.a.pads_begin = {0, 0, -3};
            EXPECT_EQ(call(r, p, {}).error(),
                      (error{errc::invalid_argument, r.op, "pads_begin", 2, -3, 0, expectation::at_least}));
            p.a.pads_begin = {};
            p.a.pads_end = {-1};
            EXPECT_EQ(call(r, p, {}).error(),
                      (error{errc::invalid_argument, r.op, "pads_end", 0, -1, 0, expectation::at_least}));
        }
        problem p(r);
        p.a.auto_pad = gk::auto_pad::same_upper;
        p.a.pads_begin = {5, 5, 5, 5};
        p.a.pads_end = {7};
        p.large = extents{2, 4, 6, 9};
        EXPECT_TRUE(call(r, p, m.pointers()).ok()) << gk::to_string(call(r, p, m.pointers()));
    }
}

// An empty vector of pads means zeros.
TEST(convolution_errors, absent_pads_are_zeros) {
    for (const role& r : roles) {
        SCOPED_TRACE(r.op);
        problem p(r);
        p.a.pads_begin = p.a.pads_end = {};
        p.large = extents{2, 4, 7, 9};
        const arena m;
        EXPECT_TRUE(call(r, p, m.pointers()).ok()) << gk::to_string(call(r, p, m.pointers()));
    }
}

// Shapes given as an attribute or input, rather than by an output tensor: a wrong number of entries is a wrong shape.
TEST(convolution_errors, shape_vectors_have_one_entry_per_axis) {
    const problem base(roles[1]);
    gk::convolution_attributes a = base.a;
    const extents& small = base.small.shape;
    for (const extents& asked : {extents{7, 9}, extents{2, 4, 7}, extents{2, 4, 7, 9, 1}, extents::filled(6, 1)}) {
        const error e{errc::invalid_shape,
                      "convolution_backward_data",
                      "diff_src",
                      -1,
                      static_cast<std::int64_t>(asked.rank()),
                      4,
                      expectation::equal};
        EXPECT_EQ(gk::infer_convolution_backward_data(small, {6, 2, 3, 2}, a, asked).error(), e);
        a.diff_src_shape = asked;
        EXPECT_EQ(gk::infer_convolution_backward_data(small, {6, 2, 3, 2}, a).error(), e);
        // an output tensor takes precedence over the attribute, which is then ignored
        EXPECT_TRUE(gk::infer_convolution_backward_data(small, {6, 2, 3, 2}, a, base.large.shape).has_value());
        EXPECT_TRUE(gk::plan_convolution_backward_data<float>(small, {6, 2, 3, 2}, a, base.large).has_value());
    }
    a.diff_weights_shape = {6, 2, 3};
    EXPECT_EQ(gk::infer_convolution_backward_weights(base.large.shape, small, a).error().code, errc::invalid_shape);
    gk::conv_transpose_attributes t = base.transposed();
    t.dst_shape = t.diff_src_shape = t.diff_weights_shape = {7, 9, 1};
    EXPECT_EQ(gk::infer_conv_transpose(small, {2, 6, 3, 2}, t).error().code, errc::invalid_shape);
    EXPECT_EQ(gk::infer_conv_transpose_backward_data(base.large.shape, {2, 6, 3, 2}, t).error().code,
              errc::invalid_shape);
    EXPECT_EQ(gk::infer_conv_transpose_backward_weights(small, base.large.shape, t).error().code, errc::invalid_shape);
}

TEST(convolution_errors, bias_has_one_entry_per_output_channel) {
    const problem base(roles[0]);
    const auto code = [&](const gk::tensor_layout& bias) {
        const auto plan = gk::plan_convolution<float>(base.large, base.weights, bias, base.a, base.small);
        EXPECT_TRUE(plan || plan.error().argument == "bias");
        return plan.error().code;
    };
    EXPECT_EQ(code({6}), errc::ok);
    EXPECT_EQ(code({5}), errc::invalid_shape);
    EXPECT_EQ(code({0}), errc::invalid_shape);
    EXPECT_EQ(code({1, 6}), errc::unsupported);
    EXPECT_EQ(code({extents{6}, extents{1, 1}}), errc::invalid_argument);
    const problem transposed(roles[3]);
    const auto plan = gk::plan_conv_transpose<float>(transposed.small, transposed.weights, {6}, transposed.transposed(),
                                                     transposed.large);
    EXPECT_EQ(plan.error(), (error{errc::invalid_shape, "conv_transpose", "bias", 0, 6, 4, expectation::equal}));
}

// Dims whose product does not fit 64 bits are refused by every operator before memory is touched.
TEST(convolution_errors, huge_sizes_are_refused_without_memory) {
    const extents cube{1, 1, huge, huge, huge};
    const extents dot{1, 1, 1, 1, 1};
    for (const role& r : roles) {
        SCOPED_TRACE(r.op);
        for (const side s : {side::large, side::small, side::weights}) {
            problem p(r);
            p.a.strides = p.a.dilations = {1, 1, 1};
            p.a.pads_begin = p.a.pads_end = {};
            p.a.groups = 1;
            p.large = p.small = p.weights = dot;
            p.at(s) = cube;
            EXPECT_EQ(call(r, p, {}).error(), (error{errc::overflow, r.op, r.name(s), -1, 0, 0, expectation::none}));
            // as bytes, not as elements: 2^61 floats are 2^63 bytes
            p.at(s) = extents{1, 1, huge, huge / 2, 1};
            EXPECT_EQ(call(r, p, {}).error().code, errc::overflow);
            // N = 0 does not hide it
            if (s == side::weights) continue;
            p.large = p.small = extents{0, 1, 1, 1, 1};
            p.at(s) = extents{0, 1, huge, huge, huge};
            EXPECT_EQ(call(r, p, {}).error().code, errc::overflow);
        }
    }
}

// Sizes that are inferred overflow, too.
TEST(convolution_errors, inferred_sizes_are_checked) {
    const std::int64_t big = std::int64_t{1} << 40;
    gk::convolution_attributes a{.strides = {big},
                                 .dilations = {1},
                                 .data_format = gk::data_format::ncx,
                                 .weights_format = gk::weights_format::oix};
    // I = stride * (O - 1) + Ke
    EXPECT_EQ(gk::infer_convolution_backward_data({1, 1, big}, {1, 1, 1}, a).error().code, errc::overflow);
    // I = stride * O
    a.auto_pad = gk::auto_pad::same_upper;
    EXPECT_EQ(gk::infer_convolution_backward_data({1, 1, big}, {1, 1, 1}, a).error().code, errc::overflow);
    a.strides = {most};
    EXPECT_EQ(gk::infer_convolution_backward_data({1, 1, 2}, {1, 1, 1}, a).error().code, errc::overflow);
    gk::conv_transpose_attributes t{.strides = {big},
                                    .dilations = {1},
                                    .data_format = gk::data_format::ncx,
                                    .weights_format = gk::weights_format::oix};
    EXPECT_EQ(gk::infer_conv_transpose({1, 1, big}, {1, 1, 1}, t).error().code, errc::overflow);
    t.auto_pad = gk::auto_pad::same_lower;
    EXPECT_EQ(gk::infer_conv_transpose({1, 1, big}, {1, 1, 1}, t).error().code, errc::overflow);
    // the element count of the result, each of whose sizes fits
    a = {.strides = {1},
         .dilations = {1},
         .data_format = gk::data_format::ncx,
         .weights_format = gk::weights_format::oix};
    EXPECT_EQ(gk::infer_convolution({huge, 1, 1}, {huge, 1, 1}, a).error(),
              (error{errc::overflow, "convolution", "dst", -1, 0, 0, expectation::none}));
    EXPECT_EQ(gk::infer_convolution_backward_data({huge, 1, 1}, {1, huge, 1}, a).error().code, errc::overflow);
    // the last window of same_*, with and without a tensor for the result
    a.auto_pad = gk::auto_pad::same_upper;
    a.dilations = {most - 1};
    EXPECT_EQ(gk::infer_convolution({1, 1, 2}, {1, 1, 2}, a).error().code, errc::overflow);
    EXPECT_EQ(gk::plan_convolution<float>({1, 1, 2}, {1, 1, 2}, {}, a, {1, 1, 2}).error().code, errc::overflow);
    // I + pads, although the size itself is small: 20 + (2^63 - 11) of a window that leaves no room for output_padding
    const auto reach = [](auto attributes) {
        attributes = {.strides = {11},
                      .dilations = {most - 1},
                      .pads_begin = {most - 10},
                      .pads_end = {0},
                      .output_padding = {10},
                      .data_format = gk::data_format::ncx,
                      .weights_format = gk::weights_format::oix};
        return attributes;
    };
    EXPECT_EQ(gk::infer_conv_transpose({1, 64, 1}, {1, 64, 2}, reach(t)).error(),
              (error{errc::overflow, "conv_transpose", "dst", 2, 0, 0, expectation::none}));
    EXPECT_EQ(gk::infer_convolution_backward_data({1, 64, 1}, {64, 1, 2}, reach(a)).error(),
              (error{errc::overflow, "convolution_backward_data", "diff_src", 2, 0, 0, expectation::none}));
}

// A filter of 2^40 taps, of which five are inside: work and workspace are those of five.
TEST(convolution, long_kernels_cost_their_inside_taps) {
    const std::int64_t taps = std::int64_t{1} << 40;
    const std::array<float, 1> weight{3};  // every tap: strides of 0
    const gk::tensor_layout weights({1, 1, taps}, {0, 0, 0});
    const auto one = tensor_of<float>(at_size(1), {2});
    const auto five = tensor_of<float>(at_size(5), {1, 10, 100, 1000, 10000});
    const auto run = [](const auto& plan, auto&&... tensors) {
        if (refuses_algorithm(plan.error())) return false;
        EXPECT_TRUE(plan.has_value()) << gk::to_string(plan.error());
        if (!plan) return false;
        EXPECT_LE(plan->workspace_bytes(1), std::size_t{64} * 1024);
        std::vector<std::byte> workspace(plan->workspace_bytes(1));
        EXPECT_TRUE(plan->run(tensors..., workspace).ok());
        return true;
    };
    for (const gk::algorithm path : all_algorithms) {
        SCOPED_TRACE(static_cast<int>(path));
        const gk::plan_options options{.algorithm = path};
        for (const std::int64_t begin : {std::int64_t{0}, taps / 2, taps - 5}) {
            const gk::conv_transpose_attributes t{.strides = {1},
                                                  .dilations = {1},
                                                  .pads_begin = {begin},
                                                  .pads_end = {taps - 5 - begin},
                                                  .data_format = gk::data_format::ncx,
                                                  .weights_format = gk::weights_format::oix};
            test_tensor<float> dst(at_size(5));
            if (run(gk::plan_conv_transpose<float>(one.layout(), weights, {}, t, {}, options), one.data(),
                    weight.data(), nullptr, dst.data()))
                expect_values(dst, {6, 6, 6, 6, 6});
            const gk::convolution_attributes a{.strides = {1},
                                               .dilations = {1},
                                               .pads_begin = {begin},
                                               .pads_end = {taps - 5 - begin},
                                               .data_format = gk::data_format::ncx,
                                               .weights_format = gk::weights_format::oix};
            test_tensor<float> small(at_size(1));
            if (run(gk::plan_convolution<float>(five.layout(), weights, {}, a, {}, options), five.data(), weight.data(),
                    nullptr, small.data()))
                expect_values(small, {33333});
        }
    }
}

// Strides, dilations and pads far beyond every tensor: one window, whose second of two taps lies inside. Near the limit of
// 64 bits a plan may report that its scratch size overflows, but no other error may occur.
TEST(convolution_errors, extreme_attributes_are_computed_or_refused) {
    const auto src = tensor_of<float>({1, 1, 3}, {1, 2, 3});
    const auto weights = tensor_of<float>({1, 1, 2}, {10, 100});
    const auto diff_dst = tensor_of<float>({1, 1, 1}, {2});
    for (const std::int64_t far : {std::int64_t{1} << 35, most - 4}) {
        const gk::convolution_attributes a{.strides = {far + 4},
                                           .dilations = {far},
                                           .pads_begin = {far},
                                           .data_format = gk::data_format::ncx,
                                           .weights_format = gk::weights_format::oix};
        ASSERT_EQ(*gk::infer_convolution(src.shape(), weights.shape(), a), at_size(1));
        ASSERT_EQ(*gk::infer_convolution_backward_data(at_size(1), weights.shape(), a, at_size(3)), at_size(3));
        const auto expect = [&](const gk::status& s, const test_tensor<float>& out, const std::vector<float>& values) {
            if (s.ok()) {
                expect_values(out, values);
            } else if (!refuses_algorithm(s)) {
                EXPECT_GT(far, std::int64_t{1} << 35);
                EXPECT_EQ(s.code(), errc::overflow) << gk::to_string(s);
            }
        };
        for (const gk::algorithm path : all_algorithms) {
            SCOPED_TRACE(static_cast<int>(path));
            const gk::call_options options{.plan = {.algorithm = path}};
            test_tensor<float> dst(at_size(1));
            expect(gk::convolution<float>(src.const_view(), weights.const_view(), {}, a, dst.view(), options), dst,
                   {100});
            test_tensor<float> diff_src(at_size(3));
            expect(gk::convolution_backward_data<float>(diff_dst.const_view(), weights.const_view(), a, diff_src.view(),
                                                        options),
                   diff_src, {200, 0, 0});
            test_tensor<float> diff_weights(at_size(2));
            expect(gk::convolution_backward_weights<float>(src.const_view(), diff_dst.const_view(), a,
                                                           diff_weights.view(), {}, options),
                   diff_weights, {0, 2});
        }
    }
}

TEST(convolution_errors, null_pointers) {
    for (const role& r : roles) {
        for (const side s : {side::large, side::small, side::weights}) {
            SCOPED_TRACE(std::string(r.op) + ", " + std::string(r.name(s)));
            const arena m;
            memory pointers = m.pointers();
            pointers.at(s) = nullptr;
            EXPECT_EQ(call(r, problem(r), pointers).error(),
                      (error{errc::null_pointer, r.op, r.name(s), -1, 0, 0, expectation::none}));
            EXPECT_TRUE(m.untouched());
        }
    }
    // a bias that was planned
    const arena m;
    const problem p(roles[0]);
    const auto plan = gk::plan_convolution<float>(p.large, p.weights, {6}, p.a, p.small);
    ASSERT_TRUE(plan.has_value());
    std::vector<std::byte> workspace(plan->workspace_bytes());
    const memory pointers = m.pointers();
    EXPECT_EQ(plan->run(pointers.large, pointers.weights, nullptr, pointers.small, workspace).error(),
              (error{errc::null_pointer, "convolution", "bias", -1, 0, 0, expectation::none}));
    EXPECT_TRUE(m.untouched());
}

// An output that overlaps an input, entirely or by one element at either end.
TEST(convolution_errors, outputs_must_not_overlap_inputs) {
    const auto count = [](const gk::tensor_layout& t) {
        std::int64_t n = 1;
        for (const std::int64_t e : t.shape.values()) n *= e;
        return n;
    };
    for (const role& r : roles) {
        for (const side in : {side::large, side::small, side::weights}) {
            if (in == r.result) continue;
            SCOPED_TRACE(std::string(r.op) + ", " + std::string(r.name(in)));
            problem p(r);
            const std::int64_t in_count = count(p.at(in));
            const std::int64_t out_count = count(p.at(r.result));
            const guarded_buffer<float> shared(static_cast<std::size_t>(in_count + 2 * out_count));
            for (std::size_t i = 0; i < shared.size(); ++i) shared[i] = 0.5F + static_cast<float>(i % 7);
            const auto before = shared.snapshot();
            const arena m;
            for (const std::int64_t shift : {std::int64_t{1}, out_count, in_count + out_count - 1}) {
                memory pointers = m.pointers();
                pointers.at(in) = shared.data() + out_count;
                pointers.at(r.result) = shared.data() + shift;
                EXPECT_EQ(call(r, p, pointers).error(),
                          (error{errc::invalid_argument, r.op, r.name(r.result), -1, 0, 0, expectation::none}))
                    << shift;
            }
            EXPECT_TRUE(shared.snapshot() == before);
            EXPECT_TRUE(m.untouched());
            // adjacent is allowed
            for (const std::int64_t shift : {std::int64_t{0}, in_count + out_count}) {
                memory pointers = m.pointers();
                pointers.at(in) = shared.data() + out_count;
                pointers.at(r.result) = shared.data() + shift;
                EXPECT_TRUE(call(r, p, pointers).ok()) << shift;
            }
        }
    }
}

// Strided tensors overlap if they share an element, not if their ranges overlap.
TEST(convolution_errors, strided_outputs_may_lie_in_gaps) {
    const role& r = roles[1];
    problem p(r);
    p.large.strides = {-4 * 126, 126, 18, 2};  // every other element, the second image below the pointer
    const guarded_buffer<float> shared(2 * 4 * 126);
    const arena m;
    memory pointers = m.pointers();
    pointers.large = shared.data() + 4 * 126;
    p.small.strides = {0, 0, 0, 2};
    pointers.small = shared.data() + 1;  // in the gaps of the second image
    EXPECT_TRUE(call(r, p, pointers).ok());
    pointers.small = shared.data() + 2;  // on its elements
    EXPECT_EQ(call(r, p, pointers).error().code, errc::invalid_argument);
    pointers.small = m.pointers().small;
    EXPECT_TRUE(call(r, p, pointers).ok());
}

TEST(convolution_errors, outputs_must_not_overlap_themselves) {
    for (const role& r : roles) {
        SCOPED_TRACE(r.op);
        const arena m;
        problem p(r);
        const extents dense = dense_strides(p.at(r.result).shape);
        const auto refused = [&](const extents& strides, errc code) {
            p.at(r.result).strides = strides;
            const error e = call(r, p, m.pointers()).error();
            EXPECT_EQ(e.code, code) << gk::to_string(e);
            if (code != errc::ok) {
                EXPECT_EQ(e.argument, r.name(r.result));
            }
            return e.axis;
        };
        extents strides = dense;
        strides[1] = 0;
        EXPECT_EQ(refused(strides, errc::invalid_argument), 1);
        strides = dense;
        strides[0] = dense[0] - 1;
        EXPECT_EQ(refused(strides, errc::invalid_argument), 0);
        strides = dense;
        strides[3] = -2;
        refused(strides, errc::invalid_argument);
        EXPECT_EQ(refused({1, 1, 1}, errc::invalid_argument), -1);
        EXPECT_TRUE(m.untouched());
        refused({most, 1, 1, 1}, errc::overflow);
        refused({most, -most, 1, 1}, errc::overflow);
        EXPECT_TRUE(m.untouched());
        refused(dense, errc::ok);
    }
}

// Inputs may have any strides, 0 and negative ones included; addresses still have to fit.
TEST(convolution_errors, input_strides_are_free) {
    for (const role& r : roles) {
        SCOPED_TRACE(r.op);
        problem p(r);
        const arena m;
        p.at(r.first).strides = {0, 0, 0, 0};
        EXPECT_TRUE(call(r, p, m.pointers()).ok());
        p.at(r.first).strides = {1, 1};
        EXPECT_EQ(call(r, p, {}).error(),
                  (error{errc::invalid_argument, r.op, r.name(r.first), -1, 2, 4, expectation::equal}));
        p.at(r.first).strides = {1, most / 4, most / 4, most / 4};
        EXPECT_EQ(call(r, p, {}).error().code, errc::overflow);
        p.at(r.first).strides = {std::numeric_limits<std::int64_t>::min(), 1, 1, 1};
        EXPECT_EQ(call(r, p, {}).error().code, errc::overflow);
    }
}

TEST(convolution_errors, workspace_too_small) {
    for (const role& r : roles) {
        SCOPED_TRACE(r.op);
        problem p(r);
        p.a.strides = p.a.dilations = p.a.pads_begin = p.a.pads_end = {1, 1};
        p.a.groups = 1;
        p.large = p.small = extents{1, 160, 8, 8};
        p.weights = extents{160, 160, 3, 3};
        const std::size_t needed = workspace_bytes(r, p);
        ASSERT_GT(needed, 16U * 1024U);
        const guarded_buffer<float> large(160 * 64);
        const guarded_buffer<float> small(160 * 64);
        const guarded_buffer<float> weights(160 * 160 * 9);
        const memory m{large.data(), small.data(), weights.data()};
        memory written = m;
        for (const guarded_buffer<float>* b : {&large, &small, &weights})
            for (std::size_t i = 0; i < b->size(); ++i) (*b)[i] = 0.5F;
        const auto bytes_of = [&](const float* at) {
            return at == m.weights ? weights.snapshot() : at == m.large ? large.snapshot() : small.snapshot();
        };
        const auto before = bytes_of(written.at(r.result));
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, needed - 1}) {
            if (size == 0 && r.result == side::weights) continue;  // few taps: the stack is enough
            std::vector<std::byte> workspace(size);
            EXPECT_EQ(call(r, p, m, {.workspace = workspace}).error(),
                      (error{errc::workspace_too_small, r.op, "workspace", -1, static_cast<std::int64_t>(size),
                             static_cast<std::int64_t>(needed), expectation::at_least}));
        }
        EXPECT_TRUE(bytes_of(written.at(r.result)) == before);
        // exactly enough, at an odd address
        std::vector<std::byte> workspace(needed + 1);
        EXPECT_TRUE(call(r, p, m, {.workspace = std::span(workspace).subspan(1)}).ok());
        EXPECT_FALSE(bytes_of(written.at(r.result)) == before);
    }
}

// ----------------------------------------------------------------------------------------------------------- N = 0

TEST(convolution_spec, empty_batches) {
    for (const gk::algorithm path : all_algorithms) {
        for (const role& r : roles) {
            SCOPED_TRACE(r.op);
            const gk::call_options options{.plan = {.algorithm = path}};
            problem p(r);
            p.large.shape[0] = p.small.shape[0] = 0;
            const arena m;
            memory pointers{nullptr, nullptr, m.pointers().weights};
            const gk::status s = call(r, p, pointers, options);
            if (refuses_algorithm(s)) continue;
            EXPECT_TRUE(s.ok()) << gk::to_string(s);
            if (r.result != side::weights) {
                EXPECT_TRUE(m.untouched());
                continue;
            }
            for (std::size_t i = 0; i < 6 * 2 * 3 * 2; ++i) {
                EXPECT_EQ(pointers.weights[i], 0.0F);
                EXPECT_FALSE(std::signbit(pointers.weights[i]));
            }
        }
    }
    const guarded_buffer<float> diff_bias(4);
    ASSERT_TRUE(gk::bias_backward<float>({nullptr, {0, 4, 3}}, {.data_format = gk::data_format::ncx},
                                         gk::tensor_view<float>{diff_bias.data(), {4}})
                    .ok());
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(diff_bias[i], 0.0F);
}

// ------------------------------------------------------------------------------------------------------------- sizes

/// One axis of a problem.
struct axis_case {
    std::int64_t k, s, d, pb, pe;
    gk::auto_pad mode = gk::auto_pad::none;
    extents output_padding{};

    [[nodiscard]] std::int64_t effective() const { return (k - 1) * d + 1; }
    template <class Attributes>
    [[nodiscard]] Attributes attributes() const {
        Attributes a;
        a.strides = {s};
        a.dilations = {d};
        a.pads_begin = {pb};
        a.pads_end = {pe};
        a.auto_pad = mode;
        a.output_padding = output_padding;
        a.data_format = gk::data_format::ncx;
        a.weights_format = gk::weights_format::oix;
        return a;
    }
    [[nodiscard]] gk::convolution_attributes conv() const { return attributes<gk::convolution_attributes>(); }
    [[nodiscard]] gk::conv_transpose_attributes transpose() const {
        return attributes<gk::conv_transpose_attributes>();
    }
    [[nodiscard]] extents kernel() const { return {1, 1, k}; }

    /// Windows that fit, counted one by one; 0 if none does.
    [[nodiscard]] std::int64_t windows(std::int64_t size) const {
        std::int64_t count = 0;
        while (count * s + effective() <= size + pb + pe) ++count;
        return count;
    }
};

template <class F>
void for_each_axis(const F& fn) {
    for (std::int64_t k = 1; k <= 4; ++k)
        for (std::int64_t s = 1; s <= 4; ++s)
            for (std::int64_t d = 1; d <= 3; ++d)
                for (std::int64_t pb = 0; pb <= 2; ++pb)
                    for (std::int64_t pe = 0; pe <= 2; ++pe) fn(axis_case{k, s, d, pb, pe});
}

TEST(convolution_sizes, forward_counts_the_windows_that_fit) {
    for_each_axis([](const axis_case& c) {
        for (std::int64_t size = 1; size <= 12; ++size) {
            const auto dst = gk::infer_convolution(at_size(size), c.kernel(), c.conv());
            const std::int64_t count = c.windows(size);
            if (count == 0) {
                ASSERT_EQ(dst.error().code, errc::invalid_shape);
                ASSERT_EQ(dst.error().argument, "src");
            } else {
                ASSERT_EQ(*dst, at_size(count));
            }
        }
    });
}

// Exactly `stride` consecutive sizes of the result are legal, except those below 1.
TEST(convolution_sizes, backward_data_takes_stride_consecutive_sizes) {
    for_each_axis([](const axis_case& c) {
        for (std::int64_t o = 1; o <= 4; ++o) {
            const std::int64_t least = c.s * (o - 1) + c.effective() - c.pb - c.pe;
            for (std::int64_t size = 1; size <= least + c.s + 3; ++size) {
                const bool legal = c.windows(size) == o;
                ASSERT_EQ(legal, size >= least && size < least + c.s);
                const auto r = gk::infer_convolution_backward_data(at_size(o), c.kernel(), c.conv(), at_size(size));
                ASSERT_EQ(r.has_value(), legal) << gk::to_string(r.error());
                // output_padding is checked for its range, and has no other effect
                for (std::int64_t op = 0; op <= c.s; ++op) {
                    axis_case padded = c;
                    padded.output_padding = {op};
                    const auto with =
                        gk::infer_convolution_backward_data(at_size(o), c.kernel(), padded.conv(), at_size(size));
                    ASSERT_EQ(with.error().code, op == c.s ? errc::invalid_argument
                                                 : legal   ? errc::ok
                                                           : errc::invalid_shape)
                        << gk::to_string(with.error()) << ", output_padding " << op;
                }
            }
        }
    });
}

TEST(convolution_sizes, backward_data_infers_the_smallest_size_plus_output_padding) {
    for_each_axis([](axis_case c) {
        for (const gk::auto_pad mode : {gk::auto_pad::none, gk::auto_pad::valid}) {
            c.mode = mode;
            const std::int64_t pads = mode == gk::auto_pad::none ? c.pb + c.pe : 0;
            for (std::int64_t o = 1; o <= 4; ++o) {
                for (std::int64_t op = -1; op <= c.s; ++op) {
                    c.output_padding = op < 0 ? extents{} : extents{op};
                    const auto r = gk::infer_convolution_backward_data(at_size(o), c.kernel(), c.conv());
                    const std::int64_t size = c.s * (o - 1) + c.effective() - pads + std::max<std::int64_t>(op, 0);
                    if (op == c.s) {
                        ASSERT_EQ(r.error().code, errc::invalid_argument);
                    } else if (size < 1) {
                        ASSERT_EQ(r.error(), (error{errc::invalid_shape, "convolution_backward_data", "diff_src", 2,
                                                    size, 1, expectation::at_least}));
                    } else {
                        ASSERT_EQ(*r, at_size(size));
                    }
                }
            }
        }
        for (const gk::auto_pad mode : {gk::auto_pad::same_upper, gk::auto_pad::same_lower}) {
            c.mode = mode;
            for (std::int64_t o = 1; o <= 4; ++o) {
                c.output_padding = {};
                ASSERT_EQ(*gk::infer_convolution_backward_data(at_size(o), c.kernel(), c.conv()), at_size(o * c.s));
                c.output_padding = {0};
                ASSERT_EQ(*gk::infer_convolution_backward_data(at_size(o), c.kernel(), c.conv()), at_size(o * c.s));
                if (c.s == 1) continue;
                c.output_padding = {1};
                const error e = gk::infer_convolution_backward_data(at_size(o), c.kernel(), c.conv()).error();
                ASSERT_EQ(e, (error{errc::invalid_argument, "convolution_backward_data", "output_padding", 0, 1, 0,
                                    expectation::equal}));
                // an attribute's value is checked before inconsistent shapes
                ASSERT_EQ(gk::infer_convolution_backward_data({1, 7, o}, c.kernel(), c.conv()).error(), e);
            }
        }
    });
}

/// Splits a padding total as the rules say: the larger half at the end for same_upper, at the beginning for same_lower.
gk::shape::pads split(std::int64_t total, gk::auto_pad mode) {
    total = std::max<std::int64_t>(0, total);
    return mode == gk::auto_pad::same_upper ? gk::shape::pads{total / 2, (total + 1) / 2}
                                            : gk::shape::pads{(total + 1) / 2, total / 2};
}

gk::shape::pads pads_of(const gk::shape::convolution_problem& p) { return {p.axes[2].pad_begin, p.axes[2].pad_end}; }

// Rule F, forward and for both gradients: O = ceil(I / s), total = max(0, (O - 1) * s + Ke - I).
TEST(convolution_sizes, rule_f) {
    for_each_axis([](axis_case c) {
        for (const gk::auto_pad mode : {gk::auto_pad::same_upper, gk::auto_pad::same_lower}) {
            c.mode = mode;
            for (std::int64_t size = 1; size <= 9; ++size) {
                const std::int64_t o = (size + c.s - 1) / c.s;
                const auto expected = split((o - 1) * c.s + c.effective() - size, mode);
                const auto forward = gk::shape::convolution_shapes(at_size(size), c.kernel(), c.conv(), {}, false, 4);
                ASSERT_TRUE(forward.has_value());
                ASSERT_EQ(forward->small_shape, at_size(o));
                ASSERT_EQ(pads_of(*forward), expected);
                for (std::int64_t other = 1; other <= o + 1; ++other) {
                    const auto data = gk::shape::convolution_backward_data_shapes(at_size(other), c.kernel(), c.conv(),
                                                                                  at_size(size), false, 4);
                    const auto weights = gk::shape::convolution_backward_weights_shapes(at_size(size), at_size(other),
                                                                                        c.conv(), c.kernel(), false, 4);
                    ASSERT_EQ(data.has_value(), other == o);
                    ASSERT_EQ(weights.has_value(), other == o);
                    if (other != o) continue;
                    ASSERT_EQ(data->axes, forward->axes);
                    ASSERT_EQ(weights->axes, forward->axes);
                }
            }
        }
    });
}

// Rule T, no size given: total = max(0, Ke - s), I = s * (O - 1) + Ke - total + op.
TEST(convolution_sizes, rule_t) {
    for_each_axis([](axis_case c) {
        for (const gk::auto_pad mode : {gk::auto_pad::same_upper, gk::auto_pad::same_lower}) {
            c.mode = mode;
            for (std::int64_t o = 1; o <= 4; ++o) {
                for (std::int64_t op = 0; op < std::max(c.s, c.d); ++op) {
                    c.output_padding = {op};
                    const auto r =
                        gk::shape::conv_transpose_shapes(at_size(o), c.kernel(), c.transpose(), {}, false, 4);
                    const std::int64_t total = std::max<std::int64_t>(0, c.effective() - c.s);
                    ASSERT_TRUE(r.has_value());
                    ASSERT_EQ(r->large_shape, at_size(c.s * (o - 1) + c.effective() - total + op));
                    if (c.effective() >= c.s) {
                        ASSERT_EQ(r->large_shape, at_size(o * c.s + op));
                    }
                    ASSERT_EQ(pads_of(*r), split(total, mode));
                }
            }
        }
    });
}

// Rule TB, size given: total = max(0, s * (O - 1) + Ke + op - I), and ceil((I - op) / s) must be O.
TEST(convolution_sizes, rule_tb) {
    for_each_axis([](axis_case c) {
        for (const gk::auto_pad mode : {gk::auto_pad::same_upper, gk::auto_pad::same_lower}) {
            c.mode = mode;
            for (std::int64_t size = 1; size <= 9; ++size) {
                for (std::int64_t op = -1; op < std::max(c.s, c.d); ++op) {
                    c.output_padding = op < 0 ? extents{} : extents{op};
                    const std::int64_t rest = size - std::max<std::int64_t>(op, 0);
                    const std::int64_t fitting = rest < 1 ? 0 : (rest + c.s - 1) / c.s;
                    for (std::int64_t o = 1; o <= fitting + 1; ++o) {
                        const auto forward = gk::shape::conv_transpose_shapes(at_size(o), c.kernel(), c.transpose(),
                                                                              at_size(size), false, 4);
                        const auto data = gk::shape::conv_transpose_backward_data_shapes(
                            at_size(size), c.kernel(), c.transpose(), at_size(o), false, 4);
                        const auto weights = gk::shape::conv_transpose_backward_weights_shapes(
                            at_size(o), at_size(size), c.transpose(), c.kernel(), false, 4);
                        ASSERT_EQ(forward.error().code, o == fitting ? errc::ok : errc::invalid_shape);
                        ASSERT_EQ(data.error().code, forward.error().code);
                        ASSERT_EQ(weights.error().code, forward.error().code);
                        if (o != fitting) continue;
                        ASSERT_EQ(pads_of(*forward), split(c.s * (o - 1) + c.effective() - rest, mode));
                        ASSERT_EQ(data->axes, forward->axes);
                        ASSERT_EQ(weights->axes, forward->axes);
                    }
                    // without src_shape: O = ceil((I - op) / s)
                    const auto inferred =
                        gk::infer_conv_transpose_backward_data(at_size(size), c.kernel(), c.transpose());
                    ASSERT_EQ(inferred.error().code, fitting == 0 ? errc::invalid_shape : errc::ok);
                    if (inferred) {
                        ASSERT_EQ(*inferred, at_size(fitting));
                    }
                }
            }
        }
    });
}

// Explicit pads: rest = I - (s * (O - 1) + Ke - pb - pe) is output_padding if given, and below max(s, d) otherwise.
TEST(convolution_sizes, transposed_sizes_and_output_padding) {
    for_each_axis([](axis_case c) {
        const std::int64_t bound = std::max(c.s, c.d);
        for (std::int64_t op = -1; op <= bound; ++op) {
            c.output_padding = op < 0 ? extents{} : extents{op};
            for (std::int64_t o = 1; o <= 3; ++o) {
                const std::int64_t least = c.s * (o - 1) + c.effective() - c.pb - c.pe;
                const auto inferred = gk::infer_conv_transpose(at_size(o), c.kernel(), c.transpose());
                const std::int64_t size = least + std::max<std::int64_t>(op, 0);
                ASSERT_EQ(inferred.error().code, op == bound ? errc::invalid_argument
                                                 : size < 1  ? errc::invalid_shape
                                                             : errc::ok);
                if (inferred) {
                    ASSERT_EQ(*inferred, at_size(size));
                }
                for (std::int64_t given = 1; given <= least + bound + 2; ++given) {
                    const std::int64_t rest = given - least;
                    const bool fits = op < 0 ? rest >= 0 && rest < bound : rest == op;
                    const errc code = op == bound ? errc::invalid_argument : fits ? errc::ok : errc::invalid_shape;
                    ASSERT_EQ(
                        gk::infer_conv_transpose(at_size(o), c.kernel(), c.transpose(), at_size(given)).error().code,
                        code);
                    ASSERT_EQ(
                        gk::infer_conv_transpose_backward_data(at_size(given), c.kernel(), c.transpose(), at_size(o))
                            .error()
                            .code,
                        code);
                    ASSERT_EQ(
                        gk::infer_conv_transpose_backward_weights(at_size(o), at_size(given), c.transpose(), c.kernel())
                            .error()
                            .code,
                        code);
                }
            }
            // without src_shape: O = floor((I - op + pb + pe - Ke) / s) + 1, and the rest must fit then, too
            for (std::int64_t given = 1; op < bound && given <= 9; ++given) {
                const std::int64_t room = given - std::max<std::int64_t>(op, 0) + c.pb + c.pe - c.effective();
                const auto r = gk::infer_conv_transpose_backward_data(at_size(given), c.kernel(), c.transpose());
                const bool fits = room >= 0 && (op < 0 || room % c.s == 0);
                ASSERT_EQ(r.error().code, fits ? errc::ok : errc::invalid_shape);
                if (r) {
                    ASSERT_EQ(*r, at_size(room / c.s + 1));
                }
            }
        }
    });
}

// A transposed convolution is the adjoint of the convolution with the same attributes: same axes, sides swapped.
TEST(convolution_sizes, transposed_is_the_adjoint) {
    for_each_axis([](axis_case c) {
        for (const gk::auto_pad mode :
             {gk::auto_pad::none, gk::auto_pad::valid, gk::auto_pad::same_upper, gk::auto_pad::same_lower}) {
            c.mode = mode;
            for (std::int64_t size = 1; size <= 9; ++size) {
                const auto conv = gk::shape::convolution_shapes(at_size(size), c.kernel(), c.conv(), {}, false, 4);
                const auto data = gk::shape::conv_transpose_backward_data_shapes(at_size(size), c.kernel(),
                                                                                 c.transpose(), {}, false, 4);
                ASSERT_EQ(conv.has_value(), data.has_value());
                if (!conv) continue;
                ASSERT_EQ(conv->small_shape, data->small_shape);
                ASSERT_EQ(conv->axes, data->axes);
                const auto forward = gk::shape::conv_transpose_shapes(conv->small_shape, c.kernel(), c.transpose(),
                                                                      at_size(size), false, 4);
                ASSERT_TRUE(forward.has_value());
                ASSERT_EQ(conv->axes, forward->axes);
            }
        }
    });
}

// Groups divide the input channels of a convolution's filter and the output channels of a transposed one's.
TEST(convolution_sizes, groups_divide_opposite_channels) {
    gk::convolution_attributes a{.strides = {1},
                                 .dilations = {1},
                                 .groups = 2,
                                 .data_format = gk::data_format::ncx,
                                 .weights_format = gk::weights_format::oix};
    EXPECT_EQ(*gk::infer_convolution({1, 6, 5}, {4, 3, 1}, a), (extents{1, 4, 5}));
    EXPECT_EQ(gk::infer_convolution({1, 3, 5}, {4, 3, 1}, a).error().code, errc::invalid_shape);
    EXPECT_EQ(*gk::infer_convolution_backward_data({1, 4, 5}, {4, 3, 1}, a), (extents{1, 6, 5}));
    gk::conv_transpose_attributes t{.strides = {1},
                                    .dilations = {1},
                                    .groups = 2,
                                    .data_format = gk::data_format::ncx,
                                    .weights_format = gk::weights_format::oix};
    EXPECT_EQ(*gk::infer_conv_transpose({1, 6, 5}, {4, 6, 1}, t), (extents{1, 8, 5}));
    EXPECT_EQ(gk::infer_conv_transpose({1, 6, 5}, {4, 3, 1}, t).error().code, errc::invalid_shape);
    EXPECT_EQ(*gk::infer_conv_transpose_backward_data({1, 8, 5}, {4, 6, 1}, t), (extents{1, 6, 5}));
    EXPECT_EQ(gk::infer_conv_transpose({1, 5, 5}, {4, 5, 1}, t).error(),
              (error{errc::invalid_shape, "conv_transpose", "weights", 1, 5, 2, expectation::multiple_of}));
}

// Defaults: data NXC, filters XIO, one group.
TEST(convolution_sizes, defaults_are_nxc_and_xio) {
    const gk::convolution_attributes a{.strides = {1, 1}, .dilations = {1, 1}};
    EXPECT_EQ(*gk::infer_convolution({2, 7, 8, 3}, {5, 4, 3, 6}, a), (extents{2, 3, 5, 6}));
    EXPECT_EQ(*gk::infer_convolution_backward_data({2, 3, 5, 6}, {5, 4, 3, 6}, a), (extents{2, 7, 8, 3}));
    const gk::conv_transpose_attributes t{.strides = {1, 1}, .dilations = {1, 1}};
    EXPECT_EQ(*gk::infer_conv_transpose({2, 3, 5, 6}, {5, 4, 6, 3}, t), (extents{2, 7, 8, 3}));
    EXPECT_EQ(*gk::infer_conv_transpose_backward_weights({2, 3, 5, 6}, {2, 7, 8, 3}, t, {5, 4, 6, 3}),
              (extents{5, 4, 6, 3}));
}

}  // namespace
}  // namespace gradkern_test
