// Attributes of the oneDNN Graph operators under the documents' names (see ../onednn_graph.hpp).
//
// If the newer and the older document of an operator name an attribute differently, the aggregate has both. The one that is
// given is used; of two, the newer one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/frontend/common/attribute_types.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace onednn_graph {

using frontend::word;

/// A list of integers: an attribute vector, or the data of a 1-D shape tensor of s32 or s64. Absent if it is empty.
class ints {
public:
    /// Absent.
    constexpr ints() noexcept = default;
    /// From a braced list: `.strides = {2, 2}`.
    constexpr ints(std::initializer_list<std::int64_t> values) noexcept : values_(values) {}
    /// From extents.
    // NOLINTNEXTLINE(google-explicit-constructor): the core's vectors are attributes, too
    constexpr ints(const extents& values) noexcept : values_(values) {}
    /// From contiguous s32 or s64 integers: std::span, std::vector, std::array and so on.
    template <frontend::integer_range R>
    // NOLINTNEXTLINE(google-explicit-constructor): `.strides = vector` must work
    constexpr ints(const R& values) noexcept : values_(std::span<const std::ranges::range_value_t<R>>(values)) {}

    /// True if nothing was given.
    [[nodiscard]] constexpr bool empty() const noexcept { return values_.empty(); }
    /// The integers as the core takes them.
    [[nodiscard]] constexpr const extents& values() const noexcept { return values_; }

private:
    extents values_{};
};

/// The data of an optional shape tensor.
using shape_input = ints;

/// The order of the axes of a filter of the ConvTranspose family. The documents have XIO = (K..., IC, OC/g) and
/// OIX = (OC/g, IC, K...). oneDNN's code has XOI = (K..., OC/g, IC) and IOX = (IC, OC/g, K...), in which the two kinds of
/// channels are swapped.
struct transposed_format {
    gradkern::weights_format format = gradkern::weights_format::xio;  ///< the order of O and I, unless
    bool swapped = false;                                             ///< they are swapped

    constexpr transposed_format() noexcept = default;
    /// One of the core's two formats.
    // NOLINTNEXTLINE(google-explicit-constructor): the core's formats are two of the four
    constexpr transposed_format(gradkern::weights_format f) noexcept : format(f) {}
};

/// The accepted words, as an error lists them.
[[nodiscard]] constexpr std::string_view words_of(transposed_format) noexcept { return "xio, oix, xoi or iox"; }

/// Reads `XIO`, `OIX`, `XOI` or `IOX` (also in lower case). Returns false if the word is unknown.
[[nodiscard]] constexpr bool parse(std::string_view text, transposed_format& value) noexcept {
    transposed_format f;
    if (text == "XOI" || text == "xoi") {
        f.swapped = true;
    } else if (text == "IOX" || text == "iox") {
        f.format = gradkern::weights_format::oix;
        f.swapped = true;
    } else if (!gradkern::parse(text, f.format)) {
        return false;
    }
    value = f;
    return true;
}

/// Attributes of AvgPool.
struct AvgPool_attributes {
    ints strides{};                                  ///< required, > 0
    ints pads_begin{};                               ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                 ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints kernel{};                                   ///< required, > 0
    std::optional<bool> exclude_pad{};               ///< required; true: divide by the taps inside the input
    word<gradkern::rounding_type> rounding_type{};   ///< floor or ceil, extension: ceil_torch; default floor
    word<gradkern::auto_pad> auto_pad{};             ///< none, same_upper, same_lower or valid; default none
    word<gradkern::data_format> data_format{};       ///< NXC or NCX; default NXC
    std::optional<std::int64_t> divisor_override{};  ///< extension: any non-zero number replaces the divisor
};

/// Attributes of AvgPoolBackprop.
struct AvgPoolBackprop_attributes {
    ints strides{};                                  ///< required, > 0
    ints pads_begin{};                               ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                 ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints kernel{};                                   ///< required, > 0
    std::optional<bool> exclude_pad{};               ///< required; true: divide by the taps inside the input
    word<gradkern::auto_pad> auto_pad{};             ///< none, same_upper, same_lower or valid; default none
    word<gradkern::data_format> data_format{};       ///< NXC or NCX; default NXC
    ints input_shape{};                              ///< full shape of input_delta in data_format order
    word<gradkern::rounding_type> rounding_type{};   ///< extension: floor, ceil or ceil_torch; default floor
    std::optional<std::int64_t> divisor_override{};  ///< extension: any non-zero number replaces the divisor
    ints src_shape{};                                ///< input_shape as AvgPoolBackward spells it
};

/// Attributes of MaxPool.
struct MaxPool_attributes {
    ints strides{};                                 ///< required, > 0
    ints pads_begin{};                              ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints kernel{};                                  ///< required, > 0
    ints dilations{};                               ///< > 0, empty means ones
    word<gradkern::rounding_type> rounding_type{};  ///< floor or ceil, extension: ceil_torch; default floor
    word<gradkern::auto_pad> auto_pad{};            ///< none, same_upper, same_lower or valid; default none
    word<gradkern::data_format> data_format{};      ///< NXC or NCX; default NXC
    bool ignore_nan = false;                        ///< extension: true, a NaN loses against any number, as in oneDNN;
                                                    ///< false, a NaN in a window is its maximum
};

/// Attributes of MaxPoolBackward.
struct MaxPoolBackward_attributes {
    ints strides{};                                 ///< required, > 0
    ints pads_begin{};                              ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints kernel{};                                  ///< required, > 0
    word<gradkern::auto_pad> auto_pad{};            ///< none, same_upper, same_lower or valid; default none
    ints dilations{};                               ///< > 0, empty means ones
    word<gradkern::data_format> data_format{};      ///< NXC or NCX; default NXC
    word<gradkern::rounding_type> rounding_type{};  ///< extension: floor, ceil or ceil_torch; default floor
    bool ignore_nan = false;                        ///< extension: that of MaxPool
};

/// Attributes of Convolution.
struct Convolution_attributes {
    ints strides{};                                   ///< required, > 0
    ints pads_begin{};                                ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                  ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                                 ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};              ///< none, same_upper, same_lower or valid; default none
    std::int64_t groups = 1;                          ///< >= 1
    word<gradkern::data_format> data_format{};        ///< NXC or NCX; default NXC
    word<gradkern::weights_format> weights_format{};  ///< XIO = (K..., IC/g, OC) or OIX = (OC, IC/g, K...); default XIO
    word<gradkern::weights_format> filter_format{};   ///< weights_format in the older document
};

/// Attributes of ConvolutionBackwardData.
struct ConvolutionBackwardData_attributes {
    ints strides{};                                   ///< required, > 0
    ints pads_begin{};                                ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                  ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                                 ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};              ///< none, same_upper, same_lower or valid; default none
    ints output_padding{};                            ///< 0 <= op < stride; checked, but without effect on the result
    std::int64_t groups = 1;                          ///< >= 1
    word<gradkern::data_format> data_format{};        ///< NXC or NCX; default NXC
    word<gradkern::weights_format> weights_format{};  ///< XIO or OIX; default XIO
    ints dst_shape{};                                 ///< full shape of diff_src in data_format order
    word<gradkern::weights_format> filter_format{};   ///< weights_format as ConvolutionBackpropData spells it
    ints output_shape{};                              ///< dst_shape as ConvolutionBackpropData spells it
};

/// Attributes of ConvolutionBackwardWeights.
struct ConvolutionBackwardWeights_attributes {
    ints strides{};                                   ///< required, > 0
    ints pads_begin{};                                ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                                  ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                                 ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};              ///< none, same_upper, same_lower or valid; default none
    std::int64_t groups = 1;                          ///< >= 1
    word<gradkern::data_format> data_format{};        ///< NXC or NCX; default NXC
    word<gradkern::weights_format> weights_format{};  ///< XIO = (K..., IC/g, OC) or OIX = (OC, IC/g, K...); default XIO
    ints weights_shape{};                             ///< full shape of diff_weights in weights_format order
    word<gradkern::weights_format> filter_format{};   ///< weights_format as ConvolutionBackpropFilters spells it
    ints filter_shape{};                              ///< weights_shape as ConvolutionBackpropFilters spells it
};

/// Attributes of ConvTranspose.
struct ConvTranspose_attributes {
    ints strides{};                             ///< required, > 0
    ints pads_begin{};                          ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                            ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                           ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};        ///< none, same_upper, same_lower or valid; default none
    ints output_padding{};                      ///< 0 <= op < max(stride, dilation); empty means zeros
    std::int64_t groups = 1;                    ///< >= 1
    word<gradkern::data_format> data_format{};  ///< NXC or NCX; default NXC
    word<transposed_format> weights_format{};   ///< XIO, OIX, XOI or IOX; default XIO
    word<transposed_format> filter_format{};    ///< weights_format in the older document
};

/// Attributes of ConvTransposeBackwardData.
struct ConvTransposeBackwardData_attributes {
    ints strides{};                             ///< required, > 0
    ints pads_begin{};                          ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                            ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                           ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};        ///< none, same_upper, same_lower or valid; default none
    ints output_padding{};                      ///< 0 <= op < max(stride, dilation); absent accepts every size of
                                                ///< diff_dst that fits
    std::int64_t groups = 1;                    ///< >= 1
    word<gradkern::data_format> data_format{};  ///< NXC or NCX; default NXC
    word<transposed_format> weights_format{};   ///< XIO, OIX, XOI or IOX; default XIO
    word<transposed_format> filter_format{};    ///< weights_format as ConvTransposeBackpropData spells it
};

/// Attributes of ConvTransposeBackpropFilters.
struct ConvTransposeBackpropFilters_attributes {
    ints strides{};                             ///< required, > 0
    ints pads_begin{};                          ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints pads_end{};                            ///< >= 0, empty means zeros; ignored unless auto_pad is none
    ints dilations{};                           ///< required, > 0; 1 means dense
    word<gradkern::auto_pad> auto_pad{};        ///< none, same_upper, same_lower or valid; default none
    ints output_padding{};                      ///< 0 <= op < max(stride, dilation); absent accepts every size of
                                                ///< output_delta that fits
    std::int64_t groups = 1;                    ///< >= 1
    word<gradkern::data_format> data_format{};  ///< NXC or NCX; default NXC
    word<transposed_format> filter_format{};    ///< XIO, OIX, XOI or IOX; default XIO
    ints filter_shape{};                        ///< full shape of filter_delta in filter_format order
    word<transposed_format> weights_format{};   ///< filter_format as ConvTransposeBackwardWeights spells it
    ints weights_shape{};                       ///< filter_shape as ConvTransposeBackwardWeights spells it
};

/// Attributes of BiasAddBackward.
struct BiasAddBackward_attributes {
    word<gradkern::data_format> data_format{};  ///< NXC or NCX; default NXC
};

}  // namespace onednn_graph
GRADKERN_ISA_NAMESPACE_END
