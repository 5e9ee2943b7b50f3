#!/usr/bin/env python3
"""Runs PyTorch's OpInfo samples of convolutions and pools, and their gradients, with gradkern.

    torch_suite.py --driver <library made of driver.cpp> [--most N] [--verbose]

A sample's tensors are f32, f16, bf16 or f64. PyTorch computes the exact result and gradients of the same numbers in f64, by
autograd, and the sums of the absolute values of all terms. Every element of gradkern's must be within its bound
(gradkern/accuracy.hpp); maxima and their indices must be equal. Of f64 tensors PyTorch's results are rounded, too: the distance of
both may be gradkern's bound and that of any order of summation. Exit code: 0 if all samples pass that are in scope, 77 if PyTorch
is not here.
"""

import argparse
import collections
import math
import sys
import warnings

try:
    import numpy as np
    import torch
    from gradkern import Gradkern, GradkernError
    from ml_dtypes import bfloat16

    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
# Pools of other kinds.
OUT_OF_SCOPE = {
    "fractional_max_pool": "windows at random places",
    "max_unpool_of_repeated_indices": "unpooling where an index repeats: PyTorch keeps one of the values, gradkern adds them",
    "avg_pool_of_unequal_windows": "adaptive windows that differ in size",
    "max_pool_of_unequal_windows": "adaptive windows that differ in size",
}

gradkern = None  # set by main


class OutOfScope(Exception):
    pass


def array_of(tensor):
    """The same memory, with the same strides."""
    if tensor is None:
        return None
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(bfloat16)
    return tensor.numpy()


def per_axis(value, axes):
    if isinstance(value, (tuple, list)):
        return [int(v) for v in value] * (axes if len(value) == 1 else 1)
    return [int(value)] * axes


class Sample:
    """Arguments by name; a batch is added where there is none."""

    def __init__(self, names, axes, sample):
        self.axes = axes
        self.given = dict(zip(names, (sample.input, *sample.args)), **sample.kwargs)
        unknown = self.given.keys() - set(names)
        if unknown:
            raise ValueError(f"unknown arguments {unknown}")
        self.x = self.given["input"]
        if self.x.dim() == axes + 1:
            self.x = self.x.unsqueeze(0)

    def __call__(self, name, default):
        value = self.given.get(name)
        return default if value is None else value

    def list(self, name, default):
        value = self(name, default)
        return per_axis(value, self.axes) if not isinstance(value, (tuple, list)) or len(value) else default


class Checker:
    """Compares with exact results, and keeps the largest error in units of the bound."""

    def __init__(self):
        self.worst = 0.0

    def within(self, what, result, exact, size, terms, bounds):
        """bounds(size, exact) are those of every element, a sum of so many terms."""
        exact, size = exact.numpy(), size.numpy()
        bound = bounds(size, exact)
        if result.dtype == np.float64:  # a term of PyTorch's sum is rounded at most once for each of them
            bound += (np.asarray(terms) + 1) * 2.0**-53 * size
        if not np.all(np.isfinite(bound)):
            raise AssertionError(f"{what}: no bound is promised")
        error = np.abs(result.astype(np.float64) - exact)
        wrong = ~(error <= bound)
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise AssertionError(
                f"{what}{list(at)}: got {result[at]}, expected {exact[at]} +- {bound[at]}; {np.sum(wrong)} of {wrong.size} wrong"
            )
        if np.any(bound > 0):
            self.worst = max(self.worst, float(np.max(error[bound > 0] / bound[bound > 0])))

    def equal(self, what, result, expected):
        if not np.array_equal(result, expected):
            raise AssertionError(f"{what}: {np.sum(result != expected)} of {result.size} differ")


def exact_and_sizes(function, inputs, gradient):
    """The result and the gradients of a function in f64."""
    inputs = [None if i is None else i.detach().double().requires_grad_() for i in inputs]
    result = function(*inputs)
    wanted = [i for i in inputs if i is not None]
    return result.detach(), torch.autograd.grad(result, wanted, gradient.double())


def gradient_like(result, dtype):
    return torch.randn(result.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def shape_equal(result, expected):
    if result.shape != tuple(expected.shape):
        raise AssertionError(f"result has shape {result.shape}, expected {tuple(expected.shape)}")


# ------------------------------------------------------------------------------------------------------------ operators


def convolution(sample, check, transposed):
    axes = sample.axes
    names = ("stride", "padding", "dilation", "groups") + (("output_padding",) if transposed else ())
    how = {n: sample(n, 0 if "padding" in n else 1) for n in names}
    function = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{axes}d")
    inputs = [sample.x, sample.given["weight"], sample("bias", None)]
    op = "conv_transpose" if transposed else "convolution"
    a = {
        "strides": sample.list("stride", [1] * axes),
        "dilations": sample.list("dilation", [1] * axes),
        "groups": how["groups"],
        "data_format": "ncx",
        "weights_format": "oix",
    }
    if how["padding"] in ("same", "valid"):
        a["auto_pad"] = {"same": "same_upper", "valid": "valid"}[how["padding"]]
    else:
        a["pads_begin"] = a["pads_end"] = sample.list("padding", [0] * axes)
    if transposed:
        a["output_padding"] = sample.list("output_padding", [0] * axes)

    def compute(*tensors):
        return function(*tensors, **how)

    x, w, b = (array_of(i) for i in inputs)
    if transposed:
        w = w.swapaxes(0, 1)  # (in, out / groups, K...)
    y = gradkern.forward(op, [x, w, b], **a)
    with torch.no_grad():
        shape_equal(y, compute(*[None if i is None else i.double() for i in inputs]))
    dy = gradient_like(y, sample.x.dtype)
    exact, gradients = exact_and_sizes(compute, inputs, dy)
    sizes, sizes_of_gradients = exact_and_sizes(compute, [None if i is None else i.abs() for i in inputs], dy.abs())
    ones = [None if i is None else torch.ones_like(i) for i in inputs]
    terms, terms_of_gradients = exact_and_sizes(compute, ones, torch.ones_like(dy))
    check.within("dst", y, exact, sizes, terms, lambda s, e: gradkern.bounds(op, [x, w, b], [y], s, e, **a))

    dy = array_of(dy)
    dx, dw = np.full(x.shape, np.nan, x.dtype), np.full(w.shape, np.nan, w.dtype)
    db = None if b is None else np.full(b.shape, np.nan, b.dtype)
    # A data gradient's sizes are given, so no output_padding is.
    back = {n: v for n, v in a.items() if n != "output_padding" or transposed}
    gradkern.run(f"{op}_backward_data", [dy, w], [dx], **back)
    gradkern.run(f"{op}_backward_weights", [x, dy], [dw, db], **back)
    of = f"{op}_backward_data"
    check.within(
        "diff_src",
        dx,
        gradients[0],
        sizes_of_gradients[0],
        terms_of_gradients[0],
        lambda s, e: gradkern.bounds(of, [dy, w], [dx], s, e, **back),
    )
    like_w = [g[1].swapaxes(0, 1) if transposed else g[1] for g in (gradients, sizes_of_gradients, terms_of_gradients)]
    of_w = f"{op}_backward_weights"
    check.within("diff_weights", dw, *like_w, lambda s, e: gradkern.bounds(of_w, [x, dy], [dw], s, e, **back))
    if b is not None:
        check.within(
            "diff_bias",
            db,
            gradients[2],
            sizes_of_gradients[2],
            terms_of_gradients[2],
            lambda s, e: gradkern.bounds("bias_backward", [dy], [db], s, e, data_format="ncx"),
        )


def pool_attributes(sample):
    kernel = sample.list("kernel_size", None)
    padding = sample.list("padding", [0] * sample.axes)
    return {
        "kernel": kernel,
        "strides": sample.list("stride", kernel),
        "pads_begin": padding,
        "pads_end": padding,
        "rounding_type": "ceil_torch" if sample("ceil_mode", False) else "floor",
        "data_format": "ncx",
    }


def avg_pool(sample, check, attributes=None):
    a = attributes or pool_attributes(sample)
    a["exclude_pad"] = not sample("count_include_pad", True)
    a["divisor_override"] = sample("divisor_override", 0)

    def compute(x):
        return getattr(torch.nn.functional, f"avg_pool{sample.axes}d")(x, **arguments)

    arguments = {"kernel_size": a["kernel"], "stride": a["strides"], "padding": a["pads_begin"]}
    arguments.update(ceil_mode=a["rounding_type"] != "floor", count_include_pad=not a["exclude_pad"])
    if a["divisor_override"]:
        arguments["divisor_override"] = a["divisor_override"]
    x = array_of(sample.x)
    y = gradkern.forward("avg_pool", [x], **a)
    shape_equal(y, compute(sample.x.double()))
    dy = gradient_like(y, sample.x.dtype)
    exact, (gradient,) = exact_and_sizes(compute, [sample.x], dy)
    sizes, (sizes_of_gradient,) = exact_and_sizes(compute, [sample.x.abs()], dy.abs())
    sizes, sizes_of_gradient = sizes.abs(), sizes_of_gradient.abs()  # a divisor may be negative
    terms = math.prod(a["kernel"])  # at most; of a gradient, too
    check.within("dst", y, exact, sizes, terms, lambda s, e: gradkern.bounds("avg_pool", [x], [y], s, e, **a))
    dy, dx = array_of(dy), np.full(x.shape, np.nan, x.dtype)
    gradkern.run("avg_pool_backward", [dy], [dx], **a)
    check.within(
        "diff_src",
        dx,
        gradient,
        sizes_of_gradient,
        terms,
        lambda s, e: gradkern.bounds("avg_pool_backward", [dy], [dx], s, e, **a),
    )


def max_pool(sample, check, attributes=None):
    a = attributes or pool_attributes(sample)
    a["dilations"] = sample.list("dilation", [1] * sample.axes)
    a["index_base"] = "plane"

    def compute(x):
        return getattr(torch.nn.functional, f"max_pool{sample.axes}d")(
            x,
            a["kernel"],
            a["strides"],
            a["pads_begin"],
            a["dilations"],
            a["rounding_type"] != "floor",
            return_indices=True,
        )

    x = array_of(sample.x)
    y = np.empty(gradkern.infer("max_pool", [x], **a), x.dtype)
    indices = np.empty(y.shape, np.int64)
    gradkern.run("max_pool", [x], [y, indices], **a)
    exact, exact_indices = compute(sample.x.double())
    shape_equal(y, exact)
    check.equal("dst", y.astype(np.float64), exact.numpy())
    check.equal("indices", indices, exact_indices.numpy())
    # The gradient that finds the maxima again, and the one from indices.
    dy = gradient_like(exact, sample.x.dtype)
    _, (gradient,) = exact_and_sizes(lambda x: compute(x)[0], [sample.x], dy)
    _, (sizes,) = exact_and_sizes(lambda x: compute(x)[0], [sample.x], dy.abs())
    dy = array_of(dy)
    for op, inputs in (("max_pool_backward", [x, dy]), ("max_pool_backward_from_indices", [dy, indices])):
        dx = np.full(x.shape, np.nan, x.dtype)
        gradkern.run(op, inputs, [dx], **a)
        check.within(
            f"diff_src of {op}",
            dx,
            gradient,
            sizes,
            math.prod(a["kernel"]),  # windows that an element is in, at most
            lambda s, e: gradkern.bounds(op, inputs, [dx], s, e, **a),
        )


def adaptive(pool, sample, check):
    """An ordinary pool where all windows have one size, and do not overlap."""
    sizes = list(sample.x.shape[2:])
    wanted = sample.given["output_size"]
    wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted] * sample.axes
    wanted = [s if w is None else int(w) for s, w in zip(sizes, wanted)]
    if any(w == 0 or s % w for s, w in zip(sizes, wanted)):
        raise OutOfScope(f"{pool.__name__}_of_unequal_windows")
    kernel = [s // w for s, w in zip(sizes, wanted)]
    pool(sample, check, {"kernel": kernel, "strides": kernel, "pads_begin": [0] * sample.axes, "rounding_type": "floor",
                         "pads_end": [0] * sample.axes, "data_format": "ncx"})  # fmt: skip


def max_unpool(sample, check):
    """What gradkern's gradient from indices does where no index repeats. Its own gradient gathers: gradkern has no such operator."""
    indices = sample.given["indices"].reshape(sample.x.shape)
    if any(plane.unique().numel() != plane.numel() for plane in indices.flatten(0, 1)):
        raise OutOfScope("max_unpool_of_repeated_indices")
    arguments = {name: sample.given[name] for name in ("kernel_size", "stride", "padding", "output_size") if name in sample.given}
    exact = getattr(torch.nn.functional, f"max_unpool{sample.axes}d")(sample.x.double(), indices, **arguments)
    x, y = array_of(sample.x), np.full(exact.shape, np.nan, array_of(sample.x).dtype)
    op = "max_pool_backward_from_indices"
    gradkern.run(op, [x, array_of(indices)], [y], data_format="ncx", index_base="plane")
    check.equal("dst", y.astype(np.float64), exact.detach().numpy())


POOL = ("input", "kernel_size", "stride", "padding")
OPERATORS = {
    "nn.functional.conv": (
        ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
        lambda *s: convolution(*s, transposed=False),
    ),
    "nn.functional.conv_transpose": (
        ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"),
        lambda *s: convolution(*s, transposed=True),
    ),
    "nn.functional.avg_pool": ((*POOL, "ceil_mode", "count_include_pad", "divisor_override"), avg_pool),
    "nn.functional.max_pool": ((*POOL, "dilation", "ceil_mode", "return_indices"), max_pool),
    "nn.functional.adaptive_avg_pool": (("input", "output_size"), lambda *s: adaptive(avg_pool, *s)),
    "nn.functional.adaptive_max_pool": (("input", "output_size", "return_indices"), lambda *s: adaptive(max_pool, *s)),
    "nn.functional.max_unpool": (("input", "indices", *POOL[1:], "output_size"), max_unpool),
    "max_pool_with_indices_backward": ((*POOL, "dilation", "ceil_mode", "return_indices"), max_pool),
}


def operator_of(info):
    """The name without the number of axes, and this number."""
    axes = next((int(c) for c in info.name if c in "123"), 0)
    return info.name.replace(f"{axes}d", ""), axes


def samples_of(info, dtype):
    yield from info.sample_inputs("cpu", dtype)
    if info.reference_inputs_func is not None:
        yield from info.reference_inputs("cpu", dtype)


def main():
    global gradkern
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--most", type=int, metavar="N", help="up to N samples of an operator and type")
    parser.add_argument("--verbose", action="store_true", help="print every sample that is out of scope")
    options = parser.parse_args()
    gradkern = Gradkern(options.driver)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # samples are small

    print(f"torch {torch.__version__}")
    totals, reasons = collections.Counter(), collections.Counter()
    for info in op_db:
        name, axes = operator_of(info)
        if axes == 0 or not ("pool" in name or "conv" in name):
            continue
        counts, check = collections.Counter(), Checker()
        for dtype in DTYPES:
            samples = list(samples_of(info, dtype))
            step = -(-len(samples) // options.most) if options.most else 1
            for number, given in list(enumerate(samples))[::step]:
                where = f"{info.name} {dtype} sample {number}"
                try:
                    if name not in OPERATORS:
                        raise OutOfScope(name.removeprefix("nn.functional."))
                    names, compute = OPERATORS[name]
                    compute(Sample(names, axes, given), check)
                    verdict = "passed"
                except OutOfScope as e:
                    verdict = "out of scope"
                    reasons[OUT_OF_SCOPE[str(e)]] += 1
                    if options.verbose:
                        print(f"out of scope: {where}: {OUT_OF_SCOPE[str(e)]}: {given.summary()}")
                except (AssertionError, GradkernError) as e:
                    verdict = "FAILED"
                    print(f"FAILED: {where}: {e}: {given.summary()}")
                counts[verdict] += 1
        totals.update(counts)
        variant = f" ({info.variant_test_name})" if info.variant_test_name else ""
        print(
            f"{info.name}{variant}: "
            + ", ".join(f"{counts[v]} {v}" for v in ("passed", "out of scope", "FAILED"))
            + (f"; largest error {check.worst:.2f} of the bound" if check.worst else "")
        )
    for reason, count in reasons.items():
        print(f"{count} samples are out of scope: {reason}")
    print("all: " + ", ".join(f"{totals[v]} {v}" for v in ("passed", "out of scope", "FAILED")))
    return 1 if totals["FAILED"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
