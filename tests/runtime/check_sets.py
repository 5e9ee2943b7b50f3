#!/usr/bin/env python3
"""Runs the clients with every instruction set of the library, and on emulated CPUs.

    check_sets.py --sets "x86-64-v3;x86-64" [--qemu qemu-x86_64 [--cross]] CLIENT_C CLIENT_CXX17

A set that the CPU has must be the one in use when GRADKERN_ISA names it; one that it lacks must be refused. All sets with fused
multiply-add give one hash, the same on every architecture. With --cross the clients run under the emulator alone.
"""

import argparse
import os
import re
import subprocess
import sys

# What an emulated CPU takes if nothing is forced. (QEMU emulates AVX2 since 7.2, and no AVX-512. The A64FX has SVE, and no dot
# products.)
EMULATED = {
    "Nehalem": "x86-64", "Haswell": "x86-64-v3", "Skylake-Server": "x86-64-v3",
    "cortex-a53": "armv8-a", "a64fx": "armv8-a", "neoverse-n1": "armv8.2-a-dotprod", "max": "armv8.2-a-dotprod",
}

# The hash of every set with fused multiply-add, on every architecture. The sets without have bits of their own.
FUSED = "f8bfdb0938244dbb"
NOT_FUSED = {"x86-64"}


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
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("client_c")
    parser.add_argument("client_cxx17")
    a = parser.parse_args()
    sets = a.sets.split(";")
    qemu = [] if "NOTFOUND" in a.qemu else [part for part in a.qemu.split(";") if part]
    here = qemu if a.cross else []
    problems, hashes, unfused, runs = [], {}, {}, 0

    def check(isa, wanted, emulator, where):
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
        hashes.setdefault(value, []).append(f"{name} ({where})")
        expected = unfused.setdefault(name, value) if name in NOT_FUSED else FUSED
        if value != expected:
            problems.append(f"{where}, {name}: expected the hash {expected}, got {value}")

    def check_all(emulator, where, best=None):
        """Each set by its name, one that is not there, and the choice of the library."""
        listing = run(a.client_c, None, emulator).stdout
        for isa in sets:
            lacks = re.search(rf"^{re.escape(isa)}: the CPU lacks", listing, re.MULTILINE)
            check(isa, "none" if lacks else isa, emulator, where)
        check("no-such-set", "none", emulator, where)
        in_use = re.search(r"^(\S+): in use", listing, re.MULTILINE)
        check(None, best or (in_use and in_use.group(1)), emulator, where)

    check_all(here, "here")
    if qemu:
        help_text = subprocess.run([*qemu, "-cpu", "help"], capture_output=True, text=True).stdout
        for cpu, best in EMULATED.items():
            if cpu in help_text and best in sets:
                check_all([*qemu, "-cpu", cpu], f"emulated {cpu}", best)
    for problem in problems:
        print(problem)
    print(f"{len(sets)} instruction sets, {runs} runs, {len(problems)} problems")
    for value, where in hashes.items():
        print(f"{value}: {', '.join(where)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
