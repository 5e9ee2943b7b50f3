"""The operators. Each has the equation of the C++ header of its name.

Notation. N is the batch, C, I and O are channels (all, those of an input, those of an output), g is `groups`. Activations are
(N, spatial..., C) with data_format="nxc", the default, or (N, C, spatial...) with "ncx"; there are one to three spatial
axes. Weights are (K..., I/g, O) with weights_format="xio", the default, or (O, I/g, K...) with "oix". On each spatial axis
p(x, k) = x * stride - pads_begin + k * dilation is where tap k of window x lies. Taps outside the tensor are skipped:
padding is never multiplied. Lists of attributes have a number for each spatial axis. `out` is an array for the result;
without it one is made. `dtype` is its type: results of convolutions of 16-bit inputs, and gradients of weights and bias, may be
float32, and are where the weights are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._call import Array, Call, operator

if TYPE_CHECKING:
    from typing import Literal

    from typing_extensions import TypeAlias, Unpack

    from ._call import Options

    AutoPad: TypeAlias = Literal["none", "same_upper", "same_lower", "valid"]
    DataFormat: TypeAlias = Literal["nxc", "ncx"]
    IndexBase: TypeAlias = Literal["tensor", "plane", "image"]
    Ints: TypeAlias = Sequence[int]
    Rounding: TypeAlias = Literal["floor", "ceil", "ceil_torch"]
    StorageOrder: TypeAlias = Literal["row_major", "column_major"]
    Summation: TypeAlias = Literal["joint", "image_by_image", "per_image"]
    WeightsFormat: TypeAlias = Literal["xio", "oix"]


@operator
def convolution(
    src: Array,
    weights: Array,
    bias: Array | None = None,
    *,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "nxc",
    weights_format: WeightsFormat = "xio",
    out: Array | None = None,
    dtype: Any = None,
    **options: Unpack[Options],
) -> Call:
    """dst[n, o, x] = bias[o] + sum over i, k of src[n, i, p(x, k)] * weights[o, i, k].

    src (N, spatial..., I), weights (K..., I/g, O), bias (O), dst (N, spatial..., O). Output o sums over the inputs of its
    group.
    """
    attributes = dict(
        strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad, groups=groups,
        data_format=data_format, weights_format=weights_format,
    )
    inputs = {"src": src, "weights": weights, "bias": bias}
    return Call("convolution", inputs, {"dst": out}, attributes, options, dtype=dtype)


@operator
def convolution_backward_data(
    diff_dst: Array,
    weights: Array,
    *,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    output_padding: Ints | None = None,
    groups: int = 1,
    data_format: DataFormat = "nxc",
    weights_format: WeightsFormat = "xio",
    diff_src_shape: Ints | None = None,
    out: Array | None = None,
    dtype: Any = None,
    **options: Unpack[Options],
) -> Call:
    """diff_src[n, i, q] = sum over o, and x, k with p(x, k) = q, of diff_dst[n, o, x] * weights[o, i, k].

    diff_dst (N, spatial..., O), weights (K..., I/g, O), diff_src (N, spatial..., I). diff_src_shape chooses among the sizes
    that fit, as output_padding does.
    """
    attributes = dict(
        strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        output_padding=output_padding, groups=groups, data_format=data_format, weights_format=weights_format,
    )
    inputs = {"diff_dst": diff_dst, "weights": weights}
    return Call("convolution_backward_data", inputs, {"diff_src": out}, attributes, options, diff_src_shape, dtype)


@operator
def convolution_backward_weights(
    src: Array,
    diff_dst: Array,
    *,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "nxc",
    weights_format: WeightsFormat = "xio",
    diff_weights_shape: Ints | None = None,
    out: Array | None = None,
    diff_bias: Array | bool = False,
    dtype: Any = None,
    summation: Summation = "joint",
    **options: Unpack[Options],
) -> Call:
    """diff_weights[o, i, k] = sum over n, x of src[n, i, p(x, k)] * diff_dst[n, o, x].

    src (N, spatial..., I), diff_dst (N, spatial..., O), diff_weights (K..., I/g, O). With diff_bias=True, or an array for it,
    returns (diff_weights, diff_bias), where diff_bias[o] is the sum of diff_dst[n, o, x] over n and x. Either
    diff_weights_shape or out says how large the kernel is. Gradients of 16-bit inputs may have dtype="float32".
    summation="per_image" gives each image gradients of its own, (N, ...).
    """
    attributes = dict(
        strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad, groups=groups,
        data_format=data_format, weights_format=weights_format, summation=summation,
    )
    inputs, outputs = {"src": src, "diff_dst": diff_dst}, {"diff_weights": out, "diff_bias": diff_bias}
    return Call("convolution_backward_weights", inputs, outputs, attributes, options, diff_weights_shape, dtype)


@operator
def conv_transpose(
    src: Array,
    weights: Array,
    bias: Array | None = None,
    *,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    output_padding: Ints | None = None,
    groups: int = 1,
    data_format: DataFormat = "nxc",
    weights_format: WeightsFormat = "xio",
    dst_shape: Ints | None = None,
    out: Array | None = None,
    dtype: Any = None,
    **options: Unpack[Options],
) -> Call:
    """dst[n, o, q] = bias[o] + sum over i, and x, k with p(x, k) = q, of src[n, i, x] * weights[o, i, k].

    src (N, spatial..., I), weights (K..., I, O/g) or, for "oix", (O/g, I, K...), bias (O), dst (N, spatial..., O). dst_shape
    chooses among the sizes that fit, as output_padding does.
    """
    attributes = dict(
        strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        output_padding=output_padding, groups=groups, data_format=data_format, weights_format=weights_format,
    )
    inputs = {"src": src, "weights": weights, "bias": bias}
    return Call("conv_transpose", inputs, {"dst": out}, attributes, options, dst_shape, dtype)


@operator
def conv_transpose_backward_data(
    diff_dst: Array,
    weights: Array,
    *,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    output_padding: Ints | None = None,
    groups: int = 1,
    data_format: DataFormat = "nxc",
    weights_format: WeightsFormat = "xio",
    diff_src_shape: Ints | None = None,
    out: Array | None = None,
    dtype: Any = None,
    **options: Unpack[Options],
) -> Call:
    """diff_src[n, i, x] = sum over o, k of diff_dst[n, o, p(x, k)] * weights[o, i, k].

    diff_dst (N, spatial..., O), weights (K..., I, O/g) or, for "oix", (O/g, I, K...), diff_src (N, spatial..., I).
    """
    attributes = dict(
        strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        output_padding=output_padding, groups=groups, data_format=data_format, weights_format=weights_format,
    )
    inputs = {"diff_dst": diff_dst, "weights": weights}
    return Call("conv_transpose_backward_data", inputs, {"diff_src": out}, attributes, options, diff_src_shape, dtype)


@operator
def conv_transpose_backward_weights(
    src: Array,
    diff_dst: Array,
    *,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    output_padding: Ints | None = None,
    groups: int = 1,
    data_format: DataFormat = "nxc",
    weights_format: WeightsFormat = "xio",
    diff_weights_shape: Ints | None = None,
    out: Array | None = None,
    diff_bias: Array | bool = False,
    dtype: Any = None,
    summation: Summation = "joint",
    **options: Unpack[Options],
) -> Call:
    """diff_weights[o, i, k] = sum over n, x of src[n, i, x] * diff_dst[n, o, p(x, k)].

    src (N, spatial..., I), diff_dst (N, spatial..., O), diff_weights (K..., I, O/g) or, for "oix", (O/g, I, K...). The other
    arguments are those of convolution_backward_weights.
    """
    attributes = dict(
        strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        output_padding=output_padding, groups=groups, data_format=data_format, weights_format=weights_format,
        summation=summation,
    )
    inputs, outputs = {"src": src, "diff_dst": diff_dst}, {"diff_weights": out, "diff_bias": diff_bias}
    return Call("conv_transpose_backward_weights", inputs, outputs, attributes, options, diff_weights_shape, dtype)


@operator
def bias_backward(
    diff_dst: Array,
    *,
    data_format: DataFormat = "nxc",
    out: Array | None = None,
    dtype: Any = None,
    summation: Summation = "joint",
    **options: Unpack[Options],
) -> Call:
    """diff_bias[c] = sum over n, x of diff_dst[n, c, x].

    diff_dst (N, spatial..., C), diff_bias (C), or (N, C) with summation="per_image".
    """
    attributes = dict(data_format=data_format, summation=summation)
    return Call("bias_backward", {"diff_dst": diff_dst}, {"diff_bias": out}, attributes, options, dtype=dtype)


@operator
def avg_pool(
    src: Array,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    exclude_pad: bool = False,
    auto_pad: AutoPad = "none",
    rounding_type: Rounding = "floor",
    divisor_override: int | None = None,
    data_format: DataFormat = "nxc",
    out: Array | None = None,
    **options: Unpack[Options],
) -> Call:
    """dst[n, c, x] = (sum over k of src[n, c, p(x, k)]) / divisor(x).

    src and dst (N, spatial..., C). The divisor is the number of taps of the kernel; of those inside the tensor with
    exclude_pad; or divisor_override.
    """
    attributes = dict(
        kernel=kernel, strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end,
        exclude_pad=exclude_pad, auto_pad=auto_pad, rounding_type=rounding_type, divisor_override=divisor_override,
        data_format=data_format,
    )
    return Call("avg_pool", {"src": src}, {"dst": out}, attributes, options)


@operator
def avg_pool_backward(
    diff_dst: Array,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    exclude_pad: bool = False,
    auto_pad: AutoPad = "none",
    rounding_type: Rounding = "floor",
    divisor_override: int | None = None,
    data_format: DataFormat = "nxc",
    diff_src_shape: Ints | None = None,
    out: Array | None = None,
    **options: Unpack[Options],
) -> Call:
    """diff_src[n, c, q] = sum over x, k with p(x, k) = q of diff_dst[n, c, x] / divisor(x).

    diff_dst and diff_src (N, spatial..., C). diff_src_shape, or out, is needed.
    """
    attributes = dict(
        kernel=kernel, strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end,
        exclude_pad=exclude_pad, auto_pad=auto_pad, rounding_type=rounding_type, divisor_override=divisor_override,
        data_format=data_format,
    )
    return Call("avg_pool_backward", {"diff_dst": diff_dst}, {"diff_src": out}, attributes, options, diff_src_shape)


@operator
def lp_pool(
    src: Array,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    rounding_type: Rounding = "floor",
    data_format: DataFormat = "nxc",
    out: Array | None = None,
    **options: Unpack[Options],
) -> Call:
    """dst[n, c, x] = sqrt(sum over k of src[n, c, p(x, k)]^2): Lp pooling with p = 2.

    src and dst (N, spatial..., C).
    """
    attributes = dict(
        kernel=kernel, strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        rounding_type=rounding_type, data_format=data_format,
    )
    return Call("lp_pool", {"src": src}, {"dst": out}, attributes, options)


@operator
def lp_pool_backward(
    src: Array,
    dst: Array,
    diff_dst: Array,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    rounding_type: Rounding = "floor",
    data_format: DataFormat = "nxc",
    out: Array | None = None,
    **options: Unpack[Options],
) -> Call:
    """diff_src[n, c, q] = sum over x, k with p(x, k) = q of diff_dst[n, c, x] * src[n, c, q] / dst[n, c, x].

    All tensors (N, spatial..., C). Windows whose dst is 0 count as 0.
    """
    attributes = dict(
        kernel=kernel, strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        rounding_type=rounding_type, data_format=data_format,
    )
    inputs = {"src": src, "dst": dst, "diff_dst": diff_dst}
    return Call("lp_pool_backward", inputs, {"diff_src": out}, attributes, options)


@operator
def max_pool(
    src: Array,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    rounding_type: Rounding = "floor",
    ignore_nan: bool = False,
    data_format: DataFormat = "nxc",
    index_base: IndexBase = "tensor",
    storage_order: StorageOrder = "row_major",
    out: Array | None = None,
    indices: Array | bool = False,
    **options: Unpack[Options],
) -> Call:
    """dst[n, c, x] = max over k of src[n, c, p(x, k)]; the first of equal ones. A NaN wins, or loses with ignore_nan.

    src and dst (N, spatial..., C). With indices=True, or an array of int64 for them, returns (dst, indices): where each
    maximum lies, counted from the beginning of the tensor, the plane or the image (index_base).
    """
    attributes = dict(
        kernel=kernel, strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        rounding_type=rounding_type, ignore_nan=ignore_nan, data_format=data_format, index_base=index_base,
        storage_order=storage_order,
    )
    return Call("max_pool", {"src": src}, {"dst": out, "indices": indices}, attributes, options)


@operator
def max_pool_backward(
    src: Array,
    diff_dst: Array,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints | None = None,
    pads_begin: Ints | None = None,
    pads_end: Ints | None = None,
    auto_pad: AutoPad = "none",
    rounding_type: Rounding = "floor",
    ignore_nan: bool = False,
    data_format: DataFormat = "nxc",
    out: Array | None = None,
    **options: Unpack[Options],
) -> Call:
    """diff_src[n, c, q] = sum over the windows x whose maximum lies at q of diff_dst[n, c, x].

    All tensors (N, spatial..., C). Finds the maxima again; max_pool_backward_from_indices does not.
    """
    attributes = dict(
        kernel=kernel, strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end, auto_pad=auto_pad,
        rounding_type=rounding_type, ignore_nan=ignore_nan, data_format=data_format,
    )
    return Call("max_pool_backward", {"src": src, "diff_dst": diff_dst}, {"diff_src": out}, attributes, options)


@operator
def max_pool_backward_from_indices(
    diff_dst: Array,
    indices: Array,
    *,
    data_format: DataFormat = "nxc",
    index_base: IndexBase = "tensor",
    storage_order: StorageOrder = "row_major",
    diff_src_shape: Ints | None = None,
    out: Array | None = None,
    **options: Unpack[Options],
) -> Call:
    """diff_src[q] = sum over the windows whose index is that of q of diff_dst.

    diff_dst and indices (N, spatial..., C), diff_src (N, spatial..., C), whose shape diff_src_shape or out says.
    """
    attributes = dict(data_format=data_format, index_base=index_base, storage_order=storage_order)
    inputs = {"diff_dst": diff_dst, "indices": indices}
    return Call("max_pool_backward_from_indices", inputs, {"diff_src": out}, attributes, options, diff_src_shape)
