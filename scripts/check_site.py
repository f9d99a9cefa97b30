"""Fail if a page of the built site would load anything from another host.

usage: check_site.py FOLDER

Links that a reader may follow are allowed; scripts, styles, fonts and pictures are not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

# What a browser loads by itself, by tag and attribute.
_LOADED = {
    ("audio", "src"), ("embed", "src"), ("iframe", "src"), ("img", "src"), ("img", "srcset"),
    ("link", "href"), ("object", "data"), ("script", "src"), ("source", "src"), ("video", "src"),
}  # fmt: skip
# Relations of a <link> that only name a page.
_NAMED = {"canonical", "next", "prev", "alternate"}
# The theme's own scripts load more for elements of these classes. No page may have such an element.
_LOADS_LATER = ("mermaid", "glightbox", "pyodide")


def main(folder: Path) -> int:
    """Print what other hosts would be asked for; return 1 if there is any, or no page at all."""
    pages = sorted(folder.rglob("*.html"))
    problems = [f"{page}: {problem}" for page in pages for problem in _problems(page)]
    problems += [f"{sheet}: {url}" for sheet in folder.rglob("*.css") for url in _urls(sheet)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(pages)} pages, {len(problems)} files from other hosts")
    return 1 if problems or not pages else 0


class _Reader(HTMLParser):
    """Collects what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        classes = set(attributes.get("class", "").split())
        self.problems += [f"a {name} element" for name in _LOADS_LATER if name in classes]
        if tag == "link" and attributes.get("rel") in _NAMED:
            return
        for name, value in attributes.items():
            if (tag, name) in _LOADED and re.match(r"(https?:)?//", value):
                self.problems.append(f"{tag} {value}")


def _problems(page: Path) -> list[str]:
    reader = _Reader()
    reader.feed(page.read_text("utf-8"))
    return reader.problems


def _urls(sheet: Path) -> Iterator[str]:
    """Yield the addresses of other hosts that a style sheet loads."""
    text = sheet.read_text("utf-8")
    yield from re.findall(r"(?:url\(|@import\s*)[\"']?((?:https?:)?//[^\"')]+)", text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
