"""Merges that are left to a thread: as many as commits, bounded, and none after the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Semaphore, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sql.database import connect
from relstate.connector.views import merges as merges_module
from relstate.connector.views.merges import Merges
from relstate.storage import Store
from relstate.storage.jobs import Jobs
from support.stores import StoreMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_LEFT = merges_module._MOST_LEFT


@contextmanager
def _merged_by(
    monkeypatch: pytest.MonkeyPatch, merge: Callable[[frozenset[int]], None], store: Store
) -> Iterator[Merges]:
    """Yield merges that call a function, and close them at the end."""
    monkeypatch.setattr(Jobs, "auto_compact", lambda _jobs, ids: merge(ids))
    merges = Merges(store, "merges of a test")
    yield merges
    merges.close()


def test_each_commit_has_its_merges(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, in another thread; `close` waits for the last. None without a table."""
    done: list[tuple[frozenset[int], bool]] = []

    def merge(ids: frozenset[int]) -> None:
        done.append((ids, current_thread() is main_thread()))

    with _merged_by(monkeypatch, merge, store) as merges:
        for ids in ({1}, set(), {2, 3}, {1}):
            merges.add(ids)

    assert done == [(frozenset(ids), False) for ids in ({1}, {2, 3}, {1})]


def test_a_commit_waits_while_the_merges_of_eight_are_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So files do not pile up while they are merged more slowly than they are written."""
    is_free, added = Event(), Semaphore(0)

    def merge(_ids: frozenset[int]) -> None:
        is_free.wait()

    with _merged_by(monkeypatch, merge, store) as merges:

        def write() -> None:
            for number in range(_MOST_LEFT + 2):
                merges.add({number})
                added.release()

        writer = Thread(target=write)
        writer.start()
        for _ in range(_MOST_LEFT):
            added.acquire()
        assert not added.acquire(timeout=0.05)
        is_free.set()
        writer.join()
    assert added.acquire(blocking=False)
    assert added.acquire(blocking=False)


def test_a_merge_that_fails_does_not_end_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and due again after the next commit."""
    done: list[frozenset[int]] = []

    def merge(ids: frozenset[int]) -> None:
        if ids == {1}:
            raise OSError("no space left")
        done.append(ids)

    with _merged_by(monkeypatch, merge, store) as merges:
        merges.add({1})
        merges.add({2})

    assert done == [frozenset({2})]
    assert "no files were merged: no space left" in caplog.text


def test_nothing_is_started_without_merges(store: Store) -> None:
    """A stream whose views never change has no second thread."""
    merges = Merges(store, "merges of a test")
    merges.close()
    assert merges._thread.ident is None


def test_a_stream_does_not_wait_for_merges(
    spark: SparkSession, make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views follow while files are merged; when the stream has stopped there are as few as ever."""
    store = make_store()
    store.create_table("t", "k INT, g INT, v INT", primary_key=["k"])
    db = connect(spark, store.path)
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, sum(v) AS s FROM t GROUP BY g")
    is_free, auto_compact, merging = Event(), Jobs.auto_compact, []

    def wait_and_merge(jobs: Jobs, ids: Any) -> None:
        if current_thread().name.startswith("relstate merges"):
            merging.append(ids)
            is_free.wait()
        auto_compact(jobs, ids)

    monkeypatch.setattr(Jobs, "auto_compact", wait_and_merge)
    stream = db.stream()
    for number in range(_MOST_LEFT):
        store.write("t", [{"k": number, "g": number % 3, "v": 1}])
        stream.processAllAvailable()
    assert len(merging) == 1
    assert db.sql("SELECT sum(s) AS s FROM sums").first() == (_MOST_LEFT,)
    is_free.set()
    for number in range(40):
        store.write("t", [{"k": number, "g": number % 3, "v": 2}])
        stream.processAllAvailable()
    stream.stop()

    assert len(merging) == 40 + _MOST_LEFT
    assert db.sql("SELECT sum(s) AS s FROM sums").first() == (80,)
    assert store.state.segments.count_of(store.state.view("sums").view_id) <= 12
