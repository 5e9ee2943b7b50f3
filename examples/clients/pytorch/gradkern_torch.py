"""PyTorch's convolutions and pools on the CPU, computed by gradkern.

    import gradkern_torch
    gradkern_torch.load("build/libgradkern_torch.so")
    with gradkern_torch.enabled():
        loss = model(x).sum()
        loss.backward()
"""

import contextlib

import torch


def load(path):
    """Loads the compiled adapter. Nothing changes before enable()."""
    torch.ops.load_library(str(path))


def enable():
    """From here on gradkern computes convolutions and pools of float32 and float64 tensors on the CPU."""
    torch.ops.gradkern.enable()


def disable():
    """PyTorch computes them itself again."""
    torch.ops.gradkern.disable()


def calls():
    """How many operators gradkern has computed so far."""
    return torch.ops.gradkern.calls()


@contextlib.contextmanager
def enabled():
    """enable(), and disable() at the end of the block."""
    enable()
    try:
        yield
    finally:
        disable()
