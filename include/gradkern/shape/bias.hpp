// Shapes of the bias gradient.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/convolution.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// A checked bias gradient in canonical form.
struct bias_problem {
    std::size_t rank = 0;                            ///< spatial rank
    std::int64_t batch = 0;                          ///< N
    std::int64_t channels = 0;                       ///< C
    std::array<std::int64_t, 3> positions{1, 1, 1};  ///< D, H, W; unused ones of extent 1
    extents diff_bias_shape{};                       ///< (C)
};

/// The gradient of the bias of a convolution whose diff_dst lies on this side.
[[nodiscard]] constexpr bias_problem bias_backward_of(const convolution_problem& c, side diff_dst) noexcept {
    bias_problem p;
    p.rank = c.rank;
    p.batch = c.batch;
    p.channels = c.groups * (diff_dst == side::small ? c.small_channels : c.large_channels);
    for (std::size_t i = 0; i < 3; ++i) p.positions[i] = diff_dst == side::small ? c.axes[i].small : c.axes[i].large;
    p.diff_bias_shape = {p.channels};
    return p;
}

/// diff_dst -> diff_bias. `diff_bias` may be empty; `tensor` says that it is the shape of an output tensor.
[[nodiscard]] constexpr result<bias_problem> bias_backward_shapes(const extents& diff_dst, const bias_attributes& a,
                                                                  const extents& diff_bias, bool tensor,
                                                                  std::int64_t element_bytes) noexcept {
    operator_checks checks("bias_backward");
    checks.spatial_rank("diff_dst", diff_dst);
    if (!checks.ok()) return checks.error();
    const std::size_t r = diff_dst.rank() - 2;
    checks.word("data_format", a.data_format, data_format::ncx);
    if (!diff_bias.empty()) {
        checks.rank(tensor ? errc::unsupported : errc::invalid_shape, "diff_bias", diff_bias, 1);
    }
    checks.sizes("diff_dst", diff_dst, r, spatial_index(a.data_format));
    if (!diff_bias.empty()) checks.require_at_least(errc::invalid_shape, "diff_bias", 0, diff_bias[0], 0);
    checks.volume("diff_dst", diff_dst, element_bytes);
    checks.volume("diff_bias", diff_bias, element_bytes);
    if (!checks.ok()) return checks.error();

    bias_problem p;
    p.rank = r;
    p.batch = diff_dst[0];
    p.channels = diff_dst[channel_index(a.data_format, r)];
    for (std::size_t i = 0; i < r; ++i) p.positions[3 - r + i] = diff_dst[spatial_index(a.data_format) + i];
    p.diff_bias_shape = {p.channels};
    if (!diff_bias.empty())
        checks.require_equal(errc::invalid_shape, "diff_bias", 0, diff_bias[0], p.channels, {.other = "diff_dst"});
    if (!checks.ok()) return checks.error();
    return p;
}

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
