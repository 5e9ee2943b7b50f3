#!/usr/bin/env python3
"""Makes the site (docs/site/build.py) and checks its pages, without network.

    check_site.py [--prove] [--browser] [--doxygen PROGRAM]

- Every link of a page, of the menu and of the search leads to a file of the site, and to an anchor that it has.
- No page loads anything from elsewhere: scripts, styles and pictures are files of the site. No page shows where it was made.
- Every document of docs/ is in the menu and has a page; marks of Markdown or Doxygen are not left in the text, and each
  symbol that a text names, as gradkern::avg_pool, has a page.
- The search finds every operator, every public header and every page.

With --prove faults are planted in the site, one of each kind, and the check has to find them. With --browser each page is opened, wide
and narrow, light and dark, in Chromium (Debian: chromium-driver and python3-selenium): nothing may be wider than the window, scripts may
not fail, pictures have to load, and the search has to answer; skipped with a message where there is no browser.
"""

import argparse
import functools
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs" / "site"), str(ROOT / "tests")]
import pages  # noqa: E402
from check_docs import operators_of  # noqa: E402

WEB = re.compile(r"^[a-z]+:|^//")
# What a script knows of other pages: strings that are a page, with an anchor or without.
NAMED = re.compile(r"""["'](?:\.\./)?([\w-]+\.html(?:#[\w:.-]*)?)["']""")
LEFT = re.compile(r"\{#[\w-]+\}|@ref\b|</?tt>|\[[^\]]+\]\([\w./#-]+\)|`|^#+ ", re.MULTILINE)


class Page(html.parser.HTMLParser):
    """What is in a page: anchors, links, what it loads, and its text."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.text, self.skipped = set(), [], [], [], 0
        self.divisions = 0  # of a block of code
        self.linked, self.unlinked = False, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[a] for a in ("id", "name") if found.get(a))
        self.linked = tag == "a" or self.linked and tag not in ("p", "td", "li")
        self.skipped += tag in ("script", "style", "code", "pre")
        self.divisions += tag == "div" and (self.divisions > 0 or "fragment" in (found.get("class") or ""))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        loaded = found.get({"link": "href", "object": "data"}.get(tag, "src"))
        if loaded and loaded != "javascript:void(0)":  # the frame for results of a search
            self.loads.append(loaded)

    def handle_endtag(self, tag):
        if tag in ("script", "style", "code", "pre"):
            self.skipped -= 1
        self.divisions -= tag == "div" and self.divisions > 0
        self.linked = self.linked and tag != "a"

    def handle_data(self, data):
        if self.skipped <= 0 and not self.divisions:
            self.text.append(data)
            if not self.linked:
                self.unlinked += re.findall(r"\bgradkern::\w+", data)


parse = functools.cache(Page)


def check(site):
    """What is wrong with the site, and how many pages and links it has."""
    found = {p.relative_to(site).as_posix(): parse(p.read_text(encoding="utf-8")) for p in sorted(site.rglob("*.html"))}
    problems, count = [], 0

    def look(origin, target):
        nonlocal count
        count += 1
        name, _, anchor = urllib.parse.unquote(target).partition("#")
        path = (site / pathlib.PurePosixPath(origin).parent / name).resolve() if name else site / origin
        key = path.relative_to(site).as_posix() if path.is_relative_to(site) else ""
        if not path.is_file() or not key:
            problems.append(f"{origin}: {target} leads nowhere")
        elif anchor and key in found and anchor not in found[key].anchors:
            problems.append(f"{origin}: {target} names no anchor")

    for name, page in found.items():
        if str(ROOT) in "".join(page.text):
            problems.append(f"{name} shows where it was made")
        for target in page.links:
            if not WEB.match(target):
                look(name, target)
        for target in page.loads:
            if WEB.match(target):
                problems.append(f"{name}: {target} comes from elsewhere")
            else:
                look(name, target)
    # navtreeindex*.js, and NAVTREEINDEX, say which entry of the menu belongs to a page: no links.
    for script in sorted(p for p in site.rglob("*.js") if not p.name.startswith("navtreeindex")):
        for target in NAMED.findall(script.read_text(encoding="utf-8").partition("var NAVTREEINDEX")[0]):
            look(script.name, target)

    made = {pages.name_of(p): p for p in pages.pages()}
    for path in sorted((ROOT / "docs").glob("*.md")):
        if path.relative_to(ROOT).as_posix() not in made.values():
            problems.append(f"docs/{path.name} is in no group of docs/site/pages.py")
    menu = (site / "navtreedata.js").read_text(encoding="utf-8") + (site / "menudata.js").read_text(encoding="utf-8")
    search = "\n".join(p.read_text(encoding="utf-8") for p in (site / "search").glob("*") if p.suffix in (".js", ".html"))
    for name, path in made.items():
        file = "index.html" if path == pages.MAIN else f"{name}.html"
        if file not in found:
            problems.append(f"{path} has no page")
            continue
        if f'"{file}"' not in menu:
            problems.append(f"{file} is not in the menu")
        for symbol in found[file].unlinked:
            problems.append(f"{file}: {symbol} has no page")
        for mark in LEFT.findall("".join(found[file].text)):
            problems.append(f"{file}: {mark!r} is left in the text")
        if path != pages.MAIN and f"{name}.html" not in search:
            problems.append(f"the search does not find {file}")
    for operator in operators_of(ROOT):
        if not re.search(rf"['\"]{operator}['\"]|>{operator}<", search):
            problems.append(f"the search does not find {operator}")
    headers = [p for p in (ROOT / "include" / "gradkern").glob("*.hpp")]
    for header in headers:
        if header.name not in search:
            problems.append(f"the search does not find {header.name}")
    return problems, len(found), count


def planted(site):
    """Faults: what is said about each, and the file that has it."""

    def replace(name, old, new, said):
        path = site / name
        text = path.read_text(encoding="utf-8")
        assert old in text, (name, old)
        path.write_text(text.replace(old, new), encoding="utf-8")
        yield said
        path.write_text(text, encoding="utf-8")

    yield from replace("pooling.html", 'href="shapes.html', 'href="shape.html', "shape.html#shapes-number-of-windows leads nowhere")
    yield from replace("shapes.html", 'id="shapes-number-of-windows"', 'id="elsewhere"', "names no anchor")
    yield from replace("shapes.html", 'data="rounding.svg"', 'data="rounding.png"', "rounding.png leads nowhere")
    yield from replace("numerics.html", 'src="jquery.js"', 'src="https://example.org/jquery.js"', "comes from elsewhere")
    yield from replace("porting.html", "Porting from another library", "Porting `it` (@ref porting)", "is left in the text")
    yield from replace("operators.html", ">gradkern::algorithm<", ">algorithm</a> gradkern::algorithms<", "gradkern::algorithms has no page")
    yield from replace("exact.html", "Exact references", str(ROOT), "shows where it was made")
    yield from replace("menudata.js", "threads.html", "thread.html", "thread.html leads nowhere")
    for script in [p for p in (site / "search").glob("*.js") if "lp_5fpool_5fbackward" in p.read_text(encoding="utf-8")]:
        script.write_text(script.read_text(encoding="utf-8").replace("lp_5fpool_5fbackward", "x").replace("lp_pool_backward", "x"))
    yield "the search does not find lp_pool_backward"
    (site / "threads.html").unlink()
    yield "docs/threads.md has no page"


def prove(site):
    problems = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch).resolve() / "site"
        shutil.copytree(site, copy)
        count = 0
        for said in planted(copy):
            count += 1
            if not any(said in p for p in check(copy)[0]):
                problems.append(f"nobody notices that {said}")
    print(f"{count} faults planted")
    return problems


def browse(site):
    """What a browser finds on every page of a document, and on one of each kind of the reference."""
    try:
        from selenium import webdriver
        from selenium.common.exceptions import WebDriverException
    except ImportError:
        print("skipped: no browser (python3-selenium is not here)")
        return []
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        driver = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(shutil.which("chromedriver") or "chromedriver"))
    except WebDriverException as error:
        print(f"skipped: no browser ({error.msg})")
        return []
    names = ["index.html"] + [f"{pages.name_of(p)}.html" for p in pages.pages() if p != pages.MAIN]
    names += ["namespacegradkern.html", "classgradkern_1_1avg__pool__plan.html", "annotated.html", "files.html"]
    problems, opened = [], 0
    try:
        for width, scheme in ((1400, "light"), (1400, "dark"), (400, "light"), (400, "dark")):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            for name in names:
                driver.get((site / name).as_uri())
                opened += 1
                where = f"{name}, {width} px, {scheme}"
                widest = driver.execute_script(
                    "const e = document.getElementById('doc-content');"
                    "return Math.max(document.documentElement.scrollWidth - innerWidth, e.scrollWidth - e.clientWidth)"
                )
                if widest > 1:
                    problems.append(f"{where}: {widest} px too wide")
                if not waited(lambda: not driver.execute_script(MISSING)):
                    problems.append(f"{where}: pictures are missing: {driver.execute_script(MISSING)}")
                errors = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
                problems += [f"{where}: {e}" for e in errors]
                faint = driver.execute_script(CONTRAST)
                problems += [f"{where}: too faint: {f}" for f in faint]
        for words, expected in (("conv_transpose", "conv_transpose"), ("Padding", "Padding and shapes"), ("workspace_b", "workspace_bytes")):
            driver.get((site / "index.html").as_uri())
            answer = searched(driver, words)
            if expected not in answer:
                problems.append(f"the search for {words} answers {answer!r}")
    finally:
        driver.quit()
    print(f"{opened} pages opened")
    return problems


MISSING = "return [...document.images].filter(i => i.getClientRects().length && !i.naturalWidth).map(i => i.src).join(' ')"
# Text whose contrast with its ground is below 4.5, by the formula of WCAG.
CONTRAST = """
const light = c => { const f = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
                     return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
const parts = s => (s.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const ground = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor);
                      if (c.length < 4 || c[3] > 0.5) return c; } return [255, 255, 255]; };
const out = new Set();
for (const e of document.querySelectorAll('.contents *, .title, #nav-tree a')) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) || !e.getClientRects().length) continue;
    const s = getComputedStyle(e);
    if (s.visibility != 'visible' || s.opacity < 0.5) continue;
    const a = light(parts(s.color)), b = light(ground(e));
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) out.add(e.tagName + '.' + e.className + ' ' + s.color);
}
return [...out].slice(0, 5);
"""


def waited(condition):
    """Whether something becomes true within four seconds."""
    for _ in range(40):
        if condition():
            return True
        time.sleep(0.1)
    return False


def searched(driver, words):
    """What the search box answers."""
    from selenium.webdriver.common.by import By

    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    driver.get(driver.current_url)
    driver.find_element(By.ID, "MSearchField").send_keys(words)
    answer = ""

    def found():
        nonlocal answer
        window = driver.find_elements(By.ID, "MSearchResults")
        if window and window[0].tag_name == "iframe":  # of older versions of Doxygen
            driver.switch_to.frame(window[0])
            answer = driver.execute_script("return document.body ? document.body.innerText : ''")
            driver.switch_to.default_content()
        else:
            answer = driver.find_element(By.ID, "MSearchResultsWindow").text
        return words.lower() in answer.lower()

    waited(found)
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prove", action="store_true")
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--doxygen", default="doxygen")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        site = pathlib.Path(scratch).resolve() / "site"
        build = [sys.executable, ROOT / "docs" / "site" / "build.py", "--output", site, "--doxygen", arguments.doxygen]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        problems, number, count = [done.stderr.strip() or f"build.py ended with {done.returncode}"], 0, 0
        if done.returncode == 0:
            problems, number, count = check(site)
            if arguments.prove and not problems:
                problems = prove(site)
            if arguments.browser and not problems:
                problems = browse(site)
    for problem in problems:
        print(f"check_site: {problem}", file=sys.stderr)
    print(f"{number} pages, {count} links, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
