#!/usr/bin/env python3
"""Writes what other libraries compute for small problems of every operator, for golden_test.cpp to compare with.

    make_golden.py torch                 >torch.txt
    make_golden.py tensorflow            >tensorflow.txt
    make_golden.py onnxruntime           >onnxruntime.txt
    make_golden.py onnxruntime_training  >onnxruntime_training.txt

Needs numpy and the library of that name (the last two: onnx as well). README.md in this folder describes the files, and
names what is left out because a peer is known to compute something else.
"""

import collections
import itertools
import os
import random
import sys

import numpy as np

F32 = np.float32


# ---------------------------------------------------------------------------------------------------- generated inputs

SOURCE, WEIGHTS, BIAS, GRADIENT = range(4)  # roles: two tensors of a case have different contents


def generate(shape, seed, role, kind):
    """The contents of a dense tensor; golden_test.cpp has the same function."""
    count = int(np.prod(shape, dtype=np.int64))
    i = np.arange(count, dtype=np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    h = (np.uint64(seed * 1000003 + role * 7919) + i * np.uint64(0x9E3779B1)) & mask
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(0x2545F491)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(0x5851F42D)) & mask
    h ^= h >> np.uint64(16)
    if kind == "eighths":
        values = ((h % np.uint64(33)).astype(np.int64) - 16) / 8.0
    else:
        values = ((h % np.uint64(9)).astype(np.int64) - 4).astype(np.float64)
    if kind == "special" and role == SOURCE:
        draw = (h >> np.uint64(8)) % np.uint64(12)
        values[draw == 0] = np.nan
        values[draw == 1] = np.inf
        values[draw >= 8] = -np.inf
    if kind == "infinite" and role == SOURCE:
        values[:] = -np.inf
    if kind == "distinct" and role == SOURCE:  # up to 1009 elements, a prime
        values = ((i * np.uint64(389) + np.uint64(seed)) % np.uint64(1009)).astype(np.float64) - 504
    return values.astype(F32).reshape(shape)


# -------------------------------------------------------------------------------------------------------------- formats


def activation_to(fmt, a):
    """From NCX."""
    return a if fmt == "ncx" else np.moveaxis(a, 1, -1)


def activation_from(fmt, a):
    """To NCX."""
    return a if fmt == "ncx" else np.moveaxis(a, -1, 1)


def filter_to(fmt, a):
    """From OIX."""
    return a if fmt == "oix" else np.moveaxis(np.moveaxis(a, 0, -1), 0, -2)


def filter_from(fmt, a):
    """To OIX."""
    return a if fmt == "oix" else np.moveaxis(np.moveaxis(a, -1, 0), -1, 1)


def swapped(a):
    """OIX to IOX and back."""
    return np.moveaxis(a, 0, 1)


def activation_shape(fmt, n, c, space):
    return (n, c, *space) if fmt == "ncx" else (n, *space, c)


def filter_shape(fmt, o, i, kernel):
    return (o, i, *kernel) if fmt == "oix" else (*kernel, i, o)


# --------------------------------------------------------------------------------------------------------------- output


def text_of(value):
    value = F32(value)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))  # -0 becomes 0: the peers disagree about it
    return np.format_float_positional(value, unique=True, trim="-")


class Writer:
    def __init__(self, peer, versions):
        self.peer = peer
        self.versions = versions
        self.lines = []
        self.counts = collections.Counter()
        self.skipped = collections.Counter()

    def emit(self, op, dtype, fields, values, indices=None, limit=170):
        """One case; left out where the result is long."""
        values = np.ascontiguousarray(values)
        near = fields.get("near")
        if values.size > (limit // 3 if near else limit) or values.size == 0:
            return False
        parts = [op, dtype]
        for key, value in fields.items():
            if value is None or value is False:
                continue
            if value is True:
                parts.append(key)
            elif isinstance(value, (tuple, list)):
                parts.append(f"{key}=" + ",".join(str(int(v)) for v in value))
            else:
                parts.append(f"{key}={value}")
        line = " ".join(parts) + " : " + " ".join(text_of(v) for v in values.reshape(-1))
        if indices is not None:
            line += " : " + " ".join(str(int(v)) for v in np.ascontiguousarray(indices).reshape(-1))
        self.lines.append((op, line))
        self.counts[op] += 1
        return True

    def skip(self, why):
        self.skipped[why] += 1

    def write(self, out):
        out.write("# What another library computed; written by make_golden.py, described in README.md.\n")
        for name, version in self.versions:
            out.write(f"peer {name} {version}\n")
        for op, count in sorted(self.counts.items()):
            out.write(f"count {op} {count}\n")
        out.write(f"cases {sum(self.counts.values())}\n")
        for _, line in sorted(self.lines, key=lambda l: l[0]):
            out.write(line + "\n")
        for op, count in sorted(self.counts.items()):
            print(f"{self.peer}: {op} {count}", file=sys.stderr)
        for why, count in sorted(self.skipped.items()):
            print(f"{self.peer}: left out {count}: {why}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------------------- problems


def unless(value, default):
    """An attribute is written where it is not the default."""
    return None if tuple(value) == tuple(default) else tuple(value)


def pick_space(rng, r):
    most = {1: 18, 2: 7, 3: 5}[r]
    return tuple(rng.randint(1, most) for _ in range(r))


def windows(size, kernel, stride, dilation, begin, end, rounding="floor"):
    """The number of windows on an axis, None where there is none."""
    reach = (kernel - 1) * dilation + 1
    room = size + begin + end - reach
    if room < 0:
        return None
    if rounding == "floor":
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + begin else count


def same_pads(size, kernel, stride, dilation, upper):
    count = -(-size // stride)
    total = max(0, (count - 1) * stride + (kernel - 1) * dilation + 1 - size)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def has_empty_window(space, kernel, strides, dilations, begin, counts):
    """Whether some window has no tap inside. What the peers do then, up to writing out of bounds, is left out."""
    return any(
        not any(0 <= o * strides[a] - begin[a] + k * dilations[a] < space[a] for k in range(kernel[a]))
        for a in range(len(space))
        for o in range(counts[a])
    )


def divides_exactly(space, kernel, strides, dilations, begin, end, counts, exclude, override):
    """Whether every divisor is a power of two: results are then exact, and compared so."""

    def power(n):
        return n > 0 and n & (n - 1) == 0

    if override is not None:
        return power(abs(override))
    for i, count in enumerate(counts):
        for o in range(count):
            taps = [o * strides[i] - begin[i] + k * dilations[i] for k in range(kernel[i])]
            inside = sum(0 <= p < space[i] for p in taps) if exclude else sum(p < space[i] + end[i] for p in taps)
            if not power(inside):
                return False
    return True


def pick_convolution(rng, symmetric=False):
    """A random convolution problem; sizes of the large side."""
    while True:
        r = rng.choice((1, 2, 2, 3))
        p = dict(rank=r, n=rng.choice((1, 1, 2, 3)), groups=rng.choice((1, 1, 1, 2, 3)), auto="none")
        p["ic"], p["oc"] = rng.randint(1, 4), rng.randint(1, 4)  # in a group
        shape = rng.random()
        if shape < 0.12:  # depthwise, over more lanes than a vector has
            p.update(groups=rng.choice((4, 9, 17)), ic=1, oc=rng.choice((1, 1, 2)))
        elif shape < 0.25:  # many channels
            p.update(groups=1, ic=rng.choice((8, 17, 33)), oc=rng.choice((3, 8, 19)))
        p["space"] = pick_space(rng, r)
        p["kernel"] = tuple(rng.randint(1, 3 if r == 3 else 4) for _ in range(r))
        dense = rng.random() < 0.5
        p["strides"] = tuple(rng.randint(1, 3) for _ in range(r))
        p["dilations"] = tuple(1 if dense else rng.randint(1, 3) for _ in range(r))
        p["begin"] = tuple(rng.randint(0, 2) for _ in range(r))
        p["end"] = p["begin"] if symmetric or rng.random() < 0.4 else tuple(rng.randint(0, 2) for _ in range(r))
        p["counts"] = tuple(
            windows(p["space"][i], p["kernel"][i], p["strides"][i], p["dilations"][i], p["begin"][i], p["end"][i])
            for i in range(r)
        )
        if None in p["counts"]:
            continue
        weights = p["groups"] * p["ic"] * p["oc"] * int(np.prod(p["kernel"]))
        inputs = p["n"] * p["groups"] * p["ic"] * int(np.prod(p["space"]))
        outputs = p["n"] * p["groups"] * p["oc"] * int(np.prod(p["counts"]))
        if sum(s <= 150 for s in (weights, inputs, outputs)) < 2 or max(weights, inputs, outputs) > 4000:
            continue
        return p


def convolution_fields(p, data, filters, seed, kind, transposed=False):
    r = p["rank"]
    if transposed:  # p["space"] is the small side, p["counts"] the large one
        weights = filter_shape(filters, p["oc"], p["groups"] * p["ic"], p["kernel"])
    else:
        weights = filter_shape(filters, p["groups"] * p["oc"], p["ic"], p["kernel"])
    auto = p["auto"]
    ones, zeros = (1,) * r, (0,) * r
    return {
        "data": data,
        "filter": filters,
        "src": activation_shape(data, p["n"], p["groups"] * p["ic"], p["space"]),
        "weights": weights,
        "dst": activation_shape(data, p["n"], p["groups"] * p["oc"], p["counts"]),
        "strides": unless(p["strides"], ones),
        "dilations": unless(p["dilations"], ones),
        "begin": unless(p["begin"], zeros) if auto == "none" else None,
        "end": unless(p["end"], zeros) if auto == "none" else None,
        "auto": None if auto == "none" else auto,
        "outpad": p.get("outpad"),
        "groups": None if p["groups"] == 1 else p["groups"],
        "seed": seed,
        "values": kind,
    }


def without(fields, *names):
    return {k: v for k, v in fields.items() if k not in names}


def pick_transposed(rng):
    """A random transposed problem with symmetric pads: space is the small side, counts the large one."""
    while True:
        p = pick_convolution(rng, symmetric=True)
        r = p["rank"]
        p["space"] = tuple(min(s, {1: 9, 2: 4, 3: 3}[r]) for s in p["space"])
        outpad = tuple(rng.randrange(max(p["strides"][i], p["dilations"][i])) for i in range(r))
        p["outpad"] = outpad if any(outpad) or rng.random() < 0.5 else None
        large = []
        for i in range(r):
            reach = (p["kernel"][i] - 1) * p["dilations"][i] + 1
            large.append((p["space"][i] - 1) * p["strides"][i] + reach - p["begin"][i] - p["end"][i] + outpad[i])
        if min(large) < 1:  # all of it cut off by the pads
            continue
        p["counts"] = tuple(large)
        return p


# -------------------------------------------------------------------------------------------------------------- PyTorch


def torch_cases():
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    out = Writer("torch", [("torch", torch.__version__)])
    rng = random.Random(20261)
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    seeds = itertools.count(1)

    def tensor(a, dtype, grad=True):
        t = torch.from_numpy(np.array(a, dtype=F32, order="C")).to(types[dtype])
        return t.requires_grad_() if grad else t

    def array(t):
        return t.detach().to(torch.float32).numpy()

    def rounded_once(op, dtype, value, reference):
        """Whether a 16-bit result is the f32 one rounded: the peer did not add in 16 bits."""
        if dtype == "f32":
            return True
        if torch.equal(value.float(), reference.to(types[dtype]).float()):
            return True
        out.skip(f"{op} {dtype}: the peer does not add in f32")
        return False

    def gradients(forward, arrays, gradient, dtype):
        inputs = [tensor(a, dtype) for a in arrays]
        y = forward(*inputs)
        return y, torch.autograd.grad(y, inputs, tensor(gradient, dtype, False))

    def family(p, transposed, dtype, kind, forward):
        data, filters = rng.choice(("ncx", "nxc")), rng.choice(("oix", "xio"))
        seed = next(seeds)
        fields = convolution_fields(p, data, filters, seed, kind, transposed)
        name = "conv_transpose" if transposed else "convolution"
        x = activation_from(data, generate(fields["src"], seed, SOURCE, kind))
        w = filter_from(filters, generate(fields["weights"], seed, WEIGHTS, kind))
        if transposed:
            w = swapped(w)
        b = generate((fields["dst"][1 if data == "ncx" else -1],), seed, BIAS, kind)
        dy = activation_from(data, generate(fields["dst"], seed, GRADIENT, kind))
        try:
            y, (dx, dw, db) = gradients(forward, (x, w, b), dy, dtype)
        except RuntimeError as e:
            out.skip(f"{name} {dtype}: {str(e).splitlines()[0][:80]}")
            return
        assert tuple(y.shape) == dy.shape, (y.shape, fields)
        y32, (dx32, dw32, db32) = gradients(forward, (x, w, b), dy, "f32")
        if rounded_once(name, dtype, y, y32):
            out.emit(name, dtype, {**fields, "bias": True}, activation_to(data, array(y)))
        if rounded_once(name + "_backward_data", dtype, dx, dx32):
            out.emit(name + "_backward_data", dtype, fields, activation_to(data, array(dx)))
        if rounded_once(name + "_backward_weights", dtype, dw, dw32):
            dw = array(dw)
            out.emit(name + "_backward_weights", dtype, fields, filter_to(filters, swapped(dw) if transposed else dw))
        if seed % 2 == 0 and rounded_once("bias_backward", dtype, db, db32):
            out.emit("bias_backward", dtype, {k: fields[k] for k in ("data", "dst", "seed", "values")}, array(db))

    def pads_of(p):  # innermost axis first
        return [v for i in reversed(range(p["rank"])) for v in (p["begin"][i], p["end"][i])]

    for i in range(50):
        p = pick_convolution(rng)
        if i % 8 == 7:  # the peer's own words
            p["auto"] = rng.choice(("same_upper", "valid"))
            if p["auto"] == "same_upper":
                p["strides"] = (1,) * p["rank"]
                p["counts"] = p["space"]
            else:
                p["counts"] = tuple(
                    windows(p["space"][a], p["kernel"][a], p["strides"][a], p["dilations"][a], 0, 0)
                    for a in range(p["rank"])
                )
                if None in p["counts"]:
                    continue
        convolve = (F.conv1d, F.conv2d, F.conv3d)[p["rank"] - 1]

        def forward(x, w, b, p=p, convolve=convolve):
            rest = dict(stride=p["strides"], dilation=p["dilations"], groups=p["groups"])
            if p["auto"] != "none":
                return convolve(x, w, b, padding="same" if p["auto"] == "same_upper" else "valid", **rest)
            if p["begin"] == p["end"]:
                return convolve(x, w, b, padding=p["begin"], **rest)
            return convolve(F.pad(x, pads_of(p)), w, b, **rest)

        family(p, False, ("f32", "f32", "f32", "bf16", "f16")[i % 5], ("integers", "eighths")[i % 4 == 0], forward)

    for i in range(46):
        p = pick_transposed(rng)
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[p["rank"] - 1]

        def forward(x, w, b, p=p, convolve=convolve):
            return convolve(
                x, w, b, p["strides"], p["begin"], p["outpad"] or (0,) * p["rank"], p["groups"], p["dilations"]
            )

        family(p, True, ("f32", "f32", "f32", "bf16", "f16")[i % 5], ("integers", "eighths")[i % 4 == 0], forward)

    def pick_pool(most_dilation):
        while True:
            r = rng.choice((1, 2, 2, 3))
            kernel = tuple(rng.choice((1, 2, 2, 3, 4)) for _ in range(r))
            p = dict(
                rank=r,
                kernel=kernel,
                strides=tuple(rng.randint(1, 4) for _ in range(r)),
                dilations=tuple(rng.randint(1, most_dilation) for _ in range(r)),
                begin=tuple(rng.randint(0, k // 2) for k in kernel),
                space=pick_space(rng, r),
                n=rng.choice((1, 1, 2)),
                c=rng.choice((1, 2, 3, 5, 9, 17)),
                ceil=rng.random() < 0.5,
            )
            p["counts"] = tuple(
                windows(
                    p["space"][i], kernel[i], p["strides"][i], p["dilations"][i], p["begin"][i], p["begin"][i],
                    "ceil_torch" if p["ceil"] else "floor",
                )
                for i in range(r)
            )  # fmt: skip
            if None in p["counts"] or 0 in p["counts"]:
                continue
            if p["n"] * p["c"] * int(np.prod(p["space"])) <= 170:
                return p

    def pool_fields(p, data, seed, kind):
        ones, zeros = (1,) * p["rank"], (0,) * p["rank"]
        return {
            "data": data,
            "src": activation_shape(data, p["n"], p["c"], p["space"]),
            "dst": activation_shape(data, p["n"], p["c"], p["counts"]),
            "kernel": p["kernel"],
            "strides": unless(p["strides"], ones),
            "dilations": unless(p["dilations"], ones),
            "begin": unless(p["begin"], zeros),
            "end": unless(p["begin"], zeros),
            "rounding": "ceil_torch" if p["ceil"] else None,
            "seed": seed,
            "values": kind,
        }

    for i in range(72):
        p = pick_pool(1)
        data, seed = rng.choice(("ncx", "nxc")), next(seeds)
        kind = ("integers", "eighths")[i % 3 == 0]
        fields = pool_fields(p, data, seed, kind)
        exclude = rng.random() < 0.5
        override = rng.choice((1, 2, 4, 8, 3, -4, 5)) if p["rank"] > 1 and rng.random() < 0.35 else None
        exact = divides_exactly(
            p["space"],
            p["kernel"],
            p["strides"],
            p["dilations"],
            p["begin"],
            p["begin"],
            p["counts"],
            exclude,
            override,
        )
        fields.update(exclude=exclude, divisor=override, near=not exact)
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[p["rank"] - 1]

        def forward(x, p=p, pool=pool, exclude=exclude, override=override):
            rest = {} if override is None else dict(divisor_override=override)
            return pool(x, p["kernel"], p["strides"], p["begin"], p["ceil"], not exclude, **rest)

        x = activation_from(data, generate(fields["src"], seed, SOURCE, kind))
        dy = activation_from(data, generate(fields["dst"], seed, GRADIENT, kind))
        try:
            y, (dx,) = gradients(forward, (x,), dy, "f32")
        except RuntimeError as e:
            out.skip(f"avg_pool: {str(e).partition(' (')[0]}")
            continue
        assert tuple(y.shape) == dy.shape
        dtype = ("f32", "f32", "bf16", "f16")[i % 4]
        if dtype != "f32":
            y32, y = y, None
            try:
                y = forward(tensor(x, dtype, False))
            except RuntimeError as e:  # NotImplementedError is one
                out.skip(f"avg_pool {dtype}: {e}")
            if y is not None and not rounded_once("avg_pool", dtype, y, y32):
                y = None
        if y is not None:
            out.emit("avg_pool", dtype, fields, activation_to(data, array(y)))
        out.emit("avg_pool_backward", "f32", fields, activation_to(data, array(dx)))

    for i in range(52):
        p = pick_pool(2)
        data, seed = rng.choice(("ncx", "nxc")), next(seeds)
        kind = ("integers", "eighths", "integers", "special", "integers", "eighths", "special", "infinite")[i % 8]
        if has_empty_window(p["space"], p["kernel"], p["strides"], p["dilations"], p["begin"], p["counts"]):
            out.skip("max_pool: a window without inside taps")
            continue
        fields = pool_fields(p, data, seed, kind)
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[p["rank"] - 1]

        def forward(x, p=p, pool=pool):
            return pool(x, p["kernel"], p["strides"], p["begin"], p["dilations"], p["ceil"], return_indices=True)

        x = activation_from(data, generate(fields["src"], seed, SOURCE, kind))
        dy = activation_from(data, generate(fields["dst"], seed, GRADIENT, kind))
        dtype = ("f32", "f32", "bf16", "f16", "f32")[i % 5]
        try:
            y, indices = forward(tensor(x, dtype, False))
        except RuntimeError as e:
            out.skip(f"max_pool: {str(e).partition(' (')[0]}")
            continue
        assert tuple(y.shape) == dy.shape
        out.emit(
            "max_pool", dtype, {**fields, "base": "plane"}, activation_to(data, array(y)),
            activation_to(data, indices.numpy()), 90,
        )  # fmt: skip
        _, (dx,) = gradients(lambda x: forward(x)[0], (x,), dy, "f32")
        out.emit("max_pool_backward", "f32", fields, activation_to(data, array(dx)))
    return out


# ----------------------------------------------------------------------------------------------------------- TensorFlow


def tensorflow_cases():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # its own kernels, whatever the processor
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    out = Writer("tensorflow", [("tensorflow", tf.__version__)])
    rng = random.Random(20262)
    seeds = itertools.count(1001)

    def failed(name, e):
        out.skip(f"{name}: {str(e).splitlines()[0].rpartition('}} ')[2][:100]}")

    def gradients(forward, arrays, gradient):
        inputs = [tf.constant(np.ascontiguousarray(a)) for a in arrays]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = forward(*inputs)
        return y.numpy(), [g.numpy() for g in tape.gradient(y, inputs, tf.constant(np.ascontiguousarray(gradient)))]

    def sized(p, auto):
        """Sets auto_pad and the sizes that follow; False where nothing fits."""
        p["auto"] = auto
        r = range(p["rank"])
        if auto == "same_upper":
            p["counts"] = tuple(-(-p["space"][i] // p["strides"][i]) for i in r)
        elif auto == "valid":
            p["counts"] = tuple(
                windows(p["space"][i], p["kernel"][i], p["strides"][i], p["dilations"][i], 0, 0) for i in r
            )
        return None not in p["counts"]

    def is_shifted(p):
        """In three dimensions the peer pads windows shorter than the stride by a negative number."""
        return p["rank"] == 3 and p["auto"] == "same_upper" and any(
            (p["counts"][a] - 1) * p["strides"][a] + (p["kernel"][a] - 1) * p["dilations"][a] + 1 < p["space"][a]
            for a in range(3)
        )  # fmt: skip

    for i in range(30):
        p = pick_convolution(rng)
        r = p["rank"]
        explicit = r == 2 and i % 3 == 0
        if not explicit and not sized(p, rng.choice(("same_upper", "valid"))):
            continue
        if any(d > 1 for d in p["dilations"]) and any(s > 1 for s in p["strides"]):
            p["strides"] = (1,) * r  # the peer's gradients take one of the two
            if explicit:
                p["counts"] = tuple(
                    windows(p["space"][a], p["kernel"][a], 1, p["dilations"][a], p["begin"][a], p["end"][a])
                    for a in range(r)
                )
            else:
                sized(p, p["auto"])
        if is_shifted(p):
            out.skip("convolution: 3-D, same_upper, stride longer than the window")
            continue
        seed, kind = next(seeds), ("integers", "eighths")[i % 4 == 0]
        fields = convolution_fields(p, "nxc", "xio", seed, kind)
        x = generate(fields["src"], seed, SOURCE, kind)
        w = generate(fields["weights"], seed, WEIGHTS, kind)
        b = generate((fields["dst"][-1],), seed, BIAS, kind)
        dy = generate(fields["dst"], seed, GRADIENT, kind)
        padding = {"none": [[0, 0], *zip(p["begin"], p["end"]), [0, 0]], "same_upper": "SAME", "valid": "VALID"}[
            p["auto"]
        ]

        def forward(x, w, b, p=p, r=r, padding=padding):
            if r == 1:
                y = tf.nn.conv1d(x, w, p["strides"][0], padding, dilations=p["dilations"][0])
            elif r == 2:
                y = tf.nn.conv2d(x, w, p["strides"], padding, dilations=p["dilations"])
            else:
                y = tf.nn.conv3d(x, w, [1, *p["strides"], 1], padding, dilations=[1, *p["dilations"], 1])
            return tf.nn.bias_add(y, b)

        try:
            y = forward(*(tf.constant(a) for a in (x, w, b))).numpy()
        except Exception as e:  # noqa: BLE001 - what the peer has no kernel for
            failed("convolution", e)
            continue
        try:
            y, (dx, dw, db) = gradients(forward, (x, w, b), dy)
        except Exception as e:  # noqa: BLE001
            failed("gradients of convolution", e)
            out.emit("convolution", "f32", {**fields, "bias": True}, y)
            continue
        assert y.shape == dy.shape, (y.shape, fields)
        out.emit("convolution", "f32", {**fields, "bias": True}, y)
        out.emit("convolution_backward_data", "f32", fields, dx)
        out.emit("convolution_backward_weights", "f32", fields, dw)
        if i % 2 == 0:
            out.emit("bias_backward", "f32", {k: fields[k] for k in ("data", "dst", "seed", "values")}, db)

    for i in range(6):  # the peer's depthwise convolution has kernels of its own
        stride = rng.randint(1, 2)
        p = dict(rank=2, n=rng.randint(1, 2), groups=rng.choice((2, 5, 9)), ic=1, oc=rng.randint(1, 2))
        p.update(space=(rng.randint(3, 5), rng.randint(3, 5)), kernel=(rng.randint(1, 3), rng.randint(1, 3)))
        p.update(strides=(stride, stride), dilations=(1, 1), begin=(0, 0), end=(0, 0))
        sized(p, rng.choice(("same_upper", "valid")))
        seed, kind = next(seeds), "integers"
        fields = convolution_fields(p, "nxc", "xio", seed, kind)
        x = generate(fields["src"], seed, SOURCE, kind)
        w = generate(fields["weights"], seed, WEIGHTS, kind)
        dy = generate(fields["dst"], seed, GRADIENT, kind)
        shape = (*p["kernel"], p["groups"], p["oc"])

        def forward(x, w, p=p, shape=shape):
            padding = "SAME" if p["auto"] == "same_upper" else "VALID"
            return tf.nn.depthwise_conv2d(x, tf.reshape(w, shape), [1, *p["strides"], 1], padding)

        y, (dx, dw) = gradients(forward, (x, w), dy)
        assert y.shape == dy.shape
        out.emit("convolution", "f32", fields, y)
        out.emit("convolution_backward_data", "f32", fields, dx)
        out.emit("convolution_backward_weights", "f32", fields, dw)

    for i in range(34):
        p = pick_convolution(rng)
        r = p["rank"]
        p.update(groups=1, dilations=(1,) * r, ic=min(p["ic"], 5), oc=min(p["oc"], 5))
        p["auto"] = rng.choice(("same_upper", "valid"))
        p["space"] = tuple(min(s, {1: 8, 2: 4, 3: 3}[r]) for s in p["space"])
        surplus = [rng.randrange(s) for s in p["strides"]]
        if p["auto"] == "valid":
            p["counts"] = tuple((p["space"][a] - 1) * p["strides"][a] + p["kernel"][a] + surplus[a] for a in range(r))
        else:
            p["counts"] = tuple(p["space"][a] * p["strides"][a] - surplus[a] for a in range(r))
        if is_shifted({**p, "space": p["counts"], "counts": p["space"]}):
            out.skip("conv_transpose: 3-D, same_upper, stride longer than the window")
            continue
        seed, kind = next(seeds), ("integers", "eighths")[i % 4 == 0]
        fields = {**convolution_fields(p, "nxc", "xio", seed, kind, True), "sized": True}
        x = generate(fields["src"], seed, SOURCE, kind)
        w = generate(fields["weights"], seed, WEIGHTS, kind)
        dy = generate(fields["dst"], seed, GRADIENT, kind)

        def forward(x, w, p=p, r=r, shape=fields["dst"]):
            function = (tf.nn.conv1d_transpose, tf.nn.conv2d_transpose, tf.nn.conv3d_transpose)[r - 1]
            strides = p["strides"][0] if r == 1 else list(p["strides"])
            padding = "SAME" if p["auto"] == "same_upper" else "VALID"
            return function(x, tf.linalg.matrix_transpose(w), shape, strides, padding)

        try:
            y, (dx, dw) = gradients(forward, (x, w), dy)
        except Exception as e:  # noqa: BLE001
            failed("conv_transpose", e)
            continue
        assert y.shape == dy.shape
        out.emit("conv_transpose", "f32", fields, y)
        out.emit("conv_transpose_backward_data", "f32", fields, dx)
        out.emit("conv_transpose_backward_weights", "f32", fields, dw)

    for i in range(76):
        r = rng.choice((1, 2, 2, 3))
        p = dict(
            rank=r, n=rng.choice((1, 1, 2)), c=rng.choice((1, 2, 3, 9)), space=pick_space(rng, r), begin=(0,) * r
        )
        p.update(
            kernel=tuple(rng.randint(1, 4) for _ in range(r)), strides=tuple(rng.randint(1, 4) for _ in range(r))
        )
        p.update(dilations=(1,) * r, end=(0,) * r)
        maximum = i % 2 == 1
        explicit = maximum and r == 2 and i % 4 == 1
        if explicit:
            p["auto"] = "none"
            p["begin"] = tuple(rng.randrange(k) for k in p["kernel"])
            p["end"] = tuple(rng.randrange(k) for k in p["kernel"])
            p["counts"] = tuple(
                windows(p["space"][a], p["kernel"][a], p["strides"][a], 1, p["begin"][a], p["end"][a])
                for a in range(r)
            )
            fits = None not in p["counts"]
        else:
            fits = sized(p, rng.choice(("same_upper", "same_upper", "valid")))
        if not fits or p["n"] * p["c"] * int(np.prod(p["space"])) > 170:
            continue
        if has_empty_window(p["space"], p["kernel"], p["strides"], p["dilations"], p["begin"], p["counts"]):
            out.skip("pool: a window without inside taps")
            continue
        if is_shifted(p):
            out.skip("pool: 3-D, same_upper, stride longer than the window")
            continue
        seed, kind = next(seeds), ("integers", "eighths")[i % 6 == 0]
        if maximum and r == 3:
            kind = "distinct"  # the peer gives the gradient to every one of equal maxima
        fields = {
            "data": "nxc",
            "src": activation_shape("nxc", p["n"], p["c"], p["space"]),
            "dst": activation_shape("nxc", p["n"], p["c"], p["counts"]),
            "kernel": p["kernel"],
            "strides": unless(p["strides"], (1,) * r),
            "begin": unless(p["begin"], (0,) * r),
            "end": unless(p["end"], (0,) * r),
            "auto": None if explicit else p["auto"],
            "seed": seed,
            "values": kind,
        }
        x = generate(fields["src"], seed, SOURCE, kind)
        dy = generate(fields["dst"], seed, GRADIENT, kind)
        padding = {"none": [[0, 0], *zip(p["begin"], p["end"]), [0, 0]], "same_upper": "SAME", "valid": "VALID"}[
            p["auto"]
        ]
        functions = (
            (tf.nn.max_pool1d, tf.nn.max_pool2d, tf.nn.max_pool3d)
            if maximum
            else (tf.nn.avg_pool1d, tf.nn.avg_pool2d, tf.nn.avg_pool3d)
        )

        def forward(x, p=p, r=r, padding=padding, function=functions[r - 1]):
            return function(x, list(p["kernel"]), list(p["strides"]), padding)

        try:
            y, (dx,) = gradients(forward, (x,), dy)
        except Exception as e:  # noqa: BLE001
            failed("max_pool" if maximum else "avg_pool", e)
            continue
        assert y.shape == dy.shape
        if maximum:
            out.emit("max_pool", "f32", fields, y)
            out.emit("max_pool_backward", "f32", fields, dx)
        else:
            begin, end = zip(
                *(
                    (
                        same_pads(p["space"][a], p["kernel"][a], p["strides"][a], 1, True)
                        if p["auto"] == "same_upper"
                        else (0, 0)
                    )
                    for a in range(r)
                )
            )
            exact = divides_exactly(
                p["space"], p["kernel"], p["strides"], p["dilations"], begin, end, p["counts"], True, None
            )
            fields.update(exclude=True, near=not exact)
            out.emit("avg_pool", "f32", fields, y)
            out.emit("avg_pool_backward", "f32", fields, dx)

    for i in range(28):  # indices, of two dimensions only
        p = dict(n=rng.choice((1, 2, 3)), c=rng.choice((1, 2, 3, 9)), space=(rng.randint(2, 6), rng.randint(2, 6)))
        p.update(
            rank=2, kernel=(rng.randint(1, 3), rng.randint(1, 3)), strides=(rng.randint(1, 3), rng.randint(1, 3))
        )
        p.update(dilations=(1, 1))
        if not sized(p, rng.choice(("same_upper", "valid"))):
            continue
        seed, kind, whole = next(seeds), ("integers", "integers", "infinite")[i % 3], i % 2 == 1
        fields = {
            "data": "nxc",
            "src": activation_shape("nxc", p["n"], p["c"], p["space"]),
            "dst": activation_shape("nxc", p["n"], p["c"], p["counts"]),
            "kernel": p["kernel"],
            "strides": unless(p["strides"], (1, 1)),
            "auto": p["auto"],
            "base": "tensor" if whole else "image",
            "seed": seed,
            "values": kind,
        }
        y, indices = tf.nn.max_pool_with_argmax(
            generate(fields["src"], seed, SOURCE, kind), p["kernel"], p["strides"],
            "SAME" if p["auto"] == "same_upper" else "VALID", include_batch_in_index=whole,
        )  # fmt: skip
        out.emit("max_pool", "f32", fields, y.numpy(), indices.numpy(), 90)
    return out


# --------------------------------------------------------------------------------------------------------- ONNX Runtime


def onnx_runner(opset, ir_version):
    """A function that runs a graph of one node: (operator, inputs, types and shapes of the outputs, attributes)."""
    import onnxruntime
    from onnx import TensorProto, helper

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}

    def run(op, arrays, outputs, attributes, domain=""):
        names = [f"i{k}" for k in range(len(arrays))]
        results = [f"o{k}" for k in range(len(outputs))]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        graph = helper.make_graph(
            [helper.make_node(op, names, results, domain=domain, **attributes)],
            "golden",
            [helper.make_tensor_value_info(n, types[a.dtype], a.shape) for n, a in zip(names, arrays)],
            [helper.make_tensor_value_info(n, types[np.dtype(t)], shape) for n, (t, shape) in zip(results, outputs)],
        )
        versions = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        model = helper.make_model(graph, opset_imports=versions, ir_version=ir_version)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {n: np.ascontiguousarray(a) for n, a in zip(names, arrays)})

    return run


def onnxruntime_cases():
    import onnx
    import onnxruntime

    out = Writer("onnxruntime", [("onnxruntime", onnxruntime.__version__), ("onnx", onnx.__version__)])
    rng = random.Random(20263)
    seeds = itertools.count(2001)
    run = onnx_runner(22, 10)
    value, index = (np.float32, None), (np.int64, None)

    def attempt(name, *arguments):
        try:
            return run(*arguments)
        except Exception as e:  # noqa: BLE001 - what the peer refuses
            out.skip(f"{name}: {str(e).splitlines()[0][-110:]}")
            return None

    words = {"none": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}

    def pads_of(p):
        return [*p["begin"], *p["end"]] if p["auto"] == "none" else None

    for i in range(60):
        p = pick_convolution(rng)
        r = range(p["rank"])
        p["auto"] = ("none", "none", "same_upper", "same_lower", "valid")[i % 5]
        if p["auto"].startswith("same"):
            p["dilations"] = (1,) * p["rank"]  # the peer refuses both
            p["kernel"] = tuple(max(p["kernel"][a], p["strides"][a]) for a in r)
            p["counts"] = tuple(-(-p["space"][a] // p["strides"][a]) for a in r)
        elif p["auto"] == "valid":
            p["counts"] = tuple(
                windows(p["space"][a], p["kernel"][a], p["strides"][a], p["dilations"][a], 0, 0) for a in r
            )
            if None in p["counts"]:
                continue
        seed, kind = next(seeds), ("integers", "eighths")[i % 4 == 0]
        fields = convolution_fields(p, "ncx", "oix", seed, kind)
        arrays = [
            generate(fields["src"], seed, SOURCE, kind),
            generate(fields["weights"], seed, WEIGHTS, kind),
            generate((fields["dst"][1],), seed, BIAS, kind),
        ]
        attributes = dict(strides=p["strides"], dilations=p["dilations"], group=p["groups"], pads=pads_of(p))
        result = attempt("convolution", "Conv", arrays, [value], {**attributes, "auto_pad": words[p["auto"]]})
        if result is None:
            continue
        assert result[0].shape == fields["dst"], (result[0].shape, fields)
        out.emit("convolution", "f32", {**fields, "bias": True}, result[0])

    for i in range(60):
        p = pick_transposed(rng)
        r = range(p["rank"])
        p["auto"] = ("none", "none", "none", "same_upper", "same_lower", "valid")[i % 6]
        attributes = {}
        if p["auto"].startswith("same"):
            p["kernel"] = tuple(max(p["kernel"][a], p["strides"][a]) for a in r)
            p["dilations"], p["outpad"] = (1,) * p["rank"], None
            p["counts"] = tuple(p["space"][a] * p["strides"][a] for a in r)
            if i % 4 < 2:  # the size asked for: one that has this number of windows
                p["counts"] = tuple(p["counts"][a] - rng.randrange(p["strides"][a]) for a in r)
                attributes["output_shape"] = list(p["counts"])
        elif p["auto"] == "none" and i % 3 == 0:
            begin = p["begin"]
            p["begin"], p["end"] = p["end"], tuple(rng.randint(0, 1) for _ in r)
            p["counts"] = tuple(p["counts"][a] + begin[a] - p["end"][a] for a in r)
        elif p["auto"] == "valid":
            p["counts"] = tuple(p["counts"][a] + p["begin"][a] + p["end"][a] for a in r)
        if min(p["counts"]) < 1:
            continue
        seed, kind = next(seeds), ("integers", "eighths")[i % 4 == 0]
        fields = convolution_fields(p, "ncx", "oix", seed, kind, True)
        fields["sized"] = "output_shape" in attributes
        arrays = [
            generate(fields["src"], seed, SOURCE, kind),
            swapped(generate(fields["weights"], seed, WEIGHTS, kind)),
            generate((fields["dst"][1],), seed, BIAS, kind),
        ]
        attributes.update(strides=p["strides"], dilations=p["dilations"], group=p["groups"], pads=pads_of(p))
        attributes.update(auto_pad=words[p["auto"]], output_padding=p["outpad"])
        result = attempt("conv_transpose", "ConvTranspose", arrays, [value], attributes)
        if result is None:
            continue
        assert result[0].shape == fields["dst"], (result[0].shape, fields, attributes)
        out.emit("conv_transpose", "f32", {**fields, "bias": True}, result[0])

    for i in range(134):
        rank = rng.choice((1, 2, 2, 3))
        r = range(rank)
        maximum = i % 2 == 1
        kernel = tuple(rng.randint(1, 4) for _ in r)
        p = dict(rank=rank, n=rng.choice((1, 1, 2)), c=rng.choice((1, 2, 3, 9)), space=pick_space(rng, rank))
        p["auto"] = ("none", "none", "none", "same_upper", "same_lower", "valid")[i // 2 % 6]
        p["strides"] = tuple(rng.randint(1, 4) for _ in r)
        p["dilations"] = tuple(rng.randint(1, 2) for _ in r)
        ceil = rng.random() < 0.5
        if p["auto"].startswith("same"):  # the peer ignores the dilation, and shifts windows shorter than the stride
            p["dilations"], ceil = (1,) * rank, False
            kernel = tuple(max(kernel[a], p["strides"][a]) for a in r)
            p["begin"], p["end"] = zip(
                *(same_pads(p["space"][a], kernel[a], p["strides"][a], 1, p["auto"] == "same_upper") for a in r)
            )
            counts = tuple(-(-p["space"][a] // p["strides"][a]) for a in r)
        else:
            p["begin"] = tuple(0 if p["auto"] == "valid" else rng.randrange(k) for k in kernel)
            p["end"] = tuple(0 if p["auto"] == "valid" else rng.randrange(k) for k in kernel)
            ceil = ceil and p["auto"] == "none"
            counts = tuple(
                windows(
                    p["space"][a], kernel[a], p["strides"][a], p["dilations"][a], p["begin"][a], p["end"][a],
                    "ceil_torch" if ceil else "floor",
                )
                for a in r
            )  # fmt: skip
        if None in counts or 0 in counts or p["n"] * p["c"] * int(np.prod(counts)) > 120:
            continue
        if has_empty_window(p["space"], kernel, p["strides"], p["dilations"], p["begin"], counts):
            out.skip("pool: a window without inside taps")
            continue
        seed, kind = next(seeds), ("integers", "eighths")[i % 6 == 0]
        if maximum and i % 14 == 1:
            kind = "infinite"
        explicit = p["auto"] == "none"
        fields = {
            "data": "ncx",
            "src": activation_shape("ncx", p["n"], p["c"], p["space"]),
            "dst": activation_shape("ncx", p["n"], p["c"], counts),
            "kernel": kernel,
            "strides": unless(p["strides"], (1,) * rank),
            "dilations": unless(p["dilations"], (1,) * rank),
            "begin": unless(p["begin"], (0,) * rank) if explicit else None,
            "end": unless(p["end"], (0,) * rank) if explicit else None,
            "auto": None if explicit else p["auto"],
            "rounding": "ceil_torch" if ceil else None,
            "seed": seed,
            "values": kind,
        }
        attributes = dict(kernel_shape=kernel, strides=p["strides"], dilations=p["dilations"], ceil_mode=int(ceil))
        attributes.update(pads=pads_of(p), auto_pad=words[p["auto"]])
        x = generate(fields["src"], seed, SOURCE, kind)
        if maximum:
            column = rng.random() < 0.4
            result = attempt("max_pool", "MaxPool", [x], [value, index], {**attributes, "storage_order": int(column)})
            if result is None:
                continue
            assert result[0].shape == fields["dst"], (result[0].shape, fields)
            fields.update(base="tensor", order="column_major" if column else None)
            out.emit("max_pool", "f32", fields, result[0], result[1], 90)
        else:
            exclude = rng.random() < 0.5
            result = attempt(
                "avg_pool", "AveragePool", [x], [value], {**attributes, "count_include_pad": int(not exclude)}
            )
            if result is None:
                continue
            assert result[0].shape == fields["dst"], (result[0].shape, fields)
            exact = divides_exactly(
                p["space"], kernel, p["strides"], p["dilations"], p["begin"], p["end"], counts, exclude, None
            )
            fields.update(exclude=exclude, near=not exact)
            out.emit("avg_pool", "f32", fields, result[0])
    return out


def onnxruntime_training_cases():
    """Gradients: those of convolutions of all ranks, of max pools, and of average pools in one and two dimensions."""
    import onnx
    import onnxruntime

    out = Writer(
        "onnxruntime_training", [("onnxruntime-training", onnxruntime.__version__), ("onnx", onnx.__version__)]
    )
    rng = random.Random(20264)
    seeds = itertools.count(3001)
    run = onnx_runner(17, 9)

    for i in range(22):
        p = pick_convolution(rng)
        seed, kind = next(seeds), ("integers", "eighths")[i % 4 == 0]
        fields = convolution_fields(p, "ncx", "oix", seed, kind)
        x = generate(fields["src"], seed, SOURCE, kind)
        w = generate(fields["weights"], seed, WEIGHTS, kind)
        dy = generate(fields["dst"], seed, GRADIENT, kind)
        attributes = dict(strides=p["strides"], dilations=p["dilations"], group=p["groups"], kernel_shape=p["kernel"])
        attributes["pads"] = [*p["begin"], *p["end"]]
        outputs = [(F32, x.shape), (F32, w.shape), (F32, (dy.shape[1],))]
        dx, dw, db = run("ConvGrad", [dy, x, w], outputs, attributes, "com.microsoft")
        out.emit("convolution_backward_data", "f32", fields, dx)
        out.emit("convolution_backward_weights", "f32", fields, dw)
        if i % 2 == 0:
            out.emit("bias_backward", "f32", {k: fields[k] for k in ("data", "dst", "seed", "values")}, db)

    for i in range(52):
        maximum = i % 2 == 1
        rank = rng.choice((1, 2, 2, 3) if maximum else (1, 2))  # the peer's three-dimensional average is wrong
        r = range(rank)
        kernel = tuple(rng.randint(1, 4) for _ in r)
        space, n, c = pick_space(rng, rank), rng.choice((1, 1, 2)), rng.choice((1, 2, 3, 9))
        strides = tuple(rng.randint(1, 4) for _ in r)
        dilations = tuple(rng.randint(1, 2) if maximum else 1 for _ in r)
        begin, end = tuple(rng.randrange(k) for k in kernel), tuple(rng.randrange(k) for k in kernel)
        counts = tuple(windows(space[a], kernel[a], strides[a], dilations[a], begin[a], end[a]) for a in r)
        if None in counts or n * c * int(np.prod(space)) > 150:
            continue
        if has_empty_window(space, kernel, strides, dilations, begin, counts):
            out.skip("pool: a window without inside taps")
            continue
        seed, kind = next(seeds), ("integers", "eighths")[i % 6 == 0]
        fields = {
            "data": "ncx",
            "src": (n, c, *space),
            "dst": (n, c, *counts),
            "kernel": kernel,
            "strides": unless(strides, (1,) * rank),
            "dilations": unless(dilations, (1,) * rank),
            "begin": unless(begin, (0,) * rank),
            "end": unless(end, (0,) * rank),
            "seed": seed,
            "values": kind,
        }
        attributes = dict(kernel_shape=kernel, strides=strides, pads=[*begin, *end])
        dy = generate(fields["dst"], seed, GRADIENT, kind)
        if maximum:
            x = generate(fields["src"], seed, SOURCE, kind)
            _, indices = run("MaxPool", [x], [(F32, None), (np.int64, None)], {**attributes, "dilations": dilations})
            (dx,) = run("MaxPoolGrad", [dy, indices], [(F32, x.shape)], attributes)
            out.emit("max_pool_backward", "f32", fields, dx)
        else:
            exclude = rng.random() < 0.5
            attributes["count_include_pad"] = int(not exclude)
            (dx,) = run("AveragePoolGrad", [dy], [(F32, fields["src"])], attributes)
            exact = divides_exactly(space, kernel, strides, dilations, begin, end, counts, exclude, None)
            fields.update(exclude=exclude, near=not exact)
            out.emit("avg_pool_backward", "f32", fields, dx)
    return out


if __name__ == "__main__":
    peers = {
        "torch": torch_cases,
        "tensorflow": tensorflow_cases,
        "onnxruntime": onnxruntime_cases,
        "onnxruntime_training": onnxruntime_training_cases,
    }
    if len(sys.argv) != 2 or sys.argv[1] not in peers:
        sys.exit(__doc__)
    peers[sys.argv[1]]().write(sys.stdout)
