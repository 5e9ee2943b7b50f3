// Inputs that bring out mistakes: fill(tensor, pattern, seed).
//
// The numbers depend on pattern, seed, operand, type and shape alone: they are the same on every machine, for every compiler and
// whatever the strides. Nothing here allocates or throws.
#pragma once

#include <array>
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
#include <gradkern/testing/numbers.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace test {

/// What fill() writes. Products and sums of two operands are meant: operand 0 has the numbers that the name says, all other
/// operands those behind "with" (only operand 1 in `subnormal`, so that a bias does not hide the products). ulp is 2^-(fraction bits) of the tensor's type. All numbers are exact in their type.
enum class pattern : std::uint8_t {
    /// in (-2, 2)
    uniform,
    /// in [1/2, 1): sums that only grow, and stop growing in 16 bits
    positive,
    /// -4 ... 4: every product and every sum of up to 2^20 terms is exact in f32, in any order, so results are correctly rounded
    integers,
    /// in [1, 9/8), signs like a chess board, with positive numbers in [1, 9/8): sums that cancel to a small part of their terms
    cancelling,
    /// 1 + (0, 1, 2 or 3) ulp of either sign, with positive ones: maxima that are equal or 1 ulp apart, sums near the middle of
    /// two numbers
    near_ties,
    /// multiples of the least subnormal number up to twice the least normal one, with numbers in [1, 2)
    subnormal,
    /// uniform, but some four elements NaN or Inf, and one in eight 0: what is not finite reaches what its windows touch
    non_finite,
    /// the largest quarter of the type's range, of either sign, with numbers in [1, 2): results that round to Inf
    large,
    /// 0 but for a single 1 at the position (seed modulo the number of elements), with 1 + i mod 127 for element i: a tap, a
    /// channel or a row in the wrong place shows another number
    one_hot
};
/// All patterns, for loops over them.
inline constexpr std::array all_patterns{pattern::uniform,    pattern::positive,  pattern::integers,
                                         pattern::cancelling, pattern::near_ties, pattern::subnormal,
                                         pattern::non_finite, pattern::large,     pattern::one_hot};

/// The name of a pattern; "unknown" for a number that names no enumerator.
[[nodiscard]] constexpr std::string_view name_of(pattern p) noexcept {
    constexpr std::array<std::string_view, all_patterns.size()> names{
        "uniform", "positive", "integers", "cancelling", "near_ties", "subnormal", "non_finite", "large", "one_hot"};
    const auto i = static_cast<std::size_t>(p);
    return i < names.size() ? names[i] : "unknown";
}

}  // namespace test

namespace detail {

/// Makes the numbers of a pattern for one tensor.
class pattern_numbers {
public:
    constexpr pattern_numbers(data_type type, test::pattern p, std::uint64_t seed, int operand,
                              std::int64_t count) noexcept
        : format_(format_of(type)),
          pattern_(p),
          is_first_(operand == 0),
          is_factor_(operand == 1),
          hot_(count > 0 ? static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(count)) : 0),
          rare_(count > 4 ? static_cast<std::uint64_t>(count) / 4 : 1),
          stream_(test::scramble(test::scramble(seed) + static_cast<std::uint64_t>(operand))) {}

    /// Element i, at this index.
    [[nodiscard]] constexpr double operator()(std::int64_t i, const extents& index) const noexcept {
        using test::pattern;
        const std::uint64_t bits = test::scramble(stream_ + static_cast<std::uint64_t>(i));
        const double sign = (bits & 1U) != 0 ? -1 : 1;
        const std::uint64_t more = bits >> 11;  // 53 bits
        switch (pattern_) {
            case pattern::uniform: break;
            case pattern::positive: return fraction(more, 0) / 2;
            case pattern::integers: return static_cast<double>(more % 9) - 4;
            case pattern::cancelling: return (is_first_ && is_odd(index) ? -1 : 1) * fraction(more, 3);
            case pattern::near_ties: return (is_first_ ? sign : 1) * (1 + static_cast<double>(more % 4) * ulp());
            case pattern::subnormal:
                if (is_factor_) return fraction(more, 0);
                return sign * static_cast<double>(more & ((std::uint64_t{2} << format_.fraction_bits) - 1)) *
                       power_of_two(format_.least_exponent - format_.fraction_bits);
            case pattern::non_finite:
                if (more % rare_ == 0) return special(test::scramble(bits));
                if ((bits >> 4) % 8 == 0) return 0;
                break;
            case pattern::large:
                return is_first_ ? sign * fraction(more, 0) * power_of_two(format_.largest_exponent)
                                 : fraction(more, 0);
            case pattern::one_hot: return is_first_ ? (i == hot_ ? 1 : 0) : static_cast<double>(1 + i % 127);
        }
        return sign * (fraction(more, 0) - 1) * 2;
    }

private:
    [[nodiscard]] constexpr double ulp() const noexcept { return power_of_two(-format_.fraction_bits); }
    /// A number of the type in [1, 1 + 2^-narrow).
    [[nodiscard]] constexpr double fraction(std::uint64_t bits, int narrow) const noexcept {
        return 1 + static_cast<double>(bits & ((std::uint64_t{1} << (format_.fraction_bits - narrow)) - 1)) * ulp();
    }
    [[nodiscard]] static constexpr double special(std::uint64_t bits) noexcept {
        constexpr double infinity = own::infinity<double>;
        return bits % 4 == 0 ? own::quiet_nan<double> : bits % 4 == 1 ? -infinity : infinity;
    }
    [[nodiscard]] static constexpr bool is_odd(const extents& index) noexcept {
        std::int64_t sum = 0;
        for (const std::int64_t e : index.values()) sum += e;
        return sum % 2 != 0;
    }

    number_format format_;
    test::pattern pattern_;
    bool is_first_;
    bool is_factor_;
    std::int64_t hot_;
    std::uint64_t rare_;
    std::uint64_t stream_;
};

}  // namespace detail

namespace test {

/// Writes the numbers of a pattern to a tensor of any type. `operand` is 0 for an operator's first input and for an input that
/// is not multiplied, 1 for the other factor (weights; diff_dst of a weight gradient), 2, 3, ... for more tensors.
/// `unsupported`: there is no such pattern; `invalid_argument` or `overflow`: the strides are wrong; `null_pointer`.
[[nodiscard]] inline status fill(const dynamic_view& to, pattern p, std::uint64_t seed, int operand = 0) noexcept {
    shape::operator_checks checks("fill");
    checks.require_that(static_cast<std::size_t>(p) < all_patterns.size(), errc::unsupported, "pattern",
                        "there is no such pattern");
    for (const std::int64_t e : to.layout.shape.values())
        checks.require_at_least(errc::invalid_shape, "tensor", -1, e, 0);
    checks.volume("tensor", to.layout.shape, static_cast<std::int64_t>(size_of(to.type)));
    checks.addresses("tensor", to.layout, static_cast<std::int64_t>(size_of(to.type)), true);
    if (!checks.ok()) return checks.error();
    const std::int64_t count = shape::element_count(to.layout.shape);
    checks.require_that(to.data != nullptr || count == 0, errc::null_pointer, "tensor", shape::no_memory);
    if (!checks.ok()) return checks.error();
    const detail::pattern_numbers number(to.type, p, seed, operand, count);
    detail::for_each_element(to.layout, [&](std::int64_t i, std::int64_t offset, const extents& index) {
        detail::store_number(to, offset, number(i, index));
    });
    return {};
}

}  // namespace test
GRADKERN_ISA_NAMESPACE_END
