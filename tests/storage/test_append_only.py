"""Append-only tables: rows with new keys can be added, and no other change is accepted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Proposal, Store, Transaction
from relstate.storage.errors import AppendOnlyError, ConflictError
from relstate.storage.log import transaction
from relstate.storage.log.append import append
from support.examples import examples
from support.stores import StoreMaker, batch_of, committed, contents, upsert, written

_KEY = "k" * 600


@pytest.fixture
def log(make_store: StoreMaker) -> Store:
    """A store with an append-only table of three rows over two epochs."""
    store = make_store(vnode_count=7)
    columns, key = "name STRING, n INT, v STRING", ["name", "n desc"]
    store.create_table("log", columns, primary_key=key, append_only=True)
    upsert(store, "log", [("a", 1, "x"), (_KEY, 1, "x")])
    upsert(store, "log", [("b", 1, None)])
    return store


_ROWS = [("a", 1, "x"), ("b", 1, None), (_KEY, 1, "x")]


def test_rows_of_new_keys_come_in(log: Store) -> None:
    """Rows with new keys are added, by every way of writing."""
    log.write("log", batch_of(log, "log", [("a", 2, "y")]))
    state = log.state_table("log")
    state.insert(("a", 3, "z"))
    state.commit()
    assert contents(log, "log") == [("a", 3, "z"), ("a", 2, "y"), *_ROWS]


@pytest.mark.parametrize("key", [("a", 1), (_KEY, 1)])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_key_that_is_there_is_refused(log: Store, key: tuple[Any, ...], compacted: bool) -> None:
    """One row with a key that is there refuses the whole write, and the key is named.

    No file of it stays.
    """
    if compacted:
        log.compact("log")
    epoch = log.epoch
    rows = batch_of(log, "log", [("c", 1, "new"), (*key, "again"), ("d", 1, "new")])
    with pytest.raises(AppendOnlyError, match=rf"'log' .*\(name = '{key[0]}', n = 1\)"):
        log.write("log", rows)
    assert (log.epoch, contents(log, "log")) == (epoch, _ROWS)
    assert log.check().orphans == 0


def test_a_key_that_comes_twice_is_refused(log: Store) -> None:
    """Two rows of one key are refused, in one segment or in two of one commit."""
    twice = [("c", 1, "one"), ("d", 1, None), ("c", 1, "two")]
    with pytest.raises(AppendOnlyError, match=r"\(name = 'c', n = 1\)"):
        log.write("log", batch_of(log, "log", twice))
    parts = [written(log, "log", [row]) for row in twice]
    with pytest.raises(AppendOnlyError, match=r"\(name = 'c', n = 1\)"):
        committed(log, [segment for part in parts for segment in part])
    assert contents(log, "log") == _ROWS


@pytest.mark.parametrize("seed", range(examples(8)))
def test_any_keys_are_refused_that_are_there(make_store: StoreMaker, seed: int) -> None:
    """Ascending keys or random ones, short and long: a write succeeds if all keys are new."""
    source = random.Random(seed)
    store = make_store(vnode_count=3)
    store.create_table("log", "k STRING", primary_key=["k"], append_only=True)
    there: set[str] = set()
    for number in range(40):
        end = "x" * source.choice([0, 0, 0, 600])
        first, step = source.choice([(10 * number, 1), (source.randrange(400), 7)])
        keys = {f"{key:04d}{end}" for key in range(first, first + 8 * step, step)}
        try:
            store.write("log", pa.table({"k": sorted(keys)}))
        except AppendOnlyError:
            assert keys & there
        else:
            assert not keys & there
            there |= keys
        if source.random() < 0.1:
            store.compact("log")
    assert {key for (key,) in contents(store, "log")} == there


def test_rows_are_not_changed_or_removed(log: Store) -> None:
    """Deletes, overwrites and truncation are refused, also of keys that are not there."""
    keys = pa.record_batch({"name": ["z"], "n": pa.array([1], pa.int32())})
    with pytest.raises(AppendOnlyError, match="delete: the table 'log' is append-only"):
        log.delete("log", keys)
    with pytest.raises(AppendOnlyError, match="delete: the table 'log' is append-only"):
        written(log, "log", [], [("a", 1, None)])
    with pytest.raises(AppendOnlyError, match="overwrite: the table 'log' is append-only"):
        log.write("log", batch_of(log, "log", [("z", 1, None)]), overwrite=True)
    with pytest.raises(AppendOnlyError, match="truncate: the table 'log' is append-only"):
        log.truncate("log")
    state = log.state_table("log")
    state.delete(("a", 1, "x"))
    with pytest.raises(AppendOnlyError, match="write: the table 'log' is append-only"):
        state.commit()
    rows = batch_of(log, "log", [("a", 1, "y")])
    state = log.state_table("log")
    state.write(rows)
    with pytest.raises(AppendOnlyError, match=r"\(name = 'a', n = 1\)"):
        state.commit()
    assert contents(log, "log") == _ROWS


def test_the_later_of_two_writers_is_refused(log: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that another commit added after the first check is found at the next attempt."""
    mine = written(log, "log", [("c", 1, "mine"), ("d", 1, "mine")])
    rival_store = Store.open(log.path, environment=log.environment)
    rivals = [[("e", 1, "other")], [("d", 1, "other")]]

    def race(appended: Any, entry: Any, after: Sequence[str] = ()) -> bool:
        if rivals and appended is log._epochs.log:
            upsert(rival_store, "log", rivals.pop(0))
        return append(appended, entry, after)

    monkeypatch.setattr(transaction, "append", race)
    with pytest.raises(AppendOnlyError, match=r"\(name = 'd', n = 1\)"):
        committed(log, mine)
    assert rivals == []
    assert contents(log, "log")[2:4] == [("d", 1, "other"), ("e", 1, "other")]
    rival_store.close()


def test_a_retried_batch_is_skipped(log: Store) -> None:
    """A batch that is committed already is skipped, not refused."""
    table_id = log.state.table("log").definition.table_id
    for run in ("first", "second"):
        segments = written(log, "log", [("c", 1, "new")])
        done = log.jobs.commit(
            Proposal(
                operation="write",
                started=log.environment.now(),
                segments=segments,
                transactions=(Transaction("query", table_id, 5, run),),
            )
        )
        assert done.committed != (run == "second")
    assert contents(log, "log") == [*_ROWS[:2], ("c", 1, "new"), _ROWS[2]]


def test_upkeep_is_free(log: Store) -> None:
    """Compaction rewrites an append-only table's rows, and vacuum removes the replaced files."""
    upsert(log, "log", [(str(number), 1, None) for number in range(20)])
    upsert(log, "log", [(str(number), 2, None) for number in range(20)])
    rows = contents(log, "log")
    assert log.compact("log").files_read > 1
    assert log.vacuum(retention=0).files > 1
    assert contents(log, "log") == rows
    assert not issubclass(AppendOnlyError, ConflictError)
