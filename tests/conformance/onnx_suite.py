#!/usr/bin/env python3
"""Runs ONNX's backend tests of convolutions and pools with gradkern, in ONNX's own runner and with its tolerances.

    onnx_suite.py --driver <library made of driver.cpp> [--verbose]

They are the node tests of Conv, ConvTranspose, AveragePool, MaxPool, LpPool, MaxUnpool and the global pools, and the models
that were converted from PyTorch. Exit code: 0 if all pass but those that OUT_OF_SCOPE explains, 77 if onnx is not here.
"""

import argparse
import collections
import sys
import unittest

try:
    import numpy as np
    import onnx
    import onnx.backend.base
    import onnx.backend.test
    from gradkern import Gradkern, GradkernError
    from onnx import numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

# Tests by name, each with the reason why it cannot pass.
OUT_OF_SCOPE = {
    "test_maxpool_2d_uint8": "8-bit integers: gradkern computes with floating-point types",
    "test_lppool_1d_default": "p = 3: gradkern's Lp pool has p = 2",
    "test_lppool_2d_default": "p = 4: gradkern's Lp pool has p = 2",
    "test_lppool_2d_pads": "p = 3: gradkern's Lp pool has p = 2",
    "test_lppool_2d_same_lower": "p = 4: gradkern's Lp pool has p = 2",
    "test_lppool_3d_default": "p = 3: gradkern's Lp pool has p = 2",
}
SUITES = ["Node", "PyTorchConverted", "PyTorchOperator"]
OPERATORS = ["Conv", "ConvTranspose", "AveragePool", "MaxPool", "LpPool", "MaxUnpool", "GlobalAveragePool", "GlobalMaxPool"]

gradkern = None  # set by main


def attributes_of(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def optional(inputs, i):
    return inputs[i] if i < len(inputs) else None


def common(a, axes):
    """The attributes that all operators share. Pads are all begins, then all ends."""
    pads = a.get("pads", [0] * (2 * axes))
    word = a.get("auto_pad", b"NOTSET").decode().lower()
    return {
        "strides": a.get("strides", [1] * axes),
        "dilations": a.get("dilations", [1] * axes),
        "pads_begin": pads[:axes],
        "pads_end": pads[axes:],
        "auto_pad": "none" if word == "notset" else word,
        "data_format": "ncx",
    }


def conv(a, inputs):
    x, w, b = inputs[0], inputs[1], optional(inputs, 2)
    how = common(a, x.ndim - 2)
    return [gradkern.forward("convolution", [x, w, b], weights_format="oix", groups=a.get("group", 1), **how)]


def conv_transpose(a, inputs):
    """W is (C, M / group, K...). An output_shape determines the pads; the larger half is at the end for SAME_UPPER alone."""
    x, w, b = inputs[0], inputs[1], optional(inputs, 2)
    axes = x.ndim - 2
    how = common(a, axes)
    how.update(weights_format="oix", groups=a.get("group", 1))
    w = w.swapaxes(0, 1)
    padding = a.get("output_padding", [0] * axes)
    sizes = a.get("output_shape")
    if sizes is None:
        return [gradkern.forward("conv_transpose", [x, w, b], output_padding=padding, **how)]
    longest = [
        how["strides"][i] * (x.shape[2 + i] - 1) + (w.shape[2 + i] - 1) * how["dilations"][i] + 1 + padding[i]
        for i in range(axes)
    ]
    total = [max(0, longest[i] - sizes[i]) for i in range(axes)]
    upper = how["auto_pad"] == "same_upper"
    how.update(auto_pad="none", pads_begin=[t // 2 if upper else t - t // 2 for t in total])
    how.update(pads_end=[t - b for t, b in zip(total, how["pads_begin"])])
    y = np.empty((x.shape[0], w.shape[0] * how["groups"], *sizes), x.dtype)
    gradkern.run("conv_transpose", [x, w, b], [y], **how)
    return [y]


def pool(op, a, x, **more):
    rounding = "ceil_torch" if a.get("ceil_mode", 0) else "floor"
    return {"op": op, "inputs": [x], "kernel": a["kernel_shape"], "rounding_type": rounding, **common(a, x.ndim - 2), **more}


def average_pool(a, inputs):
    return [gradkern.forward(**pool("avg_pool", a, inputs[0], exclude_pad=a.get("count_include_pad", 0) == 0))]


def lp_pool(a, inputs):
    if a.get("p", 2) != 2:
        raise GradkernError(f"LpPool with p = {a['p']}")
    return [gradkern.forward(**pool("lp_pool", a, inputs[0]))]


def max_pool(a, inputs):
    order = "column_major" if a.get("storage_order", 0) else "row_major"
    how = pool("max_pool", a, inputs[0], index_base="tensor", storage_order=order)
    y = np.empty(gradkern.infer(**how), inputs[0].dtype)
    indices = np.empty(y.shape, np.int64)
    gradkern.run(outputs=[y, indices], **how)
    return [y, indices]


def max_unpool(a, inputs):
    """Indices count within the inferred size, which lies at the beginning of a larger output_shape."""
    x, indices, sizes = inputs[0], inputs[1], optional(inputs, 2)
    axes = x.ndim - 2
    how = common(a, axes)
    inferred = [
        (x.shape[2 + i] - 1) * how["strides"][i] - how["pads_begin"][i] - how["pads_end"][i] + a["kernel_shape"][i]
        for i in range(axes)
    ]
    y = np.zeros(tuple(sizes) if sizes is not None else (*x.shape[:2], *inferred), x.dtype)
    inside = y[tuple(slice(0, s) for s in (*x.shape[:2], *inferred))]
    gradkern.run("max_pool_backward_from_indices", [x, indices], [inside], data_format="ncx", index_base="tensor")
    return [y]


def global_pool(op, inputs):
    image = inputs[0].shape[2:]
    return [gradkern.forward(op, [inputs[0]], kernel=image, strides=image, data_format="ncx")]


COMPUTE = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "GlobalAveragePool": lambda a, inputs: global_pool("avg_pool", inputs),
    "GlobalMaxPool": lambda a, inputs: global_pool("max_pool", inputs),
    # Around the pools of one axis that were converted from PyTorch.
    "Unsqueeze": lambda a, inputs: [np.expand_dims(inputs[0], tuple(a["axes"]))],
    "Squeeze": lambda a, inputs: [np.squeeze(inputs[0], tuple(a["axes"]))],
}


class Prepared(onnx.backend.base.BackendRep):
    def __init__(self, graph):
        self._graph = graph

    def run(self, inputs, **_):
        values = {t.name: numpy_helper.to_array(t) for t in self._graph.initializer}
        values.update(zip([i.name for i in self._graph.input if i.name not in values], inputs))
        for node in self._graph.node:
            results = COMPUTE[node.op_type](attributes_of(node), [values[i] if i else None for i in node.input])
            values.update(zip(node.output, results))
        return [values[o.name] for o in self._graph.output]


class Backend(onnx.backend.base.Backend):
    @classmethod
    def prepare(cls, model, device="CPU", **_):
        nodes = {node.op_type for node in model.graph.node}
        if not nodes <= COMPUTE.keys() or nodes.isdisjoint(OPERATORS):
            raise unittest.SkipTest("has other operators")
        return Prepared(model.graph)

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


class Verdicts(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.of = {}  # by suite and test: the mistake, or None

    def _record(self, test, mistake):
        suite = type(test).__name__.removeprefix("OnnxBackend").removesuffix("ModelTest")
        self.of[suite, test.id().split(".")[-1].removesuffix("_cpu")] = mistake

    def addSuccess(self, test):
        self._record(test, None)

    def addFailure(self, test, error):
        self._record(test, f"{error[0].__name__}: {error[1]}")

    addError = addFailure


def main():
    global gradkern
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--verbose", action="store_true", help="print every test")
    options = parser.parse_args()
    gradkern = Gradkern(options.driver)

    cases = onnx.backend.test.BackendTest(Backend, __name__).test_cases
    verdicts = Verdicts()
    for suite in SUITES:
        unittest.defaultTestLoader.loadTestsFromTestCase(cases[f"OnnxBackend{suite}ModelTest"]).run(verdicts)

    counts = collections.Counter()
    for (suite, name), mistake in verdicts.of.items():
        reason = OUT_OF_SCOPE.get(name)
        if mistake is None and reason:
            mistake, reason = f"it passes, but a reason says that it cannot: {reason}", None
        verdict = "passed" if mistake is None else "out of scope" if reason else "FAILED"
        counts[suite, verdict] += 1
        if verdict != "passed" or options.verbose:
            print(f"{verdict}: {suite} {name}: {reason or mistake or ''}")
    print(f"onnx {onnx.__version__}")
    for suite in SUITES:
        print(f"{suite}: " + ", ".join(f"{counts[suite, v]} {v}" for v in ("passed", "out of scope", "FAILED")))
    nothing_ran = [suite for suite in SUITES if not counts[suite, "passed"]]
    return 1 if nothing_ran or any(counts[suite, "FAILED"] for suite in SUITES) else 0


if __name__ == "__main__":
    sys.exit(main())
