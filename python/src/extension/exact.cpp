// Correctly rounded results: ref::exact of the headers, for the types that the operators take.
#include "judge.hpp"

#include <cstdint>
#include <type_traits>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <gradkern/error_text.hpp>
#include <gradkern/half.hpp>
#include <gradkern/ref/exact.hpp>

#include "plan.hpp"
#include "plans.hpp"  // of the compiled library: attributes of a problem

namespace gradkern_python {
namespace {

namespace gk = gradkern;
namespace exact = gradkern::ref::exact;

using gradkern_runtime::attributes_of;
using gradkern_runtime::layout_of;

/// Calls f(T()) with the type of a tensor.
template <class F>
auto with_type(std::int32_t type, const F& f) {
    switch (type) {
        case GRADKERN_F16: return f(gk::float16());
        case GRADKERN_BF16: return f(gk::bfloat16());
        case GRADKERN_F64: return f(double());
        default: return f(float());
    }
}

/// A call whose first tensor has elements of type T. Types and layouts are known to fit.
template <class T>
class typed_call {
public:
    typed_call(const gradkern_problem& p, const tensors& t) : p_(p), t_(t) {
        options_.plan = gradkern_runtime::options_of(p);
    }

    [[nodiscard]] gk::status operator()() const {
        switch (p_.op) {
            case GRADKERN_CONVOLUTION:
                return with_convolution_types(3, [&](auto w, auto y) {
                    return with_gradient_type(2, [&](auto bias) {
                        return exact::convolution<T, decltype(w), decltype(y), decltype(bias)>(
                            in(0), view<const decltype(w)>(1), view<const decltype(bias)>(2),
                            attributes_of<gk::convolution_attributes>(p_), view<decltype(y)>(3), options_);
                    });
                });
            case GRADKERN_CONVOLUTION_BACKWARD_DATA:
                return with_convolution_types(2, [&](auto w, auto dx) {
                    return exact::convolution_backward_data<T, decltype(w), decltype(dx)>(
                        in(0), view<const decltype(w)>(1), attributes_of<gk::convolution_attributes>(p_),
                        view<decltype(dx)>(2), options_);
                });
            case GRADKERN_CONVOLUTION_BACKWARD_WEIGHTS:
                return with_gradient_type(2, [&](auto g) {
                    return exact::convolution_backward_weights<T, decltype(g)>(
                        in(0), in(1), attributes_of<gk::convolution_attributes>(p_), view<decltype(g)>(2),
                        view<decltype(g)>(3), options_);
                });
            case GRADKERN_CONV_TRANSPOSE:
                return with_convolution_types(3, [&](auto w, auto y) {
                    return with_gradient_type(2, [&](auto bias) {
                        return exact::conv_transpose<T, decltype(w), decltype(y), decltype(bias)>(
                            in(0), view<const decltype(w)>(1), view<const decltype(bias)>(2),
                            attributes_of<gk::conv_transpose_attributes>(p_), view<decltype(y)>(3), options_);
                    });
                });
            case GRADKERN_CONV_TRANSPOSE_BACKWARD_DATA:
                return with_convolution_types(2, [&](auto w, auto dx) {
                    return exact::conv_transpose_backward_data<T, decltype(w), decltype(dx)>(
                        in(0), view<const decltype(w)>(1), attributes_of<gk::conv_transpose_attributes>(p_),
                        view<decltype(dx)>(2), options_);
                });
            case GRADKERN_CONV_TRANSPOSE_BACKWARD_WEIGHTS:
                return with_gradient_type(2, [&](auto g) {
                    return exact::conv_transpose_backward_weights<T, decltype(g)>(
                        in(0), in(1), attributes_of<gk::conv_transpose_attributes>(p_), view<decltype(g)>(2),
                        view<decltype(g)>(3), options_);
                });
            case GRADKERN_BIAS_BACKWARD:
                return with_gradient_type(1, [&](auto g) {
                    return exact::bias_backward<T, decltype(g)>(in(0), attributes_of<gk::bias_attributes>(p_),
                                                                view<decltype(g)>(1), options_);
                });
            case GRADKERN_AVG_POOL:
                return exact::avg_pool<T>(in(0), attributes_of<gk::avg_pool_attributes>(p_), out(1), options_);
            case GRADKERN_AVG_POOL_BACKWARD:
                return exact::avg_pool_backward<T>(in(0), attributes_of<gk::avg_pool_attributes>(p_), out(1), options_);
            case GRADKERN_LP_POOL:
                return exact::lp_pool<T>(in(0), attributes_of<gk::lp_pool_attributes>(p_), out(1), options_);
            case GRADKERN_LP_POOL_BACKWARD:
                return exact::lp_pool_backward<T>(in(0), in(1), in(2), attributes_of<gk::lp_pool_attributes>(p_),
                                                  out(3), options_);
            case GRADKERN_MAX_POOL:
                return exact::max_pool<T>(in(0), attributes_of<gk::max_pool_attributes>(p_), out(1),
                                          view<std::int64_t>(2), options_);
            case GRADKERN_MAX_POOL_BACKWARD:
                return exact::max_pool_backward<T>(in(0), in(1), attributes_of<gk::max_pool_attributes>(p_), out(2),
                                                   options_);
            default:
                return exact::max_pool_backward_from_indices<T>(in(0), view<const std::int64_t>(1),
                                                                attributes_of<gk::max_pool_indices_attributes>(p_),
                                                                out(2), options_);
        }
    }

private:
    template <class E>
    [[nodiscard]] gk::tensor_view<E> view(std::size_t i) const {
        if (i >= t_.size() || !t_[i]) return {};
        return {static_cast<E*>(t_[i]->data()), layout_of(t_[i]->layout())};
    }
    [[nodiscard]] gk::tensor_view<const T> in(std::size_t i) const { return view<const T>(i); }
    [[nodiscard]] gk::tensor_view<T> out(std::size_t i) const { return view<T>(i); }

    /// Calls f(weight, result) with the types of a convolution, which may be f32 where the input has 16 bits.
    template <class F>
    [[nodiscard]] gk::status with_convolution_types(std::size_t result, const F& f) const {
        if constexpr (sizeof(T) == 2) {
            if (t_[1]->layout().type == GRADKERN_F32) return f(float(), float());
            if (t_[result]->layout().type == GRADKERN_F32) return f(T(), float());
        }
        return f(T(), T());
    }
    /// Bias, and gradients of weights and bias, may be f32 where the others have 16 bits.
    template <class F>
    [[nodiscard]] gk::status with_gradient_type(std::size_t i, const F& f) const {
        if constexpr (sizeof(T) == 2)
            if (t_.size() > i && t_[i] && t_[i]->layout().type == GRADKERN_F32) return f(float());
        return f(T());
    }

    const gradkern_problem& p_;
    const tensors& t_;
    gk::call_options options_{};
};

}  // namespace

void compute_exact(const problem& p, const tensors& t) {
    const plan checked(p, t);  // for its errors
    const nb::gil_scoped_release released;
    const gk::status s =
        with_type(p.get().tensors[0].type, [&](auto element) { return typed_call<decltype(element)>(p.get(), t)(); });
    if (!s) throw mistake(gk::to_string(s));
}

}  // namespace gradkern_python
