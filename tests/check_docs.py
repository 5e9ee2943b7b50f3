#!/usr/bin/env python3
"""Checks the pages that doxygen makes: every public symbol is on one and has a comment.

    check_docs.py [--prove] [--doxygen PROGRAM] [ROOT]

ROOT is the repository (default: the parent of this file's directory). Fails where doxygen warns, where a public symbol or
namespace has no comment (doxygen is silent about enumerators, and about all that is in a namespace without one), and
where a face of an operator is on no page. With --prove it removes comments in a copy, all those of one kind (functions,
enumerators, ...) at a time, and the check has to find every one.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

Symbol = collections.namedtuple("Symbol", "kind name file line page anchor described")
HEADERS = ("include/", "runtime/include/")  # which STRIP_FROM_PATH takes away
FACES = ("infer_{}", "plan_{}", "{}", "{}_plan", "dynamic_{}_plan", "ref::{}", "ref::exact::{}")  # of an operator, below gradkern::


def run_doxygen(program, root, output):
    """Pages as HTML and XML below `output`; the exit status and what was printed."""
    settings = (root / "docs" / "Doxyfile").read_text(encoding="utf-8")
    settings += f"\nOUTPUT_DIRECTORY = {output}\nGENERATE_XML = YES\nHTML_OUTPUT = html\nXML_OUTPUT = xml\n"
    done = subprocess.run([program, "-"], cwd=root, input=settings, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def described(node):
    texts = node.findall("briefdescription") + node.findall("detaileddescription")
    return any("".join(t.itertext()).strip() for t in texts)


def place(node):
    location = node.find("location")
    return (location.get("file"), int(location.get("line"))) if location is not None else ("", 0)


def symbols_of(output):
    """All public symbols: namespaces, classes, their members, functions, enumerators, macros, concepts."""
    symbols = []
    for path in sorted((output / "xml").glob("*.xml")):
        for compound in ElementTree.parse(path).getroot().iter("compounddef"):
            kind, scope = compound.get("kind"), compound.findtext("compoundname")
            if kind in ("dir", "page") or compound.get("prot") == "private":
                continue
            if kind == "file":
                members = [m for m in compound.iter("memberdef") if m.get("kind") == "define"]
            else:
                members = compound.iter("memberdef")
                symbols.append(Symbol(kind, scope, *place(compound), compound.get("id"), "", described(compound)))
            for member in members:
                name = scope + "::" + member.findtext("name") if kind != "file" else member.findtext("name")
                arguments = member.findtext("argsstring") or ""
                standard = re.search(r"=\s*(default|delete)\s*$", arguments) or "::~" in name
                if member.get("prot") != "public" or member.get("kind") == "friend" or standard:
                    continue
                page, _, anchor = member.get("id").rpartition("_1")
                kind_of_member = (kind if kind in ("class", "struct") else "free") + " " + member.get("kind")
                symbols.append(Symbol(kind_of_member, name, *place(member), page, anchor, described(member)))
                for value in member.findall("enumvalue"):
                    value_name = name + "::" + value.findtext("name")
                    symbols.append(Symbol("enumerator", value_name, *place(member), page, "", described(value)))
    return symbols


def operators_of(root):
    """The operators: those that have a plan."""
    names = set()
    for path in (root / "include" / "gradkern").glob("*.hpp"):
        if path.name != "dynamic.hpp":
            names.update(re.findall(r"result<\w+<[^;{}()]*>>\s+plan_(\w+)\(", path.read_text(encoding="utf-8")))
    return sorted(names)


def check(program, root, output):
    """What is wrong with the pages, and the symbols on them."""
    status, text = run_doxygen(program, root, output)
    problems = [line for line in text.splitlines() if line.strip()]
    if status != 0 and not problems:
        problems.append(f"doxygen ended with {status}")
    symbols = symbols_of(output)
    problems += [f"{s.file}:{s.line}: {s.kind} {s.name} has no comment" for s in symbols if not s.described]
    start = (output / "html" / "index.html").read_text(encoding="utf-8")
    operators = operators_of(root)
    by_name = collections.defaultdict(list)
    for s in symbols:
        by_name[s.name].append(s)
    for operator in operators:
        for face in FACES:
            name = "gradkern::" + face.format(operator)
            if not by_name[name]:
                problems.append(f"{name} is on no page")
            for s in by_name[name]:
                page = output / "html" / (s.page + ".html")
                if not page.exists() or f'id="{s.anchor}"' not in page.read_text(encoding="utf-8") and s.anchor:
                    problems.append(f"{name} is on no page: {s.page}")
        if not re.search(rf">gradkern::{operator}<", start):
            problems.append(f"the start page does not lead to {operator}")
    if len(operators) < 12:
        problems.append(f"{len(operators)} operators found")
    return problems, symbols, operators


def comment_of(lines, symbol):
    """Where the comment of a symbol lies: first line, line behind the last, and what stays of the first; or None."""
    at = symbol.line - 1
    if symbol.kind == "namespace":
        return at, next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines)), None
    if symbol.kind == "enumerator":
        pattern = re.compile(rf"^\s*{symbol.name.rpartition('::')[2]}\b.*///<")
        at = next((i for i in range(at, len(lines)) if pattern.search(lines[i])), None)
        if at is None:
            return None
    if "///<" in lines[at]:
        end = at + 1
        while end < len(lines) and re.match(r"\s*///<", lines[end]):
            end += 1
        return at, end, lines[at].partition("///<")[0].rstrip()
    top = at - 1
    while top >= 0 and not re.match(r"\s*///", lines[top]):
        if not lines[top].strip() or at - top > 6:
            return None
        top -= 1
    first = top
    while first > 0 and re.match(r"\s*///(?!<)", lines[first - 1]):
        first -= 1
    return first, top + 1, None


def source_of(root, symbol):
    """The file of a symbol below the root, with what STRIP_FROM_PATH takes away."""
    return next(folder + symbol.file for folder in (*HEADERS, "") if (root / folder / symbol.file).exists())


def prove_kind(program, root, chosen):
    """Removes the comments of all these symbols; those about which nothing is said."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / "copy"
        for part in (*HEADERS, "docs"):
            shutil.copytree(root / part, copy / part)
        by_file = collections.defaultdict(set)
        for symbol, where in chosen:
            by_file[source_of(root, symbol)].add(where)
        for name, comments in by_file.items():
            lines = (copy / name).read_text(encoding="utf-8").splitlines()
            for first, end, rest in sorted(comments, reverse=True):
                lines[first:end] = [] if rest is None else [rest]
            (copy / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = check(program, copy, pathlib.Path(scratch) / "pages")[0]

    problems = []
    counts = collections.Counter((s.kind, s.name, source_of(root, s)) for s, _ in chosen)
    for (kind, name, source), count in counts.items():
        word = re.compile(rf"(?<![\w]){re.escape(name.rpartition('::')[2].partition('<')[0].strip())}(?![\w])")
        file = source.rpartition("include/")[2]
        places = {p.split(": ")[0].rpartition("/")[2] for p in found if kind == "namespace" or file in p if word.search(p)}
        if len(places) < count:
            problems.append(f"without comments of {kind} {name} {count} problems were expected, {len(places)} found")
    return problems


def prove(program, root, symbols):
    """Removes comments, all those of one kind at a time; the symbols about which nothing is said then."""
    kinds, total = collections.defaultdict(list), 0
    for s in symbols:
        source = root / source_of(root, s)
        where = comment_of(source.read_text(encoding="utf-8").splitlines(), s) if source.is_file() else None
        if where is not None:
            kinds[s.kind].append((s, where))
            total += 1
    problems = [p for chosen in kinds.values() for p in prove_kind(program, root, chosen)]
    wanted = {"free function", "free enum", "free typedef", "free variable", "free define", "class", "struct", "namespace",
              "concept", "enumerator", "class function", "struct function", "struct variable"}
    problems += [f"no comment of a {kind} was removed" for kind in sorted(wanted - set(kinds))]
    print(f"{total} comments removed: " + ", ".join(f"{len(c)} {k}" for k, c in sorted(kinds.items())))
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--doxygen", default="doxygen")
    parser.add_argument("--prove", action="store_true")
    arguments = parser.parse_args()
    root = arguments.root.resolve()

    with tempfile.TemporaryDirectory() as scratch:
        problems, symbols, operators = check(arguments.doxygen, root, pathlib.Path(scratch) / "pages")
    if arguments.prove and not problems:
        problems = prove(arguments.doxygen, root, symbols)
    for problem in problems:
        print(f"check_docs: {problem}", file=sys.stderr)
    print(f"{len(symbols)} public symbols, {len(operators)} operators, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
