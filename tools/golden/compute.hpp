// What a problem's outputs are: by the library's kernels, exactly, and how far from exact they may be.
#pragma once

#include <map>
#include <string>

#include "problem.hpp"
#include "tensor.hpp"

namespace golden {

/// Gives `p` the shapes of all tensors: those of `inputs`, and inferred ones for outputs that have none. A failure is the
/// library's error about the problem, or names a tensor whose shape is another than the problem says.
void complete_shapes(problem& p, const tensors& inputs);

// The following take a problem with all its shapes, and inputs of these shapes and types.

/// The outputs that gradkern computes.
[[nodiscard]] tensors results(const problem& p, const tensors& inputs);

/// What the outputs are to be, by testing.hpp.
struct expectation {
    tensors exact{};  ///< exact values in f64; indices as they are
    /// For each element how far a result may be from the exact one, in f64. Inf: nothing is promised. -Inf: the result is
    /// infinite, with the sign of the exact value. 0 for indices.
    tensors bounds{};
};
[[nodiscard]] expectation expected(const problem& p, const tensors& inputs);

}  // namespace golden
