"""Pooling, convolution and their gradients on NumPy arrays and DLPack tensors, with the same bits everywhere.

Fourteen operators are functions, such as convolution() and max_pool_backward(). Others take an operator and its arguments:

- plan(operator, ...) checks a problem once, for many calls;
- infer(operator, ...) gives the shape of a result;
- exact(operator, ...) computes the correctly rounded result;
- bounds(operator, ...) gives expected values and the largest errors that are right;
- compare(result, operator, ...) judges somebody else's result.

Every operator takes these options: accumulate=True adds to `out`; workers=n uses n threads (0: all of the machine), which
changes no bit; precision, algorithm and scratch are those of <gradkern/options.hpp>. Mistakes are errors of the type Error, a
ValueError, or TypeError, and nothing is written.
"""

from . import _native
from ._call import Plan, bounds, compare, exact, fill, infer, plan, spec
from ._native import Element, Error, Report, Tensor, describe_cpu, isa
from ._operators import (
    avg_pool,
    avg_pool_backward,
    bias_backward,
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
    convolution,
    convolution_backward_data,
    convolution_backward_weights,
    lp_pool,
    lp_pool_backward,
    max_pool,
    max_pool_backward,
    max_pool_backward_from_indices,
)

# What users see is the package.
for _public in (Element, Error, Report, Tensor):
    _public.__module__ = __name__
Error.__doc__ = "A mistake in the arguments of a call, in the library's words. Nothing was written."

__version__ = _native.version()

__all__ = [
    "Element",
    "Error",
    "Plan",
    "Report",
    "Tensor",
    "avg_pool",
    "avg_pool_backward",
    "bias_backward",
    "bounds",
    "compare",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "describe_cpu",
    "exact",
    "fill",
    "infer",
    "isa",
    "lp_pool",
    "lp_pool_backward",
    "max_pool",
    "max_pool_backward",
    "max_pool_backward_from_indices",
    "plan",
    "spec",
]
