// A problem: one operator with its attributes, the types and shapes of its tensors, and where its inputs come from. As JSON:
//
//     {"name": "layer1", "operator": "convolution_backward_weights", "type": "bf16", "types": {"diff_weights": "f32"},
//      "shapes": {"src": [2, 28, 28, 64], "diff_dst": [2, 14, 14, 128], "diff_weights": [3, 3, 64, 128]},
//      "attributes": {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}}
//
// Names, attributes, words and defaults are the library's. `types` names tensors that differ from `type`. Shapes of inputs
// may be left out where their files are read, and those of outputs where they can be inferred. An optional output (diff_bias,
// indices) is computed if it has a shape or stands in `outputs`. `values`, `made_by` and `hashes` are those of generated
// suites.
//
// `"options": {"output": "accumulate", "summation": "per_image"}` are members of plan_options, as are `precision` and `algorithm`.
// An output that accumulates has an input of its type and shape, its value before the call: previous_diff_weights for
// diff_weights. Gradients per image have an axis of N images before those of one image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include <gradkern/attributes.hpp>
#include <gradkern/options.hpp>
#include <gradkern/tensor_view.hpp>
#include <gradkern/testing/generate.hpp>
#include <gradkern/testing/problem.hpp>

#include "tensor.hpp"

namespace golden {

using json = nlohmann::ordered_json;

/// The operators; the table `operators` has their order.
using op = gk::test::operation;

/// Attributes of any operator.
using attributes = std::variant<gk::avg_pool_attributes, gk::lp_pool_attributes, gk::max_pool_attributes,
                                gk::max_pool_indices_attributes, gk::convolution_attributes,
                                gk::conv_transpose_attributes, gk::bias_attributes>;

/// A tensor of an operator.
struct role {
    std::string name{};
    bool optional = false;
    bool may_be_f32 = false;  ///< where the others have 16 bits
    bool is_index = false;
};

/// A row of the table of operators.
struct operator_facts {
    op id;
    std::string_view name;
    attributes defaults;
    std::vector<role> inputs;
    std::vector<role> outputs;
    bool is_gradient;
};

/// Every operator.
[[nodiscard]] const std::vector<operator_facts>& operators();
/// The row of an operator.
[[nodiscard]] inline const operator_facts& facts_of(op id) { return operators()[static_cast<std::size_t>(id)]; }
/// The row with this name; null if there is none.
[[nodiscard]] const operator_facts* find_operator(std::string_view name);

/// The input that is the value of an output before the call.
inline constexpr std::string_view previous_prefix = "previous_";
[[nodiscard]] inline std::string previous_of(const std::string& output) {
    return std::string(previous_prefix) + output;
}
/// The tensor of the operator whose type and shape an input has: itself, or the output whose previous value it is.
[[nodiscard]] constexpr std::string_view tensor_of(std::string_view input) {
    return input.starts_with(previous_prefix) ? input.substr(previous_prefix.size()) : input;
}

/// How the inputs of a generated problem are made: test::fill.
struct recipe {
    gk::test::pattern pattern{};
    std::uint64_t seed = 0;
};

/// See the head of this file.
struct problem {
    std::string name;
    op operation{};
    element type = element::f32;
    std::map<std::string, element, std::less<>> types{};
    std::map<std::string, sizes, std::less<>> shapes{};
    attributes attribute{};
    gk::plan_options options{};                        ///< output, summation, precision, algorithm
    std::vector<std::string> outputs{};                ///< optional ones without a shape
    std::optional<recipe> values{};                    ///< of a generated problem
    std::optional<gk::max_pool_attributes> made_by{};  ///< of generated indices: the pool whose indices they are
    std::string input_hash{};                          ///< of a frozen problem
    std::string expected_hash{};

    [[nodiscard]] const operator_facts& facts() const { return facts_of(operation); }
    /// The type of a tensor.
    [[nodiscard]] element type_of(const role& r) const {
        if (r.is_index) return element::i64;
        const auto found = types.find(tensor_of(r.name));
        return found == types.end() ? type : found->second;
    }
    /// Its shape; empty if it is not given.
    [[nodiscard]] sizes shape_of(std::string_view tensor) const {
        const auto found = shapes.find(tensor_of(tensor));
        return found == shapes.end() ? sizes{} : found->second;
    }
    /// Whether a tensor is one for each image: to the library it has the shape of one, and the others lie behind it.
    [[nodiscard]] bool is_per_image(std::string_view tensor) const {
        const std::string_view name = tensor_of(tensor);
        return options.summation == gk::summation::per_image && (name == "diff_weights" || name == "diff_bias");
    }
    /// Its shape to the library.
    [[nodiscard]] gk::extents call_shape_of(std::string_view tensor) const {
        const sizes shape = shape_of(tensor);
        return std::span(shape).subspan(is_per_image(tensor) && !shape.empty() ? 1 : 0);
    }
    /// The inputs, also the previous values of outputs that accumulate.
    [[nodiscard]] std::vector<role> inputs() const;
    /// The outputs that are computed.
    [[nodiscard]] std::vector<role> wanted_outputs() const;
};

/// The problem that a JSON object describes. A failure names the member that is wrong.
[[nodiscard]] problem problem_from(const json& object, const std::string& default_name);
/// As JSON: what is default is left out.
[[nodiscard]] json json_of(const problem& p);

/// Problems of a file: one, an array, or a suite, which is an object with the array `problems`. Names are unique and such that
/// files can have them.
[[nodiscard]] std::vector<problem> read_problems(const std::filesystem::path& file);
/// Writes a suite, a line for each problem.
void write_problems(const std::filesystem::path& file, const std::vector<problem>& problems, const json& about);

/// The file of a tensor of a problem.
[[nodiscard]] inline std::filesystem::path file_of(const std::filesystem::path& directory, const problem& p,
                                                   std::string_view tensor) {
    return directory / (p.name + "." + std::string(tensor) + ".npy");
}

}  // namespace golden
