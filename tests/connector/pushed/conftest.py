"""What the tests of aggregates and limits near the data share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import relstate
from relstate.connector.sql import driver_aggregate, planned_query
from relstate.storage import Store
from relstate.storage.table import keyorder
from support.pushed import COLUMNS, TABLES, random_row
from support.stores import unsynced, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Tables of each kind, changed in several epochs; Spark has views of the same names."""
    path = str(tmp_path_factory.mktemp("pushed") / "store")
    chance = random.Random(5)
    with Store.create(path, environment=unsynced(path)) as store:
        options: dict[str, dict[str, Any]] = {
            "plain": {"primary_key": ["k"]},
            "merged": {"primary_key": ["k"], "merge": "partial"},
            "documents": {"primary_key": ["k"], "encoding": "document"},
            "keyless": {},
        }
        db = relstate.connect(spark, path)
        for table in TABLES:
            store.create_table(table, COLUMNS, **options[table])
        # Without a primary key, rows are stored by a row id, which a store writes itself.
        for start in (0, 100, 50):
            rows = [random_row(chance, key) for key in range(start, start + 150)]
            for table in TABLES[:3]:
                upsert(store, table, rows)
            frame = spark.createDataFrame(rows, COLUMNS)
            db.write(frame, "keyless")
        db.sql("DELETE FROM plain WHERE k % 7 = 0")
        for table in TABLES:
            whole = spark.createDataFrame(db.table(table).toArrow(), db.table(table).schema)
            whole.createOrReplaceTempView(table)
        yield db
    for table in TABLES:
        spark.catalog.dropTempView(table)


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no table be small, and the driver add nothing up."""
    monkeypatch.setattr(planned_query, "DRIVER_BYTES", -1)
    monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", -1)
    monkeypatch.setattr(keyorder, "_FIRST_SHARE", 1e6)


@pytest.fixture
def on_driver(in_tasks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no table be small, and the driver add up all."""
    monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", 1 << 40)
