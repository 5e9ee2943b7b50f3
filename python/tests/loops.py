"""The equations of the operators as loops in float64: activations (N, C, spatial...), weights (O, I/g, K...)."""

import itertools
import math

import numpy as np


class Windows:
    """Where windows lie: pairs of window and tap that meet inside the large side."""

    def __init__(self, large, kernel, strides, dilations, pads_begin, pads_end):
        self.large, self.kernel = tuple(large), tuple(kernel)
        self.small = tuple(
            (n + b + e - (k - 1) * d - 1) // s + 1
            for n, k, s, d, b, e in zip(large, kernel, strides, dilations, pads_begin, pads_end)
        )
        self.strides, self.dilations, self.pads = strides, dilations, pads_begin

    def __iter__(self):
        for o in itertools.product(*map(range, self.small)):
            for k in itertools.product(*map(range, self.kernel)):
                p = tuple(a * s - b + t * d for a, s, b, t, d in zip(o, self.strides, self.pads, k, self.dilations))
                if all(0 <= q < n for q, n in zip(p, self.large)):
                    yield o, k, p


def _at(index):
    return (slice(None), slice(None), *index)


def _groups(channels, groups):
    each = channels // groups
    return [slice(g * each, (g + 1) * each) for g in range(groups)]


def convolution(x, w, windows, groups):
    y = np.zeros((x.shape[0], w.shape[0], *windows.small))
    for o, k, p in windows:
        for i, c in zip(_groups(x.shape[1], groups), _groups(w.shape[0], groups)):
            y[(slice(None), c, *o)] += x[(slice(None), i, *p)] @ w[(c, slice(None), *k)].T
    return y


def convolution_backward_data(dy, w, windows, groups):
    dx = np.zeros((dy.shape[0], w.shape[1] * groups, *windows.large))
    for o, k, p in windows:
        for i, c in zip(_groups(dx.shape[1], groups), _groups(w.shape[0], groups)):
            dx[(slice(None), i, *p)] += dy[(slice(None), c, *o)] @ w[(c, slice(None), *k)]
    return dx


def convolution_backward_weights(x, dy, windows, groups):
    dw = np.zeros((dy.shape[1], x.shape[1] // groups, *windows.kernel))
    for o, k, p in windows:
        for i, c in zip(_groups(x.shape[1], groups), _groups(dy.shape[1], groups)):
            dw[(c, slice(None), *k)] += dy[(slice(None), c, *o)].T @ x[(slice(None), i, *p)]
    return dw


def bias_backward(dy):
    return dy.sum(axis=(0, *range(2, dy.ndim)))


def _divisors(windows, exclude_pad):
    counts = dict.fromkeys(itertools.product(*map(range, windows.small)), 0)
    for o, _, _ in windows:
        counts[o] += 1
    return counts if exclude_pad else dict.fromkeys(counts, math.prod(windows.kernel))


def avg_pool(x, windows, exclude_pad=False):
    divisors = _divisors(windows, exclude_pad)
    y = np.zeros((*x.shape[:2], *windows.small))
    for o, _, p in windows:
        y[_at(o)] += x[_at(p)] / divisors[o]
    return y


def avg_pool_backward(dy, windows, exclude_pad=False):
    divisors = _divisors(windows, exclude_pad)
    dx = np.zeros((*dy.shape[:2], *windows.large))
    for o, _, p in windows:
        dx[_at(p)] += dy[_at(o)] / divisors[o]
    return dx


def lp_pool(x, windows):
    y = np.zeros((*x.shape[:2], *windows.small))
    for o, _, p in windows:
        y[_at(o)] += x[_at(p)] ** 2
    return np.sqrt(y)


def lp_pool_backward(x, y, dy, windows):
    dx = np.zeros_like(x)
    for o, _, p in windows:
        share = np.divide(x[_at(p)], y[_at(o)], out=np.zeros(x.shape[:2]), where=y[_at(o)] != 0)
        dx[_at(p)] += dy[_at(o)] * share
    return dx


def max_pool(x, windows):
    """Maxima, and the offset of each in its plane."""
    y = np.full((*x.shape[:2], *windows.small), -np.inf)
    at = np.full(y.shape, -1)
    for o, _, p in windows:
        new = x[_at(p)] > y[_at(o)]
        y[_at(o)] = np.where(new, x[_at(p)], y[_at(o)])
        at[_at(o)] = np.where(new, np.ravel_multi_index(p, windows.large), at[_at(o)])
    return y, at


def max_pool_backward(x, dy, windows):
    _, at = max_pool(x, windows)
    dx = np.zeros((*x.shape[:2], math.prod(windows.large)))
    for n, c in itertools.product(*map(range, x.shape[:2])):
        np.add.at(dx[n, c], at[n, c].ravel(), dy[n, c].ravel())
    return dx.reshape(x.shape)
