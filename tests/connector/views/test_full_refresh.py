"""Full refreshes: views computed from all rows of their inputs, of which the difference is written.

The laws of views hold for them, and who follows a view cannot tell them from other refreshes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.views import refresh, runner
from relstate.connector.views.frame import report_frame
from relstate.connector.views.rebuild import find_differences
from relstate.storage import Store
from support.case_run import run_case
from support.local import IN_JOB, local_rows
from support.multisets import difference, rows_of_table
from support.stores import unsynced

from .test_windows import window_case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.views.job import ViewJob
    from relstate.connector.views.refresh import Refreshed
    from support.examples import Seeds

ROWS = 400
VIEWS = {
    "sums": "SELECT k, sum(v) OVER (PARTITION BY g ORDER BY k) AS s FROM t",
    "extremes": "SELECT g, min(v) AS low, max(v) AS high FROM t GROUP BY g",
    "totals": "SELECT g, count(*) AS n FROM t GROUP BY g",
}


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    """A store with a table of 400 rows, whose views are refreshed by jobs."""
    path = str(tmp_path / "store")
    with (
        Store.create(path, vnode_count=8, shards=2, environment=unsynced(path)) as store,
        local_rows(IN_JOB, may_be_full=True),
    ):
        store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
        put(store, *range(ROWS))
        yield Database(spark, store)
        assert store.check().problems == ()


def put(store: Store, *keys: int, factor: int = 1) -> None:
    """Upsert rows in one epoch."""
    rows = {"k": keys, "g": [f"g{k % 20}" for k in keys], "v": [k * factor % 101 for k in keys]}
    store.write("t", pa.table(rows))


def create(db: Database, *names: str) -> None:
    """Create views."""
    for name in names:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def hold(db: Database, **views: str) -> None:
    """Fail unless views equal their SELECTs, and their state what their inputs make of it."""
    for name, query in views.items():
        expected = db.sql(query).toArrow()
        rows = db.store.table(name).to_arrow().select(expected.column_names)
        assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], []), name
        assert find_differences(db._views.runner, db.store.state.view(name).view_id) == []


def refresh_in_full(db: Database) -> Refreshed:
    """Refresh, in full whatever has changed."""
    with patch.object(refresh, "pays_off", lambda *_: True):
        return db.refresh()


def test_a_full_refresh_is_chosen_by_the_share_of_rows_that_changed(db: Database) -> None:
    """Of windows from 1 in 20 on, of others from 1 in 3 on; of a join what of an input changed."""
    create(db, *VIEWS)
    full = []
    for count in (15, 30, 120, 150):
        # Older versions count as rows: they are read, too.
        db.store.compact("t")
        put(db.store, *range(count), factor=count)
        full.append(db.refresh().full)
        hold(db, **VIEWS)
    assert full == [(), ("sums",), ("sums",), ("extremes", "sums", "totals")]
    with local_rows(4 * ROWS, may_be_full=True):
        put(db.store, *range(ROWS), factor=7)
        assert db.refresh().full == ()


def test_of_a_join_the_input_counts_of_which_most_has_changed(db: Database) -> None:
    """Each of its rows changes all of its pairs, although the other input has many more rows."""
    db.store.create_table("names", "g STRING, name STRING", primary_key=["g"])
    for factor, expected in ((1, ()), (2, ("named",))):
        db.store.write("names", pa.table({"g": ["g1", "g2"], "name": [str(factor)] * 2}))
        if factor == 1:
            query = "SELECT k, name FROM t JOIN names ON t.g = names.g"
            db.sql(f"CREATE MATERIALIZED VIEW named AS {query}")
            put(db.store, *range(9), factor=3)
        assert db.refresh().full == expected
        hold(db, named=query)
    (shown,) = db.sql("EXPLAIN MATERIALIZED VIEW named").collect()[0]
    assert "in full, from all rows, after changes of more than 1 in 3 rows of an input," in shown


def test_one_task_gets_no_more_rows_than_of_a_part(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all rows are in one unit, their changes are processed, part by part."""
    monkeypatch.setattr(refresh, "PART_ROWS", ROWS - 1)
    query = "SELECT count(*) AS n, max(v) AS high FROM t"
    db.sql(f"CREATE MATERIALIZED VIEW one AS {query}")
    create(db, "extremes")
    db.store.compact("t")
    put(db.store, *range(200), factor=3)
    assert db.refresh().full == ("extremes",)
    hold(db, one=query, extremes=VIEWS["extremes"])


def test_a_full_refresh_writes_what_differs(db: Database) -> None:
    """The view's rows that are as before are not among its changes, and deleted ones are."""
    create(db, *VIEWS)
    db.sql("DELETE FROM t WHERE k IN (390, 391)")
    put(db.store, 380, factor=2)
    before = db.store.epoch
    refreshed = refresh_in_full(db)
    assert refreshed.full == tuple(sorted(VIEWS))
    assert refreshed.rows == 3 * len(VIEWS)
    changes = [row for batch in db.store.changes("sums", before + 1) for row in batch.to_pylist()]
    assert {change["k"] for change in changes} == {380, 390, 391}
    assert db.store.check().orphans == 0
    hold(db, **VIEWS)

    put(db.store, 7, 390, factor=5)
    assert db.refresh().full == ()
    hold(db, **VIEWS)


def test_a_full_refresh_is_said_to_be_one(db: Database) -> None:
    """In the figures of the view, and in what EXPLAIN shows of it."""
    create(db, "sums", "totals")
    db.store.compact("t")
    put(db.store, *range(100), factor=3)
    db.refresh()
    views = db.store.state.views
    for name, is_full in (("sums", True), ("totals", False)):
        record = views[db.store.state.view(name).view_id].progress.last_refresh
        assert record is not None
        assert record.figures.is_full == is_full
    (shown,) = db.sql("EXPLAIN MATERIALIZED VIEW sums").collect()[0]
    assert "in full, from all rows, after changes of more than 1 in 20 rows of its inputs," in shown
    db.sql(
        "CREATE MATERIALIZED VIEW careful TBLPROPERTIES ('on_error' = 'quarantine') AS "
        + VIEWS["sums"]
    )
    (shown,) = db.sql("EXPLAIN MATERIALIZED VIEW careful").collect()[0]
    assert "in full" not in shown


def test_views_over_a_view_take_in_the_difference(db: Database) -> None:
    """In the same refresh; they follow what it writes, and are not refreshed in full."""
    create(db, "sums")
    over = "SELECT g, max(s) AS s FROM sums JOIN t ON sums.k = t.k GROUP BY g"
    db.sql(f"CREATE MATERIALIZED VIEW greatest AS {over}")
    put(db.store, *range(100, 300), factor=9)
    assert refresh_in_full(db).full == ("sums",)
    hold(db, sums=VIEWS["sums"], greatest=over)


def test_what_fails_in_full_is_refreshed_by_its_changes(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no file of the attempt remains."""

    def fails(view_job: ViewJob, session: SparkSession) -> DataFrame:
        if view_job.is_full:
            raise RuntimeError("a worker was lost")
        return report_frame(view_job, session)

    monkeypatch.setattr(runner, "report_frame", fails)
    create(db, *VIEWS)
    put(db.store, *range(300), factor=3)
    refreshed = refresh_in_full(db)
    assert refreshed.views == tuple(sorted(VIEWS))
    assert refreshed.full == ()
    hold(db, **VIEWS)
    assert db.store.check().orphans == 0


@pytest.mark.timeout(900)
def test_a_view_that_is_refreshed_in_full_equals_its_select(
    spark: SparkSession, seeds: Seeds
) -> None:
    """Of windows over random tables, in parts and at once, between other refreshes."""
    for seed in seeds(1):
        case = replace(window_case(seed, views=6), local_rows=IN_JOB, is_full=True)
        outcome = run_case(spark, case)
        assert outcome.failures == {}, seed
        assert len(outcome.correct) > 2, outcome
