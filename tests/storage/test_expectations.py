"""Expectations: rows that violate them are counted once, dropped, or fail their write."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Entry, Proposal, Store, Violations
from relstate.storage.errors import CheckViolationError, SchemaError
from relstate.storage.log.checkpoint import encode_checkpoint
from relstate.storage.log.entry import decode_entry, encode_entry
from support.stores import contents

EXPECTATIONS: dict[str, tuple[str, Any]] = {
    "known": ("length(name) > 0", "count"),
    "positive": ("v > 0", "drop"),
    "small": ("v < 1000", "fail"),
}


@pytest.fixture
def table(store: Store) -> Store:
    """A store with a table with an expectation of each kind."""
    store.create_table(
        "t",
        "k INT, v INT, name STRING",
        primary_key=["k"],
        expectations=EXPECTATIONS,
        constraints={"even": "k % 2 = 0"},
    )
    return store


def _last(store: Store) -> Entry:
    return next(store.history())


def _counts(entry: Entry) -> dict[str, int]:
    return {item.expectation: item.rows for item in entry.violations}


def _totals(store: Store) -> dict[str, int]:
    return dict(store.state.table("t").violations)


def test_rows_are_counted_and_dropped(table: Store) -> None:
    """A dropped row is counted, and does not replace a row; NULL violates nothing."""
    table.write("t", [{"k": 2, "v": 1, "name": "a"}])
    assert _last(table).violations == ()
    table.write(
        "t",
        [
            {"k": 2, "v": -1, "name": ""},
            {"k": 4, "v": None, "name": None},
            {"k": 6, "v": 6, "name": ""},
            {"k": 7, "v": -7, "name": "odd, but dropped"},
        ],
    )
    table_id = table.state.table("t").definition.table_id
    assert _last(table).violations == (
        Violations(table_id, "known", "count", 2),
        Violations(table_id, "positive", "drop", 2),
    )
    assert contents(table, "t") == [(2, 1, "a"), (4, None, None), (6, 6, "")]


def test_a_commit_of_dropped_rows_only_is_in_the_history(table: Store) -> None:
    """A row is never dropped in silence, though no row of the table changes."""
    epoch = table.epoch
    assert table.write("t", [{"k": 2, "v": -1}]) == epoch + 1
    assert _counts(_last(table)) == {"positive": 1}
    assert contents(table, "t") == []


def test_a_write_fails_by_its_rows(table: Store) -> None:
    """FAIL UPDATE refuses as CHECK does; what failed is not counted."""
    epoch = table.epoch
    with pytest.raises(
        CheckViolationError, match=r"'small', EXPECT \(v < 1000\) ON VIOLATION FAIL"
    ):
        table.write("t", [{"k": 2, "v": 1, "name": ""}, {"k": 4, "v": 1000}])
    with pytest.raises(CheckViolationError, match="'even', CHECK"):
        table.write("t", [{"k": 3, "v": 1, "name": ""}])
    assert table.epoch == epoch
    assert _totals(table) == {}


def test_deletes_violate_nothing(table: Store) -> None:
    """A delete has no columns but the key."""
    table.write("t", [{"k": 2, "v": 1}])
    table.delete("t", [{"k": 2}])
    assert _last(table).violations == ()
    assert contents(table, "t") == []


def test_stored_rows_are_not_looked_at(table: Store) -> None:
    """An expectation that is added holds for what is written then, and a CHECK for all rows."""
    table.write("t", [{"k": 2, "v": 5}])
    table.add_expectation("t", "big", "v > 10", "fail")
    with pytest.raises(CheckViolationError):
        table.add_constraint("t", "huge", "v > 100")
    with pytest.raises(CheckViolationError):
        table.write("t", [{"k": 4, "v": 5}])
    with pytest.raises(SchemaError, match="has a constraint 'BIG' already"):
        table.add_expectation("t", "BIG", "v > 1")
    with pytest.raises(SchemaError, match="must be 'count', 'drop' or 'fail'"):
        table.add_expectation("t", "other", "v > 1", "ignore")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="'v'"):
        table.rename_column("t", "v", "w")


def test_totals_are_since_the_expectation_was_added(table: Store) -> None:
    """They are those of the history, also after a checkpoint, and go with the expectation."""
    for number in range(1, 40):
        table.write("t", [{"k": 2, "v": -number, "name": ""}, {"k": 4, "v": 1, "name": ""}])
    assert _totals(table) == {"known": 78, "positive": 39}
    with Store.open(table.path) as other:
        assert _totals(other) == {"known": 78, "positive": 39}
    assert b'"violations":[["known",78],["positive",39]]' in encode_checkpoint(table.state)
    table.drop_constraint("t", "known")
    table.add_expectation("t", "known", "length(name) > 0")
    assert _totals(table) == {"positive": 39}
    table.rename_table("t", "u")
    assert dict(table.state.table("u").violations) == {"positive": 39}


def test_who_does_not_know_an_expectation_is_counted_by_the_commit(store: Store) -> None:
    """Every violation counts once; a row that had to be dropped refuses the commit."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    target = store.jobs.write_target("t")

    def segments() -> Any:
        with target.open() as writer:
            writer.write(pa.RecordBatch.from_pylist([{"k": 2, "v": -1}, {"k": 4, "v": 1}]))
            return writer.finish(), writer.violations

    def commit() -> None:
        written, violations = segments()
        store.jobs.commit(
            Proposal(
                operation="write",
                started=store.environment.now(),
                segments=written,
                written_under=(target.definition,),
                violations=violations,
            )
        )

    store.add_expectation("t", "positive", "v > 0")
    commit()
    assert _counts(_last(store)) == {"positive": 1}
    state_table = store.state_table("t")
    state_table.insert((6, -6))
    state_table.commit()
    assert _counts(_last(store)) == {"positive": 1}
    assert _totals(store) == {"positive": 2}
    store.add_expectation("t", "nonzero", "v <> 1", "drop")
    with pytest.raises(CheckViolationError, match="which their writer did not know"):
        commit()
    target = store.jobs.write_target("t")
    commit()
    assert _counts(_last(store)) == {"nonzero": 1, "positive": 1}


def test_partial_rows_are_dropped_whole(store: Store) -> None:
    """A partial update that violates an expectation leaves the row as it was."""
    store.create_table(
        "t",
        "k INT, v INT, w INT",
        primary_key=["k"],
        merge="partial",
        expectations={"positive": ("v > 0", "drop")},
    )
    store.write("t", [{"k": 1, "v": 1, "w": 1}, {"k": 1, "v": -1, "w": 2}, {"k": 1, "w": 3}])
    assert contents(store, "t") == [(1, 1, 3)]


def test_an_entry_keeps_its_violations(table: Store) -> None:
    """Bytes and back; an entry without violations has the same bytes as before there were any."""
    table.write("t", [{"k": 2, "v": -1, "name": "x"}])
    entry = _last(table)
    assert decode_entry(encode_entry(entry), entry.epoch, "x") == entry
    table.write("t", [{"k": 2, "v": 1, "name": "x"}])
    assert b"violations" not in encode_entry(_last(table))


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_the_rows(store: Store, seed: int) -> None:
    """Of random writes the history says what a loop over the rows says."""
    source = random.Random(seed)
    store.create_table(
        "t",
        "k INT, v INT",
        primary_key=["k"],
        expectations={"a": ("v % 3 <> 0", "count"), "b": ("v % 5 <> 0", "drop")},
    )
    expected: dict[int, int] = {}
    for _ in range(5):
        rows = [
            {"k": source.randrange(50), "v": source.choice([None, *range(1, 30)])}
            for _ in range(source.randrange(1, 200))
        ]
        epoch = store.epoch
        store.write("t", rows)
        third = sum(row["v"] is not None and row["v"] % 3 == 0 for row in rows)
        fifth = sum(row["v"] is not None and row["v"] % 5 == 0 for row in rows)
        assert store.epoch == epoch + 1
        assert _counts(_last(store)) == {
            name: count for name, count in (("a", third), ("b", fifth)) if count
        }
        expected |= {row["k"]: row["v"] for row in rows if row["v"] is None or row["v"] % 5}
    assert dict(contents(store, "t")) == expected
