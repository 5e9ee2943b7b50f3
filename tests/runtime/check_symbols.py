#!/usr/bin/env python3
"""Checks what the compiled library shows and which instructions it may run before it has looked at the CPU.

    check_symbols.py --archive libgradkern.a --shared libgradkern.so --list symbols.txt [--localized] [--nm nm] [--ar ar] [--ld ld]
        [--objdump objdump]

- The shared object exports the functions of the list and nothing else: the interface is kept.
- With --localized each object of an instruction set has one global symbol, its table, and no weak one: nothing in it can replace a
  function of another set.
- The object of the dispatcher, and that of the baseline, use no register of AVX (x86-64), and none of the atomics, dot products and
  other instructions that came after Armv8.0 (aarch64).
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# Objects of which every CPU of the architecture runs each instruction, and some instructions that not every CPU has.
FOR_EVERY_CPU = ("x86-64.o", "armv8-a.o", "dispatch.cpp.o")
NEWER = re.compile(
    r"%[yz]mm\d+|\tv[a-z0-9]+ .*%xmm|"
    r"\t(?:cas|swp|(?:ld|st)(?:add|clr|eor|set|[su]max|[su]min)|[su]dot|sqrdml|crc32|bfcvt|bfdot|bfml)[a-z0-9]*[ \t]|[ {]z\d+\.")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(nm, shared):
    lines = output(nm, "--dynamic", "--defined-only", "--extern-only", str(shared)).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def global_symbols(nm, archive):
    """The defined symbols of each member that other objects see: name, type."""
    member, symbols = "", {}
    for line in output(nm, "--defined-only", "--extern-only", str(archive)).splitlines():
        if line.endswith(":"):
            member = line[:-1]
            symbols[member] = []
        elif line.strip():
            symbols[member].append((line.split()[-1], line.split()[-2]))
    return symbols


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    parser.add_argument("--shared", required=True, type=pathlib.Path)
    parser.add_argument("--list", required=True, type=pathlib.Path)
    parser.add_argument("--localized", action="store_true")
    for tool in ("nm", "ar", "ld", "objdump"):
        parser.add_argument(f"--{tool}", default=tool)
    a = parser.parse_args()
    problems = []

    wanted = set(a.list.read_text(encoding="utf-8").split())
    shown = {s for s in exported(a.nm, a.shared) if not s.startswith("_")}
    problems += [f"{s} is no longer exported" for s in sorted(wanted - shown)]
    problems += [f"{s} is exported, but not in {a.list.name}" for s in sorted(shown - wanted)]

    members = global_symbols(a.nm, a.archive)
    tables = 0
    for member, symbols in members.items():
        if not any(name.startswith("gradkern_kernels_") for name, _ in symbols):
            continue
        tables += 1
        if a.localized:
            problems += [f"{member}: {name} ({kind}) is visible" for name, kind in symbols
                         if not name.startswith("gradkern_kernels_")]
    if tables == 0:
        problems.append("the archive has no instruction set")

    checked = [member for member in members if member in FOR_EVERY_CPU]
    with tempfile.TemporaryDirectory() as work:
        for member in checked:
            subprocess.run([a.ar, "x", str(a.archive.resolve()), member], check=True, cwd=work)
            # Linked, since objdump takes long for thousands of sections. The compiler's start files define __dso_handle.
            linked = pathlib.Path(work) / f"{member}.so"
            subprocess.run([a.ld, "-shared", "--defsym=__dso_handle=0", "-o", str(linked), member], check=True, cwd=work)
            used = NEWER.search(output(a.objdump, "--disassemble", "--no-show-raw-insn", str(linked)))
            if used:
                problems.append(f"{member} has an instruction that not every CPU runs: {used.group().strip()}")
    for problem in problems:
        print(problem)
    print(f"{len(shown)} symbols, {tables} instruction sets, {len(checked)} objects disassembled, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
