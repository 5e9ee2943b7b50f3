// An operator with its tensors and attributes, as the C interface has it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>

#include <gradkern/gradkern.h>

#include "tensor.hpp"

namespace gradkern_python {

/// Tensors of a call in the operator's order; absent ones are empty.
using tensors = std::vector<std::optional<tensor>>;

/// An operator, and the names of its tensors.
struct operator_facts {
    std::string_view name;
    std::array<std::string_view, 4> tensors;
};
/// The operators, in the order of gradkern_operator.
extern const std::array<operator_facts, 14> operators;

/// See the head of this file.
class problem {
public:
    /// Attributes have the names of gradkern_problem's members: numbers, or lists of numbers.
    problem(const std::string& op, const tensors& given, const nb::dict& attributes);
    problem(const problem&) = delete;
    problem& operator=(const problem&) = delete;

    [[nodiscard]] const gradkern_problem& get() const noexcept { return p_; }
    [[nodiscard]] const operator_facts& facts() const noexcept { return operators[static_cast<std::size_t>(p_.op)]; }
    /// The shape of the first output.
    [[nodiscard]] gradkern_tensor infer() const;

private:
    gradkern_problem p_{};
    std::string algorithm_{};
};

void bind_problem(nb::module_& m);

}  // namespace gradkern_python
