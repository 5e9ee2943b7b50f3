// Named pooling problems, shared by tests and benchmarks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cases/activation_shape.hpp>
#include <gradkern/attributes.hpp>

namespace gradkern_cases {

/// A pool. `size` is the spatial size of src; it and all that follow have one number per spatial axis.
struct pool_case {
    std::string_view name;
    bool maximum = false;
    std::int64_t batch = 1, channels = 1;
    gradkern::extents size, kernel, strides, pads_begin, pads_end;
    bool exclude_pad = true;  ///< of average pools
    bool norm = false;        ///< an Lp pool

    [[nodiscard]] constexpr std::size_t rank() const { return size.rank(); }
    template <class Attributes>
    [[nodiscard]] constexpr Attributes attributes(gradkern::data_format f) const {
        Attributes a;
        a.kernel = kernel;
        a.strides = strides;
        a.pads_begin = pads_begin;
        a.pads_end = pads_end;
        a.data_format = f;
        if constexpr (requires { a.exclude_pad; }) a.exclude_pad = exclude_pad;
        return a;
    }
    [[nodiscard]] constexpr gradkern::extents src_shape(gradkern::data_format f) const {
        return activation_shape(f, batch, channels, size);
    }
    [[nodiscard]] constexpr gradkern::extents dst_size() const {
        gradkern::extents s;
        for (std::size_t i = 0; i < rank(); ++i)
            s.push_back((size[i] + pads_begin[i] + pads_end[i] - kernel[i]) / strides[i] + 1);
        return s;
    }
    [[nodiscard]] constexpr gradkern::extents dst_shape(gradkern::data_format f) const {
        return activation_shape(f, batch, channels, dst_size());
    }
};

/// A pool whose axes all have the same kernel, stride and pads.
[[nodiscard]] constexpr pool_case same_axes(std::string_view name, bool maximum, std::int64_t batch,
                                            std::int64_t channels, const gradkern::extents& size, std::int64_t kernel,
                                            std::int64_t stride, std::int64_t pad, bool exclude_pad = true) {
    const auto all = [&](std::int64_t v) { return gradkern::extents::filled(size.rank(), v); };
    return {name, maximum, batch, channels, size, all(kernel), all(stride), all(pad), all(pad), exclude_pad};
}

inline constexpr std::array<pool_case, 9> average_cases{{
    same_axes("avgpool_3x3s1p1_192_28_incl", false, 16, 192, {28, 28}, 3, 1, 1, false),
    same_axes("avgpool_3x3s1p1_192_28_excl", false, 16, 192, {28, 28}, 3, 1, 1, true),
    same_axes("avgpool_2x2s2_128_56", false, 8, 128, {56, 56}, 2, 2, 0, true),
    same_axes("gap_7x7_2048", false, 32, 2048, {7, 7}, 7, 1, 0, true),
    same_axes("avgpool3d_2x2x2_64_16x56x56", false, 1, 64, {16, 56, 56}, 2, 2, 0, true),
    same_axes("avgpool1d_k4s4_128_8000", false, 4, 128, {8000}, 4, 4, 0, true),
    same_axes("avgpool3d_3x3x3s2p1_64_16x56x56", false, 1, 64, {16, 56, 56}, 3, 2, 1, true),
    same_axes("avgpool_5x5s1p2_64_56", false, 8, 64, {56, 56}, 5, 1, 2, true),
    same_axes("avgpool_small_3x3s1p1_64_7", false, 1, 64, {7, 7}, 3, 1, 1, true),
}};

inline constexpr std::array<pool_case, 6> maximum_cases{{
    same_axes("maxpool_3x3s2p1_64_112", true, 8, 64, {112, 112}, 3, 2, 1),
    same_axes("maxpool_2x2s2_64_112", true, 8, 64, {112, 112}, 2, 2, 0),
    same_axes("maxpool1d_k3s2p1_128_8000", true, 4, 128, {8000}, 3, 2, 1),
    same_axes("maxpool3d_3x3x3s2p1_64_16x56x56", true, 1, 64, {16, 56, 56}, 3, 2, 1),
    same_axes("maxpool_5x5s1p2_64_28", true, 8, 64, {28, 28}, 5, 1, 2),
    same_axes("maxpool_small_2x2s2_64_7", true, 1, 64, {7, 7}, 2, 2, 0),
}};

/// An Lp pool of such a case.
[[nodiscard]] constexpr pool_case norm_of(pool_case c, std::string_view name) {
    c.name = name;
    c.norm = true;
    return c;
}

inline constexpr std::array<pool_case, 2> norm_cases{{
    norm_of(same_axes("", false, 16, 192, {28, 28}, 3, 1, 1), "lppool_3x3s1p1_192_28"),
    norm_of(same_axes("", false, 8, 128, {56, 56}, 2, 2, 0), "lppool_2x2s2_128_56"),
}};

}  // namespace gradkern_cases
