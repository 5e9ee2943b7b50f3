// AveragePoolGrad, the gradient of ONNX's AveragePool (see ../onnxruntime.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/avg_pool.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onnxruntime/attributes.hpp>
#include <gradkern/frontend/onnxruntime/translation.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onnxruntime {

namespace translation {

/// All checks of shapes and attributes; the core's attributes if they pass.
[[nodiscard]] constexpr result<avg_pool_attributes> check_average_pool_grad(const extents& dY,
                                                                            const AveragePoolGrad_attributes& a,
                                                                            const extents& dX,
                                                                            std::int64_t element_bytes) noexcept {
    shape::operator_checks checks(average_pool_grad.text);
    checks.spatial_rank("dY", dY);
    if (!checks.ok()) return checks.error();
    const window w = read_window(checks, a, dY.rank() - 2, true);
    window_values(checks, a);
    flag(checks, "ceil_mode", a.ceil_mode);
    flag(checks, "count_include_pad", a.count_include_pad);
    if (!checks.ok()) return checks.error();

    const avg_pool_attributes core{.kernel = w.kernel,
                                   .strides = w.strides,
                                   .pads_begin = w.pads_begin,
                                   .pads_end = w.pads_end,
                                   .dilations = w.dilations,
                                   .exclude_pad = a.count_include_pad == 0,
                                   .auto_pad = w.auto_pad,
                                   .rounding_type = a.ceil_mode == 0 ? rounding_type::floor : rounding_type::ceil_torch,
                                   .data_format = data_format::ncx};
    shape::pooling_request q{.op = average_pool_grad.text,
                             .backward = true,
                             .large_name = "dX",
                             .small_name = "dY",
                             .large = dX,
                             .small = dY,
                             .result_is_tensor = true,
                             .element_bytes = element_bytes};
    q.take(core);
    const auto p = shape::infer_pooling_problem(q);
    if (!p) return translate(p.error(), average_pool_grad.text);
    return core;
}

}  // namespace translation

/// The shape of dX. The caller must give it, since several sizes have the same number of windows; else missing_shape.
[[nodiscard]] constexpr result<extents> infer_AveragePoolGrad(const extents& dY,
                                                              const AveragePoolGrad_attributes& attributes,
                                                              const extents& dX) noexcept {
    const auto core = translation::check_average_pool_grad(dY, attributes, dX, 4);
    if (!core) return core.error();
    return dX;
}

/// A planned AveragePoolGrad. It is a value: copy it, and share it between threads.
template <class T>
class AveragePoolGrad_plan : public translation::plan<avg_pool_backward_plan<T>, translation::average_pool_grad> {
public:
    using translation::plan<avg_pool_backward_plan<T>, translation::average_pool_grad>::plan;

    /// Distributes each element of dY evenly over its window of dX, as avg_pool_backward_plan::run.
    [[nodiscard]] status run(const T* dY, T* dX, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(dY, dX, workspace, executor);
    }
};

/// Plans AveragePoolGrad_plan::run. dX has the shape of AveragePool's input.
template <class T>
[[nodiscard]] result<AveragePoolGrad_plan<T>> plan_AveragePoolGrad(const tensor_layout& dY,
                                                                   const AveragePoolGrad_attributes& attributes,
                                                                   const tensor_layout& dX,
                                                                   const plan_options& options = {}) noexcept {
    const auto core = translation::check_average_pool_grad(dY.shape, attributes, dX.shape, sizeof(T));
    if (!core) return core.error();
    const auto plan = plan_avg_pool_backward<T>(dY, *core, dX, options);
    if (!plan) return translation::translate(plan.error(), translation::average_pool_grad.text);
    return AveragePoolGrad_plan<T>(*plan);
}

/// AveragePoolGrad in one call.
template <class T>
[[nodiscard]] status AveragePoolGrad(tensor_view<const T> dY, const AveragePoolGrad_attributes& attributes,
                                     std::type_identity_t<tensor_view<T>> dX,
                                     const call_options& options = {}) noexcept {
    const auto core = translation::check_average_pool_grad(dY.layout.shape, attributes, dX.layout.shape, sizeof(T));
    if (!core) return core.error();
    const status s = avg_pool_backward<T>(dY, *core, dX, options);
    return translation::translate(s.error(), translation::average_pool_grad.text);
}

/// The same for a `dY` that is a view of mutable elements.
template <mutable_view DY>
[[nodiscard]] status AveragePoolGrad(const DY& dY, const AveragePoolGrad_attributes& attributes,
                                     tensor_view<typename DY::element_type> dX,
                                     const call_options& options = {}) noexcept {
    return AveragePoolGrad<typename DY::element_type>(dY, attributes, dX, options);
}

}  // namespace onnxruntime
GRADKERN_ISA_NAMESPACE_END
