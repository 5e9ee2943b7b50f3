#!/usr/bin/env python3
"""Checks docs/spec-coverage.md: every rule names a test, every test exists, every id is there once.

    check_spec_coverage.py [--spec FILE] [ROOT]

ROOT is the repository (default: the parent of this file's directory). With --spec, the text the rules were taken from,
the number of rules marked D in each of its sections must be the number of its [D] and MUST marks; a section whose
heading carries the mark has one per numbered point.
"""

import argparse
import collections
import pathlib
import re
import sys

RULE = re.compile(r"^\|\s*(S(\d+)-\d+)\s*\|\s*(D?)\s*\|\s*(.*?)\s*\|\s*(.*?)\s*\|$")
TEST = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)


def tests_of(root):
    """The names of all GoogleTest cases under tests/."""
    names = set()
    for path in sorted((root / "tests").rglob("*.cpp")):
        names.update(".".join(m) for m in TEST.findall(path.read_text(encoding="utf-8")))
    return names


def marks_of(spec):
    """How many decisions each section of the text announces."""
    marks = {}
    for section in re.split(r"^## ", spec, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        number = re.match(r"(\d+)\.", heading)
        if not number:
            continue
        pattern = r"^\d+\. " if "[D]" in heading else r"\[D\]|\bMUST\b"
        marks[int(number[1])] = len(re.findall(pattern, body, flags=re.MULTILINE))
    return marks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--spec", type=pathlib.Path)
    arguments = parser.parse_args()

    known = tests_of(arguments.root)
    text = (arguments.root / "docs" / "spec-coverage.md").read_text(encoding="utf-8")
    problems = []
    seen = set()
    decisions = collections.Counter()
    used = set()
    covered = later = 0
    heading = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            heading = line[3:]
        if not re.match(r"\|\s*S\d", line):
            continue
        rule = RULE.match(line)
        if not rule:
            problems.append(f"line {number}: not a row of id, D, rule and tests")
            continue
        name, section, decision, _, tests = rule.groups()
        if name in seen:
            problems.append(f"line {number}: {name} is there twice")
        seen.add(name)
        decisions[int(section)] += decision == "D"
        if heading == "Later":
            later += 1
            continue
        if heading.partition(".")[0] != section:
            problems.append(f"line {number}: {name} stands in section {heading}")
        covered += 1
        named = re.findall(r"`([^`]+)`", tests)
        used.update(named)
        if not named:
            problems.append(f"line {number}: {name} has no test")
        problems += [f"line {number}: {name} names {t}, which does not exist" for t in named if t not in known]
    if covered == 0:
        problems.append("no rules found")
    if arguments.spec:
        for section, count in sorted(marks_of(arguments.spec.read_text(encoding="utf-8")).items()):
            if decisions[section] != count:
                problems.append(f"section {section}: {decisions[section]} rules marked D, {count} marks in the text")

    for problem in problems:
        print(f"spec-coverage.md: {problem}", file=sys.stderr)
    print(f"{covered} rules held by {len(used)} tests, {later} later, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
