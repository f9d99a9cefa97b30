"""Writes the golden store of the current format: ``python tests/storage/golden/write.py``.

A store of each released format stays here and is read for ever. This one may be written anew only
while its format is unreleased; afterwards a change of what it holds is a change of the format.
"""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from relstate.storage import Op, Store, Table, chunk_of

STORE = Path(__file__).parent / "v1"
_UTC = dt.UTC

COLUMNS = """
    name STRING, number INT, flag BOOLEAN, tiny TINYINT, small SMALLINT, big BIGINT, single FLOAT,
    double DOUBLE, short_decimal DECIMAL(9,2), long_decimal DECIMAL(38,10), text STRING,
    bytes BINARY, day DATE, moment TIMESTAMP, local_moment TIMESTAMP_NTZ,
    span INTERVAL DAY TO SECOND, list ARRAY<INT>, nested ARRAY<ARRAY<STRING>>,
    mapping MAP<STRING, BIGINT>, record STRUCT<a: INT, b: STRING, c: ARRAY<DOUBLE>>
"""
KEY = ("name desc", "number")

FULL: dict[str, Any] = {
    "name": "full",
    "number": 1,
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "big": -(2**63),
    "single": 1.5,
    "double": -0.1,
    "short_decimal": Decimal("-1234567.89"),
    "long_decimal": Decimal("1234567890123456789012345678.0123456789"),
    "text": "zwölf\0Boxkämpfer",
    "bytes": b"\0\xff\0",
    "day": dt.date(1969, 12, 31),
    "moment": dt.datetime(2026, 2, 28, 23, 59, 59, 999999, _UTC),
    "local_moment": dt.datetime(1900, 1, 1, 0, 0, 0, 1),
    "span": dt.timedelta(days=-3, microseconds=7),
    "list": [1, None, 3],
    "nested": [["a", None], None, []],
    "mapping": [("one", 1), ("none", None)],
    "record": {"a": None, "b": "b", "c": [0.5]},
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL) | {"name": "", "number": -1}
LATER: dict[str, Any] = dict.fromkeys(FULL) | {"name": "full", "number": 2, "text": "second"}
GONE: dict[str, Any] = dict.fromkeys(FULL) | {"name": "gone", "number": 0}

LONG_KEYS = ["k" * 490, "k" * 600 + "a", "k" * 600 + "b", "k" * 600 + "\0", "z"]
"""Keys around and beyond LMDB's limit, some of which share an entry."""


def rows_of(table: Table, *rows: dict[str, Any]) -> pa.RecordBatch:
    """Return rows as a batch of a table."""
    return pa.RecordBatch.from_pylist(list(rows), schema=table.schema.arrow_schema)


def write(path: Path) -> None:
    """Write the store: folded log, several versions of a row, deletes, groups of long keys."""
    with Store.create(str(path), vnode_count=5, shards=2) as store:
        table = store.create_table("every_type", COLUMNS, primary_key=KEY)
        state = store.state_table("every_type")
        for rows, op in (
            ((FULL, GONE), Op.INSERT),
            ((GONE,), Op.DELETE),
            ((EMPTY, LATER), Op.INSERT),
        ):
            batch = rows_of(table, *rows)
            state.write_chunk(chunk_of(batch, [op] * len(rows)))
            state.commit()
        store.create_table("long_keys", "k STRING, v INT", primary_key=["k"])
        state = store.state_table("long_keys")
        for value, key in enumerate(LONG_KEYS):
            state.insert([key, value])
        state.commit()
        while store.epoch < 70:
            store.create_table("passing", "k INT", primary_key=["k"])
            store.drop_table("passing")


if __name__ == "__main__":
    shutil.rmtree(STORE, ignore_errors=True)
    write(STORE)
