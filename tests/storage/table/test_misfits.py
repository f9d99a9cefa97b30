"""The rows that a table refuses are exactly those that fail when they are written alone."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Store, TableWriter
from relstate.storage.errors import (
    CheckViolationError,
    NullKeyError,
    NullValueError,
    OptionError,
    ValueRangeError,
)
from relstate.storage.segment.key import Kind
from support.stores import contents

ROW_ERRORS = (CheckViolationError, NullKeyError, NullValueError, ValueRangeError)
COLUMNS = """
    k INT, small TINYINT, amount DECIMAL(6,2), f FLOAT, name STRING NOT NULL,
    list ARRAY<SMALLINT>, part STRUCT<a: INT NOT NULL>, version BIGINT, twice INT
"""
SOURCE = pa.schema(
    {
        "k": pa.int64(),
        "small": pa.int64(),
        "amount": pa.decimal128(20, 4),
        "f": pa.int64(),
        "name": pa.string(),
        "list": pa.list_(pa.int32()),
        "part": pa.struct({"a": pa.int64()}),
        "version": pa.int64(),
        "twice": pa.int64(),
    }
)
CHOICES: dict[str, list[Any]] = {
    "k": [1, 2, 3, 4, 5, 6, 2**31, -(2**31) - 1, None],
    "small": [None, 0, 127, -128, 128, -129],
    "amount": [None, Decimal("1.25"), Decimal("9999.99"), Decimal("10000"), Decimal("0.001")],
    "f": [None, 2**24, 2**24 + 1, -(2**24), 2**30],
    "name": ["a", "b", "cc", None],
    "list": [None, [], [1, None], [40_000], [1, -40_000, 2]],
    "part": [None, {"a": 1}, {"a": None}, {"a": 2**40}],
    "version": [1, 2],
    "twice": [0, 254, -256, 2**31],
}
GOOD: dict[str, Any] = {
    "k": 1,
    "small": 0,
    "amount": Decimal("1.25"),
    "f": 0,
    "name": "a",
    "list": [],
    "part": {"a": 1},
    "version": 1,
    "twice": 0,
}


@pytest.fixture
def table(store: Store) -> Store:
    """A store with a table of many rules."""
    store.create_table(
        "t",
        COLUMNS,
        primary_key=["k"],
        version_column="version",
        constraints={"short": "length(name) = 1", "divides": "100 / small > -1000"},
        generated={"twice": "small * 2Y"},
    )
    return store


def _writer(store: Store) -> TableWriter:
    return store.jobs.write_target("t").open()


def _random_rows(random_source: random.Random, count: int) -> pa.RecordBatch:
    """Return rows of which about half break a rule, or several."""
    rows = []
    for _ in range(count):
        row = dict(GOOD)
        for name in random_source.sample(list(CHOICES), random_source.choice([0, 1, 1, 2])):
            row[name] = random_source.choice(CHOICES[name])
        if row["small"] is not None and random_source.random() < 0.8:
            row["twice"] = row["small"] * 2
        rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE)


@pytest.mark.parametrize("seed", range(4))
def test_a_row_is_refused_if_it_fails_alone(table: Store, seed: int) -> None:
    """`write_fitting` refuses exactly the rows that `write` refuses alone, and writes the others.

    The rule of each is named in the error of that row alone, or the error is of another rule that
    it breaks, too.
    """
    random_source = random.Random(seed)
    batch = _random_rows(random_source, 60)
    kinds = np.array(
        [random_source.choice([Kind.PUT, Kind.PUT, Kind.DELETE]) for _ in range(60)], np.uint8
    )
    failing = []
    with _writer(table) as alone:
        for row in range(60):
            try:
                alone.write(batch.slice(row, 1), kinds[row : row + 1])
            except ROW_ERRORS:
                failing.append(row)
        expected = alone.rows
        alone.finish()

    with _writer(table) as writer:
        refused = writer.write_fitting(batch, kinds)
        assert writer.rows == expected
        writer.finish()

    assert refused.positions.tolist() == failing
    assert len(refused.rules) == len(refused.reasons) == len(failing) > 0
    with _writer(table) as writer:
        for row, rule in zip(failing, refused.rules.to_pylist(), strict=True):
            again = writer.write_fitting(batch.slice(row, 1), kinds[row : row + 1])
            assert again.rules.to_pylist() == [rule]


def test_reasons_name_the_rule(table: Store) -> None:
    """Each kind of rule has its sentence; of several that a row breaks the first counts."""
    changes: list[tuple[dict[str, Any], str, str]] = [
        ({"k": None}, "k", "the primary key column 'k' is NULL"),
        ({"k": 2**31, "name": None}, "k", "the value does not fit the column 'k' of type int32"),
        ({"name": None}, "name", "the NOT NULL column 'name' is NULL"),
        ({"name": "bb"}, "short", "it violates the constraint 'short', CHECK (length(name) = 1)"),
        ({"twice": 3}, "twice", "(small * 2Y), has another value"),
        ({"small": 64, "twice": 128}, "twice", "cannot be computed: it overflows its type"),
        ({"part": {"a": None}}, "part", "holds a NULL where its type"),
    ]
    rows = [GOOD | {"small": 1, "twice": 2} | change for change, _, _ in changes]
    with _writer(table) as writer:
        refused = writer.write_fitting(pa.RecordBatch.from_pylist(rows, schema=SOURCE))
        writer.finish()

    assert refused.positions.tolist() == list(range(len(changes)))
    assert refused.rules.to_pylist() == [rule for _, rule, _ in changes]
    for reason, (_, _, text) in zip(refused.reasons.to_pylist(), changes, strict=True):
        assert text in reason


def test_a_ttl_out_of_range_is_a_rule(store: Store) -> None:
    """A row with a TTL below one second is refused, and the others expire as they say."""
    store.create_table("t", "k INT", primary_key=["k"])
    batch = pa.RecordBatch.from_pylist([{"k": 1}, {"k": 2}, {"k": 3}])
    with _writer(store) as writer:
        refused = writer.write_fitting(batch, None, pa.array([60, 0, None], pa.int64()))
        (segment,) = writer.finish()

    assert refused.rules.to_pylist() == ["ttl"]
    assert refused.positions.tolist() == [1]
    assert sum(statistics.rows for statistics in segment.tables) == 2


def test_errors_of_the_table_are_no_refused_rows(store: Store) -> None:
    """What is wrong with the whole write is raised: no row is to blame."""
    store.create_table("t", "k INT, v INT", primary_key=["k"], merge="partial")
    batch = pa.RecordBatch.from_pylist([{"k": 1, "v": 1}])
    with _writer(store) as writer:
        with pytest.raises(OptionError):
            writer.write_fitting(batch, None, pa.array([60], pa.int64()))
        assert writer.rows == 0


def test_rows_without_a_key_are_refused_too(store: Store) -> None:
    """A table without a primary key refuses rows by its other rules."""
    store.create_table("t", "v TINYINT", constraints={"small": "v < 10"})
    batch = pa.RecordBatch.from_pylist([{"v": 1}, {"v": 300}, {"v": 20}, {"v": 1}])
    with _writer(store) as writer:
        refused = writer.write_fitting(batch)
        assert writer.rows == 2
        writer.finish()

    assert refused.rules.to_pylist() == ["v", "small"]
    assert contents(store, "t") == []
