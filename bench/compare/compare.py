#!/usr/bin/env python3
"""Times gradkern beside PyTorch, oneDNN and others in one process, in alternating rounds, and prints a table of ratios.

    python3 -m venv V && V/bin/pip install torch numpy matplotlib onednn onednn-devel
    V/bin/pip install onnxruntime-training==1.19.2 onnx tensorflow-cpu  # for --also
    V/bin/python bench/compare/compare.py --onednn V [--also onednn-graph,onnxruntime,tensorflow] [--arch haswell]
                                          [--types f32,bf16,f16] [--threads 1] [--only TEXT]

Needs g++ and xsimd. The layers are those of tests/cases, the same for every benchmark. Without --onednn and --also
there is PyTorch alone (oneDNN inside). Every result is compared with each peer's before anything is timed. --inf puts
Inf into the first tap of the weights of the data gradients: their pattern of Inf and NaN must then be that of the
plain-loop reference.

--relaxed also times bf16 convolutions of `precision::relaxed`, which may use the CPU's dot products of bf16.

--also onednn-graph times the operators of oneDNN's Graph, one a graph.

`--arch haswell` builds gradkern for AVX2 and holds PyTorch and oneDNN to AVX2 too; `--peer-isa AVX512_CORE_BF16` keeps
them from AMX, which gradkern does not use. ONNX Runtime cannot be held, and of TensorFlow only the oneDNN inside: with
these two such a run compares AVX2 with all that these two find in the CPU, and its title says so.

Everything that a caller with plain tensors pays is counted: packing, transposes, oneDNN's reorders (the fastest of its
own choice of layouts, plain activations with its own choice of weights, and plain descriptors), pads put around tensors
for an operator that has none. What is not: plans, primitives and sessions, made beforehand, and bringing tensors into
the order in which a framework keeps them. Tensors stay in cache as far as they fit. One thread: CPU time of the
process, pinned to a core. More: wall time, with gradkern on OpenMP threads, beside how far a loop of multiply-adds
scaled in the same minute.

ratio = the peer's time / ours, the median over the rounds. `best peer` is the one with the smallest ratio, among all
that were asked for. GF/s count useful work only (taps that meet no padding); GB/s count every tensor once. `stream` is
our speed against a loop over the same buffers that reads and writes as many bytes and computes nothing; `FMA` that of a
convolution against a loop of f32 multiply-adds in registers.
--output DIR also writes the table as Markdown, the numbers as CSV and two pictures of the ratios: of all layers, and by
group. ../README.md says which of these files the repository keeps.
"""
import argparse, csv, ctypes, json, math, os, statistics, subprocess, sys, textwrap, time

import peers
from peers import HERE, TYPES

RELAXED_TOLERANCE = 1e-2  # of results of relaxed precision, relative to the largest number of strict precision


def arguments():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--arch", default="native", help="-march of gradkern; haswell also holds PyTorch and oneDNN to AVX2")
    a.add_argument("--peer-isa", default="", help="the most that oneDNN, also inside PyTorch and TensorFlow, may "
                   "use: its ONEDNN_MAX_CPU_ISA")
    a.add_argument("--also", default="", help="more peers, some of " + ",".join(peers.NAMES) + ". Neither --arch nor "
                   "--peer-isa can hold onnxruntime and tensorflow to an instruction set, but for the oneDNN inside TensorFlow")
    a.add_argument("--rounds", type=int, default=11)
    a.add_argument("--only", default="",
                   help="layers whose name, e.g. mbv2_dw3x3_144_56/forward/NCX, contains one of these words")
    a.add_argument("--types", default="f32")
    a.add_argument("--relaxed", action="store_true", help="time bf16 convolutions of relaxed precision, too")
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--batch", default="x1", help="images of pools: a number, or x8 for 8 times those of the layer")
    a.add_argument("--channels", type=int, default=0, help="channels of pools, instead of those of the layer")
    a.add_argument("--inf", action="store_true", help="put Inf into the first tap of the weights of data gradients")
    a.add_argument("--onednn", default="", help="prefix of `pip install onednn onednn-devel`")
    a.add_argument("--xsimd", default="", help="include folder of xsimd, if not a system one")
    a.add_argument("--output", default="", help="folder for table, numbers and picture")
    a.add_argument("--name", default="", help="first part of the names of those files")
    opt = a.parse_args()
    opt.also = [name for name in opt.also.split(",") if name]
    if not set(opt.also) <= set(peers.NAMES):
        a.error("--also takes " + ", ".join(peers.NAMES))
    if "onednn-graph" in opt.also and not opt.onednn:
        a.error("--also onednn-graph needs --onednn")
    return opt


def prepare_environment(opt):
    """Keeps freed memory in the process (else the peers pay page faults) and holds them to the instruction set."""
    want = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20),
            **peers.environment(opt)}
    if any(os.environ.get(k) != v for k, v in want.items()):
        os.environ.update(want)
        os.execv(sys.executable, [sys.executable] + sys.argv)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:opt.threads])


def load_gradkern(opt):
    top = os.path.join(HERE, "..", "..")
    flags = ["-march=" + opt.arch, "-fopenmp", "-I" + os.path.join(top, "include"), "-I" + os.path.join(top, "tests")]
    lib = peers.compile_library("gradkern_c.cpp", *flags, *(["-isystem" + opt.xsimd] if opt.xsimd else []))
    for name in ("make", "tensor"):
        getattr(lib, "gradkern_" + name).restype = ctypes.c_void_p
    for name in ("layers", "isa"):
        getattr(lib, "gradkern_" + name).restype = ctypes.c_char_p
    lib.gradkern_spin_flops.restype = ctypes.c_double
    for name in ("run", "reference", "stream", "free"):
        getattr(lib, "gradkern_" + name).argtypes = [ctypes.c_void_p]
    lib.gradkern_tensor.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)]
    return lib


class Job:
    """One layer in one type: our buffers, as bare memory and as tensors of the peer in [N][C][spatial] order."""

    def __init__(self, torch, lib, index, layer, dtype, opt, relaxed=False):
        self.torch, self.lib, self.layer, self.dtype = torch, lib, layer, dtype
        number = len(TYPES) if relaxed else TYPES.index(dtype)
        self.handle = ctypes.c_void_p(lib.gradkern_make(index, number, opt.threads, layer["batch"], opt.channels))
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

    def result(self):
        """What is in the output."""
        weights = self.layer["role"] == "backward_weights"
        return self.weights(2) if weights else self.activation(2, self.layer["role"] != "forward")

    def run(self):
        if self.lib.gradkern_run(self.handle) != 0:
            sys.exit("gradkern refused " + self.layer["name"])

    def free(self):
        self.lib.gradkern_free(self.handle)


def rounds(calls, clock, count, budget=1.5):
    """times[i][r] of call i in round r. Short calls are repeated inside a round. Each is called as often beforehand: else
    those that share gradkern's tensors would find them in the cache, where another has just run."""
    repeat = []
    for f in calls:
        f()
        start = time.perf_counter()
        f()
        repeat.append(max(1, int(0.002 / max(time.perf_counter() - start, 1e-7))))
    times = [[] for _ in calls]
    for _ in range(count):
        for i, f in enumerate(calls):
            for _ in range(repeat[i]):
                f()
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


def same_numbers(job, result, expected, name, tolerance):
    result, expected = result.float(), expected.float()
    expected = expected.reshape(result.shape)
    scale = expected.abs().max().item() + 1e-30
    worst = (result - expected).abs().max().item() / scale
    good = worst < (1e-4 if job.dtype == "f32" else tolerance)
    return "" if good else " WRONG by %.1e beside %s" % (worst, name)


def ways_of(everyone, job, mine, check):
    """The ways of the peers that have the operator, by name, and a note on numbers that are not ours."""
    ways, note = {}, ""
    for peer in everyone:
        try:
            way = peer.way(job)
            theirs = way and way.numbers(way.call())
        except peer.refusals:
            continue  # it has no such operator in this type or layout
        if way:
            ways[peer.name] = way
            note += same_numbers(job, mine, theirs, peer.name, peer.tolerance) if check else ""
    return ways, note


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


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(rows):
    """Lines of a table: geometric mean and least of the ratios of each group, layout and type."""
    groups = {}
    for r in rows:
        for ratio, suffix in ((r["ratio"], ""), (r["relaxed ratio"], ", relaxed")):
            if ratio:
                groups.setdefault((r["group"], r["layout"], r["type"] + suffix), []).append(ratio)
    yield "| group | layout | type | operators | geometric mean | least | below 0.97 |"
    yield "|---|---|---|---|---|---|---|"
    for (group, layout, dtype), ratios in sorted(groups.items()):
        yield "| %s | %s | %s | %d | %.2f | %.2f | %d |" % (group, layout, dtype, len(ratios), geometric_mean(ratios),
                                                        min(ratios), sum(r < 0.97 for r in ratios))


def plotting():
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plot
    return plot


def colours_of(ratios):
    """Ahead, a tie, or behind."""
    return ["#2a7f3f" if v >= 1.03 else "#9a9a9a" if v >= 0.97 else "#c0392b" for v in ratios]


def picture(rows, title, path):
    plot = plotting()
    rows = [r for r in rows if r["ratio"]]
    names = ["%s %s %s%s" % (r["case"], r["operator"].replace("backward_", ""), r["layout"],
                             "" if r["type"] == "f32" else " " + r["type"]) for r in rows]
    figure, axes = plot.subplots(figsize=(8, 0.11 * len(rows) + 1.2))
    values = [r["ratio"] for r in rows]
    axes.barh(range(len(rows)), [math.log2(v) for v in values], color=colours_of(values), height=0.7)
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


def overview(rows, title, path):
    """Every ratio as a dot, a line for each group and layout, with the geometric mean."""
    plot = plotting()
    lines = {}
    for r in rows:
        if r["ratio"]:
            lines.setdefault("%s, %s" % (r["group"], r["layout"]), []).append(r["ratio"])
    figure, axes = plot.subplots(figsize=(8, 0.26 * len(lines) + 1.1))
    lines = dict(sorted(lines.items()))
    for i, values in enumerate(lines.values()):
        axes.scatter(values, [i] * len(values), s=22, c=colours_of(values), alpha=0.6, linewidths=0)
        axes.scatter(geometric_mean(values), i, s=110, marker="|", c="black")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(plot.FuncFormatter(lambda v, _: "%gx" % v))
    axes.set_yticks(range(len(lines)), lines, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_xlabel("fastest peer's time / gradkern's: a dot for each operator, a bar for the geometric mean", fontsize=8)
    axes.set_title(textwrap.fill(title, 130), fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def title_of(opt, lib, everyone):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    names = [peer.title for peer in everyone]
    parts = ["gradkern (%s, g++ %s) beside %s" % (lib.gradkern_isa().decode(), compiler,
                                                 " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])))]
    parts += ["held to " + opt.peer_isa] * bool(opt.peer_isa)
    parts += ["%d thread%s" % (opt.threads, "s"[:opt.threads - 1]), "%d rounds" % opt.rounds, cpu,
              time.strftime("%Y-%m-%d")]
    parts += ["Inf in the first tap"] * opt.inf + ["pools of %s images" % opt.batch] * (opt.batch != "x1")
    return ", ".join(parts + ["of %d channels" % opt.channels] * bool(opt.channels))


def main():
    opt = arguments()
    prepare_environment(opt)
    import torch
    lib = load_gradkern(opt)
    everyone = peers.load(opt)
    layers = json.loads(lib.gradkern_layers())
    title = title_of(opt, lib, everyone)
    print(title, file=sys.stderr)
    rows, wrong = [], False
    clock = time.process_time if opt.threads == 1 else time.perf_counter
    words = opt.only.split(",")
    table = []

    def say(line):
        table.append(line)
        print(line, flush=True)
    columns = ["PyTorch", "oneDNN", *(peers.NAMES[name] for name in opt.also)]
    heads = ["case", "operator", "layout", "type", "gradkern ms", "", *(name + " ms" for name in columns),
             "best peer / ours", "stream", "FMA", *["scaling"] * (opt.threads > 1),
             *["relaxed ms", "best peer / relaxed"] * opt.relaxed]
    say("|" + "".join(" %s |" % h if h else " |" for h in heads) + "\n|" + "---|" * len(heads))
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
            mine = job.result().clone()
            relaxed = opt.relaxed and conv and dtype == "bf16" and Job(torch, lib, index, layer, dtype, opt, True)
            with torch.no_grad():
                ways, note = ways_of(everyone, job, mine, not opt.inf)
                if opt.inf:
                    job.lib.gradkern_reference(job.handle)
                    exact = job.activation(2, True)
                    if not (torch.equal(mine.isnan(), exact.isnan()) and torch.equal(mine.isinf(), exact.isinf())):
                        note += " WRONG PATTERN"
                calls = [job.run, *(w.call for w in ways.values()), lambda: lib.gradkern_stream(job.handle)]
                if conv:
                    calls.append(lambda: lib.gradkern_spin(opt.threads))
                if relaxed:
                    relaxed.run()
                    note += same_numbers(job, relaxed.result(), mine, "strict precision", RELAXED_TOLERANCE)
                    calls.append(relaxed.run)
                times = rounds(calls, clock, opt.rounds)
            medians = [statistics.median(t) for t in times]

            def behind(call, other):
                return statistics.median(b / a for a, b in zip(times[call], times[other]))

            def best_peer(call):
                return min((behind(call, 1 + i) for i in range(len(ways))), default=0)
            ratio = best_peer(0)
            ms = dict(zip(ways, [m * 1e3 for m in medians[1:]]))
            speed = layer["flops"] / medians[0] * 1e-9 if conv else job.bytes / medians[0] * 1e-9
            stream = behind(0, 1 + len(ways))
            peak = conv and layer["flops"] / lib.gradkern_spin_flops() / opt.threads * behind(0, 2 + len(ways))
            second = (medians[-1] * 1e3, best_peer(-1)) if relaxed else ()
            how = {name + " way": ways[name].how if name in ways else "" for name in columns if name != "PyTorch"}
            rows.append({"case": layer["name"], "group": group_of(layer), "operator": layer["role"],
                         "layout": layer["format"], "type": dtype, "ms": medians[0] * 1e3, "speed": speed,
                         **{name: ms.get(name, 0) for name in columns}, **how, "ratio": ratio, "stream": stream,
                         "fma": float(peak),
                         **dict(zip(["relaxed ms", "relaxed ratio"], second or (0, 0))),
                         "scaling": scale, "kind": layer["kind"], "note": note})
            cells = ["%.3f" % ms[name] if name in ms else "" for name in columns]
            of_fma = "%.0f %%" % (100 * peak) if conv else ""
            say("| %s | %s | %s | %s | %.3f | %.1f %s | %s | %s%s | %.0f %% | %s |%s%s" % (
                layer["name"], layer["role"], layer["format"], dtype, medians[0] * 1e3, speed,
                "GF/s" if conv else "GB/s", " | ".join(cells), "%.2f" % ratio if ratio else "", note,
                100 * stream, of_fma, " %.2f |" % scale if scale else "", " %.3f | %.2f |" % second if second else ""))
            wrong = wrong or bool(note)
            for used in filter(None, [job, relaxed]):
                used.free()
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
            f.write("\n".join([title + ".", "", *summary(rows), "", *table, ""]))
        picture(rows, title, base + ".png")
        overview(rows, title, base + "-groups.png")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
