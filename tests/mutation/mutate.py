#!/usr/bin/env python3
"""Counts how many small faults in the library's headers the tests notice.

    mutate.py --work DIRECTORY [--count 240] [--seed 1] [--jobs 2] [--resume [--only NUMBER...]]
    mutate.py --list

The script copies the repository to DIRECTORY/tree, draws lines of the headers at random, puts one fault on each drawn
line, and builds the tests once. Every fault (a mutant) stands beside the original code behind a run-time switch, so
that one build holds all of them and the environment variable GRADKERN_MUTANT chooses the active one. Each mutant is
then run against the test programs that reach it, quick programs first, until one fails, crashes or takes too long.

DIRECTORY/campaign.json holds the results, DIRECTORY/report.md the same as tables. With --resume, mutants that were
killed before keep their verdict and only the others run again, for instance after a test was added; headers, seed and
count must be those of the run before. With --only, so do all but those whose numbers are named.

What is drawn: every line of the searched headers (see HEADERS) that has at least one place for a fault, each line with
the same probability, then one of its places. Places are found inside function bodies only:

    comparison     <  <=  >  >=  ==  !=  become their neighbour or their opposite
    arithmetic     +  -  swap,  *  becomes +,  /  becomes *,  %  becomes /
    logic          &&  ||  swap; the condition of if, while and ?: is negated; the condition of if becomes false
    choice         std::min  std::max  swap
    constant       the integers 0 and 1 swap, 2 becomes 1; true and false swap
    statement      an assignment, a call, ++x, continue or break is left out; +=  -=  swap

What never takes part: code that only the compiler evaluates (if constexpr, static_assert, constexpr variables,
template arguments, requires, sizeof, noexcept, array sizes, case labels), declarations, default arguments, member and
constructor initialisers, assertions, prefetches, preprocessor lines, comments. In a constant expression a mutant
behaves as the original. A mutant that does not compile is dropped and the next line of the random order takes its
place.
"""

import argparse
import bisect
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import time

# The headers with run-time logic: shapes, plans, packing, micro-kernels, front ends, and the operators themselves.
HEADERS = [
    "shape/*.hpp",
    "detail/[!s]*/*.hpp",  # all folders but simd
    "frontend/**/*.hpp",
    "avg_pool.hpp",
    "bias.hpp",
    "conv_transpose.hpp",
    "convolution.hpp",
    "dynamic.hpp",
    "max_pool.hpp",
    "workspace.hpp",
]

# Sources that instantiate nearly everything: errors in mutants show here before the long build begins.
SYNTAX_CHECKS = ["same_bits.cpp", "onednn_graph_operators_test.cpp", "aclnn_test.cpp"]

OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/",
    "&&": "||", "||": "&&",
}
CONSTANTS = {"0": "1", "1": "0", "2": "1", "true": "false", "false": "true"}
CHOICES = {"min": "max", "max": "min"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
COMPOUND = {"+=": "-=", "-=": "+="}

# A parenthesis after one of these words, or a statement with one of them, belongs to the compiler.
COMPILE_TIME = {"constexpr", "static_assert", "using", "requires", "sizeof", "decltype", "noexcept", "alignas",
                "alignof", "case", "typedef", "static"}
# Words before a parenthesised head that a statement follows.
HEADS = {"if", "for", "while", "switch", "catch"}
# Calls whose absence cannot change a result.
SPEED_ONLY = {"__builtin_prefetch", "prefetch", "prefetch_row", "prefetch_to_write"}

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<directive>\#(?:\\\n|[^\n])*)
      |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      |(?P<number>\.?\d(?:[eEpP][+-]|['\w.])*)
      |(?P<word>[A-Za-z_]\w*)
      |(?P<op><=>|<<=|->\*|\.\.\.|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.DOTALL,
)


class Token:
    """One token of C++, with its place in the text."""

    def __init__(self, kind, text, start, end, spaced):
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end
        self.spaced = spaced  # whether white space or a comment stands in front of it


class Group:
    """A pair of brackets. `kind` is one of ( [ < and, for braces, scope, block, init or requires."""

    def __init__(self, kind, first, parent):
        self.kind = kind
        self.first = first  # index of the opening token
        self.last = None    # index of the closing one
        self.parent = parent


class Mutant:
    """An edit of the tokens of a slot: the text [start, end) that stands behind a switch."""

    def __init__(self, path, line, slot, edit, statement, what):
        self.path = path
        self.line = line
        self.slot = slot            # (start, end) in characters
        self.edit = edit            # (start, end, replacement) in characters
        self.statement = statement  # the slot is a statement, else an expression
        self.what = what            # for people: "original -> mutated"
        self.number = None


def tokens_of(text):
    """Tokens without white space, comments and preprocessor lines."""
    tokens = []
    spaced = True
    for m in TOKEN.finditer(text):
        if m.lastgroup in ("space", "directive"):
            spaced = True
            continue
        tokens.append(Token(m.lastgroup, m.group(), m.start(), m.end(), spaced))
        spaced = False
    return tokens


class Source:
    """One header: its tokens, their brackets, and the mutants that fit it."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.tokens = tokens_of(text)
        self.line_starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.group_of = []   # innermost group around each token; an opening or closing token belongs to its parent
        self.partner = {}    # index of a bracket to the index of the other one
        self.opened = {}     # index of an opening bracket to its group
        self.blocks = []     # braces with statements
        self.find_groups()

    def line_of(self, position):
        return bisect.bisect_right(self.line_starts, position)

    def word(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    # ------------------------------------------------------------------------------------------------------ brackets

    def is_angle(self, i):
        """Whether a < opens template arguments. The code is formatted: a comparison has a space on both sides."""
        before = self.tokens[i - 1]
        if before.text == "template":
            return True
        return not self.tokens[i].spaced and (before.kind == "word" or before.text == "]")

    def find_groups(self):
        stack = [None]
        for i, t in enumerate(self.tokens):
            top = stack[-1]
            closes = t.text in (")", "]", "}") or (t.text == ">" and top is not None and top.kind == "<"
                                                   and not t.spaced)
            if closes:
                top.last = i
                self.partner[top.first] = i
                self.partner[i] = top.first
                stack.pop()
                self.group_of.append(stack[-1])
                continue
            self.group_of.append(top)
            kind = None
            if t.text in ("(", "["):
                kind = t.text
            elif t.text == "{":
                kind = self.kind_of_brace(i, top)
            elif t.text == "<" and self.is_angle(i):
                kind = "<"
            if kind:
                group = Group(kind, i, top)
                self.opened[i] = group
                stack.append(group)
                if kind == "block":
                    self.blocks.append(group)

    def head_of(self, i):
        """Tokens of the same level in front of token i, back to the end of the statement or declaration before."""
        head = []
        i -= 1
        while i >= 0:
            t = self.tokens[i].text
            if t in (";", "{", "}") and not (t == "}" and self.opened[self.partner[i]].kind == "init"):
                break
            if i in self.partner:
                if self.partner[i] > i:  # the opening bracket of the group around
                    break
                head.append(i)
                i = self.partner[i]
            head.append(i)
            i -= 1
        return [self.tokens[j].text for j in reversed(head)]

    def kind_of_brace(self, i, parent):
        head = self.head_of(i)
        before = head[-1] if head else ""
        if before == "requires" or (before == ")" and self.word(self.partner[i - 1] - 1) == "requires"):
            return "requires"
        outside_parentheses = set(head)
        in_block = parent is not None and parent.kind not in ("scope",)
        if {"namespace", "struct", "class", "enum", "union"} & outside_parentheses and "(" not in head:
            return "scope"
        if before in ("namespace", "extern"):
            return "scope"
        if before == "" and in_block:
            return "block"
        if before in ("else", "do", "try", "noexcept", "const", "mutable", "override", "GRADKERN_INLINE_LAMBDA", ":"):
            return "block"
        if before == ")":
            return "block"
        if before == "]" and self.tokens[self.partner[i - 1] - 1].kind != "word":
            return "block"  # a lambda without parameters
        if "->" in head and ")" in head and not in_block:
            return "block"  # a function with a trailing return type
        if "->" in head and re.search(r"\) (GRADKERN_INLINE_LAMBDA )?-> [\w:&* <>]+$", " ".join(head)):
            return "block"  # the same of a lambda
        return "init"

    # --------------------------------------------------------------------------------------------------------- slots

    def only_for_the_compiler(self, i):
        """Whether token i is outside of function bodies, or in code that is never run."""
        group = self.group_of[i]
        inside = False
        while True:
            # the statement or declaration of this level, up to token i
            j = i - 1
            while j >= 0 and self.group_of[j] is group:
                t = self.tokens[j].text
                if j in self.partner and self.partner[j] < j:
                    opening = self.partner[j]
                    if t == "}" and self.opened[opening].kind != "init":
                        break
                    before = self.word(opening - 1)
                    if t == ")" and (before in HEADS or (before == "constexpr" and self.word(opening - 2) == "if")):
                        break  # the head of another statement
                    j = opening - 1
                    continue
                if t == ";":
                    break
                if t in COMPILE_TIME:
                    return True
                j -= 1
            if group is None:
                return not inside
            if group.kind in ("<", "requires"):
                return True
            if group.kind == "scope":
                return not inside
            if group.kind == "block":
                # Whether that block is the body of a function that runs is a matter of what stands in front of it.
                if "consteval" in self.head_of(group.first):
                    return True
                inside = True
                # Nothing outside of a block can make it compile-time code, except a group around it.
                i = group.first
                group = self.group_of[i]
                while group is not None and group.kind == "block":
                    i = group.first
                    group = self.group_of[i]
                if group is None or group.kind == "scope":
                    return False
                continue
            i = group.first
            group = self.group_of[i]

    def is_array_size(self, i):
        """Whether token i stands in the brackets of a declared array."""
        group = self.group_of[i]
        if group is None or group.kind != "[":
            return False
        name = group.first - 1
        while self.word(name) == "]":
            name = self.partner[name] - 1
        before = self.tokens[name - 1]
        return self.tokens[name].kind == "word" and (
            (before.kind == "word" and before.text not in ("return", "else")) or (before.text in (">", "*", "&")
                                                                                 and self.tokens[name].spaced
                                                                                 and not before.spaced))

    def slot_around(self, i):
        """The longest expression around token i that has no comma, assignment, ?: or return in it, as token indices."""
        group = self.group_of[i]
        first = i
        j = i - 1
        while j >= 0 and self.group_of[j] is group:
            t = self.tokens[j].text
            if t in (",", ";", "?", ":", "return", "else", "do", "=", "co_return") or t in ASSIGNMENTS:
                break
            if j in self.partner:
                opening = self.partner[j]
                if opening > j or (t == "}" and self.opened[opening].kind != "init"):
                    break
                if t == ")" and self.word(opening - 1) in HEADS:
                    break
                j = opening
            first = j
            j -= 1
        last = i
        j = i
        while j < len(self.tokens) and self.group_of[j] is group:
            t = self.tokens[j].text
            if t in (",", ";", "?", ":") or t in ASSIGNMENTS:
                break
            if j in self.partner:
                if self.partner[j] < j:
                    break
                j = self.partner[j]
            last = j
            j += 1
        return first, last

    # ------------------------------------------------------------------------------------------------------- mutants

    def make(self, slot, i, replacement, statement=False, what=None, edit=None):
        """A mutant that replaces token i, or the tokens of `edit`, in a slot given by its first and last token."""
        start, end = self.tokens[slot[0]].start, self.tokens[slot[1]].end
        if edit is None:
            edit = (self.tokens[i].start, self.tokens[i].end, replacement)
        if what is None:
            original = one_line(self.text[start:end])
            mutated = one_line(self.text[start:edit[0]] + edit[2] + self.text[edit[1]:end])
            what = f"{original} -> {mutated or '(left out)'}"
        return Mutant(self.path, self.line_of(edit[0]), (start, end), edit, statement, what)

    def mutants(self):
        found = []
        for i, t in enumerate(self.tokens):
            replacement = None
            if t.kind == "op" and t.text in OPERATORS and i not in self.partner:
                after = self.tokens[i + 1]
                if t.spaced and after.spaced:  # unary operators touch their operand
                    replacement = OPERATORS[t.text]
            elif t.text in CONSTANTS:
                replacement = CONSTANTS[t.text]
            elif t.text in CHOICES and self.word(i - 1) == "::" and self.word(i - 2) == "std":
                replacement = CHOICES[t.text]
            if replacement is None or self.only_for_the_compiler(i) or self.is_array_size(i):
                continue
            found.append(self.make(self.slot_around(i), i, replacement))
        # The condition of a conditional expression stands in front of its question mark.
        for i, t in enumerate(self.tokens):
            if t.text == "?" and not self.only_for_the_compiler(i):
                first, last = self.slot_around(i - 1 if i - 1 not in self.partner else self.partner[i - 1])
                found += self.negations((first, last))
        for block in self.blocks:
            if not self.only_for_the_compiler(block.first + 1):
                found += self.statement_mutants(block)
        return found

    def negations(self, slot):
        """The negated condition, unless that is what the replaced comparison does already."""
        level = self.group_of[slot[0]]
        operators = [self.tokens[i].text for i in range(slot[0], slot[1] + 1)
                     if self.group_of[i] is level and self.tokens[i].text in OPERATORS and self.tokens[i].spaced]
        if len([o for o in operators if o in ("==", "!=")]) == 1 and not {"&&", "||"} & set(operators):
            return []
        start, end = self.tokens[slot[0]].start, self.tokens[slot[1]].end
        text = self.text[start:end]
        return [self.make(slot, slot[0], None, edit=(start, end, f"!({text})"),
                          what=f"{one_line(text)} -> !({one_line(text)})")]

    def statement_mutants(self, block):
        """Conditions and whole statements of one block; blocks inside it have their own turn."""
        found = []
        i = block.first + 1
        while i < block.last:
            t = self.tokens[i]
            if t.text in (";", "}", "else", "do") or t.text.startswith("GRADKERN_NO_UNROLL"):
                i += 1
            elif t.text == "{":
                i = self.partner[i] + 1
            elif t.text in HEADS and self.word(i + 1) == "constexpr":
                i = self.partner[i + 2] + 1
            elif t.text in HEADS:
                opening, closing = i + 1, self.partner[i + 1]
                inner = [self.tokens[j].text for j in range(opening + 1, closing)
                         if self.group_of[j] is self.opened[opening]]
                if t.text in ("if", "while") and ";" not in inner and not ASSIGNMENTS & set(inner):
                    slot = (opening + 1, closing - 1)
                    found += self.negations(slot)
                    if t.text == "if":
                        start, end = self.tokens[slot[0]].start, self.tokens[slot[1]].end
                        found.append(self.make(slot, slot[0], None, edit=(start, end, "false"),
                                               what=f"if ({one_line(self.text[start:end])}) -> if (false)"))
                i = closing + 1
            elif t.text in ("case", "default"):
                while self.tokens[i].text != ":":
                    i += 1
                i += 1
            else:
                first = i
                while i < block.last and self.tokens[i].text != ";":
                    i = self.partner[i] + 1 if self.partner.get(i, -1) > i else i + 1
                if i < block.last:
                    found += self.whole_statement(first, i)
                i += 1
        return found

    def whole_statement(self, first, last):
        """A statement left out, or its += turned round; tokens first ... last, the latter a semicolon."""
        level = [i for i in range(first, last) if self.group_of[i] is self.group_of[first]]
        texts = [self.tokens[i].text for i in level]
        assigned = next((n for n, t in enumerate(texts) if t in ASSIGNMENTS), None)
        target = level[:assigned] if assigned is not None else level
        for a, b in zip(target, target[1:]):
            x, y = self.tokens[a], self.tokens[b]
            # Two words, or a type and a name: a declaration.
            if y.kind == "word" and (x.kind == "word" or (x.text in (">", "*", "&", "&&") and a != first)):
                return []
        if set(texts) & COMPILE_TIME or texts[0] in {"return", "throw", "goto", "static_cast"} or set(texts[:3]) & SPEED_ONLY:
            return []
        is_call = texts[-1] == ")" and assigned is None and self.tokens[first].kind == "word"
        is_step = texts[0] in ("++", "--")
        if not (assigned is not None or is_call or is_step or texts in (["continue"], ["break"])):
            return []
        start, end = self.tokens[first].start, self.tokens[last].end
        found = [self.make((first, last), first, None, True, edit=(start, end, ""))]
        if assigned is not None and texts[assigned] in COMPOUND:
            found.append(self.make((first, last), level[assigned], COMPOUND[texts[assigned]], True))
        return found


def one_line(text):
    """Text without comments, white space folded, so that it can stand on one line."""
    return " ".join("".join(" " if t.lastgroup == "space" else t.group() for t in TOKEN.finditer(text)).split())


def render(text, mutants):
    """The text with every mutant behind its switch. No line is added, so that errors name the original's lines."""
    slots = {}
    for m in mutants:
        slots.setdefault((m.slot, m.statement), []).append(m)
    # Outer slots before inner ones: slots either contain each other or are apart.
    ordered = sorted(slots, key=lambda s: (s[0][0], -s[0][1], not s[1]))

    def part(start, end, inside):
        out = []
        at = start
        while inside:
            (first, last), statement = key = inside[0]
            nested = [s for s in inside[1:] if s[0][0] >= first and s[0][1] <= last]
            out.append(text[at:first])
            body = part(first, last, nested)
            switches = []
            for m in slots[key]:
                changed = one_line(text[first:m.edit[0]] + m.edit[2] + text[m.edit[1]:last])
                switches.append((m.number, changed))
            if statement:
                out.append("".join(f"if (GRADKERN_MUTANT({n})) {{ {c} }} else " for n, c in switches) + body)
            else:
                out.append("(" + "".join(f"GRADKERN_MUTANT({n}) ? ({c}) : " for n, c in switches) + f"({body}))")
            at = last
            inside = inside[1 + len(nested):]
        out.append(text[at:end])
        return "".join(out)

    return part(0, len(text), ordered)


# The switch. It is part of the copy only; the library itself knows nothing of mutants.
SWITCH = """#pragma once
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace gradkern_mutation {

inline constexpr int count = %d;
inline const int active = [] {
    const char* chosen = std::getenv("GRADKERN_MUTANT");
    return chosen == nullptr ? -1 : std::atoi(chosen);
}();
// Mutants whose place a program came by; written to a file at its end where GRADKERN_MUTANT_REACHED names one.
inline std::atomic<bool> reached[count]{};
struct reached_writer {
    ~reached_writer() {
        const char* name = std::getenv("GRADKERN_MUTANT_REACHED");
        std::FILE* file = name == nullptr ? nullptr : std::fopen(name, "a");
        if (file == nullptr) return;
        for (int i = 0; i < count; ++i)
            if (reached[i].load(std::memory_order_relaxed)) std::fprintf(file, "%%d\\n", i);
        std::fclose(file);
    }
};
inline reached_writer writer;

inline bool is_active(int number) noexcept {
    reached[number].store(true, std::memory_order_relaxed);
    return number == active;
}
constexpr bool mutant(int number) noexcept { return std::is_constant_evaluated() ? false : is_active(number); }

}  // namespace gradkern_mutation

#define GRADKERN_MUTANT(number) (::gradkern_mutation::mutant(number))
"""


def search(root):
    """All lines with places for a fault: a list of lists of mutants, one list a line, in the order of the files."""
    include = root / "include" / "gradkern"
    lines = []
    sources = {}
    for pattern in HEADERS:
        for path in sorted(include.glob(pattern)):
            name = str(path.relative_to(root))
            if name in sources:
                continue
            source = Source(name, path.read_text(encoding="utf-8"))
            sources[name] = source
            by_line = {}
            for m in source.mutants():
                by_line.setdefault(m.line, []).append(m)
            lines += [by_line[line] for line in sorted(by_line)]
    return sources, lines


def write_if_different(path, text):
    """Leaves the time stamp of a file that would not change, so that the build tool need not compile it again."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class Campaign:
    def __init__(self, arguments):
        self.arguments = arguments
        self.root = arguments.root.resolve()
        self.work = arguments.work.resolve()
        self.tree = self.work / "tree"
        self.build = self.work / "build"
        self.file = self.work / "campaign.json"
        self.sources, self.lines = search(self.root)
        self.before = {}
        if arguments.resume and self.file.exists():
            self.before = json.loads(self.file.read_text(encoding="utf-8"))
            now = (arguments.seed, arguments.count, len(self.lines), sum(map(len, self.lines)))
            if tuple(self.before[k] for k in ("seed", "count", "candidate_lines", "candidate_places")) != now:
                sys.exit("--resume: the run before had another seed, another count or other headers")

    # ------------------------------------------------------------------------------------------------ draw and build

    def draw(self):
        """The random order of lines, one mutant of each."""
        generator = random.Random(self.arguments.seed)
        order = list(range(len(self.lines)))
        generator.shuffle(order)
        self.order = []
        for i in order:
            self.order.append(generator.choice(self.lines[i]))
        for number, m in enumerate(self.order):
            m.number = number
        self.dropped = set(self.before.get("dropped", []))
        self.choose()

    def choose(self):
        """The first `count` mutants of the random order that compile. Their numbers are places in that order."""
        self.chosen = [m for m in self.order if m.number not in self.dropped][:self.arguments.count]

    def write_tree(self):
        """Brings the copy up to date: tracked and new files as they are, headers with their mutants."""
        listed = subprocess.run(["git", "-C", str(self.root), "ls-files", "-co", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.split("\n")
        by_file = {}
        for m in self.chosen:
            by_file.setdefault(m.path, []).append(m)
        for name in filter(None, listed):
            path = self.root / name
            if not path.is_file() or name.startswith("docs/images"):
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # an image
            if name in by_file:
                text = render(text, by_file[name])
            if name == "include/gradkern/detail/config.hpp":
                text = text.replace("#include <gradkern/version.hpp>",
                                    "#include <gradkern/detail/mutation.hpp>\n#include <gradkern/version.hpp>")
            write_if_different(self.tree / name, text)
        write_if_different(self.tree / "include/gradkern/detail/mutation.hpp", SWITCH % len(self.order))

    def programs_in_tree(self):
        """The names of the GoogleTest programs, as tests/CMakeLists.txt adds them."""
        text = (self.root / "tests" / "CMakeLists.txt").read_text(encoding="utf-8")
        return re.findall(r"^gradkern_add_test\((\w+)", text, re.MULTILINE)

    def blame(self, output):
        """Drops the mutants that a compiler's messages name; returns how many."""
        primary, secondary = set(), set()
        for path, line, kind in re.findall(r"(\S+?):(\d+):(?:\d+:)? +(error|note|warning|  required|required)", output):
            if not path.startswith(str(self.tree)):
                continue
            place = (str(pathlib.Path(path).relative_to(self.tree)), int(line))
            (primary if kind == "error" else secondary).add(place)
        blamed = set()
        for places in (primary, secondary):
            for m in self.chosen:
                source = self.sources[m.path]
                first, last = source.line_of(m.slot[0]), source.line_of(m.slot[1])
                # The include of the switch adds a line to config.hpp alone, which has no mutants.
                if any(path == m.path and first <= line <= last for path, line in places):
                    blamed.add(m.number)
            if blamed:
                break
        self.dropped |= blamed
        self.choose()
        return blamed

    def compile(self):
        """Builds the tests. Mutants that do not compile make way for the next ones."""
        nice = ["nice", "-n", "5"]
        self.write_tree()
        configure = ["cmake", "-S", str(self.tree), "-B", str(self.build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                     f"-DCMAKE_CXX_FLAGS_RELEASE={self.arguments.optimise} -DNDEBUG",
                     "-DCMAKE_CXX_FLAGS=-w -Wno-narrowing", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                     "-DGRADKERN_WARNINGS_AS_ERRORS=OFF", "-DGRADKERN_BUILD_BENCHMARKS=OFF",
                     "-DGRADKERN_BUILD_EXAMPLES=OFF"]
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
        commands = json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8"))
        checks = [c for c in commands if pathlib.Path(c["file"]).name in SYNTAX_CHECKS
                  and "/consumer/" not in c["file"]]

        def check(command):
            line = re.sub(r" -o \S+", "", command["command"]) + " -fsyntax-only -fmax-errors=0"
            return subprocess.run([*nice, "sh", "-c", line], cwd=command["directory"], capture_output=True, text=True)

        while not self.before:
            with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
                outputs = [r.stderr for r in pool.map(check, checks) if r.returncode != 0]
            if not outputs:
                break
            self.blame_or_stop("\n".join(outputs))
        while True:
            done = subprocess.run([*nice, "ninja", "-C", str(self.build), "-j", str(self.arguments.jobs),
                                   *self.programs_in_tree(), "same_bits"], capture_output=True, text=True)
            if done.returncode == 0:
                return
            self.blame_or_stop(done.stdout + done.stderr)

    def blame_or_stop(self, output):
        blamed = self.blame(output)
        if not blamed:
            print(output[-5000:], file=sys.stderr)
            sys.exit("the copy does not compile, and no mutant is to blame")
        print(f"{len(blamed)} mutants do not compile: {sorted(blamed)}", flush=True)
        self.write_tree()

    # ----------------------------------------------------------------------------------------------------------- run

    def command(self, program):
        tests = self.build / "tests"
        if program.startswith("same_bits"):
            quick = ["--quick"] if program == "same_bits --quick" else []
            return [str(tests / "same_bits"), "--check", str(self.tree / "tests/same_bits/hashes.txt"), *quick]
        return [str(tests / program), "--gtest_fail_fast", "--gtest_brief=1"]

    def run(self, program, limit, **variables):
        """How one program ends: ok, failed, crashed or timeout; and the seconds it took."""
        def prepare():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (self.arguments.memory << 30, self.arguments.memory << 30))
            os.nice(5)

        begin = time.monotonic()
        process = subprocess.Popen(self.command(program), cwd=self.work, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=prepare, env={**os.environ, **variables})
        try:
            code = process.wait(timeout=limit)
            how = "ok" if code == 0 else "crashed" if code < 0 else "failed"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            how = "timeout"
        return how, time.monotonic() - begin

    def measure(self):
        """Runs every program without a mutant: all must pass. Learns their times and which mutants they reach."""
        self.seconds = {}
        self.reached = {}
        for program in [*self.programs_in_tree(), "same_bits --quick", "same_bits"]:
            record = self.work / "reached.txt"
            record.unlink(missing_ok=True)
            how, seconds = self.run(program, 900, GRADKERN_MUTANT_REACHED=str(record))
            if how != "ok":
                sys.exit(f"{program} without a mutant: {how}")
            self.seconds[program] = seconds
            self.reached[program] = set(map(int, record.read_text().split())) if record.exists() else set()
            print(f"{program}: {seconds:.1f} s, reaches {len(self.reached[program])} mutants", flush=True)

    def judge(self, m):
        """Runs the programs that reach one mutant, quick ones first, until one of them notices it."""
        programs = sorted((p for p in self.seconds if m.number in self.reached[p]), key=lambda p: self.seconds[p])
        for program in programs:
            limit = self.arguments.factor * self.seconds[program] + self.arguments.allowance
            how, _ = self.run(program, limit, GRADKERN_MUTANT=str(m.number))
            if how != "ok":
                return {"killed": True, "by": program, "how": how}
        return {"killed": False, "by": "", "how": "survived" if programs else "not reached"}

    def execute(self):
        self.draw()
        self.compile()
        self.measure()
        only = self.arguments.only
        keep = {r["number"]: r for r in self.before.get("mutants", [])
                if r["killed"] or (only is not None and r["number"] not in only)}
        self.results = {}
        waiting = []
        for m in self.chosen:
            if m.number in keep:
                old = keep[m.number]
                self.results[m.number] = {key: old[key] for key in ("killed", "by", "how")}
            else:
                waiting.append(m)
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            futures = {pool.submit(self.judge, m): m for m in waiting}
            for n, future in enumerate(concurrent.futures.as_completed(futures), 1):
                m = futures[future]
                self.results[m.number] = result = future.result()
                print(f"[{n}/{len(waiting)}] {m.number} {m.path}:{m.line}: {m.what}: {result['how']} {result['by']}",
                      flush=True)
        self.write_results()

    # -------------------------------------------------------------------------------------------------------- report

    def write_results(self):
        mutants = []
        for m in self.chosen:
            original, _, mutated = m.what.partition(" -> ")
            mutants.append({"number": m.number, "file": m.path, "line": m.line, "original": original,
                            "mutated": mutated, **self.results[m.number]})
        killed = sum(r["killed"] for r in mutants)
        places = sum(map(len, self.lines))
        summary = {"seed": self.arguments.seed, "count": self.arguments.count, "candidate_lines": len(self.lines),
                   "candidate_places": places, "dropped": sorted(self.dropped), "drawn": len(mutants),
                   "killed": killed, "mutants": mutants}
        self.file.write_text(json.dumps(summary, indent=1), encoding="utf-8")

        def cell(text):
            return "`" + text.replace("|", "\\|") + "`"

        dropped = len([n for n in self.dropped if n <= self.chosen[-1].number])
        lines = [f"Seed {self.arguments.seed}: {len(self.lines)} candidate lines with {places} places, "
                 f"{len(mutants)} drawn ({dropped} more did not compile), {killed} killed "
                 f"({100 * killed / len(mutants):.1f} %).", ""]
        for title, wanted in (("Survivors", False), ("Killed", True)):
            lines += [f"## {title}", "", "| | place | original | mutated | by |", "|---|---|---|---|---|"]
            for r in sorted(mutants, key=lambda r: (r["file"], r["line"])):
                if r["killed"] == wanted:
                    by = r["by"] if r["how"] in ("failed", "survived") else f"{r['by']} ({r['how']})".strip()
                    place = r["file"].removeprefix("include/gradkern/")
                    lines.append(f"| {r['number']} | {place}:{r['line']} | {cell(r['original'])} | "
                                 f"{cell(r['mutated'])} | {by} |")
            lines.append("")
        (self.work / "report.md").write_text("\n".join(lines), encoding="utf-8")
        print(lines[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve()
    parser.add_argument("--root", type=pathlib.Path, default=here.parents[2], help="the repository")
    parser.add_argument("--work", type=pathlib.Path, help="where the copy, the build and the results go")
    parser.add_argument("--count", type=int, default=240, help="mutants to draw (240)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (1)")
    parser.add_argument("--jobs", type=int, default=2, help="compilers, and mutants, at a time (2)")
    parser.add_argument("--optimise", default="-O1", help="optimisation level of the build (-O1)")
    parser.add_argument("--factor", type=float, default=5, help="a program may take this times its usual time (5) ...")
    parser.add_argument("--allowance", type=float, default=10, help="... and this many seconds (10)")
    parser.add_argument("--memory", type=int, default=8, help="address space of a program in GiB (8)")
    parser.add_argument("--resume", action="store_true", help="run only the mutants that were not killed before")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="of those, run these (with --resume)")
    parser.add_argument("--list", action="store_true", help="print all candidate places and stop")
    arguments = parser.parse_args()

    if arguments.list:
        _, lines = search(arguments.root.resolve())
        for line in lines:
            for m in line:
                print(f"{m.path}:{m.line}: {m.what}")
        print(f"{len(lines)} lines, {sum(map(len, lines))} places", file=sys.stderr)
        return 0
    if arguments.work is None:
        parser.error("--work is needed")
    if arguments.root.resolve() in [arguments.work.resolve(), *arguments.work.resolve().parents]:
        parser.error("--work must lie outside of the repository")
    Campaign(arguments).execute()
    return 0


if __name__ == "__main__":
    sys.exit(main())
