#!/usr/bin/env python3
"""Times gradkern beside PyTorch and oneDNN in one process, in alternating rounds, and prints a table of ratios.

    python3 -m venv V && V/bin/pip install torch numpy matplotlib onednn onednn-devel
    V/bin/python bench/compare/compare.py --onednn V [--arch haswell] [--types f32,bf16,f16] [--threads 1] [--only TEXT]

Needs g++ and xsimd. The layers are those of tests/cases, the same for every benchmark. `--arch haswell` builds gradkern
for AVX2 and holds the peers to AVX2 too; `--peer-isa AVX512_CORE_BF16` keeps them from AMX, which gradkern does not use.
Without --onednn there is PyTorch alone (oneDNN inside). Every result is compared with each peer's before anything is
timed. --inf puts Inf into the first tap of the weights of the data gradients: their pattern of Inf and NaN must then be
that of the plain-loop reference.

Everything that a caller with plain tensors pays is counted: packing, transposes, oneDNN's reorders (the quickest of its
own choice of layouts, plain activations with its own choice of weights, and plain descriptors). What is not: plans and
primitives, made beforehand. Tensors stay in cache as far as they fit. One thread: CPU time of the process, pinned to a core. More: wall
time, with gradkern on OpenMP threads, beside how far a loop of multiply-adds scaled in the same minute.

ratio = the peer's time / ours, the median over the rounds. `best peer` is the one with the smallest ratio. GF/s count
useful work only (taps that meet no padding); GB/s count every tensor once. `stream` is our speed against a loop over the
same buffers that reads and writes as many bytes and computes nothing.
--output DIR also writes the table as Markdown, the numbers as CSV and a picture of the ratios.
"""
import argparse, csv, ctypes, json, math, os, platform, statistics, subprocess, sys, tempfile, time

ROLES = {"forward": 0, "backward_data": 1, "backward_weights": 2, "backward_from_indices": 3}
KINDS = ["convolution", "conv_transpose", "avg_pool", "max_pool"]
TYPES = ["f32", "f16", "bf16"]
HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--arch", default="native", help="-march of gradkern; haswell also holds the peers to AVX2")
    a.add_argument("--peer-isa", default="", help="the most that oneDNN, also inside PyTorch, may use: its ONEDNN_MAX_CPU_ISA")
    a.add_argument("--rounds", type=int, default=11)
    a.add_argument("--only", default="", help="layers whose name, e.g. mbv2_dw3x3_144_56/forward/NCX, contains one of these words")
    a.add_argument("--types", default="f32")
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--batch", default="x1", help="images of pools: a number, or x8 for 8 times those of the layer")
    a.add_argument("--channels", type=int, default=0, help="channels of pools, instead of those of the layer")
    a.add_argument("--inf", action="store_true", help="put Inf into the first tap of the weights of data gradients")
    a.add_argument("--onednn", default="", help="prefix of `pip install onednn onednn-devel`")
    a.add_argument("--xsimd", default="", help="include folder of xsimd, if not a system one")
    a.add_argument("--output", default="", help="folder for table, numbers and picture")
    a.add_argument("--name", default="", help="first part of the names of those files")
    return a.parse_args()


def prepare_environment(opt):
    """Keeps freed memory in the process (else the peers pay page faults) and holds them to the instruction set."""
    want = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20),
            "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(opt.threads)}
    if opt.arch == "haswell":
        want.update(ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2")  # 1x1: MKL
    if opt.peer_isa:
        want.update(ONEDNN_MAX_CPU_ISA=opt.peer_isa)
    if opt.onednn:  # the wheel's CPU engine is an OpenCL device
        lib = os.path.join(os.path.abspath(opt.onednn), "lib")
        want.update(OCL_ICD_FILENAMES=os.path.join(lib, "libintelocl.so"), LD_LIBRARY_PATH=lib)
    if any(os.environ.get(k) != v for k, v in want.items()):
        os.environ.update(want)
        os.execv(sys.executable, [sys.executable] + sys.argv)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:opt.threads])


def compile_library(source, *flags):
    out = os.path.join(tempfile.mkdtemp(), "library.so")
    subprocess.run(["g++", "-std=c++20", "-O3", "-DNDEBUG", "-shared", "-fPIC", os.path.join(HERE, source), "-o", out,
                    *flags], check=True)
    return ctypes.CDLL(out)


def load_gradkern(opt):
    top = os.path.join(HERE, "..", "..")
    flags = ["-march=" + opt.arch, "-fopenmp", "-I" + os.path.join(top, "include"), "-I" + os.path.join(top, "tests")]
    lib = compile_library("gradkern_c.cpp", *flags, *(["-isystem" + opt.xsimd] if opt.xsimd else []))
    for name in ("make", "tensor"):
        getattr(lib, "gradkern_" + name).restype = ctypes.c_void_p
    for name in ("layers", "isa"):
        getattr(lib, "gradkern_" + name).restype = ctypes.c_char_p
    for name in ("run", "reference", "stream", "free"):
        getattr(lib, "gradkern_" + name).argtypes = [ctypes.c_void_p]
    lib.gradkern_tensor.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)]
    return lib


def load_onednn(opt):
    prefix = os.path.abspath(opt.onednn)
    lib = compile_library("onednn_c.cpp", "-I" + os.path.join(prefix, "include"), "-L" + os.path.join(prefix, "lib"),
                          "-ldnnl", "-Wl,-rpath-link," + os.path.join(prefix, "lib"))
    lib.onednn_make.restype = ctypes.c_void_p
    lib.onednn_make.argtypes = [ctypes.c_void_p] * 4
    lib.onednn_run.argtypes = lib.onednn_name.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.onednn_variants.argtypes = lib.onednn_free.argtypes = [ctypes.c_void_p]
    lib.onednn_name.restype = lib.onednn_version.restype = ctypes.c_char_p
    return lib


class Job:
    """One layer in one type: our buffers, as bare memory and as tensors of the peer in [N][C][spatial] order."""

    def __init__(self, torch, lib, index, layer, dtype, opt):
        self.torch, self.lib, self.layer, self.dtype = torch, lib, layer, dtype
        self.handle = ctypes.c_void_p(lib.gradkern_make(index, TYPES.index(dtype), opt.threads, layer["batch"], opt.channels))
        self.element = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
        self.address, self.bytes = [], 0
        for i in range(4):
            size = ctypes.c_int64()
            self.address.append((lib.gradkern_tensor(self.handle, i, ctypes.byref(size)), size.value))
            self.bytes += size.value
        self.rank = len(layer["size"])

    def flat(self, which, element=None):
        at, size = self.address[which]
        return self.torch.frombuffer((ctypes.c_char * size).from_address(at), dtype=element or self.element)

    def activation(self, which, large, element=None):
        l = self.layer
        spatial = l["size"] if large else l["out"]
        channels = l["in_channels"] if large else l["out_channels"]
        flat = self.flat(which, element)
        if l["format"] == "NCX":
            return flat.view([l["batch"], channels] + spatial)
        return flat.view([l["batch"]] + spatial + [channels]).movedim(-1, 1)

    def weights(self, which):
        l = self.layer
        kernel = [l["kernel"]] * self.rank
        transposed = l["kind"] == "conv_transpose"
        o = l["out_channels"] // (l["groups"] if transposed else 1)
        i = l["in_channels"] // (1 if transposed else l["groups"])
        flat = self.flat(which)
        w = flat.view([o, i] + kernel) if l["format"] == "NCX" else flat.view(kernel + [i, o]).movedim([-1, -2], [0, 1])
        return w.transpose(0, 1) if transposed else w  # the peer's is [I][O / groups]

    def run(self):
        if self.lib.gradkern_run(self.handle) != 0:
            sys.exit("gradkern refused " + self.layer["name"])

    def free(self):
        self.lib.gradkern_free(self.handle)


def torch_peer(torch, job):
    """A call that computes the layer with PyTorch, and where its result goes; None where PyTorch has no such operator."""
    l, aten, rank = job.layer, torch.ops.aten, job.rank
    nxc = l["format"] == "NXC"
    role, pool = l["role"], l["kind"].endswith("pool")
    flatten = rank == 1 and (nxc or pool)  # one axis has no channels_last, and its pools are those of a plane
    two = (lambda t: t.unsqueeze(2)) if flatten else (lambda t: t)
    n = max(rank, 2) if flatten else rank
    spread = lambda v, one: ([one] if flatten else []) + [v] * rank
    memory = (torch.channels_last_3d if n == 3 else torch.channels_last) if nxc else torch.contiguous_format
    own = lambda t: t.clone(memory_format=memory)
    kernel, stride, pad = spread(l["kernel"], 1), spread(l["stride"], 1), spread(l["pad"], 0)
    if not pool:
        transposed = l["kind"] == "conv_transpose"
        dilation, zero = spread(l["dilation"], 1), [0] * n
        if role == "forward":
            x, w = own(two(job.activation(0, True))), own(two(job.weights(1)))
            return lambda: aten.convolution(x, w, None, stride, pad, dilation, transposed, zero, l["groups"])
        data = role == "backward_data"
        y = own(two(job.activation(0 if data else 1, False)))
        x = own(two(job.activation(2 if data else 0, True)))
        w = own(two(job.weights(1 if data else 2)))
        mask = [data, not data, False]
        return lambda: aten.convolution_backward(y, x, w, None, stride, pad, dilation, transposed, zero, l["groups"],
                                                 mask)[0 if data else 1]
    dilation = [1] * n
    if l["kind"] == "avg_pool":
        forward, backward = (aten.avg_pool3d, aten.avg_pool3d_backward) if n == 3 else (aten.avg_pool2d, aten.avg_pool2d_backward)
        include = not l["exclude_pad"]
        if role == "forward":
            x = own(two(job.activation(0, True)))
            return lambda: forward(x, kernel, stride, pad, False, include, None)
        y, x = own(two(job.activation(0, False))), own(two(job.activation(2, True)))
        return lambda: backward(y, x, kernel, stride, pad, False, include, None)
    forward, backward = ((aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward) if n == 3 else
                         (aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward))
    if role == "forward":
        x = own(two(job.activation(0, True)))
        return lambda: forward(x, kernel, stride, pad, dilation, False)[0]
    if role == "backward_data":  # it has no index tensor: the peer runs its forward pass for one
        x, y = own(two(job.activation(0, True))), own(two(job.activation(1, False)))
        return lambda: backward(y, x, kernel, stride, pad, dilation, False,
                                forward(x, kernel, stride, pad, dilation, False)[1])
    y, x = own(two(job.activation(0, False))), own(two(job.activation(2, True)))
    # ours count through the whole tensor, the peer's through a plane
    indices = job.activation(3, False, torch.int64)
    plane = math.prod(l["size"])
    place = torch.arange(indices.shape[0]).view([-1] + [1] * (indices.dim() - 1)) * l["in_channels"]
    if nxc:
        indices = (indices - place * plane) // l["in_channels"]
    else:
        place = place + torch.arange(indices.shape[1]).view([1, -1] + [1] * (indices.dim() - 2))
        indices = indices - place * plane
    indices = own(two(indices))
    return lambda: backward(y, x, kernel, stride, pad, dilation, False, indices)


def onednn_peer(lib, job):
    """The quickest of oneDNN's ways, and how it is called; None where it has none."""
    l = job.layer
    if l["role"] == "backward_from_indices" or (l["kind"] == "max_pool" and l["role"] == "forward"):
        return None, ""  # its own workspace in place of indices
    three = lambda v: (v + [1, 1, 1])[:3]
    same = lambda v: three([v] * job.rank)
    code = [KINDS.index(l["kind"]), ROLES[l["role"]], int(l["format"] == "NCX"), TYPES.index(job.dtype), job.rank,
            l["batch"], l["in_channels"], l["out_channels"], l.get("groups", 1), l.get("exclude_pad", 0)]
    code += three(l["size"]) + three(l["out"]) + same(l["kernel"]) + same(l["stride"]) + same(l["pad"])
    code += same(l.get("dilation", 1))
    packed = (ctypes.c_int64 * len(code))(*code)
    handle = ctypes.c_void_p(lib.onednn_make(packed, *[ctypes.c_void_p(a or 0) for a, _ in job.address[:3]]))
    best, quickest = None, math.inf
    ways = list(range(lib.onednn_variants(handle)))
    names = [lib.onednn_name(handle, i).decode() for i in ways]
    if any("ref" not in n for n in names):
        ways = [i for i in ways if "ref" not in names[i]]
    for i in ways:
        lib.onednn_run(handle, i)
        start = time.perf_counter()
        lib.onednn_run(handle, i)
        taken = time.perf_counter() - start
        if taken < quickest:
            best, quickest = i, taken
    if best is None:
        return None, ""
    return (lambda: lib.onednn_run(handle, best)), names[best]


def rounds(calls, clock, count, budget=1.5):
    """times[i][r] of call i in round r. Short calls are repeated inside a round."""
    repeat = []
    for f in calls:
        f()
        start = time.perf_counter()
        f()
        repeat.append(max(1, int(0.002 / max(time.perf_counter() - start, 1e-7))))
    times = [[] for _ in calls]
    for _ in range(count):
        for i, f in enumerate(calls):
            start = clock()
            for _ in range(repeat[i]):
                f()
            times[i].append((clock() - start) / repeat[i])
    return times


def scaling(lib, threads):
    """How many times the work `threads` threads do of what one does."""
    def once(n):
        start = time.perf_counter()
        lib.gradkern_spin(n)
        return time.perf_counter() - start
    once(threads)
    return max(threads * once(1) / once(threads) for _ in range(3))


def same_numbers(torch, job, result, expected):
    result, expected = result.float(), expected.float()
    expected = expected.reshape(result.shape)
    scale = expected.abs().max().item() + 1e-30
    worst = (result - expected).abs().max().item() / scale
    return "" if worst < (1e-4 if job.dtype == "f32" else 2e-2) else " WRONG by %.1e" % worst


def group_of(layer):
    """The rows that belong together in the summary."""
    if layer["kind"] == "avg_pool":
        return "global average pool" if layer["kernel"] == layer["size"][0] else "average pool"
    if layer["kind"] == "max_pool":
        return "max pool, " + {"forward": "with indices", "backward_data": "gradient without indices",
                               "backward_from_indices": "gradient from indices"}[layer["role"]]
    if layer["groups"] > 1:
        return "depthwise" if layer["groups"] == layer["in_channels"] else "grouped"
    return "1x1" if layer["kernel"] == 1 else "three channels" if layer["in_channels"] <= 4 else "dense"


def summary(rows):
    """Lines of a table: geometric mean and least of the ratios of each group, layout and type."""
    groups = {}
    for r in rows:
        if r["ratio"]:
            groups.setdefault((r["group"], r["layout"], r["type"]), []).append(r["ratio"])
    yield "| group | layout | type | operators | geometric mean | least | below 0.97 |"
    yield "|---|---|---|---|---|---|---|"
    for (group, layout, dtype), ratios in sorted(groups.items()):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield "| %s | %s | %s | %d | %.2f | %.2f | %d |" % (group, layout, dtype, len(ratios), mean, min(ratios),
                                                        sum(r < 0.97 for r in ratios))


def picture(rows, title, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plot
    rows = [r for r in rows if r["ratio"]]
    names = ["%s %s %s%s" % (r["case"], r["operator"].replace("backward_", ""), r["layout"],
                             "" if r["type"] == "f32" else " " + r["type"]) for r in rows]
    figure, axes = plot.subplots(figsize=(8, 0.11 * len(rows) + 1.2))
    values = [r["ratio"] for r in rows]
    colours = ["#2a7f3f" if v >= 1.03 else "#9a9a9a" if v >= 0.97 else "#c0392b" for v in values]
    axes.barh(range(len(rows)), [math.log2(v) for v in values], color=colours, height=0.7)
    ticks = [0.25, 0.5, 1, 2, 4, 8, 16, 32]
    ticks = [t for t in ticks if t <= max(values) * 1.4 and t >= min(values) / 1.4 or t == 1]
    axes.set_xticks([math.log2(t) for t in ticks], ["%gx" % t for t in ticks])
    axes.set_yticks(range(len(rows)), names, fontsize=5.5)
    axes.invert_yaxis()
    axes.margins(y=0.005)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_title(title.replace(" beside ", "\nbeside ", 1), fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    opt = arguments()
    prepare_environment(opt)
    import torch
    torch.set_num_threads(opt.threads)
    lib = load_gradkern(opt)
    dnn = load_onednn(opt) if opt.onednn else None
    layers = json.loads(lib.gradkern_layers())
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    title = "gradkern (%s, g++ %s) beside PyTorch %s (%s)%s, %d thread%s, %d rounds, %s, %s%s" % (
        lib.gradkern_isa().decode(), compiler, torch.__version__, torch.backends.cpu.get_cpu_capability(),
        (" and oneDNN " + dnn.onednn_version().decode() if dnn else "") + (", held to " + opt.peer_isa) * bool(opt.peer_isa), opt.threads, "s"[:opt.threads - 1], opt.rounds,
        cpu, time.strftime("%Y-%m-%d"), "".join([", Inf in the first tap"] * opt.inf + [", pools of %s images" % opt.batch] *
                                                (opt.batch != "x1") + [", of %d channels" % opt.channels] * bool(opt.channels)))
    print(title, file=sys.stderr)
    rows, wrong = [], False
    clock = time.process_time if opt.threads == 1 else time.perf_counter
    words = opt.only.split(",")
    table = []

    def say(line):
        table.append(line)
        print(line, flush=True)
    head = "| case | operator | layout | type | gradkern ms | | PyTorch ms | oneDNN ms | best peer / ours | stream |%s\n|---|---|---|---|---|---|---|---|---|---|%s"
    say(head % ((" scaling |", "---|") if opt.threads > 1 else ("", "")))
    for dtype in opt.types.split(","):
        for index, layer in enumerate(layers):
            name = "%s/%s/%s" % (layer["name"], layer["role"], layer["format"])
            conv = layer["kind"].startswith("conv")
            if layer["kind"].endswith("pool"):
                layer = dict(layer)
                layer["batch"] = layer["batch"] * int(opt.batch[1:]) if opt.batch[0] == "x" else int(opt.batch)
                layer["in_channels"] = layer["out_channels"] = opt.channels or layer["in_channels"]
            if not any(w in name for w in words) or (opt.inf and (not conv or layer["role"] != "backward_data")):
                continue
            scale = scaling(lib, opt.threads) if opt.threads > 1 else 0
            job = Job(torch, lib, index, layer, dtype, opt)
            if opt.inf:
                w = job.weights(1)
                w[(slice(None), slice(None)) + (0,) * job.rank] = float("inf")
            job.run()
            weights = layer["role"] == "backward_weights"
            mine = job.weights(2) if weights else job.activation(2, layer["role"] != "forward")
            mine = mine.clone()
            note, peers, how = "", {}, ""
            with torch.no_grad():
                try:
                    call = torch_peer(torch, job)
                    theirs = call()
                    peers["PyTorch"] = call
                    if not opt.inf:
                        note += same_numbers(torch, job, mine, theirs)
                except RuntimeError:
                    pass  # it has no such operator in this type
                if opt.inf:
                    job.lib.gradkern_reference(job.handle)
                    exact = job.activation(2, True)
                    if not (torch.equal(mine.isnan(), exact.isnan()) and torch.equal(mine.isinf(), exact.isinf())):
                        note += " WRONG PATTERN"
                if dnn:
                    call, how = onednn_peer(dnn, job)
                    if call:
                        call()
                        theirs = job.weights(2) if weights else job.activation(2, layer["role"] != "forward")
                        if not opt.inf:
                            note += same_numbers(torch, job, mine, theirs)
                        peers["oneDNN"] = call
                calls = [job.run, *peers.values(), lambda: lib.gradkern_stream(job.handle)]
                times = rounds(calls, clock, opt.rounds)
            medians = [statistics.median(t) for t in times]
            ratios = {p: statistics.median(b / a for a, b in zip(times[0], times[1 + i])) for i, p in enumerate(peers)}
            ratio = min(ratios.values(), default=0)
            ms = dict(zip(peers, [m * 1e3 for m in medians[1:]]))
            speed = layer["flops"] / medians[0] * 1e-9 if conv else job.bytes / medians[0] * 1e-9
            stream = statistics.median(b / a for a, b in zip(times[0], times[-1]))
            rows.append({"case": layer["name"], "group": group_of(layer), "operator": layer["role"], "layout": layer["format"], "type": dtype,
                         "ms": medians[0] * 1e3, "speed": speed, "PyTorch": ms.get("PyTorch", 0),
                         "oneDNN": ms.get("oneDNN", 0), "oneDNN way": how, "ratio": ratio, "stream": stream,
                         "scaling": scale, "kind": layer["kind"], "note": note})
            cell = lambda p: "%.3f" % ms[p] if p in ms else ""
            say("| %s | %s | %s | %s | %.3f | %.1f %s | %s | %s | %s%s | %.0f %% |%s" % (
                layer["name"], layer["role"], layer["format"], dtype, medians[0] * 1e3, speed,
                "GF/s" if conv else "GB/s", cell("PyTorch"), cell("oneDNN"), "%.2f" % ratio if ratio else "", note,
                100 * stream, " %.2f |" % scale if scale else ""))
            wrong = wrong or bool(note)
            job.free()
    print("\n" + "\n".join(summary(rows)))
    if opt.output and rows:
        os.makedirs(opt.output, exist_ok=True)
        base = os.path.join(opt.output, opt.name or "ratios")
        with open(base + ".csv", "w", newline="") as f:
            f.write("# " + title + "\n")
            out = csv.DictWriter(f, rows[0].keys())
            out.writeheader()
            for r in rows:
                out.writerow({k: "%.4g" % v if isinstance(v, float) else v for k, v in r.items()})
        with open(base + ".md", "w") as f:
            f.write("\n".join([title + ".", "", "![ratios](%s.png)" % os.path.basename(base), "", *summary(rows), "",
                               *table, ""]))
        picture(rows, title, base + ".png")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
