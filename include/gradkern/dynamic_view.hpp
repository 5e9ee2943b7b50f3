// Tensors whose element type is known only at run time: the views of dynamic.hpp, and of testing.hpp.
#pragma once

#include <type_traits>

#include <gradkern/detail/config.hpp>
#include <gradkern/half.hpp>
#include <gradkern/tensor_view.hpp>

GRADKERN_NAMESPACE_BEGIN

/// An output in the caller's memory: element type, pointer to the first element (all indices 0), and layout.
struct dynamic_view {
    data_type type = data_type::f32;  ///< what an element is
    void* data = nullptr;             ///< element with all indices 0
    tensor_layout layout{};           ///< shape and strides in elements

    GRADKERN_PER_ISA constexpr dynamic_view() noexcept = default;
    /// A view of elements of type t at p.
    GRADKERN_PER_ISA constexpr dynamic_view(data_type t, void* p, const tensor_layout& l) noexcept
        : type(t), data(p), layout(l) {}
    /// From a view whose type the compiler knows.
    template <element T>
    // NOLINTNEXTLINE(google-explicit-constructor): nothing is lost
    GRADKERN_PER_ISA constexpr dynamic_view(const tensor_view<T>& view) noexcept
        : type(element_traits<T>::type), data(view.data), layout(view.layout) {}

    /// The same tensor with its type known: element_traits<T>::type must be `type`.
    template <element T>
    [[nodiscard]] GRADKERN_PER_ISA tensor_view<T> as() const noexcept {
        return {static_cast<T*>(data), layout};
    }
};

/// An input in the caller's memory: like dynamic_view, but read-only.
struct const_dynamic_view {
    data_type type = data_type::f32;  ///< what an element is
    const void* data = nullptr;       ///< element with all indices 0
    tensor_layout layout{};           ///< shape and strides in elements

    GRADKERN_PER_ISA constexpr const_dynamic_view() noexcept = default;
    /// A view of elements of type t at p.
    GRADKERN_PER_ISA constexpr const_dynamic_view(data_type t, const void* p, const tensor_layout& l) noexcept
        : type(t), data(p), layout(l) {}
    /// A view of constant elements from one of mutable elements.
    // NOLINTNEXTLINE(google-explicit-constructor): as void* converts to const void*
    GRADKERN_PER_ISA constexpr const_dynamic_view(const dynamic_view& view) noexcept
        : type(view.type), data(view.data), layout(view.layout) {}
    /// From a view whose type the compiler knows.
    template <class T>
    requires(element<std::remove_const_t<T>>)
        // NOLINTNEXTLINE(google-explicit-constructor): nothing is lost
        GRADKERN_PER_ISA constexpr const_dynamic_view(const tensor_view<T>& view) noexcept
        : type(element_traits<std::remove_const_t<T>>::type), data(view.data), layout(view.layout) {}

    /// The same tensor with its type known: element_traits<T>::type must be `type`.
    template <element T>
    [[nodiscard]] GRADKERN_PER_ISA tensor_view<const T> as() const noexcept {
        return {static_cast<const T*>(data), layout};
    }
};

GRADKERN_NAMESPACE_END
