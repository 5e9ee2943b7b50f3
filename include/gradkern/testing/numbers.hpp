// Tensors of any type as numbers of type double, for the headers beside this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/own.hpp>
#include <gradkern/dynamic_view.hpp>
#include <gradkern/half.hpp>
#include <gradkern/shape/check.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>
#include <gradkern/workspace.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace test {

/// One step of splitmix64, a bijection of 64 bits: the random numbers of testing.hpp.
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t x) noexcept {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

}  // namespace test

namespace detail {

/// The parameters of a binary format.
struct number_format {
    int fraction_bits;
    int least_exponent;    ///< of a normal number
    int largest_exponent;  ///< of a finite number
};
[[nodiscard]] constexpr number_format format_of(data_type type) noexcept {
    switch (type) {
        case data_type::f16: return {10, -14, 15};
        case data_type::bf16: return {7, -126, 127};
        case data_type::f64: return {52, -1022, 1023};
        case data_type::f32: break;
    }
    return {23, -126, 127};
}
[[nodiscard]] constexpr std::string_view name_of(data_type type) noexcept {
    switch (type) {
        case data_type::f32: return "f32";
        case data_type::f16: return "f16";
        case data_type::bf16: return "bf16";
        case data_type::f64: return "f64";
    }
    return "unknown";
}

/// 2^exponent, exact also where it is subnormal.
[[nodiscard]] constexpr double power_of_two(int exponent) noexcept {
    if (exponent < -1074) return 0;
    if (exponent < -1022) return own::bit_cast<double>(std::uint64_t{1} << (exponent + 1074));
    return own::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// The distance from a finite number to the next one of a type, at the number's exponent.
[[nodiscard]] constexpr double ulp_of(data_type type, double value) noexcept {
    const number_format f = format_of(type);
    const int exponent = static_cast<int>((own::bit_cast<std::uint64_t>(value) >> 52) & 0x7ffU) - 1023;
    const int clipped = exponent < f.least_exponent     ? f.least_exponent
                        : exponent > f.largest_exponent ? f.largest_exponent
                                                        : exponent;
    return power_of_two(clipped - f.fraction_bits);
}

/// The nearest number of a type, ties to even, of a finite number: Inf beyond the type's range. If the number was rounded to f64
/// before, `rest` is what that took off, or a number of its sign. It decides ties.
[[nodiscard]] inline double rounded_to(data_type type, double value, double rest = 0) noexcept {
    if (type == data_type::f64) return value;
    const double ulp = ulp_of(type, value);
    double shifted = value / ulp + 0x1.8p52;  // whole numbers are one apart there
    GRADKERN_DETAIL_OPAQUE(shifted);
    double nearest = (shifted - 0x1.8p52) * ulp;
    const double off = value - nearest;
    const bool is_tie = off == ulp / 2 || off == -ulp / 2;
    if (is_tie && rest != 0 && (rest > 0) == (off > 0)) nearest += 2 * off;
    const double beyond = power_of_two(format_of(type).largest_exponent + 1);
    if (nearest >= beyond) return own::infinity<double>;
    return nearest <= -beyond ? -own::infinity<double> : nearest;
}

/// The element `offset` elements behind the first, exact.
[[nodiscard]] inline double number_at(const const_dynamic_view& t, std::int64_t offset) noexcept {
    switch (t.type) {
        case data_type::f32: return load_element(static_cast<const float*>(t.data) + offset);
        case data_type::f16: return load_element(static_cast<const float16*>(t.data) + offset);
        case data_type::bf16: return load_element(static_cast<const bfloat16*>(t.data) + offset);
        case data_type::f64: return load_element(static_cast<const double*>(t.data) + offset);
    }
    return 0;
}

/// Writes a number that the type holds, or that is rounded to f32 first.
inline void store_number(const dynamic_view& t, std::int64_t offset, double value) noexcept {
    const auto narrow = static_cast<float>(value);
    switch (t.type) {
        case data_type::f32: store_element(static_cast<float*>(t.data) + offset, narrow); break;
        case data_type::f16: store_element(static_cast<float16*>(t.data) + offset, narrow); break;
        case data_type::bf16: store_element(static_cast<bfloat16*>(t.data) + offset, narrow); break;
        case data_type::f64: store_element(static_cast<double*>(t.data) + offset, value); break;
    }
}

/// Calls f(number of the element in row-major order, its offset in memory, its index) for each element.
template <class F>
void for_each_element(const tensor_layout& layout, const F& f) noexcept {
    const std::int64_t count = shape::element_count(layout.shape);
    const std::size_t rank = layout.shape.values().size();
    const auto strides = shape::strides_of(layout);
    extents index = extents::filled(rank, 0);
    std::int64_t offset = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        f(i, offset, index);
        for (std::size_t axis = rank; axis-- > 0;) {
            offset += strides[axis];
            if (++index[axis] < layout.shape[axis]) break;
            offset -= strides[axis] * index[axis];
            index[axis] = 0;
        }
    }
}

/// The error of memory for `count` elements that could not be had.
[[nodiscard]] constexpr error out_of_memory(std::int64_t count, std::size_t element_bytes) noexcept {
    return {.code = errc::workspace_too_small,
            .op = "testing",
            .argument = "memory",
            .expected = count * static_cast<std::int64_t>(element_bytes),
            .relation = expectation::at_least,
            .what = quantity::bytes};
}

/// A dense tensor of numbers that owns its memory. An absent tensor has no elements.
class numbers {
public:
    numbers() noexcept = default;
    /// Uninitialised numbers.
    explicit numbers(const extents& shape) noexcept
        : shape_(shape), memory_(static_cast<std::size_t>(shape::element_count(shape)) * sizeof(double)) {}
    /// The elements of a tensor.
    explicit numbers(const const_dynamic_view& t) noexcept : numbers(t.layout.shape) {
        if (!*this) return;
        for_each_element(
            t.layout, [&](std::int64_t i, std::int64_t offset, const extents&) { (*this)[i] = number_at(t, offset); });
    }

    /// False if the memory could not be had.
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(memory_); }
    [[nodiscard]] error out_of_memory() const noexcept { return detail::out_of_memory(count(), sizeof(double)); }
    [[nodiscard]] std::int64_t count() const noexcept { return shape::element_count(shape_); }
    [[nodiscard]] double& operator[](std::int64_t i) const noexcept { return data()[i]; }
    [[nodiscard]] tensor_view<const double> view() const noexcept { return {data(), shape_}; }
    [[nodiscard]] tensor_view<double> mutable_view() const noexcept { return {data(), shape_}; }
    /// Absolute values; 0 in place of Inf and NaN.
    void make_absolute() noexcept {
        for (std::int64_t i = 0; i < count(); ++i) {
            const double v = (*this)[i];
            (*this)[i] = v - v != 0 ? 0 : v < 0 ? -v : v;
        }
    }

private:
    [[nodiscard]] double* data() const noexcept { return reinterpret_cast<double*>(memory_.data()); }

    extents shape_{};
    workspace memory_{};
};

}  // namespace detail
GRADKERN_ISA_NAMESPACE_END
