"""The documents agree with the code: what they show is run, what they list is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from relstate.connector.options import (
    feed_options,
    follow_options,
    read_options,
    stream_options,
    write_options,
)
from relstate.storage import Store, errors
from relstate.storage.errors import OptionError
from relstate.storage.segment.registry import registry

_ROOT = Path(__file__).parents[1]
_README = (_ROOT / "README.md").read_text()
_HOW_TO = (_ROOT / "docs" / "how-to.md").read_text()
# Spark looks at pandas wherever it is there.
_OF_SPARK = "ignore:PySpark does not yet fully support pandas:FutureWarning"
_VIEWS = (_ROOT / "docs" / "views.md").read_text()
_FORMAT = (_ROOT / "docs" / "format.md").read_text()


def _section(title: str) -> str:
    """Return the text below a heading of the README."""
    return _README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def _hex_of(example: str, name: str) -> bytes:
    """Return the bytes of a key or value that the example spells out, one part a line."""
    part = example.split(f"\n{name} ")[1].split("\n\n")[0]
    lines = ("     " + part).splitlines()
    return bytes.fromhex(
        "".join(re.match(r" *((?:[0-9a-f]{2} )*[0-9a-f]{2})", line)[1] for line in lines)
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
        (placed,) = store.state.segments.values()
        (block,) = registry.open(store.environment, placed.record).blocks(None, None, 8)

        assert block.key(0) == _hex_of("\nkey" + example, "key")
        assert block.value_bytes()[0].as_py() == _hex_of("\nkey" + example, "value")


def test_the_how_to_runs(tmp_path: Path) -> None:
    """Its Python, in its order, prints what it says it prints, and ends with a whole store."""
    done = _run(_HOW_TO, "/tmp/how-to", tmp_path)

    _assert_kept_its_promises(_HOW_TO, done)


@pytest.mark.timeout(300)
def test_the_document_of_views_runs(tmp_path: Path) -> None:
    """As that of the how-to."""
    done = _run(_VIEWS, "/tmp/views", tmp_path)

    _assert_kept_its_promises(_VIEWS, done)


@pytest.mark.timeout(300)
def test_the_readme_s_tour_runs(tmp_path: Path) -> None:
    """As that of the how-to."""
    done = _run(_README, "/tmp/shop", tmp_path)

    _assert_kept_its_promises(_README, done)


def _code(document: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", document, re.DOTALL))


def _run(document: str, path: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the Python of a document, which makes a store at ``path``, with another path."""
    script = folder / "script.py"
    text = _code(document).replace(path, str(folder / "store"))
    script.write_text(text + _END)
    command = [sys.executable, "-W", "error", "-W", _OF_SPARK, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


# What went wrong in a query that nobody waits for would not be seen, except by its empty target.
_END = """
assert store.check().ok
from pyspark.sql.streaming.query import StreamingQuery
from relstate.connector.sql import ViewStream
for name, query in list(globals().items()):
    if isinstance(query, StreamingQuery | ViewStream):
        assert query.exception() is None, (name, query.exception())
written = {
    table.table_id for entry in store.history() for record in entry.added for table in record.tables
}
for name in store.tables():
    table_id = store.state.table(name).definition.table_id
    assert table_id in written, f"nothing was ever written to the table {name}"
"""


def _assert_kept_its_promises(document: str, done: subprocess.CompletedProcess[str]) -> None:
    """What ``print`` is said to print is printed."""
    assert done.returncode == 0, done.stderr[-4000:]
    printed = done.stdout.splitlines()
    promised = re.findall(r"^ *print\(.*\)\s+# (.*)$", _code(document), re.MULTILINE)
    assert promised
    for line in promised:
        if not line.startswith("what "):
            assert line in printed


@pytest.mark.parametrize(
    ("column", "parse"), [(1, read_options), (2, write_options), (3, stream_options)]
)
def test_the_readme_s_option_table_is_complete(column: int, parse: object) -> None:
    """An option is in the table, with a mark for a use, exactly if that use knows it."""
    documented = _documented("Options", column)

    with pytest.raises(OptionError) as raised:
        parse({"noSuchOption": "1", "path": "/p", "table": "t"})  # type: ignore[operator]

    known = str(raised.value).split("the options are ")[1]
    assert documented == set(known.split(", "))


@pytest.mark.parametrize(("column", "parse"), [(1, feed_options), (2, follow_options)])
def test_the_readme_s_table_of_feeds_is_complete(column: int, parse: object) -> None:
    """As that of the other options, for batches and streams of changes."""
    given = {"noSuchOption": "1", "path": "/p", "table": "t", "readChangeFeed": "true"}
    with pytest.raises(OptionError) as raised:
        parse(given | {"startingVersion": "1"})  # type: ignore[operator]

    known = str(raised.value).split("the options are ")[1]
    assert _documented("Change feeds", column) == set(known.split(", "))


def _documented(section: str, column: int) -> set[str]:
    """Return the options that the table of a section of the README marks in a column."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in _section(section).splitlines()
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
