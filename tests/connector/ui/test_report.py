"""The laws of the report."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from relstate.connector.ui import report as reports
from relstate.connector.ui.report import report
from relstate.storage import Store
from support.commands import run
from support.stores import StoreMaker

_HOSTILE = "<script>alert(1)</script>"


class _Page(HTMLParser):
    """The elements of a page, and what it would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)
        names = dict(attributes)
        assert not [name for name in names if name.startswith("on") or name == "style"]
        self.addresses += [names[name] or "" for name in ("href", "src") if name in names]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_report_is_one_file_that_loads_nothing(viewed: Store) -> None:
    """There is no script, and no address but places in the report; all elements are closed."""
    text = report(viewed)
    page = _Page(text)

    assert page.open == []
    assert "script" not in page.tags
    assert all(address.startswith("#") for address in page.addresses)
    assert "url(" not in text
    assert "@import" not in text
    anchors = set(re.findall(r'id="([^"]+)"', text))
    assert {address[1:] for address in page.addresses} <= anchors
    assert "prefers-color-scheme: dark" in text


def test_a_report_has_every_table_and_view(viewed: Store) -> None:
    """With their sizes, their rows, their refreshes and what they read."""
    page = _Page(report(viewed))
    words = " ".join(" ".join(page.texts).split())

    for text in ("t.by_n", "being populated", "SELECT k FROM t", "<b>one</b>", "index by_n on n"):
        assert text in words
    assert "3 changes in" in words
    assert "4 changes in" in words


@pytest.mark.parametrize("text", [_HOSTILE, '"><img src=x onerror=alert(1)>', "a'b&c</title>"])
def test_names_and_values_are_text(make_store: StoreMaker, text: str) -> None:
    """Columns, comments, properties and rows may have any text; it is shown, never acted on."""
    store = make_store()
    store.create_table(
        "t",
        f"k STRING, `{text}` STRING",
        primary_key=["k"],
        user_properties={"comment": text, f"x.{text}": text},
    )
    store.create_index("t", "i", [text])
    store.write("t", pa.table({"k": [text], text: [text]}))

    page = _Page(report(store))

    assert not {"script", "img"} & set(page.tags)
    assert page.open == []
    assert page.texts.count(text) >= 3


def test_an_empty_store_has_a_report(store: Store) -> None:
    """It says that there are no tables and no views."""
    text = report(store)

    assert "There are no tables." in text
    assert "There are no views." in text


def test_only_the_largest_have_a_section(viewed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is counted, and named without a link."""
    monkeypatch.setattr(reports, "SECTIONS", 1)
    text = report(viewed)

    assert text.count('<section id="view-') == 1
    assert text.count('<section id="table-') == 1
    assert "1 more tables and views" in text


def test_what_is_damaged_is_reported(viewed: Store) -> None:
    """A table whose file has another content shows the error; the others are shown."""
    viewed.create_table("u", "k BIGINT", primary_key=["k"])
    viewed.write("u", pa.table({"k": [77]}))
    (segment,) = viewed.state.segments_of(viewed.state.table("u").definition.table_id)
    file = Path(viewed.path, "segments", f"{segment.name}.lmdb")
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    try:
        with Store.open(viewed.path) as damaged:
            text = report(damaged)
    finally:
        file.write_bytes(whole)

    assert "the file was truncated or replaced" in text
    assert "&lt;b&gt;one&lt;/b&gt;" in text


def test_the_command_writes_the_file(viewed: Store, tmp_path: Path) -> None:
    """``-o`` names it, ``-o -`` is stdout; the file is UTF-8."""
    file = tmp_path / "page.html"

    written, shown = (
        run("report", viewed.path, "-o", str(file)),
        run("report", viewed.path, "-o", "-"),
    )

    assert (written.code, written.output) == (0, "")
    assert file.read_text("utf-8").startswith("<!doctype html>")
    assert shown.output.startswith("<!doctype html>")
    assert run("report", viewed.path, "-o", str(tmp_path / "no" / "page.html")).code == 2
