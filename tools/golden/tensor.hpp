// Tensors in memory, and their element types as problems, .npy files and the library name them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradkern/half.hpp>
#include <gradkern/tensor_view.hpp>

namespace golden {

namespace gk = gradkern;

/// A file, a problem or a command line is wrong. The text is for the user.
struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What an element of a tensor is. bf16 numbers are bit patterns in .npy files, which have no such type.
enum class element : std::uint8_t { f32, f16, bf16, f64, i64 };

/// A row of the table of element types.
struct element_facts {
    element type;
    std::string_view name;  ///< in a problem
    std::string_view npy;   ///< in the header of an .npy file, without byte order
    std::size_t bytes;
    bool computes;  ///< whether operators take it; the others are those of exact results, bounds and indices
};

/// Every element type. One that operators learn to take needs `computes` here and a line in with_element.
inline constexpr std::array<element_facts, 5> elements{{{element::f32, "f32", "f4", 4, true},
                                                        {element::f16, "f16", "f2", 2, true},
                                                        {element::bf16, "bf16", "u2", 2, true},
                                                        {element::f64, "f64", "f8", 8, true},
                                                        {element::i64, "i64", "i8", 8, false}}};

/// The row of a type.
[[nodiscard]] constexpr const element_facts& facts_of(element type) noexcept {
    return elements[static_cast<std::size_t>(type)];
}

/// Calls fn(std::type_identity<T>{}) for the T of a type that operators take.
template <class Fn>
[[nodiscard]] auto with_element(element type, const Fn& fn) {
    switch (type) {
        case element::f16: return fn(std::type_identity<gk::float16>{});
        case element::bf16: return fn(std::type_identity<gk::bfloat16>{});
        case element::f64: return fn(std::type_identity<double>{});
        default: return fn(std::type_identity<float>{});
    }
}

/// The library's name of a type.
[[nodiscard]] constexpr gk::data_type data_type_of(element type) noexcept {
    switch (type) {
        case element::f16: return gk::data_type::f16;
        case element::bf16: return gk::data_type::bf16;
        case element::f64: return gk::data_type::f64;
        default: return gk::data_type::f32;
    }
}

/// Sizes of the axes of a tensor. gk::extents has room for five; gradients per image may have one more.
using sizes = std::vector<std::int64_t>;
[[nodiscard]] inline sizes sizes_of(const gk::extents& e) { return {e.values().begin(), e.values().end()}; }

/// A list of sizes as text: (2, 3, 8).
[[nodiscard]] inline std::string text_of(const sizes& shape) {
    std::string text = "(";
    for (const std::int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    return text + ")";
}

/// The number of elements of a shape; a failure if 64 bits do not hold the number of their bytes.
[[nodiscard]] inline std::size_t count_of(const sizes& shape) {
    std::int64_t count = 1;
    bool fits = shape.size() <= gk::extents::capacity + 1;
    for (const std::int64_t n : shape)
        fits = fits && n >= 0 && !__builtin_mul_overflow(count, n, &count) && count < (std::int64_t{1} << 58);
    if (!fits) throw failure("the shape " + text_of(shape) + " has too many axes or elements");
    return static_cast<std::size_t>(count);
}

/// A dense tensor, row-major.
struct tensor {
    element type = element::f32;
    sizes shape{};
    std::vector<std::byte> bytes{};

    tensor() = default;
    /// Of zeros.
    tensor(element t, const sizes& s) : type(t), shape(s), bytes(count_of(s) * facts_of(t).bytes) {}

    [[nodiscard]] std::size_t size() const { return bytes.size() / facts_of(type).bytes; }
    /// The elements, whose type must be T's.
    template <class T>
    [[nodiscard]] T* data() noexcept {
        return reinterpret_cast<T*>(bytes.data());
    }
    template <class T>
    [[nodiscard]] const T* data() const noexcept {
        return reinterpret_cast<const T*>(bytes.data());
    }

    /// Element i as a number; exact but for indices beyond 2^53.
    [[nodiscard]] double at(std::size_t i) const noexcept {
        switch (type) {
            case element::f16: return static_cast<double>(static_cast<float>(data<gk::float16>()[i]));
            case element::bf16: return static_cast<double>(static_cast<float>(data<gk::bfloat16>()[i]));
            case element::f64: return data<double>()[i];
            case element::i64: return static_cast<double>(data<std::int64_t>()[i]);
            default: return static_cast<double>(data<float>()[i]);
        }
    }
    /// Rounds a number to element i.
    void set(std::size_t i, double v) noexcept {
        switch (type) {
            case element::f16: data<gk::float16>()[i] = gk::float16(static_cast<float>(v)); break;
            case element::bf16: data<gk::bfloat16>()[i] = gk::bfloat16(static_cast<float>(v)); break;
            case element::f64: data<double>()[i] = v; break;
            case element::i64: data<std::int64_t>()[i] = static_cast<std::int64_t>(v); break;
            default: data<float>()[i] = static_cast<float>(v);
        }
    }
};

/// Tensors of a problem by their names.
using tensors = std::map<std::string, tensor, std::less<>>;

}  // namespace golden
