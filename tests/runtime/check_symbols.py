#!/usr/bin/env python3
"""Checks what the compiled library shows and which instructions it may run before it has looked at the CPU.

    check_symbols.py --archive libgradkern.a --shared libgradkern.so --list symbols.txt [--localized]

- The shared object exports the functions of the list and nothing else: the interface is kept.
- With --localized each object of an instruction set has one global symbol, its table, and no weak one: nothing in it can replace a
  function of another set.
- The object of the dispatcher, and that of the baseline, use no register of AVX (x86-64).
"""

import argparse
import pathlib
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(shared):
    lines = output("nm", "--dynamic", "--defined-only", "--extern-only", str(shared)).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def global_symbols(archive):
    """The defined symbols of each member that other objects see: name, type."""
    member, symbols = "", {}
    for line in output("nm", "--defined-only", "--extern-only", str(archive)).splitlines():
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
    a = parser.parse_args()
    problems = []

    wanted = set(a.list.read_text(encoding="utf-8").split())
    shown = {s for s in exported(a.shared) if not s.startswith("_")}
    problems += [f"{s} is no longer exported" for s in sorted(wanted - shown)]
    problems += [f"{s} is exported, but not in {a.list.name}" for s in sorted(shown - wanted)]

    members = global_symbols(a.archive)
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

    checked = 0
    for member in members:
        is_baseline = member in ("x86-64.o", "dispatch.cpp.o")
        if not is_baseline:
            continue
        checked += 1
        work = pathlib.Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
        subprocess.run(["ar", "x", str(a.archive.resolve()), member], check=True, cwd=work)
        code = output("objdump", "--disassemble", "--no-show-raw-insn", str(work / member))
        used = re.search(r"%[yz]mm\d+|\tv[a-z0-9]+ .*%xmm", code)
        if used:
            problems.append(f"{member} uses AVX: {used.group().strip()}")
    for problem in problems:
        print(problem)
    print(f"{len(shown)} symbols, {tables} instruction sets, {checked} objects disassembled, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
