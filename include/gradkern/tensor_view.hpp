// Shapes, strides and views: how callers describe their memory.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>
#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/detail/members.hpp>

GRADKERN_NAMESPACE_BEGIN

/// An entry of a list of extents: an integer of up to 64 bits, or an object that converts to one without loss. bool and
/// character types are excluded, so that text is not a shape.
template <class Integer>
concept extent_value = ((std::integral<Integer> && sizeof(Integer) <= sizeof(std::int64_t)) ||
                        requires(const Integer& i) { std::int64_t{i}; }) &&
                       !(std::same_as<Integer, bool> || std::same_as<Integer, char> || std::same_as<Integer, wchar_t> ||
                         std::same_as<Integer, char8_t> || std::same_as<Integer, char16_t> ||
                         std::same_as<Integer, char32_t>);

/// Any range of such numbers: std::vector, std::array, std::span, an array, ...
template <class R>
concept extent_range = requires(R& r) {
    std::begin(r) != std::end(r);
    requires extent_value<std::iter_value_t<decltype(std::begin(r))>>;
};

/// A short list of integers: a shape, strides, or an attribute with one entry per axis. Holds up to 5 entries and
/// counts how many it was given, so that operators can refuse longer ones. Unsigned numbers of 2^63 or more become
/// 2^63 - 1, which is refused as a size, a padding or a stride, too.
class extents {
public:
    static constexpr std::size_t capacity = 5;  ///< batch, channels and three spatial axes

    /// Nothing: an absent attribute.
    // One by one, since this is a member of aggregates. No constructor stores in its body: if a constant aggregate holds the
    // list, g++ 12 treats such a store as a change of a constant.
    GRADKERN_ALWAYS_INLINE constexpr extents() noexcept
        : values_{members::apart(0), members::apart(0), members::apart(0), members::apart(0), members::apart(0)},
          rank_(static_cast<std::size_t>(members::apart(0))) {}
    /// From a braced list: `extents{1, 64, 56, 56}`.
    template <extent_value... Integer>
    requires(sizeof...(Integer) > 1) GRADKERN_PER_ISA constexpr extents(const Integer&... values) noexcept
        : extents(std::initializer_list<std::int64_t>{number(values)...}) {}
    /// From a braced list of one number, or from an initializer list.
    template <extent_value Integer>
    GRADKERN_PER_ISA constexpr extents(std::initializer_list<Integer> values) noexcept
        : extents(keep(values.begin(), values.end())) {}
    /// From a run-time list of any type: `extents(some_vector)`. Entries past the fifth are counted, not kept.
    template <class R>
    requires(extent_range<R>)
        // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): `.kernel = vector`
        GRADKERN_PER_ISA constexpr extents(R&& values) noexcept
        : extents(keep(std::begin(values), std::end(values))) {}

    /// `count` times the same value.
    [[nodiscard]] GRADKERN_PER_ISA static constexpr extents filled(std::size_t count, std::int64_t value) noexcept {
        extents e;
        e.rank_ = count;
        for (std::size_t i = 0; i < count && i < capacity; ++i) e.values_[i] = value;
        return e;
    }

    /// Number of entries given, even if it exceeds the capacity.
    [[nodiscard]] GRADKERN_PER_ISA constexpr std::size_t rank() const noexcept { return rank_; }
    /// True if nothing was given: an absent attribute.
    [[nodiscard]] GRADKERN_PER_ISA constexpr bool empty() const noexcept { return rank_ == 0; }
    /// Entry i; i < min(rank, capacity).
    [[nodiscard]] GRADKERN_PER_ISA constexpr std::int64_t operator[](std::size_t i) const noexcept {
        return values_[i];
    }
    /// Entry i; i < min(rank, capacity).
    [[nodiscard]] GRADKERN_PER_ISA constexpr std::int64_t& operator[](std::size_t i) noexcept { return values_[i]; }
    /// The entries kept.
    [[nodiscard]] GRADKERN_PER_ISA constexpr std::span<const std::int64_t> values() const noexcept {
        return {values_.data(), rank_ < capacity ? rank_ : capacity};
    }
    /// Appends an entry.
    GRADKERN_PER_ISA constexpr void push_back(std::int64_t value) noexcept {
        if (rank_ < capacity) values_[rank_] = value;
        ++rank_;
    }

    /// Equal entries. (The memory after them is not compared: g++ 12 fills it with copies of the entries when it vectorises
    /// a copy of constants for -march=skylake-avx512 at -O3.)
    GRADKERN_PER_ISA friend constexpr bool operator==(const extents& a, const extents& b) noexcept {
        bool same = a.rank_ == b.rank_;
        for (std::size_t i = 0; i < capacity && i < a.rank_; ++i) same = same && a.values_[i] == b.values_[i];
        return same;
    }

private:
    /// The entries kept of a list.
    struct kept {
        std::array<std::int64_t, capacity> values;
        std::size_t rank;
    };
    template <class Iterator, class End>
    [[nodiscard]] GRADKERN_PER_ISA static constexpr kept keep(Iterator first, End last) noexcept {
        kept k{{0, 0, 0, 0, 0}, 0};
        for (; first != last; ++first) {
            if (k.rank < capacity) k.values[k.rank] = number(*first);
            ++k.rank;
        }
        return k;
    }
    GRADKERN_PER_ISA constexpr explicit extents(const kept& k) noexcept : values_(k.values), rank_(k.rank) {}

    /// The nearest signed number.
    template <class Integer>
    [[nodiscard]] GRADKERN_PER_ISA static constexpr std::int64_t number(const Integer& value) noexcept {
        constexpr std::int64_t most = (std::numeric_limits<std::int64_t>::max)();
        if constexpr (std::unsigned_integral<Integer> && sizeof(Integer) == sizeof(most)) {
            return value > static_cast<Integer>(most) ? most : static_cast<std::int64_t>(value);
        } else {
            return static_cast<std::int64_t>(value);
        }
    }

    std::array<std::int64_t, capacity> values_;
    std::size_t rank_;
};

/// Shape and strides of a tensor, both in the order of its data_format or weights_format. Strides count
/// elements. Empty strides are those of a dense row-major tensor. Strides of inputs may be 0 or negative. Those of an output
/// may be negative, and must nest: in order of size, each one exceeds the reach of all smaller ones.
struct tensor_layout {
    extents shape{};    ///< sizes
    extents strides{};  ///< elements from one entry of an axis to the next; empty: dense

    /// No layout: an absent input, or an output whose shape is to be inferred.
    GRADKERN_ALWAYS_INLINE constexpr tensor_layout() noexcept {}
    /// A dense tensor.
    // NOLINTNEXTLINE(google-explicit-constructor): a dense tensor is described by its shape
    GRADKERN_PER_ISA constexpr tensor_layout(const extents& s) noexcept : shape(s) {}
    /// A tensor with these strides, one per axis.
    GRADKERN_PER_ISA constexpr tensor_layout(const extents& s, const extents& t) noexcept : shape(s), strides(t) {}
    /// A dense tensor: `tensor_layout{1, 64, 56, 56}`. (Templates, since with std::initializer_list<std::int64_t>
    /// `{{64}, {1}}` would be a list of two integers. It is shape and strides, as `{{8, 64}, {64, 1}}` is.)
    template <extent_value... Integer>
    requires(sizeof...(Integer) > 1) GRADKERN_PER_ISA constexpr tensor_layout(const Integer&... sizes) noexcept
        : shape(sizes...) {}
    /// A dense tensor of one axis: `tensor_layout{64}`.
    template <extent_value Integer>
    GRADKERN_PER_ISA constexpr tensor_layout(std::initializer_list<Integer> s) noexcept : shape(s) {}
    /// A dense tensor whose shape is a run-time list of any type.
    template <class R>
    requires(extent_range<R>)
        // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): as from extents
        GRADKERN_PER_ISA constexpr tensor_layout(R&& s) noexcept
        : shape(s) {}

    /// True if no layout was given: an output whose shape is to be inferred, or an absent input.
    [[nodiscard]] GRADKERN_PER_ISA constexpr bool empty() const noexcept { return shape.empty(); }
    /// True if no strides were given.
    [[nodiscard]] GRADKERN_PER_ISA constexpr bool is_dense() const noexcept { return strides.empty(); }

    /// Equal shapes, and equal strides as given.
    GRADKERN_PER_ISA friend constexpr bool operator==(const tensor_layout&, const tensor_layout&) noexcept = default;
};

/// A tensor in the caller's memory: a pointer to its first element (the one with all indices 0) and its layout.
/// T is const for inputs.
template <class T>
struct tensor_view {
    /// T, which is const for inputs.
    using element_type = T;

    T* data = nullptr;       ///< element with all indices 0
    tensor_layout layout{};  ///< shape and strides

    GRADKERN_PER_ISA constexpr tensor_view() noexcept = default;
    /// A view of the elements at p.
    GRADKERN_PER_ISA constexpr tensor_view(T* p, const tensor_layout& l) noexcept : data(p), layout(l) {}
    /// A view of constant elements from one of mutable elements.
    template <class U>
    requires(std::same_as<const U, T>)
        // NOLINTNEXTLINE(google-explicit-constructor): as T* converts to const T*
        GRADKERN_PER_ISA constexpr tensor_view(const tensor_view<U>& other) noexcept
        : data(other.data), layout(other.layout) {}
};

/// A tensor_view of mutable elements. One-call forms also accept it as their first input.
template <class V>
concept mutable_view =
    !std::is_const_v<typename V::element_type> && std::same_as<V, tensor_view<typename V::element_type>>;

GRADKERN_NAMESPACE_END
