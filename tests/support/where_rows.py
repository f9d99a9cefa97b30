"""A table of values that are hard to compare, and which of its rows a condition keeps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from relstate.storage import TableSchema
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = (
    "id INT, ti TINYINT, si SMALLINT, i INT, l BIGINT, j INT, f FLOAT, d DOUBLE, "
    "n DECIMAL(6,2), w DECIMAL(38,10), s STRING, u STRING, b BINARY, bo BOOLEAN, dt DATE, "
    "ts TIMESTAMP, z TIMESTAMP_NTZ, st STRUCT<x: INT, `Y y`: STRING, deep: STRUCT<v: DOUBLE>>, "
    "m MAP<INT, INT>"
)
SCHEMA = TableSchema.build(parse_columns(COLUMNS), ["id"])

TEXTS = ["", "a", "A", "ab", "abc", "a%c", "a_c", "aXc", "a\nc", "é", "éa", "漢", "😀", "😀b", "\0"]
TEXTS += ["a\\c", "it's", 'q"', "b", "ÿ", "ÿz", "Ā", "\U0010ffff", "a ", " a"]
MOMENTS = [
    datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1),
    datetime(2020, 2, 29, 12), datetime(2020, 2, 29), datetime(2020, 3, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]  # fmt: skip
DOUBLES = [0.0, -0.0, 1.5, -1.5, 5.0, 0.1, 1e300, -1e300, 5e-324, float("inf"), float("-inf")]
DOUBLES += [float("nan"), 2.0**53, 2.0**63, 16777216.0, 0.30000000000000004]
POOLS: dict[str, Sequence[Any]] = {
    "ti": [-128, -1, 0, 1, 5, 127],
    "si": [-32768, -1, 0, 1, 5, 128, 32767],
    "i": [-(2**31), -1, 0, 1, 2, 3, 5, 16777217, 2**31 - 1],
    "l": [-(2**63), -1, 0, 1, 5, 2**31, 2**53, 2**53 + 1, 2**63 - 1],
    "j": [-(2**31), 0, 1, 2, 3, 5, 2**31 - 1],
    "f": [float(np.float32(value)) for value in DOUBLES if abs(value) < 1e38 or abs(value) > 1e301],
    "d": DOUBLES,
    "n": [
        Decimal(text) for text in ("-9999.99", "-0.01", "0.00", "0.10", "1.50", "5.00", "9999.99")
    ],
    "w": [
        Decimal(unscaled).scaleb(-10, None)
        for unscaled in (-(10**27), -1, 0, 1, 15000000000, 50000000000, 10**27)
    ],
    "s": TEXTS,
    "u": TEXTS,
    "b": [text.encode() for text in TEXTS] + [b"\xff", b"\x00\x01", b"\x80"],
    "bo": [True, False],
    "dt": [moment.date() for moment in MOMENTS],
    "ts": MOMENTS,
    "z": MOMENTS,
}
ROWS = 400


def structs(source: random.Random) -> dict[str, Any] | None:
    """Return a struct in a struct; each level may be NULL."""
    if source.random() < 0.2:
        return None
    deep = None if source.random() < 0.3 else {"v": source.choice([None, *DOUBLES])}
    text = source.choice([None, *TEXTS])
    return {"x": source.choice([None, *POOLS["i"]]), "Y y": text, "deep": deep}


@cache
def table() -> pa.RecordBatch:
    """Return random rows of the pools' values; one in ten is NULL."""
    source = random.Random(11)
    columns: dict[str, list[Any]] = {"id": list(range(ROWS))}
    for name, pool in POOLS.items():
        columns[name] = [
            None if source.random() < 0.1 else source.choice(pool) for _ in range(ROWS)
        ]
    columns["st"] = [structs(source) for _ in range(ROWS)]
    columns["m"] = [None if source.random() < 0.3 else [(1, 2)] for _ in range(ROWS)]
    schema = SCHEMA.arrow_schema
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def ids_kept_by_spark(rows: DataFrame, conditions: Sequence[str]) -> list[list[int]]:
    """Return the ids of the rows that each condition keeps, from one job."""
    flags = [
        f"coalesce(({condition}\n), false) AS kept_{number}"
        for number, condition in enumerate(conditions)
    ]
    flagged = rows.selectExpr("id", *flags).toArrow().sort_by("id")
    ids = np.asarray(flagged["id"])
    return [ids[np.asarray(flagged[f"kept_{number}"])].tolist() for number in range(len(flags))]


def ids_kept(condition: str, time_zone: str = "UTC") -> list[int]:
    """Return the ids of the rows that a predicate keeps, of two batches with other columns."""
    predicate = Predicate.parse(condition, SCHEMA, time_zone)
    first = table().slice(0, 3)
    rest = table().slice(3).select(list(predicate.columns) or ["id"])
    masks = [predicate.mask(first), predicate.mask(rest)]
    assert not any(mask.null_count for mask in masks)
    return np.flatnonzero(np.concatenate([np.asarray(mask) for mask in masks])).tolist()
