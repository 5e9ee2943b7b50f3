#!/usr/bin/env python3
"""Tests of the adapter against PyTorch's own layers.

    test_adapter.py LIBRARY          results, gradients, layouts, errors
    test_adapter.py LIBRARY --hash   only: hashes of the weights of a small network after a training
    test_adapter.py LIBRARY --time   only: times beside PyTorch, one thread
"""

import argparse
import hashlib
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F

import gradkern_torch

CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
BOUND = {torch.float32: 2e-5, torch.float64: 1e-13}  # distance, relative to the largest number of a tensor


def ours(f, *args):
    """f(*args) with the adapter, which must have been used."""
    before = gradkern_torch.calls()
    with gradkern_torch.enabled():
        result = f(*args)
    assert gradkern_torch.calls() > before, "gradkern was not called"
    return result


def close(name, got, wanted):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, f"{name}: {got.shape}, not {wanted.shape}"
    distance = (got - wanted).abs().max().item() if got.numel() else 0
    bound = BOUND[wanted.dtype] * max(1.0, wanted.abs().max().item() if wanted.numel() else 0)
    assert distance <= bound, f"{name}: {distance}, more than {bound}"


def forward_and_backward(layer, x):
    """Output and all gradients."""
    x = x.detach().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    dy = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape).to(memory_format=format_of(y))
    y.backward(dy)
    return [y.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())]


def format_of(t):
    last = CHANNELS_LAST.get(t.dim())
    return last if last and t.is_contiguous(memory_format=last) and not t.is_contiguous() else torch.contiguous_format


def layers():
    """Layers, and the sizes of their inputs."""
    yield nn.Conv1d(6, 8, 5, padding=2), (2, 6, 31)
    yield nn.Conv2d(16, 24, 3, padding=1), (3, 16, 14, 15)
    yield nn.Conv2d(16, 24, 3, stride=2, padding=1, bias=False), (3, 16, 14, 15)
    yield nn.Conv2d(12, 18, (3, 5), stride=(1, 2), dilation=(2, 1), groups=3), (2, 12, 13, 17)
    yield nn.Conv2d(20, 20, 3, padding=1, groups=20), (2, 20, 12, 12)
    yield nn.Conv2d(8, 8, 5, padding="same"), (2, 8, 9, 9)
    yield nn.Conv2d(64, 32, 1), (2, 64, 7, 7)
    yield nn.Conv3d(4, 6, 3, padding=1, stride=(1, 2, 2)), (2, 4, 5, 8, 8)
    yield nn.ConvTranspose1d(6, 4, 4, stride=2), (2, 6, 11)
    yield nn.ConvTranspose2d(16, 12, 4, stride=2, padding=1), (2, 16, 7, 8)
    yield nn.ConvTranspose2d(12, 18, 3, stride=3, output_padding=2, groups=6, bias=False), (2, 12, 5, 5)
    yield nn.ConvTranspose2d(8, 8, 3, dilation=2, padding=2), (2, 8, 6, 6)
    yield nn.ConvTranspose3d(4, 6, 3, stride=2, padding=1, output_padding=1), (1, 4, 3, 4, 4)
    yield nn.AvgPool1d(3, 2, 1), (2, 5, 17)
    yield nn.AvgPool2d(3, 2, 1, ceil_mode=True), (2, 10, 12, 13)
    yield nn.AvgPool2d((2, 3), count_include_pad=False, padding=1), (2, 10, 12, 13)
    yield nn.AvgPool2d(2, divisor_override=3), (10, 12, 14)
    yield nn.AvgPool3d(2, ceil_mode=True), (2, 4, 5, 6, 7)
    yield nn.MaxPool2d(3, 2, 1), (2, 10, 12, 13)
    yield nn.MaxPool2d(2, ceil_mode=True, dilation=2), (10, 11, 11)
    yield nn.MaxPool3d(2, 2, (1, 1, 0)), (2, 4, 5, 6, 7)


def test_layers():
    """Each layer, forward and backward, in float32 and float64, in both memory formats."""
    rows = 0
    for layer, size in layers():
        for dtype in (torch.float32, torch.float64):
            layer.to(dtype)
            for last in (False, True):
                if last and len(size) not in CHANNELS_LAST:
                    continue
                x = torch.randn(size, dtype=dtype)
                if last:
                    x = x.to(memory_format=CHANNELS_LAST[len(size)])
                wanted = forward_and_backward(layer, x)
                got = ours(forward_and_backward, layer, x)
                for name, a, b in zip(("y", "dx", "dweight", "dbias"), got, wanted):
                    close(f"{layer} {tuple(size)} {dtype} channels_last={last}: {name}", a, b)
                if last:  # neither the result nor its gradient went through another layout
                    assert format_of(got[0]) == CHANNELS_LAST[len(size)], f"{layer}: {got[0].stride()}"
                    assert format_of(got[1]) == CHANNELS_LAST[len(size)], f"{layer}: {got[1].stride()}"
                rows += 1
    print(f"{rows} layers: results and gradients are PyTorch's")


def test_indices():
    for size in ((3, 8, 12, 13), (8, 12, 13)):
        x = torch.randint(-3, 4, size).float()  # with many equal numbers
        wanted = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        got = ours(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
        assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])
    print("indices of max pools are PyTorch's, also of equal maxima")


def test_gradients():
    """By finite differences, and second derivatives of convolutions."""

    def check():
        for layer, x in (
            (nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 5, 6)),
            (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 3, 4)),
            (nn.AvgPool2d(3, 2, 1), (2, 3, 6, 7)),
            (nn.MaxPool2d(3, 2, 1), (2, 3, 6, 7)),
        ):
            layer.double()
            values = torch.randperm(torch.tensor(x).prod().item()).double().reshape(x) / 10  # no ties
            values.requires_grad_()
            assert torch.autograd.gradcheck(layer, (values,))
            if any(True for _ in layer.parameters()):
                weight = layer.weight.detach().requires_grad_()
                f = F.conv2d if isinstance(layer, nn.Conv2d) else F.conv_transpose2d
                inputs = (values.detach()[:1].requires_grad_(), weight)
                assert torch.autograd.gradcheck(lambda a, w: f(a, w, None, 2, 1, groups=2), inputs)
                assert torch.autograd.gradgradcheck(lambda a, w: f(a, w, None, 2, 1, groups=2), inputs)

    ours(check)
    print("gradcheck and gradgradcheck pass")


def test_views():
    """Tensors with any strides: slices, expanded gradients, turned axes."""

    def results():
        torch.manual_seed(3)
        conv = nn.Conv2d(4, 6, 3)
        x = torch.randn(3, 9, 12, 10)[:, 1:9:2].transpose(2, 3)
        x.requires_grad_()
        y = conv(x)
        y.sum().backward()  # a gradient of strides 0
        return [y.detach(), conv.weight.grad, conv.bias.grad]

    wanted = results()
    for a, b in zip(ours(results), wanted):
        close("views", a, b)
    empty = ours(lambda: F.conv2d(torch.empty(0, 4, 8, 8), torch.randn(6, 4, 3, 3)))
    assert empty.shape == (0, 6, 6, 6)
    print("views are read as they lie")


def test_what_stays_with_pytorch():
    conv = nn.Conv2d(4, 6, 3).bfloat16()
    x = torch.randn(2, 4, 8, 8).bfloat16()
    wanted = conv(x)
    before = gradkern_torch.calls()
    with gradkern_torch.enabled():
        assert torch.equal(conv(x), wanted)
        assert F.max_pool2d(torch.ones(1, 1, 4, 4, dtype=torch.int32), 2).dtype == torch.int32
    assert gradkern_torch.calls() == before
    print("other types stay with PyTorch")


def test_errors():
    with gradkern_torch.enabled():
        try:
            torch.convolution(torch.ones(1, 5, 8, 8), torch.ones(6, 4, 3, 3), None, [1], [0], [1], False, [0], 1)
        except RuntimeError as e:
            assert "convolution: src[1]: got 5, expected 4" in str(e), e
        else:
            raise AssertionError("a wrong number of channels was accepted")
    print("errors are gradkern's sentences")


# ----------------------------------------------------------------------------------------------------------------- training


class Network(nn.Module):
    """Convolutions and pools alone, so that nothing else changes the bits."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 5, padding=2, stride=2)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.body = nn.Conv2d(16, 32, 3, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.head = nn.Conv2d(16, 10, 1)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem(x)), 2)
        x = F.relu(self.body(F.relu(self.depthwise(x))))
        x = F.relu(self.up(x))
        return F.avg_pool2d(self.head(x), 16).flatten(1)


def train(memory_format, threads):
    """Hash of the weights after fifteen steps, and the first and the last loss."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    network = Network().to(memory_format=memory_format)
    labels = torch.arange(24) % 10
    colours = 2 * torch.randn(10, 3)
    x = (colours[labels][:, :, None, None] + 0.3 * torch.randn(24, 3, 32, 32)).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    digest = hashlib.sha256()
    for p in network.parameters():
        digest.update(p.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16], losses[0], losses[-1]


def test_hashes():
    settings = [(f, t) for f in (torch.contiguous_format, torch.channels_last) for t in (1, 2, 3)]
    stock = [train(*s) for s in settings]
    got = [ours(train, *s) for s in settings]
    torch.set_num_threads(1)
    for name, runs in (("PyTorch", stock), ("gradkern", got)):
        hashes = {h for h, _, _ in runs}
        print(f"{name}: {len(hashes)} hashes of the weights over two memory formats and 1 to 3 threads, "
              f"loss {runs[0][1]:.4f} to {runs[0][2]:.4f}")
    assert len({h for h, _, _ in got}) == 1, got
    assert got[0][2] < 0.98 * got[0][1], "the network learns nothing"
    assert abs(got[0][2] - stock[0][2]) < 1e-3


# ------------------------------------------------------------------------------------------------------------------- times


def timed_layers():
    yield "3x3, 64 channels, 56x56", nn.Conv2d(64, 64, 3, padding=1), (8, 64, 56, 56)
    yield "3x3, 256 channels, 14x14", nn.Conv2d(256, 256, 3, padding=1), (8, 256, 14, 14)
    yield "3x3 stride 2, 128 channels, 28x28", nn.Conv2d(128, 128, 3, stride=2, padding=1), (8, 128, 28, 28)
    yield "1x1, 256 to 64, 56x56", nn.Conv2d(256, 64, 1), (8, 256, 56, 56)
    yield "7x7 stride 2, 3 to 64, 112x112", nn.Conv2d(3, 64, 7, stride=2, padding=3), (8, 3, 112, 112)
    yield "depthwise 3x3, 144 channels, 56x56", nn.Conv2d(144, 144, 3, padding=1, groups=144), (8, 144, 56, 56)
    yield "32 groups 3x3, 128 channels, 56x56", nn.Conv2d(128, 128, 3, padding=1, groups=32), (8, 128, 56, 56)
    yield "transposed 4x4 stride 2, 128 to 64, 28x28", nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1), (4, 128, 28, 28)
    yield "max pool 3x3 stride 2, 64 channels, 112x112", nn.MaxPool2d(3, 2, 1), (8, 64, 112, 112)
    yield "average pool 3x3, 192 channels, 28x28", nn.AvgPool2d(3, 1, 1), (8, 192, 28, 28)


def best_times(steps, seconds):
    """The least time of each step, in turns."""
    best = [float("inf")] * len(steps)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, (enter, step, leave) in enumerate(steps):
            enter()
            step()
            start = time.perf_counter()
            step()
            best[i] = min(best[i], time.perf_counter() - start)
            leave()
    return best


def times():
    torch.set_num_threads(1)
    print("| layer | layout | forward | backward |\n|---|---|---|---|")
    product, count = 1.0, 0
    for name, layer, size in timed_layers():
        for layout, memory_format in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
            layer.to(memory_format=memory_format)
            x = torch.randn(size).to(memory_format=memory_format).requires_grad_()
            y = layer(x)
            dy = torch.randn(y.shape).to(memory_format=memory_format)
            wanted = [x, *layer.parameters()]

            def forward():
                with torch.no_grad():
                    layer(x)

            graphs = {}

            def backward(key):
                torch.autograd.grad(graphs[key], wanted, dy, retain_graph=True)

            graphs["stock"] = y
            graphs["ours"] = ours(layer, x)
            on, off = gradkern_torch.enable, gradkern_torch.disable
            t = best_times([(off, forward, off), (on, forward, off), (off, lambda: backward("stock"), off),
                            (on, lambda: backward("ours"), off)], 4)
            product *= t[0] / t[1] * t[2] / t[3]
            count += 2
            print(f"| {name} | {layout} | {t[0] / t[1]:.2f} | {t[2] / t[3]:.2f} |", flush=True)
    print(f"geometric mean of {count}: {product ** (1 / count):.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--hash", action="store_true")
    parser.add_argument("--time", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*[Oo]verriding a previously registered kernel.*")
    gradkern_torch.load(arguments.library)
    if arguments.time:
        times()
    elif arguments.hash:
        test_hashes()
    else:
        torch.manual_seed(7)
        for test in (test_layers, test_indices, test_gradients, test_views, test_what_stays_with_pytorch, test_errors,
                     test_hashes):
            test()


if __name__ == "__main__":
    main()
