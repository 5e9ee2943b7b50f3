"""A system under test for tosa_verif_run_tests: operators of TOSA as calls of gradkern, as docs/porting.md shows them.

The runner loads this module by its name, generates the inputs, computes the exact result and its bounds with TOSA's reference
model, and lets tosa_verify judge the file that is written here.
"""

import math
import os
from pathlib import Path

import numpy as np
from gradkern import Gradkern
from ml_dtypes import bfloat16
from runner.tosa_test_runner import TosaTestRunner
from tosa.AvgPool2dAttribute import AvgPool2dAttribute
from tosa.Conv2dAttribute import Conv2dAttribute
from tosa.Conv3dAttribute import Conv3dAttribute
from tosa.DepthwiseConv2dAttribute import DepthwiseConv2dAttribute
from tosa.DType import DType
from tosa.MaxPool2dAttribute import MaxPool2dAttribute
from tosa.NanPropagationMode import NanPropagationMode
from tosa.Op import Op
from tosa.TosaGraph import TosaGraph
from tosa.TransposeConv2dAttribute import TransposeConv2dAttribute
from tosa_serializer import DType as SerializedType
from tosa_serializer.numpy_utils import load_npy, save_npy

TYPES = {
    DType.FP32: (np.float32, SerializedType.FP32),
    DType.FP16: (np.float16, SerializedType.FP16),
    DType.BF16: (bfloat16, SerializedType.BF16),
}
ATTRIBUTES = {
    Op.CONV2D: Conv2dAttribute,
    Op.CONV3D: Conv3dAttribute,
    Op.DEPTHWISE_CONV2D: DepthwiseConv2dAttribute,
    Op.TRANSPOSE_CONV2D: TransposeConv2dAttribute,
    Op.AVG_POOL2D: AvgPool2dAttribute,
    Op.MAX_POOL2D: MaxPool2dAttribute,
}

gradkern = Gradkern(os.environ["GRADKERN_CONFORMANCE_DRIVER"])


def pads(pad):
    """[begin, end, begin, end...]"""
    return {"pads_begin": pad[0::2], "pads_end": pad[1::2]}


def bias_of(bias, channels):
    """A bias of one element is that of every channel."""
    return np.broadcast_to(bias, (channels,))


def convolution(src, weights, bias, a, groups=1):
    return gradkern.forward(
        "convolution",
        [src, weights, bias_of(bias, weights.shape[-1])],
        strides=a.StrideAsNumpy(),
        dilations=a.DilationAsNumpy(),
        groups=groups,
        **pads(a.PadAsNumpy()),
    )


def conv(src, weights, bias, a):
    return convolution(src, np.moveaxis(weights, 0, -1), bias, a)  # (OC, K..., IC) is XIO with other strides


def depthwise(src, weights, bias, a):
    kh, kw, c, m = weights.shape
    return convolution(src, weights.reshape(kh, kw, 1, c * m), bias, a, groups=c)


def transposed(src, weights, bias, a):
    """A negative out_pad crops; a positive one adds a rim that no tap reaches, where the result is the bias."""
    xio = np.moveaxis(weights, 0, -1)
    bias = bias_of(bias, xio.shape[-1])
    out_pad = a.OutPadAsNumpy()
    how = {"strides": a.StrideAsNumpy(), "dilations": [1, 1], **pads(np.maximum(-out_pad, 0))}
    n, h, w, c = gradkern.infer("conv_transpose", [src, xio, None], **how)
    top, bottom, left, right = (int(p) for p in np.maximum(out_pad, 0))
    dst = np.empty((n, top + h + bottom, left + w + right, c), src.dtype)
    dst[:] = bias
    gradkern.run("conv_transpose", [src, xio, bias], [dst[:, top : top + h, left : left + w]], **how)
    return dst


def pool(op, src, a, **more):
    return gradkern.forward(op, [src], kernel=a.KernelAsNumpy(), strides=a.StrideAsNumpy(), **pads(a.PadAsNumpy()), **more)


def compute(op, a, inputs):
    """The result of an operator whose inputs are those of the TOSA document; zero points are 0 for floating-point types."""
    expected = {Op.MAX_POOL2D: 1, Op.AVG_POOL2D: 3}.get(op, 5)
    if len(inputs) != expected or any(np.any(z != 0) for z in inputs[1 if op == Op.AVG_POOL2D else 3 :]):
        raise ValueError(f"expected {expected} inputs, the last two of them zero points, which are 0")
    if op == Op.AVG_POOL2D:
        return pool("avg_pool", inputs[0], a, exclude_pad=True)
    if op == Op.MAX_POOL2D:
        return pool("max_pool", inputs[0], a, ignore_nan=a.NanMode() == NanPropagationMode.IGNORE)
    compute_with = {Op.DEPTHWISE_CONV2D: depthwise, Op.TRANSPOSE_CONV2D: transposed}.get(op, conv)
    return compute_with(*inputs[:3], a)


def read_graph(path):
    """The one operator of the graph with its attributes, and the tensors: shape, type and constant data, by name."""
    block = TosaGraph.GetRootAs(path.read_bytes(), 0).Regions(0).Blocks(0)
    tensors = {}
    for i in range(block.TensorsLength()):
        t = block.Tensors(i)
        kind, _ = TYPES[t.Type()]
        shape = tuple(int(s) for s in t.ShapeAsNumpy())
        data = None
        if t.DataLength():
            count = math.prod(shape)
            data = np.frombuffer(t.DataAsNumpy().tobytes(), kind, count).reshape(shape)  # the rest is fill
        tensors[t.Name().decode()] = (shape, t.Type(), data)
    operators = [block.Operators(i) for i in range(block.OperatorsLength())]
    (operator,) = [o for o in operators if o.Op() != Op.CONST]
    attribute = ATTRIBUTES[operator.Op()]()
    attribute.Init(operator.Attribute().Bytes, operator.Attribute().Pos)
    return operator, attribute, tensors


class TosaSUTRunner(TosaTestRunner):
    def runTestGraph(self):
        try:
            operator, attribute, tensors = read_graph(Path(self.testDirPath, self.testDesc["tosa_file"]))
            files = dict(zip(self.testDesc["ifm_name"], self.testDesc["ifm_file"]))
            inputs = []
            for i in range(operator.InputsLength()):
                name = operator.Inputs(i).decode()
                _, kind, data = tensors[name]
                if name in files:
                    data = load_npy(Path(self.testDirPath, files[name]), TYPES[kind][1])
                inputs.append(data.astype(TYPES[kind][0], copy=False))
            result = compute(operator.Op(), attribute, inputs)
            shape, kind, _ = tensors[operator.Outputs(0).decode()]
            if result.shape != shape:
                return TosaTestRunner.TosaGraphResult.OTHER_ERROR, f"result has shape {result.shape}, expected {shape}"
            save_npy(Path(self.testDirPath, self.testDesc["ofm_file"][0]), result, TYPES[kind][1])
        except Exception as e:  # the runner counts it, and goes on
            return TosaTestRunner.TosaGraphResult.OTHER_ERROR, f"{type(e).__name__}: {e}"
        return TosaTestRunner.TosaGraphResult.TOSA_VALID, ""
