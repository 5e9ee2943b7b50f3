// Named convolution problems, shared by tests and benchmarks. Sizes are those of layers in use; each name says which.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cases/activation_shape.hpp>
#include <gradkern/attributes.hpp>
#include <gradkern/shape.hpp>

namespace gradkern_cases {

/// A layer. `size` is the spatial size of src; it and all that follow have one number per spatial axis.
struct convolution_case {
    std::string_view name;
    bool transposed = false;
    std::int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
    gradkern::extents size, kernel, strides, dilations, pads_begin, pads_end;
    gradkern::extents output_padding;  ///< of transposed layers

    [[nodiscard]] constexpr std::size_t rank() const { return size.rank(); }
    template <class Attributes>
    [[nodiscard]] constexpr Attributes attributes(gradkern::data_format f, gradkern::weights_format w) const {
        Attributes a;
        a.strides = strides;
        a.dilations = dilations;
        a.pads_begin = pads_begin;
        a.pads_end = pads_end;
        a.groups = groups;
        if (transposed) a.output_padding = output_padding;
        a.data_format = f;
        a.weights_format = w;
        return a;
    }
    [[nodiscard]] constexpr gradkern::extents src_shape(gradkern::data_format f) const {
        return activation_shape(f, batch, in_channels, size);
    }
    [[nodiscard]] constexpr gradkern::extents dst_size() const {
        gradkern::extents s;
        for (std::size_t i = 0; i < rank(); ++i) {
            const std::int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
            const std::int64_t pads = pads_begin[i] + pads_end[i];
            s.push_back(transposed ? (size[i] - 1) * strides[i] + reach - pads + output_padding[i]
                                   : (size[i] + pads - reach) / strides[i] + 1);
        }
        return s;
    }
    [[nodiscard]] constexpr gradkern::extents dst_shape(gradkern::data_format f) const {
        return activation_shape(f, batch, out_channels, dst_size());
    }
    [[nodiscard]] constexpr gradkern::extents weights_shape(gradkern::weights_format f) const {
        // Convolution divides the input channels by groups, conv_transpose the output channels.
        const std::int64_t o = transposed ? out_channels / groups : out_channels;
        const std::int64_t i = transposed ? in_channels : in_channels / groups;
        gradkern::extents e;
        if (f == gradkern::weights_format::oix) e = {o, i};
        for (const std::int64_t k : kernel.values()) e.push_back(k);
        if (f == gradkern::weights_format::xio) {
            e.push_back(i);
            e.push_back(o);
        }
        return e;
    }
    /// Useful floating-point operations of any of the layer's operators: two per tap inside, padding not counted.
    [[nodiscard]] constexpr double useful_flops() const {
        double taps = 1;
        const auto out = dst_size();
        for (std::size_t i = 0; i < rank(); ++i) {
            gradkern::shape::axis a;
            a.large = transposed ? out[i] : size[i];
            a.small = transposed ? size[i] : out[i];
            a.kernel = kernel[i];
            a.stride = strides[i];
            a.dilation = dilations[i];
            a.pad_begin = pads_begin[i];
            a.pad_end = pads_end[i];
            double inside = 0;
            for (std::int64_t o = 0; o < a.small; ++o) inside += static_cast<double>(a.inside_taps(o).count);
            taps *= inside;
        }
        return 2.0 * taps * static_cast<double>(batch * in_channels * (out_channels / groups));
    }
};

/// A layer whose axes all have the same kernel, stride, pads and dilation.
[[nodiscard]] constexpr convolution_case same_axes(std::string_view name, bool transposed, std::int64_t batch,
                                                   std::int64_t in_channels, std::int64_t out_channels,
                                                   std::int64_t groups, const gradkern::extents& size,
                                                   std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                                                   std::int64_t dilation) {
    const auto all = [&](std::int64_t v) { return gradkern::extents::filled(size.rank(), v); };
    return {name,        transposed,  batch,         in_channels, out_channels, groups, size,
            all(kernel), all(stride), all(dilation), all(pad),    all(pad),     all(0)};
}

inline constexpr std::array<convolution_case, 27> convolution_cases{{
    same_axes("r50_3x3_64_56", false, 4, 64, 64, 1, {56, 56}, 3, 1, 1, 1),
    same_axes("r50_3x3_128_28", false, 4, 128, 128, 1, {28, 28}, 3, 1, 1, 1),
    same_axes("r50_3x3_256_14", false, 4, 256, 256, 1, {14, 14}, 3, 1, 1, 1),
    same_axes("r50_3x3_512_7", false, 4, 512, 512, 1, {7, 7}, 3, 1, 1, 1),
    same_axes("r50_3x3s2_256_28", false, 4, 256, 256, 1, {28, 28}, 3, 2, 1, 1),
    same_axes("r50_1x1_256_64_56", false, 4, 256, 64, 1, {56, 56}, 1, 1, 0, 1),
    same_axes("r50_1x1_512_1024_14", false, 4, 512, 1024, 1, {14, 14}, 1, 1, 0, 1),
    same_axes("r50_1x1s2_256_512_56", false, 4, 256, 512, 1, {56, 56}, 1, 2, 0, 1),
    same_axes("r50_stem_7x7s2_3_64_224", false, 4, 3, 64, 1, {224, 224}, 7, 2, 3, 1),
    same_axes("mbv2_dw3x3_144_56", false, 8, 144, 144, 144, {56, 56}, 3, 1, 1, 1),
    same_axes("mbv2_dw3x3s2_144_56", false, 8, 144, 144, 144, {56, 56}, 3, 2, 1, 1),
    same_axes("resnext_3x3_g32_128_56", false, 4, 128, 128, 32, {56, 56}, 3, 1, 1, 1),
    same_axes("resnext_3x3_g32_256_28", false, 4, 256, 256, 32, {28, 28}, 3, 1, 1, 1),
    same_axes("deeplab_3x3d2_256_28", false, 1, 256, 256, 1, {28, 28}, 3, 1, 2, 2),
    same_axes("deeplab_3x3d4_256_28", false, 1, 256, 256, 1, {28, 28}, 3, 1, 4, 4),
    same_axes("c3d_3x3x3_32_64_16x40x40", false, 1, 32, 64, 1, {16, 40, 40}, 3, 1, 1, 1),
    same_axes("c1d_k9_128_4000", false, 1, 128, 128, 1, {4000}, 9, 1, 4, 1),
    same_axes("dcgan_deconv_4x4s2_512_256_8", true, 4, 512, 256, 1, {8, 8}, 4, 2, 1, 1),
    same_axes("unet_deconv_2x2s2_128_64_56", true, 2, 128, 64, 1, {56, 56}, 2, 2, 0, 1),
    same_axes("r50_1x1_2048_512_7", false, 4, 2048, 512, 1, {7, 7}, 1, 1, 0, 1),
    same_axes("mbv2_1x1_24_144_56", false, 4, 24, 144, 1, {56, 56}, 1, 1, 0, 1),
    same_axes("effnet_dw5x5_240_28", false, 8, 240, 240, 240, {28, 28}, 5, 1, 2, 1),
    same_axes("plane_3x3_64_64", false, 2, 64, 64, 1, {64, 64}, 3, 1, 1, 1),
    same_axes("odd_3x3_17_56", false, 4, 17, 17, 1, {56, 56}, 3, 1, 1, 1),
    same_axes("odd_3x3_100_28", false, 4, 100, 100, 1, {28, 28}, 3, 1, 1, 1),
    same_axes("batch1_3x3_256_14", false, 1, 256, 256, 1, {14, 14}, 3, 1, 1, 1),
    same_axes("batch32_3x3_64_28", false, 32, 64, 64, 1, {28, 28}, 3, 1, 1, 1),
}};

}  // namespace gradkern_cases
