// Named pooling problems, shared by tests and benchmarks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gradkern/attributes.hpp>

namespace gradkern_cases {

/// An average pool. `size` is the spatial size of src.
struct average_case {
    std::string_view name;
    std::size_t rank;
    std::int64_t batch, channels;
    std::array<std::int64_t, 3> size;
    std::int64_t kernel, stride, pad;
    bool exclude_pad;

    [[nodiscard]] constexpr gradkern::avg_pool_attributes attributes(gradkern::data_format f) const {
        gradkern::avg_pool_attributes a;
        a.kernel = gradkern::extents::filled(rank, kernel);
        a.strides = gradkern::extents::filled(rank, stride);
        a.pads_begin = a.pads_end = gradkern::extents::filled(rank, pad);
        a.exclude_pad = exclude_pad;
        a.data_format = f;
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

inline constexpr std::array<average_case, 6> average_cases{{
    {"avgpool_3x3s1p1_192_28_incl", 2, 16, 192, {28, 28}, 3, 1, 1, false},
    {"avgpool_3x3s1p1_192_28_excl", 2, 16, 192, {28, 28}, 3, 1, 1, true},
    {"avgpool_2x2s2_128_56", 2, 8, 128, {56, 56}, 2, 2, 0, true},
    {"gap_7x7_2048", 2, 32, 2048, {7, 7}, 7, 1, 0, true},
    {"avgpool3d_2x2x2_64_16x56x56", 3, 1, 64, {16, 56, 56}, 2, 2, 0, true},
    {"avgpool1d_k4s4_128_8000", 1, 4, 128, {8000}, 4, 4, 0, true},
}};

}  // namespace gradkern_cases
