"""What a call of an operator is, and what can be done with one: run, plan, infer, exact, bounds, compare."""

from __future__ import annotations

import functools
import operator as _operator
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _native
from ._native import Error, Report, Tensor

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import ParamSpec, TypeAlias

    P = ParamSpec("P")

    class Options(TypedDict, total=False):
        """Options that every operator takes."""

        accumulate: bool
        precision: str
        algorithm: str
        scratch: str
        workers: int


Array: TypeAlias = Any
"""A NumPy array, a PyTorch tensor, or any object on the CPU with DLPack or the buffer protocol."""
Result: TypeAlias = Union[Array, "tuple[Array, Array]"]
"""An array, or the two that an operator was asked for."""

# Words in the order of the library's enumerators.
WORDS = {
    "data_format": ("nxc", "ncx"),
    "weights_format": ("xio", "oix"),
    "auto_pad": ("none", "same_upper", "same_lower", "valid"),
    "rounding_type": ("floor", "ceil", "ceil_torch"),
    "index_base": ("tensor", "plane", "image"),
    "storage_order": ("row_major", "column_major"),
    "precision": ("strict", "relaxed"),
    "summation": ("joint", "image_by_image", "per_image"),
    "scratch": ("fast", "least"),
}
LISTS = ("kernel", "strides", "dilations", "pads_begin", "pads_end", "output_padding")
TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int64": "i64"}
LONG_NAMES = {short: name for name, short in TYPES.items()}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.forget_threads)


def type_name(dtype: Any) -> str:
    """The library's name of a type of NumPy, PyTorch or ml_dtypes, or of its name."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    short = TYPES.get(name.rpartition(".")[2])
    if short is None:
        raise TypeError(f"got the type {name}, expected {', '.join(TYPES)}")
    return short


def spec(shape: Sequence[int], dtype: Any = "float32", strides: Sequence[int] | None = None) -> Tensor:
    """Type, shape and strides (in elements) of a tensor without memory, in place of an array for plan() and infer()."""
    return Tensor(type_name(dtype), list(shape), None if strides is None else list(strides))


def _integer(op: str, name: str, value: Any) -> int:
    number = _operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise Error(f"{op}: {name}: got {number}, expected an integer of 64 bits")
    return number


def _integers(op: str, name: str, values: Any) -> list[int]:
    try:
        return [_integer(op, name, v) for v in values]
    except TypeError:
        raise TypeError(f"{op}: {name}: got {values!r}, expected a sequence of integers") from None


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(hasattr(v, "__index__") for v in value)


def empty_like(model: Array, shape: Sequence[int], type_: str) -> Array:
    """An array of the library that `model` belongs to: PyTorch, or else NumPy."""
    if type(model).__module__.partition(".")[0] == "torch":
        import torch

        return torch.empty(tuple(shape), dtype=getattr(torch, LONG_NAMES[type_]))
    if type_ != "bf16":
        return np.empty(shape, LONG_NAMES[type_])
    if getattr(getattr(model, "dtype", None), "name", "") == "bfloat16":
        return np.empty(shape, model.dtype)
    import ml_dtypes

    return np.empty(shape, ml_dtypes.bfloat16)


def result_of(arrays: list[Array]) -> Result:
    """What a function returns."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


class Call:
    """An operator with its tensors, attributes and options.

    `inputs` and `outputs` are in the operator's order. An output is an array, True if it is to be made, or None if it is not
    wanted. `shape` is that of a first output that cannot be inferred, or is to be chosen. `dtype` is the type of outputs that
    need not have that of the inputs.
    """

    def __init__(
        self,
        op: str,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        attributes: dict[str, Any],
        options: Options,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
    ) -> None:
        options = dict(options)
        self.op = op
        self.inputs = inputs
        self.first = next(iter(outputs))
        self.outputs = {name: None if value is False else value for name, value in outputs.items()}
        if self.outputs[self.first] is None:
            self.outputs[self.first] = True
        self.shape = shape
        self.dtype = dtype
        self.workers = options.pop("workers", 1)
        self.accumulate = bool(options.pop("accumulate", False))
        self.per_image = attributes.get("summation") == "per_image"
        self.attributes: dict[str, Any] = {"output": int(self.accumulate)}
        for name, value in {**attributes, **options}.items():
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if name in WORDS:
            words = WORDS[name]
            if value not in words:
                raise Error(f"{self.op}: {name}: got {value!r}, expected {', '.join(words[:-1])} or {words[-1]}")
            self.attributes[name] = words.index(value)
        elif name in LISTS:
            if value is not None:
                self.attributes[name] = _integers(self.op, name, value)
        elif name == "algorithm":
            self.attributes[name] = str(value)
        elif name in ("groups", "divisor_override"):
            if value is not None:
                self.attributes[name] = _integer(self.op, name, value)
        elif name in ("exclude_pad", "ignore_nan"):
            self.attributes[name] = int(bool(value))
        else:
            raise TypeError(f"{self.op}() got an unexpected keyword argument {name!r}")

    @property
    def model(self) -> Array:
        """The input that says of which library the results are."""
        return next(iter(self.inputs.values()))

    def tensor(self, name: str, value: Any, is_written: bool = False, shapes: bool = False) -> Tensor | None:
        """A tensor of the call; a shape is one of f32 where `shapes` are enough."""
        if value is None or isinstance(value, Tensor):
            return value
        full = f"{self.op}: {name}"
        if shapes and _is_shape(value):
            return Tensor("i64" if name == "indices" else "f32", _integers(self.op, name, value), None, full)
        if isinstance(value, (tuple, list)):
            raise TypeError(f"{full}: got a {type(value).__name__}, expected an array")
        if getattr(value, "requires_grad", False):
            import torch

            if torch.is_grad_enabled():  # the result would silently have none
                raise TypeError(f"{full}: got a tensor that requires a gradient: detach() it, or use torch.no_grad()")
        return Tensor(value, full, is_written)

    def read(self, shapes: bool = False) -> list[Tensor | None]:
        """The inputs."""
        return [self.tensor(name, value, shapes=shapes) for name, value in self.inputs.items()]

    def problem(self, inputs: list[Tensor | None], outputs: Sequence[Tensor | None]) -> _native.Problem:
        attributes = self.attributes
        if "dilations" not in attributes and "weights_format" in attributes:  # of a convolution: one for each stride
            attributes = {**attributes, "dilations": [1] * len(attributes.get("strides", ()))}
        return _native.Problem(self.op, [*inputs, *outputs], attributes)

    def infer(self, inputs: list[Tensor | None]) -> tuple[int, ...]:
        """The shape of the first output; of one image for gradients per image."""
        type_ = inputs[0].type if inputs[0] is not None else "f32"
        shape = None if self.shape is None else _integers(self.op, "shape", self.shape)
        return self.problem(inputs, [None if shape is None else Tensor(type_, shape)]).infer()

    def images(self, inputs: list[Tensor | None]) -> int | None:
        """The batch, if each image has a gradient of its own."""
        return inputs[0].shape[0] if self.per_image and inputs[0] is not None else None

    def layouts(self, inputs: list[Tensor | None]) -> list[Tensor | None]:
        """Types and shapes of the outputs that are wanted, of one image for gradients per image."""
        typed = dict(zip(self.inputs, inputs))
        of = typed.get("weights") or inputs[0]  # results of f32 weights are f32
        type_ = of.type if of is not None else "f32"
        if self.dtype is not None:
            type_ = type_name(self.dtype)
        first = Tensor(type_, self.infer(inputs))
        layouts: list[Tensor | None] = []
        for name, value in self.outputs.items():
            if value is None:
                layouts.append(None)
            elif name == self.first:
                layouts.append(first)
            elif name == "indices":
                layouts.append(Tensor("i64", first.shape))
            else:  # a bias gradient beside one of weights
                diff_dst = inputs[list(self.inputs).index("diff_dst")]
                layouts.append(Tensor(type_, [diff_dst.shape[1 if self.attributes["data_format"] == 1 else -1]]))
        return layouts

    def write(
        self, outputs: dict[str, Any], layouts: list[Tensor | None], images: int | None, model: Array
    ) -> tuple[list[Array], list[Tensor | None]]:
        """The arrays of the outputs, some of which are made, and their tensors."""
        arrays, tensors = [], []
        for (name, value), layout in zip(outputs.items(), layouts):
            if value is None:
                tensors.append(None)
                continue
            if value is True:
                if self.accumulate:
                    raise Error(f"{self.op}: {name}: results that accumulate need the array that they are added to")
                shape = layout.shape if images is None else (images, *layout.shape)
                value = empty_like(model, shape, layout.type)
            arrays.append(value)
            tensors.append(self.tensor(name, value, True) if images is None else self.one_image(name, value, images))
            self._check(name, tensors[-1])
        return arrays, tensors

    def _check(self, name: str, tensor: Tensor) -> None:
        """An output that the caller gave against the other arguments that say what it is."""
        if name == self.first and self.shape is not None and tensor.shape != tuple(self.shape):
            raise Error(f"{self.op}: {name}: got the shape {tensor.shape}, expected {tuple(self.shape)}")
        if self.dtype is not None and tensor.type != type_name(self.dtype):
            raise Error(f"{self.op}: {name}: got {tensor.type}, expected {type_name(self.dtype)}, the dtype")

    def one_image(self, name: str, value: Array, images: int) -> Tensor:
        """The gradient of the first image, behind which those of the others lie."""
        if isinstance(value, Tensor):
            raise Error(f"{self.op}: {name}: gradients per image are planned without it")
        whole = self.tensor(name, value, True)
        shape, strides = whole.shape, whole.strides
        if not shape or shape[0] != images:
            raise Error(f"{self.op}: {name}: got the shape {shape}, expected {images} gradients, one for each image")
        dense = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        if images and any(n > 1 and s != d for n, s, d in zip(shape, strides, dense)):
            raise Error(f"{self.op}: {name}: gradients per image have to be contiguous")
        return self.tensor(name, value[0], True) if images else Tensor(whole.type, shape[1:])

    def prepare(self) -> tuple[list[Tensor | None], list[Array], list[Tensor | None]]:
        """Tensors of the inputs, arrays of the outputs, and their tensors."""
        inputs = self.read()
        is_made = any(value is True for value in self.outputs.values())
        layouts = self.layouts(inputs) if is_made else [None] * len(self.outputs)
        return inputs, *self.write(self.outputs, layouts, self.images(inputs), self.model)

    def run(self) -> Result:
        inputs, arrays, outputs = self.prepare()
        tensors = [*inputs, *outputs]
        _native.Plan(self.problem(inputs, outputs), tensors).run(tensors, self.workers)
        return result_of(arrays)

    def previous(self) -> Tensor | None:
        """What the first output holds before an accumulating call."""
        if not self.accumulate:
            return None
        if self.outputs[self.first] is True:
            raise Error(f"{self.op}: out: a result that accumulates is judged with the values before the call")
        return self.tensor("out", self.outputs[self.first])


def operator(function: Callable[P, Call]) -> Callable[P, Result]:
    """A function that runs the call which `function` describes."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Result:
        return function(*args, **kwargs).run()

    run.__annotations__ = {**function.__annotations__, "return": "Result"}
    return run


def _call_of(operator: Callable[..., Any], args: Any, kwargs: Any) -> Call:
    function = getattr(operator, "__wrapped__", None)
    call = function(*args, **kwargs) if function is not None else None
    if not isinstance(call, Call):
        raise TypeError(f"got {operator!r}, expected an operator such as gradkern.convolution")
    return call


class Plan:
    """An operator whose problem is checked once. Threads may call it at the same time.

    It takes arrays of the types, shapes and strides that it was planned for. It keeps the scratch memory of its calls.
    """

    def __init__(self, call: Call) -> None:
        inputs = call.read(shapes=True)
        images = call.images(inputs)
        self._layouts = call.layouts(inputs)
        for i, (name, value) in enumerate(call.outputs.items()):
            if value is not None and value is not True:
                given = call.tensor(name, value, shapes=True) if images is None else call.one_image(name, value, images)
                self._layouts[i] = given
                call.outputs[name] = True  # a call has its own
        self._plan = _native.Plan(call.problem(inputs, self._layouts), [*inputs, *self._layouts])
        self._shape = self._layouts[0].shape if images is None else (images, *self._layouts[0].shape)
        self._images = images
        self._names = list(call.inputs)
        self._call = call
        # Type and layout are all that a plan keeps.
        call.inputs = {}
        self._layouts = [None if t is None else Tensor(t.type, t.shape) for t in self._layouts]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first output."""
        return self._shape

    def workspace_bytes(self, workers: int = 1) -> int:
        """Bytes of scratch memory that a call with so many workers uses."""
        return self._plan.workspace_bytes(workers)

    def describe(self) -> str:
        """One line: algorithm, blocks, bytes and instruction set."""
        return self._plan.describe()

    def __repr__(self) -> str:
        return f"Plan({self.describe()})"

    def __call__(self, *inputs: Array, out: Result | None = None, workers: int | None = None) -> Result:
        """Computes. `out` is the array for the result, or a tuple where the plan has two; workers=None: as planned."""
        call = self._call
        if len(inputs) > len(self._names):
            raise TypeError(f"{call.op}: got {len(inputs)} inputs, expected at most {len(self._names)}")
        if not inputs:
            raise TypeError(f"{call.op}: got no inputs")
        values = [*inputs, *[None] * (len(self._names) - len(inputs))]
        tensors = [call.tensor(name, value) for name, value in zip(self._names, values)]
        outputs = call.outputs
        if out is not None:
            wanted = [name for name, value in outputs.items() if value is not None]
            given = out if isinstance(out, tuple) else (out,)
            if len(given) != len(wanted):
                raise TypeError(f"{call.op}: out: got {len(given)} arrays, expected {len(wanted)}")
            outputs = {**outputs, **dict(zip(wanted, given))}
        arrays, written = call.write(outputs, self._layouts, self._images, inputs[0])
        self._plan.run([*tensors, *written], call.workers if workers is None else workers)
        return result_of(arrays)


def plan(operator: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs) -> Plan:
    """Plans a call: plan(gradkern.convolution, src, weights, strides=(1, 1)).

    Arrays stand for their types, shapes and strides; a spec() or, for dense float32, a shape will do.
    """
    return Plan(_call_of(operator, args, kwargs))


def infer(operator: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs) -> tuple[int, ...]:
    """The shape of the first output, of arrays or shapes: infer(gradkern.bias_backward, (1, 8, 8, 3)) is (3,)."""
    call = _call_of(operator, args, kwargs)
    inputs = call.read(shapes=True)
    shape = call.infer(inputs)
    images = call.images(inputs)
    return shape if images is None else (images, *shape)


def exact(operator: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs) -> Result:
    """The correctly rounded result, in new arrays: exact(gradkern.convolution, src, weights, strides=(1, 1)).

    Each element is the exact value of the equation, rounded once to the type of the result. Slow; see docs/exact.md.
    With accumulate=True the exact sum is added to the values of `out`, which keeps them.
    """
    call = _call_of(operator, args, kwargs)
    for name, value in call.outputs.items():
        if value is not None and value is not True:
            tensor = call.tensor(name, value)
            call.outputs[name] = empty_like(call.model, tensor.shape, tensor.type)
            call.outputs[name][...] = value
    inputs, arrays, outputs = call.prepare()
    _native.exact(call.problem(inputs, outputs), [*inputs, *outputs])
    return result_of(arrays)


def bounds(
    operator: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Expected values and the largest errors that are right, of each element of the first output, in float64.

    A bound is that of <gradkern/accuracy.hpp>, for results of the operator's type, or `dtype`. It is 0 where the result has
    to be Inf or NaN, and Inf where nothing is promised. With accumulate=True, `out` holds the previous values.
    """
    call = _call_of(operator, args, kwargs)
    inputs = call.read()
    previous = call.previous()
    out = call.outputs[call.first]
    result = call.layouts(inputs)[0] if out is True else call.tensor("out", out)
    expected, bound = np.empty(result.shape), np.empty(result.shape)
    to = Tensor(expected, "expected", True), Tensor(bound, "bound", True)
    _native.bounds(call.problem(inputs, []), inputs, result, previous, *to)
    return expected, bound


def compare(
    result: Array, operator: Callable[..., Result], /, *args: Any, roundings: int | None = None, **kwargs: Any
) -> Report:
    """Judges somebody's result: compare(y, gradkern.convolution, src, weights, strides=(1, 1)).

    Every element has a bound of its own, from the sum of its absolute terms; docs/testing.md says what is right. The result
    and each input may have a type of its own. `roundings` is how many roundings a term may meet, if the result's order of sums
    is not gradkern's: for one plain sum, the number of its terms. 0 demands exact values.

    The indices of max_pool are judged, too. For diff_bias use bias_backward. With accumulate=True, `out` holds the
    previous values.
    """
    call = _call_of(operator, args, kwargs)
    inputs = call.read()
    return _native.compare(
        call.tensor("result", result), call.problem(inputs, []), inputs, call.previous(), roundings
    )


def fill(array: Array, pattern: str, seed: int, operand: int = 0) -> Array:
    """Writes numbers that bring out mistakes, the same on every machine, and returns the array.

    Patterns: uniform, positive, integers, cancelling, near_ties, subnormal, non_finite, large, one_hot; docs/testing.md says
    what each finds. `operand` is 1 for the second factor of products, 0 for the first.
    """
    _native.fill(Tensor(array, "fill", True), pattern, seed, operand)
    return array
