#!/usr/bin/env python3
"""Judges gradkern and other libraries by the gradient conformance suite, and prints a table of who passes what.

    python3 -m venv V && V/bin/pip install torch numpy onednn onednn-devel
    V/bin/pip install onnxruntime-training==1.19.2 onnx tensorflow-cpu     # where these can be had
    V/bin/python tools/conformance/conformance.py --program build/default/tools/gradkern-golden --onednn V

gradkern-golden makes the suite from its list, computes gradkern's results and judges everybody's. A library is judged on
the problems that it has an operator for; the table says how many these are, and --output writes why the others are none.
Libraries that are not installed are left out with a message. docs/conformance.md has the rules and the published table.

Each library runs in a process of its own, which is started again behind a problem that crashes it.
"""
import argparse, collections, json, math, os, re, signal, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "compare"))
LIST = os.path.join(HERE, "gradients-1.0.json")
PEERS = ["PyTorch", "oneDNN", "oneDNN Graph", "ONNX Runtime", "TensorFlow"]
INTEGERS = {"f32": "f4", "f16": "f2", "bf16": "u2", "f64": "f8", "i64": "i8"}  # as .npy files have them


class Absent(Exception):
    """The library has no such operator; the text says what it lacks."""


# ------------------------------------------------------------------------------------------------------------- problems


class Problem:
    """A row of the suite with its tensors: arrays in the order (N, C, spatial) and (O, I, kernel), whatever its formats."""

    def __init__(self, numpy, row, suite):
        self.numpy, self.row, self.name, self.operator = numpy, row, row["name"], row["operator"]
        self.type, self.types, self.shapes = row["type"], row.get("types", {}), row["shapes"]
        self.attributes = a = row.get("attributes", {})
        self.window = w = row.get("made_by", a)  # of the forward pass
        self.nxc = a.get("data_format", "nxc") == "nxc"
        self.xio = a.get("weights_format", "xio") == "xio"
        self.transposed = self.operator.startswith("conv_transpose")
        self.rank = r = len(self.shapes["diff_dst"]) - 2
        self.inputs = {}
        for tensor in self.shapes:
            path = os.path.join(suite, "inputs", "%s.%s.npy" % (self.name, tensor))
            if os.path.exists(path):
                self.inputs[tensor] = self.canonical(tensor, numpy.load(path))
        self.groups = a.get("groups", 1)
        if self.operator == "bias_backward":
            return
        self.small = self.spatial("diff_dst")
        self.large = self.spatial("diff_src" if "diff_src" in self.shapes else "src")
        if self.transposed:
            self.small, self.large = self.large, self.small
        self.kernel = w.get("kernel") or self.filter_shape()[2:]
        self.strides, self.dilations = w["strides"], w.get("dilations") or [1] * r
        self.begin, self.end = w.get("pads_begin") or [0] * r, w.get("pads_end") or [0] * r
        self.reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]
        if w.get("auto_pad", "none") != "none":
            self.begin, self.end = self.automatic_pads(w["auto_pad"])
        # elements of the large side behind the last window
        self.rest = [i - ((o - 1) * s + e - b - p) for i, o, s, e, b, p in
                     zip(self.large, self.small, self.strides, self.reach, self.begin, self.end)]

    def is_filter(self, tensor):
        return tensor in ("weights", "diff_weights")

    def canonical(self, tensor, array):
        if self.is_filter(tensor):
            return self.numpy.moveaxis(array, [-1, -2], [0, 1]) if self.xio else array
        return self.numpy.moveaxis(array, -1, 1) if self.nxc and array.ndim > 1 else array

    def stored(self, tensor, array):
        """The inverse of `canonical`."""
        if self.is_filter(tensor):
            return self.numpy.moveaxis(array, [0, 1], [-1, -2]) if self.xio else array
        return self.numpy.moveaxis(array, 1, -1) if self.nxc and array.ndim > 1 else array

    def spatial(self, tensor):
        shape = self.shapes[tensor]
        return shape[1:-1] if self.nxc else shape[2:]

    def channels(self, tensor):
        shape = self.shapes[tensor]
        return shape[-1] if self.nxc else shape[1]

    def filter_shape(self):
        """(O, I, kernel)."""
        shape = self.shapes.get("weights") or self.shapes["diff_weights"]
        return [shape[-1], shape[-2], *shape[:-2]] if self.xio else shape

    def automatic_pads(self, word):
        if word == "valid":
            return [0] * self.rank, [0] * self.rank
        extra = self.attributes.get("output_padding") or [0] * self.rank
        total = [max(0, (o - 1) * s + e + (x if self.transposed else 0) - i) for i, o, s, e, x in
                 zip(self.large, self.small, self.strides, self.reach, extra)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        return (small, large) if word == "same_upper" else (large, small)

    def plane_indices(self):
        """Indices that count through planes."""
        numpy, indices, plane = self.numpy, self.inputs["indices"], math.prod(self.large)
        base = self.attributes.get("index_base", "tensor")
        if base == "plane":
            return indices
        n, c = indices.shape[:2]
        along = lambda size, axis: numpy.arange(size).reshape([-1 if i == axis else 1 for i in range(indices.ndim)])
        if base == "tensor" and not self.nxc:
            plain = indices - (along(n, 0) * c + along(c, 1)) * plane
        else:  # channels are innermost
            plain = ((indices - (along(n, 0) * plane * c if base == "tensor" else 0)) - along(c, 1)) // c
        return numpy.where(indices < 0, -1, plain)

    def pads_behind(self):
        """The pads at the ends that give these windows where their number is rounded down: ceil modes need more."""
        if self.window.get("rounding_type", "floor") == "floor":
            return self.end
        return [e - min(r, 0) for e, r in zip(self.end, self.rest)]

    def need_gradient_of_transposed(self):
        """Of libraries that compute it as a convolution, which has as many outputs as fit."""
        need(not self.transposed or all(r < s for r, s in zip(self.rest, self.strides)), "output padding of a stride or more")

    def need_average(self):
        """Of libraries whose averages have no more than pads and one bit that says whether these count."""
        need(max(self.dilations) == 1, "dilated average pools")
        need(self.window.get("divisor_override") is None, "divisor_override")
        need(self.window.get("exclude_pad") or self.pads_behind() == self.end, "padding that counts beyond what is declared")

    def need_indices(self, bases):
        """Of libraries whose indices count through one of these."""
        need(self.attributes.get("index_base", "tensor") in bases, "indices of another base")
        need(int(self.inputs["indices"].min()) >= 0, "indices of empty windows")


def need(condition, lack):
    if not condition:
        raise Absent(lack)


# -------------------------------------------------------------------------------------------------------------- PyTorch


class PyTorch:
    """The operators that its autograd calls. NXC is its channels_last."""

    def __init__(self, _):
        import torch
        torch.set_num_threads(1)
        self.torch, self.title = torch, "PyTorch " + torch.__version__

    def tensor(self, array, type):
        array = self.torch.from_numpy(array.view("i2") if type == "bf16" else array)
        return array.view(self.torch.bfloat16) if type == "bf16" else array

    def array(self, tensor):
        if tensor.dtype == self.torch.bfloat16:
            return tensor.contiguous().view(self.torch.int16).numpy().view("u2")
        return tensor.numpy()

    def compute(self, p):
        need(not p.types, "gradients of another type than the inputs")
        with self.torch.no_grad():
            try:
                out = self.bias(p) if p.operator == "bias_backward" else self.pool(p) if "pool" in p.operator else self.conv(p)
            except RuntimeError as refusal:
                raise Absent(self.reason(str(refusal))) from None
            return {name: self.array(t) for name, t in out.items()}

    @staticmethod
    def reason(text):
        """The first line of a refusal, the same for all problems that are refused for the same reason."""
        for words, lack in [("not implemented for 'Half'", "pools in f16 of this rank"),
                            ("not implemented for 'BFloat16'", "pools in bf16 of this rank"),
                            ("at most half of", "pads above half of the window")]:
            if words in text:
                return lack
        return "what it refuses: " + text.splitlines()[0][:60]

    def bias(self, p):
        dy, zeros = self.tensor(p.inputs["diff_dst"], p.type), [0] * p.rank
        c = dy.shape[1]
        ones = [1] * p.rank
        w = self.torch.zeros([c, 1] + ones, dtype=dy.dtype)
        x = self.torch.zeros([dy.shape[0], 1, *dy.shape[2:]], dtype=dy.dtype)
        return {"diff_bias": self.torch.ops.aten.convolution_backward(dy, x, w, [c], ones, zeros, ones, False, zeros, 1,
                                                                      [False, False, True])[2]}

    def conv(self, p):
        need(p.begin == p.end, "uneven padding")
        dy = self.tensor(p.inputs["diff_dst"], p.type)
        src = [dy.shape[0], p.channels("diff_src" if "diff_src" in p.shapes else "src"),
               *(p.small if p.transposed else p.large)]
        weights, bias = p.operator.endswith("weights"), "diff_bias" in p.shapes
        order = (lambda w: w.transpose(0, 1)) if p.transposed else (lambda w: w)  # (I, O / groups, kernel)
        if weights:
            x, w = self.tensor(p.inputs["src"], p.type), order(self.torch.zeros(p.filter_shape(), dtype=dy.dtype)).contiguous()
        else:
            x, w = self.torch.zeros(src, dtype=dy.dtype), order(self.tensor(p.inputs["weights"], p.type)).contiguous()
        extra = p.rest if p.transposed else [0] * p.rank
        dx, dw, db = self.torch.ops.aten.convolution_backward(
            dy, x, w, [dy.shape[1]] if bias else None, p.strides, p.begin, p.dilations, p.transposed, extra, p.groups,
            [not weights, weights, bias])
        if not weights:
            return {"diff_src": dx}
        return {"diff_weights": order(dw), **({"diff_bias": db} if bias else {})}

    def pool(self, p):
        need(p.operator != "lp_pool_backward", "Lp pools that are given the norms")
        need(p.begin == p.end, "uneven padding")
        aten, line = self.torch.ops.aten, p.rank == 1
        two = (lambda t: t.unsqueeze(2)) if line else (lambda t: t)
        spread = lambda v, one: [one] * line + v
        planes = 3 if p.rank == 3 else 2
        ceil = p.window.get("rounding_type", "floor") != "floor"
        window = spread(p.kernel, 1), spread(p.strides, 1), spread(p.begin, 0)
        dy = two(self.tensor(p.inputs["diff_dst"], p.type))
        x = self.torch.zeros([dy.shape[0], dy.shape[1], *spread(p.large, 1)], dtype=dy.dtype)
        if p.operator == "avg_pool_backward":
            need(max(p.dilations) == 1, "dilated average pools")
            dx = getattr(aten, "avg_pool%dd_backward" % planes)(dy, x, *window, ceil, not p.window.get("exclude_pad", False),
                                                                p.window.get("divisor_override"))
        else:
            need(not p.window.get("ignore_nan"), "ignore_nan")
            more = *window, spread(p.dilations, 1), ceil
            backward = getattr(aten, "max_pool%dd_with_indices_backward" % planes)
            if p.operator == "max_pool_backward":
                x = two(self.tensor(p.inputs["src"], p.type))
                indices = getattr(aten, "max_pool%dd_with_indices" % planes)(x, *more)[1]
            else:
                indices = two(self.torch.from_numpy(p.numpy.ascontiguousarray(p.plane_indices())))
                need(int(indices.min()) >= 0, "indices of empty windows")
            dx = backward(dy, x, *more, indices)
        return {"diff_src": dx.squeeze(2) if line else dx}


# --------------------------------------------------------------------------------------------------------------- oneDNN


class OneDnn:
    """Primitives, in layouts of the library's own choice, with reorders, as bench/compare calls them: with one layout for all
    tensors, NCX and OIX or NXC and XIO."""
    make, title = "onednn_make", "oneDNN %s"

    def __init__(self, opt):
        import peers
        if not opt.onednn:
            raise ImportError("--onednn names no prefix")
        self.peers, self.lib = peers, peers.onednn_library(opt.onednn)
        self.title = self.title % self.lib.onednn_version().decode()

    def check(self, p):
        need(p.operator != "max_pool_backward_from_indices", "indices")
        need(p.window.get("divisor_override") is None, "divisor_override")
        need(not ("avg" in p.operator and not p.window.get("exclude_pad") and p.pads_behind() != p.end),
             "padding that counts beyond what is declared")

    def compute(self, p):
        need(p.operator not in ("lp_pool_backward", "bias_backward"), "an operator for this alone")
        need(not p.types, "gradients of another type than the inputs")
        need(p.type != "f64", "f64")
        self.check(p)
        job = self.job(p)
        array = self.run(p, job)
        tensor = "diff_weights" if p.operator.endswith("weights") else "diff_src"
        return {tensor: array}

    def job(self, p):
        import compare, torch
        format = "NXC" if p.nxc else "NCX"
        kind, _, role = p.operator.partition("_backward")
        role = {"": "backward_data", "_data": "backward_data", "_weights": "backward_weights",
                "_from_indices": "backward_from_indices"}[role]
        src = "diff_src" if "diff_src" in p.shapes else "src"
        layer = {"name": p.name, "kind": kind, "role": role, "format": format, "batch": p.shapes["diff_dst"][0],
                 "in_channels": p.channels(src), "out_channels": p.channels("diff_dst"), "groups": p.groups,
                 "exclude_pad": int(p.window.get("exclude_pad", False)), "size": p.spatial(src), "out": p.spatial("diff_dst"),
                 "kernel": p.kernel, "strides": p.strides, "dilations": p.dilations, "pads_begin": p.begin,
                 "pads_end": p.pads_behind() if "pool" in kind else p.end,
                 "output_padding": p.rest if p.transposed else [0] * p.rank}
        names = {"convolution_data": ["diff_dst", "weights", "diff_src"],
                 "convolution_weights": ["src", "diff_dst", "diff_weights"]}
        order = (names["convolution_weights" if role == "backward_weights" else "convolution_data"] if "conv" in kind
                 else ["src", "diff_dst", "diff_src"] if p.operator == "max_pool_backward"
                 else ["diff_dst", None, "diff_src", "indices"])
        job = compare.Job.__new__(compare.Job)
        job.torch, job.layer, job.dtype, job.rank, job.seconds = torch, layer, p.type, p.rank, 0
        job.element = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[p.type]
        job.buffers = []
        for tensor in (order + [None])[:4]:
            array = None
            if tensor in p.inputs:
                array = self.plain(p, tensor, p.inputs[tensor])
            elif tensor in p.shapes:
                count = math.prod(p.shapes[tensor])
                array = p.numpy.full(count, 0xff, dtype="u1").repeat(4 if p.type == "f32" else 2)  # NaN
            job.buffers.append(array)
        job.address = [(b.ctypes.data, b.nbytes) if b is not None else (None, 0) for b in job.buffers]
        return job

    def plain(self, p, tensor, array):
        numpy = p.numpy
        if p.nxc:
            array = numpy.moveaxis(array, [0, 1], [-1, -2]) if p.is_filter(tensor) else numpy.moveaxis(array, 1, -1)
        return numpy.ascontiguousarray(array)

    def result(self, p, job):
        """What is in the output, as `canonical`."""
        flat = job.buffers[2].view(INTEGERS[p.type])
        if p.operator.endswith("weights"):
            o, i, *kernel = p.filter_shape()
            return p.numpy.moveaxis(flat.reshape([*kernel, i, o]), [-1, -2], [0, 1]) if p.nxc else flat.reshape([o, i, *kernel])
        n, c = p.shapes["diff_src"][0], p.channels("diff_src")
        space = p.spatial("diff_src")
        return p.numpy.moveaxis(flat.reshape([n, *space, c]), -1, 1) if p.nxc else flat.reshape([n, c, *space])

    def run(self, p, job):
        handle = self.peers.onednn_make(getattr(self.lib, self.make), job)
        need(handle, "refused")
        try:
            self.call(handle)
        finally:
            self.free(handle)
        return self.result(p, job)

    def call(self, handle):
        ways = self.lib.onednn_variants(handle)
        need(ways, "refused")
        self.lib.onednn_run(handle, ways - 1)

    def free(self, handle):
        self.lib.onednn_free(handle)


class OneDnnGraph(OneDnn):
    """Operators of the Graph API."""
    make, title = "onednn_graph_make", "oneDNN Graph %s"

    def check(self, p):
        super().check(p)
        need(not ("pool" in p.operator and max(p.dilations) > 1), "dilated pools in this script")

    def call(self, handle):
        self.lib.onednn_graph_run(handle)

    def free(self, handle):
        self.lib.onednn_graph_free(handle)


# --------------------------------------------------------------------------------------------------------- ONNX Runtime


class OnnxRuntime:
    """Models of one operator, or two, with the gradients of its training package. Its kernels are f32. In f16 it puts
    casts around convolutions; around gradients of pools, too, which then crash. The gradients of a transposed convolution are a convolution, and the weight gradient of one."""

    def __init__(self, _):
        import onnx
        import onnxruntime
        self.helper, self.runtime, self.title = onnx.helper, onnxruntime, "ONNX Runtime " + onnxruntime.__version__
        self.types = {"float32": onnx.TensorProto.FLOAT, "float16": onnx.TensorProto.FLOAT16, "int64": onnx.TensorProto.INT64}
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 4

    def compute(self, p):
        need(not p.types, "gradients of another type than the inputs")
        need(p.type in ("f32", "f16"), p.type)
        need(p.operator != "lp_pool_backward", "gradients of Lp pools")
        need(not p.nxc, "NXC")
        need(p.type == "f32" or "pool" not in p.operator, "gradients of pools in f16, whose models crash it")
        make = self.bias if p.operator == "bias_backward" else self.pool if "pool" in p.operator else self.conv
        steps, inputs, outputs = make(p)
        types = {k: self.types[v.dtype.name] for k, v in inputs.items()}
        values = lambda shapes, type: [self.helper.make_tensor_value_info(k, type(k), v) for k, v in shapes.items()]
        graph = self.helper.make_graph(steps, "problem", values({k: v.shape for k, v in inputs.items()}, types.get),
                                       values(outputs, lambda _: types["dy"]))
        sets = [self.helper.make_opsetid("", 15), self.helper.make_opsetid("com.microsoft", 1)]
        model = self.helper.make_model(graph, ir_version=8, opset_imports=sets).SerializeToString()
        try:
            session = self.runtime.InferenceSession(model, self.options, providers=["CPUExecutionProvider"])
            found = dict(zip(outputs, session.run(list(outputs), inputs)))
        except Exception as refusal:  # it has a class for each code
            if not str(refusal).startswith("[ONNXRuntimeError]"):
                raise
            small = "smaller than kernel" in str(refusal)
            raise Absent("pads as long as the window" if small else "what it refuses: " + str(refusal)[:200]) from None
        if p.transposed and "diff_weights" in found:
            found["diff_weights"] = found["diff_weights"].swapaxes(0, 1)
        return {k: v for k, v in found.items() if k in p.shapes}

    def bias(self, p):
        dy = p.numpy.ascontiguousarray(p.inputs["diff_dst"])
        n, c, *space = dy.shape
        x, w = p.numpy.zeros([n, 1, *space], dy.dtype), p.numpy.zeros([c, 1] + [1] * p.rank, dy.dtype)
        node = self.helper.make_node("ConvGrad", ["dy", "x", "w"], ["", "unused", "diff_bias"], domain="com.microsoft",
                                     kernel_shape=[1] * p.rank)
        return [node], {"dy": dy, "x": x, "w": w}, {"unused": w.shape, "diff_bias": [c]}

    def conv(self, p):
        p.need_gradient_of_transposed()
        numpy, bias = p.numpy, "diff_bias" in p.shapes and not p.transposed
        order = (lambda w: w.swapaxes(0, 1)) if p.transposed else (lambda w: w)
        given = {k: numpy.ascontiguousarray(order(v) if p.is_filter(k) else v) for k, v in p.inputs.items()}
        dy = given["diff_dst"]
        how = {"kernel_shape": p.kernel, "strides": p.strides, "dilations": p.dilations, "group": p.groups,
               "pads": p.begin + p.end}
        src = p.shapes["diff_src" if "diff_src" in p.shapes else "src"]
        if p.operator == "conv_transpose_backward_data":
            takes, gives = {"dy": dy, "w": given["weights"]}, {"diff_src": src}
            return [self.helper.make_node("Conv", list(takes), list(gives), **how)], takes, gives
        if p.operator == "convolution_backward_data":
            takes, gives = {"dy": dy, "x": numpy.zeros(src, dy.dtype), "w": given["weights"]}, {"diff_src": src}
        else:
            w = numpy.ascontiguousarray(order(numpy.zeros(p.filter_shape(), dy.dtype)))
            x, y = (dy, given["src"]) if p.transposed else (given["src"], dy)
            takes, gives = {"dy": y, "x": x, "w": w}, {"diff_weights": w.shape}
            if bias:
                gives["diff_bias"] = [dy.shape[1]]
        names = ["diff_src"] if "diff_src" in gives else ["", *gives]
        return [self.helper.make_node("ConvGrad", list(takes), names, domain="com.microsoft", **how)], takes, gives

    def pool(self, p):
        numpy = p.numpy
        how = {"kernel_shape": p.kernel, "strides": p.strides, "pads": p.begin + p.pads_behind()}
        takes, gives = {"dy": numpy.ascontiguousarray(p.inputs["diff_dst"])}, {"diff_src": p.shapes["diff_src"]}
        node = self.helper.make_node
        if p.operator == "avg_pool_backward":
            p.need_average()
            how["count_include_pad"] = int(not p.window.get("exclude_pad", False))
            return [node("AveragePoolGrad", ["dy"], ["diff_src"], **how)], takes, gives
        need(not p.window.get("ignore_nan"), "ignore_nan")
        steps = [node("MaxPoolGrad", ["dy", "indices"], ["diff_src"], **how)]
        if p.operator == "max_pool_backward":
            takes["x"] = numpy.ascontiguousarray(p.inputs["src"])
            steps.insert(0, node("MaxPool", ["x"], ["unused", "indices"], dilations=p.dilations, **how))
        else:
            p.need_indices(["tensor"])
            takes["indices"] = numpy.ascontiguousarray(p.inputs["indices"])
        return steps, takes, gives


# ----------------------------------------------------------------------------------------------------------- TensorFlow


class TensorFlow:
    """Its raw operators, those that its autodiff calls, with the oneDNN inside; lines are planes of height 1, as in its own
    functions of lines."""

    def __init__(self, _):
        import tensorflow
        tensorflow.config.threading.set_intra_op_parallelism_threads(1)
        tensorflow.config.threading.set_inter_op_parallelism_threads(1)
        self.tf, self.raw, self.title = tensorflow, tensorflow.raw_ops, "TensorFlow " + tensorflow.__version__

    def compute(self, p):
        need(not p.types, "gradients of another type than the inputs")
        errors = self.tf.errors
        try:
            make = self.bias if p.operator == "bias_backward" else self.pool if "pool" in p.operator else self.conv
            name, result = make(p)
            array = result.numpy()
        except (errors.InvalidArgumentError, errors.UnimplementedError, errors.NotFoundError, errors.AbortedError) as refusal:
            raise Absent(self.reason(str(refusal))) from None
        return {name: array.view("u2") if p.type == "bf16" else array}

    @staticmethod
    def reason(text):
        for lack, *words in [("NCX in this rank and type", "NHWC", "NDHWC"),
                             ("groups in this rank and type", "grouped convolutions", "does not have enough elements",
                              "same number of channels", "must have the same depth", "must match last dimension"),
                             ("dilations in this rank and type", "dilation rates larger", "doesn't match computed"),
                             ("pools of this rank in this type", "Could not find device", "list of allowed values"),
                             ("strides of depthwise convolutions that differ in this type", "equal length strides"),
                             ("what its oneDNN refuses", "could not create a primitive descriptor")]:
            if any(w in text for w in words):
                return lack
        return "what it refuses: " + text.splitlines()[0].split("}} ")[-1][:60]

    def tensor(self, p, array):
        array = p.numpy.ascontiguousarray(array)
        return self.tf.constant(array.view(self.tf.bfloat16.as_numpy_dtype) if array.dtype == "u2" else array)

    def activation(self, p, name):
        return self.tensor(p, self.plain(p, p.inputs[name]))

    def plain(self, p, array):
        """An activation in TensorFlow's order."""
        array = p.numpy.expand_dims(array, 2) if p.rank == 1 else array
        return p.numpy.moveaxis(array, 1, -1) if p.nxc else array

    def canonical(self, p, tensor):
        tensor = self.tf.experimental.numpy.moveaxis(tensor, -1, 1) if p.nxc else tensor
        return self.tf.squeeze(tensor, 2) if p.rank == 1 else tensor

    def sizes(self, p):
        """The shape of diff_src."""
        shape = list(p.shapes["diff_src"])
        if p.rank == 1:
            shape.insert(1 if p.nxc else 2, 1)
        return shape

    def window(self, p, v, other=1):
        """One entry for each axis of an activation."""
        spatial = v if len(v) > 1 else [other, *v]
        return [other, *spatial, other] if p.nxc else [other, other, *spatial]

    def layout(self, p):
        names = ["NHWC", "NCHW"] if p.rank < 3 else ["NDHWC", "NCDHW"]
        return {"data_format": names[not p.nxc]}

    def padding(self, p, end, explicit):
        if not any(p.begin + end):
            return {"padding": "VALID"}
        axes = zip(p.large, p.small, p.strides, p.reach, p.begin, end)
        if all(o == -(-i // s) and b + e == max(0, (o - 1) * s + r - i) and e - b in (0, 1) for i, o, s, r, b, e in axes):
            return {"padding": "SAME"}
        need(explicit and p.rank < 3, "pads of this operator other than SAME and VALID")
        pairs = zip(self.window(p, p.begin, 0), self.window(p, end, 0))
        return {"padding": "EXPLICIT", "explicit_paddings": [n for pair in pairs for n in pair]}

    def bias(self, p):
        return "diff_bias", self.raw.BiasAddGrad(out_backprop=self.tensor(p, p.stored("diff_dst", p.inputs["diff_dst"])),
                                                 data_format="NHWC" if p.nxc else "NCHW")

    def conv(self, p):
        """The gradients of a transposed convolution are a convolution, and the weight gradient of one."""
        p.need_gradient_of_transposed()
        channels = p.channels("diff_dst" if p.transposed else "diff_src" if "diff_src" in p.shapes else "src")
        depthwise = 1 < p.groups == channels and p.rank < 3
        name, version = ("DepthwiseConv2dNative", "") if depthwise else ("Conv2D", "") if p.rank < 3 else ("Conv3D", "V2")
        axes = [-2, -1] if p.transposed else [-1, -2]
        o, i, *kernel = p.filter_shape()
        i, o = (o, i) if p.transposed else (i, o)
        plain = [*[1] * (p.rank == 1), *kernel, i, o]  # its input channels come first
        shape = [*plain[:-2], channels, o // channels] if depthwise else plain
        square = lambda v: self.window(p, v * 2 if p.rank == 1 else v)  # depthwise convolutions of most types take no other
        how = {"strides": square(p.strides), "dilations": square(p.dilations), **self.layout(p), **self.padding(p, p.end, True)}
        dy = self.activation(p, "diff_dst")
        if p.operator.endswith("weights"):
            x = self.activation(p, "src")
            x, y = (dy, x) if p.transposed else (x, dy)
            dw = getattr(self.raw, name + "BackpropFilter" + version)(input=x, filter_sizes=shape, out_backprop=y, **how)
            dw = self.tf.reshape(dw, [*kernel, i, o])
            return "diff_weights", self.tf.experimental.numpy.moveaxis(dw, axes, [0, 1])
        w = self.tensor(p, p.numpy.moveaxis(p.inputs["weights"], [0, 1], axes).reshape(shape))
        if p.transposed:
            dx = getattr(self.raw, name)(input=dy, filter=w, **how)
        else:
            dx = getattr(self.raw, name + "BackpropInput" + version)(input_sizes=self.sizes(p), filter=w, out_backprop=dy, **how)
        return "diff_src", self.canonical(p, dx)

    def pool(self, p):
        need(p.operator != "lp_pool_backward", "Lp pools")
        solid, dy = "3D" * (p.rank == 3), self.activation(p, "diff_dst")
        how = {"ksize": self.window(p, p.kernel), "strides": self.window(p, p.strides)}
        if p.operator == "avg_pool_backward":
            p.need_average()
            need(p.window.get("exclude_pad") or not any(p.begin + p.end), "averages that count padding")
            how.update(self.padding(p, p.pads_behind(), False), **self.layout(p))
            dx = getattr(self.raw, "AvgPool%sGrad" % solid)(orig_input_shape=self.sizes(p), grad=dy, **how)
        else:
            need(not p.window.get("ignore_nan"), "ignore_nan")
            need(max(p.dilations) == 1, "dilated max pools")
            if p.operator == "max_pool_backward":
                how.update(self.padding(p, p.pads_behind(), True), **self.layout(p))
                x = self.activation(p, "src")
                y = getattr(self.raw, "MaxPool" + solid)(input=x, **how)
                dx = getattr(self.raw, "MaxPool%sGrad" % solid)(orig_input=x, orig_output=y, grad=dy, **how)
            else:
                need(p.rank < 3, "indices of this rank")
                need(p.nxc, "indices in NCX")
                p.need_indices(["tensor", "image"])
                how.update(self.padding(p, p.pads_behind(), False))
                dx = self.raw.MaxPoolGradWithArgmax(
                    input=self.tf.zeros(self.sizes(p), dy.dtype), grad=dy, argmax=self.activation(p, "indices"),
                    include_batch_in_index=p.attributes.get("index_base", "tensor") == "tensor", **how)
        return "diff_src", self.canonical(p, dx)


CLASSES = dict(zip(PEERS, [PyTorch, OneDnn, OneDnnGraph, OnnxRuntime, TensorFlow]))


def compute_all(opt):
    """In the library's own process: computes the problems behind the first `--skip`, a line of JSON for each."""
    say = lambda **row: print(json.dumps(row), flush=True)
    try:
        library = CLASSES[opt.peer](opt)
    except ImportError as missing:
        return say(missing=str(missing))
    import numpy
    say(title=library.title)
    for row in json.load(open(os.path.join(opt.suite, "suite.json")))["problems"][opt.skip:]:
        say(begins=row["name"])
        p = Problem(numpy, row, opt.suite)
        try:
            out = library.compute(p)
        except Absent as lack:
            say(name=p.name, lack=str(lack))
            continue
        for tensor, array in out.items():
            type = p.types.get(tensor, p.type)
            array = numpy.ascontiguousarray(p.stored(tensor, array)).astype("<" + INTEGERS[type], copy=False)
            numpy.save(os.path.join(opt.results, "%s.%s.npy" % (p.name, tensor)), array)
        say(name=p.name)
    return None


def results_of(name, suite, results, opt):
    """Runs a library over the suite. Its title, the problems that it lacks with the reason, and those that crash it."""
    import peers
    environment = {**os.environ, **peers.environment(argparse.Namespace(
        threads=1, arch=opt.arch, peer_isa="", onednn=opt.onednn, also=["tensorflow"] if name == "TensorFlow" else []))}
    os.makedirs(results, exist_ok=True)
    title, lacks, crashes, done = None, {}, {}, 0
    while True:
        child = subprocess.Popen([sys.executable, __file__, "--peer", name, "--suite", suite, "--results", results, "--skip",
                                  str(done), "--onednn", opt.onednn, "--arch", opt.arch], env=environment, stdout=subprocess.PIPE, text=True)
        current = None
        for line in child.stdout:
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            if "missing" in row:
                print("%s is left out: %s" % (name, row["missing"]))
                return None, {}, {}
            title = row.get("title", title)
            current = row.get("begins", current)
            if "name" in row:
                done, current = done + 1, None
                if "lack" in row:
                    lacks[row["name"]] = row["lack"]
        if child.wait() == 0:
            return title, lacks, crashes
        if child.returncode > 0 or current is None:
            sys.exit("the process of %s failed" % name)
        crashes[current], done = "crashes: " + signal.Signals(-child.returncode).name, done + 1


# --------------------------------------------------------------------------------------------------------------- tables


def verdicts(opt, suite, results, crashes):
    report = os.path.join(results, "report.json")
    done = subprocess.run([opt.program, "verify", suite, results, "--skip-missing", "--quiet", "--report", report],
                          stdout=subprocess.DEVNULL, check=False)
    if done.returncode > 1:
        sys.exit("gradkern-golden could not judge " + results)
    found = {row["name"]: row for row in json.load(open(report))["problems"]}
    for name, text in crashes.items():
        found[name] = {"name": name, "verdict": "fail", "messages": [text]}
    return found


def cells(rows, found):
    """What a library passes of some problems: passed / judged."""
    judged = [found[r["name"]]["verdict"] for r in rows if found[r["name"]]["verdict"] in ("pass", "fail")]
    if not judged:
        return "-"
    passed = judged.count("pass")
    return ("**%d** / %d" if passed == len(judged) else "%d / %d") % (passed, len(judged))


def table(heads, lines):
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for line in lines:
        yield "| " + " | ".join(map(str, line)) + " |"


def sizes_text(row):
    shape = "x".join(map(str, row["shapes"]["diff_dst"]))
    a = row.get("made_by", row.get("attributes", {}))
    words = [k if v is True else "%s %s" % (k, ",".join(map(str, v)) if isinstance(v, list) else v) for k, v in a.items()]
    return "diff_dst %s; %s" % (shape, ", ".join(words)) if words else "diff_dst " + shape


def failures(rows, found):
    """Failed problems by operator and type: how many of each kind of values, and the smallest one."""
    groups = collections.defaultdict(list)
    for r in rows:
        if found[r["name"]]["verdict"] == "fail":
            groups[r["operator"], r["type"]].append(r)
    for (operator, type), bad in groups.items():
        kinds = collections.Counter(r["values"]["pattern"] for r in bad)
        least = min(bad, key=lambda r: sum(math.prod(s) for s in r["shapes"].values()))
        message = found[least["name"]]["messages"][0].split("; ")[0]
        yield ("`%s`" % operator, type, ", ".join("%s %d" % k for k in kinds.most_common()),
               "`%s`: %s" % (least["name"].replace(operator, "", 1).lstrip("."), sizes_text(least)),
               "%s; values %s" % (message, least["values"]["pattern"]))


def cpu(arch):
    """The CPU and its widest vectors, which choose the kernels of most libraries, or those that they are held to."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        facts = dict(map(str.strip, line.split(":", 1)) for line in file if ":" in line)
    flags = facts.get("flags", "").split()
    wide = [word for flag, word in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags]
    return ", ".join([facts.get("model name", "unknown CPU"), *(["peers held to AVX2"] if arch == "haswell" else wide[:1])])


def report(rows, judged, lacks, machine):
    """The section of a CPU: lines of Markdown."""
    titles = list(judged)
    yield "### %s\n" % machine
    operators = list(dict.fromkeys(r["operator"] for r in rows))
    types = list(dict.fromkeys(r["type"] for r in rows))
    yield from table(["operator", *titles],
                     [["`%s`" % o, *(cells([r for r in rows if r["operator"] == o], judged[t]) for t in titles)]
                      for o in operators] +
                     [[t, *(cells([r for r in rows if r["type"] == t], judged[title]) for title in titles)] for t in types] +
                     [["all %d" % len(rows), *(cells(rows, judged[t]) for t in titles)]])
    for title in titles:
        lines = list(failures(rows, judged[title]))
        if lines:
            yield "\n#### Failures of %s on %s\n" % (title, machine)
            yield from table(["operator", "type", "failed, by values", "smallest example", "its worst element"], lines)
    unjudged = collections.Counter(r["type"] for r in rows if judged["gradkern"][r["name"]]["verdict"] == "unjudged")
    if unjudged:
        yield "\nOf %d problems no element has a bound (%s). No cell counts them." % (
            sum(unjudged.values()), ", ".join("%s %d" % (t, unjudged[t]) for t in types if unjudged[t]))
    for title in titles:
        if lacks.get(title):
            count = collections.Counter(lacks[title].values())
            yield "\n%s is not judged on %d problems. It lacks: %s." % (
                title, sum(count.values()), "; ".join("%s (%d)" % (k, n) for k, n in count.most_common()))


def write_page(path, text):
    """Replaces the section of this CPU, or adds it."""
    page = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            page = file.read()
    head, heading, rest = page.partition("## Results\n")
    text += "\n"
    if heading:
        intro, *sections = re.split(r"^(?=### )", rest, flags=re.MULTILINE)
        own = text.partition("\n")[0] + "\n"
        places = [i for i, section in enumerate(sections) if section.startswith(own)]
        if places:
            sections[places[0]] = text
        else:
            sections.append(text)
        text = head + heading + intro + "\n".join(s.strip("\n") + "\n" for s in sections)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--program", default="gradkern-golden", help="the program gradkern-golden")
    a.add_argument("--list", default=LIST, help="the list of problems; default: the frozen one beside this script")
    a.add_argument("--onednn", default="", help="prefix of `pip install onednn onednn-devel`")
    a.add_argument("--only", default="", help="only problems whose names contain this text")
    a.add_argument("--every", type=int, default=1, help="only the first of every N problems")
    a.add_argument("--peers", default=",".join(PEERS), help="libraries beside gradkern")
    a.add_argument("--arch", default="", choices=["", "haswell"], help="hold the peers to AVX2, as far as they obey")
    a.add_argument("--work", default="", help="keep suite, results and verdicts in this directory")
    a.add_argument("--output", default="", help="write the tables to this file, as Markdown: as the section of this CPU behind its "
                   "heading \"## Results\", where it has one")
    a.add_argument("--peer", help=argparse.SUPPRESS)  # of the library's own process
    a.add_argument("--suite", help=argparse.SUPPRESS)
    a.add_argument("--results", help=argparse.SUPPRESS)
    a.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    opt = a.parse_args()
    if opt.peer:
        return compute_all(opt)
    opt.onednn = opt.onednn and os.path.abspath(opt.onednn)
    wanted = [p for p in opt.peers.split(",") if p]
    if not set(wanted) <= set(PEERS):
        a.error("--peers takes " + ", ".join(PEERS))
    with tempfile.TemporaryDirectory() as scratch:
        work = os.path.abspath(opt.work or scratch)
        suite = os.path.join(work, "suite")
        program = lambda *words: subprocess.run([opt.program, *words], check=True)
        program("generate", suite, "--from", opt.list, "--only", opt.only, "--every", str(opt.every), "-j", "2")
        own = os.path.join(work, "gradkern")
        program("run", suite, "--results", own)
        rows = json.load(open(os.path.join(suite, "suite.json")))["problems"]
        judged, lacks = {"gradkern": verdicts(opt, suite, own, {})}, {}
        for name in wanted:
            results = os.path.join(work, name.replace(" ", "_"))
            title, lack, crashes = results_of(name, suite, results, opt)
            if title:
                counted = {n: text for n, text in crashes.items() if judged["gradkern"][n]["verdict"] != "unjudged"}
                judged[title], lacks[title] = verdicts(opt, suite, results, counted), lack
        text = "\n".join(report(rows, judged, lacks, cpu(opt.arch)))
        print(text)
        if opt.output:
            write_page(opt.output, text)
    return any(row["verdict"] == "fail" for row in judged["gradkern"].values())


if __name__ == "__main__":
    sys.exit(main())
