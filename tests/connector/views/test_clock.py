"""When views that compare rows with the present time are refreshed, and at which time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relstate.connector.sql import Database
from relstate.connector.views.job import JobOutput, ViewJob
from relstate.connector.views.runner import JobRunner
from relstate.storage import Store
from support.clock import ManualClock
from support.clock_law import EVENING, HOUR, micros
from support.commits import quick_environment
from support.spark import only_row
from support.stores import rows_of, upsert
from support.views import count_refreshes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def clock() -> ManualClock:
    """A clock that shows an evening in February."""
    return ManualClock(micros(EVENING))


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store with that clock."""
    environment = quick_environment(tmp_path / "store", clock)
    with Store.create(environment.root, vnode_count=8, shards=1, environment=environment) as store:
        yield store
        assert store.check().problems == ()


@pytest.fixture
def db(spark: SparkSession, store: Store) -> Database:
    """The store with a table of events, one every minute of an hour, and a view of the next."""
    store.create_table("e", "k BIGINT, ts TIMESTAMP", primary_key=["k"])
    put(store, range(60))
    db = Database(spark, store)
    db.sql("CREATE MATERIALIZED VIEW begun AS SELECT k, ts FROM e WHERE ts <= now()")
    return db


def put(store: Store, keys: range) -> None:
    """Write events, each at the minute that is its key."""
    moments = [datetime.fromtimestamp(EVENING.timestamp() + 60 * key, UTC) for key in keys]
    upsert(store, "e", list(zip(keys, moments, strict=True)))


def begun(store: Store) -> list[int]:
    """Return the keys of the events that have begun for the view."""
    return sorted(key for key, _ in rows_of(store.table("begun").to_arrow()))


def test_a_refresh_before_a_view_is_due_starts_no_job(
    db: Database, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed until the very moment at which the next row comes."""
    assert begun(store) == [0]
    jobs: list[str] = []
    run = JobRunner.run

    def counted(runner: JobRunner, job: ViewJob) -> JobOutput:
        jobs.append(job.name)
        return run(runner, job)

    monkeypatch.setattr(JobRunner, "run", counted)

    clock.advance(59.999_999)
    done = db.refresh()
    assert (done.views, jobs, begun(store)) == ((), [], [0])
    assert not only_row(db.sql("SHOW MATERIALIZED VIEWS")).is_behind
    clock.advance(0.000_001)
    assert only_row(db.sql("SHOW MATERIALIZED VIEWS")).is_behind
    done = db.refresh()
    assert (done.views, jobs, begun(store)) == (("begun",), ["begun"], [0, 1])
    clock.advance(24 * HOUR)
    db.refresh()
    assert begun(store) == list(range(60))
    # No row is left that could come: time alone never changes the view again.
    clock.advance(1000 * 24 * HOUR)
    assert db.refresh().views == ()
    assert len(jobs) == 2


def test_a_refresh_that_dies_before_its_commit_changes_nothing(
    db: Database, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one, at a later time, starts from what was committed."""

    def die(*_: object) -> None:
        raise MemoryError("killed")

    clock.advance(120)
    with monkeypatch.context() as patch:
        patch.setattr(JobRunner, "commit", die)
        with pytest.raises(MemoryError):
            db.refresh()
    assert begun(store) == [0]
    clock.advance(60)
    db.refresh()
    assert begun(store) == [0, 1, 2, 3]
    assert [report for report in db.check_views() if not report.ok] == []


def test_a_clock_that_was_set_back_does_not_move_a_view_back(
    db: Database, store: Store, clock: ManualClock
) -> None:
    """A refresh is never at an earlier time than the one before it."""
    clock.advance(10 * 60)
    db.refresh()
    clock.set_back(30)
    put(store, range(100, 101))
    put(store, range(-5, 0))
    db.refresh()

    assert begun(store) == list(range(-5, 11))
    assert [report for report in db.check_views() if not report.ok] == []


def test_the_plan_shows_the_filter_its_state_and_its_cost(db: Database) -> None:
    """EXPLAIN names the bound, the executor, and the order of its state."""
    plan = only_row(db.sql("EXPLAIN MATERIALIZED VIEW begun")).plan

    assert "TemporalFilter moment < UNIX_MICROS(now) + 1, time costs" in plan
    assert "Executor 1: temporal_filter" in plan
    assert "key (moment, k)" in plan


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if it never does."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < 60, "the condition never held"
        time.sleep(0.01)


def test_a_stream_wakes_when_the_next_row_comes(
    db: Database, store: Store, clock: ManualClock
) -> None:
    """It does nothing until then, and commits once."""
    stream = db.stream()
    stream.processAllAvailable()
    refreshes = count_refreshes(store)
    clock.advance(59)
    stream.processAllAvailable()
    assert count_refreshes(store) == refreshes
    clock.advance(1)
    stream.processAllAvailable()
    assert begun(store) == [0, 1]
    assert stream.lastProgress is not None
    assert stream.lastProgress["views"] == ["begun"]
    clock.advance(600)
    wait_until(lambda: begun(store) == list(range(12)))
    stream.stop()
