"""The laws of connecting to a store from a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.storage import Store
from relstate.storage.errors import NotAStoreError, SessionError, StoreNotFoundError

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
