// Shared by the plain-loop references of the convolution family: tensors by index, taps and windows by definition.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/order/summation.hpp>
#include <gradkern/detail/run/check_options.hpp>
#include <gradkern/detail/run/widest_bytes.hpp>
#include <gradkern/half.hpp>
#include <gradkern/options.hpp>
#include <gradkern/shape.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace ref {

/// The three spatial indices of a position or of a filter tap: (d, h, w).
using index3 = std::array<std::int64_t, 3>;

/// A tensor of five canonical axes by index: (n, c, d, h, w), or (small channel, large channel, kd, kh, kw) for
/// filters.
template <class T>
struct tensor5 {
    T* data;
    shape::canonical_strides strides;

    [[nodiscard]] T* at(std::int64_t a, std::int64_t b, const index3& i) const noexcept {
        return data + (a * strides[0] + b * strides[1] + i[0] * strides[2] + i[1] * strides[3] + i[2] * strides[4]);
    }
    /// The tensor that begins with image n.
    [[nodiscard]] tensor5 from_image(std::int64_t n) const noexcept { return {data + n * strides[0], strides}; }
    /// The element as the type that sums are kept in.
    [[nodiscard]] auto operator()(std::int64_t a, std::int64_t b, const index3& i) const noexcept {
        return detail::load_element(at(a, b, i));
    }
};

/// Writes a finished sum, or the previous value plus the sum, with one rounding to T.
template <class T, class Sum>
void store(T* to, Sum sum, output_mode mode) noexcept {
    if (mode == output_mode::accumulate) sum = static_cast<Sum>(detail::load_element(to)) + sum;
    detail::store_element(to, static_cast<accumulate_t<T>>(sum));
}

/// A product that is rounded before it is added, whatever the compiler's flags.
template <class Sum>
[[nodiscard]] Sum rounded_product(Sum a, Sum b) noexcept {
    Sum product = a * b;
    GRADKERN_DETAIL_OPAQUE_FLOAT(product);
    return product;
}

/// A sum in the order of the pools: plain if it is short. Long sums have parts of detail::pool_part terms, each from zero, which
/// are added in f64. `skipped`: missing terms of the first part.
template <class Sum>
class sum_of_parts {
public:
    constexpr explicit sum_of_parts(std::int64_t skipped = 0) noexcept : terms_(skipped % detail::pool_part) {}
    constexpr void add(Sum term) noexcept {
        if (terms_ == detail::pool_part) {
            total_ += static_cast<double>(part_);
            part_ = 0;
            terms_ = 0;
        }
        part_ += term;
        ++terms_;
    }
    [[nodiscard]] constexpr Sum value() const noexcept { return static_cast<Sum>(total_ + static_cast<double>(part_)); }

private:
    double total_ = 0;
    Sum part_ = 0;
    std::int64_t terms_;
};

/// Calls f(i) for every index i in [0, extent), row-major.
template <class F>
void for_each_index(const index3& extent, const F& f) {
    index3 i{};
    for (i[0] = 0; i[0] < extent[0]; ++i[0])
        for (i[1] = 0; i[1] < extent[1]; ++i[1])
            for (i[2] = 0; i[2] < extent[2]; ++i[2]) f(i);
}

/// Calls f(k, p(o, k)) for every tap k of small-side position o that lies inside the large side, row-major.
template <class F>
void for_each_tap(const std::array<shape::axis, 3>& axes, const index3& o, const F& f) {
    const std::array<shape::tap_sequence, 3> t{axes[0].inside_taps(o[0]), axes[1].inside_taps(o[1]),
                                               axes[2].inside_taps(o[2])};
    for_each_index({t[0].count, t[1].count, t[2].count}, [&](const index3& i) {
        index3 k{};
        index3 p{};
        for (std::size_t a = 0; a < 3; ++a) {
            k[a] = t[a].first + i[a];
            p[a] = axes[a].position(o[a], k[a]);
        }
        f(k, p);
    });
}

/// Calls f(k, o) for every small-side position o and tap k with p(o, k) = q. Row-major in o.
template <class F>
void for_each_window(const std::array<shape::axis, 3>& axes, const index3& q, const F& f) {
    index3 first{};
    index3 count{};
    for (std::size_t a = 0; a < 3; ++a) {  // the windows whose reach [p(o, 0), p(o, K - 1)] contains q
        const shape::axis& x = axes[a];
        const std::int64_t reach = x.reach();
        first[a] = std::max<std::int64_t>(0, shape::ceil_div(q[a] + x.pad_begin - reach, x.stride));
        count[a] = (std::min)(x.small - 1, shape::floor_div(q[a] + x.pad_begin, x.stride)) - first[a] + 1;
    }
    for_each_index(count, [&](const index3& i) {
        index3 o{};
        index3 k{};
        for (std::size_t a = 0; a < 3; ++a) {
            o[a] = first[a] + i[a];
            const std::int64_t rest = q[a] - axes[a].position(o[a], 0);
            if (rest % axes[a].dilation != 0) return;  // q lies between two taps
            k[a] = rest / axes[a].dilation;
        }
        f(k, o);
    });
}

/// Calls f(o, p(o, k)) for every small-side position o whose tap k lies inside the large side, row-major.
template <class F>
void for_each_position(const std::array<shape::axis, 3>& axes, const index3& k, const F& f) {
    index3 first{};
    index3 count{};
    for (std::size_t a = 0; a < 3; ++a) {
        const shape::axis::position_range r = axes[a].inside_positions(k[a]);
        first[a] = r.first;
        count[a] = r.last - r.first;
    }
    for_each_index(count, [&](const index3& i) {
        index3 o{};
        index3 p{};
        for (std::size_t a = 0; a < 3; ++a) {
            o[a] = first[a] + i[a];
            p[a] = axes[a].position(o[a], k[a]);
        }
        f(o, p);
    });
}

/// Extents of one side, or of the filter.
[[nodiscard]] constexpr index3 large_extent(const shape::convolution_problem& p) noexcept {
    return {p.axes[0].large, p.axes[1].large, p.axes[2].large};
}
[[nodiscard]] constexpr index3 small_extent(const shape::convolution_problem& p) noexcept {
    return {p.axes[0].small, p.axes[1].small, p.axes[2].small};
}
[[nodiscard]] constexpr index3 kernel_extent(const shape::convolution_problem& p) noexcept {
    return {p.axes[0].kernel, p.axes[1].kernel, p.axes[2].kernel};
}

/// One argument of a reference call.
struct argument {
    std::string_view name;
    const void* data;
    const tensor_layout& layout;
    std::size_t element_bytes;
    bool is_output = false;
};

/// The checks that need strides and pointers. (Unlike the operators, references do not detect overlapping tensors.)
[[nodiscard]] constexpr status check_arguments(std::string_view op, std::initializer_list<argument> arguments,
                                               const plan_options& options,
                                               detail::batch_use batch = detail::batch_use::image_by_image,
                                               std::int64_t images = 0) noexcept {
    shape::operator_checks checks(op);
    detail::check_options(checks, options, batch);
    for (const argument& a : arguments)
        if (a.is_output)
            detail::check_batch_layout(checks, a.name, a.layout, images, static_cast<std::int64_t>(a.element_bytes),
                                       options);
    for (const argument& a : arguments)
        checks.addresses(a.name, a.layout, static_cast<std::int64_t>(a.element_bytes), a.is_output);
    for (const argument& a : arguments) {
        const std::span<const std::int64_t> sizes = a.layout.shape.values();
        bool has_elements = !sizes.empty();
        for (const std::int64_t size : sizes) has_elements = has_elements && size != 0;
        checks.require_that(a.data != nullptr || !has_elements, errc::null_pointer, a.name, shape::no_memory);
    }
    if (!checks.ok()) return checks.error();
    return {};
}

/// Calls f(first image, last image, offset of the result) for each result of a sum over `images` images: one, or with
/// summation::per_image one an image, `elements` apart.
template <class F>
void for_each_result(std::int64_t images, std::int64_t elements, const plan_options& options, const F& f) {
    if (options.summation != summation::per_image) return f(std::int64_t{0}, images, std::int64_t{0});
    for (std::int64_t n = 0; n < images; ++n) f(n, n + 1, n * elements);
}

/// Element c of a bias, or zero if there is no bias.
template <class Sum, class Bias>
[[nodiscard]] Sum bias_at(const tensor_view<const Bias>& bias, std::int64_t c) noexcept {
    if (bias.layout.empty()) return Sum{0};
    return static_cast<Sum>(detail::load_element(bias.data + c * shape::strides_of(bias.layout)[0]));
}

}  // namespace ref
GRADKERN_ISA_NAMESPACE_END
