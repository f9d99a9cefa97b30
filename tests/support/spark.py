"""What many tests do through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from .stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from relstate.connector.sql import Database
    from relstate.storage import Store

# Settings of sessions whose answers are compared with ours. The rows are few: compiling a query
# takes longer than running it. Views may have ASOF JOIN and TIME, which Spark reads if told to.
INTERPRETED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.join.asofJoin.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.timeType.enabled": "true",
}


def interpreted(spark: SparkSession) -> AbstractContextManager[None]:
    """Let a session interpret the queries of a block instead of compiling them."""
    return configured(spark, INTERPRETED)


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Let a session have some settings in a block."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value_before in before.items():
            if value_before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value_before)


def orders_of(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    """Return orders, each (id, customer), with an amount that follows from the id."""
    values = ", ".join(f"({key}, '{customer}')" for key, customer in rows)
    return spark.sql(
        "SELECT id, customer, CAST(id * 1.5 AS DECIMAL(12,2)) AS amount, "
        f"CAST(NULL AS STRING) AS note FROM VALUES {values} AS t(id, customer)"
    )


def put_orders(store: Store, *rows: tuple[int, str]) -> str:
    """Write the rows of `orders_of` to the table of orders without Spark; return its name."""
    upsert(store, "orders", [(key, name, Decimal(key) * 3 / 2, None) for key, name in rows])
    return "orders"


def save(rows: DataFrame, store: Store, table: str, mode: str = "append", **options: Any) -> None:
    """Write rows to a table."""
    writer = rows.write.format("relstate").option("table", table).options(**options)
    writer.mode(mode).save(store.path)


def load(spark: SparkSession, store: Store, table: str, **options: Any) -> DataFrame:
    """Return a table as a DataFrame."""
    reader = spark.read.format("relstate").option("table", table).options(**options)
    return reader.load(store.path)


def only_row(frame: DataFrame) -> Row:
    """Return the row of a DataFrame that has one."""
    (row,) = frame.collect()
    return row


def properties_of(db: Database, table: str) -> dict[str, str]:
    """Return the properties of a table or view as SQL shows them."""
    rows = db.sql(f"SHOW TBLPROPERTIES {table}").collect()
    return {row.key: row.value for row in rows}


def schema_of(columns: str) -> StructType:
    """Return the schema of some columns, which are given as DDL. A session must be active."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    return schema


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


def jobs(spark: SparkSession) -> set[int]:
    """Return the ids of the jobs that Spark has run."""
    context: Any = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    return set(context.statusTracker().getJobIdsForGroup(None))
