"""MERGE through Spark over real files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import (
    DuplicateKeyError,
)
from support.spark import configured, count_changes, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_merge_of_one_row_runs_few_tasks(spark: SparkSession, db: Database, items: str) -> None:
    """It runs few tasks under Spark's default of 200 shuffle partitions, too."""
    settings = {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"}
    context, tracker = spark.sparkContext, spark.sparkContext.statusTracker()
    merge = (
        "MERGE INTO items t USING (SELECT 1L AS id, 'z' AS name, 5 AS n) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    with configured(spark, settings):
        context.setJobGroup("one row", "a merge")
        try:
            db.sql(merge)
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup("one row")]
    stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
    assert sum(stage.numCompletedTasks for stage in stages if stage is not None) < 50


def test_a_merge_updates_deletes_and_inserts(db: Database, items: str, store: Store) -> None:
    """The first clause that applies to a row counts; a row without a clause stays."""
    merge = """
        MERGE INTO items t USING (
            SELECT * FROM VALUES (1L, 'one', 0), (2L, 'gone', -1), (8L, 'new', 8), (9L, 'no', -1)
            AS s(id, name, n)) s
        ON t.id = s.id
        WHEN MATCHED AND s.n < 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND s.n >= 0 THEN INSERT (id, name) VALUES (s.id, s.name)
        WHEN NOT MATCHED BY SOURCE AND t.n IS NULL THEN UPDATE SET n = t.id * 100
    """
    assert count_changes(db, merge) == (1, 2, 1)
    assert sorted_rows(store, items) == [(1, "one", 0), (3, "c", 300), (8, "new", None)]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("WHEN MATCHED THEN DELETE", [(1, "a", 10), (3, "c", None)]),
        (
            "WHEN NOT MATCHED THEN INSERT *",
            [(1, "a", 10), (2, "b", 20), (3, "c", None), (5, "e", 5)],
        ),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", [(2, "b", 20)]),
        (
            (
                "WHEN NOT MATCHED BY SOURCE AND id = 1 THEN UPDATE SET n = n + id "
                "WHEN NOT MATCHED AND n > 4 THEN INSERT (id, name) VALUES (id, concat(name, `n`))"
            ),
            [(1, "a", 11), (2, "b", 20), (3, "c", None), (5, "e5", None)],
        ),
        (
            "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
            [(2, "b", 20), (5, "e", 5)],
        ),
        (
            "WHEN MATCHED THEN UPDATE SET t.id = 4, n = s.n + t.n WHEN NOT MATCHED THEN INSERT *",
            [(1, "a", 10), (3, "c", None), (4, "b", 22), (5, "e", 5)],
        ),
    ],
)
def test_a_merge_may_have_any_clauses(
    db: Database, spark: SparkSession, items: str, store: Store, clauses: str, expected: list[Any]
) -> None:
    """All clauses of Spark's MERGE; the source may be a view of the session."""
    rows = spark.createDataFrame([(2, "z", 2), (5, "e", 5)], "id BIGINT, name STRING, n INT")
    rows.createOrReplaceTempView("merged")
    try:
        db.sql(f"MERGE INTO items t USING merged AS s ON t.id = s.id {clauses}")
    finally:
        spark.catalog.dropTempView("merged")

    assert sorted_rows(store, items) == expected


@pytest.mark.parametrize(
    ("source", "clauses", "trouble"),
    [
        ("(VALUES (2L), (2L)) s(k)", "WHEN MATCHED THEN UPDATE SET n = 1", "changed twice"),
        (
            "(VALUES (2L, 1), (2L, 2), (2L, 2)) s(k, v)",
            "WHEN MATCHED AND s.v = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 1",
            "changed twice",
        ),
        (
            "(VALUES (5L), (5L)) s(k)",
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (k, 'x')",
            "two rows",
        ),
        (
            "(VALUES (5L)) s(k)",
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (3, 'x')",
            "key of an existing row",
        ),
    ],
)
def test_a_merge_that_says_two_things_of_a_row_is_refused(
    db: Database, items: str, store: Store, source: str, clauses: str, trouble: str
) -> None:
    """Nothing decides which of two changes of one row counts."""
    before = store.epoch

    with pytest.raises(DuplicateKeyError, match=trouble):
        db.sql(f"MERGE INTO items t USING {source} ON t.id = s.k {clauses}")
    assert store.epoch == before


@pytest.mark.parametrize("condition", ["", "AND s.v > 0"])
def test_a_merge_deletes_a_row_once_for_several_rows_of_its_source(
    db: Database, items: str, store: Store, condition: str
) -> None:
    """As Spark and Delta Lake do; the row is counted once, and its key is free for a new row."""
    source = "(VALUES (2L, 1), (2L, 2), (3L, 0), (5L, 9)) s(k, v)"
    merge = f"MERGE INTO items t USING {source} ON t.id = s.k AND s.v > 0"
    counts = db.sql(
        f"{merge} WHEN MATCHED {condition} THEN DELETE "
        "WHEN NOT MATCHED AND s.v = 9 THEN INSERT (id, name) VALUES (2, 'new')"
    ).collect()[0]

    assert [counts.num_inserted_rows, counts.num_deleted_rows] == [1, 1]
    assert sorted_rows(store, items) == [(1, "a", 10), (2, "new", None), (3, "c", None)]
