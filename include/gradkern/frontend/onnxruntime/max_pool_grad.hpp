// MaxPoolGrad, the gradient of ONNX's MaxPool from the indices it returned (see ../onnxruntime.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/onnxruntime/attributes.hpp>
#include <gradkern/frontend/onnxruntime/translation.hpp>
#include <gradkern/max_pool.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onnxruntime {

namespace translation {

inline constexpr operator_name max_pool_grad{"MaxPoolGrad"};

/// All checks except those of the values of the indices; the core's attributes if they pass.
[[nodiscard]] constexpr result<max_pool_indices_attributes> check_max_pool_grad(const extents& dY,
                                                                                const extents& indices,
                                                                                const MaxPoolGrad_attributes& a,
                                                                                const extents& dX,
                                                                                std::int64_t element_bytes) noexcept {
    shape::operator_checks checks(max_pool_grad.text);
    checks.spatial_rank("dY", dY);
    flag(checks, "storage_order", a.storage_order);
    if (!checks.ok()) return checks.error();
    const max_pool_indices_attributes core{
        .data_format = data_format::ncx,
        .index_base = index_base::tensor,
        .storage_order = a.storage_order == 0 ? storage_order::row_major : storage_order::column_major};
    const auto p = shape::max_pool_backward_from_indices_shapes(dY, indices, core, dX, element_bytes);
    if (!p) return translate(p.error(), max_pool_grad.text);
    return core;
}

}  // namespace translation

/// The shape of dX. The caller must give it, since its spatial sizes are free; else missing_shape.
[[nodiscard]] constexpr result<extents> infer_MaxPoolGrad(const extents& dY, const extents& indices,
                                                          const MaxPoolGrad_attributes& attributes,
                                                          const extents& dX) noexcept {
    const auto core = translation::check_max_pool_grad(dY, indices, attributes, dX, 4);
    if (!core) return core.error();
    return dX;
}

/// A planned MaxPoolGrad. It is a value: copy it, and share it between threads.
template <class T>
class MaxPoolGrad_plan : public translation::plan<max_pool_backward_from_indices_plan<T>, translation::max_pool_grad> {
public:
    using translation::plan<max_pool_backward_from_indices_plan<T>, translation::max_pool_grad>::plan;

    /// Adds each element of dY to the element of dX that its index names, as max_pool_backward_from_indices_plan::run.
    /// All indices are checked before the first write, unless plan_options::index_check says otherwise. An index below -1 or
    /// outside dX is index_out_of_range.
    [[nodiscard]] status run(const T* dY, const std::int64_t* indices, T* dX, std::span<std::byte> workspace = {},
                             executor_ref executor = {}) const noexcept {
        return this->execute(dY, indices, dX, workspace, executor);
    }
};

/// Plans MaxPoolGrad_plan::run. dX has the shape of MaxPool's input.
template <class T>
[[nodiscard]] result<MaxPoolGrad_plan<T>> plan_MaxPoolGrad(const tensor_layout& dY, const tensor_layout& indices,
                                                           const MaxPoolGrad_attributes& attributes,
                                                           const tensor_layout& dX,
                                                           const plan_options& options = {}) noexcept {
    const auto core = translation::check_max_pool_grad(dY.shape, indices.shape, attributes, dX.shape, sizeof(T));
    if (!core) return core.error();
    const auto plan = plan_max_pool_backward_from_indices<T>(dY, indices, *core, dX, options);
    if (!plan) return translation::translate(plan.error(), translation::max_pool_grad.text);
    return MaxPoolGrad_plan<T>(*plan);
}

/// MaxPoolGrad in one call.
template <class T>
[[nodiscard]] status MaxPoolGrad(tensor_view<const T> dY, tensor_view<const std::int64_t> indices,
                                 const MaxPoolGrad_attributes& attributes, std::type_identity_t<tensor_view<T>> dX,
                                 const call_options& options = {}) noexcept {
    const auto core =
        translation::check_max_pool_grad(dY.layout.shape, indices.layout.shape, attributes, dX.layout.shape, sizeof(T));
    if (!core) return core.error();
    const status s = max_pool_backward_from_indices<T>(dY, indices, *core, dX, options);
    return translation::translate(s.error(), translation::max_pool_grad.text);
}

/// The same for a `dY` that is a view of mutable elements.
template <mutable_view DY>
[[nodiscard]] status MaxPoolGrad(const DY& dY, tensor_view<const std::int64_t> indices,
                                 const MaxPoolGrad_attributes& attributes, tensor_view<typename DY::element_type> dX,
                                 const call_options& options = {}) noexcept {
    return MaxPoolGrad<typename DY::element_type>(dY, indices, attributes, dX, options);
}

}  // namespace onnxruntime
GRADKERN_ISA_NAMESPACE_END
