"""What a read finds through an index, and when it uses one."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.errors import SchemaMismatchError
from relstate.storage.table.storagetable import StorageTable
from support.stores import rows_of, upsert

_ROWS = 3000


@pytest.fixture
def many(store: Store) -> Store:
    """A store with a table of many rows, an index of one column and one of two."""
    store.create_table(
        "t",
        "a INT, b STRING, name STRING, n INT, x DOUBLE",
        primary_key=["a", "b"],
        distribution_key=["a"],
    )
    numbers = range(_ROWS)
    batch = pa.table(
        {
            "a": pa.array([n % 50 for n in numbers], pa.int32()),
            "b": [str(n) for n in numbers],
            "name": [f"name {n % 1000}" for n in numbers],
            "n": pa.array([n % 7 for n in numbers], pa.int32()),
            "x": [n / 2 for n in numbers],
        }
    )
    store.write("t", batch)
    store.create_index("t", "by_name", ["name"], include=["x"])
    store.create_index("t", "by_n", ["n", "name desc"])
    return store


_USES: list[tuple[str, str | None, int]] = [
    ("name = 'name 5'", "by_name", 3),
    ("name IN ('name 5', 'name 6') AND x > 2000", "by_name", 6),
    ("n = 6 AND name = 'name 5'", "by_n", 0),
    ("n = 5 AND name = 'name 5'", "by_n", 1),
    ("n = 3", "by_n", 429),
    ("name = 'name 5' AND b = '5'", "by_name", 3),
    ("a = 5 AND name = 'name 5'", None, 0),
    ("a = 5 AND b = '5'", None, 1),
    ("n >= 0", None, 0),
    ("n IS NULL", "by_n", 0),
    ("n = 3 AND name IS NULL", "by_name", 0),
    ("x = 5", None, 0),
    ("name = 'name 5' OR x = 5", None, 0),
    ("name = 'name 5' OR n = 900", "by_n, by_name", 3),
    ("x > 5 AND (name = 'name 5' OR n = 3 AND name = 'name 7')", "by_name", 6),
    ("name = 'name 5' OR a = 7 AND b = '7'", "by_name", 4),
    ("name = 'name 5' OR a = 7", None, 0),
    ("n IS NULL OR n >= 0", None, 0),
    ("NOT (name <=> 'name 5')", None, 0),
]


def test_an_index_is_used_where_it_leaves_few_rows(many: Store) -> None:
    """The one that leaves fewest, if it leaves few and the primary key does not bind the vnode."""
    plan = many.read_plan("t")
    for where, index, points in _USES:
        pruning = plan.filtered(where).pruning()
        assert (pruning.index, pruning.points) == (index, points), where
        assert (pruning.ranges == 0) == (index is not None or points == 1), where


def test_the_rows_are_those_of_a_scan(many: Store) -> None:
    """With columns that the index holds and with others, in order and not."""
    conditions = ["name = 'name 5'", "n = 3 AND name > 'name 5' AND x < 900", "n > 5"]
    choices = [None, ["x"], ["name", "a", "x"], ["n"]]

    def read(where: str, columns: list[str] | None) -> list[Any]:
        table = many.table("t")
        in_order = rows_of(table.scan(columns, where=where, ordered=True))
        rows = rows_of(table.scan(columns, where=where))
        assert len(rows) == table.count(where=where) > 0
        return [in_order, sorted(rows)]

    cases = list(itertools.product(conditions, choices))
    with_indexes = [read(*case) for case in cases]
    many.drop_index("t", "by_name")
    many.drop_index("t", "by_n")
    assert with_indexes == [read(*case) for case in cases]


def test_units_share_the_rows(many: Store) -> None:
    """Each row is read by the unit that owns its vnode in the table; others are not started."""
    plan = pickle.loads(pickle.dumps(many.read_plan("t").filtered("name = 'name 5'")))
    parts = plan.partitions(5)
    assert 1 <= len(parts) <= 3
    rows = [row for vnodes in parts for row in rows_of(plan.read(vnodes))]
    assert sorted(row[1] for row in rows) == ["1005", "2005", "5"]


def test_get_by_takes_the_first_columns(many: Store) -> None:
    """In the order of the index, as Row objects; more or no values are an error."""
    table = many.table("t")
    names = [row.name for row in table.get_by("by_n", 3)]
    assert names == sorted(names, reverse=True)
    (row,) = table.get_by("BY_N", 5, "name 5")
    assert (row.a, row["b"], row.x) == (5, "5", 2.5)
    with pytest.raises(SchemaMismatchError, match=r"is on \(n, name\); 3 values"):
        table.get_by("by_n", 1, "a", 2)
    with pytest.raises(SchemaMismatchError, match="0 values"):
        table.get_by("by_n")
    with pytest.raises(SchemaMismatchError):
        table.get_by("by_n", "three")


def test_get_by_takes_columns(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the index holds them, the table is not read; the rows have just these columns."""
    table = many.table("t")
    assert table.get_by("by_name", "name 5", columns=["n", "B"]) == [
        (4, "1005"),
        (3, "2005"),
        (5, "5"),
    ]
    monkeypatch.setattr(StorageTable, "get_at", None)
    rows = table.get_by("by_name", "name 5", columns=["x", "name", "b"])
    assert [row.as_dict() for row in rows] == [
        {"x": 502.5, "name": "name 5", "b": "1005"},
        {"x": 1002.5, "name": "name 5", "b": "2005"},
        {"x": 2.5, "name": "name 5", "b": "5"},
    ]
    assert table.get_by("by_name", "none", columns=["x"]) == []
    many.create_index("t", "whole", ["x", "b"], include=["n", "name"])
    assert table.get_by("whole", 2.5) == [(5, "5", "name 5", 5, 2.5)]
    with pytest.raises(SchemaMismatchError, match="nope"):
        table.get_by("by_name", "name 5", columns=["nope"])


@pytest.mark.parametrize("indexed", [["s"], ["s", "b"], ["b desc"], ["a", "s"]])
def test_keys_are_found_whatever_is_indexed(store: Store, indexed: list[str]) -> None:
    """Columns of the primary key among the indexed ones, descending ones, NULLs and long texts."""
    store.create_table("t", "a STRING, b INT, s STRING", primary_key=["b desc", "a"])
    rows = [
        (a, b, s) for a in ("", "x\0", "k" * 520) for b in (-1, 7) for s in (None, "y", "l" * 520)
    ]
    rows = [(f"{number}{a}", b, s) for number, (a, b, s) in enumerate(rows)]
    upsert(store, "t", rows)
    store.create_index("t", "i", indexed)
    table = store.table("t")
    positions = ["abs".index(part[0]) for part in indexed]
    for count in range(1, len(indexed) + 1):
        for row in rows:
            values = [row[position] for position in positions[:count]]
            matches = [r for r in rows if [r[position] for position in positions[:count]] == values]
            assert sorted(map(str, table.get_by("i", *values))) == sorted(
                str(table.get(b, a)) for a, b, _ in matches
            )


def test_a_table_follows_its_index(many: Store) -> None:
    """A table object sees changes of rows, a new index, and one that was dropped."""
    table = many.table("t")
    assert len(table.get_by("by_name", "name 5")) == 3
    upsert(many, "t", [(5, "5", "else", 1, 1.0)])
    assert len(table.get_by("by_name", "name 5")) == 2
    many.create_index("t", "by_x", ["x"])
    assert sorted(row.b for row in table.get_by("by_x", 1.0)) == ["2", "5"]
    many.compact()
    assert len(table.get_by("by_name", "name 5")) == 2


def test_uncommitted_rows_of_a_state_table_are_seen(store: Store) -> None:
    """A scan with a condition over a state table sees rows that no index holds yet."""
    store.create_table("s", "k INT, v STRING", primary_key=["k"])
    upsert(store, "s", [(1, "a")])
    store.create_index("s", "i", ["v"])
    state = store.state_table("s")
    state.insert((2, "a"))
    assert [row[0] for row in rows_of(state.scan())] == [1, 2]
    state.commit()
    assert [row.k for row in store.table("s").get_by("i", "a")] == [1, 2]
