// What is right: exact results, bounds and verdicts.
#pragma once

#include <nanobind/nanobind.h>

#include "problem.hpp"

namespace gradkern_python {

/// Writes the correctly rounded result to the output tensors, which overlap no input.
void compute_exact(const problem& p, const tensors& t);

void bind_judge(nb::module_& m);

}  // namespace gradkern_python
