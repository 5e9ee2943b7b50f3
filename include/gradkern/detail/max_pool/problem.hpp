// The checked facts of a max pool or of its gradient, and what indices count. No decision is taken here.
#pragma once

#include <array>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool {

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
        const auto [d, h, w] = std::array{p.axes[0].large, p.axes[1].large, p.axes[2].large};
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

/// What a NaN does in a window: it beats every number, or loses to every number.
enum class nan_rule : std::uint8_t { wins, loses };

/// src -> dst, indices; or src, diff_dst -> diff_src. A layout that is empty has no strides. Runs read these facts, too.
struct tensors {
    real_type real{};
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    shape::canonical_strides src{};
    shape::canonical_strides dst{};  // of diff_dst for the gradient
    shape::canonical_strides diff_src{};
    shape::canonical_strides indices{};
    index_rule index{};
    bool writes_indices = false;
    nan_rule nan = nan_rule::wins;
    output_mode output = output_mode::overwrite;

    [[nodiscard]] constexpr std::array<std::int64_t, 3> pixels() const noexcept {
        return {axes[0].large, axes[1].large, axes[2].large};
    }
    /// Pixels of a plane of src.
    [[nodiscard]] constexpr std::int64_t plane() const noexcept {
        return axes[0].large * axes[1].large * axes[2].large;
    }
};

struct problem : tensors {
    scratch_use scratch = scratch_use::fast;

    constexpr problem() noexcept = default;
    constexpr problem(const shape::pooling_problem& p, const max_pool_attributes& attributes, const tensor_layout& x,
                      const tensor_layout& y, const tensor_layout& dx, const tensor_layout& z,
                      const plan_options& options, const real_type& number = {}) noexcept
        : scratch(options.scratch) {
        real = number;
        batch = p.batch;
        channels = p.channels;
        writes_indices = !z.empty();
        nan = attributes.ignore_nan ? nan_rule::loses : nan_rule::wins;
        output = options.output;
        src = shape::activation_strides(x, attributes.data_format);
        dst = shape::activation_strides(y, attributes.data_format);
        if (!dx.empty()) diff_src = shape::activation_strides(dx, attributes.data_format);
        if (writes_indices) indices = shape::activation_strides(z, attributes.data_format);
        if (channels == 0) return;  // nothing to write: sizes that nobody has checked are dropped
        index = index_rule(p, attributes.data_format, attributes.index_base, attributes.storage_order);
        axes = p.axes;
        for (shape::axis& a : axes) a.drop_unused_steps();
    }
};

}  // namespace detail::max_pool
GRADKERN_ISA_NAMESPACE_END
