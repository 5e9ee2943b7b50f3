"""Problems of every operator, in one to three axes, both formats and every type, and what float64 loops say of them."""

import dataclasses
import itertools

import loops
import numpy as np

try:
    import ml_dtypes
except ImportError:  # bf16 is left out
    ml_dtypes = None

TYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16}
if ml_dtypes is not None:
    TYPES["bfloat16"] = ml_dtypes.bfloat16
# The distance of 1 and the next number.
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}

LARGE = (7, 6, 5)
KERNEL = (3, 2, 3)
STRIDES = (2, 1, 2)
DILATIONS = (1, 2, 1)
PADS_BEGIN = (1, 0, 1)
PADS_END = (0, 1, 2)

OPERATORS = [
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "bias_backward",
    "avg_pool",
    "avg_pool_backward",
    "lp_pool",
    "lp_pool_backward",
    "max_pool",
    "max_pool_backward",
    "max_pool_backward_from_indices",
]


@dataclasses.dataclass
class Case:
    """A call, its expected first result, and the sum of the absolute terms of each of its elements."""

    op: str
    inputs: tuple
    keywords: dict
    expected: np.ndarray
    terms: np.ndarray
    roundings: int

    def call(self, gradkern, **more):
        return getattr(gradkern, self.op)(*self.inputs, **self.keywords, **more)


def layout_of(data_format, array):
    """An (N, C, spatial...) array in the format."""
    return array if data_format == "ncx" else np.moveaxis(array, 1, -1)


def weights_of(weights_format, array):
    """An (O, I/g, K...) array in the format."""
    return array if weights_format == "oix" else np.moveaxis(array, (0, 1), (-1, -2))


def make(op, axes=2, data_format="nxc", type_="float32", batch=2, groups=2, seed=1):
    """A case. Inputs are contiguous."""
    rng = np.random.default_rng(seed)
    dtype = TYPES[type_]
    window = dict(
        strides=STRIDES[:axes], dilations=DILATIONS[:axes], pads_begin=PADS_BEGIN[:axes], pads_end=PADS_END[:axes]
    )
    windows = loops.Windows(LARGE[:axes], KERNEL[:axes], **window)
    weights_format = "oix" if data_format == "ncx" else "xio"
    channels, outputs = (4, 6) if op.startswith("conv") else (5, 5)

    def numbers(*shape):
        return rng.uniform(-1, 1, shape).astype(dtype)

    def given(array):
        return np.ascontiguousarray(layout_of(data_format, array))

    def wide(array):
        return array.astype(np.float64)

    large = numbers(batch, channels, *windows.large)
    small = numbers(batch, outputs, *windows.small)
    w = numbers(outputs, channels // groups, *windows.kernel)
    weights = np.ascontiguousarray(weights_of(weights_format, w))
    bias = numbers(outputs)
    conv = dict(window, groups=groups, data_format=data_format, weights_format=weights_format)
    pool = dict(window, kernel=windows.kernel, data_format=data_format)
    diff_src_shape = given(large).shape
    count = int(np.prod(windows.kernel)) * max(channels, outputs)

    def case(inputs, keywords, compute, operands, result=lambda a: layout_of(data_format, a), roundings=count):
        expected = result(compute(*map(wide, operands)))
        terms = result(compute(*(np.abs(wide(a)) for a in operands)))
        return Case(op, inputs, keywords, expected, terms, roundings)

    def in_weights(a):
        return weights_of(weights_format, a)

    every = int(np.prod(windows.small)) * batch
    if op == "convolution":
        return case(
            (given(large), weights, bias), conv,
            lambda x, k, b: loops.convolution(x, k, windows, groups) + b.reshape(-1, *[1] * axes), (large, w, bias),
        )
    if op == "convolution_backward_data":
        return case(
            (given(small), weights), dict(conv, diff_src_shape=diff_src_shape),
            lambda y, k: loops.convolution_backward_data(y, k, windows, groups), (small, w),
        )
    if op == "convolution_backward_weights":
        return case(
            (given(large), given(small)), dict(conv, diff_weights_shape=weights.shape),
            lambda x, y: loops.convolution_backward_weights(x, y, windows, groups), (large, small), in_weights, every,
        )
    # A transposed convolution is the data gradient of one whose outputs are its inputs: O and I change places.
    if op == "conv_transpose":
        bias = numbers(channels)
        swapped = np.ascontiguousarray(weights_of(weights_format, np.swapaxes(w, 0, 1)))
        return case(
            (given(small), swapped, bias), dict(conv, dst_shape=diff_src_shape),
            lambda x, k, b: loops.convolution_backward_data(x, k, windows, groups) + b.reshape(-1, *[1] * axes),
            (small, w, bias),
        )
    if op == "conv_transpose_backward_data":
        swapped = np.ascontiguousarray(weights_of(weights_format, np.swapaxes(w, 0, 1)))
        return case(
            (given(large), swapped), dict(conv, diff_src_shape=given(small).shape),
            lambda y, k: loops.convolution(y, k, windows, groups), (large, w),
        )
    if op == "conv_transpose_backward_weights":
        swapped = weights_of(weights_format, np.swapaxes(w, 0, 1)).shape
        return case(
            (given(small), given(large)), dict(conv, diff_weights_shape=swapped),
            lambda x, y: loops.convolution_backward_weights(y, x, windows, groups), (small, large),
            lambda a: in_weights(np.swapaxes(a, 0, 1)), every,
        )
    if op == "bias_backward":
        return case((given(small),), {"data_format": data_format}, loops.bias_backward, (small,), lambda a: a, every)
    if op == "avg_pool":
        return case((given(large),), dict(pool, exclude_pad=True), lambda x: loops.avg_pool(x, windows, True), (large,))
    if op == "avg_pool_backward":
        return case(
            (given(small),), dict(pool, diff_src_shape=diff_src_shape), lambda y: loops.avg_pool_backward(y, windows), (small,)
        )
    if op == "lp_pool":
        return case((given(large),), pool, lambda x: loops.lp_pool(x, windows), (large,))
    if op == "lp_pool_backward":
        norms = loops.lp_pool(wide(large), windows).astype(dtype)
        return case(
            (given(large), given(norms), given(small)), pool,
            lambda x, y, dy: loops.lp_pool_backward(x, y, dy, windows), (large, norms, small),
        )
    if op == "max_pool":
        expected, _ = loops.max_pool(wide(large), windows)
        return Case(op, (given(large),), pool, layout_of(data_format, expected), np.zeros(1), 0)
    if op == "max_pool_backward":
        made = lambda dy: loops.max_pool_backward(wide(large), dy, windows)  # noqa: E731
        return case((given(large), given(small)), pool, made, (small,))
    _, at = loops.max_pool(wide(large), windows)
    made = lambda dy: loops.max_pool_backward(wide(large), dy, windows)  # noqa: E731
    keywords = dict(data_format=data_format, index_base="plane", diff_src_shape=diff_src_shape)
    return case((given(small), given(at.astype(np.int64))), keywords, made, (small,))


def all_cases():
    """Arguments of make() for every operator, format and number of axes in float32, and every type in two axes."""
    for op, data_format in itertools.product(OPERATORS, ("nxc", "ncx")):
        for axes in (1, 2, 3):
            yield op, axes, data_format, "float32"
        for type_ in TYPES:
            if type_ != "float32":
                yield op, 2, data_format, type_


def tolerance(case, type_):
    """A bound by hand: each rounding of a sum in f32 (f64), and of the result, by half of the last place of the terms."""
    sums = EPSILON["float64" if type_ == "float64" else "float32"]
    return case.terms * (sums * (case.roundings + 4) + EPSILON[type_]) / 2 + 1e-38
