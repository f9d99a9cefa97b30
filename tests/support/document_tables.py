"""Document tables with the key ``k``, and their rows as values to compare."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.schema.schema import TableSchema

from .clock import ManualClock
from .commits import quick_environment
from .documents import in_order

LAYOUTS = pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])

COLUMNS = """k INT, a INT, s STRING, m MAP<STRING, INT>, l ARRAY<INT>, st STRUCT<x: INT, y: STRING>,
    d MAP<STRING, STRUCT<x: INT, y: MAP<STRING, STRING>>>"""


@contextmanager
def timed_store(folder: Path, clock: ManualClock) -> Iterator[Store]:
    """A new store whose time is a clock's, checked at the end."""
    path = str(folder / "store")
    environment = quick_environment(path, clock)
    with Store.create(path, vnode_count=3, shards=2, environment=environment) as store:
        yield store
        assert store.check().problems == ()


def new_table(store: Store, packed: bool = True, columns: str = COLUMNS) -> None:
    """Create the document table ``t``."""
    store.create_table("t", columns, primary_key=["k"], encoding="document", packed=packed)


def batch_of(store: Store, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return rows, all of the same columns, as a batch of the table's types."""
    schema = store.table("t").schema.arrow_schema
    names = list(rows[0])
    columns = [pa.array([row[name] for row in rows], schema.field(name).type) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def seen(store: Store, epoch: int | None = None) -> dict[Any, dict[str, Any]]:
    """Return the rows by their keys; maps are pairs in order."""
    table = (store if epoch is None else store.at(epoch)).table("t")
    return {row["k"]: without_key(table.schema, row) for row in table.to_arrow().to_pylist()}


def without_key(schema: TableSchema, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its key; maps are pairs in order."""
    return {
        name: in_order(schema.column(name).type, value)
        for name, value in row.items()
        if name != "k"
    }


def got(store: Store, key: Any) -> dict[str, Any] | None:
    """Return a row that is looked up, without its key; maps are pairs in order."""
    table = store.table("t")
    row = table.get(key)
    return None if row is None else without_key(table.schema, row.as_dict())
