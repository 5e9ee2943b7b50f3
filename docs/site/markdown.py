#!/usr/bin/env python3
"""Prints a document of the repository as Doxygen wants it: its filter for Markdown.

    markdown.py FILE

- Headings get the anchors that web pages of repositories give them, so that links to a heading work on both.
- Links to other documents become links to their pages, with the page's heading where they show a file name. Links to other
  files lead to copies below files/, which build.py makes.
- Names of operators lead to their reference.
- A page with several sections gets a table of contents.
"""

import html
import pathlib
import posixpath
import re
import sys

import pages

FENCE = re.compile(r"^(```\w*\n.*?^```$)", re.MULTILINE | re.DOTALL)
# Code, a picture or link, or an address; a label may hold code, and may go on in the next line.
INLINE = re.compile(r"(?P<link>(?P<image>!?)\[(?P<label>(?:`[^`]*`|[^\[\]`])*)\]\((?P<target>[^)\s]+)\))|(?P<code>`[^`]+`)")


class Document:
    def __init__(self, path, root=pages.ROOT):
        self.root = root
        self.path = path
        self.name = pages.name_of(path)
        self.known = set(pages.pages(root))
        self.symbols = pages.symbols(root)
        self.files = set()  # what links lead to and is no page

    def resolve(self, target):
        """A path in the repository, of a path beside this document."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.path), target))

    def page_link(self, label, path, anchor):
        if re.fullmatch(r"`[\w/.-]+\.md`", label):
            label = pages.word_of(path, self.root)
        name = "index" if path == pages.MAIN else pages.name_of(path)
        to = f"{name}-{anchor}" if anchor else name
        if "`" in label:  # Doxygen takes code in the label of a reference as it is
            return f'<a href="{name}.html{"#" + to if anchor else ""}">{self.as_html(label)}</a>'
        return f"[{label}](@ref {to})"

    @staticmethod
    def as_html(label):
        return re.sub(r"`([^`]*)`", lambda m: f"<code>{html.escape(m[1])}</code>", label)

    def link(self, match):
        label, target = match["label"], match["target"]
        if match["image"]:
            return f"![{label}]({posixpath.basename(target)})"
        if re.match(r"[a-z]+:", target):
            return match[0]
        file, _, anchor = target.partition("#")
        path = self.resolve(file) if file else self.path
        if path in self.known:
            return self.page_link(label, path, anchor)
        if not (self.root / path).is_file():
            return label  # a directory
        self.files.add(path)
        return f'<a href="files/{path}.txt">{self.as_html(label)}</a>'

    def code(self, text):
        """Code. The name of a document is a link, as `docs/building.md`, and so is that of an operator. Doxygen ends code at a quote unless marks are double."""
        path = self.resolve(text.strip("`"))
        for candidate in (text.strip("`"), path):
            if candidate in self.known and candidate != self.path and candidate.endswith(".md"):
                return self.page_link(text, candidate, "")
        if text.strip("`") in self.symbols:
            return f'<code>\\ref gradkern::{text.strip("`")} "{text.strip("`")}"</code>'
        return f"`{text}`" if "'" in text else text

    def prose(self, text):
        text = INLINE.sub(lambda m: self.link(m) if m["link"] else self.code(m["code"]), text)
        return re.sub(r"^(#+) (.*)$", self.heading, text, flags=re.MULTILINE)

    def heading(self, match):
        marks, title = match.groups()
        if len(marks) == 1:
            return match[0] if "{#" in title else f"# {title} {{#{self.name}}}{self.contents}"
        anchor = f"{self.name}-{pages.slug(self.slugs.pop(0))}"
        if self.path == pages.MAIN:  # sections of the main page would stand in the menu, beside groups of pages
            return f'<h{len(marks)} id="{anchor}">{title}</h{len(marks)}>'
        return f"{marks} {re.sub('[`<>]', '', title)} {{#{anchor}}}"  # Doxygen knows no marks in headings

    def doxygen(self):
        text = (self.root / self.path).read_text(encoding="utf-8")
        parts = FENCE.split(text)
        # Anchors are those of the headings as they were written.
        self.slugs = [h for part in parts[::2] for h in re.findall(r"^##+ (.*)$", part, re.MULTILINE)]
        self.contents = "\n\n[TOC]" if len(re.findall(r"^## ", "".join(parts[::2]), re.MULTILINE)) > 2 else ""
        parts[::2] = [self.prose(part) for part in parts[::2]]
        return "".join(parts)


def main():
    path = pathlib.Path(sys.argv[1]).resolve().relative_to(pages.ROOT).as_posix()
    sys.stdout.write(Document(path).doxygen())


if __name__ == "__main__":
    main()
