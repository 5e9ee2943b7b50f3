#!/usr/bin/env python3
"""Times gradkern on one thread and on several, and prints how many times faster it becomes.

    python3 bench/compare/threads.py [--threads 2] [--arch haswell] [--types f32] [--only TEXT]

Needs g++ and xsimd. The layers are those of tests/cases. On a shared machine the second core is not always there: in each
round a loop of multiply-adds runs on one thread and on all of them, too, and rounds where it did not scale well (by
`--least`, 0.975 times the threads, at least, and no further above) do not count. A layer with fewer than `--counted` such
rounds is "not measured". speed-up = the median over the rounds that count. Times are wall times.
"""
import argparse, ctypes, json, math, os, statistics, sys, time

import compare


def arguments():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--arch", default="native", help="-march of gradkern")
    a.add_argument("--types", default="f32")
    a.add_argument("--only", default="", help="layers whose name, e.g. mbv2_dw3x3_144_56/forward/NCX, contains one of these words")
    a.add_argument("--rounds", type=int, default=60, help="at most")
    a.add_argument("--counted", type=int, default=9, help="rounds that count, after which a layer is done")
    a.add_argument("--least", type=float, default=0.975, help="of the calibration loop's scaling, by thread")
    a.add_argument("--channels", type=int, default=0, help="channels of pools, instead of those of the layer")
    a.add_argument("--xsimd", default="", help="include folder of xsimd, if not a system one")
    return a.parse_args()


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


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
    groups = {}
    for dtype in opt.types.split(","):
        for index, layer in enumerate(json.loads(lib.gradkern_layers())):
            name = "%s/%s/%s" % (layer["name"], layer["role"], layer["format"])
            if not any(word in name for word in opt.only.split(",")):
                continue
            one, all_threads = (
                ctypes.c_void_p(lib.gradkern_make(index, compare.TYPES.index(dtype), n, 0, opt.channels))
                for n in (1, opt.threads))
            repeat = max(1, int(0.004 / max(seconds(lambda: lib.gradkern_run(one)), 1e-6)))

            def run(job):
                for _ in range(repeat):
                    lib.gradkern_run(job)
            run(all_threads)
            times, rounds = [], 0
            while rounds < opt.rounds and len(times) < opt.counted:
                rounds += 1
                alone = seconds(lambda: lib.gradkern_spin(1))
                pair = seconds(lambda: run(one)), seconds(lambda: run(all_threads))
                scaled = alone / seconds(lambda: lib.gradkern_spin(opt.threads))
                if opt.least <= scaled <= 2 - opt.least:
                    times.append(pair)
            measured = len(times) >= opt.counted
            speedup = statistics.median(a / b for a, b in times) if measured else 0
            cells = ["%.3f" % (statistics.median(t[i] for t in times) / repeat * 1e3) if measured else "" for i in (0, 1)]
            print("| %s | %s | %s | %s | %s | %s | %s | %d of %d |" % (
                layer["name"], layer["role"], layer["format"], dtype, *cells,
                "%.2f" % speedup if measured else "not measured", len(times), rounds), flush=True)
            if measured:
                groups.setdefault((compare.group_of(layer), layer["format"], dtype), []).append(speedup)
            for job in (one, all_threads):
                lib.gradkern_free(job)
    print("\n| group | layout | type | operators | geometric mean | least |\n|---|---|---|---|---|---|")
    for key, values in sorted(groups.items()):
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print("| %s | %s | %s | %d | %.2f | %.2f |" % (*key, len(values), mean, min(values)))


if __name__ == "__main__":
    main()
