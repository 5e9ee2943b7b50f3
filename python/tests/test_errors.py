"""Mistakes are exceptions with the library's words, and nothing is written."""

import os
import subprocess
import sys

import cases
import gradkern
import numpy as np
import pytest

X = np.ones((1, 6, 6, 4), np.float32)
W = np.ones((3, 3, 4, 5), np.float32)
CONV = dict(strides=(1, 1))

MISTAKES = {
    "too few strides": (dict(strides=(1,)), gradkern.Error, "convolution: strides: got 1 entry, expected 2"),
    "too many strides": (dict(strides=(1,) * 9), gradkern.Error, "convolution: strides: got 9 entries, expected 2"),
    "a stride of 0": (dict(strides=(0, 1)), gradkern.Error, r"strides\[0\]: got 0, expected at least 1"),
    "strides that are no list": (dict(strides=2), TypeError, "strides: got 2, expected a sequence"),
    "fractions": (dict(strides=(1.5, 1)), TypeError, "strides: .*expected a sequence of integers"),
    "a stride beyond 64 bits": (dict(strides=(2**70, 1)), gradkern.Error, "strides: got 1180591620717411303424"),
    "groups beyond 64 bits": (dict(groups=2**63), gradkern.Error, "groups: got 9223372036854775808"),
    "pads that are far too large": (dict(pads_end=(2**62, 2**62)), gradkern.Error, r"dst\[1\]: got 4, expected 4611686018427387908"),
    "pads below 0": (dict(pads_begin=(0, -1)), gradkern.Error, r"pads_begin\[1\]: got -1"),
    "no group": (dict(groups=0), gradkern.Error, "groups: got 0"),
    "groups that do not divide": (dict(groups=3), gradkern.Error, "groups|weights"),
    "an unknown word": (dict(auto_pad="same"), gradkern.Error, "auto_pad: got 'same', expected none, .* or valid"),
    "another format": (dict(weights_format="oix"), gradkern.Error, "weights"),
    "an unknown argument": (dict(stride=1), TypeError, "unexpected keyword argument 'stride'"),
    "an algorithm that is none": (dict(algorithm="fastest"), gradkern.Error, "algorithm"),
    "an algorithm that does not fit": (dict(algorithm="depthwise"), gradkern.Error, "algorithm"),
    "gradients per image of a result": (dict(summation="per_image"), gradkern.Error, "summation"),
    "less than no worker": (dict(workers=-1), gradkern.Error, "workers: got -1"),
    "too many workers": (dict(workers=10**9), gradkern.Error, "workers"),
}


@pytest.mark.parametrize(("keywords", "kind", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_an_exception(keywords, kind, message):
    out = np.full((1, 4, 4, 5), np.nan, np.float32)
    with pytest.raises(kind, match=message):
        gradkern.convolution(X, W, **{**CONV, **keywords}, out=out)
    assert np.all(np.isnan(out))


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_outputs_of_another_shape_or_type_are_refused(op):
    case = cases.make(op)
    longer = np.full((*case.expected.shape[:-1], case.expected.shape[-1] + 1), 7, np.float32)
    with pytest.raises(gradkern.Error, match=f"{op}: "):
        case.call(gradkern, out=longer)
    other = np.full(case.expected.shape, 7, np.float64)
    with pytest.raises(gradkern.Error, match=f"{op}: .*f64"):
        case.call(gradkern, out=other)
    assert np.all(longer == 7)
    assert np.all(other == 7)


def test_out_has_to_be_what_other_arguments_say():
    case = cases.make("avg_pool_backward")
    out = np.full(case.expected.shape, 7, np.float32)
    with pytest.raises(gradkern.Error, match="diff_src: got the shape .*, expected"):
        case.call(gradkern, out=out[:, 1:])
    with pytest.raises(gradkern.Error, match="diff_bias: got f32, expected f64"):
        gradkern.bias_backward(*cases.make("bias_backward").inputs, out=np.empty(5, np.float32), dtype="float64")
    assert np.all(out == 7)


@pytest.mark.parametrize("op", cases.OPERATORS)
def test_results_that_accumulate_need_an_array(op):
    with pytest.raises(gradkern.Error, match="accumulate"):
        cases.make(op).call(gradkern, accumulate=True)


def test_an_error_is_a_value_error_of_the_package():
    assert issubclass(gradkern.Error, ValueError)
    assert gradkern.Error.__module__ == "gradkern"


def test_indices_outside_the_tensor_are_found_first():
    dy = np.ones((1, 2, 1), np.float32)
    out = np.full((1, 4, 1), 5, np.float32)
    with pytest.raises(gradkern.Error, match="indices"):
        gradkern.max_pool_backward_from_indices(dy, np.array([[[0], [4]]]), out=out)
    assert np.all(out == 5)


def test_a_shape_that_cannot_be_inferred_is_missing():
    case = cases.make("convolution_backward_weights")
    keywords = {k: v for k, v in case.keywords.items() if k != "diff_weights_shape"}
    with pytest.raises(gradkern.Error, match="diff_weights.*cannot be inferred"):
        gradkern.convolution_backward_weights(*case.inputs, **keywords)


def test_plans_refuse_what_they_were_not_planned_for():
    plan = gradkern.plan(gradkern.convolution, X, W, **CONV)
    with pytest.raises(gradkern.Error, match="src: got f32 .1, 6, 5, 4., planned for f32 .1, 6, 6, 4."):
        plan(X[:, :, :5], W)
    with pytest.raises(gradkern.Error, match="weights: got none"):
        plan(X)
    with pytest.raises(gradkern.Error, match="bias: got f32 .5., planned for none"):
        plan(X, W, np.zeros(5, np.float32))
    with pytest.raises(TypeError, match="got 4 inputs"):
        plan(X, W, None, X)
    with pytest.raises(TypeError, match="got no inputs"):
        plan()
    with pytest.raises(TypeError, match="out: got 2 arrays"):
        plan(X, W, out=(X, X))


def test_what_is_no_operator_is_refused():
    for verb in (gradkern.plan, gradkern.infer, gradkern.exact, gradkern.bounds):
        with pytest.raises(TypeError, match="expected an operator"):
            verb(len, X)


def test_a_set_that_is_not_there_is_named():
    program = "import gradkern as g, numpy as n; print(g.isa()); g.bias_backward(n.ones((1, 1, 1), 'f4'))"
    environment = {**os.environ, "GRADKERN_ISA": "z80"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "none\n"
    assert "the library has no instruction set z80" in done.stderr
