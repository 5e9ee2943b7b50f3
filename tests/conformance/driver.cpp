// A C interface over gradkern/dynamic.hpp. The scripts of this folder load it with ctypes (gradkern.py) and run the cases of
// other projects' test suites through it, thousands in one process.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <gradkern/accuracy.hpp>
#include <gradkern/dynamic.hpp>
#include <gradkern/gradkern.hpp>
#include <gradkern/workspace.hpp>

using namespace gradkern;

namespace {

/// A list of up to five numbers; size 0 is an absent one.
struct numbers {
    std::int64_t size;
    std::int64_t values[extents::capacity];

    [[nodiscard]] extents get() const noexcept { return extents(std::span(values, static_cast<std::size_t>(size))); }
};

/// A tensor of the caller's; an empty shape is an absent one.
struct tensor {
    std::int64_t type;  ///< a data_type; that of indices is ignored
    void* data;
    numbers shape, strides;  ///< in elements

    [[nodiscard]] tensor_layout layout() const noexcept {
        return shape.size == 0 ? tensor_layout{} : tensor_layout(shape.get(), strides.get());
    }
    [[nodiscard]] dynamic_layout planned() const noexcept { return {static_cast<data_type>(type), layout()}; }
};

/// The attributes of all operators together.
struct attributes {
    numbers kernel, strides, dilations, pads_begin, pads_end, output_padding;
    std::int64_t groups;
    std::int64_t auto_pad, rounding_type, data_format, weights_format, index_base, storage_order;  ///< enumerators
    std::int64_t exclude_pad, ignore_nan;                                                          ///< 0 or 1
    std::int64_t divisor_override;                                                                 ///< 0: none

    /// Those that an operator has.
    template <class Attributes>
    [[nodiscard]] Attributes as() const noexcept {
        Attributes a;
        a.data_format = static_cast<gradkern::data_format>(data_format);
        if constexpr (requires { a.strides; }) {
            a.strides = strides.get();
            a.dilations = dilations.get();
            a.pads_begin = pads_begin.get();
            a.pads_end = pads_end.get();
            a.auto_pad = static_cast<gradkern::auto_pad>(auto_pad);
        }
        if constexpr (requires { a.weights_format; }) {
            a.output_padding = output_padding.get();
            a.groups = groups;
            a.weights_format = static_cast<gradkern::weights_format>(weights_format);
        }
        if constexpr (requires { a.kernel; }) {
            a.kernel = kernel.get();
            a.rounding_type = static_cast<gradkern::rounding_type>(rounding_type);
        }
        if constexpr (requires { a.exclude_pad; }) {
            a.exclude_pad = exclude_pad != 0;
            if (divisor_override != 0) a.divisor_override = divisor_override;
        }
        if constexpr (requires { a.ignore_nan; }) a.ignore_nan = ignore_nan != 0;
        if constexpr (requires { a.index_base; }) {
            a.index_base = static_cast<gradkern::index_base>(index_base);
            a.storage_order = static_cast<gradkern::storage_order>(storage_order);
        }
        return a;
    }
    [[nodiscard]] convolution_attributes convolution() const noexcept { return as<convolution_attributes>(); }
    [[nodiscard]] conv_transpose_attributes conv_transpose() const noexcept { return as<conv_transpose_attributes>(); }
    [[nodiscard]] bias_attributes bias() const noexcept { return as<bias_attributes>(); }
    [[nodiscard]] avg_pool_attributes avg_pool() const noexcept { return as<avg_pool_attributes>(); }
    [[nodiscard]] lp_pool_attributes lp_pool() const noexcept { return as<lp_pool_attributes>(); }
    [[nodiscard]] max_pool_attributes max_pool() const noexcept { return as<max_pool_attributes>(); }
    [[nodiscard]] max_pool_indices_attributes indices() const noexcept { return as<max_pool_indices_attributes>(); }
};

constexpr status unknown(std::string_view op) noexcept {
    return error{.code = errc::unsupported, .op = op, .relation = expectation::none, .why = "no such operator"};
}

/// Runs a plan, if there is one, with as much workspace as its fastest algorithm needs.
template <class Plan, class... Pointers>
status run(const result<Plan>& plan, Pointers... pointers) {
    if (!plan) return plan.error();
    workspace scratch(plan->workspace_bytes());
    return plan->run(pointers..., scratch);
}

/// Inputs and outputs in the order of the table of operators in README.md.
status call(std::string_view op, const tensor* t, const attributes& a) {
    const auto p = [t](int i) { return t[i].planned(); };
    const auto in = [t](int i) -> const void* { return t[i].data; };
    const auto out = [t](int i) { return t[i].data; };
    if (op == "convolution")
        return run(plan_convolution(p(0), p(1), p(2), a.convolution(), p(3)), in(0), in(1), in(2), out(3));
    if (op == "convolution_backward_data")
        return run(plan_convolution_backward_data(p(0), p(1), a.convolution(), p(2)), in(0), in(1), out(2));
    if (op == "convolution_backward_weights")
        return run(plan_convolution_backward_weights(p(0), p(1), a.convolution(), p(2), p(3)), in(0), in(1), out(2),
                   out(3));
    if (op == "conv_transpose")
        return run(plan_conv_transpose(p(0), p(1), p(2), a.conv_transpose(), p(3)), in(0), in(1), in(2), out(3));
    if (op == "conv_transpose_backward_data")
        return run(plan_conv_transpose_backward_data(p(0), p(1), a.conv_transpose(), p(2)), in(0), in(1), out(2));
    if (op == "conv_transpose_backward_weights")
        return run(plan_conv_transpose_backward_weights(p(0), p(1), a.conv_transpose(), p(2), p(3)), in(0), in(1),
                   out(2), out(3));
    if (op == "bias_backward") return run(plan_bias_backward(p(0), a.bias(), p(1)), in(0), out(1));
    if (op == "avg_pool") return run(plan_avg_pool(p(0), a.avg_pool(), p(1)), in(0), out(1));
    if (op == "avg_pool_backward") return run(plan_avg_pool_backward(p(0), a.avg_pool(), p(1)), in(0), out(1));
    if (op == "lp_pool") return run(plan_lp_pool(p(0), a.lp_pool(), p(1)), in(0), out(1));
    if (op == "lp_pool_backward")
        return run(plan_lp_pool_backward(p(0), p(1), p(2), a.lp_pool(), p(3)), in(0), in(1), in(2), out(3));
    if (op == "max_pool")
        return run(plan_max_pool(p(0), a.max_pool(), p(1), t[2].layout()), in(0), out(1),
                   static_cast<std::int64_t*>(out(2)));
    if (op == "max_pool_backward")
        return run(plan_max_pool_backward(p(0), p(1), a.max_pool(), p(2)), in(0), in(1), out(2));
    if (op == "max_pool_backward_from_indices")
        return run(plan_max_pool_backward_from_indices(p(0), t[1].layout(), a.indices(), p(2)), in(0),
                   static_cast<const std::int64_t*>(in(1)), out(2));
    return unknown(op);
}

/// The shape of a forward operator's result.
result<extents> infer(std::string_view op, const tensor* t, const attributes& a) {
    const auto shape = [t](int i) { return t[i].shape.get(); };
    if (op == "convolution") return infer_convolution(shape(0), shape(1), a.convolution());
    if (op == "conv_transpose") return infer_conv_transpose(shape(0), shape(1), a.conv_transpose());
    if (op == "avg_pool") return infer_avg_pool(shape(0), a.avg_pool());
    if (op == "lp_pool") return infer_lp_pool(shape(0), a.lp_pool());
    if (op == "max_pool") return infer_max_pool(shape(0), a.max_pool());
    return unknown(op).error();
}

/// The bound of an operator's first output, all tensors of type T.
template <class T>
result<accuracy::error_bound<T>> bound(std::string_view op, const tensor* t, const attributes& a) {
    const auto l = [t](int i) { return t[i].layout(); };
    if (op == "convolution") return accuracy::convolution<T>(l(0), l(1), l(2), a.convolution(), l(3));
    if (op == "convolution_backward_data")
        return accuracy::convolution_backward_data<T>(l(0), l(1), a.convolution(), l(2));
    if (op == "convolution_backward_weights")
        return accuracy::convolution_backward_weights<T>(l(0), l(1), a.convolution(), l(2));
    if (op == "conv_transpose") return accuracy::conv_transpose<T>(l(0), l(1), l(2), a.conv_transpose(), l(3));
    if (op == "conv_transpose_backward_data")
        return accuracy::conv_transpose_backward_data<T>(l(0), l(1), a.conv_transpose(), l(2));
    if (op == "conv_transpose_backward_weights")
        return accuracy::conv_transpose_backward_weights<T>(l(0), l(1), a.conv_transpose(), l(2));
    if (op == "bias_backward") return accuracy::bias_backward<T>(l(0), a.bias(), l(1));
    if (op == "avg_pool") return accuracy::avg_pool<T>(l(0), a.avg_pool(), l(1));
    if (op == "avg_pool_backward") return accuracy::avg_pool_backward<T>(l(0), a.avg_pool(), l(1));
    if (op == "max_pool_backward") return accuracy::max_pool_backward<T>(l(0), l(1), a.max_pool(), l(2));
    if (op == "max_pool_backward_from_indices")
        return accuracy::max_pool_backward_from_indices<T>(l(0), l(1), a.indices(), l(2));
    return unknown(op).error();
}

/// 0, or 1 with the message of the error.
int report(const error& e, char* message, std::size_t capacity) {
    if (e.code == errc::ok) return 0;
    const std::size_t length = e.format(std::span(message, capacity - 1));
    message[length < capacity ? length : capacity - 1] = '\0';
    return 1;
}

}  // namespace

extern "C" {

/// Runs an operator. Returns 0, or 1 after it wrote a message.
int gradkern_call(const char* op, const tensor* tensors, const attributes* a, char* message, std::size_t capacity) {
    return report(call(op, tensors, *a).error(), message, capacity);
}

/// Writes the shape that a forward operator's result has.
int gradkern_infer(const char* op, const tensor* tensors, const attributes* a, numbers* shape, char* message,
                   std::size_t capacity) {
    const result<extents> inferred = infer(op, tensors, *a);
    if (!inferred) return report(inferred.error(), message, capacity);
    shape->size = static_cast<std::int64_t>(inferred->rank());
    for (std::size_t i = 0; i < inferred->rank(); ++i) shape->values[i] = (*inferred)[i];
    return 0;
}

/// Writes the error bounds of `count` elements, whose absolute terms add up to `sizes`, and which are `exact`.
int gradkern_bounds(const char* op, const tensor* tensors, const attributes* a, const double* sizes,
                    const double* exact, std::int64_t count, double* bounds, char* message, std::size_t capacity) {
    return detail::with_type(static_cast<data_type>(tensors[0].type), [&]<class T>(std::type_identity<T>) noexcept {
        const auto of = bound<T>(op, tensors, *a);
        if (!of) return report(of.error(), message, capacity);
        for (std::int64_t i = 0; i < count; ++i) bounds[i] = (*of)(sizes[i], exact[i]);
        return 0;
    });
}
}
