"""What users write, for type checkers alone: the types that they see are those that they get.

`make typecheck` checks it by `mypy --strict`; it is not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_type

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import relstate
from relstate import Database, Row, Store, ViewStream
from relstate.storage import Table


def rows_of(path: str) -> Iterator[int]:
    """Read and write without Spark."""
    with relstate.create(path) as store:
        assert_type(store, Store)
        table = store.create_table("t", "k INT, v STRING", primary_key=["k"])
        assert_type(table, Table)
        assert_type(store.write("t", [{"k": 1, "v": "a"}]), int)
        assert_type(store.write("t", pa.table({"k": [2], "v": ["b"]})), int)
        row = table.get(1)
        assert_type(row, Row | None)
        if row is not None:
            assert_type(row.v, Any)
            assert_type(row.as_dict(), dict[str, Any])
        assert_type(table.count(), int)
        assert_type(store.epoch, int)
        assert_type(store.at(store.epoch).table("t").get(1), Row | None)
        assert_type(store.check().ok, bool)
        assert_type(store.vacuum(dry_run=True).files, int)
        yield table.to_arrow().num_rows


def refreshed(spark: SparkSession, path: str, args: Mapping[str, int]) -> DataFrame:
    """Use a store in a session."""
    db = relstate.connect(spark, path)
    assert_type(db, Database)
    assert_type(db.store, Store)
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    db.refresh()
    stream = db.stream()
    assert_type(stream, ViewStream)
    stream.stop()
    assert_type([report.ok for report in db.check_views()], list[bool])
    return db.sql("SELECT * FROM t WHERE k = :k", {**args})


def mistaken(store: Store) -> None:
    """Mistakes that a type checker finds: an ignore that is not needed would be an error."""
    store.write(1, [])  # type: ignore[arg-type]
    store.create_table("t", "k INT", primary_key=1)  # type: ignore[arg-type]
    store.table("t").got(1)  # type: ignore[attr-defined]
    store.epoch.upper()  # type: ignore[attr-defined]
