"""Laws of pruned reads: they read little, and return all matching rows."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import Column, ReadPlan, StorageTable, Store
from relstate.storage.codec.ragged import Bytes
from relstate.storage.errors import SchemaMismatchError
from relstate.storage.predicate.keyspace import MOST_RANGES
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.schema import KeyRange
from relstate.storage.segment.block import Block
from relstate.storage.table import conditional
from relstate.storage.table.rowencoding import RowEncoding
from support.examples import examples
from support.stores import Rows, committed, rows_of, unsynced, upsert

ROWS = 20_000


class CountingEncoding(RowEncoding):
    """An encoding that counts the rows it decodes."""

    decoded = 0

    def decode(self, block: Block, columns: Sequence[Column]) -> pa.RecordBatch:
        """Count, and decode."""
        self.decoded += len(block)
        return super().decode(block, columns)


def counted(plan: ReadPlan, where: str | None) -> tuple[Rows, int]:
    """Return the rows of a read, and how many rows it decoded."""
    encoding = CountingEncoding(plan.definition, plan.vnode_count)
    environment = unsynced(plan.path)
    table = StorageTable(environment, encoding, plan.segments, lambda: plan.time)
    predicate = None if where is None else plan.filtered(where).where
    return sorted(rows_of(table.scan(where=predicate))), encoding.decoded


@pytest.fixture(scope="module")
def events() -> Any:
    """A table of many rows in two segments, keyed by a number that descends and a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store"
        with Store.create(path, environment=unsynced(path), vnode_count=32) as store:
            store.create_table(
                "events", "n INT, kind STRING, v DOUBLE", primary_key=["n desc", "kind"]
            )
            for part in range(2):
                numbers = np.arange(part, ROWS, 2)
                batch = pa.record_batch(
                    {
                        "n": pa.array(numbers, pa.int32()),
                        "kind": [f"kind {number % 7}" for number in numbers],
                        "v": pa.array(numbers / 2),
                    }
                )
                writer = store.jobs.write_target("events").open(store.environment)
                writer.write(batch)
                committed(store, writer.finish())
            yield store


def test_a_range_of_keys_decodes_little_else(events: Store) -> None:
    """One percent of the keys costs less than three percent of the rows of a full scan."""
    plan = events.read_plan("events")
    everything, whole = counted(plan, None)
    rows_read, decoded = counted(plan, f"n >= 5000 AND n < {5000 + ROWS // 100}")

    assert whole == len(everything) == ROWS
    assert [row[0] for row in rows_read] == list(range(5000, 5000 + ROWS // 100))
    assert len(rows_read) <= decoded <= 0.03 * whole


@pytest.mark.parametrize(
    ("where", "rows", "most"),
    [
        ("n = 7 AND kind = 'kind 0'", 1, 1),
        ("(n, kind) IN ((7, 'kind 0'), (8, 'kind 1'), (9, 'nothing'))", 2, 2),
        ("n = 7 AND kind = 'kind 0' OR n = 8 AND kind = 'kind 1'", 2, 2),
        ("n = 7", 1, 1),
        ("n IN (1, 2, 3) AND kind > 'kind 1'", 2, 2),
        ("n BETWEEN 10 AND 20 AND v < 7", 4, 11),
        ("n = 7 AND kind LIKE 'kind%'", 1, 1),
        ("n = 3.5", 0, 0),
        ("n > 3000000000", 0, 0),
        ("n = 7 AND n = 8", 0, 0),
        ("kind IS NULL", 0, 0),
        ("n < 0", 0, 0),
        ("NULL", 0, 0),
    ],
)
def test_only_rows_that_the_key_allows_are_decoded(
    events: Store, where: str, rows: int, most: int
) -> None:
    """Points, prefixes, ranges after prefixes, and conditions that are never true."""
    rows_read, decoded = counted(events.read_plan("events"), where)

    assert len(rows_read) == rows
    assert decoded <= most


def test_a_condition_on_no_key_is_evaluated_for_every_row(events: Store) -> None:
    """And returns the matching rows only."""
    rows_read, decoded = counted(events.read_plan("events"), "v = 7 OR n = 1")

    assert [row[0] for row in rows_read] == [1, 14]
    # Of the two rows also the columns that the condition does not read.
    assert decoded == ROWS + 2


def test_more_values_than_ranges_give_up_pruning_and_nothing_else(events: Store) -> None:
    """A list of very many values is read by a scan, with the right result."""
    values = ", ".join(str(2 * number) for number in range(MOST_RANGES + 1))
    rows_read, _ = counted(events.read_plan("events"), f"n IN ({values})")

    assert [row[0] for row in rows_read] == list(range(0, ROWS, 2))


def test_ranges_beyond_what_is_worth_a_seek_become_one(events: Store) -> None:
    """Thousands of ranges in every vnode are read as one range around them."""
    parts = " OR ".join(f"n BETWEEN {start} AND {start + 99}" for start in range(0, 10_000, 200))
    rows_read, decoded = counted(events.read_plan("events"), parts)

    assert len(rows_read) == 5000
    assert decoded < ROWS


def test_columns_only_the_condition_needs_are_not_returned(events: Store) -> None:
    """The result has the columns of the request, in its order."""
    (batch,) = events.table("events").scan(["v", "n"], where="kind = 'kind 3' AND n < 5")

    assert batch.schema.names == ["v", "n"]
    assert rows_of(batch) == [(1.5, 3)]


def test_matching_rows_are_counted(events: Store) -> None:
    """Whether the condition reads columns or not."""
    table = events.table("events")

    assert table.count(where="n < 100") == 100
    assert table.count(where="v < 100") == 200
    assert table.count(where="TRUE") == table.count() == ROWS
    assert table.count(where="NULL") == 0


def test_few_large_rows_are_looked_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the keys that a condition names: 4,096 rows of 1 MiB would exceed an Arrow array."""
    monkeypatch.setattr(conditional, "_BYTES_AT_ONCE", 1 << 20)
    path = str(tmp_path / "store")
    store = Store.create(path, environment=unsynced(path), vnode_count=4)
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    upsert(store, "t", [(key, "x" * 300_000) for key in range(12)])
    plan = store.read_plan("t").filtered(f"k IN ({', '.join(map(str, range(12)))})")
    table, sizes = plan.open(store.environment), []
    find = table.find

    def counted_find(keys: Bytes, *others: Any) -> Any:
        sizes.append(len(keys))
        return find(keys, *others)

    monkeypatch.setattr(table, "find", counted_find)
    assert len(rows_of(table.scan(where=plan.where))) == 12
    assert sizes == [3, 3, 3, 3]


def test_an_ordered_scan_is_pruned_too(events: Store) -> None:
    """Its rows come in the order of the key, which descends here."""
    table = events.table("events")

    numbers = rows_of(table.scan(["n"], where="n < 50 OR n IN (900, 800)", ordered=True))
    assert numbers == [(900,), (800,), *((number,) for number in range(49, -1, -1))]


def test_a_predicate_of_another_schema_is_refused(events: Store) -> None:
    """Its columns may have had other names then."""
    events.create_table("others", "n INT, k INT", primary_key=["n"])
    predicate = Predicate.parse("k = 1", events.table("others").schema)
    events.drop_table("others")

    with pytest.raises(SchemaMismatchError, match="another schema"):
        list(events.read_plan("events").open().scan(where=predicate))


def test_pruning_is_described(events: Store) -> None:
    """Vnodes, points, ranges and columns, as EXPLAIN shows them."""
    plan = events.read_plan("events", columns=["v"])
    point = plan.filtered("(n, kind) IN ((1, 'kind 1'), (1, 'kind 2'))").pruning()
    span = plan.filtered("n > 5 AND n <> 9").pruning()
    free = plan.filtered("v > 5").pruning()

    assert (point.points, point.ranges, point.columns) == (2, 0, ("v", "n", "kind"))
    assert 1 <= point.vnodes <= 2 < point.vnode_count == 32
    assert (span.points, span.ranges, span.vnodes) == (0, 2, 32)
    assert (free.points, free.ranges, free.columns) == (0, None, ("v",))
    assert plan.pruning().ranges is None


def test_partitions_are_those_that_can_match(events: Store) -> None:
    """There is at least one, and together they return the matching rows."""
    plan = events.read_plan("events")
    filtered = plan.filtered("n = 7 AND kind = 'kind 0'")
    none = plan.filtered("n = 3.5")
    many = plan.filtered("n > 5")

    ((group,),) = filtered.partitions(8)
    assert len(group) == 1
    assert [row[0] for row in rows_of(filtered.read((group,)))] == [7]
    assert none.partitions(8) == ((),)
    assert list(none.read(())) == []
    assert many.partitions(8) == plan.partitions(8)


def test_a_distribution_key_after_the_first_column_is_used(store: Store) -> None:
    """The vnode is computed from them, though they are not the first columns of the key."""
    store.create_table("t", "a INT, b INT", primary_key=["a", "b"], distribution_key=["b"])
    upsert(store, "t", [(a, b) for a in range(10) for b in range(10)])
    plan = store.read_plan("t").filtered("b = 3 AND a > 4")

    assert plan.pruning().vnodes == 1
    ((group,),) = plan.partitions(4)
    assert sorted(rows_of(plan.read((group,)))) == [(a, 3) for a in range(5, 10)]


def test_keys_beyond_the_limit_of_lmdb_are_found(store: Store) -> None:
    """By points, prefixes and ranges; keys that share their first bytes are in one entry."""
    store.create_table("t", "k STRING, n INT", primary_key=["k", "n"])
    long = "k" * 700
    upsert(store, "t", [(long, n) for n in range(5)] + [(f"{long}x", 0), ("k", 1)])
    upsert(store, "t", [], [(long, 3)])
    table = store.table("t")

    def numbers(where: str) -> list[int]:
        return sorted(n for (n,) in rows_of(table.scan(["n"], where=where)))

    assert numbers(f"k = '{long}' AND n IN (1, 3, 9)") == [1]
    assert numbers(f"k = '{long}'") == [0, 1, 2, 4]
    assert numbers(f"k = '{long}' AND n > 1") == [2, 4]
    assert numbers(f"k LIKE '{long}%'") == [0, 0, 1, 2, 4]
    assert numbers(f"k > '{long}'") == [0]
    assert numbers("k < 'kk'") == [1]


def test_strict_and_included_bounds() -> None:
    """A range may exclude its start and include its stop, ascending or descending."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store"
        store = Store.create(path, environment=unsynced(path), vnode_count=3)
        for name, key in (("up", "k"), ("down", "k desc")):
            store.create_table(name, "k INT", primary_key=[key])
            upsert(store, name, [(k,) for k in range(6)])
        for name, start, stop in (("up", 1, 4), ("down", 4, 1)):
            table = store.read_plan(name).open()
            for after, through, expected in (
                (False, False, {start, 2, 3}),
                (True, False, {2, 3}),
                (False, True, {1, 2, 3, 4}),
                (True, True, {2, 3, stop}),
            ):
                keys = KeyRange((), (start,), (stop,), after, through)
                assert {k for (k,) in rows_of(table.scan(keys=keys))} == expected
        store.close()


# --- Random tables and conditions ---------------------------------------------------------------

UTC = datetime.UTC
VALUES: dict[str, list[tuple[Any, str]]] = {
    "INT": [(n, str(n)) for n in (-(2**31), -3, -1, 0, 1, 2, 3, 7, 2**31 - 1)],
    "BIGINT": [(n, f"{n}L") for n in (-5, -1, 0, 1, 2**40, 2**63 - 1)],
    "STRING": [(text, f"'{text}'") for text in ("", "a", "aa", "ab", "b", "é", "ÿ", "😀")],
    "BINARY": [(value, f"X'{value.hex()}'") for value in (b"", b"\0", b"a", b"a\0", b"\xff\xff")],
    "BOOLEAN": [(True, "true"), (False, "false")],
    "DOUBLE": [
        (value, f"CAST('{value}' AS DOUBLE)")
        for value in (0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), float("-inf"))
    ],
    "DECIMAL(20,2)": [(Decimal(text), text) for text in ("-1.50", "0.00", f"{'9' * 18}.99")],
    "DATE": [
        (day, f"DATE '{day.year:04}-{day:%m-%d}'")
        for day in (datetime.date.min, datetime.date(2020, 2, 29), datetime.date.max)
    ],
    "TIMESTAMP": [
        (moment.replace(tzinfo=UTC), f"TIMESTAMP '{moment.year:04}-{moment:%m-%d %H:%M:%S.%f}'")
        for moment in (
            datetime.datetime.min, datetime.datetime(2020, 2, 29, 12), datetime.datetime.max
        )
    ],
}  # fmt: skip
COMPARED = ("=", "<", "<=", ">", ">=", "<>", "<=>")


@dataclass(frozen=True)
class Case:
    """A table, its rows, and conditions over it."""

    columns: str
    primary_key: list[str]
    distribution_key: list[str] | None
    rows: Rows
    predicates: list[str]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a table of one to three key columns and one more, and conditions of every shape."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    names = [f"k{index}" for index in range(len(kinds))]
    orders = [
        draw(st.sampled_from(["", " desc", " nulls last", " desc nulls first"])) for _ in names
    ]
    hashed = draw(st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True))
    rows = draw(
        st.lists(st.tuples(*[st.sampled_from(VALUES[kind]) for kind in kinds]), max_size=25)
    )
    numbers = draw(st.lists(st.none() | st.integers(-2, 2), min_size=len(rows), max_size=len(rows)))
    whole = [
        (*(value for value, _ in key), number) for key, number in zip(rows, numbers, strict=True)
    ]
    atoms = st.one_of(
        *[_atoms(name, kind) for name, kind in zip(names, kinds, strict=True)],
        st.sampled_from(["v = 1", "v > 0", "v IS NULL", "TRUE", "NULL"]),
    )
    trees = st.recursive(atoms, _combined, max_leaves=6)
    columns = ", ".join(map("{} {}".format, [*names, "v"], [*kinds, "INT"]))
    return Case(
        columns,
        [name + order for name, order in zip(names, orders, strict=True)],
        hashed,
        whole,
        draw(st.lists(trees, min_size=3, max_size=3)),
    )


def _atoms(name: str, kind: str) -> st.SearchStrategy[str]:
    literal = st.sampled_from([text for _, text in VALUES[kind]])
    several = st.lists(literal, min_size=1, max_size=4).map(", ".join)
    rows_read = [
        st.builds(f"{name} {{}} {{}}".format, st.sampled_from(COMPARED), literal),
        st.builds(f"{name} {{}}IN ({{}})".format, st.sampled_from(["", "NOT "]), several),
        st.builds(f"{name} BETWEEN {{}} AND {{}}".format, literal, literal),
        st.just(f"{name} IS NOT NULL"),
    ]
    if kind == "STRING":
        rows_read.append(
            st.sampled_from([f"{name} LIKE '{text}'" for text in ("a%", "ÿ%", "%", "_b")])
        )
    return st.one_of(*rows_read)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        parts.map(lambda rows_read: f"({' AND '.join(rows_read)})"),
        parts.map(lambda rows_read: f"({' OR '.join(rows_read)})"),
        inner.map("NOT ({})".format),
    )


@given(case=cases())
@settings(max_examples=examples(40))
def test_a_pruned_read_is_the_whole_table_masked(case: Case) -> None:
    """Whatever the key, its orders, the distribution, the condition, and the way to read."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store"
        with Store.create(path, environment=unsynced(path), vnode_count=5, shards=2) as store:
            store.create_table(
                "t",
                case.columns,
                primary_key=case.primary_key,
                distribution_key=case.distribution_key,
            )
            half = len(case.rows) // 2
            for part in (case.rows[:half], case.rows[half:]):
                if part:
                    upsert(store, "t", part)
            for text in case.predicates:
                _check_pruned(store, text)


def _check_pruned(store: Store, text: str) -> None:
    table, plan = store.table("t"), store.read_plan("t").filtered(text)
    assert plan.where is not None
    whole = table.to_arrow().combine_chunks()
    batch = pa.RecordBatch.from_arrays(
        [
            pa.concat_arrays(column.chunks or [pa.array([], column.type)])
            for column in whole.columns
        ],
        schema=whole.schema,
    )
    expected = list(map(repr, rows_of(batch.filter(plan.where.mask(batch)))))

    assert list(map(repr, rows_of(table.scan(where=text, ordered=True)))) == expected
    assert sorted(map(repr, rows_of(table.scan(where=text)))) == sorted(expected)
    assert table.count(where=text) == len(expected)
    for count in (1, 3):
        read = [row for unit in plan.partitions(count) for row in rows_of(plan.read(unit))]
        assert sorted(map(repr, read)) == sorted(expected)
