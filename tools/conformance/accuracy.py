#!/usr/bin/env python3
"""How far results are from the exact ones: a table and a plot, from what conformance.py --work kept.

    conformance.py --program gradkern-golden --onednn V --work DIR
    accuracy.py DIR --output docs/numerics.md --plot docs/images/accuracy.png

For each operator, type and library: the largest and the mean |error| in units of the published bound, and both in ulp of the
result's type at the exact value. Elements count whose exact value is finite and in range, of problems with ordinary values (not
the non-finite, the subnormal and the large ones, which conformance.py judges). Those in ulp are of the problems with positive
values: where terms cancel, an ulp of the sum says nothing. Needs numpy; the plot needs matplotlib.
"""
import argparse, json, math, os, sys

LIBRARIES = {"gradkern": "gradkern", "PyTorch": "PyTorch", "oneDNN": "oneDNN", "oneDNN_Graph": "oneDNN Graph",
             "TensorFlow": "TensorFlow", "ONNX_Runtime": "ONNX Runtime"}
LEFT_OUT = ("non_finite", "subnormal", "large")  # patterns of values
DIGITS = {"f32": 24, "f16": 11, "bf16": 8, "f64": 53}
LEAST_EXPONENT = {"f32": -126, "f16": -14, "bf16": -126, "f64": -1022}
COLOURS = {"gradkern": "#1f6feb", "PyTorch": "#d1495b", "oneDNN": "#66a182", "oneDNN Graph": "#edae49", "TensorFlow": "#8d6a9f",
           "ONNX Runtime": "#555555"}


def numbers(numpy, path, type):
    array = numpy.load(path)
    if type == "bf16":
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float64)


def errors(numpy, work, library, row):
    """|error| / bound and |error| / ulp of each ordinary element of a problem's results."""
    for name in row["outputs"]:
        mine = os.path.join(work, library, "%s.%s.npy" % (row["name"], name))
        if not os.path.exists(mine):
            continue
        type = row.get("types", {}).get(name, row["type"])
        got = numbers(numpy, mine, type)
        exact = numpy.load(os.path.join(work, "suite", "expected", "%s.%s.npy" % (row["name"], name)))
        bound = numpy.load(os.path.join(work, "suite", "bounds", "%s.%s.npy" % (row["name"], name)))
        usual = numpy.isfinite(exact) & numpy.isfinite(bound) & (bound > 0)
        got, exact, bound = got[usual], exact[usual], bound[usual]
        error = numpy.abs(numpy.where(numpy.isfinite(got), got, numpy.inf) - exact)
        exponent = numpy.maximum(numpy.frexp(numpy.abs(exact))[1] - 1, LEAST_EXPONENT[type])
        yield error / bound, error / numpy.exp2(exponent - DIGITS[type] + 1.0)


def statistics(numpy, work, rows):
    """(operator, type, library) -> largest and mean in bounds, largest in ulp, elements."""
    found = {}
    for library, title in LIBRARIES.items():
        if not os.path.isdir(os.path.join(work, library)):
            continue
        for row in rows:
            for in_bounds, in_ulp in errors(numpy, work, library, row):
                for errors_, kind in ((in_bounds, "bounds"), (in_ulp, "ulp" if row["values"]["pattern"] == "positive" else "")):
                    if errors_.size and kind:
                        most, total, count = found.get((row["operator"], row["type"], title, kind), (0.0, 0.0, 0))
                        total += float(errors_[numpy.isfinite(errors_)].sum())
                        found[row["operator"], row["type"], title, kind] = (
                            max(most, float(errors_.max())), total, count + errors_.size)
    return {k: (most, total / count, count) for k, (most, total, count) in found.items()}


def short(v):
    return "inf" if math.isinf(v) else "%.3f" % v if v < 0.1 else "%.2f" % v if v < 10 else "%.3g" % v


def table(found):
    titles = [t for t in LIBRARIES.values() if any(k[2] == t for k in found)]
    yield "| operator | type | elements | " + " | ".join("%s, bounds | ulp" % t for t in titles) + " |"
    yield "|---" * (3 + 2 * len(titles)) + "|"
    for operator, type in dict.fromkeys(k[:2] for k in found):
        cells = []
        for t in titles:
            most, mean, _ = found.get((operator, type, t, "bounds"), (None,) * 3)
            ulp, mean_ulp, _ = found.get((operator, type, t, "ulp"), (None,) * 3)
            mark = "**" if most is not None and most > 1 else ""
            cells.append("-" if most is None else "%s%s%s / %s" % (mark, short(most), mark, short(mean)))
            cells.append("-" if ulp is None else "%s / %s" % (short(ulp), short(mean_ulp)))
        count = found.get((operator, type, "gradkern", "bounds"), (0, 0, 0))[2]
        yield "| `%s` | %s | %s | %s |" % (operator, type, f"{count:,}", " | ".join(cells))


def draw(found, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plot
    groups = list(dict.fromkeys(k[:2] for k in found))
    titles = [t for t in LIBRARIES.values() if any(k[2] == t for k in found)]
    figure, axes = plot.subplots(figsize=(9, 0.26 * len(groups) + 1.2), constrained_layout=True)
    for i, t in enumerate(titles):
        key = lambda group: (*group, t, "bounds")
        at = [(found[key(g)][0], j + (i - len(titles) / 2) * 0.12) for j, g in enumerate(groups) if key(g) in found]
        axes.scatter([min(max(v, 1e-3), 1e4) for v, _ in at], [y for _, y in at], s=14, color=COLOURS[t], label=t, zorder=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(groups)), ["%s %s" % g for g in groups], fontsize=7)
    axes.invert_yaxis()
    axes.grid(axis="x", linewidth=0.3)
    axes.set_xlabel("largest error, in units of the bound (right of the line: refused)")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=110)


def write(path, text):
    """Replaces what stands between the two marks of the page."""
    begin, end = "<!-- accuracy: begin -->\n", "<!-- accuracy: end -->\n"
    with open(path, encoding="utf-8") as page:
        before, mark, rest = page.read().partition(begin)
    if not mark or end not in rest:
        sys.exit("%s has no place for the table" % path)
    with open(path, "w", encoding="utf-8") as page:
        page.write(before + begin + text + "\n" + end + rest.partition(end)[2])


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("work", help="the directory of conformance.py --work")
    a.add_argument("--output", default="", help="write the table into this page, between its two marks")
    a.add_argument("--plot", default="", help="draw the largest errors to this file")
    opt = a.parse_args()
    import numpy
    numpy.seterr(all="ignore")
    with open(os.path.join(opt.work, "suite", "suite.json"), encoding="utf-8") as file:
        rows = json.load(file)["problems"]
    expected = {}
    for name in os.listdir(os.path.join(opt.work, "suite", "expected")):
        problem, _, tensor = name[:-len(".npy")].rpartition(".")
        expected.setdefault(problem, []).append(tensor)
    rows = [{**r, "outputs": sorted(expected.get(r["name"], []))} for r in rows if r["values"]["pattern"] not in LEFT_OUT]
    found = statistics(numpy, opt.work, rows)
    text = "\n".join(table(found))
    print(text)
    if opt.output:
        write(opt.output, text)
    if opt.plot:
        draw(found, opt.plot)


if __name__ == "__main__":
    main()
