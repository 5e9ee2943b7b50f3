// Any operator, in any type, as the tests of testing.hpp run it: a problem, tensors that own their memory, and gradkern's result.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gradkern/dynamic.hpp>
#include <gradkern/testing.hpp>

#include "support/conv_cases.hpp"
#include "support/random.hpp"

namespace gradkern_test {

/// A dense tensor of a run-time type.
class any_tensor {
public:
    any_tensor() = default;
    any_tensor(gk::data_type type, const gk::extents& shape) : type_(type), shape_(shape) {
        std::size_t bytes = gk::size_of(type);
        for (const std::int64_t e : shape.values()) bytes *= static_cast<std::size_t>(e);
        bytes_.assign(bytes, std::byte{0xff});  // NaN
    }
    [[nodiscard]] gk::dynamic_view view() { return {type_, bytes_.data(), shape_}; }
    [[nodiscard]] gk::const_dynamic_view const_view() const {
        return shape_.empty() ? gk::const_dynamic_view{} : gk::const_dynamic_view{type_, bytes_.data(), shape_};
    }
    [[nodiscard]] const gk::extents& shape() const { return shape_; }
    void fill(gk::test::pattern p, std::uint64_t seed, int operand) {
        EXPECT_TRUE(gk::test::fill(view(), p, seed, operand).ok());
    }

private:
    gk::data_type type_ = gk::data_type::f32;
    gk::extents shape_{};
    std::vector<std::byte> bytes_{};
};

/// A problem with its tensors.
struct any_case {
    gk::test::problem problem{gk::test::operation::bias_backward, gk::bias_attributes{}};
    any_tensor src{}, weights{}, bias{}, dst{}, diff_dst{}, previous{}, result{};
    std::vector<std::int64_t> indices{};

    [[nodiscard]] gk::test::inputs inputs() const {
        return {.src = src.const_view(),
                .weights = weights.const_view(),
                .bias = bias.const_view(),
                .dst = dst.const_view(),
                .diff_dst = diff_dst.const_view(),
                .indices = indices.empty() ? gk::tensor_view<const std::int64_t>{}
                                           : gk::tensor_view<const std::int64_t>{indices.data(), diff_dst.shape()},
                .previous = previous.const_view()};
    }
};

/// gradkern's result of the problem, into `result`.
[[nodiscard]] inline gk::status run_gradkern(any_case& c) {
    using gk::test::operation;
    const gk::test::problem& p = c.problem;
    std::vector<std::byte> memory(std::size_t{1} << 22);
    const gk::call_options o{.plan = p.options(), .workspace = memory};
    const gk::test::inputs in = c.inputs();
    const gk::dynamic_view out = c.result.view();
    switch (p.op()) {
        case operation::avg_pool: return gk::avg_pool(in.src, p.avg_pool(), out, o);
        case operation::avg_pool_backward: return gk::avg_pool_backward(in.diff_dst, p.avg_pool(), out, o);
        case operation::lp_pool: return gk::lp_pool(in.src, p.lp_pool(), out, o);
        case operation::lp_pool_backward: return gk::lp_pool_backward(in.src, in.dst, in.diff_dst, p.lp_pool(), out, o);
        case operation::max_pool: return gk::max_pool(in.src, p.max_pool(), out, {}, o);
        case operation::max_pool_backward: return gk::max_pool_backward(in.src, in.diff_dst, p.max_pool(), out, o);
        case operation::max_pool_backward_from_indices:
            return gk::max_pool_backward_from_indices(in.diff_dst, {c.indices.data(), in.indices.layout},
                                                      p.max_pool_indices(), out, o);
        case operation::convolution: return gk::convolution(in.src, in.weights, in.bias, p.convolution(), out, o);
        case operation::convolution_backward_data:
            return gk::convolution_backward_data(in.diff_dst, in.weights, p.convolution(), out, o);
        case operation::convolution_backward_weights:
            return gk::convolution_backward_weights(in.src, in.diff_dst, p.convolution(), out, {}, o);
        case operation::conv_transpose:
            return gk::conv_transpose(in.src, in.weights, in.bias, p.conv_transpose(), out, o);
        case operation::conv_transpose_backward_data:
            return gk::conv_transpose_backward_data(in.diff_dst, in.weights, p.conv_transpose(), out, o);
        case operation::conv_transpose_backward_weights:
            return gk::conv_transpose_backward_weights(in.src, in.diff_dst, p.conv_transpose(), out, {}, o);
        case operation::bias_backward: return gk::bias_backward(in.diff_dst, p.bias(), out, o);
    }
    return gk::error{.code = gk::errc::unsupported};
}

/// A random problem of an operator with inputs of a pattern. Results of weight and bias gradients may be f32.
[[nodiscard]] inline any_case random_any_case(random_source& random, gk::test::operation op, gk::data_type type,
                                              gk::test::pattern pattern, std::int64_t limit = 60'000) {
    using gk::test::operation;
    any_case c;
    const std::uint64_t seed = random.bits();
    const gk::plan_options options{.output = random.pick({gk::output_mode::overwrite, gk::output_mode::accumulate}),
                                   .summation = random.pick({gk::summation::joint, gk::summation::image_by_image})};
    const auto tensor = [&](const gk::extents& shape, int operand) {
        any_tensor t(type, shape);
        t.fill(pattern, seed + static_cast<std::uint64_t>(operand), operand);
        return t;
    };
    const gk::data_type gradient = type != gk::data_type::f64 && random.chance(1, 2) ? gk::data_type::f32 : type;
    const auto finish = [&](gk::data_type result_type, const gk::extents& shape) {
        c.result = any_tensor(result_type, shape);
        if (options.output == gk::output_mode::accumulate) {
            c.result.fill(pattern, seed + 3, 3);
            c.previous = c.result;
        }
    };
    if (op >= operation::convolution && op <= operation::conv_transpose_backward_weights) {
        const auto which = static_cast<conv_operator>(static_cast<int>(op) - static_cast<int>(operation::convolution));
        conv_case k = random_conv_case(random, limit, which);
        const auto problem = [&](const auto& attributes) { return gk::test::problem(op, attributes, options); };
        c.problem = k.transposed() ? problem(k.transpose) : problem(k.conv);
        if (k.writes_weights()) {
            c.src = tensor(k.first(), 0);
            c.diff_dst = tensor(k.second(), 1);
        } else {
            const bool forward = k.takes_bias();
            (forward ? c.src : c.diff_dst) = tensor(k.first(), 0);
            c.weights = tensor(k.second(), 1);
            if (forward && random.chance(1, 2)) c.bias = tensor(k.bias(), 2);
        }
        finish(k.writes_weights() ? gradient : type, k.result());
        return c;
    }

    const auto format = random.pick({gk::data_format::nxc, gk::data_format::ncx});
    const std::int64_t channels = random.pick<std::int64_t>({1, 3, 17});
    const std::int64_t rank = random.integer(1, 3);
    gk::extents space, kernel, strides, begin, end, dilations;
    for (std::int64_t axis = 0; axis < rank; ++axis) {
        kernel.push_back(random.integer(1, 3));
        dilations.push_back(random.integer(1, 2));
        space.push_back(random.integer((kernel[kernel.rank() - 1] - 1) * 2 + 1, rank == 1 ? 60 : 9));
        strides.push_back(random.integer(1, 3));
        begin.push_back(random.integer(0, 2));
        end.push_back(random.integer(0, 2));
    }
    const gk::extents large = activation(format, random.integer(1, 3), channels, space);
    const auto with_windows = [&](auto a) {
        a.kernel = kernel;
        a.strides = strides;
        a.dilations = dilations;
        a.pads_begin = begin;
        a.pads_end = end;
        a.data_format = format;
        return a;
    };
    const auto maximum = with_windows(gk::max_pool_attributes{.ignore_nan = random.chance(1, 4)});
    const gk::extents small = *gk::infer_max_pool(large, maximum);
    switch (op) {
        case operation::avg_pool:
        case operation::avg_pool_backward: {
            auto mean = with_windows(gk::avg_pool_attributes{.exclude_pad = random.chance(1, 2)});
            if (random.chance(1, 5)) mean.divisor_override = random.pick<std::int64_t>({-3, 2, 16'777'217});
            c.problem = gk::test::problem(op, mean, options);
            (op == operation::avg_pool ? c.src : c.diff_dst) = tensor(op == operation::avg_pool ? large : small, 0);
            finish(type, op == operation::avg_pool ? small : large);
            break;
        }
        case operation::lp_pool:
        case operation::lp_pool_backward: {
            const auto norm = with_windows(gk::lp_pool_attributes{});
            c.problem = gk::test::problem(operation::lp_pool, norm);
            c.src = tensor(large, 0);
            if (op == operation::lp_pool_backward) {
                c.result = any_tensor(type, small);
                EXPECT_TRUE(run_gradkern(c).ok());
                c.dst = c.result;
                c.diff_dst = tensor(small, 1);
            }
            c.problem = gk::test::problem(op, norm, options);
            finish(type, op == operation::lp_pool ? small : large);
            break;
        }
        case operation::max_pool:
        case operation::max_pool_backward:
            c.problem = gk::test::problem(op, maximum, options);
            c.src = tensor(large, 0);
            if (op == operation::max_pool_backward) c.diff_dst = tensor(small, 1);
            finish(type, op == operation::max_pool ? small : large);
            break;
        case operation::max_pool_backward_from_indices: {
            any_tensor src = tensor(large, 0);
            any_tensor dst(type, small);
            c.diff_dst = tensor(small, 1);
            std::size_t count = 1;
            for (const std::int64_t e : small.values()) count *= static_cast<std::size_t>(e);
            c.indices.resize(count);
            EXPECT_TRUE(gk::max_pool(src.const_view(), maximum, dst.view(), {c.indices.data(), small}).ok());
            c.problem = gk::test::problem(op, gk::max_pool_indices_attributes{.data_format = format}, options);
            finish(type, large);
            break;
        }
        default:
            c.problem = gk::test::problem(op, gk::bias_attributes{.data_format = format}, options);
            c.diff_dst = tensor(large, 0);
            finish(gradient, {channels});
            break;
    }
    return c;
}

}  // namespace gradkern_test
