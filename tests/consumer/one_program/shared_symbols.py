#!/usr/bin/env python3
"""Whether objects compiled for different instruction sets may be linked into one program.

    shared_symbols.py [--objdump=...] [--nm=...] baseline.o newer.o...
    shared_symbols.py --same one.o other.o

Of a weak function that several objects define, the linker keeps one body for all of them. In the first form, every such
function must have bodies that the machine of the first object runs: no instruction that came later, and no call of a
function that only the other object's instruction set has. A function that gradkern declares must not be shared at all. In
the second form (flags that gradkern does not tell apart), functions and constants whose names carry gradkern's instruction set
must be the same where they are shared.
"""
import argparse
import re
import subprocess
import sys
from collections import defaultdict

# What SSE2 does not have. objdump writes `rep bsf` as tzcnt: compilers for any machine use it, for numbers other than 0.
NEWER = re.compile(
    r"""^(
    v(?!err$|errw$) .*                                                              # AVX and everything after it
  | k(add|and|andn|mov|not|or|ortest|shift|test|unpck|xnor|xor)\w*                  # masks of AVX-512
  | andn|bextr|bls(i|r|msk)|blc\w+|bzhi|lzcnt|mulx|pdep|pext|rorx|sarx|shlx|shrx    # BMI, LZCNT, TBM
  | adcx|adox|popcnt|movbe|crc32|sha\w+|aes\w+|pclmul\w+|gf2p8\w+|tdp\w+|tile\w+
  | movdir\w+|(f?xsave|xrstor)(c|opt|s)\w*
  | addsubp[sd]|h(add|sub)p[sd]|lddqu|mov(d|sh|sl)dup|fisttp\w*                     # SSE3
  | pabs[bwd]|palignr|ph(add|sub)(w|d|sw)|pmaddubsw|pmulhrsw|pshufb|psign[bwd]      # SSSE3
  | p?blendv?(p[sd]|b|w|vb)|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw    # SSE4.1
  | pcmpeqq|pextr[bdq]|phminposuw|pinsr[bdq]|p(max|min)(sb|sd|ud|uw)|pmov[sz]x\w+
  | pmuldq|pmulld|ptest|round[ps][sd]|pcmpgtq|pcmp[ei]str[im]|extrq|insertq|movnts[sd]
    )$""",
    re.VERBOSE,
)
# What armv8-a does not have: atomic instructions (LSE), and registers of SVE.
NEWER_ARM = re.compile(
    r"^((cas|swp|ld(add|clr|eor|set|[su]max|[su]min)|st(add|clr|eor|set))[abhlp]*|ldapu?r\w*|sdot|udot|bf\w*dot|[us]mmla)\s"
    r"|\bz\d+\.[bhsdq]\b|\bp\d+(/[mz]|\.[bhsd])"
)
# Functions that gradkern declares, and those among them that the compiler writes: constructors of aggregates.
DECLARED = re.compile(r"^_ZNK?(St14numeric_limitsIN)?8gradkern")
IMPLICIT = re.compile(r"\b(\w+)::\1\(\)$")
# A name that carries an instruction set: gradkern's inline namespace, or the tag of a function beside it.
ISA_NAME = re.compile(r"v\d+_\d+_[a-z0-9_]*_x\d+_\d+")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(zip(names, text.splitlines()))


class Object:
    """The functions of an object file: the lines of each, and what each refers to."""

    def __init__(self, path, tools):
        self.path = path
        self.weak = set()
        for line in output(tools.nm, "--defined-only", path).splitlines():
            _, kind, name = line.split(maxsplit=2)
            if kind in "Ww":
                self.weak.add(name)
        self.lines = defaultdict(list)
        self.refers = defaultdict(set)
        self.section_of = {}
        section = name = None
        self.is_arm = False
        for line in output(tools.objdump, "-d", "-r", "-w", "--no-show-raw-insn", path).splitlines():
            if "file format elf64-littleaarch64" in line:
                self.is_arm = True
            elif line.startswith("Disassembly of section "):
                section = line[len("Disassembly of section ") : -1]
            elif match := re.match(r"^[0-9a-f]+ <(.+)>:$", line):
                name = match[1]
                self.section_of[name] = section
            elif name:
                for reference in re.findall(r"R_\w+\s+(\S+?)(?:[-+]0x[0-9a-f]+)?$", line):
                    self.refers[name].add(reference)
                line = line.split("R_X86_64_")[0].split("R_AARCH64_")[0]
                if match := re.match(r"^\s*[0-9a-f]+:\s+(.*\S)", line):
                    self.lines[name].append(match[1])
        # The sections hold one function each (-ffunction-sections): a reference to one means its function.
        self.function_in = {s: n for n, s in self.section_of.items()}
        self.weak &= set(self.section_of)  # functions, not data

    def newer(self, name):
        """The first instruction of a function that the oldest machine has not got."""
        for line in self.lines[name]:
            words = line.split()
            while words and words[0] in ("lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "cs", "{evex}", "{vex}"):
                words.pop(0)
            if self.is_arm:
                found = NEWER_ARM.search(line)
            else:
                found = words and (NEWER.match(words[0]) or re.search(r"%[yz]mm|%k[0-7]\b", line))
            if found:
                return line
        return None

    def called(self, name):
        """Functions of this object that a function refers to."""
        for reference in self.refers[name]:
            target = self.function_in.get(reference, reference)
            if target != name:
                yield target

    def body(self, name):
        """The instructions, without addresses."""
        return [re.sub(r"\b[0-9a-f]+ <\S+>", "<>", line) for line in self.lines[name]], self.refers[name]


def check_shared(objects, only):
    """Every weak function of several objects, and the local ones that it calls."""
    count = defaultdict(int)
    for o in objects:
        for name in o.weak:
            count[name] += only in name
    faults = {}
    shared = {name for name, n in count.items() if n > 1}
    for name, text in demangled(sorted(shared)).items():
        if DECLARED.search(name) and not IMPLICIT.search(text) and not ISA_NAME.search(text):
            faults[name] = "its name has no instruction set: GRADKERN_PER_ISA is missing"
    for o in objects:
        for name in sorted(shared & o.weak):
            reached, waiting = set(), [name]
            while waiting:
                function = waiting.pop()
                if function in reached:
                    continue
                reached.add(function)
                if line := o.newer(function):
                    faults.setdefault(name, f"{o.path}: {line}" + (f" in {function}" if function != name else ""))
                for target in o.called(function):
                    if ISA_NAME.search(target) and not ISA_NAME.search(name):
                        if target in o.section_of or target in o.weak or target.startswith("_Z"):
                            faults.setdefault(name, f"{o.path}: refers to {target}")
                    elif target in o.section_of and target not in shared:
                        waiting.append(target)
    return len(shared), faults


def constants(path, tools):
    """What every weak constant with a section of its own holds, with references."""
    held, lines = {}, []
    for line in output(tools.objdump, "-s", "-r", "-w", path).splitlines():
        if match := re.match(r"^(?:Contents of section|RELOCATION RECORDS FOR) \[?\.(?:data\.rel\.ro|ro?data)(?:\.local)?\.(_Z\w+)\]?:$", line):
            lines = held.setdefault(match[1], [])
        elif line.endswith(":"):
            lines = []
        elif line:
            lines.append(line)
    return held


def check_same(one, other, tools):
    """Functions and constants named after an instruction set, in both of two objects."""
    shared = {name for name in one.weak & other.weak if ISA_NAME.search(name)}
    faults = {n: "two bodies" for n in shared if one.body(n) != other.body(n)}
    held = [constants(o.path, tools) for o in (one, other)]
    data = {name for name in held[0].keys() & held[1].keys() if ISA_NAME.search(name)}
    faults.update({n: "two values" for n in data if held[0][n] != held[1][n]})
    return len(shared | data), faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--only", default="", help="look at functions whose names hold this")
    parser.add_argument("objects", nargs="+")
    arguments = parser.parse_args()
    objects = [Object(path, arguments) for path in arguments.objects]
    count, faults = check_same(*objects, arguments) if arguments.same else check_shared(objects, arguments.only)
    for name, fault in sorted(faults.items()):
        print(f"{demangled([name])[name]}\n    {fault}")
    print(f"{count} shared functions, {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
