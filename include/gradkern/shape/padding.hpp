// Padding inference and output sizes of one axis: auto_pad rules F, T and TB, and the rounding types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/checked.hpp>

GRADKERN_NAMESPACE_BEGIN

/// How padding is chosen. With any value except `none` the given pads are ignored.
enum class auto_pad : std::uint8_t {
    none,        ///< pads_begin and pads_end as given (ONNX: NOTSET)
    same_upper,  ///< as many outputs as ceil(input / stride), the odd element of padding at the end
    same_lower,  ///< the same with the odd element at the beginning
    valid        ///< no padding
};

/// How the number of windows of a pool is rounded.
enum class rounding_type : std::uint8_t {
    floor,      ///< only windows that fit the padded input
    ceil,       ///< a last window may exceed the padded input, the first one must fit (oneDNN Graph)
    ceil_torch  ///< a last window may exceed the padded input unless it starts in the end padding, and so may the only
                ///< window, by less than the stride (PyTorch, Ascend, current ONNX)
};

/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view words_of(auto_pad) noexcept {
    return "none, same_upper, same_lower or valid";
}
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view words_of(rounding_type) noexcept {
    return "floor, ceil or ceil_torch";
}

/// Reads an auto_pad word in the spellings of the documents (`same_upper`) and of oneDNN and ONNX (`SAME_UPPER`,
/// `NOTSET`, `None`). Returns false and leaves `value` unchanged if the word is unknown.
[[nodiscard]] GRADKERN_PER_ISA constexpr bool parse(std::string_view word, auto_pad& value) noexcept {
    if (word == "none" || word == "None" || word == "NONE" || word == "NOTSET") {
        value = auto_pad::none;
    } else if (word == "same_upper" || word == "SAME_UPPER") {
        value = auto_pad::same_upper;
    } else if (word == "same_lower" || word == "SAME_LOWER") {
        value = auto_pad::same_lower;
    } else if (word == "valid" || word == "VALID") {
        value = auto_pad::valid;
    } else {
        return false;
    }
    return true;
}

/// Reads `floor`, `ceil` or `ceil_torch` (also in upper case). Returns false if the word is unknown.
[[nodiscard]] GRADKERN_PER_ISA constexpr bool parse(std::string_view word, rounding_type& value) noexcept {
    if (word == "floor" || word == "FLOOR") {
        value = rounding_type::floor;
    } else if (word == "ceil" || word == "CEIL") {
        value = rounding_type::ceil;
    } else if (word == "ceil_torch" || word == "CEIL_TORCH") {
        value = rounding_type::ceil_torch;
    } else {
        return false;
    }
    return true;
}

GRADKERN_NAMESPACE_END

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// Padding before and after the large side of one axis.
struct pads {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    friend constexpr bool operator==(const pads&, const pads&) noexcept = default;
};

/// (kernel - 1) * dilation + 1.
[[nodiscard]] constexpr checked effective_kernel(std::int64_t kernel, std::int64_t dilation) noexcept {
    return (checked(kernel) - 1) * dilation + 1;
}

/// Splits a total padding for same_upper or same_lower: the larger half at the end or at the beginning.
[[nodiscard]] constexpr pads split(std::int64_t total, auto_pad mode) noexcept {
    const std::int64_t half = total / 2;
    return mode == auto_pad::same_upper ? pads{half, total - half} : pads{total - half, half};
}

/// True for the two modes that choose the padding from the sizes.
[[nodiscard]] constexpr bool is_same(auto_pad mode) noexcept {
    return mode == auto_pad::same_upper || mode == auto_pad::same_lower;
}

/// Rule F, the forward rule: pads of same_* from the large size I and the stride, so that O = ceil(I / s).
/// total = max(0, (O - 1) * s + Ke - I).
[[nodiscard]] constexpr pads same_pads_forward(std::int64_t large, std::int64_t effective, std::int64_t stride,
                                               auto_pad mode) noexcept {
    const std::int64_t rest = large % stride;
    return split(std::max<std::int64_t>(0, effective - (rest == 0 ? stride : rest)), mode);
}

/// Rule T, forward transposed convolution without a requested size: total = max(0, Ke - s).
[[nodiscard]] constexpr pads same_pads_transposed(std::int64_t effective, std::int64_t stride, auto_pad mode) noexcept {
    return split(std::max<std::int64_t>(0, effective - stride), mode);
}

/// Rule TB, transposed convolution whose large size I is known:
/// total = max(0, s * (O - 1) + Ke + output_padding - I). `extent` is the checked value of s * (O - 1) + Ke.
[[nodiscard]] constexpr pads same_pads_transposed_sized(std::int64_t extent, std::int64_t output_padding,
                                                        std::int64_t large, auto_pad mode) noexcept {
    return split(std::max<std::int64_t>(0, extent + output_padding - large), mode);
}

/// By how much a single window may exceed the padded input of an axis. ceil_torch rounds n / s towards plus infinity, as
/// PyTorch and ONNX Runtime do, so it has a window for every n > -s; the others have none for n < 0.
[[nodiscard]] constexpr std::int64_t window_overhang(std::int64_t stride, rounding_type rounding) noexcept {
    return rounding == rounding_type::ceil_torch ? stride - 1 : 0;
}

/// Number of windows over an explicitly padded axis, n = I + pb + pe - Ke >= -window_overhang:
/// floor(n / s) + 1, ceil(n / s) + 1, or the latter without a last window that starts at I + pb or later.
[[nodiscard]] constexpr std::int64_t window_count(std::int64_t n, std::int64_t stride, std::int64_t large,
                                                  std::int64_t pad_begin, rounding_type rounding) noexcept {
    if (rounding == rounding_type::floor) return n / stride + 1;
    const std::int64_t last = ceil_div(n, stride);  // number of the last window, from 0
    // last * stride >= large + pad_begin, written so that it cannot overflow
    if (rounding == rounding_type::ceil_torch && last >= ceil_div(large + pad_begin, stride)) return last;
    return last + 1;
}

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
