"""State, rows and progress of views move together, once, whatever fails and whoever is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import relstate
from relstate.connector.sql import Database
from relstate.connector.task_report import TaskReport
from relstate.connector.views import runner
from relstate.connector.views.job import complete_reports
from relstate.connector.views.rebuild import find_differences
from relstate.connector.views.runner import JobRunner
from relstate.connector.views.views import Views
from relstate.storage import Store, errors
from relstate.storage.segment.registry import registry
from support.faulty_environment import FaultyEnvironment
from support.multisets import difference, rows_of_table
from support.stores import unsynced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEWS = {
    "totals": "SELECT g, count(*) AS c, sum(v) AS s, max(v) AS m FROM t GROUP BY g",
    "pairs": "SELECT a.k, b.v FROM t AS a LEFT JOIN t AS b ON a.k + 1 = b.k AND a.g = b.g",
    "sizes": "SELECT c, count(*) AS n FROM totals GROUP BY c",
}


def put(store: Store, *keys: int, factor: int = 1) -> None:
    """Upsert rows whose values follow from their keys."""
    values = [key * factor for key in keys]
    groups = [None if key % 5 == 0 else f"g{key * factor % 3}" for key in keys]
    store.write("t", pa.table({"k": pa.array(keys, pa.int64()), "g": groups, "v": values}))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a store with a table of 40 rows."""
    path = str(tmp_path / "store")
    with Store.create(path, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
        put(store, *range(40))
    return path


@pytest.fixture
def followed(path: str, spark: SparkSession) -> Iterator[Database]:
    """The store with its views, behind by some changes."""
    with Store.open(path, environment=unsynced(path)) as store:
        db = Database(spark, store)
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        put(store, *range(30, 50), factor=2)
        store.delete("t", pa.table({"k": [1, 2, 3]}))
        yield db


def hold(db: Database, views: Sequence[str] = tuple(VIEWS)) -> None:
    """Fail unless views are their SELECTs over the latest rows, and their state and store whole."""
    state = db.store.state
    for name in views:
        table = db.store.table(name).to_arrow()
        expected = db.sql(VIEWS[name]).toArrow()
        found = rows_of_table(table.select(expected.column_names))
        assert difference(found, rows_of_table(expected)) == ([], []), name
        assert find_differences(db._views.runner, state.view(name).view_id) == []
    assert db.store.check().problems == ()


# Messages


def report(executors: tuple[int, ...], unit: int, started: int = 1) -> TaskReport:
    """Return the report of a task that wrote nothing."""
    return TaskReport(started, (), parts=executors, view_id=7, unit=unit)


def test_every_task_is_heard_once() -> None:
    """One message of each executor in each unit is what is wanted; the same one twice is one."""
    heard = [report((2,), 0), report((1,), 1), report((1,), 0), report((1,), 1)]

    found = complete_reports("v", heard, [(1, 2), (2, 1)])

    assert [(one.parts, one.unit) for one in found] == [((1,), 0), ((1,), 1), ((2,), 0)]


@pytest.mark.parametrize(
    "heard",
    [
        [],
        [report((1,), 0)],
        [report((1,), 0), report((1,), 1), report((1,), 1, started=2)],
        [report((1,), 0), report((1,), 1), report((1,), 2)],
        [report((1,), 0), report((1,), 1), report((2,), 0)],
        [report((1,), 0), report((1, 1), 1)],
    ],
)
def test_lost_and_doubled_messages_are_refused(heard: list[TaskReport]) -> None:
    """A task that nobody heard of, that said two things, or that there should not be."""
    with pytest.raises(errors.LostMessageError, match=r"executor (1|2) in unit"):
        complete_reports("v", heard, [(1, 2)])


@pytest.mark.parametrize("accident", ["lost", "twice"])
def test_a_stage_that_was_lost_or_ran_twice_is_not_committed(
    accident: str, followed: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh fails, nothing is committed, and the next one is right."""
    before = followed.store.epoch
    real = runner.report_frame

    class Unlucky:
        """The frame of messages, as it is after an accident."""

        def __init__(self, frame: Any) -> None:
            self._frame = frame

        def collect(self) -> list[Any]:
            """Return what is left of the messages, or one more."""
            rows = self._frame.collect()
            if accident == "lost":
                return list(rows[1:])
            again = replace(TaskReport.from_json(bytes(rows[0][0])), started=1)
            return [*rows, (again.to_json().encode(),)]

    monkeypatch.setattr(runner, "report_frame", lambda *args: Unlucky(real(*args)))
    with pytest.raises(errors.LostMessageError, match="nothing was committed"):
        followed.refresh()
    monkeypatch.undo()

    assert followed.store.epoch == before
    followed.refresh()
    hold(followed)


# Commits that fail


@pytest.mark.parametrize(
    ("fault", "at", "moves"),
    [
        ("crash_at", "write _log/*", False),
        ("crash_at", "link _log/*", False),
        ("crash_at", "sync _log", True),
        ("error_at", "write _log/*", False),
        ("lost_at", "link _log/*", True),
    ],
)
def test_a_commit_that_fails_is_whole_or_nothing(
    fault: str, at: str, moves: bool, followed: Database, spark: SparkSession
) -> None:
    """After a crash or an error in the commit of a refresh, all of it is there or nothing is."""
    store = followed.store
    before = {name: rows_of_table(store.table(name).to_arrow()) for name in VIEWS}
    epoch = store.epoch
    environment = FaultyEnvironment(store.path, **{fault: at})  # type: ignore[arg-type]
    unlucky = Database(spark, Store.open(store.path, environment=environment))

    with environment.crashing():
        try:
            unlucky.refresh()
        except (errors.RelstateError, OSError):
            assert fault == "error_at"

    assert environment.struck
    assert store.epoch == epoch + moves
    if moves:
        hold(followed)
    else:
        assert {name: rows_of_table(store.table(name).to_arrow()) for name in VIEWS} == before
    done = followed.refresh()
    assert bool(done.views) != moves
    hold(followed)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_who_dies_while_creating_a_view_leaves_all_of_it_or_none(
    at: int, path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dead right before and right after each commit of CREATE, the next refresh completes it."""
    count = 0

    def count_touches(touch: str) -> None:
        nonlocal count
        count += touch.startswith("link _log/") or touch == "sync _log"
        if count == at:
            environment._faults.crashed = True

    environment = FaultyEnvironment(path, before=count_touches)
    unlucky = Database(spark, Store.open(path, environment=environment))
    with environment.crashing():
        unlucky.sql(f"CREATE MATERIALIZED VIEW totals AS {VIEWS['totals']}")
    registry.close(path)

    with Store.open(path) as store:
        db = Database(spark, store)
        if store.state.views:
            db.refresh()
        db.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS totals AS {VIEWS['totals']}")
        hold(db, ["totals"])


# Others


def test_two_refreshers_and_a_writer_get_along(followed: Database, spark: SparkSession) -> None:
    """Two who refresh the same views at once, a writer all the while: every epoch is in once."""
    path = followed.store.path
    stopping = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        with Store.open(path, environment=unsynced(path)) as store:
            for number in range(1000):
                put(store, *range(number % 40, number % 40 + 8), factor=number)
                store.delete("t", pa.table({"k": [number % 37]}))
                if stopping.wait(0.03):
                    return

    def follow() -> None:
        views = Views(spark, Store.open(path, environment=unsynced(path)))
        try:
            while not stopping.is_set():
                views.refresh()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=target) for target in (write, follow, follow)]
    for thread in threads:
        thread.start()
    stopping.wait(4)
    stopping.set()
    for thread in threads:
        thread.join()

    assert failures == []
    refreshes = [one for one in followed.store.history() if one.operation == "refresh"]
    assert len(refreshes) > 2
    followed.refresh()
    hold(followed)


def test_a_view_that_is_dropped_while_it_is_refreshed_stays_dropped(
    followed: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh begins anew without it, and moves the others."""
    store = followed.store
    real = JobRunner.commit

    def dropped_first(self: JobRunner, *args: Any) -> Any:
        store.drop_view("sizes", if_exists=True)
        return real(self, *args)

    monkeypatch.setattr(JobRunner, "commit", dropped_first)
    done = followed.refresh()

    assert done.views == ("pairs", "totals")
    hold(followed, ["totals", "pairs"])


def test_a_view_that_is_rescaled_while_it_is_refreshed_is_right(
    followed: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh begins anew under the new mapping; no row is written by an owner of before."""
    other = relstate.connect(followed.spark, followed.store.path)
    real = JobRunner.commit

    def rescaled_first(self: JobRunner, *args: Any) -> Any:
        other.sql("ALTER MATERIALIZED VIEW totals SET PARALLELISM 5")
        return real(self, *args)

    monkeypatch.setattr(JobRunner, "commit", rescaled_first)
    followed.refresh()

    assert followed.store.view("totals").definition.mapping.units == 5
    hold(followed)
