// Named pooling problems, shared by tests and benchmarks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gradkern/attributes.hpp>

namespace gradkern_cases {

/// A pool. `size` is the spatial size of src.
struct pool_case {
    std::string_view name;
    std::size_t rank;
    std::int64_t batch, channels;
    std::array<std::int64_t, 3> size;
    std::int64_t kernel, stride, pad;
    bool exclude_pad = true;  ///< of average pools

    template <class Attributes>
    [[nodiscard]] constexpr Attributes attributes(gradkern::data_format f) const {
        Attributes a;
        a.kernel = gradkern::extents::filled(rank, kernel);
        a.strides = gradkern::extents::filled(rank, stride);
        a.pads_begin = a.pads_end = gradkern::extents::filled(rank, pad);
        a.data_format = f;
        if constexpr (requires { a.exclude_pad; }) a.exclude_pad = exclude_pad;
        return a;
    }
    [[nodiscard]] constexpr gradkern::extents src_shape(gradkern::data_format f) const {
        gradkern::extents e{batch};
        if (f == gradkern::data_format::ncx) e.push_back(channels);
        for (std::size_t i = 0; i < rank; ++i) e.push_back(size[i]);
        if (f == gradkern::data_format::nxc) e.push_back(channels);
        return e;
    }
};

inline constexpr std::array<pool_case, 9> average_cases{{
    {"avgpool_3x3s1p1_192_28_incl", 2, 16, 192, {28, 28}, 3, 1, 1, false},
    {"avgpool_3x3s1p1_192_28_excl", 2, 16, 192, {28, 28}, 3, 1, 1, true},
    {"avgpool_2x2s2_128_56", 2, 8, 128, {56, 56}, 2, 2, 0, true},
    {"gap_7x7_2048", 2, 32, 2048, {7, 7}, 7, 1, 0, true},
    {"avgpool3d_2x2x2_64_16x56x56", 3, 1, 64, {16, 56, 56}, 2, 2, 0, true},
    {"avgpool1d_k4s4_128_8000", 1, 4, 128, {8000}, 4, 4, 0, true},
    {"avgpool3d_3x3x3s2p1_64_16x56x56", 3, 1, 64, {16, 56, 56}, 3, 2, 1, true},
    {"avgpool_5x5s1p2_64_56", 2, 8, 64, {56, 56}, 5, 1, 2, true},
    {"avgpool_small_3x3s1p1_64_7", 2, 1, 64, {7, 7}, 3, 1, 1, true},
}};

inline constexpr std::array<pool_case, 6> maximum_cases{{
    {"maxpool_3x3s2p1_64_112", 2, 8, 64, {112, 112}, 3, 2, 1},
    {"maxpool_2x2s2_64_112", 2, 8, 64, {112, 112}, 2, 2, 0},
    {"maxpool1d_k3s2p1_128_8000", 1, 4, 128, {8000}, 3, 2, 1},
    {"maxpool3d_3x3x3s2p1_64_16x56x56", 3, 1, 64, {16, 56, 56}, 3, 2, 1},
    {"maxpool_5x5s1p2_64_28", 2, 8, 64, {28, 28}, 5, 1, 2},
    {"maxpool_small_2x2s2_64_7", 2, 1, 64, {7, 7}, 2, 2, 0},
}};

}  // namespace gradkern_cases
