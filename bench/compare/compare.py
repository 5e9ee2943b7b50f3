#!/usr/bin/env python3
"""Times gradkern beside PyTorch, oneDNN and others in one process, in alternating rounds, and prints a table of ratios.

    python3 -m venv V && V/bin/pip install torch numpy matplotlib onednn onednn-devel
    V/bin/pip install onnxruntime-training==1.19.2 onnx tensorflow-cpu  # for --also
    V/bin/python bench/compare/compare.py --onednn V [--also onednn-graph,onnxruntime,tensorflow] [--arch haswell]
                                          [--types f32,bf16,f16] [--threads 1] [--only TEXT]

Needs g++ and xsimd. The layers are those of tests/cases, the same for every benchmark: the named ones, and with --layers
zoo or all those of zoo.json. Without --onednn and --also there is PyTorch alone (oneDNN inside). Every result is compared
with each peer's before anything is timed, or with the plain-loop reference where no peer has the operator. --inf puts Inf
into the first tap of the weights of the data gradients: their pattern of Inf and NaN must then be that of the reference.

    V/bin/python bench/compare/compare.py --onednn V --layers zoo --rounds 3 --sample 10 --output results --name zoo

The zoo has 1,730 rows, so fewer rounds or a sample of the rows are enough for its tables: by group, by network and overall.
A peer that takes over 20 times as long as gradkern (and over 20 ms) is timed in one call only. Its time has a "*".

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
that were asked for. A ratio of 0.97 or more is level or ahead. Of a network, the times of all its operators are added up. GF/s count useful work only (taps that meet no padding); GB/s count every tensor once. `stream` is
our speed against a loop over the same buffers that reads and writes as many bytes and computes nothing; `FMA` that of a
convolution against a loop of f32 multiply-adds in registers.
--output DIR also writes the tables as Markdown, the numbers as CSV and two pictures of the ratios: of all layers, and by
group. Of over 300 rows the Markdown has only those that are behind or wrong, and there is no picture of all layers. ../README.md
says which of these files the repository keeps.
"""
import argparse, csv, ctypes, json, math, os, resource, statistics, subprocess, sys, textwrap, time

import peers
from peers import HERE, SLOW, TYPES, seconds

LEVEL = 0.97  # a ratio that is level or ahead
LONG = 300  # rows that are too many for a page and a picture
RELAXED_TOLERANCE = 1e-2  # of results of relaxed precision, relative to the largest number of strict precision


def arguments():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--arch", default="native", help="-march of gradkern; haswell also holds PyTorch and oneDNN to AVX2")
    a.add_argument("--peer-isa", default="", help="the most that oneDNN, also inside PyTorch and TensorFlow, may "
                   "use: its ONEDNN_MAX_CPU_ISA")
    a.add_argument("--also", default="", help="more peers, some of " + ",".join(peers.NAMES) + ". Neither --arch nor "
                   "--peer-isa can hold onnxruntime and tensorflow to an instruction set, but for the oneDNN inside TensorFlow")
    a.add_argument("--layers", default="project", choices=["project", "zoo", "all"],
                   help="the named layers of tests/cases, those of its zoo.json, or both")
    a.add_argument("--sample", type=int, default=1, metavar="N", help="only one of N rows")
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
    flags = ["-march=" + opt.arch, "-fopenmp", "-I" + os.path.join(top, "include"), "-I" + os.path.join(top, "tests"),
             '-DGRADKERN_ZOO="%s"' % os.path.join(top, "tests", "cases", "zoo.json")]
    lib = peers.compile_library("gradkern_c.cpp", *flags, *(["-isystem" + opt.xsimd] if opt.xsimd else []))
    for name in ("make", "tensor"):
        getattr(lib, "gradkern_" + name).restype = ctypes.c_void_p
    for name in ("layers", "isa", "plan"):
        getattr(lib, "gradkern_" + name).restype = ctypes.c_char_p
    lib.gradkern_spin_flops.restype = ctypes.c_double
    for name in ("run", "reference", "stream", "free", "plan"):
        getattr(lib, "gradkern_" + name).argtypes = [ctypes.c_void_p]
    lib.gradkern_tensor.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)]
    return lib


def layers_of(lib, which):
    """The layers of a list, each with its place among all of gradkern's."""
    return [(i, layer) for i, layer in enumerate(json.loads(lib.gradkern_layers())) if which in ("all", layer["list"])]


def sample(rows, n):
    """One of n rows, in each n of them at another place: else rows of some operators would never be chosen."""
    return [row for i, row in enumerate(rows) if i % n == i // n % n]


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
        self.seconds = 0  # of a run

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
        kernel = l["kernel"]
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

    def numbers_of(self, call):
        """The output that a call writes, all of it."""
        self.result().fill_(math.nan)
        call()
        return self.result().clone()

    def expected(self):
        """The output of the plain-loop reference."""
        return self.numbers_of(lambda: self.lib.gradkern_reference(self.handle))

    def plan(self):
        """What the plan says of itself, without operator and instruction set."""
        return self.lib.gradkern_plan(self.handle).decode().split(": ", 1)[1].rsplit(", ", 1)[0]

    def free(self):
        self.lib.gradkern_free(self.handle)


def rounds(calls, clock, count, peers_at, once):
    """times[i][r] of call i in round r. Short calls are repeated inside a round. Each is called as often beforehand: else
    those that share gradkern's tensors would find them in the cache, where another has just run. `once` has the time of calls
    that are not called again; those of the peers that are slow beside call 0 are put there after one call."""
    repeat, own = {}, 0
    for i, f in enumerate(calls):
        if i in once:
            continue
        f()
        start = clock()
        f()
        taken = clock() - start
        if i == 0:
            own = taken
        if i in peers_at and is_slow(taken, own):
            once[i] = taken
        else:
            repeat[i] = max(1, int(0.002 / max(taken, 1e-7)))
    times = [[once[i]] * count if i in once else [] for i in range(len(calls))]
    for _ in range(count):
        for i, n in repeat.items():
            for _ in range(n):
                calls[i]()
            start = clock()
            for _ in range(n):
                calls[i]()
            times[i].append((clock() - start) / n)
    return times


def is_slow(taken, own):
    """Whether more calls of a peer would take long and tell little."""
    return taken > max(SLOW * own, 0.02)


def scaling(lib, threads):
    """How many times the work `threads` threads do of what one does."""
    def once(n):
        return seconds(lambda: lib.gradkern_spin(n))
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
    """The ways of the peers that have the operator, by name; the time of a first call that is not worth a second one; and a
    note on numbers that are not ours."""
    ways, once, note = {}, {}, ""
    for peer in everyone:
        try:
            way = peer.way(job)
            if not way:
                continue
            job.result().fill_(math.nan)  # where some peers write
            start = time.perf_counter()
            result = way.call()
            taken = time.perf_counter() - start
            theirs = way.numbers(result)
        except peer.refusals:
            continue  # it has no such operator in this type or layout
        ways[peer.name] = way
        if taken > max(SLOW * job.seconds, 1):  # what a library does at its first call takes less than a second
            once[peer.name] = taken
        note += same_numbers(job, mine, theirs, peer.name, peer.tolerance) if check else ""
    if not ways and check:
        note = same_numbers(job, mine, job.expected(), "the reference", 2e-2)
    return ways, once, note


def group_of(layer):
    """The rows that belong together in the summary."""
    kind, kernel, strides, groups = layer["kind"], layer["kernel"], layer["strides"], layer.get("groups", 1)
    if kind == "avg_pool":
        return "global average pool" if kernel == layer["size"] else "average pool"
    if kind.endswith("pool"):
        return {"max_pool": "max pool", "lp_pool": "Lp pool"}[kind]
    if groups > 1:
        if groups != layer["in_channels"]:
            return "grouped"
        return "depthwise" + (" large" if max(kernel) > 7 else " s2" if max(strides) > 1 else "")
    if math.prod(layer["size"]) == 1 or math.prod(layer["out"]) == 1:
        return "single position"
    if max(kernel) == 1:
        return "1x1" + " s2" * (max(strides) > 1)
    if kernel == strides:
        return "patches"
    if layer["in_channels"] <= 4:
        return "few input channels"
    if layer["out_channels"] <= 4:
        return "few output channels"
    if max(layer["dilations"]) > 1:
        return "dilated"
    if kind == "conv_transpose":
        return "transposed"
    return "large kernel" if max(kernel) >= 7 else "dense %d-D" % len(kernel)


def network_of(layer):
    """The first word of the name. Pools are named by their windows."""
    word = layer["name"].split("_")[0]
    return "pools" if word.startswith(("avg", "max", "global")) else word


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table_of(heads, lines):
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for line in lines:
        yield "| " + " | ".join("%.2f" % v if isinstance(v, float) else str(v) for v in line) + " |"


def in_order(rows, key):
    """Lists of rows with the same key, by key."""
    found = {}
    for r in rows:
        found.setdefault(key(r), []).append(r)
    return sorted(found.items())


def ratios_of(rows):
    """Type and ratio, those of relaxed precision, too. Rows without a peer have none."""
    return [{**r, "ratio": r[ratio], "type": r["type"] + suffix} for r in rows
            for ratio, suffix in (("ratio", ""), ("relaxed ratio", ", relaxed")) if r[ratio]]


def statistics_of(rows):
    """Operators, how many of them are level or ahead, geometric mean, least; and the mean of each layout."""
    def mean(layout):
        ratios = [r["ratio"] for r in rows if layout in r["layout"]]
        return geometric_mean(ratios) if ratios else ""
    ratios = [r["ratio"] for r in rows]
    share = 100 * sum(v >= LEVEL for v in ratios) / len(ratios)
    return len(rows), "%.0f %%" % share, geometric_mean(ratios), min(ratios), mean("NCX"), mean("NXC")


def network_sums(rows):
    """Operators, and in each layout the fastest peer's times of all together / ours."""
    def ratio(layout):
        of = [r for r in rows if r["layout"] == layout]
        return sum(r["best peer"] for r in of) / sum(r["ms"] for r in of) if of else ""
    return len(rows), ratio("NCX"), ratio("NXC")


def summary(rows):
    """Lines of tables of the ratios: overall, by group and operator, by network."""
    means = ["operators", "level or ahead", "geometric mean", "least", "mean NCX", "mean NXC"]
    ratios = ratios_of(rows)
    yield from table_of(["type", *means], [(key, *statistics_of(of)) for key, of in in_order(ratios, lambda r: r["type"])])
    yield ""
    yield from table_of(["group", "operator", "type", *means],
                        [(*key, *statistics_of(of)) for key, of in
                         in_order(ratios, lambda r: (r["group"], r["operator"], r["type"]))])
    zoo = [r for r in rows if r["list"] == "zoo" and r["ratio"]]
    if zoo:
        yield ""
        yield from table_of(["network", "type", "operators", "sum NCX", "sum NXC"],
                            [(*key, *network_sums(of)) for key, of in in_order(zoo, lambda r: (r["network"], r["type"]))])


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
    axes.set_title(textwrap.fill(title, 95), fontsize=7)
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
    parts += ["layers: " + opt.layers] * (opt.layers != "project") + ["one of %d rows" % opt.sample] * (opt.sample > 1)
    parts += ["Inf in the first tap"] * opt.inf + ["pools of %s images" % opt.batch] * (opt.batch != "x1")
    return ", ".join(parts + ["of %d channels" % opt.channels] * bool(opt.channels))


def name_of(layer):
    return "%s/%s/%s" % (layer["name"], layer["role"], layer["format"])


def sized(layer, opt):
    """A layer with the images and channels that were asked for."""
    if not layer["kind"].endswith("pool"):
        return layer
    batch = layer["batch"] * int(opt.batch[1:]) if opt.batch[0] == "x" else int(opt.batch)
    return {**layer, "batch": batch, **({"in_channels": opt.channels, "out_channels": opt.channels} if opt.channels else {})}


def chosen(lib, opt):
    """The layers that were asked for, with their places."""
    def wanted(layer):
        conv = layer["kind"].startswith("conv")
        return (any(word in name_of(layer) for word in opt.only.split(","))
                and not (opt.inf and (not conv or layer["role"] != "backward_data")))
    return sample([(i, sized(layer, opt)) for i, layer in layers_of(lib, opt.layers) if wanted(layer)], opt.sample)


def measure(torch, lib, everyone, columns, index, layer, dtype, opt):
    """The row of a layer in one type."""
    conv = layer["kind"].startswith("conv")
    clock = time.process_time if opt.threads == 1 else time.perf_counter
    scale = scaling(lib, opt.threads) if opt.threads > 1 else 0
    job = Job(torch, lib, index, layer, dtype, opt)
    if opt.inf:
        w = job.weights(1)
        w[(slice(None), slice(None)) + (0,) * job.rank] = float("inf")
    mine = job.numbers_of(job.run)
    job.seconds = seconds(job.run)
    relaxed = opt.relaxed and conv and dtype == "bf16" and Job(torch, lib, index, layer, dtype, opt, True)
    ways, once, note = ways_of(everyone, job, mine, not opt.inf)
    if opt.inf:
        exact = job.expected()
        if not (torch.equal(mine.isnan(), exact.isnan()) and torch.equal(mine.isinf(), exact.isinf())):
            note += " WRONG PATTERN"
    calls = [job.run, *(w.call for w in ways.values()), lambda: lib.gradkern_stream(job.handle)]
    if conv:
        calls.append(lambda: lib.gradkern_spin(opt.threads))
    if relaxed:
        note += same_numbers(job, relaxed.numbers_of(relaxed.run), mine, "strict precision", RELAXED_TOLERANCE)
        calls.append(relaxed.run)
    names = list(ways)
    once = {1 + names.index(name): taken for name, taken in once.items()}
    times = rounds(calls, clock, opt.rounds, range(1, 1 + len(ways)), once)
    medians = [statistics.median(t) for t in times]

    def behind(call, other):
        return statistics.median(b / a for a, b in zip(times[call], times[other]))

    def best_peer(call):
        return min((behind(call, 1 + i) for i in range(len(ways))), default=0)
    ms = dict(zip(names, [m * 1e3 for m in medians[1:]]))
    how = {name + " way": ways[name].how if name in ways else "" for name in columns if name != "PyTorch"}
    row = {"list": layer["list"], "case": layer["name"], "network": network_of(layer), "group": group_of(layer),
           "operator": layer["role"], "layout": layer["format"], "type": dtype, "ms": medians[0] * 1e3,
           "speed": (layer["flops"] if conv else job.bytes) / medians[0] * 1e-9,
           **{name: ms.get(name, 0) for name in columns}, **how, "best peer": min(ms.values(), default=0),
           "once": ", ".join(names[i - 1] for i in sorted(once)), "ratio": best_peer(0),
           "stream": behind(0, 1 + len(ways)),
           "fma": layer["flops"] / lib.gradkern_spin_flops() / opt.threads * behind(0, 2 + len(ways)) if conv else 0.0,
           "relaxed ms": medians[-1] * 1e3 if relaxed else 0, "relaxed ratio": best_peer(-1) if relaxed else 0,
           "scaling": scale, "kind": layer["kind"], "note": note, "plan": job.plan()}
    for way in ways.values():
        way.free()
    for used in filter(None, [job, relaxed]):
        used.free()
    return row


def line_of(r, columns, opt):
    """A row of the table."""
    conv = r["kind"].startswith("conv")
    cells = [r["case"], r["operator"], r["layout"], r["type"], "%.3f" % r["ms"],
             "%.1f %s" % (r["speed"], "GF/s" if conv else "GB/s")]
    cells += ["%.3f%s" % (r[name], "*" * (name in r["once"].split(", "))) if r[name] else "" for name in columns]
    cells += [("%.2f" % r["ratio"] if r["ratio"] else "") + r["note"], "%.0f %%" % (100 * r["stream"]),
              "%.0f %%" % (100 * r["fma"]) if conv else ""]
    cells += ["%.2f" % r["scaling"]] * (opt.threads > 1)
    if opt.relaxed:
        cells += ["%.3f" % r["relaxed ms"], "%.2f" % r["relaxed ratio"]] if r["relaxed ms"] else ["", ""]
    return "| " + " | ".join(cells) + " |"


def write(opt, title, rows, head, columns):
    os.makedirs(opt.output, exist_ok=True)
    base = os.path.join(opt.output, opt.name or "ratios")
    with open(base + ".csv", "w", newline="") as f:
        f.write("# " + title + "\n")
        out = csv.DictWriter(f, rows[0].keys())
        out.writeheader()
        for r in rows:
            out.writerow({k: "%.4g" % v if isinstance(v, float) else v for k, v in r.items()})
    behind = [r for r in rows if r["note"] or any(0 < r[k] < LEVEL for k in ("ratio", "relaxed ratio"))]
    shown = rows if len(rows) <= LONG else behind
    with open(base + ".md", "w") as f:
        f.write("\n".join([title + ".", "", *summary(rows), "", head, *(line_of(r, columns, opt) for r in shown), ""]))
    if len(rows) <= LONG:
        picture(rows, title, base + ".png")
    overview(rows, title, base + "-groups.png")


def main():
    opt = arguments()
    prepare_environment(opt)
    import torch
    lib = load_gradkern(opt)
    everyone = peers.load(opt)
    title = title_of(opt, lib, everyone)
    print(title, file=sys.stderr)
    columns = ["PyTorch", "oneDNN", *(peers.NAMES[name] for name in opt.also)]
    heads = ["case", "operator", "layout", "type", "gradkern ms", "", *(name + " ms" for name in columns),
             "best peer / ours", "stream", "FMA", *["scaling"] * (opt.threads > 1),
             *["relaxed ms", "best peer / relaxed"] * opt.relaxed]
    head = "|" + "".join(" %s |" % h if h else " |" for h in heads) + "\n|" + "---|" * len(heads)
    print(head, flush=True)
    rows = []
    for dtype in opt.types.split(","):
        for index, layer in chosen(lib, opt):
            with torch.no_grad():
                rows.append(measure(torch, lib, everyone, columns, index, layer, dtype, opt))
            print(line_of(rows[-1], columns, opt), flush=True)
            ctypes.CDLL(None).malloc_trim(0)  # freed memory is kept for a layer, not for all
    print("\n" + "\n".join(summary(rows)))
    print("%.2f GB of memory at most" % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20), file=sys.stderr)
    if opt.output and rows:
        write(opt, title, rows, head, columns)
    return any(r["note"] for r in rows)


if __name__ == "__main__":
    sys.exit(main())
