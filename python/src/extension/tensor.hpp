// Arrays of Python as tensors of the C interface, without copies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <gradkern/gradkern.h>

namespace gradkern_python {

namespace nb = nanobind;

/// A mistake that the library found: gradkern.Error.
struct mistake : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

/// Throws what the library reports.
void require(const gradkern_error& e);

/// Element types: those of the C interface, and that of indices.
inline constexpr std::int32_t index_type = 4;
inline constexpr std::array<std::string_view, 5> type_names{"f32", "f16", "bf16", "f64", "i64"};

/// An array of a caller, or the type and the shape of one.
class tensor {
public:
    /// Of an object with DLPack or the buffer protocol. `name` is what errors call it.
    tensor(const nb::object& array, const std::string& name, bool is_written);
    /// No memory.
    tensor(const std::string& type, const std::vector<std::int64_t>& shape,
           const std::optional<std::vector<std::int64_t>>& strides, const std::string& name);

    [[nodiscard]] const gradkern_tensor& layout() const noexcept { return layout_; }
    [[nodiscard]] void* data() const noexcept { return data_; }
    [[nodiscard]] bool is_index() const noexcept { return layout_.type == index_type; }
    [[nodiscard]] std::string_view type() const noexcept { return type_names[static_cast<std::size_t>(layout_.type)]; }
    [[nodiscard]] std::string text() const;
    /// Type and layout alone.
    [[nodiscard]] tensor without_memory() const;
    /// Whether both have one type and shape, and elements in the same places.
    [[nodiscard]] bool is_like(const tensor& other) const noexcept;

private:
    tensor() = default;

    gradkern_tensor layout_{};
    void* data_ = nullptr;
    nb::ndarray<nb::ro> array_{};  // keeps the memory
};

void bind_tensor(nb::module_& m);

}  // namespace gradkern_python
