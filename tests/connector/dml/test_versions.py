"""Rows without their version: every way of writing refuses them, where it did nothing before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.files.file_format import FileFormat
from relstate.connector.files.loading import RowFile, load_files
from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import SchemaMismatchError
from support.spark import sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MISSING = "the version column 'v' is missing"


@pytest.fixture
def versions(db: Database) -> str:
    """The name of a table with a version column and a row."""
    db.sql(
        "CREATE TABLE ver (id INT PRIMARY KEY, x INT, v INT) TBLPROPERTIES ('version_column' = 'v')"
    )
    db.sql("INSERT INTO ver VALUES (1, 1, 10)")
    return "ver"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO ver (id, x) VALUES (1, 3)",
        "INSERT INTO ver BY NAME SELECT 1 AS id, 3 AS x",
        "INSERT OVERWRITE ver (id, x) VALUES (1, 3)",
        (
            "MERGE INTO ver USING (VALUES (1, 3)) s(k, x) ON ver.id = s.k AND ver.x = 9 "
            "WHEN NOT MATCHED THEN INSERT (id, x) VALUES (k, s.x)"
        ),
    ],
)
def test_a_statement_gives_the_version(
    db: Database, store: Store, versions: str, statement: str
) -> None:
    """INSERT and the INSERT of MERGE are refused if they leave it out; NULL may be written."""
    epoch = store.epoch
    with pytest.raises(SchemaMismatchError, match=MISSING):
        db.sql(statement)
    assert store.epoch == epoch

    db.sql("INSERT INTO ver VALUES (1, 4, NULL), (2, 4, NULL)")
    db.sql("UPDATE ver SET x = 5 WHERE id = 1")
    db.sql("UPDATE ver SET x = 6 WHERE id = 2")
    assert sorted_rows(store, versions) == [(1, 5, 10), (2, 6, None)]


def test_a_data_frame_gives_the_version(
    db: Database, store: Store, spark: SparkSession, versions: str, tmp_path: Path
) -> None:
    """Writes of batches, of streams and by `db.write`; no schema is merged for what is refused."""
    frame = spark.createDataFrame([(1, 3, "n")], "id INT, x INT, note STRING")
    epoch, columns = store.epoch, len(store.table(versions).schema.columns)
    options = {"path": store.path, "table": versions}
    writer = frame.drop("note").write.format("relstate").options(**options).mode("append")
    with pytest.raises(Exception, match=MISSING):
        writer.save()
    merging = frame.write.format("relstate").options(**options, mergeSchema="true").mode("append")
    with pytest.raises(Exception, match=MISSING):
        merging.save()
    with pytest.raises(SchemaMismatchError, match=MISSING):
        db.write(frame.drop("note"), versions)
    with pytest.raises(Exception, match=MISSING):
        _stream_to(spark, options, str(tmp_path / "checkpoint"))
    assert (store.epoch, len(store.table(versions).schema.columns)) == (epoch, columns)


def _stream_to(spark: SparkSession, options: dict[str, str], checkpoint: str) -> None:
    rates: DataFrame = spark.readStream.format("rate").load().selectExpr("1 AS id", "3 AS x")
    writer = rates.writeStream.format("relstate").options(**options)
    query = writer.option("checkpointLocation", checkpoint).trigger(once=True).start()
    query.awaitTermination()


@pytest.mark.parametrize("name", ["rows.json", "rows.csv"])
def test_a_file_gives_the_version(
    db: Database, store: Store, versions: str, tmp_path: Path, name: str
) -> None:
    """Also if only some objects of a JSON file lack it."""
    texts = {
        "rows.json": '{"id": 2, "x": 2, "v": 1}\n{"id": 1, "x": 3}\n{"id": 3, "x": 2, "v": 1}\n',
        "rows.csv": "id,x\n1,3\n",
    }
    (tmp_path / name).write_text(texts[name])
    file_format = FileFormat.JSON if name == "rows.json" else FileFormat.CSV
    progress: Any = lambda done, total: None  # noqa: E731
    with pytest.raises(SchemaMismatchError, match=MISSING):
        load_files(store, versions, [RowFile(str(tmp_path / name), file_format)], progress)
    assert sorted_rows(store, versions) == [(1, 1, 10)]


def test_a_default_is_the_version(db: Database, store: Store) -> None:
    """A column that has one may be left out, also by a MERGE."""
    db.sql(
        "CREATE TABLE d (id INT PRIMARY KEY, x INT, v INT DEFAULT 7) "
        "TBLPROPERTIES ('version_column' = 'v')"
    )
    db.sql("INSERT INTO d VALUES (1, 1, 6), (2, 2, 8)")
    db.sql("INSERT INTO d (id, x) VALUES (1, 5), (2, 5)")
    db.sql(
        "MERGE INTO d USING (VALUES (3)) s(k) ON d.id = s.k "
        "WHEN NOT MATCHED THEN INSERT (id, x) VALUES (k, 5)"
    )

    assert sorted_rows(store, "d") == [(1, 5, 7), (2, 2, 8), (3, 5, 7)]
