#!/usr/bin/env python3
"""Whether everything that changes a body of a kernel is part of the name of its namespace.

    isa_names.py --compiler=g++ --include=DIRECTORY... --work=DIRECTORY [--levels=-O2] [--compare=x86-64-v4] [--archs=...]

For every base and every flag that differs from it by one feature or one switch of config.hpp, the preprocessor says both names.
Where these differ, no function of either object can be taken for the other's. Flags that leave the name as it is must leave
every body as it is, too: body.cpp is compiled without and with all of them, and shared_symbols.py compares. The flags are found
out: a compiler names its features by macros, and config.hpp the CPUs of GRADKERN_TUNE.
"""
import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
# By machine: bases; CPUs whose features are tried, with those a compiler does not know; features that no CPU above has.
X86 = (
    ["x86-64", "x86-64-v3", "x86-64-v4", "cooperlake"],
    ["bdver4", "knl", "knm", "skylake-avx512", "cooperlake", "tigerlake", "alderlake", "sapphirerapids", "graniterapids-d",
     "sierraforest", "diamondrapids", "znver3", "znver4", "znver5"],
    ["-m3dnow", "-mavx10.2", "-mapxf"],
)
ARM = (
    ["armv8-a", "armv8.2-a+sve"],
    [],
    [f"-msve-vector-bits={bits}" for bits in (128, 256, 512)]
    + [f"-march=armv8.2-a{more}" for more in ("", "+fp16", "+fp16fml", "+dotprod", "+sve", "+sve2", "+sve+bf16", "+sve+i8mm")]
    + [f"-march=armv8-a+{more}" for more in ("crc", "crypto", "lse", "rdma")]
    + [f"-march=armv8.{n}-a" for n in (1, 3, 4, 5)],
)  # fmt: skip
RISCV = (["rv64gcv"], [], [f"-march=rv64gc{more}" for more in ("v_zvl256b", "v_zvl512b", "v_zba", "v_zbb", "v_zbs", "v_zfh")])
MACHINES = {"__x86_64__": X86, "__aarch64__": ARM, "__riscv": RISCV}


class Compiler:
    def __init__(self, options):
        self.options = options
        self.command = [options.compiler, "-std=c++20", *options.flags.split()]
        self.command += [f"-I{d}" for d in options.include] + [f"-isystem{d}" for d in options.system]
        self.macros = self.run("-dM", "-E", "-x", "c++", "/dev/null")

    def run(self, *flags, text=None):
        """What the compiler prints, or None where it refuses its flags."""
        result = subprocess.run([*self.command, *flags], input=text, capture_output=True, text=True)
        return result.stdout if result.returncode == 0 else None

    def name(self, *flags):
        """The namespace of kernels; None where these flags are none, or where gradkern refuses them."""
        text = "#include <gradkern/detail/config.hpp>\nGRADKERN_ISA_NAMESPACE\n"
        printed = self.run(*flags, "-E", "-P", "-x", "c++", "-", text=text)
        return printed.split()[-1] if printed else None

    def object(self, path, level, *flags):
        more = ["-ffunction-sections", level, "-DGRADKERN_ONE_PROGRAM=same", "-DGRADKERN_ONE_PROGRAM_LEAN"]
        return path if self.run(*more, *flags, "-c", HERE / "body.cpp", "-o", path) is not None else None


def features(compiler, cpus):
    """Flags for what the compiler's macros say of these CPUs: __AVX512BF16__ is -mavx512bf16. Some are none."""
    names = set()
    for cpu in cpus:
        names.update(re.findall(r"#define __([A-Z][A-Z0-9_]+)__ 1\b", compiler.run(f"-march={cpu}", "-dM", "-E", "-x", "c++", "/dev/null") or ""))
    for name in sorted(names):
        flag = name.lower().replace("sse4_", "sse4.").replace("_", "-")
        yield from ([f"-m{flag}"], [f"-mno-{flag}"])


def switches(include):
    """Switches that a user may define."""
    config = next(d for d in map(Path, include) if (d / "gradkern").is_dir()) / "gradkern/detail/config.hpp"
    for cpu in re.findall(r"#define GRADKERN_DETAIL_CPU_(\w+)", config.read_text()):
        yield [f"-DGRADKERN_TUNE={cpu}"]
    yield from (["-DGRADKERN_DOT_BF16=0"], ["-DGRADKERN_DOT_BF16=1"])
    yield from ([f"-DGRADKERN_SIMD_EMULATE_LANES={lanes}"] for lanes in (4, 8, 64))
    yield from (["-DGRADKERN_SIMD_ARCH=sse2"], ["-DGRADKERN_ALLOW_FAST_MATH", "-ffast-math"], ["-fsanitize=address"])


def main():
    parser = argparse.ArgumentParser()
    split = lambda text: [t for t in text.split(",") if t]
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--system", action="append", default=[])
    parser.add_argument("--work", required=True)
    parser.add_argument("--levels", type=split, default=["-O2"])
    parser.add_argument("--compare", type=split, default=None, help="bases whose bodies are compared: all")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--nm", default="nm")
    options = parser.parse_args()
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    compiler = Compiler(options)
    bases, cpus, more = next(m for macro, m in MACHINES.items() if f"#define {macro} " in compiler.macros)
    tried = [*features(compiler, cpus), *([flag] for flag in more), *switches(options.include)]
    failures = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for arch in bases:
            base = f"-march={arch}"
            name = compiler.name(base)
            if name is None:
                print(f"skipped {arch}: {options.compiler} does not know it")
                continue
            names = list(pool.map(lambda flags: compiler.name(base, *flags), tried))
            equal = [flags for flags, n in zip(tried, names) if n == name]
            changed = sum(n not in (name, None) for n in names)
            print(f"{arch}: {changed} flags change {name}, {len(equal)} do not")
            failures += changed == 0
            if options.compare is not None and arch not in options.compare:
                continue
            # What adds and what removes, apart: of two flags for one feature the last would win.
            removed = [flag for flags in equal for flag in flags if flag.startswith("-mno-")]
            added = [flag for flags in equal for flag in flags if not flag.startswith("-mno-")]
            for level in options.levels:
                path = lambda kind: work / f"names_{re.sub(r'[^a-z0-9]+', '_', arch)}{level}_{kind}.o"
                kinds = [("base", []), ("added", added), ("removed", removed)]
                objects = list(pool.map(lambda k: compiler.object(path(k[0]), level, base, *k[1]), kinds))
                for (kind, flags), other in list(zip(kinds, objects))[1:]:
                    same = [sys.executable, HERE / "shared_symbols.py", "--same"]
                    same += [f"--objdump={options.objdump}", f"--nm={options.nm}", objects[0], other]
                    holds = all(objects) and subprocess.run(same).returncode == 0
                    print(("ok      " if holds else "FAILED  ") + f"{arch} {level}: bodies with features {kind}", flush=True)
                    if not holds:
                        print("        " + " ".join(flags))
                    failures += not holds
    print(f"{failures} failures")
    return 1 if failures else 0


sys.exit(main())
