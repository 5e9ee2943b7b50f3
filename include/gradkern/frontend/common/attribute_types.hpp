// Attribute types of the front ends.
#pragma once

#include <algorithm>
#include <concepts>
#include <optional>
#include <ranges>
#include <string_view>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/shape/layout.hpp>
#include <gradkern/shape/padding.hpp>

GRADKERN_ISA_NAMESPACE_BEGIN
namespace frontend {

/// An attribute whose value is one of a few words; absent unless given. Text is not copied: it must live until the call
/// that takes the attributes returns.
template <class E>
class word {
public:
    /// The values of the words.
    using value_type = E;

    /// Absent: the attribute has its default.
    constexpr word() noexcept = default;
    /// An enumerator.
    // NOLINTNEXTLINE(google-explicit-constructor): `.auto_pad = auto_pad::valid` must work
    constexpr word(E value) noexcept : value_(value) {}
    /// An enumerator of the core, for an attribute that has more words than the core.
    template <class V>
    requires(std::is_enum_v<V> && !std::same_as<V, E> && std::convertible_to<V, E>)
        // NOLINTNEXTLINE(google-explicit-constructor): `.filter_format = weights_format::oix` must work
        constexpr word(V value) noexcept
        : value_(value) {}
    /// A word, e.g. "same_upper"; a null pointer is absent.
    template <class S>
    requires(std::convertible_to<const S&, std::string_view> && !std::is_null_pointer_v<S>)
        // NOLINTNEXTLINE(google-explicit-constructor): `.auto_pad = "valid"` must work
        constexpr word(const S& text) noexcept {
        if constexpr (std::is_pointer_v<S>) {
            if (text == nullptr) return;
        }
        text_ = std::string_view(text);
        is_text_ = true;
    }

    /// Stores the value, or leaves `target` unchanged if absent. Returns false if the word is unknown.
    [[nodiscard]] constexpr bool read(E& target) const noexcept {
        if (is_text_) return parse(text_, target);
        if (value_) target = *value_;
        return true;
    }

private:
    std::optional<E> value_{};
    std::string_view text_{};
    bool is_text_ = false;
};

/// Contiguous s32 or s64 integers: std::span, std::vector, std::array and so on.
template <class R>
concept integer_range = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::signed_integral<std::ranges::range_value_t<R>> &&
    (sizeof(std::ranges::range_value_t<R>) == 4 || sizeof(std::ranges::range_value_t<R>) == 8);

}  // namespace frontend
GRADKERN_ISA_NAMESPACE_END
