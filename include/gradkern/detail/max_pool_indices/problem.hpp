// The gradient of a max pool from indices: the checked facts of a problem. No decision.
//
//     diff_src = 0, then diff_src[indices[n, c, o]] += diff_dst[n, c, o] for every element, in ascending order of (n, c, o)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradkern/attributes.hpp>
#include <gradkern/detail/config.hpp>
#include <gradkern/detail/max_pool/problem.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/shape/pooling.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace detail::max_pool_indices {

/// The tensors, and what indices count.
struct tensors {
    std::array<std::int64_t, 3> small{1, 1, 1};  ///< windows along each axis
    std::array<std::int64_t, 3> large{1, 1, 1};  ///< pixels along each axis, that which indices count fastest last
    std::int64_t batch = 0;
    std::int64_t channels = 0;
    shape::canonical_strides diff_dst{};
    shape::canonical_strides indices{};
    shape::canonical_strides diff_src{};  ///< spatial axes in the order of `large`
    max_pool::index_rule index{};

    /// Windows of a plane, and its pixels.
    [[nodiscard]] constexpr std::int64_t windows() const noexcept { return small[0] * small[1] * small[2]; }
    [[nodiscard]] constexpr std::int64_t pixels() const noexcept { return large[0] * large[1] * large[2]; }
};

struct problem : tensors {
    real_type real{};
    bool is_wide = false;  ///< whether elements of diff_src are of that type
    plan_options options{};

    constexpr problem(const shape::pooling_problem& p, const max_pool_indices_attributes& attributes,
                      const tensor_layout& of_diff_dst, const tensor_layout& of_indices,
                      const tensor_layout& of_diff_src, bool wide, const plan_options& how,
                      const real_type& number = {}) noexcept
        : real(number), is_wide(wide), options(how) {
        batch = p.batch;
        if (p.channels == 0) return;  // nothing to write: extents may be anything
        channels = p.channels;
        for (std::size_t i = 0; i < 3; ++i) {
            small[i] = p.axes[i].small;
            large[i] = p.axes[i].large;
        }
        diff_dst = shape::activation_strides(of_diff_dst, attributes.data_format);
        indices = shape::activation_strides(of_indices, attributes.data_format);
        diff_src = shape::activation_strides(of_diff_src, attributes.data_format);
        if (attributes.storage_order == storage_order::column_major) {
            std::swap(large[0], large[2]);
            std::swap(diff_src[2], diff_src[4]);
        }
        index = max_pool::index_rule(p, attributes.data_format, attributes.index_base, attributes.storage_order);
    }

    /// The sums of indices that point into the planes of their own elements, and those of others.
    [[nodiscard]] constexpr sum_type sums() const noexcept {
        return real.is_f64() || windows() > many_windows ? sum_type::f64 : sum_type::f32;
    }
    [[nodiscard]] constexpr sum_type stray_sums() const noexcept {
        return real.is_f64() || batch * channels * windows() > many_windows ? sum_type::f64 : sum_type::f32;
    }
    /// Whether all indices are looked at before the first write. A pass that went wrong can be done again only where it
    /// overwrites; many windows have a large plane: sliding sums are faster there.
    [[nodiscard]] constexpr bool looks_first() const noexcept {
        return options.output == output_mode::accumulate || windows() > many_windows ||
               options.index_check == index_check::first;
    }
};

}  // namespace detail::max_pool_indices
GRADKERN_ISA_NAMESPACE_END
