// What the indices of max pools count, for the forward pass that writes them and the gradient that reads them.
#pragma once

#include <array>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/shape/pooling.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// An index as a linear function of linear offset and channel: offset * per_offset + channel * per_channel + image * per_image.
struct index_rule {
    std::array<std::int64_t, 3> offset_steps{};  // linear offsets from pixel to pixel
    std::int64_t per_offset = 1;
    std::int64_t per_channel = 0;
    std::int64_t per_image = 0;
    std::int64_t end = 0;  // all indices are below

    constexpr index_rule() noexcept = default;
    constexpr index_rule(const shape::pooling_problem& p, data_format format, index_base base,
                         storage_order order) noexcept {
        const std::int64_t d = p.axes[0].large;
        const std::int64_t h = p.axes[1].large;
        const std::int64_t w = p.axes[2].large;
        const std::int64_t plane = d * h * w;
        offset_steps = order == storage_order::row_major ? std::array<std::int64_t, 3>{h * w, w, 1}
                                                         : std::array<std::int64_t, 3>{1, d, d * h};
        const bool channels_inside = base == index_base::image || format == data_format::nxc;
        if (base != index_base::plane) {
            per_offset = channels_inside ? p.channels : 1;
            per_channel = channels_inside ? 1 : plane;
        }
        if (base == index_base::tensor) per_image = plane * p.channels;
        end = plane * (base == index_base::plane ? 1 : p.channels) * (base == index_base::tensor ? p.batch : 1);
    }
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
