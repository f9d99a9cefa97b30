"""Views that follow their tables in the background, with the life cycle of a StreamingQuery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.commits import Commit
from relstate.connector.sql import Database
from relstate.connector.views import retries
from relstate.connector.views.merges import Merges
from relstate.connector.views.refresh import Refreshed
from relstate.connector.views.runner import JobRunner
from relstate.connector.views.stream import ViewStream
from relstate.storage import Store, errors, read_failure
from support.listeners import Recorder
from support.stores import unsynced
from support.views import count_refreshes

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SUMS = "SELECT g, sum(v) AS s FROM t GROUP BY g"
SIZES = "SELECT s, count(*) AS c FROM sums GROUP BY s"


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    """A store with a table of 20 rows, and a view over it."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=8, shards=1, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
        put(store, *range(20))
        db = Database(spark, store)
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        yield db
        assert store.check().problems == ()


def put(store: Store, *keys: int, factor: int = 1) -> int:
    """Upsert rows whose values follow from their keys, in one epoch, and return it."""
    values = [key * factor for key in keys]
    return store.write("t", pa.table({"k": keys, "g": [f"g{k % 3}" for k in keys], "v": values}))


def sums(store: Store) -> dict[str, int]:
    """Return the rows of the view."""
    return {row["g"]: row["s"] for row in store.table("sums").to_arrow().to_pylist()}


def expected(store: Store) -> dict[str, int]:
    """Return what the rows of the view should be."""
    totals: dict[str, int] = {}
    for row in store.table("t").to_arrow().to_pylist():
        totals[row["g"]] = totals.get(row["g"], 0) + row["v"]
    return totals


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> float:
    """Wait until a condition holds, and return the seconds; fail if it never does."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < seconds, "the condition never held"
        time.sleep(0.01)
    return time.monotonic() - started


@pytest.fixture
def stream(db: Database) -> Iterator[ViewStream]:
    """A stream of all views, stopped at the end."""
    stream = db.stream(query_name="follow")
    yield stream
    stream.stop()


def test_a_refresh_starts_within_a_second(db: Database, stream: ViewStream) -> None:
    """Without a trigger interval, a view waits for nothing but its refresh."""
    idle_seconds = []
    for number in range(2, 6):
        put(db.store, *range(number, number + 10), factor=number)
        rows = expected(db.store)
        seconds = wait_until(lambda rows=rows: sums(db.store) == rows)  # type: ignore[misc]
        stream.processAllAvailable()
        assert stream.lastProgress is not None
        idle_seconds.append(seconds - stream.lastProgress["batchDuration"] / 1000)

    assert min(idle_seconds) < 1
    assert stream.isActive
    assert stream.exception() is None


def test_name_status_progress_and_end(db: Database, stream: ViewStream) -> None:
    """As a StreamingQuery has them."""
    assert (stream.name, len(stream.id) > 8) == ("follow", True)
    stream.processAllAvailable()
    last = stream.lastProgress
    assert last is None
    assert stream.recentProgress == []
    first = put(db.store, 1, 2, factor=5)
    stream.processAllAvailable()
    assert sums(db.store) == expected(db.store)
    put(db.store, 3, factor=5)
    stream.processAllAvailable()

    wait_until(lambda: len(stream.recentProgress) == 2)
    earlier, later = stream.recentProgress
    assert stream.lastProgress == later
    assert (earlier["batchId"], later["batchId"]) == (0, 1)
    assert (earlier["reflects"], earlier["epoch"]) == (first, first + 1)
    assert earlier["views"] == ["sums"]
    assert earlier["numInputRows"] >= 2
    assert earlier["durationMs"].keys() == {"planning", "execution", "commit"}
    assert earlier["durationMs"]["execution"] > 0
    assert sum(earlier["durationMs"].values()) <= earlier["batchDuration"] + 2
    assert (earlier["id"], earlier["name"]) == (stream.id, "follow")
    wait_until(lambda: stream.status["message"] == "Waiting for data to arrive")
    wait_until(lambda: not stream.status["isTriggerActive"])
    assert not stream.status["isDataAvailable"]
    assert stream.awaitTermination(0.05) is False
    with pytest.raises(errors.OptionError, match="timeout"):
        stream.awaitTermination(0)
    stream.stop()
    stream.stop()
    assert not stream.isActive
    assert stream.awaitTermination(1) is True
    assert stream.awaitTermination() is None
    assert stream.status == {
        "message": "Stopped", "isDataAvailable": False, "isTriggerActive": False, "failed": {},
    }  # fmt: skip
    put(db.store, 3, factor=6)
    stream.processAllAvailable()
    assert sums(db.store) != expected(db.store)


def test_progress_is_reported_when_all_is_processed(
    db: Database, stream: ViewStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When processAllAvailable returns, lastProgress has the commit that it waited for."""
    advance = stream._views.advance

    def slow_advance(
        names: Sequence[str] | None, skipped: Set[int], merges: Merges | None
    ) -> Refreshed:
        done = advance(names, skipped, merges)
        time.sleep(0.3)
        return done

    monkeypatch.setattr(stream._views, "advance", slow_advance)
    for number in range(3):
        written = put(db.store, 1, factor=number + 10)
        stream.processAllAvailable()

        assert stream.lastProgress is not None
        assert stream.lastProgress["reflects"] == written


def test_views_are_created_rescaled_and_dropped_while_it_runs(
    db: Database, stream: ViewStream
) -> None:
    """By the same database and by another."""
    with Store.open(db.store.path) as store:
        second = Database(db.spark, store)
        db.sql(f"CREATE MATERIALIZED VIEW sizes AS {SIZES}")
        put(db.store, 5, 6, factor=9)
        second.sql("ALTER MATERIALIZED VIEW sums SET PARALLELISM 5")
        second.sql("CREATE MATERIALIZED VIEW ones AS SELECT k FROM t WHERE v = 1")
        put(db.store, 7, 8, factor=9)
        stream.processAllAvailable()
        assert sums(db.store) == expected(db.store)
        second.sql("DROP MATERIALIZED VIEW ones")
        put(db.store, 9, 8, factor=2)
        db.sql("ALTER MATERIALIZED VIEW sums SET PARALLELISM 1")
        db.sql("DROP MATERIALIZED VIEW sizes")
        put(db.store, 9, factor=3)
        stream.processAllAvailable()

    assert sums(db.store) == expected(db.store)
    assert stream.isActive
    assert db.store.view("sums").definition.mapping.units == 1


def test_a_stream_of_some_views_goes_on_without_those_that_are_dropped(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A view that is renamed stays, one of a dropped one's name comes in; the last one ends it."""
    db.sql("CREATE MATERIALIZED VIEW star AS SELECT k, v FROM t WHERE v > 5")
    stream = db.stream(["sums", "star"])
    try:
        db.sql("DROP MATERIALIZED VIEW star")
        put(db.store, 5, 6, factor=9)
        stream.processAllAvailable()
        assert sums(db.store) == expected(db.store)
        assert "star was dropped" in caplog.text

        db.sql("CREATE MATERIALIZED VIEW star AS SELECT k, v FROM t WHERE v > 5")
        db.sql("ALTER MATERIALIZED VIEW sums RENAME TO totals")
        epoch = put(db.store, 7, 8, factor=9)
        stream.processAllAvailable()
        views = [db.store.view(name) for name in ("totals", "star")]
        assert [view.progress.reflects >= epoch for view in views] == [True, True]

        db.sql("DROP MATERIALIZED VIEW totals")
        db.sql("DROP MATERIALIZED VIEW star")
        with pytest.raises(errors.ViewNotFoundError, match="sums"):
            stream.awaitTermination(60)
    finally:
        stream.stop()


def test_a_commit_that_changes_nothing_does_not_keep_it_busy(
    db: Database, stream: ViewStream
) -> None:
    """Truncating an empty table, overwriting it with nothing, writing an equal row."""
    for _ in range(2):
        db.sql("TRUNCATE TABLE t")
        stream.processAllAvailable()
        assert sums(db.store) == {}
    nothing = pa.table({"k": pa.array([], pa.int64()), "g": pa.array([], pa.string()),
                        "v": pa.array([], pa.int64())})  # fmt: skip
    db.store.write("t", nothing, overwrite=True)
    stream.processAllAvailable()
    put(db.store, 1)
    put(db.store, 1)
    stream.processAllAvailable()
    wait_until(lambda: not stream.status["isDataAvailable"])
    done = count_refreshes(db.store)
    time.sleep(0.2)

    assert count_refreshes(db.store) == done
    assert sums(db.store) == expected(db.store)


BAD = "SELECT k, 1 DIV (v - 500) AS q FROM t"


def test_a_view_that_fails_does_not_end_it(
    db: Database, stream: ViewStream, caplog: pytest.LogCaptureFixture
) -> None:
    """All other views are moved; it is tried again when its inputs change, and not before."""
    recorder = Recorder()
    stream.stop()
    db.sql(f"CREATE MATERIALIZED VIEW bad AS {BAD}")
    db.sql("CREATE MATERIALIZED VIEW over AS SELECT count(*) AS c FROM bad")
    stream = db.stream(listener=recorder)
    db.store.write("t", pa.table({"k": [1], "g": ["g1"], "v": [500]}))
    stream.processAllAvailable()

    assert sums(db.store) == expected(db.store)
    assert (stream.isActive, stream.exception()) == (True, None)
    assert stream.lastProgress is not None
    message = stream.lastProgress["failed"]["bad"]
    assert "'1 DIV (v - 500)' fails for the row with k = 1 of table 't'" in message
    assert stream.lastProgress["views"] == ["sums"]
    assert stream.status["failed"] == {"bad": message}
    wait_until(lambda: not stream.status["isDataAvailable"])
    time.sleep(0.3)
    stream.processAllAvailable()
    assert len(stream.recentProgress) == 1
    put(db.store, 2, factor=3)
    stream.processAllAvailable()
    assert sums(db.store) == expected(db.store)
    put(db.store, 1)
    stream.processAllAvailable()
    assert stream.status["failed"] == {}
    assert stream.lastProgress["failed"] == {}
    moved = {name for progress in stream.recentProgress[2:] for name in progress["views"]}
    assert moved == {"bad", "over", "sums"}
    stream.stop()

    told = [item for item in recorder.heard if isinstance(item, tuple) and item[0] == "failure"]
    assert told == [("failure", "bad", message)]
    lines = [r for r in caplog.records if r.name == "relstate.connector.views.stream"]
    assert [(line.levelname, line.exc_info) for line in lines] == [("WARNING", None)]
    assert db.sql("SELECT count(*) AS c FROM bad").first() == db.sql("SELECT c FROM over").first()


def test_a_view_that_fails_ends_it_if_asked(db: Database) -> None:
    """The error is raised to waiting callers; other views are moved; a new stream goes on.

    A stream that ends by itself has the error too.
    """
    db.sql(f"CREATE MATERIALIZED VIEW bad AS {BAD}")
    stream = db.stream(stop_on_failure=True)
    db.store.write("t", pa.table({"k": [1], "g": ["g1"], "v": [500]}))

    with pytest.raises(errors.ViewFailedError, match="DIVIDE_BY_ZERO"):
        stream.awaitTermination(120)
    with pytest.raises(errors.ViewFailedError, match="DIVIDE_BY_ZERO"):
        stream.processAllAvailable()
    assert not stream.isActive
    assert stream.status["message"].startswith("Terminated with exception")
    assert sums(db.store) == expected(db.store)

    with pytest.raises(errors.ViewFailedError, match="DIVIDE_BY_ZERO"):
        db.stream(available_now=True).awaitTermination(120)
    put(db.store, 1)
    again = db.stream(available_now=True)
    assert again.awaitTermination(120) is True
    assert again.lastProgress is not None
    assert again.lastProgress["views"] == ["bad", "sums"]


@pytest.mark.parametrize("method", ["_run_once", "commit"])
def test_a_failure_of_the_machines_is_tried_again(
    db: Database, stream: ViewStream, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """After longer and longer waits; no row is blamed, nothing is kept as the view's failure."""
    monkeypatch.setattr(retries, "FIRST_DELAY", 0.1)
    run, failures = getattr(JobRunner, method), [0]

    def failing(*arguments: object) -> object:
        failures[0] += 1
        if failures[0] < 4:
            if method == "commit":
                raise errors.FilesystemError("no space")
            raise RuntimeError("ExecutorLostFailure (executor 3 exited): Container killed")
        return run(*arguments)

    monkeypatch.setattr(JobRunner, method, failing)
    put(db.store, 1, factor=5)
    wait_until(lambda: sums(db.store) == expected(db.store))
    stream.processAllAvailable()

    assert failures[0] >= 4
    assert (stream.isActive, stream.status["failed"]) == (True, {})
    view_id = db.store.view("sums").view_id
    assert read_failure(db.store.environment, view_id) is None
    reported = [text for p in stream.recentProgress for text in p["failed"].values()]
    assert all("ExecutorLostFailure" in text and "correct the row" not in text for text in reported)


def test_a_defect_of_the_driver_ends_it(
    db: Database, stream: ViewStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits for ever: what would be raised by every try is raised to those who wait."""

    def wrong(*arguments: object) -> Refreshed:
        raise TypeError("takes 2 positional arguments but 3 were given")

    monkeypatch.setattr(stream._views, "advance", wrong)
    put(db.store, 1)
    with pytest.raises(TypeError, match="3 were given"):
        stream.processAllAvailable()
    assert not stream.isActive


def test_available_now(db: Database) -> None:
    """It takes in what is committed, then ends, also if there is nothing."""
    put(db.store, 1, factor=5)

    assert db.stream(available_now=True).awaitTermination(120) is True

    assert sums(db.store) == expected(db.store)
    idle = db.stream("sums", available_now=True)
    assert idle.awaitTermination(60) is True
    assert idle.recentProgress == []


def test_a_trigger_interval_is_waited_for(db: Database) -> None:
    """Changes before a trigger are one epoch of the view; stopping does not wait for one."""
    hourly = db.stream(["sums"], trigger="1 hour")
    wait_until(lambda: hourly.status["message"] == "Waiting for next trigger")
    for number in range(3):
        put(db.store, number, factor=7)
    assert hourly.lastProgress is None
    hourly.stop()
    assert hourly.lastProgress is None

    often = db.stream(["sums"], trigger="100 milliseconds")
    wait_until(lambda: len(often.recentProgress) == 1)
    assert sums(db.store) == expected(db.store)
    put(db.store, 5, factor=7)
    wait_until(lambda: len(often.recentProgress) == 2)
    often.stop()
    assert sums(db.store) == expected(db.store)


def test_a_listener_hears_of_the_stream(db: Database) -> None:
    """Each commit, each refresh with its figures, and the end, before `stop` returns."""
    recorder = Recorder()
    stream = db.stream(query_name="heard", listener=recorder)
    first = put(db.store, 50, 51)
    stream.processAllAvailable()
    put(db.store, 52)
    stream.processAllAvailable()
    assert repr(stream).startswith("ViewStream('heard', ")
    assert "numInputRows" in stream._repr_html_()
    progress = stream.recentProgress
    stream.stop()

    heard = recorder.heard
    assert [item for item in heard if isinstance(item, dict)] == progress
    epochs = [item.epoch for item in heard if isinstance(item, Commit)]
    assert epochs == list(range(first, db.store.epoch + 1))
    assert heard[-1] == ("end", None)


def test_invalid_arguments(db: Database) -> None:
    """Unknown views and invalid triggers are refused at once."""
    with pytest.raises(errors.ViewNotFoundError, match="nothing"):
        db.stream("nothing")
    with pytest.raises(errors.OptionError, match="trigger"):
        db.stream(trigger="now and then")
    for negative in (-1, "-1 second"):
        with pytest.raises(errors.OptionError, match="trigger"):
            db.stream(trigger=negative)
    db.stream(trigger="200 milliseconds").stop()
    with pytest.raises(errors.OptionError, match="available_now"):
        db.stream(trigger=1, available_now=True)
