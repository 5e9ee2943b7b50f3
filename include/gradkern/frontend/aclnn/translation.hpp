// From aclnn's names to the core's: the checks of phase 1, the attributes, and the rounding of cubeMathType.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/executor.hpp>
#include <gradkern/frontend/aclnn/types.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/operators.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace aclnn {

/// Which limits of the original apply.
enum class product : std::uint8_t {
    current,  ///< those of the A2 and A3 products: any divisorOverride
    legacy    ///< those of older products: divisorOverride within [-255, 255]
};

namespace translation {

/// The arguments of aclnnAvgPool2dBackwardGetWorkspaceSize.
struct pool_call {
    const aclTensor* gradOutput = nullptr;
    const aclTensor* self = nullptr;
    const aclIntArray* kernelSize = nullptr;
    const aclIntArray* stride = nullptr;
    const aclIntArray* padding = nullptr;
    bool ceilMode = false;
    bool countIncludePad = false;
    std::int64_t divisorOverride = 0;
    std::int8_t cubeMathType = 0;
    const aclTensor* gradInput = nullptr;
    bool has_results = true;  ///< workspaceSize and executor are not null
    product profile = product::current;
};

/// The checks of phase 1 in their order; the numbers up to 12 are those of the operator's contract.
enum class check : std::uint8_t {
    none = 0,
    null_pointer = 1,
    data_type = 2,
    format = 3,
    rank = 4,
    negative_size = 5,
    kernel_size = 6,
    stride = 7,
    padding = 8,
    cube_math_type = 9,
    self_shape = 10,
    grad_output_shape = 11,
    divisor_override = 12,
    memory = 13  ///< strides and storage: memory_is_sound, and the address checks of the plan
};

/// The code of a failed check.
[[nodiscard]] constexpr aclnnStatus status_of(check failed) noexcept {
    if (failed == check::none) return ACLNN_SUCCESS;
    return failed == check::null_pointer ? ACLNN_ERR_PARAM_NULLPTR : ACLNN_ERR_PARAM_INVALID;
}

/// The code of a status of the core.
[[nodiscard]] constexpr aclnnStatus status_of(const status& s) noexcept {
    switch (s.code()) {
        case errc::ok: return ACLNN_SUCCESS;
        case errc::null_pointer: return ACLNN_ERR_PARAM_NULLPTR;
        default: return ACLNN_ERR_PARAM_INVALID;
    }
}

/// A tensor as (N, C, H, W): one without N has N = 1.
[[nodiscard]] constexpr tensor_layout nchw(const tensor_layout& t) noexcept {
    if (t.shape.rank() != 3) return t;
    tensor_layout four{1, t.shape[0], t.shape[1], t.shape[2]};
    if (!t.is_dense()) four.strides = {0, t.strides[0], t.strides[1], t.strides[2]};
    return four;
}

/// The core's attributes. Lists have one or two entries, and `stride` may be absent.
[[nodiscard]] constexpr avg_pool_attributes attributes_of(const pool_call& c) noexcept {
    const auto both = [](const aclIntArray& a) {
        return a.values.rank() == 1 ? extents::filled(2, a.values[0]) : a.values;
    };
    const extents kernel = both(*c.kernelSize);
    const extents pads = both(*c.padding);
    const bool has_stride = c.stride != nullptr && !c.stride->values.empty();
    return {.kernel = kernel,
            .strides = has_stride ? both(*c.stride) : kernel,
            .pads_begin = pads,
            .pads_end = pads,
            .exclude_pad = !c.countIncludePad,
            .rounding_type = c.ceilMode ? rounding_type::ceil_torch : rounding_type::floor,
            .divisor_override = c.divisorOverride == 0 ? std::nullopt : std::optional(c.divisorOverride),
            .data_format = data_format::ncx};
}

/// True where N or C is 0: there is nothing to compute.
[[nodiscard]] constexpr bool is_empty(const extents& nchw_shape) noexcept {
    return nchw_shape[0] == 0 || nchw_shape[1] == 0;
}

/// Whether all three tensors of a call pass.
template <class Holds>
[[nodiscard]] constexpr bool all_tensors(const pool_call& c, const Holds& holds) noexcept {
    return holds(*c.gradOutput) && holds(*c.self) && holds(*c.gradInput);
}

/// The first failing check of single tensors (1 to 5).
[[nodiscard]] constexpr check first_tensor_failure(const pool_call& c) noexcept {
    if (c.gradOutput == nullptr || c.self == nullptr || c.kernelSize == nullptr || c.padding == nullptr ||
        c.gradInput == nullptr || !c.has_results)
        return check::null_pointer;
    const aclDataType type = c.self->data_type;
    if (type != ACL_FLOAT && type != ACL_FLOAT16 && type != ACL_BF16) return check::data_type;
    if (!all_tensors(c, [&](const aclTensor& t) { return t.data_type == type; })) return check::data_type;
    if (!all_tensors(c, [](const aclTensor& t) {
            const std::size_t rank = t.view.shape.rank();
            if (rank == 4) return t.format == ACL_FORMAT_NCHW;
            return rank == 3 && (t.format == ACL_FORMAT_NCL || t.format == ACL_FORMAT_NCHW);
        }))
        return check::format;
    const std::size_t rank = c.self->view.shape.rank();
    if (!all_tensors(c, [&](const aclTensor& t) { return t.view.shape.rank() == rank; })) return check::rank;
    if (!all_tensors(c, [](const aclTensor& t) {
            const auto sizes = t.view.shape.values();
            return std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 0; });
        }))
        return check::negative_size;
    return check::none;
}

/// The first failing check of attributes (6 to 9).
[[nodiscard]] constexpr check first_attribute_failure(const pool_call& c) noexcept {
    const auto entries = [](const aclIntArray& a, std::int64_t least) {
        return a.values.rank() <= 2 && std::all_of(a.values.values().begin(), a.values.values().end(),
                                                   [&](std::int64_t value) { return value >= least; });
    };
    if (c.kernelSize->values.empty() || !entries(*c.kernelSize, 1)) return check::kernel_size;
    if (c.stride != nullptr && !entries(*c.stride, 1)) return check::stride;
    if (c.padding->values.empty() || !entries(*c.padding, 0)) return check::padding;
    const avg_pool_attributes attributes = attributes_of(c);
    for (std::size_t i = 0; i < 2; ++i)
        if (attributes.pads_begin[i] > attributes.kernel[i] / 2) return check::padding;
    const aclDataType type = c.self->data_type;
    if (c.cubeMathType < 0 || c.cubeMathType > 3) return check::cube_math_type;
    if (c.cubeMathType == 2 && type == ACL_BF16) return check::cube_math_type;
    if (c.cubeMathType == 3 && type != ACL_FLOAT) return check::cube_math_type;
    return check::none;
}

/// The first failing check of arguments and sizes (1 to 12).
[[nodiscard]] constexpr check first_failure(const pool_call& c) noexcept {
    if (const check failed = first_tensor_failure(c); failed != check::none) return failed;
    if (const check failed = first_attribute_failure(c); failed != check::none) return failed;
    if (c.self->view.shape != c.gradInput->view.shape) return check::self_shape;
    extents large = nchw(c.self->view).shape;
    extents small = nchw(c.gradOutput->view).shape;
    if (small[0] != large[0] || small[1] != large[1]) return check::grad_output_shape;
    if (large[1] == 0) large[1] = small[1] = 1;  // the core has no tensors without channels
    const std::int64_t element_bytes = c.self->data_type == ACL_FLOAT ? 4 : 2;
    if (!shape::avg_pool_backward_shapes(small, attributes_of(c), large, true, element_bytes))
        return check::grad_output_shape;

    constexpr std::int64_t most = 255;
    if (c.profile == product::legacy && (c.divisorOverride < -most || c.divisorOverride > most))
        return check::divisor_override;
    return check::none;
}

/// The last check: a view with one stride per axis, inside its storage if that is known. The plan checks that elements
/// of the output do not overlap.
[[nodiscard]] constexpr bool memory_is_sound(const aclTensor& t) noexcept {
    const extents& sizes = t.view.shape;
    for (const std::int64_t size : sizes.values())
        if (size == 0) return true;
    if (!t.view.is_dense() && t.view.strides.rank() != sizes.rank()) return false;
    const extents strides = shape::strides_of(t.view);
    shape::checked low(t.offset);
    shape::checked high(t.offset);
    for (std::size_t i = 0; i < sizes.rank(); ++i)
        (strides[i] < 0 ? low : high) += (shape::checked(sizes[i]) - 1) * strides[i];
    constexpr std::int64_t widest = 4;
    const bool countable = (low * widest).ok() && ((high + 1) * widest).ok() && ((high - low + 1) * widest).ok();
    if (t.storage == aclTensor::unknown || !countable) return countable;
    return low.value() >= 0 && high.value() < t.storage;
}

/// The address of the element with all indices 0; null if there is no memory.
template <class T>
[[nodiscard]] T* first_element(const aclTensor& t) noexcept {
    if (t.data == nullptr) return nullptr;
    const auto bytes = static_cast<std::uintptr_t>(t.offset) * sizeof(T);
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(t.data) + bytes);
}

// -------------------------------------------------------------------------------------------------------- cubeMathType

/// How gradOutput is rounded first.
enum class rounding : std::uint8_t { none, hf32, f16 };

/// The rounding of a cubeMathType that passed the checks: 16-bit types are never rounded.
[[nodiscard]] constexpr rounding rounding_of(std::int8_t cube_math_type, aclDataType type) noexcept {
    if (type != ACL_FLOAT || cube_math_type == 0) return rounding::none;
    return cube_math_type == 2 ? rounding::f16 : rounding::hf32;
}

/// The nearest number with 11 fraction bits, ties to even, which may be infinite; exponents are those of f32, so that
/// subnormal numbers keep the bits down to 2^-137. A NaN stays a NaN, and becomes quiet.
[[nodiscard]] constexpr float to_hf32(float value) noexcept {
    constexpr std::uint32_t dropped = 0xfff;
    const auto word = own::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) return own::bit_cast<float>((word | 0x00400000U) & ~dropped);
    return own::bit_cast<float>((word + (dropped >> 1) + ((word >> 12) & 1U)) & ~dropped);
}

/// The nearest f16 number, infinite from 65520 on.
[[nodiscard]] constexpr float to_f16(float value) noexcept {
    return half_bits::f16_to_f32(half_bits::f32_to_f16(value));
}

/// The layout of the rounded copy of gradOutput: as gradOutput and dense, but with stride 0 where gradOutput has it, so that
/// an expanded tensor is not copied in full.
[[nodiscard]] constexpr tensor_layout rounded_layout(const tensor_layout& t) noexcept {
    tensor_layout copy(t.shape, t.shape);
    const extents strides = shape::strides_of(t);
    std::int64_t step = 1;
    for (std::size_t i = t.shape.rank(); i-- > 0;) {
        copy.strides[i] = strides[i] == 0 || t.shape[i] == 1 ? 0 : step;
        if (copy.strides[i] != 0) step *= t.shape[i];
    }
    return copy;
}

/// The number of floats of the copy. The product does not overflow, since the sizes were checked.
[[nodiscard]] constexpr std::int64_t rounded_count(const tensor_layout& copy) noexcept {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < copy.shape.rank(); ++i)
        if (copy.strides[i] != 0) count *= copy.shape[i];
    return count;
}

/// copy[n, c, h, w] = round(from[n, c, h, w]), row by row along w.
inline void round_elements(rounding how, const float* from, const tensor_layout& layout, float* to,
                           const tensor_layout& copy, executor_ref executor) noexcept {
    const extents steps = shape::strides_of(layout);
    extents count = copy.shape;
    for (std::size_t i = 0; i < 4; ++i)
        if (copy.strides[i] == 0) count[i] = 1;
    const auto round_line = [&](std::int64_t line, const auto& round) {
        const std::int64_t h = line % count[2];
        const std::int64_t c = line / count[2] % count[1];
        const std::int64_t n = line / count[2] / count[1];
        const float* source = from + (n * steps[0] + c * steps[1] + h * steps[2]);
        float* target = to + line * count[3];
        for (std::int64_t w = 0; w < count[3]; ++w) target[w] = round(detail::load_element(source + w * steps[3]));
    };
    const std::int64_t lines = count[0] * count[1] * count[2];
    const auto parts = (std::min)(static_cast<std::int64_t>(executor.concurrency()), lines);
    auto part = [&](std::ptrdiff_t i) {
        const auto first = [&](std::int64_t p) { return lines / parts * p + (std::min)(p, lines % parts); };
        for (std::int64_t line = first(i); line < first(i + 1); ++line) {
            if (how == rounding::hf32) {
                round_line(line, to_hf32);
            } else {
                round_line(line, to_f16);
            }
        }
    };
    executor.parallel_for(static_cast<std::ptrdiff_t>(parts), part);
}

}  // namespace translation

}  // namespace aclnn
GRADKERN_ISA_NAMESPACE_END
