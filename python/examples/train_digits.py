"""Trains a small network on handwritten digits twice: with gradkern's operators and with PyTorch's own.

Each training runs with one and two threads, and with the batch whole and split into micro-batches in several ways. The
weights of gradkern's have one hash. Those of PyTorch's depend on how the batch was split.

    train_digits.py [--steps N] [--data digits.csv.gz]
"""

import argparse
import collections
import gzip
import hashlib
import math
import pathlib
import time

import autograd
import numpy as np
import torch
from torch.nn import functional

BATCH = 60
SPLITS = {"whole": [60], "halves": [30, 30], "uneven": [7, 41, 12], "images": [1] * 60}
DATA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "digits.csv.gz"


def read_digits(path):
    """Images (N, 1, 8, 8) in [0, 1], and digits."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = torch.from_numpy(np.loadtxt(file, delimiter=",", dtype=np.float32))
    return rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long()


def make_parameters():
    """Weights and biases of three convolutions."""
    generator = torch.Generator().manual_seed(1)
    parameters = []
    for shape, scale in (((16, 1, 3, 3), 1), ((32, 16, 3, 3), 1), ((10, 32, 2, 2), 0.1)):
        weights = torch.randn(shape, generator=generator) * scale * (2 / math.prod(shape[1:])) ** 0.5
        parameters += [weights, torch.zeros(shape[0])]
    return [p.requires_grad_() for p in parameters]


def by_gradkern(x, w1, b1, w2, b2, w3, b3):
    one, pads = dict(strides=(1, 1)), dict(pads_begin=(1, 1), pads_end=(1, 1))
    pool = dict(kernel=(2, 2), strides=(2, 2))
    x = autograd.max_pool(torch.relu(autograd.convolution(x, w1, b1, **one, **pads)), **pool)
    x = autograd.avg_pool(torch.relu(autograd.convolution(x, w2, b2, **one, **pads)), **pool)
    return autograd.convolution(x, w3, b3, **one)[:, :, 0, 0]


def by_pytorch(x, w1, b1, w2, b2, w3, b3):
    x = functional.max_pool2d(torch.relu(functional.conv2d(x, w1, b1, padding=1)), 2)
    x = functional.avg_pool2d(torch.relu(functional.conv2d(x, w2, b2, padding=1)), 2)
    return functional.conv2d(x, w3, b3)[:, :, 0, 0]


def train(network, images, wanted, steps, split):
    """Weights after so many steps of gradient descent with momentum."""
    parameters = make_parameters()
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    for p in parameters:
        p.grad = torch.zeros_like(p)
    for step in range(steps):
        first = step * BATCH % (len(images) - BATCH + 1)
        optimizer.zero_grad(set_to_none=False)
        for size in split:
            y = network(images[first : first + size], *parameters)
            ((y - wanted[first : first + size]) ** 2 / BATCH).sum().backward()
            first += size
        optimizer.step()
    return [p.detach() for p in parameters]


def hash_of(parameters):
    return hashlib.sha256(b"".join(p.numpy().tobytes() for p in parameters)).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    arguments = parser.parse_args()

    images, digits = read_digits(arguments.data)
    wanted = functional.one_hot(digits, 10).float()
    training, test = slice(0, 1500), slice(1500, None)
    hashes = collections.defaultdict(set)
    for name, network in (("gradkern", by_gradkern), ("PyTorch", by_pytorch)):
        for threads in (1, 2):
            torch.set_num_threads(threads)
            autograd.workers = threads
            for split_name, split in SPLITS.items():
                begin = time.perf_counter()
                parameters = train(network, images[training], wanted[training], arguments.steps, split)
                seconds = time.perf_counter() - begin
                with torch.no_grad():
                    right = (network(images[test], *parameters).argmax(1) == digits[test]).double().mean()
                hashes[name].add(hash_of(parameters))
                print(
                    f"{name:8} {threads} threads, batch {split_name:6}: weights {hash_of(parameters)}, "
                    f"{100 * right:.1f} % of {len(digits[test])} test digits right, {seconds:.1f} s"
                )
    for name, found in hashes.items():
        print(f"{name}: {len(found)} different hashes")
    assert len(hashes["gradkern"]) == 1


if __name__ == "__main__":
    main()
