#!/usr/bin/env python3
"""Every function between GRADKERN_NAMESPACE_BEGIN and _END is GRADKERN_PER_ISA, or inlined by force, or runs in the compiler
alone, or belongs to its file.

Objects compiled for different instruction sets share all other inline functions (include/gradkern/detail/config.hpp). The test
one_program looks at what compilers make of them; this one at every line that looks like the beginning of a function.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "include" / "gradkern"
# At the depth of a namespace or class: words, a name or operator, parameters, and what only a function has behind them.
FUNCTION = re.compile(
    r"^(?: {0}| {4}| {8})(?! |return\b|if\b|for\b|while\b|switch\b|else\b|using\b|requires\b|template\b|//|#|static_assert|:)"
    r"[\w\[\]<>:,&*~ .]*?(?:~?\w+|operator[^(\w]*(?:\(\))?)\s*\((?!\*)"
)
EXEMPT = re.compile(r"GRADKERN_PER_ISA|GRADKERN_ALWAYS_INLINE|\bconsteval\b|= delete|^\S(.* )?static ")


def functions(text):
    """Lines that declare functions, with their numbers: declarations that go on are joined to their brace or semicolon."""
    inside = False
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("GRADKERN_NAMESPACE_BEGIN"):
            inside = True
        elif line.startswith("GRADKERN_NAMESPACE_END"):
            inside = False
        if not inside or not FUNCTION.match(line):
            continue
        whole = line
        if lines[number - 2].endswith(("GRADKERN_ALWAYS_INLINE", "GRADKERN_PER_ISA")):
            whole = lines[number - 2] + line
        for more in lines[number : number + 6]:
            if re.search(r"[{;]", whole):
                break
            whole += " " + more.strip()
        head = re.split(r"[{;]", whole)[0]
        # A body, `= default`, or noexcept: not a statement inside of a body.
        words = head.split("(")[0]
        if re.search(r"\b(constexpr|inline|explicit|friend|static|void|bool|auto|noexcept)\b", words) or "noexcept" in head:
            yield number, head.strip()


def main():
    count, faults = 0, []
    for path in sorted(ROOT.rglob("*.hpp")):
        for number, head in functions(path.read_text()):
            count += 1
            if not EXEMPT.search(head):
                faults.append(f"{path.relative_to(ROOT.parent)}:{number}: {head[:110]}")
    print("\n".join(faults))
    print(f"{count} functions of the vocabulary, {len(faults)} without GRADKERN_PER_ISA")
    return 1 if faults or count < 100 else 0


sys.exit(main())
