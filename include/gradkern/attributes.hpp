// The attributes of every operator: aggregates for designated initialisers, with the field's names and defaults.
//
//     gradkern::convolution_attributes conv{.strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1},
//                                           .pads_end = {1, 1}, .data_format = gradkern::data_format::ncx};
//
// Vectors have one entry per spatial axis in the order D, H, W. An empty vector is an absent attribute: pads are then
// zeros, dilations of a pool ones. Strides, kernels and the dilations of a convolution have no default. The comment of
// output_padding says what its absence means.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/shape/padding.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_NAMESPACE_BEGIN

/// Attributes of convolution, convolution_backward_data and convolution_backward_weights: one set describes a layer
/// for all three.
struct convolution_attributes {
    extents strides{};                                       ///< required, > 0
    extents dilations{};                                     ///< required, > 0; 1 means dense
    extents pads_begin{};                                    ///< >= 0; ignored unless auto_pad is none
    extents pads_end{};                                      ///< >= 0; ignored unless auto_pad is none
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;  ///< rule F (shape/padding.hpp)
    extents output_padding{};                                ///< backward data only: 0 <= op < stride; without
                                                             ///< diff_src_shape it chooses among the sizes that fit,
                                                             ///< and must be 0 where auto_pad is same_*
    std::int64_t groups = 1;                                 ///< >= 1
    gradkern::data_format data_format = gradkern::data_format::nxc;           ///< order of src and dst
    gradkern::weights_format weights_format = gradkern::weights_format::xio;  ///< (K..., IC/g, OC) or (OC, IC/g, K...)
    extents diff_src_shape{};      ///< backward data: full shape of the result in data_format order ("dst_shape" in the
                                   ///< ConvolutionBackwardData document)
    extents diff_weights_shape{};  ///< backward weights: full shape of the result in weights_format order

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const convolution_attributes&,
                                                      const convolution_attributes&) noexcept = default;
};

/// Attributes of conv_transpose, conv_transpose_backward_data and conv_transpose_backward_weights.
struct conv_transpose_attributes {
    extents strides{};                                       ///< required, > 0
    extents dilations{};                                     ///< required, > 0; 1 means dense
    extents pads_begin{};                                    ///< >= 0; ignored unless auto_pad is none
    extents pads_end{};                                      ///< >= 0; ignored unless auto_pad is none
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;  ///< rules T and TB (shape/padding.hpp)
    extents output_padding{};  ///< 0 <= op < max(stride, dilation). Absent is not the same
                               ///< as zeros where the large size is given: absent accepts
                               ///< every size that fits
    std::int64_t groups = 1;   ///< >= 1
    gradkern::data_format data_format = gradkern::data_format::nxc;           ///< order of src and dst
    gradkern::weights_format weights_format = gradkern::weights_format::xio;  ///< (K..., IC, OC/g) or (OC/g, IC, K...)
    extents dst_shape{};           ///< forward: full shape of dst in data_format order
    extents diff_src_shape{};      ///< backward data: full shape of the result in data_format order
    extents diff_weights_shape{};  ///< backward weights: full shape of the result in weights_format order

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const conv_transpose_attributes&,
                                                      const conv_transpose_attributes&) noexcept = default;
};

/// Attributes of bias_backward, for both families.
struct bias_attributes {
    gradkern::data_format data_format = gradkern::data_format::nxc;  ///< order of diff_dst

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const bias_attributes&,
                                                      const bias_attributes&) noexcept = default;
};

/// Attributes of avg_pool and avg_pool_backward.
struct avg_pool_attributes {
    extents kernel{};                                        ///< required, > 0
    extents strides{};                                       ///< required, > 0
    extents pads_begin{};                                    ///< >= 0; ignored unless auto_pad is none
    extents pads_end{};                                      ///< >= 0; ignored unless auto_pad is none
    extents dilations{};                                     ///< > 0; ones where absent
    bool exclude_pad = false;                                ///< true: divide by the number of taps inside the input.
                                                             ///< Required in oneDNN's documents, and in its front end
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;  ///< rule F (shape/padding.hpp)
    gradkern::rounding_type rounding_type = gradkern::rounding_type::floor;  ///< ignored for the sizes of same_*
    std::optional<std::int64_t> divisor_override{};                  ///< any non-zero number replaces the divisor
    gradkern::data_format data_format = gradkern::data_format::nxc;  ///< order of src and dst
    extents diff_src_shape{};  ///< backward: full shape of the result in data_format order ("input_shape" in the
                               ///< AvgPoolBackprop document)

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const avg_pool_attributes&,
                                                      const avg_pool_attributes&) noexcept = default;
};

/// Attributes of lp_pool and lp_pool_backward, whose p is 2.
struct lp_pool_attributes {
    extents kernel{};                                                        ///< required, > 0
    extents strides{};                                                       ///< required, > 0
    extents pads_begin{};                                                    ///< >= 0; ignored unless auto_pad is none
    extents pads_end{};                                                      ///< >= 0; ignored unless auto_pad is none
    extents dilations{};                                                     ///< > 0; ones where absent
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;                  ///< rule F (shape/padding.hpp)
    gradkern::rounding_type rounding_type = gradkern::rounding_type::floor;  ///< ignored for the sizes of same_*
    gradkern::data_format data_format = gradkern::data_format::nxc;          ///< order of src and dst

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const lp_pool_attributes&,
                                                      const lp_pool_attributes&) noexcept = default;
};

/// What the index of a maximum counts from. s is the offset of an element in its plane (storage_order), P the number of
/// elements of a plane:
enum class index_base : std::uint8_t {
    tensor,  ///< the whole tensor as stored: (n C + c) P + s for NCX, (n P + s) C + c for NXC (ONNX)
    plane,   ///< the plane of one image and channel: s (PyTorch)
    image    ///< one image with channels innermost, whatever data_format: s C + c (TensorFlow)
};

/// How an index counts the elements of a plane with spatial sizes D, H, W.
enum class storage_order : std::uint8_t {
    row_major,    ///< s = (d H + h) W + w
    column_major  ///< s = d + (h + w H) D
};

/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view words_of(index_base) noexcept {
    return "tensor, plane or image";
}
/// The accepted words, as an error lists them.
[[nodiscard]] GRADKERN_PER_ISA constexpr std::string_view words_of(storage_order) noexcept {
    return "row_major or column_major";
}

/// Attributes of max_pool and max_pool_backward.
struct max_pool_attributes {
    extents kernel{};                                                        ///< required, > 0
    extents strides{};                                                       ///< required, > 0
    extents pads_begin{};                                                    ///< >= 0; ignored unless auto_pad is none
    extents pads_end{};                                                      ///< >= 0; ignored unless auto_pad is none
    extents dilations{};                                                     ///< > 0; ones where absent
    gradkern::auto_pad auto_pad = gradkern::auto_pad::none;                  ///< rule F (shape/padding.hpp)
    gradkern::rounding_type rounding_type = gradkern::rounding_type::floor;  ///< ignored for the sizes of same_*
    bool ignore_nan = false;                                                 ///< true: a NaN loses against any number
    gradkern::data_format data_format = gradkern::data_format::nxc;          ///< order of src and dst
    gradkern::index_base index_base = gradkern::index_base::tensor;          ///< of the indices that max_pool writes
    gradkern::storage_order storage_order = gradkern::storage_order::row_major;  ///< of the same

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const max_pool_attributes&,
                                                      const max_pool_attributes&) noexcept = default;
};

/// Attributes of max_pool_backward_from_indices.
struct max_pool_indices_attributes {
    gradkern::data_format data_format = gradkern::data_format::nxc;              ///< order of diff_src and diff_dst
    gradkern::index_base index_base = gradkern::index_base::tensor;              ///< what indices count from
    gradkern::storage_order storage_order = gradkern::storage_order::row_major;  ///< how they count in a plane
    extents diff_src_shape{};  ///< full shape of the result in data_format order

    /// Whether all members are equal: for a cache of plans.
    GRADKERN_PER_ISA friend constexpr bool operator==(const max_pool_indices_attributes&,
                                                      const max_pool_indices_attributes&) noexcept = default;
};

GRADKERN_NAMESPACE_END
