#!/usr/bin/env python3
"""Checks that the module exports every public symbol, or writes the module.

    check_module.py [--write] [--prove] [--doxygen PROGRAM] [ROOT]

ROOT is the repository (default: the parent of this file's directory). The public symbols are those that doxygen finds, as for
check_docs.py. Fails where cmake/gradkern.cppm is not what --write would write. With --prove each exported name is taken out in turn,
and the check must find that out.
"""

import argparse
import pathlib
import re
import sys
import tempfile

from check_docs import run_doxygen, symbols_of

# Headers that stay headers: adapters include what need not be here, and cpu.hpp tells of the file that includes it.
LEFT_OUT = ("executors/openmp.hpp", "executors/tbb.hpp", "testing/gtest.hpp", "gradkern/cpu.hpp")
KINDS = ("class", "struct", "concept", "free function", "free typedef", "free enum", "free variable")
HEAD = """\
// `import gradkern;`: every public name of the headers. Left out are macros (<gradkern/version.hpp> has those of the version),
// <gradkern/cpu.hpp>, which tells of the file that includes it, and the adapters to OpenMP, oneTBB and GoogleTest.
//
// tests/check_module.py --write makes this file.
module;
"""


def headers_of(root):
    """The headers that include all others."""
    include = root / "include"
    paths = [p for folder in ("", "executors", "frontend", "ref") for p in (include / "gradkern" / folder).glob("*.hpp")]
    return sorted(p.relative_to(include).as_posix() for p in paths if not str(p).endswith(LEFT_OUT) and p.name != "loops.hpp")


def names_of(root, symbols):
    """The names in each namespace, those of include/. Specialisations come with what they specialise."""
    namespaces = {s.name for s in symbols if s.kind == "namespace" and s.name.startswith("gradkern")}
    names = {}
    for s in symbols:
        space, _, name = s.name.rpartition("::")
        specialised = "<" in name and not name.startswith("operator")
        ours = (root / "include" / s.file).is_file() and not s.file.endswith(LEFT_OUT)
        if s.kind in KINDS and space in namespaces and ours and not specialised:
            names.setdefault(space, set()).add(name)
    return names


def module_of(names, headers):
    lines = [HEAD]
    lines += [f"#include <{h}>\n" for h in headers]
    lines += ["\nexport module gradkern;\n"]
    for space in sorted(names):
        lines += [f"\nexport namespace {space} {{\n", *(f"using {space}::{n};\n" for n in sorted(names[space]))]
        lines += [f"}}  // namespace {space}\n"]
    return "".join(lines)


def differences(expected, found):
    """What the module lacks, and what it should not have."""
    expected, found = expected.splitlines(), found.splitlines()
    problems = [f"cmake/gradkern.cppm lacks: {line}" for line in expected if line not in found]
    problems += [f"cmake/gradkern.cppm should not have: {line}" for line in found if line not in expected]
    if not problems and expected != found:
        problems.append("cmake/gradkern.cppm has its lines in another order")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the module instead of comparing it")
    parser.add_argument("--prove", action="store_true", help="also take out names and expect that to be found")
    parser.add_argument("--doxygen", default="doxygen")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    a = parser.parse_args()
    module = a.root / "cmake" / "gradkern.cppm"
    headers = headers_of(a.root)
    with tempfile.TemporaryDirectory() as output:
        status, text = run_doxygen(a.doxygen, a.root, pathlib.Path(output))
        if status != 0:
            sys.exit(text)
        names = names_of(a.root, symbols_of(pathlib.Path(output)))
    expected = module_of(names, headers)
    count = sum(map(len, names.values()))
    if a.write:
        module.write_text(expected, encoding="utf-8")
        print(f"{module}: {count} names of {len(headers)} headers")
        return 0
    problems = differences(expected, module.read_text(encoding="utf-8"))
    if count < 300 or "using gradkern::convolution_backward_data;" not in expected:
        problems.append(f"doxygen finds {count} public names")
    if a.prove:
        lines = expected.splitlines(keepends=True)
        for i, line in enumerate(lines):
            if line.startswith("using ") and not differences(expected, "".join(lines[:i] + lines[i + 1 :])):
                problems.append(f"nobody misses {line.strip()}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{count} names in {len(names)} namespaces, {len(problems)} problems")
    if problems:
        print("python3 tests/check_module.py --write renews the module", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
