// The checked facts of a max pool and of its gradient. No decision is taken here.
#pragma once

#include <array>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/index_rule.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail {

/// What a NaN does in a window: it beats every number, or loses to every number.
enum class nan_rule : std::uint8_t { wins, loses };

/// What both directions know.
struct max_problem {
    std::array<shape::axis, 3> axes{};
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    shape::canonical_strides src{};
    nan_rule nan = nan_rule::wins;
    output_mode output = output_mode::overwrite;
    scratch_use scratch = scratch_use::fast;

    constexpr max_problem() noexcept = default;
    constexpr max_problem(const shape::pooling_problem& p, const max_pool_attributes& attributes,
                          const tensor_layout& x, const plan_options& options) noexcept
        : batch(p.batch),
          channels(p.channels),
          src(shape::activation_strides(x, attributes.data_format)),
          nan(attributes.ignore_nan ? nan_rule::loses : nan_rule::wins),
          output(options.output),
          scratch(options.scratch) {
        if (channels == 0) return;  // nothing to write: sizes that nobody has checked are dropped
        axes = p.axes;
        for (shape::axis& a : axes) {  // steps that nobody takes: products with strides of memory stay small
            if (a.kernel == 1) a.dilation = 1;
            if (a.small == 1) a.stride = 1;
        }
    }

    [[nodiscard]] constexpr std::array<std::int64_t, 3> windows() const noexcept {
        return {axes[0].small, axes[1].small, axes[2].small};
    }
    [[nodiscard]] constexpr std::array<std::int64_t, 3> pixels() const noexcept {
        return {axes[0].large, axes[1].large, axes[2].large};
    }
    /// Pixels of a plane of src.
    [[nodiscard]] constexpr std::int64_t plane() const noexcept {
        return axes[0].large * axes[1].large * axes[2].large;
    }
};

/// src -> dst, indices.
struct max_pool_problem : max_problem {
    shape::canonical_strides dst{};
    shape::canonical_strides indices{};
    index_rule index{};
    bool writes_indices = false;

    constexpr max_pool_problem() noexcept = default;
    constexpr max_pool_problem(const shape::pooling_problem& p, const max_pool_attributes& attributes,
                               const tensor_layout& x, const tensor_layout& y, const tensor_layout& z,
                               const plan_options& options) noexcept
        : max_problem(p, attributes, x, options),
          dst(shape::activation_strides(y, attributes.data_format)),
          writes_indices(!z.empty()) {
        if (writes_indices) indices = shape::activation_strides(z, attributes.data_format);
        if (channels > 0)
            index = index_rule(p, attributes.data_format, attributes.index_base, attributes.storage_order);
    }
};

/// src, diff_dst -> diff_src.
struct max_pool_backward_problem : max_problem {
    shape::canonical_strides diff_dst{};
    shape::canonical_strides diff_src{};

    constexpr max_pool_backward_problem() noexcept = default;
    constexpr max_pool_backward_problem(const shape::pooling_problem& p, const max_pool_attributes& attributes,
                                        const tensor_layout& x, const tensor_layout& dy, const tensor_layout& dx,
                                        const plan_options& options) noexcept
        : max_problem(p, attributes, x, options),
          diff_dst(shape::activation_strides(dy, attributes.data_format)),
          diff_src(shape::activation_strides(dx, attributes.data_format)) {}
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
