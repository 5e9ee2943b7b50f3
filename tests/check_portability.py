#!/usr/bin/env python3
"""Checks that the headers use what only some compilers have in few places, each with an alternative.

    check_portability.py [--prove] [ROOT]

ROOT is the repository (default: the parent of this file's directory). --prove also plants each construct and expects it to be found.
"""

import pathlib
import re
import sys

CONSTRUCTS = {
    "integers of 128 bits": r"\b(?:__u?int128(?:_t)?|_BitInt)\b",
    "builtins": r"\b__builtin_\w+",
    "__extension__": r"\b__extension__\b",
    "attributes in GNU's spelling": r"\b__attribute__\b",
    "assembly": r"\b__asm__\b|\basm\s*(?:volatile\s*)?\(",
    "pragmas of one compiler": r"#\s*pragma\s+(?:GCC|clang)\b",
    "restrict": r"\b__restrict(?:__)?\b",
    "typeof": r"\b__?typeof(?:__)?\b",
    "case ranges": r"\bcase\s+[^:?\n]+\.\.\.",
}
# Where each may stand: behind a test for the compiler, beside an alternative.
ALLOWED = {
    "include/gradkern/detail/config.hpp": {"builtins", "attributes in GNU's spelling", "assembly"},
    "include/gradkern/detail/own.hpp": {"builtins", "assembly"},
    "include/gradkern/detail/micro/line_phases.hpp": {"builtins", "attributes in GNU's spelling"},
    "include/gradkern/detail/simd/x86/avx512.hpp": {"assembly"},
    "include/gradkern/ref/exact/detail/products.hpp": {"attributes in GNU's spelling"},
    "include/gradkern/cpu.hpp": {"attributes in GNU's spelling", "assembly"},
}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
PLANTED = {
    "integers of 128 bits": "__int128 wide;",
    "builtins": "__builtin_expect(a, 1);",
    "__extension__": "__extension__ a;",
    "attributes in GNU's spelling": "__attribute__((pure)) int f();",
    "assembly": "__asm__(\"\");",
    "pragmas of one compiler": "#pragma GCC unroll 4",
    "restrict": "float* __restrict p;",
    "typeof": "__typeof__(a) b;",
    "case ranges": "case 1 ... 2:",
}


def problems(name, text):
    code = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)
    for construct, pattern in CONSTRUCTS.items():
        if construct in ALLOWED.get(name, ()):
            continue
        for match in re.finditer(pattern, code):
            yield f"{name}:{code.count(chr(10), 0, match.start()) + 1}: {construct}: {match.group().strip()}"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--prove"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent)
    headers = sorted((root / "include").rglob("*.hpp"))
    found = [p for h in headers for p in problems(h.relative_to(root).as_posix(), h.read_text(encoding="utf-8"))]
    if "--prove" in sys.argv:
        for construct, line in PLANTED.items():
            if not any(construct in p for p in problems("planted.hpp", f"int a;\n{line}\n")):
                found.append(f"a planted use of {construct} was not found")
    for problem in found:
        print(problem)
    print(f"{len(headers)} headers, {len(found)} problems")
    return 1 if found or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
