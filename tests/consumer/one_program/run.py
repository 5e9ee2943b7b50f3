#!/usr/bin/env python3
"""Links objects compiled for several instruction sets into one program, in every order, and runs it.

    run.py --compiler=g++ --include=DIRECTORY... --work=DIRECTORY [--levels=-O0,-O2] [--lean=-O2] [--archs=...]

For every optimisation level: body.cpp once per instruction set; shared_symbols.py over the objects; the program in all link
orders, on this machine and, where qemu-user is here, on machines that lack what the newer objects are compiled for. With
-fno-inline the functions of gradkern alone are looked at, above all those that compilers write: nothing is run.
"""
import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
QEMU = {"x86_64": ("qemu-x86_64", ["core2duo", "Haswell"])}


def run(command, **more):
    return subprocess.run([str(c) for c in command], **more)


def passed(command):
    result = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        print(" ".join(str(c) for c in command), f"\nreturned {result.returncode}\n{result.stdout}")
    return result.returncode == 0


class Matrix:
    def __init__(self, options):
        self.options = options
        self.work = Path(options.work)
        self.compile = [options.compiler, "-std=c++20", "-ffunction-sections", *options.flags.split()]
        self.compile += [f"-I{d}" for d in options.include] + [f"-isystem{d}" for d in options.system]
        self.failures = 0

    def expect(self, holds, what):
        print(("ok      " if holds else "FAILED  ") + what, flush=True)
        self.failures += not holds

    def object(self, level, arch):
        name = re.sub(r"\W", "_", arch)
        if not arch.startswith("x86"):
            name = "oldest" if arch == self.options.archs[0] else "newer"
        lean = ["-DGRADKERN_ONE_PROGRAM_LEAN"] if level in self.options.lean else []
        path = self.work / ("_".join([name, *level.split()]) + ".o")
        flag = "-mcpu=native" if arch == "native" else f"-march={arch}"
        source = HERE / "body.cpp"
        command = [*self.compile, *level.split(), *lean, flag, f"-DGRADKERN_ONE_PROGRAM={name}", "-c", source]
        return path if passed([*command, "-o", path]) else None

    def objects(self, level):
        with ThreadPoolExecutor(self.options.jobs) as pool:
            made = list(pool.map(lambda a: self.object(level, a), self.options.archs))
        self.expect(all(made), f"{level}: compiles")
        return made

    def machines(self):
        """Commands in front of the program: this machine, and others by emulation."""
        if self.options.emulator:
            yield "the emulator", self.options.emulator.split()
            return
        if self.options.cross:
            return
        yield "this machine", []
        qemu, cpus = QEMU.get(os.uname().machine, (None, []))
        if qemu and shutil.which(qemu):
            for cpu in cpus:
                yield cpu, [qemu, "-cpu", cpu]
        elif qemu:
            print(f"skipped {qemu} is not here (Debian: qemu-user)")

    def level(self, level):
        objects = self.objects(level)
        if not all(objects):
            return
        symbols = [sys.executable, HERE / "shared_symbols.py", f"--objdump={self.options.objdump}", f"--nm={self.options.nm}"]
        if "-fno-inline" in level:
            symbols.append("--only=gradkern")  # nobody can mend what the standard library has not inlined here
        if shutil.which(self.options.objdump):
            self.expect(passed([*symbols, *objects]), f"{level}: shared functions")
        else:
            print(f"skipped {self.options.objdump} is not here (Debian: binutils)")
        if "-fno-inline" in level:
            return
        main = self.work / "main.o"
        runs = int("native" in self.options.archs or self.options.emulator != "")
        command = [*self.compile, "-O1", f"-march={self.options.archs[0]}", f"-DGRADKERN_ONE_PROGRAM_NEWER_RUNS={runs}"]
        self.expect(passed([*command, "-c", HERE / "main.cpp", "-o", main]), f"{level}: main")
        for order in itertools.permutations(objects):
            names = " ".join(o.stem for o in order)
            program = self.work / "program"
            self.expect(passed([*self.compile, main, *order, "-pthread", "-o", program]), f"links {names}")
            for machine, command in self.machines():
                self.expect(passed([*command, program]), f"runs on {machine}: {names}")
                self.expect(passed([*command, program, "best"]), f"runs its best on {machine}: {names}")


def main():
    parser = argparse.ArgumentParser()
    split = lambda text: [t for t in text.split(",") if t]
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--system", action="append", default=[])
    parser.add_argument("--work", required=True)
    parser.add_argument("--levels", type=split, default=["-O0"])
    parser.add_argument("--lean", type=split, default=[])
    parser.add_argument("--archs", type=split, default=["x86-64", "x86-64-v3", "x86-64-v4"])
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("--emulator", default="")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    Path(options.work).mkdir(parents=True, exist_ok=True)
    matrix = Matrix(options)
    for level in options.levels:
        matrix.level(level)
    print(f"{matrix.failures} failures")
    return 1 if matrix.failures else 0


sys.exit(main())
