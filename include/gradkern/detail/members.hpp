#ifndef GRADKERN_DETAIL_MEMBERS_HPP
#define GRADKERN_DETAIL_MEMBERS_HPP

/// \file
/// \brief Initial values of aggregates' members.
///
/// The default constructor of an aggregate is the compiler's own, so it can be neither tagged nor inlined by force, and all objects of a
/// program share it (detail/config.hpp): its body must be the same instructions whatever they were compiled for. Two zeros side by side
/// are what compilers write by one vector register. Where members of 8 bytes or more meet, the second is kept apart from the first:
/// \code
/// std::int64_t got = 0;
/// std::int64_t expected = members::apart(0);
/// std::string_view name{members::no_text, members::no_text};
/// \endcode
/// Constructed from a pair of iterators, a span or string view asks for its pointer and for its length in turn, and these iterators keep
/// both stores apart. Types of the library that are such members have default constructors of this kind (extents, executor_ref).

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include <gradkern/detail/config.hpp>

GRADKERN_NAMESPACE_BEGIN
namespace members {

/// \brief The value, stored on its own.
[[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr std::int64_t apart(std::int64_t value) noexcept {
    GRADKERN_DETAIL_STORE_APART();
    return value;
}

/// \brief A contiguous iterator that is both ends of an empty range: a null pointer.
template <class T>
struct nothing {
    using iterator_concept = std::contiguous_iterator_tag;
    using iterator_category = std::random_access_iterator_tag;
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    [[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr T* operator->() const noexcept {
        GRADKERN_DETAIL_STORE_APART();
        return nullptr;
    }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE friend constexpr std::ptrdiff_t operator-(nothing, nothing) noexcept {
        GRADKERN_DETAIL_STORE_APART();
        return 0;
    }

    // What else the concept asks for; nobody goes on from here.
    [[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr T& operator*() const noexcept { return *operator->(); }
    [[nodiscard]] GRADKERN_ALWAYS_INLINE constexpr T& operator[](std::ptrdiff_t) const noexcept { return **this; }
    GRADKERN_ALWAYS_INLINE constexpr nothing& operator++() noexcept { return *this; }
    GRADKERN_ALWAYS_INLINE constexpr nothing operator++(int) noexcept { return {}; }
    GRADKERN_ALWAYS_INLINE constexpr nothing& operator--() noexcept { return *this; }
    GRADKERN_ALWAYS_INLINE constexpr nothing operator--(int) noexcept { return {}; }
    GRADKERN_ALWAYS_INLINE constexpr nothing& operator+=(std::ptrdiff_t) noexcept { return *this; }
    GRADKERN_ALWAYS_INLINE constexpr nothing& operator-=(std::ptrdiff_t) noexcept { return *this; }
    GRADKERN_ALWAYS_INLINE friend constexpr nothing operator+(nothing, std::ptrdiff_t) noexcept { return {}; }
    GRADKERN_ALWAYS_INLINE friend constexpr nothing operator+(std::ptrdiff_t, nothing) noexcept { return {}; }
    GRADKERN_ALWAYS_INLINE friend constexpr nothing operator-(nothing, std::ptrdiff_t) noexcept { return {}; }
    GRADKERN_ALWAYS_INLINE friend constexpr bool operator==(nothing, nothing) noexcept { return true; }
    GRADKERN_ALWAYS_INLINE friend constexpr std::strong_ordering operator<=>(nothing, nothing) noexcept {
        return std::strong_ordering::equal;
    }
};

/// \brief Both ends of an empty string view.
inline constexpr nothing<const char> no_text{};
/// \brief Both ends of an empty span of bytes.
inline constexpr nothing<std::byte> no_bytes{};

}  // namespace members
GRADKERN_NAMESPACE_END

#endif  // GRADKERN_DETAIL_MEMBERS_HPP
