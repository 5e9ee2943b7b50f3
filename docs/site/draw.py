#!/usr/bin/env python3
"""Draws the pictures of docs/: windows, padding, divisors, maxima, and the order of elements in memory.

    draw.py [--check] [--program PROGRAM]

Writes docs/images/*.svg from docs/images/windows.json, the numbers that operators gave to tests/docs/windows.cpp. With
--check it writes nothing and fails where a file would change. PROGRAM is that test, compiled: its numbers replace those
of windows.json, and with --check have to be the same.
"""

import argparse
import html
import json
import pathlib
import subprocess
import sys

IMAGES = pathlib.Path(__file__).resolve().parents[1] / "images"
CELL, LEFT, EDGE, LINE = 34, 74, 14, 20
TEXT, FAINT, TENSOR, TAP, SKIPPED, CHOSEN = "#24303f", "#6b7785", "#e3e9f0", "#9cc5f2", "#ffffff", "#ffc46b"
CHANNELS = ("#9cc5f2", "#ffc46b")


class Picture:
    """An SVG picture that grows downwards. It has a white ground, so that it can be read on dark pages, too."""

    def __init__(self, title):
        self.parts, self.y, self.width, self.title = [], EDGE, 0, title

    def rectangle(self, x, y, fill, dashed=False):
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        line = FAINT if dashed else "#4d5b6b"
        self.parts.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="3" fill="{fill}" stroke="{line}"{dash}/>')
        self.width = max(self.width, x + CELL)

    def text(self, x, y, words, anchor="start", colour=TEXT, size=14, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>{html.escape(str(words))}</text>'
        )
        if anchor == "start":
            self.width = max(self.width, x + 0.56 * size * len(str(words)) * (1.12 if bold else 1))

    def cell(self, x, y, words, fill, dashed=False, colour=TEXT):
        self.rectangle(x, y, fill, dashed)
        self.text(x + CELL / 2, y + CELL / 2 + 5, words, "middle", colour)

    def heading(self, words):
        self.text(EDGE, self.y + 14, words, bold=True)
        self.y += LINE + 6

    def line(self, words):
        self.text(EDGE, self.y + 13, words, colour=FAINT, size=13)
        self.y += LINE

    def svg(self):
        width, height = round(self.width + EDGE), round(self.y + EDGE)
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="DejaVu Sans, Helvetica, Arial, sans-serif" role="img">'
        ground = f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{html.escape(self.title)}</title>", ground, *self.parts, "</svg>", ""])


def axis(picture, facts, title, kernel, stride=1, dilation=1, begin=0, end=0, large="src", small="dst", right=None):
    """One axis: the large side, and below it a row for each window."""
    first = -begin
    last = max([facts["large"] + end] + [o * stride - begin + (kernel - 1) * dilation + 1 for o in range(facts["small"])])
    at = {p: EDGE + LEFT + (p - first) * CELL for p in range(first, last)}
    picture.heading(title)
    picture.text(EDGE, picture.y + CELL / 2 + 5, large)
    for p, x in at.items():
        inside, padding = 0 <= p < facts["large"], p < facts["large"] + end
        if inside or padding:
            picture.cell(x, picture.y, p if inside else "pad", TENSOR if inside else SKIPPED, not inside, TEXT if inside else FAINT)
    picture.y += CELL + 8
    for o, found in enumerate(facts["windows"]):
        touched = {p: k for k, p in found}
        # The formula of the documents has to agree with what the operator did.
        formula = {o * stride - begin + k * dilation: k for k in range(kernel)}
        assert touched == {p: k for p, k in formula.items() if 0 <= p < facts["large"]}, (title, o)
        picture.text(EDGE, picture.y + CELL / 2 + 5, f"{small}[{o}]")
        for p, k in formula.items():
            picture.cell(at[p], picture.y, k, TAP if p in touched else SKIPPED, p not in touched, TEXT if p in touched else FAINT)
        if right:
            picture.text(EDGE + LEFT + (last - first) * CELL + 12, picture.y + CELL / 2 + 5, right(o, len(found)))
        picture.y += CELL + 4
    picture.y += 14


def window(facts):
    picture = Picture("A window of three taps at each position of an axis of six elements, with one element of padding at both ends")
    axis(picture, facts["window"], "kernel 3, stride 1, dilation 1, pads 1 and 1", 3, begin=1, end=1)
    picture.line("A blue cell is a tap inside; its number is k.")
    picture.line("A dashed cell is a tap in the padding: skipped.")
    return picture


def strides(facts):
    picture = Picture("Windows with a stride of 2, with a dilation of 2, and with both")
    axis(picture, facts["stride"], "kernel 3, stride 2, pads 1 and 1", 3, stride=2, begin=1, end=1)
    axis(picture, facts["dilation"], "kernel 3, dilation 2, pads 2 and 2", 3, dilation=2, begin=2, end=2)
    axis(picture, facts["stride_and_dilation"], "kernel 3, stride 2, dilation 2, pads 2 and 2", 3, 2, 2, 2, 2)
    return picture


def rounding(facts):
    picture = Picture("How many windows a pool has with floor, ceil and ceil_torch")
    axis(picture, facts["floor"], "floor: kernel 3, stride 2, no padding", 3, 2)
    axis(picture, facts["ceil"], "ceil and ceil_torch: the same", 3, 2)
    axis(picture, facts["ceil_beyond"], "ceil: kernel 2, stride 2, pads 1 and 1", 2, 2, begin=1, end=1)
    axis(picture, facts["ceil_torch"], "ceil_torch (and floor): the same", 2, 2, begin=1, end=1)
    return picture


def auto_pad(facts):
    picture = Picture("Padding that valid, same_upper and same_lower choose")
    axis(picture, facts["valid"], "valid: kernel 3, stride 2", 3, 2)
    axis(picture, facts["same_upper"], "same_upper: pads 0 and 1", 3, 2, end=1)
    axis(picture, facts["same_lower"], "same_lower: pads 1 and 0", 3, 2, begin=1)
    return picture


def divisors(facts):
    picture = Picture("What an average is divided by, with and without padding")

    def divisor(key):
        return lambda o, inside: f"/ {facts[key]['divisors'][o]}"

    for key, words in (("include_pad", "exclude_pad = false"), ("exclude_pad", "exclude_pad = true")):
        axis(picture, facts[key], f"{words} (ceil, pads 1 and 1)", 3, 2, begin=1, end=1, right=divisor(key))
    picture.line("The last tap of dst[3] lies beyond the padding: it never counts.")
    return picture


def transposed(facts):
    picture = Picture("A transposed convolution: each element of src is added to three positions of dst")
    axis(picture, facts["transposed"], "kernel 3, stride 2, pads 1 and 1, output_padding 1", 3, 2, 1, 1, 0, "dst", "src")
    axis(picture, facts["transposed_same"], "kernel 3, stride 2, same_upper", 3, 2, 1, 0, 1, "dst", "src")
    picture.line("A blue cell adds src[o] * weights(k) to the position above it.")
    return picture


def maxima(facts):
    facts = facts["maxima"]
    picture = Picture("Maxima of 3 x 3 windows, and where their gradients go")
    chosen = set(facts["indices"])

    def grid(x, y, name, values, side, marked):
        picture.text(x, y + 14, name, bold=True)
        for i, value in enumerate(values):
            fill = CHOSEN if i in marked else TENSOR
            picture.cell(x + i % side * CELL, y + LINE + 4 + i // side * CELL, value, fill)

    one, two, step = EDGE, EDGE + 4 * CELL + 40, 4 * CELL + LINE + 24
    grid(one, picture.y, "src", facts["src"], 4, chosen)
    grid(two, picture.y, "dst", facts["dst"], 2, range(4))
    grid(two + 2 * CELL + 40, picture.y, "indices", facts["indices"], 2, ())
    picture.y += step
    grid(one, picture.y, "diff_src", facts["diff_src"], 4, chosen)
    grid(two, picture.y, "diff_dst", facts["diff_dst"], 2, range(4))
    picture.y += step - 6
    picture.line("kernel 3 x 3, strides 1. Two windows share the maximum 9:")
    picture.line("its gradient is 2 + 4.")
    return picture


def memory_order(facts):
    picture = Picture("The order of 2 channels of 2 x 3 pixels in memory, in NCX and in NXC")
    at = facts["memory_order"]["nxc"]  # of each element in the order of NCX
    names = [f"{h}{w}" for _ in range(2) for h in range(2) for w in range(3)]
    # 1 image, 2 channels: the order of NCX is (c, h, w).
    nxc = sorted(range(12), key=lambda i: at[i])
    for title, order in (("NCX: (N, C, H, W)", range(12)), ("NXC: (N, H, W, C)", nxc)):
        picture.heading(title)
        for place, element in enumerate(order):
            x = EDGE + place * CELL
            picture.cell(x, picture.y, names[element], CHANNELS[element // 6])
            picture.text(x + CELL / 2, picture.y + CELL + 15, place, "middle", FAINT, 12)
        picture.y += CELL + 34
    picture.y -= 6
    picture.line("Blue is channel 0, orange channel 1; 12 is the pixel h = 1, w = 2.")
    return picture


PICTURES = (window, strides, rounding, auto_pad, divisors, transposed, maxima, memory_order)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", type=pathlib.Path)
    arguments = parser.parse_args()

    facts = (IMAGES / "windows.json").read_text(encoding="utf-8")
    files = {}
    if arguments.program:
        facts = subprocess.run([arguments.program], capture_output=True, text=True, check=True).stdout
        files["windows.json"] = facts
    files.update({f"{draw.__name__}.svg": draw(json.loads(facts)).svg() for draw in PICTURES})
    changed = [n for n, text in files.items() if not (IMAGES / n).exists() or (IMAGES / n).read_text(encoding="utf-8") != text]
    if arguments.check:
        for name in changed:
            print(f"docs/images/{name} is not what docs/site/draw.py makes", file=sys.stderr)
    else:
        for name in changed:
            (IMAGES / name).write_text(files[name], encoding="utf-8")
    print(f"{len(files)} files, {len(changed)} changed")
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
