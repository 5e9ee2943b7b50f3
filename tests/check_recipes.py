#!/usr/bin/env python3
"""Checks the recipes of packaging/: their versions, and the manifest for vcpkg, whose client few machines have.

    check_recipes.py [--prove] [ROOT]

ROOT is the repository (default: the parent of this file's directory). Every file that states gradkern's version states that of
include/gradkern/version.hpp. packaging/vcpkg/gradkern/vcpkg.json keeps the documented rules of manifests, and is laid out as
`vcpkg format-manifest` would. --prove also plants faults and expects each one to be found.
"""

import json
import pathlib
import re
import sys

# Files that state a version, and the pattern that finds it; {minor} are its first two numbers.
VERSIONS = {
    "meson.build": r"^  version: '([^']*)',$",
    "CITATION.cff": r"^version: (.*)$",
    "packaging/vcpkg/gradkern/vcpkg.json": r'^  "version": "([^"]*)",$',
    "packaging/debian/changelog": r"\Agradkern \(([^-]*)-",
}
# The same of its first two numbers, which name the shared library.
MINOR_VERSIONS = {
    "packaging/debian/control": r"^Package: libgradkern([0-9.]+)$",
    "packaging/debian/libgradkern{}.install": r"\A()",
    "packaging/debian/libgradkern{}.symbols": r"\Alibgradkern\.so\.([0-9.]+) libgradkern",
}
MANIFEST = "packaging/vcpkg/gradkern/vcpkg.json"
KEYS = "$schema name version port-version maintainers description homepage documentation license supports dependencies features".split()
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
RESERVED = re.compile(r"prn|aux|nul|con|core|default|lpt[0-9]|com[0-9]")


def version_of(root):
    text = (root / "include/gradkern/version.hpp").read_text(encoding="utf-8")
    return re.findall(r"#define GRADKERN_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", text)


def version_problems(read, numbers):
    version, minor = ".".join(numbers), ".".join(numbers[:2])
    for expected, patterns in ((version, VERSIONS), (minor, MINOR_VERSIONS)):
        for name, pattern in patterns.items():
            name = name.format(minor)
            found = re.search(pattern, read(name), re.MULTILINE)
            if not found or found[1] not in ("", expected):
                yield f"{name}: the version is {found[1] if found else 'missing'}, not {expected}"


def manifest_problems(text):
    """What the documentation of vcpkg.json forbids, and what `vcpkg format-manifest` would change."""
    try:
        manifest = json.loads(text)
    except json.JSONDecodeError as e:
        yield f"no JSON: {e}"
        return
    for key in manifest:
        if key not in KEYS:
            yield f"{key} is no field of a port"
    for key, kind in {"name": str, "version": str, "description": str, "license": str, "dependencies": list}.items():
        if not isinstance(manifest.get(key), kind):
            yield f"{key} is missing, or of another type"
            return
    names = [d if isinstance(d, str) else d.get("name", "") for d in manifest["dependencies"]]
    for name in [manifest["name"], *names]:
        if not NAME.fullmatch(name) or RESERVED.fullmatch(name):
            yield f"{name!r} is no name of a port"
    if manifest["name"] != pathlib.PurePath(MANIFEST).parent.name:
        yield "the port has another name than its folder"
    if not re.fullmatch(r"\d+(\.\d+)*", manifest["version"]):
        yield f"{manifest['version']} is no version of numbers and dots"
    for d in manifest["dependencies"]:
        if isinstance(d, dict) and (set(d) - {"name", "host", "features", "default-features", "platform", "version>="} or len(d) < 2):
            yield f"{d} is no dependency in its shortest form"
    if names != sorted(set(names)):
        yield "dependencies are not sorted, or twice there"
    ordered = {k: manifest[k] for k in KEYS if k in manifest}
    if text != json.dumps(ordered, indent=2) + "\n":
        yield "is not laid out as by `vcpkg format-manifest`"


def problems(read, numbers):
    return [*version_problems(read, numbers), *(f"{MANIFEST}: {p}" for p in manifest_problems(read(MANIFEST)))]


FAULTS = {
    "a wrong name": ('"gradkern"', '"Gradkern"'),
    "an unsorted dependency": ('"name": "vcpkg-cmake"', '"name": "zlib"'),
    "a field that is none": ('"license"', '"licence"'),
    "a version of another kind": ('"version": "', '"version": "beta-'),
    "another layout": ("  ", "    "),
    "a missing comma": (",\n", "\n"),
}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--prove"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent)
    numbers = version_of(root)

    def read(name):
        return (root / name).read_text(encoding="utf-8")

    found = problems(read, numbers)
    if "--prove" in sys.argv:
        for fault, (old, new) in FAULTS.items():
            text = read(MANIFEST)
            if old not in text or not list(manifest_problems(text.replace(old, new, 1))):
                found.append(f"nobody finds {fault} in {MANIFEST}")
        for name, pattern in {**VERSIONS, **MINOR_VERSIONS}.items():
            name = name.format(".".join(numbers[:2]))
            at = re.search(pattern, read(name), re.MULTILINE)
            changed = read(name)[: at.start(1)] + "9" + read(name)[at.start(1) :]
            if at[1] and not list(version_problems(lambda n: changed if n == name else read(n), numbers)):
                found.append(f"nobody finds another version in {name}")
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"{len(VERSIONS) + len(MINOR_VERSIONS)} files that state a version, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
