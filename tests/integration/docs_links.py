#!/usr/bin/env python3
"""Each link from a page of the documentation leads to a file that exists, and to a heading in it. Prints TAP."""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(TOP.glob("*.md")) + sorted((TOP / "docs").glob("*.md"))
FENCE = re.compile(r"(?ms)^```.*?^```$")


def anchors(text):
    """What a heading is called in a link, as GitHub forms it."""
    text = FENCE.sub("", text)
    for heading in re.findall(r"(?m)^#+ (.*)$", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        yield re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
    yield from re.findall(r'<a name="([^"]+)">', text)


def broken(page, headings):
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not re.match(r"https?:", link) and (not there.exists() or anchor
                                               and anchor not in headings.get(there, [anchor])):
            yield link


def main():
    headings = {page: set(anchors(page.read_text())) for page in PAGES}
    print(f"1..{len(PAGES)}")
    bad = 0
    for i, page in enumerate(PAGES, 1):
        links = list(broken(page, headings))
        bad += bool(links)
        print(f"{'not ok' if links else 'ok'} {i} - the links of {page.relative_to(TOP)} lead somewhere")
        print("".join(f"# {link}\n" for link in links), end="")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
