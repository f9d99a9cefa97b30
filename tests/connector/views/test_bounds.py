"""Refreshes that would read much of their state are given up, and the view is computed in full.

So a change that affects most rows, as an early one of a running sum, costs no more than twice what
the whole view costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.task_report import TaskReport
from relstate.connector.views import full_refresh, local_run, runner
from relstate.connector.views.bounds import RowBudget, StateBoundError
from relstate.connector.views.frame import report_frame
from relstate.connector.views.job import ViewJob
from relstate.connector.views.rebuild import find_differences
from relstate.storage import Store
from support.local import IN_JOB, local_rows
from support.multisets import difference, rows_of_table
from support.stores import unsynced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400
CREATE = "CREATE MATERIALIZED VIEW viewed TBLPROPERTIES ('parallelism' = '4') AS"
RUNNING = "SELECT k, g, sum(v) OVER (ORDER BY k) AS s FROM t"
VIEWS = {
    "one partition": RUNNING,
    "a fragment before it": "SELECT place, sum(n) OVER (ORDER BY place) AS s FROM "
    "(SELECT abs(k) AS place, sum(v) AS n FROM t GROUP BY abs(k))",
    "fragments after it": f"SELECT g, max(s) AS high, count(*) AS n FROM ({RUNNING}) GROUP BY g",
    "most in one partition": "SELECT k, sum(v) OVER (PARTITION BY one ORDER BY k) AS s FROM t",
    "an expression after these": f"SELECT g, max(s) + 1 AS high FROM ({RUNNING}) GROUP BY g",
    "sessions": "SELECT early, session_window.start AS start, count(*) AS n "
    "FROM (SELECT k < 350 AS early, timestamp_seconds(k * 40 + k % 3 * 30) AS at FROM t) "
    "GROUP BY early, session_window(at, '1 minute')",
    "pairs": "SELECT k, name FROM t JOIN names ON one = id",
    "counted pairs": "SELECT name, count(*) AS n FROM t JOIN names ON one = id GROUP BY name",
}


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A store with a table of 400 rows, of which a task may read few."""
    monkeypatch.setattr(full_refresh, "LEAST_STATE_ROWS", 20)
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=8, shards=2, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g INT, one INT, v BIGINT", primary_key=["k"])
        store.create_table("names", "id INT, name STRING", primary_key=["id"])
        store.write("names", [{"id": number, "name": "a"} for number in range(10)])
        put(store, *range(ROWS))
        yield Database(spark, store)
        assert store.check().problems == ()


def put(store: Store, *keys: int, value: int = 1) -> None:
    """Upsert rows in one epoch."""
    rows = {"k": keys, "g": [k % 7 for k in keys], "one": [1] * len(keys), "v": [value] * len(keys)}
    store.write("t", pa.table(rows))


def hold(db: Database, query: str) -> None:
    """Fail unless the view equals its SELECT, its state is right, and commits named all files."""
    expected = db.sql(query).toArrow()
    rows = db.store.table("viewed").to_arrow().select(expected.column_names)
    assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], [])
    assert find_differences(db._views.runner, db.store.state.view("viewed").view_id) == []
    files = {file.stem for file in Path(db.store.path, "segments").iterdir()}
    assert files == {record.name for entry in db.store.history() for record in entry.added}


@pytest.mark.parametrize("name", VIEWS)
def test_a_job_that_reads_much_state_is_given_up(db: Database, name: str) -> None:
    """One that reads little is not; what its tasks have written by then is removed."""
    query = VIEWS[name]
    db.sql(f"{CREATE} {query}")

    with local_rows(IN_JOB, may_be_full=True):
        put(db.store, ROWS)
        assert db.refresh().full == ()
        hold(db, query)
        put(db.store, 0, 1, 2, value=5)
        db.store.write("names", [{"id": 1, "name": "b"}])
        assert db.refresh().full == ("viewed",)
        hold(db, query)


def test_the_tasks_after_one_that_gives_up_do_nothing(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every unit, also if it would get rows of tasks that have not given up."""
    reports: list[TaskReport] = []
    from_json = TaskReport.from_json

    def noted(text: str | bytes) -> TaskReport:
        reports.append(from_json(text))
        return reports[-1]

    db.sql(f"{CREATE} {VIEWS['fragments after it']}")
    put(db.store, 0, 1, 2, value=5)
    monkeypatch.setattr(TaskReport, "from_json", noted)
    with local_rows(IN_JOB, may_be_full=True):
        assert db.refresh().full == ("viewed",)

    last = max(number for report in reports for number in report.parts)
    units = {report.unit for report in reports if report.given_up and last in report.parts}
    assert units == {0, 1, 2, 3}


def test_a_run_in_the_driver_that_reads_much_state_is_not_begun_again_by_tasks(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a full refresh has not many more rows to read than it has read; else tasks go on."""
    monkeypatch.setattr(local_run, "STATE_ROWS", 30)
    monkeypatch.setattr(runner, "STATE_ROWS", 30)
    jobs: list[ViewJob] = []

    def noted(job: ViewJob, session: SparkSession) -> object:
        jobs.append(job)
        return report_frame(job, session)

    monkeypatch.setattr(runner, "report_frame", noted)
    db.sql(f"{CREATE} {RUNNING}")
    for least, is_full in ((20, True), (10 * ROWS, False)):
        monkeypatch.setattr(full_refresh, "LEAST_STATE_ROWS", least)
        put(db.store, 1, value=least)
        refreshed = db.refresh()
        # All rows are few enough for the driver, too.
        assert (len(jobs), refreshed.local) == ((0, ("viewed",)) if is_full else (1, ()))
        assert refreshed.full == (("viewed",) if is_full else ())
        hold(db, RUNNING)


def test_a_full_refresh_that_fails_leaves_the_changes_to_be_processed(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as much state as that takes."""
    db.sql(f"{CREATE} {RUNNING}")
    put(db.store, 0, value=5)

    def fail(*_: object) -> None:
        raise RuntimeError("an accident")

    monkeypatch.setattr(runner.JobRunner, "_run_full", fail)
    with local_rows(IN_JOB, may_be_full=True):
        assert db.refresh().full == ()
    hold(db, RUNNING)


@pytest.mark.parametrize(
    ("query", "units", "most"),
    [
        (VIEWS["pairs"], 1, 2000),
        (VIEWS["pairs"], 2, 1000),
        (VIEWS["pairs"], 9, 500),
        (RUNNING, 9, 125),
    ],
)
def test_a_task_may_read_twice_its_share_of_the_rows(
    db: Database, query: str, units: int, most: int
) -> None:
    """But half of all, as one group may have them; where it has all rows, an eighth."""
    db.sql(f"{CREATE} {query}")
    db.sql(f"ALTER MATERIALIZED VIEW viewed SET PARALLELISM {min(units, 8)}")
    state = db.store.state
    job = db._views.runner.job(state, state.view("viewed").view_id, ())

    assert full_refresh.most_state_rows(job, 1000, 1000) == most


def test_a_budget_ends_with_the_row_after_its_last() -> None:
    """As many rows as it has may be read, in any portions."""
    budget = RowBudget(5)
    budget.spend(2)
    budget.spend(3)
    with pytest.raises(StateBoundError):
        budget.spend(1)
