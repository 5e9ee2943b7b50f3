#!/usr/bin/env python3
"""Draws the means that bench_scaling prints: efficiency over the number of workers, a line for each operator and layout.

    bench_scaling > scaling.txt && scaling_plot.py scaling.txt scaling.png

Needs matplotlib.
"""
import re
import sys

WORKERS = [2, 4, 8, 16, 32, 64, 128]  # those of ../scaling.cpp


def means(text):
    """Name and count of each group, and its means."""
    for line in text.splitlines():
        found = re.match(r"(\w+/N\w\w) +(\d+) mean ([ \d.]+) least", line)
        if found:
            yield "%s, %s operators" % (found[1], found[2]), [float(v) for v in found[3].split()]


def main():
    source, target = sys.argv[1:]
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plot
    with open(source) as file:
        groups = dict(means(file.read()))
    if not groups:
        sys.exit(source + " has no means of groups")
    figure, axes = plot.subplots(figsize=(8, 4.5))
    for name, values in groups.items():
        axes.plot(WORKERS, values, marker="o", markersize=3, linestyle="-" if "NCX" in name else "--", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(WORKERS, [str(w) for w in WORKERS])
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("workers")
    axes.set_ylabel("efficiency, geometric mean")
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
