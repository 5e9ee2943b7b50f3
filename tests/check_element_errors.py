#!/usr/bin/env python3
"""Checks that an element type which operators do not take is told in one sentence.

    check_element_errors.py --include DIR [--include DIR...] COMPILER...

Compiles, for every operator and every face of the front ends, the plan and the one-call form with five wrong types, and
counts the errors: one for each type, with the sentence. Of several compilers those that do not compile the same with float
are left out, but for the first.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys

SENTENCE = "gradkern: operators take elements of type float, float16, bfloat16 or double, or of a type that element_traits opens"
BESIDE = "the bias, and the gradients of weights and bias, have the element type"
BETWEEN = "the weights and the result of a convolution have the element type of its input"
BETWEEN_TYPES = (("float16", "float", "float16"), ("float16", "bfloat16", "float"), ("float16", "float16", "bfloat16"),
                 ("float", "float16", "float"), ("float", "float", "float16"), ("double", "float", "double"),
                 ("double", "double", "float"), ("float", "double", "double"))
WRONG = ("char", "int", "bool", "long double", "const float")

# Name, what includes it, and the arguments with T for the type: inputs, attributes, outputs.
V, C = "tensor_view<T>{}", "tensor_view<const T>{}"
I, CI = "tensor_view<std::int64_t>{}", "tensor_view<const std::int64_t>{}"
L = "tensor_layout{}"
CORE = {
    "avg_pool": ("avg_pool", [C], "avg_pool_attributes{}", [V]),
    "avg_pool_backward": ("avg_pool", [C], "avg_pool_attributes{}", [V]),
    "lp_pool": ("lp_pool", [C], "lp_pool_attributes{}", [V]),
    "lp_pool_backward": ("lp_pool", [C, C, C], "lp_pool_attributes{}", [V]),
    "max_pool": ("max_pool", [C], "max_pool_attributes{}", [V, I]),
    "max_pool_backward": ("max_pool", [C, C], "max_pool_attributes{}", [V]),
    "max_pool_backward_from_indices": ("max_pool", [C, CI], "max_pool_indices_attributes{}", [V]),
    "convolution": ("convolution", [C, C, C], "convolution_attributes{}", [V]),
    "convolution_backward_data": ("convolution", [C, C], "convolution_attributes{}", [V]),
    "convolution_backward_weights": ("convolution", [C, C], "convolution_attributes{}", [V, V]),
    "conv_transpose": ("conv_transpose", [C, C, C], "conv_transpose_attributes{}", [V]),
    "conv_transpose_backward_data": ("conv_transpose", [C, C], "conv_transpose_attributes{}", [V]),
    "conv_transpose_backward_weights": ("conv_transpose", [C, C], "conv_transpose_attributes{}", [V, V]),
    "bias_backward": ("bias", [C], "bias_attributes{}", [V]),
}
FRONT = {
    "onednn_graph::AvgPool": ("frontend/onednn_graph", [C], "onednn_graph::AvgPool_attributes{}", [V]),
    "onednn_graph::ConvolutionBackwardWeights": ("frontend/onednn_graph", [C, C, "{}"],
                                                 "onednn_graph::ConvolutionBackwardWeights_attributes{}", [V]),
    "onnxruntime::ConvGrad": ("frontend/onnxruntime", [C, C, C], "onnxruntime::ConvGrad_attributes{}", [V, V, V]),
    "onnxruntime::MaxPoolGrad": ("frontend/onnxruntime", [C, CI], "onnxruntime::MaxPoolGrad_attributes{}", [V]),
}


def source(name, face, types):
    header, inputs, attributes, outputs = face
    scope, _, short = name.rpartition("::")
    scope += "::" if scope else ""
    one_call = ", ".join(inputs + [attributes] + outputs)
    layouts = [L if a.startswith("tensor_view") else a for a in inputs]
    plan = ", ".join(layouts + [attributes] + [L for _ in outputs])
    lines = [f"#include <gradkern/{header}.hpp>", "using namespace gradkern;"]
    for number, element in enumerate(types):
        lines.append(f"void f{number}() {{ using T = {element};")
        lines.append(f"    static_cast<void>({name}<T>({one_call}));")
        lines.append(f"    static_cast<void>({scope}plan_{short}<T>({plan}));")
        lines.append("}")
    return "\n".join(lines) + "\n"


def compile_text(compiler, includes, text):
    """The lines of errors."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    for directory in includes:
        command += ["-I", directory]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if "error:" in line]


def macros_of(compiler):
    return subprocess.run([compiler, "-dM", "-E", "-x", "c++", "-std=c++20", os.devnull], capture_output=True, text=True,
                          check=True).stdout


def errors_of(compiler, includes, name, face, types):
    return compile_text(compiler, includes, source(name, face, types))


def problems_of_mixed(case):
    """Types that may not meet: a bias, or a gradient of weights or bias, of 16 bits beside f32 tensors, or of f32 beside f64; weights or a
    result of a convolution in another type than its input, but for f32 after 16 bits. One sentence each."""
    compiler, includes, name, (header, inputs, attributes, outputs) = case
    computes_outputs = "weights" not in name and name != "bias_backward"
    beside = [] if name.endswith("_data") else ["float, float16", "double, float", "float16, bfloat16"]
    between = []
    if computes_outputs:
        between = [f"{src}, {weights}, {dst}" + ("" if name.endswith("_data") else f", {src}") for src, weights, dst in BETWEEN_TYPES]
    plan = ", ".join([L] * len(inputs) + [attributes] + [L] * len(outputs))
    lines = [f"#include <gradkern/{header}.hpp>", "using namespace gradkern;"]
    for number, types in enumerate(beside + between):
        lines.append(f"void f{number}() {{ static_cast<void>(plan_{name}<{types}>({plan})); }}")
    errors = compile_text(compiler, includes, "\n".join(lines) + "\n")
    found = [sum(sentence in line for line in errors) for sentence in (BESIDE, BETWEEN)]
    if found == [len(beside), len(between)] and sum(found) == len(errors):
        return []
    return [f"{compiler}: {name}: {len(errors)} errors of mixed types, {found} with the sentences, "
            f"expected {[len(beside), len(between)]}"] + ["    " + line for line in errors][:3]


def problems_of(case):
    compiler, includes, name, face = case
    errors = errors_of(compiler, includes, name, face, WRONG)
    right = [line for line in errors if SENTENCE in line]
    if len(errors) == len(WRONG) == len(right):
        return []
    return [f"{compiler}: {name}: {len(WRONG)} wrong types, {len(errors)} errors, {len(right)} with the sentence"] + \
        ["    " + line for line in errors if SENTENCE not in line][:3]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compilers", nargs="+")
    parser.add_argument("--include", action="append", default=[])
    arguments = parser.parse_args()
    compilers, problems = [], []
    # one compiler under two names, such as c++ and g++, defines the same macros and is tried once
    for compiler in {macros_of(c): c for c in reversed(arguments.compilers)}.values():
        errors = errors_of(compiler, arguments.include, "convolution", CORE["convolution"], ["float"])
        if not errors:
            compilers.append(compiler)
        elif compiler == arguments.compilers[0]:
            problems += [f"{compiler}: {line}" for line in errors]
    cases = [(c, arguments.include, name, face) for c in compilers for name, face in {**CORE, **FRONT}.items()]
    mixed = [(c, arguments.include, name, face) for c in compilers for name, face in CORE.items()
             if face[0] in ("convolution", "conv_transpose", "bias")]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        problems += [p for found in pool.map(problems_of, cases) for p in found]
        problems += [p for found in pool.map(problems_of_mixed, mixed) for p in found]
    for problem in problems:
        print(f"check_element_errors: {problem}", file=sys.stderr)
    print(f"{len(cases) + len(mixed)} programs compiled with {', '.join(compilers)}, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
