#!/usr/bin/env python3
"""Times gradkern beside PyTorch (oneDNN inside) in one process, in alternating pairs, and prints a ratio table.

    python3 bench/compare/compare.py [--arch native] [--pairs 15] [--only SUBSTRING] [--inf] [--threads 1]

Needs a Python with torch and numpy, g++ and xsimd. `--arch haswell` builds gradkern for AVX2 and holds the peer to AVX2
too. Every result is compared with the peer's before it is timed; with --inf one border tap of the weights is Inf, and
the pattern of Inf and NaN must be that of the plain-loop reference. Times are CPU times of the process, medians over
the pairs; GF/s count useful work only (taps that meet no padding). ratio = the peer's time / ours, median of the pairs.
"""
import argparse, ctypes, os, statistics, subprocess, sys, tempfile, time

# name, N, IC, OC, groups, size, kernel, stride, pad, dilation
CASES = [
    ("3x3 64@56", 4, 64, 64, 1, [56, 56], [3, 3], [1, 1], [1, 1], [1, 1]),
    ("3x3 128@28", 4, 128, 128, 1, [28, 28], [3, 3], [1, 1], [1, 1], [1, 1]),
    ("3x3 256@14", 4, 256, 256, 1, [14, 14], [3, 3], [1, 1], [1, 1], [1, 1]),
    ("3x3 512@7", 4, 512, 512, 1, [7, 7], [3, 3], [1, 1], [1, 1], [1, 1]),
    ("3x3 d2 256@28", 1, 256, 256, 1, [28, 28], [3, 3], [1, 1], [2, 2], [2, 2]),
    ("3x3 d4 256@28", 1, 256, 256, 1, [28, 28], [3, 3], [1, 1], [4, 4], [4, 4]),
    ("1x1 256->64@56", 4, 256, 64, 1, [56, 56], [1, 1], [1, 1], [0, 0], [1, 1]),
    ("3x3 s2 256@28", 4, 256, 256, 1, [28, 28], [3, 3], [2, 2], [1, 1], [1, 1]),
]


def arguments():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--arch", default="native", help="-march of gradkern; haswell also holds the peer to AVX2")
    a.add_argument("--pairs", type=int, default=15)
    a.add_argument("--only", default="")
    a.add_argument("--inf", action="store_true", help="put Inf into a border tap of the weights")
    a.add_argument("--format", default="NXC,NCX")
    a.add_argument("--xsimd", default="", help="include folder of xsimd, if not a system one")
    return a.parse_args()


def prepare_environment(arch):
    """Keeps freed memory in the process (else the peer pays page faults) and holds the peer to the instruction set."""
    want = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
    if arch == "haswell":
        want.update(ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2")
    if any(os.environ.get(k) != v for k, v in want.items()):
        os.environ.update(want)
        os.execv(sys.executable, [sys.executable] + sys.argv)


def build(arch, xsimd):
    here = os.path.dirname(os.path.abspath(__file__))
    out = os.path.join(tempfile.mkdtemp(), "shim.so")
    cmd = ["g++", "-std=c++20", "-O3", "-DNDEBUG", "-march=" + arch, "-shared", "-fPIC",
           "-I" + os.path.join(here, "..", "..", "include"), os.path.join(here, "shim.cpp"), "-o", out]
    if xsimd:
        cmd.insert(1, "-isystem" + xsimd)
    subprocess.run(cmd, check=True)
    lib = ctypes.CDLL(out)
    lib.gradkern_plan.restype = ctypes.c_void_p
    lib.gradkern_isa.restype = ctypes.c_char_p
    lib.gradkern_run.argtypes = [ctypes.c_void_p] * 4
    lib.gradkern_free.argtypes = [ctypes.c_void_p]
    return lib


def useful_flops(case):
    _, n, ic, oc, g, size, kernel, stride, pad, dilation = case
    taps = 1
    for i, k, s, p, d in zip(size, kernel, stride, pad, dilation):
        o = (i + 2 * p - d * (k - 1) - 1) // s + 1
        taps *= sum(0 <= x * s - p + t * d < i for x in range(o) for t in range(k))
    return 2 * n * ic // g * oc * taps


def main():
    opt = arguments()
    prepare_environment(opt.arch)
    import numpy
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    lib = build(opt.arch, opt.xsimd)
    clock = time.process_time
    backward = torch.ops.aten.convolution_backward
    print("gradkern %s beside PyTorch %s (%s), one thread, %d pairs%s" %
          (lib.gradkern_isa().decode(), torch.__version__, torch.backends.cpu.get_cpu_capability(), opt.pairs,
           ", Inf in a border tap" if opt.inf else ""))
    print("| case | gradient | layout | gradkern ms (GF/s) | PyTorch ms (GF/s) | ratio |\n|---|---|---|---|---|---|")
    failed = False
    with torch.no_grad():
        for case in CASES:
            name, n, ic, oc, g, size, kernel, stride, pad, dilation = case
            if opt.only not in name:
                continue
            out = [(i + 2 * p - d * (k - 1) - 1) // s + 1
                   for i, k, s, p, d in zip(size, kernel, stride, pad, dilation)]
            for fmt in opt.format.split(","):
                memory = torch.channels_last if fmt == "NXC" else torch.contiguous_format
                x = torch.randn([n, ic] + size).contiguous(memory_format=memory)
                y = torch.randn([n, oc] + out).contiguous(memory_format=memory)
                w = torch.randn([oc, ic // g] + kernel)
                if opt.inf:
                    w[:, :, 0, 0] = float("inf")
                w = w.contiguous(memory_format=memory)
                oix = w.contiguous()
                for gradient in ("data", "weights"):
                    if opt.inf and gradient == "weights":
                        continue
                    code = [int(gradient == "weights"), int(fmt == "NCX"), 1, n, ic, oc, g, 2]
                    for v in (size, kernel, stride, pad, dilation):
                        code += v + [0]
                    packed = (ctypes.c_int64 * len(code))(*code)
                    plan = ctypes.c_void_p(lib.gradkern_plan(packed))
                    result = torch.empty_like(x if gradient == "data" else oix)
                    first, second = (y, oix) if gradient == "data" else (x, y)
                    address = [ctypes.c_void_p(t.data_ptr()) for t in (first, second, result)]
                    ours = lambda: lib.gradkern_run(plan, *address)
                    mask = [gradient == "data", gradient == "weights", False]
                    peer = lambda: backward(y, x, w, None, stride, pad, dilation, False, [0, 0], g, mask)
                    if ours() != 0:
                        sys.exit("gradkern refused " + name)
                    if opt.inf:
                        exact = torch.empty_like(result)
                        if lib.gradkern_reference(packed, *address[:2], ctypes.c_void_p(exact.data_ptr())) != 0:
                            sys.exit("the reference refused " + name)
                        same = torch.equal(result.isnan(), exact.isnan()) and torch.equal(result.isinf(), exact.isinf())
                        detail = "" if same else " WRONG PATTERN"
                    else:
                        want = peer()[0 if gradient == "data" else 1]
                        scale = want.abs().max().item()
                        worst = (result - want).abs().max().item() / scale
                        detail = "" if worst < 1e-4 else " WRONG by %.1e" % worst
                    failed |= bool(detail)
                    times = []
                    for f in (ours, peer):
                        f()
                    for _ in range(opt.pairs):
                        a = clock(); ours(); b = clock(); peer(); c = clock()
                        times.append((b - a, c - b))
                    mine = statistics.median(t[0] for t in times)
                    theirs = statistics.median(t[1] for t in times)
                    ratio = statistics.median(t[1] / t[0] for t in times)
                    flops = useful_flops(case)
                    print("| %s | %s | %s | %.2f (%.1f) | %.2f (%.1f) | %.2f%s |" %
                          (name, gradient, fmt, mine * 1e3, flops / mine / 1e9, theirs * 1e3, flops / theirs / 1e9,
                           ratio, detail), flush=True)
                    lib.gradkern_free(plan)
    return failed


if __name__ == "__main__":
    sys.exit(main())
