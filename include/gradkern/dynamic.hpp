// Every operator for tensors whose element type is known only at run time.
//
//     void* x = ...;                                                       // memory of some framework's tensor
//     const const_dynamic_view src(data_type::bf16, x, {8, 28, 28, 64});
//     const status s = avg_pool(src, {.kernel = {2, 2}, .strides = {2, 2}}, dst);
//
// Each function has the name, the order of arguments, the attributes, the result and the errors of its typed one-call
// form. Check 3 of shape/check.hpp has one more error, after ranks and before missing shapes. It is `unsupported` if the
// type of the first tensor is none of the enumerators (got: its data_type), or if another tensor has a different type (got:
// its data_type, expected: that of the first tensor). As in the typed forms, some tensors may be f32 when the first one has 16
// bits: a bias, the gradients of weights and bias, the result of a convolution or of its data gradient, and the weights of
// one whose result is f32 (else got: the type of the result, expected: f32). The type of a result is given even where its
// layout is inferred: `{}` says f32. Without layout the result of a convolution or of its data gradient has the type of the inputs.
// The two gradients of one call have the same type (got: that of diff_bias, expected: that of diff_weights). The type of a bias
// without layout (an absent one) is ignored. The indices of max pools are std::int64_t, too.
//
// A call whose plan needs more workspace than the library has on the stack (see call_options) fails with
// workspace_too_small. plan_X tells the size. A plan checks once for many runs:
//
//     const auto plan = plan_avg_pool(src, {.kernel = {2, 2}, .strides = {2, 2}}, dst);   // types and layouts of views
//     if (!plan) return plan.error();
//     workspace scratch(plan->workspace_bytes(pool.concurrency()));                       // or your own memory
//     const status s = plan->run(src.data, dst.data, scratch, pool);
//
// Or pass the same memory to the call: `avg_pool(src, attributes, dst, {.workspace = scratch, .executor = pool})`.
//
// gradkern.hpp does not include this header, because these functions are not templates. Every translation unit that
// includes it compiles the plans of every operator for every type, which takes twice as long as gradkern.hpp. A translation unit
// that calls an operator also compiles its kernels for four types, convolutions for four mixtures of them, too: with ten
// operators that is a minute or two. Include it only where types are dispatched at run time, best in one file. The compiled
// library (docs/runtime.md) has the same operators and compiles nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include <gradkern/attributes.hpp>
#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/run/operator.hpp>
#include <gradkern/dynamic_view.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/half.hpp>
#include <gradkern/lp_pool.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_NAMESPACE_BEGIN

/// The element type and layout of a tensor, as plans take them. Views convert to it.
struct dynamic_layout {
    data_type type = data_type::f32;  ///< what an element is
    tensor_layout layout{};           ///< shape and strides in elements

    GRADKERN_PER_ISA constexpr dynamic_layout() noexcept = default;
    /// Elements of type t in layout l.
    GRADKERN_PER_ISA constexpr dynamic_layout(data_type t, const tensor_layout& l) noexcept : type(t), layout(l) {}
    /// Those of an output.
    // NOLINTNEXTLINE(google-explicit-constructor): a view has a layout
    GRADKERN_PER_ISA constexpr dynamic_layout(const dynamic_view& view) noexcept
        : type(view.type), layout(view.layout) {}
    /// Those of an input.
    // NOLINTNEXTLINE(google-explicit-constructor): a view has a layout
    GRADKERN_PER_ISA constexpr dynamic_layout(const const_dynamic_view& view) noexcept
        : type(view.type), layout(view.layout) {}

    /// Whether type and layout are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const dynamic_layout&, const dynamic_layout&) noexcept = default;
};

GRADKERN_NAMESPACE_END

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// The element type of a tensor of a call. `may_be_f32`: it may be f32 even if the others have 16 bits.
struct typed_argument {
    std::string_view name{};
    data_type type = data_type::f32;
    bool may_be_f32 = false;
};

/// The bias of a forward operator; an absent one has the type of the others.
[[nodiscard]] constexpr typed_argument bias_argument(const dynamic_layout& bias, data_type others) noexcept {
    return {"bias", bias.layout.empty() ? others : bias.type, true};
}

/// The rule for a tensor that may be f32 when the others have 16 bits.
inline constexpr std::string_view or_f32 = "f32 is also accepted";
// Error messages name types by their numbers.
static_assert(static_cast<int>(data_type::f32) == 0 && static_cast<int>(data_type::f16) == 1 &&
              static_cast<int>(data_type::bf16) == 2 && static_cast<int>(data_type::f64) == 3);

/// Check 3 for element types: one that there is in the first tensor, and the same in all others.
[[nodiscard]] constexpr error check_types(std::string_view op, std::initializer_list<typed_argument> tensors) noexcept {
    shape::operator_checks checks(op);
    const typed_argument& first = *tensors.begin();
    const auto number = [](data_type t) { return static_cast<std::int64_t>(t); };
    checks.require(size_of(first.type) != 0, errc::unsupported, first.name, -1, number(first.type), expectation::none,
                   0, {.what = quantity::type, .why = "f32, f16, bf16 or f64"});
    for (const typed_argument& t : tensors) {
        const bool may_be_f32 = t.may_be_f32 && first.type != data_type::f64;
        if (!(may_be_f32 && t.type == data_type::f32))
            checks.require_equal(errc::unsupported, t.name, -1, number(t.type), number(first.type),
                                 {.what = quantity::type,
                                  .other = first.name,
                                  .why = may_be_f32 && first.type != data_type::f32 ? or_f32 : ""});
    }
    return checks.error();
}

/// The weights of a convolution.
[[nodiscard]] constexpr typed_argument weights_argument(const dynamic_layout& weights) noexcept {
    return {"weights", weights.type, true};
}
/// The result of a convolution. One without layout may not differ: its type is often not given.
[[nodiscard]] constexpr typed_argument result_argument(std::string_view name, const dynamic_layout& result) noexcept {
    return {name, result.type, !result.layout.empty()};
}
/// Check 3 for convolutions and their data gradients, whose inputs begin with what is read and weights: as check_types. If weights are
/// f32 and what is read is not, the result is f32, too.
[[nodiscard]] constexpr error check_convolution_types(std::string_view op, std::initializer_list<typed_argument> inputs,
                                                      const typed_argument& result) noexcept {
    const error e = check_types(op, inputs);
    if (e.code != errc::ok) return e;
    const typed_argument& in = inputs.begin()[0];
    const typed_argument& weights = inputs.begin()[1];
    if (weights.type == in.type) return check_types(op, {in, result});
    return check_types(op, {weights, {result.name, result.type}});
}

/// Check 3 for the weight gradients: as check_types. A diff_bias has the type of diff_weights.
[[nodiscard]] constexpr error check_gradient_types(std::string_view op, const dynamic_layout& src,
                                                   const dynamic_layout& diff_dst, const dynamic_layout& diff_weights,
                                                   const dynamic_layout& diff_bias) noexcept {
    const error e =
        check_types(op, {{"src", src.type}, {"diff_dst", diff_dst.type}, {"diff_weights", diff_weights.type, true}});
    if (e.code != errc::ok || diff_bias.layout.empty()) return e;
    shape::operator_checks checks(op);
    checks.require_equal(errc::unsupported, "diff_bias", -1, static_cast<std::int64_t>(diff_bias.type),
                         static_cast<std::int64_t>(diff_weights.type),
                         {.what = quantity::type, .other = "diff_weights"});
    return checks.error();
}

/// The error that comes first in the order of checks: that of the shapes, if any, or that of the types.
[[nodiscard]] constexpr error earlier_error(const error& shapes, const error& types) noexcept {
    return shape::precedes_types(shapes.code) ? shapes : types;
}

/// Calls fn(std::type_identity<T>) for the T of a type that passed check_types.
template <class Fn>
[[nodiscard]] auto with_type(data_type type, const Fn& fn) noexcept {
    if (type == data_type::f16) return fn(std::type_identity<float16>{});
    if (type == data_type::bf16) return fn(std::type_identity<bfloat16>{});
    if (type == data_type::f64) return fn(std::type_identity<double>{});
    return fn(std::type_identity<float>{});
}

/// Calls fn(std::type_identity<T>, std::type_identity<G>): G is T, or float if `other` is f32.
template <class Fn>
[[nodiscard]] auto with_types(data_type type, data_type other, const Fn& fn) noexcept {
    return with_type(type, [&]<class T>(std::type_identity<T> t) noexcept {
        if constexpr (sizeof(T) == 2)
            if (other != type) return fn(t, std::type_identity<float>{});
        return fn(t, t);
    });
}

/// Calls fn(std::type_identity<Src>, std::type_identity<Weights>, std::type_identity<Dst>) for types that passed
/// check_convolution_types.
template <class Fn>
[[nodiscard]] auto with_convolution_types(data_type src, data_type weights, data_type dst, const Fn& fn) noexcept {
    return with_type(src, [&]<class T>(std::type_identity<T> t) noexcept {
        if constexpr (sizeof(T) == 2) {
            constexpr std::type_identity<float> wide;
            if (weights != src) return fn(t, wide, wide);
            if (dst != src) return fn(t, t, wide);
        }
        return fn(t, t, t);
    });
}

/// The same with a bias, whose type is that of src, or f32 beside 16 bits: calls fn with its std::type_identity, too.
template <class Fn>
[[nodiscard]] auto with_biased_convolution_types(data_type src, data_type weights, data_type dst, data_type bias,
                                                 const Fn& fn) noexcept {
    return with_convolution_types(src, weights, dst, [&]<class S>(std::type_identity<S> s, auto w, auto d) noexcept {
        if constexpr (sizeof(S) == 2)
            if (bias != src) return fn(s, w, d, std::type_identity<float>{});
        return fn(s, w, d, s);
    });
}

/// One of the typed plans of an operator. It is a value: copy it, and share it between threads.
template <class... Plans>
class plan_of_some_type {
public:
    plan_of_some_type() noexcept = default;
    /// Takes over a typed plan.
    template <class Plan>
    explicit plan_of_some_type(const Plan& plan) noexcept : plan_(plan) {}

    /// Bytes of workspace that let `workers` tasks run at once; any workspace of at least workspace_bytes(1) is accepted.
    [[nodiscard]] std::size_t workspace_bytes(std::ptrdiff_t workers = 1) const noexcept {
        return std::visit([&](const auto& plan) noexcept { return plan.workspace_bytes(workers); }, plan_);
    }
    /// One line about path, blocks and instruction set, cut to the span; returns the length of the whole line.
    std::size_t describe(std::span<char> text) const noexcept {
        return std::visit([&](const auto& plan) noexcept { return plan.describe(text); }, plan_);
    }

protected:
    /// Calls fn with the typed plan.
    template <class Fn>
    [[nodiscard]] status visit(const Fn& fn) const noexcept {
        return std::visit(fn, plan_);
    }

private:
    std::variant<Plans...> plan_{};
};
/// Plans of an operator whose tensors have one type.
template <template <class> class Plan>
using plan_of_one_type = plan_of_some_type<Plan<float>, Plan<float16>, Plan<bfloat16>, Plan<double>>;
/// Plans of an operator with a tensor that may be f32 when the others have 16 bits.
template <template <class, class> class Plan>
using plan_of_two_types = plan_of_some_type<Plan<float, float>, Plan<float16, float16>, Plan<bfloat16, bfloat16>,
                                            Plan<float16, float>, Plan<bfloat16, float>, Plan<double, double>>;

/// Plans of a convolution, or of its data gradient: what is read, weights, and what is written.
template <template <class, class, class> class Plan>
using plan_of_convolution =
    plan_of_some_type<Plan<float, float, float>, Plan<float16, float16, float16>, Plan<bfloat16, bfloat16, bfloat16>,
                      Plan<double, double, double>, Plan<float16, float16, float>, Plan<float16, float, float>,
                      Plan<bfloat16, bfloat16, float>, Plan<bfloat16, float, float>>;
/// The same with a bias, which may be f32 beside tensors of 16 bits.
template <template <class, class, class, class> class Plan>
using plan_of_biased_convolution =
    plan_of_some_type<Plan<float, float, float, float>, Plan<float16, float16, float16, float16>,
                      Plan<bfloat16, bfloat16, bfloat16, bfloat16>, Plan<double, double, double, double>,
                      Plan<float16, float16, float, float16>, Plan<float16, float, float, float16>,
                      Plan<bfloat16, bfloat16, float, bfloat16>, Plan<bfloat16, float, float, bfloat16>,
                      Plan<float16, float16, float16, float>, Plan<bfloat16, bfloat16, bfloat16, float>,
                      Plan<float16, float16, float, float>, Plan<float16, float, float, float>,
                      Plan<bfloat16, bfloat16, float, float>, Plan<bfloat16, float, float, float>>;

/// A typed plan, or the error, as a plan of run-time types.
template <class Plan, class Typed>
[[nodiscard]] result<Plan> forget_type(const result<Typed>& typed) noexcept {
    if (!typed) return typed.error();
    return Plan(*typed);
}

}  // namespace detail

// --------------------------------------------------------------------------------------------------------- convolution

/// A planned forward convolution with run-time types. It is a value: copy it, and share it between threads.
class dynamic_convolution_plan : public detail::plan_of_biased_convolution<convolution_plan> {
public:
    using detail::plan_of_biased_convolution<convolution_plan>::plan_of_some_type;

    /// As convolution_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, const void* weights, const void* bias, void* dst,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class S, class W, class D, class B>(const convolution_plan<S, W, D, B>& plan) noexcept {
            return plan.run(static_cast<const S*>(src), static_cast<const W*>(weights), static_cast<const B*>(bias),
                            static_cast<D*>(dst), workspace, executor);
        });
    }
};

/// Plans dynamic_convolution_plan::run. `bias` may be f32, or {} for none. Empty layouts have the meaning of the
/// typed form. Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_convolution_plan> plan_convolution(
    const dynamic_layout& src, const dynamic_layout& weights, const dynamic_layout& bias,
    const convolution_attributes& attributes, const dynamic_layout& dst, const plan_options& options = {}) noexcept {
    const detail::typed_argument b = detail::bias_argument(bias, src.type);
    const error types = detail::check_convolution_types(
        "convolution", {{"src", src.type}, detail::weights_argument(weights), b}, detail::result_argument("dst", dst));
    if (types.code != errc::ok) {
        const auto p = shape::convolution_shapes(src.layout.shape, weights.layout.shape, attributes, dst.layout.shape,
                                                 true, 1, bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_biased_convolution_types(
        src.type, weights.type, dst.type, b.type,
        [&]<class S, class W, class D, class B>(std::type_identity<S>, std::type_identity<W>, std::type_identity<D>,
                                                std::type_identity<B>) noexcept {
            return detail::forget_type<dynamic_convolution_plan>(
                plan_convolution<S, W, D, B>(src.layout, weights.layout, bias.layout, attributes, dst.layout, options));
        });
}

/// Forward convolution in one call: plan_convolution and run. `bias` may be f32, or {} for none.
[[nodiscard]] inline status convolution(const const_dynamic_view& src, const const_dynamic_view& weights,
                                        const const_dynamic_view& bias, const convolution_attributes& attributes,
                                        const dynamic_view& dst, const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) noexcept { return plan_convolution(src, weights, bias, attributes, dst, how); },
        src.data, weights.data, bias.data, dst.data);
}

/// A planned data gradient of a convolution with run-time types. It is a value: copy it, and share it between threads.
class dynamic_convolution_backward_data_plan : public detail::plan_of_convolution<convolution_backward_data_plan> {
public:
    using detail::plan_of_convolution<convolution_backward_data_plan>::plan_of_some_type;

    /// As convolution_backward_data_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* diff_dst, const void* weights, void* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class D, class W, class S>(const convolution_backward_data_plan<D, W, S>& plan) noexcept {
            return plan.run(static_cast<const D*>(diff_dst), static_cast<const W*>(weights), static_cast<S*>(diff_src),
                            workspace, executor);
        });
    }
};

/// Plans dynamic_convolution_backward_data_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_convolution_backward_data_plan> plan_convolution_backward_data(
    const dynamic_layout& diff_dst, const dynamic_layout& weights, const convolution_attributes& attributes,
    const dynamic_layout& diff_src, const plan_options& options = {}) noexcept {
    const error types = detail::check_convolution_types(
        "convolution_backward_data", {{"diff_dst", diff_dst.type}, detail::weights_argument(weights)},
        detail::result_argument("diff_src", diff_src));
    if (types.code != errc::ok) {
        const auto p = shape::convolution_backward_data_shapes(diff_dst.layout.shape, weights.layout.shape, attributes,
                                                               diff_src.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_convolution_types(
        diff_dst.type, weights.type, diff_src.type,
        [&]<class D, class W, class S>(std::type_identity<D>, std::type_identity<W>, std::type_identity<S>) noexcept {
            return detail::forget_type<dynamic_convolution_backward_data_plan>(plan_convolution_backward_data<D, W, S>(
                diff_dst.layout, weights.layout, attributes, diff_src.layout, options));
        });
}

/// Data gradient of a convolution in one call: plan_convolution_backward_data and run.
[[nodiscard]] inline status convolution_backward_data(const const_dynamic_view& diff_dst,
                                                      const const_dynamic_view& weights,
                                                      const convolution_attributes& attributes,
                                                      const dynamic_view& diff_src,
                                                      const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) noexcept {
            return plan_convolution_backward_data(diff_dst, weights, attributes, diff_src, how);
        },
        diff_dst.data, weights.data, diff_src.data);
}

/// A planned weight gradient of a convolution with run-time types. It is a value: copy it, and share it between threads.
class dynamic_convolution_backward_weights_plan : public detail::plan_of_two_types<convolution_backward_weights_plan> {
public:
    using detail::plan_of_two_types<convolution_backward_weights_plan>::plan_of_some_type;

    /// As convolution_backward_weights_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, const void* diff_dst, void* diff_weights, void* diff_bias,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class T, class G>(const convolution_backward_weights_plan<T, G>& plan) noexcept {
            return plan.run(static_cast<const T*>(src), static_cast<const T*>(diff_dst), static_cast<G*>(diff_weights),
                            static_cast<G*>(diff_bias), workspace, executor);
        });
    }
};

/// Plans dynamic_convolution_backward_weights_plan::run. With a `diff_bias` other than {}, also the gradient of the bias. Both
/// may be f32. Empty layouts have the meaning of the typed form. Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_convolution_backward_weights_plan> plan_convolution_backward_weights(
    const dynamic_layout& src, const dynamic_layout& diff_dst, const convolution_attributes& attributes,
    const dynamic_layout& diff_weights, const dynamic_layout& diff_bias = {},
    const plan_options& options = {}) noexcept {
    const error types =
        detail::check_gradient_types("convolution_backward_weights", src, diff_dst, diff_weights, diff_bias);
    if (types.code != errc::ok) {
        const auto p =
            shape::convolution_backward_weights_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                       diff_weights.layout.shape, true, 1, diff_bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(
        src.type, diff_weights.type, [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) noexcept {
            return detail::forget_type<dynamic_convolution_backward_weights_plan>(
                plan_convolution_backward_weights<T, G>(src.layout, diff_dst.layout, attributes, diff_weights.layout,
                                                        diff_bias.layout, options));
        });
}

/// Weight gradient of a convolution in one call: plan_convolution_backward_weights and run. With a
/// `diff_bias` other than {}, also the gradient of the bias. Both may be f32.
[[nodiscard]] inline status convolution_backward_weights(
    const const_dynamic_view& src, const const_dynamic_view& diff_dst, const convolution_attributes& attributes,
    const dynamic_view& diff_weights, const dynamic_view& diff_bias = {}, const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) noexcept {
            return plan_convolution_backward_weights(src, diff_dst, attributes, diff_weights, diff_bias, how);
        },
        src.data, diff_dst.data, diff_weights.data, diff_bias.data);
}

// ---------------------------------------------------------------------------------------------- transposed convolution

/// A planned forward transposed convolution with run-time types. It is a value: copy it, and share it between threads.
class dynamic_conv_transpose_plan : public detail::plan_of_biased_convolution<conv_transpose_plan> {
public:
    using detail::plan_of_biased_convolution<conv_transpose_plan>::plan_of_some_type;

    /// As conv_transpose_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, const void* weights, const void* bias, void* dst,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class S, class W, class D, class B>(const conv_transpose_plan<S, W, D, B>& plan) noexcept {
            return plan.run(static_cast<const S*>(src), static_cast<const W*>(weights), static_cast<const B*>(bias),
                            static_cast<D*>(dst), workspace, executor);
        });
    }
};

/// Plans dynamic_conv_transpose_plan::run. `bias` may be f32, or {} for none. Empty layouts have the meaning of the
/// typed form. Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_conv_transpose_plan> plan_conv_transpose(
    const dynamic_layout& src, const dynamic_layout& weights, const dynamic_layout& bias,
    const conv_transpose_attributes& attributes, const dynamic_layout& dst, const plan_options& options = {}) noexcept {
    const detail::typed_argument b = detail::bias_argument(bias, src.type);
    const error types =
        detail::check_convolution_types("conv_transpose", {{"src", src.type}, detail::weights_argument(weights), b},
                                        detail::result_argument("dst", dst));
    if (types.code != errc::ok) {
        const auto p = shape::conv_transpose_shapes(src.layout.shape, weights.layout.shape, attributes,
                                                    dst.layout.shape, true, 1, bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_biased_convolution_types(
        src.type, weights.type, dst.type, b.type,
        [&]<class S, class W, class D, class B>(std::type_identity<S>, std::type_identity<W>, std::type_identity<D>,
                                                std::type_identity<B>) noexcept {
            return detail::forget_type<dynamic_conv_transpose_plan>(plan_conv_transpose<S, W, D, B>(
                src.layout, weights.layout, bias.layout, attributes, dst.layout, options));
        });
}

/// Forward transposed convolution in one call: plan_conv_transpose and run. `bias` may be f32, or {} for none.
[[nodiscard]] inline status conv_transpose(const const_dynamic_view& src, const const_dynamic_view& weights,
                                           const const_dynamic_view& bias, const conv_transpose_attributes& attributes,
                                           const dynamic_view& dst, const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) noexcept { return plan_conv_transpose(src, weights, bias, attributes, dst, how); },
        src.data, weights.data, bias.data, dst.data);
}

/// A planned data gradient of a transposed convolution with run-time types. It is a value: copy it, and share it between threads.
class dynamic_conv_transpose_backward_data_plan
    : public detail::plan_of_convolution<conv_transpose_backward_data_plan> {
public:
    using detail::plan_of_convolution<conv_transpose_backward_data_plan>::plan_of_some_type;

    /// As conv_transpose_backward_data_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* diff_dst, const void* weights, void* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class D, class W, class S>(const conv_transpose_backward_data_plan<D, W, S>& plan) noexcept {
            return plan.run(static_cast<const D*>(diff_dst), static_cast<const W*>(weights), static_cast<S*>(diff_src),
                            workspace, executor);
        });
    }
};

/// Plans dynamic_conv_transpose_backward_data_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_conv_transpose_backward_data_plan> plan_conv_transpose_backward_data(
    const dynamic_layout& diff_dst, const dynamic_layout& weights, const conv_transpose_attributes& attributes,
    const dynamic_layout& diff_src, const plan_options& options = {}) noexcept {
    const error types = detail::check_convolution_types(
        "conv_transpose_backward_data", {{"diff_dst", diff_dst.type}, detail::weights_argument(weights)},
        detail::result_argument("diff_src", diff_src));
    if (types.code != errc::ok) {
        const auto p = shape::conv_transpose_backward_data_shapes(diff_dst.layout.shape, weights.layout.shape,
                                                                  attributes, diff_src.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_convolution_types(
        diff_dst.type, weights.type, diff_src.type,
        [&]<class D, class W, class S>(std::type_identity<D>, std::type_identity<W>, std::type_identity<S>) noexcept {
            return detail::forget_type<dynamic_conv_transpose_backward_data_plan>(
                plan_conv_transpose_backward_data<D, W, S>(diff_dst.layout, weights.layout, attributes, diff_src.layout,
                                                           options));
        });
}

/// Data gradient of a transposed convolution in one call: plan_conv_transpose_backward_data and run.
[[nodiscard]] inline status conv_transpose_backward_data(const const_dynamic_view& diff_dst,
                                                         const const_dynamic_view& weights,
                                                         const conv_transpose_attributes& attributes,
                                                         const dynamic_view& diff_src,
                                                         const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) noexcept {
            return plan_conv_transpose_backward_data(diff_dst, weights, attributes, diff_src, how);
        },
        diff_dst.data, weights.data, diff_src.data);
}

/// A planned weight gradient of a transposed convolution with run-time types. It is a value: copy it, and share it between threads.
class dynamic_conv_transpose_backward_weights_plan
    : public detail::plan_of_two_types<conv_transpose_backward_weights_plan> {
public:
    using detail::plan_of_two_types<conv_transpose_backward_weights_plan>::plan_of_some_type;

    /// As conv_transpose_backward_weights_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, const void* diff_dst, void* diff_weights, void* diff_bias,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class T, class G>(const conv_transpose_backward_weights_plan<T, G>& plan) noexcept {
            return plan.run(static_cast<const T*>(src), static_cast<const T*>(diff_dst), static_cast<G*>(diff_weights),
                            static_cast<G*>(diff_bias), workspace, executor);
        });
    }
};

/// Plans dynamic_conv_transpose_backward_weights_plan::run. With a `diff_bias` other than {}, also the gradient of the bias.
/// Both may be f32. Empty layouts have the meaning of the typed form. Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_conv_transpose_backward_weights_plan> plan_conv_transpose_backward_weights(
    const dynamic_layout& src, const dynamic_layout& diff_dst, const conv_transpose_attributes& attributes,
    const dynamic_layout& diff_weights, const dynamic_layout& diff_bias = {},
    const plan_options& options = {}) noexcept {
    const error types =
        detail::check_gradient_types("conv_transpose_backward_weights", src, diff_dst, diff_weights, diff_bias);
    if (types.code != errc::ok) {
        const auto p =
            shape::conv_transpose_backward_weights_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                          diff_weights.layout.shape, true, 1, diff_bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(
        src.type, diff_weights.type, [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) noexcept {
            return detail::forget_type<dynamic_conv_transpose_backward_weights_plan>(
                plan_conv_transpose_backward_weights<T, G>(src.layout, diff_dst.layout, attributes, diff_weights.layout,
                                                           diff_bias.layout, options));
        });
}

/// Weight gradient of a transposed convolution in one call: plan_conv_transpose_backward_weights and run. With a
/// `diff_bias` other than {}, also the gradient of the bias. Both may be f32.
[[nodiscard]] inline status conv_transpose_backward_weights(
    const const_dynamic_view& src, const const_dynamic_view& diff_dst, const conv_transpose_attributes& attributes,
    const dynamic_view& diff_weights, const dynamic_view& diff_bias = {}, const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) noexcept {
            return plan_conv_transpose_backward_weights(src, diff_dst, attributes, diff_weights, diff_bias, how);
        },
        src.data, diff_dst.data, diff_weights.data, diff_bias.data);
}

// ---------------------------------------------------------------------------------------------------------------- bias

/// A planned gradient of the bias of either family with run-time types. It is a value: copy it, and share it between threads.
class dynamic_bias_backward_plan : public detail::plan_of_two_types<bias_backward_plan> {
public:
    using detail::plan_of_two_types<bias_backward_plan>::plan_of_some_type;

    /// As bias_backward_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* diff_dst, void* diff_bias, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return visit([&]<class T, class G>(const bias_backward_plan<T, G>& plan) noexcept {
            return plan.run(static_cast<const T*>(diff_dst), static_cast<G*>(diff_bias), workspace, executor);
        });
    }
};

/// Plans dynamic_bias_backward_plan::run. `diff_bias` may be f32. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_bias_backward_plan> plan_bias_backward(const dynamic_layout& diff_dst,
                                                                           const bias_attributes& attributes,
                                                                           const dynamic_layout& diff_bias,
                                                                           const plan_options& options = {}) noexcept {
    const error types =
        detail::check_types("bias_backward", {{"diff_dst", diff_dst.type}, {"diff_bias", diff_bias.type, true}});
    if (types.code != errc::ok) {
        const auto p = shape::bias_backward_shapes(diff_dst.layout.shape, attributes, diff_bias.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(diff_dst.type, diff_bias.type,
                              [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) noexcept {
                                  return detail::forget_type<dynamic_bias_backward_plan>(
                                      plan_bias_backward<T, G>(diff_dst.layout, attributes, diff_bias.layout, options));
                              });
}

/// Gradient of the bias of either family in one call: plan_bias_backward and run. `diff_bias` may be f32.
[[nodiscard]] inline status bias_backward(const const_dynamic_view& diff_dst, const bias_attributes& attributes,
                                          const dynamic_view& diff_bias, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) noexcept { return plan_bias_backward(diff_dst, attributes, diff_bias, how); },
        diff_dst.data, diff_bias.data);
}

// ------------------------------------------------------------------------------------------------------------- pooling

/// A planned average pool with run-time types. It is a value: copy it, and share it between threads.
class dynamic_avg_pool_plan : public detail::plan_of_one_type<avg_pool_plan> {
public:
    using detail::plan_of_one_type<avg_pool_plan>::plan_of_some_type;

    /// As avg_pool_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, void* dst, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return visit([&]<class T>(const avg_pool_plan<T>& plan) noexcept {
            return plan.run(static_cast<const T*>(src), static_cast<T*>(dst), workspace, executor);
        });
    }
};

/// Plans dynamic_avg_pool_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_avg_pool_plan> plan_avg_pool(const dynamic_layout& src,
                                                                 const avg_pool_attributes& attributes,
                                                                 const dynamic_layout& dst,
                                                                 const plan_options& options = {}) noexcept {
    const error types = detail::check_types("avg_pool", {{"src", src.type}, {"dst", dst.type}});
    if (types.code != errc::ok) {
        const auto p = shape::avg_pool_shapes(src.layout.shape, attributes, dst.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) noexcept {
        return detail::forget_type<dynamic_avg_pool_plan>(
            plan_avg_pool<T>(src.layout, attributes, dst.layout, options));
    });
}

/// Average pool in one call: plan_avg_pool and run.
[[nodiscard]] inline status avg_pool(const const_dynamic_view& src, const avg_pool_attributes& attributes,
                                     const dynamic_view& dst, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options, [&](const plan_options& how) noexcept { return plan_avg_pool(src, attributes, dst, how); }, src.data,
        dst.data);
}

/// A planned gradient of an average pool with run-time types. It is a value: copy it, and share it between threads.
class dynamic_avg_pool_backward_plan : public detail::plan_of_one_type<avg_pool_backward_plan> {
public:
    using detail::plan_of_one_type<avg_pool_backward_plan>::plan_of_some_type;

    /// As avg_pool_backward_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* diff_dst, void* diff_src, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return visit([&]<class T>(const avg_pool_backward_plan<T>& plan) noexcept {
            return plan.run(static_cast<const T*>(diff_dst), static_cast<T*>(diff_src), workspace, executor);
        });
    }
};

/// Plans dynamic_avg_pool_backward_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_avg_pool_backward_plan> plan_avg_pool_backward(
    const dynamic_layout& diff_dst, const avg_pool_attributes& attributes, const dynamic_layout& diff_src,
    const plan_options& options = {}) noexcept {
    const error types =
        detail::check_types("avg_pool_backward", {{"diff_dst", diff_dst.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p =
            shape::avg_pool_backward_shapes(diff_dst.layout.shape, attributes, diff_src.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(diff_dst.type, [&]<class T>(std::type_identity<T>) noexcept {
        return detail::forget_type<dynamic_avg_pool_backward_plan>(
            plan_avg_pool_backward<T>(diff_dst.layout, attributes, diff_src.layout, options));
    });
}

/// Gradient of an average pool in one call: plan_avg_pool_backward and run.
[[nodiscard]] inline status avg_pool_backward(const const_dynamic_view& diff_dst, const avg_pool_attributes& attributes,
                                              const dynamic_view& diff_src, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) noexcept { return plan_avg_pool_backward(diff_dst, attributes, diff_src, how); },
        diff_dst.data, diff_src.data);
}

/// A planned Lp pool with run-time types. It is a value: copy it, and share it between threads.
class dynamic_lp_pool_plan : public detail::plan_of_one_type<lp_pool_plan> {
public:
    using detail::plan_of_one_type<lp_pool_plan>::plan_of_some_type;

    /// As lp_pool_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, void* dst, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return visit([&]<class T>(const lp_pool_plan<T>& plan) noexcept {
            return plan.run(static_cast<const T*>(src), static_cast<T*>(dst), workspace, executor);
        });
    }
};

/// Plans dynamic_lp_pool_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_lp_pool_plan> plan_lp_pool(const dynamic_layout& src,
                                                               const lp_pool_attributes& attributes,
                                                               const dynamic_layout& dst,
                                                               const plan_options& options = {}) noexcept {
    const error types = detail::check_types("lp_pool", {{"src", src.type}, {"dst", dst.type}});
    if (types.code != errc::ok) {
        const auto p = shape::lp_pool_shapes(src.layout.shape, attributes, dst.layout.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) noexcept {
        return detail::forget_type<dynamic_lp_pool_plan>(plan_lp_pool<T>(src.layout, attributes, dst.layout, options));
    });
}

/// Lp pool in one call: plan_lp_pool and run.
[[nodiscard]] inline status lp_pool(const const_dynamic_view& src, const lp_pool_attributes& attributes,
                                    const dynamic_view& dst, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options, [&](const plan_options& how) noexcept { return plan_lp_pool(src, attributes, dst, how); }, src.data,
        dst.data);
}

/// A planned gradient of an Lp pool with run-time types. It is a value: copy it, and share it between threads.
class dynamic_lp_pool_backward_plan : public detail::plan_of_one_type<lp_pool_backward_plan> {
public:
    using detail::plan_of_one_type<lp_pool_backward_plan>::plan_of_some_type;

    /// As lp_pool_backward_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, const void* dst, const void* diff_dst, void* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class T>(const lp_pool_backward_plan<T>& plan) noexcept {
            return plan.run(static_cast<const T*>(src), static_cast<const T*>(dst), static_cast<const T*>(diff_dst),
                            static_cast<T*>(diff_src), workspace, executor);
        });
    }
};

/// Plans dynamic_lp_pool_backward_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_lp_pool_backward_plan> plan_lp_pool_backward(
    const dynamic_layout& src, const dynamic_layout& dst, const dynamic_layout& diff_dst,
    const lp_pool_attributes& attributes, const dynamic_layout& diff_src, const plan_options& options = {}) noexcept {
    const error types = detail::check_types(
        "lp_pool_backward",
        {{"src", src.type}, {"dst", dst.type}, {"diff_dst", diff_dst.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p = shape::lp_pool_backward_shapes(src.layout.shape, dst.layout.shape, diff_dst.layout.shape,
                                                      attributes, diff_src.layout.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) noexcept {
        return detail::forget_type<dynamic_lp_pool_backward_plan>(
            plan_lp_pool_backward<T>(src.layout, dst.layout, diff_dst.layout, attributes, diff_src.layout, options));
    });
}

/// Gradient of an Lp pool in one call: plan_lp_pool_backward and run.
[[nodiscard]] inline status lp_pool_backward(const const_dynamic_view& src, const const_dynamic_view& dst,
                                             const const_dynamic_view& diff_dst, const lp_pool_attributes& attributes,
                                             const dynamic_view& diff_src, const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) noexcept {
            return plan_lp_pool_backward(src, dst, diff_dst, attributes, diff_src, how);
        },
        src.data, dst.data, diff_dst.data, diff_src.data);
}

/// A planned max pool with run-time types. It is a value: copy it, and share it between threads.
class dynamic_max_pool_plan : public detail::plan_of_one_type<max_pool_plan> {
public:
    using detail::plan_of_one_type<max_pool_plan>::plan_of_some_type;

    /// As max_pool_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, void* dst, std::int64_t* indices, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return visit([&]<class T>(const max_pool_plan<T>& plan) noexcept {
            return plan.run(static_cast<const T*>(src), static_cast<T*>(dst), indices, workspace, executor);
        });
    }
};

/// Plans dynamic_max_pool_plan::run. `indices` may be {}. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_max_pool_plan> plan_max_pool(const dynamic_layout& src,
                                                                 const max_pool_attributes& attributes,
                                                                 const dynamic_layout& dst,
                                                                 const tensor_layout& indices = {},
                                                                 const plan_options& options = {}) noexcept {
    const error types = detail::check_types("max_pool", {{"src", src.type}, {"dst", dst.type}});
    if (types.code != errc::ok) {
        const auto p = shape::max_pool_shapes(src.layout.shape, attributes, dst.layout.shape, indices.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) noexcept {
        return detail::forget_type<dynamic_max_pool_plan>(
            plan_max_pool<T>(src.layout, attributes, dst.layout, indices, options));
    });
}

/// Max pool in one call: plan_max_pool and run. `indices` may be {}.
[[nodiscard]] inline status max_pool(const const_dynamic_view& src, const max_pool_attributes& attributes,
                                     const dynamic_view& dst, tensor_view<std::int64_t> indices = {},
                                     const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) noexcept { return plan_max_pool(src, attributes, dst, indices.layout, how); },
        src.data, dst.data, indices.data);
}

/// A planned gradient of a max pool with run-time types. It is a value: copy it, and share it between threads.
class dynamic_max_pool_backward_plan : public detail::plan_of_one_type<max_pool_backward_plan> {
public:
    using detail::plan_of_one_type<max_pool_backward_plan>::plan_of_some_type;

    /// As max_pool_backward_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* src, const void* diff_dst, void* diff_src, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return visit([&]<class T>(const max_pool_backward_plan<T>& plan) noexcept {
            return plan.run(static_cast<const T*>(src), static_cast<const T*>(diff_dst), static_cast<T*>(diff_src),
                            workspace, executor);
        });
    }
};

/// Plans dynamic_max_pool_backward_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_max_pool_backward_plan> plan_max_pool_backward(
    const dynamic_layout& src, const dynamic_layout& diff_dst, const max_pool_attributes& attributes,
    const dynamic_layout& diff_src, const plan_options& options = {}) noexcept {
    const error types = detail::check_types(
        "max_pool_backward", {{"src", src.type}, {"diff_dst", diff_dst.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p = shape::max_pool_backward_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                       diff_src.layout.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) noexcept {
        return detail::forget_type<dynamic_max_pool_backward_plan>(
            plan_max_pool_backward<T>(src.layout, diff_dst.layout, attributes, diff_src.layout, options));
    });
}

/// Gradient of a max pool in one call: plan_max_pool_backward and run.
[[nodiscard]] inline status max_pool_backward(const const_dynamic_view& src, const const_dynamic_view& diff_dst,
                                              const max_pool_attributes& attributes, const dynamic_view& diff_src,
                                              const call_options& options = {}) noexcept {
    return detail::run_call<true>(
        options,
        [&](const plan_options& how) noexcept {
            return plan_max_pool_backward(src, diff_dst, attributes, diff_src, how);
        },
        src.data, diff_dst.data, diff_src.data);
}

/// A planned gradient of a max pool from indices with run-time types. It is a value: copy it, and share it between threads.
class dynamic_max_pool_backward_from_indices_plan
    : public detail::plan_of_one_type<max_pool_backward_from_indices_plan> {
public:
    using detail::plan_of_one_type<max_pool_backward_from_indices_plan>::plan_of_some_type;

    /// As max_pool_backward_from_indices_plan::run. The pointers are to elements of the planned types.
    [[nodiscard]] status run(const void* diff_dst, const std::int64_t* indices, void* diff_src,
                             std::span<std::byte> workspace = {}, executor_ref executor = {}) const noexcept {
        return visit([&]<class T>(const max_pool_backward_from_indices_plan<T>& plan) noexcept {
            return plan.run(static_cast<const T*>(diff_dst), indices, static_cast<T*>(diff_src), workspace, executor);
        });
    }
};

/// Plans dynamic_max_pool_backward_from_indices_plan::run. Empty layouts have the meaning of the typed form.
/// Errors: those of the typed form, and those of element types.
[[nodiscard]] inline result<dynamic_max_pool_backward_from_indices_plan> plan_max_pool_backward_from_indices(
    const dynamic_layout& diff_dst, const tensor_layout& indices, const max_pool_indices_attributes& attributes,
    const dynamic_layout& diff_src, const plan_options& options = {}) noexcept {
    const error types = detail::check_types("max_pool_backward_from_indices",
                                            {{"diff_dst", diff_dst.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p = shape::max_pool_backward_from_indices_shapes(diff_dst.layout.shape, indices.shape, attributes,
                                                                    diff_src.layout.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(diff_dst.type, [&]<class T>(std::type_identity<T>) noexcept {
        return detail::forget_type<dynamic_max_pool_backward_from_indices_plan>(
            plan_max_pool_backward_from_indices<T>(diff_dst.layout, indices, attributes, diff_src.layout, options));
    });
}

/// Gradient of a max pool from indices in one call: plan_max_pool_backward_from_indices and run.
[[nodiscard]] inline status max_pool_backward_from_indices(const const_dynamic_view& diff_dst,
                                                           tensor_view<const std::int64_t> indices,
                                                           const max_pool_indices_attributes& attributes,
                                                           const dynamic_view& diff_src,
                                                           const call_options& options = {}) noexcept {
    return detail::run_call<false>(
        options,
        [&](const plan_options& how) noexcept {
            return plan_max_pool_backward_from_indices(diff_dst, indices.layout, attributes, diff_src, how);
        },
        diff_dst.data, indices.data, diff_src.data);
}

GRADKERN_ISA_NAMESPACE_END
