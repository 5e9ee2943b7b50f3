// The shape of an activation tensor in either layout.
#pragma once

#include <cstdint>

#include <gradkern/attributes.hpp>

namespace gradkern_cases {

[[nodiscard]] constexpr gradkern::extents activation_shape(gradkern::data_format f, std::int64_t batch,
                                                           std::int64_t channels, const gradkern::extents& size) {
    gradkern::extents e{batch};
    if (f == gradkern::data_format::ncx) e.push_back(channels);
    for (const std::int64_t s : size.values()) e.push_back(s);
    if (f == gradkern::data_format::nxc) e.push_back(channels);
    return e;
}

}  // namespace gradkern_cases
