"""CHECK constraints of expressions hold whichever way Spark writes rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from relstate.storage import Store
from relstate.storage.errors import CheckViolationError
from support.spark import save, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

COLUMNS = "k INT, code STRING, low INT, high INT"
MERGE = "MERGE INTO t USING (SELECT 1 AS k, 'öff' AS code) s ON t.k = s.k"
STATEMENTS = [
    ("INSERT INTO t VALUES (2, 'ab', 1, 2), (3, 'abc', 1, 2)", "'coded'"),
    ("INSERT INTO t SELECT k + 1, code, 0, 2147483647 FROM t", "'wide'.*overflows its type"),
    ("UPDATE t SET code = code || '😀'", "'coded'"),
    ("UPDATE t SET high = low", "'wide'"),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET code = s.code", "'coded'"),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET high = -low", "'wide'"),
]


def test_every_door_of_spark_obeys_a_constraint(
    spark: SparkSession, db: Database, store: Store, tmp_path: Path
) -> None:
    """Nothing of a statement, a DataFrame or a micro-batch is written where a row violates it."""
    db.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, code STRING, low INT, high INT, "
        "CONSTRAINT coded CHECK (length(code) = 2), CONSTRAINT wide CHECK (high + 1 > low + 1))"
    )
    db.sql("INSERT INTO t VALUES (1, 'é😀', 1, 2)")
    epoch = store.epoch

    for statement, reason in STATEMENTS:
        with pytest.raises(CheckViolationError, match=reason):
            db.sql(statement)
    rows = spark.createDataFrame([(2, "ab", 1, 2), (3, "a", 1, 2)], COLUMNS).coalesce(1)
    with pytest.raises(Exception, match="violates the constraint 'coded'"):
        save(rows, store, "t")
    rows.write.json(str(tmp_path / "rows"))
    stream = spark.readStream.schema(COLUMNS).json(str(tmp_path / "rows"))
    writer = stream.writeStream.format("relstate").option("path", store.path).option("table", "t")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="violates the constraint 'coded'"):
        query.awaitTermination()

    assert store.epoch == epoch
    assert sorted_rows(store, "t") == [(1, "é😀", 1, 2)]
    save(rows.filter("k = 2"), store, "t")
    assert len(sorted_rows(store, "t")) == 2
