#!/usr/bin/env python3
"""Writes all of gradkern's headers as one, for a project that wants a single file beside xsimd's headers.

    amalgamate.py [--headers gradkern/gradkern.hpp,gradkern/dynamic.hpp] [--include include] gradkern_all.hpp

The file begins with the licence. Headers stand in the order in which they are included, each once; one that is included under a
condition stands there, behind a guard of its own.
"""

import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(gradkern/[^>]+)>")
CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|endif)\b")
ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b")


class Amalgamation:
    def __init__(self, root):
        self.root = root
        self.done = set()  # stand outside all conditions
        self.lines = []

    def add(self, name, conditional):
        """A header, unless it stands already. Under a condition of another header it may have to stand again elsewhere."""
        if name in self.done:
            return
        if not conditional:
            self.done.add(name)
        text = (self.root / name).read_text(encoding="utf-8").splitlines()
        guard = "GRADKERN_ALL_" + re.sub(r"\W", "_", name).upper()
        own = any(re.match(rf"^#\s*define\s+GRADKERN_\w*HPP$", line) for line in text)  # it has a guard, not #pragma once
        self.lines += [f"// {'-' * 100} {name}", f"#ifndef {guard}", f"#define {guard}"]
        depth = -1 if own else 0
        for line in text:
            found = CONDITION.match(line)
            if found:
                depth += -1 if found.group(1) == "endif" else 1
            header = INCLUDE.match(line)
            if ONCE.match(line):
                continue
            if header and (self.root / header.group(1)).exists():
                self.add(header.group(1), conditional or depth > 0)
            else:
                self.lines.append(line)
        self.lines.append(f"#endif  // {guard}")


def amalgamate(root, headers, licence):
    a = Amalgamation(root)
    a.lines += ["// gradkern in one header, made by cmake/amalgamate.py from: " + ", ".join(headers), "//"]
    a.lines += [("// " + line).rstrip() for line in licence.splitlines()]
    a.lines.append("#pragma once")
    for header in headers:
        a.add(header, False)
    return "\n".join(a.lines) + "\n"


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headers", default="gradkern/gradkern.hpp,gradkern/error_text.hpp,gradkern/workspace.hpp,gradkern/executors/thread_pool.hpp")
    parser.add_argument("--include", type=pathlib.Path, default=here / "include", help="the directory of the headers")
    parser.add_argument("output", type=pathlib.Path)
    a = parser.parse_args()
    headers = a.headers.split(",")
    for header in headers:
        if not (a.include / header).exists():
            sys.exit(f"{a.include / header} does not exist")
    text = amalgamate(a.include, headers, (here / "LICENSE").read_text(encoding="utf-8"))
    a.output.parent.mkdir(parents=True, exist_ok=True)
    a.output.write_text(text, encoding="utf-8")
    print(f"{a.output}: {text.count(chr(10))} lines of {text.count('// ' + '-' * 100)} headers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
