// The checks that operators share, in the order every operator runs them (see `operator_checks`).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/checked.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/shape/padding.hpp>
#include <gradkern/status.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace shape {

/// Nothing to say besides numbers.
inline constexpr remark no_remark{};
/// Reasons that several checks use.
inline constexpr std::string_view no_shape = "its shape cannot be inferred, and was not given";
inline constexpr std::string_view no_memory = "the pointer is null, but the tensor has elements";
inline constexpr std::string_view overlapping_strides =
    "elements of the output overlap: this stride must exceed the reach of all smaller strides";
inline constexpr std::string_view uncountable_scratch = "the bytes that this problem needs exceed 63 bits";
inline constexpr std::string_view uncountable_reach =
    "the effective kernel, (kernel - 1) * dilation + 1, exceeds 63 bits";
inline constexpr std::string_view uncountable_padded = "the size with its padding exceeds 63 bits";
inline constexpr std::string_view uncountable_windows =
    "the reach of all windows, (windows - 1) * stride + effective kernel, exceeds 63 bits";

inline constexpr std::string_view too_small_for_kernel =
    "the size with its padding must hold the effective kernel, (kernel - 1) * dilation + 1";
inline constexpr std::string_view too_small_to_overhang =
    "the size with its padding must hold the effective kernel, (kernel - 1) * dilation + 1, minus (stride - 1)";

/// Why the small side of a window operator has the size it has.
[[nodiscard]] constexpr std::string_view window_rule(auto_pad mode, rounding_type rounding) noexcept {
    if (mode == auto_pad::same_upper) return "auto_pad same_upper makes it ceil(size / stride)";
    if (mode == auto_pad::same_lower) return "auto_pad same_lower makes it ceil(size / stride)";
    switch (rounding) {
        case rounding_type::ceil: return "the number of windows, rounded up";
        case rounding_type::ceil_torch:
            return "the number of windows, rounded up, without a last window in the end padding";
        default: return "the number of windows that fit";
    }
}

/// Collects the first error of a sequence of checks. The order of all operators:
///   0 spatial rank; 1 attribute lengths and words; 2 attribute values; 3 ranks that disagree, then element types (only
///   in dynamic.hpp: elsewhere the compiler knows them), then missing shapes; 4 sizes; 5 overflow; 6 batch,
///   channels, spatial consistency.
/// Plans check memory after that: addresses, tensor by tensor, then for a convolution that the scratch size fits 63
/// bits (overflow of "workspace").
class operator_checks {
public:
    constexpr explicit operator_checks(std::string_view op) noexcept { error_.op = op; }

    /// True while no check has failed.
    [[nodiscard]] constexpr bool ok() const noexcept { return error_.code == errc::ok; }
    /// The first failure.
    [[nodiscard]] constexpr const gradkern::error& error() const noexcept { return error_; }

    /// Records a failure unless `holds`, or unless one is recorded. `say`: what the text says besides the numbers.
    constexpr void require(bool holds, errc code, std::string_view argument, int index, std::int64_t got,
                           expectation relation, std::int64_t expected, const remark& say = no_remark) noexcept {
        if (!holds) record(code, argument, index, got, relation, expected, say);
    }
    GRADKERN_COLD constexpr void require_equal(errc code, std::string_view argument, int index, std::int64_t got,
                                               std::int64_t expected, const remark& say = no_remark) noexcept {
        require(got == expected, code, argument, index, got, expectation::equal, expected, say);
    }
    GRADKERN_COLD constexpr void require_at_least(errc code, std::string_view argument, int index, std::int64_t got,
                                                  std::int64_t expected, const remark& say = no_remark) noexcept {
        require(got >= expected, code, argument, index, got, expectation::at_least, expected, say);
    }
    /// Records a failure with a reason instead of numbers.
    GRADKERN_COLD constexpr void require_that(bool holds, errc code, std::string_view argument,
                                              std::string_view why) noexcept {
        if (!holds) record(code, argument, -1, 0, expectation::none, 0, {.why = why});
    }

    /// Check 0: spatial rank 1, 2 or 3, from the first data input.
    GRADKERN_COLD constexpr void spatial_rank(std::string_view argument, const extents& first_input) noexcept {
        const auto rank = static_cast<std::int64_t>(first_input.rank());
        first_input_ = argument;
        constexpr remark ranks{.what = quantity::rank};
        require(rank >= 3, errc::unsupported, argument, -1, rank, expectation::at_least, 3, ranks);
        require(rank <= 5, errc::unsupported, argument, -1, rank, expectation::at_most, 5, ranks);
    }
    /// Check 1: an attribute vector has one entry per axis, or none where it has a default.
    GRADKERN_COLD constexpr void length(std::string_view argument, const extents& v, std::size_t r,
                                        bool required) noexcept {
        if (v.empty() && !required) return;
        require_equal(errc::invalid_argument, argument, -1, static_cast<std::int64_t>(v.rank()),
                      static_cast<std::int64_t>(r),
                      {.what = quantity::entries, .other = first_input_, .why = "one for each spatial axis"});
    }
    /// Check 1: an enumerator that exists.
    template <class E>
    constexpr void word(std::string_view argument, E value, E last, std::string_view words) noexcept {
        require(value <= last, errc::invalid_argument, argument, -1, static_cast<std::int64_t>(value),
                expectation::at_most, static_cast<std::int64_t>(last), {.what = quantity::word, .why = words});
    }
    template <class E>
    constexpr void word(std::string_view argument, E value, E last) noexcept {
        word(argument, value, last, words_of(value));
    }
    /// Check 1: text that is one of `words`.
    constexpr void known_word(bool known, std::string_view argument, std::string_view words) noexcept {
        require(known, errc::invalid_argument, argument, -1, 0, expectation::none, 0,
                {.what = quantity::word, .why = words});
    }
    /// Check 2: every entry is at least `minimum`.
    GRADKERN_COLD constexpr void entries(std::string_view argument, const extents& v, std::int64_t minimum) noexcept {
        for (std::size_t i = 0; i < v.values().size(); ++i)
            require_at_least(errc::invalid_argument, argument, static_cast<int>(i), v[i], minimum);
    }
    /// Check 3, or 4 for a shape that is not a tensor's: the right number of axes.
    GRADKERN_COLD constexpr void rank(errc code, std::string_view argument, const extents& v,
                                      std::size_t expected) noexcept {
        require_equal(code, argument, -1, static_cast<std::int64_t>(v.rank()), static_cast<std::int64_t>(expected),
                      {.what = quantity::rank});
    }
    /// Check 3: a tensor of rank r + 2.
    constexpr void tensor_rank(std::string_view argument, const extents& v, std::size_t r) noexcept {
        rank(errc::unsupported, argument, v, r + 2);
    }
    /// Check 3: a shape that cannot be inferred was given.
    constexpr void has_shape(std::string_view argument, const extents& v) noexcept {
        require_that(!v.empty(), errc::missing_shape, argument, no_shape);
    }
    /// Check 4: a shape vector of r + 2 entries. The r entries from `space` on, spatial or kernel sizes, are at
    /// least 1; batch and channels may be 0.
    constexpr void sizes(std::string_view argument, const extents& v, std::size_t r, std::size_t space) noexcept {
        rank(errc::invalid_shape, argument, v, r + 2);
        for (std::size_t i = 0; ok() && i < r + 2; ++i)
            require_at_least(errc::invalid_shape, argument, static_cast<int>(i), v[i],
                             i >= space && i < space + r ? 1 : 0);
    }
    /// Check 5: a size that was computed without overflow. `what`: how the size is computed.
    GRADKERN_COLD constexpr void fits(std::string_view argument, int index, const checked& c,
                                      std::string_view what) noexcept {
        if (!c.ok()) record(errc::overflow, argument, index, 0, expectation::none, 0, {.why = what});
    }
    /// Check 5: elements and bytes of a dense tensor, as if none of its sizes were 0.
    GRADKERN_COLD constexpr void volume(std::string_view argument, const extents& v,
                                        std::int64_t element_bytes) noexcept {
        checked bytes(element_bytes);
        for (const std::int64_t e : v.values()) bytes *= std::max<std::int64_t>(e, 1);
        fits(argument, -1, bytes, "its size in bytes exceeds 63 bits");
    }

    /// After all shape rules, the memory of a tensor: the right number of strides, address arithmetic that does not
    /// overflow and, for an output, no two elements at one address.
    constexpr void addresses(std::string_view argument, const tensor_layout& t, std::int64_t element_bytes,
                             bool is_output) noexcept {
        if (!t.is_dense() && ok()) strides(argument, t, element_bytes, is_output);
    }

private:
    GRADKERN_COLD constexpr void strides(std::string_view argument, const tensor_layout& t, std::int64_t element_bytes,
                                         bool is_output) noexcept {
        require_equal(errc::invalid_argument, argument, -1, static_cast<std::int64_t>(t.strides.rank()),
                      static_cast<std::int64_t>(t.shape.rank()), {.what = quantity::strides});
        if (!ok()) return;
        const std::size_t rank = t.shape.rank();
        checked low(0);
        checked high(0);
        for (std::size_t i = 0; i < rank; ++i) {
            const checked reach = checked(std::max<std::int64_t>(t.shape[i], 1) - 1) * t.strides[i];
            (t.strides[i] < 0 ? low : high) += reach;
        }
        fits(argument, -1, (high - low + 1) * element_bytes, "its range of addresses exceeds 63 bits");
        if (!is_output || !ok()) return;
        for (const std::int64_t e : t.shape.values())
            if (e == 0) return;
        // Elements are distinct if each stride, in order of size, exceeds the reach of all smaller ones.
        std::array<std::size_t, extents::capacity> order{};
        const auto size_of = [&](std::size_t k) {
            const auto bits = static_cast<std::uint64_t>(t.strides[k]);
            return t.strides[k] < 0 ? 0U - bits : bits;
        };
        for (std::size_t i = 0; i < rank; ++i) {
            std::size_t at = i;
            for (; at > 0 && size_of(order[at - 1]) > size_of(i); --at) order[at] = order[at - 1];
            order[at] = i;
        }
        std::uint64_t reach = 0;
        for (std::size_t i = 0; i < rank; ++i) {
            const std::size_t k = order[i];
            if (t.shape[k] <= 1) continue;
            require(size_of(k) > reach, errc::invalid_argument, argument, static_cast<int>(k), t.strides[k],
                    expectation::none, 0, {.why = overlapping_strides});
            reach += static_cast<std::uint64_t>(t.shape[k] - 1) * size_of(k);
        }
    }

    GRADKERN_COLD constexpr void record(errc code, std::string_view argument, int index, std::int64_t got,
                                        expectation relation, std::int64_t expected, const remark& say) noexcept {
        if (!ok()) return;
        error_.code = code;
        error_.argument = argument;
        error_.axis = index;
        error_.got = got;
        error_.expected = expected;
        error_.relation = relation;
        error_.what = say.what;
        error_.other = say.other;
        error_.why = say.why;
    }

    gradkern::error error_{};
    std::string_view first_input_{members::no_text, members::no_text};
};

/// An error with a reason instead of numbers.
[[nodiscard]] constexpr error error_because(errc code, std::string_view op, std::string_view argument,
                                            std::string_view why, std::string_view other = {}) noexcept {
    return {code, op, argument, -1, 0, 0, expectation::none, quantity::value, other, why};
}

/// The error of an index below -1, or not below `end`.
[[nodiscard]] constexpr error bad_index(std::string_view op, std::int64_t index, std::int64_t end) noexcept {
    operator_checks checks(op);
    checks.require_at_least(errc::index_out_of_range, "indices", -1, index, -1,
                            {.why = "-1 means a window without a maximum"});
    checks.require(index < end, errc::index_out_of_range, "indices", -1, index, expectation::below, end,
                   {.other = "diff_src", .why = "the elements that index_base counts"});
    return checks.error();
}

/// Whether the shape rules report this class before they check element types and missing shapes: attributes and ranks have
/// classes that no later check uses.
[[nodiscard]] constexpr bool precedes_types(errc code) noexcept {
    return code == errc::invalid_argument || code == errc::unsupported;
}

/// Elements of a tensor of a countable shape; 0 of an absent one.
[[nodiscard]] constexpr std::int64_t element_count(const extents& shape) noexcept {
    std::int64_t count = shape.empty() ? 0 : 1;
    for (const std::int64_t extent : shape.values()) count *= extent;
    return count;
}

/// The stride of every axis of a layout, in its own order.
[[nodiscard]] constexpr extents strides_of(const tensor_layout& t) noexcept {
    if (!t.is_dense()) return t.strides;
    extents s = t.shape;
    std::int64_t step = 1;
    for (std::size_t i = t.shape.rank(); i-- > 0;) {
        s[i] = step;
        step *= std::max<std::int64_t>(t.shape[i], 1);
    }
    return s;
}

/// Strides of an activation in the order (N, C, D, H, W). Those of an axis of extent 1 other than C are 0,
/// because they are never used.
[[nodiscard]] constexpr canonical_strides activation_strides(const tensor_layout& t, data_format f) noexcept {
    const std::size_t r = t.shape.rank() - 2;
    const extents s = strides_of(t);
    const auto step = [&](std::size_t i) { return t.shape[i] <= 1 ? 0 : s[i]; };
    canonical_strides c{step(0), s[channel_index(f, r)], 0, 0, 0};
    for (std::size_t i = 0; i < r; ++i) c[5 - r + i] = step(spatial_index(f) + i);
    return c;
}

}  // namespace shape
GRADKERN_ISA_NAMESPACE_END
