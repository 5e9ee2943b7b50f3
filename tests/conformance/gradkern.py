"""gradkern's operators on numpy arrays, through the library that driver.cpp becomes.

    from gradkern import Gradkern
    g = Gradkern("build/default/tests/libconformance_driver.so")
    g.run("avg_pool", [src], [dst], kernel=[2, 2], strides=[2, 2], data_format="ncx")

Inputs and outputs come in the order of the table of operators in README.md. None is an absent tensor. Arrays may have any
strides.
"""

import ctypes

import numpy as np

TYPES = {"float32": 0, "float16": 1, "bfloat16": 2, "float64": 3, "int64": 0}  # the types of indices are ignored
WORDS = {
    "auto_pad": ["none", "same_upper", "same_lower", "valid"],
    "rounding_type": ["floor", "ceil", "ceil_torch"],
    "data_format": ["nxc", "ncx"],
    "weights_format": ["xio", "oix"],
    "index_base": ["tensor", "plane", "image"],
    "storage_order": ["row_major", "column_major"],
}
LISTS = ["kernel", "strides", "dilations", "pads_begin", "pads_end", "output_padding"]


class GradkernError(Exception):
    """What an operator refused."""


class Numbers(ctypes.Structure):
    _fields_ = [("size", ctypes.c_int64), ("values", ctypes.c_int64 * 5)]

    @staticmethod
    def of(values):
        values = [int(v) for v in values]
        return Numbers(len(values), (ctypes.c_int64 * 5)(*values))


class Tensor(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int64), ("data", ctypes.c_void_p), ("shape", Numbers), ("strides", Numbers)]

    @staticmethod
    def of(array):
        if array is None:
            return Tensor()
        steps = [s // array.itemsize for s in array.strides]
        return Tensor(TYPES[array.dtype.name], array.ctypes.data, Numbers.of(array.shape), Numbers.of(steps))


class Attributes(ctypes.Structure):
    _fields_ = (
        [(name, Numbers) for name in LISTS]
        + [("groups", ctypes.c_int64)]
        + [(name, ctypes.c_int64) for name in WORDS]
        + [(name, ctypes.c_int64) for name in ("exclude_pad", "ignore_nan", "divisor_override")]
    )

    @staticmethod
    def of(groups=1, **given):
        a = Attributes(groups=groups)
        for name, value in given.items():
            if name in WORDS:
                value = WORDS[name].index(value)
            elif name in LISTS:
                value = Numbers.of(value)
            setattr(a, name, value)
        return a


class Gradkern:
    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))

    def _call(self, function, op, arrays, attributes, *more):
        tensors = (Tensor * 4)(*[Tensor.of(a) for a in arrays])
        message = ctypes.create_string_buffer(1000)
        failed = function(
            op.encode(),
            tensors,
            ctypes.byref(Attributes.of(**attributes)),
            *more,
            message,
            ctypes.c_size_t(len(message)),
        )
        if failed:
            raise GradkernError(message.value.decode())

    def run(self, op, inputs, outputs, **attributes):
        """Runs an operator."""
        self._call(self._library.gradkern_call, op, [*inputs, *outputs], attributes)

    def infer(self, op, inputs, **attributes):
        """The shape of a forward operator's result."""
        shape = Numbers()
        self._call(self._library.gradkern_infer, op, inputs, attributes, ctypes.byref(shape))
        return tuple(shape.values[: shape.size])

    def forward(self, op, inputs, **attributes):
        """Runs a forward operator and returns its result, whose shape is inferred and whose type is that of the input."""
        dst = np.empty(self.infer(op, inputs, **attributes), inputs[0].dtype)
        self.run(op, inputs, [dst], **attributes)
        return dst

    def bounds(self, op, inputs, outputs, sizes, exact, **attributes):
        """How far the elements of the first output may be from the exact ones (gradkern/accuracy.hpp).

        sizes: the sums of the absolute values of their terms.
        """
        sizes, exact = (np.ascontiguousarray(a, np.float64) for a in (sizes, exact))
        bounds = np.empty(sizes.shape)
        pointer = [ctypes.c_void_p(a.ctypes.data) for a in (sizes, exact, bounds)]
        count = ctypes.c_int64(sizes.size)
        arrays = [*inputs, *outputs]
        self._call(self._library.gradkern_bounds, op, arrays, attributes, pointer[0], pointer[1], count, pointer[2])
        return bounds
