"""The laws of reads with a limit: the first rows are among those of all partitions."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import (
    LimitedPlan,
    ReadPlan,
    RowLimit,
    SortColumn,
    Store,
    errors,
    limited_plan,
)
from relstate.storage.codec.ragged import sort_order
from relstate.storage.limited_plan import sorted_first
from relstate.storage.table import keyorder
from relstate.storage.table.prefixes import PrefixReader
from support.examples import Seeds
from support.stores import upsert

NAN = math.nan


@pytest.fixture
def plan(store: Store) -> ReadPlan:
    """The read of a table with few values of d, NULL and NaN among them."""
    store.create_table(
        "t", "k INT, d DOUBLE, s STRING, c STRING COLLATE UTF8_LCASE", primary_key=["k"]
    )
    values = [None, NAN, math.inf, -1.0, 0.0, 2.5]
    for part in (0, 1):
        upsert(
            store, "t", [(k, values[k % 6], f"s{k % 5}", None) for k in range(part * 80, 160, 2)]
        )
    return store.read_plan("t", columns=["k", "d", "s"])


def rows_of(plan: ReadPlan | LimitedPlan, partitions: int) -> list[tuple[object, ...]]:
    """Return the rows of all partitions."""
    return [
        row
        for vnodes in plan.partitions(partitions)
        for batch in plan.read(vnodes)
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def rank(value: object, column: SortColumn) -> tuple[bool, float]:
    """Return what a double of an order compares by."""
    if value is None:
        return not column.nulls_first, 0.0
    assert isinstance(value, float | int)
    place = 1e300 if math.isnan(value) else min(value, 1e299)
    return column.nulls_first, -place if column.descending else float(place)


def first_of(rows: list[tuple[object, ...]], limit: RowLimit) -> list[str]:
    """Return the first of rows that are sorted by d, then k."""
    by_value, by_key = limit.order
    rows = sorted(rows, key=lambda row: (rank(row[1], by_value), rank(row[0], by_key)))
    return list(map(str, rows[: limit.rows]))


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_each_task_gives_as_many_rows_as_are_asked(plan: ReadPlan, rows: int) -> None:
    """Any of its rows, and no more."""
    limited = rows_of(LimitedPlan(plan, RowLimit(plan.definition.schema, rows)), 2)
    everything = rows_of(plan, 2)

    assert len(limited) == sum(
        min(rows, len(rows_of_unit))
        for rows_of_unit in (
            [row for batch in plan.read(vnodes) for row in batch.column(0)]
            for vnodes in plan.partitions(2)
        )
    )
    assert set(map(str, limited)) <= set(map(str, everything))


def test_the_first_rows_of_an_order_are_there(
    plan: ReadPlan, monkeypatch: pytest.MonkeyPatch, seeds: Seeds
) -> None:
    """By NULLs, NaN and both directions, however rows gather; ties are broken by the second."""
    everything = rows_of(plan, 1)
    for seed in seeds(20):
        chance = random.Random(seed)
        monkeypatch.setattr(limited_plan, "_MOST_CANDIDATES", chance.choice([0, 10, 1000]))
        monkeypatch.setattr(limited_plan, "_MOST_BYTES", chance.choice([0, 300, 1 << 20]))
        monkeypatch.setattr(limited_plan, "_MOST_TOP_BYTES", chance.choice([0, 100, 1 << 20]))
        first = SortColumn("d", chance.random() < 0.5, chance.random() < 0.5)
        second = SortColumn("k", chance.random() < 0.5, True)
        limit = RowLimit(plan.definition.schema, chance.choice([1, 5, 50, 500]), (first, second))
        # Spark pickles a plan that was looked at.
        limit.codec()
        travelled = pickle.loads(pickle.dumps(LimitedPlan(plan, limit)))
        limited = rows_of(travelled, chance.choice([1, 3]))

        assert first_of(limited, limit) == first_of(everything, limit), seed


@pytest.fixture
def keyed(store: Store, monkeypatch: pytest.MonkeyPatch) -> ReadPlan:
    """A table with the key (a DESC NULLS LAST, b), written in three files, some rows deleted."""
    monkeypatch.setattr(keyorder, "_FIRST_SHARE", 1e6)
    monkeypatch.setattr(keyorder, "_MOST_MISSES", 1000)
    store.create_table(
        "t",
        "a INT, b STRING, v INT",
        primary_key=["a desc", "b"],
        distribution_key=["b"],
        nullable_key=True,
    )
    keys = [(a, f"b{b}" * (b % 3 * 200 + 1)) for a in (None, *range(30)) for b in range(20)]
    for part in range(3):
        rows = [(*key, part) for key in keys[part * 150 : part * 150 + 320]]
        upsert(store, "t", rows, [(*key, 0) for key in keys[part::29] if part])
    return store.read_plan("t")


def firsts(plan: ReadPlan, limit: RowLimit, where: str | None) -> list[object] | None:
    """Return the values of a in the first rows by the key; None if they are not sought."""
    plan = plan if where is None else plan.filtered(where)
    rows = LimitedPlan(plan, limit).first_by_key((range(plan.vnode_count),))
    return None if rows is None else rows.column("a").to_pylist()


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        (None, lambda row: True),
        ("a > 7", lambda row: row[0] is not None and row[0] > 7),
        ("a BETWEEN 3 AND 5 AND v > 0", lambda row: row[0] in (3, 4, 5) and row[2] > 0),
        ("v = 1", lambda row: row[2] == 1),
    ],
)
@pytest.mark.parametrize("count", [7, 90, 2000])
@pytest.mark.parametrize("descending", [False, True])
def test_the_first_rows_by_key_are_sought(
    keyed: ReadPlan, where: str | None, matches: Any, count: int, descending: bool
) -> None:
    """They are the first of all that match, in order, whatever hides, deletes or rejects rows."""
    order = (
        SortColumn("a", not descending, descending),
        SortColumn("b", descending, not descending),
    )
    limit = RowLimit(keyed.definition.schema, count, order)
    everything = sorted(
        filter(matches, rows_of(keyed, 1)),
        key=lambda row: (row[0] is None, -row[0] if row[0] is not None else 0, row[1]),
        reverse=descending,
    )
    plan = keyed if where is None else keyed.filtered(where)
    found = LimitedPlan(plan, limit).first_by_key((range(plan.vnode_count),))

    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == everything[:count]


@pytest.mark.parametrize(
    ("order", "is_sought"),
    [
        ([("a", True, False)], True),
        ([("a", False, True)], True),
        ([("a", True, False), ("b", False, True), ("v", True, True)], True),
        ([("a", True, True)], False),
        ([("a", False, False)], False),
        ([("a", True, False), ("b", True, False)], False),
        ([("b", False, True)], False),
        ([("v", False, True)], False),
        ([], False),
    ],
)
def test_only_an_order_of_the_key_is_sought(
    keyed: ReadPlan, order: list[tuple[str, bool, bool]], is_sought: bool
) -> None:
    """Forwards or backwards, with its NULLs where the key has them."""
    columns = tuple(SortColumn(*column) for column in order)
    limit = RowLimit(keyed.definition.schema, 3, columns)

    assert (firsts(keyed, limit, None) is not None) == is_sought


def test_rows_are_not_sought_where_reading_all_is_quicker(
    keyed: ReadPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because many would be read, or hardly one matches."""
    limit = RowLimit(keyed.definition.schema, 200, (SortColumn("a", True, False),))

    assert firsts(keyed, limit, "v = 77") is not None
    assert firsts(keyed, limit, None) is not None
    monkeypatch.setattr(keyorder, "_MOST_MISSES", 100)
    assert firsts(keyed, limit, "v = 77") is None
    monkeypatch.setattr(keyorder, "_FIRST_SHARE", 0.25)
    assert firsts(keyed, limit, None) is None


def test_few_rows_are_read_for_the_first_by_key(
    keyed: ReadPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of each vnode, not all."""
    read = []
    edges = PrefixReader.edges

    def counted(*arguments: Any, **options: Any) -> Any:
        owners, rows = edges(*arguments, **options)
        read.append(len(rows))
        return owners, rows

    monkeypatch.setattr(PrefixReader, "edges", counted)
    limit = RowLimit(keyed.definition.schema, 2, (SortColumn("a", True, False),))

    assert firsts(keyed, limit, None) == [29, 29]
    assert sum(read) <= 2 * 20


def test_rows_with_parts_are_not_sought(store: Store) -> None:
    """An entry of a document table is not a row."""
    store.create_table("d", "k INT, a INT", primary_key=["k"], encoding="document")
    store.write("d", [{"k": key, "a": 0} for key in range(100)])
    with store.document_writer("d") as writer:
        for key in range(0, 100, 3):
            writer.set(key, {"a": key + 1})
    plan = store.read_plan("d")
    limit = RowLimit(plan.definition.schema, 2, (SortColumn("k", False, True),))

    assert LimitedPlan(plan, limit).first_by_key((range(plan.vnode_count),)) is None


def batches(plan: ReadPlan, size: int) -> Iterator[pa.RecordBatch]:
    """Yield 3000 rows, with k from 1 in no order and texts of a size."""
    schema = plan.arrow_schema()
    for start in range(1, 3001, 100):
        rows = [{"k": i * 1009 % 3001, "s": "x" * size} for i in range(start, start + 100)]
        yield pa.RecordBatch.from_pylist(rows, schema)


def sent(plan: ReadPlan, size: int, rows: int) -> list[pa.RecordBatch]:
    """Return what is sent of these rows for an order by k."""
    limit = RowLimit(plan.definition.schema, rows, (SortColumn("k", False, True),))
    return list(sorted_first(batches(plan, size), limit))


def test_rows_that_are_large_are_passed_on(plan: ReadPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first ones take too many bytes; then there are more of them than were asked."""
    monkeypatch.setattr(limited_plan, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(limited_plan, "_MOST_TOP_BYTES", 1 << 19)
    large, few = sent(plan, 10_000, 2900), sent(plan, 10_000, 5)
    keys = {key for batch in large for key in batch.column("k").to_pylist()}

    assert set(range(1, 2901)) <= keys
    assert max(batch.get_total_buffer_size() for batch in large) < 3 << 20
    assert [batch.column("k").to_pylist() for batch in few] == [[1, 2, 3, 4, 5]]
    assert sum(batch.num_rows for batch in sent(plan, 10, 1000)) == 1000


def test_rows_are_sorted_together(plan: ReadPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not batch by batch, which would copy the first rows as often as there are batches."""
    counts = []

    def counted(keys: Any) -> Any:
        counts.append(len(keys))
        return sort_order(keys)

    monkeypatch.setattr(limited_plan, "sort_order", counted)
    monkeypatch.setattr(limited_plan, "_MOST_CANDIDATES", 1000)
    sent(plan, 10, 500)
    assert len(counts) <= 4


def test_json_is_the_limit(plan: ReadPlan) -> None:
    """What travels as text is checked against the table when it arrives."""
    schema = plan.definition.schema
    limit = RowLimit(schema, 5, (SortColumn("d", True, False), SortColumn("k", False, True)))

    assert RowLimit.from_json(limit.json, schema) == limit
    for text in ("", "{}", '{"rows":1,"order":[{"name":"x","descending":true}]}', '{"rows":"a"}'):
        with pytest.raises(errors.OptionError, match="row limit is not one"):
            RowLimit.from_json(text, schema)
