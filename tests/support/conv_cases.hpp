// Random problems of the convolution family, with one interface to plan, run and compute the reference of all six operators.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradkern/accuracy.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/error_text.hpp>
#include <gradkern/ref/conv_transpose.hpp>
#include <gradkern/ref/convolution.hpp>

#include "support/algorithms.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/tensor.hpp"

namespace gradkern_test {

namespace gk = gradkern;

enum class conv_operator : std::uint8_t {
    convolution,
    convolution_backward_data,
    convolution_backward_weights,
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights
};
inline constexpr std::array all_conv_operators{conv_operator::convolution,
                                               conv_operator::convolution_backward_data,
                                               conv_operator::convolution_backward_weights,
                                               conv_operator::conv_transpose,
                                               conv_operator::conv_transpose_backward_data,
                                               conv_operator::conv_transpose_backward_weights};

/// A problem: which operator, the shapes of its three tensors, and the attributes of its family.
struct conv_case {
    conv_operator op = conv_operator::convolution;
    gk::extents large{};
    gk::extents small{};
    gk::extents weights{};
    gk::convolution_attributes conv{};
    gk::conv_transpose_attributes transpose{};
    std::int64_t multiplications = 0;  ///< upper bound, with all taps inside

    [[nodiscard]] bool transposed() const noexcept { return op >= conv_operator::conv_transpose; }
    [[nodiscard]] bool writes_weights() const noexcept {
        return op == conv_operator::convolution_backward_weights ||
               op == conv_operator::conv_transpose_backward_weights;
    }
    [[nodiscard]] bool takes_bias() const noexcept {
        return op == conv_operator::convolution || op == conv_operator::conv_transpose;
    }
    [[nodiscard]] bool writes_small() const noexcept {
        return op == conv_operator::convolution || op == conv_operator::conv_transpose_backward_data;
    }
    [[nodiscard]] gk::data_format data_format() const noexcept {
        return transposed() ? transpose.data_format : conv.data_format;
    }
    /// Shapes in the order of the operator's arguments.
    [[nodiscard]] const gk::extents& first() const noexcept {
        if (op == conv_operator::conv_transpose_backward_weights) return small;
        return writes_small() || writes_weights() ? large : small;
    }
    [[nodiscard]] const gk::extents& second() const noexcept {
        if (op == conv_operator::conv_transpose_backward_weights) return large;
        return writes_weights() ? small : weights;
    }
    [[nodiscard]] const gk::extents& result() const noexcept {
        return writes_weights() ? weights : writes_small() ? small : large;
    }
    [[nodiscard]] gk::extents bias() const noexcept {
        return {result()[gk::shape::channel_index(data_format(), result().rank() - 2)]};
    }
    /// The published error bound, with the arguments of the operator.
    template <class T, class G, class B, class W = T>
    [[nodiscard]] gk::result<gk::accuracy::error_bound<G>> error_bound(bool has_bias,
                                                                       const gk::plan_options& options) const {
        if (op == conv_operator::convolution_backward_weights)
            return gk::accuracy::convolution_backward_weights<T, G>(first(), second(), conv, weights, {}, options);
        if (op == conv_operator::conv_transpose_backward_weights)
            return gk::accuracy::conv_transpose_backward_weights<T, G>(first(), second(), transpose, weights, {},
                                                                       options);
        const gk::extents with = has_bias ? bias() : gk::extents{};
        if (op == conv_operator::convolution)
            return gk::accuracy::convolution<T, W, G, B>(first(), second(), with, conv, result(), options);
        if (op == conv_operator::convolution_backward_data)
            return gk::accuracy::convolution_backward_data<T, W, G>(first(), second(), conv, result(), options);
        if (op == conv_operator::conv_transpose)
            return gk::accuracy::conv_transpose<T, W, G, B>(first(), second(), with, transpose, result(), options);
        return gk::accuracy::conv_transpose_backward_data<T, W, G>(first(), second(), transpose, result(), options);
    }
    /// For messages.
    [[nodiscard]] std::string text() const {
        std::ostringstream out;
        const auto list = [&](const char* name, const gk::extents& e) {
            out << ' ' << name << " (";
            for (std::size_t i = 0; i < e.values().size(); ++i) out << (i == 0 ? "" : ",") << e[i];
            out << ')';
        };
        out << "operator " << static_cast<int>(op);
        list("large", large);
        list("small", small);
        list("weights", weights);
        const auto attributes = [&](const auto& a) {
            list("strides", a.strides);
            list("dilations", a.dilations);
            list("pads_begin", a.pads_begin);
            list("pads_end", a.pads_end);
            list("output_padding", a.output_padding);
            out << " auto_pad " << static_cast<int>(a.auto_pad) << " groups " << a.groups << " data "
                << (a.data_format == gk::data_format::ncx ? "NCX" : "NXC") << " weights "
                << (a.weights_format == gk::weights_format::oix ? "OIX" : "XIO");
        };
        transposed() ? attributes(transpose) : attributes(conv);
        return out.str();
    }
};

/// An activation's shape.
[[nodiscard]] inline gk::extents activation(gk::data_format f, std::int64_t n, std::int64_t c,
                                            const gk::extents& space) {
    gk::extents e{n};
    if (f == gk::data_format::ncx) e.push_back(c);
    for (const std::int64_t v : space.values()) e.push_back(v);
    if (f == gk::data_format::nxc) e.push_back(c);
    return e;
}

/// A filter's shape; `o` and `i` are the extents of the axes with these names.
[[nodiscard]] inline gk::extents filter(gk::weights_format f, std::int64_t o, std::int64_t i,
                                        const gk::extents& kernel) {
    gk::extents e;
    if (f == gk::weights_format::oix) {
        e.push_back(o);
        e.push_back(i);
    }
    for (const std::int64_t v : kernel.values()) e.push_back(v);
    if (f == gk::weights_format::xio) {
        e.push_back(i);
        e.push_back(o);
    }
    return e;
}

/// The same problem in other layouts.
[[nodiscard]] inline conv_case with_formats(conv_case c, gk::data_format d, gk::weights_format w) {
    const auto space_of = [](const gk::extents& e, std::size_t at, std::size_t r) {
        gk::extents s;
        for (std::size_t i = 0; i < r; ++i) s.push_back(e[at + i]);
        return s;
    };
    const std::size_t r = c.large.rank() - 2;
    const gk::data_format d0 = c.data_format();
    const gk::weights_format w0 = c.transposed() ? c.transpose.weights_format : c.conv.weights_format;
    const std::size_t ci = gk::shape::channel_index(d0, r);
    const std::size_t si = gk::shape::spatial_index(d0);
    c.large = activation(d, c.large[0], c.large[ci], space_of(c.large, si, r));
    c.small = activation(d, c.small[0], c.small[ci], space_of(c.small, si, r));
    c.weights =
        filter(w, c.weights[gk::shape::output_channel_index(w0, r)], c.weights[gk::shape::input_channel_index(w0, r)],
               space_of(c.weights, gk::shape::kernel_index(w0), r));
    c.conv.data_format = c.transpose.data_format = d;
    c.conv.weights_format = c.transpose.weights_format = w;
    return c;
}

/// A problem with the same numbers on every spatial axis.
struct conv_row {
    conv_operator op;
    std::int64_t n, groups, small, large;  ///< channels in a group
    gk::extents space;                     ///< of the large side (convolution) or the small side (conv_transpose)
    std::int64_t kernel, stride, dilation, pad;
};
[[nodiscard]] inline conv_case make_case(const conv_row& row, gk::data_format d, gk::weights_format w) {
    const std::size_t rank = row.space.rank();
    conv_case c;
    c.op = row.op;
    const auto set = [&](auto& a) {
        a.strides = gk::extents::filled(rank, row.stride);
        a.dilations = gk::extents::filled(rank, row.dilation);
        a.pads_begin = a.pads_end = gk::extents::filled(rank, row.pad);
        a.groups = row.groups;
        a.data_format = d;
        a.weights_format = w;
    };
    set(c.conv);
    set(c.transpose);
    const gk::extents kernel = gk::extents::filled(rank, row.kernel);
    if (c.transposed()) {
        c.small = activation(d, row.n, row.groups * row.small, row.space);
        c.weights = filter(w, row.large, row.groups * row.small, kernel);
        c.large = gk::infer_conv_transpose(c.small, c.weights, c.transpose).value();
    } else {
        c.large = activation(d, row.n, row.groups * row.large, row.space);
        c.weights = filter(w, row.groups * row.small, row.large, kernel);
        c.small = gk::infer_convolution(c.large, c.weights, c.conv).value();
    }
    return c;
}

/// A random legal problem of at most `limit` multiplications: all ranks, formats, pads, groups; channels around the
/// widths of vectors and blocks. `many_positions`: enough for several blocks, with few channels.
[[nodiscard]] inline conv_case random_conv_case(random_source& random, std::int64_t limit = 300'000,
                                                std::optional<conv_operator> op = {}, bool many_positions = false) {
    for (;;) {
        conv_case c;
        c.op = op.value_or(static_cast<conv_operator>(random.integer(0, 5)));
        const auto r = static_cast<std::size_t>(random.integer(1, 3));
        const auto channels = [&] {
            if (many_positions) return random.pick<std::int64_t>({1, 1, 2, 3, 4, 6});
            return random.pick<std::int64_t>(
                {1, 2, 3, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 129});
        };
        std::int64_t groups = 1;
        std::int64_t s_channels = channels();  // of the small and the large side in a group
        std::int64_t l_channels = channels();
        const bool long_sums = !many_positions && random.chance(1, 8);
        switch (long_sums ? 6 : random.integer(0, 5)) {
            case 0:  // depthwise
                groups = channels();
                s_channels = l_channels = 1;
                break;
            case 1:  // depth multiplier, on either side
                groups = channels();
                (random.chance(1, 2) ? s_channels : l_channels) = 1;
                (s_channels == 1 ? l_channels : s_channels) = random.integer(1, 3);
                break;
            case 2:  // groups of few channels
                groups = random.integer(2, 9);
                s_channels = random.integer(1, 9);
                l_channels = random.integer(1, 9);
                break;
            case 3: groups = random.integer(1, 3); break;
            case 4:
                groups = random.integer(1, 17);
                s_channels = l_channels = 4;
                break;
            case 6:  // sums of several parts on one side
                s_channels = random.integer(1, 4);
                l_channels = random.pick<std::int64_t>({63, 64, 65, 100, 129});
                if (random.chance(1, 2)) std::swap(s_channels, l_channels);
                break;
            default: break;
        }
        const std::int64_t n = random.chance(1, 40) ? 0 : random.integer(1, 3);
        const std::int64_t most = many_positions ? (r == 1   ? 9000
                                                    : r == 2 ? 95
                                                             : 20)
                                  : r == 1       ? (random.chance(1, 5) ? 700 : 40)
                                  : r == 2       ? 15
                                                 : 6;
        gk::extents space;
        gk::extents kernel;
        gk::extents strides;
        gk::extents dilations;
        gk::extents begin;
        gk::extents end;
        gk::extents op_pad;
        std::int64_t taps = 1;
        const bool pointwise = !long_sums && random.chance(1, 4);
        const std::int64_t most_stride = random.chance(1, 2) ? 1 : 4;
        const std::int64_t most_dilation = random.chance(2, 3) ? 1 : 4;
        const std::int64_t most_pad = random.chance(1, 3) ? 0 : 4;
        for (std::size_t i = 0; i < r; ++i) {
            space.push_back(random.chance(1, 6) ? 1 : random.integer(many_positions ? most / 2 : 1, most));
            kernel.push_back(pointwise ? 1 : random.integer(1, r == 3 ? 3 : 5));
            strides.push_back(random.integer(1, most_stride));
            dilations.push_back(random.integer(1, most_dilation));
            begin.push_back(random.integer(0, most_pad));
            end.push_back(random.integer(0, most_pad));
            op_pad.push_back(random.integer(0, std::max(strides[i], dilations[i]) - 1));
            taps *= kernel[i];
        }
        const auto auto_pad = static_cast<gk::auto_pad>(random.chance(1, 3) ? random.integer(1, 3) : 0);
        const gk::data_format d = random.pick({gk::data_format::ncx, gk::data_format::nxc});
        const gk::weights_format w = random.pick({gk::weights_format::oix, gk::weights_format::xio});
        const auto set = [&](auto& a) {
            a.strides = strides;
            a.dilations = dilations;
            a.pads_begin = begin;
            a.pads_end = end;
            a.auto_pad = auto_pad;
            a.groups = groups;
            a.data_format = d;
            a.weights_format = w;
        };
        std::int64_t positions = n;
        if (c.transposed()) {
            set(c.transpose);
            if (random.chance(1, 2)) c.transpose.output_padding = op_pad;
            c.small = activation(d, n, groups * s_channels, space);
            c.weights = filter(w, l_channels, groups * s_channels, kernel);
            const auto inferred = gk::infer_conv_transpose(c.small, c.weights, c.transpose);
            if (!inferred) continue;
            c.large = *inferred;
            if (random.chance(1, 3)) {  // another size that fits
                gk::extents other = c.large;
                const std::size_t at = gk::shape::spatial_index(d) +
                                       static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(r) - 1));
                other[at] += random.integer(1, 3);
                if (gk::infer_conv_transpose(c.small, c.weights, c.transpose, other)) c.large = other;
            }
        } else {
            set(c.conv);
            c.large = activation(d, n, groups * l_channels, space);
            c.weights = filter(w, groups * s_channels, l_channels, kernel);
            const auto inferred = gk::infer_convolution(c.large, c.weights, c.conv);
            if (!inferred) continue;
            c.small = *inferred;
        }
        for (std::size_t i = 0; i < r; ++i) positions *= c.small[gk::shape::spatial_index(d) + i];
        c.multiplications = positions * taps * groups * s_channels * l_channels;
        std::int64_t elements = 1;
        for (const std::int64_t e : c.large.values()) elements *= e;
        const std::int64_t filter_elements = taps * groups * s_channels * l_channels;
        if (c.multiplications > limit || elements > limit / 10 || filter_elements > limit / 10) continue;
        return c;
    }
}

/// A plan of any of the operators, behind one interface.
struct planned {
    gk::status status{};
    std::function<std::size_t(std::ptrdiff_t)> workspace_bytes{};
    std::string description{};
    /// Runs with the planned inputs and output.
    std::function<gk::status(std::span<std::byte>, gk::executor_ref)> run{};
    /// The same with another address of the output.
    std::function<gk::status(void*, std::span<std::byte>, gk::executor_ref)> run_into{};
};

/// Plans c.op over these tensors. T: first input, G: output, B: bias, W: second input.
template <class T, class G, class B, class W = T>
[[nodiscard]] planned make_plan(const conv_case& c, gk::tensor_view<const T> first,
                                std::type_identity_t<gk::tensor_view<const W>> second, gk::tensor_view<const B> bias,
                                gk::tensor_view<G> out, const gk::plan_options& options) {
    const auto erase = [&out](const auto& plan, auto run) -> planned {
        if (!plan) return {plan.error()};
        std::string description(plan->describe({}), ' ');
        plan->describe(description);
        return {
            {},
            [p = *plan](std::ptrdiff_t workers) { return p.workspace_bytes(workers); },
            std::move(description),
            [p = *plan, run, to = out.data](std::span<std::byte> ws, gk::executor_ref e) { return run(p, to, ws, e); },
            [p = *plan, run](void* to, std::span<std::byte> ws, gk::executor_ref e) {
                return run(p, static_cast<G*>(to), ws, e);
            }};
    };
    const auto three = [=](const auto& p, G* to, std::span<std::byte> ws, gk::executor_ref e) {
        return p.run(first.data, second.data, to, ws, e);
    };
    if constexpr (std::is_same_v<T, W>) {
        if (c.op == conv_operator::convolution_backward_weights)
            return erase(gk::plan_convolution_backward_weights<T, G>(first.layout, second.layout, c.conv, out.layout,
                                                                     {}, options),
                         three);
        if (c.op == conv_operator::conv_transpose_backward_weights)
            return erase(gk::plan_conv_transpose_backward_weights<T, G>(first.layout, second.layout, c.transpose,
                                                                        out.layout, {}, options),
                         three);
    }
    if constexpr (gk::detail::takes_convolution<T, W, G>) {
        const auto four = [=](const auto& p, G* to, std::span<std::byte> ws, gk::executor_ref e) {
            return p.run(first.data, second.data, bias.data, to, ws, e);
        };
        if (c.op == conv_operator::convolution)
            return erase(
                gk::plan_convolution<T, W, G, B>(first.layout, second.layout, bias.layout, c.conv, out.layout, options),
                four);
        if (c.op == conv_operator::conv_transpose)
            return erase(gk::plan_conv_transpose<T, W, G, B>(first.layout, second.layout, bias.layout, c.transpose,
                                                             out.layout, options),
                         four);
        if (c.op == conv_operator::convolution_backward_data)
            return erase(
                gk::plan_convolution_backward_data<T, W, G>(first.layout, second.layout, c.conv, out.layout, options),
                three);
        if (c.op == conv_operator::conv_transpose_backward_data)
            return erase(gk::plan_conv_transpose_backward_data<T, W, G>(first.layout, second.layout, c.transpose,
                                                                        out.layout, options),
                         three);
    }
    return {gk::error{.code = gk::errc::unsupported, .op = "make_plan"}};
}

/// The reference of c.op.
template <class T, class G, class B, class W = T>
[[nodiscard]] gk::status run_reference(const conv_case& c, gk::tensor_view<const T> first,
                                       std::type_identity_t<gk::tensor_view<const W>> second,
                                       gk::tensor_view<const B> bias, gk::tensor_view<G> out, gk::output_mode mode) {
    const gk::call_options options{.plan = {.output = mode}};
    if constexpr (std::is_same_v<T, W>) {
        if (c.op == conv_operator::convolution_backward_weights)
            return gk::ref::convolution_backward_weights<T, G>(first, second, c.conv, out, {}, options);
        if (c.op == conv_operator::conv_transpose_backward_weights)
            return gk::ref::conv_transpose_backward_weights<T, G>(first, second, c.transpose, out, {}, options);
    }
    if constexpr (gk::detail::takes_convolution<T, W, G>) {
        if (c.op == conv_operator::convolution)
            return gk::ref::convolution<T, W, G, B>(first, second, bias, c.conv, out, options);
        if (c.op == conv_operator::conv_transpose)
            return gk::ref::conv_transpose<T, W, G, B>(first, second, bias, c.transpose, out, options);
        if (c.op == conv_operator::convolution_backward_data)
            return gk::ref::convolution_backward_data<T, W, G>(first, second, c.conv, out, options);
        if (c.op == conv_operator::conv_transpose_backward_data)
            return gk::ref::conv_transpose_backward_data<T, W, G>(first, second, c.transpose, out, options);
    }
    return gk::error{.code = gk::errc::unsupported, .op = "run_reference"};
}

[[nodiscard]] inline touching side_of(random_source& random) { return random.pick({touching::begin, touching::end}); }

/// The tensors of a case, their contents and the results.
template <class T, class G = T, class B = T, class W = T>
struct conv_tensors {
    test_tensor<T> first;
    test_tensor<W> second;
    test_tensor<B> bias;
    test_tensor<G> previous;  ///< contents of the output before an accumulating call
    bool has_bias = false;
    gk::output_mode mode = gk::output_mode::overwrite;
    gk::precision precision = gk::precision::strict;

    conv_tensors(random_source& random, const conv_case& c, bool strided)
        : first(c.first(), strided ? random_input_strides(random, c.first()) : gk::extents{}, side_of(random)),
          second(c.second(), strided ? random_input_strides(random, c.second()) : gk::extents{}, side_of(random)),
          bias(c.bias(), strided ? random_input_strides(random, c.bias()) : gk::extents{}, side_of(random)),
          previous(c.result()),
          has_bias(c.takes_bias() && random.chance(1, 2)),
          mode(random.chance(1, 4) ? gk::output_mode::accumulate : gk::output_mode::overwrite) {}

    /// Small integers: every sum is exact in f32, whatever its order.
    void fill_integers(random_source& random) const {
        const auto value = [&](std::int64_t) { return static_cast<float>(random.integer(-3, 3)); };
        first.fill(value);
        second.fill(value);
        bias.fill(value);
        previous.fill(value);
    }
    void fill_reals(random_source& random) const {
        first.fill_random(random);
        second.fill_random(random);
        bias.fill_random(random);
        previous.fill_random(random);
    }

    [[nodiscard]] gk::tensor_view<const B> bias_view() const {
        return has_bias ? bias.const_view() : gk::tensor_view<const B>{};
    }
    /// Sets an output to its state before a call: the previous values, or poison.
    void prepare(test_tensor<G>& out) const {
        out.poison();
        if (mode == gk::output_mode::accumulate)
            for (std::int64_t i = 0; i < out.count(); ++i) out[i] = previous[i];
    }
    [[nodiscard]] planned plan(const conv_case& c, test_tensor<G>& out, gk::algorithm a) const {
        return make_plan<T, G, B, W>(c, first.const_view(), second.const_view(), bias_view(), out.view(),
                                     {.output = mode, .precision = precision, .algorithm = a});
    }
    /// Runs the operator serially with just enough workspace at the end of guarded memory.
    [[nodiscard]] gk::status run(const conv_case& c, test_tensor<G>& out,
                                 gk::algorithm a = gk::algorithm::automatic) const {
        prepare(out);
        const planned p = plan(c, out, a);
        if (!p.status) return p.status;
        const guarded_bytes workspace(p.workspace_bytes(1));
        return p.run({workspace.data(), workspace.size()}, {});
    }
    [[nodiscard]] gk::status reference(const conv_case& c, test_tensor<G>& out) const {
        prepare(out);
        return run_reference<T, G, B, W>(c, first.const_view(), second.const_view(), bias_view(), out.view(), mode);
    }
};

/// A dense copy in double, of the values or of their sizes.
template <class T>
[[nodiscard]] test_tensor<double> in_double(const test_tensor<T>& t, bool absolute) {
    test_tensor<double> d(t.shape());
    d.fill([&](std::int64_t i) {
        const auto v = static_cast<double>(t.value(i));
        return absolute ? std::fabs(v) : v;
    });
    return d;
}

/// Whether `out` is within the published bound of the sum in double.
template <class T, class G, class B, class W>
[[nodiscard]] ::testing::AssertionResult within_bound(const conv_case& c, const conv_tensors<T, G, B, W>& t,
                                                      const test_tensor<G>& out) {
    std::array<std::optional<test_tensor<double>>, 2> sums;  // the exact result, and the sum of absolute terms
    for (const bool absolute : {false, true}) {
        const auto first = in_double(t.first, absolute);
        const auto second = in_double(t.second, absolute);
        const auto bias = in_double(t.bias, absolute);
        auto& sum = sums[absolute ? 1 : 0].emplace(in_double(t.previous, absolute));
        const gk::status s = run_reference<double, double, double>(
            c, first.const_view(), second.const_view(),
            t.has_bias ? bias.const_view() : gk::tensor_view<const double>{}, sum.view(), t.mode);
        if (!s) return ::testing::AssertionFailure() << gk::to_string(s);
    }
    const auto published = c.error_bound<T, G, B, W>(t.has_bias, {.output = t.mode, .precision = t.precision});
    if (!published) return ::testing::AssertionFailure() << gk::to_string(published.error());
    for (std::int64_t i = 0; i < out.count(); ++i) {
        const double exact = sums[0]->value(i);
        const double bound = (*published)(sums[1]->value(i), exact);
        const double error = std::fabs(static_cast<double>(out.value(i)) - exact);
        if (std::isinf(bound)) continue;  // out of range
        if (!(error <= bound))
            return ::testing::AssertionFailure() << "element " << i << ": got " << static_cast<double>(out.value(i))
                                                 << ", exact " << exact << ", error " << error << ", bound " << bound;
    }
    return ::testing::AssertionSuccess();
}

}  // namespace gradkern_test
