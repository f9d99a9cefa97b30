"""The documents agree with the code: what they show is run, what they list is complete."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from decimal import Decimal
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import relstate
from relstate.connector.options import (
    feed_options,
    feed_stream_options,
    read_options,
    stream_write_options,
    write_options,
)
from relstate.storage import Store, errors
from relstate.storage.errors import OptionError, RelstateError
from relstate.storage.segment.registry import registry

_ROOT = Path(__file__).parents[1]
_FORMAT = (_ROOT / "docs" / "format.md").read_text()
# The pages with Python, and the path of the store that each makes.
_PAGES = {
    "README.md": "/tmp/shop",
    "docs/change-feed.md": "/tmp/feed",
    "docs/documents.md": "/tmp/documents",
    "docs/guides/backfills.md": "/tmp/backfills",
    "docs/guides/backup.md": "/tmp/backup",
    "docs/guides/bad-rows.md": "/tmp/bad-rows",
    "docs/guides/cdc.md": "/tmp/cdc",
    "docs/guides/erasure.md": "/tmp/erasure",
    "docs/guides/keep-running.md": "/tmp/keep-running",
    "docs/guides/late-data.md": "/tmp/late",
    "docs/guides/rescaling.md": "/tmp/rescaling",
    "docs/guides/serving.md": "/tmp/serving",
    "docs/guides/test-a-view.md": "/tmp/test-a-view",
    "docs/how-to.md": "/tmp/how-to",
    "docs/options.md": "/tmp/options",
    "docs/sql.md": "/tmp/sql",
    "docs/start/tutorial.md": "/tmp/tutorial",
    "docs/views.md": "/tmp/views",
}
# What runs in one process, and so in one Spark: the guides are short.
_GUIDES = [page for page in _PAGES if page.startswith("docs/guides/")]
_RUNS = {page: [page] for page in _PAGES if page not in _GUIDES} | {"docs/guides": _GUIDES}
# Spark warns of a pandas that is newer than those it was tested with.
_OF_SPARK = "ignore:PySpark does not yet fully support pandas:FutureWarning"
# Run after a page's own Python. A query that fails in the background leaves its table empty.
_EPILOGUE = """
for name, value in list(globals().items()):
    if hasattr(value, "awaitTermination"):
        assert value.exception() is None, (name, value.exception())
written = {
    table.table_id for entry in store.history() for record in entry.added for table in record.tables
}
for name in store.tables():
    table_id = store.state.table(name).definition.table_id
    assert table_id in written, f"nothing was ever written to the table {name}"
assert store.check().ok
"""


def _hex_of(example: str, name: str) -> bytes:
    """Return the bytes of a key or value that the example spells out, one part a line."""
    part = example.split(f"\n{name} ")[1].split("\n\n")[0]
    lines = ("     " + part).splitlines()
    return bytes.fromhex(
        "".join(re.findall(r"^ *((?:[0-9a-f]{2} )*[0-9a-f]{2})", line)[0] for line in lines)
    )


def test_the_format_s_example_is_what_is_written(tmp_path: Path) -> None:
    """The bytes spelled out in docs/format.md are those of the row it names."""
    example = _FORMAT.split("```\nkey")[1].split("```")[0]
    with Store.create(str(tmp_path / "store")) as store:
        store.create_table(
            "orders",
            "order_id BIGINT, customer STRING, amount DECIMAL(12,2)",
            primary_key=["order_id"],
        )
        state = store.state_table("orders")
        state.insert([42, "ann", Decimal("9.99")])
        state.commit()
        (segment,) = store.state.segments.values()
        (block,) = registry.open(store.environment, segment.record).blocks(None, None, 8)

        assert block.key(0) == _hex_of("\nkey" + example, "key")
        assert block.value_bytes()[0].as_py() == _hex_of("\nkey" + example, "value")
        # Equal entries give equal files, on every machine.
        assert f'"hash":"{segment.record.hash}"' in _FORMAT


def test_the_format_s_document_is_what_is_written(tmp_path: Path) -> None:
    """Every entry of msgs in docs/format.md: what T1 to T5 write, and what compactions leave."""
    columns = "user_id STRING, msg_id INT, msg STRING, msg_props MAP<STRING, STRING>"
    keys: dict[str, Any] = {"primary_key": ["user_id", "msg_id"], "distribution_key": ["user_id"]}
    with Store.create(str(tmp_path / "store")) as store:
        table = store.create_table("msgs", columns, encoding="document", **keys)

        def insert(number: int, msg: str, props: dict[str, str]) -> None:
            row = {"user_id": "user1", "msg_id": number, "msg": msg, "msg_props": [*props.items()]}
            schema = table.schema.arrow_schema
            store.write("msgs", pa.RecordBatch.from_pylist([row], schema=schema))

        def check(name: str) -> None:
            newest = max(segment.epoch for segment in store.state.segments.values())
            assert pairs_of(store, newest) == [(documented(f"{name} key"), documented(name))]

        insert(10, "msg1", {"from": "a@b.com", "subject": "hello"})
        check("T1")
        with store.document_writer("msgs") as writer:
            writer.add(("user1", 10), "msg_props", {"read_status": "true"})
        check("T2")
        insert(20, "msg2", {"from": "c@d.com", "subject": "bar"})
        check("T3")
        store.compact("msgs")
        (compacted, *_) = pairs_of(store)
        assert compacted == (documented("T1 key"), documented("C4"))
        with store.document_writer("msgs") as writer:
            writer.remove(("user1", 10), "msg_props")
        check("T4")
        store.delete("msgs", pa.record_batch({"user_id": ["user1"], "msg_id": [10]}))
        check("T5")
        store.compact("msgs")
        assert pairs_of(store) == [(documented("T3 key"), documented("T3"))]


def documented(name: str) -> bytes:
    """Return the bytes of a key of msgs in docs/format.md, or of the value of a name."""
    title = name if name.endswith(" key") else f"{name} value"
    lines = _FORMAT.split(f"\n{title}\n")[1].splitlines()
    body = itertools.takewhile(lambda line: line.startswith("       "), lines)
    return bytes.fromhex("".join(line[7:].split("  ")[0] for line in body))


def pairs_of(store: Store, epoch: int | None = None) -> list[tuple[bytes, bytes]]:
    """Return the entries of the segments of an epoch, or of all."""
    segments = store.state.segments.values()
    chosen = [segment for segment in segments if epoch in (None, segment.epoch)]
    return [
        pair
        for segment in chosen
        for block in registry.open(store.environment, segment.record).blocks(None, None, 8)
        for pair in zip(block.key_bytes().to_pylist(), block.value_bytes().to_pylist(), strict=True)
    ]


@pytest.mark.timeout(400)  # each starts a Spark of its own
@pytest.mark.parametrize("pages", _RUNS.values(), ids=_RUNS)
def test_a_page_s_python_prints_what_it_says(pages: list[str], tmp_path: Path) -> None:
    """In its order; no query fails unseen, no table stays empty, and the store is whole."""
    texts = {page: (_ROOT / page).read_text() for page in pages}

    done = _run(texts, tmp_path)

    assert done.returncode == 0, done.stderr[-4000:]
    printed = done.stdout.splitlines()
    for page, text in texts.items():
        promised = _promised_lines(text)
        assert promised, page
        assert [line for line in promised if line not in printed] == [], page


def test_every_page_with_python_runs() -> None:
    """A page that is added has to be run, too."""
    pages = [_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md"))]

    with_python = {page for page in pages if "```python" in page.read_text()}

    assert with_python == {_ROOT / page for page in _PAGES}


def _run(documents: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the Python of pages, one after the other; each makes its store at another path."""
    script = folder / "script.py"
    parts = []
    for number, (page, text) in enumerate(documents.items()):
        code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        parts.append(code.replace(_PAGES[page], str(folder / f"store-{number}")) + _EPILOGUE)
    script.write_text("\n".join(parts))
    command = [sys.executable, "-W", "error", "-W", _OF_SPARK, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)


def _promised_lines(document: str) -> list[str]:
    """Return what a document says that its Python prints: beside a print, or in a text block."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", document, re.DOTALL))
    shown = "".join(re.findall(r"```text\n(.*?)```", document, re.DOTALL))
    beside = re.findall(r"^ *print\(.*\)\s+# (\S+.*)$", code, re.MULTILINE)
    return [line for line in beside if not line.startswith("what ")] + shown.splitlines()


def test_the_walks_name_code_that_exists() -> None:
    """Every step of the walks in docs/design.md names a module, and a function or class in it."""
    walks = (_ROOT / "docs" / "design.md").read_text().split("## Four walks")[1].split("\n## ")[0]
    lists = re.findall(r"(?:^\d+\. .*\n)+", walks, re.MULTILINE)
    steps = re.findall(r"^\d+\. `([\w/]+)\.([\w.]+)`", walks, re.MULTILINE)

    assert len(lists) == 4
    assert all(len(steps.splitlines()) <= 15 for steps in lists)
    assert len(steps) == sum(len(steps.splitlines()) for steps in lists)
    for path, name in steps:
        module = import_module("relstate." + path.replace("/", "."))
        assert callable(reduce(getattr, name.split("."), module)), (path, name)


def test_every_link_leads_somewhere() -> None:
    """Links between the pages name files and headings that exist."""
    pages = [*sorted(_ROOT.glob("*.md")), *sorted((_ROOT / "docs").rglob("*.md"))]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]*(?:#[^)\s]*)?)\)", page.read_text()):
            if target.startswith("http"):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.is_file() or (anchor and anchor not in _anchors(file.read_text())):
                broken.append(f"{page.name}: {target}")

    assert broken == []


def test_the_site_has_every_page_once() -> None:
    """What mkdocs.yml lists is what is in docs."""
    listed = re.findall(
        r"^ +- (?:.*: )?(\S+\.md)$", (_ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )

    pages = (_ROOT / "docs").rglob("*.md")
    assert sorted(listed) == sorted(page.relative_to(_ROOT / "docs").as_posix() for page in pages)


def test_the_page_of_python_names_what_there_is() -> None:
    """Every object whose docstrings are shown exists, and what the package exports is shown."""
    page = (_ROOT / "docs/reference/python.md").read_text()
    paths = re.findall(r"^::: ([\w.]+)\.(\w+)$", page, re.MULTILINE)

    shown = {getattr(import_module(module), name) for module, name in paths}
    names = [name for name in relstate.__all__ if not name.endswith(("Error", "__"))]
    assert {getattr(relstate, name) for name in names} - shown == {relstate.create, relstate.open}


def _anchors(document: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading).strip().lower() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize(
    ("column", "parse"), [(1, read_options), (2, write_options), (3, stream_write_options)]
)
def test_the_table_of_options_is_complete(column: int, parse: object) -> None:
    """An option is in the table, with a mark for a use, exactly if that use knows it."""
    documented = _documented("options.md", column)

    with pytest.raises(OptionError) as raised:
        parse({"noSuchOption": "1", "path": "/p", "table": "t"})  # type: ignore[operator]

    known = str(raised.value).split("the options are ")[1]
    assert documented == set(known.split(", "))


@pytest.mark.parametrize(("column", "parse"), [(1, feed_options), (2, feed_stream_options)])
def test_the_table_of_feeds_is_complete(column: int, parse: object) -> None:
    """As that of the other options, for batches and streams of changes."""
    options = {"noSuchOption": "1", "path": "/p", "table": "t", "readChangeFeed": "true"}
    with pytest.raises(OptionError) as raised:
        parse(options | {"startingVersion": "1"})  # type: ignore[operator]

    known = str(raised.value).split("the options are ")[1]
    assert _documented("change-feed.md", column) == set(known.split(", "))


def _documented(page: str, column: int) -> set[str]:
    """Return the options that the table of a page marks in a column."""
    section = (_ROOT / "docs" / page).read_text().split("\n## Options\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if re.match(r"\| `", line)
    ]
    return {
        name
        for row in rows
        for name in re.findall(r"`(\w+)`", row[0])
        if row[column] == "✓" or f"`{name}`" in row[column]
    }


def test_every_error_is_drawn_in_the_tree() -> None:
    """The hierarchy at the top of errors.py shows every error there is."""
    drawn = set(re.findall(r"\w+Error", errors.__doc__ or ""))

    assert drawn - {"ValueError"} == set(errors.__all__)


def test_the_page_of_errors_has_every_class_under_its_base() -> None:
    """Each class is in the table of its family, with a cause and a cure; no other name is."""
    sections = (_ROOT / "docs/reference/errors.md").read_text().split("\n## ")[1:]
    listed: dict[str, str] = {}
    for section in sections:
        (family,) = re.findall(r"\A(\w+): ", section)
        rows = re.findall(r"^\| `(\w+)` \|([^|]+)\|([^|]+)\|$", section, re.MULTILINE)
        listed |= {name: family for name, cause, cure in rows if cause.strip() and cure.strip()}

    classes = [getattr(errors, name) for name in errors.__all__]
    expected: dict[str, str] = {}
    for base in RelstateError.__subclasses__():
        members = [cls for cls in classes if issubclass(cls, base) and cls is not base] or [base]
        expected |= {member.__name__: base.__name__ for member in members}
    assert listed == expected
