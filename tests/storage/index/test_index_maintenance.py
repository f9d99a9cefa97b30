"""An index is its table: after every commit, whoever made it and however the race went."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Kind, Proposal, Store, Transaction
from relstate.storage.errors import ConflictError, UniqueViolationError
from relstate.storage.log import transaction
from relstate.storage.log.append import append
from relstate.storage.segment import writer
from support.clock import ManualClock
from support.commits import quick_environment
from support.examples import Seeds
from support.stores import (
    StoreMaker,
    batch_of,
    committed,
    contents,
    rows_of,
    upsert,
    written,
)

_COLUMNS = "a STRING, b INT, email STRING, n INT, ver INT"
_LONG = "e" * 600
_TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "ignore": {"merge": "ignore"},
    "partial": {"merge": "partial"},
    "versioned": {"version_column": "ver"},
    "partial versioned": {"merge": "partial", "version_column": "ver"},
    "keyless": {},
}


def _make_table(store: Store, kind: str) -> None:
    key = None if kind == "keyless" else ["a", "b desc"]
    store.create_table("t", _COLUMNS, primary_key=key, **_TABLES[kind])


def _row(chance: random.Random) -> tuple[Any, ...]:
    """Return a row of few keys and few values, some of them NULL or long."""
    a = chance.choice(["", "x", "x\0y", "k" * 520])
    email = chance.choice([None, "a", "b", "b\0", _LONG, _LONG + "f"])
    return a, chance.randrange(4), email, chance.choice([None, 1, 2, 3]), chance.randrange(6)


def _assert_indexes_answer(store: Store) -> None:
    """Assert that every lookup through an index returns the rows that a scan does."""
    assert store.check().problems == ()
    table, rows = store.table("t"), contents(store, "t")
    for email in (None, "a", "b", "b\0", _LONG, _LONG + "f", "none"):
        expected = sorted(map(repr, (row for row in rows if row[2] == email)))
        assert sorted(repr(tuple(row)) for row in table.get_by("by_email", email)) == expected
    for number, email in ((1, "a"), (2, None), (3, _LONG)):
        hits = [tuple(row) for row in table.get_by("by_n_email", number, email)]
        expected = sorted(repr(row) for row in rows if (row[3], row[2]) == (number, email))
        assert sorted(map(repr, hits)) == expected
    for where, matches in _CONDITIONS.items():
        scanned = sorted(map(repr, rows_of(table.scan(where=where))))
        assert scanned == sorted(repr(row) for row in rows if matches(row)), where


_CONDITIONS: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "email = 'a'": lambda row: row[2] == "a",
    "email IN ('a', 'b') AND ver > 2": lambda row: row[2] in ("a", "b") and row[4] > 2,
    "n = 2 AND email >= 'b'": lambda row: row[3] == 2 and row[2] is not None and row[2] >= "b",
    "n >= 2": lambda row: row[3] is not None and row[3] >= 2,
    "n IS NULL": lambda row: row[3] is None,
    "email IS NULL AND n = 2": lambda row: row[2] is None and row[3] == 2,
    "n = 1 OR email = 'b'": lambda row: row[3] == 1 or row[2] == "b",
    "(email IS NULL OR n = 3) AND ver < 4": lambda row: (
        (row[2] is None or row[3] == 3) and row[4] < 4
    ),
    "a = 'x' AND b = 1 OR email = 'a'": lambda row: row[:2] == ("x", 1) or row[2] == "a",
}


def _create_indexes(store: Store) -> None:
    store.create_index("t", "by_email", ["email"], include=["n"])
    store.create_index("t", "by_n_email", ["n desc", "email nulls last"])


def _batch(store: Store, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Return rows of the visible columns as a batch."""
    fields = [column.name for column in store.table("t").schema.visible_columns]
    schema = pa.schema([store.table("t").schema.arrow_schema.field(name) for name in fields])
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _change(store: Store, chance: random.Random, kind: str) -> None:
    """Change the table in a random way."""
    rows = [_row(chance) for _ in range(chance.randrange(1, 12))]
    action = chance.random()
    if action < 0.6:
        batch = _batch(store, rows)
        if 0.1 < action < 0.2 and kind != "keyless":
            store.delete("t", batch)
        else:
            store.write("t", batch, overwrite=action < 0.05)
    elif action < 0.8 and kind != "keyless":
        # Rows and deletes in two segments of one commit.
        committed(store, _segments(store, rows, chance))
    elif action < 0.85:
        store.truncate("t")
    elif action < 0.92:
        store.compact()
    elif action < 0.96:
        store.vacuum(retention=0)
    else:
        store.drop_index("t", "by_email")
        store.create_index("t", "by_email", ["email"], unique=False)


def _segments(store: Store, rows: list[tuple[Any, ...]], chance: random.Random) -> list[Any]:
    """Return segments with some rows, then with deletes and rows of some of the same keys."""
    target = store.jobs.write_target("t")
    segments: list[Any] = []
    for part in (rows, chance.sample(rows, len(rows) // 2)):
        if not part:
            continue
        with target.open(store.environment) as task:
            kinds = [
                Kind.DELETE if part is not rows and chance.random() < 0.7 else None for _ in part
            ]
            upserts = pa.array([kind is None for kind in kinds])
            batch = batch_of(store, "t", part)
            task.write(batch.filter(upserts))
            deletes = batch.filter(pa.array([kind is not None for kind in kinds]))
            task.write(deletes, np.full(deletes.num_rows, Kind.DELETE, np.uint8))
            segments += task.finish()
    return segments


@pytest.mark.parametrize("kind", _TABLES)
def test_an_index_is_its_table_after_every_commit(
    make_store: StoreMaker, seeds: Seeds, kind: str
) -> None:
    """Upserts, deletes, overwriting, truncation, compaction and vacuum, whatever the merge rule."""
    for seed in seeds(6):
        chance = random.Random(seed)
        store = make_store(vnode_count=chance.choice([1, 3]))
        _make_table(store, kind)
        if seed % 2:
            _create_indexes(store)
        else:
            store.write("t", _batch(store, [_row(chance) for _ in range(20)]))
            _create_indexes(store)
        for _ in range(6):
            _change(store, chance, kind)
            _assert_indexes_answer(store)


def test_an_index_is_read_at_the_epoch_of_its_table(store: Store) -> None:
    """A snapshot finds what its own epoch had, also after the index was dropped."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    store.create_index("t", "i", ["v"])
    first = upsert(store, "t", [(1, "a"), (2, "a")])
    second = upsert(store, "t", [(1, "b")], deleted=[(2, None)])
    store.drop_index("t", "i")

    assert [row.k for row in store.at(first).table("t").get_by("i", "a")] == [1, 2]
    assert store.at(second).table("t").get_by("i", "a") == []
    assert store.at(second).table("t").get_by("i", "b") == [(1, "b")]


def test_a_row_that_keeps_its_values_writes_no_entry(store: Store) -> None:
    """An update of other columns leaves the index as it is."""
    store.create_table("t", "k INT, v STRING, w INT", primary_key=["k"])
    store.create_index("t", "i", ["v"])
    upsert(store, "t", [(1, "a", 1), (2, "b", 1)])
    internal = store.state.table(store.indexes("t")[0].internal_table).definition.table_id
    epoch = store.state.tables[internal].data_epoch
    upsert(store, "t", [(1, "a", 2), (2, "b", 3)])

    assert store.state.tables[internal].data_epoch == epoch
    assert store.table("t").get_by("i", "a") == [(1, "a", 2)]


def test_entries_change_with_the_bytes_of_their_values(store: Store) -> None:
    """Whatever SQL finds equal: 0.0 and -0.0 are stored, NaN is NaN, and lists are compared."""
    columns = "k INT, f DOUBLE, g FLOAT, l ARRAY<INT>"
    store.create_table("t", columns, primary_key=["k"])
    store.create_index("t", "by_f", ["f"], include=["g", "l"])
    values: list[tuple[float | None, float | None, list[int] | None]]
    values = [(0.0, 0.0, [1]), (-0.0, 0.0, [1]), (0.0, -0.0, [1]), (0.0, -0.0, [2])]
    values += [(float("nan"), float("nan"), None), (None, None, [2]), (1.5, None, [2])]
    pairs = list(itertools.product(values, repeat=2))
    for turn in (0, 1):
        rows = [(key, *pair[turn]) for key, pair in enumerate(pairs)]
        store.write("t", batch_of(store, "t", rows))
        assert store.check().problems == ()


def test_a_small_commit_is_one_segment(store: Store) -> None:
    """Rows and entries share it, also when commits are merged automatically."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    store.create_index("t", "i", ["v"])
    store.create_index("t", "j", ["v desc"])
    table = store.state.table("t").definition
    ids = {table.table_id, *(index.table_id for index in table.indexes)}
    for turn in range(30):
        rows = [(key, f"{key} {turn}") for key in range(turn, turn + 9)]
        store.write("t", batch_of(store, "t", rows))
        entry = next(entry for entry in store.history() if entry.data_change)
        assert [{part.table_id for part in record.tables} for record in entry.added] == [ids]
    assert max(len(store.state.segments_of(table_id)) for table_id in ids) <= 7
    assert store.check().problems == ()
    assert store.check().orphans == 0


def test_a_large_commit_writes_the_entries_to_a_segment_of_their_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that take too much memory are written before the commit."""
    monkeypatch.setattr(writer, "_TAKEN_BYTES", 100)
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    store.create_index("t", "i", ["v"])
    store.write("t", batch_of(store, "t", [(key, f"{key}") for key in range(100)]))
    assert len(next(store.history()).added) == 2
    assert store.table("t").get_by("i", "7") == [(7, "7")]
    assert store.check().problems == ()


def test_entries_expire_with_their_rows(tmp_path: Any) -> None:
    """An index of a table with a TTL finds what the table shows, at every time and epoch."""
    clock = ManualClock()
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=4, environment=quick_environment(path, clock)) as store:
        store.create_table("t", "k INT, v STRING", primary_key=["k"], ttl=60)
        store.create_index("t", "i", ["v"], unique=True)
        first = upsert(store, "t", [(1, "a"), (2, "b")])
        clock.advance(30)
        with pytest.raises(UniqueViolationError):
            store.write("t", batch_of(store, "t", [(3, "a")]))
        clock.advance(31)
        assert store.table("t").get_by("i", "a") == []
        assert store.check().problems == ()
        upsert(store, "t", [(3, "a"), (1, "c")])
        assert store.table("t").get_by("i", "a") == [(3, "a")]
        assert store.at(first).table("t").get_by("i", "a") == [(1, "a")]
        store.compact()
        assert store.table("t").get_by("i", "c") == [(1, "c")]
        assert store.check().problems == ()


def create_versioned_table(store: Store) -> None:
    """Create a table whose deletes are forgotten after a second."""
    store.create_table(
        "t",
        "k INT, v STRING, ver INT",
        primary_key=["k"],
        version_column="ver",
        tombstone_retention=1,
    )


def test_a_late_row_stays_hidden_while_there_is_an_index(tmp_path: Any) -> None:
    """Compaction forgets no delete that hides a late row: it would appear without a commit."""
    clock = ManualClock()
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=1, environment=quick_environment(path, clock)) as store:
        create_versioned_table(store)
        store.create_index("t", "i", ["v"])
        upsert(store, "t", [(1, "a", 1)])
        upsert(store, "t", [], deleted=[(1, None, 5)])
        upsert(store, "t", [(1, "late", 3)])
        clock.advance(1000)
        for _ in range(3):
            store.compact()
        assert store.table("t").get(1) is None
        assert store.table("t").get_by("i", "late") == []
        assert store.check().problems == ()


def test_a_merge_planned_before_the_index_is_refused(tmp_path: Any) -> None:
    """It dropped the delete that hides a late row, which the new index therefore does not hold."""
    clock = ManualClock()
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=1, environment=quick_environment(path, clock)) as store:
        create_versioned_table(store)
        upsert(store, "t", [(1, "a", 1)])
        upsert(store, "t", [], deleted=[(1, None, 5)])
        clock.advance(1000)
        job = store.jobs.compaction_job("t")
        assert job is not None
        records = job.run(range(job.parts))
        upsert(store, "t", [(1, "late", 3)])
        store.create_index("t", "i", ["v"])
        with pytest.raises(ConflictError, match="'t' was altered meanwhile"):
            store.jobs.commit_compaction(job, records)
        store.compact()
        assert store.table("t").get(1) is None
        assert store.check().problems == ()


# Unique indexes


@pytest.fixture
def unique(store: Store) -> Store:
    """A store whose table has two rows and a unique index of two columns."""
    store.create_table("t", "k INT, v STRING, w INT", primary_key=["k"])
    upsert(store, "t", [(1, "a", 1), (2, "b", 1)])
    store.create_index("t", "i", ["v", "w"], unique=True)
    return store


@pytest.mark.parametrize("rows", [[(3, "a", 1)], [(3, "c", 1), (4, "c", 1)], [(2, "a", 1)]])
def test_equal_values_are_refused(unique: Store, rows: list[tuple[Any, ...]]) -> None:
    """Of a row that is there, or of two that are written; nothing stays of the write."""
    epoch, before = unique.epoch, contents(unique, "t")
    with pytest.raises(UniqueViolationError, match=r"'t': two rows .*\(v = '.', w = 1\).* 'i'"):
        unique.write("t", batch_of(unique, "t", rows))
    assert (unique.epoch, contents(unique, "t")) == (epoch, before)
    assert unique.check().orphans == 0


def test_values_may_move_and_be_null(unique: Store) -> None:
    """Rows may exchange their values in one commit, and NULL equals nothing."""
    upsert(unique, "t", [(1, "b", 1), (2, "a", 1)])
    upsert(unique, "t", [(3, None, 1), (4, None, 1), (5, "a", None), (6, "a", None)])
    upsert(unique, "t", [(7, "a", 1)], deleted=[(2, None, None)])
    unique.write("t", batch_of(unique, "t", [(8, "a", 1)]), overwrite=True)
    assert unique.table("t").get_by("i", "a", 1) == [(8, "a", 1)]
    unique.truncate("t")
    upsert(unique, "t", [(9, "a", 1)])


def test_a_unique_index_needs_unique_rows(unique: Store) -> None:
    """It is not created over rows with equal values, and nothing of it stays."""
    with pytest.raises(UniqueViolationError, match=r"\(w = 1\)"):
        unique.create_index("t", "j", ["w"], unique=True)
    assert [index.name for index in unique.indexes("t")] == ["i"]
    assert unique.check().orphans == 0


# Races


def _before_append(store: Store, monkeypatch: pytest.MonkeyPatch, acts: list[Any]) -> None:
    """Let each of ``acts`` happen just before an attempt of the store to append an entry."""
    log = store._epochs.log

    def race(appended: Any, entry: Any, after: Sequence[str] = ()) -> bool:
        if acts and appended is log:
            acts.pop(0)()
        return append(appended, entry, after)

    monkeypatch.setattr(transaction, "append", race)


def test_one_of_two_writers_of_a_value_is_refused(
    unique: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one, although it found the value free when it looked first."""
    other = Store.open(unique.path, environment=unique.environment)
    _before_append(unique, monkeypatch, [lambda: upsert(other, "t", [(8, "new", 1)])])
    with pytest.raises(UniqueViolationError):
        unique.write("t", batch_of(unique, "t", [(9, "new", 1)]))
    assert unique.table("t").get_by("i", "new", 1) == [(8, "new", 1)]
    assert unique.check().orphans == 0
    other.close()


def test_a_lost_race_finds_the_rows_of_the_winner(
    unique: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blind upserts of one key: the entry of the row that was replaced meanwhile goes too."""
    other = Store.open(unique.path, environment=unique.environment)
    _before_append(
        unique,
        monkeypatch,
        [
            lambda: upsert(other, "t", [(1, "theirs", 1)]),
            lambda: other.create_table("u", "k INT", primary_key=["k"]),
            lambda: other.create_index("t", "j", ["w"]),
        ],
    )
    unique.write("t", batch_of(unique, "t", [(1, "mine", 7)]))
    assert unique.table("t").get_by("i", "theirs") == []
    assert unique.table("t").get_by("i", "mine") == [(1, "mine", 7)]
    assert unique.table("t").get_by("j", 7) == [(1, "mine", 7)]
    assert unique.check().problems == ()
    assert unique.check().orphans == 0
    other.close()


def test_rows_are_committed_though_their_index_is_dropped_meanwhile(
    unique: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit writes them without entries, and leaves nothing of its first attempt."""
    other = Store.open(unique.path, environment=unique.environment)
    _before_append(unique, monkeypatch, [lambda: other.drop_index("t", "i")])
    unique.write("t", batch_of(unique, "t", [(3, "c", 1)]))
    assert unique.table("t").get(3) == (3, "c", 1)
    assert unique.check().problems == ()
    assert unique.check().orphans == 0
    other.close()


def test_an_index_is_filled_with_what_was_written_meanwhile(
    unique: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit during the creation is in the index; a table that is always written refuses it."""
    other = Store.open(unique.path, environment=unique.environment)
    acts: list[Any] = [
        lambda: upsert(other, "t", [(8, "new", 1)]),
        lambda: other.create_table("u", "k INT", primary_key=["k"]),
    ]
    _before_append(unique, monkeypatch, acts)
    unique.create_index("t", "j", ["v"])
    assert unique.table("t").get_by("j", "new") == [(8, "new", 1)]

    acts += [lambda at=at: upsert(other, "t", [(at, f"v{at}", 1)]) for at in range(20, 40)]
    with pytest.raises(ConflictError, match="while nobody writes the table"):
        unique.create_index("t", "k", ["v"])
    acts.clear()
    assert unique.check().problems == ()
    other.close()


def test_a_retried_batch_leaves_no_files(unique: Store) -> None:
    """A batch that is committed already adds nothing to the index either."""
    table_id = unique.state.table("t").definition.table_id
    for run in ("first", "second"):
        segments = written(unique, "t", [(5, "once", 1)])
        unique.jobs.commit(
            Proposal(
                operation="write",
                started=unique.environment.now(),
                segments=segments,
                transactions=(Transaction("query", table_id, 5, run),),
            )
        )
    assert unique.table("t").get_by("i", "once", 1) == [(5, "once", 1)]
    assert unique.check().orphans == 1


def test_a_writer_from_before_the_index_keeps_it(store: Store) -> None:
    """Rows that were written before the index was created, and committed after, are in it."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    segments = written(store, "t", [(1, "a")])
    store.create_index("t", "i", ["v"])
    committed(store, segments)
    assert store.table("t").get_by("i", "a") == [(1, "a")]
    state = store.state_table("t")
    state.insert((2, "b"))
    state.delete((1, "a"))
    state.commit()
    assert store.table("t").get_by("i", "a") == []
    assert store.table("t").get_by("i", "b") == [(2, "b")]
