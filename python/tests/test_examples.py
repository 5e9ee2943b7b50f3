"""The examples run, and print what they promise."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
DIGITS = EXAMPLES.parents[1] / "examples" / "data" / "digits.csv.gz"


def run(name, *arguments):
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wrong_kernel_is_judged():
    text = run("judge_kernel.py")
    assert "--- by_shifts\nconvolution_backward_data, f32: right" in text
    assert "--- by_rolls\nconvolution_backward_data, f32: wrong" in text
    assert "--- in_bf16\nconvolution_backward_data, f32: wrong" in text
    assert "worst elements:" in text


def test_functions_pass_gradcheck():
    assert run("autograd.py").count(": passed\n") == 6


@pytest.mark.skipif(not DIGITS.exists(), reason="needs the repository's digits")
def test_training_ends_in_the_same_bits():
    assert "gradkern: 1 different hashes" in run("train_digits.py", "--steps", "2")
