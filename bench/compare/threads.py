#!/usr/bin/env python3
"""Times gradkern on one thread and on several, and prints how many times faster it becomes.

    python3 bench/compare/threads.py [--threads 2] [--arch haswell] [--types f32] [--only TEXT] [--layers zoo --sample 10]

Needs g++ and xsimd. The layers are those of tests/cases, with --layers zoo or all those of its zoo.json. On a shared machine the second core is not always there: in each
round a loop of multiply-adds runs on one thread and on all of them, too, and rounds where it did not scale well (by
`--least`, 0.975 times the threads, at least, and no further above) do not count. speed-up = the median over the rounds that
count. Where fewer than `--counted` rounds count, all of them are taken and the speed-up has a "*": the cores may have been
busy, or share their units. Times are wall times.
"""
import argparse, ctypes, os, statistics, sys, time

import compare
from peers import seconds


def arguments():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--arch", default="native", help="-march of gradkern")
    a.add_argument("--types", default="f32")
    a.add_argument("--only", default="", help="layers whose name, e.g. mbv2_dw3x3_144_56/forward/NCX, contains one of these words")
    a.add_argument("--layers", default="project", choices=["project", "zoo", "all"])
    a.add_argument("--sample", type=int, default=1, metavar="N", help="only one of N rows")
    a.add_argument("--rounds", type=int, default=60, help="at most")
    a.add_argument("--counted", type=int, default=9, help="rounds that count, after which a layer is done")
    a.add_argument("--least", type=float, default=0.975, help="of the calibration loop's scaling, by thread")
    a.add_argument("--channels", type=int, default=0, help="channels of pools, instead of those of the layer")
    a.add_argument("--xsimd", default="", help="include folder of xsimd, if not a system one")
    return a.parse_args()


def main():
    opt = arguments()
    if os.environ.get("OMP_PROC_BIND") != "true":
        os.environ.update(OMP_PROC_BIND="true", OMP_NUM_THREADS=str(opt.threads))
        os.execv(sys.executable, [sys.executable] + sys.argv)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:opt.threads])
    lib = compare.load_gradkern(opt)
    print("gradkern (%s), %d threads beside one, %s\n" % (lib.gradkern_isa().decode(), opt.threads, time.strftime("%Y-%m-%d")))
    print("| case | operator | layout | type | one thread ms | %d threads ms | speed-up | rounds that count |" % opt.threads)
    print("|---|---|---|---|---|---|---|---|")
    words = opt.only.split(",")
    chosen = [(i, layer) for i, layer in compare.layers_of(lib, opt.layers)
              if any(word in compare.name_of(layer) for word in words)]
    chosen = compare.sample(chosen, opt.sample)
    groups = {}
    for dtype in opt.types.split(","):
        for index, layer in chosen:
            one, all_threads = (
                ctypes.c_void_p(lib.gradkern_make(index, compare.TYPES.index(dtype), n, 0, opt.channels))
                for n in (1, opt.threads))
            repeat = max(1, int(0.004 / max(seconds(lambda: lib.gradkern_run(one)), 1e-6)))

            def run(job):
                for _ in range(repeat):
                    lib.gradkern_run(job)
            run(all_threads)
            times, counted = [], []
            while len(times) < opt.rounds and len(counted) < opt.counted:
                alone = seconds(lambda: lib.gradkern_spin(1))
                times.append((seconds(lambda: run(one)), seconds(lambda: run(all_threads))))
                scaled = alone / seconds(lambda: lib.gradkern_spin(opt.threads))
                if opt.least <= scaled <= 2 - opt.least:
                    counted.append(times[-1])
            idle = len(counted) >= opt.counted
            taken = counted if idle else times
            speedup = statistics.median(a / b for a, b in taken)
            cells = ["%.3f" % (statistics.median(t[i] for t in taken) / repeat * 1e3) for i in (0, 1)]
            print("| %s | %s | %s | %s | %s | %s | %.2f%s | %d of %d |" % (
                layer["name"], layer["role"], layer["format"], dtype, *cells, speedup, "*" * (not idle), len(counted),
                len(times)), flush=True)
            groups.setdefault((compare.group_of(layer), layer["format"], dtype), []).append((speedup, idle))
            for job in (one, all_threads):
                lib.gradkern_free(job)
    print()
    for line in compare.table_of(
            ["group", "layout", "type", "operators", "geometric mean", "least", "with *"],
            [(*key, len(of), compare.geometric_mean([v for v, _ in of]), min(v for v, _ in of),
              sum(not idle for _, idle in of)) for key, of in sorted(groups.items())]):
        print(line)


if __name__ == "__main__":
    main()
