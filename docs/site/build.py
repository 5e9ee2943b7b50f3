#!/usr/bin/env python3
"""Makes the site of the documents and of all public headers: build/site/index.html. It needs Doxygen, and no network.

    build.py [--output DIRECTORY] [--theme DIRECTORY] [--doxygen PROGRAM]

The theme is doxygen-awesome-css: the directory that --theme names, or Debian's package. Without it pages have
Doxygen's own look. Fails where Doxygen warns.
"""

import argparse
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import markdown
import pages

HERE = pathlib.Path(__file__).resolve().parent
THEME = pathlib.Path("/usr/share/doxygen-awesome-css")
STYLES = ("doxygen-awesome.css", "doxygen-awesome-sidebar-only.css", "doxygen-awesome-sidebar-only-darkmode-toggle.css")
SCRIPTS = {
    "doxygen-awesome-darkmode-toggle.js": "DoxygenAwesomeDarkModeToggle",
    "doxygen-awesome-fragment-copy-button.js": "DoxygenAwesomeFragmentCopyButton",
    "doxygen-awesome-paragraph-link.js": "DoxygenAwesomeParagraphLink",
    "doxygen-awesome-interactive-toc.js": "DoxygenAwesomeInteractiveToc",
}


def template(program, directory, *arguments):
    """Writes files that this version of Doxygen offers to adapt."""
    subprocess.run([program, *arguments], cwd=directory, check=True, stdout=subprocess.DEVNULL)


def layout(program, scratch):
    """Doxygen's layout with our menu."""
    template(program, scratch, "-l", "layout.xml")
    tab = '<tab type="user" url="@ref {}" title="{}"/>'
    groups = ['<tab type="mainpage" visible="yes" title="gradkern"/>']
    for title, paths in pages.MENU:
        tabs = [tab.format(pages.name_of(p), pages.word_of(p)) for p in paths if (pages.ROOT / p).exists()]
        groups.append(f'<tab type="usergroup" url="[none]" title="{title}">{"".join(tabs)}</tab>')
    reference = "".join(f'<tab type="{t}" visible="yes" title=""/>' for t in ("namespacelist", "namespacemembers"))
    reference += '<tab type="classlist" visible="yes" title="Types"/><tab type="filelist" visible="yes" title="Headers"/>'
    groups.append(f'<tab type="usergroup" url="@ref gradkern" title="Reference">{reference}</tab>')
    path = scratch / "layout.xml"
    menu = "<navindex>" + "".join(groups) + "</navindex>"
    path.write_text(re.sub(r"<navindex>.*</navindex>", menu, path.read_text(encoding="utf-8"), flags=re.DOTALL), encoding="utf-8")
    return path


def header(program, scratch):
    """Doxygen's header with the scripts of the theme."""
    template(program, scratch, "-w", "html", "header.html", "footer.html", "style.css")
    scripts = "".join(f'<script type="text/javascript" src="$relpath^{s}"></script>\n' for s in SCRIPTS)
    scripts += '<script type="text/javascript">' + "".join(f"{c}.init();" for c in SCRIPTS.values()) + "</script>\n"
    path = scratch / "header.html"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("</head>", scripts + "</head>"), encoding="utf-8")
    return path


def headers(scratch):
    """The comments that headers begin with, as descriptions of their pages."""
    doxyfile = (HERE.parent / "Doxyfile").read_text(encoding="utf-8")
    internal = re.search(r"^EXCLUDE_PATTERNS\s*=(.*)$", doxyfile, re.MULTILINE)[1].split()
    texts = []
    for path in sorted((pages.ROOT / "include").rglob("*.hpp")):
        comment = re.match(r"(?://.*\n)*", path.read_text(encoding="utf-8"))[0]
        if comment and not any(fnmatch.fnmatch(path, p) for p in internal):
            texts.append(f"/// \\file {path.relative_to(pages.ROOT / 'include')}\n")
            for line in re.sub("^//", "///", comment, flags=re.MULTILINE).splitlines():
                # Angle brackets are no marks of HTML, but in code.
                parts = re.split(r"(`[^`]*`)", line)
                if not line.startswith("///     "):
                    parts[::2] = [p.replace("<", r"\<") for p in parts[::2]]
                texts.append("".join(parts) + "\n")
            texts.append("\n")
    path = scratch / "headers.dox"
    path.write_text("".join(texts), encoding="utf-8")
    return path


def settings(program, output, theme, scratch):
    quoted = " ".join(pages.pages())
    lines = [
        (HERE.parent / "Doxyfile").read_text(encoding="utf-8"),
        f"INPUT = {quoted} docs/namespaces.dox {headers(scratch)} include runtime/include",
        f"OUTPUT_DIRECTORY = {output.parent}",
        f"HTML_OUTPUT = {output.name}",
        f"LAYOUT_FILE = {layout(program, scratch)}",
        f'FILTER_PATTERNS = "*.md={sys.executable} {HERE / "markdown.py"}"',
        f"IMAGE_PATH = {' '.join(sorted({str(p.parent) for p in pictures()}))}",
        "GENERATE_TREEVIEW = YES",
        "DISABLE_INDEX = NO",
        "TOC_INCLUDE_HEADINGS = 2",
        "CLASS_GRAPH = NO",  # bases are internal, and so are most headers that others include
        "SHOW_INCLUDE_FILES = NO",
        "HTML_DYNAMIC_MENUS = YES",
        f"HTML_EXTRA_STYLESHEET = {' '.join(str(theme / s) for s in STYLES) if theme else ''} {HERE / 'style.css'}",
    ]
    if theme:
        lines.append(f"HTML_HEADER = {header(program, scratch)}")
        lines.append(f"HTML_EXTRA_FILES = {' '.join(str(theme / s) for s in SCRIPTS)}")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if theme and version >= (1, 10):
        lines.append("HTML_COLORSTYLE = LIGHT")  # the theme has the dark colours
    if version >= (1, 10):
        lines.append("IMPLICIT_DIR_DOCS = NO")  # README.md is a page
    return "\n".join(lines) + "\n"


def pictures():
    """The pictures of all pages."""
    for path in pages.pages():
        text = (pages.ROOT / path).read_text(encoding="utf-8")
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text):
            yield (pages.ROOT / path).parent / target


def copy_files(output):
    """The files of the repository that pages lead to, as text."""
    for path in pages.pages():
        document = markdown.Document(path)
        document.doxygen()
        for file in document.files:
            to = output / "files" / (file + ".txt")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(pages.ROOT / file, to)


def repair(output):
    """Mends links of Doxygen 1.9.4 that lead nowhere: of headers' menus to members of namespaces, and to private classes."""
    member = re.compile(r'"(\w+\.html)#(a[0-9a-f]{32,})"')
    anchors = {p.name: set(re.findall(r'id="(a[0-9a-f]{32,})"', p.read_text(encoding="utf-8"))) for p in output.glob("*.html")}
    homes = {anchor: page for page in sorted(anchors) for anchor in anchors[page]}

    def home(match):
        page, anchor = match.groups()
        return match[0] if anchor in anchors[page] or anchor not in homes else f'"{homes[anchor]}#{anchor}"'

    for path in output.glob("*_8hpp.js"):
        path.write_text(member.sub(home, path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in output.glob("class*.html"):
        text = path.read_text(encoding="utf-8")
        if 'name="nested-classes"' not in text:
            path.write_text(re.sub(r'<a href="#nested-classes">[^<]*</a>( &#124;\n)?', "", text), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pages.ROOT / "build" / "site")
    parser.add_argument("--theme", type=pathlib.Path, default=THEME)
    parser.add_argument("--doxygen", default="doxygen")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    if shutil.which(arguments.doxygen) is None:
        sys.exit(f"build: there is no {arguments.doxygen} (Debian: doxygen doxygen-awesome-css)")
    theme = arguments.theme if arguments.theme.is_dir() else None
    if not theme:
        print(f"build: no theme in {arguments.theme}: pages have Doxygen's own look", file=sys.stderr)

    shutil.rmtree(output, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        text = settings(arguments.doxygen, output, theme, pathlib.Path(scratch))
        done = subprocess.run([arguments.doxygen, "-"], cwd=pages.ROOT, input=text, text=True, check=False)
    if done.returncode:
        return done.returncode
    copy_files(output)
    repair(output)
    print(output / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
