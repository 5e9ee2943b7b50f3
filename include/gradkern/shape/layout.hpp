// Layout names, strides, and which entry of a shape they make batch, channels, output channels or a spatial axis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gradkern/detail/config.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Order of the axes of an activation: NCX = (N, C, spatial...), NXC = (N, spatial..., C).
enum class data_format : std::uint8_t {
    nxc,  ///< channels last
    ncx   ///< channels first
};

/// Order of the axes of a filter. Convolution: OIX = (OC, IC/g, K...), XIO = (K..., IC/g, OC). ConvTranspose divides the
/// other one: OIX = (OC/g, IC, K...), XIO = (K..., IC, OC/g).
enum class weights_format : std::uint8_t {
    xio,  ///< channels last
    oix   ///< channels first
};

/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view words_of(data_format) noexcept { return "nxc or ncx"; }
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view words_of(weights_format) noexcept { return "xio or oix"; }

/// Reads `NXC` or `NCX` (also in lower case). Returns false if the word is unknown.
[[nodiscard]] GRADKERN_PER_ISA constexpr bool parse(std::string_view word, data_format& value) noexcept {
    if (word == "NXC" || word == "nxc") {
        value = data_format::nxc;
    } else if (word == "NCX" || word == "ncx") {
        value = data_format::ncx;
    } else {
        return false;
    }
    return true;
}

/// Reads `XIO` or `OIX` (also in lower case). Returns false if the word is unknown.
[[nodiscard]] GRADKERN_PER_ISA constexpr bool parse(std::string_view word, weights_format& value) noexcept {
    if (word == "XIO" || word == "xio") {
        value = weights_format::xio;
    } else if (word == "OIX" || word == "oix") {
        value = weights_format::oix;
    } else {
        return false;
    }
    return true;
}

GRADKERN_NAMESPACE_END

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// Strides in elements in the canonical order (N, C, D, H, W), or (small-side channels, large-side channels, KD, KH, KW)
/// for filters. Unused spatial axes have stride 0.
using canonical_strides = std::array<std::int64_t, 5>;

/// Index of the channels in the shape of an activation of spatial rank r.
[[nodiscard]] constexpr std::size_t channel_index(data_format f, std::size_t r) noexcept {
    return f == data_format::ncx ? 1 : r + 1;
}
/// Index of the first spatial axis in the shape of an activation.
[[nodiscard]] constexpr std::size_t spatial_index(data_format f) noexcept { return f == data_format::ncx ? 2 : 1; }

/// Index of the axis called O in the shape of a filter of spatial rank r.
[[nodiscard]] constexpr std::size_t output_channel_index(weights_format f, std::size_t r) noexcept {
    return f == weights_format::oix ? 0 : r + 1;
}
/// Index of the axis called I in the shape of a filter of spatial rank r.
[[nodiscard]] constexpr std::size_t input_channel_index(weights_format f, std::size_t r) noexcept {
    return f == weights_format::oix ? 1 : r;
}
/// Index of the first kernel axis in the shape of a filter.
[[nodiscard]] constexpr std::size_t kernel_index(weights_format f) noexcept { return f == weights_format::oix ? 2 : 0; }

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
