// Fuzzes convolution, conv_transpose, their gradients and bias_backward.

#include <gradkern/bias.hpp>
#include <gradkern/ref/bias.hpp>

#include "fuzz/decoder.hpp"
#include "support/conv_cases.hpp"

namespace gradkern_fuzz {
namespace {

using gradkern_test::conv_case;
using gradkern_test::conv_operator;

constexpr std::int64_t most_multiplications = 60'000;

conv_case decode_case(decoder& d) {
    conv_case c;
    c.op = static_cast<conv_operator>(d.integer(0, 5));
    const auto r = static_cast<std::size_t>(d.integer(1, 3));
    const auto channels = [&] {
        return d.pick<std::int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129});
    };
    std::int64_t groups = 1;
    std::int64_t small = 1;  // channels in a group
    std::int64_t large = 1;
    switch (d.integer(0, 4)) {
        case 0: small = channels(), large = channels(); break;
        case 1: groups = channels(); break;
        case 2: groups = channels(), small = d.integer(1, 3); break;
        case 3: groups = channels(), large = d.integer(1, 3); break;
        default: groups = d.integer(1, 9), small = d.integer(1, 9), large = d.integer(1, 9); break;
    }
    const std::int64_t n = d.once_in(32) ? 0 : d.integer(1, 3);
    gk::convolution_attributes a;
    gk::extents space;
    gk::extents kernel;
    const std::int64_t longest = r == 1 ? 200 : r == 2 ? 16 : 7;
    const bool plain = d.once_in(3);
    for (std::size_t i = 0; i < r; ++i) {
        space.push_back(d.integer(1, longest));
        kernel.push_back(d.integer(1, r == 3 ? 3 : 5));
        a.strides.push_back(plain ? 1 : d.integer(1, 4));
        a.dilations.push_back(plain ? 1 : d.integer(1, 4));
        a.pads_begin.push_back(plain ? 0 : d.integer(0, 5));
        a.pads_end.push_back(plain ? 0 : d.integer(0, 5));
        a.output_padding.push_back(d.integer(0, 3));
    }
    if (!d.once_in(4)) a.output_padding = {};
    a.auto_pad = d.once_in(3) ? d.word_up_to(gk::auto_pad::valid) : gk::auto_pad::none;
    a.groups = groups;
    a.data_format = d.word_up_to(gk::data_format::ncx);
    a.weights_format = d.word_up_to(gk::weights_format::oix);
    const auto f = a.data_format == gk::data_format::ncx ? gk::data_format::ncx : gk::data_format::nxc;
    const auto w = a.weights_format == gk::weights_format::oix ? gk::weights_format::oix : gk::weights_format::xio;

    d.stretch(space, kernel, a.strides, a.dilations, a.pads_begin, a.pads_end, 16);
    for (gk::extents* e : {&a.strides, &a.dilations, &a.pads_begin, &a.pads_end, &a.output_padding}) d.spoil(*e, 64);
    if (!a.output_padding.empty() && d.once_in(4)) a.output_padding[d.byte() % r] = d.integer(0, 63);
    if (d.once_in(64)) a.groups = d.anything();
    c.conv = a;
    c.transpose.strides = a.strides;
    c.transpose.dilations = a.dilations;
    c.transpose.pads_begin = a.pads_begin;
    c.transpose.pads_end = a.pads_end;
    c.transpose.output_padding = a.output_padding;
    c.transpose.auto_pad = a.auto_pad;
    c.transpose.groups = a.groups;
    c.transpose.data_format = a.data_format;
    c.transpose.weights_format = a.weights_format;
    if (c.transposed()) {
        c.small = gradkern_test::activation(f, n, groups * small, space);
        c.weights = gradkern_test::filter(w, large, groups * small, kernel);
        c.large = c.small;
        if (const auto e = gk::infer_conv_transpose(c.small, c.weights, c.transpose)) c.large = *e;
    } else {
        c.large = gradkern_test::activation(f, n, groups * large, space);
        c.weights = gradkern_test::filter(w, groups * small, large, kernel);
        c.small = c.large;
        if (const auto e = gk::infer_convolution(c.large, c.weights, c.conv)) c.small = *e;
    }
    if (d.once_in(4)) {  // another size of the large side that may fit as well
        const std::size_t at = gk::shape::spatial_index(f) + d.byte() % r;
        c.large[at] += d.integer(-1, 2);
    }
    return c;
}

gk::result<gk::extents> infer(const conv_case& c) {
    switch (c.op) {
        case conv_operator::convolution: return gk::infer_convolution(c.large, c.weights, c.conv);
        case conv_operator::convolution_backward_data:
            return gk::infer_convolution_backward_data(c.small, c.weights, c.conv);
        case conv_operator::convolution_backward_weights:
            return gk::infer_convolution_backward_weights(c.large, c.small, c.conv);
        case conv_operator::conv_transpose: return gk::infer_conv_transpose(c.small, c.weights, c.transpose);
        case conv_operator::conv_transpose_backward_data:
            return gk::infer_conv_transpose_backward_data(c.large, c.weights, c.transpose);
        default: return gk::infer_conv_transpose_backward_weights(c.small, c.large, c.transpose);
    }
}

void set_result(conv_case& c, const gk::extents& shape) {
    (c.writes_weights() ? c.weights : c.writes_small() ? c.small : c.large) = shape;
}

/// Compares results with the reference: exactly for integers, in kind for special values, else by the published bound.
template <class T, class G, class B>
void compare(const conv_case& c, const fuzz_tensor<T>& first, const fuzz_tensor<T>& second, const fuzz_tensor<B>& bias,
             bool has_bias, output_tensor<G>& out, gk::output_mode mode, contents what, const std::string& details) {
    const auto bias_view = has_bias ? bias.const_view() : gk::tensor_view<const B>{};
    const std::int64_t count = out.memory().count();
    std::vector<float> computed(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) computed[static_cast<std::size_t>(i)] = out.memory().value(i);
    const auto results = out.result();
    if (what != contents::values) {
        out.prepare();
        const gk::status s = gradkern_test::run_reference<T, G, B>(
            c, first.const_view(), second.const_view(), bias_view, {out.data(), out.memory().layout()}, mode);
        require(s.ok(), "the reference accepts what the operator accepts", details + gk::to_string(s));
        if (what == contents::integers) require(out.result() == results, "sums of integers are exact", details);
        for (std::int64_t i = 0; i < count; ++i) {
            const float a = computed[static_cast<std::size_t>(i)];
            const float b = out.memory().value(i);
            require(a == b || (a != a && b != b), "values that are not finite stand where the reference has them",
                    details);
        }
        return;
    }
    std::array<std::vector<double>, 2> sums;
    for (const bool absolute : {false, true}) {
        const auto x = gradkern_test::in_double(first.memory(), absolute);
        const auto y = gradkern_test::in_double(second.memory(), absolute);
        const auto b = gradkern_test::in_double(bias.memory(), absolute);
        test_tensor<double> sum(out.memory().shape());
        sum.fill([&](std::int64_t i) {
            const double v = out.previous(i);
            return absolute ? std::fabs(v) : v;
        });
        const gk::status s = gradkern_test::run_reference<double, double, double>(
            c, x.const_view(), y.const_view(), has_bias ? b.const_view() : gk::tensor_view<const double>{}, sum.view(),
            mode);
        require(s.ok(), "the reference accepts what the operator accepts", details + gk::to_string(s));
        for (std::int64_t i = 0; i < count; ++i) sums[absolute ? 1 : 0].push_back(sum.value(i));
    }
    const auto bound = c.error_bound<T, G, B>(has_bias, {.output = mode});
    require(bound.has_value(), "the published bound accepts what the operator accepts", details);
    for (std::size_t i = 0; i < computed.size(); ++i)
        require(std::fabs(static_cast<double>(computed[i]) - sums[0][i]) <= (*bound)(sums[1][i], sums[0][i]),
                "the published bound holds", details);
}

template <class T, class G, class B>
void fuzz_convolution(decoder& d) {
    conv_case c = decode_case(d);
    const auto channels_at = gk::shape::channel_index(c.data_format(), c.result().rank() - 2);
    gk::extents bias_shape{c.result()[std::min(channels_at, c.result().rank() - 1)]};
    for (gk::extents* e : {&c.large, &c.small, &c.weights, &bias_shape}) d.spoil(*e, 64);

    bool is_omitted = d.once_in(6);
    if (is_omitted) {
        if (d.once_in(2)) c.conv.diff_src_shape = c.transpose.diff_src_shape = c.transpose.dst_shape = c.result();
        c.conv.diff_weights_shape = c.transpose.diff_weights_shape = c.weights;
        const auto inferred = infer(c);
        is_omitted = static_cast<bool>(inferred);
        if (inferred) set_result(c, *inferred);
    }
    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const auto what = static_cast<contents>(d.integer(0, 2));
    const std::uint64_t seed = d.byte();
    const fuzz_tensor<T> first(d.layout(c.first(), false), d.side());
    const fuzz_tensor<T> second(d.layout(c.second(), false), d.side());
    const fuzz_tensor<B> bias(d.layout(bias_shape, false), d.side());
    const gk::tensor_layout out_layout = is_omitted ? gk::tensor_layout(c.result()) : d.layout(c.result(), true);
    output_tensor<G> out(out_layout, d.side(), mode == gk::output_mode::accumulate, seed);
    const bool has_bias = c.takes_bias() && d.once_in(2);
    first.fill(seed, what);
    second.fill(seed + 1000, what);
    bias.fill(seed + 2000, what);

    call_memory memory{
        .outputs = {&out},
        .all_there = first.has_memory() && second.has_memory() && out.has_memory() && (!has_bias || bias.has_memory())};
    gk::tensor_view<const T> first_view = first.const_view();
    gk::tensor_view<const T> second_view = second.const_view();
    gk::tensor_view<const B> bias_view = has_bias ? bias.const_view() : gk::tensor_view<const B>{};
    gk::tensor_view<G> out_view{out.data(), is_omitted ? gk::tensor_layout{} : out_layout};
    switch (d.integer(0, 31)) {
        case 28: first_view.data = nullptr, memory.bad_pointer = !first.empty(); break;
        case 29: second_view.data = nullptr, memory.bad_pointer = !second.empty(); break;
        case 30: out_view.data = nullptr, memory.bad_pointer = !out.empty(); break;
        case 31:
            if constexpr (std::is_same_v<T, G>) {
                second_view.data = out_view.data;
                memory.bad_pointer = !second.empty() && !out.empty();
            }
            break;
        default: break;
    }
    const auto plan = [&](gk::algorithm a) {
        const auto plan_by = [&](gk::algorithm path) {
            return gradkern_test::make_plan<T, G, B>(c, first_view, second_view, bias_view, out_view,
                                                     {.output = mode, .algorithm = path});
        };
        auto p = plan_by(a);
        if (gradkern_test::refuses_algorithm(p.status)) p = plan_by(gk::algorithm::automatic);
        planned_call call{p.status, p.workspace_bytes, p.run};
        if (!call.status && call.status.error().argument.empty())  // make_plan has no such types
            call.status = gk::error{call.status.error().code, "make_plan", "types"};
        return call;
    };
    const std::string details = c.text() + text("\nfirst", first.layout()) + text("second", second.layout()) +
                                text("bias", bias.layout()) + text("out", out_view.layout) + "contents " +
                                std::to_string(static_cast<int>(what)) + "\n";

    const auto algorithm = [&] {
        const auto& all = gradkern_test::all_algorithms;
        return all[static_cast<std::size_t>(d.integer(0, static_cast<std::int64_t>(all.size()) - 1))];
    };
    const planned_call call = plan(algorithm());
    const planned_call other = plan(algorithm());
    std::int64_t multiplications = 0;
    if (call.status && memory.all_there) {
        multiplications = std::max<std::int64_t>(count_of(c.weights), 1);
        const std::size_t r = c.small.rank() - 2;
        for (std::size_t i = 0; i < r; ++i) multiplications *= c.small[gk::shape::spatial_index(c.data_format()) + i];
        multiplications *= c.small[0];
    }
    if (!exercise(d, call, other, memory, multiplications > most_multiplications, details)) return;
    compare(c, first, second, bias, has_bias, out, mode, what, details);
}

template <class T, class G>
void fuzz_bias(decoder& d) {
    const auto r = static_cast<std::size_t>(d.integer(1, 3));
    gk::bias_attributes a{.data_format = d.word_up_to(gk::data_format::ncx)};
    gk::extents space;
    for (std::size_t i = 0; i < r; ++i) space.push_back(d.integer(1, r == 1 ? 255 : r == 2 ? 25 : 9));
    const std::int64_t n = d.once_in(16) ? 0 : d.integer(1, 4);
    const std::int64_t channels = d.integer(1, 130);
    gk::extents shape = gradkern_test::activation(
        a.data_format == gk::data_format::ncx ? gk::data_format::ncx : gk::data_format::nxc, n, channels, space);
    gk::extents result{channels};
    d.spoil(shape, 32);
    d.spoil(result, 32);
    bool is_omitted = d.once_in(6);
    if (is_omitted) {
        const auto inferred = gk::infer_bias_backward(shape, a);
        is_omitted = static_cast<bool>(inferred);
        if (inferred) result = *inferred;
    }
    const gk::output_mode mode = d.once_in(4) ? gk::output_mode::accumulate : gk::output_mode::overwrite;
    const auto what = static_cast<contents>(d.integer(0, 2));
    const std::uint64_t seed = d.byte();
    const fuzz_tensor<T> diff_dst(d.layout(shape, false), d.side());
    const gk::tensor_layout out_layout = is_omitted ? gk::tensor_layout(result) : d.layout(result, true);
    output_tensor<G> out(out_layout, d.side(), mode == gk::output_mode::accumulate, seed);
    diff_dst.fill(seed, what);
    call_memory memory{.outputs = {&out}, .all_there = diff_dst.has_memory() && out.has_memory()};
    const T* in = diff_dst.data();
    if (d.once_in(32)) in = nullptr, memory.bad_pointer = !diff_dst.empty();
    const auto plan =
        call_of(gk::plan_bias_backward<T, G>(diff_dst.layout(), a, is_omitted ? gk::tensor_layout{} : out_layout,
                                             {.output = mode}),
                [in, &out](const auto& p, auto ws, auto e) { return p.run(in, out.data(), ws, e); });
    const std::string details = "bias_backward" + text(" diff_dst", diff_dst.layout()) + text("out", out_layout);
    if (!exercise(d, plan, plan, memory, false, details)) return;
    if (what == contents::values) {
        const auto sums = [&](bool absolute) {
            const auto x = gradkern_test::in_double(diff_dst.memory(), absolute);
            test_tensor<double> sum(result);
            sum.fill([&](std::int64_t i) { return absolute ? std::fabs(out.previous(i)) : out.previous(i); });
            require(
                gk::ref::bias_backward<double, double>(x.const_view(), a, sum.view(), {.plan = {.output = mode}}).ok(),
                "the reference accepts what the operator accepts", details);
            return sum;
        };
        const auto exact = sums(false);
        const auto size = sums(true);
        const auto bound = gk::accuracy::bias_backward<T, G>(shape, a, {}, {.output = mode});
        require(bound.has_value(), "the published bound accepts what the operator accepts", details);
        for (std::int64_t i = 0; i < out.memory().count(); ++i)
            require(std::fabs(static_cast<double>(out.memory().value(i)) - exact.value(i)) <=
                        (*bound)(size.value(i), exact.value(i)),
                    "the published bound holds", details);
        return;
    }
    const auto results = out.result();
    out.prepare();
    require(gk::ref::bias_backward<T, G>(diff_dst.const_view(), a, {out.data(), out_layout}, {.plan = {.output = mode}})
                .ok(),
            "the reference accepts what the operator accepts", details);
    require(out.result() == results, "sums of integers are exact", details);
}

}  // namespace
}  // namespace gradkern_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace gradkern_fuzz;
    decoder d(data, size);
    switch (d.integer(0, 9)) {
        case 0:
        case 1:
        case 2: fuzz_convolution<float, float, float>(d); break;
        case 3:
        case 4: fuzz_convolution<gk::float16, gk::float16, float>(d); break;
        case 5:
        case 6: fuzz_convolution<gk::bfloat16, gk::bfloat16, gk::bfloat16>(d); break;
        case 7: fuzz_convolution<gk::bfloat16, float, gk::bfloat16>(d); break;
        case 8: fuzz_bias<float, float>(d); break;
        default: d.once_in(2) ? fuzz_bias<gk::float16, gk::float16>(d) : fuzz_bias<gk::bfloat16, float>(d); break;
    }
    return 0;
}
