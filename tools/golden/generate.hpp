// Problems and inputs from a seed: the same on every machine. Frozen suites are lists of problems with the hashes of what
// make_inputs makes of them: that function never changes. What generate draws may. (List 1.0 has patterns drawn at random.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "problem.hpp"
#include "tensor.hpp"

namespace golden {

/// How large generated problems are.
enum class size_class : std::uint8_t { small, medium, large };

/// What to generate. Every operator gets `count` problems of every type; those of the types have the same shapes.
struct generate_request {
    std::vector<op> operators{};
    std::vector<element> types{};
    std::vector<gk::data_format> layouts{};
    std::vector<size_class> sizes{};
    std::size_t count = 10;
    std::uint64_t seed = 1;
};

/// Problems with shapes, attributes and recipes of their inputs. Every operator has every pattern in every type if `count` is at
/// least the number of patterns.
[[nodiscard]] std::vector<problem> generate(const generate_request& request);

/// The inputs of a problem with all its shapes and a recipe.
[[nodiscard]] tensors make_inputs(const problem& p);

/// FNV-1a, 64 bits, over the bytes of tensors in the order of `roles`; as 16 hexadecimal digits. NaN is one number.
[[nodiscard]] std::string hash_of(const tensors& all, const std::vector<role>& roles);

}  // namespace golden
