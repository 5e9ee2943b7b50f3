"""The code of the documents runs."""

import pathlib
import re

import gradkern
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(name):
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is in the repository alone")
    found = re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return found


def test_the_readme():
    for block in blocks("python/README.md"):
        exec(block, {})


def test_the_manual():
    x, w = np.ones((2, 9, 9, 4), np.float32), np.ones((3, 3, 4, 5), np.float32)
    dy = np.ones((2, 9, 9, 5), np.float32)
    names = {
        "gradkern": gradkern, "x": x, "w": w, "bias": np.ones(5, np.float32), "dy": dy, "batches": [x, x],
        "my_dx": gradkern.convolution_backward_data(dy, w, strides=(1, 1)),
    }
    for block in blocks("docs/python.md"):
        exec(block, names)
    assert names["y"].shape == (2, 4, 4, 5)
    assert names["top"].shape == names["indices"].shape == (2, 4, 4, 4)
    assert names["db"].shape == (5,)
