"""Every operator against loops in float64."""

import cases
import gradkern
import loops
import numpy as np
import pytest


@pytest.mark.parametrize(("op", "axes", "data_format", "type_"), list(cases.all_cases()))
def test_results_are_those_of_the_equations(op, axes, data_format, type_):
    case = cases.make(op, axes, data_format, type_)
    result = case.call(gradkern)
    assert isinstance(result, np.ndarray)
    assert result.dtype == cases.TYPES[type_]
    assert result.shape == case.expected.shape
    error = np.abs(result.astype(np.float64) - case.expected)
    assert np.all(error <= cases.tolerance(case, type_)), error.max()


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_plans_give_the_bits_of_calls(op):
    case = cases.make(op)
    expected = case.call(gradkern)
    plan = gradkern.plan(getattr(gradkern, op), *case.inputs, **case.keywords)
    assert plan.shape == expected.shape
    assert plan.workspace_bytes(2) >= 0
    assert op.replace("_from_indices", "") in plan.describe()
    for _ in range(2):
        assert np.array_equal(plan(*case.inputs), expected)
    out = np.full_like(expected, np.nan)
    assert plan(*case.inputs, out=out) is out
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_shapes_are_inferred_of_arrays_and_of_shapes(op):
    case = cases.make(op)
    function = getattr(gradkern, op)
    assert gradkern.infer(function, *case.inputs, **case.keywords) == case.expected.shape
    assert gradkern.infer(function, *(a.shape for a in case.inputs), **case.keywords) == case.expected.shape
    assert gradkern.plan(function, *(a.shape for a in case.inputs), **case.keywords).shape == case.expected.shape


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_out_is_written_and_returned(op):
    case = cases.make(op)
    out = np.full(case.expected.shape, np.nan, np.float32)
    assert case.call(gradkern, out=out) is out
    assert np.array_equal(out, case.call(gradkern))


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_accumulating_adds_to_out(op):
    case = cases.make(op)
    out = np.full(case.expected.shape, 3, np.float32)
    case.call(gradkern, out=out, accumulate=True)
    assert np.allclose(out, case.expected + 3, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["convolution_backward_weights", "conv_transpose_backward_weights"])
@pytest.mark.parametrize("data_format", ["nxc", "ncx"])
def test_bias_gradients_come_with_those_of_weights(op, data_format):
    case = cases.make(op, data_format=data_format)
    weights, bias = case.call(gradkern, diff_bias=True)
    assert np.array_equal(weights, case.call(gradkern))
    assert np.array_equal(bias, gradkern.bias_backward(case.inputs[1], data_format=data_format))
    own = np.empty_like(bias)
    assert case.call(gradkern, diff_bias=own)[1] is own
    assert np.array_equal(own, bias)
    plan = gradkern.plan(getattr(gradkern, op), *case.inputs, **case.keywords, diff_bias=True)
    assert np.array_equal(plan(*case.inputs)[1], bias)
    out = (np.empty_like(weights), np.empty_like(bias))
    assert plan(*case.inputs, out=out)[1] is out[1]
    assert np.array_equal(out[1], bias)


@pytest.mark.parametrize("data_format", ["nxc", "ncx"])
def test_indices_say_where_maxima_lie(data_format):
    case = cases.make("max_pool", data_format=data_format)
    values, indices = case.call(gradkern, indices=True, index_base="plane")
    x = case.inputs[0] if data_format == "ncx" else np.moveaxis(case.inputs[0], -1, 1)
    windows = loops.Windows(
        x.shape[2:], *(case.keywords[k] for k in ("kernel", "strides", "dilations", "pads_begin", "pads_end"))
    )
    _, at = loops.max_pool(x.astype(np.float64), windows)
    assert indices.dtype == np.int64
    assert np.array_equal(indices, cases.layout_of(data_format, at))
    _, flat = case.call(gradkern, indices=True)
    assert np.array_equal(case.inputs[0].ravel()[flat], values)


@pytest.mark.parametrize("type_", [t for t in ("float16", "bfloat16") if t in cases.TYPES])
@pytest.mark.parametrize("op", ["convolution_backward_weights", "conv_transpose_backward_weights", "bias_backward"])
def test_gradients_of_16_bits_may_be_float32(op, type_):
    case = cases.make(op, type_=type_)
    result = case.call(gradkern, dtype="float32")
    assert result.dtype == np.float32
    assert np.all(np.abs(result - case.expected) <= cases.tolerance(case, "float32"))
    assert case.call(gradkern, dtype=np.float32, out=result) is result


MIXED = ["convolution", "convolution_backward_data", "conv_transpose", "conv_transpose_backward_data"]


@pytest.mark.parametrize("type_", [t for t in ("float16", "bfloat16") if t in cases.TYPES])
@pytest.mark.parametrize("op", MIXED)
def test_convolutions_of_16_bits_may_have_float32_results_and_weights(op, type_):
    case = cases.make(op, type_=type_)
    function = getattr(gradkern, op)
    x, weights, *bias = case.inputs
    wide = weights.astype(np.float32)
    for inputs, dtype in (((x, weights, *bias), "float32"), ((x, wide, *bias), None)):
        result = function(*inputs, **case.keywords, dtype=dtype)
        assert result.dtype == np.float32
        assert np.all(np.abs(result - case.expected) <= cases.tolerance(case, "float32"))
        assert gradkern.compare(result, function, *inputs, **case.keywords)
        exact = gradkern.exact(function, *inputs, **case.keywords, dtype=dtype)
        assert exact.dtype == np.float32
        assert np.all(np.abs(exact - case.expected) <= np.abs(case.expected) * 2.0**-24 + 1e-12)
    with pytest.raises(gradkern.Error, match="expected f32"):
        function(x, wide, *bias, **case.keywords, dtype=type_)


@pytest.mark.parametrize("op", ["convolution_backward_weights", "conv_transpose_backward_weights", "bias_backward"])
def test_batches_may_be_split_where_images_are_summed_one_by_one(op):
    case = cases.make(op, batch=5)
    whole = case.call(gradkern, summation="image_by_image")
    for split in range(1, 5):
        parts = np.full_like(whole, np.nan)
        for first, last in ((0, split), (split, 5)):
            getattr(gradkern, op)(
                *(a[first:last] for a in case.inputs), **case.keywords, summation="image_by_image", out=parts,
                accumulate=first > 0,
            )
        assert np.array_equal(parts, whole)


@pytest.mark.parametrize("op", ["convolution_backward_weights", "conv_transpose_backward_weights", "bias_backward"])
def test_images_have_gradients_of_their_own(op):
    case = cases.make(op, batch=3)
    each = case.call(gradkern, summation="per_image")
    assert each.shape == (3, *case.expected.shape)
    assert gradkern.infer(getattr(gradkern, op), *case.inputs, **case.keywords, summation="per_image") == each.shape
    for n in range(3):
        alone = getattr(gradkern, op)(*(a[n : n + 1] for a in case.inputs), **case.keywords)
        assert np.array_equal(each[n], alone)
    total = each[0].copy()
    for n in (1, 2):
        total += each[n]
    assert np.array_equal(total, case.call(gradkern, summation="image_by_image"))
    plan = gradkern.plan(getattr(gradkern, op), *case.inputs, **case.keywords, summation="per_image")
    assert np.array_equal(plan(*case.inputs), each)
    assert np.array_equal(plan(*case.inputs, out=np.empty_like(each)), each)
    with pytest.raises(gradkern.Error, match="one for each image"):
        case.call(gradkern, summation="per_image", out=np.empty_like(each[:2]))
    with pytest.raises(gradkern.Error, match="contiguous"):
        case.call(gradkern, summation="per_image", out=np.empty((6, *each.shape[1:]), np.float32)[::2])


def test_batches_and_channels_may_be_empty():
    empty = np.empty((0, 4, 3), np.float32)
    assert gradkern.convolution(empty, np.empty((2, 3, 5), np.float32), strides=[1]).shape == (0, 3, 5)
    assert gradkern.bias_backward(empty).tolist() == [0, 0, 0]
    assert gradkern.bias_backward(empty, summation="per_image").shape == (0, 3)


def test_the_library_says_what_it_runs_on():
    assert f"{gradkern.isa()}: in use" in gradkern.describe_cpu()
    assert gradkern.__version__.count(".") == 2
