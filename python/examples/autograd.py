"""gradkern's convolutions and pools as functions that PyTorch differentiates, in one to three axes, NCX.

Gradients of weights and bias are added to the parameters' `grad` image by image, if they have one: so a batch that is split
into consecutive micro-batches leaves the bits of the whole batch. PyTorch's own addition would add sums of micro-batches,
which are other sums. Parameters without `grad`, as those of torch.autograd.gradcheck, get gradients in PyTorch's way.

`workers` is the number of threads of every call; it changes no bit.
"""

import gradkern
import torch
from torch.autograd.function import once_differentiable

workers = 1

FORMATS = {"data_format": "ncx", "weights_format": "oix"}
NCX = {"data_format": "ncx"}


def _parameter_gradients(operator, x, dy, weights, bias, attributes):
    """Of weights and bias: added to their grad, or returned."""
    arguments = dict(attributes, **FORMATS, summation="image_by_image", workers=workers)
    wanted = [p for p in (weights, bias) if p is not None]
    if all(p.is_leaf and p.grad is not None for p in wanted):
        diff_bias = bias.grad if bias is not None else False
        operator(x, dy, **arguments, out=weights.grad, diff_bias=diff_bias, accumulate=True)
        return None, None
    made = operator(x, dy, **arguments, diff_weights_shape=weights.shape, diff_bias=bias is not None)
    return made if bias is not None else (made, None)


def _differentiable(name, forward_of, data_gradient_of, weights_gradient_of):
    """The function of a convolution and its gradients."""

    @staticmethod
    def forward(ctx, x, weights, bias, attributes):
        ctx.save_for_backward(x, weights, bias)
        ctx.attributes = attributes
        return forward_of(x, weights, bias, **attributes, **FORMATS, workers=workers)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weights, bias = ctx.saved_tensors
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = data_gradient_of(dy, weights, **ctx.attributes, **FORMATS, diff_src_shape=x.shape, workers=workers)
        if ctx.needs_input_grad[1]:
            dw, db = _parameter_gradients(weights_gradient_of, x, dy, weights, bias, ctx.attributes)
        return dx, dw, db, None

    return type(name, (torch.autograd.Function,), {"forward": forward, "backward": backward})


Convolution = _differentiable(
    "Convolution",
    gradkern.convolution,
    gradkern.convolution_backward_data,
    gradkern.convolution_backward_weights,
)
ConvTranspose = _differentiable(
    "ConvTranspose",
    gradkern.conv_transpose,
    gradkern.conv_transpose_backward_data,
    gradkern.conv_transpose_backward_weights,
)


class MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, attributes):
        y, indices = gradkern.max_pool(x, **attributes, **NCX, index_base="plane", indices=True, workers=workers)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        (indices,) = ctx.saved_tensors
        return gradkern.max_pool_backward_from_indices(
            dy, indices, **NCX, index_base="plane", diff_src_shape=ctx.shape, workers=workers
        ), None


class AvgPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, attributes):
        ctx.attributes, ctx.shape = attributes, x.shape
        return gradkern.avg_pool(x, **attributes, **NCX, workers=workers)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        return gradkern.avg_pool_backward(dy, **ctx.attributes, **NCX, diff_src_shape=ctx.shape, workers=workers), None


class LpPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, attributes):
        y = gradkern.lp_pool(x, **attributes, **NCX, workers=workers)
        ctx.save_for_backward(x, y)
        ctx.attributes = attributes
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        return gradkern.lp_pool_backward(*ctx.saved_tensors, dy, **ctx.attributes, **NCX, workers=workers), None


def convolution(x, weights, bias=None, **attributes):
    """gradkern.convolution with gradients. x (N, I, spatial...), weights (O, I/g, K...)."""
    return Convolution.apply(x, weights, bias, attributes)


def conv_transpose(x, weights, bias=None, **attributes):
    """gradkern.conv_transpose with gradients. x (N, I, spatial...), weights (O/g, I, K...), unlike PyTorch's (I, O/g, K...)."""
    return ConvTranspose.apply(x, weights, bias, attributes)


def max_pool(x, **attributes):
    """gradkern.max_pool with gradients."""
    return MaxPool.apply(x, attributes)


def avg_pool(x, **attributes):
    """gradkern.avg_pool with gradients."""
    return AvgPool.apply(x, attributes)


def lp_pool(x, **attributes):
    """gradkern.lp_pool with gradients."""
    return LpPool.apply(x, attributes)


def check():
    """torch.autograd.gradcheck in float64, of every function."""
    torch.manual_seed(1)

    def numbers(*shape):
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    layer = dict(strides=(2, 1), dilations=(1, 2), pads_begin=(1, 0), pads_end=(0, 1), groups=2)
    pool = dict(kernel=(3, 2), strides=(2, 1), pads_begin=(1, 0), pads_end=(1, 1))
    x = numbers(2, 4, 6, 5)
    apart = torch.randperm(240).reshape(2, 4, 6, 5).double().requires_grad_()  # no two maxima are near each other
    cases = {
        "convolution": (lambda *a: convolution(*a, **layer), (x, numbers(6, 2, 3, 2), numbers(6))),
        "convolution without bias": (lambda *a: convolution(*a, **layer), (x, numbers(6, 2, 3, 2))),
        "conv_transpose": (lambda *a: conv_transpose(*a, **layer), (x, numbers(3, 4, 3, 2), numbers(6))),
        "max_pool": (lambda a: max_pool(a, **pool), (apart,)),
        "avg_pool": (lambda a: avg_pool(a, exclude_pad=True, **pool), (x,)),
        "lp_pool": (lambda a: lp_pool(a, **pool), (x,)),
    }
    for name, (function, inputs) in cases.items():
        assert torch.autograd.gradcheck(function, inputs)
        print(f"gradcheck of {name}: passed")


if __name__ == "__main__":
    check()
