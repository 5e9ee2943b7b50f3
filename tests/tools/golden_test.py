#!/usr/bin/env python3
"""Tests of the program gradkern-golden, by its command line alone.

    golden_test.py PROGRAM LIST [unittest's arguments]

LIST is the frozen list of the gradient conformance suite. Needs Python's standard library only: .npy files are written and
read here, by the description of the format.
"""

import ast
import fractions
import hashlib
import itertools
import json
import math
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, LIST = "", ""
LETTERS = {"<f4": "f", "<f2": "e", "<u2": "H", "<f8": "d", "<i8": "q", "<i4": "i"}
PATTERNS = {"uniform", "positive", "integers", "cancelling", "near_ties", "subnormal", "non_finite", "large", "one_hot"}


def header_of(text, version=1):
    """The bytes before the data: `text` is padded as NumPy does."""
    start = 10 if version == 1 else 12
    text = text + " " * (-(start + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text.encode()


def npy(descr, shape, numbers, version=1, fortran=False):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, tuple(shape))
    return header_of(text, version) + struct.pack("<%d%s" % (len(numbers), LETTERS[descr]), *numbers)


def load(path):
    """Type, shape and numbers of a file."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    about = ast.literal_eval(data[10:10 + length].decode())
    assert about["fortran_order"] is False
    letter = LETTERS[about["descr"]]
    return about["descr"], about["shape"], list(struct.unpack("<%d%s" % (len(data[10 + length:]) // struct.calcsize(letter),
                                                                      letter), data[10 + length:]))


def bf16(number):
    """The bits of a number that bf16 holds."""
    return struct.unpack("<I", struct.pack("<f", number))[0] >> 16


def from_bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Case(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.dir = pathlib.Path(self.place.name)

    def call(self, *arguments, code=0):
        """Runs the program, whose exit code must be `code`; what it printed."""
        done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.dir, capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("\r", done.stderr, "there is no progress bar where there is no terminal")
        return done.stdout + done.stderr

    def write(self, name, content):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def problem(self, operator, type="f32", name="p", **members):
        self.write(name + ".json", {"operator": operator, "type": type, **members})

    def computed(self, tensor, what="results", name="p"):
        return load(self.dir / what / ("%s.%s.npy" % (name, tensor)))


class Run(Case):
    def run_all(self, name="p"):
        return self.call("run", name + ".json", "--results", "results", "--exact", "exact", "--bounds", "bounds")

    def test_a_data_gradient_has_the_values_of_the_readme(self):
        self.problem("convolution_backward_data", attributes={"strides": [1, 1], "dilations": [1, 1]})
        self.write("p.diff_dst.npy", npy("<f4", [1, 2, 2, 1], [1] * 4))
        self.write("p.weights.npy", npy("<f4", [3, 3, 1, 1], range(1, 10)))
        self.run_all()
        expected = [1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9]
        self.assertEqual(self.computed("diff_src"), ("<f4", (1, 4, 4, 1), expected))
        self.assertEqual(self.computed("diff_src", "exact"), ("<f8", (1, 4, 4, 1), expected))
        descr, _, limits = self.computed("diff_src", "bounds")
        self.assertEqual(descr, "<f8")
        for value, limit in zip(expected, limits):  # up to four positive terms: at most 4 roundings of 2^-24
            self.assertGreater(limit, value * 2.0 ** -24)
            self.assertLess(limit, value * 4.1 * 2.0 ** -24)

    def test_average_gradients_round_once_to_f16(self):
        self.problem("avg_pool_backward", "f16", shapes={"diff_dst": [1, 4, 1], "diff_src": [1, 6, 1]},
                     attributes={"kernel": [3], "strides": [1]})
        self.write("p.diff_dst.npy", npy("<f2", [1, 4, 1], [1] * 4))
        self.run_all()
        third, two_thirds = 0.333251953125, 0.66650390625
        self.assertEqual(self.computed("diff_src"), ("<f2", (1, 6, 1), [third, two_thirds, 1, 1, two_thirds, third]))
        exact = self.computed("diff_src", "exact")[2]
        self.assertAlmostEqual(exact[0], 1 / 3, delta=1e-15)

    def test_bf16_is_bit_patterns(self):
        self.problem("bias_backward", "bf16", attributes={"data_format": "ncx"})
        self.write("p.diff_dst.npy", npy("<u2", [1, 2, 3], [bf16(v) for v in (1, 2, 0.5, -1, 8, 0)]))
        self.run_all()
        self.assertEqual(self.computed("diff_bias"), ("<u2", (2,), [bf16(3.5), bf16(7)]))
        self.assertEqual(self.computed("diff_bias", "exact")[2], [3.5, 7])

    def test_gradients_of_16_bits_may_be_f32(self):
        self.problem("convolution_backward_weights", "bf16", types={"diff_weights": "f32", "diff_bias": "f32"},
                     shapes={"src": [1, 3, 1], "diff_dst": [1, 3, 1], "diff_weights": [1, 1, 1], "diff_bias": [1]},
                     attributes={"strides": [1], "dilations": [1]})
        self.write("p.src.npy", npy("<u2", [1, 3, 1], [bf16(v) for v in (1, 256, 1)]))
        self.write("p.diff_dst.npy", npy("<u2", [1, 3, 1], [bf16(v) for v in (1, 1, 2)]))
        self.run_all()
        self.assertEqual(self.computed("diff_weights"), ("<f4", (1, 1, 1), [259]))  # no number of bf16
        self.assertEqual(self.computed("diff_bias"), ("<f4", (1,), [4]))

    def test_convolutions_of_16_bits_may_have_f32_weights_and_results(self):
        shape = {"attributes": {"strides": [1], "dilations": [1]}}
        self.write("p.src.npy", npy("<u2", [1, 1, 2], [bf16(256), bf16(1)]))
        self.write("p.weights.npy", npy("<u2", [1, 2, 1], [bf16(1), bf16(1)]))
        self.problem("convolution", "bf16", types={"dst": "f32"}, **shape)
        self.run_all()
        self.assertEqual(self.computed("dst"), ("<f4", (1, 1, 1), [257]))  # no number of bf16
        self.write("p.weights.npy", npy("<f4", [1, 2, 1], [1 + 2.0 ** -20, 2.0 ** -12]))
        self.problem("convolution", "bf16", types={"weights": "f32", "dst": "f32"}, **shape)
        self.run_all()
        self.assertEqual(self.computed("dst"), ("<f4", (1, 1, 1), [256 + 2.0 ** -11]))
        self.problem("convolution", "bf16", types={"weights": "f32"}, **shape)
        said = self.call("run", "p.json", "--results", "results", code=3)
        self.assertIn("convolution: dst: got bf16, expected f32, the type of weights", said)

    def test_maxima_have_indices_where_they_are_asked_for(self):
        self.problem("max_pool", outputs=["indices"], attributes={"kernel": [2], "strides": [2], "data_format": "ncx"})
        self.write("p.src.npy", npy("<f4", [1, 1, 4], [1, 3, 2, 2]))
        self.run_all()
        self.assertEqual(self.computed("dst"), ("<f4", (1, 1, 2), [3, 2]))
        self.assertEqual(self.computed("indices"), ("<i8", (1, 1, 2), [1, 2]))
        self.assertEqual(self.computed("dst", "bounds")[2], [0, 0])

    def test_nan_and_inf_follow_the_equations(self):
        self.problem("convolution_backward_data", attributes={"strides": [1], "dilations": [1]})
        self.write("p.diff_dst.npy", npy("<f4", [1, 2, 1], [0, 1]))
        self.write("p.weights.npy", npy("<f4", [2, 1, 1], [0, math.inf]))
        self.run_all()
        for what in ("results", "exact"):
            zero, nan, infinity = self.computed("diff_src", what)[2]
            self.assertEqual((zero, infinity), (0, math.inf))
            self.assertTrue(math.isnan(nan))

    def test_other_forms_of_the_file_are_read(self):
        numbers = [1, 2, 3, 4, 5, 6]  # (1, 3, 2)
        by_columns = [1, 3, 5, 2, 4, 6]
        for number, content in enumerate([npy("<f4", [1, 3, 2], numbers), npy("<f4", [1, 3, 2], numbers, version=2),
                                          npy("<f4", [1, 3, 2], numbers, version=3),
                                          npy("<f4", [1, 3, 2], by_columns, fortran=True)]):
            name = "form%d" % number
            self.problem("bias_backward", name=name)
            self.write(name + ".diff_dst.npy", content)
            self.run_all(name)
            self.assertEqual(self.computed("diff_bias", name=name)[2], [9, 12])

    def test_headers_are_read_as_what_python_takes_them_for(self):
        data = npy("<f4", [1, 3, 2], [1, 2, 3, 4, 5, 6])[-24:]
        self.problem("bias_backward")
        for text in ["{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 2,)}",
                     "{'shape': (1, 3, 2), 'fortran_order': False, 'descr': '<f4'}",
                     "{'fortran_order': False, 'shape': (1, 3, 2), 'descr': '<f4', }",
                     '{"descr": "<f4", "fortran_order": False, "shape": (1, 3, 2), }',
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 3L, 2L), }",
                     " {'descr':'<f4','fortran_order':False,'shape':( 1 ,3,\n2 , ) , } "]:
            with self.subTest(text):
                if "L" not in text.replace("False", ""):
                    self.assertEqual(ast.literal_eval(text.strip())["shape"], (1, 3, 2))
                self.write("p.diff_dst.npy", header_of(text) + data)
                self.run_all()
                self.assertEqual(self.computed("diff_bias")[2], [9, 12])

    def test_headers_of_other_things_are_quoted(self):
        head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 2), }"
        self.problem("bias_backward")
        for old, new in [("(1, 3, 2)", "(6)"), ("(1, 3, 2)", "[1, 3, 2]"), ("(1, 3, 2)", "(1, 3 2)"), ("(1, 3, 2)", "(1, 3, 2"),
                         ("(1, 3, 2)", "(,)"), ("(1, 3, 2)", "(1,, 3, 2)"), ("'<f4'", "[('a', '<f4')]"), ("'<f4'", "''"),
                         ("'<f4'", "'f4\""), ("False", "0"), (", 'shape': (1, 3, 2)", ""), (", }", ", 'more': 1}"),
                         ("}", "'descr': '<f4'}"), ("}", "} 1"), ("}", ""), ("{", "")]:
            text = head.replace(old, new)
            with self.subTest(text):
                self.write("p.diff_dst.npy", header_of(text) + bytes(24))
                said = self.call("run", "p.json", "--results", "results", code=3)
                self.assertIn("p.diff_dst.npy: has a header that is no plain array's: " + text.strip(), said)
        self.write("p.diff_dst.npy", header_of("\x1b[2J" * 100) + bytes(24))
        said = self.call("run", "p.json", "--results", "results", code=3)
        self.assertNotIn("\x1b", said)
        self.assertLess(len(said), 400)

    def test_indices_may_have_32_bits(self):
        """As inputs, and as results that verify judges."""
        self.problem("max_pool_backward_from_indices", shapes={"diff_src": [1, 4, 1]}, attributes={})
        self.write("p.diff_dst.npy", npy("<f4", [1, 2, 1], [5, 7]))
        self.write("p.indices.npy", npy("<i4", [1, 2, 1], [3, -1]))
        self.run_all()
        self.assertEqual(self.computed("diff_src")[2], [0, 0, 0, 5])
        self.problem("max_pool", outputs=["indices"], attributes={"kernel": [2], "strides": [2]})
        self.write("p.src.npy", npy("<f4", [1, 4, 1], [1, 3, 2, 2]))
        self.run_all()
        shape, indices = self.computed("indices")[1:]
        for type, values, code in [("<i8", indices, 0), ("<i4", indices, 0), ("<i4", [1, 3], 1), ("<f4", indices, 1)]:
            with self.subTest(type, values=values):
                self.write("results/p.indices.npy", npy(type, shape, values))
                said = self.call("verify", "p.json", "results", "--exact", "exact", "--bounds", "bounds", code=code)
                if code != 0:
                    self.assertIn("expected i8 or i4 for i64" if type == "<f4" else "indices[0, 1, 0]: got 3, exact 2", said)

    def test_a_weight_gradient_is_that_of_rational_numbers(self):
        self.problem("convolution_backward_weights", attributes={"strides": [2], "dilations": [1], "pads_begin": [1],
                                                                 "pads_end": [0]},
                     shapes={"src": [2, 7, 2], "diff_dst": [2, 3, 3], "diff_weights": [3, 2, 3]})
        def numbers(count, step):
            return [struct.unpack("<f", struct.pack("<f", (i * step % 97 - 48) / 7))[0] for i in range(count)]
        x, y = numbers(28, 37), numbers(18, 53)
        self.write("p.src.npy", npy("<f4", [2, 7, 2], x))
        self.write("p.diff_dst.npy", npy("<f4", [2, 3, 3], y))
        self.run_all()
        result, exact, limit = (self.computed("diff_weights", what)[2] for what in ("results", "exact", "bounds"))
        for at, (k, i, o) in enumerate(itertools.product(range(3), range(2), range(3))):
            terms = [fractions.Fraction(x[n * 14 + (2 * p - 1 + k) * 2 + i]) * fractions.Fraction(y[n * 9 + p * 3 + o])
                     for n in range(2) for p in range(3) if 0 <= 2 * p - 1 + k < 7]
            size = float(sum(map(abs, terms)))
            self.assertAlmostEqual(exact[at], float(sum(terms)), delta=1e-14 * size)
            self.assertLessEqual(abs(fractions.Fraction(result[at]) - sum(terms)), limit[at])
            self.assertLess(limit[at], 8 * 2.0 ** -24 * size)

    def compare(self, tensor, sums, type="f32", most=8):
        """Results and exact values are these sums of fractions; bounds are those of short sums."""
        unit = 2.0 ** -24 if type == "f32" else 2.0 ** -8
        descr, shape, result = self.computed(tensor)
        self.assertEqual(descr, "<f4" if type == "f32" else "<u2")
        if type == "bf16":
            result = [from_bf16(v) for v in result]
        exact, limit = self.computed(tensor, "exact"), self.computed(tensor, "bounds")
        self.assertEqual(exact[:2] + limit[:2], ("<f8", shape, "<f8", shape))
        self.assertEqual(len(sums), len(result))
        for at, terms in enumerate(sums):
            self.assertEqual(exact[2][at], float(sum(terms)), (tensor, at))
            self.assertLessEqual(abs(fractions.Fraction(result[at]) - sum(terms)), limit[2][at])
            self.assertLess(limit[2][at], most * unit * float(sum(map(abs, terms))))
        return shape

    def numbers(self, tensor, shape, type="f32", step=37):
        """Writes a tensor of numbers that every type holds, and returns them."""
        values = [fractions.Fraction(i * step % 97 - 48, 32) for i in range(math.prod(shape))]
        self.write("p." + tensor + ".npy", npy("<f4", shape, [float(v) for v in values]) if type == "f32" else
                   npy("<u2", shape, [bf16(v) for v in values]))
        return values

    def test_a_data_gradient_accumulates(self):
        for type in ("f32", "bf16"):
            with self.subTest(type):
                self.problem("convolution_backward_data", type, options={"output": "accumulate"},
                             attributes={"strides": [2], "dilations": [1]})
                y = self.numbers("diff_dst", [2, 3, 2], type)
                w = self.numbers("weights", [3, 2, 2], type, 53)
                before = self.numbers("previous_diff_src", [2, 7, 2], type, 71)
                self.run_all()
                self.assertEqual(self.compare("diff_src", [
                    [before[n * 14 + i * 2 + c]] + [y[n * 6 + p * 2 + o] * w[(i - 2 * p) * 4 + c * 2 + o]
                                                    for p in range(3) for o in range(2) if 0 <= i - 2 * p < 3]
                    for n, i, c in itertools.product(range(2), range(7), range(2))], type), (2, 7, 2))

    def weight_gradients(self, images, type):
        """The terms of each element of diff_weights [3, 2, 3] and diff_bias [3] over these images; previous values are not
        among them."""
        x = self.numbers("src", [3, 7, 2], type)
        y = self.numbers("diff_dst", [3, 3, 3], type, 53)
        weights = [[x[n * 14 + (2 * p + k) * 2 + i] * y[n * 9 + p * 3 + o] for n in images for p in range(3)]
                   for k, i, o in itertools.product(range(3), range(2), range(3))]
        return weights, [[y[n * 9 + p * 3 + o] for n in images for p in range(3)] for o in range(3)]

    LAYER = {"attributes": {"strides": [2], "dilations": [1]}, "outputs": ["diff_bias"]}

    def test_gradients_of_weights_and_bias_accumulate(self):
        for type, summation in itertools.product(("f32", "bf16"), ("joint", "image_by_image")):
            with self.subTest(type + ", " + summation):
                self.problem("convolution_backward_weights", type, **self.LAYER,
                             options={"output": "accumulate", "summation": summation})
                weights, bias = self.weight_gradients(range(3), type)
                w = self.numbers("previous_diff_weights", [3, 2, 3], type, 71)
                b = self.numbers("previous_diff_bias", [3], type, 83)
                self.run_all()
                self.assertEqual(self.compare("diff_weights", [[v] + t for v, t in zip(w, weights)], type, 16), (3, 2, 3))
                self.assertEqual(self.compare("diff_bias", [[v] + t for v, t in zip(b, bias)], type, 16), (3,))

    def test_images_have_gradients_of_their_own(self):
        for type, output in itertools.product(("f32", "bf16"), ("overwrite", "accumulate")):
            with self.subTest(type + ", " + output):
                self.problem("convolution_backward_weights", type, **self.LAYER, shapes={
                    "src": [3, 7, 2], "diff_dst": [3, 3, 3], "diff_weights": [3, 3, 2, 3]},
                             options={"output": output, "summation": "per_image"})
                each = [self.weight_gradients([n], type) for n in range(3)]
                weights = [terms for one in each for terms in one[0]]
                bias = [terms for one in each for terms in one[1]]
                if output == "accumulate":
                    w = self.numbers("previous_diff_weights", [3, 3, 2, 3], type, 71)
                    b = self.numbers("previous_diff_bias", [3, 3], type, 83)
                    weights, bias = ([[v] + t for v, t in zip(*pair)] for pair in ((w, weights), (b, bias)))
                self.run_all()
                self.assertEqual(self.compare("diff_weights", weights, type), (3, 3, 2, 3))
                self.assertEqual(self.compare("diff_bias", bias, type), (3, 3))

    def test_images_of_three_dimensions_have_gradients_of_six_axes(self):
        self.problem("convolution_backward_weights", options={"summation": "per_image"},
                     shapes={"src": [2, 1, 1, 2, 1], "diff_dst": [2, 1, 1, 2, 1], "diff_weights": [2, 1, 1, 1, 1, 1]},
                     attributes={"strides": [1, 1, 1], "dilations": [1, 1, 1]})
        self.write("p.src.npy", npy("<f4", [2, 1, 1, 2, 1], [1, 2, 3, 4]))
        self.write("p.diff_dst.npy", npy("<f4", [2, 1, 1, 2, 1], [1, 10, 100, 1000]))
        self.run_all()
        for what in ("results", "exact"):
            self.assertEqual(self.computed("diff_weights", what)[1:], ((2, 1, 1, 1, 1, 1), [21, 4300]))

    def test_bias_gradients_per_image_of_an_empty_batch_are_empty(self):
        self.problem("bias_backward", options={"summation": "per_image"})
        self.write("p.diff_dst.npy", npy("<f4", [0, 3, 2], []))
        self.run_all()
        for what in ("results", "exact", "bounds"):
            self.assertEqual(self.computed("diff_bias", what)[1:], ((0, 2), []))

    def test_paths_have_the_same_bits(self):
        found = {}
        for algorithm in ("automatic", "dense", "dense_packed"):
            self.problem("convolution_backward_data", options={"algorithm": algorithm},
                         attributes={"strides": [2], "dilations": [1]})
            self.numbers("diff_dst", [2, 3, 2], "f32")
            self.numbers("weights", [3, 2, 2], "f32", 53)
            self.run_all()
            found[algorithm] = self.computed("diff_src", "results")
        self.assertEqual(found["dense"], found["automatic"])
        self.assertEqual(found["dense_packed"], found["automatic"])

    def test_relaxed_sums_have_wider_bounds(self):
        bounds = {}
        for precision in ("strict", "relaxed"):
            self.problem("convolution_backward_weights", "bf16", **self.LAYER, options={"precision": precision},
                         shapes={"src": [3, 7, 2], "diff_dst": [3, 3, 3], "diff_weights": [3, 2, 3]})
            weights, _ = self.weight_gradients(range(3), "bf16")
            self.run_all()
            self.assertEqual(self.compare("diff_weights", weights, "bf16"), (3, 2, 3))
            bounds[precision] = self.computed("diff_weights", "bounds")[2]
        self.assertTrue(all(r >= s for r, s in zip(bounds["relaxed"], bounds["strict"])))
        self.assertNotEqual(bounds["relaxed"], bounds["strict"])

    def test_mistakes_of_options_are_named(self):
        self.write("p.diff_dst.npy", npy("<f4", [2, 2, 1], [1, 2, 3, 4]))
        self.write("p.previous_diff_bias.npy", npy("<f4", [2], [1, 2]))
        pool = {"operator": "avg_pool_backward", "shapes": {"diff_src": [2, 4, 1]},
                "attributes": {"kernel": [2], "strides": [2]}}
        bias = {"operator": "bias_backward"}
        per_image = {"options": {"summation": "per_image"}}
        add = {"options": {"output": "accumulate"}}
        for problem, text in [({**bias, "options": {"output": "add"}},
                               "p.options.output: \"add\", expected overwrite or accumulate"),
                              ({**bias, "options": {"summation": 1}}, "p.options.summation: expected a text"),
                              ({**bias, "options": {"sum": "joint"}}, "p.options.sum: there is no such option"),
                              ({**bias, "options": "joint"}, "p.options: expected an object"),
                              ({**bias, "options": {"precision": "fast"}},
                               "p.options.precision: \"fast\", expected strict or relaxed"),
                              ({**bias, "options": {"algorithm": "windows"}}, "bias_backward: algorithm: "),
                              ({**bias, "options": {"algorithm": "best"}}, "p.options.algorithm: \"best\", expected automatic"),
                              ({**pool, **per_image}, "avg_pool_backward: summation: "),
                              ({**pool, **add}, "p.previous_diff_src.npy: there is no such file"),
                              ({**bias, **add}, "p: diff_bias has the shape (2), expected (1)"),
                              ({**bias, **add, "shapes": {"diff_dst": [2, 2, 1], "diff_bias": [1]}},
                               "p: previous_diff_bias has the shape (2), the problem says (1)"),
                              ({**bias, **per_image, "shapes": {"diff_dst": [2, 2, 1], "diff_bias": [3, 1]}},
                               "p: diff_bias has the shape (3, 1), expected (2, 1)"),
                              ({**bias, "types": {"previous_diff_bias": "f32"}}, "the operator has no such tensor")]:
            for what in ("results", "exact"):
                with self.subTest(text, what=what):
                    self.write("p.json", problem)
                    said = self.call("run", "p.json", "--" + what, what, code=3)
                    self.assertIn(text, said)
                    self.assertFalse((self.dir / what).exists())

    def test_a_batch_may_be_empty(self):
        self.problem("bias_backward")
        self.write("p.diff_dst.npy", npy("<f4", [0, 3, 2], []))
        self.run_all()
        self.assertEqual(self.computed("diff_bias"), ("<f4", (2,), [0, 0]))
        self.problem("avg_pool_backward", "f16", shapes={"diff_src": [0, 4, 1]}, attributes={"kernel": [2], "strides": [2]})
        self.write("p.diff_dst.npy", npy("<f2", [0, 2, 1], []))
        self.run_all()
        self.assertEqual(self.computed("diff_src"), ("<f2", (0, 4, 1), []))
        self.assertEqual(self.computed("diff_src", "bounds"), ("<f8", (0, 4, 1), []))

    def test_one_bad_problem_does_not_stop_the_others(self):
        one = {"operator": "bias_backward", "name": "one"}
        self.write("all.json", {"problems": [one, {**one, "name": "two"}, {**one, "name": "three"}]})
        for name in ("one", "three"):
            self.write(name + ".diff_dst.npy", npy("<f4", [1, 2, 1], [1, 2]))
        self.assertIn("two.diff_dst.npy: there is no such file",
                      self.call("run", "all.json", "--results", "results", code=3))
        self.assertEqual(self.computed("diff_bias", name="three")[2], [3])

    def test_mistakes_of_a_problem_are_named(self):
        self.write("p.diff_dst.npy", npy("<f4", [1, 2, 1], [1, 2]))
        good = {"operator": "avg_pool_backward", "shapes": {"diff_src": [1, 4, 1]},
                "attributes": {"kernel": [2], "strides": [2]}}
        for change, text in [({"operator": "pool"}, "there is no operator \"pool\""),
                             ({"kernel": [2]}, "p.kernel: a problem has no such member"),
                             ({"type": "f8"}, "\"f8\", expected one of f32, f16, bf16, f64"),
                             ({"types": {"dst": "f32"}}, "p.types.dst: the operator has no such tensor"),
                             ({"attributes": {"kernel": [2], "strides": [0]}}, "strides[0]: got 0, expected at least 1"),
                             ({"attributes": {"kernel": [2], "stride": [2]}}, "p.attributes.stride: the operator has no such"),
                             ({"attributes": {"kernel": 2, "strides": [2]}}, "attributes.kernel: expected a list of integers"),
                             ({"attributes": {"kernel": [2], "strides": [2], "auto_pad": "same"}}, "same_upper"),
                             ({"shapes": {"diff_src": [1, 9, 1]}}, "diff_dst"),
                             ({"shapes": {"diff_src": [1, 4, 1], "diff_dst": [1, 3, 1]}}, "has the shape (1, 2, 1)"),
                             ({"shapes": {"diff_src": [1, 2 ** 62, 2 ** 62]}}, "diff_src"),
                             ({"name": "../p"}, "cannot be a part of the names of files"),
                             ({"name": 3}, "expected a text")]:
            with self.subTest(text):
                self.write("p.json", {**good, **change})
                said = self.call("run", "p.json", "--results", "results", code=3)
                self.assertIn(text, said)
                self.assertTrue(said.startswith("error: "), said)
        self.write("p.json", b'{"operator": "avg_pool_backward",')
        self.assertIn("p.json", self.call("run", "p.json", "--results", "results", code=3))
        self.write("p.json", [good | {"name": "p"}, good | {"name": "p"}])
        self.assertIn("two problems are named p", self.call("run", "p.json", "--results", "results", code=3))

    def test_damaged_files_are_named(self):
        whole = npy("<f4", [1, 3, 2], range(6))
        start = whole[:10]
        head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 2), }"
        data = whole[-24:]
        cases = [(b"", "not an .npy file"), (b"PK\x03\x04", "not an .npy file"), (whole[:7], "is cut off in its header"),
                 (start, "is cut off in its header"), (whole[:60], "is cut off in its header"),
                 (whole[:-1], "is cut off: 23 bytes of data, expected 24 for the shape (1, 3, 2)"),
                 (whole + b"\0", "is too long: 25 bytes"), (whole[:6] + b"\x09" + whole[7:], "has version 9 of .npy"),
                 (npy("<f8", [1, 3, 2], range(6)), "has elements of type f8, expected f4 for f32"),
                 (npy("<f2", [1, 3, 2], range(6)), "has elements of type f2"),
                 (header_of(head.replace("<f4", ">f4")) + data, "is big-endian"),
                 (header_of(head.replace("<f4", "|O")) + data, "has a header that is no plain array's"),
                 (header_of(head.replace("3", "-3")) + data, "has a header that is no plain array's"),
                 (header_of(head.replace("'shape'", "'form'")) + data, "has a header that is no plain array's"),
                 (header_of("") + data, "has a header that is no plain array's"),
                 (header_of(head.replace("3", "99999999999999999999")) + data, "has a size beyond 64 bits"),
                 (header_of(head.replace("3", "4611686018427387904")) + data, "has too many axes or elements"),
                 (header_of(head.replace("3", "1, 1, 1, 1, 3")) + data, "has too many axes or elements"),
                 (header_of(head.replace("3", "1000000000000")) + data, "is cut off: 24 bytes of data"),
                 (header_of(" " * 5000) + data, "has a header that is no plain array's")]
        self.problem("bias_backward")
        for content, text in cases:
            with self.subTest(text):
                self.write("p.diff_dst.npy", content)
                said = self.call("run", "p.json", "--results", "results", code=3)
                self.assertIn("p.diff_dst.npy: " + text if "axes" not in text else text, said)
                self.assertFalse((self.dir / "results").exists())
        (self.dir / "p.diff_dst.npy").unlink()
        self.assertIn("p.diff_dst.npy: there is no such file", self.call("run", "p.json", "--results", "results", code=3))

    def test_no_changed_byte_of_a_header_does_harm(self):
        whole = npy("<f4", [1, 3, 2], range(6))
        problems = []
        for at, byte in itertools.product(range(len(whole) - 24), (0, 0x20, 0x27, 0x39, 0x7d, 0xff)):
            problems.append({"operator": "bias_backward", "name": "p%d-%d" % (at, byte)})
            self.write(problems[-1]["name"] + ".diff_dst.npy", whole[:at] + bytes([byte]) + whole[at + 1:])
        self.write("all.json", problems)
        said = self.call("run", "all.json", "--results", "results", code=3)
        named = {line.split(": ")[1] for line in said.splitlines()}
        for problem in problems:  # it is refused, or the same array all the same, with a space more or less
            path = self.dir / "results" / (problem["name"] + ".diff_bias.npy")
            if path.exists():
                self.assertEqual(load(path)[1:], ((2,), [6, 9]), problem)
            self.assertEqual(problem["name"] + ".diff_dst.npy" in named, not path.exists(), problem)

    def test_a_terminal_gets_a_progress_bar(self):
        self.problem("bias_backward")
        self.write("p.diff_dst.npy", npy("<f4", [1, 2, 1], [1, 2]))
        for quiet in (False, True):
            terminal, side = pty.openpty()
            self.addCleanup(os.close, terminal)
            subprocess.run([PROGRAM, "run", "p.json", "--results", "r"] + ["--quiet"] * quiet, cwd=self.dir, stderr=side,
                           timeout=60, check=True)
            os.write(side, b"end")
            os.close(side)
            shown = os.read(terminal, 1000)
            self.assertEqual(b"#] 1/1 p" in shown, not quiet, shown)

    def test_wrong_command_lines_have_an_exit_code_of_their_own(self):
        self.problem("bias_backward")
        for arguments in [[], ["judge"], ["run"], ["run", "p.json"], ["run", "p.json", "--result", "r"],
                          ["generate", "d", "--types", "f8"], ["generate", "d", "--count", "0"], ["generate"],
                          ["verify", "d"], ["generate", "d", "--operators", "pool"]]:
            with self.subTest(arguments):
                self.assertNotEqual(self.call(*arguments, code=2), "")
        for command in ([], ["run"], ["generate"], ["verify"]):
            self.assertIn("Usage", self.call(*command, "--help"))
        self.assertIn("gradkern-golden", self.call("--version"))


class Suite(Case):
    def make(self, *more, where="suite", operators="all", count=3):
        self.call("generate", where, "--operators", operators, "--types", "all", "--count", count, *more)
        return json.loads((self.dir / where / "suite.json").read_text())["problems"]

    def change(self, tensor, by, where="results"):
        """Rewrites a file: `by` takes and returns its numbers."""
        path = self.dir / where / (tensor + ".npy")
        descr, shape, numbers = load(path)
        path.write_bytes(npy(descr, shape, by(numbers)))

    def test_a_seed_has_the_same_problems_with_every_compiler(self):
        """The order in which a compiler evaluates arguments does not choose shapes."""
        problems = [{key: p[key] for key in p if key != "hashes"} for p in self.make(count=3)]
        text = json.dumps(problems, sort_keys=True)
        self.assertEqual(hashlib.sha256(text.encode()).hexdigest()[:16], "b1a52b97a46fc539")

    def test_own_results_of_every_operator_pass(self):
        problems = self.make(count=6)
        self.assertEqual(len(problems), 14 * 4 * 6)
        self.assertEqual(len({p["operator"] for p in problems}), 14)
        self.call("run", "suite", "--results", "results", "-j", 3)
        said = self.call("verify", "suite", "results", "--report", "report.json", "-j", 3)
        report = json.loads((self.dir / "report.json").read_text())
        unjudged = [row for row in report["problems"] if row["verdict"] == "unjudged"]
        self.assertIn("%d passed, 0 failed, 0 skipped, %d unjudged of 336" % (336 - len(unjudged), len(unjudged)), said)
        self.assertEqual((report["passed"], report["unjudged"], len(report["problems"])),
                         (336 - len(unjudged), len(unjudged), 336))
        self.assertEqual({row["pattern"] for row in unjudged}, {"large"})
        self.assertTrue(all(row["worst"] <= 1 for row in report["problems"] if row not in unjudged))
        self.assertTrue(any(row["worst"] > 0.5 for row in report["problems"] if row not in unjudged))

    def test_a_seed_says_all(self):
        hashes = lambda problems: [p["hashes"] for p in problems]
        first = self.make(where="a")
        self.assertEqual(first, self.make("-j", 4, where="b"))
        self.assertNotEqual(hashes(first), hashes(self.make("--seed", 2, where="c")))
        for path in sorted((self.dir / "a").rglob("*.npy")):
            self.assertEqual(path.read_bytes(), (self.dir / "b" / path.relative_to(self.dir / "a")).read_bytes(), path)

    def test_requests_are_met(self):
        problems = self.make("--layouts", "ncx", "--types", "f16", operators="gradients")
        self.assertEqual(len({p["operator"] for p in problems}), 9)
        self.assertTrue(all("backward" in p["operator"] for p in problems))
        self.assertEqual({p["attributes"]["data_format"] for p in problems}, {"ncx"})
        one = self.call("generate", "one", "--operators", "max_pool", "--types", "bf16", "--sizes", "large", "--count", 2)
        self.assertIn("2 problems", one)
        self.assertEqual(self.call("generate", "one", "--operators", "max_pool", "--count", 1, "--quiet"), "")

    def test_nine_problems_of_an_operator_and_a_type_have_all_patterns(self):
        found = {}
        for p in self.make("--layouts", "nxc", count=9):
            found.setdefault((p["operator"], p["type"]), []).append(p["values"]["pattern"])
        self.assertEqual(len(found), 14 * 4)
        for kind, patterns in found.items():
            self.assertEqual(set(patterns), PATTERNS, kind)
            self.assertEqual(len(patterns), 9)
        self.assertEqual(len({tuple(found["convolution", type]) for type in ("f32", "f16", "bf16", "f64")}), 4)

    def test_a_list_that_makes_nothing_is_no_suite(self):
        one = {"operator": "bias_backward", "shapes": {"diff_dst": [1, 2, 2]}, "attributes": {"data_format": "ncx"}}
        good = {**one, "name": "good", "values": {"pattern": "uniform", "seed": 3}}
        self.write("list.json", [one, one])
        said = self.call("generate", "suite", "--from", "list.json", "--list", "new.json", code=3)
        self.assertEqual(said.count("has no values"), 2)
        self.assertNotIn("problems", said)
        self.assertFalse((self.dir / "suite").exists() or (self.dir / "new.json").exists())
        self.write("list.json", [one, good])
        self.assertIn("1 of 2 problems", self.call("generate", "suite", "--from", "list.json", code=3))
        made = json.loads((self.dir / "suite/suite.json").read_text())
        self.assertEqual((made["about"]["count"], [p["name"] for p in made["problems"]]), (1, ["good"]))

    def test_a_list_makes_the_same_suite_again(self):
        self.make("--list", "list.json", where="a", operators="gradients", count=2)
        self.call("generate", "b", "--from", "list.json")
        for path in (self.dir / "a").rglob("*.npy"):
            self.assertEqual(path.read_bytes(), (self.dir / "b" / path.relative_to(self.dir / "a")).read_bytes(), path)
        text = (self.dir / "list.json").read_text()
        some = json.loads(text)["problems"][5]["hashes"]
        for which, words in (("inputs", "its inputs have another hash"), ("expected", "its expected values have another")):
            old = some[which]
            self.write("other.json", text.replace(old, old[:-1] + ("1" if old[-1] == "0" else "0")).encode())
            self.assertIn(words, self.call("generate", "c", "--from", "other.json", code=1))

    def test_faults_are_refused(self):
        """One result of each kind is changed, as a mistake in a kernel would change it."""
        self.make("--sizes", "medium", operators="convolution_backward_weights,max_pool,avg_pool_backward", count=8)
        rows = json.loads((self.dir / "suite" / "suite.json").read_text())["problems"]
        usable = lambda p: p["values"]["pattern"] == "uniform" and p["type"] == "f32" and "types" not in p
        average = next(p for p in rows if p["operator"] == "avg_pool_backward" and usable(p))["name"] + ".diff_src"
        maximum = next(p for p in rows if p["operator"] == "max_pool" and usable(p))["name"] + ".indices"
        weights = next(p for p in rows if p["operator"] == "convolution_backward_weights" and usable(p))
        weights = weights["name"] + ".diff_weights"
        limit = load(self.dir / "suite" / "bounds" / (average + ".npy"))[2]
        exact = load(self.dir / "suite" / "expected" / (average + ".npy"))[2]
        largest = max(range(len(exact)), key=lambda i: abs(exact[i]))
        beyond = lambda v, times: [exact[i] + times * limit[i] if i == largest else x for i, x in enumerate(v)]
        faults = [(average, lambda v: beyond(v, 1.5), "1 of"),
                  (average, lambda v: beyond(v, -1.5), "1 of"),
                  (average, lambda v: [math.nan if i == largest else x for i, x in enumerate(v)], "got nan"),
                  (average, lambda v: [math.inf if i == largest else x for i, x in enumerate(v)], "got inf"),
                  (average, lambda v: [-x for x in v], "out of bounds"),
                  (average, lambda v: [0] * len(v), "got 0"),
                  (weights, lambda v: v[1:] + v[:1], "out of bounds"),
                  (weights, lambda v: [2 * x for x in v], "out of bounds"),
                  (maximum, lambda v: [v[0] + 1] + v[1:], "1 of")]
        self.call("run", "suite", "--results", "results")
        self.assertIn(" 0 failed", self.call("verify", "suite", "results"))
        for tensor, fault, text in faults:
            with self.subTest(text):
                path = self.dir / "results" / (tensor + ".npy")
                good = path.read_bytes()
                self.change(tensor, fault)
                said = self.call("verify", "suite", "results", code=1)
                problem, name = tensor.rsplit(".", 1)
                self.assertIn("FAIL %s: %s[" % (problem, name), said)
                self.assertIn(text, said)
                self.assertIn(" 1 failed", said)
                path.write_bytes(good)
        # an error within the bound is none
        self.change(average, lambda v: beyond(v, 0.5))
        self.assertIn(" 0 failed", self.call("verify", "suite", "results"))

    def test_a_list_may_have_options(self):
        """Own results pass. A result that ignores the value before the call is refused."""
        problems = self.make(operators="gradients", where="a", count=4)
        sums = ("convolution_backward_weights", "conv_transpose_backward_weights", "bias_backward")
        for p in problems:
            del p["hashes"]
            p["options"] = {"output": "accumulate"}
            if p["operator"] in sums and p["name"][-1] in "13":
                p["options"]["summation"] = "per_image"
                images = p["shapes"]["diff_dst"][:1]
                p["shapes"] = {name: (images if name in ("diff_weights", "diff_bias") else []) + shape
                               for name, shape in p["shapes"].items()}
            elif p["operator"] in sums:
                p["options"]["summation"] = "image_by_image"
        self.write("list.json", {"problems": problems})
        self.call("generate", "suite", "--from", "list.json", "--list", "new.json")
        self.call("generate", "again", "--from", "new.json")
        made = json.loads((self.dir / "new.json").read_text())["problems"]
        self.assertEqual([p["options"] for p in made], [p["options"] for p in problems])
        self.call("run", "suite", "--results", "results")
        said = self.call("verify", "suite", "results")
        self.assertIn(" 0 failed, 0 skipped, 4 unjudged of %d" % len(problems), said)
        for p in made:
            outputs = [name for name in p["shapes"] if name not in ("src", "dst", "diff_dst", "weights", "indices")]
            for output in outputs:
                stem = "%s.%s.npy" % (p["name"], output)
                before = self.dir / "suite" / "inputs" / ("%s.previous_%s.npy" % (p["name"], output))
                self.assertEqual(load(before)[:2], load(self.dir / "results" / stem)[:2])
                if p["options"].get("summation") == "per_image":
                    self.assertEqual(load(before)[1][0], p["shapes"]["diff_dst"][0])
        for p in made:  # the same calls as if they overwrote
            del p["options"]["output"]
            del p["hashes"]
        (self.dir / "suite" / "overwrite.json").write_text(json.dumps(made))
        self.call("run", "suite/overwrite.json", "--inputs", "suite/inputs", "--results", "other")
        said = self.call("verify", "suite", "other", code=1)
        faults = [p["name"] for p in made if p["values"]["pattern"] in ("uniform", "positive")]
        self.assertGreater(len(faults), 20)
        for name in faults:
            self.assertIn("FAIL %s: " % name, said)

    def test_what_rounds_to_infinity_must_be_infinite(self):
        """A conversion that saturates is a fault."""
        self.call("generate", "suite", "--operators", "convolution,bias_backward", "--types", "f16", "--count", 40)
        self.call("run", "suite", "--results", "results")
        found = 0
        for path in sorted((self.dir / "suite" / "bounds").iterdir()):
            must = [i for i, v in enumerate(load(path)[2]) if v == -math.inf]
            result = self.dir / "results" / path.name
            if not must or load(result)[0] != "<f2":
                continue
            found += 1
            exact = load(self.dir / "suite" / "expected" / path.name)[2]
            self.assertTrue(all(abs(exact[i]) >= 65504 for i in must))
            self.change(path.name[:-4], lambda v: [math.copysign(65504, x) if i in must else x for i, x in enumerate(v)])
        self.assertGreater(found, 2)
        said = self.call("verify", "suite", "results", code=1)
        self.assertIn("%d failed" % found, said)
        self.assertIn("bound -inf", said)

    def test_results_that_are_missing_or_damaged_fail(self):
        name = self.make(operators="avg_pool", count=2)[0]["name"]
        self.call("run", "suite", "--results", "results")
        path = self.dir / "results" / (name + ".dst.npy")
        good = path.read_bytes()
        for content, text in [(good[:-1], "is cut off"), (b"", "not an .npy file"),
                              (npy("<f8", [1], [1]), "has elements of type f8, expected f4"),
                              (npy("<f4", [1], [1]), "has the shape (1), expected")]:
            path.write_bytes(content)
            said = self.call("verify", "suite", "results", code=1)
            self.assertIn(text, said)
            self.assertIn("7 passed, 1 failed", said)
        path.unlink()
        self.assertIn("there is no such file", self.call("verify", "suite", "results", code=1))
        said = self.call("verify", "suite", "results", "--skip-missing")
        self.assertIn("7 passed, 0 failed, 1 skipped", said)
        self.assertIn("SKIP %s: there is no file of dst" % name, said)
        self.assertIn("there is no such directory", self.call("verify", "suite", "nowhere", code=3))

    def test_damaged_suites_are_errors(self):
        name = self.make(operators="avg_pool", count=1)[0]["name"] + ".dst.npy"
        self.call("run", "suite", "--results", "results")
        for folder in ("expected", "bounds"):
            path = self.dir / "suite" / folder / name
            good = path.read_bytes()
            for content in (good[:-8], b"", npy("<f8", [1], [0])):
                path.write_bytes(content)
                self.assertIn("error: ", self.call("verify", "suite", "results", code=3))
            path.write_bytes(good)
        self.call("verify", "suite", "results")
        (self.dir / "suite" / "suite.json").write_text("[]")
        self.assertIn("suite.json: has no problems", self.call("verify", "suite", "results", code=3))


class Verify(Case):
    """Verdicts on one layer, a bias gradient of two channels, with bounds of its own."""

    def setUp(self):
        super().setUp()
        self.write("own/suite.json", [{"name": "a", "operator": "bias_backward", "shapes": {"diff_dst": [1, 2, 2]},
                                       "attributes": {"data_format": "ncx"}, "values": {"pattern": "large", "seed": 1}}])
        self.write("own/inputs/a.diff_dst.npy", npy("<f4", [1, 2, 2], [1, 2, 3, 4]))
        self.call("run", "own", "--exact", "own/expected", "--bounds", "own/bounds")
        self.call("run", "own", "--results", "own/results")
        self.assertEqual(load(self.dir / "own/results/a.diff_bias.npy")[2], [3, 7])

    def put(self, what, numbers):
        self.write("own/%s/a.diff_bias.npy" % what, npy("<f4" if what == "results" else "<f8", [2], numbers))

    def verify(self, *more, code=0):
        """What is printed, and the report."""
        said = self.call("verify", "own", "own/results", "--report", "report.json", *more, code=code)
        return said, json.loads((self.dir / "report.json").read_text(),
                                parse_constant=lambda word: self.fail(word + " is not JSON"))

    def test_own_layers_are_judged_by_own_inputs(self):
        said, report = self.verify()
        self.assertEqual(said, "1 passed, 0 failed, 0 skipped, 0 unjudged of 1\n")
        self.put("results", [3, 8])
        self.assertIn("FAIL a: diff_bias[1]: got 8, exact 7, bound ", self.verify(code=1)[0])

    def test_the_list_may_be_a_file_and_its_values_elsewhere(self):
        os.rename(self.dir / "own/suite.json", self.dir / "own/layers.json")
        self.assertIn("1 passed", self.call("verify", "own/layers.json", "own/results"))
        os.rename(self.dir / "own/expected", self.dir / "e")
        os.rename(self.dir / "own/bounds", self.dir / "b")
        self.assertIn("1 passed", self.call("verify", "own/layers.json", "own/results", "--exact", "e", "--bounds", "b"))
        self.assertIn("nowhere.json: there is no such file", self.call("verify", "nowhere.json", "own/results", code=3))

    def test_what_has_no_bound_does_not_pass(self):
        for results in ([3, 7], [0, 0], [math.nan, math.inf]):
            self.put("bounds", [math.inf, math.inf])
            self.put("results", results)
            said, report = self.verify(code=1)
            self.assertEqual(said, "UNJUDGED a: diff_bias: none of 2 elements has a bound\n"
                                   "0 passed, 0 failed, 0 skipped, 1 unjudged of 1\nerror: nothing was judged\n")
            row = report["problems"][0]
            self.assertEqual((row["verdict"], row["worst"], report["unjudged"]), ("unjudged", None, 1))
            self.assertEqual((row["outputs"][0]["without_bound"], row["outputs"][0]["got"]), (2, None))
        self.assertNotIn("UNJUDGED", self.verify("--quiet", code=1)[0])

    def test_elements_without_a_bound_are_counted(self):
        self.put("bounds", [math.inf, 0])
        self.put("results", [math.nan, 7])
        said, report = self.verify()
        out = report["problems"][0]["outputs"][0]
        self.assertEqual((out["without_bound"], out["refused"], out["index"], out["got"]), (1, 0, [1], 7))
        self.put("results", [math.nan, 8])
        self.assertIn("got 8, exact 7, bound 0; 1 of 2 elements are out of bounds, 1 have no bound", self.verify(code=1)[0])

    def test_exact_infinities_and_nan_are_judged(self):
        self.put("expected", [math.nan, math.inf])
        self.put("bounds", [0, -math.inf])
        self.put("results", [math.nan, math.inf])
        self.assertIn("1 passed", self.verify()[0])
        self.put("results", [1, math.inf])
        self.assertIn("1 failed", self.verify(code=1)[0])

    def test_bounds_that_are_none_are_errors(self):
        for bound in (math.nan, -1):
            self.put("bounds", [0, bound])
            said, report = self.verify(code=3)
            self.assertIn("a.diff_bias.npy: a bound is ", said)
            self.assertEqual(report["problems"][0]["verdict"], "error")

    def test_a_report_has_all_fields(self):
        self.put("bounds", [0.5, 0.5])
        self.put("results", [3, 9])
        row = self.verify(code=1)[1]["problems"][0]
        message = "diff_bias[1]: got 9, exact 7, bound 0.5; 1 of 2 elements are out of bounds"
        self.assertEqual(row, {
            "name": "a", "verdict": "fail", "operator": "bias_backward", "type": "f32", "shapes": {"diff_dst": [1, 2, 2]},
            "attributes": {"data_format": "ncx"}, "pattern": "large", "worst": 4, "worst_is_infinite": False,
            "messages": [message], "outputs": [{
                "name": "diff_bias", "verdict": "fail", "type": "f32", "shape": [2], "elements": 2, "without_bound": 0,
                "refused": 1, "index": [1], "got": 9, "exact": 7, "bound": 0.5, "worst": 4, "worst_is_infinite": False}]})
        self.put("results", [3, math.nan])
        row = self.verify(code=1)[1]["problems"][0]
        self.assertEqual((row["worst"], row["worst_is_infinite"], row["outputs"][0]["got"]), (None, True, "nan"))
        (self.dir / "own/results/a.diff_bias.npy").write_bytes(b"")
        row = self.verify(code=1)[1]["problems"][0]
        self.assertEqual((row["verdict"], row["worst"], row["worst_is_infinite"]), ("fail", None, False))
        self.assertEqual((row["outputs"][0]["refused"], row["outputs"][0]["elements"]), (None, 2))

    def test_what_cannot_be_judged_is_in_the_report(self):
        def directory(path):
            path.unlink()
            path.mkdir()
        for what in ("expected", "bounds", "results"):
            for fault, text in ((pathlib.Path.unlink, "there is no such file"), (directory, "is a directory, expected a file")):
                if what == "results" and fault == pathlib.Path.unlink:
                    continue  # a failure
                with self.subTest(text, what=what):
                    path = self.dir / "own" / what / "a.diff_bias.npy"
                    good = path.read_bytes()
                    fault(path)
                    said, report = self.verify(code=3)
                    self.assertIn("error: own/%s/a.diff_bias.npy: %s" % (what, text), said)
                    self.assertIn("0 passed, 0 failed, 0 skipped, 0 unjudged, 1 errors of 1", said)
                    row = report["problems"][0]
                    self.assertEqual((report["errors"], row["verdict"], row["worst"]), (1, "error", None))
                    self.assertIn(text, row["messages"][0])
                    if path.is_dir():
                        path.rmdir()
                    path.write_bytes(good)
        self.verify()

    def test_directories_are_no_files(self):
        (self.dir / "own/inputs/a.diff_dst.npy").unlink()
        (self.dir / "own/inputs/a.diff_dst.npy").mkdir()
        self.assertIn("error: own/inputs/a.diff_dst.npy: is a directory", self.call("run", "own", "--results", "r", code=3))

    def test_missing_results_are_named_and_none_is_no_success(self):
        os.rename(self.dir / "own/results/a.diff_bias.npy", self.dir / "own/results/b.diff_bias.npy")
        said, report = self.verify("--skip-missing", code=1)
        self.assertIn("warning: own/results/b.diff_bias.npy: belongs to no output of a problem\n", said)
        self.assertIn("SKIP a: there is no file of diff_bias\n", said)
        self.assertIn("0 passed, 0 failed, 1 skipped, 0 unjudged of 1\n", said)
        self.assertIn("error: nothing was judged\n", said)
        self.assertEqual(report["unknown_files"], ["b.diff_bias.npy"])
        self.assertEqual((report["problems"][0]["verdict"], report["problems"][0]["worst"]), ("skip", None))
        for number in range(20):
            self.write("own/results/%d.txt" % number, b"")
        said, report = self.verify("--skip-missing", code=1)
        self.assertEqual((said.count("warning: "), len(report["unknown_files"])), (11, 21))
        self.assertIn("warning: so do 11 others", said)

    def test_a_report_among_results_is_no_stranger(self):
        for _ in range(2):
            self.assertNotIn("warning", self.call("verify", "own", "own/results", "--report", "own/results/report.json"))

    def test_a_second_output_that_is_missing_is_named(self):
        self.write("own/suite.json", [{"name": "m", "operator": "max_pool", "outputs": ["indices"],
                                       "attributes": {"kernel": [2], "strides": [2]}}])
        self.write("own/inputs/m.src.npy", npy("<f4", [1, 4, 1], [1, 3, 2, 2]))
        self.call("run", "own", "--exact", "own/expected", "--bounds", "own/bounds", "--results", "r")
        (self.dir / "r/m.indices.npy").unlink()
        said = self.call("verify", "own", "r", "--skip-missing", "--report", "report.json")
        self.assertEqual(said, "SKIP m: there is no file of indices\n1 passed, 0 failed, 0 skipped, 0 unjudged of 1\n")
        outputs = json.loads((self.dir / "report.json").read_text())["problems"][0]["outputs"]
        self.assertEqual([o["verdict"] for o in outputs], ["pass", "skip"])

    def test_lists_without_problems_are_named(self):
        self.assertIn("suite.json: there is no problem whose name contains \"b\"",
                      self.call("verify", "own", "own/results", "--only", "b", code=3))
        self.write("own/suite.json", {"problems": []})
        for command in (["run", "own", "--results", "r"], ["verify", "own", "own/results"],
                        ["generate", "g", "--from", "own/suite.json"]):
            self.assertIn("suite.json: has no problems", self.call(*command, code=3))


class Frozen(Case):
    """The list of the conformance suite."""

    def test_it_has_every_gradient_in_every_type(self):
        problems = json.loads(pathlib.Path(LIST).read_text())["problems"]
        self.assertGreaterEqual(len(problems), 2000)
        kinds = {(p["operator"], p["type"]) for p in problems}
        self.assertEqual(len(kinds), 9 * len({p["type"] for p in problems}))
        self.assertEqual(len({p["name"] for p in problems}), len(problems))

    def test_a_sample_is_made_again_and_passes(self):
        self.call("generate", "suite", "--from", LIST, "--every", 23)
        self.call("run", "suite", "--results", "results")
        self.assertIn(" 0 failed, 0 skipped, 5 unjudged of 126", self.call("verify", "suite", "results"))


class Script(Case):
    """tools/conformance/conformance.py without other libraries."""

    def judge(self, program, code):
        script = pathlib.Path(LIST).parent / "conformance.py"
        done = subprocess.run([sys.executable, script, "--program", program, "--peers", "", "--every", "40", "--output", "page.md"],
                              cwd=self.dir, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return (self.dir / "page.md").read_text()

    def test_it_writes_the_section_of_its_cpu(self):
        self.write("page.md", b"# Page\n\n## Results\n\nText.\n\n### Another CPU\n\nkept\n")
        first = self.judge(PROGRAM, 0)
        self.assertTrue(first.startswith("# Page\n\n## Results\n\nText.\n\n### Another CPU\n\nkept\n"), first)
        self.assertIn("| all 72 | **69** / 69 |", first)
        self.assertIn("Of 3 problems no element has a bound (f32 1, bf16 1, f64 1). No cell counts them.", first)
        self.assertNotIn("Failures", first)
        self.write("page.md", first.replace("| all 72 |", "| stale |").encode())
        self.assertEqual(self.judge(PROGRAM, 0), first)

    def test_it_shows_a_failure_by_its_smallest_example(self):
        """The results of a program that writes one wrong number."""
        wrong = self.write("wrong.py", ("""#!%s
import pathlib, subprocess, sys
done = subprocess.run([%r] + sys.argv[1:])
if sys.argv[1] == "run":
    path = sorted(pathlib.Path(sys.argv[sys.argv.index("--results") + 1]).glob("avg_pool_backward.f32.*"))[0]
    path.write_bytes(path.read_bytes()[:-4] + bytes([0, 0, 0x80, 0x45]))
sys.exit(done.returncode)
""" % (sys.executable, PROGRAM)).encode())
        wrong.chmod(0o755)
        page = self.judge(wrong, 1)
        self.assertIn("| all 72 | 68 / 69 |", page)
        self.assertRegex(page, r"#### Failures of gradkern on .*\n(.*\n)*\| `avg_pool_backward` \| f32 \| .*: got 4096, exact ")


if __name__ == "__main__":
    PROGRAM, LIST = map(lambda p: str(pathlib.Path(p).resolve()), sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
