"""State, rows and progress of views are committed together, once, whatever fails or races."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import relstate
from relstate.connector.sql import Database
from relstate.connector.task_report import TaskReport
from relstate.connector.views import local_run, runner
from relstate.connector.views.frame import report_frame
from relstate.connector.views.job import complete_reports
from relstate.connector.views.rebuild import find_differences
from relstate.connector.views.runner import JobRunner
from relstate.connector.views.views import Views
from relstate.storage import Store, errors
from relstate.storage.segment.registry import registry
from support.faulty_environment import FaultyEnvironment, failing
from support.multisets import difference, rows_of_table
from support.stores import unsynced
from support.views import count_refreshes

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
    """The store with its views, which have changes to take in."""
    with Store.open(path, environment=unsynced(path)) as store:
        db = Database(spark, store)
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        put(store, *range(30, 50), factor=2)
        store.delete("t", pa.table({"k": [1, 2, 3]}))
        yield db


def hold(db: Database, views: Sequence[str] = tuple(VIEWS)) -> None:
    """Fail unless views equal their SELECTs over the latest rows, and state and store are sound."""
    state = db.store.state
    for name in views:
        table = db.store.table(name).to_arrow()
        expected = db.sql(VIEWS[name]).toArrow()
        rows = rows_of_table(table.select(expected.column_names))
        assert difference(rows, rows_of_table(expected)) == ([], []), name
        assert find_differences(db._views.runner, state.view(name).view_id) == []
    assert db.store.check().problems == ()


# Reports


def report(executors: tuple[int, ...], unit: int, started: int = 1) -> TaskReport:
    """Return the report of a task that wrote nothing."""
    return TaskReport(started, (), parts=executors, view_id=7, unit=unit)


def test_every_report_counts_once() -> None:
    """Each executor reports once from each unit; the same report twice counts as one."""
    reports = [report((2,), 0), report((1,), 1), report((1,), 0), report((1,), 1)]

    complete = complete_reports("v", reports, [(1, 2), (2, 1)])

    assert [(report.parts, report.unit) for report in complete] == [((1,), 0), ((1,), 1), ((2,), 0)]


@pytest.mark.parametrize(
    "reports",
    [
        [],
        [report((1,), 0)],
        [report((1,), 0), report((1,), 1), report((1,), 1, started=2)],
        [report((1,), 0), report((1,), 1), report((1,), 2)],
        [report((1,), 0), report((1,), 1), report((2,), 0)],
        [report((1,), 0), report((1, 1), 1)],
    ],
)
def test_lost_and_doubled_reports_are_refused(reports: list[TaskReport]) -> None:
    """A missing report, two different ones of one task, or one of a task that does not exist."""
    with pytest.raises(errors.LostMessageError, match=r"executor (1|2) in unit"):
        complete_reports("v", reports, [(1, 2)])


@pytest.mark.parametrize("accident", ["lost", "twice"])
def test_a_stage_that_was_lost_or_ran_twice_is_not_committed(
    accident: str, followed: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh fails, nothing is committed, and the next refresh is right."""
    before = followed.store.epoch
    monkeypatch.setattr(local_run, "LOCAL_ROWS", -1)

    class Unlucky:
        """The frame of reports after an accident."""

        def __init__(self, frame: Any) -> None:
            self._frame = frame

        def collect(self) -> list[Any]:
            """Return the reports that are left, or one more."""
            rows = self._frame.collect()
            if accident == "lost":
                return list(rows[1:])
            again = replace(TaskReport.from_json(bytes(rows[0][0])), started=1)
            return [*rows, (again.to_json().encode(),)]

    monkeypatch.setattr(runner, "report_frame", lambda *args: Unlucky(report_frame(*args)))
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
    """After a crash or an error in the commit of a refresh, all of it is committed or nothing."""
    store = followed.store
    before = {name: rows_of_table(store.table(name).to_arrow()) for name in VIEWS}
    epoch = store.epoch
    environment = failing(store.path, fault, at)
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
def test_a_crash_in_create_leaves_a_whole_view_or_none(
    at: int, path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash just before or after each commit of CREATE, the next refresh completes it."""
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


# Other processes


def test_two_refreshing_processes_and_a_writer(followed: Database, spark: SparkSession) -> None:
    """Two refresh the same views while one writes: every epoch is taken in once."""
    path = followed.store.path
    stopping = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        with Store.open(path, environment=unsynced(path)) as store:
            for number in count():
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
    before = count_refreshes(followed.store)
    while count_refreshes(followed.store) < before + 5 and not failures:
        time.sleep(0.05)
    stopping.set()
    for thread in threads:
        thread.join()

    assert failures == []
    followed.refresh()
    hold(followed)


def test_a_view_that_is_dropped_while_it_is_refreshed_stays_dropped(
    followed: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh starts again without it, and moves the other views."""
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
    """The refresh starts again under the new mapping; no former owner of a vnode writes rows."""
    second = relstate.connect(followed.spark, followed.store.path)
    real = JobRunner.commit

    def rescaled_first(self: JobRunner, *args: Any) -> Any:
        second.sql("ALTER MATERIALIZED VIEW totals SET PARALLELISM 5")
        return real(self, *args)

    monkeypatch.setattr(JobRunner, "commit", rescaled_first)
    followed.refresh()

    assert followed.store.view("totals").definition.mapping.units == 5
    hold(followed)
