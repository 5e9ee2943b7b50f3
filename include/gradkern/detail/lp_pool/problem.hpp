// The problem of the engine of Lp pools: checked facts about windows, memory and options.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/micro/tile_sizes.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/axis.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::lp_pool {

struct problem {
    shape::side outputs = shape::side::small;  // small: forward; large: backward
    output_mode output = output_mode::overwrite;
    real_type real{};
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    std::array<shape::axis, 3> axes{};
    std::array<shape::canonical_strides, 3> in{};  // src; backward dst and diff_dst, too
    shape::canonical_strides out{};                // dst, or diff_src

    constexpr problem() noexcept = default;
    constexpr problem(const shape::pooling_problem& pool, shape::side side,
                      std::initializer_list<const tensor_layout*> inputs, const tensor_layout& output_layout,
                      data_format format, const plan_options& options, const real_type& number = {}) noexcept
        : outputs(side), output(options.output), real(number), batch(pool.batch), channels(pool.channels) {
        if (channels == 0) return;  // nothing to write: sizes that nobody has checked are dropped
        axes = pool.axes;
        for (shape::axis& a : axes) a.drop_unused_steps();
        std::size_t i = 0;
        for (const tensor_layout* const t : inputs) in[i++] = shape::activation_strides(*t, format);
        out = shape::activation_strides(output_layout, format);
    }

    [[nodiscard]] constexpr bool is_backward() const noexcept { return outputs == shape::side::large; }
    [[nodiscard]] constexpr std::int64_t out_extent(std::size_t i) const noexcept {
        return is_backward() ? axes[i].large : axes[i].small;
    }
};

}  // namespace detail::lp_pool
GRADKERN_ISA_NAMESPACE_END
