#!/usr/bin/env python3
"""Runs the clients with every instruction set of the library, and on emulated CPUs.

    check_sets.py --sets "x86-64-v3;x86-64" [--qemu qemu-x86_64] CLIENT_C CLIENT_CXX17

A set that the CPU has must be the one in use when GRADKERN_ISA names it; one that it lacks must be refused. All sets with fused
multiply-add give one hash.
"""

import argparse
import os
import re
import subprocess
import sys

# What an emulated CPU takes if nothing is forced. (QEMU emulates AVX2 since 7.2, and no AVX-512.)
EMULATED = {"Nehalem": "x86-64", "Haswell": "x86-64-v3", "Skylake-Server": "x86-64-v3"}


def run(program, isa=None, emulator=()):
    environment = {k: v for k, v in os.environ.items() if k != "GRADKERN_ISA"}
    if isa:
        environment["GRADKERN_ISA"] = isa
    arguments = [isa] if isa and "client_c_" in program else []
    return subprocess.run([*emulator, program, *arguments], env=environment, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", required=True)
    parser.add_argument("--qemu", default="")
    parser.add_argument("client_c")
    parser.add_argument("client_cxx17")
    a = parser.parse_args()
    sets = a.sets.split(";")
    problems, hashes, runs = [], {}, 0

    def check(isa, wanted, emulator=(), where="here"):
        nonlocal runs
        done = run(a.client_c, isa, emulator)
        runs += 1
        used = re.search(r"^gradkern \S+, (\S+)", done.stdout)
        if not used or used.group(1) != wanted or (done.returncode != 0) != (isa is not None and wanted != isa):
            problems.append(f"{where}, {isa}: expected {wanted}: {done.stdout}{done.stderr} exit {done.returncode}")
            return
        if wanted == "none":
            return
        done = run(a.client_cxx17, isa, emulator)
        runs += 1
        if done.returncode != 0:
            problems.append(f"{where}, {isa}: {done.stdout}{done.stderr} exit {done.returncode}")
            return
        name, value = done.stdout.split()[-2:]
        hashes.setdefault(value if name not in ("x86-64",) else f"no fused multiply-add {value}", []).append(f"{name} ({where})")

    listing = run(a.client_c).stdout
    for isa in sets:
        lacks = re.search(rf"^{re.escape(isa)}: the CPU lacks", listing, re.MULTILINE)
        check(isa, "none" if lacks else isa)
    check("no-such-set", "none")
    check(None, re.search(r"^(\S+): in use", listing, re.MULTILINE).group(1))
    if a.qemu and "NOTFOUND" not in a.qemu:
        help_text = subprocess.run([a.qemu, "-cpu", "help"], capture_output=True, text=True).stdout
        for cpu, wanted in EMULATED.items():
            if cpu in help_text and wanted in sets:
                check(None, wanted, (a.qemu, "-cpu", cpu), f"emulated {cpu}")
    if len(hashes) > 2 or sum(not h.startswith("no fused") for h in hashes) > 1:
        problems.append(f"different results: {hashes}")
    for problem in problems:
        print(problem)
    print(f"{len(sets)} instruction sets, {runs} runs, {len(problems)} problems")
    for value, where in hashes.items():
        print(f"{value}: {', '.join(where)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
