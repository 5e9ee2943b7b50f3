"""What the package has besides operators: types, and documentation."""

import ast
import importlib.util
import pathlib
import subprocess
import sys

import gradkern
import pytest

PACKAGE = pathlib.Path(gradkern.__file__).parent


def test_every_public_name_is_documented():
    for name in gradkern.__all__:
        assert getattr(gradkern, name).__doc__, name


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()
    stub = ast.parse((PACKAGE / "_native.pyi").read_text(encoding="utf-8"))
    named = {node.name for node in ast.walk(stub) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    public = {name for name in dir(gradkern._native) if not name.startswith("_")}
    assert public <= named


RIGHT = """
import gradkern
import numpy as np

x, w = np.ones((1, 4, 4, 3), np.float32), np.ones((2, 2, 3, 5), np.float32)
y = gradkern.convolution(x, w, strides=(1, 1), workers=2)
plan: gradkern.Plan = gradkern.plan(gradkern.convolution, x, w, strides=(1, 1))
shape: tuple[int, ...] = gradkern.infer(gradkern.avg_pool, x, kernel=(2, 2), strides=(2, 2))
report: gradkern.Report = gradkern.compare(y, gradkern.convolution, x, w, strides=(1, 1))
print(report.worst[0].ratio + 1.0)
"""
WRONG = {
    'gradkern.convolution(x, w)': "strides",
    'gradkern.convolution(x, w, strides=(1, 1), stride=2)': "stride",
    'gradkern.convolution(x, w, strides=(1, 1), auto_pad="same")': "auto_pad",
    'gradkern.plan(gradkern.convolution, x, w, stride=(1, 1))': "stride",
}


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
def test_types_are_checked(tmp_path):
    def check(text):
        (tmp_path / "program.py").write_text(text, encoding="utf-8")
        options = ["--strict", "--ignore-missing-imports", "--cache-dir", tmp_path / "cache"]
        command = [sys.executable, "-m", "mypy", *options, "program.py"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = check(RIGHT)
    assert done.returncode == 0, done.stdout
    for line, word in WRONG.items():
        done = check(RIGHT + line + "\n")
        assert done.returncode == 1, line
        assert word in done.stdout
