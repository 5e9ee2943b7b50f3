"""PyTorch's tensors, and PyTorch's own operators as a second opinion."""

import cases
import gradkern
import numpy as np
import pytest

torch = pytest.importorskip("torch")

X = torch.arange(2 * 4 * 9 * 8, dtype=torch.float64).reshape(2, 4, 9, 8).sin()
W = torch.arange(6 * 2 * 3 * 3, dtype=torch.float64).reshape(6, 2, 3, 3).cos()
B = torch.arange(6, dtype=torch.float64).sin()
CONV = dict(strides=(2, 1), dilations=(1, 2), pads_begin=(1, 2), pads_end=(1, 2), groups=2)
TORCH_CONV = dict(stride=(2, 1), dilation=(1, 2), padding=(1, 2), groups=2)
FORMATS = dict(data_format="ncx", weights_format="oix")


@pytest.mark.parametrize("op", cases.OPERATORS)
@pytest.mark.parametrize("type_", ["float32", "float64", "float16", "bfloat16"])
def test_results_are_tensors_with_the_bits_of_arrays(op, type_):
    if type_ not in cases.TYPES:
        pytest.skip("needs ml_dtypes")
    case = cases.make(op, type_=type_)
    expected = case.call(gradkern)

    def tensor(array):
        if array.dtype.name == "bfloat16":  # unknown to from_numpy
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    result = getattr(gradkern, op)(*map(tensor, case.inputs), **case.keywords)
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, type_)
    assert torch.equal(result, tensor(expected))


def test_tensors_may_have_any_strides():
    last = X.to(memory_format=torch.channels_last)
    assert not last.is_contiguous()
    expected = gradkern.convolution(X, W, B, **CONV, **FORMATS)
    assert torch.equal(gradkern.convolution(last, W, B, **CONV, **FORMATS), expected)
    moved = gradkern.convolution(X.movedim(1, -1), W, B, **CONV, weights_format="oix")
    assert torch.equal(moved.movedim(-1, 1), expected)


def test_tensors_that_require_gradients_are_refused():
    x = X.clone().requires_grad_()
    with pytest.raises(TypeError, match="detach"):
        gradkern.convolution(x, W, B, **CONV, **FORMATS)
    with torch.no_grad():
        assert gradkern.convolution(x, W, B, **CONV, **FORMATS).shape == (2, 6, 5, 8)


def test_convolutions_are_those_of_pytorch():
    x, w, b = (t.clone().requires_grad_() for t in (X, W, B))
    y = torch.nn.functional.conv2d(x, w, b, **TORCH_CONV)
    torch.testing.assert_close(gradkern.convolution(X, W, B, **CONV, **FORMATS), y.detach(), rtol=1e-12, atol=1e-12)
    dy = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape)
    dx, dw, db = torch.autograd.grad(y, (x, w, b), dy)
    layer = dict(CONV, **FORMATS)
    own_dw, own_db = gradkern.convolution_backward_weights(X, dy, **layer, diff_weights_shape=W.shape, diff_bias=True)
    own_dx = gradkern.convolution_backward_data(dy, W, **layer, diff_src_shape=X.shape)
    for own, theirs in ((own_dx, dx), (own_dw, dw), (own_db, db)):
        torch.testing.assert_close(own, theirs, rtol=1e-12, atol=1e-12)


def test_transposed_convolutions_are_those_of_pytorch():
    # PyTorch has weights (I, O/g, K...): a view of them is (O/g, I, K...).
    x = X[:, :3].repeat(1, 2, 1, 1).clone().requires_grad_()
    y = torch.nn.functional.conv_transpose2d(x, W, stride=2, padding=1, output_padding=1, groups=2)
    ones = dict(pads_begin=(1, 1), pads_end=(1, 1), output_padding=(1, 1))
    own = gradkern.conv_transpose(x.detach(), W.movedim(0, 1), strides=(2, 2), **ones, groups=2, **FORMATS)
    torch.testing.assert_close(own, y.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ceil", [False, True])
def test_pools_are_those_of_pytorch(ceil):
    window = dict(kernel=(3, 2), strides=(2, 2), pads_begin=(1, 1), pads_end=(1, 1), data_format="ncx")
    window["rounding_type"] = "ceil_torch" if ceil else "floor"
    theirs = dict(kernel_size=(3, 2), stride=2, padding=1, ceil_mode=ceil)
    x = X.clone().requires_grad_()
    y, at = torch.nn.functional.max_pool2d(x, **theirs, return_indices=True)
    own, indices = gradkern.max_pool(X, **window, index_base="plane", indices=True)
    assert torch.equal(own, y.detach())
    assert torch.equal(indices, at)
    dy = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape)
    (dx,) = torch.autograd.grad(y, x, dy)
    torch.testing.assert_close(gradkern.max_pool_backward(X, dy, **window), dx)
    torch.testing.assert_close(
        gradkern.max_pool_backward_from_indices(dy, at, data_format="ncx", index_base="plane", diff_src_shape=X.shape), dx
    )
    y = torch.nn.functional.avg_pool2d(x, **theirs, count_include_pad=False)
    torch.testing.assert_close(gradkern.avg_pool(X, **window, exclude_pad=True), y.detach())
    (dx,) = torch.autograd.grad(y, x, dy)
    torch.testing.assert_close(gradkern.avg_pool_backward(dy, **window, exclude_pad=True, diff_src_shape=X.shape), dx)
