#!/usr/bin/env python3
"""Checks the documents (README.md, CONTRIBUTING.md, docs/*.md, ...): what they name exists, and the code they show is compiled.

    check_links.py [ROOT]

ROOT is the repository (default: the parent of this file's directory).

- A link goes to a file that exists, and to a heading that exists where it names one. Web addresses are not followed.
- A header named in `...` or <...> exists under include/, and so does any other path in `...` that begins with one of the
  repository's own directories.
- A name GRADKERN_... is one that CMake or the headers use, and docs/building.md has every option of CMake.
- A block of C++ stands, whole lines and without indentation, in a source that a CMakeLists.txt names.
"""

import pathlib
import re
import sys
import textwrap

DIRECTORIES = ("bench", "cmake", "docs", "examples", "include", "packaging", "python", "runtime", "tests", "tools", ".ci")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SWITCH = re.compile(r"\bGRADKERN_[A-Z][A-Z0-9_]*\b")
OPTION = re.compile(r"\boption\((GRADKERN_\w+)|\bset\((GRADKERN_\w+)[^()]*\bCACHE\s+(?:BOOL|PATH|STRING)\b")
NAMED = re.compile(r"`([^`\n]+)`|<(gradkern/[^>\n]*)>")


def slug(heading):
    """The anchor of a heading, as web pages of repositories make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    return {slug(h) for h in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)}


def broken_links(path, prose):
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        to = path.parent / name if name else path
        if not to.exists():
            yield f"the link to {target} leads nowhere"
        elif anchor and anchor not in anchors(to):
            yield f"the link to {target} names no heading of {to.name}"


def missing_files(root, text):
    for match in NAMED.finditer(text):
        name = (match[1] or match[2]).strip("<>").removesuffix("...")
        if re.search(r"[\s*]|.<", match[1] or "") or name.startswith("xsimd/"):
            continue
        if name.startswith("gradkern/") and (name.endswith((".hpp", "/"))):
            name = "include/" + name
        elif re.fullmatch(r"[\w/]+\.hpp", name) and not name.startswith(DIRECTORIES):
            name = "include/gradkern/" + name
        homes = (root / name, root / "runtime" / name)  # a header of the library, or of the compiled one
        if name.split("/")[0] in DIRECTORIES and "/" in name and not any(home.exists() for home in homes):
            yield f"{name} does not exist"


def switches(root):
    """The GRADKERN_ names that CMake and the headers use, and the options among them that are not advanced."""
    runtime = root / "runtime"
    lists = [root / "CMakeLists.txt", *(root / "cmake").iterdir(), runtime / "CMakeLists.txt"]
    cmake = "\n".join(p.read_text(encoding="utf-8") for p in lists)
    sources = [p for d in (root / "include", runtime) for kind in ("*.h", "*.hpp", "*.cpp") for p in d.rglob(kind)]
    headers = "\n".join(p.read_text(encoding="utf-8") for p in sources)
    options = {a or b for a, b in OPTION.findall(cmake)}
    return set(SWITCH.findall(cmake + headers)), options - set(re.findall(r"mark_as_advanced\((\w+)\)", cmake))


def compiled_sources(root):
    """The text of each source that a CMakeLists.txt of its directory or one above names."""
    for directory in ("examples", "tests"):
        for path in sorted((root / directory).rglob("*.cpp")):
            parents = [p for p in path.parents if p == root / directory or root / directory in p.parents]
            lists = [p / "CMakeLists.txt" for p in parents if (p / "CMakeLists.txt").exists()]
            # A list may name it in a loop: `porting/${name}.cpp`.
            words = "|".join((re.escape(path.name), r"\$\{name\}\.cpp"))
            named = any(
                re.search(rf"\b{re.escape(path.stem)}\b", text) and re.search(words, text)
                for text in (p.read_text(encoding="utf-8") for p in lists)
            )
            if named:
                yield path.read_text(encoding="utf-8")


def shown(block, source):
    """Whether the lines of the block follow one another in the source, at any indentation."""
    first = block.splitlines()[0]
    for match in re.finditer(rf"^([ ]*){re.escape(first)}$", source, re.MULTILINE):
        lines = textwrap.indent(block, match[1])
        if source.startswith(lines, match.start()):
            return True
    return False


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    sources = list(compiled_sources(root))
    known, options = switches(root)
    building = (root / "docs" / "building.md").read_text(encoding="utf-8")
    problems = [f"docs/building.md: {o} is missing" for o in sorted(options - set(SWITCH.findall(building)))]
    blocks = 0
    documents = [root / name for name in ("README.md", "CONTRIBUTING.md", "bench/README.md", "python/README.md")]
    documents += sorted((root / "docs").glob("*.md"))
    for path in documents:
        text = path.read_text(encoding="utf-8")
        prose = FENCE.sub("", text)
        found = [*broken_links(path, prose), *missing_files(root, text)]
        found += [f"nothing is called {name}" for name in sorted(set(SWITCH.findall(text)) - known)]
        for language, block in FENCE.findall(text):
            if language != "cpp":
                continue
            blocks += 1
            if not any(shown(block, s) for s in sources):
                found.append(f"no compiled source holds the code that begins with {block.splitlines()[0]!r}")
        problems += [f"{path.relative_to(root)}: {p}" for p in found]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(documents)} documents, {blocks} blocks of C++, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
