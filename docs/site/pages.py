"""The pages of the site: which files they come from, what they are called, and how the menu groups them."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Groups of the menu. A document that does not exist is left out; check_site.py fails for one of docs/ that is in no group.
MENU = [
    ("Start", ["docs/getting_started.md", "README.md", "docs/building.md", "docs/packages.md", "docs/instruction_sets.md", "CHANGELOG.md"]),
    ("Operators", ["docs/operators.md", "docs/pooling.md", "docs/convolution.md", "docs/layouts.md", "docs/shapes.md"]),
    ("Running", ["docs/threads.md", "docs/numerics.md", "docs/exact.md", "docs/performance.md", "bench/README.md"]),
    ("Other languages", ["docs/runtime.md", "docs/python.md"]),
    ("Other libraries", ["docs/porting.md", "docs/conformance_suites.md"]),
    ("Test your kernels", ["docs/testing.md", "docs/golden.md", "docs/conformance.md"]),
    ("Work on gradkern", ["docs/architecture.md", "CONTRIBUTING.md", "docs/spec-coverage.md", "SECURITY.md"]),
]
MAIN = "docs/mainpage.md"
# Names of pages that are not the name of their file, and words for the menu that are not the heading of the page.
NAMES = {MAIN: "mainpage", "bench/README.md": "benchmarks"}
WORDS = {"README.md": "Readme", "docs/operators.md": "All operators", "docs/numerics.md": "Numerics", "docs/testing.md": "In C++", "docs/conformance.md": "Conformance suite",
         "docs/runtime.md": "C and the compiled library", "docs/spec-coverage.md": "Rules and their tests",
         "CHANGELOG.md": "Change log", "docs/porting.md": "Porting"}  # fmt: skip


def pages(root=ROOT):
    """The files that become pages, in the order of the menu."""
    named = [MAIN] + [path for _, paths in MENU for path in paths]
    return [path for path in named if (root / path).exists()]


def name_of(path):
    """The name of the page that is made of a file."""
    return NAMES.get(path) or re.sub(r"\W", "_", pathlib.PurePosixPath(path).stem.lower())


def heading_of(path, root=ROOT):
    """The heading of a page, without marks."""
    first = (root / path).read_text(encoding="utf-8").split("\n", 1)[0]
    return re.sub(r"\s*\{#\w+\}$", "", first.lstrip("# "))


def word_of(path, root=ROOT):
    """What the menu, and a link that shows no more than the file's name, call a page."""
    return WORDS.get(path) or heading_of(path, root)


def symbols(root=ROOT):
    """Names in namespace gradkern that documents write without it: operators, their plans, attributes and options."""
    text = "\n".join(p.read_text(encoding="utf-8") for p in sorted((root / "include" / "gradkern").glob("*.hpp")) if p.name != "dynamic.hpp")
    operators = re.findall(r"\bclass (\w+)_plan\b", text)
    faces = [face.format(o) for o in operators for face in ("{}", "infer_{}", "plan_{}", "{}_plan")]
    return {*faces, *re.findall(r"^struct (\w+_(?:attributes|options)) {", text, re.MULTILINE)}


def slug(heading):
    """The anchor of a heading, as web pages of repositories make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
