"""Exact results, bounds and verdicts."""

import cases
import gradkern
import numpy as np
import pytest


@pytest.mark.parametrize("op", cases.OPERATORS)
@pytest.mark.parametrize("type_", list(cases.TYPES))
def test_exact_results_are_rounded_once(op, type_):
    case = cases.make(op, type_=type_)
    result = gradkern.exact(getattr(gradkern, op), *case.inputs, **case.keywords)
    assert result.dtype == cases.TYPES[type_]
    # The loops' own errors are those of f64; half of the last place is left for the one rounding.
    near = case.terms * cases.EPSILON["float64"] * (case.roundings + 8)
    last = np.abs(case.expected) * cases.EPSILON[type_] / 2
    assert np.all(np.abs(result.astype(np.float64) - case.expected) <= near + last + 2.0**-25)


def test_exact_sums_do_not_cancel():
    x = np.array([1e30, 1, -1e30], np.float32).reshape(1, 3, 1)
    assert gradkern.exact(gradkern.bias_backward, x).tolist() == [1]
    out = np.array([2], np.float32)
    assert gradkern.exact(gradkern.bias_backward, x, out=out, accumulate=True).tolist() == [3]
    assert out.tolist() == [2]


def test_exact_results_have_second_outputs():
    x = np.array([3, 1, 4, 1], np.float32).reshape(1, 4, 1)
    dst, indices = gradkern.exact(gradkern.max_pool, x, kernel=[2], strides=[2], indices=True)
    assert dst.ravel().tolist() == [3, 4]
    assert indices.ravel().tolist() == [0, 2]
    window = dict(strides=[1], diff_weights_shape=(1, 1, 1))
    dw, db = gradkern.exact(gradkern.convolution_backward_weights, x, x, **window, diff_bias=True)
    assert (dw.ravel().tolist(), db.tolist()) == ([27], [9])


@pytest.mark.parametrize("op", cases.OPERATORS)
@pytest.mark.parametrize("type_", list(cases.TYPES))
def test_results_are_right(op, type_):
    case = cases.make(op, type_=type_)
    function = getattr(gradkern, op)
    result = case.call(gradkern)
    report = gradkern.compare(result, function, *case.inputs, **case.keywords)
    assert report, report
    assert report.elements == result.size
    assert "right" in str(report)
    expected, bound = gradkern.bounds(function, *case.inputs, **case.keywords)
    assert np.allclose(expected, case.expected, rtol=1e-12, atol=1e-12)
    assert np.all(np.abs(result.astype(np.float64) - expected) <= bound)


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_a_wrong_element_is_named(op):
    case = cases.make(op)
    result = case.call(gradkern)
    index = tuple(n - 1 for n in result.shape)
    result[index] += 0.5
    report = gradkern.compare(result, getattr(gradkern, op), *case.inputs, **case.keywords)
    assert not report.ok
    assert report.refused == 1
    worst = report.worst[0]
    assert worst.index == index
    assert worst.result == result[index]
    assert worst.error == pytest.approx(0.5, rel=1e-4)
    assert worst.ratio > 1
    assert "wrong" in str(report)


def test_errors_just_inside_and_outside_of_the_bound():
    case = cases.make("convolution")
    expected, bound = gradkern.bounds(gradkern.convolution, *case.inputs, **case.keywords)
    for factor, right in ((0.9, True), (1.1, False)):
        wrong = expected.astype(np.float32)
        wrong.flat[7] = expected.flat[7] + factor * bound.flat[7]
        assert gradkern.compare(wrong, gradkern.convolution, *case.inputs, **case.keywords).ok == right


def test_one_long_sum_needs_more_roundings():
    x = gradkern.fill(np.empty((1, 4096, 1), np.float32), "positive", 1)
    plain = np.float32(0)
    for value in x.ravel():
        plain += value
    result = np.array([plain])
    assert not gradkern.compare(result, gradkern.bias_backward, x, roundings=0)
    assert gradkern.compare(result, gradkern.bias_backward, x, roundings=4096)


def test_previous_values_count_where_results_accumulate():
    case = cases.make("convolution_backward_weights")
    before = np.full(case.expected.shape, 2, np.float32)
    result = before.copy()
    case.call(gradkern, out=result, accumulate=True)
    judge = dict(case.keywords, out=before, accumulate=True)
    assert gradkern.compare(result, gradkern.convolution_backward_weights, *case.inputs, **judge)
    assert not gradkern.compare(before, gradkern.convolution_backward_weights, *case.inputs, **judge)
    expected, _ = gradkern.bounds(gradkern.convolution_backward_weights, *case.inputs, **judge)
    assert np.allclose(expected, case.expected + 2)
    with pytest.raises(gradkern.Error, match="values before the call"):
        gradkern.compare(result, gradkern.convolution_backward_weights, *case.inputs, **case.keywords, accumulate=True)


def test_roundings_that_leave_no_bound_are_refused():
    case = cases.make("convolution")
    result = case.expected.astype(np.float32)
    for roundings in (-1, 2**24):
        with pytest.raises(gradkern.Error, match="roundings"):
            gradkern.compare(result, gradkern.convolution, *case.inputs, **case.keywords, roundings=roundings)


def test_indices_are_judged():
    case = cases.make("max_pool")
    _, indices = case.call(gradkern, indices=True)
    assert gradkern.compare(indices, gradkern.max_pool, *case.inputs, **case.keywords)
    indices[0, 0, 0, 0] += 1
    assert gradkern.compare(indices, gradkern.max_pool, *case.inputs, **case.keywords).refused == 1


def test_types_may_differ_in_a_verdict():
    case = cases.make("convolution", type_="float16")
    wide = gradkern.convolution(*(a.astype(np.float64) for a in case.inputs), **case.keywords)
    assert gradkern.compare(wide, gradkern.convolution, *case.inputs, **case.keywords)


PATTERNS = "uniform positive integers cancelling near_ties subnormal non_finite large one_hot"


@pytest.mark.parametrize("pattern", PATTERNS.split())
def test_results_of_all_patterns_are_right(pattern):
    x = gradkern.fill(np.empty((2, 8, 8, 3), np.float32), pattern, 1)
    w = gradkern.fill(np.empty((3, 3, 3, 4), np.float32), pattern, 2, operand=1)
    report = gradkern.compare(gradkern.convolution(x, w, strides=(1, 1)), gradkern.convolution, x, w, strides=(1, 1))
    # Nothing is promised about sums of numbers near the end of the range.
    assert report.judged_nothing if pattern == "large" else report


def test_there_are_no_other_patterns():
    with pytest.raises(gradkern.Error, match="no pattern random"):
        gradkern.fill(np.empty(3, np.float32), "random", 1)


def test_shapes_that_do_not_fit_cannot_be_judged():
    case = cases.make("convolution")
    with pytest.raises(gradkern.Error, match="convolution: dst"):
        gradkern.compare(case.expected[:1], gradkern.convolution, *case.inputs, **case.keywords)
