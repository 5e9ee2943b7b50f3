// Operators on tensors whose type is known only at run time: the bits of the typed calls, and their errors in the common
// order, with additional errors of types.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradkern/dynamic.hpp>
#include <gradkern/error_text.hpp>

#include "support/conv_cases.hpp"
#include "support/executors.hpp"
#include "support/guarded.hpp"
#include "support/mosaic.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {
namespace {

using gk::data_type;
using gk::errc;
using gk::error;
using gk::expectation;
using gk::extents;

// -------------------------------------------------------------------------------------------------------------- views

template <class From, class To>
constexpr bool converts = std::is_convertible_v<From, To>;
static_assert(converts<gk::tensor_view<float>, gk::dynamic_view>);
static_assert(converts<gk::tensor_view<gk::float16>, gk::const_dynamic_view>);
static_assert(converts<gk::tensor_view<const gk::bfloat16>, gk::const_dynamic_view>);
static_assert(converts<gk::dynamic_view, gk::const_dynamic_view>);
static_assert(!converts<gk::tensor_view<const float>, gk::dynamic_view>, "an output is not const");
static_assert(!converts<gk::const_dynamic_view, gk::dynamic_view>);
static_assert(!converts<gk::tensor_view<int>, gk::const_dynamic_view>, "an element that the library knows");

TEST(dynamic_view, keeps_type_address_and_layout) {
    std::array<gk::bfloat16, 4> memory{};
    const gk::tensor_layout layout({2, 2}, {1, 2});
    const gk::dynamic_view out = gk::tensor_view<gk::bfloat16>(memory.data(), layout);
    const gk::const_dynamic_view in = out;
    const gk::const_dynamic_view direct = gk::tensor_view<const gk::bfloat16>(memory.data(), layout);
    EXPECT_EQ(out.type, data_type::bf16);
    for (const gk::const_dynamic_view& v : {in, direct}) {
        EXPECT_EQ(v.type, data_type::bf16);
        EXPECT_EQ(v.data, memory.data());
        EXPECT_EQ(v.layout, layout);
        EXPECT_EQ(v.as<gk::bfloat16>().data, memory.data());
        EXPECT_EQ(v.as<gk::bfloat16>().layout, layout);
    }
    EXPECT_EQ(out.as<gk::bfloat16>().data, memory.data());
}

// --------------------------------------------------------------------------------------------------- the typed result

/// T: inputs, G: gradient of weights or bias, and bias.
template <class T, class G>
struct types {
    using input = T;
    using wide = G;
};
template <class Types>
class dynamic_operators : public ::testing::Test {};
using all_types =
    ::testing::Types<types<float, float>, types<gk::float16, gk::float16>, types<gk::bfloat16, gk::bfloat16>,
                     types<gk::float16, float>, types<gk::bfloat16, float>, types<double, double>>;
TYPED_TEST_SUITE(dynamic_operators, all_types);

gk::status call(const conv_case& c, const gk::const_dynamic_view& first, const gk::const_dynamic_view& second,
                const gk::const_dynamic_view& bias, const gk::dynamic_view& out, const gk::call_options& options) {
    switch (c.op) {
        case conv_operator::convolution: return gk::convolution(first, second, bias, c.conv, out, options);
        case conv_operator::convolution_backward_data:
            return gk::convolution_backward_data(first, second, c.conv, out, options);
        case conv_operator::convolution_backward_weights:
            return gk::convolution_backward_weights(first, second, c.conv, out, {}, options);
        case conv_operator::conv_transpose: return gk::conv_transpose(first, second, bias, c.transpose, out, options);
        case conv_operator::conv_transpose_backward_data:
            return gk::conv_transpose_backward_data(first, second, c.transpose, out, options);
        case conv_operator::conv_transpose_backward_weights:
            return gk::conv_transpose_backward_weights(first, second, c.transpose, out, {}, options);
    }
    return error{.code = errc::unsupported};
}

/// Runs a case with compile-time types, and again with run-time types.
template <class T, class G, class B, class W = T>
void same_bits_as_typed(random_source& random, const conv_case& c) {
    const conv_tensors<T, G, B, W> t(random, c, random.chance(1, 3));
    t.fill_reals(random);
    test_tensor<G> typed(c.result());
    const gk::status s = t.run(c, typed);
    ASSERT_TRUE(s.ok()) << c.text() << gk::to_string(s);
    test_tensor<G> out(c.result());
    t.prepare(out);
    const guarded_bytes workspace(t.plan(c, out, gk::algorithm::automatic).workspace_bytes(1));
    const gk::status d = call(c, t.first.const_view(), t.second.const_view(), t.bias_view(), out.view(),
                              {.plan = {.output = t.mode}, .workspace = {workspace.data(), workspace.size()}});
    ASSERT_TRUE(d.ok()) << c.text() << gk::to_string(d);
    ASSERT_TRUE(out.equals(typed)) << c.text();
}

TYPED_TEST(dynamic_operators, convolutions_have_the_bits_of_the_typed_ones) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::wide;
    random_source random("dynamic.convolutions");
    for (int i = 0; i < 120; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 60'000, all_conv_operators[static_cast<std::size_t>(i % 6)]);
        if (c.writes_weights()) {
            same_bits_as_typed<T, G, T>(random, c);
        } else {
            same_bits_as_typed<T, T, G>(random, c);
            same_bits_as_typed<T, G, G>(random, c);
            same_bits_as_typed<T, G, T, G>(random, c);
        }
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(dynamic_operators, bias_gradients_have_the_bits_of_the_typed_ones) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::wide;
    random_source random("dynamic.bias");
    for (int i = 0; i < 40; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const gk::bias_attributes a{.data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc})};
        const std::int64_t channels = random.integer(1, 40);
        const test_tensor<T> x(activation(a.data_format, random.integer(0, 3), channels, {random.integer(1, 60)}));
        x.fill_random(random);
        const test_tensor<G> typed({channels});
        const test_tensor<G> out({channels});
        const auto plan = gk::plan_bias_backward<T, G>(x.layout(), a);
        ASSERT_TRUE(plan.has_value());
        std::vector<std::byte> workspace(plan->workspace_bytes());
        ASSERT_TRUE(plan->run(x.data(), typed.data(), workspace).ok());
        const gk::status s = gk::bias_backward(gk::const_dynamic_view(x.view()), a, gk::dynamic_view(out.view()),
                                               {.workspace = workspace});
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(typed));
    }
}

TYPED_TEST(dynamic_operators, average_pools_have_the_bits_of_the_typed_ones) {
    using T = typename TypeParam::input;
    random_source random("dynamic.avg_pool");
    for (int i = 0; i < 40; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const gk::avg_pool_attributes a{.kernel = {random.integer(1, 3), random.integer(1, 4)},
                                        .strides = {random.integer(1, 3), random.integer(1, 3)},
                                        .pads_begin = {random.integer(0, 2), random.integer(0, 2)},
                                        .pads_end = {random.integer(0, 2), random.integer(0, 2)},
                                        .exclude_pad = random.chance(1, 2),
                                        .data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc})};
        const extents large = activation(a.data_format, random.integer(1, 2), random.integer(1, 20),
                                         {random.integer(3, 9), random.integer(4, 20)});
        const extents small = *gk::infer_avg_pool(large, a);
        std::vector<std::byte> workspace(std::size_t{1} << 20);
        const gk::call_options options{.workspace = workspace};
        const auto compare = [&](const extents& from, const extents& to, const auto& typed_call,
                                 const auto& dynamic_call) {
            const test_tensor<T> in(from);
            in.fill_random(random);
            const test_tensor<T> typed(to);
            const test_tensor<T> out(to);
            ASSERT_TRUE(typed_call(in.const_view(), typed.view()).ok());
            ASSERT_TRUE(dynamic_call(in.const_view(), out.view()).ok());
            ASSERT_TRUE(out.equals(typed));
        };
        compare(
            large, small, [&](auto src, auto dst) { return gk::avg_pool<T>(src, a, dst, options); },
            [&](const gk::const_dynamic_view& src, const gk::dynamic_view& dst) {
                return gk::avg_pool(src, a, dst, options);
            });
        compare(
            small, large, [&](auto dy, auto dx) { return gk::avg_pool_backward<T>(dy, a, dx, options); },
            [&](const gk::const_dynamic_view& dy, const gk::dynamic_view& dx) {
                return gk::avg_pool_backward(dy, a, dx, options);
            });
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(dynamic_operators, lp_pools_have_the_bits_of_the_typed_ones) {
    using T = typename TypeParam::input;
    random_source random("dynamic.lp_pool");
    for (int i = 0; i < 40; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const gk::lp_pool_attributes a{.kernel = {random.integer(1, 3), random.integer(1, 4)},
                                       .strides = {random.integer(1, 3), random.integer(1, 3)},
                                       .pads_begin = {random.integer(0, 2), random.integer(0, 2)},
                                       .pads_end = {random.integer(0, 2), random.integer(0, 2)},
                                       .data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc})};
        const extents large = activation(a.data_format, random.integer(1, 2), random.integer(1, 20),
                                         {random.integer(3, 9), random.integer(4, 20)});
        const extents small = *gk::infer_lp_pool(large, a);
        const test_tensor<T> x(large), typed_dx(large), dx(large);
        const test_tensor<T> dy(small), typed_y(small), y(small);
        x.fill_random(random);
        dy.fill_random(random);
        const gk::const_dynamic_view src(x.view()), diff_dst(dy.view());
        ASSERT_TRUE(gk::lp_pool<T>(x.const_view(), a, typed_y.view()).ok());
        ASSERT_TRUE(gk::lp_pool(src, a, gk::dynamic_view(y.view())).ok());
        ASSERT_TRUE(y.equals(typed_y));
        ASSERT_TRUE(gk::lp_pool_backward<T>(x.const_view(), y.const_view(), dy.const_view(), a, typed_dx.view()).ok());
        ASSERT_TRUE(
            gk::lp_pool_backward(src, gk::const_dynamic_view(y.view()), diff_dst, a, gk::dynamic_view(dx.view())).ok());
        ASSERT_TRUE(dx.equals(typed_dx));
    }
}

TYPED_TEST(dynamic_operators, max_pools_have_the_bits_of_the_typed_ones) {
    using T = typename TypeParam::input;
    random_source random("dynamic.max_pool");
    for (int i = 0; i < 40; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const gk::max_pool_attributes a{
            .kernel = {random.integer(1, 3), random.integer(1, 4)},
            .strides = {random.integer(1, 3), random.integer(1, 3)},
            .pads_begin = {random.integer(0, 2), random.integer(0, 2)},
            .pads_end = {random.integer(0, 2), random.integer(0, 2)},
            .ignore_nan = random.chance(1, 2),
            .data_format = random.pick({gk::data_format::ncx, gk::data_format::nxc}),
            .index_base = random.pick({gk::index_base::tensor, gk::index_base::plane, gk::index_base::image}),
            .storage_order = random.pick({gk::storage_order::row_major, gk::storage_order::column_major})};
        const extents large = activation(a.data_format, random.integer(1, 2), random.integer(1, 20),
                                         {random.integer(3, 9), random.integer(4, 20)});
        const extents small = *gk::infer_max_pool(large, a);
        std::vector<std::byte> workspace(std::size_t{1} << 20);
        const gk::call_options options{.workspace = workspace};
        const test_tensor<T> x(large);  // small integers: maxima tie
        x.fill([&](std::int64_t) { return random.integer(-3, 3); });
        const test_tensor<T> dy(small);
        dy.fill_random(random);
        const std::size_t windows = static_cast<std::size_t>(dy.count());

        const test_tensor<T> typed_y(small);
        const test_tensor<T> y(small);
        std::vector<std::int64_t> typed_places(windows, -77);
        std::vector<std::int64_t> places(windows, -78);
        ASSERT_TRUE(gk::max_pool<T>(x.const_view(), a, typed_y.view(), {typed_places.data(), small}, options).ok());
        const gk::const_dynamic_view src(x.view());
        ASSERT_TRUE(gk::max_pool(src, a, gk::dynamic_view(y.view()), {places.data(), small}, options).ok());
        ASSERT_TRUE(y.equals(typed_y));
        ASSERT_EQ(places, typed_places);
        const test_tensor<T> alone(small);
        ASSERT_TRUE(gk::max_pool(src, a, gk::dynamic_view(alone.view()), {}, options).ok());
        ASSERT_TRUE(alone.equals(typed_y));

        const gk::const_dynamic_view diff_dst(dy.view());
        const test_tensor<T> typed_dx(large);
        const test_tensor<T> dx(large);
        ASSERT_TRUE(gk::max_pool_backward<T>(x.const_view(), dy.const_view(), a, typed_dx.view(), options).ok());
        ASSERT_TRUE(gk::max_pool_backward(src, diff_dst, a, gk::dynamic_view(dx.view()), options).ok());
        ASSERT_TRUE(dx.equals(typed_dx));

        const gk::max_pool_indices_attributes from{
            .data_format = a.data_format, .index_base = a.index_base, .storage_order = a.storage_order};
        const test_tensor<T> typed_scattered(large);
        const test_tensor<T> scattered(large);
        ASSERT_TRUE(gk::max_pool_backward_from_indices<T>(dy.const_view(), {places.data(), small}, from,
                                                          typed_scattered.view(), options)
                        .ok());
        ASSERT_TRUE(gk::max_pool_backward_from_indices(diff_dst, {places.data(), small}, from,
                                                       gk::dynamic_view(scattered.view()), options)
                        .ok());
        ASSERT_TRUE(scattered.equals(typed_scattered));
    }
}

// ---------------------------------------------------------------------------------------- outputs in the gaps of inputs

/// A dense tensor of run-time type.
struct dense_tensor {
    data_type type = data_type::f32;
    gk::extents shape{};
    std::size_t element_bytes = 4;
    std::vector<std::byte> bytes{};

    template <class T>
    [[nodiscard]] static dense_tensor of(const test_tensor<T>& t) {
        dense_tensor d{gk::element_traits<T>::type, t.shape(), sizeof(T), {}};
        d.bytes.resize(static_cast<std::size_t>(t.count()) * sizeof(T));
        if (!d.bytes.empty()) std::memcpy(d.bytes.data(), t.data(), d.bytes.size());
        return d;
    }
    template <class T>
    [[nodiscard]] static dense_tensor sized(const gk::extents& shape) {
        std::size_t count = 1;
        for (const std::int64_t e : shape.values()) count *= static_cast<std::size_t>(e);
        return {gk::element_traits<T>::type, shape, sizeof(T), std::vector<std::byte>(count * sizeof(T), std::byte{7})};
    }
};

/// Runs an operator with separate tensors, and again with all of them in one buffer, each in the gaps of the others: the
/// same bits, and no other byte is written. `op(pointers and layouts, options)`; the last tensor is the output.
template <class Operator>
void same_bits_in_gaps(random_source& random, std::vector<dense_tensor> tensors, const Operator& op) {
    std::vector<mosaic::part> apart;
    apart.reserve(tensors.size());
    for (dense_tensor& t : tensors) apart.push_back({t.bytes.data(), t.shape});
    std::vector<std::byte> workspace(std::size_t{4} << 20);
    ASSERT_TRUE(op(apart, gk::call_options{.workspace = workspace}).ok());

    std::size_t slot = 0;
    for (const dense_tensor& t : tensors) slot = std::max(slot, t.element_bytes);
    const gk::extents& a = tensors[0].shape;
    const gk::extents& b = tensors[1].shape;
    const gk::extents& c = tensors.back().shape;
    const mosaic shared(random,
                        tensors.size() == 2   ? std::initializer_list<gk::extents>{a, b}
                        : tensors.size() == 3 ? std::initializer_list<gk::extents>{a, b, c}
                                              : std::initializer_list<gk::extents>{a, b, tensors[2].shape, c},
                        slot);
    std::vector<mosaic::part> parts;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        parts.push_back(shared.at(i, tensors[i].shape, tensors[i].element_bytes));
        if (i + 1 < tensors.size()) shared.put(parts[i], tensors[i].bytes.data(), tensors[i].element_bytes);
    }
    const auto before = shared.snapshot();
    shared.put(parts.back(), tensors.back().bytes.data(), tensors.back().element_bytes);
    const auto expected = shared.snapshot();
    const auto run = [&](gk::executor_ref executor) {
        if (!before.empty()) std::memcpy(shared.bytes().data(), before.data(), before.size());
        const gk::status s = op(parts, gk::call_options{.workspace = workspace, .executor = executor});
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(shared.snapshot() == expected);
        ASSERT_TRUE(shared.bytes().zones_intact());
    };
    shuffling_executor shuffled(4);
    const thread_executor threads(3);
    run({});
    run(shuffled);
    if (random.chance(1, 4)) run(threads);
}

/// A tensor of a call, as views of run-time type.
[[nodiscard]] gk::const_dynamic_view input(const dense_tensor& t, const mosaic::part& p) {
    return {t.type, p.data, p.layout};
}
[[nodiscard]] gk::dynamic_view output(const dense_tensor& t, const mosaic::part& p) {
    return {t.type, p.data, p.layout};
}

TYPED_TEST(dynamic_operators, convolutions_write_into_the_gaps_of_their_inputs) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::wide;
    random_source random("dynamic.gaps.convolutions");
    for (int i = 0; i < 90; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const conv_case c = random_conv_case(random, 40'000, all_conv_operators[static_cast<std::size_t>(i % 6)]);
        const test_tensor<T> first(c.first());
        const test_tensor<T> second(c.second());
        first.fill_random(random);
        second.fill_random(random);
        const std::vector<dense_tensor> t{
            dense_tensor::of(first), dense_tensor::of(second),
            c.writes_weights() ? dense_tensor::sized<G>(c.result()) : dense_tensor::sized<T>(c.result())};
        same_bits_in_gaps(random, t, [&](const std::vector<mosaic::part>& p, const gk::call_options& options) {
            return call(c, input(t[0], p[0]), input(t[1], p[1]), {}, output(t[2], p[2]), options);
        });
        if (this->HasFatalFailure()) FAIL() << c.text();
    }
}

TYPED_TEST(dynamic_operators, pools_write_into_the_gaps_of_their_inputs) {
    using T = typename TypeParam::input;
    random_source random("dynamic.gaps.pools");
    for (int i = 0; i < 60; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const gk::extents kernel{random.integer(1, 3), random.integer(1, 4)};
        const gk::extents strides{random.integer(1, 3), random.integer(1, 3)};
        const auto format = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const gk::avg_pool_attributes a{.kernel = kernel, .strides = strides, .data_format = format};
        const gk::max_pool_attributes m{.kernel = kernel, .strides = strides, .data_format = format};
        const gk::lp_pool_attributes l{.kernel = kernel, .strides = strides, .data_format = format};
        const extents large = activation(format, random.integer(1, 2), random.integer(1, 40),
                                         {random.integer(3, 9), random.integer(4, 20)});
        const extents small = *gk::infer_avg_pool(large, a);
        const test_tensor<T> x(large);
        const test_tensor<T> y(small);
        x.fill_random(random);
        y.fill_random(random);
        const dense_tensor src = dense_tensor::of(x);
        const dense_tensor diff_dst = dense_tensor::of(y);
        const dense_tensor dst = dense_tensor::sized<T>(small);
        const dense_tensor diff_src = dense_tensor::sized<T>(large);
        using parts = std::vector<mosaic::part>;
        const auto check = [&](const std::vector<dense_tensor>& t, const auto& op) {
            same_bits_in_gaps(random, t, [&](const parts& p, const gk::call_options& o) { return op(t, p, o); });
        };
        check({src, dst}, [&](const auto& t, const parts& p, const gk::call_options& o) {
            return gk::avg_pool(input(t[0], p[0]), a, output(t[1], p[1]), o);
        });
        check({diff_dst, diff_src}, [&](const auto& t, const parts& p, const gk::call_options& o) {
            return gk::avg_pool_backward(input(t[0], p[0]), a, output(t[1], p[1]), o);
        });
        check({src, dst}, [&](const auto& t, const parts& p, const gk::call_options& o) {
            return gk::lp_pool(input(t[0], p[0]), l, output(t[1], p[1]), o);
        });
        check({src, diff_dst, diff_dst, diff_src}, [&](const auto& t, const parts& p, const gk::call_options& o) {
            return gk::lp_pool_backward(input(t[0], p[0]), input(t[1], p[1]), input(t[2], p[2]), l, output(t[3], p[3]),
                                        o);
        });
        check({src, dst}, [&](const auto& t, const parts& p, const gk::call_options& o) {
            return gk::max_pool(input(t[0], p[0]), m, output(t[1], p[1]), {}, o);
        });
        check({src, diff_dst, diff_src}, [&](const auto& t, const parts& p, const gk::call_options& o) {
            return gk::max_pool_backward(input(t[0], p[0]), input(t[1], p[1]), m, output(t[2], p[2]), o);
        });
        // indices: next to the values that max_pool writes, and next to the inputs of the gradient
        std::vector<std::int64_t> places(dst.bytes.size() / sizeof(T));
        std::vector<std::byte> workspace(std::size_t{1} << 20);
        {
            test_tensor<T> values(small);
            ASSERT_TRUE(
                gk::max_pool<T>(x.const_view(), m, values.view(), {places.data(), small}, {.workspace = workspace})
                    .ok());
            const mosaic shared(random, {large, small, small}, sizeof(std::int64_t));
            const mosaic::part in = shared.at(0, large, sizeof(T));
            const mosaic::part out = shared.at(1, small, sizeof(T));
            const mosaic::part at = shared.at(2, small, sizeof(std::int64_t));
            shared.put(in, src.bytes.data(), sizeof(T));
            const gk::status s =
                gk::max_pool(input(src, in), m, output(dst, out), {reinterpret_cast<std::int64_t*>(at.data), at.layout},
                             {.workspace = workspace});
            ASSERT_TRUE(s.ok()) << gk::to_string(s);
            std::vector<std::int64_t> got(places.size());
            shared.get(at, got.data(), sizeof(std::int64_t));
            ASSERT_EQ(got, places);
            test_tensor<T> got_values(small);
            shared.get(out, got_values.data(), sizeof(T));
            ASSERT_TRUE(got_values.equals(values));
        }
        dense_tensor indices{data_type::f32, small, sizeof(std::int64_t), {}};
        indices.bytes.resize(places.size() * sizeof(std::int64_t));
        std::memcpy(indices.bytes.data(), places.data(), indices.bytes.size());
        check({diff_dst, indices, diff_src}, [&](const auto& t, const parts& p, const gk::call_options& o) {
            return gk::max_pool_backward_from_indices(input(t[0], p[0]),
                                                      {reinterpret_cast<const std::int64_t*>(p[1].data), p[1].layout},
                                                      {.data_format = format}, output(t[2], p[2]), o);
        });
        if (this->HasFatalFailure()) return;
    }
}

// A bias gradient of one axis in a gap of every row of an image.
TYPED_TEST(dynamic_operators, bias_gradients_write_into_the_gaps_of_their_input) {
    using T = typename TypeParam::input;
    random_source random("dynamic.gaps.bias");
    constexpr std::int64_t channels = 5;
    const extents shape{2, 3, 4, channels};
    const test_tensor<T> x(shape);
    x.fill_random(random);
    std::array<T, channels> apart{};
    ASSERT_TRUE((gk::bias_backward<T, T>(x.const_view(), {}, {apart.data(), {channels}}).ok()));
    const test_tensor<T> wide({2, 3, 4, channels + 1});
    const extents strides{3 * 4 * (channels + 1), 4 * (channels + 1), channels + 1, 1};
    for (std::int64_t i = 0; i < x.count(); ++i) wide[i / channels * (channels + 1) + i % channels] = x[i];
    const gk::const_dynamic_view in(gk::element_traits<T>::type, wide.data(), {shape, strides});
    const gk::dynamic_view out(gk::element_traits<T>::type, wide.data() + channels,
                               {extents{channels}, extents{channels + 1}});
    std::vector<std::byte> workspace(std::size_t{1} << 16);
    const gk::status s = gk::bias_backward(in, {}, out, {.workspace = workspace});
    ASSERT_TRUE(s.ok()) << gk::to_string(s);
    for (std::int64_t c = 0; c < channels; ++c)
        EXPECT_TRUE(same_value(wide[c * (channels + 1) + channels], apart[static_cast<std::size_t>(c)]));
    for (std::int64_t i = 0; i < x.count(); ++i)
        EXPECT_TRUE(same_value(wide[i / channels * (channels + 1) + i % channels], x[i]));
    // one element further they overlap
    const gk::dynamic_view on_top(gk::element_traits<T>::type, wide.data() + channels - 1,
                                  {extents{channels}, extents{channels + 1}});
    EXPECT_EQ(gk::bias_backward(in, {}, on_top, {.workspace = workspace}).code(), errc::invalid_argument);
}

// -------------------------------------------------------------------------------------------------------- no channels

/// Computes a case whose channels are 0 on one side or both by every call form, and compares with the definition: empty
/// sums.
template <class T, class G, class B>
void sums_of_nothing(random_source& random, const conv_case& c) {
    const conv_tensors<T, G, B> t(random, c, random.chance(1, 3));
    t.fill_reals(random);
    test_tensor<G> expected(c.result());
    t.prepare(expected);
    const std::size_t rank = c.result().rank();
    const std::size_t at = gk::shape::channel_index(c.data_format(), rank - 2);
    std::int64_t inner = 1;
    for (std::size_t i = at + 1; i < rank; ++i) inner *= c.result()[i];
    for (std::int64_t i = 0; i < expected.count(); ++i) {
        using sum_type = gk::accumulate_t<G>;
        sum_type sum = t.has_bias ? t.bias.value(i / inner % c.result()[at]) : 0;
        if (t.mode == gk::output_mode::accumulate) sum = static_cast<sum_type>(t.previous.value(i) + sum);
        expected.set(i, sum);
    }
    test_tensor<G> out(c.result());
    for (const gk::algorithm a : all_algorithms) {
        const gk::status s = t.run(c, out, a);
        if (refuses_algorithm(s)) continue;
        ASSERT_TRUE(s.ok()) << gk::to_string(s);
        ASSERT_TRUE(out.equals(expected)) << static_cast<int>(a);
        ASSERT_TRUE(out.surroundings_intact());
    }
    ASSERT_TRUE(t.reference(c, out).ok());
    ASSERT_TRUE(out.equals(expected)) << "the reference";
    t.prepare(out);
    const gk::status s = call(c, t.first.const_view(), t.second.const_view(), t.bias_view(), out.view(),
                              {.plan = {.output = t.mode}});  // none of them needs more than the stack has
    ASSERT_TRUE(s.ok()) << gk::to_string(s);
    ASSERT_TRUE(out.equals(expected));
    t.prepare(out);
    const planned p = t.plan(c, out, gk::algorithm::automatic);
    shuffling_executor workers(5);
    const guarded_bytes workspace(p.workspace_bytes(5));
    ASSERT_TRUE(p.run({workspace.data(), workspace.size()}, workers).ok());
    ASSERT_TRUE(out.equals(expected));
}

TYPED_TEST(dynamic_operators, convolutions_without_channels_are_sums_of_nothing) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::wide;
    random_source random("dynamic.no_channels");
    for (int i = 0; i < 300; ++i, random.next_case()) {
        GRADKERN_TRACE_SEED(random);
        const bool small_is_none = random.chance(1, 2);
        const std::int64_t some = random.pick<std::int64_t>({1, 3, 4, 8, 17});
        const extents space = random.pick({extents{7}, extents{5, 6}, extents{3, 4, 3}, extents{4, 2}});
        const std::int64_t kernel = random.integer(1, 3);
        const conv_case c = make_case({.op = all_conv_operators[static_cast<std::size_t>(i % 6)],
                                       .n = random.integer(0, 2),
                                       .groups = random.integer(1, 3),
                                       .small = small_is_none ? 0 : some,
                                       .large = small_is_none && random.chance(3, 4) ? some : 0,
                                       .space = space,
                                       .kernel = kernel,
                                       .stride = random.integer(1, 2),
                                       .dilation = 1,
                                       .pad = kernel / 3},
                                      random.pick({gk::data_format::ncx, gk::data_format::nxc}),
                                      random.pick({gk::weights_format::oix, gk::weights_format::xio}));
        if (c.writes_weights()) {
            sums_of_nothing<T, G, T>(random, c);
        } else {
            sums_of_nothing<T, T, G>(random, c);
        }
        if (this->HasFatalFailure()) FAIL() << c.text();
    }
}

// A weight gradient may be empty although the bias gradient of the same call is not.
TYPED_TEST(dynamic_operators, bias_gradients_of_layers_without_input_channels) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::wide;
    random_source random("dynamic.no_channels.bias");
    const test_tensor<T> src({2, 5, 4, 0});
    const test_tensor<T> diff_dst({2, 5, 4, 3});
    diff_dst.fill_random(random);
    const test_tensor<G> diff_weights({1, 1, 0, 3});
    const test_tensor<G> diff_bias({3});
    const test_tensor<G> expected({3});
    const gk::const_dynamic_view dy = diff_dst.const_view();
    ASSERT_TRUE(gk::bias_backward(dy, {}, expected.view()).ok());
    const gk::status s = gk::convolution_backward_weights(
        src.const_view(), dy, {.strides = {1, 1}, .dilations = {1, 1}}, diff_weights.view(), diff_bias.view());
    ASSERT_TRUE(s.ok()) << gk::to_string(s);
    EXPECT_TRUE(diff_bias.equals(expected));
}

TYPED_TEST(dynamic_operators, pools_and_bias_gradients_without_channels_are_empty) {
    using T = typename TypeParam::input;
    for (const auto format : {gk::data_format::ncx, gk::data_format::nxc}) {
        for (const auto mode : {gk::output_mode::overwrite, gk::output_mode::accumulate}) {
            const gk::call_options options{.plan = {.output = mode}};
            const gk::avg_pool_attributes a{.kernel = {3, 2}, .strides = {2, 1}, .data_format = format};
            const gk::max_pool_attributes m{.kernel = {3, 2}, .strides = {2, 1}, .data_format = format};
            const extents large = activation(format, 2, 0, {7, 5});
            const auto inferred = gk::infer_avg_pool(large, a);
            ASSERT_TRUE(inferred.has_value()) << gk::to_string(inferred.error());
            const extents small = *inferred;
            EXPECT_EQ(small, activation(format, 2, 0, {3, 4}));
            EXPECT_EQ(*gk::infer_max_pool(large, m), small);
            EXPECT_EQ(*gk::infer_avg_pool_backward(small, a, large), large);
            EXPECT_EQ(*gk::infer_bias_backward(large, {.data_format = format}), extents{0});
            const test_tensor<T> x(large);
            const test_tensor<T> y(small);
            const test_tensor<std::int64_t> places(small);
            const gk::const_dynamic_view in = x.const_view();
            const gk::const_dynamic_view dy = y.const_view();
            const auto ok = [](const gk::status& s) { return s.ok() ? "ok" : gk::to_string(s); };
            EXPECT_EQ(ok(gk::avg_pool(in, a, y.view(), options)), "ok");
            EXPECT_EQ(ok(gk::avg_pool_backward(dy, a, x.view(), options)), "ok");
            EXPECT_EQ(ok(gk::max_pool(in, m, y.view(), places.view(), options)), "ok");
            EXPECT_EQ(ok(gk::max_pool_backward(in, dy, m, x.view(), options)), "ok");
            for (const auto base : {gk::index_base::tensor, gk::index_base::plane, gk::index_base::image})
                for (const auto check : {gk::index_check::first, gk::index_check::each})
                    EXPECT_EQ(ok(gk::max_pool_backward_from_indices(
                                  dy, places.const_view(), {.data_format = format, .index_base = base}, x.view(),
                                  {.plan = {.output = mode, .index_check = check}})),
                              "ok");
            EXPECT_EQ(ok(gk::bias_backward(in, {.data_format = format},
                                           {gk::element_traits<T>::type, nullptr, extents{0}}, options)),
                      "ok");
            EXPECT_EQ(ok(gk::ref::convolution<T>(
                          x.const_view(), {nullptr, filter(gk::weights_format::xio, 0, 0, {1, 1})}, {},
                          {.strides = {1, 1}, .dilations = {1, 1}, .data_format = format}, x.view(), options)),
                      "ok");
        }
    }
}

// Spatial sizes and kernels of 0 stay errors, and so do negative channels.
TYPED_TEST(dynamic_operators, only_batch_and_channels_may_be_0) {
    const gk::avg_pool_attributes a{.kernel = {3, 2}, .strides = {2, 1}};
    const auto refused = [](const gk::result<extents>& r, std::string_view argument, int axis, std::int64_t got,
                            std::int64_t least) {
        EXPECT_EQ(r.error().code, errc::invalid_shape);
        EXPECT_EQ(r.error().argument, argument);
        EXPECT_EQ(r.error().axis, axis);
        EXPECT_EQ(r.error().got, got);
        EXPECT_EQ(r.error().expected, least);
        EXPECT_EQ(r.error().relation, expectation::at_least);
    };
    refused(gk::infer_avg_pool({1, 0, 5, 3}, a), "src", 1, 0, 1);
    refused(gk::infer_avg_pool({1, 5, 5, -1}, a), "src", 3, -1, 0);
    refused(gk::infer_avg_pool({-1, 5, 5, 3}, a), "src", 0, -1, 0);
    const gk::convolution_attributes c{.strides = {1}, .dilations = {1}};
    refused(gk::infer_convolution({1, 5, 3}, {0, 3, 4}, c), "weights", 0, 0, 1);
    refused(gk::infer_convolution({1, 5, 3}, {2, -3, 4}, c), "weights", 1, -3, 0);
    refused(gk::infer_convolution({1, 5, 3}, {2, 3, -4}, c), "weights", 2, -4, 0);
    EXPECT_EQ(gk::infer_convolution({1, 5, 0}, {2, 0, 4}, c).value(), (extents{1, 4, 4}));
    EXPECT_EQ(gk::infer_convolution({1, 5, 3}, {2, 3, 0}, c).value(), (extents{1, 4, 0}));
    EXPECT_EQ(gk::infer_convolution({1, 5, 3}, {2, 0, 4}, c).error().axis, 2) << "channels that do not fit";
}

// -------------------------------------------------------------------------------------------------------------- errors

/// An argument of an operator; the last one of a row is the output. Indices, which have one type, are no arguments.
struct argument {
    std::string_view name;
    extents shape;
    bool may_be_f32 = false;
    bool rank_is_a_size = false;  ///< a wrong rank is a wrong shape, and is found after types
};

using views = std::vector<gk::const_dynamic_view>;

/// An operator with arguments that fit. `call` runs it, with attributes that are right or, for `bad`, are not.
struct row {
    std::string_view op;
    std::vector<argument> arguments;
    bool needs_shape;  ///< an output without layout is missing_shape
    gk::status (*call)(const views& in, const gk::dynamic_view& out, bool bad);
};

gk::convolution_attributes conv(bool bad) { return {.strides = {bad ? 0 : 1}, .dilations = {1}}; }
gk::conv_transpose_attributes transpose(bool bad) { return {.strides = {bad ? 0 : 1}, .dilations = {1}}; }
gk::avg_pool_attributes pool(bool bad) { return {.kernel = {2}, .strides = {bad ? 0 : 1}}; }
gk::lp_pool_attributes norm(bool bad) { return {.kernel = {2}, .strides = {bad ? 0 : 1}}; }
gk::max_pool_attributes maximum(bool bad) { return {.kernel = {2}, .strides = {bad ? 0 : 1}}; }
gk::max_pool_indices_attributes scatter(bool bad) {
    return {.data_format = bad ? static_cast<gk::data_format>(9) : gk::data_format::nxc};
}
gk::bias_attributes sum(bool bad) {
    return {.data_format = bad ? static_cast<gk::data_format>(9) : gk::data_format::nxc};
}

const std::vector<row>& rows() {
    const extents four{1, 4, 2};  // (N, X, C), and filters (X, I, O)
    const extents three{1, 3, 3};
    const extents wide{1, 4, 3};
    const extents narrow{1, 3, 2};
    const extents filter{2, 2, 3};
    static const std::vector<row> all{
        {"convolution",
         {{"src", four}, {"weights", filter, true}, {"bias", {3}, true}, {"dst", three, true}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::convolution(v[0], v[1], v[2], conv(bad), out);
         }},
        {"convolution_backward_data",
         {{"diff_dst", three}, {"weights", filter, true}, {"diff_src", four, true}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::convolution_backward_data(v[0], v[1], conv(bad), out);
         }},
        {"convolution_backward_weights",
         {{"src", four}, {"diff_dst", three}, {"diff_weights", filter, true}},
         true,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::convolution_backward_weights(v[0], v[1], conv(bad), out);
         }},
        {"conv_transpose",
         {{"src", narrow}, {"weights", filter, true}, {"bias", {3}, true}, {"dst", wide, true}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::conv_transpose(v[0], v[1], v[2], transpose(bad), out);
         }},
        {"conv_transpose_backward_data",
         {{"diff_dst", wide}, {"weights", filter, true}, {"diff_src", narrow, true}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::conv_transpose_backward_data(v[0], v[1], transpose(bad), out);
         }},
        {"conv_transpose_backward_weights",
         {{"src", narrow}, {"diff_dst", wide}, {"diff_weights", filter, true}},
         true,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::conv_transpose_backward_weights(v[0], v[1], transpose(bad), out);
         }},
        {"bias_backward",
         {{"diff_dst", four}, {"diff_bias", {2}, true}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) { return gk::bias_backward(v[0], sum(bad), out); }},
        {"avg_pool",
         {{"src", four}, {"dst", narrow}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) { return gk::avg_pool(v[0], pool(bad), out); }},
        {"avg_pool_backward",
         {{"diff_dst", narrow}, {"diff_src", four}},
         true,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::avg_pool_backward(v[0], pool(bad), out);
         }},
        {"lp_pool",
         {{"src", four}, {"dst", narrow}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) { return gk::lp_pool(v[0], norm(bad), out); }},
        {"lp_pool_backward",
         {{"src", four}, {"dst", narrow}, {"diff_dst", narrow}, {"diff_src", four}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::lp_pool_backward(v[0], v[1], v[2], norm(bad), out);
         }},
        {"max_pool",
         {{"src", four}, {"dst", narrow}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) { return gk::max_pool(v[0], maximum(bad), out); }},
        {"max_pool_backward",
         {{"src", four}, {"diff_dst", narrow}, {"diff_src", four}},
         false,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             return gk::max_pool_backward(v[0], v[1], maximum(bad), out);
         }},
        {"max_pool_backward_from_indices",
         {{"diff_dst", narrow}, {"diff_src", four, false, true}},
         true,
         [](const views& v, const gk::dynamic_view& out, bool bad) {
             static constexpr std::array<std::int64_t, 6> places{0, 1, 2, 1, 7, -1};
             return gk::max_pool_backward_from_indices(v[0], {places.data(), {1, 3, 2}}, scatter(bad), out);
         }},
    };
    return all;
}

/// A call of a row whose parts can be made wrong. Memory is large enough for f64.
class trial {
public:
    explicit trial(const row& r) : row_(r) {
        for (const argument& a : r.arguments) {
            memory_.emplace_back(std::size_t{8 * 64});
            types.push_back(data_type::f32);
            layouts.emplace_back(a.shape);
            memory_.back().poison();
        }
    }

    std::vector<data_type> types{};
    std::vector<gk::tensor_layout> layouts{};
    bool bad_attribute = false;
    bool null_pointers = false;

    /// The error of the call, after which the output must hold what it held before.
    error failure() {
        const gk::status s = run();
        const auto* bytes = reinterpret_cast<const unsigned char*>(memory_.back().data());
        EXPECT_TRUE(std::all_of(bytes, bytes + memory_.back().size(), [](unsigned char b) { return b == poison_byte; }))
            << row_.op << " wrote and failed: " << gk::to_string(s);
        EXPECT_FALSE(s.ok()) << row_.op;
        return s.error();
    }
    gk::status run() {
        views in;
        for (std::size_t i = 0; i + 1 < memory_.size(); ++i) in.emplace_back(types[i], at(i), layouts[i]);
        return row_.call(in, {types.back(), at(memory_.size() - 1), layouts.back()}, bad_attribute);
    }
    void poison() { memory_.back().poison(); }

private:
    void* at(std::size_t i) { return null_pointers ? nullptr : memory_[i].data(); }

    const row& row_;
    std::vector<guarded_bytes> memory_{};
};

error mismatch(const row& r, std::size_t i, data_type got, data_type expected) {
    return {errc::unsupported,
            r.op,
            r.arguments[i].name,
            -1,
            static_cast<std::int64_t>(got),
            static_cast<std::int64_t>(expected),
            expectation::equal};
}

/// No enumerator.
constexpr auto no_type = static_cast<data_type>(77);

/// The expected error of the types of a call.
error expected_error(const row& r, const std::vector<data_type>& types) {
    const data_type first = types[0];
    if (first == no_type)
        return {errc::unsupported, r.op, r.arguments[0].name, -1, static_cast<std::int64_t>(first), 0,
                expectation::none};
    const bool has_wide_weights = r.arguments[1].name == "weights" && types[1] == data_type::f32 && types[1] != first;
    for (std::size_t i = 1; i < types.size(); ++i) {
        if (has_wide_weights && i + 1 == types.size()) {  // f32 weights have f32 results
            if (types[i] != data_type::f32) return mismatch(r, i, types[i], data_type::f32);
        } else if (types[i] != first &&
                   !(r.arguments[i].may_be_f32 && types[i] == data_type::f32 && first != data_type::f64)) {
            return mismatch(r, i, types[i], first);
        }
    }
    return {};
}

// A bias gradient computed with that of the weights has the same type.
TEST(dynamic_errors, gradients_of_weights_and_bias_share_a_type) {
    const gk::convolution_attributes a{.strides = {1}, .dilations = {1}};
    const gk::conv_transpose_attributes t{.strides = {1}, .dilations = {1}};
    constexpr std::array types{data_type::f32, data_type::bf16, data_type::f16, data_type::f64};
    const std::vector<std::byte> zeros(1024);
    for (const data_type weights : {data_type::bf16, data_type::f32}) {
        for (const data_type bias : types) {
            guarded_bytes dw(2 * 3 * 3 * 4);
            guarded_bytes db(3 * 4);
            const gk::const_dynamic_view five(data_type::bf16, zeros.data(), {2, 5, 3});
            const gk::const_dynamic_view four(data_type::bf16, zeros.data(), {2, 4, 3});
            for (const bool transposed : {false, true}) {
                const char* op = transposed ? "conv_transpose_backward_weights" : "convolution_backward_weights";
                const gk::dynamic_view out(weights, dw.data(), {2, 3, 3});
                const gk::dynamic_view out_bias(bias, db.data(), {3});
                const gk::status s = transposed ? gk::conv_transpose_backward_weights(four, five, t, out, out_bias)
                                                : gk::convolution_backward_weights(five, four, a, out, out_bias);
                if (bias == weights) {
                    EXPECT_TRUE(s.ok()) << gk::to_string(s);
                    const auto* bytes = reinterpret_cast<const unsigned char*>(db.data());
                    const std::size_t size = weights == data_type::f32 ? 12 : 6;
                    EXPECT_TRUE(std::all_of(bytes, bytes + size, [](unsigned char b) { return b == 0; }));
                    EXPECT_TRUE(
                        std::all_of(bytes + size, bytes + 12, [](unsigned char b) { return b == poison_byte; }));
                } else {
                    EXPECT_EQ(s.error(), (error{errc::unsupported, op, "diff_bias", -1, static_cast<std::int64_t>(bias),
                                                static_cast<std::int64_t>(weights), expectation::equal}));
                }
                db.poison();
            }
        }
    }
}

TEST(dynamic_errors, every_combination_of_types) {
    constexpr std::array all{data_type::f32, data_type::f16, data_type::bf16, data_type::f64, no_type};
    for (const row& r : rows()) {
        trial t(r);
        const std::size_t arguments = r.arguments.size();
        std::size_t combinations = 1;
        for (std::size_t i = 0; i < arguments; ++i) combinations *= all.size();
        int accepted = 0;
        for (std::size_t k = 0; k < combinations; ++k) {
            std::size_t digits = k;
            for (std::size_t i = 0; i < arguments; ++i, digits /= all.size()) t.types[i] = all[digits % all.size()];
            const error expected = expected_error(r, t.types);
            if (expected.code == errc::ok) {
                ++accepted;
                const gk::status s = t.run();
                EXPECT_TRUE(s.ok()) << gk::to_string(s);
                t.poison();
            } else {
                EXPECT_EQ(t.failure(), expected) << gk::to_string(expected) << " in combination " << k;
            }
        }
        // f32, f64, and of each type of 16 bits: bias and gradients also f32; weights and results, results also f32, or both
        int of_16_bits = 1;
        for (const argument& a : r.arguments) {
            const bool is_chosen_alone = a.may_be_f32 && (a.name == "bias" || r.arguments[1].name != "weights");
            of_16_bits *= a.name == "weights" ? 3 : is_chosen_alone ? 2 : 1;
        }
        EXPECT_EQ(accepted, 2 + 2 * of_16_bits) << r.op;
    }
}

TEST(dynamic_errors, attributes_and_ranks_come_before_types) {
    for (const row& r : rows()) {
        for (std::size_t wrong = 0; wrong < r.arguments.size(); ++wrong) {
            const auto mixed = [&] {
                trial t(r);
                for (data_type& type : t.types) type = data_type::bf16;
                t.types[wrong] = wrong == 0 ? no_type : data_type::f16;
                return t;
            };
            {
                trial t = mixed();
                t.bad_attribute = true;
                EXPECT_EQ(t.failure().code, errc::invalid_argument) << r.op;
                t.layouts[0] = {1, 4};
                EXPECT_EQ(t.failure(),
                          (error{errc::unsupported, r.op, r.arguments[0].name, -1, 2, 3, expectation::at_least}));
            }
            for (std::size_t i = 0; i < r.arguments.size(); ++i) {
                trial t = mixed();
                t.layouts[i] = {1, 2, 3, 4, 5, 6};
                const error e = t.failure();
                EXPECT_EQ(e.code, errc::unsupported);
                if (r.arguments[i].rank_is_a_size) {
                    EXPECT_EQ(e, expected_error(r, t.types));
                    continue;
                }
                EXPECT_EQ(e.argument, r.arguments[i].name);
                EXPECT_EQ(e.got, 6);
            }
        }
    }
}

TEST(dynamic_errors, types_come_before_shapes_and_memory) {
    for (const row& r : rows()) {
        SCOPED_TRACE(r.op);
        for (std::size_t wrong = 0; wrong < r.arguments.size(); ++wrong) {
            trial mixed(r);
            for (data_type& type : mixed.types) type = data_type::bf16;
            mixed.types[wrong] = wrong == 0 ? no_type : data_type::f16;
            const error expected = expected_error(r, mixed.types);
            EXPECT_EQ(mixed.failure(), expected);
            mixed.null_pointers = true;
            EXPECT_EQ(mixed.failure(), expected);
            for (std::size_t i = 0; i < r.arguments.size(); ++i) {
                const gk::tensor_layout good = mixed.layouts[i];
                for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 62}) {
                    mixed.layouts[i].shape[0] = bad;
                    EXPECT_EQ(mixed.failure(), expected);
                }
                mixed.layouts[i] = {good.shape, extents::filled(good.shape.rank() + 1, 1)};
                EXPECT_EQ(mixed.failure(), expected);
                mixed.layouts[i] = good;
            }
        }
        trial missing(r);
        missing.layouts.back() = {};
        if (r.needs_shape) {
            EXPECT_EQ(missing.failure().code, errc::missing_shape);
        }
        missing.types.back() = data_type::f64;
        EXPECT_EQ(missing.failure(), mismatch(r, r.arguments.size() - 1, data_type::f64, data_type::f32));
    }
}

TEST(dynamic_errors, with_one_type_errors_are_the_typed_ones) {
    for (const row& r : rows()) {
        SCOPED_TRACE(r.op);
        trial t(r);
        t.null_pointers = true;
        EXPECT_EQ(t.failure().code, errc::null_pointer);
        t.layouts[0].shape[0] = -1;
        EXPECT_EQ(t.failure(),
                  (error{errc::invalid_shape, r.op, r.arguments[0].name, 0, -1, 0, expectation::at_least}));
        t.layouts[0].shape[0] = std::int64_t{1} << 62;
        EXPECT_EQ(t.failure().code, errc::overflow);
    }
    // Bytes are those of the widest element: f32, although f16 would be small enough.
    const std::int64_t channels = std::int64_t{1} << 61;
    const auto code = [&](data_type g) {
        return gk::bias_backward({data_type::f16, nullptr, {1, 1, channels}}, sum(false), {g, nullptr, {channels}})
            .code();
    };
    EXPECT_EQ(code(data_type::f16), errc::null_pointer);
    EXPECT_EQ(code(data_type::f32), errc::overflow);
}

// Indices do not have a run-time type: their ranks are checked before types, their sizes and memory after.
TEST(dynamic_errors, indices_of_max_pools) {
    std::array<float, 8> x{};
    std::array<std::uint16_t, 8> y;
    y.fill(0xabcd);
    std::array<std::int64_t, 6> places;
    places.fill(-77);
    const extents large{1, 4, 2};
    const extents small{1, 3, 2};
    const auto forward = [&](data_type dst, const gk::tensor_layout& indices, std::int64_t* data) {
        return gk::max_pool({data_type::f32, x.data(), large}, maximum(false), {dst, y.data(), small}, {data, indices})
            .error();
    };
    const error mixed{errc::unsupported,
                      "max_pool",
                      "dst",
                      -1,
                      static_cast<std::int64_t>(data_type::f16),
                      static_cast<std::int64_t>(data_type::f32),
                      expectation::equal};
    EXPECT_EQ(forward(data_type::f16, {3, 2}, places.data()),
              (error{errc::unsupported, "max_pool", "indices", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(forward(data_type::f16, {1, 4, 2}, places.data()), mixed);
    EXPECT_EQ(forward(data_type::f16, small, nullptr), mixed);
    const auto backward = [&](data_type diff_src, const gk::tensor_layout& indices, const std::int64_t* data) {
        return gk::max_pool_backward_from_indices({data_type::f32, x.data(), small}, {data, indices}, scatter(false),
                                                  {diff_src, y.data(), large})
            .error();
    };
    error late = mixed;
    late.op = "max_pool_backward_from_indices";
    late.argument = "diff_src";
    EXPECT_EQ(backward(data_type::f16, {3, 2}, places.data()), late);
    EXPECT_EQ(backward(data_type::f16, {1, 4, 2}, places.data()), late);
    EXPECT_EQ(backward(data_type::f16, small, nullptr), late);
    EXPECT_EQ(backward(data_type::f16, small, places.data()), late) << "indices out of range, which are data";
    EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](std::uint16_t b) { return b == 0xabcd; }));
    EXPECT_TRUE(std::all_of(places.begin(), places.end(), [](std::int64_t i) { return i == -77; }));

    // with one type, the typed operator's own errors
    std::array<float, 8> out;
    out.fill(5.0F);
    const auto same = [&](const gk::tensor_layout& indices, const std::int64_t* data) {
        return gk::max_pool_backward_from_indices({data_type::f32, x.data(), small}, {data, indices}, scatter(false),
                                                  {data_type::f32, out.data(), large})
            .error();
    };
    constexpr std::string_view op = "max_pool_backward_from_indices";
    EXPECT_EQ(same({3, 2}, places.data()), (error{errc::invalid_shape, op, "indices", -1, 2, 3, expectation::equal}));
    EXPECT_EQ(same({1, 4, 2}, places.data()), (error{errc::invalid_shape, op, "indices", 1, 4, 3, expectation::equal}));
    EXPECT_EQ(same(small, nullptr).code, errc::null_pointer);
    EXPECT_EQ(same(small, places.data()),
              (error{errc::index_out_of_range, op, "indices", -1, -77, -1, expectation::at_least}));
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return v == 5.0F; }));
}

// A result without layout has the type of the inputs, or f32 where the weights have.
TEST(dynamic_errors, the_type_of_an_absent_result_is_that_of_the_weights) {
    for (const row& r : rows()) {
        if (r.arguments[1].name != "weights") continue;
        for (const data_type weights : {data_type::bf16, data_type::f32}) {
            for (const data_type result : {data_type::bf16, data_type::f32}) {
                trial t(r);
                for (data_type& type : t.types) type = data_type::bf16;
                t.types[1] = weights;
                t.types.back() = result;
                t.layouts.back() = {};
                if (result == weights) {
                    const gk::status s = t.run();
                    EXPECT_TRUE(s.ok()) << gk::to_string(s);
                } else {
                    EXPECT_EQ(t.failure(), mismatch(r, t.types.size() - 1, result, weights));
                }
            }
        }
    }
}

// An absent bias has no elements, so its type is ignored.
TEST(dynamic_errors, the_type_of_an_absent_bias_is_ignored) {
    for (const row& r : rows()) {
        if (r.arguments[2 % r.arguments.size()].name != "bias") continue;
        for (const data_type type : {data_type::f32, data_type::f16, data_type::bf16}) {
            for (const data_type nothing : {data_type::f32, data_type::f16, data_type::f64}) {
                trial t(r);
                t.types = {type, type, nothing, type};
                t.layouts[2] = {};
                const gk::status s = t.run();
                EXPECT_TRUE(s.ok()) << gk::to_string(s);
            }
        }
    }
}

// --------------------------------------------------------------------------------------------------------------- plans

template <class... Plans>
constexpr bool plans_are_values = (... &&
                                   (std::is_trivially_copyable_v<Plans> && std::is_default_constructible_v<Plans>));
static_assert(
    plans_are_values<gk::dynamic_convolution_plan, gk::dynamic_convolution_backward_data_plan,
                     gk::dynamic_convolution_backward_weights_plan, gk::dynamic_conv_transpose_plan,
                     gk::dynamic_conv_transpose_backward_data_plan, gk::dynamic_conv_transpose_backward_weights_plan,
                     gk::dynamic_bias_backward_plan, gk::dynamic_avg_pool_plan, gk::dynamic_avg_pool_backward_plan,
                     gk::dynamic_lp_pool_plan, gk::dynamic_lp_pool_backward_plan, gk::dynamic_max_pool_plan,
                     gk::dynamic_max_pool_backward_plan, gk::dynamic_max_pool_backward_from_indices_plan>);

template <class Plan>
std::string description(const Plan& plan) {
    std::string text(plan.describe({}), ' ');
    static_cast<void>(plan.describe(std::span<char>(text.data(), text.size())));
    return text;
}

/// A plan of run-time types reports the same as the typed one; a call without memory requests as much as the plan reports.
/// `run(plan, tensors apart, workspace)`.
template <class Dynamic, class Typed, class OneCall, class Run>
void asks_for_the_typed_workspace(const gk::result<Dynamic>& plan, const gk::result<Typed>& typed, const OneCall& call,
                                  const Run& run) {
    ASSERT_TRUE(typed) << typed.error();
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(description(*plan), description(*typed));
    for (const std::ptrdiff_t workers : {1, 2, 7, 100'000})
        EXPECT_EQ(plan->workspace_bytes(workers), typed->workspace_bytes(workers));
    std::vector<std::byte> workspace(plan->workspace_bytes());
    EXPECT_TRUE(run(*plan, std::span<std::byte>(workspace)));
    EXPECT_TRUE(call(gk::call_options{.workspace = workspace}));
    if (workspace.size() < 2) return;
    const gk::status less = run(*plan, std::span<std::byte>(workspace).first(workspace.size() - 1));
    EXPECT_EQ(less.code(), errc::workspace_too_small);
    EXPECT_EQ(less.error().expected, static_cast<std::int64_t>(workspace.size()));
    const gk::status alone = call(gk::call_options{});
    if (!alone) {
        EXPECT_EQ(alone.code(), errc::workspace_too_small);
        EXPECT_LE(alone.error().expected, static_cast<std::int64_t>(workspace.size()));
    }
}

TYPED_TEST(dynamic_operators, plans_of_convolutions_are_the_typed_ones) {
    using T = typename TypeParam::input;
    using G = typename TypeParam::wide;
    const extents large{2, 17, 18, 40};
    const extents small{2, 15, 16, 36};
    const extents filter{3, 3, 40, 36};
    const extents transposed{3, 3, 36, 40};
    const gk::convolution_attributes a{.strides = {1, 1}, .dilations = {1, 1}};
    const gk::conv_transpose_attributes t{.strides = {1, 1}, .dilations = {1, 1}};
    random_source random("dynamic.plans");
    const test_tensor<T> x(large), y(small), w(filter), wt(transposed), out_large(large), out_small(small);
    const test_tensor<G> dw(filter), dwt(transposed), bias({36}), bias_t({40});
    for (const auto* tensor : {&x, &y, &w, &wt}) tensor->fill_random(random);
    bias.fill_random(random);
    bias_t.fill_random(random);
    const gk::const_dynamic_view X(x.view()), Y(y.view()), W(w.view()), WT(wt.view()), B(bias.view()),
        BT(bias_t.view());
    const gk::dynamic_view L(out_large.view()), S(out_small.view()), DW(dw.view()), DWT(dwt.view()), DB(bias.view()),
        DBT(bias_t.view());
    asks_for_the_typed_workspace(
        gk::plan_convolution(X, W, B, a, S), gk::plan_convolution<T, G>(large, filter, extents{36}, a, small),
        [&](const gk::call_options& o) { return gk::convolution(X, W, B, a, S, o); },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, W.data, B.data, S.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_convolution_backward_data(Y, W, a, L), gk::plan_convolution_backward_data<T>(small, filter, a, large),
        [&](const gk::call_options& o) { return gk::convolution_backward_data(Y, W, a, L, o); },
        [&](const auto& plan, auto workspace) { return plan.run(Y.data, W.data, L.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_convolution_backward_weights(X, Y, a, DW, DB),
        gk::plan_convolution_backward_weights<T, G>(large, small, a, filter, extents{36}),
        [&](const gk::call_options& o) { return gk::convolution_backward_weights(X, Y, a, DW, DB, o); },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, Y.data, DW.data, DB.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_conv_transpose(Y, WT, BT, t, L),
        gk::plan_conv_transpose<T, G>(small, transposed, extents{40}, t, large),
        [&](const gk::call_options& o) { return gk::conv_transpose(Y, WT, BT, t, L, o); },
        [&](const auto& plan, auto workspace) { return plan.run(Y.data, WT.data, BT.data, L.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_conv_transpose_backward_data(X, WT, t, S),
        gk::plan_conv_transpose_backward_data<T>(large, transposed, t, small),
        [&](const gk::call_options& o) { return gk::conv_transpose_backward_data(X, WT, t, S, o); },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, WT.data, S.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_conv_transpose_backward_weights(Y, X, t, DWT, DBT),
        gk::plan_conv_transpose_backward_weights<T, G>(small, large, t, transposed, extents{40}),
        [&](const gk::call_options& o) { return gk::conv_transpose_backward_weights(Y, X, t, DWT, DBT, o); },
        [&](const auto& plan, auto workspace) { return plan.run(Y.data, X.data, DWT.data, DBT.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_bias_backward(Y, {}, DB), gk::plan_bias_backward<T, G>(small, {}),
        [&](const gk::call_options& o) { return gk::bias_backward(Y, {}, DB, o); },
        [&](const auto& plan, auto workspace) { return plan.run(Y.data, DB.data, workspace); });
}

TYPED_TEST(dynamic_operators, plans_of_pools_are_the_typed_ones) {
    using T = typename TypeParam::input;
    const extents large{2, 60, 61, 70};
    const extents small{2, 58, 59, 70};
    const gk::avg_pool_attributes a{.kernel = {3, 3}, .strides = {1, 1}};
    const gk::lp_pool_attributes l{.kernel = {3, 3}, .strides = {1, 1}};
    const gk::max_pool_attributes m{.kernel = {3, 3}, .strides = {1, 1}};
    random_source random("dynamic.pool_plans");
    const test_tensor<T> x(large), y(small), out_large(large), out_small(small);
    x.fill_random(random);
    y.fill_random(random);
    std::vector<std::int64_t> places(static_cast<std::size_t>(out_small.count()));
    const gk::const_dynamic_view X(x.view()), Y(y.view());
    const gk::dynamic_view L(out_large.view()), S(out_small.view());
    asks_for_the_typed_workspace(
        gk::plan_avg_pool(X, a, S), gk::plan_avg_pool<T>(large, a),
        [&](const gk::call_options& o) { return gk::avg_pool(X, a, S, o); },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, S.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_avg_pool_backward(Y, a, L), gk::plan_avg_pool_backward<T>(small, a, large),
        [&](const gk::call_options& o) { return gk::avg_pool_backward(Y, a, L, o); },
        [&](const auto& plan, auto workspace) { return plan.run(Y.data, L.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_lp_pool(X, l, S), gk::plan_lp_pool<T>(large, l),
        [&](const gk::call_options& o) { return gk::lp_pool(X, l, S, o); },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, S.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_lp_pool_backward(X, Y, Y, l, L), gk::plan_lp_pool_backward<T>(large, small, small, l),
        [&](const gk::call_options& o) { return gk::lp_pool_backward(X, Y, Y, l, L, o); },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, Y.data, Y.data, L.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_max_pool(X, m, S, small), gk::plan_max_pool<T>(large, m, small, small),
        [&](const gk::call_options& o) {
            return gk::max_pool(X, m, S, {places.data(), small}, o);
        },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, S.data, places.data(), workspace); });
    asks_for_the_typed_workspace(
        gk::plan_max_pool_backward(X, Y, m, L), gk::plan_max_pool_backward<T>(large, small, m),
        [&](const gk::call_options& o) { return gk::max_pool_backward(X, Y, m, L, o); },
        [&](const auto& plan, auto workspace) { return plan.run(X.data, Y.data, L.data, workspace); });
    asks_for_the_typed_workspace(
        gk::plan_max_pool_backward_from_indices(Y, small, {}, L),
        gk::plan_max_pool_backward_from_indices<T>(small, small, {}, large),
        [&](const gk::call_options& o) {
            return gk::max_pool_backward_from_indices(Y, {places.data(), small}, {}, L, o);
        },
        [&](const auto& plan, auto workspace) { return plan.run(Y.data, places.data(), L.data, workspace); });
}

// A call that is refused without a workspace: the plan tells the size, and runs with it.
TEST(dynamic_plans, are_the_way_out_of_workspace_too_small) {
    const extents src{1, 28, 28, 64};
    const extents weights{3, 3, 64, 64};
    const extents dst{1, 26, 26, 64};
    const gk::convolution_attributes a{.strides = {1, 1}, .dilations = {1, 1}};
    const test_tensor<gk::bfloat16> x(src), w(weights), y(dst), typed(dst);
    random_source random("dynamic.way_out");
    x.fill_random(random);
    w.fill_random(random);
    const gk::const_dynamic_view X(x.view()), W(w.view());
    const gk::dynamic_view Y(y.view());
    const auto plan = gk::plan_convolution(X, W, {}, a, Y);
    ASSERT_TRUE(plan) << plan.error();
    std::vector<std::byte> workspace(plan->workspace_bytes());
    ASSERT_TRUE(plan->run(X.data, W.data, nullptr, Y.data, workspace));
    ASSERT_TRUE(gk::convolution(x.const_view(), w.const_view(), {}, a, typed.view(), {.workspace = workspace}));
    EXPECT_TRUE(y.equals(typed));
    EXPECT_EQ(gk::plan_convolution({no_type, src}, {no_type, weights}, {}, a, {no_type, dst}).error().code,
              errc::unsupported);
    EXPECT_EQ(gk::plan_convolution({data_type::f16, src}, W, {}, a, Y).error().argument, "weights");
    EXPECT_EQ(gk::plan_convolution({data_type::bf16, dst}, W, {}, a, Y).error().code, errc::invalid_shape);
}

}  // namespace
}  // namespace gradkern_test
