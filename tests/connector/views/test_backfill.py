"""A view over rows that exist is populated in parts, by whichever process; then it follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.views import backfill, runner
from relstate.connector.views.job import JobOutput, ViewJob
from relstate.connector.views.position import Position
from relstate.connector.views.runner import JobRunner
from relstate.storage import Store, errors
from support.multisets import difference, rows_of_table
from support.stores import unsynced
from support.views import count_refreshes

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 64
TOTALS = "SELECT g, count(*) AS c, sum(v) AS s, max(v) AS m FROM t GROUP BY g"
PAIRS = "SELECT t.k, d.name FROM t FULL JOIN d ON t.g = d.g AND t.v > d.least"


class Interrupted(BaseException):
    """Like a KeyboardInterrupt, which pytest would take for its own."""


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A store of 16 vnodes and two tables, whose views are populated in parts of few rows."""
    for module in (backfill, runner):
        monkeypatch.setattr(module, "PART_ROWS", ROWS // 4)
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=16, shards=1, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
        store.create_table("d", "g STRING, name STRING, least INT", primary_key=["g"])
        put(store, *range(ROWS))
        names = [f"g{n}" for n in range(6)]
        store.write("d", pa.table({"g": names, "name": names, "least": range(6)}))
        yield Database(spark, store)
        assert store.check().problems == ()


def put(store: Store, *keys: int, factor: int = 1) -> None:
    """Upsert rows whose values follow from their keys."""
    values = [key * factor for key in keys]
    groups = [None if key % 9 == 0 else f"g{value % 5}" for key, value in zip(keys, values)]  # noqa: B905
    store.write("t", pa.table({"k": list(keys), "g": groups, "v": values}))


def hold(db: Database, name: str, query: str) -> None:
    """Fail unless a view equals its SELECT over the latest rows, and its state is theirs."""
    expected = db.sql(query).toArrow()
    rows = db.store.table(name).to_arrow().select(expected.column_names)
    assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], [])
    (report,) = db.check_views(name)
    assert report.ok, report


def interrupted(db: Database, at: int, statement: str) -> None:
    """Run a statement that is interrupted in part ``at`` of its backfill."""
    real, count = JobRunner.run, 0

    def failing(self: JobRunner, *args: Any) -> JobOutput:
        nonlocal count
        count += 1
        if count == at:
            raise Interrupted
        return real(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobRunner, "run", failing)
        with pytest.raises(Interrupted):
            db.sql(statement)


@pytest.mark.parametrize(("name", "query"), [("totals", TOTALS), ("pairs", PAIRS)])
def test_a_view_is_populated_in_parts(name: str, query: str, db: Database) -> None:
    """Each part is a commit; afterwards the view equals its SELECT, and follows its tables."""
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    assert count_refreshes(db.store) in (4, 5)
    hold(db, name, query)
    put(db.store, 1, 2, 3, factor=7)
    db.refresh()
    hold(db, name, query)


def test_an_interrupted_backfill_continues(db: Database) -> None:
    """Committed parts remain; rows written in between are taken in after them, once."""
    interrupted(db, 3, f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")

    assert count_refreshes(db.store) == 2
    (row,) = db.sql("SHOW MATERIALIZED VIEWS").collect()
    assert row.viewName == "totals"
    assert 0.3 < row.backfill < 0.7
    assert row.is_behind
    before = db.store.epoch
    for read in (
        "SELECT * FROM totals",
        "SELECT t.k FROM t JOIN totals ON t.g = totals.g",
        f"SELECT * FROM totals VERSION AS OF {before} WHERE g = 'g1'",
    ):
        with pytest.raises(errors.ViewNotPopulatedError, match="totals"):
            db.sql(read)
    with pytest.raises(errors.ViewNotPopulatedError, match="totals"):
        db.table("totals")

    put(db.store, *range(50, 80), factor=3)
    db.store.delete("t", pa.table({"k": [0, 1, 2, 40]}))
    done = db.refresh()

    assert done.views == ("totals",)
    (row,) = db.sql("SHOW MATERIALIZED VIEWS").collect()
    assert (row.backfill, row.is_behind, row.reflects) == (None, False, done.reflects)
    hold(db, "totals", TOTALS)
    with pytest.raises(errors.ViewNotPopulatedError, match="totals"):
        db.table("totals", version=before)


def test_another_database_may_continue(db: Database) -> None:
    """The store knows how far a backfill is; the parallelism may change in between."""
    interrupted(db, 2, f"CREATE MATERIALIZED VIEW pairs AS {PAIRS}")

    with Store.open(db.store.path) as store:
        second = Database(db.spark, store)
        second.sql("ALTER MATERIALIZED VIEW pairs SET PARALLELISM 3")
        second.refresh("pairs")
        hold(second, "pairs", PAIRS)


def test_two_processes_may_populate_one_view(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that loses the race for every part goes on; the view is populated once."""
    monkeypatch.setattr(backfill, "_ATTEMPTS", 2)
    with Store.open(db.store.path) as store:
        competitor, real = JobRunner(db.spark, store), JobRunner.commit

        def beaten(self: JobRunner, *args: Any) -> Any:
            if self is not competitor:
                backfill._populate_part(competitor, store.view("totals").view_id)
            return real(self, *args)

        monkeypatch.setattr(JobRunner, "commit", beaten)
        db.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")

        assert count_refreshes(store) in (4, 5)
        hold(db, "totals", TOTALS)


def test_a_view_over_views_populates_them_first(db: Database) -> None:
    """If neither is populated, creating the upper one populates the lower one first."""
    interrupted(db, 2, f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    query = "SELECT c, count(*) AS n, max(g) AS g FROM totals GROUP BY c"
    put(db.store, *range(5), factor=11)

    db.sql(f"CREATE MATERIALIZED VIEW sizes AS {query}")

    hold(db, "sizes", query)
    hold(db, "totals", TOTALS)


def test_a_backfill_that_fails_leaves_no_view(db: Database) -> None:
    """The error names what the SELECT cannot compute; neither the view nor its tables remain."""
    tables = set(db.store.state.tables)

    with pytest.raises(errors.RelstateError, match="DIVIDE_BY_ZERO"):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, 10 / (v - 33) AS q FROM t")

    assert db.store.state.view_names() == ()
    assert set(db.store.state.tables) == tables
    assert db.sql("SHOW MATERIALIZED VIEWS").count() == 0
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, 10 / (v + 33) AS q FROM t")
    hold(db, "v", "SELECT k, 10 / (v + 33) AS q FROM t")


def test_a_part_may_have_values_that_all_rows_do_not(db: Database) -> None:
    """An expression that fails over part of a group is computed over all rows at once."""
    query = f"SELECT 1000 DIV (count(*) - {ROWS // 4}) AS q FROM t"

    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")

    hold(db, "v", query)
    assert [report.problems for report in db.check_views("v")] == [()]


def test_the_error_names_the_view_that_cannot_be_populated(db: Database) -> None:
    """It is the view that fails, not the new view that reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobRunner, "commit", _interrupted)
        with pytest.raises(Interrupted):
            db.sql("CREATE MATERIALIZED VIEW below AS SELECT k, 10 / (v - 777) AS q FROM t")
    put(db.store, 777)
    db.store.write("t", pa.table({"k": [777], "g": ["a"], "v": [777]}))

    with pytest.raises(errors.ViewFailedError, match="view 'below' could not"):
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT k FROM below")
    assert db.store.state.view_names() == ("below",)
    with pytest.raises(errors.ViewFailedError, match="view 'below' could not"):
        db.refresh()


def test_what_was_read_is_kept_if_the_machines_fail(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CREATE drops the view if its query or a row fails; else the next refresh continues."""
    monkeypatch.setattr(backfill, "PART_ROWS", ROWS // 4)
    query = "SELECT g, count(*) AS c, sum(v) AS s FROM t GROUP BY g"
    run, parts = JobRunner._run_once, [0]

    def failing(*arguments: Any) -> Any:
        parts[0] += 1
        if parts[0] in (3, 4):
            raise RuntimeError("org.apache.spark.SparkException: a block was lost")
        return run(*arguments)

    monkeypatch.setattr(JobRunner, "_run_once", failing)
    with pytest.raises(errors.JobFailedError, match=r"'v' failed(?s:.*)the next refresh continues"):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    position = Position.from_json(db.store.view("v").progress.backfill)
    assert position.rows > 0
    parts[0] = 10
    db.refresh()

    hold(db, "v", query)
    failing_query = "SELECT k, 1 / (v - v) AS q FROM t"
    with pytest.raises(errors.ViewFailedError, match="the row with k = "):
        db.sql(f"CREATE MATERIALIZED VIEW w AS {failing_query}")
    assert db.store.state.view_names() == ("v",)


def test_what_the_machines_cannot_hold_is_tried_in_smaller_parts(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a backfill and of a refresh: in one commit each, and never as one whole again."""
    for module in (backfill, runner):
        monkeypatch.setattr(module, "PART_ROWS", ROWS // 2)
    run, tried = JobRunner._run_once, list[int]()

    def failing(self: JobRunner, job: ViewJob) -> Any:
        tried.append(job.rows)
        if job.rows > ROWS // 10:
            raise RuntimeError("java.lang.OutOfMemoryError: Java heap space")
        return run(self, job)

    query = "SELECT g, count(*) AS c, sum(v) AS s FROM t GROUP BY g"
    with monkeypatch.context() as patch:
        patch.setattr(JobRunner, "_run_once", failing)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    hold(db, "v", query)
    assert tried[0] > ROWS // 10
    assert tried.count(tried[0]) < len(tried) / 4
    tried.clear()
    put(db.store, *range(ROWS // 2 - 1), factor=2)
    epoch = db.store.epoch
    with monkeypatch.context() as patch:
        patch.setattr(JobRunner, "_run_once", failing)
        db.refresh()

    hold(db, "v", query)
    later = [entry.operation for entry in db.store.history() if entry.epoch > epoch]
    assert later.count("refresh") == 1
    assert tried[0] > ROWS // 10 >= max(tried[1:])


def _interrupted(*_: Any) -> Any:
    raise Interrupted


def test_a_view_over_empty_tables_is_populated_at_once(db: Database) -> None:
    """A global aggregate has its row."""
    db.store.create_table("e", "k INT, v INT", primary_key=["k"])
    for name, query in {
        "one": "SELECT count(*) AS c, max(v) AS m FROM e",
        "none": "SELECT k, v FROM e",
    }.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        hold(db, name, query)
