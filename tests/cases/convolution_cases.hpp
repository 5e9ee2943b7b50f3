// Named convolution problems, shared by tests and benchmarks. Sizes are those of layers in use; each name says which.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gradkern/attributes.hpp>
#include <gradkern/shape.hpp>

namespace gradkern_cases {

/// A layer. `size` is the spatial size of src; unused leading axes are absent (rank says how many are used).
struct convolution_case {
    std::string_view name;
    bool transposed;
    std::size_t rank;
    std::int64_t batch, in_channels, out_channels, groups;
    std::array<std::int64_t, 3> size;
    std::int64_t kernel, stride, pad, dilation;

    [[nodiscard]] constexpr gradkern::extents spatial(std::int64_t v) const {
        return gradkern::extents::filled(rank, v);
    }
    template <class Attributes>
    [[nodiscard]] constexpr Attributes attributes(gradkern::data_format f, gradkern::weights_format w) const {
        Attributes a;
        a.strides = spatial(stride);
        a.dilations = spatial(dilation);
        a.pads_begin = a.pads_end = spatial(pad);
        a.groups = groups;
        a.data_format = f;
        a.weights_format = w;
        return a;
    }
    [[nodiscard]] constexpr gradkern::extents activation(gradkern::data_format f, std::int64_t channels,
                                                         const std::array<std::int64_t, 3>& s) const {
        gradkern::extents e{batch};
        if (f == gradkern::data_format::ncx) e.push_back(channels);
        for (std::size_t i = 0; i < rank; ++i) e.push_back(s[i]);
        if (f == gradkern::data_format::nxc) e.push_back(channels);
        return e;
    }
    [[nodiscard]] constexpr gradkern::extents src_shape(gradkern::data_format f) const {
        return activation(f, in_channels, size);
    }
    [[nodiscard]] constexpr std::array<std::int64_t, 3> dst_size() const {
        std::array<std::int64_t, 3> s{};
        const std::int64_t reach = (kernel - 1) * dilation;
        for (std::size_t i = 0; i < rank; ++i)
            s[i] = transposed ? (size[i] - 1) * stride + reach + 1 - 2 * pad
                              : (size[i] + 2 * pad - reach - 1) / stride + 1;
        return s;
    }
    [[nodiscard]] constexpr gradkern::extents dst_shape(gradkern::data_format f) const {
        return activation(f, out_channels, dst_size());
    }
    [[nodiscard]] constexpr gradkern::extents weights_shape(gradkern::weights_format f) const {
        // Convolution divides the input channels by groups, conv_transpose the output channels.
        const std::int64_t o = transposed ? out_channels / groups : out_channels;
        const std::int64_t i = transposed ? in_channels : in_channels / groups;
        gradkern::extents e;
        if (f == gradkern::weights_format::oix) e = {o, i};
        for (std::size_t k = 0; k < rank; ++k) e.push_back(kernel);
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
        for (std::size_t i = 0; i < rank; ++i) {
            gradkern::shape::axis a;
            a.large = transposed ? out[i] : size[i];
            a.small = transposed ? size[i] : out[i];
            a.kernel = kernel;
            a.stride = stride;
            a.dilation = dilation;
            a.pad_begin = a.pad_end = pad;
            double inside = 0;
            for (std::int64_t o = 0; o < a.small; ++o) inside += static_cast<double>(a.inside_taps(o).count);
            taps *= inside;
        }
        return 2.0 * taps * static_cast<double>(batch * in_channels * (out_channels / groups));
    }
};

inline constexpr std::array<convolution_case, 27> convolution_cases{{
    {"r50_3x3_64_56", false, 2, 4, 64, 64, 1, {56, 56}, 3, 1, 1, 1},
    {"r50_3x3_128_28", false, 2, 4, 128, 128, 1, {28, 28}, 3, 1, 1, 1},
    {"r50_3x3_256_14", false, 2, 4, 256, 256, 1, {14, 14}, 3, 1, 1, 1},
    {"r50_3x3_512_7", false, 2, 4, 512, 512, 1, {7, 7}, 3, 1, 1, 1},
    {"r50_3x3s2_256_28", false, 2, 4, 256, 256, 1, {28, 28}, 3, 2, 1, 1},
    {"r50_1x1_256_64_56", false, 2, 4, 256, 64, 1, {56, 56}, 1, 1, 0, 1},
    {"r50_1x1_512_1024_14", false, 2, 4, 512, 1024, 1, {14, 14}, 1, 1, 0, 1},
    {"r50_1x1s2_256_512_56", false, 2, 4, 256, 512, 1, {56, 56}, 1, 2, 0, 1},
    {"r50_stem_7x7s2_3_64_224", false, 2, 4, 3, 64, 1, {224, 224}, 7, 2, 3, 1},
    {"mbv2_dw3x3_144_56", false, 2, 8, 144, 144, 144, {56, 56}, 3, 1, 1, 1},
    {"mbv2_dw3x3s2_144_56", false, 2, 8, 144, 144, 144, {56, 56}, 3, 2, 1, 1},
    {"resnext_3x3_g32_128_56", false, 2, 4, 128, 128, 32, {56, 56}, 3, 1, 1, 1},
    {"resnext_3x3_g32_256_28", false, 2, 4, 256, 256, 32, {28, 28}, 3, 1, 1, 1},
    {"deeplab_3x3d2_256_28", false, 2, 1, 256, 256, 1, {28, 28}, 3, 1, 2, 2},
    {"deeplab_3x3d4_256_28", false, 2, 1, 256, 256, 1, {28, 28}, 3, 1, 4, 4},
    {"c3d_3x3x3_32_64_16x40x40", false, 3, 1, 32, 64, 1, {16, 40, 40}, 3, 1, 1, 1},
    {"c1d_k9_128_4000", false, 1, 1, 128, 128, 1, {4000}, 9, 1, 4, 1},
    {"dcgan_deconv_4x4s2_512_256_8", true, 2, 4, 512, 256, 1, {8, 8}, 4, 2, 1, 1},
    {"unet_deconv_2x2s2_128_64_56", true, 2, 2, 128, 64, 1, {56, 56}, 2, 2, 0, 1},
    {"r50_1x1_2048_512_7", false, 2, 4, 2048, 512, 1, {7, 7}, 1, 1, 0, 1},
    {"mbv2_1x1_24_144_56", false, 2, 4, 24, 144, 1, {56, 56}, 1, 1, 0, 1},
    {"effnet_dw5x5_240_28", false, 2, 8, 240, 240, 240, {28, 28}, 5, 1, 2, 1},
    {"plane_3x3_64_64", false, 2, 2, 64, 64, 1, {64, 64}, 3, 1, 1, 1},
    {"odd_3x3_17_56", false, 2, 4, 17, 17, 1, {56, 56}, 3, 1, 1, 1},
    {"odd_3x3_100_28", false, 2, 4, 100, 100, 1, {28, 28}, 3, 1, 1, 1},
    {"batch1_3x3_256_14", false, 2, 1, 256, 256, 1, {14, 14}, 3, 1, 1, 1},
    {"batch32_3x3_64_28", false, 2, 32, 64, 64, 1, {28, 28}, 3, 1, 1, 1},
}};

}  // namespace gradkern_cases
