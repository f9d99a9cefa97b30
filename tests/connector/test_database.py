"""The laws of connecting to a store from a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.connector.figures.views import refreshes, view_page
from relstate.storage import Store
from relstate.storage.errors import NotAStoreError, SessionError, StoreNotFoundError
from support.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.mark.parametrize("rows", [0, -1])
def test_a_session_that_cannot_read_is_refused(
    spark: SparkSession, store: Store, rows: int
) -> None:
    """Under this setting Spark fails every read of a Python source without naming the cause."""
    spark.conf.set(BATCH_ROWS, rows)
    try:
        with pytest.raises(SessionError, match=f"{BATCH_ROWS} is {rows}"):
            relstate.connect(spark, store.path)
    finally:
        spark.conf.unset(BATCH_ROWS)
    assert relstate.connect(spark, store.path).store.path == store.path


def test_a_store_must_be_there(spark: SparkSession, tmp_path: Path) -> None:
    """Connecting to a missing store raises relstate's own error at once."""
    (tmp_path / "file").write_text("x")

    with pytest.raises(StoreNotFoundError):
        relstate.connect(spark, str(tmp_path / "nothing"))
    with pytest.raises(NotAStoreError):
        relstate.connect(spark, str(tmp_path))


def test_every_session_finds_the_source(spark: SparkSession, store: Store) -> None:
    """The format needs no call to register it, and its name is in any case."""
    store.create_table("t", "k INT", primary_key=["k"])
    session = spark.newSession()

    assert session.read.format("RelState").option("table", "t").load(store.path).count() == 0


def test_results_of_statements_need_no_job(spark: SparkSession, store: Store) -> None:
    """The few rows of a statement are the driver's: times, arrays and maps as they are."""
    db = relstate.connect(spark, store.path)
    before = jobs(spark)
    db.sql("CREATE TABLE t (k BIGINT, PRIMARY KEY (k)) TBLPROPERTIES ('a.b' = 'c')")
    (detail,) = db.sql("DESCRIBE DETAIL t").collect()
    newest, _ = db.history().collect()
    missing = db.sql("SHOW TABLES LIKE 'x*'").collect()

    assert jobs(spark) == before
    assert (detail.primaryKey, detail.properties["a.b"]) == (["k"], "c")
    assert newest.timestamp.timestamp() * 1e6 == pytest.approx(next(store.history()).time)
    assert missing == []


def test_a_refresh_leaves_its_figures(
    spark: SparkSession, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has what it did and how long, metrics have it by name, and logging tells of it."""
    db = relstate.connect(spark, store.path)
    db.sql("CREATE TABLE t (k BIGINT, n BIGINT, PRIMARY KEY (k))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
    with caplog.at_level("INFO", "relstate"):
        for number in (1, 2):
            db.sql(f"INSERT INTO t VALUES ({number}, 7), ({number + 10}, 8)")
            db.refresh()

    view = store.view("v")
    last, previous = list(refreshes(store, view))
    assert last.epoch == store.epoch
    assert (last.figures.rows_in, last.figures.rows_out) == (2, 2)
    assert last.figures.running > 0
    assert last.total >= last.figures.running + last.figures.planning > 0
    assert previous.epoch < last.epoch
    page = view_page(store, store.state, "v")
    assert page.problem is None
    assert [size.entries for size in page.sizes.values()] == [4, 4]
    metrics = db.metrics()
    assert metrics['relstate_view_lag_epochs{view="v"}'] == 0
    assert metrics['relstate_view_last_refresh_running_seconds{view="v"}'] > 0
    told = [record.message for record in caplog.records if "refreshed view v" in record.message]
    assert len(told) == 2
    assert f"refreshed view v in epoch {store.epoch}: 2 changes" in told[-1]
