#include "tensor.hpp"

#include <cstddef>
#include <new>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace gradkern_python {
namespace {

[[nodiscard]] std::string type_of(nb::handle h) {
    const nb::handle type = h.type();
    return nb::cast<std::string>(type.attr("__module__")) + "." + nb::cast<std::string>(type.attr("__name__"));
}

[[nodiscard]] std::string dtype_of(nb::handle h) {
    if (!nb::hasattr(h, "dtype")) return {};
    const nb::object dtype = h.attr("dtype");
    return nb::str(nb::handle(dtype)).c_str();
}

[[nodiscard]] std::optional<std::int32_t> element_type(const nb::dlpack::dtype& t) {
    using code = nb::dlpack::dtype_code;
    if (t.lanes != 1) return {};
    if (t.code == static_cast<std::uint8_t>(code::Float) && t.bits == 32) return GRADKERN_F32;
    if (t.code == static_cast<std::uint8_t>(code::Float) && t.bits == 16) return GRADKERN_F16;
    if (t.code == static_cast<std::uint8_t>(code::Float) && t.bits == 64) return GRADKERN_F64;
    if (t.code == static_cast<std::uint8_t>(code::Bfloat) && t.bits == 16) return GRADKERN_BF16;
    if (t.code == static_cast<std::uint8_t>(code::Int) && t.bits == 64) return index_type;
    return {};
}

/// The view of an object that offers one.
[[nodiscard]] bool import_array(const nb::object& from, bool is_written, nb::ndarray<nb::ro>& to) {
    if (!is_written) return nb::try_cast(from, to, false);
    nb::ndarray<> writable;
    if (!nb::try_cast(from, writable, false)) return false;
    to = nb::ndarray<nb::ro>(writable);
    return true;
}

}  // namespace

void require(const gradkern_error& e) {
    if (e.code == GRADKERN_OUT_OF_MEMORY) throw std::bad_alloc();
    if (e.code != GRADKERN_OK) throw mistake(e.message);
}

tensor::tensor(const nb::object& array, const std::string& name, bool is_written) {
    bool imported = import_array(array, is_written, array_);
    bool is_bf16 = false;
    if (!imported && dtype_of(array) == "bfloat16" && nb::hasattr(array, "view")) {
        // NumPy exports no types that others define, ml_dtypes among them: its 16 bits are viewed as integers.
        is_bf16 = true;
        imported = import_array(array.attr("view")("uint16"), is_written, array_);
    }
    const auto refuse = [&](const std::string& why) {
        const std::string dtype = dtype_of(array);
        throw nb::type_error(
            (name + ": expected " + why + ", got " + type_of(array) + (dtype.empty() ? "" : " of " + dtype)).c_str());
    };
    if (!imported)
        refuse(is_written ? "a writable array (NumPy, DLPack or the buffer protocol)"
                          : "an array (NumPy, DLPack or the buffer protocol)");
    if (array_.device_type() != nb::device::cpu::value) refuse("an array in the memory of the CPU");
    const auto type = is_bf16 ? std::optional<std::int32_t>(GRADKERN_BF16) : element_type(array_.dtype());
    if (!type) refuse("elements of type float32, float16, bfloat16 or float64, or indices of type int64");
    if (array_.ndim() > 5) throw mistake(name + ": got " + std::to_string(array_.ndim()) + " axes, expected at most 5");

    data_ = const_cast<void*>(static_cast<const void*>(array_.data()));
    const std::size_t bytes = array_.itemsize();
    if (reinterpret_cast<std::uintptr_t>(data_) % bytes != 0)
        throw nb::value_error((name + ": its memory is not aligned to its elements: pass a copy").c_str());
    layout_.type = *type;
    layout_.rank = static_cast<std::int32_t>(array_.ndim());
    layout_.has_strides = 1;
    for (std::size_t i = 0; i < array_.ndim(); ++i) {
        layout_.shape[i] = static_cast<std::int64_t>(array_.shape(i));
        layout_.strides[i] = array_.stride(i);
    }
}

tensor::tensor(const std::string& type, const std::vector<std::int64_t>& shape,
               const std::optional<std::vector<std::int64_t>>& strides, const std::string& name) {
    std::size_t t = 0;
    while (t < type_names.size() && type_names[t] != type) ++t;
    if (t == type_names.size())
        throw nb::type_error((name + ": got the type " + type + ", expected f32, f16, bf16, f64 or i64").c_str());
    if (shape.size() > 5) throw mistake(name + ": got " + std::to_string(shape.size()) + " axes, expected at most 5");
    if (strides && strides->size() != shape.size())
        throw mistake(name + ": got " + std::to_string(strides->size()) + " strides, expected " +
                      std::to_string(shape.size()));
    layout_.type = static_cast<std::int32_t>(t);
    layout_.rank = static_cast<std::int32_t>(shape.size());
    layout_.has_strides = 1;
    // Sizes that are no sizes are refused later; here they only must not overflow.
    std::uint64_t dense = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        layout_.shape[i] = shape[i];
        layout_.strides[i] = strides ? (*strides)[i] : static_cast<std::int64_t>(dense);
        dense *= shape[i] > 1 ? static_cast<std::uint64_t>(shape[i]) : 1;
    }
    if (!strides) layout_.has_strides = 0;
}

std::string tensor::text() const {
    std::string out(type());
    for (int i = 0; i < layout_.rank; ++i) out += (i == 0 ? " (" : ", ") + std::to_string(layout_.shape[i]);
    return out + (layout_.rank == 0 ? " ()" : ")");
}

tensor tensor::without_memory() const {
    tensor t;
    t.layout_ = layout_;
    return t;
}

bool tensor::is_like(const tensor& other) const noexcept {
    const gradkern_tensor &a = layout_, &b = other.layout_;
    bool same = a.type == b.type && a.rank == b.rank;
    for (int i = 0; same && i < a.rank; ++i)
        same = a.shape[i] == b.shape[i] && (a.shape[i] < 2 || a.strides[i] == b.strides[i]);
    return same;
}

void bind_tensor(nb::module_& m) {
    const auto tuple_of = [](const std::int64_t* values, std::int32_t count) {
        nb::list list;
        for (std::int32_t i = 0; i < count; ++i) list.append(values[i]);
        return nb::tuple(list);
    };
    nb::class_<tensor>(m, "Tensor", "A tensor of a call: the memory of an array, or a type and a shape alone.")
        .def(nb::init<const nb::object&, const std::string&, bool>(), nb::arg("array"), nb::arg("name"),
             nb::arg("is_written") = false)
        .def(nb::init<const std::string&, const std::vector<std::int64_t>&,
                      const std::optional<std::vector<std::int64_t>>&, const std::string&>(),
             nb::arg("type"), nb::arg("shape"), nb::arg("strides") = nb::none(), nb::arg("name") = "tensor")
        .def_prop_ro("type", &tensor::type, "f32, f16, bf16, f64 or i64.")
        .def_prop_ro(
            "shape", [=](const tensor& t) { return tuple_of(t.layout().shape, t.layout().rank); },
            nb::sig("def shape(self, /) -> tuple[int, ...]"), "The sizes.")
        .def_prop_ro(
            "strides", [=](const tensor& t) { return tuple_of(t.layout().strides, t.layout().rank); },
            nb::sig("def strides(self, /) -> tuple[int, ...]"), "The strides, in elements.")
        .def("__repr__", [](const tensor& t) { return "Tensor(" + t.text() + ")"; });
}

}  // namespace gradkern_python
