#!/usr/bin/env python3
"""Lists the rows of tables of compare.py that are below their targets. ../../docs/performance.md says what limits them.

    below.py ../results/zen5-*.csv

A row is below its target where fastest peer / ours is less than TARGETS says, an average pool reaches less than 85 % of a
stream, or a 3x3 layer of 64 channels and more in NXC less than 94 % (data) or 90 % (weights) of the FMA loop. A 16-bit row
also is where it takes over 1.1 times (pools: 1.03 times) the time of f32 in the table of the same CPU and instruction set, if
that table is among the files.
"""
import csv, os, sys

# Group, operator, layout ("": any) of f32 -> ratio; the first that fits. Else 0.97, of bf16 convolutions 0.95.
TARGETS = [
    (("grouped", "backward_data", ""), 1.7), (("grouped", "backward_weights", ""), 2.0),
    (("few input channels", "backward_data", ""), 1.3), (("few input channels", "backward_weights", ""), 1.1),
    (("depthwise s2", "", "NCX"), 2.5), (("depthwise s2", "", "NXC"), 1.1),
    (("depthwise", "", "NCX"), 3.0), (("depthwise", "", "NXC"), 1.6),
    (("average pool", "", "NCX"), 2.0),
    (("max pool", "forward", ""), 1.3), (("max pool", "backward_from_indices", ""), 1.3),
]


def fits(pattern, r):
    # older tables have other names of groups
    family = {"three channels": "few input channels"}.get(r["group"], r["group"].split(",")[0])
    family += " s2" * (family == "depthwise" and "s2" in r["case"])
    return all(p in ("", v) for p, v in zip(pattern, (family, r["operator"], r["layout"])))


def target_of(r):
    if r["type"] != "f32":
        return 0.95 if r["kind"].startswith("conv") else 0.97
    return next((target for pattern, target in TARGETS if fits(pattern, r)), 0.97)


def misses(r, f32):
    """The targets that a row misses."""
    relaxed = float(r["relaxed ratio"] or 0)
    ratio, target = relaxed or float(r["ratio"]), target_of(r)
    if 0 < ratio < target:
        yield "%.2f of the fastest peer's speed, target %.2f" % (ratio, target)
    if "average" in r["group"] and r["type"] == "f32" and float(r["stream"]) < 0.85:
        yield "%.0f %% of a stream, target 85" % (100 * float(r["stream"]))
    wide = r["layout"] == "NXC" and r["type"] == "f32" and r["case"].startswith("r50_3x3")
    least = {"backward_data": 0.94, "backward_weights": 0.9}.get(r["operator"], 0)
    if wide and float(r["fma"]) < least:
        yield "%.0f %% of the FMA loop, target %.0f" % (100 * float(r["fma"]), 100 * least)
    other = f32.get((r["case"], r["operator"], r["layout"]))
    most = 1.1 if r["kind"].startswith("conv") else 1.03
    if r["type"] != "f32" and other and not relaxed and float(r["ms"]) > most * other:
        yield "%.2f times the time of f32" % (float(r["ms"]) / other)


def main():
    tables = {os.path.basename(path)[:-4]: list(csv.DictReader(line for line in open(path) if line[0] != "#"))
              for path in sys.argv[1:]}
    for name, rows in tables.items():
        plain = tables.get(name.replace("bf16", "f32").replace("-f16", "-f32"), [])
        f32 = {(r["case"], r["operator"], r["layout"]): float(r["ms"]) for r in plain}
        below = [(r, text) for r in rows if (text := "; ".join(misses(r, f32)))]
        print("%s: %d of %d" % (name, len(below), len(rows)))
        for r, text in below:
            print("  %s %s %s: %s" % (r["case"], r["operator"], r["layout"], text))


if __name__ == "__main__":
    main()
