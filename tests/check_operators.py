#!/usr/bin/env python3
"""Checks that every operator is in every list that operators must join, and every path in docs/architecture.md, with the number of
layers that take it.

    check_operators.py [--prove] [ROOT]

The operators are those with a plan_X function in a public header. LISTS says which files name them and how; CONTRIBUTING.md
has the same lists in words. With --prove, each name is taken out of each list in turn, and the check must find that out.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

from check_docs import operators_of

# Files, how an operator X is named in one of them, and what the list is for. A new operator joins each of them.
LISTS = [
    (["include/gradkern/dynamic.hpp"], r"\bplan_X\(", "plans of run-time element types"),
    (["include/gradkern/dynamic.hpp"], r"\bstatus X\(", "calls of run-time element types"),
    (["include/gradkern/accuracy.hpp"], r"> X\(", "error bounds"),
    (["include/gradkern/ref/*.hpp"], r"\bstatus X\(", "references"),
    (["include/gradkern/testing/problem.hpp"], r"^    X[, ]", "operators that results are judged of"),
    (["include/gradkern/testing/problem.hpp"], r'"X"', "their names"),
    (["include/gradkern/testing/compare.hpp"], r"\bexact::X<double>", "expected values"),
    (["include/gradkern/testing/compare.hpp"], r"\baccuracy::X<(?:In, )?T>", "bounds of verdicts"),
    (["include/gradkern/ref/exact/*.hpp"], r"\bstatus X\(", "exact references"),
    (["tests/exact/rationals.cpp"], r"\bexact::X<", "exact references against rational numbers"),
    (["README.md"], r"^\| `X` \|", "the table of operators"),
    (["docs/mainpage.md"], r"^\| gradkern::X \|", "the table of operators"),
    (["docs/operators.md"], r"\[`X`\]", "the table of families"),
    (["docs/pooling.md", "docs/convolution.md"], r"^### X$", "equation and example"),
    (["docs/porting.md"], r"`X`", "the names of other libraries"),
    (["docs/architecture.md"], r"`X`", "the table of engines"),
    (["examples/quickstart/arguments.cpp"], r"\bX<float>\(", "the list of calls"),
    (["examples/operators/*.cpp"], r"\bX<float>\(", "examples"),
    (["tests/same_bits/same_bits.cpp"], r'"X"', "hashes of results"),
    (["tests/fuzz/*.cpp"], r"\b(?:infer_)?X\b(?!\.hpp)", "fuzzers"),
    (["tests/check_element_errors.py"], r'"X":', "element types that are not taken"),
    (["tests/one_call/probe.cpp"], r"\bop::X:", "calls without a workspace"),
    (["tests/op/abuse_test.cpp"], r"\bgradkern::X<", "hostile arguments"),
    (["tests/op/accuracy_test.cpp", "tests/support/conv_cases.hpp"], r"\baccuracy::X<", "error bounds against double"),
    (["tests/op/call_forms_test.cpp"], r"\bgk::X\(", "overloads of the one-call form"),
    (["tests/op/dynamic_test.cpp"], r"\bgk::X\(", "run-time element types"),
    (["tests/op/error_text_test.cpp"], r"\bgk::X\(", "texts of errors"),
    (["tests/op/least_scratch_test.cpp"], r"\bgk::X<", "least scratch"),
    (["tests/op/shared_plan_test.cpp"], r'"X"', "plans that threads share"),
    (["tests/op/unplanned_test.cpp"], r'"X"', "plans that were never made"),
    (["tests/testing/own_results_test.cpp"], r"\boperation::X\b", "verdicts on gradkern's own results"),
    (["bench/layers.hpp"], r"\bplan_X<", "benchmarks"),
    (["tools/golden/problem.cpp"], r'"X"', "problems of gradkern-golden"),
    (["tools/golden/compute.cpp"], r"\bgk::X\(", "results of gradkern-golden"),
    (["tools/golden/compute.cpp"], r"\bgk::infer_X\(", "shapes of gradkern-golden"),
    (["python/src/gradkern/_operators.py"], r"^def X\(", "functions of the Python package"),
    (["python/src/gradkern/__init__.py"], r'"X"', "names of the Python package"),
    (["python/src/extension/problem.cpp"], r'"X"', "tensors of the Python package"),
    (["python/src/extension/exact.cpp"], r"\bexact::X<", "exact results of the Python package"),
    (["python/tests/cases.py"], r'"X",$', "tests of the Python package"),
]

# Operators that a list does without, and why.
EXCEPTIONS = {
    ("bench/layers.hpp", "bias_backward"): "reads its tensor once: nothing but memory is timed",
}


def texts_of(root, patterns):
    return "\n".join(
        path.read_text(encoding="utf-8") for pattern in patterns for path in sorted(root.glob(pattern))
    )


def name_in(pattern, operator):
    return re.compile(pattern.replace("X", operator), re.MULTILINE)


def problems_of(operators, lists):
    """Operators that a list lacks; `lists` holds (files, pattern, purpose, text)."""
    return [
        f"{' '.join(files)}: {operator} is missing ({purpose})"
        for files, pattern, purpose, text in lists
        for operator in operators
        if (files[0], operator) not in EXCEPTIONS and not name_in(pattern, operator).search(text)
    ]


def not_noticed(operators, lists):
    """Names that could be taken out of a list without the check noticing."""
    missed = []
    for files, pattern, purpose, text in lists:
        for operator in operators:
            if (files[0], operator) in EXCEPTIONS:
                continue
            without = name_in(pattern, operator).sub("", text)
            if len(problems_of([operator], [(files, pattern, purpose, without)])) != 1:
                missed.append(f"{' '.join(files)}: nobody notices that {operator} is missing ({purpose})")
    return missed


def rows_without_words(root):
    """Rows of tables of paths that docs/architecture.md does not name."""
    words = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    for path in sorted((root / "include" / "gradkern" / "detail").glob("*/select.hpp")):
        rows = sorted(set(re.findall(r"[{(]\s*algorithm::(\w+)", path.read_text(encoding="utf-8"))))
        if path.parent.name != "run" and len(rows) < 2:
            yield f"{path.relative_to(root)}: no table of paths found"
        for row in rows:
            if f"`{row}`" not in words:
                yield f"docs/architecture.md: {row} of {path.parent.name} is missing"


# The engine of an operator of the golden table, by the kind of its layer, and which of its columns of numbers in docs/architecture.md.
ENGINES = {
    ("conv", "forward"): ("conv", 0), ("conv", "backward_data"): ("conv", 1), ("conv", "backward_weights"): ("conv_weights", 0),
    ("avg_pool", "forward"): ("avg_pool", 0), ("avg_pool", "backward"): ("avg_pool", 1),
    ("max_pool", "forward"): ("max_pool", 0), ("max_pool", "forward_with_indices"): ("max_pool", 0),
    ("max_pool", "backward"): ("max_pool", 0), ("max_pool", "backward_from_indices"): ("max_pool_indices", 0),
}


def layers_of_rows(root):
    """(engine, row, column) -> how many layers of the zoo take the row, by the golden table of AVX-512."""
    zoo = json.loads((root / "tests" / "cases" / "zoo.json").read_text(encoding="utf-8"))
    kinds = {layer["name"]: layer["kind"] for layer in zoo}
    layers = collections.defaultdict(set)
    for line in (root / "tests" / "choices" / "avx512.txt").read_text(encoding="utf-8").splitlines():
        match = re.match(r"(\w+) (\w+) N\w+ [^:]*: (\w+)", line)
        if match and match[2] != "bias_backward":
            kind = kinds[match[1]]
            engine, column = ENGINES[kind if kind.endswith("pool") else "conv", match[2]]
            layers[engine, match[3], column].add(match[1])
    return {key: len(names) for key, names in layers.items()}


def wrong_numbers(root):
    """Numbers in the tables of docs/architecture.md that are not those of the golden table."""
    layers = layers_of_rows(root)
    checked = set()
    engine = None
    for line in (root / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        heading = re.match(r"`(\w+)`[ :]", line)
        if heading or line.startswith("#"):
            engine = heading[1] if heading else None
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows = re.findall(r"`(\w+)`", cells[0])
        if engine is None or not line.startswith("| `"):
            continue
        for column, numbers in enumerate(cells[2:]):
            for row, number in zip(rows, re.findall(r"^\d+|(?<=, )\d+$", numbers)):
                checked.add((engine, row, column))
                if int(number) != layers.get((engine, row, column), 0):
                    yield f"docs/architecture.md: {engine}, {row}: {number} instead of {layers.get((engine, row, column), 0)} layers"
    for engine, row, column in sorted(layers.keys() - checked):
        yield f"docs/architecture.md: {engine}, {row}: the number of layers is missing"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--prove", action="store_true")
    arguments = parser.parse_args()

    operators = operators_of(arguments.root)
    lists = [(files, pattern, purpose, texts_of(arguments.root, files)) for files, pattern, purpose in LISTS]
    problems = problems_of(operators, lists)
    problems += rows_without_words(arguments.root)
    problems += wrong_numbers(arguments.root)
    if len(operators) < 12:
        problems.append(f"only {len(operators)} operators found")
    if arguments.prove:
        problems += not_noticed(operators, lists)
    print("\n".join(problems + [f"{len(operators)} operators, {len(lists)} lists, {len(problems)} problems"]))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
