#!/usr/bin/env python3
"""Writes what the operators are in exact arithmetic, rounded once, for exact_golden_test.cpp to compare with.

    make_exact.py >exact.txt

Needs nothing but Python: numbers are fractions, and rounding is that of fractions to integers. README.md describes the file.
"""

import math
import random
import sys
from fractions import Fraction

# Bits of the exponent and of the fraction.
TYPES = {"f32": (8, 23), "f16": (5, 10), "bf16": (8, 7), "f64": (11, 52)}
KINDS = ("usual", "wide", "cancelling", "ties", "subnormal", "overflowing", "special")


class Format:
    """Patterns of a type as numbers and back."""

    def __init__(self, name):
        self.exponent_bits, self.fraction_bits = TYPES[name]
        self.width = 1 + self.exponent_bits + self.fraction_bits
        self.bias = (1 << (self.exponent_bits - 1)) - 1
        self.infinity = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        self.sign = 1 << (self.width - 1)
        self.nan = self.infinity | 1 << (self.fraction_bits - 1)
        self.least = 1 - self.bias - self.fraction_bits

    def value(self, pattern):
        """A fraction, or a float that is infinite or NaN."""
        magnitude = pattern & ~self.sign
        sign = -1 if pattern & self.sign else 1
        if magnitude > self.infinity:
            return math.nan
        if magnitude == self.infinity:
            return sign * math.inf
        exponent, fraction = magnitude >> self.fraction_bits, magnitude & ((1 << self.fraction_bits) - 1)
        if exponent:
            fraction += 1 << self.fraction_bits
        return sign * Fraction(fraction) * Fraction(2) ** (max(exponent, 1) - 1 + self.least)

    def is_negative(self, pattern):
        return bool(pattern & self.sign)

    def nearest(self, number, negative_zero=False):
        """The pattern nearest to a fraction or a non-finite float."""
        if isinstance(number, float):
            return self.nan if math.isnan(number) else self.infinity | (self.sign if number < 0 else 0)
        if number == 0:
            return self.sign if negative_zero else 0
        sign, number = (self.sign, -number) if number < 0 else (0, number)
        leading = number.numerator.bit_length() - number.denominator.bit_length()
        if Fraction(2) ** leading > number:
            leading -= 1
        unit = max(leading - self.fraction_bits, self.least)
        count = round(number / Fraction(2) ** unit)  # ties to even
        if count == 2 << self.fraction_bits:
            count, unit = count // 2, unit + 1
        if unit + self.fraction_bits > self.bias:
            return sign | self.infinity
        return sign | (unit - self.least << self.fraction_bits) + count

    def draw(self, rng, kind, earlier):
        sign = rng.getrandbits(1) * self.sign
        fraction = rng.getrandbits(self.fraction_bits)

        def around(low, high):
            return sign | min(max(rng.randint(low, high), 0), 2 * self.bias) << self.fraction_bits | fraction

        if kind == "wide":
            return around(0, 2 * self.bias)
        if kind == "cancelling":
            if earlier and rng.random() < 0.7:
                return rng.choice(earlier) ^ (rng.getrandbits(1) * self.sign)
            return around(self.bias - 3, self.bias + 3)
        if kind == "ties":
            power = rng.choice([0, 0, 1, -8, -9, -11, -12, -24, -25, -53, -54])
            if rng.random() < 0.3:
                return around(self.bias, self.bias) & ~1
            return sign | max(self.bias + power, 0) << self.fraction_bits
        if kind == "subnormal":
            return rng.choice([sign | fraction >> rng.randrange(self.fraction_bits), around(1, 3),
                               around(self.bias // 2, self.bias // 2 + 3), around(self.bias, self.bias)])
        if kind == "overflowing":
            return rng.choice([around(2 * self.bias - 2, 2 * self.bias), around(self.bias, self.bias + 1)])
        if kind == "special":
            return rng.choice([sign, sign | self.infinity, sign | self.infinity | max(fraction, 1)] + 9 * [around(self.bias - 3, self.bias + 3)])
        return around(self.bias - 5, self.bias + 2)


def kind_of(number):
    """The number, or a float that takes part in IEEE arithmetic of infinities and NaN as it does."""
    if isinstance(number, float):
        return number
    return 0.0 if number == 0 else math.copysign(1.0, number)


def times(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return kind_of(a) * kind_of(b)
    return a * b


def over(a, b):
    """b is not 0."""
    if isinstance(a, float) or isinstance(b, float):
        quotient = kind_of(a) / kind_of(b)
        return quotient if not math.isfinite(quotient) else Fraction(0)
    return a / b


def total(terms):
    terms = list(terms)
    special = [t for t in terms if isinstance(t, float) and not math.isfinite(t)]
    if special:
        return sum(special)
    return sum((t for t in terms if not isinstance(t, float)), Fraction(0))


def root(square, scale=1300):
    """Of a fraction: exact, or half way between neighbouring multiples of 2^-scale."""
    if isinstance(square, float):
        return square
    scaled = square * 4**scale
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    return Fraction(whole, 2**scale) if whole * whole == scaled else Fraction(2 * whole + 1, 2 ** (scale + 1))


class Problem:
    """One spatial axis, NCX and OIX; p(o, k) = o * stride - begin + k * dilation."""

    def __init__(self, rng, transposed, pool):
        while True:
            self.kernel, self.stride, self.dilation = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 2)
            self.begin, self.end, self.extra = rng.randint(0, 2), rng.randint(0, 2), 0
            reach = (self.kernel - 1) * self.dilation
            if transposed:
                self.extra = rng.randrange(max(self.stride, self.dilation))
                self.small = rng.randint(1, 3)
                self.large = self.stride * (self.small - 1) + reach + 1 - self.begin - self.end + self.extra
                if self.large >= 1:
                    break
            else:
                self.large = rng.randint(1, 5)
                if self.large + self.begin + self.end > reach:
                    self.small = (self.large + self.begin + self.end - reach - 1) // self.stride + 1
                    break
        self.batch = rng.choice([1, 1, 1, 2])
        self.groups = 1 if pool else rng.choice([1, 1, 2])
        self.large_channels = rng.randint(1, 2)  # in a group
        self.small_channels = self.large_channels if pool else rng.randint(1, 2)
        self.exclude = rng.random() < 0.7
        self.divisor = rng.choice([None] * 5 + [3, -6, 7 * 2**40])

    def taps(self):
        for o in range(self.small):
            for k in range(self.kernel):
                q = o * self.stride - self.begin + k * self.dilation
                if 0 <= q < self.large:
                    yield o, k, q

    def divisor_of(self, o):
        if self.divisor is not None:
            return self.divisor
        if self.exclude:
            return sum(1 for at, _, _ in self.taps() if at == o)
        return sum(1 for k in range(self.kernel) if o * self.stride - self.begin + k * self.dilation < self.large + self.end)


def compute(op, p, inputs, types, previous):
    """Patterns of the output. `inputs`: lists of patterns; `previous`: patterns that the output had, or None."""
    formats = [Format(t) for t in types]
    out = formats[-1]
    values = [[f.value(x) for x in tensor] for f, tensor in zip(formats, inputs)]
    groups_large, groups_small = p.groups * p.large_channels, p.groups * p.small_channels

    def large(n, c, q):
        return (n * groups_large + c) * p.large + q

    def small(n, c, o):
        return (n * groups_small + c) * p.small + o

    def products():
        for n in range(p.batch):
            for s in range(groups_small):
                for l in range(p.large_channels):
                    for o, k, q in p.taps():
                        channel = s // p.small_channels * p.large_channels + l
                        w = ((l * groups_small + s) if op.startswith("conv_t") else (s * p.large_channels + l)) * p.kernel + k
                        yield small(n, s, o), large(n, channel, q), w

    def pairs():
        for n in range(p.batch):
            for c in range(groups_large):
                for o, k, q in p.taps():
                    yield small(n, c, o), large(n, c, q), o

    writes_small = op in ("convolution", "conv_transpose_backward_data", "avg_pool", "lp_pool", "max_pool")
    if op.endswith("_weights"):
        count = groups_small * p.large_channels * p.kernel
    elif op == "bias_backward":
        count = groups_small
    else:
        count = p.batch * (groups_small * p.small if writes_small else groups_large * p.large)
    terms = [[] for _ in range(count)]
    negative_zero = [False] * count
    if op in ("convolution", "conv_transpose_backward_data"):
        for s, l, w in products():
            terms[s].append(times(values[0][l], values[1][w]))
    elif op in ("convolution_backward_data", "conv_transpose"):
        for s, l, w in products():
            terms[l].append(times(values[0][s], values[1][w]))
    elif op == "convolution_backward_weights":
        for s, l, w in products():
            terms[w].append(times(values[0][l], values[1][s]))
    elif op == "conv_transpose_backward_weights":
        for s, l, w in products():
            terms[w].append(times(values[0][s], values[1][l]))
    elif op == "bias_backward":
        for n in range(p.batch):
            for c in range(groups_small):
                terms[c] += [values[0][small(n, c, o)] for o in range(p.small)]
    elif op == "avg_pool":
        for s, l, o in pairs():
            terms[s].append(over(values[0][l], Fraction(p.divisor_of(o))))
            negative_zero[s] = p.divisor_of(o) < 0
    elif op == "avg_pool_backward":
        for s, l, o in pairs():
            terms[l].append(over(values[0][s], Fraction(p.divisor_of(o))))
    elif op == "lp_pool":
        squares = [[] for _ in terms]
        for s, l, _ in pairs():
            squares[s].append(times(values[0][l], values[0][l]))
        terms = [[root(total(t))] for t in squares]
    elif op == "lp_pool_backward":
        for s, l, _ in pairs():
            if values[1][s] != 0:
                terms[l].append(times(values[2][s], over(values[0][l], values[1][s])))
    elif op in ("max_pool", "max_pool_backward"):
        best = {}
        for s, l, _ in pairs():
            x = values[0][l]
            if s not in best or (isinstance(x, float) and math.isnan(x)) or x > values[0][best[s]]:
                best[s] = l
        if op == "max_pool":
            for s in range(count):
                terms[s].append(values[0][best[s]] if s in best else -math.inf)
                negative_zero[s] = s in best and formats[0].is_negative(inputs[0][best[s]])
        else:
            for s, l in best.items():
                terms[l].append(values[1][s])
    results = []
    for i, t in enumerate(terms):
        if previous is not None:
            t = t + [out.value(previous[i])]
            negative_zero[i] = negative_zero[i] and out.is_negative(previous[i]) and total(t) == 0 and t[-1] == 0
        elif total(t) != 0:
            negative_zero[i] = False
        results.append(out.nearest(total(t), negative_zero[i]))
    return results


CONVOLUTIONS = ("convolution", "convolution_backward_data", "convolution_backward_weights", "conv_transpose",
                "conv_transpose_backward_data", "conv_transpose_backward_weights")
POOLS = ("avg_pool", "avg_pool_backward", "lp_pool", "lp_pool_backward", "max_pool", "max_pool_backward", "bias_backward")
MIXED = (("f16", "f32", "f32"), ("bf16", "bf16", "f32"), ("f32", "f32", "f64"), ("f64", "f32", "f16"))


def main():
    rng = random.Random(20261126)
    print("# Operators in exact arithmetic, rounded once; written by make_exact.py, described in README.md.")
    lines = []
    for op in CONVOLUTIONS + POOLS:
        choices = [(t, t, t) for t in TYPES] + (list(MIXED) if op in CONVOLUTIONS else [])
        for types in choices:
            for kind in rng.sample(KINDS, 3 if types in MIXED else 5):
                p = Problem(rng, op.startswith("conv_t"), op in POOLS)
                large = p.batch * p.groups * p.large_channels * p.large
                small = p.batch * p.groups * p.small_channels * p.small
                weights = p.groups * p.small_channels * p.large_channels * p.kernel
                sizes = {"convolution": (large, weights, small), "convolution_backward_data": (small, weights, large),
                         "convolution_backward_weights": (large, small, weights), "conv_transpose": (small, weights, large),
                         "conv_transpose_backward_data": (large, weights, small),
                         "conv_transpose_backward_weights": (small, large, weights), "avg_pool": (large, small),
                         "avg_pool_backward": (small, large), "lp_pool": (large, small),
                         "lp_pool_backward": (large, small, small, large), "max_pool": (large, small),
                         "max_pool_backward": (large, small, large),
                         "bias_backward": (small, p.groups * p.small_channels)}[op]
                used = types if op in CONVOLUTIONS else types[:1] * len(sizes)
                tensors = []
                for size, name in zip(sizes, used):
                    f, tensor = Format(name), []
                    for _ in range(size):
                        tensor.append(f.draw(rng, kind, tensor))
                    tensors.append(tensor)
                accumulate = rng.random() < 0.3
                expected = compute(op, p, tensors[:-1], used, tensors[-1] if accumulate else None)
                fields = [f"{name}={getattr(p, name)}" for name in
                          ("batch", "groups", "large_channels", "small_channels", "large", "small", "kernel", "stride", "dilation",
                           "begin", "end", "extra")]
                fields += ["exclude"] * p.exclude + [f"divisor={p.divisor}"] * (p.divisor is not None)
                given = tensors if accumulate else tensors[:-1]
                parts = [",".join(f"{x:x}" for x in t) for t in given + [expected]]
                lines.append(f"{op} {'/'.join(used)} {kind} {' '.join(fields)}{' accumulate' if accumulate else ''} : {' : '.join(parts)}")
    print(f"cases {len(lines)}")
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
