// The problem of the engine of Lp pools: checked facts about windows, memory and options.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/order/summation.hpp>
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
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    std::array<shape::axis, 3> axes{};
    shape::canonical_strides src{};
    shape::canonical_strides dst{};
    shape::canonical_strides diff_dst{};  // backward
    shape::canonical_strides diff_src{};  // backward

    [[nodiscard]] constexpr bool is_backward() const noexcept { return outputs == shape::side::large; }
    [[nodiscard]] constexpr bool accumulates() const noexcept { return output == output_mode::accumulate; }
    [[nodiscard]] constexpr const shape::canonical_strides& out() const noexcept {
        return is_backward() ? diff_src : dst;
    }
    [[nodiscard]] constexpr std::int64_t out_extent(std::size_t i) const noexcept {
        return is_backward() ? axes[i].large : axes[i].small;
    }
    /// Whether more terms than one part of a sum may meet in an output.
    [[nodiscard]] constexpr bool may_have_parts() const noexcept {
        std::int64_t terms = 1;
        for (const shape::axis& a : axes) terms *= std::min(a.most_reads(outputs), pool_part + 1);
        return terms > pool_part;
    }
};

/// The layouts of the tensors; those of a gradient are empty in a forward pool.
struct layouts {
    tensor_layout src{};
    tensor_layout dst{};
    tensor_layout diff_dst{};
    tensor_layout diff_src{};
};

[[nodiscard]] constexpr problem make_problem(const shape::pooling_problem& pool, shape::side outputs,
                                             const layouts& tensors, const lp_pool_attributes& attributes,
                                             const plan_options& options) noexcept {
    problem p{.outputs = outputs, .output = options.output, .batch = pool.batch, .channels = pool.channels};
    if (pool.channels == 0) return p;  // nothing to write: sizes that nobody has checked are dropped
    p.axes = pool.axes;
    for (shape::axis& a : p.axes) {  // steps that nobody takes: products with strides of memory stay small
        if (a.kernel == 1) a.dilation = 1;
        if (a.small == 1) a.stride = 1;
    }
    p.src = shape::activation_strides(tensors.src, attributes.data_format);
    p.dst = shape::activation_strides(tensors.dst, attributes.data_format);
    if (!p.is_backward()) return p;
    p.diff_dst = shape::activation_strides(tensors.diff_dst, attributes.data_format);
    p.diff_src = shape::activation_strides(tensors.diff_src, attributes.data_format);
    return p;
}

}  // namespace detail::lp_pool
GRADKERN_ISA_NAMESPACE_END
