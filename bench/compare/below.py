#!/usr/bin/env python3
"""Lists the rows of tables of compare.py that are below their targets, each with the section of ../LIMITS.md that says why.

    below.py ../results/CPU-*.csv > ../results/CPU-below.md

Targets: the quickest peer / ours is at least what TARGETS says, average pools reach 85 % of a plain stream, 3x3 layers of 64
channels and more in NXC 94 % (data) and 90 % (weights) of a loop of multiply-adds. The time of 16 bits is compared with that of
f32 where a table of the same CPU and instruction set has it.
"""
import csv, os, sys

# Group, operator, layout ("": any) of f32 -> ratio; the first that fits. Else 0.97, of bf16 convolutions 0.95.
TARGETS = [
    (("grouped", "backward_data", ""), 1.7), (("grouped", "backward_weights", ""), 2.0),
    (("three channels", "backward_data", ""), 1.3), (("three channels", "backward_weights", ""), 1.1),
    (("depthwise s2", "", "NCX"), 2.5), (("depthwise s2", "", "NXC"), 1.1),
    (("depthwise", "", "NCX"), 3.0), (("depthwise", "", "NXC"), 1.6),
    (("average pool", "", "NCX"), 2.0),
    (("max pool, with indices", "", ""), 1.3), (("max pool, gradient from indices", "", ""), 1.3),
]
# Group, operator, layout, a word of the case and one of the table -> section of LIMITS.md; the first that fits.
SECTIONS = [
    (("1x1", "", "NXC"), "24_144", "", "1x1 24->144, forward, NXC"),
    (("1x1", "backward_weights", "NXC"), "", "avx2", "1x1 weight gradients in NXC, AVX2"),
    (("1x1", "backward_weights", "NXC"), "", "", "1x1 weight gradients in NXC, AVX-512"),
    (("1x1", "", "NXC"), "", "", "1x1 in NXC, forward and data, AVX-512"),
    (("1x1", "", "NCX"), "", "avx2", "1x1 in NCX, AVX2"),
    (("1x1", "", "NCX"), "", "", "1x1 in NCX, AVX-512"),
    (("dense", "", ""), "odd_3x3", "", "17 and 100 channels"),
    (("dense", "", ""), "", "bf16", "Bf16, relaxed precision, with dot products"),
    (("dense", "backward_weights", "NXC"), "", "", "Weight gradients in NXC, dense"),
    (("dense", "", ""), "", "avx2", "Dense, AVX2"),
    (("dense", "", ""), "", "", "Dense in NXC, AVX-512"),
    (("three channels", "backward_weights", "NXC"), "", "", "Stems of three channels, weights, NXC"),
    (("three channels", "", ""), "", "", "7x7 stride-2 stem, NCX"),
    (("grouped", "", ""), "g32_256", "", "Grouped, other than four channels a group"),
    (("grouped", "", "NCX"), "", "", "Grouped 32x4, NCX, data"),
    (("grouped", "", ""), "", "", "Depthwise and grouped, NXC, f32"),
    (("depthwise s2", "", "NCX"), "", "", "Depthwise stride 2, NCX"),
    (("depthwise", "", "NCX"), "", "", "Depthwise stride 1, NCX, f32"),
    (("depthwise", "", "NXC"), "5x5", "", "Depthwise of 5 and 7 column taps, stride 1, NXC"),
    (("depthwise", "", "NXC"), "", "f16", "Depthwise of 16-bit tensors, NXC"),
    (("depthwise s2", "", "NXC"), "", "f16", "Depthwise of 16-bit tensors, NXC"),
    (("depthwise", "", "NXC"), "", "", "Depthwise and grouped, NXC, f32"),
    (("depthwise s2", "", "NXC"), "", "", "Depthwise and grouped, NXC, f32"),
    (("average pool", "", ""), "", "in-l2", "Pools of few channels in NXC, in L2"),
    (("average pool", "backward_data", "NCX"), "", "f16", "Average pools, backward, 16-bit tensors with a stride in NCX"),
    (("average pool", "forward", "NXC"), "", "", "Average pools, forward"),
    (("average pool", "", "NCX"), "", "", "Average pools, NCX"),
    (("average pool", "", ""), "", "", "Average pools, beyond L2"),
    (("global average pool", "forward", "NXC"), "", "", "Average pools, forward"),
    (("global average pool", "", ""), "", "", "Average pools, beyond L2"),
    (("max pool, gradient from indices", "", ""), "", "", "Gradients from indices"),
    (("max pool, gradient without indices", "", ""), "", "", "Gradients of max pools without indices"),
    (("max pool, with indices", "", "NXC"), "", "", "Max pools with indices, NXC"),
    (("max pool, with indices", "", "NCX"), "", "", "Max pools, NCX"),
]
LIMITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "LIMITS.md")


def fits(pattern, r):
    family = r["group"] + " s2" * (r["group"] == "depthwise" and "s2" in r["case"])
    return all(p in ("", v) for p, v in zip(pattern, (family, r["operator"], r["layout"])))


def target_of(r):
    if r["type"] != "f32":
        return 0.95 if r["kind"].startswith("conv") else 0.97
    return next((target for pattern, target in TARGETS if fits(pattern, r)), 0.97)


def section_of(r, table):
    section = next(s for pattern, case, of_table, s in SECTIONS
                   if fits(pattern, r) and case in r["case"] and of_table in table)
    anchor = "".join(c for c in section.lower().replace(" ", "-") if c.isalnum() or c == "-")
    return "[%s](../LIMITS.md#%s)" % (section, anchor)


def misses(r, f32):
    """What a row falls short of."""
    relaxed = float(r["relaxed ratio"] or 0)
    ratio, target = relaxed or float(r["ratio"]), target_of(r)
    if 0 < ratio < target:
        yield "%.2f of the quickest peer's speed, wanted %.2f" % (ratio, target)
    if "average" in r["group"] and r["type"] == "f32" and float(r["stream"]) < 0.85:
        yield "%.0f %% of a stream" % (100 * float(r["stream"]))
    wide = r["layout"] == "NXC" and r["type"] == "f32" and r["case"].startswith("r50_3x3")
    least = {"backward_data": 0.94, "backward_weights": 0.9}.get(r["operator"], 0)
    if wide and float(r["fma"]) < least:
        yield "%.0f %% of multiply-adds, wanted %.0f" % (100 * float(r["fma"]), 100 * least)
    other = f32.get((r["case"], r["operator"], r["layout"]))
    most = 1.1 if r["kind"].startswith("conv") else 1.03
    if r["type"] != "f32" and other and not relaxed and float(r["ms"]) > most * other:
        yield "%.2f times as long as f32" % (float(r["ms"]) / other)


def main():
    limits = open(LIMITS).read()
    missing = [section for *_, section in SECTIONS if "### %s\n" % section not in limits]
    if missing:
        sys.exit("LIMITS.md has no section " + ", ".join(missing))
    tables = {os.path.basename(path)[:-4]: list(csv.DictReader(line for line in open(path) if line[0] != "#"))
              for path in sys.argv[1:]}
    print("Rows below their targets, with the section of LIMITS.md that says what limits them and what was tried"
          " (`bench/compare/below.py`).")
    for name, rows in tables.items():
        plain = tables.get(name.replace("bf16", "f32").replace("-f16", "-f32"), [])
        f32 = {(r["case"], r["operator"], r["layout"]): float(r["ms"]) for r in plain}
        short = [(r, text) for r in rows if (text := "; ".join(misses(r, f32)))]
        print("\n## [%s](%s.md): %d of %d\n\n| row | falls short | limit |\n|---|---|---|" % (name, name, len(short),
                                                                                           len(rows)))
        for r, text in short:
            print("| %s %s %s | %s | %s |" % (r["case"], r["operator"], r["layout"], text, section_of(r, name)))


if __name__ == "__main__":
    main()
