"""Spark on a store in a bucket: options reach the tasks, and nothing shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import relstate
from support.object_stores import SECRET, s3_options, s3_server


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the endpoint of a server with the bucket ``shop``."""
    with s3_server(tmp_path_factory.mktemp("moto")) as endpoint:
        yield endpoint


def test_spark_works_on_an_object_store(
    spark: SparkSession, endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By load and save with options ``storage.*``, and by db with those of `connect`."""
    path, options = "s3://shop/sp ark", s3_options(endpoint, tmp_path / "cache")
    store = relstate.create(path, storage_options=options)
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    spark_options = {f"storage.{name}": value for name, value in options.items()}
    rows = spark.range(5000).selectExpr("id", "repeat(cast(id AS STRING), 20) AS v")

    rows.write.format("relstate").mode("append").options(table="t", **spark_options).save(path)
    read = spark.read.format("relstate").options(table="t", **spark_options).load(path)

    assert read.where("v IS NOT NULL").count() == 5000
    read.explain("extended")
    db = relstate.connect(spark, path, storage_options=options)
    db.sql("UPDATE t SET v = 'x' WHERE id % 2 = 0")
    db.sql("CREATE MATERIALIZED VIEW counts AS SELECT v, count(*) AS n FROM t GROUP BY v")
    view = db.sql("SELECT n FROM counts WHERE v = 'x'")
    assert [row.n for row in view.collect()] == [2500]
    view.explain("extended")
    db.table("t").explain("extended")
    db.maintain("t")
    assert db.table("t").where("v = 'x'").count() == 2500
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err + repr(db) + repr(store)
