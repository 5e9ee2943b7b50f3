// Attributes of the ONNX operators under ONNX's names (see ../onnxruntime.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/common/attribute_types.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onnxruntime {

using frontend::word;

/// A list of integers; absent if it is empty. Holds the pads of three axes, and counts how many it was given.
class ints {
public:
    static constexpr std::size_t capacity = 6;  ///< begins and ends of three spatial axes

    /// Absent: the attribute has its default.
    constexpr ints() noexcept = default;
    /// From a braced list: `.strides = {2, 2}`.
    constexpr ints(std::initializer_list<std::int64_t> values) noexcept
        : ints(std::span<const std::int64_t>(values.begin(), values.size())) {}
    /// From extents, which hold one number less: a list of six is truncated, and then refused.
    // NOLINTNEXTLINE(google-explicit-constructor): the core's vectors are attributes, too
    constexpr ints(const extents& values) noexcept : ints(values.values()) {}
    /// From contiguous s32 or s64 integers: std::span, std::vector, std::array and so on.
    template <frontend::integer_range R>
    // NOLINTNEXTLINE(google-explicit-constructor): `.strides = vector` must work
    constexpr ints(const R& values) noexcept : size_(std::ranges::size(values)) {
        const auto* from = std::ranges::data(values);
        for (std::size_t i = 0; i < size_ && i < capacity; ++i) values_[i] = static_cast<std::int64_t>(from[i]);
    }

    /// True if nothing was given.
    [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
    /// Number of entries given, even if it exceeds the capacity.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    /// The entries kept.
    [[nodiscard]] constexpr std::span<const std::int64_t> values() const noexcept {
        return {values_.data(), (std::min)(size_, capacity)};
    }
    /// Entries `first` to `first` + `count`; if nothing was given, `count` times `absent`.
    [[nodiscard]] constexpr extents part(std::size_t first, std::size_t count, std::int64_t absent) const noexcept {
        if (empty()) return extents::filled(count, absent);
        extents e;
        for (std::size_t i = first; i < first + count && i < capacity; ++i) e.push_back(values_[i]);
        return e;
    }

private:
    std::array<std::int64_t, capacity> values_{};
    std::size_t size_ = 0;
};

// The members are in alphabetical order, as ONNX lists them. r is the number of spatial axes.

/// Attributes of AveragePoolGrad: those of its AveragePool.
struct AveragePoolGrad_attributes {
    word<gradkern::auto_pad> auto_pad{};  ///< NOTSET, VALID, SAME_UPPER or SAME_LOWER; default NOTSET
    std::int64_t ceil_mode = 0;           ///< 0 or 1; 1: round up, without a last window in the end padding
    std::int64_t count_include_pad = 0;   ///< 0 or 1; 0: divide by the taps inside the input
    ints dilations{};                     ///< r numbers > 0; default ones
    ints kernel_shape{};                  ///< required, r numbers > 0
    ints pads{};                          ///< r begins, then r ends, >= 0; default zeros; ignored unless NOTSET
    ints strides{};                       ///< r numbers > 0; default ones
};

/// Attributes of MaxPoolGrad. ONNX Runtime has none; this one is that of the MaxPool that gave the indices.
struct MaxPoolGrad_attributes {
    std::int64_t storage_order = 0;  ///< 0: indices count a plane row by row; 1: its first spatial axis varies fastest
};

/// Attributes of ConvGrad: those of its Conv.
struct ConvGrad_attributes {
    word<gradkern::auto_pad> auto_pad{};  ///< NOTSET, VALID, SAME_UPPER or SAME_LOWER; default NOTSET
    ints dilations{};                     ///< r numbers > 0; default ones
    std::int64_t group = 1;               ///< > 0
    ints kernel_shape{};                  ///< default: from W, with which it must agree
    ints pads{};                          ///< r begins, then r ends, >= 0; default zeros; ignored unless NOTSET
    ints strides{};                       ///< r numbers > 0; default ones
};

/// Attributes of ConvTransposeGrad: those of its ConvTranspose.
struct ConvTransposeGrad_attributes {
    word<gradkern::auto_pad> auto_pad{};  ///< NOTSET, VALID, SAME_UPPER or SAME_LOWER; default NOTSET
    ints dilations{};                     ///< r numbers > 0; default ones
    std::int64_t group = 1;               ///< > 0
    ints kernel_shape{};                  ///< default: from W, with which it must agree
    ints output_padding{};                ///< r numbers, 0 <= op < max(stride, dilation); absent accepts every size of
                                          ///< dY that fits
    ints output_shape{};                  ///< r numbers; default: from dY, with which it must agree
    ints pads{};                          ///< r begins, then r ends, >= 0; default zeros; ignored unless NOTSET
    ints strides{};                       ///< r numbers > 0; default ones
};

}  // namespace onnxruntime
GRADKERN_ISA_NAMESPACE_END
