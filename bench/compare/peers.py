"""The libraries that compare.py times gradkern beside: PyTorch, oneDNN and its Graph, ONNX Runtime and TensorFlow.

Each has a function that takes a job, one layer in one type with gradkern's buffers, and returns the Way that the
library computes it, or None where it has no such operator. oneDNN reads and writes gradkern's own plain tensors. The
others get theirs beforehand, weights in the order of the framework; what a call does to those is timed.
"""
import ctypes, functools, math, os, subprocess, tempfile, time
from typing import Any, Callable, NamedTuple

ROLES = {"forward": 0, "backward_data": 1, "backward_weights": 2, "backward_from_indices": 3}
KINDS = ["convolution", "conv_transpose", "avg_pool", "max_pool"]  # of layers that peers are asked for
TYPES = ["f32", "f16", "bf16"]
SLOW = 20  # times gradkern's: a peer that takes longer is called once, whatever the number of rounds
HERE = os.path.dirname(os.path.abspath(__file__))
# those that --also takes
NAMES = {"onednn-graph": "oneDNN Graph", "onnxruntime": "ONNX Runtime", "tensorflow": "TensorFlow"}
# where an instruction set is asked for
HELD = {"onednn-graph": "held", "onnxruntime": "not held", "tensorflow": "oneDNN inside held"}


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Way(NamedTuple):
    """How a library computes a job."""
    call: Callable  # computes the operator once
    numbers: Callable  # what `call` returned as a torch tensor, its axes in the order of Job.result
    how: str = ""
    free: Callable = lambda: None  # gives back what Python does not


class Peer(NamedTuple):
    name: str
    title: str  # with its version
    way: Callable  # of a job; None where the library has no such operator
    refusals: Any = ()  # what way or the first call raises where it has none in this type or layout
    tolerance: float = 2e-2  # of numbers of 16 bits, relative to the largest one


def environment(opt):
    """What has to be in the environment before the peers are loaded."""
    want = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(opt.threads)}
    if opt.arch == "haswell":
        want.update(ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2")  # 1x1: MKL
    if opt.peer_isa:
        want.update(ONEDNN_MAX_CPU_ISA=opt.peer_isa)
    if opt.onednn:  # the wheel's CPU engine is an OpenCL device
        lib = os.path.join(os.path.abspath(opt.onednn), "lib")
        want.update(OCL_ICD_FILENAMES=os.path.join(lib, "libintelocl.so"), LD_LIBRARY_PATH=lib)
    if "tensorflow" in opt.also:
        want.update(TF_ENABLE_ONEDNN_OPTS="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    return want


def load(opt):
    """The peers that were asked for."""
    loaders = {"onednn-graph": load_onednn_graph, "onnxruntime": load_onnxruntime, "tensorflow": load_tensorflow}
    held = opt.arch == "haswell" or opt.peer_isa
    found = [load_torch(opt), *([load_onednn(opt)] if opt.onednn else [])]
    for name in opt.also:
        peer = loaders[name](opt)
        found.append(peer._replace(title="%s (%s)" % (peer.title, HELD[name])) if held else peer)
    return found


def compile_library(source, *flags):
    out = os.path.join(tempfile.mkdtemp(), "library.so")
    subprocess.run(["g++", "-std=c++20", "-O3", "-DNDEBUG", "-shared", "-fPIC", os.path.join(HERE, source), "-o", out,
                    *flags], check=True)
    return ctypes.CDLL(out)


def load_torch(opt):
    import torch
    torch.set_num_threads(opt.threads)
    title = "PyTorch %s (%s)" % (torch.__version__, torch.backends.cpu.get_cpu_capability())
    return Peer("PyTorch", title, functools.partial(torch_peer, torch), RuntimeError)


def torch_peer(torch, job):
    call = torch_call(torch, job) if job.layer["kind"] in KINDS else None
    return call and Way(call, lambda result: result)


def torch_call(torch, job):
    """NXC is its channels_last; results of NXC come back in whatever order it likes. Its operators pad both ends of an axis
    by the same number: F.pad, which is timed, does the rest. None for transposed convolutions and pools of such pads, which
    no layer has."""
    l, aten, rank = job.layer, torch.ops.aten, job.rank
    nxc = l["format"] == "NXC"
    role, pool = l["role"], l["kind"].endswith("pool")
    flatten = rank == 1 and (nxc or pool)  # one axis has no channels_last, and its pools are those of a plane
    two = (lambda t: t.unsqueeze(2)) if flatten else (lambda t: t)
    n = max(rank, 2) if flatten else rank
    spread = lambda v, one: ([one] if flatten else []) + v
    memory = (torch.channels_last_3d if n == 3 else torch.channels_last) if nxc else torch.contiguous_format
    own = lambda t: t.clone(memory_format=memory)
    kernel, stride = spread(l["kernel"], 1), spread(l["strides"], 1)
    pad = spread(list(map(min, l["pads_begin"], l["pads_end"])), 0)
    # what is left to F.pad: begin and end of each axis, the last one first
    more = [p - q for begin, end, q in reversed(list(zip(spread(l["pads_begin"], 0), spread(l["pads_end"], 0), pad)))
            for p in (begin, end)]
    uneven = any(more)
    if uneven and l["kind"] != "convolution":
        return None
    if not pool:
        transposed = l["kind"] == "conv_transpose"
        dilation, extra = spread(l["dilations"], 1), spread(l["output_padding"], 0)
        padded = (lambda t: torch.nn.functional.pad(t, more)) if uneven else (lambda t: t)
        cropped = (lambda t: torch.nn.functional.pad(t, [-p for p in more])) if uneven else (lambda t: t)  # as autograd does
        if role == "forward":
            x, w = own(two(job.activation(0, True))), own(two(job.weights(1)))
            return lambda: aten.convolution(padded(x), w, None, stride, pad, dilation, transposed, extra, l["groups"])
        data = role == "backward_data"
        y = own(two(job.activation(0 if data else 1, False)))
        x = own(two(job.activation(2 if data else 0, True)))
        w = own(two(job.weights(1 if data else 2)))
        rest = None, stride, pad, dilation, transposed, extra, l["groups"], [data, not data, False]
        if data:
            x = padded(x)  # only its shape counts
            return lambda: cropped(aten.convolution_backward(y, x, w, *rest)[0])
        return lambda: aten.convolution_backward(y, padded(x), w, *rest)[1]
    dilation = [1] * n
    if l["kind"] == "avg_pool":
        forward, backward = ((aten.avg_pool3d, aten.avg_pool3d_backward) if n == 3 else
                             (aten.avg_pool2d, aten.avg_pool2d_backward))
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


@functools.cache
def onednn_library(path):
    prefix = os.path.abspath(path)
    lib = compile_library("onednn_c.cpp", "-I" + os.path.join(prefix, "include"), "-L" + os.path.join(prefix, "lib"),
                          "-ldnnl", "-Wl,-rpath-link," + os.path.join(prefix, "lib"))
    for make in (lib.onednn_make, lib.onednn_graph_make):
        make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_void_p] * 4
    lib.onednn_free.argtypes = lib.onednn_graph_free.argtypes = [ctypes.c_void_p]
    lib.onednn_run.argtypes = lib.onednn_name.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.onednn_variants.argtypes = lib.onednn_graph_run.argtypes = [ctypes.c_void_p]
    lib.onednn_name.restype = lib.onednn_version.restype = ctypes.c_char_p
    return lib


def load_onednn(opt):
    lib = onednn_library(opt.onednn)
    return Peer("oneDNN", "oneDNN " + lib.onednn_version().decode(), functools.partial(onednn_peer, lib))


def load_onednn_graph(opt):
    lib = onednn_library(opt.onednn)
    return Peer("oneDNN Graph", "oneDNN Graph", functools.partial(onednn_graph_peer, lib))


def onednn_make(make, job):
    """What `make` makes of a job; None for pools with indices, in whose place oneDNN has a workspace of its own."""
    l = job.layer
    if (l["kind"] not in KINDS or l["role"] == "backward_from_indices"
            or (l["kind"] == "max_pool" and l["role"] == "forward")):
        return None
    ones, zeros = [1] * job.rank, [0] * job.rank
    pads_end = [p - q for p, q in zip(l["pads_end"], l.get("output_padding", zeros))]  # it has no output padding
    code = [KINDS.index(l["kind"]), ROLES[l["role"]], int(l["format"] == "NCX"), TYPES.index(job.dtype), job.rank,
            l["batch"], l["in_channels"], l["out_channels"], l.get("groups", 1), l.get("exclude_pad", 0)]
    for axes in l["size"], l["out"], l["kernel"], l["strides"], l["pads_begin"], pads_end, l.get("dilations", ones):
        code += (axes + [1, 1, 1])[:3]
    packed = (ctypes.c_int64 * len(code))(*code)
    made = make(packed, *[ctypes.c_void_p(a or 0) for a, _ in job.address[:3]])
    return made and ctypes.c_void_p(made)


def onednn_peer(lib, job):
    """The fastest of its ways: plain tensors, or layouts of its own choice, with the reorders."""
    handle = onednn_make(lib.onednn_make, job)
    if not handle:
        return None
    best, fastest = None, math.inf
    ways = list(range(lib.onednn_variants(handle)))
    names = [lib.onednn_name(handle, i).decode() for i in ways]
    if any("ref" not in n for n in names):
        ways = [i for i in ways if "ref" not in names[i]]
    for i in ways:
        taken = seconds(lambda: lib.onednn_run(handle, i))
        if taken < SLOW * job.seconds:
            taken = seconds(lambda: lib.onednn_run(handle, i))
        if taken < fastest:
            best, fastest = i, taken
        if "ref" in names[i] and fastest > SLOW * job.seconds:
            break  # other layouts do not help it
    free = lambda: lib.onednn_free(handle)
    if best is None:
        free()
        return None
    return Way(lambda: lib.onednn_run(handle, best), lambda _: job.result(), names[best], free)


def onednn_graph_peer(lib, job):
    """A graph of the one operator."""
    handle = onednn_make(lib.onednn_graph_make, job)
    return handle and Way(lambda: lib.onednn_graph_run(handle), lambda _: job.result(), "graph",
                          lambda: lib.onednn_graph_free(handle))


def load_onnxruntime(opt):
    import onnx
    import onnxruntime
    refusals = onnxruntime.capi.onnxruntime_pybind11_state
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = opt.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return Peer("ONNX Runtime", "ONNX Runtime " + onnxruntime.__version__,
                functools.partial(onnxruntime_peer, onnx, onnxruntime, options),
                (refusals.NotImplemented, refusals.InvalidGraph))


def onnxruntime_peer(onnx, onnxruntime, options, job):
    """A model of one operator, or two; inputs and output are bound beforehand, so that nothing is copied for a call."""
    l = job.layer
    if l["format"] == "NXC" or job.dtype == "bf16" or l["kind"] not in KINDS:
        return None
    if l["kind"].endswith("pool"):
        steps, inputs = onnxruntime_pool(job)
    else:
        steps, inputs = onnxruntime_convolution(job)
    if not steps:
        return None
    inputs = {name: tensor.contiguous() for name, tensor in inputs.items()}
    out = job.torch.empty(job.result().shape, dtype=job.element)
    outputs = {"out": out}
    if "indices" in steps[-1][2]:
        outputs["indices"] = job.torch.empty(out.shape, dtype=job.torch.int64)
    types = {job.torch.float32: onnx.TensorProto.FLOAT, job.torch.float16: onnx.TensorProto.FLOAT16,
             job.torch.int64: onnx.TensorProto.INT64}
    describe = lambda tensors: [onnx.helper.make_tensor_value_info(name, types[t.dtype], list(t.shape))
                                for name, t in tensors.items()]
    nodes = [onnx.helper.make_node(op, takes, gives, domain="com.microsoft" if op == "ConvGrad" else "",
                                   kernel_shape=l["kernel"], strides=l["strides"],
                                   pads=l["pads_begin"] + l["pads_end"], **more) for op, takes, gives, more in steps]
    graph = onnx.helper.make_graph(nodes, "job", describe(inputs), describe(outputs))
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 15),
                                                                       onnx.helper.make_opsetid("com.microsoft", 1)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for bind, tensors in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
        for name, t in tensors.items():
            bind(name, "cpu", 0, t.numpy().dtype.type, list(t.shape), t.data_ptr())
    # the session reads and writes bare addresses: the call has to keep the tensors
    return Way(lambda keep=(inputs, outputs): session.run_with_iobinding(binding), lambda _: out,
               " ".join(op for op, *_ in steps))


def onnxruntime_convolution(job):
    """Steps, each an operator, what it takes, what it gives, attributes; and the inputs."""
    l, role = job.layer, job.layer["role"]
    more = {"dilations": l["dilations"], "group": l["groups"]}
    transposed = l["kind"] == "conv_transpose"
    lines_of_groups = job.rank == 1 and l["groups"] > 1  # their ConvGrad writes beyond its memory
    if role == "backward_weights":  # a ConvTranspose, for which there is no gradient, goes the other way
        x, y = job.activation(0, True), job.activation(1, False)
        x, y = (y, x) if transposed else (x, y)
        if lines_of_groups:
            return [], {}
        return [("ConvGrad", ["y", "x", "w"], ["", "out"], more)], {"y": y, "x": x, "w": job.weights(2).clone()}
    inputs = {"a": job.activation(0, role == "forward"), "w": job.weights(1)}
    if transposed or role == "forward":
        if role == "backward_data":
            return [("Conv", ["a", "w"], ["out"], more)], inputs
        op, extra = ("ConvTranspose", {"output_padding": l["output_padding"]}) if transposed else ("Conv", {})
        return [(op, ["a", "w"], ["out"], {**more, **extra})], inputs
    if lines_of_groups:
        return [], {}
    return [("ConvGrad", ["a", "x", "w"], ["out"], more)], {**inputs, "x": job.activation(2, True).clone()}


def onnxruntime_pool(job):
    l, role = job.layer, job.layer["role"]
    if job.dtype == "f16":
        return [], {}  # its gradients crash
    if l["kind"] == "avg_pool":
        if job.rank == 3 and role != "forward":
            return [], {}  # other numbers than everybody's
        op = "AveragePool" if role == "forward" else "AveragePoolGrad"
        more = {"count_include_pad": int(not l["exclude_pad"])}
        return [(op, ["a"], ["out"], more)], {"a": job.activation(0, role == "forward")}
    gradient = ("MaxPoolGrad", ["y", "indices"], ["out"], {})
    if role == "backward_from_indices":
        indices = job.activation(3, False, job.torch.int64)
        return [gradient], {"y": job.activation(0, False), "indices": indices}
    if role == "backward_data":  # it has no index tensor: the forward pass makes one
        forward = ("MaxPool", ["x"], ["unused", "indices"], {})
        return [forward, gradient], {"x": job.activation(0, True), "y": job.activation(1, False)}
    return [("MaxPool", ["x"], ["out", "indices"], {})], {"x": job.activation(0, True)}


def load_tensorflow(opt):
    import tensorflow
    tensorflow.config.threading.set_intra_op_parallelism_threads(opt.threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    return Peer("TensorFlow", "TensorFlow " + tensorflow.__version__, functools.partial(tensorflow_peer, tensorflow),
                tensorflow_refusals(tensorflow), tolerance=6e-2)  # some sums of 16-bit numbers are rounded to 16 bits


def tensorflow_refusals(tf):
    return tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError


def tensorflow_peer(tf, job):
    """Eager calls of the raw operators; lines are planes of height 1. Weights are XIO beside either layout."""
    kinds = {"convolution": tensorflow_convolution, "conv_transpose": tensorflow_convolution,
             "avg_pool": tensorflow_average, "max_pool": tensorflow_maximum}
    way = kinds.get(job.layer["kind"])
    return way and way(TensorFlowFrame(tf, job))


class TensorFlowFrame:
    """A job in the words of TensorFlow: tensors, windows, pads."""

    def __init__(self, tf, job):
        self.tf, self.job, self.layer, self.torch = tf, job, job.layer, job.torch
        self.nxc, self.line = job.layer["format"] == "NXC", job.rank == 1
        self.planes = 3 if job.rank == 3 else 2
        self.format = {2: "NHWC", 3: "NDHWC"}[self.planes] if self.nxc else {2: "NCHW", 3: "NCDHW"}[self.planes]
        self.stride = self.window(job.layer["strides"])

    def window(self, v, other=1):
        """One number for each axis of an activation."""
        spatial = [other] * self.line + v
        return [other, *spatial, other] if self.nxc else [other, other, *spatial]

    def tensor(self, t):
        """TensorFlow's own copy; numpy has no bf16."""
        t = t.contiguous().clone()
        if t.dtype == self.torch.bfloat16:
            return self.tf.bitcast(self.tf.constant(t.view(self.torch.int16).numpy()), self.tf.bfloat16)
        return self.tf.constant(t.numpy())

    def activation(self, t):
        t = t.unsqueeze(2) if self.line else t
        return self.tensor(t.movedim(1, -1) if self.nxc else t)

    def weights(self, w):
        """XIO, and X, channels, filters of each channel for depthwise convolutions."""
        w = (w.unsqueeze(2) if self.line else w).movedim([0, 1], [-1, -2])
        if self.depthwise():
            w = w.reshape([*w.shape[:-2], self.layer["groups"], -1])
        return self.tensor(w)

    def depthwise(self):
        return self.planes == 2 and 1 < self.layer["groups"] == self.layer["in_channels"]

    def numbers(self, result):
        """An activation in the order of the job."""
        t = self.torch.from_numpy(self.tf.cast(result, self.tf.float32).numpy())
        return t.movedim(-1, 1) if self.nxc else t

    def filter_numbers(self, result):
        t = self.torch.from_numpy(self.tf.cast(result, self.tf.float32).numpy())
        if self.depthwise():
            t = t.reshape([*t.shape[:-2], 1, -1])
        return t.movedim([-1, -2], [0, 1])

    def padding(self, explicit):
        """Arguments for the pads of the layer; None where they are not SAME and the operator takes no others."""
        l = self.layer
        large, small = (l["out"], l["size"]) if l["kind"] == "conv_transpose" else (l["size"], l["out"])
        if not any(l["pads_begin"] + l["pads_end"]):
            return {"padding": "VALID"}
        dilations = l.get("dilations", [1] * self.job.rank)
        axes = zip(large, small, l["kernel"], l["strides"], dilations, l["pads_begin"], l["pads_end"])
        if all(n == -(-m // s) and begin + end == max(0, (n - 1) * s + (k - 1) * d + 1 - m) and end - begin in (0, 1)
               for m, n, k, s, d, begin, end in axes):
            return {"padding": "SAME"}
        pads = [p for n in self.pads() for p in n]
        return {"padding": "EXPLICIT", "explicit_paddings": pads} if explicit else None

    def pads(self):
        """Pads of each axis before and after."""
        return list(zip(self.window(self.layer["pads_begin"], 0), self.window(self.layer["pads_end"], 0)))

    def padded(self, t):
        return self.tf.pad(t, self.pads())

    def cropped(self, t):
        """What `padded` was given."""
        return self.tf.slice(t, [p for p, _ in self.pads()], [n - p - q for n, (p, q) in zip(t.shape, self.pads())])


def tensorflow_convolution(f):
    """Pads that are not SAME are given to the operator, or put there first: either may be several times as fast."""
    paddings = [f.padding(explicit=False)]
    if paddings == [None] and f.planes == 2:
        paddings.append(f.padding(explicit=True))
    best, fastest = None, math.inf
    for padding in paddings:
        way = tensorflow_convolution_padded(f, padding)
        for turn in range(4):  # the first one is not counted
            start = time.perf_counter()
            try:
                way.call()
            except tensorflow_refusals(f.tf):
                break
            taken = time.perf_counter() - start
            if turn > 0 and taken < fastest:
                best, fastest = way, taken
    return best


def tensorflow_convolution_padded(f, padding):
    """With the arguments for pads, or with zeros around the tensor first where there are none."""
    l, job, raw, role = f.layer, f.job, f.tf.raw_ops, f.layer["role"]
    if l["kind"] == "conv_transpose":  # the gradients of a convolution, and the other way about
        role = {"forward": "backward_data", "backward_data": "forward"}.get(role, role)
    padded, cropped = (f.padded, f.cropped) if padding is None else [lambda t: t] * 2
    more = {"strides": f.stride, "dilations": f.window(l["dilations"]), "data_format": f.format,
            **(padding or {"padding": "VALID"})}
    name, version = ("DepthwiseConv2dNative", "") if f.depthwise() else ("Conv%dD" % f.planes, "V2" * (f.planes == 3))
    how = " " + (padding or {"padding": "padded first"})["padding"]
    first = f.activation(job.activation(0, l["role"] != "backward_data"))
    sizes = lambda t: f.tf.constant(list(t.shape))
    if role == "forward":
        op, w = getattr(raw, name), f.weights(job.weights(1))
        return Way(lambda: op(input=padded(first), filter=w, **more), f.numbers, name + how)
    if role == "backward_data":
        name += "BackpropInput" + version
        op, w, shape = getattr(raw, name), f.weights(job.weights(1)), sizes(padded(f.activation(job.result())))
        return Way(lambda: cropped(op(input_sizes=shape, filter=w, out_backprop=first, **more)), f.numbers, name + how)
    name += "BackpropFilter" + version
    op, shape = getattr(raw, name), sizes(f.weights(job.weights(2)))
    second = f.activation(job.activation(1, False))
    x, y = (second, first) if l["kind"] == "conv_transpose" else (first, second)
    return Way(lambda: op(input=padded(x), filter_sizes=shape, out_backprop=y, **more), f.filter_numbers, name + how)


def tensorflow_average(f):
    """Averages divide by the taps inside; where pads count as zeros, zeros are put there first."""
    l, raw = f.layer, f.tf.raw_ops
    zeros = any(l["pads_begin"] + l["pads_end"]) and not l["exclude_pad"]
    padding = {"padding": "VALID"} if zeros else f.padding(explicit=False)
    if padding is None:
        return None
    padded, cropped = (f.padded, f.cropped) if zeros else [lambda t: t] * 2
    more = {"ksize": f.window(l["kernel"]), "strides": f.stride, "data_format": f.format, **padding}
    a = f.activation(f.job.activation(0, l["role"] == "forward"))
    name = "AvgPool" + "3D" * (f.planes == 3)
    if l["role"] == "forward":
        op, first = getattr(raw, name), "value" if f.planes == 2 else "input"
        return Way(lambda: op(**{first: padded(a)}, **more), f.numbers, name)
    name += "Grad"
    op, shape = getattr(raw, name), f.tf.constant(list(padded(f.activation(f.job.result())).shape))
    return Way(lambda: cropped(op(orig_input_shape=shape, grad=a, **more)), f.numbers, name)


def tensorflow_maximum(f):
    """Indices count through the whole tensor, as gradkern's do; TensorFlow has those of planes in NXC only."""
    l, job, raw, role = f.layer, f.job, f.tf.raw_ops, f.layer["role"]
    if f.planes == 3:
        return None  # no indices, and a gradient that goes to every maximum of a window where there are several
    more = {"ksize": f.window(l["kernel"]), "strides": f.stride}
    if role == "backward_data":  # it has no index tensor: the gradient finds the maxima again, given the forward pass's
        x, y = f.activation(job.activation(0, True)), f.activation(job.activation(1, False))
        more.update(data_format=f.format, **f.padding(explicit=True))
        return Way(lambda: raw.MaxPoolGrad(orig_input=x, orig_output=raw.MaxPool(input=x, **more), grad=y, **more),
                   f.numbers, "MaxPool MaxPoolGrad")
    padding = f.padding(explicit=False)
    if not f.nxc or (padding is None and role == "forward"):
        return None
    more["include_batch_in_index"] = True
    a = f.activation(job.activation(0, role == "forward"))
    if role == "forward":
        return Way(lambda: raw.MaxPoolWithArgmax(input=a, Targmax=f.tf.int64, **padding, **more),
                   lambda result: f.numbers(result[0]), "MaxPoolWithArgmax")
    indices, x = f.activation(job.activation(3, False, job.torch.int64)), f.activation(job.result())
    padding = padding or {"padding": "SAME"}  # says no more than the shape of the output: indices say where maxima are
    return Way(lambda: raw.MaxPoolGradWithArgmax(input=x, grad=a, argmax=indices, **padding, **more), f.numbers,
               "MaxPoolGradWithArgmax")
