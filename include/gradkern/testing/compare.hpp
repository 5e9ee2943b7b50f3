// compare(result, problem, inputs): judges somebody's result of an operator, element by element and as a whole.
//
//     const test::report r = test::compare(tensor_view(dx.data(), shape), {test::operation::avg_pool_backward, pool},
//                                          {.diff_dst = tensor_view(dy.data(), dst_shape)});
//     if (!r.ok()) std::cout << r;
//
// Expected values are those of the equations, rounded to f64 once (ref/exact.hpp). Each element has a bound of its own, from the sum
// of its absolute terms (accuracy.hpp). So a result is right whatever its layout, its blocks and its number of threads, and a
// wrong tap is found among thousands.
//
// Nothing here throws. Memory of 8 bytes for each element of the inputs and 40 to 48 for each of the result is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <gradkern/accuracy.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/dynamic_view.hpp>
#include <gradkern/half.hpp>
#include <gradkern/ref/avg_pool.hpp>
#include <gradkern/ref/exact.hpp>
#include <gradkern/ref/loops.hpp>
#include <gradkern/ref/max_pool.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>
#include <gradkern/testing/numbers.hpp>
#include <gradkern/testing/problem.hpp>
#include <gradkern/testing/report.hpp>
#include <gradkern/workspace.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace test {

/// How compare() judges.
struct compare_options {
    /// How many roundings a term may meet before the last one, to the result's type. Absent: as many as in the operators' own
    /// order of sums (accuracy.hpp), which a plain sum of more than some 500 f32 terms may exceed. For such a kernel, give the
    /// number of its terms. 0 demands the correctly rounded value, ties to even: of the sums of test::pattern::integers in f32
    /// it is the exact one. Negative numbers are refused, and those from 2^24 on (f64 results: 2^53), where no bound is finite.
    std::optional<std::int64_t> roundings{};
};

}  // namespace test

namespace detail {

/// The tensors of test::inputs in f64, dense, with their own shapes.
struct inputs_f64 {
    tensor_view<const double> src{};
    tensor_view<const double> weights{};
    tensor_view<const double> bias{};
    tensor_view<const double> dst{};
    tensor_view<const double> diff_dst{};
    tensor_view<const std::int64_t> indices{};
};

/// The value of each element of the result, added to what is there if the options say so. The one place that computes what is
/// expected.
[[nodiscard]] inline status expected_values(const test::problem& p, const inputs_f64& in, tensor_view<double> out,
                                            const call_options& o = {}) noexcept {
    using test::operation;
    switch (p.op()) {
        case operation::avg_pool: return ref::exact::avg_pool<double>(in.src, p.avg_pool(), out, o);
        case operation::avg_pool_backward:
            return ref::exact::avg_pool_backward<double>(in.diff_dst, p.avg_pool(), out, o);
        case operation::lp_pool: return ref::exact::lp_pool<double>(in.src, p.lp_pool(), out, o);
        case operation::lp_pool_backward:
            return ref::exact::lp_pool_backward<double>(in.src, in.dst, in.diff_dst, p.lp_pool(), out, o);
        case operation::max_pool: return ref::exact::max_pool<double>(in.src, p.max_pool(), out, {}, o);
        case operation::max_pool_backward:
            return ref::exact::max_pool_backward<double>(in.src, in.diff_dst, p.max_pool(), out, o);
        case operation::max_pool_backward_from_indices:
            return ref::exact::max_pool_backward_from_indices<double>(in.diff_dst, in.indices, p.max_pool_indices(),
                                                                      out, o);
        case operation::convolution:
            return ref::exact::convolution<double>(in.src, in.weights, in.bias, p.convolution(), out, o);
        case operation::convolution_backward_data:
            return ref::exact::convolution_backward_data<double>(in.diff_dst, in.weights, p.convolution(), out, o);
        case operation::convolution_backward_weights:
            return ref::exact::convolution_backward_weights<double>(in.src, in.diff_dst, p.convolution(), out, {}, o);
        case operation::conv_transpose:
            return ref::exact::conv_transpose<double>(in.src, in.weights, in.bias, p.conv_transpose(), out, o);
        case operation::conv_transpose_backward_data:
            return ref::exact::conv_transpose_backward_data<double>(in.diff_dst, in.weights, p.conv_transpose(), out,
                                                                    o);
        case operation::conv_transpose_backward_weights:
            return ref::exact::conv_transpose_backward_weights<double>(in.src, in.diff_dst, p.conv_transpose(), out, {},
                                                                       o);
        case operation::bias_backward: return ref::exact::bias_backward<double>(in.diff_dst, p.bias(), out, o);
    }
    return error{.code = errc::invalid_argument, .op = "compare", .argument = "op"};
}

/// The error of an input that the operator reads, but was not given.
[[nodiscard]] constexpr status check_inputs(test::operation op, const test::inputs& in) noexcept {
    using test::operation;
    bool src = true;
    bool weights = false;
    bool diff_dst = true;
    switch (op) {
        case operation::avg_pool:
        case operation::lp_pool:
        case operation::max_pool: diff_dst = false; break;
        case operation::convolution:
        case operation::conv_transpose:
            weights = true;
            diff_dst = false;
            break;
        case operation::convolution_backward_data:
        case operation::conv_transpose_backward_data:
            src = false;
            weights = true;
            break;
        case operation::avg_pool_backward:
        case operation::max_pool_backward_from_indices:
        case operation::bias_backward: src = false; break;
        case operation::lp_pool_backward:
        case operation::max_pool_backward:
        case operation::convolution_backward_weights:
        case operation::conv_transpose_backward_weights: break;
    }
    shape::operator_checks checks(test::name_of(op));
    const auto require = [&](bool reads, std::string_view name, const tensor_layout& given) {
        checks.require_that(!reads || !given.empty(), errc::missing_shape, name,
                            "it is missing: the operator reads it");
    };
    require(src, "src", in.src.layout);
    require(weights, "weights", in.weights.layout);
    require(op == operation::lp_pool_backward, "dst", in.dst.layout);
    require(diff_dst, "diff_dst", in.diff_dst.layout);
    require(op == operation::max_pool_backward_from_indices, "indices", in.indices.layout);
    return checks.error();
}

/// The bound of accuracy.hpp for a result of type T, or the error of the shapes. In: the type of the first input.
template <class T, class In>
[[nodiscard]] constexpr result<accuracy::error_bound<T>> bound_of(const test::problem& p, const test::inputs& in,
                                                                  const tensor_layout& out) noexcept {
    using test::operation;
    const plan_options& o = p.options();
    const auto& src = in.src.layout;
    const auto& weights = in.weights.layout;
    const auto& diff_dst = in.diff_dst.layout;
    switch (p.op()) {
        case operation::avg_pool: return accuracy::avg_pool<T>(src, p.avg_pool(), out, o);
        case operation::avg_pool_backward: return accuracy::avg_pool_backward<T>(diff_dst, p.avg_pool(), out, o);
        case operation::lp_pool: return accuracy::lp_pool<T>(src, p.lp_pool(), out, o);
        case operation::lp_pool_backward:
            return accuracy::lp_pool_backward<T>(src, in.dst.layout, diff_dst, p.lp_pool(), out, o);
        case operation::max_pool: return accuracy::max_pool<T>(src, p.max_pool(), out, {}, o);
        case operation::max_pool_backward: return accuracy::max_pool_backward<T>(src, diff_dst, p.max_pool(), out, o);
        case operation::max_pool_backward_from_indices:
            return accuracy::max_pool_backward_from_indices<T>(diff_dst, in.indices.layout, p.max_pool_indices(), out,
                                                               o);
        case operation::convolution:
            return accuracy::convolution<T>(src, weights, in.bias.layout, p.convolution(), out, o);
        case operation::convolution_backward_data:
            return accuracy::convolution_backward_data<T>(diff_dst, weights, p.convolution(), out, o);
        case operation::convolution_backward_weights:
            return accuracy::convolution_backward_weights<In, T>(src, diff_dst, p.convolution(), out, {}, o);
        case operation::conv_transpose:
            return accuracy::conv_transpose<T>(src, weights, in.bias.layout, p.conv_transpose(), out, o);
        case operation::conv_transpose_backward_data:
            return accuracy::conv_transpose_backward_data<T>(diff_dst, weights, p.conv_transpose(), out, o);
        case operation::conv_transpose_backward_weights:
            return accuracy::conv_transpose_backward_weights<In, T>(src, diff_dst, p.conv_transpose(), out, {}, o);
        case operation::bias_backward: return accuracy::bias_backward<In, T>(diff_dst, p.bias(), out, o);
    }
    return error{.code = errc::invalid_argument, .op = "compare", .argument = "op"};
}

/// Whether the absolute values of an input's elements, in place of the elements, give the sums of the absolute terms. (Those
/// that say where terms go keep their signs.)
[[nodiscard]] constexpr bool has_absolute_src(test::operation op) noexcept {
    return op != test::operation::max_pool && op != test::operation::max_pool_backward;
}

/// Indices as dense int64 numbers.
class dense_indices {
public:
    explicit dense_indices(const test::index_view& t) noexcept
        : shape_(t.layout.shape),
          memory_(static_cast<std::size_t>(shape::element_count(shape_)) * sizeof(std::int64_t)) {
        auto* const to = reinterpret_cast<std::int64_t*>(memory_.data());
        if (memory_)
            for_each_element(t.layout, [&](std::int64_t i, std::int64_t offset, const extents&) { to[i] = t[offset]; });
    }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(memory_); }
    [[nodiscard]] error out_of_memory() const noexcept {
        return detail::out_of_memory(shape::element_count(shape_), sizeof(std::int64_t));
    }
    [[nodiscard]] tensor_view<const std::int64_t> view() const noexcept {
        return {reinterpret_cast<const std::int64_t*>(memory_.data()), shape_};
    }

private:
    extents shape_;
    workspace memory_;
};

/// What rounding takes off a - b (two-sum, Knuth); 0 where it is not finite.
[[nodiscard]] inline double error_of_difference(double a, double b) noexcept {
    const double difference = a - b;
    const double of_a = difference + b;
    const double of_b = of_a - difference;
    const double error = (a - of_a) + (of_b - b);
    return error - error == 0 ? error : 0;
}

/// All that is needed to judge elements: the problem in f64.
class judgement {
public:
    judgement(const test::problem& p, const test::inputs& in, const tensor_layout& out) noexcept
        : p_(p), in_(in), out_(out) {}

    /// Computes expected values and the sums of absolute terms; `with_rests`: also what was rounded off. Shapes are known to fit.
    [[nodiscard]] status prepare(bool with_rests = false) noexcept {
        numbers src(in_.src);
        numbers weights(in_.weights);
        numbers bias(in_.bias);
        numbers dst(in_.dst);
        numbers diff_dst(in_.diff_dst);
        previous_ = numbers(in_.previous);
        expected_ = numbers(out_.shape);
        terms_ = numbers(out_.shape);
        rests_ = numbers(with_rests ? out_.shape : extents{});
        const dense_indices indices(in_.indices);
        for (const numbers* n : {&src, &weights, &bias, &dst, &diff_dst, &previous_, &expected_, &terms_, &rests_})
            if (!*n) return n->out_of_memory();
        if (!indices) return indices.out_of_memory();
        inputs_f64 f64{src.view(), weights.view(), bias.view(), dst.view(), diff_dst.view(), indices.view()};
        const bool accumulates = p_.options().output == output_mode::accumulate;
        constexpr call_options adds{.plan = {.output = output_mode::accumulate}};
        for (std::int64_t i = 0; accumulates && i < expected_.count(); ++i) expected_[i] = previous_[i];
        if (const status s = expected_values(p_, f64, expected_.mutable_view(), accumulates ? adds : call_options{});
            !s)
            return s;
        // What rounding to f64 took off is the same sum once more, less what it was rounded to. The previous value less that is
        // rounded, too: its error is added behind.
        for (std::int64_t i = 0; i < rests_.count(); ++i) rests_[i] = (accumulates ? previous_[i] : 0) - expected_[i];
        if (with_rests)
            if (const status s = expected_values(p_, f64, rests_.mutable_view(), adds); !s) return s;
        for (std::int64_t i = 0; accumulates && i < rests_.count(); ++i)
            rests_[i] += error_of_difference(previous_[i], expected_[i]);

        if (has_absolute_src(p_.op())) src.make_absolute();
        weights.make_absolute();
        bias.make_absolute();
        dst.make_absolute();
        diff_dst.make_absolute();
        if (const status s = expected_values(p_, f64, terms_.mutable_view()); !s) return s;
        // A maximum may be one of the inputs that are not finite. Sums of absolute values that exceed f64 stay infinite; one over
        // a negative divisor is negative.
        if (p_.op() == test::operation::max_pool) terms_.make_absolute();
        for (std::int64_t i = 0; i < terms_.count(); ++i)
            if (terms_[i] < 0) terms_[i] = -terms_[i];
        if (p_.op() == test::operation::lp_pool_backward)
            if (const status s = add_small_shares(dst, diff_dst); !s) return s;
        if (accumulates) {
            previous_.make_absolute();
            for (std::int64_t i = 0; i < expected_.count(); ++i) terms_[i] += previous_[i];
        }
        return {};
    }
    [[nodiscard]] double expected(std::int64_t i) const noexcept { return expected_[i]; }
    [[nodiscard]] double terms(std::int64_t i) const noexcept { return terms_[i]; }
    /// The expected value rounded once to a type: only of a judgement with rests.
    [[nodiscard]] double nearest(std::int64_t i, data_type type) const noexcept {
        return rounded_to(type, expected_[i], rests_[i]);
    }

private:
    /// The terms of lp_pool_backward are diff_dst * max(|src / dst|, 2^-126) where dst is not 0: adds diff_dst * 2^-126 to each.
    [[nodiscard]] status add_small_shares(const numbers& dst, numbers& diff_dst) noexcept {
        for (std::int64_t i = 0; i < diff_dst.count(); ++i) diff_dst[i] = dst[i] == 0 ? 0 : diff_dst[i] * 0x1p-126;
        numbers shares(out_.shape);
        if (!shares) return shares.out_of_memory();
        const lp_pool_attributes& a = p_.lp_pool();
        const avg_pool_attributes windows{.kernel = a.kernel,
                                          .strides = a.strides,
                                          .pads_begin = a.pads_begin,
                                          .pads_end = a.pads_end,
                                          .dilations = a.dilations,
                                          .auto_pad = a.auto_pad,
                                          .rounding_type = a.rounding_type,
                                          .divisor_override = 1,
                                          .data_format = a.data_format};
        const status s = ref::avg_pool_backward<double>(diff_dst.view(), windows, shares.mutable_view());
        for (std::int64_t i = 0; s && i < shares.count(); ++i) terms_[i] += shares[i];
        return s;
    }

    const test::problem& p_;
    const test::inputs& in_;
    const tensor_layout& out_;
    numbers previous_{};
    numbers expected_{};
    numbers terms_{};
    numbers rests_{};
};

/// The largest error that is right. Expected values of f64 results are rounded to f64 themselves, as the previous value's sum is: by a
/// part of the terms.
template <class T>
[[nodiscard]] constexpr double largest_error(const accuracy::error_bound<T>& bound, double terms,
                                             double expected) noexcept {
    const double own = bound(terms, expected);
    return std::is_same_v<T, double> ? own + terms * 0x1p-52 : own;
}

/// Judges one element. Sets ratio to Inf if it is wrong without a finite error. `only`: the one number that is right, if not all
/// are that lie within the bound.
template <class T>
[[nodiscard]] constexpr test::judged_element judge_element(double result, double expected, double terms,
                                                           const accuracy::error_bound<T>& bound,
                                                           std::optional<double> only = {}) noexcept {
    constexpr double infinity = own::infinity<double>;
    const auto is_finite = [](double v) { return v - v == 0; };
    test::judged_element e{.result = result, .expected = expected, .terms = terms};
    const bool is_number = is_finite(expected);
    e.bound = largest_error(bound, terms, is_number ? expected : 0);
    const bool overflows = is_number && bound.overflows(terms, expected);
    if (!is_finite(e.bound) && !overflows) return e;  // nothing is promised
    // Not finite as the equation is, or as the range of T is.
    if (!is_number) only = expected;
    if (overflows && !only) only = expected < 0 ? -infinity : infinity;
    if (only) e.bound = 0;
    const double value = only.value_or(expected);
    const bool same = result == value || (result != result && value != value);
    const double difference = result < value ? value - result : result - value;
    e.error = same ? 0 : is_finite(difference) ? difference : infinity;
    e.ratio = e.error == 0 ? 0 : e.bound == 0 ? infinity : e.error / e.bound;
    if (e.error != 0) e.ulps = e.error / ulp_of(element_traits<T>::type, is_number ? expected : 0);
    if (only && !overflows) e.expected = *only;
    return e;
}

/// The different numbers it was shown.
class different_numbers {
public:
    /// Room for so many.
    explicit different_numbers(std::int64_t most) noexcept : places_(extents::filled(1, 2 * most + 1)) {
        if (places_)
            for (std::int64_t i = 0; i < places_.count(); ++i) places_[i] = 0;  // free
    }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(places_); }
    [[nodiscard]] error out_of_memory() const noexcept { return places_.out_of_memory(); }
    /// Whether a finite number that is not 0 is a new one.
    [[nodiscard]] bool add(double value) noexcept {
        const auto size = static_cast<std::uint64_t>(places_.count());
        for (std::uint64_t at = test::scramble(own::bit_cast<std::uint64_t>(value)) % size;; at = (at + 1) % size) {
            double& place = places_[static_cast<std::int64_t>(at)];
            if (place == value) return false;
            if (place != 0) continue;
            place = value;
            return true;
        }
    }

private:
    numbers places_;
};

/// Keeps the element if it is among the worst.
constexpr void keep_worst(test::report& r, const test::judged_element& e) noexcept {
    if (e.ratio == 0 || (r.worst_count == test::report::most_worst && e.ratio <= r.worst[r.worst_count - 1].ratio))
        return;
    std::size_t at = r.worst_count < test::report::most_worst ? r.worst_count++ : r.worst_count - 1;
    for (; at > 0 && r.worst[at - 1].ratio < e.ratio; --at) r.worst[at] = r.worst[at - 1];
    r.worst[at] = e;
}

/// Whether bounds are finite with these options.
template <class T>
[[nodiscard]] constexpr status check_roundings(test::operation op, const test::compare_options& options) noexcept {
    shape::operator_checks checks(test::name_of(op));
    const std::int64_t roundings = options.roundings.value_or(0);
    checks.require_at_least(errc::invalid_argument, "roundings", -1, roundings, 0);
    checks.require(roundings < accuracy::error_bound<T>::most_roundings, errc::invalid_argument, "roundings", -1,
                   roundings, expectation::below, accuracy::error_bound<T>::most_roundings,
                   {.why = "no bound is finite from there on"});
    return checks.error();
}

/// The bound with another number of roundings, if the options give one.
template <class T>
[[nodiscard]] constexpr accuracy::error_bound<T> with_options(const accuracy::error_bound<T>& bound,
                                                              const test::compare_options& options) noexcept {
    if (!options.roundings || bound.terms().result_is_exact) return bound;
    accuracy::error_terms terms = bound.terms();
    terms.roundings = *options.roundings;
    return accuracy::error_bound<T>(terms);
}

/// TOSA's ksb: ceil(KS / 2^(fraction bits of f32 - those of the result)). KS is how many roundings a term meets, where TOSA
/// takes the number of products. The last rounding to 16 bits counts, too.
[[nodiscard]] constexpr std::int64_t tosa_ksb(std::int64_t roundings, const number_format& format) noexcept {
    const std::int64_t step = format.fraction_bits < 23 ? std::int64_t{1} << (23 - format.fraction_bits) : 1;
    const std::int64_t ksb = shape::ceil_div(roundings, step);
    return ksb == 0 && format.fraction_bits < 23 ? 1 : ksb;
}

/// Judges a result of type T.
template <class T>
[[nodiscard]] test::report judge(const const_dynamic_view& result, const accuracy::error_bound<T>& bound,
                                 const judgement& j, bool correctly_rounded, different_numbers& different) noexcept {
    constexpr double infinity = own::infinity<double>;
    constexpr number_format format = format_of(element_traits<T>::type);
    test::report r;
    test::tensor_checks& t = r.over_tensor;
    double least_unit = bound.terms().underflows * bound.terms().underflow;
    if (least_unit < power_of_two(format.least_exponent)) least_unit = power_of_two(format.least_exponent);
    double ratios = 0;
    double ulps = 0;
    double rounded_sum = 0;
    double rounded_squares = 0;
    double signs = 0;  // of the expected values, relative to their terms
    std::int64_t finite = 0;
    for_each_element(result.layout, [&](std::int64_t i, std::int64_t offset, const extents& index) {
        const double expected = j.expected(i);
        const double nearest =
            correctly_rounded ? j.nearest(i, element_traits<T>::type) : rounded_to(element_traits<T>::type, expected);
        test::judged_element e = judge_element<T>(number_at(result, offset), expected, j.terms(i), bound,
                                                  correctly_rounded ? std::optional(nearest) : std::nullopt);
        ++r.elements;
        if (e.bound == infinity) {
            ++r.without_bound;
            return;
        }
        if (!(e.ratio <= 1)) ++r.refused;
        if (e.ratio > r.largest_ratio) r.largest_ratio = e.ratio;
        if (e.ulps > r.largest_ulps) r.largest_ulps = e.ulps;
        if (e.ratio != 0) {
            e.index = index;
            keep_worst(r, e);
        }
        if (e.result - e.result != 0 || nearest - nearest != 0 || e.terms == 0) return;  // one is not finite
        ++finite;
        ratios += e.ratio;
        ulps += e.ulps;
        if (expected == 0 || !different.add(expected)) return;
        ++t.elements;
        const double size = e.terms * power_of_two(-1 - format.fraction_bits);
        const double unit = size < least_unit ? least_unit : size;
        const double error = (e.result - expected) / unit;
        const double least = (nearest - expected) / unit;
        t.sum += error;
        t.squares += error * error;
        rounded_sum += least;
        rounded_squares += least * least;
        signs += expected / e.terms;
    });
    t.ksb = bound.terms().result_is_exact ? 0 : tosa_ksb(bound.terms().roundings, format);
    const double budget = static_cast<double>(t.ksb) * static_cast<double>(t.elements);
    t.largest_sum = 2 * own::sqrt(budget) + (rounded_sum < 0 ? -rounded_sum : rounded_sum);
    t.most_squares = 0.4 * budget < rounded_squares ? rounded_squares : 0.4 * budget;
    // The expected values of f64 results have errors of their own, of the size of a last rounding.
    t.judges_squares = !std::is_same_v<T, double> && t.elements >= test::tensor_checks::least_elements;
    t.judges_sum = t.judges_squares && (signs < 0 ? -signs : signs) < 0.5 * static_cast<double>(t.elements);
    if (finite != 0) {
        r.mean_ratio = ratios / static_cast<double>(finite);
        r.mean_ulps = ulps / static_cast<double>(finite);
    }
    return r;
}

/// Checks the problem and judges a result of type T.
template <class T, class In>
[[nodiscard]] test::report check_and_judge(const const_dynamic_view& result, const test::problem& p,
                                           const test::inputs& in, const test::compare_options& options) noexcept {
    test::report r;
    const auto bound = bound_of<T, In>(p, in, result.layout);
    if (!bound) {
        r.mistake = bound.error();
        return r;
    }
    const auto argument = [](std::string_view name, const const_dynamic_view& v, bool is_output = false) {
        return ref::argument{name, v.data, v.layout, size_of(v.type), is_output};
    };
    const bool accumulates = p.options().output == output_mode::accumulate;
    if (const status s = check_roundings<T>(p.op(), options); !s) {
        r.mistake = s.error();
        return r;
    }
    status s = ref::check_arguments(test::name_of(p.op()),
                                    {argument("src", in.src),
                                     argument("weights", in.weights),
                                     argument("bias", in.bias),
                                     argument("dst", in.dst),
                                     argument("diff_dst", in.diff_dst),
                                     {"indices", in.indices.data, in.indices.layout, in.indices.element_bytes()},
                                     argument("previous", in.previous),
                                     argument("result", result)},
                                    p.options());
    if (s && accumulates && !(in.previous.layout.shape == result.layout.shape))
        s = error{.code = errc::invalid_shape,
                  .op = test::name_of(p.op()),
                  .argument = "previous",
                  .relation = expectation::none,
                  .why = "an output that accumulates needs its previous values, in the shape of the result"};
    if (!s) {
        r.mistake = s.error();
        return r;
    }
    judgement j(p, in, result.layout);
    const bool correctly_rounded = options.roundings == 0;
    s = j.prepare(correctly_rounded);
    different_numbers different(shape::element_count(result.layout.shape));
    if (s && !different) s = different.out_of_memory();
    if (s) r = judge<T>(result, with_options(*bound, options), j, correctly_rounded, different);
    r.mistake = s.error();
    return r;
}

template <class T>
[[nodiscard]] test::report check_and_judge_any(const const_dynamic_view& result, const test::problem& p,
                                               const test::inputs& in, const test::compare_options& options) noexcept {
    // Dot products of bf16 pairs, which relaxed sums of bf16 may use, have bounds of their own.
    if constexpr (!std::is_same_v<T, double>)
        if (in.src.type == data_type::bf16) return check_and_judge<T, bfloat16>(result, p, in, options);
    return check_and_judge<T, T>(result, p, in, options);
}

}  // namespace detail

namespace test {

/// Judges a result of type f32, f16, bf16 or f64. Its layout has a shape: that of the operator's result.
///
/// An element is right if |result - expected| is at most its bound, accuracy.hpp's. Where the equation gives Inf or NaN, or
/// rounds to Inf in the result's type, the result has to be the same. Nothing is promised, and nothing judged, where a sum of
/// finite terms may leave the range of f32 (f64: of f64). The tensor is right if all elements are, at least one of them was judged, or there
/// is none, and the checks of tensor_checks hold.
///
/// The report's `mistake` is set if shapes or attributes do not fit together: the error that the operator would return, with
/// its name; `missing_shape` for an input that was not given; `unsupported` for another type of result, and for summation::per_image;
/// `invalid_argument` for attributes of another family, and for roundings with which no bound is finite; `invalid_shape` if
/// an accumulating problem lacks `previous`; `workspace_too_small` if there is no memory.
[[nodiscard]] inline report compare(const const_dynamic_view& result, const problem& p, const inputs& in,
                                    const compare_options& options = {}) noexcept {
    report r;
    if (!p.has_own_attributes()) {
        r.mistake = error{.code = errc::invalid_argument,
                          .op = name_of(p.op()),
                          .argument = "attributes",
                          .relation = expectation::none,
                          .why = "those of another operator"};
    } else if (p.options().summation == summation::per_image) {
        r.mistake = error{.code = errc::unsupported,
                          .op = name_of(p.op()),
                          .argument = "summation",
                          .relation = expectation::none,
                          .why = "compare the gradients of each image as those of a batch of one"};
    } else if (result.layout.empty()) {
        r.mistake = error{.code = errc::missing_shape,
                          .op = name_of(p.op()),
                          .argument = "result",
                          .relation = expectation::none,
                          .why = "its shape is that of the result"};
    } else if (const status given = detail::check_inputs(p.op(), in); !given) {
        r.mistake = given.error();
    } else if (result.type == data_type::f32) {
        r = detail::check_and_judge_any<float>(result, p, in, options);
    } else if (result.type == data_type::f16) {
        r = detail::check_and_judge_any<float16>(result, p, in, options);
    } else if (result.type == data_type::bf16) {
        r = detail::check_and_judge_any<bfloat16>(result, p, in, options);
    } else if (result.type == data_type::f64) {
        r = detail::check_and_judge_any<double>(result, p, in, options);
    } else {
        r.mistake = error{.code = errc::unsupported,
                          .op = name_of(p.op()),
                          .argument = "result",
                          .got = static_cast<std::int64_t>(result.type),
                          .relation = expectation::none,
                          .what = quantity::type,
                          .why = "f32, f16, bf16 or f64"};
    }
    r.op = name_of(p.op());
    r.result = detail::name_of(result.type);
    return r;
}

/// Judges the indices that max_pool wrote: each has to be the expected one. In the report, values are indices and bounds 0.
[[nodiscard]] inline report compare(const index_view& indices, const problem& p, const inputs& in) noexcept {
    report r;
    r.op = name_of(p.op());
    r.result = "indices";
    const extents& shape = indices.layout.shape;
    if (p.op() != operation::max_pool || !p.has_own_attributes()) {
        r.mistake = error{.code = errc::invalid_argument,
                          .op = name_of(p.op()),
                          .argument = "indices",
                          .relation = expectation::none,
                          .why = "only max_pool writes them"};
        return r;
    }
    // The reference checks shapes; the strides of the caller's tensors are checked here.
    const auto bound = accuracy::max_pool<float>(in.src.layout, p.max_pool(), shape, shape);
    const status given = detail::check_inputs(p.op(), in);
    status s = !given  ? given
               : bound ? ref::check_arguments("max_pool",
                                              {{"src", in.src.data, in.src.layout, size_of(in.src.type)},
                                               {"indices", indices.data, indices.layout, indices.element_bytes()}},
                                              p.options())
                       : status(bound.error());
    if (s) {
        const detail::numbers src(in.src);
        const detail::numbers values(shape);
        const workspace expected(static_cast<std::size_t>(values.count()) * sizeof(std::int64_t));
        if (!src || !values || !expected) {
            s = values.out_of_memory();
        } else {
            auto* const to = reinterpret_cast<std::int64_t*>(expected.data());
            s = ref::max_pool<double>(src.view(), p.max_pool(), values.mutable_view(), {to, shape});
            if (s)
                detail::for_each_element(indices.layout,
                                         [&](std::int64_t i, std::int64_t offset, const extents& index) {
                                             ++r.elements;
                                             const auto got = static_cast<double>(indices[offset]);
                                             const auto wanted = static_cast<double>(to[i]);
                                             if (got == wanted) return;
                                             ++r.refused;
                                             r.largest_ratio = own::infinity<double>;
                                             detail::keep_worst(r, {.index = index,
                                                                    .result = got,
                                                                    .expected = wanted,
                                                                    .error = got < wanted ? wanted - got : got - wanted,
                                                                    .ratio = own::infinity<double>});
                                         });
        }
    }
    r.mistake = s.error();
    return r;
}

}  // namespace test
GRADKERN_ISA_NAMESPACE_END
