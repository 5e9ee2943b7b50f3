// Every operator once more, for tensors whose element type is known at run time only.
//
//     void* x = ...;                                                       // memory of some framework's tensor
//     const const_dynamic_view src(data_type::bf16, x, {8, 28, 28, 64});
//     const status s = avg_pool(src, {.kernel = {2, 2}, .strides = {2, 2}}, dst);
//
// Each function has the name, the order of arguments, the attributes, the result and the errors of its typed one-call
// form. One more error belongs to check 3 of shape/check.hpp, after ranks and before missing shapes: `unsupported`
// where the first tensor is neither f32, f16 nor bf16 (got: its data_type), or where another one has a type of its own
// (got: its data_type, expected: the first tensor's). As in the typed forms a bias, and the gradient of weights or of a
// bias, may be f32 beside 16-bit tensors; the gradients of weights and of a bias that one call computes have one type
// (got: that of diff_bias, expected: that of diff_weights). The type of a bias without layout (an absent one) is not looked
// at. The indices of max pools are std::int64_t here as well.
//
// This header is not part of gradkern.hpp, because these functions are no templates: every translation unit that sees
// them compiles the plans of every operator for every type (a second or two more than gradkern.hpp alone), and one that
// calls an operator its kernels' drivers for three types. Include it where late dispatch happens.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/avg_pool.hpp>
#include <gradkern/bias.hpp>
#include <gradkern/conv_transpose.hpp>
#include <gradkern/convolution.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/bias.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_NAMESPACE_BEGIN

/// An output in the caller's memory: element type, pointer to the first element (all indices 0), and layout.
struct dynamic_view {
    data_type type = data_type::f32;  ///< what an element is
    void* data = nullptr;             ///< element with all indices 0
    tensor_layout layout{};           ///< shape and strides in elements

    constexpr dynamic_view() noexcept = default;
    /// A view of elements of type t at p.
    constexpr dynamic_view(data_type t, void* p, const tensor_layout& l) noexcept : type(t), data(p), layout(l) {}
    /// From a view whose type the compiler knows.
    template <element T>
    // NOLINTNEXTLINE(google-explicit-constructor): nothing is lost
    constexpr dynamic_view(const tensor_view<T>& view) noexcept
        : type(element_traits<T>::type), data(view.data), layout(view.layout) {}

    /// The same tensor with its type known: element_traits<T>::type must be `type`.
    template <element T>
    [[nodiscard]] tensor_view<T> as() const noexcept {
        return {static_cast<T*>(data), layout};
    }
};

/// An input in the caller's memory; as dynamic_view, but nothing is written.
struct const_dynamic_view {
    data_type type = data_type::f32;  ///< what an element is
    const void* data = nullptr;       ///< element with all indices 0
    tensor_layout layout{};           ///< shape and strides in elements

    constexpr const_dynamic_view() noexcept = default;
    /// A view of elements of type t at p.
    constexpr const_dynamic_view(data_type t, const void* p, const tensor_layout& l) noexcept
        : type(t), data(p), layout(l) {}
    /// A view of constant elements from one of mutable elements.
    // NOLINTNEXTLINE(google-explicit-constructor): as void* converts to const void*
    constexpr const_dynamic_view(const dynamic_view& view) noexcept
        : type(view.type), data(view.data), layout(view.layout) {}
    /// From a view whose type the compiler knows.
    template <class T>
    requires(element<std::remove_const_t<T>>)
        // NOLINTNEXTLINE(google-explicit-constructor): nothing is lost
        constexpr const_dynamic_view(const tensor_view<T>& view) noexcept
        : type(element_traits<std::remove_const_t<T>>::type), data(view.data), layout(view.layout) {}

    /// The same tensor with its type known: element_traits<T>::type must be `type`.
    template <element T>
    [[nodiscard]] tensor_view<const T> as() const noexcept {
        return {static_cast<const T*>(data), layout};
    }
};

GRADKERN_NAMESPACE_END

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// A tensor of a call as far as its element type goes. `may_be_f32`: also where the others have 16 bits.
struct typed_argument {
    std::string_view name{};
    data_type type = data_type::f32;
    bool may_be_f32 = false;
};

/// The bias of a forward operator; an absent one has the type of the others.
[[nodiscard]] constexpr typed_argument bias_argument(const const_dynamic_view& bias, data_type others) noexcept {
    return {"bias", bias.layout.empty() ? others : bias.type, true};
}

/// The other choice of a tensor that may be f32 beside 16-bit ones.
inline constexpr std::string_view or_f32 = "f32 is taken, too";
// Texts of errors name types by number.
static_assert(static_cast<int>(data_type::f32) == 0 && static_cast<int>(data_type::f16) == 1 &&
              static_cast<int>(data_type::bf16) == 2 && static_cast<int>(data_type::f64) == 3);

/// Check 3 for element types: f32, f16 or bf16 in the first tensor, and the same in all others.
[[nodiscard]] constexpr error check_types(std::string_view op, std::initializer_list<typed_argument> tensors) noexcept {
    shape::operator_checks checks(op);
    const typed_argument& first = *tensors.begin();
    const auto number = [](data_type t) { return static_cast<std::int64_t>(t); };
    checks.require(first.type == data_type::f32 || first.type == data_type::f16 || first.type == data_type::bf16,
                   errc::unsupported, first.name, -1, number(first.type), expectation::none, 0,
                   {.what = quantity::type, .why = "f32, f16 or bf16"});
    for (const typed_argument& t : tensors)
        if (!(t.may_be_f32 && t.type == data_type::f32))
            checks.require_equal(errc::unsupported, t.name, -1, number(t.type), number(first.type),
                                 {.what = quantity::type, .other = first.name, .why = t.may_be_f32 ? or_f32 : ""});
    return checks.error();
}

/// Check 3 for the weight gradients: as check_types, and diff_bias, where there is one, has the type of diff_weights.
[[nodiscard]] constexpr error check_gradient_types(std::string_view op, const const_dynamic_view& src,
                                                   const const_dynamic_view& diff_dst, const dynamic_view& diff_weights,
                                                   const dynamic_view& diff_bias) noexcept {
    const error e =
        check_types(op, {{"src", src.type}, {"diff_dst", diff_dst.type}, {"diff_weights", diff_weights.type, true}});
    if (e.code != errc::ok || diff_bias.layout.empty()) return e;
    shape::operator_checks checks(op);
    checks.require_equal(errc::unsupported, "diff_bias", -1, static_cast<std::int64_t>(diff_bias.type),
                         static_cast<std::int64_t>(diff_weights.type),
                         {.what = quantity::type, .other = "diff_weights"});
    return checks.error();
}

/// Which of two errors comes first in the order of checks: that of the shapes, if any, or that of the types.
[[nodiscard]] constexpr error earlier_error(const error& shapes, const error& types) noexcept {
    return shape::precedes_types(shapes.code) ? shapes : types;
}

/// Calls fn(std::type_identity<T>) for the T of a type that check_types let pass.
template <class Fn>
[[nodiscard]] status with_type(data_type type, const Fn& fn) noexcept {
    if (type == data_type::f16) return fn(std::type_identity<float16>{});
    if (type == data_type::bf16) return fn(std::type_identity<bfloat16>{});
    return fn(std::type_identity<float>{});
}

/// Calls fn(std::type_identity<T>, std::type_identity<G>): G is T, or float where `other` says so.
template <class Fn>
[[nodiscard]] status with_types(data_type type, data_type other, const Fn& fn) noexcept {
    return with_type(type, [&]<class T>(std::type_identity<T> t) noexcept {
        return other == type ? fn(t, t) : fn(t, std::type_identity<float>{});
    });
}

}  // namespace detail

// -------------------------------------------------------------------------------------------------------- convolution

/// Forward convolution; `bias` may be f32, or {} for none. Typed: convolution_plan::run.
[[nodiscard]] inline status convolution(const const_dynamic_view& src, const const_dynamic_view& weights,
                                        const const_dynamic_view& bias, const convolution_attributes& attributes,
                                        const dynamic_view& dst, const call_options& options = {}) noexcept {
    const detail::typed_argument b = detail::bias_argument(bias, src.type);
    const error types =
        detail::check_types("convolution", {{"src", src.type}, {"weights", weights.type}, b, {"dst", dst.type}});
    if (types.code != errc::ok) {
        const auto p = shape::convolution_shapes(src.layout.shape, weights.layout.shape, attributes, dst.layout.shape,
                                                 true, 1, bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(src.type, b.type, [&]<class T, class B>(std::type_identity<T>, std::type_identity<B>) {
        return convolution<T, B>(src.as<T>(), weights.as<T>(), bias.as<B>(), attributes, dst.as<T>(), options);
    });
}

/// Data gradient of a convolution. Typed: convolution_backward_data_plan::run.
[[nodiscard]] inline status convolution_backward_data(const const_dynamic_view& diff_dst,
                                                      const const_dynamic_view& weights,
                                                      const convolution_attributes& attributes,
                                                      const dynamic_view& diff_src,
                                                      const call_options& options = {}) noexcept {
    const error types =
        detail::check_types("convolution_backward_data",
                            {{"diff_dst", diff_dst.type}, {"weights", weights.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p = shape::convolution_backward_data_shapes(diff_dst.layout.shape, weights.layout.shape, attributes,
                                                               diff_src.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(diff_dst.type, [&]<class T>(std::type_identity<T>) {
        return convolution_backward_data<T>(diff_dst.as<T>(), weights.as<T>(), attributes, diff_src.as<T>(), options);
    });
}

/// Weight gradient of a convolution, and that of its bias where `diff_bias` is not {}; both may be f32. Typed:
/// convolution_backward_weights_plan::run.
[[nodiscard]] inline status convolution_backward_weights(
    const const_dynamic_view& src, const const_dynamic_view& diff_dst, const convolution_attributes& attributes,
    const dynamic_view& diff_weights, const dynamic_view& diff_bias = {}, const call_options& options = {}) noexcept {
    const error types =
        detail::check_gradient_types("convolution_backward_weights", src, diff_dst, diff_weights, diff_bias);
    if (types.code != errc::ok) {
        const auto p =
            shape::convolution_backward_weights_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                       diff_weights.layout.shape, true, 1, diff_bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(
        src.type, diff_weights.type, [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) {
            return convolution_backward_weights<T, G>(src.as<T>(), diff_dst.as<T>(), attributes, diff_weights.as<G>(),
                                                      diff_bias.as<G>(), options);
        });
}

// ---------------------------------------------------------------------------------------------- transposed convolution

/// Forward transposed convolution; `bias` may be f32, or {} for none. Typed: conv_transpose_plan::run.
[[nodiscard]] inline status conv_transpose(const const_dynamic_view& src, const const_dynamic_view& weights,
                                           const const_dynamic_view& bias, const conv_transpose_attributes& attributes,
                                           const dynamic_view& dst, const call_options& options = {}) noexcept {
    const detail::typed_argument b = detail::bias_argument(bias, src.type);
    const error types =
        detail::check_types("conv_transpose", {{"src", src.type}, {"weights", weights.type}, b, {"dst", dst.type}});
    if (types.code != errc::ok) {
        const auto p = shape::conv_transpose_shapes(src.layout.shape, weights.layout.shape, attributes,
                                                    dst.layout.shape, true, 1, bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(src.type, b.type, [&]<class T, class B>(std::type_identity<T>, std::type_identity<B>) {
        return conv_transpose<T, B>(src.as<T>(), weights.as<T>(), bias.as<B>(), attributes, dst.as<T>(), options);
    });
}

/// Data gradient of a transposed convolution. Typed: conv_transpose_backward_data_plan::run.
[[nodiscard]] inline status conv_transpose_backward_data(const const_dynamic_view& diff_dst,
                                                         const const_dynamic_view& weights,
                                                         const conv_transpose_attributes& attributes,
                                                         const dynamic_view& diff_src,
                                                         const call_options& options = {}) noexcept {
    const error types =
        detail::check_types("conv_transpose_backward_data",
                            {{"diff_dst", diff_dst.type}, {"weights", weights.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p = shape::conv_transpose_backward_data_shapes(diff_dst.layout.shape, weights.layout.shape,
                                                                  attributes, diff_src.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(diff_dst.type, [&]<class T>(std::type_identity<T>) {
        return conv_transpose_backward_data<T>(diff_dst.as<T>(), weights.as<T>(), attributes, diff_src.as<T>(),
                                               options);
    });
}

/// Weight gradient of a transposed convolution, and that of its bias where `diff_bias` is not {}; both may be f32. Typed:
/// conv_transpose_backward_weights_plan::run.
[[nodiscard]] inline status conv_transpose_backward_weights(
    const const_dynamic_view& src, const const_dynamic_view& diff_dst, const conv_transpose_attributes& attributes,
    const dynamic_view& diff_weights, const dynamic_view& diff_bias = {}, const call_options& options = {}) noexcept {
    const error types =
        detail::check_gradient_types("conv_transpose_backward_weights", src, diff_dst, diff_weights, diff_bias);
    if (types.code != errc::ok) {
        const auto p =
            shape::conv_transpose_backward_weights_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                          diff_weights.layout.shape, true, 1, diff_bias.layout.shape);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(
        src.type, diff_weights.type, [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) {
            return conv_transpose_backward_weights<T, G>(src.as<T>(), diff_dst.as<T>(), attributes,
                                                         diff_weights.as<G>(), diff_bias.as<G>(), options);
        });
}

// ---------------------------------------------------------------------------------------------------------------- bias

/// Gradient of the bias of either family; `diff_bias` may be f32. Typed: bias_backward_plan::run.
[[nodiscard]] inline status bias_backward(const const_dynamic_view& diff_dst, const bias_attributes& attributes,
                                          const dynamic_view& diff_bias, const call_options& options = {}) noexcept {
    const error types =
        detail::check_types("bias_backward", {{"diff_dst", diff_dst.type}, {"diff_bias", diff_bias.type, true}});
    if (types.code != errc::ok) {
        const auto p = shape::bias_backward_shapes(diff_dst.layout.shape, attributes, diff_bias.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_types(diff_dst.type, diff_bias.type,
                              [&]<class T, class G>(std::type_identity<T>, std::type_identity<G>) {
                                  return bias_backward<T, G>(diff_dst.as<T>(), attributes, diff_bias.as<G>(), options);
                              });
}

// ------------------------------------------------------------------------------------------------------------- pooling

/// Average pool. Typed: avg_pool_plan::run.
[[nodiscard]] inline status avg_pool(const const_dynamic_view& src, const avg_pool_attributes& attributes,
                                     const dynamic_view& dst, const call_options& options = {}) noexcept {
    const error types = detail::check_types("avg_pool", {{"src", src.type}, {"dst", dst.type}});
    if (types.code != errc::ok) {
        const auto p = shape::avg_pool_shapes(src.layout.shape, attributes, dst.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) {
        return avg_pool<T>(src.as<T>(), attributes, dst.as<T>(), options);
    });
}

/// Gradient of an average pool. Typed: avg_pool_backward_plan::run.
[[nodiscard]] inline status avg_pool_backward(const const_dynamic_view& diff_dst, const avg_pool_attributes& attributes,
                                              const dynamic_view& diff_src, const call_options& options = {}) noexcept {
    const error types =
        detail::check_types("avg_pool_backward", {{"diff_dst", diff_dst.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p =
            shape::avg_pool_backward_shapes(diff_dst.layout.shape, attributes, diff_src.layout.shape, true, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(diff_dst.type, [&]<class T>(std::type_identity<T>) {
        return avg_pool_backward<T>(diff_dst.as<T>(), attributes, diff_src.as<T>(), options);
    });
}

/// Max pool; `indices` may be an empty view. Typed: max_pool_plan::run.
[[nodiscard]] inline status max_pool(const const_dynamic_view& src, const max_pool_attributes& attributes,
                                     const dynamic_view& dst, tensor_view<std::int64_t> indices = {},
                                     const call_options& options = {}) noexcept {
    const error types = detail::check_types("max_pool", {{"src", src.type}, {"dst", dst.type}});
    if (types.code != errc::ok) {
        const auto p = shape::max_pool_shapes(src.layout.shape, attributes, dst.layout.shape, indices.layout.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) {
        return max_pool<T>(src.as<T>(), attributes, dst.as<T>(), indices, options);
    });
}

/// Gradient of a max pool. Typed: max_pool_backward_plan::run.
[[nodiscard]] inline status max_pool_backward(const const_dynamic_view& src, const const_dynamic_view& diff_dst,
                                              const max_pool_attributes& attributes, const dynamic_view& diff_src,
                                              const call_options& options = {}) noexcept {
    const error types = detail::check_types(
        "max_pool_backward", {{"src", src.type}, {"diff_dst", diff_dst.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p = shape::max_pool_backward_shapes(src.layout.shape, diff_dst.layout.shape, attributes,
                                                       diff_src.layout.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(src.type, [&]<class T>(std::type_identity<T>) {
        return max_pool_backward<T>(src.as<T>(), diff_dst.as<T>(), attributes, diff_src.as<T>(), options);
    });
}

/// Gradient of a max pool from indices. Typed: max_pool_backward_from_indices_plan::run.
[[nodiscard]] inline status max_pool_backward_from_indices(const const_dynamic_view& diff_dst,
                                                           tensor_view<const std::int64_t> indices,
                                                           const max_pool_indices_attributes& attributes,
                                                           const dynamic_view& diff_src,
                                                           const call_options& options = {}) noexcept {
    const error types = detail::check_types("max_pool_backward_from_indices",
                                            {{"diff_dst", diff_dst.type}, {"diff_src", diff_src.type}});
    if (types.code != errc::ok) {
        const auto p = shape::max_pool_backward_from_indices_shapes(diff_dst.layout.shape, indices.layout.shape,
                                                                    attributes, diff_src.layout.shape, 1);
        return detail::earlier_error(p.error(), types);
    }
    return detail::with_type(diff_dst.type, [&]<class T>(std::type_identity<T>) {
        return max_pool_backward_from_indices<T>(diff_dst.as<T>(), indices, attributes, diff_src.as<T>(), options);
    });
}

GRADKERN_ISA_NAMESPACE_END
