"""What many tests do through Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.sql import Database
    from relstate.storage import Store


def orders_of(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    """Return orders, each (id, customer), with an amount that follows from the id."""
    values = ", ".join(f"({key}, '{customer}')" for key, customer in rows)
    return spark.sql(
        "SELECT id, customer, CAST(id * 1.5 AS DECIMAL(12,2)) AS amount, "
        f"CAST(NULL AS STRING) AS note FROM VALUES {values} AS t(id, customer)"
    )


def save(rows: DataFrame, store: Store, table: str, mode: str = "append", **options: Any) -> None:
    """Write rows to a table."""
    writer = rows.write.format("relstate").option("table", table).options(**options)
    writer.mode(mode).save(store.path)


def load(spark: SparkSession, store: Store, table: str, **options: Any) -> DataFrame:
    """Return a table as a DataFrame."""
    reader = spark.read.format("relstate").option("table", table).options(**options)
    return reader.load(store.path)


def customers(rows: DataFrame) -> dict[int, str]:
    """Return the customer of every order by its id; fails where an id is there twice."""
    pairs = [(row.id, row.customer) for row in rows.select("id", "customer").collect()]
    assert len(pairs) == len({key for key, _ in pairs})
    return dict(pairs)


def count_changes(db: Database, statement: str) -> tuple[int, int, int]:
    """Run a statement, which must make one epoch; return (inserted, updated, deleted)."""
    before = db.store.epoch
    (row,) = db.sql(statement).collect()
    counts = (row.num_inserted_rows, row.num_updated_rows, row.num_deleted_rows)
    assert row.num_affected_rows == sum(counts)
    assert row.epoch == db.store.epoch == before + (1 if sum(counts) else 0)
    return counts


def sorted_rows(store: Store, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table, sorted by their text."""
    rows = (tuple(row.values()) for row in store.table(table).to_arrow().to_pylist())
    return sorted(rows, key=str)
